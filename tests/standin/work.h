/* work.h: what the look-alike of the driver was asked to do and has not done yet. Work is done only
 * when somebody waits, in one of the orders that the recorded dependencies allow, another one each
 * time; work that touches the same bytes without an order between it is reported. */
#ifndef LW_TESTS_STANDIN_WORK_H
#define LW_TESTS_STANDIN_WORK_H

#include "runtime/cuda/driver.h"

typedef enum op_kind { OP_NOTHING, OP_COPY, OP_FILL, OP_LAUNCH } op_kind;
typedef struct op {
  op_kind kind;
  void *to;
  const void *from;
  size_t bytes;
  unsigned char value;
  lw_cu_function function;
  unsigned int grid;
  unsigned int block, shared_bytes;
  uint64_t *parameters; /* owned */
} op;

typedef struct work work;
/* A stream or an event: the work that ends it. */
typedef struct work_place {
  struct work_place *next;
  work *last; /* NULL: nothing that is not known to be done */
} work_place;

void work_open(work_place *place);
void work_close(work_place *place);

/* After what the stream holds. */
void work_put(work_place *stream, op operation);
/* What is put into the stream from now on comes after the event's work. */
void work_wait(work_place *stream, const work_place *event);
/* The nodes of a graph after what the stream holds: node i has operation(i) and comes after the
 * nodes dep(i, 0) ... dep(i, dep_count(i) - 1), which have smaller numbers. */
typedef struct work_node {
  op operation;
  const int *deps;
  int dep_count;
} work_node;
void work_put_graph(work_place *stream, const work_node *nodes, int count);

/* Does it, and whatever must come before it; other work may be done, too. */
void work_finish(work_place *place);
void work_finish_all(void);
bool work_is_pending(const work_place *place);
/* Forgets it, and whatever must come before it: the device failed. */
void work_drop(work_place *place);
void work_drop_all(void);
/* Whether any work that is not done satisfies |matches|. */
bool work_any(bool (*matches)(const op *operation, const void *data), const void *data);

/* A pseudo-random number that follows from the state's |seed|. */
uint64_t work_random(void);

/* What the driver gives: does one operation, touching memory as memory.h wants it; names it. */
void standin_execute(const op *operation);
const char *standin_name(const op *operation);
void standin_violation(const char *fmt, ...) __attribute__((format(printf, 1, 2)));
uint64_t *standin_seed(void);

#endif

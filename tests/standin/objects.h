/* objects.h: what the files of the look-alike of the driver share: objects, counting calls, failing
 * on demand, the rules that every call checks. */
#ifndef LW_TESTS_STANDIN_OBJECTS_H
#define LW_TESTS_STANDIN_OBJECTS_H

#include "standin/standin.h"
#include "standin/work.h"

enum {
  MAP_WORDS = 16,
  INVALID_VALUE = 1,
  INVALID_CONTEXT = 201,
  INVALID_HANDLE = 400,
  NOT_FOUND = 500,
  NOT_READY = 600,
  CAPTURE_UNSUPPORTED = 900,
  CAPTURE_INVALIDATED = 901,
  CAPTURE_UNMATCHED = 903,
  CAPTURE_UNJOINED = 904,
  CAPTURE_IMPLICIT = 906,
  NODES_MAX = 4096,
  NODE_DEPS_MAX = 64
};

/* A capture that has begun and not ended. */
typedef struct capture {
  struct capture *next;
  lw_cu_graph graph;
  lw_cu_stream origin;
  int mode;
  const void *thread; /* an address that is the thread's own */
  bool invalid;
} capture;

struct lw_cu_stream_object {
  struct lw_cu_stream_object *next;
  work_place place;
  capture *capture;  /* that it is part of */
  int tails[NODE_DEPS_MAX], tail_count; /* of the capture's graph: what the next node comes after */
};
struct lw_cu_event_object {
  struct lw_cu_event_object *next;
  int recorded;
  work_place place; /* of the last record */
  capture *capture; /* the last record was part of; |tails| then */
  int tails[NODE_DEPS_MAX], tail_count;
};
struct lw_cu_module_object {
  int alive;
  void *handle; /* of compiled source; NULL: the built-in functions */
  struct lw_cu_function_object *first;
};
struct lw_cu_function_object {
  const char *name;
  int which, shared_limit; /* |which| is -1 for compiled source */
  int parameters; /* in words of 8 bytes: one each, but MAP_WORDS for tensor maps, which are last */
  int maps, threads_max, meets;
  void (*call)(const uint64_t *parameters);
  lw_cu_module module;
  struct lw_cu_function_object *next;
};
struct lw_cu_context_object {
  int unused;
};

extern lw_standin_state standin;
extern struct lw_cu_context_object the_context;

/* Every function of the driver holds one lock. */
int standin_lock(void);
void standin_unlock(const int *locked);
/* Counts the call; true when it is the one to fail. */
bool standin_injected(const char *call, bool cleanup);
bool standin_has_context(const char *call); /* false: a violation */
/* Calls that a capture forbids: 0, or the error; captures that it breaks are invalid then. */
int standin_unsafe(const char *call);
void *standin_object(size_t bytes); /* zeroed */
void standin_free_object(void *memory);
struct lw_cu_stream_object *standin_stream(lw_cu_stream stream); /* NULL: no such stream */
bool standin_holds(const char *call, lw_cu_address address, size_t bytes);
void *standin_pointer(lw_cu_address address);
uint64_t *standin_parameters(lw_cu_function function, void **parameters);
/* Into the stream, or into the graph of the capture that the stream is part of. */
int standin_put(const char *call, lw_cu_stream stream, op operation);
/* No stream and no event is part of |c| any more. */
void standin_leave_capture(const capture *c);
/* cuda_graphs.c: adds a node to the graph of |s|'s capture; waits for an event inside or outside of
 * one. */
int standin_capture_op(struct lw_cu_stream_object *s, op operation);
int standin_wait_event(struct lw_cu_stream_object *s, const struct lw_cu_event_object *event);

#define ENTER \
  const int locked_here __attribute__((unused, cleanup(standin_unlock))) = standin_lock()
#define CALL()                                                    \
  ENTER;                                                          \
  if (standin_injected(__func__, false)) return standin.fail_code
/* An injected failure of a cleanup is reported after the work was done: nobody could do it again.
 */
#define CLEANUP() \
  ENTER;          \
  const bool fails = standin_injected(__func__, true)
#define CLEANED() return fails ? standin.fail_code : 0
#define NEEDS_CONTEXT()                                      \
  do {                                                       \
    if (!standin_has_context(__func__)) return INVALID_CONTEXT; \
  } while (0)
#define NOT_IN_CAPTURE()                           \
  do {                                             \
    const int unsafe = standin_unsafe(__func__);   \
    if (unsafe != 0) return unsafe;                \
  } while (0)

/* Names and types must be those that the runtime looks for. */
#define DECLARE(name, symbol, parameters) \
  __attribute__((visibility("default"))) lw_cu_result symbol parameters;
LW_CU_SYMBOLS(DECLARE)
LW_CU_OPTIONAL_SYMBOLS(DECLARE)
LW_STANDIN_SYMBOLS(DECLARE)
#undef DECLARE

#endif

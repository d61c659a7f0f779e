/* interp_state.h: the state of a run of the kernel interpreter, shared by its two files: interp.c
 * executes, interp_memory.c holds memory and checks accesses. */
#ifndef LW_COMPILER_KERNEL_INTERP_STATE_H
#define LW_COMPILER_KERNEL_INTERP_STATE_H

#include "compiler/kernel/interp.h"
#include "compiler/kernel/walk.h"

/* Who touched an element last. Epochs count barriers and block starts of the whole launch, from 1:
 * accesses of one epoch are not ordered among threads. */
typedef struct ki_cell {
  uint32_t write_epoch, read_epoch;
  uint32_t write_block, read_block; /* block + 1; 0: none; KI_MANY: several */
  uint16_t writer, reader;          /* threads; KI_MANY_THREADS: several */
  bool under_way;                   /* shared: a COPY has not arrived */
} ki_cell;
#define KI_MANY UINT32_MAX
#define KI_MANY_THREADS UINT16_MAX

/* An element of a local array. */
typedef struct ki_slot {
  lw_scalar value;
  uint32_t block_epoch; /* first epoch of the block that wrote it */
  uint32_t loop, writer,
      reader; /* serial number of the VECTOR loop that touched it, and iterations + 1 */
} ki_slot;

/* A product being executed. */
typedef struct ki_product {
  int64_t rows, first; /* element of thread 0 */
  float *a, *b;        /* [rows][depth], [columns][depth] */
  float *sums;         /* per thread */
} ki_product;
/* An element under way: what a COPY read, until its thread waits for it. */
typedef struct ki_copy {
  uint32_t array, thread, group;
  int64_t index;
  lw_scalar value;
} ki_copy;

typedef struct ki {
  const lw_kernel *kernel;
  const lw_kinterp_buffer *buffers;
  const int64_t *scalars;
  lw_diag *diag;
  lw_kinterp_counts counts;
  lw_arena arena;
  uint32_t threads;
  uint8_t *live, *plain, *leads;
  lw_scalar **values; /* per instruction with a value: one per thread */
  ki_cell **cells;    /* per written buffer */
  int64_t *lengths;   /* per buffer: elements */
  lw_scalar **shared;
  ki_cell **shared_cells;
  ki_slot **locals; /* per array: count * threads, by element, then thread */
  uint8_t *masks;   /* per depth: threads bytes */
  int64_t block;
  uint32_t epoch, block_epoch;
  uint32_t instr;                        /* where we are, for messages */
  LW_VEC(ki_copy) copies; /* under way */
  uint32_t *groups;       /* per thread: groups that its COPY_ENDs closed */
  uint32_t loop, iteration, loop_serial; /* the VECTOR loop around, 0: none */
  ki_product *product;                   /* kernels with a product */
} ki;

/* interp.c: runs a region for the threads that its mask has. */
lw_status ki_region(ki *k, uint32_t region, unsigned depth) LW_MUST_CHECK;
/* interp_product.c */
lw_status ki_product_run(ki *k) LW_MUST_CHECK;
void ki_product_leaf(const ki *k, const lw_kinstr *in, lw_scalar *out); /* SUM, ROW, COLUMN */
/* A store to the product's result at element |at| must be the one of its row and column. */
lw_status ki_product_check_store(const ki *k, const lw_kinstr *in, uint32_t thread,
                                 int64_t at) LW_MUST_CHECK;

lw_status ki_fail(const ki *k, uint32_t thread, const char *fmt, ...) LW_PRINTF(3, 4);
lw_status ki_memory_init(ki *k) LW_MUST_CHECK;
/* Element index of an access to buffer |in->object| by |thread|, checked to lie inside it with
 * |width| - 1 more. */
lw_status ki_place(const ki *k, const lw_kinstr *in, uint32_t thread, uint32_t width,
                   int64_t *out) LW_MUST_CHECK;
lw_status ki_buffer_get(ki *k, uint32_t buffer, int64_t index, uint32_t thread,
                        lw_scalar *out) LW_MUST_CHECK;
lw_status ki_buffer_set(ki *k, uint32_t buffer, int64_t index, uint32_t thread,
                        lw_scalar x) LW_MUST_CHECK;
lw_status ki_shared_get(ki *k, uint32_t array, int64_t index, uint32_t thread,
                        lw_scalar *out) LW_MUST_CHECK;
lw_status ki_shared_set(ki *k, uint32_t array, int64_t index, uint32_t thread,
                        lw_scalar x) LW_MUST_CHECK;
/* A COPY to the element begins: nobody else may touch it in this epoch, and nobody read it before
 * it arrives. */
lw_status ki_shared_send(ki *k, uint32_t array, int64_t index, uint32_t thread,
                         lw_scalar x) LW_MUST_CHECK;
/* COPYs of the threads of |mask| arrive, but for those of each one's |keep| latest groups. */
lw_status ki_shared_arrive(ki *k, const uint8_t *mask, uint32_t keep) LW_MUST_CHECK;
lw_status ki_local_get(ki *k, uint32_t array, int64_t index, uint32_t thread,
                       lw_scalar *out) LW_MUST_CHECK;
lw_status ki_local_set(ki *k, uint32_t array, int64_t index, uint32_t thread,
                       lw_scalar x) LW_MUST_CHECK;

#endif

/* interp.h (kernel): runs kernel IR on the host in lock step, one block at a time, and checks it:
 * every access inside its buffer, LOADV/STOREV aligned, no read of shared or local memory that
 * nothing wrote, barriers and block-wide reductions reached by all threads, no two threads touching
 * the same shared or buffer element without a barrier between them when one of them writes, no two
 * blocks touching the same buffer element when one writes. A kernel with a product is executed by
 * its meaning, whatever the grid: sums over k in order in f32, then its body for every element; of
 * its operands each element counts as loaded once. */
#ifndef LW_COMPILER_KERNEL_INTERP_H
#define LW_COMPILER_KERNEL_INTERP_H

#include "compiler/kernel/kernel.h"

typedef struct lw_kinterp_buffer { void *data; size_t bytes; } lw_kinterp_buffer;
typedef struct lw_kinterp_counts { /* elements and bytes of buffers moved by all threads of the
                                      launch */
  uint64_t load_bytes, store_bytes, loads, stores, instructions;
} lw_kinterp_counts;
/* Arithmetic is that of the declared types (f32 in float). A violation is LW_STATUS_INTERNAL with
 * the instruction, block, thread. |out_counts| may be NULL. */
lw_status lw__kinterp_run(const lw_kernel *kernel, int64_t grid, const lw_kinterp_buffer *buffers,
                          const int64_t *scalars, lw_diag *diag,
                          lw_kinterp_counts *out_counts) LW_MUST_CHECK;

#endif

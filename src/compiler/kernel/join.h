/* join.h: several kernels side by side in one launch: the first blocks do the work of the first,
 * the next of the second, and so on. */
#ifndef LW_COMPILER_KERNEL_JOIN_H
#define LW_COMPILER_KERNEL_JOIN_H

#include "compiler/kernel/kernel.h"

typedef struct lw_kjoin_part {
  const lw_kernel *kernel;
  int64_t grid;
} lw_kjoin_part;

/* A GPU kernel of class SIDE whose launch has the blocks of all parts, in order. Its arguments are
 * the buffers of all parts, in order, then their scalars. Parts have equally many threads and no
 * product skeleton. Shared and local arrays of different parts share memory where their types are
 * equal. */
lw_status lw__kernel_join(const lw_kjoin_part *parts, uint32_t count, lw_kernel *out) LW_MUST_CHECK;

#endif

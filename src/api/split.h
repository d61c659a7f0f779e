/* split.h: what becomes of kernels that are of no use: the compiler rejects them, the device does
 * not take them, or they spill registers. Their groups are taken apart and planned again. */
#ifndef LW_API_SPLIT_H
#define LW_API_SPLIT_H

#include "compiler/fuse/fuse.h"
#include "compiler/lower/lower.h"

typedef enum lw_trouble {
  LW_TROUBLE_NONE,
  LW_TROUBLE_SPILLS, /* slower than its parts are likely to be; taken as it is in the end */
  LW_TROUBLE_BUILD,  /* the compiler rejects it */
  LW_TROUBLE_LOAD,   /* the device does not take it */
} lw_trouble;
/* "spills registers", "does not build", "is refused by the device". */
const char *lw__trouble_name(lw_trouble trouble);

typedef struct lw_kernel_fate {
  lw_trouble trouble;
  const char *text; /* the compiler's or the driver's words, or "" */
} lw_kernel_fate;

/* One group that was taken apart. */
typedef struct lw_split {
  lw_trouble trouble;
  const char *kernel, *nodes; /* of the group: its kernel in trouble, and its nodes, shortened */
  const char *fusion; /* the fusion that is forbidden from now on; "" when all of them are */
  const char *text;
} lw_split;
typedef LW_VEC(lw_split) lw_splits;

typedef struct lw_split_input {
  const lw_graph *graph;
  const lw_fusion *fusion;
  const lw_lowered *lowered;             /* per group */
  const uint32_t *first_kernel;          /* per group: index into ... */
  const uint32_t *launch_kernel;         /* ... this, which gives kernels */
  const lw_kernel_fate *fates;           /* per kernel */
  const char *const *names;
  uint32_t round; /* how often the model was planned before */
  lw_arena *arena;
  lw_diag *diag;
} lw_split_input;

/* Adds to |fuse->forbid| what takes the groups of kernels in trouble apart: the dearest fusion of
 * each, from the third round on all of them where the kernel cannot be used at all. |*out_again|:
 * there is something to plan again. Fails when an unusable kernel's group has no fusion that could
 * be taken back. */
lw_status lw__split_groups(const lw_split_input *in, lw_fuse_options *fuse, lw_splits *splits,
                           bool *out_again) LW_MUST_CHECK;

#endif

/* lower.h: turns one fused group into kernels of one target: which thread computes what, what stays
 * on chip, how wide the memory accesses are. Every choice is made here, none in the emitters. */
#ifndef LW_COMPILER_LOWER_H
#define LW_COMPILER_LOWER_H

#include "compiler/fuse/fuse.h"
#include "compiler/fuse/region.h"
#include "compiler/kernel/kernel.h"
#include "device/device.h"

typedef enum lw_larg_kind { LW_LARG_VALUE, LW_LARG_SCRATCH, LW_LARG_SCALAR } lw_larg_kind;
typedef struct lw_larg {
  lw_larg_kind kind;
  lw_value_id value;    /* VALUE */
  uint32_t scratch;     /* SCRATCH: index into lw_lowered.scratch_bytes */
  int64_t scalar;       /* SCALAR: an outer extent */
  bool written;
} lw_larg;

typedef struct lw_launch {
  lw_kernel kernel;
  int64_t grid;
  LW_VEC(lw_larg) args; /* buffers in kernel order, then scalars */
} lw_launch;

typedef struct lw_lowered {
  LW_VEC(lw_launch) launches;      /* in order; none for a group without elements */
  uint32_t joined; /* how many of the groups that follow have their work in this one's launch */
  LW_VEC(uint64_t) scratch_bytes;
  const char *schedule; /* one phrase for reports: "rows of 128 threads, 4 wide, in registers"; in
                           |arena| */
  lw_arena arena;
} lw_lowered;

typedef struct lw_lower_options {
  lw_ktarget target;
  const lw_device_profile *profile;
  const lw_resource_policy *policy;
  const struct lw_mma_tile
      *mma_tile; /* NULL: chosen; else what tensor cores shall take (benches) */
  /* Kernels that the compiler made nothing good of (they spill, or their matrix instructions were
   * serialized): where a lowering has a choice it takes the next best. */
  const lw_hash *rejected;
  uint32_t rejected_count;
  bool sm90_always; /* products that suit sm_90a's own kernels take them, also where another kernel
                       is predicted to be faster (tests) */
  uint32_t threads; /* 0: any; else what products on tensor cores shall have per block, if a tile
                       can */
} lw_lower_options;

/* |nodes|: a group of lw__fuse. */
lw_status lw__lower_group(lw_region_context *ctx, const lw_node_id *nodes, uint32_t count,
                          const lw_lower_options *options, lw_diag *diag,
                          lw_lowered *out) LW_MUST_CHECK;
void lw__launch_deinit(lw_launch *launch);
void lw__lowered_deinit(lw_lowered *lowered);

#endif

/* reduce.h: the lowerings of reduction groups and what they agree on. Internal to lower/. */
#ifndef LW_COMPILER_REDUCE_H
#define LW_COMPILER_REDUCE_H

#include "compiler/lower/nest.h"

/* What the plain placement of a reduction group tells. */
typedef struct lw_reduce_shape {
  int64_t rows, cols;
  int64_t lanes;          /* largest vector along the columns that keeps out of divisions */
  bool columns_strided;   /* the big loads are contiguous along the rows, not along the columns */
} lw_reduce_shape;

/* Few long rows are cut into pieces: one launch per stage, each beginning with the pieces' results
 * of the stages before. */
lw_status lw__lower_reduce_gpu(lw_region_context *ctx, const lw_node_id *nodes, uint32_t count,
                               const lw_reduce_shape *shape, const lw_lower_options *options,
                               lw_diag *diag, lw_lowered *out) LW_MUST_CHECK;
lw_status lw__lower_reduce_cpu(lw_region_context *ctx, const lw_node_id *nodes, uint32_t count,
                               const lw_reduce_shape *shape, const lw_lower_options *options,
                               lw_diag *diag, lw_lowered *out) LW_MUST_CHECK;

#endif

/* transpose.h: the tiled lowering of element-wise groups that turn data. Internal to lower/. */
#ifndef LW_COMPILER_TRANSPOSE_H
#define LW_COMPILER_TRANSPOSE_H

#include "compiler/lower/nest.h"

/* |plain|: the group placed over the linear index |i|. *out_done false (and no launch made) when
 * nothing is turned, or the group is too small or irregular for tiles. */
lw_status lw__lower_transpose_gpu(lw_region_context *ctx, const lw_node_id *nodes, uint32_t count,
                                  const lw_region *plain, lw_ix i, const lw_lower_options *options,
                                  lw_diag *diag, lw_lowered *out, bool *out_done) LW_MUST_CHECK;

#endif

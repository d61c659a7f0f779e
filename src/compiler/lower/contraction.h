/* contraction.h: the lowerings of products and convolutions. Both are sums over k of lhs(b, m, k) *
 * rhs(b, n, k), whatever the factors look like; the generic kernels here are right for every
 * layout, prologue and epilogue. Internal to lower/. */
#ifndef LW_COMPILER_CONTRACTION_H
#define LW_COMPILER_CONTRACTION_H

#include "compiler/lower/nest.h"

typedef struct lw_contraction_space { lw_ix b, m, n, k; } lw_contraction_space;

/* Type the products are summed in: f32 for floats up to f32, f64, integers their own. */
lw_dtype lw__contraction_type(const lw_region *region);
/* One product term in that type: lhs * rhs. */
lw_kval lw__contraction_factor(lw_nest *nest, lw_elem factor, lw_dtype type);
/* Is |factor|'s main load contiguous along |var|? */
bool lw__contraction_runs_along(lw_region *region, lw_elem factor, lw_ix var);
/* The same for the first result that is stored. */
bool lw__contraction_stores_along(lw_region *region, lw_ix var);

/* On tensor cores, when both factors are of a type that they multiply, the device has them, and a
 * tile keeps the policy's limits: else *out_done is false and nothing was lowered. */
lw_status lw__lower_contraction_mma(lw_region_context *ctx, const lw_node_id *nodes, uint32_t count,
                                    const lw_lower_options *options, lw_diag *diag, lw_lowered *out,
                                    bool *out_done) LW_MUST_CHECK;
/* Products on Hopper's tensor cores. LW_STATUS_UNSUPPORTED, and nothing in |out|, when the region
 * is not one for them (lw__region_suits_sm90) or no configuration is left. */
lw_status lw__lower_contraction_sm90(lw_region_context *ctx, const lw_node_id *nodes,
                                     uint32_t count, const lw_lower_options *options,
                                     lw_diag *diag, lw_lowered *out) LW_MUST_CHECK;
lw_status lw__lower_contraction_gpu(lw_region_context *ctx, const lw_node_id *nodes, uint32_t count,
                                    const lw_lower_options *options, lw_diag *diag,
                                    lw_lowered *out) LW_MUST_CHECK;
lw_status lw__lower_contraction_cpu(lw_region_context *ctx, const lw_node_id *nodes, uint32_t count,
                                    const lw_lower_options *options, lw_diag *diag,
                                    lw_lowered *out) LW_MUST_CHECK;

#endif

/* contraction.c: what the targets' lowerings of contractions share. */
#include "compiler/lower/contraction.h"

lw_dtype lw__contraction_type(const lw_region *region) {
  const lw_graph *g = region->ctx->graph;
  return lw__carry_type(lw__value(g, lw__node(g, region->anchor)->result)->dtype);
}

lw_kval lw__contraction_factor(lw_nest *nest, lw_elem factor, lw_dtype type) {
  return lw__kb_cast(&nest->kb, lw__nest_elem(nest, factor), type);
}

/* The biggest load below |e| decides. */
static lw_elem main_load(const lw_region *region, lw_elem e, lw_elem best) {
  if (e == LW_NONE) return best;
  const lw_elem_node *n = lw__elem_node(&region->pool, e);
  const lw_graph *g = region->ctx->graph;
  if (n->kind == LW_ELEM_LOAD &&
      (best == LW_NONE ||
       lw__shape_numel(&lw__value(g, n->value)->shape) >
           lw__shape_numel(&lw__value(g, lw__elem_node(&region->pool, best)->value)->shape)))
    best = e;
  for (int i = 0; i < 3; i++) best = main_load(region, n->arg[i], best);
  return best;
}

/* Where |var| takes its first step: an address may have divisions in it and still run along the
 * variable. */
static bool first_step_is_one(const lw_ix_pool *ix, lw_ix offset, lw_ix var) {
  int64_t at[64] = {0};
  if (lw__ix_node(ix, var)->kind != LW_IX_VAR || ix->extents.count > LW_ARRAY_COUNT(at))
    return false;
  int64_t here = lw__ix_eval(ix, offset, at);
  at[lw__ix_var_number(ix, var)] = 1;
  return lw__ix_eval(ix, offset, at) - here == 1;
}

bool lw__contraction_runs_along(lw_region *region, lw_elem factor, lw_ix var) {
  lw_elem load = main_load(region, factor, LW_NONE);
  return load != LW_NONE &&
         first_step_is_one(&region->pool.ix, lw__elem_node(&region->pool, load)->ix, var);
}

bool lw__contraction_stores_along(lw_region *region, lw_ix var) {
  return region->outputs.count &&
         first_step_is_one(&region->pool.ix, region->outputs.data[0].offset, var);
}

lw_status lw__lower_contraction(lw_region_context *ctx, const lw_node_id *nodes, uint32_t count,
                                const lw_lower_options *options, lw_diag *diag, lw_lowered *out) {
  if (options->target == LW_KTARGET_GPU && options->mma_tile == NULL && options->threads == 0) {
    lw_status status = lw__lower_contraction_sm90(ctx, nodes, count, options, diag, out);
    if (status != LW_STATUS_UNSUPPORTED) return status;
  }
  return options->target == LW_KTARGET_GPU
             ? lw__lower_contraction_gpu(ctx, nodes, count, options, diag, out)
             : lw__lower_contraction_cpu(ctx, nodes, count, options, diag, out);
}

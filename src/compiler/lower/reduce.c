/* reduce.c: looks at how a reduction group lies in memory and picks the layout of its kernel. */
#include "compiler/lower/reduce.h"

#include "compiler/lower/nest.h"

enum { alone_limit = 256 };

/* The load that moves most: its value has the most elements and its address follows the column. */
static lw_elem biggest_load(const lw_region *region, uint32_t column) {
  lw_elem best = LW_NONE;
  int64_t most = -1;
  for (uint32_t e = 0; e < region->pool.nodes.count; e++) {
    const lw_elem_node *n = &region->pool.nodes.data[e];
    if (n->kind != LW_ELEM_LOAD || !lw__ix_depends(&region->pool.ix, n->ix, column)) continue;
    int64_t count = lw__shape_numel(&lw__value(region->ctx->graph, n->value)->shape);
    if (count > most) most = count, best = e;
  }
  return best;
}

static bool is_unit_stride(lw_ix_pool *ix, lw_ix e, lw_ix var) {
  int64_t coef;
  lw_ix rest;
  return lw__ix_split(ix, e, lw__ix_var_number(ix, var), &coef, &rest) && coef == 1;
}

/* Columns are strided when the biggest load does not run along them: then neighbouring threads (or
 * lanes) take neighbouring rows. Long rows of an irregular kind still share a team. */
static bool are_columns_strided(lw_region *region, lw_ix r, lw_ix c) {
  lw_ix_pool *ix = &region->pool.ix;
  if (lw__ix_node(ix, c)->kind != LW_IX_VAR) return true;
  lw_elem big = biggest_load(region, lw__ix_var_number(ix, c));
  if (big == LW_NONE) return region->cols <= alone_limit;
  lw_ix offset = lw__elem_node(&region->pool, big)->ix;
  if (is_unit_stride(ix, offset, c)) return false;
  if (lw__ix_node(ix, r)->kind != LW_IX_VAR) return false;
  return is_unit_stride(ix, offset, r) || region->cols <= alone_limit;
}

static lw_status look_at(lw_region_context *ctx, const lw_node_id *nodes, uint32_t count,
                         lw_reduce_shape *out) {
  lw_region region;
  lw_ix space[4];
  lw_status status = lw__region_init(&region, ctx, nodes, count);
  if (status == LW_OK) {
    lw__region_plain_space(&region, space);
    status = lw__region_place(&region, space);
  }
  if (status == LW_OK) {
    out->rows = region.rows;
    out->cols = region.cols;
  }
  if (status == LW_OK && region.rows > 0) {
    out->columns_strided = are_columns_strided(&region, space[0], space[1]);
    out->lanes = 1;
    if (region.cols > 0)
      status = lw__nest_lane_limit(&region, space[1], region.cols, lw__nest_widest(&region),
                                   &out->lanes);
  }
  lw__region_deinit(&region);
  return status;
}

lw_status lw__lower_reduce(lw_region_context *ctx, const lw_node_id *nodes, uint32_t count,
                           const lw_lower_options *options, lw_diag *diag, lw_lowered *out) {
  lw_reduce_shape shape = {0};
  LW_TRY(look_at(ctx, nodes, count, &shape));
  if (shape.rows == 0) return LW_OK;
  return options->target == LW_KTARGET_GPU
             ? lw__lower_reduce_gpu(ctx, nodes, count, &shape, options, diag, out)
             : lw__lower_reduce_cpu(ctx, nodes, count, &shape, options, diag, out);
}

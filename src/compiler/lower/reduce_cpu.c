/* reduce_cpu.c: lowers reduction groups for CPUs. Row layout: one row after the other, partial
 * results in vector lanes. Column layout: the lanes are neighbouring rows, so nothing is ever
 * combined across lanes. */
#include <string.h>

#include "compiler/lower/reduce.h"
#include "compiler/lower/stages.h"

enum {
  row_lanes = 16,
  chunk_vectors = 256,
  column_lanes = 32,
  block_elements = 8192,
  kept_elements = 16384
};

typedef struct cpu_nest {
  lw_nest nest;
  lw_stages stages;
  bool across;        /* column layout */
  int64_t lanes;      /* of accumulators */
  lw_ix r, c, lane;   /* row layout: r, c. Column layout: row = r * lanes + lane, c */
  lw_kval lane_count; /* column layout: lanes in use */
  uint32_t *kept;     /* array per kept element, or NULL */
  uint32_t *acc;      /* array per reduction */
} cpu_nest;

static lw_kval ci(cpu_nest *cn, int64_t x) { return lw__kb_const_i(&cn->nest.kb, LW_DTYPE_I64, x); }
static lw_kval c32(cpu_nest *cn, int64_t x) {
  return lw__kb_const_i(&cn->nest.kb, LW_DTYPE_I32, x);
}
static lw_kval narrow(cpu_nest *cn, lw_kval x) {
  return lw__kb_cast(&cn->nest.kb, x, LW_DTYPE_I32);
}
static lw_kval op(cpu_nest *cn, lw_fn fn, lw_kval a, lw_kval b) {
  return lw__kb_fn(&cn->nest.kb, fn, a, b, LW_NONE);
}

/* ---- one element of a pass --------------------------------------------------------------------*/

static lw_status accumulate_lane(cpu_nest *cn, uint32_t pass, lw_kval at) {
  const lw_region *region = cn->nest.region;
  lw_kbuilder *kb = &cn->nest.kb;
  for (uint32_t i = 0; i < region->reductions.count; i++) {
    const lw_region_reduction *red = &region->reductions.data[i];
    if (red->stage != pass) continue;
    lw_fn combine = lw__red_info[lw__node(region->ctx->graph, red->node)->attr.reduce.fn].combine;
    lw_kval term = lw__nest_elem(&cn->nest, red->term);
    lw__kb_lset(kb, cn->acc[i], at,
                lw__kb_fn(kb, combine, lw__kb_lget(kb, cn->acc[i], at), term, LW_NONE));
  }
  for (uint32_t i = 0; i < cn->stages.kept.count && cn->kept; i++)
    if (cn->stages.first[cn->stages.kept.data[i]] == pass)
      lw__kb_lset(kb, cn->kept[i], cn->nest.whole_at,
                  lw__nest_elem(&cn->nest, cn->stages.kept.data[i]));
  return LW_OK;
}

static lw_status store_outputs(cpu_nest *cn, lw_place_kind kind) {
  const lw_region *region = cn->nest.region;
  for (uint32_t i = 0; i < region->outputs.count; i++)
    if (region->outputs.data[i].kind == kind)
      lw__nest_store(&cn->nest, &region->outputs.data[i], LW_NONE);
  return LW_OK;
}

static bool has_outputs(const cpu_nest *cn, lw_place_kind kind) {
  for (uint32_t i = 0; i < cn->nest.region->outputs.count; i++)
    if (cn->nest.region->outputs.data[i].kind == kind) return true;
  return false;
}

/* ---- loops ------------------------------------------------------------------------------------*/

/* Columns lo..hi of the current row, one by one or as vector lanes. */
static lw_status open_columns(cpu_nest *cn, lw_kval lo, lw_kval hi, lw_kloop loop, lw_kval *out_c) {
  *out_c = lw__kb_for(&cn->nest.kb, LW_DTYPE_I64, lo, hi, ci(cn, 1), loop);
  cn->nest.whole_at = narrow(cn, *out_c);
  return lw__nest_bind(&cn->nest, cn->c, *out_c);
}

static lw_status open_lanes(cpu_nest *cn, lw_kval *out_lane) {
  *out_lane = lw__kb_for(&cn->nest.kb, LW_DTYPE_I32, c32(cn, 0), cn->lane_count, c32(cn, 1),
                         LW_KLOOP_VECTOR);
  cn->nest.lane_at = *out_lane;
  return lw__nest_bind(&cn->nest, cn->lane, *out_lane);
}

static void close_loop(cpu_nest *cn) {
  lw__kb_end(&cn->nest.kb);
  lw__nest_forget(&cn->nest);
}

static lw_status init_accumulators(cpu_nest *cn, uint32_t pass) {
  const lw_region *region = cn->nest.region;
  const lw_graph *g = region->ctx->graph;
  lw_kbuilder *kb = &cn->nest.kb;
  for (uint32_t i = 0; i < region->reductions.count; i++) {
    if (region->reductions.data[i].stage != pass) continue;
    const lw_node *node = lw__node(g, region->reductions.data[i].node);
    lw_dtype carry = lw__carry_type(lw__value(g, node->result)->dtype);
    cn->acc[i] = lw__kb_local(kb, carry, (uint32_t)cn->lanes);
    lw_kval identity = lw__nest_identity(&cn->nest, node->attr.reduce.fn, carry);
    lw_kval lane = lw__kb_for_n(kb, cn->lanes, LW_KLOOP_VECTOR);
    lw__kb_lset(kb, cn->acc[i], lane, identity);
    close_loop(cn);
  }
  return LW_OK;
}

/* Columns lo..hi of the current row, whole vectors of lanes. */
static lw_status accumulate_vectors(cpu_nest *cn, uint32_t pass, lw_kval lo, lw_kval hi) {
  lw_kbuilder *kb = &cn->nest.kb;
  lw_kval base = lw__kb_for(kb, LW_DTYPE_I64, lo, hi, ci(cn, cn->lanes), LW_KLOOP_SERIAL);
  lw_kval lane = lw__kb_for_n(kb, cn->lanes, LW_KLOOP_VECTOR);
  lw_kval c = op(cn, LW_FN_ADD, base, lw__kb_cast(kb, lane, LW_DTYPE_I64));
  cn->nest.whole_at = narrow(cn, c);
  LW_TRY(lw__nest_bind(&cn->nest, cn->c, c));
  LW_TRY(accumulate_lane(cn, pass, lane));
  close_loop(cn);
  close_loop(cn);
  return LW_OK;
}

/* Column layout: columns lo..hi of all lanes. */
static lw_status accumulate_columns(cpu_nest *cn, uint32_t pass, lw_kval lo, lw_kval hi) {
  lw_kval c, lane;
  LW_TRY(open_columns(cn, lo, hi, LW_KLOOP_SERIAL, &c));
  LW_TRY(open_lanes(cn, &lane));
  cn->nest.whole_at = op(cn, LW_FN_ADD, op(cn, LW_FN_MUL, narrow(cn, c), c32(cn, cn->lanes)), lane);
  LW_TRY(accumulate_lane(cn, pass, lane));
  close_loop(cn);
  close_loop(cn);
  return LW_OK;
}

/* The lanes of the accumulators of |pass| into those of |totals|, which take their place. */
static void add_to_totals(cpu_nest *cn, uint32_t pass, const uint32_t *totals) {
  const lw_region *region = cn->nest.region;
  lw_kbuilder *kb = &cn->nest.kb;
  for (uint32_t i = 0; i < region->reductions.count; i++) {
    const lw_node *node = lw__node(region->ctx->graph, region->reductions.data[i].node);
    if (region->reductions.data[i].stage != pass) continue;
    lw_kval lane = lw__kb_for_n(kb, cn->lanes, LW_KLOOP_VECTOR);
    lw_kval sum =
        lw__kb_fn(kb, lw__red_info[node->attr.reduce.fn].combine, lw__kb_lget(kb, totals[i], lane),
                  lw__kb_lget(kb, cn->acc[i], lane), LW_NONE);
    lw__kb_lset(kb, totals[i], lane, sum);
    close_loop(cn);
    cn->acc[i] = totals[i];
  }
}

/* Long rows go chunk by chunk, so that rounding errors grow with the length of a chunk plus the
 * number of chunks and not with the length of the row. */
static lw_status accumulate_chunks(cpu_nest *cn, uint32_t pass, int64_t whole) {
  lw_kbuilder *kb = &cn->nest.kb;
  lw_region *region = cn->nest.region;
  uint32_t *totals;
  int64_t chunk = cn->across ? chunk_vectors : cn->lanes * chunk_vectors;
  lw_status (*accumulate)(cpu_nest *, uint32_t, lw_kval, lw_kval) =
      cn->across ? accumulate_columns : accumulate_vectors;
  if (whole <= chunk) return accumulate(cn, pass, ci(cn, 0), ci(cn, whole));
  LW_TRY(lw__arena_dup(&region->pool.arena, cn->acc, region->reductions.count * sizeof *totals,
                       &totals));
  lw_kval lo =
      lw__kb_for(kb, LW_DTYPE_I64, ci(cn, 0), ci(cn, whole), ci(cn, chunk), LW_KLOOP_SERIAL);
  lw_kval hi = op(cn, LW_FN_MIN, op(cn, LW_FN_ADD, lo, ci(cn, chunk)), ci(cn, whole));
  LW_TRY(init_accumulators(cn, pass));
  LW_TRY(accumulate(cn, pass, lo, hi));
  add_to_totals(cn, pass, totals);
  close_loop(cn);
  return LW_OK;
}

/* Row layout: whole vectors of lanes, then what is left, then the lanes one after the other. */
static lw_status row_pass(cpu_nest *cn, uint32_t pass) {
  lw_region *region = cn->nest.region;
  lw_kbuilder *kb = &cn->nest.kb;
  int64_t whole = region->cols / cn->lanes * cn->lanes;
  lw_kval c;
  LW_TRY(init_accumulators(cn, pass));
  if (whole) LW_TRY(accumulate_chunks(cn, pass, whole));
  if (whole < region->cols) {
    LW_TRY(open_columns(cn, ci(cn, whole), ci(cn, region->cols), LW_KLOOP_SERIAL, &c));
    LW_TRY(accumulate_lane(cn, pass, c32(cn, 0)));
    close_loop(cn);
  }
  for (uint32_t i = 0; i < region->reductions.count; i++) {
    if (region->reductions.data[i].stage != pass) continue;
    const lw_node *node = lw__node(region->ctx->graph, region->reductions.data[i].node);
    if (cn->lanes > 1) {
      lw_kval lane =
          lw__kb_for(kb, LW_DTYPE_I32, c32(cn, 1), c32(cn, cn->lanes), c32(cn, 1), LW_KLOOP_SERIAL);
      lw_kval sum = lw__kb_fn(kb, lw__red_info[node->attr.reduce.fn].combine,
                              lw__kb_lget(kb, cn->acc[i], c32(cn, 0)),
                              lw__kb_lget(kb, cn->acc[i], lane), LW_NONE);
      lw__kb_lset(kb, cn->acc[i], c32(cn, 0), sum);
      close_loop(cn);
    }
    LW_TRY(
        lw__nest_leaf(&cn->nest, node->result, lw__kb_lget(kb, cn->acc[i], c32(cn, 0)), LW_NONE));
  }
  return LW_OK;
}

/* Column layout: for every column all lanes. */
static lw_status column_pass(cpu_nest *cn, uint32_t pass) {
  lw_region *region = cn->nest.region;
  LW_TRY(init_accumulators(cn, pass));
  /* a load would be moved out of a loop that never runs */
  if (region->cols > 0) LW_TRY(accumulate_chunks(cn, pass, region->cols));
  for (uint32_t i = 0; i < region->reductions.count; i++)
    if (region->reductions.data[i].stage == pass)
      LW_TRY(lw__nest_leaf(&cn->nest,
                           lw__node(region->ctx->graph, region->reductions.data[i].node)->result,
                           LW_NONE, cn->acc[i]));
  return LW_OK;
}

static lw_status publish(cpu_nest *cn, uint32_t pass) {
  for (uint32_t i = 0; i < cn->stages.kept.count && cn->kept; i++)
    if (cn->stages.first[cn->stages.kept.data[i]] == pass)
      LW_TRY(lw__nest_keep(&cn->nest, cn->stages.kept.data[i], cn->kept[i], LW_HOME_WHOLE));
  lw__nest_forget(&cn->nest);
  return LW_OK;
}

static lw_status make_arrays(cpu_nest *cn) {
  lw_region *region = cn->nest.region;
  LW_TRY(lw__arena_alloc(&region->pool.arena, region->reductions.count + 1u, sizeof *cn->acc,
                         &cn->acc));
  int64_t each = region->cols * (cn->across ? cn->lanes : 1);
  if (each == 0 || each * (int64_t)cn->stages.kept.count > kept_elements) return LW_OK;
  LW_TRY(lw__arena_alloc(&region->pool.arena, cn->stages.kept.count + 1u, sizeof *cn->kept,
                         &cn->kept));
  for (uint32_t i = 0; i < cn->stages.kept.count; i++)
    cn->kept[i] = lw__kb_local(&cn->nest.kb, lw__stages_kept_type(region, cn->stages.kept.data[i]),
                               (uint32_t)each);
  return LW_OK;
}

/* ---- kernels ----------------------------------------------------------------------------------*/

static lw_status row_body(cpu_nest *cn) {
  lw_region *region = cn->nest.region;
  lw_kval c;
  uint32_t mark = cn->nest.kept.count;
  for (uint32_t s = 0; s < region->stage_count; s++) {
    LW_TRY(row_pass(cn, s));
    LW_TRY(publish(cn, s));
  }
  if (region->cols > 0 && has_outputs(cn, LW_PLACE_FULL)) {
    LW_TRY(open_columns(cn, ci(cn, 0), ci(cn, region->cols), LW_KLOOP_VECTOR, &c));
    LW_TRY(store_outputs(cn, LW_PLACE_FULL));
    close_loop(cn);
  }
  cn->nest.kept.count = mark;
  return store_outputs(cn, LW_PLACE_ROW);
}

static lw_status column_body(cpu_nest *cn) {
  lw_region *region = cn->nest.region;
  lw_kval c, lane;
  for (uint32_t s = 0; s < region->stage_count; s++) {
    LW_TRY(column_pass(cn, s));
    LW_TRY(publish(cn, s));
  }
  if (region->cols > 0 && has_outputs(cn, LW_PLACE_FULL)) {
    LW_TRY(open_columns(cn, ci(cn, 0), ci(cn, region->cols), LW_KLOOP_SERIAL, &c));
    LW_TRY(open_lanes(cn, &lane));
    cn->nest.whole_at =
        op(cn, LW_FN_ADD, op(cn, LW_FN_MUL, narrow(cn, c), c32(cn, cn->lanes)), lane);
    LW_TRY(store_outputs(cn, LW_PLACE_FULL));
    close_loop(cn);
    close_loop(cn);
  }
  if (!has_outputs(cn, LW_PLACE_ROW)) return LW_OK;
  LW_TRY(open_lanes(cn, &lane));
  LW_TRY(store_outputs(cn, LW_PLACE_ROW));
  close_loop(cn);
  return LW_OK;
}

/* Row layout: a block is a run of rows. Column layout: a block is one set of lanes. */
static lw_status cpu_kernel(cpu_nest *cn, int64_t *out_grid) {
  lw_region *region = cn->nest.region;
  lw_kbuilder *kb = &cn->nest.kb;
  lw_kval block = lw__kb_block(kb), limit = lw__kb_scalar(kb, lw__kb_scalar_arg(kb));
  LW_TRY(make_arrays(cn));
  if (cn->across) {
    *out_grid = lw__ceil_div(region->rows, cn->lanes);
    LW_TRY(lw__nest_bind(&cn->nest, cn->r, block));
    cn->lane_count =
        narrow(cn, op(cn, LW_FN_MIN, ci(cn, cn->lanes),
                      op(cn, LW_FN_SUB, limit, op(cn, LW_FN_MUL, block, ci(cn, cn->lanes)))));
    return column_body(cn);
  }
  int64_t rows_per_block = lw__max_i64(1, block_elements / lw__max_i64(1, region->cols));
  *out_grid = lw__ceil_div(region->rows, rows_per_block);
  lw_kval first = op(cn, LW_FN_MUL, block, ci(cn, rows_per_block));
  lw_kval last = op(cn, LW_FN_MIN, op(cn, LW_FN_ADD, first, ci(cn, rows_per_block)), limit);
  lw_kval row = lw__kb_for(kb, LW_DTYPE_I64, first, last, ci(cn, 1), LW_KLOOP_SERIAL);
  LW_TRY(lw__nest_bind(&cn->nest, cn->r, row));
  LW_TRY(row_body(cn));
  lw__kb_end(kb);
  return LW_OK;
}

static lw_status place_space(cpu_nest *cn, lw_region *region) {
  lw_ix_pool *ix = &region->pool.ix;
  lw_ix zero = lw__ix_const(ix, 0), space[2];
  cn->c = lw__region_var(region, region->cols);
  cn->lane = zero;
  if (cn->across) {
    cn->r = lw__region_var(region, lw__ceil_div(region->rows, cn->lanes));
    cn->lane = lw__region_var(region, cn->lanes);
    space[0] = lw__ix_add(ix, lw__ix_affine(ix, cn->r, cn->lanes, 0), cn->lane);
  } else {
    cn->r = lw__region_var(region, region->rows);
    space[0] = cn->r;
  }
  space[1] = cn->c;
  LW_TRY(lw__region_place(region, space));
  return lw__stages_init(&cn->stages, region, cn->c, zero);
}

static int64_t lanes_across(const lw_reduce_shape *shape) {
  return shape->rows < column_lanes ? shape->rows : column_lanes;
}

static lw_status lower_layout(lw_region_context *ctx, const lw_node_id *nodes, uint32_t count,
                              const lw_reduce_shape *shape, bool across,
                              const lw_lower_options *options, lw_diag *diag, lw_lowered *out) {
  cpu_nest cn = {.across = across};
  cn.lanes = cn.across ? lanes_across(shape) : shape->cols >= row_lanes ? row_lanes : 1;
  lw_region region;
  int64_t grid = 0;
  lw_status status = lw__region_init(&region, ctx, nodes, count);
  if (status == LW_OK) status = place_space(&cn, &region);
  if (status == LW_OK) status = lw__nest_init(&cn.nest, &region, options, out, LW_KCLASS_REDUCE, 1);
  if (status == LW_OK) status = cpu_kernel(&cn, &grid);
  if (status == LW_OK) status = lw__nest_finish(&cn.nest, grid, &region.rows, 1, diag);
  lw__nest_deinit(&cn.nest);
  lw__stages_deinit(&cn.stages);
  lw__region_deinit(&region);
  if (status != LW_OK) return status;
  return lw__arena_printf(&out->arena, &out->schedule, "%s, %lld lanes, %s",
                          cn.across ? "rows side by side" : "row by row", (long long)cn.lanes,
                          cn.kept ? "rows kept" : "read again by every pass");
}

lw_status lw__lower_reduce_cpu(lw_region_context *ctx, const lw_node_id *nodes, uint32_t count,
                               const lw_reduce_shape *shape, const lw_lower_options *options,
                               lw_diag *diag, lw_lowered *out) {
  if (shape->columns_strided) {
    /* Rows cut into lanes can make index arithmetic that no longer shows that rows are rows. */
    lw_status status = lower_layout(ctx, nodes, count, shape, true, options, diag, out);
    if (status != LW_STATUS_UNSUPPORTED) return status;
  }
  return lower_layout(ctx, nodes, count, shape, false, options, diag, out);
}

/* contraction_cpu.c: generic products and convolutions for CPUs: a few rows m times a vector of
 * lanes along n, accumulated over k in registers or first-level cache, then the epilogue on the
 * lanes. */
#include "compiler/lower/contraction.h"

enum { most_lanes = 32, rows_per_tile = 4, few_lanes = 8 };

typedef struct lanes_nest {
  lw_nest nest;
  lw_contraction_space space; /* n = nq * lanes + lane */
  lw_ix nq, lane;
  int64_t lanes, rows; /* of a tile */
  lw_dtype type;
  lw_kval lane_count; /* lanes in use */
} lanes_nest;

static lw_kval c64(lanes_nest *t, int64_t x) {
  return lw__kb_const_i(&t->nest.kb, LW_DTYPE_I64, x);
}
static lw_kval c32(lanes_nest *t, int64_t x) {
  return lw__kb_const_i(&t->nest.kb, LW_DTYPE_I32, x);
}
static lw_kval wide(lanes_nest *t, lw_kval a) { return lw__kb_cast(&t->nest.kb, a, LW_DTYPE_I64); }
static lw_kval narrow(lanes_nest *t, lw_kval a) {
  return lw__kb_cast(&t->nest.kb, a, LW_DTYPE_I32);
}
static lw_kval f2(lanes_nest *t, lw_fn f, lw_kval a, lw_kval b) {
  return lw__kb_fn(&t->nest.kb, f, a, b, LW_NONE);
}

/* Lanes that stay clear of the divisions in n's addresses, if there are enough of them. */
static lw_status choose_lanes(lw_region_context *ctx, const lw_node_id *nodes, uint32_t count,
                              int64_t *out) {
  lw_region plain;
  lw_ix space[4];
  lw_status status = lw__region_init(&plain, ctx, nodes, count);
  if (status == LW_OK) {
    lw__region_plain_space(&plain, space);
    status = lw__region_place(&plain, space);
  }
  int64_t clear = 1;
  if (status == LW_OK)
    status = lw__nest_lane_limit(&plain, space[2], most_lanes, most_lanes, &clear);
  *out = clear >= few_lanes ? clear : lw__min_i64(most_lanes, lw__max_i64(1, plain.n));
  lw__region_deinit(&plain);
  return status;
}

static lw_kval open_lane_loop(lanes_nest *t) {
  return lw__kb_for(&t->nest.kb, LW_DTYPE_I32, c32(t, 0), t->lane_count, c32(t, 1),
                    LW_KLOOP_VECTOR);
}

static void close_loop(lanes_nest *t) {
  lw__kb_end(&t->nest.kb);
  lw__nest_forget(&t->nest);
}

static lw_kval cell(lanes_nest *t, lw_kval row, lw_kval lane) {
  return f2(t, LW_FN_ADD, f2(t, LW_FN_MUL, row, c32(t, t->lanes)), lane);
}

static void clear_tile(lanes_nest *t, uint32_t acc) {
  lw_kbuilder *kb = &t->nest.kb;
  lw_kval zero =
      lw__dtype_is_float(t->type) ? lw__kb_const_f(kb, t->type, 0) : lw__kb_const_i(kb, t->type, 0);
  lw_kval i = lw__kb_for_n(kb, t->rows * t->lanes, LW_KLOOP_VECTOR);
  lw__kb_lset(kb, acc, i, zero);
  close_loop(t);
}

/* One k: the lanes of rhs once, then every row. */
static lw_status multiply(lanes_nest *t, lw_kval m0, lw_kval m_last, uint32_t acc, uint32_t right) {
  lw_region *region = t->nest.region;
  lw_kbuilder *kb = &t->nest.kb;
  lw_kval k =
      lw__kb_for(kb, LW_DTYPE_I64, c64(t, 0), c64(t, region->k), c64(t, 1), LW_KLOOP_SERIAL);
  LW_TRY(lw__nest_bind(&t->nest, t->space.k, k));
  lw_kval lane = open_lane_loop(t);
  LW_TRY(lw__nest_bind(&t->nest, t->lane, lane));
  lw__kb_lset(kb, right, lane, lw__contraction_factor(&t->nest, region->rhs, t->type));
  close_loop(t);
  lw_kval i = lw__kb_for_n(kb, t->rows, LW_KLOOP_UNROLL);
  LW_TRY(lw__nest_bind(&t->nest, t->space.m,
                       f2(t, LW_FN_MIN, f2(t, LW_FN_ADD, m0, wide(t, i)), m_last)));
  lw_kval left = lw__contraction_factor(&t->nest, region->lhs, t->type);
  lane = open_lane_loop(t);
  lw_kval at = cell(t, i, lane);
  lw_kval product = f2(t, LW_FN_MUL, left, lw__kb_lget(kb, right, lane));
  lw__kb_lset(kb, acc, at, f2(t, LW_FN_ADD, lw__kb_lget(kb, acc, at), product));
  close_loop(t);
  close_loop(t);
  close_loop(t);
  return LW_OK;
}

static lw_status store_tile(lanes_nest *t, lw_kval m0, lw_kval row_count, uint32_t acc) {
  lw_region *region = t->nest.region;
  lw_kbuilder *kb = &t->nest.kb;
  lw_kval i = lw__kb_for(kb, LW_DTYPE_I32, c32(t, 0), row_count, c32(t, 1), LW_KLOOP_SERIAL);
  LW_TRY(lw__nest_bind(&t->nest, t->space.m, f2(t, LW_FN_ADD, m0, wide(t, i))));
  lw_kval lane = open_lane_loop(t);
  LW_TRY(lw__nest_bind(&t->nest, t->lane, lane));
  LW_TRY(lw__nest_leaf(&t->nest, lw__node(region->ctx->graph, region->anchor)->result,
                       lw__kb_lget(kb, acc, cell(t, i, lane)), LW_NONE));
  for (uint32_t o = 0; o < region->outputs.count; o++)
    lw__nest_store(&t->nest, &region->outputs.data[o], LW_NONE);
  close_loop(t);
  close_loop(t);
  return LW_OK;
}

static lw_status kernel_body(lanes_nest *t, int64_t *out_grid) {
  lw_region *region = t->nest.region;
  lw_kbuilder *kb = &t->nest.kb;
  int64_t tiles_n = lw__ceil_div(region->n, t->lanes), tiles_m = lw__ceil_div(region->m, t->rows);
  if (!lw__mul_i64(tiles_n, tiles_m, out_grid) || !lw__mul_i64(*out_grid, region->b, out_grid))
    return LW_STATUS_UNSUPPORTED;
  lw_kval block = lw__kb_block(kb), rows = lw__kb_scalar(kb, lw__kb_scalar_arg(kb));
  lw_kval nq = f2(t, LW_FN_REM, block, c64(t, tiles_n)),
          rest = f2(t, LW_FN_DIV, block, c64(t, tiles_n));
  lw_kval tile_m = region->b > 1 ? f2(t, LW_FN_REM, rest, c64(t, tiles_m)) : rest;
  LW_TRY(lw__nest_bind(&t->nest, t->space.b,
                       region->b > 1 ? f2(t, LW_FN_DIV, rest, c64(t, tiles_m)) : c64(t, 0)));
  LW_TRY(lw__nest_bind(&t->nest, t->nq, nq));
  lw_kval m0 = f2(t, LW_FN_MUL, tile_m, c64(t, t->rows)), left = f2(t, LW_FN_SUB, rows, m0);
  t->lane_count = c32(t, t->lanes);
  if (region->n % t->lanes) {
    lw_kval rest_n = f2(t, LW_FN_SUB, c64(t, region->n), f2(t, LW_FN_MUL, nq, c64(t, t->lanes)));
    t->lane_count = narrow(t, f2(t, LW_FN_MIN, c64(t, t->lanes), rest_n));
  }
  uint32_t acc = lw__kb_local(kb, t->type, (uint32_t)(t->rows * t->lanes)),
           right = lw__kb_local(kb, t->type, (uint32_t)t->lanes);
  clear_tile(t, acc);
  if (region->k > 0) LW_TRY(multiply(t, m0, f2(t, LW_FN_SUB, rows, c64(t, 1)), acc, right));
  return store_tile(t, m0, narrow(t, f2(t, LW_FN_MIN, left, c64(t, t->rows))), acc);
}

static lw_status build(lanes_nest *t, lw_region *region, const lw_lower_options *options,
                       lw_diag *diag, lw_lowered *out) {
  lw_ix_pool *ix = &region->pool.ix;
  lw_ix space[4];
  int64_t grid;
  t->rows = lw__min_i64(rows_per_tile, region->m);
  t->type = lw__contraction_type(region);
  lw__region_plain_space(region, space);
  t->nq = lw__region_var(region, lw__ceil_div(region->n, t->lanes));
  t->lane = lw__region_var(region, t->lanes);
  space[2] = lw__ix_add(ix, lw__ix_affine(ix, t->nq, t->lanes, 0), t->lane);
  t->space = (lw_contraction_space){space[0], space[1], space[2], space[3]};
  LW_TRY(lw__region_place(region, space));
  LW_TRY(lw__nest_init(&t->nest, region, options, out, region->cls, 1));
  LW_TRY(kernel_body(t, &grid));
  LW_TRY(lw__nest_finish(&t->nest, grid, &region->m, 1, diag));
  return lw__arena_printf(&out->arena, &out->schedule, "tiles of %lld rows, %lld lanes",
                          (long long)t->rows, (long long)t->lanes);
}

static lw_status lower_lanes(lw_region_context *ctx, const lw_node_id *nodes, uint32_t count,
                             int64_t lanes, const lw_lower_options *options, lw_diag *diag,
                             lw_lowered *out) {
  lanes_nest t = {.lanes = lanes};
  lw_region region;
  lw_status status = lw__region_init(&region, ctx, nodes, count);
  if (status == LW_OK && region.elements > 0) status = build(&t, &region, options, diag, out);
  lw__nest_deinit(&t.nest);
  lw__region_deinit(&region);
  return status;
}

lw_status lw__lower_contraction_cpu(lw_region_context *ctx, const lw_node_id *nodes, uint32_t count,
                                    const lw_lower_options *options, lw_diag *diag,
                                    lw_lowered *out) {
  int64_t lanes;
  LW_TRY(choose_lanes(ctx, nodes, count, &lanes));
  /* Lanes can make index arithmetic that no longer shows that the product is read where it is made.
   */
  lw_status status = lower_lanes(ctx, nodes, count, lanes, options, diag, out);
  return status == LW_STATUS_UNSUPPORTED && lanes > 1
             ? lower_lanes(ctx, nodes, count, 1, options, diag, out)
             : status;
}

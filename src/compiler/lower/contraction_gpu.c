/* contraction_gpu.c: products and convolutions that contraction_mma.c leaves. Tiled: a block
 * computes a tile of results; slices of both factors along k pass through shared memory, whatever
 * computes them. Direct: one thread per result (depthwise convolutions and other contractions with
 * one row, where a tile would be mostly empty). */
#include "compiler/lower/contraction.h"

enum { slice_k = 16, direct_threads = 128 };

typedef struct tile_plan {
  int64_t bm, bn; /* results per block */
  int64_t tm, tn; /* results per thread */
  int64_t threads_m, threads_n;
  uint32_t threads;
  int64_t tiles_m, tiles_n;
} tile_plan;

typedef struct tile_nest {
  lw_nest nest;
  lw_contraction_space space;
  tile_plan plan;
  lw_dtype type;
  uint32_t acc, shared_a, shared_b;
  lw_kval thread, m0, n0, rows; /* i32 thread, i64 tile origin, i64 number of rows m */
} tile_nest;

static int64_t fit_tile(int64_t extent) { return extent <= 16 ? 16 : extent <= 32 ? 32 : 64; }

static void choose_tile(tile_plan *plan, const lw_region *region) {
  plan->bm = fit_tile(region->m);
  plan->bn = fit_tile(region->n);
  plan->tm = plan->tn = plan->bm * plan->bn >= 2048 ? 4 : 2;
  plan->threads_m = plan->bm / plan->tm;
  plan->threads_n = plan->bn / plan->tn;
  plan->threads = (uint32_t)(plan->threads_m * plan->threads_n);
  plan->tiles_m = lw__ceil_div(region->m, plan->bm);
  plan->tiles_n = lw__ceil_div(region->n, plan->bn);
}

static lw_kval i32(tile_nest *t, int64_t x) { return lw__kb_const_i(&t->nest.kb, LW_DTYPE_I32, x); }
static lw_kval i64(tile_nest *t, int64_t x) { return lw__kb_const_i(&t->nest.kb, LW_DTYPE_I64, x); }
static lw_kval fn(tile_nest *t, lw_fn f, lw_kval a, lw_kval b) {
  return lw__kb_fn(&t->nest.kb, f, a, b, LW_NONE);
}
static lw_kval wide(tile_nest *t, lw_kval a) { return lw__kb_cast(&t->nest.kb, a, LW_DTYPE_I64); }

/* Which tile: blocks count n tiles fastest, then m, then batch. */
static lw_status open_tile(tile_nest *t, const lw_region *region) {
  lw_kval block = lw__kb_block(&t->nest.kb), tiles_n = i64(t, t->plan.tiles_n);
  t->rows = lw__kb_scalar(&t->nest.kb, lw__kb_scalar_arg(&t->nest.kb));
  lw_kval tile_m = fn(t, LW_FN_DIV, block, tiles_n), batch = i64(t, 0);
  if (region->b > 1) {
    lw_kval tiles_m = i64(t, t->plan.tiles_m);
    batch = fn(t, LW_FN_DIV, tile_m, tiles_m);
    tile_m = fn(t, LW_FN_REM, tile_m, tiles_m);
  }
  t->thread = lw__kb_thread(&t->nest.kb);
  t->m0 = fn(t, LW_FN_MUL, tile_m, i64(t, t->plan.bm));
  t->n0 = fn(t, LW_FN_MUL, fn(t, LW_FN_REM, block, tiles_n), i64(t, t->plan.bn));
  return lw__nest_bind(&t->nest, t->space.b, batch);
}

/* One slice of a factor into shared memory, laid out [k][row]. Threads run along whichever of k and
 * row is contiguous in memory. Past the edges coordinates are clamped (so that every address is
 * valid) and the value is zero. */
static lw_status load_slice(tile_nest *t, lw_elem factor, lw_ix row_var, lw_kval origin,
                            lw_kval row_count, int64_t tile, lw_kval k0, uint32_t shared) {
  lw_region *region = t->nest.region;
  lw_kbuilder *kb = &t->nest.kb;
  bool along_k = lw__contraction_runs_along(region, factor, t->space.k);
  int64_t per_thread = lw__ceil_div(tile * slice_k, t->plan.threads);
  lw_kval u = lw__kb_for_n(kb, per_thread, LW_KLOOP_UNROLL);
  lw_kval at = fn(t, LW_FN_ADD, fn(t, LW_FN_MUL, u, i32(t, t->plan.threads)), t->thread);
  lw_kval fast = i32(t, along_k ? slice_k : tile);
  lw_kval low = fn(t, LW_FN_REM, at, fast), high = fn(t, LW_FN_DIV, at, fast);
  lw_kval kk = along_k ? low : high, row = along_k ? high : low;
  lw_kval m = fn(t, LW_FN_ADD, origin, wide(t, row)), k = fn(t, LW_FN_ADD, k0, wide(t, kk));
  lw_kval inside =
      fn(t, LW_FN_AND, fn(t, LW_FN_LT, m, row_count), fn(t, LW_FN_LT, k, i64(t, region->k)));
  LW_TRY(lw__nest_bind(&t->nest, row_var,
                       fn(t, LW_FN_MIN, m, fn(t, LW_FN_SUB, row_count, i64(t, 1)))));
  LW_TRY(lw__nest_bind(&t->nest, t->space.k, fn(t, LW_FN_MIN, k, i64(t, region->k - 1))));
  lw_kval value = lw__contraction_factor(&t->nest, factor, t->type);
  lw_kval zero =
      lw__dtype_is_float(t->type) ? lw__kb_const_f(kb, t->type, 0) : lw__kb_const_i(kb, t->type, 0);
  lw_kval cell = fn(t, LW_FN_ADD, fn(t, LW_FN_MUL, kk, i32(t, tile)), row);
  lw_kval fits = per_thread * t->plan.threads == tile * slice_k
                     ? LW_NONE
                     : fn(t, LW_FN_LT, at, i32(t, tile * slice_k));
  lw__kb_sset(kb, shared, cell, fits, lw__kb_fn(kb, LW_FN_SELECT, inside, value, zero));
  lw__kb_end(kb);
  lw__nest_forget(&t->nest);
  return LW_OK;
}

/* acc[i][j] += a[i] * b[j] for every k of the slice. */
static void multiply_slice(tile_nest *t, lw_kval tm, lw_kval tn, uint32_t reg_a, uint32_t reg_b) {
  lw_kbuilder *kb = &t->nest.kb;
  const tile_plan *p = &t->plan;
  lw_kval kk = lw__kb_for_n(kb, slice_k, LW_KLOOP_UNROLL);
  lw_kval i = lw__kb_for_n(kb, p->tm, LW_KLOOP_UNROLL);
  lw_kval row = fn(t, LW_FN_ADD, fn(t, LW_FN_MUL, i, i32(t, p->threads_m)), tm);
  lw__kb_lset(
      kb, reg_a, i,
      lw__kb_sget(kb, t->shared_a, fn(t, LW_FN_ADD, fn(t, LW_FN_MUL, kk, i32(t, p->bm)), row)));
  lw__kb_end(kb);
  lw_kval j = lw__kb_for_n(kb, p->tn, LW_KLOOP_UNROLL);
  lw_kval col = fn(t, LW_FN_ADD, fn(t, LW_FN_MUL, j, i32(t, p->threads_n)), tn);
  lw__kb_lset(
      kb, reg_b, j,
      lw__kb_sget(kb, t->shared_b, fn(t, LW_FN_ADD, fn(t, LW_FN_MUL, kk, i32(t, p->bn)), col)));
  lw__kb_end(kb);
  i = lw__kb_for_n(kb, p->tm, LW_KLOOP_UNROLL);
  j = lw__kb_for_n(kb, p->tn, LW_KLOOP_UNROLL);
  lw_kval cell = fn(t, LW_FN_ADD, fn(t, LW_FN_MUL, i, i32(t, p->tn)), j);
  lw_kval product = fn(t, LW_FN_MUL, lw__kb_lget(kb, reg_a, i), lw__kb_lget(kb, reg_b, j));
  lw__kb_lset(kb, t->acc, cell, fn(t, LW_FN_ADD, lw__kb_lget(kb, t->acc, cell), product));
  lw__kb_end(kb);
  lw__kb_end(kb);
  lw__kb_end(kb);
}

static lw_status epilogue(tile_nest *t, lw_kval tm, lw_kval tn) {
  lw_region *region = t->nest.region;
  lw_kbuilder *kb = &t->nest.kb;
  lw_kval i = lw__kb_for_n(kb, t->plan.tm, LW_KLOOP_UNROLL);
  lw_kval m = fn(t, LW_FN_ADD, t->m0,
                 wide(t, fn(t, LW_FN_ADD, fn(t, LW_FN_MUL, i, i32(t, t->plan.threads_m)), tm)));
  lw_kval j = lw__kb_for_n(kb, t->plan.tn, LW_KLOOP_UNROLL);
  lw_kval n = fn(t, LW_FN_ADD, t->n0,
                 wide(t, fn(t, LW_FN_ADD, fn(t, LW_FN_MUL, j, i32(t, t->plan.threads_n)), tn)));
  lw__kb_if(kb,
            fn(t, LW_FN_AND, fn(t, LW_FN_LT, m, t->rows), fn(t, LW_FN_LT, n, i64(t, region->n))));
  LW_TRY(lw__nest_bind(&t->nest, t->space.m, m));
  LW_TRY(lw__nest_bind(&t->nest, t->space.n, n));
  lw_kval cell = fn(t, LW_FN_ADD, fn(t, LW_FN_MUL, i, i32(t, t->plan.tn)), j);
  LW_TRY(lw__nest_leaf(&t->nest, lw__node(region->ctx->graph, region->anchor)->result,
                       lw__kb_lget(kb, t->acc, cell), LW_NONE));
  for (uint32_t o = 0; o < region->outputs.count; o++)
    lw__nest_store(&t->nest, &region->outputs.data[o], LW_NONE);
  lw__kb_end(kb);
  lw__kb_end(kb);
  lw__kb_end(kb);
  return LW_OK;
}

static void clear(tile_nest *t, uint32_t local, int64_t count) {
  lw_kbuilder *kb = &t->nest.kb;
  lw_kval zero =
      lw__dtype_is_float(t->type) ? lw__kb_const_f(kb, t->type, 0) : lw__kb_const_i(kb, t->type, 0);
  lw_kval i = lw__kb_for_n(kb, count, LW_KLOOP_UNROLL);
  lw__kb_lset(kb, local, i, zero);
  lw__kb_end(kb);
}

static lw_status tile_body(tile_nest *t) {
  lw_region *region = t->nest.region;
  lw_kbuilder *kb = &t->nest.kb;
  const tile_plan *p = &t->plan;
  LW_TRY(open_tile(t, region));
  t->acc = lw__kb_local(kb, t->type, (uint32_t)(p->tm * p->tn));
  t->shared_a = lw__kb_shared(kb, t->type, (uint32_t)(p->bm * slice_k));
  t->shared_b = lw__kb_shared(kb, t->type, (uint32_t)(p->bn * slice_k));
  uint32_t reg_a = lw__kb_local(kb, t->type, (uint32_t)p->tm),
           reg_b = lw__kb_local(kb, t->type, (uint32_t)p->tn);
  /* Neighbouring threads store neighbouring results. */
  bool along_m = lw__contraction_stores_along(region, t->space.m) &&
                 !lw__contraction_stores_along(region, t->space.n);
  lw_kval fast = i32(t, along_m ? p->threads_m : p->threads_n);
  lw_kval low = fn(t, LW_FN_REM, t->thread, fast), high = fn(t, LW_FN_DIV, t->thread, fast);
  lw_kval tn = along_m ? high : low, tm = along_m ? low : high;
  clear(t, t->acc, p->tm * p->tn);
  if (region->k > 0) {
    lw_kval k0 = lw__kb_for(kb, LW_DTYPE_I64, i64(t, 0), i64(t, region->k), i64(t, slice_k),
                            LW_KLOOP_ROLLED);
    LW_TRY(load_slice(t, region->lhs, t->space.m, t->m0, t->rows, p->bm, k0, t->shared_a));
    LW_TRY(
        load_slice(t, region->rhs, t->space.n, t->n0, i64(t, region->n), p->bn, k0, t->shared_b));
    lw__kb_barrier(kb);
    multiply_slice(t, tm, tn, reg_a, reg_b);
    lw__kb_barrier(kb);
    lw__kb_end(kb);
    lw__nest_forget(&t->nest);
  }
  return epilogue(t, tm, tn);
}

/* ---- direct -----------------------------------------------------------------------------------*/

static lw_status direct_body(tile_nest *t) {
  lw_region *region = t->nest.region;
  lw_kbuilder *kb = &t->nest.kb;
  lw_kval at = fn(t, LW_FN_ADD, fn(t, LW_FN_MUL, lw__kb_block(kb), i64(t, direct_threads)),
                  wide(t, lw__kb_thread(kb)));
  t->rows = lw__kb_scalar(kb, lw__kb_scalar_arg(kb));
  lw__kb_if(kb, fn(t, LW_FN_LT, at, t->rows));
  lw_kval n = fn(t, LW_FN_REM, at, i64(t, region->n)),
          rest = fn(t, LW_FN_DIV, at, i64(t, region->n));
  LW_TRY(lw__nest_bind(&t->nest, t->space.n, n));
  LW_TRY(lw__nest_bind(&t->nest, t->space.m, fn(t, LW_FN_REM, rest, i64(t, region->m))));
  LW_TRY(lw__nest_bind(&t->nest, t->space.b, fn(t, LW_FN_DIV, rest, i64(t, region->m))));
  t->acc = lw__kb_local(kb, t->type, 1);
  clear(t, t->acc, 1);
  lw_kval k =
      lw__kb_for(kb, LW_DTYPE_I64, i64(t, 0), i64(t, region->k), i64(t, 1), LW_KLOOP_SERIAL);
  LW_TRY(lw__nest_bind(&t->nest, t->space.k, k));
  lw_kval product = fn(t, LW_FN_MUL, lw__contraction_factor(&t->nest, region->lhs, t->type),
                       lw__contraction_factor(&t->nest, region->rhs, t->type));
  lw__kb_lset(kb, t->acc, LW_NONE, fn(t, LW_FN_ADD, lw__kb_lget(kb, t->acc, LW_NONE), product));
  lw__kb_end(kb);
  LW_TRY(lw__nest_leaf(&t->nest, lw__node(region->ctx->graph, region->anchor)->result,
                       lw__kb_lget(kb, t->acc, LW_NONE), LW_NONE));
  for (uint32_t o = 0; o < region->outputs.count; o++)
    lw__nest_store(&t->nest, &region->outputs.data[o], LW_NONE);
  lw__kb_end(kb);
  return LW_OK;
}

/* ---- entry ------------------------------------------------------------------------------------*/

static lw_status place_space(tile_nest *t, lw_region *region) {
  lw_ix space[4];
  lw__region_plain_space(region, space);
  t->space = (lw_contraction_space){space[0], space[1], space[2], space[3]};
  return lw__region_place(region, space);
}

static lw_status build(tile_nest *t, lw_region *region, const lw_lower_options *options,
                       lw_diag *diag, lw_lowered *out) {
  bool direct = region->m == 1 && region->cls == LW_KCLASS_CONV;
  int64_t scalar = direct ? region->elements : region->m;
  int64_t grid = direct ? lw__ceil_div(region->elements, direct_threads) : 0;
  LW_TRY(place_space(t, region));
  choose_tile(&t->plan, region);
  t->type = lw__contraction_type(region);
  if (!direct && (!lw__mul_i64(region->b, t->plan.tiles_m, &grid) ||
                  !lw__mul_i64(grid, t->plan.tiles_n, &grid)))
    return LW_STATUS_UNSUPPORTED;
  LW_TRY(lw__nest_init(&t->nest, region, options, out, region->cls,
                       direct ? direct_threads : t->plan.threads));
  LW_TRY(direct ? direct_body(t) : tile_body(t));
  LW_TRY(lw__nest_finish(&t->nest, grid, &scalar, 1, diag));
  if (direct) return lw__arena_printf(&out->arena, &out->schedule, "one thread per result");
  return lw__arena_printf(&out->arena, &out->schedule, "tiles of %lld x %lld on FMA units",
                          (long long)t->plan.bm, (long long)t->plan.bn);
}

lw_status lw__lower_contraction_gpu(lw_region_context *ctx, const lw_node_id *nodes, uint32_t count,
                                    const lw_lower_options *options, lw_diag *diag,
                                    lw_lowered *out) {
  tile_nest t = {0};
  lw_region region;
  bool done = false;
  LW_TRY(lw__lower_contraction_mma(ctx, nodes, count, options, diag, out, &done));
  if (done) return LW_OK;
  lw_status status = lw__region_init(&region, ctx, nodes, count);
  if (status == LW_OK && region.elements > 0) status = build(&t, &region, options, diag, out);
  lw__nest_deinit(&t.nest);
  lw__region_deinit(&region);
  return status;
}

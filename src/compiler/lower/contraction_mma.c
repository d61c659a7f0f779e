/* contraction_mma.c: products and convolutions of f16 and bf16 on tensor cores by mma.sync, those
 * of f32 on FMA units (sm_80 on), for every layout, prologue and epilogue. A block computes a tile
 * of results; slices of both factors along k go through a ring of stages in shared memory. A factor
 * that is a plain load of wide pieces is copied there asynchronously, slices ahead; any other is
 * computed element by element. The sums go through shared memory to threads that hold neighbouring
 * results, where the epilogue is that of an element-wise kernel. */
#include <string.h>

#include "compiler/fuse/matrix.h"
#include "compiler/lower/contraction_tiled.h"

enum { raster_rows = 8, many_rows = 16384, few_rows = 16, most_shared = 64 };

/* How variables are cut, seen in the plain space: along what something is contiguous. */
typedef struct mma_cut {
  int64_t m, n, k; /* lanes */
  int64_t shared;  /* so many neighbouring batches have one right factor: rows of one product */
  bool turned;
  bool a_along_k, c_along_k;
  lw_dtype dtype; /* of slices in shared memory; F32: on FMA units */
} mma_cut;

/* A factor lies with k contiguous in shared memory, unless its rows are contiguous in memory. */
static bool stays_along_k(lw_region *region, lw_elem factor, lw_ix row, lw_ix k) {
  return lw__contraction_runs_along(region, factor, k) ||
         !lw__contraction_runs_along(region, factor, row);
}

/* As many lanes as all that runs along the axis allow: |factor| (or LW_NONE), the results. What
 * else uses the variable reads it element by element, wherever its digits begin. */
static lw_status cut_axis(const lw_region *region, lw_ix var, int64_t extent, lw_elem factor,
                          lw_elem other, bool results, int64_t widest, int64_t *out_lanes) {
  lw_elem elems[2];
  uint32_t count = 0;
  *out_lanes = 1;
  if (factor != LW_NONE) elems[count++] = factor;
  if (other != LW_NONE) elems[count++] = other;
  if (extent < 2 || (count == 0 && !results)) return LW_OK;
  return lw__nest_elem_lane_limit(region, elems, count, results, var, extent, widest, out_lanes);
}

static lw_status look(lw_region *region, const lw_device_profile *profile, mma_cut *cut) {
  lw_ix space[4];
  lw__region_plain_space(region, space);
  LW_TRY(lw__region_place(region, space));
  memset(cut, 0, sizeof *cut);
  cut->shared = 1;
  cut->dtype = lw__region_suits_mma(region, profile);
  if (cut->dtype == LW_DTYPE_NONE) cut->dtype = lw__region_suits_fma(region, profile);
  if (cut->dtype == LW_DTYPE_NONE) return LW_OK;
  lw_ix m = space[1], n = space[2], k = space[3];
  bool lhs_along_k = stays_along_k(region, region->lhs, m, k);
  bool rhs_along_k = stays_along_k(region, region->rhs, n, k);
  bool along_m = lw__contraction_stores_along(region, m);
  cut->turned = along_m && !lw__contraction_stores_along(region, n);
  cut->a_along_k = cut->turned ? rhs_along_k : lhs_along_k;
  cut->c_along_k = cut->turned ? lhs_along_k : rhs_along_k;
  lw_elem lhs = region->lhs, rhs = region->rhs;
  int64_t widest = 16 / (int64_t)lw_dtype_size_bytes(cut->dtype);
  LW_TRY(cut_axis(region, k, region->k, lhs_along_k ? lhs : LW_NONE, rhs_along_k ? rhs : LW_NONE,
                  false, widest, &cut->k));
  LW_TRY(cut_axis(region, m, region->m, lhs_along_k ? LW_NONE : lhs, LW_NONE, cut->turned, widest,
                  &cut->m));
  LW_TRY(cut_axis(region, n, region->n, rhs_along_k ? LW_NONE : rhs, LW_NONE, !cut->turned, widest,
                  &cut->n));
  return LW_OK;
}

/* ---- epilogue ---------------------------------------------------------------------------------*/

/* |lanes| neighbouring sums of line |r|, those of all warps along k added in order. */
static void get_sums(lw_tiled_nest *t, lw_kval r, lw_kval col, int64_t pitch, int64_t lanes,
                     uint32_t total, uint32_t part) {
  lw_kbuilder *kb = &t->nest.kb;
  lw_kval at = plus(t, times(t, r, pitch), col);
  lw__kb_sgetv(kb, t->sums, at, total, LW_NONE, (uint32_t)lanes);
  for (int64_t w = 1; w < t->tile.warps_k; w++) {
    lw_kval other = plus(t, at, num(t, w * t->tile.warps_m * LW_TILED_ROWS * pitch));
    lw__kb_sgetv(kb, t->sums, other, part, LW_NONE, (uint32_t)lanes);
    lw_kval lane = lw__kb_for_n(kb, lanes, LW_KLOOP_UNROLL);
    lw_kval sum = plus(t, lw__kb_lget(kb, total, lane), lw__kb_lget(kb, part, lane));
    lw__kb_lset(kb, total, lane, sum);
    lw__kb_end(kb);
  }
}

static lw_status store_lines(lw_tiled_nest *t, lw_kval i, int64_t pitch) {
  lw_kbuilder *kb = &t->nest.kb;
  lw_region *region = t->nest.region;
  int64_t tm = t->tile.rows / t->tile.warps_m, lanes = t->c.axis->lanes;
  int64_t lines = t->tile.warps_m * LW_TILED_ROWS, vectors = t->tile.cols / lanes;
  uint32_t total = lw__kb_local(kb, LW_DTYPE_F32, (uint32_t)lanes);
  uint32_t part = t->tile.warps_k > 1 ? lw__kb_local(kb, LW_DTYPE_F32, (uint32_t)lanes) : LW_NONE;
  lw_kval u = lw__kb_for_n(kb, lw__ceil_div(lines * vectors, t->threads), LW_KLOOP_ROLLED);
  lw_kval vector, r;
  lw__tiled_piece(t, u, vectors, &vector, &r);
  lw_kval local_row = plus(t, times(t, over(t, r, LW_TILED_ROWS), tm),
                           plus(t, times(t, i, LW_TILED_ROWS), rest(t, r, LW_TILED_ROWS)));
  lw_kval row = plus(t, t->a.origin, local_row), first = times(t, vector, lanes);
  lw_kval col = plus(t, t->c.origin, first);
  lw_kval inside =
      fn(t, LW_FN_AND, fn(t, LW_FN_LT, row, t->a.count_v), fn(t, LW_FN_LT, col, t->c.count_v));
  if (lines * vectors % t->threads != 0) inside = fn(t, LW_FN_AND, inside, below(t, r, lines));
  lw__kb_if(kb, inside);
  get_sums(t, r, first, pitch, lanes, total, part);
  LW_TRY(lw__tiled_bind(t, t->a.axis, row));
  LW_TRY(lw__tiled_bind_start(t, t->c.axis, col));
  LW_TRY(lw__nest_leaf(&t->nest, lw__node(region->ctx->graph, region->anchor)->result, LW_NONE,
                       total));
  LW_TRY(lw__nest_vector_body(&t->nest, t->c.axis->low, lanes));
  lw__kb_end(kb);
  lw__kb_end(kb);
  return LW_OK;
}

static lw_status epilogue(lw_tiled_nest *t) {
  lw_kbuilder *kb = &t->nest.kb;
  int64_t pitch = t->tile.cols + 8, tm = t->tile.rows / t->tile.warps_m;
  int64_t turns = tm / LW_TILED_ROWS;
  lw_kval i = lw__kb_for_n(kb, turns, LW_KLOOP_UNROLL);
  lw__tiled_put_sums(t, i, pitch);
  lw__kb_barrier(kb);
  LW_TRY(store_lines(t, i, pitch));
  if (turns > 1) lw__kb_barrier(kb);
  lw__kb_end(kb);
  return LW_OK;
}

/* ---- the kernel -------------------------------------------------------------------------------*/

/* How many tiles of |side|: of what |m| counts an argument says how much there is, so that one
 * kernel serves all sizes of a single batch. */
static lw_kval tiles_of(lw_tiled_nest *t, const lw_tiled_side *side, bool counted) {
  if (!counted) return num(t, lw__ceil_div(side->count, side->tile));
  return over(t, plus(t, side->count_v, num(t, side->tile - 1)), side->tile);
}

/* Which tile: columns fastest, in groups of some rows of tiles, so that what runs at once reads few
 * distinct slices. */
static lw_status open_tile(lw_tiled_nest *t, lw_kval m_count) {
  lw_kbuilder *kb = &t->nest.kb;
  int64_t tiles_m = lw__ceil_div(t->a.count, t->a.tile),
          tiles_n = lw__ceil_div(t->c.count, t->c.tile);
  lw_kval n_count = num(t, t->n.extent);
  t->a.count_v = t->turned ? n_count : m_count;
  t->c.count_v = t->turned ? m_count : n_count;
  lw_kval block = lw__kb_cast(kb, lw__kb_block(kb), LW_DTYPE_I32);
  bool single = lw__ix_node(&t->nest.pool->ix, t->b)->kind != LW_IX_VAR;
  if (!single) LW_TRY(lw__nest_bind(&t->nest, t->b, over(t, block, tiles_m * tiles_n)));
  lw_kval at = single ? block : rest(t, block, tiles_m * tiles_n);
  lw_kval high_v = tiles_of(t, &t->a, single && !t->turned);
  lw_kval wide_v = tiles_of(t, &t->c, single && t->turned);
  lw_kval tile_m = fn(t, LW_FN_DIV, at, wide_v), tile_n = fn(t, LW_FN_REM, at, wide_v);
  if (tiles_m > raster_rows && tiles_n > 1) {
    lw_kval group = times(t, wide_v, raster_rows);
    lw_kval first = times(t, fn(t, LW_FN_DIV, at, group), raster_rows);
    lw_kval high = fn(t, LW_FN_MIN, num(t, raster_rows), fn(t, LW_FN_SUB, high_v, first));
    lw_kval within = fn(t, LW_FN_REM, at, group);
    tile_m = plus(t, first, fn(t, LW_FN_REM, within, high));
    tile_n = fn(t, LW_FN_DIV, within, high);
  }
  t->a.origin = times(t, tile_m, t->a.tile);
  t->c.origin = times(t, tile_n, t->c.tile);
  return LW_OK;
}

static void open_warps(lw_tiled_nest *t) {
  const lw_mma_tile *p = &t->tile;
  t->thread = lw__kb_thread(&t->nest.kb);
  t->lane = rest(t, t->thread, 32);
  lw_kval warp = over(t, t->thread, 32);
  t->warp_n = rest(t, warp, p->warps_n);
  t->warp_m = rest(t, over(t, warp, p->warps_n), p->warps_m);
  t->warp_k = over(t, warp, p->warps_n * p->warps_m);
}

static lw_status slices(lw_tiled_nest *t, lw_tiled_frags frags) {
  lw_kbuilder *kb = &t->nest.kb;
  const lw_mma_tile *p = &t->tile;
  int64_t count = lw__ceil_div(t->k.extent, p->depth), ahead = p->stages - 1;
  for (int64_t s = 0; s < ahead; s++) {
    if (s < count) {
      LW_TRY(lw__tiled_load(t, num(t, s), num(t, s)));
      lw__tiled_put(t, num(t, s));
    }
    lw__kb_copy_end(kb);
  }
  lw_kval slice = lw__kb_for_n(kb, count, LW_KLOOP_ROLLED);
  lw_kval next = plus(t, slice, num(t, ahead)), more = below(t, next, count);
  lw_kval stage = rest(t, next, p->stages);
  bool held = t->a.held != LW_NONE || t->c.held != LW_NONE;
  lw__kb_copy_wait(kb, (uint32_t)ahead - 1);
  lw__kb_barrier(kb);
  if (ahead < count) {
    lw__kb_if(kb, more);
    LW_TRY(lw__tiled_load(t, next, stage));
    lw__kb_end(kb);
  }
  lw__kb_copy_end(kb);
  lw__tiled_multiply(t, rest(t, slice, p->stages), frags);
  if (held && ahead < count) lw__tiled_put(t, stage); /* at the end nobody reads it */
  lw__kb_end(kb);
  lw__kb_copy_wait(kb, 0);
  lw__nest_forget(&t->nest);
  return LW_OK;
}

static lw_status kernel_body(lw_tiled_nest *t) {
  lw_kbuilder *kb = &t->nest.kb;
  const lw_mma_tile *p = &t->tile;
  lw_kval m_count = lw__kb_cast(kb, lw__kb_scalar(kb, lw__kb_scalar_arg(kb)), LW_DTYPE_I32);
  LW_TRY(open_tile(t, m_count));
  open_warps(t);
  lw__tiled_side_place(t, &t->a);
  lw__tiled_side_place(t, &t->c);
  t->sums = lw__kb_shared(kb, LW_DTYPE_F32,
                          (uint32_t)(p->warps_k * p->warps_m * LW_TILED_ROWS * (p->cols + 8)));
  LW_TRY(slices(t, lw__tiled_open_sums(t)));
  return epilogue(t);
}

/* ---- entry ------------------------------------------------------------------------------------*/

/* Rows are those of |shared| batches, one batch after the other. */
static lw_status place(lw_tiled_nest *t, lw_region *region, const mma_cut *cut) {
  lw_ix_pool *ix = &region->pool.ix;
  t->b = lw__region_var(region, region->b / cut->shared);
  lw__tiled_axis(region, &t->m, region->m * cut->shared, cut->m);
  lw__tiled_axis(region, &t->n, region->n, cut->n);
  lw__tiled_axis(region, &t->k, region->k, cut->k);
  lw_ix batch = lw__ix_add(ix, lw__ix_affine(ix, t->b, cut->shared, 0),
                           lw__ix_div(ix, t->m.whole, region->m));
  lw_ix space[4] = {batch, lw__ix_mod(ix, t->m.whole, region->m), t->n.whole, t->k.whole};
  t->turned = cut->turned;
  t->dtype = cut->dtype;
  return lw__region_place(region, space);
}

static bool choose(lw_tiled_nest *t, const lw_region *region, const mma_cut *cut,
                   const lw_lower_options *options) {
  int64_t m = lw__min_i64(t->m.extent, many_rows); /* beyond, the choice is the same for all */
  lw_mma_problem problem = {
      .batches = region->b / cut->shared,
      .rows = t->turned ? t->n.extent : m,
      .cols = t->turned ? m : t->n.extent,
      .depth = region->k,
      .fma = cut->dtype == LW_DTYPE_F32,
      .a_along_k = cut->a_along_k,
      .b_along_k = cut->c_along_k,
      .profile = options->profile,
      .policy = options->policy,
      .threads = options->threads,
  };
  lw__tiled_side_init(t, &t->a, t->turned ? region->rhs : region->lhs, t->turned ? &t->n : &t->m,
                      cut->a_along_k, 0);
  lw__tiled_side_init(t, &t->c, t->turned ? region->lhs : region->rhs, t->turned ? &t->m : &t->n,
                      cut->c_along_k, 0);
  problem.copied = t->a.copied && t->c.copied;
  if (options->mma_tile != NULL)
    t->tile = *options->mma_tile;
  else if (lw__mma_tile_rank(&problem, &t->tile, 1) == 0)
    return false;
  t->a.tile = t->tile.rows;
  t->c.tile = t->tile.cols;
  t->threads = lw__mma_tile_threads(&t->tile);
  return true;
}

static lw_status build(lw_tiled_nest *t, lw_region *region, const mma_cut *cut,
                       const lw_lower_options *options, lw_diag *diag, lw_lowered *out,
                       bool *out_done) {
  LW_TRY(place(t, region, cut));
  t->nest.pool = &region->pool;
  if (!choose(t, region, cut, options)) return LW_OK;
  int64_t grid = region->b / cut->shared * lw__ceil_div(t->a.count, t->a.tile) *
                 lw__ceil_div(t->c.count, t->c.tile);
  int64_t scalar = t->m.extent;
  LW_TRY(lw__nest_init(&t->nest, region, options, out, region->cls, t->threads));
  t->nest.launch->kernel.min_blocks_per_sm = t->tile.blocks;
  LW_TRY(kernel_body(t));
  LW_TRY(lw__nest_finish(&t->nest, grid, &scalar, 1, diag));
  *out_done = true;
  return lw__arena_printf(
      &out->arena, &out->schedule, "tiles of %lld x %lld on %s, %u slices of %lld%s",
      (long long)t->tile.rows, (long long)t->tile.cols, t->tile.fma ? "FMA units" : "tensor cores",
      t->tile.stages, (long long)t->tile.depth, t->turned ? ", turned" : "");
}

/* Does the right factor stay the same over |shared| neighbouring batches? */
static lw_status is_shared(lw_region_context *ctx, const lw_node_id *nodes, uint32_t count,
                           int64_t shared, bool *out) {
  lw_region region;
  *out = false;
  lw_status status = lw__region_init(&region, ctx, nodes, count);
  if (status == LW_OK) {
    lw_ix_pool *ix = &region.pool.ix;
    lw_ix high = lw__region_var(&region, region.b / shared);
    lw_ix low = lw__region_var(&region, shared);
    lw_ix space[4] = {lw__ix_add(ix, lw__ix_affine(ix, high, shared, 0), low),
                      lw__region_var(&region, region.m), lw__region_var(&region, region.n),
                      lw__region_var(&region, region.k)};
    uint8_t *seen;
    status = lw__region_place(&region, space);
    if (status == LW_OK)
      status = lw__arena_alloc(&region.pool.arena, region.pool.nodes.count + 1u, 1, &seen);
    if (status == LW_OK)
      *out = !lw__elem_depends(&region.pool, region.rhs, lw__ix_var_number(ix, low), seen);
  }
  lw__region_deinit(&region);
  return status;
}

/* Few rows per batch (queries of one step, several heads to one of keys): the most batches that
 * share their right factor become rows of one product, which then reads it once. */
static lw_status share_batches(lw_region_context *ctx, const lw_node_id *nodes, uint32_t count,
                               int64_t b, int64_t m, mma_cut *cut) {
  if (cut->turned || cut->m != 1 || m >= few_rows) return LW_OK;
  for (int64_t shared = lw__min_i64(b, most_shared / m); shared > 1; shared--) {
    bool same = false;
    if (b % shared != 0) continue;
    LW_TRY(is_shared(ctx, nodes, count, shared, &same));
    if (same) return cut->shared = shared, LW_OK;
  }
  return LW_OK;
}

lw_status lw__lower_contraction_mma(lw_region_context *ctx, const lw_node_id *nodes, uint32_t count,
                                    const lw_lower_options *options, lw_diag *diag, lw_lowered *out,
                                    bool *out_done) {
  lw_tiled_nest t;
  memset(&t, 0, sizeof t);
  *out_done = false;
  lw_region region;
  mma_cut cut = {0};
  int64_t b = 1, m = 1;
  lw_status status = lw__region_init(&region, ctx, nodes, count);
  bool skip = status == LW_OK && (region.elements == 0 || region.k == 0);
  if (status == LW_OK && !skip) status = look(&region, options->profile, &cut);
  if (status == LW_OK) b = region.b, m = region.m;
  lw__region_deinit(&region);
  if (status != LW_OK || skip || cut.dtype == LW_DTYPE_NONE) return status;
  LW_TRY(share_batches(ctx, nodes, count, b, m, &cut));
  status = lw__region_init(&region, ctx, nodes, count);
  if (status == LW_OK) status = build(&t, &region, &cut, options, diag, out, out_done);
  lw__nest_deinit(&t.nest);
  lw__region_deinit(&region);
  return status;
}

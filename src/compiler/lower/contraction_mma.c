/* contraction_mma.c: products and convolutions of f16 and bf16 on tensor cores by mma.sync (sm_80
 * on), for every layout, prologue and epilogue. A block computes a tile of results; slices of both
 * factors along k go through a ring of stages in shared memory. A factor that is a plain load of
 * wide pieces is copied there asynchronously, slices ahead; any other is computed element by
 * element. The sums go through shared memory to threads that hold neighbouring results, where the
 * epilogue is that of an element-wise kernel. */
#include <string.h>

#include "compiler/fuse/matrix.h"
#include "compiler/lower/contraction.h"
#include "compiler/lower/mma_tile.h"

enum { epilogue_rows = 16, widest = 8, raster_rows = 8, few_rows = 16, most_shared = 64 };

/* A variable of the space as lanes * high + low. */
typedef struct mma_axis {
  lw_ix high, low, whole;
  int64_t extent, lanes;
} mma_axis;

typedef struct mma_side { /* one factor and its part of a tile */
  lw_elem factor;
  bool copied;    /* asynchronously, as it lies in memory */
  mma_axis *axis; /* its rows */
  bool along_k;
  int64_t tile, count;     /* rows in a block's tile, in all */
  lw_kval count_v, origin; /* i32 */
  uint32_t shared;
  int64_t pitch, stage; /* elements */
} mma_side;

typedef struct mma_nest {
  lw_nest nest;
  lw_mma_tile tile;
  mma_axis m, n, k;
  lw_ix b;
  bool turned; /* the tile's rows run along n */
  lw_dtype dtype;
  mma_side a, c; /* factors of the tile's rows and columns */
  uint32_t threads;
  lw_kval thread, lane, warp_m, warp_n, warp_k; /* i32 */
  uint32_t acc, sums;
} mma_nest;

/* ---- small words ------------------------------------------------------------------------------*/

static lw_kval num(mma_nest *t, int64_t x) { return lw__kb_const_i(&t->nest.kb, LW_DTYPE_I32, x); }
static lw_kval fn(mma_nest *t, lw_fn f, lw_kval a, lw_kval b) {
  return lw__kb_fn(&t->nest.kb, f, a, b, LW_NONE);
}
static lw_kval plus(mma_nest *t, lw_kval a, lw_kval b) { return fn(t, LW_FN_ADD, a, b); }
static lw_kval times(mma_nest *t, lw_kval a, int64_t x) { return fn(t, LW_FN_MUL, a, num(t, x)); }
static lw_kval over(mma_nest *t, lw_kval a, int64_t x) { return fn(t, LW_FN_DIV, a, num(t, x)); }
static lw_kval rest(mma_nest *t, lw_kval a, int64_t x) { return fn(t, LW_FN_REM, a, num(t, x)); }
static lw_kval below(mma_nest *t, lw_kval a, int64_t x) { return fn(t, LW_FN_LT, a, num(t, x)); }

/* ---- space ------------------------------------------------------------------------------------*/

static void axis_init(lw_region *region, mma_axis *axis, int64_t extent, int64_t lanes) {
  axis->extent = extent;
  axis->lanes = lanes;
  axis->high = lw__region_var(region, extent / lanes);
  axis->low = lw__region_var(region, lanes);
  axis->whole = lw__ix_add(&region->pool.ix, lw__ix_affine(&region->pool.ix, axis->high, lanes, 0),
                           axis->low);
}

static lw_status bind_axis(mma_nest *t, const mma_axis *axis, lw_kval at) {
  if (axis->lanes == 1) return lw__nest_bind(&t->nest, axis->high, at);
  LW_TRY(lw__nest_bind(&t->nest, axis->high, over(t, at, axis->lanes)));
  return lw__nest_bind(&t->nest, axis->low, rest(t, at, axis->lanes));
}

/* |at| is a multiple of the lanes. */
static lw_status bind_axis_start(mma_nest *t, const mma_axis *axis, lw_kval at) {
  LW_TRY(lw__nest_bind(&t->nest, axis->high, over(t, at, axis->lanes)));
  return lw__nest_bind(&t->nest, axis->low, num(t, 0));
}

/* How variables are cut, seen in the plain space: along what something is contiguous. */
typedef struct mma_cut {
  int64_t m, n, k; /* lanes */
  int64_t shared;  /* so many neighbouring batches have one right factor: rows of one product */
  bool turned;
  bool a_along_k, c_along_k;
  lw_dtype dtype;
} mma_cut;

/* A factor lies with k contiguous in shared memory, unless its rows are contiguous in memory. */
static bool stays_along_k(lw_region *region, lw_elem factor, lw_ix row, lw_ix k) {
  return lw__contraction_runs_along(region, factor, k) ||
         !lw__contraction_runs_along(region, factor, row);
}

/* As many lanes as all that runs along the axis allow: |factor| (or LW_NONE), the results. What
 * else uses the variable reads it element by element, wherever its digits begin. */
static lw_status cut_axis(const lw_region *region, lw_ix var, int64_t extent, lw_elem factor,
                          lw_elem other, bool results, int64_t *out_lanes) {
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
  if (cut->dtype == LW_DTYPE_NONE) return LW_OK;
  lw_ix m = space[1], n = space[2], k = space[3];
  bool lhs_along_k = stays_along_k(region, region->lhs, m, k);
  bool rhs_along_k = stays_along_k(region, region->rhs, n, k);
  bool along_m = lw__contraction_stores_along(region, m);
  cut->turned = along_m && !lw__contraction_stores_along(region, n);
  cut->a_along_k = cut->turned ? rhs_along_k : lhs_along_k;
  cut->c_along_k = cut->turned ? lhs_along_k : rhs_along_k;
  lw_elem lhs = region->lhs, rhs = region->rhs;
  LW_TRY(cut_axis(region, k, region->k, lhs_along_k ? lhs : LW_NONE, rhs_along_k ? rhs : LW_NONE,
                  false, &cut->k));
  LW_TRY(
      cut_axis(region, m, region->m, lhs_along_k ? LW_NONE : lhs, LW_NONE, cut->turned, &cut->m));
  LW_TRY(
      cut_axis(region, n, region->n, rhs_along_k ? LW_NONE : rhs, LW_NONE, !cut->turned, &cut->n));
  return LW_OK;
}

/* ---- factors ----------------------------------------------------------------------------------*/

/* Elements that are handled at once: along what is contiguous in shared memory. */
static int64_t side_lanes(const mma_nest *t, const mma_side *side) {
  return side->along_k ? t->k.lanes : side->axis->lanes;
}

static void side_init(mma_nest *t, mma_side *side, lw_elem factor, mma_axis *axis, bool along_k,
                      int64_t tile) {
  side->factor = factor;
  side->axis = axis;
  side->along_k = along_k;
  side->tile = tile;
  side->count = axis->extent;
  int64_t lanes = side_lanes(t, side);
  lw_ix low = along_k ? t->k.low : axis->low;
  side->copied = lanes > 1 && lw__nest_is_copyable(t->nest.pool, factor, low, lanes);
}

static void side_place(mma_nest *t, mma_side *side) {
  side->pitch = lw__mma_pitch(side->along_k, side->tile, t->tile.depth);
  side->stage = lw__mma_stage_elements(side->along_k, side->tile, t->tile.depth);
  side->shared = lw__kb_shared(&t->nest.kb, t->dtype, (uint32_t)(side->stage * t->tile.stages));
}

/* The place in shared memory of (row, k) of a slice. */
static lw_kval side_cell(mma_nest *t, const mma_side *side, lw_kval stage, lw_kval row, lw_kval k) {
  lw_kval line = side->along_k ? row : k, at = side->along_k ? k : row;
  return plus(t, times(t, stage, side->stage), plus(t, times(t, line, side->pitch), at));
}

/* Which piece of a slice a thread handles in turn |u| of |turns|: |low| < |lows| along what is
 * contiguous. */
static void piece_of(mma_nest *t, lw_kval u, int64_t lows, lw_kval *out_low, lw_kval *out_high) {
  if (t->threads % lows == 0) { /* the same column in every turn */
    *out_low = rest(t, t->thread, lows);
    *out_high = plus(t, times(t, u, t->threads / lows), over(t, t->thread, lows));
    return;
  }
  lw_kval at = plus(t, times(t, u, t->threads), t->thread);
  *out_low = rest(t, at, lows);
  *out_high = over(t, at, lows);
}

/* Rows of tiles past the end, and k past the end: not there. LW_NONE: all are there. */
static lw_kval piece_there(mma_nest *t, const mma_side *side, lw_kval at, lw_kval k) {
  lw_kval there = LW_NONE;
  if (side->count % side->tile != 0) there = fn(t, LW_FN_LT, at, side->count_v);
  if (t->k.extent % t->tile.depth == 0) return there;
  lw_kval k_there = below(t, k, t->k.extent);
  return there == LW_NONE ? k_there : fn(t, LW_FN_AND, there, k_there);
}

/* The row and k of a piece, |low| and |high| of a slice. */
static void piece_at(mma_nest *t, const mma_side *side, lw_kval low, lw_kval high, lw_kval *out_row,
                     lw_kval *out_k) {
  lw_kval start = times(t, low, side_lanes(t, side));
  *out_row = side->along_k ? high : start;
  *out_k = side->along_k ? start : high;
}

static lw_status bind_piece(mma_nest *t, const mma_side *side, lw_kval row, lw_kval k) {
  LW_TRY(side->along_k ? bind_axis(t, side->axis, row) : bind_axis_start(t, side->axis, row));
  return side->along_k ? bind_axis_start(t, &t->k, k) : bind_axis(t, &t->k, k);
}

static lw_status copy_piece(mma_nest *t, const mma_side *side, lw_kval k0, lw_kval stage,
                            lw_kval row, lw_kval kk) {
  lw_kval k = plus(t, k0, kk), at = plus(t, side->origin, row);
  lw_kval there = piece_there(t, side, at, k);
  LW_TRY(bind_piece(t, side, at, k));
  lw__nest_copy(&t->nest, side->factor, side->shared, side_cell(t, side, stage, row, kk), there,
                side_lanes(t, side));
  return LW_OK;
}

/* Where nothing is, zeros. */
static lw_status compute_piece(mma_nest *t, const mma_side *side, lw_kval k0, lw_kval stage,
                               lw_kval row, lw_kval kk) {
  lw_kbuilder *kb = &t->nest.kb;
  int64_t lanes = side_lanes(t, side);
  lw_ix low = side->along_k ? t->k.low : side->axis->low;
  lw_kval k = plus(t, k0, kk), at = plus(t, side->origin, row);
  lw_kval there = piece_there(t, side, at, k), cell = side_cell(t, side, stage, row, kk);
  uint32_t piece = lw__kb_local(kb, t->dtype, (uint32_t)lanes);
  if (there != LW_NONE) {
    lw_kval lane = lw__kb_for_n(kb, lanes, LW_KLOOP_UNROLL);
    lw__kb_lset(kb, piece, lane, lw__kb_const_f(kb, LW_DTYPE_F32, 0));
    lw__kb_end(kb);
    lw__kb_if(kb, there); /* loads stay inside, where their addresses are valid */
  }
  LW_TRY(bind_piece(t, side, at, k));
  LW_TRY(lw__nest_vector_elem(&t->nest, side->factor, low, lanes, piece));
  if (there != LW_NONE) lw__kb_end(kb);
  if (lanes > 1)
    lw__kb_ssetv(kb, side->shared, cell, LW_NONE, piece, LW_NONE, (uint32_t)lanes);
  else
    lw__kb_sset(kb, side->shared, cell, LW_NONE, lw__kb_lget(kb, piece, LW_NONE));
  return LW_OK;
}

/* The slice from |k0| on into |stage|. */
static lw_status load_side(mma_nest *t, const mma_side *side, lw_kval k0, lw_kval stage) {
  lw_kbuilder *kb = &t->nest.kb;
  int64_t lows = (side->along_k ? t->tile.depth : side->tile) / side_lanes(t, side);
  int64_t highs = side->along_k ? side->tile : t->tile.depth, pieces = lows * highs;
  lw_kloop loop = side->copied ? LW_KLOOP_UNROLL : LW_KLOOP_SERIAL;
  lw_kval u = lw__kb_for_n(kb, lw__ceil_div(pieces, t->threads), loop), low, high, row, kk;
  piece_of(t, u, lows, &low, &high);
  piece_at(t, side, low, high, &row, &kk);
  bool ragged = pieces % t->threads != 0;
  if (ragged) lw__kb_if(kb, below(t, high, highs));
  LW_TRY(side->copied ? copy_piece(t, side, k0, stage, row, kk)
                      : compute_piece(t, side, k0, stage, row, kk));
  if (ragged) lw__kb_end(kb);
  lw__kb_end(kb);
  lw__nest_forget(&t->nest);
  return LW_OK;
}

static lw_status load_slice(mma_nest *t, lw_kval slice, lw_kval stage) {
  lw_kval k0 = times(t, slice, t->tile.depth);
  LW_TRY(load_side(t, &t->a, k0, stage));
  return load_side(t, &t->c, k0, stage);
}

/* ---- products ---------------------------------------------------------------------------------*/

/* Fragments of |count| elements per lane (8 for 16 rows of A, 8 or 4 for 16 or 8 columns of B) of
 * the rows from |row| on and the 16 of k from |kk| on. A matrix of 8 x 8 is rows by k as it lies,
 * or k by rows and turned. In A the second matrix is 8 rows further, in B 8 of k. */
static void load_fragment(mma_nest *t, const mma_side *side, bool is_a, lw_kval stage, lw_kval row,
                          lw_kval kk, uint32_t local, lw_kval at, uint32_t matrices) {
  lw_kval eighth = rest(t, t->lane, 8), second = rest(t, over(t, t->lane, 8), 2);
  lw_kval third = over(t, t->lane, 16);
  lw_kval row_part = times(t, is_a ? second : third, 8),
          k_part = times(t, is_a ? third : second, 8);
  if (side->along_k)
    row_part = plus(t, row_part, eighth);
  else
    k_part = plus(t, k_part, eighth);
  lw_kval cell = side_cell(t, side, stage, plus(t, row, row_part), plus(t, kk, k_part));
  lw__kb_frag(&t->nest.kb, side->shared, cell, !side->along_k, local, at, matrices);
}

static void multiply_slice(mma_nest *t, lw_kval stage, uint32_t frag_a, uint32_t frag_c) {
  lw_kbuilder *kb = &t->nest.kb;
  const lw_mma_tile *p = &t->tile;
  int64_t tm = p->rows / p->warps_m, tn = p->cols / p->warps_n;
  int64_t steps = p->depth / 16 / p->warps_k, wide = tn % 16 == 0 ? 16 : 8;
  lw_kval step = lw__kb_for_n(kb, steps, LW_KLOOP_UNROLL);
  lw_kval kk = times(t, plus(t, times(t, t->warp_k, steps), step), 16);
  lw_kval i = lw__kb_for_n(kb, tm / 16, LW_KLOOP_UNROLL);
  lw_kval row = plus(t, times(t, t->warp_m, tm), times(t, i, 16));
  load_fragment(t, &t->a, true, stage, row, kk, frag_a, times(t, i, 8), 4);
  lw__kb_end(kb);
  lw_kval j = lw__kb_for_n(kb, tn / wide, LW_KLOOP_UNROLL);
  lw_kval col = plus(t, times(t, t->warp_n, tn), times(t, j, wide));
  load_fragment(t, &t->c, false, stage, col, kk, frag_c, times(t, j, wide / 2),
                (uint32_t)(wide / 4));
  lw__kb_end(kb);
  i = lw__kb_for_n(kb, tm / 16, LW_KLOOP_UNROLL);
  j = lw__kb_for_n(kb, tn / 8, LW_KLOOP_UNROLL);
  lw_kval sum = times(t, plus(t, times(t, i, tn / 8), j), 4);
  lw__kb_mma(kb, t->acc, sum, frag_a, times(t, i, 8), frag_c, times(t, j, 4));
  lw__kb_end(kb);
  lw__kb_end(kb);
  lw__kb_end(kb);
}

/* ---- epilogue ---------------------------------------------------------------------------------*/

/* Rows of 16 of every warp, |i|-th, into shared memory. */
static void put_sums(mma_nest *t, lw_kval i, int64_t pitch) {
  lw_kbuilder *kb = &t->nest.kb;
  int64_t tn = t->tile.cols / t->tile.warps_n;
  lw_kval group = over(t, t->lane, 4), pair = times(t, rest(t, t->lane, 4), 2);
  lw_kval line = plus(t, times(t, t->warp_k, t->tile.warps_m), t->warp_m);
  lw_kval j = lw__kb_for_n(kb, tn / 8, LW_KLOOP_UNROLL);
  lw_kval half = lw__kb_for_n(kb, 2, LW_KLOOP_UNROLL);
  lw_kval row = plus(t, times(t, line, epilogue_rows), plus(t, times(t, half, 8), group));
  lw_kval col = plus(t, plus(t, times(t, t->warp_n, tn), times(t, j, 8)), pair);
  lw_kval from = plus(t, times(t, plus(t, times(t, i, tn / 8), j), 4), times(t, half, 2));
  lw__kb_ssetv(kb, t->sums, plus(t, times(t, row, pitch), col), LW_NONE, t->acc, from, 2);
  lw__kb_end(kb);
  lw__kb_end(kb);
}

/* |lanes| neighbouring sums of line |r|, those of all warps along k added in order. */
static void get_sums(mma_nest *t, lw_kval r, lw_kval col, int64_t pitch, int64_t lanes,
                     uint32_t total, uint32_t part) {
  lw_kbuilder *kb = &t->nest.kb;
  lw_kval at = plus(t, times(t, r, pitch), col);
  lw__kb_sgetv(kb, t->sums, at, total, LW_NONE, (uint32_t)lanes);
  for (int64_t w = 1; w < t->tile.warps_k; w++) {
    lw_kval other = plus(t, at, num(t, w * t->tile.warps_m * epilogue_rows * pitch));
    lw__kb_sgetv(kb, t->sums, other, part, LW_NONE, (uint32_t)lanes);
    lw_kval lane = lw__kb_for_n(kb, lanes, LW_KLOOP_UNROLL);
    lw_kval sum = plus(t, lw__kb_lget(kb, total, lane), lw__kb_lget(kb, part, lane));
    lw__kb_lset(kb, total, lane, sum);
    lw__kb_end(kb);
  }
}

static lw_status store_lines(mma_nest *t, lw_kval i, int64_t pitch) {
  lw_kbuilder *kb = &t->nest.kb;
  lw_region *region = t->nest.region;
  int64_t tm = t->tile.rows / t->tile.warps_m, lanes = t->c.axis->lanes;
  int64_t lines = t->tile.warps_m * epilogue_rows, vectors = t->tile.cols / lanes;
  uint32_t total = lw__kb_local(kb, LW_DTYPE_F32, (uint32_t)lanes);
  uint32_t part = t->tile.warps_k > 1 ? lw__kb_local(kb, LW_DTYPE_F32, (uint32_t)lanes) : LW_NONE;
  lw_kval u = lw__kb_for_n(kb, lw__ceil_div(lines * vectors, t->threads), LW_KLOOP_ROLLED);
  lw_kval vector, r;
  piece_of(t, u, vectors, &vector, &r);
  lw_kval local_row = plus(t, times(t, over(t, r, epilogue_rows), tm),
                           plus(t, times(t, i, epilogue_rows), rest(t, r, epilogue_rows)));
  lw_kval row = plus(t, t->a.origin, local_row), first = times(t, vector, lanes);
  lw_kval col = plus(t, t->c.origin, first);
  lw_kval inside =
      fn(t, LW_FN_AND, fn(t, LW_FN_LT, row, t->a.count_v), fn(t, LW_FN_LT, col, t->c.count_v));
  if (lines * vectors % t->threads != 0) inside = fn(t, LW_FN_AND, inside, below(t, r, lines));
  lw__kb_if(kb, inside);
  get_sums(t, r, first, pitch, lanes, total, part);
  LW_TRY(bind_axis(t, t->a.axis, row));
  LW_TRY(bind_axis_start(t, t->c.axis, col));
  LW_TRY(lw__nest_leaf(&t->nest, lw__node(region->ctx->graph, region->anchor)->result, LW_NONE,
                       total));
  LW_TRY(lw__nest_vector_body(&t->nest, t->c.axis->low, lanes));
  lw__kb_end(kb);
  lw__kb_end(kb);
  return LW_OK;
}

static lw_status epilogue(mma_nest *t) {
  lw_kbuilder *kb = &t->nest.kb;
  int64_t pitch = t->tile.cols + 8, tm = t->tile.rows / t->tile.warps_m;
  lw_kval i = lw__kb_for_n(kb, tm / epilogue_rows, LW_KLOOP_UNROLL);
  put_sums(t, i, pitch);
  lw__kb_barrier(kb);
  LW_TRY(store_lines(t, i, pitch));
  lw__kb_barrier(kb);
  lw__kb_end(kb);
  return LW_OK;
}

/* ---- the kernel -------------------------------------------------------------------------------*/

/* Which tile: columns fastest, in groups of some rows of tiles, so that what runs at once reads few
 * distinct slices. */
static lw_status open_tile(mma_nest *t, lw_kval m_count) {
  lw_kbuilder *kb = &t->nest.kb;
  int64_t tiles_m = lw__ceil_div(t->a.count, t->a.tile),
          tiles_n = lw__ceil_div(t->c.count, t->c.tile);
  lw_kval n_count = num(t, t->n.extent);
  t->a.count_v = t->turned ? n_count : m_count;
  t->c.count_v = t->turned ? m_count : n_count;
  lw_kval block = lw__kb_cast(kb, lw__kb_block(kb), LW_DTYPE_I32);
  LW_TRY(lw__nest_bind(&t->nest, t->b, over(t, block, tiles_m * tiles_n)));
  lw_kval at = rest(t, block, tiles_m * tiles_n);
  lw_kval tile_m = over(t, at, tiles_n), tile_n = rest(t, at, tiles_n);
  if (tiles_m > raster_rows && tiles_n > 1) {
    lw_kval first = times(t, over(t, at, raster_rows * tiles_n), raster_rows);
    lw_kval high = fn(t, LW_FN_MIN, num(t, raster_rows), fn(t, LW_FN_SUB, num(t, tiles_m), first));
    lw_kval within = rest(t, at, raster_rows * tiles_n);
    tile_m = plus(t, first, fn(t, LW_FN_REM, within, high));
    tile_n = fn(t, LW_FN_DIV, within, high);
  }
  t->a.origin = times(t, tile_m, t->a.tile);
  t->c.origin = times(t, tile_n, t->c.tile);
  return LW_OK;
}

static void open_warps(mma_nest *t) {
  const lw_mma_tile *p = &t->tile;
  t->thread = lw__kb_thread(&t->nest.kb);
  t->lane = rest(t, t->thread, 32);
  lw_kval warp = over(t, t->thread, 32);
  t->warp_n = rest(t, warp, p->warps_n);
  t->warp_m = rest(t, over(t, warp, p->warps_n), p->warps_m);
  t->warp_k = over(t, warp, p->warps_n * p->warps_m);
}

static lw_status slices(mma_nest *t) {
  lw_kbuilder *kb = &t->nest.kb;
  const lw_mma_tile *p = &t->tile;
  int64_t tm = p->rows / p->warps_m, tn = p->cols / p->warps_n;
  int64_t count = lw__ceil_div(t->k.extent, p->depth), ahead = p->stages - 1;
  uint32_t frag_a = lw__kb_local(kb, t->dtype, (uint32_t)(tm / 2));
  uint32_t frag_c = lw__kb_local(kb, t->dtype, (uint32_t)(tn / 2));
  for (int64_t s = 0; s < ahead; s++) {
    if (s < count) LW_TRY(load_slice(t, num(t, s), num(t, s)));
    lw__kb_copy_end(kb);
  }
  lw_kval slice = lw__kb_for_n(kb, count, LW_KLOOP_ROLLED);
  lw__kb_copy_wait(kb, (uint32_t)ahead - 1);
  lw__kb_barrier(kb);
  if (ahead < count) {
    lw_kval next = plus(t, slice, num(t, ahead));
    lw__kb_if(kb, below(t, next, count));
    LW_TRY(load_slice(t, next, rest(t, next, p->stages)));
    lw__kb_end(kb);
  }
  lw__kb_copy_end(kb);
  multiply_slice(t, rest(t, slice, p->stages), frag_a, frag_c);
  lw__kb_end(kb);
  lw__kb_copy_wait(kb, 0);
  lw__nest_forget(&t->nest);
  return LW_OK;
}

static lw_status kernel_body(mma_nest *t) {
  lw_kbuilder *kb = &t->nest.kb;
  const lw_mma_tile *p = &t->tile;
  uint32_t sums = (uint32_t)(p->rows / p->warps_m * (p->cols / p->warps_n) / 32);
  lw_kval m_count = lw__kb_cast(kb, lw__kb_scalar(kb, lw__kb_scalar_arg(kb)), LW_DTYPE_I32);
  LW_TRY(open_tile(t, m_count));
  open_warps(t);
  side_place(t, &t->a);
  side_place(t, &t->c);
  t->sums = lw__kb_shared(kb, LW_DTYPE_F32,
                          (uint32_t)(p->warps_k * p->warps_m * epilogue_rows * (p->cols + 8)));
  t->acc = lw__kb_local(kb, LW_DTYPE_F32, sums);
  lw_kval i = lw__kb_for_n(kb, sums, LW_KLOOP_UNROLL);
  lw__kb_lset(kb, t->acc, i, lw__kb_const_f(kb, LW_DTYPE_F32, 0));
  lw__kb_end(kb);
  LW_TRY(slices(t));
  return epilogue(t);
}

/* ---- entry ------------------------------------------------------------------------------------*/

/* Rows are those of |shared| batches, one batch after the other. */
static lw_status place(mma_nest *t, lw_region *region, const mma_cut *cut) {
  lw_ix_pool *ix = &region->pool.ix;
  t->b = lw__region_var(region, region->b / cut->shared);
  axis_init(region, &t->m, region->m * cut->shared, cut->m);
  axis_init(region, &t->n, region->n, cut->n);
  axis_init(region, &t->k, region->k, cut->k);
  lw_ix batch = lw__ix_add(ix, lw__ix_affine(ix, t->b, cut->shared, 0),
                           lw__ix_div(ix, t->m.whole, region->m));
  lw_ix space[4] = {batch, lw__ix_mod(ix, t->m.whole, region->m), t->n.whole, t->k.whole};
  t->turned = cut->turned;
  t->dtype = cut->dtype;
  return lw__region_place(region, space);
}

static bool choose(mma_nest *t, const lw_region *region, const mma_cut *cut,
                   const lw_lower_options *options) {
  lw_mma_problem problem = {
      .batches = region->b / cut->shared,
      .rows = t->turned ? t->n.extent : t->m.extent,
      .cols = t->turned ? t->m.extent : t->n.extent,
      .depth = region->k,
      .a_along_k = cut->a_along_k,
      .b_along_k = cut->c_along_k,
      .profile = options->profile,
      .policy = options->policy,
      .threads = options->threads,
  };
  side_init(t, &t->a, t->turned ? region->rhs : region->lhs, t->turned ? &t->n : &t->m,
            cut->a_along_k, 0);
  side_init(t, &t->c, t->turned ? region->lhs : region->rhs, t->turned ? &t->m : &t->n,
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

static lw_status build(mma_nest *t, lw_region *region, const mma_cut *cut,
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
  return lw__arena_printf(&out->arena, &out->schedule,
                          "tiles of %lld x %lld on tensor cores, %u slices of %lld%s",
                          (long long)t->tile.rows, (long long)t->tile.cols, t->tile.stages,
                          (long long)t->tile.depth, t->turned ? ", turned" : "");
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
  mma_nest t;
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

/* contraction_slice.c: slices of a product's factors on their way to shared memory. A factor that
 * is a plain load of wide pieces is copied there asynchronously; any other is computed, piece by
 * piece.
 */
#include "compiler/lower/contraction_tiled.h"

/* ---- space ------------------------------------------------------------------------------------*/

void lw__tiled_axis(lw_region *region, lw_tiled_axis *axis, int64_t extent, int64_t lanes) {
  axis->extent = extent;
  axis->lanes = lanes;
  axis->high = lw__region_var(region, extent / lanes);
  axis->low = lw__region_var(region, lanes);
  axis->whole = lw__ix_add(&region->pool.ix, lw__ix_affine(&region->pool.ix, axis->high, lanes, 0),
                           axis->low);
}

lw_status lw__tiled_bind(lw_tiled_nest *t, const lw_tiled_axis *axis, lw_kval at) {
  if (axis->lanes == 1) return lw__nest_bind(&t->nest, axis->high, at);
  LW_TRY(lw__nest_bind(&t->nest, axis->high, over(t, at, axis->lanes)));
  return lw__nest_bind(&t->nest, axis->low, rest(t, at, axis->lanes));
}

/* |at| is a multiple of the lanes. */
lw_status lw__tiled_bind_start(lw_tiled_nest *t, const lw_tiled_axis *axis, lw_kval at) {
  LW_TRY(lw__nest_bind(&t->nest, axis->high, over(t, at, axis->lanes)));
  return lw__nest_bind(&t->nest, axis->low, num(t, 0));
}

/* ---- factors ----------------------------------------------------------------------------------*/

/* Does memory hold the factor in the type that shared memory has it in? */
static bool is_stored_as(const lw_elem_pool *pool, lw_elem e, lw_dtype dtype) {
  const lw_elem_node *n = lw__elem_node(pool, lw__elem_unwidened(pool, e));
  if (n->kind == LW_ELEM_MAP && n->fn == LW_FN_SELECT)
    return is_stored_as(pool, n->arg[1], dtype) && is_stored_as(pool, n->arg[2], dtype);
  return n->kind == LW_ELEM_CONST || n->dtype == dtype;
}

/* Elements that are handled at once: along what is contiguous in shared memory. */
static int64_t side_lanes(const lw_tiled_nest *t, const lw_tiled_side *side) {
  return side->along_k ? t->k.lanes : side->axis->lanes;
}

void lw__tiled_side_init(lw_tiled_nest *t, lw_tiled_side *side, lw_elem factor, lw_tiled_axis *axis,
                         bool along_k, int64_t tile) {
  side->factor = factor;
  side->axis = axis;
  side->along_k = along_k;
  side->tile = tile;
  side->count = axis->extent;
  int64_t lanes = side_lanes(t, side);
  lw_ix low = along_k ? t->k.low : axis->low;
  side->copied = lanes > 1 && is_stored_as(t->nest.pool, factor, t->dtype) &&
                 lw__nest_is_copyable(t->nest.pool, factor, low, lanes);
}

/* The place in shared memory of (row, k) of a slice. */
lw_kval lw__tiled_cell(lw_tiled_nest *t, const lw_tiled_side *side, lw_kval stage, lw_kval row,
                       lw_kval k) {
  lw_kval line = side->along_k ? row : k, at = side->along_k ? k : row;
  return plus(t, times(t, stage, side->stage), plus(t, times(t, line, side->pitch), at));
}

/* Which piece of a slice a thread handles in turn |u| of |turns|: |low| < |lows| along what is
 * contiguous. */
void lw__tiled_piece(lw_tiled_nest *t, lw_kval u, int64_t lows, lw_kval *out_low,
                     lw_kval *out_high) {
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
static lw_kval piece_there(lw_tiled_nest *t, const lw_tiled_side *side, lw_kval at, lw_kval k) {
  lw_kval there = LW_NONE;
  if (side->count % side->tile != 0) there = fn(t, LW_FN_LT, at, side->count_v);
  if (t->k.extent % t->tile.depth == 0) return there;
  lw_kval k_there = below(t, k, t->k.extent);
  return there == LW_NONE ? k_there : fn(t, LW_FN_AND, there, k_there);
}

/* The row and k of a piece, |low| and |high| of a slice. */
static void piece_at(lw_tiled_nest *t, const lw_tiled_side *side, lw_kval low, lw_kval high,
                     lw_kval *out_row, lw_kval *out_k) {
  lw_kval start = times(t, low, side_lanes(t, side));
  *out_row = side->along_k ? high : start;
  *out_k = side->along_k ? start : high;
}

static lw_status bind_piece(lw_tiled_nest *t, const lw_tiled_side *side, lw_kval row, lw_kval k) {
  LW_TRY(side->along_k ? lw__tiled_bind(t, side->axis, row)
                       : lw__tiled_bind_start(t, side->axis, row));
  return side->along_k ? lw__tiled_bind_start(t, &t->k, k) : lw__tiled_bind(t, &t->k, k);
}

static lw_status copy_piece(lw_tiled_nest *t, const lw_tiled_side *side, lw_kval k0, lw_kval stage,
                            lw_kval row, lw_kval kk) {
  lw_kval k = plus(t, k0, kk), at = plus(t, side->origin, row);
  lw_kval there = piece_there(t, side, at, k);
  LW_TRY(bind_piece(t, side, at, k));
  lw__nest_copy(&t->nest, side->factor, side->shared, lw__tiled_cell(t, side, stage, row, kk),
                there, side_lanes(t, side));
  return LW_OK;
}

/* Into |piece|; where nothing is, zeros. */
static lw_status compute_piece(lw_tiled_nest *t, const lw_tiled_side *side, lw_kval k0, lw_kval row,
                               lw_kval kk, uint32_t piece) {
  lw_kbuilder *kb = &t->nest.kb;
  int64_t lanes = side_lanes(t, side);
  lw_ix low = side->along_k ? t->k.low : side->axis->low;
  lw_kval k = plus(t, k0, kk), at = plus(t, side->origin, row);
  lw_kval there = piece_there(t, side, at, k);
  if (there != LW_NONE) {
    lw_kval lane = lw__kb_for_n(kb, lanes, LW_KLOOP_UNROLL);
    lw__kb_lset(kb, piece, lane, lw__kb_const_f(kb, LW_DTYPE_F32, 0));
    lw__kb_end(kb);
    lw__kb_if(kb, there); /* loads stay inside, where their addresses are valid */
  }
  LW_TRY(bind_piece(t, side, at, k));
  LW_TRY(lw__nest_vector_elem(&t->nest, side->factor, low, lanes, piece));
  if (there != LW_NONE) lw__kb_end(kb);
  return LW_OK;
}

static void put_piece(lw_tiled_nest *t, const lw_tiled_side *side, lw_kval cell, uint32_t local,
                      lw_kval from) {
  lw_kbuilder *kb = &t->nest.kb;
  int64_t lanes = side_lanes(t, side);
  if (lanes > 1)
    lw__kb_ssetv(kb, side->shared, cell, LW_NONE, local, from, (uint32_t)lanes);
  else
    lw__kb_sset(kb, side->shared, cell, LW_NONE, lw__kb_lget(kb, local, from));
}

typedef struct side_loop {
  lw_kval u, row, kk;
  bool ragged;
} side_loop;

static int64_t side_lows(const lw_tiled_nest *t, const lw_tiled_side *side) {
  return (side->along_k ? t->tile.depth : side->tile) / side_lanes(t, side);
}
static int64_t side_turns(const lw_tiled_nest *t, const lw_tiled_side *side) {
  int64_t highs = side->along_k ? side->tile : t->tile.depth;
  return lw__ceil_div(side_lows(t, side) * highs, t->threads);
}

/* Over a thread's pieces of a slice. */
static side_loop open_pieces(lw_tiled_nest *t, const lw_tiled_side *side, lw_kloop loop) {
  lw_kbuilder *kb = &t->nest.kb;
  int64_t lows = side_lows(t, side), highs = side->along_k ? side->tile : t->tile.depth;
  side_loop l = {.u = lw__kb_for_n(kb, side_turns(t, side), loop),
                 .ragged = lows * highs % t->threads != 0};
  lw_kval low, high;
  lw__tiled_piece(t, l.u, lows, &low, &high);
  piece_at(t, side, low, high, &l.row, &l.kk);
  if (l.ragged) lw__kb_if(kb, below(t, high, highs));
  return l;
}

static void close_pieces(lw_tiled_nest *t, side_loop l) {
  if (l.ragged) lw__kb_end(&t->nest.kb);
  lw__kb_end(&t->nest.kb);
  lw__nest_forget(&t->nest);
}

void lw__tiled_side_place(lw_tiled_nest *t, lw_tiled_side *side) {
  side->pitch = lw__mma_pitch(t->tile.fma, side->along_k, side->tile, t->tile.depth);
  side->stage = lw__mma_stage_elements(t->tile.fma, side->along_k, side->tile, t->tile.depth);
  side->shared = lw__kb_shared(&t->nest.kb, t->dtype, (uint32_t)(side->stage * t->tile.stages));
  side->held = LW_NONE;
  if (t->tile.fma && !side->copied)
    side->held =
        lw__kb_local(&t->nest.kb, t->dtype, (uint32_t)(side_turns(t, side) * side_lanes(t, side)));
}

/* The slice from |k0| on into |stage|; what is held, into registers. */
static lw_status load_side(lw_tiled_nest *t, const lw_tiled_side *side, lw_kval k0, lw_kval stage) {
  lw_kbuilder *kb = &t->nest.kb;
  bool held = side->held != LW_NONE;
  int64_t lanes = side_lanes(t, side);
  uint32_t piece = side->copied ? LW_NONE : lw__kb_local(kb, t->dtype, (uint32_t)lanes);
  side_loop l = open_pieces(t, side, side->copied || held ? LW_KLOOP_UNROLL : LW_KLOOP_SERIAL);
  LW_TRY(side->copied ? copy_piece(t, side, k0, stage, l.row, l.kk)
                      : compute_piece(t, side, k0, l.row, l.kk, piece));
  if (held) {
    lw_kval lane = lw__kb_for_n(kb, lanes, LW_KLOOP_UNROLL);
    lw__kb_lset(kb, side->held, plus(t, times(t, l.u, lanes), lane), lw__kb_lget(kb, piece, lane));
    lw__kb_end(kb);
  } else if (!side->copied) {
    put_piece(t, side, lw__tiled_cell(t, side, stage, l.row, l.kk), piece, LW_NONE);
  }
  close_pieces(t, l);
  return LW_OK;
}

static void put_side(lw_tiled_nest *t, const lw_tiled_side *side, lw_kval stage) {
  if (side->held == LW_NONE) return;
  side_loop l = open_pieces(t, side, LW_KLOOP_UNROLL);
  put_piece(t, side, lw__tiled_cell(t, side, stage, l.row, l.kk), side->held,
            times(t, l.u, side_lanes(t, side)));
  close_pieces(t, l);
}

lw_status lw__tiled_load(lw_tiled_nest *t, lw_kval slice, lw_kval stage) {
  lw_kval k0 = times(t, slice, t->tile.depth);
  LW_TRY(load_side(t, &t->a, k0, stage));
  return load_side(t, &t->c, k0, stage);
}

void lw__tiled_put(lw_tiled_nest *t, lw_kval stage) {
  put_side(t, &t->a, stage);
  put_side(t, &t->c, stage);
}

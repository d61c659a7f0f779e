/* contraction_tiled.h: what products of tiles are made of: a block computes a tile of results,
 * slices of both factors along k go through a ring of stages in shared memory, tensor cores or FMA
 * units multiply them, the sums leave through shared memory. Internal to lower/. */
#ifndef LW_COMPILER_CONTRACTION_TILED_H
#define LW_COMPILER_CONTRACTION_TILED_H

#include "compiler/lower/contraction.h"
#include "compiler/lower/mma_tile.h"

enum { LW_TILED_ROWS = 16 }; /* of a warp, that leave at once */

/* A variable of the space as lanes * high + low. */
typedef struct lw_tiled_axis {
  lw_ix high, low, whole;
  int64_t extent, lanes;
} lw_tiled_axis;

typedef struct lw_tiled_side { /* one factor and its part of a tile */
  lw_elem factor;
  bool copied;    /* asynchronously, as it lies in memory */
  lw_tiled_axis *axis; /* its rows */
  bool along_k;
  int64_t tile, count;     /* rows in a block's tile, in all */
  lw_kval count_v, origin; /* i32 */
  uint32_t shared;
  uint32_t held; /* LW_NONE, or a local array: what is computed waits there while units multiply */
  int64_t pitch, stage; /* elements */
} lw_tiled_side;

typedef struct lw_tiled_nest {
  lw_nest nest;
  lw_mma_tile tile;
  lw_tiled_axis m, n, k;
  lw_ix b;
  bool turned; /* the tile's rows run along n */
  lw_dtype dtype;
  lw_tiled_side a, c; /* factors of the tile's rows and columns */
  uint32_t threads;
  lw_kval thread, lane, warp_m, warp_n, warp_k; /* i32 */
  uint32_t acc, sums;
} lw_tiled_nest;

static inline lw_kval num(lw_tiled_nest *t, int64_t x) {
  return lw__kb_const_i(&t->nest.kb, LW_DTYPE_I32, x);
}
static inline lw_kval fn(lw_tiled_nest *t, lw_fn f, lw_kval a, lw_kval b) {
  return lw__kb_fn(&t->nest.kb, f, a, b, LW_NONE);
}
static inline lw_kval plus(lw_tiled_nest *t, lw_kval a, lw_kval b) {
  return fn(t, LW_FN_ADD, a, b);
}
static inline lw_kval times(lw_tiled_nest *t, lw_kval a, int64_t x) {
  return fn(t, LW_FN_MUL, a, num(t, x));
}
static inline lw_kval over(lw_tiled_nest *t, lw_kval a, int64_t x) {
  return fn(t, LW_FN_DIV, a, num(t, x));
}
static inline lw_kval rest(lw_tiled_nest *t, lw_kval a, int64_t x) {
  return fn(t, LW_FN_REM, a, num(t, x));
}
static inline lw_kval below(lw_tiled_nest *t, lw_kval a, int64_t x) {
  return fn(t, LW_FN_LT, a, num(t, x));
}

/* ---- contraction_slice.c: from memory to shared memory ----------------------------------------*/

void lw__tiled_axis(lw_region *region, lw_tiled_axis *axis, int64_t extent, int64_t lanes);
lw_status lw__tiled_bind(lw_tiled_nest *t, const lw_tiled_axis *axis, lw_kval at) LW_MUST_CHECK;
/* |at| is a multiple of the lanes. */
lw_status lw__tiled_bind_start(lw_tiled_nest *t, const lw_tiled_axis *axis,
                               lw_kval at) LW_MUST_CHECK;
void lw__tiled_side_init(lw_tiled_nest *t, lw_tiled_side *side, lw_elem factor, lw_tiled_axis *axis,
                         bool along_k, int64_t tile);
void lw__tiled_side_place(lw_tiled_nest *t, lw_tiled_side *side);
/* The place in shared memory of (row, k) of a slice. */
lw_kval lw__tiled_cell(lw_tiled_nest *t, const lw_tiled_side *side, lw_kval stage, lw_kval row,
                       lw_kval k);
/* Which of |lows| times some pieces a thread handles in turn |u|: |low| < |lows| along what is
 * contiguous. */
void lw__tiled_piece(lw_tiled_nest *t, lw_kval u, int64_t lows, lw_kval *out_low,
                     lw_kval *out_high);
/* Both factors' slice number |slice| into |stage|: what is computed and held only by the put that
 * follows. */
lw_status lw__tiled_load(lw_tiled_nest *t, lw_kval slice, lw_kval stage) LW_MUST_CHECK;
void lw__tiled_put(lw_tiled_nest *t, lw_kval stage);

/* ---- contraction_multiply.c: from shared memory to sums, and back -----------------------------*/

typedef struct lw_tiled_frags { uint32_t a, c; } lw_tiled_frags; /* local arrays */

/* Local arrays for what a thread has of both factors, and its sums, which are cleared. */
lw_tiled_frags lw__tiled_open_sums(lw_tiled_nest *t);
void lw__tiled_multiply(lw_tiled_nest *t, lw_kval stage, lw_tiled_frags frags);
/* Rows of 16 of every warp, |i|-th, into shared memory. */
void lw__tiled_put_sums(lw_tiled_nest *t, lw_kval i, int64_t pitch);

#endif

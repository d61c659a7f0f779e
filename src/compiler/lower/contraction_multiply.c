/* contraction_multiply.c: slices in shared memory are multiplied, by tensor cores or by FMA units,
 * and the sums go back there. */
#include "compiler/lower/contraction_tiled.h"

/* ---- tensor cores -----------------------------------------------------------------------------*/

/* Fragments of |count| elements per lane (8 for 16 rows of A, 8 or 4 for 16 or 8 columns of B) of
 * the rows from |row| on and the 16 of k from |kk| on. A matrix of 8 x 8 is rows by k as it lies,
 * or k by rows and turned. In A the second matrix is 8 rows further, in B 8 of k. */
static void load_fragment(lw_tiled_nest *t, const lw_tiled_side *side, bool is_a, lw_kval stage,
                          lw_kval row, lw_kval kk, uint32_t local, lw_kval at, uint32_t matrices) {
  lw_kval eighth = rest(t, t->lane, 8), second = rest(t, over(t, t->lane, 8), 2);
  lw_kval third = over(t, t->lane, 16);
  lw_kval row_part = times(t, is_a ? second : third, 8),
          k_part = times(t, is_a ? third : second, 8);
  if (side->along_k)
    row_part = plus(t, row_part, eighth);
  else
    k_part = plus(t, k_part, eighth);
  lw_kval cell = lw__tiled_cell(t, side, stage, plus(t, row, row_part), plus(t, kk, k_part));
  lw__kb_frag(&t->nest.kb, side->shared, cell, !side->along_k, local, at, matrices);
}

static void mma_multiply(lw_tiled_nest *t, lw_kval stage, lw_tiled_frags frags) {
  lw_kbuilder *kb = &t->nest.kb;
  const lw_mma_tile *p = &t->tile;
  int64_t tm = p->rows / p->warps_m, tn = p->cols / p->warps_n;
  int64_t steps = p->depth / 16 / p->warps_k, wide = tn % 16 == 0 ? 16 : 8;
  lw_kval step = lw__kb_for_n(kb, steps, LW_KLOOP_UNROLL);
  lw_kval kk = times(t, plus(t, times(t, t->warp_k, steps), step), 16);
  lw_kval i = lw__kb_for_n(kb, tm / 16, LW_KLOOP_UNROLL);
  lw_kval row = plus(t, times(t, t->warp_m, tm), times(t, i, 16));
  load_fragment(t, &t->a, true, stage, row, kk, frags.a, times(t, i, 8), 4);
  lw__kb_end(kb);
  lw_kval j = lw__kb_for_n(kb, tn / wide, LW_KLOOP_UNROLL);
  lw_kval col = plus(t, times(t, t->warp_n, tn), times(t, j, wide));
  load_fragment(t, &t->c, false, stage, col, kk, frags.c, times(t, j, wide / 2),
                (uint32_t)(wide / 4));
  lw__kb_end(kb);
  i = lw__kb_for_n(kb, tm / 16, LW_KLOOP_UNROLL);
  j = lw__kb_for_n(kb, tn / 8, LW_KLOOP_UNROLL);
  lw_kval sum = times(t, plus(t, times(t, i, tn / 8), j), 4);
  lw__kb_mma(kb, t->acc, sum, frags.a, times(t, i, 8), frags.c, times(t, j, 4));
  lw__kb_end(kb);
  lw__kb_end(kb);
  lw__kb_end(kb);
}

static void mma_put_sums(lw_tiled_nest *t, lw_kval i, int64_t pitch) {
  lw_kbuilder *kb = &t->nest.kb;
  int64_t tn = t->tile.cols / t->tile.warps_n;
  lw_kval group = over(t, t->lane, 4), pair = times(t, rest(t, t->lane, 4), 2);
  lw_kval line = plus(t, times(t, t->warp_k, t->tile.warps_m), t->warp_m);
  lw_kval j = lw__kb_for_n(kb, tn / 8, LW_KLOOP_UNROLL);
  lw_kval half = lw__kb_for_n(kb, 2, LW_KLOOP_UNROLL);
  lw_kval row = plus(t, times(t, line, LW_TILED_ROWS), plus(t, times(t, half, 8), group));
  lw_kval col = plus(t, plus(t, times(t, t->warp_n, tn), times(t, j, 8)), pair);
  lw_kval from = plus(t, times(t, plus(t, times(t, i, tn / 8), j), 4), times(t, half, 2));
  lw__kb_ssetv(kb, t->sums, plus(t, times(t, row, pitch), col), LW_NONE, t->acc, from, 2);
  lw__kb_end(kb);
  lw__kb_end(kb);
}

/* ---- FMA units --------------------------------------------------------------------------------*/

/* A warp is 4 rows of 8 threads, in an order in which every half of it reads 2 pieces of rows and 8
 * of columns: 128 bytes of shared memory at once, all banks. A thread has rows (and columns alike)
 * that lie 4 together where its factor lies with rows contiguous, and else apart, because it then
 * reads 4 of k together. Either way the first 4 of its rows are among the first 16 of the warp's,
 * and so on. */
enum { fma_rows = 4, fma_cols = 8, fma_piece = 4 };

static lw_kval fma_row_thread(lw_tiled_nest *t) {
  return plus(t, times(t, over(t, t->lane, 16), 2), rest(t, t->lane, 2));
}
static lw_kval fma_col_thread(lw_tiled_nest *t) { return rest(t, over(t, t->lane, 2), 8); }

static int64_t fma_thread_rows(const lw_mma_tile *p) { return p->rows / p->warps_m / fma_rows; }
static int64_t fma_thread_cols(const lw_mma_tile *p) { return p->cols / p->warps_n / fma_cols; }

typedef struct fma_half { /* one factor's part of a warp's work */
  const lw_tiled_side *side;
  lw_kval first, thread;  /* the warp's first row; which of |threads| */
  int64_t threads, count; /* rows per thread */
  uint32_t frag;
} fma_half;

/* Along k: [row][4 of k]. */
static void fma_load_along_k(lw_tiled_nest *t, const fma_half *h, lw_kval stage, lw_kval k) {
  lw_kbuilder *kb = &t->nest.kb;
  lw_kval i = lw__kb_for_n(kb, h->count, LW_KLOOP_UNROLL);
  lw_kval row = plus(t, plus(t, h->first, h->thread), times(t, i, h->threads));
  lw__kb_sgetv(kb, h->side->shared, lw__tiled_cell(t, h->side, stage, row, k), h->frag,
               times(t, i, fma_piece), fma_piece);
  lw__kb_end(kb);
}

/* Rows contiguous: those of one k. */
static void fma_load_rows(lw_tiled_nest *t, const fma_half *h, lw_kval stage, lw_kval k) {
  lw_kbuilder *kb = &t->nest.kb;
  lw_kval i = lw__kb_for_n(kb, h->count / fma_piece, LW_KLOOP_UNROLL);
  lw_kval row = plus(t, plus(t, h->first, times(t, h->thread, fma_piece)),
                     times(t, i, h->threads * fma_piece));
  lw__kb_sgetv(kb, h->side->shared, lw__tiled_cell(t, h->side, stage, row, k), h->frag,
               times(t, i, fma_piece), fma_piece);
  lw__kb_end(kb);
}

static lw_kval fma_factor(lw_tiled_nest *t, const fma_half *h, lw_kval row, lw_kval k) {
  lw_kval at = h->side->along_k ? plus(t, times(t, row, fma_piece), k) : row;
  return lw__kb_lget(&t->nest.kb, h->frag, at);
}

static void fma_multiply(lw_tiled_nest *t, lw_kval stage, lw_tiled_frags frags) {
  lw_kbuilder *kb = &t->nest.kb;
  const lw_mma_tile *p = &t->tile;
  int64_t tm = fma_thread_rows(p), tn = fma_thread_cols(p);
  int64_t steps = p->depth / fma_piece / p->warps_k;
  fma_half a = {&t->a,  times(t, t->warp_m, p->rows / p->warps_m), fma_row_thread(t), fma_rows, tm,
                frags.a};
  fma_half c = {&t->c,  times(t, t->warp_n, p->cols / p->warps_n), fma_col_thread(t), fma_cols, tn,
                frags.c};
  lw_kval step = lw__kb_for_n(kb, steps, LW_KLOOP_UNROLL);
  lw_kval k0 = times(t, plus(t, times(t, t->warp_k, steps), step), fma_piece);
  if (t->a.along_k) fma_load_along_k(t, &a, stage, k0);
  if (t->c.along_k) fma_load_along_k(t, &c, stage, k0);
  lw_kval kk = lw__kb_for_n(kb, fma_piece, LW_KLOOP_UNROLL);
  if (!t->a.along_k) fma_load_rows(t, &a, stage, plus(t, k0, kk));
  if (!t->c.along_k) fma_load_rows(t, &c, stage, plus(t, k0, kk));
  lw_kval i = lw__kb_for_n(kb, tm, LW_KLOOP_UNROLL);
  lw_kval j = lw__kb_for_n(kb, tn, LW_KLOOP_UNROLL);
  lw_kval sum = plus(t, times(t, i, tn), j);
  lw_kval product = fn(t, LW_FN_MUL, fma_factor(t, &a, i, kk), fma_factor(t, &c, j, kk));
  lw__kb_lset(kb, t->acc, sum, plus(t, lw__kb_lget(kb, t->acc, sum), product));
  for (int level = 0; level < 4; level++) lw__kb_end(kb);
}

static void fma_put_sums(lw_tiled_nest *t, lw_kval i, int64_t pitch) {
  lw_kbuilder *kb = &t->nest.kb;
  const lw_mma_tile *p = &t->tile;
  int64_t tn = fma_thread_cols(p);
  uint32_t piece = t->c.along_k ? 1 : fma_piece;
  lw_kval thread = fma_row_thread(t), line = plus(t, times(t, t->warp_k, p->warps_m), t->warp_m);
  lw_kval r = lw__kb_for_n(kb, LW_TILED_ROWS / fma_rows, LW_KLOOP_UNROLL);
  lw_kval j = lw__kb_for_n(kb, tn / piece, LW_KLOOP_UNROLL);
  lw_kval row = t->a.along_k ? plus(t, times(t, r, fma_rows), thread)
                             : plus(t, times(t, thread, fma_piece), r);
  lw_kval col = plus(
      t, plus(t, times(t, t->warp_n, p->cols / p->warps_n), times(t, fma_col_thread(t), piece)),
      times(t, j, fma_cols * piece));
  lw_kval from =
      plus(t, times(t, plus(t, times(t, i, LW_TILED_ROWS / fma_rows), r), tn), times(t, j, piece));
  lw_kval cell = plus(t, times(t, plus(t, times(t, line, LW_TILED_ROWS), row), pitch), col);
  if (piece > 1)
    lw__kb_ssetv(kb, t->sums, cell, LW_NONE, t->acc, from, piece);
  else
    lw__kb_sset(kb, t->sums, cell, LW_NONE, lw__kb_lget(kb, t->acc, from));
  lw__kb_end(kb);
  lw__kb_end(kb);
}

/* ---- either -----------------------------------------------------------------------------------*/

lw_tiled_frags lw__tiled_open_sums(lw_tiled_nest *t) {
  lw_kbuilder *kb = &t->nest.kb;
  const lw_mma_tile *p = &t->tile;
  int64_t tm = p->rows / p->warps_m, tn = p->cols / p->warps_n;
  uint32_t sums = (uint32_t)(tm * tn / 32);
  t->acc = lw__kb_local(kb, LW_DTYPE_F32, sums);
  lw_kval i = lw__kb_for_n(kb, sums, LW_KLOOP_UNROLL);
  lw__kb_lset(kb, t->acc, i, lw__kb_const_f(kb, LW_DTYPE_F32, 0));
  lw__kb_end(kb);
  int64_t a = p->fma ? fma_thread_rows(p) * (t->a.along_k ? fma_piece : 1) : tm / 2;
  int64_t c = p->fma ? fma_thread_cols(p) * (t->c.along_k ? fma_piece : 1) : tn / 2;
  return (lw_tiled_frags){lw__kb_local(kb, t->dtype, (uint32_t)a),
                          lw__kb_local(kb, t->dtype, (uint32_t)c)};
}

void lw__tiled_multiply(lw_tiled_nest *t, lw_kval stage, lw_tiled_frags frags) {
  if (t->tile.fma)
    fma_multiply(t, stage, frags);
  else
    mma_multiply(t, stage, frags);
}

void lw__tiled_put_sums(lw_tiled_nest *t, lw_kval i, int64_t pitch) {
  if (t->tile.fma)
    fma_put_sums(t, i, pitch);
  else
    mma_put_sums(t, i, pitch);
}

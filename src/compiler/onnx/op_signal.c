/* op_signal.c: discrete Fourier transforms as products with tables of cosines and sines. */
#include <math.h>

#include "compiler/onnx/op.h"

/* Real and imaginary parts, [.., n]; |im| LW_NONE: all zero. */
typedef struct lw_signal {
  lw_value_id re, im;
} lw_signal;

/* table[j][k] = factor * f(2 pi j k / n), j < n, k < m; |cosine| tells f. */
static lw_value_id signal_table(lw_call *c, int64_t n, int64_t m, bool cosine, double factor,
                                lw_dtype dtype) {
  int64_t size;
  if (!lw__mul_i64(n, m, &size)) size = -1;
  double *table = lw__b_alloc(c, size, sizeof *table), turn = 6.283185307179586477;
  if (table == NULL) return LW_NONE;
  for (int64_t j = 0; j < n; j++) {
    for (int64_t k = 0; k < m; k++) {
      double angle = turn * (double)((uint64_t)j * (uint64_t)k % (uint64_t)n) / (double)n;
      table[j * m + k] = factor * (cosine ? cos(angle) : sin(angle));
    }
  }
  lw_shape shape = {2, {n, m}};
  return lw__b_cast(c, lw__b_const(c, LW_DTYPE_F64, &shape, table), dtype);
}

/* (re + i im) * (cos -+ i sin), over the last dim of length |n|; |m| results. */
static lw_signal signal_transform(lw_call *c, lw_signal x, int64_t n, int64_t m, bool inverse) {
  lw_dtype dtype = lw__b_dtype(c, x.re);
  double factor = inverse && n > 0 ? 1 / (double)n : 1;
  lw_value_id cosine = signal_table(c, n, m, true, factor, dtype);
  lw_value_id sine = signal_table(c, n, m, false, inverse ? -factor : factor, dtype);
  lw_signal y = {lw__b_matmul(c, x.re, cosine),
                 lw__b_map1(c, LW_FN_NEG, lw__b_matmul(c, x.re, sine))};
  if (x.im == LW_NONE) return y;
  y.re = lw__b_add(c, y.re, lw__b_matmul(c, x.im, sine));
  y.im = lw__b_add(c, y.im, lw__b_matmul(c, x.im, cosine));
  return y;
}

/* The real signal of length |n| whose first n/2+1 frequencies are given: the others mirror them. */
static lw_value_id signal_real_inverse(lw_call *c, lw_signal x, int64_t n) {
  lw_dtype dtype = lw__b_dtype(c, x.re);
  int64_t m = n / 2 + 1, size;
  if (!lw__mul_i64(n, m, &size)) size = -1;
  double *re = lw__b_alloc(c, size, sizeof *re), *im = lw__b_alloc(c, size, sizeof *im);
  double turn = 6.283185307179586477;
  lw_shape shape = {2, {m, n}};
  if (re == NULL || im == NULL) return LW_NONE;
  for (int64_t k = 0; k < m; k++) {
    double weight = (k == 0 || 2 * k == n ? 1.0 : 2.0) / (double)n;
    for (int64_t j = 0; j < n; j++) {
      double angle = turn * (double)((uint64_t)j * (uint64_t)k % (uint64_t)n) / (double)n;
      re[k * n + j] = weight * cos(angle);
      im[k * n + j] = -weight * sin(angle);
    }
  }
  lw_value_id table = lw__b_cast(c, lw__b_const(c, LW_DTYPE_F64, &shape, re), dtype);
  lw_value_id y = lw__b_matmul(c, x.re, table);
  if (x.im == LW_NONE) return y;
  table = lw__b_cast(c, lw__b_const(c, LW_DTYPE_F64, &shape, im), dtype);
  return lw__b_add(c, y, lw__b_matmul(c, x.im, table));
}

/* Parts of |x| [.., 1 or 2], the last dim gone. */
static lw_signal signal_split(lw_call *c, lw_value_id x) {
  lw_signal s = {LW_NONE, LW_NONE};
  uint32_t rank = lw__b_rank(c, x);
  int64_t parts = rank < 2 ? 0 : lw__call_static(c, lw__b_dim(c, x, rank - 1));
  if (parts != 1 && parts != 2)
    lw__call_invalid(c, "the last dimension must be 1 (real) or 2 (complex)");
  if (!lw__call_ok(c)) return s;
  lw_value_id wide = lw__b_up(c, x);
  s.re = lw__b_squeeze(c, lw__b_slice(c, wide, rank - 1, 0, 1, 1), rank - 1);
  if (parts == 2) s.im = lw__b_squeeze(c, lw__b_slice(c, wide, rank - 1, 1, 1, 1), rank - 1);
  return s;
}

static lw_value_id signal_join(lw_call *c, lw_signal s, lw_dtype dtype) {
  uint32_t rank = lw__b_rank(c, s.re);
  lw_value_id parts[2] = {lw__b_unsqueeze(c, s.re, rank), lw__b_unsqueeze(c, s.im, rank)};
  return lw__b_cast(c, lw__b_concat(c, parts, 2, rank), dtype);
}

/* |x| cut or filled with zeros to length |n| along |axis|. */
static lw_value_id signal_fit(lw_call *c, lw_value_id x, uint32_t axis, int64_t n) {
  int64_t lo[LW_MAX_RANK] = {0}, hi[LW_MAX_RANK] = {0};
  if (x == LW_NONE) return LW_NONE;
  int64_t length = lw__call_static(c, lw__b_dim(c, x, axis));
  if (n <= length) return lw__b_slice(c, x, axis, 0, 1, n);
  hi[axis] = n - length;
  return lw__b_pad(c, x, lo, hi, (lw_scalar){.f = 0});
}

void lw__op_dft(lw_call *c) {
  lw_value_id x = lw__call_in(c, 0);
  uint32_t rank = lw__b_rank(c, x);
  bool inverse = lw__call_int(c, "inverse", 0) != 0, onesided = lw__call_int(c, "onesided", 0) != 0;
  int64_t said = c->opset < 20 ? lw__call_int(c, "axis", 1) : lw__call_number(c, 2, -2);
  lw_signal s = signal_split(c, x);
  uint32_t axis = lw__call_axis(c, said, rank);
  if (lw__call_ok(c) && axis + 1 == rank) lw__call_invalid(c, "the last dimension is not an axis");
  bool real = inverse && onesided;
  int64_t n = lw__call_static(c, lw__b_dim(c, x, axis));
  n = lw__call_number(c, 1, real ? 2 * (n - 1) : n);
  if (n < 1) lw__call_invalid(c, "a length of %lld", (long long)n);
  if (!lw__call_ok(c)) return;
  s.re = signal_fit(c, s.re, axis, real ? n / 2 + 1 : n);
  s.im = signal_fit(c, s.im, axis, real ? n / 2 + 1 : n);
  s.re = lw__b_swap(c, s.re, axis, rank - 2);
  if (s.im != LW_NONE) s.im = lw__b_swap(c, s.im, axis, rank - 2);
  if (real) {
    lw_value_id y = lw__b_swap(c, signal_real_inverse(c, s, n), axis, rank - 2);
    lw__call_out(c, 0, lw__b_cast(c, lw__b_unsqueeze(c, y, rank - 1), lw__b_dtype(c, x)));
    return;
  }
  s = signal_transform(c, s, n, onesided ? n / 2 + 1 : n, inverse);
  s.re = lw__b_swap(c, s.re, axis, rank - 2);
  s.im = lw__b_swap(c, s.im, axis, rank - 2);
  lw__call_out(c, 0, signal_join(c, s, lw__b_dtype(c, x)));
}

/* [B, L] as frames [B, F, n], each times the window. */
static lw_value_id signal_frames(lw_call *c, lw_value_id x, int64_t n, int64_t step,
                                 lw_value_id window) {
  uint8_t axis = 1;
  int64_t one = 1;
  lw_value_id y = LW_NONE;
  if (x == LW_NONE || !lw__call_ok(c)) return LW_NONE;
  (void)lw__call_graph(c, lw__graph_window(c->graph, x, 1, &axis, &n, &step, &one, &y));
  return window == LW_NONE ? y : lw__b_mul(c, y, window);
}

void lw__op_stft(lw_call *c) {
  lw_value_id x = lw__call_in(c, 0), window = lw__call_in(c, 2);
  bool onesided = lw__call_int(c, "onesided", 1) != 0;
  int64_t step = lw__call_number(c, 1, 0);
  lw_signal s = signal_split(c, x);
  if (lw__b_rank(c, x) != 3) lw__call_invalid(c, "its signal must have 3 dimensions");
  int64_t n = lw__call_has(c, 3)  ? lw__call_number(c, 3, 0)
              : window != LW_NONE ? lw__call_static(c, lw__b_dim(c, window, 0))
                                  : 0;
  if (step < 1 || n < 1 || step > INT32_MAX || n > INT32_MAX)
    lw__call_invalid(c, "frames of %lld, %lld apart", (long long)n, (long long)step);
  if (lw__call_ok(c) && window != LW_NONE && lw__call_static(c, lw__b_dim(c, window, 0)) != n) {
    lw__call_invalid(c, "its window does not fit the frames");
  }
  if (!lw__call_ok(c)) return;
  if (window != LW_NONE) window = lw__b_cast(c, window, lw__b_dtype(c, s.re));
  s.re = signal_frames(c, s.re, n, step, window);
  s.im = signal_frames(c, s.im, n, step, window);
  s = signal_transform(c, s, n, onesided ? n / 2 + 1 : n, false);
  lw__call_out(c, 0, signal_join(c, s, lw__b_dtype(c, x)));
}

/* op_conv.c: convolutions and poolings. */
#include <math.h>
#include <string.h>

#include "compiler/onnx/op.h"

/* Values beyond are nonsense, and below no sum of a few of them overflows. */
#define WINDOW_LIMIT (INT64_C(1) << 40)

typedef enum lw_auto_pad { AUTO_NOTSET, AUTO_VALID, AUTO_SAME_UPPER, AUTO_SAME_LOWER } lw_auto_pad;
static const char *const conv_auto_pads[] = {"NOTSET", "VALID", "SAME_UPPER", "SAME_LOWER", NULL};

static bool conv_in_range(lw_call *c, const char *name, const int64_t *values, uint32_t count,
                          int64_t least) {
  for (uint32_t i = 0; i < count && lw__call_ok(c); i++) {
    if (values[i] < least || values[i] > WINDOW_LIMIT)
      lw__call_invalid(c, "%s of %lld", name, (long long)values[i]);
  }
  return lw__call_ok(c);
}

/* Taps of a window, first to last, in elements. */
static int64_t conv_reach(const lw_windows *w, uint32_t s) {
  return (w->kernel[s] - 1) * w->dilation[s] + 1;
}

bool lw__op_windows(lw_call *c, lw_value_id x, lw_windows *w) {
  uint32_t n = w->spatial;
  int64_t pads[6] = {0};
  lw_auto_pad mode = (lw_auto_pad)lw__call_choice(c, "auto_pad", conv_auto_pads);
  if (!lw__call_ints_of(c, "strides", n, 1, w->stride) ||
      !lw__call_ints_of(c, "dilations", n, 1, w->dilation) ||
      !lw__call_ints_of(c, "pads", 2 * n, 0, pads)) {
    return false;
  }
  if (!conv_in_range(c, "a kernel", w->kernel, n, 1) ||
      !conv_in_range(c, "a stride", w->stride, n, 1) ||
      !conv_in_range(c, "a dilation", w->dilation, n, 1) ||
      !conv_in_range(c, "a pad", pads, 2 * n, 0)) {
    return false;
  }
  for (uint32_t s = 0; s < n && lw__call_ok(c); s++) {
    int64_t reach;
    if (!lw__mul_i64(w->kernel[s] - 1, w->dilation[s], &reach) || reach > WINDOW_LIMIT) {
      lw__call_invalid(c, "a window of %lld taps, %lld apart", (long long)w->kernel[s],
                       (long long)w->dilation[s]);
      return false;
    }
    w->pad_lo[s] = mode == AUTO_NOTSET ? pads[s] : 0;
    w->pad_hi[s] = mode == AUTO_NOTSET ? pads[n + s] : 0;
    if (mode != AUTO_SAME_UPPER && mode != AUTO_SAME_LOWER) continue;
    int64_t length = w->stride[s] == 1 ? 0 : lw__call_static(c, lw__b_dim(c, x, 2 + s));
    int64_t rest =
        length == 0 ? 0 : (length - 1) % w->stride[s] + 1; /* of the last window's first element */
    int64_t total =
        w->stride[s] == 1 ? conv_reach(w, s) - 1 : lw__max_i64(0, conv_reach(w, s) - rest);
    w->pad_lo[s] = mode == AUTO_SAME_UPPER ? total / 2 : total - total / 2;
    w->pad_hi[s] = total - w->pad_lo[s];
  }
  return lw__call_ok(c);
}

/* Number of spatial dims of x; 0 after an error. */
static uint32_t conv_spatial(lw_call *c, lw_value_id x) {
  uint32_t rank = lw__b_rank(c, x);
  if (!lw__call_ok(c)) return 0;
  if (rank < 3)
    lw__call_invalid(c, "its input of %u dimensions has none to slide over", rank);
  else if (rank > 5)
    lw__call_unsupported(c, "%u spatial dimensions", rank - 2);
  return lw__call_ok(c) ? rank - 2 : 0;
}

static lw_value_id conv_bias(lw_call *c, lw_value_id y, lw_value_id bias) {
  if (bias == LW_NONE) return y;
  return lw__b_add(c, y, lw__b_along(c, bias, 1, lw__b_rank(c, y)));
}

static bool conv_kernel(lw_call *c, lw_value_id w, lw_windows *out) {
  int64_t said[3];
  if (lw__b_rank(c, w) != out->spatial + 2)
    lw__call_invalid(c, "its weights have %u dimensions", lw__b_rank(c, w));
  if (!lw__call_ok(c)) return false;
  for (uint32_t s = 0; s < out->spatial; s++)
    out->kernel[s] = lw__call_static(c, lw__b_dim(c, w, 2 + s));
  if (!lw__call_ints_of(c, "kernel_shape", out->spatial, -1, said)) return false;
  for (uint32_t s = 0; s < out->spatial; s++) {
    if (said[s] != -1 && said[s] != out->kernel[s])
      lw__call_invalid(c, "kernel_shape does not fit the weights");
  }
  return lw__call_ok(c);
}

static lw_value_id conv_node(lw_call *c, lw_value_id x, lw_value_id w, const lw_conv_attr *attr) {
  lw_value_id y = LW_NONE;
  if (x == LW_NONE || w == LW_NONE || !lw__call_ok(c)) return LW_NONE;
  return lw__call_graph(c, lw__graph_conv(c->graph, x, w, attr, &y)) ? y : LW_NONE;
}

static void conv_attr_of(const lw_windows *w, lw_conv_attr *out) {
  out->spatial = w->spatial;
  memcpy(out->stride, w->stride, sizeof out->stride);
  memcpy(out->dilation, w->dilation, sizeof out->dilation);
  memcpy(out->pad_lo, w->pad_lo, sizeof out->pad_lo);
  memcpy(out->pad_hi, w->pad_hi, sizeof out->pad_hi);
}

lw_value_id lw__op_convolve(lw_call *c, lw_value_id x, lw_value_id w) {
  lw_windows windows = {.spatial = conv_spatial(c, x)};
  lw_conv_attr attr = {.group = lw__call_int(c, "group", 1)};
  if (attr.group < 1) lw__call_invalid(c, "group=%lld", (long long)attr.group);
  if (windows.spatial == 0 || !conv_kernel(c, w, &windows)) return LW_NONE;
  if (!lw__op_windows(c, x, &windows)) return LW_NONE;
  conv_attr_of(&windows, &attr);
  return conv_node(c, x, w, &attr);
}

void lw__op_conv(lw_call *c) {
  lw_value_id y = lw__op_convolve(c, lw__call_in(c, 0), lw__call_in(c, 1));
  lw__call_out(c, 0, conv_bias(c, y, lw__call_in(c, 2)));
}

/* ---- transposed -----------------------------------------------------------------------------*/

/* Pads of a transposed convolution: given, or such that the result has the wanted size. pad_hi may
 * get negative: the result is longer than the windows reach. */
static bool conv_transposed_pads(lw_call *c, lw_value_id x, lw_windows *w) {
  uint32_t n = w->spatial, shape_count;
  int64_t extra[3], pads[6];
  lw_auto_pad mode = (lw_auto_pad)lw__call_choice(c, "auto_pad", conv_auto_pads);
  const int64_t *shape = lw__call_ints(c, "output_shape", &shape_count);
  if (!lw__call_ints_of(c, "output_padding", n, 0, extra) ||
      !lw__call_ints_of(c, "pads", 2 * n, 0, pads))
    return false;
  if (!conv_in_range(c, "output_padding", extra, n, 0) ||
      !conv_in_range(c, "a pad", pads, 2 * n, 0))
    return false;
  if (shape_count != 0 && shape_count != n && shape_count != n + 2)
    lw__call_invalid(c, "output_shape has %u entries", shape_count);
  for (uint32_t s = 0; s < n && lw__call_ok(c); s++) {
    bool same = mode == AUTO_SAME_UPPER || mode == AUTO_SAME_LOWER;
    if (shape_count == 0 && !same) {
      w->pad_lo[s] = mode == AUTO_NOTSET ? pads[s] : 0;
      w->pad_hi[s] = (mode == AUTO_NOTSET ? pads[n + s] : 0) - extra[s];
      continue;
    }
    int64_t length = lw__call_static(c, lw__b_dim(c, x, 2 + s));
    int64_t wanted = shape_count != 0 ? shape[shape_count - n + s] : length * w->stride[s];
    if (wanted < 0 || wanted > WINDOW_LIMIT)
      lw__call_invalid(c, "output_shape of %lld", (long long)wanted);
    int64_t total = w->stride[s] * (length - 1) + extra[s] + conv_reach(w, s) - wanted;
    int64_t positive = lw__max_i64(total, 0);
    int64_t half = mode == AUTO_SAME_UPPER ? positive / 2 : positive - positive / 2;
    w->pad_lo[s] = half;
    w->pad_hi[s] = total - half - extra[s];
  }
  return lw__call_ok(c);
}

void lw__op_conv_transpose(lw_call *c) {
  lw_value_id x = lw__call_in(c, 0), w = lw__call_in(c, 1);
  lw_windows windows = {.spatial = conv_spatial(c, x)};
  lw_conv_attr attr = {.group = lw__call_int(c, "group", 1), .transposed = true};
  uint32_t n = windows.spatial;
  if (attr.group < 1) lw__call_invalid(c, "group=%lld", (long long)attr.group);
  if (n == 0 || !conv_kernel(c, w, &windows)) return;
  if (!lw__call_ints_of(c, "strides", n, 1, windows.stride) ||
      !lw__call_ints_of(c, "dilations", n, 1, windows.dilation))
    return;
  if (!conv_in_range(c, "a stride", windows.stride, n, 1) ||
      !conv_in_range(c, "a dilation", windows.dilation, n, 1))
    return;
  if (!conv_in_range(c, "a kernel", windows.kernel, n, 1)) return;
  for (uint32_t s = 0; s < n; s++) {
    int64_t reach;
    if (!lw__mul_i64(windows.kernel[s], windows.dilation[s], &reach))
      lw__call_invalid(c, "a window too wide");
  }
  if (!lw__call_ok(c) || !conv_transposed_pads(c, x, &windows)) return;
  int64_t lo[LW_MAX_RANK] = {0}, hi[LW_MAX_RANK] = {0};
  for (uint32_t s = 0; s < n; s++) {
    hi[2 + s] = lw__max_i64(0, -windows.pad_hi[s]); /* nothing falls on these: they are zero */
    windows.pad_hi[s] = lw__max_i64(0, windows.pad_hi[s]);
  }
  conv_attr_of(&windows, &attr);
  lw_value_id y = lw__b_pad(c, conv_node(c, x, w, &attr), lo, hi, (lw_scalar){.i = 0});
  lw__call_out(c, 0, conv_bias(c, y, lw__call_in(c, 2)));
}

/* ---- pooling --------------------------------------------------------------------------------*/

static bool pool_kernel(lw_call *c, lw_windows *w) {
  uint32_t count;
  const int64_t *given = lw__call_ints(c, "kernel_shape", &count);
  if (w->spatial == 0 || !lw__call_ok(c)) return false;
  if (count != w->spatial)
    lw__call_invalid(c, "kernel_shape has %u entries for %u dimensions", count, w->spatial);
  for (uint32_t s = 0; s < w->spatial && lw__call_ok(c); s++) w->kernel[s] = given[s];
  return lw__call_ok(c);
}

/* ceil_mode: pads at the end so that the number of windows is rounded up; a window must begin
 * inside the input or its padding at the front. |extra|: what was added. */
static bool pool_ceil(lw_call *c, lw_value_id x, lw_windows *w, int64_t *extra) {
  bool ceil_mode = lw__call_int(c, "ceil_mode", 0) != 0;
  for (uint32_t s = 0; s < w->spatial && lw__call_ok(c); s++) {
    extra[s] = 0;
    if (!ceil_mode) continue;
    int64_t length = lw__call_static(c, lw__b_dim(c, x, 2 + s));
    int64_t free = length + w->pad_lo[s] + w->pad_hi[s] - conv_reach(w, s);
    if (free < 0) continue;
    int64_t windows = lw__ceil_div(free, w->stride[s]) + 1;
    if ((windows - 1) * w->stride[s] >= length + w->pad_lo[s]) windows--;
    extra[s] = lw__max_i64(0, (windows - 1) * w->stride[s] - free);
  }
  return lw__call_ok(c);
}

/* x padded with |fill| and seen through the windows, whose taps are the last dims. */
static lw_value_id pool_view(lw_call *c, lw_value_id x, const lw_windows *w, const int64_t *extra,
                             lw_scalar fill) {
  int64_t lo[LW_MAX_RANK] = {0}, hi[LW_MAX_RANK] = {0};
  uint8_t axis[3] = {2, 3, 4};
  lw_value_id y = LW_NONE;
  for (uint32_t s = 0; s < w->spatial; s++) {
    lo[2 + s] = w->pad_lo[s];
    hi[2 + s] = w->pad_hi[s] + extra[s];
  }
  lw_value_id padded = lw__b_pad(c, x, lo, hi, fill);
  if (padded == LW_NONE) return LW_NONE;
  (void)lw__call_graph(c, lw__graph_window(c->graph, padded, w->spatial, axis, w->kernel, w->stride,
                                           w->dilation, &y));
  return lw__call_ok(c) ? y : LW_NONE;
}

static uint32_t pool_taps(const lw_windows *w) {
  return lw__all_axes(w->spatial) << (w->spatial + 2);
}

static bool pool_begin(lw_call *c, lw_value_id x, lw_windows *w, int64_t *extra) {
  w->spatial = conv_spatial(c, x);
  return pool_kernel(c, w) && lw__op_windows(c, x, w) && pool_ceil(c, x, w, extra);
}

/* Places of the elements of the whole tensor, seen through the same windows: the least place whose
 * element is the maximum. |order| 1 counts columns before rows. */
static lw_value_id pool_max_indices(lw_call *c, lw_value_id x, const lw_windows *w,
                                    const int64_t *extra, lw_value_id view, lw_value_id best,
                                    bool column_major) {
  lw_shape shape = lw__b_shape(c, x);
  uint32_t rank = shape.rank;
  int64_t stride[LW_MAX_RANK] = {0}, step = 1, far = INT64_MAX;
  for (uint32_t n = 0; n < w->spatial; n++) {
    uint32_t d = column_major ? 2 + n : rank - 1 - n;
    stride[d] = step;
    if (!lw__mul_i64(step, lw__call_static(c, shape.dim[d]), &step)) return LW_NONE;
  }
  stride[1] = step;
  stride[0] = lw__call_ok(c) ? step * lw__call_static(c, shape.dim[1]) : 0;
  lw_value_id place = LW_NONE;
  for (uint32_t d = 0; d < rank; d++) {
    lw_shape line = {1, {shape.dim[d]}};
    lw_value_id at = lw__b_along(c, lw__b_iota(c, LW_DTYPE_I64, &line, 0), d, rank);
    at = lw__b_muls(c, at, (double)stride[d]);
    place = place == LW_NONE ? at : lw__b_add(c, place, at);
  }
  lw_value_id places = pool_view(c, place, w, extra, (lw_scalar){.i = far});
  for (uint32_t s = 0; s < w->spatial; s++) best = lw__b_unsqueeze(c, best, rank + s);
  lw_value_id none = lw__b_const(c, LW_DTYPE_I64, &(lw_shape){0}, &far);
  lw_value_id hits = lw__b_select(c, lw__b_equal(c, view, best), places, none);
  return lw__b_reduce(c, LW_RED_MIN, hits, pool_taps(w), false);
}

void lw__op_max_pool(lw_call *c) {
  lw_value_id x = lw__call_in(c, 0);
  lw_windows w = {0};
  int64_t extra[3] = {0};
  lw_dtype dtype = lw__b_dtype(c, x);
  bool column_major = lw__call_int(c, "storage_order", 0) != 0;
  if (!pool_begin(c, x, &w, extra)) return;
  lw_scalar fill = {.f = -INFINITY};
  if (!lw__dtype_is_float(dtype)) fill.i = lw__red_identity_i64(LW_RED_MAX, dtype);
  lw_value_id view = pool_view(c, x, &w, extra, fill);
  lw_value_id best = lw__b_reduce(c, LW_RED_MAX, view, pool_taps(&w), false);
  lw__call_out(c, 0, best);
  if (!lw__call_wants(c, 1)) return;
  lw__call_out(c, 1, pool_max_indices(c, x, &w, extra, view, best, column_major));
}

/* Blocks of columns put back at their places and summed: a transposed convolution with weights that
 * are 1 at one tap each. */
void lw__op_col2im(lw_call *c) {
  lw_value_id x = lw__call_in(c, 0);
  uint32_t image_count, block_count;
  const int64_t *image = lw__call_numbers(c, 1, &image_count);
  const int64_t *block = lw__call_numbers(c, 2, &block_count);
  if (image == NULL || block == NULL) return;
  lw_windows w = {.spatial = image_count};
  lw_shape shape = lw__b_shape(c, x);
  int64_t pads[6] = {0}, taps = 1, width = shape.rank == 3 ? lw__call_static(c, shape.dim[1]) : 0;
  if (image_count < 1 || image_count > 3)
    lw__call_unsupported(c, "%u spatial dimensions", image_count);
  if (block_count != image_count || shape.rank != 3) lw__call_invalid(c, "its shapes do not fit");
  if (!lw__call_ok(c) || !lw__call_ints_of(c, "strides", w.spatial, 1, w.stride) ||
      !lw__call_ints_of(c, "dilations", w.spatial, 1, w.dilation) ||
      !lw__call_ints_of(c, "pads", 2 * w.spatial, 0, pads)) {
    return;
  }
  lw_conv_attr attr = {.transposed = true};
  lw_shape blocks = {2, {shape.dim[0], shape.dim[1]}}, kernel = {2, {width, 1}};
  for (uint32_t s = 0; s < w.spatial; s++) w.kernel[s] = block[s];
  if (!conv_in_range(c, "a block", w.kernel, w.spatial, 1) ||
      !conv_in_range(c, "a pad", pads, 2 * w.spatial, 0) ||
      !conv_in_range(c, "a stride", w.stride, w.spatial, 1) ||
      !conv_in_range(c, "a dilation", w.dilation, w.spatial, 1)) {
    return;
  }
  for (uint32_t s = 0; s < w.spatial; s++) {
    int64_t reach;
    if (!lw__mul_i64(taps, block[s], &taps) || !lw__mul_i64(w.kernel[s], w.dilation[s], &reach))
      taps = 0;
    w.pad_lo[s] = pads[s];
    w.pad_hi[s] = pads[w.spatial + s];
    int64_t free = taps == 0 ? -1 : image[s] + w.pad_lo[s] + w.pad_hi[s] - conv_reach(&w, s);
    if (image[s] < 1 || image[s] > WINDOW_LIMIT || free < 0) taps = 0;
    blocks.dim[blocks.rank++] = taps == 0 ? 0 : free / w.stride[s] + 1;
    kernel.dim[kernel.rank++] = block[s];
    if (taps != 0) w.pad_hi[s] -= free % w.stride[s]; /* what no block reaches */
  }
  int64_t size = 0;
  if (taps == 0 || width % taps != 0 || !lw__mul_i64(width, taps, &size))
    lw__call_invalid(c, "its blocks do not fit");
  float *weight = lw__call_ok(c) ? lw__b_alloc(c, size, sizeof *weight) : NULL;
  if (weight == NULL) return;
  for (int64_t i = 0; i < width; i++) weight[i * taps + i % taps] = 1;
  attr.group = width / taps;
  int64_t lo[LW_MAX_RANK] = {0}, hi[LW_MAX_RANK] = {0};
  for (uint32_t s = 0; s < w.spatial; s++) {
    hi[2 + s] = lw__max_i64(0, -w.pad_hi[s]);
    w.pad_hi[s] = lw__max_i64(0, w.pad_hi[s]);
  }
  conv_attr_of(&w, &attr);
  lw_value_id ones =
      lw__b_cast(c, lw__b_const(c, LW_DTYPE_F32, &kernel, weight), lw__b_dtype(c, x));
  lw_value_id y = conv_node(c, lw__b_reshape(c, x, &blocks), ones, &attr);
  lw__call_out(c, 0, lw__b_pad(c, y, lo, hi, (lw_scalar){.i = 0}));
}

/* Divides by the number of taps inside [-lo, length + hi) of each window, one spatial axis after
 * the other. */
static lw_value_id pool_divide(lw_call *c, lw_value_id sum, lw_value_id x, const lw_windows *w,
                               bool include_pad) {
  lw_dtype dtype = lw__b_dtype(c, sum);
  int64_t full = 1;
  for (uint32_t s = 0; s < w->spatial && lw__call_ok(c); s++) {
    if (!lw__mul_i64(full, w->kernel[s], &full)) lw__call_invalid(c, "a window too large");
  }
  double uneven = 0;
  lw_value_id counts = LW_NONE;
  for (uint32_t s = 0; s < w->spatial && lw__call_ok(c); s++) {
    bool padded = w->pad_lo[s] != 0 || w->pad_hi[s] != 0;
    lw_extent extent = lw__b_dim(c, x, 2 + s), windows = lw__b_dim(c, sum, 2 + s);
    /* A symbolic length has no ceil_mode: windows end inside the pads. */
    if (!lw__extent_is_number(extent) && (!padded || include_pad)) continue;
    int64_t length = lw__call_static(c, extent), n = lw__call_static(c, windows);
    int64_t lo = include_pad ? -w->pad_lo[s] : 0, hi = length + (include_pad ? w->pad_hi[s] : 0);
    double *count = lw__b_alloc(c, n, sizeof *count);
    bool even = true;
    for (int64_t o = 0; count != NULL && o < n; o++) {
      int64_t first = o * w->stride[s] - w->pad_lo[s], d = w->dilation[s];
      int64_t skip =
          first < lo ? lw__ceil_div(lo - first, d) : 0; /* taps before the first that counts */
      int64_t upto = hi > first ? lw__min_i64(lw__ceil_div(hi - first, d), w->kernel[s]) : 0;
      count[o] = (double)lw__max_i64(0, upto - skip);
      even &= count[o] == (double)w->kernel[s];
    }
    if (count == NULL || even) continue;
    uneven = 1;
    full /= w->kernel[s];
    lw_shape line = {1, {n}};
    lw_value_id table = lw__b_cast(c, lw__b_const(c, LW_DTYPE_F64, &line, count), dtype);
    table = lw__b_along(c, table, 2 + s, w->spatial + 2);
    counts = counts == LW_NONE ? table : lw__b_mul(c, counts, table);
  }
  if (uneven != 0 && full != 1) counts = lw__b_muls(c, counts, (double)full);
  return uneven != 0 ? lw__b_div(c, sum, counts) : lw__b_map2s(c, LW_FN_DIV, sum, (double)full);
}

void lw__op_average_pool(lw_call *c) {
  lw_value_id x = lw__call_in(c, 0);
  lw_windows w = {0};
  int64_t extra[3] = {0};
  bool include_pad = lw__call_int(c, "count_include_pad", 0) != 0;
  if (!pool_begin(c, x, &w, extra)) return;
  lw_value_id view = pool_view(c, lw__b_up(c, x), &w, extra, (lw_scalar){.f = 0});
  lw_value_id sum = lw__b_reduce(c, LW_RED_SUM, view, pool_taps(&w), false);
  lw__call_out(c, 0, lw__b_cast(c, pool_divide(c, sum, x, &w, include_pad), lw__b_dtype(c, x)));
}

static lw_value_id pool_power(lw_call *c, lw_value_id x, double p) {
  if (p == 1) return lw__b_map1(c, LW_FN_ABS, x);
  if (p == 2) return lw__b_mul(c, x, x);
  return lw__b_map2s(c, LW_FN_POW, lw__b_map1(c, LW_FN_ABS, x), p);
}

static lw_value_id pool_root(lw_call *c, lw_value_id x, double p) {
  if (p == 1) return x;
  return p == 2 ? lw__b_map1(c, LW_FN_SQRT, x) : lw__b_map2s(c, LW_FN_POW, x, 1 / p);
}

/* p was a float in version 1. */
static double pool_norm(lw_call *c) {
  double p = lw__call_float(c, "p", 2);
  if (!(p > 0)) lw__call_invalid(c, "p=%g", p);
  return p;
}

void lw__op_lp_pool(lw_call *c) {
  lw_value_id x = lw__call_in(c, 0);
  lw_windows w = {0};
  int64_t extra[3] = {0};
  double p = pool_norm(c);
  if (!pool_begin(c, x, &w, extra)) return;
  lw_value_id view = pool_view(c, pool_power(c, lw__b_up(c, x), p), &w, extra, (lw_scalar){.f = 0});
  lw_value_id y = pool_root(c, lw__b_reduce(c, LW_RED_SUM, view, pool_taps(&w), false), p);
  lw__call_out(c, 0, lw__b_cast(c, y, lw__b_dtype(c, x)));
}

void lw__op_global_pool(lw_call *c) {
  lw_value_id x = lw__call_in(c, 0), y = LW_NONE;
  uint32_t rank = lw__b_rank(c, x);
  double p = c->op->arg == LW_GLOBAL_LP ? pool_norm(c) : 2;
  if (rank < 2) lw__call_invalid(c, "its input has no channels");
  if (!lw__call_ok(c)) return;
  uint32_t axes = lw__all_axes(rank) & ~3u;
  if (c->op->arg == LW_GLOBAL_AVERAGE)
    y = lw__b_mean(c, x, axes, true);
  else if (c->op->arg == LW_GLOBAL_MAX)
    y = lw__b_reduce(c, LW_RED_MAX, x, axes, true);
  else
    y = pool_root(c, lw__b_reduce(c, LW_RED_SUM, pool_power(c, lw__b_up(c, x), p), axes, true), p);
  lw__call_out(c, 0, lw__b_cast(c, y, lw__b_dtype(c, x)));
}

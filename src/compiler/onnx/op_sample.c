/* op_sample.c: GridSample, and the grids for it. */
#include <math.h>

#include "compiler/onnx/op.h"

typedef enum lw_sample_mode { SAMPLE_LINEAR, SAMPLE_NEAREST, SAMPLE_CUBIC } lw_sample_mode;
typedef enum lw_sample_padding { SAMPLE_ZEROS, SAMPLE_BORDER, SAMPLE_REFLECTION } lw_sample_padding;

typedef struct lw_sample {
  lw_sample_mode mode;
  lw_sample_padding padding;
  bool align;
  uint32_t spatial;
  int64_t length[3];
  lw_value_id x;
  lw_shape result;
  lw_value_id at[3]; /* coordinates per spatial axis, in the result's shape */
} lw_sample;

static lw_value_id sample_clip(lw_call *c, lw_value_id v, double lo, double hi) {
  return lw__b_map2s(c, LW_FN_MIN, lw__b_map2s(c, LW_FN_MAX, v, lo), hi);
}

/* Back and forth between |lo| and |hi|. */
static lw_value_id sample_reflect(lw_call *c, lw_value_id v, double lo, double hi) {
  double range = hi - lo;
  if (range <= 0) return lw__b_adds(c, lw__b_muls(c, v, 0), lo);
  lw_value_id t = lw__b_map1(c, LW_FN_ABS, lw__b_adds(c, v, -lo));
  t = lw__b_map2s(c, LW_FN_REM, t, 2 * range);
  lw_value_id back = lw__b_sub(c, lw__b_scalar(c, lw__b_dtype(c, t), 2 * range), t);
  return lw__b_adds(c, lw__b_map2(c, LW_FN_MIN, t, back), lo);
}

/* Coordinates outside the input brought inside, as the padding mode says. */
static lw_value_id sample_pad(lw_call *c, const lw_sample *s, lw_value_id v, uint32_t axis) {
  double last = (double)s->length[axis] - 1;
  if (s->padding == SAMPLE_BORDER) return sample_clip(c, v, 0, last);
  if (s->padding == SAMPLE_ZEROS) return v;
  v = s->align ? sample_reflect(c, v, 0, last) : sample_reflect(c, v, -0.5, last + 0.5);
  return sample_clip(c, v, 0, last);
}

/* -1 .. 1 to elements. */
static lw_value_id sample_scale(lw_call *c, const lw_sample *s, lw_value_id v, uint32_t axis) {
  double n = (double)s->length[axis];
  v = lw__b_adds(c, v, 1);
  return s->align ? lw__b_muls(c, v, (n - 1) / 2) : lw__b_adds(c, lw__b_muls(c, v, n / 2), -0.5);
}

/* The element at whole coordinates |at|; zero outside. */
static lw_value_id sample_fetch(lw_call *c, const lw_sample *s, const lw_value_id *at) {
  lw_value_id index[3] = {LW_NONE, LW_NONE, LW_NONE}, inside = LW_NONE;
  int8_t select[5] = {-1, -2, 0, 1, 2};
  for (uint32_t d = 0; d < s->spatial; d++) {
    double last = (double)s->length[d] - 1;
    index[d] = lw__b_cast(c, sample_clip(c, at[d], 0, last), LW_DTYPE_I64);
    if (s->padding != SAMPLE_ZEROS) continue;
    lw_value_id ok = lw__b_map2(c, LW_FN_AND, lw__b_map2s(c, LW_FN_GE, at[d], 0),
                                lw__b_map2s(c, LW_FN_LE, at[d], last));
    inside = inside == LW_NONE ? ok : lw__b_map2(c, LW_FN_AND, inside, ok);
  }
  lw_value_id y = lw__b_gather(c, s->x, index, s->spatial, select, &s->result);
  if (inside == LW_NONE) return y;
  return lw__b_select(c, inside, y, lw__b_scalar(c, lw__b_dtype(c, y), 0));
}

static lw_value_id sample_nearest(lw_call *c, const lw_sample *s) {
  lw_value_id at[3];
  for (uint32_t d = 0; d < s->spatial; d++) {
    at[d] = sample_pad(c, s, s->at[d], d);
    at[d] = lw__b_map1(c, LW_FN_ROUND, at[d]);
  }
  return sample_fetch(c, s, at);
}

/* Sum over the |taps|^spatial neighbours of products of weights; |weight|[d][k], |place|[d][k]. */
static lw_value_id sample_blend(lw_call *c, const lw_sample *s, uint32_t taps,
                                lw_value_id place[3][4], lw_value_id weight[3][4]) {
  uint32_t total = 1;
  lw_value_id sum = LW_NONE;
  for (uint32_t d = 0; d < s->spatial; d++) total *= taps;
  for (uint32_t n = 0; n < total && lw__call_ok(c); n++) {
    lw_value_id at[3], w = LW_NONE;
    for (uint32_t d = s->spatial, rest = n; d-- > 0; rest /= taps) {
      uint32_t k = rest % taps;
      at[d] = place[d][k];
      w = w == LW_NONE ? weight[d][k] : lw__b_mul(c, w, weight[d][k]);
    }
    lw_value_id term = lw__b_mul(c, lw__b_up(c, sample_fetch(c, s, at)), w);
    sum = sum == LW_NONE ? term : lw__b_add(c, sum, term);
  }
  return sum;
}

static lw_value_id sample_linear(lw_call *c, const lw_sample *s) {
  lw_value_id place[3][4], weight[3][4];
  for (uint32_t d = 0; d < s->spatial; d++) {
    lw_value_id v = sample_pad(c, s, s->at[d], d);
    place[d][0] = lw__b_map1(c, LW_FN_FLOOR, v);
    place[d][1] = lw__b_adds(c, place[d][0], 1);
    weight[d][1] = lw__b_sub(c, v, place[d][0]);
    weight[d][0] = lw__b_sub(c, place[d][1], v);
  }
  return sample_blend(c, s, 2, place, weight);
}

/* Weight of a tap at distance |t| (0 <= t < 1 or 1 <= t < 2) of the cubic kernel with a = -3/4. */
static lw_value_id sample_cubic_weight(lw_call *c, lw_value_id t, bool near) {
  const double a = -0.75;
  lw_value_id y;
  if (near) {
    y = lw__b_adds(c, lw__b_muls(c, t, a + 2), -(a + 3));
    return lw__b_adds(c, lw__b_mul(c, lw__b_mul(c, y, t), t), 1);
  }
  y = lw__b_adds(c, lw__b_muls(c, t, a), -5 * a);
  y = lw__b_adds(c, lw__b_mul(c, y, t), 8 * a);
  return lw__b_adds(c, lw__b_mul(c, y, t), -4 * a);
}

static lw_value_id sample_cubic(lw_call *c, const lw_sample *s) {
  lw_value_id place[3][4], weight[3][4];
  for (uint32_t d = 0; d < s->spatial; d++) {
    lw_value_id first = lw__b_map1(c, LW_FN_FLOOR, s->at[d]);
    lw_value_id f = lw__b_sub(c, s->at[d], first);
    lw_value_id rest = lw__b_adds(c, lw__b_map1(c, LW_FN_NEG, f), 1);
    lw_value_id distance[4] = {lw__b_adds(c, f, 1), f, rest, lw__b_adds(c, rest, 1)};
    for (int k = 0; k < 4; k++) {
      place[d][k] = sample_pad(c, s, lw__b_adds(c, first, k - 1), d);
      weight[d][k] = sample_cubic_weight(c, distance[k], k == 1 || k == 2);
    }
  }
  return sample_blend(c, s, 4, place, weight);
}

static void sample_read(lw_call *c, lw_sample *s) {
  static const char *const modes[] = {"linear", "nearest", "cubic", "bilinear", "bicubic", NULL};
  static const char *const paddings[] = {"zeros", "border", "reflection", NULL};
  uint32_t mode = lw__call_choice(c, "mode", modes);
  s->mode = (lw_sample_mode)(mode == 3 ? SAMPLE_LINEAR : mode == 4 ? SAMPLE_CUBIC : mode);
  s->padding = (lw_sample_padding)lw__call_choice(c, "padding_mode", paddings);
  s->align = lw__call_int(c, "align_corners", 0) != 0;
}

void lw__op_grid_sample(lw_call *c) {
  lw_sample s = {.x = lw__call_in(c, 0)};
  lw_value_id grid = lw__call_in(c, 1);
  lw_shape shape = lw__b_shape(c, s.x), places = lw__b_shape(c, grid);
  sample_read(c, &s);
  s.spatial = shape.rank < 2 ? 0 : shape.rank - 2;
  if (s.spatial < 1 || places.rank != shape.rank) lw__call_invalid(c, "its grid does not fit");
  if (s.spatial > 3) lw__call_unsupported(c, "%u spatial dimensions", s.spatial);
  if (lw__call_ok(c) && lw__call_static(c, places.dim[places.rank - 1]) != s.spatial) {
    lw__call_invalid(c, "its grid does not fit");
  }
  if (!lw__call_ok(c)) return;
  s.result = (lw_shape){2, {shape.dim[0], shape.dim[1]}};
  for (uint32_t d = 0; d < s.spatial; d++) {
    s.length[d] = lw__call_static(c, shape.dim[2 + d]);
    s.result.dim[s.result.rank++] = places.dim[1 + d];
    if (lw__call_ok(c) && s.length[d] < 1) lw__call_invalid(c, "its input is empty");
  }
  for (uint32_t d = 0; d < s.spatial; d++) { /* the last coordinate is the innermost axis */
    lw_value_id v = lw__b_slice(c, grid, places.rank - 1, s.spatial - 1 - d, 1, 1);
    v = lw__b_unsqueeze(c, lw__b_squeeze(c, v, places.rank - 1), 1);
    s.at[d] = lw__b_broadcast(c, sample_scale(c, &s, lw__b_up(c, v), d), &s.result);
  }
  lw_value_id y = s.mode == SAMPLE_NEAREST  ? sample_nearest(c, &s)
                  : s.mode == SAMPLE_LINEAR ? sample_linear(c, &s)
                                            : sample_cubic(c, &s);
  lw__call_out(c, 0, lw__b_cast(c, y, lw__b_dtype(c, s.x)));
}

/* Places of an axis of |n| elements in -1 .. 1. */
static lw_value_id sample_axis(lw_call *c, int64_t n, bool align, lw_dtype dtype) {
  double *place = lw__b_alloc(c, n, sizeof *place);
  lw_shape line = {1, {n}};
  if (place == NULL) return LW_NONE;
  for (int64_t i = 0; i < n; i++) {
    double at = (double)i, count = (double)n;
    place[i] = align ? (n == 1 ? 0 : 2 * at / (count - 1) - 1) : (2 * at + 1) / count - 1;
  }
  return lw__b_cast(c, lw__b_const(c, LW_DTYPE_F64, &line, place), dtype);
}

/* grid[n, .., :] = theta[n] * (x, y, [z,] 1) */
void lw__op_affine_grid(lw_call *c) {
  lw_value_id theta = lw__call_in(c, 0), sum = LW_NONE;
  bool align = lw__call_int(c, "align_corners", 0) != 0;
  uint32_t count;
  const int64_t *size = lw__call_numbers(c, 1, &count);
  if (size == NULL) return;
  uint32_t spatial = count - 2;
  lw_shape t = lw__b_shape(c, theta);
  if ((count != 4 && count != 5) || t.rank != 3 || t.dim[1] != spatial || t.dim[2] != spatial + 1) {
    lw__call_invalid(c, "its size and matrix do not fit");
    return;
  }
  lw_dtype dtype = lw__b_dtype(c, theta);
  lw_value_id wide = lw__b_up(c, theta);
  lw_shape result = {spatial + 2, {size[0]}}, column = {spatial + 2, {t.dim[0]}};
  for (uint32_t d = 0; d < spatial; d++) {
    if (size[2 + d] < 1) lw__call_invalid(c, "a size of %lld", (long long)size[2 + d]);
    result.dim[1 + d] = size[2 + d];
    column.dim[1 + d] = 1;
  }
  result.dim[spatial + 1] = column.dim[spatial + 1] = spatial;
  for (uint32_t k = 0; k <= spatial && lw__call_ok(c);
       k++) { /* column k meets axis spatial-1-k, the last one meets 1 */
    lw_value_id term = lw__b_reshape(c, lw__b_slice(c, wide, 2, k, 1, 1), &column);
    if (k < spatial) {
      uint32_t axis = spatial - 1 - k;
      lw_value_id place = sample_axis(c, size[2 + axis], align, lw__b_dtype(c, wide));
      term = lw__b_mul(c, term, lw__b_along(c, place, 1 + axis, spatial + 2));
    }
    sum = sum == LW_NONE ? term : lw__b_add(c, sum, term);
  }
  lw__call_out(c, 0, lw__b_cast(c, lw__b_broadcast(c, sum, &result), dtype));
}

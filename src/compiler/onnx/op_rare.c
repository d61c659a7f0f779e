/* op_rare.c: operators that few networks use, spelled with what there is: sampling at computed
 * places, determinants, weighted n-grams, mel filters. */
#include <math.h>
#include <string.h>

#include "compiler/onnx/op.h"

static int64_t rare_dim(lw_call *c, lw_value_id x, uint32_t axis) {
  return lw__call_static(c, lw__b_dim(c, x, axis));
}

/* ---- bilinear samples -----------------------------------------------------------------------*/

/* One axis of a sample: coordinates |at| (broadcastable to |result|) in an image of |length|. */
typedef struct lw_rare_axis {
  lw_value_id low, high, weight; /* whole places as i64, the weight of |high| */
  lw_value_id low_ok, high_ok;   /* inside the image; LW_NONE: always */
} lw_rare_axis;

static lw_value_id rare_inside(lw_call *c, lw_value_id v, double lo, double hi) {
  return lw__b_map2(c, LW_FN_AND, lw__b_map2s(c, LW_FN_GE, v, lo), lw__b_map2s(c, LW_FN_LE, v, hi));
}

static lw_value_id rare_clip(lw_call *c, lw_value_id v, double hi) {
  return lw__b_map2s(c, LW_FN_MIN, lw__b_map2s(c, LW_FN_MAX, v, 0), hi);
}

/* |zeros|: places outside count as zeros; else coordinates are brought inside. */
static lw_rare_axis rare_axis(lw_call *c, lw_value_id at, int64_t length, bool zeros,
                              const lw_shape *result) {
  double last = (double)length - 1;
  lw_rare_axis a = {.low_ok = LW_NONE, .high_ok = LW_NONE};
  if (!zeros) at = rare_clip(c, at, last);
  lw_value_id low = lw__b_map1(c, LW_FN_FLOOR, at), high = lw__b_adds(c, low, 1);
  a.weight = lw__b_broadcast(c, lw__b_sub(c, at, low), result);
  if (zeros) {
    a.low_ok = lw__b_broadcast(c, rare_inside(c, low, 0, last), result);
    a.high_ok = lw__b_broadcast(c, rare_inside(c, high, 0, last), result);
  }
  a.low = lw__b_cast(c, rare_clip(c, low, last), LW_DTYPE_I64);
  a.high = lw__b_cast(c, rare_clip(c, high, last), LW_DTYPE_I64);
  a.low = lw__b_broadcast(c, a.low, result);
  a.high = lw__b_broadcast(c, a.high, result);
  return a;
}

/* The four neighbours of each sample with their weights, as |parts|. |fetch| gathers the image at
 * tables (image, y, x), image LW_NONE: the result's first coordinate. */
static void rare_corners(lw_call *c, lw_value_id x, lw_value_id image, const lw_rare_axis *ay,
                         const lw_rare_axis *ax, const lw_shape *result, lw_value_id parts[4]) {
  int8_t select[4] = {-1, -2, 0, 1};
  if (image != LW_NONE) memcpy(select, (int8_t[]){0, -2, 1, 2}, 4);
  lw_value_id one = lw__b_scalar(c, lw__b_dtype(c, ay->weight), 1);
  lw_value_id zero = lw__b_scalar(c, lw__b_dtype(c, x), 0);
  for (int k = 0; k < 4; k++) {
    bool up = k >= 2, right = k % 2 == 1;
    lw_value_id tables[3] = {image, up ? ay->high : ay->low, right ? ax->high : ax->low};
    uint32_t skip = image == LW_NONE;
    lw_value_id v = lw__b_gather(c, x, tables + skip, 3 - skip, select, result);
    lw_value_id oks[2] = {up ? ay->high_ok : ay->low_ok, right ? ax->high_ok : ax->low_ok};
    for (int i = 0; i < 2; i++)
      if (oks[i] != LW_NONE) v = lw__b_select(c, oks[i], v, zero);
    lw_value_id wy = up ? ay->weight : lw__b_sub(c, one, ay->weight);
    lw_value_id wx = right ? ax->weight : lw__b_sub(c, one, ax->weight);
    parts[k] = lw__b_mul(c, lw__b_up(c, v), lw__b_mul(c, wy, wx));
  }
}

/* ---- RoiAlign -------------------------------------------------------------------------------*/

typedef struct lw_roi {
  int64_t pooled[2], grid, length[2];
  double scale, offset;
  bool clamp;
} lw_roi;

/* Coordinates [R, pooled * grid] along axis |k| (0: height). */
static lw_value_id roi_coordinates(lw_call *c, const lw_roi *r, lw_value_id rois, int k) {
  int64_t n = r->pooled[k] * r->grid;
  double *places = lw__b_alloc(c, n, sizeof *places);
  if (places == NULL) return LW_NONE;
  for (int64_t i = 0; i < n; i++) {
    double inside = ((double)(i % r->grid) + 0.5) / (double)r->grid;
    places[i] = (double)(i / r->grid) + inside;
  }
  lw_value_id begin = lw__b_slice(c, rois, 1, 1 - k, 1, 1),
              end = lw__b_slice(c, rois, 1, 3 - k, 1, 1);
  begin = lw__b_adds(c, lw__b_muls(c, begin, r->scale), -r->offset);
  end = lw__b_adds(c, lw__b_muls(c, end, r->scale), -r->offset);
  lw_value_id size = lw__b_sub(c, end, begin);
  if (r->clamp) size = lw__b_map2s(c, LW_FN_MAX, size, 1);
  lw_value_id bin = lw__b_map2s(c, LW_FN_DIV, size, (double)r->pooled[k]);
  lw_shape line = {2, {1, n}};
  lw_value_id table = lw__b_const(c, LW_DTYPE_F64, &line, places);
  return lw__b_add(c, begin, lw__b_mul(c, bin, lw__b_cast(c, table, lw__b_dtype(c, bin))));
}

static bool roi_read(lw_call *c, lw_roi *r, lw_value_id x, bool *out_max) {
  static const char *const modes[] = {"avg", "max", NULL};
  static const char *const halves[] = {"half_pixel", "output_half_pixel", NULL};
  *out_max = lw__call_choice(c, "mode", modes) == 1;
  bool half = c->opset >= 16 && lw__call_choice(c, "coordinate_transformation_mode", halves) == 0;
  r->pooled[0] = lw__call_int(c, "output_height", 1);
  r->pooled[1] = lw__call_int(c, "output_width", 1);
  r->grid = lw__call_int(c, "sampling_ratio", 0);
  r->scale = lw__call_float(c, "spatial_scale", 1);
  r->offset = half ? 0.5 : 0;
  r->clamp = !half;
  if (lw__b_rank(c, x) != 4) lw__call_invalid(c, "its input needs 4 dimensions");
  if (r->grid <= 0)
    lw__call_unsupported(c, "sampling_ratio 0, by which the data say how many samples");
  for (int k = 0; k < 2; k++) {
    if (r->pooled[k] < 1 || r->pooled[k] > 4096 || r->grid > 4096)
      lw__call_invalid(c, "its output size does not fit");
    r->length[k] = rare_dim(c, x, 2 + (uint32_t)k);
  }
  return lw__call_ok(c);
}

void lw__op_roi_align(lw_call *c) {
  lw_value_id x = lw__call_in(c, 0), rois = lw__b_up(c, lw__call_in(c, 1)), parts[4];
  lw_value_id image = lw__call_in(c, 2);
  lw_roi r;
  bool max;
  if (!roi_read(c, &r, x, &max)) return;
  lw_extent count = lw__b_dim(c, rois, 0), channels = lw__b_dim(c, x, 1);
  lw_shape result = {4, {count, channels, r.pooled[0] * r.grid, r.pooled[1] * r.grid}};
  lw_value_id y = lw__b_unsqueeze(c, lw__b_unsqueeze(c, roi_coordinates(c, &r, rois, 0), 1), 3);
  lw_value_id u = lw__b_unsqueeze(c, lw__b_unsqueeze(c, roi_coordinates(c, &r, rois, 1), 1), 2);
  lw_value_id near = lw__b_map2(c, LW_FN_AND, rare_inside(c, y, -1, (double)r.length[0]),
                                rare_inside(c, u, -1, (double)r.length[1]));
  lw_rare_axis ay = rare_axis(c, y, r.length[0], false, &result);
  lw_rare_axis ax = rare_axis(c, u, r.length[1], false, &result);
  image = lw__b_broadcast(c, lw__b_along(c, lw__b_cast(c, image, LW_DTYPE_I64), 0, 4), &result);
  rare_corners(c, x, image, &ay, &ax, &result, parts);
  lw_fn join = max ? LW_FN_MAX : LW_FN_ADD;
  lw_value_id v = lw__b_map2(c, join, lw__b_map2(c, join, parts[0], parts[1]),
                             lw__b_map2(c, join, parts[2], parts[3]));
  v = lw__b_select(c, near, v, lw__b_scalar(c, lw__b_dtype(c, v), 0));
  lw_shape apart = {6, {count, channels, r.pooled[0], r.grid, r.pooled[1], r.grid}};
  v = lw__b_reshape(c, v, &apart);
  uint32_t axes = 1u << 3 | 1u << 5;
  v = max ? lw__b_reduce(c, LW_RED_MAX, v, axes, false) : lw__b_mean(c, v, axes, false);
  lw__call_out(c, 0, lw__b_cast(c, v, lw__b_dtype(c, x)));
}

/* ---- DeformConv -----------------------------------------------------------------------------*/

/* Coordinates of the taps along axis |k| (0: height), [1, 1, taps, oh, ow] before offsets. */
static lw_value_id deform_places(lw_call *c, const lw_windows *w, const int64_t *out, int k) {
  int64_t taps = w->kernel[0] * w->kernel[1], count = taps * out[0] * out[1];
  float *places = lw__b_alloc(c, count, sizeof *places);
  if (places == NULL) return LW_NONE;
  for (int64_t i = 0; i < count; i++) {
    int64_t t = i / (out[0] * out[1]), at[2] = {i / out[1] % out[0], i % out[1]};
    int64_t tap[2] = {t / w->kernel[1], t % w->kernel[1]};
    places[i] = (float)(at[k] * w->stride[k] - w->pad_lo[k] + tap[k] * w->dilation[k]);
  }
  lw_shape shape = {5, {1, 1, taps, out[0], out[1]}};
  return lw__b_const(c, LW_DTYPE_F32, &shape, places);
}

/* Rows |k| of offsets (or a mask) [N, groups * taps * per, oh, ow] for every channel: [N, C, taps,
 * oh, ow]. */
static lw_value_id deform_spread(lw_call *c, lw_value_id v, int64_t groups, int64_t taps,
                                 int64_t per, int64_t k, int64_t channels) {
  lw_shape s = lw__b_shape(c, v);
  if (!lw__call_ok(c) || s.rank != 4 || s.dim[1] != groups * taps * per) {
    lw__call_invalid(c, "its offsets or its mask do not fit");
    return LW_NONE;
  }
  lw_shape apart = {6, {s.dim[0], groups, taps, per, s.dim[2], s.dim[3]}};
  v = lw__b_squeeze(c, lw__b_slice(c, lw__b_reshape(c, v, &apart), 3, k, 1, 1), 3);
  lw_shape wide = {6, {s.dim[0], groups, channels / groups, taps, s.dim[2], s.dim[3]}};
  return lw__b_merge(c, lw__b_broadcast(c, lw__b_unsqueeze(c, v, 2), &wide), 1, 3);
}

void lw__op_deform_conv(lw_call *c) {
  lw_value_id x = lw__call_in(c, 0), w = lw__call_in(c, 1), offset = lw__call_in(c, 2);
  lw_value_id bias = lw__call_in(c, 3), mask = lw__call_in(c, 4), parts[4];
  int64_t group = lw__call_int(c, "group", 1), groups = lw__call_int(c, "offset_group", 1);
  lw__call_ignore(c, "kernel_shape"); /* the weights say it */
  if (lw__call_ok(c) && (lw__b_rank(c, x) != 4 || lw__b_rank(c, w) != 4))
    lw__call_unsupported(c, "other than 2 spatial dimensions");
  if (!lw__call_ok(c)) return;
  lw_windows win = {.spatial = 2, .kernel = {rare_dim(c, w, 2), rare_dim(c, w, 3)}};
  if (!lw__op_windows(c, x, &win)) return;
  int64_t channels = rare_dim(c, x, 1), filters = rare_dim(c, w, 0), batch = rare_dim(c, x, 0);
  int64_t out[2] = {rare_dim(c, offset, 2), rare_dim(c, offset, 3)};
  int64_t taps = win.kernel[0] * win.kernel[1];
  bool fits = lw__call_ok(c) && group > 0 && groups > 0 && channels % group == 0 &&
              channels % groups == 0 && filters % group == 0 && taps > 0 &&
              rare_dim(c, w, 1) == channels / group;
  if (!fits) lw__call_invalid(c, "its groups do not fit");
  if (!lw__call_ok(c)) return;
  lw_shape result = {5, {batch, channels, taps, out[0], out[1]}};
  lw_rare_axis axes[2];
  for (int k = 0; k < 2; k++) {
    lw_value_id move = lw__b_up(c, deform_spread(c, offset, groups, taps, 2, k, channels));
    lw_value_id at = lw__b_cast(c, deform_places(c, &win, out, k), lw__b_dtype(c, move));
    axes[k] = rare_axis(c, lw__b_add(c, at, move), rare_dim(c, x, 2 + (uint32_t)k), true, &result);
  }
  rare_corners(c, x, LW_NONE, &axes[0], &axes[1], &result, parts);
  lw_value_id v = lw__b_add(c, lw__b_add(c, parts[0], parts[1]), lw__b_add(c, parts[2], parts[3]));
  if (mask != LW_NONE)
    v = lw__b_mul(c, v, lw__b_up(c, deform_spread(c, mask, groups, taps, 1, 0, channels)));
  int64_t depth = channels / group * taps;
  lw_shape columns = {4, {batch, group, depth, out[0] * out[1]}};
  lw_shape rows = {4, {1, group, filters / group, depth}},
           full = {4, {batch, filters, out[0], out[1]}};
  lw_value_id y =
      lw__b_matmul(c, lw__b_reshape(c, lw__b_up(c, w), &rows), lw__b_reshape(c, v, &columns));
  y = lw__b_reshape(c, y, &full);
  if (bias != LW_NONE) y = lw__b_add(c, y, lw__b_up(c, lw__b_along(c, bias, 1, 4)));
  lw__call_out(c, 0, lw__b_cast(c, y, lw__b_dtype(c, x)));
}

/* ---- Det ------------------------------------------------------------------------------------*/

static lw_value_id det_entry(lw_call *c, lw_value_id x, uint32_t rank, int64_t i, int64_t j) {
  lw_value_id row = lw__b_squeeze(c, lw__b_slice(c, x, rank - 2, i, 1, 1), rank - 2);
  return lw__b_squeeze(c, lw__b_slice(c, row, rank - 2, j, 1, 1), rank - 2);
}

/* a[i][j] a[k][l] - a[i][l] a[k][j] */
static lw_value_id det_minor(lw_call *c, lw_value_id x, uint32_t rank, int64_t i, int64_t k,
                             int64_t j, int64_t l) {
  lw_value_id a = lw__b_mul(c, det_entry(c, x, rank, i, j), det_entry(c, x, rank, k, l));
  return lw__b_sub(c, a, lw__b_mul(c, det_entry(c, x, rank, i, l), det_entry(c, x, rank, k, j)));
}

void lw__op_det(lw_call *c) {
  lw_value_id x = lw__b_up(c, lw__call_in(c, 0)), y = LW_NONE;
  uint32_t rank = lw__b_rank(c, x);
  if (rank < 2) lw__call_invalid(c, "its input is no matrix");
  int64_t n = lw__call_ok(c) ? rare_dim(c, x, rank - 1) : 0;
  if (lw__call_ok(c) && rare_dim(c, x, rank - 2) != n)
    lw__call_invalid(c, "a matrix that is not square");
  if (n < 1 || n > 3) lw__call_unsupported(c, "matrices of %lld rows", (long long)n);
  if (!lw__call_ok(c)) return;
  if (n == 1) y = det_entry(c, x, rank, 0, 0);
  if (n == 2) y = det_minor(c, x, rank, 0, 1, 0, 1);
  for (int64_t j = 0; j < 3 && n == 3; j++) { /* along the first row */
    lw_value_id minor = det_minor(c, x, rank, 1, 2, j == 0, j == 2 ? 1 : 2);
    lw_value_id term = lw__b_mul(c, det_entry(c, x, rank, 0, j), minor);
    y = j == 0 ? term : j == 1 ? lw__b_sub(c, y, term) : lw__b_add(c, y, term);
  }
  lw__call_out(c, 0, lw__b_cast(c, y, lw__b_dtype(c, lw__call_in(c, 0))));
}

/* ---- TfIdfVectorizer ------------------------------------------------------------------------*/

/* How often each of |grams| n-grams of |n| numbers stands in the rows of |x| [B, C] with |step|
 * between its items: [B, grams] of f32. */
static lw_value_id ngram_count(lw_call *c, lw_value_id x, const int64_t *pool, int64_t grams,
                               int64_t n, int64_t step) {
  int64_t starts = rare_dim(c, x, 1) - (n - 1) * step;
  lw_value_id all = LW_NONE;
  int64_t *column = lw__b_alloc(c, grams, sizeof *column);
  if (column == NULL || starts <= 0) return LW_NONE;
  for (int64_t j = 0; j < n; j++) {
    for (int64_t g = 0; g < grams; g++) column[g] = pool[g * n + j];
    lw_shape shape = {3, {1, 1, grams}};
    lw_value_id want = lw__b_const(c, LW_DTYPE_I64, &shape, column);
    lw_value_id item = lw__b_unsqueeze(c, lw__b_slice(c, x, 1, j * step, 1, starts), 2);
    lw_value_id same = lw__b_map2(c, LW_FN_EQ, item, want);
    all = all == LW_NONE ? same : lw__b_map2(c, LW_FN_AND, all, same);
  }
  return lw__b_reduce(c, LW_RED_SUM, lw__b_cast(c, all, LW_DTYPE_F32), 2, false);
}

typedef struct lw_ngrams {
  const int64_t *pool, *counts, *indexes;
  uint32_t pool_count, count_count, index_count;
  int64_t least, most, skips;
} lw_ngrams;

static bool ngram_read(lw_call *c, lw_ngrams *t) {
  t->pool = lw__call_ints(c, "pool_int64s", &t->pool_count);
  t->counts = lw__call_ints(c, "ngram_counts", &t->count_count);
  t->indexes = lw__call_ints(c, "ngram_indexes", &t->index_count);
  t->least = lw__call_int(c, "min_gram_length", 1);
  t->most = lw__call_int(c, "max_gram_length", 1);
  t->skips = lw__call_int(c, "max_skip_count", 0);
  if (lw__call_attr(c, "pool_strings") != NULL) lw__call_unsupported(c, "n-grams of strings");
  if (t->least < 1 || t->most < t->least || t->skips < 0 || t->most > 64 || t->skips > 1024)
    lw__call_invalid(c, "its lengths do not fit");
  for (uint32_t i = 0; i < t->count_count && lw__call_ok(c); i++) {
    int64_t end = i + 1 < t->count_count ? t->counts[i + 1] : t->pool_count;
    if (t->counts[i] < 0 || t->counts[i] > end || end > t->pool_count)
      lw__call_invalid(c, "ngram_counts does not fit");
  }
  return lw__call_ok(c);
}

/* Counts of the n-grams of |n| items (pool[begin .. end)), over all skips: [B, grams]. */
static lw_value_id ngram_counts(lw_call *c, const lw_ngrams *t, lw_value_id x, int64_t n,
                                int64_t begin, int64_t grams) {
  lw_value_id sum = LW_NONE;
  bool counts = n >= t->least && n <= t->most;
  for (int64_t step = 1; counts && step <= (n == 1 ? 1 : t->skips + 1); step++) {
    lw_value_id part = ngram_count(c, x, t->pool + begin, grams, n, step);
    if (part != LW_NONE) sum = sum == LW_NONE ? part : lw__b_add(c, sum, part);
  }
  if (sum != LW_NONE) return sum;
  lw_shape none = {2, {lw__b_dim(c, x, 0), grams}};
  return lw__b_broadcast(c, lw__b_scalar(c, LW_DTYPE_F32, 0), &none);
}

/* By mode: counts, whether there are any, times the weights. */
static lw_value_id ngram_weigh(lw_call *c, lw_value_id y, int64_t width) {
  static const char *const modes[] = {"TF", "IDF", "TFIDF", NULL};
  uint32_t mode = lw__call_choice(c, "mode", modes);
  const lw_proto_attr *attr = lw__call_attr(c, "weights");
  if (mode == 1) y = lw__b_cast(c, lw__b_map2s(c, LW_FN_GT, y, 0), LW_DTYPE_F32);
  if (mode == 0 || attr == NULL || attr->floats.count == 0) return y;
  lw_shape line = {2, {1, width}};
  if (attr->floats.count != width)
    lw__call_invalid(c, "%u weights for %lld results", attr->floats.count, (long long)width);
  return lw__call_ok(c) ? lw__b_mul(c, y, lw__b_const(c, LW_DTYPE_F32, &line, attr->floats.data))
                        : LW_NONE;
}

void lw__op_tf_idf_vectorizer(lw_call *c) {
  lw_value_id in = lw__call_in(c, 0), x = lw__b_cast(c, in, LW_DTYPE_I64);
  lw_ngrams t = {0};
  uint32_t rank = lw__b_rank(c, in);
  if (rank < 1 || rank > 2) lw__call_unsupported(c, "an input of %u dimensions", rank);
  if (!ngram_read(c, &t)) return;
  if (rank == 1) x = lw__b_unsqueeze(c, x, 0);
  int64_t width = 0, at = 0;
  lw_value_id *parts = lw__b_alloc(c, (int64_t)t.count_count + 1, sizeof *parts);
  int64_t *source;
  for (uint32_t i = 0; i < t.index_count; i++) width = lw__max_i64(width, t.indexes[i] + 1);
  source = lw__b_alloc(c, width, sizeof *source);
  if (parts == NULL || source == NULL) return;
  uint32_t used = 0;
  for (uint32_t i = 0; i < t.count_count && lw__call_ok(c); i++) {
    int64_t end = i + 1 < t.count_count ? t.counts[i + 1] : t.pool_count;
    int64_t grams = (end - t.counts[i]) / ((int64_t)i + 1);
    if (grams == 0) continue;
    parts[used++] = ngram_counts(c, &t, x, (int64_t)i + 1, t.counts[i], grams);
    at += grams;
  }
  if (at != t.index_count)
    lw__call_invalid(c, "%lld n-grams, %u indexes", (long long)at, t.index_count);
  lw_shape none = {2, {lw__b_dim(c, x, 0), 1}};
  parts[used++] = lw__b_broadcast(c, lw__b_scalar(c, LW_DTYPE_F32, 0), &none);
  for (int64_t k = 0; k < width; k++) source[k] = at; /* the column of zeros */
  for (uint32_t i = 0; i < t.index_count && lw__call_ok(c); i++) {
    if (t.indexes[i] < 0) lw__call_invalid(c, "an index that is negative");
    if (lw__call_ok(c)) source[t.indexes[i]] = i;
  }
  lw_value_id y = lw__b_take(c, lw__b_concat(c, parts, used, 1), 1, source, width);
  y = ngram_weigh(c, y, width);
  lw__call_out(c, 0, rank == 1 ? lw__b_squeeze(c, y, 0) : y);
}

/* ---- MelWeightMatrix ------------------------------------------------------------------------*/

static double mel_of(double hertz) { return 2595 * log10(1 + hertz / 700); }

void lw__op_mel_weight_matrix(lw_call *c) {
  int64_t bins = lw__call_number(c, 0, 0), length = lw__call_number(c, 1, 0);
  int64_t rate = lw__call_number(c, 2, 0), type = lw__call_int(c, "output_datatype", 1);
  double edge[2] = {0, 0};
  for (uint32_t k = 0; k < 2; k++) {
    uint32_t count;
    const double *given = lw__call_floats(c, 3 + k, &count);
    if (given != NULL && count == 1) edge[k] = given[0];
  }
  if (bins < 1 || length < 1 || rate < 1 || bins > 1 << 20 || length > 1 << 24)
    lw__call_invalid(c, "its sizes do not fit");
  if (!lw__call_ok(c)) return;
  int64_t rows = length / 2 + 1;
  double *table = lw__b_alloc(c, rows * bins, sizeof *table), low = mel_of(edge[0]);
  int64_t *centre = lw__b_alloc(c, bins + 2, sizeof *centre);
  if (table == NULL || centre == NULL) return;
  double step = (mel_of(edge[1]) - low) / (double)(bins + 2);
  for (int64_t i = 0; i < bins + 2; i++) {
    double hertz = 700 * (pow(10, ((double)i * step + low) / 2595) - 1);
    centre[i] = (int64_t)floor((double)(length + 1) * hertz / (double)rate);
    if (centre[i] < 0 || centre[i] >= rows)
      lw__call_invalid(c, "its edges lie outside the spectrum");
  }
  for (int64_t i = 0; i < rows * bins; i++) table[i] = 0;
  for (int64_t i = 0; i < bins && lw__call_ok(c); i++) {
    int64_t a = centre[i], b = centre[i + 1], d = centre[i + 2];
    if (a == b) table[b * bins + i] = 1;
    for (int64_t j = a; j <= b && b > a; j++)
      table[j * bins + i] = (double)(j - a) / (double)(b - a);
    for (int64_t j = b; j < d; j++) table[j * bins + i] = (double)(d - j) / (double)(d - b);
  }
  lw_shape shape = {2, {rows, bins}};
  lw_value_id y = lw__b_const(c, LW_DTYPE_F64, &shape, table);
  if (type < 1 || type > INT32_MAX) lw__call_invalid(c, "output_datatype %lld", (long long)type);
  lw__call_out(c, 0, lw__op_to_type(c, y, (int32_t)type, true));
}

/* ---- ai.onnx.ml -----------------------------------------------------------------------------*/

void lw__op_binarizer(lw_call *c) {
  lw_value_id x = lw__call_in(c, 0);
  double threshold = lw__call_float(c, "threshold", 0);
  lw__call_out(c, 0, lw__b_cast(c, lw__b_map2s(c, LW_FN_GT, x, threshold), lw__b_dtype(c, x)));
}

/* Columns of the last dim. */
void lw__op_array_feature_extractor(lw_call *c) {
  lw_value_id x = lw__call_in(c, 0), columns = lw__b_cast(c, lw__call_in(c, 1), LW_DTYPE_I64);
  if (lw__b_rank(c, x) == 1) x = lw__b_unsqueeze(c, x, 0);
  uint32_t rank = lw__b_rank(c, x);
  if (rank == 0) lw__call_invalid(c, "a scalar");
  columns = lw__b_merge(c, columns, 0, lw__b_rank(c, columns));
  lw_shape shape = lw__b_shape(c, x);
  if (!lw__call_ok(c)) return;
  shape.dim[rank - 1] = lw__b_dim(c, columns, 0);
  lw_value_id at = lw__b_broadcast(c, columns, &shape);
  int8_t select[LW_MAX_RANK];
  for (uint32_t d = 0; d < rank; d++) select[d] = (int8_t)(d + 1 == rank ? 0 : -1 - (int)d);
  lw__call_out(c, 0, lw__b_gather(c, x, &at, 1, select, &shape));
}

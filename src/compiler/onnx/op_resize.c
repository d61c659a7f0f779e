/* op_resize.c: Resize and Upsample, one axis after the other: nearest as a choice of elements,
 * linear and cubic as sums of shifted choices with constant weights. */
#include <math.h>
#include <string.h>

#include "compiler/onnx/op.h"

typedef enum lw_resize_mode { RESIZE_NEAREST, RESIZE_LINEAR, RESIZE_CUBIC } lw_resize_mode;
typedef enum lw_resize_coord {
  COORD_HALF_PIXEL,
  COORD_ALIGN_CORNERS,
  COORD_ASYMMETRIC,
  COORD_PYTORCH_HALF_PIXEL,
  COORD_TF_HALF_PIXEL,
  COORD_TF_CROP,
  COORD_HALF_PIXEL_SYMMETRIC
} lw_resize_coord;
typedef enum lw_resize_round {
  ROUND_PREFER_FLOOR,
  ROUND_PREFER_CEIL,
  ROUND_FLOOR,
  ROUND_CEIL
} lw_resize_round;

typedef struct lw_resize {
  lw_resize_mode mode;
  lw_resize_coord coord;
  lw_resize_round round;
  double cubic_a, extrapolation;
  bool exclude_outside, antialias;
  int64_t in[LW_MAX_RANK], out[LW_MAX_RANK];
  double scale[LW_MAX_RANK], roi_lo[LW_MAX_RANK], roi_hi[LW_MAX_RANK];
} lw_resize;

static const char *const resize_modes[] = {"nearest", "linear", "cubic", NULL};
static const char *const resize_coords[] = {
    "half_pixel",           "align_corners",      "asymmetric",           "pytorch_half_pixel",
    "tf_half_pixel_for_nn", "tf_crop_and_resize", "half_pixel_symmetric", NULL};
static const char *const resize_rounds[] = {"round_prefer_floor", "round_prefer_ceil", "floor",
                                            "ceil", NULL};

/* ---- where an output element lies in the input ----------------------------------------------*/

/* In f32, as everybody does it: at exact halves the rounding decides which element is nearest. */
static float resize_position(const lw_resize *r, uint32_t axis, int64_t o) {
  float scale = (float)r->scale[axis], in = (float)r->in[axis], out = (float)r->out[axis];
  float x = (float)o;
  switch (r->coord) {
    case COORD_HALF_PIXEL: return (x + 0.5f) / scale - 0.5f;
    case COORD_ALIGN_CORNERS: return out == 1 ? 0 : x * (in - 1) / (out - 1);
    case COORD_ASYMMETRIC: return x / scale;
    case COORD_PYTORCH_HALF_PIXEL: return out > 1 ? (x + 0.5f) / scale - 0.5f : 0;
    case COORD_TF_HALF_PIXEL: return (x + 0.5f) / scale;
    case COORD_TF_CROP: {
      float lo = (float)r->roi_lo[axis], hi = (float)r->roi_hi[axis];
      return out > 1 ? lo * (in - 1) + x * (hi - lo) * (in - 1) / (out - 1)
                     : 0.5f * (lo + hi) * (in - 1);
    }
    case COORD_HALF_PIXEL_SYMMETRIC: {
      /* Keeps the middle where it is although the size was rounded. */
      float adjustment = out / (scale * in), centre = in / 2;
      return centre * (1 - adjustment) + (x + 0.5f) / scale - 0.5f;
    }
  }
  return 0;
}

static int64_t resize_nearest(lw_resize_round rule, double x) {
  switch (rule) {
    case ROUND_PREFER_FLOOR: return (int64_t)ceil(x - 0.5);
    case ROUND_PREFER_CEIL: return (int64_t)floor(x + 0.5);
    case ROUND_FLOOR: return (int64_t)floor(x);
    case ROUND_CEIL: return (int64_t)ceil(x);
  }
  return 0;
}

static double resize_cubic(double a, double x) {
  x = fabs(x);
  if (x <= 1) return ((a + 2) * x - (a + 3)) * x * x + 1;
  return x < 2 ? ((a * x - 5 * a) * x + 8 * a) * x - 4 * a : 0;
}

static double resize_weight(const lw_resize *r, double distance) {
  if (r->mode == RESIZE_CUBIC) return resize_cubic(r->cubic_a, distance);
  return fmax(0, 1 - fabs(distance));
}

/* ---- one axis -------------------------------------------------------------------------------*/

/* Taps of every output element of the axis: |taps| columns of indices and weights. */
typedef struct lw_resize_table {
  int64_t taps, count;
  int64_t *index; /* [tap][output] */
  double *weight;
  bool *outside; /* output lies outside the input: the extrapolation value (tf_crop_and_resize) */
  bool any_outside;
} lw_resize_table;

static void resize_fill_row(const lw_resize *r, uint32_t axis, int64_t o, lw_resize_table *t) {
  double x = (double)resize_position(r, axis, o), sum = 0;
  int64_t n = r->in[axis];
  t->outside[o] = r->coord == COORD_TF_CROP && (x < 0 || x > (double)(n - 1));
  t->any_outside |= t->outside[o];
  x = fmax(-1e12, fmin(x, 1e12)); /* regions may lie anywhere */
  if (r->mode == RESIZE_NEAREST) {
    t->index[o] = lw__max_i64(0, lw__min_i64(resize_nearest(r->round, x), n - 1));
    t->weight[o] = 1;
    return;
  }
  /* Down-scaling with antialias stretches the kernel over more taps. */
  double stretch = r->antialias && r->scale[axis] < 1 ? r->scale[axis] : 1;
  int64_t first = (int64_t)floor(x) - t->taps / 2 + 1;
  for (int64_t k = 0; k < t->taps; k++) {
    int64_t i = first + k;
    double w = resize_weight(r, ((double)i - x) * stretch);
    if (r->exclude_outside && (i < 0 || i >= n)) w = 0;
    t->index[k * t->count + o] = lw__max_i64(0, lw__min_i64(i, n - 1));
    t->weight[k * t->count + o] = w;
    sum += w;
  }
  bool normalize = r->exclude_outside || r->antialias;
  for (int64_t k = 0; k < t->taps && normalize && sum != 0; k++) t->weight[k * t->count + o] /= sum;
}

static bool resize_fill(lw_call *c, const lw_resize *r, uint32_t axis, lw_resize_table *t) {
  double radius = r->mode == RESIZE_CUBIC ? 2 : 1;
  if (r->antialias && r->scale[axis] < 1) radius /= r->scale[axis];
  if (!(radius < 1e6)) lw__call_unsupported(c, "a scale of %g with antialias", r->scale[axis]);
  t->taps = r->mode == RESIZE_NEAREST ? 1 : 2 * (int64_t)ceil(radius);
  t->count = r->out[axis];
  int64_t total;
  if (!lw__mul_i64(t->taps, t->count, &total)) total = -1;
  t->index = lw__b_alloc(c, total, sizeof *t->index);
  t->weight = lw__b_alloc(c, total, sizeof *t->weight);
  t->outside = lw__b_alloc(c, t->count, sizeof *t->outside);
  if (t->index == NULL || t->weight == NULL || t->outside == NULL) return false;
  for (int64_t o = 0; o < t->count; o++) resize_fill_row(r, axis, o, t);
  return true;
}

static lw_value_id resize_outside(lw_call *c, const lw_resize *r, lw_value_id y, uint32_t axis,
                                  const lw_resize_table *t) {
  lw_shape line = {1, {t->count}};
  lw_value_id mask =
      lw__b_along(c, lw__b_const(c, LW_DTYPE_BOOL, &line, t->outside), axis, lw__b_rank(c, y));
  return lw__b_select(c, mask, lw__b_scalar(c, lw__b_dtype(c, y), r->extrapolation), y);
}

static lw_value_id resize_axis(lw_call *c, const lw_resize *r, lw_value_id x, uint32_t axis,
                               lw_resize_table *t) {
  lw_dtype dtype = lw__b_dtype(c, x);
  lw_shape line = {1, {t->count}};
  if (r->mode == RESIZE_NEAREST) return lw__b_take(c, x, axis, t->index, t->count);
  lw_value_id sum = LW_NONE;
  for (int64_t k = 0; k < t->taps && lw__call_ok(c); k++) {
    bool idle = true;
    for (int64_t o = 0; o < t->count && idle; o++) idle = t->weight[k * t->count + o] == 0;
    if (idle && !(k + 1 == t->taps && sum == LW_NONE)) continue;
    lw_value_id w =
        lw__b_cast(c, lw__b_const(c, LW_DTYPE_F64, &line, t->weight + k * t->count), dtype);
    w = lw__b_along(c, w, axis, lw__b_rank(c, x));
    lw_value_id term = lw__b_mul(c, lw__b_take(c, x, axis, t->index + k * t->count, t->count), w);
    sum = sum == LW_NONE ? term : lw__b_add(c, sum, term);
  }
  return sum;
}

static lw_value_id resize_all(lw_call *c, const lw_resize *r, lw_value_id x, uint32_t rank,
                              uint32_t axes) {
  lw_dtype dtype = lw__b_dtype(c, x);
  lw_resize_table tables[LW_MAX_RANK] = {{0}};
  if (r->mode != RESIZE_NEAREST) {
    x = lw__dtype_is_float(dtype) ? lw__b_up(c, x) : lw__b_cast(c, x, LW_DTYPE_F32);
  }
  uint32_t touched = 0;
  for (uint32_t d = 0; d < rank && lw__call_ok(c); d++) {
    bool same = r->in[d] == r->out[d] && (r->scale[d] == 1 || r->coord == COORD_ALIGN_CORNERS);
    if (!(axes >> d & 1) || (same && r->coord != COORD_TF_CROP)) continue;
    if (!resize_fill(c, r, d, &tables[d])) return LW_NONE;
    x = resize_axis(c, r, x, d, &tables[d]);
    touched |= 1u << d;
  }
  for (uint32_t d = 0; d < rank && lw__call_ok(c); d++) {
    if (touched >> d & 1 && tables[d].any_outside) x = resize_outside(c, r, x, d, &tables[d]);
  }
  if (!lw__dtype_is_float(dtype) && r->mode != RESIZE_NEAREST) { /* integers are rounded, not cut */
    x = lw__b_map1(c, LW_FN_ROUND, x);
    x = lw__b_map2s(c, LW_FN_MAX, lw__b_map2s(c, LW_FN_MIN, x, lw__dtype_largest(dtype)),
                    lw__dtype_lowest(dtype));
  }
  return lw__b_cast(c, x, dtype);
}

/* ---- sizes and scales -----------------------------------------------------------------------*/

static void resize_set_scale(lw_call *c, lw_resize *r, uint32_t axis, double scale) {
  double size = floor((double)((float)r->in[axis] * (float)scale)); /* the product in f32 */
  if (!(scale > 0) || !(size >= 0) || size > 1e12) lw__call_invalid(c, "a scale of %g", scale);
  if (!lw__call_ok(c)) return;
  r->scale[axis] = scale;
  r->out[axis] = (int64_t)size;
}

static void resize_set_size(lw_call *c, lw_resize *r, uint32_t axis, int64_t size) {
  if ((size < 1 && r->in[axis] != 0) || size > INT64_C(1) << 40)
    lw__call_invalid(c, "a size of %lld", (long long)size);
  if (!lw__call_ok(c)) return;
  r->out[axis] = size;
  r->scale[axis] = r->in[axis] == 0 ? 1 : (double)size / (double)r->in[axis];
}

/* keep_aspect_ratio_policy: one scale for all axes, the least or largest of those that the sizes
 * ask for. */
static void resize_keep_ratio(lw_call *c, lw_resize *r, const uint32_t *axes, uint32_t count,
                              bool larger) {
  double scale = larger ? 0 : INFINITY;
  for (uint32_t i = 0; i < count; i++) {
    scale = larger ? fmax(scale, r->scale[axes[i]]) : fmin(scale, r->scale[axes[i]]);
  }
  for (uint32_t i = 0; i < count && lw__call_ok(c); i++) {
    r->scale[axes[i]] = scale;
    r->out[axes[i]] = (int64_t)floor(scale * (double)r->in[axes[i]] + 0.5);
  }
}

/* The axes that sizes, scales and roi speak of. */
static uint32_t resize_axes(lw_call *c, uint32_t rank, uint32_t *axes) {
  uint32_t count, seen = 0;
  const int64_t *given = lw__call_ints(c, "axes", &count);
  if (count > rank) lw__call_invalid(c, "%u axes", count);
  for (uint32_t i = 0; i < (count == 0 ? rank : count) && lw__call_ok(c); i++) {
    axes[i] = count == 0 ? i : lw__call_axis(c, given[i], rank);
    if (seen >> axes[i] & 1) lw__call_invalid(c, "axis %u is named twice", axes[i]);
    seen |= 1u << axes[i];
  }
  return count == 0 ? rank : count;
}

static void resize_read_roi(lw_call *c, lw_resize *r, const uint32_t *axes, uint32_t count) {
  uint32_t given;
  if (r->coord != COORD_TF_CROP) return;
  const double *roi = lw__call_has(c, 1) ? lw__call_floats(c, 1, &given) : NULL;
  if (roi == NULL || given != 2 * count) {
    lw__call_invalid(c, "tf_crop_and_resize needs a region");
    return;
  }
  for (uint32_t i = 0; i < count; i++) {
    r->roi_lo[axes[i]] = roi[i];
    r->roi_hi[axes[i]] = roi[count + i];
  }
}

/* An input with no elements counts as left out. */
static bool resize_has(lw_call *c, uint32_t i) {
  lw_shape shape = lw__b_shape(c, lw__call_in(c, i));
  return lw__call_has(c, i) && lw__shape_numel(&shape) != 0;
}

/* False when sizes or scales are wanted for a symbolic axis that stays as it is: such axes keep
 * their extent. */
static bool resize_prepare(lw_call *c, lw_value_id x, lw_resize *r, const uint32_t *axes,
                           uint32_t count, const double *scales, const lw_content_elem *sizes,
                           uint32_t *out_axes) {
  *out_axes = 0;
  for (uint32_t i = 0; i < count && lw__call_ok(c); i++) {
    lw_extent extent = lw__b_dim(c, x, axes[i]);
    if (!lw__extent_is_number(extent)) {
      bool same = scales != NULL ? scales[i] == 1
                                 : sizes[i].kind == LW_CONTENT_EXTENT &&
                                       lw__call_same_extent(c, sizes[i].extent, extent);
      if (same) continue;
    }
    r->in[axes[i]] = lw__call_static(c, extent);
    if (scales != NULL)
      resize_set_scale(c, r, axes[i], scales[i]);
    else if (sizes[i].kind == LW_CONTENT_EXTENT)
      (void)lw__call_static(c, sizes[i].extent);
    else
      resize_set_size(c, r, axes[i], sizes[i].value.i);
    *out_axes |= 1u << axes[i];
  }
  return lw__call_ok(c);
}

void lw__op_resize(lw_call *c) {
  static const char *const policies[] = {"stretch", "not_larger", "not_smaller", NULL};
  lw_value_id x = lw__call_in(c, 0);
  uint32_t rank = lw__b_rank(c, x), axes[LW_MAX_RANK], given = 0, mask,
           scales_at = c->opset < 11 ? 1 : 2;
  lw_resize r = {.mode = (lw_resize_mode)lw__call_choice(c, "mode", resize_modes)};
  r.coord = (lw_resize_coord)lw__call_choice(c, "coordinate_transformation_mode", resize_coords);
  r.round = (lw_resize_round)lw__call_choice(c, "nearest_mode", resize_rounds);
  if (c->opset < 11) {
    r.coord = COORD_ASYMMETRIC;
    r.round = ROUND_FLOOR;
  }
  r.cubic_a = lw__call_float(c, "cubic_coeff_a", -0.75);
  r.extrapolation = lw__call_float(c, "extrapolation_value", 0);
  r.exclude_outside = lw__call_int(c, "exclude_outside", 0) != 0;
  r.antialias = lw__call_int(c, "antialias", 0) != 0;
  uint32_t policy = lw__call_choice(c, "keep_aspect_ratio_policy", policies);
  uint32_t count = resize_axes(c, rank, axes);
  const double *scales = NULL;
  const lw_content_elem *sizes = NULL;
  if (resize_has(c, scales_at))
    scales = lw__call_floats(c, scales_at, &given);
  else if (lw__call_has(c, 3))
    sizes = lw__call_elems(c, 3, &given);
  else
    lw__call_invalid(c, "it has neither scales nor sizes");
  if (lw__call_ok(c) && given != count)
    lw__call_invalid(c, "%u scales or sizes for %u axes", given, count);
  if (!lw__call_ok(c)) return;
  resize_read_roi(c, &r, axes, count);
  if (!resize_prepare(c, x, &r, axes, count, scales, sizes, &mask)) return;
  if (policy != 0 && sizes != NULL) resize_keep_ratio(c, &r, axes, count, policy == 2);
  lw__call_out(c, 0, resize_all(c, &r, x, rank, mask));
}

/* Upsample: scales by attribute (7) or input (9), asymmetric, rounded down. */
void lw__op_upsample(lw_call *c) {
  lw_value_id x = lw__call_in(c, 0);
  uint32_t rank = lw__b_rank(c, x), axes[LW_MAX_RANK], given = 0, mask;
  lw_resize r = {.mode = (lw_resize_mode)lw__call_choice(c, "mode", resize_modes),
                 .coord = COORD_ASYMMETRIC,
                 .round = ROUND_FLOOR};
  const double *scales = NULL;
  const lw_proto_attr *attr = lw__call_attr(c, "scales");
  if (attr != NULL) {
    double *copy = lw__b_alloc(c, attr->floats.count, sizeof *copy);
    given = attr->floats.count;
    for (uint32_t i = 0; i < given && copy != NULL; i++) copy[i] = (double)attr->floats.data[i];
    scales = copy;
  } else if (lw__call_has(c, 1)) {
    scales = lw__call_floats(c, 1, &given);
  }
  if (lw__call_ok(c) && (scales == NULL || given != rank))
    lw__call_invalid(c, "%u scales for %u dimensions", given, rank);
  if (!lw__call_ok(c)) return;
  for (uint32_t d = 0; d < rank; d++) axes[d] = d;
  if (resize_prepare(c, x, &r, axes, rank, scales, NULL, &mask))
    lw__call_out(c, 0, resize_all(c, &r, x, rank, mask));
}

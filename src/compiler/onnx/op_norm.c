/* op_norm.c: normalizations. Statistics are taken in f32 or wider, variances are centred. */
#include <math.h>

#include "compiler/onnx/op.h"

lw_value_id lw__op_layer_norm(lw_call *c, lw_value_id x, uint32_t axes, double epsilon,
                              lw_value_id scale, lw_value_id bias, lw_value_id *out_mean,
                              lw_value_id *out_rstd) {
  lw_value_id y = LW_NONE, mean = LW_NONE, rstd = LW_NONE;
  if (lw__call_ok(c) && x != LW_NONE) {
    (void)lw__call_graph(
        c, lw__graph_layer_norm(c->graph, x, axes, epsilon, scale, bias, &y, &mean, &rstd));
  }
  if (out_mean != NULL) *out_mean = mean;
  if (out_rstd != NULL) *out_rstd = rstd;
  return y;
}

/* Axes |axis| and all behind it. */
static uint32_t norm_trailing(uint32_t rank, uint32_t axis) {
  return lw__all_axes(rank) & ~lw__all_axes(axis);
}

void lw__op_layer_normalization(lw_call *c) {
  lw_value_id x = lw__call_in(c, 0), mean, rstd;
  uint32_t rank = lw__b_rank(c, x);
  double epsilon = lw__call_float(c, "epsilon", 1e-5);
  uint32_t axes = norm_trailing(rank, lw__call_axis_attr(c, "axis", -1, rank));
  lw__call_ignore(c, "stash_type"); /* statistics are f32 or wider here */
  lw_dtype stash = lw__b_dtype(c, x) == LW_DTYPE_F64 ? LW_DTYPE_F64 : LW_DTYPE_F32;
  lw__call_out(
      c, 0,
      lw__op_layer_norm(c, x, axes, epsilon, lw__call_in(c, 1), lw__call_in(c, 2), &mean, &rstd));
  if (lw__call_wants(c, 1)) lw__call_out(c, 1, lw__b_cast(c, mean, stash));
  if (lw__call_wants(c, 2)) lw__call_out(c, 2, lw__b_cast(c, rstd, stash));
}

static lw_value_id norm_rms(lw_call *c, lw_value_id x, uint32_t axes, double epsilon,
                            lw_value_id scale) {
  lw_value_id wide = lw__b_up(c, x);
  lw_value_id square = lw__b_mean(c, lw__b_mul(c, wide, wide), axes, true);
  lw_value_id y = lw__b_mul(c, wide, lw__b_map1(c, LW_FN_RSQRT, lw__b_adds(c, square, epsilon)));
  if (scale != LW_NONE) y = lw__b_mul(c, y, lw__b_cast(c, scale, lw__b_dtype(c, y)));
  return lw__b_cast(c, y, lw__b_dtype(c, x));
}

void lw__op_rms_normalization(lw_call *c) {
  lw_value_id x = lw__call_in(c, 0), scale = lw__call_in(c, 1);
  uint32_t rank = lw__b_rank(c, x);
  double epsilon = lw__call_float(c, "epsilon", 1e-5);
  uint32_t axes = norm_trailing(rank, lw__call_axis_attr(c, "axis", -1, rank));
  lw__call_ignore(c, "stash_type");
  lw_value_id y = norm_rms(c, x, axes, epsilon, scale);
  lw__call_out(c, 0, lw__b_cast(c, y, lw__b_dtype(c, scale)));
}

/* Per-channel vector |v| against x [N, C, ..]. */
static lw_value_id norm_channels(lw_call *c, lw_value_id v, lw_value_id x, lw_dtype dtype) {
  return lw__b_cast(c, lw__b_along(c, v, 1, lw__b_rank(c, x)), dtype);
}

/* x * s + t with s = scale / sqrt(var + eps), t = bias - mean * s: both constant when the
 * statistics are. |v|: scale, bias, mean, variance in the compute type. */
static lw_value_id norm_batch_apply(lw_call *c, lw_value_id x, const lw_value_id v[4],
                                    double epsilon) {
  lw_dtype compute = lw__b_dtype(c, x);
  lw_value_id root = lw__b_map1(c, LW_FN_SQRT, lw__b_adds(c, v[3], epsilon));
  lw_value_id scale = lw__b_div(c, v[0], root);
  lw_value_id shift = lw__b_sub(c, v[1], lw__b_mul(c, v[2], scale));
  lw_value_id y = lw__b_mul(c, x, norm_channels(c, scale, x, compute));
  return lw__b_add(c, y, norm_channels(c, shift, x, compute));
}

/* Mean and (centred, biased) variance of each channel of |x|, and the running ones as outputs. */
static void norm_batch_statistics(lw_call *c, lw_value_id x, lw_value_id v[4], double momentum) {
  uint32_t axes = lw__all_axes(lw__b_rank(c, x)) & ~2u;
  lw_value_id mean = lw__b_mean(c, x, axes, true), centred = lw__b_sub(c, x, mean);
  lw_value_id fresh[2] = {lw__b_mean(c, x, axes, false),
                          lw__b_mean(c, lw__b_mul(c, centred, centred), axes, false)};
  for (uint32_t k = 0; k < 2; k++) {
    lw_value_id kept = lw__b_muls(c, v[2 + k], momentum);
    lw_value_id running = lw__b_add(c, kept, lw__b_muls(c, fresh[k], 1 - momentum));
    if (lw__call_wants(c, 1 + k)) {
      lw__call_out(c, 1 + k, lw__b_cast(c, running, lw__b_dtype(c, lw__call_in(c, 3 + k))));
    }
    v[2 + k] = fresh[k];
  }
}

void lw__op_batch_normalization(lw_call *c) {
  lw_value_id x = lw__call_in(c, 0);
  lw_dtype dtype = lw__b_dtype(c, x);
  double epsilon = lw__call_float(c, "epsilon", 1e-5),
         momentum = lw__call_float(c, "momentum", 0.9);
  bool training = lw__call_int(c, "training_mode", 0) != 0;
  lw__call_ignore(c, "is_test");
  lw__call_ignore(c, "consumed_inputs");
  if (c->opset < 9 && lw__call_int(c, "spatial", 1) == 0) lw__call_unsupported(c, "spatial=0");
  for (uint32_t i = training ? 3 : 1; i < 5; i++) {
    if (lw__call_wants(c, i)) lw__call_unsupported(c, "outputs of training before opset 14");
  }
  if (lw__b_rank(c, x) == 0) lw__call_invalid(c, "its input has no channels");
  if (lw__call_ok(c) && lw__b_rank(c, x) == 1) lw__call_unsupported(c, "an input of one dimension");
  if (!lw__call_ok(c)) return;
  lw_value_id wide = lw__b_up(c, x), v[4];
  for (uint32_t i = 0; i < 4; i++)
    v[i] = lw__b_cast(c, lw__call_in(c, 1 + i), lw__b_dtype(c, wide));
  if (training) norm_batch_statistics(c, wide, v, momentum);
  lw__call_out(c, 0, lw__b_cast(c, norm_batch_apply(c, wide, v, epsilon), dtype));
}

void lw__op_instance_normalization(lw_call *c) {
  lw_value_id x = lw__call_in(c, 0);
  uint32_t rank = lw__b_rank(c, x);
  double epsilon = lw__call_float(c, "epsilon", 1e-5);
  lw_dtype dtype = lw__b_dtype(c, x);
  if (rank < 3) lw__call_invalid(c, "its input has no spatial dimensions");
  if (!lw__call_ok(c)) return;
  lw_value_id scale = norm_channels(c, lw__call_in(c, 1), x, dtype);
  lw_value_id bias = norm_channels(c, lw__call_in(c, 2), x, dtype);
  lw__call_out(c, 0,
               lw__op_layer_norm(c, x, norm_trailing(rank, 2), epsilon, scale, bias, NULL, NULL));
}

/* [G] or [C] -> [1, C, 1 ..]; before opset 21 there is one entry per group. */
static lw_value_id norm_group_vector(lw_call *c, lw_value_id v, int64_t groups, int64_t channels,
                                     lw_value_id x) {
  if (c->opset < 21 && lw__b_dim(c, v, 0) == groups && groups != channels) {
    lw_shape wide = {2, {groups, channels / groups}}, flat = {1, {channels}};
    v = lw__b_reshape(c, lw__b_broadcast(c, lw__b_unsqueeze(c, v, 1), &wide), &flat);
  }
  return norm_channels(c, v, x, lw__b_dtype(c, x));
}

void lw__op_group_normalization(lw_call *c) {
  lw_value_id x = lw__call_in(c, 0);
  lw_shape shape = lw__b_shape(c, x), apart = {0};
  int64_t groups = lw__call_int(c, "num_groups", 0);
  double epsilon = lw__call_float(c, "epsilon", 1e-5);
  lw__call_ignore(c, "stash_type");
  int64_t channels = shape.rank < 2 ? 0 : lw__call_static(c, shape.dim[1]);
  if (groups < 1 || channels % groups != 0)
    lw__call_invalid(c, "%lld groups of %lld channels", (long long)groups, (long long)channels);
  if (!lw__call_ok(c)) return;
  apart.dim[apart.rank++] = shape.dim[0];
  apart.dim[apart.rank++] = groups;
  apart.dim[apart.rank++] = channels / groups;
  for (uint32_t d = 2; d < shape.rank && apart.rank < LW_MAX_RANK; d++)
    apart.dim[apart.rank++] = shape.dim[d];
  lw_dtype dtype = lw__b_dtype(c, x);
  lw_value_id wide = lw__b_up(c, x);
  lw_value_id y = lw__op_layer_norm(c, lw__b_reshape(c, wide, &apart), norm_trailing(apart.rank, 2),
                                    epsilon, LW_NONE, LW_NONE, NULL, NULL);
  lw_dtype compute = lw__b_dtype(c, wide);
  y = lw__b_reshape(c, y, &shape);
  y = lw__b_mul(
      c, y, lw__b_cast(c, norm_group_vector(c, lw__call_in(c, 1), groups, channels, x), compute));
  y = lw__b_add(
      c, y, lw__b_cast(c, norm_group_vector(c, lw__call_in(c, 2), groups, channels, x), compute));
  lw__call_out(c, 0, lw__b_cast(c, y, dtype));
}

/* (x - mean) / (deviation + 1e-9), as the operator's function body says. */
void lw__op_mean_variance_normalization(lw_call *c) {
  lw_value_id x = lw__call_in(c, 0);
  uint32_t rank = lw__b_rank(c, x), count, mask = 0;
  const int64_t *axes = lw__call_ints(c, "axes", &count);
  static const int64_t usual[] = {0, 2, 3};
  if (count == 0) {
    axes = usual;
    count = 3;
  }
  for (uint32_t i = 0; i < count && lw__call_ok(c); i++)
    mask |= 1u << lw__call_axis(c, axes[i], rank);
  lw_value_id wide = lw__b_up(c, x);
  lw_value_id centred = lw__b_sub(c, wide, lw__b_mean(c, wide, mask, true));
  lw_value_id variance = lw__b_mean(c, lw__b_mul(c, centred, centred), mask, true);
  lw_value_id deviation = lw__b_adds(c, lw__b_map1(c, LW_FN_SQRT, variance), 1e-9);
  lw__call_out(c, 0, lw__b_cast(c, lw__b_div(c, centred, deviation), lw__b_dtype(c, x)));
}

void lw__op_lp_normalization(lw_call *c) {
  lw_value_id x = lw__call_in(c, 0);
  uint32_t rank = lw__b_rank(c, x);
  uint32_t axis = lw__call_axis_attr(c, "axis", -1, rank);
  int64_t p = lw__call_int(c, "p", 2);
  if (p != 1 && p != 2) lw__call_invalid(c, "p must be 1 or 2");
  lw_value_id wide = lw__b_up(c, x);
  lw_value_id terms = p == 1 ? lw__b_map1(c, LW_FN_ABS, wide) : lw__b_mul(c, wide, wide);
  lw_value_id norm = lw__b_reduce(c, LW_RED_SUM, terms, 1u << axis, true);
  if (p == 2) norm = lw__b_map1(c, LW_FN_SQRT, norm);
  lw_value_id zero = lw__b_scalar(c, lw__b_dtype(c, wide), 0);
  lw_value_id y = lw__b_select(c, lw__b_equal(c, norm, zero), zero, lw__b_div(c, wide, norm));
  lw__call_out(c, 0, lw__b_cast(c, y, lw__b_dtype(c, x)));
}

/* x / (bias + alpha / size * sum of squares over |size| channels around)^beta */
void lw__op_lrn(lw_call *c) {
  lw_value_id x = lw__call_in(c, 0);
  int64_t size = lw__call_int(c, "size", 0);
  double alpha = lw__call_float(c, "alpha", 1e-4), beta = lw__call_float(c, "beta", 0.75),
         bias = lw__call_float(c, "bias", 1);
  uint32_t rank = lw__b_rank(c, x);
  if (size < 1 || size > INT32_MAX || rank < 2) lw__call_invalid(c, "size %lld", (long long)size);
  if (!lw__call_ok(c)) return;
  int64_t lo[LW_MAX_RANK] = {0}, hi[LW_MAX_RANK] = {0}, one = 1;
  lo[1] = (size - 1) / 2;
  hi[1] = size - 1 - lo[1];
  lw_value_id wide = lw__b_up(c, x), windows = LW_NONE;
  lw_value_id padded = lw__b_pad(c, lw__b_mul(c, wide, wide), lo, hi, (lw_scalar){.f = 0});
  uint8_t axis = 1;
  if (padded != LW_NONE) {
    (void)lw__call_graph(c,
                         lw__graph_window(c->graph, padded, 1, &axis, &size, &one, &one, &windows));
  }
  lw_value_id sum = lw__b_reduce(c, LW_RED_SUM, windows, 1u << rank, false);
  lw_value_id base = lw__b_adds(c, lw__b_muls(c, sum, alpha / (double)size), bias);
  lw_value_id y = lw__b_div(c, wide, lw__b_map2s(c, LW_FN_POW, base, beta));
  lw__call_out(c, 0, lw__b_cast(c, y, lw__b_dtype(c, x)));
}

/* com.microsoft: out = norm(x + skip [+ bias]); arg 1: RMS. */
void lw__op_skip_layer_normalization(lw_call *c) {
  bool rms = c->op->arg != 0;
  lw_value_id x = lw__call_in(c, 0), skip = lw__call_in(c, 1), gamma = lw__call_in(c, 2);
  lw_value_id beta = rms ? LW_NONE : lw__call_in(c, 3), bias = lw__call_in(c, rms ? 3 : 4),
              mean = LW_NONE, rstd = LW_NONE;
  double epsilon = lw__call_float(c, "epsilon", rms ? 1e-5 : 1e-12);
  lw_dtype dtype = lw__b_dtype(c, x);
  lw_value_id sum = lw__b_add(c, lw__b_up(c, x), lw__b_up(c, skip));
  if (bias != LW_NONE) sum = lw__b_add(c, sum, lw__b_up(c, bias));
  uint32_t rank = lw__b_rank(c, x);
  if (!lw__call_ok(c) || rank == 0) return;
  uint32_t axes = 1u << (rank - 1);
  lw_value_id y = rms ? norm_rms(c, sum, axes, epsilon, gamma)
                      : lw__op_layer_norm(c, sum, axes, epsilon, gamma, beta, &mean, &rstd);
  lw__call_out(c, 0, lw__b_cast(c, y, dtype));
  for (uint32_t i = 1; i < 3; i++) {
    if (!lw__call_wants(c, i)) continue;
    if (rms) lw__call_unsupported(c, "the statistics as outputs");
    lw__call_out(c, i, i == 1 ? mean : rstd);
  }
  if (lw__call_wants(c, 3)) lw__call_out(c, 3, lw__b_cast(c, sum, dtype));
}

/* op_math.c: element-wise operators. */
#include <math.h>

#include "compiler/onnx/op.h"
#include "compiler/onnx/tensor.h"

/* ---- one function of the graph --------------------------------------------------------------*/

void lw__op_map1(lw_call *c) {
  lw__call_out(c, 0, lw__b_map1(c, (lw_fn)c->op->arg, lw__call_in(c, 0)));
}

/* Before opset 7 operand y of fewer dims lay at dims |axis| .. of x, at the last ones by default.
 */
static lw_value_id math_align(lw_call *c, lw_value_id x, lw_value_id y) {
  if (c->opset >= 7) return y;
  bool broadcast = lw__call_int(c, "broadcast", 0) != 0;
  lw_shape shape = lw__b_shape(c, y);
  uint32_t rank = lw__b_rank(c, x);
  int64_t axis = lw__call_int(c, "axis", (int64_t)rank - shape.rank);
  lw__call_ignore(c, "consumed_inputs");
  if (!broadcast || !lw__call_ok(c)) return y;
  if (axis < 0) axis += rank;
  if (axis < 0 || axis + shape.rank > rank) {
    lw__call_invalid(c, "axis %lld for operands of %u and %u dimensions", (long long)axis, rank,
                     shape.rank);
    return y;
  }
  while (axis + shape.rank < rank) shape.dim[shape.rank++] = 1;
  return lw__b_reshape(c, y, &shape);
}

void lw__op_map2(lw_call *c) {
  lw_value_id x = lw__call_in(c, 0);
  lw_value_id y = math_align(c, x, lw__call_in(c, 1));
  lw__call_out(c, 0, lw__b_map2(c, (lw_fn)c->op->arg, x, y));
}

void lw__op_equal(lw_call *c) {
  lw_value_id x = lw__call_in(c, 0);
  lw__call_out(c, 0, lw__b_equal(c, x, math_align(c, x, lw__call_in(c, 1))));
}

void lw__op_where(lw_call *c) {
  lw__call_out(c, 0, lw__b_select(c, lw__call_in(c, 0), lw__call_in(c, 1), lw__call_in(c, 2)));
}

/* Sums of more than two narrow floats are rounded once. */
void lw__op_variadic(lw_call *c) {
  lw_fn fn = (lw_fn)c->op->arg;
  lw_value_id first = lw__call_in(c, 0);
  lw_dtype dtype = lw__b_dtype(c, first);
  bool wide = fn == LW_FN_ADD && c->in_count > 2;
  lw_value_id y = wide ? lw__b_up(c, first) : first;
  for (uint32_t i = 1; i < c->in_count; i++) {
    lw_value_id x = lw__call_in(c, i);
    y = lw__b_map2(c, fn, y, wide ? lw__b_up(c, x) : x);
  }
  lw__call_out(c, 0, lw__b_cast(c, y, dtype));
}

void lw__op_mean(lw_call *c) {
  lw_dtype dtype = lw__b_dtype(c, lw__call_in(c, 0));
  lw_value_id y = lw__b_up(c, lw__call_in(c, 0));
  for (uint32_t i = 1; i < c->in_count; i++) y = lw__b_add(c, y, lw__b_up(c, lw__call_in(c, i)));
  if (c->in_count > 1) y = lw__b_map2s(c, LW_FN_DIV, y, c->in_count);
  lw__call_out(c, 0, lw__b_cast(c, y, dtype));
}

void lw__op_mod(lw_call *c) {
  lw_value_id x = lw__call_in(c, 0), y = lw__call_in(c, 1);
  bool fmod = lw__call_int(c, "fmod", 0) != 0;
  if (!fmod && lw__dtype_is_float(lw__b_dtype(c, x))) {
    lw__call_invalid(c, "floating-point operands need fmod=1");
  }
  lw__call_out(c, 0, lw__b_map2(c, fmod ? LW_FN_REM : LW_FN_MOD, x, y));
}

void lw__op_bit_shift(lw_call *c) {
  static const char *const directions[] = {"LEFT", "RIGHT", NULL};
  bool right = lw__call_choice(c, "direction", directions) == 1;
  lw__call_out(c, 0,
               lw__b_map2(c, right ? LW_FN_SHR : LW_FN_SHL, lw__call_in(c, 0), lw__call_in(c, 1)));
}

/* ---- powers ---------------------------------------------------------------------------------*/

/* Small whole exponents are products: exact where the product is, and cheap. LW_NONE: not one of
 * them. */
static lw_value_id math_small_power(lw_call *c, lw_value_id x, double exponent) {
  if (exponent == 1) return x;
  if (exponent == 2) return lw__b_mul(c, x, x);
  if (exponent == 3) return lw__b_mul(c, lw__b_mul(c, x, x), x);
  if (exponent == -1 && lw__dtype_is_float(lw__b_dtype(c, x))) return lw__b_map1(c, LW_FN_RECIP, x);
  return LW_NONE;
}

void lw__op_pow(lw_call *c) {
  lw_value_id x = lw__call_in(c, 0), z = LW_NONE;
  lw_value_id y = math_align(c, x, lw__call_in(c, 1));
  lw_dtype dtype = lw__b_dtype(c, x), other = lw__b_dtype(c, y);
  double exponent;
  lw_shape shape = lw__b_shape(c, x);
  bool float_exponent = lw__dtype_is_float(other) && !lw__dtype_is_float(dtype);
  if (float_exponent) x = lw__b_cast(c, x, LW_DTYPE_F64);
  x = lw__b_up(c, x);
  if (lw__b_rank(c, y) <= shape.rank && lw__call_known_scalar(c, y, &exponent)) {
    z = math_small_power(c, x, exponent);
  }
  if (z == LW_NONE) z = lw__b_map2(c, LW_FN_POW, x, lw__b_cast(c, y, lw__b_dtype(c, x)));
  lw__call_out(c, 0, lw__b_cast(c, z, dtype));
}

/* ---- limits ---------------------------------------------------------------------------------*/

void lw__op_clip(lw_call *c) {
  lw_value_id x = lw__call_in(c, 0), lo = lw__call_in(c, 1), hi = lw__call_in(c, 2);
  if (c->opset < 11) {
    const lw_proto_attr *min = lw__call_attr(c, "min"), *max = lw__call_attr(c, "max");
    if (min != NULL) lo = lw__b_scalar(c, lw__b_dtype(c, x), lw__call_float(c, "min", 0));
    if (max != NULL) hi = lw__b_scalar(c, lw__b_dtype(c, x), lw__call_float(c, "max", 0));
  }
  if (lo != LW_NONE) x = lw__b_map2(c, LW_FN_MAX, x, lo);
  if (hi != LW_NONE) x = lw__b_map2(c, LW_FN_MIN, x, hi);
  lw__call_out(c, 0, x);
}

/* ---- types ----------------------------------------------------------------------------------*/

/* Between integers of one width the cast keeps the bits. */
void lw__op_bit_cast(lw_call *c) {
  lw_value_id x = lw__call_in(c, 0);
  int64_t to = lw__call_int(c, "to", 0);
  lw_dtype from = lw__b_dtype(c, x);
  lw_dtype dtype = to > 0 && to < 100 ? lw__tensor_dtype((int32_t)to) : LW_DTYPE_NONE;
  bool same = from == dtype || (lw__dtype_is_int(from) && lw__dtype_is_int(dtype));
  if (lw__call_ok(c) && lw_dtype_size_bytes(from) != lw_dtype_size_bytes(dtype)) {
    lw__call_invalid(c, "types of different widths");
  }
  if (!same) lw__call_unsupported(c, "the bits of a float");
  lw__call_out(c, 0, lw__b_cast(c, x, dtype));
}

void lw__op_is_inf(lw_call *c) {
  lw_value_id x = lw__call_in(c, 0);
  bool negative = lw__call_int(c, "detect_negative", 1) != 0;
  bool positive = lw__call_int(c, "detect_positive", 1) != 0;
  lw_value_id y = lw__b_map1(c, LW_FN_ISINF, x);
  if (negative != positive) {
    lw_value_id side = lw__b_map2s(c, positive ? LW_FN_GT : LW_FN_LT, x, 0);
    y = lw__b_map2(c, LW_FN_AND, y, side);
  } else if (!negative) {
    y = lw__b_map2(c, LW_FN_XOR, y, y);
  }
  lw__call_out(c, 0, y);
}

/* ---- activations: x in f32 or wider -> y ----------------------------------------------------*/

static lw_value_id math_elu(lw_call *c, lw_value_id x, double alpha, double scale) {
  lw_value_id low = lw__b_muls(c, lw__b_map1(c, LW_FN_EXPM1, x), alpha * scale);
  lw_value_id high = scale == 1 ? x : lw__b_muls(c, x, scale);
  return lw__b_select(c, lw__b_map2s(c, LW_FN_LT, x, 0), low, high);
}

static lw_value_id math_hard_sigmoid(lw_call *c, lw_value_id x, double alpha, double beta) {
  lw_value_id y = lw__b_adds(c, lw__b_muls(c, x, alpha), beta);
  return lw__b_map2s(c, LW_FN_MIN, lw__b_map2s(c, LW_FN_MAX, y, 0), 1);
}

/* log(1 + exp(x)) = max(x, 0) + log(1 + exp(-|x|)), which cannot overflow. */
static lw_value_id math_softplus(lw_call *c, lw_value_id x) {
  lw_value_id e = lw__b_map1(c, LW_FN_EXP, lw__b_map1(c, LW_FN_NEG, lw__b_map1(c, LW_FN_ABS, x)));
  return lw__b_add(c, lw__b_map2s(c, LW_FN_MAX, x, 0), lw__b_map1(c, LW_FN_LOG1P, e));
}

static lw_value_id math_celu(lw_call *c, lw_value_id x, double alpha) {
  lw_value_id low =
      lw__b_muls(c, lw__b_map1(c, LW_FN_EXPM1, lw__b_map2s(c, LW_FN_DIV, x, alpha)), alpha);
  return lw__b_add(c, lw__b_map2s(c, LW_FN_MAX, x, 0), lw__b_map2s(c, LW_FN_MIN, low, 0));
}

static lw_value_id math_shrink(lw_call *c, lw_value_id x, double bias, double lambd) {
  lw_value_id zero = lw__b_scalar(c, lw__b_dtype(c, x), 0);
  lw_value_id high =
      lw__b_select(c, lw__b_map2s(c, LW_FN_GT, x, lambd), lw__b_adds(c, x, -bias), zero);
  return lw__b_select(c, lw__b_map2s(c, LW_FN_LT, x, -lambd), lw__b_adds(c, x, bias), high);
}

lw_value_id lw__op_apply_activation(lw_call *c, lw_activation kind, lw_value_id x, double alpha,
                                    double beta) {
  switch (kind) {
    case LW_ACT_RELU: return lw__b_relu(c, x);
    case LW_ACT_TANH: return lw__b_map1(c, LW_FN_TANH, x);
    case LW_ACT_SIGMOID: return lw__b_map1(c, LW_FN_SIGMOID, x);
    case LW_ACT_AFFINE: return lw__b_adds(c, lw__b_muls(c, x, alpha), beta);
    case LW_ACT_LEAKY_RELU:
      return lw__b_select(c, lw__b_map2s(c, LW_FN_LT, x, 0), lw__b_muls(c, x, alpha), x);
    case LW_ACT_THRESHOLDED_RELU:
      return lw__b_select(c, lw__b_map2s(c, LW_FN_GT, x, alpha), x,
                          lw__b_scalar(c, lw__b_dtype(c, x), 0));
    case LW_ACT_SCALED_TANH:
      return lw__b_muls(c, lw__b_map1(c, LW_FN_TANH, lw__b_muls(c, x, beta)), alpha);
    case LW_ACT_HARD_SIGMOID: return math_hard_sigmoid(c, x, alpha, beta);
    case LW_ACT_HARD_SWISH: return lw__b_mul(c, x, math_hard_sigmoid(c, x, 1.0 / 6, 0.5));
    case LW_ACT_ELU: return math_elu(c, x, alpha, 1);
    case LW_ACT_SELU: return math_elu(c, x, alpha, beta);
    case LW_ACT_CELU: return math_celu(c, x, alpha);
    case LW_ACT_SOFTSIGN: return lw__b_div(c, x, lw__b_adds(c, lw__b_map1(c, LW_FN_ABS, x), 1));
    case LW_ACT_SOFTPLUS: return math_softplus(c, x);
    case LW_ACT_MISH: return lw__b_mul(c, x, lw__b_map1(c, LW_FN_TANH, math_softplus(c, x)));
    case LW_ACT_SWISH: {
      lw_value_id inner = alpha == 1 ? x : lw__b_muls(c, x, alpha);
      return lw__b_mul(c, x, lw__b_map1(c, LW_FN_SIGMOID, inner));
    }
    case LW_ACT_SHRINK: return math_shrink(c, x, alpha, beta);
  }
  return LW_NONE;
}

/* Names and defaults of the two parameters of each activation, as operators have them. */
static const struct {
  const char *alpha, *beta;
  double alpha_default, beta_default;
} math_parameters[] = {
    [LW_ACT_LEAKY_RELU] = {"alpha", NULL, 0.01, 0},
    [LW_ACT_THRESHOLDED_RELU] = {"alpha", NULL, 1, 0},
    [LW_ACT_HARD_SIGMOID] = {"alpha", "beta", 0.2, 0.5},
    [LW_ACT_ELU] = {"alpha", NULL, 1, 0},
    [LW_ACT_SELU] = {"alpha", "gamma", 1.67326319217681884765625, 1.05070102214813232421875},
    [LW_ACT_CELU] = {"alpha", NULL, 1, 0},
    [LW_ACT_SWISH] = {"alpha", NULL, 1, 0},
    [LW_ACT_SHRINK] = {"bias", "lambd", 0, 0.5},
};

void lw__op_activation(lw_call *c) {
  lw_activation kind = (lw_activation)c->op->arg;
  double alpha = 0, beta = 0;
  if ((size_t)kind < LW_ARRAY_COUNT(math_parameters) && math_parameters[kind].alpha != NULL) {
    alpha = lw__call_float(c, math_parameters[kind].alpha, math_parameters[kind].alpha_default);
    beta = math_parameters[kind].beta_default;
    if (math_parameters[kind].beta != NULL)
      beta = lw__call_float(c, math_parameters[kind].beta, beta);
  }
  lw_value_id x = lw__call_in(c, 0);
  lw_value_id y = lw__op_apply_activation(c, kind, lw__b_up(c, x), alpha, beta);
  lw__call_out(c, 0, lw__b_cast(c, y, lw__b_dtype(c, x)));
}

void lw__op_relu(lw_call *c) { lw__call_out(c, 0, lw__b_relu(c, lw__call_in(c, 0))); }

void lw__op_prelu(lw_call *c) {
  lw_value_id x = lw__call_in(c, 0), slope = lw__call_in(c, 1);
  lw_shape shape = lw__b_shape(c, x);
  if (c->opset < 7 && lw__b_rank(c, slope) == 1 && shape.rank > 1) {
    slope = lw__b_along(c, slope, lw__b_dim(c, slope, 0) == 1 ? 0 : 1, shape.rank); /* channels */
  }
  lw_value_id low = lw__b_mul(c, x, lw__b_broadcast(c, slope, &shape));
  lw__call_out(c, 0, lw__b_select(c, lw__b_map2s(c, LW_FN_LT, x, 0), low, x));
}

void lw__op_gelu(lw_call *c) {
  static const char *const forms[] = {"none", "tanh", NULL};
  lw_value_id x = lw__call_in(c, 0), y = LW_NONE;
  bool tanh_form = c->op->arg != 0 || lw__call_choice(c, "approximate", forms) == 1;
  if (lw__call_has(c, 1)) x = lw__b_add(c, x, lw__call_in(c, 1)); /* BiasGelu, FastGelu */
  if (x != LW_NONE && lw__call_ok(c))
    (void)lw__call_graph(c, lw__graph_gelu(c->graph, x, tanh_form, &y));
  lw__call_out(c, 0, y);
}

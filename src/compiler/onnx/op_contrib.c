/* op_contrib.c: fused operators of com.microsoft that are a known operator and something around
 * it. What they do: ONNX Runtime's ContribOperators. */
#include <string.h>

#include "compiler/onnx/op.h"

/* Activations by name, with the defaults of their parameters. */
static const struct {
  const char *name;
  lw_activation kind;
  double alpha, beta;
} contrib_activations[] = {
    {"Relu", LW_ACT_RELU, 0, 0},
    {"Tanh", LW_ACT_TANH, 0, 0},
    {"Sigmoid", LW_ACT_SIGMOID, 0, 0},
    {"LeakyRelu", LW_ACT_LEAKY_RELU, 0.01, 0},
    {"HardSigmoid", LW_ACT_HARD_SIGMOID, 0.2, 0.5},
    {"Elu", LW_ACT_ELU, 1, 0},
    {"Softplus", LW_ACT_SOFTPLUS, 0, 0},
    {"Softsign", LW_ACT_SOFTSIGN, 0, 0},
};

static lw_value_id contrib_activate(lw_call *c, lw_value_id x, const double *given,
                                    uint32_t given_count) {
  lw_str name = lw__call_str(c, "activation", "");
  lw_dtype dtype = lw__b_dtype(c, x);
  if (!lw__call_ok(c) || name.len == 0) return x;
  if (lw__str_is(name, "Clip") && given_count == 2) {
    x = lw__b_map2s(c, LW_FN_MAX, x, given[0]);
    return lw__b_map2s(c, LW_FN_MIN, x, given[1]);
  }
  for (size_t i = 0; i < LW_ARRAY_COUNT(contrib_activations); i++) {
    if (!lw__str_is(name, contrib_activations[i].name)) continue;
    double alpha = given_count > 0 ? given[0] : contrib_activations[i].alpha;
    double beta = given_count > 1 ? given[1] : contrib_activations[i].beta;
    x = lw__op_apply_activation(c, contrib_activations[i].kind, lw__b_up(c, x), alpha, beta);
    return lw__b_cast(c, x, dtype);
  }
  lw__call_unsupported(c, "the activation '%.*s'", (int)lw__min_i64((int64_t)name.len, 60),
                       name.ptr);
  return x;
}

void lw__op_fused_conv(lw_call *c) {
  const lw_proto_attr *attr = lw__call_attr(c, "activation_params");
  double given[2] = {0};
  uint32_t count = attr == NULL ? 0 : attr->floats.count < 2 ? attr->floats.count : 2;
  for (uint32_t i = 0; i < count; i++) given[i] = (double)attr->floats.data[i];
  lw_value_id y = lw__op_convolve(c, lw__call_in(c, 0), lw__call_in(c, 1));
  if (lw__call_has(c, 2)) y = lw__b_add(c, y, lw__b_along(c, c->in[2], 1, lw__b_rank(c, y)));
  if (lw__call_has(c, 3)) y = lw__b_add(c, y, c->in[3]);
  lw__call_out(c, 0, contrib_activate(c, y, given, count));
}

void lw__op_fused_gemm(lw_call *c) {
  bool given = lw__call_attr(c, "activation_alpha") != NULL;
  double params[2] = {lw__call_float(c, "activation_alpha", 0),
                      lw__call_float(c, "activation_beta", 0)};
  lw__call_ignore(c, "activation_gamma");
  c->opset = 13;
  lw__op_gemm(c);
  if (lw__call_ok(c)) lw__call_out(c, 0, contrib_activate(c, c->out[0], params, given ? 2 : 0));
}

/* ---- normalization --------------------------------------------------------------------------*/

/* Groups of channels of [N, H, W, C] or [N, C, ..] normalized, then silu when |activation|. */
static lw_value_id contrib_group_norm(lw_call *c, lw_value_id x) {
  bool last = lw__call_int(c, "channels_last", 1) != 0,
       silu = lw__call_int(c, "activation", 0) != 0;
  int64_t groups = lw__call_int(c, "groups", 0);
  double epsilon = lw__call_float(c, "epsilon", 1e-5);
  lw_shape shape = lw__b_shape(c, x);
  uint32_t axis = last ? shape.rank - 1 : 1;
  int64_t channels = shape.rank < 3 ? 0 : lw__call_static(c, shape.dim[axis]);
  if (groups < 1 || channels < 1 || channels % groups != 0)
    lw__call_invalid(c, "%lld groups of %lld channels", (long long)groups, (long long)channels);
  if (!lw__call_ok(c)) return LW_NONE;
  lw_shape apart = {.rank = shape.rank + 1};
  for (uint32_t d = 0, at = 0; d < shape.rank; d++) {
    if (d == axis) apart.dim[at++] = groups;
    apart.dim[at++] = d == axis ? channels / groups : shape.dim[d];
  }
  uint32_t axes = lw__all_axes(apart.rank) & ~1u & ~(1u << axis);
  lw_value_id wide = lw__b_up(c, x);
  lw_value_id y = lw__op_layer_norm(c, lw__b_reshape(c, wide, &apart), axes, epsilon, LW_NONE,
                                    LW_NONE, NULL, NULL);
  lw_dtype compute = lw__b_dtype(c, wide);
  y = lw__b_reshape(c, y, &shape);
  y = lw__b_mul(c, y, lw__b_cast(c, lw__b_along(c, lw__call_in(c, 1), axis, shape.rank), compute));
  y = lw__b_add(c, y, lw__b_cast(c, lw__b_along(c, lw__call_in(c, 2), axis, shape.rank), compute));
  if (silu) y = lw__op_apply_activation(c, LW_ACT_SWISH, y, 1, 0);
  return lw__b_cast(c, y, lw__b_dtype(c, x));
}

void lw__op_group_norm(lw_call *c) { lw__call_out(c, 0, contrib_group_norm(c, lw__call_in(c, 0))); }

void lw__op_skip_group_norm(lw_call *c) {
  lw_value_id x = lw__call_in(c, 0), skip = lw__call_in(c, 3), bias = lw__call_in(c, 4);
  bool last = lw__call_int(c, "channels_last", 1) != 0;
  uint32_t rank = lw__b_rank(c, x), axis = last ? rank - 1 : 1;
  if (lw__b_rank(c, skip) == 2) { /* [N, C] */
    for (uint32_t d = 1; d < rank; d++)
      if (d != axis) skip = lw__b_unsqueeze(c, skip, d);
  }
  lw_value_id sum = lw__b_add(c, x, skip);
  if (bias != LW_NONE) sum = lw__b_add(c, sum, lw__b_along(c, bias, axis, rank));
  lw__call_out(c, 0, contrib_group_norm(c, sum));
  if (lw__call_wants(c, 1)) lw__call_out(c, 1, sum);
}

/* Rows |ids| [B, S] of |table| [n, H]. */
static lw_value_id contrib_embed(lw_call *c, lw_value_id table, lw_value_id ids) {
  lw_shape shape = lw__b_shape(c, ids);
  if (shape.rank != 2 || lw__b_rank(c, table) != 2)
    lw__call_invalid(c, "ids or a table of a wrong rank");
  if (!lw__call_ok(c)) return LW_NONE;
  shape.dim[shape.rank++] = lw__b_dim(c, table, 1);
  lw_value_id at = lw__b_broadcast(c, lw__b_unsqueeze(c, ids, 2), &shape);
  return lw__b_gather(c, table, &at, 1, (int8_t[]){0, -3}, &shape);
}

void lw__op_embed_layer_normalization(lw_call *c) {
  lw_value_id ids = lw__call_in(c, 0), segments = lw__call_in(c, 1), places = lw__call_in(c, 8);
  lw_value_id table = lw__call_in(c, 3), mask = lw__call_in(c, 7);
  double epsilon = lw__call_float(c, "epsilon", 1e-12);
  lw__call_ignore(c, "mask_index_type");
  lw_shape shape = lw__b_shape(c, ids), line = {1, {shape.rank == 2 ? shape.dim[1] : 0}};
  lw_value_id sum = contrib_embed(c, lw__call_in(c, 2), ids);
  if (places == LW_NONE) places = lw__b_iota(c, LW_DTYPE_I64, &line, 0);
  sum = lw__b_add(c, sum, contrib_embed(c, table, lw__b_broadcast(c, places, &shape)));
  if (segments != LW_NONE && lw__call_has(c, 4))
    sum = lw__b_add(c, sum, contrib_embed(c, c->in[4], segments));
  lw__call_out(
      c, 0,
      lw__op_layer_norm(c, sum, 4, epsilon, lw__call_in(c, 5), lw__call_in(c, 6), NULL, NULL));
  if (lw__call_wants(c, 1)) { /* how many words there are */
    lw_shape batch = {1, {shape.dim[0]}};
    lw_value_id none = lw__b_broadcast(c, lw__b_scalar(c, LW_DTYPE_I32, 0), &batch);
    lw__call_out(c, 1, mask == LW_NONE ? none : lw__b_reduce(c, LW_RED_SUM, mask, 2, false));
  }
  if (lw__call_wants(c, 2)) lw__call_out(c, 2, sum);
}

/* ---- diffusion models -----------------------------------------------------------------------*/

void lw__op_bias_add(lw_call *c) {
  lw_value_id sum = lw__b_add(c, lw__call_in(c, 0), lw__call_in(c, 1));
  lw__call_out(c, 0, lw__b_add(c, sum, lw__call_in(c, 2)));
}

/* The first half times the gelu of the second. */
void lw__op_bias_split_gelu(lw_call *c) {
  lw_value_id x = lw__b_add(c, lw__call_in(c, 0), lw__call_in(c, 1)), gate = LW_NONE;
  uint32_t rank = lw__b_rank(c, x);
  if (rank == 0) lw__call_invalid(c, "a scalar");
  int64_t half = lw__call_ok(c) ? lw__call_static(c, lw__b_dim(c, x, rank - 1)) / 2 : 0;
  lw_value_id right = lw__call_ok(c) ? lw__b_slice(c, x, rank - 1, half, 1, half) : LW_NONE;
  if (right != LW_NONE) (void)lw__call_graph(c, lw__graph_gelu(c->graph, right, false, &gate));
  if (!lw__call_ok(c)) return;
  lw__call_out(c, 0, lw__b_mul(c, lw__b_slice(c, x, rank - 1, 0, 1, half), gate));
}

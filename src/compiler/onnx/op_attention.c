/* op_attention.c: scaled dot product attention and rotary embeddings, spelled out the way exporters
 * spell them, so that fusion sees one form. */
#include <math.h>
#include <string.h>

#include "compiler/onnx/attention.h"
#include "compiler/onnx/tensor.h"
#include "compiler/onnx/tensor.h"

/* ---- heads ----------------------------------------------------------------------------------*/

lw_value_id lw__attention_split_heads(lw_call *c, lw_value_id x, int64_t heads) {
  lw_shape s = lw__b_shape(c, x);
  if (s.rank == 4) return x;
  int64_t width = s.rank == 3 ? lw__call_static(c, s.dim[2]) : 0;
  if (s.rank != 3 || heads < 1 || width % heads != 0) {
    lw__call_invalid(c, "%lld heads of an input with %u dimensions", (long long)heads, s.rank);
    return LW_NONE;
  }
  lw_shape apart = {4, {s.dim[0], s.dim[1], heads, width / heads}};
  return lw__b_swap(c, lw__b_reshape(c, x, &apart), 1, 2);
}

lw_value_id lw__attention_join_heads(lw_call *c, lw_value_id x) {
  return lw__b_merge(c, lw__b_swap(c, x, 1, 2), 2, 4);
}

/* Each of the key heads serves |group| query heads. */
static lw_value_id attention_repeat_heads(lw_call *c, lw_value_id x, int64_t group) {
  if (group == 1) return x;
  lw_value_id apart = lw__b_unsqueeze(c, x, 2);
  lw_shape shape = lw__b_shape(c, apart);
  if (apart == LW_NONE) return LW_NONE;
  shape.dim[2] = group;
  return lw__b_merge(c, lw__b_broadcast(c, apart, &shape), 1, 3);
}

static int64_t attention_group(lw_call *c, lw_value_id q, lw_value_id k) {
  int64_t nq = lw__call_static(c, lw__b_dim(c, q, 1)), nk = lw__call_static(c, lw__b_dim(c, k, 1));
  if (lw__call_ok(c) && nk > 0 && nq % nk == 0) return nq / nk;
  lw__call_invalid(c, "%lld query heads for %lld key heads", (long long)nq, (long long)nk);
  return 1;
}

/* ---- masks ----------------------------------------------------------------------------------*/

lw_value_id lw__attention_keep(lw_call *c, lw_value_id keep, lw_value_id scores) {
  return lw__b_select(c, keep, scores, lw__b_scalar(c, lw__b_dtype(c, scores), -INFINITY));
}

/* A mask shorter than the keys stands for "not these". */
static lw_value_id attention_pad_mask(lw_call *c, lw_value_id mask, lw_extent keys) {
  uint32_t rank = lw__b_rank(c, mask);
  lw_extent own = rank == 0 ? keys : lw__b_dim(c, mask, rank - 1);
  if (own == 1 || lw__call_same_extent(c, own, keys)) return mask;
  int64_t lo[LW_MAX_RANK] = {0}, hi[LW_MAX_RANK] = {0};
  int64_t missing = lw__call_static(c, keys) - lw__call_static(c, own);
  if (missing < 0) lw__call_invalid(c, "its mask is longer than the keys");
  if (!lw__call_ok(c)) return LW_NONE;
  hi[rank - 1] = missing;
  lw_scalar fill = {.f = -INFINITY};
  if (lw__b_dtype(c, mask) == LW_DTYPE_BOOL) fill.i = 0;
  return lw__b_pad(c, mask, lo, hi, fill);
}

lw_value_id lw__attention_causal(lw_call *c, lw_value_id scores, lw_extent past) {
  lw_shape rows = {1, {lw__b_dim(c, scores, 2)}}, columns = {1, {lw__b_dim(c, scores, 3)}};
  lw_value_id i = lw__b_unsqueeze(c, lw__b_iota(c, LW_DTYPE_I64, &rows, 0), 1);
  lw_value_id j = lw__b_iota(c, LW_DTYPE_I64, &columns, 0);
  if (past != 0) {
    lw_content_elem offset = lw__content_extent(past);
    i = lw__b_add(c, i, lw__op_elements(c, &offset, 1, true));
  }
  return lw__attention_keep(c, lw__b_map2(c, LW_FN_LE, j, i), scores);
}

lw_value_id lw__attention_lengths(lw_call *c, lw_value_id scores, lw_value_id lengths) {
  lw_shape columns = {1, {lw__b_dim(c, scores, 3)}};
  lw_value_id j = lw__b_iota(c, LW_DTYPE_I64, &columns, 0);
  lw_value_id n = lw__b_along(c, lw__b_cast(c, lengths, LW_DTYPE_I64), 0, 4);
  return lw__attention_keep(c, lw__b_map2(c, LW_FN_LT, j, n), scores);
}

static lw_value_id attention_mask(lw_call *c, lw_value_id scores, lw_extent past) {
  lw_value_id mask = lw__call_in(c, 3), lengths = lw__call_in(c, 6);
  if (mask != LW_NONE) {
    mask = attention_pad_mask(c, mask, lw__b_dim(c, scores, 3));
    if (lw__b_dtype(c, mask) == LW_DTYPE_BOOL)
      scores = lw__attention_keep(c, mask, scores);
    else
      scores = lw__b_add(c, scores, lw__b_cast(c, mask, lw__b_dtype(c, scores)));
  }
  if (lw__call_int(c, "is_causal", 0) != 0) scores = lw__attention_causal(c, scores, past);
  return lengths == LW_NONE ? scores : lw__attention_lengths(c, scores, lengths);
}

/* ---- scores and values ----------------------------------------------------------------------*/

lw_value_id lw__attention_scores(lw_call *c, lw_value_id q, lw_value_id k, double scale) {
  int64_t group = attention_group(c, q, k), width = lw__call_static(c, lw__b_dim(c, q, 3));
  if (!lw__call_ok(c)) return LW_NONE;
  if (scale == 0) scale = 1 / sqrt((double)width);
  lw_value_id keys = lw__b_swap(c, attention_repeat_heads(c, k, group), 2, 3);
  /* Scaled before the product: narrow floats might not hold the sums else. */
  return lw__b_up(c, lw__b_matmul(c, lw__b_muls(c, q, scale), keys));
}

lw_value_id lw__attention_cap(lw_call *c, lw_value_id scores, double softcap) {
  if (softcap <= 0) return scores;
  lw_value_id t = lw__b_map1(c, LW_FN_TANH, lw__b_map2s(c, LW_FN_DIV, scores, softcap));
  return lw__b_muls(c, t, softcap);
}

lw_value_id lw__attention_values(lw_call *c, lw_value_id scores, lw_value_id v, lw_dtype dtype,
                                 lw_value_id *out_weights) {
  int64_t group = attention_group(c, scores, v);
  lw_value_id weights = lw__b_softmax(c, scores, 8, false);
  if (out_weights != NULL) *out_weights = weights;
  return lw__b_matmul(c, lw__b_cast(c, weights, dtype), attention_repeat_heads(c, v, group));
}

/* ---- attention ------------------------------------------------------------------------------*/

/* Past and new keys (or values), as an output too. */
static lw_value_id attention_present(lw_call *c, lw_value_id x, uint32_t past, uint32_t output) {
  if (lw__call_has(c, past)) {
    x = lw__b_concat(c, (lw_value_id[]){lw__call_in(c, past), x}, 2, 2);
  }
  if (lw__call_wants(c, output)) lw__call_out(c, output, x);
  return x;
}

void lw__op_attention(lw_call *c) {
  lw_value_id in = lw__call_in(c, 0), stages[4];
  int64_t q_heads = lw__call_int(c, "q_num_heads", 0), k_heads = lw__call_int(c, "kv_num_heads", 0);
  int64_t mode = lw__call_int(c, "qk_matmul_output_mode", 0);
  double softcap = lw__call_float(c, "softcap", 0), scale = lw__call_float(c, "scale", 0);
  lw__call_ignore(c, "softmax_precision"); /* f32 or wider here */
  lw_dtype dtype = lw__b_dtype(c, in);
  lw_value_id q = lw__attention_split_heads(c, in, q_heads);
  lw_value_id k = lw__attention_split_heads(c, lw__call_in(c, 1), k_heads);
  lw_value_id v = lw__attention_split_heads(c, lw__call_in(c, 2), k_heads);
  lw_extent past = lw__call_has(c, 4) ? lw__b_dim(c, c->in[4], 2) : 0;
  k = attention_present(c, k, 4, 1);
  v = attention_present(c, v, 5, 2);
  if (mode < 0 || mode > 3) lw__call_invalid(c, "qk_matmul_output_mode=%lld", (long long)mode);
  stages[0] = lw__attention_scores(c, q, k, scale);
  stages[1] = lw__attention_cap(c, stages[0], softcap);
  stages[2] = attention_mask(c, stages[1], past);
  lw_value_id y = lw__attention_values(c, stages[2], v, dtype, &stages[3]);
  if (!lw__call_ok(c)) return;
  lw__call_out(c, 0, lw__b_rank(c, in) == 3 ? lw__attention_join_heads(c, y) : y);
  if (lw__call_wants(c, 3)) lw__call_out(c, 3, lw__b_cast(c, stages[mode], dtype));
}

/* Graph |name| of the node, when it has one, on |x| in the type that it wants. */
static lw_value_id attention_modify(lw_call *c, const char *name, lw_value_id x) {
  const lw_proto_attr *attr = lw__call_attr(c, name);
  lw_value_id out = LW_NONE;
  if (attr == NULL || attr->g == NULL || !lw__call_ok(c)) return x;
  lw_dtype dtype = attr->g->inputs.count == 1 ? lw__tensor_dtype(attr->g->inputs.data[0].elem_type)
                                              : LW_DTYPE_NONE;
  lw_value_id in = dtype == LW_DTYPE_NONE ? x : lw__b_cast(c, x, dtype);
  lw__call_inline(c, attr->g, &in, 1, &out, 1);
  return lw__call_ok(c) ? lw__b_cast(c, out, lw__b_dtype(c, x)) : LW_NONE;
}

/* ai.onnx.preview: what is done to the scores and to their softmax are graphs of the node. */
void lw__op_flex_attention(lw_call *c) {
  lw_value_id q = lw__call_in(c, 0), v = lw__call_in(c, 2);
  double scale = lw__call_float(c, "scale", 0);
  lw_dtype dtype = lw__b_dtype(c, q);
  lw__call_ignore(c, "softmax_precision"); /* f32 or wider here */
  if (lw__b_rank(c, q) != 4) lw__call_invalid(c, "its operands need 4 dimensions");
  lw_value_id scores = lw__attention_scores(c, q, lw__call_in(c, 1), scale);
  scores = attention_modify(c, "score_mod", scores);
  lw_value_id weights = attention_modify(c, "prob_mod", lw__b_softmax(c, scores, 8, false));
  int64_t group = attention_group(c, weights, v);
  lw_value_id values = attention_repeat_heads(c, v, group);
  lw__call_out(c, 0, lw__b_matmul(c, lw__b_cast(c, weights, dtype), values));
}

/* ---- rotary embedding -----------------------------------------------------------------------*/

/* Rows of a table [P, D/2] at |positions| [B, S], or the table [B, S, D/2] itself; as [B, 1, S,
 * D/2]. */
static lw_value_id rotary_table(lw_call *c, lw_value_id table, lw_value_id positions) {
  if (positions != LW_NONE) {
    lw_shape shape = lw__b_shape(c, positions), full = shape, rows = lw__b_shape(c, table);
    if (shape.rank != 2 || rows.rank != 2) lw__call_invalid(c, "its tables must be matrices");
    if (!lw__call_ok(c)) return LW_NONE;
    full.dim[full.rank++] = rows.dim[1];
    positions = lw__b_broadcast(c, lw__b_unsqueeze(c, positions, 2), &full);
    table = lw__b_gather(c, table, &positions, 1, (int8_t[]){0, -3}, &full);
  }
  if (lw__b_rank(c, table) != 3) lw__call_invalid(c, "its tables must have 3 dimensions");
  return lw__b_unsqueeze(c, table, 1);
}

lw_value_id lw__attention_rotate(lw_call *c, lw_value_id x, lw_value_id cosine, lw_value_id sine,
                                 lw_value_id positions, int64_t dim, bool interleaved) {
  lw_value_id parts[2];
  int64_t width = lw__call_static(c, lw__b_dim(c, x, 3));
  if (dim == 0) dim = width;
  if (dim < 0 || dim > width || dim % 2 != 0)
    lw__call_invalid(c, "rotary_embedding_dim=%lld", (long long)dim);
  if (!lw__call_ok(c)) return LW_NONE;
  lw_value_id wide = lw__b_up(c, x), turned = lw__b_slice(c, wide, 3, 0, 1, dim);
  lw_dtype compute = lw__b_dtype(c, wide);
  cosine = lw__b_cast(c, rotary_table(c, cosine, positions), compute);
  sine = lw__b_cast(c, rotary_table(c, sine, positions), compute);
  int64_t half = dim / 2, step = interleaved ? 2 : 1;
  lw_value_id a = lw__b_slice(c, turned, 3, 0, step, half);
  lw_value_id b = lw__b_slice(c, turned, 3, interleaved ? 1 : half, step, half);
  parts[0] = lw__b_sub(c, lw__b_mul(c, a, cosine), lw__b_mul(c, b, sine));
  parts[1] = lw__b_add(c, lw__b_mul(c, a, sine), lw__b_mul(c, b, cosine));
  if (interleaved) {
    for (int k = 0; k < 2; k++) parts[k] = lw__b_unsqueeze(c, parts[k], 4);
    turned = lw__b_merge(c, lw__b_concat(c, parts, 2, 4), 3, 5);
  } else {
    turned = lw__b_concat(c, parts, 2, 3);
  }
  if (dim < width) {
    lw_value_id rest = lw__b_slice(c, wide, 3, dim, 1, width - dim);
    turned = lw__b_concat(c, (lw_value_id[]){turned, rest}, 2, 3);
  }
  return lw__b_cast(c, turned, lw__b_dtype(c, x));
}

void lw__op_rotary_embedding(lw_call *c) {
  lw_value_id in = lw__call_in(c, 0), positions = lw__call_in(c, 3);
  int64_t heads = lw__call_int(c, "num_heads", 0), dim = lw__call_int(c, "rotary_embedding_dim", 0);
  bool interleaved = lw__call_int(c, "interleaved", 0) != 0;
  lw_value_id x = lw__attention_split_heads(c, in, heads);
  lw_value_id y =
      lw__attention_rotate(c, x, lw__call_in(c, 1), lw__call_in(c, 2), positions, dim, interleaved);
  lw__call_out(c, 0, lw__b_rank(c, in) == 3 ? lw__attention_join_heads(c, y) : y);
}

/* ---- state space ----------------------------------------------------------------------------*/

/* A depthwise convolution that sees the past alone, and the last values for the next call. */
void lw__op_causal_conv_with_state(lw_call *c) {
  static const char *const activations[] = {"none", "silu", "swish", NULL};
  lw_value_id x = lw__call_in(c, 0), w = lw__call_in(c, 1), bias = lw__call_in(c, 2);
  lw_value_id past = lw__call_in(c, 3), y = LW_NONE;
  bool silu = lw__call_choice(c, "activation", activations) != 0;
  lw_shape shape = lw__b_shape(c, x), kernel = lw__b_shape(c, w);
  if (shape.rank != 3 || kernel.rank != 3) lw__call_invalid(c, "its operands need 3 dimensions");
  if (!lw__call_ok(c)) return;
  int64_t channels = lw__call_static(c, shape.dim[1]), taps = lw__call_static(c, kernel.dim[2]);
  if (taps < 1 || channels < 1) lw__call_invalid(c, "an empty kernel");
  if (!lw__call_ok(c)) return;
  if (past != LW_NONE) {
    x = lw__b_concat(c, (lw_value_id[]){past, x}, 2, 2);
  } else {
    x = lw__b_pad(c, x, (int64_t[]){0, 0, taps - 1}, (int64_t[]){0, 0, 0}, (lw_scalar){.i = 0});
  }
  lw_conv_attr attr = {.spatial = 1, .stride = {1}, .dilation = {1}, .group = channels};
  if (lw__call_ok(c)) (void)lw__call_graph(c, lw__graph_conv(c->graph, x, w, &attr, &y));
  if (bias != LW_NONE) y = lw__b_add(c, y, lw__b_along(c, bias, 1, 3));
  if (silu) {
    lw_value_id wide = lw__b_up(c, y);
    wide = lw__op_apply_activation(c, LW_ACT_SWISH, wide, 1, 0);
    y = lw__b_cast(c, wide, lw__b_dtype(c, y));
  }
  lw__call_out(c, 0, y);
  if (!lw__call_wants(c, 1)) return;
  int64_t length = lw__call_static(c, lw__b_dim(c, x, 2));
  lw__call_out(c, 1, lw__b_slice(c, x, 2, length - (taps - 1), 1, taps - 1));
}

typedef enum lw_linear_rule {
  RULE_GATED_DELTA,
  RULE_LINEAR,
  RULE_GATED,
  RULE_DELTA
} lw_linear_rule;

/* [B, T, H*D] at time |t| as [B, H, D]; when there is one entry per head (or one for all), [B, H,
 * 1]. */
static lw_value_id linear_step(lw_call *c, lw_value_id x, int64_t t, int64_t heads) {
  lw_shape s = lw__b_shape(c, x);
  int64_t width = s.rank == 3 ? lw__call_static(c, s.dim[2]) : 0;
  if (width != 1 && (width < 1 || width % heads != 0)) lw__call_invalid(c, "heads do not fit");
  if (!lw__call_ok(c)) return LW_NONE;
  lw_shape apart = {3, {s.dim[0], width == 1 ? 1 : heads, width == 1 ? 1 : width / heads}};
  return lw__b_up(c, lw__b_reshape(c, lw__b_slice(c, x, 1, t, 1, 1), &apart));
}

/* The state after one step: old * exp(decay) + key (outer) (value, less what the state says, times
 * beta). */
static lw_value_id linear_update(lw_call *c, lw_linear_rule rule, lw_value_id state, lw_value_id k,
                                 lw_value_id v, lw_value_id decay, lw_value_id beta) {
  if (rule == RULE_GATED || rule == RULE_GATED_DELTA) {
    state = lw__b_mul(c, state, lw__b_unsqueeze(c, lw__b_map1(c, LW_FN_EXP, decay), 3));
  }
  if (rule == RULE_DELTA || rule == RULE_GATED_DELTA) {
    lw_value_id row = lw__b_unsqueeze(c, k, 2); /* [B, H, 1, dk] */
    v = lw__b_mul(c, lw__b_sub(c, v, lw__b_squeeze(c, lw__b_matmul(c, row, state), 2)), beta);
  }
  return lw__b_add(c, state, lw__b_mul(c, lw__b_unsqueeze(c, k, 3), lw__b_unsqueeze(c, v, 2)));
}

void lw__op_linear_attention(lw_call *c) {
  static const char *const rules[] = {"gated_delta", "linear", "gated", "delta", NULL};
  lw_value_id q = lw__call_in(c, 0), k = lw__call_in(c, 1), v = lw__call_in(c, 2),
              state = lw__call_in(c, 3);
  lw_linear_rule rule = (lw_linear_rule)lw__call_choice(c, "update_rule", rules);
  int64_t q_heads = lw__call_int(c, "q_num_heads", 0), heads = lw__call_int(c, "kv_num_heads", 0);
  double scale = lw__call_float(c, "scale", 0);
  lw__call_ignore(c, "chunk_size");
  bool gated = rule == RULE_GATED || rule == RULE_GATED_DELTA,
       delta = rule == RULE_DELTA || rule == RULE_GATED_DELTA;
  if (heads < 1 || q_heads < heads || q_heads % heads != 0)
    lw__call_invalid(c, "%lld query heads for %lld", (long long)q_heads, (long long)heads);
  if ((gated && !lw__call_has(c, 4)) || (delta && !lw__call_has(c, 5)))
    lw__call_invalid(c, "its rule needs another input");
  if (lw__b_rank(c, q) != 3 || lw__b_rank(c, k) != 3 || lw__b_rank(c, v) != 3)
    lw__call_invalid(c, "its inputs need 3 dimensions");
  if (!lw__call_ok(c)) return;
  int64_t steps = lw__call_static(c, lw__b_dim(c, q, 1)),
          width = lw__call_static(c, lw__b_dim(c, q, 2)) / q_heads;
  int64_t value_width = lw__call_static(c, lw__b_dim(c, v, 2)) / heads;
  if (steps > 4096) lw__call_unsupported(c, "%lld steps", (long long)steps);
  if (scale == 0) scale = 1 / sqrt((double)lw__max_i64(width, 1));
  lw_value_id *parts = lw__b_alloc(c, steps, sizeof *parts);
  if (parts == NULL) return;
  lw_dtype dtype = lw__b_dtype(c, q), state_type = state == LW_NONE ? dtype : lw__b_dtype(c, state);
  lw_shape zeros = {4, {lw__b_dim(c, q, 0), heads, width, value_width}},
           flat = {3, {zeros.dim[0], 1, q_heads * value_width}};
  lw_dtype compute = dtype == LW_DTYPE_F64 ? LW_DTYPE_F64 : LW_DTYPE_F32;
  state = state == LW_NONE ? lw__b_broadcast(c, lw__b_scalar(c, compute, 0), &zeros)
                           : lw__b_up(c, state);
  for (int64_t t = 0; t < steps && lw__call_ok(c); t++) {
    lw_value_id decay = gated ? linear_step(c, lw__call_in(c, 4), t, heads) : LW_NONE;
    lw_value_id beta = delta ? linear_step(c, lw__call_in(c, 5), t, heads) : LW_NONE;
    state = linear_update(c, rule, state, linear_step(c, k, t, heads), linear_step(c, v, t, heads),
                          decay, beta);
    lw_value_id query = lw__b_unsqueeze(c, lw__b_muls(c, linear_step(c, q, t, q_heads), scale), 2);
    lw_value_id y = lw__b_matmul(c, query, attention_repeat_heads(c, state, q_heads / heads));
    parts[t] = lw__b_reshape(c, y, &flat);
  }
  if (steps > 0)
    lw__call_out(c, 0, lw__b_cast(c, lw__b_concat(c, parts, (uint32_t)steps, 1), dtype));
  else
    lw__call_unsupported(c, "no steps");
  if (lw__call_wants(c, 1)) lw__call_out(c, 1, lw__b_cast(c, state, state_type));
}

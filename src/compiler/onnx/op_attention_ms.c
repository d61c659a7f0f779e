/* op_attention_ms.c: the attention operators of com.microsoft, spelled out with the parts of
 * attention.h. What they do: ONNX Runtime's ContribOperators. */
#include <math.h>

#include "compiler/onnx/attention.h"
#include "compiler/onnx/import_internal.h"
#include "compiler/onnx/op.h"

/* What a call asks of the scores. */
typedef struct lw_ms_attention {
  lw_value_id q, k, v;    /* [B, heads, S or T, D] */
  lw_value_id mask, bias; /* integer mask by its shape; added to the scores */
  lw_extent past;         /* keys before the first query's own */
  bool causal;
  double scale, filter; /* |filter| is added where the mask says 0 */
  lw_dtype dtype;
} lw_ms_attention;

/* ---- masks ----------------------------------------------------------------------------------*/

/* 0 or 1 per key: [B, T] or [B, S, T] as [B, 1, 1 or S, T]. */
static lw_value_id ms_mask_raw(lw_call *c, const lw_ms_attention *a, lw_value_id scores) {
  uint32_t rank = lw__b_rank(c, a->mask);
  lw_value_id mask = lw__b_unsqueeze(c, a->mask, 1);
  if (rank == 2) mask = lw__b_unsqueeze(c, mask, 1);
  lw_value_id masked = lw__b_map2s(c, LW_FN_EQ, mask, 0);
  lw_dtype dtype = lw__b_dtype(c, scores);
  lw_value_id penalty =
      lw__b_select(c, masked, lw__b_scalar(c, dtype, a->filter), lw__b_scalar(c, dtype, 0));
  return lw__b_add(c, scores, penalty);
}

/* [2 * B]: behind the last key of each sample, then its first key. */
static lw_value_id ms_mask_span(lw_call *c, const lw_ms_attention *a, lw_value_id scores) {
  int64_t batch = lw__call_static(c, lw__b_dim(c, scores, 0));
  lw_shape columns = {1, {lw__b_dim(c, scores, 3)}};
  lw_value_id j = lw__b_iota(c, LW_DTYPE_I32, &columns, 0);
  lw_value_id end = lw__b_along(c, lw__b_slice(c, a->mask, 0, 0, 1, batch), 0, 4);
  lw_value_id first = lw__b_along(c, lw__b_slice(c, a->mask, 0, batch, 1, batch), 0, 4);
  lw_value_id inside =
      lw__b_map2(c, LW_FN_AND, lw__b_map2(c, LW_FN_LT, j, end), lw__b_map2(c, LW_FN_GE, j, first));
  lw_dtype dtype = lw__b_dtype(c, scores);
  lw_value_id penalty =
      lw__b_select(c, inside, lw__b_scalar(c, dtype, 0), lw__b_scalar(c, dtype, a->filter));
  return lw__b_add(c, scores, penalty);
}

static lw_value_id ms_mask(lw_call *c, const lw_ms_attention *a, lw_value_id scores) {
  if (a->mask == LW_NONE || !lw__call_ok(c)) return scores;
  uint32_t rank = lw__b_rank(c, a->mask);
  lw_extent batch = lw__b_dim(c, scores, 0), own = rank == 0 ? 0 : lw__b_dim(c, a->mask, 0);
  if (rank == 2 || rank == 3) return ms_mask_raw(c, a, scores);
  if (rank == 1 && lw__call_same_extent(c, own, batch))
    return lw__attention_lengths(c, scores, a->mask);
  if (rank == 1 && lw__call_static(c, own) == 2 * lw__call_static(c, batch))
    return ms_mask_span(c, a, scores);
  lw__call_unsupported(c, "a mask of this shape (%u dimensions)", rank);
  return scores;
}

/* [B, heads, S, D] of the values; |out_weights| may be NULL. */
static lw_value_id ms_attend(lw_call *c, const lw_ms_attention *a, lw_value_id *out_weights) {
  lw_value_id scores = lw__attention_scores(c, a->q, a->k, a->scale);
  if (a->bias != LW_NONE)
    scores = lw__b_add(c, scores, lw__b_cast(c, a->bias, lw__b_dtype(c, scores)));
  scores = ms_mask(c, a, scores);
  if (a->causal) scores = lw__attention_causal(c, scores, a->past);
  return lw__attention_values(c, scores, a->v, a->dtype, out_weights);
}

/* ---- Attention, QAttention ------------------------------------------------------------------*/

static int64_t ms_heads(lw_call *c, const char *name) {
  int64_t heads = lw__call_int(c, name, 0);
  if (heads < 1) lw__call_invalid(c, "%s=%lld", name, (long long)heads);
  return heads;
}

/* The shared second half: |projected| [B, S, q + k + v] to outputs 0 and 1. */
static void ms_self_attention(lw_call *c, lw_value_id projected, lw_ms_attention *a,
                              lw_value_id past, int64_t heads) {
  uint32_t count;
  int64_t width = lw__call_static(c, lw__b_dim(c, projected, 2)), sizes[3], at = 0;
  const int64_t *given = lw__call_ints(c, "qkv_hidden_sizes", &count);
  if (count != 0 && count != 3) lw__call_invalid(c, "qkv_hidden_sizes has %u entries", count);
  if (!lw__call_ok(c)) return;
  lw_value_id parts[3];
  for (int k = 0; k < 3; k++) {
    sizes[k] = count == 3 ? given[k] : width / 3;
    if (sizes[k] < 0 || sizes[k] > width - at) lw__call_invalid(c, "the weights do not fit");
    parts[k] = lw__b_slice(c, projected, 2, at, 1, sizes[k]);
    parts[k] = lw__attention_split_heads(c, parts[k], heads);
    at += sizes[k];
  }
  if (past != LW_NONE) {
    a->past = lw__b_dim(c, past, 3);
    for (int64_t k = 0; k < 2; k++) {
      lw_value_id old = lw__b_squeeze(c, lw__b_slice(c, past, 0, k, 1, 1), 0);
      parts[1 + k] = lw__b_concat(c, (lw_value_id[]){old, parts[1 + k]}, 2, 2);
    }
  }
  if (lw__call_wants(c, 1)) {
    lw_value_id both[2] = {lw__b_unsqueeze(c, parts[1], 0), lw__b_unsqueeze(c, parts[2], 0)};
    lw__call_out(c, 1, lw__b_concat(c, both, 2, 0));
  }
  a->q = parts[0];
  a->k = parts[1];
  a->v = parts[2];
  lw__call_out(c, 0, lw__attention_join_heads(c, ms_attend(c, a, NULL)));
}

static void ms_common(lw_call *c, lw_ms_attention *a) {
  a->scale = lw__call_float(c, "scale", 0);
  a->filter = lw__call_float(c, "mask_filter_value", -10000);
  a->causal = lw__call_int(c, "unidirectional", 0) != 0;
  if (lw__call_int(c, "do_rotary", 0) != 0) lw__call_unsupported(c, "do_rotary");
  if (lw__call_int(c, "past_present_share_buffer", 0) != 0)
    lw__call_unsupported(c, "past_present_share_buffer");
  lw__call_ignore(c, "rotary_embedding_dim");
}

void lw__op_ms_attention(lw_call *c) {
  lw_value_id x = lw__call_in(c, 0), bias = lw__call_in(c, 2);
  int64_t heads = ms_heads(c, "num_heads");
  lw_ms_attention a = {.mask = lw__call_in(c, 3), .bias = lw__call_in(c, 5)};
  ms_common(c, &a);
  a.dtype = lw__b_dtype(c, x);
  lw_value_id projected = lw__b_matmul(c, x, lw__call_in(c, 1));
  if (bias != LW_NONE) projected = lw__b_add(c, projected, bias);
  ms_self_attention(c, projected, &a, lw__call_in(c, 4), heads);
}

/* |x| less its zero point, as i32. */
static lw_value_id ms_centre(lw_call *c, lw_value_id x, lw_value_id zero) {
  x = lw__b_cast(c, x, LW_DTYPE_I32);
  return zero == LW_NONE ? x : lw__b_sub(c, x, lw__b_cast(c, zero, LW_DTYPE_I32));
}

void lw__op_q_attention(lw_call *c) {
  int64_t heads = ms_heads(c, "num_heads");
  lw_ms_attention a = {.mask = lw__call_in(c, 5), .bias = LW_NONE};
  ms_common(c, &a);
  lw_value_id bias = lw__call_in(c, 2), scale = lw__b_mul(c, lw__call_in(c, 3), lw__call_in(c, 4));
  a.dtype = lw__b_dtype(c, bias);
  lw_value_id x = ms_centre(c, lw__call_in(c, 0), lw__call_in(c, 6));
  lw_value_id w = ms_centre(c, lw__call_in(c, 1), lw__call_in(c, 7));
  lw_value_id projected = lw__b_cast(c, lw__b_matmul(c, x, w), lw__b_dtype(c, scale));
  projected = lw__b_cast(c, lw__b_mul(c, projected, scale), a.dtype);
  ms_self_attention(c, lw__b_add(c, projected, bias), &a, lw__call_in(c, 8), heads);
}

/* ---- MultiHeadAttention ---------------------------------------------------------------------*/

/* Part |k| of packed [B, S, N, parts, D], as [B, N, S, D]. */
static lw_value_id ms_unpack(lw_call *c, lw_value_id packed, int64_t k) {
  return lw__b_swap(c, lw__b_squeeze(c, lw__b_slice(c, packed, 3, k, 1, 1), 3), 1, 2);
}

/* Elements |*at| .. of the bias for |x| [B, N, S, D], added. */
static lw_value_id ms_add_bias(lw_call *c, lw_value_id x, lw_value_id bias, int64_t *at) {
  int64_t heads = lw__call_static(c, lw__b_dim(c, x, 1)),
          width = lw__call_static(c, lw__b_dim(c, x, 3));
  if (bias == LW_NONE || !lw__call_ok(c)) return x;
  lw_shape shape = {4, {1, heads, 1, width}};
  lw_value_id own = lw__b_slice(c, bias, 0, *at, 1, heads * width);
  *at += heads * width;
  return lw__b_add(c, x, lw__b_reshape(c, own, &shape));
}

static lw_value_id ms_present(lw_call *c, lw_value_id x, uint32_t past, uint32_t output) {
  if (lw__call_has(c, past)) x = lw__b_concat(c, (lw_value_id[]){c->in[past], x}, 2, 2);
  if (lw__call_wants(c, output)) lw__call_out(c, output, x);
  return x;
}

void lw__op_multi_head_attention(lw_call *c) {
  lw_value_id query = lw__call_in(c, 0), key = lw__call_in(c, 1), value = lw__call_in(c, 2);
  lw_value_id bias = lw__call_in(c, 3), weights;
  int64_t heads = ms_heads(c, "num_heads"), at = 0;
  lw_ms_attention a = {.mask = lw__call_in(c, 4), .bias = lw__call_in(c, 5)};
  ms_common(c, &a);
  if (lw__call_has(c, 8) || lw__call_has(c, 9)) lw__call_unsupported(c, "a shared cache");
  if (!lw__call_ok(c)) return;
  a.dtype = lw__b_dtype(c, query);
  bool packed = lw__b_rank(c, query) == 5, cached = lw__b_rank(c, key) == 4;
  bool packed_kv = key != LW_NONE && lw__b_rank(c, key) == 5;
  if (!packed && (key == LW_NONE || (!packed_kv && value == LW_NONE)))
    lw__call_invalid(c, "its keys or values are missing");
  if (!lw__call_ok(c)) return;
  a.q = packed ? ms_unpack(c, query, 0) : lw__attention_split_heads(c, query, heads);
  a.k = packed      ? ms_unpack(c, query, 1)
        : packed_kv ? ms_unpack(c, key, 0)
                    : lw__attention_split_heads(c, key, heads);
  a.v = packed      ? ms_unpack(c, query, 2)
        : packed_kv ? ms_unpack(c, key, 1)
                    : lw__attention_split_heads(c, value, heads);
  a.q = ms_add_bias(c, a.q, bias, &at);
  if (!cached) { /* keys of a cache have theirs already */
    a.k = ms_add_bias(c, a.k, bias, &at);
    a.v = ms_add_bias(c, a.v, bias, &at);
  }
  if (lw__call_has(c, 6)) a.past = lw__b_dim(c, c->in[6], 2);
  a.k = ms_present(c, a.k, 6, 1);
  a.v = ms_present(c, a.v, 7, 2);
  lw__call_out(c, 0, lw__attention_join_heads(c, ms_attend(c, &a, &weights)));
  if (lw__call_wants(c, 3)) lw__call_out(c, 3, lw__b_cast(c, weights, a.dtype));
}

/* ---- RotaryEmbedding ------------------------------------------------------------------------*/

/* Positions [B, S]: given, or |first| [1] + 0 .. S-1. */
static lw_value_id ms_positions(lw_call *c, lw_value_id given, lw_value_id x) {
  lw_shape all = {2, {lw__b_dim(c, x, 0), lw__b_dim(c, x, 2)}}, line = {1, {all.dim[1]}};
  given = lw__b_cast(c, given, LW_DTYPE_I64);
  if (lw__b_rank(c, given) == 2) return given;
  return lw__b_broadcast(c, lw__b_add(c, lw__b_iota(c, LW_DTYPE_I64, &line, 0), given), &all);
}

void lw__op_ms_rotary_embedding(lw_call *c) {
  lw_value_id in = lw__call_in(c, 0), cosine = lw__call_in(c, 2);
  int64_t heads = lw__call_int(c, "num_heads", 0), dim = lw__call_int(c, "rotary_embedding_dim", 0);
  bool interleaved = lw__call_int(c, "interleaved", 0) != 0;
  if (lw__call_int(c, "is_packed_batching", 0) != 0) lw__call_unsupported(c, "is_packed_batching");
  if (lw__call_float(c, "scale", 1) != 1) lw__call_unsupported(c, "scale");
  if (!lw__call_ok(c)) return;
  if (heads == 0 && lw__b_rank(c, in) == 3) {
    int64_t head = 2 * lw__call_static(c, lw__b_dim(c, cosine, 1));
    heads = head > 0 ? lw__call_static(c, lw__b_dim(c, in, 2)) / head : 0;
  }
  lw_value_id x = lw__attention_split_heads(c, in, heads);
  lw_value_id positions = ms_positions(c, lw__call_in(c, 1), x);
  lw_value_id y =
      lw__attention_rotate(c, x, cosine, lw__call_in(c, 3), positions, dim, interleaved);
  lw__call_out(c, 0, lw__b_rank(c, in) == 3 ? lw__attention_join_heads(c, y) : y);
}

/* ---- GroupQueryAttention --------------------------------------------------------------------*/

/* State of one call: for sample b the cache holds |total|[b] keys afterwards, |before|[b] of them
 * from earlier calls. */
typedef struct lw_ms_group {
  lw_value_id q, k, v;
  lw_value_id total, before; /* [B, 1, 1, 1] of i64 */
  lw_extent keys;            /* of the cache */
  int64_t window;            /* -1: none */
  bool causal;
} lw_ms_group;

static lw_value_id ms_line(lw_call *c, lw_extent n, uint32_t axis) {
  lw_shape line = {1, {n}};
  return lw__b_along(c, lw__b_iota(c, LW_DTYPE_I64, &line, 0), axis, 4);
}

/* Queries, keys and values by head: three inputs, or one that holds them side by side. */
static void ms_group_operands(lw_call *c, lw_ms_group *g, int64_t q_heads, int64_t k_heads) {
  lw_value_id in[3] = {lw__call_in(c, 0), lw__call_in(c, 1), lw__call_in(c, 2)};
  if (in[1] == LW_NONE && lw__call_ok(c)) {
    int64_t width = lw__call_static(c, lw__b_dim(c, in[0], 2)), heads = q_heads + 2 * k_heads;
    int64_t head = width / heads, at = 0;
    if (width % heads != 0) lw__call_invalid(c, "%lld heads do not fit", (long long)heads);
    lw_value_id packed = in[0];
    for (int k = 0; k < 3; k++) {
      int64_t own = (k == 0 ? q_heads : k_heads) * head;
      in[k] = lw__b_slice(c, packed, 2, at, 1, own);
      at += own;
    }
  }
  g->q = lw__attention_split_heads(c, in[0], q_heads);
  g->k = lw__attention_split_heads(c, in[1], k_heads);
  g->v = lw__attention_split_heads(c, in[2], k_heads);
}

static lw_value_id ms_head_norm(lw_call *c, lw_value_id x, uint32_t weight, const char *own) {
  if (!lw__call_has(c, weight)) return x;
  double epsilon = lw__call_float(c, own, lw__call_float(c, "qk_norm_epsilon", 1e-6));
  lw_value_id wide = lw__b_up(c, x), scale = lw__b_cast(c, c->in[weight], lw__b_dtype(c, wide));
  lw_value_id square = lw__b_mean(c, lw__b_mul(c, wide, wide), 8, true);
  lw_value_id root = lw__b_map1(c, LW_FN_RSQRT, lw__b_adds(c, square, epsilon));
  return lw__b_cast(c, lw__b_mul(c, lw__b_mul(c, wide, root), scale), lw__b_dtype(c, x));
}

static void ms_group_rotate(lw_call *c, lw_ms_group *g) {
  bool interleaved = lw__call_int(c, "rotary_interleaved", 0) != 0;
  if (lw__call_int(c, "do_rotary", 0) == 0) return;
  lw_value_id cosine = lw__call_in(c, 7), sine = lw__call_in(c, 8), positions = lw__call_in(c, 9);
  if (cosine == LW_NONE || sine == LW_NONE) lw__call_invalid(c, "do_rotary without its tables");
  if (!lw__call_ok(c)) return;
  lw_shape all = {2, {lw__b_dim(c, g->q, 0), lw__b_dim(c, g->q, 2)}};
  if (positions == LW_NONE) {
    positions = lw__b_add(c, g->before, ms_line(c, all.dim[1], 2));
    positions = lw__b_reshape(c, positions, &all);
  }
  positions = lw__b_cast(c, positions, LW_DTYPE_I64);
  int64_t dim = 2 * lw__call_static(c, lw__b_dim(c, cosine, 1));
  g->q = lw__attention_rotate(c, g->q, cosine, sine, positions, dim, interleaved);
  g->k = lw__attention_rotate(c, g->k, cosine, sine, positions, dim, interleaved);
}

/* The cache afterwards, [B, heads, keys, D]: |fresh| behind the first |before| of |past|. */
static lw_value_id ms_group_cache(lw_call *c, const lw_ms_group *g, lw_value_id past,
                                  lw_value_id fresh) {
  lw_shape shape = lw__b_shape(c, fresh);
  if (past == LW_NONE && lw__call_same_extent(c, g->keys, shape.dim[2])) return fresh;
  int64_t steps = lw__call_static(c, shape.dim[2]), keys = lw__call_static(c, g->keys);
  int64_t old = past == LW_NONE ? 0 : lw__call_static(c, lw__b_dim(c, past, 2));
  if (keys < old) lw__call_invalid(c, "its cache has more keys than there are");
  if (!lw__call_ok(c)) return LW_NONE;
  shape.dim[2] = keys;
  lw_value_id place = lw__b_sub(c, ms_line(c, keys, 2), g->before);
  lw_value_id inside = lw__b_map2(c, LW_FN_AND, lw__b_map2s(c, LW_FN_GE, place, 0),
                                  lw__b_map2s(c, LW_FN_LT, place, (double)steps));
  lw_value_id at =
      lw__b_map2s(c, LW_FN_MIN, lw__b_map2s(c, LW_FN_MAX, place, 0), (double)(steps - 1));
  at = lw__b_broadcast(c, at, &shape);
  lw_value_id moved = lw__b_gather(c, fresh, &at, 1, (int8_t[]){-1, -2, 0, -4}, &shape);
  int64_t lo[4] = {0}, hi[4] = {0, 0, keys - old, 0};
  lw_value_id zero = lw__b_scalar(c, lw__b_dtype(c, fresh), 0);
  if (old == 0) return lw__b_select(c, inside, moved, lw__b_broadcast(c, zero, &shape));
  lw_value_id kept = lw__b_pad(c, past, lo, hi, (lw_scalar){.i = 0});
  kept = lw__b_select(c, lw__b_map2s(c, LW_FN_LT, place, 0), kept, zero);
  return lw__b_select(c, inside, moved, kept);
}

/* Query i stands at place before + i, and sees the keys up to there, |window| of them at most. */
static lw_value_id ms_group_mask(lw_call *c, const lw_ms_group *g, lw_value_id scores) {
  lw_value_id j = ms_line(c, lw__b_dim(c, scores, 3), 3);
  lw_value_id i = lw__b_add(c, g->before, ms_line(c, lw__b_dim(c, scores, 2), 2));
  lw_value_id keep =
      g->causal ? lw__b_map2(c, LW_FN_LE, j, i) : lw__b_map2(c, LW_FN_LT, j, g->total);
  if (g->window > 0) {
    lw_value_id first = lw__b_adds(c, i, (double)-g->window);
    keep = lw__b_map2(c, LW_FN_AND, keep, lw__b_map2(c, LW_FN_GT, j, first));
  }
  return lw__attention_keep(c, keep, scores);
}

/* softmax(scores) v with one more score per head, |sink|, that has no value. */
static lw_value_id ms_group_sink(lw_call *c, lw_value_id scores, lw_value_id sink, lw_value_id v,
                                 lw_dtype dtype) {
  lw_shape shape = lw__b_shape(c, scores);
  int64_t lo[4] = {0}, hi[4] = {0, 0, 1, 0};
  shape.dim[3] = 1;
  sink = lw__b_cast(c, lw__b_along(c, sink, 1, 4), lw__b_dtype(c, scores));
  scores = lw__b_concat(c, (lw_value_id[]){scores, lw__b_broadcast(c, sink, &shape)}, 2, 3);
  return lw__attention_values(c, scores, lw__b_pad(c, v, lo, hi, (lw_scalar){.i = 0}), dtype, NULL);
}

static void ms_group_refuse(lw_call *c) {
  static const char *const none[] = {"NONE", NULL};
  if (lw__call_has(c, 12) || lw__call_has(c, 13) || lw__call_int(c, "kv_cache_bit_width", 0) != 0)
    lw__call_unsupported(c, "a quantized cache");
  if (lw__call_has(c, 16)) lw__call_unsupported(c, "query_seqlens");
  if (lw__call_int(c, "sliding_window_cache", 0) != 0)
    lw__call_unsupported(c, "sliding_window_cache");
  if (lw__call_int(c, "qk_output", 0) != 0 || lw__call_wants(c, 3))
    lw__call_unsupported(c, "qk_output");
  (void)lw__call_choice(c, "k_quant_type", none);
  (void)lw__call_choice(c, "v_quant_type", none);
}

/* How many keys there are: input 6 says it for the longest sample. */
static void ms_group_lengths(lw_call *c, lw_ms_group *g) {
  lw_value_id past = lw__call_in(c, 3);
  uint32_t count;
  const lw_content_elem *total = lw__call_elems(c, 6, &count);
  if (total == NULL || count != 1) {
    lw__call_invalid(c, "total_sequence_length must be one number");
    return;
  }
  g->keys = total->kind == LW_CONTENT_EXTENT ? total->extent : total->value.i;
  if (lw__extent_is_number(g->keys) && total->kind == LW_CONTENT_NUMBER && total->value.i < 0)
    lw__call_invalid(c, "total_sequence_length is negative");
  if (past != LW_NONE) g->keys = lw__call_extent(c, LW_EXTENT_MAX, g->keys, lw__b_dim(c, past, 2));
  lw_value_id lengths = lw__b_cast(c, lw__call_in(c, 5), LW_DTYPE_I64);
  lw_shape flat = {1, {lw__b_dim(c, g->q, 0)}};
  g->total = lw__b_along(c, lw__b_adds(c, lw__b_reshape(c, lengths, &flat), 1), 0, 4);
  int64_t steps = lw__call_static(c, lw__b_dim(c, g->q, 2));
  g->before = lw__b_map2s(c, LW_FN_MAX, lw__b_adds(c, g->total, (double)-steps), 0);
}

void lw__op_group_query_attention(lw_call *c) {
  lw_ms_group g = {.window = lw__call_int(c, "local_window_size", -1),
                   .causal = lw__call_int(c, "causal", 1) != 0};
  int64_t q_heads = ms_heads(c, "num_heads"), k_heads = ms_heads(c, "kv_num_heads");
  double scale = lw__call_float(c, "scale", 0), softcap = lw__call_float(c, "softcap", 0);
  bool smooth = lw__call_int(c, "smooth_softmax", 0) > 0;
  lw_value_id bias = lw__call_in(c, 10), sink = lw__call_in(c, 11);
  ms_group_refuse(c);
  if (!lw__call_ok(c)) return;
  ms_group_operands(c, &g, q_heads, k_heads);
  lw_dtype dtype = lw__b_dtype(c, g.q);
  ms_group_lengths(c, &g);
  if (!lw__call_ok(c)) return;
  g.q = ms_head_norm(c, g.q, 14, "q_norm_epsilon");
  g.k = ms_head_norm(c, g.k, 15, "k_norm_epsilon");
  ms_group_rotate(c, &g);
  g.k = ms_group_cache(c, &g, lw__call_in(c, 3), g.k);
  g.v = ms_group_cache(c, &g, lw__call_in(c, 4), g.v);
  if (lw__call_wants(c, 1)) lw__call_out(c, 1, g.k);
  if (lw__call_wants(c, 2)) lw__call_out(c, 2, g.v);
  lw_value_id scores = lw__attention_cap(c, lw__attention_scores(c, g.q, g.k, scale), softcap);
  if (bias != LW_NONE) scores = lw__b_add(c, scores, lw__b_cast(c, bias, lw__b_dtype(c, scores)));
  scores = ms_group_mask(c, &g, scores);
  if (smooth && sink == LW_NONE) {
    lw_shape heads = {1, {q_heads}};
    sink = lw__b_broadcast(c, lw__b_scalar(c, dtype, 0), &heads);
  }
  lw_value_id y = sink != LW_NONE ? ms_group_sink(c, scores, sink, g.v, dtype)
                                  : lw__attention_values(c, scores, g.v, dtype, NULL);
  lw__call_out(c, 0, lw__attention_join_heads(c, y));
}

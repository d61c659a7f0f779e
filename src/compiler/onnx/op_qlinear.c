/* op_qlinear.c: operators on quantized tensors and blockwise quantized weights, of com.microsoft:
 * dequantize, compute in f32, quantize. What they do: ONNX Runtime's ContribOperators. */
#include "compiler/onnx/op.h"
#include "compiler/onnx/tensor.h"

/* ---- there and back -------------------------------------------------------------------------*/

/* (x - zero) * scale */
static lw_value_id ql_real(lw_call *c, lw_value_id x, lw_value_id scale, lw_value_id zero) {
  lw_value_id y = lw__b_cast(c, x, LW_DTYPE_I32);
  if (zero != LW_NONE) y = lw__b_sub(c, y, lw__b_cast(c, zero, LW_DTYPE_I32));
  return lw__b_mul(c, lw__b_cast(c, y, LW_DTYPE_F32), lw__b_cast(c, scale, LW_DTYPE_F32));
}

/* round(y / scale) + zero in |to|, saturated. */
static lw_value_id ql_store(lw_call *c, lw_value_id y, lw_value_id scale, lw_value_id zero,
                            lw_dtype to) {
  y = lw__b_map1(c, LW_FN_ROUND, lw__b_div(c, y, lw__b_cast(c, scale, LW_DTYPE_F32)));
  if (zero != LW_NONE) y = lw__b_add(c, y, lw__b_cast(c, zero, LW_DTYPE_F32));
  return lw__b_cast(c, y, to); /* a cast to an integer type saturates */
}

/* A one-element scale as a scalar, so that it never adds a dimension. */
static lw_value_id ql_scalar(lw_call *c, uint32_t i) {
  lw_value_id v = lw__call_in(c, i);
  lw_shape shape = lw__b_shape(c, v);
  return v != LW_NONE && lw__shape_numel(&shape) == 1 ? lw__b_reshape(c, v, &(lw_shape){0}) : v;
}

/* Inputs |i|, i+1, i+2: a tensor, its scale and its zero point. */
static lw_value_id ql_in(lw_call *c, uint32_t i) {
  return ql_real(c, lw__call_in(c, i), ql_scalar(c, i + 1), ql_scalar(c, i + 2));
}

/* ---- element by element ---------------------------------------------------------------------*/

void lw__op_qlinear_binary(lw_call *c) { /* QLinearAdd, QLinearMul: arg is the function */
  lw_value_id y = lw__b_map2(c, (lw_fn)c->op->arg, ql_in(c, 0), ql_in(c, 3));
  lw_dtype to = lw__b_dtype(c, lw__call_in(c, 0));
  lw__call_out(c, 0, ql_store(c, y, ql_scalar(c, 6), ql_scalar(c, 7), to));
}

void lw__op_qlinear_activation(lw_call *c) { /* QLinearSigmoid, QLinearLeakyRelu */
  lw_activation kind = (lw_activation)c->op->arg;
  double alpha = kind == LW_ACT_LEAKY_RELU ? lw__call_float(c, "alpha", 0.01) : 0;
  lw_value_id y = lw__op_apply_activation(c, kind, ql_in(c, 0), alpha, 0);
  lw_dtype to = lw__b_dtype(c, lw__call_in(c, 0));
  lw__call_out(c, 0, ql_store(c, y, ql_scalar(c, 3), ql_scalar(c, 4), to));
}

void lw__op_qlinear_where(lw_call *c) {
  lw_value_id y = lw__b_select(c, lw__call_in(c, 0), ql_in(c, 1), ql_in(c, 4));
  lw_dtype to = lw__b_dtype(c, lw__call_in(c, 1));
  lw__call_out(c, 0, ql_store(c, y, ql_scalar(c, 7), ql_scalar(c, 8), to));
}

void lw__op_qlinear_concat(lw_call *c) {
  uint32_t count = c->in_count < 2 ? 0 : (c->in_count - 2) / 3;
  lw_value_id *parts = lw__b_alloc(c, count, sizeof *parts);
  if (count == 0) lw__call_invalid(c, "it has nothing to join");
  if (parts == NULL || !lw__call_ok(c)) return;
  for (uint32_t k = 0; k < count; k++) parts[k] = ql_in(c, 2 + 3 * k);
  uint32_t axis = lw__call_axis_attr(c, "axis", 0, lw__b_rank(c, parts[0]));
  lw_value_id y = lw__b_concat(c, parts, count, axis);
  lw_dtype to = lw__b_dtype(c, lw__call_in(c, 2));
  lw__call_out(c, 0, ql_store(c, y, ql_scalar(c, 0), ql_scalar(c, 1), to));
}

/* ---- operators of ai.onnx in between --------------------------------------------------------*/

/* |fn|, an operator of ai.onnx at |opset|, on |x| instead of the node's inputs. */
static lw_value_id ql_apply(lw_call *c, lw_operator_fn fn, int64_t opset, lw_value_id x) {
  const lw_value_id *in = c->in;
  uint32_t in_count = c->in_count;
  int64_t own = c->opset;
  if (!lw__call_ok(c)) return LW_NONE;
  c->in = &x;
  c->in_count = 1;
  c->opset = opset;
  fn(c);
  c->in = in;
  c->in_count = in_count;
  c->opset = own;
  return lw__call_ok(c) ? c->out[0] : LW_NONE;
}

static lw_value_id ql_channels(lw_call *c, lw_value_id x, bool first) {
  uint8_t perm[LW_MAX_RANK];
  uint32_t rank = lw__b_rank(c, x);
  if (rank < 3) return x;
  for (uint32_t d = 0; d < rank; d++) perm[d] = (uint8_t)d;
  for (uint32_t d = 1; d < rank; d++)
    perm[d] = (uint8_t)(first ? (d == 1 ? rank - 1 : d - 1) : (d == rank - 1 ? 1 : d + 1));
  return lw__b_permute(c, x, perm);
}

/* Inputs: x, its scale and zero point, the result's scale and zero point. */
static void ql_through(lw_call *c, lw_operator_fn fn, int64_t opset, bool last) {
  lw_value_id x = ql_in(c, 0);
  lw_value_id y = ql_apply(c, fn, opset, last ? ql_channels(c, x, true) : x);
  if (last) y = ql_channels(c, y, false);
  lw_dtype to = lw__b_dtype(c, lw__call_in(c, 0));
  lw__call_out(c, 0, ql_store(c, y, ql_scalar(c, 3), ql_scalar(c, 4), to));
}

void lw__op_qlinear_average_pool(lw_call *c) {
  ql_through(c, lw__op_average_pool, 19, lw__call_int(c, "channels_last", 0) != 0);
}

static void ql_global_average(lw_call *c) {
  lw_value_id x = lw__call_in(c, 0);
  uint32_t rank = lw__b_rank(c, x);
  if (rank < 3) lw__call_invalid(c, "its input has no spatial dimensions");
  lw__call_out(c, 0, lw__b_mean(c, x, lw__all_axes(rank) & ~3u, true));
}

void lw__op_qlinear_global_average_pool(lw_call *c) {
  ql_through(c, ql_global_average, 1, lw__call_int(c, "channels_last", 0) != 0);
}

static void ql_softmax(lw_call *c) {
  lw_value_id x = lw__call_in(c, 0);
  uint32_t rank = lw__b_rank(c, x), axis = lw__call_axis_attr(c, "axis", -1, rank);
  bool old = lw__call_int(c, "opset", 13) < 13; /* then all dims from the axis on */
  uint32_t axes = old ? lw__all_axes(rank) & ~lw__all_axes(axis) : 1u << axis;
  lw__call_out(c, 0, lw__b_softmax(c, x, axes, false));
}

void lw__op_qlinear_softmax(lw_call *c) { ql_through(c, ql_softmax, 1, false); }

static void ql_reduce_mean(lw_call *c) {
  lw_value_id x = lw__call_in(c, 0);
  uint32_t rank = lw__b_rank(c, x), count, axes = 0;
  const int64_t *given = lw__call_ints(c, "axes", &count);
  for (uint32_t i = 0; i < count && lw__call_ok(c); i++)
    axes |= 1u << lw__call_axis(c, given[i], rank);
  bool keep = lw__call_int(c, "keepdims", 1) != 0;
  lw__call_out(c, 0, lw__b_mean(c, x, count == 0 ? lw__all_axes(rank) : axes, keep));
}

void lw__op_qlinear_reduce_mean(lw_call *c) { ql_through(c, ql_reduce_mean, 1, false); }

/* ---- products -------------------------------------------------------------------------------*/

static lw_value_id ql_centre(lw_call *c, lw_value_id x, lw_value_id zero) {
  x = lw__b_cast(c, x, LW_DTYPE_I32);
  return zero == LW_NONE ? x : lw__b_sub(c, x, lw__b_cast(c, zero, LW_DTYPE_I32));
}

/* (A - a_zero)(B - b_zero) * scale + bias */
static void ql_matmul_to_float(lw_call *c, lw_value_id a, lw_value_id b, lw_value_id scale,
                               lw_value_id bias) {
  lw_value_id y = lw__b_mul(c, lw__b_cast(c, lw__b_matmul(c, a, b), LW_DTYPE_F32),
                            lw__b_cast(c, scale, LW_DTYPE_F32));
  if (bias != LW_NONE) y = lw__b_add(c, y, lw__b_cast(c, bias, LW_DTYPE_F32));
  lw_dtype to = lw__b_dtype(c, scale);
  lw__call_out(c, 0, lw__b_cast(c, y, to));
}

void lw__op_matmul_integer_to_float(lw_call *c) {
  lw_value_id a = ql_centre(c, lw__call_in(c, 0), ql_scalar(c, 4));
  lw_value_id b = ql_centre(c, lw__call_in(c, 1), ql_scalar(c, 5));
  ql_matmul_to_float(c, a, b, lw__b_mul(c, ql_scalar(c, 2), ql_scalar(c, 3)), lw__call_in(c, 6));
}

void lw__op_dynamic_quantize_matmul(lw_call *c) {
  lw_value_id x = lw__call_in(c, 0), made[3] = {LW_NONE, LW_NONE, LW_NONE}, *out = c->out;
  uint32_t out_count = c->out_count;
  c->out = made;
  c->out_count = 3;
  (void)ql_apply(c, lw__op_dynamic_quantize_linear, 11, x);
  c->out = out;
  c->out_count = out_count;
  lw_value_id b = ql_centre(c, lw__call_in(c, 1), ql_scalar(c, 3));
  ql_matmul_to_float(c, ql_centre(c, made[0], made[2]), b, lw__b_mul(c, made[1], ql_scalar(c, 2)),
                     lw__call_in(c, 4));
}

void lw__op_q_gemm(lw_call *c) {
  lw_value_id a = ql_centre(c, lw__call_in(c, 0), ql_scalar(c, 2)), bias = lw__call_in(c, 6);
  lw_value_id b = lw__call_in(c, 3), b_zero = ql_scalar(c, 5), b_scale = ql_scalar(c, 4);
  double alpha = lw__call_float(c, "alpha", 1);
  bool tb = lw__call_int(c, "transB", 0) != 0;
  if (lw__call_int(c, "transA", 0) != 0) a = lw__b_swap(c, a, 0, 1);
  if (tb) b = lw__b_swap(c, b, 0, 1); /* scales and zero points belong to its columns */
  lw_value_id y = lw__b_matmul(c, a, ql_centre(c, b, b_zero));
  if (bias != LW_NONE) y = lw__b_add(c, y, lw__b_cast(c, bias, LW_DTYPE_I32));
  lw_value_id scale = lw__b_mul(c, ql_scalar(c, 1), b_scale);
  y = lw__b_mul(c, lw__b_cast(c, y, LW_DTYPE_F32), scale);
  if (alpha != 1) y = lw__b_muls(c, y, alpha);
  if (lw__call_has(c, 7))
    y = ql_store(c, y, ql_scalar(c, 7), ql_scalar(c, 8), lw__b_dtype(c, lw__call_in(c, 0)));
  lw__call_out(c, 0, y);
}

/* ---- weights in blocks ----------------------------------------------------------------------*/

/* Codes of |bits| bits, the first one lowest in its byte, along the last axis: each as an u8. */
static lw_value_id ql_unpack(lw_call *c, lw_value_id codes, int64_t bits) {
  uint32_t rank = lw__b_rank(c, codes);
  if (bits == 8 || !lw__call_ok(c)) return codes;
  lw_value_id parts[4];
  uint32_t count = (uint32_t)(8 / bits);
  for (uint32_t k = 0; k < count; k++) {
    lw_value_id part = k == 0 ? codes : lw__b_map2s(c, LW_FN_SHR, codes, (double)(k * bits));
    part = lw__b_map2s(c, LW_FN_BITAND, part, (double)((1 << bits) - 1));
    parts[k] = lw__b_unsqueeze(c, part, rank);
  }
  return lw__b_merge(c, lw__b_concat(c, parts, count, rank), rank - 1, rank + 1);
}

static bool ql_bits(lw_call *c, int64_t bits) {
  if (bits != 2 && bits != 4 && bits != 8)
    lw__call_unsupported(c, "weights of %lld bits", (long long)bits);
  return lw__call_ok(c);
}

/* Zero points [N, blocks] in f32: packed bytes along the blocks, or floats. */
static lw_value_id ql_block_zeros(lw_call *c, lw_value_id zeros, int64_t n, int64_t blocks,
                                  int64_t bits) {
  if (lw__dtype_is_float(lw__b_dtype(c, zeros))) {
    lw_shape shape = {2, {n, blocks}};
    return lw__b_cast(c, lw__b_reshape(c, zeros, &shape), LW_DTYPE_F32);
  }
  lw_shape packed = {2, {n, lw__ceil_div(blocks * bits, 8)}};
  zeros = ql_unpack(c, lw__b_reshape(c, zeros, &packed), bits);
  return lw__b_cast(c, lw__b_slice(c, zeros, 1, 0, 1, blocks), LW_DTYPE_F32);
}

/* [N, blocks] -> [N, K]: each entry for its block's elements, or by |groups| [K]. */
static lw_value_id ql_spread(lw_call *c, lw_value_id v, int64_t n, int64_t k, int64_t blocks,
                             int64_t block, const int64_t *groups) {
  if (groups != NULL) return lw__b_take(c, v, 1, groups, k);
  lw_shape wide = {3, {n, blocks, block}}, flat = {2, {n, blocks * block}};
  v = lw__b_reshape(c, lw__b_broadcast(c, lw__b_unsqueeze(c, v, 2), &wide), &flat);
  return lw__b_slice(c, v, 1, 0, 1, k);
}

/* The weights [N, K] in f32. */
static lw_value_id ql_block_weights(lw_call *c, int64_t n, int64_t k, int64_t bits, int64_t block) {
  int64_t blocks = lw__ceil_div(k, block);
  uint32_t group_count = 0;
  const int64_t *groups = lw__call_has(c, 4) ? lw__call_numbers(c, 4, &group_count) : NULL;
  if (groups != NULL && group_count < k) lw__call_invalid(c, "g_idx is too short");
  for (int64_t i = 0; groups != NULL && i < k && lw__call_ok(c); i++)
    if (groups[i] < 0 || groups[i] >= blocks) lw__call_invalid(c, "g_idx names no block");
  if (!lw__call_ok(c)) return LW_NONE;
  lw_shape packed = {2, {n, blocks * (block * bits / 8)}}, grid = {2, {n, blocks}};
  lw_value_id w = ql_unpack(c, lw__b_reshape(c, lw__call_in(c, 1), &packed), bits);
  w = lw__b_cast(c, lw__b_slice(c, w, 1, 0, 1, k), LW_DTYPE_F32);
  lw_value_id scales = lw__b_cast(c, lw__b_reshape(c, lw__call_in(c, 2), &grid), LW_DTYPE_F32);
  if (lw__call_has(c, 3)) {
    lw_value_id zeros = ql_block_zeros(c, c->in[3], n, blocks, bits);
    w = lw__b_sub(c, w, ql_spread(c, zeros, n, k, blocks, block, groups));
  } else {
    w = lw__b_adds(c, w, -(double)(1 << (bits - 1)));
  }
  return lw__b_mul(c, w, ql_spread(c, scales, n, k, blocks, block, groups));
}

void lw__op_matmul_nbits(lw_call *c) {
  lw_value_id a = lw__call_in(c, 0), bias = lw__call_in(c, 5);
  int64_t n = lw__call_int(c, "N", 0), k = lw__call_int(c, "K", 0);
  int64_t bits = lw__call_int(c, "bits", 4), block = lw__call_int(c, "block_size", 0);
  lw__call_ignore(c, "accuracy_level"); /* of the least that is allowed */
  if (lw__call_int(c, "weight_prepacked", 0) != 0) lw__call_unsupported(c, "weight_prepacked");
  bool sane = n > 0 && k > 0 && n < INT32_MAX && k < INT32_MAX && block >= 16 &&
              block <= INT32_MAX && (block & (block - 1)) == 0;
  if (!sane) lw__call_invalid(c, "N, K and block_size do not fit");
  if (!ql_bits(c, bits)) return;
  lw_dtype dtype = lw__b_dtype(c, a);
  lw_value_id w = lw__b_cast(c, ql_block_weights(c, n, k, bits, block), dtype);
  lw_value_id y = lw__b_matmul(c, a, lw__b_swap(c, w, 0, 1));
  lw__call_out(c, 0, bias == LW_NONE ? y : lw__b_add(c, y, bias));
}

/* Rows of a table in blocks along its last axis: gathered first, then dequantized. */
void lw__op_gather_block_quantized(lw_call *c) {
  lw_value_id data = lw__call_in(c, 0);
  uint32_t rank = lw__b_rank(c, data);
  uint32_t axis = lw__call_axis_attr(c, "gather_axis", 0, rank);
  uint32_t along = lw__call_axis_attr(c, "quantize_axis", 1, rank);
  int64_t block = lw__call_int(c, "block_size", 128), bits = lw__call_int(c, "bits", 4);
  bool bytes =
      lw__call_ok(c) && lw__b_dtype(c, data) == LW_DTYPE_U8 && lw__call_carried(c, data) == 0;
  if (rank != 2 || axis != 0 || along != 1)
    lw__call_unsupported(c, "other than rows of a matrix in blocks along them");
  if (block < 16) lw__call_invalid(c, "block_size=%lld", (long long)block);
  if (!ql_bits(c, bits)) return;
  lw_value_id rows = lw__call_in(c, 1), parts[3] = {data, lw__call_in(c, 2), lw__call_in(c, 3)};
  lw_shape places = lw__b_shape(c, rows);
  c->plain = true;
  for (int i = 0; i < 3; i++) { /* [places.., own width] */
    if (parts[i] == LW_NONE) continue;
    lw_shape shape = places;
    shape.dim[shape.rank++] = lw__b_dim(c, parts[i], 1);
    lw_value_id at = lw__b_broadcast(c, lw__b_unsqueeze(c, rows, places.rank), &shape);
    int8_t select[2] = {0, (int8_t)(-1 - (int)places.rank)};
    parts[i] = lw__b_gather(c, parts[i], &at, 1, select, &shape);
    if (bytes && i != 1) parts[i] = ql_unpack(c, parts[i], bits);
  }
  lw_dtype dtype = lw__b_dtype(c, parts[1]);
  int64_t width = lw__call_static(c, lw__b_dim(c, parts[0], places.rank));
  int64_t *index = lw__b_alloc(c, width, sizeof *index);
  if (index == NULL) return;
  for (int64_t i = 0; i < width; i++) index[i] = i / block;
  lw_value_id y = lw__b_cast(c, parts[0], LW_DTYPE_F32);
  lw_value_id scale =
      lw__b_take(c, lw__b_cast(c, parts[1], LW_DTYPE_F32), places.rank, index, width);
  if (parts[2] != LW_NONE) {
    lw_value_id zero = lw__b_cast(c, parts[2], LW_DTYPE_F32);
    y = lw__b_sub(c, y, lw__b_take(c, zero, places.rank, index, width));
  } else if (bytes) {
    y = lw__b_adds(c, y, -(double)(1 << (bits - 1)));
  }
  lw__call_out(c, 0, lw__b_cast(c, lw__b_mul(c, y, scale), dtype));
}

/* op_quant.c: quantization. Integers stay integers where they are multiplied; scales are f32. A
 * cast to an integer type saturates, which is what quantization asks for. */
#include "compiler/onnx/op.h"
#include "compiler/onnx/tensor.h"

/* ---- scales and zero points -----------------------------------------------------------------*/

/* A scale or zero point against x: a scalar, a vector along |axis|, or (|block| > 0) one entry for
 * each |block| elements of |axis|. */
static lw_value_id quant_spread(lw_call *c, lw_value_id v, lw_value_id x, int64_t axis_given,
                                int64_t block) {
  uint32_t rank = lw__b_rank(c, x), own = lw__b_rank(c, v);
  lw_shape scalar = {0}, shape = lw__b_shape(c, v);
  if (v == LW_NONE || lw__shape_numel(&shape) == 1) return lw__b_reshape(c, v, &scalar);
  uint32_t axis = lw__call_axis(c, axis_given, rank);
  if (block <= 0) return lw__b_along(c, v, axis, rank);
  if (own != rank) lw__call_invalid(c, "scales of %u dimensions for blocks of %u", own, rank);
  int64_t n = lw__call_static(c, lw__b_dim(c, x, axis));
  int64_t *index = lw__b_alloc(c, n, sizeof *index);
  if (index == NULL) return LW_NONE;
  if (lw__call_static(c, lw__b_dim(c, v, axis)) != lw__ceil_div(n, block)) {
    lw__call_invalid(c, "the number of blocks does not fit");
  }
  for (int64_t i = 0; i < n; i++) index[i] = i / block;
  return lw__b_take(c, v, axis, index, n);
}

/* |x| in f32 (f64 stays). */
static lw_value_id quant_float(lw_call *c, lw_value_id x) {
  return lw__b_dtype(c, x) == LW_DTYPE_F64 ? x : lw__b_cast(c, x, LW_DTYPE_F32);
}

/* x - zero, as i32 for integers, as f32 for floats. */
static lw_value_id quant_centre(lw_call *c, lw_value_id x, lw_value_id zero) {
  lw_dtype type = lw__dtype_is_float(lw__b_dtype(c, x)) ? LW_DTYPE_F32 : LW_DTYPE_I32;
  x = lw__b_cast(c, x, type);
  return zero == LW_NONE ? x : lw__b_sub(c, x, lw__b_cast(c, zero, type));
}

/* |x| (already divided by the scale) in the quantized type; |carried|: an ONNX type that |to|
 * carries, or 0. */
static lw_value_id quant_store_carried(lw_call *c, lw_value_id x, lw_value_id zero, int32_t carried,
                                       lw_dtype to, bool saturate) {
  if (lw__dtype_is_float(to)) {
    if (carried != 0) return lw__op_to_type(c, x, carried, saturate);
    if (saturate) {
      x = lw__b_map2s(c, LW_FN_MIN, x, lw__dtype_largest(to));
      x = lw__b_map2s(c, LW_FN_MAX, x, lw__dtype_lowest(to));
    }
    return lw__b_cast(c, x, to);
  }
  x = lw__b_map1(c, LW_FN_ROUND, x);
  if (zero != LW_NONE) x = lw__b_add(c, x, lw__b_cast(c, zero, lw__b_dtype(c, x)));
  return carried != 0 ? lw__op_to_type(c, x, carried, true) : lw__b_cast(c, x, to);
}

static lw_value_id quant_store(lw_call *c, lw_value_id x, lw_value_id zero, lw_dtype to,
                               bool saturate) {
  return quant_store_carried(c, x, zero, 0, to, saturate);
}

static lw_dtype quant_type(lw_call *c, lw_value_id like, const char *attr, lw_dtype otherwise,
                           int32_t *out_carried) {
  int64_t said = lw__call_int(c, attr, 0);
  *out_carried = lw__call_ok(c) && like != LW_NONE ? lw__call_carried(c, like) : 0;
  if (like != LW_NONE) return lw__b_dtype(c, like);
  if (said == 0) return otherwise;
  lw_dtype dtype = said > 0 && said < 100 ? lw__tensor_dtype((int32_t)said) : LW_DTYPE_NONE;
  if (dtype == LW_DTYPE_NONE) lw__call_unsupported(c, "%s %lld", attr, (long long)said);
  if (lw__tensor_is_carried((int32_t)said)) *out_carried = (int32_t)said;
  return dtype;
}

/* ---- conversion -----------------------------------------------------------------------------*/

void lw__op_quantize_linear(lw_call *c) {
  lw_value_id x = lw__call_in(c, 0), scale = lw__call_in(c, 1), zero = lw__call_in(c, 2);
  int64_t axis = lw__call_int(c, "axis", 1), block = lw__call_int(c, "block_size", 0);
  bool saturate = lw__call_int(c, "saturate", 1) != 0;
  lw__call_ignore(c, "precision");
  int32_t carried;
  lw_dtype to = quant_type(c, zero, "output_dtype", LW_DTYPE_U8, &carried);
  c->plain = true;
  scale = quant_float(c, quant_spread(c, scale, x, axis, block));
  if (zero != LW_NONE) zero = quant_spread(c, zero, x, axis, block);
  lw_value_id y = lw__b_div(c, lw__b_cast(c, x, lw__b_dtype(c, scale)), scale);
  lw__call_out(c, 0, quant_store_carried(c, y, zero, carried, to, saturate));
}

void lw__op_dequantize_linear(lw_call *c) {
  lw_value_id x = lw__call_in(c, 0), scale = lw__call_in(c, 1), zero = lw__call_in(c, 2);
  int64_t axis = lw__call_int(c, "axis", 1), block = lw__call_int(c, "block_size", 0);
  int32_t carried;
  lw_dtype to = quant_type(c, LW_NONE, "output_dtype", lw__b_dtype(c, scale), &carried);
  c->plain = true;
  scale = quant_float(c, quant_spread(c, scale, x, axis, block));
  if (zero != LW_NONE) zero = quant_spread(c, zero, x, axis, block);
  lw_value_id y = lw__b_cast(c, quant_centre(c, x, zero), lw__b_dtype(c, scale));
  lw__call_out(c, 0, lw__b_cast(c, lw__b_mul(c, y, scale), to));
}

/* |x| as u8 with the scale and zero point of its own range: scale = (max - min) / 255 over a range
 * that holds 0; an input of zeros gets scale 1. */
static lw_value_id quant_dynamic(lw_call *c, lw_value_id x, lw_value_id *out_scale,
                                 lw_value_id *out_zero) {
  uint32_t all = lw__all_axes(lw__b_rank(c, x));
  lw_value_id max = lw__b_map2s(c, LW_FN_MAX, lw__b_reduce(c, LW_RED_MAX, x, all, false), 0);
  lw_value_id min = lw__b_map2s(c, LW_FN_MIN, lw__b_reduce(c, LW_RED_MIN, x, all, false), 0);
  lw_value_id scale = lw__b_map2s(c, LW_FN_DIV, lw__b_sub(c, max, min), 255);
  lw_value_id flat = lw__b_map2s(c, LW_FN_EQ, scale, 0);
  scale = lw__b_select(c, flat, lw__b_scalar(c, lw__b_dtype(c, x), 1), scale);
  lw_value_id zero = lw__b_map1(c, LW_FN_NEG, lw__b_div(c, min, scale));
  *out_scale = scale;
  *out_zero = quant_store(c, zero, LW_NONE, LW_DTYPE_U8, true);
  return quant_store(c, lw__b_div(c, x, scale), *out_zero, LW_DTYPE_U8, true);
}

void lw__op_dynamic_quantize_linear(lw_call *c) {
  lw_value_id scale, zero, y = quant_dynamic(c, lw__call_in(c, 0), &scale, &zero);
  lw__call_out(c, 0, y);
  lw__call_out(c, 1, scale);
  lw__call_out(c, 2, zero);
}

/* ---- products -------------------------------------------------------------------------------*/

/* A vector of the rows of matrix |a| (or of the columns of |b|) as it meets the matrix. */
static lw_value_id quant_rows(lw_call *c, lw_value_id v, lw_value_id a) {
  bool vector = v != LW_NONE && lw__b_rank(c, v) == 1 && lw__b_rank(c, a) > 1;
  return vector && lw__b_dim(c, v, 0) != 1 ? lw__b_unsqueeze(c, v, 1) : v;
}

void lw__op_matmul_integer(lw_call *c) {
  lw_value_id a = lw__call_in(c, 0), b = lw__call_in(c, 1);
  a = quant_centre(c, a, quant_rows(c, lw__call_in(c, 2), a));
  b = quant_centre(c, b, lw__call_in(c, 3));
  lw__call_out(c, 0, lw__b_matmul(c, a, b));
}

lw_value_id lw__op_dynamic_product(lw_call *c, lw_value_id x, const lw_quantized *w) {
  lw_value_id scale, zero, q = quant_dynamic(c, x, &scale, &zero);
  lw_value_id y = lw__b_matmul(c, quant_centre(c, q, zero), quant_centre(c, w->matrix, w->zero));
  return lw__b_mul(c, quant_float(c, y), lw__b_mul(c, scale, w->scale));
}

void lw__op_qlinear_matmul(lw_call *c) {
  lw_value_id a = lw__call_in(c, 0), b = lw__call_in(c, 3), zero = lw__call_in(c, 7);
  lw_value_id sa = quant_float(c, quant_rows(c, lw__call_in(c, 1), a));
  lw_value_id sb = quant_float(c, lw__call_in(c, 4)), sy = quant_float(c, lw__call_in(c, 6));
  lw_dtype to = lw__b_dtype(c, zero);
  a = quant_centre(c, a, quant_rows(c, lw__call_in(c, 2), a));
  b = quant_centre(c, b, lw__call_in(c, 5));
  lw_value_id y = quant_float(c, lw__b_matmul(c, a, b));
  uint32_t rank = lw__b_rank(c, y);
  y = lw__b_mul(c, y, lw__b_div(c, lw__b_mul(c, sa, sb), sy));
  y = quant_store(c, y, zero, to, true);
  if (lw__call_ok(c) && lw__b_rank(c, y) != rank) { /* scales of shape [1] on vectors */
    lw_shape shape = lw__b_shape(c, y);
    if (shape.rank == 1 && rank == 0) y = lw__b_squeeze(c, y, 0);
  }
  lw__call_out(c, 0, y);
}

/* Convolution of |x| and |w| in i32 by the node's attributes. */
static lw_value_id quant_conv(lw_call *c, lw_value_id x, lw_value_id x_zero, lw_value_id w,
                              lw_value_id w_zero) {
  x = quant_centre(c, x, quant_spread(c, x_zero, x, 1, 0));
  w = quant_centre(c, w, quant_spread(c, w_zero, w, 0, 0));
  return lw__op_convolve(c, x, w);
}

void lw__op_conv_integer(lw_call *c) {
  lw_value_id x = lw__call_in(c, 0), w = lw__call_in(c, 1);
  lw__call_out(c, 0, quant_conv(c, x, lw__call_in(c, 2), w, lw__call_in(c, 3)));
}

void lw__op_qlinear_conv(lw_call *c) {
  lw_value_id x = lw__call_in(c, 0), w = lw__call_in(c, 3), zero = lw__call_in(c, 7);
  lw_value_id bias = lw__call_in(c, 8);
  lw_value_id y = quant_conv(c, x, lw__call_in(c, 2), w, lw__call_in(c, 5));
  if (bias != LW_NONE) y = lw__b_add(c, y, lw__b_along(c, bias, 1, lw__b_rank(c, y)));
  lw_value_id scale = lw__b_mul(c, lw__call_in(c, 1), quant_spread(c, lw__call_in(c, 4), y, 1, 0));
  y = lw__b_mul(c, quant_float(c, y), lw__b_div(c, scale, lw__call_in(c, 6)));
  lw__call_out(c, 0, quant_store(c, y, zero, lw__b_dtype(c, zero), true));
}

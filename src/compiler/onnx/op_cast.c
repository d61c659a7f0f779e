/* op_cast.c: casts between element types. Types that lawson has not are carried in wider ones
 * (tensor.h): a cast to one of them rounds to its numbers and wraps or saturates like it, with
 * functions that the graph has. */
#include <math.h>

#include "compiler/onnx/op.h"
#include "compiler/onnx/tensor.h"

/* ---- integers of 4 and 2 bits ---------------------------------------------------------------*/

/* Towards zero; the low bits stay, or the nearest number of the type. */
static lw_value_id cast_small_int(lw_call *c, lw_value_id x, int32_t type, bool saturate) {
  bool is_signed = type == LW_PROTO_INT4 || type == LW_PROTO_INT2;
  int64_t span = type == LW_PROTO_INT4 || type == LW_PROTO_UINT4 ? 16 : 4;
  int64_t lowest = is_signed ? -span / 2 : 0;
  x = lw__b_cast(c, x, LW_DTYPE_I32);
  if (saturate) {
    x = lw__b_map2s(c, LW_FN_MIN, x, (double)(lowest + span - 1));
    x = lw__b_map2s(c, LW_FN_MAX, x, (double)lowest);
  } else {
    x = lw__b_map2s(c, LW_FN_BITAND, lw__b_adds(c, x, (double)-lowest), (double)(span - 1));
    x = lw__b_adds(c, x, (double)lowest);
  }
  return lw__b_cast(c, x, lw__tensor_dtype(type));
}

/* ---- floats: x in f32 or f64 -> the nearest number of the type, in x's type -------------------*/

static lw_value_id cast_clamp(lw_call *c, lw_value_id x, double most) {
  return lw__b_map2s(c, LW_FN_MAX, lw__b_map2s(c, LW_FN_MIN, x, most), -most);
}

/* |x| with x's sign. */
static lw_value_id cast_sign(lw_call *c, lw_value_id magnitude, lw_value_id x) {
  lw_value_id minus = lw__b_map1(c, LW_FN_NEG, magnitude);
  return lw__b_select(c, lw__b_map2s(c, LW_FN_LT, x, 0), minus, magnitude);
}

static lw_value_id cast_through(lw_call *c, lw_value_id x, lw_dtype dtype) {
  return lw__b_cast(c, lw__b_cast(c, x, dtype), lw__b_dtype(c, x));
}

static lw_value_id cast_nan_beyond(lw_call *c, lw_value_id y, lw_value_id magnitude, double from) {
  lw_value_id beyond = lw__b_map2s(c, LW_FN_GE, magnitude, from);
  return lw__b_select(c, beyond, lw__b_scalar(c, lw__b_dtype(c, y), NAN), y);
}

/* E4M3FNUZ: twice its numbers are those of E4M3FN, and 480 where that has NaN. */
static lw_value_id cast_e4m3fnuz(lw_call *c, lw_value_id x, bool saturate) {
  if (saturate) x = cast_clamp(c, x, 240);
  lw_value_id twice = lw__b_muls(c, x, 2), size = lw__b_map1(c, LW_FN_ABS, twice);
  lw_value_id last = cast_sign(c, lw__b_scalar(c, lw__b_dtype(c, x), 480), x);
  lw_value_id rounded = cast_through(c, cast_clamp(c, twice, 448), LW_DTYPE_F8E4M3);
  lw_value_id y = lw__b_select(c, lw__b_map2s(c, LW_FN_GT, size, 464), last, rounded);
  if (!saturate) y = cast_nan_beyond(c, y, size, 496);
  return lw__b_muls(c, y, 0.5);
}

/* E5M2FNUZ: twice its numbers are those of E5M2, and one power of two more. */
static lw_value_id cast_e5m2fnuz(lw_call *c, lw_value_id x, bool saturate) {
  if (saturate) x = cast_clamp(c, x, 57344);
  lw_value_id twice = lw__b_muls(c, cast_clamp(c, x, 0x1p14), 2);
  lw_value_id low = lw__b_muls(c, cast_through(c, twice, LW_DTYPE_F8E5M2), 0.5);
  lw_value_id half = lw__b_muls(c, cast_clamp(c, x, 0x1p16), 0.5);
  lw_value_id high = lw__b_muls(c, cast_through(c, half, LW_DTYPE_F8E5M2), 2);
  lw_value_id size = lw__b_map1(c, LW_FN_ABS, x);
  lw_value_id y = lw__b_select(c, lw__b_map2s(c, LW_FN_LT, size, 0x1p14), low, high);
  return saturate ? y : cast_nan_beyond(c, y, size, 61440);
}

/* E2M1: 0, 0.5 .. 2 in halves, 3, 4, 6. It always saturates, and knows no NaN. */
static lw_value_id cast_e2m1(lw_call *c, lw_value_id x) {
  lw_value_id size = lw__b_map2s(c, LW_FN_MIN, lw__b_map1(c, LW_FN_ABS, x), 6), y;
  lw_value_id halves = lw__b_muls(c, lw__b_map1(c, LW_FN_ROUND, lw__b_muls(c, size, 2)), 0.5);
  lw_value_id twos = lw__b_muls(c, lw__b_map1(c, LW_FN_ROUND, lw__b_muls(c, size, 0.5)), 2);
  y = lw__b_select(c, lw__b_map2s(c, LW_FN_LT, size, 4), lw__b_map1(c, LW_FN_ROUND, size), twos);
  y = cast_sign(c, lw__b_select(c, lw__b_map2s(c, LW_FN_LT, size, 2), halves, y), x);
  return lw__b_select(c, lw__b_map1(c, LW_FN_ISNAN, x), lw__b_scalar(c, lw__b_dtype(c, x), 0), y);
}

static lw_value_id cast_carried_float(lw_call *c, lw_value_id x, int32_t type, bool saturate) {
  if (lw__b_dtype(c, x) != LW_DTYPE_F64) x = lw__b_cast(c, x, LW_DTYPE_F32);
  switch (type) {
    case LW_PROTO_FLOAT8E4M3FNUZ: x = cast_e4m3fnuz(c, x, saturate); break;
    case LW_PROTO_FLOAT8E5M2FNUZ: x = cast_e5m2fnuz(c, x, saturate); break;
    case LW_PROTO_FLOAT4E2M1: x = cast_e2m1(c, x); break;
    default: lw__call_unsupported(c, "a cast to %s", lw__tensor_type_name(type)); break;
  }
  return lw__b_cast(c, x, lw__tensor_dtype(type));
}

/* ---- all types ------------------------------------------------------------------------------*/

/* 8-bit floats saturate by default: what is beyond the largest number becomes it, infinity too. */
static lw_value_id cast_own(lw_call *c, lw_value_id x, lw_dtype to, bool saturate) {
  bool narrow = to == LW_DTYPE_F8E4M3 || to == LW_DTYPE_F8E5M2;
  if (narrow && lw__b_dtype(c, x) == to) return x;
  if (narrow && lw__b_dtype(c, x) != LW_DTYPE_F64) x = lw__b_cast(c, x, LW_DTYPE_F32);
  if (narrow && saturate) {
    x = lw__b_map2s(c, LW_FN_MIN, x, lw__dtype_largest(to));
    x = lw__b_map2s(c, LW_FN_MAX, x, lw__dtype_lowest(to));
  }
  /* A value of its own, when |x| carries another type in this one. */
  if (lw__b_dtype(c, x) == to && lw__call_carried(c, x) != 0)
    x = lw__b_cast(c, x, lw__dtype_is_float(to) ? LW_DTYPE_F64 : LW_DTYPE_I32);
  return lw__b_cast(c, x, to);
}

lw_value_id lw__op_to_type(lw_call *c, lw_value_id x, int32_t type, bool saturate) {
  c->plain = true;
  if (!lw__call_ok(c) || lw__call_carried(c, x) == type) return x;
  if (!lw__tensor_is_carried(type)) return cast_own(c, x, lw__tensor_dtype(type), saturate);
  bool is_float = lw__dtype_is_float(lw__tensor_dtype(type));
  lw_value_id y =
      is_float ? cast_carried_float(c, x, type, saturate) : cast_small_int(c, x, type, saturate);
  lw__call_carry(c, y, type);
  return y;
}

static void cast_to(lw_call *c, int32_t type, bool saturate) {
  lw_value_id x = lw__call_in(c, 0);
  bool small_int = lw__tensor_is_carried(type) && !lw__dtype_is_float(lw__tensor_dtype(type));
  lw__call_ignore(c, "round_mode");
  lw__call_out(c, 0, lw__op_to_type(c, x, type, saturate && !small_int));
}

void lw__op_cast(lw_call *c) {
  int64_t to = lw__call_int(c, "to", 0);
  bool known = to > 0 && to <= INT32_MAX && lw__tensor_type_name((int32_t)to) != NULL;
  if (!known)
    lw__call_invalid(c, "its type to cast to is %lld", (long long)to);
  else if (lw__tensor_dtype((int32_t)to) == LW_DTYPE_NONE)
    lw__call_unsupported(c, "cast to %s", lw__tensor_type_name((int32_t)to));
  if (lw__call_ok(c)) cast_to(c, (int32_t)to, lw__call_int(c, "saturate", 1) != 0);
}

void lw__op_cast_like(lw_call *c) {
  lw_value_id x = lw__call_in(c, 0), like = lw__call_in(c, 1);
  bool saturate = lw__call_int(c, "saturate", 1) != 0;
  if (!lw__call_ok(c)) return;
  if (lw__call_carried(c, like) != 0) {
    cast_to(c, lw__call_carried(c, like), saturate);
    return;
  }
  c->plain = true;
  lw__call_ignore(c, "round_mode");
  lw__call_out(c, 0, cast_own(c, x, lw__b_dtype(c, like), saturate));
}

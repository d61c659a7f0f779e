/* elem.c: elements of arrays by type. Arrays may be views of files, so nothing here relies on
 * alignment. */
#include <float.h>
#include <math.h>
#include <string.h>

#include "base/base.h"

#define ELEM_LOAD(T)                                                                 \
  ({                                                                                 \
    T elem_value;                                                                    \
    memcpy(&elem_value, (const char *)data + index * (int64_t)sizeof(T), sizeof(T)); \
    elem_value;                                                                      \
  })

#define ELEM_STORE(T, x)                                                       \
  do {                                                                         \
    T elem_value = (T)(x);                                                     \
    memcpy((char *)data + index * (int64_t)sizeof(T), &elem_value, sizeof(T)); \
  } while (0)

/* The integer part of |x| modulo 2^64; 0 for NaN and infinity. */
static uint64_t elem_wrap(double x) {
  uint64_t bits;
  memcpy(&bits, &x, sizeof bits);
  int exponent = (int)(bits >> 52 & 0x7ff) - 1023;
  if (exponent < 0 || exponent >= 52 + 64) return 0; /* a fraction, or a multiple of 2^64 */
  uint64_t significand = (bits & ((UINT64_C(1) << 52) - 1)) | UINT64_C(1) << 52;
  uint64_t whole = exponent <= 52 ? significand >> (52 - exponent) : significand << (exponent - 52);
  return bits >> 63 != 0 ? 0 - whole : whole;
}

/* A double that every type of at most 24 significant bits rounds to the same value as |x| itself:
 * the bits that a double cannot hold are replaced by one that says whether any of them was set. */
static double elem_sticky(int64_t x) {
  uint64_t magnitude = x < 0 ? 0 - (uint64_t)x : (uint64_t)x;
  if (magnitude >> 53 != 0) {
    uint64_t low = magnitude & 0x7ff;
    magnitude = (magnitude ^ low) | (low != 0 ? 0x800 : 0);
  }
  return x < 0 ? -(double)magnitude : (double)magnitude;
}

int64_t lw__elem_get_i64(lw_dtype dtype, const void *data, int64_t index) {
  switch (dtype) {
    case LW_DTYPE_BOOL: return ELEM_LOAD(uint8_t) != 0;
    case LW_DTYPE_I8: return ELEM_LOAD(int8_t);
    case LW_DTYPE_I16: return ELEM_LOAD(int16_t);
    case LW_DTYPE_I32: return ELEM_LOAD(int32_t);
    case LW_DTYPE_I64: return ELEM_LOAD(int64_t);
    case LW_DTYPE_U8: return ELEM_LOAD(uint8_t);
    case LW_DTYPE_U16: return ELEM_LOAD(uint16_t);
    case LW_DTYPE_U32: return ELEM_LOAD(uint32_t);
    case LW_DTYPE_U64: return (int64_t)ELEM_LOAD(uint64_t);
    default: return (int64_t)elem_wrap(lw__elem_get_f64(dtype, data, index));
  }
}

double lw__elem_get_f64(lw_dtype dtype, const void *data, int64_t index) {
  switch (dtype) {
    case LW_DTYPE_NONE:
    case LW_DTYPE_COUNT: return 0;
    case LW_DTYPE_F16: return lw__f16_to_f64(ELEM_LOAD(uint16_t));
    case LW_DTYPE_BF16: return lw__bf16_to_f64(ELEM_LOAD(uint16_t));
    case LW_DTYPE_F32: return (double)ELEM_LOAD(float);
    case LW_DTYPE_F64: return ELEM_LOAD(double);
    case LW_DTYPE_F8E4M3: return lw__f8e4m3_to_f64(ELEM_LOAD(uint8_t));
    case LW_DTYPE_F8E5M2: return lw__f8e5m2_to_f64(ELEM_LOAD(uint8_t));
    case LW_DTYPE_U64: return (double)ELEM_LOAD(uint64_t);
    default: return (double)lw__elem_get_i64(dtype, data, index);
  }
}

void lw__elem_set_i64(lw_dtype dtype, void *data, int64_t index, int64_t x) {
  switch (dtype) {
    case LW_DTYPE_BOOL: ELEM_STORE(uint8_t, x != 0); break;
    case LW_DTYPE_I8:
    case LW_DTYPE_U8: ELEM_STORE(uint8_t, x); break;
    case LW_DTYPE_I16:
    case LW_DTYPE_U16: ELEM_STORE(uint16_t, x); break;
    case LW_DTYPE_I32:
    case LW_DTYPE_U32: ELEM_STORE(uint32_t, x); break;
    case LW_DTYPE_I64:
    case LW_DTYPE_U64: ELEM_STORE(uint64_t, x); break;
    case LW_DTYPE_F64: ELEM_STORE(double, x); break;
    default: lw__elem_set_f64(dtype, data, index, elem_sticky(x)); break;
  }
}

void lw__elem_set_f64(lw_dtype dtype, void *data, int64_t index, double x) {
  switch (dtype) {
    case LW_DTYPE_NONE:
    case LW_DTYPE_COUNT: break;
    case LW_DTYPE_BOOL: ELEM_STORE(uint8_t, x != 0); break;
    case LW_DTYPE_F16: ELEM_STORE(uint16_t, lw__f64_to_f16(x)); break;
    case LW_DTYPE_BF16: ELEM_STORE(uint16_t, lw__f64_to_bf16(x)); break;
    case LW_DTYPE_F32: ELEM_STORE(float, x); break;
    case LW_DTYPE_F64: ELEM_STORE(double, x); break;
    case LW_DTYPE_F8E4M3: ELEM_STORE(uint8_t, lw__f64_to_f8e4m3(x)); break;
    case LW_DTYPE_F8E5M2: ELEM_STORE(uint8_t, lw__f64_to_f8e5m2(x)); break;
    default: lw__elem_set_i64(dtype, data, index, (int64_t)elem_wrap(x)); break;
  }
}

double lw__round_to(lw_dtype dtype, double x) {
  switch (dtype) {
    case LW_DTYPE_F16: return lw__f16_to_f64(lw__f64_to_f16(x));
    case LW_DTYPE_BF16: return lw__bf16_to_f64(lw__f64_to_bf16(x));
    case LW_DTYPE_F32: return (double)(float)x;
    case LW_DTYPE_F8E4M3: return lw__f8e4m3_to_f64(lw__f64_to_f8e4m3(x));
    case LW_DTYPE_F8E5M2: return lw__f8e5m2_to_f64(lw__f64_to_f8e5m2(x));
    default: return x;
  }
}

/* Per type: unit roundoff, lowest and largest finite value as doubles. */
typedef struct elem_limits {
  double unit_roundoff, lowest, largest;
} elem_limits;

static const elem_limits elem_limit_rows[LW_DTYPE_COUNT] = {
    [LW_DTYPE_BOOL] = {0, 0, 1},
    [LW_DTYPE_I8] = {0, INT8_MIN, INT8_MAX},
    [LW_DTYPE_I16] = {0, INT16_MIN, INT16_MAX},
    [LW_DTYPE_I32] = {0, INT32_MIN, INT32_MAX},
    [LW_DTYPE_I64] = {0, -0x1p63, 0x1p63},
    [LW_DTYPE_U8] = {0, 0, UINT8_MAX},
    [LW_DTYPE_U16] = {0, 0, UINT16_MAX},
    [LW_DTYPE_U32] = {0, 0, UINT32_MAX},
    [LW_DTYPE_U64] = {0, 0, 0x1p64},
    [LW_DTYPE_F16] = {0x1p-11, -65504.0, 65504.0},
    [LW_DTYPE_BF16] = {0x1p-8, -0x1.fep127, 0x1.fep127},
    [LW_DTYPE_F32] = {0x1p-24, -0x1.fffffep127, 0x1.fffffep127},
    [LW_DTYPE_F64] = {0x1p-53, -DBL_MAX, DBL_MAX},
    [LW_DTYPE_F8E4M3] = {0x1p-4, -448.0, 448.0},
    [LW_DTYPE_F8E5M2] = {0x1p-3, -57344.0, 57344.0},
};

static const elem_limits *elem_limits_of(lw_dtype dtype) {
  return &elem_limit_rows[(unsigned)dtype < LW_DTYPE_COUNT ? dtype : LW_DTYPE_NONE];
}

double lw__dtype_unit_roundoff(lw_dtype dtype) { return elem_limits_of(dtype)->unit_roundoff; }

double lw__dtype_lowest(lw_dtype dtype) { return elem_limits_of(dtype)->lowest; }

double lw__dtype_largest(lw_dtype dtype) { return elem_limits_of(dtype)->largest; }

/* ops.c: the fact tables of ops.def, and the scalar meaning of every function: the one place that
 * constant folding, the interpreter and the tests ask what a function computes. */
#include "graph/ops.h"

#include <math.h>

const lw_op_info lw__op_info[LW_OP_COUNT] = {
#define LW_OP(e, name, lo, hi, kind) {name, lo, hi, LW_KIND_##kind},
#include "graph/ops.def"
};

const lw_fn_info lw__fn_info[LW_FN_COUNT] = {
#define LW_FN(e, name, arity, domain, flt, integer, slots, special, ulp) \
  {name, arity, LW_DOMAIN_##domain, flt, integer, slots, special, ulp},
#include "graph/ops.def"
};

const lw_red_info lw__red_info[LW_RED_COUNT] = {
#define LW_RED(e, name, fn, domain) {name, LW_FN_##fn, LW_DOMAIN_##domain},
#include "graph/ops.def"
};

/* ---- types ------------------------------------------------------------------------------------*/

lw_dtype lw__fn_result_type(lw_fn fn, lw_dtype operand) {
  if (operand <= LW_DTYPE_NONE || operand >= LW_DTYPE_COUNT || (unsigned)fn >= LW_FN_COUNT) {
    return LW_DTYPE_NONE;
  }
  bool is_float = lw__dtype_is_float(operand), is_int = lw__dtype_is_int(operand);
  switch (lw__fn_info[fn].domain) {
    case LW_DOMAIN_ARITH: return is_float || is_int ? operand : LW_DTYPE_NONE;
    case LW_DOMAIN_FLOAT: return is_float ? operand : LW_DTYPE_NONE;
    case LW_DOMAIN_COMPARE: return LW_DTYPE_BOOL;
    case LW_DOMAIN_LOGIC: return operand == LW_DTYPE_BOOL ? operand : LW_DTYPE_NONE;
    case LW_DOMAIN_BITS: return is_int ? operand : LW_DTYPE_NONE;
    case LW_DOMAIN_SELECT: return operand;
    case LW_DOMAIN_TEST: return is_float ? LW_DTYPE_BOOL : LW_DTYPE_NONE;
    case LW_DOMAIN_CAST: break;
  }
  return LW_DTYPE_NONE;
}

static unsigned int_bits(lw_dtype dtype) {
  switch (dtype) {
    case LW_DTYPE_I8:
    case LW_DTYPE_U8: return 8;
    case LW_DTYPE_I16:
    case LW_DTYPE_U16: return 16;
    case LW_DTYPE_I32:
    case LW_DTYPE_U32: return 32;
    case LW_DTYPE_I64:
    case LW_DTYPE_U64: return 64;
    default: return 1;
  }
}

static int64_t int_min_of(lw_dtype dtype) {
  return lw__dtype_is_signed(dtype) ? -(int64_t)((UINT64_C(1) << (int_bits(dtype) - 1)) - 1) - 1
                                    : 0;
}

static int64_t int_max_of(lw_dtype dtype) { /* u64: the bits of UINT64_MAX */
  unsigned bits = int_bits(dtype) - (lw__dtype_is_signed(dtype) ? 1 : 0);
  return (int64_t)(UINT64_MAX >> (64 - bits));
}

/* The low bits of |x| as a value of |dtype|. */
static int64_t wrap_int(lw_dtype dtype, uint64_t x) {
  switch (dtype) {
    case LW_DTYPE_BOOL: return x != 0;
    case LW_DTYPE_I8: return (int8_t)x;
    case LW_DTYPE_I16: return (int16_t)x;
    case LW_DTYPE_I32: return (int32_t)x;
    case LW_DTYPE_U8: return (uint8_t)x;
    case LW_DTYPE_U16: return (uint16_t)x;
    case LW_DTYPE_U32: return (uint32_t)x;
    default: return (int64_t)x;
  }
}

double lw__red_identity_f64(lw_red red, lw_dtype dtype) {
  if (!lw__dtype_is_float(dtype)) {
    int64_t i = lw__red_identity_i64(red, dtype);
    return dtype == LW_DTYPE_U64 ? (double)(uint64_t)i : (double)i;
  }
  /* E4M3 has no infinities; its largest values stand in for them. */
  bool finite_only = dtype == LW_DTYPE_F8E4M3;
  switch (red) {
    case LW_RED_PROD:
    case LW_RED_ALL: return 1;
    case LW_RED_MAX: return finite_only ? lw__dtype_lowest(dtype) : -INFINITY;
    case LW_RED_MIN: return finite_only ? lw__dtype_largest(dtype) : INFINITY;
    default: return 0;
  }
}

int64_t lw__red_identity_i64(lw_red red, lw_dtype dtype) {
  switch (red) {
    case LW_RED_PROD:
    case LW_RED_ALL: return 1;
    case LW_RED_MAX: return int_min_of(dtype);
    case LW_RED_MIN: return int_max_of(dtype);
    default: return 0;
  }
}

/* ---- floats -----------------------------------------------------------------------------------*/

static double mod_f64(double a, double b) {
  double r = fmod(a, b);
  if (b == 0 || isnan(r)) return r;
  if (r == 0) return copysign(0.0, b);
  return (r < 0) != (b < 0) ? r + b : r;
}

static double min_f64(double a, double b) {
  if (isnan(a) || isnan(b)) return NAN;
  return a < b ? a : b;
}

static double max_f64(double a, double b) {
  if (isnan(a) || isnan(b)) return NAN;
  return a > b ? a : b;
}

/* exp of a negative number only, so that neither side loses its small values. */
static double sigmoid_f64(double x) {
  double e = exp(-fabs(x));
  return x < 0 ? e / (1 + e) : 1 / (1 + e);
}

double lw__fn_eval_f64(lw_fn fn, double a, double b, double c) {
  switch (fn) {
    case LW_FN_ADD: return a + b;
    case LW_FN_SUB: return a - b;
    case LW_FN_MUL: return a * b;
    case LW_FN_DIV: return a / b;
    case LW_FN_MOD: return mod_f64(a, b);
    case LW_FN_REM: return fmod(a, b);
    case LW_FN_MIN: return min_f64(a, b);
    case LW_FN_MAX: return max_f64(a, b);
    case LW_FN_POW: return pow(a, b);
    case LW_FN_ATAN2: return atan2(a, b);
    case LW_FN_NEG: return -a;
    case LW_FN_ABS: return fabs(a);
    case LW_FN_SIGN: return a > 0 ? 1 : a < 0 ? -1 : a;
    case LW_FN_FLOOR: return floor(a);
    case LW_FN_CEIL: return ceil(a);
    case LW_FN_ROUND: return nearbyint(a);
    case LW_FN_TRUNC: return trunc(a);
    case LW_FN_RECIP: return 1 / a;
    case LW_FN_SQRT: return sqrt(a);
    case LW_FN_RSQRT: return 1 / sqrt(a);
    case LW_FN_EXP: return exp(a);
    case LW_FN_EXPM1: return expm1(a);
    case LW_FN_LOG: return log(a);
    case LW_FN_LOG1P: return log1p(a);
    case LW_FN_ERF: return erf(a);
    case LW_FN_TANH: return tanh(a);
    case LW_FN_SIGMOID: return sigmoid_f64(a);
    case LW_FN_SIN: return sin(a);
    case LW_FN_COS: return cos(a);
    case LW_FN_TAN: return tan(a);
    case LW_FN_ASIN: return asin(a);
    case LW_FN_ACOS: return acos(a);
    case LW_FN_ATAN: return atan(a);
    case LW_FN_SINH: return sinh(a);
    case LW_FN_COSH: return cosh(a);
    case LW_FN_ASINH: return asinh(a);
    case LW_FN_ACOSH: return acosh(a);
    case LW_FN_ATANH: return atanh(a);
    case LW_FN_EQ: return a == b;
    case LW_FN_NE: return a != b;
    case LW_FN_LT: return a < b;
    case LW_FN_LE: return a <= b;
    case LW_FN_GT: return a > b;
    case LW_FN_GE: return a >= b;
    case LW_FN_ISNAN: return isnan(a) ? 1 : 0;
    case LW_FN_ISINF: return isinf(a) ? 1 : 0;
    case LW_FN_NOT: return a == 0;
    case LW_FN_AND: return a != 0 && b != 0;
    case LW_FN_OR: return a != 0 || b != 0;
    case LW_FN_XOR: return (a != 0) != (b != 0);
    case LW_FN_SELECT: return a != 0 ? b : c;
    default: return NAN; /* BITS and CAST have no meaning on doubles */
  }
}

/* ---- integers ---------------------------------------------------------------------------------*/

static int64_t div_i64(int64_t a, int64_t b) {
  if (b == 0) return 0;
  return b == -1 ? (int64_t)(0 - (uint64_t)a) : a / b;
}

static int64_t rem_i64(int64_t a, int64_t b) { return b == 0 || b == -1 ? 0 : a % b; }

static int64_t mod_i64(int64_t a, int64_t b) {
  int64_t r = rem_i64(a, b);
  return r != 0 && (r < 0) != (b < 0) ? r + b : r;
}

static uint64_t pow_u64(uint64_t base, uint64_t exponent) {
  uint64_t result = 1;
  for (; exponent != 0; exponent >>= 1, base *= base) {
    if (exponent & 1) result *= base;
  }
  return result;
}

static int64_t pow_i64(int64_t base, int64_t exponent) {
  if (exponent >= 0) return (int64_t)pow_u64((uint64_t)base, (uint64_t)exponent);
  if (base == 1) return 1;
  return base == -1 ? ((uint64_t)exponent & 1 ? -1 : 1) : 0;
}

static int64_t shr_i64(lw_dtype dtype, int64_t a, int64_t b) {
  bool too_far = (uint64_t)b >= int_bits(dtype);
  if (!lw__dtype_is_signed(dtype)) return too_far ? 0 : (int64_t)((uint64_t)a >> b);
  return a >> (too_far ? 63 : b); /* gcc and clang shift arithmetically */
}

/* The functions in which signed and unsigned operands differ; false when |fn| is none of them. */
static bool eval_ordered(lw_fn fn, bool is_unsigned, int64_t a, int64_t b, int64_t *out) {
  uint64_t ua = (uint64_t)a, ub = (uint64_t)b;
  bool less = is_unsigned ? ua < ub : a < b;
  switch (fn) {
    case LW_FN_DIV:
      *out = !is_unsigned ? div_i64(a, b) : ub == 0 ? 0 : (int64_t)(ua / ub);
      return true;
    case LW_FN_MOD:
      *out = !is_unsigned ? mod_i64(a, b) : ub == 0 ? 0 : (int64_t)(ua % ub);
      return true;
    case LW_FN_REM:
      *out = !is_unsigned ? rem_i64(a, b) : ub == 0 ? 0 : (int64_t)(ua % ub);
      return true;
    case LW_FN_POW: *out = is_unsigned ? (int64_t)pow_u64(ua, ub) : pow_i64(a, b); return true;
    case LW_FN_MIN: *out = less ? a : b; return true;
    case LW_FN_MAX: *out = less ? b : a; return true;
    case LW_FN_ABS: *out = is_unsigned || a >= 0 ? a : (int64_t)(0 - ua); return true;
    case LW_FN_SIGN: *out = is_unsigned ? ua != 0 : (a > 0) - (a < 0); return true;
    case LW_FN_LT: *out = less; return true;
    case LW_FN_GE: *out = !less; return true;
    case LW_FN_LE: *out = less || a == b; return true;
    case LW_FN_GT: *out = !less && a != b; return true;
    default: return false;
  }
}

int64_t lw__fn_eval_i64(lw_fn fn, lw_dtype dtype, int64_t a, int64_t b, int64_t c) {
  uint64_t ua = (uint64_t)a, ub = (uint64_t)b;
  int64_t ordered = 0;
  if (eval_ordered(fn, !lw__dtype_is_signed(dtype), a, b, &ordered)) {
    return wrap_int(dtype, (uint64_t)ordered);
  }
  switch (fn) {
    case LW_FN_ADD: return wrap_int(dtype, ua + ub);
    case LW_FN_SUB: return wrap_int(dtype, ua - ub);
    case LW_FN_MUL: return wrap_int(dtype, ua * ub);
    case LW_FN_NEG: return wrap_int(dtype, 0 - ua);
    case LW_FN_EQ: return a == b;
    case LW_FN_NE: return a != b;
    case LW_FN_NOT: return a == 0;
    case LW_FN_AND: return a != 0 && b != 0;
    case LW_FN_OR: return a != 0 || b != 0;
    case LW_FN_XOR: return (a != 0) != (b != 0);
    case LW_FN_BITNOT: return wrap_int(dtype, ~ua);
    case LW_FN_BITAND: return wrap_int(dtype, ua & ub);
    case LW_FN_BITOR: return wrap_int(dtype, ua | ub);
    case LW_FN_BITXOR: return wrap_int(dtype, ua ^ ub);
    case LW_FN_SHL: return ub >= int_bits(dtype) ? 0 : wrap_int(dtype, ua << ub);
    case LW_FN_SHR: return wrap_int(dtype, (uint64_t)shr_i64(dtype, a, b));
    case LW_FN_SELECT: return a != 0 ? b : c;
    default: return 0; /* FLOAT, TEST and CAST have no meaning on integers */
  }
}

/* ---- casts ------------------------------------------------------------------------------------*/

/* |x| as a double that a second rounding to f32 or narrower turns into the correctly rounded value
 * of |x|: the bits beyond 53 are cut off and leave a one in the last place kept (rounding to odd).
 */
static double int_to_f64_sticky(int64_t x, bool is_unsigned) {
  bool negative = !is_unsigned && x < 0;
  uint64_t magnitude = negative ? 0 - (uint64_t)x : (uint64_t)x;
  if (magnitude >> 53 != 0) {
    unsigned drop = 11 - (unsigned)__builtin_clzll(magnitude);
    uint64_t lost = magnitude & ((UINT64_C(1) << drop) - 1);
    magnitude = (magnitude >> drop | (lost != 0)) << drop;
  }
  return negative ? -(double)magnitude : (double)magnitude;
}

static int64_t f64_to_int(double x, lw_dtype to) {
  if (isnan(x)) return 0;
  x = trunc(x);
  if (to == LW_DTYPE_U64) {
    if (x >= 0x1p64) return int_max_of(to);
    return x <= 0 ? 0 : (int64_t)(uint64_t)x;
  }
  /* Both limits + 1 are powers of two, so these comparisons are exact. */
  if (x >= (double)int_max_of(to)) return int_max_of(to);
  return x <= (double)int_min_of(to) ? int_min_of(to) : (int64_t)x;
}

lw_scalar lw__cast(lw_scalar x, lw_dtype from, lw_dtype to) {
  lw_scalar out = {.i = 0};
  bool from_float = lw__dtype_is_float(from);
  if (lw__dtype_is_float(to)) {
    bool is_unsigned = !lw__dtype_is_signed(from);
    if (from_float) {
      out.f = lw__round_to(to, x.f);
    } else if (to == LW_DTYPE_F64) {
      out.f = is_unsigned ? (double)(uint64_t)x.i : (double)x.i;
    } else {
      out.f = lw__round_to(to, int_to_f64_sticky(x.i, is_unsigned));
    }
  } else if (to == LW_DTYPE_BOOL) {
    out.i = from_float ? x.f != 0 : x.i != 0;
  } else {
    out.i = from_float ? f64_to_int(x.f, to) : wrap_int(to, (uint64_t)x.i);
  }
  return out;
}

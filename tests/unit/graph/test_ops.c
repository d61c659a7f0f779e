/* test_ops.c: the tables, and what functions, reductions and casts compute. */
#include <math.h>

#include "graph_kit.h"

static void test_tables(void **state) {
  (void)state;
  for (int f = 0; f < LW_FN_COUNT; f++) {
    const lw_fn_info *info = &lw__fn_info[f];
    bool no_float = info->domain == LW_DOMAIN_LOGIC || info->domain == LW_DOMAIN_BITS;
    bool no_int = info->domain == LW_DOMAIN_FLOAT || info->domain == LW_DOMAIN_TEST;
    assert_true(info->arity >= 1 && info->arity <= 3);
    if (f == LW_FN_CAST) continue;
    assert_int_equal(info->float_spelling[0] == '\0', no_float);
    assert_int_equal(info->int_spelling[0] == '\0', no_int);
    for (int other = 0; other < f; other++)
      assert_string_not_equal(info->name, lw__fn_info[other].name);
  }
  for (int op = 0; op < LW_OP_COUNT; op++) {
    assert_true(lw__op_info[op].min_operands <= lw__op_info[op].max_operands);
    assert_int_equal(lw__op_info[op].max_operands == 0, lw__op_info[op].kind == LW_KIND_SOURCE);
  }
  for (int r = 0; r < LW_RED_COUNT; r++)
    assert_int_equal(lw__fn_info[lw__red_info[r].combine].arity, 2);
}

static void test_result_types(void **state) {
  (void)state;
  assert_int_equal(lw__fn_result_type(LW_FN_ADD, LW_DTYPE_BF16), LW_DTYPE_BF16);
  assert_int_equal(lw__fn_result_type(LW_FN_ADD, LW_DTYPE_U8), LW_DTYPE_U8);
  assert_int_equal(lw__fn_result_type(LW_FN_ADD, LW_DTYPE_BOOL), LW_DTYPE_NONE);
  assert_int_equal(lw__fn_result_type(LW_FN_EXP, LW_DTYPE_F64), LW_DTYPE_F64);
  assert_int_equal(lw__fn_result_type(LW_FN_EXP, LW_DTYPE_I32), LW_DTYPE_NONE);
  assert_int_equal(lw__fn_result_type(LW_FN_LT, LW_DTYPE_I64), LW_DTYPE_BOOL);
  assert_int_equal(lw__fn_result_type(LW_FN_EQ, LW_DTYPE_BOOL), LW_DTYPE_BOOL);
  assert_int_equal(lw__fn_result_type(LW_FN_AND, LW_DTYPE_BOOL), LW_DTYPE_BOOL);
  assert_int_equal(lw__fn_result_type(LW_FN_AND, LW_DTYPE_U8), LW_DTYPE_NONE);
  assert_int_equal(lw__fn_result_type(LW_FN_SHL, LW_DTYPE_U8), LW_DTYPE_U8);
  assert_int_equal(lw__fn_result_type(LW_FN_SHL, LW_DTYPE_F32), LW_DTYPE_NONE);
  assert_int_equal(lw__fn_result_type(LW_FN_SELECT, LW_DTYPE_BOOL), LW_DTYPE_BOOL);
  assert_int_equal(lw__fn_result_type(LW_FN_ISNAN, LW_DTYPE_F16), LW_DTYPE_BOOL);
  assert_int_equal(lw__fn_result_type(LW_FN_ISNAN, LW_DTYPE_I8), LW_DTYPE_NONE);
  assert_int_equal(lw__fn_result_type(LW_FN_CAST, LW_DTYPE_F16), LW_DTYPE_NONE);
  assert_int_equal(lw__fn_result_type(LW_FN_ADD, LW_DTYPE_NONE), LW_DTYPE_NONE);
  assert_int_equal(lw__fn_result_type(LW_FN_ADD, LW_DTYPE_COUNT), LW_DTYPE_NONE);
}

static void test_identities(void **state) {
  (void)state;
  static const lw_dtype ints[] = {LW_DTYPE_I8, LW_DTYPE_I16, LW_DTYPE_I32, LW_DTYPE_I64,
                                  LW_DTYPE_U8, LW_DTYPE_U16, LW_DTYPE_U32, LW_DTYPE_U64};
  lw_rng rng;
  lw__rng_seed(&rng, 1);
  for (size_t t = 0; t < LW_ARRAY_COUNT(ints); t++) {
    for (lw_red r = LW_RED_SUM; r <= LW_RED_MIN; r++) {
      int64_t e = lw__red_identity_i64(r, ints[t]);
      for (int i = 0; i < 100; i++) { /* combining with the identity changes nothing */
        int64_t x = lw__fn_eval_i64(LW_FN_ADD, ints[t], (int64_t)lw__rng_u64(&rng), 0, 0);
        assert_true(lw__fn_eval_i64(lw__red_info[r].combine, ints[t], e, x, 0) == x);
      }
    }
  }
  assert_true(lw__red_identity_f64(LW_RED_MAX, LW_DTYPE_F16) == -INFINITY);
  assert_true(lw__red_identity_f64(LW_RED_MIN, LW_DTYPE_F64) == INFINITY);
  assert_true(lw__red_identity_f64(LW_RED_MAX, LW_DTYPE_F8E4M3) == -448);
  assert_true(lw__red_identity_f64(LW_RED_MAX, LW_DTYPE_F8E5M2) == -INFINITY);
  assert_true(lw__red_identity_f64(LW_RED_SUM, LW_DTYPE_F32) == 0);
  assert_true(lw__red_identity_f64(LW_RED_PROD, LW_DTYPE_F32) == 1);
  assert_true(lw__red_identity_f64(LW_RED_MIN, LW_DTYPE_U64) == 0x1p64);
  assert_int_equal(lw__red_identity_i64(LW_RED_ANY, LW_DTYPE_BOOL), 0);
  assert_int_equal(lw__red_identity_i64(LW_RED_ALL, LW_DTYPE_BOOL), 1);
}

typedef struct f64_case {
  lw_fn fn;
  double a, b, c, result;
} f64_case;

static void test_floats(void **state) {
  (void)state;
  static const double nan = NAN, inf = INFINITY;
  const f64_case cases[] = {
      {LW_FN_SUB, 1, 3, 0, -2},       {LW_FN_DIV, 1, 0, 0, inf},
      {LW_FN_DIV, 0, 0, 0, nan},      {LW_FN_MOD, 7, 3, 0, 1},
      {LW_FN_MOD, -7, 3, 0, 2},       {LW_FN_MOD, 7, -3, 0, -2},
      {LW_FN_MOD, -7, -3, 0, -1},     {LW_FN_MOD, 6, -3, 0, -0.0},
      {LW_FN_MOD, -6, 3, 0, 0},       {LW_FN_MOD, 1, 0, 0, nan},
      {LW_FN_MOD, inf, 2, 0, nan},    {LW_FN_MOD, 5, inf, 0, 5},
      {LW_FN_MOD, -5, inf, 0, inf},   {LW_FN_REM, -7, 3, 0, -1},
      {LW_FN_REM, 7, -3, 0, 1},       {LW_FN_MIN, nan, 1, 0, nan},
      {LW_FN_MIN, 1, nan, 0, nan},    {LW_FN_MAX, nan, 1, 0, nan},
      {LW_FN_MAX, 1, nan, 0, nan},    {LW_FN_MIN, 1, 2, 0, 1},
      {LW_FN_MAX, 1, 2, 0, 2},        {LW_FN_MAX, -inf, 2, 0, 2},
      {LW_FN_POW, 2, -1, 0, 0.5},     {LW_FN_POW, -8, 2, 0, 64},
      {LW_FN_POW, 0, 0, 0, 1},        {LW_FN_NEG, 0, 0, 0, -0.0},
      {LW_FN_ABS, -0.0, 0, 0, 0},     {LW_FN_SIGN, nan, 0, 0, nan},
      {LW_FN_SIGN, -0.0, 0, 0, -0.0}, {LW_FN_SIGN, -3, 0, 0, -1},
      {LW_FN_SIGN, inf, 0, 0, 1},     {LW_FN_ROUND, 0.5, 0, 0, 0},
      {LW_FN_ROUND, 1.5, 0, 0, 2},    {LW_FN_ROUND, 2.5, 0, 0, 2},
      {LW_FN_ROUND, -2.5, 0, 0, -2},  {LW_FN_ROUND, -0.5, 0, 0, -0.0},
      {LW_FN_FLOOR, -0.5, 0, 0, -1},  {LW_FN_CEIL, -0.5, 0, 0, -0.0},
      {LW_FN_TRUNC, -1.5, 0, 0, -1},  {LW_FN_RECIP, 4, 0, 0, 0.25},
      {LW_FN_RSQRT, 4, 0, 0, 0.5},    {LW_FN_RSQRT, 0, 0, 0, inf},
      {LW_FN_SQRT, -1, 0, 0, nan},    {LW_FN_SIGMOID, 0, 0, 0, 0.5},
      {LW_FN_SIGMOID, -inf, 0, 0, 0}, {LW_FN_SIGMOID, inf, 0, 0, 1},
      {LW_FN_EQ, nan, nan, 0, 0},     {LW_FN_NE, nan, nan, 0, 1},
      {LW_FN_LE, 1, 1, 0, 1},         {LW_FN_GT, nan, 1, 0, 0},
      {LW_FN_ISNAN, nan, 0, 0, 1},    {LW_FN_ISNAN, inf, 0, 0, 0},
      {LW_FN_ISINF, -inf, 0, 0, 1},   {LW_FN_ISINF, nan, 0, 0, 0},
      {LW_FN_NOT, 0, 0, 0, 1},        {LW_FN_XOR, 1, 1, 0, 0},
      {LW_FN_AND, 1, 0, 0, 0},        {LW_FN_OR, 1, 0, 0, 1},
      {LW_FN_SELECT, 1, 2, 3, 2},     {LW_FN_SELECT, 0, 2, 3, 3},
  };
  for (size_t i = 0; i < LW_ARRAY_COUNT(cases); i++) {
    const f64_case *c = &cases[i];
    double got = lw__fn_eval_f64(c->fn, c->a, c->b, c->c);
    bool same =
        isnan(c->result) ? isnan(got) : got == c->result && signbit(got) == signbit(c->result);
    if (!same)
      fail_msg("%s(%g, %g, %g) = %g, not %g", lw__fn_info[c->fn].name, c->a, c->b, c->c, got,
               c->result);
  }
  assert_true(lw__fn_eval_f64(LW_FN_SIGMOID, -700, 0, 0) >
              0); /* does not vanish where 1/(1+exp(700)) is tiny */
}

/* Each function named after its libm twin, at one point each: the switch mixes none of them up. */
static void test_libm_twins(void **state) {
  (void)state;
  const struct {
    lw_fn fn;
    double x, y;
  } twins[] = {
      {LW_FN_EXP, 0.3, exp(0.3)},     {LW_FN_EXPM1, 0.3, expm1(0.3)},
      {LW_FN_LOG, 0.3, log(0.3)},     {LW_FN_LOG1P, 0.3, log1p(0.3)},
      {LW_FN_ERF, 0.3, erf(0.3)},     {LW_FN_TANH, 0.3, tanh(0.3)},
      {LW_FN_SIN, 0.3, sin(0.3)},     {LW_FN_COS, 0.3, cos(0.3)},
      {LW_FN_TAN, 0.3, tan(0.3)},     {LW_FN_ASIN, 0.3, asin(0.3)},
      {LW_FN_ACOS, 0.3, acos(0.3)},   {LW_FN_ATAN, 0.3, atan(0.3)},
      {LW_FN_SINH, 0.3, sinh(0.3)},   {LW_FN_COSH, 0.3, cosh(0.3)},
      {LW_FN_ASINH, 0.3, asinh(0.3)}, {LW_FN_ACOSH, 1.3, acosh(1.3)},
      {LW_FN_ATANH, 0.3, atanh(0.3)}, {LW_FN_SQRT, 0.3, sqrt(0.3)},
  };
  for (size_t i = 0; i < LW_ARRAY_COUNT(twins); i++) {
    double got = lw__fn_eval_f64(twins[i].fn, twins[i].x, 0,
                                 0); /* the compiler may round its constants better */
    assert_true(fabs(got - twins[i].y) <= 1e-15 * fabs(twins[i].y));
  }
  assert_true(fabs(lw__fn_eval_f64(LW_FN_ATAN2, -1, -1, 0) - atan2(-1, -1)) < 1e-15);
  for (int f = 0; f < LW_FN_COUNT; f++) { /* every function with a float spelling means something */
    if (lw__fn_info[f].float_spelling[0] != '\0')
      assert_false(isnan(lw__fn_eval_f64((lw_fn)f, 1, 1, 1)));
  }
}

typedef struct int_case {
  lw_fn fn;
  lw_dtype dtype;
  int64_t a, b, result;
} int_case;
#define I(fn, dtype, a, b, result) \
  { LW_FN_##fn, LW_DTYPE_##dtype, a, b, result }

static void test_integers(void **state) {
  (void)state;
  const int64_t big = (int64_t)UINT64_MAX; /* the bits of the largest u64 */
  const int_case cases[] = {
      I(ADD, I8, 127, 1, -128),
      I(ADD, U8, 255, 1, 0),
      I(SUB, U16, 0, 1, 65535),
      I(MUL, I32, 65536, 65536, 0),
      I(MUL, I64, INT64_MIN, -1, INT64_MIN),
      I(NEG, U32, 1, 0, UINT32_MAX),
      I(NEG, I8, -128, 0, -128),
      I(ABS, I8, -128, 0, -128),
      I(ABS, I64, INT64_MIN, 0, INT64_MIN),
      I(ABS, U64, big, 0, big),
      I(ABS, I32, -5, 0, 5),
      I(DIV, I32, -7, 2, -3),
      I(DIV, I32, 7, 0, 0),
      I(DIV, I32, INT32_MIN, -1, INT32_MIN),
      I(DIV, I64, INT64_MIN, -1, INT64_MIN),
      I(DIV, U64, big, 2, INT64_MAX),
      I(DIV, U64, 1, 0, 0),
      I(DIV, U8, 200, 7, 28),
      I(MOD, I32, -7, 3, 2),
      I(MOD, I32, 7, -3, -2),
      I(MOD, I32, 7, 0, 0),
      I(MOD, I64, INT64_MIN, -1, 0),
      I(MOD, U64, big, 10, 5),
      I(REM, I32, -7, 3, -1),
      I(REM, I32, 7, -3, 1),
      I(REM, I32, 7, 0, 0),
      I(REM, I64, INT64_MIN, -1, 0),
      I(MIN, I8, -1, 1, -1),
      I(MIN, U64, big, 1, 1),
      I(MAX, U64, big, 1, big),
      I(MAX, I64, -1, 1, 1),
      I(POW, I32, 3, 4, 81),
      I(POW, I8, 2, 7, -128),
      I(POW, I32, 0, 0, 1),
      I(POW, I32, 2, -1, 0),
      I(POW, I32, 1, -5, 1),
      I(POW, I32, -1, -5, -1),
      I(POW, I32, -1, -4, 1),
      I(POW, I32, 0, -1, 0),
      I(POW, I64, 3, INT64_MAX, (int64_t)0xAAAAAAAAAAAAAAAB),
      I(POW, U64, 3, 2, 9),
      I(SIGN, I8, -5, 0, -1),
      I(SIGN, U64, big, 0, 1),
      I(SIGN, I8, 0, 0, 0),
      I(LT, U64, big, 1, 0),
      I(LT, I64, -1, 1, 1),
      I(LE, I8, 1, 1, 1),
      I(GT, U64, big, 1, 1),
      I(GE, I8, -1, 0, 0),
      I(GT, I8, 1, 1, 0),
      I(EQ, BOOL, 1, 1, 1),
      I(NE, I8, 1, 1, 0),
      I(NOT, BOOL, 0, 0, 1),
      I(AND, BOOL, 1, 0, 0),
      I(OR, BOOL, 1, 0, 1),
      I(XOR, BOOL, 1, 1, 0),
      I(BITNOT, U8, 1, 0, 254),
      I(BITNOT, I8, 1, 0, -2),
      I(BITAND, I8, -2, 7, 6),
      I(BITOR, U8, 1, 6, 7),
      I(BITXOR, I8, -1, 1, -2),
      I(SHL, U8, 3, 7, 128),
      I(SHL, U8, 3, 8, 0),
      I(SHL, I32, 1, 31, INT32_MIN),
      I(SHL, I64, 1, 64, 0),
      I(SHL, I8, 1, -1, 0),
      I(SHR, U8, 200, 3, 25),
      I(SHR, I8, -128, 3, -16),
      I(SHR, U64, big, 63, 1),
      I(SHR, U64, big, 64, 0),
      I(SHR, I8, -1, 9, -1),
      I(SHR, I64, INT64_MAX, 99, 0),
  };
  for (size_t i = 0; i < LW_ARRAY_COUNT(cases); i++) {
    const int_case *c = &cases[i];
    int64_t got = lw__fn_eval_i64(c->fn, c->dtype, c->a, c->b, 0);
    if (got != c->result) {
      fail_msg("%s.%s(%lld, %lld) = %lld, not %lld", lw__fn_info[c->fn].name,
               lw_dtype_name(c->dtype), (long long)c->a, (long long)c->b, (long long)got,
               (long long)c->result);
    }
  }
  assert_int_equal(lw__fn_eval_i64(LW_FN_SELECT, LW_DTYPE_I8, 0, 2, 3), 3);
  assert_int_equal(lw__fn_eval_i64(LW_FN_SELECT, LW_DTYPE_I8, 1, 2, 3), 2);
}

static int64_t cast_to_int(double x, lw_dtype to) {
  return lw__cast((lw_scalar){.f = x}, LW_DTYPE_F64, to).i;
}
static double cast_to_float(int64_t x, lw_dtype from, lw_dtype to) {
  return lw__cast((lw_scalar){.i = x}, from, to).f;
}

static void test_casts(void **state) {
  (void)state;
  assert_int_equal(cast_to_int(-1.9, LW_DTYPE_I32), -1);
  assert_int_equal(cast_to_int(300, LW_DTYPE_U8), 255);
  assert_int_equal(cast_to_int(-1, LW_DTYPE_U8), 0);
  assert_int_equal(cast_to_int(-1e30, LW_DTYPE_I8), -128);
  assert_int_equal(cast_to_int(NAN, LW_DTYPE_I64), 0);
  assert_true(cast_to_int(INFINITY, LW_DTYPE_I64) == INT64_MAX);
  assert_true(cast_to_int(-INFINITY, LW_DTYPE_I64) == INT64_MIN);
  assert_true(cast_to_int(0x1p63, LW_DTYPE_I64) == INT64_MAX);
  assert_true(cast_to_int(0x1p63, LW_DTYPE_U64) == INT64_MIN);
  assert_true(cast_to_int(0x1p64, LW_DTYPE_U64) == -1);
  assert_true(cast_to_int(-0x1p63, LW_DTYPE_I64) == INT64_MIN);
  assert_int_equal(cast_to_int(0.25, LW_DTYPE_BOOL), 1);
  assert_int_equal(cast_to_int(NAN, LW_DTYPE_BOOL), 1);
  assert_int_equal(cast_to_int(-0.0, LW_DTYPE_BOOL), 0);
  assert_int_equal(lw__cast((lw_scalar){.i = 300}, LW_DTYPE_I32, LW_DTYPE_I8).i, 44);
  assert_int_equal(lw__cast((lw_scalar){.i = -1}, LW_DTYPE_I32, LW_DTYPE_U16).i, 65535);
  assert_int_equal(lw__cast((lw_scalar){.i = 256}, LW_DTYPE_I32, LW_DTYPE_BOOL).i, 1);
  assert_true(cast_to_float(-1, LW_DTYPE_U64, LW_DTYPE_F64) == 0x1p64);
  assert_true(cast_to_float(-1, LW_DTYPE_I64, LW_DTYPE_F32) == -1);
  assert_true(cast_to_float(1, LW_DTYPE_BOOL, LW_DTYPE_F16) == 1);
  assert_true(lw__cast((lw_scalar){.f = 70000}, LW_DTYPE_F32, LW_DTYPE_F16).f == INFINITY);
  assert_true(lw__cast((lw_scalar){.f = 1 + 0x1p-20}, LW_DTYPE_F32, LW_DTYPE_BF16).f == 1);
}

/* Integers go to f32 in one rounding, as C does it, also where a double cannot hold them. */
static void test_one_rounding(void **state) {
  (void)state;
  lw_rng rng;
  lw__rng_seed(&rng, 5);
  for (int i = 0; i < 20000; i++) {
    int64_t x = (int64_t)lw__rng_u64(&rng);
    if (i % 2 == 0)
      x = (x & -(INT64_C(1) << 40)) + (INT64_C(1) << 39) +
          lw__rng_range(&rng, -2, 3); /* about half way */
    assert_true(cast_to_float(x, LW_DTYPE_I64, LW_DTYPE_F32) == (double)(float)x);
    assert_true(cast_to_float(x, LW_DTYPE_U64, LW_DTYPE_F32) == (double)(float)(uint64_t)x);
  }
}

int main(void) {
  const struct CMUnitTest tests[] = {
      cmocka_unit_test(test_tables),     cmocka_unit_test(test_result_types),
      cmocka_unit_test(test_identities), cmocka_unit_test(test_floats),
      cmocka_unit_test(test_libm_twins), cmocka_unit_test(test_integers),
      cmocka_unit_test(test_casts),      cmocka_unit_test(test_one_rounding),
  };
  return cmocka_run_group_tests(tests, NULL, NULL);
}

/* test_elem.c: elements by type: wrapping, rounding, limits, unaligned arrays. */
#include <float.h>
#include <math.h>

#include "unit.h"

static const lw_dtype elem_ints[] = {LW_DTYPE_I8, LW_DTYPE_I16, LW_DTYPE_I32, LW_DTYPE_I64,
                                     LW_DTYPE_U8, LW_DTYPE_U16, LW_DTYPE_U32, LW_DTYPE_U64};

/* |x| modulo 2^bits of the type, as a number of that type. */
static int64_t wrap(lw_dtype t, __int128 x) {
  int bits = (int)lw_dtype_size_bytes(t) * 8;
  __int128 modulus = (__int128)1 << bits;
  __int128 rest = ((x % modulus) + modulus) % modulus;
  if (lw__dtype_is_signed(t) && rest >= modulus / 2) rest -= modulus;
  return (int64_t)(uint64_t)rest;
}

static void test_integers(void **state) {
  (void)state;
  lw_rng rng;
  lw__rng_seed(&rng, 5);
  for (size_t k = 0; k < LW_ARRAY_COUNT(elem_ints); k++) {
    lw_dtype t = elem_ints[k];
    for (int i = 0; i < 2000; i++) {
      unsigned char data[64];
      memset(data, 0xa5, sizeof data);
      int64_t x = (int64_t)(lw__rng_u64(&rng) >> lw__rng_range(&rng, 0, 64));
      if (i % 2 != 0) x = -x;
      lw__elem_set_i64(t, data + 1, 3, x);
      assert_true(lw__elem_get_i64(t, data + 1, 3) == wrap(t, x));
      size_t size = lw_dtype_size_bytes(t);
      assert_int_equal(data[3 * size], 0xa5); /* the byte before, the byte behind */
      assert_int_equal(data[1 + 4 * size], 0xa5);
      double d = trunc(ldexp(lw__rng_uniform(&rng) - 0.5, (int)lw__rng_range(&rng, 0, 90)));
      lw__elem_set_f64(t, data + 1, 1, d + (fabs(d) < 1e6 ? copysign(0.75, d) : 0));
      assert_true(lw__elem_get_i64(t, data + 1, 1) == wrap(t, (__int128)d));
    }
  }
}

static void test_integer_edges(void **state) {
  (void)state;
  unsigned char data[8];
  for (size_t k = 0; k < LW_ARRAY_COUNT(elem_ints); k++) {
    static const double zeros[] = {NAN, INFINITY, -INFINITY, 0.999, -0.999, 0x1p64, 0x1p1000};
    for (size_t i = 0; i < LW_ARRAY_COUNT(zeros); i++) {
      memset(data, 0xff, sizeof data);
      lw__elem_set_f64(elem_ints[k], data, 0, zeros[i]);
      assert_int_equal(lw__elem_get_i64(elem_ints[k], data, 0), 0);
    }
  }
  lw__elem_set_f64(LW_DTYPE_U64, data, 0, 0x1.fffffffffffffp63);
  assert_true(lw__elem_get_f64(LW_DTYPE_U64, data, 0) == 0x1.fffffffffffffp63);
  assert_true(lw__elem_get_i64(LW_DTYPE_U64, data, 0) == -2048); /* the same bits */
  lw__elem_set_f64(LW_DTYPE_I64, data, 0, -0x1p63);
  assert_true(lw__elem_get_i64(LW_DTYPE_I64, data, 0) == INT64_MIN);
  lw__elem_set_f64(LW_DTYPE_BOOL, data, 0, 0.25);
  assert_int_equal(data[0], 1);
  lw__elem_set_f64(LW_DTYPE_BOOL, data, 0, -0.0);
  assert_int_equal(data[0], 0);
  lw__elem_set_i64(LW_DTYPE_BOOL, data, 0, 256);
  assert_int_equal(data[0], 1);
  data[0] = 2; /* any other byte reads as true */
  assert_int_equal(lw__elem_get_i64(LW_DTYPE_BOOL, data, 0), 1);
  assert_true(lw__elem_get_f64(LW_DTYPE_BOOL, data, 0) == 1);
}

static void test_floats(void **state) {
  (void)state;
  unsigned char data[64];
  for (int t = LW_DTYPE_F16; t < LW_DTYPE_COUNT; t++) {
    lw_dtype dtype = (lw_dtype)t;
    static const double values[] = {0, -1, 1.5, 2.0 / 3, -1e-3, 100.3, 0x1p-9};
    for (size_t i = 0; i < LW_ARRAY_COUNT(values); i++) {
      lw__elem_set_f64(dtype, data + 1, (int64_t)(i % 3), values[i]);
      double x = lw__elem_get_f64(dtype, data + 1, (int64_t)(i % 3));
      assert_true(x == lw__round_to(dtype, values[i]));
      double slack = lw__dtype_unit_roundoff(dtype) * fabs(values[i]) + 0x1p-10;
      assert_true(fabs(x - values[i]) <= slack);
    }
    double largest = lw__dtype_largest(dtype);
    assert_true(lw__round_to(dtype, largest) == largest);
    assert_true(lw__round_to(dtype, -largest) == lw__dtype_lowest(dtype));
    assert_false(isfinite(lw__round_to(dtype, largest * 1.5)));
    double u = lw__dtype_unit_roundoff(dtype);
    assert_true(lw__round_to(dtype, 1 + u) == 1); /* a tie, to even */
    assert_true(lw__round_to(dtype, 1 + 2 * u) == 1 + 2 * u);
    assert_true(lw__round_to(dtype, 1 - u) == 1 - u);
  }
  assert_true(lw__round_to(LW_DTYPE_F32, 0.1) == (double)0.1f);
  assert_true(lw__round_to(LW_DTYPE_I32, 0.1) == 0.1);
  lw__elem_set_f64(LW_DTYPE_F32, data, 0, 300.9);
  assert_int_equal(lw__elem_get_i64(LW_DTYPE_F32, data, 0), 300);
}

/* Integers beyond 2^53 reach narrow floats with one rounding, not two. */
static void test_integers_to_floats(void **state) {
  (void)state;
  unsigned char data[8];
  lw_rng rng;
  lw__rng_seed(&rng, 6);
  for (int i = 0; i < 20000; i++) {
    int64_t x = (int64_t)(lw__rng_u64(&rng) >> lw__rng_range(&rng, 1, 60));
    /* Ties of f32 and of bf16, or a little beside one. */
    if (i % 4 == 0) x = (x & 0x1ffff) << 38 | INT64_C(1) << 62 | (i & 8);
    if (i % 4 == 1) {
      x = (INT64_C(0x80) + (i >> 2 & 3)) << 55 | INT64_C(1) << 54;
      x += lw__rng_range(&rng, -2, 3);
    }
    if (i % 2 != 0) x = -x;
    lw__elem_set_i64(LW_DTYPE_F32, data, 0, x);
    assert_true(lw__elem_get_f64(LW_DTYPE_F32, data, 0) == (double)(float)x);
    lw__elem_set_i64(LW_DTYPE_F64, data, 0, x);
    assert_true(lw__elem_get_f64(LW_DTYPE_F64, data, 0) == (double)x);
    lw__elem_set_i64(LW_DTYPE_BF16, data, 0, x);
    /* Nearest in exact integers: the distance to the result is at most that to either neighbour. */
    __int128 got = (__int128)lw__elem_get_f64(LW_DTYPE_BF16, data, 0);
    __int128 away = got > x ? got - x : x - got;
    uint16_t code;
    memcpy(&code, data, sizeof code);
    for (int step = -1; step <= 1 && x != 0; step += 2) {
      double neighbour = lw__bf16_to_f64((uint16_t)(code + step));
      __int128 other = (__int128)neighbour - x;
      if (other < 0) other = -other;
      assert_true(away < other || (away == other && code % 2 == 0));
    }
  }
}

static void test_limits(void **state) {
  (void)state;
  assert_true(lw__dtype_lowest(LW_DTYPE_I8) == -128);
  assert_true(lw__dtype_largest(LW_DTYPE_I8) == 127);
  assert_true(lw__dtype_lowest(LW_DTYPE_U16) == 0);
  assert_true(lw__dtype_largest(LW_DTYPE_U32) == 4294967295.0);
  assert_true(lw__dtype_lowest(LW_DTYPE_I64) == -0x1p63);
  assert_true(lw__dtype_largest(LW_DTYPE_F16) == 65504);
  assert_true(lw__dtype_largest(LW_DTYPE_F32) == FLT_MAX);
  assert_true(lw__dtype_largest(LW_DTYPE_F64) == DBL_MAX);
  assert_true(lw__dtype_unit_roundoff(LW_DTYPE_F32) == FLT_EPSILON / 2);
  assert_true(lw__dtype_unit_roundoff(LW_DTYPE_I32) == 0);
  assert_true(lw__dtype_largest((lw_dtype)99) == 0);
}

int main(void) {
  const struct CMUnitTest tests[] = {
      cmocka_unit_test(test_integers), cmocka_unit_test(test_integer_edges),
      cmocka_unit_test(test_floats),   cmocka_unit_test(test_integers_to_floats),
      cmocka_unit_test(test_limits),
  };
  return cmocka_run_group_tests(tests, NULL, NULL);
}

/* test_narrow.c: narrow floats, checked against their definitions and against a search for the
 * nearest value, never against the code under test. */
#include <math.h>

#include "unit.h"

typedef struct narrow_type {
  const char *name;
  int exponent_bits, mantissa_bits;
  bool has_infinity;
  lw_dtype dtype;
  uint32_t finite_codes; /* those that are not negative */
} narrow_type;

static const narrow_type narrow_types[] = {
    {"f16", 5, 10, true, LW_DTYPE_F16, 0x7c00},
    {"bf16", 8, 7, true, LW_DTYPE_BF16, 0x7f80},
    {"f8e4m3", 4, 3, false, LW_DTYPE_F8E4M3, 0x7f},
    {"f8e5m2", 5, 2, true, LW_DTYPE_F8E5M2, 0x7c},
};

static double decode(const narrow_type *t, uint32_t code) {
  switch (t->dtype) {
    case LW_DTYPE_F16: return lw__f16_to_f64((uint16_t)code);
    case LW_DTYPE_BF16: return lw__bf16_to_f64((uint16_t)code);
    case LW_DTYPE_F8E4M3: return lw__f8e4m3_to_f64((uint8_t)code);
    default: return lw__f8e5m2_to_f64((uint8_t)code);
  }
}

static uint32_t encode(const narrow_type *t, double x) {
  switch (t->dtype) {
    case LW_DTYPE_F16: return lw__f64_to_f16(x);
    case LW_DTYPE_BF16: return lw__f64_to_bf16(x);
    case LW_DTYPE_F8E4M3: return lw__f64_to_f8e4m3(x);
    default: return lw__f64_to_f8e5m2(x);
  }
}

static uint32_t sign_bit(const narrow_type *t) {
  return 1u << (t->exponent_bits + t->mantissa_bits);
}

/* The value of a code by the formula of the standards, in plain arithmetic. */
static double define(const narrow_type *t, uint32_t code) {
  uint32_t magnitude = code & (sign_bit(t) - 1);
  double sign = (code & sign_bit(t)) != 0 ? -1 : 1;
  int exponent = (int)(magnitude >> t->mantissa_bits);
  int all_ones = (1 << t->exponent_bits) - 1;
  double fraction = ldexp(magnitude & ((1u << t->mantissa_bits) - 1), -t->mantissa_bits);
  int bias = (1 << (t->exponent_bits - 1)) - 1;
  if (t->has_infinity && exponent == all_ones) return fraction == 0 ? sign * INFINITY : NAN;
  if (!t->has_infinity && magnitude == sign_bit(t) - 1) return NAN;
  if (exponent == 0) return sign * ldexp(fraction, 1 - bias);
  return sign * ldexp(1 + fraction, exponent - bias);
}

static void test_every_code(void **state) {
  (void)state;
  for (size_t k = 0; k < LW_ARRAY_COUNT(narrow_types); k++) {
    const narrow_type *t = &narrow_types[k];
    for (uint32_t code = 0; code < 2 * sign_bit(t); code++) {
      double expected = define(t, code), x = decode(t, code);
      assert_true(isfinite(expected) == ((code & (sign_bit(t) - 1)) < t->finite_codes));
      if (isnan(expected)) {
        assert_true(isnan(x));
        assert_true(isnan(decode(t, encode(t, x))));
        assert_true(signbit(x) == ((code & sign_bit(t)) != 0));
      } else {
        assert_true(unit_bits(x) == unit_bits(expected)); /* with the sign of zero */
        assert_int_equal(encode(t, x), code);
      }
    }
  }
}

/* The code nearest to |x| >= 0 by bisection over the values, ties to the even code. What is beyond
 * the largest value belongs to the next one of the same spacing, whose code stands for overflow. */
static uint32_t search(const narrow_type *t, double x) {
  uint32_t lo = 0, hi = t->finite_codes; /* value(lo) <= x < value(hi) */
  double largest = define(t, hi - 1), beyond = 2 * largest - define(t, hi - 2);
  if (x >= beyond) return hi;
  while (hi - lo > 1) {
    uint32_t middle = lo + (hi - lo) / 2;
    if (define(t, middle) <= x) {
      lo = middle;
    } else {
      hi = middle;
    }
  }
  double below = define(t, lo), above = hi == t->finite_codes ? beyond : define(t, hi);
  double down = x - below, up = above - x; /* exact: neighbours are within a factor of two, or 0 */
  if (down != up) return down < up ? lo : hi;
  return (lo & 1) == 0 ? lo : hi;
}

static void check_nearest(const narrow_type *t, double x) {
  uint32_t expected = search(t, fabs(x));
  if (signbit(x)) expected |= sign_bit(t);
  if (encode(t, x) != expected) {
    print_error("%s: %a gives 0x%x, not 0x%x\n", t->name, x, encode(t, x), expected);
  }
  assert_int_equal(encode(t, x), expected);
}

static void test_around_every_tie(void **state) {
  (void)state;
  for (size_t k = 0; k < LW_ARRAY_COUNT(narrow_types); k++) {
    const narrow_type *t = &narrow_types[k];
    uint32_t codes = t->finite_codes;
    double largest = define(t, codes - 1);
    for (uint32_t code = 0; code < codes; code++) {
      double here = define(t, code);
      double next = code + 1 < codes ? define(t, code + 1) : 2 * largest - define(t, codes - 2);
      double tie = here + (next - here) / 2;
      check_nearest(t, tie);
      check_nearest(t, -tie);
      check_nearest(t, nextafter(tie, 0));
      check_nearest(t, nextafter(tie, INFINITY));
      check_nearest(t, nextafter(here, INFINITY));
      check_nearest(t, nextafter(here, 0));
      /* A tie but for what a float cannot hold: going through f32 would round twice. */
      check_nearest(t, tie + (next - here) * 0x1p-30);
      check_nearest(t, tie - (next - here) * 0x1p-30);
    }
  }
}

static void test_random_doubles(void **state) {
  (void)state;
  lw_rng rng;
  lw__rng_seed(&rng, 3);
  for (int i = 0; i < 400000; i++) {
    const narrow_type *t = &narrow_types[i % 4];
    int bias = (1 << (t->exponent_bits - 1)) - 1;
    int exponent = (int)lw__rng_range(&rng, -bias - t->mantissa_bits - 4, bias + 4);
    check_nearest(t, ldexp(1 + lw__rng_uniform(&rng), exponent) * (i & 8 ? 1 : -1));
  }
  for (int i = 0; i < 100000; i++) { /* any bits */
    uint64_t bits = lw__rng_u64(&rng);
    double x;
    memcpy(&x, &bits, sizeof x);
    const narrow_type *t = &narrow_types[i % 4];
    if (isnan(x)) {
      assert_true(isnan(decode(t, encode(t, x))));
    } else {
      check_nearest(t, x);
    }
  }
}

static void test_special_values(void **state) {
  (void)state;
  assert_int_equal(lw__f64_to_f16(INFINITY), 0x7c00);
  assert_int_equal(lw__f64_to_f16(-INFINITY), 0xfc00);
  assert_int_equal(lw__f64_to_f16(65519.999), 0x7bff);
  assert_int_equal(lw__f64_to_f16(65520), 0x7c00);
  assert_int_equal(lw__f64_to_f16(0x1p-25), 0);
  assert_int_equal(lw__f64_to_f16(nextafter(0x1p-25, 1)), 1);
  assert_int_equal(lw__f64_to_f16(-0.0), 0x8000);
  assert_int_equal(lw__f64_to_f16(1), 0x3c00);
  assert_int_equal(lw__f64_to_bf16(1), 0x3f80);
  assert_int_equal(lw__f64_to_bf16(0x1.ffp127), 0x7f80);
  assert_int_equal(lw__f64_to_bf16(0x1p-134), 0);
  assert_int_equal(lw__f64_to_bf16(0x1.8p-134), 1);
  assert_int_equal(lw__f64_to_f8e4m3(448), 0x7e);
  assert_int_equal(lw__f64_to_f8e4m3(464), 0x7e); /* the tie goes to the even code */
  assert_int_equal(lw__f64_to_f8e4m3(464.0001), 0x7f);
  assert_int_equal(lw__f64_to_f8e4m3(-INFINITY), 0xff);
  assert_true(isnan(lw__f8e4m3_to_f64(0xff)));
  assert_int_equal(lw__f64_to_f8e5m2(57344), 0x7b);
  assert_int_equal(lw__f64_to_f8e5m2(61440), 0x7c);
  assert_int_equal(lw__f64_to_f8e5m2(5e-324), 0);
  assert_true(isnan(lw__f16_to_f64(lw__f64_to_f16(NAN))));
}

int main(void) {
  const struct CMUnitTest tests[] = {
      cmocka_unit_test(test_every_code),
      cmocka_unit_test(test_around_every_tie),
      cmocka_unit_test(test_random_doubles),
      cmocka_unit_test(test_special_values),
  };
  return cmocka_run_group_tests(tests, NULL, NULL);
}

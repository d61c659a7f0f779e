/* test_rng.c: random numbers: fixed vectors and plain statistics. */
#include <math.h>

#include "unit.h"

/* Computed from the published definitions of both generators in another language. */
static void test_vectors(void **state) {
  (void)state;
  static const uint64_t expected[4] = {UINT64_C(0x15780b2e0c2ec716), UINT64_C(0x6104d9866d113a7e),
                                       UINT64_C(0xae17533239e499a1), UINT64_C(0xecb8ad4703b360a1)};
  lw_rng rng;
  lw__rng_seed(&rng, 42);
  for (int i = 0; i < 4; i++) assert_true(lw__rng_u64(&rng) == expected[i]);
}

static void test_range(void **state) {
  (void)state;
  lw_rng rng;
  lw__rng_seed(&rng, 7);
  int count[6] = {0};
  for (int i = 0; i < 60000; i++) {
    int64_t x = lw__rng_range(&rng, -3, 3);
    assert_true(x >= -3 && x < 3);
    count[x + 3]++;
  }
  for (int i = 0; i < 6; i++) assert_in_range(count[i], 9500, 10500);
  assert_int_equal(lw__rng_range(&rng, 5, 5), 5);
  assert_int_equal(lw__rng_range(&rng, 5, 6), 5);
  bool negative = false, positive = false;
  for (int i = 0; i < 100; i++) {
    int64_t x = lw__rng_range(&rng, INT64_MIN, INT64_MAX);
    negative |= x < 0;
    positive |= x > 0;
  }
  assert_true(negative && positive);
}

static void test_moments(void **state) {
  (void)state;
  lw_rng rng;
  lw__rng_seed(&rng, 9);
  enum { draws = 200000 };
  double sum_u = 0, sum_n = 0, square_n = 0, fourth_n = 0;
  for (int i = 0; i < draws; i++) {
    double u = lw__rng_uniform(&rng), n = lw__rng_normal(&rng);
    assert_true(u >= 0 && u < 1);
    assert_true(isfinite(n));
    sum_u += u;
    sum_n += n;
    square_n += n * n;
    fourth_n += n * n * n * n;
  }
  assert_true(fabs(sum_u / draws - 0.5) < 0.005);
  assert_true(fabs(sum_n / draws) < 0.02);
  assert_true(fabs(square_n / draws - 1) < 0.02);
  assert_true(fabs(fourth_n / draws - 3) < 0.2);
}

int main(void) {
  const struct CMUnitTest tests[] = {
      cmocka_unit_test(test_vectors),
      cmocka_unit_test(test_range),
      cmocka_unit_test(test_moments),
  };
  return cmocka_run_group_tests(tests, NULL, NULL);
}

/* Strided memory: spans, overlap, and copies against the plain definition. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <string.h>

#include <cmocka.h>

#include "api/strided.h"

static void packed_strides(void **state) {
  (void)state;
  const int64_t dims[4] = {2, 3, 4, 5};
  int64_t strides[4];
  lw__strided_packed(4, dims, false, strides);
  const int64_t rows[4] = {60, 20, 5, 1};
  assert_memory_equal(strides, rows, sizeof rows);
  lw__strided_packed(4, dims, true, strides);
  const int64_t nhwc[4] = {60, 1, 15, 3};
  assert_memory_equal(strides, nhwc, sizeof nhwc);
  lw__strided_packed(3, dims, true, strides);
  const int64_t three[3] = {12, 4, 1};
  assert_memory_equal(strides, three, sizeof three);
}

static void sameness_ignores_extents_of_one(void **state) {
  (void)state;
  const int64_t dims[3] = {1, 4, 2}, a[3] = {77, 2, 1}, b[3] = {8, 2, 1}, c[3] = {8, 1, 4};
  const int64_t empty[3] = {1, 0, 2};
  assert_true(lw__strided_same(3, dims, a, b));
  assert_false(lw__strided_same(3, dims, a, c));
  assert_true(lw__strided_same(3, empty, a, c));
}

static void spans(void **state) {
  (void)state;
  int64_t lo, hi;
  const int64_t dims[2] = {3, 4}, mixed[2] = {-10, 2}, huge[2] = {INT64_MAX / 2, 1};
  const int64_t worst[2] = {INT64_MIN, INT64_MIN}, none[2] = {0, 4};
  assert_true(lw__strided_span(2, dims, mixed, 4, &lo, &hi));
  assert_int_equal(lo, -20);
  assert_int_equal(hi, 7);
  assert_false(lw__strided_span(2, dims, huge, 4, &lo, &hi));
  assert_false(lw__strided_span(2, dims, worst, 1, &lo, &hi));
  assert_true(lw__strided_span(2, none, worst, 4, &lo, &hi));
  assert_int_equal(hi - lo, 0);
  assert_true(lw__strided_span(0, dims, mixed, 4, &lo, &hi));
  assert_int_equal(hi - lo, 1);
}

static void overlap(void **state) {
  (void)state;
  const int64_t dims[2] = {3, 4};
  static const struct {
    int64_t strides[2];
    bool overlaps;
  } cases[] = {{{4, 1}, false}, {{1, 3}, false}, {{-4, -1}, false}, {{8, 2}, false},
               {{0, 1}, true},  {{3, 1}, true},  {{1, 1}, true},    {{1, 2}, true}};
  for (size_t i = 0; i < LW_ARRAY_COUNT(cases); i++) {
    assert_int_equal(lw__strided_overlaps(2, dims, cases[i].strides), cases[i].overlaps);
  }
  const int64_t ones[2] = {1, 1}, zero[2] = {0, 0};
  assert_false(lw__strided_overlaps(2, ones, zero));
}

/* Random layouts: a permuted, stretched, mirrored destination holds exactly the source's elements.
 */
static void copies(void **state) {
  (void)state;
  lw_rng rng;
  lw__rng_seed(&rng, 11);
  static const size_t sizes[] = {1, 2, 4, 8};
  for (int round = 0; round < 3000; round++) {
    size_t elem = sizes[lw__rng_range(&rng, 0, 4)];
    int rank = (int)lw__rng_range(&rng, 0, 5);
    int64_t dims[4], packed[4], strides[4], step = 1, base = 0, count = 1;
    for (int d = 0; d < rank; d++) dims[d] = lw__rng_range(&rng, round % 7 == 0 ? 0 : 1, 5);
    lw__strided_packed(rank, dims, false, packed);
    int first = rank > 0 ? (int)lw__rng_range(&rng, 0, rank) : 0;
    for (int k = 0; k < rank; k++) { /* dims in a rotated order, with gaps, some mirrored */
      int d = (first + k) % rank;
      bool mirrored = lw__rng_range(&rng, 0, 3) == 0;
      strides[d] = mirrored ? -step : step;
      if (mirrored && dims[d] > 0) base += step * (dims[d] - 1);
      step *= (dims[d] > 0 ? dims[d] : 1) + lw__rng_range(&rng, 0, 2);
      count *= dims[d];
    }
    static uint8_t src[8 * 1024], dst[8 * 4096], back[8 * 1024];
    for (size_t i = 0; i < sizeof src; i++) src[i] = (uint8_t)lw__rng_u64(&rng);
    memset(dst, 0xee, sizeof dst);
    memset(back, 0, sizeof back);
    uint8_t *origin = dst + base * (int64_t)elem;
    lw__strided_copy(rank, dims, elem, origin, strides, src, packed);
    lw__strided_copy(rank, dims, elem, back, packed, origin, strides);
    assert_memory_equal(back, src, (size_t)count * elem);
    if (count == 0) assert_int_equal(dst[0], 0xee);
    if (count > 0 && rank == 4) { /* the last element lies where the strides say */
      int64_t last = 0;
      for (int d = 0; d < rank; d++) last += (dims[d] - 1) * strides[d];
      assert_memory_equal(origin + last * (int64_t)elem, src + (size_t)(count - 1) * elem, elem);
    }
  }
}

int main(void) {
  const struct CMUnitTest tests[] = {
      cmocka_unit_test(packed_strides), cmocka_unit_test(sameness_ignores_extents_of_one),
      cmocka_unit_test(spans),          cmocka_unit_test(overlap),
      cmocka_unit_test(copies),
  };
  return cmocka_run_group_tests(tests, NULL, NULL);
}

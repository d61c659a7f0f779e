/* test_mem.c: allocation, its failing on demand, vectors, checked arithmetic. */
#include "unit.h"

static void test_resize(void **state) {
  (void)state;
  void *p = NULL;
  assert_ok(lw__mem_resize(&p, 100));
  assert_int_equal((uintptr_t)p % 16, 0);
  memset(p, 7, 100);
  assert_ok(lw__mem_resize(&p, 100000));
  for (int i = 0; i < 100; i++) assert_int_equal(((unsigned char *)p)[i], 7);
  void *before = p;
  assert_int_equal(lw__mem_resize(&p, SIZE_MAX), LW_STATUS_OUT_OF_MEMORY);
  assert_int_equal(lw__mem_resize(&p, SIZE_MAX / 4), LW_STATUS_OUT_OF_MEMORY);
  assert_ptr_equal(p, before);
  assert_ok(lw__mem_resize(&p, 0));
  assert_null(p);
  lw__mem_free(NULL);
}

static void test_fail_at(void **state) {
  (void)state;
  void *p = NULL;
  lw__mem_fail_at(3);
  assert_ok(lw__mem_resize(&p, 10));
  assert_ok(lw__mem_resize(&p, 20));
  assert_int_equal(lw__mem_resize(&p, 30), LW_STATUS_OUT_OF_MEMORY);
  assert_ok(lw__mem_resize(&p, 40)); /* one failure alone */
  lw__mem_fail_at(1);
  lw__mem_fail_at(0);
  assert_ok(lw__mem_resize(&p, 50));
  lw__mem_free(p);
}

static void test_vector(void **state) {
  (void)state;
  LW_VEC(int64_t) v = {0};
  for (int64_t i = 0; i < 1000; i++) assert_ok(lw_vec_push(&v, i * i));
  assert_int_equal(v.count, 1000);
  assert_true(v.capacity >= 1000);
  for (int64_t i = 0; i < 1000; i++) assert_int_equal(v.data[i], i * i);
  assert_ok(lw_vec_reserve(&v, 5000));
  assert_true(v.capacity >= 6000);
  assert_int_equal(v.count, 1000);
  lw_vec_free(&v);
  assert_null(v.data);
  assert_int_equal(v.capacity, 0);

  typedef struct pair {
    int a, b;
  } pair;
  LW_VEC(pair) pairs = {0};
  assert_ok(lw_vec_push(&pairs, (pair){1, 2}));
  assert_int_equal(pairs.data[0].b, 2);
  lw_vec_free(&pairs);
}

static void test_vector_fails_cleanly(void **state) {
  (void)state;
  LW_VEC(uint16_t) v = {0};
  assert_ok(lw_vec_push(&v, 11));
  while (v.count < v.capacity) assert_ok(lw_vec_push(&v, 12));
  uint32_t count = v.count, capacity = v.capacity;
  lw__mem_fail_at(1);
  assert_int_equal(lw_vec_push(&v, 13), LW_STATUS_OUT_OF_MEMORY);
  assert_int_equal(v.count, count);
  assert_int_equal(v.capacity, capacity);
  assert_int_equal(v.data[0], 11);
  assert_int_equal(lw__vec_grow(&v, 2, UINT32_MAX), LW_STATUS_OUT_OF_MEMORY); /* count overflows */
  assert_int_equal(lw__vec_grow(&v, SIZE_MAX / 4, 1000), LW_STATUS_OUT_OF_MEMORY);
  assert_ok(lw_vec_push(&v, 13));
  lw_vec_free(&v);
}

static void test_arithmetic(void **state) {
  (void)state;
  size_t size = 5;
  assert_false(lw__mul_size(SIZE_MAX, 2, &size));
  assert_int_equal(size, 5);
  assert_true(lw__mul_size(6, 7, &size));
  assert_int_equal(size, 42);
  int64_t x = 5;
  assert_false(lw__mul_i64(INT64_MAX, 2, &x));
  assert_false(lw__add_i64(INT64_MIN, -1, &x));
  assert_int_equal(x, 5);
  assert_true(lw__add_i64(INT64_MAX, -1, &x));
  assert_true(x == INT64_MAX - 1);
  assert_true(lw__ceil_div(INT64_MAX, 2) == INT64_MAX / 2 + 1);
  assert_int_equal(lw__ceil_div(0, 3), 0);
  assert_int_equal(lw__ceil_div(9, 3), 3);
  assert_int_equal(lw__round_up(10, 8), 16);
  for (int64_t a = -20; a <= 20; a++) {
    for (int64_t b = 1; b <= 7; b++) {
      int64_t quotient = lw__floor_div(a, b), rest = lw__floor_mod(a, b);
      assert_true(rest >= 0 && rest < b);
      assert_int_equal(quotient * b + rest, a);
    }
  }
  assert_true(lw__floor_mod(INT64_MIN, INT64_MAX) == INT64_MAX - 1);
}

int main(void) {
  const struct CMUnitTest tests[] = {
      cmocka_unit_test(test_resize),     cmocka_unit_test(test_fail_at),
      cmocka_unit_test(test_vector),     cmocka_unit_test(test_vector_fails_cleanly),
      cmocka_unit_test(test_arithmetic),
  };
  return cmocka_run_group_tests(tests, NULL, NULL);
}

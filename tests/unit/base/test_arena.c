/* test_arena.c: pieces are zeroed, aligned, apart from each other, and poisoned around. */
#include "unit.h"

#if defined(__SANITIZE_ADDRESS__)
#define UNIT_ASAN 1
#elif defined(__has_feature)
#if __has_feature(address_sanitizer)
#define UNIT_ASAN 1
#endif
#endif
#ifdef UNIT_ASAN
#include <sanitizer/asan_interface.h>
#endif

static void test_pieces(void **state) {
  (void)state;
  enum { pieces = 3000 };
  lw_arena arena = {0};
  lw_rng rng;
  lw__rng_seed(&rng, 1);
  unsigned char *piece[pieces];
  size_t size[pieces];
  size_t total = 0;
  for (int i = 0; i < pieces; i++) {
    size[i] = (size_t)lw__rng_range(&rng, 0, i % 100 == 0 ? 100000 : 200);
    total += size[i];
    assert_ok(lw__arena_alloc(&arena, size[i], 1, &piece[i]));
    assert_non_null(piece[i]);
    assert_int_equal((uintptr_t)piece[i] % 16, 0);
    for (size_t k = 0; k < size[i]; k++) assert_int_equal(piece[i][k], 0);
    memset(piece[i], i & 0xff, size[i]);
  }
  for (int i = 0; i < pieces; i++) {
    for (size_t k = 0; k < size[i]; k++) assert_int_equal(piece[i][k], i & 0xff);
  }
  assert_true(arena.used_bytes >= total);
  assert_true(arena.used_bytes <= total + 16 * pieces);
  lw__arena_deinit(&arena);
  assert_null(arena.head);
  lw__arena_deinit(&arena);
}

static void test_reset(void **state) {
  (void)state;
  lw_arena arena = {0};
  lw__arena_reset(&arena);
  unsigned char *p;
  for (int round = 0; round < 3; round++) {
    for (int i = 0; i < 50; i++) {
      assert_ok(lw__arena_alloc(&arena, 1000, 1, &p));
      for (int k = 0; k < 1000; k++) assert_int_equal(p[k], 0); /* again after reuse */
      memset(p, 0xff, 1000);
    }
    lw__arena_reset(&arena);
    assert_int_equal(arena.used_bytes, 0);
    assert_non_null(arena.head);
  }
  /* The block that was kept is the largest: what fits into it needs no allocation. */
  lw__mem_fail_at(1);
  assert_ok(lw__arena_alloc(&arena, 10000, 1, &p));
  lw__mem_fail_at(0);
  lw__arena_deinit(&arena);
}

static void test_copies(void **state) {
  (void)state;
  lw_arena arena = {0};
  int *numbers;
  assert_ok(lw__arena_dup(&arena, (const int[]){1, 2, 3}, 3 * sizeof(int), &numbers));
  assert_int_equal(numbers[2], 3);
  char *empty;
  assert_ok(lw__arena_dup(&arena, NULL, 0, &empty));
  assert_non_null(empty);
  const char *s;
  assert_ok(lw__arena_strndup(&arena, "hello world", 5, &s));
  assert_string_equal(s, "hello");
  assert_ok(lw__arena_strndup(&arena, NULL, 0, &s));
  assert_string_equal(s, "");
  assert_int_equal(lw__arena_strndup(&arena, "x", SIZE_MAX, &s), LW_STATUS_OUT_OF_MEMORY);
  assert_ok(lw__arena_printf(&arena, &s, "%d/%s", 42, "x"));
  assert_string_equal(s, "42/x");
  assert_ok(lw__arena_printf(&arena, &s, "%05000d", 7));
  assert_int_equal(strlen(s), 5000);
  lw__arena_deinit(&arena);
}

static void test_no_memory(void **state) {
  (void)state;
  lw_arena arena = {0};
  char *p = NULL;
  assert_int_equal(lw__arena_alloc(&arena, SIZE_MAX, 2, &p), LW_STATUS_OUT_OF_MEMORY);
  assert_int_equal(lw__arena_alloc(&arena, SIZE_MAX, 1, &p), LW_STATUS_OUT_OF_MEMORY);
  assert_int_equal(lw__arena_alloc(&arena, SIZE_MAX / 8, 1, &p), LW_STATUS_OUT_OF_MEMORY);
  lw__mem_fail_at(1);
  assert_int_equal(lw__arena_alloc(&arena, 8, 1, &p), LW_STATUS_OUT_OF_MEMORY);
  assert_null(p);
  assert_ok(lw__arena_alloc(&arena, 8, 1, &p)); /* still usable */
  lw__arena_deinit(&arena);
}

#ifdef UNIT_ASAN
static void test_poison(void **state) {
  (void)state;
  lw_arena arena = {0};
  char *a, *b;
  assert_ok(lw__arena_alloc(&arena, 5, 1, &a));
  assert_ok(lw__arena_alloc(&arena, 32, 1, &b));
  assert_false(__asan_address_is_poisoned(a + 4));
  assert_true(__asan_address_is_poisoned(a + 5));
  assert_true(__asan_address_is_poisoned(b - 1));
  assert_true(__asan_address_is_poisoned(b + 32));
  lw__arena_reset(&arena);
  assert_true(__asan_address_is_poisoned(a));
  lw__arena_deinit(&arena);
}
#endif

int main(void) {
  const struct CMUnitTest tests[] = {
      cmocka_unit_test(test_pieces), cmocka_unit_test(test_reset),
      cmocka_unit_test(test_copies), cmocka_unit_test(test_no_memory),
#ifdef UNIT_ASAN
      cmocka_unit_test(test_poison),
#endif
  };
  return cmocka_run_group_tests(tests, NULL, NULL);
}

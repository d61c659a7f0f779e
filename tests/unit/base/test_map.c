/* test_map.c: the string map. */
#include <stdio.h>

#include "unit.h"

#include "base/internal.h"

enum { map_keys = 20000 };

static void test_put_get(void **state) {
  (void)state;
  static char keys[map_keys][16];
  lw_map map = {0};
  assert_int_equal(lw__map_get(&map, lw__str_of("x")), LW_NONE);
  for (uint32_t i = 0; i < map_keys; i++) {
    (void)snprintf(keys[i], sizeof keys[i], "node_%u", i);
    bool added = false;
    uint32_t value = 0;
    assert_ok(lw__map_put(&map, lw__str_of(keys[i]), i, &added, &value));
    assert_true(added);
    assert_int_equal(value, i);
  }
  assert_int_equal(map.count, map_keys);
  for (uint32_t i = 0; i < map_keys; i++) {
    char copy[16]; /* found by content, not by address */
    memcpy(copy, keys[i], sizeof copy);
    assert_int_equal(lw__map_get(&map, lw__str_of(copy)), i);
    bool added = true;
    uint32_t value = 0;
    assert_ok(lw__map_put(&map, lw__str_of(copy), 7, &added, &value));
    assert_false(added);
    assert_int_equal(value, i);
  }
  assert_int_equal(map.count, map_keys);
  assert_int_equal(lw__map_get(&map, lw__str_of("node_20000")), LW_NONE);
  lw__map_deinit(&map);
  assert_null(map.slots);
}

static void test_odd_keys(void **state) {
  (void)state;
  lw_map map = {0};
  assert_ok(lw__map_put(&map, lw__str(NULL, 0), 1, NULL, NULL));
  assert_ok(lw__map_put(&map, lw__str("\0", 1), 2, NULL, NULL));
  assert_ok(lw__map_put(&map, lw__str("\0\0", 2), 3, NULL, NULL));
  assert_ok(lw__map_put(&map, lw__str_of("a"), LW_NONE, NULL, NULL));
  assert_int_equal(lw__map_get(&map, lw__str_of("")), 1);
  assert_int_equal(lw__map_get(&map, lw__str("\0", 1)), 2);
  assert_int_equal(lw__map_get(&map, lw__str("\0\0", 2)), 3);
  lw__map_deinit(&map);
}

static void test_no_memory(void **state) {
  (void)state;
  static char keys[100][8];
  lw_map map = {0};
  uint32_t stored = 0;
  for (uint32_t i = 0; i < 100; i++) {
    (void)snprintf(keys[i], sizeof keys[i], "%u", i);
    lw__mem_fail_at(1);
    lw_status status = lw__map_put(&map, lw__str_of(keys[i]), i, NULL, NULL);
    lw__mem_fail_at(0);
    if (status != LW_OK) {
      assert_int_equal(status, LW_STATUS_OUT_OF_MEMORY);
      assert_int_equal(lw__map_get(&map, lw__str_of(keys[i])), LW_NONE);
      assert_ok(lw__map_put(&map, lw__str_of(keys[i]), i, NULL, NULL));
    }
    stored++;
    for (uint32_t k = 0; k < stored; k++) {
      assert_int_equal(lw__map_get(&map, lw__str_of(keys[k])), k);
    }
  }
  lw__map_deinit(&map);
}

int main(void) {
  const struct CMUnitTest tests[] = {
      cmocka_unit_test(test_put_get),
      cmocka_unit_test(test_odd_keys),
      cmocka_unit_test(test_no_memory),
  };
  return cmocka_run_group_tests(tests, NULL, NULL);
}

/* The JSON writer: what it writes is read back by jansson as what was meant. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <string.h>

#include <cmocka.h>
#include <jansson.h>

#include "api/json.h"

static void exact_text(void **state) {
  (void)state;
  lw_text text = {0};
  lw_json j;
  lw__json_init(&j, &text, false);
  lw__json_object_begin(&j);
  lw__json_key_array_begin(&j, "a");
  lw__json_int(&j, -1);
  lw__json_num(&j, 0.5);
  lw__json_array_begin(&j);
  lw__json_array_end(&j);
  lw__json_array_end(&j);
  lw__json_key_bool(&j, "b", true);
  lw__json_key_str(&j, "c", NULL);
  lw__json_key(&j, "d");
  lw__json_strf(&j, "%d", 7);
  lw__json_object_end(&j);
  assert_string_equal(lw__text_str(&text), "{\"a\":[-1,0.5,[]],\"b\":true,\"c\":null,\"d\":\"7\"}");
  lw__text_deinit(&text);
}

static void pretty_text(void **state) {
  (void)state;
  lw_text text = {0};
  lw_json j;
  lw__json_init(&j, &text, true);
  lw__json_object_begin(&j);
  lw__json_key_object_begin(&j, "a");
  lw__json_object_end(&j);
  lw__json_key_array_begin(&j, "b");
  lw__json_uint(&j, UINT64_MAX);
  lw__json_null(&j);
  lw__json_array_end(&j);
  lw__json_object_end(&j);
  assert_string_equal(lw__text_str(&text),
                      "{\n  \"a\": {},\n  \"b\": [\n    18446744073709551615,\n    null\n  ]\n}");
  lw__text_deinit(&text);
}

/* Any bytes give text that a strict reader accepts. */
static void strings_of_strangers(void **state) {
  (void)state;
  lw_rng rng;
  lw__rng_seed(&rng, 9);
  for (int round = 0; round < 5000; round++) {
    char bytes[24];
    size_t n = (size_t)lw__rng_range(&rng, 0, (int64_t)sizeof bytes);
    for (size_t i = 0; i < n; i++) bytes[i] = (char)lw__rng_u64(&rng);
    if (n > 4 && round % 2 == 0) memcpy(bytes, "\xf0\x9f\x98\x80", 4);
    lw_text text = {0};
    lw_json j;
    lw__json_init(&j, &text, false);
    lw__json_array_begin(&j);
    lw__json_str_n(&j, bytes, n);
    lw__json_array_end(&j);
    json_t *root = json_loads(lw__text_str(&text), JSON_ALLOW_NUL, NULL);
    if (root == NULL) print_error("refused: %s\n", lw__text_str(&text));
    assert_non_null(root);
    json_decref(root);
    lw__text_deinit(&text);
  }
}

static void numbers_read_back_equal(void **state) {
  (void)state;
  static const double values[] = {0,    -0.0,   1.0 / 3, 1e300,    5e-324, 0.1,
                                  1e16, 123456, 1234567, 4256.0e9, -1e-7,  2.5e-5};
  for (size_t i = 0; i < LW_ARRAY_COUNT(values); i++) {
    lw_text text = {0};
    lw_json j;
    lw__json_init(&j, &text, false);
    lw__json_array_begin(&j);
    lw__json_num(&j, values[i]);
    lw__json_num(&j, __builtin_nan(""));
    lw__json_num(&j, -__builtin_inf());
    lw__json_array_end(&j);
    json_t *root = json_loads(lw__text_str(&text), 0, NULL);
    assert_non_null(root);
    assert_true(json_number_value(json_array_get(root, 0)) == values[i]);
    assert_true(json_is_null(json_array_get(root, 1)));
    assert_true(json_is_null(json_array_get(root, 2)));
    json_decref(root);
    lw__text_deinit(&text);
  }
}

int main(void) {
  const struct CMUnitTest tests[] = {
      cmocka_unit_test(exact_text),
      cmocka_unit_test(pretty_text),
      cmocka_unit_test(strings_of_strangers),
      cmocka_unit_test(numbers_read_back_equal),
  };
  return cmocka_run_group_tests(tests, NULL, NULL);
}

/* test_text.c: string views, growing text, names, messages. */
#include <stdio.h>

#include "unit.h"

static void test_views(void **state) {
  (void)state;
  assert_true(lw__str_is(lw__str("abc", 2), "ab"));
  assert_false(lw__str_is(lw__str("abc", 2), "abc"));
  assert_false(lw__str_is(lw__str("ab\0", 3), "ab"));
  assert_true(lw__str_eq(lw__str(NULL, 0), lw__str_of(NULL)));
  assert_true(lw__str_is(lw__str(NULL, 0), ""));
  assert_false(lw__str_eq(lw__str_of("a"), lw__str_of("b")));
}

static void test_growing(void **state) {
  (void)state;
  lw_text text = {0};
  assert_string_equal(lw__text_str(&text), "");
  char expected[70000] = "";
  size_t length = 0;
  for (int i = 0; i < 5000; i++) {
    lw__text_add(&text, "%d, ", i);
    length += (size_t)snprintf(expected + length, sizeof expected - length, "%d, ", i);
  }
  assert_int_equal(text.status, LW_OK);
  assert_int_equal(text.len, length);
  assert_string_equal(lw__text_str(&text), expected);
  lw__text_clear(&text);
  assert_string_equal(lw__text_str(&text), "");
  lw__text_add_n(&text, "a\0b", 3);
  lw__text_add_n(&text, NULL, 0);
  assert_int_equal(text.len, 3);
  assert_memory_equal(text.data, "a\0b", 4);
  lw__text_deinit(&text);
  assert_null(text.data);
}

/* Whatever is appended to a buffer of any fill, nothing is lost at the edges. */
static void test_every_length(void **state) {
  (void)state;
  for (int first = 0; first < 140; first += 7) {
    for (int second = 0; second < 140; second++) {
      lw_text text = {0};
      lw__text_add(&text, "%.*s", first, "");
      for (int i = 0; i < first; i++) lw__text_add_n(&text, "x", 1);
      lw__text_add(&text, "%0*d", second, 0);
      assert_int_equal(text.len, first + (second == 0 ? 1 : second));
      assert_int_equal(strlen(lw__text_str(&text)), text.len);
      lw__text_deinit(&text);
    }
  }
}

static void test_sticky_error(void **state) {
  (void)state;
  lw_text text = {0};
  lw__text_add(&text, "kept");
  lw__mem_fail_at(1);
  lw__text_add(&text, "%0500d", 1);
  assert_int_equal(text.status, LW_STATUS_OUT_OF_MEMORY);
  assert_string_equal(lw__text_str(&text), "kept");
  lw__text_add(&text, "more");
  lw__text_add_n(&text, "more", 4);
  assert_string_equal(lw__text_str(&text), "kept");
  lw__text_clear(&text);
  lw__text_add(&text, "again");
  assert_int_equal(text.status, LW_OK);
  assert_string_equal(lw__text_str(&text), "again");
  lw__text_add_n(&text, "x", SIZE_MAX - 2);
  assert_int_equal(text.status, LW_STATUS_OUT_OF_MEMORY);
  lw__text_deinit(&text);
}

static void test_names(void **state) {
  (void)state;
  for (int i = LW_DTYPE_NONE; i < LW_DTYPE_COUNT; i++) {
    assert_true(strlen(lw_dtype_name((lw_dtype)i)) > 1);
    for (int k = 0; k < i; k++) {
      assert_string_not_equal(lw_dtype_name((lw_dtype)i), lw_dtype_name((lw_dtype)k));
    }
  }
  assert_string_equal(lw_dtype_name(LW_DTYPE_F8E4M3), "f8e4m3");
  assert_string_equal(lw_dtype_name((lw_dtype)77), "unknown type");
  assert_int_equal(lw_dtype_size_bytes(LW_DTYPE_BF16), 2);
  assert_int_equal(lw_dtype_size_bytes(LW_DTYPE_BOOL), 1);
  assert_int_equal(lw_dtype_size_bytes(LW_DTYPE_U64), 8);
  assert_int_equal(lw_dtype_size_bytes(LW_DTYPE_NONE), 0);
  assert_int_equal(lw_dtype_size_bytes((lw_dtype)77), 0);
  for (int i = LW_OK; i <= LW_STATUS_INTERNAL; i++) {
    assert_string_not_equal(lw_status_name((lw_status)i), lw_status_name((lw_status)99));
  }
}

static void test_messages(void **state) {
  (void)state;
  lw_diag diag = {0};
  assert_string_equal(lw__diag_first_error(&diag), "");
  assert_string_equal(lw__diag_first_error(NULL), "");
  char where[16] = "node 'a'";
  lw__note(&diag, LW_SEVERITY_WARNING, where, "only a warning");
  assert_string_equal(lw__diag_first_error(&diag), "");
  assert_int_equal(lw__fail(&diag, LW_STATUS_USAGE, where, "%d wrong", 2), LW_STATUS_USAGE);
  assert_int_equal(lw__fail(&diag, LW_STATUS_IO, NULL, "second"), LW_STATUS_IO);
  where[0] = 'X'; /* copied */
  assert_int_equal(diag.messages.count, 3);
  assert_string_equal(lw__diag_first_error(&diag), "2 wrong");
  assert_string_equal(diag.messages.data[1].where, "node 'a'");
  assert_string_equal(diag.messages.data[2].where, "");
  assert_int_equal(diag.messages.data[1].severity, LW_SEVERITY_ERROR);
  assert_int_equal(diag.messages.data[2].status, LW_STATUS_IO);
  assert_int_equal(lw__fail(NULL, LW_STATUS_IO, "", "dropped"), LW_STATUS_IO);
  lw__diag_deinit(&diag);
}

static void test_messages_without_memory(void **state) {
  (void)state;
  for (uint64_t at = 1; at <= 4; at++) {
    lw_diag diag = {0};
    lw__mem_fail_at(at);
    assert_int_equal(lw__fail(&diag, LW_STATUS_IO, "w", "%05000d", 1), LW_STATUS_IO);
    lw__mem_fail_at(0);
    assert_true(diag.messages.count <= 1);
    (void)lw__diag_first_error(&diag);
    lw__diag_deinit(&diag);
  }
}

int main(void) {
  const struct CMUnitTest tests[] = {
      cmocka_unit_test(test_views),
      cmocka_unit_test(test_growing),
      cmocka_unit_test(test_every_length),
      cmocka_unit_test(test_sticky_error),
      cmocka_unit_test(test_names),
      cmocka_unit_test(test_messages),
      cmocka_unit_test(test_messages_without_memory),
  };
  return cmocka_run_group_tests(tests, NULL, NULL);
}

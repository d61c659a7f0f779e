/* test_tiles.c: groups that turn data: tiles through shared memory, wide and narrow, whole and
 * ragged, run by the kernel-IR interpreter and held against the oracle. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdio.h>
#include <string.h>

#include <cmocka.h>

#include "api/pipeline.h"
#include "lib/kexec.h"
#include "lib/sample.h"

static void check(const char *text, const char *schedule) {
  lw_sample sample;
  lw_status status = lw_sample_text(text, 3, &sample);
  if (status != LW_OK) lw_sample_print_messages(&sample.diag);
  assert_int_equal(status, LW_OK);
  lw_compile_options options = {.profile = lw__device_profile_find("sm_90a"), .skip_passes = true};
  lw_compiled compiled;
  lw_kexec_result result;
  assert_int_equal(lw__compile(&sample.graph, &options, false, &sample.diag, &compiled), LW_OK);
  assert_int_equal(compiled.fusion.groups.count, 1);
  if (!strstr(compiled.lowered[0].schedule, schedule))
    fail_msg("schedule is \"%s\", not \"%s\"", compiled.lowered[0].schedule, schedule);
  status = lw_kexec_run(&compiled, sample.input_data, sample.output_data, &sample.diag, &result);
  if (status != LW_OK) lw_sample_print_messages(&sample.diag);
  assert_int_equal(status, LW_OK);
  assert_int_equal(lw_sample_compare(&sample, NULL, schedule), 0);
  lw__compiled_deinit(&compiled);
  lw_sample_deinit(&sample);
}

/* tanh(transpose(x) + y) over [b, m, n]. */
static void turned(const char *t, int b, int m, int n, const char *schedule) {
  char text[1024];
  (void)snprintf(text, sizeof text,
                 "%%x = input %s[%d, %d, %d]\n%%y = input %s[%d, %d, %d]\n"
                 "%%p = permute %s[%d, %d, %d] %%x perm=[0, 2, 1]\n"
                 "%%s = map.add %s[%d, %d, %d] %%p, %%y\n"
                 "%%r = map.tanh %s[%d, %d, %d] %%s\noutput r %%r\n",
                 t, b, n, m, t, b, m, n, t, b, m, n, t, b, m, n, t, b, m, n);
  check(text, schedule);
}

static void test_whole_tiles(void **state) {
  (void)state;
  turned("f32", 2, 64, 96, "tiles of 32 x 32 through shared memory, 4 wide");
  turned("f16", 2, 128, 64, "tiles of 64 x 64 through shared memory, 8 wide");
  turned("bf16", 1, 64, 192, "tiles of 64 x 64 through shared memory, 8 wide");
}

static void test_ragged_tiles(void **state) {
  (void)state;
  turned("f32", 3, 33, 65, "32 x 32 through shared memory, 1 wide");
  turned("f32", 1, 100, 44, "32 x 32 through shared memory, 4 wide");
  turned("f16", 2, 72, 40, "64 x 64 through shared memory, 8 wide");
  turned("f16", 1, 17, 257, "64 x 64 through shared memory, 1 wide");
}

static void test_small_ones_do_without(void **state) {
  (void)state;
  turned("f32", 1, 8, 600, "neighbouring elements");
  turned("f32", 1, 30, 30, "neighbouring elements");
}

/* The same value turned and straight in one expression. */
static void test_both_ways(void **state) {
  (void)state;
  check(
      "%x = input f32[96, 96]\n%n = map.neg f32[96, 96] %x\n%t = permute f32[96, 96] %n perm=[1, "
      "0]\n"
      "%s = map.add f32[96, 96] %n, %t\noutput s %s\n",
      "tiles of 32 x 32 through shared memory, 4 wide");
}

static void test_inner_digits_stay(void **state) {
  (void)state;
  check(
      "%x = input f32[48, 20, 8]\n%p = permute f32[20, 48, 8] %x perm=[1, 0, 2]\n"
      "%r = map.abs f32[20, 48, 8] %p\noutput r %r\n",
      "neighbouring elements"); /* contiguous on both sides as it is */
}

int main(void) {
  const struct CMUnitTest tests[] = {
      cmocka_unit_test(test_whole_tiles),           cmocka_unit_test(test_ragged_tiles),
      cmocka_unit_test(test_small_ones_do_without), cmocka_unit_test(test_both_ways),
      cmocka_unit_test(test_inner_digits_stay),
  };
  return cmocka_run_group_tests(tests, NULL, NULL);
}

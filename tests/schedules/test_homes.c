/* test_homes.c: reduction kernels in every layout and with every home of their rows (registers,
 * shared memory, none, cut into pieces), forced by shapes and resource policies, run by the
 * kernel-IR interpreter and held against the oracle. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdio.h>
#include <string.h>

#include <cmocka.h>

#include "api/pipeline.h"
#include "lib/kexec.h"
#include "lib/sample.h"

static const char softmax_rows[] =
    "%%x = input %s[%d, %d]\n"
    "%%m = reduce.max %s[%d] %%x axes=[1]\n"
    "%%m1 = reshape %s[%d, 1] %%m\n"
    "%%mx = expand %s[%d, %d] %%m1\n"
    "%%d = map.sub %s[%d, %d] %%x, %%mx\n"
    "%%e = map.exp %s[%d, %d] %%d\n"
    "%%s = reduce.sum %s[%d] %%e axes=[1]\n"
    "%%s1 = reshape %s[%d, 1] %%s\n"
    "%%sx = expand %s[%d, %d] %%s1\n"
    "%%y = map.div %s[%d, %d] %%e, %%sx\n"
    "output y %%y\n";

static const char softmax_columns[] =
    "%%x = input %s[%d, %d]\n"
    "%%m = reduce.max %s[%d] %%x axes=[0]\n"
    "%%m1 = reshape %s[1, %d] %%m\n"
    "%%mx = expand %s[%d, %d] %%m1\n"
    "%%d = map.sub %s[%d, %d] %%x, %%mx\n"
    "%%e = map.exp %s[%d, %d] %%d\n"
    "%%s = reduce.sum %s[%d] %%e axes=[0]\n"
    "%%s1 = reshape %s[1, %d] %%s\n"
    "%%sx = expand %s[%d, %d] %%s1\n"
    "%%y = map.div %s[%d, %d] %%e, %%sx\n"
    "output y %%y\n";

/* |kept|: the extent that the reductions leave. */
static void print_softmax(char *out, size_t size, const char *form, const char *t, int a, int b,
                          int kept) {
  (void)snprintf(out, size, form, t, a, b, t, kept, t, kept, t, a, b, t, a, b, t, a, b, t, kept, t,
                 kept, t, a, b, t, a, b);
}

static void check(const char *text, const lw_resource_policy *policy, const char *schedule,
                  uint32_t launches) {
  lw_sample sample;
  lw_status status = lw_sample_text(text, 7, &sample);
  if (status != LW_OK) lw_sample_print_messages(&sample.diag);
  assert_int_equal(status, LW_OK);
  lw_compile_options options = {
      .profile = lw__device_profile_find("sm_90a"), .policy = policy, .skip_passes = true};
  lw_compiled compiled;
  lw_kexec_result result;
  status = lw__compile(&sample.graph, &options, false, &sample.diag, &compiled);
  if (status != LW_OK) lw_sample_print_messages(&sample.diag);
  assert_int_equal(status, LW_OK);
  assert_int_equal(compiled.fusion.groups.count, 1);
  if (!strstr(compiled.lowered[0].schedule, schedule))
    fail_msg("schedule is \"%s\", not \"%s\"", compiled.lowered[0].schedule, schedule);
  status = lw_kexec_run(&compiled, sample.input_data, sample.output_data, &sample.diag, &result);
  if (status != LW_OK) lw_sample_print_messages(&sample.diag);
  assert_int_equal(status, LW_OK);
  assert_int_equal(result.launches, launches);
  assert_int_equal(lw_sample_compare(&sample, NULL, schedule), 0);
  lw__compiled_deinit(&compiled);
  lw_sample_deinit(&sample);
}

static const lw_resource_policy plenty = {"plenty", 255, 232448};
static const lw_resource_policy shared_only = {"shared only", 41, 232448};
static const lw_resource_policy nothing = {"nothing", 41, 8192};

static void softmax(const char *form, const char *type, int a, int b,
                    const lw_resource_policy *policy, const char *schedule, uint32_t launches) {
  char text[2048];
  print_softmax(text, sizeof text, form, type, a, b, form == softmax_rows ? a : b);
  check(text, policy, schedule, launches);
}

static void test_registers(void **state) {
  (void)state;
  softmax(softmax_rows, "f32", 9, 1024, &plenty, "kept in registers", 1);
  softmax(softmax_rows, "f16", 5, 4096, &plenty, "kept in registers", 1);
  softmax(softmax_rows, "f32", 7, 1001, &plenty, "kept in registers", 1);
  softmax(softmax_rows, "f32", 1000, 5, &plenty, "kept in registers", 1);
}

static void test_shared(void **state) {
  (void)state;
  softmax(softmax_rows, "f32", 70, 3001, &shared_only, "kept in shared memory", 1);
  softmax(softmax_rows, "f32", 70, 4096, &shared_only, "kept in shared memory", 1);
  softmax(softmax_rows, "bf16", 140, 2056, &shared_only, "read again",
          1); /* too narrow for banks */
}

static void test_nothing(void **state) {
  (void)state;
  softmax(softmax_rows, "f32", 70, 3001, &nothing, "read again", 1);
  softmax(softmax_rows, "f16", 70, 4096, &nothing, "read again", 1);
}

static void test_columns(void **state) {
  (void)state;
  softmax(softmax_columns, "f32", 300, 70, &plenty, "rows of 32 threads", 1);
  softmax(softmax_columns, "f32", 33, 1000, &plenty, "rows of 4 threads", 1);
  softmax(softmax_columns, "f16", 4, 500, &plenty, "rows of 1 threads", 1);
}

static void test_pieces(void **state) {
  (void)state;
  softmax(softmax_rows, "f32", 1, 40961, &plenty, "cut into", 3);
  softmax(softmax_rows, "f32", 3, 20000, &plenty, "cut into", 3);
  softmax(softmax_columns, "f32", 9000, 5, &plenty, "cut into", 3);
}

int main(void) {
  const struct CMUnitTest tests[] = {
      cmocka_unit_test(test_registers), cmocka_unit_test(test_shared),
      cmocka_unit_test(test_nothing),   cmocka_unit_test(test_columns),
      cmocka_unit_test(test_pieces),
  };
  return cmocka_run_group_tests(tests, NULL, NULL);
}

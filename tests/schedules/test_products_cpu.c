/* test_products_cpu.c: register tiles of products and convolutions on CPUs: extents around the
 * borders of tiles, panels and slices, with vector registers of three sizes, every operand constant
 * or not, straight or turned, run by the kernel-IR interpreter and held against the oracle. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdio.h>
#include <string.h>

#include <cmocka.h>

#include "api/pipeline.h"
#include "lib/kexec.h"
#include "lib/sample.h"

/* |init|: launches that run once. */
static void check(const char *text, const char *schedule, uint32_t init) {
  for (uint64_t seed = 0; seed < 12; seed += 4) {
    lw_sample sample;
    lw_status status = lw_sample_text(text, 3, &sample);
    if (status != LW_OK) lw_sample_print_messages(&sample.diag);
    assert_int_equal(status, LW_OK);
    lw_compile_options options = {.profile = lw_sample_profile("cpu", seed), .skip_passes = true};
    lw_compiled compiled;
    lw_kexec_result result;
    assert_int_equal(lw__compile(&sample.graph, &options, false, &sample.diag, &compiled), LW_OK);
    assert_int_equal(compiled.fusion.groups.count, 1);
    if (!strstr(compiled.lowered[0].schedule, schedule))
      fail_msg("schedule is \"%s\", not \"%s\", of\n%s", compiled.lowered[0].schedule, schedule,
               text);
    assert_int_equal(compiled.plan.init.count, init);
    status = lw_kexec_run(&compiled, sample.input_data, sample.output_data, &sample.diag, &result);
    if (status != LW_OK) lw_sample_print_messages(&sample.diag);
    assert_int_equal(status, LW_OK);
    assert_int_equal(result.launches, 1);
    assert_int_equal(lw_sample_compare(&sample, NULL, text), 0);
    lw__compiled_deinit(&compiled);
    lw_sample_deinit(&sample);
  }
}

/* max(x w, 0) of m x k and k x n. */
static void product(const char *t, int m, int k, int n, const char *schedule) {
  char text[512];
  (void)snprintf(text, sizeof text,
                 "%%x = input %s[%d, %d]\n%%w = input %s[%d, %d]\n%%d = dot %s[%d, %d] %%x, %%w\n"
                 "%%r = map.abs %s[%d, %d] %%d\noutput r %%r\n",
                 t, m, k, t, k, n, t, m, n, t, m, n);
  check(text, schedule, 0);
}

static void test_borders(void **state) {
  (void)state;
  static const int extents[] = {1, 2, 13, 14, 15, 31, 33, 65};
  for (size_t m = 0; m < LW_ARRAY_COUNT(extents); m++)
    for (size_t n = 0; n < LW_ARRAY_COUNT(extents); n += 1 + m % 2)
      product("f32", extents[m], 5 + (int)m, extents[n], "in registers");
  product("f32", 3, 0, 5, "");
}

/* Slices of k: whole ones, and a rest. */
static void test_slices(void **state) {
  (void)state;
  product("f32", 7, 320, 9, "in registers");
  product("f32", 7, 321, 9, "in registers");
  product("f32", 2, 1000, 17, "in registers");
  product("f64", 5, 333, 6, "in registers");
}

static void test_types(void **state) {
  (void)state;
  static const char *const types[] = {"f16", "bf16", "f64", "i32", "i64", "i8"};
  for (size_t t = 0; t < LW_ARRAY_COUNT(types); t++) product(types[t], 9, 40, 21, "in registers");
}

static void test_few_columns_are_turned(void **state) {
  (void)state;
  product("f32", 50, 17, 1, "(turned)");
  product("f32", 301, 5, 2, "(turned)");
}

/* A constant operand is packed by a launch that runs once, on either side. */
static void test_weights(void **state) {
  (void)state;
  check(
      "%x = input i32[5, 6]\n%w = iota i32[6, 20] axis=1\n%d = dot i32[5, 20] %x, %w\n"
      "output r %d\n",
      "packed once", 1);
  check(
      "%x = input i32[6, 20]\n%w = iota i32[15, 6] axis=0\n%d = dot i32[15, 20] %w, %x\n"
      "output r %d\n",
      "packed once", 1);
}

/* Panels that are rows of images or parts of them, k by taps, groups, strides, small images. */
static void test_convolutions(void **state) {
  (void)state;
  static const struct {
    int batch, in, out, group, size, kernel, stride;
  } rows[] = {{1, 3, 8, 1, 21, 3, 1}, {2, 4, 5, 1, 42, 3, 2}, {1, 40, 6, 1, 8, 3, 1},
              {2, 6, 6, 6, 13, 3, 1}, {3, 70, 4, 2, 5, 2, 1}, {1, 9, 33, 1, 1, 1, 1}};
  for (size_t i = 0; i < LW_ARRAY_COUNT(rows); i++) {
    char text[512];
    int pad = rows[i].kernel / 2;
    int out = (rows[i].size + 2 * pad - rows[i].kernel) / rows[i].stride + 1;
    (void)snprintf(text, sizeof text,
                   "%%x = input f32[%d, %d, %d, %d]\n%%w = input f32[%d, %d, %d, %d]\n"
                   "%%y = conv f32[%d, %d, %d, %d] %%x, %%w stride=[%d, %d] dilation=[1, 1] "
                   "pad_lo=[%d, %d] pad_hi=[%d, %d] group=%d\noutput y %%y\n",
                   rows[i].batch, rows[i].in, rows[i].size, rows[i].size, rows[i].out,
                   rows[i].in / rows[i].group, rows[i].kernel, rows[i].kernel, rows[i].batch,
                   rows[i].out, out, out, rows[i].stride, rows[i].stride, pad, pad, pad, pad,
                   rows[i].group);
    check(text, "in registers", 0);
  }
}

/* Sums of 65536 times 0.1 go slice by slice: one after the other they would lose three digits. */
static void check_long_sum(const char *text) {
  lw_sample sample;
  lw_compiled compiled;
  lw_kexec_result result;
  assert_int_equal(lw_sample_text(text, 3, &sample), LW_OK);
  lw_compile_options options = {.profile = lw_sample_profile("cpu", 0), .skip_passes = true};
  assert_int_equal(lw__compile(&sample.graph, &options, false, &sample.diag, &compiled), LW_OK);
  for (uint32_t i = 0; i < sample.graph.inputs.count; i++) {
    float *x = sample.input_data[i];
    for (size_t e = 0; e < sample.input_bytes[i] / sizeof *x; e++) x[e] = i == 0 ? 0.1f : 1;
  }
  assert_int_equal(
      lw_kexec_run(&compiled, sample.input_data, sample.output_data, &sample.diag, &result), LW_OK);
  const float *y = sample.output_data[0];
  double want = 65536 * (double)0.1f;
  for (size_t e = 0; e < sample.output_bytes[0] / sizeof *y; e++)
    if (!((double)y[e] > want * (1 - 3e-5) && (double)y[e] < want * (1 + 3e-5)))
      fail_msg("%.9g instead of %.9g", (double)y[e], want);
  lw__compiled_deinit(&compiled);
  lw_sample_deinit(&sample);
}

static void test_long_sums(void **state) {
  (void)state;
  check_long_sum(
      "%x = input f32[1, 65536]\n%w = input f32[65536, 1]\n%d = dot f32[1, 1] %x, %w\n"
      "output r %d\n");
  check_long_sum("%x = input f32[65536, 3]\n%s = reduce.sum f32[3] %x axes=[0]\noutput r %s\n");
}

int main(void) {
  const struct CMUnitTest tests[] = {
      cmocka_unit_test(test_borders),   cmocka_unit_test(test_slices),
      cmocka_unit_test(test_types),     cmocka_unit_test(test_few_columns_are_turned),
      cmocka_unit_test(test_weights),   cmocka_unit_test(test_convolutions),
      cmocka_unit_test(test_long_sums),
  };
  return cmocka_run_group_tests_name("products_cpu", tests, NULL, NULL);
}

/* test_products.c: products and convolutions on tensor cores and FMA units: all layouts of the
 * factors, odd sizes, prologues and epilogues, run by the kernel-IR interpreter and held against
 * the oracle. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdio.h>
#include <string.h>

#include <cmocka.h>

#include "api/pipeline.h"
#include "lib/kexec.h"
#include "lib/sample.h"

/* Compiles |text| for |device| as one kernel whose schedule has |schedule| in it, and runs it. */
static void check_on(const char *text, const char *schedule, const char *device,
                     const lw_resource_policy *policy) {
  lw_sample sample;
  lw_status status = lw_sample_text(text, 3, &sample);
  if (status != LW_OK) lw_sample_print_messages(&sample.diag);
  assert_int_equal(status, LW_OK);
  lw_compile_options options = {
      .profile = lw__device_profile_find(device), .policy = policy, .skip_passes = true};
  lw_compiled compiled;
  lw_kexec_result result;
  assert_int_equal(lw__compile(&sample.graph, &options, false, &sample.diag, &compiled), LW_OK);
  assert_int_equal(compiled.fusion.groups.count, 1);
  assert_int_equal(compiled.lowered[0].launches.count, 1);
  if (!strstr(compiled.lowered[0].schedule, schedule))
    fail_msg("schedule is \"%s\", not \"%s\"\n%s", compiled.lowered[0].schedule, schedule, text);
  status = lw_kexec_run(&compiled, sample.input_data, sample.output_data, &sample.diag, &result);
  if (status != LW_OK) lw_sample_print_messages(&sample.diag);
  if (status != LW_OK) fail_msg("%s\n%s", compiled.lowered[0].schedule, text);
  if (lw_sample_compare(&sample, NULL, schedule) != 0)
    fail_msg("%s\n%s", compiled.lowered[0].schedule, text);
  lw__compiled_deinit(&compiled);
  lw_sample_deinit(&sample);
}

static void check(const char *text, const char *schedule) {
  check_on(text, schedule, "sm_80", NULL);
}

/* x [b, m, k] times w [b, k, n]; |turn_x|, |turn_w|: stored with the last two dims swapped. */
static void product(const char *type, int b, int m, int n, int k, bool turn_x, bool turn_w) {
  char text[1024], x[256], w[256];
  const char *t = type;
  (void)snprintf(x, sizeof x,
                 turn_x ? "%%xt = input %s[%d, %d, %d]\n%%x = permute %s[%d, %d, %d] %%xt perm=[0, "
                          "2, 1]\n"
                        : "%%x = input %s[%d, %d, %d]\n",
                 t, b, turn_x ? k : m, turn_x ? m : k, t, b, m, k);
  (void)snprintf(w, sizeof w,
                 turn_w ? "%%wt = input %s[%d, %d, %d]\n%%w = permute %s[%d, %d, %d] %%wt perm=[0, "
                          "2, 1]\n"
                        : "%%w = input %s[%d, %d, %d]\n",
                 t, b, turn_w ? n : k, turn_w ? k : n, t, b, k, n);
  (void)snprintf(text, sizeof text, "%s%s%%y = dot %s[%d, %d, %d] %%x, %%w\noutput y %%y\n", x, w,
                 t, b, m, n);
  check(text, strcmp(type, "f32") == 0 ? "FMA units, " : "on tensor cores");
}

static void test_layouts(void **state) {
  (void)state;
  for (int turns = 0; turns < 4; turns++) {
    product("f16", 1, 64, 64, 64, turns & 1, turns & 2);
    product("bf16", 2, 48, 40, 72, turns & 1, turns & 2);
    product("f16", 1, 33, 65, 50, turns & 1, turns & 2);
  }
}

static void test_sizes(void **state) {
  (void)state;
  static const int sizes[] = {1, 7, 16, 33, 100, 127};
  for (size_t i = 0; i < sizeof sizes / sizeof *sizes; i++)
    for (size_t j = 0; j < sizeof sizes / sizeof *sizes; j++)
      if (sizes[i] >= 16 || sizes[j] >= 16)
        product("f16", 1, sizes[i], sizes[j], i % 2 ? 40 : 129, i % 3 == 0, j % 2 == 0);
  product("f16", 1, 1, 1000, 768, false, true); /* one row: streams the weights */
  product("f16", 1, 8, 300, 2048, false, false);
  product("bf16", 1, 255, 1003, 64, false, false);
  product("f16", 3, 130, 260, 96, false, true);
}

static void test_too_small(void **state) {
  (void)state;
  check("%x = input f16[7, 40]\n%w = input f16[40, 9]\n%y = dot f16[7, 9] %x, %w\noutput y %y\n",
        "FMA units");
  check("%x = input f16[70, 7]\n%w = input f16[7, 90]\n%y = dot f16[70, 90] %x, %w\noutput y %y\n",
        "FMA units");
  check(
      "%x = input f32[70, 70]\n%w = input f32[70, 90]\n%y = dot f32[70, 90] %x, %w\noutput y "
      "%y\n",
      "FMA units");
}

static void test_epilogues(void **state) {
  (void)state;
  /* bias along columns, residual, activation */
  check(
      "%x = input f16[50, 64]\n%w = input f16[64, 72]\n%b = input f16[1, 72]\n%r = input f16[50, "
      "72]\n%y = dot f16[50, 72] %x, %w\n%be = expand f16[50, 72] %b\n%s = map.add f16[50, 72] "
      "%y, %be\n%t = map.tanh f16[50, 72] %s\n%u = map.add f16[50, 72] %t, %r\noutput u %u\n",
      "on tensor cores");
  /* the sum and what comes of it are both stored; one result turned */
  check(
      "%x = input f16[50, 64]\n%w = input f16[64, 72]\n%y = dot f16[50, 72] %x, %w\n%t = "
      "map.sigmoid f16[50, 72] %y\n%p = permute f16[72, 50] %t perm=[1, 0]\noutput y %y\noutput "
      "p %p\n",
      "on tensor cores");
  /* stored turned only: the tile is turned */
  check(
      "%x = input f16[50, 64]\n%w = input f16[64, 72]\n%y = dot f16[50, 72] %x, %w\n%p = permute "
      "f16[72, 50] %y perm=[1, 0]\noutput p %p\n",
      "turned");
  /* heads: [s, h d] to [h, s, d] */
  check(
      "%x = input f16[48, 64]\n%w = input f16[64, 96]\n%y = dot f16[48, 96] %x, %w\n%h = reshape "
      "f16[48, 6, 16] %y\n%p = permute f16[6, 48, 16] %h perm=[1, 0, 2]\noutput p %p\n",
      "on tensor cores");
  /* quantised */
  check(
      "%x = input f16[40, 64]\n%w = input f16[64, 72]\n%y = dot f16[40, 72] %x, %w\n%f = map.cast "
      "f32[40, 72] %y\n%q = map.cast i8[40, 72] %f\noutput q %q\n",
      "on tensor cores");
}

static void test_prologues(void **state) {
  (void)state;
  /* computed and gathered factors go through registers */
  check(
      "%x = input f16[40, 64]\n%g = map.tanh f16[40, 64] %x\n%w = input f16[64, 72]\n%y = dot "
      "f16[40, 72] %g, %w\noutput y %y\n",
      "on tensor cores");
  /* a slice and a head's view of a larger value */
  check(
      "%x = input f16[48, 192]\n%h = reshape f16[48, 4, 48] %x\n%p = permute f16[4, 48, 48] %h "
      "perm=[1, 0, 2]\n%t = permute f16[4, 48, 48] %p perm=[0, 2, 1]\n%y = dot f16[4, 48, 48] "
      "%p, %t\noutput y %y\n",
      "on tensor cores");
}

/* Keys that come in two pieces, padded rows, a factor computed wide that the epilogue reads again.
 */
static void test_pieces(void **state) {
  (void)state;
  check(
      "%q = input f16[4, 3, 32]\n%p = input f16[4, 40, 32]\n%n = input f16[4, 8, 32]\n%k = concat "
      "f16[4, 48, 32] %p, %n axis=1\n%t = permute f16[4, 32, 48] %k perm=[0, 2, 1]\n%y = dot "
      "f16[4, 3, 48] %q, %t\noutput y %y\n",
      "on tensor cores");
  check(
      "%w = input f16[4, 3, 48]\n%p = input f16[4, 40, 32]\n%n = input f16[4, 8, 32]\n%v = concat "
      "f16[4, 48, 32] %p, %n axis=1\n%y = dot f16[4, 3, 32] %w, %v\noutput y %y\n",
      "on tensor cores");
  check(
      "%x = input f16[30, 64]\n%z = pad f16[33, 64] %x lo=[1, 0]\n%w = input "
      "f16[64, 40]\n%y = dot f16[33, 40] %z, %w\noutput y %y\n",
      "on tensor cores");
  check(
      "%x = input f16[48, 64]\n%s = input f16[1, 64]\n%e = expand f16[48, 64] %s\n%g = map.mul "
      "f16[48, 64] %x, %e\n%w = input f16[64, 64]\n%y = dot f16[48, 64] %g, %w\n%r = map.add "
      "f16[48, 64] %y, %x\noutput r %r\n",
      "on tensor cores");
}

/* Several batches that read one right factor are rows of one product. */
static void test_shared_batches(void **state) {
  (void)state;
  check(
      "%q = input f16[2, 6, 1, 32]\n%k = input f16[2, 2, 1, 40, 32]\n%e = expand f16[2, 2, 3, 40, "
      "32] %k\n%r = reshape f16[2, 6, 40, 32] %e\n%t = permute f16[2, 6, 32, 40] %r perm=[0, 1, "
      "3, 2]\n%y = dot f16[2, 6, 1, 40] %q, %t\noutput y %y\n",
      "on tensor cores");
  check(
      "%p = input f16[3, 8, 3, 48]\n%v = input f16[1, 1, 48, 40]\n%e = expand f16[3, 8, 48, 40] "
      "%v\n%y = dot f16[3, 8, 3, 40] %p, %e\n%g = map.tanh f16[3, 8, 3, 40] %y\n%h = permute "
      "f16[3, 3, 8, 40] %g perm=[0, 2, 1, 3]\noutput h %h\n",
      "on tensor cores");
}

static void test_convolutions(void **state) {
  (void)state;
  check(
      "%x = input f16[2, 16, 9, 9]\n%w = input f16[32, 16, 3, 3]\n%y = conv f16[2, 32, 9, 9] %x, "
      "%w pad_lo=[1, 1] pad_hi=[1, 1]\n%r = map.abs f16[2, 32, 9, 9] %y\noutput r %r\n",
      "on tensor cores");
  check(
      "%x = input f16[1, 24, 10, 12]\n%w = input f16[20, 12, 3, 1]\n%y = conv f16[1, 20, 4, 12] "
      "%x, %w stride=[2, 1] group=2\noutput y %y\n",
      "on tensor cores");
}

static void test_policies(void **state) {
  (void)state;
  static const char *const names[] = {"conservative", "classic", "opt-in"};
  for (size_t i = 0; i < 3; i++)
    check_on(
        "%x = input bf16[300, 520]\n%w = input bf16[520, 200]\n%y = dot bf16[300, 200] %x, "
        "%w\noutput y %y\n",
        "on tensor cores", "sm_80", lw__resource_policy_find(names[i]));
}

/* f32: the same tiles, multiplied by FMA units. ("FMA units, ": with slices copied ahead.) */
static void test_f32(void **state) {
  (void)state;
  static const int sizes[] = {1, 7, 16, 33, 100, 131};
  for (int turns = 0; turns < 4; turns++) {
    product("f32", 1, 64, 64, 64, turns & 1, turns & 2);
    product("f32", 2, 48, 40, 72, turns & 1, turns & 2);
    product("f32", 1, 33, 65, 50, turns & 1, turns & 2);
    product("f32", 1, 130, 260, 36, turns & 1, turns & 2);
  }
  for (size_t i = 0; i < sizeof sizes / sizeof *sizes; i++)
    for (size_t j = 0; j < sizeof sizes / sizeof *sizes; j++)
      if (sizes[i] >= 16 || sizes[j] >= 16)
        product("f32", 1, sizes[i], sizes[j], i % 2 ? 40 : 129, i % 3 == 0, j % 2 == 0);
  product("f32", 1, 1, 1000, 768, false, true);
  product("f32", 3, 130, 260, 96, false, true);
}

/* Prologues, epilogues, mixed types, pieces, convolutions. */
static void test_f32_around(void **state) {
  (void)state;
  check(
      "%x = input f32[50, 64]\n%g = map.tanh f32[50, 64] %x\n%w = input f32[64, 72]\n%b = input "
      "f32[1, 72]\n%y = dot f32[50, 72] %g, %w\n%be = expand f32[50, 72] %b\n%s = map.add f32[50, "
      "72] %y, %be\n%c = map.cast f16[50, 72] %s\noutput s %s\noutput c %c\n",
      "FMA units, ");
  check(
      "%x = input f32[50, 64]\n%w = input f32[64, 72]\n%y = dot f32[50, 72] %x, %w\n%p = permute "
      "f32[72, 50] %y perm=[1, 0]\noutput p %p\n",
      "turned");
  check(
      "%x = input f16[50, 64]\n%f = map.cast f32[50, 64] %x\n%w = input f32[64, 72]\n%y = dot "
      "f32[50, 72] %f, %w\noutput y %y\n",
      "FMA units, ");
  check(
      "%q = input f32[4, 3, 32]\n%p = input f32[4, 40, 32]\n%n = input f32[4, 8, 32]\n%k = concat "
      "f32[4, 48, 32] %p, %n axis=1\n%t = permute f32[4, 32, 48] %k perm=[0, 2, 1]\n%y = dot "
      "f32[4, 3, 48] %q, %t\noutput y %y\n",
      "FMA units, ");
  check(
      "%p = input f16[40, 64]\n%pf = map.cast f32[40, 64] %p\n%n = input f32[8, 64]\n%x = concat "
      "f32[48, 64] %pf, %n axis=0\n%w = input f32[64, 40]\n%y = dot f32[48, 40] %x, %w\noutput y "
      "%y\n",
      "FMA units, ");
  check(
      "%x = input f32[2, 16, 9, 9]\n%w = input f32[32, 16, 3, 3]\n%y = conv f32[2, 32, 9, 9] %x, "
      "%w pad_lo=[1, 1] pad_hi=[1, 1]\n%r = map.abs f32[2, 32, 9, 9] %y\noutput r %r\n",
      "FMA units, ");
  static const char *const names[] = {"conservative", "classic", "opt-in"};
  for (size_t i = 0; i < 3; i++)
    check_on(
        "%x = input f32[300, 520]\n%w = input f32[520, 200]\n%y = dot f32[300, 200] %x, %w\noutput "
        "y %y\n",
        i == 0 ? "FMA units" : "FMA units, ", "sm_80", lw__resource_policy_find(names[i]));
}

int main(void) {
  const struct CMUnitTest tests[] = {
      cmocka_unit_test(test_layouts),        cmocka_unit_test(test_sizes),
      cmocka_unit_test(test_too_small),      cmocka_unit_test(test_epilogues),
      cmocka_unit_test(test_prologues),      cmocka_unit_test(test_pieces),
      cmocka_unit_test(test_shared_batches), cmocka_unit_test(test_convolutions),
      cmocka_unit_test(test_policies),       cmocka_unit_test(test_f32),
      cmocka_unit_test(test_f32_around),
  };
  return cmocka_run_group_tests(tests, NULL, NULL);
}

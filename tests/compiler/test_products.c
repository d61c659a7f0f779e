/* test_products.c: a product and what stands behind it is one kernel, on tensor cores where the
 * operands allow it: every end, both layouts, f16 and bf16, shapes with and without tails, on the
 * kernel-IR interpreter against the oracle's bounds. What the compiler makes nothing good of is
 * replaced by the next configuration, and in the end by a kernel without tensor cores. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>
#include <string.h>

#include <cmocka.h>
#include <dlfcn.h>

#include "graph/text.h"
#include "lib/pgraph.h"
#include "lib/trial.h"
#include "standin/standin.h"

static const lw_kernel *only_kernel(const lw_compiled *c) {
  uint32_t launches = 0;
  for (uint32_t i = 0; i < c->plan.steps.count; i++)
    launches += c->plan.steps.data[i].kind == LW_STEP_LAUNCH;
  assert_int_equal(launches, 1);
  assert_int_equal(c->kernels.count, 1);
  return c->kernels.data[0];
}

/* A 16-bit operand whose rows begin at multiples of 16 bytes. */
static bool suits(const lw_pgraph *p) {
  bool rows = p->k % 8 == 0 || p->m == 1;
  bool right = p->weights_nk ? p->k % 8 == 0 : p->n % 8 == 0;
  return p->k >= 16 && p->n >= 8 && rows && right;
}

static void check(const lw_pgraph *p) {
  lw_graph g;
  lw_trial t;
  char name[80];
  lw_pgraph_describe(p, name);
  assert_int_equal(lw_pgraph_make(p, &g), LW_OK);
  if (lw_trial_init(&g, "sm_90a", true, &t) != LW_OK) fail_msg("%s", name);
  const lw_kernel *kernel = only_kernel(&t.compiled);
  if (kernel->product.present != suits(p)) fail_msg("%s: another kind of kernel", name);
  if (kernel->product.present) {
    bool turned = p->end == LW_PEND_TURNED && p->m > 1;
    bool rows = p->end != LW_PEND_QUANTISE && p->end != LW_PEND_WIDE && !turned;
    bool tma = rows && p->n % 8 == 0 && p->k < 1024;
    if ((kernel->product.form.split > 1) != (p->k >= 1024)) fail_msg("%s: another split", name);
    if ((kernel->product.out.buffer != LW_NONE) != rows ||
        (kernel->product.form.store == LW_PRODUCT_STORE_TMA) != tma)
      fail_msg("%s: stores in another way", name);
  }
  lw_trial_deinit(&t);
}

static void test_ends(void **state) {
  (void)state;
  static const int64_t shapes[][3] = {{33, 24, 64}, {3, 24, 2048}, {7, 100, 16},   {1, 40, 32},
                                      {64, 64, 72}, {16, 33, 24},  {100, 127, 33}, {5, 8, 16}};
  for (int e = 0; e < LW_PEND_COUNT; e++)
    for (size_t i = 0; i < LW_ARRAY_COUNT(shapes); i++) {
      lw_pgraph p = {.m = shapes[i][0],
                     .n = shapes[i][1],
                     .k = shapes[i][2],
                     .dtype = ((size_t)e + i) % 2 ? LW_DTYPE_F16 : LW_DTYPE_BF16,
                     .weights_nk = i % 2 == 0,
                     .fixed = i % 3 == 0,
                     .end = (lw_pgraph_end)e};
      check(&p);
    }
}

/* Heads that become rows again: the product that makes them stores rows, so the one that reads them
 * finds a matrix. */
static void test_heads(void **state) {
  (void)state;
  static const char text[] =
      "%p = input f16[2, 4, 24, 32]\n"
      "%v = input f16[2, 4, 32, 16]\n"
      "%w = input f16[64, 48]\n"
      "%3 = dot f16[2, 4, 24, 16] %p, %v\n"
      "%4 = permute f16[2, 24, 4, 16] %3 perm=[0, 2, 1, 3]\n"
      "%5 = reshape f16[48, 64] %4\n"
      "%6 = dot f16[48, 48] %5, %w\n"
      "output y %6\n";
  lw_graph g;
  lw_trial t;
  assert_int_equal(lw__graph_parse(lw__str_of(text), NULL, &g), LW_OK);
  assert_int_equal(lw_trial_init(&g, "sm_90a", true, &t), LW_OK);
  assert_int_equal(t.compiled.kernels.count, 2);
  assert_true(t.compiled.kernels.data[1]->product.present);
  lw_trial_deinit(&t);
}

/* Other devices take other kernels. */
static void test_other_devices(void **state) {
  (void)state;
  static const char *const profiles[] = {"sm_80", "cpu"};
  const lw_pgraph p = {.m = 33, .n = 24, .k = 64, .dtype = LW_DTYPE_F16, .end = LW_PEND_BIAS};
  for (int i = 0; i < 2; i++) {
    lw_graph g;
    lw_trial t;
    assert_int_equal(lw_pgraph_make(&p, &g), LW_OK);
    assert_int_equal(lw_trial_init(&g, profiles[i], true, &t), LW_OK);
    assert_false(only_kernel(&t.compiled)->product.present);
    lw_trial_deinit(&t);
  }
}

/* ---- configurations that do not build well ----------------------------------------------------*/

static lw_nvrtc_standin_state *nvrtc;
static const char nvrtc_library[] = LW_BUILD_DIR "/libnvrtc_standin.so";

static void compile_products(lw_compiled *out, char name[96]) {
  const lw_pgraph p = {.m = 64, .n = 64, .k = 64, .dtype = LW_DTYPE_F16, .end = LW_PEND_BIAS};
  lw_compile_options options = {.profile = lw__device_profile_find("sm_90a"),
                                .policy = lw__resource_policy_find("opt-in"),
                                .sm90_always = true};
  options.build.nvrtc_path = nvrtc_library;
  lw_graph g;
  lw_diag diag = {0};
  assert_int_equal(lw_pgraph_make(&p, &g), LW_OK);
  if (lw__compile(&g, &options, true, &diag, out) != LW_OK)
    fail_msg("%s", lw__diag_first_error(&diag));
  lw__diag_deinit(&diag);
  lw__graph_deinit(&g);
  snprintf(name, 96, "%s", out->plan.kernels.data[0].name);
}

static void test_replaced(void **state) {
  (void)state;
  void *handle = dlopen(nvrtc_library, RTLD_NOW);
  assert_non_null(handle);
  lw_nvrtc_standin_state *(*function)(void);
  void *symbol = dlsym(handle, "lw_nvrtc_standin");
  memcpy(&function, &symbol, sizeof symbol);
  nvrtc = function();
  char first[96], second[96], third[96];
  lw_compiled c;
  compile_products(&c, first);
  assert_true(only_kernel(&c)->product.present);
  lw__compiled_deinit(&c);
  snprintf(nvrtc->spill, sizeof nvrtc->spill, "%s", first);
  compile_products(&c, second);
  assert_true(only_kernel(&c)->product.present);
  assert_string_not_equal(first, second);
  assert_int_equal(c.plan.kernels.data[0].spill_bytes, 0);
  lw__compiled_deinit(&c);
  snprintf(nvrtc->serialize, sizeof nvrtc->serialize, "%s", second);
  compile_products(&c, third);
  assert_true(only_kernel(&c)->product.present);
  assert_string_not_equal(first, third);
  assert_string_not_equal(second, third);
  lw__compiled_deinit(&c);
  /* None is good. */
  snprintf(nvrtc->serialize, sizeof nvrtc->serialize, "*product");
  compile_products(&c, third);
  assert_false(only_kernel(&c)->product.present);
  lw__compiled_deinit(&c);
  nvrtc->spill[0] = nvrtc->serialize[0] = '\0';
}

int main(void) {
  const struct CMUnitTest tests[] = {
      cmocka_unit_test(test_ends),
      cmocka_unit_test(test_heads),
      cmocka_unit_test(test_other_devices),
      cmocka_unit_test(test_replaced),
  };
  return cmocka_run_group_tests(tests, NULL, NULL);
}

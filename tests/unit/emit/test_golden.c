/* Kernels whose text, CUDA C and GNU C stand in tests/golden/kernel, so that a change of what is
 * printed is seen in review.
 * `--bless` as the only argument writes what comes out. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>
#include <string.h>

#include <cmocka.h>

#include "compiler/emit/emit.h"
#include "compiler/kernel/build.h"

static bool bless;

static lw_kval i32(lw_kbuilder *kb, int64_t x) { return lw__kb_const_i(kb, LW_DTYPE_I32, x); }
static lw_kval f32(lw_kbuilder *kb, double x) { return lw__kb_const_f(kb, LW_DTYPE_F32, x); }
static lw_kval add(lw_kbuilder *kb, lw_kval a, lw_kval b) {
  return lw__kb_fn(kb, LW_FN_ADD, a, b, LW_NONE);
}
static lw_kval mul(lw_kbuilder *kb, lw_kval a, lw_kval b) {
  return lw__kb_fn(kb, LW_FN_MUL, a, b, LW_NONE);
}

static lw_kval gelu(lw_kbuilder *kb, lw_kval x) {
  lw_kval e = lw__kb_fn(kb, LW_FN_ERF, mul(kb, x, f32(kb, 0.70710678118654752)), LW_NONE, LW_NONE);
  return mul(kb, mul(kb, x, f32(kb, 0.5)), add(kb, e, f32(kb, 1)));
}

/* f16 in vectors of 8, guarded at the end. */
static void build_gelu_gpu(lw_kbuilder *kb) {
  uint32_t x = lw__kb_buffer(kb, LW_DTYPE_F16, false), y = lw__kb_buffer(kb, LW_DTYPE_F16, true);
  uint32_t n = lw__kb_scalar_arg(kb), l = lw__kb_local(kb, LW_DTYPE_F16, 8);
  lw_kval base = mul(kb, lw__kb_block(kb), lw__kb_const_i(kb, LW_DTYPE_I64, 2048));
  lw_kval at = mul(kb, lw__kb_thread(kb), i32(kb, 8));
  lw_kval inside = lw__kb_fn(kb, LW_FN_LT, add(kb, base, lw__kb_cast(kb, at, LW_DTYPE_I64)),
                             lw__kb_scalar(kb, n), LW_NONE);
  lw__kb_loadv(kb, x, base, at, inside, l, LW_NONE, 8);
  lw_kval i = lw__kb_for_n(kb, 8, LW_KLOOP_UNROLL);
  lw__kb_lset(kb, l, i, gelu(kb, lw__kb_lget(kb, l, i)));
  lw__kb_end(kb);
  lw__kb_storev(kb, y, base, at, inside, l, LW_NONE, 8);
}

/* Softmax of rows of 1024 f32: one block per row, two reductions. */
static void build_softmax_gpu(lw_kbuilder *kb) {
  uint32_t x = lw__kb_buffer(kb, LW_DTYPE_F32, false), y = lw__kb_buffer(kb, LW_DTYPE_F32, true);
  uint32_t l = lw__kb_local(kb, LW_DTYPE_F32, 4), acc = lw__kb_local(kb, LW_DTYPE_F32, 1);
  uint32_t scratch = lw__kb_shared(kb, LW_DTYPE_F32, 8);
  lw_kval base = mul(kb, lw__kb_block(kb), lw__kb_const_i(kb, LW_DTYPE_I64, 1024));
  lw_kval at = mul(kb, lw__kb_thread(kb), i32(kb, 4));
  lw__kb_loadv(kb, x, base, at, LW_NONE, l, LW_NONE, 4);
  lw__kb_lset(kb, acc, LW_NONE, f32(kb, -1.0 / 0.0));
  lw_kval i = lw__kb_for_n(kb, 4, LW_KLOOP_UNROLL);
  lw__kb_lset(
      kb, acc, LW_NONE,
      lw__kb_fn(kb, LW_FN_MAX, lw__kb_lget(kb, acc, LW_NONE), lw__kb_lget(kb, l, i), LW_NONE));
  lw__kb_end(kb);
  lw_kval most = lw__kb_reduce(kb, LW_RED_MAX, lw__kb_lget(kb, acc, LW_NONE), 256, scratch);
  lw__kb_lset(kb, acc, LW_NONE, f32(kb, 0));
  lw_kval j = lw__kb_for_n(kb, 4, LW_KLOOP_UNROLL);
  lw_kval e =
      lw__kb_fn(kb, LW_FN_EXP, lw__kb_fn(kb, LW_FN_SUB, lw__kb_lget(kb, l, j), most, LW_NONE),
                LW_NONE, LW_NONE);
  lw__kb_lset(kb, l, j, e);
  lw__kb_lset(kb, acc, LW_NONE, add(kb, lw__kb_lget(kb, acc, LW_NONE), e));
  lw__kb_end(kb);
  lw_kval sum = lw__kb_reduce(kb, LW_RED_SUM, lw__kb_lget(kb, acc, LW_NONE), 256, scratch);
  lw_kval k = lw__kb_for_n(kb, 4, LW_KLOOP_UNROLL);
  lw__kb_lset(kb, l, k, lw__kb_fn(kb, LW_FN_DIV, lw__kb_lget(kb, l, k), sum, LW_NONE));
  lw__kb_end(kb);
  lw__kb_storev(kb, y, base, at, LW_NONE, l, LW_NONE, 4);
}

/* bf16 in vectors of 16, the rest element by element. */
static void build_gelu_cpu(lw_kbuilder *kb) {
  uint32_t x = lw__kb_buffer(kb, LW_DTYPE_BF16, false), y = lw__kb_buffer(kb, LW_DTYPE_BF16, true);
  uint32_t n = lw__kb_scalar_arg(kb), l = lw__kb_local(kb, LW_DTYPE_BF16, 16);
  lw_kval at = mul(kb, lw__kb_block(kb), lw__kb_const_i(kb, LW_DTYPE_I64, 16)),
          count = lw__kb_scalar(kb, n);
  lw_kval end = add(kb, at, lw__kb_const_i(kb, LW_DTYPE_I64, 16));
  lw_kval whole = lw__kb_fn(kb, LW_FN_LE, end, count, LW_NONE);
  lw__kb_if(kb, whole);
  lw__kb_loadv(kb, x, LW_NONE, at, LW_NONE, l, LW_NONE, 16);
  lw_kval i = lw__kb_for_n(kb, 16, LW_KLOOP_VECTOR);
  lw__kb_lset(kb, l, i, gelu(kb, lw__kb_lget(kb, l, i)));
  lw__kb_end(kb);
  lw__kb_storev(kb, y, LW_NONE, at, LW_NONE, l, LW_NONE, 16);
  lw__kb_end(kb);
  lw__kb_if(kb, lw__kb_fn(kb, LW_FN_NOT, whole, LW_NONE, LW_NONE));
  lw_kval j =
      lw__kb_for(kb, LW_DTYPE_I64, at, count, lw__kb_const_i(kb, LW_DTYPE_I64, 1), LW_KLOOP_SERIAL);
  lw__kb_store(kb, y, LW_NONE, j, LW_NONE, gelu(kb, lw__kb_load(kb, x, LW_NONE, j, LW_NONE)));
  lw__kb_end(kb);
  lw__kb_end(kb);
}

static void compare(const char *name, const lw_text *result) {
  char path[512];
  snprintf(path, sizeof path, "%s/tests/golden/kernel/%s", LW_SOURCE_DIR, name);
  lw_diag diag = {0};
  lw_file_map map = {NULL, 0};
  if (bless) {
    assert_int_equal(lw__file_write(path, result->data, result->len, &diag), LW_OK);
    return;
  }
  if (lw__file_map(path, &diag, &map) != LW_OK) fail_msg("%s", lw__diag_first_error(&diag));
  bool same = map.bytes == result->len && memcmp(map.data, result->data, map.bytes) == 0;
  if (!same)
    fail_msg("%s: expected\n%.*s\nbut it is\n%s", path, (int)map.bytes, (const char *)map.data,
             lw__text_str(result));
  lw__file_unmap(&map);
}

static void check(const char *name, lw_ktarget target, uint32_t threads,
                  void (*build)(lw_kbuilder *)) {
  lw_kernel kernel;
  lw_kbuilder kb;
  lw_diag diag = {0};
  lw__kernel_init(&kernel, target, LW_KCLASS_MAP, threads);
  assert_int_equal(lw__kb_init(&kb, &kernel), LW_OK);
  build(&kb);
  if (kb.status != LW_OK) fail_msg("%s", kb.error);
  if (lw__kernel_verify(&kernel, &diag) != LW_OK) fail_msg("%s", lw__diag_first_error(&diag));
  const lw_kernel *kernels[1] = {&kernel};
  lw_text text = {0}, source = {0};
  char file[64];
  lw__kernel_print(&kernel, &text);
  snprintf(file, sizeof file, "%s.txt", name);
  compare(file, &text);
  bool gpu = target == LW_KTARGET_GPU;
  assert_int_equal((gpu ? lw__emit_cuda : lw__emit_c)(kernels, &name, 1, &source), LW_OK);
  snprintf(file, sizeof file, "%s.%s", name, gpu ? "cu" : "c");
  compare(file, &source);
  lw__text_deinit(&text);
  lw__text_deinit(&source);
  lw__kb_deinit(&kb);
  lw__kernel_deinit(&kernel);
}

static void test_gelu_gpu(void **state) {
  (void)state;
  check("gelu_gpu", LW_KTARGET_GPU, 256, build_gelu_gpu);
}

static void test_softmax_gpu(void **state) {
  (void)state;
  check("softmax_gpu", LW_KTARGET_GPU, 256, build_softmax_gpu);
}

static void test_gelu_cpu(void **state) {
  (void)state;
  check("gelu_cpu", LW_KTARGET_CPU, 1, build_gelu_cpu);
}

int main(int argc, char **argv) {
  bless = argc > 1 && strcmp(argv[1], "--bless") == 0;
  const struct CMUnitTest tests[] = {
      cmocka_unit_test(test_gelu_gpu),
      cmocka_unit_test(test_softmax_gpu),
      cmocka_unit_test(test_gelu_cpu),
  };
  return cmocka_run_group_tests_name("emit_golden", tests, NULL, NULL);
}

/* Random kernels: generated C against the kernel interpreter, bit for bit. */
#include <dlfcn.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>

#include <cmocka.h>

#include "compiler/emit/emit.h"
#include "random_kernel.h"

enum { KERNELS = 60 };
typedef void (*c_kernel)(void *const *buffers, const int64_t *scalars, int64_t begin, int64_t end);

static rk kernels[KERNELS];
static char names[KERNELS][32];

static void *compile(const lw_text *source, const char *flags) {
  char dir[] = "/tmp/lawson_test_random_XXXXXX", path[64], command[512];
  assert_non_null(mkdtemp(dir));
  snprintf(path, sizeof path, "%s/k.c", dir);
  lw_diag diag = {0};
  assert_int_equal(lw__file_write(path, source->data, source->len, &diag), LW_OK);
  snprintf(command, sizeof command,
           "cc -std=gnu17 -Wall -Werror -shared -fPIC %s -o %s/k.so %s/k.c -lm", flags, dir, dir);
  if (system(command) != 0) fail_msg("%s", command);
  snprintf(path, sizeof path, "%s/k.so", dir);
  void *handle = dlopen(path, RTLD_NOW | RTLD_LOCAL);
  if (handle == NULL) fail_msg("%s", dlerror());
  snprintf(command, sizeof command, "rm -r %s", dir);
  assert_int_equal(system(command), 0);
  return handle;
}

/* Buffers of one side: the inputs (shared) and outputs of its own. */
static void make_buffers(lw_kinterp_buffer *buffers, void **inputs) {
  size_t count = rk_count(1);
  for (uint32_t i = 0; i < 2 * RK_INPUTS; i++) {
    size_t bytes = count * lw_dtype_size_bytes((lw_dtype)(1 + i % RK_INPUTS));
    buffers[i].bytes = bytes;
    buffers[i].data = i < RK_INPUTS ? inputs[i] : calloc(1, bytes);
  }
}

static void check(void *library, uint32_t n, void **inputs) {
  lw_kinterp_buffer want[2 * RK_INPUTS], got[2 * RK_INPUTS];
  void *pointers[2 * RK_INPUTS];
  make_buffers(want, inputs);
  make_buffers(got, inputs);
  for (uint32_t i = 0; i < 2 * RK_INPUTS; i++) pointers[i] = got[i].data;
  lw_diag diag = {0};
  if (lw__kinterp_run(&kernels[n].kernel, RK_GRID, want, NULL, &diag, NULL) != LW_OK)
    fail_msg("kernel %u: %s", n, lw__diag_first_error(&diag));
  c_kernel run;
  *(void **)&run = dlsym(library, names[n]);
  run(pointers, NULL, 0, RK_GRID);
  for (uint32_t i = 0; i < RK_INPUTS; i++) {
    lw_dtype dtype = (lw_dtype)(1 + i);
    int64_t at =
        rk_first_difference(dtype, want[RK_INPUTS + i].data, got[RK_INPUTS + i].data, rk_count(1));
    if (at >= 0)
      fail_msg("kernel %u, output %s[%lld]: compiled C differs from the interpreter", n,
               lw_dtype_name(dtype), (long long)at);
    free(want[RK_INPUTS + i].data);
    free(got[RK_INPUTS + i].data);
  }
}

static void test_random_kernels(void **state) {
  static const char *const flags[] = {
      "-O1 -ffp-contract=off",
      "-O3 -march=native -fno-math-errno -fno-trapping-math -ffp-contract=off"};
  (void)state;
  void *inputs[RK_INPUTS];
  const lw_kernel *list[KERNELS];
  const char *name_list[KERNELS];
  for (uint32_t i = 0; i < RK_INPUTS; i++) {
    inputs[i] = calloc(rk_count(1), 8);
    rk_fill((lw_dtype)(1 + i), inputs[i], rk_count(1));
  }
  for (uint32_t n = 0; n < KERNELS; n++) {
    rk_build(&kernels[n], LW_KTARGET_CPU, n);
    snprintf(names[n], sizeof names[n], "random_%u", n);
    list[n] = &kernels[n].kernel;
    name_list[n] = names[n];
  }
  for (size_t f = 0; f < LW_ARRAY_COUNT(flags); f++) {
    lw_text text = {0};
    assert_int_equal(lw__emit_c(list, name_list, KERNELS, &text), LW_OK);
    void *library = compile(&text, flags[f]);
    for (uint32_t n = 0; n < KERNELS; n++) check(library, n, inputs);
    dlclose(library);
    lw__text_deinit(&text);
  }
  for (uint32_t n = 0; n < KERNELS; n++) rk_free(&kernels[n]);
  for (uint32_t i = 0; i < RK_INPUTS; i++) free(inputs[i]);
}

/* GPU kernels run in the interpreter without a violation, and print the same text twice. */
static void test_random_gpu_kernels(void **state) {
  (void)state;
  void *inputs[2 * RK_INPUTS];
  lw_kinterp_buffer buffers[2 * RK_INPUTS];
  for (uint32_t i = 0; i < 2 * RK_INPUTS; i++) {
    lw_dtype dtype = (lw_dtype)(1 + i % RK_INPUTS);
    inputs[i] = calloc(rk_count(RK_GPU_THREADS), 8);
    rk_fill(dtype, inputs[i], rk_count(RK_GPU_THREADS));
    buffers[i] =
        (lw_kinterp_buffer){inputs[i], rk_count(RK_GPU_THREADS) * lw_dtype_size_bytes(dtype)};
  }
  for (uint32_t n = 0; n < 100; n++) {
    lw_diag diag = {0};
    lw_text text[2] = {{0}, {0}};
    for (int twice = 0; twice < 2; twice++) {
      rk_build(&kernels[0], LW_KTARGET_GPU, n);
      const lw_kernel *list[1] = {&kernels[0].kernel};
      const char *name_list[1] = {"k"};
      assert_int_equal(lw__emit_cuda(list, name_list, 1, &text[twice]), LW_OK);
      if (twice == 0 && lw__kinterp_run(list[0], RK_GRID, buffers, NULL, &diag, NULL) != LW_OK)
        fail_msg("kernel %u: %s", n, lw__diag_first_error(&diag));
      rk_free(&kernels[0]);
    }
    assert_string_equal(lw__text_str(&text[0]), lw__text_str(&text[1]));
    lw__text_deinit(&text[0]);
    lw__text_deinit(&text[1]);
    lw__diag_deinit(&diag);
  }
  for (uint32_t i = 0; i < 2 * RK_INPUTS; i++) free(inputs[i]);
}

int main(void) {
  const struct CMUnitTest tests[] = {
      cmocka_unit_test(test_random_kernels),
      cmocka_unit_test(test_random_gpu_kernels),
  };
  return cmocka_run_group_tests_name("emit_random", tests, NULL, NULL);
}

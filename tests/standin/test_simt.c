/* The stand-ins themselves: threads that meet, threads that do not, and kernels that forget to. A
 * missing barrier must show, or passing tests on the stand-ins would mean nothing. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdlib.h>
#include <string.h>

#include <cmocka.h>
#include <dlfcn.h>

#include "runtime/cuda/driver.h"
#include "standin/standin.h"

static const char library[] = LW_BUILD_DIR "/libcuda_standin.so";
static lw_cu_driver driver;
static lw_standin_state *standin;
static lw_cu_context context;

static int start(void **state) {
  (void)state;
  if (lw__cu_open(library, NULL, &driver) != LW_OK) return 1;
  lw_standin_function *function;
  void *symbol = dlsym(driver.handle, "lw_standin");
  memcpy(&function, &symbol, sizeof symbol);
  standin = function();
  return driver.primary_retain(&context, 0) != 0 || driver.context_push(context) != 0;
}

static int stop(void **state) {
  (void)state;
  driver.context_pop(&context);
  driver.primary_release(0);
  lw__cu_close(&driver);
  return 0;
}

/* Runs kernel NAME(float *y, const float *x, long long n) of |source| on x = 0, 1, 2 .. and gives
 * y. */
static void run(const char *source, const char *name, unsigned grid, unsigned block,
                unsigned shared, int64_t n, float *y) {
  lw_text image = {0};
  lw__text_add(&image, LW_STANDIN_SOURCE "%s", source);
  lw_cu_module module;
  lw_cu_function function;
  lw_cu_address dx, dy;
  size_t bytes = (size_t)n * sizeof(float);
  float *x = malloc(bytes);
  for (int64_t i = 0; i < n; i++) x[i] = (float)i;
  assert_int_equal(driver.module_load(&module, image.data), 0);
  assert_int_equal(driver.module_function(&function, module, name), 0);
  assert_int_equal(driver.memory_alloc(&dx, bytes), 0);
  assert_int_equal(driver.memory_alloc(&dy, bytes), 0);
  assert_int_equal(driver.copy_in(dx, x, bytes, NULL), 0);
  void *parameters[] = {&dy, &dx, &n};
  assert_int_equal(driver.launch(function, grid, 1, 1, block, 1, 1, shared, NULL, parameters, NULL),
                   0);
  assert_int_equal(driver.copy_out(y, dy, bytes, NULL), 0);
  assert_int_equal(driver.stream_wait(NULL), 0);
  driver.memory_free(dx);
  driver.memory_free(dy);
  driver.module_unload(module);
  free(x);
  lw__text_deinit(&image);
}

#define KERNEL(name)                                           \
  "extern \"C\" __global__ void __launch_bounds__(1024) " name \
  "(float *b0, const float *__restrict__ b1, long long s0) {\n"
#define INDEX "  long long i = blockIdx.x * (long long)blockDim.x + threadIdx.x;\n"

static void test_elements(void **state) {
  (void)state;
  static const char source[] = KERNEL("lw_map") INDEX "  if (i < s0) b0[i] = b1[i] * 2 + 1;\n}\n";
  float y[1000];
  run(source, "lw_map", 8, 128, 0, 1000, y);
  for (int i = 0; i < 1000; i++) assert_true(y[i] == 2 * i + 1);
  assert_int_equal(standin->violations, 0);
}

static const char reverse[] =
    KERNEL("lw_reverse") "  __shared__ __align__(16) float h0[256];\n" INDEX
                         "  h0[threadIdx.x] = b1[i];\n  MEET\n"
                         "  b0[i] = h0[255 - threadIdx.x];\n}\n";

static lw_text with(const char *source, const char *word, const char *instead) {
  lw_text text = {0};
  const char *at = strstr(source, word);
  lw__text_add(&text, "%.*s%s%s", (int)(at - source), source, instead, at + strlen(word));
  return text;
}

static void test_barrier(void **state) {
  (void)state;
  lw_text good = with(reverse, "MEET", "__syncthreads();"), bad = with(reverse, "MEET", "");
  float y[1024];
  for (int way = 0; way < 2; way++) {
    run(good.data, "lw_reverse", 4, 256, 0, 1024, y);
    for (int i = 0; i < 1024; i++) assert_true(y[i] == (float)(i / 256 * 256 + 255 - i % 256));
  }
  float first[1024];
  run(bad.data, "lw_reverse", 4, 256, 0, 1024, first);
  run(bad.data, "lw_reverse", 4, 256, 0, 1024, y);
  assert_memory_not_equal(first, y, sizeof y);
  lw__text_deinit(&good);
  lw__text_deinit(&bad);
  assert_int_equal(standin->violations, 0);
}

static void test_shuffle(void **state) {
  (void)state;
  static const char source[] = KERNEL("lw_sum") INDEX
      "  float v = b1[i];\n"
      "#pragma unroll\n"
      "  for (int apart = 16; apart > 0; apart /= 2) v = v + __shfl_xor_sync(0xffffffffu, v, "
      "apart);\n"
      "  b0[i] = v;\n}\n";
  float y[192];
  for (int way = 0; way < 2; way++) {
    run(source, "lw_sum", 2, 96, 0, 192, y);
    for (int i = 0; i < 192; i++) assert_true(y[i] == (float)(i / 32 * 32 * 32 + 31 * 16));
  }
  assert_int_equal(standin->violations, 0);
}

static void test_missing_threads(void **state) {
  (void)state;
  static const char *const bodies[] = {
      "  if (threadIdx.x < 70) __syncthreads();\n",
      "  if (threadIdx.x == 7) return;\n  __syncthreads();\n",
      "  if (threadIdx.x != 3) b0[i] = __shfl_xor_sync(0xffffffffu, b1[i], 1);\n",
      "  b0[i] = __shfl_xor_sync(threadIdx.x == 0 ? 1u : 0xffffffffu, b1[i], 1);\n",
  };
  for (size_t i = 0; i < LW_ARRAY_COUNT(bodies); i++) {
    lw_text source = {0};
    lw__text_add(&source, KERNEL("lw_bad") INDEX "%s}\n", bodies[i]);
    float y[128];
    standin->violations = 0;
    run(source.data, "lw_bad", 1, 128, 0, 128, y);
    assert_int_equal(standin->violations, 1);
    lw__text_deinit(&source);
  }
  standin->violations = 0;
}

static void test_dynamic_shared_and_ptx(void **state) {
  (void)state;
  static const char source[] =
      "#define LW_HELPER static __device__ __forceinline__\n"
      "LW_HELPER unsigned short lw_f32_to_f16(float x) {\n"
      "  unsigned short r;\n"
      "  asm(\"cvt.rn.f16.f32 %0, %1;\" : \"=h\"(r) : \"f\"(x));\n"
      "  return r;\n"
      "}\n"
      "LW_HELPER float lw_f16_to_f32(unsigned short x) {\n"
      "  float r;\n"
      "  asm(\"cvt.f32.f16 %0, %1;\" : \"=f\"(r) : \"h\"(x));\n"
      "  return r;\n"
      "}\n"
      "LW_HELPER float lw_max(float a, float b) {\n"
      "  float r;\n"
      "  asm(\"max.NaN.f32 %0, %1, %2;\" : \"=f\"(r) : \"f\"((a)), \"f\"(b));\n"
      "  return r;\n"
      "}\n" KERNEL("lw_dynamic")
          "  extern __shared__ __align__(16) unsigned char dynamic[];\n"
          "  float *const h0 = (float *)(dynamic + 65536);\n" INDEX
          "  h0[threadIdx.x] = lw_f16_to_f32(lw_f32_to_f16(b1[i] + 0.0001f));\n"
          "  __syncthreads();\n"
          "  b0[i] = lw_max(h0[threadIdx.x ^ 1], 2.0f);\n}\n";
  float y[64];
  lw_cu_module module;
  lw_cu_function function;
  lw_text image = {0};
  lw__text_add(&image, LW_STANDIN_SOURCE "%s", source);
  assert_int_equal(driver.module_load(&module, image.data), 0);
  assert_int_equal(driver.module_function(&function, module, "lw_dynamic"), 0);
  /* Without asking for it there is no such amount of shared memory. */
  void *none[3] = {0};
  assert_int_equal(driver.launch(function, 1, 1, 1, 32, 1, 1, 66 << 10, NULL, none, NULL), 1);
  assert_int_equal(driver.function_set(function, LW_CU_FUNCTION_MAX_DYNAMIC_SHARED, 66 << 10), 0);
  driver.module_unload(module);
  lw__text_deinit(&image);
  run(source, "lw_dynamic", 2, 32, 0, 64, y);
  for (int i = 0; i < 64; i++) assert_true(y[i] == (float)((i ^ 1) < 2 ? 2 : i ^ 1));
  assert_int_equal(standin->violations, 0);
}

static void test_bad_source(void **state) {
  (void)state;
  lw_cu_module module;
  assert_int_equal(driver.module_load(&module, LW_STANDIN_SOURCE "this is no C"), 218);
  assert_int_equal(driver.module_load(&module, "nothing known"), 200);
}

int main(void) {
  const struct CMUnitTest tests[] = {
      cmocka_unit_test(test_elements),
      cmocka_unit_test(test_barrier),
      cmocka_unit_test(test_shuffle),
      cmocka_unit_test(test_missing_threads),
      cmocka_unit_test(test_dynamic_shared_and_ptx),
      cmocka_unit_test(test_bad_source),
  };
  return cmocka_run_group_tests(tests, start, stop);
}

/* Generated CUDA C, compiled by NVRTC for sm_80 and sm_90a without a GPU: every scalar function,
 * cast, narrow type, reduction and vector access. Without NVRTC the test fails unless
 * LAWSON_ALLOW_NO_NVRTC is 1. */
#include <dlfcn.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>

#include <cmocka.h>

#include "fn_kernels.h"

typedef struct nvrtc_program nvrtc_program;
static struct nvrtc {
  void *handle;
  int (*create)(nvrtc_program **, const char *, const char *, int, const char *const *,
                const char *const *);
  int (*destroy)(nvrtc_program **);
  int (*compile)(nvrtc_program *, int, const char *const *);
  int (*log_size)(nvrtc_program *, size_t *);
  int (*log)(nvrtc_program *, char *);
  int (*cubin_size)(nvrtc_program *, size_t *);
  int (*cubin)(nvrtc_program *, char *);
} nvrtc;

static void symbol(const char *name, void *out) {
  void *address = dlsym(nvrtc.handle, name);
  if (address == NULL) fail_msg("NVRTC has no %s", name);
  memcpy(out, &address, sizeof address);
}

static int open_nvrtc(void **state) {
  (void)state;
  static const char *const names[] = {"libnvrtc.so", "/usr/local/cuda/lib64/libnvrtc.so",
                                      "libnvrtc.so.13", "libnvrtc.so.12"};
  for (size_t i = 0; i < LW_ARRAY_COUNT(names) && nvrtc.handle == NULL; i++)
    nvrtc.handle = dlopen(names[i], RTLD_NOW | RTLD_LOCAL);
  if (nvrtc.handle == NULL) {
    const char *allowed = getenv("LAWSON_ALLOW_NO_NVRTC");
    if (allowed != NULL && strcmp(allowed, "1") == 0) return 0;
    fprintf(stderr, "no libnvrtc; LAWSON_ALLOW_NO_NVRTC=1 skips this test\n");
    return -1;
  }
  symbol("nvrtcCreateProgram", &nvrtc.create);
  symbol("nvrtcDestroyProgram", &nvrtc.destroy);
  symbol("nvrtcCompileProgram", &nvrtc.compile);
  symbol("nvrtcGetProgramLogSize", &nvrtc.log_size);
  symbol("nvrtcGetProgramLog", &nvrtc.log);
  symbol("nvrtcGetCUBINSize", &nvrtc.cubin_size);
  symbol("nvrtcGetCUBIN", &nvrtc.cubin);
  return 0;
}

/* Fails on any message of the compiler. */
static void compile(const lw_text *source, const char *arch) {
  if (nvrtc.handle == NULL) skip();
  nvrtc_program *program = NULL;
  assert_int_equal(nvrtc.create(&program, lw__text_str(source), "k.cu", 0, NULL, NULL), 0);
  char option[64];
  snprintf(option, sizeof option, "--gpu-architecture=%s", arch);
  const char *const options[] = {option, "--std=c++17"};
  int rc = nvrtc.compile(program, 2, options);
  size_t bytes = 0;
  nvrtc.log_size(program, &bytes);
  char *log = calloc(bytes + 1, 1);
  nvrtc.log(program, log);
  if (rc != 0 || log[0] != 0) {
    lw_diag diag = {0};
    if (lw__file_write("/tmp/lawson_test_cuda.cu", source->data, source->len, &diag) == LW_OK)
      fail_msg("%s: rc %d, source in /tmp/lawson_test_cuda.cu:\n%.2000s", arch, rc, log);
  }
  free(log);
  nvrtc.destroy(&program);
}

static void compile_set(fn_set *set) {
  lw_text text = {0};
  assert_int_equal(lw__emit_cuda((const lw_kernel *const *)set->kernels.data,
                                 (const char *const *)set->names.data, set->kernels.count, &text),
                   LW_OK);
  compile(&text, "sm_80");
  compile(&text, "sm_90a");
  lw__text_deinit(&text);
  fn_free(set);
}

static void test_functions(void **state) {
  (void)state;
  fn_set set = {0};
  fn_add_everything(&set, LW_KTARGET_GPU);
  compile_set(&set);
}

static void test_reductions(void **state) {
  (void)state;
  static const uint32_t widths[] = {2, 32, 64, 256};
  fn_set set = {0};
  for (int red = 0; red < LW_RED_COUNT; red++) {
    for (size_t t = 0; t < LW_ARRAY_COUNT(fn_value_types); t++) {
      lw_dtype dtype = fn_value_types[t];
      if (lw__fn_result_type(lw__red_info[red].combine, dtype) != dtype) continue;
      fn_build b;
      fn_begin(&b, LW_KTARGET_GPU);
      uint32_t scratch = lw__kb_shared(&b.kb, dtype, FN_BLOCK / 32);
      lw_kval x = fn_load(&b, dtype);
      for (size_t w = 0; w < LW_ARRAY_COUNT(widths); w++)
        x = lw__kb_reduce(&b.kb, (lw_red)red, x, widths[w], scratch);
      char name[64];
      snprintf(name, sizeof name, "k_%s_%s", lw__red_info[red].name, lw_dtype_name(dtype));
      fn_end(&b, &set, dtype, x, name);
    }
  }
  compile_set(&set);
}

/* Vectors of every type and width, whole and from the middle of the local array, with and without
 * predicate. */
static void add_vectors(fn_set *set, lw_dtype dtype, uint32_t width, bool offset) {
  fn_build b;
  fn_begin(&b, LW_KTARGET_GPU);
  lw_kbuilder *kb = &b.kb;
  uint32_t in = lw__kb_buffer(kb, dtype, false), both = lw__kb_buffer(kb, dtype, true);
  uint32_t local = lw__kb_local(kb, dtype, 4 * width + 1);
  lw_kval at = lw__kb_fn(kb, LW_FN_MUL, b.index, lw__kb_const_i(kb, LW_DTYPE_I32, width), LW_NONE);
  lw_kval pred = lw__kb_fn(kb, LW_FN_LT, b.index, lw__kb_const_i(kb, LW_DTYPE_I32, 100), LW_NONE);
  lw_kval first = lw__kb_const_i(kb, LW_DTYPE_I32, offset ? 1 : 0);
  lw__kb_loadv(kb, in, b.base, at, LW_NONE, local, first, width);
  lw_kval i = lw__kb_for_n(kb, 2, LW_KLOOP_UNROLL);
  lw_kval to = lw__kb_fn(kb, LW_FN_MUL, i, lw__kb_const_i(kb, LW_DTYPE_I32, width), LW_NONE);
  lw__kb_loadv(kb, both, b.base, at, pred, local, lw__kb_fn(kb, LW_FN_ADD, to, first, LW_NONE),
               width);
  lw__kb_lset(kb, local, i, lw__kb_lget(kb, local, to));
  lw__kb_storev(kb, both, b.base, at, pred, local, to, width);
  lw__kb_end(kb);
  char name[64];
  snprintf(name, sizeof name, "k_%s_%u_%d", lw_dtype_name(dtype), width, offset);
  lw__kb_storev(kb, both, b.base, at, LW_NONE, local, LW_NONE, width);
  lw_dtype value = lw__kb_type(kb, lw__kb_lget(kb, local, LW_NONE));
  fn_end(&b, set, value, lw__kb_lget(kb, local, LW_NONE), name);
}

static void test_vectors(void **state) {
  (void)state;
  fn_set set = {0};
  for (int t = LW_DTYPE_BOOL; t < LW_DTYPE_COUNT; t++)
    for (uint32_t width = 1; width <= 32; width += width < 8 ? 1 : 4)
      for (int offset = 0; offset < 2; offset++) add_vectors(&set, (lw_dtype)t, width, offset != 0);
  compile_set(&set);
}

/* Shared memory of every type, and more of it than a static array may have. */
static void test_shared(void **state) {
  (void)state;
  fn_set set = {0};
  for (uint32_t large = 0; large < 2; large++) {
    for (int t = LW_DTYPE_BOOL; t < LW_DTYPE_COUNT; t++) {
      lw_dtype dtype = (lw_dtype)t;
      fn_build b;
      fn_begin(&b, LW_KTARGET_GPU);
      lw_kbuilder *kb = &b.kb;
      uint32_t first = lw__kb_shared(kb, dtype, large != 0 ? 50000 : 300),
               second = lw__kb_shared(kb, dtype, 300);
      lw_kval x = fn_load(&b, dtype);
      lw_kval p = lw__kb_fn(kb, LW_FN_LT, b.index, lw__kb_const_i(kb, LW_DTYPE_I32, 77), LW_NONE);
      lw__kb_sset(kb, first, b.index, LW_NONE, x);
      lw__kb_barrier(kb);
      lw__kb_sset(kb, second, b.index, p,
                  lw__kb_sget(kb, first,
                              lw__kb_fn(kb, LW_FN_BITXOR, b.index,
                                        lw__kb_const_i(kb, LW_DTYPE_I32, 1), LW_NONE)));
      lw__kb_if(kb, p);
      uint32_t out = lw__kb_buffer(kb, dtype, true);
      lw__kb_store(kb, out, b.base, b.index, LW_NONE, lw__kb_sget(kb, second, b.index));
      lw__kb_end(kb);
      char name[64];
      snprintf(name, sizeof name, "k_%s_%u", lw_dtype_name(dtype), large);
      fn_end(&b, &set, lw__kb_type(kb, x), x, name);
    }
  }
  compile_set(&set);
}

int main(void) {
  const struct CMUnitTest tests[] = {
      cmocka_unit_test(test_functions),
      cmocka_unit_test(test_reductions),
      cmocka_unit_test(test_vectors),
      cmocka_unit_test(test_shared),
  };
  return cmocka_run_group_tests_name("emit_cuda", tests, open_nvrtc, NULL);
}

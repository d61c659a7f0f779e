/* Matrix products for sm_90a: parameters that cannot be are refused, the text depends on nothing
 * but them, and NVRTC compiles it without spills or any warning (serialized matrix instructions,
 * ignored register counts). Without NVRTC the last part fails unless LAWSON_ALLOW_NO_NVRTC is 1. */
#include <dlfcn.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include <cmocka.h>

#include "compiler/emit/emit.h"
#include "compiler/emit/product_sm90.h"
#include "lib/product.h"

#define COOP LW_PRODUCT_COOPERATIVE
#define PING LW_PRODUCT_PINGPONG
#define DIRECT LW_PRODUCT_STORE_DIRECT
#define TMA LW_PRODUCT_STORE_TMA
#define KN LW_PRODUCT_B_KN
#define NK LW_PRODUCT_B_NK

static lw_product_sm90 product(lw_dtype dtype, lw_product_b b, lw_product_sched sched,
                               lw_product_store store, uint32_t m, uint32_t n, uint32_t stages,
                               uint32_t cluster) {
  return (lw_product_sm90){.dtype = dtype,
                           .out_dtype = dtype,
                           .b_layout = b,
                           .sched = sched,
                           .store = store,
                           .tile_m = m,
                           .tile_n = n,
                           .tile_k = 64,
                           .stages = stages,
                           .group = 16,
                           .cluster = cluster,
                           .split = 1};
}

/* ---- parameters -------------------------------------------------------------------------------*/

static void test_shape(void **state) {
  (void)state;
  lw_product_sm90 p = product(LW_DTYPE_F16, NK, COOP, TMA, 128, 256, 4, 1);
  lw_product_sm90_shape shape;
  assert_int_equal(lw__product_sm90_shape(&p, &shape), LW_OK);
  assert_int_equal(shape.threads, 384);
  assert_int_equal(shape.accumulators, 128);
  assert_int_equal(shape.a_box[1], 128);
  assert_int_equal(shape.b_box[1], 256);
  assert_true(shape.shared_bytes >= 4 * 49152 + 16384 && shape.shared_bytes <= 232448);
  p.cluster = 2;
  assert_int_equal(lw__product_sm90_shape(&p, &shape), LW_OK);
  assert_int_equal(shape.b_box[1], 128);
  p.b_layout = KN;
  assert_int_equal(lw__product_sm90_shape(&p, &shape), LW_OK);
  assert_int_equal(shape.b_box[1], 64);
}

static const lw_product_hook plain = {.packs = true};

static void refuse(lw_product_sm90 p) {
  lw_product_sm90_shape shape;
  lw_text text = {0};
  assert_int_equal(lw__product_sm90_shape(&p, &shape), LW_STATUS_UNSUPPORTED);
  assert_int_equal(lw__emit_product_sm90(&p, &plain, "k", &text), LW_STATUS_UNSUPPORTED);
  assert_int_equal(text.len, 0);
  lw__text_deinit(&text);
}

static void test_refused(void **state) {
  (void)state;
  refuse(product(LW_DTYPE_F32, KN, COOP, DIRECT, 128, 128, 4, 1));
  refuse(product(LW_DTYPE_F16, KN, COOP, DIRECT, 96, 128, 4, 1));
  refuse(product(LW_DTYPE_F16, KN, COOP, DIRECT, 128, 96, 4, 1));
  refuse(product(LW_DTYPE_F16, KN, COOP, DIRECT, 128, 320, 2, 1));
  refuse(product(LW_DTYPE_F16, KN, COOP, DIRECT, 64, 64, 4, 1));   /* halves of 32 columns */
  refuse(product(LW_DTYPE_F16, KN, COOP, DIRECT, 128, 256, 5, 1)); /* shared memory */
  refuse(product(LW_DTYPE_F16, KN, PING, DIRECT, 128, 256, 3, 1)); /* registers */
  refuse(product(LW_DTYPE_F16, KN, COOP, DIRECT, 128, 128, 1, 1));
  refuse(product(LW_DTYPE_F16, KN, COOP, DIRECT, 128, 128, 4, 4));
  lw_product_sm90 p = product(LW_DTYPE_F16, KN, COOP, DIRECT, 128, 128, 4, 1);
  p.group = 0;
  refuse(p);
  p.group = 16;
  p.tile_k = 32;
  refuse(p);
}

static void test_no_memory(void **state) {
  (void)state;
  lw_product_sm90 p = product(LW_DTYPE_F16, KN, PING, TMA, 128, 128, 4, 2);
  lw_status status = LW_STATUS_OUT_OF_MEMORY;
  uint64_t n = 0;
  while (status == LW_STATUS_OUT_OF_MEMORY && n < 1000) {
    lw_text text = {0};
    lw__mem_fail_at(++n);
    status = lw__emit_product_sm90(&p, &plain, "k", &text);
    lw__mem_fail_at(0);
    lw__text_deinit(&text);
  }
  assert_int_equal(status, LW_OK);
  assert_true(n > 10);
}

static void test_grid(void **state) {
  (void)state;
  lw_product_sm90 p = product(LW_DTYPE_F16, KN, COOP, TMA, 128, 256, 4, 1);
  assert_int_equal(lw__product_sm90_grid(&p, 1, 1, 132), 1);
  assert_int_equal(lw__product_sm90_grid(&p, 129, 257, 132), 4);
  assert_int_equal(lw__product_sm90_grid(&p, 8192, 8192, 132), 132);
  p.cluster = 2;
  assert_int_equal(lw__product_sm90_grid(&p, 1, 1, 132), 2);
  assert_int_equal(lw__product_sm90_grid(&p, 257, 257, 132), 8);
  assert_int_equal(lw__product_sm90_grid(&p, 8192, 8192, 131), 130);
}

/* Sizes that were measured: what comes first was among the best then. */
static void test_candidates(void **state) {
  (void)state;
  static const struct {
    int64_t rows, columns, depth;
    lw_product_sched sched;
    uint32_t tile_m, tile_n;
  } known[] = {
      {2048, 2048, 2048, PING, 128, 128},
      {8192, 8192, 8192, PING, 128, 192},
      {16384, 4096, 1024, PING, 128, 128},
  };
  for (size_t i = 0; i < LW_ARRAY_COUNT(known); i++) {
    lw_product_sm90 like = product(LW_DTYPE_F16, KN, COOP, TMA, 64, 64, 2, 1);
    lw_product_sm90 out[LW_PRODUCT_SM90_CANDIDATES];
    uint32_t count = lw__product_sm90_candidates(&like, known[i].rows, known[i].columns,
                                                 known[i].depth, 132, out);
    assert_in_range(count, 8, LW_PRODUCT_SM90_CANDIDATES);
    assert_int_equal(out[0].sched, known[i].sched);
    assert_int_equal(out[0].tile_m, known[i].tile_m);
    assert_int_equal(out[0].tile_n, known[i].tile_n);
    for (uint32_t c = 0; c < count; c++) {
      lw_product_sm90_shape shape;
      assert_int_equal(lw__product_sm90_shape(&out[c], &shape), LW_OK);
      assert_int_equal(out[c].store, out[c].split > 1 ? DIRECT : TMA);
      assert_true(out[c].split == 1 || out[c].split * 2 * 64 <= known[i].depth);
    }
  }
}

/* Few tiles and a large depth: split, as far as there are multiprocessors and depth. */
static void test_candidates_split(void **state) {
  (void)state;
  static const struct {
    int64_t rows, columns, depth;
    uint32_t split;
  } known[] = {{64, 64, 4096, 8}, {1, 1024, 4096, 8}, {128, 768, 768, 4}, {1, 768, 256, 1},
               {64, 64, 128, 1},  {1, 50257, 768, 1}, {4096, 4096, 64, 1}};
  for (size_t i = 0; i < LW_ARRAY_COUNT(known); i++) {
    lw_product_sm90 like = product(LW_DTYPE_F16, NK, COOP, TMA, 64, 64, 2, 1);
    lw_product_sm90 out[LW_PRODUCT_SM90_CANDIDATES];
    uint32_t count = lw__product_sm90_candidates(&like, known[i].rows, known[i].columns,
                                                 known[i].depth, 132, out);
    assert_true(count > 0);
    if (out[0].split != known[i].split)
      fail_msg("%lldx%lldx%lld: split %u", (long long)known[i].rows, (long long)known[i].columns,
               (long long)known[i].depth, out[0].split);
    uint32_t grid = lw__product_sm90_grid(&out[0], known[i].rows, known[i].columns, 132);
    assert_true(grid <= 132);
  }
}

/* ---- NVRTC ------------------------------------------------------------------------------------*/

typedef struct nvrtc_program nvrtc_program;
static struct nvrtc {
  void *handle;
  int (*create)(nvrtc_program **, const char *, const char *, int, const char *const *,
                const char *const *);
  int (*destroy)(nvrtc_program **);
  int (*compile)(nvrtc_program *, int, const char *const *);
  int (*log_size)(nvrtc_program *, size_t *);
  int (*log)(nvrtc_program *, char *);
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
  return 0;
}

/* The log of the compiler, to be freed; fails when the source is rejected. */
static char *compile(const lw_text *source) {
  nvrtc_program *program = NULL;
  assert_int_equal(nvrtc.create(&program, lw__text_str(source), "k.cu", 0, NULL, NULL), 0);
  const char *const options[] = {"--gpu-architecture=sm_90a", "--std=c++17", "--ptxas-options=-v"};
  int rc = nvrtc.compile(program, 3, options);
  size_t bytes = 0;
  nvrtc.log_size(program, &bytes);
  char *log = calloc(bytes + 1, 1);
  assert_non_null(log);
  nvrtc.log(program, log);
  nvrtc.destroy(&program);
  if (rc != 0) fail_msg("rc %d:\n%.2000s", rc, log);
  return log;
}

static void compile_source(const lw_text *text) {
  if (nvrtc.handle == NULL) skip();
  char *log = compile(text);
  if (strstr(log, "warning") != NULL || strstr(log, "(C7") != NULL) fail_msg("%.2000s", log);
  if (strstr(log, " 0 bytes spill stores, 0 bytes spill loads") == NULL)
    fail_msg("spills:\n%.2000s", log);
  free(log);
}

static void compile_with(const lw_product_sm90 *p, const lw_product_hook *hook) {
  lw_text text = {0}, again = {0};
  assert_int_equal(lw__emit_product_sm90(p, hook, "product", &text), LW_OK);
  assert_int_equal(lw__emit_product_sm90(p, hook, "product", &again), LW_OK);
  assert_string_equal(lw__text_str(&text), lw__text_str(&again));
  compile_source(&text);
  lw__text_deinit(&text);
  lw__text_deinit(&again);
}

static void compile_clean(const lw_product_sm90 *p) { compile_with(p, &plain); }

/* All that may be chosen, the two ways to store in turns. */
static void test_compiles_candidates(void **state) {
  (void)state;
  lw_product_sm90 like = product(LW_DTYPE_BF16, KN, COOP, DIRECT, 64, 64, 2, 1);
  lw_product_sm90 out[LW_PRODUCT_SM90_CANDIDATES];
  uint32_t count = lw__product_sm90_candidates(&like, 4096, 4096, 4096, 132, out);
  for (uint32_t c = 0; c < count; c++) {
    out[c].store = c % 2 == 0 ? TMA : DIRECT;
    compile_clean(&out[c]);
  }
}

static void test_compiles_f16(void **state) {
  (void)state;
  const lw_product_sm90 all[] = {
      product(LW_DTYPE_F16, KN, COOP, DIRECT, 128, 128, 6, 1),
      product(LW_DTYPE_F16, KN, COOP, TMA, 128, 256, 4, 1),
      product(LW_DTYPE_F16, NK, COOP, TMA, 128, 256, 3, 2),
      product(LW_DTYPE_F16, KN, PING, TMA, 64, 256, 4, 2),
      product(LW_DTYPE_F16, NK, PING, DIRECT, 128, 128, 6, 1),
      product(LW_DTYPE_F16, NK, PING, TMA, 128, 64, 6, 1),
      product(LW_DTYPE_F16, KN, PING, TMA, 128, 192, 4, 2),
  };
  for (size_t i = 0; i < LW_ARRAY_COUNT(all); i++) compile_clean(&all[i]);
}

static void test_compiles_bf16(void **state) {
  (void)state;
  const lw_product_sm90 all[] = {
      product(LW_DTYPE_BF16, NK, COOP, DIRECT, 128, 256, 3, 1),
      product(LW_DTYPE_BF16, KN, COOP, TMA, 64, 256, 5, 1),
      product(LW_DTYPE_BF16, KN, COOP, TMA, 256, 128, 4, 1),
      product(LW_DTYPE_BF16, KN, PING, TMA, 128, 128, 5, 2),
  };
  for (size_t i = 0; i < LW_ARRAY_COUNT(all); i++) compile_clean(&all[i]);
}

/* The depth shared by the blocks of a cluster. */
static void test_compiles_split(void **state) {
  (void)state;
  for (uint32_t split = 2; split <= 8; split *= 2) {
    lw_product_sm90 p = product(LW_DTYPE_F16, split == 4 ? NK : KN, PING, DIRECT, 64, 64, 10, 1);
    lw_product_sm90_shape shape;
    p.split = split;
    assert_int_equal(lw__product_sm90_shape(&p, &shape), LW_OK);
    assert_int_equal(shape.cluster, split);
    assert_int_equal(lw__product_sm90_grid(&p, 65, 64, 132), 2 * split);
    compile_clean(&p);
  }
  lw_product_sm90 p = product(LW_DTYPE_F16, KN, PING, TMA, 64, 64, 5, 1);
  p.split = 2;
  refuse(p);
  p.store = DIRECT;
  p.split = 3;
  refuse(p);
  p.split = 2;
  p.sched = COOP;
  refuse(p);
}

static void bias_column(lw_text *out, const void *user) {
  (void)user;
  lw__text_add(out, "const float bias_here = lw_f16_to_f32(bias[column]);\n");
}

static void bias_element(lw_text *out, const void *user) {
  lw__text_add(out,
               "value = fmaxf(sum + bias_here, 0.0f) + lw_f16_to_f32(%s[(long long)row * columns + "
               "column]);\n",
               (const char *)user);
}

static void test_hook(void **state) {
  (void)state;
  const lw_product_hook hook = {.parameters =
                                    "const unsigned short *__restrict__ bias,\n"
                                    "    const unsigned short *more, ",
                                .uses_row = true,
                                .uses_column = true,
                                .packs = true,
                                .column = bias_column,
                                .element = bias_element,
                                .user = "more"};
  for (int store = 0; store < 2; store++) {
    lw_product_sm90 p = product(LW_DTYPE_F16, KN, COOP, store ? TMA : DIRECT, 128, 256, 4, 1);
    p.watchdog = store == 0;
    compile_with(&p, &hook);
  }
}

static void own_element(lw_text *out, const void *user) {
  (void)user;
  lw__text_add(out, "if (inside) to[(long long)column * rows + row] = sum;\n");
}

/* A hook that stores by itself: f32, transposed. */
static void test_own_stores(void **state) {
  (void)state;
  const lw_product_hook hook = {.parameters = "float *to, ",
                                .uses_row = true,
                                .uses_column = true,
                                .uses_inside = true,
                                .element = own_element};
  lw_product_sm90 p = product(LW_DTYPE_BF16, NK, PING, DIRECT, 128, 128, 5, 1);
  compile_with(&p, &hook);
  p.tile_n = 64;
  p.split = 4;
  compile_with(&p, &hook);
  p.split = 1;
  p.store = TMA;
  lw_text text = {0};
  assert_int_equal(lw__emit_product_sm90(&p, &hook, "k", &text), LW_STATUS_INTERNAL);
  lw__text_deinit(&text);
}

/* Kernels with a product, several of them in one source. What does not change along a column stands
 * before what does. */
static void test_kernels(void **state) {
  (void)state;
  const lw_test_product all[3] = {
      {LW_DTYPE_F16, LW_DTYPE_F16, KN, TMA, false, 256, 128, 1},
      {LW_DTYPE_BF16, LW_DTYPE_F16, NK, DIRECT, false, 50257, 768, 1},
      {LW_DTYPE_BF16, LW_DTYPE_F32, NK, DIRECT, true, 1000, 64, 1},
  };
  static const char *const names[3] = {"lw_dot_a", "lw_dot_b", "lw_dot_c"};
  lw_kernel kernels[3];
  const lw_kernel *pointers[3];
  for (int i = 0; i < 3; i++) {
    assert_int_equal(lw_test_product_make(&all[i], 33, &kernels[i]), LW_OK);
    pointers[i] = &kernels[i];
  }
  lw_text text = {0};
  assert_int_equal(lw__emit_cuda(pointers, names, 3, &text), LW_OK);
  const char *column = strstr(lw__text_str(&text), LW_PRODUCT_MARK_COLUMN);
  const char *element = strstr(lw__text_str(&text), LW_PRODUCT_MARK_ELEMENT);
  const char *bias = strstr(lw__text_str(&text), "b2[column]");
  const char *more = strstr(lw__text_str(&text), "b3[");
  assert_true(column < bias && bias < element && element < more);
  if (nvrtc.handle != NULL) compile_source(&text);
  lw__text_deinit(&text);
  text = (lw_text){0};
  assert_int_equal(lw__emit_c(pointers, names, 1, &text), LW_STATUS_INTERNAL);
  lw__text_deinit(&text);
  for (int i = 0; i < 3; i++) lw__kernel_deinit(&kernels[i]);
}

/* The test above would not be one if NVRTC kept such warnings to itself. */
static void test_warnings_are_seen(void **state) {
  (void)state;
  if (nvrtc.handle == NULL) skip();
  lw_product_sm90 p = product(LW_DTYPE_F16, KN, COOP, DIRECT, 128, 256, 4, 1);
  lw_text text = {0}, changed = {0};
  assert_int_equal(lw__emit_product_sm90(&p, &plain, "product", &text), LW_OK);
  const char *bounds = strstr(lw__text_str(&text), "__launch_bounds__(384, 1)");
  assert_non_null(bounds);
  lw__text_add_n(&changed, text.data, (size_t)(bounds - text.data));
  lw__text_add(&changed, "%s", bounds + strlen("__launch_bounds__(384, 1)"));
  char *log = compile(&changed);
  assert_non_null(strstr(log, "C7508"));
  free(log);
  lw__text_deinit(&text);
  lw__text_deinit(&changed);
}

int main(void) {
  const struct CMUnitTest tests[] = {
      cmocka_unit_test(test_shape),
      cmocka_unit_test(test_refused),
      cmocka_unit_test(test_no_memory),
      cmocka_unit_test(test_grid),
      cmocka_unit_test(test_candidates),
      cmocka_unit_test(test_candidates_split),
      cmocka_unit_test(test_compiles_f16),
      cmocka_unit_test(test_compiles_bf16),
      cmocka_unit_test(test_compiles_split),
      cmocka_unit_test(test_hook),
      cmocka_unit_test(test_own_stores),
      cmocka_unit_test(test_kernels),
      cmocka_unit_test(test_compiles_candidates),
      cmocka_unit_test(test_warnings_are_seen),
  };
  return cmocka_run_group_tests(tests, open_nvrtc, NULL);
}

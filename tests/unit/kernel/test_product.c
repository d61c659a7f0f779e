/* Kernels with a product: the interpreter gives what sums in double give, and what is wrong with
 * such a kernel or its launch is reported. */
#include <math.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>
#include <string.h>

#include <cmocka.h>

#include "compiler/kernel/interp.h"
#include "compiler/kernel/walk.h"
#include "lib/product.h"

enum { ROWS = 37, COLUMNS = 24, DEPTH = 16 };

static const lw_test_product plain = {.dtype = LW_DTYPE_F16,
                                      .out_dtype = LW_DTYPE_F16,
                                      .b_layout = LW_PRODUCT_B_KN,
                                      .store = LW_PRODUCT_STORE_TMA,
                                      .columns = COLUMNS,
                                      .depth = DEPTH};

static uint16_t a[ROWS * DEPTH], b[COLUMNS * DEPTH], bias[COLUMNS];
static float more[ROWS * COLUMNS], out[ROWS * COLUMNS]; /* room for f32 */
static const int64_t rows[1] = {ROWS};

static double pattern(int64_t i) { return (double)((i * 37 + 11) % 64 - 32) / 16; }

static void fill(lw_dtype dtype, void *to, int64_t count, int64_t seed) {
  for (int64_t i = 0; i < count; i++) lw__elem_set_f64(dtype, to, i, pattern(i + seed));
}

static void buffers_of(const lw_test_product *t, lw_kinterp_buffer buffers[5]) {
  size_t wide = lw_dtype_size_bytes(t->out_dtype);
  fill(t->dtype, a, ROWS * DEPTH, 1);
  fill(t->dtype, b, COLUMNS * DEPTH, 2);
  fill(t->dtype, bias, COLUMNS, 3);
  fill(t->out_dtype, more, ROWS * COLUMNS, 4);
  memset(out, 0xff, sizeof out);
  const lw_kinterp_buffer all[5] = {{a, sizeof a},
                                    {b, sizeof b},
                                    {bias, sizeof bias},
                                    {more, ROWS * COLUMNS * wide},
                                    {out, ROWS * COLUMNS * wide}};
  memcpy(buffers, all, sizeof all);
}

static void check_results(const lw_test_product *t) {
  for (int64_t r = 0; r < ROWS; r++)
    for (int64_t c = 0; c < COLUMNS; c++) {
      int64_t at = t->turned ? c * ROWS + r : r * COLUMNS + c;
      double sum = 0;
      for (int64_t k = 0; k < DEPTH; k++)
        sum += lw__elem_get_f64(t->dtype, a, r * DEPTH + k) *
               lw__elem_get_f64(t->dtype, b,
                                t->b_layout == LW_PRODUCT_B_KN ? k * COLUMNS + c : c * DEPTH + k);
      sum = fmax(sum + lw__elem_get_f64(t->dtype, bias, c), 0) +
            lw__elem_get_f64(t->out_dtype, more, at);
      assert_true(lw__elem_get_f64(t->out_dtype, out, at) == lw__round_to(t->out_dtype, sum));
    }
}

/* All numbers are multiples of 1/256 below 2^10: sums in f32 are exact. */
static void test_results(void **state) {
  (void)state;
  for (int i = 0; i < 12; i++) {
    lw_test_product t = plain;
    t.dtype = i % 2 ? LW_DTYPE_BF16 : LW_DTYPE_F16;
    t.b_layout = i / 2 % 2 ? LW_PRODUCT_B_NK : LW_PRODUCT_B_KN;
    t.store = i < 4 ? LW_PRODUCT_STORE_TMA : LW_PRODUCT_STORE_DIRECT;
    t.turned = i >= 8;
    t.out_dtype = t.turned ? LW_DTYPE_F32 : t.dtype;
    lw_kernel kernel;
    lw_kinterp_buffer buffers[5];
    lw_kinterp_counts counts;
    assert_int_equal(lw_test_product_make(&t, ROWS, &kernel), LW_OK);
    buffers_of(&t, buffers);
    assert_int_equal(lw__kinterp_run(&kernel, 3, buffers, rows, NULL, &counts), LW_OK);
    check_results(&t);
    assert_int_equal(counts.stores, ROWS * COLUMNS);
    assert_int_equal(counts.loads, DEPTH * (ROWS + COLUMNS) + 2 * ROWS * COLUMNS);
    lw__kernel_deinit(&kernel);
  }
}

static lw_status run(const lw_kernel *kernel, const int64_t *scalars, const char *want) {
  lw_kinterp_buffer buffers[5];
  lw_diag diag = {0};
  buffers_of(&plain, buffers);
  lw_status status = lw__kinterp_run(kernel, 1, buffers, scalars, &diag, NULL);
  const char *got = lw__diag_first_error(&diag);
  if (strstr(got, want) == NULL) fail_msg("got '%s', want '%s'", got, want);
  lw__diag_deinit(&diag);
  return status;
}

static void test_bad_launches(void **state) {
  (void)state;
  static const int64_t none[1] = {0}, many[1] = {ROWS + 1};
  lw_kernel kernel;
  assert_int_equal(lw_test_product_make(&plain, ROWS, &kernel), LW_OK);
  assert_int_equal(run(&kernel, none, "without rows"), LW_STATUS_INTERNAL);
  assert_int_equal(run(&kernel, many, "reaches beyond its buffer"), LW_STATUS_INTERNAL);
  kernel.product.out.pitch = COLUMNS + 8;
  assert_int_equal(run(&kernel, rows, "is stored for row 1"), LW_STATUS_INTERNAL);
  kernel.product.out.pitch = COLUMNS;
  kernel.product.b.offset = 8;
  assert_int_equal(run(&kernel, rows, "reaches beyond its buffer"), LW_STATUS_INTERNAL);
  lw__kernel_deinit(&kernel);
}

/* Two elements that are stored to one place. */
static void test_race(void **state) {
  (void)state;
  lw_test_product t = plain;
  lw_kernel kernel;
  t.turned = true;
  t.store = LW_PRODUCT_STORE_DIRECT;
  assert_int_equal(lw_test_product_make(&t, ROWS - 1, &kernel), LW_OK);
  assert_int_equal(run(&kernel, rows, "race"), LW_STATUS_INTERNAL);
  lw__kernel_deinit(&kernel);
}

typedef void change(lw_kernel *kernel);

static void tall_tile(lw_kernel *k) { k->product.form.tile_m = 96; }
static void few_threads(lw_kernel *k) { k->block_threads = 128; }
static void no_scalar(lw_kernel *k) { k->scalar_count = 0; }
static void odd_pitch(lw_kernel *k) { k->product.a.pitch += 4; }
static void short_pitch(lw_kernel *k) { k->product.a.pitch -= 8; }
static void odd_columns(lw_kernel *k) { k->product.columns = COLUMNS - 4; }
static void no_result(lw_kernel *k) { k->product.out.buffer = LW_NONE; }
static void other_type(lw_kernel *k) { k->product.form.dtype = LW_DTYPE_BF16; }
static void read_result(lw_kernel *k) { k->product.a.buffer = 4; }
static void no_product(lw_kernel *k) { k->product.present = false; }
static void on_cpu(lw_kernel *k) { k->target = LW_KTARGET_CPU; }
static void load_result(lw_kernel *k) {
  for (uint32_t i = 0; i < k->instrs.count; i++)
    if (k->instrs.data[i].op == LW_K_LOAD) k->instrs.data[i].object = 4;
}
static void thread_in_body(lw_kernel *k) {
  for (uint32_t i = 0; i < k->instrs.count; i++)
    if (k->instrs.data[i].op == LW_K_ROW) k->instrs.data[i].op = LW_K_THREAD;
}

static void test_refused(void **state) {
  (void)state;
  static change *const changes[] = {
      tall_tile,  few_threads, no_scalar,  odd_pitch, short_pitch, odd_columns,   no_result,
      other_type, read_result, no_product, on_cpu,    load_result, thread_in_body};
  for (size_t i = 0; i < LW_ARRAY_COUNT(changes); i++) {
    lw_kernel kernel;
    assert_int_equal(lw_test_product_make(&plain, ROWS, &kernel), LW_OK);
    assert_int_equal(lw__kernel_verify(&kernel, NULL), LW_OK);
    changes[i](&kernel);
    if (lw__kernel_verify(&kernel, NULL) != LW_STATUS_INTERNAL) fail_msg("change %zu", i);
    lw__kernel_deinit(&kernel);
  }
}

/* Kernels that differ in what is printed differ in their hash. */
static void test_identity(void **state) {
  (void)state;
  lw_kernel one, two;
  lw_hash first, second;
  assert_int_equal(lw_test_product_make(&plain, ROWS, &one), LW_OK);
  assert_int_equal(lw_test_product_make(&plain, ROWS, &two), LW_OK);
  assert_int_equal(lw__kernel_hash(&one, &first), LW_OK);
  assert_int_equal(lw__kernel_hash(&two, &second), LW_OK);
  assert_true(lw__hash_eq(first, second));
  two.product.form.stages--;
  assert_int_equal(lw__kernel_hash(&two, &second), LW_OK);
  assert_false(lw__hash_eq(first, second));
  assert_true(lw__kernel_shared_bytes(&one) > lw__kernel_shared_bytes(&two));
  lw__kernel_deinit(&one);
  lw__kernel_deinit(&two);
}

static void test_maps(void **state) {
  (void)state;
  lw_kernel kernel;
  lw_plan_map maps[LW_KPRODUCT_MAPS];
  assert_int_equal(lw_test_product_make(&plain, ROWS, &kernel), LW_OK);
  assert_int_equal(lw__kproduct_maps(&kernel.product, ROWS, maps), 3);
  assert_int_equal(maps[0].arg, 0);
  assert_int_equal(maps[0].dims[0], DEPTH);
  assert_int_equal(maps[0].dims[1], ROWS);
  assert_int_equal(maps[0].strides_bytes[1], 2 * DEPTH);
  assert_int_equal(maps[1].dims[0], COLUMNS);
  assert_int_equal(maps[1].dims[1], DEPTH);
  assert_int_equal(maps[2].arg, 4);
  assert_int_equal(maps[2].box[1], 64);
  kernel.product.form.store = LW_PRODUCT_STORE_DIRECT;
  assert_int_equal(lw__kproduct_maps(&kernel.product, ROWS, maps), 2);
  lw__kernel_deinit(&kernel);
}

int main(void) {
  const struct CMUnitTest tests[] = {
      cmocka_unit_test(test_results),  cmocka_unit_test(test_bad_launches),
      cmocka_unit_test(test_race),     cmocka_unit_test(test_refused),
      cmocka_unit_test(test_identity), cmocka_unit_test(test_maps),
  };
  return cmocka_run_group_tests(tests, NULL, NULL);
}

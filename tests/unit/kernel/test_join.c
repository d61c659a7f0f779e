/* test_join.c: kernels side by side: each part does what it did alone, arrays of one type are
 * shared, and names of buffers, scalars, arrays and blocks are those of its own. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <string.h>

#include <cmocka.h>

#include "compiler/kernel/build.h"
#include "compiler/kernel/interp.h"
#include "compiler/kernel/join.h"

enum { THREADS = 32, FIRST_BLOCKS = 3, SECOND_BLOCKS = 2 };

static lw_kval at_of(lw_kbuilder *kb) {
  lw_kval block = lw__kb_fn(kb, LW_FN_MUL, lw__kb_block(kb),
                            lw__kb_const_i(kb, LW_DTYPE_I64, THREADS), LW_NONE);
  return lw__kb_fn(kb, LW_FN_ADD, block, lw__kb_cast(kb, lw__kb_thread(kb), LW_DTYPE_I64), LW_NONE);
}

/* y[i] = x[i] + s, where i < n: through shared memory and a local array. */
static void make_first(lw_kernel *kernel) {
  lw_kbuilder kb;
  lw__kernel_init(kernel, LW_KTARGET_GPU, LW_KCLASS_MAP, THREADS);
  assert_int_equal(lw__kb_init(&kb, kernel), LW_OK);
  uint32_t x = lw__kb_buffer(&kb, LW_DTYPE_F32, false), y = lw__kb_buffer(&kb, LW_DTYPE_F32, true);
  lw_kval n = lw__kb_scalar(&kb, lw__kb_scalar_arg(&kb)), at = at_of(&kb);
  uint32_t shared = lw__kb_shared(&kb, LW_DTYPE_F32, THREADS);
  uint32_t local = lw__kb_local(&kb, LW_DTYPE_F32, 2);
  lw_kval inside = lw__kb_fn(&kb, LW_FN_LT, at, n, LW_NONE);
  lw__kb_sset(&kb, shared, lw__kb_thread(&kb), LW_NONE, lw__kb_load(&kb, x, LW_NONE, at, inside));
  lw__kb_barrier(&kb);
  lw__kb_lset(&kb, local, lw__kb_const_i(&kb, LW_DTYPE_I32, 1),
              lw__kb_sget(&kb, shared, lw__kb_thread(&kb)));
  lw_kval sum =
      lw__kb_fn(&kb, LW_FN_ADD, lw__kb_lget(&kb, local, lw__kb_const_i(&kb, LW_DTYPE_I32, 1)),
                lw__kb_const_f(&kb, LW_DTYPE_F32, 0.5), LW_NONE);
  lw__kb_store(&kb, y, LW_NONE, at, inside, sum);
  assert_int_equal(kb.status, LW_OK);
  lw__kb_deinit(&kb);
}

/* w[i] = sum of the block's 32 elements of v, as integers, where i < m. */
static void make_second(lw_kernel *kernel) {
  lw_kbuilder kb;
  lw__kernel_init(kernel, LW_KTARGET_GPU, LW_KCLASS_REDUCE, THREADS);
  assert_int_equal(lw__kb_init(&kb, kernel), LW_OK);
  uint32_t w = lw__kb_buffer(&kb, LW_DTYPE_I32, true), v = lw__kb_buffer(&kb, LW_DTYPE_I32, false);
  (void)lw__kb_scalar_arg(&kb);
  lw_kval m = lw__kb_scalar(&kb, lw__kb_scalar_arg(&kb)), at = at_of(&kb);
  uint32_t floats = lw__kb_shared(&kb, LW_DTYPE_F32, 4),
           ints = lw__kb_shared(&kb, LW_DTYPE_I32, 64);
  lw__kb_sset(
      &kb, floats, lw__kb_const_i(&kb, LW_DTYPE_I32, 0),
      lw__kb_fn(&kb, LW_FN_EQ, lw__kb_thread(&kb), lw__kb_const_i(&kb, LW_DTYPE_I32, 0), LW_NONE),
      lw__kb_const_f(&kb, LW_DTYPE_F32, 1));
  lw_kval inside = lw__kb_fn(&kb, LW_FN_LT, at, m, LW_NONE);
  lw_kval sum = lw__kb_reduce(&kb, LW_RED_SUM, lw__kb_load(&kb, v, LW_NONE, at, inside), 32, ints);
  lw__kb_store(&kb, w, LW_NONE, at, inside, sum);
  assert_int_equal(kb.status, LW_OK);
  lw__kb_deinit(&kb);
}

static void test_parts(void **state) {
  (void)state;
  enum { N = 70, M = 50 };
  lw_kernel first, second, joined;
  make_first(&first);
  make_second(&second);
  const lw_kjoin_part parts[] = {{&first, FIRST_BLOCKS}, {&second, SECOND_BLOCKS}};
  assert_int_equal(lw__kernel_join(parts, 2, &joined), LW_OK);
  lw_diag diag = {0};
  assert_int_equal(lw__kernel_verify(&joined, &diag), LW_OK);
  assert_int_equal(joined.buffers.count, 4);
  assert_int_equal(joined.scalar_count, 3);
  assert_int_equal(joined.shared.count, 2); /* the floats are shared by both */
  assert_int_equal(joined.shared.data[0].count, THREADS);
  float x[N], y[N];
  int32_t v[M], w[M], sum[2] = {0, 0};
  for (int i = 0; i < N; i++) x[i] = (float)i;
  for (int i = 0; i < M; i++) v[i] = i * i, sum[i / 32] += i * i;
  const lw_kinterp_buffer buffers[] = {{x, sizeof x}, {y, sizeof y}, {w, sizeof w}, {v, sizeof v}};
  const int64_t scalars[] = {N, -1, M};
  lw_status status =
      lw__kinterp_run(&joined, FIRST_BLOCKS + SECOND_BLOCKS, buffers, scalars, &diag, NULL);
  assert_int_equal(status, LW_OK);
  for (int i = 0; i < N; i++) assert_true(y[i] == (float)i + 0.5f);
  for (int i = 0; i < M; i++) assert_int_equal(w[i], sum[i / 32]);
  lw__kernel_deinit(&first);
  lw__kernel_deinit(&second);
  lw__kernel_deinit(&joined);
  lw__diag_deinit(&diag);
}

static void test_threads_must_agree(void **state) {
  (void)state;
  lw_kernel first, second, joined;
  make_first(&first);
  make_second(&second);
  second.block_threads = 64;
  const lw_kjoin_part parts[] = {{&first, 1}, {&second, 1}};
  assert_int_equal(lw__kernel_join(parts, 2, &joined), LW_STATUS_INTERNAL);
  lw__kernel_deinit(&first);
  lw__kernel_deinit(&second);
  lw__kernel_deinit(&joined);
}

int main(void) {
  const struct CMUnitTest tests[] = {
      cmocka_unit_test(test_parts),
      cmocka_unit_test(test_threads_must_agree),
  };
  return cmocka_run_group_tests(tests, NULL, NULL);
}

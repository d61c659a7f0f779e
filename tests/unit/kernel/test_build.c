/* The builder: folding, placing, scopes, and what it refuses. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <string.h>

#include <cmocka.h>

#include "compiler/kernel/build.h"

typedef struct fixture {
  lw_kernel kernel;
  lw_kbuilder kb;
} fixture;

static int setup(void **state) {
  static fixture f;
  lw__kernel_init(&f.kernel, LW_KTARGET_GPU, LW_KCLASS_MAP, 64);
  assert_int_equal(lw__kb_init(&f.kb, &f.kernel), LW_OK);
  *state = &f;
  return 0;
}

static int teardown(void **state) {
  fixture *f = *state;
  lw__kb_deinit(&f->kb);
  lw__kernel_deinit(&f->kernel);
  return 0;
}

static void assert_text(fixture *f, const char *want) {
  lw_diag diag = {0};
  lw_text text = {0};
  assert_int_equal(f->kb.status, LW_OK);
  lw_status status = lw__kernel_verify(&f->kernel, &diag);
  assert_string_equal(lw__diag_first_error(&diag), "");
  assert_int_equal(status, LW_OK);
  lw__kernel_print(&f->kernel, &text);
  const char *body = strstr(lw__text_str(&text), "  ");
  assert_string_equal(body == NULL ? "" : body, want);
  lw__text_deinit(&text);
  lw__diag_deinit(&diag);
}

static lw_kval i32(fixture *f, int64_t x) { return lw__kb_const_i(&f->kb, LW_DTYPE_I32, x); }

static void test_folds_integers(void **state) {
  fixture *f = *state;
  lw_kbuilder *kb = &f->kb;
  lw_kval t = lw__kb_thread(kb);
  assert_int_equal(lw__kb_fn(kb, LW_FN_ADD, t, i32(f, 0), LW_NONE), t);
  assert_int_equal(lw__kb_fn(kb, LW_FN_ADD, i32(f, 0), t, LW_NONE), t);
  assert_int_equal(lw__kb_fn(kb, LW_FN_MUL, i32(f, 1), t, LW_NONE), t);
  assert_int_equal(lw__kb_fn(kb, LW_FN_MUL, t, i32(f, 0), LW_NONE), i32(f, 0));
  assert_int_equal(lw__kb_fn(kb, LW_FN_DIV, t, i32(f, 1), LW_NONE), t);
  assert_int_equal(lw__kb_fn(kb, LW_FN_MOD, t, i32(f, 1), LW_NONE), i32(f, 0));
  assert_int_equal(lw__kb_fn(kb, LW_FN_SUB, t, t, LW_NONE), i32(f, 0));
  lw_kval t5 = lw__kb_fn(kb, LW_FN_ADD, t, i32(f, 5), LW_NONE);
  assert_int_equal(
      lw__kb_fn(kb, LW_FN_ADD, lw__kb_fn(kb, LW_FN_ADD, t, i32(f, 2), LW_NONE), i32(f, 3), LW_NONE),
      t5);
  lw_kval big = i32(f, INT32_MAX);
  assert_int_equal(lw__kb_fn(kb, LW_FN_ADD, big, i32(f, 1), LW_NONE), i32(f, INT32_MIN));
  assert_int_equal(lw__kb_fn(kb, LW_FN_DIV, big, i32(f, 0), LW_NONE), i32(f, 0));
  assert_int_equal(lw__kb_cast(kb, i32(f, 7), LW_DTYPE_I64), lw__kb_const_i(kb, LW_DTYPE_I64, 7));
  assert_int_equal(kb->status, LW_OK);
}

static void test_folds_bools_and_floats(void **state) {
  fixture *f = *state;
  lw_kbuilder *kb = &f->kb;
  lw_kval yes = lw__kb_const_i(kb, LW_DTYPE_BOOL, 1), no = lw__kb_const_i(kb, LW_DTYPE_BOOL, 0);
  lw_kval p = lw__kb_fn(kb, LW_FN_LT, lw__kb_thread(kb), i32(f, 9), LW_NONE);
  assert_int_equal(lw__kb_fn(kb, LW_FN_AND, yes, p, LW_NONE), p);
  assert_int_equal(lw__kb_fn(kb, LW_FN_AND, p, no, LW_NONE), no);
  assert_int_equal(lw__kb_fn(kb, LW_FN_OR, p, no, LW_NONE), p);
  assert_int_equal(lw__kb_fn(kb, LW_FN_OR, p, yes, LW_NONE), yes);
  assert_int_equal(lw__kb_fn(kb, LW_FN_SELECT, yes, i32(f, 1), i32(f, 2)), i32(f, 1));
  assert_int_equal(lw__kb_fn(kb, LW_FN_SELECT, no, i32(f, 1), i32(f, 2)), i32(f, 2));
  lw_kval x = lw__kb_const_f(kb, LW_DTYPE_F32, 0.1);
  lw_kval y = lw__kb_fn(kb, LW_FN_ADD, x, x, LW_NONE);
  lw_scalar imm;
  assert_true(lw__kb_is_const(kb, y, &imm));
  assert_true(imm.f == (double)(0.1f + 0.1f));
  /* -0 + 0 is not -0: floats keep their additions of zero */
  uint32_t b = lw__kb_buffer(kb, LW_DTYPE_F32, false);
  lw_kval v = lw__kb_load(kb, b, LW_NONE, lw__kb_thread(kb), LW_NONE);
  assert_int_not_equal(lw__kb_fn(kb, LW_FN_ADD, v, lw__kb_const_f(kb, LW_DTYPE_F32, 0), LW_NONE),
                       v);
  assert_int_not_equal(lw__kb_const_f(kb, LW_DTYPE_F32, 0.0),
                       lw__kb_const_f(kb, LW_DTYPE_F32, -0.0));
  assert_int_equal(lw__kb_load(kb, b, LW_NONE, lw__kb_thread(kb), no),
                   lw__kb_const_f(kb, LW_DTYPE_F32, 0));
  assert_int_equal(kb->status, LW_OK);
}

static void test_hoists_and_shares(void **state) {
  fixture *f = *state;
  lw_kbuilder *kb = &f->kb;
  uint32_t in = lw__kb_buffer(kb, LW_DTYPE_F16, false), out = lw__kb_buffer(kb, LW_DTYPE_F32, true);
  lw_kval i = lw__kb_for_n(kb, 4, LW_KLOOP_UNROLL);
  lw_kval row = lw__kb_fn(kb, LW_FN_MUL, lw__kb_thread(kb), i32(f, 8), LW_NONE);
  lw_kval j = lw__kb_for_n(kb, 2, LW_KLOOP_SERIAL);
  lw_kval at = lw__kb_fn(kb, LW_FN_ADD, row, i, LW_NONE);
  lw_kval same = lw__kb_fn(kb, LW_FN_ADD, i, row, LW_NONE);
  assert_int_equal(at, same);
  lw_kval x = lw__kb_load(kb, in, LW_NONE, at, LW_NONE);
  lw_kval old = lw__kb_load(kb, out, LW_NONE, at, LW_NONE);
  lw_kval again = lw__kb_load(kb, out, LW_NONE, at, LW_NONE);
  assert_int_not_equal(old, again);
  lw_kval sum = lw__kb_fn(kb, LW_FN_ADD, x, old, LW_NONE);
  lw__kb_store(kb, out, LW_NONE, lw__kb_fn(kb, LW_FN_ADD, at, j, LW_NONE), LW_NONE, sum);
  lw__kb_end(kb);
  lw__kb_end(kb);
  assert_text(f,
              "  v0:i32 = thread\n"
              "  v1:i32 = fn mul v0 8\n"
              "  v2:i32 = for = 0 .. 4 step 1 unroll\n"
              "    v3:i32 = fn add v1 v2\n"
              "    v4:f32 = load b0[v3]\n"
              "    v5:i32 = for = 0 .. 2 step 1 serial\n"
              "      v6:f32 = load b1[v3]\n"
              "      v7:f32 = fn add v4 v6\n"
              "      v8:i32 = fn add v3 v5\n"
              "      store b1[v8] = v7\n"
              "    end\n"
              "  end\n");
}

static void test_loads_stay_in_their_if(void **state) {
  fixture *f = *state;
  lw_kbuilder *kb = &f->kb;
  uint32_t in = lw__kb_buffer(kb, LW_DTYPE_F32, false), out = lw__kb_buffer(kb, LW_DTYPE_F32, true);
  lw_kval t = lw__kb_thread(kb);
  lw__kb_if(kb, lw__kb_fn(kb, LW_FN_LT, t, i32(f, 9), LW_NONE));
  lw__kb_for_n(kb, 2, LW_KLOOP_SERIAL);
  lw_kval x = lw__kb_load(kb, in, LW_NONE, t, LW_NONE);
  lw_kval half = lw__kb_fn(kb, LW_FN_DIV, t, i32(f, 2), LW_NONE);
  lw__kb_store(kb, out, LW_NONE, half, LW_NONE, x);
  lw__kb_end(kb);
  lw__kb_end(kb);
  assert_text(f,
              "  v0:i32 = thread\n"
              "  v1:bool = fn lt v0 9\n"
              "  v2:i32 = fn div v0 2\n"
              "  if v1\n"
              "    v3:f32 = load b0[v0]\n"
              "    v4:i32 = for = 0 .. 2 step 1 serial\n"
              "      store b1[v2] = v3\n"
              "    end\n"
              "  end\n");
}

static void test_closed_regions_are_forgotten(void **state) {
  fixture *f = *state;
  lw_kbuilder *kb = &f->kb;
  lw_kval j = lw__kb_for_n(kb, 2, LW_KLOOP_SERIAL);
  lw_kval x = lw__kb_fn(kb, LW_FN_ADD, j, i32(f, 3), LW_NONE);
  lw__kb_end(kb);
  assert_int_equal(kb->status, LW_OK);
  lw__kb_fn(kb, LW_FN_ADD, x, x, LW_NONE);
  assert_int_equal(kb->status, LW_STATUS_INTERNAL);
  assert_non_null(kb->error);
}

static void test_dead_code_is_not_printed(void **state) {
  fixture *f = *state;
  lw_kbuilder *kb = &f->kb;
  uint32_t l = lw__kb_local(kb, LW_DTYPE_F32, 1);
  lw__kb_for_n(kb, 2, LW_KLOOP_SERIAL);
  lw__kb_fn(kb, LW_FN_ADD, lw__kb_thread(kb), i32(f, 3), LW_NONE);
  lw__kb_end(kb);
  lw__kb_lset(kb, l, LW_NONE, lw__kb_const_f(kb, LW_DTYPE_F32, 1.5));
  lw__kb_lget(kb, l, LW_NONE);
  assert_text(f, "  lset l0[0] = 0x1.8p+0:f32\n");
}

static void test_equal_kernels_hash_equal(void **state) {
  (void)state;
  lw_hash hash[3];
  for (int n = 0; n < 3; n++) {
    lw_kernel kernel;
    lw_kbuilder kb;
    lw__kernel_init(&kernel, LW_KTARGET_GPU, LW_KCLASS_REDUCE, 32);
    assert_int_equal(lw__kb_init(&kb, &kernel), LW_OK);
    uint32_t out = lw__kb_buffer(&kb, LW_DTYPE_I32, true);
    if (n == 1) lw__kb_fn(&kb, LW_FN_MUL, lw__kb_thread(&kb), lw__kb_thread(&kb), LW_NONE);
    lw_kval v = lw__kb_const_i(&kb, LW_DTYPE_I32, n == 2 ? 8 : 7);
    lw__kb_store(&kb, out, LW_NONE, lw__kb_thread(&kb), LW_NONE, v);
    assert_int_equal(lw__kernel_hash(&kernel, &hash[n]), LW_OK);
    char name[48];
    lw__kernel_name(&kernel, hash[n], name);
    assert_int_equal(strncmp(name, "lw_reduce_", 10), 0);
    assert_int_equal(strlen(name), 26);
    lw__kb_deinit(&kb);
    lw__kernel_deinit(&kernel);
  }
  assert_true(lw__hash_eq(hash[0], hash[1]));
  assert_false(lw__hash_eq(hash[0], hash[2]));
}

static void build_something(lw_kbuilder *kb) {
  uint32_t in = lw__kb_buffer(kb, LW_DTYPE_F32, false), out = lw__kb_buffer(kb, LW_DTYPE_F32, true);
  lw_kval i = lw__kb_for_n(kb, 100, LW_KLOOP_SERIAL);
  for (int n = 0; n < 60; n++) {
    lw_kval at = lw__kb_fn(kb, LW_FN_ADD, i, lw__kb_const_i(kb, LW_DTYPE_I32, n), LW_NONE);
    lw__kb_store(kb, out, LW_NONE, at, LW_NONE, lw__kb_load(kb, in, LW_NONE, at, LW_NONE));
  }
  lw__kb_end(kb);
}

static void test_every_failed_allocation_is_reported(void **state) {
  (void)state;
  for (uint64_t n = 1; n < 1000; n++) {
    lw_kernel kernel;
    lw_kbuilder kb;
    lw__kernel_init(&kernel, LW_KTARGET_CPU, LW_KCLASS_MAP, 1);
    lw__mem_fail_at(n);
    lw_status status = lw__kb_init(&kb, &kernel);
    if (status == LW_OK) {
      build_something(&kb);
      status = kb.status;
    }
    lw__mem_fail_at(0);
    lw__kb_deinit(&kb);
    lw__kernel_deinit(&kernel);
    if (status == LW_OK) return;
    assert_int_equal(status, LW_STATUS_OUT_OF_MEMORY);
  }
  fail_msg("the builder never got enough memory");
}

static void test_refuses(void **state) {
  fixture *f = *state;
  lw_kbuilder *kb = &f->kb;
  assert_int_equal(lw__kb_fn(kb, LW_FN_ADD, lw__kb_thread(kb), lw__kb_block(kb), LW_NONE), LW_NONE);
  assert_int_equal(kb->status, LW_STATUS_INTERNAL);
  lw__kb_barrier(kb);
  lw__kb_end(kb);
  assert_int_equal(lw__kb_thread(kb), LW_NONE);
}

int main(void) {
#define TEST(name) cmocka_unit_test_setup_teardown(name, setup, teardown)
  const struct CMUnitTest tests[] = {
      TEST(test_folds_integers),
      TEST(test_folds_bools_and_floats),
      TEST(test_hoists_and_shares),
      TEST(test_loads_stay_in_their_if),
      TEST(test_closed_regions_are_forgotten),
      TEST(test_dead_code_is_not_printed),
      TEST(test_equal_kernels_hash_equal),
      TEST(test_every_failed_allocation_is_reported),
      TEST(test_refuses),
  };
  return cmocka_run_group_tests_name("kernel_build", tests, NULL, NULL);
}

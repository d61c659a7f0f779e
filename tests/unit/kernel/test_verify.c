/* The verifier: one right kernel that uses every instruction, and a broken copy of it for every
 * rule. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <string.h>

#include <cmocka.h>

#include "compiler/kernel/build.h"

static lw_kval i32(lw_kbuilder *kb, int64_t x) { return lw__kb_const_i(kb, LW_DTYPE_I32, x); }

/* Every instruction once. */
static void build(lw_kernel *kernel) {
  lw_kbuilder kb;
  lw__kernel_init(kernel, LW_KTARGET_GPU, LW_KCLASS_REDUCE, 64);
  assert_int_equal(lw__kb_init(&kb, kernel), LW_OK);
  uint32_t x = lw__kb_buffer(&kb, LW_DTYPE_F16, false), y = lw__kb_buffer(&kb, LW_DTYPE_F16, true);
  uint32_t n = lw__kb_scalar_arg(&kb), h = lw__kb_shared(&kb, LW_DTYPE_F32, 64),
           l = lw__kb_local(&kb, LW_DTYPE_F16, 8);
  lw_kval t = lw__kb_thread(&kb),
          base = lw__kb_fn(&kb, LW_FN_MUL, lw__kb_block(&kb), lw__kb_scalar(&kb, n), LW_NONE);
  lw_kval p = lw__kb_fn(&kb, LW_FN_LT, t, i32(&kb, 60), LW_NONE);
  lw_kval v = lw__kb_load(&kb, x, base, t, p);
  lw__kb_loadv(&kb, x, base, lw__kb_fn(&kb, LW_FN_MUL, t, i32(&kb, 4), LW_NONE), p, l, i32(&kb, 4),
               4);
  lw__kb_sset(&kb, h, t, LW_NONE, v);
  lw__kb_barrier(&kb);
  lw_kval s = lw__kb_reduce(&kb, LW_RED_SUM, lw__kb_sget(&kb, h, t), 64, h);
  lw_kval w = lw__kb_reduce(&kb, LW_RED_MAX, s, 16, LW_NONE);
  lw_kval i = lw__kb_for_n(&kb, 8, LW_KLOOP_UNROLL);
  lw_kval f = lw__kb_fn(&kb, LW_FN_SELECT, p, w, lw__kb_cast(&kb, i, LW_DTYPE_F32));
  lw__kb_lset(&kb, l, i, lw__kb_round(&kb, f, LW_DTYPE_BF16));
  lw__kb_end(&kb);
  lw__kb_if(&kb, p);
  lw__kb_storev(&kb, y, base, lw__kb_fn(&kb, LW_FN_MUL, t, i32(&kb, 4), LW_NONE), LW_NONE, l,
                LW_NONE, 4);
  lw__kb_store(&kb, y, base, t, p, lw__kb_lget(&kb, l, i32(&kb, 3)));
  lw__kb_end(&kb);
  if (kb.status != LW_OK) fail_msg("%s", kb.error);
  lw__kb_deinit(&kb);
}

static lw_kinstr *first(lw_kernel *kernel, lw_kop op) {
  for (uint32_t i = 0; i < kernel->instrs.count; i++)
    if (kernel->instrs.data[i].op == op) return &kernel->instrs.data[i];
  fail_msg("no instruction %d", (int)op);
  return NULL;
}

static uint32_t id_of(lw_kernel *kernel, lw_kop op) {
  return (uint32_t)(first(kernel, op) - kernel->instrs.data);
}

static lw_kinstr *first_fn(lw_kernel *kernel, lw_fn fn) {
  for (uint32_t i = 0; i < kernel->instrs.count; i++)
    if (kernel->instrs.data[i].op == LW_K_FN && kernel->instrs.data[i].fn == fn)
      return &kernel->instrs.data[i];
  fail_msg("no function");
  return NULL;
}

static lw_kinstr *warp_reduce(lw_kernel *kernel) {
  for (uint32_t i = 0; i < kernel->instrs.count; i++)
    if (kernel->instrs.data[i].op == LW_K_REDUCE && kernel->instrs.data[i].width == 16)
      return &kernel->instrs.data[i];
  fail_msg("no reduction");
  return NULL;
}

#define MUTANT(name, statement, message)           \
  static const char *mutate_##name(lw_kernel *k) { \
    statement;                                     \
    return message;                                \
  }
MUTANT(target, k->target = (lw_ktarget)7, "no such target")
MUTANT(class, k->cls = LW_KCLASS_COUNT, "no such class")
MUTANT(threads, k->block_threads = 2048, "1 to 1024 threads")
MUTANT(no_threads, k->block_threads = 0, "1 to 1024 threads")
MUTANT(cpu_threads, k->target = LW_KTARGET_CPU, "1 on a CPU")
MUTANT(buffer_type, k->buffers.data[0].dtype = LW_DTYPE_NONE, "a buffer has an element type")
MUTANT(array_type, k->shared.data[0].dtype = LW_DTYPE_COUNT, "an array has an element type")
MUTANT(array_count, k->locals.data[0].count = 0, "an array has 1 to")
MUTANT(op, first(k, LW_K_THREAD)->op = LW_K_OP_COUNT, "no such instruction")
MUTANT(const_type, first(k, LW_K_CONST)->dtype = LW_DTYPE_F16, "a constant has a value type")
MUTANT(const_value, first(k, LW_K_CONST)->imm.i = INT64_C(1) << 40, "must be a value of its type")
MUTANT(scalar, first(k, LW_K_SCALAR)->object = 1, "no such scalar argument")
MUTANT(scalar_type, first(k, LW_K_SCALAR)->dtype = LW_DTYPE_I32, "a scalar argument is i64")
MUTANT(block_type, first(k, LW_K_BLOCK)->dtype = LW_DTYPE_I32, "the block's number is i64")
MUTANT(thread_type, first(k, LW_K_THREAD)->dtype = LW_DTYPE_I64, "the thread's number is i32")
MUTANT(fn, first(k, LW_K_FN)->fn = LW_FN_CAST, "no such function")
MUTANT(fn_arity, first_fn(k, LW_FN_MUL)->b = LW_NONE, "as many operands as its arity")
MUTANT(fn_too_many, first_fn(k, LW_FN_MUL)->c = 0, "as many operands as its arity")
MUTANT(fn_mixed, first_fn(k, LW_FN_LT)->a = id_of(k, LW_K_SCALAR), "have one type")
MUTANT(fn_domain, first_fn(k, LW_FN_LT)->fn = LW_FN_ATAN2, "does not take this type")
MUTANT(fn_result, first_fn(k, LW_FN_LT)->dtype = LW_DTYPE_I32, "not the function's")
MUTANT(select, first_fn(k, LW_FN_SELECT)->a = id_of(k, LW_K_THREAD), "select chooses by a bool")
MUTANT(cast, first(k, LW_K_CAST)->dtype = LW_DTYPE_BF16, "a cast gives a value type")
MUTANT(cast_nothing, first(k, LW_K_CAST)->a = LW_NONE, "a cast has an operand")
MUTANT(round, first(k, LW_K_ROUND)->mem_dtype = LW_DTYPE_F32, "round goes through a narrow float")
MUTANT(round_type, first(k, LW_K_ROUND)->a = id_of(k, LW_K_THREAD), "round takes and gives f32")
MUTANT(load_buffer, first(k, LW_K_LOAD)->object = 2, "no such buffer")
MUTANT(load_base, first(k, LW_K_LOAD)->a = id_of(k, LW_K_THREAD), "the base of an access is i64")
MUTANT(load_index, first(k, LW_K_LOAD)->b = LW_NONE, "the index of an access is i32 or i64")
MUTANT(load_pred, first(k, LW_K_LOAD)->c = id_of(k, LW_K_THREAD), "a predicate is a bool")
MUTANT(load_type, first(k, LW_K_LOAD)->dtype = LW_DTYPE_I32, "gives the buffer's value type")
MUTANT(store_readonly, first(k, LW_K_STORE)->object = 0, "not written")
MUTANT(store_value, first(k, LW_K_STORE)->d = id_of(k, LW_K_THREAD), "not of the buffer's type")
MUTANT(loadv_local, first(k, LW_K_LOADV)->local = 1, "no such local array")
MUTANT(loadv_type, k->locals.data[0].dtype = LW_DTYPE_BF16, "different types")
MUTANT(loadv_width, first(k, LW_K_LOADV)->width = 16, "more than the local array holds")
MUTANT(loadv_end, first(k, LW_K_LOADV)->width = 8, "end outside the local array")
MUTANT(storev_readonly, first(k, LW_K_STOREV)->object = 0, "not written")
MUTANT(sget_array, first(k, LW_K_SGET)->object = 1, "no such shared array")
MUTANT(sget_index, first(k, LW_K_SGET)->b = LW_NONE, "has an index")
MUTANT(sget_index_type, first(k, LW_K_SGET)->b = id_of(k, LW_K_BLOCK),
       "the index of an array is i32")
MUTANT(sset_pred, first(k, LW_K_SSET)->c = id_of(k, LW_K_THREAD), "a predicate is a bool")
MUTANT(sset_value, first(k, LW_K_SSET)->d = id_of(k, LW_K_THREAD), "not of the array's type")
MUTANT(lget_array, first(k, LW_K_LGET)->object = 1, "no such local array")
MUTANT(lget_type, first(k, LW_K_LGET)->dtype = LW_DTYPE_F64, "not of the array's value type")
MUTANT(lget_outside, k->instrs.data[first(k, LW_K_LGET)->b].imm.i = 8, "outside the array")
MUTANT(reduce, first(k, LW_K_REDUCE)->fn = LW_RED_COUNT, "no such reduction")
MUTANT(reduce_domain, first(k, LW_K_REDUCE)->fn = LW_RED_ANY, "does not take this type")
MUTANT(reduce_type, first(k, LW_K_REDUCE)->dtype = LW_DTYPE_I32, "gives its operand's type")
MUTANT(reduce_width, warp_reduce(k)->width = 24, "divides the threads")
MUTANT(reduce_scratch, first(k, LW_K_REDUCE)->object = 1, "has a shared array")
MUTANT(reduce_small,
       (k->block_threads = 1024, k->shared.data[0].count = 31, first(k, LW_K_REDUCE)->width = 1024),
       "one element of its type per warp")
MUTANT(for_type, first(k, LW_K_FOR)->dtype = LW_DTYPE_U32, "is i32 or i64")
MUTANT(for_bounds, first(k, LW_K_FOR)->b = id_of(k, LW_K_SCALAR), "have its variable's type")
MUTANT(for_step, first(k, LW_K_FOR)->c = first(k, LW_K_FOR)->a, "is positive")
MUTANT(for_unroll, first(k, LW_K_FOR)->b = id_of(k, LW_K_THREAD), "constant bounds")
MUTANT(for_vector, first(k, LW_K_FOR)->loop = LW_KLOOP_VECTOR, "for CPUs")
MUTANT(for_loop, first(k, LW_K_FOR)->loop = 9, "no such kind of loop")
MUTANT(for_region, first(k, LW_K_FOR)->region = 77, "no such region")
MUTANT(shared_region, first(k, LW_K_IF)->region = first(k, LW_K_FOR)->region, "belongs to another")
MUTANT(own_region, first(k, LW_K_IF)->region = 0, "belongs to another")
MUTANT(if_type, first(k, LW_K_IF)->a = id_of(k, LW_K_THREAD), "if takes a bool")
MUTANT(value_type, first(k, LW_K_THREAD)->dtype = LW_DTYPE_NONE, "none where there is one")
MUTANT(no_value_type, first(k, LW_K_STORE)->dtype = LW_DTYPE_I32, "a type where there is no value")
MUTANT(twice, k->regions.data[0].data[1] = k->regions.data[0].data[0], "stands in one place")
MUTANT(no_instr, k->regions.data[0].data[0] = 10000, "no such instruction")
MUTANT(out_of_scope, first(k, LW_K_STORE)->d = id_of(k, LW_K_ROUND), "not of the buffer's type")
MUTANT(later, first(k, LW_K_SSET)->b = id_of(k, LW_K_SGET), "the index of an array is i32")

static void test_right(void **state) {
  (void)state;
  lw_kernel kernel;
  lw_diag diag = {0};
  build(&kernel);
  if (lw__kernel_verify(&kernel, &diag) != LW_OK) fail_msg("%s", lw__diag_first_error(&diag));
  assert_int_equal(lw__kernel_shared_bytes(&kernel), 256);
  lw__diag_deinit(&diag);
  lw__kernel_deinit(&kernel);
}

static void test_every_rule(void **state) {
  (void)state;
  static const struct {
    const char *name;
    const char *(*mutate)(lw_kernel *);
  } rows[] = {
#define ROW(name) {#name, mutate_##name}
      ROW(target),
      ROW(class),
      ROW(threads),
      ROW(no_threads),
      ROW(cpu_threads),
      ROW(buffer_type),
      ROW(array_type),
      ROW(array_count),
      ROW(op),
      ROW(const_type),
      ROW(const_value),
      ROW(scalar),
      ROW(scalar_type),
      ROW(block_type),
      ROW(thread_type),
      ROW(fn),
      ROW(fn_arity),
      ROW(fn_too_many),
      ROW(fn_mixed),
      ROW(fn_domain),
      ROW(fn_result),
      ROW(select),
      ROW(cast),
      ROW(cast_nothing),
      ROW(round),
      ROW(round_type),
      ROW(load_buffer),
      ROW(load_base),
      ROW(load_index),
      ROW(load_pred),
      ROW(load_type),
      ROW(store_readonly),
      ROW(store_value),
      ROW(loadv_local),
      ROW(loadv_type),
      ROW(loadv_width),
      ROW(loadv_end),
      ROW(storev_readonly),
      ROW(sget_array),
      ROW(sget_index),
      ROW(sget_index_type),
      ROW(sset_pred),
      ROW(sset_value),
      ROW(lget_array),
      ROW(lget_type),
      ROW(lget_outside),
      ROW(reduce),
      ROW(reduce_domain),
      ROW(reduce_type),
      ROW(reduce_width),
      ROW(reduce_scratch),
      ROW(reduce_small),
      ROW(for_type),
      ROW(for_bounds),
      ROW(for_step),
      ROW(for_unroll),
      ROW(for_vector),
      ROW(for_loop),
      ROW(for_region),
      ROW(shared_region),
      ROW(own_region),
      ROW(if_type),
      ROW(value_type),
      ROW(no_value_type),
      ROW(twice),
      ROW(no_instr),
      ROW(out_of_scope),
      ROW(later),
  };
  for (size_t i = 0; i < LW_ARRAY_COUNT(rows); i++) {
    lw_kernel kernel;
    lw_diag diag = {0};
    build(&kernel);
    const char *want = rows[i].mutate(&kernel);
    lw_status status = lw__kernel_verify(&kernel, &diag);
    const char *got = lw__diag_first_error(&diag);
    if (status != LW_STATUS_INTERNAL || strstr(got, want) == NULL)
      fail_msg("%s: got '%s', want '%s'", rows[i].name, got, want);
    lw__diag_deinit(&diag);
    lw__kernel_deinit(&kernel);
  }
}

/* A region that no instruction owns, and a chain of regions deeper than is allowed. */
static void test_tree(void **state) {
  (void)state;
  lw_kernel kernel;
  lw_diag diag = {0};
  build(&kernel);
  lw_kregion empty = {0};
  assert_int_equal(lw_vec_push(&kernel.regions, empty), LW_OK);
  assert_int_equal(lw__kernel_verify(&kernel, &diag), LW_STATUS_INTERNAL);
  assert_non_null(strstr(lw__diag_first_error(&diag), "belongs to no instruction"));
  lw__diag_deinit(&diag);
  lw__kernel_deinit(&kernel);

  lw_kbuilder kb;
  lw__kernel_init(&kernel, LW_KTARGET_CPU, LW_KCLASS_MAP, 1);
  assert_int_equal(lw__kb_init(&kb, &kernel), LW_OK);
  for (int i = 0; i < 100; i++) lw__kb_for_n(&kb, 2, LW_KLOOP_SERIAL);
  assert_int_equal(kb.status, LW_STATUS_INTERNAL);
  assert_string_equal(kb.error, "regions nest too deep");
  lw__kb_deinit(&kb);
  lw__kernel_deinit(&kernel);
}

/* Rules of vector loops and of CPU kernels. */
static void test_cpu_rules(void **state) {
  (void)state;
  static const char *const want[] = {"distinct elements", "vector loops do not nest",
                                     "barriers are for GPUs"};
  for (int n = 0; n < 3; n++) {
    lw_kernel kernel;
    lw_kbuilder kb;
    lw_diag diag = {0};
    lw__kernel_init(&kernel, LW_KTARGET_CPU, LW_KCLASS_MAP, 1);
    assert_int_equal(lw__kb_init(&kb, &kernel), LW_OK);
    uint32_t l = lw__kb_local(&kb, LW_DTYPE_I32, 4);
    lw_kval i = lw__kb_for_n(&kb, 4, LW_KLOOP_VECTOR);
    if (n == 0) lw__kb_lset(&kb, l, LW_NONE, i);
    if (n == 1) lw__kb_for_n(&kb, 4, LW_KLOOP_VECTOR);
    if (n == 1) lw__kb_end(&kb);
    lw__kb_end(&kb);
    if (n == 2) lw__kb_barrier(&kb);
    assert_int_equal(kb.status, LW_OK);
    assert_int_equal(lw__kernel_verify(&kernel, &diag), LW_STATUS_INTERNAL);
    if (strstr(lw__diag_first_error(&diag), want[n]) == NULL)
      fail_msg("%s", lw__diag_first_error(&diag));
    lw__diag_deinit(&diag);
    lw__kb_deinit(&kb);
    lw__kernel_deinit(&kernel);
  }
}

/* Sums in registers, rows of a vector: what may touch them, and where. */
static void wrong_registers(lw_kbuilder *kb, int n) {
  uint32_t sums = lw__kb_registers(kb, LW_DTYPE_F32, 8, 4),
           plain = lw__kb_local(kb, LW_DTYPE_F32, 8),
           other = lw__kb_registers(kb, LW_DTYPE_F32, 8, n == 4 ? 8 : 4),
           ints = lw__kb_local(kb, LW_DTYPE_I32, 8);
  lw_kval two = lw__kb_const_i(kb, LW_DTYPE_I32, 2), a = lw__kb_const_f(kb, LW_DTYPE_F32, 2);
  lw_kval i =
      n == 1 || n == 8 ? lw__kb_for_n(kb, 2, n == 8 ? LW_KLOOP_VECTOR : LW_KLOOP_SERIAL) : LW_NONE;
  if (n == 0) lw__kb_lset(kb, sums, LW_NONE, a);
  if (n == 1) lw__kb_movev(kb, sums, i, plain, LW_NONE, 4);
  if (n == 2) lw__kb_movev(kb, sums, two, plain, LW_NONE, 4);
  if (n == 3) lw__kb_movev(kb, plain, LW_NONE, sums, LW_NONE, 2);
  if (n == 4) lw__kb_movev(kb, sums, LW_NONE, other, LW_NONE, 8);
  if (n == 5) lw__kb_movev(kb, sums, LW_NONE, ints, LW_NONE, 4);
  if (n == 6) lw__kb_muladdv(kb, plain, LW_NONE, a, sums, LW_NONE, 4);
  if (n == 7) lw__kb_muladdv(kb, sums, LW_NONE, two, plain, LW_NONE, 4);
  if (n == 8) lw__kb_movev(kb, sums, LW_NONE, plain, LW_NONE, 4);
  if (n == 9) lw__kb_movev(kb, sums, LW_NONE, plain, LW_NONE, 12);
  if (i != LW_NONE) lw__kb_end(kb);
}

static void test_registers(void **state) {
  (void)state;
  static const char *const want[] = {"touched as wholes", "constant indices",
                                     "touched as wholes", "touched as wholes",
                                     "of one size",       "of one type",
                                     "sums stand in",     "of the arrays' type",
                                     "in a vector loop",  "more than the local array"};
  for (int n = 0; n < 10; n++) {
    lw_kernel kernel;
    lw_kbuilder kb;
    lw_diag diag = {0};
    lw__kernel_init(&kernel, LW_KTARGET_CPU, LW_KCLASS_DOT, 1);
    assert_int_equal(lw__kb_init(&kb, &kernel), LW_OK);
    wrong_registers(&kb, n);
    assert_int_equal(kb.status, LW_OK);
    assert_int_equal(lw__kernel_verify(&kernel, &diag), LW_STATUS_INTERNAL);
    if (strstr(lw__diag_first_error(&diag), want[n]) == NULL)
      fail_msg("%d: %s", n, lw__diag_first_error(&diag));
    lw__diag_deinit(&diag);
    lw__kb_deinit(&kb);
    lw__kernel_deinit(&kernel);
  }
}

int main(void) {
  const struct CMUnitTest tests[] = {
      cmocka_unit_test(test_right),     cmocka_unit_test(test_every_rule),
      cmocka_unit_test(test_tree),      cmocka_unit_test(test_cpu_rules),
      cmocka_unit_test(test_registers),
  };
  return cmocka_run_group_tests_name("kernel_verify", tests, NULL, NULL);
}

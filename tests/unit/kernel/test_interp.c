/* The kernel interpreter: results, counts, and every violation that it must report. Mutants of a
 * right kernel (a barrier removed, an index shifted, a predicate dropped) must all be caught. */
#include <math.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>
#include <string.h>

#include <cmocka.h>

#include "compiler/kernel/build.h"
#include "compiler/kernel/interp.h"
#include "compiler/kernel/walk.h"

static lw_kval i32(lw_kbuilder *kb, int64_t x) { return lw__kb_const_i(kb, LW_DTYPE_I32, x); }
static lw_kval add(lw_kbuilder *kb, lw_kval a, lw_kval b) {
  return lw__kb_fn(kb, LW_FN_ADD, a, b, LW_NONE);
}
static lw_kval mul(lw_kbuilder *kb, lw_kval a, lw_kval b) {
  return lw__kb_fn(kb, LW_FN_MUL, a, b, LW_NONE);
}
static lw_kval lt(lw_kbuilder *kb, lw_kval a, lw_kval b) {
  return lw__kb_fn(kb, LW_FN_LT, a, b, LW_NONE);
}

typedef void (*build_fn)(lw_kbuilder *kb);

static void make(lw_kernel *kernel, lw_ktarget target, uint32_t threads, build_fn build) {
  lw_kbuilder kb;
  lw__kernel_init(kernel, target, LW_KCLASS_MAP, threads);
  assert_int_equal(lw__kb_init(&kb, kernel), LW_OK);
  build(&kb);
  if (kb.status != LW_OK) fail_msg("%s", kb.error);
  lw__kb_deinit(&kb);
}

static lw_status run(const lw_kernel *kernel, int64_t grid, const lw_kinterp_buffer *buffers,
                     const char *want) {
  lw_diag diag = {0};
  static const int64_t scalars[4] = {0};
  lw_status status = lw__kinterp_run(kernel, grid, buffers, scalars, &diag, NULL);
  const char *got = lw__diag_first_error(&diag);
  if (want == NULL ? status != LW_OK : strstr(got, want) == NULL)
    fail_msg("got '%s', want '%s'", got, want);
  lw__diag_deinit(&diag);
  return status;
}

/* ---- a transpose through shared memory --------------------------------------------------------*/

enum { TILE = 8, ROWS = 19, COLS = 13 }; /* ragged on both sides */

static int
    shift[4]; /* mutants: how far the load, the two accesses to the tile and the store are off */

static lw_kval off(lw_kbuilder *kb, int which, lw_kval index) {
  return add(kb, index, i32(kb, shift[which]));
}

/* Blocks walk over the tiles of one row of tiles, so that both barriers are needed. y[c][r] =
 * x[r][c]. */
static void build_transpose(lw_kbuilder *kb) {
  uint32_t x = lw__kb_buffer(kb, LW_DTYPE_F16, false), y = lw__kb_buffer(kb, LW_DTYPE_F16, true);
  uint32_t tile = lw__kb_shared(kb, LW_DTYPE_F16, TILE * (TILE + 1));
  lw_kval t = lw__kb_thread(kb);
  lw_kval tx = lw__kb_fn(kb, LW_FN_MOD, t, i32(kb, TILE), LW_NONE),
          ty = lw__kb_fn(kb, LW_FN_DIV, t, i32(kb, TILE), LW_NONE);
  lw_kval row0 = mul(kb, lw__kb_cast(kb, lw__kb_block(kb), LW_DTYPE_I32), i32(kb, TILE));
  lw_kval col0 =
      lw__kb_for(kb, LW_DTYPE_I32, i32(kb, 0), i32(kb, COLS), i32(kb, TILE), LW_KLOOP_SERIAL);
  lw_kval r = add(kb, row0, ty), c = add(kb, col0, tx);
  lw_kval inside =
      lw__kb_fn(kb, LW_FN_AND, lt(kb, r, i32(kb, ROWS)), lt(kb, c, i32(kb, COLS)), LW_NONE);
  lw_kval v =
      lw__kb_load(kb, x, LW_NONE, off(kb, 0, add(kb, mul(kb, r, i32(kb, COLS)), c)), inside);
  lw__kb_sset(kb, tile, off(kb, 1, add(kb, mul(kb, ty, i32(kb, TILE + 1)), tx)), LW_NONE, v);
  lw__kb_barrier(kb);
  lw_kval w = lw__kb_sget(kb, tile, off(kb, 2, add(kb, mul(kb, tx, i32(kb, TILE + 1)), ty)));
  lw_kval r2 = add(kb, row0, tx), c2 = add(kb, col0, ty);
  lw_kval inside2 =
      lw__kb_fn(kb, LW_FN_AND, lt(kb, r2, i32(kb, ROWS)), lt(kb, c2, i32(kb, COLS)), LW_NONE);
  lw__kb_store(kb, y, LW_NONE, off(kb, 3, add(kb, mul(kb, c2, i32(kb, ROWS)), r2)), inside2, w);
  lw__kb_barrier(kb);
  lw__kb_end(kb);
}

static void test_transpose(void **state) {
  (void)state;
  lw_kernel kernel;
  make(&kernel, LW_KTARGET_GPU, TILE * TILE, build_transpose);
  uint16_t x[ROWS * COLS], y[ROWS * COLS];
  for (int i = 0; i < ROWS * COLS; i++) x[i] = lw__f64_to_f16(i);
  memset(y, 0xff, sizeof y);
  const lw_kinterp_buffer buffers[2] = {{x, sizeof x}, {y, sizeof y}};
  lw_kinterp_counts counts;
  lw_diag diag = {0};
  assert_int_equal(lw__kinterp_run(&kernel, 3, buffers, NULL, &diag, &counts), LW_OK);
  for (int r = 0; r < ROWS; r++)
    for (int c = 0; c < COLS; c++) assert_int_equal(y[c * ROWS + r], x[r * COLS + c]);
  assert_int_equal(counts.loads, ROWS * COLS);
  assert_int_equal(counts.stores, ROWS * COLS);
  assert_int_equal(counts.load_bytes, 2 * ROWS * COLS);
  assert_int_equal(counts.store_bytes, 2 * ROWS * COLS);
  assert_true(counts.instructions > 1000);
  lw__kernel_deinit(&kernel);
}

/* Takes the n-th instruction of |op| out of its region; false when there are fewer. */
static bool remove_nth(lw_kernel *kernel, lw_kop op, uint32_t n) {
  for (uint32_t r = 0; r < kernel->regions.count; r++) {
    lw_kregion *list = &kernel->regions.data[r];
    for (uint32_t i = 0; i < list->count; i++) {
      if (kernel->instrs.data[list->data[i]].op != op || n-- > 0) continue;
      memmove(list->data + i, list->data + i + 1, (list->count - i - 1) * sizeof *list->data);
      list->count--;
      return true;
    }
  }
  return false;
}

static void expect_caught(const lw_kernel *kernel, const char *want) {
  uint16_t x[ROWS * COLS] = {0}, y[ROWS * COLS];
  const lw_kinterp_buffer buffers[2] = {{x, sizeof x}, {y, sizeof y}};
  assert_int_equal(run(kernel, 3, buffers, want), LW_STATUS_INTERNAL);
}

static void test_every_removed_barrier_is_a_race(void **state) {
  (void)state;
  for (uint32_t n = 0; n < 2; n++) {
    lw_kernel kernel;
    make(&kernel, LW_KTARGET_GPU, TILE * TILE, build_transpose);
    assert_true(remove_nth(&kernel, LW_K_BARRIER, n));
    expect_caught(&kernel, "race");
    lw__kernel_deinit(&kernel);
  }
}

static void test_every_dropped_predicate_is_caught(void **state) {
  (void)state;
  static const lw_kop ops[] = {LW_K_LOAD, LW_K_STORE};
  for (size_t n = 0; n < LW_ARRAY_COUNT(ops); n++) {
    lw_kernel kernel;
    make(&kernel, LW_KTARGET_GPU, TILE * TILE, build_transpose);
    for (uint32_t i = 0; i < kernel.instrs.count; i++)
      if (kernel.instrs.data[i].op == ops[n]) kernel.instrs.data[i].c = LW_NONE;
    expect_caught(&kernel, "");
    lw__kernel_deinit(&kernel);
  }
}

/* Each of the four accesses one element further: outside, unwritten, or a race. */
static void test_every_shifted_index_is_caught(void **state) {
  (void)state;
  static const char *const want[4] = {"outside buffer 0",
                                      "shared 0[0] is read before it is written",
                                      "read before it is written", "outside buffer 1"};
  for (int n = 0; n < 4; n++) {
    lw_kernel kernel;
    shift[n] = 1;
    make(&kernel, LW_KTARGET_GPU, TILE * TILE, build_transpose);
    shift[n] = 0;
    expect_caught(&kernel, want[n]);
    lw__kernel_deinit(&kernel);
  }
}

/* ---- reductions -------------------------------------------------------------------------------*/

static uint32_t reduce_width;

static void build_reduce(lw_kbuilder *kb) {
  uint32_t x = lw__kb_buffer(kb, LW_DTYPE_I32, false), y = lw__kb_buffer(kb, LW_DTYPE_I32, true);
  uint32_t scratch = lw__kb_shared(kb, LW_DTYPE_I32, 8);
  lw_kval t = lw__kb_thread(kb);
  lw_kval sum =
      lw__kb_reduce(kb, LW_RED_SUM, lw__kb_load(kb, x, LW_NONE, t, LW_NONE), reduce_width, scratch);
  lw_kval most = lw__kb_reduce(kb, LW_RED_MAX, sum, 256, scratch); /* the scratch again, at once */
  lw__kb_store(kb, y, LW_NONE, t, LW_NONE, add(kb, sum, mul(kb, most, i32(kb, 1000000))));
}

static void test_reductions(void **state) {
  (void)state;
  for (reduce_width = 1; reduce_width <= 256; reduce_width *= 2) {
    lw_kernel kernel;
    make(&kernel, LW_KTARGET_GPU, 256, build_reduce);
    int32_t x[256], y[256];
    for (int i = 0; i < 256; i++) x[i] = i % 7;
    const lw_kinterp_buffer buffers[2] = {{x, sizeof x}, {y, sizeof y}};
    run(&kernel, 1, buffers, NULL);
    int32_t most = 0;
    for (int pass = 0; pass < 2; pass++) {
      for (int g = 0; g < 256; g += (int)reduce_width) {
        int32_t sum = 0;
        for (int i = 0; i < (int)reduce_width; i++) sum += x[g + i];
        if (sum > most) most = sum;
        if (pass == 1)
          for (int i = 0; i < (int)reduce_width; i++)
            assert_int_equal(y[g + i], sum + most * 1000000);
      }
    }
    lw__kernel_deinit(&kernel);
  }
}

/* The documented order: butterfly in a warp, warps in order. */
static void build_float_reduce(lw_kbuilder *kb) {
  uint32_t x = lw__kb_buffer(kb, LW_DTYPE_F32, false), y = lw__kb_buffer(kb, LW_DTYPE_F32, true);
  uint32_t scratch = lw__kb_shared(kb, LW_DTYPE_F32, 2);
  lw_kval t = lw__kb_thread(kb);
  lw_kval sum = lw__kb_reduce(kb, LW_RED_SUM, lw__kb_load(kb, x, LW_NONE, t, LW_NONE), 64, scratch);
  lw__kb_store(kb, y, LW_NONE, t, LW_NONE, sum);
}

static void test_reduction_order(void **state) {
  (void)state;
  lw_kernel kernel;
  make(&kernel, LW_KTARGET_GPU, 64, build_float_reduce);
  float x[64], y[64], v[64];
  lw_rng rng;
  lw__rng_seed(&rng, 3);
  for (int i = 0; i < 64; i++) v[i] = x[i] = (float)lw__rng_normal(&rng);
  const lw_kinterp_buffer buffers[2] = {{x, sizeof x}, {y, sizeof y}};
  run(&kernel, 1, buffers, NULL);
  for (int apart = 16; apart > 0; apart /= 2)
    for (int i = 0; i < 64; i++)
      if ((i & apart) == 0) v[i] = v[i | apart] = v[i] + v[i | apart];
  float want = v[0] + v[32];
  for (int i = 0; i < 64; i++) assert_true(y[i] == want);
  lw__kernel_deinit(&kernel);
}

/* Reductions in a loop with one scratch or two, and between other uses of the scratch: which of
 * them lead with a barrier is decided by an analysis, and the interpreter must find no race in what
 * it decides. */
static int scratch_case;

static void build_scratch(lw_kbuilder *kb) {
  uint32_t y = lw__kb_buffer(kb, LW_DTYPE_I32, true), l = lw__kb_local(kb, LW_DTYPE_I32, 1);
  uint32_t h[2] = {lw__kb_shared(kb, LW_DTYPE_I32, 64), lw__kb_shared(kb, LW_DTYPE_I32, 64)};
  lw_kval t = lw__kb_thread(kb);
  lw__kb_lset(kb, l, LW_NONE, t);
  if ((scratch_case & 1) != 0) {
    lw__kb_sset(kb, h[0], t, LW_NONE, t);
    lw__kb_if(kb, lt(kb, t, i32(kb, 64)));
    if ((scratch_case & 2) != 0) lw__kb_barrier(kb);
    lw__kb_end(kb);
  }
  lw__kb_for_n(kb, 3, LW_KLOOP_SERIAL);
  lw_kval a = lw__kb_reduce(kb, LW_RED_SUM, lw__kb_lget(kb, l, LW_NONE), 64, h[0]);
  lw_kval b = lw__kb_reduce(kb, LW_RED_MAX, add(kb, a, t), 64, h[(scratch_case & 4) != 0]);
  lw__kb_lset(kb, l, LW_NONE, add(kb, b, t));
  lw__kb_end(kb);
  lw__kb_store(kb, y, LW_NONE, t, LW_NONE, lw__kb_lget(kb, l, LW_NONE));
}

static void test_scratch_reuse(void **state) {
  (void)state;
  for (scratch_case = 0; scratch_case < 8; scratch_case++) {
    lw_kernel kernel;
    int32_t y[64];
    make(&kernel, LW_KTARGET_GPU, 64, build_scratch);
    const lw_kinterp_buffer buffers[1] = {{y, sizeof y}};
    run(&kernel, 1, buffers, NULL);
    uint8_t leads[256];
    assert_true(kernel.instrs.count <= 256);
    lw__kernel_leads(&kernel, leads);
    int count = 0;
    for (uint32_t i = 0; i < kernel.instrs.count; i++) count += leads[i];
    assert_int_equal(count, (scratch_case & 4) == 0 ? 2 : scratch_case & 1);
    lw__kernel_deinit(&kernel);
  }
}

/* ---- single violations ------------------------------------------------------------------------*/

static void build_divergent_barrier(lw_kbuilder *kb) {
  lw__kb_if(kb, lt(kb, lw__kb_thread(kb), i32(kb, 5)));
  lw__kb_barrier(kb);
  lw__kb_end(kb);
}

static void build_divergent_loop(lw_kbuilder *kb) {
  lw__kb_for(kb, LW_DTYPE_I32, lw__kb_thread(kb), i32(kb, 40), i32(kb, 32), LW_KLOOP_SERIAL);
  lw__kb_barrier(kb);
  lw__kb_end(kb);
}

static void build_partial_group(lw_kbuilder *kb) {
  uint32_t y = lw__kb_buffer(kb, LW_DTYPE_I32, true);
  lw_kval t = lw__kb_thread(kb);
  lw__kb_if(kb, lt(kb, t, i32(kb, 5)));
  lw__kb_store(kb, y, LW_NONE, t, LW_NONE, lw__kb_reduce(kb, LW_RED_SUM, t, 2, LW_NONE));
  lw__kb_end(kb);
}

static void build_whole_groups(lw_kbuilder *kb) {
  uint32_t y = lw__kb_buffer(kb, LW_DTYPE_I32, true);
  lw_kval t = lw__kb_thread(kb);
  lw__kb_if(kb, lt(kb, t, i32(kb, 4)));
  lw__kb_store(kb, y, LW_NONE, t, LW_NONE, lw__kb_reduce(kb, LW_RED_SUM, t, 2, LW_NONE));
  lw__kb_end(kb);
}

static void build_unwritten_shared(lw_kbuilder *kb) {
  uint32_t y = lw__kb_buffer(kb, LW_DTYPE_F32, true), h = lw__kb_shared(kb, LW_DTYPE_F32, 32);
  lw_kval t = lw__kb_thread(kb);
  lw__kb_sset(kb, h, t, lt(kb, t, i32(kb, 31)), lw__kb_const_f(kb, LW_DTYPE_F32, 1));
  lw__kb_barrier(kb);
  lw__kb_store(kb, y, LW_NONE, t, LW_NONE, lw__kb_sget(kb, h, t));
}

static void build_unwritten_local(lw_kbuilder *kb) {
  uint32_t y = lw__kb_buffer(kb, LW_DTYPE_F32, true), l = lw__kb_local(kb, LW_DTYPE_F32, 2);
  lw_kval t = lw__kb_thread(kb);
  lw__kb_lset(kb, l, LW_NONE, lw__kb_const_f(kb, LW_DTYPE_F32, 1));
  lw__kb_store(kb, y, LW_NONE, t, LW_NONE, lw__kb_lget(kb, l, i32(kb, 1)));
}

static void build_unwritten_storev(lw_kbuilder *kb) {
  uint32_t y = lw__kb_buffer(kb, LW_DTYPE_F32, true), l = lw__kb_local(kb, LW_DTYPE_F32, 2);
  lw__kb_lset(kb, l, LW_NONE, lw__kb_const_f(kb, LW_DTYPE_F32, 1));
  lw__kb_storev(kb, y, LW_NONE, mul(kb, lw__kb_thread(kb), i32(kb, 2)), LW_NONE, l, LW_NONE, 2);
}

static void build_unaligned(lw_kbuilder *kb) {
  uint32_t x = lw__kb_buffer(kb, LW_DTYPE_F32, false), l = lw__kb_local(kb, LW_DTYPE_F32, 4);
  lw__kb_loadv(kb, x, LW_NONE, mul(kb, lw__kb_thread(kb), i32(kb, 2)), LW_NONE, l, LW_NONE, 4);
}

static void build_same_element(lw_kbuilder *kb) {
  uint32_t y = lw__kb_buffer(kb, LW_DTYPE_I32, true);
  lw_kval t = lw__kb_thread(kb);
  lw__kb_store(kb, y, LW_NONE, lw__kb_fn(kb, LW_FN_DIV, t, i32(kb, 2), LW_NONE), LW_NONE, t);
}

static void build_two_blocks_write(lw_kbuilder *kb) {
  uint32_t y = lw__kb_buffer(kb, LW_DTYPE_I32, true);
  lw_kval t = lw__kb_thread(kb);
  lw__kb_store(kb, y, LW_NONE, t, LW_NONE, t);
}

static void build_block_reads_other(lw_kbuilder *kb) {
  uint32_t y = lw__kb_buffer(kb, LW_DTYPE_I32, true);
  lw_kval t = lw__kb_thread(kb),
          base = mul(kb, lw__kb_block(kb), lw__kb_const_i(kb, LW_DTYPE_I64, 32));
  lw_kval v = lw__kb_load(kb, y, LW_NONE, t, LW_NONE);
  lw__kb_barrier(kb);
  lw__kb_store(kb, y, base, t, LW_NONE, v);
}

static void build_overflow(lw_kbuilder *kb) {
  uint32_t y = lw__kb_buffer(kb, LW_DTYPE_I32, true);
  lw_kval t = lw__kb_thread(kb);
  lw_kval far = mul(kb, add(kb, t, i32(kb, 70000)), i32(kb, 70000));
  lw__kb_store(kb, y, LW_NONE, far, LW_NONE, t);
}

static void build_index_cast(lw_kbuilder *kb) {
  uint32_t y = lw__kb_buffer(kb, LW_DTYPE_I32, true);
  lw_kval t = lw__kb_thread(kb), far = lw__kb_const_i(kb, LW_DTYPE_I64, INT64_C(1) << 32);
  lw_kval at = lw__kb_cast(kb, add(kb, lw__kb_cast(kb, t, LW_DTYPE_I64), far), LW_DTYPE_I32);
  lw__kb_store(kb, y, LW_NONE, at, LW_NONE, t);
}

static void build_wrapping_data(
    lw_kbuilder *kb) { /* the same arithmetic as data wraps and is fine */
  uint32_t y = lw__kb_buffer(kb, LW_DTYPE_I32, true);
  lw_kval t = lw__kb_thread(kb);
  lw__kb_store(kb, y, LW_NONE, t, LW_NONE, mul(kb, add(kb, t, i32(kb, 70000)), i32(kb, 70000)));
}

static void build_shared_outside(lw_kbuilder *kb) {
  uint32_t h = lw__kb_shared(kb, LW_DTYPE_I32, 31);
  lw_kval t = lw__kb_thread(kb);
  lw__kb_sset(kb, h, t, LW_NONE, t);
}

static void build_scratch_reused(
    lw_kbuilder *kb) { /* a store into the scratch while others may still read it */
  uint32_t h = lw__kb_shared(kb, LW_DTYPE_I32, 2);
  lw_kval t = lw__kb_thread(kb);
  lw_kval sum = lw__kb_reduce(kb, LW_RED_SUM, t, 64, h);
  lw__kb_sset(kb, h, i32(kb, 0), lw__kb_fn(kb, LW_FN_EQ, t, i32(kb, 0), LW_NONE), sum);
}

static void test_violations(void **state) {
  (void)state;
  static const struct {
    build_fn build;
    uint32_t threads;
    int64_t grid;
    const char *want;
  } rows[] = {
      {build_divergent_barrier, 32, 1, "thread 5: this thread does not reach a barrier"},
      {build_divergent_loop, 32, 1, "does not reach a barrier"},
      {build_partial_group, 32, 1, "a group of 2 threads does not arrive whole"},
      {build_whole_groups, 32, 1, NULL},
      {build_unwritten_shared, 32, 1, "shared 0[31] is read before it is written"},
      {build_unwritten_local, 32, 1, "local 0[1] is read before it is written"},
      {build_unwritten_storev, 32, 1, "local 0[1] is read before it is written"},
      {build_unaligned, 32, 1, "element 2 is not a multiple of the width 4"},
      {build_same_element, 32, 1, "race: buffer 0[0] is written by another thread"},
      {build_two_blocks_write, 32, 1, NULL},
      {build_two_blocks_write, 32, 2, "race: buffer 0[0] is written by another block"},
      {build_block_reads_other, 32, 1, NULL},
      {build_block_reads_other, 32, 2, "race: buffer 0[0] is written by another block"},
      {build_overflow, 32, 1, "overflows i32"},
      {build_index_cast, 32, 1, "index 4294967296 overflows i32"},
      {build_wrapping_data, 32, 1, NULL},
      {build_shared_outside, 32, 1, "element 31 is outside shared array 0 of 31 elements"},
      {build_scratch_reused, 64, 1, "race: shared 0[0] is read by another thread"},
  };
  for (size_t i = 0; i < LW_ARRAY_COUNT(rows); i++) {
    lw_kernel kernel;
    int32_t data[64] = {0};
    make(&kernel, LW_KTARGET_GPU, rows[i].threads, rows[i].build);
    const lw_kinterp_buffer buffers[1] = {{data, sizeof data}};
    run(&kernel, rows[i].grid, buffers, rows[i].want);
    lw__kernel_deinit(&kernel);
  }
}

/* ---- vector loops -----------------------------------------------------------------------------*/

static int vector_shift;

static void build_vector(lw_kbuilder *kb) {
  uint32_t y = lw__kb_buffer(kb, LW_DTYPE_F32, true), l = lw__kb_local(kb, LW_DTYPE_F32, 9);
  lw_kval i = lw__kb_for_n(kb, 9, LW_KLOOP_VECTOR);
  lw__kb_lset(kb, l, i, lw__kb_cast(kb, i, LW_DTYPE_F32));
  lw__kb_end(kb);
  lw_kval j = lw__kb_for_n(kb, 8, LW_KLOOP_VECTOR);
  lw_kval x = lw__kb_lget(kb, l, add(kb, j, i32(kb, vector_shift)));
  lw__kb_lset(kb, l, j, lw__kb_fn(kb, LW_FN_ADD, x, x, LW_NONE));
  lw__kb_end(kb);
  lw_kval n = lw__kb_for_n(kb, 8, LW_KLOOP_SERIAL);
  lw__kb_store(kb, y, LW_NONE, n, LW_NONE, lw__kb_lget(kb, l, n));
  lw__kb_end(kb);
}

static void test_vector_loops(void **state) {
  (void)state;
  for (vector_shift = 0; vector_shift < 2; vector_shift++) {
    lw_kernel kernel;
    float y[8];
    make(&kernel, LW_KTARGET_CPU, 1, build_vector);
    const lw_kinterp_buffer buffers[1] = {{y, sizeof y}};
    run(&kernel, 1, buffers,
        vector_shift == 0 ? NULL : "iterations of a vector loop meet in local 0[1]");
    if (vector_shift == 0)
      for (int i = 0; i < 8; i++) assert_true(y[i] == 2.0f * (float)i);
    lw__kernel_deinit(&kernel);
  }
}

/* y = x0 + 3 (x0 .. x3), through registers, in rows of 4 from an odd place. */
static void build_registers(lw_kbuilder *kb) {
  uint32_t x = lw__kb_buffer(kb, LW_DTYPE_I32, false), y = lw__kb_buffer(kb, LW_DTYPE_I32, true);
  uint32_t sums = lw__kb_registers(kb, LW_DTYPE_I32, 8, 4),
           plain = lw__kb_local(kb, LW_DTYPE_I32, 4);
  lw_kval one = lw__kb_const_i(kb, LW_DTYPE_I32, 1), four = lw__kb_const_i(kb, LW_DTYPE_I32, 4);
  lw__kb_spill(kb);
  lw__kb_loadv(kb, x, LW_NONE, one, LW_NONE, sums, LW_NONE, 4);
  lw__kb_loadv(kb, x, LW_NONE, one, LW_NONE, sums, four, 4);
  lw__kb_movev(kb, plain, LW_NONE, sums, LW_NONE, 4);
  lw__kb_muladdv(kb, sums, four, lw__kb_const_i(kb, LW_DTYPE_I32, 3), plain, LW_NONE, 4);
  lw__kb_storev(kb, y, LW_NONE, one, LW_NONE, sums, four, 4);
}

static void test_registers(void **state) {
  (void)state;
  lw_kernel kernel;
  int32_t x[5] = {9, 1, -2, INT32_MAX, 4}, y[5] = {7, 7, 7, 7, 7};
  make(&kernel, LW_KTARGET_CPU, 1, build_registers);
  const lw_kinterp_buffer buffers[2] = {{x, sizeof x}, {y, sizeof y}};
  run(&kernel, 1, buffers, NULL);
  assert_int_equal(y[0], 7);
  assert_int_equal(y[1], 4);
  assert_int_equal(y[2], -8);
  assert_int_equal(y[3], -4); /* 4 (2^31 - 1), wrapped */
  assert_int_equal(y[4], 16);
  lw__kernel_deinit(&kernel);
}

/* ---- buffers that overlap, speed, memory ------------------------------------------------------*/

static void build_copy(lw_kbuilder *kb) {
  uint32_t x = lw__kb_buffer(kb, LW_DTYPE_I32, false), y = lw__kb_buffer(kb, LW_DTYPE_I32, true);
  lw_kval t = lw__kb_thread(kb);
  lw__kb_store(kb, y, LW_NONE, t, LW_NONE, lw__kb_load(kb, x, LW_NONE, t, LW_NONE));
}

static void test_overlap(void **state) {
  (void)state;
  lw_kernel kernel;
  int32_t data[40] = {0};
  make(&kernel, LW_KTARGET_GPU, 32, build_copy);
  const lw_kinterp_buffer buffers[2] = {{data, 32 * 4}, {data + 8, 32 * 4}};
  run(&kernel, 1, buffers, "buffers 1 and 0 overlap");
  lw__kernel_deinit(&kernel);
}

static void build_long(lw_kbuilder *kb) {
  uint32_t y = lw__kb_buffer(kb, LW_DTYPE_F32, true), l = lw__kb_local(kb, LW_DTYPE_F32, 1);
  lw_kval t = lw__kb_thread(kb);
  lw__kb_lset(kb, l, LW_NONE, lw__kb_const_f(kb, LW_DTYPE_F32, 0));
  lw_kval i = lw__kb_for_n(kb, 1000, LW_KLOOP_SERIAL);
  lw_kval x = lw__kb_fn(kb, LW_FN_ADD, lw__kb_lget(kb, l, LW_NONE),
                        lw__kb_cast(kb, i, LW_DTYPE_F32), LW_NONE);
  lw__kb_lset(kb, l, LW_NONE,
              lw__kb_fn(kb, LW_FN_MUL, x, lw__kb_const_f(kb, LW_DTYPE_F32, 0.5), LW_NONE));
  lw__kb_end(kb);
  lw__kb_store(kb, y, LW_NONE, t, LW_NONE, lw__kb_lget(kb, l, LW_NONE));
}

static void test_speed(void **state) {
  (void)state;
  lw_kernel kernel;
  float y[256];
  make(&kernel, LW_KTARGET_GPU, 256, build_long);
  const lw_kinterp_buffer buffers[1] = {{y, sizeof y}};
  int64_t start = lw__now_ns();
  run(&kernel, 1, buffers, NULL); /* 1.3 million instructions of a thread */
  int64_t took = lw__now_ns() - start;
  printf("  %.1f ms\n", (double)took * 1e-6);
  assert_true(took < INT64_C(2000000000));
  lw__kernel_deinit(&kernel);
}

static void test_every_failed_allocation_is_reported(void **state) {
  (void)state;
  lw_kernel kernel;
  make(&kernel, LW_KTARGET_GPU, TILE * TILE, build_transpose);
  uint16_t x[ROWS * COLS] = {0}, y[ROWS * COLS];
  const lw_kinterp_buffer buffers[2] = {{x, sizeof x}, {y, sizeof y}};
  lw_status status = LW_STATUS_OUT_OF_MEMORY;
  for (uint64_t n = 1; status != LW_OK && n < 1000; n++) {
    lw__mem_fail_at(n);
    status = lw__kinterp_run(&kernel, 1, buffers, NULL, NULL, NULL);
    lw__mem_fail_at(0);
    if (status != LW_OK) assert_int_equal(status, LW_STATUS_OUT_OF_MEMORY);
  }
  assert_int_equal(status, LW_OK);
  lw__kernel_deinit(&kernel);
}

int main(void) {
  const struct CMUnitTest tests[] = {
      cmocka_unit_test(test_transpose),
      cmocka_unit_test(test_every_removed_barrier_is_a_race),
      cmocka_unit_test(test_every_dropped_predicate_is_caught),
      cmocka_unit_test(test_every_shifted_index_is_caught),
      cmocka_unit_test(test_reductions),
      cmocka_unit_test(test_reduction_order),
      cmocka_unit_test(test_scratch_reuse),
      cmocka_unit_test(test_violations),
      cmocka_unit_test(test_vector_loops),
      cmocka_unit_test(test_registers),
      cmocka_unit_test(test_overlap),
      cmocka_unit_test(test_speed),
      cmocka_unit_test(test_every_failed_allocation_is_reported),
  };
  return cmocka_run_group_tests_name("kernel_interp", tests, NULL, NULL);
}

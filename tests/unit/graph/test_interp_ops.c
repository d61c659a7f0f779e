/* test_interp_ops.c: every operator and function of the interpreter against values that numpy
 * computed. */
#include "interp_kit.h"

#include "interp_expected.h"

enum { UNARY_COUNT = LW_ARRAY_COUNT(unary_x), BINARY_COUNT = LW_ARRAY_COUNT(binary_a) };

static double float_result(const lw_oracle_tensor *t, int64_t i) {
  return t->f != NULL ? t->f[i] : (double)t->i[i];
}

/* Ideal values are the function's f64 value. */
static void check_fn_ideal(lw_fn fn, const double *a, const double *b, int64_t count,
                           const double *want) {
  kit k;
  kit_init(&k);
  lw_value_id x = kit_floats(&k, LW_DTYPE_F64, KIT_SHAPE(count), a);
  lw_value_id y = b != NULL ? kit_floats(&k, LW_DTYPE_F64, KIT_SHAPE(count), b) : x;
  kit_run(&k, kit_map(&k, fn, x, y));
  for (int64_t i = 0; i < count; i++) {
    if (!kit_near(float_result(&k.ideal, i), want[i], 4e-15)) {
      fail_msg("%s(%g, %g): got %.17g, want %.17g", lw__fn_info[fn].name, a[i],
               b != NULL ? b[i] : 0, float_result(&k.ideal, i), want[i]);
    }
    assert_true(float_result(&k.strict, i) == float_result(&k.ideal, i) || isnan(want[i]));
  }
  kit_deinit(&k);
}

static void functions_in_f64(void **state) {
  (void)state;
  for (size_t r = 0; r < LW_ARRAY_COUNT(unary_rows); r++) {
    check_fn_ideal(unary_rows[r].fn, unary_x, NULL, UNARY_COUNT, unary_rows[r].want);
  }
  for (size_t r = 0; r < LW_ARRAY_COUNT(binary_rows); r++) {
    check_fn_ideal(binary_rows[r].fn, binary_a, binary_b, BINARY_COUNT, binary_rows[r].want);
  }
}

/* Strict values are rounded to the type, here f16: operands are rounded first, so only exact ones
 * are compared. */
static void functions_in_f16_strict(void **state) {
  (void)state;
  for (size_t r = 0; r < LW_ARRAY_COUNT(unary_rows); r++) {
    kit k;
    kit_init(&k);
    lw_value_id x = kit_floats(&k, LW_DTYPE_F16, KIT_SHAPE(UNARY_COUNT), unary_x);
    kit_run(&k, kit_map(&k, unary_rows[r].fn, x, x));
    for (int64_t i = 0; i < UNARY_COUNT; i++) {
      if (isfinite(unary_x[i]) && lw__round_to(LW_DTYPE_F16, unary_x[i]) != unary_x[i]) continue;
      double want = k.strict.f != NULL ? lw__round_to(LW_DTYPE_F16, unary_rows[r].want[i])
                                       : unary_rows[r].want[i];
      if (!kit_near(float_result(&k.strict, i), want, 0))
        fail_msg("%s", lw__fn_info[unary_rows[r].fn].name);
    }
    kit_deinit(&k);
  }
}

static const int_operands *operands_of(lw_dtype dtype) {
  for (size_t r = 0; r < LW_ARRAY_COUNT(int_operand_rows); r++) {
    if (int_operand_rows[r].dtype == dtype) return &int_operand_rows[r];
  }
  fail();
  return NULL;
}

static void functions_on_integers(void **state) {
  (void)state;
  for (size_t r = 0; r < LW_ARRAY_COUNT(int_rows); r++) {
    const int_row *row = &int_rows[r];
    const int_operands *operands = operands_of(row->dtype);
    kit k;
    kit_init(&k);
    lw_value_id a = kit_ints(&k, row->dtype, KIT_SHAPE(8), operands->a);
    lw_value_id b =
        kit_ints(&k, row->dtype, KIT_SHAPE(8), row->fn == LW_FN_POW ? int_pow_b : operands->b);
    kit_run(&k, kit_map(&k, row->fn, a, b));
    for (int i = 0; i < 8; i++) {
      if (k.ideal.i[i] != row->want[i]) {
        fail_msg("%s %s element %d: got %lld", lw__fn_info[row->fn].name, lw_dtype_name(row->dtype),
                 i, (long long)k.ideal.i[i]);
      }
      assert_true(k.ideal.bound[i] == 0);
    }
    kit_deinit(&k);
  }
}

static void shifts_and_logic(void **state) {
  (void)state;
  kit k;
  kit_init(&k);
  lw_value_id a = kit_ints(&k, LW_DTYPE_I32, KIT_SHAPE(4), (const int64_t[]){-8, 5, 1, -1});
  lw_value_id b = kit_ints(&k, LW_DTYPE_I32, KIT_SHAPE(4), (const int64_t[]){1, 2, 40, 40});
  lw_value_id shifted =
      kit_map(&k, LW_FN_ADD, kit_map(&k, LW_FN_SHL, a, b), kit_map(&k, LW_FN_SHR, a, b));
  kit_run(&k, shifted);
  const int64_t want[] = {-16 - 4, 20 + 1, 0 + 0, 0 - 1};
  assert_memory_equal(k.ideal.i, want, sizeof want);
  kit_deinit(&k);

  kit_init(&k);
  a = kit_ints(&k, LW_DTYPE_BOOL, KIT_SHAPE(4), (const int64_t[]){0, 0, 1, 1});
  b = kit_ints(&k, LW_DTYPE_BOOL, KIT_SHAPE(4), (const int64_t[]){0, 1, 0, 1});
  lw_value_id both = kit_map(&k, LW_FN_AND, a, b), one = kit_map(&k, LW_FN_OR, a, b);
  lw_value_id other = kit_map(&k, LW_FN_XOR, a, kit_map(&k, LW_FN_NOT, b, b));
  lw_value_id sum =
      kit_map(&k, LW_FN_ADD, kit_cast(&k, both, LW_DTYPE_I8), kit_cast(&k, one, LW_DTYPE_I8));
  kit_run(&k, kit_map(&k, LW_FN_ADD, sum, kit_cast(&k, other, LW_DTYPE_I8)));
  const int64_t want_logic[] = {0 + 0 + 1, 0 + 1 + 0, 0 + 1 + 0, 1 + 1 + 1};
  assert_memory_equal(k.ideal.i, want_logic, sizeof want_logic);
  kit_deinit(&k);
}

/* One operator: operands, what it should give. */
static void check_floats(kit *k, lw_value_id v, const double *want, size_t count) {
  kit_run(k, v);
  assert_int_equal(k->ideal.count, count);
  for (size_t i = 0; i < count; i++) {
    if (!kit_near(k->ideal.f[i], want[i], 1e-12) ||
        fabs(k->strict.f[i] - want[i]) > k->ideal.bound[i]) {
      fail_msg("element %zu: got %.17g, strict %.17g +- %g, want %.17g", i, k->ideal.f[i],
               k->strict.f[i], k->ideal.bound[i], want[i]);
    }
  }
  kit_deinit(k);
}
#define CHECK(k, v, want) check_floats(k, v, want, LW_ARRAY_COUNT(want))

static void movements(void **state) {
  (void)state;
  kit k;
  lw_value_id x, v;
  lw_shape cube = KIT_SHAPE(2, 3, 4);
  kit_init(&k);
  x = kit_floats(&k, LW_DTYPE_F32, cube, permute_in0);
  assert_ok(lw__graph_permute(&k.g, x, (const uint8_t[]){2, 0, 1}, &v));
  CHECK(&k, v, permute_want);

  kit_init(&k);
  x = kit_floats(&k, LW_DTYPE_F32, KIT_SHAPE(1, 3, 1), expand_in0);
  assert_ok(lw__graph_expand(&k.g, x, &cube, &v));
  CHECK(&k, v, expand_want);

  kit_init(&k);
  x = kit_floats(&k, LW_DTYPE_F32, cube, slice_in0);
  assert_ok(lw__graph_slice(&k.g, x, (const int64_t[]){0, 2, 1}, (const int64_t[]){1, -2, 2},
                            (const lw_extent[]){2, 2, 2}, &v));
  CHECK(&k, v, slice_want);

  kit_init(&k);
  x = kit_floats(&k, LW_DTYPE_F32, cube, pad_in0);
  assert_ok(lw__graph_pad(&k.g, x, (const int64_t[]){0, 2, 1}, (const int64_t[]){1, 0, 1},
                          (lw_scalar){.f = -7}, &v));
  CHECK(&k, v, pad_want);

  kit_init(&k);
  x = kit_floats(&k, LW_DTYPE_F32, KIT_SHAPE(4, 10), window_in0);
  assert_ok(lw__graph_window(&k.g, x, 2, (const uint8_t[]){1, 0}, (const int64_t[]){3, 2},
                             (const int64_t[]){2, 1}, (const int64_t[]){1, 2}, &v));
  CHECK(&k, v, window_want);

  kit_init(&k);
  lw_value_id part[3] = {kit_floats(&k, LW_DTYPE_F32, cube, concat_in0),
                         kit_floats(&k, LW_DTYPE_F32, KIT_SHAPE(2, 1, 4), concat_in1),
                         kit_floats(&k, LW_DTYPE_F32, KIT_SHAPE(2, 2, 4), concat_in2)};
  assert_ok(lw__graph_concat(&k.g, part, 3, 1, &v));
  CHECK(&k, v, concat_want);

  kit_init(&k);
  x = kit_floats(&k, LW_DTYPE_F32, cube, permute_in0);
  lw_shape flat = KIT_SHAPE(4, 6);
  assert_ok(lw__graph_reshape(&k.g, x, &flat, &v));
  CHECK(&k, v, permute_in0);
}

static void gather_and_iota(void **state) {
  (void)state;
  kit k;
  lw_value_id v;
  kit_init(&k);
  lw_value_id table = kit_floats(&k, LW_DTYPE_F32, KIT_SHAPE(5, 3, 4), gather_in0);
  lw_value_id ids =
      kit_ints(&k, LW_DTYPE_I64, KIT_SHAPE(2, 2, 1, 1), (const int64_t[]){4, -1, 0, 2});
  lw_shape result = KIT_SHAPE(2, 2, 3, 4);
  assert_ok(lw__graph_expand(&k.g, ids, &result, &ids));
  assert_ok(
      lw__graph_gather(&k.g, table, &ids, 1, (const int8_t[]){0, -1 - 2, -1 - 3}, &result, &v));
  CHECK(&k, v, gather_want);

  kit_init(&k);
  lw_shape grid = KIT_SHAPE(2, 3, 2);
  assert_ok(lw__graph_iota(&k.g, LW_DTYPE_I32, &grid, 1, &v));
  kit_run(&k, v);
  const int64_t want[] = {0, 0, 1, 1, 2, 2, 0, 0, 1, 1, 2, 2};
  assert_memory_equal(k.ideal.i, want, sizeof want);
  kit_deinit(&k);
}

static void check_reduce(lw_red red, uint32_t axes, const double *in, const double *want,
                         size_t count) {
  kit k;
  lw_value_id v;
  kit_init(&k);
  lw_value_id x = kit_floats(&k, LW_DTYPE_F32, KIT_SHAPE(2, 3, 4), in);
  assert_ok(lw__graph_reduce(&k.g, red, x, axes, &v));
  check_floats(&k, v, want, count);
}

static void reductions(void **state) {
  (void)state;
  check_reduce(LW_RED_SUM, 3, sum01_in0, sum01_want, LW_ARRAY_COUNT(sum01_want));
  check_reduce(LW_RED_PROD, 2, prod1_in0, prod1_want, LW_ARRAY_COUNT(prod1_want));
  check_reduce(LW_RED_MAX, 5, max02_in0, max02_want, LW_ARRAY_COUNT(max02_want));
  check_reduce(LW_RED_MIN, 4, min2_in0, min2_want, LW_ARRAY_COUNT(min2_want));
}

static void check_reduce_int(lw_red red, lw_dtype dtype, const int64_t *in, int64_t want0,
                             int64_t want1) {
  kit k;
  lw_value_id v;
  kit_init(&k);
  lw_value_id x = kit_ints(&k, dtype, KIT_SHAPE(2, 3), in);
  assert_ok(lw__graph_reduce(&k.g, red, x, 2, &v));
  kit_run(&k, v);
  assert_int_equal(k.ideal.i[0], want0);
  assert_int_equal(k.ideal.i[1], want1);
  kit_deinit(&k);
}

static void reductions_of_integers_and_bools(void **state) {
  (void)state;
  const int64_t bytes[] = {100, 100, 1, -128, -1, 0}, truth[] = {0, 0, 1, 0, 0, 0},
                most[] = {1, 1, 1, 1, 0, 1};
  check_reduce_int(LW_RED_SUM, LW_DTYPE_I8, bytes, 201 - 256, 127);
  check_reduce_int(LW_RED_PROD, LW_DTYPE_I8, bytes, 10000 - 39 * 256, 0);
  check_reduce_int(LW_RED_MAX, LW_DTYPE_I8, bytes, 100, 0);
  check_reduce_int(LW_RED_MIN, LW_DTYPE_U8, bytes, 1, 0);
  check_reduce_int(LW_RED_ANY, LW_DTYPE_BOOL, truth, 1, 0);
  check_reduce_int(LW_RED_ALL, LW_DTYPE_BOOL, most, 1, 0);
}

static void products(void **state) {
  (void)state;
  kit k;
  lw_value_id v;
  kit_init(&k);
  lw_value_id a = kit_floats(&k, LW_DTYPE_F32, KIT_SHAPE(2, 3, 5), dot_in0);
  lw_value_id b = kit_floats(&k, LW_DTYPE_F32, KIT_SHAPE(2, 5, 4), dot_in1);
  assert_ok(lw__graph_dot(&k.g, a, b, &v));
  CHECK(&k, v, dot_want);

  kit_init(&k);
  a = kit_ints(&k, LW_DTYPE_I32, KIT_SHAPE(1, 2), (const int64_t[]){1 << 20, 3});
  b = kit_ints(&k, LW_DTYPE_I32, KIT_SHAPE(2, 1), (const int64_t[]){1 << 12, 5});
  assert_ok(lw__graph_dot(&k.g, a, b, &v));
  kit_run(&k, v);
  assert_int_equal(k.ideal.i[0], 15); /* 2^32 is gone */
  kit_deinit(&k);
}

static void check_conv(lw_shape xs, const double *x, lw_shape ws, const double *w,
                       lw_conv_attr attr, const double *want, size_t count) {
  for (int infinite = 0; infinite < 2;
       infinite++) { /* the second time by the term-by-term way, which one infinity forces */
    kit k;
    lw_value_id v;
    kit_init(&k);
    lw_value_id a = kit_floats(&k, LW_DTYPE_F32, xs, x), b = kit_floats(&k, LW_DTYPE_F32, ws, w);
    if (infinite) lw__elem_set_f64(LW_DTYPE_F32, k.in[0].data, 0, INFINITY);
    assert_ok(lw__graph_conv(&k.g, a, b, &attr, &v));
    if (!infinite) {
      check_floats(&k, v, want, count);
      continue;
    }
    kit_run(&k, v);
    int64_t equal = 0;
    for (size_t i = 0; i < count; i++) {
      if (!isfinite(k.ideal.f[i])) continue;
      assert_true(kit_near(k.ideal.f[i], want[i], 1e-12));
      equal++;
    }
    assert_true(equal > 0 && equal < (int64_t)count);
    kit_deinit(&k);
  }
}

static void convolutions(void **state) {
  (void)state;
  check_conv(KIT_SHAPE(2, 4, 7, 6), conv2_in0, KIT_SHAPE(6, 2, 3, 2), conv2_in1,
             (lw_conv_attr){.spatial = 2,
                            .stride = {2, 1},
                            .dilation = {1, 2},
                            .pad_lo = {1, 0},
                            .pad_hi = {2, 1},
                            .group = 2},
             conv2_want, LW_ARRAY_COUNT(conv2_want));
  check_conv(
      KIT_SHAPE(1, 3, 9), conv1_in0, KIT_SHAPE(2, 3, 4), conv1_in1,
      (lw_conv_attr){.spatial = 1, .stride = {3}, .dilation = {1}, .pad_lo = {2}, .group = 1},
      conv1_want, LW_ARRAY_COUNT(conv1_want));
  check_conv(KIT_SHAPE(1, 2, 3, 4, 5), conv3_in0, KIT_SHAPE(3, 2, 2, 1, 3), conv3_in1,
             (lw_conv_attr){.spatial = 3,
                            .stride = {1, 2, 1},
                            .dilation = {1, 1, 2},
                            .pad_lo = {1, 0, 1},
                            .pad_hi = {0, 0, 1},
                            .group = 1},
             conv3_want, LW_ARRAY_COUNT(conv3_want));
  check_conv(KIT_SHAPE(2, 4, 3, 4), convt_in0, KIT_SHAPE(4, 3, 3, 2), convt_in1,
             (lw_conv_attr){.spatial = 2,
                            .stride = {2, 3},
                            .dilation = {1, 2},
                            .pad_lo = {1, 0},
                            .pad_hi = {0, 1},
                            .group = 2,
                            .transposed = true},
             convt_want, LW_ARRAY_COUNT(convt_want));
}

typedef struct cast_row {
  double x;
  lw_dtype to;
  int64_t want;
} cast_row;

static void casts_to_integers(void **state) {
  (void)state;
  static const cast_row rows[] = {
      {2.9, LW_DTYPE_I32, 2},   {-2.9, LW_DTYPE_I32, -2},        {300, LW_DTYPE_U8, 255},
      {-5, LW_DTYPE_U8, 0},     {1e20, LW_DTYPE_I64, INT64_MAX}, {-1e20, LW_DTYPE_I64, INT64_MIN},
      {NAN, LW_DTYPE_I16, 0},   {0.25, LW_DTYPE_BOOL, 1},        {0, LW_DTYPE_BOOL, 0},
      {-0.0, LW_DTYPE_BOOL, 0}, {NAN, LW_DTYPE_BOOL, 1},         {-INFINITY, LW_DTYPE_I8, -128},
      {128, LW_DTYPE_I8, 127}};
  for (size_t r = 0; r < LW_ARRAY_COUNT(rows); r++) {
    kit k;
    kit_init(&k);
    lw_value_id x = kit_floats(&k, LW_DTYPE_F32, KIT_SHAPE(1), &rows[r].x);
    kit_run(&k, kit_cast(&k, x, rows[r].to));
    if (k.ideal.i[0] != rows[r].want)
      fail_msg("cast of %g: got %lld", rows[r].x, (long long)k.ideal.i[0]);
    assert_true(k.ideal.bound[0] == 0);
    kit_deinit(&k);
  }
}

static void casts_between_floats(void **state) {
  (void)state;
  kit k;
  const double x[] = {1.0 + 0x1p-11 + 0x1p-20, 1e5, 0.1, 3.0, NAN, -INFINITY};
  kit_init(&k);
  lw_value_id in = kit_floats(&k, LW_DTYPE_F32, KIT_SHAPE(6), x);
  kit_run(&k, kit_cast(&k, in, LW_DTYPE_F16));
  assert_true(k.strict.f[0] == 1 + 0x1p-10 && isinf(k.strict.f[1]) && k.strict.f[2] == 0x1.998p-4);
  assert_true(k.ideal.f[0] == x[0] && k.ideal.bound[0] >= 0x1p-11 && k.ideal.bound[0] < 0x1p-10);
  assert_true(isinf(k.ideal.f[1]) &&
              k.ideal.bound[1] == 0); /* an output that overflows for certain is infinite */
  assert_true(k.ideal.f[3] == 3 && k.ideal.bound[3] == 0);
  assert_true(isnan(k.ideal.f[4]) && k.ideal.f[5] == -INFINITY && k.ideal.bound[5] == 0);
  kit_deinit(&k);

  kit_init(&k); /* f8 rounds for real, so what follows is exact */
  const double y[] = {1.06, 17, 250, 0.3};
  in = kit_floats(&k, LW_DTYPE_F32, KIT_SHAPE(4), y);
  kit_run(&k, kit_cast(&k, kit_cast(&k, in, LW_DTYPE_F8E4M3), LW_DTYPE_F32));
  const double want[] = {1.0, 16, 256, 0.3125};
  for (int i = 0; i < 4; i++)
    assert_true(k.ideal.f[i] == want[i] && k.ideal.bound[i] == 0 && k.strict.f[i] == want[i]);
  kit_deinit(&k);

  kit_init(&k);
  in = kit_ints(&k, LW_DTYPE_I64, KIT_SHAPE(2), (const int64_t[]){(1 << 24) + 1, 77});
  kit_run(&k, kit_cast(&k, in, LW_DTYPE_F32));
  assert_true(k.ideal.f[0] == 16777217.0 && k.ideal.bound[0] >= 1 && k.ideal.bound[0] < 4 &&
              k.strict.f[0] == 16777216.0);
  assert_true(k.ideal.f[1] == 77 && k.ideal.bound[1] == 0);
  kit_deinit(&k);
}

static void select_takes_elements(void **state) {
  (void)state;
  kit k;
  kit_init(&k);
  lw_value_id c = kit_ints(&k, LW_DTYPE_BOOL, KIT_SHAPE(3), (const int64_t[]){1, 0, 1});
  lw_value_id a = kit_floats(&k, LW_DTYPE_F32, KIT_SHAPE(3), (const double[]){1, 2, NAN});
  lw_value_id b = kit_floats(&k, LW_DTYPE_F32, KIT_SHAPE(3), (const double[]){NAN, 5, 6}), v;
  assert_ok(lw__graph_map(&k.g, LW_FN_SELECT, (const lw_value_id[]){c, a, b}, &v));
  kit_run(&k, v);
  assert_true(k.ideal.f[0] == 1 && k.ideal.f[1] == 5 && isnan(k.ideal.f[2]) &&
              k.ideal.bound[2] == 0);
  kit_deinit(&k);
}

int main(void) {
  const struct CMUnitTest tests[] = {
      cmocka_unit_test(functions_in_f64),
      cmocka_unit_test(functions_in_f16_strict),
      cmocka_unit_test(functions_on_integers),
      cmocka_unit_test(shifts_and_logic),
      cmocka_unit_test(movements),
      cmocka_unit_test(gather_and_iota),
      cmocka_unit_test(reductions),
      cmocka_unit_test(reductions_of_integers_and_bools),
      cmocka_unit_test(products),
      cmocka_unit_test(convolutions),
      cmocka_unit_test(casts_to_integers),
      cmocka_unit_test(casts_between_floats),
      cmocka_unit_test(select_takes_elements),
  };
  return cmocka_run_group_tests(tests, NULL, NULL);
}

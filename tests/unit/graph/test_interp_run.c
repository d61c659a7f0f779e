/* test_interp_run.c: the interpreter's driver: folding, comparing, memory, bad input. */
#include "interp_kit.h"

static void compare_reports_the_worst_element(void **state) {
  (void)state;
  double f[] = {1, 2, INFINITY, NAN, 5}, bound[] = {0.1, 0.1, 0, 0, INFINITY};
  lw_oracle_tensor want = {LW_DTYPE_F32, lw__shape_of(1, (const int64_t[]){5}), 5, f, NULL, bound,
                           NULL};
  lw_compare c;
  lw__interp_compare(&want, (const float[]){1.05f, 2.0f, INFINITY, NAN, -3}, &c);
  assert_true(c.count == 5 && c.bad == 0 && c.ambiguous == 1 && c.worst_index == 0);
  assert_true(c.worst_ratio > 0.49 && c.worst_ratio < 0.51);
  lw__interp_compare(&want, (const float[]){1.05f, 2.3f, INFINITY, NAN, -3}, &c);
  assert_true(c.bad == 1 && c.worst_index == 1 && c.worst_got == (double)2.3f && c.worst_want == 2);
  assert_true(c.max_abs_error > 0.29);
  lw__interp_compare(&want, (const float[]){1, 2, -INFINITY, 0, 1}, &c);
  assert_true(c.bad == 2 && isinf(c.worst_ratio));
  lw__interp_compare(&want, (const float[]){NAN, INFINITY, 1e30f, NAN, 1}, &c);
  assert_int_equal(c.bad, 3);

  int64_t i[] = {5, -1, 7};
  double ibound[] = {0, 0, INFINITY};
  want = (lw_oracle_tensor){LW_DTYPE_I32, lw__shape_of(1, (const int64_t[]){3}), 3, NULL, i, ibound,
                            NULL};
  lw__interp_compare(&want, (const int32_t[]){5, -1, 9}, &c);
  assert_true(c.bad == 0 && c.ambiguous == 1);
  lw__interp_compare(&want, (const int32_t[]){5, -2, 9}, &c);
  assert_true(c.bad == 1 && c.worst_index == 1 && c.max_abs_error == 1);
}

static void nodes_fold_in_their_declared_types(void **state) {
  (void)state;
  kit k;
  lw_value_id v;
  kit_init(&k);
  lw_value_id a = kit_floats(&k, LW_DTYPE_F16, KIT_SHAPE(1, 3), (const double[]){0.1, 2048, 1});
  lw_value_id b = kit_floats(&k, LW_DTYPE_F16, KIT_SHAPE(3, 1), (const double[]){1, 1, 1});
  assert_ok(lw__graph_dot(&k.g, a, b, &v));
  lw_host_tensor out;
  assert_ok(lw__interp_fold_node(&k.g, lw__value(&k.g, v)->producer, k.in, &k.arena, &out));
  assert_true(out.dtype == LW_DTYPE_F16 && out.shape.rank == 2);
  /* 2049.1 in one rounding; adding one after the other in f16 would stop at 2048 */
  assert_true(lw__elem_get_f64(LW_DTYPE_F16, out.data, 0) == 2050);

  lw_value_id wide = kit_map(&k, LW_FN_ADD, a, a);
  assert_ok(lw__interp_fold_node(&k.g, lw__value(&k.g, wide)->producer,
                                 (const lw_host_tensor[]){k.in[0], k.in[0]}, &k.arena, &out));
  assert_true(lw__elem_get_f64(LW_DTYPE_F16, out.data, 1) == 4096);
  kit_deinit(&k);

  kit_init(&k);
  lw_shape shape = KIT_SHAPE(3);
  assert_ok(lw__graph_iota(&k.g, LW_DTYPE_I64, &shape, 0, &v));
  assert_ok(lw__interp_fold_node(&k.g, lw__value(&k.g, v)->producer, NULL, &k.arena, &out));
  assert_int_equal(lw__elem_get_i64(LW_DTYPE_I64, out.data, 2), 2);
  kit_deinit(&k);
}

static void chain_graph(kit *k, int64_t count, int length) {
  kit_init(k);
  lw_value_id v = kit_input(k, LW_DTYPE_F32, KIT_SHAPE(count));
  for (int i = 0; i < length; i++) v = kit_map(k, LW_FN_NEG, v, v);
  assert_ok(lw__graph_output(&k->g, v, "y"));
}

static void values_die_after_their_last_use(void **state) {
  (void)state;
  kit k;
  chain_graph(&k, 1000, 200);
  lw_oracle_tensor result;
  assert_ok(lw__interp_run(&k.g, LW_INTERP_IDEAL, k.in, &k.arena, 3 * 24000, &k.diag, &result));
  assert_int_equal(lw__interp_run(&k.g, LW_INTERP_IDEAL, k.in, &k.arena, 30000, &k.diag, &result),
                   LW_STATUS_OUT_OF_MEMORY);
  assert_non_null(strstr(lw__diag_first_error(&k.diag), "30000"));
  kit_deinit(&k);
}

static void every_allocation_may_fail(void **state) {
  (void)state;
  kit k;
  chain_graph(&k, 10, 3);
  lw_status status = LW_STATUS_OUT_OF_MEMORY;
  int failures = 0;
  for (uint64_t at = 1; at < 100 && status != LW_OK; at++) {
    lw_oracle_tensor result;
    lw_arena arena = {0};
    lw__mem_fail_at(at);
    status = lw__interp_run(&k.g, LW_INTERP_IDEAL, k.in, &arena, 0, NULL, &result);
    lw__mem_fail_at(0);
    assert_true(status == LW_OK || status == LW_STATUS_OUT_OF_MEMORY);
    failures += status != LW_OK;
    lw__arena_deinit(&arena);
  }
  assert_int_equal(status, LW_OK);
  assert_true(failures >= 5);
  kit_deinit(&k);
}

static void outputs_may_repeat_and_be_inputs(void **state) {
  (void)state;
  kit k;
  kit_init(&k);
  lw_value_id x = kit_floats(&k, LW_DTYPE_F32, KIT_SHAPE(2), (const double[]){1, 2});
  lw_value_id unused = kit_map(&k, LW_FN_NEG, x, x), y = kit_map(&k, LW_FN_ADD, x, x);
  (void)unused;
  lw_oracle_tensor out[3];
  assert_ok(lw__graph_output(&k.g, x, "a"));
  assert_ok(lw__graph_output(&k.g, y, "b"));
  assert_ok(lw__graph_output(&k.g, y, "c"));
  assert_ok(lw__interp_run(&k.g, LW_INTERP_IDEAL, k.in, &k.arena, 0, &k.diag, out));
  assert_true(out[0].f[1] == 2 && out[1].f[1] == 4 && out[2].f[0] == 2 && out[0].bound[0] == 0);
  kit_deinit(&k);
}

static void empty_extents_and_scalars(void **state) {
  (void)state;
  kit k;
  lw_value_id v;
  kit_init(&k);
  lw_value_id x = kit_input(&k, LW_DTYPE_F32, KIT_SHAPE(3, 0));
  assert_ok(lw__graph_reduce(&k.g, LW_RED_MAX, x, 2, &v));
  kit_run(&k, v);
  assert_true(k.ideal.count == 3 && k.ideal.f[0] == -INFINITY && k.ideal.bound[0] == 0);
  kit_deinit(&k);

  kit_init(&k);
  lw_value_id a = kit_input(&k, LW_DTYPE_F32, KIT_SHAPE(2, 0)),
              b = kit_input(&k, LW_DTYPE_F32, KIT_SHAPE(0, 2));
  assert_ok(lw__graph_dot(&k.g, a, b, &v));
  kit_run(&k, v);
  assert_true(k.ideal.count == 4 && k.ideal.f[3] == 0 && k.ideal.bound[3] == 0);
  kit_deinit(&k);

  kit_init(&k);
  x = kit_floats(&k, LW_DTYPE_F32, lw__shape_of(0, NULL), (const double[]){9});
  kit_run(&k, kit_map(&k, LW_FN_SQRT, x, x));
  assert_true(k.ideal.count == 1 && k.ideal.f[0] == 3);
  kit_deinit(&k);
}

static void bad_input_is_an_error(void **state) {
  (void)state;
  kit k;
  lw_value_id v;
  kit_init(&k);
  lw_value_id table = kit_floats(&k, LW_DTYPE_F32, KIT_SHAPE(3), (const double[]){1, 2, 3});
  lw_value_id ids = kit_ints(&k, LW_DTYPE_I64, KIT_SHAPE(2), (const int64_t[]){0, 3});
  lw_shape result = KIT_SHAPE(2);
  assert_ok(lw__graph_gather(&k.g, table, &ids, 1, (const int8_t[]){0}, &result, &v));
  assert_ok(lw__graph_output(&k.g, v, "y"));
  lw_oracle_tensor out;
  assert_int_equal(lw__interp_run(&k.g, LW_INTERP_IDEAL, k.in, &k.arena, 0, &k.diag, &out),
                   LW_STATUS_MODEL_INVALID);
  assert_non_null(strstr(lw__diag_first_error(&k.diag), "3"));
  k.in[0].dtype = LW_DTYPE_F16;
  assert_int_equal(lw__interp_run(&k.g, LW_INTERP_IDEAL, k.in, &k.arena, 0, &k.diag, &out),
                   LW_STATUS_USAGE);
  kit_deinit(&k);

  kit_init(&k);
  lw_extent symbol;
  assert_ok(lw__extent_symbol(&k.g, "n", &symbol));
  lw_shape open = {1, {symbol}};
  assert_ok(lw__graph_input(&k.g, LW_DTYPE_F32, &open, "x", &v));
  assert_ok(lw__graph_map(&k.g, LW_FN_NEG, &v, &v));
  assert_ok(lw__graph_output(&k.g, v, "y"));
  lw_host_tensor in = {LW_DTYPE_F32, open, NULL};
  assert_int_equal(lw__interp_run(&k.g, LW_INTERP_IDEAL, &in, &k.arena, 0, &k.diag, &out),
                   LW_STATUS_USAGE);
  kit_deinit(&k);
}

int main(void) {
  const struct CMUnitTest tests[] = {
      cmocka_unit_test(compare_reports_the_worst_element),
      cmocka_unit_test(nodes_fold_in_their_declared_types),
      cmocka_unit_test(values_die_after_their_last_use),
      cmocka_unit_test(every_allocation_may_fail),
      cmocka_unit_test(outputs_may_repeat_and_be_inputs),
      cmocka_unit_test(empty_extents_and_scalars),
      cmocka_unit_test(bad_input_is_an_error),
  };
  return cmocka_run_group_tests(tests, NULL, NULL);
}

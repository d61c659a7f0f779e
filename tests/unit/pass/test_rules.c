/* test_rules.c: what texts cannot say well: constants that differ far from their beginning, every
 * rule of the tables, large graphs in linear time, deep graphs without recursion, callbacks, and
 * notes said once. */
#include "pass_kit.h"

static void run_all(lw_graph *g, lw_diag *diag) {
  lw_pass_options options;
  lw__pass_options_init(&options);
  if (lw__pass_run(g, &options, diag) != LW_OK) fail_msg("%s", lw__diag_first_error(diag));
}

static void large_constants_are_compared_in_full(void **state) {
  (void)state;
  enum { COUNT = 5000 };
  static float data[3][COUNT];
  lw_graph g;
  lw_value_id x, c, v;
  lw_shape shape = lw__shape_of(1, (const int64_t[]){COUNT});
  for (int i = 0; i < COUNT; i++) data[0][i] = data[1][i] = data[2][i] = (float)i;
  data[2][COUNT - 1] = 7;
  assert_ok(lw__graph_init(&g, NULL));
  assert_ok(lw__graph_input(&g, LW_DTYPE_F32, &shape, "x", &x));
  for (int i = 0; i < 3; i++) {
    assert_ok(lw__graph_const(&g, LW_DTYPE_F32, &shape, data[i], &c));
    assert_ok(lw__graph_map(&g, LW_FN_MUL, (const lw_value_id[]){x, c}, &v));
    assert_ok(lw__graph_output(&g, v, "y"));
  }
  run_all(&g, NULL);
  assert_true(g.outputs.data[0] == g.outputs.data[1] && g.outputs.data[0] != g.outputs.data[2]);
  lw__graph_deinit(&g);
}

/* Rules are checked when they are read, all of them by every run. Here every function meets them,
 * in every type. */
static void every_function_meets_the_rules(void **state) {
  (void)state;
  static const lw_dtype types[] = {LW_DTYPE_F32, LW_DTYPE_F16, LW_DTYPE_I32, LW_DTYPE_BOOL};
  for (size_t t = 0; t < LW_ARRAY_COUNT(types); t++) {
    for (int fn = 0; fn < LW_FN_COUNT; fn++) {
      bool select = lw__fn_info[fn].domain == LW_DOMAIN_SELECT;
      if (fn == LW_FN_CAST || lw__fn_result_type((lw_fn)fn, types[t]) == LW_DTYPE_NONE) continue;
      lw_graph g;
      lw_value_id in[3], v;
      lw_diag diag = {0};
      lw_shape shape = lw__shape_of(1, (const int64_t[]){3});
      assert_ok(lw__graph_init(&g, &diag));
      for (int i = 0; i < 3; i++) {
        assert_ok(
            lw__graph_input(&g, select && i == 0 ? LW_DTYPE_BOOL : types[t], &shape, NULL, &in[i]));
      }
      assert_ok(lw__graph_map(&g, (lw_fn)fn, in, &v));
      assert_ok(lw__graph_output(&g, v, "y"));
      run_all(&g, &diag);
      lw__graph_deinit(&g);
      lw__diag_deinit(&diag);
    }
  }
}

/* A chain of |length| nodes, each of which some rule replaces. */
static int64_t time_chain(int length) {
  lw_graph g;
  lw_value_id v;
  lw_shape shape = lw__shape_of(1, (const int64_t[]){4});
  assert_ok(lw__graph_init(&g, NULL));
  assert_ok(lw__graph_input(&g, LW_DTYPE_F32, &shape, "x", &v));
  for (int i = 0; i < length; i++) {
    assert_ok(lw__graph_map(&g, i % 3 == 0 ? LW_FN_NEG : LW_FN_TANH, &v, &v));
    if (i % 3 == 0) assert_ok(lw__graph_map(&g, LW_FN_NEG, &v, &v));
  }
  assert_ok(lw__graph_output(&g, v, "y"));
  int64_t begin = lw__now_ns();
  run_all(&g, NULL);
  int64_t took = lw__now_ns() - begin;
  assert_int_equal(g.nodes.count, 1 + length - (length + 2) / 3);
  lw__graph_deinit(&g);
  return took;
}

static void large_graphs_take_linear_time(void **state) {
  (void)state;
  int64_t small = time_chain(3000), large = time_chain(60000);
  print_message("4000 nodes %.1f ms, 80000 nodes %.1f ms\n", (double)small * 1e-6,
                (double)large * 1e-6);
  assert_true(large < small * 20 * 6 + 200000000);
}

/* Movements that nothing merges: walks through them must be short. */
static int64_t time_movements(int length) {
  lw_graph g;
  lw_value_id v, sum;
  lw_shape square = lw__shape_of(2, (const int64_t[]){6, 4});
  assert_ok(lw__graph_init(&g, NULL));
  assert_ok(lw__graph_input(&g, LW_DTYPE_F32, &square, "x", &v));
  for (int i = 0; i < length; i++) {
    assert_ok(lw__graph_permute(&g, v, (const uint8_t[]){1, 0}, &v));
    assert_ok(lw__graph_reshape(&g, v, &square, &v));
    assert_ok(lw__graph_map(&g, LW_FN_ADD, (const lw_value_id[]){v, v}, &sum));
    if (i % 1000 == 0) v = sum;
  }
  assert_ok(lw__graph_output(&g, v, "y"));
  int64_t begin = lw__now_ns();
  run_all(&g, NULL);
  int64_t took = lw__now_ns() - begin;
  lw__graph_deinit(&g);
  return took;
}

static void long_chains_of_movements_take_linear_time(void **state) {
  (void)state;
  int64_t small = time_movements(4000), large = time_movements(16000);
  print_message("8000 movements %.1f ms, 32000 movements %.1f ms\n", (double)small * 1e-6,
                (double)large * 1e-6);
  assert_true(large < small * 4 * 4 + 200000000);
}

static lw_status count_calls(void *context, const char *pass, uint32_t round,
                             const lw_graph *graph) {
  (void)round;
  assert_true(graph->nodes.count > 0);
  ((uint32_t *)context)[strcmp(pass, "canon") == 0] += 1;
  return LW_OK;
}

static lw_status refuse(void *context, const char *pass, uint32_t round, const lw_graph *graph) {
  (void)context;
  (void)round;
  (void)graph;
  return strcmp(pass, "move") == 0 ? LW_STATUS_IO : LW_OK;
}

static void callbacks_see_every_pass(void **state) {
  (void)state;
  uint32_t calls[2] = {0};
  lw_pass_options options;
  lw_diag diag = {0};
  lw_graph g;
  lw__pass_options_init(&options);
  options.after = count_calls;
  options.context = calls;
  kit_parse("%x = input f32[3]\n%1 = map.neg f32[3] %x\n%2 = map.neg f32[3] %1\noutput y %2\n",
            &diag, &g);
  assert_ok(lw__pass_run(&g, &options, &diag));
  assert_true(calls[1] >= 2 && calls[0] + calls[1] >= lw__pass_count);
  options.after = refuse;
  assert_int_equal(lw__pass_run(&g, &options, &diag), LW_STATUS_IO);
  bool changed;
  assert_int_equal(lw__pass_run_one(&g, "none", &options, &diag, &changed), LW_STATUS_NOT_FOUND);
  lw__graph_deinit(&g);
  lw__diag_deinit(&diag);
}

static void notes_are_said_once(void **state) {
  (void)state;
  lw_diag diag = {0};
  lw_graph g;
  kit_parse(
      "%x = input f32[1, 2, 3, 3]\n%w = input f32[2, 2, 1, 1]\n%s = const f32[1, 2, 1, 1] {2, 3}\n"
      "%3 = conv f32[1, 2, 3, 3] %x, %w  ; conv\n%4 = expand f32[1, 2, 3, 3] %s\n"
      "%5 = map.mul f32[1, 2, 3, 3] %3, %4  ; bn\n%6 = map.neg f32[1, 2, 3, 3] %5\n%7 = map.neg "
      "f32[1, 2, 3, 3] %6\n"
      "output y %7\n",
      &diag, &g);
  run_all(&g, &diag);
  run_all(&g, &diag);
  assert_int_equal(diag.messages.count, 1);
  assert_string_equal(diag.messages.data[0].where, "bn");
  lw__graph_deinit(&g);
  lw__diag_deinit(&diag);
}

static void symbols_stay_symbols(void **state) {
  (void)state;
  lw_diag diag = {0};
  lw_graph g;
  lw_text out = {0};
  kit_parse(
      "%x = input f32[n, 4]\n%1 = permute f32[4, n] %x perm=[1, 0]\n%2 = map.tanh f32[4, n] %1\n"
      "%3 = permute f32[n, 4] %2 perm=[1, 0]\n%4 = reshape f32[n, 1, 4] %3\n%5 = const f32[1, 1, "
      "4] {1, 2, 3, 4}\n"
      "%6 = expand f32[n, 1, 4] %5\n%7 = map.add f32[n, 1, 4] %4, %6\noutput y %7\n",
      &diag, &g);
  run_all(&g, &diag);
  kit_print(&g, &out);
  assert_null(strstr(lw__text_str(&out), "permute"));
  assert_non_null(strstr(lw__text_str(&out), "[n, "));
  lw__graph_deinit(&g);
  lw__diag_deinit(&diag);
  lw__text_deinit(&out);
}

int main(void) {
  const struct CMUnitTest tests[] = {
      cmocka_unit_test(large_constants_are_compared_in_full),
      cmocka_unit_test(every_function_meets_the_rules),
      cmocka_unit_test(large_graphs_take_linear_time),
      cmocka_unit_test(long_chains_of_movements_take_linear_time),
      cmocka_unit_test(callbacks_see_every_pass),
      cmocka_unit_test(notes_are_said_once),
      cmocka_unit_test(symbols_stay_symbols),
  };
  return cmocka_run_group_tests(tests, NULL, NULL);
}

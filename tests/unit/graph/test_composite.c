/* test_composite.c: the one spelling of each composite, node by node, and what it computes against
 * the textbook formula in doubles. */
#include <math.h>

#include "graph_kit.h"

#include "graph/interp.h"

static void assert_spelled(kit *k, lw_value_id out, const char *expected) {
  OK(k, lw__graph_output(&k->g, out, "y"));
  OK(k, lw__graph_verify(&k->g, &k->diag));
  OK(k, lw__graph_compact(&k->g));
  assert_string_equal(kit_print(k, false), expected);
}

static void test_softmax(void **state) {
  (void)state;
  kit k;
  kit_open(&k);
  lw_value_id x = INPUT(&k, F32, 2, kit_symbol(&k, "n")), y = LW_NONE;
  OK(&k, lw__graph_softmax(&k.g, x, 2, false, &y));
  assert_spelled(&k, y,
                 "%in0 = input f32[2, n]\n"
                 "%1 = reduce.max f32[2] %in0 axes=[1]\n"
                 "%2 = reshape f32[2, 1] %1\n"
                 "%3 = expand f32[2, n] %2\n"
                 "%4 = map.sub f32[2, n] %in0, %3\n"
                 "%5 = map.exp f32[2, n] %4\n"
                 "%6 = reduce.sum f32[2] %5 axes=[1]\n"
                 "%7 = reshape f32[2, 1] %6\n"
                 "%8 = expand f32[2, n] %7\n"
                 "%9 = map.div f32[2, n] %5, %8\n"
                 "output y %9\n");
  kit_close(&k);
}

static void test_log_softmax(void **state) {
  (void)state;
  kit k;
  kit_open(&k);
  lw_value_id x = INPUT(&k, F16, 3, 2), y = LW_NONE;
  OK(&k, lw__graph_softmax(&k.g, x, 1, true, &y));
  assert_spelled(&k, y,
                 "%in0 = input f16[3, 2]\n"
                 "%1 = map.cast f32[3, 2] %in0\n"
                 "%2 = reduce.max f32[2] %1 axes=[0]\n"
                 "%3 = reshape f32[1, 2] %2\n"
                 "%4 = expand f32[3, 2] %3\n"
                 "%5 = map.sub f32[3, 2] %1, %4\n"
                 "%6 = map.exp f32[3, 2] %5\n"
                 "%7 = reduce.sum f32[2] %6 axes=[0]\n"
                 "%8 = reshape f32[1, 2] %7\n"
                 "%9 = map.log f32[1, 2] %8\n"
                 "%10 = expand f32[3, 2] %9\n"
                 "%11 = map.sub f32[3, 2] %5, %10\n"
                 "%12 = map.cast f16[3, 2] %11\n"
                 "output y %12\n");
  kit_close(&k);
}

static void test_mean(void **state) {
  (void)state;
  kit k;
  kit_open(&k);
  lw_extent n = kit_symbol(&k, "n");
  lw_value_id x = INPUT(&k, BF16, n, 4), y = LW_NONE, z = LW_NONE;
  FAILS(&k, LW_STATUS_UNSUPPORTED, "[n]", lw__graph_mean(&k.g, x, 1, true, &y));
  OK(&k, lw__graph_mean(&k.g, x, 2, true, &z));
  TYPE(&k, z, "bf16[n, 1]");
  OK(&k, lw__graph_mean(&k.g, x, 2, false, &y));
  assert_spelled(&k, y,
                 "%in0 = input bf16[n, 4]\n"
                 "%1 = map.cast f32[n, 4] %in0\n"
                 "%2 = reduce.sum f32[n] %1 axes=[1]\n"
                 "%3 = const f32[] {4}\n"
                 "%4 = reshape f32[1] %3\n"
                 "%5 = expand f32[n] %4\n"
                 "%6 = map.div f32[n] %2, %5\n"
                 "%7 = map.cast bf16[n] %6\n"
                 "output y %7\n");
  OK(&k, lw__graph_mean(&k.g, INPUT(&k, F32, 0), 1, false, &y)); /* 0 / 0 */
  kit_close(&k);
}

static void test_layer_norm(void **state) {
  (void)state;
  kit k;
  kit_open(&k);
  lw_value_id x = INPUT(&k, F32, 2, 8), scale = INPUT(&k, F32, 8), bias = INPUT(&k, F32, 8),
              y = LW_NONE;
  lw_value_id mean = LW_NONE, rstd = LW_NONE;
  OK(&k, lw__graph_layer_norm(&k.g, x, 2, 0.5, scale, bias, &y, &mean, &rstd));
  TYPE(&k, mean, "f32[2, 1]");
  TYPE(&k, rstd, "f32[2, 1]");
  assert_spelled(&k, y,
                 "%in0 = input f32[2, 8]\n"
                 "%in1 = input f32[8]\n"
                 "%in2 = input f32[8]\n"
                 "%3 = reduce.sum f32[2] %in0 axes=[1]\n"
                 "%4 = const f32[] {8}\n"
                 "%5 = reshape f32[1] %4\n"
                 "%6 = expand f32[2] %5\n"
                 "%7 = map.div f32[2] %3, %6\n"
                 "%8 = reshape f32[2, 1] %7\n"
                 "%9 = expand f32[2, 8] %8\n"
                 "%10 = map.sub f32[2, 8] %in0, %9\n"
                 "%11 = map.mul f32[2, 8] %10, %10\n"
                 "%12 = reduce.sum f32[2] %11 axes=[1]\n"
                 "%13 = const f32[] {8}\n"
                 "%14 = reshape f32[1] %13\n"
                 "%15 = expand f32[2] %14\n"
                 "%16 = map.div f32[2] %12, %15\n"
                 "%17 = reshape f32[2, 1] %16\n"
                 "%18 = const f32[] {0.5}\n"
                 "%19 = reshape f32[1, 1] %18\n"
                 "%20 = expand f32[2, 1] %19\n"
                 "%21 = map.add f32[2, 1] %17, %20\n"
                 "%22 = map.rsqrt f32[2, 1] %21\n"
                 "%23 = expand f32[2, 8] %22\n"
                 "%24 = map.mul f32[2, 8] %10, %23\n"
                 "%25 = reshape f32[1, 8] %in1\n"
                 "%26 = expand f32[2, 8] %25\n"
                 "%27 = map.mul f32[2, 8] %24, %26\n"
                 "%28 = reshape f32[1, 8] %in2\n"
                 "%29 = expand f32[2, 8] %28\n"
                 "%30 = map.add f32[2, 8] %27, %29\n"
                 "output y %30\n");
  kit_close(&k);
}

static void test_layer_norm_options(void **state) {
  (void)state;
  kit k;
  kit_open(&k);
  lw_value_id x = INPUT(&k, F16, 2, 8), scale = INPUT(&k, F16, 8), wide = INPUT(&k, F32, 3, 2, 8),
              y = LW_NONE, mean = LW_NONE;
  OK(&k, lw__graph_layer_norm(&k.g, x, 2, 1e-5, scale, LW_NONE, &y, &mean, NULL));
  TYPE(&k, y, "f16[2, 8]");
  TYPE(&k, mean, "f32[2, 1]"); /* in the type of the computation */
  FAILS(&k, LW_STATUS_MODEL_INVALID, "3 dimensions to 2",
        lw__graph_layer_norm(&k.g, x, 2, 1e-5, wide, LW_NONE, &y, NULL, NULL));
  FAILS(&k, LW_STATUS_MODEL_INVALID, "not defined for i32",
        lw__graph_layer_norm(&k.g, INPUT(&k, I32, 4), 1, 1, LW_NONE, LW_NONE, &y, NULL, NULL));
  FAILS(&k, LW_STATUS_INTERNAL, "no value",
        lw__graph_layer_norm(&k.g, 99, 2, 1e-5, scale, LW_NONE, &y, NULL, NULL));
  kit_close(&k);
}

static void test_gelu(void **state) {
  (void)state;
  kit k;
  kit_open(&k);
  lw_value_id x = kit_input_of(&k, LW_DTYPE_F32, (lw_shape){0}), y = LW_NONE;
  OK(&k, lw__graph_gelu(&k.g, x, false, &y));
  assert_spelled(&k, y,
                 "%in0 = input f32[]\n"
                 "%1 = const f32[] {0.5}\n"
                 "%2 = map.mul f32[] %in0, %1\n"
                 "%3 = const f32[] {0.707106769}\n"
                 "%4 = map.mul f32[] %in0, %3\n"
                 "%5 = map.erf f32[] %4\n"
                 "%6 = const f32[] {1}\n"
                 "%7 = map.add f32[] %5, %6\n"
                 "%8 = map.mul f32[] %2, %7\n"
                 "output y %8\n");
  kit_close(&k);
}

static void test_gelu_tanh(void **state) {
  (void)state;
  kit k;
  kit_open(&k);
  lw_value_id x = kit_input_of(&k, LW_DTYPE_F16, (lw_shape){0}), y = LW_NONE;
  OK(&k, lw__graph_gelu(&k.g, x, true, &y));
  assert_spelled(&k, y,
                 "%in0 = input f16[]\n"
                 "%1 = map.cast f32[] %in0\n"
                 "%2 = const f32[] {0.5}\n"
                 "%3 = map.mul f32[] %1, %2\n"
                 "%4 = map.mul f32[] %1, %1\n"
                 "%5 = map.mul f32[] %4, %1\n"
                 "%6 = const f32[] {0.044715}\n"
                 "%7 = map.mul f32[] %5, %6\n"
                 "%8 = map.add f32[] %1, %7\n"
                 "%9 = const f32[] {0.797884583}\n"
                 "%10 = map.mul f32[] %8, %9\n"
                 "%11 = map.tanh f32[] %10\n"
                 "%12 = const f32[] {1}\n"
                 "%13 = map.add f32[] %11, %12\n"
                 "%14 = map.mul f32[] %3, %13\n"
                 "%15 = map.cast f16[] %14\n"
                 "output y %15\n");
  kit_close(&k);
}

static void test_relu(void **state) {
  (void)state;
  kit k;
  kit_open(&k);
  lw_value_id x = INPUT(&k, I8, 3), y = LW_NONE;
  OK(&k, lw__graph_relu(&k.g, x, &y));
  assert_spelled(
      &k, y,
      "%in0 = input i8[3]\n%1 = const i8[] {0}\n%2 = reshape i8[1] %1\n%3 = expand i8[3] %2\n"
      "%4 = map.max i8[3] %in0, %3\noutput y %4\n");
  kit_close(&k);
}

enum { rows = 3, columns = 5 };

/* Fills |x|, makes |y| of the graph's only input with |build| and compares it with |expected|. */
static void assert_computes(lw_status (*build)(lw_graph *g, lw_value_id x, lw_value_id *y),
                            void (*expected)(const double *row, double *out)) {
  kit k;
  lw_arena arena = {0};
  lw_oracle_tensor result = {0};
  float x[rows * columns];
  double row[columns], want[columns];
  kit_open(&k);
  lw_value_id in = INPUT(&k, F32, rows, columns), y = LW_NONE;
  for (int i = 0; i < rows * columns; i++) x[i] = (float)((i * 37) % 19) * 0.375f - 3.0f;
  OK(&k, build(&k.g, in, &y));
  OK(&k, lw__graph_output(&k.g, y, "y"));
  lw_host_tensor input = {LW_DTYPE_F32, SHAPE(rows, columns), x};
  OK(&k, lw__interp_run(&k.g, LW_INTERP_IDEAL, &input, &arena, 0, &k.diag, &result));
  assert_int_equal(result.count, rows * columns);
  for (int r = 0; r < rows; r++) {
    for (int c = 0; c < columns; c++) row[c] = (double)x[r * columns + c];
    expected(row, want);
    for (int c = 0; c < columns; c++) {
      assert_true(fabs(result.f[r * columns + c] - want[c]) < 2e-7); /* constants are f32 */
    }
  }
  lw__arena_deinit(&arena);
  kit_close(&k);
}

static lw_status build_log_softmax(lw_graph *g, lw_value_id x, lw_value_id *y) {
  return lw__graph_softmax(g, x, 2, true, y);
}
static void expected_log_softmax(const double *row, double *out) {
  double sum = 0;
  for (int c = 0; c < columns; c++) sum += exp(row[c]);
  for (int c = 0; c < columns; c++) out[c] = row[c] - log(sum);
}

static lw_status build_softmax(lw_graph *g, lw_value_id x, lw_value_id *y) {
  return lw__graph_softmax(g, x, 2, false, y);
}
static void expected_softmax(const double *row, double *out) {
  expected_log_softmax(row, out);
  for (int c = 0; c < columns; c++) out[c] = exp(out[c]);
}

static lw_status build_layer_norm(lw_graph *g, lw_value_id x, lw_value_id *y) {
  float scale[columns] = {1, 2, -1, 0.5f, 0}, bias[columns] = {0, 1, 2, 3, 4};
  lw_shape shape = SHAPE(columns);
  lw_value_id s = LW_NONE, b = LW_NONE;
  LW_TRY(lw__graph_const_copy(g, LW_DTYPE_F32, &shape, scale, &s));
  LW_TRY(lw__graph_const_copy(g, LW_DTYPE_F32, &shape, bias, &b));
  return lw__graph_layer_norm(g, x, 2, 0.25, s, b, y, NULL, NULL);
}
static void expected_layer_norm(const double *row, double *out) {
  const double scale[columns] = {1, 2, -1, 0.5, 0};
  double mean = 0, variance = 0;
  for (int c = 0; c < columns; c++) mean += row[c] / columns;
  for (int c = 0; c < columns; c++) variance += (row[c] - mean) * (row[c] - mean) / columns;
  for (int c = 0; c < columns; c++) {
    out[c] = (row[c] - mean) / sqrt(variance + 0.25) * scale[c] + c;
  }
}

static lw_status build_gelu(lw_graph *g, lw_value_id x, lw_value_id *y) {
  return lw__graph_gelu(g, x, false, y);
}
static void expected_gelu(const double *row, double *out) {
  for (int c = 0; c < columns; c++) out[c] = 0.5 * row[c] * erfc(-row[c] / sqrt(2));
}

static lw_status build_gelu_tanh(lw_graph *g, lw_value_id x, lw_value_id *y) {
  return lw__graph_gelu(g, x, true, y);
}
static void expected_gelu_tanh(const double *row, double *out) {
  const double root = 2 / sqrt(acos(-1) * 2); /* sqrt(2/pi) */
  for (int c = 0; c < columns; c++) {
    double x = row[c];
    out[c] = 0.5 * x * (1 + tanh(root * (x + 0.044715 * x * x * x)));
  }
}

static lw_status build_mean(lw_graph *g, lw_value_id x, lw_value_id *y) {
  lw_shape shape = lw__value(g, x)->shape;
  LW_TRY(lw__graph_mean(g, x, 2, true, y));
  return lw__graph_broadcast(g, *y, &shape, y);
}
static void expected_mean(const double *row, double *out) {
  double mean = 0;
  for (int c = 0; c < columns; c++) mean += row[c] / columns;
  for (int c = 0; c < columns; c++) out[c] = mean;
}

static void test_results(void **state) {
  (void)state;
  assert_computes(build_softmax, expected_softmax);
  assert_computes(build_log_softmax, expected_log_softmax);
  assert_computes(build_layer_norm, expected_layer_norm);
  assert_computes(build_gelu, expected_gelu);
  assert_computes(build_gelu_tanh, expected_gelu_tanh);
  assert_computes(build_mean, expected_mean);
}

int main(void) {
  const struct CMUnitTest tests[] = {
      cmocka_unit_test(test_softmax),
      cmocka_unit_test(test_log_softmax),
      cmocka_unit_test(test_mean),
      cmocka_unit_test(test_layer_norm),
      cmocka_unit_test(test_layer_norm_options),
      cmocka_unit_test(test_gelu),
      cmocka_unit_test(test_gelu_tanh),
      cmocka_unit_test(test_relu),
      cmocka_unit_test(test_results),
  };
  return cmocka_run_group_tests(tests, NULL, NULL);
}

/* The public API as a program uses it: graphs by hand, models, contexts, and every wrong use. */
#include <math.h>
#include <pthread.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include <cmocka.h>
#include <jansson.h>
#include <lawson/tools.h>

#include "base/base.h"

enum { ROWS = 3, WIDTH = 8, COUNT = ROWS * WIDTH };
static const int64_t matrix[2] = {ROWS, WIDTH};

static lw_options *options_of(const char *device) {
  lw_options *o = NULL;
  assert_int_equal(lw_options_create(&o), LW_OK);
  assert_int_equal(lw_options_set(o, "device", device), LW_OK);
  const char *path = getenv("PATH");
  assert_int_equal(lw_options_set(o, "path", path != NULL ? path : ""), LW_OK);
  return o;
}

/* sum = a + b; y = softmax(relu(sum)) */
static lw_graph *graph_of(void) {
  lw_graph *g = NULL;
  uint32_t operands[2], sum, positive, y;
  assert_int_equal(lw_graph_create(&g), LW_OK);
  assert_int_equal(lw_graph_add_input(g, "a", LW_DTYPE_F32, 2, matrix, &operands[0]), LW_OK);
  assert_int_equal(lw_graph_add_input(g, "b", LW_DTYPE_F32, 2, matrix, &operands[1]), LW_OK);
  assert_int_equal(lw_graph_add_map(g, "add", operands, 2, &sum), LW_OK);
  assert_int_equal(lw_graph_add_relu(g, sum, &positive), LW_OK);
  assert_int_equal(lw_graph_add_softmax(g, positive, -1, &y), LW_OK);
  assert_int_equal(lw_graph_add_output(g, sum, "sum"), LW_OK);
  assert_int_equal(lw_graph_add_output(g, y, "y"), LW_OK);
  return g;
}

static lw_model *model_of(const char *device) {
  lw_graph *g = graph_of();
  lw_options *o = options_of(device);
  lw_model *m = NULL;
  lw_status status = lw_model_compile(g, o, &m);
  if (status != LW_OK) fail_msg("%s", lw_model_error(m));
  lw_graph_destroy(g);
  lw_options_destroy(o);
  return m;
}

static lw_tensor tensor_of(float *data) {
  return (lw_tensor){.data = data, .dtype = LW_DTYPE_F32, .rank = 2, .dims = matrix};
}

static void bind(lw_context *c, float *a, float *b, float *sum, float *y) {
  float *data[4] = {a, b, sum, y};
  for (size_t i = 0; i < 4; i++) {
    const lw_tensor t = tensor_of(data[i]);
    lw_status status =
        i < 2 ? lw_context_bind_input(c, i, &t) : lw_context_bind_output(c, i - 2, &t);
    assert_int_equal(status, LW_OK);
  }
}

static void fill(float *data, float scale) {
  for (int i = 0; i < COUNT; i++) data[i] = scale * (float)(i % 5 - 2);
}

static void check(const float *a, const float *b, const float *sum, const float *y) {
  for (int r = 0; r < ROWS; r++) {
    double total = 0, e[WIDTH];
    for (int i = 0; i < WIDTH; i++) {
      float s = a[r * WIDTH + i] + b[r * WIDTH + i];
      assert_true(sum[r * WIDTH + i] == s);
      total += e[i] = exp(s > 0 ? (double)s : 0);
    }
    for (int i = 0; i < WIDTH; i++) {
      assert_true(fabs((double)y[r * WIDTH + i] - e[i] / total) < 1e-6);
    }
  }
}

/* ---- running ----- */

static void runs_a_graph_made_by_hand(void **state) {
  (void)state;
  lw_model *m = model_of("cpu");
  assert_int_equal(lw_model_input_count(m), 2);
  assert_int_equal(lw_model_output_count(m), 2);
  assert_string_equal(lw_model_input(m, 1)->name, "b");
  assert_string_equal(lw_model_output(m, 1)->name, "y");
  assert_int_equal(lw_model_output(m, 1)->dims[1], WIDTH);
  assert_null(lw_model_output(m, 2));
  assert_string_equal(lw_model_device(m), "cpu");
  lw_context *c = NULL;
  assert_int_equal(lw_context_create(m, &c), LW_OK);
  lw_model_destroy(m); /* the context keeps what it needs */
  float a[COUNT], b[COUNT], sum[COUNT], y[COUNT];
  fill(a, 1);
  fill(b, -0.5f);
  bind(c, a, b, sum, y);
  for (int round = 0; round < 3; round++) {
    fill(a, (float)round);
    assert_int_equal(round == 1 ? lw_context_enqueue(c, NULL) : lw_context_run(c), LW_OK);
    check(a, b, sum, y);
  }
  lw_stats stats;
  lw_context_stats(c, &stats);
  assert_int_equal(stats.kernels, 1);
  assert_int_equal(stats.staging_copies, 0);
  assert_true(stats.compile_s > 0);
  lw_context_destroy(c);
}

static void strides_go_through_copies(void **state) {
  (void)state;
  lw_model *m = model_of("cpu");
  lw_context *c = NULL;
  assert_int_equal(lw_context_create(m, &c), LW_OK);
  float a[COUNT], a_columns[COUNT], b[COUNT], sum[2 * COUNT], y[COUNT], packed[COUNT];
  fill(a, 1);
  fill(b, 2);
  bind(c, a, b, packed, y);
  for (int r = 0; r < ROWS; r++) {
    for (int i = 0; i < WIDTH; i++) a_columns[i * ROWS + r] = a[r * WIDTH + i];
  }
  for (int i = 0; i < 2 * COUNT; i++) sum[i] = -99;
  const int64_t columns[2] = {1, ROWS}, gaps[2] = {-2 * WIDTH, 2};
  lw_tensor t = tensor_of(a_columns);
  t.strides = columns;
  assert_int_equal(lw_context_bind_input(c, 0, &t), LW_OK);
  t = tensor_of(sum + 2 * WIDTH * (ROWS - 1)); /* rows upside down, every other element */
  t.strides = gaps;
  assert_int_equal(lw_context_bind_output(c, 0, &t), LW_OK);
  assert_int_equal(lw_context_run(c), LW_OK);
  for (int r = 0; r < ROWS; r++) {
    for (int i = 0; i < WIDTH; i++) {
      const float *at = sum + 2 * WIDTH * (ROWS - 1 - r) + 2 * i;
      packed[r * WIDTH + i] = at[0];
      assert_true(at[1] == -99);
    }
  }
  check(a, b, packed, y);
  lw_stats stats;
  lw_context_stats(c, &stats);
  assert_int_equal(stats.staging_copies, 2);
  bind(c, a, b, packed, y); /* and back */
  assert_int_equal(lw_context_run(c), LW_OK);
  lw_context_stats(c, &stats);
  assert_int_equal(stats.staging_copies, 0);
  lw_context_destroy(c);
  lw_model_destroy(m);
}

typedef struct runner {
  lw_model *model;
  float scale;
} runner;

static void *run_many(void *data) {
  const runner *r = data;
  lw_context *c = NULL;
  if (lw_context_create(r->model, &c) != LW_OK) return (void *)"create";
  static const char *bad = "run";
  float a[COUNT], b[COUNT], sum[COUNT], y[COUNT];
  fill(a, r->scale);
  fill(b, 1);
  float *data4[4] = {a, b, sum, y};
  for (size_t i = 0; i < 4; i++) {
    const lw_tensor t = tensor_of(data4[i]);
    lw_status status =
        i < 2 ? lw_context_bind_input(c, i, &t) : lw_context_bind_output(c, i - 2, &t);
    if (status != LW_OK) return (void *)"bind";
  }
  const char *result = NULL;
  for (int n = 0; n < 200 && result == NULL; n++) {
    memset(sum, 0xff, sizeof sum);
    if (lw_context_run(c) != LW_OK) result = bad;
    for (int i = 0; i < COUNT && result == NULL; i++) {
      if (!(sum[i] == a[i] + b[i])) result = "wrong";
    }
  }
  lw_context_destroy(c);
  return (void *)(uintptr_t)result;
}

static void contexts_run_at_the_same_time(void **state) {
  (void)state;
  lw_model *m = model_of("cpu");
  runner runners[4];
  pthread_t threads[4];
  for (int i = 0; i < 4; i++) {
    runners[i] = (runner){m, (float)(i + 1)};
    assert_int_equal(pthread_create(&threads[i], NULL, run_many, &runners[i]), 0);
  }
  for (int i = 0; i < 4; i++) {
    void *result;
    assert_int_equal(pthread_join(threads[i], &result), 0);
    if (result != NULL) fail_msg("thread %d: %s", i, (const char *)result);
  }
  lw_model_destroy(m);
}

static void reports_are_json(void **state) {
  (void)state;
  lw_model *m = model_of("null");
  const char *text = NULL, *again = NULL;
  assert_int_equal(lw_model_explain(m, &text), LW_OK);
  json_t *root = json_loads(text, 0, NULL);
  assert_non_null(root);
  assert_string_equal(json_string_value(json_object_get(root, "schema")), "lawson-explain-1");
  json_decref(root);
  assert_int_equal(lw_model_explain(m, &again), LW_OK);
  assert_ptr_equal(text, again);
  assert_int_equal(lw_model_dump(m, "passes", &text), LW_STATUS_NOT_FOUND);
  lw_model_destroy(m);
}

/* ---- wrong uses ----- */

static void wrong_tensors_are_usage_errors(void **state) {
  (void)state;
  lw_model *m = model_of("cpu");
  lw_context *c = NULL;
  assert_int_equal(lw_context_create(m, &c), LW_OK);
  float a[COUNT] = {0};
  const lw_tensor good = tensor_of(a);
  const int64_t other[2] = {ROWS, WIDTH + 1}, zero[2] = {0, 1}, far[2] = {INT64_MAX, 1};
  lw_tensor bad[8];
  for (size_t i = 0; i < LW_ARRAY_COUNT(bad); i++) bad[i] = good;
  bad[0].dtype = LW_DTYPE_F16;
  bad[1].rank = 1;
  bad[2].rank = 99;
  bad[3].rank = -1;
  bad[4].dims = other;
  bad[5].dims = NULL;
  bad[6].data = NULL;
  bad[7].memory = (lw_memory)7;
  for (size_t i = 0; i < LW_ARRAY_COUNT(bad); i++) {
    assert_int_equal(lw_context_bind_input(c, 0, &bad[i]), LW_STATUS_USAGE);
    assert_non_null(strstr(lw_context_error(c), "'a'"));
    assert_int_equal(lw_context_bind_output(c, 1, &bad[i]), LW_STATUS_USAGE);
    assert_non_null(strstr(lw_context_error(c), "'y'"));
  }
  lw_tensor strided = good;
  strided.strides = far;
  assert_int_equal(lw_context_bind_input(c, 0, &strided), LW_STATUS_USAGE);
  strided.strides = zero;
  assert_int_equal(lw_context_bind_input(c, 0, &strided), LW_OK); /* a broadcast may be read */
  assert_int_equal(lw_context_bind_output(c, 0, &strided), LW_STATUS_USAGE);
  assert_int_equal(lw_context_bind_input(c, 2, &good), LW_STATUS_USAGE);
  assert_int_equal(lw_context_bind_input(c, 0, NULL), LW_STATUS_USAGE);
  assert_int_equal(lw_context_run(c), LW_STATUS_USAGE);
  assert_true(strlen(lw_context_error(c)) > 0);
  lw_context_destroy(c);
  lw_model_destroy(m);
}

static void null_arguments_are_usage_errors(void **state) {
  (void)state;
  lw_model *m = NULL;
  lw_context *c = NULL;
  const char *text;
  lw_graph *g = NULL;
  uint32_t v;
  assert_int_equal(lw_model_load(NULL, NULL, &m), LW_STATUS_USAGE);
  assert_true(strlen(lw_model_error(m)) > 0);
  assert_int_equal(lw_context_create(m, &c), LW_STATUS_USAGE);
  assert_true(strlen(lw_context_error(c)) > 0);
  const lw_tensor t = {0};
  assert_int_equal(lw_context_bind_input(c, 0, &t), LW_STATUS_USAGE);
  assert_int_equal(lw_context_run(c), LW_STATUS_USAGE);
  assert_int_equal(lw_context_enqueue(c, NULL), LW_STATUS_USAGE);
  lw_context_destroy(c);
  assert_int_equal(lw_model_explain(m, &text), LW_STATUS_USAGE);
  lw_model_destroy(m);
  assert_int_equal(lw_model_load("x", NULL, NULL), LW_STATUS_USAGE);
  assert_int_equal(lw_model_compile(NULL, NULL, &m), LW_STATUS_USAGE);
  lw_model_destroy(m);
  assert_int_equal(lw_context_create(NULL, &c), LW_STATUS_USAGE);
  assert_int_equal(lw_context_run(NULL), LW_STATUS_USAGE);
  assert_int_equal(lw_context_enqueue(NULL, NULL), LW_STATUS_USAGE);
  assert_int_equal(lw_context_bind_input(NULL, 0, &t), LW_STATUS_USAGE);
  assert_int_equal(lw_graph_create(NULL), LW_STATUS_USAGE);
  assert_int_equal(lw_graph_add_relu(NULL, 0, &v), LW_STATUS_USAGE);
  assert_int_equal(lw_graph_create(&g), LW_OK);
  assert_int_equal(lw_graph_add_relu(g, 0, NULL), LW_STATUS_USAGE);
  assert_int_equal(lw_graph_add_input(g, "x", LW_DTYPE_F32, 1, NULL, &v), LW_STATUS_USAGE);
  assert_int_equal(lw_graph_add_constant(g, LW_DTYPE_F32, 2, matrix, NULL, &v), LW_STATUS_USAGE);
  assert_int_equal(lw_graph_add_map(g, NULL, NULL, 0, &v), LW_STATUS_USAGE);
  assert_int_equal(lw_graph_add_reduce(g, NULL, 0, NULL, 0, 0, &v), LW_STATUS_USAGE);
  lw_graph_destroy(g);
  lw_context_destroy(NULL);
  lw_model_destroy(NULL);
  lw_graph_destroy(NULL);
  lw_context_stats(NULL, NULL);
  assert_int_equal(lw_model_input_count(NULL), 0);
  assert_null(lw_model_message(NULL, 0));
}

static void wrong_graphs_explain_themselves(void **state) {
  (void)state;
  lw_graph *g = NULL;
  uint32_t a, b, scalar, out;
  const int64_t other[2] = {4, 5}, negative[1] = {-1}, huge[2] = {INT64_MAX / 2, 8};
  const int twice[2] = {0, 0}, minus[2] = {0, -2};
  assert_int_equal(lw_graph_create(&g), LW_OK);
  assert_int_equal(lw_graph_add_input(g, "a", LW_DTYPE_F32, 2, matrix, &a), LW_OK);
  assert_int_equal(lw_graph_add_input(g, "b", LW_DTYPE_F32, 2, other, &b), LW_OK);
  assert_int_equal(lw_graph_add_input(g, "s", LW_DTYPE_F32, 0, NULL, &scalar), LW_OK);
  const uint32_t pair[2] = {a, b}, ghost[2] = {a, 999};
#define FAILS(call)                             \
  do {                                          \
    assert_int_not_equal((call), LW_OK);        \
    assert_true(strlen(lw_graph_error(g)) > 0); \
  } while (0)
#define SAYS(call, text)                                \
  do {                                                  \
    assert_int_equal((call), LW_STATUS_USAGE);          \
    assert_non_null(strstr(lw_graph_error(g), (text))); \
  } while (0)
  SAYS(lw_graph_add_map(g, "add", pair, 2, &out), "do not broadcast");
  SAYS(lw_graph_add_map(g, "plus", pair, 2, &out), "there are add, sub");
  SAYS(lw_graph_add_reduce(g, "mean", a, NULL, 0, 0, &out), "there are sum, prod");
  SAYS(lw_graph_add_reduce(g, "sum", a, minus, 2, 0, &out), "axis -2 is given twice");
  SAYS(lw_graph_add_input(g, NULL, LW_DTYPE_F32, 2, matrix, &out), "the name is NULL");
  SAYS(lw_graph_add_input(g, "a", LW_DTYPE_F32, 2, matrix, &out), "'a' is taken");
  SAYS(lw_graph_add_output(g, a, NULL), "the name is NULL");
#undef SAYS
  FAILS(lw_graph_add_map(g, "add", ghost, 2, &out));
  FAILS(lw_graph_add_map(g, "add", pair, 1, &out));
  FAILS(lw_graph_add_map(g, "cast", pair, 1, &out));
  FAILS(lw_graph_add_map(g, "and", pair, 2, &out));
  FAILS(lw_graph_add_input(g, "x", LW_DTYPE_F32, 1, negative, &out));
  FAILS(lw_graph_add_input(g, "x", LW_DTYPE_F32, 2, huge, &out));
  FAILS(lw_graph_add_input(g, "x", LW_DTYPE_COUNT, 2, matrix, &out));
  FAILS(lw_graph_add_input(g, "x", LW_DTYPE_F32, LW_MAX_RANK + 1, matrix, &out));
  FAILS(lw_graph_add_reshape(g, a, 2, other, &out));
  FAILS(lw_graph_add_transpose(g, a, twice, &out));
  FAILS(lw_graph_add_reduce(g, "mean", a, twice, 1, 0, &out));
  FAILS(lw_graph_add_matmul(g, a, b, &out));
  FAILS(lw_graph_add_matmul(g, scalar, b, &out));
  FAILS(lw_graph_add_softmax(g, a, 2, &out));
  FAILS(lw_graph_add_softmax(g, scalar, 0, &out));
  FAILS(lw_graph_add_layer_norm(g, a, 3, 1e-5, LW_NONE, LW_NONE, &out));
  FAILS(lw_graph_add_layer_norm(g, a, 1, 1e-5, 999, LW_NONE, &out));
  FAILS(lw_graph_add_output(g, 999, "x"));
#undef FAILS
  lw_model *m = NULL;
  assert_int_equal(lw_model_compile(g, NULL, &m), LW_STATUS_USAGE); /* no output */
  assert_non_null(strstr(lw_model_error(m), "no output"));
  lw_model_destroy(m);
  lw_graph_destroy(g);
}

static void matmul_follows_numpy(void **state) {
  (void)state;
  static const struct {
    int a_rank, b_rank, rank;
    int64_t a[3], b[3], want[3];
  } cases[] = {{2, 2, 2, {3, 4}, {4, 5}, {3, 5}},
               {1, 2, 1, {4}, {4, 5}, {5}},
               {2, 1, 1, {3, 4}, {4}, {3}},
               {1, 1, 0, {4}, {4}, {0}},
               {3, 2, 3, {7, 3, 4}, {4, 5}, {7, 3, 5}},
               {2, 3, 3, {3, 4}, {7, 4, 5}, {7, 3, 5}},
               {3, 3, 3, {1, 3, 4}, {6, 4, 5}, {6, 3, 5}}};
  for (size_t i = 0; i < LW_ARRAY_COUNT(cases); i++) {
    lw_graph *g = NULL;
    lw_model *m = NULL;
    lw_options *o = options_of("null");
    uint32_t a, b, y;
    assert_int_equal(lw_graph_create(&g), LW_OK);
    assert_int_equal(lw_graph_add_input(g, "a", LW_DTYPE_F32, cases[i].a_rank, cases[i].a, &a),
                     LW_OK);
    assert_int_equal(lw_graph_add_input(g, "b", LW_DTYPE_F32, cases[i].b_rank, cases[i].b, &b),
                     LW_OK);
    assert_int_equal(lw_graph_add_matmul(g, a, b, &y), LW_OK);
    assert_int_equal(lw_graph_add_output(g, y, "y"), LW_OK);
    if (lw_model_compile(g, o, &m) != LW_OK) fail_msg("%s", lw_model_error(m));
    assert_int_equal(lw_model_output(m, 0)->rank, cases[i].rank);
    for (int d = 0; d < cases[i].rank; d++) {
      assert_int_equal(lw_model_output(m, 0)->dims[d], cases[i].want[d]);
    }
    lw_model_destroy(m);
    lw_options_destroy(o);
    lw_graph_destroy(g);
  }
}

static void compile_only_cannot_run(void **state) {
  (void)state;
  lw_graph *g = graph_of();
  lw_options *o = options_of("auto");
  lw_model *m = NULL;
  lw_context *c = NULL;
  assert_int_equal(lw_options_set(o, "compile_only", "on"), LW_OK);
  assert_int_equal(lw_options_set(o, "target", "cpu"), LW_OK);
  assert_int_equal(lw_model_compile(g, o, &m), LW_OK);
  assert_int_equal(lw_context_create(m, &c), LW_STATUS_USAGE);
  assert_non_null(strstr(lw_context_error(c), "compile_only"));
  lw_context_destroy(c);
  assert_true(lw_tools_model_kernel_count(m) > 0);
  lw_tools_kernel k;
  lw_tools_model_kernel(m, 0, &k);
  assert_non_null(strstr(k.source, k.name));
  lw_model_destroy(m);
  lw_options_destroy(o);
  lw_graph_destroy(g);
}

/* ---- without memory ----- */

/* Graph, model, context and one run; gives what it came to. */
static lw_status whole_way(const lw_options *o) {
  static float a[COUNT], b[COUNT], sum[COUNT], y[COUNT];
  float *data[4] = {a, b, sum, y};
  lw_graph *g = NULL;
  lw_model *m = NULL;
  lw_context *c = NULL;
  uint32_t v[2], t;
  lw_status s = lw_graph_create(&g);
  if (s == LW_OK) s = lw_graph_add_input(g, "a", LW_DTYPE_F32, 2, matrix, &v[0]);
  if (s == LW_OK) s = lw_graph_add_input(g, "b", LW_DTYPE_F32, 2, matrix, &v[1]);
  if (s == LW_OK) s = lw_graph_add_map(g, "add", v, 2, &t);
  if (s == LW_OK) s = lw_graph_add_output(g, t, "sum");
  if (s == LW_OK) s = lw_graph_add_softmax(g, t, 1, &t);
  if (s == LW_OK) s = lw_graph_add_output(g, t, "y");
  if (s == LW_OK) s = lw_model_compile(g, o, &m);
  if (s == LW_OK) s = lw_context_create(m, &c);
  for (size_t i = 0; s == LW_OK && i < 4; i++) {
    const lw_tensor tensor = tensor_of(data[i]);
    s = i < 2 ? lw_context_bind_input(c, i, &tensor) : lw_context_bind_output(c, i - 2, &tensor);
  }
  if (s == LW_OK) s = lw_context_run(c);
  lw_context_destroy(c);
  lw_model_destroy(m);
  lw_graph_destroy(g);
  return s;
}

/* Whichever allocation fails: a status, no leak (the sanitizer looks), and all is well afterwards.
 */
static void survives_a_lack_of_memory(void **state) {
  (void)state;
  char folder[] = "/tmp/lw_api_XXXXXX", command[64];
  assert_non_null(mkdtemp(folder));
  lw_options *o = options_of("cpu");
  assert_int_equal(lw_options_set(o, "cache", folder), LW_OK);
  assert_int_equal(whole_way(o), LW_OK); /* the kernels are in the cache now */
  uint64_t n = 1;
  int good = 0;
  for (; n < 100000 && good < 3; n += n < 300 ? 1 : 7) {
    lw__mem_fail_at(n);
    lw_status status = whole_way(o);
    lw__mem_fail_at(0);
    good = status == LW_OK ? good + 1 : 0;
    bool expected = status == LW_OK || status == LW_STATUS_OUT_OF_MEMORY;
    if (!expected) fail_msg("allocation %d: %s", (int)n, lw_status_name(status));
  }
  print_message("%d allocations\n", (int)n);
  assert_true(good >= 3);
  assert_int_equal(whole_way(o), LW_OK);
  lw_options_destroy(o);
  snprintf(command, sizeof command, "rm -rf %s", folder);
  assert_int_equal(system(command), 0);
}

int main(void) {
  const struct CMUnitTest tests[] = {
      cmocka_unit_test(runs_a_graph_made_by_hand),
      cmocka_unit_test(strides_go_through_copies),
      cmocka_unit_test(contexts_run_at_the_same_time),
      cmocka_unit_test(reports_are_json),
      cmocka_unit_test(wrong_tensors_are_usage_errors),
      cmocka_unit_test(null_arguments_are_usage_errors),
      cmocka_unit_test(wrong_graphs_explain_themselves),
      cmocka_unit_test(matmul_follows_numpy),
      cmocka_unit_test(compile_only_cannot_run),
      cmocka_unit_test(survives_a_lack_of_memory),
  };
  return cmocka_run_group_tests(tests, NULL, NULL);
}

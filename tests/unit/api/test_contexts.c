/* Several contexts of one model in threads of their own, and one context in several threads. Meant
 * for the thread sanitizer (docs/testing.md), too. */
#include <pthread.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>
#include <string.h>

#include <cmocka.h>

#include "base/base.h"
#include "graph/graph.h"
#include "lawson/lawson.h"

enum { THREADS = 4, WIDTH = 96, MOST = 16, RUNS = 60 };

static const char text[] =
    "%x = input f32[batch, 96]\n%1 = const f32[1, 96] fill(3)\n%2 = expand f32[batch, 96] %1\n"
    "%3 = map.mul f32[batch, 96] %x, %2\n%4 = map.add f32[batch, 96] %3, %x\noutput y %4\n";

static lw_model *model_of(const char *dim, const char *max_shapes) {
  lw_graph graph;
  lw_diag diag = {0};
  lw_options *o;
  lw_model *m;
  assert_int_equal(lw__graph_parse(lw__str_of(text), &diag, &graph), LW_OK);
  assert_int_equal(lw_options_create(&o), LW_OK);
  assert_int_equal(lw_options_set(o, "device", "cpu"), LW_OK);
  assert_int_equal(lw_options_set(o, "threads", "2"), LW_OK);
  assert_int_equal(lw_options_set(o, "dim", dim), LW_OK);
  assert_int_equal(lw_options_set(o, "max_shapes", max_shapes), LW_OK);
  if (lw_model_compile(&graph, o, &m) != LW_OK) fail_msg("%s", lw_model_error(m));
  lw_options_destroy(o);
  lw__graph_deinit(&graph);
  lw__diag_deinit(&diag);
  return m;
}

static lw_status bind(lw_context *c, float *x, float *y, int64_t batch) {
  const int64_t dims[2] = {batch, WIDTH};
  const lw_tensor in = {.data = x, .dtype = LW_DTYPE_F32, .rank = 2, .dims = dims};
  const lw_tensor out = {.data = y, .dtype = LW_DTYPE_F32, .rank = 2, .dims = dims};
  LW_TRY(lw_context_bind_input(c, 0, &in));
  return lw_context_bind_output(c, 0, &out);
}

/* ---- a context each ----- */

typedef struct worker {
  lw_model *model;
  uint64_t seed;
  bool halves; /* submit and wait */
  char error[256];
} worker;

static void work_fail(worker *w, const char *what, const char *why) {
  (void)snprintf(w->error, sizeof w->error, "%s: %s", what, why);
}

/* The first row of the weights times x, plus x: row after row the same function. */
static bool rows_agree(const float *x, const float *y, int64_t batch) {
  for (int64_t r = 1; r < batch; r++) {
    for (int64_t i = 0; i < WIDTH; i++) {
      float scale = y[i] / x[i], want = scale * x[r * WIDTH + i], got = y[r * WIDTH + i];
      float error = got > want ? got - want : want - got;
      if (!(error <= 1e-4f * (1 + (want < 0 ? -want : want)))) return false;
    }
  }
  return true;
}

static void work_run(worker *w, lw_context *c, lw_rng *rng) {
  float x[MOST * WIDTH], y[MOST * WIDTH];
  int64_t batch = lw__rng_range(rng, 1, MOST + 1);
  for (int64_t i = 0; i < batch * WIDTH; i++) x[i] = (float)lw__rng_range(rng, 1, 100);
  memset(y, 0xff, sizeof y);
  lw_status status = bind(c, x, y, batch);
  if (status == LW_OK && w->halves) {
    status = lw_context_submit(c);
    if (status == LW_OK) status = lw_context_wait(c);
  } else if (status == LW_OK) {
    status = lw_context_run(c);
  }
  if (status != LW_OK) {
    work_fail(w, "run", lw_context_error(c));
  } else if (!rows_agree(x, y, batch)) {
    work_fail(w, "run", "wrong numbers");
  }
}

static void *work(void *data) {
  worker *w = data;
  lw_context *c = NULL;
  lw_rng rng;
  lw__rng_seed(&rng, w->seed);
  if (lw_context_create(w->model, &c) != LW_OK) work_fail(w, "create", lw_context_error(c));
  for (int i = 0; i < RUNS && w->error[0] == '\0'; i++) work_run(w, c, &rng);
  lw_context_destroy(c);
  return NULL;
}

static void run_workers(const char *dim, const char *max_shapes) {
  lw_model *m = model_of(dim, max_shapes);
  worker workers[THREADS] = {0};
  pthread_t threads[THREADS];
  for (int i = 0; i < THREADS; i++) {
    workers[i] = (worker){.model = m, .seed = (uint64_t)i + 1, .halves = i % 2 == 1};
    assert_int_equal(pthread_create(&threads[i], NULL, work, &workers[i]), 0);
  }
  for (int i = 0; i < THREADS; i++) assert_int_equal(pthread_join(threads[i], NULL), 0);
  lw_model_destroy(m);
  for (int i = 0; i < THREADS; i++) {
    if (workers[i].error[0] != '\0') fail_msg("thread %d: %s", i, workers[i].error);
  }
}

static void contexts_share_their_models_shapes(void **state) {
  (void)state;
  run_workers("batch=1,2,4:16", "16");
}

/* Shapes go while other contexts still run them. */
static void contexts_keep_what_the_model_forgets(void **state) {
  (void)state;
  run_workers("batch=4,8,16", "2");
}

/* ---- one context, many threads ----- */

typedef struct rival {
  lw_context *context;
  int good, refused, bad;
} rival;

static void *run_rival(void *data) {
  rival *r = data;
  for (int i = 0; i < 400; i++) {
    lw_status status = lw_context_run(r->context);
    r->good += status == LW_OK;
    r->refused += status == LW_STATUS_USAGE;
    r->bad += status != LW_OK && status != LW_STATUS_USAGE;
  }
  return NULL;
}

static void one_context_has_one_run_at_a_time(void **state) {
  (void)state;
  static float x[MOST * WIDTH], y[MOST * WIDTH];
  lw_model *m = model_of("batch=16", "1");
  lw_context *c = NULL;
  assert_int_equal(lw_context_create(m, &c), LW_OK);
  for (int i = 0; i < MOST * WIDTH; i++) x[i] = (float)(i % 50 + 1);
  assert_int_equal(bind(c, x, y, MOST), LW_OK);
  rival rivals[THREADS];
  pthread_t threads[THREADS];
  int good = 0;
  for (int i = 0; i < THREADS; i++) {
    rivals[i] = (rival){.context = c};
    assert_int_equal(pthread_create(&threads[i], NULL, run_rival, &rivals[i]), 0);
  }
  for (int i = 0; i < THREADS; i++) {
    assert_int_equal(pthread_join(threads[i], NULL), 0);
    assert_int_equal(rivals[i].bad, 0);
    assert_int_equal(rivals[i].good + rivals[i].refused, 400);
    good += rivals[i].good;
  }
  assert_true(good > 0);
  assert_true(rows_agree(x, y, MOST));
  lw_context_destroy(c);
  lw_model_destroy(m);
}

static void a_run_in_flight_is_waited_for(void **state) {
  (void)state;
  static float x[MOST * WIDTH], y[MOST * WIDTH];
  lw_model *m = model_of("batch=16", "1");
  lw_context *c = NULL;
  const lw_context_options options = {.priority = -1};
  assert_int_equal(lw_context_create_with(m, &options, &c), LW_OK);
  assert_int_equal(lw_context_submit(c), LW_STATUS_USAGE);
  assert_non_null(strstr(lw_context_error(c), "is not bound"));
  assert_int_equal(lw_context_wait(c), LW_STATUS_USAGE);
  assert_non_null(strstr(lw_context_error(c), "lw_context_submit begins one"));
  for (int i = 0; i < MOST * WIDTH; i++) x[i] = (float)(i % 50 + 1);
  assert_int_equal(bind(c, x, y, MOST), LW_OK);
  assert_int_equal(lw_context_submit(c), LW_OK);
  assert_int_equal(lw_context_run(c), LW_STATUS_USAGE);
  assert_non_null(strstr(lw_context_error(c), "one run at a time"));
  assert_int_equal(bind(c, x, y, MOST), LW_STATUS_USAGE);
  assert_int_equal(lw_context_submit(c), LW_STATUS_USAGE);
  assert_int_equal(lw_context_wait(c), LW_OK);
  assert_string_equal(lw_context_error(c), "");
  assert_true(rows_agree(x, y, MOST));
  assert_int_equal(lw_context_run(c), LW_OK);
  assert_int_equal(lw_context_submit(c), LW_OK);
  lw_context_destroy(c); /* waits */
  lw_model_destroy(m);
}

int main(void) {
  const struct CMUnitTest tests[] = {
      cmocka_unit_test(contexts_share_their_models_shapes),
      cmocka_unit_test(contexts_keep_what_the_model_forgets),
      cmocka_unit_test(one_context_has_one_run_at_a_time),
      cmocka_unit_test(a_run_in_flight_is_waited_for),
  };
  return cmocka_run_group_tests(tests, NULL, NULL);
}

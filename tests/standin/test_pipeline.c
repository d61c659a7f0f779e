/* Runs in two halves on the look-alike of the driver, where nothing happens before somebody waits:
 * inputs were copied when submit returns, outputs are there after wait alone, contexts overlap. */
#include <dlfcn.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include <cmocka.h>

#include "base/base.h"
#include "graph/graph.h"
#include "lawson/lawson.h"
#include "standin/standin.h"

enum { WIDTH = 64, MOST = 8, LANES = 3 };

static lw_standin_state *standin;

static lw_model *model_of(const char *text, const char *dim) {
  lw_graph graph;
  lw_diag diag = {0};
  lw_options *o;
  lw_model *m;
  assert_int_equal(lw__graph_parse(lw__str_of(text), &diag, &graph), LW_OK);
  assert_int_equal(lw_options_create(&o), LW_OK);
  assert_int_equal(lw_options_set(o, "device", "cuda"), LW_OK);
  assert_int_equal(lw_options_set(o, "cuda", LW_BUILD_DIR "/libcuda_standin.so"), LW_OK);
  assert_int_equal(lw_options_set(o, "nvrtc", LW_BUILD_DIR "/libnvrtc_standin.so"), LW_OK);
  assert_int_equal(lw_options_set(o, "dim", dim), LW_OK);
  if (lw_model_compile(&graph, o, &m) != LW_OK) fail_msg("%s", lw_model_error(m));
  lw_options_destroy(o);
  lw__graph_deinit(&graph);
  lw__diag_deinit(&diag);
  return m;
}

static const char text[] =
    "%x = input f32[batch, 64]\n%1 = reduce.max f32[batch] %x axes=[1]\n"
    "%2 = reshape f32[batch, 1] %1\n%3 = expand f32[batch, 64] %2\n"
    "%4 = map.sub f32[batch, 64] %x, %3\noutput y %4\n";

typedef struct lane {
  lw_context *context;
  float x[MOST * WIDTH], y[MOST * WIDTH];
  int64_t batch;
  int request;
} lane;

static void lane_bind(lane *l, int64_t batch) {
  const int64_t dims[2] = {batch, WIDTH};
  const lw_tensor in = {.data = l->x, .dtype = LW_DTYPE_F32, .rank = 2, .dims = dims};
  const lw_tensor out = {.data = l->y, .dtype = LW_DTYPE_F32, .rank = 2, .dims = dims};
  assert_int_equal(lw_context_bind_input(l->context, 0, &in), LW_OK);
  assert_int_equal(lw_context_bind_output(l->context, 0, &out), LW_OK);
  l->batch = batch;
}

static float element(int request, int64_t i) { return (float)((request * 7 + i * 5) % 101); }

static void lane_submit(lane *l, int request, int64_t batch) {
  lane_bind(l, batch);
  for (int64_t i = 0; i < batch * WIDTH; i++) l->x[i] = element(request, i);
  for (int64_t i = 0; i < batch * WIDTH; i++) l->y[i] = -1000;
  l->request = request;
  if (lw_context_submit(l->context) != LW_OK) fail_msg("%s", lw_context_error(l->context));
  memset(l->x, 0xff, sizeof l->x); /* it was copied */
  assert_true(l->y[0] == -1000);   /* and the outputs are still the caller's */
}

static void lane_wait(lane *l) {
  if (lw_context_wait(l->context) != LW_OK) fail_msg("%s", lw_context_error(l->context));
  for (int64_t r = 0; r < l->batch; r++) {
    float most = 0;
    for (int64_t i = 0; i < WIDTH; i++) {
      float e = element(l->request, r * WIDTH + i);
      most = e > most ? e : most;
    }
    for (int64_t i = 0; i < WIDTH; i++) {
      float want = element(l->request, r * WIDTH + i) - most;
      if (!(l->y[r * WIDTH + i] == want)) fail_msg("request %d: row %d", l->request, (int)r);
    }
  }
}

static void in_turns(const char *dim, bool any_batch) {
  static lane lanes[LANES];
  lw_model *m = model_of(text, dim);
  for (int i = 0; i < LANES; i++) {
    const lw_context_options options = {.priority = -i * 100};
    assert_int_equal(lw_context_create_with(m, &options, &lanes[i].context), LW_OK);
  }
  uint64_t memory = 0;
  for (int request = 0; request < 30; request++) {
    lane *l = &lanes[request % LANES];
    if (request >= LANES) lane_wait(l);
    if (request == 6) memory = standin->live_memory + standin->live_pinned;
    lane_submit(l, request, any_batch ? request % MOST + 1 : MOST);
  }
  if (!any_batch) assert_int_equal(standin->live_memory + standin->live_pinned, memory);
  for (int request = 30; request < 30 + LANES; request++) lane_wait(&lanes[request % LANES]);
  assert_true(standin->live_pinned > 0);
  for (int i = 0; i < LANES; i++) lw_context_destroy(lanes[i].context);
  lw_model_destroy(m);
  if (standin->violations != 0) fail_msg("%s", standin->violation);
  assert_int_equal(standin->live_pinned, 0);
  assert_int_equal(standin->live_memory, 0);
  assert_int_equal(standin->live_streams, 0);
}

static void contexts_take_turns(void **state) {
  (void)state;
  in_turns("batch=8", false);
}

static void contexts_take_turns_in_buckets(void **state) {
  (void)state;
  in_turns("batch=2:8", true);
}

/* Every driver call of a submit and its wait fails once; the next run is good. */
static void failures_leave_nothing_in_flight(void **state) {
  (void)state;
  static lane l;
  for (uint64_t n = 1; n < 200; n++) {
    lw_model *m = model_of(text, "batch=8");
    assert_int_equal(lw_context_create(m, &l.context), LW_OK);
    lane_bind(&l, MOST);
    for (int64_t i = 0; i < MOST * WIDTH; i++) l.x[i] = element(1, i);
    l.request = 1;
    standin->failed_call = NULL;
    standin->fail_code = 1;
    standin->fail_at = n;
    lw_status status = lw_context_submit(l.context);
    if (status == LW_OK) status = lw_context_wait(l.context);
    bool hit = standin->failed_call != NULL;
    standin->fail_at = 0;
    /* Neither the mode of captures nor what cleans up decides about a run. */
    bool matters = hit && !standin->failed_call_is_cleanup &&
                   strcmp(standin->failed_call, "cuThreadExchangeStreamCaptureMode") != 0;
    if (matters && status == LW_OK)
      fail_msg("call %d: %s failed and nobody said so", (int)n, standin->failed_call);
    if (!matters && status != LW_OK) fail_msg("%s", lw_context_error(l.context));
    for (int64_t i = 0; i < MOST * WIDTH; i++) l.x[i] = element(1, i);
    if (lw_context_submit(l.context) != LW_OK) fail_msg("%s", lw_context_error(l.context));
    lane_wait(&l);
    lw_context_destroy(l.context);
    lw_model_destroy(m);
    assert_int_equal(standin->live_pinned, 0);
    if (!hit) return;
  }
  fail_msg("calls do not end");
}

static void open_standin(void) {
  void *library = dlopen(LW_BUILD_DIR "/libcuda_standin.so", RTLD_NOW | RTLD_LOCAL);
  lw_standin_function *function = NULL;
  if (library != NULL) {
    void *symbol = dlsym(library, "lw_standin");
    memcpy(&function, &symbol, sizeof symbol);
  }
  if (function == NULL) {
    fprintf(stderr, "there is no stand-in of the driver\n");
    exit(1);
  }
  standin = function();
}

int main(void) {
  open_standin();
  const struct CMUnitTest tests[] = {
      cmocka_unit_test(contexts_take_turns),
      cmocka_unit_test(contexts_take_turns_in_buckets),
      cmocka_unit_test(failures_leave_nothing_in_flight),
  };
  return cmocka_run_group_tests(tests, NULL, NULL);
}

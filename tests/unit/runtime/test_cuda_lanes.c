/* Lanes on a look-alike of the CUDA driver: two branches and what joins them, as a graph and in
 * streams, in a run, in the caller's stream and in a capture; edges, events and priorities counted;
 * and every driver call failing in turn. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdio.h>
#include <string.h>

#include <cmocka.h>
#include <dlfcn.h>

#include "runtime/cuda/driver.h"
#include "runtime/runtime.h"
#include "standin/standin.h"

enum { BLOCKS = 40, COUNT = 4 * BLOCKS, LENGTH = 4 };
#define BYTES (sizeof(float) * COUNT)

static lw_rt_device_options options = {.cuda_path = LW_BUILD_DIR "/libcuda_standin.so"};
static lw_standin_state *standin;
/* The look-alike's functions, for what the test itself does. */
#define MEMBER(name, symbol, parameters) static lw_cu_result(*cu_##name) parameters;
LW_CU_SYMBOLS(MEMBER)
LW_STANDIN_SYMBOLS(MEMBER)
#undef MEMBER
static bool graphs = true;
static uint32_t lane_count = 2;

static int load_standin(void **state) {
  (void)state;
  void *handle = dlopen(options.cuda_path, RTLD_NOW);
  lw_standin_function *function;
  if (handle == NULL) return 1;
  void *symbol = dlsym(handle, "lw_standin");
  memcpy(&function, &symbol, sizeof symbol);
  standin = function();
#define FIND(name, symbol_name, parameters) \
  symbol = dlsym(handle, #symbol_name);     \
  memcpy(&cu_##name, &symbol, sizeof symbol);
  LW_CU_SYMBOLS(FIND)
  LW_STANDIN_SYMBOLS(FIND)
#undef FIND
  return 0;
}

static int reset_standin(void **state) {
  (void)state;
  options.graph_min_steps = graphs ? 0 : UINT32_MAX;
  *standin = (lw_standin_state){
      .device_count = 1, .arch_major = 9, .arch_minor = 0, .driver_version = 12040, .fail_code = 1};
  return 0;
}

static void assert_nothing_left(void) {
  if (standin->violations != 0) fail_msg("%s", standin->violation);
  assert_int_equal(standin->context_depth, 0);
  assert_int_equal(standin->live_memory + standin->live_modules + standin->live_streams +
                       standin->live_events + standin->live_graphs + standin->retains,
                   0);
}

static uint32_t add_buffer(lw_plan *plan, lw_buffer_kind kind) {
  lw_plan_buffer buffer = {.kind = kind, .bytes = BYTES};
  assert_int_equal(lw_vec_push(&plan->buffers, buffer), LW_OK);
  uint32_t id = plan->buffers.count - 1;
  lw_plan_io io = {.name = "t", .dtype = LW_DTYPE_F32, .rank = 1, .dims = {COUNT}, .buffer = id};
  if (kind == LW_BUFFER_INPUT) assert_int_equal(lw_vec_push(&plan->inputs, io), LW_OK);
  if (kind == LW_BUFFER_OUTPUT) assert_int_equal(lw_vec_push(&plan->outputs, io), LW_OK);
  return id;
}

static void add_launch(lw_plan *plan, uint32_t kernel, uint32_t lane, const lw_plan_arg *args,
                       uint32_t count) {
  lw_plan_step step = {.kind = LW_STEP_LAUNCH,
                       .kernel = kernel,
                       .arg_count = count,
                       .grid = BLOCKS,
                       .lane = lane,
                       .critical = lane == 0};
  assert_int_equal(lw__arena_dup(&plan->arena, args, count * sizeof *args, &step.args), LW_OK);
  assert_int_equal(lw_vec_push(&plan->steps, step), LW_OK);
}

static uint32_t add_scale(lw_plan *plan, uint32_t lane, uint32_t from, int64_t by, int64_t add) {
  uint32_t to = add_buffer(plan, LW_BUFFER_ARENA);
  const lw_plan_arg args[4] = {{.buffer = to, .written = true},
                               {.buffer = from},
                               {.kind = LW_ARG_SCALAR, .scalar = by},
                               {.kind = LW_ARG_SCALAR, .scalar = add}};
  add_launch(plan, 0, lane, args, 4);
  return to;
}

/* out = (x * 2 + 1, LENGTH times) + (x * -1 + 3, LENGTH times); the second branch takes the first
 * value of the other one: lane 1 waits once, and lane 0 at the end. */
static void make_plan(lw_plan *plan) {
  static const char image[] = LW_STANDIN_IMAGE;
  lw__plan_init(plan, LW_PLAN_CUDA);
  plan->sm_arch = 90;
  plan->arch_specific = true;
  plan->lane_count = lane_count;
  lw_plan_kernel kernel = {
      .name = "lw_map_scale", .block_threads = 128, .image = image, .image_bytes = sizeof image};
  assert_int_equal(lw_vec_push(&plan->kernels, kernel), LW_OK);
  kernel.name = "lw_map_add";
  assert_int_equal(lw_vec_push(&plan->kernels, kernel), LW_OK);
  uint32_t x = add_buffer(plan, LW_BUFFER_INPUT), out = add_buffer(plan, LW_BUFFER_OUTPUT);
  uint32_t other = lane_count == 2 ? 1 : 0, a = add_scale(plan, 0, x, 2, 1), b = a;
  for (int i = 0; i < LENGTH; i++) {
    b = add_scale(plan, other, b, -1, 3);
    if (i > 0) a = add_scale(plan, 0, a, 2, 1);
  }
  const lw_plan_arg args[3] = {{.buffer = out, .written = true}, {.buffer = a}, {.buffer = b}};
  add_launch(plan, 1, 0, args, 3);
  assert_int_equal(lw__plan_link(plan), LW_OK);
  assert_int_equal(lw__plan_wait(plan), LW_OK);
  assert_int_equal(lw__plan_place(plan), LW_OK);
  assert_int_equal(lw__plan_verify(plan, NULL), LW_OK);
}

static float wanted(float x) {
  float a = 2 * x + 1, b = a;
  for (int i = 0; i < LENGTH; i++) {
    b = 3 - b;
    if (i > 0) a = 2 * a + 1;
  }
  return a + b;
}

typedef struct session {
  lw_rt_device *device;
  lw_rt_program *program;
  lw_rt_context *context;
} session;

static lw_status open_session(session *s, lw_diag *diag) {
  lw_plan plan;
  make_plan(&plan);
  *s = (session){0};
  lw_status status = lw__rt_device_open("cuda:0", &options, diag, &s->device);
  if (status == LW_OK) status = lw__rt_program_load(s->device, &plan, diag, &s->program);
  if (status == LW_OK) status = lw__rt_context_create(s->program, diag, &s->context);
  lw__plan_deinit(&plan);
  return status;
}

static void close_session(session *s) {
  lw__rt_context_destroy(s->context);
  lw__rt_program_release(s->program);
  lw__rt_device_release(s->device);
}

static float x[COUNT], out[COUNT];

static lw_status bind_host(session *s) {
  for (int i = 0; i < COUNT; i++) x[i] = (float)(i % 17);
  memset(out, 0xff, BYTES);
  LW_TRY(lw__rt_bind_input(s->context, 0, x, BYTES, false));
  return lw__rt_bind_output(s->context, 0, out, BYTES, false);
}

static void check_results(void) {
  for (int i = 0; i < COUNT; i++) {
    if (out[i] != wanted(x[i]))
      fail_msg("element %d: %g, not %g", i, (double)out[i], (double)wanted(x[i]));
  }
  memset(out, 0xff, BYTES);
}

static void test_runs(void **state) {
  (void)state;
  session s;
  assert_int_equal(open_session(&s, NULL), LW_OK);
  assert_int_equal(bind_host(&s), LW_OK);
  for (int i = 0; i < 4; i++) {
    uint64_t waits = standin->event_waits;
    assert_int_equal(lw__rt_run(s.context, NULL), LW_OK);
    /* the fork, two waits, the join */
    assert_int_equal(standin->event_waits - waits, lane_count == 1 || graphs ? 0 : 4);
    check_results();
  }
  lw_rt_stats stats;
  lw__rt_stats(s.context, &stats);
  assert_int_equal(stats.lanes, lane_count);
  assert_int_equal(stats.waits, lane_count == 2 ? 2 : 0);
  assert_int_equal(standin->live_streams, lane_count + 1); /* and the device's */
  /* Critical steps, and the stream of lane 0. */
  assert_int_equal(standin->priorities, (graphs ? LENGTH + (lane_count == 1 ? LENGTH : 0) + 1 : 0) +
                                            (lane_count == 2 ? 1 : 0));
  close_session(&s);
  assert_nothing_left();
}

/* The test's own stream, with the primary context current as long as it lives. */
static lw_cu_stream open_stream(void) {
  lw_cu_context primary;
  lw_cu_stream stream;
  assert_int_equal(cu_primary_retain(&primary, 0), 0);
  assert_int_equal(cu_context_push(primary), 0);
  assert_int_equal(cu_stream_create(&stream, LW_CU_STREAM_NON_BLOCKING), 0);
  return stream;
}

static void close_stream(lw_cu_stream stream) {
  lw_cu_context popped;
  assert_int_equal(cu_stream_destroy(stream), 0);
  assert_int_equal(cu_context_pop(&popped), 0);
  assert_int_equal(cu_primary_release(0), 0);
}

static char *bind_device(session *s, void *memory) {
  char *dx = memory, *dout = dx + BYTES;
  assert_int_equal(bind_host(s), LW_OK);
  assert_int_equal(lw__rt_upload(s->device, dx, x, BYTES), LW_OK);
  assert_int_equal(lw__rt_bind_input(s->context, 0, dx, BYTES, true), LW_OK);
  assert_int_equal(lw__rt_bind_output(s->context, 0, dout, BYTES, true), LW_OK);
  return dout;
}

/* Runs one after the other in the caller's stream; and in its capture, which is replayed. */
static void test_enqueue(void **state) {
  (void)state;
  session s;
  void *memory;
  lw_cu_graph graph;
  lw_cu_exec exec;
  lw_cu_stream stream = open_stream();
  assert_int_equal(open_session(&s, NULL), LW_OK);
  assert_int_equal(lw__rt_alloc(s.device, 2 * BYTES, &memory), LW_OK);
  char *dout = bind_device(&s, memory);
  for (int capture = 0; capture < 2; capture++) {
    uint64_t waits = standin->waits;
    if (capture) assert_int_equal(cu_capture_begin(stream, 0), 0);
    for (int i = 0; i < 3; i++) assert_int_equal(lw__rt_enqueue(s.context, stream, NULL), LW_OK);
    assert_int_equal(standin->waits, waits);
    if (capture) {
      assert_int_equal(cu_capture_end(stream, &graph), 0);
      assert_int_equal(cu_graph_instantiate(&exec, graph, 0), 0);
      for (int i = 0; i < 3; i++) assert_int_equal(cu_exec_launch(exec, stream), 0);
    }
    assert_int_equal(cu_stream_wait(stream), 0);
    assert_int_equal(lw__rt_download(s.device, out, dout, BYTES), LW_OK);
    check_results();
    assert_int_equal(lw__rt_upload(s.device, dout, x, BYTES), LW_OK);
  }
  assert_int_equal(cu_exec_destroy(exec), 0);
  assert_int_equal(cu_graph_destroy(graph), 0);
  lw__rt_free(s.device, memory);
  close_session(&s);
  close_stream(stream);
  assert_nothing_left();
}

/* A call that fails while the caller captures: the capture can be ended, for its lanes are joined,
 * unless it is the joining that failed. */
static void test_failing_captures(void **state) {
  (void)state;
  uint32_t ended = 0, unended = 0;
  for (uint64_t n = 1;; n++) {
    session s;
    void *memory;
    lw_cu_graph graph;
    (void)reset_standin(NULL);
    lw_cu_stream stream = open_stream();
    assert_int_equal(open_session(&s, NULL), LW_OK);
    assert_int_equal(lw__rt_alloc(s.device, 2 * BYTES, &memory), LW_OK);
    char *dout = bind_device(&s, memory);
    assert_int_equal(cu_capture_begin(stream, 0), 0);
    standin->fail_at = n;
    lw_status status = lw__rt_enqueue(s.context, stream, NULL);
    bool over = standin->fail_at != 0;
    standin->fail_at = 0;
    if (over || standin->failed_call_is_cleanup) assert_int_equal(status, LW_OK);
    if (cu_capture_end(stream, &graph) == 0) {
      assert_int_equal(cu_graph_destroy(graph), 0);
      ended++;
    } else {
      unended++;
    }
    assert_int_equal(lw__rt_enqueue(s.context, stream, NULL), LW_OK);
    assert_int_equal(cu_stream_wait(stream), 0);
    assert_int_equal(lw__rt_download(s.device, out, dout, BYTES), LW_OK);
    check_results();
    lw__rt_free(s.device, memory);
    close_session(&s);
    close_stream(stream);
    if (over) break;
  }
  assert_true(ended > 10);
  assert_true(unended <= 2); /* the join's record, its wait */
}

/* One driver call fails, each in its turn; the next run succeeds. */
static void test_every_call_fails(void **state) {
  (void)state;
  for (uint64_t n = 1;; n++) {
    (void)reset_standin(NULL);
    standin->fail_at = n;
    session s;
    lw_diag diag = {0};
    lw_status status = open_session(&s, &diag);
    bool opened = status == LW_OK;
    if (status == LW_OK) status = bind_host(&s);
    if (status == LW_OK) status = lw__rt_run(s.context, &diag);
    bool over = standin->fail_at != 0;
    if (status == LW_OK) check_results();
    if (status != LW_OK) {
      assert_false(over);
      assert_true(lw__diag_first_error(&diag)[0] != '\0' || !opened || s.context == NULL ||
                  status == LW_STATUS_DEVICE_FAILED);
    }
    standin->fail_at = 0;
    if (opened) {
      assert_int_equal(bind_host(&s), LW_OK);
      assert_int_equal(lw__rt_run(s.context, NULL), LW_OK);
      check_results();
    }
    close_session(&s);
    lw__diag_deinit(&diag);
    assert_nothing_left();
    if (over) {
      assert_true(n > 40);
      break;
    }
  }
}

static void test_bad_lanes(void **state) {
  (void)state;
  lw_rt_device *device;
  lw_rt_program *program;
  assert_int_equal(lw__rt_device_open("cuda", &options, NULL, &device), LW_OK);
  for (int i = 0; i < 4; i++) {
    lw_plan plan;
    make_plan(&plan);
    lw_plan_step *last = &plan.steps.data[plan.steps.count - 1];
    if (i == 0) plan.lane_count = LW_PLAN_MAX_LANES + 1;
    if (i == 1) last->lane = plan.lane_count;
    if (i == 2) last->waits[0] = plan.steps.count - 1;
    if (i == 3) last->waits[0] = 0; /* of its own lane */
    lw_diag diag = {0};
    assert_int_equal(lw__rt_program_load(device, &plan, &diag, &program), LW_STATUS_INTERNAL);
    assert_non_null(strstr(lw__diag_first_error(&diag), "lane"));
    lw__diag_deinit(&diag);
    lw__plan_deinit(&plan);
  }
  lw__rt_device_release(device);
  assert_nothing_left();
}

int main(void) {
  const struct CMUnitTest tests[] = {
      cmocka_unit_test_setup(test_runs, reset_standin),
      cmocka_unit_test_setup(test_enqueue, reset_standin),
      cmocka_unit_test(test_failing_captures),
      cmocka_unit_test(test_every_call_fails),
  };
  const struct CMUnitTest checks[] = {cmocka_unit_test_setup(test_bad_lanes, reset_standin)};
  int failed = cmocka_run_group_tests_name("refused", checks, load_standin, NULL);
  for (lane_count = 1; lane_count <= 2; lane_count++) {
    graphs = true;
    failed += cmocka_run_group_tests_name("as a graph", tests, load_standin, NULL);
    graphs = false;
    failed += cmocka_run_group_tests_name("in streams", tests, load_standin, NULL);
  }
  return failed;
}

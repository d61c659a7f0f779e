/* The times of kernels: what is between them, through a look-alike of CUPTI with known times, with
 * every call of it failing, without it, and on the CPU and null devices; and that runs allocate
 * nothing. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdio.h>
#include <string.h>

#include <cmocka.h>
#include <dlfcn.h>

#include "runtime/trace.h"
#include "standin/cupti_standin.h"
#include "standin/standin.h"

enum { COUNT = 160, BYTES = 4 * COUNT };

static lw_rt_device_options options = {.cuda_path = LW_BUILD_DIR "/libcuda_standin.so",
                                       .cupti_path = LW_BUILD_DIR "/libcupti_standin.so"};
static lw_standin_state *driver;
static lw_cupti_standin_state *cupti;
static float x[COUNT], y[COUNT];

static void *find(const char *library, const char *name) {
  void *handle = dlopen(library, RTLD_NOW);
  assert_non_null(handle);
  return dlsym(handle, name);
}

static int load(void **state) {
  (void)state;
  lw_standin_function *driver_function;
  lw_cupti_standin_function *cupti_function;
  void *symbol = find(options.cuda_path, "lw_standin");
  memcpy(&driver_function, &symbol, sizeof symbol);
  symbol = find(options.cupti_path, "lw_cupti_standin");
  memcpy(&cupti_function, &symbol, sizeof symbol);
  driver = driver_function();
  cupti = cupti_function();
  return 0;
}

static int reset(void **state) {
  (void)state;
  *driver = (lw_standin_state){
      .device_count = 1, .arch_major = 9, .arch_minor = 0, .driver_version = 12040, .fail_code = 1};
  *cupti = (lw_cupti_standin_state){0};
  return 0;
}

/* Three kernels: 100 to 200, 180 to 260 beside it, 300 to 400; and something that is none. */
static void known_records(void) {
  static const struct {
    int kind;
    uint64_t begin, end;
  } rows[] = {{10, 300, 400}, {1, 0, 1000}, {10, 100, 200}, {10, 180, 260}};
  cupti->count = LW_ARRAY_COUNT(rows);
  for (uint32_t i = 0; i < cupti->count; i++) {
    cupti->records[i].kind = rows[i].kind;
    cupti->records[i].begin_ns = rows[i].begin;
    cupti->records[i].end_ns = rows[i].end;
  }
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

static void add_scale(lw_plan *plan, uint32_t to, uint32_t from) {
  const lw_plan_arg args[4] = {{.buffer = to, .written = true},
                               {.buffer = from},
                               {.kind = LW_ARG_SCALAR, .scalar = 2},
                               {.kind = LW_ARG_SCALAR, .scalar = 1}};
  lw_plan_step step = {.kind = LW_STEP_LAUNCH, .grid = COUNT / 4, .arg_count = 4};
  assert_int_equal(lw__arena_dup(&plan->arena, args, sizeof args, &step.args), LW_OK);
  assert_int_equal(lw_vec_push(&plan->steps, step), LW_OK);
}

static lw_rt_context *open_context(const char *spec) {
  static const char image[] = LW_STANDIN_IMAGE;
  lw_plan plan;
  lw_rt_device *device;
  lw_rt_program *program;
  lw_rt_context *context;
  lw__plan_init(&plan, LW_PLAN_CUDA);
  plan.sm_arch = 90;
  plan.arch_specific = true;
  lw_plan_kernel kernel = {
      .name = "lw_map_scale", .block_threads = 32, .image = image, .image_bytes = sizeof image};
  assert_int_equal(lw_vec_push(&plan.kernels, kernel), LW_OK);
  uint32_t in = add_buffer(&plan, LW_BUFFER_INPUT), mid = add_buffer(&plan, LW_BUFFER_ARENA);
  uint32_t out = add_buffer(&plan, LW_BUFFER_OUTPUT);
  add_scale(&plan, mid, in);
  add_scale(&plan, out, mid);
  assert_int_equal(lw__plan_link(&plan), LW_OK);
  assert_int_equal(lw__plan_place(&plan), LW_OK);
  assert_int_equal(lw__rt_device_open(spec, &options, NULL, &device), LW_OK);
  assert_int_equal(lw__rt_program_load(device, &plan, NULL, &program), LW_OK);
  assert_int_equal(lw__rt_context_create(program, NULL, &context), LW_OK);
  assert_int_equal(lw__rt_bind_input(context, 0, x, BYTES, false), LW_OK);
  assert_int_equal(lw__rt_bind_output(context, 0, y, BYTES, false), LW_OK);
  lw__rt_program_release(program);
  lw__rt_device_release(device);
  lw__plan_deinit(&plan);
  return context;
}

static void test_sum(void **state) {
  (void)state;
  lw_rt_trace trace;
  lw__rt_trace_sum(NULL, 0, &trace);
  assert_int_equal(trace.kernels + (uint64_t)trace.busy_ns + (uint64_t)trace.gap_ns, 0);
  lw_rt_span spans[] = {{500, 500}, {0, 100}, {20, 50}, {90, 120}, {130, 140}, {140, 150}};
  lw__rt_trace_sum(spans, LW_ARRAY_COUNT(spans), &trace);
  assert_int_equal(trace.kernels, 6);
  assert_int_equal(trace.busy_ns, 120 + 20);
  assert_int_equal(trace.gap_ns, 10 + 350);
}

static void test_known_times(void **state) {
  (void)state;
  lw_rt_context *context = open_context("cuda");
  lw_rt_trace trace;
  known_records();
  for (int i = 0; i < 3; i++) {
    uint64_t launches = driver->graph_launches;
    assert_int_equal(lw__rt_trace_run(context, NULL, &trace), LW_OK);
    assert_int_equal(trace.kernels, 3);
    assert_int_equal(trace.busy_ns, 160 + 100);
    assert_int_equal(trace.gap_ns, 40);
    assert_int_equal(driver->graph_launches - launches, 2);
    assert_int_equal(cupti->enabled, 0);
    assert_int_equal(cupti->buffers_out, 0);
    assert_int_equal(lw__rt_run(context, NULL), LW_OK);
  }
  lw_rt_stats stats;
  lw__rt_stats(context, &stats);
  assert_true(stats.last_launch_ns > 0);
  lw__rt_context_destroy(context);
  assert_int_equal(driver->violations + driver->live_graphs + driver->live_memory, 0);
}

/* Whatever fails, nothing stays on, and the next attempt succeeds. */
static void test_every_call_fails(void **state) {
  (void)state;
  lw_rt_context *context = open_context("cuda");
  lw_rt_trace trace;
  known_records();
  for (uint64_t n = 1;; n++) {
    lw_diag diag = {0};
    cupti->fail_at = n;
    lw_status status = lw__rt_trace_run(context, &diag, &trace);
    bool over = cupti->fail_at != 0;
    cupti->fail_at = 0;
    if (status != LW_OK) {
      assert_int_equal(status, LW_STATUS_UNSUPPORTED);
      assert_non_null(strstr(lw__diag_first_error(&diag), "CUPTI_ERROR_STANDIN"));
    }
    lw__diag_deinit(&diag);
    assert_int_equal(cupti->enabled, 0);
    assert_int_equal(lw__rt_trace_run(context, NULL, &trace), LW_OK);
    assert_int_equal(trace.kernels, 3);
    if (over) {
      assert_true(n > 4);
      break;
    }
  }
  for (uint64_t n = 1;; n++) { /* the driver's */
    driver->fail_at = n;
    lw_status status = lw__rt_trace_run(context, NULL, &trace);
    bool over = driver->fail_at != 0;
    driver->fail_at = 0;
    assert_int_equal(cupti->enabled, 0);
    assert_int_equal(lw__rt_trace_run(context, NULL, &trace), LW_OK);
    if (over) {
      assert_int_equal(status, LW_OK);
      assert_true(n > 8);
      break;
    }
  }
  lw__rt_context_destroy(context);
  assert_int_equal(driver->violations, 0);
}

static void refused(lw_rt_context *context, const char *why) {
  lw_diag diag = {0};
  lw_rt_trace trace;
  assert_int_equal(lw__rt_trace_run(context, &diag, &trace), LW_STATUS_UNSUPPORTED);
  if (strstr(lw__diag_first_error(&diag), why) == NULL)
    fail_msg("'%s' in '%s'", why, lw__diag_first_error(&diag));
  lw__diag_deinit(&diag);
  assert_int_equal(lw__rt_run(context, NULL), LW_OK);
  lw__rt_context_destroy(context);
}

static void test_nothing_can_tell(void **state) {
  (void)state;
  refused(open_context("null"), "runs no kernels");
  refused(open_context("cuda"), "recorded no kernels");
  const char *path = options.cupti_path;
  options.cupti_path = "/nowhere/libcupti.so";
  refused(open_context("cuda"), "/nowhere/libcupti.so");
  options.cupti_path = "libm.so.6";
  refused(open_context("cuda"), "cuptiActivityEnable");
  options.cupti_path = path;
}

/* Once a run was made, further ones ask nobody for memory. */
static void test_no_allocations(void **state) {
  (void)state;
  for (int graphs = 0; graphs < 2; graphs++) {
    options.graph_min_steps = graphs ? 0 : UINT32_MAX;
    lw_rt_context *context = open_context("cuda");
    lw_rt_device *device;
    assert_int_equal(lw__rt_device_open("cuda", &options, NULL, &device), LW_OK);
    assert_int_equal(lw__rt_run(context, NULL), LW_OK);
    uint64_t host = lw__mem_count(), memory = driver->live_memory + driver->live_graphs;
    for (int i = 0; i < 10; i++) assert_int_equal(lw__rt_run(context, NULL), LW_OK);
    assert_int_equal(lw__mem_count(), host);
    assert_int_equal(driver->live_memory + driver->live_graphs, memory);
    /* What does allocate is counted. */
    void *some;
    uint64_t before = lw__rt_allocations(device);
    assert_int_equal(lw__rt_alloc(device, 100, &some), LW_OK);
    assert_int_equal(lw__rt_allocations(device), before + 1);
    lw__rt_free(device, some);
    lw__rt_device_release(device);
    lw__rt_context_destroy(context);
  }
  options.graph_min_steps = 0;
}

int main(void) {
  const struct CMUnitTest tests[] = {
      cmocka_unit_test(test_sum),
      cmocka_unit_test_setup(test_known_times, reset),
      cmocka_unit_test_setup(test_every_call_fails, reset),
      cmocka_unit_test_setup(test_nothing_can_tell, reset),
      cmocka_unit_test_setup(test_no_allocations, reset),
  };
  return cmocka_run_group_tests(tests, load, NULL);
}

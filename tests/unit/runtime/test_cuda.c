/* The CUDA back end on a look-alike of the driver: results, bindings, the caller's stream, life
 * times, and every single driver call failing in turn. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include <cmocka.h>
#include <dlfcn.h>

#include "runtime/cuda/driver.h"
#include "runtime/runtime.h"
#include "standin/standin.h"

static const char library[] = LW_BUILD_DIR "/libcuda_standin.so";
/* The plan below has four steps: enough for a graph. The tests run with graphs and without. */
static lw_rt_device_options options = {.cuda_path = library};
static bool graphs = true;
static lw_standin_state *standin;
static lw_standin_bury_function *bury;
/* The driver as the tests use it beside the runtime. */
#define MEMBER(name, symbol, parameters) static lw_cu_result(*cu_##name) parameters;
LW_CU_SYMBOLS(MEMBER)
LW_STANDIN_SYMBOLS(MEMBER)
#undef MEMBER

static int load_standin(void **state) {
  (void)state;
  void *handle = dlopen(library, RTLD_NOW);
  if (handle == NULL) {
    print_error("%s\n", dlerror());
    return 1;
  }
  lw_standin_function *function;
  void *symbol = dlsym(handle, "lw_standin");
  memcpy(&function, &symbol, sizeof symbol);
  standin = function();
  symbol = dlsym(handle, "lw_standin_bury");
  memcpy(&bury, &symbol, sizeof symbol);
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
  if (stream != NULL) assert_int_equal(cu_stream_destroy(stream), 0);
  assert_int_equal(cu_context_pop(&popped), 0);
  assert_int_equal(cu_primary_release(0), 0);
}

static lw_cu_exec end_capture(lw_cu_stream stream, lw_cu_graph *out_graph) {
  lw_cu_exec exec;
  assert_int_equal(cu_capture_end(stream, out_graph), 0);
  assert_int_equal(cu_graph_instantiate(&exec, *out_graph, 0), 0);
  return exec;
}

static void destroy_graph(lw_cu_graph graph, lw_cu_exec exec) {
  assert_int_equal(cu_exec_destroy(exec), 0);
  assert_int_equal(cu_graph_destroy(graph), 0);
}

static void assert_clean(void) {
  if (standin->violations != 0)
    fail_msg("%lu violations: %s", (unsigned long)standin->violations, standin->violation);
  assert_int_equal(standin->context_depth, 0);
}

static void assert_nothing_left(void) {
  assert_clean();
  assert_int_equal(standin->live_memory, 0);
  assert_int_equal(standin->live_modules, 0);
  assert_int_equal(standin->live_streams, 0);
  assert_int_equal(standin->live_events, 0);
  assert_int_equal(standin->live_graphs, 0);
  assert_int_equal(standin->live_captures, 0);
  assert_int_equal(standin->retains, 0);
}

/* ---- the plan: out = (x * 3 + 1) + w2, w2 = w * 2 made by the init program; copy = out, its last
 * 8 bytes 0 ---- */

#define BLOCKS 40
#define COUNT (4 * BLOCKS)
#define BYTES (sizeof(float) * COUNT)

static float weights[COUNT];

static uint32_t add_buffer(lw_plan *plan, lw_buffer_kind kind, uint32_t index, const void *data) {
  lw_plan_buffer buffer = {.kind = kind, .index = index, .bytes = BYTES, .data = data};
  assert_int_equal(lw_vec_push(&plan->buffers, buffer), LW_OK);
  uint32_t id = plan->buffers.count - 1;
  lw_plan_io io = {.name = kind == LW_BUFFER_INPUT ? "x"
                           : index == 0            ? "out"
                                                   : "copy",
                   .dtype = LW_DTYPE_F32,
                   .rank = 1,
                   .dims = {COUNT},
                   .buffer = id};
  if (kind == LW_BUFFER_INPUT) assert_int_equal(lw_vec_push(&plan->inputs, io), LW_OK);
  if (kind == LW_BUFFER_OUTPUT) assert_int_equal(lw_vec_push(&plan->outputs, io), LW_OK);
  return id;
}

static lw_plan_step make_step(lw_plan *plan, lw_step_kind kind, const lw_plan_arg *args,
                              uint32_t count) {
  lw_plan_step step = {.kind = kind, .arg_count = count, .grid = BLOCKS, .bytes = BYTES};
  assert_int_equal(lw__arena_dup(&plan->arena, args, count * sizeof *args, &step.args), LW_OK);
  return step;
}

static void make_plan(lw_plan *plan) {
  lw__plan_init(plan, LW_PLAN_CUDA);
  plan->sm_arch = 90;
  plan->arch_specific = true;
  for (int i = 0; i < COUNT; i++) weights[i] = (float)i;
  static const char image[] = LW_STANDIN_IMAGE, second_image[] = LW_STANDIN_IMAGE;
  lw_plan_kernel kernel = {
      .name = "lw_map_scale", .block_threads = 128, .image = image, .image_bytes = sizeof image};
  assert_int_equal(lw_vec_push(&plan->kernels, kernel), LW_OK);
  kernel.name = "lw_map_add";
  kernel.shared_bytes = 64 << 10;
  kernel.early_start = true; /* step 1, which waits for step 0 */
  kernel.image = second_image;
  assert_int_equal(lw_vec_push(&plan->kernels, kernel), LW_OK);
  uint32_t x = add_buffer(plan, LW_BUFFER_INPUT, 0, NULL);
  uint32_t w = add_buffer(plan, LW_BUFFER_WEIGHT, 0, weights);
  uint32_t scratch = add_buffer(plan, LW_BUFFER_ARENA, 0, NULL);
  uint32_t w2 = add_buffer(plan, LW_BUFFER_DERIVED, 0, NULL);
  uint32_t t = add_buffer(plan, LW_BUFFER_ARENA, 0, NULL);
  uint32_t out = add_buffer(plan, LW_BUFFER_OUTPUT, 0, NULL);
  uint32_t copy = add_buffer(plan, LW_BUFFER_OUTPUT, 1, NULL);
  lw_plan_arg scale[4] = {{.buffer = scratch, .written = true},
                          {.buffer = w},
                          {.kind = LW_ARG_SCALAR, .scalar = 2},
                          {.kind = LW_ARG_SCALAR, .scalar = 0}};
  assert_int_equal(lw_vec_push(&plan->init, make_step(plan, LW_STEP_LAUNCH, scale, 4)), LW_OK);
  lw_plan_arg move[2] = {{.buffer = w2, .written = true}, {.buffer = scratch}};
  assert_int_equal(lw_vec_push(&plan->init, make_step(plan, LW_STEP_COPY, move, 2)), LW_OK);
  lw_plan_arg map[4] = {{.buffer = t, .written = true},
                        {.buffer = x},
                        {.kind = LW_ARG_SCALAR, .scalar = 3},
                        {.kind = LW_ARG_SCALAR, .scalar = 1}};
  assert_int_equal(lw_vec_push(&plan->steps, make_step(plan, LW_STEP_LAUNCH, map, 4)), LW_OK);
  lw_plan_arg add[3] = {{.buffer = out, .written = true}, {.buffer = t}, {.buffer = w2}};
  lw_plan_step step = make_step(plan, LW_STEP_LAUNCH, add, 3);
  step.kernel = 1;
  step.label = "n1, n2";
  assert_int_equal(lw_vec_push(&plan->steps, step), LW_OK);
  lw_plan_arg last[2] = {{.buffer = copy, .written = true}, {.buffer = out}};
  assert_int_equal(lw_vec_push(&plan->steps, make_step(plan, LW_STEP_COPY, last, 2)), LW_OK);
  lw_plan_arg fill[1] = {{.buffer = copy, .written = true, .offset_bytes = BYTES - 8}};
  step = make_step(plan, LW_STEP_FILL, fill, 1);
  step.bytes = 8;
  assert_int_equal(lw_vec_push(&plan->steps, step), LW_OK);
  assert_int_equal(lw__plan_place_weights(plan), LW_OK);
  assert_int_equal(lw__plan_link(plan), LW_OK);
  assert_int_equal(lw__plan_place(plan), LW_OK);
  assert_int_equal(lw__plan_verify(plan, NULL), LW_OK);
}

typedef struct session {
  lw_rt_device *device;
  lw_rt_program *program;
  lw_rt_context *context;
} session;

static void close_session(session *s) {
  lw__rt_context_destroy(s->context);
  lw__rt_program_release(s->program);
  lw__rt_device_release(s->device);
}

static lw_status open_session(session *s, lw_diag *diag) {
  *s = (session){0};
  lw_plan plan;
  make_plan(&plan);
  lw_status status = lw__rt_device_open("cuda:0", &options, diag, &s->device);
  if (status == LW_OK) status = lw__rt_program_load(s->device, &plan, diag, &s->program);
  if (status == LW_OK) status = lw__rt_context_create(s->program, diag, &s->context);
  lw__plan_deinit(&plan);
  return status;
}

static lw_status bind_host(session *s, float *x, float *out, float *copy) {
  for (int i = 0; i < COUNT; i++) x[i] = (float)(i % 17);
  memset(out, 0xff, BYTES);
  memset(copy, 0xff, BYTES);
  lw_status status = lw__rt_bind_input(s->context, 0, x, BYTES, false);
  if (status == LW_OK) status = lw__rt_bind_output(s->context, 0, out, BYTES, false);
  if (status == LW_OK) status = lw__rt_bind_output(s->context, 1, copy, BYTES, false);
  return status;
}

static void check_results(const float *x, const float *out, const float *copy) {
  for (int i = 0; i < COUNT; i++) {
    float want = x[i] * 3 + 1 + 2 * (float)i;
    assert_true(out[i] == want);
    assert_true(copy[i] == (i >= COUNT - 2 ? 0 : want));
  }
}

/* ---- tests ---- */

static void test_device(void **state) {
  (void)state;
  lw_rt_device *device;
  assert_int_equal(lw__rt_device_open("auto", &options, NULL, &device), LW_OK);
  lw_rt_device_info info;
  lw__rt_device_info(device, &info);
  assert_string_equal(info.kind, "cuda");
  assert_string_equal(info.name, "stand-in 0");
  assert_int_equal(info.sm_arch, 90);
  assert_true(info.arch_specific);
  assert_int_equal(info.sm_count, 4);
  assert_int_equal(info.memory_bytes, 1 << 30);
  void *memory;
  assert_int_equal(lw__rt_alloc(device, 100, &memory), LW_OK);
  char in[100], out[100] = {0};
  memset(in, 7, sizeof in);
  assert_int_equal(lw__rt_upload(device, memory, in, 100), LW_OK);
  assert_int_equal(lw__rt_flush_cache(device), LW_OK);
  assert_int_equal(lw__rt_download(device, out, memory, 100), LW_OK);
  assert_memory_equal(in, out, 100);
  lw__rt_free(device, memory);
  assert_int_equal(lw__rt_alloc(device, (size_t)2 << 30, &memory), LW_STATUS_OUT_OF_MEMORY);
  lw__rt_device_release(device);
  assert_nothing_left();
}

static void test_no_device(void **state) {
  (void)state;
  lw_rt_device *device;
  assert_int_equal(lw__rt_device_open("cuda:1", &options, NULL, &device), LW_STATUS_DEVICE_FAILED);
  standin->device_count = 0;
  assert_int_equal(lw__rt_device_open("cuda", &options, NULL, &device), LW_STATUS_DEVICE_FAILED);
  standin->device_count = 1;
  standin->driver_version = 11080;
  lw_diag diag = {0};
  assert_int_equal(lw__rt_device_open("cuda", &options, &diag, &device), LW_STATUS_DEVICE_FAILED);
  assert_non_null(strstr(lw__diag_first_error(&diag), "CUDA 11.8"));
  lw__diag_deinit(&diag);
  const lw_rt_device_options not_cuda = {.cuda_path = "libm.so.6"};
  assert_int_equal(lw__rt_device_open("cuda", &not_cuda, NULL, &device), LW_STATUS_DEVICE_FAILED);
  assert_nothing_left();
}

static void test_host_bindings(void **state) {
  (void)state;
  static float x[COUNT], out[COUNT], copy[COUNT];
  session s;
  assert_int_equal(open_session(&s, NULL), LW_OK);
  for (int round = 0; round < 3; round++) {
    assert_int_equal(bind_host(&s, x, out, copy), LW_OK);
    uint64_t launches = standin->launches, memory = standin->live_memory;
    assert_int_equal(lw__rt_run(s.context, NULL), LW_OK);
    assert_int_equal(standin->launches - launches, 2);
    assert_int_equal(standin->live_memory, round == 0 ? memory + 3 : memory);
    check_results(x, out, copy);
  }
  lw_rt_stats stats;
  lw__rt_stats(s.context, &stats);
  assert_int_equal(stats.kernels, 2);
  assert_int_equal(stats.copies, 1);
  assert_int_equal(stats.fills, 1);
  assert_int_equal(stats.staging_copies, 3);
  assert_int_equal(stats.last_device_ns, 250000);
  lw_diag diag = {0};
  assert_int_equal(lw__rt_enqueue(s.context, NULL, &diag), LW_STATUS_USAGE);
  assert_non_null(strstr(lw__diag_first_error(&diag), "host memory"));
  lw__diag_deinit(&diag);
  close_session(&s);
  assert_nothing_left();
}

static void bind_device(lw_rt_context *context, char *dx, char *dout, char *dcopy) {
  assert_int_equal(lw__rt_bind_input(context, 0, dx, BYTES, true), LW_OK);
  assert_int_equal(lw__rt_bind_output(context, 0, dout, BYTES, true), LW_OK);
  assert_int_equal(lw__rt_bind_output(context, 1, dcopy, BYTES, true), LW_OK);
}

/* Device memory, aligned (used in place) and not (copied on the device): in a run, in the caller's
 * stream, in the default stream, in the caller's capture, which is replayed. */
static void test_device_bindings(void **state) {
  (void)state;
  static float x[COUNT], out[COUNT], copy[COUNT];
  for (int i = 0; i < COUNT; i++) x[i] = (float)(i % 17);
  session s;
  assert_int_equal(open_session(&s, NULL), LW_OK);
  lw_cu_stream stream = open_stream();
  for (int unaligned = 0; unaligned < 2; unaligned++) {
    void *memory;
    assert_int_equal(lw__rt_alloc(s.device, 3 * BYTES + 64, &memory), LW_OK);
    char *dx = (char *)memory + (unaligned ? 4 : 0), *dout = dx + BYTES, *dcopy = dout + BYTES;
    assert_int_equal(lw__rt_upload(s.device, dx, x, BYTES), LW_OK);
    bind_device(s.context, dx, dout, dcopy);
    for (int way = 0; way < 4; way++) {
      uint64_t copies = standin->copies, waits = standin->waits;
      lw_cu_graph graph = NULL;
      lw_cu_exec exec = NULL;
      if (way == 3) assert_int_equal(cu_capture_begin(stream, 0), 0);
      if (way == 0) {
        assert_int_equal(lw__rt_run(s.context, NULL), LW_OK);
      } else {
        assert_int_equal(lw__rt_enqueue(s.context, way == 2 ? NULL : stream, NULL), LW_OK);
      }
      /* The first run that needs staging memory fills it with zeros. */
      assert_int_equal(standin->waits - waits, way != 0 ? 0 : unaligned ? 4 : 1);
      assert_int_equal(standin->copies - copies, unaligned ? 4 : 1);
      if (way == 3) {
        exec = end_capture(stream, &graph);
        for (int i = 0; i < 3; i++) assert_int_equal(cu_exec_launch(exec, stream), 0);
      }
      if (way != 0) assert_int_equal(cu_stream_wait(way == 2 ? NULL : stream), 0);
      assert_int_equal(lw__rt_download(s.device, out, dout, BYTES), LW_OK);
      assert_int_equal(lw__rt_download(s.device, copy, dcopy, BYTES), LW_OK);
      check_results(x, out, copy);
      assert_int_equal(lw__rt_upload(s.device, dout, x, BYTES), LW_OK); /* nothing stays right */
      assert_int_equal(lw__rt_upload(s.device, dcopy, x, BYTES), LW_OK);
      if (way == 3) destroy_graph(graph, exec);
    }
    lw_rt_stats stats;
    lw__rt_stats(s.context, &stats);
    assert_int_equal(stats.staging_copies, unaligned ? 3 : 0);
    lw__rt_free(s.device, memory);
  }
  close_session(&s);
  close_stream(stream);
  assert_nothing_left();
}

#define REFUSED(want, change)                                                    \
  do {                                                                           \
    lw_plan plan;                                                                \
    make_plan(&plan);                                                            \
    change;                                                                      \
    lw_diag diag = {0};                                                          \
    lw_rt_program *program;                                                      \
    assert_int_equal(lw__rt_program_load(device, &plan, &diag, &program), want); \
    assert_true(lw__diag_first_error(&diag)[0] != '\0');                         \
    lw__diag_deinit(&diag);                                                      \
    lw__plan_deinit(&plan);                                                      \
  } while (0)

static void test_bad_plans(void **state) {
  (void)state;
  lw_rt_device *device;
  assert_int_equal(lw__rt_device_open("cuda", &options, NULL, &device), LW_OK);
  REFUSED(LW_STATUS_USAGE, plan.target = LW_PLAN_CPU);
  REFUSED(LW_STATUS_USAGE, plan.sm_arch = 80);
  REFUSED(LW_STATUS_USAGE, plan.sm_arch = 100);
  REFUSED(LW_STATUS_USAGE, plan.sm_arch = 93; plan.arch_specific = false);
  REFUSED(LW_STATUS_INTERNAL, plan.kernels.data[0].image = NULL);
  REFUSED(LW_STATUS_DEVICE_FAILED, plan.kernels.data[0].image = "something else");
  REFUSED(LW_STATUS_DEVICE_FAILED, plan.kernels.data[1].name = "lw_map_none");
  REFUSED(LW_STATUS_DEVICE_FAILED, plan.kernels.data[1].block_threads = 1025);
  REFUSED(LW_STATUS_DEVICE_FAILED, plan.kernels.data[1].shared_bytes = 232449);
  REFUSED(LW_STATUS_UNSUPPORTED, plan.steps.data[0].grid = INT64_C(1) << 31);
  REFUSED(LW_STATUS_OUT_OF_MEMORY, plan.weight_bytes = UINT64_C(1) << 40);
  assert_clean();
  lw__rt_device_release(device);
  assert_nothing_left();
}

static void test_newer_minor(void **state) {
  (void)state;
  standin->arch_major = 8;
  standin->arch_minor = 9;
  lw_rt_device *device;
  lw_rt_program *program;
  assert_int_equal(lw__rt_device_open("cuda", &options, NULL, &device), LW_OK);
  lw_plan plan;
  make_plan(&plan);
  plan.sm_arch = 86;
  plan.arch_specific = false;
  assert_int_equal(lw__rt_program_load(device, &plan, NULL, &program), LW_OK);
  lw__rt_program_release(program);
  lw__plan_deinit(&plan);
  lw__rt_device_release(device);
  assert_nothing_left();
}

/* ---- failures ---- */

/* Host memory, aligned and unaligned device memory, new bindings, a caller's stream, a capture. */
static lw_status run_all_ways(session *s, char *memory, lw_cu_stream stream, float *const host[3],
                              lw_diag *diag) {
  LW_TRY(bind_host(s, host[0], host[1], host[2]));
  LW_TRY(lw__rt_run(s->context, diag));
  check_results(host[0], host[1], host[2]);
  for (int unaligned = 0; unaligned < 2; unaligned++) {
    char *at = memory + 4 * unaligned;
    bind_device(s->context, at, at + BYTES, at + 2 * BYTES);
    LW_TRY(lw__rt_run(s->context, diag));
    LW_TRY(lw__rt_enqueue(s->context, stream, diag));
  }
  lw_cu_graph graph;
  uint64_t later = standin->fail_at; /* the test's own calls do not count */
  standin->fail_at = 0;
  assert_int_equal(cu_capture_begin(stream, 0), 0);
  standin->fail_at = later;
  lw_status status = lw__rt_enqueue(s->context, stream, diag);
  later = standin->fail_at;
  standin->fail_at = 0;
  int ended = cu_capture_end(stream, &graph);
  if (ended == 0) assert_int_equal(cu_graph_destroy(graph), 0);
  standin->fail_at = later;
  assert_true(ended == 0 || status != LW_OK);
  return status;
}

/* The message says which call it was. */
static void check_message(const lw_diag *diag, const char *call) {
  char name[64];
  (void)snprintf(name, sizeof name, "%s", call);
  if (strstr(name, "_v2") != NULL) *strstr(name, "_v2") = '\0';
  if (strcmp(name, "cuGraphInstantiateWithFlags") == 0) name[strlen("cuGraphInstantiate")] = '\0';
  if (strcmp(name, "cuDeviceTotalMem") == 0) return;
  assert_int_equal(diag->messages.count, 1);
  const char *text = diag->messages.data[0].text;
  if (strstr(text, name) == NULL) fail_msg("'%s' does not name %s", text, name);
}

/* One driver call fails, each in its turn, with |code|. */
static uint64_t fail_each_call(int code, lw_status want) {
  static float x[COUNT], out[COUNT], copy[COUNT];
  float *const host[3] = {x, out, copy};
  uint64_t n = 1, failures = 0;
  for (bool over = false; !over; n++) {
    (void)reset_standin(NULL);
    lw_cu_stream stream = open_stream();
    lw_cu_address memory;
    assert_int_equal(cu_memory_alloc(&memory, 3 * BYTES + 64), 0);
    session s;
    lw_diag diag = {0};
    standin->fail_at = n;
    standin->fail_code = code;
    lw_status status = open_session(&s, &diag);
    if (status == LW_OK) status = run_all_ways(&s, (char *)(uintptr_t)memory, stream, host, &diag);
    over = standin->fail_at != 0;
    standin->fail_at = 0;
    assert_int_equal(standin->live_captures, 0);
    if (status != LW_OK) {
      failures++;
      assert_false(over);
      if (code == 700) {
        assert_true(status == LW_STATUS_DEVICE_LOST || status == LW_STATUS_DEVICE_FAILED);
      } else {
        assert_true(status == want || status == LW_STATUS_DEVICE_FAILED);
      }
      check_message(&diag, standin->failed_call);
    }
    /* The same context works again, or another one does. */
    if (s.context == NULL || status == LW_STATUS_DEVICE_LOST) {
      close_session(&s);
      assert_int_equal(open_session(&s, NULL), LW_OK);
    }
    lw_status again = run_all_ways(&s, (char *)(uintptr_t)memory, stream, host, NULL);
    bool lost = code == 700 && standin->failed_call_is_cleanup && again == LW_STATUS_DEVICE_LOST;
    if (!lost) assert_int_equal(again, LW_OK);
    close_session(&s);
    lw__diag_deinit(&diag);
    if (code != 700) {
      assert_int_equal(cu_memory_free(memory), 0);
      close_stream(stream);
      assert_nothing_left();
    } else { /* of the lost context nothing can be freed */
      bury();
      close_stream(stream);
      assert_clean();
      assert_int_equal(standin->retains, 0);
    }
  }
  return failures;
}

static void test_every_call_fails(void **state) {
  (void)state;
  assert_true(fail_each_call(1, LW_STATUS_DEVICE_FAILED) > 60);
  assert_true(fail_each_call(2, LW_STATUS_OUT_OF_MEMORY) > 60);
  assert_true(fail_each_call(77, LW_STATUS_DEVICE_FAILED) > 60);
  assert_true(fail_each_call(700, LW_STATUS_DEVICE_LOST) > 60);
}

/* A kernel that breaks the context: the run says so, and nothing is tried any more. */
static void test_lost_device(void **state) {
  (void)state;
  static float x[COUNT], out[COUNT], copy[COUNT];
  for (uint64_t n = 1; n < 12; n++) {
    (void)reset_standin(NULL);
    session s;
    assert_int_equal(open_session(&s, NULL), LW_OK);
    assert_int_equal(bind_host(&s, x, out, copy), LW_OK);
    standin->fail_at = n;
    standin->fail_code = 700;
    lw_diag diag = {0};
    lw_status status = lw__rt_run(s.context, &diag);
    if (!standin->failed_call_is_cleanup) {
      assert_int_equal(status, LW_STATUS_DEVICE_LOST);
      assert_non_null(strstr(lw__diag_first_error(&diag), "CUDA_ERROR_ILLEGAL_ADDRESS"));
      uint64_t calls = standin->calls;
      lw_diag later = {0};
      assert_int_equal(lw__rt_run(s.context, &later), LW_STATUS_DEVICE_LOST);
      assert_non_null(strstr(lw__diag_first_error(&later), "CUDA_ERROR_ILLEGAL_ADDRESS"));
      lw__diag_deinit(&later);
      assert_false(lw__rt_enqueue(s.context, NULL, NULL) == LW_OK);
      void *memory;
      assert_int_equal(lw__rt_alloc(s.device, 1, &memory), LW_STATUS_DEVICE_LOST);
      lw_plan plan;
      lw_rt_program *program;
      lw_rt_context *context;
      make_plan(&plan);
      assert_int_equal(lw__rt_program_load(s.device, &plan, NULL, &program), LW_STATUS_DEVICE_LOST);
      assert_int_equal(lw__rt_context_create(s.program, NULL, &context), LW_STATUS_DEVICE_LOST);
      lw__plan_deinit(&plan);
      assert_int_equal(standin->calls, calls);
    }
    lw__diag_deinit(&diag);
    close_session(&s);
    assert_clean();
    assert_int_equal(standin->retains, 0);
  }
}

/* What happens on the device is noticed when somebody waits: the message names what ran. */
static void test_late_errors(void **state) {
  (void)state;
  static float x[COUNT], out[COUNT], copy[COUNT];
  session s;
  assert_int_equal(open_session(&s, NULL), LW_OK);
  assert_int_equal(bind_host(&s, x, out, copy), LW_OK);
  assert_int_equal(lw__rt_run(s.context, NULL), LW_OK);
  uint64_t n = 1;
  lw_diag diag = {0};
  for (;; n++) { /* the n-th call is the one that waits */
    standin->fail_at = n;
    standin->fail_code = 1;
    lw_status status = lw__rt_run(s.context, &diag);
    if (status != LW_OK && strcmp(standin->failed_call, "cuStreamSynchronize") == 0) break;
    assert_int_equal(standin->fail_at, 0);
    lw__diag_deinit(&diag);
  }
  assert_string_equal(diag.messages.data[0].where,
                      "4 steps: step 0, kernel lw_map_scale; step 1 (n1, n2), kernel lw_map_add; "
                      "step 2; step 3");
  assert_string_equal(diag.messages.data[0].text,
                      "cuStreamSynchronize: CUDA_ERROR_INVALID_VALUE (1)");
  lw__diag_deinit(&diag);
  standin->fail_at = 0;
  close_session(&s);
  assert_nothing_left();
}

/* All kernels that the device does not take are found at once, before anything runs. */
static void test_refused_kernels(void **state) {
  (void)state;
  lw_rt_device *device;
  lw_rt_program *program;
  lw_plan plan;
  bool refused[2];
  lw_diag diag = {0};
  assert_int_equal(lw__rt_device_open("cuda", &options, NULL, &device), LW_OK);
  make_plan(&plan);
  (void)snprintf(standin->refuse, sizeof standin->refuse, "lw_map_scale");
  assert_int_equal(lw__rt_program_try(device, NULL, &plan, refused, &diag, &program),
                   LW_STATUS_DEVICE_FAILED);
  assert_true(refused[0] && !refused[1]);
  assert_string_equal(diag.messages.data[0].where, "lw_map_scale");
  plan.kernels.data[1].block_threads = 1025;
  assert_int_equal(lw__rt_program_try(device, NULL, &plan, refused, NULL, &program),
                   LW_STATUS_DEVICE_FAILED);
  assert_true(refused[0] && refused[1]);
  standin->refuse[0] = '\0';
  plan.kernels.data[1].block_threads = 128;
  plan.kernels.data[1].image = "no image";
  assert_int_equal(lw__rt_program_try(device, NULL, &plan, refused, NULL, &program),
                   LW_STATUS_DEVICE_FAILED);
  assert_true(!refused[0] && refused[1]);
  lw__diag_deinit(&diag);
  lw__plan_deinit(&plan);
  lw__rt_device_release(device);
  assert_nothing_left();
}

static void test_messages_name_the_step(void **state) {
  (void)state;
  static float x[COUNT], out[COUNT], copy[COUNT];
  session s;
  assert_int_equal(open_session(&s, NULL), LW_OK);
  assert_int_equal(bind_host(&s, x, out, copy), LW_OK);
  /* three allocations of five calls and uploads of six; push, mode, copy in, record, launch,
   * launch; or create the graph, add a node, add a node */
  standin->fail_at = 33 + (graphs ? 7 : 6);
  standin->fail_code = 77;
  lw_diag diag = {0};
  assert_int_equal(lw__rt_run(s.context, &diag), LW_STATUS_DEVICE_FAILED);
  assert_int_equal(diag.messages.count, 1);
  assert_string_equal(diag.messages.data[0].where, "step 1 (n1, n2), kernel lw_map_add");
  assert_string_equal(diag.messages.data[0].text,
                      graphs ? "cuGraphAddKernelNode: CUDA_ERROR_STANDIN (77)"
                             : "cuLaunchKernel: CUDA_ERROR_STANDIN (77)");
  lw__diag_deinit(&diag);
  /* The next run works. */
  assert_int_equal(lw__rt_run(s.context, NULL), LW_OK);
  check_results(x, out, copy);
  close_session(&s);
  assert_nothing_left();
}

/* A new binding edits the nodes that use it, and no others. */
static void test_graph_edits(void **state) {
  (void)state;
  static float x[COUNT], out[COUNT], copy[COUNT];
  for (int i = 0; i < COUNT; i++) x[i] = (float)(i % 17);
  session s;
  assert_int_equal(open_session(&s, NULL), LW_OK);
  void *memory;
  assert_int_equal(lw__rt_alloc(s.device, 6 * BYTES, &memory), LW_OK);
  static const struct {
    uint32_t x, out, copy, edits;
  } rounds[] = {{0, 1, 2, 0}, {0, 1, 2, 0}, {3, 1, 2, 1}, {3, 4, 2, 2}, {3, 4, 5, 2}, {0, 1, 2, 4}};
  for (size_t r = 0; r < LW_ARRAY_COUNT(rounds); r++) {
    char *dx = (char *)memory + rounds[r].x * BYTES, *dout = (char *)memory + rounds[r].out * BYTES;
    char *dcopy = (char *)memory + rounds[r].copy * BYTES;
    assert_int_equal(lw__rt_upload(s.device, dx, x, BYTES), LW_OK);
    assert_int_equal(lw__rt_bind_input(s.context, 0, dx, BYTES, true), LW_OK);
    assert_int_equal(lw__rt_bind_output(s.context, 0, dout, BYTES, true), LW_OK);
    assert_int_equal(lw__rt_bind_output(s.context, 1, dcopy, BYTES, true), LW_OK);
    uint64_t edits = standin->graph_edits;
    assert_int_equal(lw__rt_run(s.context, NULL), LW_OK);
    assert_int_equal(standin->graph_edits - edits, graphs ? rounds[r].edits : 0);
    assert_int_equal(standin->graph_launches, graphs ? r + 1 : 0);
    assert_int_equal(standin->early_edges, graphs ? 1 : 0);
    assert_int_equal(lw__rt_download(s.device, out, dout, BYTES), LW_OK);
    assert_int_equal(lw__rt_download(s.device, copy, dcopy, BYTES), LW_OK);
    check_results(x, out, copy);
  }
  lw__rt_free(s.device, memory);
  close_session(&s);
  assert_nothing_left();
}

/* A run that reads what another one, put into the default stream and not waited for, writes. */
static void test_default_stream_comes_first(void **state) {
  (void)state;
  static float x[COUNT], out[COUNT];
  for (int i = 0; i < COUNT; i++) x[i] = (float)(i % 17);
  session s;
  assert_int_equal(open_session(&s, NULL), LW_OK);
  lw_rt_context *second;
  assert_int_equal(lw__rt_context_create(s.program, NULL, &second), LW_OK);
  void *memory;
  assert_int_equal(lw__rt_alloc(s.device, 5 * BYTES, &memory), LW_OK);
  char *at = memory;
  assert_int_equal(lw__rt_upload(s.device, at, x, BYTES), LW_OK);
  assert_int_equal(lw__rt_bind_input(s.context, 0, at, BYTES, true), LW_OK);
  assert_int_equal(lw__rt_bind_output(s.context, 0, at + BYTES, BYTES, true), LW_OK);
  assert_int_equal(lw__rt_bind_output(s.context, 1, at + 2 * BYTES, BYTES, true), LW_OK);
  assert_int_equal(lw__rt_bind_input(second, 0, at + BYTES, BYTES, true), LW_OK);
  assert_int_equal(lw__rt_bind_output(second, 0, at + 3 * BYTES, BYTES, true), LW_OK);
  assert_int_equal(lw__rt_bind_output(second, 1, at + 4 * BYTES, BYTES, true), LW_OK);
  assert_int_equal(lw__rt_enqueue(s.context, NULL, NULL), LW_OK);
  assert_int_equal(lw__rt_run(second, NULL), LW_OK);
  assert_int_equal(lw__rt_download(s.device, out, at + 3 * BYTES, BYTES), LW_OK);
  for (int i = 0; i < COUNT; i++) {
    float middle = x[i] * 3 + 1 + 2 * (float)i;
    assert_true(out[i] == middle * 3 + 1 + 2 * (float)i);
  }
  lw__rt_free(s.device, memory);
  lw__rt_context_destroy(second);
  close_session(&s);
  assert_nothing_left();
}

/* Runs of one context in two streams share its memory: they come one after the other, and
 * destroying the context waits for them. */
static void test_two_streams(void **state) {
  (void)state;
  static float x[COUNT], out[COUNT], copy[COUNT];
  for (int i = 0; i < COUNT; i++) x[i] = (float)(i % 17);
  for (uint64_t seed = 0; seed < 40; seed++) {
    (void)reset_standin(NULL);
    standin->seed = seed;
    session s;
    assert_int_equal(open_session(&s, NULL), LW_OK);
    lw_cu_stream stream = open_stream(), second;
    assert_int_equal(cu_stream_create(&second, LW_CU_STREAM_NON_BLOCKING), 0);
    void *memory;
    assert_int_equal(lw__rt_alloc(s.device, 5 * BYTES, &memory), LW_OK);
    char *at = memory;
    assert_int_equal(lw__rt_upload(s.device, at, x, BYTES), LW_OK);
    for (int i = 0; i < 4; i++) {
      bind_device(s.context, at, at + (1 + i % 2 * 2) * BYTES, at + (2 + i % 2 * 2) * BYTES);
      assert_int_equal(lw__rt_enqueue(s.context, i % 2 == 0 ? stream : second, NULL), LW_OK);
      if (i == 1) assert_int_equal(lw__rt_run(s.context, NULL), LW_OK);
    }
    uint64_t waits = standin->waits;
    lw__rt_context_destroy(s.context);
    s.context = NULL;
    assert_true(standin->waits > waits);
    for (int i = 0; i < 2; i++) {
      assert_int_equal(lw__rt_download(s.device, out, at + (1 + 2 * i) * BYTES, BYTES), LW_OK);
      assert_int_equal(lw__rt_download(s.device, copy, at + (2 + 2 * i) * BYTES, BYTES), LW_OK);
      check_results(x, out, copy);
    }
    lw__rt_free(s.device, memory);
    close_session(&s);
    assert_int_equal(cu_stream_destroy(second), 0);
    close_stream(stream);
    assert_nothing_left();
  }
}

/* Everything, from opening the device on, while one of the caller's streams is being captured. */
static void test_first_call_in_a_capture(void **state) {
  (void)state;
  static float x[COUNT], out[COUNT], copy[COUNT];
  lw_cu_stream stream = open_stream();
  lw_cu_graph graph;
  session s;
  void *memory;
  assert_int_equal(cu_capture_begin(stream, 0), 0);
  assert_int_equal(open_session(&s, NULL), LW_OK);
  assert_int_equal(lw__rt_alloc(s.device, 3 * BYTES + 64, &memory), LW_OK);
  char *at = (char *)memory + 4; /* staging memory is needed */
  bind_device(s.context, at, at + BYTES, at + 2 * BYTES);
  assert_int_equal(lw__rt_enqueue(s.context, stream, NULL), LW_OK);
  lw_cu_exec exec = end_capture(stream, &graph);
  for (int round = 0; round < 3; round++) {
    for (int i = 0; i < COUNT; i++) x[i] = (float)(i % (17 + round));
    assert_int_equal(lw__rt_upload(s.device, at, x, BYTES), LW_OK);
    assert_int_equal(cu_exec_launch(exec, stream), 0);
    assert_int_equal(cu_stream_wait(stream), 0);
    assert_int_equal(lw__rt_download(s.device, out, at + BYTES, BYTES), LW_OK);
    assert_int_equal(lw__rt_download(s.device, copy, at + 2 * BYTES, BYTES), LW_OK);
    check_results(x, out, copy);
  }
  destroy_graph(graph, exec);
  lw__rt_free(s.device, memory);
  close_session(&s);
  close_stream(stream);
  assert_nothing_left();
}

static void test_without_memory(void **state) {
  (void)state;
  static float x[COUNT], out[COUNT], copy[COUNT];
  uint64_t n = 1;
  for (;; n++) {
    lw_plan plan;
    make_plan(&plan);
    session s = {0};
    lw__mem_fail_at(n);
    lw_status status = lw__rt_device_open("cuda", &options, NULL, &s.device);
    if (status == LW_OK) status = lw__rt_program_load(s.device, &plan, NULL, &s.program);
    if (status == LW_OK) status = lw__rt_context_create(s.program, NULL, &s.context);
    if (status == LW_OK) status = bind_host(&s, x, out, copy);
    if (status == LW_OK) status = lw__rt_run(s.context, NULL);
    lw__mem_fail_at(0);
    close_session(&s);
    lw__plan_deinit(&plan);
    assert_nothing_left();
    if (status == LW_OK) break;
    assert_int_equal(status, LW_STATUS_OUT_OF_MEMORY);
  }
  assert_true(n > 5);
}

#define CASE(test) cmocka_unit_test_setup(test, reset_standin)

int main(void) {
  const struct CMUnitTest tests[] = {
      CASE(test_device),
      CASE(test_no_device),
      CASE(test_host_bindings),
      CASE(test_device_bindings),
      CASE(test_bad_plans),
      CASE(test_newer_minor),
      CASE(test_every_call_fails),
      CASE(test_lost_device),
      CASE(test_late_errors),
      CASE(test_refused_kernels),
      CASE(test_messages_name_the_step),
      CASE(test_graph_edits),
      CASE(test_default_stream_comes_first),
      CASE(test_two_streams),
      CASE(test_first_call_in_a_capture),
      CASE(test_without_memory),
  };
  int failed = 0;
  for (int way = 0; way < 2; way++) {
    graphs = way == 0;
    failed += cmocka_run_group_tests_name(graphs ? "graphs" : "streams", tests, load_standin, NULL);
  }
  return failed;
}

/* The CUDA back end on a real GPU: kernels built by NVRTC, host and device bindings, the caller's
 * stream and capture, big shared memory, a broken kernel. Skipped (77) where there is no GPU or no
 * NVRTC. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include <cmocka.h>
#include <dlfcn.h>

#include "compiler/build/build_kernels.h"
#include "runtime/cuda/driver.h"
#include "runtime/runtime.h"

static const char source[] =
    "typedef long long i64;\n"
    "extern \"C\" __global__ void lw_map_scale(float *y, const float *x, i64 s0, i64 s1) {\n"
    "  i64 i = blockIdx.x * (i64)blockDim.x + threadIdx.x;\n"
    "  y[i] = x[i] * (float)s0 + (float)s1;\n"
    "}\n"
    /* through a large dynamic shared array, so that the attribute must have been set */
    "extern \"C\" __global__ void lw_map_add(float *y, const float *a, const float *b) {\n"
    /* launched while the kernel before it still runs */
    "#if __CUDA_ARCH__ >= 900\n"
    "  asm volatile(\"griddepcontrol.launch_dependents;\");\n"
    "  asm volatile(\"griddepcontrol.wait;\" : \"+l\"(y), \"+l\"(a), \"+l\"(b)::\"memory\");\n"
    "#endif\n"
    "  extern __shared__ float s[];\n"
    "  i64 i = blockIdx.x * (i64)blockDim.x + threadIdx.x;\n"
    "  float *far = s + 24 * 1024 - blockDim.x;\n"
    "  far[blockDim.x - 1 - threadIdx.x] = b[i];\n"
    "  __syncthreads();\n"
    "  y[i] = a[i] + far[blockDim.x - 1 - threadIdx.x];\n"
    "}\n"
    "extern \"C\" __global__ void lw_map_break(float *y) { *(float *)(8 + (i64)threadIdx.x) = "
    "y[0]; }\n";

enum { THREADS = 256, BLOCKS = 1000, COUNT = THREADS * BLOCKS, BYTES = 4 * COUNT };

static const char *const entries[] = {"lw_map_scale", "lw_map_add", "lw_map_break"};
static lw_arena build_arena;
static lw_build_job job;
static lw_rt_device *device;
static lw_rt_device_info info;
static float *weights, *x, *out, *copy;

static void build(void) {
  lw_build_options options = {.sm_arch = info.sm_arch, .arch_specific = info.arch_specific};
  lw_diag diag = {0};
  job = (lw_build_job){.source = source, .entries = entries, .entry_count = 3};
  if (lw__build_cuda(&job, 1, &options, NULL, &build_arena, &diag) != LW_OK) {
    print_message("skipped: %s\n", lw__diag_first_error(&diag));
    exit(77);
  }
  lw__diag_deinit(&diag);
}

static uint32_t add_buffer(lw_plan *plan, lw_buffer_kind kind, uint32_t index, const void *data) {
  lw_plan_buffer buffer = {.kind = kind, .index = index, .bytes = BYTES, .data = data};
  assert_int_equal(lw_vec_push(&plan->buffers, buffer), LW_OK);
  uint32_t id = plan->buffers.count - 1;
  lw_plan_io io = {.name = "t", .dtype = LW_DTYPE_F32, .rank = 1, .dims = {COUNT}, .buffer = id};
  if (kind == LW_BUFFER_INPUT) assert_int_equal(lw_vec_push(&plan->inputs, io), LW_OK);
  if (kind == LW_BUFFER_OUTPUT) assert_int_equal(lw_vec_push(&plan->outputs, io), LW_OK);
  return id;
}

static void add_step(lw_plan *plan, bool init, lw_step_kind kind, uint32_t kernel, uint64_t bytes,
                     uint32_t count, const lw_plan_arg *args) {
  lw_plan_step step = {
      .kind = kind, .kernel = kernel, .arg_count = count, .grid = BLOCKS, .bytes = bytes};
  assert_int_equal(lw__arena_dup(&plan->arena, args, count * sizeof *args, &step.args), LW_OK);
  assert_int_equal(init ? lw_vec_push(&plan->init, step) : lw_vec_push(&plan->steps, step), LW_OK);
}

/* out = (x * 3 + 1) + w2, w2 = w * 2 made by the init program; copy = out, its last 8 bytes 0 */
static void make_plan(lw_plan *plan) {
  lw__plan_init(plan, LW_PLAN_CUDA);
  plan->sm_arch = info.sm_arch;
  plan->arch_specific = info.arch_specific;
  for (int k = 0; k < 3; k++) {
    lw_plan_kernel kernel = {.name = entries[k],
                             .block_threads = THREADS,
                             .image = job.image,
                             .image_bytes = job.image_bytes,
                             .shared_bytes = k == 1 ? 96 << 10 : 0,
                             .early_start = k == 1 && info.sm_arch >= 90};
    assert_int_equal(lw_vec_push(&plan->kernels, kernel), LW_OK);
  }
  uint32_t in = add_buffer(plan, LW_BUFFER_INPUT, 0, NULL),
           w = add_buffer(plan, LW_BUFFER_WEIGHT, 0, weights);
  uint32_t scratch = add_buffer(plan, LW_BUFFER_ARENA, 0, NULL),
           w2 = add_buffer(plan, LW_BUFFER_DERIVED, 0, NULL);
  uint32_t t = add_buffer(plan, LW_BUFFER_ARENA, 0, NULL);
  uint32_t o = add_buffer(plan, LW_BUFFER_OUTPUT, 0, NULL),
           c = add_buffer(plan, LW_BUFFER_OUTPUT, 1, NULL);
#define BUFFER(id, write, at) {.buffer = (id), .written = (write), .offset_bytes = (at)}
#define SCALAR(value) \
  { .kind = LW_ARG_SCALAR, .scalar = (value) }
#define STEP(init, kind, kernel, bytes, count, ...) \
  add_step(plan, init, kind, kernel, bytes, count, (const lw_plan_arg[]){__VA_ARGS__})
  STEP(true, LW_STEP_LAUNCH, 0, 0, 4, BUFFER(scratch, true, 0), BUFFER(w, false, 0), SCALAR(2),
       SCALAR(0));
  STEP(true, LW_STEP_COPY, 0, BYTES, 2, BUFFER(w2, true, 0), BUFFER(scratch, false, 0));
  STEP(false, LW_STEP_LAUNCH, 0, 0, 4, BUFFER(t, true, 0), BUFFER(in, false, 0), SCALAR(3),
       SCALAR(1));
  STEP(false, LW_STEP_LAUNCH, 1, 0, 3, BUFFER(o, true, 0), BUFFER(t, false, 0),
       BUFFER(w2, false, 0));
  STEP(false, LW_STEP_COPY, 0, BYTES, 2, BUFFER(c, true, 0), BUFFER(o, false, 0));
  STEP(false, LW_STEP_FILL, 0, 8, 1, BUFFER(c, true, BYTES - 8));
  assert_int_equal(lw__plan_place_weights(plan), LW_OK);
  assert_int_equal(lw__plan_link(plan), LW_OK);
  assert_int_equal(lw__plan_place(plan), LW_OK);
  assert_int_equal(lw__plan_verify(plan, NULL), LW_OK);
}

static lw_rt_context *open_context(void) {
  lw_plan plan;
  lw_rt_program *program;
  lw_rt_context *context;
  lw_diag diag = {0};
  make_plan(&plan);
  if (lw__rt_program_load(device, &plan, &diag, &program) != LW_OK)
    fail_msg("%s", lw__diag_first_error(&diag));
  if (lw__rt_context_create(program, &diag, &context) != LW_OK)
    fail_msg("%s", lw__diag_first_error(&diag));
  lw__rt_program_release(program);
  lw__plan_deinit(&plan);
  return context;
}

static void check_results(void) {
  for (int i = 0; i < COUNT; i++) {
    float want = x[i] * 3 + 1 + 2 * weights[i];
    if (out[i] != want || copy[i] != (i >= COUNT - 2 ? 0 : want)) {
      fail_msg("element %d: %g and %g, not %g", i, (double)out[i], (double)copy[i], (double)want);
    }
  }
  memset(out, 0xff, BYTES);
  memset(copy, 0xff, BYTES);
}

static void test_host_memory(void **state) {
  (void)state;
  lw_rt_context *context = open_context();
  lw_diag diag = {0};
  for (int i = 0; i < 5; i++) {
    x[7] = (float)i;
    assert_int_equal(lw__rt_bind_input(context, 0, x, BYTES, false), LW_OK);
    assert_int_equal(lw__rt_bind_output(context, 0, out, BYTES, false), LW_OK);
    assert_int_equal(lw__rt_bind_output(context, 1, copy, BYTES, false), LW_OK);
    if (lw__rt_run(context, &diag) != LW_OK) fail_msg("%s", lw__diag_first_error(&diag));
    check_results();
  }
  lw_rt_stats stats;
  lw__rt_stats(context, &stats);
  assert_true(stats.last_device_ns > 1000 && stats.last_device_ns < 100000000);
  print_message("4 steps on %d floats: %.1f us on the device\n", COUNT,
                (double)stats.last_device_ns * 1e-3);
  lw__rt_context_destroy(context);
}

/* Functions that only this test needs. */
static void *driver_symbol(const char *name) {
  void *handle = dlopen("libcuda.so.1", RTLD_NOW);
  void *symbol = dlsym(handle, name);
  if (symbol == NULL) fail_msg("no %s", name);
  return symbol;
}

static void test_device_memory(void **state) {
  (void)state;
  int (*stream_create)(void **, unsigned), (*stream_wait)(void *), (*stream_destroy)(void *);
  int (*begin)(void *, int), (*end)(void *, void **),
      (*instantiate)(void **, void *, unsigned long long);
  int (*launch)(void *, void *), (*retain)(void **, int), (*push)(void *), (*pop)(void **),
      (*current)(void **);
#define FIND(function, name)                 \
  do {                                       \
    void *found = driver_symbol(name);       \
    memcpy(&function, &found, sizeof found); \
  } while (0)
  FIND(stream_create, "cuStreamCreate");
  FIND(stream_wait, "cuStreamSynchronize");
  FIND(stream_destroy, "cuStreamDestroy_v2");
  FIND(begin, "cuStreamBeginCapture_v2");
  FIND(end, "cuStreamEndCapture");
  FIND(instantiate, "cuGraphInstantiateWithFlags");
  FIND(launch, "cuGraphLaunch");
  FIND(retain, "cuDevicePrimaryCtxRetain");
  FIND(push, "cuCtxPushCurrent_v2");
  FIND(pop, "cuCtxPopCurrent_v2");
  FIND(current, "cuCtxGetCurrent");
  void *primary, *stream, *now = &stream;
  assert_int_equal(retain(&primary, 0), 0);
  for (int unaligned = 0; unaligned < 2; unaligned++) {
    lw_rt_context *context = open_context();
    void *memory;
    assert_int_equal(lw__rt_alloc(device, 3 * BYTES + 64, &memory), LW_OK);
    char *dx = (char *)memory + 4 * unaligned, *dout = dx + BYTES, *dcopy = dout + BYTES;
    assert_int_equal(lw__rt_upload(device, dx, x, BYTES), LW_OK);
    assert_int_equal(lw__rt_bind_input(context, 0, dx, BYTES, true), LW_OK);
    assert_int_equal(lw__rt_bind_output(context, 0, dout, BYTES, true), LW_OK);
    assert_int_equal(lw__rt_bind_output(context, 1, dcopy, BYTES, true), LW_OK);
    assert_int_equal(push(primary), 0);
    assert_int_equal(stream_create(&stream, 1), 0);
    /* Own stream, caller's stream, legacy default stream, caller's capture replayed. */
    for (int way = 0; way < 4; way++) {
      void *graph, *exec;
      lw_status status = LW_OK;
      if (way == 0) status = lw__rt_run(context, NULL);
      if (way == 1) status = lw__rt_enqueue(context, stream, NULL);
      if (way == 2) status = lw__rt_enqueue(context, NULL, NULL);
      if (way == 3) {
        assert_int_equal(begin(stream, 0), 0);
        status = lw__rt_enqueue(context, stream, NULL);
        assert_int_equal(end(stream, &graph), 0);
        assert_int_equal(instantiate(&exec, graph, 0), 0);
        for (int i = 0; i < 3; i++) assert_int_equal(launch(exec, stream), 0);
      }
      assert_int_equal(status, LW_OK);
      assert_int_equal(stream_wait(stream), 0);
      assert_int_equal(stream_wait(NULL), 0);
      assert_int_equal(lw__rt_download(device, out, dout, BYTES), LW_OK);
      assert_int_equal(lw__rt_download(device, copy, dcopy, BYTES), LW_OK);
      check_results();
    }
    assert_int_equal(stream_destroy(stream), 0);
    assert_int_equal(current(&now), 0);
    assert_ptr_equal(now, primary);
    assert_int_equal(pop(&now), 0);
    lw__rt_free(device, memory);
    lw__rt_context_destroy(context);
    assert_int_equal(lw__rt_flush_cache(device), LW_OK);
  }
}

static void test_refusals(void **state) {
  (void)state;
  lw_plan plan;
  lw_rt_program *program;
  lw_diag diag = {0};
  make_plan(&plan);
  plan.kernels.data[0].image = "no cubin at all, and long enough to be looked at by the driver";
  assert_int_equal(lw__rt_program_load(device, &plan, &diag, &program), LW_STATUS_DEVICE_FAILED);
  print_message("%s\n", lw__diag_first_error(&diag));
  plan.kernels.data[0].image = job.image;
  plan.kernels.data[0].name = "lw_map_none";
  assert_int_equal(lw__rt_program_load(device, &plan, NULL, &program), LW_STATUS_DEVICE_FAILED);
  plan.kernels.data[0].name = entries[0];
  plan.kernels.data[1].shared_bytes = 1 << 20;
  assert_int_equal(lw__rt_program_load(device, &plan, NULL, &program), LW_STATUS_DEVICE_FAILED);
  lw__diag_deinit(&diag);
  lw__plan_deinit(&plan);
  void *memory;
  assert_int_equal(lw__rt_alloc(device, (size_t)1 << 44, &memory), LW_STATUS_OUT_OF_MEMORY);
  test_host_memory(state); /* and everything still works */
}

/* Last: it breaks the context of the whole process. */
static void test_broken_kernel(void **state) {
  (void)state;
  lw_plan plan;
  lw_rt_program *program;
  lw_rt_context *context;
  make_plan(&plan);
  plan.steps.count = 0;
  const lw_plan_arg arg = {.buffer = 5, .written = true};
  add_step(&plan, false, LW_STEP_LAUNCH, 2, 0, 1, &arg);
  assert_int_equal(lw__rt_program_load(device, &plan, NULL, &program), LW_OK);
  assert_int_equal(lw__rt_context_create(program, NULL, &context), LW_OK);
  assert_int_equal(lw__rt_bind_input(context, 0, x, BYTES, false), LW_OK);
  assert_int_equal(lw__rt_bind_output(context, 0, out, BYTES, false), LW_OK);
  assert_int_equal(lw__rt_bind_output(context, 1, copy, BYTES, false), LW_OK);
  for (int i = 0; i < 2; i++) {
    lw_diag diag = {0};
    assert_int_equal(lw__rt_run(context, &diag), LW_STATUS_DEVICE_LOST);
    print_message("%s\n", lw__diag_first_error(&diag));
    lw__diag_deinit(&diag);
  }
  lw__rt_context_destroy(context);
  lw__rt_program_release(program);
  lw__plan_deinit(&plan);
}

static lw_status open_device(uint32_t graph_min_steps, lw_diag *diag) {
  const lw_rt_device_options options = {.graph_min_steps = graph_min_steps};
  return lw__rt_device_open("cuda", &options, diag, &device);
}

int main(void) {
  lw_diag diag = {0};
  if (open_device(0, &diag) != LW_OK) {
    print_message("skipped: %s\n", lw__diag_first_error(&diag));
    lw__diag_deinit(&diag);
    return 77;
  }
  lw__rt_device_info(device, &info);
  print_message("%s, sm_%u%s, %u multiprocessors\n", info.name, info.sm_arch,
                info.arch_specific ? "a" : "", info.sm_count);
  build();
  float **arrays[] = {&weights, &x, &out, &copy};
  for (size_t i = 0; i < LW_ARRAY_COUNT(arrays); i++) *arrays[i] = calloc(COUNT, sizeof(float));
  for (int i = 0; i < COUNT; i++) {
    weights[i] = (float)(i % 1021);
    x[i] = (float)(i % 17);
  }
  const struct CMUnitTest tests[] = {
      cmocka_unit_test(test_host_memory),
      cmocka_unit_test(test_device_memory),
      cmocka_unit_test(test_refusals),
  };
  const struct CMUnitTest last[] = {cmocka_unit_test(test_broken_kernel)};
  int failed = cmocka_run_group_tests_name("graphs", tests, NULL, NULL);
  lw__rt_device_release(device);
  if (open_device(UINT32_MAX, NULL) != LW_OK) return 1;
  failed += cmocka_run_group_tests_name("streams", tests, NULL, NULL);
  failed += cmocka_run_group_tests_name("broken", last, NULL, NULL);
  lw__rt_device_release(device);
  lw__arena_deinit(&build_arena);
  for (size_t i = 0; i < LW_ARRAY_COUNT(arrays); i++) free(*arrays[i]);
  return failed;
}

/* Running plans on the CPU and on the null device: results, bindings, life times, failures. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include <cmocka.h>
#include <pthread.h>
#include <unistd.h>

#include "runtime/runtime.h"

/* ---- kernels, compiled when the tests start ---- */

static const char kernel_source[] =
    "typedef long i64;\n"
    /* y = x * s0 + s1, 4 elements a block */
    "void lw_map_scale(void *const *b, const i64 *s, i64 begin, i64 end) {\n"
    "  for (i64 i = begin * 4; i < end * 4; i++)\n"
    "    ((float *)b[0])[i] = ((const float *)b[1])[i] * (float)s[0] + (float)s[1];\n"
    "}\n"
    "void lw_map_add(void *const *b, const i64 *s, i64 begin, i64 end) {\n"
    "  for (i64 i = begin * 4; i < end * 4; i++)\n"
    "    ((float *)b[0])[i] = ((const float *)b[1])[i] + ((const float *)b[2])[i];\n"
    "}\n";

static void *image_data[2];
static size_t image_bytes[2];

static void compile(const char *dir, const char *source, int index) {
  char path[256], command[1024];
  snprintf(path, sizeof path, "%s/k%d.c", dir, index);
  FILE *file = fopen(path, "w");
  assert_non_null(file);
  fputs(source, file);
  fclose(file);
  snprintf(command, sizeof command, "cc -O2 -shared -fPIC -o %s/k%d.so %s", dir, index, path);
  assert_int_equal(system(command), 0);
  snprintf(path, sizeof path, "%s/k%d.so", dir, index);
  file = fopen(path, "r");
  assert_non_null(file);
  image_data[index] = malloc(1 << 20);
  image_bytes[index] = fread(image_data[index], 1, 1 << 20, file);
  assert_true(image_bytes[index] > 0);
  fclose(file);
}

static int compile_kernels(void **state) {
  (void)state;
  char dir[] = "/tmp/lawson-test-XXXXXX";
  if (mkdtemp(dir) == NULL) return 1;
  compile(dir, kernel_source, 0);
  compile(dir,
          "void lw_map_scale(void *const *b, const long *s, long begin, long end) {\n"
          "  for (long i = begin * 4; i < end * 4; i++) ((float *)b[0])[i] = -1;\n"
          "}\n",
          1);
  char command[300];
  snprintf(command, sizeof command, "rm -rf %s", dir);
  return system(command);
}

static int free_kernels(void **state) {
  (void)state;
  free(image_data[0]);
  free(image_data[1]);
  return 0;
}

/* ---- the plan: out = (x * 3 + 1) + w2, w2 = w * 2 made by the init program; copy = out; half =
 * fill ---- */

#define BLOCKS 1000
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

static void make_plan(lw_plan *plan, int image) {
  lw__plan_init(plan, LW_PLAN_CPU);
  for (int i = 0; i < COUNT; i++) weights[i] = (float)i;
  const char *const names[] = {"lw_map_scale", "lw_map_add"};
  for (int i = 0; i < (image == 0 ? 2 : 1); i++) {
    lw_plan_kernel kernel = {.name = names[i],
                             .block_threads = 1,
                             .image = image_data[image],
                             .image_bytes = image_bytes[image]};
    assert_int_equal(lw_vec_push(&plan->kernels, kernel), LW_OK);
  }
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
  step.kernel = image == 0 ? 1 : 0;
  step.label = "n1, n2";
  assert_int_equal(lw_vec_push(&plan->steps, step), LW_OK);
  lw_plan_arg last[2] = {{.buffer = copy, .written = true}, {.buffer = out}};
  assert_int_equal(lw_vec_push(&plan->steps, make_step(plan, LW_STEP_COPY, last, 2)), LW_OK);
  lw_plan_arg fill[1] = {{.buffer = copy, .written = true, .offset_bytes = BYTES - 8}};
  step = make_step(plan, LW_STEP_FILL, fill, 1);
  step.bytes = 8;
  step.fill = 0;
  assert_int_equal(lw_vec_push(&plan->steps, step), LW_OK);
  assert_int_equal(lw__plan_place_weights(plan), LW_OK);
  assert_int_equal(lw__plan_link(plan), LW_OK);
  assert_int_equal(lw__plan_place(plan), LW_OK);
  assert_int_equal(lw__plan_verify(plan, NULL), LW_OK);
}

static lw_rt_context *open_context(const char *spec, uint32_t threads, int image) {
  lw_rt_device_options options = {.threads = threads};
  lw_rt_device *device;
  lw_rt_program *program;
  lw_rt_context *context;
  lw_plan plan;
  make_plan(&plan, image);
  assert_int_equal(lw__rt_device_open(spec, &options, NULL, &device), LW_OK);
  assert_int_equal(lw__rt_program_load(device, &plan, NULL, &program), LW_OK);
  lw__plan_deinit(&plan);
  assert_int_equal(lw__rt_context_create(program, NULL, &context), LW_OK);
  /* The context keeps both alive. */
  lw__rt_program_release(program);
  lw__rt_device_release(device);
  return context;
}

static void run_and_check(lw_rt_context *context, float *x, float *out, float *copy, float seed) {
  for (int i = 0; i < COUNT; i++) x[i] = seed + (float)(i % 17);
  memset(out, 0xff, BYTES);
  memset(copy, 0xff, BYTES);
  assert_int_equal(lw__rt_bind_input(context, 0, x, BYTES, false), LW_OK);
  assert_int_equal(lw__rt_bind_output(context, 0, out, BYTES, true), LW_OK);
  assert_int_equal(lw__rt_bind_output(context, 1, copy, BYTES, false), LW_OK);
  assert_int_equal(lw__rt_run(context, NULL), LW_OK);
  for (int i = 0; i < COUNT; i++) {
    float want = x[i] * 3 + 1 + 2 * (float)i;
    assert_true(out[i] == want);
    assert_true(copy[i] == (i >= COUNT - 2 ? 0 : want));
  }
}

static void test_results(void **state) {
  (void)state;
  static _Alignas(64) float x[COUNT], out[COUNT], copy[COUNT];
  for (uint32_t threads = 1; threads <= 3; threads++) {
    lw_rt_context *context = open_context("cpu", threads, 0);
    for (int i = 0; i < 20; i++) run_and_check(context, x, out, copy, (float)i);
    lw_rt_stats stats;
    lw__rt_stats(context, &stats);
    assert_int_equal(stats.kernels, 2);
    assert_int_equal(stats.copies, 1);
    assert_int_equal(stats.fills, 1);
    assert_int_equal(stats.library_calls, 0);
    assert_int_equal(stats.staging_copies, 0);
    assert_true(stats.arena_bytes >= BYTES && stats.weight_bytes >= 2 * BYTES);
    assert_true(stats.last_device_ns > 0);
    assert_int_equal(lw__rt_enqueue(context, NULL, NULL), LW_OK);
    lw__rt_context_destroy(context);
  }
}

static void test_unaligned_bindings(void **state) {
  (void)state;
  lw_rt_context *context = open_context("cpu", 2, 0);
  char *memory = malloc(3 * BYTES + 64);
  assert_non_null(memory);
  /* Floats, but not at multiples of 16 bytes. */
  run_and_check(context, (float *)(memory + 4), (float *)(memory + BYTES + 24),
                (float *)(memory + 2 * BYTES + 32), 5);
  lw_rt_stats stats;
  lw__rt_stats(context, &stats);
  assert_int_equal(stats.staging_copies, 2);
  lw__rt_context_destroy(context);
  free(memory);
}

static void test_usage(void **state) {
  (void)state;
  static _Alignas(64) float x[COUNT], out[COUNT];
  lw_rt_context *context = open_context("cpu", 1, 0);
  assert_int_equal(lw__rt_bind_input(context, 1, x, BYTES, true), LW_STATUS_USAGE);
  assert_int_equal(lw__rt_bind_input(context, 0, x, BYTES - 1, true), LW_STATUS_USAGE);
  assert_int_equal(lw__rt_bind_input(context, 0, NULL, BYTES, true), LW_STATUS_USAGE);
  assert_int_equal(lw__rt_bind_output(context, 2, x, BYTES, true), LW_STATUS_USAGE);
  lw_diag diag = {0};
  assert_int_equal(lw__rt_run(context, &diag), LW_STATUS_USAGE);
  assert_non_null(strstr(lw__diag_first_error(&diag), "'x'"));
  lw__diag_deinit(&diag);
  assert_int_equal(lw__rt_bind_input(context, 0, x, BYTES, true), LW_OK);
  assert_int_equal(lw__rt_bind_output(context, 0, out, BYTES, true), LW_OK);
  assert_int_equal(lw__rt_run(context, &diag), LW_STATUS_USAGE);
  assert_non_null(strstr(lw__diag_first_error(&diag), "'copy'"));
  lw__diag_deinit(&diag);
  lw__rt_context_destroy(context);
}

static void test_device_specs(void **state) {
  (void)state;
  const char *const bad[] = {"",           "gpu",   "cuda:", "cuda:x", "cuda:-1",
                             "cuda:99999", "cpu:0", "null ", "cuda:1x"};
  for (size_t i = 0; i < LW_ARRAY_COUNT(bad); i++) {
    lw_rt_device *device;
    assert_int_equal(lw__rt_device_open(bad[i], NULL, NULL, &device), LW_STATUS_USAGE);
    assert_null(device);
  }
  const lw_rt_device_options nowhere = {.cuda_path = "/nowhere/libcuda.so.1"};
  lw_rt_device *device;
  assert_int_equal(lw__rt_device_open("cuda", &nowhere, NULL, &device), LW_STATUS_DEVICE_FAILED);
  assert_int_equal(lw__rt_device_open("auto", &nowhere, NULL, &device), LW_OK);
  lw_rt_device_info info;
  lw__rt_device_info(device, &info);
  assert_string_equal(info.kind, "cpu");
  assert_true(info.sm_count >= 1 && info.memory_bytes > 0 && info.name[0] != '\0');
  lw__rt_device_release(device);
}

/* An image gets the file name of one that was loaded and released before. */
static void test_images_are_not_confused(void **state) {
  (void)state;
  static _Alignas(64) float x[COUNT], out[COUNT], copy[COUNT];
  for (int round = 0; round < 3; round++) {
    lw_rt_context *context = open_context("cpu", 1, 0);
    run_and_check(context, x, out, copy, 1);
    lw_rt_context *other = open_context("cpu", 1, 1);
    assert_int_equal(lw__rt_bind_input(other, 0, x, BYTES, true), LW_OK);
    assert_int_equal(lw__rt_bind_output(other, 0, out, BYTES, true), LW_OK);
    assert_int_equal(lw__rt_bind_output(other, 1, copy, BYTES, true), LW_OK);
    assert_int_equal(lw__rt_run(other, NULL), LW_OK);
    assert_true(out[0] == -1 && out[COUNT - 1] == -1);
    if (round == 1) run_and_check(context, x, out, copy, 2);
    lw__rt_context_destroy(context);
    lw__rt_context_destroy(other);
  }
}

#define REFUSED(want, change)                                                    \
  do {                                                                           \
    lw_plan plan;                                                                \
    make_plan(&plan, 0);                                                         \
    change;                                                                      \
    lw_diag diag = {0};                                                          \
    lw_rt_program *program;                                                      \
    assert_int_equal(lw__rt_program_load(device, &plan, &diag, &program), want); \
    assert_null(program);                                                        \
    assert_true(lw__diag_first_error(&diag)[0] != '\0');                         \
    lw__diag_deinit(&diag);                                                      \
    lw__plan_deinit(&plan);                                                      \
  } while (0)

static void test_bad_plans(void **state) {
  (void)state;
  lw_rt_device *device;
  assert_int_equal(lw__rt_device_open("cpu", NULL, NULL, &device), LW_OK);
  REFUSED(LW_STATUS_USAGE, plan.target = LW_PLAN_CUDA);
  REFUSED(LW_STATUS_DEVICE_FAILED, plan.kernels.data[1].name = "lw_map_none");
  REFUSED(LW_STATUS_DEVICE_FAILED, plan.kernels.data[0].image_bytes = 100);
  REFUSED(LW_STATUS_DEVICE_FAILED, plan.kernels.data[0].image = kernel_source;
          plan.kernels.data[0].image_bytes = sizeof kernel_source);
  REFUSED(LW_STATUS_INTERNAL, plan.kernels.data[0].image = NULL);
  REFUSED(LW_STATUS_INTERNAL, plan.kernels.data[0].name = NULL);
  REFUSED(LW_STATUS_INTERNAL, plan.kernels.data[0].block_threads = 0);
  REFUSED(LW_STATUS_INTERNAL, plan.steps.data[0].kernel = 2);
  REFUSED(LW_STATUS_INTERNAL, plan.steps.data[0].grid = 0);
  REFUSED(LW_STATUS_INTERNAL, plan.steps.data[0].args[0].buffer = 7);
  REFUSED(LW_STATUS_INTERNAL, plan.steps.data[0].args[0].kind = LW_ARG_SCALAR);
  REFUSED(LW_STATUS_INTERNAL, plan.steps.data[2].bytes = BYTES + 1);
  REFUSED(LW_STATUS_INTERNAL, plan.steps.data[2].arg_count = 1);
  REFUSED(LW_STATUS_INTERNAL, plan.steps.data[3].args[0].offset_bytes = UINT64_MAX);
  REFUSED(LW_STATUS_INTERNAL, plan.steps.data[3].kind = (lw_step_kind)5);
  REFUSED(LW_STATUS_INTERNAL, plan.buffers.data[0].index = 1);
  REFUSED(LW_STATUS_INTERNAL, plan.buffers.data[2].offset = UINT64_MAX - 15);
  REFUSED(LW_STATUS_INTERNAL, plan.buffers.data[1].data = NULL);
  REFUSED(LW_STATUS_INTERNAL, plan.outputs.data[1].buffer = 5);
  REFUSED(LW_STATUS_INTERNAL, plan.inputs.data[0].buffer = 70);
  REFUSED(LW_STATUS_INTERNAL, plan.init.data[0].args[1].buffer = 0);
  REFUSED(LW_STATUS_INTERNAL, plan.arena_bytes = 0);
  REFUSED(LW_STATUS_INTERNAL, plan.weight_bytes = 256);
  REFUSED(LW_STATUS_OUT_OF_MEMORY, plan.weight_bytes = UINT64_MAX);
  lw__rt_device_release(device);
}

static void test_null_device(void **state) {
  (void)state;
  static _Alignas(64) float x[COUNT], out[COUNT];
  lw_rt_device *device;
  assert_int_equal(lw__rt_device_open("null", NULL, NULL, &device), LW_OK);
  for (int cuda = 0; cuda < 2; cuda++) {
    lw_plan plan;
    make_plan(&plan, 0);
    plan.target = cuda ? LW_PLAN_CUDA : LW_PLAN_CPU;
    plan.weight_bytes = UINT64_C(1) << 50; /* costs nothing here */
    lw_rt_program *program;
    lw_rt_context *context;
    assert_int_equal(lw__rt_program_load(device, &plan, NULL, &program), LW_OK);
    lw__plan_deinit(&plan);
    assert_int_equal(lw__rt_context_create(program, NULL, &context), LW_OK);
    out[0] = 5;
    assert_int_equal(lw__rt_bind_input(context, 0, x, BYTES, false), LW_OK);
    assert_int_equal(lw__rt_bind_output(context, 0, out, BYTES, false), LW_OK);
    assert_int_equal(lw__rt_run(context, NULL), LW_STATUS_USAGE);
    assert_int_equal(lw__rt_bind_output(context, 1, out, BYTES, false), LW_OK);
    assert_int_equal(lw__rt_run(context, NULL), LW_OK);
    lw_rt_stats stats;
    lw__rt_stats(context, &stats);
    assert_int_equal(stats.kernels, 2);
    assert_true(out[0] == 5);
    lw__rt_context_destroy(context);
    lw__rt_program_release(program);
  }
  lw__rt_device_release(device);
}

static void *run_context(void *data) {
  float *memory = malloc(3 * BYTES);
  for (int i = 0; i < 60; i++) {
    run_and_check(data, memory, memory + COUNT, memory + 2 * COUNT, (float)i);
  }
  free(memory);
  return NULL;
}

static void test_contexts_side_by_side(void **state) {
  (void)state;
  lw_rt_device_options options = {.threads = 3};
  lw_rt_device *device;
  lw_rt_program *program;
  lw_plan plan;
  make_plan(&plan, 0);
  assert_int_equal(lw__rt_device_open("cpu", &options, NULL, &device), LW_OK);
  assert_int_equal(lw__rt_program_load(device, &plan, NULL, &program), LW_OK);
  lw__plan_deinit(&plan);
  lw_rt_context *contexts[3];
  pthread_t threads[3];
  for (int i = 0; i < 3; i++)
    assert_int_equal(lw__rt_context_create(program, NULL, &contexts[i]), LW_OK);
  for (int i = 0; i < 3; i++) {
    assert_int_equal(pthread_create(&threads[i], NULL, run_context, contexts[i]), 0);
  }
  for (int i = 0; i < 3; i++) pthread_join(threads[i], NULL);
  for (int i = 0; i < 3; i++) lw__rt_context_destroy(contexts[i]);
  lw__rt_program_release(program);
  lw__rt_device_release(device);
}

static void test_empty_plan(void **state) {
  (void)state;
  lw_plan plan;
  lw__plan_init(&plan, LW_PLAN_CPU);
  lw_plan_buffer in = {.kind = LW_BUFFER_INPUT}, out = {.kind = LW_BUFFER_OUTPUT};
  assert_int_equal(lw_vec_push(&plan.buffers, in), LW_OK);
  assert_int_equal(lw_vec_push(&plan.buffers, out), LW_OK);
  lw_plan_io io = {.name = "e", .dtype = LW_DTYPE_F32, .rank = 1, .buffer = 0};
  assert_int_equal(lw_vec_push(&plan.inputs, io), LW_OK);
  io.buffer = 1;
  assert_int_equal(lw_vec_push(&plan.outputs, io), LW_OK);
  lw_plan_arg args[2] = {{.buffer = 1, .written = true}, {.buffer = 0}};
  lw_plan_step step = make_step(&plan, LW_STEP_COPY, args, 2);
  step.bytes = 0;
  assert_int_equal(lw_vec_push(&plan.steps, step), LW_OK);
  lw_rt_device *device;
  lw_rt_program *program;
  lw_rt_context *context;
  assert_int_equal(lw__rt_device_open("cpu", NULL, NULL, &device), LW_OK);
  assert_int_equal(lw__rt_program_load(device, &plan, NULL, &program), LW_OK);
  assert_int_equal(lw__rt_context_create(program, NULL, &context), LW_OK);
  assert_int_equal(lw__rt_bind_input(context, 0, NULL, 0, false), LW_OK);
  assert_int_equal(lw__rt_bind_output(context, 0, NULL, 0, false), LW_OK);
  assert_int_equal(lw__rt_run(context, NULL), LW_OK);
  lw__rt_context_destroy(context);
  lw__rt_program_release(program);
  lw__rt_device_release(device);
  lw__plan_deinit(&plan);
}

static void test_memory_helpers(void **state) {
  (void)state;
  lw_rt_device *device;
  assert_int_equal(lw__rt_device_open("cpu", NULL, NULL, &device), LW_OK);
  void *memory;
  assert_int_equal(lw__rt_alloc(device, 100, &memory), LW_OK);
  assert_int_equal((uintptr_t)memory % 256, 0);
  char in[100], out[100] = {0};
  memset(in, 7, sizeof in);
  assert_int_equal(lw__rt_upload(device, memory, in, 100), LW_OK);
  assert_int_equal(lw__rt_flush_cache(device), LW_OK);
  assert_int_equal(lw__rt_download(device, out, memory, 100), LW_OK);
  assert_memory_equal(in, out, 100);
  lw__rt_free(device, memory);
  lw__rt_free(device, NULL);
  assert_int_equal(lw__rt_alloc(device, 0, &memory), LW_OK);
  lw__rt_free(device, memory);
  assert_int_equal(lw__rt_alloc(device, SIZE_MAX, &memory), LW_STATUS_OUT_OF_MEMORY);
  lw__rt_device_release(device);
}

/* Every allocation on the way to a first run fails once. */
static void test_without_memory(void **state) {
  (void)state;
  static _Alignas(64) float out[2][COUNT];
  char *unaligned = malloc(BYTES + 16);
  lw_plan plan;
  make_plan(&plan, 0);
  uint32_t failures = 0;
  for (uint64_t n = 1;; n++) {
    lw_rt_device *device = NULL;
    lw_rt_program *program = NULL;
    lw_rt_context *context = NULL;
    lw__mem_fail_at(n);
    lw_status status = lw__rt_device_open("cpu", NULL, NULL, &device);
    if (status == LW_OK) status = lw__rt_program_load(device, &plan, NULL, &program);
    if (status == LW_OK) status = lw__rt_context_create(program, NULL, &context);
    if (status == LW_OK) status = lw__rt_bind_input(context, 0, unaligned + 4, BYTES, true);
    for (uint32_t i = 0; i < 2 && status == LW_OK; i++) {
      status = lw__rt_bind_output(context, i, out[i], BYTES, true);
    }
    if (status == LW_OK) status = lw__rt_run(context, NULL);
    lw__mem_fail_at(0);
    lw__rt_context_destroy(context);
    lw__rt_program_release(program);
    lw__rt_device_release(device);
    if (status == LW_OK) break;
    assert_int_equal(status, LW_STATUS_OUT_OF_MEMORY);
    failures++;
  }
  assert_true(failures > 10);
  lw__plan_deinit(&plan);
  free(unaligned);
}

int main(void) {
  const struct CMUnitTest tests[] = {
      cmocka_unit_test(test_results),
      cmocka_unit_test(test_unaligned_bindings),
      cmocka_unit_test(test_usage),
      cmocka_unit_test(test_device_specs),
      cmocka_unit_test(test_images_are_not_confused),
      cmocka_unit_test(test_bad_plans),
      cmocka_unit_test(test_null_device),
      cmocka_unit_test(test_contexts_side_by_side),
      cmocka_unit_test(test_empty_plan),
      cmocka_unit_test(test_memory_helpers),
      cmocka_unit_test(test_without_memory),
  };
  return cmocka_run_group_tests(tests, compile_kernels, free_kernels);
}

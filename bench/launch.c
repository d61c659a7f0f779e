/* launch.c: what a step costs on this GPU: chains and fans of tiny kernels, step by step in a
 * stream and as one graph. The numbers behind launch_us of the device profiles and graph_min_steps
 * of the runtime. Usage: bench_launch [path of libcuda] [path of libnvrtc] */
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "compiler/build/build_kernels.h"
#include "runtime/runtime.h"

enum { ELEMENTS = 1024, BYTES = 4 * ELEMENTS, RUNS = 200, STEPS_MAX = 256 };

static const char source[] =
    "#if __CUDA_ARCH__ >= 900\n"
    "#define EARLY asm volatile(\"griddepcontrol.launch_dependents;\"); \\\n"
    "  asm volatile(\"griddepcontrol.wait;\" : \"+l\"(y), \"+l\"(x)::\"memory\");\n"
    "#else\n"
    "#define EARLY\n"
    "#endif\n"
    "extern \"C\" __global__ void __launch_bounds__(256) lw_map_next(float *y, const float *x) {\n"
    "  int i = blockIdx.x * 256 + threadIdx.x;\n"
    "  y[i] = x[i] + 1.0f;\n"
    "}\n"
    "extern \"C\" __global__ void __launch_bounds__(256) lw_map_early(float *y, const float *x) {\n"
    "  EARLY\n"
    "  int i = blockIdx.x * 256 + threadIdx.x;\n"
    "  y[i] = x[i] + 1.0f;\n"
    "}\n";
static const char *const entries[] = {"lw_map_next", "lw_map_early"};

/* The columns. */
typedef struct shape {
  const char *name;
  bool wide, graph, early;
} shape;
static const shape shapes[] = {
    {"chain, stream", false, false, false}, {"chain, graph", false, true, false},
    {"chain, early", false, true, true},    {"wide, stream", true, false, false},
    {"wide, graph", true, true, false},     {"wide, early", true, true, true},
};

typedef struct bench {
  lw_arena arena;
  lw_build_job job;
  lw_rt_device_info info;
  const char *cuda_path;
} bench;

static int fail(const char *what, lw_diag *diag) {
  fprintf(stderr, "%s: %s\n", what, lw__diag_first_error(diag));
  lw__diag_deinit(diag);
  return 1;
}

static lw_status add_buffer(lw_plan *plan, lw_buffer_kind kind) {
  lw_plan_buffer buffer = {.kind = kind, .bytes = BYTES};
  LW_TRY(lw_vec_push(&plan->buffers, buffer));
  lw_plan_io io = {.name = "t",
                   .dtype = LW_DTYPE_F32,
                   .rank = 1,
                   .dims = {ELEMENTS},
                   .buffer = plan->buffers.count - 1};
  if (kind == LW_BUFFER_INPUT) return lw_vec_push(&plan->inputs, io);
  return kind == LW_BUFFER_OUTPUT ? lw_vec_push(&plan->outputs, io) : LW_OK;
}

/* |wide|: all steps but the last read the input and are independent; else each reads the one
 * before. */
static lw_status make_plan(const bench *b, uint32_t steps, const shape *s, lw_plan *plan) {
  lw__plan_init(plan, LW_PLAN_CUDA);
  plan->sm_arch = b->info.sm_arch;
  plan->arch_specific = b->info.arch_specific;
  bool early = s->early && b->info.sm_arch >= 90;
  lw_plan_kernel kernel = {.name = entries[early],
                           .block_threads = 256,
                           .image = b->job.image,
                           .image_bytes = b->job.image_bytes,
                           .early_start = early};
  LW_TRY(lw_vec_push(&plan->kernels, kernel));
  LW_TRY(add_buffer(plan, LW_BUFFER_INPUT));
  for (uint32_t i = 1; i < steps; i++) LW_TRY(add_buffer(plan, LW_BUFFER_ARENA));
  LW_TRY(add_buffer(plan, LW_BUFFER_OUTPUT));
  for (uint32_t i = 0; i < steps; i++) {
    const lw_plan_arg args[2] = {{.buffer = i + 1, .written = true},
                                 {.buffer = s->wide && i + 1 < steps ? 0 : i}};
    lw_plan_step step = {.grid = ELEMENTS / 256, .arg_count = 2};
    LW_TRY(lw__arena_dup(&plan->arena, args, sizeof args, &step.args));
    LW_TRY(lw_vec_push(&plan->steps, step));
  }
  LW_TRY(lw__plan_link(plan));
  return lw__plan_place(plan);
}

static int compare(const void *a, const void *b) {
  int64_t x = *(const int64_t *)a, y = *(const int64_t *)b;
  return x < y ? -1 : x > y;
}

static lw_status time_context(lw_rt_device *device, lw_rt_context *context, lw_diag *diag,
                              double *out_us) {
  static int64_t ns[RUNS];
  void *memory;
  LW_TRY(lw__rt_alloc(device, 2 * BYTES, &memory));
  lw_status status = lw__rt_bind_input(context, 0, memory, BYTES, true);
  if (status == LW_OK) status = lw__rt_bind_output(context, 0, (char *)memory + BYTES, BYTES, true);
  for (int i = -20; i < RUNS && status == LW_OK; i++) {
    lw_rt_stats stats;
    status = lw__rt_run(context, diag);
    lw__rt_stats(context, &stats);
    if (i >= 0) ns[i] = stats.last_device_ns;
  }
  lw__rt_free(device, memory);
  qsort(ns, RUNS, sizeof ns[0], compare);
  *out_us = (double)ns[RUNS / 2] * 1e-3;
  return status;
}

/* Median of the time from event to event. */
static lw_status measure(const bench *b, uint32_t steps, const shape *s, lw_diag *diag,
                         double *out_us) {
  lw_plan plan;
  lw_rt_device *device = NULL;
  lw_rt_program *program = NULL;
  lw_rt_context *context = NULL;
  const lw_rt_device_options options = {.cuda_path = b->cuda_path,
                                        .graph_min_steps = s->graph ? 1 : UINT32_MAX};
  lw_status status = make_plan(b, steps, s, &plan);
  if (status == LW_OK) status = lw__rt_device_open("cuda", &options, diag, &device);
  if (status == LW_OK) status = lw__rt_program_load(device, &plan, diag, &program);
  if (status == LW_OK) status = lw__rt_context_create(program, diag, &context);
  if (status == LW_OK) status = time_context(device, context, diag, out_us);
  lw__rt_context_destroy(context);
  lw__rt_program_release(program);
  lw__rt_device_release(device);
  lw__plan_deinit(&plan);
  return status;
}

int main(int argc, char **argv) {
  bench b = {.cuda_path = argc > 1 ? argv[1] : NULL};
  lw_diag diag = {0};
  lw_rt_device *device;
  const lw_rt_device_options options = {.cuda_path = b.cuda_path};
  if (lw__rt_device_open("cuda", &options, &diag, &device) != LW_OK) return fail("no GPU", &diag);
  lw__rt_device_info(device, &b.info);
  printf("%s: microseconds from event to event, median of %d\n", b.info.name, RUNS);
  lw_build_options build = {.sm_arch = b.info.sm_arch,
                            .arch_specific = b.info.arch_specific,
                            .nvrtc_path = argc > 2 ? argv[2] : NULL};
  b.job = (lw_build_job){.source = source, .entries = entries, .entry_count = 2};
  if (lw__build_cuda(&b.job, 1, &build, NULL, &b.arena, &diag) != LW_OK)
    return fail("no kernel", &diag);
  printf("%6s", "steps");
  for (size_t i = 0; i < LW_ARRAY_COUNT(shapes); i++) printf(" %14s", shapes[i].name);
  printf("\n");
  for (uint32_t steps = 1; steps <= STEPS_MAX; steps = steps < 8 ? steps + 1 : steps * 2) {
    printf("%6u", steps);
    for (size_t i = 0; i < LW_ARRAY_COUNT(shapes); i++) {
      double us = 0;
      if (measure(&b, steps, &shapes[i], &diag, &us) != LW_OK) return fail("run", &diag);
      printf(" %14.2f", us);
    }
    printf("\n");
  }
  lw__rt_device_release(device);
  lw__arena_deinit(&b.arena);
  return 0;
}

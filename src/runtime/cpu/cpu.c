/* cpu.c: runs plans on the CPU: kernels from shared objects, their blocks shared out over the pool.
 */
#include <stdio.h>
#include <string.h>
#include <unistd.h>

#include "runtime/cpu/image.h"
#include "runtime/cpu/pool.h"
#include "runtime/internal.h"

/* A launch that is predicted to take less is not worth waking anybody for. */
#define CPU_INLINE_US 2.0
/* Pieces per thread, so that a thread that was held up does not hold up the rest. */
#define CPU_PIECES_PER_THREAD 8

#define CPU_FLUSH_BYTES ((size_t)64 << 20)

/* How the C emitter prints kernels. */
typedef void (*cpu_kernel)(void *const *buffers, const int64_t *scalars, int64_t begin,
                           int64_t end);

typedef struct cpu_program {
  lw_rt_image *images;
  uint32_t image_count;
  cpu_kernel *kernels;
} cpu_program;

/* ---- device ---- */

static void cpu_name(char *out, size_t out_bytes) {
  (void)snprintf(out, out_bytes, "CPU");
  FILE *file = fopen("/proc/cpuinfo", "re");
  if (file == NULL) return;
  char line[256];
  while (fgets(line, sizeof line, file) != NULL) {
    if (strncmp(line, "model name", 10) != 0) continue;
    const char *value = strchr(line, ':');
    if (value == NULL) continue;
    value += strspn(value, ": \t");
    (void)snprintf(out, out_bytes, "%.*s", (int)strcspn(value, "\n"), value);
    break;
  }
  (void)fclose(file);
}

static lw_status cpu_device_open(lw_rt_device *device, uint32_t ordinal,
                                 const lw_rt_device_options *options, lw_diag *diag) {
  (void)ordinal;
  uint32_t threads = options->threads == 0 ? lw__rt_pool_cores() : options->threads;
  lw_rt_pool *pool;
  lw_status status = lw__rt_pool_create(threads, &pool);
  if (status != LW_OK) return lw__fail(diag, status, "cpu", "cannot start %u threads", threads);
  device->state = pool;
  cpu_name(device->name, sizeof device->name);
  device->info.sm_count = threads;
  long pages = sysconf(_SC_PHYS_PAGES), page = sysconf(_SC_PAGESIZE);
  if (pages > 0 && page > 0) device->info.memory_bytes = (uint64_t)pages * (uint64_t)page;
  return LW_OK;
}

static void cpu_device_close(lw_rt_device *device) { lw__rt_pool_destroy(device->state); }

static lw_status cpu_plan_check(lw_rt_device *device, const lw_plan *plan, lw_diag *diag) {
  (void)device;
  if (plan->target == LW_PLAN_CPU) return LW_OK;
  return lw__fail(diag, LW_STATUS_USAGE, "cpu", "this plan was compiled for a GPU");
}

/* ---- program ---- */

/* Kernels built together share an image, which must be loaded once. */
static lw_status cpu_load_image(lw_rt_program *program, const lw_plan *plan, uint32_t k,
                                uint32_t *image_of, lw_diag *diag) {
  cpu_program *state = program->state;
  const lw_plan_kernel *kernel = &plan->kernels.data[k];
  for (uint32_t other = 0; other < k; other++) {
    if (plan->kernels.data[other].image != kernel->image) continue;
    image_of[k] = image_of[other];
    return LW_OK;
  }
  LW_TRY(lw__rt_image_open(kernel->image, kernel->image_bytes, diag,
                           &state->images[state->image_count]));
  image_of[k] = state->image_count++;
  return LW_OK;
}

static lw_status cpu_program_open(lw_rt_program *program, const lw_plan *plan, lw_diag *diag) {
  uint32_t count = program->kernel_count;
  cpu_program *state;
  uint32_t *image_of;
  LW_TRY(lw__arena_alloc(&program->arena, 1, sizeof *state, &state));
  LW_TRY(lw__arena_alloc(&program->arena, count, sizeof *state->images, &state->images));
  LW_TRY(lw__arena_alloc(&program->arena, count, sizeof *state->kernels, &state->kernels));
  LW_TRY(lw__arena_alloc(&program->arena, count, sizeof *image_of, &image_of));
  program->state = state;
  for (uint32_t k = 0; k < count; k++) {
    LW_TRY(cpu_load_image(program, plan, k, image_of, diag));
    void *symbol = lw__rt_image_symbol(&state->images[image_of[k]], program->kernels[k].name);
    if (symbol == NULL) {
      return lw__fail(diag, LW_STATUS_DEVICE_FAILED, "cpu", "no kernel '%s' in its image",
                      program->kernels[k].name);
    }
    memcpy(&state->kernels[k], &symbol, sizeof symbol);
  }
  return LW_OK;
}

static void cpu_program_close(lw_rt_program *program) {
  cpu_program *state = program->state;
  if (state == NULL) return;
  for (uint32_t i = 0; i < state->image_count; i++) lw__rt_image_close(&state->images[i]);
}

/* ---- running ---- */

typedef struct cpu_launch {
  cpu_kernel kernel;
  void *const *buffers;
  const int64_t *scalars;
} cpu_launch;

static void cpu_range(void *arg, int64_t begin, int64_t end) {
  const cpu_launch *launch = arg;
  launch->kernel(launch->buffers, launch->scalars, begin, end);
}

static void cpu_launch_step(lw_rt_pool *pool, const cpu_launch *launch, const lw_rt_step *step) {
  bool small = step->predicted_us > 0 && step->predicted_us < CPU_INLINE_US;
  uint32_t threads = lw__rt_pool_threads(pool);
  if (small || threads == 1) {
    launch->kernel(launch->buffers, launch->scalars, 0, step->grid);
    return;
  }
  int64_t chunk = lw__max_i64(1, step->grid / ((int64_t)threads * CPU_PIECES_PER_THREAD));
  lw__rt_pool_run(pool, step->grid, chunk, cpu_range, (void *)(uintptr_t)launch);
}

/* |spans|: when each launch ran, room for one a step; NULL: nobody asks. */
static void cpu_run_segment(lw_rt_program *program, const lw_rt_segment *segment, void **slots,
                            lw_rt_spans *spans) {
  const cpu_program *state = program->state;
  lw_rt_pool *pool = program->device->state;
  for (uint32_t i = 0; i < segment->step_count; i++) {
    const lw_rt_step *step = &segment->steps[i];
    void **args = &slots[step->first_slot];
    if (step->kind == LW_STEP_LAUNCH) {
      cpu_launch launch = {.kernel = state->kernels[step->kernel],
                           .buffers = args,
                           .scalars = &segment->scalars[step->first_scalar]};
      int64_t begin = spans == NULL ? 0 : lw__now_ns();
      cpu_launch_step(pool, &launch, step);
      if (spans != NULL) spans->data[spans->count++] = (lw_rt_span){begin, lw__now_ns()};
    } else if (step->bytes != 0 && step->kind == LW_STEP_COPY) {
      memmove(args[0], args[1], (size_t)step->bytes);
    } else if (step->bytes != 0) {
      memset(args[0], step->fill, (size_t)step->bytes);
    }
  }
}

static lw_status cpu_program_init(lw_rt_program *program, void **slots, lw_diag *diag) {
  (void)diag;
  cpu_run_segment(program, &program->init, slots, NULL);
  return LW_OK;
}

static lw_status cpu_context_open(lw_rt_context *context, lw_diag *diag) {
  (void)context, (void)diag;
  return LW_OK;
}

static void cpu_context_close(lw_rt_context *context) { (void)context; }

static void cpu_run_context(lw_rt_context *context, lw_rt_spans *spans) {
  lw_rt_program *program = context->program;
  int64_t start = lw__now_ns();
  for (uint32_t i = 0; i < program->input_count; i++) {
    const lw_rt_binding *input = &context->inputs[i];
    if (lw__rt_binding_staged(input)) {
      memcpy(input->address, input->data, input->bytes);
    }
  }
  cpu_run_segment(program, &program->run, context->slots, spans);
  for (uint32_t i = 0; i < program->output_count; i++) {
    const lw_rt_binding *output = &context->outputs[i];
    if (lw__rt_binding_staged(output)) {
      memcpy(output->data, output->address, output->bytes);
    }
  }
  context->stats.last_device_ns = lw__now_ns() - start;
}

static lw_status cpu_run(lw_rt_context *context, lw_diag *diag) {
  (void)diag;
  cpu_run_context(context, NULL);
  return LW_OK;
}

static lw_status cpu_trace(lw_rt_context *context, lw_rt_spans *spans, lw_diag *diag) {
  (void)diag;
  LW_TRY(lw_vec_reserve(spans, context->program->run.step_count));
  cpu_run_context(context, spans);
  return LW_OK;
}

static lw_status cpu_wait(lw_rt_context *context, lw_diag *diag) {
  (void)context, (void)diag;
  return LW_OK;
}

static lw_status cpu_enqueue(lw_rt_context *context, void *stream, lw_diag *diag) {
  (void)stream;
  return cpu_run(context, diag);
}

/* ---- memory ---- */

static lw_status cpu_alloc(lw_rt_device *device, size_t bytes, const char *what, lw_diag *diag,
                           void **out) {
  (void)device;
  lw_status status = lw__rt_host_alloc(bytes, out);
  if (status == LW_OK) return LW_OK;
  return lw__fail(diag, status, what, "no room for %zu bytes", bytes);
}

static void cpu_free(lw_rt_device *device, void *ptr) {
  (void)device;
  lw__rt_host_free(ptr);
}

static lw_status cpu_move(lw_rt_device *device, void *dst, const void *src, size_t bytes,
                          lw_diag *diag) {
  (void)device, (void)diag;
  memmove(dst, src, bytes);
  return LW_OK;
}

static lw_status cpu_copy(lw_rt_device *device, void *stream, bool in_stream, void *dst,
                          const void *src, size_t bytes, lw_diag *diag) {
  (void)device, (void)stream, (void)in_stream, (void)diag;
  memcpy(dst, src, bytes);
  return LW_OK;
}

/* Writing more than the caches hold puts everything else out of them. */
static lw_status cpu_flush(lw_rt_device *device) {
  (void)device;
  void *memory;
  LW_TRY(lw__rt_host_alloc(CPU_FLUSH_BYTES, &memory));
  memset(memory, 1, CPU_FLUSH_BYTES);
  __asm__ volatile("" : : "r"(memory) : "memory");
  lw__rt_host_free(memory);
  return LW_OK;
}

const lw_rt_backend lw__rt_backend_cpu = {
    .kind = "cpu",
    .host_memory = true,
    .device_open = cpu_device_open,
    .device_close = cpu_device_close,
    .plan_check = cpu_plan_check,
    .program_open = cpu_program_open,
    .program_close = cpu_program_close,
    .program_init = cpu_program_init,
    .context_open = cpu_context_open,
    .context_close = cpu_context_close,
    .context_run = cpu_run,
    .context_trace = cpu_trace,
    .context_submit = cpu_run,
    .context_wait = cpu_wait,
    .context_enqueue = cpu_enqueue,
    .alloc = cpu_alloc,
    .free = cpu_free,
    .upload = cpu_move,
    .download = cpu_move,
    .copy = cpu_copy,
    .flush_cache = cpu_flush,
};

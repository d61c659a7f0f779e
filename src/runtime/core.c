/* core.c: devices, programs, contexts and bindings: everything that does not depend on the kind of
 * device. */
#include <stdlib.h>
#include <string.h>

#include "runtime/internal.h"

/* ---- host memory ---- */

lw_status lw__rt_host_alloc(size_t bytes, void **out) {
  *out = NULL;
  if (bytes > SIZE_MAX / 2) return LW_STATUS_OUT_OF_MEMORY;
  void *raw = NULL;
  LW_TRY(lw__mem_resize(&raw, bytes + LW_RT_ALIGN_BYTES + sizeof(void *)));
  uintptr_t start = (uintptr_t)raw + sizeof(void *);
  char *aligned = (char *)raw + sizeof(void *) +
                  (LW_RT_ALIGN_BYTES - start % LW_RT_ALIGN_BYTES) % LW_RT_ALIGN_BYTES;
  memcpy(aligned - sizeof raw, &raw, sizeof raw); /* for lw__rt_host_free */
  *out = aligned;
  return LW_OK;
}

void lw__rt_host_free(void *ptr) {
  if (ptr == NULL) return;
  void *raw;
  memcpy(&raw, (char *)ptr - sizeof raw, sizeof raw);
  lw__mem_free(raw);
}

/* ---- devices ---- */

static lw_status device_open(const lw_rt_backend *backend, uint32_t ordinal,
                             const lw_rt_device_options *options, lw_diag *diag,
                             lw_rt_device **out) {
  void *memory = NULL;
  LW_TRY(lw__mem_resize(&memory, sizeof(lw_rt_device)));
  lw_rt_device *device = memory;
  memset(device, 0, sizeof *device);
  device->backend = backend;
  device->info.kind = backend->kind;
  device->info.name = device->name;
  atomic_init(&device->references, 1);
  atomic_init(&device->allocations, 0);
  lw_status status = backend->device_open(device, ordinal, options, diag);
  if (status != LW_OK) {
    lw__mem_free(device);
    return status;
  }
  *out = device;
  return LW_OK;
}

/* The number after "cuda:"; false when it is none. */
static bool device_ordinal(const char *text, uint32_t *out_ordinal) {
  if (text[0] == '\0' || strlen(text) > 4) return false;
  uint32_t value = 0;
  for (; *text != '\0'; text++) {
    if (*text < '0' || *text > '9') return false;
    value = value * 10 + (uint32_t)(*text - '0');
  }
  *out_ordinal = value;
  return true;
}

lw_status lw__rt_device_open(const char *spec, const lw_rt_device_options *options, lw_diag *diag,
                             lw_rt_device **out) {
  static const lw_rt_device_options none;
  if (options == NULL) options = &none;
  *out = NULL;
  uint32_t ordinal = 0;
  if (strcmp(spec, "cpu") == 0) return device_open(&lw__rt_backend_cpu, 0, options, diag, out);
  if (strcmp(spec, "null") == 0) return device_open(&lw__rt_backend_null, 0, options, diag, out);
  if (strcmp(spec, "auto") == 0) {
    /* Why there is no GPU is of no interest when the CPU does. */
    lw_status status = device_open(&lw__rt_backend_cuda, 0, options, NULL, out);
    if (status == LW_OK || status == LW_STATUS_OUT_OF_MEMORY) return status;
    return device_open(&lw__rt_backend_cpu, 0, options, diag, out);
  }
  if (strcmp(spec, "cuda") == 0 ||
      (strncmp(spec, "cuda:", 5) == 0 && device_ordinal(spec + 5, &ordinal))) {
    return device_open(&lw__rt_backend_cuda, ordinal, options, diag, out);
  }
  return lw__fail(diag, LW_STATUS_USAGE, "device",
                  "'%s' is none of cpu, cuda, cuda:N, null and auto", spec);
}

void lw__rt_device_release(lw_rt_device *device) {
  if (device == NULL || atomic_fetch_sub(&device->references, 1) != 1) return;
  device->backend->device_close(device);
  lw__mem_free(device);
}

void lw__rt_device_retain(lw_rt_device *device) { atomic_fetch_add(&device->references, 1); }

void lw__rt_device_info(const lw_rt_device *device, lw_rt_device_info *out) { *out = device->info; }

/* ---- programs ---- */

static bool program_init_uses_arena(const lw_rt_program *program) {
  for (uint32_t i = 0; i < program->init.slot_count; i++) {
    const lw_rt_buffer *buffer = &program->buffers[program->init.slots[i].buffer];
    if (buffer->kind == LW_BUFFER_ARENA && buffer->bytes != 0) return true;
  }
  return false;
}

/* Addresses without bounds checks by the language: empty buffers may have the base NULL. */
static void *address_add(const void *base, uint64_t offset) {
  return (void *)((uintptr_t)base + (uintptr_t)offset);
}

static void resolve_slots(const lw_rt_program *program, const lw_rt_segment *segment, void *arena,
                          const lw_rt_binding *inputs, const lw_rt_binding *outputs, void **slots) {
  for (uint32_t i = 0; i < segment->slot_count; i++) {
    const lw_rt_buffer *buffer = &program->buffers[segment->slots[i].buffer];
    const void *base = NULL;
    switch (buffer->kind) {
      case LW_BUFFER_INPUT: base = inputs == NULL ? NULL : inputs[buffer->index].address; break;
      case LW_BUFFER_OUTPUT: base = outputs == NULL ? NULL : outputs[buffer->index].address; break;
      case LW_BUFFER_ARENA: base = arena; break;
      default: base = buffer->home; break;
    }
    uint64_t offset = buffer->kind == LW_BUFFER_ARENA ? buffer->offset : 0;
    slots[i] = address_add(base, offset + segment->slots[i].offset_bytes);
  }
}

static lw_status program_run_init(lw_rt_program *program, lw_diag *diag) {
  if (program->init.step_count == 0) return LW_OK;
  lw_rt_device *device = program->device;
  lw_arena memory = {0};
  void *arena = NULL;
  void **slots;
  lw_status status = lw__arena_alloc(&memory, program->init.slot_count, sizeof *slots, &slots);
  if (status == LW_OK && program_init_uses_arena(program)) {
    status = device->backend->alloc(device, (size_t)program->arena_bytes, "working memory", diag,
                                    &arena);
  }
  if (status == LW_OK) {
    resolve_slots(program, &program->init, arena, NULL, NULL, slots);
    status = device->backend->program_init(program, slots, diag);
  }
  if (arena != NULL) device->backend->free(device, arena);
  lw__arena_deinit(&memory);
  return status;
}

/* Everything that the init program touches must be there before a run: it has neither inputs nor
 * outputs. */
static bool program_init_is_closed(const lw_rt_program *program) {
  for (uint32_t i = 0; i < program->init.slot_count; i++) {
    lw_buffer_kind kind = program->buffers[program->init.slots[i].buffer].kind;
    if (kind == LW_BUFFER_INPUT || kind == LW_BUFFER_OUTPUT) return false;
  }
  return true;
}

static lw_status program_build(lw_rt_program *program, const lw_plan *plan, lw_diag *diag) {
  const lw_rt_backend *backend = program->device->backend;
  LW_TRY(backend->plan_check(program->device, plan, diag));
  LW_TRY(lw__rt_flatten(program, plan, diag));
  if (!program_init_is_closed(program)) {
    return lw__fail(diag, LW_STATUS_INTERNAL, "plan",
                    "the init program touches an input or output");
  }
  LW_TRY(backend->program_open(program, plan, diag));
  LW_TRY(lw__rt_weights_load(program, plan, diag));
  return program_run_init(program, diag);
}

static lw_status program_load(lw_rt_device *device, lw_rt_program *base, const lw_plan *plan,
                              bool *out_refused, lw_diag *diag, lw_rt_program **out) {
  *out = NULL;
  for (uint32_t k = 0; out_refused != NULL && k < plan->kernels.count; k++) out_refused[k] = false;
  void *memory = NULL;
  LW_TRY(lw__mem_resize(&memory, sizeof(lw_rt_program)));
  lw_rt_program *program = memory;
  memset(program, 0, sizeof *program);
  atomic_init(&program->references, 1);
  program->device = device;
  program->base = base;
  if (base != NULL) atomic_fetch_add(&base->references, 1);
  program->refused = out_refused;
  atomic_fetch_add(&device->references, 1);
  lw_status status = program_build(program, plan, diag);
  program->refused = NULL;
  if (status == LW_OK) {
    *out = program;
  } else {
    lw__rt_program_release(program);
  }
  return status;
}

lw_status lw__rt_program_load(lw_rt_device *device, const lw_plan *plan, lw_diag *diag,
                              lw_rt_program **out) {
  return program_load(device, NULL, plan, NULL, diag, out);
}

lw_status lw__rt_program_load_beside(lw_rt_program *base, const lw_plan *plan, lw_diag *diag,
                                     lw_rt_program **out) {
  return program_load(base->device, base, plan, NULL, diag, out);
}

lw_status lw__rt_program_try(lw_rt_device *device, lw_rt_program *base, const lw_plan *plan,
                             bool *out_refused, lw_diag *diag, lw_rt_program **out) {
  return program_load(device, base, plan, out_refused, diag, out);
}

void lw__rt_program_release(lw_rt_program *program) {
  if (program == NULL || atomic_fetch_sub(&program->references, 1) != 1) return;
  lw_rt_device *device = program->device;
  lw_rt_program *base = program->base;
  device->backend->program_close(program);
  if (program->weights != NULL) device->backend->free(device, program->weights);
  lw__arena_deinit(&program->arena);
  lw__mem_free(program);
  lw__rt_device_release(device);
  lw__rt_program_release(base); /* which has none itself */
}

void lw__rt_describe_step(const lw_rt_program *program, const lw_rt_segment *segment, uint32_t step,
                          lw_text *out) {
  const lw_rt_step *s = &segment->steps[step];
  lw__text_add(out, "%s %u", segment == &program->init ? "init step" : "step", step);
  if (s->label[0] != '\0') lw__text_add(out, " (%s)", s->label);
  if (s->kind == LW_STEP_LAUNCH) lw__text_add(out, ", kernel %s", program->kernels[s->kernel].name);
}

void lw__rt_describe_steps(const lw_rt_program *program, const lw_rt_segment *segment,
                           lw_text *out) {
  enum { NAMED_MAX = 6 };
  if (segment->step_count != 1) lw__text_add(out, "%u steps: ", segment->step_count);
  for (uint32_t i = 0; i < segment->step_count && i < NAMED_MAX; i++) {
    if (i != 0) lw__text_add(out, "; ");
    lw__rt_describe_step(program, segment, i, out);
  }
  if (segment->step_count > NAMED_MAX) lw__text_add(out, "; ...");
}

/* ---- contexts ---- */

static lw_status context_build(lw_rt_context *context, lw_diag *diag) {
  lw_rt_program *program = context->program;
  const lw_rt_backend *backend = program->device->backend;
  lw_arena *memory = &context->memory;
  LW_TRY(lw__arena_alloc(memory, program->input_count, sizeof *context->inputs, &context->inputs));
  LW_TRY(
      lw__arena_alloc(memory, program->output_count, sizeof *context->outputs, &context->outputs));
  LW_TRY(lw__arena_alloc(memory, program->run.slot_count, sizeof *context->slots, &context->slots));
  if (context->arena == NULL) LW_TRY(lw__rt_arena_create(program->device, &context->arena));
  LW_TRY(lw__rt_arena_reserve(context->arena, program->arena_bytes, diag));
  return backend->context_open(context, diag);
}

lw_status lw__rt_context_create(lw_rt_program *program, lw_diag *diag, lw_rt_context **out) {
  static const lw_rt_context_options none;
  return lw__rt_context_create_with(program, &none, diag, out);
}

lw_status lw__rt_context_create_with(lw_rt_program *program, const lw_rt_context_options *options,
                                     lw_diag *diag, lw_rt_context **out) {
  *out = NULL;
  void *memory = NULL;
  LW_TRY(lw__mem_resize(&memory, sizeof(lw_rt_context)));
  lw_rt_context *context = memory;
  memset(context, 0, sizeof *context);
  atomic_init(&context->busy, false);
  atomic_init(&context->submitted, false);
  context->program = program;
  context->stale = true;
  context->arena = options->arena;
  if (context->arena != NULL) atomic_fetch_add(&context->arena->references, 1);
  context->priority = options->priority;
  context->stats = program->counts;
  atomic_fetch_add(&program->references, 1);
  lw_status status = context_build(context, diag);
  if (status == LW_OK) {
    *out = context;
  } else {
    lw__rt_context_destroy(context);
  }
  return status;
}

static void context_free_staging(lw_rt_context *context, lw_rt_binding *bindings, uint32_t count) {
  lw_rt_device *device = context->program->device;
  for (uint32_t i = 0; bindings != NULL && i < count; i++) {
    if (bindings[i].staging != NULL) device->backend->free(device, bindings[i].staging);
  }
}

void lw__rt_context_destroy(lw_rt_context *context) {
  if (context == NULL) return;
  lw_rt_program *program = context->program;
  const lw_rt_backend *backend = program->device->backend;
  backend->context_close(context);
  context_free_staging(context, context->inputs, program->input_count);
  context_free_staging(context, context->outputs, program->output_count);
  lw__rt_arena_release(context->arena);
  lw__arena_deinit(&context->memory);
  lw__mem_free(context);
  lw__rt_program_release(program);
}

/* ---- bindings ---- */

/* Device memory for a whole input or output; zeros, since rows that are not bound are computed,
 * too. */
static lw_status binding_stage(lw_rt_device *device, lw_rt_binding *binding, const lw_rt_io *io,
                               lw_diag *diag) {
  size_t bytes = (size_t)io->bytes;
  void *zeros = NULL;
  LW_TRY(device->backend->alloc(device, bytes, io->name, diag, &binding->staging));
  lw_status status = lw__mem_resize(&zeros, bytes);
  if (status == LW_OK) {
    memset(zeros, 0, bytes);
    status = device->backend->upload(device, binding->staging, zeros, bytes, diag);
  }
  lw__mem_free(zeros);
  if (status == LW_OK) return LW_OK;
  device->backend->free(device, binding->staging);
  binding->staging = NULL;
  return status;
}

static lw_status bind(lw_rt_context *context, lw_rt_binding *binding, const lw_rt_io *io,
                      void *data, size_t bytes, bool on_device) {
  lw_rt_device *device = context->program->device;
  if (bytes > io->bytes || (data == NULL && bytes != 0)) return LW_STATUS_USAGE;
  if (atomic_load(&context->busy)) return LW_STATUS_USAGE;
  if (device->backend->host_memory) on_device = true;
  bool misplaced = !on_device || (uintptr_t)data % LW_RT_IO_ALIGN_BYTES != 0;
  binding->stage = io->bytes != 0 && (misplaced || bytes != io->bytes);
  binding->data = data;
  binding->bytes = bytes;
  binding->on_device = on_device || bytes == 0;
  binding->bound = true;
  context->stale = true;
  return LW_OK;
}

lw_status lw__rt_bind_rows(lw_rt_context *context, bool input, uint32_t index, void *data,
                           size_t bytes, bool on_device) {
  const lw_rt_program *program = context->program;
  if (index >= (input ? program->input_count : program->output_count)) return LW_STATUS_USAGE;
  lw_rt_binding *binding = input ? &context->inputs[index] : &context->outputs[index];
  const lw_rt_io *io = input ? &program->inputs[index] : &program->outputs[index];
  return bind(context, binding, io, data, bytes, on_device);
}

lw_status lw__rt_bind_input(lw_rt_context *context, uint32_t index, const void *data, size_t bytes,
                            bool on_device) {
  if (index >= context->program->input_count) return LW_STATUS_USAGE;
  if (bytes != context->program->inputs[index].bytes) return LW_STATUS_USAGE;
  /* Inputs are never written: the verifier refuses plans that would. */
  void *readable = (void *)(uintptr_t)data;
  return lw__rt_bind_rows(context, true, index, readable, bytes, on_device);
}

lw_status lw__rt_bind_output(lw_rt_context *context, uint32_t index, void *data, size_t bytes,
                             bool on_device) {
  if (index >= context->program->output_count) return LW_STATUS_USAGE;
  if (bytes != context->program->outputs[index].bytes) return LW_STATUS_USAGE;
  return lw__rt_bind_rows(context, false, index, data, bytes, on_device);
}

static lw_status check_bound(const lw_rt_binding *bindings, const lw_rt_io *ios, uint32_t count,
                             const char *what, lw_diag *diag) {
  for (uint32_t i = 0; i < count; i++) {
    if (bindings[i].bound) continue;
    return lw__fail(diag, LW_STATUS_USAGE, "run", "%s %u ('%s') is not bound", what, i,
                    ios[i].name);
  }
  return LW_OK;
}

/* Finds the addresses that kernels will see, with staging memory where there is none yet, and
 * counts the run's staging copies. */
static lw_status context_place(lw_rt_context *context, lw_rt_binding *bindings, const lw_rt_io *ios,
                               uint32_t count, lw_diag *diag) {
  lw_rt_device *device = context->program->device;
  for (uint32_t i = 0; i < count; i++) {
    lw_rt_binding *b = &bindings[i];
    if (b->stage && b->staging == NULL) LW_TRY(binding_stage(device, b, &ios[i], diag));
    b->address = b->stage ? b->staging : b->data;
    context->stats.staging_copies += lw__rt_binding_staged(b);
  }
  return LW_OK;
}

static lw_status context_prepare(lw_rt_context *context, lw_diag *diag) {
  lw_rt_program *program = context->program;
  if (!context->stale && context->arena_base == context->arena->base) return LW_OK;
  LW_TRY(check_bound(context->inputs, program->inputs, program->input_count, "input", diag));
  LW_TRY(check_bound(context->outputs, program->outputs, program->output_count, "output", diag));
  context->arena_base = context->arena->base;
  context->stats.staging_copies = 0;
  LW_TRY(context_place(context, context->inputs, program->inputs, program->input_count, diag));
  LW_TRY(context_place(context, context->outputs, program->outputs, program->output_count, diag));
  resolve_slots(program, &program->run, context->arena_base, context->inputs, context->outputs,
                context->slots);
  context->stale = false;
  return LW_OK;
}

/* ---- running ---- */

static lw_status context_take(lw_rt_context *context, lw_diag *diag) {
  if (!atomic_exchange(&context->busy, true)) return LW_OK;
  return lw__fail(diag, LW_STATUS_USAGE, "run", "this context is already running");
}

lw_status lw__rt_submit(lw_rt_context *context, lw_diag *diag) {
  LW_TRY(context_take(context, diag));
  lw_status status = context_prepare(context, diag);
  if (status == LW_OK) status = context->program->device->backend->context_submit(context, diag);
  atomic_store(&context->submitted, status == LW_OK);
  if (status != LW_OK) atomic_store(&context->busy, false);
  return status;
}

lw_status lw__rt_wait(lw_rt_context *context, lw_diag *diag) {
  if (!atomic_exchange(&context->submitted, false)) {
    return lw__fail(diag, LW_STATUS_USAGE, "wait", "no run of this context is in flight");
  }
  lw_status status = context->program->device->backend->context_wait(context, diag);
  atomic_store(&context->busy, false);
  return status;
}

lw_status lw__rt_run(lw_rt_context *context, lw_diag *diag) {
  LW_TRY(context_take(context, diag));
  int64_t start = lw__now_ns();
  lw_status status = context_prepare(context, diag);
  context->launched_ns = 0;
  if (status == LW_OK) status = context->program->device->backend->context_run(context, diag);
  if (context->launched_ns != 0) context->stats.last_launch_ns = context->launched_ns - start;
  atomic_store(&context->busy, false);
  return status;
}

lw_status lw__rt_trace_run(lw_rt_context *context, lw_diag *diag, lw_rt_trace *out) {
  lw_rt_spans spans = {0};
  *out = (lw_rt_trace){0};
  LW_TRY(context_take(context, diag));
  lw_status status = context_prepare(context, diag);
  if (status == LW_OK) {
    status = context->program->device->backend->context_trace(context, &spans, diag);
  }
  if (status == LW_OK) lw__rt_trace_sum(spans.data, spans.count, out);
  lw_vec_free(&spans);
  atomic_store(&context->busy, false);
  return status;
}

uint64_t lw__rt_allocations(const lw_rt_device *device) {
  return atomic_load(&device->allocations);
}

lw_status lw__rt_enqueue(lw_rt_context *context, void *stream, lw_diag *diag) {
  LW_TRY(context_take(context, diag));
  lw_status status = context_prepare(context, diag);
  if (status == LW_OK) {
    context->arena->in_streams = true;
    status = context->program->device->backend->context_enqueue(context, stream, diag);
  }
  atomic_store(&context->busy, false);
  return status;
}

void lw__rt_stats(const lw_rt_context *context, lw_rt_stats *out) { *out = context->stats; }

/* ---- memory helpers ---- */

lw_status lw__rt_alloc(lw_rt_device *device, size_t bytes, void **out) {
  *out = NULL;
  return device->backend->alloc(device, bytes == 0 ? 1 : bytes, "memory", NULL, out);
}

void lw__rt_free(lw_rt_device *device, void *ptr) {
  if (ptr != NULL) device->backend->free(device, ptr);
}

lw_status lw__rt_upload(lw_rt_device *device, void *dst, const void *src, size_t bytes) {
  return bytes == 0 ? LW_OK : device->backend->upload(device, dst, src, bytes, NULL);
}

lw_status lw__rt_download(lw_rt_device *device, void *dst, const void *src, size_t bytes) {
  return bytes == 0 ? LW_OK : device->backend->download(device, dst, src, bytes, NULL);
}

lw_status lw__rt_copy(lw_rt_device *device, void *dst, const void *src, size_t bytes,
                      lw_diag *diag) {
  if (bytes == 0) return LW_OK;
  return device->backend->copy(device, NULL, false, dst, src, bytes, diag);
}

lw_status lw__rt_copy_in_stream(lw_rt_device *device, void *stream, void *dst, const void *src,
                                size_t bytes, lw_diag *diag) {
  if (bytes == 0) return LW_OK;
  return device->backend->copy(device, stream, true, dst, src, bytes, diag);
}

lw_status lw__rt_flush_cache(lw_rt_device *device) { return device->backend->flush_cache(device); }

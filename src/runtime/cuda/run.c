/* run.c: contexts on the GPU: one stream each, two events around the steps, staging copies at both
 * ends. */
#include <string.h>

#include "runtime/cuda/cuda.h"

typedef struct cu_context { /* lw_rt_context.state */
  lw_cu_stream stream;
  lw_cu_event start, end, last; /* |last|: the end of the last run in a caller's stream */
  bool has_stream, has_start, has_end, has_last;
  bool pinned; /* host memory of this run is that of |pinned| */
  bool flying; /* |last| was recorded, and nobody has waited for it */
  lw_cu_stream flying_in;
  void **parameters;
  lw_cu_maps maps; /* that |parameters| point to */
  lw_cu_replay replay;
  lw_cu_lanes lanes;
} cu_context;

static lw_status context_make_objects(lw_rt_context *context, cu_context *state, lw_diag *diag) {
  lw_rt_program *program = context->program;
  lw_cu_gpu *gpu = program->device->state;
  const lw_cu_driver *driver = &gpu->driver;
  LW_TRY(lw__cu_stream_create(gpu, lw__cu_lane_priority(context, 0), &state->stream, diag));
  state->has_stream = true;
  LW_TRY(lw__cu_check(gpu, driver->event_create(&state->start, LW_CU_EVENT_DEFAULT),
                      "cuEventCreate", NULL, diag));
  state->has_start = true;
  LW_TRY(lw__cu_check(gpu, driver->event_create(&state->end, LW_CU_EVENT_DEFAULT), "cuEventCreate",
                      NULL, diag));
  state->has_end = true;
  LW_TRY(lw__cu_check(gpu, driver->event_create(&state->last, LW_CU_EVENT_NO_TIMING),
                      "cuEventCreate", NULL, diag));
  state->has_last = true;
  return lw__cu_lanes_open(context, &state->lanes, diag);
}

lw_status lw__cu_context_open(lw_rt_context *context, lw_diag *diag) {
  lw_rt_program *program = context->program;
  lw_cu_gpu *gpu = program->device->state;
  const lw_rt_segment *segment = &program->run;
  cu_context *state;
  LW_TRY(lw__arena_alloc(&context->memory, 1, sizeof *state, &state));
  LW_TRY(lw__arena_alloc(&context->memory, lw__rt_parameter_count(segment),
                         sizeof *state->parameters, &state->parameters));
  LW_TRY(lw__cu_maps_init(segment, &context->memory, &state->maps));
  context->state = state;
  lw__cu_make_parameters(segment, context->slots, &state->maps, state->parameters);
  LW_TRY(lw__cu_replay_init(context, &state->replay));
  lw_cu_scope scope;
  LW_TRY(lw__cu_enter(gpu, diag, &scope));
  lw_status status = context_make_objects(context, state, diag);
  lw__cu_leave(gpu, scope);
  return status;
}

static void free_pinned(lw_cu_gpu *gpu, const lw_rt_binding *bindings, uint32_t count) {
  for (uint32_t i = 0; bindings != NULL && i < count; i++) {
    if (bindings[i].pinned != NULL) (void)gpu->driver.host_free(bindings[i].pinned);
  }
}

void lw__cu_context_close(lw_rt_context *context) {
  cu_context *state = context->state;
  lw_cu_gpu *gpu = context->program->device->state;
  lw_cu_scope scope;
  if (state == NULL || !lw__cu_enter_to_free(gpu, &scope)) return;
  if (state->flying) (void)gpu->driver.event_wait(state->last);
  if (context->arena->flying == context) context->arena->flying = NULL;
  if (state->has_stream) {
    (void)gpu->driver.stream_wait(state->stream);
    (void)gpu->driver.stream_destroy(state->stream);
  }
  lw__cu_lanes_close(gpu, &state->lanes);
  lw__cu_replay_deinit(context, &state->replay);
  free_pinned(gpu, context->inputs, context->program->input_count);
  free_pinned(gpu, context->outputs, context->program->output_count);
  if (state->has_start) (void)gpu->driver.event_destroy(state->start);
  if (state->has_end) (void)gpu->driver.event_destroy(state->end);
  if (state->has_last) (void)gpu->driver.event_destroy(state->last);
  lw__cu_leave(gpu, scope);
}

void lw__cu_context_forget_graph(lw_rt_context *context) {
  cu_context *state = context->state;
  lw_cu_gpu *gpu = context->program->device->state;
  lw_cu_scope scope;
  if (!lw__cu_enter_to_free(gpu, &scope)) return;
  lw__cu_replay_deinit(context, &state->replay);
  lw__cu_leave(gpu, scope);
}

/* ---- staging ---- */

static lw_cu_address run_address(const void *ptr) { return (lw_cu_address)(uintptr_t)ptr; }

/* The host side of a copy. */
static void *run_host(const lw_rt_context *context, const lw_rt_binding *binding) {
  const cu_context *state = context->state;
  return state->pinned ? binding->pinned : binding->data;
}

static lw_status run_stage_inputs(lw_rt_context *context, lw_cu_stream stream, lw_diag *diag) {
  lw_rt_program *program = context->program;
  lw_cu_gpu *gpu = program->device->state;
  for (uint32_t i = 0; i < program->input_count; i++) {
    const lw_rt_binding *input = &context->inputs[i];
    if (!lw__rt_binding_staged(input)) continue;
    size_t bytes = input->bytes;
    lw_cu_address to = run_address(input->address);
    int result = input->on_device
                     ? gpu->driver.copy(to, run_address(input->data), bytes, stream)
                     : gpu->driver.copy_in(to, run_host(context, input), bytes, stream);
    LW_TRY(lw__cu_check(gpu, result, input->on_device ? "cuMemcpyDtoDAsync" : "cuMemcpyHtoDAsync",
                        program->inputs[i].name, diag));
  }
  return LW_OK;
}

static lw_status run_stage_outputs(lw_rt_context *context, lw_cu_stream stream, lw_diag *diag) {
  lw_rt_program *program = context->program;
  lw_cu_gpu *gpu = program->device->state;
  for (uint32_t i = 0; i < program->output_count; i++) {
    const lw_rt_binding *output = &context->outputs[i];
    if (!lw__rt_binding_staged(output)) continue;
    size_t bytes = output->bytes;
    lw_cu_address from = run_address(output->address);
    int result = output->on_device
                     ? gpu->driver.copy(run_address(output->data), from, bytes, stream)
                     : gpu->driver.copy_out(run_host(context, output), from, bytes, stream);
    LW_TRY(lw__cu_check(gpu, result, output->on_device ? "cuMemcpyDtoDAsync" : "cuMemcpyDtoHAsync",
                        program->outputs[i].name, diag));
  }
  return LW_OK;
}

/* ---- running ---- */

/* Into a stream that is being captured the steps go one by one, through the lanes' streams if there
 * are several: the caller gets a graph of them. */
static lw_status run_steps(lw_rt_context *context, lw_cu_stream stream, bool captured,
                           lw_diag *diag) {
  cu_context *state = context->state;
  lw_rt_program *program = context->program;
  if (state->replay.usable && !captured) {
    return lw__cu_replay_launch(context, &state->replay, state->parameters, stream, diag);
  }
  if (state->lanes.count > 1) {
    return lw__cu_lanes_put(program, &state->lanes, context->slots, state->parameters, stream,
                            diag);
  }
  return lw__cu_put_steps(program, &program->run, context->slots, state->parameters, stream, diag);
}

static lw_status run_record(lw_rt_context *context, lw_cu_event event, lw_cu_stream stream,
                            lw_diag *diag) {
  lw_cu_gpu *gpu = context->program->device->state;
  return lw__cu_check(gpu, gpu->driver.event_record(event, stream), "cuEventRecord", NULL, diag);
}

static lw_status run_after_flight(lw_cu_gpu *gpu, const cu_context *other, lw_cu_stream stream,
                                  lw_diag *diag) {
  if (!other->flying || other->flying_in == stream) return LW_OK;
  return lw__cu_check(gpu, gpu->driver.stream_wait_event(stream, other->last, 0),
                      "cuStreamWaitEvent", NULL, diag);
}

/* Runs of a context share its memory, and contexts of several shapes share an arena: what is put
 * into |stream| now comes after the last one. */
static lw_status run_after_last(lw_rt_context *context, lw_cu_stream stream, lw_diag *diag) {
  lw_cu_gpu *gpu = context->program->device->state;
  const lw_rt_context *other = context->arena->flying;
  LW_TRY(run_after_flight(gpu, context->state, stream, diag));
  if (other == NULL || other == context) return LW_OK;
  return run_after_flight(gpu, other->state, stream, diag);
}

static lw_status run_update_maps(lw_rt_context *context, lw_diag *diag) {
  cu_context *state = context->state;
  lw_rt_program *program = context->program;
  return lw__cu_maps_update(program, &program->run, context->slots, &state->maps, diag);
}

/* Into the context's own stream, timed. */
static lw_status run_put_own(lw_rt_context *context, lw_diag *diag) {
  const cu_context *state = context->state;
  LW_TRY(run_update_maps(context, diag));
  LW_TRY(run_after_last(context, state->stream, diag));
  LW_TRY(run_stage_inputs(context, state->stream, diag));
  LW_TRY(run_record(context, state->start, state->stream, diag));
  LW_TRY(run_steps(context, state->stream, false, diag));
  LW_TRY(run_record(context, state->end, state->stream, diag));
  return run_stage_outputs(context, state->stream, diag);
}

static lw_status run_put_all(lw_rt_context *context, lw_cu_stream stream, bool captured,
                             lw_diag *diag) {
  LW_TRY(run_update_maps(context, diag));
  LW_TRY(run_stage_inputs(context, stream, diag));
  LW_TRY(run_steps(context, stream, captured, diag));
  return run_stage_outputs(context, stream, diag);
}

/* Into the caller's stream. Also what an error left there is something to wait for. */
static lw_status run_put_foreign(lw_rt_context *context, lw_cu_stream stream, lw_diag *diag) {
  cu_context *state = context->state;
  lw_cu_gpu *gpu = context->program->device->state;
  lw_cu_capture capture = LW_CU_CAPTURE_NONE;
  LW_TRY(lw__cu_check(gpu, gpu->driver.stream_capture(stream, &capture), "cuStreamIsCapturing",
                      NULL, diag));
  if (capture != LW_CU_CAPTURE_NONE) return run_put_all(context, stream, true, diag);
  LW_TRY(run_after_last(context, stream, diag));
  lw_status status = run_put_all(context, stream, false, diag);
  lw_status recorded = run_record(context, state->last, stream, status == LW_OK ? diag : NULL);
  if (recorded == LW_OK) {
    state->flying = true;
    state->flying_in = stream;
    context->arena->flying = context;
  } else { /* nobody could wait for it later */
    (void)gpu->driver.stream_wait(stream);
  }
  return status != LW_OK ? status : recorded;
}

static bool run_uses_device_memory(const lw_rt_context *context) {
  const lw_rt_program *program = context->program;
  for (uint32_t i = 0; i < program->input_count; i++) {
    if (context->inputs[i].on_device) return true;
  }
  for (uint32_t i = 0; i < program->output_count; i++) {
    if (context->outputs[i].on_device) return true;
  }
  return false;
}

/* Bound device memory may still be written or read by what the caller put into the default stream,
 * where frameworks put everything by default. Touching it would break the capture of a stream that
 * waits for it; asking does not. */
static lw_status run_after_default_stream(lw_rt_context *context, lw_diag *diag) {
  const cu_context *state = context->state;
  lw_cu_gpu *gpu = context->program->device->state;
  lw_cu_capture capture;
  LW_TRY(lw__cu_check(gpu, gpu->driver.stream_capture(NULL, &capture),
                      "cuStreamIsCapturing of the default stream", NULL, diag));
  LW_TRY(run_record(context, state->start, NULL, diag));
  return lw__cu_check(gpu, gpu->driver.stream_wait_event(state->stream, state->start, 0),
                      "cuStreamWaitEvent", NULL, diag);
}

static lw_status run_time(lw_rt_context *context, lw_diag *diag) {
  const cu_context *state = context->state;
  lw_cu_gpu *gpu = context->program->device->state;
  float ms = 0;
  LW_TRY(lw__cu_check(gpu, gpu->driver.event_elapsed(&ms, state->start, state->end),
                      "cuEventElapsedTime", NULL, diag));
  context->stats.last_device_ns = (int64_t)((double)ms * 1e6);
  return LW_OK;
}

/* Waits for what was begun; |status| is what beginning it came to. */
static lw_status run_finish(lw_rt_context *context, lw_status status, lw_diag *diag) {
  cu_context *state = context->state;
  lw_rt_program *program = context->program;
  lw_cu_gpu *gpu = program->device->state;
  /* Also after an error: copies that were begun must not touch the caller's memory later. */
  lw_status waited =
      lw__cu_check_steps(program, &program->run, gpu->driver.stream_wait(state->stream),
                         "cuStreamSynchronize", status == LW_OK ? diag : NULL);
  if (status != LW_OK) lw__cu_lanes_wait(gpu, &state->lanes);
  if (status == LW_OK) status = waited;
  if (status == LW_OK) {
    state->flying = false;
    context->arena->flying = NULL;
  }
  return status == LW_OK ? run_time(context, diag) : status;
}

static lw_status run_begin(lw_rt_context *context, lw_diag *diag) {
  if (run_uses_device_memory(context)) LW_TRY(run_after_default_stream(context, diag));
  LW_TRY(run_put_own(context, diag));
  context->launched_ns = lw__now_ns();
  return LW_OK;
}

lw_status lw__cu_run(lw_rt_context *context, lw_diag *diag) {
  cu_context *state = context->state;
  lw_cu_gpu *gpu = context->program->device->state;
  lw_cu_scope scope;
  LW_TRY(lw__cu_enter(gpu, diag, &scope));
  state->pinned = false;
  lw_status status = run_finish(context, run_begin(context, diag), diag);
  lw__cu_leave(gpu, scope);
  return status;
}

/* ---- runs in two halves ---- */

static bool is_on_host(const lw_rt_binding *binding) {
  return lw__rt_binding_staged(binding) && !binding->on_device;
}

static lw_status make_pinned(lw_rt_device *device, lw_rt_binding *bindings, const lw_rt_io *ios,
                             uint32_t count, lw_diag *diag) {
  lw_cu_gpu *gpu = device->state;
  for (uint32_t i = 0; i < count; i++) {
    if (!is_on_host(&bindings[i]) || bindings[i].pinned != NULL) continue;
    int result = gpu->driver.host_alloc(&bindings[i].pinned, (size_t)ios[i].bytes, 0);
    if (result != LW_CU_SUCCESS) bindings[i].pinned = NULL;
    atomic_fetch_add(&device->allocations, 1);
    LW_TRY(lw__cu_check(gpu, result, "cuMemHostAlloc", ios[i].name, diag));
  }
  return LW_OK;
}

static lw_status submit_begin(lw_rt_context *context, lw_diag *diag) {
  const lw_rt_program *program = context->program;
  lw_rt_device *device = program->device;
  LW_TRY(make_pinned(device, context->inputs, program->inputs, program->input_count, diag));
  LW_TRY(make_pinned(device, context->outputs, program->outputs, program->output_count, diag));
  for (uint32_t i = 0; i < program->input_count; i++) {
    const lw_rt_binding *input = &context->inputs[i];
    if (is_on_host(input)) memcpy(input->pinned, input->data, input->bytes);
  }
  return run_begin(context, diag);
}

lw_status lw__cu_submit(lw_rt_context *context, lw_diag *diag) {
  cu_context *state = context->state;
  lw_cu_gpu *gpu = context->program->device->state;
  lw_cu_scope scope;
  LW_TRY(lw__cu_enter(gpu, diag, &scope));
  state->pinned = true;
  lw_status status = submit_begin(context, diag);
  if (status != LW_OK) status = run_finish(context, status, diag);
  lw__cu_leave(gpu, scope);
  return status;
}

lw_status lw__cu_wait(lw_rt_context *context, lw_diag *diag) {
  lw_cu_gpu *gpu = context->program->device->state;
  lw_cu_scope scope;
  LW_TRY(lw__cu_enter(gpu, diag, &scope));
  lw_status status = run_finish(context, LW_OK, diag);
  lw__cu_leave(gpu, scope);
  for (uint32_t i = 0; i < context->program->output_count && status == LW_OK; i++) {
    const lw_rt_binding *output = &context->outputs[i];
    if (is_on_host(output)) memcpy(output->data, output->pinned, output->bytes);
  }
  return status;
}

/* ---- in the caller's stream ---- */

static lw_status run_check_device_memory(const lw_rt_binding *bindings, const lw_rt_io *ios,
                                         uint32_t count, lw_diag *diag) {
  for (uint32_t i = 0; i < count; i++) {
    if (bindings[i].on_device || ios[i].bytes == 0) continue;
    return lw__fail(diag, LW_STATUS_USAGE, ios[i].name,
                    "is bound to host memory; a run in the caller's stream needs device memory");
  }
  return LW_OK;
}

lw_status lw__cu_enqueue(lw_rt_context *context, void *stream, lw_diag *diag) {
  lw_rt_program *program = context->program;
  lw_cu_gpu *gpu = program->device->state;
  LW_TRY(run_check_device_memory(context->inputs, program->inputs, program->input_count, diag));
  LW_TRY(run_check_device_memory(context->outputs, program->outputs, program->output_count, diag));
  lw_cu_scope scope;
  LW_TRY(lw__cu_enter(gpu, diag, &scope));
  lw_status status = run_put_foreign(context, stream, diag);
  lw__cu_leave(gpu, scope);
  return status;
}

/* lanes.c: a run spread over streams: one for each lane, events where a lane waits for another. The
 * caller's stream, or the context's, is lane 0. */
#include "runtime/cuda/cuda.h"

int lw__cu_lane_priority(const lw_rt_context *context, uint32_t lane) {
  const lw_cu_gpu *gpu = context->program->device->state;
  if (context->priority == 0) {
    return lane == context->program->run.critical_lane ? gpu->high_priority : 0;
  }
  if (context->priority > 0) return 0;
  bool beyond = context->priority < gpu->greatest_priority;
  return beyond ? gpu->greatest_priority : context->priority;
}

lw_status lw__cu_lanes_open(lw_rt_context *context, lw_cu_lanes *lanes, lw_diag *diag) {
  const lw_rt_segment *segment = &context->program->run;
  lw_cu_gpu *gpu = context->program->device->state;
  uint32_t count = segment->lane_count;
  if (count <= 1) return LW_OK;
  LW_TRY(lw__arena_alloc(&context->memory, (size_t)segment->event_count + count,
                         sizeof *lanes->events, &lanes->events));
  for (uint32_t lane = 1; lane < count; lane++) {
    LW_TRY(lw__cu_stream_create(gpu, lw__cu_lane_priority(context, lane), &lanes->streams[lane],
                                diag));
    lanes->count = lane + 1;
  }
  for (uint32_t i = 0; i < segment->event_count + count; i++) {
    int result = gpu->driver.event_create(&lanes->events[i], LW_CU_EVENT_NO_TIMING);
    LW_TRY(lw__cu_check(gpu, result, "cuEventCreate", NULL, diag));
    lanes->event_count = i + 1;
  }
  lanes->ends = lanes->events + count;
  return LW_OK;
}

void lw__cu_lanes_close(lw_cu_gpu *gpu, lw_cu_lanes *lanes) {
  for (uint32_t lane = 1; lane < lanes->count; lane++) {
    (void)gpu->driver.stream_wait(lanes->streams[lane]);
    (void)gpu->driver.stream_destroy(lanes->streams[lane]);
  }
  for (uint32_t i = 0; i < lanes->event_count; i++) {
    (void)gpu->driver.event_destroy(lanes->events[i]);
  }
  *lanes = (lw_cu_lanes){0};
}

void lw__cu_lanes_wait(lw_cu_gpu *gpu, const lw_cu_lanes *lanes) {
  for (uint32_t lane = 1; lane < lanes->count; lane++) {
    (void)gpu->driver.stream_wait(lanes->streams[lane]);
  }
}

static int lane_follow(const lw_cu_driver *driver, lw_cu_stream stream, lw_cu_event event,
                       const char **out_call) {
  *out_call = "cuStreamWaitEvent";
  return driver->stream_wait_event(stream, event, 0);
}

static int lane_record(const lw_cu_driver *driver, lw_cu_event event, lw_cu_stream stream,
                       const char **out_call) {
  *out_call = "cuEventRecord";
  return driver->event_record(event, stream);
}

/* Lanes begin when |stream| has come here. */
static int lanes_fork(const lw_cu_driver *driver, const lw_cu_lanes *lanes, lw_cu_stream stream,
                      uint32_t *out_forked, const char **out_call) {
  int result = lane_record(driver, lanes->events[0], stream, out_call);
  for (*out_forked = 1; *out_forked < lanes->count && result == LW_CU_SUCCESS; ++*out_forked) {
    result = lane_follow(driver, lanes->streams[*out_forked], lanes->events[0], out_call);
    if (result != LW_CU_SUCCESS) break;
  }
  return result;
}

/* |stream| goes on when the lanes that were forked have come here. Also after an error, each of
 * them: a capture cannot end while a stream that it took in is not joined. */
static int lanes_join(const lw_cu_driver *driver, const lw_cu_lanes *lanes, lw_cu_stream stream,
                      uint32_t forked, const char **out_call) {
  int first = LW_CU_SUCCESS;
  for (uint32_t lane = 1; lane < forked; lane++) {
    const char *call;
    int result = lane_record(driver, lanes->events[lane], lanes->streams[lane], &call);
    if (result == LW_CU_SUCCESS) result = lane_follow(driver, stream, lanes->events[lane], &call);
    if (result == LW_CU_SUCCESS || first != LW_CU_SUCCESS) continue;
    first = result;
    *out_call = call;
  }
  return first;
}

static int lanes_put_step(lw_rt_program *program, const lw_cu_lanes *lanes, uint32_t id,
                          void **slots, void **parameters, lw_cu_stream main,
                          const char **out_call) {
  const lw_cu_driver *driver = &((const lw_cu_gpu *)program->device->state)->driver;
  const lw_rt_segment *segment = &program->run;
  const lw_rt_step *step = &segment->steps[id];
  lw_cu_stream stream = step->lane == 0 ? main : lanes->streams[step->lane];
  for (uint32_t i = 0; i < step->wait_count; i++) {
    uint32_t event = segment->steps[segment->waits[step->first_wait + i]].event;
    int result = lane_follow(driver, stream, lanes->ends[event], out_call);
    if (result != LW_CU_SUCCESS) return result;
  }
  int result = lw__cu_put_step(program, step, slots, parameters, stream, out_call);
  if (result != LW_CU_SUCCESS || step->event == LW_NONE) return result;
  return lane_record(driver, lanes->ends[step->event], stream, out_call);
}

lw_status lw__cu_lanes_put(lw_rt_program *program, const lw_cu_lanes *lanes, void **slots,
                           void **parameters, lw_cu_stream stream, lw_diag *diag) {
  lw_cu_gpu *gpu = program->device->state;
  const lw_rt_segment *segment = &program->run;
  const char *call = "", *join_call = "";
  uint32_t forked = 0;
  int result = lanes_fork(&gpu->driver, lanes, stream, &forked, &call);
  lw_status status = lw__cu_check(gpu, result, call, NULL, diag);
  for (uint32_t i = 0; i < segment->step_count && status == LW_OK; i++) {
    result = lanes_put_step(program, lanes, i, slots, parameters, stream, &call);
    status = lw__cu_check_step(program, segment, i, result, call, diag);
  }
  result = lanes_join(&gpu->driver, lanes, stream, forked, &join_call);
  if (status != LW_OK) return status;
  return lw__cu_check(gpu, result, join_call, NULL, diag);
}

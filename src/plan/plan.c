/* plan.c: life of a plan, and its text form for reports. */
#include "plan/plan.h"

#include <inttypes.h>
#include <string.h>

#include "plan/internal.h"

void lw__plan_init(lw_plan *plan, lw_plan_target target) { *plan = (lw_plan){.target = target}; }

void lw__plan_deinit(lw_plan *plan) {
  lw_vec_free(&plan->kernels);
  lw_vec_free(&plan->buffers);
  lw_vec_free(&plan->steps);
  lw_vec_free(&plan->init);
  lw_vec_free(&plan->inputs);
  lw_vec_free(&plan->outputs);
  lw__arena_deinit(&plan->arena);
  *plan = (lw_plan){0};
}

lw_status lw__plan_place_weights(lw_plan *plan) {
  uint64_t end = 0;
  for (uint32_t i = 0; i < plan->buffers.count; i++) {
    lw_plan_buffer *buffer = &plan->buffers.data[i];
    if (buffer->kind != LW_BUFFER_WEIGHT && buffer->kind != LW_BUFFER_DERIVED) continue;
    if (buffer->bytes > (uint64_t)INT64_MAX - end - LW_PLAN_ALIGN_BYTES) {
      return LW_STATUS_OUT_OF_MEMORY;
    }
    buffer->offset = end;
    end += buffer->bytes +
           (LW_PLAN_ALIGN_BYTES - buffer->bytes % LW_PLAN_ALIGN_BYTES) % LW_PLAN_ALIGN_BYTES;
  }
  plan->weight_bytes = end;
  return LW_OK;
}

/* ---- live bytes ---- */

typedef struct live_event {
  uint64_t starts, ends; /* bytes that become live before this step, and dead after it */
} live_event;

static bool live_touches(const lw_plan *plan, const lw_plan_step *step, uint32_t arg) {
  const lw_plan_arg *a = &step->args[arg];
  return a->kind == LW_ARG_BUFFER && a->buffer < plan->buffers.count &&
         plan->buffers.data[a->buffer].kind == LW_BUFFER_ARENA;
}

static uint64_t live_peak(const lw_plan *plan, const lw_plan_step *steps, uint32_t count,
                          uint32_t *first, uint32_t *last, live_event *events) {
  memset(first, 0xff, plan->buffers.count * sizeof *first);
  memset(events, 0, count * sizeof *events);
  for (uint32_t i = 0; i < count; i++) {
    for (uint32_t k = 0; k < steps[i].arg_count; k++) {
      if (!live_touches(plan, &steps[i], k)) continue;
      uint32_t buffer = steps[i].args[k].buffer;
      if (first[buffer] == LW_NONE) first[buffer] = i;
      last[buffer] = i;
    }
  }
  for (uint32_t b = 0; b < plan->buffers.count; b++) {
    if (first[b] == LW_NONE) continue;
    events[first[b]].starts += plan->buffers.data[b].bytes;
    events[last[b]].ends += plan->buffers.data[b].bytes;
  }
  uint64_t live = 0, peak = 0;
  for (uint32_t i = 0; i < count; i++) {
    live += events[i].starts;
    if (live > peak) peak = live;
    live -= events[i].ends;
  }
  return peak;
}

uint64_t lw__plan_live_bytes(const lw_plan *plan) {
  uint32_t most = plan->steps.count > plan->init.count ? plan->steps.count : plan->init.count;
  if (most == 0 || plan->buffers.count == 0) return 0;
  lw_arena arena = {0};
  uint32_t *first, *last;
  live_event *events;
  uint64_t peak = 0;
  if (lw__arena_alloc(&arena, plan->buffers.count, sizeof *first, &first) == LW_OK &&
      lw__arena_alloc(&arena, plan->buffers.count, sizeof *last, &last) == LW_OK &&
      lw__arena_alloc(&arena, most, sizeof *events, &events) == LW_OK) {
    uint64_t init = live_peak(plan, plan->init.data, plan->init.count, first, last, events);
    peak = live_peak(plan, plan->steps.data, plan->steps.count, first, last, events);
    if (init > peak) peak = init;
  }
  lw__arena_deinit(&arena);
  return peak;
}

/* ---- text ---- */

static const char *const buffer_kind_names[] = {
    [LW_BUFFER_INPUT] = "input",     [LW_BUFFER_OUTPUT] = "output", [LW_BUFFER_WEIGHT] = "weight",
    [LW_BUFFER_DERIVED] = "derived", [LW_BUFFER_ARENA] = "arena",
};

static void print_buffer(const lw_plan *plan, uint32_t id, lw_text *out) {
  const lw_plan_buffer *buffer = &plan->buffers.data[id];
  bool known = (uint32_t)buffer->kind < LW_ARRAY_COUNT(buffer_kind_names);
  lw__text_add(out, "  b%-4u %-7s", id, known ? buffer_kind_names[buffer->kind] : "?");
  if (buffer->kind == LW_BUFFER_INPUT || buffer->kind == LW_BUFFER_OUTPUT) {
    lw__text_add(out, " #%-9u", buffer->index);
  } else {
    lw__text_add(out, " @%-9" PRIu64, buffer->offset);
  }
  lw__text_add(out, " %10" PRIu64 " bytes", buffer->bytes);
  if (buffer->name != NULL) lw__text_add(out, "  %s", buffer->name);
  lw__text_add(out, "\n");
}

/* map #4 f16[768x512 by 1536]: of argument 4, inner dim first, with the strides of the others. */
static void print_map(const lw_plan_map *map, lw_text *out) {
  lw__text_add(out, "map #%u %s[", map->arg, lw_dtype_name(map->dtype));
  for (uint32_t d = 0; d < map->rank && d < LW_PLAN_MAP_RANK; d++)
    lw__text_add(out, "%s%" PRIu64, d == 0 ? "" : "x", map->dims[d]);
  for (uint32_t d = 1; d < map->rank && d < LW_PLAN_MAP_RANK; d++)
    lw__text_add(out, "%s%" PRIu64, d == 1 ? " by " : ",", map->strides_bytes[d]);
  lw__text_add(out, "]");
  if (map->offset_bytes != 0) lw__text_add(out, "+%" PRIu64, map->offset_bytes);
}

static void print_args(const lw_plan_step *step, lw_text *out) {
  for (uint32_t i = 0; i < step->arg_count; i++) {
    const lw_plan_arg *arg = &step->args[i];
    lw__text_add(out, "%s", i == 0 ? "" : ", ");
    if (arg->kind == LW_ARG_SCALAR) {
      lw__text_add(out, "%" PRId64, arg->scalar);
      continue;
    }
    if (arg->kind == LW_ARG_TENSOR_MAP) {
      print_map(arg->map, out);
      continue;
    }
    lw__text_add(out, "%sb%u", arg->written ? "=" : "", arg->buffer);
    if (arg->offset_bytes != 0) lw__text_add(out, "+%" PRIu64, arg->offset_bytes);
  }
}

static void print_step(const lw_plan *plan, const lw_plan_step *step, bool lanes, uint32_t id,
                       lw_text *out) {
  lw__text_add(out, "  s%-4u ", id);
  if (step->kind == LW_STEP_LAUNCH) {
    const char *name =
        step->kernel < plan->kernels.count ? plan->kernels.data[step->kernel].name : "?";
    lw__text_add(out, "launch %s<%" PRId64 ">(", name == NULL ? "?" : name, step->grid);
  } else if (step->kind == LW_STEP_COPY) {
    lw__text_add(out, "copy %" PRIu64 " bytes (", step->bytes);
  } else {
    lw__text_add(out, "fill %" PRIu64 " bytes with 0x%02x (", step->bytes, step->fill);
  }
  print_args(step, out);
  lw__text_add(out, ")");
  for (uint32_t i = 0; i < step->dep_count; i++) {
    lw__text_add(out, "%ss%u", i == 0 ? " after " : " ", step->deps[i]);
  }
  if (lanes) lw__text_add(out, " lane %u", step->lane);
  for (uint32_t i = 0; lanes && i < step->wait_count; i++) {
    lw__text_add(out, "%ss%u", i == 0 ? " waits " : " ", step->waits[i]);
  }
  if (step->critical) lw__text_add(out, " critical");
  if (step->label != NULL) lw__text_add(out, "  # %s", step->label);
  lw__text_add(out, "\n");
}

static void print_io(const char *title, const lw_plan_io *io, uint32_t count, lw_text *out) {
  for (uint32_t i = 0; i < count; i++) {
    lw__text_add(out, "%s %u: %s %s[", title, i, io[i].name == NULL ? "?" : io[i].name,
                 lw_dtype_name(io[i].dtype));
    for (uint32_t d = 0; d < io[i].rank && d < LW_MAX_RANK; d++) {
      lw__text_add(out, "%s%" PRId64, d == 0 ? "" : ",", io[i].dims[d]);
    }
    lw__text_add(out, "] b%u\n", io[i].buffer);
  }
}

static void print_kernel(const lw_plan_kernel *kernel, uint32_t id, lw_text *out) {
  lw__text_add(out, "  k%-4u %s: %u threads", id, kernel->name == NULL ? "?" : kernel->name,
               kernel->block_threads);
  if (kernel->shared_bytes != 0) lw__text_add(out, ", %u bytes shared", kernel->shared_bytes);
  if (kernel->registers != 0) lw__text_add(out, ", %u registers", kernel->registers);
  if (kernel->spill_bytes != 0) lw__text_add(out, ", %u bytes spilled", kernel->spill_bytes);
  lw__text_add(out, "\n");
}

void lw__plan_print(const lw_plan *plan, lw_text *out) {
  if (plan->target == LW_PLAN_CUDA) {
    lw__text_add(out, "plan for sm_%u%s\n", plan->sm_arch, plan->arch_specific ? "a" : "");
  } else {
    lw__text_add(out, "plan for cpu\n");
  }
  print_io("input", plan->inputs.data, plan->inputs.count, out);
  print_io("output", plan->outputs.data, plan->outputs.count, out);
  lw__text_add(out, "arena %" PRIu64 " bytes, weights %" PRIu64 " bytes\n", plan->arena_bytes,
               plan->weight_bytes);
  lw__text_add(out, "kernels %u\n", plan->kernels.count);
  for (uint32_t i = 0; i < plan->kernels.count; i++) print_kernel(&plan->kernels.data[i], i, out);
  lw__text_add(out, "buffers %u\n", plan->buffers.count);
  for (uint32_t i = 0; i < plan->buffers.count; i++) print_buffer(plan, i, out);
  if (plan->init.count != 0) lw__text_add(out, "init %u\n", plan->init.count);
  for (uint32_t i = 0; i < plan->init.count; i++) {
    print_step(plan, &plan->init.data[i], false, i, out);
  }
  lw__text_add(out, "steps %u", plan->steps.count);
  if (plan->lane_count != 0) lw__text_add(out, ", lanes %u", plan->lane_count);
  lw__text_add(out, "\n");
  for (uint32_t i = 0; i < plan->steps.count; i++) {
    print_step(plan, &plan->steps.data[i], plan->lane_count > 1, i, out);
  }
}

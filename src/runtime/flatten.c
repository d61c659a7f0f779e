/* flatten.c: from a plan to the arrays that a run walks through. A plan may have come from a file,
 * so every id, range and count is checked here; order and conflicts are the plan verifier's
 * business. */
#include <inttypes.h>

#include "runtime/internal.h"

#define FLATTEN_GRID_LIMIT (INT64_MAX / 4)

typedef struct flattener {
  lw_rt_program *program;
  const lw_plan *plan;
  lw_diag *diag;
} flattener;

static lw_status flatten_fail(flattener *f, const char *what, uint32_t id, const char *text) {
  lw_text buffer = {0};
  lw__text_add(&buffer, "plan: %s %u", what, id);
  lw_status status = lw__fail(f->diag, LW_STATUS_INTERNAL, lw__text_str(&buffer), "%s", text);
  lw__text_deinit(&buffer);
  return status;
}

static lw_status flatten_name(flattener *f, const char *name, const char **out) {
  lw_str text = lw__str_of(name);
  return lw__arena_strndup(&f->program->arena, text.ptr, text.len, out);
}

static lw_status flatten_kernels(flattener *f) {
  lw_rt_program *p = f->program;
  p->kernel_count = f->plan->kernels.count;
  LW_TRY(lw__arena_alloc(&p->arena, p->kernel_count, sizeof *p->kernels, &p->kernels));
  for (uint32_t i = 0; i < p->kernel_count; i++) {
    const lw_plan_kernel *from = &f->plan->kernels.data[i];
    if (from->name == NULL || from->name[0] == '\0')
      return flatten_fail(f, "kernel", i, "has no name");
    if (from->block_threads == 0) return flatten_fail(f, "kernel", i, "has no threads");
    p->kernels[i].block_threads = from->block_threads;
    p->kernels[i].shared_bytes = from->shared_bytes;
    p->kernels[i].early_start = from->early_start;
    LW_TRY(flatten_name(f, from->name, &p->kernels[i].name));
  }
  return LW_OK;
}

static lw_status flatten_buffers(flattener *f) {
  lw_rt_program *p = f->program;
  p->buffer_count = f->plan->buffers.count;
  LW_TRY(lw__arena_alloc(&p->arena, p->buffer_count, sizeof *p->buffers, &p->buffers));
  for (uint32_t i = 0; i < p->buffer_count; i++) {
    const lw_plan_buffer *from = &f->plan->buffers.data[i];
    uint64_t block = UINT64_MAX;
    bool known = true;
    switch (from->kind) {
      case LW_BUFFER_INPUT: known = from->index < f->plan->inputs.count; break;
      case LW_BUFFER_OUTPUT: known = from->index < f->plan->outputs.count; break;
      case LW_BUFFER_WEIGHT:
        known = from->data != NULL || from->bytes == 0;
        block = p->weight_bytes;
        break;
      case LW_BUFFER_DERIVED: block = p->weight_bytes; break;
      case LW_BUFFER_ARENA: block = p->arena_bytes; break;
      default: known = false;
    }
    if (!known) return flatten_fail(f, "buffer", i, "is not valid");
    bool io = from->kind == LW_BUFFER_INPUT || from->kind == LW_BUFFER_OUTPUT;
    uint64_t offset = io ? 0 : from->offset;
    if (from->bytes != 0 && (offset > block || from->bytes > block - offset)) {
      return flatten_fail(f, "buffer", i, "reaches beyond its block");
    }
    if (offset % LW_RT_IO_ALIGN_BYTES != 0) return flatten_fail(f, "buffer", i, "is not aligned");
    p->buffers[i] = (lw_rt_buffer){
        .kind = from->kind, .index = from->index, .offset = offset, .bytes = from->bytes};
  }
  return LW_OK;
}

static lw_status flatten_ios(flattener *f, const lw_plan_io *from, uint32_t count,
                             lw_buffer_kind kind, lw_rt_io **out) {
  lw_rt_program *p = f->program;
  const char *what = kind == LW_BUFFER_INPUT ? "input" : "output";
  LW_TRY(lw__arena_alloc(&p->arena, count, sizeof **out, out));
  for (uint32_t i = 0; i < count; i++) {
    if (from[i].buffer >= p->buffer_count) return flatten_fail(f, what, i, "has no buffer");
    const lw_rt_buffer *buffer = &p->buffers[from[i].buffer];
    if (buffer->kind != kind || buffer->index != i)
      return flatten_fail(f, what, i, "has another's buffer");
    (*out)[i].bytes = buffer->bytes;
    LW_TRY(flatten_name(f, from[i].name, &(*out)[i].name));
  }
  /* A binding is checked against its own buffer's size, so others of the same input must not be
   * larger. */
  for (uint32_t b = 0; b < p->buffer_count; b++) {
    const lw_rt_buffer *buffer = &p->buffers[b];
    if (buffer->kind == kind && buffer->bytes > (*out)[buffer->index].bytes) {
      return flatten_fail(f, "buffer", b, "is larger than its input or output");
    }
  }
  return LW_OK;
}

/* The arguments before a map were found good. */
static const char *flatten_map_refusal(const flattener *f, const lw_plan_step *step, uint32_t k) {
  const lw_plan_map *map = step->args[k].map;
  if (map == NULL || map->arg >= k || step->args[map->arg].kind != LW_ARG_BUFFER)
    return "a tensor map is of no buffer";
  const lw_plan_arg *of = &step->args[map->arg];
  return lw__plan_map_refusal(map, f->program->buffers[of->buffer].bytes - of->offset_bytes);
}

static const char *flatten_refuse_lane(const lw_plan_step *steps, uint32_t id, uint32_t lanes) {
  const lw_plan_step *step = &steps[id];
  if (lanes == 0) return NULL;
  if (lanes > LW_PLAN_MAX_LANES || step->lane >= lanes) return "there is no such lane";
  for (uint32_t i = 0; i < step->wait_count; i++) {
    if (step->waits[i] >= id) return "its lane waits for a step that is not earlier";
    if (steps[step->waits[i]].lane == step->lane) return "its lane waits for itself";
  }
  return NULL;
}

/* Why the step cannot be run, or NULL. */
static const char *flatten_refusal(const flattener *f, const lw_plan_step *step, uint32_t id) {
  bool launch = step->kind == LW_STEP_LAUNCH;
  if (launch) {
    if (step->kernel >= f->program->kernel_count) return "there is no such kernel";
    if (step->grid < 1 || step->grid > FLATTEN_GRID_LIMIT) return "the grid is out of range";
  } else if (step->kind == LW_STEP_COPY || step->kind == LW_STEP_FILL) {
    if (step->arg_count != (step->kind == LW_STEP_COPY ? 2 : 1)) return "wrong number of arguments";
  } else {
    return "unknown kind of step";
  }
  for (uint32_t i = 0; i < step->dep_count; i++) {
    if (step->deps[i] >= id) return "it waits for a step that is not earlier";
  }
  bool scalars = false, maps = false;
  for (uint32_t i = 0; i < step->arg_count; i++) {
    const lw_plan_arg *arg = &step->args[i];
    if (arg->kind == LW_ARG_TENSOR_MAP && launch) {
      const char *refusal = flatten_map_refusal(f, step, i);
      if (refusal != NULL) return refusal;
      maps = true;
      continue;
    }
    if (maps) return "an argument comes after a tensor map";
    if (arg->kind == LW_ARG_SCALAR && launch) {
      scalars = true;
      continue;
    }
    if (arg->kind != LW_ARG_BUFFER || scalars) return "an argument is not a buffer";
    if (arg->buffer >= f->program->buffer_count) return "there is no such buffer";
    uint64_t bytes = f->program->buffers[arg->buffer].bytes;
    if (arg->offset_bytes > bytes || (!launch && step->bytes > bytes - arg->offset_bytes)) {
      return "an argument reaches beyond its buffer";
    }
  }
  return NULL;
}

static lw_status flatten_step(flattener *f, lw_rt_segment *segment, const lw_plan_step *from,
                              lw_rt_step *to) {
  *to = (lw_rt_step){
      .kind = from->kind,
      .fill = from->fill,
      .kernel = from->kernel,
      .grid = from->grid,
      .first_slot = segment->slot_count,
      .first_scalar = segment->scalar_count,
      .first_map = segment->map_count,
      .event = LW_NONE,
      .critical = from->critical,
      .bytes = from->bytes,
      .predicted_us = from->predicted_us,
  };
  LW_TRY(flatten_name(f, from->label, &to->label));
  for (uint32_t i = 0; i < from->arg_count; i++) {
    const lw_plan_arg *arg = &from->args[i];
    if (arg->kind == LW_ARG_SCALAR) {
      segment->scalars[segment->scalar_count++] = arg->scalar;
    } else if (arg->kind == LW_ARG_TENSOR_MAP) {
      /* buffers come first, so the number of an argument is the number of its slot */
      segment->maps[segment->map_count++] =
          (lw_rt_map){.slot = to->first_slot + arg->map->arg, .form = *arg->map};
    } else {
      segment->slots[segment->slot_count++] =
          (lw_rt_slot){.buffer = arg->buffer, .offset_bytes = arg->offset_bytes};
    }
  }
  to->slot_count = segment->slot_count - to->first_slot;
  to->scalar_count = segment->scalar_count - to->first_scalar;
  to->map_count = segment->map_count - to->first_map;
  return LW_OK;
}

static lw_status flatten_segment(flattener *f, const lw_plan_step *steps, uint32_t count,
                                 uint32_t lanes, const char *what, lw_rt_segment *segment) {
  lw_arena *arena = &f->program->arena;
  uint64_t args = 0, maps = 0;
  for (uint32_t i = 0; i < count; i++) {
    const char *refusal = flatten_refusal(f, &steps[i], i);
    if (refusal == NULL) refusal = flatten_refuse_lane(steps, i, lanes);
    if (refusal != NULL) return flatten_fail(f, what, i, refusal);
    args += steps[i].arg_count;
    for (uint32_t k = 0; k < steps[i].arg_count; k++)
      maps += steps[i].args[k].kind == LW_ARG_TENSOR_MAP;
  }
  if (args > UINT32_MAX) return flatten_fail(f, what, count, "too many arguments");
  LW_TRY(lw__arena_alloc(arena, count, sizeof *segment->steps, &segment->steps));
  LW_TRY(lw__arena_alloc(arena, (size_t)args, sizeof *segment->slots, &segment->slots));
  LW_TRY(lw__arena_alloc(arena, (size_t)args, sizeof *segment->scalars, &segment->scalars));
  LW_TRY(lw__arena_alloc(arena, (size_t)maps, sizeof *segment->maps, &segment->maps));
  for (uint32_t i = 0; i < count; i++) {
    LW_TRY(flatten_step(f, segment, &steps[i], &segment->steps[i]));
  }
  segment->step_count = count;
  return lw__rt_order(arena, segment, steps, count, lanes);
}

static void flatten_count(lw_rt_program *p) {
  for (uint32_t i = 0; i < p->run.step_count; i++) {
    switch (p->run.steps[i].kind) {
      case LW_STEP_LAUNCH: p->counts.kernels++; break;
      case LW_STEP_COPY: p->counts.copies++; break;
      case LW_STEP_FILL: p->counts.fills++; break;
      default: break;
    }
  }
  p->counts.lanes = p->run.lane_count;
  p->counts.waits = p->run.wait_count;
  p->counts.arena_bytes = p->arena_bytes;
  p->counts.weight_bytes = p->weight_bytes;
}

lw_status lw__rt_flatten(lw_rt_program *program, const lw_plan *plan, lw_diag *diag) {
  flattener f = {.program = program, .plan = plan, .diag = diag};
  if (plan->arena_bytes > SIZE_MAX / 4 || plan->weight_bytes > SIZE_MAX / 4) {
    return lw__fail(
        diag, LW_STATUS_OUT_OF_MEMORY, "plan", "asks for %" PRIu64 " bytes",
        plan->arena_bytes > plan->weight_bytes ? plan->arena_bytes : plan->weight_bytes);
  }
  program->arena_bytes = plan->arena_bytes;
  program->weight_bytes = plan->weight_bytes;
  program->input_count = plan->inputs.count;
  program->output_count = plan->outputs.count;
  LW_TRY(flatten_kernels(&f));
  LW_TRY(flatten_buffers(&f));
  LW_TRY(flatten_ios(&f, plan->inputs.data, plan->inputs.count, LW_BUFFER_INPUT, &program->inputs));
  LW_TRY(flatten_ios(&f, plan->outputs.data, plan->outputs.count, LW_BUFFER_OUTPUT,
                     &program->outputs));
  LW_TRY(flatten_segment(&f, plan->init.data, plan->init.count, 0, "init step", &program->init));
  LW_TRY(flatten_segment(&f, plan->steps.data, plan->steps.count, plan->lane_count, "step",
                         &program->run));
  flatten_count(program);
  return LW_OK;
}

/* kexec.c: a plan on the kernel-IR interpreter. */
#include "lib/kexec.h"

#include <string.h>

typedef struct executor {
  const lw_compiled *compiled;
  uint8_t *arena, *weights;
  void *const *inputs, *const *outputs;
  lw_diag *diag;
  lw_kexec_result *result;
  uint64_t seed; /* of the order of steps; 0: as they stand */
} executor;

static uint8_t *address(const executor *x, uint32_t id, uint64_t offset) {
  const lw_plan_buffer *b = &x->compiled->plan.buffers.data[id];
  switch (b->kind) {
    case LW_BUFFER_INPUT: return (uint8_t *)x->inputs[b->index] + offset;
    case LW_BUFFER_OUTPUT: return (uint8_t *)x->outputs[b->index] + offset;
    case LW_BUFFER_ARENA: return x->arena + b->offset + offset;
    default: return x->weights + b->offset + offset;
  }
}

static lw_status launch(executor *x, const lw_plan_step *step) {
  lw_kinterp_buffer buffers[256];
  int64_t scalars[16];
  uint32_t buffer_count = 0, scalar_count = 0;
  for (uint32_t i = 0; i < step->arg_count; i++) {
    const lw_plan_arg *arg = &step->args[i];
    if (arg->kind == LW_ARG_TENSOR_MAP) continue; /* the interpreter knows from the kernel */
    if (arg->kind == LW_ARG_SCALAR) {
      if (scalar_count == LW_ARRAY_COUNT(scalars)) return LW_STATUS_INTERNAL;
      scalars[scalar_count++] = arg->scalar;
      continue;
    }
    if (buffer_count == LW_ARRAY_COUNT(buffers)) return LW_STATUS_INTERNAL;
    size_t bytes = (size_t)(x->compiled->plan.buffers.data[arg->buffer].bytes - arg->offset_bytes);
    buffers[buffer_count++] =
        (lw_kinterp_buffer){address(x, arg->buffer, arg->offset_bytes), bytes};
  }
  lw_kinterp_counts counts;
  LW_TRY(lw__kinterp_run(x->compiled->kernels.data[step->kernel], step->grid, buffers, scalars,
                         x->diag, &counts));
  x->result->launches++;
  x->result->load_bytes += counts.load_bytes;
  x->result->store_bytes += counts.store_bytes;
  return LW_OK;
}

static lw_status run_step(executor *x, const lw_plan_step *step) {
  if (step->kind == LW_STEP_LAUNCH) return launch(x, step);
  uint8_t *to = address(x, step->args[0].buffer, step->args[0].offset_bytes);
  if (step->kind == LW_STEP_FILL) return memset(to, step->fill, step->bytes), LW_OK;
  memcpy(to, address(x, step->args[1].buffer, step->args[1].offset_bytes), step->bytes);
  x->result->copies++;
  return LW_OK;
}

/* Whether the plan lets step |id| begin when just the steps in |done| have ended. */
static bool may_begin(const lw_plan *plan, uint32_t id, const bool *done) {
  const lw_plan_step *step = &plan->steps.data[id];
  bool lanes = plan->lane_count != 0;
  for (uint32_t i = 0; i < (lanes ? step->wait_count : step->dep_count); i++)
    if (!done[lanes ? step->waits[i] : step->deps[i]]) return false;
  for (uint32_t i = 0; i < id && lanes; i++)
    if (plan->steps.data[i].lane == step->lane && !done[i]) return false;
  return true;
}

/* Every fourth seed takes the last step that may begin, so that one lane runs as far ahead of the
 * others as it can; the others are random. */
static lw_status run_shuffled(executor *x, bool *done) {
  const lw_plan *plan = &x->compiled->plan;
  lw_rng rng;
  lw__rng_seed(&rng, x->seed);
  for (uint32_t left = plan->steps.count; left > 0; left--) {
    uint32_t chosen = LW_NONE, seen = 0;
    for (uint32_t i = 0; i < plan->steps.count; i++) {
      if (done[i] || !may_begin(plan, i, done)) continue;
      seen++;
      if (x->seed % 4 == 0 || lw__rng_range(&rng, 0, seen) == 0) chosen = i;
    }
    if (chosen == LW_NONE) return LW_STATUS_INTERNAL;
    LW_TRY(run_step(x, &plan->steps.data[chosen]));
    done[chosen] = true;
  }
  return LW_OK;
}

static lw_status run_steps(executor *x) {
  const lw_plan *plan = &x->compiled->plan;
  if (x->seed != 0) {
    lw_arena memory = {0};
    bool *done;
    lw_status status = lw__arena_alloc(&memory, plan->steps.count + 1u, sizeof *done, &done);
    if (status == LW_OK) status = run_shuffled(x, done);
    lw__arena_deinit(&memory);
    return status;
  }
  for (uint32_t i = 0; i < plan->steps.count; i++) LW_TRY(run_step(x, &plan->steps.data[i]));
  return LW_OK;
}

static lw_status run_all(executor *x) {
  const lw_plan *plan = &x->compiled->plan;
  memset(x->arena, 0xff, plan->arena_bytes + 1);
  memset(x->weights, 0xff, plan->weight_bytes + 1);
  for (uint32_t i = 0; i < plan->buffers.count; i++) {
    const lw_plan_buffer *b = &plan->buffers.data[i];
    if (b->kind == LW_BUFFER_WEIGHT && b->bytes) memcpy(x->weights + b->offset, b->data, b->bytes);
    if (b->kind == LW_BUFFER_OUTPUT && b->bytes) memset(x->outputs[b->index], 0xff, b->bytes);
  }
  for (uint32_t i = 0; i < plan->init.count; i++) LW_TRY(run_step(x, &plan->init.data[i]));
  memset(x->result, 0, sizeof *x->result);
  return run_steps(x);
}

lw_status lw_kexec_run(const lw_compiled *compiled, void *const *inputs, void *const *outputs,
                       lw_diag *diag, lw_kexec_result *out) {
  return lw_kexec_run_shuffled(compiled, 0, inputs, outputs, diag, out);
}

lw_status lw_kexec_run_shuffled(const lw_compiled *compiled, uint64_t seed, void *const *inputs,
                                void *const *outputs, lw_diag *diag, lw_kexec_result *out) {
  executor x = {.compiled = compiled,
                .inputs = inputs,
                .outputs = outputs,
                .diag = diag,
                .result = out,
                .seed = seed};
  void *arena = NULL, *weights = NULL;
  memset(out, 0, sizeof *out);
  lw_status status = lw__mem_resize(&arena, compiled->plan.arena_bytes + 1);
  if (status == LW_OK) status = lw__mem_resize(&weights, compiled->plan.weight_bytes + 1);
  x.arena = arena;
  x.weights = weights;
  if (status == LW_OK) status = run_all(&x);
  lw__mem_free(arena);
  lw__mem_free(weights);
  return status;
}

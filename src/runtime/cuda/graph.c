/* graph.c: a run as one graph. Its edges are those of the order of the run: of the lanes and their
 * waits, or the plan's dependences where it has no lanes. When a binding changes, exactly the nodes
 * that use it are edited. */
#include <limits.h>
#include <string.h>

#include "runtime/cuda/cuda.h"

static lw_cu_address node_address(void *slot) { return (lw_cu_address)(uintptr_t)slot; }

/* Empty copies would need nodes of their own kind, and copies beyond 2 GiB exceed what a row of a
 * copy node may have. */
static bool replay_fits(const lw_rt_segment *segment) {
  for (uint32_t i = 0; i < segment->step_count; i++) {
    const lw_rt_step *step = &segment->steps[i];
    if (step->kind != LW_STEP_LAUNCH && (step->bytes == 0 || step->bytes > INT_MAX)) return false;
  }
  return true;
}

lw_status lw__cu_replay_init(lw_rt_context *context, lw_cu_replay *replay) {
  const lw_rt_segment *segment = &context->program->run;
  const lw_cu_gpu *gpu = context->program->device->state;
  if (segment->step_count < gpu->graph_min_steps || !replay_fits(segment)) return LW_OK;
  uint32_t deps = 0;
  for (uint32_t i = 0; i < segment->step_count; i++) {
    if (segment->steps[i].dep_count > deps) deps = segment->steps[i].dep_count;
  }
  lw_arena *memory = &context->memory;
  LW_TRY(lw__arena_alloc(memory, segment->step_count, sizeof *replay->nodes, &replay->nodes));
  LW_TRY(lw__arena_alloc(memory, deps, sizeof *replay->deps, &replay->deps));
  LW_TRY(lw__arena_alloc(memory, segment->slot_count, sizeof *replay->slots, &replay->slots));
  replay->usable = true;
  return LW_OK;
}

void lw__cu_replay_deinit(lw_rt_context *context, lw_cu_replay *replay) {
  const lw_cu_gpu *gpu = context->program->device->state;
  if (replay->exec != NULL) (void)gpu->driver.exec_destroy(replay->exec);
  if (replay->graph != NULL) (void)gpu->driver.graph_destroy(replay->graph);
  replay->exec = NULL;
  replay->graph = NULL;
}

/* ---- nodes ---- */

static lw_cu_kernel_node kernel_node(const lw_rt_program *program, const lw_rt_step *step,
                                     void **parameters) {
  const lw_rt_kernel *kernel = &program->kernels[step->kernel];
  return (lw_cu_kernel_node){
      .function = lw__cu_program_function(program, step->kernel),
      .grid_x = (unsigned int)step->grid,
      .grid_y = 1,
      .grid_z = 1,
      .block_x = kernel->block_threads,
      .block_y = 1,
      .block_z = 1,
      .shared_bytes = kernel->shared_bytes,
      .parameters = &parameters[lw__rt_first_parameter(step)],
  };
}

static struct lw_cu_copy_side copy_side(void *slot, size_t bytes) {
  return (struct lw_cu_copy_side){
      .memory = LW_CU_MEMORY_DEVICE, .device = node_address(slot), .pitch = bytes, .height = 1};
}

static lw_cu_copy_node copy_node(const lw_rt_step *step, void **args) {
  size_t bytes = (size_t)step->bytes;
  return (lw_cu_copy_node){.from = copy_side(args[1], bytes),
                           .to = copy_side(args[0], bytes),
                           .width_bytes = bytes,
                           .height = 1,
                           .depth = 1};
}

static lw_cu_fill_node fill_node(const lw_rt_step *step, void **args) {
  return (lw_cu_fill_node){.to = node_address(args[0]),
                           .value = step->fill,
                           .elem_bytes = 1,
                           .width = (size_t)step->bytes,
                           .height = 1};
}

/* A kernel that waits by itself needs no more of the kernels before it than that all of their
 * blocks have begun. */
static bool edge_is_early(const lw_rt_program *program, const lw_cu_driver *driver, uint32_t from,
                          uint32_t to) {
  const lw_rt_step *a = &program->run.steps[from], *b = &program->run.steps[to];
  return driver->graph_edges != NULL && a->kind == LW_STEP_LAUNCH && b->kind == LW_STEP_LAUNCH &&
         program->kernels[b->kernel].early_start;
}

/* Puts the nodes of a step's ordinary edges into replay->deps. */
static uint32_t plain_deps(const lw_rt_program *program, const lw_cu_driver *driver,
                           lw_cu_replay *replay, uint32_t id) {
  const lw_rt_step *step = &program->run.steps[id];
  uint32_t count = 0;
  for (uint32_t i = 0; i < step->dep_count; i++) {
    uint32_t dep = program->run.deps[step->first_dep + i];
    if (!edge_is_early(program, driver, dep, id)) replay->deps[count++] = replay->nodes[dep];
  }
  return count;
}

static int put_early_edges(const lw_rt_program *program, const lw_cu_driver *driver,
                           lw_cu_replay *replay, uint32_t id) {
  static const lw_cu_edge edge = {.from_port = LW_CU_PORT_PROGRAMMATIC,
                                  .type = LW_CU_EDGE_PROGRAMMATIC};
  const lw_rt_step *step = &program->run.steps[id];
  for (uint32_t i = 0; i < step->dep_count; i++) {
    uint32_t dep = program->run.deps[step->first_dep + i];
    if (!edge_is_early(program, driver, dep, id)) continue;
    int result =
        driver->graph_edges(replay->graph, &replay->nodes[dep], &replay->nodes[id], &edge, 1);
    if (result != LW_CU_SUCCESS) return result;
  }
  return LW_CU_SUCCESS;
}

/* Critical kernels get the multiprocessors first, unless the whole context has a priority, that of
 * its stream. */
static bool has_priorities(const lw_rt_context *context) {
  const lw_cu_gpu *gpu = context->program->device->state;
  return context->priority == 0 && context->program->run.has_critical && gpu->high_priority != 0 &&
         gpu->driver.node_set != NULL;
}

static int set_priority(const lw_rt_context *context, const lw_rt_step *step, lw_cu_node node) {
  const lw_cu_gpu *gpu = context->program->device->state;
  if (!step->critical || !has_priorities(context)) return LW_CU_SUCCESS;
  lw_cu_node_value value = {.priority = gpu->high_priority};
  return gpu->driver.node_set(node, LW_CU_NODE_PRIORITY, &value);
}

static const char *put_call(const lw_rt_step *step, bool add) {
  switch (step->kind) {
    case LW_STEP_LAUNCH: return add ? "cuGraphAddKernelNode" : "cuGraphExecKernelNodeSetParams";
    case LW_STEP_COPY: return add ? "cuGraphAddMemcpyNode" : "cuGraphExecMemcpyNodeSetParams";
    default: return add ? "cuGraphAddMemsetNode" : "cuGraphExecMemsetNodeSetParams";
  }
}

/* Adds the node of a step (|add|) or edits it in the executable graph. |*out_call|: what gave the
 * result. */
static int put_node(lw_rt_context *context, lw_cu_replay *replay, void **parameters, uint32_t id,
                    bool add, const char **out_call) {
  const lw_rt_program *program = context->program;
  const lw_cu_gpu *gpu = program->device->state;
  const lw_cu_driver *driver = &gpu->driver;
  const lw_rt_step *step = &program->run.steps[id];
  void **args = &context->slots[step->first_slot];
  lw_cu_node *node = &replay->nodes[id];
  uint32_t deps = add ? plain_deps(program, driver, replay, id) : 0;
  *out_call = put_call(step, add);
  if (step->kind == LW_STEP_LAUNCH) {
    lw_cu_kernel_node kernel = kernel_node(program, step, parameters);
    if (!add) return driver->exec_kernel(replay->exec, *node, &kernel);
    int result = driver->graph_kernel(node, replay->graph, replay->deps, deps, &kernel);
    if (result != LW_CU_SUCCESS) return result;
    *out_call = "cuGraphKernelNodeSetAttribute";
    result = set_priority(context, step, *node);
    if (result != LW_CU_SUCCESS) return result;
    *out_call = "cuGraphAddDependencies";
    return put_early_edges(program, driver, replay, id);
  }
  if (step->kind == LW_STEP_COPY) {
    lw_cu_copy_node copy = copy_node(step, args);
    return add ? driver->graph_copy(node, replay->graph, replay->deps, deps, &copy, gpu->context)
               : driver->exec_copy(replay->exec, *node, &copy, gpu->context);
  }
  lw_cu_fill_node fill = fill_node(step, args);
  return add ? driver->graph_fill(node, replay->graph, replay->deps, deps, &fill, gpu->context)
             : driver->exec_fill(replay->exec, *node, &fill, gpu->context);
}

static lw_status put_checked(lw_rt_context *context, lw_cu_replay *replay, void **parameters,
                             uint32_t id, bool add, lw_diag *diag) {
  const char *call;
  int result = put_node(context, replay, parameters, id, add, &call);
  if (result == LW_CU_SUCCESS) return LW_OK;
  lw_rt_program *program = context->program;
  lw_text where = {0};
  lw__rt_describe_step(program, &program->run, id, &where);
  lw_status status = lw__cu_check(program->device->state, result, call, lw__text_str(&where), diag);
  lw__text_deinit(&where);
  return status;
}

/* ---- the graph ---- */

static lw_status replay_build(lw_rt_context *context, lw_cu_replay *replay, void **parameters,
                              lw_diag *diag) {
  lw_rt_program *program = context->program;
  lw_cu_gpu *gpu = program->device->state;
  const lw_rt_segment *segment = &program->run;
  LW_TRY(lw__cu_check_steps(program, segment, gpu->driver.graph_create(&replay->graph, 0),
                            "cuGraphCreate", diag));
  for (uint32_t i = 0; i < segment->step_count; i++) {
    LW_TRY(put_checked(context, replay, parameters, i, true, diag));
  }
  atomic_fetch_add(&program->device->allocations, 1);
  unsigned long long flags = has_priorities(context) ? LW_CU_GRAPH_NODE_PRIORITY : 0;
  LW_TRY(lw__cu_check_steps(program, segment,
                            gpu->driver.graph_instantiate(&replay->exec, replay->graph, flags),
                            "cuGraphInstantiate", diag));
  if (segment->slot_count != 0)
    memcpy(replay->slots, context->slots, segment->slot_count * sizeof(void *));
  return LW_OK;
}

static lw_status replay_edit(lw_rt_context *context, lw_cu_replay *replay, void **parameters,
                             lw_diag *diag) {
  const lw_rt_segment *segment = &context->program->run;
  for (uint32_t i = 0; i < segment->step_count; i++) {
    const lw_rt_step *step = &segment->steps[i];
    void **now = &context->slots[step->first_slot], **had = &replay->slots[step->first_slot];
    size_t bytes = step->slot_count * sizeof *now;
    if (bytes == 0 || memcmp(now, had, bytes) == 0) continue;
    LW_TRY(put_checked(context, replay, parameters, i, false, diag));
    memcpy(had, now, bytes);
  }
  return LW_OK;
}

lw_status lw__cu_replay_launch(lw_rt_context *context, lw_cu_replay *replay, void **parameters,
                               lw_cu_stream stream, lw_diag *diag) {
  lw_cu_gpu *gpu = context->program->device->state;
  if (replay->exec == NULL) {
    lw_status status = replay_build(context, replay, parameters, diag);
    if (status != LW_OK) {
      lw__cu_replay_deinit(context, replay);
      return status;
    }
  } else {
    LW_TRY(replay_edit(context, replay, parameters, diag));
  }
  return lw__cu_check_steps(context->program, &context->program->run,
                            gpu->driver.exec_launch(replay->exec, stream), "cuGraphLaunch", diag);
}

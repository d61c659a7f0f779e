/* assemble.c: from lowered groups to a plan. */
#include "compiler/sched/assemble.h"

#include <string.h>

enum { buffer_alignment = 256 };

typedef struct assembler {
  const lw_assemble_input *in;
  lw_plan *plan;
  lw_diag *diag;
  uint32_t *buffer_of;  /* per value */
  uint8_t *is_constant; /* per value: known once the weights are */
  uint64_t weight_end;
  LW_VEC(lw_sched_work) work; /* per step */
} assembler;

/* ---- buffers ----------------------------------------------------------------------------------*/

static uint64_t value_bytes(const lw_graph *g, lw_value_id v) {
  return (uint64_t)lw__shape_numel(&lw__value(g, v)->shape) *
         lw_dtype_size_bytes(lw__value(g, v)->dtype);
}

static lw_status add_buffer(assembler *a, lw_plan_buffer buffer, uint32_t *out) {
  *out = a->plan->buffers.count;
  return lw_vec_push(&a->plan->buffers, buffer);
}

static lw_status copy_name(assembler *a, const char *name, const char **out) {
  *out = NULL;
  return name ? lw__arena_strndup(&a->plan->arena, name, strlen(name), out) : LW_OK;
}

static uint64_t take_weight_space(assembler *a, uint64_t bytes) {
  uint64_t offset = a->weight_end;
  a->weight_end += (bytes + buffer_alignment - 1) / buffer_alignment * buffer_alignment;
  return offset;
}

/* Storage order only permutes where elements lie: constants arrive row-major and must stay so. */
static lw_status constant_buffer(assembler *a, lw_value_id v, lw_plan_buffer *buffer) {
  const lw_graph *g = a->in->graph;
  for (uint32_t d = 0; d < lw__value(g, v)->shape.rank; d++)
    if (lw__value(g, v)->storage.order[d] != d)
      return lw__fail(a->diag, LW_STATUS_INTERNAL, lw__value(g, v)->name,
                      "a constant was given another storage order");
  buffer->kind = LW_BUFFER_WEIGHT;
  buffer->data = lw__producer(g, v)->attr.constant.data;
  buffer->offset = take_weight_space(a, buffer->bytes);
  return LW_OK;
}

static uint32_t output_index(const lw_graph *g, lw_value_id v) {
  for (uint32_t i = 0; i < g->outputs.count; i++)
    if (g->outputs.data[i] == v) return i;
  return LW_NONE;
}

/* The buffer a value lives in; made on first demand. */
static lw_status buffer_of(assembler *a, lw_value_id v, uint32_t *out) {
  if (a->buffer_of[v] != LW_NONE) return *out = a->buffer_of[v], LW_OK;
  const lw_graph *g = a->in->graph;
  lw_plan_buffer buffer = {.kind = LW_BUFFER_ARENA, .bytes = value_bytes(g, v)};
  LW_TRY(copy_name(a, lw__value(g, v)->name, &buffer.name));
  lw_op op = lw__producer(g, v)->op;
  uint32_t output = output_index(g, v);
  if (op == LW_OP_CONST) {
    LW_TRY(constant_buffer(a, v, &buffer));
  } else if (op == LW_OP_INPUT) {
    buffer.kind = LW_BUFFER_INPUT;
    for (uint32_t i = 0; i < g->inputs.count; i++)
      if (g->inputs.data[i] == v) buffer.index = i;
  } else if (output != LW_NONE) {
    buffer.kind = LW_BUFFER_OUTPUT;
    buffer.index = output;
  } else if (a->is_constant[v]) {
    buffer.kind = LW_BUFFER_DERIVED;
    buffer.offset = take_weight_space(a, buffer.bytes);
  }
  LW_TRY(add_buffer(a, buffer, out));
  a->buffer_of[v] = *out;
  return LW_OK;
}

/* ---- steps ------------------------------------------------------------------------------------*/

/* "conv1, relu (+3)": the distinct names of the model's nodes that the launch of group |id| does
 * the work of. */
static lw_status label_of(assembler *a, uint32_t id, const char **out) {
  lw_text text = {0};
  uint32_t named = 0, more = 0;
  const char *last = NULL;
  for (uint32_t g = id; g <= id + a->in->lowered[id].joined; g++) {
    const lw_group *group = &a->in->fusion->groups.data[g];
    for (uint32_t i = 0; i < group->nodes.count; i++) {
      const char *name = lw__node(a->in->graph, group->nodes.data[i])->name;
      if (!name || (last && !strcmp(last, name))) continue;
      last = name;
      if (named == 3) {
        more++;
        continue;
      }
      lw__text_add(&text, "%s%s", named ? ", " : "", name);
      named++;
    }
  }
  if (more) lw__text_add(&text, " (+%u)", more);
  lw_status status = text.status;
  if (status == LW_OK) status = copy_name(a, lw__text_str(&text), out);
  lw__text_deinit(&text);
  return status;
}

/* A product's kernel takes tensor maps of its operands last. */
static lw_status add_maps(assembler *a, const lw_launch *launch, lw_plan_step *step) {
  const lw_kernel *kernel = &launch->kernel;
  lw_plan_map *maps;
  if (!kernel->product.present) return LW_OK;
  LW_TRY(lw__arena_alloc(&a->plan->arena, LW_KPRODUCT_MAPS, sizeof *maps, &maps));
  int64_t rows = launch->args.data[kernel->buffers.count].scalar;
  uint32_t count = lw__kproduct_maps(&kernel->product, rows, maps);
  for (uint32_t i = 0; i < count; i++)
    step->args[step->arg_count++] = (lw_plan_arg){.kind = LW_ARG_TENSOR_MAP, .map = &maps[i]};
  return LW_OK;
}

static lw_status launch_args(assembler *a, const lw_launch *launch, uint32_t first_scratch,
                             lw_plan_step *step) {
  size_t room = launch->args.count + LW_KPRODUCT_MAPS;
  LW_TRY(lw__arena_alloc(&a->plan->arena, room, sizeof *step->args, &step->args));
  step->arg_count = launch->args.count;
  for (uint32_t i = 0; i < launch->args.count; i++) {
    const lw_larg *from = &launch->args.data[i];
    lw_plan_arg *to = &step->args[i];
    to->written = from->written;
    to->kind = from->kind == LW_LARG_SCALAR ? LW_ARG_SCALAR : LW_ARG_BUFFER;
    to->scalar = from->scalar;
    if (from->kind == LW_LARG_SCRATCH)
      to->buffer = first_scratch + from->scratch;
    else if (from->kind == LW_LARG_VALUE)
      LW_TRY(buffer_of(a, from->value, &to->buffer));
  }
  return add_maps(a, launch, step);
}

static bool touches_scratch(const lw_launch *launch, uint32_t scratch, bool written) {
  for (uint32_t i = 0; i < launch->args.count; i++)
    if (launch->args.data[i].kind == LW_LARG_SCRATCH && launch->args.data[i].scratch == scratch &&
        launch->args.data[i].written == written)
      return true;
  return false;
}

/* Of a group that runs every time: launches that make scratch from constants alone (packed weights)
 * run once. Such scratch is read by later launches and written by nobody else. */
static bool launch_runs_once(const assembler *a, const lw_lowered *lowered, uint32_t index) {
  const lw_launch *launch = &lowered->launches.data[index];
  for (uint32_t i = 0; i < launch->args.count; i++) {
    const lw_larg *arg = &launch->args.data[i];
    if (arg->kind == LW_LARG_VALUE && (arg->written || !a->is_constant[arg->value])) return false;
    if (arg->kind == LW_LARG_SCRATCH && !arg->written) return false;
    if (arg->kind != LW_LARG_SCRATCH) continue;
    for (uint32_t other = 0; other < lowered->launches.count; other++)
      if (other != index && touches_scratch(&lowered->launches.data[other], arg->scratch, true))
        return false;
  }
  return true;
}

static lw_status add_scratch(assembler *a, const lw_lowered *lowered, const bool *once) {
  uint32_t unused;
  for (uint32_t i = 0; i < lowered->scratch_bytes.count; i++) {
    lw_plan_buffer scratch = {.kind = LW_BUFFER_ARENA, .bytes = lowered->scratch_bytes.data[i]};
    for (uint32_t l = 0; l < lowered->launches.count; l++)
      if (once[l] && touches_scratch(&lowered->launches.data[l], i, true))
        scratch.kind = LW_BUFFER_DERIVED;
    if (scratch.kind == LW_BUFFER_DERIVED) scratch.offset = take_weight_space(a, scratch.bytes);
    LW_TRY(add_buffer(a, scratch, &unused));
  }
  return LW_OK;
}

static lw_status add_step(assembler *a, lw_plan_step step, lw_sched_work work) {
  LW_TRY(lw_vec_push(&a->work, work));
  return lw_vec_push(&a->plan->steps, step);
}

static lw_sched_work launch_work(const assembler *a, const lw_plan_step *step,
                                 const lw_group *group, const lw_kernel *kernel) {
  return lw__sched_launch(a->in->sched.profile, &a->plan->kernels.data[step->kernel],
                          (uint32_t)lw__kernel_shared_bytes(kernel), step->grid, &group->work,
                          step->predicted_us);
}

/* What a launch moves and computes: that of its group and of those that are joined to it. */
static lw_group work_of(const assembler *a, uint32_t id) {
  lw_group sum = a->in->fusion->groups.data[id];
  for (uint32_t g = id + 1; g <= id + a->in->lowered[id].joined; g++) {
    const lw_group *more = &a->in->fusion->groups.data[g];
    sum.work.dram_bytes += more->work.dram_bytes;
    sum.work.l2_bytes += more->work.l2_bytes;
    sum.work.f32_flops += more->work.f32_flops;
    sum.work.matrix_flops += more->work.matrix_flops;
    sum.work.issue_slots += more->work.issue_slots;
    sum.work.special_slots += more->work.special_slots;
    sum.work.parallel_threads += more->work.parallel_threads;
  }
  if (a->in->lowered[id].joined != 0) sum.cost = lw__cost_launch(a->in->sched.profile, &sum.work);
  return sum;
}

static lw_status add_group(assembler *a, uint32_t id, bool init) {
  const lw_group whole = work_of(a, id), *group = &whole;
  const lw_lowered *lowered = &a->in->lowered[id];
  uint32_t first_scratch = a->plan->buffers.count, repeated = 0;
  const char *label = NULL;
  bool *once;
  LW_TRY(label_of(a, id, &label));
  LW_TRY(lw__arena_alloc(&a->plan->arena, lowered->launches.count + 1u, sizeof *once, &once));
  for (uint32_t i = 0; i < lowered->launches.count; i++) {
    once[i] = init || launch_runs_once(a, lowered, i);
    repeated += !once[i];
  }
  LW_TRY(add_scratch(a, lowered, once));
  for (uint32_t i = 0; i < lowered->launches.count; i++) {
    lw_plan_step step = {.kind = LW_STEP_LAUNCH,
                         .grid = lowered->launches.data[i].grid,
                         .label = label,
                         .group = id};
    step.kernel = a->in->launch_kernel[a->in->first_kernel[id] + i];
    step.cls = lw__kclass_name[lowered->joined ? LW_KCLASS_SIDE : group->cls];
    uint32_t share = once[i] && !init ? 0 : init ? lowered->launches.count : repeated;
    step.traffic_bytes = share ? group->work.dram_bytes / share : 0;
    step.predicted_us = share ? group->cost.us / share : 0;
    LW_TRY(launch_args(a, &lowered->launches.data[i], first_scratch, &step));
    if (once[i])
      LW_TRY(lw_vec_push(&a->plan->init, step));
    else
      LW_TRY(add_step(a, step, launch_work(a, &step, group, &lowered->launches.data[i].kernel)));
  }
  return LW_OK;
}

/* A group whose inputs all come from weights runs once, unless it writes a result of the model. */
static bool runs_once(const assembler *a, const lw_group *group) {
  for (uint32_t i = 0; i < group->inputs.count; i++)
    if (!a->is_constant[group->inputs.data[i]]) return false;
  for (uint32_t i = 0; i < group->outputs.count; i++)
    if (output_index(a->in->graph, group->outputs.data[i]) != LW_NONE) return false;
  return true;
}

static lw_status add_groups(assembler *a) {
  const lw_graph *g = a->in->graph;
  for (uint32_t v = 0; v < g->values.count; v++)
    a->is_constant[v] = lw__producer(g, v)->op == LW_OP_CONST;
  for (uint32_t id = 0; id < a->in->fusion->groups.count; id++) {
    const lw_group *group = &a->in->fusion->groups.data[id];
    bool init = runs_once(a, group);
    for (uint32_t i = 0; i < group->outputs.count && init; i++)
      a->is_constant[group->outputs.data[i]] = 1;
    LW_TRY(add_group(a, id, init));
  }
  return LW_OK;
}

/* ---- the model's inputs and outputs -----------------------------------------------------------*/

static lw_status describe(assembler *a, lw_value_id v, const char *name, uint32_t buffer,
                          lw_plan_io *out) {
  const lw_value *value = lw__value(a->in->graph, v);
  memset(out, 0, sizeof *out);
  LW_TRY(copy_name(a, name ? name : "", &out->name));
  out->dtype = value->dtype;
  out->rank = value->shape.rank;
  for (uint32_t d = 0; d < value->shape.rank; d++) out->dims[d] = value->shape.dim[d];
  out->buffer = buffer;
  return LW_OK;
}

/* Output |index| is filled by a copy when its value lives elsewhere: an input, a weight, or another
 * output. */
static lw_status add_output(assembler *a, uint32_t index) {
  const lw_graph *g = a->in->graph;
  lw_value_id v = g->outputs.data[index];
  uint32_t home, buffer;
  lw_plan_io io;
  LW_TRY(buffer_of(a, v, &home));
  buffer = home;
  if (a->plan->buffers.data[home].kind != LW_BUFFER_OUTPUT ||
      a->plan->buffers.data[home].index != index) {
    lw_plan_buffer own = {.kind = LW_BUFFER_OUTPUT, .index = index, .bytes = value_bytes(g, v)};
    LW_TRY(copy_name(a, g->output_names.data[index], &own.name));
    LW_TRY(add_buffer(a, own, &buffer));
    lw_plan_step copy = {
        .kind = LW_STEP_COPY, .bytes = own.bytes, .arg_count = 2, .cls = "copy", .group = LW_NONE};
    LW_TRY(copy_name(a, g->output_names.data[index], &copy.label));
    LW_TRY(lw__arena_alloc(&a->plan->arena, 2, sizeof *copy.args, &copy.args));
    copy.args[0] = (lw_plan_arg){.kind = LW_ARG_BUFFER, .buffer = buffer, .written = true};
    copy.args[1] = (lw_plan_arg){.kind = LW_ARG_BUFFER, .buffer = home};
    copy.traffic_bytes = 2.0 * (double)own.bytes;
    if (own.bytes)
      LW_TRY(add_step(a, copy, lw__sched_move(a->in->sched.profile, (double)own.bytes)));
  }
  LW_TRY(describe(a, v, g->output_names.data[index], buffer, &io));
  return lw_vec_push(&a->plan->outputs, io);
}

static lw_status add_inputs(assembler *a) {
  const lw_graph *g = a->in->graph;
  for (uint32_t i = 0; i < g->inputs.count; i++) {
    uint32_t buffer;
    lw_plan_io io;
    LW_TRY(buffer_of(a, g->inputs.data[i], &buffer));
    LW_TRY(describe(a, g->inputs.data[i], lw__value(g, g->inputs.data[i])->name, buffer, &io));
    LW_TRY(lw_vec_push(&a->plan->inputs, io));
  }
  return LW_OK;
}

static lw_status assemble(assembler *a) {
  lw_plan *plan = a->plan;
  size_t values = a->in->graph->values.count + 1u;
  LW_TRY(lw__arena_alloc(&plan->arena, values, sizeof *a->buffer_of, &a->buffer_of));
  LW_TRY(lw__arena_alloc(&plan->arena, values, 1, &a->is_constant));
  memset(a->buffer_of, 0xff, values * sizeof *a->buffer_of);
  LW_TRY(add_inputs(a));
  LW_TRY(add_groups(a));
  for (uint32_t i = 0; i < a->in->graph->outputs.count; i++) LW_TRY(add_output(a, i));
  plan->weight_bytes = a->weight_end;
  LW_TRY(lw__plan_link(plan));
  LW_TRY(lw__schedule(plan, a->work.data, &a->in->sched));
  LW_TRY(lw__plan_place(plan));
  return lw__plan_verify(plan, a->diag);
}

lw_status lw__assemble_plan(const lw_assemble_input *in, lw_diag *diag, lw_plan *plan) {
  assembler a = {.in = in, .plan = plan, .diag = diag};
  lw_status status = assemble(&a);
  lw_vec_free(&a.work);
  return status;
}

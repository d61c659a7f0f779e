/* explain.c: the report of what was fused, what was not, and why, as JSON. docs/explain.md is its
 * schema: a key that is added here is added there. */
#include <string.h>

#include "api/json.h"
#include "api/model.h"

typedef struct explainer {
  const lw_model *model;
  const lw_graph *graph; /* after the passes: what was fused */
  uint32_t *group_of;    /* per node, LW_NONE: in no group */
  lw_json json;
} explainer;

/* ---- names ----- */

/* What the node does: "exp", "sum", "dot". */
static const char *node_op(const lw_graph *g, lw_node_id id) {
  const lw_node *node = lw__node(g, id);
  if (node->op == LW_OP_MAP) return lw__fn_info[node->attr.fn].name;
  if (node->op == LW_OP_REDUCE) return lw__red_info[node->attr.reduce.fn].name;
  return lw__op_info[node->op].name;
}

/* The model's name for it, or what it does. */
static const char *node_name(const lw_graph *g, lw_node_id id) {
  const char *name = lw__node(g, id)->name;
  return name != NULL && name[0] != '\0' ? name : node_op(g, id);
}

static void write_value_name(explainer *e, lw_value_id id) {
  const lw_value *value = lw__value(e->graph, id);
  if (value->name != NULL && value->name[0] != '\0') {
    lw__json_str(&e->json, value->name);
  } else {
    lw__json_strf(&e->json, "%%%u", id);
  }
}

/* ---- groups ----- */

typedef struct group_sums {
  uint64_t launches;
  double bytes, predicted_us;
} group_sums;

static group_sums sum_steps(const lw_plan *plan, uint32_t group) {
  group_sums sums = {0};
  for (uint32_t i = 0; i < plan->steps.count; i++) {
    const lw_plan_step *step = &plan->steps.data[i];
    if (step->kind != LW_STEP_LAUNCH || (group != LW_NONE && step->group != group)) continue;
    sums.launches++;
    sums.bytes += step->traffic_bytes;
    sums.predicted_us += step->predicted_us;
  }
  return sums;
}

/* Each name once where several nodes in a row came from one of the model's. */
static void write_nodes(explainer *e, const lw_group *group) {
  lw__json_key_array_begin(&e->json, "nodes");
  const char *last = "";
  for (uint32_t i = 0; i < group->nodes.count; i++) {
    const char *name = node_name(e->graph, group->nodes.data[i]);
    if (i > 0 && strcmp(name, last) == 0) continue;
    lw__json_str(&e->json, name);
    last = name;
  }
  lw__json_array_end(&e->json);
}

static void write_group_kernels(explainer *e, uint32_t group) {
  const lw_plan *plan = &e->model->compiled.plan;
  lw__json_key_array_begin(&e->json, "kernels");
  for (uint32_t i = 0; i < plan->steps.count; i++) {
    const lw_plan_step *step = &plan->steps.data[i];
    if (step->kind != LW_STEP_LAUNCH || step->group != group) continue;
    lw__json_str(&e->json, plan->kernels.data[step->kernel].name);
  }
  lw__json_array_end(&e->json);
}

/* The group in whose launch group |index| has its work. */
static uint32_t launch_of(const explainer *e, uint32_t index) {
  const lw_lowered *lowered = e->model->compiled.lowered;
  for (uint32_t i = index; i-- > 0;)
    if (lowered[i].joined != 0) return i + lowered[i].joined >= index ? i : index;
  return index;
}

static void write_group(explainer *e, uint32_t index) {
  const lw_group *group = &e->model->compiled.fusion.groups.data[index];
  group_sums sums = sum_steps(&e->model->compiled.plan, index);
  lw__json_object_begin(&e->json);
  lw__json_key_uint(&e->json, "group", index);
  lw__json_key_str(&e->json, "class", lw__kclass_name[group->cls]);
  write_nodes(e, group);
  lw__json_key_array_begin(&e->json, "inputs");
  for (uint32_t i = 0; i < group->inputs.count; i++) write_value_name(e, group->inputs.data[i]);
  lw__json_array_end(&e->json);
  lw__json_key_array_begin(&e->json, "outputs");
  for (uint32_t i = 0; i < group->outputs.count; i++) write_value_name(e, group->outputs.data[i]);
  lw__json_array_end(&e->json);
  lw__json_key_str(&e->json, "schedule", e->model->compiled.lowered[index].schedule);
  lw__json_key_uint(&e->json, "launches", sums.launches);
  lw__json_key_uint(&e->json, "launch_of", launch_of(e, index));
  lw__json_key_num(&e->json, "bytes", sums.bytes);
  lw__json_key_num(&e->json, "predicted_us", sums.predicted_us);
  write_group_kernels(e, index);
  lw__json_object_end(&e->json);
}

/* ---- decisions, kernels, totals ----- */

static void write_group_of(explainer *e, const char *key, lw_node_id node) {
  lw__json_key(&e->json, key);
  if (node < e->graph->nodes.count && e->group_of[node] != LW_NONE) {
    lw__json_uint(&e->json, e->group_of[node]);
  } else {
    lw__json_null(&e->json);
  }
}

static void write_decision(explainer *e, const lw_decision *d) {
  lw__json_object_begin(&e->json);
  lw__json_key_str(&e->json, "id", d->id);
  lw__json_key_str(&e->json, "producer", node_name(e->graph, d->producer));
  lw__json_key_str(&e->json, "consumer", node_name(e->graph, d->consumer));
  lw__json_key_str(&e->json, "producer_op", node_op(e->graph, d->producer));
  lw__json_key_str(&e->json, "consumer_op", node_op(e->graph, d->consumer));
  write_group_of(e, "producer_group", d->producer);
  write_group_of(e, "consumer_group", d->consumer);
  lw__json_key_bool(&e->json, "fused", d->fused);
  lw__json_key_bool(&e->json, "forced", d->forced);
  lw__json_key_bool(&e->json, "legal", d->fused || d->us_together > 0);
  lw__json_key_str(&e->json, "reason", d->reason);
  lw__json_key_num(&e->json, "us_apart", d->us_apart);
  lw__json_key_num(&e->json, "us_together", d->us_together);
  lw__json_key_num(&e->json, "bytes_apart", d->bytes_apart);
  lw__json_key_num(&e->json, "bytes_together", d->bytes_together);
  lw__json_object_end(&e->json);
}

static void write_kernel(explainer *e, const lw_plan_kernel *kernel) {
  lw__json_object_begin(&e->json);
  lw__json_key_str(&e->json, "name", kernel->name);
  lw__json_key_uint(&e->json, "block_threads", kernel->block_threads);
  lw__json_key_uint(&e->json, "shared_bytes", kernel->shared_bytes);
  lw__json_key_uint(&e->json, "registers", kernel->registers);
  lw__json_key_uint(&e->json, "spill_bytes", kernel->spill_bytes);
  lw__json_object_end(&e->json);
}

static void write_totals(explainer *e) {
  const lw_compiled *c = &e->model->compiled;
  group_sums sums = sum_steps(&c->plan, LW_NONE);
  lw__json_key_object_begin(&e->json, "totals");
  lw__json_key_uint(&e->json, "groups", c->fusion.groups.count);
  lw__json_key_uint(&e->json, "launches", sums.launches);
  lw__json_key_num(&e->json, "bytes", sums.bytes);
  lw__json_key_num(&e->json, "predicted_us", sums.predicted_us);
  lw__json_key_uint(&e->json, "arena_bytes", c->plan.arena_bytes);
  lw__json_key_uint(&e->json, "weight_bytes", c->plan.weight_bytes);
  lw__json_object_end(&e->json);
}

/* Groups whose kernels were of no use. */
static void write_splits(explainer *e) {
  const lw_compiled *c = &e->model->compiled;
  lw__json_key_array_begin(&e->json, "splits");
  for (uint32_t i = 0; i < c->splits.count; i++) {
    const lw_split *split = &c->splits.data[i];
    lw__json_object_begin(&e->json);
    lw__json_key_str(&e->json, "reason", lw__trouble_name(split->trouble));
    lw__json_key_str(&e->json, "kernel", split->kernel);
    lw__json_key_str(&e->json, "nodes", split->nodes);
    lw__json_key_str(&e->json, "fusion", split->fusion);
    lw__json_key_str(&e->json, "text", split->text);
    lw__json_object_end(&e->json);
  }
  lw__json_array_end(&e->json);
}

/* How the steps are ordered while they run. */
static void write_schedule(explainer *e) {
  const lw_plan *plan = &e->model->compiled.plan;
  uint64_t waits = 0, critical = 0;
  for (uint32_t i = 0; i < plan->steps.count; i++) {
    waits += plan->steps.data[i].wait_count;
    critical += plan->steps.data[i].critical;
  }
  lw__json_key_object_begin(&e->json, "schedule");
  lw__json_key_uint(&e->json, "lanes", plan->lane_count);
  lw__json_key_str(&e->json, "why", plan->lane_note);
  lw__json_key_uint(&e->json, "waits", waits);
  lw__json_key_uint(&e->json, "critical_steps", critical);
  lw__json_key_num(&e->json, "predicted_us", plan->predicted_us);
  lw__json_key_num(&e->json, "one_lane_us", plan->one_lane_us);
  lw__json_key_uint(&e->json, "arena_bytes", plan->arena_bytes);
  lw__json_key_uint(&e->json, "live_bytes", lw__plan_live_bytes(plan));
  lw__json_object_end(&e->json);
}

/* Why something tempting was left alone, and warnings. */
static void write_notes(explainer *e) {
  lw__json_key_array_begin(&e->json, "notes");
  for (uint32_t i = 0; i < e->model->diag.messages.count; i++) {
    const lw_message *m = &e->model->diag.messages.data[i];
    lw__json_object_begin(&e->json);
    lw__json_key_str(&e->json, "where", m->where);
    lw__json_key_str(&e->json, "text", m->text);
    lw__json_object_end(&e->json);
  }
  lw__json_array_end(&e->json);
}

static void write_report(explainer *e) {
  const lw_compiled *c = &e->model->compiled;
  lw__json_object_begin(&e->json);
  lw__json_key_str(&e->json, "schema", "lawson-explain-1");
  lw__json_key_str(&e->json, "target", e->model->target);
  lw__json_key_str(&e->json, "profile", e->model->profile.name);
  lw__json_key_bool(&e->json, "fuse", e->model->fuse);
  lw__json_key_array_begin(&e->json, "groups");
  for (uint32_t i = 0; i < c->fusion.groups.count; i++) write_group(e, i);
  lw__json_array_end(&e->json);
  lw__json_key_array_begin(&e->json, "decisions");
  for (uint32_t i = 0; i < c->fusion.decisions.count; i++) {
    write_decision(e, &c->fusion.decisions.data[i]);
  }
  lw__json_array_end(&e->json);
  lw__json_key_array_begin(&e->json, "kernels");
  for (uint32_t i = 0; i < c->plan.kernels.count; i++) write_kernel(e, &c->plan.kernels.data[i]);
  lw__json_array_end(&e->json);
  write_totals(e);
  write_splits(e);
  write_schedule(e);
  write_notes(e);
  lw__json_key_uint(&e->json, "kernels_built", c->kernels_built);
  lw__json_key_uint(&e->json, "kernels_cached", c->kernels_cached);
  lw__json_object_end(&e->json);
}

static void find_groups(explainer *e) {
  const lw_fusion *fusion = &e->model->compiled.fusion;
  for (uint32_t n = 0; n < e->graph->nodes.count; n++) e->group_of[n] = LW_NONE;
  for (uint32_t i = 0; i < fusion->groups.count; i++) {
    const lw_group *group = &fusion->groups.data[i];
    for (uint32_t k = 0; k < group->nodes.count; k++) e->group_of[group->nodes.data[k]] = i;
  }
}

lw_status lw__model_explain(const lw_model *model, lw_text *out) {
  lw_arena arena = {0};
  explainer e = {.model = model, .graph = &model->compiled.graph};
  lw_status status = lw__arena_alloc(&arena, e.graph->nodes.count, sizeof *e.group_of, &e.group_of);
  if (status == LW_OK) {
    lw__json_init(&e.json, out, true);
    find_groups(&e);
    write_report(&e);
    status = out->status;
  }
  lw__arena_deinit(&arena);
  return status;
}

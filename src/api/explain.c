/* explain.c: the fusion report as JSON (docs/explain.md). */
#include "api/json.h"
#include "api/pipeline.h"

static const char *node_name(const lw_graph *g, lw_node_id id) {
  const lw_node *n = lw__node(g, id);
  if (n->name) return n->name;
  return n->op == LW_OP_MAP ? lw__fn_info[n->attr.fn].name : lw__op_info[n->op].name;
}

static void write_values(lw_json *j, const lw_graph *g, const char *key, const lw_value_id *values, uint32_t count) {
  lw__json_key_array_begin(j, key);
  for (uint32_t i = 0; i < count; i++) {
    const char *name = lw__value(g, values[i])->name;
    if (name) lw__json_str(j, name);
    else lw__json_strf(j, "%%%u", values[i]);
  }
  lw__json_array_end(j);
}

static void write_launches(lw_json *j, const lw_compiled *c, uint32_t group) {
  const lw_plan *plan = &c->plan;
  lw__json_key_array_begin(j, "kernels");
  for (uint32_t pass = 0; pass < 2; pass++) {
    const lw_plan_step *steps = pass ? plan->steps.data : plan->init.data;
    uint32_t count = pass ? plan->steps.count : plan->init.count;
    for (uint32_t i = 0; i < count; i++)
      if (steps[i].kind == LW_STEP_LAUNCH && steps[i].group == group) lw__json_str(j, plan->kernels.data[steps[i].kernel].name);
  }
  lw__json_array_end(j);
}

static void write_group(lw_json *j, const lw_compiled *c, uint32_t id) {
  const lw_group *group = &c->fusion.groups.data[id];
  lw__json_object_begin(j);
  lw__json_key_uint(j, "group", id);
  lw__json_key_str(j, "class", lw__kclass_name[group->cls]);
  lw__json_key_str(j, "schedule", c->lowered[id].schedule);
  lw__json_key_array_begin(j, "nodes");
  for (uint32_t i = 0; i < group->nodes.count; i++) lw__json_str(j, node_name(&c->graph, group->nodes.data[i]));
  lw__json_array_end(j);
  write_values(j, &c->graph, "inputs", group->inputs.data, group->inputs.count);
  write_values(j, &c->graph, "outputs", group->outputs.data, group->outputs.count);
  lw__json_key_uint(j, "launches", c->lowered[id].launches.count);
  lw__json_key_num(j, "bytes", group->work.dram_bytes);
  lw__json_key_num(j, "predicted_us", group->cost.us);
  write_launches(j, c, id);
  lw__json_object_end(j);
}

static int64_t group_of(const lw_compiled *c, lw_node_id node) {
  for (uint32_t g = 0; g < c->fusion.groups.count; g++)
    for (uint32_t i = 0; i < c->fusion.groups.data[g].nodes.count; i++)
      if (c->fusion.groups.data[g].nodes.data[i] == node) return g;
  return -1;
}

static void write_decision(lw_json *j, const lw_compiled *c, const lw_decision *d) {
  lw__json_object_begin(j);
  lw__json_key_str(j, "id", d->id);
  lw__json_key_str(j, "producer", node_name(&c->graph, d->producer));
  lw__json_key_str(j, "consumer", node_name(&c->graph, d->consumer));
  lw__json_key_int(j, "producer_group", group_of(c, d->producer));
  lw__json_key_int(j, "consumer_group", group_of(c, d->consumer));
  lw__json_key_bool(j, "fused", d->fused);
  lw__json_key_bool(j, "forced", d->forced);
  lw__json_key_bool(j, "legal", d->fused || d->us_together > 0);
  lw__json_key_str(j, "reason", d->reason);
  lw__json_key_num(j, "us_apart", d->us_apart);
  lw__json_key_num(j, "us_together", d->us_together);
  lw__json_key_num(j, "bytes_apart", d->bytes_apart);
  lw__json_key_num(j, "bytes_together", d->bytes_together);
  lw__json_object_end(j);
}

static void write_kernel(lw_json *j, const lw_plan_kernel *k) {
  lw__json_object_begin(j);
  lw__json_key_str(j, "name", k->name);
  lw__json_key_uint(j, "block_threads", k->block_threads);
  lw__json_key_uint(j, "shared_bytes", k->shared_bytes);
  lw__json_key_uint(j, "registers", k->registers);
  lw__json_key_uint(j, "spill_bytes", k->spill_bytes);
  lw__json_object_end(j);
}

static void write_totals(lw_json *j, const lw_compiled *c) {
  double bytes = 0, us = 0;
  uint64_t launches = 0;
  for (uint32_t i = 0; i < c->plan.steps.count; i++) {
    const lw_plan_step *step = &c->plan.steps.data[i];
    launches += step->kind == LW_STEP_LAUNCH;
    bytes += step->traffic_bytes;
    us += step->predicted_us;
  }
  lw__json_key_object_begin(j, "totals");
  lw__json_key_uint(j, "groups", c->fusion.groups.count);
  lw__json_key_uint(j, "launches", launches);
  lw__json_key_num(j, "bytes", bytes);
  lw__json_key_num(j, "predicted_us", us);
  lw__json_key_uint(j, "arena_bytes", c->plan.arena_bytes);
  lw__json_key_uint(j, "weight_bytes", c->plan.weight_bytes);
  lw__json_object_end(j);
}

void lw__compiled_explain_json(const lw_compiled *c, lw_text *out) {
  lw_json j;
  lw__json_init(&j, out, true);
  lw__json_object_begin(&j);
  lw__json_key_str(&j, "schema", "lawson-explain-1");
  lw__json_key(&j, "target");
  if (c->plan.target == LW_PLAN_CPU) lw__json_str(&j, "cpu");
  else lw__json_strf(&j, "cuda:sm_%u%s", c->plan.sm_arch, c->plan.arch_specific ? "a" : "");
  lw__json_key_str(&j, "profile", c->profile->name);
  lw__json_key_bool(&j, "fuse", !c->fuse_off);
  lw__json_key_array_begin(&j, "groups");
  for (uint32_t i = 0; i < c->fusion.groups.count; i++) write_group(&j, c, i);
  lw__json_array_end(&j);
  lw__json_key_array_begin(&j, "decisions");
  for (uint32_t i = 0; i < c->fusion.decisions.count; i++) write_decision(&j, c, &c->fusion.decisions.data[i]);
  lw__json_array_end(&j);
  lw__json_key_array_begin(&j, "kernels");
  for (uint32_t i = 0; i < c->plan.kernels.count; i++) write_kernel(&j, &c->plan.kernels.data[i]);
  lw__json_array_end(&j);
  write_totals(&j, c);
  lw__json_key_uint(&j, "kernels_built", c->kernels_built);
  lw__json_key_uint(&j, "kernels_cached", c->kernels_cached);
  lw__json_object_end(&j);
}

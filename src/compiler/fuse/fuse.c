/* fuse.c: runs the search and turns what it found into groups in running order. */
#include "compiler/fuse/fuse.h"

#include <string.h>

#include "compiler/fuse/search.h"

static lw_status values_of(lw_search *s, const lw_search_group *from, lw_group *to) {
  lw_region region;
  lw_ix space[4];
  lw_status status = lw__region_init(&region, s->ctx, from->nodes.data, from->nodes.count);
  if (status == LW_OK) {
    lw__region_plain_space(&region, space);
    status = lw__region_place(&region, space);
  }
  for (uint32_t i = 0; i < region.outputs.count && status == LW_OK; i++)
    status = lw_vec_push(&to->outputs, region.outputs.data[i].value);
  for (uint32_t i = 0; i < region.pool.nodes.count && status == LW_OK; i++) {
    const lw_elem_node *n = lw__elem_node(&region.pool, i);
    if (n->kind != LW_ELEM_LOAD && n->kind != LW_ELEM_GATHER) continue;
    bool known = false;
    for (uint32_t j = 0; j < to->inputs.count && !known; j++)
      known = to->inputs.data[j] == n->value;
    if (!known) status = lw_vec_push(&to->inputs, n->value);
  }
  lw__region_deinit(&region);
  return status;
}

static lw_status add_group(lw_search *s, uint32_t id, lw_fusion *out) {
  const lw_search_group *from = &s->groups.data[id];
  lw_group group = {.cls = from->price.cls, .cost = from->price.cost, .work = from->price.work};
  lw_status status = lw_vec_reserve(&group.nodes, from->nodes.count);
  if (status == LW_OK) {
    memcpy(group.nodes.data, from->nodes.data, from->nodes.count * sizeof(lw_node_id));
    group.nodes.count = from->nodes.count;
    status = values_of(s, from, &group);
  }
  if (status == LW_OK) status = lw_vec_push(&out->groups, group);
  if (status == LW_OK) return LW_OK;
  lw_vec_free(&group.nodes);
  lw_vec_free(&group.inputs);
  lw_vec_free(&group.outputs);
  return status;
}

/* Kahn's algorithm over groups; among those that are ready the one with the smallest first node
 * goes first (a ready list kept as a heap by group id works because ids ascend with first nodes of
 * unmerged seeds). */
static lw_status order_groups(lw_search *s, uint32_t *waiting, lw_fusion *out) {
  LW_VEC(uint32_t) ready = {0};
  lw_status status = LW_OK;
  for (uint32_t i = 0; i < s->pairs.count; i++) {
    const lw_pair *p = &s->pairs.data[i];
    if (!p->sibling && s->group_of[p->producer] != s->group_of[p->consumer])
      waiting[s->group_of[p->consumer]]++;
  }
  for (uint32_t i = s->groups.count; i-- > 0 && status == LW_OK;)
    if (s->groups.data[i].nodes.count && !waiting[i]) status = lw_vec_push(&ready, i);
  while (ready.count && status == LW_OK) {
    uint32_t id = ready.data[--ready.count];
    status = add_group(s, id, out);
    for (uint32_t e = s->groups.data[id].first_edge; e != LW_NONE && status == LW_OK;
         e = s->edges.data[e].next) {
      uint32_t next = s->group_of[s->edges.data[e].consumer];
      if (next != id && --waiting[next] == 0) status = lw_vec_push(&ready, next);
    }
  }
  lw_vec_free(&ready);
  return status;
}

static lw_status record_decisions(const lw_search *s, lw_fusion *out) {
  for (uint32_t i = 0; i < s->pairs.count; i++) {
    const lw_pair *p = &s->pairs.data[i];
    lw_decision d = {.producer = p->producer, .consumer = p->consumer, .forced = p->forced};
    d.fused = s->group_of[p->producer] == s->group_of[p->consumer];
    if (p->sibling && !d.fused && !p->forced && !p->forbidden)
      continue; /* strangers that could share a launch: only if they do */
    d.us_apart = p->us_apart;
    d.us_together = p->us_together;
    d.bytes_apart = p->bytes_apart;
    d.bytes_together = p->bytes_together;
    d.reason = d.fused && !p->fused ? "came together through other pairs" : p->reason;
    memcpy(d.id, p->id, sizeof d.id);
    LW_TRY(lw_vec_push(&out->decisions, d));
  }
  return LW_OK;
}

static lw_status run_search(lw_search *s, const lw_fuse_options *options, lw_fusion *out) {
  LW_TRY(lw__search_run(s, options));
  uint32_t *waiting;
  LW_TRY(lw__arena_alloc(&out->arena, s->groups.count + 1u, sizeof *waiting, &waiting));
  LW_TRY(order_groups(s, waiting, out));
  uint32_t alive = 0;
  for (uint32_t i = 0; i < s->groups.count; i++) alive += s->groups.data[i].nodes.count > 0;
  if (alive != out->groups.count)
    return lw__fail(s->ctx->graph->diag, LW_STATUS_INTERNAL, NULL, "the fused groups form a cycle");
  return record_decisions(s, out);
}

lw_status lw__fuse(const lw_graph *graph, const lw_device_profile *profile,
                   const lw_resource_policy *policy, const lw_fuse_options *options, lw_diag *diag,
                   lw_fusion *out) {
  (void)policy;
  (void)diag;
  memset(out, 0, sizeof *out);
  lw_region_context ctx;
  lw_status status = lw__region_context_init(&ctx, graph);
  if (status == LW_OK) {
    lw_search search = {.ctx = &ctx, .profile = profile};
    status = run_search(&search, options, out);
    lw__search_deinit(&search);
  }
  lw__region_context_deinit(&ctx);
  return status;
}

void lw__fusion_deinit(lw_fusion *fusion) {
  for (uint32_t i = 0; i < fusion->groups.count; i++) {
    lw_vec_free(&fusion->groups.data[i].nodes);
    lw_vec_free(&fusion->groups.data[i].inputs);
    lw_vec_free(&fusion->groups.data[i].outputs);
  }
  lw_vec_free(&fusion->groups);
  lw_vec_free(&fusion->decisions);
  lw__arena_deinit(&fusion->arena);
  memset(fusion, 0, sizeof *fusion);
}

void lw__fusion_print(const lw_fusion *fusion, const lw_graph *graph, lw_text *out) {
  for (uint32_t i = 0; i < fusion->groups.count; i++) {
    const lw_group *group = &fusion->groups.data[i];
    lw__text_add(out, "group %u %s: %.3f us, %.0f bytes\n", i, lw__kclass_name[group->cls],
                 group->cost.us, group->work.dram_bytes);
    for (uint32_t n = 0; n < group->nodes.count; n++) {
      const lw_node *node = lw__node(graph, group->nodes.data[n]);
      const char *name =
          node->op == LW_OP_MAP ? lw__fn_info[node->attr.fn].name : lw__op_info[node->op].name;
      lw__text_add(out, "  %%%u = %s  %s\n", node->result, name, node->name ? node->name : "");
    }
  }
}

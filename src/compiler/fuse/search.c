/* search.c: merges neighbouring groups by predicted gain. Every node that computes starts as a
 * group of its own; the pair with the largest gain is merged first; a pair is looked at again
 * whenever one of its groups has changed. */
#include "compiler/fuse/search.h"

#include <float.h>
#include <stdio.h>
#include <string.h>

enum { max_group_nodes = 256, max_group_buffers = 64, max_siblings = 12, recent_pairs = 64 };

/* ---- candidate pairs --------------------------------------------------------------------------*/

static lw_status add_pair(lw_search *s, lw_node_id producer, lw_node_id consumer, bool sibling) {
  /* A product of a value with itself, a concat of two views of one value: one pair. Those of one
   * consumer stand together. */
  for (uint32_t i = s->pairs.count, looked = 0; i-- > 0 && looked < recent_pairs; looked++) {
    const lw_pair *p = &s->pairs.data[i];
    if (p->producer == producer && p->consumer == consumer && p->sibling == sibling) return LW_OK;
  }
  lw_pair pair = {.producer = producer, .consumer = consumer, .sibling = sibling};
  return lw_vec_push(&s->pairs, pair);
}

/* The nodes whose results |value| is read from, through movements; each as a pair with |consumer|.
 */
static lw_status pairs_behind(lw_search *s, lw_value_id value, lw_node_id consumer, int depth) {
  const lw_graph *g = s->ctx->graph;
  lw_node_id p = lw__value(g, value)->producer;
  if (!lw__is_view(g, p)) return s->ctx->seed[p] ? add_pair(s, p, consumer, false) : LW_OK;
  if (depth > 2000)
    return lw__fail(g->diag, LW_STATUS_UNSUPPORTED, NULL,
                    "a chain of movements and casts is too deep");
  if (s->ctx->order[p] == consumer + 1) return LW_OK; /* seen from this consumer already */
  s->ctx->order[p] = consumer + 1;
  const lw_node *move = lw__node(g, p);
  for (uint32_t i = 0; i < move->operand_count; i++)
    LW_TRY(pairs_behind(s, lw__operand(g, move, i), consumer, depth + 1));
  return LW_OK;
}

/* Readers of one value can share a launch: pairs of neighbours in the list of its users. */
static lw_status sibling_pairs(lw_search *s, lw_value_id value) {
  const lw_uses *uses = &s->ctx->uses;
  lw_node_id last = LW_NONE;
  uint32_t made = 0;
  for (uint32_t u = uses->begin[value]; u < uses->begin[value + 1] && made < max_siblings; u++) {
    lw_node_id user = uses->list[u].node;
    if (!s->ctx->seed[user] || user == last) continue;
    if (last != LW_NONE) {
      LW_TRY(add_pair(s, last, user, true));
      made++;
    }
    last = user;
  }
  return LW_OK;
}

/* A gather reads its data where it is stored; all other operands are seen through movements. */
static lw_status operand_pairs(lw_search *s, lw_node_id consumer, uint32_t operand) {
  const lw_graph *g = s->ctx->graph;
  const lw_node *node = lw__node(g, consumer);
  lw_value_id value = lw__operand(g, node, operand);
  if (node->op == LW_OP_GATHER && operand == 0) {
    while (lw__producer(g, value)->op == LW_OP_RESHAPE)
      value = lw__operand(g, lw__producer(g, value), 0);
    lw_node_id p = lw__value(g, value)->producer;
    return s->ctx->seed[p] ? add_pair(s, p, consumer, false) : LW_OK;
  }
  return pairs_behind(s, value, consumer, 0);
}

static lw_status collect_pairs(lw_search *s) {
  const lw_graph *g = s->ctx->graph;
  for (uint32_t n = 0; n < g->nodes.count; n++) {
    if (!s->ctx->seed[n]) continue;
    const lw_node *node = lw__node(g, n);
    for (uint32_t i = 0; i < node->operand_count; i++) LW_TRY(operand_pairs(s, n, i));
  }
  for (uint32_t v = 0; v < g->values.count; v++) LW_TRY(sibling_pairs(s, v));
  return LW_OK;
}

/* The id names the two nodes by what they are, not by when they were made: name, operator, result
 * type and position. */
static void name_pair(const lw_graph *g, lw_pair *pair) {
  lw_hash h = {pair->sibling, 0};
  lw_node_id ends[2] = {pair->producer, pair->consumer};
  for (int i = 0; i < 2; i++) {
    const lw_node *n = lw__node(g, ends[i]);
    const lw_value *v = lw__value(g, n->result);
    uint32_t facts[3] = {(uint32_t)n->op, (uint32_t)v->dtype, ends[i]};
    h = lw__hash_bytes(facts, sizeof facts, h);
    if (n->name) h = lw__hash_bytes(n->name, strlen(n->name), h);
    h = lw__hash_bytes(v->shape.dim, v->shape.rank * sizeof v->shape.dim[0], h);
  }
  snprintf(pair->id, sizeof pair->id, "f%012llx", (unsigned long long)(h.lo & 0xffffffffffffu));
}

/* ---- evaluation -------------------------------------------------------------------------------*/

/* Prices the nodes as one kernel. UNSUPPORTED: *out_why says why not. */
static lw_status price(lw_search *s, const lw_node_id *nodes, uint32_t count, lw_group_price *out,
                       const char **out_why) {
  lw_region region;
  lw_status status = lw__region_init(&region, s->ctx, nodes, count);
  lw_ix space[4];
  if (status == LW_OK) {
    lw__region_plain_space(&region, space);
    status = lw__region_place(&region, space);
  }
  if (status == LW_OK) status = lw__cost_region(&region, s->profile, &out->work);
  if (status == LW_OK) {
    out->cls = region.cls;
    out->cost = lw__cost_launch(s->profile, &out->work);
    out->buffers = lw__region_buffer_count(&region);
  }
  *out_why = region.why ? region.why : "this combination has no kernel class";
  lw__region_deinit(&region);
  return status;
}

/* Merged node list of two groups, in node order. */
static lw_status merge_nodes(const lw_search_group *a, const lw_search_group *b,
                             lw_vec_nodes *out) {
  out->count = 0;
  LW_TRY(lw_vec_reserve(out, a->nodes.count + b->nodes.count));
  for (uint32_t i = 0, j = 0; i < a->nodes.count || j < b->nodes.count;) {
    bool left = j == b->nodes.count || (i < a->nodes.count && a->nodes.data[i] < b->nodes.data[j]);
    out->data[out->count++] = left ? a->nodes.data[i++] : b->nodes.data[j++];
  }
  return LW_OK;
}

/* Is there a path from group |from| to group |to| that leaves both in between? Groups behind |to|
 * in the order of groups cannot lie on it. */
static bool path_between(lw_search *s, uint32_t from, uint32_t to, bool direct_counts) {
  uint32_t limit = s->groups.data[to].place;
  if (s->groups.data[from].place > limit) return false;
  s->visit++;
  s->stack.count = 0;
  if (lw_vec_push(&s->stack, from) != LW_OK) return true;
  while (s->stack.count) {
    uint32_t at = s->stack.data[--s->stack.count];
    for (uint32_t e = s->groups.data[at].first_edge; e != LW_NONE; e = s->edges.data[e].next) {
      uint32_t next = s->group_of[s->edges.data[e].consumer];
      if (next == at) continue;
      if (next == to) {
        if (at != from || direct_counts) return true;
        continue;
      }
      if (s->groups.data[next].visit == s->visit || s->groups.data[next].place > limit) continue;
      s->groups.data[next].visit = s->visit;
      if (lw_vec_push(&s->stack, next) != LW_OK) return true;
    }
  }
  return false;
}

static bool makes_cycle(lw_search *s, uint32_t a, uint32_t b, bool sibling) {
  return path_between(s, a, b, sibling) || path_between(s, b, a, true);
}

/* ---- order of groups --------------------------------------------------------------------------*/

static void put_at(lw_search *s, uint32_t place, uint32_t group) {
  s->at.data[place] = group;
  s->groups.data[group].place = place;
}

/* Before |b| becomes part of |a|, which makes no cycle: the later of them takes the place of both,
 * and what depends on the earlier one and stands between them moves behind it. */
static lw_status make_room(lw_search *s, uint32_t a, uint32_t b) {
  bool a_first = s->groups.data[a].place < s->groups.data[b].place;
  uint32_t first = a_first ? a : b, last = a_first ? b : a;
  uint32_t to = s->groups.data[first].place;
  if (path_between(s, first, last, false)) /* marks what depends on |first| */
    return LW_STATUS_OUT_OF_MEMORY;
  s->stack.count = 0;
  LW_TRY(lw_vec_reserve(&s->stack, s->groups.data[last].place - to + 1));
  for (uint32_t from = to + 1; from < s->groups.data[last].place; from++) {
    uint32_t group = s->at.data[from];
    if (group == LW_NONE) continue;
    if (s->groups.data[group].visit == s->visit)
      s->stack.data[s->stack.count++] = group;
    else
      put_at(s, to++, group);
  }
  uint32_t end = s->groups.data[last].place;
  put_at(s, to, a);
  s->groups.data[b].place = to++;
  for (uint32_t i = 0; i < s->stack.count; i++) put_at(s, to++, s->stack.data[i]);
  while (to <= end) s->at.data[to++] = LW_NONE;
  return LW_OK;
}

static bool listed(const char *const *ids, uint32_t count, const char *id) {
  for (uint32_t i = 0; i < count; i++)
    if (!strcmp(ids[i], id)) return true;
  return false;
}

/* Would the merge bring a forbidden pair together? */
static bool brings_forbidden(const lw_search *s, uint32_t a, uint32_t b) {
  for (uint32_t i = 0; i < s->pairs.count; i++) {
    const lw_pair *p = &s->pairs.data[i];
    uint32_t x = s->group_of[p->producer], y = s->group_of[p->consumer];
    if (p->forbidden && ((x == a && y == b) || (x == b && y == a))) return true;
  }
  return false;
}

static lw_status judge(lw_search *s, lw_pair *pair) {
  uint32_t a = s->group_of[pair->producer], b = s->group_of[pair->consumer];
  const lw_search_group *ga = &s->groups.data[a], *gb = &s->groups.data[b];
  pair->gain = -DBL_MAX;
  pair->version_a = ga->version;
  pair->version_b = gb->version;
  pair->us_apart = ga->price.cost.us + gb->price.cost.us;
  pair->bytes_apart = ga->price.work.dram_bytes + gb->price.work.dram_bytes;
  pair->us_together = pair->bytes_together = 0;
  if (s->has_forbidden && brings_forbidden(s, a, b))
    return pair->reason = "forbidden by option", LW_OK;
  if (ga->nodes.count + gb->nodes.count > max_group_nodes)
    return pair->reason = "the kernel would hold too many nodes", LW_OK;
  if (makes_cycle(s, a, b, pair->sibling))
    return pair->reason = "another kernel stands between them", LW_OK;
  LW_TRY(merge_nodes(ga, gb, &s->merged));
  lw_group_price together;
  lw_status status = price(s, s->merged.data, s->merged.count, &together, &pair->reason);
  if (status == LW_STATUS_UNSUPPORTED) return LW_OK;
  LW_TRY(status);
  pair->us_together = together.cost.us;
  pair->bytes_together = together.work.dram_bytes;
  if (together.buffers > max_group_buffers)
    return pair->reason = "the kernel would need too many buffers", LW_OK;
  pair->gain = pair->forced ? DBL_MAX : pair->us_apart - pair->us_together;
  pair->reason = pair->gain > 0 ? "pays" : "does not pay: it would take longer together";
  return LW_OK;
}

/* ---- heap of pairs by gain --------------------------------------------------------------------*/

static bool before(const lw_heap_item *a, const lw_heap_item *b) {
  return a->gain != b->gain ? a->gain > b->gain : a->pair < b->pair;
}

static lw_status heap_push(lw_search *s, uint32_t pair) {
  lw_heap_item item = {s->pairs.data[pair].gain, pair, s->pairs.data[pair].version_a,
                       s->pairs.data[pair].version_b};
  LW_TRY(lw_vec_push(&s->heap, item));
  for (uint32_t i = s->heap.count - 1; i > 0;) {
    uint32_t up = (i - 1) / 2;
    if (!before(&item, &s->heap.data[up])) break;
    s->heap.data[i] = s->heap.data[up];
    s->heap.data[up] = item;
    i = up;
  }
  return LW_OK;
}

static lw_heap_item heap_pop(lw_search *s) {
  lw_heap_item top = s->heap.data[0], last = s->heap.data[--s->heap.count];
  for (uint32_t i = 0;;) {
    uint32_t child = 2 * i + 1;
    if (child >= s->heap.count) {
      if (s->heap.count) s->heap.data[i] = last;
      return top;
    }
    if (child + 1 < s->heap.count && before(&s->heap.data[child + 1], &s->heap.data[child]))
      child++;
    if (!before(&s->heap.data[child], &last)) {
      s->heap.data[i] = last;
      return top;
    }
    s->heap.data[i] = s->heap.data[child];
    i = child;
  }
}

static lw_status consider(lw_search *s, uint32_t pair) {
  lw_pair *p = &s->pairs.data[pair];
  if (s->group_of[p->producer] == s->group_of[p->consumer]) return LW_OK;
  if (s->off && !p->forced) return p->reason = "fusion is off", LW_OK;
  LW_TRY(judge(s, p));
  return p->gain > 0 ? heap_push(s, pair) : LW_OK;
}

/* ---- merging ----------------------------------------------------------------------------------*/

/* Group |b| becomes part of |a|. */
static lw_status merge(lw_search *s, uint32_t a, uint32_t b) {
  lw_search_group *ga = &s->groups.data[a], *gb = &s->groups.data[b];
  LW_TRY(make_room(s, a, b));
  LW_TRY(merge_nodes(ga, gb, &s->merged));
  LW_TRY(lw_vec_reserve(&ga->nodes, gb->nodes.count));
  memcpy(ga->nodes.data, s->merged.data, s->merged.count * sizeof s->merged.data[0]);
  ga->nodes.count = s->merged.count;
  for (uint32_t i = 0; i < gb->nodes.count; i++) s->group_of[gb->nodes.data[i]] = a;
  gb->nodes.count = 0;
  uint32_t *tail = &ga->first_edge;
  while (*tail != LW_NONE) tail = &s->edges.data[*tail].next;
  *tail = gb->first_edge;
  gb->first_edge = LW_NONE;
  tail = &ga->first_touch;
  while (*tail != LW_NONE) tail = &s->touches.data[*tail].next;
  *tail = gb->first_touch;
  gb->first_touch = LW_NONE;
  ga->version = ++s->clock;
  const char *why;
  return price(s, ga->nodes.data, ga->nodes.count, &ga->price, &why);
}

static lw_status reconsider(lw_search *s, uint32_t group) {
  for (uint32_t t = s->groups.data[group].first_touch; t != LW_NONE; t = s->touches.data[t].next)
    LW_TRY(consider(s, s->touches.data[t].pair));
  return LW_OK;
}

/* A pair that an earlier merge made illegal or dear is judged again before it is believed. */
static lw_status take_best(lw_search *s) {
  lw_heap_item item = heap_pop(s);
  lw_pair *p = &s->pairs.data[item.pair];
  uint32_t a = s->group_of[p->producer], b = s->group_of[p->consumer];
  if (a == b) return LW_OK;
  if (s->groups.data[a].version != item.version_a || s->groups.data[b].version != item.version_b)
    return LW_OK;
  if (makes_cycle(s, a, b, p->sibling))
    return p->gain = -DBL_MAX, p->reason = "another kernel stands between them", LW_OK;
  LW_TRY(merge(s, a, b));
  p->fused = true;
  return reconsider(s, a);
}

/* ---- set-up -----------------------------------------------------------------------------------*/

static lw_status init_groups(lw_search *s) {
  const lw_graph *g = s->ctx->graph;
  void *map = NULL;
  LW_TRY(lw__mem_resize(&map, (g->nodes.count + 1u) * sizeof(uint32_t)));
  s->group_of = map;
  for (uint32_t n = 0; n < g->nodes.count; n++) {
    s->group_of[n] = LW_NONE;
    if (!s->ctx->seed[n]) continue;
    lw_search_group group = {
        .first_edge = LW_NONE, .first_touch = LW_NONE, .place = s->groups.count};
    LW_TRY(lw_vec_push(&s->at, s->groups.count));
    LW_TRY(lw_vec_push(&group.nodes, n));
    s->group_of[n] = s->groups.count;
    lw_status status = lw_vec_push(&s->groups, group);
    if (status != LW_OK) {
      lw_vec_free(&group.nodes);
      return status;
    }
    const char *why = NULL;
    lw_search_group *placed = &s->groups.data[s->groups.count - 1];
    status = price(s, placed->nodes.data, 1, &placed->price, &why);
    if (status == LW_STATUS_UNSUPPORTED)
      return lw__fail(g->diag, status, lw__node(g, n)->name, "%s has no kernel: %s",
                      lw__op_info[lw__node(g, n)->op].name, why);
    LW_TRY(status);
  }
  return LW_OK;
}

static lw_status touch(lw_search *s, uint32_t group, uint32_t pair) {
  lw_touch t = {pair, s->groups.data[group].first_touch};
  s->groups.data[group].first_touch = s->touches.count;
  return lw_vec_push(&s->touches, t);
}

static lw_status init_edges(lw_search *s, const lw_fuse_options *options) {
  for (uint32_t i = 0; i < s->pairs.count; i++) {
    lw_pair *p = &s->pairs.data[i];
    name_pair(s->ctx->graph, p);
    p->forced = listed(options->force, options->force_count, p->id);
    p->forbidden = listed(options->forbid, options->forbid_count, p->id);
    s->has_forbidden |= p->forbidden;
    uint32_t a = s->group_of[p->producer], b = s->group_of[p->consumer];
    LW_TRY(touch(s, a, i));
    LW_TRY(touch(s, b, i));
    if (p->sibling) continue;
    lw_search_edge edge = {p->consumer, s->groups.data[a].first_edge};
    s->groups.data[a].first_edge = s->edges.count;
    LW_TRY(lw_vec_push(&s->edges, edge));
  }
  return LW_OK;
}

lw_status lw__search_run(lw_search *s, const lw_fuse_options *options) {
  LW_TRY(init_groups(s));
  LW_TRY(collect_pairs(s));
  LW_TRY(init_edges(s, options));
  s->off = options->off;
  for (uint32_t i = 0; i < s->pairs.count; i++) LW_TRY(consider(s, i));
  while (s->heap.count) LW_TRY(take_best(s));
  return LW_OK;
}

void lw__search_deinit(lw_search *s) {
  for (uint32_t i = 0; i < s->groups.count; i++) lw_vec_free(&s->groups.data[i].nodes);
  lw_vec_free(&s->groups);
  lw_vec_free(&s->pairs);
  lw_vec_free(&s->edges);
  lw_vec_free(&s->touches);
  lw_vec_free(&s->heap);
  lw_vec_free(&s->merged);
  lw_vec_free(&s->stack);
  lw_vec_free(&s->at);
  lw__mem_free(s->group_of);
}

/* rewrite.c: uses of values, replacement, compaction, copies. Nothing here recurses over the graph.
 */
#include <string.h>

#include "graph/infer.h"

/* |count| elements of memory that is freed by itself; for work arrays. */
static lw_status work_alloc(size_t count, size_t size, void *out_ptr) {
  void *p = NULL;
  size_t bytes = 0;
  if (!lw__mul_size(count, size, &bytes)) return LW_STATUS_OUT_OF_MEMORY;
  LW_TRY(lw__mem_resize(&p, bytes > 0 ? bytes : 1));
  memcpy(out_ptr, &p, sizeof p);
  return LW_OK;
}

/* ---- uses -------------------------------------------------------------------------------------*/

void lw__uses_deinit(lw_uses *uses) {
  lw__mem_free(uses->begin);
  lw__mem_free(uses->list);
  lw__mem_free(uses->is_output);
  memset(uses, 0, sizeof *uses);
}

/* Counting sort by value: the uses of one value stand in the order of the nodes. */
static void fill_uses(lw_uses *uses, const lw_graph *g) {
  uint32_t values = g->values.count;
  for (uint32_t v = 0; v < values; v++) uses->begin[v + 1] += uses->begin[v];
  for (uint32_t n = g->nodes.count; n-- > 0;) {
    const lw_node *node = lw__node(g, n);
    if (node->dead) continue;
    for (uint32_t i = node->operand_count; i-- > 0;) {
      uses->list[--uses->begin[lw__operand(g, node, i)]] = (lw_use){n, i};
    }
  }
}

lw_status lw__uses_init(lw_uses *uses, const lw_graph *graph) {
  lw_status status = LW_OK;
  uint32_t values = graph->values.count;
  memset(uses, 0, sizeof *uses);
  if ((status = work_alloc((size_t)values + 1, sizeof(uint32_t), &uses->begin)) != LW_OK) goto done;
  if ((status = work_alloc(graph->operands.count, sizeof(lw_use), &uses->list)) != LW_OK) goto done;
  if ((status = work_alloc(values, 1, &uses->is_output)) != LW_OK) goto done;
  memset(uses->begin, 0, ((size_t)values + 1) * sizeof(uint32_t));
  memset(uses->is_output, 0, values);
  for (uint32_t n = 0; n < graph->nodes.count; n++) {
    const lw_node *node = lw__node(graph, n);
    for (uint32_t i = 0; i < node->operand_count && !node->dead; i++)
      uses->begin[lw__operand(graph, node, i)]++;
  }
  fill_uses(uses, graph);
  for (uint32_t i = 0; i < graph->outputs.count; i++) uses->is_output[graph->outputs.data[i]] = 1;
done:
  if (status != LW_OK) lw__uses_deinit(uses);
  return status;
}

void lw__graph_replace(lw_graph *graph, lw_value_id from, lw_value_id to) {
  if (from == to) return;
  for (uint32_t i = 0; i < graph->operands.count; i++) {
    if (graph->operands.data[i] == from) graph->operands.data[i] = to;
  }
  for (uint32_t i = 0; i < graph->outputs.count; i++) {
    if (graph->outputs.data[i] == from) graph->outputs.data[i] = to;
  }
  if (lw__value(graph, to)->name == NULL && lw__producer(graph, from)->op != LW_OP_INPUT) {
    lw__value(graph, to)->name =
        lw__value(graph, from)->name; /* inputs keep theirs: callers bind by it */
    lw__value(graph, from)->name = NULL;
  }
}

/* ---- compaction -------------------------------------------------------------------------------*/

enum { UNSEEN, NEEDED, OPEN, DONE };

typedef struct compaction {
  lw_graph *g;
  uint8_t *state;     /* per node */
  uint32_t *stack;    /* nodes on the path that is being walked, each at most once */
  uint32_t *next;     /* per node: the operand to look at next */
  uint32_t *order;    /* old node per new node */
  uint32_t *new_node; /* per old node */
  uint32_t count;     /* of |order| */
} compaction;

static const char *node_label(const lw_node *node) {
  return node->name != NULL ? node->name : lw__op_info[node->op].name;
}

static lw_status refuse_node(const compaction *c, uint32_t n, lw_status status, const char *what) {
  const lw_graph *g = c->g;
  return lw__fail(g->diag, status, lw__graph_where(g), "node %u (%s) %s", n,
                  node_label(lw__node(g, n)), what);
}

static lw_status push_needed(compaction *c, uint32_t n, uint32_t *depth) {
  if (c->state[n] != UNSEEN) return LW_OK;
  if (lw__node(c->g, n)->dead)
    return refuse_node(c, n, LW_STATUS_INTERNAL, "is marked dead but its result is needed");
  c->state[n] = NEEDED;
  c->stack[(*depth)++] = n;
  return LW_OK;
}

static lw_status mark_needed(compaction *c) {
  const lw_graph *g = c->g;
  uint32_t depth = 0;
  for (uint32_t i = 0; i < g->inputs.count; i++)
    c->state[lw__value(g, g->inputs.data[i])->producer] = NEEDED;
  for (uint32_t i = 0; i < g->outputs.count; i++) {
    LW_TRY(push_needed(c, lw__value(g, g->outputs.data[i])->producer, &depth));
    while (depth > 0) {
      const lw_node *node = lw__node(g, c->stack[--depth]);
      for (uint32_t k = 0; k < node->operand_count; k++) {
        LW_TRY(push_needed(c, lw__value(g, lw__operand(g, node, k))->producer, &depth));
      }
    }
  }
  return LW_OK;
}

/* Emits |root| after everything it needs. Nodes that already stand in order are emitted in that
 * order. */
static lw_status emit_after_operands(compaction *c, uint32_t root) {
  uint32_t depth = 0;
  c->stack[depth++] = root;
  c->state[root] = OPEN;
  while (depth > 0) {
    uint32_t n = c->stack[depth - 1];
    const lw_node *node = lw__node(c->g, n);
    if (c->next[n] == node->operand_count) {
      c->state[n] = DONE;
      c->new_node[n] = c->count;
      c->order[c->count++] = n;
      depth--;
      continue;
    }
    uint32_t source = lw__value(c->g, lw__operand(c->g, node, c->next[n]++))->producer;
    if (c->state[source] == OPEN)
      return refuse_node(c, source, LW_STATUS_MODEL_INVALID, "depends on itself");
    if (c->state[source] == NEEDED) {
      c->state[source] = OPEN;
      c->stack[depth++] = source;
    }
  }
  return LW_OK;
}

static lw_status sort_needed(compaction *c) {
  memset(c->next, 0, c->g->nodes.count * sizeof c->next[0]);
  for (uint32_t n = 0; n < c->g->nodes.count; n++) {
    if (c->state[n] == NEEDED) LW_TRY(emit_after_operands(c, n));
  }
  return LW_OK;
}

static lw_value_id moved_value(const compaction *c, lw_value_id v) {
  return c->new_node[lw__value(c->g, v)->producer];
}

/* Value i becomes the result of node i. */
static lw_status move_to_new_arrays(compaction *c) {
  lw_graph *g = c->g, fresh = {0};
  size_t operands = 0;
  for (uint32_t i = 0; i < c->count; i++) operands += lw__node(g, c->order[i])->operand_count;
  lw_status status = lw_vec_reserve(&fresh.nodes, c->count);
  if (status == LW_OK) status = lw_vec_reserve(&fresh.values, c->count);
  if (status == LW_OK)
    status =
        operands < UINT32_MAX ? lw_vec_reserve(&fresh.operands, operands) : LW_STATUS_OUT_OF_MEMORY;
  if (status != LW_OK) {
    lw_vec_free(&fresh.nodes);
    lw_vec_free(&fresh.values);
    lw_vec_free(&fresh.operands);
    return status;
  }
  for (uint32_t i = 0; i < c->count; i++) {
    lw_node node = *lw__node(g, c->order[i]);
    lw_value value = *lw__value(g, node.result);
    uint32_t begin = node.operand_begin;
    node.operand_begin = fresh.operands.count;
    node.dead = false;
    node.result = i;
    value.producer = i;
    for (uint32_t k = 0; k < node.operand_count; k++) {
      fresh.operands.data[fresh.operands.count++] = moved_value(c, g->operands.data[begin + k]);
    }
    fresh.nodes.data[fresh.nodes.count++] = node;
    fresh.values.data[fresh.values.count++] = value;
  }
  for (uint32_t i = 0; i < g->inputs.count; i++)
    g->inputs.data[i] = moved_value(c, g->inputs.data[i]);
  for (uint32_t i = 0; i < g->outputs.count; i++)
    g->outputs.data[i] = moved_value(c, g->outputs.data[i]);
  lw_vec_free(&g->nodes);
  lw_vec_free(&g->values);
  lw_vec_free(&g->operands);
  g->nodes = fresh.nodes;
  g->values = fresh.values;
  g->operands = fresh.operands;
  return LW_OK;
}

lw_status lw__graph_compact(lw_graph *graph) {
  compaction c = {.g = graph};
  uint32_t nodes = graph->nodes.count;
  lw_status status = work_alloc(nodes, 1, &c.state);
  if (status != LW_OK) goto done;
  if ((status = work_alloc(nodes, sizeof(uint32_t), &c.stack)) != LW_OK) goto done;
  if ((status = work_alloc(nodes, sizeof(uint32_t), &c.next)) != LW_OK) goto done;
  if ((status = work_alloc(nodes, sizeof(uint32_t), &c.order)) != LW_OK) goto done;
  if ((status = work_alloc(nodes, sizeof(uint32_t), &c.new_node)) != LW_OK) goto done;
  memset(c.state, UNSEEN, nodes);
  if ((status = mark_needed(&c)) != LW_OK) goto done;
  if ((status = sort_needed(&c)) != LW_OK) goto done;
  status = move_to_new_arrays(&c);
done:
  lw__mem_free(c.state);
  lw__mem_free(c.stack);
  lw__mem_free(c.next);
  lw__mem_free(c.order);
  lw__mem_free(c.new_node);
  return status;
}

/* ---- copies -----------------------------------------------------------------------------------*/

static lw_status copy_string(lw_graph *out, const char **s) {
  return *s == NULL ? LW_OK : lw__arena_strndup(&out->arena, *s, strlen(*s), s);
}

#define COPY_VEC(to, from)                                                                    \
  do {                                                                                        \
    LW_TRY(lw_vec_reserve(&(to), (from).count));                                              \
    if ((from).count > 0) memcpy((to).data, (from).data, (from).count * sizeof *(from).data); \
    (to).count = (from).count;                                                                \
  } while (0)

static lw_status copy_arrays(const lw_graph *graph, lw_graph *out) {
  COPY_VEC(out->values, graph->values);
  COPY_VEC(out->nodes, graph->nodes);
  COPY_VEC(out->operands, graph->operands);
  COPY_VEC(out->inputs, graph->inputs);
  COPY_VEC(out->outputs, graph->outputs);
  COPY_VEC(out->output_names, graph->output_names);
  COPY_VEC(out->extents.nodes, graph->extents.nodes);
  size_t index_bytes = graph->extents.index_size * sizeof(uint32_t);
  if (index_bytes == 0) return LW_OK;
  void *index = NULL;
  LW_TRY(lw__mem_resize(&index, index_bytes));
  memcpy(index, graph->extents.index, index_bytes);
  out->extents.index = index;
  out->extents.index_size = graph->extents.index_size;
  return LW_OK;
}

/* Neighbouring nodes share their name; the copy does too. */
static lw_status copy_strings(const lw_graph *graph, lw_graph *out) {
  for (uint32_t i = 0; i < out->values.count; i++)
    LW_TRY(copy_string(out, &out->values.data[i].name));
  for (uint32_t i = 0; i < out->output_names.count; i++)
    LW_TRY(copy_string(out, &out->output_names.data[i]));
  for (uint32_t i = 0; i < out->extents.nodes.count; i++)
    LW_TRY(copy_string(out, &out->extents.nodes.data[i].symbol));
  for (uint32_t i = 0; i < out->nodes.count; i++) {
    if (i > 0 && graph->nodes.data[i].name == graph->nodes.data[i - 1].name) {
      out->nodes.data[i].name = out->nodes.data[i - 1].name;
    } else {
      LW_TRY(copy_string(out, &out->nodes.data[i].name));
    }
  }
  return LW_OK;
}

lw_status lw__graph_clone(const lw_graph *graph, lw_graph *out) {
  LW_TRY(lw__graph_init(out, graph->diag));
  out->where = graph->where;
  lw_status status = copy_arrays(graph, out);
  if (status == LW_OK) status = copy_strings(graph, out);
  if (status != LW_OK) lw__graph_deinit(out);
  return status;
}

/* order.c: operands of commutative functions in an order that depends on structure alone: not on
 * names, not on the order of nodes, not on constants' data unless nothing else tells two operands
 * apart. What is near decides before what is far, so equal layers of a network are ordered alike
 * wherever they stand. */
#include <string.h>

#include "compiler/pass/rewriter.h"

/* key[level]: hash of what lies within |level| nodes above a value, without extents, so that a
 * network is ordered alike for every size of its batch. The last one: everything above it, extents
 * and data too. */
enum { ORDER_LEVELS = 6, ORDER_KEYS = ORDER_LEVELS + 1 };

typedef struct order_keys {
  lw_hash key[ORDER_KEYS];
} order_keys;

static int compare_hash(lw_hash a, lw_hash b) {
  if (a.hi != b.hi) return a.hi < b.hi ? -1 : 1;
  if (a.lo != b.lo) return a.lo < b.lo ? -1 : 1;
  return 0;
}

static int compare_keys(const order_keys *a, const order_keys *b) {
  for (int level = 0; level < ORDER_KEYS; level++) {
    int order = compare_hash(a->key[level], b->key[level]);
    if (order != 0) return order;
  }
  return 0;
}

/* |seed| with one operand after the other; operands of commutative functions in the order of their
 * hashes. */
static lw_hash combine_operands(const lw_graph *g, const lw_node *node, const order_keys *keys,
                                int level, lw_hash seed) {
  bool commutes = node->op == LW_OP_MAP && lw__is_commutative(node->attr.fn);
  bool swap = commutes && compare_hash(keys[lw__operand(g, node, 0)].key[level],
                                       keys[lw__operand(g, node, 1)].key[level]) > 0;
  for (uint32_t k = 0; k < node->operand_count; k++) {
    lw_hash h = keys[lw__operand(g, node, swap ? 1 - k : k)].key[level];
    seed = lw__hash_bytes(&h, sizeof h, seed);
  }
  return seed;
}

static lw_hash source_key(const lw_graph *g, const lw_node *node, lw_hash own) {
  if (node->op == LW_OP_CONST && node->attr.constant.bytes > 0) {
    return lw__hash_bytes(node->attr.constant.data, node->attr.constant.bytes, own);
  }
  for (uint32_t i = 0; node->op == LW_OP_INPUT && i < g->inputs.count; i++) {
    if (g->inputs.data[i] == node->result) return lw__hash_bytes(&i, sizeof i, own);
  }
  return own;
}

static void make_keys(const lw_graph *g, lw_node_id n, order_keys *keys) {
  const lw_node *node = lw__node(g, n);
  order_keys *mine = &keys[node->result];
  lw_hash kind = lw__node_kind_key(g, n), own = lw__node_key(g, n);
  mine->key[0] = kind;
  for (int level = 1; level < ORDER_LEVELS; level++) {
    mine->key[level] = combine_operands(g, node, keys, level - 1, kind);
  }
  mine->key[ORDER_LEVELS] = node->operand_count == 0
                                ? source_key(g, node, own)
                                : combine_operands(g, node, keys, ORDER_LEVELS, own);
}

static bool is_constant(const lw_graph *g, lw_value_id v) {
  return lw__producer(g, lw__below_moves(g, v))->op == LW_OP_CONST;
}

/* Constants come second, as people write them; else by key. */
static bool wants_swap(const lw_graph *g, lw_value_id a, lw_value_id b, const order_keys *keys) {
  bool constant_a = is_constant(g, a), constant_b = is_constant(g, b);
  if (constant_a != constant_b) return constant_a;
  return compare_keys(&keys[a], &keys[b]) > 0;
}

static lw_status order_operands(lw_graph *g, bool *out_changed) {
  order_keys *keys = NULL;
  size_t bytes;
  if (!lw__mul_size((size_t)g->values.count + 1, sizeof *keys, &bytes)) {
    return LW_STATUS_OUT_OF_MEMORY;
  }
  LW_TRY(lw__mem_resize((void **)&keys, bytes));
  for (lw_node_id n = 0; n < g->nodes.count; n++) {
    const lw_node *node = lw__node(g, n);
    if (node->dead) continue;
    make_keys(g, n, keys);
    if (node->op != LW_OP_MAP || !lw__is_commutative(node->attr.fn)) continue;
    lw_value_id *in = &g->operands.data[node->operand_begin];
    if (!wants_swap(g, in[0], in[1], keys)) continue;
    lw_value_id first = in[0];
    in[0] = in[1];
    in[1] = first;
    *out_changed = true;
  }
  lw__mem_free(keys);
  return LW_OK;
}

/* ---- nodes: each behind what it needs, operand by operand, from the outputs on ----------------*/

typedef struct node_order {
  const lw_graph *g;
  uint32_t *next;  /* per node: the operand to look at next; LW_NONE: emitted */
  uint32_t *stack; /* nodes on the path that is being walked */
  uint32_t *order;
  uint32_t count;
} node_order;

static void emit_node(node_order *o, lw_node_id root) {
  uint32_t depth = 0;
  o->stack[depth++] = root;
  while (depth > 0) {
    lw_node_id n = o->stack[depth - 1];
    const lw_node *node = lw__node(o->g, n);
    if (o->next[n] == LW_NONE || o->next[n] == node->operand_count) {
      depth--;
      if (o->next[n] == LW_NONE) continue;
      o->next[n] = LW_NONE;
      o->order[o->count++] = n;
      continue;
    }
    lw_node_id source = lw__value(o->g, lw__operand(o->g, node, o->next[n]++))->producer;
    if (o->next[source] != LW_NONE) o->stack[depth++] = source;
  }
}

static lw_status node_order_init(node_order *o, const lw_graph *g) {
  *o = (node_order){.g = g};
  size_t bytes = ((size_t)g->nodes.count + 1) * sizeof(uint32_t);
  LW_TRY(lw__mem_resize((void **)&o->next, bytes));
  LW_TRY(lw__mem_resize((void **)&o->stack, bytes));
  LW_TRY(lw__mem_resize((void **)&o->order, bytes));
  memset(o->next, 0, bytes);
  for (uint32_t i = 0; i < g->inputs.count; i++) {
    emit_node(o, lw__value(g, g->inputs.data[i])->producer);
  }
  for (uint32_t i = 0; i < g->outputs.count; i++) {
    emit_node(o, lw__value(g, g->outputs.data[i])->producer);
  }
  return LW_OK;
}

static void node_order_deinit(node_order *o) {
  lw__mem_free(o->next);
  lw__mem_free(o->stack);
  lw__mem_free(o->order);
}

/* Nodes that nothing needs are left out; compaction would drop them anyway. */
static lw_status apply_order(lw_graph *g, const node_order *o, bool *out_changed) {
  bool same = o->count == g->nodes.count;
  for (uint32_t i = 0; i < o->count && same; i++) same = o->order[i] == i;
  if (same) return LW_OK;
  lw_node *nodes = NULL;
  LW_TRY(lw__mem_resize((void **)&nodes, ((size_t)o->count + 1) * sizeof *nodes));
  for (uint32_t i = 0; i < o->count; i++) nodes[i] = *lw__node(g, o->order[i]);
  for (uint32_t i = 0; i < o->count; i++) {
    g->nodes.data[i] = nodes[i];
    lw__value(g, nodes[i].result)->producer = i;
  }
  g->nodes.count = o->count;
  lw__mem_free(nodes);
  *out_changed = true;
  return lw__graph_compact(g);
}

lw_status lw__pass_order(lw_graph *graph, const lw_pass_options *options, lw_diag *diag,
                         bool *out_changed) {
  (void)options;
  (void)diag;
  node_order order;
  *out_changed = false;
  LW_TRY(order_operands(graph, out_changed));
  lw_status status = node_order_init(&order, graph);
  if (status == LW_OK) status = apply_order(graph, &order, out_changed);
  node_order_deinit(&order);
  return status;
}

/* order.c: operands of commutative functions in an order that depends on structure alone: not on
 * names, not on the order of nodes, not on constants' data unless nothing else tells two operands
 * apart. What is near decides before what is far, so equal layers of a network are ordered alike
 * wherever they stand. */
#include <string.h>

#include "compiler/pass/rewriter.h"

/* key[level]: hash of what lies within |level| nodes above a value. The last one: everything above
 * it, data too. */
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
  lw_hash own = lw__node_key(g, n);
  mine->key[0] = own;
  for (int level = 1; level < ORDER_LEVELS; level++) {
    mine->key[level] = combine_operands(g, node, keys, level - 1, own);
  }
  mine->key[ORDER_LEVELS] = node->operand_count == 0
                                ? source_key(g, node, own)
                                : combine_operands(g, node, keys, ORDER_LEVELS, own);
}

static bool is_constant(const lw_graph *g, lw_value_id v) {
  const lw_node *node = lw__producer(g, v);
  while (lw__op_info[node->op].kind == LW_KIND_MOVE && node->operand_count == 1) {
    node = lw__producer(g, lw__operand(g, node, 0));
  }
  return node->op == LW_OP_CONST;
}

/* Constants come second, as people write them; else by key. */
static bool wants_swap(const lw_graph *g, lw_value_id a, lw_value_id b, const order_keys *keys) {
  bool constant_a = is_constant(g, a), constant_b = is_constant(g, b);
  if (constant_a != constant_b) return constant_a;
  return compare_keys(&keys[a], &keys[b]) > 0;
}

lw_status lw__pass_order(lw_graph *graph, const lw_pass_options *options, lw_diag *diag,
                         bool *out_changed) {
  (void)options;
  (void)diag;
  order_keys *keys = NULL;
  size_t bytes;
  if (!lw__mul_size((size_t)graph->values.count + 1, sizeof *keys, &bytes))
    return LW_STATUS_OUT_OF_MEMORY;
  LW_TRY(lw__mem_resize((void **)&keys, bytes));
  *out_changed = false;
  for (lw_node_id n = 0; n < graph->nodes.count; n++) {
    const lw_node *node = lw__node(graph, n);
    if (node->dead) continue;
    make_keys(graph, n, keys);
    if (node->op != LW_OP_MAP || !lw__is_commutative(node->attr.fn)) continue;
    lw_value_id *in = &graph->operands.data[node->operand_begin];
    if (!wants_swap(graph, in[0], in[1], keys)) continue;
    lw_value_id first = in[0];
    in[0] = in[1];
    in[1] = first;
    *out_changed = true;
  }
  lw__mem_free(keys);
  return LW_OK;
}

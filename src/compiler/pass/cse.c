/* cse.c: equal nodes with equal operands become one. Constants are equal when their bytes are. */
#include <string.h>

#include "compiler/pass/rewriter.h"

enum {
  CSE_HASHED_BYTES = 4096
}; /* of a constant; the rest is compared only when that much is equal */

/* Open addressing: node ids by hash, at most half full. */
typedef struct cse_table {
  lw_node_id *slot;
  lw_hash *hash; /* per slot */
  uint32_t size;
} cse_table;

static lw_status cse_table_init(cse_table *t, uint32_t nodes) {
  *t = (cse_table){.size = 16};
  while (t->size / 2 < nodes) t->size *= 2;
  LW_TRY(lw__mem_resize((void **)&t->slot, t->size * sizeof *t->slot));
  lw_status status = lw__mem_resize((void **)&t->hash, t->size * sizeof *t->hash);
  if (status == LW_OK) memset(t->slot, 0xff, t->size * sizeof *t->slot);
  return status;
}

static void cse_table_deinit(cse_table *t) {
  lw__mem_free(t->slot);
  lw__mem_free(t->hash);
}

static lw_hash cse_hash(const lw_graph *g, lw_node_id n) {
  const lw_node *node = lw__node(g, n);
  lw_hash h = lw__node_key(g, n);
  if (node->op == LW_OP_CONST) {
    size_t bytes =
        node->attr.constant.bytes < CSE_HASHED_BYTES ? node->attr.constant.bytes : CSE_HASHED_BYTES;
    return bytes > 0 ? lw__hash_bytes(node->attr.constant.data, bytes, h) : h;
  }
  const lw_value_id *in = g->operands.data + node->operand_begin;
  bool swap = node->op == LW_OP_MAP && lw__is_commutative(node->attr.fn) && in[0] > in[1];
  if (!swap) return lw__hash_bytes(in, node->operand_count * sizeof *in, h);
  lw_value_id sorted[2] = {in[1], in[0]};
  return lw__hash_bytes(sorted, sizeof sorted, h);
}

/* |lw__node_key| of both is equal, by hashes of 128 bits; constants' data is compared in full. */
static bool cse_same_data(const lw_graph *g, lw_node_id a, lw_node_id b) {
  const lw_node *x = lw__node(g, a), *y = lw__node(g, b);
  if (x->op != LW_OP_CONST) return true;
  size_t bytes = x->attr.constant.bytes;
  const void *p = x->attr.constant.data, *q = y->attr.constant.data;
  return y->attr.constant.bytes == bytes && (p == q || bytes == 0 || memcmp(p, q, bytes) == 0);
}

static lw_status cse_node(lw_rewriter *rw, lw_node_id n, lw_value_id *out) {
  lw_graph *g = rw->graph;
  cse_table *t = rw->context;
  if (lw__node(g, n)->op == LW_OP_INPUT) return LW_OK;
  lw_hash h = cse_hash(g, n);
  uint32_t at = (uint32_t)h.lo & (t->size - 1);
  for (; t->slot[at] != LW_NONE; at = (at + 1) & (t->size - 1)) {
    if (!lw__hash_eq(t->hash[at], h) || !cse_same_data(g, t->slot[at], n)) continue;
    *out = lw__node(g, t->slot[at])->result;
    return LW_OK;
  }
  t->slot[at] = n;
  t->hash[at] = h;
  return LW_OK;
}

lw_status lw__pass_cse(lw_graph *graph, const lw_pass_options *options, lw_diag *diag,
                       bool *out_changed) {
  cse_table table;
  lw_status status = cse_table_init(&table, graph->nodes.count);
  if (status == LW_OK) status = lw__rewrite(graph, options, diag, cse_node, &table, out_changed);
  cse_table_deinit(&table);
  return status;
}

/* rewriter.c: one walk over a graph in order that replaces results as it goes, so that a pass is
 * linear however many values it replaces. */
#include "compiler/pass/rewriter.h"

#include <math.h>
#include <string.h>

/* ---- the walk -------------------------------------------------------------------------------*/

/* Entries for values that the rule has just added, and their reads of older ones. */
static lw_status cover_new_values(lw_rewriter *rw, lw_node_id first_node) {
  const lw_graph *g = rw->graph;
  while (rw->remap.count < g->values.count) {
    lw_value_id same = rw->remap.count;
    LW_TRY(lw_vec_push(&rw->remap, same));
    LW_TRY(lw_vec_push(&rw->uses, 0));
  }
  for (lw_node_id n = first_node; n < g->nodes.count; n++) {
    const lw_node *node = lw__node(g, n);
    for (uint32_t k = 0; k < node->operand_count; k++) rw->uses.data[lw__operand(g, node, k)]++;
  }
  return LW_OK;
}

static void take_over_name(lw_graph *g, lw_value_id from, lw_value_id to) {
  lw_value *old = lw__value(g, from), *new = lw__value(g, to);
  if (new->name != NULL || lw__producer(g, from)->op == LW_OP_INPUT) return;
  new->name = old->name;
  old->name = NULL;
}

/* What |v| was replaced by in the end. */
static lw_value_id resolve(lw_rewriter *rw, lw_value_id v) {
  lw_value_id *map = rw->remap.data;
  while (map[v] != v) v = map[v] = map[map[v]];
  return v;
}

static lw_status rewrite_node(lw_rewriter *rw, lw_node_id n, lw_rewrite_rule rule) {
  lw_graph *g = rw->graph;
  lw_node node = *lw__node(g, n);
  for (uint32_t k = 0; k < node.operand_count; k++) {
    lw_value_id *operand = &g->operands.data[node.operand_begin + k];
    *operand = resolve(rw, *operand);
  }
  lw_value_id out = node.result;
  lw_node_id first_new = g->nodes.count;
  g->where = node.name;
  LW_TRY(rule(rw, n, &out));
  LW_TRY(cover_new_values(rw, first_new));
  if (out == node.result) return LW_OK;
  rw->remap.data[node.result] = out;
  rw->uses.data[out] += rw->uses.data[node.result];
  rw->changes++;
  take_over_name(g, node.result, out);
  return LW_OK;
}

/* New nodes are looked at right away, so that a chain of rewrites takes one walk; rules that never
 * end take several. */
enum { REWRITE_MOST_NEW = 64 };

static lw_status rewrite_with_new(lw_rewriter *rw, lw_node_id n, lw_rewrite_rule rule) {
  lw_node_id first_new = rw->graph->nodes.count;
  LW_TRY(rewrite_node(rw, n, rule));
  for (lw_node_id m = first_new; m < rw->graph->nodes.count && m - first_new < REWRITE_MOST_NEW;
       m++) {
    LW_TRY(rewrite_node(rw, m, rule));
  }
  return LW_OK;
}

static lw_status rewrite_all(lw_rewriter *rw, lw_rewrite_rule rule) {
  lw_graph *g = rw->graph;
  LW_TRY(cover_new_values(rw, 0));
  for (uint32_t o = 0; o < g->outputs.count; o++) rw->uses.data[g->outputs.data[o]]++;
  rw->original_nodes = g->nodes.count;
  for (lw_node_id n = 0; n < rw->original_nodes; n++) {
    if (!lw__node(g, n)->dead) LW_TRY(rewrite_with_new(rw, n, rule));
  }
  for (uint32_t o = 0; o < g->outputs.count; o++) {
    g->outputs.data[o] = resolve(rw, g->outputs.data[o]);
  }
  return rw->changes > 0 ? lw__graph_compact(g) : LW_OK;
}

lw_status lw__rewrite(lw_graph *graph, const lw_pass_options *options, lw_diag *diag,
                      lw_rewrite_rule rule, void *context, bool *out_changed) {
  lw_rewriter rw = {.graph = graph, .options = options, .diag = diag, .context = context};
  const char *where = graph->where;
  lw_status status = rewrite_all(&rw, rule);
  graph->where = where;
  *out_changed = rw.changes > 0;
  lw_vec_free(&rw.remap);
  lw_vec_free(&rw.uses);
  return status;
}

/* ---- questions ------------------------------------------------------------------------------*/

lw_value_id lw__below_moves(const lw_graph *g, lw_value_id v) {
  for (int depth = 0; depth < LW_MOVES_DEPTH; depth++) {
    const lw_node *node = lw__producer(g, v);
    if (node->op != LW_OP_RESHAPE && node->op != LW_OP_EXPAND && node->op != LW_OP_PERMUTE) break;
    v = lw__operand(g, node, 0);
  }
  return v;
}

bool lw__is_splat(const lw_graph *g, lw_value_id v, lw_value_id *out_root) {
  for (int depth = 0; depth < LW_MOVES_DEPTH; depth++) {
    const lw_node *node = lw__producer(g, v);
    switch (node->op) {
      case LW_OP_CONST: *out_root = v; return lw__shape_numel(&lw__value(g, v)->shape) == 1;
      case LW_OP_RESHAPE:
      case LW_OP_PERMUTE:
      case LW_OP_EXPAND:
      case LW_OP_SLICE:
      case LW_OP_WINDOW: v = lw__operand(g, node, 0); break;
      default: return false;
    }
  }
  return false;
}

bool lw__splat_number(const lw_graph *g, lw_value_id v, double *out_number) {
  lw_value_id root;
  if (!lw__is_splat(g, v, &root)) return false;
  *out_number =
      lw__elem_get_f64(lw__value(g, root)->dtype, lw__producer(g, root)->attr.constant.data, 0);
  return true;
}

lw_status lw__splat_like(lw_graph *g, lw_value_id like, double number, lw_value_id *out) {
  lw_value value = *lw__value(g, like);
  LW_TRY(lw__graph_scalar(g, value.dtype, number, out));
  return lw__graph_broadcast(g, *out, &value.shape, out);
}

bool lw__is_commutative(lw_fn fn) {
  switch (fn) {
    case LW_FN_ADD:
    case LW_FN_MUL:
    case LW_FN_MIN:
    case LW_FN_MAX:
    case LW_FN_EQ:
    case LW_FN_NE:
    case LW_FN_AND:
    case LW_FN_OR:
    case LW_FN_XOR:
    case LW_FN_BITAND:
    case LW_FN_BITOR:
    case LW_FN_BITXOR: return true;
    default: return false;
  }
}

enum { NONNEGATIVE_DEPTH = 8 };

static bool nonnegative_within(const lw_graph *g, lw_value_id v, int depth) {
  const lw_node *node = lw__producer(g, v);
  double number;
  if (lw__splat_number(g, v, &number)) return number >= 0 && !signbit(number);
  if (depth == 0 || node->operand_count == 0) return false;
  lw_value_id a = lw__operand(g, node, 0);
  lw_value_id b = lw__operand(g, node, node->operand_count > 1 ? 1 : 0);
  switch (node->op) {
    case LW_OP_RESHAPE:
    case LW_OP_PERMUTE:
    case LW_OP_EXPAND:
    case LW_OP_SLICE: return nonnegative_within(g, a, depth - 1);
    case LW_OP_REDUCE:
      return node->attr.reduce.fn == LW_RED_SUM && nonnegative_within(g, a, depth - 1);
    case LW_OP_MAP: break;
    default: return false;
  }
  switch (node->attr.fn) {
    case LW_FN_ABS:
    case LW_FN_EXP:
    case LW_FN_SIGMOID: return true;
    case LW_FN_MUL:
      if (a == b && lw__dtype_is_float(lw__value(g, v)->dtype)) return true;
      return nonnegative_within(g, a, depth - 1) && nonnegative_within(g, b, depth - 1);
    case LW_FN_ADD:
    case LW_FN_DIV:
    case LW_FN_MIN:
      return nonnegative_within(g, a, depth - 1) && nonnegative_within(g, b, depth - 1);
    case LW_FN_SQRT:
    case LW_FN_CAST:
      return lw__dtype_is_float(lw__value(g, a)->dtype) && nonnegative_within(g, a, depth - 1);
    default: return false;
  }
}

bool lw__is_nonnegative(const lw_graph *graph, lw_value_id v) {
  return nonnegative_within(graph, v, NONNEGATIVE_DEPTH);
}

/* Only the bytes that mean something for the operator; unions and paddings are full of others. */
static lw_hash hash_attr(const lw_graph *g, const lw_node *node, lw_hash h) {
  const lw_attr *a = &node->attr;
  uint32_t rank = node->operand_count > 0 ? lw__value(g, lw__operand(g, node, 0))->shape.rank : 0;
#define HASH_FIELD(f, n) h = lw__hash_bytes(&(f), (n), h)
  switch (node->op) {
    case LW_OP_MAP: HASH_FIELD(a->fn, sizeof a->fn); break;
    case LW_OP_IOTA:
    case LW_OP_CONCAT: HASH_FIELD(a->axis, sizeof a->axis); break;
    case LW_OP_PERMUTE: HASH_FIELD(a->perm, rank); break;
    case LW_OP_SLICE:
      HASH_FIELD(a->slice.start, rank * sizeof(int64_t));
      HASH_FIELD(a->slice.step, rank * sizeof(int64_t));
      break;
    case LW_OP_PAD:
      HASH_FIELD(a->pad.lo, rank * sizeof(int64_t));
      HASH_FIELD(a->pad.value, sizeof a->pad.value);
      break;
    case LW_OP_WINDOW:
      HASH_FIELD(a->window.count, sizeof a->window.count);
      HASH_FIELD(a->window.axis, a->window.count);
      HASH_FIELD(a->window.stride, a->window.count * sizeof(int64_t));
      HASH_FIELD(a->window.dilation, a->window.count * sizeof(int64_t));
      break;
    case LW_OP_REDUCE:
      HASH_FIELD(a->reduce.fn, sizeof a->reduce.fn);
      HASH_FIELD(a->reduce.axes, sizeof a->reduce.axes);
      break;
    case LW_OP_CONV: {
      size_t bytes = a->conv.spatial * sizeof(int64_t);
      uint64_t flags = a->conv.transposed ? 1 : 0;
      HASH_FIELD(a->conv.stride, bytes);
      HASH_FIELD(a->conv.dilation, bytes);
      HASH_FIELD(a->conv.pad_lo, bytes);
      HASH_FIELD(a->conv.pad_hi, bytes);
      HASH_FIELD(a->conv.group, sizeof a->conv.group);
      HASH_FIELD(flags, sizeof flags);
      break;
    }
    case LW_OP_GATHER: HASH_FIELD(a->gather.select, rank); break;
    default: break;
  }
#undef HASH_FIELD
  return h;
}

static lw_hash hash_head(const lw_graph *g, const lw_node *node) {
  const lw_value *value = lw__value(g, node->result);
  uint32_t head[4] = {(uint32_t)node->op, (uint32_t)value->dtype, value->shape.rank,
                      node->operand_count};
  return lw__hash_bytes(head, sizeof head, (lw_hash){0, 0});
}

lw_hash lw__node_key(const lw_graph *g, lw_node_id n) {
  const lw_node *node = lw__node(g, n);
  const lw_shape *shape = &lw__value(g, node->result)->shape;
  lw_hash h = lw__hash_bytes(shape->dim, shape->rank * sizeof shape->dim[0], hash_head(g, node));
  return hash_attr(g, node, h);
}

lw_hash lw__node_kind_key(const lw_graph *g, lw_node_id n) {
  const lw_node *node = lw__node(g, n);
  return hash_attr(g, node, hash_head(g, node));
}

const char *lw__node_label(const lw_graph *g, lw_node_id n) {
  const lw_node *node = lw__node(g, n);
  return node->name != NULL ? node->name : lw__op_info[node->op].name;
}

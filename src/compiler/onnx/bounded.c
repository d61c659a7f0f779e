/* bounded.c: where a count that depends on data goes, node by node (bounded.h). */
#include "compiler/onnx/bounded.h"

#include "compiler/onnx/import_internal.h"
#include "compiler/onnx/op.h"

const lw_bound *lw__import_bound(const lw_import *im, lw_value_id value) {
  uint32_t index = value < im->bound_of.count ? im->bound_of.data[value] : 0;
  return index == 0 ? NULL : &im->bounds.data[index - 1];
}

const lw_bound *lw__call_bound(const lw_call *c, lw_value_id value) {
  return lw__import_bound(c->im, value);
}

static lw_status bound_set(lw_import *im, lw_bound bound) {
  while (im->bound_of.count <= bound.value) LW_TRY(lw_vec_push(&im->bound_of, 0));
  LW_TRY(lw_vec_push(&im->bounds, bound));
  im->bound_of.data[bound.value] = im->bounds.count;
  return LW_OK;
}

void lw__call_set_bound(lw_call *c, lw_value_id value, uint32_t axis, lw_value_id count) {
  if (!lw__call_ok(c) || value == LW_NONE) return;
  (void)lw__call_keep(c, bound_set(c->im, (lw_bound){value, axis, count}));
}

/* ---- one node -------------------------------------------------------------------------------*/

enum { BOUND_MIXED = -1 };

static int bound_reshape(const lw_graph *g, const lw_shape *from, const lw_shape *to,
                         uint32_t axis) {
  int64_t before = 1, own = 1;
  (void)g;
  for (uint32_t d = 0; d < axis; d++) before *= from->dim[d];
  for (uint32_t d = 0; d < to->rank; d++) {
    if (own == before && to->dim[d] == from->dim[axis]) return (int)d;
    own *= to->dim[d];
  }
  return BOUND_MIXED;
}

static int bound_slice(const lw_node *node, const lw_shape *from, const lw_shape *to, uint32_t a) {
  bool whole =
      node->attr.slice.start[a] == 0 && node->attr.slice.step[a] == 1 && from->dim[a] == to->dim[a];
  return whole ? (int)a : BOUND_MIXED;
}

static int bound_permute(const lw_node *node, const lw_shape *to, uint32_t axis) {
  for (uint32_t d = 0; d < to->rank; d++)
    if (node->attr.perm[d] == axis) return (int)d;
  return BOUND_MIXED;
}

static int bound_reduce(const lw_node *node, uint32_t axis) {
  if (node->attr.reduce.axes >> axis & 1) return BOUND_MIXED;
  return (int)axis - __builtin_popcount(node->attr.reduce.axes & ((1u << axis) - 1));
}

/* Rows of the left and columns of the right factor keep apart; so do batches. */
static int bound_dot(const lw_shape *from, uint32_t operand, uint32_t axis) {
  uint32_t inner = operand == 0 ? from->rank - 1 : from->rank - 2;
  return axis == inner ? BOUND_MIXED : (int)axis;
}

/* The dim of the node's result that dim |axis| of operand |k| becomes. */
static int bound_axis(const lw_graph *g, const lw_node *node, uint32_t k, uint32_t axis) {
  const lw_shape *from = &lw__value(g, lw__operand(g, node, k))->shape;
  const lw_shape *to = &lw__value(g, node->result)->shape;
  switch (node->op) {
    case LW_OP_MAP: return (int)axis;
    case LW_OP_RESHAPE: return bound_reshape(g, from, to, axis);
    case LW_OP_PERMUTE: return bound_permute(node, to, axis);
    case LW_OP_SLICE: return bound_slice(node, from, to, axis);
    case LW_OP_EXPAND:
    case LW_OP_PAD: return from->dim[axis] == to->dim[axis] ? (int)axis : BOUND_MIXED;
    case LW_OP_CONCAT: return node->attr.axis == axis ? BOUND_MIXED : (int)axis;
    case LW_OP_REDUCE: return bound_reduce(node, axis);
    case LW_OP_DOT: return bound_dot(from, k, axis);
    case LW_OP_GATHER:
      if (k > 0) return (int)axis;
      return node->attr.gather.select[axis] < 0 ? -1 - node->attr.gather.select[axis] : BOUND_MIXED;
    default: return BOUND_MIXED;
  }
}

/* Every bounded operand must put the same count on the same dim of the result. */
static bool bound_node(lw_call *c, const lw_node *node) {
  const lw_bound *found = NULL;
  int axis = 0;
  for (uint32_t k = 0; k < node->operand_count; k++) {
    const lw_bound *b = lw__call_bound(c, lw__operand(c->graph, node, k));
    if (b == NULL) continue;
    int to = bound_axis(c->graph, node, k, b->axis);
    if (to == BOUND_MIXED || (found != NULL && (to != axis || found->count != b->count)))
      return false;
    found = b;
    axis = to;
  }
  if (found != NULL) lw__call_set_bound(c, node->result, (uint32_t)axis, found->count);
  return true;
}

void lw__call_carry_bounds(lw_call *c, uint32_t first) {
  if (c->im->bounds.count == 0) return;
  for (uint32_t n = first; n < c->graph->nodes.count && lw__call_ok(c); n++) {
    lw_node node = *lw__node(c->graph, n);
    if (lw__call_bound(c, node.result) != NULL || bound_node(c, &node)) continue;
    lw__call_unsupported(c, "computing across a dimension whose size depends on data");
  }
}

lw_value_id lw__call_bound_shape(lw_call *c, lw_value_id value, int64_t start, int64_t end) {
  const lw_bound *found = value == LW_NONE ? NULL : lw__call_bound(c, value);
  if (found == NULL) return LW_NONE;
  lw_bound b = *found;
  lw_shape one = {1, {1}}, shape = lw__b_shape(c, value);
  lw_value_id parts[LW_MAX_RANK];
  uint32_t count = 0;
  if (start >= end || b.axis < start || b.axis >= end) return LW_NONE;
  for (int64_t d = start; d < end; d++) {
    lw_content_elem e = lw__content_extent(shape.dim[d]);
    parts[count++] =
        d == b.axis ? lw__b_reshape(c, b.count, &one) : lw__op_elements(c, &e, 1, false);
  }
  return lw__b_concat(c, parts, count, 0);
}

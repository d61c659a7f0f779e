/* move.c: movements meet and cancel. Two movements in a row become one where one can say it;
 * movements that all operands of a map share sink below it; an expand goes below everything, so
 * that work is done on the small side of it. */
#include <string.h>

#include "compiler/pass/rewriter.h"

static bool same_shape(const lw_graph *g, lw_value_id a, lw_value_id b) {
  return lw__shape_eq(g, &lw__value(g, a)->shape, &lw__value(g, b)->shape);
}

/* The node that gives |v| when its operator is |op|. */
static const lw_node *producer_of_op(const lw_graph *g, lw_value_id v, lw_op op) {
  const lw_node *node = lw__producer(g, v);
  return node->op == op ? node : NULL;
}

/* A reshape as groups: dims [x_begin, x_end) of one shape hold what dims [y_begin, y_end) of the
 * other hold, in the finest way. Dims of extent 1 join the group before them. */
typedef struct shape_groups {
  uint32_t count;
  uint8_t x_end[LW_MAX_RANK], y_end[LW_MAX_RANK];
} shape_groups;

/* Ends of the shortest runs from |*x| and |*y| on that hold equally many elements; false when
 * numbers are missing. */
static bool next_group(const lw_graph *g, const lw_shape *xs, const lw_shape *ys, uint32_t *x,
                       uint32_t *y) {
  if (*x == xs->rank || *y == ys->rank) return false;
  lw_extent a = xs->dim[(*x)++], b = ys->dim[(*y)++];
  if (lw__extent_provably_equal(g, a, b)) return true;
  while (a != b) {
    if (a < 1 || b < 1) return false;
    uint32_t *at = a < b ? x : y;
    const lw_shape *shape = a < b ? xs : ys;
    lw_extent *product = a < b ? &a : &b;
    if (*at == shape->rank || shape->dim[*at] < 1) return false;
    if (!lw__mul_i64(*product, shape->dim[(*at)++], product)) return false;
  }
  return true;
}

static void skip_ones(const lw_shape *shape, uint32_t *at) {
  while (*at < shape->rank && shape->dim[*at] == 1) (*at)++;
}

static bool find_groups(const lw_graph *g, const lw_shape *xs, const lw_shape *ys,
                        shape_groups *out) {
  uint32_t x = 0, y = 0;
  out->count = 0;
  skip_ones(xs, &x);
  skip_ones(ys, &y);
  while (x < xs->rank || y < ys->rank) {
    if (!next_group(g, xs, ys, &x, &y)) return false;
    skip_ones(xs, &x);
    skip_ones(ys, &y);
    out->x_end[out->count] = (uint8_t)x;
    out->y_end[out->count++] = (uint8_t)y;
  }
  return out->count > 0;
}

/* ---- sinking through maps -------------------------------------------------------------------*/

static bool sinks(lw_op op) {
  return op == LW_OP_RESHAPE || op == LW_OP_PERMUTE || op == LW_OP_EXPAND;
}

/* Constants that a permutation may be applied to backwards: they are folded, or broadcast from
 * something small. */
static bool is_cheap_constant(const lw_rewriter *rw, lw_value_id v) {
  const lw_graph *g = rw->graph;
  const lw_node *node = lw__producer(g, v);
  if (node->op == LW_OP_EXPAND) node = lw__producer(g, lw__operand(g, node, 0));
  return node->op == LW_OP_CONST &&
         (int64_t)node->attr.constant.bytes <= rw->options->fold_permute_bytes;
}

/* Finds the movement that all operands share (apart from constants); false when there is none. */
static bool find_shared_move(const lw_rewriter *rw, const lw_node *map, lw_value_id *out_moved) {
  const lw_graph *g = rw->graph;
  lw_value_id root;
  *out_moved = LW_NONE;
  for (uint32_t k = 0; k < map->operand_count; k++) {
    lw_value_id v = lw__operand(g, map, k);
    if (lw__is_splat(g, v, &root)) continue;
    if (sinks(lw__producer(g, v)->op) && (*out_moved == LW_NONE || !is_cheap_constant(rw, v)))
      *out_moved = v;
  }
  if (*out_moved == LW_NONE) return false;
  const lw_node *move = lw__producer(g, *out_moved);
  lw_value_id from = lw__operand(g, move, 0);
  for (uint32_t k = 0; k < map->operand_count; k++) {
    lw_value_id v = lw__operand(g, map, k);
    const lw_node *node = lw__producer(g, v);
    if (lw__is_splat(g, v, &root)) continue;
    if (node->op == move->op && same_shape(g, lw__operand(g, node, 0), from) &&
        (move->op != LW_OP_PERMUTE ||
         memcmp(node->attr.perm, move->attr.perm, lw__value(g, from)->shape.rank) == 0)) {
      continue;
    }
    if (move->op == LW_OP_EXPAND || !is_cheap_constant(rw, v)) return false;
    if (move->op == LW_OP_RESHAPE && node->op != LW_OP_CONST) return false;
  }
  return true;
}

/* What stands for operand |v| before the movement |move| from |from|. */
static lw_status unmoved_operand(lw_graph *g, lw_value_id v, const lw_node *move, lw_value_id from,
                                 lw_value_id *out) {
  lw_shape shape = lw__value(g, from)->shape;
  lw_value_id root;
  lw_node node = *lw__producer(g, v);
  if (lw__is_splat(g, v, &root)) {
    lw_shape scalar = {0};
    LW_TRY(lw__graph_reshape(g, root, &scalar, &root));
    return lw__graph_broadcast(g, root, &shape, out);
  }
  bool same_perm =
      move->op != LW_OP_PERMUTE || memcmp(node.attr.perm, move->attr.perm, shape.rank) == 0;
  if (node.op == move->op && same_perm && same_shape(g, lw__operand(g, &node, 0), from)) {
    *out = lw__operand(g, &node, 0);
    return LW_OK;
  }
  if (move->op == LW_OP_RESHAPE) return lw__graph_reshape(g, v, &shape, out);
  uint8_t back[LW_MAX_RANK] = {0};
  for (uint8_t d = 0; d < shape.rank; d++) back[move->attr.perm[d]] = d;
  if (node.op != LW_OP_EXPAND) return lw__graph_permute(g, v, back, out);
  LW_TRY(lw__graph_permute(g, lw__operand(g, &node, 0), back, out));
  return lw__graph_expand(g, *out, &shape, out);
}

static lw_status move_below_map(lw_rewriter *rw, const lw_node *map, lw_value_id *out) {
  lw_graph *g = rw->graph;
  lw_value_id moved, in[3] = {LW_NONE, LW_NONE, LW_NONE};
  if (!find_shared_move(rw, map, &moved)) return LW_OK;
  lw_node move = *lw__producer(g, moved);
  lw_value result = *lw__value(g, map->result);
  lw_value_id from = lw__operand(g, &move, 0);
  for (uint32_t k = 0; k < map->operand_count; k++) {
    LW_TRY(unmoved_operand(g, lw__operand(g, map, k), &move, from, &in[k]));
  }
  lw_value_id y = LW_NONE;
  if (map->attr.fn == LW_FN_CAST) {
    LW_TRY(lw__graph_cast(g, in[0], result.dtype, &y));
  } else {
    LW_TRY(lw__graph_map(g, map->attr.fn, in, &y));
  }
  switch (move.op) {
    case LW_OP_RESHAPE: return lw__graph_reshape(g, y, &result.shape, out);
    case LW_OP_PERMUTE: return lw__graph_permute(g, y, move.attr.perm, out);
    default: return lw__graph_expand(g, y, &result.shape, out);
  }
}

/* ---- one movement after another -------------------------------------------------------------*/

/* permute(reshape(x)) where the reshape only merges dims -> reshape(permute(x)). */
static lw_status permute_of_reshape(lw_rewriter *rw, const lw_node *node, lw_value_id x,
                                    lw_value_id *out) {
  lw_graph *g = rw->graph;
  lw_value_id source = lw__operand(g, lw__producer(g, x), 0);
  lw_shape from = lw__value(g, source)->shape, merged = lw__value(g, x)->shape;
  lw_shape to = lw__value(g, node->result)->shape;
  shape_groups groups;
  uint8_t begin[LW_MAX_RANK] = {0}, end[LW_MAX_RANK] = {0}, perm[LW_MAX_RANK] = {0}, count = 0;
  if (!find_groups(g, &from, &merged, &groups)) return LW_OK;
  uint32_t y = 0;
  for (uint32_t k = 0; k < groups.count; k++) {
    uint32_t wide = 0;
    for (; y < groups.y_end[k]; y++) {
      if (merged.dim[y] == 1) continue; /* reads no dim of x */
      wide++;
      begin[y] = k > 0 ? groups.x_end[k - 1] : 0;
      end[y] = groups.x_end[k];
    }
    if (wide != 1) return LW_OK;
  }
  for (uint32_t d = 0; d < to.rank; d++) {
    for (uint8_t i = begin[node->attr.perm[d]]; i < end[node->attr.perm[d]]; i++) perm[count++] = i;
  }
  if (count != from.rank) return LW_OK;
  LW_TRY(lw__graph_permute(g, source, perm, out));
  return lw__graph_reshape(g, *out, &to, out);
}

/* A permutation that leaves the wide dims in order is a reshape. Permutations of broadcast values
 * permute the small side. */
static lw_status move_permute(lw_rewriter *rw, const lw_node *node, lw_value_id *out) {
  lw_graph *g = rw->graph;
  lw_value_id x = lw__operand(g, node, 0);
  lw_shape to = lw__value(g, node->result)->shape;
  bool ordered = true;
  int last = -1;
  for (uint32_t d = 0; d < to.rank; d++) {
    if (to.dim[d] == 1) continue;
    ordered = ordered && node->attr.perm[d] > last;
    last = node->attr.perm[d];
  }
  if (ordered) return lw__graph_reshape(g, x, &to, out);
  const lw_node *before = lw__producer(g, x);
  switch (before->op) {
    case LW_OP_RESHAPE: return permute_of_reshape(rw, node, x, out);
    case LW_OP_PERMUTE: return lw__graph_permute(g, x, node->attr.perm, out);
    case LW_OP_EXPAND:
      LW_TRY(lw__graph_permute(g, lw__operand(g, before, 0), node->attr.perm, out));
      return lw__graph_expand(g, *out, &to, out);
    default: return LW_OK;
  }
}

/* reshape(expand(x)) -> expand(reshape(x)) where no group of dims is repeated in part. */
static lw_status move_reshape(lw_rewriter *rw, const lw_node *node, lw_value_id *out) {
  lw_graph *g = rw->graph;
  lw_value_id x = lw__operand(g, node, 0);
  lw_shape to = lw__value(g, node->result)->shape, wide = lw__value(g, x)->shape;
  if (lw__producer(g, x)->op == LW_OP_RESHAPE || lw__shape_eq(g, &wide, &to)) {
    return lw__graph_reshape(g, x, &to, out);
  }
  const lw_node *expand = producer_of_op(g, x, LW_OP_EXPAND);
  if (expand == NULL) return LW_OK;
  lw_value_id small = lw__operand(g, expand, 0);
  lw_shape from = lw__value(g, small)->shape, middle = to;
  shape_groups groups;
  if (!find_groups(g, &wide, &to, &groups)) return LW_OK;
  uint32_t i = 0, j = 0;
  for (uint32_t k = 0; k < groups.count; k++) {
    uint32_t repeated = 0, kept = 0;
    for (; i < groups.x_end[k]; i++) {
      if (wide.dim[i] != 1) (from.dim[i] == 1 ? &repeated : &kept)[0]++;
    }
    if (repeated > 0 && kept > 0) return LW_OK;
    for (; j < groups.y_end[k]; j++) middle.dim[j] = repeated > 0 ? 1 : to.dim[j];
  }
  LW_TRY(lw__graph_reshape(g, small, &middle, out));
  return lw__graph_expand(g, *out, &to, out);
}

static lw_status move_expand(lw_rewriter *rw, const lw_node *node, lw_value_id *out) {
  lw_graph *g = rw->graph;
  lw_value_id x = lw__operand(g, node, 0);
  const lw_node *before = producer_of_op(g, x, LW_OP_EXPAND);
  lw_shape to = lw__value(g, node->result)->shape;
  if (before != NULL) return lw__graph_expand(g, lw__operand(g, before, 0), &to, out);
  return lw__shape_eq(g, &to, &lw__value(g, x)->shape) ? (*out = x, LW_OK) : LW_OK;
}

/* The part of a concatenation that a slice lies in, where it lies in one. */
static lw_status slice_of_concat(lw_rewriter *rw, const lw_node *node, const lw_node *concat,
                                 lw_value_id *out) {
  lw_graph *g = rw->graph;
  uint32_t axis = concat->attr.axis;
  lw_shape to = lw__value(g, node->result)->shape;
  int64_t count = to.dim[axis], begin = 0;
  if (count < 1) return LW_OK;
  int64_t first = node->attr.slice.start[axis],
          last = first + (count - 1) * node->attr.slice.step[axis];
  for (uint32_t p = 0; p < concat->operand_count; p++) {
    lw_value_id part = lw__operand(g, concat, p);
    int64_t extent = lw__value(g, part)->shape.dim[axis];
    if (extent < 0) return LW_OK;
    int64_t end = begin + extent;
    if (first >= begin && first < end && last >= begin && last < end) {
      int64_t start[LW_MAX_RANK];
      memcpy(start, node->attr.slice.start, sizeof start);
      start[axis] -= begin;
      return lw__graph_slice(g, part, start, node->attr.slice.step, to.dim, out);
    }
    begin = end;
  }
  return LW_OK;
}

static lw_status slice_of_slice(lw_rewriter *rw, const lw_node *node, const lw_node *inner,
                                lw_value_id *out) {
  lw_graph *g = rw->graph;
  lw_shape to = lw__value(g, node->result)->shape;
  int64_t start[LW_MAX_RANK] = {0}, step[LW_MAX_RANK] = {0};
  for (uint32_t d = 0; d < to.rank; d++) {
    int64_t offset;
    if (!lw__mul_i64(node->attr.slice.start[d], inner->attr.slice.step[d], &offset) ||
        !lw__add_i64(inner->attr.slice.start[d], offset, &start[d]) ||
        !lw__mul_i64(node->attr.slice.step[d], inner->attr.slice.step[d], &step[d])) {
      return LW_OK;
    }
  }
  return lw__graph_slice(g, lw__operand(g, inner, 0), start, step, to.dim, out);
}

/* Along repeated dims every element is the same: the slice takes the others. */
static lw_status slice_of_expand(lw_rewriter *rw, const lw_node *node, const lw_node *expand,
                                 lw_value_id *out) {
  lw_graph *g = rw->graph;
  lw_value_id small = lw__operand(g, expand, 0);
  lw_shape to = lw__value(g, node->result)->shape, from = lw__value(g, small)->shape, count = to;
  int64_t start[LW_MAX_RANK], step[LW_MAX_RANK];
  for (uint32_t d = 0; d < to.rank; d++) {
    bool repeated = from.dim[d] == 1;
    if (repeated && to.dim[d] == 0) return LW_OK;
    start[d] = repeated ? 0 : node->attr.slice.start[d];
    step[d] = repeated ? 1 : node->attr.slice.step[d];
    if (repeated) count.dim[d] = 1;
  }
  LW_TRY(lw__graph_slice(g, small, start, step, count.dim, out));
  return lw__graph_expand(g, *out, &to, out);
}

static lw_status slice_of_permute(lw_rewriter *rw, const lw_node *node, const lw_node *permute,
                                  lw_value_id *out) {
  lw_graph *g = rw->graph;
  lw_shape to = lw__value(g, node->result)->shape;
  int64_t start[LW_MAX_RANK], step[LW_MAX_RANK];
  lw_extent count[LW_MAX_RANK];
  for (uint32_t d = 0; d < to.rank; d++) {
    uint8_t from = permute->attr.perm[d];
    start[from] = node->attr.slice.start[d];
    step[from] = node->attr.slice.step[d];
    count[from] = to.dim[d];
  }
  LW_TRY(lw__graph_slice(g, lw__operand(g, permute, 0), start, step, count, out));
  return lw__graph_permute(g, *out, permute->attr.perm, out);
}

static lw_status move_slice(lw_rewriter *rw, const lw_node *node, lw_value_id *out) {
  lw_graph *g = rw->graph;
  lw_value_id x = lw__operand(g, node, 0);
  lw_node before = *lw__producer(g, x);
  switch (before.op) {
    case LW_OP_SLICE: return slice_of_slice(rw, node, &before, out);
    case LW_OP_CONCAT: return slice_of_concat(rw, node, &before, out);
    case LW_OP_EXPAND: return slice_of_expand(rw, node, &before, out);
    case LW_OP_PERMUTE: return slice_of_permute(rw, node, &before, out);
    default: return LW_OK;
  }
}

static lw_status move_pad(lw_rewriter *rw, const lw_node *node, lw_value_id *out) {
  lw_graph *g = rw->graph;
  lw_value_id x = lw__operand(g, node, 0);
  const lw_node *found = producer_of_op(g, x, LW_OP_PAD);
  if (found == NULL ||
      memcmp(&found->attr.pad.value, &node->attr.pad.value, sizeof(lw_scalar)) != 0) {
    return LW_OK;
  }
  lw_node inner = *found;
  lw_value_id source = lw__operand(g, &inner, 0);
  lw_shape from = lw__value(g, source)->shape, to = lw__value(g, node->result)->shape;
  int64_t lo[LW_MAX_RANK] = {0}, hi[LW_MAX_RANK] = {0};
  for (uint32_t d = 0; d < to.rank; d++) {
    if (from.dim[d] < 0 || to.dim[d] < 0) return LW_OK;
    if (!lw__add_i64(inner.attr.pad.lo[d], node->attr.pad.lo[d], &lo[d])) return LW_OK;
    hi[d] = to.dim[d] - from.dim[d] - lo[d];
  }
  return lw__graph_pad(g, source, lo, hi, node->attr.pad.value, out);
}

/* ---- concat ---------------------------------------------------------------------------------*/

typedef LW_VEC(lw_value_id) value_list;

static lw_status flatten_parts(lw_graph *g, const lw_node *node, value_list *out,
                               bool *out_nested) {
  for (uint32_t p = 0; p < node->operand_count; p++) {
    lw_value_id v = lw__operand(g, node, p);
    const lw_node *part = lw__producer(g, v);
    if (part->op != LW_OP_CONCAT || part->attr.axis != node->attr.axis) {
      LW_TRY(lw_vec_push(out, v));
      continue;
    }
    *out_nested = true;
    for (uint32_t k = 0; k < part->operand_count; k++)
      LW_TRY(lw_vec_push(out, lw__operand(g, part, k)));
  }
  return LW_OK;
}

/* A concatenation of all slices of one value, in order, is that value. */
static bool parts_are_whole(const lw_graph *g, const value_list *parts, uint32_t axis,
                            lw_value_id *out) {
  int64_t at = 0;
  *out = LW_NONE;
  for (uint32_t p = 0; p < parts->count; p++) {
    const lw_node *slice = producer_of_op(g, parts->data[p], LW_OP_SLICE);
    if (slice == NULL) return false;
    lw_value_id source = lw__operand(g, slice, 0);
    const lw_shape *whole = &lw__value(g, source)->shape,
                   *part = &lw__value(g, parts->data[p])->shape;
    if (p > 0 && source != *out) return false;
    *out = source;
    for (uint32_t d = 0; d < whole->rank; d++) {
      bool start_ok = slice->attr.slice.start[d] == (d == axis ? at : 0);
      if (!start_ok || slice->attr.slice.step[d] != 1) return false;
      if (d != axis && !lw__extent_provably_equal(g, whole->dim[d], part->dim[d])) return false;
    }
    if (part->dim[axis] < 0) return false;
    at += part->dim[axis];
  }
  return *out != LW_NONE && lw__value(g, *out)->shape.dim[axis] == at;
}

static lw_status move_concat(lw_rewriter *rw, const lw_node *node, lw_value_id *out) {
  lw_graph *g = rw->graph;
  value_list parts = {0};
  bool nested = false;
  lw_value_id whole = LW_NONE;
  lw_status status = flatten_parts(g, node, &parts, &nested);
  if (status == LW_OK && parts_are_whole(g, &parts, node->attr.axis, &whole)) {
    *out = whole;
  } else if (status == LW_OK && nested && parts.count <= lw__op_info[LW_OP_CONCAT].max_operands) {
    status = lw__graph_concat(g, parts.data, parts.count, node->attr.axis, out);
  }
  lw_vec_free(&parts);
  return status;
}

/* ---- below reductions -----------------------------------------------------------------------*/

/* reduce(permute(x)) -> permute(reduce(x)): the kept dims in x's order, then put right. */
static lw_status move_reduce(lw_rewriter *rw, const lw_node *node, lw_value_id *out) {
  lw_graph *g = rw->graph;
  const lw_node *found = producer_of_op(g, lw__operand(g, node, 0), LW_OP_PERMUTE);
  if (found == NULL) return LW_OK;
  lw_node permute = *found;
  lw_value_id x = lw__operand(g, &permute, 0);
  uint32_t rank = lw__value(g, x)->shape.rank, axes = 0;
  uint8_t place[LW_MAX_RANK] = {0}, perm[LW_MAX_RANK] = {0};
  for (uint32_t d = 0; d < rank; d++) {
    if ((node->attr.reduce.axes >> d & 1) != 0) axes |= 1u << permute.attr.perm[d];
  }
  uint8_t kept = 0;
  for (uint32_t d = 0; d < rank; d++) {
    if ((axes >> d & 1) == 0) place[d] = kept++;
  }
  uint32_t result_dim = 0;
  for (uint32_t d = 0; d < rank; d++) {
    if ((node->attr.reduce.axes >> d & 1) == 0) perm[result_dim++] = place[permute.attr.perm[d]];
  }
  LW_TRY(lw__graph_reduce(g, node->attr.reduce.fn, x, axes, out));
  return lw__graph_permute(g, *out, perm, out);
}

/* Movements of broadcast scalars are broadcast scalars of another shape. */
static lw_status move_splat(lw_rewriter *rw, const lw_node *node, bool *out_is, lw_value_id *out) {
  lw_graph *g = rw->graph;
  lw_value_id root, x = lw__operand(g, node, 0);
  *out_is =
      node->op != LW_OP_PAD && node->op != LW_OP_CONCAT && lw__is_splat(g, node->result, &root);
  if (!*out_is) return LW_OK;
  lw_shape to = lw__value(g, node->result)->shape, scalar = {0};
  bool rank_0 = lw__value(g, root)->shape.rank == 0;
  lw_op before = lw__producer(g, x)->op;
  bool usual = rank_0 && (node->op == LW_OP_RESHAPE || node->op == LW_OP_EXPAND) &&
               (x == root || (node->op == LW_OP_EXPAND && before == LW_OP_RESHAPE &&
                              lw__operand(g, lw__producer(g, x), 0) == root));
  if (usual) return LW_OK;
  LW_TRY(lw__graph_reshape(g, root, &scalar, &root));
  return lw__graph_broadcast(g, root, &to, out);
}

static lw_status move_node(lw_rewriter *rw, lw_node_id n, lw_value_id *out) {
  lw_node node = *lw__node(rw->graph, n);
  if (node.op == LW_OP_MAP) return move_below_map(rw, &node, out);
  if (node.op == LW_OP_REDUCE) return move_reduce(rw, &node, out);
  if (lw__op_info[node.op].kind != LW_KIND_MOVE) return LW_OK;
  bool splat = false;
  LW_TRY(move_splat(rw, &node, &splat, out));
  if (splat) return LW_OK;
  switch (node.op) {
    case LW_OP_PERMUTE: return move_permute(rw, &node, out);
    case LW_OP_RESHAPE: return move_reshape(rw, &node, out);
    case LW_OP_EXPAND: return move_expand(rw, &node, out);
    case LW_OP_SLICE: return move_slice(rw, &node, out);
    case LW_OP_PAD: return move_pad(rw, &node, out);
    case LW_OP_CONCAT: return move_concat(rw, &node, out);
    default: return LW_OK;
  }
}

lw_status lw__pass_move(lw_graph *graph, const lw_pass_options *options, lw_diag *diag,
                        bool *out_changed) {
  return lw__rewrite(graph, options, diag, move_node, NULL, out_changed);
}

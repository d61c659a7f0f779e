/* access.c: index maps of the movement operators and questions about them. */
#include "graph/access.h"

#include <string.h>

/* ---- shapes -----------------------------------------------------------------------------------*/

/* Extents with 0 read as 1: no element of an empty value is ever addressed, but asking must not
 * divide by 0. */
static int64_t extent_at(const lw_shape *shape, uint32_t dim) {
  return shape->dim[dim] > 1 ? shape->dim[dim] : 1;
}

static void fail_pool(lw_ix_pool *pool, lw_status status) {
  if (pool->status == LW_OK) pool->status = status;
}

/* Sum of index[d] * product of the extents of the dims behind d in |order| (NULL: row-major). */
static lw_ix linear_position(lw_ix_pool *pool, const lw_shape *shape, const uint8_t *order,
                             const lw_ix *index) {
  lw_ix sum = 0;
  int64_t stride = 1;
  for (uint32_t i = shape->rank; i-- > 0;) {
    uint32_t d = order == NULL ? i : order[i];
    if (shape->dim[d] < 0) fail_pool(pool, LW_STATUS_INTERNAL); /* a symbol */
    sum = lw__ix_add(pool, sum, lw__ix_affine(pool, index[d], stride, 0));
    if (!lw__mul_i64(stride, extent_at(shape, d), &stride)) {
      fail_pool(pool, LW_STATUS_UNSUPPORTED);
    }
  }
  return sum;
}

lw_ix lw__access_flatten(lw_ix_pool *pool, const lw_shape *shape, const lw_ix *index) {
  return linear_position(pool, shape, NULL, index);
}

lw_ix lw__access_offset(const lw_graph *graph, lw_ix_pool *pool, lw_value_id value,
                        const lw_ix *index) {
  const lw_value *v = lw__value(graph, value);
  return linear_position(pool, &v->shape, v->storage.order, index);
}

/* |linear| lies in 0 .. product - 1, so the outermost coordinate needs no remainder. */
static void digits(lw_ix_pool *pool, const int64_t *extent, uint32_t rank, lw_ix linear,
                   lw_ix *out) {
  lw_ix rest = linear;
  for (uint32_t d = rank; d-- > 1;) {
    out[d] = lw__ix_mod(pool, rest, extent[d]);
    rest = lw__ix_div(pool, rest, extent[d]);
  }
  if (rank > 0) out[0] = rest;
}

void lw__access_unflatten(lw_ix_pool *pool, const lw_shape *shape, lw_ix linear, lw_ix *out_index) {
  int64_t extent[LW_MAX_RANK];
  uint32_t at[LW_MAX_RANK], rank = 0;
  lw_ix digit[LW_MAX_RANK];
  for (uint32_t d = 0; d < shape->rank; d++) {
    out_index[d] = 0;
    if (shape->dim[d] < 0) fail_pool(pool, LW_STATUS_INTERNAL);
    if (extent_at(shape, d) == 1) continue;
    extent[rank] = shape->dim[d];
    at[rank++] = d;
  }
  digits(pool, extent, rank, linear, digit);
  for (uint32_t i = 0; i < rank; i++) out_index[at[i]] = digit[i];
}

/* ---- reshape ----------------------------------------------------------------------------------*/

/* A run of result dims that holds the same elements as a run of operand dims; dims of extent 1 left
 * out. */
typedef struct dim_group {
  lw_shape to, from;
  lw_ix to_index[LW_MAX_RANK];
  uint8_t from_dim[LW_MAX_RANK];
} dim_group;

/* from's coordinates from to's. A coordinate that leaves its range (its element is taken elsewhere
 * then, by a guard) is kept out of the way of the simplifier behind a variable that does not. */
static void regroup(lw_ix_pool *pool, const dim_group *group, lw_ix *out_index) {
  uint32_t rank = group->to.rank, hidden = 0;
  if (rank == 1 && group->from.rank == 1) {
    out_index[group->from_dim[0]] = group->to_index[0];
    return;
  }
  lw_ix index[LW_MAX_RANK], vars[LW_MAX_RANK], by[LW_MAX_RANK], digit[LW_MAX_RANK];
  for (uint32_t d = 0; d < rank; d++) {
    index[d] = group->to_index[d];
    const lw_ix_node *node = lw__ix_node(pool, index[d]);
    if (node->lo >= 0 && node->hi < group->to.dim[d]) continue;
    by[hidden] = index[d];
    index[d] = vars[hidden++] = lw__ix_stand_in(pool, group->to.dim[d], d);
  }
  lw_ix linear = lw__access_flatten(pool, &group->to, index);
  lw__access_unflatten(pool, &group->from, linear, digit);
  for (uint32_t d = 0; d < group->from.rank && pool->status == LW_OK; d++) {
    out_index[group->from_dim[d]] =
        hidden == 0 ? digit[d] : lw__ix_replace(pool, digit[d], vars, by, hidden);
  }
}

static void reshape_index(lw_ix_pool *pool, const lw_shape *to, const lw_shape *from,
                          const lw_ix *index, lw_ix *out_index) {
  for (uint32_t d = 0; d < from->rank; d++) out_index[d] = 0;
  uint32_t t = 0, f = 0;
  while (pool->status == LW_OK) {
    dim_group group = {.to.rank = 0};
    int64_t have = 1, want = 1;
    do { /* the shorter side takes its next dim until both hold as many elements */
      if (have <= want) {
        while (t < to->rank && extent_at(to, t) == 1) t++;
        if (t == to->rank) return;
        if (!lw__mul_i64(have, to->dim[t], &have)) fail_pool(pool, LW_STATUS_UNSUPPORTED);
        group.to_index[group.to.rank] = index[t];
        group.to.dim[group.to.rank++] = to->dim[t++];
      } else {
        while (f < from->rank && extent_at(from, f) == 1) f++;
        if (f == from->rank) return;
        if (!lw__mul_i64(want, from->dim[f], &want)) fail_pool(pool, LW_STATUS_UNSUPPORTED);
        group.from_dim[group.from.rank] = (uint8_t)f;
        group.from.dim[group.from.rank++] = from->dim[f++];
      }
    } while (have != want && pool->status == LW_OK);
    if (pool->status == LW_OK) regroup(pool, &group, out_index);
  }
}

/* ---- pieces -----------------------------------------------------------------------------------*/

/* What a step is made from. */
typedef struct step {
  const lw_graph *graph;
  lw_ix_pool *pool;
  const lw_node *node;
  const lw_shape *shape; /* of the result */
  const lw_ix *index;
} step;

static const lw_shape *operand_shape(const step *s, uint32_t i) {
  return &lw__value(s->graph, lw__operand(s->graph, s->node, i))->shape;
}

/* Adds the guard lo <= e < hi; |low|, |high|: whether the index can leave at that end at all (as an
 * element's index it lies inside the result). An end that needs no test is moved to the range of
 * |e|, where it is seen to hold. False: it never holds. */
static bool add_guard(const lw_ix_pool *pool, lw_piece *piece, lw_guard guard, bool low,
                      bool high) {
  const lw_ix_node *node = lw__ix_node(pool, guard.e);
  if (!low) guard.lo = lw__min_i64(guard.lo, node->lo);
  if (!high && node->hi < INT64_MAX) guard.hi = lw__max_i64(guard.hi, node->hi + 1);
  if (node->lo >= guard.hi || node->hi < guard.lo) return false;
  if (node->lo < guard.lo || node->hi >= guard.hi) piece->guard[piece->guard_count++] = guard;
  return true;
}

static bool step_reshape(const step *s, lw_piece *piece) {
  reshape_index(s->pool, s->shape, operand_shape(s, 0), s->index, piece->index);
  return true;
}

static bool step_permute(const step *s, lw_piece *piece) {
  for (uint32_t d = 0; d < s->shape->rank; d++) piece->index[s->node->attr.perm[d]] = s->index[d];
  return true;
}

static bool step_expand(const step *s, lw_piece *piece) {
  const lw_shape *from = operand_shape(s, 0);
  for (uint32_t d = 0; d < from->rank; d++) piece->index[d] = from->dim[d] == 1 ? 0 : s->index[d];
  return true;
}

static bool step_slice(const step *s, lw_piece *piece) {
  const lw_attr *attr = &s->node->attr;
  for (uint32_t d = 0; d < s->shape->rank; d++) {
    piece->index[d] =
        lw__ix_affine(s->pool, s->index[d], attr->slice.step[d], attr->slice.start[d]);
  }
  return true;
}

static bool step_pad(const step *s, lw_piece *piece) {
  const lw_shape *from = operand_shape(s, 0);
  for (uint32_t d = 0; d < from->rank; d++) {
    int64_t lo = s->node->attr.pad.lo[d], extent = from->dim[d];
    piece->index[d] = lw__ix_affine(s->pool, s->index[d], 1, -lo);
    lw_guard inside = {piece->index[d], 0, extent};
    if (!add_guard(s->pool, piece, inside, lo != 0, s->shape->dim[d] - lo != extent)) return false;
  }
  return true;
}

static bool step_window(const step *s, lw_piece *piece) {
  const lw_attr *attr = &s->node->attr;
  uint32_t rank = operand_shape(s, 0)->rank;
  for (uint32_t d = 0; d < rank; d++) piece->index[d] = s->index[d];
  for (uint32_t k = 0; k < attr->window.count; k++) {
    uint32_t d = attr->window.axis[k];
    lw_ix tap = lw__ix_affine(s->pool, s->index[rank + k], attr->window.dilation[k], 0);
    lw_ix position = lw__ix_affine(s->pool, piece->index[d], attr->window.stride[k], 0);
    piece->index[d] = lw__ix_add(s->pool, position, tap);
  }
  return true;
}

static bool single_piece(const step *s, lw_piece *piece) {
  piece->source = lw__operand(s->graph, s->node, 0);
  switch (s->node->op) {
    case LW_OP_RESHAPE: return step_reshape(s, piece);
    case LW_OP_PERMUTE: return step_permute(s, piece);
    case LW_OP_EXPAND: return step_expand(s, piece);
    case LW_OP_SLICE: return step_slice(s, piece);
    case LW_OP_PAD: return step_pad(s, piece);
    case LW_OP_WINDOW: return step_window(s, piece);
    default: return false;
  }
}

static void concat_pieces(const step *s, lw_pieces *out) {
  uint32_t axis = s->node->attr.axis;
  int64_t begin = 0, total = s->shape->dim[axis];
  for (uint32_t i = 0; i < s->node->operand_count; i++) {
    int64_t end = begin + operand_shape(s, i)->dim[axis]; /* at most |total| */
    lw_piece *piece = &out->piece[out->count];
    memset(piece, 0, sizeof *piece);
    piece->source = lw__operand(s->graph, s->node, i);
    lw_guard here = {s->index[axis], begin, end};
    if (begin < end && add_guard(s->pool, piece, here, begin > 0, end < total)) {
      for (uint32_t d = 0; d < s->shape->rank; d++) piece->index[d] = s->index[d];
      piece->index[axis] = lw__ix_affine(s->pool, s->index[axis], 1, -begin);
      out->count++;
    }
    begin = end;
  }
}

static lw_status check_step(const step *s) {
  if (lw__op_info[s->node->op].kind != LW_KIND_MOVE) {
    return lw__fail(s->graph->diag, LW_STATUS_INTERNAL, s->node->name,
                    "no access map: %s is no movement", lw__op_info[s->node->op].name);
  }
  bool numbers = lw__shape_is_static(s->shape);
  for (uint32_t i = 0; i < s->node->operand_count; i++) {
    numbers = numbers && lw__shape_is_static(operand_shape(s, i));
  }
  if (numbers) return LW_OK;
  return lw__fail(s->graph->diag, LW_STATUS_INTERNAL, s->node->name,
                  "no access map: a shape has symbols that are not bound");
}

lw_status lw__access_step(const lw_graph *graph, lw_ix_pool *pool, lw_node_id node,
                          const lw_ix *index, lw_arena *arena, lw_pieces *out) {
  memset(out, 0, sizeof *out);
  const lw_node *n = lw__node(graph, node);
  step s = {graph, pool, n, &lw__value(graph, n->result)->shape, index};
  LW_TRY(check_step(&s));
  LW_TRY(lw__arena_alloc(arena, n->operand_count, sizeof *out->piece, &out->piece));
  if (n->op == LW_OP_CONCAT) {
    concat_pieces(&s, out);
  } else {
    out->count = single_piece(&s, &out->piece[0]) ? 1 : 0;
  }
  out->has_fill = n->op == LW_OP_PAD;
  if (out->has_fill) out->fill = n->attr.pad.value;
  return pool->status;
}

lw_status lw__access_chase(const lw_graph *graph, lw_ix_pool *pool, lw_value_id value,
                           const lw_ix *index, lw_value_id *out_source, lw_ix *out_index) {
  lw_arena arena = {0};
  lw_status status = LW_OK;
  uint32_t rank = lw__value(graph, value)->shape.rank;
  lw_ix at[LW_MAX_RANK] = {0};
  memcpy(at, index, rank * sizeof *index);
  for (uint32_t steps = 0; steps < graph->nodes.count; steps++) { /* ends in a cycle too */
    lw_node_id producer = lw__value(graph, value)->producer;
    if (lw__op_info[lw__node(graph, producer)->op].kind != LW_KIND_MOVE) break;
    lw_pieces pieces;
    lw__arena_reset(&arena);
    if ((status = lw__access_step(graph, pool, producer, at, &arena, &pieces)) != LW_OK) break;
    if (pieces.count != 1 || pieces.piece[0].guard_count != 0) break;
    value = pieces.piece[0].source;
    memcpy(at, pieces.piece[0].index, sizeof at);
  }
  lw__arena_deinit(&arena);
  *out_source = value;
  memcpy(out_index, at, lw__value(graph, value)->shape.rank * sizeof *at);
  return status;
}

/* ---- bijections -------------------------------------------------------------------------------*/

static bool is_among(lw_ix e, const lw_ix *vars, uint32_t count) {
  for (uint32_t i = 0; i < count; i++) {
    if (vars[i] == e) return true;
  }
  return false;
}

bool lw__access_is_bijection(const lw_ix_pool *pool, lw_ix e, const lw_ix *vars, uint32_t var_count,
                             int64_t count) {
  const lw_ix_node *sum = lw__ix_node(pool, e);
  lw_ix_term single = {1, e};
  const lw_ix_term *term = &single;
  uint32_t terms = 1, moving = 0;
  if (sum->kind == LW_IX_SUM) {
    if (sum->constant != 0) return false;
    term = pool->terms.data + sum->term_begin;
    terms = sum->term_count;
  } else if (sum->lo == sum->hi) {
    terms = 0; /* a variable with one value */
  }
  for (uint32_t i = 0; i < var_count; i++) moving += lw__ix_node(pool, vars[i])->hi > 0;
  if (moving != terms) return false;
  int64_t weight = 1;
  for (uint32_t done = 0; done < terms; done++) { /* one term has the next weight */
    uint32_t i = 0;
    while (i < terms && term[i].coef != weight) i++;
    if (i == terms || !is_among(term[i].atom, vars, var_count)) return false;
    if (!lw__mul_i64(weight, lw__ix_node(pool, term[i].atom)->hi + 1, &weight)) return false;
  }
  return weight == count;
}

/* region.c: classification and placement of a set of nodes. */
#include "compiler/fuse/region.h"

#include <string.h>

/* ---- context ----------------------------------------------------------------------------------*/

/* A view whose result itself must be in memory: a graph output, or data of a gather that cannot
 * look through it. */
static void mark_materialised(lw_region_context *ctx) {
  const lw_graph *g = ctx->graph;
  for (uint32_t i = 0; i < g->outputs.count; i++) {
    lw_node_id p = lw__value(g, g->outputs.data[i])->producer;
    ctx->is_output[g->outputs.data[i]] = 1;
    if (lw__is_view(g, p)) ctx->seed[p] = 1;
  }
  for (uint32_t n = 0; n < g->nodes.count; n++) {
    const lw_node *node = lw__node(g, n);
    if (node->dead || node->op != LW_OP_GATHER) continue;
    lw_value_id data = lw__operand(g, node, 0);
    while (lw__producer(g, data)->op == LW_OP_RESHAPE)
      data = lw__operand(g, lw__producer(g, data), 0);
    lw_node_id p = lw__value(g, data)->producer;
    if (lw__is_view(g, p) || lw__node(g, p)->op == LW_OP_IOTA) ctx->seed[p] = 1;
  }
}

/* Nodes stand behind what they read. */
static void mark_constants(lw_region_context *ctx) {
  for (uint32_t n = 0; n < ctx->graph->nodes.count; n++) {
    const lw_node *node = lw__node(ctx->graph, n);
    if (node->dead) continue;
    bool constant = node->operand_count > 0 || node->op == LW_OP_CONST || node->op == LW_OP_IOTA;
    for (uint32_t i = 0; i < node->operand_count && constant; i++)
      constant = ctx->constant[lw__operand(ctx->graph, node, i)] != 0;
    ctx->constant[node->result] = constant;
  }
}

lw_status lw__region_context_init(lw_region_context *ctx, const lw_graph *graph) {
  memset(ctx, 0, sizeof *ctx);
  ctx->graph = graph;
  size_t nodes = graph->nodes.count + 1u, values = graph->values.count + 1u;
  LW_TRY(lw__uses_init(&ctx->uses, graph));
  struct {
    void *slot;
    size_t bytes;
  } blocks[] = {
      {&ctx->is_output, values},
      {&ctx->member, nodes * 4},
      {&ctx->constant, values},
      {&ctx->order, nodes * 4},
      {&ctx->seed, nodes},
      {&ctx->place_stamp, values * 4},
      {&ctx->place, values * sizeof(void *)},
  };
  for (size_t i = 0; i < LW_ARRAY_COUNT(blocks); i++) {
    void *ptr = NULL;
    LW_TRY(lw__mem_resize(&ptr, blocks[i].bytes));
    memset(ptr, 0, blocks[i].bytes);
    memcpy(blocks[i].slot, &ptr, sizeof ptr);
  }
  for (uint32_t n = 0; n < graph->nodes.count; n++) {
    const lw_node *node = lw__node(graph, n);
    lw_op_kind kind = lw__op_info[node->op].kind;
    ctx->seed[n] = !node->dead && (kind == LW_KIND_MAP || kind == LW_KIND_COMPUTE);
    if (!node->dead && lw__is_widening(graph, n)) ctx->seed[n] = 0;
  }
  mark_materialised(ctx);
  mark_constants(ctx);
  return LW_OK;
}

void lw__region_context_deinit(lw_region_context *ctx) {
  lw__uses_deinit(&ctx->uses);
  lw__mem_free(ctx->is_output);
  lw__mem_free(ctx->constant);
  lw__mem_free(ctx->member);
  lw__mem_free(ctx->order);
  lw__mem_free(ctx->seed);
  lw__mem_free(ctx->place_stamp);
  lw__mem_free((void *)ctx->place);
  memset(ctx, 0, sizeof *ctx);
}

/* Does a kernel outside the region read |value|, directly or through movements (also through the
 * region's own: readers look through every view, materialised or not)? */
static bool read_outside(const lw_region_context *ctx, lw_value_id value, int depth) {
  for (uint32_t u = ctx->uses.begin[value]; u < ctx->uses.begin[value + 1]; u++) {
    lw_node_id user = ctx->uses.list[u].node;
    bool member = ctx->member[user] == ctx->stamp;
    if (!lw__is_view(ctx->graph, user)) {
      if (!member) return true;
      continue;
    }
    if ((ctx->seed[user] && !member) || depth > 64) return true;
    if (read_outside(ctx, lw__node(ctx->graph, user)->result, depth + 1)) return true;
  }
  return false;
}

static bool is_gather_data(const lw_region_context *ctx, lw_value_id value, int depth) {
  for (uint32_t u = ctx->uses.begin[value]; u < ctx->uses.begin[value + 1]; u++) {
    const lw_node *user = lw__node(ctx->graph, ctx->uses.list[u].node);
    if (user->op == LW_OP_GATHER && ctx->uses.list[u].operand == 0) return true;
    if (user->op == LW_OP_RESHAPE && (depth > 64 || is_gather_data(ctx, user->result, depth + 1)))
      return true;
  }
  return false;
}

bool lw__region_is_output(const lw_region_context *ctx, lw_value_id value) {
  if (ctx->is_output[value]) return true;
  if (lw__is_view(ctx->graph, lw__value(ctx->graph, value)->producer))
    return is_gather_data(ctx, value, 0);
  return read_outside(ctx, value, 0);
}

/* ---- classification ---------------------------------------------------------------------------*/

static lw_status refuse(lw_region *region, const char *why) {
  region->why = why;
  return LW_STATUS_UNSUPPORTED;
}

static void reduce_extents(const lw_graph *g, const lw_node *node, int64_t *rows, int64_t *cols) {
  const lw_shape *shape = &lw__value(g, lw__operand(g, node, 0))->shape;
  *rows = *cols = 1;
  for (uint32_t d = 0; d < shape->rank; d++)
    *(node->attr.reduce.axes >> d & 1 ? cols : rows) *= shape->dim[d];
}

static lw_status classify_reduce(lw_region *region) {
  const lw_graph *g = region->ctx->graph;
  region->cls = LW_KCLASS_REDUCE;
  reduce_extents(g, lw__node(g, region->anchor), &region->rows, &region->cols);
  for (uint32_t i = 0; i < region->node_count; i++) {
    const lw_node *node = lw__node(g, region->nodes[i]);
    if (node->op != LW_OP_REDUCE) continue;
    int64_t rows, cols;
    reduce_extents(g, node, &rows, &cols);
    if (rows != region->rows || cols != region->cols)
      return refuse(region, "the reductions have different rows or columns");
  }
  region->elements = region->rows * region->cols;
  return LW_OK;
}

static void classify_contraction(lw_region *region) {
  const lw_graph *g = region->ctx->graph;
  const lw_node *node = lw__node(g, region->anchor);
  const lw_shape *a = &lw__value(g, lw__operand(g, node, 0))->shape;
  const lw_shape *w = &lw__value(g, lw__operand(g, node, 1))->shape;
  const lw_shape *y = &lw__value(g, node->result)->shape;
  region->b = region->m = region->n = region->k = 1;
  if (node->op == LW_OP_DOT) {
    region->cls = LW_KCLASS_DOT;
    for (uint32_t d = 0; d + 2 < y->rank; d++) region->b *= y->dim[d];
    region->m = y->dim[y->rank - 2];
    region->n = y->dim[y->rank - 1];
    region->k = a->dim[a->rank - 1];
  } else {
    const lw_conv_attr *conv = &node->attr.conv;
    region->cls = LW_KCLASS_CONV;
    region->b = conv->group;
    region->m = y->dim[1] / conv->group;
    region->n = y->dim[0];
    region->k = a->dim[1] / conv->group;
    for (uint32_t s = 0; s < conv->spatial; s++)
      region->n *= y->dim[2 + s], region->k *= w->dim[2 + s];
  }
  region->elements = region->b * region->m * region->n;
}

static void classify_map(lw_region *region) {
  const lw_graph *g = region->ctx->graph;
  region->cls = LW_KCLASS_MAP;
  region->elements = 0;
  for (uint32_t i = 0; i < region->node_count; i++) {
    lw_value_id v = lw__node(g, region->nodes[i])->result;
    int64_t count = lw__shape_numel(&lw__value(g, v)->shape);
    if (lw__region_is_output(region->ctx, v) && count > region->elements) region->elements = count;
  }
}

/* A gather reads its data from memory, so nothing of the same kernel may be making it. */
static bool gathers_own_result(const lw_region *region) {
  const lw_graph *g = region->ctx->graph;
  for (uint32_t i = 0; i < region->node_count; i++) {
    const lw_node *node = lw__node(g, region->nodes[i]);
    if (node->op != LW_OP_GATHER) continue;
    lw_value_id data = lw__operand(g, node, 0);
    while (lw__producer(g, data)->op == LW_OP_RESHAPE)
      data = lw__operand(g, lw__producer(g, data), 0);
    if (region->ctx->member[lw__value(g, data)->producer] == region->ctx->stamp) return true;
  }
  return false;
}

lw_status lw__region_init(lw_region *region, lw_region_context *ctx, const lw_node_id *nodes,
                          uint32_t count) {
  memset(region, 0, sizeof *region);
  region->ctx = ctx;
  region->nodes = nodes;
  region->node_count = count;
  region->anchor = LW_NONE;
  region->lhs = region->rhs = LW_NONE;
  ctx->stamp++;
  for (uint32_t i = 0; i < count; i++) ctx->member[nodes[i]] = ctx->stamp;
  LW_TRY(lw__elem_init(&region->pool, ctx->graph, ctx->member, ctx->stamp));
  if (gathers_own_result(region)) return refuse(region, "a gather's data must be in memory");
  lw_node_id reduce = LW_NONE, contraction = LW_NONE;
  for (uint32_t i = 0; i < count; i++) {
    if (count > 1 && lw__is_copy(ctx->graph, nodes[i]))
      return refuse(region, "a copy is stored on purpose");
    lw_op op = lw__node(ctx->graph, nodes[i])->op;
    if (op == LW_OP_REDUCE && reduce == LW_NONE) reduce = nodes[i];
    if (op != LW_OP_DOT && op != LW_OP_CONV) continue;
    if (contraction != LW_NONE) return refuse(region, "two products in one kernel");
    contraction = nodes[i];
  }
  if (reduce != LW_NONE && contraction != LW_NONE)
    return refuse(region, "a product and a reduction in one kernel");
  region->anchor = reduce != LW_NONE ? reduce : contraction;
  if (reduce != LW_NONE) return classify_reduce(region);
  if (contraction != LW_NONE)
    classify_contraction(region);
  else
    classify_map(region);
  return LW_OK;
}

void lw__region_deinit(lw_region *region) {
  lw__elem_deinit(&region->pool);
  lw_vec_free(&region->outputs);
  lw_vec_free(&region->reductions);
}

lw_ix lw__region_var(lw_region *region, int64_t extent) {
  return extent > 1 ? lw__ix_new_var(&region->pool.ix, extent) : lw__ix_const(&region->pool.ix, 0);
}

void lw__region_plain_space(lw_region *region, lw_ix *out_space) {
  switch (region->cls) {
    case LW_KCLASS_REDUCE:
      out_space[0] = lw__region_var(region, region->rows);
      out_space[1] = lw__region_var(region, region->cols);
      break;
    case LW_KCLASS_DOT:
    case LW_KCLASS_CONV:
      out_space[0] = lw__region_var(region, region->b);
      out_space[1] = lw__region_var(region, region->m);
      out_space[2] = lw__region_var(region, region->n);
      out_space[3] = lw__region_var(region, region->k);
      break;
    default: out_space[0] = lw__region_var(region, region->elements);
  }
}

uint32_t lw__region_buffer_count(const lw_region *region) {
  uint32_t count = region->outputs.count;
  for (uint32_t i = 0; i < region->pool.nodes.count; i++) {
    const lw_elem_node *n = &region->pool.nodes.data[i];
    if (n->kind != LW_ELEM_LOAD && n->kind != LW_ELEM_GATHER) continue;
    bool known = false;
    for (uint32_t j = 0; j < i && !known; j++) {
      const lw_elem_node *e = &region->pool.nodes.data[j];
      known = (e->kind == LW_ELEM_LOAD || e->kind == LW_ELEM_GATHER) && e->value == n->value;
    }
    count += !known;
  }
  return count;
}

/* ---- placement --------------------------------------------------------------------------------*/

typedef struct placer {
  lw_region *region;
  lw_ix r, c; /* MAP: i as |r|. REDUCE: the space */
  lw_ix row;  /* REDUCE: the row-major position of row |r| among the reductions' results */
  LW_VEC(lw_value_id) work;
} placer;

static bool is_placed(const lw_region *region, lw_value_id v) {
  return region->ctx->place_stamp[v] == region->ctx->stamp;
}

static lw_status place(placer *p, lw_value_id v, const lw_ix *index) {
  lw_region_context *ctx = p->region->ctx;
  if (is_placed(p->region, v)) return LW_OK;
  lw_ix *copy;
  LW_TRY(lw__arena_alloc(&p->region->pool.arena, LW_MAX_RANK, sizeof *copy, &copy));
  memcpy(copy, index, lw__value(ctx->graph, v)->shape.rank * sizeof *copy);
  ctx->place[v] = copy;
  ctx->place_stamp[v] = ctx->stamp;
  return lw_vec_push(&p->work, v);
}

static lw_status place_linear(placer *p, lw_value_id v, lw_ix linear) {
  lw_ix index[LW_MAX_RANK];
  lw__access_unflatten(&p->region->pool.ix, &lw__value(p->region->ctx->graph, v)->shape, linear,
                       index);
  return place(p, v, index);
}

/* The index whose position in |v|'s storage is |at|: neighbouring threads touch neighbouring
 * memory. */
static void storage_index(lw_region *region, lw_value_id v, lw_ix at, lw_ix *out_index) {
  const lw_value *value = lw__value(region->ctx->graph, v);
  lw_shape stored = {.rank = value->shape.rank};
  lw_ix index[LW_MAX_RANK];
  for (uint32_t d = 0; d < stored.rank; d++)
    stored.dim[d] = value->shape.dim[value->storage.order[d]];
  lw__access_unflatten(&region->pool.ix, &stored, at, index);
  for (uint32_t d = 0; d < stored.rank; d++) out_index[value->storage.order[d]] = index[d];
}

static lw_status place_stored(placer *p, lw_value_id v, lw_ix at) {
  lw_ix index[LW_MAX_RANK];
  storage_index(p->region, v, at, index);
  return place(p, v, index);
}

static bool is_member(const lw_region *region, lw_node_id n) {
  return region->ctx->member[n] == region->ctx->stamp;
}

/* Kept dims of a reduction's operand from its result's index; reduced dims from the column. */
static lw_status place_reduce_operand(placer *p, const lw_node *node, const lw_ix *result) {
  const lw_graph *g = p->region->ctx->graph;
  const lw_shape *shape = &lw__value(g, lw__operand(g, node, 0))->shape;
  lw_shape reduced = {0};
  for (uint32_t d = 0; d < shape->rank; d++)
    if (node->attr.reduce.axes >> d & 1) reduced.dim[reduced.rank++] = shape->dim[d];
  lw_ix cols[LW_MAX_RANK], index[LW_MAX_RANK];
  for (uint32_t d = 0; d < reduced.rank; d++) cols[d] = lw__ix_const(&p->region->pool.ix, 0);
  if (p->region->cols > 0) lw__access_unflatten(&p->region->pool.ix, &reduced, p->c, cols);
  for (uint32_t d = 0, kept = 0, gone = 0; d < shape->rank; d++)
    index[d] = node->attr.reduce.axes >> d & 1 ? cols[gone++] : result[kept++];
  return place(p, lw__operand(g, node, 0), index);
}

static lw_status place_backward(placer *p, lw_value_id v) {
  const lw_graph *g = p->region->ctx->graph;
  const lw_ix *index = p->region->ctx->place[v];
  lw_node_id id = lw__value(g, v)->producer;
  const lw_node *node = lw__node(g, id);
  lw_value_id operand = node->operand_count ? lw__operand(g, node, 0) : LW_NONE;
  lw_ix inner[LW_MAX_RANK];
  switch (node->op) {
    case LW_OP_MAP:
      if (!is_member(p->region, id) && !lw__is_widening(g, id)) return LW_OK;
      for (uint32_t i = 0; i < node->operand_count; i++)
        LW_TRY(place(p, lw__operand(g, node, i), index));
      return LW_OK;
    case LW_OP_PERMUTE:
      for (uint32_t d = 0; d < lw__value(g, v)->shape.rank; d++)
        inner[node->attr.perm[d]] = index[d];
      return place(p, operand, inner);
    case LW_OP_RESHAPE:
      return place_linear(p, operand,
                          lw__access_flatten(&p->region->pool.ix, &lw__value(g, v)->shape, index));
    case LW_OP_REDUCE:
      if (!is_member(p->region, id) ||
          lw__access_flatten(&p->region->pool.ix, &lw__value(g, v)->shape, index) != p->row)
        return LW_OK;
      return place_reduce_operand(p, node, index);
    default: return LW_OK;
  }
}

static lw_status place_reduce_result(placer *p, const lw_node *node, const lw_ix *index) {
  const lw_graph *g = p->region->ctx->graph;
  uint32_t rank = lw__value(g, lw__operand(g, node, 0))->shape.rank;
  lw_ix kept[LW_MAX_RANK];
  for (uint32_t d = 0, k = 0; d < rank; d++)
    if (!(node->attr.reduce.axes >> d & 1)) kept[k++] = index[d];
  return place(p, node->result, kept);
}

static lw_status place_forward(placer *p, lw_value_id v) {
  const lw_graph *g = p->region->ctx->graph;
  const lw_uses *uses = &p->region->ctx->uses;
  const lw_ix *index = p->region->ctx->place[v];
  for (uint32_t u = uses->begin[v]; u < uses->begin[v + 1]; u++) {
    const lw_node *node = lw__node(g, uses->list[u].node);
    lw_ix outer[LW_MAX_RANK];
    switch (node->op) {
      case LW_OP_MAP:
        if (is_member(p->region, uses->list[u].node) || lw__is_widening(g, uses->list[u].node))
          LW_TRY(place(p, node->result, index));
        break;
      case LW_OP_REDUCE:
        if (is_member(p->region, uses->list[u].node)) LW_TRY(place_reduce_result(p, node, index));
        break;
      case LW_OP_PERMUTE:
        for (uint32_t d = 0; d < lw__value(g, v)->shape.rank; d++)
          outer[d] = index[node->attr.perm[d]];
        LW_TRY(place(p, node->result, outer));
        break;
      case LW_OP_RESHAPE:
        LW_TRY(
            place_linear(p, node->result,
                         lw__access_flatten(&p->region->pool.ix, &lw__value(g, v)->shape, index)));
        break;
      default: break;
    }
  }
  return LW_OK;
}

static lw_status propagate(placer *p) {
  while (p->work.count) {
    lw_value_id v = p->work.data[--p->work.count];
    LW_TRY(place_backward(p, v));
    LW_TRY(place_forward(p, v));
  }
  return p->region->pool.ix.status;
}

/* ---- anchors ----------------------------------------------------------------------------------*/

static lw_status anchor_reduce(placer *p) {
  lw_region *region = p->region;
  const lw_node *node = lw__node(region->ctx->graph, region->anchor);
  lw_ix rows[LW_MAX_RANK];
  storage_index(region, node->result, p->r, rows);
  p->row = lw__access_flatten(&region->pool.ix, &lw__value(region->ctx->graph, node->result)->shape,
                              rows);
  LW_TRY(place_reduce_operand(p, node, rows));
  return place(p, node->result, rows);
}

static lw_status anchor_dot(placer *p, const lw_ix *space) {
  lw_region *region = p->region;
  const lw_graph *g = region->ctx->graph;
  lw_value_id result = lw__node(g, region->anchor)->result;
  lw_shape batch = lw__value(g, result)->shape;
  lw_ix index[LW_MAX_RANK];
  batch.rank -= 2;
  lw__access_unflatten(&region->pool.ix, &batch, space[0], index);
  index[batch.rank] = space[1];
  index[batch.rank + 1] = space[2];
  return place(p, result, index);
}

static lw_status anchor_conv(placer *p, const lw_ix *space) {
  lw_region *region = p->region;
  const lw_graph *g = region->ctx->graph;
  lw_value_id result = lw__node(g, region->anchor)->result;
  const lw_shape *y = &lw__value(g, result)->shape;
  lw_shape positions = {.rank = y->rank - 1};
  lw_ix at[LW_MAX_RANK], index[LW_MAX_RANK];
  positions.dim[0] = y->dim[0];
  for (uint32_t d = 2; d < y->rank; d++) positions.dim[d - 1] = y->dim[d];
  lw__access_unflatten(&region->pool.ix, &positions, space[2], at);
  index[0] = at[0];
  index[1] = lw__ix_add(&region->pool.ix, lw__ix_affine(&region->pool.ix, space[0], region->m, 0),
                        space[1]);
  for (uint32_t d = 2; d < y->rank; d++) index[d] = at[d - 1];
  return place(p, result, index);
}

/* ---- factors of contractions ------------------------------------------------------------------*/

static lw_status dot_factors(lw_region *region, const lw_ix *space) {
  const lw_graph *g = region->ctx->graph;
  const lw_node *node = lw__node(g, region->anchor);
  const lw_ix *at = region->ctx->place[node->result];
  uint32_t batch = lw__value(g, node->result)->shape.rank - 2;
  lw_ix index[LW_MAX_RANK];
  memcpy(index, at, batch * sizeof *index);
  index[batch] = space[1];
  index[batch + 1] = space[3];
  LW_TRY(lw__elem_of(&region->pool, lw__operand(g, node, 0), index, LW_NONE, &region->lhs));
  index[batch] = space[3];
  index[batch + 1] = space[2];
  return lw__elem_of(&region->pool, lw__operand(g, node, 1), index, LW_NONE, &region->rhs);
}

/* The input coordinate that output |o| and tap |t| meet in one spatial dim, with the guards under
 * which they do. Plain: o*stride + t*dilation - pad inside the input. Transposed: (o + pad -
 * t*dilation) / stride, when it divides. */
static lw_status conv_coordinate(lw_region *region, const lw_conv_attr *conv, uint32_t s, lw_ix o,
                                 lw_ix t, int64_t extent, lw_elem *pred, lw_ix *out) {
  lw_ix_pool *ix = &region->pool.ix;
  lw_elem guard;
  if (!conv->transposed) {
    *out = lw__ix_affine(ix,
                         lw__ix_add(ix, lw__ix_affine(ix, o, conv->stride[s], 0),
                                    lw__ix_affine(ix, t, conv->dilation[s], 0)),
                         1, -conv->pad_lo[s]);
  } else {
    lw_ix up = lw__ix_affine(ix, lw__ix_add(ix, o, lw__ix_affine(ix, t, -conv->dilation[s], 0)), 1,
                             conv->pad_lo[s]);
    lw_ix rest = lw__ix_mod(ix, up, conv->stride[s]);
    if (lw__ix_node(ix, rest)->hi > 0) {
      LW_TRY(lw__elem_guard(&region->pool, rest, 0, 1, &guard));
      LW_TRY(lw__elem_map(&region->pool, LW_FN_AND, LW_DTYPE_BOOL, *pred, guard, LW_NONE, pred));
    }
    *out = lw__ix_div(ix, up, conv->stride[s]);
  }
  if (lw__ix_node(ix, *out)->lo >= 0 && lw__ix_node(ix, *out)->hi < extent) return LW_OK;
  LW_TRY(lw__elem_guard(&region->pool, *out, 0, extent, &guard));
  return lw__elem_map(&region->pool, LW_FN_AND, LW_DTYPE_BOOL, *pred, guard, LW_NONE, pred);
}

static lw_status conv_factors(lw_region *region, const lw_ix *space) {
  const lw_graph *g = region->ctx->graph;
  const lw_node *node = lw__node(g, region->anchor);
  const lw_conv_attr *conv = &node->attr.conv;
  const lw_shape *x = &lw__value(g, lw__operand(g, node, 0))->shape;
  const lw_shape *w = &lw__value(g, lw__operand(g, node, 1))->shape;
  const lw_ix *at = region->ctx->place[node->result];
  lw_ix_pool *ix = &region->pool.ix;
  int64_t channels = x->dim[1] / conv->group;
  /* k runs over channels and taps in the order in which the image is stored: channels fastest when
   * they are last. */
  const lw_value *image = lw__value(g, lw__operand(g, node, 0));
  bool channels_last = image->storage.order[image->shape.rank - 1] == 1;
  lw_shape taps = {.rank = 1 + conv->spatial};
  uint32_t channel_at = channels_last ? conv->spatial : 0, tap_at = channels_last ? 0 : 1;
  taps.dim[channel_at] = channels;
  for (uint32_t s = 0; s < conv->spatial; s++) taps.dim[tap_at + s] = w->dim[2 + s];
  lw_ix tap[LW_MAX_RANK], xi[LW_MAX_RANK], wi[LW_MAX_RANK];
  lw__access_unflatten(ix, &taps, space[3], tap);
  lw_elem pred = LW_NONE;
  xi[0] = at[0];
  xi[1] = lw__ix_add(ix, lw__ix_affine(ix, space[0], channels, 0), tap[channel_at]);
  for (uint32_t s = 0; s < conv->spatial; s++) {
    LW_TRY(conv_coordinate(region, conv, s, at[2 + s], tap[tap_at + s], x->dim[2 + s], &pred,
                           &xi[2 + s]));
    wi[2 + s] = tap[tap_at + s];
  }
  wi[0] = conv->transposed ? xi[1] : at[1];
  wi[1] = conv->transposed ? space[1] : tap[channel_at];
  LW_TRY(lw__elem_of(&region->pool, lw__operand(g, node, 1), wi, LW_NONE, &region->lhs));
  LW_TRY(lw__elem_of(&region->pool, lw__operand(g, node, 0), xi, pred, &region->rhs));
  if (pred == LW_NONE) return LW_OK;
  /* What the walk computed under |pred| may be anything where it is false (exp(0) = 1): padding is
   * zero. */
  lw_elem zero;
  lw_dtype dtype = lw__value(g, lw__operand(g, node, 0))->dtype;
  LW_TRY(lw__elem_const(&region->pool, dtype, (lw_scalar){.i = 0}, &zero));
  if (lw__elem_node(&region->pool, region->rhs)->kind == LW_ELEM_LOAD) return LW_OK;
  return lw__elem_map(&region->pool, LW_FN_SELECT, dtype, pred, region->rhs, zero, &region->rhs);
}

/* ---- outputs and reductions -------------------------------------------------------------------*/

static lw_status add_output(placer *p, lw_value_id v) {
  lw_region *region = p->region;
  const lw_graph *g = region->ctx->graph;
  const lw_shape *shape = &lw__value(g, v)->shape;
  lw_region_output out = {.value = v, .kind = LW_PLACE_FULL};
  int64_t count = lw__shape_numel(shape);
  if (!is_placed(region, v)) {
    if (region->cls == LW_KCLASS_REDUCE && count == region->rows)
      LW_TRY(place_linear(p, v, p->row));
    else if (region->cls == LW_KCLASS_MAP && count == region->elements)
      LW_TRY(place_stored(p, v, p->r));
    else
      return refuse(region, "a result that must be stored does not fit the kernel's space");
    p->work.count = 0;
  }
  if (count != region->elements) {
    if (region->cls != LW_KCLASS_REDUCE || count != region->rows)
      return refuse(region, "a result that must be stored has another number of elements");
    out.kind = LW_PLACE_ROW;
  }
  out.index = region->ctx->place[v];
  out.offset = lw__access_offset(g, &region->pool.ix, v, out.index);
  LW_TRY(lw__elem_of(&region->pool, v, out.index, LW_NONE, &out.elem));
  return lw_vec_push(&region->outputs, out);
}

/* A materialised movement is walked through even when it is a member: its element is its operand's.
 */
static lw_status add_outputs(placer *p) {
  lw_region *region = p->region;
  for (uint32_t i = 0; i < region->node_count; i++) {
    lw_value_id v = lw__node(region->ctx->graph, region->nodes[i])->result;
    if (lw__region_is_output(region->ctx, v)) LW_TRY(add_output(p, v));
  }
  return LW_OK;
}

/* The row that the elements of a reduction's operand belong to, where they stand. */
static lw_ix row_of_operand(lw_region *region, const lw_node *node) {
  const lw_graph *g = region->ctx->graph;
  lw_value_id operand = lw__operand(g, node, 0);
  lw_ix kept[LW_MAX_RANK];
  for (uint32_t d = 0, k = 0; d < lw__value(g, operand)->shape.rank; d++)
    if (!(node->attr.reduce.axes >> d & 1)) kept[k++] = region->ctx->place[operand][d];
  return lw__access_flatten(&region->pool.ix, &lw__value(g, node->result)->shape, kept);
}

/* Result and operand may have got their places on different ways, so both are held against the row.
 */
static lw_status add_reductions(placer *p) {
  lw_region *region = p->region;
  const lw_graph *g = region->ctx->graph;
  for (uint32_t i = 0; i < region->node_count; i++) {
    const lw_node *node = lw__node(g, region->nodes[i]);
    if (node->op != LW_OP_REDUCE) continue;
    lw_value_id operand = lw__operand(g, node, 0);
    if (!is_placed(region, operand) || !is_placed(region, node->result))
      return refuse(region, "the reductions run over different elements");
    lw_ix row = lw__access_flatten(&region->pool.ix, &lw__value(g, node->result)->shape,
                                   region->ctx->place[node->result]);
    if (row != p->row || row_of_operand(region, node) != p->row)
      return refuse(region, "the reductions have their rows in different orders");
    lw_region_reduction red = {.node = region->nodes[i]};
    LW_TRY(lw__elem_of(&region->pool, operand, region->ctx->place[operand], LW_NONE, &red.term));
    LW_TRY(lw_vec_push(&region->reductions, red));
  }
  return LW_OK;
}

/* Every leaf must be a reduction at its own row (REDUCE), or the contraction at its own element. */
static lw_status check_leaves(lw_region *region, lw_ix expected) {
  for (uint32_t i = 0; i < region->pool.nodes.count; i++) {
    const lw_elem_node *n = &region->pool.nodes.data[i];
    if (n->kind == LW_ELEM_LEAF && n->ix != expected)
      return refuse(region, region->cls == LW_KCLASS_REDUCE
                                ? "a reduction is read at another row than it is made in"
                                : "the product is read at another element than it is made in");
  }
  return LW_OK;
}

/* Latest stage among the reductions below |e| (-1: none). |stage_of| caches per element, -2 = not
 * known. */
static int latest_stage(const lw_region *region, lw_elem e, int *stage_of) {
  if (e == LW_NONE) return -1;
  if (stage_of[e] != -2) return stage_of[e];
  const lw_elem_node *n = lw__elem_node(&region->pool, e);
  int latest = -1;
  if (n->kind == LW_ELEM_LEAF)
    for (uint32_t i = 0; i < region->reductions.count; i++)
      if (lw__node(region->ctx->graph, region->reductions.data[i].node)->result == n->value)
        latest = (int)region->reductions.data[i].stage;
  for (int i = 0; i < 3; i++) {
    int s = latest_stage(region, n->arg[i], stage_of);
    if (s > latest) latest = s;
  }
  for (uint32_t i = 0; i < n->coord_count; i++) {
    int s = latest_stage(region, region->pool.coords.data[n->coord_begin + i].elem, stage_of);
    if (s > latest) latest = s;
  }
  return stage_of[e] = latest;
}

/* Nodes stand in topological order, so a reduction's inputs have their stage already. */
static lw_status number_stages(lw_region *region) {
  int *stage_of;
  LW_TRY(lw__arena_alloc(&region->pool.arena, region->pool.nodes.count + 1u, sizeof *stage_of,
                         &stage_of));
  region->stage_count = 0;
  for (uint32_t i = 0; i < region->reductions.count; i++) {
    for (uint32_t e = 0; e < region->pool.nodes.count; e++) stage_of[e] = -2;
    lw_region_reduction *red = &region->reductions.data[i];
    red->stage = (uint32_t)(latest_stage(region, red->term, stage_of) + 1);
    if (red->stage + 1 > region->stage_count) region->stage_count = red->stage + 1;
  }
  return LW_OK;
}

static lw_status place_all(placer *p, const lw_ix *space) {
  lw_region *region = p->region;
  lw_ix expected = LW_NONE;
  switch (region->cls) {
    case LW_KCLASS_REDUCE:
      LW_TRY(anchor_reduce(p));
      expected = p->row;
      break;
    case LW_KCLASS_DOT: LW_TRY(anchor_dot(p, space)); break;
    case LW_KCLASS_CONV: LW_TRY(anchor_conv(p, space)); break;
    default: break;
  }
  if (region->anchor == LW_NONE) /* MAP: the last result of full size */
    for (uint32_t i = region->node_count; i-- > 0 && !p->work.count;) {
      lw_value_id v = lw__node(region->ctx->graph, region->nodes[i])->result;
      if (lw__shape_numel(&lw__value(region->ctx->graph, v)->shape) == region->elements &&
          lw__region_is_output(region->ctx, v))
        LW_TRY(place_stored(p, v, p->r));
    }
  LW_TRY(propagate(p));
  if (region->cls == LW_KCLASS_DOT || region->cls == LW_KCLASS_CONV) {
    lw_value_id result = lw__node(region->ctx->graph, region->anchor)->result;
    expected = lw__access_flatten(&region->pool.ix, &lw__value(region->ctx->graph, result)->shape,
                                  region->ctx->place[result]);
    LW_TRY(region->cls == LW_KCLASS_DOT ? dot_factors(region, space) : conv_factors(region, space));
  }
  LW_TRY(add_reductions(p));
  LW_TRY(add_outputs(p));
  LW_TRY(check_leaves(region, expected));
  LW_TRY(number_stages(region));
  return region->pool.ix.status;
}

/* Nothing to run: what must be stored has no elements either, or the set is no kernel. */
static lw_status place_nothing(lw_region *region) {
  for (uint32_t i = 0; i < region->node_count; i++) {
    lw_value_id v = lw__node(region->ctx->graph, region->nodes[i])->result;
    if (!lw__region_is_output(region->ctx, v)) continue;
    if (lw__shape_numel(&lw__value(region->ctx->graph, v)->shape) != 0)
      return refuse(region, "an empty result and others in one kernel");
    LW_TRY(lw_vec_push(&region->outputs,
                       (lw_region_output){.value = v, .offset = LW_NONE, .elem = LW_NONE}));
  }
  return LW_OK;
}

lw_status lw__region_place(lw_region *region, const lw_ix *space) {
  if (region->cls == LW_KCLASS_REDUCE ? region->rows == 0 : region->elements == 0)
    return place_nothing(region);
  placer p = {
      .region = region, .r = space[0], .c = region->cls == LW_KCLASS_REDUCE ? space[1] : LW_NONE};
  if (region->cls == LW_KCLASS_DOT || region->cls == LW_KCLASS_CONV)
    memcpy(region->space, space, sizeof region->space);
  lw_status status = place_all(&p, space);
  lw_vec_free(&p.work);
  return status;
}

/* ---- matrix units -----------------------------------------------------------------------------*/

lw_elem lw__elem_unwidened(const lw_elem_pool *pool, lw_elem e) {
  for (;;) {
    const lw_elem_node *n = lw__elem_node(pool, e);
    if (n->kind != LW_ELEM_MAP || n->fn != LW_FN_CAST || n->dtype != LW_DTYPE_F32) return e;
    lw_dtype from = lw__elem_node(pool, n->arg[0])->dtype;
    if (!lw__dtype_is_half(from)) return e;
    e = n->arg[0];
  }
}

lw_dtype lw__region_matrix_type(const lw_region *region) {
  if (region->lhs == LW_NONE || region->rhs == LW_NONE) return LW_DTYPE_NONE;
  const lw_elem_pool *pool = &region->pool;
  lw_dtype lhs = lw__elem_node(pool, lw__elem_unwidened(pool, region->lhs))->dtype;
  lw_dtype rhs = lw__elem_node(pool, lw__elem_unwidened(pool, region->rhs))->dtype;
  return lw__dtype_is_half(lhs) && lhs == rhs ? lhs : LW_DTYPE_NONE;
}

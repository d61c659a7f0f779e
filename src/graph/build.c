/* build.c: the constructors of nodes. They leave out nodes that would do nothing and fold a
 * movement into an equal one before it; everything that needs more thought is for the passes. */
#include <string.h>

#include "graph/infer.h"

lw_status lw__graph_init(lw_graph *graph, lw_diag *diag) {
  memset(graph, 0, sizeof *graph);
  graph->diag = diag;
  return LW_OK;
}

void lw__graph_deinit(lw_graph *graph) {
  for (uint32_t i = 0; i < graph->files.count; i++) lw__file_unmap(&graph->files.data[i]);
  lw_vec_free(&graph->values);
  lw_vec_free(&graph->nodes);
  lw_vec_free(&graph->operands);
  lw_vec_free(&graph->inputs);
  lw_vec_free(&graph->outputs);
  lw_vec_free(&graph->output_names);
  lw_vec_free(&graph->files);
  lw_vec_free(&graph->file_names);
  lw__extent_table_deinit(&graph->extents);
  lw__arena_deinit(&graph->arena);
}

lw_status lw__graph_require_value(const lw_graph *g, lw_value_id v) {
  if (v < g->values.count) return LW_OK;
  return lw__fail(g->diag, LW_STATUS_INTERNAL, lw__graph_where(g), "there is no value %u", v);
}

static lw_status require_max_rank(const lw_graph *g, uint32_t rank) {
  if (rank <= LW_MAX_RANK) return LW_OK;
  return lw__fail(g->diag, LW_STATUS_UNSUPPORTED, lw__graph_where(g),
                  "%u dimensions, more than the %d that are supported", rank, LW_MAX_RANK);
}

/* ---- adding nodes -----------------------------------------------------------------------------*/

/* Nodes that are built at the same place share one string. */
static lw_status node_name(lw_graph *g, const char **out) {
  *out = NULL;
  if (g->where == NULL || g->where[0] == '\0') return LW_OK;
  const char *last = g->nodes.count > 0 ? g->nodes.data[g->nodes.count - 1].name : NULL;
  if (last != NULL && strcmp(last, g->where) == 0) {
    *out = last;
    return LW_OK;
  }
  return lw__arena_strndup(&g->arena, g->where, strlen(g->where), out);
}

/* |in| may lie in the graph's own operand array, which is about to move. */
static lw_status reserve(lw_graph *g, const lw_value_id **in, uint32_t count) {
  uintptr_t first = (uintptr_t)g->operands.data, at = (uintptr_t)*in;
  bool own = at >= first && at < first + g->operands.count * sizeof(lw_value_id);
  LW_TRY(lw_vec_reserve(&g->operands, count));
  if (own) *in = g->operands.data + (at - first) / sizeof(lw_value_id);
  LW_TRY(lw_vec_reserve(&g->values, 1));
  return lw_vec_reserve(&g->nodes, 1);
}

lw_status lw__graph_append(lw_graph *graph, lw_op op, const lw_attr *attr, const lw_value_id *in,
                           uint32_t count, lw_dtype dtype, const lw_shape *shape,
                           lw_value_id *out) {
  lw_value value = {.producer = graph->nodes.count, .shape = *shape};
  lw_node node = {
      .op = op, .operand_begin = graph->operands.count, .operand_count = count, .attr = *attr};
  LW_TRY(lw__infer(graph, op, attr, in, count, &dtype, &value.shape));
  LW_TRY(node_name(graph, &node.name));
  LW_TRY(reserve(graph, &in, count));
  value.dtype = dtype;
  for (uint8_t d = 0; d < LW_MAX_RANK; d++) value.storage.order[d] = d;
  node.result = graph->values.count;
  if (count > 0) memcpy(graph->operands.data + graph->operands.count, in, count * sizeof *in);
  graph->operands.count += count;
  graph->values.data[graph->values.count++] = value;
  graph->nodes.data[graph->nodes.count++] = node;
  *out = node.result;
  return LW_OK;
}

static lw_status append_unary(lw_graph *g, lw_op op, const lw_attr *attr, lw_value_id in,
                              const lw_shape *shape, lw_value_id *out) {
  return lw__graph_append(g, op, attr, &in, 1, LW_DTYPE_NONE, shape, out);
}

/* |v| unless it comes from a node of |op|; then that node's operand. */
static lw_value_id look_through(const lw_graph *g, lw_op op, lw_value_id v) {
  const lw_node *n = lw__producer(g, v);
  return n->op == op ? lw__operand(g, n, 0) : v;
}

/* ---- sources ----------------------------------------------------------------------------------*/

lw_status lw__graph_input(lw_graph *g, lw_dtype dtype, const lw_shape *shape, const char *name,
                          lw_value_id *out) {
  const char *copy = NULL;
  lw_attr attr = {0};
  lw_value_id v = LW_NONE;
  if (name != NULL) LW_TRY(lw__arena_strndup(&g->arena, name, strlen(name), &copy));
  LW_TRY(lw_vec_reserve(&g->inputs, 1));
  LW_TRY(lw__graph_append(g, LW_OP_INPUT, &attr, NULL, 0, dtype, shape, &v));
  lw__value(g, v)->name = copy;
  g->inputs.data[g->inputs.count++] = v;
  *out = v;
  return LW_OK;
}

lw_status lw__graph_const(lw_graph *g, lw_dtype dtype, const lw_shape *shape, const void *borrowed,
                          lw_value_id *out) {
  lw_attr attr = {0};
  int64_t numel = lw__shape_numel(shape);
  attr.constant.data = borrowed;
  attr.constant.bytes = numel < 0 ? 0 : (size_t)numel * lw_dtype_size_bytes(dtype);
  return lw__graph_append(g, LW_OP_CONST, &attr, NULL, 0, dtype, shape, out);
}

lw_status lw__graph_const_copy(lw_graph *g, lw_dtype dtype, const lw_shape *shape, const void *data,
                               lw_value_id *out) {
  int64_t numel = lw__shape_numel(shape);
  void *copy = NULL;
  if (numel > 0 && lw_dtype_size_bytes(dtype) > 0 && data != NULL) {
    LW_TRY(lw__arena_dup(&g->arena, data, (size_t)numel * lw_dtype_size_bytes(dtype), &copy));
  }
  return lw__graph_const(g, dtype, shape, copy, out);
}

lw_status lw__graph_scalar(lw_graph *g, lw_dtype dtype, double value, lw_value_id *out) {
  uint64_t bits = 0;
  lw_shape shape = {0};
  if (lw_dtype_size_bytes(dtype) > 0) lw__elem_set_f64(dtype, &bits, 0, value);
  return lw__graph_const_copy(g, dtype, &shape, &bits, out);
}

lw_status lw__graph_iota(lw_graph *g, lw_dtype dtype, const lw_shape *shape, uint32_t axis,
                         lw_value_id *out) {
  lw_attr attr = {.axis = axis};
  return lw__graph_append(g, LW_OP_IOTA, &attr, NULL, 0, dtype, shape, out);
}

/* ---- maps -------------------------------------------------------------------------------------*/

lw_status lw__graph_map(lw_graph *g, lw_fn fn, const lw_value_id *in, lw_value_id *out) {
  lw_attr attr = {.fn = fn};
  lw_shape shape = {0};
  if ((unsigned)fn >= LW_FN_COUNT || fn == LW_FN_CAST) {
    return lw__fail(g->diag, LW_STATUS_INTERNAL, lw__graph_where(g),
                    "map of no function; casts have their own constructor");
  }
  return lw__graph_append(g, LW_OP_MAP, &attr, in, lw__fn_info[fn].arity, LW_DTYPE_NONE, &shape,
                          out);
}

lw_status lw__graph_cast(lw_graph *g, lw_value_id in, lw_dtype to, lw_value_id *out) {
  lw_attr attr = {.fn = LW_FN_CAST};
  lw_shape shape = {0};
  LW_TRY(lw__graph_require_value(g, in));
  if (lw__value(g, in)->dtype == to) {
    *out = in;
    return LW_OK;
  }
  return lw__graph_append(g, LW_OP_MAP, &attr, &in, 1, to, &shape, out);
}

/* The extent of two dims under numpy's broadcasting. */
static lw_status broadcast_dim(lw_graph *g, lw_extent a, lw_extent b, lw_extent *out) {
  *out = a == 1 ? b : a;
  if (a == 1 || b == 1 || lw__extent_provably_equal(g, a, b)) return LW_OK;
  bool differ = lw__extent_relation(g, a, b) == LW_EXTENTS_DIFFER && a >= 0 && b >= 0;
  lw_text left = {0}, right = {0}, symbols = {0};
  lw__extent_print(g, a, &left);
  lw__extent_print(g, b, &right);
  lw__extent_list_symbols(g, a, NULL, &symbols);
  lw__extent_list_symbols(g, b, NULL, &symbols);
  lw_status status = differ ? LW_STATUS_MODEL_INVALID : LW_STATUS_UNSUPPORTED;
  lw__fail(g->diag, status, lw__graph_where(g), "dimensions %s and %s do not broadcast%s%s",
           lw__text_str(&left), lw__text_str(&right),
           differ ? "" : " as far as is known; needs numbers for ", lw__text_str(&symbols));
  lw__text_deinit(&left);
  lw__text_deinit(&right);
  lw__text_deinit(&symbols);
  return status;
}

/* |common| becomes the broadcast of itself and |shape|. */
static lw_status broadcast_shape(lw_graph *g, const lw_shape *shape, lw_shape *common) {
  lw_shape wide = {.rank = shape->rank > common->rank ? shape->rank : common->rank};
  for (uint32_t i = 1; i <= wide.rank; i++) { /* from the last dim on */
    lw_extent a = i <= common->rank ? common->dim[common->rank - i] : 1;
    lw_extent b = i <= shape->rank ? shape->dim[shape->rank - i] : 1;
    LW_TRY(broadcast_dim(g, a, b, &wide.dim[wide.rank - i]));
  }
  *common = wide;
  return LW_OK;
}

lw_status lw__graph_map_bc(lw_graph *g, lw_fn fn, const lw_value_id *in, lw_value_id *out) {
  lw_value_id wide[3] = {LW_NONE, LW_NONE, LW_NONE};
  lw_shape common = {0};
  uint32_t arity = (unsigned)fn < LW_FN_COUNT ? lw__fn_info[fn].arity : 0;
  for (uint32_t i = 0; i < arity; i++) {
    wide[i] = in[i]; /* |in| may lie in the graph's own array */
    LW_TRY(lw__graph_require_value(g, wide[i]));
    LW_TRY(broadcast_shape(g, &lw__value(g, wide[i])->shape, &common));
  }
  for (uint32_t i = 0; i < arity; i++) LW_TRY(lw__graph_broadcast(g, wide[i], &common, &wide[i]));
  return lw__graph_map(g, fn, wide, out);
}

/* ---- movement ---------------------------------------------------------------------------------*/

lw_status lw__graph_reshape(lw_graph *g, lw_value_id in, const lw_shape *shape, lw_value_id *out) {
  lw_attr attr = {0};
  LW_TRY(lw__graph_require_value(g, in));
  LW_TRY(require_max_rank(g, shape->rank));
  if (lw__shape_eq(g, &lw__value(g, in)->shape, shape)) {
    *out = in;
    return LW_OK;
  }
  lw_value_id source = look_through(g, LW_OP_RESHAPE, in);
  if (source != in && lw__shape_eq(g, &lw__value(g, source)->shape, shape)) {
    *out = source;
    return LW_OK;
  }
  return append_unary(g, LW_OP_RESHAPE, &attr, source, shape, out);
}

lw_status lw__graph_permute(lw_graph *g, lw_value_id in, const uint8_t *perm, lw_value_id *out) {
  LW_TRY(lw__graph_require_value(g, in));
  uint32_t rank = lw__value(g, in)->shape.rank;
  lw_attr attr = {0};
  lw_shape shape = {0};
  lw_dtype dtype = LW_DTYPE_NONE;
  memcpy(attr.perm, perm, rank);
  LW_TRY(lw__infer(g, LW_OP_PERMUTE, &attr, &in, 1, &dtype, &shape));
  const lw_node *before = lw__producer(g, in);
  if (before->op == LW_OP_PERMUTE) {
    for (uint32_t d = 0; d < rank; d++) attr.perm[d] = before->attr.perm[perm[d]];
    in = lw__operand(g, before, 0);
  }
  bool identity = true;
  for (uint32_t d = 0; d < rank; d++) identity &= attr.perm[d] == d;
  if (identity) {
    *out = in;
    return LW_OK;
  }
  return append_unary(g, LW_OP_PERMUTE, &attr, in, &shape, out);
}

lw_status lw__graph_expand(lw_graph *g, lw_value_id in, const lw_shape *shape, lw_value_id *out) {
  lw_attr attr = {0};
  LW_TRY(lw__graph_require_value(g, in));
  LW_TRY(require_max_rank(g, shape->rank));
  if (lw__shape_eq(g, &lw__value(g, in)->shape, shape)) {
    *out = in;
    return LW_OK;
  }
  return append_unary(g, LW_OP_EXPAND, &attr, in, shape, out);
}

lw_status lw__graph_broadcast(lw_graph *g, lw_value_id in, const lw_shape *shape,
                              lw_value_id *out) {
  lw_shape target = *shape, narrow = {.rank = shape->rank};
  LW_TRY(lw__graph_require_value(g, in));
  LW_TRY(require_max_rank(g, target.rank));
  const lw_shape *from = &lw__value(g, in)->shape;
  if (from->rank > target.rank) {
    return lw__fail(g->diag, LW_STATUS_MODEL_INVALID, lw__graph_where(g),
                    "broadcast of %u dimensions to %u", from->rank, target.rank);
  }
  for (uint32_t d = 0; d < target.rank; d++) {
    uint32_t missing = target.rank - from->rank;
    narrow.dim[d] = d < missing ? 1 : from->dim[d - missing];
  }
  LW_TRY(lw__graph_reshape(g, in, &narrow, &in));
  return lw__graph_expand(g, in, &target, out);
}

lw_status lw__graph_slice(lw_graph *g, lw_value_id in, const int64_t *start, const int64_t *step,
                          const lw_extent *count, lw_value_id *out) {
  LW_TRY(lw__graph_require_value(g, in));
  const lw_shape *from = &lw__value(g, in)->shape;
  lw_attr attr = {0};
  lw_shape shape = {.rank = from->rank};
  bool whole = true;
  for (uint32_t d = 0; d < from->rank; d++) {
    attr.slice.start[d] = start[d];
    attr.slice.step[d] = step[d];
    shape.dim[d] = count[d];
    whole &= start[d] == 0 && (step[d] == 1 || count[d] == 1);
    whole &=
        lw__extent_is_valid(g, count[d]) && lw__extent_provably_equal(g, count[d], from->dim[d]);
  }
  if (whole) {
    *out = in;
    return LW_OK;
  }
  return append_unary(g, LW_OP_SLICE, &attr, in, &shape, out);
}

lw_status lw__graph_pad(lw_graph *g, lw_value_id in, const int64_t *lo, const int64_t *hi,
                        lw_scalar value, lw_value_id *out) {
  LW_TRY(lw__graph_require_value(g, in));
  lw_attr attr = {.pad = {.value = value}};
  lw_shape shape = lw__value(g, in)->shape;
  bool nothing = true;
  for (uint32_t d = 0; d < shape.rank; d++) {
    int64_t both = 0;
    if (lo[d] < 0 || hi[d] < 0 || !lw__add_i64(lo[d], hi[d], &both)) {
      return lw__fail(g->diag, LW_STATUS_MODEL_INVALID, lw__graph_where(g),
                      "pad: %lld and %lld elements in dimension %u", (long long)lo[d],
                      (long long)hi[d], d);
    }
    nothing &= both == 0;
    attr.pad.lo[d] = lo[d];
    LW_TRY(lw__extent_affine(g, shape.dim[d], 1, both, &shape.dim[d]));
  }
  if (nothing) {
    *out = in;
    return LW_OK;
  }
  return append_unary(g, LW_OP_PAD, &attr, in, &shape, out);
}

lw_status lw__graph_window(lw_graph *g, lw_value_id in, uint32_t count, const uint8_t *axis,
                           const int64_t *size, const int64_t *stride, const int64_t *dilation,
                           lw_value_id *out) {
  LW_TRY(lw__graph_require_value(g, in));
  lw_attr attr = {.window = {.count = count}};
  lw_shape shape = lw__value(g, in)->shape;
  if (count == 0) {
    *out = in;
    return LW_OK;
  }
  if (count > LW_ARRAY_COUNT(attr.window.axis)) {
    return lw__fail(g->diag, LW_STATUS_UNSUPPORTED, lw__graph_where(g), "window: over %u axes",
                    count);
  }
  LW_TRY(require_max_rank(g, shape.rank + count));
  for (uint32_t i = 0; i < count; i++) {
    if (size[i] < 0) {
      return lw__fail(g->diag, LW_STATUS_MODEL_INVALID, lw__graph_where(g), "window: %lld taps",
                      (long long)size[i]);
    }
    attr.window.axis[i] = axis[i];
    attr.window.stride[i] = stride[i];
    attr.window.dilation[i] = dilation[i];
    shape.dim[shape.rank++] = size[i];
  }
  return append_unary(g, LW_OP_WINDOW, &attr, in, &shape, out);
}

lw_status lw__graph_concat(lw_graph *g, const lw_value_id *in, uint32_t count, uint32_t axis,
                           lw_value_id *out) {
  lw_attr attr = {.axis = axis};
  lw_shape shape = {0};
  lw_dtype dtype = LW_DTYPE_NONE;
  LW_TRY(lw__infer(g, LW_OP_CONCAT, &attr, in, count, &dtype, &shape));
  if (count == 1) {
    *out = in[0];
    return LW_OK;
  }
  return lw__graph_append(g, LW_OP_CONCAT, &attr, in, count, dtype, &shape, out);
}

/* ---- computation ------------------------------------------------------------------------------*/

lw_status lw__graph_reduce(lw_graph *g, lw_red red, lw_value_id in, uint32_t axes,
                           lw_value_id *out) {
  lw_attr attr = {.reduce = {.fn = red, .axes = axes}};
  lw_shape shape = {0};
  lw_dtype dtype = LW_DTYPE_NONE;
  LW_TRY(lw__infer(g, LW_OP_REDUCE, &attr, &in, 1, &dtype, &shape));
  if (axes == 0) {
    *out = in;
    return LW_OK;
  }
  return append_unary(g, LW_OP_REDUCE, &attr, in, &shape, out);
}

lw_status lw__graph_dot(lw_graph *g, lw_value_id a, lw_value_id b, lw_value_id *out) {
  lw_attr attr = {0};
  lw_shape shape = {0};
  return lw__graph_append(g, LW_OP_DOT, &attr, (lw_value_id[2]){a, b}, 2, LW_DTYPE_NONE, &shape,
                          out);
}

lw_status lw__graph_conv(lw_graph *g, lw_value_id x, lw_value_id w, const lw_conv_attr *conv,
                         lw_value_id *out) {
  lw_attr attr = {.conv = *conv};
  lw_shape shape = {0};
  return lw__graph_append(g, LW_OP_CONV, &attr, (lw_value_id[2]){x, w}, 2, LW_DTYPE_NONE, &shape,
                          out);
}

lw_status lw__graph_gather(lw_graph *g, lw_value_id data, const lw_value_id *indices,
                           uint32_t index_count, const int8_t *select, const lw_shape *result,
                           lw_value_id *out) {
  lw_value_id in[16];
  lw_attr attr = {0};
  LW_TRY(lw__graph_require_value(g, data));
  if (index_count + 1 > lw__op_info[LW_OP_GATHER].max_operands) {
    return lw__fail(g->diag, LW_STATUS_UNSUPPORTED, lw__graph_where(g), "gather: %u index tensors",
                    index_count);
  }
  in[0] = data;
  for (uint32_t i = 0; i < index_count; i++) in[1 + i] = indices[i];
  for (uint32_t d = 0; d < lw__value(g, data)->shape.rank; d++) attr.gather.select[d] = select[d];
  return lw__graph_append(g, LW_OP_GATHER, &attr, in, index_count + 1, LW_DTYPE_NONE, result, out);
}

lw_status lw__graph_output(lw_graph *g, lw_value_id value, const char *name) {
  const char *copy = NULL;
  LW_TRY(lw__graph_require_value(g, value));
  LW_TRY(lw__arena_strndup(&g->arena, name != NULL ? name : "", name != NULL ? strlen(name) : 0,
                           &copy));
  LW_TRY(lw_vec_reserve(&g->outputs, 1));
  LW_TRY(lw_vec_push(&g->output_names, copy));
  return lw_vec_push(&g->outputs, value);
}

/* fold.c: nodes of constants become constants, where that does not make the model larger than it
 * pays. Constants of equal elements become scalars that are broadcast, and stay so. */
#include <string.h>

#include "compiler/pass/rewriter.h"
#include "graph/interp.h"

/* Per value: who reads it. */
enum { FOLD_UNREAD, FOLD_FACTOR, FOLD_READ };
typedef struct fold_context {
  uint8_t *factor;
  uint32_t count;
} fold_context;

static bool bytes_all_equal(const uint8_t *data, size_t bytes, size_t size) {
  /* each element equals the one before */
  return bytes <= size || memcmp(data, data + size, bytes - size) == 0;
}

/* const of equal elements -> broadcast scalar; the scalar's data is the constant's first
 * element. */
static lw_status fold_splat(lw_rewriter *rw, const lw_node *node, lw_value_id *out) {
  lw_graph *g = rw->graph;
  lw_value value = *lw__value(g, node->result);
  size_t size = lw_dtype_size_bytes(value.dtype), bytes = node->attr.constant.bytes;
  if (value.shape.rank == 0 || bytes == 0 || !lw__shape_is_static(&value.shape)) return LW_OK;
  const void *data = node->attr.constant.data;
  if (!bytes_all_equal(data, bytes, size)) return LW_OK;
  lw_shape scalar = {0};
  LW_TRY(lw__graph_const(g, value.dtype, &scalar, data, out));
  return lw__graph_broadcast(g, *out, &value.shape, out);
}

static int64_t value_bytes(const lw_graph *g, lw_value_id v) {
  const lw_value *value = lw__value(g, v);
  int64_t numel = lw__shape_numel(&value->shape);
  return numel < 0 ? -1 : numel * (int64_t)lw_dtype_size_bytes(value->dtype);
}

/* Multiplications of a product or a convolution. */
static int64_t product_work(const lw_graph *g, const lw_node *node) {
  int64_t numel = lw__shape_numel(&lw__value(g, node->result)->shape);
  const lw_shape *w = &lw__value(g, lw__operand(g, node, 1))->shape;
  int64_t taps = node->op == LW_OP_DOT ? w->dim[w->rank - 2] : lw__shape_numel(w), work;
  return lw__mul_i64(numel, taps, &work) ? work : INT64_MAX;
}

static bool fold_pays(const lw_rewriter *rw, const lw_node *node, int64_t operand_bytes) {
  const lw_graph *g = rw->graph;
  int64_t bytes = value_bytes(g, node->result);
  int64_t numel = lw__shape_numel(&lw__value(g, node->result)->shape);
  if (bytes < 0 || numel > rw->options->fold_most_elements) return false;
  if (bytes > operand_bytes + rw->options->fold_grow_bytes) return false;
  if (node->op == LW_OP_PERMUTE && bytes > rw->options->fold_permute_bytes) return false;
  if (node->op != LW_OP_DOT && node->op != LW_OP_CONV) return true;
  return product_work(g, node) / 16 <= rw->options->fold_most_elements;
}

/* Everything known about operand |v|, or false. Broadcast scalars and counters cost nothing as they
 * are. */
static bool constant_operand(const lw_graph *g, lw_value_id v, int64_t most_elements,
                             int64_t *io_bytes, bool *io_all_splat) {
  const lw_node *node = lw__producer(g, v);
  lw_value_id root;
  int64_t numel = lw__shape_numel(&lw__value(g, v)->shape);
  if (numel < 0 || numel > most_elements) return false;
  if (node->op == LW_OP_CONST && lw__value(g, v)->shape.rank > 0) {
    *io_bytes += (int64_t)node->attr.constant.bytes;
    *io_all_splat = false;
    return true;
  }
  if (node->op == LW_OP_IOTA) {
    *io_all_splat = false;
    return true;
  }
  return lw__is_splat(g, v, &root);
}

static lw_status load_splat(const lw_graph *g, lw_value_id v, lw_arena *arena,
                            lw_host_tensor *out) {
  lw_value_id root = v;
  lw__is_splat(g, v, &root);
  size_t size = lw_dtype_size_bytes(out->dtype);
  int64_t numel = lw__shape_numel(&out->shape);
  LW_TRY(lw__arena_alloc(arena, (size_t)lw__max_i64(numel, 1), size, &out->data));
  const void *element = lw__producer(g, root)->attr.constant.data;
  for (int64_t k = 0; k < numel; k++) memcpy((char *)out->data + (size_t)k * size, element, size);
  return LW_OK;
}

static lw_status load_operand(const lw_graph *g, lw_value_id v, lw_arena *arena,
                              lw_host_tensor *out) {
  const lw_node *node = lw__producer(g, v);
  *out = (lw_host_tensor){lw__value(g, v)->dtype, lw__value(g, v)->shape, NULL};
  if (node->op == LW_OP_CONST) {
    out->data = (void *)(uintptr_t)node->attr.constant.data; /* only read */
    return LW_OK;
  }
  if (node->op == LW_OP_IOTA)
    return lw__interp_fold_node(g, lw__value(g, v)->producer, NULL, arena, out);
  return load_splat(g, v, arena, out);
}

static lw_status fold_constants(lw_rewriter *rw, lw_node_id n, lw_value_id *out) {
  lw_graph *g = rw->graph;
  lw_node node = *lw__node(g, n);
  lw_arena scratch = {0};
  lw_host_tensor *in = NULL, result = {0};
  lw_status status = lw__arena_alloc(&scratch, node.operand_count, sizeof *in, &in);
  for (uint32_t k = 0; k < node.operand_count && status == LW_OK; k++) {
    status = load_operand(g, lw__operand(g, &node, k), &scratch, &in[k]);
  }
  if (status == LW_OK) status = lw__interp_fold_node(g, n, in, &g->arena, &result);
  lw__arena_deinit(&scratch);
  if (status != LW_OK) return status;
  return lw__graph_const(g, result.dtype, &result.shape, result.data, out);
}

/* A cast that widens a 16-bit constant for products and convolutions alone. */
static bool is_narrow_factor(const lw_rewriter *rw, const lw_node *node) {
  const fold_context *c = rw->context;
  const lw_graph *g = rw->graph;
  if (node->op != LW_OP_MAP || node->attr.fn != LW_FN_CAST || node->result >= c->count)
    return false;
  lw_dtype from = lw__value(g, lw__operand(g, node, 0))->dtype;
  return (from == LW_DTYPE_F16 || from == LW_DTYPE_BF16) &&
         lw__value(g, node->result)->dtype == LW_DTYPE_F32 &&
         c->factor[node->result] == FOLD_FACTOR;
}

static lw_status fold_node(lw_rewriter *rw, lw_node_id n, lw_value_id *out) {
  lw_graph *g = rw->graph;
  lw_node node = *lw__node(g, n);
  if (is_narrow_factor(rw, &node)) return LW_OK;
  if (node.op == LW_OP_CONST) return fold_splat(rw, &node, out);
  if (node.operand_count == 0 || node.op == LW_OP_EXPAND) return LW_OK;
  int64_t bytes = 0;
  bool all_splat = true;
  for (uint32_t k = 0; k < node.operand_count; k++) {
    lw_value_id operand = lw__operand(g, &node, k);
    if (!constant_operand(g, operand, rw->options->fold_most_elements, &bytes, &all_splat)) {
      return LW_OK;
    }
  }
  lw_value value = *lw__value(g, node.result);
  if (node.op == LW_OP_RESHAPE) { /* another view of the same bytes */
    const lw_node *source = lw__producer(g, lw__operand(g, &node, 0));
    if (all_splat || source->op != LW_OP_CONST || !lw__shape_is_static(&value.shape)) return LW_OK;
    return lw__graph_const(g, value.dtype, &value.shape, source->attr.constant.data, out);
  }
  /* Splats stay splats: canon and move bring them to rank 0 first. */
  bool keeps_splat = node.op == LW_OP_MAP || lw__op_info[node.op].kind == LW_KIND_MOVE;
  if (all_splat && keeps_splat && value.shape.rank > 0 && node.op != LW_OP_PAD &&
      node.op != LW_OP_CONCAT) {
    return LW_OK;
  }
  return fold_pays(rw, &node, bytes) ? fold_constants(rw, n, out) : LW_OK;
}

static void find_factors(const lw_graph *g, fold_context *c) {
  memset(c->factor, FOLD_UNREAD, c->count);
  for (lw_node_id n = 0; n < g->nodes.count; n++) {
    const lw_node *node = lw__node(g, n);
    if (node->dead) continue;
    bool product = node->op == LW_OP_DOT || node->op == LW_OP_CONV;
    for (uint32_t k = 0; k < node->operand_count; k++) {
      uint8_t *factor = &c->factor[lw__operand(g, node, k)];
      *factor = product && *factor != FOLD_READ ? FOLD_FACTOR : FOLD_READ;
    }
  }
  for (uint32_t i = 0; i < g->outputs.count; i++) c->factor[g->outputs.data[i]] = FOLD_READ;
}

lw_status lw__pass_fold(lw_graph *graph, const lw_pass_options *options, lw_diag *diag,
                        bool *out_changed) {
  fold_context context = {0};
  void *memory = NULL;
  if (options->narrow_factors) {
    LW_TRY(lw__mem_resize(&memory, graph->values.count + 1u));
    context = (fold_context){memory, graph->values.count};
    find_factors(graph, &context);
  }
  lw_status status = lw__rewrite(graph, options, diag, fold_node, &context, out_changed);
  lw__mem_free(memory);
  return status;
}

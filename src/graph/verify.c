/* verify.c: the invariants of graph.h, each checked once, in linear time. */
#include <string.h>

#include "graph/infer.h"

typedef struct verifier {
  const lw_graph *g;
  lw_graph scratch;  /* |g| with a table of extents that inference may add to */
  lw_diag why;       /* what inference said */
  lw_diag *diag;     /* where violations go */
  uint8_t *is_input; /* per value: listed in g->inputs */
} verifier;

static lw_status violation(const verifier *v, const char *fmt, ...) LW_PRINTF(2, 3);
static lw_status violation(const verifier *v, const char *fmt, ...) {
  lw_text text = {0};
  va_list args;
  va_start(args, fmt);
  lw__text_vadd(&text, fmt, args);
  va_end(args);
  const char *where = lw__graph_where(v->g);
  lw__fail(v->diag, LW_STATUS_INTERNAL, where, "graph: %s", lw__text_str(&text));
  lw__text_deinit(&text);
  return LW_STATUS_INTERNAL;
}

/* ---- extents ----------------------------------------------------------------------------------*/

static bool earlier(lw_extent operand, bool is_literal, uint32_t than) {
  return is_literal || (operand < 0 && (uint64_t)~operand < than);
}

static lw_status verify_extents(const verifier *v) {
  const lw_extent_table *t = &v->g->extents;
  for (uint32_t i = 0; i < t->nodes.count; i++) {
    const lw_extent_node *n = &t->nodes.data[i];
    if (n->op == LW_EXTENT_SYMBOL) {
      if (n->symbol == NULL) return violation(v, "extent %u: symbol without a name", i);
    } else if (!earlier(n->a, n->a_is_literal, i) || !earlier(n->b, n->b_is_literal, i)) {
      return violation(v, "extent %u: operand is no earlier extent", i);
    }
    if (n->lo > n->hi || n->divisor < 1)
      return violation(v, "extent %u: impossible range or divisor", i);
  }
  return LW_OK;
}

/* ---- values -----------------------------------------------------------------------------------*/

static bool is_permutation(const uint8_t *order, uint32_t rank) {
  uint32_t seen = 0;
  for (uint32_t d = 0; d < rank; d++) {
    if (order[d] >= rank) return false;
    seen |= 1u << order[d];
  }
  return seen == (1u << rank) - 1;
}

static lw_status verify_value(const verifier *v, lw_value_id id) {
  const lw_value *value = lw__value(v->g, id);
  if (value->dtype <= LW_DTYPE_NONE || value->dtype >= LW_DTYPE_COUNT)
    return violation(v, "value %u: no type", id);
  if (value->shape.rank > LW_MAX_RANK)
    return violation(v, "value %u: rank %u", id, value->shape.rank);
  for (uint32_t d = 0; d < value->shape.rank; d++) {
    if (!lw__extent_is_valid(v->g, value->shape.dim[d]))
      return violation(v, "value %u: dim %u is no extent", id, d);
  }
  if (!is_permutation(value->storage.order, value->shape.rank)) {
    return violation(v, "value %u: storage order is no permutation", id);
  }
  if (value->producer >= v->g->nodes.count || lw__node(v->g, value->producer)->result != id) {
    return violation(v, "value %u: its producer has another result", id);
  }
  return LW_OK;
}

/* ---- nodes ------------------------------------------------------------------------------------*/

static lw_status verify_operands(const verifier *v, lw_node_id id, const lw_node *node) {
  if ((uint64_t)node->operand_begin + node->operand_count > v->g->operands.count) {
    return violation(v, "node %u: operands out of range", id);
  }
  for (uint32_t i = 0; i < node->operand_count; i++) {
    lw_value_id in = lw__operand(v->g, node, i);
    if (in >= v->g->values.count) return violation(v, "node %u: operand %u is no value", id, i);
    if (node->dead) continue;
    lw_node_id from = lw__value(v->g, in)->producer;
    if (from >= id)
      return violation(v, "node %u: operand %u (value %u) is computed later", id, i, in);
    if (lw__node(v->g, from)->dead)
      return violation(v, "node %u: operand %u comes from a dead node", id, i);
  }
  return LW_OK;
}

static lw_status verify_inference(verifier *v, lw_node_id id, const lw_node *node) {
  const lw_value *value = lw__value(v->g, node->result);
  lw_shape shape = value->shape;
  lw_dtype dtype = value->dtype;
  const lw_value_id *operands = /* a graph without operands has no array of them */
      node->operand_count ? v->g->operands.data + node->operand_begin : NULL;
  lw_status status =
      lw__infer(&v->scratch, node->op, &node->attr, operands, node->operand_count, &dtype, &shape);
  if (status == LW_STATUS_OUT_OF_MEMORY) return status;
  if (status != LW_OK) return violation(v, "node %u: %s", id, lw__diag_first_error(&v->why));
  if (dtype != value->dtype) {
    return violation(v, "node %u (%s): its result is %s but should be %s", id,
                     lw__op_info[node->op].name, lw_dtype_name(value->dtype), lw_dtype_name(dtype));
  }
  if (lw__shape_eq(&v->scratch, &shape, &value->shape)) return LW_OK;
  lw_text is = {0}, should = {0};
  lw__shape_print(&v->scratch, &value->shape, &is);
  lw__shape_print(&v->scratch, &shape, &should);
  status = violation(v, "node %u (%s): the shape of its result is %s but should be %s", id,
                     lw__op_info[node->op].name, lw__text_str(&is), lw__text_str(&should));
  lw__text_deinit(&is);
  lw__text_deinit(&should);
  return status;
}

static lw_status verify_node(verifier *v, lw_node_id id) {
  const lw_node *node = lw__node(v->g, id);
  if ((unsigned)node->op >= LW_OP_COUNT) return violation(v, "node %u: no such operator", id);
  if (node->result >= v->g->values.count || lw__value(v->g, node->result)->producer != id) {
    return violation(v, "node %u: its result has another producer", id);
  }
  LW_TRY(verify_operands(v, id, node));
  if (node->dead) return LW_OK;
  if (node->op == LW_OP_INPUT && !v->is_input[node->result]) {
    return violation(v, "node %u: an input that is not listed", id);
  }
  return verify_inference(v, id, node);
}

/* ---- the interface of the graph ---------------------------------------------------------------*/

static lw_status verify_inputs(const verifier *v) {
  for (uint32_t i = 0; i < v->g->inputs.count; i++) {
    lw_value_id id = v->g->inputs.data[i];
    if (id >= v->g->values.count) return violation(v, "input %u is no value", i);
    const lw_node *node = lw__producer(v->g, id);
    if (node->op != LW_OP_INPUT || node->dead)
      return violation(v, "input %u comes from no living input node", i);
    if (v->is_input[id]) return violation(v, "input %u is listed twice", i);
    v->is_input[id] = 1;
  }
  return LW_OK;
}

static lw_status verify_outputs(const verifier *v) {
  const lw_graph *g = v->g;
  if (g->outputs.count != g->output_names.count) {
    return violation(v, "%u outputs, %u names", g->outputs.count, g->output_names.count);
  }
  for (uint32_t i = 0; i < g->outputs.count; i++) {
    if (g->outputs.data[i] >= g->values.count) return violation(v, "output %u is no value", i);
    if (lw__producer(g, g->outputs.data[i])->dead)
      return violation(v, "output %u comes from a dead node", i);
    if (g->output_names.data[i] == NULL) return violation(v, "output %u has no name", i);
  }
  return LW_OK;
}

static lw_status verify_everything(verifier *v) {
  LW_TRY(verify_extents(v));
  for (lw_value_id id = 0; id < v->g->values.count; id++) LW_TRY(verify_value(v, id));
  LW_TRY(verify_inputs(v));
  LW_TRY(verify_outputs(v));
  for (lw_node_id id = 0; id < v->g->nodes.count; id++) LW_TRY(verify_node(v, id));
  return LW_OK;
}

static lw_status copy_extents(const lw_extent_table *from, lw_extent_table *out) {
  memset(out, 0, sizeof *out);
  if (from->index_size == 0) return LW_OK;
  void *index = NULL;
  LW_TRY(lw_vec_reserve(&out->nodes, from->nodes.count));
  if (from->nodes.count > 0) {
    memcpy(out->nodes.data, from->nodes.data, from->nodes.count * sizeof *from->nodes.data);
  }
  out->nodes.count = from->nodes.count;
  LW_TRY(lw__mem_resize(&index, from->index_size * sizeof *from->index));
  memcpy(index, from->index, from->index_size * sizeof *from->index);
  out->index = index;
  out->index_size = from->index_size;
  return LW_OK;
}

lw_status lw__graph_verify(const lw_graph *graph, lw_diag *diag) {
  verifier v = {.g = graph, .diag = diag};
  void *is_input = NULL;
  memcpy(&v.scratch, graph, sizeof *graph);
  v.scratch.diag = &v.why;
  lw_status status = copy_extents(&graph->extents, &v.scratch.extents);
  if (status == LW_OK) status = lw__mem_resize(&is_input, (size_t)graph->values.count + 1);
  if (status == LW_OK) {
    memset(is_input, 0, (size_t)graph->values.count + 1);
    v.is_input = is_input;
    status = verify_everything(&v);
  }
  lw__mem_free(is_input);
  lw__extent_table_deinit(&v.scratch.extents);
  lw__diag_deinit(&v.why);
  return status;
}

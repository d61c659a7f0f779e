/* import.c: the way from a file to a graph: names, nodes in order, branches and functions put in
 * place, results. */
#include "compiler/onnx/import.h"

#include <string.h>

#include "compiler/onnx/import_internal.h"

const lw_import_limits lw__import_default_limits = {.nodes = 4000000,
                                                    .table_elements = INT64_C(1) << 24};

/* Newest version of the default operator set whose operators were looked at. */
#define IMPORT_OPSET_KNOWN 27

/* ---- names ----------------------------------------------------------------------------------*/

lw_binding *lw__import_lookup(lw_import *im, lw_str name) {
  for (const lw_scope *scope = im->scope; scope != NULL; scope = scope->outer) {
    uint32_t index = lw__map_get(&scope->names, name);
    if (index != LW_NONE) return &im->bindings.data[index];
  }
  return NULL;
}

lw_status lw__import_define(lw_import *im, lw_str name, lw_binding binding) {
  bool added;
  uint32_t index = im->bindings.count;
  LW_TRY(lw_vec_push(&im->bindings, binding));
  LW_TRY(lw__map_put(&im->scope->names, name, index, &added, NULL));
  if (added) return LW_OK;
  return lw__fail(im->diag, LW_STATUS_MODEL_INVALID, im->graph->where, "'%.*s' is defined twice",
                  lw__import_len(name), name.ptr);
}

lw_status lw__import_set_where(lw_import *im, const char *what, lw_str name, lw_str kind) {
  lw__text_clear(&im->where);
  lw__text_add(&im->where, "%s: %s '%.*s'", im->file, what, lw__import_len(name), name.ptr);
  if (kind.len != 0) lw__text_add(&im->where, " (%.*s)", lw__import_len(kind), kind.ptr);
  for (size_t i = 0; i < im->where.len; i++) {
    if ((unsigned char)im->where.data[i] < 0x20) im->where.data[i] = '?';
  }
  im->graph->where = lw__text_str(&im->where);
  return im->where.status;
}

/* The name as a C string of the graph; NUL bytes cut it. */
static lw_status import_graph_name(lw_import *im, lw_str name, const char **out) {
  return lw__arena_strndup(&im->graph->arena, name.ptr, name.len, out);
}

static lw_status import_name_value(lw_import *im, lw_value_id id, lw_str name) {
  lw_value *value = lw__value(im->graph, id);
  return value->name != NULL ? LW_OK : import_graph_name(im, name, &value->name);
}

/* ---- findings -------------------------------------------------------------------------------*/

lw_status lw__import_finding(lw_import *im, lw_str name, lw_str domain, int64_t opset, lw_str node,
                             const char *reason) {
  for (uint32_t i = 0; i < im->findings.count && i < 256; i++) {
    lw_import_finding *f = &im->findings.data[i];
    if (f->opset != opset || !lw__str_eq(f->name, name) || !lw__str_eq(f->domain, domain)) continue;
    if (strcmp(f->reason, reason) != 0) continue;
    f->count++;
    return LW_OK;
  }
  return lw_vec_push(&im->findings, (lw_import_finding){name, domain, node, opset, reason, 1});
}

static lw_status import_report(lw_import *im) {
  enum { LINES = 64 };
  lw_text text = {0};
  lw__text_add(&text, "not supported:");
  for (uint32_t i = 0; i < im->findings.count && i < LINES; i++) {
    const lw_import_finding *f = &im->findings.data[i];
    lw_str domain = f->domain.len == 0 ? lw__str_of("ai.onnx") : f->domain;
    lw__text_add(&text, "\n  %.*s (%.*s opset %lld)", lw__import_len(f->name), f->name.ptr,
                 lw__import_len(domain), domain.ptr, (long long)f->opset);
    if (f->node.len != 0)
      lw__text_add(&text, ", node '%.*s'", lw__import_len(f->node), f->node.ptr);
    if (f->count > 1) lw__text_add(&text, " and %u more", f->count - 1);
    lw__text_add(&text, ": %s", f->reason);
  }
  if (im->findings.count > LINES)
    lw__text_add(&text, "\n  and %u more", im->findings.count - LINES);
  lw_status status = lw__fail(im->diag, LW_STATUS_UNSUPPORTED, im->file, "%s", lw__text_str(&text));
  if (text.status != LW_OK) status = text.status;
  lw__text_deinit(&text);
  return status;
}

/* ---- carried types --------------------------------------------------------------------------*/

int32_t lw__call_carried(const lw_call *c, lw_value_id value) {
  return value < c->im->carried.count ? c->im->carried.data[value] : 0;
}

lw_status lw__import_carry(lw_import *im, lw_value_id value, int32_t proto_type) {
  while (proto_type != 0 && im->carried.count <= value) LW_TRY(lw_vec_push(&im->carried, 0));
  if (proto_type != 0) im->carried.data[value] = (uint8_t)proto_type;
  return LW_OK;
}

void lw__call_carry(lw_call *c, lw_value_id value, int32_t proto_type) {
  if (lw__call_ok(c)) (void)lw__call_keep(c, lw__import_carry(c->im, value, proto_type));
}

/* What output |value| carries: what the operator said, else what an operand of its type does. */
static int32_t import_carries(const lw_call *c, lw_value_id value) {
  int32_t own = lw__call_carried(c, value);
  if (own != 0 || c->plain || c->im->carried.count == 0) return own;
  for (uint32_t k = 0; k < c->in_count; k++) {
    int32_t type = c->in[k] == LW_NONE ? 0 : lw__call_carried(c, c->in[k]);
    if (type != 0 && lw__tensor_dtype(type) == lw__value(c->graph, value)->dtype) return type;
  }
  return 0;
}

/* ---- constants ------------------------------------------------------------------------------*/

static lw_status import_tensor_value(lw_import *im, const lw_proto_tensor *proto, lw_str what,
                                     lw_binding *out) {
  lw_tensor tensor;
  const char *reason;
  out->kind = LW_BINDING_POISON;
  const char *node_where = im->graph->where;
  const char *where;
  LW_TRY(lw__arena_printf(&im->arena, &where, "%s: tensor '%.*s'", im->file,
                          lw__import_len(proto->name), proto->name.ptr));
  lw_status status = lw__tensor_load(&im->files, proto, where, &reason, &tensor);
  if (status == LW_STATUS_UNSUPPORTED) {
    return lw__import_finding(im, what, (lw_str){0}, 0, proto->name, reason);
  }
  LW_TRY(status);
  im->graph->where = where;
  status = lw__graph_const(im->graph, tensor.dtype, &tensor.shape, tensor.data, &out->value);
  im->graph->where = node_where;
  LW_TRY(status);
  out->kind = LW_BINDING_VALUE;
  if (lw__tensor_is_carried(proto->data_type))
    LW_TRY(lw__import_carry(im, out->value, proto->data_type));
  if (proto->name.len == 0) return LW_OK;
  LW_TRY(import_name_value(im, out->value, proto->name));
  lw__producer(im->graph, out->value)->name = lw__value(im->graph, out->value)->name;
  return LW_OK;
}

lw_value_id lw__call_tensor(lw_call *c, const lw_proto_tensor *tensor) {
  lw_binding binding = {.value = LW_NONE};
  if (!lw__call_ok(c)) return LW_NONE;
  if (!lw__call_keep(c, import_tensor_value(c->im, tensor, c->proto->op_type, &binding)))
    return LW_NONE;
  if (binding.kind == LW_BINDING_VALUE) return binding.value;
  (void)lw__call_keep(c, LW_STATUS_UNSUPPORTED);
  return LW_NONE;
}

/* The value behind a binding; an initializer becomes a constant when it is first asked for. */
lw_status lw__import_force(lw_import *im, lw_binding *binding) {
  if (binding->kind != LW_BINDING_TENSOR) return LW_OK;
  return import_tensor_value(im, binding->tensor, lw__str_of("(initializer)"), binding);
}

/* ---- one node -------------------------------------------------------------------------------*/

static int64_t import_find_opset(const lw_proto_opsets *opsets, lw_str domain) {
  for (uint32_t i = 0; i < opsets->count; i++) {
    lw_str other = opsets->data[i].domain;
    bool same =
        lw__import_is_default(domain) ? lw__import_is_default(other) : lw__str_eq(domain, other);
    if (same) return opsets->data[i].version;
  }
  return 0;
}

/* 0: the domain is not imported. */
static int64_t import_opset(const lw_import *im, lw_str domain) {
  int64_t version = 0;
  if (im->frame != NULL) version = import_find_opset(&im->frame->function->opsets, domain);
  return version != 0 ? version : import_find_opset(&im->model.opsets, domain);
}

static bool lw__import_defines_later(const lw_import *im, lw_str name, const lw_proto_node *after,
                                     const lw_proto_node *end) {
  (void)im;
  for (const lw_proto_node *node = after; node < end; node++) {
    for (uint32_t i = 0; i < node->outputs.count; i++) {
      if (lw__str_eq(node->outputs.data[i], name)) return true;
    }
  }
  return false;
}

static lw_status import_inputs(lw_import *im, lw_import_node *node) {
  const lw_proto_strings *names = &node->proto->inputs;
  LW_TRY(lw__arena_alloc(&im->arena, names->count, sizeof *node->in, &node->in));
  for (uint32_t i = 0; i < names->count; i++) {
    node->in[i] = LW_NONE;
    if (names->data[i].len == 0) continue;
    lw_binding *binding = lw__import_lookup(im, names->data[i]);
    if (binding == NULL) {
      bool later = lw__import_defines_later(im, names->data[i], node->proto, node->end);
      return lw__fail(
          im->diag, LW_STATUS_MODEL_INVALID, im->graph->where, "its input '%.*s' is %s",
          lw__import_len(names->data[i]), names->data[i].ptr,
          later ? "computed only later: the nodes are out of order, or in a cycle" : "not defined");
    }
    uint32_t index = (uint32_t)(binding - im->bindings.data);
    lw_binding forced = *binding;
    LW_TRY(lw__import_force(im, &forced));
    im->bindings.data[index] = forced;
    node->poisoned |= forced.kind == LW_BINDING_POISON;
    if (forced.kind == LW_BINDING_VALUE) {
      node->in[i] = forced.value;
      node->in_count = i + 1;
    }
  }
  return LW_OK;
}

static lw_status import_poison_outputs(lw_import *im, const lw_proto_node *proto) {
  for (uint32_t i = 0; i < proto->outputs.count; i++) {
    if (proto->outputs.data[i].len == 0) continue;
    LW_TRY(lw__import_define(im, proto->outputs.data[i], (lw_binding){.kind = LW_BINDING_POISON}));
  }
  return LW_OK;
}

/* New graph nodes carry the name of the ONNX node that they came from. */
static lw_status import_name_nodes(lw_import *im, const lw_proto_node *proto, uint32_t first) {
  if (first == im->graph->nodes.count) return LW_OK;
  const char *name;
  if (proto->name.len != 0) {
    LW_TRY(import_graph_name(im, proto->name, &name));
  } else {
    LW_TRY(lw__arena_printf(&im->graph->arena, &name, "%.*s_%llu", lw__import_len(proto->op_type),
                            proto->op_type.ptr, (unsigned long long)im->nodes_read - 1));
  }
  for (uint32_t n = first; n < im->graph->nodes.count; n++) {
    if (lw__node(im->graph, n)->op != LW_OP_INPUT) lw__node(im->graph, n)->name = name;
  }
  return LW_OK;
}

/* A small result whose elements are all numbers becomes a constant: nothing of its computation
 * stays. */
static lw_status import_settle(lw_import *im, lw_value_id *value) {
  lw_shape shape = lw__value(im->graph, *value)->shape;
  lw_dtype dtype = lw__value(im->graph, *value)->dtype;
  int64_t count = lw__shape_numel(&shape);
  lw_op op = lw__producer(im->graph, *value)->op;
  if (op == LW_OP_CONST || op == LW_OP_INPUT || count < 0 || count > LW_CONTENT_MAX) return LW_OK;
  _Alignas(16) uint8_t bytes[LW_CONTENT_MAX * 8];
  for (int64_t i = 0; i < count; i++) {
    lw_content_elem e;
    if (!lw__contents_get(&im->contents, *value, i, &e) || e.kind != LW_CONTENT_NUMBER)
      return LW_OK;
    if (lw__dtype_is_float(dtype))
      lw__elem_set_f64(dtype, bytes, i, e.value.f);
    else
      lw__elem_set_i64(dtype, bytes, i, e.value.i);
  }
  if (!lw__contents_has(&im->contents, *value)) return LW_OK;
  return lw__graph_const_copy(im->graph, dtype, &shape, bytes, value);
}

static lw_status import_check_result(lw_import *im, lw_value_id value) {
  const lw_shape *shape = &lw__value(im->graph, value)->shape;
  if (lw__shape_is_static(shape) && lw__shape_numel(shape) < 0) {
    return lw__fail(im->diag, LW_STATUS_MODEL_INVALID, im->graph->where,
                    "the result has too many elements");
  }
  return LW_OK;
}

static lw_status import_outputs(lw_import *im, lw_call *c) {
  for (uint32_t i = 0; i < c->proto->outputs.count; i++) {
    lw_str name = c->proto->outputs.data[i];
    if (name.len == 0) continue;
    if (i < c->out_count && c->out[i] == LW_IMPORT_ABSENT) {
      LW_TRY(lw__import_define(im, name, (lw_binding){.kind = LW_BINDING_ABSENT}));
      continue;
    }
    if (i >= c->out_count || c->out[i] == LW_NONE) {
      return lw__fail(im->diag, LW_STATUS_MODEL_INVALID, im->graph->where,
                      "the operator has no output %u", i);
    }
    LW_TRY(import_check_result(im, c->out[i]));
    int32_t carries = import_carries(c, c->out[i]);
    const lw_bound *bound = lw__import_bound(im, c->out[i]);
    if (bound == NULL)
      LW_TRY(import_settle(im, &c->out[i])); /* its size is not that of its shape */
    LW_TRY(lw__import_carry(im, c->out[i], carries));
    LW_TRY(import_name_value(im, c->out[i], name));
    LW_TRY(lw__import_define(im, name, (lw_binding){LW_BINDING_VALUE, c->out[i], NULL}));
  }
  return LW_OK;
}

static void import_check_attrs(lw_call *c) {
  for (uint32_t i = 0; i < c->proto->attrs.count && i < 64; i++) {
    const lw_proto_attr *attr = &c->proto->attrs.data[i];
    if (c->attrs_read >> i & 1) continue;
    lw__call_unsupported(c, "attribute '%.*s'", lw__import_len(attr->name), attr->name.ptr);
  }
}

/* A stand-in for a sequence must not be computed with. */
static void import_check_sequences(lw_call *c) {
  if (c->im->sequences.count == 0 || c->op->arg == LW_TAKES_SEQUENCES) return;
  for (uint32_t i = 0; i < c->in_count; i++) {
    if (c->in[i] == LW_NONE || lw__import_sequence(c->im, c->in[i]) == NULL) continue;
    lw__call_invalid(c, "its input %u is a sequence", i);
  }
}

static void import_check_counts(lw_call *c) {
  const lw_operator *op = c->op;
  uint32_t given = c->proto->inputs.count;
  for (uint32_t i = 0; i < op->min_in && c->status == LW_OK; i++) {
    if (i >= given)
      lw__call_invalid(c, "it has %u inputs and needs %u", given, op->min_in);
    else if (i >= c->in_count || c->in[i] == LW_NONE)
      lw__call_invalid(c, "its input %u is missing", i);
  }
  if (given > op->max_in) lw__call_invalid(c, "it has %u inputs, more than %u", given, op->max_in);
  if (c->proto->outputs.count > op->max_out) {
    lw__call_invalid(c, "it has %u outputs, more than %u", c->proto->outputs.count, op->max_out);
  }
}

static lw_status import_operator(lw_import *im, const lw_import_node *node, const lw_operator *op,
                                 int64_t opset) {
  lw_call c = {.im = im,
               .graph = im->graph,
               .proto = node->proto,
               .op = op,
               .opset = opset,
               .in_count = node->in_count,
               .in = node->in,
               .out_count = node->proto->outputs.count};
  uint32_t first = im->graph->nodes.count;
  LW_TRY(lw__arena_alloc(&im->arena, c.out_count, sizeof *c.out, &c.out));
  for (uint32_t i = 0; i < c.out_count; i++) c.out[i] = LW_NONE;
  import_check_counts(&c);
  import_check_sequences(&c);
  if (c.status == LW_OK) op->fn(&c);
  if (c.status == LW_OK) lw__call_carry_bounds(&c, first);
  if (c.status == LW_OK) import_check_attrs(&c);
  if (c.status == LW_STATUS_UNSUPPORTED) return import_poison_outputs(im, node->proto);
  LW_TRY(c.status);
  LW_TRY(lw__contents_update(&im->contents));
  LW_TRY(import_outputs(im, &c));
  return import_name_nodes(im, node->proto, first);
}

/* Names that a graph defines for its initializers; graph inputs that have one are constants. */
lw_status lw__import_initializers(lw_import *im, const lw_proto_graph *graph) {
  for (uint32_t i = 0; i < graph->initializers.count; i++) {
    const lw_proto_tensor *tensor = &graph->initializers.data[i];
    if (tensor->name.len == 0) continue;
    LW_TRY(lw__import_define(im, tensor->name, (lw_binding){LW_BINDING_TENSOR, LW_NONE, tensor}));
  }
  if (graph->sparse_initializer_count != 0) {
    LW_TRY(lw__import_finding(im, lw__str_of("(sparse initializer)"), (lw_str){0}, 0, (lw_str){0},
                              "sparse tensors"));
  }
  return LW_OK;
}

/* ---- the node list --------------------------------------------------------------------------*/

static lw_status import_unknown(lw_import *im, const lw_import_node *node, int64_t opset) {
  const lw_proto_node *proto = node->proto;
  const char *reason = "unknown operator";
  if (!lw__import_is_default(proto->domain)) reason = "operator of another domain";
  LW_TRY(lw__import_finding(im, proto->op_type, proto->domain, opset, proto->name, reason));
  return import_poison_outputs(im, proto);
}

static lw_status import_old(lw_import *im, const lw_import_node *node, const lw_operator *op,
                            int64_t opset) {
  const char *reason;
  LW_TRY(lw__arena_printf(&im->arena, &reason, "versions before opset %lld",
                          (long long)lw__operator_first(op)));
  LW_TRY(lw__import_finding(im, node->proto->op_type, node->proto->domain, opset, node->proto->name,
                            reason));
  return import_poison_outputs(im, node->proto);
}

static lw_status import_node(lw_import *im, const lw_proto_node *proto, const lw_proto_node *end) {
  lw_import_node node = {.proto = proto, .end = end};
  im->nodes_read++;
  LW_TRY(lw__import_set_where(im, "node", proto->name, proto->op_type));
  if (im->graph->nodes.count > im->limits.nodes || im->nodes_read > im->limits.nodes) {
    return lw__fail(im->diag, LW_STATUS_UNSUPPORTED, im->graph->where,
                    "the model unfolds into more than %u operations", im->limits.nodes);
  }
  if (proto->op_type.len == 0) {
    return lw__fail(im->diag, LW_STATUS_MODEL_INVALID, im->graph->where,
                    "a node without an operator");
  }
  const lw_proto_function *function;
  LW_TRY(lw__import_find_function(im, proto, &function));
  const lw_operator *op =
      function != NULL ? NULL : lw__operator_find(proto->domain, proto->op_type);
  int64_t opset = import_opset(im, proto->domain);
  if (opset == 0 && lw__import_is_default(proto->domain)) {
    return lw__fail(im->diag, LW_STATUS_MODEL_INVALID, im->graph->where,
                    "the model does not say which version of the ONNX operators it uses");
  }
  if (opset == 0) opset = 1;
  LW_TRY(import_inputs(im, &node));
  if (function == NULL && op == NULL) return import_unknown(im, &node, opset);
  if (function == NULL && opset < lw__operator_first(op)) return import_old(im, &node, op, opset);
  if (node.poisoned) return import_poison_outputs(im, proto);
  return function != NULL ? lw__import_function(im, &node, function)
                          : import_operator(im, &node, op, opset);
}

lw_status lw__import_nodes(lw_import *im, const lw_proto_node *nodes, uint32_t count) {
  for (uint32_t i = 0; i < count; i++) LW_TRY(import_node(im, &nodes[i], nodes + count));
  return LW_OK;
}

/* ---- the main graph -------------------------------------------------------------------------*/

/* A placeholder that is still computed with holds symbols where the device needs numbers. */
static lw_status import_check_placeholders(lw_import *im) {
  const lw_graph *graph = im->graph;
  if (im->placeholders.count == 0) return LW_OK;
  uint8_t *live;
  LW_TRY(lw__arena_alloc(&im->arena, graph->values.count, 1, &live));
  for (uint32_t i = 0; i < graph->outputs.count; i++) live[graph->outputs.data[i]] = 1;
  for (uint32_t n = graph->nodes.count; n-- > 0;) {
    const lw_node *node = lw__node(graph, n);
    if (!live[node->result]) continue;
    for (uint32_t k = 0; k < node->operand_count; k++) live[lw__operand(graph, node, k)] = 1;
  }
  for (uint32_t i = 0; i < im->placeholders.count; i++) {
    if (!live[im->placeholders.data[i]]) continue;
    lw_text symbols = {0};
    lw__import_list_symbols(graph, &symbols);
    const lw_node *node = lw__producer(graph, im->placeholders.data[i]);
    lw_status status =
        lw__fail(im->diag, LW_STATUS_USAGE, im->file,
                 "node '%s' computes with a shape that is symbolic: give numbers with %s",
                 node->name == NULL ? "" : node->name, lw__text_str(&symbols));
    lw__text_deinit(&symbols);
    return status;
  }
  return LW_OK;
}

static lw_status import_graph(lw_import *im) {
  const lw_proto_graph *graph = &im->model.graph;
  LW_TRY(lw__import_set_where(im, "graph", graph->name, (lw_str){0}));
  LW_TRY(lw__import_initializers(im, graph));
  LW_TRY(lw__import_bind_options(im));
  for (uint32_t i = 0; i < graph->inputs.count; i++)
    LW_TRY(lw__import_input(im, &graph->inputs.data[i]));
  LW_TRY(lw__import_check_options(im));
  LW_TRY(lw__import_nodes(im, graph->nodes.data, graph->nodes.count));
  for (uint32_t i = 0; i < graph->outputs.count; i++)
    LW_TRY(lw__import_output(im, &graph->outputs.data[i]));
  LW_TRY(lw__import_count_outputs(im));
  if (im->findings.count != 0) return import_report(im);
  if (graph->outputs.count == 0) {
    return lw__fail(im->diag, LW_STATUS_MODEL_INVALID, im->file, "the graph has no outputs");
  }
  LW_TRY(import_check_placeholders(im));
  im->graph->where = im->file;
  return lw__graph_compact(im->graph);
}

lw_status lw__import_run(lw_import *im, lw_str bytes) {
  lw_scope scope = {0};
  im->scope = &scope;
  im->files.graph = im->graph;
  im->contents.graph = im->graph;
  im->contents.arena = &im->arena;
  im->graph->where = im->file;
  lw_status status = lw__proto_read_model(bytes, im->file, &im->arena, im->diag, &im->model);
  if (status == LW_OK && !im->model.has_graph) {
    status =
        lw__fail(im->diag, LW_STATUS_MODEL_INVALID, im->file, "not an ONNX model: it has no graph");
  }
  if (status == LW_OK && import_find_opset(&im->model.opsets, (lw_str){0}) > IMPORT_OPSET_KNOWN) {
    lw__note(im->diag, LW_SEVERITY_WARNING, im->file,
             "the model uses ONNX operators of version %lld, newer than %d",
             (long long)import_find_opset(&im->model.opsets, (lw_str){0}), IMPORT_OPSET_KNOWN);
  }
  if (status == LW_OK) status = lw__import_index_functions(im);
  if (status == LW_OK) status = import_graph(im);
  lw__map_deinit(&scope.names);
  im->scope = NULL;
  im->graph->where = NULL;
  return status;
}

void lw__import_deinit(lw_import *im) {
  lw__tensor_files_deinit(&im->files);
  lw__contents_deinit(&im->contents);
  lw_vec_free(&im->bindings);
  lw_vec_free(&im->symbols);
  lw_vec_free(&im->findings);
  lw_vec_free(&im->placeholders);
  lw_vec_free(&im->sequences);
  lw_vec_free(&im->carried);
  lw_vec_free(&im->bounds);
  lw_vec_free(&im->counts);
  lw_vec_free(&im->bound_of);
  lw__map_deinit(&im->functions);
  lw__text_deinit(&im->where);
  lw__text_deinit(&im->key);
  lw__arena_deinit(&im->arena);
}

/* ---- entries --------------------------------------------------------------------------------*/

lw_status lw__onnx_import_bytes(const void *bytes, size_t count, const char *name,
                                const lw_import_options *options, const lw_import_limits *limits,
                                lw_diag *diag, lw_graph *out_graph) {
  LW_TRY(lw__graph_init(out_graph, diag));
  lw_import im = {.graph = out_graph,
                  .diag = diag,
                  .file = name,
                  .options = options,
                  .limits = limits == NULL ? lw__import_default_limits : *limits};
  lw_status status = lw__import_run(&im, lw__str(bytes, count));
  lw__import_deinit(&im);
  if (status != LW_OK) lw__graph_deinit(out_graph);
  return status;
}

lw_status lw__import_open(lw_import *im, const char *path, lw_diag *diag, lw_str *out_bytes) {
  const char *slash = strrchr(path, '/');
  lw_file_map map = {0};
  im->file = slash == NULL ? path : slash + 1;
  im->files.dir = ".";
  if (slash != NULL) {
    LW_TRY(lw__arena_strndup(&im->arena, path, (size_t)(slash - path) + (slash == path),
                             &im->files.dir));
  }
  const char *name;
  LW_TRY(lw__arena_strndup(&im->graph->arena, im->file, strlen(im->file), &name));
  LW_TRY(lw_vec_push(&im->graph->file_names, name));
  LW_TRY(lw_vec_reserve(&im->graph->files, 1));
  LW_TRY(lw__file_map(path, diag, &map));
  im->graph->files.data[im->graph->files.count++] = map;
  *out_bytes = lw__str((const char *)map.data, map.bytes);
  return LW_OK;
}

lw_status lw__onnx_import(const char *path, const lw_import_options *options, lw_diag *diag,
                          lw_graph *out_graph) {
  LW_TRY(lw__graph_init(out_graph, diag));
  lw_import im = {
      .graph = out_graph, .diag = diag, .options = options, .limits = lw__import_default_limits};
  lw_str bytes = {0};
  lw_status status = lw__import_open(&im, path, diag, &bytes);
  if (status == LW_OK) status = lw__import_run(&im, bytes);
  lw__import_deinit(&im);
  if (status != LW_OK) lw__graph_deinit(out_graph);
  return status;
}

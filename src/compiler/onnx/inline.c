/* inline.c: functions of the model and graphs inside nodes, whose nodes join the import where they
 * are called. */
#include "compiler/onnx/import_internal.h"

static lw_status import_deeper(lw_import *im) {
  if (im->depth < LW_IMPORT_DEPTH_MAX) return LW_OK;
  return lw__fail(im->diag, LW_STATUS_UNSUPPORTED, im->graph->where,
                  "functions and branches nest deeper than %d", LW_IMPORT_DEPTH_MAX);
}

/* The bindings of |names| in the current scope, copied. */
static lw_status import_collect(lw_import *im, const lw_str *names, uint32_t count,
                                lw_binding *out) {
  for (uint32_t i = 0; i < count; i++) {
    lw_binding *binding = lw__import_lookup(im, names[i]);
    if (binding == NULL) {
      return lw__fail(im->diag, LW_STATUS_MODEL_INVALID, im->graph->where,
                      "the inner output '%.*s' is not defined", lw__import_len(names[i]),
                      names[i].ptr);
    }
    out[i] = *binding;
    LW_TRY(lw__import_force(im, &out[i]));
  }
  return LW_OK;
}

static lw_status import_function_body(lw_import *im, const lw_import_node *node,
                                      const lw_proto_function *function, lw_binding *results) {
  const lw_proto_node *call = node->proto;
  for (uint32_t i = 0; i < function->inputs.count; i++) {
    bool given = i < node->in_count && node->in[i] != LW_NONE;
    lw_binding in = {given ? LW_BINDING_VALUE : LW_BINDING_ABSENT, given ? node->in[i] : LW_NONE,
                     NULL};
    LW_TRY(lw__import_define(im, function->inputs.data[i], in));
  }
  LW_TRY(lw__import_nodes(im, function->nodes.data, function->nodes.count));
  uint32_t count =
      function->outputs.count < call->outputs.count ? function->outputs.count : call->outputs.count;
  return import_collect(im, function->outputs.data, count, results);
}

lw_status lw__import_function(lw_import *im, const lw_import_node *node,
                              const lw_proto_function *function) {
  const lw_proto_node *call = node->proto;
  LW_TRY(import_deeper(im));
  if (call->inputs.count > function->inputs.count ||
      call->outputs.count > function->outputs.count) {
    return lw__fail(im->diag, LW_STATUS_MODEL_INVALID, im->graph->where,
                    "more inputs or outputs than the function has");
  }
  lw_binding *results;
  LW_TRY(lw__arena_alloc(&im->arena, call->outputs.count, sizeof *results, &results));
  lw_scope scope = {0}, *outer_scope = im->scope;
  lw_frame frame = {im->frame, call, function};
  const lw_frame *outer_frame = im->frame;
  im->scope = &scope;
  im->frame = &frame;
  im->depth++;
  lw_status status = import_function_body(im, node, function, results);
  im->depth--;
  im->scope = outer_scope;
  im->frame = outer_frame;
  lw__map_deinit(&scope.names);
  LW_TRY(status);
  LW_TRY(lw__import_set_where(im, "node", call->name, call->op_type));
  for (uint32_t i = 0; i < call->outputs.count; i++) {
    if (call->outputs.data[i].len != 0)
      LW_TRY(lw__import_define(im, call->outputs.data[i], results[i]));
  }
  return LW_OK;
}

/* Name, domain and overload with zeros between them, which names do not hold. */
static lw_str import_function_key(lw_import *im, lw_str name, lw_str domain, lw_str overload) {
  if (lw__import_is_default(domain)) domain = (lw_str){0};
  lw__text_clear(&im->key);
  lw__text_add_n(&im->key, name.ptr, name.len);
  lw__text_add_n(&im->key, "", 1);
  lw__text_add_n(&im->key, domain.ptr, domain.len);
  lw__text_add_n(&im->key, "", 1);
  lw__text_add_n(&im->key, overload.ptr, overload.len);
  return lw__str(lw__text_str(&im->key), im->key.len);
}

lw_status lw__import_index_functions(lw_import *im) {
  for (uint32_t i = 0; i < im->model.functions.count; i++) {
    const lw_proto_function *f = &im->model.functions.data[i];
    lw_str key = import_function_key(im, f->name, f->domain, f->overload);
    const char *copy;
    LW_TRY(im->key.status);
    LW_TRY(lw__arena_strndup(&im->arena, key.ptr, key.len, &copy));
    LW_TRY(lw__map_put(&im->functions, lw__str(copy, key.len), i, NULL, NULL));
  }
  return LW_OK;
}

lw_status lw__import_find_function(lw_import *im, const lw_proto_node *node,
                                   const lw_proto_function **out) {
  *out = NULL;
  if (im->model.functions.count == 0) return LW_OK;
  lw_str key = import_function_key(im, node->op_type, node->domain, node->overload);
  LW_TRY(im->key.status);
  uint32_t index = lw__map_get(&im->functions, key);
  if (index != LW_NONE) *out = &im->model.functions.data[index];
  return LW_OK;
}

static lw_status import_branch_body(lw_import *im, const lw_proto_graph *graph,
                                    const lw_value_id *in, lw_binding *results) {
  for (uint32_t i = 0; i < graph->inputs.count; i++) {
    lw_binding_kind kind = in[i] == LW_NONE ? LW_BINDING_ABSENT : LW_BINDING_VALUE;
    LW_TRY(lw__import_define(im, graph->inputs.data[i].name, (lw_binding){kind, in[i], NULL}));
  }
  LW_TRY(lw__import_initializers(im, graph));
  LW_TRY(lw__import_nodes(im, graph->nodes.data, graph->nodes.count));
  for (uint32_t i = 0; i < graph->outputs.count; i++) {
    LW_TRY(import_collect(im, &graph->outputs.data[i].name, 1, &results[i]));
  }
  return LW_OK;
}

void lw__call_inline(lw_call *c, const lw_proto_graph *graph, const lw_value_id *in,
                     uint32_t in_count, lw_value_id *out, uint32_t out_count) {
  lw_import *im = c->im;
  if (!lw__call_ok(c) || !lw__call_keep(c, import_deeper(im))) return;
  if (graph->outputs.count != out_count || graph->inputs.count != in_count) {
    lw__call_invalid(c, "a graph inside has %u inputs and %u outputs, it needs %u and %u",
                     graph->inputs.count, graph->outputs.count, in_count, out_count);
    return;
  }
  lw_binding *results;
  if (!lw__call_keep(c, lw__arena_alloc(&im->arena, out_count, sizeof *results, &results))) return;
  lw_scope scope = {.outer = im->scope};
  im->scope = &scope;
  im->depth++;
  lw_status status = import_branch_body(im, graph, in, results);
  im->depth--;
  im->scope = scope.outer;
  lw__map_deinit(&scope.names);
  if (status == LW_OK) status = lw__import_set_where(im, "node", c->proto->name, c->proto->op_type);
  for (uint32_t i = 0; i < out_count && status == LW_OK; i++) {
    out[i] = results[i].kind == LW_BINDING_ABSENT ? LW_IMPORT_ABSENT : results[i].value;
    /* The reason is noted already. */
    if (results[i].kind == LW_BINDING_POISON) status = LW_STATUS_UNSUPPORTED;
  }
  (void)lw__call_keep(c, status);
}

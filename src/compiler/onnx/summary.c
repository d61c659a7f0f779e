/* summary.c: what a model is and what of it lawson can do, for people. The import itself is the
 * judge. */
#include <stdlib.h>
#include <string.h>

#include "compiler/onnx/import_internal.h"

static lw_status summary_text(lw_onnx_summary *s, lw_str text, const char **out) {
  return lw__arena_strndup(&s->arena, text.ptr, text.len, out);
}

static lw_status summary_domain(lw_onnx_summary *s, lw_str domain, const char **out) {
  return summary_text(s, domain.len == 0 ? lw__str_of("ai.onnx") : domain, out);
}

/* ---- inputs and outputs ---------------------------------------------------------------------*/

static void summary_add_dim(lw_text *text, const lw_proto_dim *dim) {
  if (dim->has_value)
    lw__text_add(text, "%lld", (long long)dim->value);
  else if (dim->param.len == 0)
    lw__text_add(text, "?");
  else
    lw__text_add_n(text, dim->param.ptr, dim->param.len);
}

static lw_status summary_port(lw_onnx_summary *s, const lw_proto_value_info *info,
                              lw_onnx_port *out) {
  lw_text text = {0};
  for (uint32_t d = 0; d < info->dims.count; d++) {
    if (d != 0) lw__text_add(&text, ", ");
    summary_add_dim(&text, &info->dims.data[d]);
  }
  lw_status status = text.status;
  const char *shape = lw__text_str(&text);
  if (status == LW_OK)
    status =
        lw__arena_printf(&s->arena, &out->shape, info->has_shape ? "[%s]" : "unknown%s", shape);
  lw__text_deinit(&text);
  LW_TRY(status);
  lw_dtype dtype = lw__tensor_dtype(info->elem_type);
  const char *type =
      dtype != LW_DTYPE_NONE ? lw_dtype_name(dtype) : lw__tensor_type_name(info->elem_type);
  out->type = info->is_sequence   ? "sequence"
              : info->is_optional ? "optional"
              : !info->is_tensor  ? "not a tensor"
              : type == NULL      ? "undefined"
                                  : type;
  return summary_text(s, info->name, &out->name);
}

static lw_status summary_ports(lw_onnx_summary *s, const lw_import *im) {
  const lw_proto_graph *graph = &im->model.graph;
  lw_map constants = {0};
  lw_status status = LW_OK;
  for (uint32_t i = 0; i < graph->initializers.count && status == LW_OK; i++) {
    status = lw__map_put(&constants, graph->initializers.data[i].name, i, NULL, NULL);
  }
  if (status == LW_OK)
    status = lw__arena_alloc(&s->arena, graph->inputs.count, sizeof *s->inputs, &s->inputs);
  if (status == LW_OK)
    status = lw__arena_alloc(&s->arena, graph->outputs.count, sizeof *s->outputs, &s->outputs);
  for (uint32_t i = 0; i < graph->inputs.count && status == LW_OK; i++) {
    lw_str name = graph->inputs.data[i].name;
    if (lw__map_get(&constants, name) != LW_NONE || lw__import_fixed(im, name) != NULL) continue;
    status = summary_port(s, &graph->inputs.data[i], &s->inputs[s->input_count++]);
  }
  for (uint32_t i = 0; i < graph->outputs.count && status == LW_OK; i++) {
    status = summary_port(s, &graph->outputs.data[i], &s->outputs[s->output_count++]);
  }
  lw__map_deinit(&constants);
  return status;
}

/* ---- operators ------------------------------------------------------------------------------*/

typedef struct lw_summary_count {
  lw_onnx_summary *summary;
  lw_map names; /* "domain:name" -> index */
  LW_VEC(lw_onnx_op_count) counts;
} lw_summary_count;

static lw_status summary_count_graph(lw_summary_count *s, const lw_proto_graph *graph);

static lw_status summary_count_nodes(lw_summary_count *s, const lw_proto_node *nodes,
                                     uint32_t count) {
  for (uint32_t i = 0; i < count; i++) {
    const lw_proto_node *node = &nodes[i];
    const char *domain, *key;
    bool added;
    uint32_t index;
    s->summary->node_count++;
    LW_TRY(summary_domain(s->summary, node->domain, &domain));
    LW_TRY(lw__arena_printf(&s->summary->arena, &key, "%.*s:%s",
                            (int)lw__min_i64((int64_t)node->op_type.len, 1000), node->op_type.ptr,
                            domain));
    LW_TRY(lw__map_put(&s->names, lw__str_of(key), s->counts.count, &added, &index));
    if (added) {
      const char *name;
      LW_TRY(summary_text(s->summary, node->op_type, &name));
      LW_TRY(lw_vec_push(&s->counts, (lw_onnx_op_count){domain, name, 0}));
    }
    s->counts.data[index].count++;
    for (uint32_t a = 0; a < node->attrs.count; a++) {
      if (node->attrs.data[a].g != NULL) LW_TRY(summary_count_graph(s, node->attrs.data[a].g));
    }
  }
  return LW_OK;
}

static lw_status summary_count_graph(lw_summary_count *s, const lw_proto_graph *graph) {
  return summary_count_nodes(s, graph->nodes.data,
                             graph->nodes.count); /* as deep as the reader allows */
}

static int summary_compare_counts(const void *a, const void *b) {
  const lw_onnx_op_count *x = a, *y = b;
  if (x->count != y->count) return x->count < y->count ? 1 : -1;
  int order = strcmp(x->name, y->name);
  return order != 0 ? order : strcmp(x->domain, y->domain);
}

static lw_status summary_operators(lw_onnx_summary *s, const lw_import *im) {
  lw_summary_count count = {.summary = s};
  lw_status status = summary_count_graph(&count, &im->model.graph);
  for (uint32_t f = 0; f < im->model.functions.count && status == LW_OK; f++) {
    const lw_proto_function *function = &im->model.functions.data[f];
    status = summary_count_nodes(&count, function->nodes.data, function->nodes.count);
  }
  if (status == LW_OK && count.counts.count != 0) {
    qsort(count.counts.data, count.counts.count, sizeof *count.counts.data, summary_compare_counts);
    status = lw__arena_dup(&s->arena, count.counts.data,
                           count.counts.count * sizeof *count.counts.data, &s->operators);
    s->operator_count = count.counts.count;
  }
  lw__map_deinit(&count.names);
  lw_vec_free(&count.counts);
  return status;
}

/* ---- the rest -------------------------------------------------------------------------------*/

static lw_status summary_header(lw_onnx_summary *s, const lw_import *im) {
  const lw_proto_model *model = &im->model;
  LW_TRY(summary_text(s, model->producer_name, &s->producer));
  LW_TRY(summary_text(s, model->producer_version, &s->producer_version));
  LW_TRY(summary_text(s, model->domain, &s->domain));
  LW_TRY(summary_text(s, model->graph.name, &s->graph_name));
  s->ir_version = model->ir_version;
  s->model_version = model->model_version;
  s->function_count = model->functions.count;
  s->initializer_count = model->graph.initializers.count;
  LW_TRY(lw__arena_alloc(&s->arena, model->opsets.count, sizeof *s->opsets, &s->opsets));
  for (uint32_t i = 0; i < model->opsets.count; i++) {
    LW_TRY(summary_domain(s, model->opsets.data[i].domain, &s->opsets[i].domain));
    s->opsets[i].version = model->opsets.data[i].version;
  }
  s->opset_count = model->opsets.count;
  for (uint32_t i = 0; i < model->graph.initializers.count; i++) {
    const lw_proto_tensor *t = &model->graph.initializers.data[i];
    uint64_t bytes = lw_dtype_size_bytes(lw__tensor_dtype(t->data_type));
    for (uint32_t d = 0; d < t->rank && d < LW_MAX_RANK; d++) {
      if (t->dims[d] < 0 || __builtin_mul_overflow(bytes, (uint64_t)t->dims[d], &bytes)) bytes = 0;
    }
    s->initializer_bytes += bytes;
  }
  return LW_OK;
}

static lw_status summary_findings(lw_onnx_summary *s, const lw_import *im) {
  LW_TRY(lw__arena_alloc(&s->arena, im->findings.count, sizeof *s->unsupported, &s->unsupported));
  for (uint32_t i = 0; i < im->findings.count; i++) {
    const lw_import_finding *f = &im->findings.data[i];
    lw_onnx_unsupported *out = &s->unsupported[i];
    LW_TRY(summary_text(s, f->name, &out->name));
    LW_TRY(summary_domain(s, f->domain, &out->domain));
    LW_TRY(summary_text(s, f->node, &out->node));
    LW_TRY(summary_text(s, lw__str_of(f->reason), &out->reason));
    out->opset = f->opset;
    out->count = f->count;
  }
  s->unsupported_count = im->findings.count;
  return LW_OK;
}

lw_status lw__onnx_summary(const char *path, const lw_import_options *options, lw_diag *diag,
                           lw_onnx_summary *out) {
  *out = (lw_onnx_summary){.problem = ""};
  lw_graph graph;
  lw_diag findings = {0};
  LW_TRY(lw__graph_init(&graph, &findings));
  lw_import im = {
      .graph = &graph, .diag = &findings, .options = options, .limits = lw__import_default_limits};
  lw_str bytes = {0};
  lw_status status = lw__import_open(&im, path, diag, &bytes);
  if (status == LW_OK) {
    out->status = lw__import_run(&im, bytes);
    status = out->status == LW_STATUS_OUT_OF_MEMORY ? out->status : LW_OK;
  }
  if (status == LW_OK)
    status = summary_text(out, lw__str_of(lw__diag_first_error(&findings)), &out->problem);
  if (status == LW_OK) status = summary_header(out, &im);
  if (status == LW_OK) status = summary_ports(out, &im);
  if (status == LW_OK) status = summary_operators(out, &im);
  if (status == LW_OK) status = summary_findings(out, &im);
  lw__import_deinit(&im);
  lw__graph_deinit(&graph);
  lw__diag_deinit(&findings);
  if (status != LW_OK) lw__onnx_summary_deinit(out);
  return status;
}

void lw__onnx_summary_deinit(lw_onnx_summary *summary) {
  lw__arena_deinit(&summary->arena);
  *summary = (lw_onnx_summary){0};
}

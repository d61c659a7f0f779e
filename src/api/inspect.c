/* inspect.c: lw_tools_inspect: the importer's summary of a file in the words of tools.h. */
#include <string.h>

#include "api/model.h"

typedef struct summary_holder { /* what a lw_tools_summary pointer really points to */
  lw_tools_summary summary;
  lw_onnx_summary onnx; /* owns every string */
  lw_arena arena;       /* the arrays below, and the options' as the importer wants them */
} summary_holder;

static lw_status summary_ports(lw_arena *arena, const lw_onnx_port *ports, uint32_t count,
                               const lw_tools_port **out) {
  lw_tools_port *copy;
  LW_TRY(lw__arena_alloc(arena, count, sizeof *copy, &copy));
  for (uint32_t i = 0; i < count; i++) {
    copy[i] = (lw_tools_port){ports[i].name, ports[i].type, ports[i].shape};
  }
  *out = copy;
  return LW_OK;
}

static lw_status summary_operators(summary_holder *h) {
  lw_tools_operator *operators;
  lw_tools_opset *opsets;
  LW_TRY(lw__arena_alloc(&h->arena, h->onnx.operator_count, sizeof *operators, &operators));
  LW_TRY(lw__arena_alloc(&h->arena, h->onnx.opset_count, sizeof *opsets, &opsets));
  for (uint32_t i = 0; i < h->onnx.operator_count; i++) {
    const lw_onnx_op_count *from = &h->onnx.operators[i];
    operators[i] = (lw_tools_operator){from->domain, from->name, from->count};
  }
  for (uint32_t i = 0; i < h->onnx.opset_count; i++) {
    opsets[i] = (lw_tools_opset){h->onnx.opsets[i].domain, h->onnx.opsets[i].version};
  }
  h->summary.operators = operators;
  h->summary.opsets = opsets;
  return LW_OK;
}

static lw_status summary_unsupported(summary_holder *h) {
  lw_tools_unsupported *list;
  LW_TRY(lw__arena_alloc(&h->arena, h->onnx.unsupported_count, sizeof *list, &list));
  for (uint32_t i = 0; i < h->onnx.unsupported_count; i++) {
    const lw_onnx_unsupported *from = &h->onnx.unsupported[i];
    list[i] = (lw_tools_unsupported){.name = from->name,
                                     .domain = from->domain,
                                     .opset = from->opset,
                                     .node = from->node,
                                     .reason = from->reason,
                                     .count = from->count};
  }
  h->summary.unsupported = list;
  return LW_OK;
}

static lw_status summary_fill(summary_holder *h) {
  const lw_onnx_summary *o = &h->onnx;
  h->summary = (lw_tools_summary){.producer = o->producer,
                                  .producer_version = o->producer_version,
                                  .graph_name = o->graph_name,
                                  .ir_version = o->ir_version,
                                  .opset_count = o->opset_count,
                                  .input_count = o->input_count,
                                  .output_count = o->output_count,
                                  .operator_count = o->operator_count,
                                  .unsupported_count = o->unsupported_count,
                                  .function_count = o->function_count,
                                  .node_count = o->node_count,
                                  .initializer_count = o->initializer_count,
                                  .initializer_bytes = o->initializer_bytes,
                                  .status = o->status,
                                  .problem = o->problem};
  LW_TRY(summary_ports(&h->arena, o->inputs, o->input_count, &h->summary.inputs));
  LW_TRY(summary_ports(&h->arena, o->outputs, o->output_count, &h->summary.outputs));
  LW_TRY(summary_operators(h));
  return summary_unsupported(h);
}

static lw_status inspect(summary_holder *h, const char *path, const lw_options *options,
                         lw_diag *diag) {
  lw_import_options import = {0};
  if (options != NULL) LW_TRY(lw__import_options(options, &h->arena, &import));
  LW_TRY(lw__onnx_summary(path, &import, diag, &h->onnx));
  return summary_fill(h);
}

lw_status lw_tools_inspect(const char *path, const lw_options *options,
                           lw_tools_summary **out_summary, lw_tools_reason *reason) {
  if (path == NULL || out_summary == NULL) return LW_STATUS_USAGE;
  *out_summary = NULL;
  void *memory = NULL;
  LW_TRY(lw__mem_resize(&memory, sizeof(summary_holder)));
  summary_holder *h = memory;
  memset(h, 0, sizeof *h);
  lw_diag diag = {0};
  lw_status status = inspect(h, path, options, &diag);
  if (status == LW_OK) {
    *out_summary = &h->summary;
  } else {
    lw_tools_summary_destroy(&h->summary);
  }
  return lw__tools_end(&diag, status, reason);
}

void lw_tools_summary_destroy(lw_tools_summary *summary) {
  if (summary == NULL) return;
  summary_holder *h = (summary_holder *)summary;
  lw__onnx_summary_deinit(&h->onnx);
  lw__arena_deinit(&h->arena);
  lw__mem_free(h);
}

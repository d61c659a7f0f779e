/* import.h: ONNX file to graph. */
#ifndef LW_COMPILER_ONNX_IMPORT_H
#define LW_COMPILER_ONNX_IMPORT_H

#include "graph/graph.h"

/* An input that is taken to be a constant: the graph has no such input. Numbers, row-major, as many
 * as the input has elements; its type decides which of the two is taken. */
typedef struct lw_import_fixed {
  const char *name;
  const int64_t *integers;
  const double *floats;
  uint32_t count;
} lw_import_fixed;

typedef struct lw_import_options {
  const char *const *dim_names; /* symbolic dimensions and the numbers they stand for */
  const int64_t *dim_values;
  uint32_t dim_count;
  const char *const *shape_names; /* inputs and their shapes (numbers only); symbols in the model's
                                     shapes follow */
  const lw_shape *shapes;
  uint32_t shape_count;
  const lw_import_fixed *fixed;
  uint32_t fixed_count;
} lw_import_options;

/* Reads the model at |path| (and its external files, which must lie beside it) into |*out_graph|,
 * which keeps the file mappings that constants point into. |options| may be NULL. On failure
 * |*out_graph| is empty. LW_STATUS_NOT_FOUND, LW_STATUS_IO   the file LW_STATUS_MODEL_INVALID it
 * breaks the rules of protobuf or ONNX LW_STATUS_UNSUPPORTED               one message with the
 * list of everything that lawson cannot do in this model LW_STATUS_USAGE options that do not fit,
 * or a symbol that must be given a number */
lw_status lw__onnx_import(const char *path, const lw_import_options *options, lw_diag *diag,
                          lw_graph *out_graph) LW_MUST_CHECK;

/* Bounds on what a model may unfold into, whatever its size. */
typedef struct lw_import_limits {
  uint32_t nodes;         /* graph nodes */
  int64_t table_elements; /* elements of all tables that the importer makes (for Resize ...) */
} lw_import_limits;
extern const lw_import_limits lw__import_default_limits;
/* The same from memory; |bytes| must outlive the graph. External data are refused. |limits| may be
 * NULL. */
lw_status lw__onnx_import_bytes(const void *bytes, size_t count, const char *name,
                                const lw_import_options *options, const lw_import_limits *limits,
                                lw_diag *diag, lw_graph *out_graph) LW_MUST_CHECK;

/* ---- what a model is, without compiling it --------------------------------------------------*/
typedef struct lw_onnx_port {
  const char *name, *type, *shape;
} lw_onnx_port; /* "x", "f32", "[batch, 3]" */
typedef struct lw_onnx_opset {
  const char *domain;
  int64_t version;
} lw_onnx_opset; /* "ai.onnx" for the default */
typedef struct lw_onnx_op_count {
  const char *domain, *name;
  uint32_t count;
} lw_onnx_op_count;
typedef struct lw_onnx_unsupported {
  const char *name, *domain; /* of the operator, or what else it is: "(initializer)" */
  int64_t opset;
  const char *node; /* the first node */
  const char *reason;
  uint32_t count; /* nodes with the same name, domain, opset and reason */
} lw_onnx_unsupported;
typedef struct lw_onnx_summary {
  lw_arena arena; /* holds all strings and arrays */
  const char *producer, *producer_version, *domain, *graph_name;
  int64_t ir_version, model_version;
  lw_onnx_opset *opsets;
  lw_onnx_port *inputs, *outputs;
  /* Most frequent first; nodes in branches and functions count once each. */
  lw_onnx_op_count *operators;
  lw_onnx_unsupported *unsupported;
  uint32_t opset_count, input_count, output_count, operator_count, unsupported_count,
      function_count;
  uint32_t node_count, initializer_count;
  uint64_t initializer_bytes; /* declared */
  lw_status status;           /* what lw__onnx_import says to the same arguments */
  const char *problem;        /* its first message, or "" */
} lw_onnx_summary;
/* LW_OK whenever the file could be read at all; problems are in the summary. Weights are not read.
 */
lw_status lw__onnx_summary(const char *path, const lw_import_options *options, lw_diag *diag,
                           lw_onnx_summary *out) LW_MUST_CHECK;
void lw__onnx_summary_deinit(lw_onnx_summary *summary);

#endif

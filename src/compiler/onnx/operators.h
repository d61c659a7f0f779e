/* operators.h: the table of ONNX operators, expanded from operators.def. */
#ifndef LW_COMPILER_ONNX_OPERATORS_H
#define LW_COMPILER_ONNX_OPERATORS_H

#include "compiler/onnx/call.h"

extern const lw_operator lw__operators[];
extern const uint32_t lw__operator_count;

/* The row of an operator of a domain ("" and "ai.onnx" are one); NULL when there is none. */
const lw_operator *lw__operator_find(lw_str domain, lw_str name);
/* The first opset version that the row is for. */
int64_t lw__operator_first(const lw_operator *op);

/* What operators with graphs inside need of the importer: the nodes of |graph| join the import
 * where the node stands, its inputs standing for |in|; |out[i]| is the value of its output i. */
void lw__call_inline(lw_call *c, const lw_proto_graph *graph, const lw_value_id *in,
                     uint32_t in_count, lw_value_id *out, uint32_t out_count);
/* The constant in a tensor attribute. */
lw_value_id lw__call_tensor(lw_call *c, const lw_proto_tensor *tensor);

#endif

/* tensor.h: a TensorProto as a constant: type, shape, and the bytes of its elements, in place where
 * the file's layout allows it. */
#ifndef LW_COMPILER_ONNX_TENSOR_H
#define LW_COMPILER_ONNX_TENSOR_H

#include "compiler/onnx/proto.h"
#include "graph/graph.h"

/* Where external data come from. Every file is mapped once, and belongs to |graph| from then on. */
typedef struct lw_tensor_files {
  lw_graph *graph;
  const char *dir;    /* the model's folder; NULL: the model has none, external data are refused */
  lw_map by_location; /* location -> index into graph->files */
} lw_tensor_files;
void lw__tensor_files_deinit(lw_tensor_files *files);

/* lawson's type for an ONNX element type; LW_DTYPE_NONE when there is none. 4- and 2-bit integers,
 * FNUZ floats, E2M1 and E8M0 have none of their own: a wider type carries their values, one element
 * each (integers: i8, u8; floats: f16; E8M0: f32). */
lw_dtype lw__tensor_dtype(int32_t proto_type);
bool lw__tensor_is_carried(int32_t proto_type);
/* "FLOAT", "STRING", ...; NULL for a number that ONNX does not define. */
const char *lw__tensor_type_name(int32_t proto_type);

typedef struct lw_tensor {
  lw_dtype dtype;
  lw_shape shape;
  const void *data; /* row-major, any alignment; in the file, or in the graph's arena */
  size_t bytes;
} lw_tensor;

/* |where| is the place for messages. LW_STATUS_MODEL_INVALID: sizes that do not fit, undefined
 * types, a bad external reference. LW_STATUS_UNSUPPORTED: a type or rank that lawson has not; the
 * reason is then in |*out_reason| (static or in the graph's arena) and no message is made. */
lw_status lw__tensor_load(lw_tensor_files *files, const lw_proto_tensor *proto, const char *where,
                          const char **out_reason, lw_tensor *out) LW_MUST_CHECK;

#endif

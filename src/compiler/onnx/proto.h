/* proto.h: the messages of an ONNX file as plain structs in an arena. Strings, weights and other
 * payloads stay views of the file's bytes. Reading checks the wire format and nothing of what the
 * messages mean. Field numbers: onnx.proto (they never change). */
#ifndef LW_COMPILER_ONNX_PROTO_H
#define LW_COMPILER_ONNX_PROTO_H

#include "base/base.h"

/* Messages may contain each other this deep. */
#define LW_PROTO_DEPTH_MAX 64
/* Attributes of a node, defaults of a function, imported operator sets: lists that are searched one
 * by one for every node. */
#define LW_PROTO_LIST_MAX 256

/* Grows inside the arena of the reader; old copies stay there (at most as much again). */
#define LW_PROTO_LIST(T) \
  struct {               \
    T *data;             \
    uint32_t count;      \
    uint32_t capacity;   \
  }
typedef LW_PROTO_LIST(lw_str) lw_proto_strings;

typedef struct lw_proto_graph lw_proto_graph;

/* TensorProto.DataType */
typedef enum lw_proto_type {
  LW_PROTO_FLOAT = 1,
  LW_PROTO_UINT8,
  LW_PROTO_INT8,
  LW_PROTO_UINT16,
  LW_PROTO_INT16,
  LW_PROTO_INT32,
  LW_PROTO_INT64,
  LW_PROTO_STRING,
  LW_PROTO_BOOL,
  LW_PROTO_FLOAT16,
  LW_PROTO_DOUBLE,
  LW_PROTO_UINT32,
  LW_PROTO_UINT64,
  LW_PROTO_COMPLEX64,
  LW_PROTO_COMPLEX128,
  LW_PROTO_BFLOAT16,
  LW_PROTO_FLOAT8E4M3FN,
  LW_PROTO_FLOAT8E4M3FNUZ,
  LW_PROTO_FLOAT8E5M2,
  LW_PROTO_FLOAT8E5M2FNUZ,
  LW_PROTO_UINT4,
  LW_PROTO_INT4,
  LW_PROTO_FLOAT4E2M1,
  LW_PROTO_FLOAT8E8M0,
  LW_PROTO_UINT2,
  LW_PROTO_INT2
} lw_proto_type;

typedef struct lw_proto_entry {
  lw_str key, value;
} lw_proto_entry;

typedef struct lw_proto_tensor {
  lw_str name;
  int32_t data_type; /* lw_proto_type, or anything */
  uint32_t rank;     /* number of dims in the file; only the first LW_MAX_RANK are kept */
  int64_t dims[LW_MAX_RANK];
  bool has_raw, is_external;
  lw_str raw;
  lw_proto_strings parts; /* the message's own bytes (several when it was given in pieces): typed
                             data are in there */
  LW_PROTO_LIST(lw_proto_entry) external;
} lw_proto_tensor;

/* AttributeProto.AttributeType */
typedef enum lw_proto_attr_type {
  LW_ATTR_UNDEFINED,
  LW_ATTR_FLOAT,
  LW_ATTR_INT,
  LW_ATTR_STRING,
  LW_ATTR_TENSOR,
  LW_ATTR_GRAPH,
  LW_ATTR_FLOATS,
  LW_ATTR_INTS,
  LW_ATTR_STRINGS,
  LW_ATTR_TENSORS,
  LW_ATTR_GRAPHS,
  LW_ATTR_SPARSE_TENSOR,
  LW_ATTR_SPARSE_TENSORS,
  LW_ATTR_TYPE_PROTO,
  LW_ATTR_TYPE_PROTOS
} lw_proto_attr_type;

typedef struct lw_proto_attr {
  lw_str name, ref_name; /* ref_name: the enclosing function's attribute that is meant, or "" */
  int32_t type; /* lw_proto_attr_type; filled in from the payload when the file leaves it out */
  float f;
  int64_t i;
  lw_str s;
  lw_proto_tensor *t;
  lw_proto_graph *g;
  LW_PROTO_LIST(float) floats;
  LW_PROTO_LIST(int64_t) ints;
  lw_proto_strings strings;
} lw_proto_attr;

typedef struct lw_proto_node {
  lw_proto_strings inputs, outputs;
  lw_str name, op_type, domain, overload;
  LW_PROTO_LIST(lw_proto_attr) attrs;
} lw_proto_node;

typedef struct lw_proto_dim {
  bool has_value;
  int64_t value;
  lw_str param;
} lw_proto_dim;

typedef struct lw_proto_value_info {
  lw_str name;
  bool has_type, is_tensor;
  bool is_sequence, is_optional; /* of tensors; an optional sequence is both. None of the three:
                                    a map, a sparse tensor ... */
  bool has_shape;                /* of the tensor, or of the tensors inside */
  int32_t elem_type;
  LW_PROTO_LIST(lw_proto_dim) dims;
} lw_proto_value_info;

struct lw_proto_graph {
  lw_str name;
  LW_PROTO_LIST(lw_proto_node) nodes;
  LW_PROTO_LIST(lw_proto_tensor) initializers;
  LW_PROTO_LIST(lw_proto_value_info) inputs;
  LW_PROTO_LIST(lw_proto_value_info) outputs;
  uint32_t sparse_initializer_count;
};

typedef struct lw_proto_opset {
  lw_str domain;
  int64_t version;
} lw_proto_opset;
typedef LW_PROTO_LIST(lw_proto_opset) lw_proto_opsets;

typedef struct lw_proto_function {
  lw_str name, domain, overload;
  lw_proto_strings inputs, outputs, attr_names;
  LW_PROTO_LIST(lw_proto_attr) attr_defaults;
  LW_PROTO_LIST(lw_proto_node) nodes;
  lw_proto_opsets opsets;
} lw_proto_function;

typedef struct lw_proto_model {
  int64_t ir_version, model_version;
  lw_str producer_name, producer_version, domain;
  bool has_graph;
  lw_proto_graph graph;
  lw_proto_opsets opsets;
  LW_PROTO_LIST(lw_proto_function) functions;
} lw_proto_model;

/* Reads a ModelProto. |where| is the file's name for messages. The result is in |arena| and points
 * into |bytes|. Malformed bytes: LW_STATUS_MODEL_INVALID; deeper nesting than LW_PROTO_DEPTH_MAX
 * and lists longer than LW_PROTO_LIST_MAX: LW_STATUS_UNSUPPORTED. Time and memory are linear in the
 * number of bytes; weights are not touched. */
lw_status lw__proto_read_model(lw_str bytes, const char *where, lw_arena *arena, lw_diag *diag,
                               lw_proto_model *out) LW_MUST_CHECK;
/* Reads a TensorProto that stands alone in a file. */
lw_status lw__proto_read_tensor(lw_str bytes, const char *where, lw_arena *arena, lw_diag *diag,
                                lw_proto_tensor *out) LW_MUST_CHECK;

#endif

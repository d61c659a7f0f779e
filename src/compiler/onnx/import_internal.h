/* import_internal.h: the state of one import, shared by import.c, call.c, build.c and summary.c. */
#ifndef LW_COMPILER_ONNX_IMPORT_INTERNAL_H
#define LW_COMPILER_ONNX_IMPORT_INTERNAL_H

#include "compiler/onnx/bounded.h"
#include "compiler/onnx/import.h"
#include "compiler/onnx/operators.h"
#include "compiler/onnx/tensor.h"

/* Tensors of a sequence that is an input, plus one. */
#define LW_IMPORT_SEQUENCE_MAX 257
/* Output of an operator that is an empty optional. */
#define LW_IMPORT_ABSENT (LW_NONE - 1)
/* Branches and functions inside each other. */
#define LW_IMPORT_DEPTH_MAX 64

typedef enum lw_binding_kind {
  LW_BINDING_VALUE,
  LW_BINDING_TENSOR, /* an initializer that nothing has asked for yet */
  LW_BINDING_ABSENT, /* an optional input of a function that its call leaves out */
  LW_BINDING_POISON  /* result of something unsupported: what depends on it is skipped */
} lw_binding_kind;

/* What a name stands for. */
typedef struct lw_binding {
  lw_binding_kind kind;
  lw_value_id value;
  const lw_proto_tensor *tensor;
} lw_binding;

/* Names visible in a graph. */
typedef struct lw_scope {
  struct lw_scope *outer; /* NULL for the main graph and for functions */
  lw_map names;           /* -> index into lw_import.bindings */
} lw_scope;

/* Where attributes and operator versions come from inside a function; NULL outside. */
typedef struct lw_frame {
  const struct lw_frame *outer;
  const lw_proto_node *call;
  const lw_proto_function *function;
} lw_frame;

/* A symbol of the model that has a number, and who said so. */
typedef struct lw_import_symbol {
  lw_str name;
  int64_t value;
  const char *source; /* "--dim batch=2" or "--shape x=[2, 3]" */
  bool used;
} lw_import_symbol;

typedef struct lw_import_finding {
  lw_str name, domain, node;
  int64_t opset;
  const char *reason;
  uint32_t count;
} lw_import_finding;

/* A sequence of tensors: what its stand-in, a constant that nothing may compute with, stands for.
 */
typedef struct lw_import_sequence {
  lw_value_id stand_in;
  lw_value_id *items;
  uint32_t count;
} lw_import_sequence;

/* An output of which only some entries count. */
typedef struct lw_import_count {
  const char *output;
  lw_bound bound;
} lw_import_count;

struct lw_import {
  lw_graph *graph;
  lw_diag *diag;
  lw_arena arena;   /* lives as long as the import */
  const char *file; /* for messages */
  lw_proto_model model;
  const lw_import_options *options;
  lw_import_limits limits;
  lw_tensor_files files;
  lw_contents contents;
  LW_VEC(lw_binding) bindings;
  LW_VEC(lw_import_symbol) symbols;
  LW_VEC(lw_import_finding) findings;
  LW_VEC(lw_import_sequence) sequences;
  LW_VEC(lw_bound) bounds;
  LW_VEC(lw_import_count) counts;
  LW_VEC(uint32_t) bound_of; /* by value id: index into bounds, plus one; shorter: none */
  LW_VEC(uint8_t) carried; /* by value id: the lw_proto_type that it carries; shorter: none */
  LW_VEC(lw_value_id) placeholders; /* constants whose elements are symbols */
  lw_map functions;                 /* by name, domain, overload (inline.c) */
  lw_scope *scope;
  const lw_frame *frame;
  uint32_t depth;
  int64_t table_elements; /* made so far */
  uint64_t nodes_read; /* ONNX nodes, inlined ones included */
  lw_text where, key;
};

/* Adds to the list of unsupported things; equal ones are counted. */
lw_status lw__import_finding(lw_import *im, lw_str name, lw_str domain, int64_t opset, lw_str node,
                             const char *reason) LW_MUST_CHECK;
/* Maps the file and names it; the mapping belongs to |im->graph|. */
lw_status lw__import_open(lw_import *im, const char *path, lw_diag *diag,
                          lw_str *out_bytes) LW_MUST_CHECK;
/* Runs everything up to the finished graph; |im| must be zeroed, but for graph, diag, options,
 * limits and what lw__import_open sets. */
lw_status lw__import_run(lw_import *im, lw_str bytes) LW_MUST_CHECK;
void lw__import_deinit(lw_import *im);
/* Length for "%.*s", cut for messages. */
static inline int lw__import_len(lw_str s) { return (int)(s.len > 200 ? 200 : s.len); }
static inline bool lw__import_is_default(lw_str domain) {
  return domain.len == 0 || lw__str_is(domain, "ai.onnx");
}
/* What the name stands for in the current scope and those around it; NULL when nothing. */
lw_binding *lw__import_lookup(lw_import *im, lw_str name);
lw_status lw__import_define(lw_import *im, lw_str name,
                            lw_binding binding) LW_MUST_CHECK; /* twice: invalid */
/* An initializer becomes a constant when it is first asked for. */
lw_status lw__import_force(lw_import *im, lw_binding *binding) LW_MUST_CHECK;
/* graph->where: "model.onnx: node 'name' (OpType)" */
lw_status lw__import_set_where(lw_import *im, const char *what, lw_str name,
                               lw_str kind) LW_MUST_CHECK;
/* Defines the names of a graph's initializers. */
lw_status lw__import_initializers(lw_import *im, const lw_proto_graph *graph) LW_MUST_CHECK;

/* A node about to be imported. |end|: of its node list, to tell cycles from names that are missing.
 */
typedef struct lw_import_node {
  const lw_proto_node *proto, *end;
  lw_value_id *in; /* LW_NONE: left out */
  uint32_t in_count;
  bool poisoned;
} lw_import_node;
/* The functions of the model by name, domain and overload. */
lw_status lw__import_index_functions(lw_import *im) LW_MUST_CHECK;
/* The function of the model that the node calls; NULL when it calls none. */
lw_status lw__import_find_function(lw_import *im, const lw_proto_node *node,
                                   const lw_proto_function **out) LW_MUST_CHECK;
lw_status lw__import_function(lw_import *im, const lw_import_node *node,
                              const lw_proto_function *function) LW_MUST_CHECK;
/* Nodes of |nodes| in the current scope. */
lw_status lw__import_nodes(lw_import *im, const lw_proto_node *nodes, uint32_t count) LW_MUST_CHECK;

/* Every symbol of the graph as "--dim NAME=N", for messages. */
void lw__import_list_symbols(const lw_graph *graph, lw_text *out);
/* A new sequence of |items|, which live as long as the import; |*out| is its stand-in. */
lw_status lw__import_add_sequence(lw_import *im, lw_value_id *items, uint32_t count,
                                  lw_value_id *out) LW_MUST_CHECK;
/* The sequence that |value| stands for; NULL for tensors. */
const lw_import_sequence *lw__import_sequence(const lw_import *im, lw_value_id value);

/* Notes the ONNX type that |value| carries (tensor.h); 0: none. */
lw_status lw__import_carry(lw_import *im, lw_value_id value, int32_t proto_type) LW_MUST_CHECK;

/* NULL: every entry of |value| counts (bounded.h). */
const lw_bound *lw__import_bound(const lw_import *im, lw_value_id value);

/* ---- ports.c: inputs and outputs of the main graph --------------------------------------------*/
/* The numbers that make the input of this name a constant, or NULL. */
const lw_import_fixed *lw__import_fixed(const lw_import *im, lw_str name);
lw_status lw__import_input(lw_import *im, const lw_proto_value_info *info) LW_MUST_CHECK;
lw_status lw__import_output(lw_import *im, const lw_proto_value_info *info) LW_MUST_CHECK;
lw_status lw__import_count_outputs(lw_import *im) LW_MUST_CHECK;

/* ---- dims.c: symbols and shapes of graph inputs ---------------------------------------------*/
lw_status lw__import_bind_options(lw_import *im) LW_MUST_CHECK;
/* Shape of a graph input by the file, with options applied. */
lw_status lw__import_input_shape(lw_import *im, const lw_proto_value_info *info,
                                 lw_shape *out) LW_MUST_CHECK;
/* Whether the options give a shape to |input|. */
bool lw__import_has_shape(const lw_import *im, lw_str input);
/* Refuses options that named nothing in the model. */
lw_status lw__import_check_options(lw_import *im) LW_MUST_CHECK;

#endif

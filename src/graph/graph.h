/* graph.h: the tensor graph: values and nodes by 32-bit id, shapes with symbolic extents, storage,
 * construction with shape inference, verification, rewriting, text form. Knows nothing of files,
 * kernels or devices. */
#ifndef LW_GRAPH_GRAPH_H
#define LW_GRAPH_GRAPH_H

#include "base/base.h"
#include "graph/ops.h"

typedef uint32_t lw_value_id; /* LW_NONE: no value */
typedef uint32_t lw_node_id;

/* ---- extents ------------------------------------------------------------------------------------
 * An extent is a number >= 0, or ~id (negative) of an expression in the graph's table: a symbol, or
 * a sum, product, floor division, modulus, minimum, maximum of extents. Expressions are simplified
 * and hash-consed, so equal ids mean equal expressions (different ids may still be equal). */
typedef int64_t lw_extent;
typedef enum lw_extent_op {
  LW_EXTENT_SYMBOL,
  LW_EXTENT_ADD,
  LW_EXTENT_MUL,
  LW_EXTENT_FLOORDIV,
  LW_EXTENT_MOD,
  LW_EXTENT_MIN,
  LW_EXTENT_MAX
} lw_extent_op;
typedef struct lw_extent_node {
  lw_extent_op op;
  lw_extent a, b; /* operands */
  bool a_is_literal, b_is_literal; /* the operand is the number itself, of any sign */
  const char *symbol;   /* SYMBOL only */
  int64_t lo, hi;       /* known range of the value, inclusive; symbols start as 0 .. INT32_MAX */
  int64_t divisor;      /* known to divide the value (>= 1) */
  uint32_t size; /* operators and operands in it, written out; bounded, so expressions can be walked
                    recursively */
} lw_extent_node;
typedef struct lw_extent_table {
  LW_VEC(lw_extent_node) nodes; /* operands stand before their users */
  uint32_t *index;              /* hash-consing: open addressing over ids, LW_NONE = free */
  uint32_t index_size;          /* a power of two, or 0 */
} lw_extent_table;
static inline bool lw__extent_is_number(lw_extent e) { return e >= 0; }

/* ---- shapes, storage, values ------------------------------------------------------------------*/
typedef struct lw_shape {
  uint32_t rank;
  lw_extent dim[LW_MAX_RANK];
} lw_shape;

/* How the elements of a stored value lie in memory: dims from outermost to innermost, packed.
 * Logical shapes stay ONNX's; the layout pass assigns storage. */
typedef struct lw_storage { uint8_t order[LW_MAX_RANK]; } lw_storage;

typedef struct lw_value {
  lw_dtype dtype;
  lw_shape shape;
  lw_storage storage;
  lw_node_id producer; /* every value has one */
  const char *name;    /* from the model, or NULL; in the graph's arena */
} lw_value;

/* ---- nodes --------------------------------------------------------------------------------------
 * Every node has exactly one result. */
typedef struct lw_conv_attr {
  uint32_t spatial;             /* number of spatial dims: 1..3 */
  /* Transposed: pads crop the result, negative ones widen it. */
  int64_t stride[3], dilation[3], pad_lo[3], pad_hi[3];
  int64_t group;
  bool transposed;
} lw_conv_attr;

typedef struct lw_attr {
  union {
    lw_fn fn;                                                        /* MAP */
    uint32_t axis;                                                   /* IOTA, CONCAT */
    uint8_t perm[LW_MAX_RANK];                                       /* PERMUTE */
    struct {
      int64_t start[LW_MAX_RANK], step[LW_MAX_RANK];
    } slice; /* SLICE: element i of dim d is start[d] + i*step[d] */
    struct {
      int64_t lo[LW_MAX_RANK];
      lw_scalar value;
    } pad;   /* PAD: hi follows from the shapes; value in the operand's type */
    struct { /* WINDOW; taps appended in this order */
      uint32_t count;
      uint8_t axis[4];
      int64_t stride[4], dilation[4];
    } window;
    struct {
      lw_red fn;
      uint32_t axes;
    } reduce; /* REDUCE: bit d set = operand dim d disappears */
    lw_conv_attr conv;                                               /* CONV */
    struct {
      int8_t select[LW_MAX_RANK];
    } gather; /* GATHER, per data dim: k >= 0 operand 1+k gives the
                 coordinate; -1-d: the result's coordinate d does */
    struct {
      const void *data;
      size_t bytes;
    } constant; /* CONST: row-major, alignment 1, owned elsewhere (graph's
                   arena or a file mapping the graph keeps) */
  };
} lw_attr;

typedef struct lw_node {
  lw_op op;
  uint32_t operand_begin, operand_count; /* into lw_graph.operands */
  lw_value_id result;
  lw_attr attr;
  const char *name; /* the model's node this came from, or NULL; several nodes may share it */
  bool dead;        /* marked by a pass; gone after lw__graph_compact */
} lw_node;

typedef struct lw_graph {
  lw_arena arena;
  LW_VEC(lw_value) values;
  LW_VEC(lw_node) nodes; /* topological order, except while a pass is at work */
  LW_VEC(lw_value_id) operands;
  LW_VEC(lw_value_id) inputs;   /* results of INPUT nodes, in the caller's order */
  LW_VEC(lw_value_id) outputs;  /* may repeat, may be inputs or constants */
  LW_VEC(const char *) output_names;
  LW_VEC(lw_file_map) files;    /* mappings that constants point into; unmapped with the graph */
  LW_VEC(const char *) file_names; /* of |files|, relative to the model's folder; in the arena */
  lw_extent_table extents;
  lw_diag *diag;     /* where failures explain themselves; borrowed, may be NULL */
  const char *where; /* what is being built, for messages and for node names of new nodes; borrowed,
                        may be NULL */
} lw_graph;

lw_status lw__graph_init(lw_graph *graph, lw_diag *diag) LW_MUST_CHECK;
void lw__graph_deinit(lw_graph *graph);

static inline lw_value *lw__value(const lw_graph *g, lw_value_id v) { return &g->values.data[v]; }
static inline lw_node *lw__node(const lw_graph *g, lw_node_id n) { return &g->nodes.data[n]; }
static inline lw_node *lw__producer(const lw_graph *g, lw_value_id v) {
  return lw__node(g, lw__value(g, v)->producer);
}
static inline lw_value_id lw__operand(const lw_graph *g, const lw_node *n, uint32_t i) {
  return g->operands.data[n->operand_begin + i];
}

/* ---- extents, continued -------------------------------------------------------------------------
 * Results are simplified; overflow of a number is LW_STATUS_MODEL_INVALID. */
lw_status lw__extent_symbol(lw_graph *graph, const char *name,
                            lw_extent *out) LW_MUST_CHECK; /* same name, same id */
lw_status lw__extent_make(lw_graph *graph, lw_extent_op op, lw_extent a, lw_extent b,
                          lw_extent *out) LW_MUST_CHECK;
lw_status lw__extent_affine(lw_graph *graph, lw_extent a, int64_t mul, int64_t add,
                            lw_extent *out) LW_MUST_CHECK; /* a*mul+add */
bool lw__extent_provably_equal(const lw_graph *graph, lw_extent a, lw_extent b);
void lw__extent_print(const lw_graph *graph, lw_extent e,
                      lw_text *out); /* "batch", "2*s0", "(s0 + 1)//2" */
/* Replaces symbols by numbers in every shape; |values[i]| for |names[i]|. Fails (USAGE) naming
 * every symbol that is left when |require_all|. Shapes that become impossible (negative), and nodes
 * that break a rule with these numbers, are USAGE errors too. Names of no symbol are ignored. On
 * failure no shape is changed. */
lw_status lw__graph_bind_symbols(lw_graph *graph, const char *const *names, const int64_t *values,
                                 uint32_t count, bool require_all) LW_MUST_CHECK;
bool lw__shape_is_static(const lw_shape *shape);
/* Product of all extents; -1 when symbolic or above INT64_MAX / 16. */
int64_t lw__shape_numel(const lw_shape *shape);
bool lw__shape_eq(const lw_graph *graph, const lw_shape *a, const lw_shape *b);
void lw__shape_print(const lw_graph *graph, const lw_shape *shape,
                     lw_text *out); /* "[2, 3, batch]" */
lw_shape lw__shape_of(uint32_t rank, const int64_t *dims);

/* ---- construction -------------------------------------------------------------------------------
 * Each adds a node (or returns an operand where the node would do nothing: a reshape to the same
 * shape ...), infers type and shape of the result, and explains a violation through graph->diag
 * (LW_STATUS_MODEL_INVALID with graph->where). */
lw_status lw__graph_input(lw_graph *g, lw_dtype dtype, const lw_shape *shape, const char *name,
                          lw_value_id *out) LW_MUST_CHECK;
lw_status lw__graph_const(lw_graph *g, lw_dtype dtype, const lw_shape *shape, const void *borrowed,
                          lw_value_id *out) LW_MUST_CHECK;
lw_status lw__graph_const_copy(lw_graph *g, lw_dtype dtype, const lw_shape *shape, const void *data,
                               lw_value_id *out) LW_MUST_CHECK;
lw_status lw__graph_scalar(lw_graph *g, lw_dtype dtype, double value,
                           lw_value_id *out) LW_MUST_CHECK; /* rank 0 */
lw_status lw__graph_iota(lw_graph *g, lw_dtype dtype, const lw_shape *shape, uint32_t axis,
                         lw_value_id *out) LW_MUST_CHECK;
lw_status lw__graph_map(lw_graph *g, lw_fn fn, const lw_value_id *in,
                        lw_value_id *out) LW_MUST_CHECK; /* equal shapes */
lw_status lw__graph_cast(lw_graph *g, lw_value_id in, lw_dtype to, lw_value_id *out) LW_MUST_CHECK;
lw_status lw__graph_reshape(lw_graph *g, lw_value_id in, const lw_shape *shape,
                            lw_value_id *out) LW_MUST_CHECK;
lw_status lw__graph_permute(lw_graph *g, lw_value_id in, const uint8_t *perm,
                            lw_value_id *out) LW_MUST_CHECK;
lw_status lw__graph_expand(lw_graph *g, lw_value_id in, const lw_shape *shape,
                           lw_value_id *out) LW_MUST_CHECK; /* same rank */
/* Result dim d has extent count[d] and reads start[d] + i*step[d], which must stay inside. */
lw_status lw__graph_slice(lw_graph *g, lw_value_id in, const int64_t *start, const int64_t *step,
                          const lw_extent *count, lw_value_id *out) LW_MUST_CHECK;
lw_status lw__graph_pad(lw_graph *g, lw_value_id in, const int64_t *lo, const int64_t *hi,
                        lw_scalar value, lw_value_id *out) LW_MUST_CHECK;
/* |count| windows: axis, size (taps), stride, dilation. Positions o = (L - (size-1)*dilation - 1) /
 * stride + 1. */
lw_status lw__graph_window(lw_graph *g, lw_value_id in, uint32_t count, const uint8_t *axis,
                           const int64_t *size, const int64_t *stride, const int64_t *dilation,
                           lw_value_id *out) LW_MUST_CHECK;
lw_status lw__graph_concat(lw_graph *g, const lw_value_id *in, uint32_t count, uint32_t axis,
                           lw_value_id *out) LW_MUST_CHECK;
lw_status lw__graph_reduce(lw_graph *g, lw_red red, lw_value_id in, uint32_t axes,
                           lw_value_id *out) LW_MUST_CHECK;
lw_status lw__graph_dot(lw_graph *g, lw_value_id a, lw_value_id b, lw_value_id *out) LW_MUST_CHECK;
lw_status lw__graph_conv(lw_graph *g, lw_value_id x, lw_value_id w, const lw_conv_attr *attr,
                         lw_value_id *out) LW_MUST_CHECK;
lw_status lw__graph_gather(lw_graph *g, lw_value_id data, const lw_value_id *indices,
                           uint32_t index_count, const int8_t *select, const lw_shape *result,
                           lw_value_id *out) LW_MUST_CHECK;
/* Numpy-style broadcast of |in| to |shape| by reshape (leading ones) and expand. */
lw_status lw__graph_broadcast(lw_graph *g, lw_value_id in, const lw_shape *shape,
                              lw_value_id *out) LW_MUST_CHECK;
/* map with numpy broadcasting of all operands to their common shape. */
lw_status lw__graph_map_bc(lw_graph *g, lw_fn fn, const lw_value_id *in,
                           lw_value_id *out) LW_MUST_CHECK;
lw_status lw__graph_output(lw_graph *g, lw_value_id value, const char *name) LW_MUST_CHECK;

/* ---- shared composites: one spelling for what many importers and builders need ------------------
 * f16 and bf16 operands are computed in f32 and cast back at the end. |axes|: bit mask over the
 * operand's dims; keep_dims results have extent 1 there. */
lw_status lw__graph_mean(lw_graph *g, lw_value_id x, uint32_t axes, bool keep_dims,
                         lw_value_id *out) LW_MUST_CHECK;
lw_status lw__graph_softmax(lw_graph *g, lw_value_id x, uint32_t axes, bool log,
                            lw_value_id *out) LW_MUST_CHECK;
/* Centred variance. scale, bias: LW_NONE or broadcastable to x; result in x's type. */
lw_status lw__graph_layer_norm(lw_graph *g, lw_value_id x, uint32_t axes, double epsilon,
                               lw_value_id scale, lw_value_id bias, lw_value_id *out,
                               lw_value_id *out_mean, lw_value_id *out_rstd) LW_MUST_CHECK;
lw_status lw__graph_gelu(lw_graph *g, lw_value_id x, bool tanh_form,
                         lw_value_id *out) LW_MUST_CHECK;
lw_status lw__graph_relu(lw_graph *g, lw_value_id x,
                         lw_value_id *out) LW_MUST_CHECK; /* max(x, 0) */

/* ---- uses, rewriting, verification ------------------------------------------------------------*/
typedef struct lw_use { lw_node_id node; uint32_t operand; } lw_use;
typedef struct lw_uses { /* uses of value v: list[begin[v] .. begin[v+1]); graph outputs are not
                            uses */
  uint32_t *begin;
  lw_use *list;
  uint8_t *is_output; /* per value */
} lw_uses;
lw_status lw__uses_init(lw_uses *uses, const lw_graph *graph) LW_MUST_CHECK; /* skips dead nodes */
void lw__uses_deinit(lw_uses *uses);
/* Every operand and output that is |from| becomes |to| (same type and shape); |from|'s name moves
 * along when |to| has none. */
void lw__graph_replace(lw_graph *graph, lw_value_id from, lw_value_id to);
/* Drops dead nodes and everything no output needs (inputs stay), sorts topologically (stable),
 * renumbers. A cycle is LW_STATUS_MODEL_INVALID naming a node on it. */
lw_status lw__graph_compact(lw_graph *graph) LW_MUST_CHECK;
/* Checks every invariant of this header; LW_STATUS_INTERNAL with the violation. Linear time. */
lw_status lw__graph_verify(const lw_graph *graph, lw_diag *diag) LW_MUST_CHECK;
/* A deep copy (constants stay borrowed from |graph|'s arena and files: |graph| must outlive the
 * copy). */
lw_status lw__graph_clone(const lw_graph *graph, lw_graph *out) LW_MUST_CHECK;

/* ---- text form ----------------------------------------------------------------------------------
 * One line per node: `%3 = map.add f32[2, 3] %1, %2  ; node name`. Values print as %id or %name,
 * constants with up to 16 elements inline, larger ones as `{...}` with a hash unless |full|.
 * Parsing accepts inline data, and `fill(seed)` for constants (standard normal numbers from lw_rng;
 * integers 0..9). docs/graph-text.md is the specification. */
void lw__graph_print(const lw_graph *graph, bool full, lw_text *out);
lw_status lw__graph_parse(lw_str text, lw_diag *diag,
                          lw_graph *out) LW_MUST_CHECK; /* errors name line and column */

#endif

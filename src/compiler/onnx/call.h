/* call.h: one ONNX node while it becomes graph nodes: what an operator function sees. Errors are
 * sticky: after the first one every function here does nothing and gives LW_NONE, zeros or empty
 * lists, so operator functions read as straight lines and return nothing. */
#ifndef LW_COMPILER_ONNX_CALL_H
#define LW_COMPILER_ONNX_CALL_H

#include "compiler/onnx/content.h"
#include "compiler/onnx/proto.h"

typedef struct lw_import lw_import;
typedef struct lw_call lw_call;
typedef void (*lw_operator_fn)(lw_call *c);

/* lw_operator.arg of rows that may get sequences of tensors as inputs. */
#define LW_TAKES_SEQUENCES 1000

/* A row of operators.def. */
typedef struct lw_operator {
  const char *name, *domain;
  const char *since; /* opset versions at which the operator changed, ascending, the supported ones:
                        "7 13 14" */
  uint16_t min_in, max_in, max_out;
  lw_operator_fn fn;
  int32_t arg; /* what tells rows of one function apart: an lw_fn, an lw_red ... */
} lw_operator;

struct lw_call {
  lw_import *im;
  lw_graph *graph;
  const lw_proto_node *proto;
  const lw_operator *op;
  int64_t opset;         /* version of the operator's domain */
  uint32_t in_count;     /* trailing inputs that are left out are not counted */
  const lw_value_id *in; /* LW_NONE: left out */
  uint32_t out_count;
  lw_value_id *out;    /* LW_NONE until set; of unwanted outputs (no name) ignored */
  bool plain;          /* the outputs carry nothing (below) even where an input does */
  uint64_t attrs_read; /* bit i: attribute i of the node was looked at */
  lw_status status;
};

/* ---- failing --------------------------------------------------------------------------------*/
void lw__call_invalid(lw_call *c, const char *fmt, ...) LW_PRINTF(2, 3);
void lw__call_usage(lw_call *c, const char *fmt, ...) LW_PRINTF(2, 3);
/* Joins the list of unsupported things; the import goes on with the other nodes. */
void lw__call_unsupported(lw_call *c, const char *fmt, ...) LW_PRINTF(2, 3);
/* Keeps |status| unless one is there; true while all is well. */
bool lw__call_keep(lw_call *c, lw_status status);
/* The same for what a function of graph.h returned: what the graph cannot do joins the list of
 * unsupported things, or asks for numbers when symbols are the reason. */
bool lw__call_graph(lw_call *c, lw_status status);
static inline bool lw__call_ok(const lw_call *c) { return c->status == LW_OK; }

/* ---- inputs, outputs ------------------------------------------------------------------------*/
lw_value_id lw__call_in(lw_call *c, uint32_t i); /* LW_NONE when left out */
bool lw__call_has(const lw_call *c, uint32_t i);
bool lw__call_wants(const lw_call *c, uint32_t i); /* output i has a name */
void lw__call_out(lw_call *c, uint32_t i, lw_value_id value);

/* The ONNX type (lw_proto_type) that |value| carries in a wider one (tensor.h); 0: its own type.
 * What an operator moves carries on what its operand did, unless the call is |plain|. */
int32_t lw__call_carried(const lw_call *c, lw_value_id value);
void lw__call_carry(lw_call *c, lw_value_id value, int32_t proto_type);

/* ---- attributes -----------------------------------------------------------------------------*/
/* Attributes of the node, those of an enclosing function's call put in. What an operator does not
 * look at is reported as unsupported afterwards. */
const lw_proto_attr *lw__call_attr(lw_call *c, const char *name); /* NULL when absent */
int64_t lw__call_int(lw_call *c, const char *name, int64_t otherwise);
double lw__call_float(lw_call *c, const char *name, double otherwise);
lw_str lw__call_str(lw_call *c, const char *name, const char *otherwise);
/* Integers in the file's arena; |*out_count| 0 when absent. */
const int64_t *lw__call_ints(lw_call *c, const char *name, uint32_t *out_count);
/* Like lw__call_ints, but of |want| integers, |otherwise| when absent. False on a wrong count. */
bool lw__call_ints_of(lw_call *c, const char *name, uint32_t want, int64_t otherwise, int64_t *out);
void lw__call_ignore(lw_call *c, const char *name); /* it says nothing about the result */
/* One of the names in the NULL-terminated list: its index; unsupported when it is another. */
uint32_t lw__call_choice(lw_call *c, const char *name, const char *const *names);

/* ---- known contents of inputs ---------------------------------------------------------------*/
/* Elements of input i, numbers or extents; NULL after an error when they are not known. */
const lw_content_elem *lw__call_elems(lw_call *c, uint32_t i, uint32_t *out_count);
/* The same as numbers. Integer (or bool) inputs, and float inputs. */
const int64_t *lw__call_numbers(lw_call *c, uint32_t i, uint32_t *out_count);
const double *lw__call_floats(lw_call *c, uint32_t i, uint32_t *out_count);
/* A single number of an input that may be left out. */
int64_t lw__call_number(lw_call *c, uint32_t i, int64_t otherwise);
/* True when the single element of |value| is a known number; floats and integers both as double. */
bool lw__call_known_scalar(const lw_call *c, lw_value_id value, double *out);
/* A shape given as a 1-D integer input; entries may be symbolic, negative ones are kept for the
 * caller to read. */
bool lw__call_shape_input(lw_call *c, uint32_t i, lw_content_elem *out, uint32_t *out_rank);

/* ---- axes and extents -----------------------------------------------------------------------*/
/* |axis| counted from the front; negative ones count from |rank|. Outside: invalid. */
uint32_t lw__call_axis(lw_call *c, int64_t axis, uint32_t rank);
/* Attribute |name|, then an axis. */
uint32_t lw__call_axis_attr(lw_call *c, const char *name, int64_t otherwise, uint32_t rank);
/* Axes by attribute (before opset |input_since|) or input 1; as a bit mask. |*out_given| false when
 * absent or empty. */
uint32_t lw__call_axes(lw_call *c, int64_t input_since, uint32_t rank, bool *out_given);
/* The extent as a number; a symbolic one is a usage error that says how to bind it. */
int64_t lw__call_static(lw_call *c, lw_extent extent);
lw_extent lw__call_extent(lw_call *c, lw_extent_op op, lw_extent a, lw_extent b);
lw_extent lw__call_affine(lw_call *c, lw_extent a, int64_t mul, int64_t add);
bool lw__call_same_extent(const lw_call *c, lw_extent a, lw_extent b);
/* The shape numpy gives to operands of shapes |a| and |b| together. */
lw_shape lw__call_broadcast_shape(lw_call *c, const lw_shape *a, const lw_shape *b);

/* ---- graph nodes ----------------------------------------------------------------------------*/
/* The builders of graph.h without statuses. An operand LW_NONE gives LW_NONE (only after an
 * error). */
lw_shape lw__b_shape(const lw_call *c, lw_value_id x);
uint32_t lw__b_rank(const lw_call *c, lw_value_id x);
lw_extent lw__b_dim(const lw_call *c, lw_value_id x, uint32_t axis);
lw_dtype lw__b_dtype(const lw_call *c, lw_value_id x);

lw_value_id lw__b_scalar(lw_call *c, lw_dtype dtype, double value);
lw_value_id lw__b_const(lw_call *c, lw_dtype dtype, const lw_shape *shape,
                        const void *data);                          /* copied */
lw_value_id lw__b_identity(lw_call *c, lw_red red, lw_dtype dtype); /* what |red| of nothing is */
lw_value_id lw__b_iota(lw_call *c, lw_dtype dtype, const lw_shape *shape, uint32_t axis);
/* Maps with numpy broadcasting. */
lw_value_id lw__b_map1(lw_call *c, lw_fn fn, lw_value_id x);
lw_value_id lw__b_map2(lw_call *c, lw_fn fn, lw_value_id x, lw_value_id y);
lw_value_id lw__b_select(lw_call *c, lw_value_id cond, lw_value_id yes, lw_value_id no);
lw_value_id lw__b_cast(lw_call *c, lw_value_id x, lw_dtype to);
/* |y| as a scalar of |x|'s type. */
lw_value_id lw__b_map2s(lw_call *c, lw_fn fn, lw_value_id x, double y);
static inline lw_value_id lw__b_add(lw_call *c, lw_value_id x, lw_value_id y) {
  return lw__b_map2(c, LW_FN_ADD, x, y);
}
static inline lw_value_id lw__b_sub(lw_call *c, lw_value_id x, lw_value_id y) {
  return lw__b_map2(c, LW_FN_SUB, x, y);
}
static inline lw_value_id lw__b_mul(lw_call *c, lw_value_id x, lw_value_id y) {
  return lw__b_map2(c, LW_FN_MUL, x, y);
}
static inline lw_value_id lw__b_div(lw_call *c, lw_value_id x, lw_value_id y) {
  return lw__b_map2(c, LW_FN_DIV, x, y);
}
static inline lw_value_id lw__b_adds(lw_call *c, lw_value_id x, double y) {
  return lw__b_map2s(c, LW_FN_ADD, x, y);
}
static inline lw_value_id lw__b_muls(lw_call *c, lw_value_id x, double y) {
  return lw__b_map2s(c, LW_FN_MUL, x, y);
}
/* f16 and bf16 widened to f32, for formulas whose intermediate roundings would cost accuracy;
 * others unchanged. */
lw_value_id lw__b_up(lw_call *c, lw_value_id x);
lw_value_id lw__b_relu(lw_call *c, lw_value_id x);
/* Equality of any types, bool too. */
lw_value_id lw__b_equal(lw_call *c, lw_value_id x, lw_value_id y);

lw_value_id lw__b_reshape(lw_call *c, lw_value_id x, const lw_shape *shape);
lw_value_id lw__b_permute(lw_call *c, lw_value_id x, const uint8_t *perm);
lw_value_id lw__b_swap(lw_call *c, lw_value_id x, uint32_t a, uint32_t b); /* two axes exchanged */
lw_value_id lw__b_broadcast(lw_call *c, lw_value_id x, const lw_shape *shape);
lw_value_id lw__b_unsqueeze(lw_call *c, lw_value_id x, uint32_t axis);
lw_value_id lw__b_squeeze(lw_call *c, lw_value_id x, uint32_t axis);
/* Dims |first| .. |last|-1 become one. */
lw_value_id lw__b_merge(lw_call *c, lw_value_id x, uint32_t first, uint32_t last);
/* Seen as a tensor of |rank| dims whose dim |axis| are the elements of 1-D (or scalar) |x|. */
lw_value_id lw__b_along(lw_call *c, lw_value_id x, uint32_t axis, uint32_t rank);
lw_value_id lw__b_slice(lw_call *c, lw_value_id x, uint32_t axis, int64_t start, int64_t step,
                        lw_extent count);
lw_value_id lw__b_pad(lw_call *c, lw_value_id x, const int64_t *lo, const int64_t *hi,
                      lw_scalar value);
lw_value_id lw__b_concat(lw_call *c, const lw_value_id *in, uint32_t count, uint32_t axis);
lw_value_id lw__b_gather(lw_call *c, lw_value_id data, const lw_value_id *indices, uint32_t count,
                         const int8_t *select, const lw_shape *result);
/* Elements |index[0..count)| along |axis|: slices and repeats where they do, a gather else. */
lw_value_id lw__b_take(lw_call *c, lw_value_id x, uint32_t axis, const int64_t *index,
                       int64_t count);
lw_value_id lw__b_reduce(lw_call *c, lw_red red, lw_value_id x, uint32_t axes, bool keep);
lw_value_id lw__b_mean(lw_call *c, lw_value_id x, uint32_t axes, bool keep);
lw_value_id lw__b_softmax(lw_call *c, lw_value_id x, uint32_t axes, bool log);
/* numpy.matmul: 1-D operands, broadcast batch dims; rows of a batched operand meet a 2-D weight as
 * one product. */
lw_value_id lw__b_matmul(lw_call *c, lw_value_id a, lw_value_id b);
/* Memory until the end of the import. Refused beyond the import's limit. */
void *lw__b_alloc(lw_call *c, int64_t count, size_t size);

static inline uint32_t lw__all_axes(uint32_t rank) { return (1u << rank) - 1; }

#endif

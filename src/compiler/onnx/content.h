/* content.h: what is known about the elements of small values while a model is read. ONNX computes
 * shapes with ordinary operators; every such operator becomes ordinary graph nodes, and this
 * evaluates those whose operands are known, element by element: numbers, or extents that contain
 * symbols. Reshape, Slice, Resize ... then take their shapes from here. */
#ifndef LW_COMPILER_ONNX_CONTENT_H
#define LW_COMPILER_ONNX_CONTENT_H

#include "graph/graph.h"

/* Values with more elements are not followed (constants of any size can be read). */
#define LW_CONTENT_MAX 256
/* Elements that are followed in all; models that compute more than that on the side are not real
 * ones. */
#define LW_CONTENT_TOTAL_MAX 8000000

typedef enum lw_content_kind {
  LW_CONTENT_NUMBER, /* |value|, in the value's type: floats in .f, others in .i */
  LW_CONTENT_EXTENT, /* a whole number that depends on symbols; of integer or float type */
  LW_CONTENT_UNKNOWN /* depends on symbols in a way that an extent cannot say */
} lw_content_kind;

typedef struct lw_content_elem {
  lw_content_kind kind;
  lw_scalar value;
  lw_extent extent;
} lw_content_elem;

typedef struct lw_contents {
  lw_graph *graph;
  lw_arena *arena;
  LW_VEC(lw_content_elem *) of_value; /* by value id; NULL: nothing is known */
  uint32_t nodes_done;
  int64_t total; /* elements followed so far */
} lw_contents;
void lw__contents_deinit(lw_contents *contents);

/* Evaluates the nodes that the graph got since the last call. */
lw_status lw__contents_update(lw_contents *contents) LW_MUST_CHECK;
/* Says that |value| (a placeholder constant) has these elements; they are copied. Call before any
 * update that sees the value's node. */
lw_status lw__contents_define(lw_contents *contents, lw_value_id value,
                              const lw_content_elem *elems, uint32_t count) LW_MUST_CHECK;
/* True when element |index| of |value| can be told (it may still be UNKNOWN). */
bool lw__contents_get(const lw_contents *contents, lw_value_id value, int64_t index,
                      lw_content_elem *out);
bool lw__contents_has(const lw_contents *contents, lw_value_id value);

/* |fn| on elements of |dtype| (SELECT: of operands 1 and 2); UNKNOWN when the symbols do not allow
 * an answer. */
lw_status lw__content_apply(lw_graph *graph, lw_fn fn, lw_dtype dtype, const lw_content_elem *in,
                            lw_content_elem *out) LW_MUST_CHECK;
static inline lw_content_elem lw__content_i64(int64_t i) {
  return (lw_content_elem){.kind = LW_CONTENT_NUMBER, .value = {.i = i}};
}
lw_content_elem lw__content_extent(lw_extent extent); /* NUMBER when the extent is one */

#endif

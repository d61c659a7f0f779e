/* bounded.h: values whose size along one dim depends on data. They have the largest size that there
 * can be; how many entries along that dim count is a value of its own, and what stands behind those
 * is anything. Every graph node that an operator makes of such a value is looked at: what keeps the
 * dim carries the count on, what mixes its entries is refused. An output of the model that is such
 * a value gets a second output that holds the count. */
#ifndef LW_COMPILER_ONNX_BOUNDED_H
#define LW_COMPILER_ONNX_BOUNDED_H

#include "compiler/onnx/call.h"

typedef struct lw_bound {
  lw_value_id value;
  uint32_t axis;
  lw_value_id count; /* i64 scalar */
} lw_bound;

/* NULL: every entry counts. */
const lw_bound *lw__call_bound(const lw_call *c, lw_value_id value);
/* Says that the first |count| entries of |value| along |axis| count. */
void lw__call_set_bound(lw_call *c, lw_value_id value, uint32_t axis, lw_value_id count);
/* Looks at the nodes that the call has added from |first| on. */
void lw__call_carry_bounds(lw_call *c, uint32_t first);
/* The extents of |value| as an i64 vector, the count in its place; LW_NONE when none is bounded. */
lw_value_id lw__call_bound_shape(lw_call *c, lw_value_id value, int64_t start, int64_t end);

/* [n] bools -> [n] places: the first ones are those of the true elements in order, the others lie
 * somewhere inside. |*out_count|: how many there are. */
lw_value_id lw__op_compact(lw_call *c, lw_value_id mask, lw_value_id *out_count);

#endif

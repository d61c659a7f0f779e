/* op_reduce.c: reductions, arg-max, softmax. */
#include <math.h>

#include "compiler/onnx/op.h"

/* Axes of a Reduce operator; all of them when none are named, unless the operator then does
 * nothing. */
static bool reduce_axes(lw_call *c, lw_value_id x, uint32_t *out_axes) {
  uint32_t rank = lw__b_rank(c, x);
  int64_t input_since = c->op->arg == LW_REDUCE_SUM ? 13 : 18;
  bool given, noop = lw__call_int(c, "noop_with_empty_axes", 0) != 0;
  *out_axes = lw__call_axes(c, input_since, rank, &given);
  if (!given && !noop) *out_axes = lw__all_axes(rank);
  return lw__call_ok(c);
}

/* Sums of squares, roots and logarithms are taken in a float type that holds the operand. */
static lw_value_id reduce_widen(lw_call *c, lw_value_id x, lw_reduce kind) {
  bool plain = kind == LW_REDUCE_SUM || kind == LW_REDUCE_MAX || kind == LW_REDUCE_MIN ||
               kind == LW_REDUCE_PROD || kind == LW_REDUCE_MEAN;
  lw_dtype dtype = lw__b_dtype(c, x);
  if (plain) return x;
  if (lw__dtype_is_float(dtype)) return lw__b_up(c, x);
  bool exact = kind == LW_REDUCE_L1 || kind == LW_REDUCE_SUM_SQUARE;
  return exact ? x : lw__b_cast(c, x, LW_DTYPE_F64);
}

/* log(sum(exp(x))), the maximum taken out where it is finite. */
static lw_value_id reduce_log_sum_exp(lw_call *c, lw_value_id x, uint32_t axes, bool keep) {
  lw_dtype dtype = lw__b_dtype(c, x);
  lw_value_id m = lw__b_reduce(c, LW_RED_MAX, x, axes, true);
  lw_value_id zero = lw__b_scalar(c, dtype, 0);
  m = lw__b_select(c, lw__b_map1(c, LW_FN_ISINF, m), zero, m);
  lw_value_id e = lw__b_map1(c, LW_FN_EXP, lw__b_sub(c, x, m));
  lw_value_id y = lw__b_map1(c, LW_FN_LOG, lw__b_reduce(c, LW_RED_SUM, e, axes, keep));
  lw_shape shape = lw__b_shape(c, y);
  return lw__b_add(c, y, lw__b_reshape(c, m, &shape));
}

static lw_value_id reduce_mean(lw_call *c, lw_value_id x, uint32_t axes, bool keep) {
  if (lw__dtype_is_float(lw__b_dtype(c, x))) return lw__b_mean(c, x, axes, keep);
  int64_t count = 1;
  for (uint32_t d = 0; d < lw__b_rank(c, x); d++) {
    if (axes >> d & 1 && !lw__mul_i64(count, lw__call_static(c, lw__b_dim(c, x, d)), &count))
      count = 0;
  }
  return lw__b_map2s(c, LW_FN_DIV, lw__b_reduce(c, LW_RED_SUM, x, axes, keep), (double)count);
}

static lw_value_id reduce_extremum(lw_call *c, lw_value_id x, bool max, uint32_t axes, bool keep) {
  bool logic = lw__b_dtype(c, x) == LW_DTYPE_BOOL;
  return lw__b_reduce(c, logic ? (max ? LW_RED_ANY : LW_RED_ALL) : (max ? LW_RED_MAX : LW_RED_MIN),
                      x, axes, keep);
}

static lw_value_id reduce_apply(lw_call *c, lw_reduce kind, lw_value_id x, uint32_t axes,
                                bool keep) {
  switch (kind) {
    case LW_REDUCE_SUM: return lw__b_reduce(c, LW_RED_SUM, x, axes, keep);
    case LW_REDUCE_PROD: return lw__b_reduce(c, LW_RED_PROD, x, axes, keep);
    case LW_REDUCE_MAX:
    case LW_REDUCE_MIN: return reduce_extremum(c, x, kind == LW_REDUCE_MAX, axes, keep);
    case LW_REDUCE_MEAN: return reduce_mean(c, x, axes, keep);
    case LW_REDUCE_L1: return lw__b_reduce(c, LW_RED_SUM, lw__b_map1(c, LW_FN_ABS, x), axes, keep);
    case LW_REDUCE_L2:
      return lw__b_map1(c, LW_FN_SQRT, lw__b_reduce(c, LW_RED_SUM, lw__b_mul(c, x, x), axes, keep));
    case LW_REDUCE_SUM_SQUARE: return lw__b_reduce(c, LW_RED_SUM, lw__b_mul(c, x, x), axes, keep);
    case LW_REDUCE_LOG_SUM:
      return lw__b_map1(c, LW_FN_LOG, lw__b_reduce(c, LW_RED_SUM, x, axes, keep));
    case LW_REDUCE_LOG_SUM_EXP: return reduce_log_sum_exp(c, x, axes, keep);
  }
  return LW_NONE;
}

void lw__op_reduce(lw_call *c) {
  lw_reduce kind = (lw_reduce)c->op->arg;
  lw_value_id x = lw__call_in(c, 0);
  lw_dtype dtype = lw__b_dtype(c, x);
  bool keep = lw__call_int(c, "keepdims", 1) != 0;
  uint32_t axes;
  if (!reduce_axes(c, x, &axes)) return;
  lw_value_id y = reduce_apply(c, kind, reduce_widen(c, x, kind), axes, keep);
  lw__call_out(c, 0, lw__b_cast(c, y, dtype));
}

/* The extreme value first, then the least (or largest) index that holds it; NaN counts as extreme.
 */
void lw__op_arg_extremum(lw_call *c) {
  lw_value_id x = lw__call_in(c, 0);
  uint32_t rank = lw__b_rank(c, x);
  uint32_t axis = lw__call_axis_attr(c, "axis", 0, rank);
  bool keep = lw__call_int(c, "keepdims", 1) != 0,
       last = lw__call_int(c, "select_last_index", 0) != 0;
  lw_dtype dtype = lw__b_dtype(c, x);
  lw_shape line = {1, {lw__b_dim(c, x, axis)}};
  lw_value_id best = lw__b_reduce(c, (lw_red)c->op->arg, x, 1u << axis, true);
  lw_value_id hit = lw__b_map2(c, LW_FN_EQ, x, best);
  if (lw__dtype_is_float(dtype)) hit = lw__b_map2(c, LW_FN_OR, hit, lw__b_map1(c, LW_FN_ISNAN, x));
  lw_value_id index = lw__b_along(c, lw__b_iota(c, LW_DTYPE_I64, &line, 0), axis, rank);
  int64_t other = last ? -1 : INT64_MAX;
  index = lw__b_select(c, hit, index, lw__b_const(c, LW_DTYPE_I64, &(lw_shape){0}, &other));
  lw__call_out(c, 0, lw__b_reduce(c, last ? LW_RED_MAX : LW_RED_MIN, index, 1u << axis, keep));
}

/* ---- softmax --------------------------------------------------------------------------------*/

/* Before opset 13 the axis and all behind it are one. */
static uint32_t reduce_softmax_axes(lw_call *c, uint32_t rank) {
  uint32_t axis = lw__call_axis_attr(c, "axis", c->opset < 13 ? 1 : -1, rank == 0 ? 1 : rank);
  if (rank == 0) return 0;
  return c->opset < 13 ? lw__all_axes(rank) & ~lw__all_axes(axis) : 1u << axis;
}

void lw__op_softmax(lw_call *c) {
  lw_value_id x = lw__call_in(c, 0);
  uint32_t axes = reduce_softmax_axes(c, lw__b_rank(c, x));
  lw__call_out(c, 0, lw__b_softmax(c, x, axes, c->op->arg != 0));
}

/* One where the first maximum is, zero elsewhere. */
void lw__op_hardmax(lw_call *c) {
  lw_value_id x = lw__call_in(c, 0);
  lw_shape shape = lw__b_shape(c, x);
  uint32_t axes = reduce_softmax_axes(c, shape.rank), axis = 0;
  if (!lw__call_ok(c) || axes == 0) return;
  while (!(axes >> axis & 1)) axis++;
  lw_value_id flat = c->opset < 13 ? lw__b_merge(c, x, axis, shape.rank) : x;
  uint32_t rank = lw__b_rank(c, flat);
  lw_shape line = {1, {lw__b_dim(c, flat, axis)}};
  lw_value_id index = lw__b_along(c, lw__b_iota(c, LW_DTYPE_I64, &line, 0), axis, rank);
  lw_value_id hit =
      lw__b_map2(c, LW_FN_EQ, flat, lw__b_reduce(c, LW_RED_MAX, flat, 1u << axis, true));
  int64_t far = INT64_MAX;
  lw_value_id candidates =
      lw__b_select(c, hit, index, lw__b_const(c, LW_DTYPE_I64, &(lw_shape){0}, &far));
  lw_value_id first = lw__b_reduce(c, LW_RED_MIN, candidates, 1u << axis, true);
  lw_value_id y = lw__b_cast(c, lw__b_map2(c, LW_FN_EQ, index, first), lw__b_dtype(c, x));
  lw__call_out(c, 0, lw__b_reshape(c, y, &shape));
}

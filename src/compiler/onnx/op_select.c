/* op_select.c: operators that choose and order elements along an axis. */
#include <math.h>

#include "compiler/onnx/import_internal.h"
#include "compiler/onnx/op.h"

/* ---- TopK -----------------------------------------------------------------------------------*/

enum { TOPK_LENGTH_MAX = 65536 };

static int64_t select_k(lw_call *c) {
  if (c->opset < 10) return lw__call_int(c, "k", -1);
  return lw__call_number(c, 1, -1);
}

/* The place of each element in the order: how many go before it. Equal ones keep their order; NaN
 * counts as larger than all numbers. n*n comparisons. */
static lw_value_id select_rank(lw_call *c, lw_value_id x, uint32_t axis, bool largest) {
  uint32_t rank = lw__b_rank(c, x) + 1;
  lw_shape line = {1, {lw__b_dim(c, x, axis)}};
  lw_value_id n = lw__b_iota(c, LW_DTYPE_I64, &line, 0);
  lw_value_id mine = lw__b_unsqueeze(c, x, axis + 1), other = lw__b_unsqueeze(c, x, axis);
  lw_value_id i = lw__b_along(c, n, axis, rank), j = lw__b_along(c, n, axis + 1, rank);
  lw_value_id before = lw__b_map2(c, largest ? LW_FN_GT : LW_FN_LT, other, mine);
  lw_value_id same = lw__b_equal(c, other, mine);
  if (lw__dtype_is_float(lw__b_dtype(c, x))) {
    lw_value_id nan_mine = lw__b_map1(c, LW_FN_ISNAN, mine),
                nan_other = lw__b_map1(c, LW_FN_ISNAN, other);
    lw_value_id not_mine = lw__b_map1(c, LW_FN_NOT, nan_mine),
                not_other = lw__b_map1(c, LW_FN_NOT, nan_other);
    lw_value_id by_nan = largest ? lw__b_map2(c, LW_FN_AND, nan_other, not_mine)
                                 : lw__b_map2(c, LW_FN_AND, nan_mine, not_other);
    before = lw__b_map2(c, LW_FN_OR, before, by_nan);
    same = lw__b_map2(c, LW_FN_OR, same, lw__b_map2(c, LW_FN_AND, nan_mine, nan_other));
  }
  same = lw__b_map2(c, LW_FN_AND, same, lw__b_map2(c, LW_FN_LT, j, i));
  before = lw__b_cast(c, lw__b_map2(c, LW_FN_OR, before, same), LW_DTYPE_I64);
  return lw__b_reduce(c, LW_RED_SUM, before, 1u << (axis + 1), false);
}

void lw__op_top_k(lw_call *c) {
  lw_value_id x = lw__call_in(c, 0);
  uint32_t rank = lw__b_rank(c, x), axis = lw__call_axis_attr(c, "axis", -1, rank);
  bool largest = lw__call_int(c, "largest", 1) != 0;
  lw__call_ignore(c, "sorted"); /* sorted is one of the orders that are allowed */
  int64_t n = lw__call_static(c, lw__b_dim(c, x, axis)), k = select_k(c);
  if (k < 0 || k > n) lw__call_invalid(c, "k=%lld of %lld elements", (long long)k, (long long)n);
  if (n > TOPK_LENGTH_MAX) lw__call_unsupported(c, "more than %d elements", TOPK_LENGTH_MAX);
  if (!lw__call_ok(c)) return;
  lw_shape chosen = {1, {k}}, line = {1, {n}};
  lw_value_id place = lw__b_unsqueeze(c, select_rank(c, x, axis, largest), axis);
  lw_value_id wanted = lw__b_along(c, lw__b_iota(c, LW_DTYPE_I64, &chosen, 0), axis, rank + 1);
  lw_value_id hit = lw__b_map2(c, LW_FN_EQ, place, wanted); /* [.., k, n, ..] */
  lw_value_id number = lw__b_along(c, lw__b_iota(c, LW_DTYPE_I64, &line, 0), axis + 1, rank + 1);
  lw_value_id zero = lw__b_scalar(c, lw__b_dtype(c, x), 0), none = lw__b_scalar(c, LW_DTYPE_I64, 0);
  lw_value_id values = lw__b_select(c, hit, lw__b_unsqueeze(c, x, axis), zero);
  lw_value_id indices = lw__b_select(c, hit, number, none);
  lw__call_out(c, 0, lw__b_reduce(c, LW_RED_SUM, values, 1u << (axis + 1), false));
  lw__call_out(c, 1, lw__b_reduce(c, LW_RED_SUM, indices, 1u << (axis + 1), false));
}

/* ---- along an axis --------------------------------------------------------------------------*/

/* The first |lengths|[b] elements in time turned round, the others kept. */
void lw__op_reverse_sequence(lw_call *c) {
  lw_value_id x = lw__call_in(c, 0), lengths = lw__call_in(c, 1);
  lw_shape shape = lw__b_shape(c, x);
  uint32_t batch = lw__call_axis_attr(c, "batch_axis", 1, shape.rank);
  uint32_t time = lw__call_axis_attr(c, "time_axis", 0, shape.rank);
  if (batch == time) lw__call_invalid(c, "time and batch are one axis");
  if (!lw__call_ok(c)) return;
  lw_shape line = {1, {shape.dim[time]}};
  lw_value_id t = lw__b_along(c, lw__b_iota(c, LW_DTYPE_I64, &line, 0), time, shape.rank);
  lw_value_id n = lw__b_along(c, lw__b_cast(c, lengths, LW_DTYPE_I64), batch, shape.rank);
  lw_value_id turned = lw__b_adds(c, lw__b_sub(c, n, t), -1);
  lw_value_id index = lw__b_select(c, lw__b_map2(c, LW_FN_LT, t, n), turned, t);
  index = lw__b_broadcast(c, index, &shape);
  int8_t select[LW_MAX_RANK];
  for (uint32_t d = 0; d < shape.rank; d++) select[d] = (int8_t)(d == time ? 0 : -1 - (int)d);
  lw__call_out(c, 0, lw__b_gather(c, x, &index, 1, select, &shape));
}

/* Cut or padded with zeros at both ends to the wanted size; one more at the end. */
void lw__op_center_crop_pad(lw_call *c) {
  lw_value_id x = lw__call_in(c, 0);
  uint32_t rank = lw__b_rank(c, x), count, axes_count;
  const int64_t *size = lw__call_numbers(c, 1, &count),
                *axes = lw__call_ints(c, "axes", &axes_count);
  if (!lw__call_ok(c)) return;
  if (count != (axes_count == 0 ? rank : axes_count)) lw__call_invalid(c, "%u sizes", count);
  int64_t lo[LW_MAX_RANK] = {0}, hi[LW_MAX_RANK] = {0};
  for (uint32_t i = 0; i < count && lw__call_ok(c); i++) {
    uint32_t axis = axes_count == 0 ? i : lw__call_axis(c, axes[i], rank);
    int64_t n = lw__call_static(c, lw__b_dim(c, x, axis));
    if (size[i] < 0) lw__call_invalid(c, "a size of %lld", (long long)size[i]);
    if (!lw__call_ok(c)) return;
    if (size[i] < n) x = lw__b_slice(c, x, axis, (n - size[i]) / 2, 1, size[i]);
    if (size[i] <= n) continue;
    lo[axis] = (size[i] - n) / 2;
    hi[axis] = size[i] - n - lo[axis];
  }
  lw__call_out(c, 0, lw__b_pad(c, x, lo, hi, (lw_scalar){.i = 0}));
}

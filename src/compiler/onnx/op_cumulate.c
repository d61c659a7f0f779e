/* op_cumulate.c: running sums and products in blocks, and what is built from them: the places of
 * the elements that a mask keeps. n elements take about n * block work per level of blocks. */
#include "compiler/onnx/bounded.h"
#include "compiler/onnx/op.h"

enum { CUMULATE_BLOCK = 32 };

/* Element i is what those elements j of |axis| come to for which the mask holds: n * n work. */
static lw_value_id cumulate_masked(lw_call *c, lw_red red, lw_value_id x, uint32_t axis,
                                   bool exclusive, bool reverse) {
  uint32_t rank = lw__b_rank(c, x);
  lw_shape line = {1, {lw__b_dim(c, x, axis)}};
  lw_value_id n = lw__b_iota(c, LW_DTYPE_I64, &line, 0);
  lw_value_id i = lw__b_along(c, n, axis, rank + 1), j = lw__b_along(c, n, axis + 1, rank + 1);
  lw_fn fn = reverse ? (exclusive ? LW_FN_GT : LW_FN_GE) : (exclusive ? LW_FN_LT : LW_FN_LE);
  lw_value_id none = lw__b_identity(c, red, lw__b_dtype(c, x));
  lw_value_id terms = lw__b_select(c, lw__b_map2(c, fn, j, i), lw__b_unsqueeze(c, x, axis), none);
  return lw__b_reduce(c, red, terms, 1u << (axis + 1), false);
}

/* Inside blocks, and over what the blocks come to. */
static lw_value_id cumulate(lw_call *c, lw_red red, lw_value_id x, uint32_t axis, bool exclusive,
                            bool reverse) {
  lw_shape shape = lw__b_shape(c, x);
  if (!lw__call_ok(c)) return LW_NONE;
  int64_t n = shape.dim[axis];
  if (!lw__extent_is_number(n) || n <= 2 * CUMULATE_BLOCK || shape.rank + 2 > LW_MAX_RANK)
    return cumulate_masked(c, red, x, axis, exclusive, reverse);
  int64_t blocks = lw__ceil_div(n, CUMULATE_BLOCK), lo[LW_MAX_RANK] = {0}, hi[LW_MAX_RANK] = {0};
  hi[axis] = blocks * CUMULATE_BLOCK - n;
  lw_dtype dtype = lw__b_dtype(c, x);
  lw_scalar fill = {.i = red == LW_RED_PROD};
  if (lw__dtype_is_float(dtype)) fill.f = red == LW_RED_PROD;
  lw_shape apart = {.rank = shape.rank + 1};
  for (uint32_t d = 0, at = 0; d < shape.rank; d++) {
    if (d == axis) apart.dim[at++] = blocks;
    apart.dim[at++] = d == axis ? CUMULATE_BLOCK : shape.dim[d];
  }
  lw_value_id parts = lw__b_reshape(c, lw__b_pad(c, x, lo, hi, fill), &apart);
  lw_value_id inner = cumulate_masked(c, red, parts, axis + 1, exclusive, reverse);
  lw_value_id totals = lw__b_reduce(c, red, parts, 1u << (axis + 1), false);
  lw_value_id before = lw__b_unsqueeze(c, cumulate(c, red, totals, axis, true, reverse), axis + 1);
  lw_value_id y = lw__b_map2(c, lw__red_info[red].combine, inner, before);
  return lw__b_slice(c, lw__b_merge(c, y, axis, axis + 2), axis, 0, 1, n);
}

void lw__op_cumulative(lw_call *c) {
  lw_value_id x = lw__call_in(c, 0);
  bool exclusive = lw__call_int(c, "exclusive", 0) != 0,
       reverse = lw__call_int(c, "reverse", 0) != 0;
  uint32_t axis = lw__call_axis(c, lw__call_number(c, 1, 0), lw__b_rank(c, x));
  if (!lw__call_ok(c)) return;
  lw_value_id y = cumulate(c, (lw_red)c->op->arg, lw__b_up(c, x), axis, exclusive, reverse);
  lw__call_out(c, 0, lw__b_cast(c, y, lw__b_dtype(c, x)));
}

/* ---- compaction -----------------------------------------------------------------------------*/

lw_value_id lw__op_compact(lw_call *c, lw_value_id mask, lw_value_id *out_count) {
  *out_count = LW_NONE;
  lw_value_id ones = lw__b_cast(c, mask, LW_DTYPE_I64);
  int64_t n = lw__call_static(c, lw__b_dim(c, mask, 0));
  if (!lw__call_ok(c)) return LW_NONE;
  *out_count = lw__b_reduce(c, LW_RED_SUM, ones, 1, false);
  lw_shape line = {1, {n}};
  lw_value_id sums = cumulate(c, LW_RED_SUM, ones, 0, false, false);
  lw_value_id wanted = lw__b_adds(c, lw__b_iota(c, LW_DTYPE_I64, &line, 0), 1);
  /* The first place whose sum reaches what is wanted: sums only rise. */
  lw_value_id place = lw__b_broadcast(c, lw__b_scalar(c, LW_DTYPE_I64, 0), &line);
  int64_t step = 1;
  while (step < n) step *= 2;
  for (step /= 2; step > 0 && lw__call_ok(c); step /= 2) {
    lw_value_id probe = lw__b_adds(c, place, (double)(step - 1));
    lw_value_id safe = lw__b_map2s(c, LW_FN_MIN, probe, (double)(n - 1));
    lw_value_id have = lw__b_gather(c, sums, &safe, 1, (int8_t[]){0}, &line);
    lw_value_id low = lw__b_map2(c, LW_FN_LT, have, wanted);
    place = lw__b_select(c, low, lw__b_adds(c, place, (double)step), place);
  }
  return n == 0 ? place : lw__b_map2s(c, LW_FN_MIN, place, (double)(n - 1));
}

/* op_bounded.c: operators whose results are as large as the data say: NonZero, Compress, Unique,
 * NonMaxSuppression (bounded.h). */
#include <math.h>

#include "compiler/onnx/bounded.h"
#include "compiler/onnx/import_internal.h"
#include "compiler/onnx/op.h"

/* ---- NonZero, Compress ----------------------------------------------------------------------*/

static lw_value_id bounded_row(lw_call *c, lw_value_id places, int64_t below, int64_t extent) {
  lw_value_id v = below == 1 ? places : lw__b_map2s(c, LW_FN_DIV, places, (double)below);
  return lw__b_unsqueeze(c, lw__b_map2s(c, LW_FN_MOD, v, (double)lw__max_i64(extent, 1)), 0);
}

/* A result [rank, count] of an operand that is computed. */
static void bounded_non_zero(lw_call *c) {
  lw_value_id x = lw__call_in(c, 0), count, rows[LW_MAX_RANK];
  lw_shape shape = lw__b_shape(c, x);
  if (shape.rank == 0) x = lw__b_unsqueeze(c, x, 0);
  if (shape.rank == 0) shape = (lw_shape){1, {1}};
  lw_value_id flat = lw__b_merge(c, x, 0, shape.rank);
  lw_value_id mask =
      lw__b_dtype(c, flat) == LW_DTYPE_BOOL ? flat : lw__b_map2s(c, LW_FN_NE, flat, 0);
  lw_value_id places = lw__op_compact(c, mask, &count);
  int64_t below = 1;
  for (uint32_t d = shape.rank; d-- > 0 && lw__call_ok(c);) {
    int64_t n = lw__call_static(c, shape.dim[d]);
    rows[d] = bounded_row(c, places, below, n);
    if (!lw__mul_i64(below, lw__max_i64(n, 1), &below)) lw__call_invalid(c, "too many elements");
  }
  if (!lw__call_ok(c)) return;
  lw_value_id y = lw__b_concat(c, rows, shape.rank, 0);
  lw__call_set_bound(c, y, 1, count);
  lw__call_out(c, 0, y);
}

/* The result [rank, count] of a known operand is a constant. */
static void bounded_non_zero_known(lw_call *c, lw_shape shape) {
  uint32_t count, rank = shape.rank;
  const double *elems = lw__call_floats(c, 0, &count);
  int64_t found = 0;
  for (uint32_t i = 0; elems != NULL && i < count; i++) found += elems[i] != 0;
  int64_t *table = lw__b_alloc(c, found * rank, sizeof *table), at = 0;
  if (elems == NULL || table == NULL) return;
  for (uint32_t i = 0; i < count; i++) {
    if (elems[i] == 0) continue;
    int64_t rest = i;
    for (uint32_t d = rank; d-- > 0; rest /= shape.dim[d])
      table[d * found + at] = rest % shape.dim[d];
    at++;
  }
  lw_shape result = {2, {rank, found}};
  lw__call_out(c, 0, lw__b_const(c, LW_DTYPE_I64, &result, found == 0 ? (const void *)"" : table));
}

void lw__op_non_zero(lw_call *c) {
  lw_value_id x = lw__call_in(c, 0);
  lw_shape shape = lw__b_shape(c, x);
  if (!lw__call_ok(c)) return;
  if (lw__contents_has(&c->im->contents, x))
    bounded_non_zero_known(c, shape);
  else
    bounded_non_zero(c);
}

/* Elements |places| along |axis| of |x|, of which the first |count| count. */
static lw_value_id bounded_take(lw_call *c, lw_value_id x, uint32_t axis, lw_value_id places,
                                lw_value_id count) {
  lw_shape shape = lw__b_shape(c, x);
  if (!lw__call_ok(c)) return LW_NONE;
  shape.dim[axis] = lw__b_dim(c, places, 0);
  lw_value_id at = lw__b_broadcast(c, lw__b_along(c, places, axis, shape.rank), &shape);
  int8_t select[LW_MAX_RANK];
  for (uint32_t d = 0; d < shape.rank; d++) select[d] = (int8_t)(d == axis ? 0 : -1 - (int)d);
  lw_value_id y = lw__b_gather(c, x, &at, 1, select, &shape);
  lw__call_set_bound(c, y, axis, count);
  return y;
}

void lw__op_compress(lw_call *c) {
  lw_value_id x = lw__call_in(c, 0), condition = lw__call_in(c, 1), kept;
  uint32_t rank = lw__b_rank(c, x), count, axis = 0;
  if (lw__call_attr(c, "axis") != NULL) {
    axis = lw__call_axis_attr(c, "axis", 0, rank);
  } else {
    x = lw__b_merge(c, x, 0, rank);
  }
  if (!lw__call_ok(c)) return;
  int64_t n = lw__call_static(c, lw__b_dim(c, x, axis));
  int64_t given =
      lw__call_static(c, lw__b_rank(c, condition) == 1 ? lw__b_dim(c, condition, 0) : -1);
  if (given < 0 || given > n)
    lw__call_invalid(c, "its condition does not fit %lld elements", (long long)n);
  if (!lw__call_ok(c)) return;
  if (!lw__contents_has(&c->im->contents, condition)) {
    lw_value_id places = lw__op_compact(c, condition, &kept);
    lw__call_out(c, 0, bounded_take(c, x, axis, places, kept));
    return;
  }
  const int64_t *known = lw__call_numbers(c, 1, &count);
  int64_t *index = lw__b_alloc(c, count, sizeof *index), at = 0;
  if (index == NULL || known == NULL) return;
  for (uint32_t i = 0; i < count; i++) {
    if (known[i] != 0) index[at++] = i;
  }
  lw__call_out(c, 0, lw__b_take(c, x, axis, index, at));
}

/* ---- Unique ---------------------------------------------------------------------------------*/

enum { UNIQUE_COLUMNS_MAX = 64, UNIQUE_ROWS_MAX = 16384 };

/* Rows [n, m] compared each with each: bools [n, n], |before|: row j comes before row i. */
static void unique_compare(lw_call *c, lw_value_id rows, int64_t columns, lw_value_id *same,
                           lw_value_id *before) {
  lw_shape square = {2, {lw__b_dim(c, rows, 0), lw__b_dim(c, rows, 0)}};
  *same = lw__b_broadcast(c, lw__b_scalar(c, LW_DTYPE_BOOL, 1), &square);
  *before = lw__b_broadcast(c, lw__b_scalar(c, LW_DTYPE_BOOL, 0), &square);
  for (int64_t m = 0; m < columns && lw__call_ok(c); m++) {
    lw_value_id column = lw__b_slice(c, rows, 1, m, 1, 1); /* [n, 1] */
    lw_value_id other = lw__b_swap(c, column, 0, 1);
    if (lw__b_dtype(c, column) == LW_DTYPE_BOOL) {
      column = lw__b_cast(c, column, LW_DTYPE_I32);
      other = lw__b_cast(c, other, LW_DTYPE_I32);
    }
    lw_value_id less = lw__b_map2(c, LW_FN_AND, *same, lw__b_map2(c, LW_FN_LT, other, column));
    *before = lw__b_map2(c, LW_FN_OR, *before, less);
    *same = lw__b_map2(c, LW_FN_AND, *same, lw__b_equal(c, column, other));
  }
}

static lw_value_id unique_sum(lw_call *c, lw_value_id bools, uint32_t axis) {
  return lw__b_reduce(c, LW_RED_SUM, lw__b_cast(c, bools, LW_DTYPE_I64), 1u << axis, false);
}

void lw__op_unique(lw_call *c) {
  lw_value_id x = lw__call_in(c, 0), same, before;
  uint32_t rank = lw__b_rank(c, x), axis = 0;
  bool sorted = lw__call_int(c, "sorted", 1) != 0;
  if (lw__call_attr(c, "axis") != NULL)
    axis = lw__call_axis_attr(c, "axis", 0, rank);
  else
    x = lw__b_merge(c, x, 0, rank);
  lw_shape shape = lw__b_shape(c, x);
  int64_t columns = 1, n = lw__call_ok(c) ? lw__call_static(c, shape.dim[axis]) : 0;
  for (uint32_t d = 0; d < shape.rank && lw__call_ok(c); d++)
    if (d != axis) columns *= lw__min_i64(lw__call_static(c, shape.dim[d]), 1 << 20);
  if (columns > UNIQUE_COLUMNS_MAX || n > UNIQUE_ROWS_MAX)
    lw__call_unsupported(c, "%lld rows of %lld elements", (long long)n, (long long)columns);
  if (!lw__call_ok(c)) return;
  lw_shape flat = {2, {n, columns}}, line = {1, {n}};
  lw_value_id rows = lw__b_reshape(c, axis == 0 ? x : lw__b_swap(c, x, 0, axis), &flat);
  unique_compare(c, rows, columns, &same, &before);
  lw_value_id number = lw__b_iota(c, LW_DTYPE_I64, &line, 0);
  lw_value_id i = lw__b_unsqueeze(c, number, 1), j = lw__b_unsqueeze(c, number, 0);
  /* The first row that is equal to row i, and whether that is row i itself. */
  lw_value_id far = lw__b_scalar(c, LW_DTYPE_I64, (double)n);
  lw_value_id first = lw__b_reduce(c, LW_RED_MIN, lw__b_select(c, same, j, far), 2, false);
  lw_value_id leads = lw__b_map2(c, LW_FN_EQ, first, number);
  lw_value_id lead_j = lw__b_unsqueeze(c, leads, 0);
  lw_value_id earlier = sorted ? before : lw__b_map2(c, LW_FN_LT, j, lw__b_unsqueeze(c, first, 1));
  lw_value_id place = unique_sum(c, lw__b_map2(c, LW_FN_AND, earlier, lead_j), 1);
  lw_value_id count = unique_sum(c, leads, 0);
  /* Slot k of the result: [k, row]. */
  lw_value_id at_slot = lw__b_map2(c, LW_FN_EQ, lw__b_unsqueeze(c, place, 0), i);
  lw_value_id leads_slot = lw__b_map2(c, LW_FN_AND, at_slot, lead_j);
  lw_value_id none = lw__b_scalar(c, LW_DTYPE_I64, 0);
  lw_value_id index = lw__b_reduce(c, LW_RED_SUM, lw__b_select(c, leads_slot, j, none), 2, false);
  lw__call_out(c, 0, bounded_take(c, x, axis, index, count));
  lw_value_id times = unique_sum(c, at_slot, 1);
  lw__call_set_bound(c, index, 0, count);
  lw__call_set_bound(c, times, 0, count);
  lw__call_out(c, 1, index);
  lw__call_out(c, 2, place);
  lw__call_out(c, 3, times);
}

/* ---- NonMaxSuppression ----------------------------------------------------------------------*/

enum { NMS_STEPS_MAX = 1024 };

typedef struct lw_nms {
  lw_value_id low[2], high[2], area; /* of all boxes [B, 1, N] */
  lw_value_id left;                  /* [B, C, N]: what may still be chosen */
  lw_value_id scores, threshold;     /* LW_NONE: 0 */
  lw_shape shape;                    /* [B, C, N] */
} lw_nms;

static lw_value_id nms_scalar(lw_call *c, uint32_t i) {
  return lw__call_has(c, i) ? lw__b_reshape(c, c->in[i], &(lw_shape){0}) : LW_NONE;
}

static void nms_boxes(lw_call *c, lw_nms *s, lw_value_id boxes, bool centre) {
  lw_value_id part[4];
  for (int64_t k = 0; k < 4; k++)
    part[k] = lw__b_swap(c, lw__b_slice(c, boxes, 2, k, 1, 1), 1, 2); /* [B, 1, N] */
  for (uint32_t k = 0; k < 2; k++) {
    if (centre) {
      lw_value_id half = lw__b_muls(c, part[2 + k], 0.5);
      s->low[k] = lw__b_sub(c, part[k], half);
      s->high[k] = lw__b_add(c, part[k], half);
    } else {
      s->low[k] = lw__b_map2(c, LW_FN_MIN, part[k], part[2 + k]);
      s->high[k] = lw__b_map2(c, LW_FN_MAX, part[k], part[2 + k]);
    }
  }
  s->area = lw__b_mul(c, lw__b_sub(c, s->high[0], s->low[0]), lw__b_sub(c, s->high[1], s->low[1]));
}

/* Entry |at| [B, C, 1] of |v| [B, 1, N] as [B, C, 1]. */
static lw_value_id nms_of(lw_call *c, const lw_nms *s, lw_value_id v, lw_value_id at) {
  lw_shape shape = {3, {s->shape.dim[0], s->shape.dim[1], 1}};
  return lw__b_gather(c, lw__b_squeeze(c, v, 1), &at, 1, (int8_t[]){-1, 0}, &shape);
}

/* [B, C, N]: boxes that overlap the chosen one more than the threshold allows. */
static lw_value_id nms_overlap(lw_call *c, const lw_nms *s, lw_value_id at) {
  lw_value_id side[2];
  for (int k = 0; k < 2; k++) {
    lw_value_id low = lw__b_map2(c, LW_FN_MAX, s->low[k], nms_of(c, s, s->low[k], at));
    lw_value_id high = lw__b_map2(c, LW_FN_MIN, s->high[k], nms_of(c, s, s->high[k], at));
    side[k] = lw__b_map2s(c, LW_FN_MAX, lw__b_sub(c, high, low), 0);
  }
  lw_value_id common = lw__b_mul(c, side[0], side[1]), own = nms_of(c, s, s->area, at);
  lw_value_id all = lw__b_sub(c, lw__b_add(c, s->area, own), common);
  lw_value_id ratio = lw__b_div(c, common, all);
  lw_value_id limit =
      s->threshold != LW_NONE ? s->threshold : lw__b_scalar(c, lw__b_dtype(c, ratio), 0);
  lw_value_id over = lw__b_map2(c, LW_FN_GT, ratio, limit);
  lw_value_id real = lw__b_map2(c, LW_FN_AND, lw__b_map2s(c, LW_FN_GT, own, 0),
                                lw__b_map2s(c, LW_FN_GT, s->area, 0));
  over = lw__b_map2(c, LW_FN_AND, over, real);
  return lw__b_map2(c, LW_FN_AND, over, lw__b_map2s(c, LW_FN_GT, common, 0));
}

/* Chooses the box with the best score that is left, the first of equal ones, and takes away what
 * overlaps it. [B, C, 1] each. */
static void nms_step(lw_call *c, lw_nms *s, lw_value_id *out_at, lw_value_id *out_valid) {
  lw_dtype dtype = lw__b_dtype(c, s->scores);
  lw_shape line = {3, {1, 1, s->shape.dim[2]}};
  lw_value_id lowest = lw__b_scalar(c, dtype, -INFINITY);
  lw_value_id now = lw__b_select(c, s->left, s->scores, lowest);
  lw_value_id best = lw__b_reduce(c, LW_RED_MAX, now, 4, true);
  lw_value_id number = lw__b_iota(c, LW_DTYPE_I64, &line, 2);
  lw_value_id is_best = lw__b_map2(c, LW_FN_AND, s->left, lw__b_map2(c, LW_FN_EQ, now, best));
  lw_value_id far = lw__b_scalar(c, LW_DTYPE_I64, (double)(s->shape.dim[2] - 1));
  *out_at = lw__b_reduce(c, LW_RED_MIN, lw__b_select(c, is_best, number, far), 4, true);
  *out_valid = lw__b_reduce(c, LW_RED_ANY, s->left, 4, true);
  lw_value_id gone =
      lw__b_map2(c, LW_FN_OR, nms_overlap(c, s, *out_at), lw__b_map2(c, LW_FN_EQ, number, *out_at));
  s->left = lw__b_map2(c, LW_FN_AND, s->left, lw__b_map1(c, LW_FN_NOT, gone));
}

static lw_value_id nms_index(lw_call *c, const lw_shape *shape, uint32_t axis) {
  return lw__b_merge(c, lw__b_iota(c, LW_DTYPE_I64, shape, axis), 0, 3);
}

/* Rows (batch, class, box) of what was chosen, in that order. */
static void nms_collect(lw_call *c, const lw_nms *s, lw_value_id *at, lw_value_id *valid,
                        int64_t steps) {
  lw_shape shape = {3, {s->shape.dim[0], s->shape.dim[1], steps}};
  lw_value_id columns[3], count;
  lw_value_id boxes = lw__b_merge(c, lw__b_concat(c, at, (uint32_t)steps, 2), 0, 3);
  lw_value_id mask = lw__b_merge(c, lw__b_concat(c, valid, (uint32_t)steps, 2), 0, 3);
  columns[0] = lw__b_unsqueeze(c, nms_index(c, &shape, 0), 1);
  columns[1] = lw__b_unsqueeze(c, nms_index(c, &shape, 1), 1);
  columns[2] = lw__b_unsqueeze(c, boxes, 1);
  lw_value_id rows = lw__b_concat(c, columns, 3, 1), places = lw__op_compact(c, mask, &count);
  lw__call_out(c, 0, bounded_take(c, rows, 0, places, count));
}

void lw__op_non_max_suppression(lw_call *c) {
  lw_value_id boxes = lw__call_in(c, 0), minimum = nms_scalar(c, 4);
  lw_nms s = {.scores = lw__call_in(c, 1), .threshold = nms_scalar(c, 3)};
  bool centre = lw__call_int(c, "center_point_box", 0) != 0;
  int64_t most = lw__call_number(c, 2, 0);
  lw_shape sizes = lw__b_shape(c, boxes);
  s.shape = lw__b_shape(c, s.scores);
  if (s.shape.rank != 3 || sizes.rank != 3) lw__call_invalid(c, "its operands need 3 dimensions");
  for (uint32_t d = 0; d < 3 && lw__call_ok(c); d++) (void)lw__call_static(c, s.shape.dim[d]);
  if (!lw__call_ok(c)) return;
  if (sizes.dim[2] != 4 || sizes.dim[1] != s.shape.dim[2] || sizes.dim[0] != s.shape.dim[0])
    lw__call_invalid(c, "its boxes do not fit its scores");
  int64_t steps = lw__min_i64(lw__max_i64(most, 0), s.shape.dim[2]);
  if (steps > NMS_STEPS_MAX)
    lw__call_unsupported(c, "more than %d boxes of a class", NMS_STEPS_MAX);
  lw_shape none = {2, {0, 3}};
  if (lw__call_ok(c) && steps == 0) lw__call_out(c, 0, lw__b_const(c, LW_DTYPE_I64, &none, ""));
  lw_value_id *at = lw__b_alloc(c, steps, sizeof *at),
              *valid = lw__b_alloc(c, steps, sizeof *valid);
  if (at == NULL || valid == NULL || steps == 0) return;
  nms_boxes(c, &s, boxes, centre);
  s.left = minimum != LW_NONE ? lw__b_map2(c, LW_FN_GT, s.scores, minimum)
                              : lw__b_broadcast(c, lw__b_scalar(c, LW_DTYPE_BOOL, 1), &s.shape);
  for (int64_t k = 0; k < steps && lw__call_ok(c); k++) nms_step(c, &s, &at[k], &valid[k]);
  nms_collect(c, &s, at, valid, steps);
}

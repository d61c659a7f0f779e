/* build.c: graph nodes for operator functions, without statuses. */
#include <string.h>

#include "compiler/onnx/import_internal.h"

/* ---- asking ---------------------------------------------------------------------------------*/

lw_shape lw__b_shape(const lw_call *c, lw_value_id x) {
  if (x == LW_NONE) return (lw_shape){0};
  return lw__value(c->graph, x)->shape;
}
uint32_t lw__b_rank(const lw_call *c, lw_value_id x) {
  return x == LW_NONE ? 0 : lw__value(c->graph, x)->shape.rank;
}
lw_extent lw__b_dim(const lw_call *c, lw_value_id x, uint32_t axis) {
  if (x == LW_NONE || axis >= lw__b_rank(c, x)) return 0;
  return lw__value(c->graph, x)->shape.dim[axis];
}
lw_dtype lw__b_dtype(const lw_call *c, lw_value_id x) {
  return x == LW_NONE ? LW_DTYPE_NONE : lw__value(c->graph, x)->dtype;
}

/* The result of a builder, or LW_NONE with the call's status set. */
#define B_TRY(call_, expr)                                   \
  do {                                                       \
    lw_value_id b_out_ = LW_NONE;                            \
    lw_value_id *out = &b_out_;                              \
    if (!lw__call_ok(call_)) return LW_NONE;                 \
    return lw__call_graph(call_, (expr)) ? b_out_ : LW_NONE; \
  } while (0)

/* ---- sources --------------------------------------------------------------------------------*/

lw_value_id lw__b_scalar(lw_call *c, lw_dtype dtype, double value) {
  B_TRY(c, lw__graph_scalar(c->graph, dtype, value, out));
}

lw_value_id lw__b_identity(lw_call *c, lw_red red, lw_dtype dtype) {
  uint64_t bits = 0;
  lw_shape scalar = {0};
  if (lw__dtype_is_float(dtype)) return lw__b_scalar(c, dtype, lw__red_identity_f64(red, dtype));
  if (dtype != LW_DTYPE_NONE) {
    lw__elem_set_i64(dtype, &bits, 0, lw__red_identity_i64(red, dtype));
  }
  return lw__b_const(c, dtype, &scalar, &bits);
}

lw_value_id lw__b_const(lw_call *c, lw_dtype dtype, const lw_shape *shape, const void *data) {
  if (data == NULL && lw__shape_numel(shape) != 0) return LW_NONE;
  B_TRY(c, lw__graph_const_copy(c->graph, dtype, shape, data, out));
}

lw_value_id lw__b_iota(lw_call *c, lw_dtype dtype, const lw_shape *shape, uint32_t axis) {
  B_TRY(c, lw__graph_iota(c->graph, dtype, shape, axis, out));
}

/* ---- maps -----------------------------------------------------------------------------------*/

static lw_value_id build_map(lw_call *c, lw_fn fn, const lw_value_id *in) {
  lw_shape shape = lw__b_shape(c, in[0]);
  for (uint32_t k = 0; k < lw__fn_info[fn].arity; k++) {
    if (in[k] == LW_NONE) return LW_NONE;
    lw_shape other = lw__b_shape(c, in[k]);
    shape = lw__call_broadcast_shape(c, &shape, &other);
  }
  B_TRY(c, lw__graph_map_bc(c->graph, fn, in, out));
}

lw_value_id lw__b_map1(lw_call *c, lw_fn fn, lw_value_id x) { return build_map(c, fn, &x); }

lw_value_id lw__b_map2(lw_call *c, lw_fn fn, lw_value_id x, lw_value_id y) {
  return build_map(c, fn, (lw_value_id[]){x, y});
}

lw_value_id lw__b_select(lw_call *c, lw_value_id cond, lw_value_id yes, lw_value_id no) {
  return build_map(c, LW_FN_SELECT, (lw_value_id[]){cond, yes, no});
}

lw_value_id lw__b_cast(lw_call *c, lw_value_id x, lw_dtype to) {
  if (x == LW_NONE) return LW_NONE;
  B_TRY(c, lw__graph_cast(c->graph, x, to, out));
}

lw_value_id lw__b_map2s(lw_call *c, lw_fn fn, lw_value_id x, double y) {
  return lw__b_map2(c, fn, x, lw__b_scalar(c, lw__b_dtype(c, x), y));
}

lw_value_id lw__b_up(lw_call *c, lw_value_id x) {
  lw_dtype dtype = lw__b_dtype(c, x);
  bool narrow = dtype == LW_DTYPE_F16 || dtype == LW_DTYPE_BF16;
  return narrow ? lw__b_cast(c, x, LW_DTYPE_F32) : x;
}

lw_value_id lw__b_relu(lw_call *c, lw_value_id x) {
  if (x == LW_NONE) return LW_NONE;
  B_TRY(c, lw__graph_relu(c->graph, x, out));
}

lw_value_id lw__b_equal(lw_call *c, lw_value_id x, lw_value_id y) {
  if (lw__b_dtype(c, x) != LW_DTYPE_BOOL) return lw__b_map2(c, LW_FN_EQ, x, y);
  return lw__b_map1(c, LW_FN_NOT, lw__b_map2(c, LW_FN_XOR, x, y));
}

/* ---- movements ------------------------------------------------------------------------------*/

lw_value_id lw__b_reshape(lw_call *c, lw_value_id x, const lw_shape *shape) {
  if (x == LW_NONE) return LW_NONE;
  if (shape->rank > LW_MAX_RANK) lw__call_unsupported(c, "more than %d dimensions", LW_MAX_RANK);
  B_TRY(c, lw__graph_reshape(c->graph, x, shape, out));
}

lw_value_id lw__b_permute(lw_call *c, lw_value_id x, const uint8_t *perm) {
  if (x == LW_NONE) return LW_NONE;
  B_TRY(c, lw__graph_permute(c->graph, x, perm, out));
}

lw_value_id lw__b_swap(lw_call *c, lw_value_id x, uint32_t a, uint32_t b) {
  uint8_t perm[LW_MAX_RANK];
  for (uint32_t d = 0; d < LW_MAX_RANK; d++) perm[d] = (uint8_t)(d == a ? b : d == b ? a : d);
  return lw__b_permute(c, x, perm);
}

lw_value_id lw__b_broadcast(lw_call *c, lw_value_id x, const lw_shape *shape) {
  if (x == LW_NONE) return LW_NONE;
  B_TRY(c, lw__graph_broadcast(c->graph, x, shape, out));
}

lw_value_id lw__b_unsqueeze(lw_call *c, lw_value_id x, uint32_t axis) {
  lw_shape from = lw__b_shape(c, x), to = {.rank = from.rank + 1};
  if (to.rank > LW_MAX_RANK) {
    lw__call_unsupported(c, "more than %d dimensions", LW_MAX_RANK);
    return LW_NONE;
  }
  for (uint32_t d = 0; d < to.rank; d++)
    to.dim[d] = d < axis ? from.dim[d] : d == axis ? 1 : from.dim[d - 1];
  return lw__b_reshape(c, x, &to);
}

lw_value_id lw__b_squeeze(lw_call *c, lw_value_id x, uint32_t axis) {
  lw_shape shape = lw__b_shape(c, x);
  if (shape.rank == 0) return LW_NONE;
  memmove(&shape.dim[axis], &shape.dim[axis + 1], (shape.rank - axis - 1) * sizeof shape.dim[0]);
  shape.rank--;
  return lw__b_reshape(c, x, &shape);
}

lw_value_id lw__b_merge(lw_call *c, lw_value_id x, uint32_t first, uint32_t last) {
  lw_shape from = lw__b_shape(c, x), to = {0};
  lw_extent product = 1;
  for (uint32_t d = first; d < last; d++) {
    product = lw__call_extent(c, LW_EXTENT_MUL, product, from.dim[d]);
  }
  if (from.rank - (last - first) + 1 > LW_MAX_RANK) {
    lw__call_unsupported(c, "more than %d dimensions", LW_MAX_RANK);
    return LW_NONE;
  }
  for (uint32_t d = 0; d < first; d++) to.dim[to.rank++] = from.dim[d];
  to.dim[to.rank++] = product;
  for (uint32_t d = last; d < from.rank; d++) to.dim[to.rank++] = from.dim[d];
  return lw__b_reshape(c, x, &to);
}

lw_value_id lw__b_along(lw_call *c, lw_value_id x, uint32_t axis, uint32_t rank) {
  lw_shape from = lw__b_shape(c, x), to = {.rank = rank};
  for (uint32_t d = 0; d < rank && d < LW_MAX_RANK; d++) to.dim[d] = 1;
  if (from.rank > 1)
    lw__call_invalid(c, "a vector is wanted, not a tensor of %u dimensions", from.rank);
  if (axis < LW_MAX_RANK && from.rank == 1) to.dim[axis] = from.dim[0];
  return lw__b_reshape(c, x, &to);
}

lw_value_id lw__b_slice(lw_call *c, lw_value_id x, uint32_t axis, int64_t start, int64_t step,
                        lw_extent count) {
  if (x == LW_NONE) return LW_NONE;
  lw_shape shape = lw__b_shape(c, x);
  int64_t starts[LW_MAX_RANK] = {0}, steps[LW_MAX_RANK];
  for (uint32_t d = 0; d < LW_MAX_RANK; d++) steps[d] = 1;
  starts[axis] = start;
  steps[axis] = step;
  shape.dim[axis] = count;
  B_TRY(c, lw__graph_slice(c->graph, x, starts, steps, shape.dim, out));
}

lw_value_id lw__b_pad(lw_call *c, lw_value_id x, const int64_t *lo, const int64_t *hi,
                      lw_scalar value) {
  if (x == LW_NONE) return LW_NONE;
  B_TRY(c, lw__graph_pad(c->graph, x, lo, hi, value, out));
}

lw_value_id lw__b_concat(lw_call *c, const lw_value_id *in, uint32_t count, uint32_t axis) {
  for (uint32_t i = 0; i < count; i++) {
    if (in[i] == LW_NONE) return LW_NONE;
  }
  B_TRY(c, lw__graph_concat(c->graph, in, count, axis, out));
}

lw_value_id lw__b_gather(lw_call *c, lw_value_id data, const lw_value_id *indices, uint32_t count,
                         const int8_t *select, const lw_shape *result) {
  if (data == LW_NONE) return LW_NONE;
  for (uint32_t i = 0; i < count; i++) {
    if (indices[i] == LW_NONE) return LW_NONE;
  }
  B_TRY(c, lw__graph_gather(c->graph, data, indices, count, select, result, out));
}

/* Length of the arithmetic progression at the front of |index|. */
static int64_t build_run(const int64_t *index, int64_t count) {
  int64_t n = 1;
  while (n < count && index[n] - index[n - 1] == index[1] - index[0]) n++;
  return n;
}

static lw_value_id build_take_run(lw_call *c, lw_value_id x, uint32_t axis, const int64_t *index,
                                  int64_t count) {
  int64_t step = count > 1 ? index[1] - index[0] : 1;
  if (step != 0) return lw__b_slice(c, x, axis, index[0], step, count);
  lw_value_id one = lw__b_slice(c, x, axis, index[0], 1, 1);
  lw_shape shape = lw__b_shape(c, one);
  if (one == LW_NONE) return LW_NONE;
  shape.dim[axis] = count;
  return lw__b_broadcast(c, one, &shape);
}

/* Each element of the axis |times| times in a row. */
static lw_value_id build_repeat(lw_call *c, lw_value_id x, uint32_t axis, int64_t times) {
  lw_value_id apart = lw__b_unsqueeze(c, x, axis + 1);
  lw_shape shape = lw__b_shape(c, apart);
  if (apart == LW_NONE) return LW_NONE;
  shape.dim[axis + 1] = times;
  return lw__b_merge(c, lw__b_broadcast(c, apart, &shape), axis, axis + 2);
}

static lw_value_id build_take_gather(lw_call *c, lw_value_id x, uint32_t axis, const int64_t *index,
                                     int64_t count) {
  lw_shape shape = lw__b_shape(c, x), flat = lw__shape_of(1, &count);
  shape.dim[axis] = count;
  lw_value_id table = lw__b_along(c, lw__b_const(c, LW_DTYPE_I64, &flat, index), axis, shape.rank);
  table = lw__b_broadcast(c, table, &shape);
  int8_t select[LW_MAX_RANK];
  for (uint32_t d = 0; d < shape.rank; d++) select[d] = (int8_t)(d == axis ? 0 : -1 - (int)d);
  return lw__b_gather(c, x, &table, 1, select, &shape);
}

lw_value_id lw__b_take(lw_call *c, lw_value_id x, uint32_t axis, const int64_t *index,
                       int64_t count) {
  enum { RUNS_MAX = 6 };
  if (x == LW_NONE || !lw__call_ok(c)) return LW_NONE;
  if (count == 0) return lw__b_slice(c, x, axis, 0, 1, 0);
  lw_extent extent = lw__b_dim(c, x, axis);
  int64_t times =
      lw__extent_is_number(extent) && extent > 0 && count % extent == 0 ? count / extent : 0;
  bool repeat = times > 1;
  for (int64_t i = 0; i < count && repeat; i++) repeat = index[i] == i / times;
  if (repeat) return build_repeat(c, x, axis, times);
  lw_value_id parts[RUNS_MAX];
  uint32_t runs = 0;
  for (int64_t at = 0, n; at < count; at += n, runs++) {
    n = build_run(index + at, count - at);
    if (runs == RUNS_MAX) return build_take_gather(c, x, axis, index, count);
  }
  runs = 0;
  for (int64_t at = 0, n; at < count; at += n) {
    n = build_run(index + at, count - at);
    parts[runs++] = build_take_run(c, x, axis, index + at, n);
  }
  return runs == 1 ? parts[0] : lw__b_concat(c, parts, runs, axis);
}

/* ---- computations ---------------------------------------------------------------------------*/

static lw_value_id build_keep_dims(lw_call *c, lw_value_id reduced, const lw_shape *before,
                                   uint32_t axes) {
  lw_shape shape = *before;
  for (uint32_t d = 0; d < shape.rank; d++) {
    if (axes >> d & 1) shape.dim[d] = 1;
  }
  return lw__b_reshape(c, reduced, &shape);
}

static lw_value_id build_reduce(lw_call *c, lw_red red, lw_value_id x, uint32_t axes) {
  B_TRY(c, lw__graph_reduce(c->graph, red, x, axes, out));
}

lw_value_id lw__b_reduce(lw_call *c, lw_red red, lw_value_id x, uint32_t axes, bool keep) {
  if (x == LW_NONE || axes == 0) return x;
  lw_shape before = lw__b_shape(c, x);
  lw_value_id y = build_reduce(c, red, x, axes);
  return keep ? build_keep_dims(c, y, &before, axes) : y;
}

lw_value_id lw__b_mean(lw_call *c, lw_value_id x, uint32_t axes, bool keep) {
  if (x == LW_NONE || axes == 0) return x;
  B_TRY(c, lw__graph_mean(c->graph, x, axes, keep, out));
}

lw_value_id lw__b_softmax(lw_call *c, lw_value_id x, uint32_t axes, bool log) {
  if (x == LW_NONE) return LW_NONE;
  B_TRY(c, lw__graph_softmax(c->graph, x, axes, log, out));
}

static lw_value_id build_dot(lw_call *c, lw_value_id a, lw_value_id b) {
  if (a == LW_NONE || b == LW_NONE) return LW_NONE;
  B_TRY(c, lw__graph_dot(c->graph, a, b, out));
}

/* |x| with its batch dims (all but the last two) broadcast to those of |batch|. */
static lw_value_id build_batch(lw_call *c, lw_value_id x, const lw_shape *batch) {
  lw_shape from = lw__b_shape(c, x), to = *batch;
  if (from.rank < 2 || to.rank + 2 > LW_MAX_RANK) return LW_NONE;
  to.dim[to.rank] = from.dim[from.rank - 2];
  to.dim[to.rank + 1] = from.dim[from.rank - 1];
  to.rank += 2;
  return lw__b_broadcast(c, x, &to);
}

static bool build_contraction_fits(lw_call *c, lw_value_id a, lw_value_id b) {
  lw_extent k = lw__b_dim(c, a, lw__b_rank(c, a) - 1), l = lw__b_dim(c, b, lw__b_rank(c, b) - 2);
  if (lw__call_same_extent(c, k, l)) return true;
  if (!lw__extent_is_number(k))
    (void)lw__call_static(c, k);
  else if (!lw__extent_is_number(l))
    (void)lw__call_static(c, l);
  else
    lw__call_invalid(c, "products of rows of %lld and columns of %lld elements", (long long)k,
                     (long long)l);
  return false;
}

/* Operands of two or more dims. Rows of all batches meet one matrix as one product. */
static lw_value_id build_matmul(lw_call *c, lw_value_id a, lw_value_id b) {
  if (!lw__call_ok(c) || !build_contraction_fits(c, a, b)) return LW_NONE;
  lw_shape sa = lw__b_shape(c, a), sb = lw__b_shape(c, b);
  lw_extent rows = sa.dim[sa.rank - 2], columns = sb.dim[sb.rank - 1];
  bool one_matrix = true;
  for (uint32_t d = 0; d + 2 < sb.rank; d++) one_matrix &= sb.dim[d] == 1;
  sa.rank -= 2;
  sb.rank -= 2;
  lw_shape batch = lw__call_broadcast_shape(c, &sa, &sb);
  if (!one_matrix || batch.rank == 0) {
    return build_dot(c, build_batch(c, a, &batch), build_batch(c, b, &batch));
  }
  b = lw__b_merge(c, b, 0, sb.rank + 1);
  lw_value_id y = build_dot(c, lw__b_merge(c, a, 0, sa.rank + 1), b);
  batch.dim[batch.rank] = rows;
  batch.dim[batch.rank + 1] = columns;
  batch.rank += 2;
  return lw__b_reshape(c, y, &batch);
}

lw_value_id lw__b_matmul(lw_call *c, lw_value_id a, lw_value_id b) {
  uint32_t ra = lw__b_rank(c, a), rb = lw__b_rank(c, b);
  if (a == LW_NONE || b == LW_NONE) return LW_NONE;
  if (ra == 0 || rb == 0) {
    lw__call_invalid(c, "a scalar in a matrix product");
    return LW_NONE;
  }
  if (ra == 1) a = lw__b_unsqueeze(c, a, 0);
  if (rb == 1) b = lw__b_unsqueeze(c, b, 1);
  lw_value_id y = build_matmul(c, a, b);
  if (rb == 1) y = lw__b_squeeze(c, y, lw__b_rank(c, y) - 1);
  if (ra == 1) y = lw__b_squeeze(c, y, lw__b_rank(c, y) - (rb == 1 ? 1 : 2));
  return y;
}

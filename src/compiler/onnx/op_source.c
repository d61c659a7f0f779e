/* op_source.c: operators that make values from little or nothing, masks, and control flow that is
 * decided on import. */
#include <math.h>
#include <string.h>

#include "compiler/onnx/op.h"
#include "compiler/onnx/tensor.h"

/* ---- constants ------------------------------------------------------------------------------*/

static lw_value_id source_floats(lw_call *c, const float *data, uint32_t count, bool scalar) {
  lw_shape shape = {.rank = scalar ? 0 : 1, .dim = {count}};
  return lw__b_const(c, LW_DTYPE_F32, &shape, data == NULL ? (const void *)"" : data);
}

static lw_value_id source_ints(lw_call *c, const int64_t *data, uint32_t count, bool scalar) {
  lw_shape shape = {.rank = scalar ? 0 : 1, .dim = {count}};
  return lw__b_const(c, LW_DTYPE_I64, &shape, data == NULL ? (const void *)"" : data);
}

void lw__op_constant(lw_call *c) {
  const lw_proto_attr *a;
  lw_value_id y = LW_NONE;
  if ((a = lw__call_attr(c, "value")) != NULL) {
    if (a->t == NULL)
      lw__call_invalid(c, "its value is not a tensor");
    else
      y = lw__call_tensor(c, a->t);
  } else if ((a = lw__call_attr(c, "value_float")) != NULL) {
    y = source_floats(c, &a->f, 1, true);
  } else if ((a = lw__call_attr(c, "value_floats")) != NULL) {
    y = source_floats(c, a->floats.data, a->floats.count, false);
  } else if ((a = lw__call_attr(c, "value_int")) != NULL) {
    y = source_ints(c, &a->i, 1, true);
  } else if ((a = lw__call_attr(c, "value_ints")) != NULL) {
    y = source_ints(c, a->ints.data, a->ints.count, false);
  } else if (lw__call_attr(c, "value_string") != NULL ||
             lw__call_attr(c, "value_strings") != NULL) {
    lw__call_unsupported(c, "strings");
  } else if (lw__call_attr(c, "sparse_value") != NULL) {
    lw__call_unsupported(c, "sparse tensors");
  } else {
    lw__call_invalid(c, "it has no value");
  }
  lw__call_out(c, 0, y);
}

void lw__op_constant_of_shape(lw_call *c) {
  lw_content_elem elems[LW_MAX_RANK];
  lw_shape shape, one = {0};
  uint32_t rank;
  const lw_proto_attr *a = lw__call_attr(c, "value");
  if (!lw__call_shape_input(c, 0, elems, &rank) || !lw__op_shape_of_elems(c, elems, rank, &shape))
    return;
  lw_value_id value =
      a == NULL || a->t == NULL ? lw__b_scalar(c, LW_DTYPE_F32, 0) : lw__call_tensor(c, a->t);
  lw_shape given = lw__b_shape(c, value);
  if (lw__call_ok(c) && lw__shape_numel(&given) != 1)
    lw__call_invalid(c, "its value must have one element");
  lw__call_out(c, 0, lw__b_broadcast(c, lw__b_reshape(c, value, &one), &shape));
}

/* ---- counting -------------------------------------------------------------------------------*/

/* start + i * step for i = 0 .. count-1 in |dtype|. */
static lw_value_id source_progression(lw_call *c, lw_dtype dtype, lw_value_id start,
                                      lw_value_id step, lw_extent count) {
  lw_shape shape = {.rank = 1, .dim = {count}}, scalar = {0};
  bool is_float = lw__dtype_is_float(dtype);
  lw_value_id i = lw__b_iota(c, is_float ? LW_DTYPE_I64 : dtype, &shape, 0);
  lw_dtype wide = dtype == LW_DTYPE_F16 || dtype == LW_DTYPE_BF16 ? LW_DTYPE_F32 : dtype;
  double one;
  i = lw__b_cast(c, i, wide);
  if (!lw__call_known_scalar(c, step, &one) || one != 1) {
    i = lw__b_mul(c, i, lw__b_cast(c, lw__b_reshape(c, step, &scalar), wide));
  }
  if (!lw__call_known_scalar(c, start, &one) || one != 0) {
    i = lw__b_add(c, i, lw__b_cast(c, lw__b_reshape(c, start, &scalar), wide));
  }
  return lw__b_cast(c, i, dtype);
}

static lw_extent source_range_symbolic(lw_call *c, const lw_content_elem *e) {
  lw_graph *g = c->graph;
  lw_content_elem in[3] = {e[1], e[0]}, span = {0}, steps = {0};
  bool unit = e[2].kind == LW_CONTENT_NUMBER && e[2].value.i > 0;
  if (!unit) {
    for (int k = 0; k < 3; k++) {
      if (e[k].kind == LW_CONTENT_EXTENT) (void)lw__call_static(c, e[k].extent);
    }
    return 0;
  }
  if (!lw__call_keep(c, lw__content_apply(g, LW_FN_SUB, LW_DTYPE_I64, in, &span))) return 0;
  lw_content_elem round[3] = {span, lw__content_i64(e[2].value.i - 1)}, up = {0};
  if (!lw__call_keep(c, lw__content_apply(g, LW_FN_ADD, LW_DTYPE_I64, round, &up))) return 0;
  lw_content_elem divide[3] = {up, e[2]};
  if (e[2].value.i == 1)
    steps = up;
  else if (!lw__call_keep(c, lw__content_apply(g, LW_FN_DIV, LW_DTYPE_I64, divide, &steps)))
    return 0;
  if (steps.kind == LW_CONTENT_NUMBER) return lw__max_i64(steps.value.i, 0);
  if (steps.kind == LW_CONTENT_EXTENT) return steps.extent;
  lw__call_usage(c,
                 "the length of the range depends on symbolic dimensions: give them numbers with "
                 "--dim NAME=N");
  return 0;
}

void lw__op_range(lw_call *c) {
  lw_content_elem e[3];
  bool symbolic = false;
  lw_dtype dtype = lw__b_dtype(c, lw__call_in(c, 0));
  bool is_float = lw__dtype_is_float(dtype);
  for (uint32_t i = 0; i < 3; i++) {
    uint32_t count;
    const lw_content_elem *elem = lw__call_elems(c, i, &count);
    if (elem == NULL) return;
    if (count != 1) lw__call_invalid(c, "input %u must be a scalar", i);
    e[i] = *elem;
    symbolic |= elem->kind == LW_CONTENT_EXTENT;
  }
  lw_extent count = 0;
  if (symbolic && !is_float) {
    count = source_range_symbolic(c, e);
  } else if (symbolic) {
    for (uint32_t i = 0; i < 3; i++)
      (void)lw__call_static(c, e[i].kind == LW_CONTENT_EXTENT ? e[i].extent : 0);
  } else if (is_float) {
    double n = ceil((e[1].value.f - e[0].value.f) / e[2].value.f);
    if (!(n < 1e15) || e[2].value.f == 0)
      lw__call_invalid(c, "a range without an end");
    else
      count = n > 0 ? (int64_t)n : 0;
  } else {
    int64_t span, step = e[2].value.i;
    if (step == 0 || __builtin_sub_overflow(e[1].value.i, e[0].value.i, &span)) {
      lw__call_invalid(c, "a range without an end");
    } else if ((span > 0) == (step > 0) && span != 0) {
      count = span / step + (span % step != 0);
    }
  }
  lw__call_out(c, 0, source_progression(c, dtype, lw__call_in(c, 0), lw__call_in(c, 2), count));
}

/* a0 - a1 cos(2 pi i / n) + a2 cos(4 pi i / n) */
void lw__op_window(lw_call *c) {
  static const double weights[][3] = {[LW_WINDOW_HANN] = {0.5, 0.5, 0},
                                      [LW_WINDOW_HAMMING] = {25.0 / 46, 21.0 / 46, 0},
                                      [LW_WINDOW_BLACKMAN] = {0.42, 0.5, 0.08}};
  const double *a = weights[c->op->arg], turn = 6.283185307179586477;
  int64_t n = lw__call_number(c, 0, 0), type = lw__call_int(c, "output_datatype", LW_PROTO_FLOAT);
  bool periodic = lw__call_int(c, "periodic", 1) != 0;
  lw_dtype dtype = type > 0 && type < 100 ? lw__tensor_dtype((int32_t)type) : LW_DTYPE_NONE;
  if (n < 0) lw__call_invalid(c, "a size of %lld", (long long)n);
  if (!lw__dtype_is_float(dtype)) lw__call_unsupported(c, "type %lld", (long long)type);
  double *window = lw__b_alloc(c, n, sizeof *window);
  if (window == NULL) return;
  double period = periodic ? (double)n : (double)n - 1;
  for (int64_t i = 0; i < n; i++) {
    double x = period == 0 ? 0 : turn * (double)i / period;
    window[i] = a[0] - a[1] * cos(x) + a[2] * cos(2 * x);
  }
  lw_shape line = {1, {n}};
  lw__call_out(c, 0, lw__b_cast(c, lw__b_const(c, LW_DTYPE_F64, &line, window), dtype));
}

/* ---- masks ----------------------------------------------------------------------------------*/

/* Row and column numbers of the last two dims of |x|, as [R, 1] and [1, C]. */
static void source_row_column(lw_call *c, lw_value_id x, lw_value_id *row, lw_value_id *column) {
  uint32_t rank = lw__b_rank(c, x);
  if (rank < 2) lw__call_invalid(c, "it needs a matrix");
  if (!lw__call_ok(c)) return;
  lw_shape r = {1, {lw__b_dim(c, x, rank - 2)}}, q = {1, {lw__b_dim(c, x, rank - 1)}};
  *row = lw__b_unsqueeze(c, lw__b_iota(c, LW_DTYPE_I64, &r, 0), 1);
  *column = lw__b_unsqueeze(c, lw__b_iota(c, LW_DTYPE_I64, &q, 0), 0);
}

void lw__op_eye_like(lw_call *c) {
  lw_value_id x = lw__call_in(c, 0), row = LW_NONE, column = LW_NONE;
  int64_t to = lw__call_int(c, "dtype", 0), k = lw__call_int(c, "k", 0);
  lw_dtype dtype = to == 0 ? lw__b_dtype(c, x) : lw__tensor_dtype((int32_t)to);
  if (dtype == LW_DTYPE_NONE) lw__call_unsupported(c, "type %lld", (long long)to);
  if (lw__b_rank(c, x) != 2) lw__call_invalid(c, "it needs a matrix");
  source_row_column(c, x, &row, &column);
  lw_value_id shape = lw__b_const(c, LW_DTYPE_I64, &(lw_shape){0}, &k);
  lw__call_out(c, 0,
               lw__b_cast(c, lw__b_map2(c, LW_FN_EQ, lw__b_add(c, row, shape), column), dtype));
}

void lw__op_trilu(lw_call *c) {
  lw_value_id x = lw__call_in(c, 0), k = lw__call_in(c, 1), row = LW_NONE, column = LW_NONE;
  bool upper = lw__call_int(c, "upper", 1) != 0;
  lw_shape scalar = {0};
  source_row_column(c, x, &row, &column);
  if (k != LW_NONE)
    row = lw__b_add(c, row, lw__b_reshape(c, lw__b_cast(c, k, LW_DTYPE_I64), &scalar));
  lw_value_id keep = lw__b_map2(c, upper ? LW_FN_GE : LW_FN_LE, column, row);
  lw_dtype dtype = lw__b_dtype(c, x);
  if (dtype == LW_DTYPE_BOOL)
    lw__call_out(c, 0, lw__b_map2(c, LW_FN_AND, keep, x));
  else
    lw__call_out(c, 0, lw__b_select(c, keep, x, lw__b_scalar(c, dtype, 0)));
}

void lw__op_one_hot(lw_call *c) {
  lw_value_id indices = lw__call_in(c, 0), values = lw__call_in(c, 2);
  uint32_t rank = lw__b_rank(c, indices), depth_count, axis;
  axis = lw__call_axis_attr(c, "axis", -1, rank + 1);
  const double *depth = lw__call_floats(c, 1, &depth_count);
  if (depth == NULL || rank >= LW_MAX_RANK) return;
  if (depth_count != 1 || !(depth[0] >= 0) || depth[0] > 1e15) lw__call_invalid(c, "bad depth");
  lw_shape two = lw__b_shape(c, values), scalar = {0};
  if (two.rank != 1 || two.dim[0] != 2) lw__call_invalid(c, "values must be [off, on]");
  if (!lw__call_ok(c)) return;
  lw_shape classes = {1, {(int64_t)depth[0]}};
  lw_value_id i = lw__b_cast(c, indices, LW_DTYPE_I64);
  i = lw__b_select(c, lw__b_map2s(c, LW_FN_LT, i, 0), lw__b_adds(c, i, trunc(depth[0])), i);
  lw_value_id number = lw__b_along(c, lw__b_iota(c, LW_DTYPE_I64, &classes, 0), axis, rank + 1);
  lw_value_id hit = lw__b_map2(c, LW_FN_EQ, lw__b_unsqueeze(c, i, axis), number);
  lw_value_id off = lw__b_reshape(c, lw__b_slice(c, values, 0, 0, 1, 1), &scalar);
  lw_value_id on = lw__b_reshape(c, lw__b_slice(c, values, 0, 1, 1, 1), &scalar);
  lw__call_out(c, 0, lw__b_select(c, hit, on, off));
}

/* ---- decided on import ----------------------------------------------------------------------*/

void lw__op_dropout(lw_call *c) {
  lw_value_id x = lw__call_in(c, 0);
  lw__call_ignore(c, "seed");
  lw__call_ignore(c, "is_test");
  double ratio = lw__call_float(c, "ratio", 0.5), training = 0;
  if (lw__call_has(c, 1) && !lw__call_known_scalar(c, c->in[1], &ratio)) ratio = 1;
  if (lw__call_has(c, 2) && !lw__call_known_scalar(c, c->in[2], &training)) training = 1;
  if (training != 0 && ratio != 0) lw__call_unsupported(c, "dropout in training mode");
  lw__call_out(c, 0, x);
  if (!lw__call_wants(c, 1)) return;
  lw_shape shape = lw__b_shape(c, x);
  lw_dtype dtype = c->opset < 10 ? lw__b_dtype(c, x) : LW_DTYPE_BOOL;
  lw__call_out(c, 1, lw__b_broadcast(c, lw__b_scalar(c, dtype, 1), &shape));
}

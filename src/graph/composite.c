/* composite.c: operators that are built from others, each in the one spelling that the passes know
 * and that networks spelled by hand are turned into. Reductions put the reduced dims back as ones
 * right away, as exporters do. */
#include "graph/infer.h"

/* The type in which |dtype| is computed. */
static lw_dtype compute_type(lw_dtype dtype) {
  return lw__dtype_is_float(dtype) && lw_dtype_size_bytes(dtype) < 4 ? LW_DTYPE_F32 : dtype;
}

static lw_status map2(lw_graph *g, lw_fn fn, lw_value_id a, lw_value_id b, lw_value_id *out) {
  return lw__graph_map_bc(g, fn, (lw_value_id[2]){a, b}, out);
}

/* |fn| of |a| and a constant of its type. */
static lw_status map_with_number(lw_graph *g, lw_fn fn, lw_value_id a, double number,
                                 lw_value_id *out) {
  lw_value_id constant = LW_NONE;
  LW_TRY(lw__graph_scalar(g, lw__value(g, a)->dtype, number, &constant));
  return map2(g, fn, a, constant, out);
}

/* |x| with ones put in where |axes| of |whole| were reduced away. */
static lw_status keep_dims(lw_graph *g, lw_value_id x, const lw_shape *whole, uint32_t axes,
                           lw_value_id *out) {
  lw_shape shape = *whole;
  for (uint32_t d = 0; d < shape.rank; d++) {
    if (axes >> d & 1) shape.dim[d] = 1;
  }
  return lw__graph_reshape(g, x, &shape, out);
}

static lw_status reduce_keep(lw_graph *g, lw_red red, lw_value_id x, uint32_t axes,
                             lw_value_id *out) {
  lw_shape whole = lw__value(g, x)->shape;
  lw_value_id reduced = LW_NONE;
  LW_TRY(lw__graph_reduce(g, red, x, axes, &reduced));
  return keep_dims(g, reduced, &whole, axes, out);
}

/* Number of elements that are reduced into one. */
static lw_status reduced_count(lw_graph *g, const lw_shape *shape, uint32_t axes, int64_t *out) {
  lw_shape reduced = {0};
  lw_text text = {0};
  for (uint32_t d = 0; d < shape->rank; d++) {
    if (axes >> d & 1) reduced.dim[reduced.rank++] = shape->dim[d];
  }
  *out = lw__shape_numel(&reduced);
  if (*out >= 0) return LW_OK;
  lw__shape_print(g, &reduced, &text);
  lw__fail(g->diag, LW_STATUS_UNSUPPORTED, lw__graph_where(g),
           "a mean over %s needs numbers for the symbols in there", lw__text_str(&text));
  lw__text_deinit(&text);
  return LW_STATUS_UNSUPPORTED;
}

/* sum(x) / n in x's own type, dims kept. */
static lw_status mean_keep(lw_graph *g, lw_value_id x, uint32_t axes, lw_value_id *out) {
  int64_t count = 0;
  lw_value_id sum = LW_NONE, mean = LW_NONE;
  lw_shape whole = lw__value(g, x)->shape;
  LW_TRY(reduced_count(g, &whole, axes, &count));
  LW_TRY(lw__graph_reduce(g, LW_RED_SUM, x, axes, &sum));
  LW_TRY(map_with_number(g, LW_FN_DIV, sum, (double)count, &mean));
  return keep_dims(g, mean, &whole, axes, out);
}

lw_status lw__graph_mean(lw_graph *g, lw_value_id x, uint32_t axes, bool keep, lw_value_id *out) {
  LW_TRY(lw__graph_require_value(g, x));
  lw_dtype dtype = lw__value(g, x)->dtype;
  lw_shape whole = lw__value(g, x)->shape, dropped = {0};
  LW_TRY(lw__graph_cast(g, x, compute_type(dtype), &x));
  LW_TRY(mean_keep(g, x, axes, &x));
  for (uint32_t d = 0; d < whole.rank; d++) {
    if ((axes >> d & 1) == 0) dropped.dim[dropped.rank++] = whole.dim[d];
  }
  if (!keep)
    LW_TRY(lw__graph_reshape(g, x, &dropped, &x)); /* folds with the reshape of mean_keep */
  return lw__graph_cast(g, x, dtype, out);
}

lw_status lw__graph_softmax(lw_graph *g, lw_value_id x, uint32_t axes, bool log, lw_value_id *out) {
  LW_TRY(lw__graph_require_value(g, x));
  lw_dtype dtype = lw__value(g, x)->dtype;
  lw_value_id max = LW_NONE, centred = LW_NONE, e = LW_NONE, sum = LW_NONE, result = LW_NONE;
  LW_TRY(lw__graph_cast(g, x, compute_type(dtype), &x));
  LW_TRY(reduce_keep(g, LW_RED_MAX, x, axes, &max));
  LW_TRY(map2(g, LW_FN_SUB, x, max, &centred));
  LW_TRY(lw__graph_map(g, LW_FN_EXP, &centred, &e));
  LW_TRY(reduce_keep(g, LW_RED_SUM, e, axes, &sum));
  if (log) {
    LW_TRY(lw__graph_map(g, LW_FN_LOG, &sum, &sum));
    LW_TRY(map2(g, LW_FN_SUB, centred, sum, &result));
  } else {
    LW_TRY(map2(g, LW_FN_DIV, e, sum, &result));
  }
  return lw__graph_cast(g, result, dtype, out);
}

/* fn(x, operand) where there is an operand. */
static lw_status apply_optional(lw_graph *g, lw_fn fn, lw_value_id x, lw_value_id operand,
                                lw_value_id *out) {
  *out = x;
  if (operand == LW_NONE) return LW_OK;
  LW_TRY(lw__graph_require_value(g, operand));
  LW_TRY(lw__graph_cast(g, operand, lw__value(g, x)->dtype, &operand));
  lw_shape shape = lw__value(g, x)->shape;
  LW_TRY(lw__graph_broadcast(g, operand, &shape, &operand)); /* to x: the result keeps x's shape */
  return lw__graph_map(g, fn, (lw_value_id[2]){x, operand}, out);
}

lw_status lw__graph_layer_norm(lw_graph *g, lw_value_id x, uint32_t axes, double epsilon,
                               lw_value_id scale, lw_value_id bias, lw_value_id *out,
                               lw_value_id *out_mean, lw_value_id *out_rstd) {
  LW_TRY(lw__graph_require_value(g, x));
  lw_dtype dtype = lw__value(g, x)->dtype;
  lw_value_id mean = LW_NONE, centred = LW_NONE, square = LW_NONE, variance = LW_NONE,
              rstd = LW_NONE;
  LW_TRY(lw__graph_cast(g, x, compute_type(dtype), &x));
  LW_TRY(mean_keep(g, x, axes, &mean));
  LW_TRY(map2(g, LW_FN_SUB, x, mean, &centred));
  LW_TRY(map2(g, LW_FN_MUL, centred, centred, &square));
  LW_TRY(mean_keep(g, square, axes, &variance));
  LW_TRY(map_with_number(g, LW_FN_ADD, variance, epsilon, &variance));
  LW_TRY(lw__graph_map(g, LW_FN_RSQRT, &variance, &rstd));
  LW_TRY(map2(g, LW_FN_MUL, centred, rstd, &x));
  LW_TRY(apply_optional(g, LW_FN_MUL, x, scale, &x));
  LW_TRY(apply_optional(g, LW_FN_ADD, x, bias, &x));
  if (out_mean != NULL) *out_mean = mean;
  if (out_rstd != NULL) *out_rstd = rstd;
  return lw__graph_cast(g, x, dtype, out);
}

/* sqrt(2/pi) * (x + 0.044715 * x^3), the argument of the tanh form. */
static lw_status gelu_tanh_argument(lw_graph *g, lw_value_id x, lw_value_id *out) {
  lw_value_id cube = LW_NONE;
  LW_TRY(map2(g, LW_FN_MUL, x, x, &cube));
  LW_TRY(map2(g, LW_FN_MUL, cube, x, &cube));
  LW_TRY(map_with_number(g, LW_FN_MUL, cube, 0.044715, &cube));
  LW_TRY(map2(g, LW_FN_ADD, x, cube, &cube));
  return map_with_number(g, LW_FN_MUL, cube, 0.79788456080286535588, out);
}

lw_status lw__graph_gelu(lw_graph *g, lw_value_id x, bool tanh_form, lw_value_id *out) {
  LW_TRY(lw__graph_require_value(g, x));
  lw_dtype dtype = lw__value(g, x)->dtype;
  lw_value_id half = LW_NONE, bell = LW_NONE;
  LW_TRY(lw__graph_cast(g, x, compute_type(dtype), &x));
  LW_TRY(map_with_number(g, LW_FN_MUL, x, 0.5, &half));
  if (tanh_form) {
    LW_TRY(gelu_tanh_argument(g, x, &bell));
  } else {
    LW_TRY(map_with_number(g, LW_FN_MUL, x, 0.70710678118654752440, &bell)); /* sqrt(1/2) */
  }
  LW_TRY(lw__graph_map(g, tanh_form ? LW_FN_TANH : LW_FN_ERF, &bell, &bell));
  LW_TRY(map_with_number(g, LW_FN_ADD, bell, 1, &bell));
  LW_TRY(map2(g, LW_FN_MUL, half, bell, &x));
  return lw__graph_cast(g, x, dtype, out);
}

lw_status lw__graph_relu(lw_graph *g, lw_value_id x, lw_value_id *out) {
  LW_TRY(lw__graph_require_value(g, x));
  return map_with_number(g, LW_FN_MAX, x, 0, out);
}

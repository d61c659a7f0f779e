/* infer.c: type and shape of every operator's result: one function per operator, one table. */
#include "graph/infer.h"

#include <string.h>

typedef struct infer_ctx {
  lw_graph *g;
  lw_op op;
  const lw_attr *attr;
  const lw_value_id *in;
  uint32_t count;
  lw_dtype *dtype;
  lw_shape *shape;
} infer_ctx;

enum { SHOWN_OPERANDS = 4 };
#define NUMBER_LIMIT INT32_MAX /* of strides, dilations, pads, groups */

static const lw_value *operand_of(const infer_ctx *c, uint32_t i) {
  return lw__value(c->g, c->in[i]);
}

void lw__text_add_op(lw_text *out, lw_op op, const lw_attr *attr) {
  lw__text_add(out, "%s", lw__op_info[op].name);
  if (op == LW_OP_MAP) lw__text_add(out, ".%s", lw__fn_info[attr->fn].name);
  if (op == LW_OP_REDUCE) lw__text_add(out, ".%s", lw__red_info[attr->reduce.fn].name);
}

/* ---- refusals ---------------------------------------------------------------------------------*/

/* "dot: <text>; operands f32[2, 3], f32[4, 5]" */
static lw_status refuse_infer(const infer_ctx *c, lw_status status, const char *fmt, ...)
    LW_PRINTF(3, 4);
static lw_status refuse_infer(const infer_ctx *c, lw_status status, const char *fmt, ...) {
  lw_text text = {0};
  va_list args;
  lw__text_add_op(&text, c->op, c->attr);
  lw__text_add(&text, ": ");
  va_start(args, fmt);
  lw__text_vadd(&text, fmt, args);
  va_end(args);
  for (uint32_t i = 0; i < c->count && i < SHOWN_OPERANDS; i++) {
    const lw_value *v = operand_of(c, i);
    const char *before = i > 0 ? ", " : c->count > 1 ? "; operands " : "; operand ";
    lw__text_add(&text, "%s%s", before, lw_dtype_name(v->dtype));
    lw__shape_print(c->g, &v->shape, &text);
  }
  if (c->count > SHOWN_OPERANDS) lw__text_add(&text, ", ...");
  lw__fail(c->g->diag, status, lw__graph_where(c->g), "%s", lw__text_str(&text));
  lw__text_deinit(&text);
  return status;
}

static lw_status invalid_type(const infer_ctx *c, lw_dtype dtype) {
  return refuse_infer(c, LW_STATUS_MODEL_INVALID, "not defined for %s", lw_dtype_name(dtype));
}

/* The two extents must be the same number: a violation when they cannot be, undecided while symbols
 * are open. */
static lw_status require_equal(const infer_ctx *c, const char *what, lw_extent a, lw_extent b) {
  lw_relation relation = lw__extent_relation(c->g, a, b);
  if (relation == LW_EXTENTS_EQUAL) return LW_OK;
  lw_text left = {0}, right = {0}, symbols = {0};
  lw_status status = LW_STATUS_MODEL_INVALID;
  lw__extent_print(c->g, a, &left);
  lw__extent_print(c->g, b, &right);
  if (relation == LW_EXTENTS_DIFFER) {
    refuse_infer(c, status, "%s: %s and %s differ", what, lw__text_str(&left),
                 lw__text_str(&right));
  } else {
    status = LW_STATUS_UNSUPPORTED;
    lw__extent_list_symbols(c->g, a, NULL, &symbols);
    lw__extent_list_symbols(c->g, b, NULL, &symbols);
    refuse_infer(c, status, "%s: %s and %s are not known to be equal; needs numbers for %s", what,
                 lw__text_str(&left), lw__text_str(&right), lw__text_str(&symbols));
  }
  lw__text_deinit(&left);
  lw__text_deinit(&right);
  lw__text_deinit(&symbols);
  return status;
}

static lw_status require_number(const infer_ctx *c, const char *what, lw_extent e) {
  if (lw__extent_is_number(e)) return LW_OK;
  lw_text symbols = {0};
  lw__extent_list_symbols(c->g, e, NULL, &symbols);
  lw_status status =
      refuse_infer(c, LW_STATUS_UNSUPPORTED, "%s must be a number; needs numbers for %s", what,
                   lw__text_str(&symbols));
  lw__text_deinit(&symbols);
  return status;
}

static lw_status require_rank(const infer_ctx *c, uint32_t rank) {
  if (rank <= LW_MAX_RANK) return LW_OK;
  return refuse_infer(c, LW_STATUS_UNSUPPORTED,
                      "%u dimensions, more than the %d that are supported", rank, LW_MAX_RANK);
}

/* Every list of |count| numbers must lie in lo .. NUMBER_LIMIT. */
static lw_status require_range(const infer_ctx *c, const char *what, const int64_t *list,
                               uint32_t count, int64_t lo) {
  for (uint32_t i = 0; i < count; i++) {
    if (list[i] < lo || list[i] > NUMBER_LIMIT) {
      return refuse_infer(c, LW_STATUS_MODEL_INVALID, "%s %lld is out of range", what,
                          (long long)list[i]);
    }
  }
  return LW_OK;
}

static lw_status overflow(const infer_ctx *c) {
  return refuse_infer(c, LW_STATUS_MODEL_INVALID, "the numbers overflow 64 bits");
}

static lw_status same_types(const infer_ctx *c, uint32_t from) {
  for (uint32_t i = from + 1; i < c->count; i++) {
    if (operand_of(c, i)->dtype != operand_of(c, from)->dtype) {
      return refuse_infer(c, LW_STATUS_MODEL_INVALID, "operands of different types");
    }
  }
  return LW_OK;
}

static lw_status arithmetic_types(const infer_ctx *c) {
  lw_dtype dtype = operand_of(c, 0)->dtype;
  LW_TRY(same_types(c, 0));
  *c->dtype = lw__fn_result_type(LW_FN_ADD, dtype);
  return *c->dtype == LW_DTYPE_NONE ? invalid_type(c, dtype) : LW_OK;
}

/* ---- sources and maps -------------------------------------------------------------------------*/

static lw_status infer_given(const infer_ctx *c) {
  (void)c;
  return LW_OK;
}

static lw_status infer_const(const infer_ctx *c) {
  int64_t numel = lw__shape_numel(c->shape);
  for (uint32_t d = 0; d < c->shape->rank; d++)
    LW_TRY(require_number(c, "a dimension", c->shape->dim[d]));
  if (numel < 0) return refuse_infer(c, LW_STATUS_UNSUPPORTED, "too many elements");
  size_t bytes = (size_t)numel * lw_dtype_size_bytes(*c->dtype);
  if (c->attr->constant.bytes != bytes || (bytes > 0 && c->attr->constant.data == NULL)) {
    return refuse_infer(c, LW_STATUS_MODEL_INVALID, "%zu bytes of data, the shape needs %zu",
                        c->attr->constant.bytes, bytes);
  }
  return LW_OK;
}

static lw_status infer_iota(const infer_ctx *c) {
  if (!lw__dtype_is_int(*c->dtype)) return invalid_type(c, *c->dtype);
  if (c->attr->axis >= c->shape->rank) {
    return refuse_infer(c, LW_STATUS_MODEL_INVALID, "axis %u of a tensor of rank %u", c->attr->axis,
                        c->shape->rank);
  }
  return LW_OK;
}

static lw_status infer_map(const infer_ctx *c) {
  const lw_fn_info *info = &lw__fn_info[c->attr->fn];
  uint32_t typed =
      info->domain == LW_DOMAIN_SELECT ? 1 : 0; /* the first operand that sets the type */
  if (c->count != info->arity) {
    return refuse_infer(c, LW_STATUS_MODEL_INVALID, "takes %u operands, not %u", info->arity,
                        c->count);
  }
  lw_dtype dtype = operand_of(c, typed)->dtype;
  LW_TRY(same_types(c, typed));
  if (typed == 1 && operand_of(c, 0)->dtype != LW_DTYPE_BOOL) {
    return refuse_infer(c, LW_STATUS_MODEL_INVALID, "the first operand must be bool");
  }
  if (info->domain != LW_DOMAIN_CAST) {
    *c->dtype = lw__fn_result_type(c->attr->fn, dtype);
    if (*c->dtype == LW_DTYPE_NONE) return invalid_type(c, dtype);
  }
  const lw_shape *shape = &operand_of(c, 0)->shape;
  for (uint32_t i = 1; i < c->count; i++) {
    const lw_shape *other = &operand_of(c, i)->shape;
    if (other->rank != shape->rank)
      return refuse_infer(c, LW_STATUS_MODEL_INVALID, "operands of different rank");
    for (uint32_t d = 0; d < shape->rank; d++)
      LW_TRY(require_equal(c, "dimensions", shape->dim[d], other->dim[d]));
  }
  *c->shape = *shape;
  return LW_OK;
}

/* ---- movement ---------------------------------------------------------------------------------*/

static lw_status infer_reshape(const infer_ctx *c) {
  const lw_value *v = operand_of(c, 0);
  *c->dtype = v->dtype;
  if (lw__shape_numel_relation(c->g, &v->shape, c->shape) != LW_EXTENTS_DIFFER) return LW_OK;
  lw_text text = {0};
  lw__shape_print(c->g, c->shape, &text);
  refuse_infer(c, LW_STATUS_MODEL_INVALID, "%s has another number of elements",
               lw__text_str(&text));
  lw__text_deinit(&text);
  return LW_STATUS_MODEL_INVALID;
}

static lw_status infer_permute(const infer_ctx *c) {
  const lw_value *v = operand_of(c, 0);
  uint32_t seen = 0;
  *c->dtype = v->dtype;
  c->shape->rank = v->shape.rank;
  for (uint32_t d = 0; d < v->shape.rank; d++) {
    uint8_t from = c->attr->perm[d];
    if (from >= v->shape.rank || (seen >> from & 1) != 0) {
      return refuse_infer(c, LW_STATUS_MODEL_INVALID,
                          "perm is not a permutation of the dimensions");
    }
    seen |= 1u << from;
    c->shape->dim[d] = v->shape.dim[from];
  }
  return LW_OK;
}

static lw_status infer_expand(const infer_ctx *c) {
  const lw_value *v = operand_of(c, 0);
  *c->dtype = v->dtype;
  if (c->shape->rank != v->shape.rank) {
    return refuse_infer(c, LW_STATUS_MODEL_INVALID, "to %u dimensions from %u", c->shape->rank,
                        v->shape.rank);
  }
  for (uint32_t d = 0; d < v->shape.rank; d++) {
    if (v->shape.dim[d] != 1)
      LW_TRY(require_equal(c, "a dimension that is not 1", v->shape.dim[d], c->shape->dim[d]));
  }
  return LW_OK;
}

static lw_status outside(const infer_ctx *c, uint32_t d) {
  return refuse_infer(c, LW_STATUS_MODEL_INVALID, "reads outside of dimension %u", d);
}

/* Refuses what is outside for certain: with open symbols the rest is looked at again when they are
 * bound. */
static lw_status check_slice_dim(const infer_ctx *c, uint32_t d) {
  lw_extent size = operand_of(c, 0)->shape.dim[d], count = c->shape->dim[d];
  int64_t start = c->attr->slice.start[d], step = c->attr->slice.step[d], lo = 0, hi = 0, reach = 0,
          last = 0;
  if (step == 0) return refuse_infer(c, LW_STATUS_MODEL_INVALID, "step 0 in dimension %u", d);
  if (count == 0) return LW_OK;
  lw__extent_difference(c->g, count, 0, &lo, &hi);
  if (lo < 1) return LW_OK; /* may be empty */
  if (!lw__mul_i64(lo - 1, step, &reach) || !lw__add_i64(start, reach, &last)) return overflow(c);
  if (start < 0 || last < 0) return outside(c, d);
  lw__extent_difference(c->g, size, lw__max_i64(start, last), &lo, &hi);
  return hi < 1 ? outside(c, d) : LW_OK;
}

static lw_status infer_slice(const infer_ctx *c) {
  const lw_value *v = operand_of(c, 0);
  *c->dtype = v->dtype;
  if (c->shape->rank != v->shape.rank)
    return refuse_infer(c, LW_STATUS_MODEL_INVALID, "changes the rank");
  for (uint32_t d = 0; d < v->shape.rank; d++) LW_TRY(check_slice_dim(c, d));
  return LW_OK;
}

static lw_status infer_pad(const infer_ctx *c) {
  const lw_value *v = operand_of(c, 0);
  *c->dtype = v->dtype;
  if (c->shape->rank != v->shape.rank)
    return refuse_infer(c, LW_STATUS_MODEL_INVALID, "changes the rank");
  for (uint32_t d = 0; d < v->shape.rank; d++) {
    int64_t before = c->attr->pad.lo[d], lo = 0, hi = 0;
    lw__extent_difference(c->g, c->shape->dim[d], v->shape.dim[d], &lo, &hi);
    if (before < 0 || hi < before) {
      return refuse_infer(c, LW_STATUS_MODEL_INVALID, "negative padding in dimension %u", d);
    }
  }
  return LW_OK;
}

/* Positions of a window of |size| taps over |length| + |pad| elements. With a symbolic length the
 * result is exact where the window fits at least once or misses by less than a stride; shorter
 * lengths are refused when the symbol is bound. */
static lw_status window_positions(const infer_ctx *c, lw_extent length, int64_t size,
                                  int64_t stride, int64_t dilation, int64_t pad, lw_extent *out) {
  int64_t span = 0, rest = 0;
  if (!lw__mul_i64(size - 1, dilation, &span) || !lw__add_i64(pad, -span - 1, &rest))
    return overflow(c);
  if (lw__extent_is_number(length)) {
    if (!lw__add_i64(length, rest, &rest)) return overflow(c);
    *out = rest < 0 ? 0 : rest / stride + 1;
    return LW_OK;
  }
  lw_xval x = lw__xval_of(length);
  LW_TRY(lw__extent_combine(c->g, LW_EXTENT_ADD, x, lw__xval_literal(rest), &x));
  LW_TRY(lw__extent_combine(c->g, LW_EXTENT_FLOORDIV, x, lw__xval_literal(stride), &x));
  LW_TRY(lw__extent_combine(c->g, LW_EXTENT_ADD, x, lw__xval_literal(1), &x));
  return lw__extent_from_xval(c->g, x, out);
}

static lw_status infer_window(const infer_ctx *c) {
  const lw_value *v = operand_of(c, 0);
  uint32_t rank = v->shape.rank, count = c->attr->window.count, seen = 0;
  *c->dtype = v->dtype;
  if (count < 1 || count > LW_ARRAY_COUNT(c->attr->window.axis)) {
    return refuse_infer(c, LW_STATUS_MODEL_INVALID, "%u windows", count);
  }
  LW_TRY(require_rank(c, rank + count));
  LW_TRY(require_range(c, "stride", c->attr->window.stride, count, 1));
  LW_TRY(require_range(c, "dilation", c->attr->window.dilation, count, 1));
  if (c->shape->rank != rank + count)
    return refuse_infer(c, LW_STATUS_MODEL_INVALID, "the result has another rank");
  memcpy(c->shape->dim, v->shape.dim, rank * sizeof v->shape.dim[0]);
  for (uint32_t i = 0; i < count; i++) {
    uint8_t axis = c->attr->window.axis[i];
    if (axis >= rank || (seen >> axis & 1) != 0)
      return refuse_infer(c, LW_STATUS_MODEL_INVALID, "bad axis %u", axis);
    seen |= 1u << axis;
    LW_TRY(require_number(c, "the number of taps", c->shape->dim[rank + i]));
    LW_TRY(require_range(c, "the number of taps", &c->shape->dim[rank + i], 1, 0));
    LW_TRY(window_positions(c, v->shape.dim[axis], c->shape->dim[rank + i],
                            c->attr->window.stride[i], c->attr->window.dilation[i], 0,
                            &c->shape->dim[axis]));
  }
  return LW_OK;
}

static lw_status infer_concat(const infer_ctx *c) {
  const lw_shape *first = &operand_of(c, 0)->shape;
  uint32_t axis = c->attr->axis;
  LW_TRY(same_types(c, 0));
  if (axis >= first->rank) {
    return refuse_infer(c, LW_STATUS_MODEL_INVALID, "axis %u of tensors of rank %u", axis,
                        first->rank);
  }
  *c->dtype = operand_of(c, 0)->dtype;
  *c->shape = *first;
  for (uint32_t i = 1; i < c->count; i++) {
    const lw_shape *other = &operand_of(c, i)->shape;
    if (other->rank != first->rank)
      return refuse_infer(c, LW_STATUS_MODEL_INVALID, "operands of different rank");
    for (uint32_t d = 0; d < first->rank; d++) {
      if (d != axis)
        LW_TRY(require_equal(c, "dimensions beside the axis", first->dim[d], other->dim[d]));
    }
    LW_TRY(lw__extent_make(c->g, LW_EXTENT_ADD, c->shape->dim[axis], other->dim[axis],
                           &c->shape->dim[axis]));
  }
  return LW_OK;
}

/* ---- computation ------------------------------------------------------------------------------*/

static lw_status infer_reduce(const infer_ctx *c) {
  const lw_value *v = operand_of(c, 0);
  uint32_t axes = c->attr->reduce.axes;
  *c->dtype = lw__fn_result_type(lw__red_info[c->attr->reduce.fn].combine, v->dtype);
  if (*c->dtype == LW_DTYPE_NONE) return invalid_type(c, v->dtype);
  if (axes >> v->shape.rank != 0)
    return refuse_infer(c, LW_STATUS_MODEL_INVALID, "an axis beyond the rank");
  c->shape->rank = 0;
  for (uint32_t d = 0; d < v->shape.rank; d++) {
    if ((axes >> d & 1) == 0) c->shape->dim[c->shape->rank++] = v->shape.dim[d];
  }
  return LW_OK;
}

static lw_status infer_dot(const infer_ctx *c) {
  const lw_shape *a = &operand_of(c, 0)->shape, *b = &operand_of(c, 1)->shape;
  LW_TRY(arithmetic_types(c));
  if (a->rank < 2 || a->rank != b->rank)
    return refuse_infer(c, LW_STATUS_MODEL_INVALID, "needs two operands of one rank >= 2");
  for (uint32_t d = 0; d + 2 < a->rank; d++)
    LW_TRY(require_equal(c, "batch dimensions", a->dim[d], b->dim[d]));
  LW_TRY(require_equal(c, "inner dimensions", a->dim[a->rank - 1], b->dim[b->rank - 2]));
  *c->shape = *a;
  c->shape->dim[a->rank - 1] = b->dim[b->rank - 1];
  return LW_OK;
}

static lw_status check_conv_attr(const infer_ctx *c) {
  const lw_conv_attr *conv = &c->attr->conv;
  const lw_shape *x = &operand_of(c, 0)->shape, *w = &operand_of(c, 1)->shape;
  if (conv->spatial < 1 || conv->spatial > LW_ARRAY_COUNT(conv->stride)) {
    return refuse_infer(c, LW_STATUS_UNSUPPORTED, "%u spatial dimensions", conv->spatial);
  }
  if (x->rank != conv->spatial + 2 || w->rank != x->rank) {
    return refuse_infer(c, LW_STATUS_MODEL_INVALID, "operands must have %u dimensions",
                        conv->spatial + 2);
  }
  int64_t least_pad = conv->transposed ? -(int64_t)NUMBER_LIMIT : 0;
  LW_TRY(require_range(c, "stride", conv->stride, conv->spatial, 1));
  LW_TRY(require_range(c, "dilation", conv->dilation, conv->spatial, 1));
  LW_TRY(require_range(c, "pad", conv->pad_lo, conv->spatial, least_pad));
  LW_TRY(require_range(c, "pad", conv->pad_hi, conv->spatial, least_pad));
  LW_TRY(require_range(c, "group", &conv->group, 1, 1));
  for (uint32_t s = 0; s < conv->spatial; s++) {
    LW_TRY(require_number(c, "the size of the kernel", w->dim[2 + s]));
    LW_TRY(require_range(c, "the size of the kernel", &w->dim[2 + s], 1, 0));
  }
  return LW_OK;
}

/* Channels: x [N, C, ..], w [M, C/g, ..], transposed w [C, M/g, ..]. */
static lw_status conv_channels(const infer_ctx *c, lw_extent *out_channels) {
  const lw_shape *x = &operand_of(c, 0)->shape, *w = &operand_of(c, 1)->shape;
  int64_t group = c->attr->conv.group;
  lw_extent remainder = 0;
  LW_TRY(lw__extent_make(c->g, LW_EXTENT_MOD, w->dim[0], group, &remainder));
  LW_TRY(require_equal(c, "channels modulo the number of groups", remainder, 0));
  if (c->attr->conv.transposed) {
    LW_TRY(require_equal(c, "channels", x->dim[1], w->dim[0]));
    return lw__extent_affine(c->g, w->dim[1], group, 0, out_channels);
  }
  lw_extent channels = 0;
  LW_TRY(lw__extent_affine(c->g, w->dim[1], group, 0, &channels));
  LW_TRY(require_equal(c, "channels", x->dim[1], channels));
  *out_channels = w->dim[0];
  return LW_OK;
}

/* (length - 1) * stride + (size - 1) * dilation + 1 - pads; no elements where that is negative. */
static lw_status transposed_size(const infer_ctx *c, uint32_t s, lw_extent length, int64_t size,
                                 lw_extent *out) {
  const lw_conv_attr *conv = &c->attr->conv;
  int64_t rest = 0, scaled = 0;
  if (!lw__mul_i64(size - 1, conv->dilation[s], &rest)) return overflow(c);
  if (!lw__add_i64(rest, 1 - conv->stride[s] - conv->pad_lo[s] - conv->pad_hi[s], &rest))
    return overflow(c);
  if (!lw__extent_is_number(length))
    return lw__extent_affine(c->g, length, conv->stride[s], rest, out);
  if (!lw__mul_i64(length, conv->stride[s], &scaled) || !lw__add_i64(scaled, rest, &scaled))
    return overflow(c);
  *out = lw__max_i64(scaled, 0);
  return LW_OK;
}

static lw_status infer_conv(const infer_ctx *c) {
  const lw_conv_attr *conv = &c->attr->conv;
  const lw_shape *x = &operand_of(c, 0)->shape, *w = &operand_of(c, 1)->shape;
  LW_TRY(arithmetic_types(c));
  LW_TRY(check_conv_attr(c));
  c->shape->rank = x->rank;
  c->shape->dim[0] = x->dim[0];
  LW_TRY(conv_channels(c, &c->shape->dim[1]));
  for (uint32_t s = 0; s < conv->spatial; s++) {
    lw_extent *out = &c->shape->dim[2 + s];
    if (conv->transposed) {
      LW_TRY(transposed_size(c, s, x->dim[2 + s], w->dim[2 + s], out));
    } else {
      LW_TRY(window_positions(c, x->dim[2 + s], w->dim[2 + s], conv->stride[s], conv->dilation[s],
                              conv->pad_lo[s] + conv->pad_hi[s], out));
    }
  }
  return LW_OK;
}

static lw_status infer_gather(const infer_ctx *c) {
  const lw_value *data = operand_of(c, 0);
  *c->dtype = data->dtype;
  for (uint32_t i = 1; i < c->count; i++) {
    const lw_value *index = operand_of(c, i);
    if (index->dtype != LW_DTYPE_I64 && index->dtype != LW_DTYPE_I32)
      return invalid_type(c, index->dtype);
    if (index->shape.rank != c->shape->rank) {
      return refuse_infer(c, LW_STATUS_MODEL_INVALID, "an index of another shape than the result");
    }
    for (uint32_t d = 0; d < c->shape->rank; d++) {
      LW_TRY(require_equal(c, "index and result", index->shape.dim[d], c->shape->dim[d]));
    }
  }
  for (uint32_t d = 0; d < data->shape.rank; d++) {
    int32_t select = c->attr->gather.select[d];
    int64_t lo = 0, hi = 0;
    if (select >= 0 && (uint32_t)select + 1 < c->count) continue;
    if (select >= 0 || (uint32_t)(-1 - select) >= c->shape->rank) {
      return refuse_infer(c, LW_STATUS_MODEL_INVALID,
                          "selects nothing that is there in dimension %u", d);
    }
    lw__extent_difference(c->g, data->shape.dim[d], c->shape->dim[-1 - select], &lo, &hi);
    if (hi < 0 && lw__shape_numel(c->shape) != 0) return outside(c, d);
  }
  return LW_OK;
}

/* ---- dispatch ---------------------------------------------------------------------------------*/

static lw_status (*const infer_table[LW_OP_COUNT])(const infer_ctx *c) = {
    [LW_OP_INPUT] = infer_given,   [LW_OP_CONST] = infer_const,     [LW_OP_IOTA] = infer_iota,
    [LW_OP_MAP] = infer_map,       [LW_OP_RESHAPE] = infer_reshape, [LW_OP_PERMUTE] = infer_permute,
    [LW_OP_EXPAND] = infer_expand, [LW_OP_SLICE] = infer_slice,     [LW_OP_PAD] = infer_pad,
    [LW_OP_WINDOW] = infer_window, [LW_OP_CONCAT] = infer_concat,   [LW_OP_REDUCE] = infer_reduce,
    [LW_OP_DOT] = infer_dot,       [LW_OP_CONV] = infer_conv,       [LW_OP_GATHER] = infer_gather,
};

static bool selectors_known(lw_op op, const lw_attr *attr) {
  if (op == LW_OP_MAP) return (unsigned)attr->fn < LW_FN_COUNT;
  return op != LW_OP_REDUCE || (unsigned)attr->reduce.fn < LW_RED_COUNT;
}

static lw_status check_shape(const infer_ctx *c, const lw_shape *shape) {
  LW_TRY(require_rank(c, shape->rank));
  for (uint32_t d = 0; d < shape->rank; d++) {
    if (!lw__extent_is_valid(c->g, shape->dim[d])) {
      return refuse_infer(c, LW_STATUS_MODEL_INVALID, "dimension %u is no size", d);
    }
  }
  if (lw__shape_is_static(shape) && lw__shape_numel(shape) < 0) {
    return refuse_infer(c, LW_STATUS_UNSUPPORTED, "too many elements");
  }
  return LW_OK;
}

lw_status lw__infer(lw_graph *graph, lw_op op, const lw_attr *attr, const lw_value_id *in,
                    uint32_t count, lw_dtype *dtype, lw_shape *shape) {
  const char *where = lw__graph_where(graph);
  if ((unsigned)op >= LW_OP_COUNT || !selectors_known(op, attr)) {
    return lw__fail(graph->diag, LW_STATUS_INTERNAL, where, "no such operator");
  }
  for (uint32_t i = 0; i < count; i++) {
    if (in[i] < graph->values.count) continue;
    return lw__fail(graph->diag, LW_STATUS_INTERNAL, where, "%s: operand %u is no value",
                    lw__op_info[op].name, i);
  }
  infer_ctx c = {graph, op, attr, in, count, dtype, shape};
  const lw_op_info *info = &lw__op_info[op];
  if (count < info->min_operands || count > info->max_operands) {
    return refuse_infer(&c, LW_STATUS_MODEL_INVALID, "%u operands", count);
  }
  LW_TRY(check_shape(&c, shape));
  LW_TRY(infer_table[op](&c));
  if (*dtype <= LW_DTYPE_NONE || *dtype >= LW_DTYPE_COUNT) {
    return refuse_infer(&c, LW_STATUS_MODEL_INVALID, "no such element type");
  }
  return check_shape(&c, shape);
}

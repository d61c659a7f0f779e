/* op_shape.c: operators that move elements or speak about shapes, and sources. */
#include <math.h>
#include <string.h>

#include "compiler/onnx/bounded.h"
#include "compiler/onnx/import_internal.h"
#include "compiler/onnx/op.h"

/* ---- symbolic elements ----------------------------------------------------------------------*/

lw_value_id lw__op_elements(lw_call *c, const lw_content_elem *elems, uint32_t count, bool scalar) {
  int64_t numbers[LW_CONTENT_MAX] = {0};
  bool symbolic = false;
  if (!lw__call_ok(c) || count > LW_CONTENT_MAX) return LW_NONE;
  for (uint32_t i = 0; i < count; i++) {
    symbolic |= elems[i].kind != LW_CONTENT_NUMBER;
    if (elems[i].kind == LW_CONTENT_NUMBER) numbers[i] = elems[i].value.i;
  }
  lw_shape shape = {.rank = scalar ? 0 : 1, .dim = {count}};
  lw_value_id value = lw__b_const(c, LW_DTYPE_I64, &shape, numbers);
  if (!symbolic || value == LW_NONE) return value;
  if (!lw__call_keep(c, lw__contents_define(&c->im->contents, value, elems, count))) return LW_NONE;
  return lw__call_keep(c, lw_vec_push(&c->im->placeholders, value)) ? value : LW_NONE;
}

bool lw__op_shape_of_elems(lw_call *c, const lw_content_elem *elems, uint32_t rank, lw_shape *out) {
  *out = (lw_shape){.rank = rank};
  for (uint32_t d = 0; d < rank && lw__call_ok(c); d++) {
    out->dim[d] = elems[d].kind == LW_CONTENT_EXTENT ? elems[d].extent : elems[d].value.i;
    if (elems[d].kind == LW_CONTENT_NUMBER && elems[d].value.i < 0) {
      lw__call_invalid(c, "a dimension of %lld", (long long)elems[d].value.i);
    }
  }
  return lw__call_ok(c);
}

void lw__op_shape(lw_call *c) {
  lw_shape shape = lw__b_shape(c, lw__call_in(c, 0));
  int64_t rank = shape.rank, start = lw__call_int(c, "start", 0),
          end = lw__call_int(c, "end", rank);
  start = lw__max_i64(0, lw__min_i64(start < 0 ? start + rank : start, rank));
  end = lw__max_i64(0, lw__min_i64(end < 0 ? end + rank : end, rank));
  lw_value_id counted = lw__call_bound_shape(c, lw__call_in(c, 0), start, end);
  if (counted != LW_NONE) {
    lw__call_out(c, 0, counted);
    return;
  }
  lw_content_elem elems[LW_MAX_RANK];
  uint32_t count = 0;
  for (int64_t d = start; d < end; d++) elems[count++] = lw__content_extent(shape.dim[d]);
  lw__call_out(c, 0, lw__op_elements(c, elems, count, false));
}

void lw__op_size(lw_call *c) {
  lw_shape shape = lw__b_shape(c, lw__call_in(c, 0));
  lw_value_id counted = lw__call_bound_shape(c, lw__call_in(c, 0), 0, shape.rank);
  if (counted != LW_NONE) {
    lw__call_out(c, 0, lw__b_reduce(c, LW_RED_PROD, counted, 1, false));
    return;
  }
  lw_extent product = 1;
  for (uint32_t d = 0; d < shape.rank; d++)
    product = lw__call_extent(c, LW_EXTENT_MUL, product, shape.dim[d]);
  lw_content_elem elem = lw__content_extent(product);
  lw__call_out(c, 0, lw__op_elements(c, &elem, 1, true));
}

/* ---- reshaping ------------------------------------------------------------------------------*/

void lw__op_identity(lw_call *c) { lw__call_out(c, 0, lw__call_in(c, 0)); }

/* The extent that -1 stands for: all of |from| that |to| (its dim |hole| 1) does not have yet. */
static lw_extent shape_infer_hole(lw_call *c, const lw_shape *from, const lw_shape *to) {
  bool used[LW_MAX_RANK] = {false};
  lw_extent above = 1, below = 1;
  for (uint32_t d = 0; d < to->rank; d++) { /* equal factors cancel, symbols too */
    bool cancelled = lw__extent_is_number(to->dim[d]);
    for (uint32_t k = 0; k < from->rank && !cancelled; k++) {
      if (used[k] || !lw__call_same_extent(c, from->dim[k], to->dim[d])) continue;
      used[k] = cancelled = true;
    }
    if (!cancelled || lw__extent_is_number(to->dim[d])) {
      below = lw__call_extent(c, LW_EXTENT_MUL, below, to->dim[d]);
    }
  }
  for (uint32_t k = 0; k < from->rank; k++) {
    if (!used[k]) above = lw__call_extent(c, LW_EXTENT_MUL, above, from->dim[k]);
  }
  if (below == 0) {
    lw__call_invalid(c, "a dimension of -1 beside one of 0 has no answer");
    return 0;
  }
  if (lw__extent_is_number(above) && lw__extent_is_number(below) && above % below != 0) {
    lw__call_invalid(c, "%lld elements do not divide into %lld parts", (long long)above,
                     (long long)below);
    return 0;
  }
  return lw__call_extent(c, LW_EXTENT_FLOORDIV, above, below);
}

void lw__op_reshape(lw_call *c) {
  lw_value_id x = lw__call_in(c, 0);
  lw_shape from = lw__b_shape(c, x), to = {0};
  lw_content_elem elems[LW_MAX_RANK];
  bool allow_zero = lw__call_int(c, "allowzero", 0) != 0, zero = false;
  uint32_t hole = LW_NONE;
  if (!lw__call_shape_input(c, 1, elems, &to.rank)) return;
  for (uint32_t d = 0; d < to.rank; d++) {
    bool number = elems[d].kind == LW_CONTENT_NUMBER;
    int64_t value = elems[d].value.i;
    to.dim[d] = number ? value : elems[d].extent;
    if (!number) continue;
    zero |= value == 0;
    if (value == 0 && !allow_zero) {
      if (d >= from.rank) lw__call_invalid(c, "dimension %u is to be copied, and there is none", d);
      to.dim[d] = d < from.rank ? from.dim[d] : 0;
    } else if (value == -1 && hole == LW_NONE) {
      hole = d;
      to.dim[d] = 1;
    } else if (value < 0) {
      lw__call_invalid(c, "dimension %u is %lld", d, (long long)value);
    }
  }
  if (allow_zero && zero && hole != LW_NONE) lw__call_invalid(c, "allowzero=1 with a 0 and a -1");
  if (hole != LW_NONE && lw__call_ok(c)) to.dim[hole] = shape_infer_hole(c, &from, &to);
  lw__call_out(c, 0, lw__b_reshape(c, x, &to));
}

void lw__op_flatten(lw_call *c) {
  lw_value_id x = lw__call_in(c, 0);
  uint32_t rank = lw__b_rank(c, x);
  int64_t axis = lw__call_int(c, "axis", 1);
  if (axis < -(int64_t)rank || axis > (int64_t)rank)
    lw__call_invalid(c, "axis %lld", (long long)axis);
  if (!lw__call_ok(c)) return;
  uint32_t split = (uint32_t)(axis < 0 ? axis + rank : axis);
  lw_value_id right = lw__b_merge(c, x, split, rank);
  lw__call_out(c, 0, lw__b_merge(c, right, 0, split));
}

void lw__op_squeeze(lw_call *c) {
  lw_value_id x = lw__call_in(c, 0);
  lw_shape from = lw__b_shape(c, x), to = {0};
  bool given;
  uint32_t axes = lw__call_axes(c, 13, from.rank, &given);
  for (uint32_t d = 0; d < from.rank; d++) {
    /* Without axes even the rank depends on which extents are 1. */
    bool drop = given ? axes >> d & 1 : lw__call_static(c, from.dim[d]) == 1;
    if (drop && lw__call_static(c, from.dim[d]) != 1) {
      lw__call_invalid(c, "dimension %u is %lld, not 1", d, (long long)from.dim[d]);
    }
    if (!drop) to.dim[to.rank++] = from.dim[d];
  }
  lw__call_out(c, 0, lw__b_reshape(c, x, &to));
}

void lw__op_unsqueeze(lw_call *c) {
  lw_value_id x = lw__call_in(c, 0);
  lw_shape from = lw__b_shape(c, x), to = {0};
  uint32_t count = 0, mask = 0, next = 0;
  const int64_t *axes =
      c->opset < 13 ? lw__call_ints(c, "axes", &count) : lw__call_numbers(c, 1, &count);
  if (count > LW_MAX_RANK - from.rank)
    lw__call_unsupported(c, "more than %d dimensions", LW_MAX_RANK);
  for (uint32_t i = 0; i < count && lw__call_ok(c); i++) {
    uint32_t axis = lw__call_axis(c, axes[i], from.rank + count);
    if (mask >> axis & 1) lw__call_invalid(c, "axis %u is named twice", axis);
    mask |= 1u << axis;
  }
  if (!lw__call_ok(c)) return;
  to.rank = from.rank + count;
  for (uint32_t d = 0; d < to.rank; d++) to.dim[d] = mask >> d & 1 ? 1 : from.dim[next++];
  lw__call_out(c, 0, lw__b_reshape(c, x, &to));
}

void lw__op_transpose(lw_call *c) {
  lw_value_id x = lw__call_in(c, 0);
  uint32_t rank = lw__b_rank(c, x), count;
  const int64_t *given = lw__call_ints(c, "perm", &count);
  uint8_t perm[LW_MAX_RANK];
  if (count != 0 && count != rank)
    lw__call_invalid(c, "perm has %u entries for %u dimensions", count, rank);
  if (!lw__call_ok(c)) return;
  for (uint32_t d = 0; d < rank; d++) {
    perm[d] = (uint8_t)(count == 0 ? rank - 1 - d : lw__call_axis(c, given[d], rank));
  }
  lw__call_out(c, 0, lw__b_permute(c, x, perm));
}

void lw__op_expand(lw_call *c) {
  lw_value_id x = lw__call_in(c, 0);
  lw_shape from = lw__b_shape(c, x), to;
  lw_content_elem elems[LW_MAX_RANK];
  uint32_t rank;
  if (!lw__call_shape_input(c, 1, elems, &rank) || !lw__op_shape_of_elems(c, elems, rank, &to))
    return;
  to = lw__call_broadcast_shape(c, &from, &to);
  lw__call_out(c, 0, lw__b_broadcast(c, x, &to));
}

/* |times| copies of the axis one after the other. */
static lw_value_id shape_tile(lw_call *c, lw_value_id x, uint32_t axis, lw_extent times) {
  lw_value_id apart = lw__b_unsqueeze(c, x, axis);
  lw_shape shape = lw__b_shape(c, apart);
  if (apart == LW_NONE) return LW_NONE;
  shape.dim[axis] = times;
  return lw__b_merge(c, lw__b_broadcast(c, apart, &shape), axis, axis + 2);
}

void lw__op_tile(lw_call *c) {
  lw_value_id x = lw__call_in(c, 0);
  lw_content_elem elems[LW_MAX_RANK];
  lw_shape times;
  uint32_t count;
  if (!lw__call_shape_input(c, 1, elems, &count) || !lw__op_shape_of_elems(c, elems, count, &times))
    return;
  if (count != lw__b_rank(c, x))
    lw__call_invalid(c, "%u repeats for %u dimensions", count, lw__b_rank(c, x));
  for (uint32_t d = 0; d < count && lw__call_ok(c); d++) {
    if (times.dim[d] != 1) x = shape_tile(c, x, d, times.dim[d]);
  }
  lw__call_out(c, 0, x);
}

/* ---- joining and cutting --------------------------------------------------------------------*/

void lw__op_concat(lw_call *c) {
  lw_value_id *in = lw__b_alloc(c, c->in_count, sizeof *in);
  if (in == NULL) return;
  if (lw__call_attr(c, "axis") == NULL) lw__call_invalid(c, "it has no axis");
  uint32_t rank = lw__b_rank(c, lw__call_in(c, 0)), count = 0;
  uint32_t axis = lw__call_axis_attr(c, "axis", 1, rank);
  for (uint32_t i = 0; i < c->in_count; i++) {
    if (c->in[i] != LW_NONE) in[count++] = c->in[i];
  }
  lw__call_out(c, 0, lw__b_concat(c, in, count, axis));
}

static void shape_split_even(lw_call *c, lw_extent extent, uint32_t parts, lw_extent *sizes) {
  int64_t length = lw__call_static(c, extent), part = lw__ceil_div(length, parts);
  if (c->opset < 18 && length % parts != 0) {
    lw__call_invalid(c, "a dimension of %lld does not split into %u equal parts", (long long)length,
                     parts);
  }
  for (uint32_t i = 0; i < parts; i++) {
    sizes[i] = lw__max_i64(0, lw__min_i64(part, length - (int64_t)i * part));
  }
}

static void shape_split_sizes(lw_call *c, lw_extent extent, uint32_t parts, lw_extent *sizes) {
  uint32_t count = 0;
  const int64_t *given = NULL;
  bool by_input = c->opset >= 13 && lw__call_has(c, 1);
  if (by_input)
    given = lw__call_numbers(c, 1, &count);
  else if (c->opset < 13)
    given = lw__call_ints(c, "split", &count);
  int64_t wanted = lw__call_int(c, "num_outputs", parts);
  if (!by_input && wanted != parts) lw__call_invalid(c, "num_outputs does not fit the outputs");
  if (count == 0 && !by_input) {
    shape_split_even(c, extent, parts, sizes);
    return;
  }
  if (count != parts) lw__call_invalid(c, "%u sizes for %u outputs", count, parts);
  int64_t total = 0;
  for (uint32_t i = 0; i < parts && lw__call_ok(c); i++) {
    sizes[i] = given[i];
    if (given[i] < 0 || !lw__add_i64(total, given[i], &total))
      lw__call_invalid(c, "a part of %lld", (long long)given[i]);
  }
  if (lw__extent_is_number(extent) && total != extent) {
    lw__call_invalid(c, "the parts have %lld elements, the dimension %lld", (long long)total,
                     (long long)extent);
  }
}

void lw__op_split(lw_call *c) {
  lw_value_id x = lw__call_in(c, 0);
  uint32_t axis = lw__call_axis_attr(c, "axis", 0, lw__b_rank(c, x));
  lw_extent *sizes = lw__b_alloc(c, c->out_count, sizeof *sizes);
  if (sizes == NULL || c->out_count == 0) return;
  shape_split_sizes(c, lw__b_dim(c, x, axis), c->out_count, sizes);
  int64_t start = 0;
  for (uint32_t i = 0; i < c->out_count && lw__call_ok(c); i++) {
    if (lw__call_wants(c, i)) lw__call_out(c, i, lw__b_slice(c, x, axis, start, 1, sizes[i]));
    start += sizes[i];
  }
}

/* One axis of a Slice. Bounds are clamped as the specification says. */
static lw_value_id shape_slice(lw_call *c, lw_value_id x, uint32_t axis,
                               const lw_content_elem *first, const lw_content_elem *last,
                               int64_t step) {
  lw_extent extent = lw__b_dim(c, x, axis);
  bool numbers = first->kind == LW_CONTENT_NUMBER && last->kind == LW_CONTENT_NUMBER;
  int64_t from = first->value.i, to = last->value.i;
  if (step == 0) lw__call_invalid(c, "a step of 0");
  if (!lw__extent_is_number(extent) || !numbers) {
    /* Forward slices from a known start: their length may stay symbolic. That a symbolic end lies
     * inside is checked when the symbols get numbers; clamping would hide that x[:, :seq] has seq.
     */
    bool simple = step == 1 && first->kind == LW_CONTENT_NUMBER && from >= 0;
    if (simple && (last->kind == LW_CONTENT_EXTENT || to >= INT32_MAX || to < 0)) {
      lw_extent end = last->kind == LW_CONTENT_EXTENT ? last->extent
                      : to >= 0                       ? extent
                                                      : lw__call_affine(c, extent, 1, to);
      return lw__b_slice(c, x, axis, from, 1, lw__call_affine(c, end, 1, -from));
    }
    if (simple && from == 0 && to >= 0) {
      return lw__b_slice(c, x, axis, 0, 1, lw__call_extent(c, LW_EXTENT_MIN, extent, to));
    }
    extent = lw__call_static(c, extent);
    if (first->kind == LW_CONTENT_EXTENT) from = lw__call_static(c, first->extent);
    if (last->kind == LW_CONTENT_EXTENT) to = lw__call_static(c, last->extent);
  }
  if (!lw__call_ok(c)) return LW_NONE;
  if (from < 0) from = from < -extent ? 0 : from + extent;
  if (to < 0) to = to < -extent ? (step < 0 ? -1 : 0) : to + extent;
  int64_t count;
  if (step > 0) {
    from = lw__min_i64(from, extent);
    to = lw__min_i64(to, extent);
    count = to > from ? (to - from - 1) / step + 1 : 0;
  } else {
    from = lw__min_i64(from, extent - 1);
    to = lw__min_i64(to, extent - 1);
    count = from > to ? (int64_t)(((uint64_t)(from - to) - 1) / (0 - (uint64_t)step)) + 1 : 0;
  }
  return lw__b_slice(c, x, axis, count == 0 ? 0 : from, count <= 1 ? 1 : step, count);
}

void lw__op_slice(lw_call *c) {
  lw_value_id x = lw__call_in(c, 0);
  uint32_t rank = lw__b_rank(c, x), starts_count, ends_count, axes_count = 0, steps_count = 0,
           seen = 0;
  const lw_content_elem *starts, *ends;
  const int64_t *axes = NULL, *steps = NULL;
  if (c->opset < 10) {
    lw_content_elem bounds[2][LW_MAX_RANK];
    const int64_t *s = lw__call_ints(c, "starts", &starts_count),
                  *e = lw__call_ints(c, "ends", &ends_count);
    if (starts_count > LW_MAX_RANK || ends_count > LW_MAX_RANK)
      lw__call_invalid(c, "too many axes");
    for (uint32_t i = 0; lw__call_ok(c) && i < starts_count; i++)
      bounds[0][i] = lw__content_i64(s[i]);
    for (uint32_t i = 0; lw__call_ok(c) && i < ends_count; i++)
      bounds[1][i] = lw__content_i64(e[i]);
    axes = lw__call_ints(c, "axes", &axes_count);
    if (!lw__call_ok(c) || starts_count != ends_count ||
        (axes_count != 0 && axes_count != starts_count)) {
      lw__call_invalid(c, "starts, ends and axes differ in length");
      return;
    }
    for (uint32_t i = 0; i < starts_count && lw__call_ok(c); i++) {
      uint32_t axis = lw__call_axis(c, axes_count == 0 ? i : axes[i], rank);
      x = shape_slice(c, x, axis, &bounds[0][i], &bounds[1][i], 1);
    }
    lw__call_out(c, 0, x);
    return;
  }
  starts = lw__call_elems(c, 1, &starts_count);
  ends = lw__call_elems(c, 2, &ends_count);
  if (lw__call_has(c, 3)) axes = lw__call_numbers(c, 3, &axes_count);
  if (lw__call_has(c, 4)) steps = lw__call_numbers(c, 4, &steps_count);
  if (starts_count != ends_count || (axes != NULL && axes_count != starts_count) ||
      (steps != NULL && steps_count != starts_count)) {
    lw__call_invalid(c, "starts, ends, axes and steps differ in length");
  }
  for (uint32_t i = 0; i < starts_count && lw__call_ok(c); i++) {
    uint32_t axis = lw__call_axis(c, axes == NULL ? i : axes[i], rank);
    if (seen >> axis & 1) lw__call_invalid(c, "axis %u is named twice", axis);
    seen |= 1u << axis;
    x = shape_slice(c, x, axis, &starts[i], &ends[i], steps == NULL ? 1 : steps[i]);
  }
  lw__call_out(c, 0, x);
}

/* ---- rearranging blocks ---------------------------------------------------------------------*/

static lw_value_id shape_blocks(lw_call *c, lw_value_id x, const lw_shape *apart,
                                const uint8_t *perm, const lw_shape *result) {
  return lw__b_reshape(c, lw__b_permute(c, lw__b_reshape(c, x, apart), perm), result);
}

void lw__op_depth_to_space(lw_call *c) {
  static const char *const modes[] = {"DCR", "CRD", NULL};
  lw_value_id x = lw__call_in(c, 0);
  lw_shape s = lw__b_shape(c, x);
  int64_t block = lw__call_int(c, "blocksize", 0);
  bool crd = lw__call_choice(c, "mode", modes) == 1;
  if (s.rank != 4) lw__call_invalid(c, "its input must have 4 dimensions");
  int64_t channels = s.rank == 4 ? lw__call_static(c, s.dim[1]) : 0;
  if (block < 1 || block > INT32_MAX || channels % (block * block) != 0) {
    lw__call_invalid(c, "blocksize %lld for %lld channels", (long long)block, (long long)channels);
  }
  if (!lw__call_ok(c)) return;
  int64_t depth = channels / (block * block);
  lw_shape result = {4,
                     {s.dim[0], depth, lw__call_affine(c, s.dim[2], block, 0),
                      lw__call_affine(c, s.dim[3], block, 0)}};
  lw_shape dcr = {6, {s.dim[0], block, block, depth, s.dim[2], s.dim[3]}};
  lw_shape by_column = {6, {s.dim[0], depth, block, block, s.dim[2], s.dim[3]}};
  lw__call_out(c, 0,
               crd ? shape_blocks(c, x, &by_column, (uint8_t[]){0, 1, 4, 2, 5, 3}, &result)
                   : shape_blocks(c, x, &dcr, (uint8_t[]){0, 3, 4, 1, 5, 2}, &result));
}

void lw__op_space_to_depth(lw_call *c) {
  lw_value_id x = lw__call_in(c, 0);
  lw_shape s = lw__b_shape(c, x);
  int64_t block = lw__call_int(c, "blocksize", 0);
  if (s.rank != 4) lw__call_invalid(c, "its input must have 4 dimensions");
  if (block < 1 || block > INT32_MAX) lw__call_invalid(c, "blocksize %lld", (long long)block);
  int64_t h = lw__call_static(c, s.dim[2]), w = lw__call_static(c, s.dim[3]);
  if (lw__call_ok(c) && (h % block != 0 || w % block != 0))
    lw__call_invalid(c, "the blocks do not fit");
  if (!lw__call_ok(c)) return;
  lw_shape apart = {6, {s.dim[0], s.dim[1], h / block, block, w / block, block}};
  lw_shape result = {
      4, {s.dim[0], lw__call_affine(c, s.dim[1], block * block, 0), h / block, w / block}};
  lw__call_out(c, 0, shape_blocks(c, x, &apart, (uint8_t[]){0, 3, 5, 1, 2, 4}, &result));
}

/* ---- padding --------------------------------------------------------------------------------*/

typedef enum lw_pad_mode { PAD_CONSTANT, PAD_REFLECT, PAD_EDGE, PAD_WRAP } lw_pad_mode;

/* Where element |i| (outside 0 .. n-1 too) of a padded axis is read from. */
static int64_t shape_pad_source(lw_pad_mode mode, int64_t i, int64_t n) {
  if (mode == PAD_EDGE || n == 1) return lw__max_i64(0, lw__min_i64(i, n - 1));
  if (mode == PAD_WRAP) return lw__floor_mod(i, n);
  int64_t at = lw__floor_mod(i, 2 * (n - 1));
  return at < n ? at : 2 * (n - 1) - at;
}

static lw_value_id shape_pad_axis(lw_call *c, lw_value_id x, uint32_t axis, lw_pad_mode mode,
                                  int64_t lo, int64_t hi) {
  int64_t n = lw__call_static(c, lw__b_dim(c, x, axis)), total;
  if (!lw__add_i64(n, lo, &total) || !lw__add_i64(total, hi, &total)) total = -1;
  if (n == 0 || total < 0)
    lw__call_invalid(c, "a dimension of %lld is padded by %lld and %lld", (long long)n,
                     (long long)lo, (long long)hi);
  int64_t *index = lw__b_alloc(c, total, sizeof *index);
  if (index == NULL) return LW_NONE;
  for (int64_t i = 0; i < total; i++) index[i] = shape_pad_source(mode, i - lo, n);
  return lw__b_take(c, x, axis, index, total);
}

/* Negative pads cut off. */
static lw_value_id shape_crop(lw_call *c, lw_value_id x, uint32_t rank, int64_t *pads) {
  for (uint32_t d = 0; d < rank && lw__call_ok(c); d++) {
    int64_t lo = lw__min_i64(pads[d], 0), hi = lw__min_i64(pads[rank + d], 0);
    if (lo == 0 && hi == 0) continue;
    int64_t n = lw__call_static(c, lw__b_dim(c, x, d));
    if (lo < -n || hi < -n || n + lo + hi < 0)
      lw__call_invalid(c, "more is cut off dimension %u than it has", d);
    x = lw__b_slice(c, x, d, -lo, 1, n + lo + hi);
    pads[d] = lw__max_i64(pads[d], 0);
    pads[rank + d] = lw__max_i64(pads[rank + d], 0);
  }
  return x;
}

static lw_scalar shape_pad_value(lw_call *c, lw_value_id x) {
  lw_scalar value = {.i = 0};
  lw_dtype dtype = lw__b_dtype(c, x);
  if (lw__dtype_is_float(dtype)) value.f = 0;
  if (c->opset < 11) {
    value.f = lw__call_float(c, "value", 0);
    return lw__cast(value, LW_DTYPE_F32, dtype);
  }
  lw__call_ignore(c, "value");
  if (!lw__call_has(c, 2)) return value;
  uint32_t count;
  const lw_content_elem *elem = lw__call_elems(c, 2, &count);
  if (elem == NULL) return value;
  if (count != 1 || elem->kind != LW_CONTENT_NUMBER)
    lw__call_invalid(c, "the padding value must be one number");
  return lw__cast(elem->value, lw__b_dtype(c, c->in[2]), dtype);
}

static bool shape_read_pads(lw_call *c, uint32_t rank, int64_t *pads) {
  uint32_t count, axes_count = rank;
  const int64_t *given =
      c->opset < 11 ? lw__call_ints(c, "pads", &count) : lw__call_numbers(c, 1, &count);
  const int64_t *axes = NULL;
  if (lw__call_has(c, 3)) axes = lw__call_numbers(c, 3, &axes_count);
  if (!lw__call_ok(c)) return false;
  if (count != 2 * axes_count) lw__call_invalid(c, "%u pads for %u axes", count, axes_count);
  for (uint32_t i = 0; i < axes_count && lw__call_ok(c); i++) {
    uint32_t axis = axes == NULL ? i : lw__call_axis(c, axes[i], rank);
    pads[axis] = given[i];
    pads[rank + axis] = given[axes_count + i];
  }
  return lw__call_ok(c);
}

void lw__op_pad(lw_call *c) {
  static const char *const modes[] = {"constant", "reflect", "edge", "wrap", NULL};
  lw_value_id x = lw__call_in(c, 0);
  uint32_t rank = lw__b_rank(c, x);
  int64_t pads[2 * LW_MAX_RANK] = {0};
  lw_pad_mode mode = (lw_pad_mode)lw__call_choice(c, "mode", modes);
  lw_scalar value = shape_pad_value(c, x);
  if (!shape_read_pads(c, rank, pads)) return;
  if (mode == PAD_CONSTANT) {
    x = shape_crop(c, x, rank, pads);
    lw__call_out(c, 0, lw__b_pad(c, x, pads, pads + rank, value));
    return;
  }
  for (uint32_t d = 0; d < rank && lw__call_ok(c); d++) {
    if (pads[d] != 0 || pads[rank + d] != 0)
      x = shape_pad_axis(c, x, d, mode, pads[d], pads[rank + d]);
  }
  lw__call_out(c, 0, x);
}

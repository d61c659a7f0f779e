/* rgraph.c: random graphs. Values stay near 1 so that error bounds stay useful: growth ends in bounded functions. */
#include "lib/rgraph.h"

#include <string.h>

typedef struct grower {
  lw_graph *g;
  lw_rng rng;
  const lw_rgraph_options *options;
  LW_VEC(lw_value_id) pool;
} grower;

static int64_t pick(grower *w, int64_t n) { return lw__rng_range(&w->rng, 0, n); }

static int64_t extent(grower *w) {
  static const int64_t sizes[] = {1, 1, 2, 3, 4, 5, 7, 8, 8, 16, 17, 32, 64, 100};
  int64_t kind = pick(w, 40);
  return kind == 0 ? 0 : sizes[pick(w, (int64_t)LW_ARRAY_COUNT(sizes))];
}

static lw_dtype float_type(grower *w) {
  int64_t k = w->options->narrow ? pick(w, 4) : 0;
  return k == 1 ? LW_DTYPE_F16 : k == 2 ? LW_DTYPE_BF16 : LW_DTYPE_F32;
}

static lw_value_id any(grower *w) { return w->pool.data[pick(w, w->pool.count)]; }

static lw_value_id any_float(grower *w) {
  for (int i = 0; i < 50; i++) {
    lw_value_id v = any(w);
    if (lw__dtype_is_float(lw__value(w->g, v)->dtype)) return v;
  }
  return w->pool.data[0];
}

static const lw_shape *shape_of(grower *w, lw_value_id v) { return &lw__value(w->g, v)->shape; }

static lw_status random_shape(grower *w, uint32_t rank, lw_shape *out) {
  int64_t dims[LW_MAX_RANK], total = 1;
  for (uint32_t d = 0; d < rank; d++) {
    dims[d] = extent(w);
    while (dims[d] > 1 && total * dims[d] > 20000) dims[d] /= 2;
    if (dims[d]) total *= dims[d];
  }
  *out = lw__shape_of(rank, dims);
  return LW_OK;
}

static lw_status new_const(grower *w, lw_dtype dtype, const lw_shape *shape, lw_value_id *out) {
  int64_t count = lw__shape_numel(shape);
  void *data = NULL;
  LW_TRY(lw__mem_resize(&data, (size_t)count * 8 + 1));
  lw_random_fill(&w->rng, dtype, data, count);
  lw_status status = lw__graph_const_copy(w->g, dtype, shape, data, out);
  lw__mem_free(data);
  return status;
}

static lw_status source(grower *w, lw_value_id *out) {
  lw_shape shape;
  LW_TRY(random_shape(w, (uint32_t)pick(w, 5), &shape));
  if (pick(w, 4) == 0) return new_const(w, float_type(w), &shape, out);
  return lw__graph_input(w->g, float_type(w), &shape, NULL, out);
}

/* ---- growth steps ----------------------------------------------------------------------------------------------*/

static lw_status grow_unary(grower *w, lw_value_id *out) {
  static const lw_fn fns[] = {LW_FN_TANH, LW_FN_SIGMOID, LW_FN_NEG, LW_FN_ABS, LW_FN_ERF, LW_FN_SIN, LW_FN_COS};
  lw_value_id x = any_float(w);
  return lw__graph_map(w->g, fns[pick(w, (int64_t)LW_ARRAY_COUNT(fns))], &x, out);
}

/* A second operand that broadcasts: the same value, a fresh scalar, a constant over some trailing dims, or ones dims. */
static lw_status partner(grower *w, lw_value_id x, lw_value_id *out) {
  lw_shape shape = *shape_of(w, x);
  lw_dtype dtype = lw__value(w->g, x)->dtype;
  for (int i = 0; i < 8; i++) {
    lw_value_id v = any(w);
    if (v != x && lw__value(w->g, v)->dtype == dtype && lw__shape_eq(w->g, shape_of(w, v), &shape)) return *out = v, LW_OK;
  }
  switch (pick(w, 4)) {
  case 0: return lw__graph_scalar(w->g, dtype, (double)pick(w, 9) / 4 - 1, out);
  case 1: return *out = x, LW_OK;
  case 2:
    for (uint32_t d = 0; d < shape.rank; d++)
      if (pick(w, 2)) shape.dim[d] = 1;
    return new_const(w, dtype, &shape, out);
  default:
    if (shape.rank > 1) {
      shape.rank--;
      memmove(shape.dim, shape.dim + 1, shape.rank * sizeof shape.dim[0]);
    }
    return new_const(w, dtype, &shape, out);
  }
}

static lw_status grow_binary(grower *w, lw_value_id *out) {
  static const lw_fn fns[] = {LW_FN_ADD, LW_FN_SUB, LW_FN_MUL, LW_FN_MAX, LW_FN_MIN};
  lw_value_id in[2] = {any_float(w), 0};
  LW_TRY(partner(w, in[0], &in[1]));
  return lw__graph_map_bc(w->g, fns[pick(w, (int64_t)LW_ARRAY_COUNT(fns))], in, out);
}

static lw_status grow_select(grower *w, lw_value_id *out) {
  lw_value_id x = any_float(w), in[3];
  lw_shape shape = *shape_of(w, x);
  if (shape.rank == 0) return grow_unary(w, out);
  uint32_t axis = (uint32_t)pick(w, shape.rank);
  lw_value_id index, bound, cmp[2];
  LW_TRY(lw__graph_iota(w->g, LW_DTYPE_I64, &shape, axis, &index));
  LW_TRY(lw__graph_scalar(w->g, LW_DTYPE_I64, (double)pick(w, lw__max_i64(1, shape.dim[axis])), &bound));
  cmp[0] = index;
  cmp[1] = bound;
  LW_TRY(lw__graph_map_bc(w->g, LW_FN_LE, cmp, &in[0]));
  in[1] = x;
  LW_TRY(partner(w, x, &in[2]));
  return lw__graph_map_bc(w->g, LW_FN_SELECT, in, out);
}

static lw_status grow_cast(grower *w, lw_value_id *out) { return lw__graph_cast(w->g, any_float(w), float_type(w), out); }

static lw_status grow_reshape(grower *w, lw_value_id *out) {
  lw_value_id x = any_float(w);
  int64_t count = lw__shape_numel(shape_of(w, x)), dims[4], left = count;
  uint32_t rank = 1 + (uint32_t)pick(w, 3);
  for (uint32_t d = 0; d + 1 < rank; d++) {
    dims[d] = 1;
    for (int64_t f = 2; f <= 8 && left > 0; f++)
      if (left % f == 0 && pick(w, 2)) dims[d] *= f, left /= f;
  }
  dims[rank - 1] = left;
  lw_shape shape = lw__shape_of(rank, dims);
  return lw__graph_reshape(w->g, x, &shape, out);
}

static lw_status grow_permute(grower *w, lw_value_id *out) {
  lw_value_id x = any_float(w);
  uint32_t rank = shape_of(w, x)->rank;
  uint8_t perm[LW_MAX_RANK];
  for (uint32_t d = 0; d < rank; d++) perm[d] = (uint8_t)d;
  for (uint32_t d = rank; d > 1; d--) {
    uint32_t j = (uint32_t)pick(w, d);
    uint8_t t = perm[d - 1];
    perm[d - 1] = perm[j];
    perm[j] = t;
  }
  return lw__graph_permute(w->g, x, perm, out);
}

static lw_status grow_slice(grower *w, lw_value_id *out) {
  lw_value_id x = any_float(w);
  const lw_shape *shape = shape_of(w, x);
  int64_t start[LW_MAX_RANK], step[LW_MAX_RANK];
  lw_extent count[LW_MAX_RANK];
  for (uint32_t d = 0; d < shape->rank; d++) {
    int64_t n = shape->dim[d];
    step[d] = 1 + pick(w, 2);
    start[d] = n ? pick(w, n) / 2 : 0;
    count[d] = n ? lw__max_i64(1, (n - start[d]) / step[d]) : 0;
    if (n && pick(w, 4) == 0) start[d] = start[d] + (count[d] - 1) * step[d], step[d] = -step[d];
  }
  return lw__graph_slice(w->g, x, start, step, count, out);
}

static lw_status grow_pad(grower *w, lw_value_id *out) {
  lw_value_id x = any_float(w);
  int64_t lo[LW_MAX_RANK], hi[LW_MAX_RANK];
  for (uint32_t d = 0; d < shape_of(w, x)->rank; d++) lo[d] = pick(w, 3), hi[d] = pick(w, 3);
  return lw__graph_pad(w->g, x, lo, hi, (lw_scalar){.f = (double)pick(w, 2)}, out);
}

static lw_status grow_concat(grower *w, lw_value_id *out) {
  lw_value_id in[2] = {any_float(w), 0};
  const lw_shape *shape = shape_of(w, in[0]);
  if (!shape->rank) return grow_unary(w, out);
  LW_TRY(lw__graph_map(w->g, LW_FN_NEG, in, &in[1]));
  return lw__graph_concat(w->g, in, 2, (uint32_t)pick(w, shape_of(w, in[0])->rank), out);
}

static lw_status grow_reduce(grower *w, lw_value_id *out) {
  static const lw_red reds[] = {LW_RED_SUM, LW_RED_MAX, LW_RED_MIN};
  lw_value_id x = any_float(w);
  uint32_t rank = shape_of(w, x)->rank;
  if (!rank) return grow_unary(w, out);
  uint32_t axes = 1u + (uint32_t)pick(w, (1 << rank) - 1);
  if (pick(w, 2)) return lw__graph_mean(w->g, x, axes, pick(w, 2), out);
  return lw__graph_reduce(w->g, reds[pick(w, 3)], x, axes, out);
}

static lw_status grow_composite(grower *w, lw_value_id *out) {
  lw_value_id x = any_float(w), scale = LW_NONE, mean, rstd;
  lw_shape shape = *shape_of(w, x);
  if (!shape.rank) return grow_unary(w, out);
  uint32_t last = 1u << (shape.rank - 1);
  switch (pick(w, 4)) {
  case 0: return lw__graph_softmax(w->g, x, 1u << pick(w, shape.rank), false, out);
  case 1: return lw__graph_gelu(w->g, x, pick(w, 2), out);
  case 2: return lw__graph_softmax(w->g, x, last, true, out);
  default: {
    lw_shape row = lw__shape_of(1, &shape.dim[shape.rank - 1]);
    if (pick(w, 2)) LW_TRY(new_const(w, lw__value(w->g, x)->dtype, &row, &scale));
    return lw__graph_layer_norm(w->g, x, last, 1e-2, scale, LW_NONE, out, &mean, &rstd);
  }
  }
}

static lw_status grow_gather(grower *w, lw_value_id *out) {
  lw_value_id x = any_float(w), index;
  const lw_shape shape = *shape_of(w, x);
  if (!shape.rank || lw__shape_numel(&shape) == 0) return grow_unary(w, out);
  uint32_t axis = (uint32_t)pick(w, shape.rank);
  lw_shape result = shape;
  result.dim[axis] = 1 + pick(w, 6);
  int64_t rows[6] = {0};
  for (int64_t i = 0; i < result.dim[axis]; i++) rows[i] = lw__rng_range(&w->rng, -shape.dim[axis], shape.dim[axis]);
  lw_shape line = lw__shape_of(1, &result.dim[axis]);
  LW_TRY(lw__graph_const_copy(w->g, LW_DTYPE_I64, &line, rows, &index));
  lw_shape lined = result;
  for (uint32_t d = 0; d < lined.rank; d++)
    if (d != axis) lined.dim[d] = 1;
  LW_TRY(lw__graph_reshape(w->g, index, &lined, &index));
  LW_TRY(lw__graph_broadcast(w->g, index, &result, &index));
  int8_t select[LW_MAX_RANK];
  for (uint32_t d = 0; d < shape.rank; d++) select[d] = d == axis ? 0 : (int8_t)(-1 - (int)d);
  return lw__graph_gather(w->g, x, &index, 1, select, &result, out);
}

static lw_status grow_pool(grower *w, lw_value_id *out) {
  lw_value_id x = any_float(w), windows;
  const lw_shape shape = *shape_of(w, x);
  if (shape.rank < 2) return grow_reduce(w, out);
  uint8_t axis[2] = {(uint8_t)(shape.rank - 2), (uint8_t)(shape.rank - 1)};
  int64_t size[2], stride[2], dilation[2] = {1, 1};
  for (int i = 0; i < 2; i++) {
    size[i] = 1 + pick(w, 3);
    stride[i] = 1 + pick(w, 2);
    if (shape.dim[axis[i]] < size[i]) return grow_reduce(w, out);
  }
  LW_TRY(lw__graph_window(w->g, x, 2, axis, size, stride, dilation, &windows));
  return lw__graph_reduce(w->g, pick(w, 2) ? LW_RED_MAX : LW_RED_SUM, windows, 3u << shape.rank, out);
}

static lw_status grow_dot(grower *w, lw_value_id *out) {
  lw_value_id a = any_float(w), b, half;
  lw_shape shape = *shape_of(w, a);
  if (shape.rank < 2) return grow_reduce(w, out);
  lw_shape right = shape;
  right.dim[shape.rank - 2] = shape.dim[shape.rank - 1];
  right.dim[shape.rank - 1] = extent(w);
  while (lw__shape_numel(&right) > 20000) right.dim[shape.rank - 1] /= 2;
  LW_TRY(new_const(w, lw__value(w->g, a)->dtype, &right, &b));
  LW_TRY(lw__graph_scalar(w->g, lw__value(w->g, a)->dtype, 0.125, &half));
  lw_value_id in[2] = {0, half};
  LW_TRY(lw__graph_dot(w->g, a, b, &in[0]));
  return lw__graph_map_bc(w->g, LW_FN_MUL, in, out);
}

static lw_status grow_conv(grower *w, lw_value_id *out) {
  lw_value_id x = any_float(w), weights;
  lw_shape shape = *shape_of(w, x);
  if (shape.rank < 3 || shape.rank > 5) return grow_dot(w, out);
  lw_conv_attr attr = {.spatial = shape.rank - 2, .group = 1};
  bool up = pick(w, 4) == 0;
  int64_t channels = shape.dim[1];
  if (channels > 1 && pick(w, 3) == 0) attr.group = channels;
  attr.transposed = up;
  lw_shape kernel = {.rank = shape.rank};
  int64_t made = 1 + pick(w, 4);
  kernel.dim[0] = up ? channels : attr.group * made;
  kernel.dim[1] = up ? made : channels / attr.group;
  for (uint32_t s = 0; s < attr.spatial; s++) {
    kernel.dim[2 + s] = 1 + pick(w, 3);
    attr.stride[s] = 1 + pick(w, 2);
    attr.dilation[s] = 1 + pick(w, 2);
    attr.pad_lo[s] = pick(w, 2);
    attr.pad_hi[s] = pick(w, 2);
    if (shape.dim[2 + s] < (kernel.dim[2 + s] - 1) * attr.dilation[s] + 3) return grow_dot(w, out);
  }
  if (channels == 0 || lw__shape_numel(&shape) > 4000) return grow_dot(w, out);
  LW_TRY(new_const(w, lw__value(w->g, x)->dtype, &kernel, &weights));
  return lw__graph_conv(w->g, x, weights, &attr, out);
}

typedef lw_status (*grow_fn)(grower *, lw_value_id *);

static lw_status grow(grower *w) {
  static const grow_fn steps[] = {
    grow_unary, grow_binary, grow_binary, grow_binary, grow_select, grow_cast, grow_reshape, grow_permute, grow_slice, grow_pad,
    grow_concat, grow_reduce, grow_reduce, grow_composite, grow_composite, grow_gather, grow_pool, source, grow_dot, grow_conv,
  };
  size_t count = LW_ARRAY_COUNT(steps) - (w->options->contractions ? 0 : 2);
  lw_value_id made;
  LW_TRY(steps[pick(w, (int64_t)count)](w, &made));
  if (lw__shape_numel(shape_of(w, made)) > 60000) return LW_OK;
  return lw_vec_push(&w->pool, made);
}

static lw_status grow_all(grower *w) {
  lw_value_id v;
  lw_shape shape;
  LW_TRY(random_shape(w, 1 + (uint32_t)pick(w, 4), &shape));
  LW_TRY(lw__graph_input(w->g, float_type(w), &shape, "x", &v));
  LW_TRY(lw_vec_push(&w->pool, v));
  for (uint32_t i = 0; i < w->options->nodes; i++) LW_TRY(grow(w));
  int64_t outputs = 1 + pick(w, 3);
  for (int64_t i = 0; i < outputs; i++) {
    uint32_t last = w->pool.count - 1;
    lw_value_id result = i == 0 ? w->pool.data[last] : any(w);
    LW_TRY(lw__graph_output(w->g, result, i == 0 ? "y" : i == 1 ? "z" : "w"));
  }
  return lw__graph_compact(w->g);
}

lw_status lw_rgraph_make(uint64_t seed, const lw_rgraph_options *options, lw_graph *out) {
  grower w = {.g = out, .options = options};
  lw__rng_seed(&w.rng, seed);
  lw_status status = grow_all(&w);
  lw_vec_free(&w.pool);
  return status;
}

void lw_random_fill(lw_rng *rng, lw_dtype dtype, void *data, int64_t count) {
  for (int64_t i = 0; i < count; i++) {
    if (lw__dtype_is_float(dtype)) lw__elem_set_f64(dtype, data, i, lw__rng_normal(rng));
    else lw__elem_set_i64(dtype, data, i, lw__rng_range(rng, 0, dtype == LW_DTYPE_BOOL ? 2 : 10));
  }
}

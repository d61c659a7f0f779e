/* rgraph.c: random graphs. Values stay near 1 so that error bounds stay useful: growth ends in
 * bounded functions. */
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
  if (w->options->wide && pick(w, 8) == 0) return LW_DTYPE_F64;
  if (w->options->wide && w->options->narrow && pick(w, 10) == 0)
    return pick(w, 2) ? LW_DTYPE_F8E4M3 : LW_DTYPE_F8E5M2;
  int64_t k = w->options->narrow ? pick(w, 4) : 0;
  return k == 1 ? LW_DTYPE_F16 : k == 2 ? LW_DTYPE_BF16 : LW_DTYPE_F32;
}

/* Wide graphs prefer what was made last, so that most of what is made belongs to a result. */
static lw_value_id any(grower *w) {
  int64_t count = w->pool.count, recent = lw__min_i64(count, 3);
  if (w->options->wide && pick(w, 3) > 0) return w->pool.data[count - 1 - pick(w, recent)];
  return w->pool.data[pick(w, count)];
}

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

/* Few long rows: reductions that are cut into pieces, odd tails, prime extents. */
static lw_shape long_shape(grower *w) {
  static const int64_t sizes[] = {1021, 2048, 4096, 5000, 6272, 8191, 9973, 16384};
  int64_t size = sizes[pick(w, (int64_t)LW_ARRAY_COUNT(sizes))];
  if (pick(w, 12) == 0) return lw__shape_of(1, (const int64_t[]){50257});
  int64_t rows = 1 + pick(w, lw__max_i64(1, lw__min_i64(9, 20000 / size)));
  int64_t dims[2] = {rows, size};
  if (pick(w, 4) == 0) dims[0] = size, dims[1] = rows;
  return lw__shape_of(2, dims);
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
  if (w->options->wide && pick(w, 3) == 0) shape = long_shape(w);
  if (pick(w, 4) == 0) return new_const(w, float_type(w), &shape, out);
  return lw__graph_input(w->g, float_type(w), &shape, NULL, out);
}

/* ---- growth steps -----------------------------------------------------------------------------*/

static lw_status grow_unary(grower *w, lw_value_id *out) {
  static const lw_fn fns[] = {LW_FN_TANH, LW_FN_SIGMOID, LW_FN_NEG, LW_FN_ABS,
                              LW_FN_ERF,  LW_FN_SIN,     LW_FN_COS};
  lw_value_id x = any_float(w);
  return lw__graph_map(w->g, fns[pick(w, (int64_t)LW_ARRAY_COUNT(fns))], &x, out);
}

/* A second operand that broadcasts: the same value, a fresh scalar, a constant over some trailing
 * dims, or ones dims. */
static lw_status partner(grower *w, lw_value_id x, lw_value_id *out) {
  lw_shape shape = *shape_of(w, x);
  lw_dtype dtype = lw__value(w->g, x)->dtype;
  for (int i = 0; i < 8; i++) {
    lw_value_id v = any(w);
    if (v != x && lw__value(w->g, v)->dtype == dtype && lw__shape_eq(w->g, shape_of(w, v), &shape))
      return *out = v, LW_OK;
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
  LW_TRY(lw__graph_scalar(w->g, LW_DTYPE_I64, (double)pick(w, lw__max_i64(1, shape.dim[axis])),
                          &bound));
  cmp[0] = index;
  cmp[1] = bound;
  LW_TRY(lw__graph_map_bc(w->g, LW_FN_LE, cmp, &in[0]));
  in[1] = x;
  LW_TRY(partner(w, x, &in[2]));
  return lw__graph_map_bc(w->g, LW_FN_SELECT, in, out);
}

static lw_status grow_cast(grower *w, lw_value_id *out) {
  return lw__graph_cast(w->g, any_float(w), float_type(w), out);
}

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
  for (int64_t i = 0; i < result.dim[axis]; i++)
    rows[i] = lw__rng_range(&w->rng, -shape.dim[axis], shape.dim[axis]);
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
  return lw__graph_reduce(w->g, pick(w, 2) ? LW_RED_MAX : LW_RED_SUM, windows, 3u << shape.rank,
                          out);
}

/* 16-bit matrices as matrix units take them, mostly: rows of whole 16 bytes; perhaps a batch, the
 * right one perhaps turned or a constant, the left one perhaps computed. */
static lw_status grow_matrices(grower *w, lw_value_id *out) {
  static const uint8_t turn2[] = {1, 0}, turn3[] = {0, 2, 1};
  lw_dtype dtype = pick(w, 2) ? LW_DTYPE_F16 : LW_DTYPE_BF16;
  int64_t batch = pick(w, 3) ? 1 : 1 + pick(w, 3);
  int64_t m = 1 + pick(w, 70), k = 16 + 8 * pick(w, 8), n = 8 + 8 * pick(w, 8) + (pick(w, 4) == 0);
  uint32_t rank = batch > 1 ? 3 : 2;
  bool turned = pick(w, 2) != 0;
  const int64_t left[3] = {batch, m, k}, right[3] = {batch, turned ? n : k, turned ? k : n};
  lw_shape a = lw__shape_of(rank, left + 3 - rank), b = lw__shape_of(rank, right + 3 - rank);
  lw_value_id x, y, scale;
  LW_TRY(lw__graph_input(w->g, dtype, &a, NULL, &x));
  if (pick(w, 4) == 0) LW_TRY(lw__graph_map(w->g, LW_FN_TANH, &x, &x));
  LW_TRY(pick(w, 2) ? new_const(w, dtype, &b, &y) : lw__graph_input(w->g, dtype, &b, NULL, &y));
  if (turned) LW_TRY(lw__graph_permute(w->g, y, rank == 2 ? turn2 : turn3, &y));
  LW_TRY(lw__graph_scalar(w->g, dtype, 0.125, &scale));
  lw_value_id in[2] = {0, scale};
  LW_TRY(lw__graph_dot(w->g, x, y, &in[0]));
  return lw__graph_map_bc(w->g, LW_FN_MUL, in, out);
}

static lw_status grow_dot(grower *w, lw_value_id *out) {
  if (w->options->narrow && pick(w, 2)) return grow_matrices(w, out);
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

/* Large enough for matrix units: x [b, m, k] or what is there, times [k, n] that lies either way.
 */
static lw_status grow_matrix(grower *w, lw_value_id *out) {
  static const lw_dtype types[] = {LW_DTYPE_F16, LW_DTYPE_BF16};
  lw_dtype dtype = types[pick(w, 2)];
  lw_value_id x = any_float(w), right, eighth;
  lw_shape shape = *shape_of(w, x);
  uint32_t rank = shape.rank;
  if (rank < 2 || shape.dim[rank - 1] < 16 || lw__shape_numel(&shape) > 9000) {
    shape = lw__shape_of(3, (const int64_t[]){1 + pick(w, 2), 1 + pick(w, 70), 16 + pick(w, 60)});
    rank = 3;
    LW_TRY(lw__graph_input(w->g, dtype, &shape, NULL, &x));
  } else {
    LW_TRY(lw__graph_cast(w->g, x, dtype, &x));
  }
  bool turned = pick(w, 2) == 0;
  lw_shape factor = shape;
  for (uint32_t d = 0; d + 2 < rank; d++) factor.dim[d] = 1;
  int64_t k = shape.dim[rank - 1], n = pick(w, 2) ? 8 * (1 + pick(w, 9)) : 1 + pick(w, 80);
  factor.dim[rank - 2] = turned ? n : k;
  factor.dim[rank - 1] = turned ? k : n;
  LW_TRY(new_const(w, dtype, &factor, &right));
  if (turned) {
    uint8_t perm[LW_MAX_RANK];
    for (uint32_t d = 0; d < rank; d++) perm[d] = (uint8_t)d;
    perm[rank - 1] = (uint8_t)(rank - 2);
    perm[rank - 2] = (uint8_t)(rank - 1);
    LW_TRY(lw__graph_permute(w->g, right, perm, &right));
  }
  factor = shape;
  factor.dim[rank - 2] = k;
  factor.dim[rank - 1] = n;
  LW_TRY(lw__graph_broadcast(w->g, right, &factor, &right));
  LW_TRY(lw__graph_scalar(w->g, dtype, 0.125, &eighth));
  lw_value_id in[2] = {0, eighth};
  LW_TRY(lw__graph_dot(w->g, x, right, &in[0]));
  return lw__graph_map_bc(w->g, LW_FN_MUL, in, out);
}

/* ---- growth steps of wide graphs --------------------------------------------------------------*/

static lw_value_id any_of(grower *w, bool (*fits)(lw_dtype)) {
  for (int i = 0; i < 50; i++) {
    lw_value_id v = any(w);
    if (fits(lw__value(w->g, v)->dtype)) return v;
  }
  return LW_NONE;
}

static bool is_bool(lw_dtype t) { return t == LW_DTYPE_BOOL; }

static lw_status scalar_map(grower *w, lw_fn fn, lw_value_id x, double y, lw_value_id *out) {
  lw_value_id in[2] = {x, LW_NONE};
  LW_TRY(lw__graph_scalar(w->g, lw__value(w->g, x)->dtype, y, &in[1]));
  return lw__graph_map_bc(w->g, fn, in, out);
}

/* Functions whose domain is not the whole line get their operand moved into it first. */
static lw_status grow_function(grower *w, lw_value_id *out) {
  static const lw_fn free_fns[] = {LW_FN_FLOOR, LW_FN_CEIL, LW_FN_ROUND, LW_FN_TRUNC,
                                   LW_FN_SIGN,  LW_FN_ATAN, LW_FN_ASINH};
  static const lw_fn positive_fns[] = {LW_FN_SQRT, LW_FN_RSQRT, LW_FN_LOG, LW_FN_LOG1P,
                                       LW_FN_RECIP};
  static const lw_fn bounded_fns[] = {LW_FN_EXP, LW_FN_EXPM1, LW_FN_SINH, LW_FN_COSH, LW_FN_TAN};
  lw_value_id x = any_float(w), y;
  switch (pick(w, 4)) {
    case 0:
      return lw__graph_map(w->g, free_fns[pick(w, (int64_t)LW_ARRAY_COUNT(free_fns))], &x, out);
    case 1:
      LW_TRY(lw__graph_map(w->g, LW_FN_ABS, &x, &y));
      LW_TRY(scalar_map(w, LW_FN_ADD, y, 0.5, &y));
      return lw__graph_map(w->g, positive_fns[pick(w, (int64_t)LW_ARRAY_COUNT(positive_fns))], &y,
                           out);
    case 2:
      LW_TRY(lw__graph_map(w->g, LW_FN_TANH, &x, &y));
      return lw__graph_map(w->g, bounded_fns[pick(w, (int64_t)LW_ARRAY_COUNT(bounded_fns))], &y,
                           out);
    default: return lw__graph_relu(w->g, x, out);
  }
}

static lw_status grow_divide(grower *w, lw_value_id *out) {
  lw_value_id in[2] = {any_float(w), LW_NONE};
  LW_TRY(partner(w, in[0], &in[1]));
  LW_TRY(lw__graph_map(w->g, LW_FN_ABS, &in[1], &in[1]));
  LW_TRY(scalar_map(w, LW_FN_ADD, in[1], 1, &in[1]));
  return lw__graph_map_bc(w->g, LW_FN_DIV, in, out);
}

static lw_status grow_integer(grower *w, lw_value_id *out) {
  static const lw_dtype types[] = {LW_DTYPE_I8, LW_DTYPE_I16, LW_DTYPE_I32, LW_DTYPE_I64,
                                   LW_DTYPE_U8, LW_DTYPE_U16, LW_DTYPE_U32, LW_DTYPE_U64};
  lw_value_id x = any_float(w);
  LW_TRY(scalar_map(w, LW_FN_MUL, x, 8, &x));
  return lw__graph_cast(w->g, x, types[pick(w, (int64_t)LW_ARRAY_COUNT(types))], out);
}

static lw_status grow_integer_binary(grower *w, lw_value_id *out) {
  static const lw_fn fns[] = {LW_FN_ADD,    LW_FN_SUB, LW_FN_MUL, LW_FN_MIN,    LW_FN_MAX,
                              LW_FN_DIV,    LW_FN_MOD, LW_FN_REM, LW_FN_BITAND, LW_FN_BITOR,
                              LW_FN_BITXOR, LW_FN_SHL, LW_FN_SHR};
  lw_value_id in[2] = {any_of(w, lw__dtype_is_int), LW_NONE};
  if (in[0] == LW_NONE) return grow_integer(w, out);
  lw_fn fn = fns[pick(w, (int64_t)LW_ARRAY_COUNT(fns))];
  if (fn == LW_FN_SHL || fn == LW_FN_SHR) return scalar_map(w, fn, in[0], (double)pick(w, 5), out);
  LW_TRY(partner(w, in[0], &in[1]));
  return lw__graph_map_bc(w->g, fn, in, out);
}

/* Integers and bools come back as floats of moderate size. */
static lw_status grow_back(grower *w, lw_value_id *out) {
  lw_value_id x = pick(w, 2) ? any_of(w, lw__dtype_is_int) : any_of(w, is_bool);
  if (x == LW_NONE) return grow_function(w, out);
  LW_TRY(lw__graph_cast(w->g, x, float_type(w), &x));
  return lw__graph_map(w->g, LW_FN_TANH, &x, out);
}

static lw_status grow_compare(grower *w, lw_value_id *out) {
  static const lw_fn fns[] = {LW_FN_EQ, LW_FN_NE, LW_FN_LT, LW_FN_LE, LW_FN_GT, LW_FN_GE};
  lw_value_id in[2] = {any(w), LW_NONE};
  if (lw__value(w->g, in[0])->dtype == LW_DTYPE_BOOL) in[0] = any_float(w);
  LW_TRY(partner(w, in[0], &in[1]));
  return lw__graph_map_bc(w->g, fns[pick(w, (int64_t)LW_ARRAY_COUNT(fns))], in, out);
}

static lw_status grow_logic(grower *w, lw_value_id *out) {
  static const lw_fn fns[] = {LW_FN_AND, LW_FN_OR, LW_FN_XOR, LW_FN_NOT};
  lw_value_id in[2] = {any_of(w, is_bool), LW_NONE};
  if (in[0] == LW_NONE) return grow_compare(w, out);
  LW_TRY(partner(w, in[0], &in[1]));
  int64_t k = pick(w, (int64_t)LW_ARRAY_COUNT(fns));
  return fns[k] == LW_FN_NOT ? lw__graph_map(w->g, LW_FN_NOT, in, out)
                             : lw__graph_map_bc(w->g, fns[k], in, out);
}

static lw_status grow_choose(grower *w, lw_value_id *out) {
  lw_value_id in[3] = {any_of(w, is_bool), LW_NONE, LW_NONE};
  if (in[0] == LW_NONE) return grow_compare(w, out);
  lw_shape shape = *shape_of(w, in[0]);
  LW_TRY(new_const(w, float_type(w), &shape, &in[1]));
  LW_TRY(partner(w, in[1], &in[2]));
  return lw__graph_map_bc(w->g, LW_FN_SELECT, in, out);
}

static lw_status grow_reduce_any_type(grower *w, lw_value_id *out) {
  lw_value_id x = any(w);
  lw_dtype dtype = lw__value(w->g, x)->dtype;
  uint32_t rank = shape_of(w, x)->rank;
  if (!rank) return grow_function(w, out);
  uint32_t axes = 1u + (uint32_t)pick(w, (1 << rank) - 1);
  static const lw_red reds[] = {LW_RED_SUM, LW_RED_MAX, LW_RED_MIN, LW_RED_PROD};
  if (dtype == LW_DTYPE_BOOL)
    return lw__graph_reduce(w->g, pick(w, 2) ? LW_RED_ANY : LW_RED_ALL, x, axes, out);
  return lw__graph_reduce(w->g, reds[pick(w, lw__dtype_is_float(dtype) ? 3 : 4)], x, axes, out);
}

/* A new leading dim, or dims of extent 1 repeated. */
static lw_status grow_expand(grower *w, lw_value_id *out) {
  lw_value_id x = any(w);
  lw_shape shape = *shape_of(w, x);
  if (shape.rank < 6 && pick(w, 2)) {
    memmove(shape.dim + 1, shape.dim, shape.rank * sizeof shape.dim[0]);
    shape.dim[0] = 1 + pick(w, 4);
    shape.rank++;
  }
  for (uint32_t d = 0; d < shape.rank; d++)
    if (shape.dim[d] == 1 && pick(w, 2)) shape.dim[d] = extent(w);
  if (lw__shape_numel(&shape) > 20000) return grow_function(w, out);
  return lw__graph_broadcast(w->g, x, &shape, out);
}

/* Softmax(x x' / 4) x over the last two dims, masked or not. */
static lw_status grow_attention(grower *w, lw_value_id *out) {
  lw_value_id x = any_float(w), turned, scores[3], mask[2];
  lw_shape shape = *shape_of(w, x);
  if (shape.rank < 2 || shape.rank > 4 || lw__shape_numel(&shape) > 6000)
    return grow_composite(w, out);
  uint32_t rank = shape.rank;
  if (shape.dim[rank - 2] > 64) return grow_composite(w, out);
  uint8_t perm[LW_MAX_RANK];
  for (uint32_t d = 0; d < rank; d++) perm[d] = (uint8_t)d;
  perm[rank - 1] = (uint8_t)(rank - 2);
  perm[rank - 2] = (uint8_t)(rank - 1);
  LW_TRY(lw__graph_permute(w->g, x, perm, &turned));
  LW_TRY(lw__graph_dot(w->g, x, turned, &scores[1]));
  LW_TRY(scalar_map(w, LW_FN_MUL, scores[1], 0.25, &scores[1]));
  if (pick(w, 2)) {
    lw_shape square = *shape_of(w, scores[1]);
    LW_TRY(lw__graph_iota(w->g, LW_DTYPE_I32, &square, rank - 1, &mask[0]));
    LW_TRY(lw__graph_iota(w->g, LW_DTYPE_I32, &square, rank - 2, &mask[1]));
    LW_TRY(lw__graph_map(w->g, LW_FN_LE, mask, &scores[0]));
    LW_TRY(lw__graph_scalar(w->g, lw__value(w->g, x)->dtype, -1e4, &scores[2]));
    LW_TRY(lw__graph_map_bc(w->g, LW_FN_SELECT, scores, &scores[1]));
  }
  LW_TRY(lw__graph_softmax(w->g, scores[1], 1u << (rank - 1), false, &scores[1]));
  return lw__graph_dot(w->g, scores[1], x, out);
}

/* [.., s, h * d] to [.., h, s, d]: how heads are split. */
static lw_status grow_heads(grower *w, lw_value_id *out) {
  lw_value_id x = any_float(w), split;
  lw_shape shape = *shape_of(w, x);
  if (shape.rank < 2 || shape.rank > 5 || shape.dim[shape.rank - 1] % 4)
    return grow_permute(w, out);
  uint32_t rank = shape.rank++;
  shape.dim[rank] = shape.dim[rank - 1] / 4;
  shape.dim[rank - 1] = 4;
  LW_TRY(lw__graph_reshape(w->g, x, &shape, &split));
  uint8_t perm[LW_MAX_RANK];
  for (uint32_t d = 0; d <= rank; d++) perm[d] = (uint8_t)d;
  perm[rank - 1] = (uint8_t)(rank - 2);
  perm[rank - 2] = (uint8_t)(rank - 1);
  return lw__graph_permute(w->g, split, perm, out);
}

/* Rows chosen by an index that a kernel computes: some float times 8, wrapped into the range. */
static lw_status grow_gather_computed(grower *w, lw_value_id *out) {
  lw_value_id x = any_float(w), index = any_float(w);
  const lw_shape data = *shape_of(w, x), lead = *shape_of(w, index);
  if (!data.rank || lw__shape_numel(&data) == 0 || lead.rank + data.rank > 6)
    return grow_gather(w, out);
  lw_shape result = lead;
  for (uint32_t d = 1; d < data.rank; d++) result.dim[result.rank++] = data.dim[d];
  if (lw__shape_numel(&result) > 20000) return grow_gather(w, out);
  LW_TRY(scalar_map(w, LW_FN_MUL, index, 8, &index));
  LW_TRY(lw__graph_cast(w->g, index, LW_DTYPE_I64, &index));
  LW_TRY(scalar_map(w, LW_FN_MOD, index, (double)data.dim[0], &index));
  lw_shape ones = result;
  for (uint32_t d = lead.rank; d < ones.rank; d++) ones.dim[d] = 1;
  LW_TRY(lw__graph_reshape(w->g, index, &ones, &index));
  LW_TRY(lw__graph_broadcast(w->g, index, &result, &index));
  int8_t select[LW_MAX_RANK] = {0};
  for (uint32_t d = 1; d < data.rank; d++) select[d] = (int8_t)(-1 - (int)(lead.rank + d - 1));
  return lw__graph_gather(w->g, x, &index, 1, select, &result, out);
}

/* Data large enough for tiles, turned on the way. */
static lw_status grow_turned(grower *w, lw_value_id *out) {
  int64_t dims[3] = {1 + pick(w, 2), 33 + pick(w, 90), 33 + pick(w, 80)};
  lw_shape shape = lw__shape_of(3, dims);
  static const uint8_t perms[3][3] = {{0, 2, 1}, {2, 1, 0}, {2, 0, 1}};
  lw_value_id x, in[2];
  LW_TRY(lw__graph_input(w->g, float_type(w), &shape, NULL, &x));
  if (pick(w, 2)) LW_TRY(lw__graph_map(w->g, LW_FN_TANH, &x, &x));
  LW_TRY(lw__graph_permute(w->g, x, perms[pick(w, 3)], &in[0]));
  if (pick(w, 2)) return *out = in[0], LW_OK;
  LW_TRY(partner(w, in[0], &in[1]));
  return lw__graph_map_bc(w->g, LW_FN_ADD, in, out);
}

static lw_status grow_concat_parts(grower *w, lw_value_id *out) {
  lw_value_id in[3] = {any(w), LW_NONE, LW_NONE};
  lw_shape shape = *shape_of(w, in[0]);
  if (!shape.rank) return grow_function(w, out);
  uint32_t axis = (uint32_t)pick(w, shape.rank), count = 1;
  for (uint32_t i = 0; i < 2; i++) {
    lw_shape part = shape;
    part.dim[axis] = pick(w, 4);
    LW_TRY(new_const(w, lw__value(w->g, in[0])->dtype, &part, &in[count++]));
  }
  if (pick(w, 2)) in[2] = in[0];
  return lw__graph_concat(w->g, in, count, axis, out);
}

typedef lw_status (*grow_fn)(grower *, lw_value_id *);

static lw_status grow_wide(grower *w, lw_value_id *out) {
  static const grow_fn steps[] = {
      grow_function,        grow_function,       grow_divide, grow_integer,
      grow_integer_binary,  grow_integer_binary, grow_back,   grow_back,
      grow_compare,         grow_logic,          grow_choose, grow_choose,
      grow_reduce_any_type, grow_expand,         grow_heads,  grow_gather_computed,
      grow_concat_parts,    grow_turned,         source,      grow_attention,
  };
  size_t count = LW_ARRAY_COUNT(steps) - (w->options->contractions ? 0 : 1);
  return steps[pick(w, (int64_t)count)](w, out);
}

static lw_status grow(grower *w) {
  static const grow_fn steps[] = {
      grow_unary,   grow_binary,    grow_binary,    grow_binary, grow_select, grow_cast,
      grow_reshape, grow_permute,   grow_slice,     grow_pad,    grow_concat, grow_reduce,
      grow_reduce,  grow_composite, grow_composite, grow_gather, grow_pool,   source,
      grow_dot,     grow_conv,      grow_matrix,
  };
  size_t count = LW_ARRAY_COUNT(steps) - (w->options->contractions ? 0 : 3);
  lw_value_id made;
  grow_fn step = w->options->wide && pick(w, 2) ? grow_wide : steps[pick(w, (int64_t)count)];
  LW_TRY(step(w, &made));
  if (lw__shape_numel(shape_of(w, made)) > 60000) return LW_OK;
  return lw_vec_push(&w->pool, made);
}

static lw_status grow_all(grower *w) {
  lw_value_id v;
  lw_shape shape;
  LW_TRY(random_shape(w, 1 + (uint32_t)pick(w, 4), &shape));
  if (w->options->wide && pick(w, 4) == 0) shape = long_shape(w);
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
    if (lw__dtype_is_float(dtype))
      lw__elem_set_f64(dtype, data, i, lw__rng_normal(rng));
    else
      lw__elem_set_i64(dtype, data, i, lw__rng_range(rng, 0, dtype == LW_DTYPE_BOOL ? 2 : 10));
  }
}

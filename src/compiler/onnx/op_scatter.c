/* op_scatter.c: writing at given places. Where the places are known on import the result is a
 * choice of elements from the data and the updates. Else each place looks for the updates that name
 * it: places * updates comparisons. */
#include <string.h>

#include "compiler/onnx/import_internal.h"
#include "compiler/onnx/op.h"

/* Known index |i| of |indices|, counted from the front of a dimension of |extent|. */
static int64_t scatter_index(lw_call *c, lw_value_id indices, int64_t i, int64_t extent) {
  lw_content_elem e;
  if (!lw__call_ok(c)) return 0;
  if (!lw__contents_get(&c->im->contents, indices, i, &e) || e.kind != LW_CONTENT_NUMBER) {
    lw__call_unsupported(c, "indices that are computed from data");
    return 0;
  }
  if (e.value.i < -extent || e.value.i >= extent) {
    lw__call_invalid(c, "the index %lld is outside a dimension of %lld", (long long)e.value.i,
                     (long long)extent);
    return 0;
  }
  return e.value.i < 0 ? e.value.i + extent : e.value.i;
}

typedef enum lw_scatter_reduction {
  SCATTER_NONE,
  SCATTER_ADD,
  SCATTER_MUL,
  SCATTER_MAX,
  SCATTER_MIN
} lw_scatter_reduction;

/* The update that goes to each place of the data: with a reduction several may, layer upon layer.
 */
typedef struct lw_scatter {
  lw_scatter_reduction reduction;
  lw_value_id x, updates;
  int64_t count, update_count, layers;
  int64_t *target; /* per update: its place in the data */
} lw_scatter;

static void scatter_read_reduction(lw_call *c, lw_scatter *s) {
  static const char *const reductions[] = {"none", "add", "mul", "max", "min", NULL};
  s->reduction = (lw_scatter_reduction)lw__call_choice(c, "reduction", reductions);
}

static bool scatter_begin(lw_call *c, lw_scatter *s) {
  lw_shape shape = lw__b_shape(c, s->x), given = lw__b_shape(c, s->updates);
  for (uint32_t d = 0; d < shape.rank; d++) (void)lw__call_static(c, shape.dim[d]);
  for (uint32_t d = 0; d < given.rank; d++) (void)lw__call_static(c, given.dim[d]);
  s->count = lw__shape_numel(&shape);
  s->update_count = lw__shape_numel(&given);
  s->target = lw__b_alloc(c, s->update_count, sizeof *s->target);
  return s->target != NULL;
}

/* The result without a reduction: each place keeps its element or takes the last update. */
static lw_value_id scatter_replace(lw_call *c, const lw_scatter *s, lw_value_id x,
                                   lw_value_id updates) {
  int64_t *source = lw__b_alloc(c, s->count, sizeof *source);
  if (source == NULL) return LW_NONE;
  for (int64_t i = 0; i < s->count; i++) source[i] = i;
  for (int64_t i = 0; i < s->update_count; i++) source[s->target[i]] = s->count + i;
  lw_value_id all = lw__b_concat(c, (lw_value_id[]){x, updates}, 2, 0);
  return lw__b_take(c, all, 0, source, s->count);
}

/* x combined with the n-th update of each place, n = 0, 1, .. until there are no more. */
static lw_value_id scatter_reduce(lw_call *c, const lw_scatter *s, lw_value_id x,
                                  lw_value_id updates) {
  static const lw_red reds[] = {LW_RED_SUM, LW_RED_SUM, LW_RED_PROD, LW_RED_MAX, LW_RED_MIN};
  enum { LAYERS_MAX = 64 };
  lw_red red = reds[s->reduction];
  lw_dtype dtype = lw__b_dtype(c, x), wide;
  int64_t *seen = lw__b_alloc(c, s->count, sizeof *seen), layers = 0;
  int64_t *source = lw__b_alloc(c, s->count, sizeof *source);
  if (source == NULL || seen == NULL) return LW_NONE;
  for (int64_t i = 0; i < s->update_count; i++) layers = lw__max_i64(layers, ++seen[s->target[i]]);
  if (layers > LAYERS_MAX)
    lw__call_unsupported(c, "%lld updates of one element", (long long)layers);
  x = lw__b_up(c, x);
  wide = lw__b_dtype(c, x);
  lw_value_id none = lw__b_unsqueeze(c, lw__b_identity(c, red, wide), 0);
  lw_value_id all = lw__b_concat(c, (lw_value_id[]){lw__b_up(c, updates), none}, 2, 0);
  for (int64_t n = 0; n < layers && lw__call_ok(c); n++) {
    memset(seen, 0, (size_t)s->count * sizeof *seen);
    for (int64_t i = 0; i < s->count; i++) source[i] = s->update_count;
    for (int64_t i = 0; i < s->update_count; i++) {
      if (seen[s->target[i]]++ == n) source[s->target[i]] = i;
    }
    x = lw__b_map2(c, lw__red_info[red].combine, x, lw__b_take(c, all, 0, source, s->count));
  }
  return lw__b_cast(c, x, dtype);
}

static void scatter_end(lw_call *c, const lw_scatter *s) {
  lw_shape shape = lw__b_shape(c, s->x);
  if (!lw__call_ok(c)) return;
  lw_value_id x = lw__b_merge(c, s->x, 0, shape.rank);
  lw_value_id updates = lw__b_merge(c, s->updates, 0, lw__b_rank(c, s->updates));
  lw_value_id y = s->reduction == SCATTER_NONE ? scatter_replace(c, s, x, updates)
                                               : scatter_reduce(c, s, x, updates);
  lw__call_out(c, 0, lw__b_reshape(c, y, &shape));
}

/* ---- places that are computed ---------------------------------------------------------------*/

static bool scatter_is_known(const lw_call *c, lw_value_id indices, lw_value_id x) {
  enum { TABLE_MAX = 1 << 20 };
  lw_shape shape = lw__b_shape(c, indices), data = lw__b_shape(c, x);
  int64_t count = lw__shape_numel(&shape), size = lw__shape_numel(&data);
  if (indices == LW_NONE || count < 0 || size < 0 || size > TABLE_MAX) return false;
  if (!lw__contents_has(&c->im->contents, indices)) return false;
  lw_content_elem e;
  for (int64_t i = 0; i < count; i++) {
    (void)lw__contents_get(&c->im->contents, indices, i, &e);
    if (e.kind != LW_CONTENT_NUMBER) return false;
  }
  return true;
}

/* Negative indices counted from the end. */
static lw_value_id scatter_wrap(lw_call *c, lw_value_id index, lw_extent extent) {
  lw_value_id i = lw__b_cast(c, index, LW_DTYPE_I64);
  double n = (double)lw__call_static(c, extent);
  return lw__b_select(c, lw__b_map2s(c, LW_FN_LT, i, 0), lw__b_adds(c, i, n), i);
}

/* |x| with the updates that |match| [.., places, updates, ..] (at |axis|, |axis|+1) assigns to each
 * place; |updates| has its dim of updates at |axis|, and x's other dims. */
static lw_value_id scatter_matched(lw_call *c, lw_scatter_reduction reduction, lw_value_id x,
                                   lw_value_id updates, lw_value_id match, uint32_t axis) {
  static const lw_red reds[] = {LW_RED_MAX, LW_RED_SUM, LW_RED_PROD, LW_RED_MAX, LW_RED_MIN};
  lw_red red = reds[reduction];
  lw_shape shape = lw__b_shape(c, x), line = {1, {lw__b_dim(c, updates, axis)}};
  lw_dtype dtype = lw__b_dtype(c, x);
  if (reduction != SCATTER_NONE) {
    lw_value_id wide = lw__b_up(c, x), none = lw__b_identity(c, red, lw__b_dtype(c, wide));
    lw_value_id terms = lw__b_unsqueeze(c, lw__b_up(c, updates), axis);
    terms = lw__b_reduce(c, red, lw__b_select(c, match, terms, none), 1u << (axis + 1), false);
    return lw__b_cast(c, lw__b_map2(c, lw__red_info[red].combine, wide, terms), dtype);
  }
  lw_value_id number = lw__b_iota(c, LW_DTYPE_I64, &line, 0);
  number = lw__b_along(c, number, axis + 1, shape.rank + 1);
  lw_value_id last = lw__b_select(c, match, number, lw__b_scalar(c, LW_DTYPE_I64, -1));
  last = lw__b_broadcast(c, lw__b_reduce(c, LW_RED_MAX, last, 1u << (axis + 1), false), &shape);
  lw_value_id hit = lw__b_map2s(c, LW_FN_GE, last, 0), safe = lw__b_map2s(c, LW_FN_MAX, last, 0);
  int8_t select[LW_MAX_RANK];
  for (uint32_t d = 0; d < shape.rank; d++) select[d] = (int8_t)(d == axis ? 0 : -1 - (int)d);
  return lw__b_select(c, hit, lw__b_gather(c, updates, &safe, 1, select, &shape), x);
}

/* Along one axis; updates that are shorter than the data elsewhere are filled up with ones that go
 * nowhere. */
static void scatter_along(lw_call *c, const lw_scatter *s, lw_value_id indices, uint32_t axis) {
  lw_shape data = lw__b_shape(c, s->x), places = lw__b_shape(c, indices);
  int64_t lo[LW_MAX_RANK] = {0}, hi[LW_MAX_RANK] = {0};
  for (uint32_t d = 0; d < data.rank && lw__call_ok(c); d++) {
    if (d == axis || lw__call_same_extent(c, data.dim[d], places.dim[d])) continue;
    hi[d] = lw__call_static(c, data.dim[d]) - lw__call_static(c, places.dim[d]);
    if (hi[d] < 0) lw__call_invalid(c, "its indices do not fit");
  }
  if (!lw__call_ok(c)) return;
  if (lw__call_static(c, places.dim[axis]) == 0) {
    lw__call_out(c, 0, s->x);
    return;
  }
  lw_value_id wrapped = scatter_wrap(c, indices, data.dim[axis]);
  wrapped = lw__b_pad(c, wrapped, lo, hi, (lw_scalar){.i = INT64_MIN});
  lw_value_id updates = lw__b_pad(c, s->updates, lo, hi, (lw_scalar){.i = 0});
  lw_shape line = {1, {data.dim[axis]}};
  lw_value_id place = lw__b_along(c, lw__b_iota(c, LW_DTYPE_I64, &line, 0), axis, data.rank + 1);
  lw_value_id match = lw__b_map2(c, LW_FN_EQ, lw__b_unsqueeze(c, wrapped, axis), place);
  lw__call_out(c, 0, scatter_matched(c, s->reduction, s->x, updates, match, axis));
}

/* Tuples of |depth| coordinates name whole slices of the data. */
static void scatter_tuples(lw_call *c, const lw_scatter *s, lw_value_id indices, uint32_t depth) {
  lw_shape data = lw__b_shape(c, s->x);
  uint32_t rank = lw__b_rank(c, indices);
  int64_t stride = 1;
  lw_value_id flat = lw__b_merge(c, indices, 0, rank - 1), linear = LW_NONE;
  for (uint32_t k = depth; k-- > 0;) {
    lw_value_id one = lw__b_squeeze(c, lw__b_slice(c, flat, 1, k, 1, 1), 1);
    one = lw__b_muls(c, scatter_wrap(c, one, data.dim[k]), (double)stride);
    linear = linear == LW_NONE ? one : lw__b_add(c, linear, one);
    if (!lw__mul_i64(stride, lw__call_static(c, data.dim[k]), &stride)) return;
  }
  lw_value_id x = lw__b_merge(c, lw__b_merge(c, s->x, depth, data.rank), 0, depth);
  uint32_t lead = rank - 1, own = lw__b_rank(c, s->updates);
  if (!lw__call_ok(c) || own < lead) return;
  lw_value_id updates = lw__b_merge(c, lw__b_merge(c, s->updates, lead, own), 0, lead);
  if (lw__b_dim(c, updates, 0) == 0) {
    lw__call_out(c, 0, s->x);
    return;
  }
  if (!lw__call_same_extent(c, lw__b_dim(c, updates, 1), lw__b_dim(c, x, 1)) ||
      !lw__call_same_extent(c, lw__b_dim(c, updates, 0), lw__b_dim(c, linear, 0))) {
    lw__call_invalid(c, "its updates do not fit");
    return;
  }
  lw_shape line = {1, {lw__b_dim(c, x, 0)}};
  lw_value_id place = lw__b_along(c, lw__b_iota(c, LW_DTYPE_I64, &line, 0), 0, 3);
  lw_value_id match = lw__b_map2(c, LW_FN_EQ, lw__b_along(c, linear, 1, 3), place);
  lw_value_id y = scatter_matched(c, s->reduction, x, updates, match, 0);
  lw__call_out(c, 0, lw__b_reshape(c, y, &data));
}

/* ---- operators ------------------------------------------------------------------------------*/

static void scatter_strides(const lw_shape *shape, int64_t *stride) {
  int64_t step = 1;
  for (uint32_t d = shape->rank; d-- > 0; step *= shape->dim[d]) stride[d] = step;
}

void lw__op_scatter_elements(lw_call *c) {
  lw_scatter s = {.x = lw__call_in(c, 0), .updates = lw__call_in(c, 2)};
  lw_value_id indices = lw__call_in(c, 1);
  lw_shape data = lw__b_shape(c, s.x), places = lw__b_shape(c, indices);
  lw_shape given = lw__b_shape(c, s.updates);
  uint32_t axis = lw__call_axis_attr(c, "axis", 0, data.rank);
  int64_t stride[LW_MAX_RANK];
  if (places.rank != data.rank || !lw__shape_eq(c->graph, &places, &given)) {
    lw__call_invalid(c, "its indices do not fit");
  }
  scatter_read_reduction(c, &s);
  if (!lw__call_ok(c)) return;
  if (!scatter_is_known(c, indices, s.x)) {
    scatter_along(c, &s, indices, axis);
    return;
  }
  if (!scatter_begin(c, &s)) return;
  for (uint32_t d = 0; d < data.rank; d++) {
    if (d != axis && places.dim[d] > data.dim[d]) lw__call_invalid(c, "its indices do not fit");
  }
  scatter_strides(&data, stride);
  for (int64_t i = 0; i < s.update_count && lw__call_ok(c); i++) {
    int64_t rest = i, at = 0;
    for (uint32_t d = data.rank; d-- > 0; rest /= places.dim[d]) {
      int64_t k = rest % places.dim[d];
      at += stride[d] * (d == axis ? scatter_index(c, indices, i, data.dim[d]) : k);
    }
    s.target[i] = at;
  }
  scatter_end(c, &s);
}

void lw__op_scatter_nd(lw_call *c) {
  lw_scatter s = {.x = lw__call_in(c, 0), .updates = lw__call_in(c, 2)};
  lw_value_id indices = lw__call_in(c, 1);
  lw_shape data = lw__b_shape(c, s.x), places = lw__b_shape(c, indices);
  int64_t stride[LW_MAX_RANK], slice = 1;
  if (places.rank == 0) lw__call_invalid(c, "its indices are a scalar");
  int64_t depth = lw__call_ok(c) ? lw__call_static(c, places.dim[places.rank - 1]) : 0;
  if (depth < 1 || depth > data.rank) lw__call_invalid(c, "%lld coordinates", (long long)depth);
  scatter_read_reduction(c, &s);
  if (!lw__call_ok(c)) return;
  if (!scatter_is_known(c, indices, s.x)) {
    scatter_tuples(c, &s, indices, (uint32_t)depth);
    return;
  }
  if (!scatter_begin(c, &s)) return;
  for (uint32_t d = 0; d < places.rank; d++) (void)lw__call_static(c, places.dim[d]);
  if (!lw__call_ok(c)) return;
  scatter_strides(&data, stride);
  for (uint32_t d = (uint32_t)depth; d < data.rank; d++) slice *= data.dim[d];
  int64_t tuples = lw__shape_numel(&places) / depth, product;
  if (!lw__mul_i64(tuples, slice, &product) || product != s.update_count) {
    lw__call_invalid(c, "its updates do not fit");
  }
  for (int64_t t = 0; t < tuples && lw__call_ok(c); t++) {
    int64_t at = 0;
    for (int64_t k = 0; k < depth; k++) {
      at += stride[k] * scatter_index(c, indices, t * depth + k, data.dim[k]);
    }
    for (int64_t k = 0; k < slice && lw__call_ok(c); k++) s.target[t * slice + k] = at + k;
  }
  scatter_end(c, &s);
}

/* A cache of which the elements from |write_indices|[b] on are replaced. The places are computed on
 * the device. */
void lw__op_tensor_scatter(lw_call *c) {
  static const char *const modes[] = {"linear", "circular", NULL};
  lw_value_id past = lw__call_in(c, 0), update = lw__call_in(c, 1), start = lw__call_in(c, 2);
  uint32_t rank = lw__b_rank(c, past), axis = lw__call_axis_attr(c, "axis", -2, rank);
  bool circular = lw__call_choice(c, "mode", modes) == 1;
  if (axis == 0 || lw__b_rank(c, update) != rank) lw__call_invalid(c, "its update does not fit");
  int64_t length = lw__call_static(c, lw__b_dim(c, past, axis));
  int64_t fresh = lw__call_static(c, lw__b_dim(c, update, axis));
  lw_shape shape = lw__b_shape(c, past), line = {1, {length}};
  if (!lw__call_ok(c) || fresh == 0) {
    lw__call_out(c, 0, past);
    return;
  }
  lw_value_id at = lw__b_along(c, lw__b_iota(c, LW_DTYPE_I64, &line, 0), axis, rank);
  if (start != LW_NONE) {
    at = lw__b_sub(c, at, lw__b_along(c, lw__b_cast(c, start, LW_DTYPE_I64), 0, rank));
  }
  if (circular) at = lw__b_map2s(c, LW_FN_MOD, at, (double)length);
  at = lw__b_broadcast(c, at, &shape);
  lw_value_id inside = lw__b_map2(c, LW_FN_AND, lw__b_map2s(c, LW_FN_GE, at, 0),
                                  lw__b_map2s(c, LW_FN_LT, at, (double)fresh));
  lw_value_id safe = lw__b_select(c, inside, at, lw__b_scalar(c, LW_DTYPE_I64, 0));
  int8_t select[LW_MAX_RANK];
  for (uint32_t d = 0; d < rank; d++) select[d] = (int8_t)(d == axis ? 0 : -1 - (int)d);
  lw_value_id written = lw__b_gather(c, update, &safe, 1, select, &shape);
  lw__call_out(c, 0, lw__b_select(c, inside, written, past));
}

/* Values back to where a MaxPool took them from: |indices| count elements of the whole unpooled
 * tensor, which a given output shape may lie around. */
void lw__op_max_unpool(lw_call *c) {
  lw_value_id x = lw__call_in(c, 0), indices = lw__call_in(c, 1);
  uint32_t rank = lw__b_rank(c, x), kernel_count, wanted = 0;
  int64_t stride[LW_MAX_RANK], pads[2 * LW_MAX_RANK], lo[LW_MAX_RANK] = {0}, hi[LW_MAX_RANK] = {0};
  const int64_t *kernel = lw__call_ints(c, "kernel_shape", &kernel_count);
  if (rank < 3 || kernel_count != rank - 2) lw__call_invalid(c, "kernel_shape does not fit");
  if (!lw__call_ok(c) || !lw__call_ints_of(c, "strides", rank - 2, 1, stride) ||
      !lw__call_ints_of(c, "pads", 2 * (rank - 2), 0, pads))
    return;
  const int64_t *shape = lw__call_has(c, 2) ? lw__call_numbers(c, 2, &wanted) : NULL;
  lw_shape full = lw__b_shape(c, x);
  for (uint32_t d = 0; d < rank && lw__call_ok(c); d++) {
    int64_t n = lw__call_static(c, full.dim[d]);
    if (d >= 2) n = (n - 1) * stride[d - 2] - pads[d - 2] - pads[rank - 2 + d - 2] + kernel[d - 2];
    full.dim[d] = n;
    if (shape != NULL && wanted == rank) hi[d] = shape[d] - n;
    if (n < 0 || hi[d] < 0) lw__call_invalid(c, "its output shape does not fit");
  }
  if (!lw__call_ok(c)) return;
  int64_t numel = lw__shape_numel(&full);
  if (numel < 0) lw__call_invalid(c, "its output is too large");
  lw_shape flat = {1, {numel}};
  lw_value_id zeros = lw__b_broadcast(c, lw__b_scalar(c, lw__b_dtype(c, x), 0), &flat);
  lw_scatter s = {.x = zeros, .updates = lw__b_merge(c, x, 0, rank), .reduction = SCATTER_NONE};
  scatter_along(c, &s, lw__b_merge(c, indices, 0, rank), 0);
  if (!lw__call_ok(c)) return;
  lw_value_id y = lw__b_reshape(c, c->out[0], &full);
  lw__call_out(c, 0, lw__b_pad(c, y, lo, hi, (lw_scalar){.i = 0}));
}

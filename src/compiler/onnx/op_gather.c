/* op_gather.c: operators that read at computed places. */
#include <string.h>

#include "compiler/onnx/import_internal.h"
#include "compiler/onnx/op.h"

/* Known indices must lie inside 0 .. extent-1, negative ones counted from the end. */
static void gather_check(lw_call *c, lw_value_id indices, lw_extent extent) {
  lw_shape shape = lw__b_shape(c, indices);
  int64_t count = lw__shape_numel(&shape);
  if (!lw__call_ok(c) || !lw__extent_is_number(extent) ||
      !lw__contents_has(&c->im->contents, indices))
    return;
  for (int64_t i = 0; i < count; i++) {
    lw_content_elem e;
    (void)lw__contents_get(&c->im->contents, indices, i, &e);
    if (e.kind != LW_CONTENT_NUMBER || (e.value.i >= -extent && e.value.i < extent)) continue;
    lw__call_invalid(c, "the index %lld is outside a dimension of %lld", (long long)e.value.i,
                     (long long)extent);
    return;
  }
}

/* Indices that are known and few, counted from the front; NULL otherwise. */
static int64_t *gather_known(lw_call *c, lw_value_id indices, lw_extent extent,
                             int64_t *out_count) {
  lw_shape shape = lw__b_shape(c, indices);
  int64_t count = lw__shape_numel(&shape);
  if (!lw__call_ok(c) || count < 0 || count > 4096 || !lw__contents_has(&c->im->contents, indices))
    return NULL;
  int64_t *index = lw__b_alloc(c, count, sizeof *index);
  for (int64_t i = 0; i < count && index != NULL; i++) {
    lw_content_elem e;
    (void)lw__contents_get(&c->im->contents, indices, i, &e);
    if (e.kind != LW_CONTENT_NUMBER) return NULL;
    if (e.value.i < 0 && !lw__extent_is_number(extent)) return NULL;
    index[i] = e.value.i < 0 ? e.value.i + extent : e.value.i;
  }
  *out_count = count;
  return index;
}

static lw_value_id gather_index_type(lw_call *c, lw_value_id indices) {
  lw_dtype dtype = lw__b_dtype(c, indices);
  if (dtype == LW_DTYPE_I64 || dtype == LW_DTYPE_I32) return indices;
  if (lw__dtype_is_int(dtype)) return lw__b_cast(c, indices, LW_DTYPE_I64);
  lw__call_invalid(c, "indices of type %s", lw_dtype_name(dtype));
  return LW_NONE;
}

void lw__op_gather(lw_call *c) {
  lw_value_id x = lw__call_in(c, 0), indices = gather_index_type(c, lw__call_in(c, 1));
  lw_shape data = lw__b_shape(c, x), places = lw__b_shape(c, indices), result = {0};
  uint32_t axis = lw__call_axis_attr(c, "axis", 0, data.rank);
  if (!lw__call_ok(c)) return;
  if (data.rank - 1 + places.rank > LW_MAX_RANK) {
    lw__call_unsupported(c, "more than %d dimensions", LW_MAX_RANK);
    return;
  }
  gather_check(c, indices, data.dim[axis]);
  for (uint32_t d = 0; d < axis; d++) result.dim[result.rank++] = data.dim[d];
  for (uint32_t d = 0; d < places.rank; d++) result.dim[result.rank++] = places.dim[d];
  for (uint32_t d = axis + 1; d < data.rank; d++) result.dim[result.rank++] = data.dim[d];
  int64_t count;
  const int64_t *known = gather_known(c, indices, data.dim[axis], &count);
  if (known != NULL) {
    lw__call_out(c, 0, lw__b_reshape(c, lw__b_take(c, x, axis, known, count), &result));
    return;
  }
  lw_shape middle = {.rank = result.rank};
  for (uint32_t d = 0; d < result.rank; d++) {
    middle.dim[d] = d >= axis && d < axis + places.rank ? places.dim[d - axis] : 1;
  }
  lw_value_id table = lw__b_broadcast(c, lw__b_reshape(c, indices, &middle), &result);
  int8_t select[LW_MAX_RANK];
  for (uint32_t d = 0; d < data.rank; d++) {
    uint32_t at = d < axis ? d : d + places.rank - 1;
    select[d] = (int8_t)(d == axis ? 0 : -1 - (int)at);
  }
  lw__call_out(c, 0, lw__b_gather(c, x, &table, 1, select, &result));
}

void lw__op_gather_elements(lw_call *c) {
  lw_value_id x = lw__call_in(c, 0), indices = gather_index_type(c, lw__call_in(c, 1));
  lw_shape result = lw__b_shape(c, indices);
  uint32_t rank = lw__b_rank(c, x);
  uint32_t axis = lw__call_axis_attr(c, "axis", 0, rank);
  if (result.rank != rank)
    lw__call_invalid(c, "indices of %u dimensions for data of %u", result.rank, rank);
  if (!lw__call_ok(c)) return;
  gather_check(c, indices, lw__b_dim(c, x, axis));
  int8_t select[LW_MAX_RANK];
  for (uint32_t d = 0; d < rank; d++) select[d] = (int8_t)(d == axis ? 0 : -1 - (int)d);
  lw__call_out(c, 0, lw__b_gather(c, x, &indices, 1, select, &result));
}

/* indices [batch.., places.., K] name the K coordinates behind the batch dims. */
void lw__op_gather_nd(lw_call *c) {
  lw_value_id x = lw__call_in(c, 0), indices = gather_index_type(c, lw__call_in(c, 1)),
              tables[LW_MAX_RANK];
  lw_shape data = lw__b_shape(c, x), places = lw__b_shape(c, indices), result = {0};
  int64_t batch = lw__call_int(c, "batch_dims", 0);
  if (places.rank == 0 || data.rank == 0) lw__call_invalid(c, "scalar operands");
  int64_t depth = lw__call_ok(c) ? lw__call_static(c, places.dim[places.rank - 1]) : 0;
  if (batch < 0 || batch >= places.rank || depth < 1 || batch + depth > data.rank) {
    lw__call_invalid(c, "%lld coordinates and %lld batch dimensions for %u dimensions",
                     (long long)depth, (long long)batch, data.rank);
  }
  if (!lw__call_ok(c)) return;
  uint32_t lead = places.rank - 1, from = (uint32_t)(batch + depth);
  if (lead + data.rank - from > LW_MAX_RANK) {
    lw__call_unsupported(c, "more than %d dimensions", LW_MAX_RANK);
    return;
  }
  for (uint32_t d = 0; d < lead; d++) result.dim[result.rank++] = places.dim[d];
  for (uint32_t d = from; d < data.rank; d++) result.dim[result.rank++] = data.dim[d];
  lw_shape narrow = {.rank = result.rank};
  for (uint32_t d = 0; d < result.rank; d++) narrow.dim[d] = d < lead ? places.dim[d] : 1;
  int8_t select[LW_MAX_RANK];
  for (uint32_t d = 0; d < data.rank; d++) {
    bool chosen = d >= (uint32_t)batch && d < from;
    select[d] = (int8_t)(chosen     ? (int)d - (int)batch
                         : d < from ? -1 - (int)d
                                    : -1 - (int)(lead + d - from));
  }
  for (int64_t k = 0; k < depth && lw__call_ok(c); k++) {
    lw_value_id one = lw__b_slice(c, indices, lead, k, 1, 1);
    if (lw__call_ok(c)) gather_check(c, one, data.dim[batch + k]);
    tables[k] = lw__b_broadcast(c, lw__b_reshape(c, one, &narrow), &result);
  }
  lw__call_out(c, 0, lw__b_gather(c, x, tables, (uint32_t)depth, select, &result));
}

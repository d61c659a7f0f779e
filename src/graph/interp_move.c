/* interp_move.c: the interpreter's movement nodes and gather: every element is copied from where
 * the node's definition says, by counting through the result's index. Shares nothing with the
 * access maps, which are tested against it. */
#include "graph/interp_internal.h"

static void strides_of(const interp_tensor *t, int64_t *out_stride) {
  int64_t step = 1;
  for (uint32_t d = t->rank; d-- > 0;) {
    out_stride[d] = step;
    step *= t->dim[d];
  }
}

/* Next index in row-major order. */
static void index_advance(const interp_tensor *t, int64_t *index) {
  for (uint32_t d = t->rank; d-- > 0;) {
    if (++index[d] < t->dim[d]) return;
    index[d] = 0;
  }
}

/* result[index] = source[base + sum of index[d] * stride[d]] */
static void move_affine(const interp_tensor *src, interp_tensor *out, int64_t base,
                        const int64_t *stride) {
  int64_t index[LW_MAX_RANK] = {0};
  for (int64_t k = 0; k < out->count; k++) {
    int64_t at = base;
    for (uint32_t d = 0; d < out->rank; d++) at += index[d] * stride[d];
    lw__interp_copy(out, k, src, at);
    index_advance(out, index);
  }
}

lw_status lw__interp_reshape(interp_run *run, const lw_node *node, const interp_tensor *const *in,
                             interp_tensor *out) {
  (void)run;
  (void)node;
  for (int64_t k = 0; k < out->count; k++) lw__interp_copy(out, k, in[0], k);
  return LW_OK;
}

lw_status lw__interp_permute(interp_run *run, const lw_node *node, const interp_tensor *const *in,
                             interp_tensor *out) {
  (void)run;
  int64_t from[LW_MAX_RANK], stride[LW_MAX_RANK];
  strides_of(in[0], from);
  for (uint32_t d = 0; d < out->rank; d++) stride[d] = from[node->attr.perm[d]];
  move_affine(in[0], out, 0, stride);
  return LW_OK;
}

lw_status lw__interp_expand(interp_run *run, const lw_node *node, const interp_tensor *const *in,
                            interp_tensor *out) {
  (void)run;
  (void)node;
  int64_t stride[LW_MAX_RANK];
  strides_of(in[0], stride);
  for (uint32_t d = 0; d < out->rank; d++) {
    if (in[0]->dim[d] == 1) stride[d] = 0;
  }
  move_affine(in[0], out, 0, stride);
  return LW_OK;
}

lw_status lw__interp_slice(interp_run *run, const lw_node *node, const interp_tensor *const *in,
                           interp_tensor *out) {
  (void)run;
  int64_t stride[LW_MAX_RANK], base = 0;
  strides_of(in[0], stride);
  for (uint32_t d = 0; d < out->rank; d++) {
    base += node->attr.slice.start[d] * stride[d];
    stride[d] *= node->attr.slice.step[d];
  }
  move_affine(in[0], out, base, stride);
  return LW_OK;
}

lw_status lw__interp_window(interp_run *run, const lw_node *node, const interp_tensor *const *in,
                            interp_tensor *out) {
  (void)run;
  int64_t stride[LW_MAX_RANK], from[LW_MAX_RANK];
  strides_of(in[0], from);
  for (uint32_t d = 0; d < in[0]->rank; d++) stride[d] = from[d];
  for (uint32_t w = 0; w < node->attr.window.count; w++) {
    uint32_t axis = node->attr.window.axis[w];
    stride[in[0]->rank + w] = from[axis] * node->attr.window.dilation[w];
    stride[axis] = from[axis] * node->attr.window.stride[w];
  }
  move_affine(in[0], out, 0, stride);
  return LW_OK;
}

lw_status lw__interp_pad(interp_run *run, const lw_node *node, const interp_tensor *const *in,
                         interp_tensor *out) {
  (void)run;
  int64_t stride[LW_MAX_RANK], index[LW_MAX_RANK] = {0};
  strides_of(in[0], stride);
  for (int64_t k = 0; k < out->count; k++, index_advance(out, index)) {
    int64_t at = 0;
    bool inside = true;
    for (uint32_t d = 0; d < out->rank; d++) {
      int64_t x = index[d] - node->attr.pad.lo[d];
      inside = inside && x >= 0 && x < in[0]->dim[d];
      at += x * stride[d];
    }
    if (inside) {
      lw__interp_copy(out, k, in[0], at);
    } else if (out->f != NULL) {
      lw__interp_put(out, k, lw__iv_exact(node->attr.pad.value.f));
    } else {
      out->i[k] = node->attr.pad.value.i;
    }
  }
  return LW_OK;
}

lw_status lw__interp_concat(interp_run *run, const lw_node *node, const interp_tensor *const *in,
                            interp_tensor *out) {
  (void)run;
  uint32_t axis = node->attr.axis;
  int64_t outer = lw__interp_span(out, 0, axis), inner = lw__interp_span(out, axis + 1, out->rank);
  int64_t before = 0;
  for (uint32_t p = 0; p < node->operand_count; p++) {
    int64_t run_length = in[p]->dim[axis] * inner;
    for (int64_t o = 0; o < outer; o++) {
      int64_t to = (o * out->dim[axis] + before) * inner;
      for (int64_t k = 0; k < run_length; k++)
        lw__interp_copy(out, to + k, in[p], o * run_length + k);
    }
    before += in[p]->dim[axis];
  }
  return LW_OK;
}

/* Coordinate in data dim |d| of result element |k|. */
static lw_status gather_coordinate(interp_run *run, const lw_node *node,
                                   const interp_tensor *const *in, uint32_t d, int64_t k,
                                   const int64_t *index, int64_t *out_x, uint8_t *io_unknown) {
  int8_t select = node->attr.gather.select[d];
  if (select < 0) {
    *out_x = index[-1 - select];
    return LW_OK;
  }
  const interp_tensor *indices = in[1 + select];
  int64_t x = indices->i[k], extent = in[0]->dim[d];
  *io_unknown |= lw__interp_unknown(indices, k);
  if (*io_unknown != 0) {
    x = lw__min_i64(lw__max_i64(x, -extent), extent - 1);
  }
  if (x < -extent || x >= extent) {
    return lw__fail(run->diag, LW_STATUS_MODEL_INVALID, node->name,
                    "gather index %lld is outside of extent %lld", (long long)x, (long long)extent);
  }
  *out_x = x < 0 ? x + extent : x;
  return LW_OK;
}

lw_status lw__interp_gather(interp_run *run, const lw_node *node, const interp_tensor *const *in,
                            interp_tensor *out) {
  int64_t stride[LW_MAX_RANK], index[LW_MAX_RANK] = {0};
  strides_of(in[0], stride);
  for (int64_t k = 0; k < out->count; k++, index_advance(out, index)) {
    int64_t at = 0;
    uint8_t unknown = 0;
    for (uint32_t d = 0; d < in[0]->rank; d++) {
      int64_t x = 0;
      LW_TRY(gather_coordinate(run, node, in, d, k, index, &x, &unknown));
      at += x * stride[d];
    }
    lw__interp_copy(out, k, in[0], at);
    lw__interp_mark(out, k, unknown);
  }
  return LW_OK;
}

/* strided.c: copies between memory layouts. */
#include "api/strided.h"

#include <string.h>

void lw__strided_packed(int rank, const int64_t *dims, bool channels_last, int64_t *out_strides) {
  static const int nhwc[4] = {0, 2, 3, 1};
  int64_t step = 1;
  for (int i = rank - 1; i >= 0; i--) {
    int d = channels_last && rank == 4 ? nhwc[i] : i;
    out_strides[d] = step;
    step *= dims[d] > 0 ? dims[d] : 1;
  }
}

static bool strided_is_empty(int rank, const int64_t *dims) {
  for (int d = 0; d < rank; d++) {
    if (dims[d] == 0) return true;
  }
  return false;
}

bool lw__strided_same(int rank, const int64_t *dims, const int64_t *a, const int64_t *b) {
  if (strided_is_empty(rank, dims)) return true;
  for (int d = 0; d < rank; d++) {
    if (dims[d] > 1 && a[d] != b[d]) return false;
  }
  return true;
}

bool lw__strided_span(int rank, const int64_t *dims, const int64_t *strides, size_t elem_bytes,
                      int64_t *out_lo, int64_t *out_hi) {
  int64_t lo = 0, hi = 1, bytes;
  *out_lo = *out_hi = 0;
  if (strided_is_empty(rank, dims)) return true;
  for (int d = 0; d < rank; d++) {
    int64_t reach;
    if (!lw__mul_i64(dims[d] - 1, strides[d], &reach)) return false;
    if (!lw__add_i64(reach < 0 ? lo : hi, reach, reach < 0 ? &lo : &hi)) return false;
  }
  if (__builtin_sub_overflow(hi, lo, &bytes)) return false;
  if (!lw__mul_i64(bytes, (int64_t)elem_bytes, &bytes)) return false;
  *out_lo = lo;
  *out_hi = hi;
  return true;
}

bool lw__strided_overlaps(int rank, const int64_t *dims, const int64_t *strides) {
  if (strided_is_empty(rank, dims)) return false;
  uint32_t done = 0;
  int64_t reach = 0; /* largest offset that the dims taken so far make, steps in any direction */
  for (int taken = 0; taken < rank; taken++) {
    int best = -1;
    int64_t best_step = 0;
    for (int d = 0; d < rank; d++) {
      int64_t step = strides[d] < 0 ? -strides[d] : strides[d];
      if ((done >> d & 1) != 0 || dims[d] <= 1) continue;
      if (best < 0 || step < best_step) {
        best = d;
        best_step = step;
      }
    }
    if (best < 0) return false;
    if (best_step <= reach) return true;
    done |= 1u << best;
    reach += best_step * (dims[best] - 1); /* within the span, which the caller checked */
  }
  return false;
}

/* |n| elements; the sizes that occur become loops without a call per element. */
static void strided_copy_row(size_t elem_bytes, int64_t n, char *dst, int64_t dst_stride,
                             const char *src, int64_t src_stride) {
  if (dst_stride == 1 && src_stride == 1) {
    memcpy(dst, src, (size_t)n * elem_bytes);
    return;
  }
  ptrdiff_t to = (ptrdiff_t)dst_stride * (ptrdiff_t)elem_bytes;
  ptrdiff_t from = (ptrdiff_t)src_stride * (ptrdiff_t)elem_bytes;
  switch (elem_bytes) {
    case 1:
      for (int64_t i = 0; i < n; i++, dst += to, src += from) *dst = *src;
      break;
    case 2:
      for (int64_t i = 0; i < n; i++, dst += to, src += from) memcpy(dst, src, 2);
      break;
    case 4:
      for (int64_t i = 0; i < n; i++, dst += to, src += from) memcpy(dst, src, 4);
      break;
    default:
      for (int64_t i = 0; i < n; i++, dst += to, src += from) memcpy(dst, src, elem_bytes);
      break;
  }
}

void lw__strided_copy(int rank, const int64_t *dims, size_t elem_bytes, void *dst,
                      const int64_t *dst_strides, const void *src, const int64_t *src_strides) {
  if (strided_is_empty(rank, dims)) return;
  int64_t index[LW_MAX_RANK] = {0}, to = 0, from = 0;
  int last = rank - 1;
  int64_t row = rank > 0 ? dims[last] : 1;
  for (;;) {
    strided_copy_row(
        elem_bytes, row, (char *)dst + to * (int64_t)elem_bytes, rank > 0 ? dst_strides[last] : 1,
        (const char *)src + from * (int64_t)elem_bytes, rank > 0 ? src_strides[last] : 1);
    int d = last - 1;
    for (; d >= 0; d--) {
      to += dst_strides[d];
      from += src_strides[d];
      if (++index[d] < dims[d]) break;
      to -= dst_strides[d] * dims[d];
      from -= src_strides[d] * dims[d];
      index[d] = 0;
    }
    if (d < 0) return;
  }
}

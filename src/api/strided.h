/* strided.h: memory whose elements do not lie packed: what it spans, and copies between two such.
 * Strides are in elements and may be negative or zero. */
#ifndef LW_API_STRIDED_H
#define LW_API_STRIDED_H

#include "base/base.h"

/* Strides of packed elements. |channels_last|: of a tensor of rank 4 whose memory order is N, H, W,
 * C; other ranks are row-major. */
void lw__strided_packed(int rank, const int64_t *dims, bool channels_last, int64_t *out_strides);
/* True when both place every element the same (extents of 0 and 1 need no stride). */
bool lw__strided_same(int rank, const int64_t *dims, const int64_t *a, const int64_t *b);
/* The elements touched lie in |*out_lo| <= offset < |*out_hi|, seen from element 0. False when an
 * offset does not fit. */
bool lw__strided_span(int rank, const int64_t *dims, const int64_t *strides, size_t elem_bytes,
                      int64_t *out_lo, int64_t *out_hi);
/* True when two different indices may meet in one element; may say so of strange layouts that have
 * none, never the other way round. */
bool lw__strided_overlaps(int rank, const int64_t *dims, const int64_t *strides);
void lw__strided_copy(int rank, const int64_t *dims, size_t elem_bytes, void *dst,
                      const int64_t *dst_strides, const void *src, const int64_t *src_strides);

#endif

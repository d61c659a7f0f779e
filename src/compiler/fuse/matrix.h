/* matrix.h: products whose factors lie in memory as matrices, which is what matrix units want: what
 * the factors are, and whether the device has units for them. Costs and lowerings ask the same
 * question. */
#ifndef LW_COMPILER_MATRIX_H
#define LW_COMPILER_MATRIX_H

#include "compiler/fuse/region.h"
#include "device/device.h"

/* Elements of |value|'s storage: (outer, k) is at offset + outer * outer_stride + k * k_stride. */
typedef struct lw_matrix {
  lw_value_id value;
  int64_t offset, outer_stride, k_stride;
} lw_matrix;

/* A placed DOT region's left factor, with rows as outer, and its right factor, with columns. False
 * when one is computed, guarded, or has a place that is not of this form; or with more than one
 * batch. */
bool lw__region_matrices(const lw_region *region, lw_matrix *out_lhs, lw_matrix *out_rhs);

/* Where a result is stored: (row, column) at offset + row * outer_stride + column * k_stride. */
bool lw__region_result(const lw_region *region, const lw_region_output *output, lw_matrix *out);

/* Products for sm_90a's asynchronous matrix units and tensor copies: f16 or bf16 factors of one
 * type, the left one with k contiguous, the right one with k or the columns contiguous, and every
 * offset and pitch a multiple of 16 bytes. */
bool lw__region_suits_sm90(const lw_region *region, const lw_device_profile *profile,
                           lw_matrix *out_lhs, lw_matrix *out_rhs);

/* Products and convolutions for mma.sync (sm_80 on): factors of one 16-bit float type, in any
 * place, loaded or computed; not so few results or terms that matrix units would idle. Their type,
 * or NONE. */
lw_dtype lw__region_suits_mma(const lw_region *region, const lw_device_profile *profile);
/* The same for factors that FMA units multiply in f32, whatever floats they are stored as: F32, or
 * NONE. */
lw_dtype lw__region_suits_fma(const lw_region *region, const lw_device_profile *profile);

#endif

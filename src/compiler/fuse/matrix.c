/* matrix.c: factors of products as matrices in memory. */
#include "compiler/fuse/matrix.h"

enum {
  UNIT = 8, /* elements of 16 bits in 16 bytes */
  LEAST_COLUMNS = 8,
  LEAST_DEPTH = 16, /* less is no work for matrix units */
};

/* |e| as offset + a * stride_a + b * stride_b. A variable of extent 1 is the constant 0. */
static bool matrix_split(const lw_ix_pool *ix, lw_ix e, lw_ix a, lw_ix b, int64_t *offset,
                         int64_t *stride_a, int64_t *stride_b) {
  const lw_ix_node *n = lw__ix_node(ix, e);
  *offset = *stride_a = *stride_b = 0;
  if (n->kind == LW_IX_VAR) {
    *stride_a = e == a;
    *stride_b = e == b;
    return e == a || e == b;
  }
  if (n->kind != LW_IX_SUM) return false;
  *offset = n->constant;
  for (uint32_t i = 0; i < n->term_count; i++) {
    const lw_ix_term *term = &ix->terms.data[n->term_begin + i];
    if (term->atom != a && term->atom != b) return false;
    *(term->atom == a ? stride_a : stride_b) = term->coef;
  }
  return true;
}

/* A load, perhaps with casts around it that only widen. */
static bool matrix_of(const lw_region *region, lw_elem factor, lw_ix outer, lw_matrix *out) {
  const lw_elem_node *n = lw__elem_node(&region->pool, lw__elem_unwidened(&region->pool, factor));
  if (n->kind != LW_ELEM_LOAD || n->arg[0] != LW_NONE) return false;
  out->value = n->value;
  return matrix_split(&region->pool.ix, n->ix, outer, region->space[3], &out->offset,
                      &out->outer_stride, &out->k_stride);
}

bool lw__region_matrices(const lw_region *region, lw_matrix *out_lhs, lw_matrix *out_rhs) {
  if (region->cls != LW_KCLASS_DOT || region->b != 1) return false;
  return matrix_of(region, region->lhs, region->space[1], out_lhs) &&
         matrix_of(region, region->rhs, region->space[2], out_rhs);
}

bool lw__region_result(const lw_region *region, const lw_region_output *output, lw_matrix *out) {
  out->value = output->value;
  return matrix_split(&region->pool.ix, output->offset, region->space[1], region->space[2],
                      &out->offset, &out->outer_stride, &out->k_stride);
}

/* Rows of |inner| elements: apart, and each from a multiple of 16 bytes on. With one row there is
 * no distance to look at. */
static bool matrix_has_rows(int64_t offset, int64_t *pitch, int64_t outer, int64_t inner) {
  if (outer == 1) *pitch = lw__round_up(inner, UNIT);
  return offset >= 0 && offset % UNIT == 0 && *pitch >= inner && *pitch % UNIT == 0;
}

bool lw__region_suits_sm90(const lw_region *region, const lw_device_profile *profile,
                           lw_matrix *out_lhs, lw_matrix *out_rhs) {
  if (profile->kind != LW_DEVICE_CUDA || profile->sm_arch != 90 || !profile->arch_specific ||
      profile->f16_gflops <= 0)
    return false;
  if (!lw__region_matrices(region, out_lhs, out_rhs)) return false;
  const lw_graph *g = region->ctx->graph;
  lw_dtype dtype = lw__value(g, out_lhs->value)->dtype;
  int64_t m = region->m, n = region->n, k = region->k;
  bool fits = (dtype == LW_DTYPE_F16 || dtype == LW_DTYPE_BF16) &&
              lw__value(g, out_rhs->value)->dtype == dtype && n >= LEAST_COLUMNS &&
              k >= LEAST_DEPTH && m <= INT32_MAX && n <= INT32_MAX && k <= INT32_MAX;
  if (!fits || out_lhs->k_stride != 1 ||
      !matrix_has_rows(out_lhs->offset, &out_lhs->outer_stride, m, k))
    return false;
  return out_rhs->k_stride == 1 ? matrix_has_rows(out_rhs->offset, &out_rhs->outer_stride, n, k)
                                : out_rhs->outer_stride == 1 &&
                                      matrix_has_rows(out_rhs->offset, &out_rhs->k_stride, k, n);
}

/* Work for tiles whose slices are copied asynchronously (sm_80 on). */
static bool suits_tiles(const lw_region *region, const lw_device_profile *profile) {
  const int64_t most = INT32_MAX - 65536; /* positions are 32-bit numbers */
  if (profile->kind != LW_DEVICE_CUDA || profile->sm_arch < 80) return false;
  if (region->cls == LW_KCLASS_CONV && region->m == 1) return false; /* depthwise */
  if (region->m > most || region->n > most || region->k > most) return false;
  int64_t blocks;
  if (!lw__mul_i64(lw__ceil_div(region->m, 16), lw__ceil_div(region->n, 16), &blocks) ||
      !lw__mul_i64(blocks, region->b, &blocks) || blocks > most)
    return false;
  return region->k >= LEAST_DEPTH && lw__max_i64(region->m, region->n) >= 16;
}

lw_dtype lw__region_suits_mma(const lw_region *region, const lw_device_profile *profile) {
  if (profile->f16_gflops <= 0 || !suits_tiles(region, profile)) return LW_DTYPE_NONE;
  return lw__region_matrix_type(region);
}

static bool is_carried_in_f32(const lw_region *region, lw_elem factor) {
  if (factor == LW_NONE) return false;
  lw_dtype dtype = (lw_dtype)lw__elem_node(&region->pool, factor)->dtype;
  return dtype == LW_DTYPE_F32 || dtype == LW_DTYPE_F16 || dtype == LW_DTYPE_BF16;
}

lw_dtype lw__region_suits_fma(const lw_region *region, const lw_device_profile *profile) {
  bool suits = suits_tiles(region, profile) && is_carried_in_f32(region, region->lhs) &&
               is_carried_in_f32(region, region->rhs);
  return suits ? LW_DTYPE_F32 : LW_DTYPE_NONE;
}

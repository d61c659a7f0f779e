/* product.c: what follows from the parameters of a product for sm_90a: memory, registers, boxes,
 * tensor maps. */
#include "compiler/kernel/product.h"

enum {
  GROUP_THREADS = 128,
  SHARED_MAX_BYTES = 232448,
  ROW_BYTES = 128, /* of a tile in shared memory: one atom of the swizzle */
  BOX_BYTES = 64 * ROW_BYTES,
  ALIGN_BYTES = 1024, /* of a swizzled tile */
  SUMS_MAX = 208,     /* per thread; 240 registers in all */
  RING_MAX = 6,       /* boxes of the result in flight per consumer */
};

bool lw__product_sm90_splits_columns(const lw_product_sm90 *p) {
  return p->sched == LW_PRODUCT_COOPERATIVE && p->tile_m == 64;
}

static bool product_is_half(lw_dtype dtype) {
  return dtype == LW_DTYPE_F16 || dtype == LW_DTYPE_BF16;
}

static bool product_can_split(const lw_product_sm90 *p) {
  return (p->split == 2 || p->split == 4 || p->split == 8) && p->cluster == 1 &&
         p->sched == LW_PRODUCT_PINGPONG && p->store == LW_PRODUCT_STORE_DIRECT;
}

static bool product_in_range(const lw_product_sm90 *p) {
  return product_is_half(p->dtype) && product_is_half(p->out_dtype) &&
         (p->tile_m == 64 || p->tile_m == 128 || p->tile_m == 256) && p->tile_n >= 64 &&
         p->tile_n <= 256 && p->tile_n % (lw__product_sm90_splits_columns(p) ? 128 : 64) == 0 &&
         p->tile_k == 64 && p->stages >= 2 && p->stages <= 16 && p->group >= 1 &&
         p->group <= 4096 && (p->cluster == 1 || p->cluster == 2) &&
         (p->split == 1 || product_can_split(p));
}

lw_status lw__product_sm90_shape(const lw_product_sm90 *p, lw_product_sm90_shape *out) {
  if (!product_in_range(p)) return LW_STATUS_UNSUPPORTED;
  bool cooperative = p->sched == LW_PRODUCT_COOPERATIVE;
  bool kn = p->b_layout == LW_PRODUCT_B_KN;
  *out = (lw_product_sm90_shape){
      .threads = (1 + LW_PRODUCT_CONSUMERS) * GROUP_THREADS,
      .cluster = p->cluster * p->split,
      .a_box = {64, p->tile_m},
      .b_box = {64, kn ? 64 : p->tile_n / p->cluster},
      .out_box = {64, 64},
      .blocks = p->tile_m / (cooperative && p->tile_m > 64 ? 128 : 64),
      .width = lw__product_sm90_splits_columns(p) ? p->tile_n / 2 : p->tile_n,
      .a_bytes = p->tile_m * ROW_BYTES,
      .stage_bytes = (p->tile_m + p->tile_n) * ROW_BYTES,
  };
  out->accumulators = out->blocks * out->width / 2;
  uint32_t fixed = p->stages * (out->stage_bytes + 16) + 8 * LW_PRODUCT_CONSUMERS + ALIGN_BYTES;
  if (fixed > SHARED_MAX_BYTES || out->accumulators > SUMS_MAX) return LW_STATUS_UNSUPPORTED;
  if (p->store == LW_PRODUCT_STORE_TMA) {
    uint32_t boxes = out->blocks * out->width / 64;
    uint32_t room = (SHARED_MAX_BYTES - fixed) / (LW_PRODUCT_CONSUMERS * BOX_BYTES);
    out->ring = boxes < RING_MAX ? boxes : RING_MAX;
    if (room < out->ring) out->ring = room;
    if (out->ring == 0) return LW_STATUS_UNSUPPORTED;
  }
  if (p->split > 1)
    out->partial_bytes = p->tile_m * (p->tile_n + LW_PRODUCT_PARTIAL_PAD) * (uint32_t)sizeof(float);
  out->shared_bytes = fixed + LW_PRODUCT_CONSUMERS * (out->ring * BOX_BYTES + out->partial_bytes);
  return out->shared_bytes <= SHARED_MAX_BYTES ? LW_OK : LW_STATUS_UNSUPPORTED;
}

uint32_t lw__product_sm90_grid(const lw_product_sm90 *p, int64_t rows, int64_t columns,
                               uint32_t sm_count) {
  int64_t high = lw__ceil_div(lw__ceil_div(rows, p->tile_m), p->cluster);
  int64_t tiles = high * lw__ceil_div(columns, p->tile_n);
  if (p->split > 1) return (uint32_t)lw__min_i64(tiles * p->split, INT32_MAX);
  int64_t most = lw__max_i64(1, sm_count / p->cluster);
  return (uint32_t)lw__min_i64(tiles, most) * p->cluster;
}

/* Rows of |inner| elements of 16 bits. */
static lw_plan_map product_map(const lw_kmatrix *m, lw_dtype dtype, int64_t inner, int64_t outer,
                               const uint32_t box[2]) {
  return (lw_plan_map){.arg = m->buffer,
                       .dtype = dtype,
                       .rank = 2,
                       .offset_bytes = (uint64_t)m->offset * 2,
                       .dims = {(uint64_t)inner, (uint64_t)outer},
                       .strides_bytes = {2, (uint64_t)m->pitch * 2},
                       .box = {box[0], box[1]}};
}

uint32_t lw__kproduct_maps(const lw_kproduct *product, int64_t rows,
                           lw_plan_map maps[LW_KPRODUCT_MAPS]) {
  const lw_product_sm90 *p = &product->form;
  lw_product_sm90_shape shape;
  if (lw__product_sm90_shape(p, &shape) != LW_OK) return 0;
  bool kn = p->b_layout == LW_PRODUCT_B_KN;
  int64_t n = product->columns, k = product->depth;
  maps[0] = product_map(&product->a, p->dtype, k, rows, shape.a_box);
  maps[1] = product_map(&product->b, p->dtype, kn ? n : k, kn ? k : n, shape.b_box);
  if (p->store != LW_PRODUCT_STORE_TMA) return 2;
  maps[2] = product_map(&product->out, p->out_dtype, n, rows, shape.out_box);
  return 3;
}

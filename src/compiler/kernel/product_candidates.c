/* product_candidates.c: which configurations of a product for sm_90a to try, and in what order. */
#include "compiler/kernel/product.h"

typedef struct product_choice {
  lw_product_sched sched;
  uint32_t tile_m, tile_n, stages, split;
} product_choice;

/* As many stages as shared memory takes beside the boxes of a TMA store; the emitter takes fewer
 * boxes where there is no room for all. Clusters are not among them: see docs/product-sm90.md. */
static const product_choice product_choices[] = {
    {LW_PRODUCT_COOPERATIVE, 128, 256, 4, 1}, {LW_PRODUCT_COOPERATIVE, 256, 128, 4, 1},
    {LW_PRODUCT_COOPERATIVE, 128, 192, 5, 1}, {LW_PRODUCT_COOPERATIVE, 64, 256, 4, 1},
    {LW_PRODUCT_COOPERATIVE, 64, 128, 8, 1},  {LW_PRODUCT_PINGPONG, 128, 192, 4, 1},
    {LW_PRODUCT_PINGPONG, 128, 128, 5, 1},    {LW_PRODUCT_PINGPONG, 128, 64, 6, 1},
    {LW_PRODUCT_PINGPONG, 64, 256, 4, 1},     {LW_PRODUCT_PINGPONG, 64, 192, 5, 1},
    {LW_PRODUCT_PINGPONG, 64, 128, 7, 1},     {LW_PRODUCT_PINGPONG, 64, 64, 10, 1},
    {LW_PRODUCT_PINGPONG, 64, 64, 10, 2},     {LW_PRODUCT_PINGPONG, 64, 64, 10, 4},
    {LW_PRODUCT_PINGPONG, 64, 64, 10, 8},     {LW_PRODUCT_PINGPONG, 128, 64, 6, 2},
    {LW_PRODUCT_PINGPONG, 128, 64, 6, 4},     {LW_PRODUCT_PINGPONG, 64, 128, 6, 2},
    {LW_PRODUCT_PINGPONG, 64, 128, 6, 4},
};

/* Bytes per clock cycle: a multiprocessor from the L2 cache, the whole device from DRAM. Cycles for
 * the blocks of a cluster to meet and read each other's sums. */
static const double l2_bytes = 50, dram_bytes = 2400, combine_cycles = 2000;

/* Clock cycles. A multiprocessor multiplies 2048 pairs per cycle, of which power leaves about four
 * fifths. Nothing is faster than moving operands and result once. */
double lw__product_sm90_cycles(const lw_product_sm90 *p, int64_t rows, int64_t columns,
                               int64_t depth, uint32_t sm_count) {
  double area = (double)p->tile_m * p->tile_n;
  double multiply = area * 64 / 2048 * 1.25;
  double fetch = (double)(p->tile_m + p->tile_n) * 128 / l2_bytes;
  double step = multiply > fetch ? multiply : fetch;
  bool direct = p->store == LW_PRODUCT_STORE_DIRECT;
  double store = p->sched == LW_PRODUCT_COOPERATIVE ? area * (direct ? 0.35 : 0.125)
                                                    : 100 + area * (direct ? 0.18 : 0.0125);
  if (direct && columns % 2 != 0) store *= 8; /* single elements in rows that share no sector */
  if (p->split > 1) store = combine_cycles + area * 0.18; /* whole rows of a tile at a time */
  int64_t tiles = lw__ceil_div(rows, p->tile_m) * lw__ceil_div(columns, p->tile_n);
  double rounds = (double)lw__ceil_div(tiles, sm_count == 0 ? 1 : sm_count);
  double steps = (double)lw__ceil_div(lw__ceil_div(depth, p->tile_k), p->split);
  double cycles = rounds * (steps * step + store);
  double elements = (double)rows * (double)depth + (double)columns * (double)depth +
                    (double)rows * (double)columns;
  double least = elements * 2 / dram_bytes + (p->split > 1 ? store : 0);
  return (cycles > least ? cycles : least) + 0.01 * cycles;
}

/* A split pays where tiles leave most of the device idle, and needs work for both consumers of
 * every block. */
static bool product_may_split(const lw_product_sm90 *p, int64_t rows, int64_t columns,
                              int64_t depth, uint32_t sm_count) {
  int64_t tiles = lw__ceil_div(rows, p->tile_m) * lw__ceil_div(columns, p->tile_n);
  return p->split == 1 ||
         (tiles * p->split <= sm_count && depth >= 2 * (int64_t)p->tile_k * p->split);
}

uint32_t lw__product_sm90_candidates(const lw_product_sm90 *like, int64_t rows, int64_t columns,
                                     int64_t depth, uint32_t sm_count,
                                     lw_product_sm90 out[LW_PRODUCT_SM90_CANDIDATES]) {
  _Static_assert(LW_ARRAY_COUNT(product_choices) <= LW_PRODUCT_SM90_CANDIDATES, "room");
  double cycles[LW_PRODUCT_SM90_CANDIDATES];
  uint32_t count = 0;
  for (size_t i = 0; i < LW_ARRAY_COUNT(product_choices); i++) {
    const product_choice *c = &product_choices[i];
    lw_product_sm90 p = *like;
    p.sched = c->sched, p.tile_m = c->tile_m, p.tile_n = c->tile_n, p.stages = c->stages;
    p.tile_k = 64, p.cluster = 1, p.split = c->split;
    if (p.split > 1) p.store = LW_PRODUCT_STORE_DIRECT;
    p.group = 2048 / c->tile_m < 16 ? 2048 / c->tile_m : 16;
    lw_product_sm90_shape shape;
    if (!product_may_split(&p, rows, columns, depth, sm_count) ||
        lw__product_sm90_shape(&p, &shape) != LW_OK)
      continue;
    double mine = lw__product_sm90_cycles(&p, rows, columns, depth, sm_count);
    uint32_t at = count++;
    for (; at > 0 && cycles[at - 1] > mine; at--) {
      cycles[at] = cycles[at - 1];
      out[at] = out[at - 1];
    }
    cycles[at] = mine;
    out[at] = p;
  }
  return count;
}

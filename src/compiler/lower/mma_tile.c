/* mma_tile.c: looks at all tiles and takes the one that a small model likes best. The model counts
 * cycles of a multiprocessor: a slice takes as long as the busiest of tensor cores, fetches and
 * shared memory, summed over the blocks that run there at once, but never less than what one block
 * waits for memory and barriers. */
#include "compiler/lower/mma_tile.h"

#include <math.h>
#include <string.h>

enum { bytes_per_element = 2, epilogue_rows = 16, most_warps = 8, most_sums = 128 };

/* Per multiprocessor and cycle: multiply-adds by mma.sync (63 % of 1024 on Hopper, arXiv
 * 2402.13499), bytes from L2, bytes of shared memory, bytes of sums on their way out. */
static const double mma_rate = 640, fetch_rate = 33, shared_rate = 128, out_rate = 77;
/* Cycles: a load under load, spread over the slices that are ahead; a slice in any case; an mma of
 * one warp after the other; a barrier and what surrounds it, per block; start and end of a block.
 * Fitted to 1,700 tiles of 19 products on one H200 (bench_product_mma), where the first choice was
 * 3 % slower than the best tile measured. */
static const double load_latency = 1300, slice_latency = 30, mma_latency = 14, slice_overhead = 60;
static const double block_overhead = 200;

uint64_t lw__mma_tile_shared_bytes(const lw_mma_tile *tile, const lw_mma_problem *p) {
  int64_t stage = lw__mma_stage_elements(p->a_along_k, tile->rows, tile->depth) +
                  lw__mma_stage_elements(p->b_along_k, tile->cols, tile->depth);
  int64_t sums = tile->warps_k * tile->warps_m * epilogue_rows * (tile->cols + 8);
  return (uint64_t)(stage * bytes_per_element * tile->stages + sums * 4);
}

/* Registers per thread: sums, fragments, addresses. */
static uint32_t registers(const lw_mma_tile *tile) {
  int64_t tm = tile->rows / tile->warps_m, tn = tile->cols / tile->warps_n;
  return (uint32_t)(tm * tn / 32 + tm / 4 + tn / 4 + 48);
}

static uint32_t blocks_at_once(const lw_mma_tile *tile, const lw_mma_problem *p) {
  uint32_t blocks = lw__occupancy_blocks(p->profile, lw__mma_tile_threads(tile), registers(tile),
                                         (uint32_t)lw__mma_tile_shared_bytes(tile, p));
  return blocks > 4 ? 4 : blocks;
}

static double predict_cycles(const lw_mma_tile *t, const lw_mma_problem *p, uint32_t blocks) {
  double tiles = (double)p->batches * (double)lw__ceil_div(p->rows, t->rows) *
                 (double)lw__ceil_div(p->cols, t->cols);
  double sms = p->profile->sm_count, at_once = fmin(blocks, ceil(tiles / sms));
  double slices = (double)lw__ceil_div(p->depth, t->depth);
  double rows = (double)t->rows, cols = (double)t->cols, depth = (double)t->depth;
  double tm = rows / (double)t->warps_m, tn = cols / (double)t->warps_n;
  double warps = (double)lw__mma_tile_threads(t) / 32;
  double multiply = rows * cols * depth / mma_rate;
  double fetch = (rows + cols) * depth * bytes_per_element / fetch_rate;
  if (!p->copied) fetch *= 4; /* through registers, element by element */
  double fragments =
      warps * (tm + tn) * depth / (double)t->warps_k * bytes_per_element / shared_rate;
  double ahead = fmin(t->stages - 1, slices);
  double mmas = tm / 16 * (tn / 8) * (depth / 16 / (double)t->warps_k);
  double waits = load_latency / ahead + slice_latency + mma_latency * mmas;
  double busy = fmax(multiply, fmax(fetch, fragments)) + 0.12 * fragments + slice_overhead;
  double out = rows * cols * (8.0 * (double)t->warps_k + 4.0) / out_rate;
  double rounds = ceil(tiles / (sms * at_once));
  return rounds * (slices * fmax(busy * at_once, waits) + block_overhead + out * at_once);
}

static bool keeps_limits(const lw_mma_tile *t, const lw_mma_problem *p) {
  int64_t tm = t->rows / t->warps_m, tn = t->cols / t->warps_n;
  bool between = (t->cols & (t->cols - 1)) != 0;
  if (between && (p->rows > 16 || t->warps_n * t->warps_k < 4)) return false;
  if (t->cols % t->warps_n != 0) return false;
  if (tm % 16 != 0 || tm == 0 || tn % 8 != 0 || tn == 0 || tm * tn / 32 > most_sums) return false;
  if (t->warps_m * t->warps_n * t->warps_k > most_warps) return false;
  if (t->depth % (16 * t->warps_k) != 0) return false;
  if (p->threads != 0 && lw__mma_tile_threads(t) != p->threads) return false;
  uint64_t shared = lw__mma_tile_shared_bytes(t, p);
  if (shared > p->profile->shared_bytes_per_block_optin) return false;
  if (p->policy == NULL) return true;
  return shared <= p->policy->max_shared_bytes && registers(t) <= p->policy->max_registers;
}

double lw__mma_tile_cycles(const lw_mma_tile *tile, const lw_mma_problem *problem) {
  return predict_cycles(tile, problem, tile->blocks);
}

typedef struct ranking {
  lw_mma_tile *tiles;
  uint32_t count, most;
  double worst; /* cycles of the last one, once there are |most| */
} ranking;

static void consider(lw_mma_tile tile, const lw_mma_problem *p, ranking *r) {
  if (!keeps_limits(&tile, p)) return;
  tile.blocks = blocks_at_once(&tile, p);
  if (tile.blocks == 0) return;
  double cycles = predict_cycles(&tile, p, tile.blocks);
  if (r->count == r->most && cycles >= r->worst) return;
  uint32_t at = r->count < r->most ? r->count++ : r->count - 1;
  while (at > 0 && lw__mma_tile_cycles(&r->tiles[at - 1], p) > cycles) {
    r->tiles[at] = r->tiles[at - 1];
    at--;
  }
  r->tiles[at] = tile;
  r->worst = lw__mma_tile_cycles(&r->tiles[r->count - 1], p);
}

uint32_t lw__mma_tile_rank(const lw_mma_problem *p, lw_mma_tile *out, uint32_t most) {
  static const int64_t depths[] = {32, 64, 128};
  /* Beside the powers of two, for few rows: what shares columns out evenly among multiprocessors
   * (14336 = 128 x 112), with four warps at least to copy them. */
  static const int64_t columns[] = {16, 32, 48, 64, 80, 96, 112, 128, 256};
  ranking r = {.tiles = out, .most = most};
  lw_mma_tile t;
  memset(&t, 0, sizeof t);
  for (t.rows = 16; t.rows <= 256; t.rows *= 2)
    for (uint32_t c = 0; c < LW_ARRAY_COUNT(columns); c++)
      for (t.warps_m = 1; t.warps_m <= 4; t.warps_m *= 2)
        for (t.warps_n = 1; t.warps_n <= 4; t.warps_n *= 2)
          for (t.warps_k = 1; t.warps_k <= 4; t.warps_k *= 2)
            for (uint32_t d = 0; d < LW_ARRAY_COUNT(depths); d++)
              for (t.stages = 2; t.stages <= (p->copied ? 6u : 2u); t.stages++) {
                t.depth = depths[d];
                t.cols = columns[c];
                consider(t, p, &r);
              }
  return r.count;
}

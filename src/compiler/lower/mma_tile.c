/* mma_tile.c: looks at all tiles and takes the one that a small model likes best. The model counts
 * cycles of a multiprocessor: a slice takes as long as the busiest of tensor cores, fetches and
 * shared memory, summed over the blocks that run there at once, but never less than what one block
 * waits for memory and barriers. */
#include "compiler/lower/mma_tile.h"

#include <math.h>
#include <string.h>

/* |most_fma|: multiply-adds of a thread in one slice, which are unrolled. */
enum { epilogue_rows = 16, most_warps = 8, most_sums = 128, most_fma = 2048 };

/* Per multiprocessor and cycle: multiply-adds by mma.sync (63 % of 1024 on Hopper, arXiv
 * 2402.13499), bytes from L2, bytes of shared memory, bytes of sums on their way out. */
static const double mma_rate = 640, fetch_rate = 33, shared_rate = 128, out_rate = 77;
/* Cycles: a load under load, spread over the slices that are ahead; a slice in any case; an mma of
 * one warp after the other; a barrier and what surrounds it, per block; start and end of a block.
 * Fitted to 1,700 tiles of 19 products on one H200 (bench_product_mma), where the first choice was
 * 3 % slower than the best tile measured. */
static const double load_latency = 1300, slice_latency = 30, mma_latency = 14, slice_overhead = 60;
static const double block_overhead = 200;
/* FMA units: instructions per cycle; what a copy of 16 bytes costs a warp in instructions; cycles
 * that a block alone waits in every slice for its barrier and its first factors. */
static const double issue_rate = 4, copy_instructions = 14, slice_start = 100;
static const double element_instructions = 20; /* what is computed */

static int64_t element_bytes(const lw_mma_problem *p) { return p->fma ? 4 : 2; }

uint64_t lw__mma_tile_shared_bytes(const lw_mma_tile *tile, const lw_mma_problem *p) {
  int64_t stage = lw__mma_stage_elements(p->fma, p->a_along_k, tile->rows, tile->depth) +
                  lw__mma_stage_elements(p->fma, p->b_along_k, tile->cols, tile->depth);
  int64_t sums = tile->warps_k * tile->warps_m * epilogue_rows * (tile->cols + 8);
  return (uint64_t)(stage * element_bytes(p) * tile->stages + sums * 4);
}

/* Registers per thread: sums, fragments, addresses. */
static uint32_t registers(const lw_mma_tile *tile, const lw_mma_problem *p) {
  int64_t tm = tile->rows / tile->warps_m, tn = tile->cols / tile->warps_n;
  int64_t fragments = p->fma ? 0 : tm / 4 + tn / 4;
  if (p->fma && !p->copied) /* what waits while units multiply, and where it comes from */
    fragments += (tile->rows + tile->cols) * tile->depth / lw__mma_tile_threads(tile) + 24;
  if (p->fma) fragments += tm / 4 * (p->a_along_k ? 4 : 1) + tn / 8 * (p->b_along_k ? 4 : 1);
  return (uint32_t)(tm * tn / 32 + fragments + 48);
}

static uint32_t blocks_at_once(const lw_mma_tile *tile, const lw_mma_problem *p) {
  uint32_t blocks = lw__occupancy_blocks(p->profile, lw__mma_tile_threads(tile), registers(tile, p),
                                         (uint32_t)lw__mma_tile_shared_bytes(tile, p));
  return blocks > 4 ? 4 : blocks;
}

/* Cycles of one slice on FMA units, all that multiplies: its instructions, or what it reads from
 * shared memory, in two steps per 16 bytes of a warp's threads. */
static double fma_cycles(const lw_mma_tile *t, const lw_mma_problem *p) {
  double tm = (double)(t->rows / t->warps_m / 4), tn = (double)(t->cols / t->warps_n / 8);
  double warp_steps = (double)(t->warps_m * t->warps_n) * (double)t->depth;
  double per_element = p->copied ? copy_instructions / 4 : element_instructions;
  double copies = (double)((t->rows + t->cols) * t->depth) / 32 * per_element;
  double issue = (warp_steps * (tm * tn + (tm + tn) / 4) + copies) / issue_rate;
  return fmax(issue, warp_steps * (tm + tn) / 4 * 2);
}

static double predict_fma_cycles(const lw_mma_tile *t, const lw_mma_problem *p, uint32_t blocks) {
  double tiles = (double)p->batches * (double)lw__ceil_div(p->rows, t->rows) *
                 (double)lw__ceil_div(p->cols, t->cols);
  double sms = p->profile->sm_count, at_once = fmin(blocks, ceil(tiles / sms));
  double slices = (double)lw__ceil_div(p->depth, t->depth), ahead = fmin(t->stages - 1, slices);
  double multiply = fma_cycles(t, p);
  double fetch = (double)((t->rows + t->cols) * t->depth * element_bytes(p)) / fetch_rate;
  /* One warp issues every other cycle at most. */
  double warps = (double)lw__mma_tile_threads(t) / 32;
  double alone = multiply * fmax(1, 8 / warps) + slice_start;
  double waits = fmax(load_latency / ahead, alone);
  double out = (double)(t->rows * t->cols) * (8.0 * (double)t->warps_k + 4.0) / out_rate;
  /* What is further ahead evens out more of the latency's changes. */
  double slice = fmax(fmax(multiply, fetch) * at_once, waits) + 0.03 * load_latency / ahead;
  double rounds = ceil(tiles / (sms * at_once));
  return rounds * (slices * slice + block_overhead + load_latency + out * at_once);
}

static double predict_cycles(const lw_mma_tile *t, const lw_mma_problem *p, uint32_t blocks) {
  if (p->fma) return predict_fma_cycles(t, p, blocks);
  double tiles = (double)p->batches * (double)lw__ceil_div(p->rows, t->rows) *
                 (double)lw__ceil_div(p->cols, t->cols);
  double sms = p->profile->sm_count, at_once = fmin(blocks, ceil(tiles / sms));
  double slices = (double)lw__ceil_div(p->depth, t->depth);
  double rows = (double)t->rows, cols = (double)t->cols, depth = (double)t->depth;
  double tm = rows / (double)t->warps_m, tn = cols / (double)t->warps_n;
  double warps = (double)lw__mma_tile_threads(t) / 32;
  double multiply = rows * cols * depth / mma_rate;
  double fetch = (rows + cols) * depth * (double)element_bytes(p) / fetch_rate;
  if (!p->copied) fetch *= 4; /* through registers, element by element */
  double fragments =
      warps * (tm + tn) * depth / (double)t->warps_k * (double)element_bytes(p) / shared_rate;
  double ahead = fmin(t->stages - 1, slices);
  double mmas = tm / 16 * (tn / 8) * (depth / 16 / (double)t->warps_k);
  double waits = load_latency / ahead + slice_latency + mma_latency * mmas;
  double busy = fmax(multiply, fmax(fetch, fragments)) + 0.12 * fragments + slice_overhead;
  double out = rows * cols * (8.0 * (double)t->warps_k + 4.0) / out_rate;
  double rounds = ceil(tiles / (sms * at_once));
  return rounds * (slices * fmax(busy * at_once, waits) + block_overhead + out * at_once);
}

/* What a warp can compute: 16 x 8 times something; on FMA units 4 or 8 rows and columns per thread.
 */
static bool fits_warp(int64_t tm, int64_t tn, bool fma) {
  if (fma) return (tm == 16 || tm == 32) && (tn == 32 || tn == 64);
  return tm % 16 == 0 && tm != 0 && tn % 8 == 0 && tn != 0 && tm * tn / 32 <= most_sums;
}

static bool keeps_limits(const lw_mma_tile *t, const lw_mma_problem *p) {
  bool between = (t->cols & (t->cols - 1)) != 0;
  if (between && (p->rows > 16 || t->warps_n * t->warps_k < 4)) return false;
  if (t->cols % t->warps_n != 0) return false;
  if (!fits_warp(t->rows / t->warps_m, t->cols / t->warps_n, p->fma)) return false;
  if (t->warps_m * t->warps_n * t->warps_k > most_warps) return false;
  if (t->depth % ((p->fma ? 4 : 16) * t->warps_k) != 0) return false;
  if (p->fma && t->rows * t->cols / t->warps_m / t->warps_n / 32 * t->depth / t->warps_k > most_fma)
    return false;
  if (p->threads != 0 && lw__mma_tile_threads(t) != p->threads) return false;
  uint64_t shared = lw__mma_tile_shared_bytes(t, p);
  if (shared > p->profile->shared_bytes_per_block_optin) return false;
  if (p->policy == NULL) return true;
  return shared <= p->policy->max_shared_bytes && registers(t, p) <= p->policy->max_registers;
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
  const int64_t shallow = p->fma ? 8 : 32, deep = p->fma ? 64 : 128;
  /* Beside the powers of two, for few rows: what shares columns out evenly among multiprocessors
   * (14336 = 128 x 112), with four warps at least to copy them. */
  static const int64_t columns[] = {16, 32, 48, 64, 80, 96, 112, 128, 256};
  ranking r = {.tiles = out, .most = most};
  lw_mma_tile t;
  memset(&t, 0, sizeof t);
  t.fma = p->fma;
  for (t.rows = 16; t.rows <= 256; t.rows *= 2)
    for (uint32_t c = 0; c < LW_ARRAY_COUNT(columns); c++)
      for (t.warps_m = 1; t.warps_m <= 4; t.warps_m *= 2)
        for (t.warps_n = 1; t.warps_n <= 4; t.warps_n *= 2)
          for (t.warps_k = 1; t.warps_k <= 4; t.warps_k *= 2)
            for (t.depth = shallow; t.depth <= deep; t.depth *= 2)
              for (t.stages = 2; t.stages <= (p->copied ? 6u : 2u); t.stages++) {
                t.cols = columns[c];
                consider(t, p, &r);
              }
  return r.count;
}

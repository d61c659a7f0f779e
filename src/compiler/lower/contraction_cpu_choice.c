/* contraction_cpu_choice.c: how large the tiles of products on CPUs are. Costs are cycles of one
 * core; only their ratios matter. */
#include "compiler/lower/contraction_cpu.h"

enum {
  most_rows = 14,
  most_registers_wide = 4, /* registers of a panel's lanes */
  representative_rows = 1024,
  depth_whole = 320, /* a k up to here is one slice */
  depth_slice = 256,
  depth_few_rows = 32, /* a panel that few rows read stays in first-level cache */
  few_rows = 4,
  pack_bytes = 128 << 10,
  sums_bytes = 64 << 10,
};

/* A block's fixed cost, a division by lane, the threads that blocks should keep busy. */
#define BLOCK_CYCLES 400.0
#define DIVISION_CYCLES 12.0
#define THREADS 4.0
#define SEEN_LOADS 0.1
/* Between the instructions of one sum. */
#define LATENCY_CYCLES 4.0

static double most(double a, double b) { return a > b ? a : b; }

/* Cycles of a register tile: a product and sum each, and loads beside them, of rows from
 * first-level cache and of panels from the second level; a part of the loads is not hidden. */
static double tile_cycles(int64_t rows, int64_t registers, int64_t k) {
  double products = (double)(rows * registers);
  double loads = 0.5 * (double)rows + 2.5 * (double)registers;
  return (double)k * (most(most(products, loads), LATENCY_CYCLES) + SEEN_LOADS * loads) +
         6.0 * products;
}

static double tiles_in(int64_t rows, int64_t of) {
  double tiles = (double)rows / (double)of;
  return rows >= representative_rows ? tiles : (double)lw__ceil_div(rows, of);
}

static bool is_clear(const lw_vec_i64 *divisors, int64_t lanes) {
  for (uint32_t i = 0; i < divisors->count; i++)
    if (divisors->data[i] % lanes != 0) return false;
  return true;
}

static double shape_cycles(const lw_cpu_extents *x, int64_t rows, int64_t registers,
                           int64_t lanes) {
  double panels = (double)lw__ceil_div(x->lanes, lanes);
  double cycles = tiles_in(x->rows, rows) * panels * tile_cycles(rows, registers, x->k);
  if (is_clear(x->divisors, lanes)) return cycles;
  double divided = (double)x->rows * (double)x->lanes;
  if (!x->packed) divided += (double)x->k * (double)x->lanes;
  return cycles + DIVISION_CYCLES * divided;
}

static void choose_shape(const lw_device_profile *profile, const lw_cpu_extents *x,
                         lw_cpu_tile *tile) {
  double best = -1;
  int64_t whole = profile->vector_bytes / x->bytes;
  for (int64_t vector = whole; vector >= 1 && 4 * vector >= whole; vector /= 2)
    for (int64_t wide = 1; wide <= most_registers_wide; wide++) {
      int64_t fit = (profile->vector_registers - 1 - wide) / wide;
      for (int64_t rows = lw__min_i64(lw__min_i64(most_rows, fit), x->rows); rows >= 1; rows--) {
        double cycles = shape_cycles(x, rows, wide, wide * vector);
        if (best >= 0 && cycles >= best) continue;
        best = cycles;
        tile->vector = vector;
        tile->lanes = wide * vector;
        tile->rows = rows;
      }
    }
}

static int64_t choose_depth(const lw_cpu_extents *x) {
  int64_t k = lw__max_i64(1, x->k);
  if (!x->packed && x->rows <= few_rows) return lw__min_i64(k, depth_few_rows);
  if (k <= depth_whole) return k;
  int64_t slice = lw__ceil_div(k, lw__ceil_div(k, depth_slice));
  return (slice + 7) / 8 * 8;
}

static double block_cycles(const lw_cpu_extents *x, const lw_cpu_tile *tile, int64_t tiles,
                           int64_t panels) {
  double registers = (double)(tile->lanes / tile->vector), work = BLOCK_CYCLES;
  work += (double)(tiles * panels) * tile_cycles(tile->rows, (int64_t)registers, x->k);
  work += 0.3 * (double)(tiles * tile->rows) * (double)x->k;
  if (!x->packed) work += x->pack_cost * (double)(panels * tile->lanes) * (double)x->k;
  return work;
}

/* As many blocks as threads like to have, and no more than packing allows. */
static void choose_block(const lw_cpu_extents *x, lw_cpu_tile *tile) {
  int64_t all_tiles = lw__ceil_div(x->rows, tile->rows),
          all_panels = lw__ceil_div(x->lanes, tile->lanes);
  double best = -1;
  for (int64_t panels = 1; panels <= all_panels; panels++) {
    if (panels > 1 && !x->packed && panels * tile->lanes * tile->depth * x->bytes > pack_bytes)
      break;
    for (int64_t tiles = 1; tiles <= all_tiles; tiles++) {
      if (tiles > 1 && tiles * tile->rows * panels * tile->lanes * x->bytes > sums_bytes) break;
      double blocks = (double)x->batch * (double)lw__ceil_div(all_tiles, tiles) *
                      (double)lw__ceil_div(all_panels, panels);
      double waves = blocks <= THREADS ? 1 : blocks / THREADS;
      double cycles = waves * block_cycles(x, tile, tiles, panels);
      if (best >= 0 && cycles >= best) continue;
      best = cycles;
      tile->tiles = tiles;
      tile->panels = panels;
    }
  }
}

void lw__cpu_tile_choose(const lw_device_profile *profile, const lw_cpu_extents *extents,
                         lw_cpu_tile *tile) {
  lw_cpu_extents x = *extents;
  x.rows = lw__min_i64(x.rows, representative_rows);
  tile->packed = x.packed;
  choose_shape(profile, &x, tile);
  tile->depth = choose_depth(&x);
  choose_block(&x, tile);
}

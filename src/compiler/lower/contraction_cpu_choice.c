/* contraction_cpu_choice.c: how large the tiles of products on CPUs are. Costs are cycles of one
 * core; only their ratios matter. */
#include "compiler/lower/contraction_cpu.h"

enum {
  most_rows = 14,
  most_registers_wide = 4, /* registers of a panel's lanes */
  representative_rows = 1024,
  depth_whole = 320, /* a k up to here is one slice */
  depth_slice = 256,
  pack_bytes = 128 << 10,
  sums_bytes = 128 << 10,
};

/* A block's fixed cost, a division per lane, the threads that blocks should keep busy. */
#define BLOCK_CYCLES 400.0
#define DIVISION_CYCLES 12.0
#define SHIFT_CYCLES 0.5
#define THREADS 4.0
#define SEEN_LOADS 0.1
#define NARROW_SHARE 0.6
/* Between the instructions of one sum. */
#define LATENCY_CYCLES 4.0

static double most(double a, double b) { return a > b ? a : b; }

/* Cycles of a register tile: a product and sum each (a little over half for narrower registers),
 * and loads beside them, of rows from first-level cache and of panels from the second level; a part
 * of the loads is not hidden. */
static double tile_cycles(int64_t rows, int64_t registers, bool whole, int64_t k) {
  double products = (double)(rows * registers) * (whole ? 1.0 : NARROW_SHARE);
  double loads = 0.5 * (double)rows + 2.5 * (double)registers;
  return (double)k * (most(most(products, loads), LATENCY_CYCLES) + SEEN_LOADS * loads) +
         6.0 * products;
}

static double tiles_in(int64_t rows, int64_t of) {
  double tiles = (double)rows / (double)of;
  return rows >= representative_rows ? tiles : (double)lw__ceil_div(rows, of);
}

/* Cycles of the divisions that an address of one lane takes: digits that begin inside panels.
 * Powers of two are shifts. */
static double division_cycles(const lw_vec_i64 *divisors, int64_t used) {
  double cycles = 0;
  for (uint32_t i = 0; i < divisors->count; i++) {
    int64_t d = divisors->data[i];
    if (d % used != 0) cycles += (d & (d - 1)) == 0 ? SHIFT_CYCLES : DIVISION_CYCLES;
  }
  return cycles;
}

static double shape_cycles(const lw_cpu_extents *x, const lw_cpu_tile *tile, bool whole) {
  double panels = (double)lw__ceil_div(x->lanes, tile->used);
  double cycles = tiles_in(x->rows, tile->rows) * panels *
                  tile_cycles(tile->rows, tile->lanes / tile->vector, whole, x->k);
  double addresses = (double)x->rows * (double)x->lanes;
  if (!x->packed) addresses += (double)x->k * (double)x->lanes;
  double divisions = division_cycles(x->divisors, tile->used);
  if (x->guarded && x->lanes % tile->used != 0) divisions += DIVISION_CYCLES;
  return cycles + divisions * addresses;
}

/* The best number of rows for a panel. */
static void try_panel(const lw_device_profile *profile, const lw_cpu_extents *x, int64_t vector,
                      int64_t wide, int64_t used, double *best, lw_cpu_tile *tile) {
  int64_t fit = (profile->vector_registers - 1 - wide) / wide;
  lw_cpu_tile shape = *tile;
  shape.vector = vector;
  shape.lanes = wide * vector;
  shape.used = used;
  shape.rows = lw__min_i64(lw__min_i64(most_rows, fit), x->rows);
  for (; shape.rows >= 1; shape.rows--) {
    double cycles = shape_cycles(x, &shape, vector * x->bytes == profile->vector_bytes);
    if (*best >= 0 && cycles >= *best) continue;
    *best = cycles;
    *tile = shape;
  }
}

/* Panels that are filled, and such that hold one of a few equal parts of a digit. */
static void choose_shape(const lw_device_profile *profile, const lw_cpu_extents *x,
                         lw_cpu_tile *tile) {
  double best = -1;
  int64_t whole = profile->vector_bytes / x->bytes;
  for (int64_t vector = whole; vector >= 1 && 4 * vector >= whole; vector /= 2)
    for (int64_t wide = 1; wide <= most_registers_wide; wide++) {
      int64_t lanes = wide * vector;
      try_panel(profile, x, vector, wide, lanes, &best, tile);
      for (uint32_t i = 0; i <= x->divisors->count; i++) {
        int64_t digit = i < x->divisors->count ? x->divisors->data[i] : lw__max_i64(1, x->lanes);
        int64_t parts = lw__ceil_div(digit, lanes);
        if (digit % parts == 0 && digit / parts < lanes && 2 * (digit / parts) > lanes)
          try_panel(profile, x, vector, wide, digit / parts, &best, tile);
      }
    }
}

/* Digits of k that begin where its divisions do: a chain of divisors, short enough for a slice to
 * hold all but the last whole. */
static void choose_digits(const lw_cpu_extents *x, lw_cpu_tile *tile) {
  tile->digits = 0;
  int64_t next = 1;
  while (next > 0 && tile->digits < LW_CPU_DIGITS) {
    int64_t scale = next;
    tile->scales[tile->digits++] = scale;
    next = 0;
    for (uint32_t i = 0; i < x->k_divisors->count; i++) {
      int64_t d = x->k_divisors->data[i];
      bool fits = d > scale && d % scale == 0 && x->k % d == 0 && d <= depth_slice;
      if (fits && (next == 0 || d < next)) next = d;
    }
  }
}

/* Sums are rounded slice by slice, so slices depend on k alone: a row's bits may not depend on how
 * many rows there are. */
static int64_t choose_depth(const lw_cpu_extents *x) {
  int64_t k = lw__max_i64(1, x->k);
  if (k <= depth_whole) return k;
  int64_t slice = lw__ceil_div(k, lw__ceil_div(k, depth_slice));
  return (slice + 7) / 8 * 8;
}

static int64_t whole_digits(const lw_cpu_tile *tile, int64_t depth, int64_t k) {
  int64_t scale = tile->scales[tile->digits - 1];
  return lw__min_i64(lw__max_i64(1, k), lw__ceil_div(depth, scale) * scale);
}

static double block_cycles(const lw_cpu_extents *x, const lw_cpu_tile *tile, int64_t tiles,
                           int64_t panels) {
  double work = BLOCK_CYCLES;
  work +=
      (double)(tiles * panels) * tile_cycles(tile->rows, tile->lanes / tile->vector, true, x->k);
  if (!x->rows_packed) work += 0.2 * (double)(tiles * tile->rows) * (double)x->k;
  if (!x->packed) work += x->pack_cost * (double)(panels * tile->lanes) * (double)x->k;
  return work;
}

/* As many blocks as threads like to have, and no more than packing allows. */
static void choose_block(const lw_cpu_extents *x, lw_cpu_tile *tile) {
  int64_t all_tiles = lw__ceil_div(x->rows, tile->rows),
          all_panels = lw__ceil_div(x->lanes, tile->used);
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
  /* the same number of blocks, but equal ones */
  tile->tiles = lw__ceil_div(all_tiles, lw__ceil_div(all_tiles, tile->tiles));
  tile->panels = lw__ceil_div(all_panels, lw__ceil_div(all_panels, tile->panels));
}

void lw__cpu_tile_choose(const lw_device_profile *profile, const lw_cpu_extents *extents,
                         lw_cpu_tile *tile) {
  lw_cpu_extents x = *extents;
  x.rows = lw__min_i64(x.rows, representative_rows);
  tile->packed = x.packed;
  tile->rows_packed = x.rows_packed;
  choose_shape(profile, &x, tile);
  choose_digits(&x, tile);
  tile->depth = whole_digits(tile, choose_depth(&x), x.k);
  choose_block(&x, tile);
}

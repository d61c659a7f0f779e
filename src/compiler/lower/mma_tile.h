/* mma_tile.h: how a product is cut into tiles for tensor cores or FMA units: what a block and a
 * warp compute, how deep a slice of k is, how many slices are under way at once. A choice by a
 * small model; nothing in it knows what the factors are. Internal to lower/. */
#ifndef LW_COMPILER_MMA_TILE_H
#define LW_COMPILER_MMA_TILE_H

#include "device/device.h"

typedef struct lw_mma_tile {
  int64_t rows, cols, depth;         /* of a block's tile: results, and k per slice */
  int64_t warps_m, warps_n, warps_k; /* warps along rows, columns, and the slice */
  uint32_t stages;                   /* slices in shared memory at once, >= 2 */
  uint32_t blocks;                   /* per multiprocessor, that registers shall allow */
  bool fma;                          /* f32 on FMA units: a warp is 4 rows of 8 threads */
} lw_mma_tile;

typedef struct lw_mma_problem {
  int64_t batches, rows, cols, depth; /* of the whole product */
  bool a_along_k, b_along_k;          /* how slices lie in shared memory: k or rows contiguous */
  bool fma;                           /* f32 factors, on FMA units */
  bool copied;                        /* both factors are copied asynchronously */
  const lw_device_profile *profile;
  const lw_resource_policy *policy; /* may be NULL */
  uint32_t threads;                 /* of a block; 0: any */
} lw_mma_problem;

/* Elements from one line of a slice in shared memory to the next. Of 16 bits: lines of 8 in a
 * matrix of 8 x 8 then stand in different banks; f32: 4 of k from 8 lines do, and rows are read as
 * they lie. */
static inline int64_t lw__mma_pitch(bool fma, bool along_k, int64_t rows, int64_t depth) {
  if (fma) return along_k ? depth + 4 : rows;
  return (along_k ? depth : rows) + 8;
}
static inline int64_t lw__mma_stage_elements(bool fma, bool along_k, int64_t rows, int64_t depth) {
  return lw__mma_pitch(fma, along_k, rows, depth) * (along_k ? rows : depth);
}
/* Shared memory of a block in bytes: both factors' stages, and the rows of sums on their way out.
 */
uint64_t lw__mma_tile_shared_bytes(const lw_mma_tile *tile, const lw_mma_problem *problem);
static inline uint32_t lw__mma_tile_threads(const lw_mma_tile *tile) {
  return (uint32_t)(32 * tile->warps_m * tile->warps_n * tile->warps_k);
}

/* Up to |most| tiles, the one with the least predicted time first; 0 when none keeps the policy's
 * limits. */
uint32_t lw__mma_tile_rank(const lw_mma_problem *problem, lw_mma_tile *out, uint32_t most);
/* What the model predicts, in cycles of a multiprocessor. */
double lw__mma_tile_cycles(const lw_mma_tile *tile, const lw_mma_problem *problem);

#endif

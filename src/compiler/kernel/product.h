/* product.h: matrix products on Hopper's tensor cores (sm_90a) as kernel IR knows them: out[M,N] =
 * epilogue(A[M,K] B), sums in f32. What surrounds a product (tiles, rings of stages, turns of
 * warpgroups) is text that emit/product_sm90.c prints; a kernel carries the parameters of that text
 * and what the operands are, and its body is the epilogue of one element. Pure numbers: nothing
 * here prints. */
#ifndef LW_COMPILER_KERNEL_PRODUCT_H
#define LW_COMPILER_KERNEL_PRODUCT_H

#include "base/base.h"
#include "plan/plan.h"

typedef enum lw_product_b {
  LW_PRODUCT_B_NK, /* B as [N,K], K contiguous */
  LW_PRODUCT_B_KN, /* B as [K,N], N contiguous */
} lw_product_b;

typedef enum lw_product_sched {
  LW_PRODUCT_COOPERATIVE, /* both consumers work on one tile: halves of its rows, or of its columns
                             when tile_m is 64 */
  LW_PRODUCT_PINGPONG,    /* each has tiles of its own; one stores while the other multiplies */
} lw_product_sched;

typedef enum lw_product_store {
  LW_PRODUCT_STORE_DIRECT, /* from registers; any pitch */
  LW_PRODUCT_STORE_TMA,    /* through shared memory and a tensor map */
} lw_product_store;

typedef struct lw_product_sm90 {
  lw_dtype dtype;     /* of A and B: F16 or BF16 */
  lw_dtype out_dtype; /* of the result that is packed in pairs: F16 or BF16 */
  lw_product_b b_layout;
  lw_product_sched sched;
  lw_product_store store;
  uint32_t tile_m;  /* 64, 128 or 256 */
  uint32_t tile_n;  /* multiple of 64, at most 256 */
  uint32_t tile_k;  /* 64 */
  uint32_t stages;  /* 2 .. 16, as far as shared memory goes */
  uint32_t group;   /* rows of tiles that are visited together; >= 1 */
  uint32_t cluster; /* 1, or 2: two blocks below each other share the tile of B by multicast */
  /* 1, or 2, 4, 8: so many blocks, a cluster, share a tile and each multiplies a part of the depth,
   * its two consumers one half of it each; the sums are added in the order of the depth through
   * each other's shared memory. For results of few tiles: one tile per cluster, PINGPONG, DIRECT, a
   * depth of at least 128 per block. */
  uint32_t split;
  bool watchdog;    /* a wait of more than about a second traps */
} lw_product_sm90;

/* What a launch and the tensor maps need, and what follows from the parameters. Boxes are {inner,
 * outer} in elements; maps have 2 dimensions, 16-bit elements, 128-byte swizzle, zero fill. */
typedef struct lw_product_sm90_shape {
  uint32_t threads, shared_bytes, cluster; /* blocks that start together */
  uint32_t a_box[2], b_box[2];
  uint32_t out_box[2];   /* LW_PRODUCT_STORE_TMA */
  uint32_t accumulators; /* registers per thread for sums */
  uint32_t blocks;       /* of 64 rows per consumer */
  uint32_t width;        /* columns per consumer */
  uint32_t a_bytes, stage_bytes;
  uint32_t ring; /* boxes of the result per consumer; 0: stores go straight to memory */
  uint32_t partial_bytes; /* split: the sums of one consumer in shared memory */
} lw_product_sm90_shape;

enum {
  LW_PRODUCT_CONSUMERS = 2,
  LW_PRODUCT_PARTIAL_PAD = 8, /* floats between rows of partial sums, against bank conflicts */
};

/* LW_STATUS_UNSUPPORTED for parameters that are out of range, need more shared memory than a block
 * has (232448 bytes) or more registers than a thread has. */
lw_status lw__product_sm90_shape(const lw_product_sm90 *p,
                                 lw_product_sm90_shape *out) LW_MUST_CHECK;
/* tile_m is 64 and the consumers share the columns. */
bool lw__product_sm90_splits_columns(const lw_product_sm90 *p);

/* Configurations for a product of this size, the fastest first by a model that was fitted to
 * measurements on one H200: rounds of tiles over multiprocessors, the time of a step by arithmetic
 * or by what has to be fetched, storing as far as nothing hides it. |like| gives dtypes, b_layout
 * and store (those that split the depth store DIRECT). All of them pass lw__product_sm90_shape. */
#define LW_PRODUCT_SM90_CANDIDATES 24
uint32_t lw__product_sm90_candidates(const lw_product_sm90 *like, int64_t rows, int64_t columns,
                                     int64_t depth, uint32_t sm_count,
                                     lw_product_sm90 out[LW_PRODUCT_SM90_CANDIDATES]);
/* What the model predicts, in clock cycles of a multiprocessor. */
double lw__product_sm90_cycles(const lw_product_sm90 *p, int64_t rows, int64_t columns,
                               int64_t depth, uint32_t sm_count);


/* Blocks to launch for a result of this size; with a split exactly so many. */
uint32_t lw__product_sm90_grid(const lw_product_sm90 *p, int64_t rows, int64_t columns,
                               uint32_t sm_count);

/* ---- as part of a kernel ----------------------------------------------------------------------*/

/* A matrix in a buffer of the kernel, in elements: element (outer, inner) is at offset + outer *
 * pitch + inner. For tensor maps offset and pitch are multiples of 16 bytes. */
typedef struct lw_kmatrix {
  uint32_t buffer;
  int64_t offset, pitch;
} lw_kmatrix;

/* Scalar argument 0 of the kernel is the number of rows. The body of the kernel runs once for every
 * element of rows x columns, in any order: LW_K_SUM is the f32 sum over k of a[row, k] * b[column,
 * k] (or b[k, column]), LW_K_ROW and LW_K_COLUMN (i32) say which element it is. The body is a list
 * of pure instructions, loads from buffers that the kernel does not write, and stores. */
typedef struct lw_kproduct {
  bool present;
  lw_product_sm90 form;
  lw_kmatrix a, b;
  /* Where the body stores to this buffer it stores element (row, column): such stores go in pairs
   * (DIRECT) or through a tensor map (TMA: columns, too, are a multiple of 16 bytes). The buffer is
   * LW_NONE when no result has that form. */
  lw_kmatrix out;
  int64_t columns, depth;
} lw_kproduct;

enum { LW_KPRODUCT_MAPS = 3 };
/* The tensor maps that a launch takes after its buffers and scalars: A, B and, for TMA stores, the
 * result. |maps[i].arg| is the buffer. Returns how many; the product passes lw__product_sm90_shape.
 */
uint32_t lw__kproduct_maps(const lw_kproduct *product, int64_t rows,
                           lw_plan_map maps[LW_KPRODUCT_MAPS]);

#endif

/* product_sm90.h: prints the inner kernel of a matrix product for Hopper's tensor cores (sm_90a):
 * out[M,N] = hook(A[M,K] B), A row-major, sums in f32. One warpgroup copies tiles of A and B to
 * shared memory (TMA) in a ring of stages; two warpgroups multiply (wgmma) and store. The grid is
 * persistent: every block takes one tile after the other. */
#ifndef LW_COMPILER_EMIT_PRODUCT_SM90_H
#define LW_COMPILER_EMIT_PRODUCT_SM90_H

#include "base/base.h"

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

/* What happens to a sum before it is stored. |row| and |column| in the printed text are names of
 * ints that are always inside the result, so that loads need no guards; what is computed for places
 * outside is not stored. Each element is computed once. */
typedef struct lw_product_hook {
  const char *parameters; /* further parameters of the kernel, each with a comma before it: ", const
                             unsigned short *bias"; may be NULL */
  const char *helpers;    /* functions, printed before the kernel; may be NULL */
  /* Statements that run once for a column and all its rows in a thread. Names that they declare end
   * in |tag|, which is "0" or "1" (two columns are worked on together). May be NULL. */
  void (*column)(lw_text *out, const char *column, const char *tag, const void *user);
  /* A float expression: what is stored for the sum |value| (a float expression; use it once).
   * NULL: the sum itself. */
  void (*value)(lw_text *out, const char *row, const char *column, const char *value,
                const char *tag, const void *user);
  const void *user;
} lw_product_hook;

typedef struct lw_product_sm90 {
  lw_dtype dtype; /* of A, B and the result: F16 or BF16 */
  lw_product_b b_layout;
  lw_product_sched sched;
  lw_product_store store;
  uint32_t tile_m;  /* 64, 128 or 256 */
  uint32_t tile_n;  /* multiple of 64, at most 256 */
  uint32_t tile_k;  /* 64 */
  uint32_t stages;  /* 2 .. 16, as far as shared memory goes */
  uint32_t group;   /* rows of tiles that are visited together; >= 1 */
  uint32_t cluster; /* 1, or 2: two blocks below each other share the tile of B by multicast */
  bool watchdog;    /* a wait of more than about a second traps */
  lw_product_hook hook;
} lw_product_sm90;

/* What a launch and the tensor maps need. Boxes are {inner, outer} in elements; maps have 2
 * dimensions, 16-bit elements, 128-byte swizzle, zero fill. */
typedef struct lw_product_sm90_shape {
  uint32_t threads, shared_bytes, cluster;
  uint32_t a_box[2], b_box[2];
  uint32_t out_box[2];   /* LW_PRODUCT_STORE_TMA */
  uint32_t accumulators; /* registers per thread for sums */
} lw_product_sm90_shape;

/* LW_STATUS_UNSUPPORTED for parameters that are out of range, need more shared memory than a block
 * has (232448 bytes) or more registers than a thread has. */
lw_status lw__product_sm90_shape(const lw_product_sm90 *p,
                                 lw_product_sm90_shape *out) LW_MUST_CHECK;

/* A source for NVRTC (sm_90a, no headers) with one entry point:
 *   NAME(map of A, map of B, [map of the result | unsigned short *out, long long pitch],
 *        int rows, int columns, int depth, further parameters of the hook)
 * |pitch| in elements. rows, columns, depth >= 1, tiles < 2^31. Grid: any multiple of |cluster| in
 * x; as many blocks as there are multiprocessors is best. */
lw_status lw__emit_product_sm90(const lw_product_sm90 *p, const char *name,
                                lw_text *out) LW_MUST_CHECK;

/* Configurations for a product of this size, the fastest first by a model that was fitted to
 * measurements on one H200: rounds of tiles over multiprocessors, the time of a step by arithmetic
 * or by what has to be fetched, storing as far as nothing hides it. |like| gives dtype, b_layout,
 * store and hook. All of them pass lw__product_sm90_shape. */
#define LW_PRODUCT_SM90_CANDIDATES 16
uint32_t lw__product_sm90_candidates(const lw_product_sm90 *like, int64_t rows, int64_t columns,
                                     int64_t depth, uint32_t sm_count,
                                     lw_product_sm90 out[LW_PRODUCT_SM90_CANDIDATES]);

/* Blocks to launch for a result of this size. */
uint32_t lw__product_sm90_grid(const lw_product_sm90 *p, int64_t rows, int64_t columns,
                               uint32_t sm_count);

#endif

/* region.h: what a set of nodes means as one kernel: its class, the space its threads run over,
 * where every value that matters stands in that space, and whether all that is legal. Fusion asks
 * it about candidates, lowering about groups.
 *
 * Spaces, by class (each variable is a linear count; shapes are unflattened from it):
 *   MAP      i over the elements of the largest output
 *   REDUCE   (r, c): rows are the kept elements of the reductions, columns the reduced ones
 *   DOT      (b, m, n) over the product's result, k over the contraction
 *   CONV     (b = group, m = result channel in the group, n = (image, position) linear),
 *            k = (channel, tap)
 * Values get their place by propagation from an anchor through maps, reshapes and permutes (all
 * one-to-one). */
#ifndef LW_COMPILER_REGION_H
#define LW_COMPILER_REGION_H

#include "compiler/fuse/elem.h"
#include "compiler/kernel/kernel.h"

/* What all regions of one graph share. */
typedef struct lw_region_context {
  const lw_graph *graph;
  lw_uses uses;
  uint8_t *is_output;       /* per value: graph output */
  uint8_t *constant;        /* per value: made from constants alone */
  uint32_t *member;         /* per node: stamp of the region under construction */
  uint32_t *order;          /* scratch per node */
  uint32_t stamp;
  uint8_t *seed; /* per node: 1 = a compute, map or materialised movement node: can be member of a
                    group */
  uint32_t *place_stamp;    /* per value */
  const lw_ix **place;      /* per value: its index in the region's space */
} lw_region_context;
lw_status lw__region_context_init(lw_region_context *ctx, const lw_graph *graph) LW_MUST_CHECK;
void lw__region_context_deinit(lw_region_context *ctx);

typedef enum lw_place_kind { LW_PLACE_FULL, LW_PLACE_ROW } lw_place_kind;

typedef struct lw_region_output {
  lw_value_id value;
  lw_place_kind kind;       /* ROW: one element per row (REDUCE class) */
  const lw_ix *index;       /* per dim */
  lw_ix offset;             /* in the value's storage */
  lw_elem elem;
} lw_region_output;

typedef struct lw_region_reduction {
  lw_node_id node;
  uint32_t stage; /* 0: its terms need no other reduction of the region; else 1 + the latest */
  lw_elem term;   /* what is reduced, at (r, c) */
} lw_region_reduction;

typedef struct lw_region {
  lw_region_context *ctx;
  lw_kclass cls;
  lw_elem_pool pool;
  const lw_node_id *nodes;  /* borrowed, topological order */
  uint32_t node_count;
  lw_node_id anchor;        /* the contraction, the first reduction, or LW_NONE */
  int64_t elements;         /* of the space: product of extents (DOT and CONV: without k) */
  int64_t rows, cols;       /* REDUCE */
  int64_t b, m, n, k;       /* DOT, CONV */
  lw_ix space[4];           /* DOT, CONV, placed: b, m, n, k as expressions */
  LW_VEC(lw_region_output) outputs;
  LW_VEC(lw_region_reduction) reductions; /* in node order */
  uint32_t stage_count;
  lw_elem lhs, rhs;         /* DOT, CONV: the two factors at (b, m, n, k) */
  const char *why;          /* the reason when a call returned LW_STATUS_UNSUPPORTED; static text */
} lw_region;

/* The nodes' class and extents. LW_STATUS_UNSUPPORTED with region->why when no class holds them.
 * The region borrows |nodes|. Nodes must be seeds of the context. deinit in every case. */
lw_status lw__region_init(lw_region *region, lw_region_context *ctx, const lw_node_id *nodes,
                          uint32_t count) LW_MUST_CHECK;
void lw__region_deinit(lw_region *region);

/* A fresh variable over 0 .. extent-1; the constant 0 when that is all there is (or the extent is
 * 0). */
lw_ix lw__region_var(lw_region *region, int64_t extent);
/* One fresh variable per extent of the space: what analysis uses. */
void lw__region_plain_space(lw_region *region, lw_ix *out_space);
/* Distinct values that the placed region loads or stores. */
uint32_t lw__region_buffer_count(const lw_region *region);

/* Places everything for the space expressions given (built in region->pool.ix by the caller): MAP
 * {i}; REDUCE {r, c}; DOT, CONV {b, m, n, k}. Fills outputs, reductions, lhs, rhs. UNSUPPORTED with
 * |why| when a value that must be stored cannot be placed, or a reduction is read at another row.
 * May be called once per region. */
lw_status lw__region_place(lw_region *region, const lw_ix *space) LW_MUST_CHECK;

/* DOT, CONV: F16 or BF16 when both factors are exactly of that type (before the casts that widen
 * them), so that matrix units may multiply them; else NONE. After place. */
lw_dtype lw__region_matrix_type(const lw_region *region);
/* |e| without casts that only widen a narrow float. */
lw_elem lw__elem_unwidened(const lw_elem_pool *pool, lw_elem e);

/* Is |value| (result of a member) read outside the region, or a graph output? */
bool lw__region_is_output(const lw_region_context *ctx, lw_value_id value);

#endif

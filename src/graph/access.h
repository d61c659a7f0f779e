/* access.h: from which element(s) of its operands a movement node takes the element at a given
 * index; composition through chains of movements. Legality, coalescing, alignment and in-place
 * questions are questions to these maps. Shapes must be numbers (symbols bound). */
#ifndef LW_GRAPH_ACCESS_H
#define LW_GRAPH_ACCESS_H

#include "graph/graph.h"
#include "graph/index.h"

/* lo <= e < hi */
typedef struct lw_guard { lw_ix e; int64_t lo, hi; } lw_guard;

/* One source of a movement node: where all guards hold, the element is |source| at |index|. */
typedef struct lw_piece {
  lw_value_id source;
  lw_ix index[LW_MAX_RANK]; /* one per dim of source */
  lw_guard guard[LW_MAX_RANK];
  uint32_t guard_count; /* what always holds is left out; a piece that never applies is dropped */
} lw_piece;

/* The pieces of result element |index| of movement node |node|. Guards of different pieces exclude
 * each other. Where no piece applies the element is |fill| (PAD; for all other movements the pieces
 * cover everything). The pieces live in |arena|. |index| has to lie inside the result only where
 * the element is wanted: when guards of steps before exclude other values, the step relies on that,
 * and its own guards and indices mean something only where those hold. Where one end of a guard
 * always holds, the range of |e| shows it (lo <= lowest value, or highest value < hi). */
typedef struct lw_pieces {
  lw_piece *piece;
  uint32_t count;
  bool has_fill;
  lw_scalar fill;
} lw_pieces;
lw_status lw__access_step(const lw_graph *graph, lw_ix_pool *pool, lw_node_id node,
                          const lw_ix *index, lw_arena *arena, lw_pieces *out) LW_MUST_CHECK;

/* Row-major position of |index| in |shape|, and the inverse. */
lw_ix lw__access_flatten(lw_ix_pool *pool, const lw_shape *shape, const lw_ix *index);
void lw__access_unflatten(lw_ix_pool *pool, const lw_shape *shape, lw_ix linear, lw_ix *out_index);
/* Position in elements of |index| in the storage of |value|. */
lw_ix lw__access_offset(const lw_graph *graph, lw_ix_pool *pool, lw_value_id value,
                        const lw_ix *index);
/* Follows movement nodes from |value| at |index| while there is exactly one unguarded piece and
 * |value|'s producer is a movement; gives the value reached and the index there. */
lw_status lw__access_chase(const lw_graph *graph, lw_ix_pool *pool, lw_value_id value,
                           const lw_ix *index, lw_value_id *out_source,
                           lw_ix *out_index) LW_MUST_CHECK;
/* True when |e| takes each value 0..count-1 exactly once while the variables in |vars| run over
 * their ranges: it is a sum of coef * variable whose coefficients are the mixed-radix weights of
 * some order of these variables. */
bool lw__access_is_bijection(const lw_ix_pool *pool, lw_ix e, const lw_ix *vars, uint32_t var_count,
                             int64_t count);

#endif

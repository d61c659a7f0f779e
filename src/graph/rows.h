/* rows.h: whether a graph may be run with more rows than are wanted: whether what stands in the
 * rows of a larger batch can reach the results of a smaller one.
 *
 * |open| is the graph with one symbol S left, |bound| the same graph with S = B. The claim that is
 * proved for every value, in order: for every b with 1 <= b <= B, the elements that the value has
 * when S is b are, bit for bit of exact arithmetic, elements of the value when S is B. Which ones
 * is told by its *place*: the one dim whose extent is outer * S * inner, so that the index along it
 * is (o * S + s) * inner + t with s the row; digits o, s, t and all other indices are the same for
 * b and for B, and s < b.
 *
 * Movements are judged by their access maps (access.h): an element in row s may be read from row s
 * alone, at digits that do not depend on s. A regrouping of digits for which this holds at B >= 2
 * keeps the weight of s and so both what is inside it and what is outside: it is the same for every
 * S. No attribute of a node depends on S, only shapes do, since |open| has numbers in none. Maps
 * and gathers need their operands' rows at the same place; reductions, products and convolutions
 * may not sum over the place. Anything else, a mean over the batch say, is refused. */
#ifndef LW_GRAPH_ROWS_H
#define LW_GRAPH_ROWS_H

#include "graph/access.h"

typedef struct lw_rows_place {
  uint32_t dim; /* LW_NONE: the symbol is not in the shape */
  int64_t outer, inner;
} lw_rows_place;

typedef struct lw_rows_proof {
  bool holds;
  lw_text refusal;                 /* why not, naming the node; "" when it holds */
  lw_rows_place *inputs, *outputs; /* in the graph's order, in the caller's arena; of outputs and
                                      inputs |outer| is 1 */
} lw_rows_proof;

/* |open| and |bound| have the same nodes; |open|'s table of extents may grow. Fails only for lack
 * of memory. */
lw_status lw__rows_prove(lw_graph *open, const lw_graph *bound, const char *symbol, lw_arena *arena,
                         lw_rows_proof *out) LW_MUST_CHECK;
void lw__rows_proof_deinit(lw_rows_proof *proof);

#endif

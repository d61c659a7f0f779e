/* rgraph.h: random graphs for differential tests. */
#ifndef LW_TEST_RGRAPH_H
#define LW_TEST_RGRAPH_H

#include "graph/graph.h"

typedef struct lw_rgraph_options {
  uint32_t nodes;      /* steps of growth, about */
  bool contractions;   /* products and convolutions */
  bool narrow;         /* f16 and bf16 beside f32 */
  bool wide; /* also f64, integers and bools, long rows, more functions, attention, indices that are
                computed */
} lw_rgraph_options;

/* Grows a graph from |seed|: inputs and constants of small odd shapes, then maps, movements,
 * reductions, composites (softmax, norms, gelu), gathers, products, convolutions; one to three
 * outputs. Deterministic. */
lw_status lw_rgraph_make(uint64_t seed, const lw_rgraph_options *options,
                         lw_graph *out) LW_MUST_CHECK;

/* Standard normal floats (rounded to the type), integers 0..9, bools. |data| has room for |count|
 * elements. */
void lw_random_fill(lw_rng *rng, lw_dtype dtype, void *data, int64_t count);

#endif

/* state.h: pairs of an input and an output of a graph that replace each other from run to run: a
 * cache of keys, running statistics.
 *
 * A pair whose shapes are equal is *replaced*: the output of one run is the input of the next.
 * A pair whose output is longer in one dim and begins with the input itself, element by element as
 * access maps show, is *appended to*: the run has to write the new rows alone. Stored with that dim
 * outermost, what a run reads and what it adds lie behind each other in one piece of memory. */
#ifndef LW_GRAPH_STATE_H
#define LW_GRAPH_STATE_H

#include "graph/graph.h"

typedef struct lw_state {
  uint32_t input, output; /* positions in the graph's lists */
  uint32_t axis;          /* the dim that grows; LW_NONE: replaced */
  int64_t rows, added;    /* its extent in the input, and how much longer the output is */
} lw_state;

/* The pair of these names. Symbols must be bound. LW_STATUS_USAGE: there are no such, or their
 * types or shapes do not fit; LW_STATUS_UNSUPPORTED: the output does not begin with the input. */
lw_status lw__state_find(const lw_graph *graph, const char *input, const char *output,
                         lw_diag *diag, lw_state *out) LW_MUST_CHECK;
/* Makes the output of an appended state its new rows alone. */
lw_status lw__state_apply(lw_graph *graph, const lw_state *state) LW_MUST_CHECK;
/* Dims from outermost to innermost in memory: the growing one first. */
void lw__state_order(const lw_state *state, uint32_t rank, uint8_t *out_order);

#endif

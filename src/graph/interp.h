/* interp.h (graph): the oracle. Runs a graph (symbols bound) on the host, one element at a time, in
 * the plainest way.
 *
 * Modes: IDEAL computes every float in f64. STRICT rounds to the declared type after every node
 * (integers wrap in both). With every float element IDEAL carries an error bound: how far a correct
 * implementation, one that carries f16/bf16 in f32, sums in f32 or wider in any order, and rounds
 * stored results to their declared types, may be away.
 *   inputs: 0 (they are exact).
 *   map: the largest |f(corner) - f(x)| over the corners of the operands' intervals [x-e, x+e]
 *     (functions with inner extrema: Lipschitz bounds), + ulp(f) * 2u(compute type) * |f(x)| +
 *     u(declared type) * |f(x)| + the type's smallest normal number where subnormals may be flushed
 *     or rounded. Compute type: f32 for f32 and narrower, else f64.
 *   sum: sum of errors + (n + 16) * u * sum of |terms| (+ errors) + u(declared) * |result|; dot and
 *     conv likewise.
 *   floor, sign ...: the steps inside the interval. Comparisons and casts to ints whose interval
 *     holds a step: ambiguous, bound infinity, and what depends on them too. min, max and select
 *     carry the bounds of what they may choose.
 *   add, sub, mul whose result the type can represent: no rounding; every implementation is exact.
 *   overflow: an intermediate that may overflow is an interval up to infinity, so that exp(-x) or a
 *     mask of the lowest number keeps what it says. An output that must overflow is infinite; where
 *     it may, the bound is infinity. NaN and infinity otherwise must match.
 *
 * Bounds are for the worst case, which grows by the sum of the weights from layer to layer: for a
 * whole network they say little. So every element also carries the deviation that is to be
 * expected, by the same rules with errors that are independent of each other: sums of squares
 * instead of sums. Implementations stay below some 20 times that (correlation makes up the
 * difference); LW_INTERP_SUSPECT times it is a mistake for all we know, though no proof of one. */
#ifndef LW_GRAPH_INTERP_H
#define LW_GRAPH_INTERP_H

#include "graph/graph.h"

typedef enum lw_interp_mode { LW_INTERP_IDEAL, LW_INTERP_STRICT } lw_interp_mode;

/* Plain host tensor, row-major in |data|, element type |dtype|. */
typedef struct lw_host_tensor {
  lw_dtype dtype;
  lw_shape shape;
  void *data;
} lw_host_tensor;

/* A result of the oracle: floats in |f| with |bound|, integers and bools in |i| (bound: 0, or
 * infinity = ambiguous). */
typedef struct lw_oracle_tensor {
  lw_dtype dtype;
  lw_shape shape;
  int64_t count;
  double *f;
  int64_t *i;
  double *bound;
  double
      *deviation; /* expected; infinity: cannot be told, e.g. behind a comparison of near equals */
} lw_oracle_tensor;

/* |inputs| in graph->inputs order. Results of all graph outputs, in |arena|. |max_bytes| bounds the
 * memory that intermediates take (0: no bound): LW_STATUS_OUT_OF_MEMORY beyond. Gather indices
 * outside their range: LW_STATUS_MODEL_INVALID. */
lw_status lw__interp_run(const lw_graph *graph, lw_interp_mode mode, const lw_host_tensor *inputs,
                         lw_arena *arena, size_t max_bytes, lw_diag *diag,
                         lw_oracle_tensor *out_results) LW_MUST_CHECK;

typedef struct lw_compare {
  int64_t count, bad, ambiguous; /* elements compared, outside their bound, not comparable */
  int64_t worst_index;           /* element with the largest error / bound */
  double worst_got, worst_want, worst_bound, worst_ratio;
  double max_abs_error;          /* over elements that are finite on both sides */
  int64_t suspect;               /* elements farther away than LW_INTERP_SUSPECT deviations */
  double worst_deviations;       /* largest error / deviation */
  int64_t worst_deviations_index;
} lw_compare;
#define LW_INTERP_SUSPECT 64.0
/* |got| against the oracle: float within bound, NaN with NaN, same infinities, integers equal
 * unless ambiguous. */
void lw__interp_compare(const lw_oracle_tensor *want, const void *got, lw_compare *out);

/* One node on concrete operands, strict in the declared types with f32 products and sums in f64
 * rounded once: for constant folding. Result in |arena|, row-major. */
lw_status lw__interp_fold_node(const lw_graph *graph, lw_node_id node,
                               const lw_host_tensor *operands, lw_arena *arena,
                               lw_host_tensor *out) LW_MUST_CHECK;

#endif

/* pgraph.h: graphs of one product with what networks put around it, for tests of products on every
 * device. */
#ifndef LW_TEST_PGRAPH_H
#define LW_TEST_PGRAPH_H

#include "graph/graph.h"

typedef enum lw_pgraph_end {
  LW_PEND_PLAIN,
  LW_PEND_BIAS,
  LW_PEND_GELU,     /* bias, GELU with erf */
  LW_PEND_GELU_TANH,
  LW_PEND_SILU,
  LW_PEND_RELU,
  LW_PEND_RESIDUAL, /* bias, and a matrix of the result's form is added */
  LW_PEND_DROPOUT,  /* bias, a mask of bools, a scale, a residual */
  LW_PEND_QUANTISE, /* int8 of round(x / scale), clamped */
  LW_PEND_TURNED,   /* bias; the result is stored transposed */
  LW_PEND_TWO,      /* bias and ReLU, and the sum before them: two results */
  LW_PEND_WIDE,     /* the result in f32 */
  LW_PEND_COUNT
} lw_pgraph_end;
extern const char *const lw_pgraph_end_name[LW_PEND_COUNT];

typedef struct lw_pgraph {
  int64_t m, n, k;
  lw_dtype dtype; /* of the operands and, but for QUANTISE and WIDE, the results */
  bool weights_nk; /* the right operand lies as [N,K] */
  bool fixed;      /* it is a constant */
  lw_pgraph_end end;
} lw_pgraph;

/* Inputs: x [m,k], the weights unless |fixed|, then what the end needs. The weights are scaled so
 * that results are about as large as inputs. */
lw_status lw_pgraph_make(const lw_pgraph *p, lw_graph *out) LW_MUST_CHECK;
/* "33x768x100 bf16 nk gelu" */
void lw_pgraph_describe(const lw_pgraph *p, char out[80]);

#endif

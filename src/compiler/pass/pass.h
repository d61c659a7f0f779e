/* pass.h: graph to graph. The passes stand in one table (pass.c) in the order in which they run; the graph is verified after
 * each. Every pass keeps the meaning of the graph (floats within the numerics contract) and may be run again without effect. */
#ifndef LW_COMPILER_PASS_H
#define LW_COMPILER_PASS_H

#include "graph/graph.h"

typedef void (*lw_pass_dump_fn)(void *user, const char *pass, const lw_graph *graph);

typedef struct lw_pass_options {
  double conv_nhwc_gain;  /* share of a convolution's time that channels-last storage saves; 0: the layout pass does nothing */
  lw_pass_dump_fn dump;   /* called after every pass; may be NULL */
  void *dump_user;
} lw_pass_options;

/* |gpu|: defaults for GPU kernels, else for the CPU. */
void lw__pass_options_default(lw_pass_options *options, bool gpu);

/* Runs all passes. Why something tempting was not done is noted in |diag| (severity note). */
lw_status lw__pass_run(lw_graph *graph, const lw_pass_options *options, lw_diag *diag) LW_MUST_CHECK;

#endif

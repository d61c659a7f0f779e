/* pass.h: the passes between import and fusion: each takes a valid graph and leaves a valid graph
 * that computes the same within the numerics contract. Equal mathematics end up as equal graphs,
 * whoever spelled them.
 *
 * The rewriting passes run in rounds until none of them changes anything; then operands are put in
 * order and storage is assigned. Running the whole once more changes nothing. Shapes may hold
 * symbols: what needs numbers is then left alone. */
#ifndef LW_COMPILER_PASS_H
#define LW_COMPILER_PASS_H

#include "graph/graph.h"

typedef struct lw_pass_options {
  int64_t fold_grow_bytes; /* a folded constant may be that much larger than what it is made of */
  int64_t fold_permute_bytes;  /* larger constants are not permuted at compile time */
  int64_t fold_most_elements; /* larger results, or products with more multiplications than 16 times
                                 that, are not folded */
  bool narrow_factors;   /* 16-bit constants that products multiply stay 16-bit, widened where they
                            are   read: matrix units take them so */
  bool batchnorm_narrow; /* fold scales into f16 and bf16 weights too. Rounds the weights again,
                            which may take results outside of the interpreter's bound */
  /* Bytes of traffic that one byte of a convolution's input or result saves when it is stored
   * channels last; 0: storage stays row-major everywhere. */
  double layout_gain;
  /* Called after every pass that ran, when not NULL; |round| counts from 0. An error ends the
   * run. */
  lw_status (*after)(void *context, const char *pass, uint32_t round, const lw_graph *graph);
  void *context;
} lw_pass_options;

typedef struct lw_pass_info {
  const char *name;
  bool once; /* after the rounds */
  lw_status (*run)(lw_graph *graph, const lw_pass_options *options, lw_diag *diag,
                   bool *out_changed);
} lw_pass_info;

extern const lw_pass_info lw__passes[];
extern const uint32_t lw__pass_count;

/* What the CPU target uses; the GPU sets a layout_gain. */
void lw__pass_options_init(lw_pass_options *options);
/* All passes, the verifier after each that changed something. Messages that explain why something
 * was left alone go to |diag| as notes. */
lw_status lw__pass_run(lw_graph *graph, const lw_pass_options *options,
                       lw_diag *diag) LW_MUST_CHECK;
/* One pass by its name, once, and compaction (for tests): LW_STATUS_NOT_FOUND when there is none of
 * that name. */
lw_status lw__pass_run_one(lw_graph *graph, const char *name, const lw_pass_options *options,
                           lw_diag *diag, bool *out_changed) LW_MUST_CHECK;

#endif

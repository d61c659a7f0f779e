/* rewriter.h: the walk that the rewriting passes share, and questions about values that many rules
 * ask. */
#ifndef LW_COMPILER_PASS_REWRITER_H
#define LW_COMPILER_PASS_REWRITER_H

#include "compiler/pass/pass.h"

typedef struct lw_rewriter {
  lw_graph *graph;
  const lw_pass_options *options;
  lw_diag *diag;
  LW_VEC(lw_value_id) remap; /* per value: what it was replaced by, or itself */
  LW_VEC(uint32_t) uses;     /* per value: at most so many operands and outputs read it */
  /* Nodes from there on were added by this walk; reads of their results are counted high. */
  uint32_t original_nodes;
  uint32_t changes;
  void *context;             /* the pass's own */
} lw_rewriter;

/* Looks at node |n|, whose operands are final already. May add nodes; *out is what replaces the
 * node's result (it is the result at first). Adding nodes moves the graph's arrays: copy nodes
 * before. */
typedef lw_status (*lw_rewrite_rule)(lw_rewriter *rw, lw_node_id n, lw_value_id *out);

/* Applies |rule| to all nodes in order, then compacts the graph if something changed. */
lw_status lw__rewrite(lw_graph *graph, const lw_pass_options *options, lw_diag *diag,
                      lw_rewrite_rule rule, void *context, bool *out_changed) LW_MUST_CHECK;

/* What reshapes, expands and permutations above |v| were made of: at most 32 of them, so that no
 * walk gets long. */
enum { LW_MOVES_DEPTH = 32 };
lw_value_id lw__below_moves(const lw_graph *graph, lw_value_id v);
/* Every element of |v| is the same constant: a CONST of one element, seen through reshapes, expands
 * and the like. */
bool lw__is_splat(const lw_graph *graph, lw_value_id v, lw_value_id *out_root);
/* The same as a number (integers and bools too; exact below 2^53). */
bool lw__splat_number(const lw_graph *graph, lw_value_id v, double *out_number);
/* A scalar constant of |like|'s type, broadcast to |like|'s shape. */
lw_status lw__splat_like(lw_graph *graph, lw_value_id like, double number,
                         lw_value_id *out) LW_MUST_CHECK;
bool lw__is_commutative(lw_fn fn);
static inline bool lw__is_map(const lw_graph *g, lw_value_id v, lw_fn fn) {
  const lw_node *node = lw__producer(g, v);
  return node->op == LW_OP_MAP && node->attr.fn == fn;
}
/* Provably x >= 0 or x is NaN, and x is not -0: squares, exponentials, sums of such ... */
bool lw__is_nonnegative(const lw_graph *graph, lw_value_id v);

/* What tells two nodes with equal operands apart: operator, attributes, type and shape, without
 * constants' data. */
lw_hash lw__node_key(const lw_graph *graph, lw_node_id n);
/* The same without the extents of the shape: equal for all sizes of a batch. */
lw_hash lw__node_kind_key(const lw_graph *graph, lw_node_id n);
/* Node names for messages; never NULL. */
const char *lw__node_label(const lw_graph *graph, lw_node_id n);

/* ---- the passes ------------------------------------------------------------------------------*/
typedef lw_status lw_pass_fn(lw_graph *graph, const lw_pass_options *options, lw_diag *diag,
                             bool *out_changed);
lw_pass_fn lw__pass_fold;
lw_pass_fn lw__pass_canon;
lw_pass_fn lw__pass_spell;
lw_pass_fn lw__pass_move;
lw_pass_fn lw__pass_cse;
lw_pass_fn lw__pass_batchnorm;
lw_pass_fn lw__pass_scale;
lw_pass_fn lw__pass_order;
lw_pass_fn lw__pass_layout;
lw_pass_fn lw__pass_pack;

#endif

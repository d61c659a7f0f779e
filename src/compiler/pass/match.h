/* match.h: rules as data: a pattern over map nodes and what replaces it, both as text.
 *
 *   term := fn(term, ..)      a map node with that function (names of ops.def, but for cast)
 *         | a .. h            any value; the same letter is the same value
 *         | number            the same constant in every element; zero with its sign; "inf", "-inf"
 *         | ~number           a constant within 4 units of roundoff of the type
 *         | @gelu(term), @gelu_tanh(term)   composites of graph.h; in replacements only
 * Operands of commutative functions match in either order. */
#ifndef LW_COMPILER_PASS_MATCH_H
#define LW_COMPILER_PASS_MATCH_H

#include "compiler/pass/rewriter.h"

typedef enum lw_guard_kind {
  LW_WHEN_ANY,
  LW_WHEN_FLOAT,       /* the result is a float */
  LW_WHEN_INT,
  LW_WHEN_NARROW,      /* f16 or bf16 */
  LW_WHEN_NONNEGATIVE, /* a float, and |a| is provably not negative */
} lw_guard_kind;

typedef struct lw_rule {
  const char *pattern, *replacement;
  lw_guard_kind when;
} lw_rule;

/* Rules, read; in an arena. A malformed one is LW_STATUS_INTERNAL. */
typedef struct lw_rule_set lw_rule_set;
lw_status lw__rules_read(const lw_rule *rules, uint32_t count, lw_arena *arena, lw_diag *diag,
                         lw_rule_set **out) LW_MUST_CHECK;
/* The first rule that matches node |n|; *out is its replacement then, else unchanged. */
lw_status lw__rules_apply(lw_rewriter *rw, const lw_rule_set *set, lw_node_id n, lw_value_id *out)
    LW_MUST_CHECK;
/* A rewriting pass with |rules| in rw->context. */
lw_status lw__rewrite_with_rules(lw_graph *graph, const lw_pass_options *options, lw_diag *diag,
                                 lw_rewrite_rule rule, const lw_rule *rules, uint32_t count,
                                 bool *out_changed) LW_MUST_CHECK;

#endif

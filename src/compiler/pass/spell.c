/* spell.c: composites that were spelled by hand become what graph.h's composites build. Here
 * constants may move within a product: the forms differ by a few roundings, well inside the bound
 * of what was written. */
#include <math.h>

#include "compiler/pass/match.h"

/* GELU. The argument first, then the factors around it. 1.41421356 = sqrt(2), 0.79788456 =
 * sqrt(2/pi). */
static const lw_rule spell_rules[] = {
    {"erf(div(a, ~1.4142135623730951))", "erf(mul(a, ~0.7071067811865476))", LW_WHEN_FLOAT},
    {"mul(a, mul(add(erf(mul(a, ~0.7071067811865476)), 1), 0.5))", "@gelu(a)", LW_WHEN_FLOAT},
    {"mul(mul(a, add(erf(mul(a, ~0.7071067811865476)), 1)), 0.5)", "@gelu(a)", LW_WHEN_FLOAT},
    {"mul(a, add(mul(erf(mul(a, ~0.7071067811865476)), 0.5), 0.5))", "@gelu(a)", LW_WHEN_FLOAT},
    {"mul(mul(a, 0.5), add(erf(mul(a, ~0.7071067811865476)), 1))", "@gelu(a)", LW_WHEN_NARROW},
    /* tanh((x + 0.044715 x^3) * c): the cube in any grouping, or x drawn out of the sum */
    {"tanh(mul(add(a, mul(mul(mul(a, ~0.044715), a), a)), ~0.7978845608028654))",
     "tanh(mul(add(a, mul(mul(mul(a, a), a), 0.044715)), 0.7978845608028654))", LW_WHEN_FLOAT},
    {"tanh(mul(add(a, mul(mul(a, ~0.044715), mul(a, a))), ~0.7978845608028654))",
     "tanh(mul(add(a, mul(mul(mul(a, a), a), 0.044715)), 0.7978845608028654))", LW_WHEN_FLOAT},
    {"tanh(mul(add(a, mul(mul(mul(a, a), ~0.044715), a)), ~0.7978845608028654))",
     "tanh(mul(add(a, mul(mul(mul(a, a), a), 0.044715)), 0.7978845608028654))", LW_WHEN_FLOAT},
    {"tanh(mul(mul(a, ~0.7978845608028654), add(mul(mul(a, a), ~0.044715), 1)))",
     "tanh(mul(add(a, mul(mul(mul(a, a), a), 0.044715)), 0.7978845608028654))", LW_WHEN_FLOAT},
    {"tanh(mul(mul(a, ~0.7978845608028654), add(mul(mul(a, ~0.044715), a), 1)))",
     "tanh(mul(add(a, mul(mul(mul(a, a), a), 0.044715)), 0.7978845608028654))", LW_WHEN_FLOAT},
    {"tanh(mul(mul(a, add(mul(mul(a, a), ~0.044715), 1)), ~0.7978845608028654))",
     "tanh(mul(add(a, mul(mul(mul(a, a), a), 0.044715)), 0.7978845608028654))", LW_WHEN_FLOAT},
    {"mul(a, mul(add(tanh(mul(add(a, mul(mul(mul(a, a), a), ~0.044715)), ~0.7978845608028654)), "
     "1), 0.5))",
     "@gelu_tanh(a)", LW_WHEN_FLOAT},
    {"mul(mul(a, add(tanh(mul(add(a, mul(mul(mul(a, a), a), ~0.044715)), ~0.7978845608028654)), "
     "1)), 0.5)",
     "@gelu_tanh(a)", LW_WHEN_FLOAT},
    {"mul(a, add(mul(tanh(mul(add(a, mul(mul(mul(a, a), a), ~0.044715)), ~0.7978845608028654)), "
     "0.5), 0.5))",
     "@gelu_tanh(a)", LW_WHEN_FLOAT},
    {"mul(mul(a, 0.5), add(tanh(mul(add(a, mul(mul(mul(a, a), a), ~0.044715)), "
     "~0.7978845608028654)), 1))",
     "@gelu_tanh(a)", LW_WHEN_NARROW},
};

/* ---- norms ----------------------------------------------------------------------------------*/

/* |v| = moves of |from|: the same moves of |to|, which has |from|'s type and shape. */
static lw_status replay_moves(lw_graph *g, lw_value_id v, lw_value_id from, lw_value_id to,
                              bool *out_ok, lw_value_id *out) {
  lw_value_id chain[LW_MOVES_DEPTH];
  uint32_t count = 0;
  for (; v != from && count < LW_MOVES_DEPTH; v = lw__operand(g, lw__producer(g, v), 0))
    chain[count++] = v;
  *out_ok = v == from;
  *out = to;
  while (*out_ok && count > 0) {
    lw_value value = *lw__value(g, chain[--count]);
    lw_node node = *lw__node(g, value.producer);
    switch (node.op) {
      case LW_OP_RESHAPE: LW_TRY(lw__graph_reshape(g, *out, &value.shape, out)); break;
      case LW_OP_EXPAND: LW_TRY(lw__graph_expand(g, *out, &value.shape, out)); break;
      default: LW_TRY(lw__graph_permute(g, *out, node.attr.perm, out)); break;
    }
  }
  return LW_OK;
}

/* Number of elements that a sum adds up, or -1. */
static int64_t summed_count(const lw_graph *g, lw_value_id v) {
  const lw_node *node = lw__producer(g, v);
  if (node->op != LW_OP_REDUCE || node->attr.reduce.fn != LW_RED_SUM) return -1;
  const lw_shape *shape = &lw__value(g, lw__operand(g, node, 0))->shape;
  lw_shape gone = {0};
  for (uint32_t d = 0; d < shape->rank; d++) {
    if ((node->attr.reduce.axes >> d & 1) != 0) gone.dim[gone.rank++] = shape->dim[d];
  }
  return lw__shape_numel(&gone);
}

/* A mean, maybe with an epsilon added: its own rounding is worth more than the one that rsqrt
 * adds. */
static bool is_mean_of_sums(const lw_graph *g, lw_value_id v) {
  v = lw__below_moves(g, v);
  const lw_node *node = lw__producer(g, v);
  double number;
  if (lw__is_map(g, v, LW_FN_ADD)) {
    bool second = lw__splat_number(g, lw__operand(g, node, 1), &number);
    if (!second && !lw__splat_number(g, lw__operand(g, node, 0), &number)) return false;
    v = lw__below_moves(g, lw__operand(g, node, second ? 0 : 1));
    node = lw__producer(g, v);
  }
  if (!lw__is_map(g, v, LW_FN_DIV) && !lw__is_map(g, v, LW_FN_MUL)) return false;
  for (uint32_t k = 0; k < 2; k++) {
    if (!lw__splat_number(g, lw__operand(g, node, k), &number)) continue;
    return summed_count(g, lw__below_moves(g, lw__operand(g, node, 1 - k))) > 1;
  }
  return false;
}

/* x / sqrt(mean + epsilon) -> x * rsqrt(mean + epsilon), as the norms of graph.h have it. */
static lw_status spell_norm(lw_rewriter *rw, const lw_node *node, lw_value_id *out) {
  lw_graph *g = rw->graph;
  lw_value_id x = lw__operand(g, node, 0), divisor = lw__operand(g, node, 1);
  lw_value_id root = lw__below_moves(g, divisor), in[2] = {x, LW_NONE};
  lw_dtype dtype = lw__value(g, x)->dtype;
  if ((dtype != LW_DTYPE_F32 && dtype != LW_DTYPE_F64) || !lw__is_map(g, root, LW_FN_SQRT))
    return LW_OK;
  lw_value_id mean = lw__operand(g, lw__producer(g, root), 0);
  if (!is_mean_of_sums(g, mean)) return LW_OK;
  bool ok = false;
  LW_TRY(lw__graph_map(g, LW_FN_RSQRT, &mean, &in[1]));
  LW_TRY(replay_moves(g, divisor, root, in[1], &ok, &in[1]));
  return ok ? lw__graph_map(g, LW_FN_MUL, in, out) : LW_OK;
}

/* sum * (1/n) -> sum / n, for sums of n elements. */
static lw_status spell_mean(lw_rewriter *rw, const lw_node *node, lw_value_id *out) {
  lw_graph *g = rw->graph;
  for (uint32_t k = 0; k < 2; k++) {
    double factor;
    lw_value_id sum = lw__operand(g, node, 1 - k), in[2] = {sum, LW_NONE};
    if (!lw__splat_number(g, lw__operand(g, node, k), &factor)) continue;
    int64_t count = summed_count(g, lw__below_moves(g, sum));
    double u = lw__dtype_unit_roundoff(lw__value(g, sum)->dtype), n = (double)count;
    int exponent;
    if (count < 2 || fabs(frexp(n, &exponent)) == 0.5)
      return LW_OK; /* powers of two stay products */
    if (fabs(factor * n - 1) > 2 * u || lw__round_to(lw__value(g, sum)->dtype, n) != n)
      return LW_OK;
    LW_TRY(lw__splat_like(g, sum, n, &in[1]));
    return lw__graph_map(g, LW_FN_DIV, in, out);
  }
  return LW_OK;
}

static lw_status spell_node(lw_rewriter *rw, lw_node_id n, lw_value_id *out) {
  lw_node node = *lw__node(rw->graph, n);
  if (node.op != LW_OP_MAP) return LW_OK;
  LW_TRY(lw__rules_apply(rw, rw->context, n, out));
  if (*out != node.result) return LW_OK;
  bool is_float = lw__dtype_is_float(lw__value(rw->graph, node.result)->dtype);
  if (node.attr.fn == LW_FN_DIV && is_float) return spell_norm(rw, &node, out);
  if (node.attr.fn == LW_FN_MUL && is_float) return spell_mean(rw, &node, out);
  return LW_OK;
}

lw_status lw__pass_spell(lw_graph *graph, const lw_pass_options *options, lw_diag *diag,
                         bool *out_changed) {
  return lw__rewrite_with_rules(graph, options, diag, spell_node, spell_rules,
                                LW_ARRAY_COUNT(spell_rules), out_changed);
}

/* scale.c: a number that multiplies a stored factor of a product multiplies the product instead: q
 * (c k)' = c (q k)'. What comes from memory alone (a cache of keys, joined with new ones) would
 * need a kernel of its own to be scaled; sums are scaled on their way out. For 16-bit floats, whose
 * products are summed in f32 and stay f32 until they are scaled, so that nothing overflows in
 * between. */
#include <math.h>
#include <string.h>

#include "compiler/pass/rewriter.h"

enum { SCALE_DEPTH = 16 };

/* Through what a factor may be read: reshapes, permutations, expansions, a cast that widens. */
static bool is_passed(const lw_graph *g, const lw_node *node) {
  if (node->op == LW_OP_RESHAPE || node->op == LW_OP_PERMUTE || node->op == LW_OP_EXPAND)
    return true;
  return node->op == LW_OP_MAP && node->attr.fn == LW_FN_CAST &&
         lw__value(g, node->result)->dtype == LW_DTYPE_F32 &&
         lw__dtype_is_half(lw__value(g, lw__operand(g, node, 0))->dtype);
}

/* Memory alone makes |v|: no arithmetic that could take the scale along. */
static bool comes_from_memory(const lw_graph *g, lw_value_id v) {
  lw_op_kind kind = lw__op_info[lw__producer(g, lw__below_moves(g, v))->op].kind;
  return kind == LW_KIND_MOVE || kind == LW_KIND_SOURCE;
}

/* The scaled value below |v|, read by this product alone: what is scaled, and by what. */
static bool find_scale(const lw_rewriter *rw, lw_value_id v, lw_value_id *out_at,
                       lw_value_id *out_from, double *out_scale) {
  const lw_graph *g = rw->graph;
  for (int depth = 0; depth < SCALE_DEPTH; depth++) {
    const lw_node *node = lw__producer(g, v);
    if (rw->uses.data[v] > 1) return false;
    if (lw__is_map(g, v, LW_FN_MUL)) {
      for (uint32_t k = 0; k < 2; k++) {
        lw_value_id other = lw__operand(g, node, 1 - k);
        if (!lw__splat_number(g, lw__operand(g, node, k), out_scale)) continue;
        *out_at = v;
        *out_from = other;
        double size = fabs(*out_scale);
        return lw__dtype_is_half(lw__value(g, v)->dtype) && size >= 0x1p-12 && size <= 0x1p12 &&
               comes_from_memory(g, other);
      }
      return false;
    }
    if (!is_passed(g, node)) return false;
    v = lw__operand(g, node, 0);
  }
  return false;
}

/* |v| with |from| in the place of |at| below it. */
static lw_status without_scale(lw_graph *g, lw_value_id v, lw_value_id at, lw_value_id from,
                               lw_value_id *out) {
  if (v == at) return *out = from, LW_OK;
  const lw_node node = *lw__producer(g, v);
  const lw_value value = *lw__value(g, v);
  lw_value_id below;
  LW_TRY(without_scale(g, lw__operand(g, &node, 0), at, from, &below));
  switch (node.op) {
    case LW_OP_RESHAPE: return lw__graph_reshape(g, below, &value.shape, out);
    case LW_OP_PERMUTE: return lw__graph_permute(g, below, node.attr.perm, out);
    case LW_OP_EXPAND: return lw__graph_expand(g, below, &value.shape, out);
    default: return lw__graph_cast(g, below, value.dtype, out);
  }
}

static lw_status scale_node(lw_rewriter *rw, lw_node_id n, lw_value_id *out) {
  lw_graph *g = rw->graph;
  const lw_node node = *lw__node(g, n);
  if (node.op != LW_OP_DOT || n >= rw->original_nodes) return LW_OK;
  lw_dtype dtype = lw__value(g, node.result)->dtype;
  lw_value_id factor[2];
  double scale = 1, one;
  bool found = false;
  for (uint32_t k = 0; k < 2; k++) {
    lw_value_id at, from;
    factor[k] = lw__operand(g, &node, k);
    if (!find_scale(rw, factor[k], &at, &from, &one)) continue;
    LW_TRY(without_scale(g, factor[k], at, from, &factor[k]));
    scale *= one;
    found = true;
  }
  if (!found) return LW_OK;
  lw_value_id sum[2];
  for (uint32_t k = 0; k < 2; k++) LW_TRY(lw__graph_cast(g, factor[k], LW_DTYPE_F32, &factor[k]));
  LW_TRY(lw__graph_dot(g, factor[0], factor[1], &sum[0]));
  LW_TRY(lw__splat_like(g, sum[0], scale, &sum[1]));
  LW_TRY(lw__graph_map(g, LW_FN_MUL, sum, out));
  return lw__graph_cast(g, *out, dtype, out);
}

lw_status lw__pass_scale(lw_graph *graph, const lw_pass_options *options, lw_diag *diag,
                         bool *out_changed) {
  return lw__rewrite(graph, options, diag, scale_node, NULL, out_changed);
}

/* canon.c: algebra that is exact, or better than what it replaces: one form for what can be said in
 * several. Floats are never reassociated here, and nothing assumes that a value is finite or not
 * NaN. */
#include <math.h>

#include "compiler/pass/match.h"

static const lw_rule canon_rules[] = {
    /* neutral elements: x + 0 is not one for floats (-0 + 0 = 0), x - 0 and x + -0 are */
    {"mul(a, 1)", "a", LW_WHEN_ANY},
    {"div(a, 1)", "a", LW_WHEN_ANY},
    {"sub(a, 0)", "a", LW_WHEN_ANY},
    {"add(a, -0)", "a", LW_WHEN_FLOAT},
    {"add(a, 0)", "a", LW_WHEN_INT},
    {"min(a, inf)", "a", LW_WHEN_FLOAT},
    {"max(a, -inf)", "a", LW_WHEN_FLOAT},
    {"min(a, a)", "a", LW_WHEN_ANY},
    {"max(a, a)", "a", LW_WHEN_ANY},
    {"max(max(a, b), b)", "max(a, b)", LW_WHEN_ANY},
    {"min(min(a, b), b)", "min(a, b)", LW_WHEN_ANY},
    /* signs */
    {"neg(neg(a))", "a", LW_WHEN_ANY},
    {"mul(a, -1)", "neg(a)", LW_WHEN_ANY},
    {"div(a, -1)", "neg(a)", LW_WHEN_FLOAT},
    {"sub(a, neg(b))", "add(a, b)", LW_WHEN_ANY},
    {"add(a, neg(b))", "sub(a, b)", LW_WHEN_ANY},
    {"mul(neg(a), neg(b))", "mul(a, b)", LW_WHEN_ANY},
    {"div(neg(a), neg(b))", "div(a, b)", LW_WHEN_FLOAT},
    {"abs(neg(a))", "abs(a)", LW_WHEN_ANY},
    {"abs(abs(a))", "abs(a)", LW_WHEN_ANY},
    /* powers; roots differ from pow at -inf and -0, hence the guard */
    {"pow(a, 1)", "a", LW_WHEN_ANY},
    {"pow(a, 2)", "mul(a, a)", LW_WHEN_ANY},
    {"pow(a, 3)", "mul(mul(a, a), a)", LW_WHEN_ANY},
    {"pow(a, -1)", "recip(a)", LW_WHEN_FLOAT},
    {"pow(a, 0.5)", "sqrt(a)", LW_WHEN_NONNEGATIVE},
    {"pow(a, -0.5)", "rsqrt(a)", LW_WHEN_NONNEGATIVE},
    {"div(1, a)", "recip(a)", LW_WHEN_FLOAT},
    {"recip(sqrt(a))", "rsqrt(a)", LW_WHEN_FLOAT},
    {"recip(add(exp(neg(a)), 1))", "sigmoid(a)", LW_WHEN_FLOAT},
    /* truth */
    {"not(not(a))", "a", LW_WHEN_ANY},
    {"not(eq(a, b))", "ne(a, b)", LW_WHEN_ANY},
    {"not(ne(a, b))", "eq(a, b)", LW_WHEN_ANY},
    {"bitnot(bitnot(a))", "a", LW_WHEN_ANY},
    {"gt(a, b)", "lt(b, a)", LW_WHEN_ANY},
    {"ge(a, b)", "le(b, a)", LW_WHEN_ANY},
    {"and(a, 1)", "a", LW_WHEN_ANY},
    {"and(a, 0)", "0", LW_WHEN_ANY},
    {"and(a, a)", "a", LW_WHEN_ANY},
    {"or(a, 0)", "a", LW_WHEN_ANY},
    {"or(a, 1)", "1", LW_WHEN_ANY},
    {"or(a, a)", "a", LW_WHEN_ANY},
    {"xor(a, 0)", "a", LW_WHEN_ANY},
    {"xor(a, 1)", "not(a)", LW_WHEN_ANY},
    {"select(1, a, b)", "a", LW_WHEN_ANY},
    {"select(0, a, b)", "b", LW_WHEN_ANY},
    {"select(c, a, a)", "a", LW_WHEN_ANY},
    {"select(not(c), a, b)", "select(c, b, a)", LW_WHEN_ANY},
};

/* ---- casts ----------------------------------------------------------------------------------*/

typedef struct int_range {
  int low_bits, high_bits; /* values from -2^low_bits (0: from 0) to 2^high_bits - 1 */
} int_range;

static int_range range_of(lw_dtype t) {
  int bits = t == LW_DTYPE_BOOL ? 1 : (int)lw_dtype_size_bytes(t) * 8;
  return lw__dtype_is_signed(t) ? (int_range){bits - 1, bits - 1} : (int_range){0, bits};
}

/* Bits of a float's significand; its range is wide enough for every integer of that many bits. */
static int significand_bits(lw_dtype t) {
  switch (t) {
    case LW_DTYPE_F16: return 11;
    case LW_DTYPE_BF16: return 8;
    case LW_DTYPE_F32: return 24;
    case LW_DTYPE_F64: return 53;
    default: return 0; /* 8-bit floats: too narrow to matter here */
  }
}

/* Every value of |from| is one of |to|. */
static bool holds_all(lw_dtype from, lw_dtype to) {
  if (from == to) return true;
  if (lw__dtype_is_float(from)) {
    return lw__dtype_is_float(to) && lw__dtype_unit_roundoff(to) <= lw__dtype_unit_roundoff(from) &&
           lw__dtype_largest(to) >= lw__dtype_largest(from);
  }
  int_range r = range_of(from);
  if (lw__dtype_is_float(to)) return r.high_bits <= significand_bits(to);
  if (to == LW_DTYPE_BOOL) return false;
  int_range s = range_of(to);
  return r.low_bits <= s.low_bits && r.high_bits <= s.high_bits;
}

/* a -> b -> c equals a -> c: b holds every a, and casting from b to c means what casting from a
 * does. An integer that went through a float saturates where it would have wrapped, so then c must
 * hold it. */
static bool middle_cast_is_idle(lw_dtype a, lw_dtype b, lw_dtype c) {
  if (!holds_all(a, b)) return false;
  bool kinds_differ = lw__dtype_is_float(a) != lw__dtype_is_float(b);
  return !kinds_differ || lw__dtype_is_float(c) || c == LW_DTYPE_BOOL || holds_all(a, c);
}

static lw_status canon_cast(lw_rewriter *rw, const lw_node *node, lw_value_id *out) {
  lw_graph *g = rw->graph;
  lw_value_id middle = lw__operand(g, node, 0);
  lw_dtype to = lw__value(g, node->result)->dtype;
  if (!lw__is_map(g, middle, LW_FN_CAST)) return LW_OK;
  lw_value_id source = lw__operand(g, lw__producer(g, middle), 0);
  if (!middle_cast_is_idle(lw__value(g, source)->dtype, lw__value(g, middle)->dtype, to))
    return LW_OK;
  return lw__graph_cast(g, source, to, out);
}

/* ---- rules that compute with constants ------------------------------------------------------*/

/* x / 2^k -> x * 2^-k, both exact; 2^-k must be a normal number of the type. */
static lw_status canon_divide(lw_rewriter *rw, const lw_node *node, lw_value_id *out) {
  lw_graph *g = rw->graph;
  lw_value_id a = lw__operand(g, node, 0);
  lw_dtype dtype = lw__value(g, a)->dtype;
  double divisor;
  int exponent;
  if (!lw__dtype_is_float(dtype) || !lw__splat_number(g, lw__operand(g, node, 1), &divisor))
    return LW_OK;
  if (fabs(frexp(divisor, &exponent)) != 0.5) return LW_OK;
  bool normal = fabs(1 / divisor) >= 1 / lw__dtype_largest(dtype) * 4 &&
                fabs(1 / divisor) <= lw__dtype_largest(dtype);
  if (!normal || lw__round_to(dtype, 1 / divisor) != 1 / divisor) return LW_OK;
  lw_value_id in[2] = {a, LW_NONE};
  LW_TRY(lw__splat_like(g, a, 1 / divisor, &in[1]));
  return lw__graph_map(g, LW_FN_MUL, in, out);
}

/* fn(x, number) with the number found on either side. */
static bool split_number(const lw_graph *g, lw_value_id v, lw_fn fn, lw_value_id *out_x,
                         double *out_number) {
  if (!lw__is_map(g, v, fn)) return false;
  const lw_node *node = lw__producer(g, v);
  for (uint32_t k = 0; k < 2; k++) {
    *out_x = lw__operand(g, node, 1 - k);
    if (lw__splat_number(g, lw__operand(g, node, k), out_number)) return true;
  }
  return false;
}

static lw_status map_number(lw_graph *g, lw_fn fn, lw_value_id x, double number, lw_value_id *out) {
  lw_value_id in[2] = {x, LW_NONE};
  LW_TRY(lw__splat_like(g, x, number, &in[1]));
  return lw__graph_map(g, fn, in, out);
}

static double limit(lw_fn fn, double a, double b) { return lw__fn_eval_f64(fn, a, b, 0); }

/* Limits: max(max(x, c), d) -> max(x, max(c, d)); max(min(x, hi), lo) -> min(max(x, lo), hi) when
 * lo <= hi. */
static lw_status canon_limit(lw_rewriter *rw, const lw_node *node, lw_value_id *out) {
  lw_graph *g = rw->graph;
  lw_fn fn = node->attr.fn;
  lw_value_id inner, x;
  double outer_number, inner_number;
  lw_dtype dtype = lw__value(g, node->result)->dtype;
  if (dtype == LW_DTYPE_I64 || dtype == LW_DTYPE_U64) return LW_OK; /* numbers here are doubles */
  if (!split_number(g, node->result, fn, &inner, &outer_number)) return LW_OK;
  if (split_number(g, inner, fn, &x, &inner_number)) {
    return map_number(g, fn, x, limit(fn, outer_number, inner_number), out);
  }
  bool swap = fn == LW_FN_MAX && split_number(g, inner, LW_FN_MIN, &x, &inner_number);
  if (!swap || !(outer_number <= inner_number)) return LW_OK;
  LW_TRY(map_number(g, LW_FN_MAX, x, outer_number, out));
  return map_number(g, LW_FN_MIN, *out, inner_number, out);
}

/* sum + 0: whether a sum that is zero is -0 depends on its order, so nobody may rely on it. */
static lw_status canon_add_zero(lw_rewriter *rw, const lw_node *node, lw_value_id *out) {
  lw_graph *g = rw->graph;
  for (uint32_t k = 0; k < 2; k++) {
    double number;
    lw_value_id sum = lw__operand(g, node, 1 - k);
    if (!lw__splat_number(g, lw__operand(g, node, k), &number) || number != 0) continue;
    const lw_node *from = lw__producer(g, lw__below_moves(g, sum));
    bool is_sum = from->op == LW_OP_DOT || from->op == LW_OP_CONV ||
                  (from->op == LW_OP_REDUCE && from->attr.reduce.fn == LW_RED_SUM);
    if (is_sum) *out = sum;
    return LW_OK;
  }
  return LW_OK;
}

/* A function of broadcast scalars is a broadcast scalar. */
static lw_status canon_splat_map(lw_rewriter *rw, const lw_node *node, lw_value_id *out) {
  lw_graph *g = rw->graph;
  lw_value value = *lw__value(g, node->result);
  lw_value_id root[3];
  lw_shape scalar = {0};
  if (value.shape.rank == 0) return LW_OK;
  for (uint32_t k = 0; k < node->operand_count; k++) {
    if (!lw__is_splat(g, lw__operand(g, node, k), &root[k])) return LW_OK;
  }
  for (uint32_t k = 0; k < node->operand_count; k++)
    LW_TRY(lw__graph_reshape(g, root[k], &scalar, &root[k]));
  if (node->attr.fn == LW_FN_CAST) {
    LW_TRY(lw__graph_cast(g, root[0], value.dtype, out));
  } else {
    LW_TRY(lw__graph_map(g, node->attr.fn, root, out));
  }
  return lw__graph_broadcast(g, *out, &value.shape, out);
}

/* Reductions over dims of one element only drop the dims. */
static lw_status canon_reduce(lw_rewriter *rw, const lw_node *node, lw_value_id *out) {
  lw_graph *g = rw->graph;
  lw_value_id x = lw__operand(g, node, 0);
  lw_shape from = lw__value(g, x)->shape, to = lw__value(g, node->result)->shape;
  for (uint32_t d = 0; d < from.rank; d++) {
    if ((node->attr.reduce.axes >> d & 1) != 0 && from.dim[d] != 1) return LW_OK;
  }
  return lw__graph_reshape(g, x, &to, out);
}

static lw_status canon_node(lw_rewriter *rw, lw_node_id n, lw_value_id *out) {
  lw_node node = *lw__node(rw->graph, n);
  if (node.op == LW_OP_REDUCE) return canon_reduce(rw, &node, out);
  if (node.op != LW_OP_MAP) return LW_OK;
  LW_TRY(canon_splat_map(rw, &node, out));
  if (*out != node.result) return LW_OK;
  LW_TRY(lw__rules_apply(rw, rw->context, n, out));
  if (*out != node.result) return LW_OK;
  switch (node.attr.fn) {
    case LW_FN_CAST: return canon_cast(rw, &node, out);
    case LW_FN_DIV: return canon_divide(rw, &node, out);
    case LW_FN_ADD: return canon_add_zero(rw, &node, out);
    case LW_FN_MAX:
    case LW_FN_MIN: return canon_limit(rw, &node, out);
    default: return LW_OK;
  }
}

lw_status lw__pass_canon(lw_graph *graph, const lw_pass_options *options, lw_diag *diag,
                         bool *out_changed) {
  return lw__rewrite_with_rules(graph, options, diag, canon_node, canon_rules,
                                LW_ARRAY_COUNT(canon_rules), out_changed);
}

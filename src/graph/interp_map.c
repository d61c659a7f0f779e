/* interp_map.c: the interpreter's map nodes (one scalar function per element) and iota. */
#include "graph/interp_internal.h"

lw_status lw__interp_iota(interp_run *run, const lw_node *node, const interp_tensor *const *in,
                          interp_tensor *out) {
  (void)run;
  (void)in;
  uint32_t axis = node->attr.axis;
  int64_t inner = lw__interp_span(out, axis + 1, out->rank);
  for (int64_t k = 0; k < out->count; k++) {
    int64_t index = k / inner % out->dim[axis];
    if (out->f != NULL) {
      lw__interp_put(out, k, lw__iv_exact((double)index));
    } else {
      out->i[k] = lw__cast((lw_scalar){.i = index}, LW_DTYPE_I64, out->dtype).i;
    }
  }
  return LW_OK;
}

/* What an f64 operation rounds away: the ideal value is an f64 itself and does not show it. */
static bool map_f64_rounds(lw_fn fn, double a, double b) {
  if (fn == LW_FN_MUL) return fma(a, b, -(a * b)) != 0;
  double y = fn == LW_FN_SUB ? -b : b, sum = a + y, part = sum - a;
  return (a - (sum - part)) + (y - part) != 0;
}

/* ADD, SUB and MUL are never respelled; what they compute exactly every implementation computes
 * exactly. Division by a power of two is as good, and becomes a multiplication. What f64 rounds,
 * a contracted product and sum need not round. */
static bool map_is_exact_op(lw_fn fn, interp_iv a, interp_iv b, lw_dtype dtype) {
  if (fn == LW_FN_ADD || fn == LW_FN_SUB || fn == LW_FN_MUL)
    return dtype != LW_DTYPE_F64 || !map_f64_rounds(fn, a.f, b.f);
  int exponent;
  return fn == LW_FN_DIV && lw__iv_is_exact(b) && fabs(frexp(b.f, &exponent)) == 0.5;
}

static void map_float(const interp_run *run, const lw_node *node, const interp_tensor *const *in,
                      interp_tensor *out) {
  lw_fn fn = node->attr.fn;
  const lw_fn_info *info = &lw__fn_info[fn];
  bool rounds = info->ulp > 0;
  interp_rounding r = lw__interp_rounding(out->dtype, info->ulp);
  const interp_tensor *a = in[0], *b = info->arity > 1 ? in[1] : in[0];
  bool same = info->arity > 1 && a == b;
  for (int64_t k = 0; k < out->count; k++) {
    if (!run->ideal) {
      out->f[k] = lw__round_to(out->dtype, lw__fn_eval_f64(fn, a->f[k], b->f[k], 0));
      continue;
    }
    interp_iv x = lw__interp_get(a, k), y = lw__interp_get(b, k);
    interp_iv v = lw__iv_map(fn, x, y, same);
    bool exact = map_is_exact_op(fn, x, y, out->dtype);
    lw__interp_put(out, k, rounds ? lw__iv_round(v, &r, exact) : v);
  }
}

static void map_int(const lw_node *node, const interp_tensor *const *in, interp_tensor *out) {
  lw_fn fn = node->attr.fn;
  const interp_tensor *a = in[0], *b = lw__fn_info[fn].arity > 1 ? in[1] : in[0];
  for (int64_t k = 0; k < out->count; k++) {
    out->i[k] = lw__fn_eval_i64(fn, a->dtype, a->i[k], b->i[k], 0);
    lw__interp_mark(out, k, lw__interp_unknown(a, k) | lw__interp_unknown(b, k));
  }
}

/* Does the outcome differ from |truth| when operands that are unknown in the way of |bit| are
 * flipped? */
static bool logic_differs(lw_fn fn, int64_t truth, int64_t a, int64_t b, bool flip_a, bool flip_b) {
  bool differs = flip_a && lw__fn_eval_i64(fn, LW_DTYPE_BOOL, !a, b, 0) != truth;
  differs = differs || (flip_b && lw__fn_eval_i64(fn, LW_DTYPE_BOOL, a, !b, 0) != truth);
  return differs || (flip_a && flip_b && lw__fn_eval_i64(fn, LW_DTYPE_BOOL, !a, !b, 0) != truth);
}

/* Two truth values that may each be both: unknown only when the outcomes differ. */
static void map_logic(const lw_node *node, const interp_tensor *const *in, interp_tensor *out) {
  lw_fn fn = node->attr.fn;
  const interp_tensor *a = in[0], *b = lw__fn_info[fn].arity > 1 ? in[1] : in[0];
  for (int64_t k = 0; k < out->count; k++) {
    out->i[k] = lw__fn_eval_i64(fn, LW_DTYPE_BOOL, a->i[k], b->i[k], 0);
    for (int bit = INTERP_AMBIGUOUS; bit <= INTERP_DOUBTFUL; bit *= 2) {
      bool flip_a = (lw__interp_unknown(a, k) & bit) != 0,
           flip_b = (lw__interp_unknown(b, k) & bit) != 0;
      if (logic_differs(fn, out->i[k], a->i[k], b->i[k], flip_a, flip_b))
        lw__interp_mark(out, k, (uint8_t)bit);
    }
  }
}

static void map_test(const lw_node *node, const interp_tensor *const *in, interp_tensor *out) {
  lw_fn fn = node->attr.fn;
  const interp_tensor *a = in[0], *b = lw__fn_info[fn].arity > 1 ? in[1] : in[0];
  for (int64_t k = 0; k < out->count; k++) {
    uint8_t unknown = 0;
    out->i[k] = lw__iv_test(fn, lw__interp_get(a, k), lw__interp_get(b, k), a == b, &unknown);
    lw__interp_mark(out, k, unknown);
  }
}

static void select_element(const interp_tensor *const *in, interp_tensor *out, int64_t k) {
  const interp_tensor *chosen = in[in[0]->i[k] != 0 ? 1 : 2];
  const interp_tensor *other = in[in[0]->i[k] != 0 ? 2 : 1];
  uint8_t unknown = lw__interp_unknown(in[0], k);
  lw__interp_copy(out, k, chosen, k);
  if (unknown == 0) return;
  if (out->f == NULL) {
    bool equal = chosen->i[k] == other->i[k];
    lw__interp_mark(out, k, equal ? lw__interp_unknown(other, k) & unknown : unknown);
    return;
  }
  interp_iv x = lw__interp_get(chosen, k), y = lw__interp_get(other, k), v = x;
  if ((unknown & INTERP_AMBIGUOUS) != 0) {
    double corner[4] = {x.lo, x.hi, y.lo, y.hi};
    v = lw__iv_hull(x.f, corner, 4);
  }
  v.dev = x.dev;
  if ((unknown & INTERP_DOUBTFUL) != 0)
    v.dev = lw__deviation_add(lw__deviation_add(x.dev, y.dev), fabs(x.f - y.f));
  lw__interp_put(out, k, v);
}

/* ---- casts -----------------------------------------------------------------------------------*/

static bool cast_is_f8(lw_dtype t) { return t == LW_DTYPE_F8E4M3 || t == LW_DTYPE_F8E5M2; }

static double cast_float(double x, lw_dtype from, lw_dtype to) {
  return lw__cast((lw_scalar){.f = x}, from, to).f;
}

/* Every value of |from| is one of |to|. */
static bool cast_only_widens(lw_dtype from, lw_dtype to) {
  return lw__dtype_unit_roundoff(to) <= lw__dtype_unit_roundoff(from) &&
         lw__dtype_largest(to) >= lw__dtype_largest(from);
}

static interp_iv cast_range_to_f8(interp_iv v, lw_dtype from, lw_dtype to) {
  double f = cast_float(v.f, from, to);
  double corner[2] = {cast_float(v.lo, from, to), cast_float(v.hi, from, to)};
  return lw__iv_is_top(v) ? lw__iv_top(f) : lw__iv_hull(f, corner, 2);
}

static interp_iv cast_to_f8(interp_iv v, lw_dtype from, lw_dtype to) {
  interp_iv w = cast_range_to_f8(v, from, to), e = cast_range_to_f8(lw__iv_expected(v), from, to);
  w.dev = lw__iv_is_top(e) ? NAN : isnan(e.lo) ? 0 : fmax(e.hi - e.f, e.f - e.lo);
  return w;
}

/* A kernel may carry the unrounded value on, so the ideal value is not rounded; f8 is rounded for
 * real. */
static interp_iv cast_interval(interp_iv v, lw_dtype from, lw_dtype to, const interp_rounding *r) {
  if (cast_is_f8(to)) return cast_to_f8(v, from, to);
  return cast_only_widens(from, to) ? v : lw__iv_round(v, r, true);
}

static void cast_float_to_float(const interp_run *run, const interp_tensor *a, interp_tensor *out) {
  interp_rounding r = lw__interp_rounding(out->dtype, 0);
  for (int64_t k = 0; k < out->count; k++) {
    if (!run->ideal) {
      out->f[k] = cast_float(a->f[k], a->dtype, out->dtype);
    } else {
      lw__interp_put(out, k, cast_interval(lw__interp_get(a, k), a->dtype, out->dtype, &r));
    }
  }
}

static int64_t cast_int(double x, lw_dtype from, lw_dtype to) {
  return lw__cast((lw_scalar){.f = x}, from, to).i;
}

/* Can the integer differ anywhere in [lo, hi]? */
static bool cast_steps(double lo, double hi, lw_dtype from, lw_dtype to) {
  if (isnan(lo) || lo == hi) return isnan(lo) != isnan(hi);
  if (lo == -INFINITY && hi == INFINITY) return true;
  if (to == LW_DTYPE_BOOL && lo <= 0 && hi >= 0) return true;
  return cast_int(lo, from, to) != cast_int(hi, from, to);
}

static void cast_float_to_int(const interp_tensor *a, interp_tensor *out) {
  for (int64_t k = 0; k < out->count; k++) {
    interp_iv v = lw__interp_get(a, k), e = lw__iv_expected(v);
    out->i[k] = cast_int(v.f, a->dtype, out->dtype);
    if (cast_steps(v.lo, v.hi, a->dtype, out->dtype)) lw__interp_mark(out, k, INTERP_AMBIGUOUS);
    if (cast_steps(e.lo, e.hi, a->dtype, out->dtype)) lw__interp_mark(out, k, INTERP_DOUBTFUL);
  }
}

static void cast_int_to_float(const interp_run *run, const interp_tensor *a, interp_tensor *out) {
  interp_rounding r = lw__interp_rounding(out->dtype, 0);
  lw_dtype to = run->ideal && !cast_is_f8(out->dtype) ? LW_DTYPE_F64 : out->dtype;
  for (int64_t k = 0; k < out->count; k++) {
    interp_iv v = lw__iv_exact(lw__cast((lw_scalar){.i = a->i[k]}, a->dtype, to).f);
    lw__interp_put(out, k, cast_is_f8(out->dtype) ? v : lw__iv_round(v, &r, true));
    lw__interp_mark(out, k, lw__interp_unknown(a, k));
  }
}

static void map_cast(const interp_run *run, const interp_tensor *a, interp_tensor *out) {
  if (a->f != NULL && out->f != NULL) {
    cast_float_to_float(run, a, out);
  } else if (a->f != NULL) {
    cast_float_to_int(a, out);
  } else if (out->f != NULL) {
    cast_int_to_float(run, a, out);
  } else {
    for (int64_t k = 0; k < out->count; k++) {
      out->i[k] = lw__cast((lw_scalar){.i = a->i[k]}, a->dtype, out->dtype).i;
      lw__interp_mark(out, k, lw__interp_unknown(a, k));
    }
  }
}

lw_status lw__interp_map(interp_run *run, const lw_node *node, const interp_tensor *const *in,
                         interp_tensor *out) {
  switch (lw__fn_info[node->attr.fn].domain) {
    case LW_DOMAIN_CAST: map_cast(run, in[0], out); break;
    case LW_DOMAIN_SELECT:
      for (int64_t k = 0; k < out->count; k++) select_element(in, out, k);
      break;
    case LW_DOMAIN_LOGIC: map_logic(node, in, out); break;
    case LW_DOMAIN_TEST: map_test(node, in, out); break;
    case LW_DOMAIN_COMPARE:
      if (in[0]->f != NULL) {
        map_test(node, in, out);
      } else {
        map_int(node, in, out);
      }
      break;
    default:
      if (out->f != NULL) {
        map_float(run, node, in, out);
      } else {
        map_int(node, in, out);
      }
  }
  return LW_OK;
}

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

/* ADD, SUB and MUL are never respelled; what they compute exactly every implementation computes exactly. Division by a
 * power of two is as good, and becomes a multiplication. */
static bool map_is_exact_op(lw_fn fn, interp_iv b) {
  if (fn == LW_FN_ADD || fn == LW_FN_SUB || fn == LW_FN_MUL) return true;
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
    interp_iv y = lw__interp_get(b, k);
    interp_iv v = lw__iv_map(fn, lw__interp_get(a, k), y, same);
    lw__interp_put(out, k, rounds ? lw__iv_round(v, &r, map_is_exact_op(fn, y)) : v);
  }
}

static void map_int(const lw_node *node, const interp_tensor *const *in, interp_tensor *out) {
  lw_fn fn = node->attr.fn;
  const interp_tensor *a = in[0], *b = lw__fn_info[fn].arity > 1 ? in[1] : in[0];
  for (int64_t k = 0; k < out->count; k++) {
    out->i[k] = lw__fn_eval_i64(fn, a->dtype, a->i[k], b->i[k], 0);
    if (lw__interp_is_ambiguous(a, k) || lw__interp_is_ambiguous(b, k))
      lw__interp_make_unknown(out, k);
  }
}

/* Two truth values that may each be both: unknown only when the outcomes differ. */
static void map_logic(const lw_node *node, const interp_tensor *const *in, interp_tensor *out) {
  lw_fn fn = node->attr.fn;
  const interp_tensor *a = in[0], *b = lw__fn_info[fn].arity > 1 ? in[1] : in[0];
  for (int64_t k = 0; k < out->count; k++) {
    int64_t truth = lw__fn_eval_i64(fn, LW_DTYPE_BOOL, a->i[k], b->i[k], 0);
    out->i[k] = truth;
    bool differs = false;
    int64_t flip_a = lw__interp_is_ambiguous(a, k), flip_b = lw__interp_is_ambiguous(b, k);
    for (int64_t x = 0; x <= flip_a; x++) {
      for (int64_t y = 0; y <= flip_b; y++) {
        differs =
            differs || lw__fn_eval_i64(fn, LW_DTYPE_BOOL, a->i[k] ^ x, b->i[k] ^ y, 0) != truth;
      }
    }
    if (differs) lw__interp_make_unknown(out, k);
  }
}

static void map_test(const lw_node *node, const interp_tensor *const *in, interp_tensor *out) {
  lw_fn fn = node->attr.fn;
  const interp_tensor *a = in[0], *b = lw__fn_info[fn].arity > 1 ? in[1] : in[0];
  for (int64_t k = 0; k < out->count; k++) {
    bool ambiguous = false;
    out->i[k] = lw__iv_test(fn, lw__interp_get(a, k), lw__interp_get(b, k), a == b, &ambiguous);
    if (ambiguous) lw__interp_make_unknown(out, k);
  }
}

static void select_element(const interp_tensor *const *in, interp_tensor *out, int64_t k) {
  const interp_tensor *chosen = in[in[0]->i[k] != 0 ? 1 : 2], *other = in[in[0]->i[k] != 0 ? 2 : 1];
  lw__interp_copy(out, k, chosen, k);
  if (!lw__interp_is_ambiguous(in[0], k)) return;
  if (out->f == NULL) {
    if (chosen->i[k] != other->i[k] || lw__interp_is_ambiguous(other, k))
      lw__interp_make_unknown(out, k);
    return;
  }
  interp_iv x = lw__interp_get(chosen, k), y = lw__interp_get(other, k);
  double corner[4] = {x.lo, x.hi, y.lo, y.hi};
  lw__interp_put(out, k, lw__iv_hull(x.f, corner, 4));
}

/* ---- casts ---------------------------------------------------------------------------------------------------*/

static bool cast_is_f8(lw_dtype t) { return t == LW_DTYPE_F8E4M3 || t == LW_DTYPE_F8E5M2; }

static double cast_float(double x, lw_dtype from, lw_dtype to) {
  return lw__cast((lw_scalar){.f = x}, from, to).f;
}

/* Every value of |from| is one of |to|. */
static bool cast_only_widens(lw_dtype from, lw_dtype to) {
  return lw__dtype_unit_roundoff(to) <= lw__dtype_unit_roundoff(from) &&
         lw__dtype_largest(to) >= lw__dtype_largest(from);
}

/* A kernel may carry the unrounded value on, so the ideal value is not rounded; f8 is rounded for real. */
static interp_iv cast_interval(interp_iv v, lw_dtype from, lw_dtype to, const interp_rounding *r) {
  if (cast_is_f8(to)) {
    if (lw__iv_is_top(v)) return lw__iv_top(cast_float(v.f, from, to));
    double corner[2] = {cast_float(v.lo, from, to), cast_float(v.hi, from, to)};
    return lw__iv_hull(cast_float(v.f, from, to), corner, 2);
  }
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

static void cast_float_to_int(const interp_tensor *a, interp_tensor *out) {
  for (int64_t k = 0; k < out->count; k++) {
    interp_iv v = lw__interp_get(a, k);
    out->i[k] = lw__cast((lw_scalar){.f = v.f}, a->dtype, out->dtype).i;
    if (lw__iv_is_exact(v)) continue;
    int64_t lo = lw__cast((lw_scalar){.f = v.lo}, a->dtype, out->dtype).i;
    int64_t hi = lw__cast((lw_scalar){.f = v.hi}, a->dtype, out->dtype).i;
    bool crosses_zero = out->dtype == LW_DTYPE_BOOL && v.lo <= 0 && v.hi >= 0;
    if (lo != hi || lw__iv_is_top(v) || crosses_zero) lw__interp_make_unknown(out, k);
  }
}

static void cast_int_to_float(const interp_run *run, const interp_tensor *a, interp_tensor *out) {
  interp_rounding r = lw__interp_rounding(out->dtype, 0);
  lw_dtype to = run->ideal && !cast_is_f8(out->dtype) ? LW_DTYPE_F64 : out->dtype;
  for (int64_t k = 0; k < out->count; k++) {
    interp_iv v = lw__iv_exact(lw__cast((lw_scalar){.i = a->i[k]}, a->dtype, to).f);
    lw__interp_put(out, k, cast_is_f8(out->dtype) ? v : lw__iv_round(v, &r, true));
    if (lw__interp_is_ambiguous(a, k)) lw__interp_make_unknown(out, k);
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
      if (lw__interp_is_ambiguous(a, k)) lw__interp_make_unknown(out, k);
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

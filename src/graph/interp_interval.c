/* interp_interval.c: ranges of scalar functions over intervals, and what rounding adds to them. */
#include "graph/interp_internal.h"

interp_iv lw__iv_hull(double f, const double *corner, int n) {
  int nans = 0;
  interp_iv v = lw__iv_exact(f);
  for (int k = 0; k < n; k++) {
    if (isnan(corner[k])) nans++;
    if (corner[k] < v.lo) v.lo = corner[k];
    if (corner[k] > v.hi) v.hi = corner[k];
  }
  if (nans == n && isnan(f)) return v;
  return nans > 0 || isnan(f) ? lw__iv_top(f) : v;
}

static bool iv_contains_zero(interp_iv v) { return v.lo <= 0 && v.hi >= 0; }

static double iv_largest_magnitude(interp_iv v) { return fmax(fabs(v.lo), fabs(v.hi)); }

/* Range of sin (|quarter| 0) or cos (1): both have their extrema at multiples of pi, shifted by
 * half of pi for sin. */
static interp_iv iv_sine(lw_fn fn, double f, interp_iv a) {
  if (isinf(a.lo) || isinf(a.hi)) return lw__iv_top(f);
  const double pi = 3.14159265358979323846;
  double shift = fn == LW_FN_SIN ? 0.5 : 0.0;
  double slack = iv_largest_magnitude(a) * 0x1p-50; /* rounding of the multiple of pi */
  double first = ceil((a.lo - slack) / pi - shift);
  double last = floor((a.hi + slack) / pi - shift);
  double corner[4] = {lw__fn_eval_f64(fn, a.lo, 0, 0), lw__fn_eval_f64(fn, a.hi, 0, 0), f, f};
  if (last >= first) { /* even multiples are maxima */
    bool first_even = fmod(first, 2) == 0;
    corner[2] = first_even ? 1 : -1;
    corner[3] = last > first ? -corner[2] : f;
  }
  return lw__iv_hull(f, corner, 4);
}

static bool iv_has_tangent_pole(interp_iv a) {
  const double pi = 3.14159265358979323846;
  if (isinf(a.lo) || isinf(a.hi)) return true;
  double slack = iv_largest_magnitude(a) * 0x1p-50;
  return floor((a.hi + slack) / pi - 0.5) >= ceil((a.lo - slack) / pi - 0.5);
}

/* Functions that are monotone over the interval need its ends alone; the others are named here. */
static interp_iv iv_unary(lw_fn fn, interp_iv a) {
  double f = lw__fn_eval_f64(fn, a.f, 0, 0);
  if (lw__iv_is_exact(a)) return lw__iv_exact(f);
  double corner[3] = {lw__fn_eval_f64(fn, a.lo, 0, 0), lw__fn_eval_f64(fn, a.hi, 0, 0), f};
  switch (fn) {
    case LW_FN_ABS:
    case LW_FN_COSH:
      if (iv_contains_zero(a)) corner[2] = lw__fn_eval_f64(fn, 0, 0, 0);
      break;
    case LW_FN_RECIP:
      if (iv_contains_zero(a)) return lw__iv_top(f);
      break;
    case LW_FN_SIN:
    case LW_FN_COS: return iv_sine(fn, f, a);
    case LW_FN_TAN:
      if (iv_has_tangent_pole(a)) return lw__iv_top(f);
      break;
    case LW_FN_ASIN:
    case LW_FN_ACOS:
    case LW_FN_ATANH: /* both ends may lie outside of [-1, 1], on its two sides */
      if (iv_contains_zero(a) && isnan(f)) return lw__iv_top(f);
      break;
    default: break;
  }
  return lw__iv_hull(f, corner, 3);
}

static interp_iv iv_corners(lw_fn fn, double f, interp_iv a, interp_iv b) {
  double corner[4] = {lw__fn_eval_f64(fn, a.lo, b.lo, 0), lw__fn_eval_f64(fn, a.lo, b.hi, 0),
                      lw__fn_eval_f64(fn, a.hi, b.lo, 0), lw__fn_eval_f64(fn, a.hi, b.hi, 0)};
  return lw__iv_hull(f, corner, 4);
}

static interp_iv iv_square(double f, interp_iv a) {
  double corner[3] = {a.lo * a.lo, a.hi * a.hi, iv_contains_zero(a) ? 0 : f};
  return lw__iv_hull(f, corner, 3);
}

/* MOD and REM are x - q*y with an integer q that jumps; where it is the same at all corners the
 * function is linear. */
static interp_iv iv_remainder(lw_fn fn, double f, interp_iv a, interp_iv b) {
  if (iv_contains_zero(b) || isinf(a.lo) || isinf(a.hi) || isinf(b.lo) || isinf(b.hi))
    return lw__iv_top(f);
  double quotient[4] = {a.lo / b.lo, a.lo / b.hi, a.hi / b.lo, a.hi / b.hi};
  bool equal = true;
  for (int k = 0; k < 4; k++) {
    quotient[k] = fn == LW_FN_MOD ? floor(quotient[k]) : trunc(quotient[k]);
    equal = equal && quotient[k] == quotient[0];
  }
  double reach = iv_largest_magnitude(b);
  if (equal) {
    double q = quotient[0];
    double corner[4] = {a.lo - q * b.lo, a.lo - q * b.hi, a.hi - q * b.lo, a.hi - q * b.hi};
    return lw__iv_hull(f, corner, 4);
  }
  bool up = fn == LW_FN_MOD ? b.lo > 0 : a.hi > 0;
  bool down = fn == LW_FN_MOD ? b.hi < 0 : a.lo < 0;
  double corner[2] = {down ? -reach : 0, up ? reach : 0};
  return lw__iv_hull(f, corner, 2);
}

/* x^y is monotone in each operand alone while x > 0, so corners do. Else an integer power or
 * nothing is known. */
static interp_iv iv_power(double f, interp_iv a, interp_iv b) {
  if (a.lo >= 0) return iv_corners(LW_FN_POW, f, a, b);
  if (!lw__iv_is_exact(b) || b.f != nearbyint(b.f)) {
    return lw__iv_is_exact(b) && a.hi < 0 ? iv_corners(LW_FN_POW, f, a, b) : lw__iv_top(f);
  }
  if (!iv_contains_zero(a)) return iv_corners(LW_FN_POW, f, a, b);
  if (b.f < 0) return lw__iv_top(f);
  double corner[3] = {pow(a.lo, b.f), pow(a.hi, b.f), pow(0, b.f)};
  return lw__iv_hull(f, corner, 3);
}

/* The angle is monotone in each operand alone unless the box touches the cut along the negative x
 * axis. */
static interp_iv iv_angle(double f, interp_iv y, interp_iv x) {
  const double pi = 3.14159265358979323846;
  if (iv_contains_zero(y) && x.lo <= 0) return (interp_iv){f, -pi, pi, 0};
  return iv_corners(LW_FN_ATAN2, f, y, x);
}

static interp_iv iv_range(lw_fn fn, interp_iv a, interp_iv b, bool same) {
  bool unary = lw__fn_info[fn].arity == 1;
  if (lw__iv_is_top(a) || (!unary && lw__iv_is_top(b)))
    return lw__iv_top(lw__fn_eval_f64(fn, a.f, b.f, 0));
  if (unary) return iv_unary(fn, a);
  double f = lw__fn_eval_f64(fn, a.f, b.f, 0);
  if (lw__iv_is_exact(a) && lw__iv_is_exact(b)) return lw__iv_exact(f);
  switch (fn) {
    case LW_FN_ADD: {
      double corner[2] = {a.lo + b.lo, a.hi + b.hi};
      if (isinf(corner[0]) || isinf(corner[1])) return iv_corners(fn, f, a, b);
      return lw__iv_hull(f, corner, 2);
    }
    case LW_FN_SUB: {
      double corner[2] = {a.lo - b.hi, a.hi - b.lo};
      if (isinf(corner[0]) || isinf(corner[1])) return iv_corners(fn, f, a, b);
      return lw__iv_hull(f, corner, 2);
    }
    case LW_FN_MUL: return same ? iv_square(f, a) : iv_corners(fn, f, a, b);
    case LW_FN_DIV:
      if (iv_contains_zero(b) && !lw__iv_is_exact(b)) return lw__iv_top(f);
      return iv_corners(fn, f, a, b);
    case LW_FN_MOD:
    case LW_FN_REM: return iv_remainder(fn, f, a, b);
    case LW_FN_POW: return iv_power(f, a, b);
    case LW_FN_ATAN2: return iv_angle(f, a, b);
    default: return iv_corners(fn, f, a, b); /* MIN, MAX */
  }
}

/* ---- expected deviations ---------------------------------------------------------------------*/

double lw__deviation_add(double a, double b) {
  return sqrt(a * a + b * b); /* hypot would make infinity of NaN and infinity */
}

interp_iv lw__iv_expected(interp_iv v) {
  double reach = INTERP_CLEAR * v.dev;
  if (v.dev == 0 || !isfinite(v.f)) return lw__iv_exact(v.f);
  if (isnan(v.dev)) return lw__iv_top(v.f);
  if (isfinite(reach)) return (interp_iv){v.f, v.f - reach, v.f + reach, 0};
  return v.f < 0 ? (interp_iv){v.f, -INFINITY, v.f, 0} : (interp_iv){v.f, v.f, INFINITY, 0};
}

/* What lies within INTERP_CLEAR deviations of the operands, as a deviation of the result. */
static double spread_deviation(interp_iv e) {
  if (isnan(e.lo) || e.lo == e.hi) return 0;
  double up = e.hi - e.f, down = e.f - e.lo;
  bool outward = e.f >= 0 ? isfinite(down) : isfinite(up);
  double spread = fmax(up, down);
  if (isnan(up) || isnan(down) || (isinf(spread) && !outward)) return NAN;
  return spread / INTERP_CLEAR;
}

static double expected_deviation(lw_fn fn, double f, interp_iv a, interp_iv b, bool same) {
  bool unary = lw__fn_info[fn].arity == 1;
  if (a.dev == 0 && (unary || b.dev == 0)) return 0;
  bool independent = !unary && !same && isfinite(f) && isfinite(a.dev) && isfinite(b.dev);
  if (independent && (fn == LW_FN_ADD || fn == LW_FN_SUB)) return lw__deviation_add(a.dev, b.dev);
  if (independent && fn == LW_FN_MUL) {
    return lw__deviation_add(a.f * b.dev, b.f * a.dev) + a.dev * b.dev;
  }
  return spread_deviation(iv_range(fn, lw__iv_expected(a), lw__iv_expected(b), same));
}

interp_iv lw__iv_map(lw_fn fn, interp_iv a, interp_iv b, bool same) {
  interp_iv v = iv_range(fn, a, b, same);
  v.dev = expected_deviation(fn, v.f, a, b, same);
  return v;
}

/* ---- comparisons -----------------------------------------------------------------------------*/

static bool iv_test_one(lw_fn fn, interp_iv a) {
  bool inf_inside = (isinf(a.lo) || isinf(a.hi)) && !lw__iv_is_exact(a);
  return lw__iv_is_top(a) || (fn == LW_FN_ISINF && inf_inside);
}

/* Can the comparison also come out other than |truth|? */
static bool iv_test_two(lw_fn fn, bool truth, interp_iv a, interp_iv b, bool same) {
  if (lw__iv_is_top(a) || lw__iv_is_top(b)) return true;
  if (same || (lw__iv_is_exact(a) && lw__iv_is_exact(b))) return false;
  if (fn == LW_FN_EQ || fn == LW_FN_NE) return a.lo <= b.hi && b.lo <= a.hi;
  interp_iv range = iv_corners(fn, truth, a, b);
  return range.lo != range.hi;
}

bool lw__iv_test(lw_fn fn, interp_iv a, interp_iv b, bool same, uint8_t *out_unknown) {
  bool truth = lw__fn_eval_f64(fn, a.f, b.f, 0) != 0;
  bool unary = lw__fn_info[fn].arity == 1;
  bool ambiguous = unary ? iv_test_one(fn, a) : iv_test_two(fn, truth, a, b, same);
  a = lw__iv_expected(a);
  b = lw__iv_expected(b);
  bool doubtful = unary ? iv_test_one(fn, a) : iv_test_two(fn, truth, a, b, same);
  *out_unknown = (uint8_t)((ambiguous ? INTERP_AMBIGUOUS : 0) | (doubtful ? INTERP_DOUBTFUL : 0));
  return truth;
}

/* ---- rounding --------------------------------------------------------------------------------*/

static double least_normal_of(lw_dtype dtype) {
  switch (dtype) {
    case LW_DTYPE_F16:
    case LW_DTYPE_F8E5M2: return 0x1p-14;
    case LW_DTYPE_F8E4M3: return 0x1p-6;
    case LW_DTYPE_F64: return 0x1p-1022;
    default: return 0x1p-126; /* F32, BF16 */
  }
}

interp_rounding lw__interp_rounding(lw_dtype dtype, double ulp) {
  bool wide = dtype == LW_DTYPE_F64;
  double u = lw__dtype_unit_roundoff(dtype);
  interp_rounding r = {.dtype = dtype, .unit = u, .least_normal = least_normal_of(dtype)};
  r.compute_unit = wide ? u : 0x1p-24;
  r.relative = ulp * 2 * r.compute_unit;
  r.before_store = ulp > 0.5 ? (ulp - 0.5) * 2 * r.compute_unit : 0;
  if (wide)
    r.relative += 4 * u; /* the ideal value is itself an f64 and its functions come from libm */
  r.flush = wide ? 0x1p-1022 : 0x1p-126;
  /* Half a unit in the last place above the largest finite number: from there on rounding gives
   * infinity. */
  r.overflow = lw__dtype_largest(dtype) * ((2 - u) / (2 - 2 * u));
  return r;
}

static double round_reach(double x, const interp_rounding *r) {
  double m = fabs(x);
  double reach = r->relative * m + r->unit * fmax(m, r->least_normal);
  return m < r->flush ? reach + r->flush : reach;
}

/* Half of what rounding may do at most. */
static double rounded_deviation(double dev, double f, const interp_rounding *r) {
  double m = fabs(f);
  if (!isfinite(f)) return dev;
  if (m >= r->overflow) return isnan(dev) ? dev : INFINITY;
  double most =
      r->relative * m + r->unit * fmax(m, r->least_normal) + (m < r->flush ? r->flush : 0);
  return lw__deviation_add(dev, 0.5 * most);
}

static interp_iv rounded_range(interp_iv v, const interp_rounding *r) {
  if (isnan(v.lo) || lw__iv_is_top(v)) return v;
  interp_iv out = v;
  if (!isinf(v.lo)) out.lo = v.lo - round_reach(v.lo, r);
  if (!isinf(v.hi)) out.hi = v.hi + round_reach(v.hi, r);
  if (v.lo >= 0 && out.lo < 0) out.lo = 0; /* relative errors never change a sign */
  if (v.hi <= 0 && out.hi > 0) out.hi = 0;
  if (v.hi + r->before_store * fabs(v.hi) >= r->overflow) out.hi = INFINITY;
  if (v.lo - r->before_store * fabs(v.lo) <= -r->overflow) out.lo = -INFINITY;
  return out;
}

interp_iv lw__iv_round(interp_iv v, const interp_rounding *r, bool exact_op) {
  if (v.lo == v.hi && (v.lo == 0 || isinf(v.lo))) return v;
  bool representable =
      exact_op && fabs(v.f) >= r->least_normal && lw__round_to(r->dtype, v.f) == v.f;
  double spread = fmax(v.hi - v.f, v.f - v.lo), absorbed = 0.25 * r->compute_unit * fabs(v.f);
  if (representable && spread <= absorbed) return v;
  interp_iv out = rounded_range(v, r);
  if (!representable || v.dev > absorbed) out.dev = rounded_deviation(v.dev, v.f, r);
  return out;
}

void lw__interp_sum_add(interp_sum *s, interp_iv t) {
  s->count++;
  if (isnan(t.lo)) {
    s->nan = true;
  } else if (lw__iv_is_top(t)) {
    s->top = true;
  } else if (t.lo == t.hi && isinf(t.lo)) {
    *(t.lo > 0 ? &s->plus_inf : &s->minus_inf) = true;
  } else {
    s->maybe_plus = s->maybe_plus || isinf(t.hi);
    s->maybe_minus = s->maybe_minus || isinf(t.lo);
    s->some_negative = s->some_negative || t.lo < 0;
    s->some_positive = s->some_positive || t.hi > 0;
    s->fractional = s->fractional || t.lo != t.hi || t.f != nearbyint(t.f);
    s->magnitude += fmax(fabs(t.lo), fabs(t.hi));
    s->lo += t.lo;
    s->hi += t.hi;
  }
  s->f += t.f;
  s->variance += t.dev * t.dev;
  s->squares += t.f * t.f;
}

/* |v| is the exact range of the sum; adds the accumulator's rounding in any order of at most
 * |count| terms, then the rounding of the result. Partial sums that may overflow on both sides
 * leave nothing known. */
static interp_iv sum_round(interp_iv v, double magnitude, int64_t count, bool down, bool up,
                           const interp_rounding *r) {
  double unit = r->dtype == LW_DTYPE_F64 ? 2 * r->compute_unit : r->compute_unit;
  double limit = r->dtype == LW_DTYPE_F64 ? INFINITY : 0x1.ffffffp127;
  double reach = ((double)count + 16) * unit * magnitude;
  if (magnitude + reach >= limit) {
    if (up) v.hi = INFINITY;
    if (down) v.lo = -INFINITY;
  }
  interp_iv w = v;
  if (!isinf(v.lo)) w.lo = v.lo - reach;
  if (!isinf(v.hi)) w.hi = v.hi + reach;
  if (!down && w.lo < 0) w.lo = 0;
  if (!up && w.hi > 0) w.hi = 0;
  return w;
}

/* Deviation of the terms and of an accumulator whose partial sums are about as large as the sum, or
 * as sums of terms of random sign. */
static double sum_deviation(double f, double variance, double squares, int64_t count,
                            const interp_rounding *r) {
  if (!isfinite(f)) return 0;
  double partial = fmax(fabs(f), sqrt(squares));
  double dev = sqrt(variance + (double)count * pow(r->compute_unit * partial, 2));
  return isinf(dev) ? NAN : dev; /* terms that may overflow may do so to either side */
}

static interp_iv sum_range(const interp_sum *s, const interp_rounding *r) {
  if (s->nan || (s->plus_inf && s->minus_inf)) return lw__iv_exact(NAN);
  bool both = (s->maybe_plus || s->plus_inf) && (s->maybe_minus || s->minus_inf);
  if (s->top || both) return lw__iv_top(s->f);
  double limit = r->dtype == LW_DTYPE_F64 ? INFINITY : 0x1.ffffffp127;
  if (s->plus_inf || s->minus_inf) {
    bool against = s->plus_inf ? s->some_negative : s->some_positive;
    return against && s->magnitude >= limit ? lw__iv_top(s->f) : lw__iv_exact(s->f);
  }
  return (interp_iv){s->f, fmin(s->lo, s->f), fmax(s->hi, s->f), 0};
}

interp_iv lw__interp_sum_end(const interp_sum *s, const interp_rounding *r) {
  interp_iv v = sum_range(s, r);
  if (s->count == 1) {
    v.dev = sqrt(s->variance);
    return v;
  }
  interp_rounding store = *r;
  store.relative = 0;
  double whole = r->dtype == LW_DTYPE_F64 ? 0x1p53 : 0x1p24;
  bool exact = s->count == 0 || (!s->fractional && !s->top && s->magnitude <= whole);
  if (!exact) {
    bool finite = isfinite(s->f) && !lw__iv_is_top(v);
    if (finite) v = sum_round(v, s->magnitude, s->count, s->some_negative, s->some_positive, r);
    v.dev = sum_deviation(s->f, s->variance, s->squares, s->count, r);
  }
  return lw__iv_round(v, &store, exact);
}

interp_iv lw__interp_sum_finite(double f, double error, double magnitude, double variance,
                                double squares, int64_t count, const interp_rounding *r) {
  interp_rounding store = *r;
  store.relative = 0;
  if (magnitude == 0 && variance == 0) return lw__iv_exact(f);
  interp_iv v = isfinite(error) ? (interp_iv){f, f - error, f + error, 0} : lw__iv_top(f);
  if (isfinite(error)) v = sum_round(v, magnitude, count, true, true, r);
  v.dev = sum_deviation(f, variance, squares, count, r);
  return lw__iv_round(v, &store, false);
}

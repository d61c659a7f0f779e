/* interp_compare.c: a result of an implementation against the oracle's. */
#include "graph/interp_internal.h"

/* |got| - |want| over |bound|: 0 when equal, above 1 when outside, infinity for what may not differ
 * at all. */
static double error_ratio(double got, double want, double bound) {
  if (isnan(want) || isnan(got)) return isnan(want) && isnan(got) ? 0 : INFINITY;
  if (got == want) return 0;
  double error = fabs(got - want);
  return bound > 0 && isfinite(error) ? error / bound : INFINITY;
}

static double got_as_double(const lw_oracle_tensor *want, const void *got, int64_t k) {
  return lw__elem_get_f64(want->dtype, got, k);
}

static double compare_int(const lw_oracle_tensor *want, const void *got, int64_t k,
                          double *out_want) {
  *out_want = want->dtype == LW_DTYPE_U64 ? (double)(uint64_t)want->i[k] : (double)want->i[k];
  return lw__elem_get_i64(want->dtype, got, k) == want->i[k] ? 0 : INFINITY;
}

/* Elements whose deviation cannot be told are not looked at. */
static void note_deviations(const lw_oracle_tensor *want, int64_t k, double ratio,
                            lw_compare *out) {
  if (want->deviation == NULL || !isfinite(want->deviation[k])) return;
  if (ratio > LW_INTERP_SUSPECT) out->suspect++;
  if (out->worst_deviations_index >= 0 && ratio <= out->worst_deviations) return;
  out->worst_deviations_index = k;
  out->worst_deviations = ratio;
}

void lw__interp_compare(const lw_oracle_tensor *want, const void *got, lw_compare *out) {
  *out = (lw_compare){.worst_index = -1, .worst_deviations_index = -1};
  for (int64_t k = 0; k < want->count; k++) {
    double y = got_as_double(want, got, k), x, ratio;
    out->count++;
    if (want->i != NULL) {
      ratio = compare_int(want, got, k, &x);
      note_deviations(want, k, ratio, out);
    } else {
      x = want->f[k];
      ratio = error_ratio(y, x, want->bound[k]);
      if (want->deviation != NULL) {
        note_deviations(want, k, error_ratio(y, x, want->deviation[k]), out);
      }
    }
    if (want->bound[k] == INFINITY) {
      out->ambiguous++;
      continue;
    }
    if (ratio > 1) out->bad++;
    if (isfinite(y) && isfinite(x)) out->max_abs_error = fmax(out->max_abs_error, fabs(y - x));
    if (out->worst_index >= 0 && ratio <= out->worst_ratio) continue;
    out->worst_index = k;
    out->worst_got = y;
    out->worst_want = x;
    out->worst_bound = want->bound[k];
    out->worst_ratio = ratio;
  }
}

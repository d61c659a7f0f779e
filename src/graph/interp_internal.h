/* interp_internal.h: what the interpreter's sources share: its tensors, element intervals and their
 * rounding.
 *
 * In IDEAL mode every float element is an interval [lo, hi] around the ideal value f: all that a
 * correct implementation may hold there, whether it stores the value in its declared type or
 * carries it wider. Three special intervals:
 *   lo = hi = f exact (also for infinities)
 *   lo = hi = f = NaN NaN for certain
 *   lo = -inf, hi = inf unknown; may also be NaN ("top")
 * An end that is infinite says that the implementation may overflow there. Integers are exact or
 * ambiguous. Beside the interval stands the deviation to be expected; the two know nothing of each
 * other. An infinite one says: anything from f to the infinity of its sign (f is beyond the type);
 * NaN: anything. */
#ifndef LW_GRAPH_INTERP_INTERNAL_H
#define LW_GRAPH_INTERP_INTERNAL_H

#include <math.h>

#include "graph/interp.h"

typedef struct interp_iv {
  double f, lo, hi, dev;
} interp_iv;

/* What may be unknown of an integer or a bool: whether the interval allows others, whether the
 * deviation does. */
enum { INTERP_AMBIGUOUS = 1, INTERP_DOUBTFUL = 2, INTERP_UNKNOWN = 3 };
/* Deviations that a comparison must be clear of not to be doubtful. */
#define INTERP_CLEAR 16.0

/* Row-major. Floats: |f|, and |lo|, |hi|, |dev| (all NULL: every element is exact). Integers and
 * bools: |i|, and |unknown| (NULL: nothing is). */
typedef struct interp_tensor {
  lw_dtype dtype;
  uint32_t rank;
  int64_t dim[LW_MAX_RANK];
  int64_t count;
  double *f, *lo, *hi, *dev;
  int64_t *i;
  uint8_t *unknown;
  size_t bytes; /* of all arrays */
} interp_tensor;

typedef struct interp_run {
  const lw_graph *graph;
  lw_diag *diag;
  bool ideal;
  size_t used_bytes, max_bytes; /* max 0: no bound */
} interp_run;

/* How results of one node are rounded: |relative| * |x| for the computation, |unit| * max(|x|,
 * least_normal) for the declared type, |flush| around zero where the computation may flush
 * subnormals, infinity from |overflow| on. */
typedef struct interp_rounding {
  lw_dtype dtype;
  double compute_unit, relative, before_store, unit, least_normal, flush, overflow;
} interp_rounding;

lw_status lw__interp_alloc(interp_run *run, lw_dtype dtype, const lw_shape *shape,
                           interp_tensor *out) LW_MUST_CHECK;
void lw__interp_free(interp_run *run, interp_tensor *tensor);
/* Number of elements of the dims [begin, end). */
int64_t lw__interp_span(const interp_tensor *t, uint32_t begin, uint32_t end);

static inline interp_iv lw__interp_get(const interp_tensor *t, int64_t k) {
  double f = t->f[k];
  return t->lo != NULL ? (interp_iv){f, t->lo[k], t->hi[k], t->dev[k]} : (interp_iv){f, f, f, 0};
}
static inline void lw__interp_put(interp_tensor *t, int64_t k, interp_iv v) {
  t->f[k] = v.f;
  if (t->lo == NULL) return;
  t->lo[k] = v.lo;
  t->hi[k] = v.hi;
  t->dev[k] = v.dev;
}
static inline uint8_t lw__interp_unknown(const interp_tensor *t, int64_t k) {
  return t->unknown != NULL ? t->unknown[k] : 0;
}
/* Element |s| of |src| becomes element |d| of |dst|; same type. */
void lw__interp_copy(interp_tensor *dst, int64_t d, const interp_tensor *src, int64_t s);
/* Marks element |k|, whatever its type: INTERP_AMBIGUOUS, INTERP_DOUBTFUL or both; the value stays
 * what it is. */
void lw__interp_mark(interp_tensor *t, int64_t k, uint8_t unknown);

/* ---- intervals (interp_interval.c) -----------------------------------------------------------*/
static inline interp_iv lw__iv_exact(double f) { return (interp_iv){f, f, f, 0}; }
static inline interp_iv lw__iv_top(double f) { return (interp_iv){f, -INFINITY, INFINITY, 0}; }
static inline bool lw__iv_is_top(interp_iv v) { return v.lo == -INFINITY && v.hi == INFINITY; }
static inline bool lw__iv_is_exact(interp_iv v) { return v.lo == v.hi || isnan(v.lo); }
/* The smallest interval over |f| and |n| values of the function at corners; deviation 0. */
interp_iv lw__iv_hull(double f, const double *corner, int n);
/* Exact range of |fn| (not SELECT, CAST, COMPARE, TEST, LOGIC, BITS) over the operands; |same|: a
 * and b are one value. */
interp_iv lw__iv_map(lw_fn fn, interp_iv a, interp_iv b, bool same);
/* Where |v| is to be expected: within INTERP_CLEAR deviations. */
interp_iv lw__iv_expected(interp_iv v);
/* Of the sum of two independent errors; NaN when one is. */
double lw__deviation_add(double a, double b);
/* Truth of a COMPARE or TEST function; *out_unknown: INTERP_AMBIGUOUS when both are possible,
 * INTERP_DOUBTFUL when both are to be expected. */
bool lw__iv_test(lw_fn fn, interp_iv a, interp_iv b, bool same, uint8_t *out_unknown);
/* |ulp|: error bound of the function in units in the last place of the compute type. */
interp_rounding lw__interp_rounding(lw_dtype dtype, double ulp);
/* Widens |v| by what rounding to |r| may do. |exact_op|: the operation is correctly rounded and
 * never respelled, so a result that the type can represent stays as it is. */
interp_iv lw__iv_round(interp_iv v, const interp_rounding *r, bool exact_op);

/* Sum of intervals in any order, with an accumulator of r's compute type. */
typedef struct interp_sum {
  double f, lo, hi, magnitude;
  double variance, squares; /* sums of dev^2 and f^2 */
  int64_t count;
  bool plus_inf, minus_inf, nan;     /* a term is that for certain */
  bool maybe_plus, maybe_minus, top; /* a term may be infinite; may be anything */
  bool some_negative, some_positive, fractional;
} interp_sum;
void lw__interp_sum_add(interp_sum *sum, interp_iv term);
interp_iv lw__interp_sum_end(const interp_sum *sum, const interp_rounding *r);
/* The end of a sum of terms with finite values: |f| +- |error|, sum of the terms' magnitudes, sums
 * of dev^2 and f^2. */
interp_iv lw__interp_sum_finite(double f, double error, double magnitude, double variance,
                                double squares, int64_t count, const interp_rounding *r);

/* ---- one function per kind of node ----------------------------------------------------------
 * |out| is allocated with the result's type and shape. */
typedef lw_status (*lw__interp_fn)(interp_run *run, const lw_node *node,
                                   const interp_tensor *const *in, interp_tensor *out);
lw_status lw__interp_iota(interp_run *run, const lw_node *node, const interp_tensor *const *in,
                          interp_tensor *out);
lw_status lw__interp_map(interp_run *run, const lw_node *node, const interp_tensor *const *in,
                         interp_tensor *out);
lw_status lw__interp_reshape(interp_run *run, const lw_node *node, const interp_tensor *const *in,
                             interp_tensor *out);
lw_status lw__interp_permute(interp_run *run, const lw_node *node, const interp_tensor *const *in,
                             interp_tensor *out);
lw_status lw__interp_expand(interp_run *run, const lw_node *node, const interp_tensor *const *in,
                            interp_tensor *out);
lw_status lw__interp_slice(interp_run *run, const lw_node *node, const interp_tensor *const *in,
                           interp_tensor *out);
lw_status lw__interp_pad(interp_run *run, const lw_node *node, const interp_tensor *const *in,
                         interp_tensor *out);
lw_status lw__interp_window(interp_run *run, const lw_node *node, const interp_tensor *const *in,
                            interp_tensor *out);
lw_status lw__interp_concat(interp_run *run, const lw_node *node, const interp_tensor *const *in,
                            interp_tensor *out);
lw_status lw__interp_gather(interp_run *run, const lw_node *node, const interp_tensor *const *in,
                            interp_tensor *out);
lw_status lw__interp_reduce(interp_run *run, const lw_node *node, const interp_tensor *const *in,
                            interp_tensor *out);
lw_status lw__interp_dot(interp_run *run, const lw_node *node, const interp_tensor *const *in,
                         interp_tensor *out);
lw_status lw__interp_conv(interp_run *run, const lw_node *node, const interp_tensor *const *in,
                          interp_tensor *out);

#endif

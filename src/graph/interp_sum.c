/* interp_sum.c: the interpreter's reductions, products and convolutions. Products and convolutions
 * run over plain arrays of doubles while all elements are finite: value, magnitude and magnitude
 * with errors are summed in one loop. Everything else takes the slow way, term by term with
 * intervals. */
#include <string.h>

#include "graph/interp_internal.h"

/* ---- reductions ------------------------------------------------------------------------------*/

/* The operand's dims, split into those that stay and those that are reduced, with their strides. */
typedef struct reduce_plan {
  uint32_t kept, gone;
  int64_t kept_dim[LW_MAX_RANK], kept_stride[LW_MAX_RANK];
  int64_t gone_dim[LW_MAX_RANK], gone_stride[LW_MAX_RANK];
  int64_t gone_count;
} reduce_plan;

static void reduce_plan_init(reduce_plan *p, const interp_tensor *t, uint32_t axes) {
  *p = (reduce_plan){.gone_count = 1};
  for (uint32_t d = 0; d < t->rank; d++) {
    int64_t stride = lw__interp_span(t, d + 1, t->rank);
    if ((axes >> d & 1) != 0) {
      p->gone_dim[p->gone] = t->dim[d];
      p->gone_stride[p->gone++] = stride;
      p->gone_count *= t->dim[d];
    } else {
      p->kept_dim[p->kept] = t->dim[d];
      p->kept_stride[p->kept++] = stride;
    }
  }
}

static int64_t reduce_offset(uint32_t rank, const int64_t *dim, const int64_t *stride, int64_t k) {
  int64_t at = 0;
  for (uint32_t d = rank; d-- > 0;) {
    at += k % dim[d] * stride[d];
    k /= dim[d];
  }
  return at;
}

static int64_t reduce_at(const reduce_plan *p, int64_t base, int64_t k) {
  return base + reduce_offset(p->gone, p->gone_dim, p->gone_stride, k);
}

static interp_iv reduce_sum(const interp_tensor *t, const reduce_plan *p, int64_t base,
                            const interp_rounding *r) {
  interp_sum sum = {0};
  for (int64_t k = 0; k < p->gone_count; k++)
    lw__interp_sum_add(&sum, lw__interp_get(t, reduce_at(p, base, k)));
  return lw__interp_sum_end(&sum, r);
}

/* Exact products by |combine| (MUL, MIN, MAX), element after element. */
static interp_iv reduce_fold(const interp_tensor *t, const reduce_plan *p, int64_t base,
                             lw_red red) {
  interp_iv acc = lw__iv_exact(lw__red_identity_f64(red, t->dtype));
  for (int64_t k = 0; k < p->gone_count; k++) {
    acc =
        lw__iv_map(lw__red_info[red].combine, acc, lw__interp_get(t, reduce_at(p, base, k)), false);
  }
  return acc;
}

/* Rounding of a product in any order: relative, unless a partial product may leave the
 * accumulator's range. */
static interp_iv reduce_product(const interp_tensor *t, const reduce_plan *p, int64_t base,
                                interp_rounding r) {
  interp_iv v = reduce_fold(t, p, base, LW_RED_PROD);
  if (p->gone_count <= 1 || isnan(v.lo) || lw__iv_is_top(v)) return v;
  double up = 1, down = 1;
  for (int64_t k = 0; k < p->gone_count; k++) {
    interp_iv x = lw__interp_get(t, reduce_at(p, base, k));
    double m = fmax(fabs(x.lo), fabs(x.hi)),
           least = x.lo <= 0 && x.hi >= 0 ? 0 : fmin(fabs(x.lo), fabs(x.hi));
    up *= fmax(m, 1);
    if (least > 0) down *= fmin(least, 1);
  }
  r.relative = ((double)p->gone_count + 16) * r.compute_unit * (r.dtype == LW_DTYPE_F64 ? 2 : 1);
  double limit = r.dtype == LW_DTYPE_F64 ? INFINITY : 0x1p127;
  if (isinf(v.f) && lw__iv_is_exact(v) && !isinf(up)) return v;
  if (up >= limit || down < r.flush) {
    v = lw__iv_top(v.f);
    v.dev = NAN; /* no order of the factors is likelier than another */
    return v;
  }
  return lw__iv_round(v, &r, r.dtype != LW_DTYPE_F64);
}

static void reduce_float(const interp_run *run, const lw_node *node, const interp_tensor *t,
                         interp_tensor *out) {
  reduce_plan p;
  reduce_plan_init(&p, t, node->attr.reduce.axes);
  interp_rounding r = lw__interp_rounding(out->dtype, 0);
  for (int64_t k = 0; k < out->count; k++) {
    int64_t base = reduce_offset(p.kept, p.kept_dim, p.kept_stride, k);
    interp_iv v;
    switch (node->attr.reduce.fn) {
      case LW_RED_SUM: v = reduce_sum(t, &p, base, &r); break;
      case LW_RED_PROD: v = reduce_product(t, &p, base, r); break;
      default: v = reduce_fold(t, &p, base, node->attr.reduce.fn); break;
    }
    if (!run->ideal) v.f = lw__round_to(out->dtype, v.f);
    lw__interp_put(out, k, v);
  }
}

/* ANY and ALL are settled by one certain element; every other reduction needs them all. */
static void reduce_int(const lw_node *node, const interp_tensor *t, interp_tensor *out) {
  lw_red red = node->attr.reduce.fn;
  lw_fn combine = lw__red_info[red].combine;
  reduce_plan p;
  reduce_plan_init(&p, t, node->attr.reduce.axes);
  for (int64_t k = 0; k < out->count; k++) {
    int64_t base = reduce_offset(p.kept, p.kept_dim, p.kept_stride, k);
    int64_t acc = lw__red_identity_i64(red, t->dtype);
    uint8_t unknown = 0, certain = 0;
    for (int64_t g = 0; g < p.gone_count; g++) {
      int64_t at = reduce_at(&p, base, g);
      acc = lw__fn_eval_i64(combine, t->dtype, acc, t->i[at], 0);
      bool settles = (red == LW_RED_ANY && t->i[at] != 0) || (red == LW_RED_ALL && t->i[at] == 0);
      unknown |= lw__interp_unknown(t, at);
      if (settles) certain |= (uint8_t)(INTERP_UNKNOWN & ~lw__interp_unknown(t, at));
    }
    out->i[k] = acc;
    lw__interp_mark(out, k, (uint8_t)(unknown & ~certain));
  }
}

lw_status lw__interp_reduce(interp_run *run, const lw_node *node, const interp_tensor *const *in,
                            interp_tensor *out) {
  if (out->f != NULL) {
    reduce_float(run, node, in[0], out);
  } else {
    reduce_int(node, in[0], out);
  }
  return LW_OK;
}

/* ---- what products and convolutions share ----------------------------------------------------*/

static bool all_finite(const interp_tensor *t) {
  for (int64_t k = 0; k < t->count; k++) {
    if (!isfinite(t->f[k])) return false;
  }
  return true;
}

/* One factor of a product as plain arrays: values, largest magnitudes (infinite where nothing is
 * known), squares of values and of deviations. */
typedef struct factor {
  const double *value;
  double *memory, *reach, *square, *variance;
} factor;

static lw_status factor_init(const interp_tensor *t, factor *out) {
  size_t bytes;
  *out = (factor){.value = t->f};
  if (!lw__mul_size((size_t)t->count, 3 * sizeof(double), &bytes)) return LW_STATUS_OUT_OF_MEMORY;
  LW_TRY(lw__mem_resize((void **)&out->memory, bytes > 0 ? bytes : sizeof(double)));
  out->reach = out->memory;
  out->square = out->reach + t->count;
  out->variance = out->square + t->count;
  for (int64_t k = 0; k < t->count; k++) {
    interp_iv v = lw__interp_get(t, k);
    out->reach[k] = fabs(v.f) + fmax(v.hi - v.f, v.f - v.lo);
    out->square[k] = v.f * v.f;
    out->variance[k] = v.dev * v.dev;
  }
  return LW_OK;
}

/* Sums of a run of output elements: of a*b, |a*b|, (|a| + error)(|b| + error), dev^2 and
 * (a*b)^2. */
typedef struct product_sums {
  double *value, *magnitude, *reach, *variance, *square;
} product_sums;
enum { PRODUCT_SUMS = 5 };

static lw_status product_sums_init(product_sums *s, int64_t count) {
  size_t bytes;
  *s = (product_sums){0};
  if (!lw__mul_size((size_t)count, PRODUCT_SUMS * sizeof(double), &bytes))
    return LW_STATUS_OUT_OF_MEMORY;
  LW_TRY(lw__mem_resize((void **)&s->value, bytes > 0 ? bytes : sizeof(double)));
  s->magnitude = s->value + count;
  s->reach = s->magnitude + count;
  s->variance = s->reach + count;
  s->square = s->variance + count;
  return LW_OK;
}

static void product_sums_clear(product_sums *s, int64_t count) {
  if (count > 0) memset(s->value, 0, (size_t)count * PRODUCT_SUMS * sizeof(double));
}

/* Element |i| of |a| times elements |b_at| + j * step of |b|, j in [0, count), onto sums |first| +
 * j. */
static void product_sums_add(product_sums *s, int64_t first, int64_t count, const factor *a,
                             int64_t i, const factor *b, int64_t b_at, int64_t step) {
  double *value = s->value + first, *magnitude = s->magnitude + first, *reach = s->reach + first;
  double *variance = s->variance + first, *square = s->square + first;
  double x = a->value[i], x_magnitude = fabs(x), x_reach = a->reach[i];
  double x_square = a->square[i], x_variance = a->variance[i];
  for (int64_t j = 0; j < count; j++) {
    int64_t at = b_at + j * step;
    double y = b->value[at];
    value[j] += x * y;
    magnitude[j] += x_magnitude * fabs(y);
    reach[j] += x_reach * b->reach[at];
    variance[j] += x_square * b->variance[at] + x_variance * (b->square[at] + b->variance[at]);
    square[j] += x_square * b->square[at];
  }
}

static void product_sums_store(const product_sums *s, int64_t count, int64_t terms,
                               const interp_rounding *r, interp_tensor *out, int64_t first) {
  for (int64_t j = 0; j < count; j++) {
    if (out->lo == NULL) {
      out->f[first + j] = lw__round_to(out->dtype, s->value[j]);
      continue;
    }
    double error = s->reach[j] - s->magnitude[j];
    if (error < 0) error = 0;
    lw__interp_put(out, first + j,
                   lw__interp_sum_finite(s->value[j], error, s->reach[j], s->variance[j],
                                         s->square[j], terms, r));
  }
}

static interp_iv product_term(const interp_tensor *a, int64_t i, const interp_tensor *b,
                              int64_t j) {
  return lw__iv_map(LW_FN_MUL, lw__interp_get(a, i), lw__interp_get(b, j), false);
}

static void product_put(const interp_run *run, interp_tensor *out, int64_t k, const interp_sum *sum,
                        const interp_rounding *r) {
  interp_sum inexact = *sum;
  inexact.fractional = true;
  if (inexact.count == 1) inexact.count = 2; /* a single product is rounded too */
  interp_iv v = lw__interp_sum_end(&inexact, r);
  if (!run->ideal) v.f = lw__round_to(out->dtype, v.f);
  lw__interp_put(out, k, v);
}

/* ---- dot -------------------------------------------------------------------------------------*/

typedef struct dot_sizes {
  int64_t batch, m, n, k;
} dot_sizes;

static void dot_int(const interp_tensor *a, const interp_tensor *b, dot_sizes z,
                    interp_tensor *out) {
  for (int64_t e = 0; e < out->count; e++) {
    int64_t col = e % z.n, row = e / z.n, batch = row / z.m, acc = 0;
    uint8_t unknown = 0;
    for (int64_t k = 0; k < z.k; k++) {
      int64_t i = row * z.k + k, j = (batch * z.k + k) * z.n + col;
      int64_t term = lw__fn_eval_i64(LW_FN_MUL, out->dtype, a->i[i], b->i[j], 0);
      acc = lw__fn_eval_i64(LW_FN_ADD, out->dtype, acc, term, 0);
      unknown |= lw__interp_unknown(a, i) | lw__interp_unknown(b, j);
    }
    out->i[e] = acc;
    lw__interp_mark(out, e, unknown);
  }
}

static void dot_by_terms(const interp_run *run, const interp_tensor *a, const interp_tensor *b,
                         dot_sizes z, interp_tensor *out) {
  interp_rounding r = lw__interp_rounding(out->dtype, 0);
  for (int64_t e = 0; e < out->count; e++) {
    int64_t col = e % z.n, row = e / z.n, batch = row / z.m;
    interp_sum sum = {0};
    for (int64_t k = 0; k < z.k; k++) {
      lw__interp_sum_add(&sum, product_term(a, row * z.k + k, b, (batch * z.k + k) * z.n + col));
    }
    product_put(run, out, e, &sum, &r);
  }
}

static lw_status dot_finite(const interp_tensor *a, const interp_tensor *b, dot_sizes z,
                            interp_tensor *out) {
  interp_rounding r = lw__interp_rounding(out->dtype, 0);
  factor fa = {0}, fb = {0};
  product_sums sums = {0};
  lw_status status;
  if ((status = factor_init(a, &fa)) != LW_OK) goto done;
  if ((status = factor_init(b, &fb)) != LW_OK) goto done;
  if ((status = product_sums_init(&sums, z.n)) != LW_OK) goto done;
  for (int64_t row = 0; row < z.batch * z.m; row++) {
    product_sums_clear(&sums, z.n);
    for (int64_t k = 0; k < z.k; k++) {
      product_sums_add(&sums, 0, z.n, &fa, row * z.k + k, &fb, (row / z.m * z.k + k) * z.n, 1);
    }
    product_sums_store(&sums, z.n, z.k, &r, out, row * z.n);
  }
done:
  lw__mem_free(fa.memory);
  lw__mem_free(fb.memory);
  lw__mem_free(sums.value);
  return status;
}

lw_status lw__interp_dot(interp_run *run, const lw_node *node, const interp_tensor *const *in,
                         interp_tensor *out) {
  (void)node;
  const interp_tensor *a = in[0], *b = in[1];
  uint32_t rank = a->rank;
  dot_sizes z = {lw__interp_span(a, 0, rank - 2), a->dim[rank - 2], b->dim[rank - 1],
                 a->dim[rank - 1]};
  if (out->f == NULL) {
    dot_int(a, b, z, out);
    return LW_OK;
  }
  if (all_finite(a) && all_finite(b)) return dot_finite(a, b, z, out);
  dot_by_terms(run, a, b, z, out);
  return LW_OK;
}

/* ---- conv ------------------------------------------------------------------------------------
 * With |spatial| below 3 the missing dims come first, with extent 1. A transposed convolution is
 * written as what it gathers: result o takes x at i where o = i * stride + tap * dilation -
 * pad_lo. */

typedef struct conv_sizes {
  int64_t n, m, group, c_per_group, m_per_group;
  int64_t x[3], w[3], o[3], stride[3], dilation[3], pad[3];
  bool transposed;
} conv_sizes;

static conv_sizes conv_sizes_of(const lw_conv_attr *attr, const interp_tensor *x,
                                const interp_tensor *w, const interp_tensor *out) {
  conv_sizes z = {
      .n = x->dim[0], .m = out->dim[1], .group = attr->group, .transposed = attr->transposed};
  z.c_per_group = x->dim[1] / attr->group;
  z.m_per_group = z.m / attr->group;
  for (uint32_t s = 0; s < 3; s++) {
    z.x[s] = z.w[s] = z.o[s] = z.stride[s] = z.dilation[s] = 1;
    if (s + attr->spatial < 3) continue;
    uint32_t from = s + attr->spatial - 3;
    z.x[s] = x->dim[2 + from];
    z.w[s] = w->dim[2 + from];
    z.o[s] = out->dim[2 + from];
    z.stride[s] = attr->stride[from];
    z.dilation[s] = attr->dilation[from];
    z.pad[s] = attr->pad_lo[from];
  }
  return z;
}

/* Position in x of tap |t| for result position |o| along spatial dim |s|, or -1. */
static int64_t conv_position(const conv_sizes *z, int s, int64_t o, int64_t t) {
  int64_t i;
  if (z->transposed) {
    int64_t reached = o + z->pad[s] - t * z->dilation[s];
    if (reached < 0 || reached % z->stride[s] != 0) return -1;
    i = reached / z->stride[s];
  } else {
    i = o * z->stride[s] - z->pad[s] + t * z->dilation[s];
  }
  return i >= 0 && i < z->x[s] ? i : -1;
}

/* Row-major offset of the weight's spatial taps for input channel |c| and output channel |m| (both
 * within group g). */
static int64_t conv_weight(const conv_sizes *z, int64_t g, int64_t c, int64_t m) {
  int64_t taps = z->w[0] * z->w[1] * z->w[2];
  int64_t channel = z->transposed ? (g * z->c_per_group + c) * z->m_per_group + m
                                  : (g * z->m_per_group + m) * z->c_per_group + c;
  return channel * taps;
}

/* The result positions [first, last) along the last dim for which tap |t| reads inside x; the
 * position in x is i0 + (o - first) * stride. Not for transposed convolutions. */
static void conv_inside(const conv_sizes *z, int64_t t, int64_t *out_first, int64_t *out_last) {
  int64_t shift = t * z->dilation[2] - z->pad[2], stride = z->stride[2];
  int64_t first = shift >= 0 ? 0 : lw__ceil_div(-shift, stride);
  int64_t last = z->x[2] - 1 - shift < 0 ? 0 : (z->x[2] - 1 - shift) / stride + 1;
  *out_first = lw__min_i64(first, z->o[2]);
  *out_last = lw__min_i64(last, z->o[2]);
}

/* Adds one tap row: result row of |s| gets weight tap (.., t) times the x row at |x_row|. */
static void conv_add_row(const conv_sizes *z, const factor *x, const factor *w, int64_t x_row,
                         int64_t w_at, int64_t t, product_sums *s, int64_t out_row) {
  if (!z->transposed) {
    int64_t first, last;
    conv_inside(z, t, &first, &last);
    int64_t x_at = x_row + first * z->stride[2] - z->pad[2] + t * z->dilation[2];
    if (last > first)
      product_sums_add(s, out_row + first, last - first, w, w_at, x, x_at, z->stride[2]);
    return;
  }
  for (int64_t o = 0; o < z->o[2]; o++) {
    int64_t i = conv_position(z, 2, o, t);
    if (i >= 0) product_sums_add(s, out_row + o, 1, w, w_at, x, x_row + i, 1);
  }
}

/* One input channel into one output plane. */
static void conv_add_channel(const conv_sizes *z, const factor *x, const factor *w, int64_t x_base,
                             int64_t w_base, product_sums *s) {
  for (int64_t t0 = 0; t0 < z->w[0]; t0++) {
    for (int64_t t1 = 0; t1 < z->w[1]; t1++) {
      for (int64_t rows = 0; rows < z->o[0] * z->o[1]; rows++) {
        int64_t i0 = conv_position(z, 0, rows / z->o[1], t0),
                i1 = conv_position(z, 1, rows % z->o[1], t1);
        if (i0 < 0 || i1 < 0) continue;
        int64_t x_row = x_base + (i0 * z->x[1] + i1) * z->x[2];
        for (int64_t t2 = 0; t2 < z->w[2]; t2++) {
          int64_t w_at = w_base + (t0 * z->w[1] + t1) * z->w[2] + t2;
          conv_add_row(z, x, w, x_row, w_at, t2, s, rows * z->o[2]);
        }
      }
    }
  }
}

static lw_status conv_finite(const interp_tensor *x, const interp_tensor *w, const conv_sizes *z,
                             interp_tensor *out) {
  interp_rounding r = lw__interp_rounding(out->dtype, 0);
  int64_t plane = z->o[0] * z->o[1] * z->o[2], x_plane = z->x[0] * z->x[1] * z->x[2];
  int64_t terms = z->c_per_group * z->w[0] * z->w[1] * z->w[2];
  factor fx = {0}, fw = {0};
  product_sums sums = {0};
  lw_status status;
  if ((status = factor_init(x, &fx)) != LW_OK) goto done;
  if ((status = factor_init(w, &fw)) != LW_OK) goto done;
  if ((status = product_sums_init(&sums, plane)) != LW_OK) goto done;
  for (int64_t nm = 0; nm < z->n * z->m; nm++) {
    int64_t n = nm / z->m, g = nm % z->m / z->m_per_group, m = nm % z->m_per_group;
    product_sums_clear(&sums, plane);
    for (int64_t c = 0; c < z->c_per_group; c++) {
      int64_t x_base = ((n * z->group + g) * z->c_per_group + c) * x_plane;
      conv_add_channel(z, &fx, &fw, x_base, conv_weight(z, g, c, m), &sums);
    }
    product_sums_store(&sums, plane, terms, &r, out, nm * plane);
  }
done:
  lw__mem_free(fx.memory);
  lw__mem_free(fw.memory);
  lw__mem_free(sums.value);
  return status;
}

/* Offset of the x element that tap number |t| reads for result element |o| (both linear over the
 * spatial dims), or -1. */
static int64_t conv_source(const conv_sizes *z, int64_t o, int64_t t) {
  int64_t at = 0, at_step = 1;
  for (int s = 2; s >= 0; s--) {
    int64_t i = conv_position(z, s, o % z->o[s], t % z->w[s]);
    if (i < 0) return -1;
    at += i * at_step;
    at_step *= z->x[s];
    o /= z->o[s];
    t /= z->w[s];
  }
  return at;
}

typedef void conv_term(void *context, const interp_tensor *x, int64_t x_at, const interp_tensor *w,
                       int64_t w_at);

/* Calls |term| for every product of result element |k|. */
static void conv_each_term(const conv_sizes *z, const interp_tensor *x, const interp_tensor *w,
                           int64_t k, conv_term *term, void *context) {
  int64_t plane = z->o[0] * z->o[1] * z->o[2], x_plane = z->x[0] * z->x[1] * z->x[2];
  int64_t taps = z->w[0] * z->w[1] * z->w[2], nm = k / plane;
  int64_t n = nm / z->m, g = nm % z->m / z->m_per_group, m = nm % z->m_per_group;
  for (int64_t c = 0; c < z->c_per_group; c++) {
    int64_t x_base = ((n * z->group + g) * z->c_per_group + c) * x_plane,
            w_base = conv_weight(z, g, c, m);
    for (int64_t t = 0; t < taps; t++) {
      int64_t source = conv_source(z, k % plane, t);
      if (source >= 0) term(context, x, x_base + source, w, w_base + t);
    }
  }
}

static void conv_float_term(void *context, const interp_tensor *x, int64_t x_at,
                            const interp_tensor *w, int64_t w_at) {
  lw__interp_sum_add(context, product_term(x, x_at, w, w_at));
}

typedef struct conv_int_sum {
  int64_t acc;
  uint8_t unknown;
} conv_int_sum;

static void conv_int_term(void *context, const interp_tensor *x, int64_t x_at,
                          const interp_tensor *w, int64_t w_at) {
  conv_int_sum *s = context;
  int64_t product = lw__fn_eval_i64(LW_FN_MUL, x->dtype, x->i[x_at], w->i[w_at], 0);
  s->acc = lw__fn_eval_i64(LW_FN_ADD, x->dtype, s->acc, product, 0);
  s->unknown |= lw__interp_unknown(x, x_at) | lw__interp_unknown(w, w_at);
}

static void conv_by_terms(const interp_run *run, const interp_tensor *x, const interp_tensor *w,
                          const conv_sizes *z, interp_tensor *out) {
  interp_rounding r = lw__interp_rounding(out->dtype, 0);
  for (int64_t k = 0; k < out->count; k++) {
    if (out->f == NULL) {
      conv_int_sum s = {0};
      conv_each_term(z, x, w, k, conv_int_term, &s);
      out->i[k] = s.acc;
      lw__interp_mark(out, k, s.unknown);
    } else {
      interp_sum sum = {0};
      conv_each_term(z, x, w, k, conv_float_term, &sum);
      product_put(run, out, k, &sum, &r);
    }
  }
}

lw_status lw__interp_conv(interp_run *run, const lw_node *node, const interp_tensor *const *in,
                          interp_tensor *out) {
  conv_sizes z = conv_sizes_of(&node->attr.conv, in[0], in[1], out);
  if (out->count == 0) return LW_OK;
  if (out->f != NULL && all_finite(in[0]) && all_finite(in[1]))
    return conv_finite(in[0], in[1], &z, out);
  conv_by_terms(run, in[0], in[1], &z, out);
  return LW_OK;
}

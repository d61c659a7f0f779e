/* extent.c: arithmetic on extents that need not be numbers. Every expression is a polynomial over
 * atoms (symbols, floor divisions, moduli, minima, maxima) in one canonical order, so that equal
 * polynomials get equal ids. Terms are ordered by structure, never by id: the text form does not
 * depend on what was built first. */
#include <string.h>

#include "graph/infer.h"

enum {
  POLY_TERMS = 16,  /* of one sum */
  POLY_FACTORS = 6, /* of one product */
  EXPR_SIZE = 128,  /* operators and operands; bounds every recursion in this file */
};
#define UNBOUNDED (INT64_C(1) << 62) /* ends of ranges saturate here */

typedef struct poly_term {
  int64_t coef;
  uint32_t degree; /* number of atoms; 0: the constant term */
  uint32_t atom[POLY_FACTORS];
} poly_term;

typedef struct poly {
  lw_status fault; /* sticky: MODEL_INVALID overflow, UNSUPPORTED too many terms or factors */
  uint32_t count;
  poly_term term[POLY_TERMS]; /* ordered, no zero coefficients, the constant last */
} poly;

static const lw_extent_node *entry(const lw_extent_table *t, uint32_t id) {
  return &t->nodes.data[id];
}
static uint32_t id_of(lw_xval x) { return (uint32_t)~x.v; }
static lw_xval operand_a(const lw_extent_node *n) {
  return (lw_xval){n->a_is_literal, false, n->a};
}
static lw_xval operand_b(const lw_extent_node *n) {
  return (lw_xval){n->b_is_literal, false, n->b};
}

bool lw__extent_is_valid(const lw_graph *graph, lw_extent e) {
  return e >= 0 || (uint64_t)~e < graph->extents.nodes.count;
}

void lw__extent_table_deinit(lw_extent_table *table) {
  lw_vec_free(&table->nodes);
  lw__mem_free(table->index);
  table->index = NULL;
  table->index_size = 0;
}

/* ---- order ------------------------------------------------------------------------------------*/

static int compare_entries(const lw_extent_table *t, uint32_t x, uint32_t y);

static int compare_operands(const lw_extent_table *t, lw_xval x, lw_xval y) {
  if (x.literal != y.literal) return x.literal ? 1 : -1;
  if (x.literal) return (x.v > y.v) - (x.v < y.v);
  return compare_entries(t, id_of(x), id_of(y));
}

static int compare_entries(const lw_extent_table *t, uint32_t x, uint32_t y) {
  if (x == y) return 0;
  const lw_extent_node *p = entry(t, x), *q = entry(t, y);
  if (p->op != q->op) return p->op < q->op ? -1 : 1;
  if (p->op == LW_EXTENT_SYMBOL) return strcmp(p->symbol, q->symbol);
  int order = compare_operands(t, operand_a(p), operand_a(q));
  return order != 0 ? order : compare_operands(t, operand_b(p), operand_b(q));
}

static int compare_terms(const lw_extent_table *t, const poly_term *x, const poly_term *y) {
  if (x->degree == 0 || y->degree == 0) return (x->degree == 0) - (y->degree == 0);
  for (uint32_t i = 0; i < x->degree && i < y->degree; i++) {
    int order = compare_entries(t, x->atom[i], y->atom[i]);
    if (order != 0) return order;
  }
  return (x->degree > y->degree) - (x->degree < y->degree);
}

/* ---- ranges and divisors ----------------------------------------------------------------------*/

typedef struct interval {
  int64_t lo, hi;
} interval;

static int64_t clamp_end(int64_t x) {
  return x > UNBOUNDED ? UNBOUNDED : x < -UNBOUNDED ? -UNBOUNDED : x;
}

static int64_t saturated_mul(int64_t a, int64_t b) {
  int64_t x = 0;
  if (!lw__mul_i64(a, b, &x)) x = (a < 0) == (b < 0) ? UNBOUNDED : -UNBOUNDED;
  return clamp_end(x);
}

static interval interval_add(interval a, interval b) { /* the ends are below 2^62: no overflow */
  interval sum = {-UNBOUNDED, UNBOUNDED};
  if (a.lo > -UNBOUNDED && b.lo > -UNBOUNDED) sum.lo = clamp_end(a.lo + b.lo);
  if (a.hi < UNBOUNDED && b.hi < UNBOUNDED) sum.hi = clamp_end(a.hi + b.hi);
  return sum;
}

static interval interval_of_corners(const int64_t corner[4]) {
  interval all = {corner[0], corner[0]};
  for (int i = 1; i < 4; i++) {
    all.lo = lw__min_i64(all.lo, corner[i]);
    all.hi = lw__max_i64(all.hi, corner[i]);
  }
  return all;
}

static interval interval_mul(interval a, interval b) {
  return interval_of_corners((int64_t[4]){saturated_mul(a.lo, b.lo), saturated_mul(a.lo, b.hi),
                                          saturated_mul(a.hi, b.lo), saturated_mul(a.hi, b.hi)});
}

static int64_t floor_div_end(int64_t a, int64_t b) {
  return a >= UNBOUNDED || a <= -UNBOUNDED ? a : lw__floor_div(a, b);
}

/* A divisor that may be zero or less has no value there: the range is that of the divisors that do.
 */
static interval interval_floordiv(interval a, interval b) {
  int64_t lo = lw__max_i64(b.lo, 1), hi = lw__max_i64(b.hi, lo);
  return interval_of_corners((int64_t[4]){floor_div_end(a.lo, lo), floor_div_end(a.lo, hi),
                                          floor_div_end(a.hi, lo), floor_div_end(a.hi, hi)});
}

static interval range_of_xval(const lw_extent_table *t, lw_xval x) {
  if (x.literal) return (interval){clamp_end(x.v), clamp_end(x.v)};
  return (interval){entry(t, id_of(x))->lo, entry(t, id_of(x))->hi};
}

static interval range_of_result(lw_extent_op op, interval a, interval b) {
  switch (op) {
    case LW_EXTENT_ADD: return interval_add(a, b);
    case LW_EXTENT_MUL: return interval_mul(a, b);
    case LW_EXTENT_FLOORDIV: return interval_floordiv(a, b);
    case LW_EXTENT_MOD: return (interval){0, lw__max_i64(b.hi - 1, 0)};
    case LW_EXTENT_MIN: return (interval){lw__min_i64(a.lo, b.lo), lw__min_i64(a.hi, b.hi)};
    case LW_EXTENT_MAX: return (interval){lw__max_i64(a.lo, b.lo), lw__max_i64(a.hi, b.hi)};
    case LW_EXTENT_SYMBOL: break;
  }
  return (interval){0, INT32_MAX};
}

static int64_t gcd_of(int64_t a, int64_t b) { /* a, b >= 0; gcd(0, b) = b */
  while (b != 0) {
    int64_t r = a % b;
    a = b;
    b = r;
  }
  return a;
}

static int64_t magnitude(int64_t x) {
  return x >= 0 ? x : x == INT64_MIN ? 1 : -x;
} /* 1: knows nothing */

/* A number that divides |x|; 0 for the number 0. */
static int64_t divisor_of(const lw_extent_table *t, lw_xval x) {
  return x.literal ? magnitude(x.v) : entry(t, id_of(x))->divisor;
}

static int64_t divisor_of_result(lw_extent_op op, int64_t a, int64_t b, bool b_is_literal) {
  int64_t product = 1;
  switch (op) {
    case LW_EXTENT_MUL: return lw__mul_i64(a, b, &product) ? product : lw__max_i64(a, b);
    case LW_EXTENT_FLOORDIV: return b_is_literal && a % b == 0 ? a / b : 1;
    case LW_EXTENT_SYMBOL: return 1;
    default: return gcd_of(a, b);
  }
}

static interval range_of_poly(const lw_extent_table *t, const poly *p) {
  interval sum = {0, 0};
  for (uint32_t i = 0; i < p->count; i++) {
    const poly_term *term = &p->term[i];
    interval product = {clamp_end(term->coef), clamp_end(term->coef)};
    for (uint32_t k = 0; k < term->degree; k++) {
      const lw_extent_node *atom = entry(t, term->atom[k]);
      product = interval_mul(product, (interval){atom->lo, atom->hi});
    }
    sum = interval_add(sum, product);
  }
  return sum;
}

/* Divides every term but the constant; 0 when there are none. */
static int64_t divisor_of_terms(const lw_extent_table *t, const poly *p) {
  int64_t divisor = 0;
  for (uint32_t i = 0; i < p->count && p->term[i].degree != 0; i++) {
    int64_t d = magnitude(p->term[i].coef);
    for (uint32_t k = 0; k < p->term[i].degree; k++) {
      d = divisor_of_result(LW_EXTENT_MUL, d, entry(t, p->term[i].atom[k])->divisor, false);
    }
    divisor = gcd_of(divisor, d);
  }
  return divisor;
}

/* ---- polynomials ------------------------------------------------------------------------------*/

static int64_t poly_constant(const poly *p) {
  return p->count > 0 && p->term[p->count - 1].degree == 0 ? p->term[p->count - 1].coef : 0;
}
static bool is_constant(const poly *p) { return p->count == 0 || p->term[0].degree == 0; }

static void poly_set_fault(poly *p, lw_status fault) {
  if (p->fault == LW_OK) p->fault = fault;
}

static void poly_add_term(const lw_extent_table *t, poly *p, const poly_term *term) {
  uint32_t at = 0;
  int order = 1;
  while (at < p->count && (order = compare_terms(t, &p->term[at], term)) < 0) at++;
  if (at < p->count && order == 0) {
    if (!lw__add_i64(p->term[at].coef, term->coef, &p->term[at].coef)) {
      poly_set_fault(p, LW_STATUS_MODEL_INVALID);
    } else if (p->term[at].coef == 0) {
      p->count--;
      memmove(&p->term[at], &p->term[at + 1], (p->count - at) * sizeof p->term[0]);
    }
  } else if (term->coef != 0) {
    if (p->count == POLY_TERMS) {
      poly_set_fault(p, LW_STATUS_UNSUPPORTED);
      return;
    }
    memmove(&p->term[at + 1], &p->term[at], (p->count - at) * sizeof p->term[0]);
    p->term[at] = *term;
    p->count++;
  }
}

static void poly_add_constant(const lw_extent_table *t, poly *p, int64_t c) {
  poly_add_term(t, p, &(poly_term){.coef = c});
}

static void poly_add_scaled(const lw_extent_table *t, poly *p, const poly *q, int64_t scale) {
  poly_set_fault(p, q->fault);
  for (uint32_t i = 0; i < q->count; i++) {
    poly_term term = q->term[i];
    if (!lw__mul_i64(term.coef, scale, &term.coef)) {
      poly_set_fault(p, LW_STATUS_MODEL_INVALID);
      return;
    }
    poly_add_term(t, p, &term);
  }
}

static lw_status term_multiply(const lw_extent_table *t, const poly_term *a, const poly_term *b,
                               poly_term *out) {
  if (a->degree + b->degree > POLY_FACTORS) return LW_STATUS_UNSUPPORTED;
  if (!lw__mul_i64(a->coef, b->coef, &out->coef)) return LW_STATUS_MODEL_INVALID;
  out->degree = 0;
  for (uint32_t i = 0, k = 0; i < a->degree || k < b->degree;) {
    bool from_a =
        k == b->degree || (i < a->degree && compare_entries(t, a->atom[i], b->atom[k]) <= 0);
    out->atom[out->degree++] = from_a ? a->atom[i++] : b->atom[k++];
  }
  return LW_OK;
}

static void poly_multiply(const lw_extent_table *t, const poly *a, const poly *b, poly *out) {
  poly_set_fault(out, a->fault);
  poly_set_fault(out, b->fault);
  for (uint32_t i = 0; i < a->count; i++) {
    for (uint32_t k = 0; k < b->count && out->fault == LW_OK; k++) {
      poly_term product = {0};
      poly_set_fault(out, term_multiply(t, &a->term[i], &b->term[k], &product));
      if (out->fault == LW_OK) poly_add_term(t, out, &product);
    }
  }
}

/* Reads one term as poly_build writes it: ((atom * atom) * atom) * coefficient. */
static poly_term term_of(const lw_extent_table *t, lw_xval x) {
  poly_term term = {.coef = 1};
  uint32_t reversed[POLY_FACTORS], count = 0;
  while (!x.literal && entry(t, id_of(x))->op == LW_EXTENT_MUL) {
    const lw_extent_node *n = entry(t, id_of(x));
    if (n->b_is_literal) {
      term.coef = n->b;
    } else {
      reversed[count++] = id_of(operand_b(n));
    }
    x = operand_a(n);
  }
  if (x.literal) {
    term.coef = x.v;
    return term;
  }
  reversed[count++] = id_of(x);
  while (count > 0) term.atom[term.degree++] = reversed[--count];
  return term;
}

/* Reads a sum as poly_build writes it: ((term + term) + term) + constant. */
static void poly_of(const lw_extent_table *t, lw_xval x, poly *out) {
  lw_xval reversed[POLY_TERMS];
  uint32_t count = 0;
  while (!x.literal && entry(t, id_of(x))->op == LW_EXTENT_ADD) {
    reversed[count++] = operand_b(entry(t, id_of(x)));
    x = operand_a(entry(t, id_of(x)));
  }
  out->fault = LW_OK;
  out->count = 0;
  if (x.literal && x.v == 0) return;
  reversed[count++] = x;
  while (count > 0) out->term[out->count++] = term_of(t, reversed[--count]);
}

/* ---- hash-consing -----------------------------------------------------------------------------*/

static uint32_t hash_entry(const lw_extent_node *n) {
  lw_hash seed = {0, 0};
  if (n->op == LW_EXTENT_SYMBOL) {
    return (uint32_t)lw__hash_bytes(n->symbol, strlen(n->symbol), seed).lo;
  }
  int64_t key[4] = {(int64_t)n->op, n->a, n->b, n->a_is_literal + 2 * n->b_is_literal};
  return (uint32_t)lw__hash_bytes(key, sizeof key, seed).lo;
}

static bool same_entry(const lw_extent_node *x, const lw_extent_node *y) {
  if (x->op != y->op) return false;
  if (x->op == LW_EXTENT_SYMBOL) return strcmp(x->symbol, y->symbol) == 0;
  return x->a == y->a && x->b == y->b && x->a_is_literal == y->a_is_literal &&
         x->b_is_literal == y->b_is_literal;
}

/* The slot that holds |n|'s equal, or the free one where it belongs. */
static uint32_t *find_slot(const lw_extent_table *t, const lw_extent_node *n) {
  uint32_t mask = t->index_size - 1, at = hash_entry(n) & mask;
  while (t->index[at] != LW_NONE && !same_entry(entry(t, t->index[at]), n)) at = (at + 1) & mask;
  return &t->index[at];
}

static lw_status grow_index(lw_extent_table *t) {
  if (t->nodes.count > UINT32_MAX / 8) return LW_STATUS_OUT_OF_MEMORY;
  uint32_t size = t->index_size == 0 ? 64 : t->index_size * 2;
  void *index = NULL;
  LW_TRY(lw__mem_resize(&index, size * sizeof(uint32_t)));
  memset(index, 0xff, size * sizeof(uint32_t));
  lw__mem_free(t->index);
  t->index = index;
  t->index_size = size;
  for (uint32_t i = 0; i < t->nodes.count; i++) *find_slot(t, entry(t, i)) = i;
  return LW_OK;
}

static lw_status intern_entry(lw_extent_table *t, const lw_extent_node *n, uint32_t *out_id) {
  if (t->nodes.count * 2 >= t->index_size) LW_TRY(grow_index(t));
  uint32_t *slot = find_slot(t, n);
  if (*slot == LW_NONE) {
    LW_TRY(lw_vec_push(&t->nodes, *n));
    *slot = t->nodes.count - 1;
  }
  *out_id = *slot;
  return LW_OK;
}

static uint32_t size_of(const lw_extent_table *t, lw_xval x) {
  return x.literal ? 1 : entry(t, id_of(x))->size;
}

static lw_status make_entry(lw_graph *g, lw_extent_op op, lw_xval a, lw_xval b, lw_xval *out) {
  lw_extent_table *t = &g->extents;
  lw_extent_node n = {
      .op = op, .a = a.v, .b = b.v, .a_is_literal = a.literal, .b_is_literal = b.literal};
  n.size = size_of(t, a) + size_of(t, b) + 1;
  if (n.size > EXPR_SIZE) return LW_STATUS_UNSUPPORTED;
  interval range = range_of_result(op, range_of_xval(t, a), range_of_xval(t, b));
  n.lo = range.lo;
  n.hi = range.hi;
  n.divisor = lw__max_i64(divisor_of_result(op, divisor_of(t, a), divisor_of(t, b), b.literal), 1);
  uint32_t id = 0;
  LW_TRY(intern_entry(t, &n, &id));
  *out = (lw_xval){false, false, ~(int64_t)id};
  return LW_OK;
}

static lw_status build_poly_term(lw_graph *g, const poly_term *term, lw_xval *out) {
  if (term->degree == 0) {
    *out = lw__xval_literal(term->coef);
    return LW_OK;
  }
  *out = (lw_xval){false, false, ~(int64_t)term->atom[0]};
  for (uint32_t i = 1; i < term->degree; i++) {
    lw_xval factor = {false, false, ~(int64_t)term->atom[i]};
    LW_TRY(make_entry(g, LW_EXTENT_MUL, *out, factor, out));
  }
  return term->coef == 1 ? LW_OK
                         : make_entry(g, LW_EXTENT_MUL, *out, lw__xval_literal(term->coef), out);
}

static lw_status poly_build(lw_graph *g, const poly *p, lw_xval *out) {
  if (p->fault != LW_OK) return p->fault;
  if (p->count == 0) {
    *out = lw__xval_literal(0);
    return LW_OK;
  }
  lw_xval sum = {0};
  LW_TRY(build_poly_term(g, &p->term[0], &sum));
  for (uint32_t i = 1; i < p->count; i++) {
    lw_xval term = {0};
    LW_TRY(build_poly_term(g, &p->term[i], &term));
    LW_TRY(make_entry(g, LW_EXTENT_ADD, sum, term, &sum));
  }
  *out = sum;
  return LW_OK;
}

static lw_status combine_xvals(lw_graph *g, lw_extent_op op, lw_xval a, lw_xval b, lw_xval *out);

/* ---- division ---------------------------------------------------------------------------------*/

/* a = b * quotient + rest with every coefficient of |rest| in 0 .. b-1. */
static void split_by_number(const lw_extent_table *t, const poly *a, int64_t b, poly *quotient,
                            poly *rest) {
  for (uint32_t i = 0; i < a->count; i++) {
    poly_term term = a->term[i];
    term.coef = lw__floor_div(a->term[i].coef, b);
    poly_add_term(t, quotient, &term);
    term.coef = lw__floor_mod(a->term[i].coef, b);
    poly_add_term(t, rest, &term);
  }
}

/* Where |p| is one atom of |op| by a number, plus a constant: that atom; else NULL. */
static const lw_extent_node *lone_atom(const lw_extent_table *t, const poly *p, lw_extent_op op) {
  if (is_constant(p) || p->term[0].degree != 1 || p->term[0].coef != 1) return NULL;
  if (p->count > 1 && p->term[1].degree != 0) return NULL;
  const lw_extent_node *atom = entry(t, p->term[0].atom[0]);
  return atom->op == op && atom->b_is_literal ? atom : NULL;
}

/* Coefficients divided by |g|, which divides all but the constant; that is rounded down. */
static void divide_coefficients(poly *p, int64_t g) {
  for (uint32_t i = 0; i < p->count; i++) p->term[i].coef = lw__floor_div(p->term[i].coef, g);
  if (p->count > 0 && p->term[p->count - 1].coef == 0) p->count--;
}

static int64_t gcd_of_coefficients(const poly *p, int64_t with) {
  for (uint32_t i = 0; i < p->count && p->term[i].degree != 0; i++) {
    with = gcd_of(with, magnitude(p->term[i].coef));
  }
  return with;
}

/* rest / b for a |rest| that split_by_number left over, added to |quotient|. */
static lw_status add_floordiv_of_rest(lw_graph *g, poly *rest, int64_t b, poly *quotient) {
  const lw_extent_table *t = &g->extents;
  int64_t common = gcd_of_coefficients(rest, b);
  divide_coefficients(rest, common);
  b /= common;
  interval range = range_of_poly(t, rest);
  if (is_constant(rest) || (range.lo >= 0 && range.hi < b)) {
    poly_add_constant(t, quotient, is_constant(rest) ? poly_constant(rest) / b : 0);
    return LW_OK;
  }
  if (b == 1) {
    poly_add_scaled(t, quotient, rest, 1);
    return LW_OK;
  }
  lw_xval result = {0}, dividend = {0};
  const lw_extent_node *inner = lone_atom(t, rest, LW_EXTENT_FLOORDIV);
  int64_t shift = 0, product = 0;
  poly partial = {0};
  if (inner != NULL && lw__mul_i64(inner->b, b, &product) &&
      lw__mul_i64(poly_constant(rest), inner->b, &shift)) {
    /* (x / k + c) / b = (x + c*k) / (k*b) */
    lw_xval x = operand_a(inner);
    LW_TRY(combine_xvals(g, LW_EXTENT_ADD, x, lw__xval_literal(shift), &dividend));
    LW_TRY(combine_xvals(g, LW_EXTENT_FLOORDIV, dividend, lw__xval_literal(product), &result));
  } else {
    LW_TRY(poly_build(g, rest, &dividend));
    LW_TRY(make_entry(g, LW_EXTENT_FLOORDIV, dividend, lw__xval_literal(b), &result));
  }
  poly_of(&g->extents, result, &partial);
  poly_add_scaled(&g->extents, quotient, &partial, 1);
  return LW_OK;
}

static lw_status floordiv_by_number(lw_graph *g, const poly *a, int64_t b, lw_xval *out) {
  poly quotient = {0}, rest = {0};
  split_by_number(&g->extents, a, b, &quotient, &rest);
  LW_TRY(add_floordiv_of_rest(g, &rest, b, &quotient));
  return poly_build(g, &quotient, out);
}

/* One step of mod_by_number on a non-constant |rest| with coefficients in 1 .. b-1. */
static lw_status mod_of_rest(lw_graph *g, poly *rest, int64_t b, lw_xval *out) {
  const lw_extent_table *t = &g->extents;
  int64_t common = gcd_of_coefficients(rest, b), low = lw__floor_mod(poly_constant(rest), common);
  divide_coefficients(rest, common);
  b /= common;
  interval range = range_of_poly(t, rest);
  lw_xval inner = {0};
  const lw_extent_node *nested = lone_atom(t, rest, LW_EXTENT_MOD);
  if (b == 1) {
    inner = lw__xval_literal(0);
  } else if (range.lo >= 0 && range.hi < b) {
    LW_TRY(poly_build(g, rest, &inner));
  } else if (gcd_of(divisor_of_terms(t, rest), b) == b) {
    inner = lw__xval_literal(lw__floor_mod(poly_constant(rest), b));
  } else if (nested != NULL && nested->b % b == 0) { /* (x % (k*b) + c) % b = (x + c) % b */
    lw_xval x = operand_a(nested);
    LW_TRY(combine_xvals(g, LW_EXTENT_ADD, x, lw__xval_literal(poly_constant(rest)), &inner));
    LW_TRY(combine_xvals(g, LW_EXTENT_MOD, inner, lw__xval_literal(b), &inner));
  } else {
    LW_TRY(poly_build(g, rest, &inner));
    LW_TRY(make_entry(g, LW_EXTENT_MOD, inner, lw__xval_literal(b), &inner));
  }
  LW_TRY(combine_xvals(g, LW_EXTENT_MUL, inner, lw__xval_literal(common), &inner));
  return combine_xvals(g, LW_EXTENT_ADD, inner, lw__xval_literal(low), out);
}

static lw_status mod_by_number(lw_graph *g, const poly *a, int64_t b, lw_xval *out) {
  poly quotient = {0}, rest = {0};
  split_by_number(&g->extents, a, b, &quotient, &rest);
  if (is_constant(&rest)) {
    *out = lw__xval_literal(poly_constant(&rest));
    return LW_OK;
  }
  return mod_of_rest(g, &rest, b, out);
}

/* term / by, where every atom and the coefficient divide exactly. */
static bool term_divide(const poly_term *term, const poly_term *by, poly_term *out) {
  if (by->coef == -1 ? term->coef == INT64_MIN : term->coef % by->coef != 0) return false;
  *out = (poly_term){.coef = term->coef / by->coef};
  uint32_t k = 0;
  for (uint32_t i = 0; i < term->degree; i++) {
    if (k < by->degree && term->atom[i] == by->atom[k]) {
      k++;
    } else {
      out->atom[out->degree++] = term->atom[i];
    }
  }
  return k == by->degree;
}

/* a / b where b is one term that divides every term of a, or a is a multiple of b. A b that might
 * be zero is no obstacle: there the quotient has no value, so any value is as good. */
static bool divide_exactly(const lw_extent_table *t, const poly *a, const poly *b, poly *out) {
  poly_term first = {0};
  if (b->count == 1) {
    for (uint32_t i = 0; i < a->count; i++) {
      if (!term_divide(&a->term[i], &b->term[0], &first)) return false;
      poly_add_term(t, out, &first);
    }
    return true;
  }
  if (a->count == 0 || !term_divide(&a->term[0], &b->term[0], &first) || first.degree != 0)
    return false;
  poly difference = *a;
  if (first.coef == INT64_MIN) return false;
  poly_add_scaled(t, &difference, b, -first.coef);
  poly_add_constant(t, out, first.coef);
  return difference.fault == LW_OK && difference.count == 0;
}

static lw_status divide(lw_graph *g, lw_extent_op op, const poly *a, const poly *b, lw_xval *out) {
  if (is_constant(b)) {
    int64_t number = poly_constant(b);
    if (number <= 0) return LW_STATUS_USAGE;
    return op == LW_EXTENT_MOD ? mod_by_number(g, a, number, out)
                               : floordiv_by_number(g, a, number, out);
  }
  poly quotient = {0};
  if (divide_exactly(&g->extents, a, b, &quotient) && quotient.fault == LW_OK) {
    if (op == LW_EXTENT_MOD) quotient.count = 0;
    return poly_build(g, &quotient, out);
  }
  lw_xval x = {0}, y = {0};
  LW_TRY(poly_build(g, a, &x));
  LW_TRY(poly_build(g, b, &y));
  return make_entry(g, op, x, y, out);
}

/* ---- all operations ---------------------------------------------------------------------------*/

static lw_status choose(lw_graph *g, lw_extent_op op, lw_xval a, lw_xval b, const poly *p,
                        const poly *q, lw_xval *out) {
  poly difference = *p;
  poly_add_scaled(&g->extents, &difference, q, -1);
  if (difference.fault == LW_OK) {
    interval range = range_of_poly(&g->extents, &difference);
    if (range.lo >= 0 || range.hi <= 0) {
      *out = (range.lo >= 0) == (op == LW_EXTENT_MAX) ? a : b;
      return LW_OK;
    }
  }
  bool swap = compare_operands(&g->extents, a, b) > 0;
  return make_entry(g, op, swap ? b : a, swap ? a : b, out);
}

static lw_status combine_xvals(lw_graph *g, lw_extent_op op, lw_xval a, lw_xval b, lw_xval *out) {
  poly p, q, result = {0};
  poly_of(&g->extents, a, &p);
  poly_of(&g->extents, b, &q);
  switch (op) {
    case LW_EXTENT_ADD: poly_add_scaled(&g->extents, &p, &q, 1); return poly_build(g, &p, out);
    case LW_EXTENT_MUL:
      poly_multiply(&g->extents, &p, &q, &result);
      return poly_build(g, &result, out);
    case LW_EXTENT_FLOORDIV:
    case LW_EXTENT_MOD: return divide(g, op, &p, &q, out);
    case LW_EXTENT_MIN:
    case LW_EXTENT_MAX: return choose(g, op, a, b, &p, &q, out);
    case LW_EXTENT_SYMBOL: break;
  }
  return LW_STATUS_INTERNAL;
}

static lw_status explain(lw_graph *g, lw_status status) {
  const char *where = lw__graph_where(g);
  switch (status) {
    case LW_OK:
    case LW_STATUS_OUT_OF_MEMORY: return status;
    case LW_STATUS_MODEL_INVALID:
      return lw__fail(g->diag, status, where, "the size of a dimension overflows 64 bits");
    case LW_STATUS_USAGE:
      return lw__fail(g->diag, LW_STATUS_MODEL_INVALID, where,
                      "the size of a dimension is divided by a number that is not positive");
    case LW_STATUS_UNSUPPORTED:
      return lw__fail(
          g->diag, status, where,
          "the size of a dimension is too long an expression of symbols; bind symbols to numbers");
    default: return lw__fail(g->diag, status, where, "bad operation on sizes of dimensions");
  }
}

lw_status lw__extent_combine(lw_graph *graph, lw_extent_op op, lw_xval a, lw_xval b, lw_xval *out) {
  return explain(graph, combine_xvals(graph, op, a, b, out));
}

lw_status lw__extent_make(lw_graph *graph, lw_extent_op op, lw_extent a, lw_extent b,
                          lw_extent *out) {
  if (!lw__extent_is_valid(graph, a) || !lw__extent_is_valid(graph, b))
    return explain(graph, LW_STATUS_INTERNAL);
  lw_xval result = {0};
  LW_TRY(explain(graph, combine_xvals(graph, op, lw__xval_of(a), lw__xval_of(b), &result)));
  return lw__extent_from_xval(graph, result, out);
}

lw_status lw__extent_affine(lw_graph *graph, lw_extent a, int64_t mul, int64_t add,
                            lw_extent *out) {
  if (!lw__extent_is_valid(graph, a)) return explain(graph, LW_STATUS_INTERNAL);
  lw_xval x = lw__xval_of(a);
  LW_TRY(explain(graph, combine_xvals(graph, LW_EXTENT_MUL, x, lw__xval_literal(mul), &x)));
  LW_TRY(explain(graph, combine_xvals(graph, LW_EXTENT_ADD, x, lw__xval_literal(add), &x)));
  return lw__extent_from_xval(graph, x, out);
}

lw_status lw__extent_from_xval(lw_graph *graph, lw_xval x, lw_extent *out) {
  if (x.literal && x.v < 0) {
    return lw__fail(graph->diag, LW_STATUS_MODEL_INVALID, lw__graph_where(graph),
                    "the size of a dimension is negative (%lld)", (long long)x.v);
  }
  *out = x.v;
  return LW_OK;
}

lw_status lw__extent_symbol(lw_graph *graph, const char *name, lw_extent *out) {
  lw_extent_table *t = &graph->extents;
  lw_extent_node n = {
      .op = LW_EXTENT_SYMBOL, .symbol = name, .hi = INT32_MAX, .divisor = 1, .size = 1};
  if (t->index_size == 0) LW_TRY(grow_index(t));
  uint32_t id = *find_slot(t, &n);
  if (id == LW_NONE) {
    LW_TRY(lw__arena_strndup(&graph->arena, name, strlen(name), &n.symbol));
    LW_TRY(intern_entry(t, &n, &id));
  }
  *out = ~(int64_t)id;
  return LW_OK;
}

lw_status lw__extent_substitute(lw_graph *graph, const int64_t *by, uint32_t count, lw_xval *out) {
  for (uint32_t i = 0; i < count; i++) {
    lw_extent_node n = graph->extents.nodes.data[i];
    if (n.op == LW_EXTENT_SYMBOL) {
      out[i] = by[i] >= 0 ? lw__xval_literal(by[i]) : (lw_xval){false, false, ~(int64_t)i};
      continue;
    }
    lw_xval a = n.a_is_literal ? lw__xval_literal(n.a) : out[~n.a];
    lw_xval b = n.b_is_literal ? lw__xval_literal(n.b) : out[~n.b];
    lw_status status = LW_STATUS_USAGE;
    if (!a.impossible && !b.impossible) status = combine_xvals(graph, n.op, a, b, &out[i]);
    if (status == LW_STATUS_OUT_OF_MEMORY) return status;
    if (status != LW_OK) out[i] = (lw_xval){false, true, 0};
  }
  return LW_OK;
}

/* ---- relations --------------------------------------------------------------------------------*/

static lw_relation relation_of_difference(const lw_extent_table *t, const poly *difference) {
  if (difference->fault != LW_OK) return LW_EXTENTS_UNKNOWN;
  if (difference->count == 0) return LW_EXTENTS_EQUAL;
  interval range = range_of_poly(t, difference);
  if (range.lo > 0 || range.hi < 0) return LW_EXTENTS_DIFFER;
  int64_t divisor = divisor_of_terms(t, difference);
  bool never_zero = divisor > 1 && poly_constant(difference) % divisor != 0;
  return never_zero ? LW_EXTENTS_DIFFER : LW_EXTENTS_UNKNOWN;
}

lw_relation lw__extent_relation(const lw_graph *graph, lw_extent a, lw_extent b) {
  if (a == b) return LW_EXTENTS_EQUAL;
  if (a >= 0 && b >= 0) return LW_EXTENTS_DIFFER;
  poly p, q;
  poly_of(&graph->extents, lw__xval_of(a), &p);
  poly_of(&graph->extents, lw__xval_of(b), &q);
  poly_add_scaled(&graph->extents, &p, &q, -1);
  return relation_of_difference(&graph->extents, &p);
}

bool lw__extent_provably_equal(const lw_graph *graph, lw_extent a, lw_extent b) {
  return lw__extent_relation(graph, a, b) == LW_EXTENTS_EQUAL;
}

void lw__extent_difference(const lw_graph *graph, lw_extent a, lw_extent b, int64_t *out_lo,
                           int64_t *out_hi) {
  poly p, q;
  poly_of(&graph->extents, lw__xval_of(a), &p);
  poly_of(&graph->extents, lw__xval_of(b), &q);
  poly_add_scaled(&graph->extents, &p, &q, -1);
  interval range = {-UNBOUNDED, UNBOUNDED};
  if (p.fault == LW_OK) range = range_of_poly(&graph->extents, &p);
  *out_lo = range.lo;
  *out_hi = range.hi;
}

static bool numel_poly(const lw_graph *graph, const lw_shape *shape, poly *out) {
  poly_of(&graph->extents, lw__xval_literal(1), out);
  for (uint32_t d = 0; d < shape->rank; d++) {
    if (shape->dim[d] == 0) {
      poly_of(&graph->extents, lw__xval_literal(0), out);
      return true;
    }
  }
  for (uint32_t d = 0; d < shape->rank && out->fault == LW_OK; d++) {
    poly factor, product = {0};
    poly_of(&graph->extents, lw__xval_of(shape->dim[d]), &factor);
    poly_multiply(&graph->extents, out, &factor, &product);
    *out = product;
  }
  return out->fault == LW_OK;
}

lw_relation lw__shape_numel_relation(const lw_graph *graph, const lw_shape *a, const lw_shape *b) {
  int64_t m = lw__shape_numel(a), n = lw__shape_numel(b);
  if (m >= 0 && n >= 0) return m == n ? LW_EXTENTS_EQUAL : LW_EXTENTS_DIFFER;
  poly p, q;
  if (!numel_poly(graph, a, &p) || !numel_poly(graph, b, &q)) return LW_EXTENTS_UNKNOWN;
  poly_add_scaled(&graph->extents, &p, &q, -1);
  return relation_of_difference(&graph->extents, &p);
}

/* ---- text -------------------------------------------------------------------------------------*/

static void print_xval(const lw_extent_table *t, lw_xval x, bool tight, lw_text *out);

/* |tight|: parentheses around everything that is not one word. */
static void print_extent_atom(const lw_extent_table *t, uint32_t id, bool tight, lw_text *out) {
  const lw_extent_node *n = entry(t, id);
  switch (n->op) {
    case LW_EXTENT_SYMBOL: lw__text_add_name(out, n->symbol); return;
    case LW_EXTENT_MIN:
    case LW_EXTENT_MAX:
      lw__text_add(out, n->op == LW_EXTENT_MIN ? "min(" : "max(");
      print_xval(t, operand_a(n), false, out);
      lw__text_add(out, ", ");
      print_xval(t, operand_b(n), false, out);
      lw__text_add(out, ")");
      return;
    default:
      if (tight) lw__text_add(out, "(");
      print_xval(t, operand_a(n), true, out);
      lw__text_add(out, n->op == LW_EXTENT_MOD ? " %% " : "//");
      print_xval(t, operand_b(n), true, out);
      if (tight) lw__text_add(out, ")");
  }
}

static void print_extent_term(const lw_extent_table *t, const poly_term *term, bool first,
                              lw_text *out) {
  bool negative = term->coef < 0;
  uint64_t coef = negative ? 0 - (uint64_t)term->coef : (uint64_t)term->coef;
  lw__text_add(out, first ? (negative ? "-" : "") : negative ? " - " : " + ");
  if (coef != 1 || term->degree == 0) {
    lw__text_add(out, "%llu%s", (unsigned long long)coef, term->degree > 0 ? "*" : "");
  }
  for (uint32_t k = 0; k < term->degree; k++) {
    if (k > 0) lw__text_add(out, "*");
    print_extent_atom(t, term->atom[k], coef != 1 || term->degree > 1 || negative, out);
  }
}

static void print_xval(const lw_extent_table *t, lw_xval x, bool tight, lw_text *out) {
  if (!x.literal) {
    lw_extent_op op = entry(t, id_of(x))->op;
    if (op != LW_EXTENT_ADD && op != LW_EXTENT_MUL) {
      print_extent_atom(t, id_of(x), tight, out);
      return;
    }
  }
  bool parens = tight && (!x.literal || x.v < 0);
  if (parens) lw__text_add(out, "(");
  poly p;
  poly_of(t, x, &p);
  if (p.count == 0) lw__text_add(out, "0");
  for (uint32_t i = 0; i < p.count; i++) print_extent_term(t, &p.term[i], i == 0, out);
  if (parens) lw__text_add(out, ")");
}

void lw__extent_print(const lw_graph *graph, lw_extent e, lw_text *out) {
  if (!lw__extent_is_valid(graph, e)) {
    lw__text_add(out, "?");
  } else if (e >= 0) {
    lw__text_add(out, "%lld", (long long)e);
  } else {
    print_xval(&graph->extents, lw__xval_of(e), false, out);
  }
}

void lw__extent_list_symbols(const lw_graph *graph, lw_extent e, uint8_t *seen, lw_text *out) {
  if (e >= 0 || !lw__extent_is_valid(graph, e) || (seen != NULL && seen[~e])) return;
  const lw_extent_node *n = entry(&graph->extents, (uint32_t)~e);
  if (seen != NULL) seen[~e] = 1;
  if (n->op == LW_EXTENT_SYMBOL) {
    lw__text_add(out, "%s'%s'", out->len > 0 ? ", " : "", n->symbol);
    return;
  }
  if (!n->a_is_literal) lw__extent_list_symbols(graph, n->a, seen, out);
  if (!n->b_is_literal) lw__extent_list_symbols(graph, n->b, seen, out);
}

/* index_form.h: inside the index simplifier: forms (sums under construction, on the stack) and the
 * making of nodes, shared by index.c (pool, nodes, questions), index_form.c (sums), index_present.c
 * (their canonical form) and index_rules.c (division). */
#ifndef LW_GRAPH_INDEX_FORM_H
#define LW_GRAPH_INDEX_FORM_H

#include "graph/index.h"

/* constant + sum of coef * atom; atoms ascending and different, no zero coefficients, no atom that
 * has one value only. */
typedef struct lw_ix_form {
  int64_t constant;
  uint32_t count;
  lw_ix_term term[LW_IX_MAX_TERMS];
} lw_ix_form;

/* Rules call each other, on smaller expressions mostly. Beyond these limits, which only contrived
 * expressions reach, lw__ix_enter says no and what would need a rule stays as it is, which is right
 * too. */
enum { LW_IX_MAX_NESTING = 40, LW_IX_MAX_EFFORT = 2000 };
static inline bool lw__ix_enter(lw_ix_pool *pool) {
  if (pool->nesting == 0) pool->effort = 0;
  if (pool->nesting >= LW_IX_MAX_NESTING || pool->effort >= LW_IX_MAX_EFFORT) return false;
  pool->nesting++;
  pool->effort++;
  return true;
}
static inline void lw__ix_leave(lw_ix_pool *pool) { pool->nesting--; }

static inline void lw__ix_form_init(lw_ix_form *form, int64_t constant) {
  form->constant = constant;
  form->count = 0;
}

/* Marks the pool as failed; returns 0, the constant 0. */
lw_ix lw__ix_fail(lw_ix_pool *pool, lw_status status);
/* The terms of |e| as they stand; a view into the pool, or |own| filled where |e| is an atom.
 * Adding nodes ends the view. */
const lw_ix_term *lw__ix_terms(const lw_ix_pool *pool, lw_ix e, lw_ix_term *own,
                               uint32_t *out_count);

/* The interned node; ranges that leave int64 fail the pool. */
lw_ix lw__ix_make_sum(lw_ix_pool *pool, const lw_ix_form *form);
lw_ix lw__ix_make_div(lw_ix_pool *pool, lw_ix arg, int64_t c);
lw_ix lw__ix_make_mod(lw_ix_pool *pool, lw_ix arg, int64_t c, lw_ix quotient);

/* These return false on overflow or too many terms and leave the pool's status to the caller. */
bool lw__ix_form_add_term(const lw_ix_pool *pool, lw_ix_form *form, lw_ix atom, int64_t coef);
bool lw__ix_form_add(const lw_ix_pool *pool, lw_ix_form *form, lw_ix e,
                     int64_t scale); /* terms as they stand */
/* Adds scale * e with every MOD written as arg - c * quotient, so that only variables and DIVs are
 * left. */
bool lw__ix_form_add_linear(const lw_ix_pool *pool, lw_ix_form *form, lw_ix e, int64_t scale);
bool lw__ix_form_add_constant(lw_ix_form *form, int64_t constant, int64_t scale);
/* |out| = the linear view of |form|. */
bool lw__ix_form_linearize(const lw_ix_pool *pool, const lw_ix_form *form, lw_ix_form *out);
/* The range by interval arithmetic; false on overflow. */
bool lw__ix_form_range(const lw_ix_pool *pool, const lw_ix_form *form, int64_t *out_lo,
                       int64_t *out_hi);
/* The expression of a form: all MODs dissolved, then as few and as tame terms as can be found
 * again. */
lw_ix lw__ix_form_finish(lw_ix_pool *pool, const lw_ix_form *form);
/* The same for a form without MODs. */
lw_ix lw__ix_form_present(lw_ix_pool *pool, const lw_ix_form *linear);

static inline int64_t lw__ix_gcd(int64_t a, int64_t b) { /* of absolute values; gcd(0, b) = |b| */
  uint64_t x = a < 0 ? 0 - (uint64_t)a : (uint64_t)a, y = b < 0 ? 0 - (uint64_t)b : (uint64_t)b;
  while (y != 0) {
    uint64_t r = x % y;
    x = y;
    y = r;
  }
  return (int64_t)x;
}

#endif

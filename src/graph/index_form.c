/* index_form.c: sums of index expressions under construction, and the operations that are sums. */
#include <stddef.h>

#include "graph/index_form.h"

/* ---- forms ------------------------------------------------------------------------------------*/

bool lw__ix_form_add_term(const lw_ix_pool *pool, lw_ix_form *form, lw_ix atom, int64_t coef) {
  const lw_ix_node *node = &pool->nodes.data[atom];
  if (node->lo == node->hi) {
    int64_t product;
    return lw__mul_i64(coef, node->lo, &product) &&
           lw__add_i64(form->constant, product, &form->constant);
  }
  uint32_t at = form->count;
  while (at > 0 && form->term[at - 1].atom >= atom) at--;
  if (at < form->count && form->term[at].atom == atom) {
    int64_t sum;
    if (!lw__add_i64(form->term[at].coef, coef, &sum) || sum == INT64_MIN) return false;
    form->term[at].coef = sum;
    if (sum != 0) return true;
    form->count--;
    for (uint32_t i = at; i < form->count; i++) form->term[i] = form->term[i + 1];
    return true;
  }
  if (coef == 0) return true;
  if (form->count == LW_IX_MAX_TERMS || coef == INT64_MIN) return false;
  for (uint32_t i = form->count; i > at; i--) form->term[i] = form->term[i - 1];
  form->term[at] = (lw_ix_term){coef, atom};
  form->count++;
  return true;
}

bool lw__ix_form_add_constant(lw_ix_form *form, int64_t constant, int64_t scale) {
  int64_t product;
  return lw__mul_i64(constant, scale, &product) &&
         lw__add_i64(form->constant, product, &form->constant);
}

bool lw__ix_form_add(const lw_ix_pool *pool, lw_ix_form *form, lw_ix e, int64_t scale) {
  const lw_ix_node *node = &pool->nodes.data[e];
  if (node->kind != LW_IX_SUM) return lw__ix_form_add_term(pool, form, e, scale);
  const lw_ix_term *term = pool->terms.data + node->term_begin;
  for (uint32_t i = 0; i < node->term_count; i++) {
    int64_t coef;
    if (!lw__mul_i64(term[i].coef, scale, &coef) ||
        !lw__ix_form_add_term(pool, form, term[i].atom, coef)) {
      return false;
    }
  }
  return lw__ix_form_add_constant(form, node->constant, scale);
}

bool lw__ix_form_add_linear(const lw_ix_pool *pool, lw_ix_form *form, lw_ix e, int64_t scale) {
  const lw_ix_node *node = &pool->nodes.data[e];
  int64_t coef;
  switch (node->kind) {
    case LW_IX_VAR:
    case LW_IX_DIV: return lw__ix_form_add_term(pool, form, e, scale);
    case LW_IX_MOD:
      return lw__ix_form_add_linear(pool, form, node->arg, scale) &&
             lw__mul_i64(node->constant, -scale, &coef) &&
             lw__ix_form_add_linear(pool, form, node->quotient, coef);
    case LW_IX_SUM: break;
  }
  for (uint32_t i = 0; i < node->term_count; i++) {
    const lw_ix_term *t = &pool->terms.data[node->term_begin + i];
    if (!lw__mul_i64(t->coef, scale, &coef) || coef == INT64_MIN ||
        !lw__ix_form_add_linear(pool, form, t->atom, coef)) {
      return false;
    }
  }
  return lw__ix_form_add_constant(form, node->constant, scale);
}

bool lw__ix_form_range(const lw_ix_pool *pool, const lw_ix_form *form, int64_t *out_lo,
                       int64_t *out_hi) {
  int64_t lo = form->constant, hi = form->constant;
  for (uint32_t i = 0; i < form->count; i++) {
    const lw_ix_node *atom = &pool->nodes.data[form->term[i].atom];
    int64_t coef = form->term[i].coef, low, high;
    if (!lw__mul_i64(coef, coef < 0 ? atom->hi : atom->lo, &low) ||
        !lw__mul_i64(coef, coef < 0 ? atom->lo : atom->hi, &high) || !lw__add_i64(lo, low, &lo) ||
        !lw__add_i64(hi, high, &hi)) {
      return false;
    }
  }
  *out_lo = lo;
  *out_hi = hi;
  return lo != INT64_MIN;
}

/* ---- canonical form ---------------------------------------------------------------------------*/

bool lw__ix_form_linearize(const lw_ix_pool *pool, const lw_ix_form *form, lw_ix_form *out) {
  lw__ix_form_init(out, form->constant);
  for (uint32_t i = 0; i < form->count; i++) {
    if (!lw__ix_form_add_linear(pool, out, form->term[i].atom, form->term[i].coef)) return false;
  }
  return true;
}

lw_ix lw__ix_form_finish(lw_ix_pool *pool, const lw_ix_form *form) {
  if (pool->status != LW_OK) return 0;
  bool plain = true;
  for (uint32_t i = 0; i < form->count && plain; i++) {
    plain = pool->nodes.data[form->term[i].atom].kind == LW_IX_VAR;
  }
  if (plain) return lw__ix_make_sum(pool, form);
  lw_ix_form linear;
  if (!lw__ix_form_linearize(pool, form, &linear)) return lw__ix_fail(pool, LW_STATUS_UNSUPPORTED);
  return lw__ix_form_present(pool, &linear);
}

/* a*mul + b*scale + add. A constant beside an expression touches no term. */
static lw_ix combine(lw_ix_pool *pool, lw_ix a, int64_t mul, lw_ix b, int64_t add) {
  if (pool->status != LW_OK) return 0;
  lw_ix_form form;
  lw__ix_form_init(&form, add);
  if (!lw__ix_form_add(pool, &form, a, mul) || !lw__ix_form_add(pool, &form, b, 1)) {
    return lw__ix_fail(pool, LW_STATUS_UNSUPPORTED);
  }
  bool shift =
      mul == 1 && pool->nodes.data[b].kind == LW_IX_SUM && pool->nodes.data[b].term_count == 0;
  return shift ? lw__ix_make_sum(pool, &form) : lw__ix_form_finish(pool, &form);
}

lw_ix lw__ix_add(lw_ix_pool *pool, lw_ix a, lw_ix b) {
  bool a_is_const = pool->nodes.data[a].kind == LW_IX_SUM && pool->nodes.data[a].term_count == 0;
  return a_is_const ? combine(pool, b, 1, a, 0) : combine(pool, a, 1, b, 0);
}

lw_ix lw__ix_affine(lw_ix_pool *pool, lw_ix a, int64_t mul, int64_t add) {
  return combine(pool, a, mul, 0, add);
}

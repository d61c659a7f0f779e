/* index_form.c: sums of index expressions and their canonical form.
 *
 * Two views of a sum. The linear view has variables and DIVs alone, every e % c written as e - c * (e / c): there all
 * recombination ((e/c)*c + e%c = e, at any scale, over any chain, scattered among other terms) is cancelling of equal
 * terms. The presented view is what nodes hold: MODs are found again where k*E + q*(x/m), E = x/a and c = m/a, is
 * k*(E%c) + (q + k*c)*(x/m). It is a function of the linear view, so equal linear views have equal ids.
 */
#include <stddef.h>

#include "graph/index_form.h"

/* ---- forms ---------------------------------------------------------------------------------------------------*/

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

static bool add_scaled_constant(lw_ix_form *form, int64_t constant, int64_t scale) {
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
  return add_scaled_constant(form, node->constant, scale);
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
  return add_scaled_constant(form, node->constant, scale);
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

static int64_t coef_of(const lw_ix_form *form, lw_ix atom) {
  for (uint32_t i = 0; i < form->count; i++) {
    if (form->term[i].atom == atom) return form->term[i].coef;
  }
  return 0;
}

/* ---- finding MODs --------------------------------------------------------------------------------------------*/

/* One way to see k*E + q*(x/m) in |linear| as k*(E%c) + (q + k*c)*(x/m): E is |value|, |part| its linear view. */
typedef struct mod_match {
  lw_ix value;
  lw_ix_form part;
  int64_t k, c;
} mod_match;

/* How many terms |linear| has more with |match|, the MOD counted; false on overflow. */
static bool match_growth(const lw_ix_form *linear, lw_ix div, const mod_match *match, int64_t k,
                         int32_t *out) {
  int32_t growth = 1;
  for (uint32_t i = 0; i < match->part.count; i++) {
    int64_t have = coef_of(linear, match->part.term[i].atom), off, left;
    if (!lw__mul_i64(match->part.term[i].coef, k, &off) || __builtin_sub_overflow(have, off, &left)) {
      return false;
    }
    growth += (left != 0) - (have != 0);
  }
  int64_t q, kc;
  if (!lw__mul_i64(k, match->c, &kc) || !lw__add_i64(coef_of(linear, div), kc, &q)) return false;
  *out = growth - (q == 0);
  return true;
}

/* Sets match->k to the factor that leaves the fewest terms, or returns false where none is worth it: a sum of several
 * terms must get shorter, or equal in length with opposite signs (its range is then too wide as it stands). */
static bool choose_factor(const lw_ix_form *linear, lw_ix div, mod_match *match) {
  int64_t q = coef_of(linear, div);
  int32_t best = match->part.count == 1 ? 1 : 0;
  bool found = false;
  for (uint32_t i = 0; i < match->part.count; i++) {
    int64_t have = coef_of(linear, match->part.term[i].atom), one = match->part.term[i].coef;
    if (have == 0 || have % one != 0) continue;
    int64_t k = have / one;
    int32_t growth;
    if (!match_growth(linear, div, match, k, &growth)) continue;
    bool tie = !found && growth == 0 && match->part.count > 1 && (k < 0) != (q < 0);
    if (growth >= best && !tie) continue;
    best = growth;
    found = true;
    match->k = k;
  }
  return found;
}

static bool apply_match(const lw_ix_pool *pool, lw_ix_form *linear, lw_ix div,
                        const mod_match *match) {
  for (uint32_t i = 0; i < match->part.count; i++) {
    int64_t off;
    if (!lw__mul_i64(match->part.term[i].coef, -match->k, &off) ||
        !lw__ix_form_add_term(pool, linear, match->part.term[i].atom, off)) {
      return false;
    }
  }
  int64_t kc;
  return add_scaled_constant(linear, match->part.constant, -match->k) &&
         lw__mul_i64(match->k, match->c, &kc) && lw__ix_form_add_term(pool, linear, div, kc);
}

/* Takes from |linear| the MODs by m/a of x/a, where |div| is x/m, into |mods|. */
static void take_mod(lw_ix_pool *pool, lw_ix_form *linear, lw_ix div, int64_t a, lw_ix_form *mods) {
  lw_ix x = pool->nodes.data[div].arg;
  mod_match match = {.c = pool->nodes.data[div].constant / a};
  match.value = lw__ix_div(pool, x, a);
  lw__ix_form_init(&match.part, 0);
  if (pool->status != LW_OK || !lw__ix_form_add_linear(pool, &match.part, match.value, 1)) return;
  if (match.part.count == 0 || !choose_factor(linear, div, &match)) return;
  lw_ix mod = lw__ix_make_mod(pool, match.value, match.c, div);
  if (pool->status != LW_OK) return;
  if (!apply_match(pool, linear, div, &match) || !lw__ix_form_add_term(pool, mods, mod, match.k)) {
    lw__ix_fail(pool, LW_STATUS_UNSUPPORTED);
  }
}

static bool is_div(const lw_ix_pool *pool, lw_ix atom) {
  return pool->nodes.data[atom].kind == LW_IX_DIV;
}

/* The DIVs of |form|, smallest divisor first: digits are split off from the lowest to the highest. */
static uint32_t divs_by_divisor(const lw_ix_pool *pool, const lw_ix_form *form, lw_ix *out) {
  uint32_t count = 0;
  for (uint32_t i = 0; i < form->count; i++) {
    if (!is_div(pool, form->term[i].atom)) continue;
    uint32_t at = count++;
    int64_t c = pool->nodes.data[form->term[i].atom].constant;
    for (; at > 0 && pool->nodes.data[out[at - 1]].constant > c; at--) out[at] = out[at - 1];
    out[at] = form->term[i].atom;
  }
  return count;
}

/* Divisors a of |m| for which x/a may stand in |linear|: those that the DIVs there suggest, descending, and 1. */
static uint32_t candidate_divisors(const lw_ix_pool *pool, const lw_ix_form *linear, int64_t m,
                                   int64_t *out) {
  uint32_t count = 0;
  for (uint32_t i = 0; i < linear->count; i++) {
    if (!is_div(pool, linear->term[i].atom)) continue;
    int64_t a = lw__ix_gcd(pool->nodes.data[linear->term[i].atom].constant, m);
    if (a == m || a == 1) continue;
    uint32_t at = 0;
    while (at < count && out[at] > a) at++;
    if (at < count && out[at] == a) continue;
    for (uint32_t j = count; j > at; j--) out[j] = out[j - 1];
    out[at] = a;
    count++;
  }
  out[count++] = 1;
  return count;
}

static void take_mods(lw_ix_pool *pool, lw_ix_form *linear, lw_ix_form *mods) {
  lw_ix divs[LW_IX_MAX_TERMS];
  int64_t a[LW_IX_MAX_TERMS + 1];
  uint32_t div_count = divs_by_divisor(pool, linear, divs);
  for (uint32_t i = 0; i < div_count; i++) {
    int64_t m = pool->nodes.data[divs[i]].constant;
    uint32_t a_count = candidate_divisors(pool, linear, m, a);
    for (uint32_t j = 0; j < a_count && coef_of(linear, divs[i]) != 0; j++) {
      take_mod(pool, linear, divs[i], a[j], mods);
    }
  }
}

/* Digits that are no gain are written back: k*(E%c) + q*(E/c) with one term E and q - k*c of k's sign is as short and
 * as tight as k*E + (q - k*c)*(E/c), and that saves the MOD. */
static bool is_idle(const lw_ix_pool *pool, const lw_ix_form *linear, const lw_ix_term *t) {
  const lw_ix_node *mod = &pool->nodes.data[t->atom];
  lw_ix_kind kind = pool->nodes.data[mod->arg].kind;
  if ((kind != LW_IX_VAR && kind != LW_IX_DIV) || coef_of(linear, mod->arg) != 0) return false;
  int64_t kc, q = coef_of(linear, mod->quotient);
  return lw__mul_i64(t->coef, mod->constant, &kc) && (t->coef < 0 ? q < kc : q > kc);
}

static bool drop_idle_mods(const lw_ix_pool *pool, lw_ix_form *linear, lw_ix_form *mods) {
  for (uint32_t i = mods->count; i-- > 0;) {
    lw_ix_term t = mods->term[i];
    if (!is_idle(pool, linear, &t)) continue;
    int64_t kc;
    const lw_ix_node *mod = &pool->nodes.data[t.atom];
    if (!lw__mul_i64(t.coef, -mod->constant, &kc) ||
        !lw__ix_form_add_term(pool, mods, t.atom, -t.coef) ||
        !lw__ix_form_add_term(pool, linear, mod->arg, t.coef) ||
        !lw__ix_form_add_term(pool, linear, mod->quotient, kc)) {
      return false;
    }
    i = mods->count; /* this may have made a lower digit idle */
  }
  return true;
}

/* ---- canonical form ------------------------------------------------------------------------------------------*/

lw_ix lw__ix_form_present(lw_ix_pool *pool, lw_ix_form *linear) {
  lw_ix_form mods;
  lw__ix_form_init(&mods, 0);
  take_mods(pool, linear, &mods);
  if (pool->status != LW_OK) return 0;
  bool ok = drop_idle_mods(pool, linear, &mods);
  for (uint32_t i = 0; i < mods.count && ok; i++) {
    ok = lw__ix_form_add_term(pool, linear, mods.term[i].atom, mods.term[i].coef);
  }
  return ok ? lw__ix_make_sum(pool, linear) : lw__ix_fail(pool, LW_STATUS_UNSUPPORTED);
}

lw_ix lw__ix_form_finish(lw_ix_pool *pool, const lw_ix_form *form) {
  if (pool->status != LW_OK) return 0;
  bool plain = true;
  for (uint32_t i = 0; i < form->count && plain; i++) {
    plain = pool->nodes.data[form->term[i].atom].kind == LW_IX_VAR;
  }
  if (plain) return lw__ix_make_sum(pool, form);
  lw_ix_form linear;
  lw__ix_form_init(&linear, form->constant);
  for (uint32_t i = 0; i < form->count; i++) {
    if (!lw__ix_form_add_linear(pool, &linear, form->term[i].atom, form->term[i].coef)) {
      return lw__ix_fail(pool, LW_STATUS_UNSUPPORTED);
    }
  }
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
  bool shift = mul == 1 && pool->nodes.data[b].kind == LW_IX_SUM && pool->nodes.data[b].term_count == 0;
  return shift ? lw__ix_make_sum(pool, &form) : lw__ix_form_finish(pool, &form);
}

lw_ix lw__ix_add(lw_ix_pool *pool, lw_ix a, lw_ix b) {
  bool a_is_const = pool->nodes.data[a].kind == LW_IX_SUM && pool->nodes.data[a].term_count == 0;
  return a_is_const ? combine(pool, b, 1, a, 0) : combine(pool, a, 1, b, 0);
}

lw_ix lw__ix_affine(lw_ix_pool *pool, lw_ix a, int64_t mul, int64_t add) {
  return combine(pool, a, mul, 0, add);
}

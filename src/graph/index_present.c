/* index_present.c: the canonical form of sums.
 *
 * Two views of a sum. The linear view has variables and DIVs alone, every e % c written as e - c *
 * (e / c): there all recombination ((e/c)*c + e%c = e, at any scale, over any chain, scattered
 * among other terms) is cancelling of equal terms. The presented view is what nodes hold: MODs are
 * found again where k*E + q*Q with Q = E/c is k*(E%c) + (q + k*c)*Q. It is a function of the linear
 * view, so equal linear views have equal ids.
 */
#include <string.h>

#include "graph/index_form.h"

static void copy_form(const lw_ix_form *from, lw_ix_form *to) {
  lw__ix_form_init(to, from->constant);
  to->count = from->count;
  memcpy(to->term, from->term, from->count * sizeof *from->term);
}

static int64_t coef_of(const lw_ix_form *form, lw_ix atom) {
  for (uint32_t i = 0; i < form->count; i++) {
    if (form->term[i].atom == atom) return form->term[i].coef;
  }
  return 0;
}

/* ---- finding MODs -----------------------------------------------------------------------------*/

static bool is_div(const lw_ix_pool *pool, lw_ix atom) {
  return pool->nodes.data[atom].kind == LW_IX_DIV;
}

/* One way to see k*E + q*Q in a form, Q = E/c, as k*(E%c) + (q + k*c)*Q. |part| has the terms of E
 * = |value|. */
typedef struct mod_match {
  lw_ix value;
  lw_ix_form part;
  int64_t k, c;
} mod_match;

/* How good terms are: few first, then a narrow range by interval arithmetic (the sum of |coef| *
 * span, saturated), for terms that cancel one another in part have a range that is too wide. Also
 * differences of that. */
typedef struct quality {
  int32_t terms;
  int64_t width;
} quality;

static void count_width(int64_t coef, uint64_t span, quality *q) {
  const int64_t limit = INT64_MAX / 4;
  uint64_t size = coef < 0 ? 0 - (uint64_t)coef : (uint64_t)coef, add;
  q->terms += coef != 0;
  bool over = __builtin_mul_overflow(size, span, &add) || add > (uint64_t)limit;
  q->width = over || q->width + (int64_t)add > limit ? limit : q->width + (int64_t)add;
}

static void count_term(const lw_ix_pool *pool, lw_ix atom, int64_t coef, quality *q) {
  const lw_ix_node *node = &pool->nodes.data[atom];
  count_width(coef, (uint64_t)node->hi - (uint64_t)node->lo, q);
}

static bool is_better(quality a, quality b) {
  return a.terms != b.terms ? a.terms < b.terms : a.width < b.width;
}

/* The quality of the terms that |match| touches, with factor |k|, which may be 0; false on
 * overflow. */
static bool match_quality(const lw_ix_pool *pool, const lw_ix_form *form, lw_ix div,
                          const mod_match *match, int64_t k, quality *out) {
  *out = (quality){0, 0};
  for (uint32_t i = 0; i < match->part.count; i++) {
    const lw_ix_term *t = &match->part.term[i];
    int64_t off, left;
    if (!lw__mul_i64(t->coef, k, &off)) return false;
    if (__builtin_sub_overflow(coef_of(form, t->atom), off, &left)) return false;
    count_term(pool, t->atom, left, out);
  }
  int64_t q, kc;
  if (!lw__mul_i64(k, match->c, &kc) || !lw__add_i64(coef_of(form, div), kc, &q)) return false;
  count_term(pool, div, q, out);
  count_width(k, (uint64_t)match->c - 1, out);
  return true;
}

/* Sets match->k to the best factor and |out| to what it changes; false where none makes the form
 * better. */
static bool choose_factor(const lw_ix_pool *pool, const lw_ix_form *form, lw_ix div,
                          mod_match *match, quality *out) {
  quality none, now;
  *out = (quality){0, 0};
  match->k = 0;
  if (!match_quality(pool, form, div, match, 0, &none)) return false;
  for (uint32_t i = 0; i <= match->part.count;
       i++) { /* the last: the factor that takes |div| away */
    bool last = i == match->part.count;
    int64_t have = coef_of(form, last ? div : match->part.term[i].atom);
    int64_t one = last ? -match->c : match->part.term[i].coef;
    if (have == 0 || have % one != 0 || !match_quality(pool, form, div, match, have / one, &now))
      continue;
    now.terms -= none.terms;
    now.width -= none.width;
    if (!is_better(now, *out)) continue;
    *out = now;
    match->k = have / one;
  }
  return match->k != 0;
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
  return lw__ix_form_add_constant(linear, match->part.constant, -match->k) &&
         lw__mul_i64(match->k, match->c, &kc) && lw__ix_form_add_term(pool, linear, div, kc);
}

/* Replaces in |form| what |match| matches. */
static void take_match(lw_ix_pool *pool, lw_ix_form *form, lw_ix div, const mod_match *match) {
  lw_ix mod = lw__ix_make_mod(pool, match->value, match->c, div);
  if (pool->status != LW_OK) return;
  if (!apply_match(pool, form, div, match) || !lw__ix_form_add_term(pool, form, mod, match->k)) {
    lw__ix_fail(pool, LW_STATUS_UNSUPPORTED);
  }
}

/* A match of one term E is taken whole: in the end that leaves the digits of a mixed-radix number
 * with their own weights. */
static bool take_digit(lw_ix_pool *pool, lw_ix_form *form, lw_ix div, mod_match *match) {
  if (match->part.count != 1) return false;
  int64_t have = coef_of(form, match->part.term[0].atom), one = match->part.term[0].coef;
  if (have == 0 || have % one != 0) return false;
  match->k = have / one;
  take_match(pool, form, div, match);
  return true;
}

/* Sets |match| to E = x/a where |div| is x/m, and its terms as they stand or linear: MODs that E
 * has may have been found in the form already, or not. False when there is none. */
static bool begin_match(lw_ix_pool *pool, lw_ix div, int64_t a, bool linear, mod_match *match) {
  lw_ix_node node = pool->nodes.data[div];
  match->c = node.constant / a;
  match->value = lw__ix_div(pool, node.arg, a);
  lw__ix_form_init(&match->part, 0);
  if (pool->status != LW_OK) return false;
  bool ok = linear ? lw__ix_form_add_linear(pool, &match->part, match->value, 1)
                   : lw__ix_form_add(pool, &match->part, match->value, 1);
  return ok && match->part.count != 0;
}

/* Takes the best match of an E of several terms, if it leaves fewer than |below| terms more. */
static bool take_best(lw_ix_pool *pool, lw_ix_form *form, lw_ix div, const int64_t *a,
                      uint32_t a_count, int32_t below) {
  quality best = {below, INT64_MIN}, now;
  mod_match match, chosen; /* not initialized: they are large, and |k| tells */
  chosen.k = 0;
  for (uint32_t i = 0; i < a_count * 2; i++) {
    if (!begin_match(pool, div, a[i / 2], i % 2 != 0, &match) || match.part.count < 2) continue;
    if (!choose_factor(pool, form, div, &match, &now) || !is_better(now, best)) continue;
    best = now;
    chosen = match;
  }
  if (chosen.k != 0 && pool->status == LW_OK) take_match(pool, form, div, &chosen);
  return chosen.k != 0;
}

/* Takes k*(E%c) where E is an atom with E/c = |div| for reasons of range: (6*u + v)/24 is u/4 where
 * v < 6. */
static void take_mod_of_atom(lw_ix_pool *pool, lw_ix_form *linear, lw_ix div) {
  int64_t q = coef_of(linear, div);
  uint64_t vars = pool->nodes.data[div].vars;
  for (uint32_t i = 0; i < linear->count && q != 0; i++) {
    lw_ix_term t = linear->term[i];
    if (t.atom == div || q % t.coef != 0 || -(q / t.coef) < 2) continue;
    if ((vars & ~pool->nodes.data[t.atom].vars) != 0) continue;
    int64_t c = -(q / t.coef);
    if (lw__ix_div(pool, t.atom, c) != div || pool->status != LW_OK) continue;
    mod_match match;
    match.value = t.atom;
    match.k = t.coef;
    match.c = c;
    lw__ix_form_init(&match.part, 0);
    match.part.term[match.part.count++] = (lw_ix_term){1, t.atom};
    take_match(pool, linear, div, &match);
    return;
  }
}

static bool is_before(const lw_ix_pool *pool, lw_ix a, lw_ix b) {
  const lw_ix_node *x = &pool->nodes.data[a], *y = &pool->nodes.data[b];
  if (x->depth != y->depth) return x->depth < y->depth;
  return x->constant != y->constant ? x->constant < y->constant : a < b;
}

/* The DIV of |form| to look at next: flat ones first, for the dividends of others may hold their
 * MODs; of these small divisors first, for the digits of a number are split off from the lowest up.
 * Taking one may bring in others. */
static bool next_div(const lw_ix_pool *pool, const lw_ix_form *form, const lw_ix *done,
                     uint32_t done_count, lw_ix *out) {
  *out = LW_NONE;
  for (uint32_t i = 0; i < form->count; i++) {
    lw_ix atom = form->term[i].atom;
    if (!is_div(pool, atom) || (*out != LW_NONE && !is_before(pool, atom, *out))) continue;
    bool is_done = false;
    for (uint32_t j = 0; j < done_count && !is_done; j++) is_done = done[j] == atom;
    if (!is_done) *out = atom;
  }
  return *out != LW_NONE;
}

/* Divisors a of |m| for which x/a may stand in |linear|: those that the DIVs there suggest,
 * descending, and 1. */
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

static void take_mods_of(lw_ix_pool *pool, lw_ix_form *form, lw_ix div) {
  int64_t a[LW_IX_MAX_TERMS + 1];
  uint32_t count = candidate_divisors(pool, form, pool->nodes.data[div].constant, a);
  if (take_best(pool, form, div, a, count, 0) && coef_of(form, div) == 0) return;
  for (uint32_t i = 0; i < count && coef_of(form, div) != 0; i++) {
    mod_match match;
    if (begin_match(pool, div, a[i], false, &match)) take_digit(pool, form, div, &match);
  }
  if (coef_of(form, div) == 0) return;
  take_mod_of_atom(pool, form, div);
  if (coef_of(form, div) != 0) take_best(pool, form, div, a, count, 1);
}

static void take_mods(lw_ix_pool *pool, lw_ix_form *form) {
  lw_ix done[LW_IX_MAX_TERMS], div;
  for (uint32_t i = 0; i < LW_IX_MAX_TERMS && next_div(pool, form, done, i, &div); i++) {
    done[i] = div;
    take_mods_of(pool, form, div);
    if (pool->status != LW_OK) return;
  }
}

/* ---- a MOD of several terms that cancel in part -----------------------------------------------*/

/* True when terms may cancel one another: then the form may be a MOD that was not seen. */
static bool is_suspect(const lw_ix_pool *pool, const lw_ix_form *form) {
  bool minus = false, plus = false, div = false;
  for (uint32_t i = 0; i < form->count; i++) {
    minus |= form->term[i].coef < 0;
    plus |= form->term[i].coef > 0;
    div |= is_div(pool, form->term[i].atom);
  }
  return minus && plus && div;
}

static quality form_quality(const lw_ix_pool *pool, const lw_ix_form *form) {
  quality q = {0, 0};
  for (uint32_t i = 0; i < form->count; i++) {
    count_term(pool, form->term[i].atom, form->term[i].coef, &q);
  }
  return q;
}

/* The value of |e| at one of a few fixed points: cheap evidence against an equation before a costly
 * proof is tried. */
static int64_t sample(const lw_ix_pool *pool, lw_ix e, uint32_t point) {
  const lw_ix_node *node = &pool->nodes.data[e];
  switch (node->kind) {
    case LW_IX_VAR: {
      uint64_t h = ((uint64_t)node->var * 3 + point + 1) * 0x9e3779b97f4a7c15u;
      return (int64_t)((h >> 20) % ((uint64_t)node->hi + 1));
    }
    case LW_IX_DIV: return lw__floor_div(sample(pool, node->arg, point), node->constant);
    case LW_IX_MOD: return lw__floor_mod(sample(pool, node->arg, point), node->constant);
    case LW_IX_SUM: break;
  }
  uint64_t sum = (uint64_t)node->constant;
  for (uint32_t i = 0; i < node->term_count; i++) {
    const lw_ix_term *t = &pool->terms.data[node->term_begin + i];
    sum += (uint64_t)t->coef * (uint64_t)sample(pool, t->atom, point);
  }
  return (int64_t)sum;
}

static bool may_be_quotient(const lw_ix_pool *pool, const lw_ix_form *e, int64_t c,
                            lw_ix quotient) {
  for (uint32_t point = 0; point < 4; point++) {
    uint64_t sum = (uint64_t)e->constant;
    for (uint32_t i = 0; i < e->count; i++) {
      sum += (uint64_t)e->term[i].coef * (uint64_t)sample(pool, e->term[i].atom, point);
    }
    if (lw__floor_div((int64_t)sum, c) != sample(pool, quotient, point)) return false;
  }
  return true;
}

/* Sees all terms of |form| whose coefficients |k| divides, but for |quotient|, as k*E, and if E/c
 * is |quotient| for the c that makes k*(E%c) of it, replaces |best| by that + the rest where it is
 * better. True: it was found. */
static bool try_remainder(lw_ix_pool *pool, const lw_ix_form *form, lw_ix quotient, int64_t k,
                          lw_ix_form *best) {
  lw_ix_form part, rest, found;
  int64_t c = -(coef_of(form, quotient) / k);
  lw__ix_form_init(&part, form->constant % k == 0 ? form->constant / k : 0);
  lw__ix_form_init(&rest, form->constant % k == 0 ? 0 : form->constant);
  for (uint32_t i = 0; i < form->count; i++) {
    lw_ix_term t = form->term[i];
    if (t.atom == quotient) continue;
    if (t.coef % k == 0) {
      part.term[part.count++] = (lw_ix_term){t.coef / k, t.atom};
    } else {
      rest.term[rest.count++] = t;
    }
  }
  if (part.count < 2 || !may_be_quotient(pool, &part, c, quotient)) return false;
  lw_ix value = lw__ix_form_finish(pool, &part);
  if (lw__ix_div(pool, value, c) != quotient || pool->status != LW_OK) return false;
  lw_ix mod = lw__ix_make_mod(pool, value, c, quotient);
  if (pool->status != LW_OK || !lw__ix_form_linearize(pool, &rest, &found)) return false;
  take_mods(pool, &found);
  if (pool->status != LW_OK || !lw__ix_form_add_term(pool, &found, mod, k)) return false;
  if (is_better(form_quality(pool, &found), form_quality(pool, best))) copy_form(&found, best);
  return true;
}

/* Looks for one MOD whose quotient is a term of |form| of |kind|. */
static void find_remainder(lw_ix_pool *pool, const lw_ix_form *form, lw_ix_kind kind,
                           lw_ix_form *best) {
  for (uint32_t d = 0; d < form->count; d++) {
    lw_ix_term quotient = form->term[d];
    if (pool->nodes.data[quotient.atom].kind != kind) continue;
    int64_t tried[4];
    uint32_t tries = 0;
    for (uint32_t i = 0; i < form->count && tries < LW_ARRAY_COUNT(tried); i++) {
      int64_t k = form->term[i].coef;
      if ((k < 0) == (quotient.coef < 0)) k = -k;
      bool skip = i == d || quotient.coef % k != 0 || quotient.coef == -k;
      for (uint32_t j = 0; j < tries && !skip; j++) skip = tried[j] == k;
      if (skip) continue;
      tried[tries++] = k;
      if (try_remainder(pool, form, quotient.atom, k, best) || pool->status != LW_OK) return;
    }
  }
}

lw_ix lw__ix_form_present(lw_ix_pool *pool, const lw_ix_form *linear) {
  if (pool->status != LW_OK) return 0;
  if (!lw__ix_enter(pool)) return lw__ix_make_sum(pool, linear);
  lw_ix_form best;
  copy_form(linear, &best);
  take_mods(pool, &best);
  if (pool->status == LW_OK && is_suspect(pool, &best)) {
    find_remainder(pool, linear, LW_IX_DIV, &best);
    if (pool->status == LW_OK && is_suspect(pool, &best)) {
      lw_ix_form form;
      copy_form(&best, &form);
      find_remainder(pool, &form, LW_IX_MOD, &best);
    }
  }
  lw__ix_leave(pool);
  return lw__ix_make_sum(pool, &best);
}

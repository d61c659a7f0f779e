/* index_rules.c: division and remainder of index expressions, and substitution. Every rule is an
 * identity of floor division that holds for all values inside the ranges; a rule that does not
 * apply, or whose constants would leave int64, leaves the expression alone. */
#include <stddef.h>

#include "graph/index_form.h"

/* ---- memo: (e, c) -> e / c --------------------------------------------------------------------*/

struct lw_ix_memo {
  int64_t c; /* 0: free */
  lw_ix e, result;
};

static struct lw_ix_memo *memo_slot(struct lw_ix_memo *memo, uint32_t size, lw_ix e, int64_t c) {
  uint64_t h = ((uint64_t)e << 32 ^ (uint64_t)c) * 0x9e3779b97f4a7c15u;
  uint32_t at = (uint32_t)(h >> 32) & (size - 1);
  while (memo[at].c != 0 && (memo[at].c != c || memo[at].e != e)) at = (at + 1) & (size - 1);
  return &memo[at];
}

static lw_status grow_memo(lw_ix_pool *pool) {
  uint32_t size = pool->memo_size == 0 ? 256 : pool->memo_size * 2;
  void *mem = NULL;
  LW_TRY(lw__mem_resize(&mem, size * sizeof(struct lw_ix_memo)));
  struct lw_ix_memo *memo = mem;
  for (uint32_t i = 0; i < size; i++) memo[i].c = 0;
  for (uint32_t i = 0; i < pool->memo_size; i++) {
    const struct lw_ix_memo *old = &pool->memo[i];
    if (old->c != 0) *memo_slot(memo, size, old->e, old->c) = *old;
  }
  lw__mem_free(pool->memo);
  pool->memo = memo;
  pool->memo_size = size;
  return LW_OK;
}

static bool memo_find(const lw_ix_pool *pool, lw_ix e, int64_t c, lw_ix *out) {
  if (pool->memo_size == 0) return false;
  const struct lw_ix_memo *slot = memo_slot(pool->memo, pool->memo_size, e, c);
  *out = slot->result;
  return slot->c != 0;
}

static void memo_store(lw_ix_pool *pool, lw_ix e, int64_t c, lw_ix result) {
  if ((uint64_t)pool->memo_count * 2 >= pool->memo_size && grow_memo(pool) != LW_OK) {
    lw__ix_fail(pool, LW_STATUS_OUT_OF_MEMORY);
    return;
  }
  struct lw_ix_memo *slot = memo_slot(pool->memo, pool->memo_size, e, c);
  if (slot->c == 0) pool->memo_count++;
  *slot = (struct lw_ix_memo){c, e, result};
}

/* ---- rules of e / c -----------------------------------------------------------------------------
 * Each returns true with *out = e / c when it applies. |form| holds e's terms. */

/* (a*c + b) / c = a + b/c. Coefficients are split toward zero, so that -x stays -x. */
static bool div_multiples(lw_ix_pool *pool, const lw_ix_form *form, int64_t c, lw_ix *out) {
  lw_ix_form whole, rest;
  lw__ix_form_init(&whole, lw__floor_div(form->constant, c));
  lw__ix_form_init(&rest, lw__floor_mod(form->constant, c));
  for (uint32_t i = 0; i < form->count; i++) {
    lw_ix_term t = form->term[i];
    if (t.coef / c != 0) whole.term[whole.count++] = (lw_ix_term){t.coef / c, t.atom};
    if (t.coef % c != 0) rest.term[rest.count++] = (lw_ix_term){t.coef % c, t.atom};
  }
  if (whole.count == 0 && whole.constant == 0) return false;
  lw_ix b = lw__ix_div(pool, lw__ix_form_finish(pool, &rest), c);
  *out = lw__ix_add(pool, lw__ix_form_finish(pool, &whole), b);
  return true;
}

/* -e / c = -((e + c-1) / c): the first coefficient is made positive. Constants are in 0 .. c-1
 * here. */
static bool div_sign(lw_ix_pool *pool, const lw_ix_form *form, int64_t c, lw_ix *out) {
  if (form->count == 0 || form->term[0].coef > 0) return false;
  lw_ix_form turned;
  lw__ix_form_init(&turned, c - 1 - form->constant);
  for (uint32_t i = 0; i < form->count; i++) {
    turned.term[turned.count++] = (lw_ix_term){-form->term[i].coef, form->term[i].atom};
  }
  lw_ix e = lw__ix_div(pool, lw__ix_form_finish(pool, &turned), c);
  *out = lw__ix_affine(pool, e, -1, 0);
  return true;
}

/* (g*e + r) / c with g dividing c and r inside one multiple of g: = (e + r/g) / (c/g). */
static bool div_factor(lw_ix_pool *pool, const lw_ix_form *form, int64_t c, int64_t g, lw_ix *out) {
  lw_ix_form high, low;
  lw__ix_form_init(&high, 0);
  lw__ix_form_init(&low, form->constant);
  for (uint32_t i = 0; i < form->count; i++) {
    lw_ix_term t = form->term[i];
    if (t.coef % g != 0) {
      low.term[low.count++] = t;
    } else {
      high.term[high.count++] = (lw_ix_term){t.coef / g, t.atom};
    }
  }
  int64_t lo, hi;
  if (!lw__ix_form_range(pool, &low, &lo, &hi)) return false;
  high.constant = lw__floor_div(lo, g);
  if (lw__floor_div(hi, g) != high.constant) return false;
  *out = lw__ix_div(pool, lw__ix_form_finish(pool, &high), c / g);
  return true;
}

/* Tries common factors, largest first. A term that shares less than g with c has at least g values
 * too many to be part of the remainder unless it shares less than all terms in front, so these
 * prefixes are all there is to try. */
static bool div_factors(lw_ix_pool *pool, const lw_ix_form *form, int64_t c, lw_ix *out) {
  int64_t shared[LW_IX_MAX_TERMS];
  for (uint32_t i = 0; i < form->count; i++) {
    int64_t g = lw__ix_gcd(form->term[i].coef, c);
    uint32_t at = i;
    for (; at > 0 && shared[at - 1] < g; at--) shared[at] = shared[at - 1];
    shared[at] = g;
  }
  int64_t g = 0, tried = 0;
  for (uint32_t i = 0; i < form->count; i++) {
    g = lw__ix_gcd(g, shared[i]);
    if (g == 1) return false;
    if (g != tried && div_factor(pool, form, c, g, out)) return true;
    tried = g;
  }
  return false;
}

/* (e % (a*c)) / c = (e / c) % a. */
static bool div_of_mod(lw_ix_pool *pool, const lw_ix_form *form, int64_t c, lw_ix *out) {
  if (form->count != 1 || form->constant != 0 || form->term[0].coef != 1) return false;
  lw_ix_node mod = pool->nodes.data[form->term[0].atom];
  if (mod.kind != LW_IX_MOD || mod.constant % c != 0) return false;
  *out = lw__ix_mod(pool, lw__ix_div(pool, mod.arg, c), mod.constant / c);
  return true;
}

static bool contains(const lw_ix_form *form, lw_ix atom) {
  for (uint32_t i = 0; i < form->count; i++) {
    if (form->term[i].atom == atom) return true;
  }
  return false;
}

/* Sets |out| to y + d*e of (y/d + e) / c, y/d being term |at|, in the linear view; for -(y/d) = (-y
 * + d-1)/d alike. */
static bool merge_nested(const lw_ix_pool *pool, const lw_ix_form *form, uint32_t at,
                         lw_ix_form *out) {
  const lw_ix_node *div = &pool->nodes.data[form->term[at].atom];
  int64_t sign = form->term[at].coef, d = div->constant, coef, constant;
  if (!lw__mul_i64(form->constant, d, &constant)) return false;
  if (sign < 0 && !lw__add_i64(constant, d - 1, &constant)) return false;
  lw__ix_form_init(out, constant);
  for (uint32_t i = 0; i < form->count; i++) {
    if (i == at) continue;
    if (!lw__mul_i64(form->term[i].coef, d, &coef) ||
        !lw__ix_form_add_linear(pool, out, form->term[i].atom, coef)) {
      return false;
    }
  }
  return lw__ix_form_add_linear(pool, out, div->arg, sign);
}

/* (y/d + e) / c = (y + d*e) / (c*d), unless e depends on y in a way that keeps y/d alive. */
static bool div_nested(lw_ix_pool *pool, const lw_ix_form *form, int64_t c, lw_ix *out) {
  for (uint32_t at = 0; at < form->count; at++) {
    lw_ix_term t = form->term[at];
    if ((t.coef != 1 && t.coef != -1) || pool->nodes.data[t.atom].kind != LW_IX_DIV) continue;
    int64_t cd, lo, hi;
    lw_ix_form merged;
    if (!lw__mul_i64(c, pool->nodes.data[t.atom].constant, &cd)) continue;
    if (!merge_nested(pool, form, at, &merged) || contains(&merged, t.atom)) continue;
    if (!lw__ix_form_range(pool, &merged, &lo, &hi)) continue;
    *out = lw__ix_div(pool, lw__ix_form_present(pool, &merged), cd);
    return true;
  }
  return false;
}

static lw_ix div_by_rules(lw_ix_pool *pool, lw_ix e, int64_t c) {
  lw_ix_form form;
  lw_ix out;
  lw__ix_form_init(&form, 0);
  if (!lw__ix_form_add(pool, &form, e, 1)) return lw__ix_fail(pool, LW_STATUS_UNSUPPORTED);
  if (div_multiples(pool, &form, c, &out) || div_sign(pool, &form, c, &out) ||
      div_factors(pool, &form, c, &out) || div_of_mod(pool, &form, c, &out) ||
      div_nested(pool, &form, c, &out)) {
    return out;
  }
  return lw__ix_make_div(pool, e, c);
}

lw_ix lw__ix_div(lw_ix_pool *pool, lw_ix a, int64_t c) {
  if (pool->status != LW_OK) return 0;
  if (c < 1) return lw__ix_fail(pool, LW_STATUS_INTERNAL);
  if (c == 1) return a;
  int64_t lo = lw__floor_div(pool->nodes.data[a].lo, c);
  if (lo == lw__floor_div(pool->nodes.data[a].hi, c)) return lw__ix_const(pool, lo);
  lw_ix result;
  if (memo_find(pool, a, c, &result)) return result;
  if (!lw__ix_enter(pool)) return lw__ix_make_div(pool, a, c);
  result = div_by_rules(pool, a, c);
  lw__ix_leave(pool);
  if (pool->status == LW_OK) memo_store(pool, a, c, result);
  return pool->status == LW_OK ? result : 0;
}

lw_ix lw__ix_mod(lw_ix_pool *pool, lw_ix a, int64_t c) {
  lw_ix q = lw__ix_div(pool, a, c);
  if (pool->status != LW_OK) return 0;
  return lw__ix_add(pool, a, lw__ix_affine(pool, q, -c, 0));
}

/* ---- substitution -----------------------------------------------------------------------------*/

typedef struct substitution {
  const lw_ix *by;
  const lw_ix *vars; /* by[i] for vars[i]; NULL: by[i] for variable number i, LW_NONE leaves it */
  uint32_t count;
  uint64_t filter; /* of the numbers of the variables replaced, as in lw_ix_node.vars */
} substitution;

static lw_ix replacement(const lw_ix_pool *pool, lw_ix var, const substitution *s) {
  if (s->vars == NULL) {
    uint32_t number = pool->nodes.data[var].var;
    return number < s->count && s->by[number] != LW_NONE ? s->by[number] : var;
  }
  for (uint32_t i = 0; i < s->count; i++) {
    if (s->vars[i] == var) return s->by[i];
  }
  return var;
}

static lw_ix replace_in(lw_ix_pool *pool, lw_ix e, const substitution *s) {
  lw_ix_node node = pool->nodes.data[e];
  if (pool->status != LW_OK || (node.vars & s->filter) == 0) return e;
  switch (node.kind) {
    case LW_IX_VAR: return replacement(pool, e, s);
    case LW_IX_DIV: return lw__ix_div(pool, replace_in(pool, node.arg, s), node.constant);
    case LW_IX_MOD: return lw__ix_mod(pool, replace_in(pool, node.arg, s), node.constant);
    case LW_IX_SUM: break;
  }
  lw_ix_form form;
  lw__ix_form_init(&form, node.constant);
  for (uint32_t i = 0; i < node.term_count; i++) {
    lw_ix_term t = pool->terms.data[node.term_begin + i];
    lw_ix atom = replace_in(pool, t.atom, s);
    if (pool->status != LW_OK) return 0;
    if (!lw__ix_form_add(pool, &form, atom, t.coef))
      return lw__ix_fail(pool, LW_STATUS_UNSUPPORTED);
  }
  return lw__ix_form_finish(pool, &form);
}

lw_ix lw__ix_substitute(lw_ix_pool *pool, lw_ix e, const lw_ix *by, uint32_t count) {
  substitution s = {.by = by, .count = count};
  for (uint32_t v = 0; v < count; v++) {
    if (by[v] != LW_NONE) s.filter |= (uint64_t)1 << (v % 64);
  }
  lw_ix result = replace_in(pool, e, &s);
  return pool->status == LW_OK ? result : 0;
}

lw_ix lw__ix_replace(lw_ix_pool *pool, lw_ix e, const lw_ix *vars, const lw_ix *by,
                     uint32_t count) {
  substitution s = {.by = by, .vars = vars, .count = count};
  for (uint32_t i = 0; i < count; i++) s.filter |= pool->nodes.data[vars[i]].vars;
  lw_ix result = replace_in(pool, e, &s);
  return pool->status == LW_OK ? result : 0;
}

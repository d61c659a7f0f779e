/* index.c: the pool of index expressions: hash-consed nodes with ranges, and all questions about an
 * expression. */
#include "graph/index.h"

#include <string.h>

#include "graph/index_form.h"

/* ---- pool -------------------------------------------------------------------------------------*/

static lw_status push_node(lw_ix_pool *pool, const lw_ix_node *node, lw_ix *out) {
  *out = pool->nodes.count;
  return lw_vec_push(&pool->nodes, *node);
}

lw_status lw__ix_pool_init(lw_ix_pool *pool) {
  memset(pool, 0, sizeof *pool);
  lw_ix_node zero = {.kind = LW_IX_SUM, .weight = 1};
  lw_ix id;
  /* Terms are reserved so that |data + begin| is an address for empty sums too. */
  if (lw_vec_reserve(&pool->terms, 64) == LW_OK && push_node(pool, &zero, &id) == LW_OK)
    return LW_OK;
  lw__ix_pool_deinit(pool);
  return LW_STATUS_OUT_OF_MEMORY;
}

void lw__ix_pool_deinit(lw_ix_pool *pool) {
  lw_vec_free(&pool->nodes);
  lw_vec_free(&pool->terms);
  lw_vec_free(&pool->extents);
  lw_vec_free(&pool->stand_ins);
  lw__mem_free(pool->table);
  lw__mem_free(pool->memo);
  memset(pool, 0, sizeof *pool);
}

lw_ix lw__ix_fail(lw_ix_pool *pool, lw_status status) {
  if (pool->status == LW_OK) pool->status = status;
  return 0;
}

/* ---- hash-consing -----------------------------------------------------------------------------*/

static uint64_t mix(uint64_t h, uint64_t v) {
  h = (h ^ v) * 0x9e3779b97f4a7c15u;
  return h ^ (h >> 29);
}

static uint64_t hash_node(const lw_ix_node *node, const lw_ix_term *terms) {
  uint64_t h = mix(mix((uint64_t)node->kind + 1, node->arg), (uint64_t)node->constant);
  for (uint32_t i = 0; i < node->term_count; i++) {
    h = mix(mix(h, terms[i].atom), (uint64_t)terms[i].coef);
  }
  return h ^ (h >> 32);
}

static bool same_node(const lw_ix_pool *pool, lw_ix id, const lw_ix_node *node,
                      const lw_ix_term *terms) {
  const lw_ix_node *have = &pool->nodes.data[id];
  if (have->kind != node->kind || have->arg != node->arg || have->constant != node->constant ||
      have->term_count != node->term_count) {
    return false;
  }
  const lw_ix_term *old = pool->terms.data + have->term_begin;
  for (uint32_t i = 0; i < node->term_count; i++) {
    if (old[i].atom != terms[i].atom || old[i].coef != terms[i].coef) return false;
  }
  return true;
}

static lw_status grow_table(lw_ix_pool *pool) {
  uint32_t size = pool->table_size == 0 ? 256 : pool->table_size * 2;
  void *mem = NULL;
  LW_TRY(lw__mem_resize(&mem, size * sizeof(uint32_t)));
  uint32_t *table = mem;
  for (uint32_t i = 0; i < size; i++) table[i] = LW_NONE;
  for (lw_ix id = 0; id < pool->nodes.count; id++) {
    const lw_ix_node *node = &pool->nodes.data[id];
    if (node->kind == LW_IX_VAR) continue;
    uint64_t h = hash_node(node, pool->terms.data + node->term_begin);
    uint32_t at = (uint32_t)h & (size - 1);
    while (table[at] != LW_NONE) at = (at + 1) & (size - 1);
    table[at] = id;
  }
  lw__mem_free(pool->table);
  pool->table = table;
  pool->table_size = size;
  return LW_OK;
}

/* |node| is complete but for term_begin. */
static lw_ix intern(lw_ix_pool *pool, lw_ix_node *node, const lw_ix_term *terms) {
  if ((uint64_t)pool->nodes.count * 2 >= pool->table_size && grow_table(pool) != LW_OK) {
    return lw__ix_fail(pool, LW_STATUS_OUT_OF_MEMORY);
  }
  uint32_t mask = pool->table_size - 1;
  uint32_t at = (uint32_t)hash_node(node, terms) & mask;
  for (; pool->table[at] != LW_NONE; at = (at + 1) & mask) {
    if (same_node(pool, pool->table[at], node, terms)) return pool->table[at];
  }
  if (node->weight > LW_IX_MAX_WEIGHT || node->depth > LW_IX_MAX_DEPTH) {
    return lw__ix_fail(pool, LW_STATUS_UNSUPPORTED);
  }
  node->term_begin = pool->terms.count;
  if (lw_vec_reserve(&pool->terms, node->term_count) != LW_OK ||
      push_node(pool, node, &pool->table[at]) != LW_OK) {
    pool->table[at] = LW_NONE;
    return lw__ix_fail(pool, LW_STATUS_OUT_OF_MEMORY);
  }
  if (node->term_count != 0) {
    memcpy(pool->terms.data + pool->terms.count, terms, node->term_count * sizeof *terms);
    pool->terms.count += node->term_count;
  }
  return pool->table[at];
}

/* ---- making nodes -----------------------------------------------------------------------------*/

lw_ix lw__ix_make_sum(lw_ix_pool *pool, const lw_ix_form *form) {
  if (pool->status != LW_OK) return 0;
  if (form->count == 1 && form->constant == 0 && form->term[0].coef == 1) return form->term[0].atom;
  lw_ix_node node = {.kind = LW_IX_SUM, .constant = form->constant, .term_count = form->count};
  if (!lw__ix_form_range(pool, form, &node.lo, &node.hi)) {
    return lw__ix_fail(pool, LW_STATUS_UNSUPPORTED);
  }
  uint32_t weight = 1;
  for (uint32_t i = 0; i < form->count; i++) {
    const lw_ix_node *atom = &pool->nodes.data[form->term[i].atom];
    weight += atom->weight; /* at most LW_IX_MAX_TERMS * LW_IX_MAX_WEIGHT */
    node.vars |= atom->vars;
    if (atom->depth > node.depth) node.depth = atom->depth;
  }
  node.weight = weight > LW_IX_MAX_WEIGHT ? LW_IX_MAX_WEIGHT + 1 : (uint16_t)weight;
  return intern(pool, &node, form->term);
}

static lw_ix_node division_node(const lw_ix_pool *pool, lw_ix_kind kind, lw_ix arg, int64_t c) {
  const lw_ix_node *a = &pool->nodes.data[arg];
  lw_ix_node node = {.kind = kind, .arg = arg, .constant = c, .vars = a->vars};
  node.weight = (uint16_t)(a->weight + 1);
  node.depth = (uint16_t)(a->depth + 1);
  return node;
}

lw_ix lw__ix_make_div(lw_ix_pool *pool, lw_ix arg, int64_t c) {
  if (pool->status != LW_OK) return 0;
  lw_ix_node node = division_node(pool, LW_IX_DIV, arg, c);
  node.lo = lw__floor_div(pool->nodes.data[arg].lo, c);
  node.hi = lw__floor_div(pool->nodes.data[arg].hi, c);
  return intern(pool, &node, NULL);
}

lw_ix lw__ix_make_mod(lw_ix_pool *pool, lw_ix arg, int64_t c, lw_ix quotient) {
  if (pool->status != LW_OK) return 0;
  lw_ix_node node = division_node(pool, LW_IX_MOD, arg, c);
  node.hi = c - 1; /* common factors are outside already, so nothing is known of single values */
  node.quotient = quotient;
  return intern(pool, &node, NULL);
}

lw_ix lw__ix_new_var(lw_ix_pool *pool, int64_t extent) {
  if (pool->status != LW_OK) return 0;
  if (extent < 1) return lw__ix_fail(pool, LW_STATUS_INTERNAL);
  lw_ix_node node = {.kind = LW_IX_VAR, .hi = extent - 1, .weight = 1};
  node.var = pool->extents.count;
  node.vars = (uint64_t)1 << (node.var % 64);
  lw_ix id = 0;
  if (lw_vec_reserve(&pool->extents, 1) != LW_OK || push_node(pool, &node, &id) != LW_OK) {
    return lw__ix_fail(pool, LW_STATUS_OUT_OF_MEMORY);
  }
  pool->extents.data[pool->extents.count++] = extent;
  return id;
}

lw_ix lw__ix_stand_in(lw_ix_pool *pool, int64_t extent, uint32_t slot) {
  for (uint32_t i = 0; i < pool->stand_ins.count; i++) {
    const lw_ix_stand_in *s = &pool->stand_ins.data[i];
    if (s->extent == extent && s->slot == slot) return s->var;
  }
  lw_ix var = lw__ix_new_var(pool, extent);
  if (pool->status != LW_OK) return 0;
  if (lw_vec_push(&pool->stand_ins, (lw_ix_stand_in){extent, slot, var}) != LW_OK) {
    return lw__ix_fail(pool, LW_STATUS_OUT_OF_MEMORY);
  }
  return var;
}

uint32_t lw__ix_var_number(const lw_ix_pool *pool, lw_ix var) { return pool->nodes.data[var].var; }

lw_ix lw__ix_const(lw_ix_pool *pool, int64_t c) {
  lw_ix_form form;
  lw__ix_form_init(&form, c);
  return c == 0 ? 0 : lw__ix_make_sum(pool, &form);
}

/* ---- questions ----------------------------------------------------------------------------------
 * Recursion is bounded by LW_IX_MAX_DEPTH, the work of one question by LW_IX_MAX_WEIGHT. */

const lw_ix_term *lw__ix_terms(const lw_ix_pool *pool, lw_ix e, lw_ix_term *own,
                               uint32_t *out_count) {
  const lw_ix_node *node = &pool->nodes.data[e];
  if (node->kind == LW_IX_SUM) {
    *out_count = node->term_count;
    return pool->terms.data + node->term_begin;
  }
  *out_count = 1;
  *own = (lw_ix_term){1, e};
  return own;
}

bool lw__ix_is_const(const lw_ix_pool *pool, lw_ix e, int64_t *out) {
  const lw_ix_node *node = &pool->nodes.data[e];
  if (node->lo != node->hi) return false;
  *out = node->lo;
  return true;
}

static int64_t constant_of(const lw_ix_pool *pool, lw_ix e) {
  const lw_ix_node *node = &pool->nodes.data[e];
  return node->kind == LW_IX_SUM ? node->constant : 0;
}

static bool depends_below(const lw_ix_pool *pool, lw_ix e, uint32_t var) {
  const lw_ix_node *node = &pool->nodes.data[e];
  if ((node->vars >> (var % 64) & 1) == 0) return false;
  switch (node->kind) {
    case LW_IX_VAR: return node->var == var;
    case LW_IX_DIV:
    case LW_IX_MOD: return depends_below(pool, node->arg, var);
    case LW_IX_SUM: break;
  }
  for (uint32_t i = 0; i < node->term_count; i++) {
    if (depends_below(pool, pool->terms.data[node->term_begin + i].atom, var)) return true;
  }
  return false;
}

bool lw__ix_depends(const lw_ix_pool *pool, lw_ix e, uint32_t var) {
  if (pool->extents.count <= 64) return var < 64 && (pool->nodes.data[e].vars >> var & 1) != 0;
  return depends_below(pool, e, var);
}

bool lw__ix_split(lw_ix_pool *pool, lw_ix e, uint32_t var, int64_t *out_coef, lw_ix *out_rest) {
  *out_coef = 0;
  *out_rest = e;
  if (pool->status != LW_OK) return false;
  if (!lw__ix_depends(pool, e, var)) return true;
  lw_ix_term own;
  uint32_t count;
  const lw_ix_term *term = lw__ix_terms(pool, e, &own, &count);
  lw_ix_form rest;
  lw__ix_form_init(&rest, constant_of(pool, e));
  int64_t coef = 0;
  for (uint32_t i = 0; i < count; i++) {
    const lw_ix_node *atom = &pool->nodes.data[term[i].atom];
    if (atom->kind == LW_IX_VAR && atom->var == var) {
      coef = term[i].coef;
    } else if (lw__ix_depends(pool, term[i].atom, var)) {
      return false;
    } else {
      rest.term[rest.count++] = term[i];
    }
  }
  lw_ix made = lw__ix_form_finish(pool, &rest);
  if (pool->status != LW_OK) return false;
  *out_coef = coef;
  *out_rest = made;
  return true;
}

/* gcd of the coefficients, each times what divides its atom; 0 without terms. */
static int64_t stride_of(const lw_ix_pool *pool, lw_ix e) {
  lw_ix_term own;
  uint32_t count;
  const lw_ix_term *term = lw__ix_terms(pool, e, &own, &count);
  int64_t g = 0;
  for (uint32_t i = 0; i < count && g != 1; i++) {
    const lw_ix_node *atom = &pool->nodes.data[term[i].atom];
    int64_t d = 1, product;
    if (atom->kind == LW_IX_MOD) d = lw__ix_divisor(pool, term[i].atom);
    if (!lw__mul_i64(term[i].coef, d, &product)) product = term[i].coef;
    g = lw__ix_gcd(g, product);
  }
  return g;
}

int64_t lw__ix_divisor(const lw_ix_pool *pool, lw_ix e) {
  const lw_ix_node *node = &pool->nodes.data[e];
  if (node->lo == node->hi) return lw__ix_gcd(node->lo, 0);
  switch (node->kind) {
    case LW_IX_SUM: return lw__ix_gcd(stride_of(pool, e), node->constant);
    case LW_IX_MOD: return lw__ix_gcd(lw__ix_divisor(pool, node->arg), node->constant);
    case LW_IX_VAR:
    case LW_IX_DIV: break;
  }
  return 1;
}

/* How much |var| must grow for |e| to grow by one, where |e| is a chain of divisions and moduli of
 * it. */
static int64_t ix_grain(const lw_ix_pool *pool, lw_ix e) {
  int64_t grain = 1;
  for (const lw_ix_node *n = &pool->nodes.data[e]; n->kind == LW_IX_DIV || n->kind == LW_IX_MOD;
       n = &pool->nodes.data[n->arg]) {
    if (n->kind == LW_IX_DIV && __builtin_mul_overflow(grain, n->constant, &grain)) return 1;
  }
  return grain;
}

lw_status lw__ix_borders_of(const lw_ix_pool *pool, lw_ix e, uint32_t var, lw_vec_i64 *out) {
  if (!lw__ix_depends(pool, e, var)) return LW_OK;
  const lw_ix_node *node = &pool->nodes.data[e];
  if (node->kind == LW_IX_VAR) return LW_OK;
  if (node->kind != LW_IX_SUM) {
    int64_t border;
    if (__builtin_mul_overflow(ix_grain(pool, node->arg), node->constant, &border))
      border = node->constant;
    LW_TRY(lw_vec_push(out, border));
    return lw__ix_borders_of(pool, node->arg, var, out);
  }
  for (uint32_t i = 0; i < node->term_count; i++) {
    LW_TRY(lw__ix_borders_of(pool, pool->terms.data[node->term_begin + i].atom, var, out));
  }
  return LW_OK;
}

lw_status lw__ix_divisors_of(const lw_ix_pool *pool, lw_ix e, uint32_t var, lw_vec_i64 *out) {
  if (!lw__ix_depends(pool, e, var)) return LW_OK;
  const lw_ix_node *node = &pool->nodes.data[e];
  if (node->kind == LW_IX_VAR) return LW_OK;
  if (node->kind != LW_IX_SUM) {
    LW_TRY(lw_vec_push(out, node->constant));
    return lw__ix_divisors_of(pool, node->arg, var, out);
  }
  for (uint32_t i = 0; i < node->term_count; i++) {
    LW_TRY(lw__ix_divisors_of(pool, pool->terms.data[node->term_begin + i].atom, var, out));
  }
  return LW_OK;
}

/* Unsigned arithmetic inside: partial sums may leave int64 where the value does not. */
int64_t lw__ix_eval(const lw_ix_pool *pool, lw_ix e, const int64_t *vars) {
  const lw_ix_node *node = &pool->nodes.data[e];
  switch (node->kind) {
    case LW_IX_VAR: return vars[node->var];
    case LW_IX_DIV: return lw__floor_div(lw__ix_eval(pool, node->arg, vars), node->constant);
    case LW_IX_MOD: return lw__floor_mod(lw__ix_eval(pool, node->arg, vars), node->constant);
    case LW_IX_SUM: break;
  }
  uint64_t sum = (uint64_t)node->constant;
  for (uint32_t i = 0; i < node->term_count; i++) {
    const lw_ix_term *t = &pool->terms.data[node->term_begin + i];
    sum += (uint64_t)t->coef * (uint64_t)lw__ix_eval(pool, t->atom, vars);
  }
  return (int64_t)sum;
}

/* ---- text -------------------------------------------------------------------------------------*/

static void print_atom(const lw_ix_pool *pool, lw_ix e, lw_text *out) {
  const lw_ix_node *node = &pool->nodes.data[e];
  if (node->kind == LW_IX_VAR) {
    lw__text_add(out, "i%u", node->var);
    return;
  }
  bool plain = pool->nodes.data[node->arg].kind == LW_IX_VAR;
  if (!plain) lw__text_add(out, "(");
  lw__ix_print(pool, node->arg, out);
  if (!plain) lw__text_add(out, ")");
  lw__text_add(out, "%s%lld", node->kind == LW_IX_DIV ? "//" : "%", (long long)node->constant);
}

static void print_term(const lw_ix_pool *pool, const lw_ix_term *t, bool first, lw_text *out) {
  bool minus = t->coef < 0;
  lw__text_add(out, "%s", first ? (minus ? "-" : "") : (minus ? " - " : " + "));
  bool scaled = t->coef != 1 && t->coef != -1;
  bool braces = t->coef != 1 && pool->nodes.data[t->atom].kind != LW_IX_VAR;
  if (braces) lw__text_add(out, "(");
  print_atom(pool, t->atom, out);
  if (braces) lw__text_add(out, ")");
  if (!scaled) return;
  uint64_t size = minus ? 0 - (uint64_t)t->coef : (uint64_t)t->coef;
  lw__text_add(out, "*%llu", (unsigned long long)size);
}

void lw__ix_print(const lw_ix_pool *pool, lw_ix e, lw_text *out) {
  const lw_ix_node *node = &pool->nodes.data[e];
  if (node->kind != LW_IX_SUM) {
    print_atom(pool, e, out);
    return;
  }
  for (uint32_t i = 0; i < node->term_count; i++) {
    print_term(pool, &pool->terms.data[node->term_begin + i], i == 0, out);
  }
  if (node->term_count == 0) {
    lw__text_add(out, "%lld", (long long)node->constant);
  } else if (node->constant != 0) {
    uint64_t c = (uint64_t)node->constant;
    lw__text_add(out, node->constant < 0 ? " - %llu" : " + %llu",
                 (unsigned long long)(node->constant < 0 ? 0 - c : c));
  }
}

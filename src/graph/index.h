/* index.h: integer index expressions over loop variables, always simplified and hash-consed: the
 * language of access maps. An expression is affine (sum of coefficient * atom + constant); an atom
 * is a variable, or floor(e / c), or e mod c, of another expression, c a positive constant. Equal
 * expressions that the rules below can identify have equal ids.
 *
 * Rules (all exact for the variables' ranges):
 *   (a*c + b) / c = a + b/c          (a*c + b) % c = b % c
 *   b / c = 0, b % c = b             when 0 <= b < c
 *   (e / a) / b = e / (a*b)          (e % (a*b)) % b = e % b     (e % (a*b)) / a = (e / a) % b
 *   (y / d + e) / c = (y + d*e) / (c*d)                          -e / c = -((e + c-1) / c)
 *   (e/c)*c + e%c = e, also scaled (k*c*(e/c) + k*(e%c) = k*e), for chains (((e/a)%b)*a + e%a =
 *   e % (a*b)), for parts of them, and with the terms scattered in a longer sum
 *   common factors: (k*e) / (k*c) = e / c,  (k*e) % (k*c) = k * (e % c), with a remainder r,
 *   0 <= r < k, split off first
 */
#ifndef LW_GRAPH_INDEX_H
#define LW_GRAPH_INDEX_H

#include "base/base.h"

typedef uint32_t lw_ix; /* id of an expression in a pool */

typedef enum lw_ix_kind { LW_IX_SUM, LW_IX_VAR, LW_IX_DIV, LW_IX_MOD } lw_ix_kind;
typedef struct lw_ix_term {
  int64_t coef;
  lw_ix atom; /* its kind is VAR, DIV or MOD */
} lw_ix_term;
typedef struct lw_ix_node {
  lw_ix_kind kind;
  uint32_t var;                    /* VAR: number of the variable */
  lw_ix arg;                       /* DIV, MOD: the dividend */
  int64_t constant;                /* SUM: constant term; DIV, MOD: the divisor */
  uint32_t term_begin, term_count; /* SUM: terms, ordered by atom id, no zero coefficients; a SUM
                                      is never just one atom */
  int64_t lo, hi;                  /* range of the value, inclusive */
  uint64_t vars; /* bit v % 64 is set when variable v may occur; exact below 64 variables */
  lw_ix quotient;         /* MOD: arg / constant, so value = arg - constant * quotient */
  uint16_t weight, depth; /* nodes when written out as a tree; nesting of DIV and MOD */
} lw_ix_node;

typedef struct lw_ix_stand_in {
  int64_t extent;
  uint32_t slot;
  lw_ix var;
} lw_ix_stand_in;
typedef struct lw_ix_pool {
  LW_VEC(lw_ix_node) nodes;
  LW_VEC(lw_ix_term) terms;
  LW_VEC(int64_t) extents;  /* variable i runs over 0 .. extents[i]-1 */
  uint32_t *table;          /* hash-consing */
  uint32_t table_size;
  lw_status status;         /* sticky: out of memory or overflow; results are then id 0 (the
                               constant 0). Look at it once. */
  struct lw_ix_memo *memo;  /* results of lw__ix_div by operands */
  uint32_t memo_size, memo_count;
  uint32_t nesting, effort; /* rules inside rules: how deep now, how many since the outermost */
  LW_VEC(lw_ix_stand_in) stand_ins;
} lw_ix_pool;
/* UNSUPPORTED also stands for an expression above one of these limits: whoever composes maps then
 * stores a value in between instead. The pool stays good; set |status| back to LW_OK to go on. */
enum { LW_IX_MAX_TERMS = 64, LW_IX_MAX_DEPTH = 32, LW_IX_MAX_WEIGHT = 4096 };

lw_status lw__ix_pool_init(lw_ix_pool *pool) LW_MUST_CHECK;
void lw__ix_pool_deinit(lw_ix_pool *pool);
/* A new variable over 0 .. extent-1 (extent >= 1; callers handle empty shapes before). */
lw_ix lw__ix_new_var(lw_ix_pool *pool, int64_t extent);
uint32_t lw__ix_var_number(const lw_ix_pool *pool, lw_ix var);
lw_ix lw__ix_const(lw_ix_pool *pool, int64_t c);
lw_ix lw__ix_add(lw_ix_pool *pool, lw_ix a, lw_ix b);
lw_ix lw__ix_affine(lw_ix_pool *pool, lw_ix a, int64_t mul, int64_t add); /* a*mul + add */
lw_ix lw__ix_div(lw_ix_pool *pool, lw_ix a, int64_t c); /* floor, c >= 1 */
lw_ix lw__ix_mod(lw_ix_pool *pool, lw_ix a, int64_t c); /* 0 <= result < c, c >= 1 */
/* |e| with variable number v replaced by by[v] (LW_NONE: unchanged), simplified again. |e| may have
 * been simplified with the range of v, so the result is right where the values of by[v] lie in that
 * range. */
lw_ix lw__ix_substitute(lw_ix_pool *pool, lw_ix e, const lw_ix *by, uint32_t count);
/* The same for a few variables: vars[i] (ids, not numbers) replaced by by[i]. */
lw_ix lw__ix_replace(lw_ix_pool *pool, lw_ix e, const lw_ix *vars, const lw_ix *by, uint32_t count);
/* A variable over 0 .. extent-1 that stands for a value known to lie there where its range does not
 * show it (a guarded coordinate), until lw__ix_replace puts the value back. The same |extent| and
 * |slot| give the same variable. */
lw_ix lw__ix_stand_in(lw_ix_pool *pool, int64_t extent, uint32_t slot);

static inline const lw_ix_node *lw__ix_node(const lw_ix_pool *p, lw_ix e) {
  return &p->nodes.data[e];
}
bool lw__ix_is_const(const lw_ix_pool *pool, lw_ix e, int64_t *out);
bool lw__ix_depends(const lw_ix_pool *pool, lw_ix e, uint32_t var);
/* True when e = coef * var + rest with |rest| free of var (also when coef is 0). */
bool lw__ix_split(lw_ix_pool *pool, lw_ix e, uint32_t var, int64_t *out_coef, lw_ix *out_rest);
/* The largest c that provably divides |e| for all values of the variables (0 for constant 0). */
int64_t lw__ix_divisor(const lw_ix_pool *pool, lw_ix e);
/* All divisors and moduli c whose dividend depends on |var| are appended to |out| (a vector of
 * int64), with repetitions. */
typedef LW_VEC(int64_t) lw_vec_i64;
lw_status lw__ix_divisors_of(const lw_ix_pool *pool, lw_ix e, uint32_t var,
                             lw_vec_i64 *out) LW_MUST_CHECK;
/* The same in units of |var|: (var / 96) % 64 has its borders at 96 and at 96 * 64. Where a digit
 * of |var| begins. */
lw_status lw__ix_borders_of(const lw_ix_pool *pool, lw_ix e, uint32_t var,
                            lw_vec_i64 *out) LW_MUST_CHECK;
int64_t lw__ix_eval(const lw_ix_pool *pool, lw_ix e, const int64_t *vars);
void lw__ix_print(const lw_ix_pool *pool, lw_ix e, lw_text *out); /* "i0*64 + i1//3 + 5" */

#endif

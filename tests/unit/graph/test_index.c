/* test_index.c: index expressions. Soundness: random expressions against the plain meaning of the operations, over all values
 * of the variables. Strength: the identities that addresses of real kernels depend on must be found. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>
#include <string.h>

#include <cmocka.h>

#include "graph/index.h"

#define assert_ok(expr) assert_int_equal((expr), LW_OK)
enum { ROUNDS = 6000 };

/* ---- naive expressions: what was asked for, evaluated without any simplification ------------------------------*/

typedef enum naive_op { N_VAR, N_CONST, N_ADD, N_AFFINE, N_DIV, N_MOD, N_SUBST } naive_op;
enum { MAX_NAIVE = 400, MAX_VARS = 4 };

typedef struct naive {
  naive_op op;
  int a, b;       /* operands */
  int64_t m, n;   /* VAR: number m; CONST: m; AFFINE: a*m + n; DIV, MOD: m */
  int by[MAX_VARS]; /* SUBST: -1 = unchanged */
  lw_ix ix;
} naive;

typedef struct world {
  lw_ix_pool pool;
  lw_rng rng;
  uint32_t vars;
  int64_t extent[MAX_VARS];
  lw_ix var[MAX_VARS];
  naive node[MAX_NAIVE];
  int count;
} world;

static int64_t pick(world *w, int64_t lo, int64_t hi) { return lw__rng_range(&w->rng, lo, hi + 1); }

static int64_t floor_div(int64_t a, int64_t b) { /* written apart from base.h */
  int64_t q = a / b;
  while (q * b > a) q--;
  return q;
}

static int64_t naive_eval(const world *w, int i, const int64_t *vars) {
  const naive *n = &w->node[i];
  switch (n->op) {
    case N_VAR: return vars[n->m];
    case N_CONST: return n->m;
    case N_ADD: return naive_eval(w, n->a, vars) + naive_eval(w, n->b, vars);
    case N_AFFINE: return naive_eval(w, n->a, vars) * n->m + n->n;
    case N_DIV: return floor_div(naive_eval(w, n->a, vars), n->m);
    case N_MOD: {
      int64_t x = naive_eval(w, n->a, vars);
      return x - floor_div(x, n->m) * n->m;
    }
    case N_SUBST: break;
  }
  int64_t inner[MAX_VARS];
  for (uint32_t v = 0; v < w->vars; v++) {
    inner[v] = n->by[v] < 0 ? vars[v] : naive_eval(w, n->by[v], vars);
  }
  return naive_eval(w, n->a, inner);
}

static int push(world *w, naive n) {
  assert_true(w->count < MAX_NAIVE);
  lw_ix_pool *p = &w->pool;
  switch (n.op) {
    case N_VAR: n.ix = w->var[n.m]; break;
    case N_CONST: n.ix = lw__ix_const(p, n.m); break;
    case N_ADD: n.ix = lw__ix_add(p, w->node[n.a].ix, w->node[n.b].ix); break;
    case N_AFFINE: n.ix = lw__ix_affine(p, w->node[n.a].ix, n.m, n.n); break;
    case N_DIV: n.ix = lw__ix_div(p, w->node[n.a].ix, n.m); break;
    case N_MOD: n.ix = lw__ix_mod(p, w->node[n.a].ix, n.m); break;
    case N_SUBST: {
      lw_ix by[MAX_VARS];
      for (uint32_t v = 0; v < w->vars; v++) by[v] = n.by[v] < 0 ? LW_NONE : w->node[n.by[v]].ix;
      n.ix = lw__ix_substitute(p, w->node[n.a].ix, by, w->vars);
      break;
    }
  }
  w->node[w->count] = n;
  return w->count++;
}

static int push_affine(world *w, int a, int64_t m, int64_t n) {
  return push(w, (naive){.op = N_AFFINE, .a = a, .m = m, .n = n});
}
static int push_add(world *w, int a, int b) { return push(w, (naive){.op = N_ADD, .a = a, .b = b}); }
static int push_div(world *w, int a, int64_t c) { return push(w, (naive){.op = N_DIV, .a = a, .m = c}); }
static int push_mod(world *w, int a, int64_t c) { return push(w, (naive){.op = N_MOD, .a = a, .m = c}); }

static void world_init(world *w, uint64_t seed) {
  memset(w, 0, sizeof *w);
  lw__rng_seed(&w->rng, seed);
  assert_ok(lw__ix_pool_init(&w->pool));
  w->vars = (uint32_t)pick(w, 1, MAX_VARS);
  for (uint32_t v = 0; v < w->vars; v++) {
    static const int64_t common[] = {1, 2, 4, 8, 16, 3, 6, 12};
    w->extent[v] = pick(w, 0, 1) ? pick(w, 1, 12) : common[pick(w, 0, w->vars > 3 ? 3 : 7)];
    w->var[v] = lw__ix_new_var(&w->pool, w->extent[v]);
    push(w, (naive){.op = N_VAR, .m = v});
  }
}

/* The expression |i| is right for all values of the variables; so are its range, divisor and splits. */
static void check(world *w, int i, uint64_t seed) {
  assert_ok(w->pool.status);
  lw_ix e = w->node[i].ix;
  lw_ix_node node = *lw__ix_node(&w->pool, e);
  int64_t divisor = lw__ix_divisor(&w->pool, e), coef[MAX_VARS] = {0}, value;
  lw_ix rest[MAX_VARS];
  bool split[MAX_VARS], depends[MAX_VARS], is_const = lw__ix_is_const(&w->pool, e, &value);
  for (uint32_t v = 0; v < w->vars; v++) {
    split[v] = lw__ix_split(&w->pool, e, v, &coef[v], &rest[v]);
    depends[v] = lw__ix_depends(&w->pool, e, v);
    if (split[v]) assert_false(lw__ix_depends(&w->pool, rest[v], v));
    if (split[v] && !depends[v]) assert_int_equal(coef[v], 0);
  }
  int64_t x[MAX_VARS] = {0};
  for (bool more = true; more;) {
    int64_t expected = naive_eval(w, i, x), got = lw__ix_eval(&w->pool, e, x);
    if (expected != got || got < node.lo || got > node.hi || (is_const && got != value) ||
        (divisor == 0 ? got != 0 : got % divisor != 0)) {
      lw_text text = {0};
      lw__ix_print(&w->pool, e, &text);
      print_error("seed %llu: %s is %lld not %lld\n", (unsigned long long)seed, lw__text_str(&text),
                  (long long)got, (long long)expected);
      lw__text_deinit(&text);
      fail();
    }
    for (uint32_t v = 0; v < w->vars; v++) {
      if (split[v]) assert_true(got == coef[v] * x[v] + lw__ix_eval(&w->pool, rest[v], x));
      int64_t keep = x[v];
      if (!depends[v]) {
        x[v] = 0;
        assert_true(naive_eval(w, i, x) == expected);
        x[v] = keep;
      }
    }
    more = false;
    for (uint32_t v = w->vars; v-- > 0 && !more;) {
      more = ++x[v] < w->extent[v];
      if (!more) x[v] = 0;
    }
  }
}

/* ---- random expressions --------------------------------------------------------------------------------------*/

static int64_t pick_divisor(world *w) {
  static const int64_t common[] = {2, 3, 4, 6, 8, 12, 16, 24, 32, 48};
  return pick(w, 0, 2) ? common[pick(w, 0, 9)] : pick(w, 1, 40);
}

/* sum of variables with mixed-radix weights, times a factor, perhaps shuffled: what flattening makes. */
static int random_linear(world *w) {
  int sum = push(w, (naive){.op = N_CONST, .m = pick(w, 0, 3) ? 0 : pick(w, -9, 9)});
  int64_t weight = pick(w, 0, 2) ? 1 : pick(w, 1, 4);
  uint32_t first = (uint32_t)pick(w, 0, w->vars - 1);
  for (uint32_t k = 0; k < w->vars; k++) {
    uint32_t v = (first + k) % w->vars;
    sum = push_add(w, sum, push_affine(w, (int)v, weight, 0));
    weight *= pick(w, 0, 5) ? w->extent[v] : pick(w, 1, 12);
  }
  return sum;
}

/* Coordinates of |e| by a chain of divisors, put together again with weights that may fit. */
static int random_digits(world *w, int e) {
  int sum = push(w, (naive){.op = N_CONST, .m = pick(w, -2, 2)});
  int64_t below = pick(w, 0, 2) ? 1 : pick(w, 2, 4), weight = pick(w, 1, 3);
  for (int k = 0; k < 3; k++) {
    int64_t extent = pick_divisor(w);
    int digit = push_div(w, e, below);
    if (k < 2 || pick(w, 0, 1)) digit = push_mod(w, digit, extent);
    if (pick(w, 0, 7)) sum = push_add(w, sum, push_affine(w, digit, weight, 0));
    weight = pick(w, 0, 2) ? weight * extent : pick(w, -20, 60);
    below *= extent;
  }
  return sum;
}

static int random_substitution(world *w, int e) {
  naive n = {.op = N_SUBST, .a = e};
  for (uint32_t v = 0; v < w->vars; v++) {
    n.by[v] = -1;
    if (w->extent[v] == 1 || pick(w, 0, 1) == 0) continue;
    /* By something in the variable's range: that is all that substitution has to be right for. */
    int other = pick(w, 0, 2) == 0 ? random_linear(w) : (int)pick(w, 0, w->count - 1);
    if (pick(w, 0, 1)) other = push_affine(w, other, pick(w, 1, 4), 0);
    n.by[v] = push_mod(w, other, w->extent[v]);
  }
  return push(w, n);
}

static int random_step(world *w) {
  int a = (int)pick(w, 0, w->count - 1), b = (int)pick(w, 0, w->count - 1);
  switch (pick(w, 0, 9)) {
    case 0:
    case 1: return push_add(w, a, push_affine(w, b, pick(w, -4, 12), 0));
    case 2: return push_affine(w, a, pick(w, -3, 8), pick(w, -20, 20));
    case 3:
    case 4: return push_div(w, a, pick_divisor(w));
    case 5: return push_mod(w, a, pick_divisor(w));
    case 6: return random_linear(w);
    case 7: return random_digits(w, a);
    case 8: {
      int64_t c = pick_divisor(w), k = pick(w, -3, 5);
      return push_add(w, push_affine(w, push_mod(w, a, c), k, 0),
                      push_affine(w, push_div(w, a, c), pick(w, 0, 1) ? k * c : pick(w, -9, 9), 0));
    }
    default: return random_substitution(w, a);
  }
}

static void test_random(void **state) {
  (void)state;
  for (uint64_t seed = 0; seed < ROUNDS; seed++) {
    world w;
    world_init(&w, seed);
    int last = 0;
    for (int step = 0; step < 7; step++) {
      last = random_step(&w);
      if (w.pool.status == LW_STATUS_UNSUPPORTED) break;
      assert_ok(w.pool.status);
      const lw_ix_node *node = lw__ix_node(&w.pool, w.node[last].ix);
      if (node->lo < -1000000 || node->hi > 1000000) break;
    }
    if (w.pool.status == LW_OK) {
      for (int i = 0; i < w.count; i++) check(&w, i, seed);
    }
    lw__ix_pool_deinit(&w.pool);
  }
}

int main(void) {
  const struct CMUnitTest tests[] = {cmocka_unit_test(test_random)};
  return cmocka_run_group_tests(tests, NULL, NULL);
}

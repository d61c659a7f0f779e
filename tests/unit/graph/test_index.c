/* test_index.c: index expressions are right: random ones against the plain meaning of the
 * operations, over all values of the variables; limits, overflow, lack of memory. What must be
 * found equal stands in test_index_strength.c. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>
#include <string.h>

#include <cmocka.h>

#include "graph/index.h"

#define assert_ok(expr) assert_int_equal((expr), LW_OK)
enum { ROUNDS = 3000 };

/* ---- naive expressions: what was asked for, evaluated without any simplification --------------*/

typedef enum naive_op { N_VAR, N_CONST, N_ADD, N_AFFINE, N_DIV, N_MOD, N_SUBST } naive_op;
enum { MAX_NAIVE = 400, MAX_VARS = 4 };

typedef struct naive {
  naive_op op;
  int a, b;         /* operands */
  int64_t m, n;     /* VAR: number m; CONST: m; AFFINE: a*m + n; DIV, MOD: m */
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
static int push_add(world *w, int a, int b) {
  return push(w, (naive){.op = N_ADD, .a = a, .b = b});
}
static int push_div(world *w, int a, int64_t c) {
  return push(w, (naive){.op = N_DIV, .a = a, .m = c});
}
static int push_mod(world *w, int a, int64_t c) {
  return push(w, (naive){.op = N_MOD, .a = a, .m = c});
}

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

/* The expression |i| is right for all values of the variables; so are its range, divisor and
 * splits. */
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

/* ---- random expressions -----------------------------------------------------------------------*/

static int64_t pick_divisor(world *w) {
  static const int64_t common[] = {2, 3, 4, 6, 8, 12, 16, 24, 32, 48};
  return pick(w, 0, 2) ? common[pick(w, 0, 9)] : pick(w, 1, 40);
}

/* sum of variables with mixed-radix weights, times a factor, perhaps shuffled: what flattening
 * makes. */
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

/* Extents and divisors as large as those of real tensors, at random points. */
static void test_large(void **state) {
  (void)state;
  static const int64_t common[] = {64, 96, 128, 768, 1000, 1024, 3072, 4096, 50257};
  for (uint64_t seed = 0; seed < 1000; seed++) {
    world w;
    world_init(&w, seed);
    w.vars = 0;
    w.count = 0;
    for (int v = 0; v < MAX_VARS; v++) {
      w.extent[v] = pick(&w, 0, 1) ? common[pick(&w, 0, 8)] : pick(&w, 1, 1 << pick(&w, 1, 20));
      w.var[v] = lw__ix_new_var(&w.pool, w.extent[v]); /* numbers go on where world_init's end */
      push(&w, (naive){.op = N_VAR, .m = v});
    }
    w.vars = MAX_VARS;
    int sum = 0;
    for (int k = 0; k < 4; k++) {
      int64_t a = common[pick(&w, 0, 8)], b = pick(&w, 2, 200);
      int e = push_add(&w, push_affine(&w, (int)pick(&w, 0, 3), a, pick(&w, -5, 5)), sum);
      int low = push_mod(&w, e, b), high = push_mod(&w, push_div(&w, e, b), a);
      bool fits = pick(&w, 0, 1);
      sum = push_add(&w, push_affine(&w, high, fits ? b : pick(&w, -9, 99), 0), low);
      push_div(&w, push_affine(&w, sum, 1, pick(&w, -99, 99)), common[pick(&w, 0, 8)]);
    }
    assert_ok(w.pool.status);
    uint32_t first = lw__ix_var_number(&w.pool, w.var[0]);
    for (int point = 0; point < 40; point++) {
      int64_t values[2 * MAX_VARS] = {0};
      for (int v = 0; v < MAX_VARS; v++) values[first + (uint32_t)v] = pick(&w, 0, w.extent[v] - 1);
      for (int i = 0; i < w.count; i++) {
        int64_t got = lw__ix_eval(&w.pool, w.node[i].ix, values);
        assert_true(got == naive_eval(&w, i, values + first));
        const lw_ix_node *node = lw__ix_node(&w.pool, w.node[i].ix);
        assert_true(got >= node->lo && got <= node->hi);
      }
    }
    lw__ix_pool_deinit(&w.pool);
  }
}

/* ---- edges ------------------------------------------------------------------------------------*/

static void test_overflow(void **state) {
  (void)state;
  lw_ix_pool p;
  assert_ok(lw__ix_pool_init(&p));
  lw_ix x = lw__ix_new_var(&p, INT64_MAX);
  assert_ok(p.status);
  lw_ix big = lw__ix_affine(&p, x, 1, 1);
  assert_ok(p.status);
  const lw_ix failing[] = {
      lw__ix_affine(&p, x, 2, 0),
      (p.status = LW_OK, lw__ix_affine(&p, big, INT64_MIN, 0)),
      (p.status = LW_OK, lw__ix_affine(&p, x, 1, INT64_MAX)),
      (p.status = LW_OK, lw__ix_add(&p, lw__ix_affine(&p, x, -1, -2), lw__ix_affine(&p, x, -1, 0))),
      (p.status = LW_OK, lw__ix_const(&p, INT64_MIN)),
  };
  for (size_t i = 0; i < LW_ARRAY_COUNT(failing); i++) assert_int_equal(failing[i], 0);
  assert_int_equal(p.status, LW_STATUS_UNSUPPORTED);
  assert_int_equal(lw__ix_const(&p, 5), 0); /* sticky */
  assert_int_equal(lw__ix_div(&p, x, 5), 0);
  p.status = LW_OK;
  lw_ix y = lw__ix_new_var(&p, 10);
  assert_int_equal(
      lw__ix_add(&p, lw__ix_affine(&p, lw__ix_div(&p, y, 3), 3, 0), lw__ix_mod(&p, y, 3)), y);
  assert_int_equal(lw__ix_div(&p, x, INT64_MAX), 0); /* in range: really 0 */
  assert_int_equal(lw__ix_mod(&p, x, INT64_MAX), x);
  assert_ok(p.status);
  lw__ix_div(&p, y, 0);
  assert_int_equal(p.status, LW_STATUS_INTERNAL);
  lw__ix_pool_deinit(&p);
}

/* Random arithmetic with huge numbers: fails cleanly or is right. Sanitizers watch. */
static void test_huge(void **state) {
  (void)state;
  lw_rng rng;
  lw__rng_seed(&rng, 3);
  for (int round = 0; round < 2000; round++) {
    lw_ix_pool p;
    assert_ok(lw__ix_pool_init(&p));
    lw_ix e = lw__ix_new_var(&p, INT64_MAX >> lw__rng_range(&rng, 0, 60));
    lw_ix f = lw__ix_new_var(&p, INT64_MAX >> lw__rng_range(&rng, 0, 60));
    for (int step = 0; step < 12 && p.status == LW_OK; step++) {
      int64_t c = INT64_MAX >> lw__rng_range(&rng, 0, 63);
      int64_t m = lw__rng_range(&rng, 0, 2) ? c : -c;
      switch (lw__rng_range(&rng, 0, 5)) {
        case 0: e = lw__ix_div(&p, e, c < 1 ? 1 : c); break;
        case 1: e = lw__ix_mod(&p, e, c < 1 ? 1 : c); break;
        case 2: e = lw__ix_affine(&p, e, m >> lw__rng_range(&rng, 0, 60), m); break;
        case 3: e = lw__ix_add(&p, e, f); break;
        default: f = lw__ix_add(&p, lw__ix_mod(&p, f, c < 1 ? 1 : c), e); break;
      }
    }
    const int64_t zero[2] = {0, 0};
    if (p.status == LW_OK) {
      int64_t value = lw__ix_eval(&p, e, zero);
      assert_true(value >= lw__ix_node(&p, e)->lo && value <= lw__ix_node(&p, e)->hi);
    }
    lw__ix_pool_deinit(&p);
  }
}

/* Expressions that only grow meet a limit, soon, instead of eating time, stack or memory. */
static void test_limits(void **state) {
  (void)state;
  lw_ix_pool p;
  assert_ok(lw__ix_pool_init(&p));
  lw_ix e = lw__ix_new_var(&p, 1 << 30);
  for (int64_t i = 0; i < 10000 && p.status == LW_OK; i++) { /* deeper and deeper */
    e = lw__ix_affine(&p, lw__ix_div(&p, lw__ix_add(&p, e, lw__ix_mod(&p, e, 1000 - i)), 3), 5, 1);
  }
  assert_int_equal(p.status, LW_STATUS_UNSUPPORTED);
  p.status = LW_OK;
  e = 0;
  for (int64_t i = 0; i < 1000 && p.status == LW_OK; i++) { /* wider and wider */
    lw_ix x = lw__ix_new_var(&p, 7);
    e = lw__ix_add(&p, e,
                   lw__ix_affine(&p, lw__ix_mod(&p, lw__ix_affine(&p, x, 5, i), 11), i + 1, 0));
  }
  assert_int_equal(p.status, LW_STATUS_UNSUPPORTED);
  assert_true(p.nodes.count < 100000);
  lw__ix_pool_deinit(&p);
}

/* |status| after the n-th allocation failed (0: none does); always the same expressions. */
static lw_status build_some(uint64_t n) {
  lw_ix_pool p;
  lw__mem_fail_at(n);
  lw_status status = lw__ix_pool_init(&p);
  if (status == LW_OK) {
    lw_ix x = lw__ix_new_var(&p, 100000), sum = 0, vars[2] = {x, lw__ix_new_var(&p, 50)};
    for (int64_t i = 2; i < 300; i++) {
      lw_ix digit = lw__ix_mod(&p, lw__ix_div(&p, x, i), i + 1);
      sum = lw__ix_substitute(&p, lw__ix_add(&p, digit, lw__ix_const(&p, i)),
                              (lw_ix[]){sum, vars[1]}, 2);
      lw__ix_stand_in(&p, i, 0);
    }
    lw_vec_i64 divisors = {0};
    lw_status more = lw__ix_divisors_of(&p, lw__ix_mod(&p, x, 7), 0, &divisors);
    status = p.status != LW_OK ? p.status : more;
    lw_vec_free(&divisors);
    lw__ix_pool_deinit(&p);
  }
  lw__mem_fail_at(0);
  return status;
}

static void test_out_of_memory(void **state) {
  (void)state;
  uint64_t n = 1;
  while (n < 1000 && build_some(n) == LW_STATUS_OUT_OF_MEMORY) n++;
  assert_in_range(n, 20, 200); /* then nothing was left to fail */
  assert_ok(build_some(n));
  assert_ok(build_some(0));
}

static void test_many_variables(void **state) {
  (void)state;
  lw_ix_pool p;
  assert_ok(lw__ix_pool_init(&p));
  lw_ix var[200];
  for (int i = 0; i < 200; i++) var[i] = lw__ix_new_var(&p, 10);
  lw_ix e = lw__ix_add(&p, var[3], lw__ix_mod(&p, lw__ix_affine(&p, var[130], 3, 1), 7)), rest;
  assert_true(lw__ix_depends(&p, e, 3));
  assert_true(lw__ix_depends(&p, e, 130));
  for (uint32_t v = 0; v < 200; v++) {
    if (v != 3 && v != 130)
      assert_false(lw__ix_depends(&p, e, v)); /* 67, 131, 2, 66 share filter bits */
  }
  int64_t coef;
  assert_false(lw__ix_split(&p, e, 130, &coef, &rest));
  assert_true(lw__ix_split(&p, e, 3, &coef, &rest));
  assert_int_equal(coef, 1);
  assert_true(lw__ix_split(&p, e, 67, &coef, &rest));
  assert_int_equal(coef, 0);
  assert_int_equal(rest, e);
  assert_int_equal(lw__ix_var_number(&p, var[130]), 130);
  lw__ix_pool_deinit(&p);
}

static void check_text(const lw_ix_pool *p, lw_ix e, const char *expected) {
  lw_text text = {0};
  lw__ix_print(p, e, &text);
  assert_string_equal(lw__text_str(&text), expected);
  lw__text_deinit(&text);
}

static void test_text(void **state) {
  (void)state;
  lw_ix_pool p;
  assert_ok(lw__ix_pool_init(&p));
  lw_ix a = lw__ix_new_var(&p, 100), b = lw__ix_new_var(&p, 100);
  check_text(&p, 0, "0");
  check_text(&p, lw__ix_const(&p, -7), "-7");
  check_text(&p, lw__ix_affine(&p, a, 64, 5), "i0*64 + 5");
  check_text(&p, lw__ix_add(&p, lw__ix_affine(&p, a, -1, -5), b), "-i0 + i1 - 5");
  check_text(&p, lw__ix_add(&p, lw__ix_affine(&p, a, 64, 5), lw__ix_div(&p, b, 3)),
             "i0*64 + i1//3 + 5");
  check_text(&p, lw__ix_affine(&p, lw__ix_mod(&p, lw__ix_add(&p, a, b), 6), -2, 0),
             "-((i0 + i1)%6)*2");
  check_text(&p, lw__ix_mod(&p, lw__ix_div(&p, b, 3), 4), "(i1//3)%4");
  lw__ix_pool_deinit(&p);
}

static void test_divisors(void **state) {
  (void)state;
  lw_ix_pool p;
  assert_ok(lw__ix_pool_init(&p));
  lw_ix a = lw__ix_new_var(&p, 1000), b = lw__ix_new_var(&p, 1000);
  lw_ix e = lw__ix_add(&p, lw__ix_affine(&p, lw__ix_div(&p, a, 8), 24, 0),
                       lw__ix_affine(&p, lw__ix_mod(&p, b, 6), 32, 40));
  assert_int_equal(lw__ix_divisor(&p, e), 8);
  assert_int_equal(lw__ix_divisor(&p, 0), 0);
  assert_int_equal(lw__ix_divisor(&p, lw__ix_const(&p, -12)), 12);
  lw_vec_i64 v = {0};
  assert_ok(lw__ix_divisors_of(&p, e, 0, &v));
  assert_int_equal(v.count, 1);
  assert_int_equal(v.data[0], 8);
  assert_ok(lw__ix_divisors_of(&p, e, 1, &v));
  assert_int_equal(v.count, 2);
  assert_int_equal(v.data[1], 6);
  v.count = 0;
  lw_ix deep = lw__ix_mod(&p, lw__ix_add(&p, lw__ix_affine(&p, lw__ix_div(&p, a, 5), 3, 0), b), 7);
  assert_ok(lw__ix_divisors_of(&p, deep, 0, &v));
  assert_int_equal(v.count, 2);
  assert_int_equal(v.data[0] * v.data[1], 35);
  assert_ok(p.status);
  lw_vec_free(&v);
  lw__ix_pool_deinit(&p);
}

int main(void) {
  const struct CMUnitTest tests[] = {
      cmocka_unit_test(test_random),        cmocka_unit_test(test_large),
      cmocka_unit_test(test_overflow),      cmocka_unit_test(test_huge),
      cmocka_unit_test(test_limits),        cmocka_unit_test(test_text),
      cmocka_unit_test(test_divisors),      cmocka_unit_test(test_out_of_memory),
      cmocka_unit_test(test_many_variables)};
  return cmocka_run_group_tests(tests, NULL, NULL);
}

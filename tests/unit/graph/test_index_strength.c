/* test_index_strength.c: what the simplifier of index expressions must find: the identities that
 * the addresses of real kernels depend on. Equal ids are the claim throughout; that the values are
 * right is test_index.c's business. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <string.h>

#include <cmocka.h>

#include "graph/access.h"

#define assert_ok(expr) assert_int_equal((expr), LW_OK)

typedef struct world {
  lw_ix_pool pool;
  lw_rng rng;
} world;

static int64_t pick(world *w, int64_t lo, int64_t hi) { return lw__rng_range(&w->rng, lo, hi + 1); }

static void world_init(world *w, uint64_t seed) {
  lw__rng_seed(&w->rng, seed);
  assert_ok(lw__ix_pool_init(&w->pool));
}

static void world_deinit(world *w) {
  assert_ok(w->pool.status);
  lw__ix_pool_deinit(&w->pool);
}

static lw_ix scaled_sum(world *w, uint32_t count, const int64_t *coef, const lw_ix *e) {
  lw_ix sum = 0;
  for (uint32_t i = 0; i < count; i++) {
    sum = lw__ix_add(&w->pool, sum, lw__ix_affine(&w->pool, e[i], coef[i], 0));
  }
  return sum;
}

static void assert_same(const world *w, lw_ix got, lw_ix expected) {
  if (got == expected) return;
  lw_text a = {0}, b = {0};
  lw__ix_print(&w->pool, got, &a);
  lw__ix_print(&w->pool, expected, &b);
  print_error("%s is not %s\n", lw__text_str(&a), lw__text_str(&b));
  lw__text_deinit(&a);
  lw__text_deinit(&b);
  fail();
}

static void assert_text(const world *w, lw_ix e, const char *expected) {
  lw_text text = {0};
  lw__ix_print(&w->pool, e, &text);
  assert_string_equal(lw__text_str(&text), expected);
  lw__text_deinit(&text);
}

/* ---- reshapes ---------------------------------------------------------------------------------*/

static lw_shape random_factors(world *w, int64_t n) {
  lw_shape shape = {.rank = 0};
  uint32_t rank = (uint32_t)pick(w, 1, 6);
  for (uint32_t i = 0; i + 1 < rank; i++) {
    int64_t f = pick(w, 1, 40);
    while (n % f != 0) f--;
    shape.dim[shape.rank++] = f;
    n /= f;
  }
  shape.dim[shape.rank++] = n;
  uint32_t at = (uint32_t)pick(w, 0, rank - 1);
  shape.dim[rank - 1] = shape.dim[at];
  shape.dim[at] = n;
  return shape;
}

/* A number taken apart over any shapes one after the other and put together again is the number. */
static void test_unflatten_flatten(void **state) {
  (void)state;
  static const int64_t sizes[] = {
      2, 36, 60, 97, 128, 360, 768, 1000, 4096, 50257, 3 * 224 * 224, 1 << 20, 12 * 128 * 64};
  for (uint64_t seed = 0; seed < 3000; seed++) {
    world w;
    world_init(&w, seed);
    int64_t n = sizes[pick(&w, 0, LW_ARRAY_COUNT(sizes) - 1)];
    lw_ix x = lw__ix_new_var(&w.pool, n), linear = x;
    for (int k = 0; k < 3; k++) {
      lw_shape shape = random_factors(&w, n);
      lw_ix index[LW_MAX_RANK];
      lw__access_unflatten(&w.pool, &shape, linear, index);
      for (uint32_t d = 0; d < shape.rank; d++) {
        const lw_ix_node *node = lw__ix_node(&w.pool, index[d]);
        assert_int_equal(node->lo, 0);
        assert_int_equal(node->hi, shape.dim[d] - 1);
        assert_true(node->kind != LW_IX_SUM || shape.dim[d] == 1); /* x / a % b, no more */
      }
      linear = lw__access_flatten(&w.pool, &shape, index);
      assert_same(&w, linear, x);
    }
    world_deinit(&w);
  }
}

/* [b, h, s, d] seen as a number and back: the variables, for every way of grouping dims. */
static void test_coordinates(void **state) {
  (void)state;
  for (uint64_t seed = 0; seed < 3000; seed++) {
    world w;
    world_init(&w, seed);
    lw_shape shape = {.rank = (uint32_t)pick(&w, 1, 5)};
    lw_ix var[LW_MAX_RANK];
    for (uint32_t d = 0; d < shape.rank; d++) {
      shape.dim[d] = pick(&w, 2, 70);
      var[d] = lw__ix_new_var(&w.pool, shape.dim[d]);
    }
    lw_ix linear = lw__access_flatten(&w.pool, &shape, var);
    int64_t inner = 1;
    for (uint32_t d = shape.rank; d-- > 0;) {
      lw_shape tail = {.rank = shape.rank - d}, head = {.rank = d};
      memcpy(tail.dim, shape.dim + d, tail.rank * sizeof *tail.dim);
      memcpy(head.dim, shape.dim, head.rank * sizeof *head.dim);
      inner *= shape.dim[d];
      assert_same(&w, lw__ix_mod(&w.pool, linear, inner),
                  lw__access_flatten(&w.pool, &tail, var + d));
      assert_same(&w, lw__ix_div(&w.pool, linear, inner), lw__access_flatten(&w.pool, &head, var));
      assert_same(
          &w, lw__ix_mod(&w.pool, lw__ix_div(&w.pool, linear, inner / shape.dim[d]), shape.dim[d]),
          var[d]);
    }
    world_deinit(&w);
  }
}

/* ---- any rearrangement of digits ----------------------------------------------------------------
 * A number with mixed-radix digits; shapes group neighbouring digits, permutations move groups.
 * Each coordinate must have one term for each run of digits that follow one another in the number,
 * and the way back must give the variables. */

enum { MAX_DIGITS = 7, MAX_STEPS = 8 };
typedef struct layout {
  uint32_t digits, groups;
  uint32_t digit[MAX_DIGITS]; /* which one; the original order is 0, 1, .. */
  uint32_t size[MAX_DIGITS];  /* digits in each group */
  int64_t extent[MAX_DIGITS]; /* of original digit i */
} layout;

static void group_digits(world *w, layout *l) {
  l->groups = 0;
  for (uint32_t i = 0; i < l->digits; i += l->size[l->groups++]) {
    l->size[l->groups] = (uint32_t)pick(w, 1, lw__min_i64(3, l->digits - i));
  }
}

static lw_shape layout_shape(const layout *l) {
  lw_shape shape = {.rank = l->groups};
  for (uint32_t g = 0, i = 0; g < l->groups; g++) {
    shape.dim[g] = 1;
    for (uint32_t k = 0; k < l->size[g]; k++) shape.dim[g] *= l->extent[l->digit[i++]];
  }
  return shape;
}

static void permute_groups(const layout *l, const uint32_t *perm, layout *out) {
  *out = *l;
  uint32_t at = 0;
  for (uint32_t g = 0; g < l->groups; g++) {
    uint32_t begin = 0;
    for (uint32_t k = 0; k < perm[g]; k++) begin += l->size[k];
    out->size[g] = l->size[perm[g]];
    for (uint32_t k = 0; k < out->size[g]; k++) out->digit[at++] = l->digit[begin + k];
  }
}

/* |source[i]|: the variable that holds original digit i. */
static void check_runs(const world *w, const layout *l, const uint32_t *source,
                       const lw_ix *index) {
  for (uint32_t g = 0, i = 0; g < l->groups; g++) {
    uint32_t runs = 1;
    for (uint32_t k = 1; k < l->size[g]; k++) {
      uint32_t a = l->digit[i + k - 1], b = l->digit[i + k];
      runs += b != a + 1 || source[a] != source[b];
    }
    i += l->size[g];
    const lw_ix_node *node = lw__ix_node(&w->pool, index[g]);
    assert_int_equal(node->kind == LW_IX_SUM ? node->term_count : 1, runs);
    assert_int_equal(node->lo, 0);
    assert_int_equal(node->hi, layout_shape(l).dim[g] - 1);
  }
}

static void reshape(world *w, const layout *from, const layout *to, lw_ix *index) {
  lw_shape a = layout_shape(from), b = layout_shape(to);
  lw_ix linear = lw__access_flatten(&w->pool, &a, index);
  lw__access_unflatten(&w->pool, &b, linear, index);
}

static void apply_perm(const uint32_t *perm, uint32_t count, bool inverse, lw_ix *index) {
  lw_ix old[LW_MAX_RANK];
  memcpy(old, index, count * sizeof *old);
  for (uint32_t g = 0; g < count; g++) index[inverse ? perm[g] : g] = old[inverse ? g : perm[g]];
}

static void rearrange(uint64_t seed) {
  world w;
  world_init(&w, seed);
  layout l[MAX_STEPS + 1] = {{.digits = (uint32_t)pick(&w, 1, MAX_DIGITS)}};
  uint32_t perm[MAX_STEPS][MAX_DIGITS], source[MAX_DIGITS],
      steps = (uint32_t)pick(&w, 1, MAX_STEPS);
  for (uint32_t i = 0; i < l[0].digits; i++) {
    l[0].digit[i] = i;
    l[0].extent[i] = pick(&w, 2, 9);
  }
  group_digits(&w, &l[0]);
  lw_shape shape = layout_shape(&l[0]);
  lw_ix var[MAX_DIGITS], index[LW_MAX_RANK];
  for (uint32_t g = 0, i = 0; g < l[0].groups; g++) {
    index[g] = var[g] = lw__ix_new_var(&w.pool, shape.dim[g]);
    for (uint32_t k = 0; k < l[0].size[g]; k++) source[i++] = g;
  }
  for (uint32_t s = 0; s < steps; s++) {
    if (s % 2 == 0) {
      l[s + 1] = l[s];
      group_digits(&w, &l[s + 1]);
      reshape(&w, &l[s], &l[s + 1], index);
    } else {
      for (uint32_t g = 0; g < l[s].groups; g++) {
        uint32_t at = (uint32_t)pick(&w, 0, g);
        perm[s][g] = perm[s][at];
        perm[s][at] = g;
      }
      permute_groups(&l[s], perm[s], &l[s + 1]);
      apply_perm(perm[s], l[s].groups, false, index);
    }
    check_runs(&w, &l[s + 1], source, index);
  }
  for (uint32_t s = steps; s-- > 0;) {
    if (s % 2 == 0) {
      reshape(&w, &l[s + 1], &l[s], index);
    } else {
      apply_perm(perm[s], l[s].groups, true, index);
    }
  }
  for (uint32_t g = 0; g < l[0].groups; g++) assert_same(&w, index[g], var[g]);
  world_deinit(&w);
}

static void test_rearrange(void **state) {
  (void)state;
  for (uint64_t seed = 0; seed < 6000; seed++) rearrange(seed);
}

/* The same with shapes that cut the number anywhere: the way back through one or two reshapes and a
 * permutation. */
static void test_odd_cuts(void **state) {
  (void)state;
  static const int64_t sizes[] = {24, 60, 96, 120, 144, 210, 360, 720, 768, 3072};
  for (uint64_t seed = 0; seed < 3000; seed++) {
    world w;
    world_init(&w, seed);
    int64_t n = sizes[pick(&w, 0, LW_ARRAY_COUNT(sizes) - 1)];
    lw_shape a = random_factors(&w, n), b = random_factors(&w, n);
    lw_ix var[LW_MAX_RANK], index[LW_MAX_RANK], back[LW_MAX_RANK];
    for (uint32_t d = 0; d < a.rank; d++) var[d] = lw__ix_new_var(&w.pool, a.dim[d]);
    lw__access_unflatten(&w.pool, &b, lw__access_flatten(&w.pool, &a, var), index);
    for (uint32_t d = 0; d < b.rank; d++) {
      const lw_ix_node *node = lw__ix_node(&w.pool, index[d]);
      assert_true(node->lo == 0 && node->hi < b.dim[d]);
    }
    lw__access_unflatten(&w.pool, &a, lw__access_flatten(&w.pool, &b, index), back);
    for (uint32_t d = 0; d < a.rank; d++) assert_same(&w, back[d], a.dim[d] == 1 ? 0 : var[d]);
    world_deinit(&w);
  }
}

/* Odd cuts with permutations between them are hard, and networks have none: nearly all must come
 * out, all the same. */
static void test_odd_rearrangements(void **state) {
  (void)state;
  static const int64_t sizes[] = {24, 60, 96, 120, 144, 210, 360, 720, 768, 3072};
  int wide = 0, lost = 0;
  for (uint64_t seed = 0; seed < 4000; seed++) {
    world w;
    world_init(&w, seed);
    lw_shape a[5] = {{0}};
    uint32_t perm[5][LW_MAX_RANK], steps = (uint32_t)pick(&w, 1, 4);
    int64_t n = sizes[pick(&w, 0, LW_ARRAY_COUNT(sizes) - 1)];
    a[0] = random_factors(&w, n);
    lw_ix var[LW_MAX_RANK], index[LW_MAX_RANK];
    for (uint32_t d = 0; d < a[0].rank; d++)
      index[d] = var[d] = lw__ix_new_var(&w.pool, a[0].dim[d]);
    for (uint32_t s = 0; s < steps; s++) {
      if (s % 2 == 0) {
        a[s + 1] = random_factors(&w, n);
        lw__access_unflatten(&w.pool, &a[s + 1], lw__access_flatten(&w.pool, &a[s], index), index);
      } else {
        for (uint32_t g = 0; g < a[s].rank; g++) {
          uint32_t at = (uint32_t)pick(&w, 0, g);
          perm[s][g] = perm[s][at];
          perm[s][at] = g;
        }
        a[s + 1].rank = a[s].rank;
        for (uint32_t g = 0; g < a[s].rank; g++) a[s + 1].dim[g] = a[s].dim[perm[s][g]];
        apply_perm(perm[s], a[s].rank, false, index);
      }
      for (uint32_t d = 0; d < a[s + 1].rank; d++) {
        const lw_ix_node *node = lw__ix_node(&w.pool, index[d]);
        wide += node->lo < 0 || node->hi >= a[s + 1].dim[d];
      }
    }
    for (uint32_t s = steps; s-- > 0;) {
      if (s % 2 == 0) {
        lw__access_unflatten(&w.pool, &a[s], lw__access_flatten(&w.pool, &a[s + 1], index), index);
      } else {
        apply_perm(perm[s], a[s].rank, true, index);
      }
    }
    bool same = true;
    for (uint32_t d = 0; d < a[0].rank; d++)
      same = same && (a[0].dim[d] == 1 || index[d] == var[d]);
    lost += !same;
    world_deinit(&w);
  }
  assert_in_range(wide, 0, 150); /* of some 25000 coordinates */
  assert_in_range(lost, 0, 60);
}

/* ---- recombination ----------------------------------------------------------------------------*/

/* Some expression with terms of every kind. */
static lw_ix some_dividend(world *w, const lw_ix *var) {
  lw_ix_pool *p = &w->pool;
  switch (pick(w, 0, 5)) {
    case 0: return var[0];
    case 1: return lw__ix_div(p, var[0], pick(w, 2, 9));
    case 2: return lw__ix_affine(p, var[1], 1, pick(w, 0, 9));
    case 3: return scaled_sum(w, 2, (int64_t[]){pick(w, 1, 40), 1}, var);
    case 4: return lw__ix_affine(p, var[0], -1, 999);
    default: return scaled_sum(w, 3, (int64_t[]){pick(w, 20, 99), pick(w, 2, 19), 1}, var);
  }
}

/* k*(e % c) + k*c*(e / c) = k*e, the parts being anywhere between other terms, whole or in digits.
 */
static void test_scattered(void **state) {
  (void)state;
  for (uint64_t seed = 0; seed < 5000; seed++) {
    world w;
    world_init(&w, seed);
    lw_ix_pool *p = &w.pool;
    lw_ix var[3], other[3];
    for (int i = 0; i < 3; i++) var[i] = lw__ix_new_var(p, pick(&w, 20, 1000));
    lw_ix y = lw__ix_new_var(p, 512);
    other[0] = lw__ix_affine(p, lw__ix_mod(p, y, 8), pick(&w, -3, 5), 4);
    other[1] = lw__ix_affine(p, lw__ix_div(p, y, 64), pick(&w, -3, 5), -1);
    other[2] = lw__ix_affine(p, lw__ix_mod(p, lw__ix_div(p, y, 8), 8), pick(&w, -3, 5), 0);
    lw_ix e = some_dividend(&w, var);
    int64_t k = pick(&w, 1, 7), c = pick(&w, 2, 30), d = pick(&w, 2, 30);
    k = pick(&w, 0, 3) ? k : -k;
    lw_ix part[3] = {lw__ix_affine(p, lw__ix_mod(p, e, c), k, 0),
                     lw__ix_affine(p, lw__ix_mod(p, lw__ix_div(p, e, c), d), k * c, 0),
                     lw__ix_affine(p, lw__ix_div(p, e, c * d), k * c * d, 0)};
    lw_ix sum = 0, expected = lw__ix_affine(p, e, k, 0);
    int order = (int)pick(&w, 0, 5);
    static const int orders[6][3] = {{0, 1, 2}, {0, 2, 1}, {1, 0, 2},
                                     {1, 2, 0}, {2, 0, 1}, {2, 1, 0}};
    for (int i = 0; i < 3; i++) {
      sum = lw__ix_add(p, lw__ix_add(p, sum, other[i]), part[orders[order][i]]);
      expected = lw__ix_add(p, expected, other[i]);
    }
    assert_same(&w, sum, expected);
    /* Without the highest digit: e % (c*d), in one piece. */
    lw_ix low = lw__ix_add(p, part[1], part[0]);
    assert_same(&w, low, lw__ix_affine(p, lw__ix_mod(p, e, c * d), k, 0));
    world_deinit(&w);
  }
}

static void test_partial(void **state) {
  (void)state;
  world w;
  world_init(&w, 0);
  lw_ix_pool *p = &w.pool;
  lw_ix r = lw__ix_new_var(p, 2 * 12 * 128 * 64), c[4];
  lw_shape shape = lw__shape_of(4, (int64_t[]){2, 12, 128, 64});
  lw__access_unflatten(p, &shape, r, c);
  assert_text(&w, c[0], "i0//98304");
  assert_text(&w, c[1], "(i0//8192)%12");
  assert_text(&w, c[2], "(i0//64)%128");
  assert_text(&w, c[3], "i0%64");
  assert_text(&w, scaled_sum(&w, 3, (int64_t[]){3 * 64, 3, 7}, (lw_ix[]){c[2], c[3], c[0]}),
              "(i0//98304)*7 + (i0%8192)*3");
  assert_text(&w,
              scaled_sum(&w, 3, (int64_t[]){128 * 64 * 5, 5, 5 * 64}, (lw_ix[]){c[1], c[3], c[2]}),
              "(i0%98304)*5");
  /* heads moved behind the sequence */
  lw_shape moved = lw__shape_of(4, (int64_t[]){2, 128, 12, 64});
  lw_ix offset = lw__access_flatten(p, &moved, (lw_ix[]){c[0], c[2], c[1], c[3]});
  assert_int_equal(lw__ix_node(p, offset)->term_count, 4);
  assert_int_equal(lw__ix_node(p, offset)->hi, 2 * 12 * 128 * 64 - 1);
  world_deinit(&w);
}

/* ---- vectors ----------------------------------------------------------------------------------*/

/* With c = V*q + j, addresses of neighbouring j are neighbours wherever V divides the extents below
 * c. */
static void test_vector(void **state) {
  (void)state;
  for (uint64_t seed = 0; seed < 3000; seed++) {
    world w;
    world_init(&w, seed);
    lw_ix_pool *p = &w.pool;
    int64_t v = (int64_t)1 << pick(&w, 0, 3), rows = pick(&w, 1, 50), cut[3];
    for (int i = 0; i < 3; i++) cut[i] = pick(&w, 1, 9);
    cut[2] *= v;
    int64_t width = cut[0] * cut[1] * cut[2];
    lw_ix r = lw__ix_new_var(p, rows), c = lw__ix_new_var(p, width);
    lw_ix q = lw__ix_new_var(p, width / v), j = lw__ix_new_var(p, v), index[4];
    lw_shape shape = lw__shape_of(4, (int64_t[]){rows, cut[0], cut[1], cut[2]});
    lw__access_unflatten(p, &shape, scaled_sum(&w, 2, (int64_t[]){width, 1}, (lw_ix[]){r, c}),
                         index);
    /* any order of the dims in memory that leaves the last one last */
    lw_shape memory = lw__shape_of(4, (int64_t[]){cut[1], rows, cut[0], cut[2]});
    lw_ix offset =
        lw__access_flatten(p, &memory, (lw_ix[]){index[2], index[0], index[1], index[3]});
    lw_ix whole = lw__ix_add(p, lw__ix_affine(p, q, v, 0), j);
    lw_ix at = lw__ix_substitute(p, offset, (lw_ix[]){LW_NONE, whole}, 2), rest;
    int64_t coef;
    assert_true(lw__ix_split(p, at, lw__ix_var_number(p, j), &coef, &rest));
    assert_int_equal(coef, v > 1 && width > 1 ? 1 : 0);
    assert_int_equal(lw__ix_divisor(p, rest) % v, 0);
    for (int d = 0; d < 3; d++) {
      lw_ix e = lw__ix_substitute(p, index[d], (lw_ix[]){LW_NONE, whole}, 2);
      if (v > 1) assert_false(lw__ix_depends(p, e, lw__ix_var_number(p, j)));
    }
    world_deinit(&w);
  }
}

static void test_vector_text(void **state) {
  (void)state;
  world w;
  world_init(&w, 0);
  lw_ix_pool *p = &w.pool;
  lw_ix q = lw__ix_new_var(p, 32), j = lw__ix_new_var(p, 4);
  lw_ix c = lw__ix_add(p, lw__ix_affine(p, q, 4, 0), j);
  assert_text(&w, lw__ix_div(p, c, 16), "i0//4");
  assert_text(&w, lw__ix_mod(p, c, 16), "i1 + (i0%4)*4");
  assert_text(&w, lw__ix_div(p, c, 4), "i0");
  assert_text(&w, lw__ix_mod(p, c, 4), "i1");
  world_deinit(&w);
}

/* ---- windows, slices, flips -------------------------------------------------------------------*/

static void test_windows(void **state) {
  (void)state;
  for (uint64_t seed = 0; seed < 1000; seed++) {
    world w;
    world_init(&w, seed);
    lw_ix_pool *p = &w.pool;
    int64_t out = pick(&w, 2, 60), taps = pick(&w, 2, 7), stride = pick(&w, 1, 3),
            dil = pick(&w, 1, 3), pad = pick(&w, 0, 3);
    int64_t channels = pick(&w, 1, 9);
    /* position and tap as digits of the row and the column of an im2col matrix */
    lw_ix r = lw__ix_new_var(p, out * 10), k = lw__ix_new_var(p, taps * channels);
    lw_ix o = lw__ix_mod(p, r, out), t = lw__ix_mod(p, k, taps);
    lw_ix x =
        lw__ix_affine(p, scaled_sum(&w, 2, (int64_t[]){stride, dil}, (lw_ix[]){o, t}), 1, -pad);
    const lw_ix_node *node = lw__ix_node(p, x);
    assert_int_equal(node->kind, LW_IX_SUM);
    assert_int_equal(node->term_count, 2);
    assert_int_equal(node->lo, -pad);
    assert_int_equal(node->hi, (out - 1) * stride + (taps - 1) * dil - pad);
    world_deinit(&w);
  }
}

static void test_negative(void **state) {
  (void)state;
  world w;
  world_init(&w, 0);
  lw_ix_pool *p = &w.pool;
  lw_ix x = lw__ix_new_var(p, 1000), flipped = lw__ix_affine(p, x, -1, 999);
  assert_text(&w, lw__ix_div(p, flipped, 4), "-(i0//4) + 249");
  assert_text(&w, lw__ix_mod(p, flipped, 4), "-(i0%4) + 3");
  assert_same(&w, lw__ix_affine(p, lw__ix_div(p, flipped, 4), -1, 249), lw__ix_div(p, x, 4));
  lw_ix minus = lw__ix_affine(p, x, -1, 0);
  assert_same(
      &w, lw__ix_add(p, lw__ix_affine(p, lw__ix_div(p, minus, 7), 7, 0), lw__ix_mod(p, minus, 7)),
      minus);
  assert_text(&w, lw__ix_div(p, lw__ix_affine(p, x, 1, -1000), 1000), "-1");
  world_deinit(&w);
}

/* Nested and equal divisions, whichever way they are written. */
static void test_rules(void **state) {
  (void)state;
  for (uint64_t seed = 0; seed < 3000; seed++) {
    world w;
    world_init(&w, seed);
    lw_ix_pool *p = &w.pool;
    lw_ix var[3];
    for (int i = 0; i < 3; i++) var[i] = lw__ix_new_var(p, pick(&w, 20, 1000));
    lw_ix e = some_dividend(&w, var), y = lw__ix_new_var(p, 1000);
    int64_t a = pick(&w, 2, 20), b = pick(&w, 2, 20), k = pick(&w, 2, 9);
    assert_same(&w, lw__ix_div(p, lw__ix_div(p, e, a), b), lw__ix_div(p, e, a * b));
    assert_same(&w, lw__ix_mod(p, lw__ix_mod(p, e, a * b), b), lw__ix_mod(p, e, b));
    assert_same(&w, lw__ix_div(p, lw__ix_mod(p, e, a * b), a),
                lw__ix_mod(p, lw__ix_div(p, e, a), b));
    assert_same(&w, lw__ix_div(p, lw__ix_add(p, lw__ix_affine(p, y, a, 0), e), a),
                lw__ix_add(p, y, lw__ix_div(p, e, a)));
    assert_same(&w, lw__ix_mod(p, lw__ix_add(p, lw__ix_affine(p, y, a, 0), e), a),
                lw__ix_mod(p, e, a));
    lw_ix low = lw__ix_mod(p, y, k), ke = lw__ix_add(p, lw__ix_affine(p, e, k, 0), low);
    assert_same(&w, lw__ix_div(p, ke, k * a), lw__ix_div(p, e, a));
    assert_same(&w, lw__ix_mod(p, ke, k * a),
                lw__ix_add(p, lw__ix_affine(p, lw__ix_mod(p, e, a), k, 0), low));
    world_deinit(&w);
  }
}

int main(void) {
  const struct CMUnitTest tests[] = {cmocka_unit_test(test_unflatten_flatten),
                                     cmocka_unit_test(test_coordinates),
                                     cmocka_unit_test(test_rearrange),
                                     cmocka_unit_test(test_odd_cuts),
                                     cmocka_unit_test(test_odd_rearrangements),
                                     cmocka_unit_test(test_scattered),
                                     cmocka_unit_test(test_partial),
                                     cmocka_unit_test(test_vector),
                                     cmocka_unit_test(test_vector_text),
                                     cmocka_unit_test(test_windows),
                                     cmocka_unit_test(test_negative),
                                     cmocka_unit_test(test_rules)};
  return cmocka_run_group_tests(tests, NULL, NULL);
}

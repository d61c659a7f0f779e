/* test_interp_bounds.c: the interpreter's error bounds: sound (no implementation that keeps the
 * numerics contract leaves them) and tight (one wrong term, a wrong element or a narrow accumulator
 * does). */
#include "interp_kit.h"

#include "graph/interp_internal.h"

/* ---- ranges of functions over intervals -------------------------------------------------------*/

static double random_point(lw_rng *rng) {
  static const double special[] = {0, 1,  -1, 0.5, -0.5, 1.5707963267948966, 3.141592653589793,
                                   2, -2, 100};
  switch (lw__rng_range(rng, 0, 4)) {
    case 0: return special[lw__rng_range(rng, 0, LW_ARRAY_COUNT(special))];
    case 1: return lw__rng_normal(rng) * 100;
    default: return lw__rng_normal(rng) * 2;
  }
}

static interp_iv random_interval(lw_rng *rng) {
  static const double radius[] = {0, 1e-6, 1e-2, 0.5, 3, 40};
  double f = random_point(rng);
  double below = radius[lw__rng_range(rng, 0, 6)] * lw__rng_uniform(rng);
  double above = radius[lw__rng_range(rng, 0, 6)] * lw__rng_uniform(rng);
  return (interp_iv){f, f - below, f + above, 0};
}

static double random_inside(lw_rng *rng, interp_iv v) {
  int64_t choice = lw__rng_range(rng, 0, 6);
  if (choice == 0) return v.lo;
  if (choice == 1) return v.hi;
  return fmin(fmax(v.lo + (v.hi - v.lo) * lw__rng_uniform(rng), v.lo), v.hi);
}

static void check_inside(lw_fn fn, double a, double b, interp_iv range) {
  double y = lw__fn_eval_f64(fn, a, b, 0);
  if (lw__iv_is_top(range) || (isnan(y) && isnan(range.lo))) return;
  if (y == range.lo || y == range.hi) return;
  double slack =
      1e-14 * fmax(fmax(fabs(y), fabs(a)), fabs(b)); /* the ends of the range are rounded doubles */
  if (!(y >= range.lo - slack && y <= range.hi + slack)) {
    fail_msg("%s(%.17g, %.17g) = %.17g is not in [%.17g, %.17g]", lw__fn_info[fn].name, a, b, y,
             range.lo, range.hi);
  }
}

static bool has_float_range(lw_fn fn) {
  lw_domain domain = lw__fn_info[fn].domain;
  return domain == LW_DOMAIN_ARITH || domain == LW_DOMAIN_FLOAT;
}

static void ranges_hold_every_point(void **state) {
  (void)state;
  lw_rng rng;
  lw__rng_seed(&rng, 11);
  for (int fn = 0; fn < LW_FN_COUNT; fn++) {
    if (!has_float_range((lw_fn)fn)) continue;
    int64_t unknown = 0;
    for (int trial = 0; trial < 3000; trial++) {
      interp_iv a = random_interval(&rng), b = random_interval(&rng);
      interp_iv range = lw__iv_map((lw_fn)fn, a, b, false);
      unknown += lw__iv_is_top(range);
      for (int point = 0; point < 12; point++) {
        check_inside((lw_fn)fn, random_inside(&rng, a), random_inside(&rng, b), range);
      }
      check_inside((lw_fn)fn, a.f, b.f, range);
      interp_iv square = lw__iv_map(LW_FN_MUL, a, a, true);
      double x = random_inside(&rng, a);
      assert_true(square.lo >= 0 && x * x >= square.lo && x * x <= square.hi);
    }
    if (unknown > 2400) fail_msg("%s: nearly every range is unknown", lw__fn_info[fn].name);
  }
}

static void tests_know_when_both_outcomes_are_possible(void **state) {
  (void)state;
  static const lw_fn fns[] = {LW_FN_EQ, LW_FN_NE, LW_FN_LT, LW_FN_LE, LW_FN_GT, LW_FN_GE};
  lw_rng rng;
  lw__rng_seed(&rng, 12);
  for (int trial = 0; trial < 20000; trial++) {
    lw_fn fn = fns[trial % 6];
    interp_iv a = random_interval(&rng), b = random_interval(&rng);
    uint8_t ambiguous = 0;
    bool truth = lw__iv_test(fn, a, b, false, &ambiguous);
    for (int point = 0; point < 8 && !ambiguous; point++) {
      assert_true(truth ==
                  (lw__fn_eval_f64(fn, random_inside(&rng, a), random_inside(&rng, b), 0) != 0));
    }
  }
  uint8_t ambiguous = INTERP_UNKNOWN;
  assert_true(lw__iv_test(LW_FN_LT, (interp_iv){1, 0.9, 1.1, 0}, (interp_iv){2, 1.9, 2.1, 0}, false,
                          &ambiguous));
  assert_false(ambiguous);
  lw__iv_test(LW_FN_LT, (interp_iv){1, 0.9, 1.1, 0}, (interp_iv){1.05, 1, 1.1, 0}, false,
              &ambiguous);
  assert_true(ambiguous);
}

/* ---- random graphs on random implementations
 * ----------------------------------------------------------------- The implementation below keeps
 * the contract and is otherwise as unkind as possible: every function errs by up to its ulp, narrow
 * values are rounded or carried wide at random, narrowing casts happen or not, sums run in random
 * order in f32. */

enum { ROWS = 5, COLS = 24, VALUES = 14 };

static float perturbed(lw_rng *rng, double exact, double ulp) {
  float x = (float)exact;
  if (ulp <= 0.5 || !isfinite(x)) return x;
  double y = exact * (1 + (2 * lw__rng_uniform(rng) - 1) * (ulp - 0.5) * 0x1p-23);
  float z = (float)y;
  return isfinite(z) ? z : x;
}

static float stored(lw_rng *rng, lw_dtype dtype, float x) {
  return lw__rng_range(rng, 0, 2) != 0 ? (float)lw__round_to(dtype, (double)x) : x;
}

static void emulate_sum(lw_rng *rng, const float *x, int64_t count, int64_t inner, float *out) {
  int64_t order[COLS];
  for (int64_t row = 0; row < count / inner; row++) {
    for (int64_t i = 0; i < inner; i++) order[i] = i;
    for (int64_t i = inner - 1; i > 0; i--) {
      int64_t j = lw__rng_range(rng, 0, i + 1), t = order[i];
      order[i] = order[j];
      order[j] = t;
    }
    float acc = 0;
    for (int64_t i = 0; i < inner; i++) acc += x[row * inner + order[i]];
    out[row] = acc;
  }
}

static void emulate_node(lw_rng *rng, const lw_graph *g, const lw_node *node, float **v,
                         float *out) {
  const lw_value *value = lw__value(g, node->result);
  int64_t count = lw__shape_numel(&value->shape);
  const float *a = v[lw__operand(g, node, 0)];
  const float *b = v[lw__operand(g, node, node->operand_count > 1 ? 1 : 0)];
  const float *c = v[lw__operand(g, node, node->operand_count > 2 ? 2 : 0)];
  if (node->op == LW_OP_REDUCE) emulate_sum(rng, a, count * COLS, COLS, out);
  for (int64_t i = 0; i < count; i++) {
    if (node->op == LW_OP_MAP && node->attr.fn == LW_FN_CAST) {
      out[i] = a[i];
    } else if (node->op == LW_OP_MAP) {
      double y = lw__fn_eval_f64(node->attr.fn, (double)a[i], (double)b[i], (double)c[i]);
      out[i] = perturbed(rng, y, lw__fn_info[node->attr.fn].ulp);
    } else if (node->op == LW_OP_EXPAND) {
      out[i] = lw__value(g, lw__operand(g, node, 0))->shape.dim[1] == 1 ? a[i / COLS] : a[0];
    } else if (node->op == LW_OP_RESHAPE) {
      out[i] = a[i];
    }
    if (lw__dtype_is_float(value->dtype)) out[i] = stored(rng, value->dtype, out[i]);
  }
}

/* Runs k's graph unkindly; the result of its one output in its declared type goes to |out|. */
static void emulate(lw_rng *rng, kit *k, void *out) {
  const lw_graph *g = &k->g;
  float **v = calloc(g->values.count, sizeof *v);
  assert_non_null(v);
  for (uint32_t n = 0; n < g->nodes.count; n++) {
    const lw_node *node = lw__node(g, n);
    const lw_value *value = lw__value(g, node->result);
    int64_t count = lw__shape_numel(&value->shape);
    v[node->result] = calloc((size_t)count, sizeof(float));
    const void *data = node->op == LW_OP_CONST ? node->attr.constant.data : NULL;
    for (uint32_t i = 0; i < g->inputs.count; i++) {
      if (g->inputs.data[i] == node->result) data = k->in[i].data;
    }
    if (data == NULL) {
      emulate_node(rng, g, node, v, v[node->result]);
    } else {
      for (int64_t i = 0; i < count; i++)
        v[node->result][i] = (float)lw__elem_get_f64(value->dtype, data, i);
    }
  }
  lw_value_id y = g->outputs.data[0];
  for (int64_t i = 0; i < lw__shape_numel(&lw__value(g, y)->shape); i++) {
    lw__elem_set_f64(lw__value(g, y)->dtype, out, i, (double)v[y][i]);
  }
  for (uint32_t n = 0; n < g->values.count; n++) free(v[n]);
  free(v);
}

static const lw_fn random_fns[] = {
    LW_FN_ADD,   LW_FN_ADD,   LW_FN_SUB,  LW_FN_MUL,  LW_FN_MUL,   LW_FN_DIV,   LW_FN_MIN,
    LW_FN_MAX,   LW_FN_ATAN2, LW_FN_NEG,  LW_FN_ABS,  LW_FN_SIGN,  LW_FN_FLOOR, LW_FN_SQRT,
    LW_FN_RSQRT, LW_FN_RECIP, LW_FN_EXP,  LW_FN_LOG,  LW_FN_ERF,   LW_FN_TANH,  LW_FN_SIGMOID,
    LW_FN_SIN,   LW_FN_COS,   LW_FN_ATAN, LW_FN_COSH, LW_FN_ASINH, LW_FN_EXPM1, LW_FN_LOG1P};

static lw_value_id random_node(lw_rng *rng, kit *k, lw_value_id a, lw_value_id b) {
  static const lw_dtype types[] = {LW_DTYPE_F32, LW_DTYPE_F16, LW_DTYPE_BF16};
  lw_dtype type = lw__value(&k->g, a)->dtype;
  lw_value_id v;
  if (lw__value(&k->g, b)->dtype != type) b = kit_cast(k, b, type);
  switch (lw__rng_range(rng, 0, 8)) {
    case 0: return kit_cast(k, a, types[lw__rng_range(rng, 0, 3)]);
    case 1: {
      lw_shape shape = KIT_SHAPE(ROWS, 1), whole = KIT_SHAPE(ROWS, COLS);
      assert_ok(lw__graph_reduce(&k->g, LW_RED_SUM, a, 2, &v));
      assert_ok(lw__graph_reshape(&k->g, v, &shape, &v));
      assert_ok(lw__graph_expand(&k->g, v, &whole, &v));
      return v;
    }
    case 2:
      assert_ok(lw__graph_map(&k->g, LW_FN_SELECT,
                              (const lw_value_id[]){kit_map(k, LW_FN_LT, a, b), a, b}, &v));
      return v;
    default: return kit_map(k, random_fns[lw__rng_range(rng, 0, LW_ARRAY_COUNT(random_fns))], a, b);
  }
}

static void random_graph(lw_rng *rng, kit *k) {
  lw_value_id pool[VALUES + 2];
  int count = 0;
  for (int i = 0; i < 2; i++) {
    pool[count++] = kit_input(k, i == 0 ? LW_DTYPE_F32 : LW_DTYPE_F16, KIT_SHAPE(ROWS, COLS));
    for (int64_t e = 0; e < ROWS * COLS; e++) {
      lw__elem_set_f64(k->in[i].dtype, k->in[i].data, e, lw__rng_normal(rng));
    }
  }
  int nodes = (int)lw__rng_range(rng, 1, VALUES);
  for (int n = 0; n < nodes; n++) {
    lw_value_id a = pool[lw__rng_range(rng, lw__max_i64(0, count - 4), count)],
                b = pool[lw__rng_range(rng, 0, count)];
    pool[count++] = random_node(rng, k, a, b);
  }
  kit_run(k, pool[count - 1]);
}

static void unkind_implementations_stay_inside(void **state) {
  (void)state;
  int64_t compared = 0, ambiguous = 0;
  double worst_deviations = 0;
  for (uint64_t seed = 1; seed <= 1500; seed++) {
    lw_rng rng;
    lw__rng_seed(&rng, seed);
    kit k;
    kit_init(&k);
    random_graph(&rng, &k);
    double got[ROWS * COLS];
    for (int trial = 0; trial < 3; trial++) {
      lw_compare c;
      emulate(&rng, &k, got);
      lw__interp_compare(&k.ideal, got, &c);
      if (c.bad > 0) {
        lw_text text = {0};
        lw__graph_print(&k.g, false, &text);
        fail_msg("seed %llu: element %lld is %.9g, not %.9g +- %.9g\n%s", (unsigned long long)seed,
                 (long long)c.worst_index, c.worst_got, c.worst_want, c.worst_bound,
                 lw__text_str(&text));
      }
      if (c.suspect > 0) {
        lw_text text = {0};
        lw__graph_print(&k.g, false, &text);
        int64_t at = c.worst_deviations_index;
        fail_msg("seed %llu: element %lld is %.9g, not %.9g: %.3g deviations\n%s",
                 (unsigned long long)seed, (long long)at, lw__elem_get_f64(k.ideal.dtype, got, at),
                 k.ideal.f[at], c.worst_deviations, lw__text_str(&text));
      }
      worst_deviations = fmax(worst_deviations, c.worst_deviations);
      compared += c.count - c.ambiguous;
      ambiguous += c.ambiguous;
    }
    kit_deinit(&k);
  }
  print_message("errors up to %.3g deviations\n", worst_deviations);
  if (ambiguous * 4 > compared)
    fail_msg("%lld of %lld are ambiguous", (long long)ambiguous, (long long)compared);
}

/* ---- wrong results are found ------------------------------------------------------------------*/

static void fill_normal(kit *k, uint64_t seed) {
  lw_rng rng;
  lw__rng_seed(&rng, seed);
  for (uint32_t i = 0; i < k->g.inputs.count; i++) {
    for (int64_t e = 0; e < lw__shape_numel(&k->in[i].shape); e++) {
      lw__elem_set_f64(k->in[i].dtype, k->in[i].data, e, lw__rng_normal(&rng));
    }
  }
}

static void a_missing_term_is_outside(void **state) {
  (void)state;
  enum { M = 3, K = 512, N = 4 };
  kit k;
  lw_value_id v;
  kit_init(&k);
  lw_value_id a = kit_input(&k, LW_DTYPE_F32, KIT_SHAPE(M, K)),
              b = kit_input(&k, LW_DTYPE_F32, KIT_SHAPE(K, N));
  fill_normal(&k, 3);
  assert_ok(lw__graph_dot(&k.g, a, b, &v));
  kit_run(&k, v);
  const float *x = k.in[0].data, *y = k.in[1].data;
  float right[M * N] = {0}, wrong[M * N] = {0};
  for (int i = 0; i < M * N; i++) {
    for (int t = 0; t < K; t++) {
      float term = x[i / N * K + t] * y[t * N + i % N];
      right[i] += term;
      if (t != 100) wrong[i] += term;
    }
  }
  lw_compare c;
  lw__interp_compare(&k.ideal, right, &c);
  assert_int_equal(c.bad, 0);
  lw__interp_compare(&k.ideal, wrong, &c);
  assert_true(c.bad >= M * N - 1);
  kit_deinit(&k);
}

static void a_narrow_accumulator_is_outside(void **state) {
  (void)state;
  enum { M = 8, K = 1024 };
  kit k;
  lw_value_id v;
  kit_init(&k);
  lw_value_id a = kit_input(&k, LW_DTYPE_F16, KIT_SHAPE(M, K));
  fill_normal(&k, 4);
  assert_ok(lw__graph_reduce(&k.g, LW_RED_SUM, a, 2, &v));
  kit_run(&k, v);
  uint16_t wide[M], narrow[M];
  for (int i = 0; i < M; i++) {
    float acc = 0;
    double narrow_acc = 0;
    for (int t = 0; t < K; t++) {
      double x = lw__elem_get_f64(LW_DTYPE_F16, k.in[0].data, i * K + t);
      acc += (float)x;
      narrow_acc = lw__round_to(LW_DTYPE_F16, narrow_acc + x);
    }
    wide[i] = lw__f64_to_f16((double)acc);
    narrow[i] = lw__f64_to_f16(narrow_acc);
  }
  lw_compare c;
  lw__interp_compare(&k.ideal, wide, &c);
  assert_int_equal(c.bad, 0);
  lw__interp_compare(&k.ideal, narrow, &c);
  assert_true(c.bad >= M / 2);
  kit_deinit(&k);
}

static void a_wrong_element_is_outside(void **state) {
  (void)state;
  kit k;
  lw_value_id v;
  kit_init(&k);
  lw_value_id x = kit_input(&k, LW_DTYPE_F16, KIT_SHAPE(4, 64));
  fill_normal(&k, 5);
  assert_ok(lw__graph_softmax(&k.g, x, 2, false, &v));
  kit_run(&k, v);
  uint16_t got[4 * 64];
  for (int i = 0; i < 4 * 64; i++) got[i] = lw__f64_to_f16(k.ideal.f[i]);
  lw_compare c;
  lw__interp_compare(&k.ideal, got, &c);
  assert_int_equal(c.bad, 0);
  uint16_t t = got[17];
  got[17] = got[18];
  got[18] = t;
  lw__interp_compare(&k.ideal, got, &c);
  assert_int_equal(c.bad, 2);
  assert_true(c.worst_index == 17 || c.worst_index == 18);
  kit_deinit(&k);
}

enum { DEEP_WIDTH = 64, DEEP_LAYERS = 12 };

/* x + tanh(x W / 4) again and again, in float; in layer |wrong| one term of every product is left
 * out. */
static void deep_network(const float *x, const float *w, int wrong, float *out) {
  float v[DEEP_WIDTH], y[DEEP_WIDTH];
  memcpy(v, x, sizeof v);
  for (int layer = 0; layer < DEEP_LAYERS; layer++) {
    for (int n = 0; n < DEEP_WIDTH; n++) {
      float sum = 0;
      for (int k = layer == wrong ? 1 : 0; k < DEEP_WIDTH; k++) sum += v[k] * w[k * DEEP_WIDTH + n];
      y[n] = v[n] + tanhf(sum * 0.25f);
    }
    memcpy(v, y, sizeof v);
  }
  memcpy(out, v, sizeof v);
}

/* Twelve layers on, the worst case says nothing; the expected deviation still tells right from
 * wrong. */
static void deep_networks_are_judged_by_deviation(void **state) {
  (void)state;
  kit k;
  kit_init(&k);
  lw_value_id v = kit_input(&k, LW_DTYPE_F32, KIT_SHAPE(1, DEEP_WIDTH));
  lw_value_id w = kit_input(&k, LW_DTYPE_F32, KIT_SHAPE(DEEP_WIDTH, DEEP_WIDTH));
  fill_normal(&k, 9);
  for (int layer = 0; layer < DEEP_LAYERS; layer++) {
    lw_value_id y;
    assert_ok(lw__graph_dot(&k.g, v, w, &y));
    y = kit_map(&k, LW_FN_MUL, y, kit_splat(&k, y, 0.25));
    v = kit_map(&k, LW_FN_ADD, v, kit_map(&k, LW_FN_TANH, y, y));
  }
  kit_run(&k, v);
  float got[DEEP_WIDTH];
  lw_compare c;
  deep_network(k.in[0].data, k.in[1].data, -1, got);
  lw__interp_compare(&k.ideal, got, &c);
  assert_true(c.suspect == 0 && c.bad == 0 && c.worst_deviations < 8);
  deep_network(k.in[0].data, k.in[1].data, 4, got);
  lw__interp_compare(&k.ideal, got, &c);
  assert_true(c.bad < DEEP_WIDTH / 8 && c.suspect > DEEP_WIDTH / 2);
  kit_deinit(&k);
}

/* ---- special cases that networks rely on ------------------------------------------------------*/

/* softmax(scores + mask) over 4 elements with rounded scores; mask 1: hidden by |hidden|. */
static void masked_softmax(kit *k, lw_dtype type, double hidden, const int *mask) {
  double scores[4] = {0.3, -1.7, 2.9, 5.1}, m[4];
  for (int i = 0; i < 4; i++) m[i] = mask[i] ? hidden : 0;
  lw_value_id v;
  kit_init(k);
  lw_value_id s = kit_floats(k, type, KIT_SHAPE(1, 4), scores),
              bias = kit_floats(k, type, KIT_SHAPE(1, 4), m);
  s = kit_map(k, LW_FN_DIV, s, kit_splat(k, s, 3));
  assert_ok(lw__graph_softmax(&k->g, kit_map(k, LW_FN_ADD, s, bias), 2, false, &v));
  kit_run(k, v);
}

static void masks_are_understood(void **state) {
  (void)state;
  static const int some[4] = {0, 1, 0, 1}, all[4] = {1, 1, 1, 1};
  const double lowest = lw__dtype_lowest(LW_DTYPE_F32);
  kit k;
  masked_softmax(&k, LW_DTYPE_F32, lowest, some);
  assert_true(k.ideal.f[1] == 0 && k.ideal.bound[1] == 0);
  assert_true(k.ideal.f[0] > 0 && k.ideal.bound[0] < 1e-5);
  kit_deinit(&k);
  masked_softmax(&k, LW_DTYPE_F32, lowest, all); /* the mean */
  for (int i = 0; i < 4; i++) assert_true(k.ideal.f[i] == 0.25 && k.ideal.bound[i] < 1e-6);
  kit_deinit(&k);
  masked_softmax(&k, LW_DTYPE_F32, -INFINITY, some);
  assert_true(k.ideal.f[1] == 0 && k.ideal.bound[1] == 0 && k.ideal.bound[0] < 1e-5);
  kit_deinit(&k);
  masked_softmax(&k, LW_DTYPE_F32, -INFINITY, all); /* NaN, and nothing else */
  for (int i = 0; i < 4; i++) assert_true(isnan(k.ideal.f[i]) && k.ideal.bound[i] == 0);
  lw_compare c;
  lw__interp_compare(&k.ideal, (const float[]){NAN, NAN, 0.25f, NAN}, &c);
  assert_true(c.bad == 1 && c.worst_index == 2 && c.ambiguous == 0);
  kit_deinit(&k);
  masked_softmax(&k, LW_DTYPE_F16, lw__dtype_lowest(LW_DTYPE_F16), some);
  assert_true(k.ideal.f[1] == 0 && k.ideal.bound[1] < 1e-6 && k.ideal.bound[0] < 1e-2);
  kit_deinit(&k);
}

static void overflow_is_an_end_of_the_interval(void **state) {
  (void)state;
  kit k;
  kit_init(
      &k); /* 1 / (1 + exp(-x)): exp overflows f32, the result is 0 within the smallest numbers */
  lw_value_id x = kit_floats(&k, LW_DTYPE_F32, KIT_SHAPE(2), (const double[]){-100, 3});
  lw_value_id e = kit_map(&k, LW_FN_EXP, kit_map(&k, LW_FN_NEG, x, x), x);
  lw_value_id one = kit_splat(&k, x, 1);
  kit_run(&k, kit_map(&k, LW_FN_DIV, one, kit_map(&k, LW_FN_ADD, one, e)));
  assert_true(k.ideal.f[0] < 1e-43 && k.ideal.bound[0] < 1e-37);
  assert_true(k.ideal.bound[1] < 1e-6 && k.ideal.bound[1] > 0);
  kit_deinit(&k);

  kit_init(&k); /* an f16 value that may be infinite or be carried wide */
  x = kit_floats(&k, LW_DTYPE_F16, KIT_SHAPE(2), (const double[]){300, -300});
  lw_value_id square = kit_map(&k, LW_FN_MUL, x, kit_splat(&k, x, 300));
  kit_run(&k, kit_map(&k, LW_FN_MUL, square, kit_splat(&k, x, 0x1p-8)));
  assert_true(isinf(k.ideal.bound[0]) && isinf(k.ideal.bound[1]));
  kit_deinit(&k);

  kit_init(&k); /* as an output it is infinite */
  x = kit_floats(&k, LW_DTYPE_F16, KIT_SHAPE(2), (const double[]){300, -300});
  kit_run(&k, kit_map(&k, LW_FN_MUL, x, kit_splat(&k, x, 300)));
  assert_true(k.ideal.f[0] == INFINITY && k.ideal.bound[0] == 0 && k.ideal.f[1] == -INFINITY);
  kit_deinit(&k);
}

static void integer_valued_floats_are_exact(void **state) {
  (void)state;
  kit k;
  kit_init(&k);
  lw_value_id x = kit_floats(&k, LW_DTYPE_F32, KIT_SHAPE(4), (const double[]){1, 2, 7, 100}), v;
  v = kit_map(&k, LW_FN_ADD, kit_map(&k, LW_FN_MUL, x, x), kit_splat(&k, x, 3));
  v = kit_map(&k, LW_FN_DIV, v, kit_splat(&k, x, 2));
  v = kit_cast(&k, kit_map(&k, LW_FN_FLOOR, v, v), LW_DTYPE_I32);
  kit_run(&k, v);
  const int64_t want[] = {2, 3, 26, 5001};
  for (int i = 0; i < 4; i++) assert_true(k.ideal.i[i] == want[i] && k.ideal.bound[i] == 0);
  kit_deinit(&k);

  kit_init(&k); /* a step inside the interval: the integer is not known, and what depends on it is
                   not either */
  x = kit_floats(&k, LW_DTYPE_F32, KIT_SHAPE(2), (const double[]){3, 0.5});
  v = kit_map(&k, LW_FN_MUL, kit_map(&k, LW_FN_RECIP, x, x), x);
  v = kit_cast(&k, kit_map(&k, LW_FN_ADD, v, kit_splat(&k, x, 0)), LW_DTYPE_I32);
  kit_run(&k, kit_map(&k, LW_FN_MUL, v, v));
  assert_true(isinf(k.ideal.bound[0]) && isinf(k.ideal.bound[1]));
  kit_deinit(&k);
}

/* Products of operands that were rounded to f16, all of them upward: the errors add up in the
 * result. */
static void errors_pass_through_products(void **state) {
  (void)state;
  for (int conv = 0; conv < 2; conv++) {
    kit k;
    lw_value_id v;
    double x[64], want = 0, got = 0;
    for (int i = 0; i < 64; i++) {
      x[i] = 1 + 0x1p-11 + 0x1p-15; /* f16 rounds this to 1 + 2^-10 */
      want += x[i] * x[i];
      got += (1 + 0x1p-10) * (1 + 0x1p-10);
    }
    kit_init(&k);
    lw_value_id a = kit_floats(&k, LW_DTYPE_F32, conv ? KIT_SHAPE(1, 64, 1) : KIT_SHAPE(1, 64), x);
    lw_value_id b = kit_floats(&k, LW_DTYPE_F32, conv ? KIT_SHAPE(1, 64, 1) : KIT_SHAPE(64, 1), x);
    a = kit_cast(&k, kit_cast(&k, a, LW_DTYPE_F16), LW_DTYPE_F32);
    b = kit_cast(&k, kit_cast(&k, b, LW_DTYPE_F16), LW_DTYPE_F32);
    lw_conv_attr attr = {.spatial = 1, .stride = {1}, .dilation = {1}, .group = 1};
    assert_ok(conv ? lw__graph_conv(&k.g, a, b, &attr, &v) : lw__graph_dot(&k.g, a, b, &v));
    kit_run(&k, v);
    assert_true(fabs(k.ideal.f[0] - want) < 1e-12);
    assert_true(k.ideal.bound[0] >= got - want && k.ideal.bound[0] < 4 * (got - want));
    kit_deinit(&k);
  }
}

/* Logic on unknown truth is known where the other operand decides. */
static void logic_settles_what_it_can(void **state) {
  (void)state;
  kit k;
  kit_init(&k);
  lw_value_id x = kit_floats(&k, LW_DTYPE_F32, KIT_SHAPE(2), (const double[]){3, 3});
  lw_value_id b = kit_ints(&k, LW_DTYPE_BOOL, KIT_SHAPE(2), (const int64_t[]){0, 1});
  lw_value_id third = kit_map(&k, LW_FN_RECIP, x, x);
  lw_value_id unknown =
      kit_map(&k, LW_FN_LT, kit_map(&k, LW_FN_MUL, third, x), kit_splat(&k, x, 1));
  kit_run(&k, kit_map(&k, LW_FN_AND, unknown, b));
  assert_true(k.ideal.i[0] == 0 && k.ideal.bound[0] == 0 && isinf(k.ideal.bound[1]));
  kit_deinit(&k);
}

/* Rounding never turns a value that is not negative into one that is: square roots of tiny sums
 * stay numbers. */
static void signs_survive_rounding(void **state) {
  (void)state;
  kit k;
  lw_value_id v;
  kit_init(&k);
  lw_value_id x =
      kit_floats(&k, LW_DTYPE_F16, KIT_SHAPE(1, 3), (const double[]){0x1p-20, 0x1p-21, 0x1p-22});
  v = kit_map(&k, LW_FN_MUL, x, x); /* below f16's smallest number when it is stored */
  assert_ok(lw__graph_reduce(&k.g, LW_RED_SUM, v, 2, &v));
  kit_run(&k, kit_map(&k, LW_FN_SQRT, v, v));
  assert_true(k.ideal.f[0] > 0 && k.ideal.bound[0] < 1e-3);
  kit_deinit(&k);
}

/* Sums whose order decides whether the accumulator overflows tell nothing; the same of one sign
 * do. */
static void partial_sums_may_overflow(void **state) {
  (void)state;
  for (int sign = 0; sign < 2; sign++) {
    kit k;
    lw_value_id v;
    kit_init(&k);
    double big = sign ? 2e38 : -2e38;
    lw_value_id x =
        kit_floats(&k, LW_DTYPE_F32, KIT_SHAPE(1, 3), (const double[]){2e38, 2e38, big});
    assert_ok(lw__graph_reduce(&k.g, LW_RED_SUM, x, 2, &v));
    kit_run(&k, v);
    if (sign) {
      assert_true(k.ideal.f[0] == INFINITY && k.ideal.bound[0] == 0);
    } else {
      assert_true(isinf(k.ideal.bound[0])); /* inf - inf is possible */
    }
    kit_deinit(&k);
  }
}

/* An ideal product of f64 is an f64 itself; it is not exact for that. */
static void f64_may_be_contracted(void **state) {
  (void)state;
  kit k;
  kit_init(&k);
  lw_value_id x = kit_floats(&k, LW_DTYPE_F64, KIT_SHAPE(1, 2), (const double[]){-1.5, 0.5});
  lw_value_id y = kit_map(&k, LW_FN_MUL, x, kit_splat(&k, x, 0.2));
  kit_run(&k, kit_map(&k, LW_FN_ADD, y, kit_splat(&k, y, 0.5)));
  double contracted[2] = {fma(-1.5, 0.2, 0.5), fma(0.5, 0.2, 0.5)}, wrong = 0.2 + 1e-12;
  lw_compare c;
  lw__interp_compare(&k.ideal, contracted, &c);
  assert_int_equal(c.bad, 0);
  contracted[0] = wrong;
  lw__interp_compare(&k.ideal, contracted, &c);
  assert_int_equal(c.bad, 1);
  kit_deinit(&k);
  kit_init(&k);
  x = kit_floats(&k, LW_DTYPE_F64, KIT_SHAPE(1, 2), (const double[]){-1.5, 0.5});
  y = kit_map(&k, LW_FN_MUL, x, kit_splat(&k, x, 0.25));
  kit_run(&k, kit_map(&k, LW_FN_SUB, y, kit_splat(&k, y, 0.5)));
  for (int i = 0; i < 2; i++) assert_true(k.ideal.bound[i] == 0);
  kit_deinit(&k);
}

/* Partial products below the smallest number in some order: neither bound nor deviation is known.
 */
static void partial_products_may_underflow(void **state) {
  (void)state;
  kit k;
  lw_value_id v;
  kit_init(&k);
  lw_value_id x =
      kit_floats(&k, LW_DTYPE_F32, KIT_SHAPE(1, 4), (const double[]){1e-25, 1.1e25, 1e-25, 1.3e25});
  assert_ok(lw__graph_reduce(&k.g, LW_RED_PROD, x, 2, &v));
  kit_run(&k, v);
  assert_true(isinf(k.ideal.bound[0]) && isinf(k.ideal.deviation[0]));
  kit_deinit(&k);
}

int main(void) {
  const struct CMUnitTest tests[] = {
      cmocka_unit_test(f64_may_be_contracted),
      cmocka_unit_test(partial_products_may_underflow),
      cmocka_unit_test(ranges_hold_every_point),
      cmocka_unit_test(tests_know_when_both_outcomes_are_possible),
      cmocka_unit_test(unkind_implementations_stay_inside),
      cmocka_unit_test(a_missing_term_is_outside),
      cmocka_unit_test(a_narrow_accumulator_is_outside),
      cmocka_unit_test(a_wrong_element_is_outside),
      cmocka_unit_test(deep_networks_are_judged_by_deviation),
      cmocka_unit_test(masks_are_understood),
      cmocka_unit_test(overflow_is_an_end_of_the_interval),
      cmocka_unit_test(integer_valued_floats_are_exact),
      cmocka_unit_test(errors_pass_through_products),
      cmocka_unit_test(logic_settles_what_it_can),
      cmocka_unit_test(signs_survive_rounding),
      cmocka_unit_test(partial_sums_may_overflow),
  };
  return cmocka_run_group_tests(tests, NULL, NULL);
}

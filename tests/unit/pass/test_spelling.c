/* test_spelling.c: composites spelled by hand, in many orders and with other names, come out of the
 * pipeline as the same graph as the composites of graph.h. */
#include <math.h>

#include "pass_kit.h"

typedef struct speller {
  lw_graph g;
  lw_rng rng;
  bool shuffle; /* operands of commutative functions change sides, constants come early */
} speller;

static lw_value_id two(speller *s, lw_fn fn, lw_value_id a, lw_value_id b) {
  lw_value_id v, in[2] = {a, b};
  bool commutes = fn == LW_FN_ADD || fn == LW_FN_MUL || fn == LW_FN_MAX;
  if (s->shuffle && commutes && lw__rng_range(&s->rng, 0, 2) != 0) {
    in[0] = b;
    in[1] = a;
  }
  assert_ok(lw__graph_map_bc(&s->g, fn, in, &v));
  return v;
}

static lw_value_id one(speller *s, lw_fn fn, lw_value_id a) {
  lw_value_id v;
  assert_ok(lw__graph_map(&s->g, fn, &a, &v));
  return v;
}

static lw_value_id num(speller *s, lw_value_id like, double x) {
  lw_value_id v;
  assert_ok(lw__graph_scalar(&s->g, lw__value(&s->g, like)->dtype, x, &v));
  return v;
}

static lw_value_id sum_keep(speller *s, lw_red red, lw_value_id x, bool keep) {
  lw_value_id v;
  lw_shape shape = lw__value(&s->g, x)->shape;
  assert_ok(lw__graph_reduce(&s->g, red, x, 1u << (shape.rank - 1), &v));
  if (!keep) return v;
  shape.dim[shape.rank - 1] = 1;
  assert_ok(lw__graph_reshape(&s->g, v, &shape, &v));
  return v;
}

static lw_value_id unsqueezed(speller *s, lw_value_id v) {
  lw_shape shape = lw__value(&s->g, v)->shape;
  shape.dim[shape.rank++] = 1;
  assert_ok(lw__graph_reshape(&s->g, v, &shape, &v));
  return v;
}

/* ---- the composites' ways ---------------------------------------------------------------------*/

enum { GELU_ARGUMENTS = 2, GELU_TANH_ARGUMENTS = 7, GELU_FACTORS = 4 };

static lw_value_id gelu_inner(speller *s, lw_value_id x, int way) {
  lw_value_id arg = way == 0 ? two(s, LW_FN_MUL, x, num(s, x, sqrt(0.5)))
                             : two(s, LW_FN_DIV, x, num(s, x, sqrt(2)));
  return one(s, LW_FN_ERF, arg);
}

static lw_value_id gelu_tanh_inner(speller *s, lw_value_id x, int way) {
  const double c = sqrt(2 / M_PI);
  lw_value_id k = num(s, x, 0.044715), arg;
  if (way < 4) {
    lw_value_id cube;
    switch (way) {
      case 0: cube = two(s, LW_FN_MUL, two(s, LW_FN_MUL, two(s, LW_FN_MUL, x, x), x), k); break;
      case 1: cube = two(s, LW_FN_MUL, two(s, LW_FN_POW, x, num(s, x, 3)), k); break;
      case 2: cube = two(s, LW_FN_MUL, two(s, LW_FN_MUL, two(s, LW_FN_MUL, x, k), x), x); break;
      default: cube = two(s, LW_FN_MUL, two(s, LW_FN_MUL, x, k), two(s, LW_FN_MUL, x, x)); break;
    }
    arg = two(s, LW_FN_MUL, two(s, LW_FN_ADD, x, cube), num(s, x, c));
  } else {
    lw_value_id square = two(s, LW_FN_MUL, two(s, LW_FN_MUL, x, x), k);
    if (way == 5) square = two(s, LW_FN_MUL, two(s, LW_FN_MUL, x, k), x);
    lw_value_id sum = two(s, LW_FN_ADD, square, num(s, x, 1));
    arg = way == 6 ? two(s, LW_FN_MUL, two(s, LW_FN_MUL, x, sum), num(s, x, c))
                   : two(s, LW_FN_MUL, two(s, LW_FN_MUL, x, num(s, x, c)), sum);
  }
  return one(s, LW_FN_TANH, arg);
}

static lw_value_id gelu_outer(speller *s, lw_value_id x, lw_value_id e, int way) {
  lw_value_id half = num(s, x, 0.5);
  if (way == 3) return two(s, LW_FN_MUL, x, two(s, LW_FN_ADD, two(s, LW_FN_MUL, e, half), half));
  lw_value_id bell = two(s, LW_FN_ADD, e, num(s, x, 1));
  switch (way) {
    case 0: return two(s, LW_FN_MUL, two(s, LW_FN_MUL, x, half), bell);
    case 1: return two(s, LW_FN_MUL, x, two(s, LW_FN_MUL, half, bell));
    default: return two(s, LW_FN_MUL, two(s, LW_FN_MUL, x, bell), half);
  }
}

enum { NORM_WAYS = 48 };

/* Layer norm, or RMS norm when |rms|: square, mean, root and divisor each in several ways. */
static lw_value_id norm(speller *s, lw_value_id x, bool rms, int way) {
  double n = (double)lw__value(&s->g, x)->shape.dim[1];
  int square_way = way % 2, mean_way = way / 2 % 2, root_way = way / 4 % 4;
  bool late = way / 16 % 3 == 1, twice = way / 16 % 3 == 2;
  lw_value_id centred = x;
  if (!rms) {
    lw_value_id sum = sum_keep(s, LW_RED_SUM, x, true);
    lw_value_id mean = mean_way != 0 ? two(s, LW_FN_MUL, sum, num(s, x, 1 / n))
                                     : two(s, LW_FN_DIV, sum, num(s, x, n));
    centred = two(s, LW_FN_SUB, x, mean);
  }
  lw_value_id other =
      twice && !rms ? two(s, LW_FN_SUB, x, lw__operand(&s->g, lw__producer(&s->g, centred), 1))
                    : centred;
  lw_value_id square =
      square_way != 0 ? two(s, LW_FN_POW, other, num(s, x, 2)) : two(s, LW_FN_MUL, other, other);
  lw_value_id sum = sum_keep(s, LW_RED_SUM, square, !late);
  lw_value_id v = mean_way != 0 ? two(s, LW_FN_MUL, sum, num(s, x, 1 / n))
                                : two(s, LW_FN_DIV, sum, num(s, x, n));
  v = two(s, LW_FN_ADD, v, num(s, x, 1e-5));
  switch (root_way) {
    case 0: v = one(s, LW_FN_RSQRT, v); break;
    case 1: v = one(s, LW_FN_RECIP, one(s, LW_FN_SQRT, v)); break;
    case 2: v = two(s, LW_FN_POW, v, num(s, x, -0.5)); break;
    default: v = one(s, LW_FN_SQRT, v); break;
  }
  if (late) v = unsqueezed(s, v);
  return two(s, root_way == 3 ? LW_FN_DIV : LW_FN_MUL, centred, v);
}

static lw_value_id softmax(speller *s, lw_value_id x, int way) {
  lw_value_id max = sum_keep(s, LW_RED_MAX, x, way == 0);
  if (way != 0) max = unsqueezed(s, max);
  lw_value_id e = one(s, LW_FN_EXP, two(s, LW_FN_SUB, x, max));
  lw_value_id sum = sum_keep(s, LW_RED_SUM, e, way == 0);
  if (way != 0) sum = unsqueezed(s, sum);
  return two(s, LW_FN_DIV, e, sum);
}

/* ---- comparing --------------------------------------------------------------------------------*/

/* Without names of nodes. */
static void plain_text(const lw_graph *g, lw_text *out) {
  lw_text text = {0};
  kit_print(g, &text);
  for (const char *line = lw__text_str(&text); *line != '\0';) {
    size_t length = strcspn(line, "\n");
    const char *comment = memmem(line, length, "  ;", 3);
    lw__text_add_n(out, line, comment != NULL ? (size_t)(comment - line) : length);
    lw__text_add(out, "\n");
    line += length + (line[length] == '\n');
  }
  lw__text_deinit(&text);
}

typedef enum spelled {
  SPELLED_GELU,
  SPELLED_GELU_TANH,
  SPELLED_LAYER_NORM,
  SPELLED_RMS_NORM,
  SPELLED_SOFTMAX
} spelled;

static lw_value_id spell_composite(speller *s, spelled what, lw_value_id x) {
  lw_value_id v = LW_NONE;
  switch (what) {
    case SPELLED_GELU: assert_ok(lw__graph_gelu(&s->g, x, false, &v)); break;
    case SPELLED_GELU_TANH: assert_ok(lw__graph_gelu(&s->g, x, true, &v)); break;
    case SPELLED_LAYER_NORM:
      assert_ok(lw__graph_layer_norm(&s->g, x, 2, 1e-5, LW_NONE, LW_NONE, &v, NULL, NULL));
      break;
    case SPELLED_RMS_NORM:
      v = norm(s, x, true, 0);
      break; /* graph.h has none: the first way is the model */
    case SPELLED_SOFTMAX: assert_ok(lw__graph_softmax(&s->g, x, 2, false, &v)); break;
  }
  return v;
}

static lw_value_id spell_by_hand(speller *s, spelled what, lw_value_id x, int way) {
  switch (what) {
    case SPELLED_GELU:
      return gelu_outer(s, x, gelu_inner(s, x, way % GELU_ARGUMENTS), way / GELU_ARGUMENTS);
    case SPELLED_GELU_TANH:
      return gelu_outer(s, x, gelu_tanh_inner(s, x, way % GELU_TANH_ARGUMENTS),
                        way / GELU_TANH_ARGUMENTS);
    case SPELLED_SOFTMAX: return softmax(s, x, way);
    default: return norm(s, x, what == SPELLED_RMS_NORM, way);
  }
}

/* |way| -1: the composite. The graph has something before and behind what is spelled. */
static void spell(spelled what, lw_dtype dtype, int64_t width, int way, uint64_t seed,
                  lw_graph *before, lw_text *out) {
  static const char *const names[] = {"", "a", "model/layer.7/part", "zz top"};
  speller s = {.shuffle = seed > 0};
  lw_diag diag = {0};
  lw_value_id x;
  lw_shape shape = lw__shape_of(2, (const int64_t[]){3, width});
  lw_pass_options options;
  lw__pass_options_init(&options);
  lw__rng_seed(&s.rng, seed);
  assert_ok(lw__graph_init(&s.g, &diag));
  assert_ok(lw__graph_input(&s.g, dtype, &shape, "x", &x));
  s.g.where = names[seed % 4];
  lw_value_id y = one(&s, LW_FN_SIN, x);
  y = way < 0 ? spell_composite(&s, what, y) : spell_by_hand(&s, what, y, way);
  assert_ok(lw__graph_output(&s.g, two(&s, LW_FN_ADD, y, x), "y"));
  s.g.where = NULL;
  assert_ok(lw__graph_clone(&s.g, before));
  if (lw__pass_run(&s.g, &options, &diag) != LW_OK) fail_msg("%s", lw__diag_first_error(&diag));
  kit_compare(before, &s.g, 1 + seed, "spelled");
  plain_text(&s.g, out);
  /* constants of |before| live in s.g's arena */
  lw__graph_deinit(before);
  lw__graph_deinit(&s.g);
  lw__diag_deinit(&diag);
}

static void check_ways(spelled what, lw_dtype dtype, int64_t width, int ways) {
  lw_graph before;
  lw_text want = {0};
  spell(what, dtype, width, -1, 0, &before, &want);
  for (int way = 0; way < ways; way++) {
    for (uint64_t seed = 0; seed < 6; seed++) {
      lw_text got = {0};
      spell(what, dtype, width, way, seed, &before, &got);
      if (strcmp(lw__text_str(&want), lw__text_str(&got)) != 0) {
        fail_msg("way %d, seed %d is\n%s\ninstead of\n%s", way, (int)seed, lw__text_str(&got),
                 lw__text_str(&want));
      }
      lw__text_deinit(&got);
    }
  }
  lw__text_deinit(&want);
}

static void gelu_by_hand(void **state) {
  (void)state;
  check_ways(SPELLED_GELU, LW_DTYPE_F32, 40, GELU_ARGUMENTS * GELU_FACTORS);
  check_ways(SPELLED_GELU, LW_DTYPE_F16, 40, GELU_ARGUMENTS * GELU_FACTORS);
  check_ways(SPELLED_GELU_TANH, LW_DTYPE_F32, 40, GELU_TANH_ARGUMENTS * GELU_FACTORS);
}

static void norms_by_hand(void **state) {
  (void)state;
  check_ways(SPELLED_LAYER_NORM, LW_DTYPE_F32, 48, NORM_WAYS);
  check_ways(SPELLED_LAYER_NORM, LW_DTYPE_F32, 64, NORM_WAYS);
  check_ways(SPELLED_RMS_NORM, LW_DTYPE_F32, 48, NORM_WAYS);
}

static void softmax_by_hand(void **state) {
  (void)state;
  check_ways(SPELLED_SOFTMAX, LW_DTYPE_F32, 48, 2);
}

/* What only looks like it keeps its own form. */
static void lookalikes_stay(void **state) {
  (void)state;
  static const char text[] =
      "%x = input f32[4]\n%c = const f32[4] {1.4142, 1.4142, 1.4142, 1.4142}\n%1 = map.div f32[4] "
      "%x, %c\n"
      "%2 = map.erf f32[4] %1\noutput y %2\n";
  lw_diag diag = {0};
  lw_graph g;
  lw_text out = {0};
  lw_pass_options options;
  lw__pass_options_init(&options);
  kit_parse(text, &diag, &g);
  assert_ok(lw__pass_run(&g, &options, &diag));
  kit_print(&g, &out);
  assert_non_null(strstr(lw__text_str(&out), "map.div")); /* four digits are another function */
  lw__graph_deinit(&g);
  lw__diag_deinit(&diag);
  lw__text_deinit(&out);
}

int main(void) {
  const struct CMUnitTest tests[] = {
      cmocka_unit_test(gelu_by_hand),
      cmocka_unit_test(norms_by_hand),
      cmocka_unit_test(softmax_by_hand),
      cmocka_unit_test(lookalikes_stay),
  };
  return cmocka_run_group_tests(tests, NULL, NULL);
}

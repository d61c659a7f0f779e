/* test_extent.c: arithmetic on symbolic extents, shapes, binding of symbols. */
#include "graph_kit.h"

static lw_extent make(kit *k, lw_extent_op op, lw_extent a, lw_extent b) {
  lw_extent out = 0;
  OK(k, lw__extent_make(&k->g, op, a, b, &out));
  return out;
}
static lw_extent affine(kit *k, lw_extent a, int64_t mul, int64_t add) {
  lw_extent out = 0;
  OK(k, lw__extent_affine(&k->g, a, mul, add, &out));
  return out;
}
#define ADD(a, b) make(&k, LW_EXTENT_ADD, a, b)
#define MUL(a, b) make(&k, LW_EXTENT_MUL, a, b)
#define DIV(a, b) make(&k, LW_EXTENT_FLOORDIV, a, b)
#define MOD(a, b) make(&k, LW_EXTENT_MOD, a, b)
#define MIN(a, b) make(&k, LW_EXTENT_MIN, a, b)
#define MAX(a, b) make(&k, LW_EXTENT_MAX, a, b)
#define AFF(a, m, c) affine(&k, a, m, c)
#define PRINTS(e, text) assert_string_equal(kit_extent(&k, e), text)

static void test_numbers(void **state) {
  (void)state;
  kit k;
  kit_open(&k);
  assert_int_equal(ADD(2, 3), 5);
  assert_int_equal(MUL(0, INT64_MAX), 0);
  assert_int_equal(DIV(7, 2), 3);
  assert_int_equal(MOD(7, 4), 3);
  assert_int_equal(MIN(7, 4), 4);
  assert_int_equal(MAX(7, 4), 7);
  assert_int_equal(AFF(7, -1, 10), 3);
  assert_int_equal(k.g.extents.nodes.count, 0);
  lw_extent out = 0;
  FAILS(&k, LW_STATUS_MODEL_INVALID, "overflows",
        lw__extent_make(&k.g, LW_EXTENT_MUL, INT64_MAX, 2, &out));
  FAILS(&k, LW_STATUS_MODEL_INVALID, "overflows",
        lw__extent_make(&k.g, LW_EXTENT_ADD, INT64_MAX, 1, &out));
  FAILS(&k, LW_STATUS_MODEL_INVALID, "negative (-3)", lw__extent_affine(&k.g, 7, -1, 4, &out));
  FAILS(&k, LW_STATUS_MODEL_INVALID, "not positive",
        lw__extent_make(&k.g, LW_EXTENT_FLOORDIV, 3, 0, &out));
  FAILS(&k, LW_STATUS_MODEL_INVALID, "not positive",
        lw__extent_make(&k.g, LW_EXTENT_MOD, 3, 0, &out));
  FAILS(&k, LW_STATUS_INTERNAL, "bad operation", lw__extent_make(&k.g, LW_EXTENT_ADD, -5, 0, &out));
  kit_close(&k);
}

static void test_canonical_form(void **state) {
  (void)state;
  kit k;
  kit_open(&k);
  lw_extent s = kit_symbol(&k, "s"), batch = kit_symbol(&k, "batch");
  assert_true(kit_symbol(&k, "s") == s);
  assert_true(AFF(AFF(batch, 16, 0), 4, 0) == AFF(batch, 64, 0));
  assert_true(DIV(AFF(s, 2, 0), 2) == s);
  assert_true(AFF(AFF(s, 1, 3), 1, -3) == s);
  assert_true(MUL(ADD(s, 1), ADD(s, 2)) == ADD(ADD(MUL(s, s), AFF(s, 3, 0)), 2));
  assert_true(ADD(s, batch) == ADD(batch, s));
  assert_int_equal(ADD(AFF(s, -1, 5), s), 5);
  assert_int_equal(MUL(s, 0), 0);
  PRINTS(ADD(AFF(s, 2, 1), MUL(s, batch)), "batch*s + 2*s + 1");
  PRINTS(AFF(s, -2, 7), "-2*s + 7");
  PRINTS(AFF(s, 1, -7), "s - 7");
  kit_close(&k);
}

static void test_division(void **state) {
  (void)state;
  kit k;
  kit_open(&k);
  lw_extent s = kit_symbol(&k, "s"), t = kit_symbol(&k, "t");
  PRINTS(DIV(AFF(s, 1, 1), 2), "(s + 1)//2");
  PRINTS(AFF(DIV(AFF(s, 1, -1), 2), 1, 1), "(s + 1)//2"); /* a convolution with stride 2 */
  PRINTS(DIV(AFF(s, 4, 2), 6), "(2*s + 1)//3");
  PRINTS(DIV(AFF(s, 4, 3), 2), "2*s + 1");
  PRINTS(DIV(DIV(s, 3), 4), "s//12");
  PRINTS(DIV(AFF(DIV(s, 3), 1, 2), 4), "(s + 6)//12");
  PRINTS(MUL(DIV(s, 3), 2), "2*(s//3)");
  PRINTS(MOD(s, 4), "s % 4");
  PRINTS(AFF(MOD(s, 4), 1, 1), "s % 4 + 1");
  assert_int_equal(MOD(AFF(s, 6, 0), 3), 0);
  assert_int_equal(MOD(AFF(s, 6, 4), 3), 1);
  PRINTS(MOD(MOD(s, 12), 4), "s % 4");
  PRINTS(MOD(AFF(s, 2, 1), 4), "2*(s % 2) + 1");
  assert_int_equal(DIV(MOD(s, 4), 4), 0);
  assert_true(MOD(MOD(s, 4), 5) == MOD(s, 4));
  assert_true(DIV(MUL(s, t), t) == s);
  assert_int_equal(DIV(ADD(MUL(s, 3), 3), ADD(s, 1)), 3);
  assert_int_equal(MOD(MUL(s, t), t), 0);
  PRINTS(DIV(s, t), "s//t");
  PRINTS(DIV(8, t), "8//t");
  PRINTS(DIV(ADD(s, t), ADD(t, 2)), "(s + t)//(t + 2)");
  kit_close(&k);
}

static void test_min_max(void **state) {
  (void)state;
  kit k;
  kit_open(&k);
  lw_extent s = kit_symbol(&k, "s"), t = kit_symbol(&k, "t");
  assert_true(MIN(s, s) == s);
  assert_true(MAX(AFF(s, 1, 1), s) == AFF(s, 1, 1));
  assert_true(MIN(AFF(s, 1, 1), s) == s);
  assert_true(MAX(s, 0) == s);
  assert_int_equal(MIN(s, 0), 0);
  assert_true(MIN(s, t) == MIN(t, s));
  PRINTS(MIN(t, 4), "min(t, 4)");
  PRINTS(MAX(MIN(t, 4), 1), "max(min(t, 4), 1)");
  assert_int_equal(MAX(MIN(t, 4), 5), 5);
  kit_close(&k);
}

static void test_limits(void **state) {
  (void)state;
  kit k;
  kit_open(&k);
  lw_extent s = kit_symbol(&k, "s"), power = s, out = 0, sum = s;
  for (int i = 1; i < 6; i++) power = MUL(power, s);
  FAILS(&k, LW_STATUS_UNSUPPORTED, "too long",
        lw__extent_make(&k.g, LW_EXTENT_MUL, power, s, &out));
  char name[16];
  lw_status status = LW_OK;
  for (int i = 0; i < 200 && status == LW_OK; i++) {
    snprintf(name, sizeof name, "t%d", i);
    status = lw__extent_make(&k.g, LW_EXTENT_ADD, sum, kit_symbol(&k, name), &sum);
  }
  assert_int_equal(status, LW_STATUS_UNSUPPORTED);
  lw_extent deep = s, u = kit_symbol(&k, "u");
  int depth = 0;
  for (status = LW_OK; depth < 1000 && status == LW_OK;
       depth++) { /* ends with a refusal, not with the stack */
    status = lw__extent_make(&k.g, LW_EXTENT_MOD, deep, s, &out);
    if (status == LW_OK) status = lw__extent_affine(&k.g, out, 3, 0, &out);
    if (status == LW_OK) status = lw__extent_make(&k.g, LW_EXTENT_ADD, out, u, &deep);
  }
  assert_int_equal(status, LW_STATUS_UNSUPPORTED);
  assert_true(depth > 5);
  kit_close(&k);
}

static void test_relations(void **state) {
  (void)state;
  kit k;
  kit_open(&k);
  lw_extent s = kit_symbol(&k, "s"), t = kit_symbol(&k, "t");
  assert_int_equal(lw__extent_relation(&k.g, 3, 3), LW_EXTENTS_EQUAL);
  assert_int_equal(lw__extent_relation(&k.g, 3, 4), LW_EXTENTS_DIFFER);
  assert_int_equal(lw__extent_relation(&k.g, s, 4), LW_EXTENTS_UNKNOWN);
  assert_int_equal(lw__extent_relation(&k.g, s, t), LW_EXTENTS_UNKNOWN);
  assert_int_equal(lw__extent_relation(&k.g, AFF(s, 2, 0), 3), LW_EXTENTS_DIFFER); /* even */
  assert_int_equal(lw__extent_relation(&k.g, AFF(s, 1, 5), 3), LW_EXTENTS_DIFFER);
  assert_int_equal(lw__extent_relation(&k.g, AFF(s, 1, 5), s), LW_EXTENTS_DIFFER);
  assert_true(lw__extent_provably_equal(&k.g, ADD(s, t), ADD(t, s)));
  lw_shape a = SHAPE(AFF(s, 2, 0), 3), b = SHAPE(6, s), c = SHAPE(5, s, 6), d = SHAPE(s, 0),
           e = SHAPE(0, t);
  assert_int_equal(lw__shape_numel_relation(&k.g, &a, &b), LW_EXTENTS_EQUAL);
  assert_int_equal(lw__shape_numel_relation(&k.g, &a, &c), LW_EXTENTS_UNKNOWN); /* s = 0 */
  assert_int_equal(lw__shape_numel_relation(&k.g, &d, &e), LW_EXTENTS_EQUAL);
  assert_false(lw__shape_eq(&k.g, &a, &b));
  kit_close(&k);
}

static void test_shapes(void **state) {
  (void)state;
  kit k;
  kit_open(&k);
  lw_extent s = kit_symbol(&k, "s");
  lw_shape a = SHAPE(2, 3), b = SHAPE(2, s), none = {0},
           big = SHAPE(INT64_C(1) << 30, INT64_C(1) << 29);
  lw_shape less = SHAPE((INT64_C(1) << 30) - 1, INT64_C(1) << 29),
           empty = SHAPE(INT64_MAX, INT64_MAX, 0);
  assert_int_equal(lw__shape_numel(&a), 6);
  assert_int_equal(lw__shape_numel(&b), -1);
  assert_int_equal(lw__shape_numel(&none), 1);
  assert_int_equal(lw__shape_numel(&big), -1);
  assert_true(lw__shape_numel(&less) > 0);
  assert_int_equal(lw__shape_numel(&empty), 0);
  assert_true(lw__shape_is_static(&a) && !lw__shape_is_static(&b));
  int64_t many[20] = {0};
  lw_shape wide = lw__shape_of(20, many);
  lw_value_id v = LW_NONE;
  FAILS(&k, LW_STATUS_UNSUPPORTED, "20 dimensions",
        lw__graph_input(&k.g, LW_DTYPE_F32, &wide, "x", &v));
  kit_close(&k);
}

/* ---- random expressions against direct evaluation ---------------------------------------------*/

enum { symbols = 3, tree_nodes = 24, assignments = 20, random_trees = 3000 };

typedef struct tree { /* node i: a leaf (symbol or number) or an operation on earlier nodes */
  struct {
    int op, a, b;
    int64_t number;
  } node[tree_nodes];
  lw_xval built[tree_nodes];
  bool usable[tree_nodes];
} tree;

static void random_tree(lw_graph *g, lw_rng *rng, const lw_extent *symbol, tree *t) {
  for (int i = 0; i < tree_nodes; i++) {
    int op = i < 4 ? -1 : (int)lw__rng_range(rng, -1, 7);
    t->node[i].op = op;
    t->node[i].a = i > 0 ? (int)lw__rng_range(rng, 0, i) : 0;
    t->node[i].b = i > 0 ? (int)lw__rng_range(rng, 0, i) : 0;
    t->node[i].number = lw__rng_range(rng, -3, 7);
    if (i < symbols) t->node[i].op = 0; /* symbol i */
    t->usable[i] = true;
    if (t->node[i].op == 0) {
      t->node[i].a = i % symbols;
      t->built[i] = lw__xval_of(symbol[i % symbols]);
    } else if (op == -1) {
      t->built[i] = lw__xval_literal(t->node[i].number);
    } else {
      int a = t->node[i].a, b = t->node[i].b;
      t->usable[i] =
          t->usable[a] && t->usable[b] &&
          lw__extent_combine(g, (lw_extent_op)op, t->built[a], t->built[b], &t->built[i]) == LW_OK;
    }
  }
}

/* False where a division has no value. */
static bool evaluate(const tree *t, int i, const int64_t *symbol, int64_t *out) {
  int64_t a = 0, b = 0;
  int op = t->node[i].op;
  *out = op == 0 ? symbol[t->node[i].a] : t->node[i].number;
  if (op <= 0) return true;
  if (!evaluate(t, t->node[i].a, symbol, &a) || !evaluate(t, t->node[i].b, symbol, &b))
    return false;
  switch ((lw_extent_op)op) {
    case LW_EXTENT_ADD: return lw__add_i64(a, b, out);
    case LW_EXTENT_MUL: return lw__mul_i64(a, b, out);
    case LW_EXTENT_MIN: *out = a < b ? a : b; return true;
    case LW_EXTENT_MAX: *out = a > b ? a : b; return true;
    default: break;
  }
  if (b <= 0) return false;
  int64_t quotient = a / b - (a % b < 0 ? 1 : 0);
  *out = op == LW_EXTENT_FLOORDIV ? quotient : a - quotient * b;
  return true;
}

static lw_xval at_numbers(lw_graph *g, lw_xval x, const int64_t *numbers) {
  int64_t by[4096];
  lw_xval result[4096];
  uint32_t count = g->extents.nodes.count;
  assert_true(count < 4096);
  if (x.literal) return x;
  for (uint32_t i = 0; i < count; i++) by[i] = i < symbols ? numbers[i] : -1;
  assert_int_equal(lw__extent_substitute(g, by, count, result), LW_OK);
  return result[~x.v];
}

static void check_tree(kit *k, lw_rng *rng, const tree *t) {
  for (int n = 0; n < assignments; n++) {
    int64_t numbers[symbols], a = 0, b = 0;
    for (int i = 0; i < symbols; i++) numbers[i] = lw__rng_range(rng, 0, n < 5 ? 3 : 40);
    int last = (int)lw__rng_range(rng, symbols, tree_nodes),
        other = (int)lw__rng_range(rng, 0, tree_nodes);
    if (!t->usable[last] || !evaluate(t, last, numbers, &a)) continue;
    lw_xval x = at_numbers(&k->g, t->built[last], numbers);
    assert_true(x.literal && !x.impossible && x.v == a);
    if (t->built[last].literal) continue;
    const lw_extent_node *e = &k->g.extents.nodes.data[~t->built[last].v];
    assert_true(e->lo <= a && a <= e->hi && a % e->divisor == 0);
    if (!t->usable[other] || t->built[other].literal || !evaluate(t, other, numbers, &b)) continue;
    lw_relation relation = lw__extent_relation(&k->g, t->built[last].v, t->built[other].v);
    assert_true(relation != LW_EXTENTS_EQUAL || a == b);
    assert_true(relation != LW_EXTENTS_DIFFER || a != b);
  }
}

static void test_random_expressions(void **state) {
  (void)state;
  static tree t;
  for (uint64_t seed = 0; seed < random_trees; seed++) {
    kit k;
    lw_rng rng;
    kit_open(&k);
    lw__rng_seed(&rng, seed);
    lw_extent symbol[symbols] = {kit_symbol(&k, "a"), kit_symbol(&k, "b"), kit_symbol(&k, "c")};
    random_tree(&k.g, &rng, symbol, &t);
    check_tree(&k, &rng, &t);
    kit_close(&k);
  }
}

/* The text does not depend on which symbol was seen first. */
static void test_order_of_symbols(void **state) {
  (void)state;
  static tree t;
  for (uint64_t seed = 0; seed < 300; seed++) {
    kit k[2];
    char text[2][4096];
    for (int side = 0; side < 2; side++) {
      lw_rng rng;
      kit_open(&k[side]);
      lw__rng_seed(&rng, seed);
      if (side == 1) (void)kit_symbol(&k[1], "c"), (void)kit_symbol(&k[1], "b");
      lw_extent symbol[symbols] = {kit_symbol(&k[side], "a"), kit_symbol(&k[side], "b"),
                                   kit_symbol(&k[side], "c")};
      random_tree(&k[side].g, &rng, symbol, &t);
      text[side][0] = '\0';
      for (int i = 0; i < tree_nodes; i++) {
        size_t length = strlen(text[side]);
        if (t.usable[i] && !t.built[i].literal) {
          snprintf(text[side] + length, sizeof text[side] - length, "%s\n",
                   kit_extent(&k[side], t.built[i].v));
        }
      }
      kit_close(&k[side]);
    }
    assert_string_equal(text[0], text[1]);
  }
}

/* ---- binding ----------------------------------------------------------------------------------*/

static void test_bind(void **state) {
  (void)state;
  kit k;
  kit_open(&k);
  lw_extent s = kit_symbol(&k, "s"), t = kit_symbol(&k, "t");
  lw_value_id x = INPUT(&k, F32, s, AFF(s, 2, -3), t), y = LW_NONE;
  OK(&k, lw__graph_map(&k.g, LW_FN_EXP, &x, &y));
  const char *names[] = {"s", "t", "unused"};
  TYPE(&k, y, "f32[s, 2*s - 3, t]");
  FAILS(&k, LW_STATUS_USAGE, "'t'", lw__graph_bind_symbols(&k.g, names, (int64_t[]){4}, 1, true));
  TYPE(&k, y, "f32[s, 2*s - 3, t]");
  FAILS(&k, LW_STATUS_USAGE, "2*s - 3",
        lw__graph_bind_symbols(&k.g, names, (int64_t[]){1, 5}, 2, true));
  TYPE(&k, y, "f32[s, 2*s - 3, t]");
  FAILS(&k, LW_STATUS_USAGE, "'s' cannot be -1",
        lw__graph_bind_symbols(&k.g, names, (int64_t[]){-1}, 1, false));
  OK(&k, lw__graph_bind_symbols(&k.g, names, (int64_t[]){4}, 1, false));
  TYPE(&k, y, "f32[4, 5, t]");
  OK(&k, lw__graph_bind_symbols(&k.g, names, (int64_t[]){9, 0, 1}, 3, true));
  TYPE(&k, x, "f32[4, 5, 0]");
  OK(&k, lw__graph_bind_symbols(&k.g, NULL, NULL, 0, true));
  OK(&k, lw__graph_verify(&k.g, &k.diag));
  kit_close(&k);
}

/* What could not be decided about symbols is decided when they are bound. */
static void test_bind_decides(void **state) {
  (void)state;
  kit k;
  kit_open(&k);
  lw_extent s = kit_symbol(&k, "s"), t = kit_symbol(&k, "t");
  lw_value_id x = INPUT(&k, F32, s, 6), y = LW_NONE;
  lw_shape shape = SHAPE(t, 4), kept = SHAPE(2, 6);
  OK(&k, lw__graph_reshape(&k.g, x, &shape, &y));
  OK(&k, lw__graph_slice(&k.g, x, (int64_t[]){1, 0}, (int64_t[]){1, 1}, kept.dim, &y));
  const char *names[] = {"s", "t"};
  FAILS(&k, LW_STATUS_USAGE, "number of elements",
        lw__graph_bind_symbols(&k.g, names, (int64_t[]){4, 5}, 2, true));
  FAILS(&k, LW_STATUS_USAGE, "outside",
        lw__graph_bind_symbols(&k.g, names, (int64_t[]){2, 3}, 2, true));
  kit_close(&k);
}

static void test_bind_too_large(void **state) {
  (void)state;
  kit k;
  kit_open(&k);
  lw_extent s = kit_symbol(&k, "s");
  (void)INPUT(&k, F32, s, s);
  const char *name = "s";
  int64_t number = INT32_MAX;
  FAILS(&k, LW_STATUS_USAGE, "too many", lw__graph_bind_symbols(&k.g, &name, &number, 1, true));
  kit_close(&k);
}

/* Whatever a graph with symbols can be built from also stands after its symbols got numbers, all at
 * once or in turn. */
static void test_bind_random_graphs(void **state) {
  (void)state;
  int bound = 0;
  for (uint64_t seed = 0; seed < 400; seed++) {
    kit k;
    lw_rng rng;
    kit_open(&k);
    lw__rng_seed(&rng, seed);
    k.g.diag = NULL;
    OK(&k, random_graph(&k.g, &rng, 30));
    k.g.diag = &k.diag;
    const char *names[] = {"batch", "s 0", "min", "t"};
    int64_t numbers[4];
    for (int i = 0; i < 4; i++) numbers[i] = lw__rng_range(&rng, 1, 6);
    uint32_t first = (uint32_t)lw__rng_range(&rng, 0, 5);
    lw_status status = lw__graph_bind_symbols(&k.g, names, numbers, first, false);
    assert_true(status == LW_OK || status == LW_STATUS_USAGE);
    OK(&k, lw__graph_verify(&k.g, &k.diag));
    kit_forget(&k);
    if (status == LW_OK) status = lw__graph_bind_symbols(&k.g, names, numbers, 4, true);
    assert_true(status == LW_OK || status == LW_STATUS_USAGE);
    OK(&k, lw__graph_verify(&k.g, &k.diag));
    bound += status == LW_OK;
    kit_close(&k);
  }
  assert_true(bound > 100);
}

int main(void) {
  const struct CMUnitTest tests[] = {
      cmocka_unit_test(test_numbers),
      cmocka_unit_test(test_canonical_form),
      cmocka_unit_test(test_division),
      cmocka_unit_test(test_min_max),
      cmocka_unit_test(test_limits),
      cmocka_unit_test(test_relations),
      cmocka_unit_test(test_shapes),
      cmocka_unit_test(test_random_expressions),
      cmocka_unit_test(test_order_of_symbols),
      cmocka_unit_test(test_bind),
      cmocka_unit_test(test_bind_decides),
      cmocka_unit_test(test_bind_too_large),
      cmocka_unit_test(test_bind_random_graphs),
  };
  return cmocka_run_group_tests(tests, NULL, NULL);
}

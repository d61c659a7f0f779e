/* test_rewrite.c: uses, replacement, compaction, copies. */
#include "graph_kit.h"

static lw_value_id map1(kit *k, lw_fn fn, lw_value_id x) {
  lw_value_id y = LW_NONE;
  OK(k, lw__graph_map(&k->g, fn, &x, &y));
  return y;
}
static lw_value_id add(kit *k, lw_value_id a, lw_value_id b) {
  lw_value_id y = LW_NONE;
  OK(k, lw__graph_map(&k->g, LW_FN_ADD, (lw_value_id[]){a, b}, &y));
  return y;
}

static void test_uses(void **state) {
  (void)state;
  kit k;
  lw_uses uses;
  kit_open(&k);
  lw_value_id x = INPUT(&k, F32, 2), a = map1(&k, LW_FN_EXP, x), b = add(&k, x, x),
              c = add(&k, a, x);
  OK(&k, lw__graph_output(&k.g, a, "a"));
  lw__producer(&k.g, c)->dead = true;
  OK(&k, lw__uses_init(&uses, &k.g));
  assert_int_equal(uses.begin[x + 1] - uses.begin[x], 3);
  const lw_use *list = &uses.list[uses.begin[x]];
  assert_int_equal(list[0].node, lw__value(&k.g, a)->producer);
  assert_int_equal(list[1].node, lw__value(&k.g, b)->producer);
  assert_int_equal(list[1].operand, 0);
  assert_int_equal(list[2].operand, 1);
  assert_int_equal(uses.begin[a + 1] - uses.begin[a], 0);
  assert_true(uses.is_output[a] && !uses.is_output[b]);
  lw__uses_deinit(&uses);
  assert_null(uses.list);
  kit_close(&k);
}

static void test_uses_of_random_graphs(void **state) {
  (void)state;
  for (uint64_t seed = 0; seed < 30; seed++) {
    kit k;
    lw_rng rng;
    lw_uses uses;
    kit_open(&k);
    lw__rng_seed(&rng, seed);
    k.g.diag = NULL;
    OK(&k, random_graph(&k.g, &rng, 50));
    OK(&k, lw__uses_init(&uses, &k.g));
    assert_int_equal(uses.begin[k.g.values.count], k.g.operands.count);
    for (lw_value_id v = 0; v < k.g.values.count; v++) {
      for (uint32_t i = uses.begin[v]; i < uses.begin[v + 1]; i++) {
        assert_int_equal(lw__operand(&k.g, lw__node(&k.g, uses.list[i].node), uses.list[i].operand),
                         v);
      }
    }
    lw__uses_deinit(&uses);
    kit_close(&k);
  }
}

static void test_replace(void **state) {
  (void)state;
  kit k;
  kit_open(&k);
  lw_value_id x = INPUT(&k, F32, 2), a = map1(&k, LW_FN_EXP, x), b = map1(&k, LW_FN_LOG, a),
              c = add(&k, b, a);
  OK(&k, lw__graph_output(&k.g, b, "b"));
  OK(&k, lw__graph_output(&k.g, c, "c"));
  lw__value(&k.g, b)->name = "b_name";
  lw__graph_replace(&k.g, b, x); /* x has a name of its own */
  assert_string_equal(lw__value(&k.g, x)->name, "in0");
  assert_int_equal(k.g.outputs.data[0], x);
  assert_int_equal(lw__operand(&k.g, lw__producer(&k.g, c), 0), x);
  assert_int_equal(lw__operand(&k.g, lw__producer(&k.g, c), 1), a);
  lw__graph_replace(&k.g, b, a);
  assert_string_equal(lw__value(&k.g, a)->name, "b_name");
  assert_null(lw__value(&k.g, b)->name);
  lw__graph_replace(&k.g, x, a); /* makes a cycle of a, which compaction must see */
  assert_string_equal(lw__value(&k.g, x)->name, "in0");
  k.g.where = "after pass p";
  FAILS(&k, LW_STATUS_MODEL_INVALID, "(map) depends on itself", lw__graph_compact(&k.g));
  kit_close(&k);
}

static void test_compact(void **state) {
  (void)state;
  kit k;
  kit_open(&k);
  lw_value_id x = INPUT(&k, F32, 2), unused = INPUT(&k, F32, 5), a = map1(&k, LW_FN_EXP, x);
  lw_value_id dead = map1(&k, LW_FN_LOG, a), b = map1(&k, LW_FN_NEG, a),
              late = map1(&k, LW_FN_ABS, x);
  (void)unused;
  lw__value(&k.g, b)->name = "b";
  lw__graph_replace(&k.g, a, late); /* late is now used before it stands */
  lw__producer(&k.g, dead)->dead = true;
  lw__producer(&k.g, a)->dead = true;
  OK(&k, lw__graph_output(&k.g, b, "y"));
  OK(&k, lw__graph_output(&k.g, x, "x"));
  OK(&k, lw__graph_output(&k.g, b, "again"));
  OK(&k, lw__graph_compact(&k.g));
  OK(&k, lw__graph_verify(&k.g, &k.diag));
  assert_string_equal(
      kit_print(&k, true),
      "%in0 = input f32[2]\n%in1 = input f32[5]\n%2 = map.abs f32[2] %in0\n%b = map.neg f32[2] %2\n"
      "output y %b\noutput x %in0\noutput again %b\n");
  for (uint32_t i = 0; i < k.g.nodes.count; i++) assert_int_equal(k.g.nodes.data[i].result, i);
  kit_close(&k);
}

static void test_compact_refuses(void **state) {
  (void)state;
  kit k;
  kit_open(&k);
  lw_value_id x = INPUT(&k, F32, 2), a = map1(&k, LW_FN_EXP, x), b = map1(&k, LW_FN_NEG, a);
  OK(&k, lw__graph_output(&k.g, b, "y"));
  lw__producer(&k.g, a)->dead = true;
  FAILS(&k, LW_STATUS_INTERNAL, "marked dead", lw__graph_compact(&k.g));
  assert_int_equal(k.g.nodes.count, 3);
  lw__producer(&k.g, a)->dead = false;
  lw__producer(&k.g, x)->dead = true; /* inputs stay whatever a pass thinks */
  OK(&k, lw__graph_compact(&k.g));
  OK(&k, lw__graph_verify(&k.g, &k.diag));
  kit_close(&k);
}

/* Compaction of a graph that is in order keeps the order of what is left; a second one changes
 * nothing. */
static void test_compact_is_stable(void **state) {
  (void)state;
  for (uint64_t seed = 0; seed < 100; seed++) {
    kit k;
    lw_rng rng;
    kit_open(&k);
    lw__rng_seed(&rng, seed);
    k.g.diag = NULL;
    OK(&k, random_graph(&k.g, &rng, 60));
    /* number the nodes through a field that compaction does not touch */
    for (uint32_t n = 0; n < k.g.nodes.count; n++)
      k.g.values.data[k.g.nodes.data[n].result].storage.order[LW_MAX_RANK - 1] = (uint8_t)n;
    OK(&k, lw__graph_compact(&k.g));
    for (uint32_t n = 1; n < k.g.nodes.count && k.g.nodes.count < 256; n++) {
      assert_true(k.g.values.data[n - 1].storage.order[LW_MAX_RANK - 1] <
                  k.g.values.data[n].storage.order[LW_MAX_RANK - 1]);
    }
    OK(&k, lw__graph_verify(&k.g, &k.diag));
    lw_text before = {0};
    lw__graph_print(&k.g, true, &before);
    OK(&k, lw__graph_compact(&k.g));
    assert_string_equal(kit_print(&k, true), lw__text_str(&before));
    lw__text_deinit(&before);
    kit_close(&k);
  }
}

enum { chain_nodes = 200000 };

/* A chain whose operands all point forward: depth is no danger, and every step is linear. */
static void test_deep_chain(void **state) {
  (void)state;
  kit k;
  lw_uses uses;
  kit_open(&k);
  lw_value_id x = INPUT(&k, F32, 2), v = x;
  for (int i = 0; i < chain_nodes; i++) OK(&k, lw__graph_map(&k.g, LW_FN_EXP, &v, &v));
  /* turn the chain round: node i takes node i+1's result, the last one takes x */
  for (uint32_t n = 1; n + 1 < k.g.nodes.count; n++)
    k.g.operands.data[k.g.nodes.data[n].operand_begin] = n + 1;
  k.g.operands.data[k.g.nodes.data[k.g.nodes.count - 1].operand_begin] = x;
  OK(&k, lw__graph_output(&k.g, 1, "y"));
  assert_int_equal(lw__graph_verify(&k.g, NULL), LW_STATUS_INTERNAL);
  OK(&k, lw__graph_compact(&k.g));
  OK(&k, lw__graph_verify(&k.g, &k.diag));
  assert_int_equal(k.g.nodes.count, chain_nodes + 1);
  assert_int_equal(k.g.outputs.data[0], chain_nodes);
  OK(&k, lw__uses_init(&uses, &k.g));
  lw__uses_deinit(&uses);
  kit_close(&k);
}

static void test_clone(void **state) {
  (void)state;
  for (uint64_t seed = 0; seed < 50; seed++) {
    kit k, copy;
    lw_rng rng;
    kit_open(&k);
    lw__rng_seed(&rng, seed);
    k.g.diag = NULL;
    OK(&k, random_graph(&k.g, &rng, 60));
    memset(&copy, 0, sizeof copy);
    OK(&k, lw__graph_clone(&k.g, &copy.g));
    copy.g.diag = &copy.diag;
    OK(&copy, lw__graph_verify(&copy.g, &copy.diag));
    const char *original = kit_print(&k, true);
    assert_string_equal(kit_print(&copy, true), original);
    for (uint32_t v = 0; v < k.g.values.count; v++) { /* strings are its own */
      if (k.g.values.data[v].name != NULL)
        assert_ptr_not_equal(k.g.values.data[v].name, copy.g.values.data[v].name);
    }
    lw_extent a = kit_symbol(&copy, "batch"),
              b = 0; /* its table finds what is there and grows by itself */
    OK(&copy, lw__extent_affine(&copy.g, a, 7, 1, &b));
    assert_string_equal(kit_extent(&copy, b), "7*batch + 1");
    OK(&copy, lw__graph_compact(&copy.g));
    assert_string_equal(kit_print(&k, true), original);
    kit_close(&copy);
    kit_close(&k);
  }
}

static void test_no_memory(void **state) {
  (void)state;
  kit k;
  lw_rng rng;
  kit_open(&k);
  lw__rng_seed(&rng, 8);
  k.g.diag = NULL;
  OK(&k, random_graph(&k.g, &rng, 80));
  lw_text before = {0};
  lw__graph_print(&k.g, true, &before);
  for (int what = 0; what < 4; what++) {
    lw_status status = LW_STATUS_OUT_OF_MEMORY;
    for (uint64_t n = 1; status != LW_OK; n++) {
      lw_graph copy;
      lw_uses uses;
      const char *name = "batch";
      lw__mem_fail_at(n);
      if (what == 0 && (status = lw__graph_clone(&k.g, &copy)) == LW_OK) lw__graph_deinit(&copy);
      if (what == 1 && (status = lw__uses_init(&uses, &k.g)) == LW_OK) lw__uses_deinit(&uses);
      if (what == 2) status = lw__graph_bind_symbols(&k.g, &name, (int64_t[]){-1}, 0, false);
      if (what == 3) status = lw__graph_compact(&k.g);
      lw__mem_fail_at(0);
      assert_true(status == LW_OK || status == LW_STATUS_OUT_OF_MEMORY);
      if (status == LW_OK) break;
      assert_string_equal(kit_print(&k, true), lw__text_str(&before));
    }
  }
  lw__text_deinit(&before);
  kit_close(&k);
}

int main(void) {
  const struct CMUnitTest tests[] = {
      cmocka_unit_test(test_uses),
      cmocka_unit_test(test_uses_of_random_graphs),
      cmocka_unit_test(test_replace),
      cmocka_unit_test(test_compact),
      cmocka_unit_test(test_compact_refuses),
      cmocka_unit_test(test_compact_is_stable),
      cmocka_unit_test(test_deep_chain),
      cmocka_unit_test(test_clone),
      cmocka_unit_test(test_no_memory),
  };
  return cmocka_run_group_tests(tests, NULL, NULL);
}

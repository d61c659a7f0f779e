/* test_random.c: every pass and the whole pipeline on random graphs: valid, equal within the bound,
 * settled after one run, clean when memory runs out. */
#include "pass_kit.h"

enum { RANDOM_SEEDS = 800 };

static void make_graph(uint64_t seed, lw_graph *out) {
  lw_rgraph_options options = {
      .nodes = 4 + (uint32_t)(seed % 24), .contractions = seed % 2 == 0, .narrow = seed % 3 == 0};
  assert_ok(lw__graph_init(out, NULL));
  assert_ok(lw_rgraph_make(seed, &options, out));
}

static void fail_with_graph(const lw_graph *g, const lw_diag *diag, uint64_t seed,
                            const char *pass) {
  lw_text text = {0};
  lw__graph_print(g, false, &text);
  fail_msg("seed %llu, %s: %s\n%s", (unsigned long long)seed, pass, lw__diag_first_error(diag),
           lw__text_str(&text));
}

static void each_pass_keeps_the_meaning(void **state) {
  (void)state;
  lw_pass_options options;
  lw__pass_options_init(&options);
  options.layout_gain = 1;
  for (uint64_t seed = 1; seed <= RANDOM_SEEDS; seed++) {
    lw_graph before;
    lw_diag diag = {0};
    make_graph(seed, &before);
    for (uint32_t p = 0; p < lw__pass_count; p++) {
      lw_graph after;
      bool changed;
      char what[64];
      snprintf(what, sizeof what, "seed %llu, %s", (unsigned long long)seed, lw__passes[p].name);
      assert_ok(lw__graph_clone(&before, &after));
      if (lw__pass_run_one(&after, lw__passes[p].name, &options, &diag, &changed) != LW_OK) {
        fail_with_graph(&before, &diag, seed, lw__passes[p].name);
      }
      if (changed) kit_compare(&before, &after, seed, what);
      lw__graph_deinit(&after);
    }
    lw__graph_deinit(&before);
    lw__diag_deinit(&diag);
  }
}

static void the_pipeline_settles(void **state) {
  (void)state;
  lw_pass_options options;
  lw__pass_options_init(&options);
  uint64_t changed_graphs = 0;
  for (uint64_t seed = 1; seed <= RANDOM_SEEDS; seed++) {
    lw_graph before, after;
    lw_diag diag = {0};
    lw_text first = {0}, second = {0}, original = {0};
    char what[64];
    snprintf(what, sizeof what, "seed %llu, pipeline", (unsigned long long)seed);
    options.layout_gain = seed % 2 == 0 ? 1 : 0;
    make_graph(seed, &before);
    assert_ok(lw__graph_clone(&before, &after));
    if (lw__pass_run(&after, &options, &diag) != LW_OK)
      fail_with_graph(&before, &diag, seed, "pipeline");
    kit_compare(&before, &after, seed, what);
    kit_print(&before, &original);
    kit_print(&after, &first);
    assert_ok(lw__pass_run(&after, &options, &diag));
    kit_print(&after, &second);
    if (strcmp(lw__text_str(&first), lw__text_str(&second)) != 0) {
      fail_msg("%s: the second run changed\n%s\nto\n%s", what, lw__text_str(&first),
               lw__text_str(&second));
    }
    changed_graphs += strcmp(lw__text_str(&original), lw__text_str(&first)) != 0;
    lw__graph_deinit(&after);
    lw__graph_deinit(&before);
    lw__diag_deinit(&diag);
    lw__text_deinit(&original);
    lw__text_deinit(&first);
    lw__text_deinit(&second);
  }
  assert_true(changed_graphs > RANDOM_SEEDS / 2);
}

static void every_allocation_may_fail(void **state) {
  (void)state;
  lw_pass_options options;
  lw__pass_options_init(&options);
  options.layout_gain = 1;
  uint64_t failures = 0;
  for (uint64_t seed = 2; seed <= 12; seed += 2) {
    lw_graph before;
    make_graph(seed, &before);
    lw_status status = LW_STATUS_OUT_OF_MEMORY;
    for (uint64_t at = 1; status != LW_OK && at < 100000; at += 1 + at / 16) {
      lw_graph after;
      assert_ok(lw__graph_clone(&before, &after));
      lw__mem_fail_at(at);
      status = lw__pass_run(&after, &options, NULL);
      lw__mem_fail_at(0);
      assert_true(status == LW_OK || status == LW_STATUS_OUT_OF_MEMORY);
      failures += status != LW_OK;
      lw__graph_deinit(&after);
    }
    lw__graph_deinit(&before);
  }
  assert_true(failures > 50);
}

int main(void) {
  const struct CMUnitTest tests[] = {
      cmocka_unit_test(each_pass_keeps_the_meaning),
      cmocka_unit_test(the_pipeline_settles),
      cmocka_unit_test(every_allocation_may_fail),
  };
  return cmocka_run_group_tests(tests, NULL, NULL);
}

/* test_search.c: the search for fusions: which pairs merge, ids that force and forbid, no cycles,
 * large graphs. */
#include "fuse_kit.h"
#include "lib/rgraph.h"

static const char epilogue[] =
    "%x = input f32[64, 96]\n"
    "%w = const f32[96, 128] fill(1)\n"
    "%r = input f32[64, 128]\n"
    "%d = dot f32[64, 128] %x, %w\n"
    "%t = map.tanh f32[64, 128] %d\n"
    "%y = map.add f32[64, 128] %t, %r\n"
    "output y %y\n";

/* The decision about the pair of these operators; fails when there is none. */
static const lw_decision *find_decision(const fused *f, const char *producer,
                                        const char *consumer) {
  for (uint32_t i = 0; i < f->fusion.decisions.count; i++) {
    const lw_decision *d = &f->fusion.decisions.data[i];
    if (!strcmp(kit_op_name(&f->graph, d->producer), producer) &&
        !strcmp(kit_op_name(&f->graph, d->consumer), consumer))
      return d;
  }
  fail_msg("no decision about %s and %s", producer, consumer);
  return NULL;
}

static void fuse_with(const char *text, const char *force, const char *forbid, bool off, fused *f) {
  lw_fuse_options options = {.off = off,
                             .force = &force,
                             .force_count = force != NULL,
                             .forbid = &forbid,
                             .forbid_count = forbid != NULL};
  kit_fuse(text, NULL, &options, f);
  kit_check(f);
}

/* ---- ids --------------------------------------------------------------------------------------*/

static void ids_are_stable(void **state) {
  (void)state;
  fused a, b;
  fuse_with(epilogue, NULL, NULL, false, &a);
  fuse_with(epilogue, NULL, NULL, false, &b);
  assert_groups(&a, "dot: dot tanh add");
  assert_int_equal(a.fusion.decisions.count, b.fusion.decisions.count);
  assert_true(a.fusion.decisions.count >= 2);
  for (uint32_t i = 0; i < a.fusion.decisions.count; i++) {
    const char *id = a.fusion.decisions.data[i].id;
    assert_string_equal(id, b.fusion.decisions.data[i].id);
    assert_int_equal(strlen(id), 13);
    assert_int_equal(strspn(id + 1, "0123456789abcdef"), 12);
    for (uint32_t j = 0; j < i; j++) assert_string_not_equal(id, a.fusion.decisions.data[j].id);
  }
  fused_deinit(&a);
  fused_deinit(&b);
}

/* Other names of values, inputs and outputs do not touch ids, nor does the device. */
static void ids_survive_renaming(void **state) {
  (void)state;
  static const char renamed[] =
      "%input_1 = input f32[64, 96]\n"
      "%weight = const f32[96, 128] fill(1)\n"
      "%skip = input f32[64, 128]\n"
      "%7 = dot f32[64, 128] %input_1, %weight\n"
      "%8 = map.tanh f32[64, 128] %7\n"
      "%9 = map.add f32[64, 128] %8, %skip\n"
      "output result %9\n";
  fused a, b, c;
  fuse_with(epilogue, NULL, NULL, false, &a);
  fuse_with(renamed, NULL, NULL, false, &b);
  kit_fuse(epilogue, "sm_80", NULL, &c);
  static const char *const pairs[][2] = {{"dot", "tanh"}, {"tanh", "add"}};
  for (int i = 0; i < 2; i++) {
    const char *id = find_decision(&a, pairs[i][0], pairs[i][1])->id;
    assert_string_equal(id, find_decision(&b, pairs[i][0], pairs[i][1])->id);
    assert_string_equal(id, find_decision(&c, pairs[i][0], pairs[i][1])->id);
  }
  fused_deinit(&a);
  fused_deinit(&b);
  fused_deinit(&c);
}

/* ---- force, forbid, off -----------------------------------------------------------------------*/

static void forbid_keeps_apart(void **state) {
  (void)state;
  fused f;
  char id[20];
  fuse_with(epilogue, NULL, NULL, false, &f);
  snprintf(id, sizeof id, "%s", find_decision(&f, "dot", "tanh")->id);
  fused_deinit(&f);
  fuse_with(epilogue, NULL, id, false, &f);
  assert_groups(&f, "dot: dot | map: tanh add");
  const lw_decision *d = find_decision(&f, "dot", "tanh");
  assert_false(d->fused);
  assert_string_equal(d->id, id);
  assert_string_equal(d->reason, "forbidden by option");
  assert_true(find_decision(&f, "tanh", "add")->fused);
  fused_deinit(&f);
  fuse_with(epilogue, NULL, "f000000000000", false, &f); /* names nothing: changes nothing */
  assert_groups(&f, "dot: dot tanh add");
  fused_deinit(&f);
}

/* A forbidden pair stays apart even when both would come together through a third node. */
static void forbid_holds_through_others(void **state) {
  (void)state;
  static const char text[] =
      "%x = input f32[64, 64]\n"
      "%a = map.tanh f32[64, 64] %x\n"
      "%b = map.exp f32[64, 64] %a\n"
      "%c = map.sin f32[64, 64] %a\n"
      "%y = map.mul f32[64, 64] %b, %c\n"
      "output y %y\n";
  fused f;
  char id[20];
  fuse_with(text, NULL, NULL, false, &f);
  assert_int_equal(f.fusion.groups.count, 1);
  snprintf(id, sizeof id, "%s", find_decision(&f, "tanh", "exp")->id);
  fused_deinit(&f);
  fuse_with(text, NULL, id, false, &f);
  assert_int_equal(f.fusion.groups.count, 2);
  assert_false(find_decision(&f, "tanh", "exp")->fused);
  fused_deinit(&f);
}

static void off_is_one_group_per_node(void **state) {
  (void)state;
  fused f;
  char id[20];
  fuse_with(epilogue, NULL, NULL, true, &f);
  assert_groups(&f, "dot: dot | map: tanh | map: add");
  for (uint32_t i = 0; i < f.fusion.decisions.count; i++)
    assert_false(f.fusion.decisions.data[i].fused);
  snprintf(id, sizeof id, "%s", find_decision(&f, "tanh", "add")->id);
  fused_deinit(&f);
  fuse_with(epilogue, id, NULL, true, &f);
  assert_groups(&f, "dot: dot | map: tanh add");
  assert_true(find_decision(&f, "tanh", "add")->forced);
  fused_deinit(&f);
}

/* A dear function in front of a wide product is computed once per tile of results: not worth it
 * until it is forced. */
static void force_joins_what_does_not_pay(void **state) {
  (void)state;
  static const char text[] =
      "%x = input f32[4096, 1024]\n"
      "%e = input f32[4096, 1024]\n"
      "%w = const f32[1024, 8192] fill(1)\n"
      "%1 = map.pow f32[4096, 1024] %x, %e\n"
      "%2 = map.atan2 f32[4096, 1024] %1, %e\n"
      "%3 = map.pow f32[4096, 1024] %2, %e\n"
      "%4 = map.sinh f32[4096, 1024] %3\n"
      "%y = dot f32[4096, 8192] %4, %w\n"
      "output y %y\n";
  fused f;
  char id[20];
  fuse_with(text, NULL, NULL, false, &f);
  assert_groups(&f, "map: pow atan2 pow | dot: sinh dot");
  const lw_decision *d = find_decision(&f, "pow", "sinh");
  assert_true(d->us_together > d->us_apart && d->us_apart > 0);
  assert_non_null(strstr(d->reason, "does not pay"));
  snprintf(id, sizeof id, "%s", d->id);
  fused_deinit(&f);
  fuse_with(text, id, NULL, false, &f);
  assert_groups(&f, "map: pow atan2 | dot: pow sinh dot");
  assert_true(find_decision(&f, "pow", "sinh")->forced);
  fused_deinit(&f);
}

/* What is illegal stays apart whatever is asked for, and says why. */
static void force_cannot_do_the_impossible(void **state) {
  (void)state;
  static const char text[] =
      "%x = input f32[32, 32]\n"
      "%w = const f32[32, 32] fill(1)\n"
      "%a = dot f32[32, 32] %x, %w\n"
      "%b = dot f32[32, 32] %a, %w\n"
      "output y %b\n";
  fused f;
  char id[20];
  fuse_with(text, NULL, NULL, false, &f);
  assert_groups(&f, "dot: dot | dot: dot");
  snprintf(id, sizeof id, "%s", find_decision(&f, "dot", "dot")->id);
  fused_deinit(&f);
  fuse_with(text, id, NULL, false, &f);
  assert_groups(&f, "dot: dot | dot: dot");
  assert_string_equal(find_decision(&f, "dot", "dot")->reason, "two products in one kernel");
  fused_deinit(&f);
}

/* ---- cycles -----------------------------------------------------------------------------------*/

/* tanh feeds two products in a row and, beside them, the end: the two ends must not meet while a
 * product stands between. */
static void a_kernel_between_keeps_ends_apart(void **state) {
  (void)state;
  static const char text[] =
      "%x = input f32[32, 32]\n"
      "%w = const f32[32, 32] fill(1)\n"
      "%p = map.tanh f32[32, 32] %x\n"
      "%q = dot f32[32, 32] %p, %w\n"
      "%s = dot f32[32, 32] %q, %w\n"
      "%e = map.exp f32[32, 32] %p\n"
      "%y = map.add f32[32, 32] %e, %s\n"
      "output y %y\n";
  fused f;
  fuse_with(text, NULL, NULL, false, &f);
  assert_groups(&f, "map: tanh | dot: dot | dot: exp dot add");
  bool said = false;
  for (uint32_t i = 0; i < f.fusion.decisions.count; i++)
    said |= !f.fusion.decisions.data[i].fused &&
            !strcmp(f.fusion.decisions.data[i].reason, "another kernel stands between them");
  assert_true(said);
  for (uint32_t i = 0; i < f.fusion.decisions.count;
       i++) { /* each single pair forced: still runs in some order */
    fused g;
    fuse_with(text, f.fusion.decisions.data[i].id, NULL, i % 2, &g);
    fused_deinit(&g);
  }
  fused_deinit(&f);
}

/* A value that two groups exchange in both directions. */
static void crossing_chains(void **state) {
  (void)state;
  static const char text[] =
      "%x = input f32[16, 32]\n"
      "%a = reduce.sum f32[16] %x axes=[1]\n"
      "%b = reduce.sum f32[32] %x axes=[0]\n"
      "%1 = reshape f32[16, 1] %a\n"
      "%2 = expand f32[16, 32] %1\n"
      "%3 = reshape f32[1, 32] %b\n"
      "%4 = expand f32[16, 32] %3\n"
      "%c = map.mul f32[16, 32] %x, %2\n"
      "%d = map.mul f32[16, 32] %x, %4\n"
      "%e = map.add f32[16, 32] %c, %d\n"
      "%f = map.sub f32[16, 32] %c, %d\n"
      "%g = reduce.max f32[16] %e axes=[1]\n"
      "%h = reduce.max f32[32] %f axes=[0]\n"
      "output g %g\n"
      "output h %h\n";
  fused f;
  fuse_with(text, NULL, NULL, false, &f);
  assert_true(f.fusion.groups.count >= 3);
  fused_deinit(&f);
}

/* big and end merge first, as most is gained there; then the product lies between start and mixed
 * through big and end, though it is numbered behind mixed. */
static void a_path_back_through_a_merged_group(void **state) {
  (void)state;
  static const char text[] =
      "%x = input f32[32, 32]\n"
      "%b = input f32[4096, 1024]\n"
      "%w = const f32[32, 32] fill(1)\n"
      "%start = map.tanh f32[32, 32] %x\n"
      "%big = map.tanh f32[4096, 1024] %b\n"
      "%corner = slice f32[32, 32] %big start=[0, 0] step=[1, 1]\n"
      "%mixed = map.add f32[32, 32] %start, %corner\n"
      "%product = dot f32[32, 32] %start, %w\n"
      "%sum = reduce.sum f32[] %product axes=[0, 1]\n"
      "%one = reshape f32[1, 1] %sum\n"
      "%all = expand f32[4096, 1024] %one\n"
      "%end = map.add f32[4096, 1024] %big, %all\n"
      "output mixed %mixed\n"
      "output end %end\n";
  fused f;
  fuse_with(text, NULL, NULL, false, &f);
  assert_true(find_decision(&f, "tanh", "add")->fused || f.fusion.groups.count > 2);
  fused_deinit(&f);
}

static void random_graphs_run_in_order(void **state) {
  (void)state;
  uint32_t fewer = 0;
  for (uint64_t seed = 1; seed <= 300; seed++) {
    lw_rgraph_options options = {.nodes = 10 + (uint32_t)(seed % 40),
                                 .contractions = seed % 2,
                                 .narrow = seed % 3 == 0,
                                 .wide = seed % 5 < 3};
    for (int off = 0; off < 2; off++) {
      fused f = {0};
      lw_fuse_options choice = {.off = off != 0};
      assert_ok(lw__graph_init(&f.graph, &f.diag));
      assert_ok(lw_rgraph_make(seed, &options, &f.graph));
      if (lw__fuse(&f.graph, lw__device_profile_find(seed % 2 ? "cpu" : "sm_90a"), NULL, &choice,
                   &f.diag, &f.fusion) != LW_OK)
        fail_msg("seed %llu: %s", (unsigned long long)seed, lw__diag_first_error(&f.diag));
      kit_check(&f);
      uint32_t nodes = 0;
      for (uint32_t i = 0; i < f.fusion.groups.count; i++)
        nodes += f.fusion.groups.data[i].nodes.count;
      if (off)
        assert_int_equal(nodes, f.fusion.groups.count);
      else
        fewer += f.fusion.groups.count < nodes;
      fused_deinit(&f);
    }
  }
  assert_true(fewer > 200);
}

/* ---- size -------------------------------------------------------------------------------------*/

static void add_chain(lw_text *text, const char *shape, int length) {
  lw__text_add(text, "%%v0 = input f32%s\n", shape);
  for (int i = 1; i <= length; i++)
    lw__text_add(text, "%%v%d = map.%s f32%s %%v%d\n", i, i % 2 ? "sin" : "tanh", shape, i - 1);
  lw__text_add(text, "output y %%v%d\n", length);
}

/* A chain longer than a kernel may be is cut into few kernels. */
static void long_chain(void **state) {
  (void)state;
  lw_text text = {0};
  fused f;
  add_chain(&text, "[64, 64]", 300);
  fuse_with(lw__text_str(&text), NULL, NULL, false, &f);
  assert_int_equal(f.fusion.groups.count, 2);
  for (uint32_t i = 0; i < 2; i++) assert_int_equal(f.fusion.groups.data[i].cls, LW_KCLASS_MAP);
  fused_deinit(&f);
  lw__text_deinit(&text);
}

/* a = cos(a) + sin(a), 32 times: computing each use on its own would take 2^32 operations. */
static void shared_uses_do_not_explode(void **state) {
  (void)state;
  lw_text text = {0};
  fused f;
  int at = 0;
  lw__text_add(&text, "%%v0 = input f32[16, 16]\n");
  for (int i = 0; i < 32; i++, at += 3) {
    lw__text_add(&text, "%%v%d = map.cos f32[16, 16] %%v%d\n%%v%d = map.sin f32[16, 16] %%v%d\n",
                 at + 1, at, at + 2, at);
    lw__text_add(&text, "%%v%d = map.add f32[16, 16] %%v%d, %%v%d\n", at + 3, at + 1, at + 2);
  }
  lw__text_add(&text, "output y %%v%d\n", at);
  int64_t start = lw__now_ns();
  fuse_with(lw__text_str(&text), NULL, NULL, false, &f);
  assert_true(lw__now_ns() - start < 5000000000);
  assert_int_equal(f.fusion.groups.count, 1);
  assert_int_equal(f.fusion.groups.data[0].nodes.count, 96);
  /* 20 + 20 + 1 slots per step and element, not more. */
  assert_true(f.fusion.groups.data[0].work.issue_slots <= 256 * (32 * 41 + 8));
  fused_deinit(&f);
  lw__text_deinit(&text);
}

int main(void) {
  const struct CMUnitTest tests[] = {
      cmocka_unit_test(ids_are_stable),
      cmocka_unit_test(ids_survive_renaming),
      cmocka_unit_test(forbid_keeps_apart),
      cmocka_unit_test(forbid_holds_through_others),
      cmocka_unit_test(off_is_one_group_per_node),
      cmocka_unit_test(force_joins_what_does_not_pay),
      cmocka_unit_test(force_cannot_do_the_impossible),
      cmocka_unit_test(a_kernel_between_keeps_ends_apart),
      cmocka_unit_test(crossing_chains),
      cmocka_unit_test(a_path_back_through_a_merged_group),
      cmocka_unit_test(random_graphs_run_in_order),
      cmocka_unit_test(long_chain),
      cmocka_unit_test(shared_uses_do_not_explode),
  };
  return cmocka_run_group_tests(tests, NULL, NULL);
}

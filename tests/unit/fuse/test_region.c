/* test_region.c: what a set of nodes means as one kernel: class, extents, stages, where results
 * stand, and the reasons why other sets are no kernel. */
#include "fuse_kit.h"

typedef struct probe { /* one region over some nodes of a graph */
  fused f;
  lw_region_context ctx;
  lw_region region;
  lw_node_id nodes[64];
  uint32_t count;
  lw_status status;
} probe;

/* The region of all nodes of |text| that can be members, but those that give the values named in
 * |without| ("a b"). */
static void probe_init(probe *p, const char *text, const char *without) {
  memset(p, 0, sizeof *p);
  kit_parse(text, &p->f);
  assert_ok(lw__region_context_init(&p->ctx, &p->f.graph));
  for (uint32_t n = 0; n < p->f.graph.nodes.count; n++) {
    const char *name = lw__value(&p->f.graph, lw__node(&p->f.graph, n)->result)->name;
    char padded[64], list[256];
    snprintf(padded, sizeof padded, " %s ", name ? name : "");
    snprintf(list, sizeof list, " %s ", without);
    if (p->ctx.seed[n] && !strstr(list, padded)) p->nodes[p->count++] = n;
  }
  p->status = lw__region_init(&p->region, &p->ctx, p->nodes, p->count);
  if (p->status != LW_OK) return;
  lw_ix space[4];
  lw__region_plain_space(&p->region, space);
  p->status = lw__region_place(&p->region, space);
}

static void probe_deinit(probe *p) {
  lw__region_deinit(&p->region);
  lw__region_context_deinit(&p->ctx);
  fused_deinit(&p->f);
}

static void assert_refused(const char *text, const char *without, const char *why) {
  probe p;
  probe_init(&p, text, without);
  assert_int_equal(p.status, LW_STATUS_UNSUPPORTED);
  assert_non_null(p.region.why);
  assert_string_equal(p.region.why, why);
  probe_deinit(&p);
}

/* ---- classes and extents ----------------------------------------------------------------------*/

static void maps(void **state) {
  (void)state;
  probe p;
  probe_init(&p,
             "%x = input f32[4, 6]\n%b = input f32[6]\n%1 = reshape f32[1, 6] %b\n%2 = expand "
             "f32[4, 6] %1\n"
             "%s = map.add f32[4, 6] %x, %2\n%t = permute f32[6, 4] %s perm=[1, 0]\n%y = map.tanh "
             "f32[6, 4] %t\n"
             "output s %s\noutput y %y\n",
             "");
  assert_ok(p.status);
  assert_int_equal(p.region.cls, LW_KCLASS_MAP);
  assert_int_equal(p.region.elements, 24);
  assert_int_equal(p.region.outputs.count, 2);
  assert_int_equal(p.region.reductions.count, 0);
  assert_int_equal(p.region.anchor, LW_NONE);
  for (uint32_t i = 0; i < 2; i++) assert_int_equal(p.region.outputs.data[i].kind, LW_PLACE_FULL);
  assert_int_equal(lw__region_buffer_count(&p.region), 4);
  probe_deinit(&p);
}

static void softmax_has_two_stages(void **state) {
  (void)state;
  probe p;
  probe_init(&p,
             "%x = input f32[8, 5]\n%m = reduce.max f32[8] %x axes=[1]\n%1 = reshape f32[8, 1] "
             "%m\n%2 = expand f32[8, 5] %1\n"
             "%d = map.sub f32[8, 5] %x, %2\n%e = map.exp f32[8, 5] %d\n%s = reduce.sum f32[8] %e "
             "axes=[1]\n"
             "%3 = reshape f32[8, 1] %s\n%4 = expand f32[8, 5] %3\n%y = map.div f32[8, 5] %e, "
             "%4\noutput y %y\noutput s %s\n",
             "");
  assert_ok(p.status);
  assert_int_equal(p.region.cls, LW_KCLASS_REDUCE);
  assert_int_equal(p.region.rows, 8);
  assert_int_equal(p.region.cols, 5);
  assert_int_equal(p.region.stage_count, 2);
  assert_int_equal(p.region.reductions.count, 2);
  assert_int_equal(p.region.reductions.data[0].stage, 0);
  assert_int_equal(p.region.reductions.data[1].stage, 1);
  assert_int_equal(p.region.outputs.count, 2);
  assert_int_equal(p.region.outputs.data[0].kind, LW_PLACE_ROW); /* s, then y: node order */
  assert_int_equal(p.region.outputs.data[1].kind, LW_PLACE_FULL);
  probe_deinit(&p);
}

/* Reduced axes in the middle: rows and columns are counted in row-major order of what is kept and
 * what is reduced. */
static void reductions_over_inner_axes(void **state) {
  (void)state;
  probe p;
  probe_init(&p,
             "%x = input f32[2, 3, 4, 5]\n%y = reduce.sum f32[2, 4] %x axes=[1, 3]\noutput y %y\n",
             "");
  assert_ok(p.status);
  assert_int_equal(p.region.rows, 8);
  assert_int_equal(p.region.cols, 15);
  assert_int_equal(p.region.elements, 120);
  assert_int_equal(p.region.stage_count, 1);
  probe_deinit(&p);
}

static void products(void **state) {
  (void)state;
  probe p;
  probe_init(
      &p,
      "%x = input f32[2, 3, 8, 16]\n%w = input f32[2, 3, 16, 4]\n%d = dot f32[2, 3, 8, 4] %x, %w\n"
      "%y = map.exp f32[2, 3, 8, 4] %d\noutput y %y\n",
      "");
  assert_ok(p.status);
  assert_int_equal(p.region.cls, LW_KCLASS_DOT);
  assert_int_equal(p.region.b, 6);
  assert_int_equal(p.region.m, 8);
  assert_int_equal(p.region.n, 4);
  assert_int_equal(p.region.k, 16);
  assert_int_equal(p.region.elements, 6 * 8 * 4);
  assert_true(p.region.lhs != LW_NONE && p.region.rhs != LW_NONE);
  assert_int_equal(p.region.outputs.count, 1);
  probe_deinit(&p);
}

static void convolutions(void **state) {
  (void)state;
  probe p;
  probe_init(&p,
             "%x = input f32[2, 6, 9, 9]\n%w = input f32[8, 3, 3, 3]\n"
             "%y = conv f32[2, 8, 5, 5] %x, %w stride=[2, 2] pad_lo=[1, 1] pad_hi=[1, 1] "
             "group=2\noutput y %y\n",
             "");
  assert_ok(p.status);
  assert_int_equal(p.region.cls, LW_KCLASS_CONV);
  assert_int_equal(p.region.b, 2);
  assert_int_equal(p.region.m, 4);
  assert_int_equal(p.region.n, 2 * 25);
  assert_int_equal(p.region.k, 3 * 9);
  probe_deinit(&p);
}

static void nothing_to_do(void **state) {
  (void)state;
  probe p;
  probe_init(&p,
             "%x = input f32[0, 4]\n%a = map.exp f32[0, 4] %x\n%y = reduce.sum f32[0] %a "
             "axes=[1]\noutput y %y\n",
             "");
  assert_ok(p.status);
  assert_int_equal(p.region.outputs.count, 1);
  probe_deinit(&p);
  probe_init(&p, "%x = input f32[4, 0]\n%y = reduce.sum f32[4] %x axes=[1]\noutput y %y\n",
             ""); /* rows of nothing: zeros */
  assert_ok(p.status);
  assert_int_equal(p.region.rows, 4);
  assert_int_equal(p.region.cols, 0);
  assert_int_equal(p.region.outputs.count, 1);
  probe_deinit(&p);
}

/* ---- what is read outside must be stored ------------------------------------------------------*/

static void results_read_outside(void **state) {
  (void)state;
  static const char text[] =
      "%x = input f32[4, 6]\n%a = map.exp f32[4, 6] %x\n%b = map.neg f32[4, 6] %a\n%t = permute "
      "f32[6, 4] %b perm=[1, 0]\n"
      "%c = map.tanh f32[6, 4] %t\noutput c %c\n";
  probe p;
  probe_init(&p, text, "");
  assert_ok(p.status);
  assert_int_equal(p.region.outputs.count, 1); /* c alone */
  probe_deinit(&p);
  probe_init(&p, text, "c"); /* its reader looks through the permutation */
  assert_ok(p.status);
  assert_int_equal(p.region.outputs.count, 1);
  assert_string_equal(lw__value(&p.f.graph, p.region.outputs.data[0].value)->name, "b");
  probe_deinit(&p);
}

/* ---- refusals ---------------------------------------------------------------------------------*/

static void two_contractions(void **state) {
  (void)state;
  assert_refused(
      "%x = input f32[4, 4]\n%a = dot f32[4, 4] %x, %x\n%y = dot f32[4, 4] %a, %x\noutput y %y\n",
      "", "two products in one kernel");
  assert_refused(
      "%x = input f32[4, 4]\n%a = dot f32[4, 4] %x, %x\n%y = reduce.sum f32[4] %a axes=[1]\noutput "
      "y %y\n",
      "", "a product and a reduction in one kernel");
}

static void reductions_that_differ(void **state) {
  (void)state;
  assert_refused(
      "%x = input f32[4, 6]\n%a = reduce.sum f32[4] %x axes=[1]\n%b = reduce.sum f32[6] %x "
      "axes=[0]\noutput a %a\n"
      "output b %b\n",
      "", "the reductions have different rows or columns");
  /* As many rows and columns, but of other elements. */
  assert_refused(
      "%x = input f32[4, 4]\n%a = reduce.sum f32[4] %x axes=[1]\n%b = reduce.sum f32[4] %x "
      "axes=[0]\noutput a %a\n"
      "output b %b\n",
      "", "the reductions have their rows in different orders");
  assert_refused(
      "%x = input f32[4, 4]\n%z = input f32[4, 4]\n%a = reduce.sum f32[4] %x axes=[1]\n"
      "%b = reduce.sum f32[4] %z axes=[1]\noutput a %a\noutput b %b\n",
      "", "the reductions run over different elements");
}

/* The results meet in one map, which gives both the same place; but the rows of one are columns of
 * the other. */
static void reductions_that_meet(void **state) {
  (void)state;
  assert_refused(
      "%x = input f32[8, 8, 7, 2]\n%a = reduce.min f32[8, 7] %x axes=[0, 3]\n"
      "%b = reduce.min f32[8, 7] %x axes=[1, 3]\n%y = map.sub f32[8, 7] %a, %b\noutput y %y\n",
      "", "the reductions have their rows in different orders");
}

/* A row's sum that every row needs, and one that is spread along the wrong axis. */
static void rows_read_elsewhere(void **state) {
  (void)state;
  assert_refused(
      "%x = input f32[4, 4]\n%a = reduce.sum f32[4] %x axes=[1]\n%1 = reshape f32[1, 4] %a\n%2 = "
      "expand f32[4, 4] %1\n"
      "%y = map.add f32[4, 4] %x, %2\noutput y %y\n",
      "", "a reduction is read at another row than it is made in");
  assert_refused(
      "%x = input f32[4, 6]\n%a = reduce.sum f32[4] %x axes=[1]\n%1 = slice f32[4] %a start=[3] "
      "step=[-1]\n"
      "%y = map.add f32[4] %a, %1\noutput y %y\n",
      "", "a reduction is read at another row than it is made in");
  assert_refused(
      "%x = input f32[4, 4]\n%a = dot f32[4, 4] %x, %x\n%t = permute f32[4, 4] %a perm=[1, 0]\n"
      "%y = map.add f32[4, 4] %a, %t\noutput y %y\n",
      "", "the product is read at another element than it is made in");
}

static void gathers_need_memory(void **state) {
  (void)state;
  static const char text[] =
      "%x = input f32[5, 6]\n%i = input i64[3]\n%a = map.exp f32[5, 6] %x\n%flat = reshape f32[30] "
      "%a\n"
      "%g = gather f32[3] %flat, %i select=[0]\n%y = map.neg f32[3] %g\noutput y %y\n";
  assert_refused(text, "", "a gather's data must be in memory");
  probe p;
  probe_init(&p, text, "a");
  assert_ok(p.status);
  probe_deinit(&p);
}

static void results_that_do_not_fit(void **state) {
  (void)state;
  probe p;
  static const char text[] =
      "%x = input f32[4, 6]\n%a = map.exp f32[4, 6] %x\n%s = slice f32[2, 6] %a\n%y = map.neg "
      "f32[2, 6] %s\noutput a %a\noutput y %y\n";
  probe_init(&p, text, "");
  assert_int_equal(p.status, LW_STATUS_UNSUPPORTED);
  assert_non_null(p.region.why);
  probe_deinit(&p);
  /* Without |a| as an output it is computed where it is read. */
  probe_init(&p,
             "%x = input f32[4, 6]\n%a = map.exp f32[4, 6] %x\n%s = slice f32[2, 6] %a\n%y = "
             "map.neg f32[2, 6] %s\noutput y %y\n",
             "");
  assert_ok(p.status);
  assert_int_equal(p.region.elements, 12);
  probe_deinit(&p);
}

int main(void) {
  const struct CMUnitTest tests[] = {
      cmocka_unit_test(maps),
      cmocka_unit_test(softmax_has_two_stages),
      cmocka_unit_test(reductions_over_inner_axes),
      cmocka_unit_test(products),
      cmocka_unit_test(convolutions),
      cmocka_unit_test(nothing_to_do),
      cmocka_unit_test(results_read_outside),
      cmocka_unit_test(two_contractions),
      cmocka_unit_test(reductions_that_differ),
      cmocka_unit_test(reductions_that_meet),
      cmocka_unit_test(rows_read_elsewhere),
      cmocka_unit_test(gathers_need_memory),
      cmocka_unit_test(results_that_do_not_fit),
  };
  return cmocka_run_group_tests(tests, NULL, NULL);
}

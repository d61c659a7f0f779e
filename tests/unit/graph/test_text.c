/* test_text.c: printing and parsing of graphs. */
#include "graph_kit.h"

enum { random_graphs = 400 };

static void assert_round_trip(kit *k) {
  kit again;
  kit_open(&again);
  lw__graph_deinit(&again.g);
  const char *first = kit_print(k, true);
  lw_status status = lw__graph_parse(lw__str_of(first), &again.diag, &again.g);
  if (status != LW_OK) {
    fail_msg("%s: %s in\n%s", again.diag.messages.data[0].where, lw__diag_first_error(&again.diag),
             first);
  }
  assert_string_equal(kit_print(&again, true), first);
  OK(&again, lw__graph_verify(&again.g, &again.diag));
  kit_close(&again);
}

static void test_random_round_trip(void **state) {
  (void)state;
  uint64_t nodes = 0;
  for (uint64_t seed = 0; seed < random_graphs; seed++) {
    kit k;
    lw_rng rng;
    kit_open(&k);
    lw__rng_seed(&rng, seed);
    k.g.diag = NULL;
    OK(&k, random_graph(&k.g, &rng, 60));
    OK(&k, lw__graph_verify(&k.g, &k.diag));
    assert_round_trip(&k);
    OK(&k, lw__graph_compact(&k.g));
    OK(&k, lw__graph_verify(&k.g, &k.diag));
    assert_round_trip(&k);
    nodes += k.g.nodes.count;
    kit_close(&k);
  }
  assert_true(nodes > random_graphs * 10); /* the generator does get somewhere */
}

/* Parses |text| and prints it again. */
static void assert_reprints(const char *text, const char *expected) {
  kit k;
  kit_open(&k);
  lw__graph_deinit(&k.g);
  OK(&k, lw__graph_parse(lw__str_of(text), &k.diag, &k.g));
  OK(&k, lw__graph_verify(&k.g, &k.diag));
  assert_string_equal(kit_print(&k, true), expected);
  kit_close(&k);
}

static void test_every_op(void **state) {
  (void)state;
  const char *text =
      "%x = input f32[2, 6, batch]\n"
      "%w = input f32[4, 3, 3]\n"
      "%i = input i64[2]\n"
      "%3 = const f32[3] {1, -0.5, 0.100000001}  ; a \\\"node\\\"\n"
      "%4 = iota i32[2, 3] axis=1\n"
      "%5 = map.exp f32[2, 6, batch] %x\n"
      "%6 = map.add f32[2, 6, batch] %x, %5\n"
      "%7 = reshape f32[12, batch] %6\n"
      "%8 = permute f32[batch, 12] %7 perm=[1, 0]\n"
      "%9 = reshape f32[1, batch, 12] %8\n"
      "%10 = expand f32[5, batch, 12] %9 order=[0, 2, 1]\n"
      "%11 = slice f32[2, batch, 6] %10 start=[4, 0, 1] step=[-1, 1, 2]\n"
      "%12 = pad f32[3, batch, 6] %11 lo=[1, 0, 0] value=-inf\n"
      "%13 = window f32[3, batch, 2, 3] %12 axis=[2] stride=[2] dilation=[1]\n"
      "%14 = concat f32[6, batch, 2, 3] %13, %13 axis=0\n"
      "%15 = reduce.sum f32[6, 3] %14 axes=[1, 2]\n"
      "%16 = permute f32[3, 6] %15 perm=[1, 0]\n"
      "%17 = dot f32[6, 6] %15, %16\n"
      "%18 = conv f32[2, 4, (batch + 1)//2] %x, %w stride=[2] dilation=[1] pad_lo=[1] pad_hi=[1] "
      "group=2\n"
      "%19 = gather f32[2] %17, %i select=[0, -1]\n"
      "%20 = map.cast bf16[2] %19  ; last\n"
      "%21 = input u8[]\n"
      "output \"the output\" %20\n"
      "output x %x\n";
  kit k;
  kit_open(&k);
  lw__graph_deinit(&k.g);
  OK(&k, lw__graph_parse(lw__str_of(text), &k.diag, &k.g));
  OK(&k, lw__graph_verify(&k.g, &k.diag));
  assert_int_equal(k.g.inputs.count, 4);
  assert_round_trip(&k); /* inputs move to the front */
  kit_close(&k);
}

static void test_free_form(void **state) {
  (void)state;
  assert_reprints(
      "; a comment\n\n  %x=input f32[2,3];here\r\n%\"a b\" = reshape f32[ 3 , 2]%x ; n\noutput y "
      "%\"a b\"",
      "%x = input f32[2, 3]  ; here\n%\"a b\" = reshape f32[3, 2] %x  ; n\noutput y %\"a b\"\n");
  assert_reprints("%7 = input f32[2*s - s + 0, (3*s)//3, s//1, min(s, s)]\n%8 = input f32[]",
                  "%0 = input f32[s, s, s, s]\n%1 = input f32[]\n"); /* %7 x: see below */
}

static void test_defaults(void **state) {
  (void)state;
  assert_reprints(
      "%x = input f32[1, 2, 8]\n%w = input f32[4, 2, 3]\n%y = conv f32[1, 4, 6] %x, %w\n"
      "%z = slice f32[1, 2, 4] %x\n%p = pad f32[1, 2, 9] %x\n%v = window f32[1, 2, 7, 2] %x "
      "axis=[2]\n",
      "%x = input f32[1, 2, 8]\n%w = input f32[4, 2, 3]\n"
      "%y = conv f32[1, 4, 6] %x, %w stride=[1] dilation=[1] pad_lo=[0] pad_hi=[0] group=1\n"
      "%z = slice f32[1, 2, 4] %x start=[0, 0, 0] step=[1, 1, 1]\n"
      "%p = pad f32[1, 2, 9] %x lo=[0, 0, 0] value=0\n"
      "%v = window f32[1, 2, 7, 2] %x axis=[2] stride=[1] dilation=[1]\n");
}

static void test_constants(void **state) {
  (void)state;
  const char *text =
      "%0 = const f32[5] {nan, inf, -inf, -0, nan(0x7fa00000)}\n"
      "%1 = const f64[2] {0.1, 1e-310}\n"
      "%2 = const f16[2] {0.100098, 65504}\n"
      "%3 = const bf16[1] {0.100098}\n"
      "%4 = const u64[2] {18446744073709551615, 0}\n"
      "%5 = const i64[2] {-9223372036854775808, 9223372036854775807}\n"
      "%6 = const i8[2] {-128, 127}\n"
      "%7 = const bool[2] {0, 1}\n"
      "%8 = const f8e4m3[2] {448, nan}\n"
      "%9 = const f32[0] {}\n"
      "%10 = const f32[] {1}\n";
  assert_reprints(text, text);
}

static void test_fill(void **state) {
  (void)state;
  kit k;
  kit_open(&k);
  lw__graph_deinit(&k.g);
  OK(&k,
     lw__graph_parse(
         lw__str_of("%x = const f32[20, 30] fill(7)\n%y = const i32[100] fill(1)\noutput x %x\n"),
         &k.diag, &k.g));
  const float *x = lw__node(&k.g, 0)->attr.constant.data;
  lw_rng rng;
  lw__rng_seed(&rng, 7);
  for (int i = 0; i < 600; i++) assert_true(x[i] == (float)lw__rng_normal(&rng));
  const int32_t *y = lw__node(&k.g, 1)->attr.constant.data;
  for (int i = 0; i < 100; i++) assert_true(y[i] >= 0 && y[i] <= 9);
  const char *brief = kit_print(&k, false);
  assert_non_null(strstr(brief, "%x = const f32[20, 30] {...} hash="));
  kit again;
  kit_open(&again);
  FAILS(&again, LW_STATUS_MODEL_INVALID, "left out",
        lw__graph_parse(lw__str_of(brief), &again.diag, &again.g));
  kit_close(&again);
  assert_round_trip(&k);
  kit_close(&k);
}

static void assert_refused(const char *text, const char *where, const char *what) {
  lw_diag diag = {0};
  lw_graph g;
  lw_status status = lw__graph_parse(lw__str_of(text), &diag, &g);
  if (status == LW_OK) fail_msg("accepted: %s", text);
  if (diag.messages.count != 1) fail_msg("%u messages: %s", diag.messages.count, text);
  const lw_message *m = &diag.messages.data[0];
  if (strcmp(m->where, where) != 0 || strstr(m->text, what) == NULL)
    fail_msg("%s: '%s' '%s'", text, m->where, m->text);
  lw__diag_deinit(&diag);
}

static void test_errors(void **state) {
  (void)state;
  assert_refused("x", "line 1, column 2", "expected a value or an output");
  assert_refused("\n%x = inputs f32[]", "line 2, column 12", "unknown operator 'inputs'");
  assert_refused("%x = map.foo f32[]", "line 1, column 13", "unknown operator 'map.foo'");
  assert_refused("%x = map f32[]", "line 1, column 9", "unknown operator 'map'");
  assert_refused("%x = input f33[]", "line 1, column 15", "expected an element type");
  assert_refused("%x = input f32[-1]", "line 1", "negative");
  assert_refused("%x = input f32[2", "line 1, column 17", "expected ']'");
  assert_refused("%x = input f32[s//0]", "line 1", "not positive");
  assert_refused("%x = input f32[9223372036854775808]", "line 1, column 35", "no number");
  assert_refused("%x = input f32[1,1,1,1,1,1,1,1,1,1,1,1,1]", "line 1, column 40", "more than 12");
  assert_refused("%x = map.exp f32[2] %y", "line 1, column 23", "no such value");
  assert_refused("%x = input f32[2]\n%x = input f32[2]", "line 2, column 18", "second value");
  assert_refused("%x = input f32[2]\n%y = map.exp f32[3] %x", "line 2, column 23",
                 "the result is f32[2]");
  assert_refused("%x = input f32[2]\n%y = map.exp f16[2] %x", "line 2, column 23",
                 "the result is f32[2]");
  assert_refused("%x = input f32[2]\n%y = map.not f32[2] %x", "line 2", "not defined for f32");
  assert_refused("%x = input f32[2]\n%y = map.exp f32[2] %x axis=1", "line 2, column 28",
                 "no attribute 'axis'");
  assert_refused("%x = input f32[2]\n%y = permute f32[2] %x", "line 2, column 23", "needs 'perm'");
  assert_refused("%x = input f32[2]\n%y = permute f32[2] %x perm=[0] perm=[0]", "line 2, column 37",
                 "twice");
  assert_refused("%x = input f32[2]\n%y = permute f32[2] %x perm=[0, 1]", "line 2, column 35",
                 "lists of 2");
  assert_refused("%x = input f32[2]\n%y = permute f32[2] %x perm=[300]", "line 2, column 33",
                 "no number");
  assert_refused("%x = input f32[2] order=[1]", "line 1, column 28", "no permutation");
  assert_refused("%x = const f32[2] {1}", "line 1", "4 bytes of data");
  assert_refused("%x = const f32[1] {1e}", "line 1, column 22", "no number");
  assert_refused("%x = const u8[1] {256}", "line 1, column 22", "no u8");
  assert_refused("%x = const i8[1] {-129}", "line 1, column 23", "no i8");
  assert_refused("%x = const bool[1] {2}", "line 1, column 22", "no bool");
  assert_refused("%x = const u64[1] {-1}", "line 1, column 22", "no u64");
  assert_refused("%x = const f32[s] {1}", "line 1", "needs numbers for 's'");
  assert_refused("%x = const f32[1000000, 1000000] fill(1)", "line 1, column 41", "too many");
  assert_refused("%x = const f32[1] {nan(0x0)}", "line 1, column 27", "no NaN");
  assert_refused("%\"x = input f32[]", "line 1, column 18", "without an end");
  assert_refused("%\"x\\y\" = input f32[]", "line 1, column 6", "bad escape");
  assert_refused("output y %x", "line 1, column 12", "no such value");
  assert_refused("%x = input f32[] extra", "line 1, column 23", "no attribute 'extra'");
  assert_refused("%x = input f32[(((((((((((((((((((((((((((((((((((((((((((((((((1",
                 "line 1, column 56", "too deep");
}

/* Damaged texts are refused or read, never worse. */
static void test_damaged_text(void **state) {
  (void)state;
  kit k;
  lw_rng rng;
  kit_open(&k);
  lw__rng_seed(&rng, 99);
  k.g.diag = NULL;
  OK(&k, random_graph(&k.g, &rng, 80));
  lw_text damaged = {0};
  const char *text = kit_print(&k, true);
  size_t length = strlen(text);
  for (int i = 0; i < 3000; i++) {
    lw__text_clear(&damaged);
    lw__text_add_n(&damaged, text, (size_t)lw__rng_range(&rng, 1, (int64_t)length));
    for (int n = 0; n < 3; n++) {
      size_t at = (size_t)lw__rng_range(&rng, 0, (int64_t)damaged.len);
      damaged.data[at] = (char)lw__rng_range(&rng, 0, 3) == 0
                             ? (char)lw__rng_u64(&rng)
                             : text[lw__rng_range(&rng, 0, (int64_t)length)];
    }
    lw_graph g;
    lw_diag diag = {0};
    if (lw__graph_parse(lw__str(damaged.data, damaged.len), &diag, &g) == LW_OK) {
      assert_int_equal(lw__graph_verify(&g, &diag), LW_OK);
      lw__graph_deinit(&g);
    }
    lw__diag_deinit(&diag);
  }
  lw__text_deinit(&damaged);
  kit_close(&k);
}

/* Names that nobody can write plainly survive; of two equal ones the second gives way to a number.
 */
static void test_names(void **state) {
  (void)state;
  kit k;
  kit_open(&k);
  lw_shape shape = SHAPE(2);
  const char *const names[] = {"", "3", "a b", "x\"\\\n", "min", "x", "x", "\xc3\xa9"};
  for (size_t i = 0; i < LW_ARRAY_COUNT(names); i++) {
    lw_value_id v = LW_NONE;
    OK(&k, lw__graph_input(&k.g, LW_DTYPE_F32, &shape, names[i], &v));
  }
  assert_string_equal(
      kit_print(&k, true),
      "%0 = input f32[2]\n%\"3\" = input f32[2]\n%\"a b\" = input f32[2]\n"
      "%\"x\\\"\\\\\\x0a\" = input f32[2]\n%\"min\" = input f32[2]\n%x = input f32[2]\n"
      "%6 = input f32[2]\n%\"\xc3\xa9\" = input f32[2]\n");
  assert_round_trip(&k);
  kit_close(&k);
}

static void test_input_order(void **state) {
  (void)state;
  kit k;
  kit_open(&k);
  lw_value_id a = INPUT(&k, F32, 1), b = INPUT(&k, F32, 2);
  k.g.inputs.data[0] = b;
  k.g.inputs.data[1] = a;
  assert_string_equal(kit_print(&k, true), "%in1 = input f32[2]\n%in0 = input f32[1]\n");
  kit_close(&k);
}

static void test_no_memory(void **state) {
  (void)state;
  const char *text =
      "%x = input f32[s, 2] ; n\n%y = reshape f32[2*s] %x\n%c = const f32[2] {1, 2}\noutput y %y\n";
  bool done = false;
  for (uint64_t n = 1; !done; n++) {
    lw_graph g;
    lw_diag diag = {0};
    lw_text out = {0};
    lw__mem_fail_at(n);
    lw_status status = lw__graph_parse(lw__str_of(text), &diag, &g);
    if (status == LW_OK) lw__graph_print(&g, true, &out);
    lw__mem_fail_at(0);
    done = status == LW_OK && out.status == LW_OK;
    if (!done) assert_int_equal(status != LW_OK ? status : out.status, LW_STATUS_OUT_OF_MEMORY);
    if (status == LW_OK) lw__graph_deinit(&g);
    lw__text_deinit(&out);
    lw__diag_deinit(&diag);
  }
}

int main(void) {
  const struct CMUnitTest tests[] = {
      cmocka_unit_test(test_random_round_trip),
      cmocka_unit_test(test_every_op),
      cmocka_unit_test(test_free_form),
      cmocka_unit_test(test_defaults),
      cmocka_unit_test(test_constants),
      cmocka_unit_test(test_fill),
      cmocka_unit_test(test_errors),
      cmocka_unit_test(test_damaged_text),
      cmocka_unit_test(test_names),
      cmocka_unit_test(test_input_order),
      cmocka_unit_test(test_no_memory),
  };
  return cmocka_run_group_tests(tests, NULL, NULL);
}

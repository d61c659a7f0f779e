/* test_large.c: models of very many parts: import stays linear in them (anything quadratic runs
 * into the time limit of the tests), and lists that would be searched for every node have a limit.
 * Under sanitizers the same with fewer parts. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdio.h>
#include <stdlib.h>

#include <cmocka.h>

#include "compiler/onnx/import.h"
#include "compiler/onnx/proto.h"
#include "writer.h"

#if defined __SANITIZE_ADDRESS__ || defined __SANITIZE_THREAD__
enum { MANY = 20000 };
#else
enum { MANY = 1000000 };
#endif

static lw_status import_model(lw_text *model, lw_graph *graph, lw_diag *diag) {
  assert_int_equal(model->status, LW_OK);
  return lw__onnx_import_bytes(model->data, model->len, "m.onnx", NULL, NULL, diag, graph);
}

/* Ends |model|; the text of the first message. */
static void assert_import(lw_text model, lw_status want, const char *text) {
  lw_diag diag = {0};
  lw_graph graph;
  lw_status status = import_model(&model, &graph, &diag);
  if (status != want) print_error("%s\n", lw__diag_first_error(&diag));
  assert_int_equal(status, want);
  if (want != LW_OK) assert_non_null(strstr(lw__diag_first_error(&diag), text));
  if (status == LW_OK) lw__graph_deinit(&graph);
  lw__diag_deinit(&diag);
  lw__text_deinit(&model);
}

static lw_text begin_graph(const char *output) {
  lw_text g = {0}, out = {0};
  pb_part(&g, 11, pb_value("x", 1, "2 3"));
  pb_str(&out, 1, output);
  pb_part(&g, 12, out);
  return g;
}

static void test_nodes(void **state) {
  (void)state;
  char in[32] = "x", out[32], last[32];
  snprintf(last, sizeof last, "v%d", MANY - 1);
  lw_text g = begin_graph(last);
  for (int i = 0; i < MANY; i++) {
    snprintf(out, sizeof out, "v%d", i);
    pb_part(&g, 1, pb_node("Neg", in, out));
    memcpy(in, out, sizeof in);
  }
  lw_text model = pb_model(g, 17);
  lw_diag diag = {0};
  lw_graph graph;
  assert_int_equal(import_model(&model, &graph, &diag), LW_OK);
  assert_int_equal(graph.nodes.count, MANY + 1);
  lw__graph_deinit(&graph);
  lw__diag_deinit(&diag);
  lw__text_deinit(&model);
}

static void test_unsupported_nodes(void **state) {
  (void)state;
  lw_text g = begin_graph("v0");
  for (int i = 0; i < MANY; i++) {
    char op[32], out[32];
    snprintf(op, sizeof op, "Foo%d", i);
    snprintf(out, sizeof out, "v%d", i);
    pb_part(&g, 1, pb_node(op, "x", out));
  }
  assert_import(pb_model(g, 17), LW_STATUS_UNSUPPORTED, "Foo0");
}

static void test_initializers_and_inputs(void **state) {
  (void)state;
  lw_text g = begin_graph("y");
  pb_part(&g, 1, pb_node("Neg", "x", "y"));
  for (int i = 0; i < MANY / 2; i++) {
    char name[32], symbol[32];
    snprintf(name, sizeof name, "w%d", i);
    pb_part(&g, 5, pb_tensor(name, 1, "\0\0\0", 4, 1, 1));
    snprintf(name, sizeof name, "i%d", i);
    snprintf(symbol, sizeof symbol, "s%d 2", i);
    pb_part(&g, 11, pb_value(name, 1, symbol));
  }
  assert_import(pb_model(g, 17), LW_OK, "");
}

/* Functions of one name that differ in what overload they are, each called. */
static void test_overloads(void **state) {
  (void)state;
  enum { FUNCTIONS = MANY / 20 };
  lw_text g = begin_graph("v0");
  for (int i = 0; i < FUNCTIONS; i++) {
    char out[32], overload[32];
    snprintf(out, sizeof out, "v%d", i);
    snprintf(overload, sizeof overload, "o%d", FUNCTIONS - 1 - i);
    lw_text node = pb_node("f", "x", out);
    pb_str(&node, 7, "local");
    pb_str(&node, 8, overload);
    pb_part(&g, 1, node);
  }
  lw_text model = pb_model(g, 17);
  for (int i = 0; i < FUNCTIONS; i++) {
    char overload[32];
    lw_text f = {0}, set = {0};
    snprintf(overload, sizeof overload, "o%d", i);
    pb_str(&f, 1, "f");
    pb_str(&f, 4, "a");
    pb_str(&f, 5, "b");
    pb_part(&f, 7, pb_node("Neg", "a", "b"));
    pb_int(&set, 2, 17);
    pb_part(&f, 9, set);
    pb_str(&f, 10, "local");
    pb_str(&f, 13, overload);
    pb_part(&model, 25, f);
  }
  assert_import(model, LW_OK, "");
}

static void test_operator_sets(void **state) {
  (void)state;
  lw_text g = begin_graph("y");
  pb_part(&g, 1, pb_node("Neg", "x", "y"));
  lw_text model = pb_model(g, 17);
  for (int i = 0; i < LW_PROTO_LIST_MAX; i++) {
    lw_text set = {0};
    char domain[32];
    snprintf(domain, sizeof domain, "d%d", i);
    pb_str(&set, 1, domain);
    pb_int(&set, 2, 1);
    pb_part(&model, 8, set);
  }
  assert_import(model, LW_STATUS_UNSUPPORTED, "operator sets");
}

static void test_attributes(void **state) {
  (void)state;
  lw_text g = begin_graph("y"), node = pb_node("Neg", "x", "y");
  for (int i = 0; i <= LW_PROTO_LIST_MAX; i++) pb_attr_int(&node, "a", i);
  pb_part(&g, 1, node);
  assert_import(pb_model(g, 17), LW_STATUS_UNSUPPORTED, "attributes");
}

int main(void) {
  const struct CMUnitTest tests[] = {
      cmocka_unit_test(test_nodes),
      cmocka_unit_test(test_unsupported_nodes),
      cmocka_unit_test(test_initializers_and_inputs),
      cmocka_unit_test(test_overloads),
      cmocka_unit_test(test_operator_sets),
      cmocka_unit_test(test_attributes),
  };
  return cmocka_run_group_tests(tests, NULL, NULL);
}

/* test_import.c: names, order, symbols, options, branches, functions, what is reported, shape
 * arithmetic. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdio.h>
#include <stdlib.h>

#include <cmocka.h>

#include "compiler/onnx/import.h"
#include "compiler/onnx/operators.h"
#include "compiler/onnx/proto.h"
#include "writer.h"

typedef struct lw_imported {
  lw_graph graph;
  lw_diag diag;
  lw_text model;
  lw_status status;
} lw_imported;

/* Ends |graph|. */
static void import_with(lw_text graph, const lw_import_options *options, lw_imported *out) {
  *out = (lw_imported){.model = pb_model(graph, 17)};
  out->status = lw__onnx_import_bytes(out->model.data, out->model.len, "m.onnx", options, NULL,
                                      &out->diag, &out->graph);
  if (out->status == LW_OK)
    assert_int_equal(lw__graph_verify(&out->graph, &out->diag), LW_OK);
  else
    assert_true(out->diag.messages.count > 0);
}
static void import(lw_text graph, lw_imported *out) { import_with(graph, NULL, out); }

static void imported_end(lw_imported *m) {
  if (m->status == LW_OK) lw__graph_deinit(&m->graph);
  lw__diag_deinit(&m->diag);
  lw__text_deinit(&m->model);
}

static const char *first_error(const lw_imported *m) { return lw__diag_first_error(&m->diag); }
static const char *first_where(const lw_imported *m) {
  return m->diag.messages.count == 0 ? "" : m->diag.messages.data[0].where;
}

/* An x of f32[dims] and outputs named in |outputs|. */
static lw_text graph_of(const char *dims, const char *outputs) {
  lw_text g = {0};
  pb_part(&g, 11, pb_value("x", 1, dims));
  while (*outputs != '\0') {
    size_t n = strcspn(outputs, " ");
    lw_text out = {0};
    pb_bytes(&out, 1, outputs, n);
    pb_part(&g, 12, out);
    outputs += n + (outputs[n] == ' ');
  }
  return g;
}
static void add(lw_text *g, const char *op, const char *in, const char *out) {
  pb_part(g, 1, pb_node(op, in, out));
}
static void add_axis(lw_text *g, const char *op, const char *in, const char *out, int64_t axis) {
  lw_text node = pb_node(op, in, out);
  pb_attr_int(&node, "axis", axis);
  pb_part(g, 1, node);
}
static void add_ints(lw_text *g, const char *name, int n, const int64_t *values) {
  pb_part(g, 5, pb_ints(name, n, values));
}

static uint32_t count_op(const lw_graph *g, lw_op op) {
  uint32_t n = 0;
  for (uint32_t i = 0; i < g->nodes.count; i++) n += lw__node(g, i)->op == op;
  return n;
}
static const lw_shape *output_shape(const lw_imported *m, uint32_t i) {
  return &lw__value(&m->graph, m->graph.outputs.data[i])->shape;
}
static void assert_shape(const lw_imported *m, const char *want) {
  lw_text text = {0};
  assert_int_equal(m->status, LW_OK);
  lw__shape_print(&m->graph, output_shape(m, 0), &text);
  assert_string_equal(lw__text_str(&text), want);
  lw__text_deinit(&text);
}

/* ---- the operator table ---------------------------------------------------------------------*/

static void test_table_is_sorted(void **state) {
  (void)state;
  for (uint32_t i = 0; i < lw__operator_count; i++) {
    const lw_operator *op = &lw__operators[i];
    assert_ptr_equal(lw__operator_find(lw__str_of(op->domain), lw__str_of(op->name)), op);
    assert_true(lw__operator_first(op) >= 1);
    assert_true(op->min_in <= op->max_in && op->max_out >= 1);
  }
  assert_null(lw__operator_find(lw__str_of(""), lw__str_of("Frobnicate")));
  assert_null(lw__operator_find(lw__str_of("com.example"), lw__str_of("Add")));
  assert_non_null(lw__operator_find(lw__str_of("ai.onnx"), lw__str_of("Add")));
}

/* ---- names and order ------------------------------------------------------------------------*/

static void test_names_and_provenance(void **state) {
  (void)state;
  lw_imported m;
  lw_text g = graph_of("2 3", "y"), node = pb_node("Neg", "x", "t");
  pb_str(&node, 3, "my node");
  pb_part(&g, 1, node);
  add(&g, "Abs", "t", "y");
  import(g, &m);
  assert_shape(&m, "[2, 3]");
  const lw_node *abs = lw__producer(&m.graph, m.graph.outputs.data[0]);
  const lw_node *neg = lw__producer(&m.graph, lw__operand(&m.graph, abs, 0));
  assert_string_equal(neg->name, "my node");
  assert_string_equal(abs->name, "Abs_1");
  assert_string_equal(lw__value(&m.graph, neg->result)->name, "t");
  assert_string_equal(m.graph.output_names.data[0], "y");
  imported_end(&m);
}

static void test_bad_names(void **state) {
  (void)state;
  static const struct {
    const char *op[3], *in[3], *out[3], *says;
  } cases[] = {
      {{"Neg", NULL, NULL}, {"q"}, {"y"}, "not defined"},
      {{"Neg", "Abs", NULL}, {"t", "x"}, {"y", "t"}, "computed only later"},
      {{"Add", "Neg", NULL}, {"x b", "a"}, {"a", "b"}, "computed only later"},
      {{"Neg", "Abs", NULL}, {"x", "x"}, {"y", "y"}, "defined twice"},
      {{"Neg", NULL, NULL}, {"x"}, {"x"}, "defined twice"},
      {{"Neg", NULL, NULL}, {"x"}, {"t"}, "nothing computes it"},
      {{"Neg", NULL, NULL}, {"x x"}, {"y"}, "inputs"},
      {{"Neg", NULL, NULL}, {"-"}, {"y"}, "missing"},
      {{"Neg", NULL, NULL}, {"x"}, {"y z"}, "outputs"},
  };
  for (size_t i = 0; i < LW_ARRAY_COUNT(cases); i++) {
    lw_imported m;
    lw_text g = graph_of("2", "y");
    for (int k = 0; k < 3 && cases[i].op[k] != NULL; k++)
      add(&g, cases[i].op[k], cases[i].in[k], cases[i].out[k]);
    import(g, &m);
    assert_int_equal(m.status, LW_STATUS_MODEL_INVALID);
    if (strstr(first_error(&m), cases[i].says) == NULL)
      fail_msg("case %zu says: %s", i, first_error(&m));
    imported_end(&m);
  }
}

static void test_message_names_the_node(void **state) {
  (void)state;
  lw_imported m;
  lw_text g = graph_of("2 3", "y"), node = pb_node("Softmax", "x", "y");
  pb_str(&node, 3, "n7");
  pb_attr_int(&node, "axis", 5);
  pb_part(&g, 1, node);
  import(g, &m);
  assert_int_equal(m.status, LW_STATUS_MODEL_INVALID);
  assert_string_equal(first_where(&m), "m.onnx: node 'n7' (Softmax)");
  imported_end(&m);
}

static void test_initializer_that_is_an_input(void **state) {
  (void)state;
  lw_imported m;
  float w[2] = {1, 2};
  lw_text g = graph_of("2", "y");
  pb_part(&g, 11, pb_value("w", 1, "2"));
  pb_part(&g, 5, pb_tensor("w", 1, w, sizeof w, 1, 2));
  add(&g, "Add", "x w", "y");
  import(g, &m);
  assert_int_equal(m.status, LW_OK);
  assert_int_equal(m.graph.inputs.count, 1);
  assert_int_equal(count_op(&m.graph, LW_OP_CONST), 1);
  imported_end(&m);
}

static void test_input_and_constant_as_outputs(void **state) {
  (void)state;
  lw_imported m;
  float w[2] = {1, 2};
  lw_text g = graph_of("2", "x w x");
  pb_part(&g, 5, pb_tensor("w", 1, w, sizeof w, 1, 2));
  import(g, &m);
  assert_int_equal(m.status, LW_OK);
  assert_int_equal(m.graph.outputs.count, 3);
  assert_int_equal(m.graph.outputs.data[0], m.graph.outputs.data[2]);
  imported_end(&m);
}

/* ---- what is not supported ------------------------------------------------------------------*/

static void test_all_unsupported_are_listed(void **state) {
  (void)state;
  lw_imported m;
  lw_text g = graph_of("2", "y"), far = pb_node("Foo", "x", "a"), attr = pb_node("Neg", "x", "c");
  pb_str(&far, 7, "com.example");
  pb_part(&g, 1, far);
  add(&g, "Frobnicate", "a", "b");
  add(&g, "Frobnicate", "x", "b2");
  pb_attr_int(&attr, "twist", 1);
  pb_part(&g, 1, attr);
  add(&g, "Add", "b c", "y");
  import(g, &m);
  assert_int_equal(m.status, LW_STATUS_UNSUPPORTED);
  const char *text = first_error(&m);
  assert_non_null(strstr(text, "Foo (com.example opset 1)"));
  assert_non_null(strstr(text, "Frobnicate (ai.onnx opset 17)"));
  assert_non_null(strstr(text, "and 1 more: unknown operator"));
  assert_non_null(strstr(text, "attribute 'twist'"));
  assert_null(strstr(text, "Add"));
  imported_end(&m);
}

/* ---- symbols --------------------------------------------------------------------------------*/

/* Neg(x) reshaped to (Shape(x)[0], -1). */
static lw_text reshape_graph(const char *dims) {
  lw_text g = graph_of(dims, "y");
  add_ints(&g, "zero", 1, (int64_t[]){0});
  add_ints(&g, "rest", 1, (int64_t[]){-1});
  add(&g, "Shape", "x", "s");
  add_axis(&g, "Gather", "s zero", "d", 0);
  add_axis(&g, "Concat", "d rest", "t", 0);
  add(&g, "Neg", "x", "n");
  add(&g, "Reshape", "n t", "y");
  return g;
}

static void test_symbols_stay(void **state) {
  (void)state;
  lw_imported m;
  import(reshape_graph("batch 3 4"), &m);
  assert_shape(&m, "[batch, 12]");
  assert_int_equal(count_op(&m.graph, LW_OP_CONST), 0);
  assert_int_equal(count_op(&m.graph, LW_OP_GATHER), 0);
  imported_end(&m);
  import(reshape_graph("2 3 s0*2"), &m);
  assert_shape(&m, "[2, 6*s0]");
  imported_end(&m);
}

static void test_dim_option(void **state) {
  (void)state;
  lw_imported m;
  const char *names[] = {"batch"};
  int64_t values[] = {5};
  lw_import_options options = {.dim_names = names, .dim_values = values, .dim_count = 1};
  import_with(reshape_graph("batch 3 4"), &options, &m);
  assert_shape(&m, "[5, 12]");
  imported_end(&m);
  import_with(reshape_graph("batch*2 3 4"), &options, &m);
  assert_shape(&m, "[10, 12]");
  imported_end(&m);
  import_with(reshape_graph("n 3 4"), &options, &m);
  assert_int_equal(m.status, LW_STATUS_USAGE);
  assert_non_null(strstr(first_error(&m), "--dim batch=5"));
  imported_end(&m);
}

static void test_shape_option(void **state) {
  (void)state;
  lw_imported m;
  const char *names[] = {"x"}, *dims[] = {"batch"}, *wrong[] = {"q"};
  lw_shape shape = lw__shape_of(3, (int64_t[]){5, 3, 4}),
           other = lw__shape_of(3, (int64_t[]){5, 3, 5});
  int64_t six = 6;
  lw_import_options options = {.shape_names = names, .shapes = &shape, .shape_count = 1};
  import_with(reshape_graph("batch 3 4"), &options, &m);
  assert_shape(&m, "[5, 12]");
  imported_end(&m);
  options.shapes = &other; /* a dimension that the model fixes */
  import_with(reshape_graph("batch 3 4"), &options, &m);
  assert_int_equal(m.status, LW_STATUS_USAGE);
  imported_end(&m);
  import_with(reshape_graph("batch 3 batch"), &options, &m); /* one symbol, equal numbers */
  assert_shape(&m, "[5, 15]");
  imported_end(&m);
  options.shapes = &shape; /* one symbol, two numbers */
  import_with(reshape_graph("batch 3 batch"), &options, &m);
  assert_int_equal(m.status, LW_STATUS_USAGE);
  imported_end(&m);
  options.dim_names = dims;
  options.dim_values = &six;
  options.dim_count = 1;
  import_with(reshape_graph("batch 3 4"), &options, &m);
  assert_int_equal(m.status, LW_STATUS_USAGE);
  assert_non_null(strstr(first_error(&m), "--dim batch=6"));
  assert_non_null(strstr(first_error(&m), "--shape x=[5, 3, 4]"));
  imported_end(&m);
  options.dim_count = 0;
  options.shape_names = wrong;
  import_with(reshape_graph("batch 3 4"), &options, &m);
  assert_int_equal(m.status, LW_STATUS_USAGE);
  imported_end(&m);
}

static void test_value_option(void **state) {
  (void)state;
  static const int64_t integers[] = {6, 2};
  static const double floats[] = {6, 2};
  lw_imported m;
  lw_import_fixed fixed = {"s", integers, floats, 2};
  lw_import_options options = {.fixed = &fixed, .fixed_count = 1};
  const char *const dims[] = {"2", "n", "?"}; /* of the shape: a number, a symbol, nothing */
  for (size_t i = 0; i < LW_ARRAY_COUNT(dims); i++) {
    lw_text g = graph_of("3 4", "y");
    pb_part(&g, 11, pb_value("s", 7, dims[i]));
    add(&g, "Reshape", "x s", "y");
    import_with(g, &options, &m);
    assert_shape(&m, "[6, 2]");
    assert_int_equal(m.graph.inputs.count, 1); /* it is one no longer */
    imported_end(&m);
  }
  lw_text g = graph_of("3 4", "y");
  pb_part(&g, 11, pb_value("s", 7, "3"));
  add(&g, "Reshape", "x s", "y");
  import_with(g, &options, &m);
  assert_int_equal(m.status, LW_STATUS_USAGE);
  assert_non_null(strstr(first_error(&m), "--value s: 2 numbers were given, its shape is [3]"));
  imported_end(&m);
  fixed.name = "q";
  import_with(reshape_graph("batch 3 4"), &options, &m);
  assert_int_equal(m.status, LW_STATUS_USAGE);
  assert_non_null(strstr(first_error(&m), "--value q: the model has no input of that name"));
  imported_end(&m);
}

static void test_symbol_that_must_be_a_number(void **state) {
  (void)state;
  lw_imported m;
  lw_text g = graph_of("batch 3", "y"); /* the device would need the number */
  add(&g, "Shape", "x", "s");
  lw_text cast = pb_node("Cast", "s", "f");
  pb_attr_int(&cast, "to", 1);
  pb_part(&g, 1, cast);
  add_ints(&g, "one", 1, (int64_t[]){1});
  add_axis(&g, "Gather", "f one", "three", 0);
  add_ints(&g, "zero", 1, (int64_t[]){0});
  add_axis(&g, "Gather", "f zero", "n", 0);
  add(&g, "Mul", "x three", "t");
  add(&g, "Mul", "t n", "y");
  import(g, &m);
  assert_int_equal(m.status, LW_STATUS_USAGE);
  assert_non_null(strstr(first_error(&m), "--dim batch=N"));
  imported_end(&m);
  g = graph_of("batch 3", "y");
  lw_text split = pb_node("Split", "x", "y z");
  pb_part(&g, 1, split);
  import(g, &m);
  assert_int_equal(m.status, LW_STATUS_USAGE);
  assert_non_null(strstr(first_error(&m), "--dim batch=N"));
  imported_end(&m);
}

static void test_data_dependent_shape(void **state) {
  (void)state;
  lw_imported m;
  lw_text g = graph_of("2", "y"), cast = pb_node("Cast", "x", "s");
  pb_attr_int(&cast, "to", 7);
  pb_part(&g, 1, cast);
  add(&g, "Reshape", "x s", "y");
  import(g, &m);
  assert_int_equal(m.status, LW_STATUS_UNSUPPORTED);
  assert_non_null(strstr(first_error(&m), "computed from data"));
  imported_end(&m);
}

/* A size that depends on data: the largest one, and a count. */
static void test_bounded(void **state) {
  (void)state;
  static const int64_t turn[] = {0};
  lw_imported m;
  lw_text g = graph_of("2 3", "y");
  add(&g, "NonZero", "x", "z");
  add(&g, "Transpose", "z", "y");
  import(g, &m);
  assert_shape(&m, "[6, 2]");
  assert_int_equal(m.graph.outputs.count, 2);
  assert_string_equal(m.graph.output_names.data[1], "y#0");
  assert_int_equal(output_shape(&m, 1)->rank, 0);
  imported_end(&m);

  g = graph_of("2 3", "y"); /* its shape is data */
  add(&g, "NonZero", "x", "z");
  add(&g, "Shape", "z", "y");
  import(g, &m);
  assert_shape(&m, "[2]");
  assert_int_equal(m.graph.outputs.count, 1);
  assert_int_not_equal(lw__producer(&m.graph, m.graph.outputs.data[0])->op, LW_OP_CONST);
  imported_end(&m);

  g = graph_of("2 3", "y"); /* rows keep apart */
  add_ints(&g, "rows", 1, turn);
  add(&g, "NonZero", "x", "z");
  add_axis(&g, "Gather", "z rows", "y", 0);
  import(g, &m);
  assert_shape(&m, "[1, 6]");
  assert_string_equal(m.graph.output_names.data[1], "y#1");
  imported_end(&m);

  g = graph_of("2 3", "y"); /* entries that do not count must not be mixed in */
  add(&g, "NonZero", "x", "z");
  add(&g, "ReduceSum", "z", "y");
  import(g, &m);
  assert_int_equal(m.status, LW_STATUS_UNSUPPORTED);
  assert_non_null(strstr(first_error(&m), "depends on data"));
  imported_end(&m);
}

static void test_anonymous_dims(void **state) {
  (void)state;
  lw_imported m;
  import(reshape_graph("? 3 4"), &m);
  assert_shape(&m, "[x_dim0, 12]");
  imported_end(&m);
  import(reshape_graph("b//(2+ 3 4"), &m); /* no expression: a name as it is */
  assert_int_equal(m.status, LW_OK);
  imported_end(&m);
}

/* ---- branches and functions -----------------------------------------------------------------*/

static lw_text branch(const char *op, const char *in, const char *out) {
  lw_text g = {0}, result = {0};
  add(&g, op, in, out);
  pb_str(&result, 1, out);
  pb_part(&g, 12, result);
  return g;
}

static void test_if(void **state) {
  (void)state;
  for (int taken = 0; taken < 2; taken++) {
    lw_imported m;
    char cond = (char)taken;
    lw_text g = graph_of("2", "y"), node = pb_node("If", "c", "y");
    pb_part(&g, 5, pb_tensor("c", LW_PROTO_BOOL, &cond, 1, 0));
    pb_attr_graph(&node, "then_branch", branch("Exp", "x", "b"));
    pb_attr_graph(&node, "else_branch", branch("Frobnicate", "x", "b"));
    pb_part(&g, 1, node);
    import(g, &m);
    assert_int_equal(m.status, taken ? LW_OK : LW_STATUS_UNSUPPORTED);
    if (taken)
      assert_int_equal(lw__producer(&m.graph, m.graph.outputs.data[0])->attr.fn, LW_FN_EXP);
    imported_end(&m);
  }
}

/* A condition that is data: both branches are computed. */
static void test_if_on_data(void **state) {
  (void)state;
  lw_imported m;
  lw_text g = graph_of("2", "y"), node = pb_node("If", "c", "y");
  pb_part(&g, 11, pb_value("c", LW_PROTO_BOOL, ""));
  pb_attr_graph(&node, "then_branch", branch("Exp", "x", "b"));
  pb_attr_graph(&node, "else_branch", branch("Neg", "x", "b"));
  pb_part(&g, 1, node);
  import(g, &m);
  assert_int_equal(m.status, LW_OK);
  assert_int_equal(lw__producer(&m.graph, m.graph.outputs.data[0])->attr.fn, LW_FN_SELECT);
  imported_end(&m);
  g = graph_of("2", "y");
  node = pb_node("If", "c", "y");
  pb_part(&g, 11, pb_value("c", LW_PROTO_BOOL, ""));
  pb_attr_graph(&node, "then_branch", branch("Exp", "x", "b"));
  pb_attr_graph(&node, "else_branch", branch("Shape", "x", "b"));
  pb_part(&g, 1, node);
  import(g, &m);
  assert_int_equal(m.status, LW_STATUS_UNSUPPORTED);
  imported_end(&m);
}

/* A model with function F of domain "local" whose body is |node| (and maybe a call of itself). */
static void import_function(lw_text body, const char *call_attr, int64_t value, lw_imported *out) {
  lw_text g = graph_of("2 3", "y"), node = pb_node("F", "x", "y"), function = {0}, import_ = {0},
          model;
  pb_str(&node, 7, "local");
  if (call_attr != NULL) pb_attr_int(&node, call_attr, value);
  pb_part(&g, 1, node);
  pb_str(&function, 1, "F");
  pb_str(&function, 10, "local");
  pb_str(&function, 4, "a");
  pb_str(&function, 4, "left_out");
  pb_str(&function, 5, "r");
  pb_str(&function, 6, "axis");
  pb_part(&function, 7, body);
  pb_int(&import_, 2, 13);
  pb_part(&function, 9, import_);
  model = pb_model(g, 17);
  pb_part(&model, 25, function);
  *out = (lw_imported){.model = model};
  out->status =
      lw__onnx_import_bytes(model.data, model.len, "m.onnx", NULL, NULL, &out->diag, &out->graph);
}

static lw_text body_with_ref(const char *op) {
  lw_text node = pb_node(op, "a", "r"), attr = {0};
  pb_str(&attr, 1, "axis");
  pb_str(&attr, 21, "axis");
  pb_int(&attr, 20, 2);
  pb_part(&node, 5, attr);
  return node;
}

static void test_function(void **state) {
  (void)state;
  lw_imported m;
  import_function(body_with_ref("Softmax"), "axis", 0, &m);
  assert_int_equal(m.status, LW_OK);
  for (uint32_t n = 0; n < m.graph.nodes.count; n++) {
    if (lw__node(&m.graph, n)->op == LW_OP_REDUCE)
      assert_int_equal(lw__node(&m.graph, n)->attr.reduce.axes, 1);
  }
  imported_end(&m);
  import_function(body_with_ref("Softmax"), NULL, 0,
                  &m); /* the attribute is left out: the default -1 */
  assert_int_equal(m.status, LW_OK);
  for (uint32_t n = 0; n < m.graph.nodes.count; n++) {
    if (lw__node(&m.graph, n)->op == LW_OP_REDUCE)
      assert_int_equal(lw__node(&m.graph, n)->attr.reduce.axes, 2);
  }
  imported_end(&m);
  import_function(pb_node("Add", "a left_out", "r"), NULL, 0, &m);
  assert_int_equal(m.status, LW_STATUS_MODEL_INVALID);
  imported_end(&m);
  import_function(pb_node("Neg", "x", "r"), NULL, 0, &m); /* names of the caller are not visible */
  assert_int_equal(m.status, LW_STATUS_MODEL_INVALID);
  imported_end(&m);
  lw_text self = pb_node("F", "a", "r");
  pb_str(&self, 7, "local");
  import_function(self, NULL, 0, &m);
  assert_int_equal(m.status, LW_STATUS_UNSUPPORTED);
  imported_end(&m);
}

/* Thirty functions, each of which calls the next one twice: 2^30 nodes from a kilobyte. */
static void test_function_bomb(void **state) {
  (void)state;
  lw_text g = graph_of("2", "y"), node = pb_node("F0", "x", "y"), model;
  pb_str(&node, 7, "local");
  pb_part(&g, 1, node);
  model = pb_model(g, 17);
  for (int i = 0; i < 30; i++) {
    char name[8], next[8];
    lw_text function = {0}, one, two;
    snprintf(name, sizeof name, "F%d", i);
    snprintf(next, sizeof next, "F%d", i + 1);
    pb_str(&function, 1, name);
    pb_str(&function, 10, "local");
    pb_str(&function, 4, "a");
    pb_str(&function, 5, "r");
    one = pb_node(i == 29 ? "Neg" : next, "a", "t");
    two = pb_node(i == 29 ? "Neg" : next, "t", "r");
    if (i != 29) {
      pb_str(&one, 7, "local");
      pb_str(&two, 7, "local");
    }
    pb_part(&function, 7, one);
    pb_part(&function, 7, two);
    pb_part(&model, 25, function);
  }
  lw_diag diag = {0};
  lw_graph graph;
  lw_import_limits limits = {.nodes = 20000, .table_elements = 1000};
  assert_int_equal(lw__onnx_import_bytes(model.data, model.len, "m", NULL, &limits, &diag, &graph),
                   LW_STATUS_UNSUPPORTED);
  lw__diag_deinit(&diag);
  lw__text_deinit(&model);
}

/* ---- memory ---------------------------------------------------------------------------------*/

/* Every allocation fails once: an error, never a crash. */
static void test_out_of_memory(void **state) {
  (void)state;
  lw_text model = pb_model(reshape_graph("batch 3 4"), 17);
  bool done = false;
  for (uint64_t n = 1; n < 2000 && !done; n++) {
    lw_diag diag = {0};
    lw_graph graph;
    lw__mem_fail_at(n);
    lw_status status = lw__onnx_import_bytes(model.data, model.len, "m", NULL, NULL, &diag, &graph);
    lw__mem_fail_at(0);
    done = status == LW_OK;
    if (!done) assert_int_equal(status, LW_STATUS_OUT_OF_MEMORY);
    if (done) lw__graph_deinit(&graph);
    lw__diag_deinit(&diag);
  }
  assert_true(done);
  lw__text_deinit(&model);
}

int main(void) {
  const struct CMUnitTest tests[] = {
      cmocka_unit_test(test_table_is_sorted),
      cmocka_unit_test(test_names_and_provenance),
      cmocka_unit_test(test_bad_names),
      cmocka_unit_test(test_message_names_the_node),
      cmocka_unit_test(test_initializer_that_is_an_input),
      cmocka_unit_test(test_input_and_constant_as_outputs),
      cmocka_unit_test(test_all_unsupported_are_listed),
      cmocka_unit_test(test_symbols_stay),
      cmocka_unit_test(test_dim_option),
      cmocka_unit_test(test_shape_option),
      cmocka_unit_test(test_value_option),
      cmocka_unit_test(test_symbol_that_must_be_a_number),
      cmocka_unit_test(test_data_dependent_shape),
      cmocka_unit_test(test_bounded),
      cmocka_unit_test(test_anonymous_dims),
      cmocka_unit_test(test_if),
      cmocka_unit_test(test_if_on_data),
      cmocka_unit_test(test_function),
      cmocka_unit_test(test_function_bomb),
      cmocka_unit_test(test_out_of_memory),
  };
  return cmocka_run_group_tests(tests, NULL, NULL);
}

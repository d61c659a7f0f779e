/* test_verify.c: each way to break a graph is noticed and named. */
#include "graph_kit.h"

typedef struct broken {
  kit k;
  lw_value_id x, table, sum, moved, window;
} broken;

static void open_sound(broken *b) {
  kit *k = &b->k;
  float data[6] = {0};
  lw_shape shape = SHAPE(2, 3);
  kit_open(k);
  b->x = kit_input_of(k, LW_DTYPE_F32, SHAPE(2, 3, kit_symbol(k, "n")));
  OK(k, lw__graph_const_copy(&k->g, LW_DTYPE_F32, &shape, data, &b->table));
  OK(k, lw__graph_reduce(&k->g, LW_RED_SUM, b->x, 4, &b->sum));
  OK(k, lw__graph_map(&k->g, LW_FN_ADD, (lw_value_id[]){b->sum, b->table}, &b->sum));
  OK(k, lw__graph_permute(&k->g, b->sum, (uint8_t[]){1, 0}, &b->moved));
  OK(k, lw__graph_window(&k->g, b->moved, 1, (uint8_t[]){0}, (int64_t[]){2}, (int64_t[]){1},
                         (int64_t[]){1}, &b->window));
  OK(k, lw__graph_output(&k->g, b->window, "y"));
  OK(k, lw__graph_verify(&k->g, &k->diag));
}

#define VALUE(b, v) lw__value(&(b)->k.g, (b)->v)
#define NODE(b, v) lw__producer(&(b)->k.g, (b)->v)

static void operand_is_no_value(broken *b) {
  b->k.g.operands.data[NODE(b, moved)->operand_begin] = 77;
}
static void operand_is_later(broken *b) {
  b->k.g.operands.data[NODE(b, moved)->operand_begin] = b->window;
}
static void operand_is_itself(broken *b) {
  b->k.g.operands.data[NODE(b, moved)->operand_begin] = b->moved;
}
static void operands_beyond_array(broken *b) { NODE(b, moved)->operand_begin = UINT32_MAX; }
static void operand_is_dead(broken *b) { NODE(b, table)->dead = true; }
static void too_few_operands(broken *b) { NODE(b, sum)->operand_count = 1; }
static void no_operands(broken *b) { NODE(b, moved)->operand_count = 0; }
static void result_is_no_value(broken *b) { NODE(b, moved)->result = 1000; }
static void result_of_other(broken *b) { NODE(b, moved)->result = b->sum; }
static void producer_is_no_node(broken *b) { VALUE(b, moved)->producer = 1000; }
static void producer_is_other(broken *b) { VALUE(b, moved)->producer = 0; }
static void no_operator(broken *b) { NODE(b, moved)->op = LW_OP_COUNT; }
static void no_function(broken *b) { NODE(b, sum)->attr.fn = LW_FN_COUNT; }
static void other_arity(broken *b) { NODE(b, sum)->attr.fn = LW_FN_EXP; }
static void wrong_domain(broken *b) { NODE(b, sum)->attr.fn = LW_FN_BITAND; }
static void wrong_type(broken *b) { VALUE(b, window)->dtype = LW_DTYPE_F16; }
static void no_type(broken *b) { VALUE(b, window)->dtype = LW_DTYPE_NONE; }
static void wrong_dim(broken *b) { VALUE(b, window)->shape.dim[0] = 7; }
static void wrong_rank(broken *b) { VALUE(b, moved)->shape.rank = 1; }
static void rank_too_large(broken *b) { VALUE(b, moved)->shape.rank = 13; }
static void dim_is_no_extent(broken *b) { VALUE(b, moved)->shape.dim[0] = -99; }
static void symbol_for_number(broken *b) {
  VALUE(b, moved)->shape.dim[0] = VALUE(b, x)->shape.dim[2];
}
static void order_repeats(broken *b) { VALUE(b, moved)->storage.order[0] = 1; }
static void order_beyond(broken *b) { VALUE(b, moved)->storage.order[0] = 200; }
static void data_too_short(broken *b) { NODE(b, table)->attr.constant.bytes = 20; }
static void data_missing(broken *b) { NODE(b, table)->attr.constant.data = NULL; }
static void bad_perm(broken *b) { NODE(b, moved)->attr.perm[0] = 0; }
static void bad_window(broken *b) { NODE(b, window)->attr.window.count = 9; }
static void input_unlisted(broken *b) { b->k.g.inputs.count = 0; }
static void input_is_no_input(broken *b) { b->k.g.inputs.data[0] = b->sum; }
static void input_is_no_value(broken *b) { b->k.g.inputs.data[0] = 999; }
static void input_is_dead(broken *b) { NODE(b, x)->dead = true; }
static void input_twice(broken *b) { assert_int_equal(lw_vec_push(&b->k.g.inputs, b->x), LW_OK); }
static void output_is_no_value(broken *b) { b->k.g.outputs.data[0] = 999; }
static void output_is_dead(broken *b) { NODE(b, window)->dead = true; }
static void output_without_name(broken *b) { b->k.g.output_names.data[0] = NULL; }
static void fewer_names(broken *b) { b->k.g.output_names.count = 0; }
static void extent_of_later(broken *b) {
  lw_extent e = 0;
  OK(&b->k, lw__extent_affine(&b->k.g, VALUE(b, x)->shape.dim[2], 2, 0, &e));
  b->k.g.extents.nodes.data[~e].a = -50;
}
static void extent_of_no_range(broken *b) { b->k.g.extents.nodes.data[0].lo = INT64_MAX; }

typedef struct breakage {
  void (*apply)(broken *b);
  const char *message;
} breakage;

static void test_every_breakage(void **state) {
  (void)state;
  const breakage all[] = {
      {operand_is_no_value, "operand 0 is no value"},
      {operand_is_later, "computed later"},
      {operand_is_itself, "computed later"},
      {operands_beyond_array, "operands out of range"},
      {operand_is_dead, "comes from a dead node"},
      {too_few_operands, "takes 2 operands, not 1"},
      {no_operands, "0 operands"},
      {result_is_no_value, "its producer has another result"},
      {result_of_other, "its producer has another result"},
      {producer_is_no_node, "its producer has another result"},
      {producer_is_other, "its producer has another result"},
      {no_operator, "no such operator"},
      {no_function, "no such operator"},
      {other_arity, "takes 1 operands, not 2"},
      {wrong_domain, "not defined for f32"},
      {wrong_type, "is f16 but should be f32"},
      {no_type, "no type"},
      {wrong_dim, "is [7, 2, 2] but should be [2, 2, 2]"},
      {wrong_rank, "but should be [3, 2]"},
      {rank_too_large, "rank 13"},
      {dim_is_no_extent, "is no extent"},
      {symbol_for_number, "is [n, 2] but should be [3, 2]"},
      {order_repeats, "storage order"},
      {order_beyond, "storage order"},
      {data_too_short, "20 bytes of data"},
      {data_missing, "24 bytes of data"},
      {bad_perm, "not a permutation"},
      {bad_window, "9 windows"},
      {input_unlisted, "an input that is not listed"},
      {input_is_no_input, "no living input node"},
      {input_is_no_value, "input 0 is no value"},
      {input_is_dead, "no living input node"},
      {input_twice, "listed twice"},
      {output_is_no_value, "output 0 is no value"},
      {output_is_dead, "output 0 comes from a dead node"},
      {output_without_name, "output 0 has no name"},
      {fewer_names, "1 outputs, 0 names"},
      {extent_of_later, "no earlier extent"},
      {extent_of_no_range, "impossible range"},
  };
  for (size_t i = 0; i < LW_ARRAY_COUNT(all); i++) {
    broken b;
    open_sound(&b);
    all[i].apply(&b);
    lw_status status = lw__graph_verify(&b.k.g, &b.k.diag);
    const char *text = lw__diag_first_error(&b.k.diag);
    if (status != LW_STATUS_INTERNAL || strstr(text, all[i].message) == NULL) {
      fail_msg("breakage %zu: expected '%s', got %s '%s'", i, all[i].message,
               lw_status_name(status), text);
    }
    assert_int_equal(b.k.diag.messages.count, 1);
    kit_close(&b.k);
  }
}

/* Verification writes nothing, not even into the table of extents. */
static void test_reads_only(void **state) {
  (void)state;
  broken b;
  open_sound(&b);
  uint32_t extents = b.k.g.extents.nodes.count;
  for (int i = 0; i < 3; i++) OK(&b.k, lw__graph_verify(&b.k.g, &b.k.diag));
  assert_int_equal(b.k.g.extents.nodes.count, extents);
  assert_int_equal(lw__graph_verify(&b.k.g, NULL), LW_OK);
  kit_close(&b.k);
}

static void test_dead_nodes_are_left_alone(void **state) {
  (void)state;
  kit k;
  kit_open(&k);
  lw_value_id x = INPUT(&k, F32, 2), y = LW_NONE;
  OK(&k, lw__graph_map(&k.g, LW_FN_EXP, &x, &y));
  OK(&k, lw__graph_map(&k.g, LW_FN_LOG, &y, &y));
  lw__value(&k.g, y)->shape.dim[0] = 3;
  lw__producer(&k.g, y)->dead = true;
  OK(&k, lw__graph_verify(&k.g, &k.diag));
  kit_close(&k);
}

static void test_no_memory(void **state) {
  (void)state;
  broken b;
  open_sound(&b);
  lw_status status = LW_STATUS_OUT_OF_MEMORY;
  for (uint64_t n = 1; status != LW_OK; n++) {
    lw__mem_fail_at(n);
    status = lw__graph_verify(&b.k.g, &b.k.diag);
    lw__mem_fail_at(0);
    assert_true(status == LW_OK || status == LW_STATUS_OUT_OF_MEMORY);
  }
  kit_close(&b.k);
}

int main(void) {
  const struct CMUnitTest tests[] = {
      cmocka_unit_test(test_every_breakage),
      cmocka_unit_test(test_reads_only),
      cmocka_unit_test(test_dead_nodes_are_left_alone),
      cmocka_unit_test(test_no_memory),
  };
  return cmocka_run_group_tests(tests, NULL, NULL);
}

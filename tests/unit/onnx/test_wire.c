/* test_wire.c: the protobuf reader on good and bad bytes, and the messages it fills. */
#include <setjmp.h>
#include <stdarg.h>
#include <stdlib.h>
#include <stddef.h>

#include <cmocka.h>

#include "compiler/onnx/proto.h"
#include "compiler/onnx/wire.h"
#include "writer.h"

#define BYTES(...) lw__str((const char[]){__VA_ARGS__}, sizeof((const char[]){__VA_ARGS__}))

static const char *read_error(lw_str bytes) {
  lw_wire wire = lw__wire_of(bytes);
  lw_wire_field f;
  while (lw__wire_next(&wire, &f)) {
  }
  return wire.error;
}

static void test_fields(void **state) {
  (void)state;
  lw_str bytes = BYTES(0x08, (char)0x96, 0x01, 0x12, 0x02, 'h', 'i', 0x1d, 1, 0, 0, 0, 0x21, 2, 0,
                       0, 0, 0, 0, 0, 0);
  lw_wire wire = lw__wire_of(bytes);
  lw_wire_field f;
  assert_true(lw__wire_next(&wire, &f));
  assert_int_equal(f.number, 1);
  assert_int_equal(f.value, 150);
  assert_true(lw__wire_next(&wire, &f));
  assert_true(lw__str_is(f.bytes, "hi"));
  assert_true(lw__wire_next(&wire, &f));
  assert_int_equal(f.type, LW_WIRE_FIXED32);
  assert_int_equal(f.value, 1);
  assert_true(lw__wire_next(&wire, &f));
  assert_int_equal(f.type, LW_WIRE_FIXED64);
  assert_int_equal(f.value, 2);
  assert_false(lw__wire_next(&wire, &f));
  assert_null(wire.error);
}

static void test_malformed(void **state) {
  (void)state;
  assert_null(read_error(lw__str(NULL, 0)));
  assert_non_null(read_error(BYTES(0x08)));             /* no value */
  assert_non_null(read_error(BYTES(0x08, (char)0x80))); /* cut number */
  assert_non_null(read_error(BYTES(0x00, 0x01)));       /* field 0 */
  assert_non_null(read_error(BYTES(0x0b)));             /* group */
  assert_non_null(read_error(BYTES(0x0e)));             /* wire type 6 */
  assert_non_null(read_error(BYTES(0x12, 0x05, 'a')));  /* length past the end */
  assert_non_null(read_error(BYTES(0x1d, 1, 2, 3)));    /* cut fixed32 */
  assert_non_null(
      read_error(BYTES(0x12, -1, -1, -1, -1, -1, -1, -1, -1, -1, 1))); /* length 2^64-1 */
  assert_non_null(read_error(BYTES(0x08, -1, -1, -1, -1, -1, -1, -1, -1, -1, 2))); /* 65 bits */
  assert_non_null(
      read_error(BYTES(-1, -1, -1, -1, -1, -1, -1, -1, -1, 1, 0))); /* tag beyond 32 bits */
  assert_null(read_error(BYTES(0x08, -1, -1, -1, -1, -1, -1, -1, -1, -1, 1))); /* -1 */
}

static void read_tensor(lw_text *text, lw_arena *arena, lw_status want, lw_proto_tensor *out) {
  lw_diag diag = {0};
  assert_int_equal(lw__proto_read_tensor(lw__str(text->data, text->len), "t", arena, &diag, out),
                   want);
  assert_int_equal(diag.messages.count == 0, want == LW_OK);
  lw__diag_deinit(&diag);
}

static void test_packed_and_unpacked(void **state) {
  (void)state;
  lw_text text = {0};
  lw_arena arena = {0};
  lw_proto_tensor t;
  pb_int(&text, 1, 2);
  pb_bytes(&text, 1, "\x03\x04", 2);
  pb_int(&text, 1, -1);
  read_tensor(&text, &arena, LW_OK, &t);
  assert_int_equal(t.rank, 4);
  assert_int_equal(t.dims[0], 2);
  assert_int_equal(t.dims[1], 3);
  assert_int_equal(t.dims[2], 4);
  assert_int_equal(t.dims[3], -1);
  lw__text_clear(&text);
  pb_bytes(&text, 1, "\x03\x84", 2); /* a cut varint inside the packed bytes */
  read_tensor(&text, &arena, LW_STATUS_MODEL_INVALID, &t);
  lw__arena_deinit(&arena);
  lw__text_deinit(&text);
}

static void test_last_one_wins_and_unknown(void **state) {
  (void)state;
  lw_text text = {0};
  lw_arena arena = {0};
  lw_proto_tensor t;
  pb_str(&text, 8, "first");
  pb_int(&text, 999, 7); /* unknown field */
  pb_int(&text, 8, 7);   /* known field of another wire type */
  pb_int(&text, 2, 1);
  pb_str(&text, 8, "second");
  pb_int(&text, 2, 7);
  read_tensor(&text, &arena, LW_OK, &t);
  assert_true(lw__str_is(t.name, "second"));
  assert_int_equal(t.data_type, 7);
  lw__arena_deinit(&arena);
  lw__text_deinit(&text);
}

static void test_merged_graph(void **state) {
  (void)state;
  lw_text model = {0}, one = {0}, two = {0};
  lw_arena arena = {0};
  lw_proto_model m;
  pb_str(&one, 2, "a");
  pb_part(&one, 1, pb_node("Neg", "x", "y"));
  pb_str(&two, 2, "b");
  pb_part(&two, 1, pb_node("Abs", "y", "z"));
  pb_part(&model, 7, one);
  pb_part(&model, 7, two);
  assert_int_equal(lw__proto_read_model(lw__str(model.data, model.len), "m", &arena, NULL, &m),
                   LW_OK);
  assert_int_equal(m.graph.nodes.count, 2);
  assert_true(lw__str_is(m.graph.name, "b"));
  assert_true(lw__str_is(m.graph.nodes.data[1].op_type, "Abs"));
  lw__arena_deinit(&arena);
  lw__text_deinit(&model);
}

static lw_text nested(int depth) {
  lw_text graph = {0};
  for (int i = 0; i < depth; i++) {
    lw_text node = pb_node("If", "c", "y"), outer = {0};
    pb_attr_graph(&node, "then_branch", graph);
    pb_part(&outer, 1, node);
    graph = outer;
  }
  lw_text model = {0};
  pb_part(&model, 7, graph);
  return model;
}

static void test_depth(void **state) {
  (void)state;
  static const struct {
    int depth;
    lw_status want;
  } cases[] = {{0, LW_OK},
               {40, LW_OK},
               {LW_PROTO_DEPTH_MAX - 1, LW_OK},
               {LW_PROTO_DEPTH_MAX, LW_STATUS_UNSUPPORTED},
               {5000, LW_STATUS_UNSUPPORTED}};
  for (size_t i = 0; i < LW_ARRAY_COUNT(cases); i++) {
    lw_arena arena = {0};
    lw_proto_model m;
    lw_text model = nested(cases[i].depth);
    assert_int_equal(lw__proto_read_model(lw__str(model.data, model.len), "m", &arena, NULL, &m),
                     cases[i].want);
    lw__arena_deinit(&arena);
    lw__text_deinit(&model);
  }
}

/* Memory follows what is there, not what is claimed. */
static void test_memory_is_linear(void **state) {
  (void)state;
  lw_arena arena = {0};
  lw_proto_tensor t;
  lw_text text = {0};
  pb_int(&text, 1, INT64_MAX);
  pb_int(&text, 1, INT64_MAX);
  pb_int(&text, 2, 1);
  read_tensor(&text, &arena, LW_OK, &t);
  assert_true(arena.used_bytes < 4096);
  lw__arena_deinit(&arena);
  lw__text_deinit(&text);
}

static void test_attribute_type_is_filled_in(void **state) {
  (void)state;
  lw_arena arena = {0};
  lw_proto_model m;
  lw_text attr = {0}, node = pb_node("Neg", "x", "y"), graph = {0}, model = {0};
  pb_str(&attr, 1, "axis");
  pb_int(&attr, 3, -2);
  pb_part(&node, 5, attr);
  pb_part(&graph, 1, node);
  pb_part(&model, 7, graph);
  assert_int_equal(lw__proto_read_model(lw__str(model.data, model.len), "m", &arena, NULL, &m),
                   LW_OK);
  assert_int_equal(m.graph.nodes.data[0].attrs.data[0].type, LW_ATTR_INT);
  assert_int_equal(m.graph.nodes.data[0].attrs.data[0].i, -2);
  lw__arena_deinit(&arena);
  lw__text_deinit(&model);
}

int main(void) {
  const struct CMUnitTest tests[] = {
      cmocka_unit_test(test_fields),
      cmocka_unit_test(test_malformed),
      cmocka_unit_test(test_packed_and_unpacked),
      cmocka_unit_test(test_last_one_wins_and_unknown),
      cmocka_unit_test(test_merged_graph),
      cmocka_unit_test(test_depth),
      cmocka_unit_test(test_memory_is_linear),
      cmocka_unit_test(test_attribute_type_is_filled_in),
  };
  return cmocka_run_group_tests(tests, NULL, NULL);
}

/* test_tensor.c: TensorProto to constant: every storage form of every type, sizes that lie,
 * external files. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdio.h>
#include <stdlib.h>
#include <unistd.h>

#include <cmocka.h>

#include "compiler/onnx/tensor.h"
#include "writer.h"

typedef struct fixture {
  lw_graph graph;
  lw_diag diag;
  lw_arena arena;
  lw_tensor_files files;
  char dir[64];
} fixture;

static int setup(void **state) {
  fixture *f = calloc(1, sizeof *f);
  assert_non_null(f);
  assert_int_equal(lw__graph_init(&f->graph, &f->diag), LW_OK);
  f->files.graph = &f->graph;
  strcpy(f->dir, "/tmp/lw_onnx_XXXXXX");
  assert_non_null(mkdtemp(f->dir));
  f->files.dir = f->dir;
  *state = f;
  return 0;
}

static int teardown(void **state) {
  fixture *f = *state;
  char path[96];
  snprintf(path, sizeof path, "%s/data", f->dir);
  unlink(path);
  rmdir(f->dir);
  lw__tensor_files_deinit(&f->files);
  lw__graph_deinit(&f->graph);
  lw__diag_deinit(&f->diag);
  lw__arena_deinit(&f->arena);
  free(f);
  return 0;
}

/* |text| is ended, its bytes live on in the fixture. */
static lw_status load(fixture *f, lw_text text, lw_tensor *out) {
  lw_proto_tensor proto;
  const char *reason, *copy;
  assert_int_equal(text.status, LW_OK);
  assert_int_equal(lw__arena_strndup(&f->arena, lw__text_str(&text), text.len, &copy), LW_OK);
  assert_int_equal(lw__proto_read_tensor(lw__str(copy, text.len), "t", &f->arena, &f->diag, &proto),
                   LW_OK);
  lw__text_deinit(&text);
  return lw__tensor_load(&f->files, &proto, "t", &reason, out);
}

static void test_raw_is_in_place(void **state) {
  fixture *f = *state;
  float data[3] = {1, 2, 3};
  lw_tensor t;
  assert_int_equal(load(f, pb_tensor("w", LW_PROTO_FLOAT, data, sizeof data, 1, 3), &t), LW_OK);
  assert_int_equal(t.dtype, LW_DTYPE_F32);
  assert_int_equal(t.shape.dim[0], 3);
  assert_memory_equal(t.data, data, sizeof data);
  assert_int_equal(f->graph.arena.used_bytes, 0);
}

static lw_text typed(int64_t type, int count) {
  lw_text t = {0};
  pb_int(&t, 1, count);
  pb_int(&t, 2, type);
  return t;
}

static void test_typed_varints(void **state) {
  fixture *f = *state;
  static const struct {
    int64_t type;
    uint32_t field;
    lw_dtype dtype;
    int64_t values[2], want[2];
  } cases[] = {
      {LW_PROTO_INT8, 5, LW_DTYPE_I8, {-1, 127}, {-1, 127}},
      {LW_PROTO_UINT8, 5, LW_DTYPE_U8, {255, 3}, {255, 3}},
      {LW_PROTO_INT16, 5, LW_DTYPE_I16, {-300, 5}, {-300, 5}},
      {LW_PROTO_UINT16, 5, LW_DTYPE_U16, {65535, 5}, {65535, 5}},
      {LW_PROTO_INT32, 5, LW_DTYPE_I32, {INT32_MIN, 5}, {INT32_MIN, 5}},
      {LW_PROTO_INT64, 7, LW_DTYPE_I64, {INT64_MIN, INT64_MAX}, {INT64_MIN, INT64_MAX}},
      {LW_PROTO_UINT32, 11, LW_DTYPE_U32, {UINT32_MAX, 1}, {UINT32_MAX, 1}},
      {LW_PROTO_UINT64, 11, LW_DTYPE_U64, {-1, 1}, {-1, 1}},
      {LW_PROTO_BOOL, 5, LW_DTYPE_BOOL, {7, 0}, {1, 0}},
      {LW_PROTO_FLOAT16, 5, LW_DTYPE_F16, {0x3c00, 0xc000}, {1, -2}},
      {LW_PROTO_BFLOAT16, 5, LW_DTYPE_BF16, {0x3f80, 0xc000}, {1, -2}},
      {LW_PROTO_FLOAT8E5M2, 5, LW_DTYPE_F8E5M2, {0x3c, 0xc0}, {1, -2}},
  };
  for (size_t i = 0; i < LW_ARRAY_COUNT(cases); i++) {
    for (int packed = 0; packed < 2; packed++) {
      lw_text text = typed(cases[i].type, 2), values = {0};
      for (int k = 0; k < 2; k++) {
        if (packed)
          pb_varint(&values, (uint64_t)cases[i].values[k]);
        else
          pb_int(&text, cases[i].field, cases[i].values[k]);
      }
      if (packed) pb_part(&text, cases[i].field, values);
      lw_tensor t;
      assert_int_equal(load(f, text, &t), LW_OK);
      assert_int_equal(t.dtype, cases[i].dtype);
      for (int k = 0; k < 2; k++) {
        if (lw__dtype_is_float(t.dtype))
          assert_true(lw__elem_get_f64(t.dtype, t.data, k) == (double)cases[i].want[k]);
        else
          assert_true(lw__elem_get_i64(t.dtype, t.data, k) == cases[i].want[k]);
      }
    }
  }
}

static void test_typed_fixed(void **state) {
  fixture *f = *state;
  double d[2] = {1.5, -2};
  lw_text text = typed(LW_PROTO_DOUBLE, 2);
  lw_tensor t;
  pb_bytes(&text, 10, d, sizeof d);
  assert_int_equal(load(f, text, &t), LW_OK);
  assert_memory_equal(t.data, d, sizeof d);
  assert_int_equal(f->graph.arena.used_bytes, 0); /* in place */
  text = typed(LW_PROTO_DOUBLE, 4);
  pb_bytes(&text, 10, d, sizeof d);
  pb_bytes(&text, 10, d, sizeof d);
  assert_int_equal(load(f, text, &t), LW_OK);
  assert_memory_equal((const double *)t.data + 2, d, sizeof d);
  text = typed(LW_PROTO_DOUBLE, 2);
  pb_bytes(&text, 10, d, sizeof d - 1);
  assert_int_equal(load(f, text, &t), LW_STATUS_MODEL_INVALID);
}

static void test_sizes_that_lie(void **state) {
  fixture *f = *state;
  float data[3] = {0};
  lw_tensor t;
  assert_int_equal(load(f, pb_tensor("w", 1, data, 11, 1, 3), &t), LW_STATUS_MODEL_INVALID);
  assert_int_equal(load(f, pb_tensor("w", 1, data, 12, 1, -3), &t), LW_STATUS_MODEL_INVALID);
  assert_int_equal(load(f, pb_tensor("w", 1, data, 12, 2, -3, -1), &t), LW_STATUS_MODEL_INVALID);
  assert_int_equal(load(f, pb_tensor("w", 0, data, 12, 1, 3), &t), LW_STATUS_MODEL_INVALID);
  assert_int_equal(load(f, pb_tensor("w", 999, data, 12, 1, 3), &t), LW_STATUS_MODEL_INVALID);
  assert_int_equal(load(f, pb_tensor("w", LW_PROTO_STRING, data, 12, 1, 3), &t),
                   LW_STATUS_UNSUPPORTED);
  assert_int_equal(load(f, pb_tensor("w", 1, "", 0, 2, 0, 7), &t), LW_OK);
  assert_int_equal(t.bytes, 0);
  lw_text text = typed(LW_PROTO_FLOAT, 1 << 30); /* no data at all */
  assert_int_equal(load(f, text, &t), LW_STATUS_MODEL_INVALID);
  text = typed(LW_PROTO_INT64, 1);
  pb_int(&text, 1, INT64_C(1) << 62); /* the product of bytes wraps */
  pb_int(&text, 1, 2);
  assert_int_equal(load(f, text, &t), LW_STATUS_MODEL_INVALID);
  assert_true(f->graph.arena.used_bytes < 4096);
}

static void test_bools_are_cleaned(void **state) {
  fixture *f = *state;
  lw_tensor t;
  assert_int_equal(load(f, pb_tensor("w", LW_PROTO_BOOL, "\x00\x01\xff", 3, 1, 3), &t), LW_OK);
  assert_memory_equal(t.data, "\x00\x01\x01", 3);
}

static void write_data(fixture *f, size_t bytes) {
  char path[96], data[64];
  for (size_t i = 0; i < sizeof data; i++) data[i] = (char)i;
  snprintf(path, sizeof path, "%s/data", f->dir);
  assert_int_equal(lw__file_write(path, data, bytes, NULL), LW_OK);
}

static lw_text external(int count, const char *location, const char *offset, const char *length) {
  lw_text t = typed(LW_PROTO_UINT8, count);
  const char *keys[3] = {"location", "offset", "length"}, *values[3] = {location, offset, length};
  pb_int(&t, 14, 1);
  for (int k = 0; k < 3; k++) {
    lw_text entry = {0};
    if (values[k] == NULL) continue;
    pb_str(&entry, 1, keys[k]);
    pb_str(&entry, 2, values[k]);
    pb_part(&t, 13, entry);
  }
  return t;
}

static void test_external(void **state) {
  fixture *f = *state;
  static const struct {
    int count;
    const char *location, *offset, *length;
    bool ok;
    int first;
  } cases[] = {
      {4, "data", "3", "4", true, 3},
      {64, "data", NULL, NULL, true, 0},
      {1, "data", "63", NULL, true, 63},
      {0, "data", "64", "0", true, 0},
      {4, "data", "61", "4", false, 0},
      {4, "data", "61", NULL, false, 0},
      {4, "data", "0", "5", false, 0},
      {4, "data", "0", "3", false, 0},
      {4, "data", "65", "0", false, 0},
      {4, "data", "-1", "4", false, 0},
      {4, "data", "x", "4", false, 0},
      {4, "data", "", "4", false, 0},
      {4, "data", "18446744073709551615", "4", false, 0},
      {4, "data", "99999999999999999999", "4", false, 0},
      {4, "../data", "0", "4", false, 0},
      {4, "/etc/passwd", "0", "4", false, 0},
      {4, "", "0", "4", false, 0},
      {4, NULL, "0", "4", false, 0},
      {4, ".", "0", "4", false, 0},
      {4, "nothing", "0", "4", false, 0},
      {4, "sub/../data", "0", "4", false, 0},
  };
  write_data(f, 64);
  for (size_t i = 0; i < LW_ARRAY_COUNT(cases); i++) {
    lw_tensor t;
    lw_status status =
        load(f, external(cases[i].count, cases[i].location, cases[i].offset, cases[i].length), &t);
    if ((status == LW_OK) != cases[i].ok) fail_msg("case %zu: %s", i, lw_status_name(status));
    if (cases[i].ok && cases[i].count != 0)
      assert_int_equal(*(const uint8_t *)t.data, cases[i].first);
  }
  assert_int_equal(f->graph.files.count, 1); /* mapped once */
  f->files.dir = NULL;
  lw_tensor t;
  assert_int_equal(load(f, external(4, "other", "0", "4"), &t), LW_STATUS_MODEL_INVALID);
}

int main(void) {
  const struct CMUnitTest tests[] = {
      cmocka_unit_test_setup_teardown(test_raw_is_in_place, setup, teardown),
      cmocka_unit_test_setup_teardown(test_typed_varints, setup, teardown),
      cmocka_unit_test_setup_teardown(test_typed_fixed, setup, teardown),
      cmocka_unit_test_setup_teardown(test_sizes_that_lie, setup, teardown),
      cmocka_unit_test_setup_teardown(test_bools_are_cleaned, setup, teardown),
      cmocka_unit_test_setup_teardown(test_external, setup, teardown),
  };
  return cmocka_run_group_tests(tests, NULL, NULL);
}

/* test_operators.c: single operators through import and interpreter against the results of ONNX
 * Runtime, which tools/onnx_cases wrote into operators.bin. LW_ONNX_CASES names another file of
 * that form. */
#include <math.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include <cmocka.h>

#include "compiler/onnx/import.h"
#include "graph/interp.h"

enum { PORTS_MAX = 8 };

/* Codes of element types in the file. */
static const lw_dtype type_codes[] = {LW_DTYPE_NONE, LW_DTYPE_F32, LW_DTYPE_F16, LW_DTYPE_F64,
                                      LW_DTYPE_I64,  LW_DTYPE_I32, LW_DTYPE_U8,  LW_DTYPE_I8,
                                      LW_DTYPE_BOOL, LW_DTYPE_U32, LW_DTYPE_U64, LW_DTYPE_I16,
                                      LW_DTYPE_U16};

typedef struct reader {
  const uint8_t *at, *end;
} reader;

static uint32_t take_u32(reader *r) {
  uint32_t v;
  assert_true((size_t)(r->end - r->at) >= sizeof v);
  memcpy(&v, r->at, sizeof v);
  r->at += sizeof v;
  return v;
}

static lw_str take_bytes(reader *r) {
  uint32_t n = take_u32(r);
  assert_true((size_t)(r->end - r->at) >= n);
  lw_str s = lw__str((const char *)r->at, n);
  r->at += n;
  return s;
}

static bool close_enough(double got, double want, double bound, lw_dtype dtype) {
  if (isnan(want) || isnan(got)) return isnan(want) && isnan(got);
  if (got == want || isinf(bound)) return true;
  double loose = dtype == LW_DTYPE_F16 ? 4e-3 : 2e-4;
  return fabs(got - want) <= loose * fabs(want) + loose / 10;
}

/* Text of the first difference, or "". */
static void compare(const lw_oracle_tensor *got, reader *r, char *out, size_t size) {
  lw_dtype dtype = type_codes[take_u32(r)];
  uint32_t rank = take_u32(r);
  lw_shape shape = {.rank = rank};
  for (uint32_t d = 0; d < rank; d++) shape.dim[d] = take_u32(r);
  lw_str data = take_bytes(r);
  if (got->dtype != dtype)
    snprintf(out, size, "type %s, not %s", lw_dtype_name(got->dtype), lw_dtype_name(dtype));
  bool same = got->shape.rank == rank;
  for (uint32_t d = 0; d < rank && same; d++) same = got->shape.dim[d] == shape.dim[d];
  if (!same) snprintf(out, size, "the shape differs");
  for (int64_t i = 0; out[0] == '\0' && i < got->count; i++) {
    if (lw__dtype_is_float(dtype)) {
      double want = lw__elem_get_f64(dtype, data.ptr, i), have = lw__round_to(dtype, got->f[i]);
      if (!close_enough(have, want, got->bound[i], dtype)) {
        snprintf(out, size, "element %lld is %.9g, not %.9g", (long long)i, have, want);
      }
    } else if (got->i[i] != lw__elem_get_i64(dtype, data.ptr, i) && got->bound[i] == 0) {
      snprintf(out, size, "element %lld is %lld, not %lld", (long long)i, (long long)got->i[i],
               (long long)lw__elem_get_i64(dtype, data.ptr, i));
    }
  }
}

static void run(const lw_graph *graph, const lw_str *inputs, uint32_t count, reader *r, char *out,
                size_t size) {
  lw_host_tensor in[PORTS_MAX];
  lw_oracle_tensor results[PORTS_MAX] = {0};
  lw_arena arena = {0};
  lw_diag diag = {0};
  for (uint32_t i = 0; i < count; i++) {
    const lw_value *v = lw__value(graph, graph->inputs.data[i]);
    void *copy;
    assert_int_equal((size_t)lw__shape_numel(&v->shape) * lw_dtype_size_bytes(v->dtype),
                     inputs[i].len);
    assert_int_equal(lw__arena_dup(&arena, inputs[i].ptr, inputs[i].len, &copy), LW_OK);
    in[i] = (lw_host_tensor){v->dtype, v->shape, copy};
  }
  if (lw__interp_run(graph, LW_INTERP_IDEAL, in, &arena, 0, &diag, results) != LW_OK) {
    snprintf(out, size, "the interpreter: %s", lw__diag_first_error(&diag));
  }
  uint32_t outputs = take_u32(r);
  for (uint32_t i = 0; i < outputs && out[0] == '\0'; i++) {
    char text[200] = "";
    compare(&results[i], r, text, sizeof text);
    if (text[0] != '\0') snprintf(out, size, "output %u: %s", i, text);
  }
  lw__arena_deinit(&arena);
  lw__diag_deinit(&diag);
}

/* True when the case passes; moves behind it only then. */
static bool run_case(reader *r) {
  char failure[300] = "";
  lw_str name = take_bytes(r), model = take_bytes(r), inputs[PORTS_MAX];
  uint32_t count = take_u32(r);
  lw_diag diag = {0};
  lw_graph graph;
  assert_true(count <= PORTS_MAX);
  for (uint32_t i = 0; i < count; i++) inputs[i] = take_bytes(r);
  lw_status status = lw__onnx_import_bytes(model.ptr, model.len, "case", NULL, NULL, &diag, &graph);
  if (status == LW_OK) {
    assert_int_equal(lw__graph_verify(&graph, &diag), LW_OK);
    run(&graph, inputs, count, r, failure, sizeof failure);
    lw__graph_deinit(&graph);
  } else {
    snprintf(failure, sizeof failure, "%s: %s", lw_status_name(status),
             lw__diag_first_error(&diag));
  }
  if (failure[0] != '\0') print_error("%.*s: %s\n", (int)name.len, name.ptr, failure);
  lw__diag_deinit(&diag);
  return failure[0] == '\0';
}

/* Records have no length of their own: this steps over one. */
static void skip_case(reader *r) {
  for (int i = 0; i < 2; i++) (void)take_bytes(r);
  for (uint32_t n = take_u32(r); n > 0; n--) (void)take_bytes(r);
  for (uint32_t n = take_u32(r); n > 0; n--) {
    (void)take_u32(r);
    for (uint32_t rank = take_u32(r); rank > 0; rank--) (void)take_u32(r);
    (void)take_bytes(r);
  }
}

static void test_against_onnx_runtime(void **state) {
  (void)state;
  const char *path = getenv("LW_ONNX_CASES");
  lw_file_map map;
  assert_int_equal(
      lw__file_map(path != NULL ? path : LW_SOURCE_DIR "/tests/unit/onnx/operators.bin", NULL,
                   &map),
      LW_OK);
  reader all = {map.data, map.data + map.bytes};
  uint32_t passed = 0, failed = 0;
  while (all.at < all.end) {
    reader one = all;
    if (run_case(&one))
      passed++;
    else
      failed++;
    skip_case(&all);
  }
  print_message("%u passed, %u failed\n", passed, failed);
  assert_int_equal(failed, 0);
  assert_true(passed >= 100);
  lw__file_unmap(&map);
}

/* Every allocation of every import fails once: an error and nothing left behind, never a crash. */
static void test_out_of_memory(void **state) {
  (void)state;
  lw_file_map map;
  assert_int_equal(lw__file_map(LW_SOURCE_DIR "/tests/unit/onnx/operators.bin", NULL, &map), LW_OK);
  reader all = {map.data, map.data + map.bytes};
  while (all.at < all.end) {
    reader one = all;
    lw_str name = take_bytes(&one), model = take_bytes(&one);
    lw_status status = LW_STATUS_OUT_OF_MEMORY;
    for (uint64_t n = 1; status != LW_OK; n++) {
      lw_diag diag = {0};
      lw_graph graph;
      lw__mem_fail_at(n);
      status = lw__onnx_import_bytes(model.ptr, model.len, "case", NULL, NULL, &diag, &graph);
      lw__mem_fail_at(0);
      if (status == LW_OK) {
        lw__graph_deinit(&graph);
      } else if (status != LW_STATUS_OUT_OF_MEMORY) {
        fail_msg("%.*s, allocation %llu: %s", (int)name.len, name.ptr, (unsigned long long)n,
                 lw_status_name(status));
      }
      lw__diag_deinit(&diag);
    }
    skip_case(&all);
  }
  lw__file_unmap(&map);
}

int main(void) {
  const struct CMUnitTest tests[] = {
      cmocka_unit_test(test_against_onnx_runtime),
      cmocka_unit_test(test_out_of_memory),
  };
  return cmocka_run_group_tests(tests, NULL, NULL);
}

/* test_cases.c: the shared hostile models: each must be refused with the right status, soon.
 * Skipped without
 * ../shared/cases. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>
#include <unistd.h>

#include <cmocka.h>

#include "compiler/onnx/import.h"

#define CASES LW_SOURCE_DIR "/../shared/cases/"

static const struct {
  const char *name;
  lw_status want;
} cases[] = {
    {"T17_base", LW_OK},
    {"T17_concat_no_axis", LW_STATUS_MODEL_INVALID},
    {"T17_conv_group_0", LW_STATUS_MODEL_INVALID},
    {"T17_conv_scalar_w", LW_STATUS_MODEL_INVALID},
    {"T17_cut_1", LW_STATUS_MODEL_INVALID},
    {"T17_cut_1815", LW_STATUS_MODEL_INVALID},
    {"T17_cut_1817", LW_STATUS_MODEL_INVALID},
    {"T17_cut_700", LW_STATUS_MODEL_INVALID},
    {"T17_cycle", LW_STATUS_MODEL_INVALID},
    {"T17_deep_if", LW_STATUS_UNSUPPORTED},
    {"T17_dims_2_66", LW_STATUS_MODEL_INVALID},
    {"T17_dummy", LW_STATUS_MODEL_INVALID},
    {"T17_dup_output", LW_STATUS_MODEL_INVALID},
    {"T17_elem_type_999", LW_STATUS_MODEL_INVALID},
    {"T17_empty", LW_STATUS_MODEL_INVALID},
    {"T17_expand_0", LW_STATUS_MODEL_INVALID},
    {"T17_external_climbs", LW_STATUS_MODEL_INVALID},
    {"T17_gather_oob", LW_STATUS_MODEL_INVALID},
    {"T17_gemm_scalar_b", LW_STATUS_MODEL_INVALID},
    {"T17_input_no_type", LW_STATUS_MODEL_INVALID},
    {"T17_length_max", LW_STATUS_MODEL_INVALID},
    {"T17_length_past_end", LW_STATUS_MODEL_INVALID},
    {"T17_matmul_shapes", LW_STATUS_MODEL_INVALID},
    {"T17_neg_dims", LW_STATUS_MODEL_INVALID},
    {"T17_no_elem_type", LW_STATUS_MODEL_INVALID},
    {"T17_no_graph", LW_STATUS_MODEL_INVALID},
    {"T17_no_opset", LW_STATUS_MODEL_INVALID},
    {"T17_nodes_50k", LW_STATUS_MODEL_INVALID},
    {"T17_pool_stride_0", LW_STATUS_MODEL_INVALID},
    {"T17_raw_short", LW_STATUS_MODEL_INVALID},
    {"T17_reshape_0_m1", LW_STATUS_MODEL_INVALID},
    {"T17_reshape_allowzero", LW_STATUS_MODEL_INVALID},
    {"T17_resize_0", LW_STATUS_MODEL_INVALID},
    {"T17_softmax_axis", LW_STATUS_MODEL_INVALID},
    {"T17_text", LW_STATUS_MODEL_INVALID},
    {"T17_undefined", LW_STATUS_MODEL_INVALID},
    {"T17_unknown_op", LW_STATUS_UNSUPPORTED},
    {"T17_varint_11", LW_STATUS_MODEL_INVALID},
    {"T17_zeros", LW_STATUS_MODEL_INVALID},
};

static void test_hostile(void **state) {
  (void)state;
  for (size_t i = 0; i < LW_ARRAY_COUNT(cases); i++) {
    char path[512];
    lw_diag diag = {0};
    lw_graph graph;
    snprintf(path, sizeof path, CASES "%s/model.onnx", cases[i].name);
    clock_t start = clock(); /* of this process: other tests run at the same time */
    lw_status status = lw__onnx_import(path, NULL, &diag, &graph);
    double seconds = (double)(clock() - start) / CLOCKS_PER_SEC;
    if (status != cases[i].want) {
      fail_msg("%s: %s (%s)", cases[i].name, lw_status_name(status), lw__diag_first_error(&diag));
    }
    if (status == LW_OK)
      lw__graph_deinit(&graph);
    else
      assert_true(lw__diag_first_error(&diag)[0] != '\0');
    if (seconds > 1) fail_msg("%s took %.2f s", cases[i].name, seconds);
    lw__diag_deinit(&diag);
  }
}

/* Every proper prefix of a valid file is refused. */
static void test_prefixes(void **state) {
  (void)state;
  lw_file_map map;
  assert_int_equal(lw__file_map(CASES "T17_base/model.onnx", NULL, &map), LW_OK);
  for (size_t n = 0; n < map.bytes; n++) {
    lw_diag diag = {0};
    lw_graph graph;
    void *copy = malloc(n + 1); /* of exactly this size, so that sanitizers see every step beyond */
    memcpy(copy, map.data, n);
    lw_status status = lw__onnx_import_bytes(copy, n, "prefix", NULL, NULL, &diag, &graph);
    if (status != LW_STATUS_MODEL_INVALID)
      fail_msg("prefix of %zu bytes: %s", n, lw_status_name(status));
    lw__diag_deinit(&diag);
    free(copy);
  }
  lw__file_unmap(&map);
}

/* The summary of a file that can be read, whatever is wrong with it. */
static void test_summary(void **state) {
  (void)state;
  lw_onnx_summary s;
  assert_int_equal(lw__onnx_summary(CASES "T16d/model.onnx", NULL, NULL, &s), LW_OK);
  assert_int_equal(s.status, LW_OK);
  assert_int_equal(s.input_count, 1);
  assert_string_equal(s.inputs[0].shape, "[N, 3, 4]");
  assert_string_equal(s.inputs[0].type, "f32");
  assert_string_equal(s.opsets[0].domain, "ai.onnx");
  assert_int_equal(s.unsupported_count, 0);
  assert_int_equal(s.node_count, 6);
  lw__onnx_summary_deinit(&s);
  assert_int_equal(lw__onnx_summary(CASES "T17_unknown_op/model.onnx", NULL, NULL, &s), LW_OK);
  assert_int_equal(s.status, LW_STATUS_UNSUPPORTED);
  assert_int_equal(s.unsupported_count, 1);
  assert_string_equal(s.unsupported[0].name, "Frobnicate");
  assert_string_equal(s.operators[0].name, "Frobnicate");
  lw__onnx_summary_deinit(&s);
  assert_int_equal(lw__onnx_summary(CASES "T17_cut_700/model.onnx", NULL, NULL, &s), LW_OK);
  assert_int_equal(s.status, LW_STATUS_MODEL_INVALID);
  assert_true(s.problem[0] != '\0');
  lw__onnx_summary_deinit(&s);
  assert_int_not_equal(lw__onnx_summary(CASES "no such file", NULL, NULL, &s), LW_OK);
}

int main(void) {
  if (access(CASES, R_OK) != 0) {
    fprintf(stderr, "skipped: there is no " CASES "\n");
    return 77;
  }
  const struct CMUnitTest tests[] = {
      cmocka_unit_test(test_hostile),
      cmocka_unit_test(test_prefixes),
      cmocka_unit_test(test_summary),
  };
  return cmocka_run_group_tests(tests, NULL, NULL);
}

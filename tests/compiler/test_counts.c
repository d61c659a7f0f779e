/* test_counts.c: how many launches the shared networks take on each target: convolutions with what
 * surrounds them are one launch each, transformers stay below what they were planned for. Skipped
 * where ../shared is absent. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdio.h>
#include <string.h>

#include <cmocka.h>

#include "api/pipeline.h"
#include "lib/sample.h"
#include "lib/shared.h"

typedef struct counted {
  uint32_t launches, convolutions;
} counted;

static void count(const char *folder, const char *profile, counted *out) {
  lw_diag diag = {0};
  lw_graph graph;
  lw_status status = lw_shared_import(folder, false, 2, &diag, &graph);
  if (status != LW_OK) lw_sample_print_messages(&diag);
  assert_int_equal(status, LW_OK);
  lw_compile_options options = {.profile = lw__device_profile_find(profile)};
  lw_compiled compiled;
  status = lw__compile(&graph, &options, false, &diag, &compiled);
  if (status != LW_OK) lw_sample_print_messages(&diag);
  assert_int_equal(status, LW_OK);
  memset(out, 0, sizeof *out);
  for (uint32_t i = 0; i < compiled.plan.steps.count; i++) {
    const lw_plan_step *step = &compiled.plan.steps.data[i];
    out->launches += step->kind == LW_STEP_LAUNCH;
  }
  for (uint32_t i = 0; i < compiled.fusion.groups.count; i++)
    out->convolutions += compiled.fusion.groups.data[i].cls == LW_KCLASS_CONV;
  lw__compiled_deinit(&compiled);
  lw__graph_deinit(&graph);
  lw__diag_deinit(&diag);
}

static bool find(const char *name, char *out, size_t size) {
  lw_shared_list list;
  bool found = false;
  assert_int_equal(lw_shared_folders(LW_SOURCE_DIR, "models", &list), LW_OK);
  for (uint32_t i = 0; i < list.count; i++) {
    const char *slash = strrchr(list.paths[i], '/');
    if (strcmp(slash ? slash + 1 : list.paths[i], name) != 0) continue;
    (void)snprintf(out, size, "%s", list.paths[i]);
    found = true;
  }
  lw_shared_list_deinit(&list);
  return found;
}

static const char *const profiles[] = {"sm_90a", "sm_80", "cpu"};

static void at_most(const char *name, uint32_t most) {
  char folder[4096];
  if (!find(name, folder, sizeof folder)) skip();
  for (size_t p = 0; p < LW_ARRAY_COUNT(profiles); p++) {
    counted c;
    count(folder, profiles[p], &c);
    if (c.launches > most)
      fail_msg("%s on %s: %u launches, at most %u", name, profiles[p], c.launches, most);
  }
}

static void test_convolutions(void **state) {
  (void)state;
  static const char *const names[] = {"resnet_tiny", "resnet_tiny_f16", "resnet_tiny_script13"};
  for (size_t n = 0; n < LW_ARRAY_COUNT(names); n++) {
    char folder[4096];
    if (!find(names[n], folder, sizeof folder)) skip();
    for (size_t p = 0; p < LW_ARRAY_COUNT(profiles); p++) {
      counted c;
      count(folder, profiles[p], &c);
      assert_int_equal(c.convolutions, 15);
      /* beside them: the pools, the mean and the classifier; no activation and no residual by
       * itself */
      assert_true(c.launches <= 15 + 6);
    }
  }
}

static void test_bert(void **state) {
  (void)state;
  at_most("bert_tiny", 26);
}

static void test_llama(void **state) {
  (void)state;
  at_most("llama_decode_tiny", 40);
}

int main(void) {
  const struct CMUnitTest tests[] = {
      cmocka_unit_test(test_convolutions),
      cmocka_unit_test(test_bert),
      cmocka_unit_test(test_llama),
  };
  return cmocka_run_group_tests(tests, NULL, NULL);
}

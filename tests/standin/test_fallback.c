/* test_fallback.c: kernels that the compiler rejects, that spill or that the device refuses: their
 * groups fall back to parts, the results stay right, and report and statistics say so. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include <cmocka.h>

#include "lib/small.h"

static lw_standin_state *driver;
static lw_nvrtc_standin_state *nvrtc;

static int reset(void **state) {
  (void)state;
  driver = lw_small_driver();
  nvrtc = lw_small_nvrtc();
  driver->refuse[0] = nvrtc->reject[0] = nvrtc->spill[0] = '\0';
  return 0;
}

#define OK(call) assert_int_equal(call, LW_OK)

static lw_status load(const char *fuse, lw_model **out) {
  return lw_small_load(0, "cuda", "", fuse, out);
}

/* Runs the model and holds it against the oracle; gives the statistics. */
static lw_stats run(lw_model *model) {
  lw_small_io io;
  lw_stats stats;
  OK(lw_small_io_init(model, 7, &io));
  OK(lw_small_run(model, &io, &stats));
  OK(lw_small_verify(model, &io));
  lw_small_io_deinit(&io);
  if (driver->violations != 0) fail_msg("%s", driver->violation);
  return stats;
}

static void assert_has(const char *text, const char *part) {
  if (strstr(text, part) == NULL) fail_msg("no '%s' in:\n%s", part, text);
}

/* Every kernel of the model in turn is in trouble; those of single nodes cannot be split. */
static void split_each(char *victim, size_t room, const char *reason, uint64_t spills) {
  lw_model *plain;
  OK(load("on", &plain));
  lw_stats before = run(plain);
  assert_int_equal(before.groups_split, 0);
  size_t count = lw_tools_model_kernel_count(plain), split = 0;
  for (size_t k = 0; k < count; k++) {
    lw_tools_kernel kernel;
    lw_tools_model_kernel(plain, k, &kernel);
    (void)snprintf(victim, room, "%s", kernel.name);
    lw_model *model;
    lw_status status = load("on", &model);
    if (status != LW_OK) {
      assert_int_equal(status, LW_STATUS_DEVICE_FAILED);
      assert_has(lw_model_error(model), kernel.name);
      assert_has(lw_model_error(model), reason);
    } else {
      const char *json;
      lw_stats after = run(model);
      OK(lw_model_explain(model, &json));
      if (after.groups_split != 0) {
        split++;
        assert_has(json, kernel.name);
        assert_has(json, reason);
        assert_true(after.kernels > before.kernels);
      } else {
        assert_true(spills != 0); /* of a single node */
      }
    }
    lw_model_destroy(model);
    victim[0] = '\0';
  }
  assert_true(split > 0);
  lw_model_destroy(plain);
}

static void test_rejected(void **state) {
  (void)state;
  split_each(nvrtc->reject, sizeof nvrtc->reject, "does not build", 0);
}

static void test_refused(void **state) {
  (void)state;
  split_each(driver->refuse, sizeof driver->refuse, "is refused by the device", 0);
}

static void test_spilling(void **state) {
  (void)state;
  split_each(nvrtc->spill, sizeof nvrtc->spill, "spills registers", 1);
}

static void test_hopeless(void **state) {
  (void)state;
  lw_model *model;
  (void)snprintf(nvrtc->reject, sizeof nvrtc->reject, "__global__"); /* nothing compiles */
  assert_int_equal(load("on", &model), LW_STATUS_DEVICE_FAILED);
  assert_has(lw_model_error(model), "does not build");
  assert_has(lw_model_error(model), "'__global__' is not to be compiled");
  lw_model_destroy(model);
  assert_int_equal(load("off", &model), LW_STATUS_DEVICE_FAILED);
  assert_has(lw_model_error(model), "no fusion to take back");
  lw_model_destroy(model);
  nvrtc->reject[0] = '\0';
  OK(load("off", &model));
  assert_int_equal(run(model).groups_split, 0);
  lw_model_destroy(model);
}

#define CASE(test) cmocka_unit_test_setup(test, reset)

int main(void) {
  const struct CMUnitTest tests[] = {CASE(test_rejected), CASE(test_refused), CASE(test_spilling),
                                     CASE(test_hopeless)};
  return cmocka_run_group_tests(tests, NULL, NULL);
}

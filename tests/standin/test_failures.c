/* test_failures.c: every call of the driver and of NVRTC and every allocation fails, each in its
 * turn, while small models are compiled, loaded and run: a clean status with a message, nothing
 * left behind, and the next attempt succeeds. Usage: test_standin_failures [first] (of the
 * allocations).
 */
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "base/base.h"
#include "lib/small.h"

typedef struct way { /* of failing */
  const char *name;
  int code;
  void (*arm)(uint64_t n, int code);
  bool (*disarm)(void); /* true: it had not happened yet */
} way;

static lw_standin_state *driver;
static lw_nvrtc_standin_state *nvrtc;
static uint64_t attempts, failures, wrong;

static void arm_driver(uint64_t n, int code) {
  driver->fail_at = n;
  driver->fail_code = code;
  driver->failed_call = NULL;
}

static bool disarm_driver(void) {
  bool pending = driver->fail_at != 0;
  driver->fail_at = 0;
  return pending;
}

static void arm_nvrtc(uint64_t n, int code) {
  nvrtc->fail_at = n;
  nvrtc->fail_code = code;
}

static bool disarm_nvrtc(void) {
  bool pending = nvrtc->fail_at != 0;
  nvrtc->fail_at = 0;
  return pending;
}

static void arm_memory(uint64_t n, int code) {
  (void)code;
  (void)lw__mem_fail_at(n);
}

static bool disarm_memory(void) { return lw__mem_fail_at(0) != 0; }

static const way ways[] = {
    {"driver, invalid value", 1, arm_driver, disarm_driver},
    {"driver, out of memory", 2, arm_driver, disarm_driver},
    {"driver, out of resources", 701, arm_driver, disarm_driver},
    {"driver, illegal address", 700, arm_driver, disarm_driver},
    {"NVRTC, out of memory", 1, arm_nvrtc, disarm_nvrtc},
    {"NVRTC, compilation", 6, arm_nvrtc, disarm_nvrtc},
    {"NVRTC, internal error", 11, arm_nvrtc, disarm_nvrtc},
    {"memory", 0, arm_memory, disarm_memory},
};

static void complain(const way *w, int which, uint64_t n, const char *what, const char *more) {
  printf("graph %d, %s, call %llu: %s%s%s\n", which, w->name, (unsigned long long)n, what,
         more[0] == '\0' ? "" : ": ", more);
  wrong++;
}

/* From the graph to results. */
static lw_status attempt(int which, bool *out_silent, bool *out_right) {
  lw_model *model;
  lw_small_io io = {0};
  attempts++;
  lw_status status = lw_small_load(which, "cuda", "", "on", &model);
  *out_silent = status != LW_OK && model != NULL && lw_model_error(model)[0] == '\0';
  if (status == LW_OK) status = lw_small_io_init(model, 3, &io);
  if (status == LW_OK) status = lw_small_run(model, &io, NULL);
  uint64_t left = lw__mem_fail_at(0); /* the oracle is not what is tried */
  *out_right = status != LW_OK || lw_small_verify(model, &io) == LW_OK;
  (void)lw__mem_fail_at(left);
  lw_small_io_deinit(&io);
  lw_model_destroy(model);
  return status;
}

static bool status_fits(const way *w, lw_status status) {
  if (status == LW_OK || status == LW_STATUS_OUT_OF_MEMORY) return true;
  if (w->arm == arm_memory) return false;
  return status == LW_STATUS_DEVICE_FAILED || status == LW_STATUS_DEVICE_LOST;
}

static void clean(const way *w, int which, uint64_t n, bool lost) {
  const char *left = lw_small_leftovers();
  /* Of a lost context nothing can be freed. */
  if (left != NULL && !(lost && driver->violations == 0)) complain(w, which, n, left, "");
  const lw_standin_state fresh = {
      .device_count = 1, .arch_major = 9, .driver_version = 12040, .seed = driver->seed};
  if (lost) lw_small_bury();
  if (left != NULL) *driver = fresh;
}

/* False when the n-th call is never reached. */
static bool try_one(const way *w, int which, uint64_t n) {
  bool silent, right;
  w->arm(n, w->code);
  lw_status status = attempt(which, &silent, &right);
  bool over = w->disarm();
  failures += status != LW_OK;
  if (!status_fits(w, status)) complain(w, which, n, "status", lw_status_name(status));
  if (silent) complain(w, which, n, "no message", lw_status_name(status));
  if (!right) complain(w, which, n, "wrong results", "");
  if (over && status != LW_OK) complain(w, which, n, "fails by itself", lw_status_name(status));
  clean(w, which, n, w->code == 700);
  if (w->arm == arm_memory && n % 16 != 0) return !over;
  status = attempt(which, &silent, &right);
  if (status != LW_OK || !right) {
    complain(w, which, n, "the next attempt fails", lw_status_name(status));
  }
  clean(w, which, n, false);
  return !over;
}

int main(int argc, char **argv) {
  uint64_t first = argc > 1 ? strtoull(argv[1], NULL, 10) : 1;
  driver = lw_small_driver();
  nvrtc = lw_small_nvrtc();
  for (size_t w = 0; w < LW_ARRAY_COUNT(ways); w++) {
    for (int which = 0; which < LW_SMALL_GRAPHS && wrong < 20; which++) {
      uint64_t n = ways[w].arm == arm_memory ? first : 1, before = failures;
      while (wrong < 20 && try_one(&ways[w], which, n)) n++;
      printf("graph %d, %s: %llu calls, %llu errors\n", which, ways[w].name,
             (unsigned long long)n - 1, (unsigned long long)(failures - before));
      if (n < 8) complain(&ways[w], which, n, "fewer calls than there must be", "");
    }
  }
  printf("%llu attempts, %llu failed as they were to, %llu wrong\n", (unsigned long long)attempts,
         (unsigned long long)failures, (unsigned long long)wrong);
  return wrong != 0;
}

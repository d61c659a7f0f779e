/* fuzz_plan.c: any bytes as a plan file. Whatever comes in, reading must end soon, with memory in
 * proportion to the input, and what it accepts must be a plan that the null device loads. Checksums
 * would keep nearly everything out, so each input is tried as it is and with its checksums made
 * right. With LW_FUZZ a libFuzzer program (-max_len=20000 -timeout=5), else a replay of
 * tests/data/fuzz/plan with changes. */
#include <stdlib.h>
#include <string.h>

#include "plan/file.h"
#include "runtime/runtime.h"

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size);

static void load(const lw_plan *plan) {
  lw_rt_device *device;
  lw_rt_program *program;
  lw_diag diag = {0};
  /* More is refused for want of memory, sooner or later. */
  if (plan->arena_bytes > 1 << 24 || plan->weight_bytes > 1 << 24) return;
  if (lw__rt_device_open("null", NULL, &diag, &device) == LW_OK) {
    if (lw__rt_program_load(device, plan, &diag, &program) == LW_OK) {
      lw__rt_program_release(program);
    } else if (diag.messages.count == 0) {
      abort();
    }
    lw__rt_device_release(device);
  }
  lw__diag_deinit(&diag);
}

static void try_plan(const void *data, size_t size) {
  lw_diag diag = {0};
  lw_plan_file file;
  lw_status status = lw__plan_file_read(data, size, "fuzz", &diag, &file);
  bool read = status == LW_OK;
  if (read) status = lw__plan_file_finish(&file, "fuzz", &diag);
  if (status == LW_OK) load(&file.plan);
  bool unattached = status == LW_STATUS_USAGE && file.source_count > 0;
  if (status != LW_OK && !unattached && diag.messages.count == 0) {
    abort(); /* every refusal says why */
  }
  if (read) lw__plan_file_deinit(&file);
  lw__diag_deinit(&diag);
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size) {
  void *copy = malloc(size + (size == 0));
  if (copy == NULL) return 0;
  if (size != 0) memcpy(copy, data, size);
  try_plan(copy, size);
  lw__plan_file_seal(copy, size);
  try_plan(copy, size);
  free(copy);
  return 0;
}

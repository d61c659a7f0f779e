/* test_random.c (gpu): random graphs, fused and unfused, compiled for the GPU of this machine and
 * run on it, held against the oracle's bounds; every result twice with equal bits. Skipped (77)
 * where there is no GPU. Usage: test_gpu_random [first seed] [count]. */
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "api/pipeline.h"
#include "lib/sample.h"
#include "runtime/runtime.h"

enum { default_count = 60, skipped = 77 };

static lw_status run_once(lw_rt_context *context, const lw_sample *s, lw_diag *diag) {
  lw_sample_poison_outputs(s);
  for (uint32_t i = 0; i < s->graph.inputs.count; i++)
    LW_TRY(lw__rt_bind_input(context, i, s->input_data[i], s->input_bytes[i], false));
  for (uint32_t i = 0; i < s->graph.outputs.count; i++)
    LW_TRY(lw__rt_bind_output(context, i, s->output_data[i], s->output_bytes[i], false));
  return lw__rt_run(context, diag);
}

static lw_hash hash_outputs(const lw_sample *s) {
  lw_hash hash = {0, 0};
  for (uint32_t i = 0; i < s->graph.outputs.count; i++)
    hash = lw__hash_bytes(s->output_data[i], s->output_bytes[i], hash);
  return hash;
}

static lw_status run_twice(lw_rt_device *device, const lw_plan *plan, const lw_sample *s,
                           lw_diag *diag, bool *out_same) {
  lw_rt_program *program = NULL;
  lw_rt_context *context = NULL;
  lw_status status = lw__rt_program_load(device, plan, diag, &program);
  if (status == LW_OK) status = lw__rt_context_create(program, diag, &context);
  if (status == LW_OK) status = run_once(context, s, diag);
  lw_hash first = hash_outputs(s);
  if (status == LW_OK) status = run_once(context, s, diag);
  *out_same = lw__hash_eq(first, hash_outputs(s));
  if (context) lw__rt_context_destroy(context);
  if (program) lw__rt_program_release(program);
  return status;
}

static uint32_t run_mode(lw_rt_device *device, const lw_device_profile *profile, const lw_sample *s,
                         bool fuse) {
  char mode[32];
  (void)snprintf(mode, sizeof mode, "gpu %s", fuse ? "fused" : "unfused");
  lw_compile_options options = {.profile = profile, .policy = lw__resource_policy_find("opt-in")};
  options.fuse.off = !fuse;
  options.sm90_always = s->seed / 2 % 2 == 0;
  options.streams = fuse ? 0 : 1 + (uint32_t)(s->seed % LW_PLAN_MAX_LANES);
  options.early_start = s->seed % 2 == 0;
  lw_compiled compiled;
  lw_diag diag = {0};
  bool same = false;
  lw_status status = lw__compile(&s->graph, &options, true, &diag, &compiled);
  if (status == LW_OK) status = run_twice(device, &compiled.plan, s, &diag, &same);
  lw__compiled_deinit(&compiled);
  uint32_t bad = 0;
  if (status != LW_OK) {
    printf("seed %llu %s: %s\n", (unsigned long long)s->seed, mode, lw_status_name(status));
    lw_sample_print_messages(&diag);
    bad = 1;
  } else if (!same) {
    printf("seed %llu %s: two runs differ\n", (unsigned long long)s->seed, mode);
    bad = 1;
  } else {
    bad = lw_sample_compare(s, NULL, mode);
  }
  lw__diag_deinit(&diag);
  return bad;
}

static const lw_device_profile *profile_of(const lw_rt_device *device) {
  lw_rt_device_info info;
  char name[16];
  lw__rt_device_info(device, &info);
  (void)snprintf(name, sizeof name, "sm_%u", info.sm_arch);
  if (!lw__device_profile_find(name)) (void)snprintf(name, sizeof name, "sm_%ua", info.sm_arch);
  return lw__device_profile_find(name);
}

int main(int argc, char **argv) {
  uint64_t first = argc > 1 ? strtoull(argv[1], NULL, 10) : 1;
  uint64_t count = argc > 2 ? strtoull(argv[2], NULL, 10) : argc > 1 ? 1 : default_count;
  lw_rt_device *device = NULL;
  lw_rt_device_options options = {.threads = 1};
  lw_diag diag = {0};
  if (lw__rt_device_open("cuda", &options, &diag, &device) != LW_OK) {
    printf("# SKIP no GPU: %s\n", lw__diag_first_error(&diag));
    lw__diag_deinit(&diag);
    return skipped;
  }
  uint64_t failed = 0;
  const lw_device_profile *profile = profile_of(device);
  for (uint64_t seed = first; seed < first + count; seed++) {
    lw_sample sample;
    if (lw_sample_random(seed, &sample) != LW_OK)
      failed++;
    else
      failed += (run_mode(device, profile, &sample, true) +
                 run_mode(device, profile, &sample, false)) != 0;
    lw_sample_deinit(&sample);
  }
  printf("%llu passed, %llu failed\n", (unsigned long long)(count - failed),
         (unsigned long long)failed);
  lw__rt_device_release(device);
  lw__diag_deinit(&diag);
  return failed != 0;
}

/* trial.c: compile, run, compare. */
#include "lib/trial.h"

#include <stdio.h>
#include <string.h>

static lw_status try_graph(lw_trial *t, lw_graph *graph, bool fuse) {
  lw_compile_options options = {.profile = lw__device_profile_find(t->profile),
                                .policy = lw__resource_policy_find("opt-in"),
                                .sm90_always = true}; /* sm_80 takes the others */
  options.fuse.off = !fuse;
  LW_TRY(lw_sample_graph(graph, 1, &t->sample));
  LW_TRY(lw__compile(&t->sample.graph, &options, false, &t->diag, &t->compiled));
  LW_TRY(lw_trial_run(t));
  return lw_sample_compare(&t->sample, NULL, t->profile) ? LW_STATUS_CHECK_FAILED : LW_OK;
}

lw_status lw_trial_init(lw_graph *graph, const char *profile, bool fuse, lw_trial *out) {
  memset(out, 0, sizeof *out);
  out->profile = profile;
  lw_status status = try_graph(out, graph, fuse);
  if (status == LW_OK) return LW_OK;
  printf("%s: %s\n", profile, lw_status_name(status));
  lw_sample_print_messages(&out->sample.diag);
  lw_sample_print_messages(&out->diag);
  return status;
}

lw_status lw_trial_run(lw_trial *t) {
  return lw_kexec_run(&t->compiled, t->sample.input_data, t->sample.output_data, &t->diag,
                      &t->result);
}

void lw_trial_deinit(lw_trial *t) {
  lw__compiled_deinit(&t->compiled);
  lw_sample_deinit(&t->sample);
  lw__diag_deinit(&t->diag);
}

void lw_trial_kernel_names(const lw_trial *t, lw_text *out) {
  const lw_plan *plan = &t->compiled.plan;
  for (uint32_t i = 0; i < plan->steps.count; i++)
    if (plan->steps.data[i].kind == LW_STEP_LAUNCH)
      lw__text_add(out, "%s\n", plan->kernels.data[plan->steps.data[i].kernel].name);
}

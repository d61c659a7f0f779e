/* pass.c: the list of passes and the loop over them. */
#include "compiler/pass/pass.h"

#include <string.h>

#include "compiler/pass/rewriter.h"

const lw_pass_info lw__passes[] = {
    {"fold", false, lw__pass_fold},           {"canon", false, lw__pass_canon},
    {"spell", false, lw__pass_spell},         {"move", false, lw__pass_move},
    {"scale", false, lw__pass_scale},         {"cse", false, lw__pass_cse},
    {"batchnorm", false, lw__pass_batchnorm}, {"order", true, lw__pass_order},
    {"layout", true, lw__pass_layout},        {"pack", true, lw__pass_pack},
};
const uint32_t lw__pass_count = LW_ARRAY_COUNT(lw__passes);

enum { PASS_MOST_ROUNDS = 16 }; /* every rule shrinks or settles; this is a net, not a policy */

void lw__pass_options_init(lw_pass_options *options) {
  *options = (lw_pass_options){
      .fold_grow_bytes = 4096, .fold_permute_bytes = 65536, .fold_most_elements = INT64_C(1) << 26};
}

static lw_status run_info(lw_graph *graph, const lw_pass_info *info, const lw_pass_options *options,
                          lw_diag *diag, uint32_t round, bool *out_changed) {
  *out_changed = false;
  const char *where = graph->where;
  lw_status status = info->run(graph, options, diag, out_changed);
  graph->where = where;
  if (status != LW_OK) return status;
  if (*out_changed) LW_TRY(lw__graph_verify(graph, diag));
  return options->after != NULL ? options->after(options->context, info->name, round, graph)
                                : LW_OK;
}

lw_status lw__pass_run(lw_graph *graph, const lw_pass_options *options, lw_diag *diag) {
  LW_TRY(lw__graph_compact(graph));
  bool again = true, changed = false;
  for (uint32_t round = 0; again && round < PASS_MOST_ROUNDS; round++) {
    again = false;
    for (uint32_t p = 0; p < lw__pass_count; p++) {
      if (lw__passes[p].once) continue;
      LW_TRY(run_info(graph, &lw__passes[p], options, diag, round, &changed));
      again = again || changed;
    }
  }
  for (uint32_t p = 0; p < lw__pass_count; p++) {
    if (lw__passes[p].once) LW_TRY(run_info(graph, &lw__passes[p], options, diag, 0, &changed));
  }
  return LW_OK;
}

lw_status lw__pass_run_one(lw_graph *graph, const char *name, const lw_pass_options *options,
                           lw_diag *diag, bool *out_changed) {
  for (uint32_t p = 0; p < lw__pass_count; p++) {
    if (strcmp(lw__passes[p].name, name) == 0) {
      return run_info(graph, &lw__passes[p], options, diag, 0, out_changed);
    }
  }
  return lw__fail(diag, LW_STATUS_NOT_FOUND, "", "there is no pass '%s'", name);
}

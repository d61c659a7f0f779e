/* trace.c: one run with the times of its kernels. */
#include "runtime/cuda/cuda.h"
#include "runtime/cuda/cupti.h"

/* The first run builds the graph while kernels are recorded already, and warms everything up. */
static lw_status trace_runs(lw_rt_context *context, const lw_cupti *cupti, lw_rt_spans *spans,
                            lw_diag *diag) {
  for (int i = 0; i < 2; i++) {
    spans->count = 0;
    LW_TRY(lw__cu_run(context, diag));
    LW_TRY(lw__cupti_collect(cupti, diag, spans));
  }
  return LW_OK;
}

lw_status lw__cu_trace(lw_rt_context *context, lw_rt_spans *spans, lw_diag *diag) {
  const lw_cu_gpu *gpu = context->program->device->state;
  lw_cupti cupti;
  LW_TRY(lw__cupti_open(gpu->cupti_path, diag, &cupti));
  LW_TRY(lw__cupti_begin(&cupti, diag));
  lw__cu_context_forget_graph(context);
  lw_status status = trace_runs(context, &cupti, spans, diag);
  /* Nor shall what is being recorded slow down later runs. */
  lw__cu_context_forget_graph(context);
  lw__cupti_end(&cupti);
  if (status != LW_OK || spans->count != 0 || context->program->counts.kernels == 0) return status;
  return lw__fail(diag, LW_STATUS_UNSUPPORTED, "cupti", "it recorded no kernels");
}

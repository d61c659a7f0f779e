/* cuda.h: state of the CUDA back end and what its files share.
 *
 * The primary context of the GPU is used, as the CUDA runtime, PyTorch and others do, so memory and
 * streams can be exchanged with them. It is current only inside our calls: every entry point pushes
 * it and pops it again. */
#ifndef LW_RUNTIME_CUDA_CUDA_H
#define LW_RUNTIME_CUDA_CUDA_H

#include "runtime/cuda/driver.h"
#include "runtime/internal.h"

typedef struct lw_cu_gpu { /* lw_rt_device.state */
  lw_cu_driver driver;
  lw_cu_device device;
  lw_cu_context context; /* retained */
  lw_cu_stream stream;   /* uploads and downloads */
  size_t l2_bytes;
  atomic_bool lost; /* an error broke the context: nothing works any more until the process ends */
} lw_cu_gpu;

/* Makes the context current; each success needs one lw__cu_leave. Fails when the GPU is lost. */
lw_status lw__cu_enter(lw_cu_gpu *gpu, lw_diag *diag) LW_MUST_CHECK;
void lw__cu_leave(lw_cu_gpu *gpu);
/* Translates the result of a driver call and notes when the GPU is lost. |what| names the call,
 * |where| the place (may be NULL). LW_OK for success. */
lw_status lw__cu_check(lw_cu_gpu *gpu, int result, const char *what, const char *where,
                       lw_diag *diag) LW_MUST_CHECK;

/* program.c */
lw_status lw__cu_program_open(lw_rt_program *program, const lw_plan *plan, lw_diag *diag);
void lw__cu_program_close(lw_rt_program *program);
lw_status lw__cu_program_init(lw_rt_program *program, void **slots, lw_diag *diag);
/* run.c */
lw_status lw__cu_context_open(lw_rt_context *context, lw_diag *diag);
void lw__cu_context_close(lw_rt_context *context);
lw_status lw__cu_run(lw_rt_context *context, lw_diag *diag);
lw_status lw__cu_enqueue(lw_rt_context *context, void *stream, lw_diag *diag);
/* Puts the steps of a segment into |stream|. |parameters| holds, for each launch from first_slot +
 * first_scalar on, the addresses of its arguments. The context is current. */
lw_status lw__cu_put_steps(lw_rt_program *program, const lw_rt_segment *segment, void **slots,
                           void **parameters, lw_cu_stream stream, lw_diag *diag) LW_MUST_CHECK;
/* Fills |parameters| (slot_count + scalar_count entries) for lw__cu_put_steps. They point into
 * |slots| and the segment. */
void lw__cu_make_parameters(const lw_rt_segment *segment, void **slots, void **parameters);

#endif

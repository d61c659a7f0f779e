/* null.c: the device that counts, and moves and computes nothing: for tests of everything around a
 * run and for measuring the runtime's own cost. */
#include <stdio.h>

#include "runtime/internal.h"

static lw_status null_device_open(lw_rt_device *device, uint32_t ordinal,
                                  const lw_rt_device_options *options, lw_diag *diag) {
  (void)ordinal, (void)options, (void)diag;
  (void)snprintf(device->name, sizeof device->name, "null");
  return LW_OK;
}

static void null_device_close(lw_rt_device *device) { (void)device; }

static lw_status null_plan_check(lw_rt_device *device, const lw_plan *plan, lw_diag *diag) {
  (void)device, (void)plan, (void)diag;
  return LW_OK;
}

static lw_status null_program_open(lw_rt_program *program, const lw_plan *plan, lw_diag *diag) {
  (void)program, (void)plan, (void)diag;
  return LW_OK;
}

static void null_program_close(lw_rt_program *program) { (void)program; }

static lw_status null_program_init(lw_rt_program *program, void **slots, lw_diag *diag) {
  (void)program, (void)slots, (void)diag;
  return LW_OK;
}

static lw_status null_context_open(lw_rt_context *context, lw_diag *diag) {
  (void)context, (void)diag;
  return LW_OK;
}

static void null_context_close(lw_rt_context *context) { (void)context; }

static lw_status null_run(lw_rt_context *context, lw_diag *diag) {
  (void)context, (void)diag;
  return LW_OK;
}

static lw_status null_trace(lw_rt_context *context, lw_rt_spans *spans, lw_diag *diag) {
  (void)context, (void)spans;
  return lw__fail(diag, LW_STATUS_UNSUPPORTED, "null", "this device runs no kernels");
}

static lw_status null_wait(lw_rt_context *context, lw_diag *diag) {
  (void)context, (void)diag;
  return LW_OK;
}

static lw_status null_enqueue(lw_rt_context *context, void *stream, lw_diag *diag) {
  (void)context, (void)stream, (void)diag;
  return LW_OK;
}

/* An address that nobody can use by mistake, so that weights of any size take no memory. */
static lw_status null_alloc(lw_rt_device *device, size_t bytes, const char *what, lw_diag *diag,
                            void **out) {
  (void)device, (void)bytes, (void)what, (void)diag;
  *out = (void *)(uintptr_t)LW_RT_ALIGN_BYTES;
  return LW_OK;
}

static void null_free(lw_rt_device *device, void *ptr) { (void)device, (void)ptr; }

static lw_status null_move(lw_rt_device *device, void *dst, const void *src, size_t bytes,
                           lw_diag *diag) {
  (void)device, (void)dst, (void)src, (void)bytes, (void)diag;
  return LW_OK;
}

static lw_status null_copy(lw_rt_device *device, void *stream, bool in_stream, void *dst,
                           const void *src, size_t bytes, lw_diag *diag) {
  (void)device, (void)stream, (void)in_stream, (void)dst, (void)src, (void)bytes, (void)diag;
  return LW_OK;
}

static lw_status null_flush(lw_rt_device *device) {
  (void)device;
  return LW_OK;
}

const lw_rt_backend lw__rt_backend_null = {
    .kind = "null",
    .host_memory = true,
    .device_open = null_device_open,
    .device_close = null_device_close,
    .plan_check = null_plan_check,
    .program_open = null_program_open,
    .program_close = null_program_close,
    .program_init = null_program_init,
    .context_open = null_context_open,
    .context_close = null_context_close,
    .context_run = null_run,
    .context_trace = null_trace,
    .context_submit = null_run,
    .context_wait = null_wait,
    .context_enqueue = null_enqueue,
    .alloc = null_alloc,
    .free = null_free,
    .upload = null_move,
    .download = null_move,
    .copy = null_copy,
    .flush_cache = null_flush,
};

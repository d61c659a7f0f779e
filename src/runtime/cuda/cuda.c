/* cuda.c: runs plans on NVIDIA GPUs through the driver library. */
#include "runtime/internal.h"

static lw_status cuda_device_open(lw_rt_device *device, uint32_t ordinal,
                                  const lw_rt_device_options *options, lw_diag *diag) {
  (void)device, (void)ordinal, (void)options;
  return lw__fail(diag, LW_STATUS_DEVICE_FAILED, "cuda", "this build has no CUDA back end yet");
}

const lw_rt_backend lw__rt_backend_cuda = {.kind = "cuda", .device_open = cuda_device_open};

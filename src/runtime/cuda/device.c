/* device.c: GPUs and their memory. */
#include <stdio.h>
#include <string.h>

#include "runtime/cuda/cuda.h"

_Static_assert(sizeof(void *) == sizeof(lw_cu_address), "slots hold device addresses as pointers");

static lw_cu_address address_of(const void *ptr) { return (lw_cu_address)(uintptr_t)ptr; }

lw_status lw__cu_check(lw_cu_gpu *gpu, int result, const char *what, const char *where,
                       lw_diag *diag) {
  if (result == LW_CU_SUCCESS) return LW_OK;
  lw_cu_error error = lw__cu_error(&gpu->driver, result);
  if (error.lost) atomic_store(&gpu->lost, true);
  return lw__fail(diag, error.status, where == NULL ? "cuda" : where, "%s: %s (%d)%s", what,
                  error.name, result,
                  error.lost ? "; the GPU cannot be used any more in this process" : "");
}

lw_status lw__cu_enter(lw_cu_gpu *gpu, lw_diag *diag) {
  if (atomic_load(&gpu->lost)) {
    return lw__fail(diag, LW_STATUS_DEVICE_FAILED, "cuda",
                    "an earlier error made the GPU unusable");
  }
  return lw__cu_check(gpu, gpu->driver.context_push(gpu->context), "cuCtxPushCurrent", NULL, diag);
}

void lw__cu_leave(lw_cu_gpu *gpu) {
  lw_cu_context popped;
  (void)gpu->driver.context_pop(&popped);
}

/* ---- device ---- */

static int gpu_attribute(const lw_cu_gpu *gpu, lw_cu_device_attribute attribute) {
  int value = 0;
  if (gpu->driver.device_attribute(&value, attribute, gpu->device) != LW_CU_SUCCESS) return 0;
  return value > 0 ? value : 0;
}

static void gpu_describe(lw_rt_device *device, lw_cu_gpu *gpu) {
  int major = gpu_attribute(gpu, LW_CU_DEVICE_MAJOR);
  if (gpu->driver.device_name(device->name, (int)sizeof device->name, gpu->device) !=
      LW_CU_SUCCESS) {
    (void)snprintf(device->name, sizeof device->name, "NVIDIA GPU");
  }
  device->name[sizeof device->name - 1] = '\0';
  device->info.sm_arch = (uint32_t)(major * 10 + gpu_attribute(gpu, LW_CU_DEVICE_MINOR));
  device->info.sm_count = (uint32_t)gpu_attribute(gpu, LW_CU_DEVICE_SM_COUNT);
  device->info.arch_specific = major >= 9;
  size_t bytes = 0;
  if (gpu->driver.device_memory(&bytes, gpu->device) == LW_CU_SUCCESS)
    device->info.memory_bytes = bytes;
  gpu->l2_bytes = (size_t)gpu_attribute(gpu, LW_CU_DEVICE_L2_BYTES);
}

static lw_status gpu_find(lw_cu_gpu *gpu, uint32_t ordinal, lw_diag *diag) {
  int count = 0;
  LW_TRY(lw__cu_check(gpu, gpu->driver.device_count(&count), "cuDeviceGetCount", NULL, diag));
  if (count <= 0 || ordinal >= (uint32_t)count) {
    return lw__fail(diag, LW_STATUS_DEVICE_FAILED, "cuda", "there is no GPU %u; there are %d",
                    ordinal, count);
  }
  return lw__cu_check(gpu, gpu->driver.device_get(&gpu->device, (int)ordinal), "cuDeviceGet", NULL,
                      diag);
}

static lw_status gpu_start(lw_rt_device *device, lw_cu_gpu *gpu, uint32_t ordinal, lw_diag *diag) {
  LW_TRY(gpu_find(gpu, ordinal, diag));
  gpu_describe(device, gpu);
  LW_TRY(lw__cu_check(gpu, gpu->driver.primary_retain(&gpu->context, gpu->device),
                      "cuDevicePrimaryCtxRetain", NULL, diag));
  lw_status status = lw__cu_enter(gpu, diag);
  if (status == LW_OK) {
    status = lw__cu_check(gpu, gpu->driver.stream_create(&gpu->stream, LW_CU_STREAM_NON_BLOCKING),
                          "cuStreamCreate", NULL, diag);
    lw__cu_leave(gpu);
  }
  if (status != LW_OK) (void)gpu->driver.primary_release(gpu->device);
  return status;
}

static lw_status cuda_device_open(lw_rt_device *device, uint32_t ordinal,
                                  const lw_rt_device_options *options, lw_diag *diag) {
  void *memory = NULL;
  LW_TRY(lw__mem_resize(&memory, sizeof(lw_cu_gpu)));
  lw_cu_gpu *gpu = memory;
  memset(gpu, 0, sizeof *gpu);
  atomic_init(&gpu->lost, false);
  gpu->graph_min_steps = options->graph_min_steps == 0 ? 2 : options->graph_min_steps;
  lw_status status = lw__cu_open(options->cuda_path, diag, &gpu->driver);
  if (status == LW_OK) status = gpu_start(device, gpu, ordinal, diag);
  if (status != LW_OK) {
    lw__cu_close(&gpu->driver);
    lw__mem_free(gpu);
    return status;
  }
  device->state = gpu;
  return LW_OK;
}

static void cuda_device_close(lw_rt_device *device) {
  lw_cu_gpu *gpu = device->state;
  if (lw__cu_enter(gpu, NULL) == LW_OK) {
    (void)gpu->driver.stream_destroy(gpu->stream);
    lw__cu_leave(gpu);
  }
  (void)gpu->driver.primary_release(gpu->device);
  lw__cu_close(&gpu->driver);
  lw__mem_free(gpu);
}

static lw_status cuda_plan_check(lw_rt_device *device, const lw_plan *plan, lw_diag *diag) {
  if (plan->target != LW_PLAN_CUDA) {
    return lw__fail(diag, LW_STATUS_USAGE, "cuda", "this plan was compiled for the CPU");
  }
  uint32_t have = device->info.sm_arch, want = plan->sm_arch;
  /* Binaries run on later minor versions of their own major version; the ones with 'a' only on
   * their own. */
  bool fits = plan->arch_specific ? have == want : have / 10 == want / 10 && have >= want;
  if (fits) return LW_OK;
  return lw__fail(diag, LW_STATUS_USAGE, "cuda",
                  "this plan was compiled for sm_%u%s and the GPU is sm_%u", want,
                  plan->arch_specific ? "a" : "", have);
}

/* ---- memory ---- */

static lw_status cuda_alloc(lw_rt_device *device, size_t bytes, void **out) {
  lw_cu_gpu *gpu = device->state;
  lw_cu_address address = 0;
  LW_TRY(lw__cu_enter(gpu, NULL));
  lw_status status =
      lw__cu_check(gpu, gpu->driver.memory_alloc(&address, bytes), "cuMemAlloc", NULL, NULL);
  lw__cu_leave(gpu);
  if (status == LW_OK) *out = (void *)(uintptr_t)address;
  return status;
}

static void cuda_free(lw_rt_device *device, void *ptr) {
  lw_cu_gpu *gpu = device->state;
  if (lw__cu_enter(gpu, NULL) != LW_OK) return;
  (void)gpu->driver.memory_free(address_of(ptr));
  lw__cu_leave(gpu);
}

/* Waits even when the copy could not be begun: the stream must not touch the caller's memory after
 * we return. */
static lw_status cuda_finish_copy(lw_cu_gpu *gpu, int result, const char *what) {
  lw_status status = lw__cu_check(gpu, result, what, NULL, NULL);
  lw_status waited =
      lw__cu_check(gpu, gpu->driver.stream_wait(gpu->stream), "cuStreamSynchronize", NULL, NULL);
  lw__cu_leave(gpu);
  return status != LW_OK ? status : waited;
}

static lw_status cuda_upload(lw_rt_device *device, void *dst, const void *src, size_t bytes) {
  lw_cu_gpu *gpu = device->state;
  LW_TRY(lw__cu_enter(gpu, NULL));
  return cuda_finish_copy(gpu, gpu->driver.copy_in(address_of(dst), src, bytes, gpu->stream),
                          "cuMemcpyHtoD");
}

static lw_status cuda_download(lw_rt_device *device, void *dst, const void *src, size_t bytes) {
  lw_cu_gpu *gpu = device->state;
  LW_TRY(lw__cu_enter(gpu, NULL));
  return cuda_finish_copy(gpu, gpu->driver.copy_out(dst, address_of(src), bytes, gpu->stream),
                          "cuMemcpyDtoH");
}

/* Writing twice what L2 holds leaves nothing else in it. */
static lw_status cuda_flush(lw_rt_device *device) {
  lw_cu_gpu *gpu = device->state;
  size_t bytes = 2 * gpu->l2_bytes + 1;
  void *memory;
  LW_TRY(cuda_alloc(device, bytes, &memory));
  lw_status status = lw__cu_enter(gpu, NULL);
  if (status == LW_OK) {
    status = cuda_finish_copy(gpu, gpu->driver.fill(address_of(memory), 0, bytes, gpu->stream),
                              "cuMemsetD8");
  }
  cuda_free(device, memory);
  return status;
}

const lw_rt_backend lw__rt_backend_cuda = {
    .kind = "cuda",
    .host_memory = false,
    .device_open = cuda_device_open,
    .device_close = cuda_device_close,
    .plan_check = cuda_plan_check,
    .program_open = lw__cu_program_open,
    .program_close = lw__cu_program_close,
    .program_init = lw__cu_program_init,
    .context_open = lw__cu_context_open,
    .context_close = lw__cu_context_close,
    .context_run = lw__cu_run,
    .context_enqueue = lw__cu_enqueue,
    .alloc = cuda_alloc,
    .free = cuda_free,
    .upload = cuda_upload,
    .download = cuda_download,
    .flush_cache = cuda_flush,
};

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
  if (where == NULL) where = "cuda";
  int alive = LW_CU_ALIVE;
  if (error.lost && atomic_compare_exchange_strong(&gpu->lost, &alive, LW_CU_LOSING)) {
    (void)snprintf(gpu->lost_how, sizeof gpu->lost_how, "%s: %s: %s (%d)", where, what, error.name,
                   result);
    atomic_store(&gpu->lost, LW_CU_LOST);
  }
  return lw__fail(diag, error.status, where, "%s: %s (%d)%s", what, error.name, result,
                  error.lost ? "; the GPU is lost to this process" : "");
}

lw_status lw__cu_enter(lw_cu_gpu *gpu, lw_diag *diag, lw_cu_scope *out_scope) {
  int lost = atomic_load(&gpu->lost);
  if (lost != LW_CU_ALIVE) {
    return lw__fail(diag, LW_STATUS_DEVICE_LOST, "cuda",
                    "an earlier error lost the GPU to this process (%s)",
                    lost == LW_CU_LOST ? gpu->lost_how : "just now");
  }
  LW_TRY(lw__cu_check(gpu, gpu->driver.context_push(gpu->context), "cuCtxPushCurrent", NULL, diag));
  /* If this fails, calls that a capture forbids will say so. */
  out_scope->mode = LW_CU_CAPTURE_RELAXED;
  out_scope->changed = gpu->driver.capture_mode(&out_scope->mode) == LW_CU_SUCCESS;
  return LW_OK;
}

bool lw__cu_enter_to_free(lw_cu_gpu *gpu, lw_cu_scope *out_scope) {
  return lw__cu_enter(gpu, NULL, out_scope) == LW_OK || lw__cu_enter(gpu, NULL, out_scope) == LW_OK;
}

void lw__cu_leave(lw_cu_gpu *gpu, lw_cu_scope scope) {
  lw_cu_context popped;
  if (scope.changed) (void)gpu->driver.capture_mode(&scope.mode);
  (void)gpu->driver.context_pop(&popped);
}

lw_status lw__cu_stream_create(lw_cu_gpu *gpu, int priority, lw_cu_stream *out, lw_diag *diag) {
  const lw_cu_driver *driver = &gpu->driver;
  if (priority != 0) {
    int result = driver->stream_create_priority(out, LW_CU_STREAM_NON_BLOCKING, priority);
    return lw__cu_check(gpu, result, "cuStreamCreateWithPriority", NULL, diag);
  }
  return lw__cu_check(gpu, driver->stream_create(out, LW_CU_STREAM_NON_BLOCKING), "cuStreamCreate",
                      NULL, diag);
}

/* ---- device ---- */

static lw_status gpu_attribute(lw_cu_gpu *gpu, lw_cu_device_attribute attribute, uint32_t *out,
                               lw_diag *diag) {
  int value = 0;
  *out = 0;
  LW_TRY(lw__cu_check(gpu, gpu->driver.device_attribute(&value, attribute, gpu->device),
                      "cuDeviceGetAttribute", NULL, diag));
  *out = value > 0 ? (uint32_t)value : 0;
  return LW_OK;
}

/* What plans are made for must be known; the rest is for reports. */
static lw_status gpu_describe(lw_rt_device *device, lw_cu_gpu *gpu, lw_diag *diag) {
  uint32_t major, minor, l2_bytes;
  LW_TRY(gpu_attribute(gpu, LW_CU_DEVICE_MAJOR, &major, diag));
  LW_TRY(gpu_attribute(gpu, LW_CU_DEVICE_MINOR, &minor, diag));
  LW_TRY(gpu_attribute(gpu, LW_CU_DEVICE_SM_COUNT, &device->info.sm_count, diag));
  if (gpu->driver.device_name(device->name, (int)sizeof device->name, gpu->device) !=
      LW_CU_SUCCESS) {
    (void)snprintf(device->name, sizeof device->name, "NVIDIA GPU");
  }
  device->name[sizeof device->name - 1] = '\0';
  device->info.sm_arch = major * 10 + minor;
  device->info.arch_specific = major >= 9;
  size_t bytes = 0;
  if (gpu->driver.device_memory(&bytes, gpu->device) == LW_CU_SUCCESS)
    device->info.memory_bytes = bytes;
  if (gpu_attribute(gpu, LW_CU_DEVICE_L2_BYTES, &l2_bytes, NULL) == LW_OK) gpu->l2_bytes = l2_bytes;
  return LW_OK;
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

/* Priorities go down to negative numbers; without them all steps are equal. */
static lw_status gpu_find_priorities(lw_cu_gpu *gpu, lw_diag *diag) {
  const lw_cu_driver *driver = &gpu->driver;
  int least = 0, greatest = 0;
  if (driver->priority_range == NULL || driver->stream_create_priority == NULL) return LW_OK;
  LW_TRY(lw__cu_check(gpu, driver->priority_range(&least, &greatest), "cuCtxGetStreamPriorityRange",
                      NULL, diag));
  gpu->greatest_priority = greatest < 0 ? greatest : 0;
  gpu->high_priority = greatest < 0 ? -1 : 0;
  return LW_OK;
}

static lw_status gpu_start(lw_rt_device *device, lw_cu_gpu *gpu, uint32_t ordinal, lw_diag *diag) {
  LW_TRY(gpu_find(gpu, ordinal, diag));
  LW_TRY(gpu_describe(device, gpu, diag));
  LW_TRY(lw__cu_check(gpu, gpu->driver.primary_retain(&gpu->context, gpu->device),
                      "cuDevicePrimaryCtxRetain", NULL, diag));
  lw_cu_scope scope;
  lw_status status = lw__cu_enter(gpu, diag, &scope);
  if (status == LW_OK) {
    status = gpu_find_priorities(gpu, diag);
    if (status == LW_OK) status = lw__cu_stream_create(gpu, 0, &gpu->stream, diag);
    lw__cu_leave(gpu, scope);
  }
  if (status != LW_OK) (void)gpu->driver.primary_release(gpu->device);
  return status;
}

static lw_status gpu_keep_path(lw_cu_gpu *gpu, const char *path) {
  void *copy = NULL;
  if (path == NULL) return LW_OK;
  LW_TRY(lw__mem_resize(&copy, strlen(path) + 1));
  gpu->cupti_path = memcpy(copy, path, strlen(path) + 1);
  return LW_OK;
}

static lw_status cuda_device_open(lw_rt_device *device, uint32_t ordinal,
                                  const lw_rt_device_options *options, lw_diag *diag) {
  void *memory = NULL;
  LW_TRY(lw__mem_resize(&memory, sizeof(lw_cu_gpu)));
  lw_cu_gpu *gpu = memory;
  memset(gpu, 0, sizeof *gpu);
  atomic_init(&gpu->lost, LW_CU_ALIVE);
  gpu->graph_min_steps = options->graph_min_steps == 0 ? 2 : options->graph_min_steps;
  lw_status status = lw__cu_open(options->cuda_path, diag, &gpu->driver);
  if (status == LW_OK) status = gpu_keep_path(gpu, options->cupti_path);
  if (status == LW_OK) status = gpu_start(device, gpu, ordinal, diag);
  if (status != LW_OK) {
    lw__cu_close(&gpu->driver);
    lw__mem_free(gpu->cupti_path);
    lw__mem_free(gpu);
    return status;
  }
  device->state = gpu;
  return LW_OK;
}

static void cuda_device_close(lw_rt_device *device) {
  lw_cu_gpu *gpu = device->state;
  lw_cu_scope scope;
  if (lw__cu_enter_to_free(gpu, &scope)) {
    (void)gpu->driver.stream_destroy(gpu->stream);
    lw__cu_leave(gpu, scope);
  }
  (void)gpu->driver.primary_release(gpu->device);
  lw__cu_close(&gpu->driver);
  lw__mem_free(gpu->cupti_path);
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

static lw_status cuda_alloc(lw_rt_device *device, size_t bytes, const char *what, lw_diag *diag,
                            void **out) {
  lw_cu_gpu *gpu = device->state;
  lw_cu_address address = 0;
  char call[48];
  lw_cu_scope scope;
  LW_TRY(lw__cu_enter(gpu, diag, &scope));
  (void)snprintf(call, sizeof call, "cuMemAlloc of %zu bytes", bytes);
  atomic_fetch_add(&device->allocations, 1);
  lw_status status = lw__cu_check(gpu, gpu->driver.memory_alloc(&address, bytes), call, what, diag);
  lw__cu_leave(gpu, scope);
  if (status == LW_OK) *out = (void *)(uintptr_t)address;
  return status;
}

static void cuda_free(lw_rt_device *device, void *ptr) {
  lw_cu_gpu *gpu = device->state;
  lw_cu_scope scope;
  if (!lw__cu_enter_to_free(gpu, &scope)) return;
  (void)gpu->driver.memory_free(address_of(ptr));
  lw__cu_leave(gpu, scope);
}

/* Waits even when the copy could not be begun: the stream must not touch the caller's memory after
 * we return. */
static lw_status cuda_finish_copy(lw_cu_gpu *gpu, lw_cu_scope scope, int result, const char *what,
                                  lw_diag *diag) {
  lw_status status = lw__cu_check(gpu, result, what, NULL, diag);
  lw_status waited = lw__cu_check(gpu, gpu->driver.stream_wait(gpu->stream), "cuStreamSynchronize",
                                  NULL, status == LW_OK ? diag : NULL);
  lw__cu_leave(gpu, scope);
  return status != LW_OK ? status : waited;
}

static lw_status cuda_upload(lw_rt_device *device, void *dst, const void *src, size_t bytes,
                             lw_diag *diag) {
  lw_cu_gpu *gpu = device->state;
  lw_cu_scope scope;
  LW_TRY(lw__cu_enter(gpu, diag, &scope));
  int result = gpu->driver.copy_in(address_of(dst), src, bytes, gpu->stream);
  return cuda_finish_copy(gpu, scope, result, "cuMemcpyHtoDAsync", diag);
}

static lw_status cuda_download(lw_rt_device *device, void *dst, const void *src, size_t bytes,
                               lw_diag *diag) {
  lw_cu_gpu *gpu = device->state;
  lw_cu_scope scope;
  LW_TRY(lw__cu_enter(gpu, diag, &scope));
  int result = gpu->driver.copy_out(dst, address_of(src), bytes, gpu->stream);
  return cuda_finish_copy(gpu, scope, result, "cuMemcpyDtoHAsync", diag);
}

static lw_status cuda_copy(lw_rt_device *device, void *stream, bool in_stream, void *dst,
                           const void *src, size_t bytes, lw_diag *diag) {
  lw_cu_gpu *gpu = device->state;
  lw_cu_scope scope;
  LW_TRY(lw__cu_enter(gpu, diag, &scope));
  lw_cu_stream where = in_stream ? stream : gpu->stream;
  int result = gpu->driver.copy(address_of(dst), address_of(src), bytes, where);
  if (!in_stream) return cuda_finish_copy(gpu, scope, result, "cuMemcpyDtoDAsync", diag);
  lw_status status = lw__cu_check(gpu, result, "cuMemcpyDtoDAsync", NULL, diag);
  lw__cu_leave(gpu, scope);
  return status;
}

/* Writing twice what L2 holds leaves nothing else in it. */
static lw_status cuda_flush(lw_rt_device *device) {
  lw_cu_gpu *gpu = device->state;
  size_t bytes = 2 * gpu->l2_bytes + 1;
  void *memory;
  lw_cu_scope scope;
  LW_TRY(cuda_alloc(device, bytes, "flushing the cache", NULL, &memory));
  lw_status status = lw__cu_enter(gpu, NULL, &scope);
  if (status == LW_OK) {
    int result = gpu->driver.fill(address_of(memory), 0, bytes, gpu->stream);
    status = cuda_finish_copy(gpu, scope, result, "cuMemsetD8Async", NULL);
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
    .context_trace = lw__cu_trace,
    .context_submit = lw__cu_submit,
    .context_wait = lw__cu_wait,
    .context_enqueue = lw__cu_enqueue,
    .alloc = cuda_alloc,
    .free = cuda_free,
    .upload = cuda_upload,
    .download = cuda_download,
    .copy = cuda_copy,
    .flush_cache = cuda_flush,
};

/* driver.c: opens the CUDA driver library and translates its errors. */
#include "runtime/cuda/driver.h"

#include <dlfcn.h>
#include <string.h>

#define DRIVER_SONAME "libcuda.so.1"
#define DRIVER_OLDEST 12000 /* CUDA 12.0 */

static const lw_cu_error driver_errors[] = {
#define LW_CU_ERROR(code, name, status, lost) {code, "CUDA_ERROR_" #name, status, lost},
#include "runtime/cuda/errors.def"
#undef LW_CU_ERROR
};

lw_cu_error lw__cu_error(const lw_cu_driver *driver, int code) {
  for (size_t i = 0; i < LW_ARRAY_COUNT(driver_errors); i++) {
    if (driver_errors[i].code == code) return driver_errors[i];
  }
  const char *name = NULL;
  if (driver->error_name == NULL || driver->error_name(code, &name) != LW_CU_SUCCESS ||
      name == NULL) {
    name = "unknown error";
  }
  return (lw_cu_error){.code = code, .name = name, .status = LW_STATUS_DEVICE_FAILED};
}

static const char *driver_bind(lw_cu_driver *driver) {
  const char *missing = NULL;
  void *symbol;
#define DRIVER_FIND(name, symbol_name, parameters)               \
  symbol = dlsym(driver->handle, #symbol_name);                  \
  if (symbol == NULL && missing == NULL) missing = #symbol_name; \
  memcpy(&driver->name, &symbol, sizeof symbol);
  LW_CU_SYMBOLS(DRIVER_FIND)
#undef DRIVER_FIND
#define DRIVER_FIND(name, symbol_name, parameters) \
  symbol = dlsym(driver->handle, #symbol_name);    \
  memcpy(&driver->name, &symbol, sizeof symbol);
  LW_CU_OPTIONAL_SYMBOLS(DRIVER_FIND)
#undef DRIVER_FIND
  return missing;
}

static lw_status driver_start(lw_cu_driver *driver, const char *path, lw_diag *diag) {
  const char *missing = driver_bind(driver);
  if (missing != NULL) {
    return lw__fail(diag, LW_STATUS_DEVICE_FAILED, "cuda", "%s has no %s: the driver is too old",
                    path, missing);
  }
  int result = driver->init(0);
  if (result != LW_CU_SUCCESS) {
    return lw__fail(diag, LW_STATUS_DEVICE_FAILED, "cuda", "the driver cannot start (cuInit): %s",
                    result == LW_CU_NO_DEVICE ? "no GPU" : lw__cu_error(driver, result).name);
  }
  int version = 0;
  result = driver->driver_version(&version);
  if (result != LW_CU_SUCCESS) {
    return lw__fail(diag, LW_STATUS_DEVICE_FAILED, "cuda", "cuDriverGetVersion: %s (%d)",
                    lw__cu_error(driver, result).name, result);
  }
  if (version < DRIVER_OLDEST) {
    return lw__fail(diag, LW_STATUS_DEVICE_FAILED, "cuda",
                    "the driver is for CUDA %d.%d; 12.0 is the oldest that is supported",
                    version / 1000, version % 1000 / 10);
  }
  return LW_OK;
}

lw_status lw__cu_open(const char *path, lw_diag *diag, lw_cu_driver *out) {
  if (path == NULL) path = DRIVER_SONAME;
  *out = (lw_cu_driver){0};
  /* The driver has threads of its own and does not survive being unloaded. */
  out->handle = dlopen(path, RTLD_NOW | RTLD_LOCAL | RTLD_NODELETE);
  if (out->handle == NULL) {
    const char *reason = dlerror();
    return lw__fail(diag, LW_STATUS_DEVICE_FAILED, "cuda", "no CUDA driver: %s",
                    reason == NULL ? path : reason);
  }
  lw_status status = driver_start(out, path, diag);
  if (status != LW_OK) lw__cu_close(out);
  return status;
}

void lw__cu_close(lw_cu_driver *driver) {
  if (driver->handle != NULL) (void)dlclose(driver->handle);
  *driver = (lw_cu_driver){0};
}

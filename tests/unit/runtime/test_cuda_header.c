/* Our declarations of the CUDA driver against NVIDIA's header, where that is installed: every type,
 * every value, every function's parameters. All of it happens at compile time. */
#if defined(__has_include)
#if __has_include(<cuda.h>)
#define HAVE_CUDA_H 1
#endif
#endif

#ifdef HAVE_CUDA_H
#include <cuda.h>
#define LW_CUDA_REAL_TYPES
#endif

#include <stdio.h>

#include "runtime/cuda/driver.h"

#ifdef HAVE_CUDA_H
#define SAME_FUNCTION(name, symbol, parameters) \
  _Static_assert(                               \
      __builtin_types_compatible_p(__typeof__(&symbol), CUresult(CUDAAPI *) parameters), #symbol);
LW_CU_SYMBOLS(SAME_FUNCTION)
#if CUDA_VERSION >= 12040
LW_CU_OPTIONAL_SYMBOLS(SAME_FUNCTION)
#endif

#define SAME_VALUE(ours, theirs) _Static_assert((int)(ours) == (int)(theirs), #theirs)
SAME_VALUE(LW_CU_SUCCESS, CUDA_SUCCESS);
SAME_VALUE(LW_CU_NO_DEVICE, CUDA_ERROR_NO_DEVICE);
SAME_VALUE(LW_CU_DEVICE_MAX_SHARED_OPTIN, CU_DEVICE_ATTRIBUTE_MAX_SHARED_MEMORY_PER_BLOCK_OPTIN);
SAME_VALUE(LW_CU_DEVICE_SM_COUNT, CU_DEVICE_ATTRIBUTE_MULTIPROCESSOR_COUNT);
SAME_VALUE(LW_CU_DEVICE_L2_BYTES, CU_DEVICE_ATTRIBUTE_L2_CACHE_SIZE);
SAME_VALUE(LW_CU_DEVICE_MAJOR, CU_DEVICE_ATTRIBUTE_COMPUTE_CAPABILITY_MAJOR);
SAME_VALUE(LW_CU_DEVICE_MINOR, CU_DEVICE_ATTRIBUTE_COMPUTE_CAPABILITY_MINOR);
SAME_VALUE(LW_CU_FUNCTION_MAX_THREADS, CU_FUNC_ATTRIBUTE_MAX_THREADS_PER_BLOCK);
SAME_VALUE(LW_CU_FUNCTION_MAX_DYNAMIC_SHARED, CU_FUNC_ATTRIBUTE_MAX_DYNAMIC_SHARED_SIZE_BYTES);
SAME_VALUE(LW_CU_STREAM_NON_BLOCKING, CU_STREAM_NON_BLOCKING);
SAME_VALUE(LW_CU_EVENT_DEFAULT, CU_EVENT_DEFAULT);
_Static_assert(sizeof(CUdeviceptr) == sizeof(void *), "device addresses are as wide as pointers");

#define LW_CU_ERROR(code, name, status, lost) SAME_VALUE(code, CUDA_ERROR_##name);
#include "runtime/cuda/errors.def"
#undef LW_CU_ERROR

int main(void) {
  (void)printf("compared with cuda.h of CUDA %d.%d\n", CUDA_VERSION / 1000,
               CUDA_VERSION % 1000 / 10);
  return 0;
}
#else
int main(void) {
  (void)printf("cuda.h is not installed: skipped\n");
  return 77;
}
#endif

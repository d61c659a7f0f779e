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
SAME_VALUE(LW_CU_MAP_F16, CU_TENSOR_MAP_DATA_TYPE_FLOAT16);
SAME_VALUE(LW_CU_MAP_F32, CU_TENSOR_MAP_DATA_TYPE_FLOAT32);
SAME_VALUE(LW_CU_MAP_BF16, CU_TENSOR_MAP_DATA_TYPE_BFLOAT16);
SAME_VALUE(LW_CU_MAP_INTERLEAVE_NONE, CU_TENSOR_MAP_INTERLEAVE_NONE);
SAME_VALUE(LW_CU_MAP_SWIZZLE_128B, CU_TENSOR_MAP_SWIZZLE_128B);
SAME_VALUE(LW_CU_MAP_PROMOTION_256B, CU_TENSOR_MAP_L2_PROMOTION_L2_256B);
SAME_VALUE(LW_CU_MAP_FILL_ZEROS, CU_TENSOR_MAP_FLOAT_OOB_FILL_NONE);
_Static_assert(sizeof(struct lw_cu_tensor_map) == sizeof(CUtensorMap), "tensor maps");
SAME_VALUE(LW_CU_STREAM_NON_BLOCKING, CU_STREAM_NON_BLOCKING);
SAME_VALUE(LW_CU_EVENT_DEFAULT, CU_EVENT_DEFAULT);
SAME_VALUE(LW_CU_EVENT_NO_TIMING, CU_EVENT_DISABLE_TIMING);
SAME_VALUE(LW_CU_NODE_PRIORITY, CU_LAUNCH_ATTRIBUTE_PRIORITY);
SAME_VALUE(LW_CU_GRAPH_NODE_PRIORITY, CUDA_GRAPH_INSTANTIATE_FLAG_USE_NODE_PRIORITY);
_Static_assert(sizeof(union lw_cu_attribute_value) == sizeof(CUlaunchAttributeValue), "attribute");
SAME_VALUE(LW_CU_CAPTURE_NONE, CU_STREAM_CAPTURE_STATUS_NONE);
SAME_VALUE(LW_CU_CAPTURE_RELAXED, CU_STREAM_CAPTURE_MODE_RELAXED);
SAME_VALUE(LW_CU_MEMORY_DEVICE, CU_MEMORYTYPE_DEVICE);
_Static_assert(sizeof(CUdeviceptr) == sizeof(void *), "device addresses are as wide as pointers");

#define SAME_MEMBER(ours, member, theirs, their_member)                                         \
  _Static_assert(offsetof(struct ours, member) == offsetof(theirs, their_member) &&             \
                     sizeof(((struct ours *)0)->member) == sizeof(((theirs *)0)->their_member), \
                 #their_member)
_Static_assert(sizeof(struct lw_cu_kernel_params) == sizeof(CUDA_KERNEL_NODE_PARAMS),
               "kernel node");
SAME_MEMBER(lw_cu_kernel_params, function, CUDA_KERNEL_NODE_PARAMS, func);
SAME_MEMBER(lw_cu_kernel_params, grid_x, CUDA_KERNEL_NODE_PARAMS, gridDimX);
SAME_MEMBER(lw_cu_kernel_params, grid_y, CUDA_KERNEL_NODE_PARAMS, gridDimY);
SAME_MEMBER(lw_cu_kernel_params, grid_z, CUDA_KERNEL_NODE_PARAMS, gridDimZ);
SAME_MEMBER(lw_cu_kernel_params, block_x, CUDA_KERNEL_NODE_PARAMS, blockDimX);
SAME_MEMBER(lw_cu_kernel_params, block_y, CUDA_KERNEL_NODE_PARAMS, blockDimY);
SAME_MEMBER(lw_cu_kernel_params, block_z, CUDA_KERNEL_NODE_PARAMS, blockDimZ);
SAME_MEMBER(lw_cu_kernel_params, shared_bytes, CUDA_KERNEL_NODE_PARAMS, sharedMemBytes);
SAME_MEMBER(lw_cu_kernel_params, parameters, CUDA_KERNEL_NODE_PARAMS, kernelParams);
SAME_MEMBER(lw_cu_kernel_params, extra, CUDA_KERNEL_NODE_PARAMS, extra);
SAME_MEMBER(lw_cu_kernel_params, kernel, CUDA_KERNEL_NODE_PARAMS, kern);
SAME_MEMBER(lw_cu_kernel_params, context, CUDA_KERNEL_NODE_PARAMS, ctx);
_Static_assert(sizeof(struct lw_cu_fill_params) == sizeof(CUDA_MEMSET_NODE_PARAMS), "memset node");
SAME_MEMBER(lw_cu_fill_params, to, CUDA_MEMSET_NODE_PARAMS, dst);
SAME_MEMBER(lw_cu_fill_params, pitch, CUDA_MEMSET_NODE_PARAMS, pitch);
SAME_MEMBER(lw_cu_fill_params, value, CUDA_MEMSET_NODE_PARAMS, value);
SAME_MEMBER(lw_cu_fill_params, elem_bytes, CUDA_MEMSET_NODE_PARAMS, elementSize);
SAME_MEMBER(lw_cu_fill_params, width, CUDA_MEMSET_NODE_PARAMS, width);
SAME_MEMBER(lw_cu_fill_params, height, CUDA_MEMSET_NODE_PARAMS, height);
#if CUDA_VERSION >= 12030
_Static_assert(sizeof(struct lw_cu_edge_data) == sizeof(CUgraphEdgeData), "edge");
SAME_MEMBER(lw_cu_edge_data, from_port, CUgraphEdgeData, from_port);
SAME_MEMBER(lw_cu_edge_data, to_port, CUgraphEdgeData, to_port);
SAME_MEMBER(lw_cu_edge_data, type, CUgraphEdgeData, type);
SAME_VALUE(LW_CU_EDGE_PROGRAMMATIC, CU_GRAPH_DEPENDENCY_TYPE_PROGRAMMATIC);
SAME_VALUE(LW_CU_PORT_PROGRAMMATIC, CU_GRAPH_KERNEL_NODE_PORT_PROGRAMMATIC);
#endif
_Static_assert(sizeof(struct lw_cu_copy_params) == sizeof(CUDA_MEMCPY3D), "memcpy node");
SAME_MEMBER(lw_cu_copy_params, from.x_bytes, CUDA_MEMCPY3D, srcXInBytes);
SAME_MEMBER(lw_cu_copy_params, from.level, CUDA_MEMCPY3D, srcLOD);
SAME_MEMBER(lw_cu_copy_params, from.memory, CUDA_MEMCPY3D, srcMemoryType);
SAME_MEMBER(lw_cu_copy_params, from.host, CUDA_MEMCPY3D, srcHost);
SAME_MEMBER(lw_cu_copy_params, from.device, CUDA_MEMCPY3D, srcDevice);
SAME_MEMBER(lw_cu_copy_params, from.array, CUDA_MEMCPY3D, srcArray);
SAME_MEMBER(lw_cu_copy_params, from.reserved, CUDA_MEMCPY3D, reserved0);
SAME_MEMBER(lw_cu_copy_params, from.pitch, CUDA_MEMCPY3D, srcPitch);
SAME_MEMBER(lw_cu_copy_params, from.height, CUDA_MEMCPY3D, srcHeight);
SAME_MEMBER(lw_cu_copy_params, to.x_bytes, CUDA_MEMCPY3D, dstXInBytes);
SAME_MEMBER(lw_cu_copy_params, to.memory, CUDA_MEMCPY3D, dstMemoryType);
SAME_MEMBER(lw_cu_copy_params, to.device, CUDA_MEMCPY3D, dstDevice);
SAME_MEMBER(lw_cu_copy_params, to.pitch, CUDA_MEMCPY3D, dstPitch);
SAME_MEMBER(lw_cu_copy_params, to.height, CUDA_MEMCPY3D, dstHeight);
SAME_MEMBER(lw_cu_copy_params, width_bytes, CUDA_MEMCPY3D, WidthInBytes);
SAME_MEMBER(lw_cu_copy_params, height, CUDA_MEMCPY3D, Height);
SAME_MEMBER(lw_cu_copy_params, depth, CUDA_MEMCPY3D, Depth);

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

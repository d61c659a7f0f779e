/* driver.h: the part of the CUDA driver's C interface that the runtime uses, declared by ourselves
 * and found at run time, so that one binary works with and without a GPU. Symbol names carry the
 * version suffix of the interface declared here; they are exported by every driver since CUDA 12.0.
 */
#ifndef LW_RUNTIME_CUDA_DRIVER_H
#define LW_RUNTIME_CUDA_DRIVER_H

#include "base/base.h"

/* A test includes NVIDIA's own header and defines LW_CUDA_REAL_TYPES to compare the two. */
#ifdef LW_CUDA_REAL_TYPES
typedef CUresult lw_cu_result;
typedef CUdevice lw_cu_device;
typedef CUcontext lw_cu_context;
typedef CUmodule lw_cu_module;
typedef CUfunction lw_cu_function;
typedef CUstream lw_cu_stream;
typedef CUevent lw_cu_event;
typedef CUdeviceptr lw_cu_address;
typedef CUdevice_attribute lw_cu_device_attribute;
typedef CUfunction_attribute lw_cu_function_attribute;
typedef CUstreamCaptureStatus lw_cu_capture;
typedef CUstreamCaptureMode lw_cu_capture_mode;
typedef CUgraph lw_cu_graph;
typedef CUgraphNode lw_cu_node;
typedef CUgraphExec lw_cu_exec;
typedef CUDA_KERNEL_NODE_PARAMS lw_cu_kernel_node;
typedef CUDA_MEMCPY3D lw_cu_copy_node;
typedef CUDA_MEMSET_NODE_PARAMS lw_cu_fill_node;
typedef CUgraphEdgeData lw_cu_edge;
typedef CUtensorMap lw_cu_map;
typedef CUtensorMapDataType lw_cu_map_type;
typedef CUtensorMapInterleave lw_cu_map_interleave;
typedef CUtensorMapSwizzle lw_cu_map_swizzle;
typedef CUtensorMapL2promotion lw_cu_map_promotion;
typedef CUtensorMapFloatOOBfill lw_cu_map_fill;
typedef CUlaunchAttributeID lw_cu_node_attribute;
typedef CUlaunchAttributeValue lw_cu_node_value;
#else
typedef int lw_cu_result;
typedef int lw_cu_device;
typedef struct lw_cu_context_object *lw_cu_context;
typedef struct lw_cu_module_object *lw_cu_module;
typedef struct lw_cu_function_object *lw_cu_function;
typedef struct lw_cu_stream_object *lw_cu_stream; /* NULL: the legacy default stream */
typedef struct lw_cu_event_object *lw_cu_event;
typedef unsigned long long lw_cu_address;
typedef int lw_cu_device_attribute;
typedef int lw_cu_function_attribute;
typedef int lw_cu_capture;
typedef int lw_cu_capture_mode;
typedef struct lw_cu_graph_object *lw_cu_graph;
typedef struct lw_cu_node_object *lw_cu_node;
typedef struct lw_cu_exec_object *lw_cu_exec;
typedef struct lw_cu_kernel_params lw_cu_kernel_node;
typedef struct lw_cu_copy_params lw_cu_copy_node;
typedef struct lw_cu_fill_params lw_cu_fill_node;
typedef struct lw_cu_edge_data lw_cu_edge;
typedef struct lw_cu_tensor_map lw_cu_map;
typedef int lw_cu_map_type;
typedef int lw_cu_map_interleave;
typedef int lw_cu_map_swizzle;
typedef int lw_cu_map_promotion;
typedef int lw_cu_map_fill;
typedef int lw_cu_node_attribute;
typedef union lw_cu_attribute_value lw_cu_node_value;
#endif

/* What nodes of a graph do. */
struct lw_cu_kernel_params {
  lw_cu_function function;
  unsigned int grid_x, grid_y, grid_z, block_x, block_y, block_z, shared_bytes;
  void **parameters, **extra; /* copied by the driver */
  void *kernel, *context;     /* other ways to name the function; NULL */
};
struct lw_cu_copy_side {
  size_t x_bytes, y, z, level;
  int memory; /* LW_CU_MEMORY_DEVICE */
  const void *host;
  lw_cu_address device;
  void *array, *reserved;
  size_t pitch, height;
};
struct lw_cu_copy_params {
  struct lw_cu_copy_side from, to;
  size_t width_bytes, height, depth;
};
struct lw_cu_edge_data {
  unsigned char from_port, to_port, type, reserved[5];
};
struct lw_cu_tensor_map { /* opaque; at a multiple of 64 bytes */
  _Alignas(64) unsigned long long words[16];
};
union lw_cu_attribute_value {
  char room[64];
  int priority;
};
struct lw_cu_fill_params {
  lw_cu_address to;
  size_t pitch;
  unsigned int value, elem_bytes;
  size_t width, height;
};

enum {
  LW_CU_SUCCESS = 0,
  LW_CU_NO_DEVICE = 100,
  LW_CU_DEVICE_MAX_SHARED_OPTIN = 97,
  LW_CU_DEVICE_SM_COUNT = 16,
  LW_CU_DEVICE_L2_BYTES = 38,
  LW_CU_DEVICE_MAJOR = 75,
  LW_CU_DEVICE_MINOR = 76,
  LW_CU_FUNCTION_MAX_THREADS = 0,
  LW_CU_FUNCTION_MAX_DYNAMIC_SHARED = 8,
  LW_CU_STREAM_NON_BLOCKING = 1,
  LW_CU_EVENT_DEFAULT = 0,
  LW_CU_EVENT_NO_TIMING = 2,
  LW_CU_CAPTURE_NONE = 0,
  LW_CU_CAPTURE_RELAXED = 2, /* a mode: nothing this thread does harms captures */
  LW_CU_MEMORY_DEVICE = 2,
  LW_CU_MAP_F16 = 6,
  LW_CU_MAP_F32 = 7,
  LW_CU_MAP_BF16 = 9,
  LW_CU_MAP_INTERLEAVE_NONE = 0,
  LW_CU_MAP_SWIZZLE_128B = 3,
  LW_CU_MAP_PROMOTION_256B = 3,
  LW_CU_MAP_FILL_ZEROS = 0,
  LW_CU_NODE_PRIORITY = 8,        /* an attribute */
  LW_CU_GRAPH_NODE_PRIORITY = 8,  /* a flag of instantiation: nodes have priorities of their own */
  LW_CU_EDGE_PROGRAMMATIC = 1,
  LW_CU_PORT_PROGRAMMATIC = 1, /* when every block has called launch_dependents or has ended */
};

/* X(name, symbol, parameters): functions that give lw_cu_result. */
#define LW_CU_SYMBOLS(X)                                                                          \
  X(init, cuInit, (unsigned int flags))                                                           \
  X(driver_version, cuDriverGetVersion, (int *version))                                           \
  X(error_name, cuGetErrorName, (lw_cu_result error, const char **name))                          \
  X(device_count, cuDeviceGetCount, (int *count))                                                 \
  X(device_get, cuDeviceGet, (lw_cu_device * device, int ordinal))                                \
  X(device_name, cuDeviceGetName, (char *name, int bytes, lw_cu_device device))                   \
  X(device_memory, cuDeviceTotalMem_v2, (size_t * bytes, lw_cu_device device))                    \
  X(device_attribute, cuDeviceGetAttribute,                                                       \
    (int *value, lw_cu_device_attribute attribute, lw_cu_device device))                          \
  X(primary_retain, cuDevicePrimaryCtxRetain, (lw_cu_context * context, lw_cu_device device))     \
  X(primary_release, cuDevicePrimaryCtxRelease_v2, (lw_cu_device device))                         \
  X(context_push, cuCtxPushCurrent_v2, (lw_cu_context context))                                   \
  X(context_pop, cuCtxPopCurrent_v2, (lw_cu_context * context))                                   \
  X(module_load, cuModuleLoadData, (lw_cu_module * module, const void *image))                    \
  X(module_unload, cuModuleUnload, (lw_cu_module module))                                         \
  X(module_function, cuModuleGetFunction,                                                         \
    (lw_cu_function * function, lw_cu_module module, const char *name))                           \
  X(function_get, cuFuncGetAttribute,                                                             \
    (int *value, lw_cu_function_attribute attribute, lw_cu_function function))                    \
  X(function_set, cuFuncSetAttribute,                                                             \
    (lw_cu_function function, lw_cu_function_attribute attribute, int value))                     \
  X(occupancy, cuOccupancyMaxActiveBlocksPerMultiprocessor,                                       \
    (int *blocks, lw_cu_function function, int block_threads, size_t shared_bytes))               \
  X(memory_alloc, cuMemAlloc_v2, (lw_cu_address * address, size_t bytes))                         \
  X(memory_free, cuMemFree_v2, (lw_cu_address address))                                           \
  X(host_alloc, cuMemHostAlloc, (void **memory, size_t bytes, unsigned int flags))                \
  X(host_free, cuMemFreeHost, (void *memory))                                                     \
  X(copy_in, cuMemcpyHtoDAsync_v2,                                                                \
    (lw_cu_address to, const void *from, size_t bytes, lw_cu_stream stream))                      \
  X(copy_out, cuMemcpyDtoHAsync_v2,                                                               \
    (void *to, lw_cu_address from, size_t bytes, lw_cu_stream stream))                            \
  X(copy, cuMemcpyDtoDAsync_v2,                                                                   \
    (lw_cu_address to, lw_cu_address from, size_t bytes, lw_cu_stream stream))                    \
  X(fill, cuMemsetD8Async,                                                                        \
    (lw_cu_address to, unsigned char value, size_t count, lw_cu_stream stream))                   \
  X(map_encode, cuTensorMapEncodeTiled,                                                           \
    (lw_cu_map * map, lw_cu_map_type type, unsigned int rank, void *address,                      \
     const uint64_t *dims, const uint64_t *strides, const unsigned int *box,                      \
     const unsigned int *elem_strides, lw_cu_map_interleave interleave,                           \
     lw_cu_map_swizzle swizzle, lw_cu_map_promotion promotion, lw_cu_map_fill fill))              \
  X(stream_create, cuStreamCreate, (lw_cu_stream * stream, unsigned int flags))                   \
  X(stream_destroy, cuStreamDestroy_v2, (lw_cu_stream stream))                                    \
  X(stream_wait, cuStreamSynchronize, (lw_cu_stream stream))                                      \
  X(stream_wait_event, cuStreamWaitEvent,                                                         \
    (lw_cu_stream stream, lw_cu_event event, unsigned int flags))                                 \
  X(event_create, cuEventCreate, (lw_cu_event * event, unsigned int flags))                       \
  X(event_destroy, cuEventDestroy_v2, (lw_cu_event event))                                        \
  X(event_wait, cuEventSynchronize, (lw_cu_event event))                                          \
  X(event_record, cuEventRecord, (lw_cu_event event, lw_cu_stream stream))                        \
  X(event_elapsed, cuEventElapsedTime, (float *ms, lw_cu_event start, lw_cu_event end))           \
  X(launch, cuLaunchKernel,                                                                       \
    (lw_cu_function function, unsigned int grid_x, unsigned int grid_y, unsigned int grid_z,      \
     unsigned int block_x, unsigned int block_y, unsigned int block_z, unsigned int shared_bytes, \
     lw_cu_stream stream, void **parameters, void **extra))                                       \
  X(stream_capture, cuStreamIsCapturing, (lw_cu_stream stream, lw_cu_capture * status))           \
  X(capture_mode, cuThreadExchangeStreamCaptureMode, (lw_cu_capture_mode * mode))                 \
  X(graph_create, cuGraphCreate, (lw_cu_graph * graph, unsigned int flags))                       \
  X(graph_destroy, cuGraphDestroy, (lw_cu_graph graph))                                           \
  X(graph_kernel, cuGraphAddKernelNode_v2,                                                        \
    (lw_cu_node * node, lw_cu_graph graph, const lw_cu_node *deps, size_t dep_count,              \
     const lw_cu_kernel_node *kernel))                                                            \
  X(graph_copy, cuGraphAddMemcpyNode,                                                             \
    (lw_cu_node * node, lw_cu_graph graph, const lw_cu_node *deps, size_t dep_count,              \
     const lw_cu_copy_node *copy, lw_cu_context context))                                         \
  X(graph_fill, cuGraphAddMemsetNode,                                                             \
    (lw_cu_node * node, lw_cu_graph graph, const lw_cu_node *deps, size_t dep_count,              \
     const lw_cu_fill_node *fill, lw_cu_context context))                                         \
  X(graph_instantiate, cuGraphInstantiateWithFlags,                                               \
    (lw_cu_exec * exec, lw_cu_graph graph, unsigned long long flags))                             \
  X(exec_destroy, cuGraphExecDestroy, (lw_cu_exec exec))                                          \
  X(exec_kernel, cuGraphExecKernelNodeSetParams_v2,                                               \
    (lw_cu_exec exec, lw_cu_node node, const lw_cu_kernel_node *kernel))                          \
  X(exec_copy, cuGraphExecMemcpyNodeSetParams,                                                    \
    (lw_cu_exec exec, lw_cu_node node, const lw_cu_copy_node *copy, lw_cu_context context))       \
  X(exec_fill, cuGraphExecMemsetNodeSetParams,                                                    \
    (lw_cu_exec exec, lw_cu_node node, const lw_cu_fill_node *fill, lw_cu_context context))       \
  X(exec_launch, cuGraphLaunch, (lw_cu_exec exec, lw_cu_stream stream))

/* The same for functions that older drivers lack; NULL then. */
#define LW_CU_OPTIONAL_SYMBOLS(X)                                                              \
  X(function_load, cuFuncLoad, (lw_cu_function function))                                      \
  X(priority_range, cuCtxGetStreamPriorityRange, (int *least, int *greatest))                  \
  X(stream_create_priority, cuStreamCreateWithPriority,                                        \
    (lw_cu_stream * stream, unsigned int flags, int priority))                                 \
  X(node_set, cuGraphKernelNodeSetAttribute,                                                   \
    (lw_cu_node node, lw_cu_node_attribute attribute, const lw_cu_node_value *value))          \
  X(graph_edges, cuGraphAddDependencies_v2,                                                    \
    (lw_cu_graph graph, const lw_cu_node *from, const lw_cu_node *to, const lw_cu_edge *edges, \
     size_t count))

typedef struct lw_cu_driver {
  void *handle;
#define LW_CU_MEMBER(name, symbol, parameters) lw_cu_result(*name) parameters;
  LW_CU_SYMBOLS(LW_CU_MEMBER)
  LW_CU_OPTIONAL_SYMBOLS(LW_CU_MEMBER)
#undef LW_CU_MEMBER
} lw_cu_driver;

/* Opens the driver library and initializes it. |path| NULL: libcuda.so.1. */
lw_status lw__cu_open(const char *path, lw_diag *diag, lw_cu_driver *out) LW_MUST_CHECK;
void lw__cu_close(lw_cu_driver *driver);

/* What an error code means for us. |lost|: the context is broken for good, and with it every object
 * in it. */
typedef struct lw_cu_error {
  int code;
  const char *name;
  lw_status status;
  bool lost;
} lw_cu_error;
lw_cu_error lw__cu_error(const lw_cu_driver *driver, int code);

#endif

/* runtime.h: executes plans. Contains no compiler. A device opens once; a program holds the loaded
 * kernels and weights of one plan on one device (immutable, shared); a context holds an arena and
 * bindings, one run in flight. */
#ifndef LW_RUNTIME_H
#define LW_RUNTIME_H

#include "base/base.h"
#include "plan/plan.h"

typedef struct lw_rt_device lw_rt_device;   /* retained by programs */
typedef struct lw_rt_program lw_rt_program; /* retained by contexts */
typedef struct lw_rt_context lw_rt_context;

/* |spec|: "cpu", "cuda", "cuda:N", "null" (counts, moves and computes nothing), "auto" (cuda:0
 * where there is one, else cpu). */
typedef struct lw_rt_device_options {
  uint32_t threads;      /* CPU pool; 0: all cores */
  const char *cuda_path; /* the CUDA driver library to open; NULL: libcuda.so.1 */
  /* CUDA: plans of at least this many steps run as one graph; others in streams. Starting
   * one takes the device about 3.8 us and each step in it about 1.3 us; a step launched by itself
   * takes the host 2 to 4 us. 0: 2. */
  uint32_t graph_min_steps;
  const char *cupti_path; /* the library that gives the times of kernels; NULL: libcupti */
} lw_rt_device_options;
lw_status lw__rt_device_open(const char *spec, const lw_rt_device_options *options, lw_diag *diag,
                             lw_rt_device **out) LW_MUST_CHECK;
void lw__rt_device_retain(lw_rt_device *device);
void lw__rt_device_release(lw_rt_device *device);
typedef struct lw_rt_device_info {
  const char *kind; /* "cpu", "cuda", "null" */
  const char *name; /* "NVIDIA H200", CPU model name */
  uint32_t sm_arch, sm_count;
  bool arch_specific; /* sm_90 and sm_100: the 'a' features are there */
  uint64_t memory_bytes;
} lw_rt_device_info;
void lw__rt_device_info(const lw_rt_device *device, lw_rt_device_info *out);

/* Loads images, uploads weights once, runs the init program. The plan must stay alive until this
 * returns, not longer; names for messages are copied. The null device accepts plans of either
 * target. */
lw_status lw__rt_program_load(lw_rt_device *device, const lw_plan *plan, lw_diag *diag,
                              lw_rt_program **out) LW_MUST_CHECK;
/* The same on the device of |base|, whose plan must be alive, too: weights that are the same bytes
 * in memory in both plans, and what both derive from them in the same way, are on the device once.
 * |base| itself must have been loaded without a base; it is retained. */
lw_status lw__rt_program_load_beside(lw_rt_program *base, const lw_plan *plan, lw_diag *diag,
                                     lw_rt_program **out) LW_MUST_CHECK;
/* Either of the two (|base| may be NULL), and tells which kernels are why it fails: the device does
 * not take them, or no block of them fits on it. |out_refused| has an entry per kernel. */
lw_status lw__rt_program_try(lw_rt_device *device, lw_rt_program *base, const lw_plan *plan,
                             bool *out_refused, lw_diag *diag, lw_rt_program **out) LW_MUST_CHECK;
void lw__rt_program_release(lw_rt_program *program);

/* Working memory on a device for several contexts that never run at the same time: it grows to what
 * the largest of them needs, and then those made before find its new place by themselves. */
typedef struct lw_rt_arena lw_rt_arena; /* retained by contexts */
lw_status lw__rt_arena_create(lw_rt_device *device, lw_rt_arena **out) LW_MUST_CHECK;
void lw__rt_arena_release(lw_rt_arena *arena);
uint64_t lw__rt_arena_bytes(const lw_rt_arena *arena);

typedef struct lw_rt_context_options {
  lw_rt_arena *arena; /* NULL: one of its own */
  int priority;       /* of the context's stream, where streams have one: below 0 is before 0 */
} lw_rt_context_options;
lw_status lw__rt_context_create(lw_rt_program *program, lw_diag *diag,
                                lw_rt_context **out) LW_MUST_CHECK;
lw_status lw__rt_context_create_with(lw_rt_program *program, const lw_rt_context_options *options,
                                     lw_diag *diag, lw_rt_context **out) LW_MUST_CHECK;
void lw__rt_context_destroy(lw_rt_context *context);

/* Binding: device memory (|on_device|; for the CPU device the same as host memory) is used in
 * place, contiguous row-major. Kernels may rely on 16-byte alignment of every input and output, so
 * memory that is less aligned is staged, too: copied on the device around the run. |bytes| must be
 * the exact size; |data| may be NULL when it is 0. Host memory on a CUDA device is
 * staged: copied before and after the run. The context never owns bound memory. An output or input
 * that is not bound when a run starts is LW_STATUS_USAGE naming it. */
lw_status lw__rt_bind_input(lw_rt_context *context, uint32_t index, const void *data, size_t bytes,
                            bool on_device) LW_MUST_CHECK;
lw_status lw__rt_bind_output(lw_rt_context *context, uint32_t index, void *data, size_t bytes,
                             bool on_device) LW_MUST_CHECK;

/* The same for the first |bytes| of an input or output: the rest are rows that nobody wants. They
 * are computed in staging memory from anything, at first zeros. */
lw_status lw__rt_bind_rows(lw_rt_context *context, bool input, uint32_t index, void *data,
                           size_t bytes, bool on_device) LW_MUST_CHECK;

/* Runs and waits. On CUDA with memory on the device, the run begins after what the legacy default
 * stream holds; work in other streams that touches bound memory must have finished. */
lw_status lw__rt_run(lw_rt_context *context, lw_diag *diag) LW_MUST_CHECK;
/* A run in two halves, so that several contexts' uploads, runs and downloads overlap: submit begins
 * it and returns (host memory that is bound may be changed at once: it was copied), wait ends it
 * and fills the outputs. In between the context is busy. CPU and null devices run while they
 * submit. */
lw_status lw__rt_submit(lw_rt_context *context, lw_diag *diag) LW_MUST_CHECK;
lw_status lw__rt_wait(lw_rt_context *context, lw_diag *diag) LW_MUST_CHECK;
/* Puts a run into the caller's CUDA stream (CUstream; NULL: the legacy default stream) without
 * waiting; all bindings must be on the device. CPU and null devices run synchronously. Runs of one
 * context in different streams come one after the other, and destroying the context waits for them.
 * Inside the caller's stream capture the run becomes part of the caller's graph: its replays use
 * this context's memory, so they must not meet each other or other runs of it, and the context must
 * outlive them. All functions of this header may be called while streams are being captured. */
lw_status lw__rt_enqueue(lw_rt_context *context, void *stream, lw_diag *diag) LW_MUST_CHECK;

typedef struct lw_rt_stats { /* of one run */
  uint64_t kernels, library_calls, copies,
      fills; /* init program not included; staging copies counted in |staging_copies| */
  uint64_t staging_copies;
  uint64_t lanes, waits; /* lanes of the plan (at least 1), waits between them */
  uint64_t arena_bytes, weight_bytes;
  /* Of the last lw__rt_run. CUDA: event to event; CPU: wall time; 0 before. */
  int64_t last_device_ns;
  /* CUDA: from its call until all of it was handed to the driver; 0 elsewhere. */
  int64_t last_launch_ns;
} lw_rt_stats;
void lw__rt_stats(const lw_rt_context *context, lw_rt_stats *out);

typedef struct lw_rt_trace { /* of one run, by the kernels' own times */
  uint32_t kernels;
  int64_t busy_ns; /* some kernel ran */
  int64_t gap_ns;  /* none did, between the first one's begin and the last one's end */
} lw_rt_trace;
/* lw__rt_run with the times of its kernels. On CUDA the graph is built anew and run once before,
 * and one process can trace one run at a time. LW_STATUS_UNSUPPORTED where nothing can tell the
 * times. */
lw_status lw__rt_trace_run(lw_rt_context *context, lw_diag *diag, lw_rt_trace *out) LW_MUST_CHECK;
/* How often memory of the device, or an object of its driver, was made since it was opened. Host
 * memory: lw__mem_count. */
uint64_t lw__rt_allocations(const lw_rt_device *device);
/* Memory helpers for benchmarks and tests: device allocation, copies, L2 flush. On the CPU plain
 * memory. */
lw_status lw__rt_alloc(lw_rt_device *device, size_t bytes, void **out) LW_MUST_CHECK;
void lw__rt_free(lw_rt_device *device, void *ptr);
lw_status lw__rt_upload(lw_rt_device *device, void *dst, const void *src,
                        size_t bytes) LW_MUST_CHECK;
lw_status lw__rt_download(lw_rt_device *device, void *dst, const void *src,
                          size_t bytes) LW_MUST_CHECK;
/* On the device; what overlaps is undefined. The first waits; the second is work in the caller's
 * CUDA stream. */
lw_status lw__rt_copy(lw_rt_device *device, void *dst, const void *src, size_t bytes,
                      lw_diag *diag) LW_MUST_CHECK;
lw_status lw__rt_copy_in_stream(lw_rt_device *device, void *stream, void *dst, const void *src,
                                size_t bytes, lw_diag *diag) LW_MUST_CHECK;
lw_status lw__rt_flush_cache(lw_rt_device *device) LW_MUST_CHECK;

#endif

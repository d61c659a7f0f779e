/* lawson/tools.h: introspection for lawson's own command line and tests: looking into a file
 * without compiling it, the oracle, generated sources, .npy files, memory of the device.
 *
 * NOT STABLE: anything here may change with any version. Programs use lawson/lawson.h.
 *
 * Functions that can fail for reasons of the user's take a |reason| (may be NULL) for one line
 * of text. */
#ifndef LAWSON_TOOLS_H
#define LAWSON_TOOLS_H

#include <lawson/lawson.h>

#ifdef __cplusplus
extern "C" {
#endif

typedef struct lw_tools_reason {
  char text[2048];
} lw_tools_reason;

/* ---- what a model is, without compiling it ----- */

typedef struct lw_tools_port {
  const char *name, *type, *shape; /* "x", "f32", "[batch, 3]" */
} lw_tools_port;
typedef struct lw_tools_opset {
  const char *domain;
  int64_t version;
} lw_tools_opset;
typedef struct lw_tools_operator {
  const char *domain, *name;
  uint32_t count;
} lw_tools_operator;
typedef struct lw_tools_unsupported {
  const char *name, *domain; /* of the operator, or what else it is */
  int64_t opset;
  const char *node; /* the first one */
  const char *reason;
  uint32_t count; /* nodes this holds for */
} lw_tools_unsupported;
typedef struct lw_tools_summary {
  const char *producer, *producer_version, *graph_name;
  int64_t ir_version;
  const lw_tools_opset *opsets;
  const lw_tools_port *inputs, *outputs;
  const lw_tools_operator *operators; /* most frequent first */
  const lw_tools_unsupported *unsupported;
  uint32_t opset_count, input_count, output_count, operator_count, unsupported_count;
  uint32_t function_count, node_count, initializer_count;
  uint64_t initializer_bytes;
  lw_status status;    /* what loading with the same options would say before it compiles */
  const char *problem; /* its first message, or "" */
} lw_tools_summary;
/* Whether the file at |path| is a compiled plan (lw_model_save). */
LW_API int lw_tools_is_plan(const char *path);
/* LW_OK whenever the file can be read at all; the model's problems are in the summary. Reads no
 * weights, needs no device and no compiler. */
LW_API lw_status lw_tools_inspect(const char *path, const lw_options *options,
                                  lw_tools_summary **out_summary,
                                  lw_tools_reason *reason) LW_MUST_CHECK;
LW_API void lw_tools_summary_destroy(lw_tools_summary *summary);

/* ---- arrays on the host ----- */

typedef struct lw_tools_array {
  lw_dtype dtype;
  int rank;
  int64_t dims[LW_MAX_RANK];
  void *data; /* row-major, owned by the array */
  size_t bytes;
} lw_tools_array;
/* Zeroed. LW_STATUS_USAGE when the shape is none or too large. */
LW_API lw_status lw_tools_array_create(lw_dtype dtype, int rank, const int64_t *dims,
                                       lw_tools_array *out_array) LW_MUST_CHECK;
LW_API void lw_tools_array_deinit(lw_tools_array *array);
/* Floats: standard normal numbers. Integers: lo <= x < hi. Bools: 0 and 1. The same on every
 * machine. */
LW_API void lw_tools_array_randomize(lw_tools_array *array, uint64_t seed, int64_t lo, int64_t hi);
/* What can be read and what is said otherwise: src/api/npy.h. bf16 and f8 travel as raw bits in
 * uint16, uint8. */
LW_API lw_status lw_tools_npy_read(const char *path, lw_tools_array *out_array,
                                   lw_tools_reason *reason) LW_MUST_CHECK;
LW_API lw_status lw_tools_npy_write(const char *path, const lw_tools_array *array,
                                    lw_tools_reason *reason) LW_MUST_CHECK;
LW_API double lw_tools_array_get(const lw_tools_array *array, int64_t index);

typedef struct lw_tools_difference {
  int64_t count, bad, ambiguous; /* elements; outside what is allowed; not comparable */
  int64_t worst_index; /* largest error in relation to what is allowed; -1: none compared */
  double worst_got, worst_want, worst_allowed, worst_ratio;
  double max_abs_error; /* over elements compared that are finite on both sides */
} lw_tools_difference;
typedef struct lw_tools_tolerance {
  double rtol, atol; /* |got - want| <= atol + rtol * |want|, both as f64; integers: equal */
  int nan_any;       /* where NaN is wanted anything passes */
} lw_tools_tolerance;
/* Types, shapes and order of elements must be the same. */
LW_API void lw_tools_compare(const lw_tools_array *got, const lw_tools_array *want,
                             const lw_tools_tolerance *tolerance,
                             lw_tools_difference *out_difference);

/* ---- looking into a model ----- */

/* Computes the model's outputs from |inputs| one element at a time in f64, and compares
 * |outputs| to them: allowed is what rounding of the declared types explains.
 * Both in the model's order, row-major. One difference per output. LW_STATUS_CHECK_FAILED when
 * any element is bad. */
LW_API lw_status lw_tools_model_verify(lw_model *model, const lw_tools_array *inputs,
                                       const lw_tools_array *outputs,
                                       lw_tools_difference *out_differences,
                                       lw_tools_reason *reason) LW_MUST_CHECK;

typedef struct lw_tools_kernel {
  const char *name, *source;
  uint32_t block_threads, shared_bytes, registers, spill_bytes;
} lw_tools_kernel;
LW_API size_t lw_tools_model_kernel_count(const lw_model *model);
LW_API void lw_tools_model_kernel(const lw_model *model, size_t index, lw_tools_kernel *out_kernel);
LW_API lw_status lw_tools_model_plan(lw_model *model,
                                     const char **out_text) LW_MUST_CHECK; /* owned by the model */
LW_API const char *lw_tools_model_target(const lw_model *model); /* "cpu", "cuda:sm_90a" */
/* Where the plan is from: "compiled", "cache" or "file". */
LW_API const char *lw_tools_model_origin(const lw_model *model);
/* The part of lw_stats that is known without a run. */
LW_API void lw_tools_model_stats(const lw_model *model, lw_stats *out_stats);

/* ---- the cache ----- */

typedef struct lw_tools_cache_entry {
  const char *kind; /* "plan", "so", "cubin", "tool" */
  const char *name; /* of the model, of the first kernel, of the compiler */
  char key[33];
  uint64_t bytes;
  int64_t created_s, used_s; /* seconds since 1970; when it was used is known to the hour */
} lw_tools_cache_entry;
typedef struct lw_tools_cache {
  const char *folder; /* "": there is none */
  const char *mode;   /* "file", "read-only"; "memory": the folder cannot be used */
  const lw_tools_cache_entry *entries; /* most recently used first */
  size_t entry_count;
  uint64_t entry_bytes, file_bytes;
} lw_tools_cache;
/* Of the option "cache". What is wrong with the folder is in |reason| even when the call succeeds:
 * the cache is empty then. */
LW_API lw_status lw_tools_cache_read(const lw_options *options, lw_tools_cache **out_cache,
                                     lw_tools_reason *reason) LW_MUST_CHECK;
LW_API void lw_tools_cache_destroy(lw_tools_cache *cache);
typedef struct lw_tools_pruned {
  uint64_t removed, removed_bytes, left, left_bytes;
} lw_tools_pruned;
/* "500M", "2G": K, M, G and T are powers of 1024. False: no size. */
LW_API int lw_tools_parse_size(const char *text, uint64_t *out_bytes);
/* Removes what was last used before |unused_since_s|, then the least recently used entries until at
 * most |keep_bytes| are left. */
LW_API lw_status lw_tools_cache_prune(const lw_options *options, uint64_t keep_bytes,
                                      int64_t unused_since_s, lw_tools_pruned *out_pruned,
                                      lw_tools_reason *reason) LW_MUST_CHECK;

/* ---- measuring ----- */

typedef struct lw_tools_trace { /* of one run, by the times of its kernels */
  uint64_t kernels;
  double busy_us; /* some kernel ran */
  double gap_us;  /* none did, between the first one's begin and the last one's end */
} lw_tools_trace;
/* Runs as lw_context_run does (on a GPU twice). LW_STATUS_UNSUPPORTED with a reason where nothing
 * can tell the times: no CUPTI for a GPU. */
LW_API lw_status lw_tools_trace_run(lw_context *context, lw_tools_trace *out_trace,
                                    lw_tools_reason *reason) LW_MUST_CHECK;
/* How often the library asked for host memory since the process began, and for memory of the
 * model's device, or for an object of its driver, since that was opened. */
LW_API void lw_tools_allocations(const lw_model *model, uint64_t *out_host, uint64_t *out_device);

/* ---- the device ----- */

typedef struct lw_tools_device lw_tools_device;
typedef struct lw_tools_device_info {
  const char *kind, *name; /* "cuda", "NVIDIA H200" */
  const char *profile;     /* of the profile that predictions come from */
  uint32_t sm_arch, sm_count;
  uint64_t memory_bytes;
  double launch_us, dram_gbps, f32_gflops, f16_gflops; /* from the profile */
} lw_tools_device_info;
/* Opens the device the options name. Keeping one open keeps the driver's state alive between
 * models. */
LW_API lw_status lw_tools_device_open(const lw_options *options, lw_tools_device **out_device,
                                      lw_tools_reason *reason) LW_MUST_CHECK;
LW_API void lw_tools_device_close(lw_tools_device *device);
LW_API void lw_tools_device_describe(const lw_tools_device *device, lw_tools_device_info *out_info);

/* Memory on a model's device (on the CPU plain memory), and how to empty its caches before a
 * cold run. */
LW_API lw_status lw_tools_alloc(lw_model *model, size_t bytes, void **out_memory) LW_MUST_CHECK;
LW_API void lw_tools_free(lw_model *model, void *memory);
LW_API lw_status lw_tools_upload(lw_model *model, void *dst, const void *src,
                                 size_t bytes) LW_MUST_CHECK;
LW_API lw_status lw_tools_download(lw_model *model, void *dst, const void *src,
                                   size_t bytes) LW_MUST_CHECK;
LW_API lw_status lw_tools_flush_cache(lw_model *model) LW_MUST_CHECK;

#ifdef __cplusplus
}
#endif
#endif

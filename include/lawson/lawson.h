/* lawson/lawson.h: the stable C API: load an ONNX file or build a graph, compile it into fused
 * kernels, run it.
 *
 *   lw_options *o;  lw_options_create(&o);  lw_options_set(o, "device", "auto");
 *   lw_model *m;    if (lw_model_load("net.onnx", o, &m) != LW_OK) puts(lw_model_error(m));
 *   lw_context *c;  lw_context_create(m, &c);
 *   lw_context_bind_input(c, 0, &tensor);
 *   lw_context_bind_output(c, 0, &result);
 *   lw_context_run(c);
 *
 * Ownership: create/destroy come in pairs; what a function returns through a getter is borrowed and
 * lives as long as the object; memory bound to a context stays the caller's and must live until the
 * context is destroyed or rebound.
 * Errors: every call that can fail returns lw_status; text is in the object's messages. A NULL
 * where an object is needed is LW_STATUS_USAGE; destroying NULL does nothing.
 * Threads: a model may be used by several threads at once; a graph, an options object or a context
 * by one at a time.
 * Models and contexts do not refer to options after the call. A context keeps its model alive. */
#ifndef LAWSON_LAWSON_H
#define LAWSON_LAWSON_H

#include <lawson/types.h>

#ifdef __cplusplus
extern "C" {
#endif

LW_API const char *lw_version(void); /* "0.1.0" */

typedef struct lw_options lw_options;
typedef struct lw_graph lw_graph;
typedef struct lw_model lw_model;
typedef struct lw_context lw_context;

/* ---- options ----------------------------------------------------------------------------------
 * Names and values are text, the same words as on the command line. lw_options_set returns
 * LW_STATUS_USAGE for an unknown name or a value that does not fit; lw_options_error says what is
 * allowed.
 *   device         auto | cpu | cuda | cuda:N | null   where to run
 *   target         cuda:sm_90a | cuda:sm_80 ... | cpu  what to compile for; default: the device
 *   fuse           on | off               off: every node its own kernel (all passes stay on)
 *   force, forbid  fusion ids, comma separated; may be repeated
 *   policy         conservative | classic | opt-in     resource limits of kernels
 *   threads        CPU threads; 0 = all cores
 *   streams        0 to 8 | dag           lanes of a run: 0 chooses; dag: no lanes, what no
 *                                         dependence orders may run at the same time
 *   early          on | off               on: kernels of a graph are launched while those before
 *                                         them still run (from sm_90 on); default: off
 *   graphs         on | off               on: a run on a GPU is one CUDA graph; off: streams
 *   dim            NAME=N                 binds a symbolic dimension; may be repeated
 *                  NAME=1,2,4,8:64        sizes it is compiled for (8:64: 8 and its doubles up to
 *                                         64): a run takes the smallest that is large enough, and
 *                                         the exact size above the largest
 *                  NAME=auto              the same with all powers of two
 *   max_shapes     N                      most shapes of open dimensions that stay compiled (16);
 *                                         the least recently used go
 *   shape          INPUT=2x3x64x64        gives an input's shape; may be repeated
 *   state          INPUT=OUTPUT           a state: the output of a run is the input of the next (a
 *                                         cache of keys, statistics); may be repeated. auto: all
 *                                         pairs named past... and present...
 *   state_rows     N                      room of a state that grows, in rows
 *   value          INPUT=2,3,-1.5         makes an input a constant, row-major: the model has it no
 *                                         longer; for inputs that decide shapes or branches; may be
 *                                         repeated
 *   channels_last  on | off               4-D inputs and outputs are stored NHWC by the caller
 *   cache          folder for kernels and whole plans, "" = none on disk
 *   cache_limit    500M, 2G ...           beyond it the least recently used entries go; 2G
 *   plans          on | off               off: the cache keeps and gives kernels alone
 *   cc, path       C compiler, and PATH to look for it (the library reads no environment);
 *                  default: cc, gcc or clang in /usr/local/bin:/usr/bin:/bin
 *   nvrtc          path of libnvrtc
 *   cuda           path of libcuda
 *   cupti          path of libcupti, which measuring the times of kernels needs
 *   dump           after:STEP[,after:STEP]  keeps the state after these steps for lw_model_dump
 *   compile_only   on | off               stop after the kernels are built: needs no device */
LW_API lw_status lw_options_create(lw_options **out_options) LW_MUST_CHECK;
LW_API void lw_options_destroy(lw_options *options);
LW_API lw_status lw_options_set(lw_options *options, const char *name,
                                const char *value) LW_MUST_CHECK;
/* Of the last failed set; "" when none. */
LW_API const char *lw_options_error(const lw_options *options);

/* ---- models -----------------------------------------------------------------------------------
 * Dimensions of inputs that the options leave open are decided by the tensors of each run: then the
 * model is compiled for their sizes when they first come up (for a ladder of sizes: the largest
 * when it is loaded). Rows that a size has too many are computed and thrown away. A model in which
 * they could reach a result (a mean over the batch, say) is compiled for exact sizes instead, and a
 * warning says why. Loading compiles. On failure *out_model is still set (unless memory ran out)
 * and only good for messages and destroy. */
LW_API lw_status lw_model_load(const char *path, const lw_options *options,
                               lw_model **out_model) LW_MUST_CHECK;
/* |path| may also be a plan file, which is not compiled any more: options that say how to compile
 * are LW_STATUS_USAGE then, another format of plan files, another kind of device or a processor
 * without the instructions it was compiled for LW_STATUS_UNSUPPORTED. A plan file is code: load
 * only what you would run as a program. */
/* Writes the compiled model, its weights included, as a plan file. What fails is in
 * lw_model_error. */
LW_API lw_status lw_model_save(lw_model *model, const char *path) LW_MUST_CHECK;
/* Compiles a graph built with lw_graph_*; the graph is not changed and may be destroyed
 * afterwards. */
LW_API lw_status lw_model_compile(const lw_graph *graph, const lw_options *options,
                                  lw_model **out_model) LW_MUST_CHECK;
LW_API void lw_model_destroy(lw_model *model); /* contexts may outlive this call */

LW_API size_t lw_model_message_count(const lw_model *model);
LW_API const lw_message *lw_model_message(const lw_model *model, size_t index);
LW_API const char *lw_model_error(const lw_model *model); /* first error, "" when none */

typedef struct lw_tensor_info {
  const char *name;
  lw_dtype dtype;
  int rank;
  int64_t dims[LW_MAX_RANK]; /* -1: open */
} lw_tensor_info;
LW_API size_t lw_model_input_count(const lw_model *model);
LW_API size_t lw_model_output_count(const lw_model *model);
LW_API const lw_tensor_info *lw_model_input(const lw_model *model, size_t index);
LW_API const lw_tensor_info *lw_model_output(const lw_model *model, size_t index);
/* An output whose size depends on data (NonZero, NonMaxSuppression ...) has the largest size that
 * it may have; only the first entries along *out_axis count, as many as output *out_count_index, an
 * i64 scalar named "NAME#AXIS", holds after a run. False: all of it counts. */
LW_API bool lw_model_output_count_of(const lw_model *model, size_t index, size_t *out_count_index,
                                     int *out_axis);
/* The output that is the next run's input |input|; SIZE_MAX: this input is no state's. */
LW_API size_t lw_model_state_output(const lw_model *model, size_t input);
LW_API const char *lw_model_device(const lw_model *model); /* "cpu", "cuda:0", "null" */

/* JSON texts, owned by the model: what was fused and why not; the plan; "state after STEP" of
 * option dump (plain text). */
LW_API lw_status lw_model_explain(lw_model *model, const char **out_json) LW_MUST_CHECK;
LW_API lw_status lw_model_dump(lw_model *model, const char *step,
                               const char **out_text) LW_MUST_CHECK;

/* ---- running -------------------------------------------------------------------------------- */
typedef enum lw_memory { LW_MEMORY_HOST = 0, LW_MEMORY_DEVICE = 1 } lw_memory;
typedef struct lw_tensor {
  void *data;
  lw_dtype dtype;
  int rank;
  const int64_t *dims;
  /* In elements, of any sign. NULL: packed (row-major; of rank 4 with channels_last: NHWC). What is
   * not packed is copied through the host and counted in the statistics. */
  const int64_t *strides;
  lw_memory memory; /* DEVICE: on the model's device */
} lw_tensor;

/* On failure *out_context is still set (unless memory ran out) and only good for its error and
 * destroy. */
LW_API lw_status lw_context_create(lw_model *model, lw_context **out_context) LW_MUST_CHECK;
typedef struct lw_context_options {
  /* On a GPU each context has a stream of its own. Below 0: its kernels are given to the
   * multiprocessors before those of contexts with larger numbers. 0: the usual. What is beyond the
   * device's range is its end. */
  int priority;
} lw_context_options;
LW_API lw_status lw_context_create_with(lw_model *model, const lw_context_options *options,
                                        lw_context **out_context) LW_MUST_CHECK;
/* Also of one with a run in flight, which it waits for. */
LW_API void lw_context_destroy(lw_context *context);
/* Type and (logical) shape must be the model's: LW_STATUS_USAGE otherwise. Where it has open
 * dimensions shapes are compared when a run starts. */
LW_API lw_status lw_context_bind_input(lw_context *context, size_t index,
                                       const lw_tensor *tensor) LW_MUST_CHECK;
LW_API lw_status lw_context_bind_output(lw_context *context, size_t index,
                                        const lw_tensor *tensor) LW_MUST_CHECK;
/* The shape that output |index| has with the inputs that are bound; |out_dims| has room for
 * LW_MAX_RANK. With open dimensions this compiles what a run would, and decides the rank, too:
 * files declare wrong ones. */
LW_API lw_status lw_context_output_dims(lw_context *context, size_t index, int *out_rank,
                                        int64_t *out_dims) LW_MUST_CHECK;
LW_API lw_status lw_context_run(lw_context *context) LW_MUST_CHECK; /* and waits */
/* A run in two halves. Submit begins it and returns; what was bound in host memory has been copied
 * and may be changed at once. Wait ends it: only then outputs are there. Between the two every
 * other call with this context is LW_STATUS_USAGE, as it is while another thread runs the context.
 * Contexts take turns to keep a GPU busy: the uploads of the next request and the downloads of the
 * last overlap the run of this one. On the CPU submit is the run. */
LW_API lw_status lw_context_submit(lw_context *context) LW_MUST_CHECK;
LW_API lw_status lw_context_wait(lw_context *context) LW_MUST_CHECK;
/* States (option state). Their memory is the context's: inputs and outputs of states are not bound.
 * An output of the input's shape replaces it. An output that is the input and rows behind it in one
 * dimension is appended to: the run writes the new rows alone, and the next run reads as many rows
 * as the model says, the new ones last. Neither copies anything, but a growing state moves to the
 * front of its room when that ends, once in many runs.
 * Setting copies |tensor|, of the input's shape and in host memory, to what the next run reads;
 * NULL: zeros, which it is at first. Getting copies what the next run reads or, to a tensor of the
 * output's shape, what the last one left. */
LW_API lw_status lw_context_set_state(lw_context *context, size_t input,
                                      const lw_tensor *tensor) LW_MUST_CHECK;
LW_API lw_status lw_context_get_state(lw_context *context, size_t input,
                                      const lw_tensor *tensor) LW_MUST_CHECK;
/* Puts one run into |cuda_stream| (CUstream; NULL: legacy default stream) and returns; all
 * tensors must be on the device. Runs of one context in several streams come one after the other;
 * destroying the context waits for them. While the stream is being captured the run becomes part
 * of the caller's graph, whose replays use the context's memory: the context must outlive the
 * graph, and replays and other runs of the context must not meet. Any other function may be called
 * during a capture, too. */
LW_API lw_status lw_context_enqueue(lw_context *context, void *cuda_stream) LW_MUST_CHECK;
LW_API const char *lw_context_error(const lw_context *context);

typedef struct lw_stats {
  uint64_t kernels, library_calls, copies, fills, staging_copies; /* of one run */
  uint64_t arena_bytes, weight_bytes;
  uint64_t traffic_bytes;                 /* predicted global memory bytes of all kernels */
  uint64_t kernels_built, kernels_cached; /* distinct kernels compiled now, taken from the cache */
  double compile_s;                       /* whole of lw_model_load or lw_model_compile */
  double last_device_us;                  /* device time of the last lw_context_run */
  uint64_t groups_split; /* taken apart: their kernel was rejected by the compiler, refused by the
                            device, or spilled registers */
  uint64_t lanes, waits;                  /* lanes of a run (at least 1), waits between them */
  double last_launch_us; /* of the last lw_context_run on a GPU: until all of it was handed to the
                            driver; 0: not measured */
  uint64_t live_bytes; /* most bytes of the arena in use at once: a lower bound of arena_bytes */
} lw_stats;
LW_API void lw_context_stats(const lw_context *context, lw_stats *out_stats);

/* Shapes of open dimensions; 1 everywhere where none is open. */
typedef struct lw_shape_stats {
  uint64_t compiled; /* shapes that the model was compiled for so far, by all contexts */
  uint64_t kept;     /* those that it still has */
  uint64_t ready; /* those that this context runs without further ado: on a GPU each is a graph */
  uint64_t made;     /* how many the context had to make ready so far */
} lw_shape_stats;
LW_API void lw_context_shape_stats(const lw_context *context, lw_shape_stats *out_stats);

/* ---- building a graph by hand -----------------------------------------------------------------
 * Values are small numbers. Shapes follow ONNX/numpy rules; element-wise operators broadcast.
 * Negative axes count from the end. Inputs need names, each its own; so do outputs.
 * Errors explain themselves in lw_graph_error. */
LW_API lw_status lw_graph_create(lw_graph **out_graph) LW_MUST_CHECK;
LW_API void lw_graph_destroy(lw_graph *graph);
LW_API const char *lw_graph_error(const lw_graph *graph);
LW_API lw_status lw_graph_add_input(lw_graph *graph, const char *name, lw_dtype dtype, int rank,
                                    const int64_t *dims, uint32_t *out_value) LW_MUST_CHECK;
/* The data is copied, row-major. */
LW_API lw_status lw_graph_add_constant(lw_graph *graph, lw_dtype dtype, int rank,
                                       const int64_t *dims, const void *data,
                                       uint32_t *out_value) LW_MUST_CHECK;
/* |name|: a scalar function, with one to three operands of one shape after broadcasting:
 *   add sub mul div mod rem min max pow atan2 neg abs sign
 *   floor ceil round trunc recip sqrt rsqrt exp expm1 log log1p erf tanh sigmoid
 *   sin cos tan asin acos atan sinh cosh asinh acosh atanh
 *   eq ne lt le gt ge isnan isinf (bool results), not and or xor (bools)
 *   bitnot bitand bitor bitxor shl shr (integers), select (bool, then, else)
 * Operands have one type; lw_graph_add_cast changes types. */
LW_API lw_status lw_graph_add_map(lw_graph *graph, const char *name, const uint32_t *operands,
                                  size_t count, uint32_t *out_value) LW_MUST_CHECK;
/* The names above, one by one: NULL beyond the last one. */
LW_API const char *lw_map_function_name(size_t index);
LW_API lw_status lw_graph_add_cast(lw_graph *graph, uint32_t operand, lw_dtype to,
                                   uint32_t *out_value) LW_MUST_CHECK;
LW_API lw_status lw_graph_add_reshape(lw_graph *graph, uint32_t operand, int rank,
                                      const int64_t *dims, uint32_t *out_value) LW_MUST_CHECK;
/* Result dimension d is dimension perm[d] of the operand; NULL: all reversed. */
LW_API lw_status lw_graph_add_transpose(lw_graph *graph, uint32_t operand, const int *perm,
                                        uint32_t *out_value) LW_MUST_CHECK;
/* |name|: "sum", "prod", "max", "min", "any" or "all" (bools); keeps reduced dims as 1 when
 * |keep_dims|. No axes: all of them. */
LW_API lw_status lw_graph_add_reduce(lw_graph *graph, const char *name, uint32_t operand,
                                     const int *axes, size_t axis_count, int keep_dims,
                                     uint32_t *out_value) LW_MUST_CHECK;
LW_API lw_status lw_graph_add_matmul(lw_graph *graph, uint32_t a, uint32_t b,
                                     uint32_t *out_value) LW_MUST_CHECK;
LW_API lw_status lw_graph_add_relu(lw_graph *graph, uint32_t operand,
                                   uint32_t *out_value) LW_MUST_CHECK;
LW_API lw_status lw_graph_add_gelu(lw_graph *graph, uint32_t operand, int tanh_form,
                                   uint32_t *out_value) LW_MUST_CHECK;
LW_API lw_status lw_graph_add_softmax(lw_graph *graph, uint32_t operand, int axis,
                                      uint32_t *out_value) LW_MUST_CHECK;
/* Over the last |axis_count| dims; scale and bias UINT32_MAX: absent. */
LW_API lw_status lw_graph_add_layer_norm(lw_graph *graph, uint32_t operand, int axis_count,
                                         double epsilon, uint32_t scale, uint32_t bias,
                                         uint32_t *out_value) LW_MUST_CHECK;
/* Outputs come in the order of these calls. */
LW_API lw_status lw_graph_add_output(lw_graph *graph, uint32_t value,
                                     const char *name) LW_MUST_CHECK;

#ifdef __cplusplus
}
#endif
#endif

/* ort.c: one model in turn with lawson and with ONNX Runtime on the CPU, in one process,
 * both through their C interfaces, on the same inputs, outputs bound beforehand. Prints the
 * shortest time of each in microseconds and the largest difference between their results. Usage:
 * bench_ort LIBONNXRUNTIME THREADS SECONDS MODEL INPUT.npy ... bench/ort.py runs it
 * over many models and makes a table. */
#include <dlfcn.h>
#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>

#include <lawson/lawson.h>
#include <lawson/tools.h>

enum { ports_max = 32, rounds_least = 5 };
#define ROUND_S 0.05
/* Idle threads of ONNX Runtime spin for a while. */
#define PAUSE_NS 30000000

/* ---- ONNX Runtime's interface -----------------------------------------------------------------*/

/* A table of functions whose order never changes; these are the places of those used here. */
enum {
  ort_get_error_message = 2,
  ort_create_env = 3,
  ort_create_session = 7,
  ort_run = 9,
  ort_create_session_options = 10,
  ort_set_intra_threads = 24,
  ort_set_inter_threads = 25,
  ort_create_tensor_with_data = 49,
  ort_create_cpu_memory_info = 69,
};
enum { ort_api_version = 17, ort_log_errors = 3, ort_device_allocator = 0, ort_default_memory = 0 };

typedef struct ort_base {
  void *const *(*get_api)(uint32_t version);
  const char *(*get_version)(void);
} ort_base;

/* Calls function |index| of the table with the given types of arguments. */
#define ORT(b, index, types, ...) \
  ort_check((b), ((void *(*)types)(uintptr_t)(b)->ort[index])(__VA_ARGS__))

typedef struct bench {
  int threads;
  double seconds;
  const char *path;
  lw_tools_array inputs[ports_max], outputs[ports_max], ort_outputs[ports_max];
  const char *input_names[ports_max], *output_names[ports_max];
  size_t input_count, output_count;
  lw_options *options;
  lw_model *model;
  lw_context *context;
  void *const *ort;
  void *session, *ort_in[ports_max], *ort_out[ports_max];
} bench;

static _Noreturn void fail(const char *what, const char *text) {
  fprintf(stderr, "%s: %s\n", what, text);
  exit(1);
}

static void ort_check(const bench *b, void *status) {
  if (status == NULL) return;
  fail("ONNX Runtime",
       ((const char *(*)(const void *))(uintptr_t)b->ort[ort_get_error_message])(status));
}

static int ort_type(lw_dtype dtype) {
  static const int types[LW_DTYPE_COUNT] = {
      [LW_DTYPE_F32] = 1,  [LW_DTYPE_U8] = 2,   [LW_DTYPE_I8] = 3,   [LW_DTYPE_U16] = 4,
      [LW_DTYPE_I16] = 5,  [LW_DTYPE_I32] = 6,  [LW_DTYPE_I64] = 7,  [LW_DTYPE_BOOL] = 9,
      [LW_DTYPE_F16] = 10, [LW_DTYPE_F64] = 11, [LW_DTYPE_U32] = 12, [LW_DTYPE_U64] = 13,
      [LW_DTYPE_BF16] = 16};
  return types[dtype];
}

static void *ort_tensor(const bench *b, const void *memory, lw_tools_array *array) {
  void *value = NULL;
  ORT(b, ort_create_tensor_with_data,
      (const void *, void *, size_t, const int64_t *, size_t, int, void **), memory, array->data,
      array->bytes, array->dims, (size_t)array->rank, ort_type(array->dtype), &value);
  return value;
}

static void open_ort(bench *b, const char *library) {
  void *handle = dlopen(library, RTLD_NOW | RTLD_LOCAL);
  if (handle == NULL) fail(library, dlerror());
  const ort_base *(*get_base)(void) =
      (const ort_base *(*)(void))(uintptr_t)dlsym(handle, "OrtGetApiBase");
  if (get_base == NULL) fail(library, "not ONNX Runtime");
  b->ort = get_base()->get_api(ort_api_version);
  if (b->ort == NULL) fail(library, "too old");
  void *env = NULL, *options = NULL, *memory = NULL;
  ORT(b, ort_create_env, (int, const char *, void **), ort_log_errors, "bench", &env);
  ORT(b, ort_create_session_options, (void **), &options);
  ORT(b, ort_set_intra_threads, (void *, int), options, b->threads);
  ORT(b, ort_set_inter_threads, (void *, int), options, 1);
  ORT(b, ort_create_session, (void *, const char *, void *, void **), env, b->path, options,
      &b->session);
  ORT(b, ort_create_cpu_memory_info, (int, int, void **), ort_device_allocator, ort_default_memory,
      &memory);
  for (size_t i = 0; i < b->input_count; i++) b->ort_in[i] = ort_tensor(b, memory, &b->inputs[i]);
  for (size_t i = 0; i < b->output_count; i++)
    b->ort_out[i] = ort_tensor(b, memory, &b->ort_outputs[i]);
}

static void run_ort(bench *b) {
  ORT(b, ort_run,
      (void *, void *, const char *const *, void *const *, size_t, const char *const *, size_t,
       void **),
      b->session, NULL, b->input_names, b->ort_in, b->input_count, b->output_names, b->output_count,
      b->ort_out);
}

/* ---- lawson -----------------------------------------------------------------------------------*/

static void set_option(bench *b, const char *name, const char *value) {
  if (lw_options_set(b->options, name, value) != LW_OK) fail(name, lw_options_error(b->options));
}

static void set_shape(bench *b, size_t i) {
  char text[512];
  int at = snprintf(text, sizeof text, "%s=", b->input_names[i]);
  for (int d = 0; d < b->inputs[i].rank && at > 0 && (size_t)at < sizeof text; d++)
    at += snprintf(text + at, sizeof text - (size_t)at, "%s%lld", d == 0 ? "" : "x",
                   (long long)b->inputs[i].dims[d]);
  if (b->inputs[i].rank > 0) set_option(b, "shape", text);
}

static lw_tensor tensor_of(const lw_tools_array *array) {
  return (lw_tensor){
      .data = array->data, .dtype = array->dtype, .rank = array->rank, .dims = array->dims};
}

static void check(const bench *b, lw_status status) {
  if (status != LW_OK) fail("lawson", b->context ? lw_context_error(b->context) : "fails");
}

static void open_outputs(bench *b) {
  b->output_count = lw_model_output_count(b->model);
  if (b->output_count > ports_max) fail(b->path, "too many outputs");
  for (size_t i = 0; i < b->output_count; i++) {
    const lw_tensor_info *info = lw_model_output(b->model, i);
    b->output_names[i] = info->name;
    if (lw_tools_array_create(info->dtype, info->rank, info->dims, &b->outputs[i]) != LW_OK ||
        lw_tools_array_create(info->dtype, info->rank, info->dims, &b->ort_outputs[i]) != LW_OK)
      fail(b->path, "no memory for outputs");
  }
}

static void open_lawson(bench *b) {
  char threads[16];
  lw_tools_summary *summary;
  lw_tools_reason reason;
  (void)snprintf(threads, sizeof threads, "%d", b->threads);
  if (lw_options_create(&b->options) != LW_OK) fail("lawson", "no memory");
  set_option(b, "device", "cpu");
  set_option(b, "threads", threads);
  if (lw_tools_inspect(b->path, b->options, &summary, &reason) != LW_OK)
    fail(b->path, "cannot be read");
  if (summary->input_count != b->input_count) fail(b->path, "another number of inputs");
  for (size_t i = 0; i < b->input_count; i++) {
    b->input_names[i] = strdup(summary->inputs[i].name);
    set_shape(b, i);
  }
  lw_tools_summary_destroy(summary);
  if (lw_model_load(b->path, b->options, &b->model) != LW_OK)
    fail(b->path, b->model ? lw_model_error(b->model) : "fails");
  open_outputs(b);
  check(b, lw_context_create(b->model, &b->context));
  for (size_t i = 0; i < b->input_count; i++) {
    const lw_tensor tensor = tensor_of(&b->inputs[i]);
    check(b, lw_context_bind_input(b->context, i, &tensor));
  }
  for (size_t i = 0; i < b->output_count; i++) {
    const lw_tensor tensor = tensor_of(&b->outputs[i]);
    check(b, lw_context_bind_output(b->context, i, &tensor));
  }
}

static void run_lawson(bench *b) { check(b, lw_context_run(b->context)); }

/* ---- measuring --------------------------------------------------------------------------------*/

static double now_s(void) {
  struct timespec t;
  clock_gettime(CLOCK_MONOTONIC, &t);
  return (double)t.tv_sec + 1e-9 * (double)t.tv_nsec;
}

/* Runs for a while; the shortest. */
static void measure(bench *b, void (*run)(bench *), double *best) {
  double start = now_s(), last = start;
  run(b); /* awake */
  do {
    double before = now_s();
    run(b);
    last = now_s();
    if (last - before < *best) *best = last - before;
  } while (last - start < ROUND_S);
  nanosleep(&(struct timespec){.tv_nsec = PAUSE_NS}, NULL);
}

/* In relation to the largest result. */
static double difference(const bench *b) {
  double most = 0;
  for (size_t i = 0; i < b->output_count; i++) {
    double scale = 0, apart = 0;
    int64_t count = 1;
    for (int d = 0; d < b->outputs[i].rank; d++) count *= b->outputs[i].dims[d];
    for (int64_t e = 0; e < count; e++) {
      double x = lw_tools_array_get(&b->outputs[i], e),
             y = lw_tools_array_get(&b->ort_outputs[i], e);
      scale = fmax(scale, fabs(y));
      apart = fmax(apart, fabs(x - y));
    }
    if (scale > 0) most = fmax(most, apart / scale);
  }
  return most;
}

int main(int argc, char **argv) {
  if (argc < 5) fail("usage", "bench_ort LIBONNXRUNTIME THREADS SECONDS MODEL INPUT.npy ...");
  bench b = {.threads = atoi(argv[2]), .seconds = atof(argv[3]), .path = argv[4]};
  for (int i = 5; i < argc && b.input_count < ports_max; i++) {
    lw_tools_reason reason;
    if (lw_tools_npy_read(argv[i], &b.inputs[b.input_count++], &reason) != LW_OK)
      fail(argv[i], "cannot be read");
  }
  open_lawson(&b);
  open_ort(&b, argv[1]);
  double lawson = 1e30, ort = 1e30, start = now_s();
  for (int round = 0; round < rounds_least || now_s() - start < b.seconds; round++) {
    measure(&b, run_lawson, &lawson);
    measure(&b, run_ort, &ort);
  }
  printf("%.2f %.2f %.2g\n", lawson * 1e6, ort * 1e6, difference(&b));
  return 0;
}

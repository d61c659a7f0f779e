/* cuda_standin.c: a look-alike of the CUDA driver library for tests without a GPU. Device memory is
 * host memory, a stream is a list of operations that run only when somebody waits for it, and every
 * promise that a caller must keep is checked: a current context, valid handles, ranges inside
 * allocations, nothing forbidden during a capture. Any call can be made to fail. One thread at a
 * time. */
#include "standin/standin.h"

#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include <dlfcn.h>
#include <unistd.h>

#include "runtime/cuda/driver.h"
#include "standin/simt.h"
#include "standin/translate.h"

/* Names and types must be those that the runtime looks for. */
#define DECLARE(name, symbol, parameters) \
  __attribute__((visibility("default"))) lw_cu_result symbol parameters;
LW_CU_SYMBOLS(DECLARE)
LW_CU_OPTIONAL_SYMBOLS(DECLARE)
#undef DECLARE
__attribute__((visibility("default"))) lw_standin_state *lw_standin(void);

enum {
  INVALID_VALUE = 1,
  INVALID_CONTEXT = 201,
  INVALID_HANDLE = 400,
  NOT_FOUND = 500,
  NOT_READY = 600
};

static lw_standin_state standin = {
    .device_count = 1, .arch_major = 9, .arch_minor = 0, .driver_version = 12040};

lw_standin_state *lw_standin(void) { return &standin; }

/* ---- bookkeeping ---- */

static void __attribute__((format(printf, 1, 2))) violation(const char *fmt, ...) {
  va_list args;
  va_start(args, fmt);
  if (standin.violations++ == 0) vsnprintf(standin.violation, sizeof standin.violation, fmt, args);
  va_end(args);
}

/* Counts the call; true when it is the one to fail. */
static bool injected(bool cleanup) {
  standin.calls++;
  if (standin.fail_at == 0 || --standin.fail_at != 0) return false;
  standin.failed_call_is_cleanup = cleanup;
  return true;
}

#define CALL()                                     \
  do {                                             \
    if (injected(false)) return standin.fail_code; \
  } while (0)
/* An injected failure of a cleanup is reported after the work was done: nobody could do it again.
 */
#define CLEANUP() bool fails = injected(true)
#define CLEANED() return fails ? standin.fail_code : 0
#define NEEDS_CONTEXT(call)                    \
  do {                                         \
    if (standin.context_depth == 0) {          \
      violation("%s without a context", call); \
      return INVALID_CONTEXT;                  \
    }                                          \
  } while (0)
#define NOT_IN_CAPTURE(call)                                       \
  do {                                                             \
    if (standin.capturing) violation("%s during a capture", call); \
  } while (0)

typedef struct block {
  struct block *next;
  char *memory;
  size_t bytes;
} block;
static block *blocks;

static bool in_device(lw_cu_address address, size_t bytes) {
  for (const block *b = blocks; b != NULL; b = b->next) {
    lw_cu_address start = (lw_cu_address)(uintptr_t)b->memory;
    if (address >= start && address - start <= b->bytes && bytes <= b->bytes - (address - start))
      return true;
  }
  return false;
}

static void need_device(const char *call, lw_cu_address address, size_t bytes) {
  if (!in_device(address, bytes))
    violation("%s: %zu bytes at %#llx are no device memory", call, bytes, address);
}

static void *pointer(lw_cu_address address) { return (void *)(uintptr_t)address; }

/* ---- objects ---- */

struct lw_cu_stream_object {
  int alive;
};
struct lw_cu_event_object {
  int alive, recorded, done;
  lw_cu_stream stream; /* of the last record */
};
struct lw_cu_module_object {
  int alive;
  void *handle; /* of compiled source; NULL: the built-in functions */
  struct lw_cu_function_object *first;
};
struct lw_cu_function_object {
  int which, shared_limit; /* |which| is -1 for compiled source */
  int parameters, threads_max, meets;
  void (*call)(const uint64_t *parameters);
  struct lw_cu_function_object *next;
};
struct lw_cu_context_object {
  int unused;
};

/* Objects of a context that an error broke are never destroyed; here they stay reachable for leak
 * checkers. */
typedef struct object {
  struct object *next;
  void *memory;
} object;
static object *objects;

static void *make_object(size_t bytes) {
  object *o = malloc(sizeof *o);
  *o = (object){.next = objects, .memory = calloc(1, bytes)};
  objects = o;
  return o->memory;
}

static void free_object(void *memory) {
  for (object **at = &objects; *at != NULL; at = &(*at)->next) {
    object *o = *at;
    if (o->memory != memory) continue;
    *at = o->next;
    free(o->memory);
    free(o);
    return;
  }
  violation("destroyed an object that does not exist");
}

static struct lw_cu_context_object the_context;
static struct lw_cu_function_object functions[2] = {
    {.which = 0, .parameters = 4, .threads_max = 1024},
    {.which = 1, .parameters = 3, .threads_max = 1024}};
static const char *const function_names[2] = {"lw_map_scale", "lw_map_add"};

/* ---- streams ---- */

typedef enum op_kind { OP_COPY, OP_FILL, OP_LAUNCH, OP_EVENT, OP_WAIT } op_kind;
typedef struct op {
  struct op *next;
  op_kind kind;
  lw_cu_stream stream;
  void *to;
  const void *from;
  size_t bytes;
  unsigned char value;
  lw_cu_function function;
  unsigned int grid;
  unsigned int block, shared_bytes;
  uint64_t *parameters;
  lw_cu_event event;
  lw_cu_stream other; /* OP_WAIT: the stream whose event is waited for */
} op;
static op *first_op;

static void put(op operation) {
  op *copy = malloc(sizeof *copy);
  *copy = operation;
  copy->next = NULL;
  op **end = &first_op;
  while (*end != NULL) end = &(*end)->next;
  *end = copy;
}

static void run_compiled(const op *o) {
  static unsigned order; /* forward and backward by turns: results must not depend on it */
  simt_launch launch = {.call = o->function->call,
                        .parameters = o->parameters,
                        .grid = o->grid,
                        .block = o->block,
                        .shared_bytes = o->shared_bytes,
                        .meets = o->function->meets,
                        .order = order++};
  const char *wrong = simt_run(&launch);
  if (wrong != NULL) violation("kernel: %s", wrong);
}

static void run_kernel(const op *o) {
  if (o->function->which < 0) {
    run_compiled(o);
    return;
  }
  float *y = pointer(o->parameters[0]);
  const float *a = pointer(o->parameters[1]), *b = pointer(o->parameters[2]);
  need_device("kernel", o->parameters[0], o->grid * 16ul);
  need_device("kernel", o->parameters[1], o->grid * 16ul);
  if (o->function->which == 1) need_device("kernel", o->parameters[2], o->grid * 16ul);
  for (size_t i = 0; i < o->grid * 4ul; i++) {
    y[i] = o->function->which == 1
               ? a[i] + b[i]
               : a[i] * (float)(int64_t)o->parameters[2] + (float)(int64_t)o->parameters[3];
  }
}

static void run(const op *o) {
  if (o->kind == OP_COPY) memmove(o->to, o->from, o->bytes);
  if (o->kind == OP_FILL) memset(o->to, o->value, o->bytes);
  if (o->kind == OP_LAUNCH) run_kernel(o);
  if (o->kind == OP_EVENT) o->event->done = 1;
}

/* |every|: of all streams. */
static void drain(lw_cu_stream stream, bool every, bool execute) {
  op **at = &first_op;
  while (*at != NULL) {
    op *o = *at;
    if (!every && o->stream != stream) {
      at = &o->next;
      continue;
    }
    if (o->kind != OP_WAIT && execute) run(o);
    *at = o->next;
    bool waits = o->kind == OP_WAIT && execute && o->other != o->stream;
    lw_cu_stream other = o->other;
    free(o->parameters);
    free(o);
    if (!waits) continue;
    drain(other, false, true);
    at = &first_op; /* the list is another one now */
  }
}

static bool good_stream(const char *call, lw_cu_stream stream) {
  if (stream == NULL || stream->alive == 1) return true;
  violation("%s: no such stream", call);
  return false;
}

/* ---- the driver's functions ---- */

int cuInit(unsigned int flags) {
  CALL();
  return flags == 0 ? 0 : INVALID_VALUE;
}

int cuDriverGetVersion(int *version) {
  CALL();
  *version = standin.driver_version;
  return 0;
}

int cuGetErrorName(int error, const char **name) {
  *name = error == 77 ? "CUDA_ERROR_STANDIN" : NULL;
  return error == 77 ? 0 : INVALID_VALUE;
}

int cuDeviceGetCount(int *count) {
  CALL();
  *count = standin.device_count;
  return 0;
}

int cuDeviceGet(int *device, int ordinal) {
  CALL();
  *device = ordinal;
  return ordinal < standin.device_count ? 0 : INVALID_VALUE;
}

int cuDeviceGetName(char *name, int bytes, int device) {
  CALL();
  snprintf(name, (size_t)bytes, "stand-in %d", device);
  return 0;
}

int cuDeviceTotalMem_v2(size_t *bytes, int device) {
  CALL();
  (void)device;
  *bytes = 1 << 30;
  return 0;
}

int cuDeviceGetAttribute(int *value, int attribute, int device) {
  CALL();
  (void)device;
  switch (attribute) {
    case LW_CU_DEVICE_MAJOR: *value = standin.arch_major; return 0;
    case LW_CU_DEVICE_MINOR: *value = standin.arch_minor; return 0;
    case LW_CU_DEVICE_SM_COUNT: *value = 4; return 0;
    case LW_CU_DEVICE_L2_BYTES: *value = 1 << 16; return 0;
    default: return INVALID_VALUE;
  }
}

int cuDevicePrimaryCtxRetain(lw_cu_context *context, int device) {
  CALL();
  (void)device;
  standin.retains++;
  *context = &the_context;
  return 0;
}

int cuDevicePrimaryCtxRelease_v2(int device) {
  CLEANUP();
  (void)device;
  if (standin.retains == 0) violation("released more often than retained");
  standin.retains--;
  CLEANED();
}

int cuCtxPushCurrent_v2(lw_cu_context context) {
  if (injected(false)) {
    standin.failed_call_is_push = 1;
    return standin.fail_code;
  }
  if (context != &the_context || standin.retains == 0) {
    violation("pushed a context that is not retained");
    return INVALID_CONTEXT;
  }
  standin.context_depth++;
  return 0;
}

int cuCtxPopCurrent_v2(lw_cu_context *context) {
  CLEANUP();
  if (standin.context_depth == 0) {
    violation("popped without a push");
    return INVALID_CONTEXT;
  }
  standin.context_depth--;
  *context = &the_context;
  CLEANED();
}

/* Compiles |source| for the host; NULL when the C compiler does not take it. */
static void *compile(const char *source) {
  char dir[] = "/tmp/lawson-standin-XXXXXX", path[64], command[512];
  if (mkdtemp(dir) == NULL) return NULL;
  lw_text text = {0};
  lw_standin_translate(source, &text);
  snprintf(path, sizeof path, "%s/k.c", dir);
  void *handle = NULL;
  if (text.status == LW_OK && lw__file_write(path, text.data, text.len, NULL) == LW_OK) {
    snprintf(command, sizeof command,
             "cc -O1 -w -ffp-contract=off -std=gnu17 -shared -fPIC -I%s -include standin/shim.h -o "
             "%s/k.so %s -lm",
             LW_STANDIN_TESTS, dir, path);
    if (system(command) == 0) {
      snprintf(path, sizeof path, "%s/k.so", dir);
      handle = dlopen(path, RTLD_NOW | RTLD_LOCAL);
      if (handle == NULL) fprintf(stderr, "%s\n", dlerror());
    }
  }
  lw__text_deinit(&text);
  snprintf(command, sizeof command, "rm -rf %s", dir);
  if (system(command) != 0) violation("cannot remove %s", dir);
  return handle;
}

/* Sources that were compiled stay loaded: many programs use the kernels of one unit. */
typedef struct compiled {
  struct compiled *next;
  lw_hash hash;
  void *handle;
} compiled;
static compiled *compiled_sources;

static void bind_host(void *handle) {
  void (*bind)(const struct standin_host *host);
  void *symbol = dlsym(handle, "standin_bind");
  memcpy(&bind, &symbol, sizeof symbol);
  bind(simt_host());
}

static void *compile_once(const char *source) {
  lw_hash hash = lw__hash_bytes(source, strlen(source), (lw_hash){0, 0});
  for (const compiled *c = compiled_sources; c != NULL; c = c->next) {
    if (lw__hash_eq(c->hash, hash)) return c->handle;
  }
  void *handle = compile(source);
  if (handle == NULL) return NULL;
  bind_host(handle);
  compiled *c = malloc(sizeof *c);
  *c = (compiled){.next = compiled_sources, .hash = hash, .handle = handle};
  compiled_sources = c;
  return handle;
}

int cuModuleLoadData(lw_cu_module *module, const void *image) {
  CALL();
  NEEDS_CONTEXT("cuModuleLoadData");
  NOT_IN_CAPTURE("cuModuleLoadData");
  void *handle = NULL;
  if (strncmp(image, LW_STANDIN_SOURCE, strlen(LW_STANDIN_SOURCE)) == 0) {
    handle = compile_once((const char *)image + strlen(LW_STANDIN_SOURCE));
    if (handle == NULL) return 218;
  } else if (strcmp(image, LW_STANDIN_IMAGE) != 0) {
    return 200;
  }
  *module = make_object(sizeof **module);
  (*module)->alive = 1;
  (*module)->handle = handle;
  standin.live_modules++;
  return 0;
}

int cuModuleUnload(lw_cu_module module) {
  CLEANUP();
  NEEDS_CONTEXT("cuModuleUnload");
  drain(NULL, true, true);
  while (module->first != NULL) {
    struct lw_cu_function_object *next = module->first->next;
    free_object(module->first);
    module->first = next;
  }
  free_object(module);
  standin.live_modules--;
  CLEANED();
}

static int find_compiled(lw_cu_function *function, lw_cu_module module, const char *name) {
  char symbol_name[200];
  snprintf(symbol_name, sizeof symbol_name, "standin_call_%s", name);
  void *call = dlsym(module->handle, symbol_name);
  snprintf(symbol_name, sizeof symbol_name, "standin_facts_%s", name);
  const int *facts = dlsym(module->handle, symbol_name);
  if (call == NULL || facts == NULL) return NOT_FOUND;
  struct lw_cu_function_object *f = make_object(sizeof *f);
  *f = (struct lw_cu_function_object){.which = -1,
                                      .shared_limit = 48 << 10,
                                      .parameters = facts[0],
                                      .threads_max = facts[1],
                                      .meets = facts[2],
                                      .next = module->first};
  memcpy(&f->call, &call, sizeof call);
  module->first = f;
  *function = f;
  return 0;
}

int cuModuleGetFunction(lw_cu_function *function, lw_cu_module module, const char *name) {
  CALL();
  NEEDS_CONTEXT("cuModuleGetFunction");
  if (module->alive != 1) violation("function of a dead module");
  if (module->handle != NULL) return find_compiled(function, module, name);
  for (int i = 0; i < 2; i++) {
    if (strcmp(name, function_names[i]) != 0) continue;
    functions[i].shared_limit = 48 << 10;
    *function = &functions[i];
    return 0;
  }
  return NOT_FOUND;
}

int cuFuncLoad(lw_cu_function function) {
  CALL();
  NEEDS_CONTEXT("cuFuncLoad");
  (void)function;
  return 0;
}

int cuFuncGetAttribute(int *value, int attribute, lw_cu_function function) {
  CALL();
  NEEDS_CONTEXT("cuFuncGetAttribute");
  if (attribute != LW_CU_FUNCTION_MAX_THREADS) return INVALID_VALUE;
  *value = function->threads_max;
  return 0;
}

int cuFuncSetAttribute(lw_cu_function function, int attribute, int value) {
  CALL();
  NEEDS_CONTEXT("cuFuncSetAttribute");
  if (attribute != LW_CU_FUNCTION_MAX_DYNAMIC_SHARED || value > 232448) return INVALID_VALUE;
  function->shared_limit = value;
  return 0;
}

int cuMemAlloc_v2(lw_cu_address *address, size_t bytes) {
  CALL();
  NEEDS_CONTEXT("cuMemAlloc");
  NOT_IN_CAPTURE("cuMemAlloc");
  if (bytes == 0) return INVALID_VALUE;
  if (bytes > 1 << 30) return 2;
  block *b = malloc(sizeof *b);
  *b = (block){
      .next = blocks, .memory = aligned_alloc(256, (bytes + 255) / 256 * 256), .bytes = bytes};
  memset(b->memory, 0xff, bytes); /* NaNs */
  blocks = b;
  standin.live_memory++;
  *address = (lw_cu_address)(uintptr_t)b->memory;
  return 0;
}

int cuMemFree_v2(lw_cu_address address) {
  CLEANUP();
  NEEDS_CONTEXT("cuMemFree");
  NOT_IN_CAPTURE("cuMemFree");
  drain(NULL, true, true);
  for (block **at = &blocks; *at != NULL; at = &(*at)->next) {
    block *b = *at;
    if (b->memory != pointer(address)) continue;
    *at = b->next;
    free(b->memory);
    free(b);
    standin.live_memory--;
    CLEANED();
  }
  violation("freed what was not allocated");
  return INVALID_VALUE;
}

int cuMemcpyHtoDAsync_v2(lw_cu_address to, const void *from, size_t bytes, lw_cu_stream stream) {
  CALL();
  NEEDS_CONTEXT("cuMemcpyHtoDAsync");
  NOT_IN_CAPTURE("cuMemcpyHtoDAsync");
  need_device("cuMemcpyHtoDAsync", to, bytes);
  if (!good_stream("cuMemcpyHtoDAsync", stream)) return INVALID_HANDLE;
  put((op){.kind = OP_COPY, .stream = stream, .to = pointer(to), .from = from, .bytes = bytes});
  return 0;
}

int cuMemcpyDtoHAsync_v2(void *to, lw_cu_address from, size_t bytes, lw_cu_stream stream) {
  CALL();
  NEEDS_CONTEXT("cuMemcpyDtoHAsync");
  NOT_IN_CAPTURE("cuMemcpyDtoHAsync");
  need_device("cuMemcpyDtoHAsync", from, bytes);
  if (!good_stream("cuMemcpyDtoHAsync", stream)) return INVALID_HANDLE;
  put((op){.kind = OP_COPY, .stream = stream, .to = to, .from = pointer(from), .bytes = bytes});
  return 0;
}

int cuMemcpyDtoDAsync_v2(lw_cu_address to, lw_cu_address from, size_t bytes, lw_cu_stream stream) {
  CALL();
  NEEDS_CONTEXT("cuMemcpyDtoDAsync");
  need_device("cuMemcpyDtoDAsync", to, bytes);
  need_device("cuMemcpyDtoDAsync", from, bytes);
  if (!good_stream("cuMemcpyDtoDAsync", stream)) return INVALID_HANDLE;
  standin.copies++;
  put((op){
      .kind = OP_COPY, .stream = stream, .to = pointer(to), .from = pointer(from), .bytes = bytes});
  return 0;
}

int cuMemsetD8Async(lw_cu_address to, unsigned char value, size_t count, lw_cu_stream stream) {
  CALL();
  NEEDS_CONTEXT("cuMemsetD8Async");
  need_device("cuMemsetD8Async", to, count);
  if (!good_stream("cuMemsetD8Async", stream)) return INVALID_HANDLE;
  standin.fills++;
  put((op){.kind = OP_FILL, .stream = stream, .to = pointer(to), .bytes = count, .value = value});
  return 0;
}

int cuStreamCreate(lw_cu_stream *stream, unsigned int flags) {
  CALL();
  NEEDS_CONTEXT("cuStreamCreate");
  NOT_IN_CAPTURE("cuStreamCreate");
  if (flags != LW_CU_STREAM_NON_BLOCKING) violation("a stream that waits for the default stream");
  *stream = make_object(sizeof **stream);
  (*stream)->alive = 1;
  standin.live_streams++;
  return 0;
}

int cuStreamDestroy_v2(lw_cu_stream stream) {
  CLEANUP();
  NEEDS_CONTEXT("cuStreamDestroy");
  drain(stream, false, true);
  free_object(stream);
  standin.live_streams--;
  CLEANED();
}

int cuStreamSynchronize(lw_cu_stream stream) {
  NOT_IN_CAPTURE("cuStreamSynchronize");
  standin.waits++;
  if (injected(false)) {
    /* What was queued never happens. */
    drain(stream, false, false);
    return standin.fail_code;
  }
  NEEDS_CONTEXT("cuStreamSynchronize");
  if (!good_stream("cuStreamSynchronize", stream)) return INVALID_HANDLE;
  drain(stream, false, true);
  return 0;
}

int cuStreamWaitEvent(lw_cu_stream stream, lw_cu_event event, unsigned int flags) {
  CALL();
  NEEDS_CONTEXT("cuStreamWaitEvent");
  NOT_IN_CAPTURE("cuStreamWaitEvent");
  if (!good_stream("cuStreamWaitEvent", stream) || !event->recorded || flags != 0)
    return INVALID_HANDLE;
  put((op){.kind = OP_WAIT, .stream = stream, .other = event->stream});
  return 0;
}

int cuEventCreate(lw_cu_event *event, unsigned int flags) {
  CALL();
  NEEDS_CONTEXT("cuEventCreate");
  (void)flags;
  *event = make_object(sizeof **event);
  (*event)->alive = 1;
  standin.live_events++;
  return 0;
}

int cuEventDestroy_v2(lw_cu_event event) {
  CLEANUP();
  NEEDS_CONTEXT("cuEventDestroy");
  drain(NULL, true, true);
  free_object(event);
  standin.live_events--;
  CLEANED();
}

int cuEventRecord(lw_cu_event event, lw_cu_stream stream) {
  CALL();
  NEEDS_CONTEXT("cuEventRecord");
  if (!good_stream("cuEventRecord", stream) || event->alive != 1) return INVALID_HANDLE;
  event->recorded = 1;
  event->done = 0;
  event->stream = stream;
  put((op){.kind = OP_EVENT, .stream = stream, .event = event});
  return 0;
}

int cuEventElapsedTime(float *ms, lw_cu_event start, lw_cu_event end) {
  CALL();
  NEEDS_CONTEXT("cuEventElapsedTime");
  if (!start->recorded || !end->recorded) return INVALID_HANDLE;
  if (!start->done || !end->done) return NOT_READY;
  *ms = 0.25f;
  return 0;
}

int cuLaunchKernel(lw_cu_function function, unsigned int grid_x, unsigned int grid_y,
                   unsigned int grid_z, unsigned int block_x, unsigned int block_y,
                   unsigned int block_z, unsigned int shared_bytes, lw_cu_stream stream,
                   void **parameters, void **extra) {
  CALL();
  NEEDS_CONTEXT("cuLaunchKernel");
  if (!good_stream("cuLaunchKernel", stream)) return INVALID_HANDLE;
  bool good = grid_x > 0 && grid_x <= INT32_MAX && grid_y == 1 && grid_z == 1 && block_x > 0 &&
              block_x <= (unsigned int)function->threads_max && block_y == 1 && block_z == 1 &&
              extra == NULL && shared_bytes <= (unsigned int)function->shared_limit;
  if (!good) return INVALID_VALUE;
  op o = {.kind = OP_LAUNCH,
          .stream = stream,
          .function = function,
          .grid = grid_x,
          .block = block_x,
          .shared_bytes = shared_bytes};
  o.parameters = calloc((size_t)function->parameters + 1, sizeof *o.parameters);
  for (int i = 0; i < function->parameters; i++)
    memcpy(&o.parameters[i], parameters[i], sizeof o.parameters[i]);
  standin.launches++;
  put(o);
  return 0;
}

int cuStreamIsCapturing(lw_cu_stream stream, lw_cu_capture *status) {
  CALL();
  NEEDS_CONTEXT("cuStreamIsCapturing");
  (void)stream;
  *status = standin.capturing ? 1 : 0;
  return 0;
}

/* ---- graphs: the nodes of a launch go into the stream in one of the orders that the edges allow,
 * another one each time ---- */

enum { NODES_MAX = 4096, NODE_DEPS_MAX = 64 };

struct lw_cu_node_object {
  struct lw_cu_graph_object *graph;
  int index, dep_count;
  int deps[NODE_DEPS_MAX];
  op operation;
};
struct lw_cu_graph_object {
  int count;
  struct lw_cu_node_object *nodes[NODES_MAX];
};
struct lw_cu_exec_object {
  int count;
  struct lw_cu_graph_object *of;
  struct lw_cu_node_object nodes[];
};

static uint64_t *copy_parameters(const struct lw_cu_function_object *function, void **parameters) {
  uint64_t *copy = calloc((size_t)function->parameters + 1, sizeof *copy);
  for (int i = 0; i < function->parameters; i++) memcpy(&copy[i], parameters[i], sizeof copy[i]);
  return copy;
}

static bool good_launch(lw_cu_function f, const lw_cu_kernel_node *k) {
  return k->grid_x > 0 && k->grid_x <= INT32_MAX && k->grid_y == 1 && k->grid_z == 1 &&
         k->block_x > 0 && k->block_x <= (unsigned int)f->threads_max && k->block_y == 1 &&
         k->block_z == 1 && k->extra == NULL && k->kernel == NULL && k->context == NULL &&
         k->shared_bytes <= (unsigned int)f->shared_limit;
}

static int kernel_operation(const lw_cu_kernel_node *k, op *out) {
  if (!good_launch(k->function, k)) return INVALID_VALUE;
  *out = (op){.kind = OP_LAUNCH,
              .function = k->function,
              .grid = k->grid_x,
              .block = k->block_x,
              .shared_bytes = k->shared_bytes,
              .parameters = copy_parameters(k->function, k->parameters)};
  return 0;
}

static int copy_operation(const lw_cu_copy_node *c, op *out) {
  const struct lw_cu_copy_side *sides[] = {&c->from, &c->to};
  for (int i = 0; i < 2; i++) {
    const struct lw_cu_copy_side *s = sides[i];
    if (s->x_bytes != 0 || s->y != 0 || s->z != 0 || s->level != 0 ||
        s->memory != LW_CU_MEMORY_DEVICE || s->host != NULL || s->array != NULL ||
        s->reserved != NULL || s->pitch < c->width_bytes || s->pitch > INT32_MAX) {
      return INVALID_VALUE;
    }
    need_device("copy node", s->device, c->width_bytes);
  }
  if (c->width_bytes == 0 || c->height != 1 || c->depth != 1) return INVALID_VALUE;
  *out = (op){.kind = OP_COPY,
              .to = pointer(c->to.device),
              .from = pointer(c->from.device),
              .bytes = c->width_bytes};
  return 0;
}

static int fill_operation(const lw_cu_fill_node *f, op *out) {
  if (f->elem_bytes != 1 || f->height != 1 || f->width == 0 || f->value > 255) return INVALID_VALUE;
  need_device("fill node", f->to, f->width);
  *out = (op){
      .kind = OP_FILL, .to = pointer(f->to), .bytes = f->width, .value = (unsigned char)f->value};
  return 0;
}

int cuGraphCreate(lw_cu_graph *graph, unsigned int flags) {
  CALL();
  NEEDS_CONTEXT("cuGraphCreate");
  if (flags != 0) return INVALID_VALUE;
  *graph = make_object(sizeof **graph);
  standin.live_graphs++;
  return 0;
}

int cuGraphDestroy(lw_cu_graph graph) {
  CLEANUP();
  for (int i = 0; i < graph->count; i++) {
    free(graph->nodes[i]->operation.parameters);
    free_object(graph->nodes[i]);
  }
  free_object(graph);
  standin.live_graphs--;
  CLEANED();
}

static int add_node(lw_cu_node *out, lw_cu_graph graph, const lw_cu_node *deps, size_t count,
                    op operation) {
  if (graph->count == NODES_MAX || count > NODE_DEPS_MAX) return 2;
  lw_cu_node node = make_object(sizeof *node);
  *node = (struct lw_cu_node_object){
      .graph = graph, .index = graph->count, .dep_count = (int)count, .operation = operation};
  for (size_t i = 0; i < count; i++) {
    if (deps[i]->graph != graph) violation("an edge from another graph");
    node->deps[i] = deps[i]->index;
  }
  graph->nodes[graph->count++] = node;
  *out = node;
  return 0;
}

int cuGraphAddKernelNode_v2(lw_cu_node *node, lw_cu_graph graph, const lw_cu_node *deps,
                            size_t dep_count, const lw_cu_kernel_node *kernel) {
  CALL();
  NEEDS_CONTEXT("cuGraphAddKernelNode");
  op operation;
  int result = kernel_operation(kernel, &operation);
  return result != 0 ? result : add_node(node, graph, deps, dep_count, operation);
}

int cuGraphAddMemcpyNode(lw_cu_node *node, lw_cu_graph graph, const lw_cu_node *deps,
                         size_t dep_count, const lw_cu_copy_node *copy, lw_cu_context context) {
  CALL();
  NEEDS_CONTEXT("cuGraphAddMemcpyNode");
  op operation;
  int result = context != &the_context ? INVALID_CONTEXT : copy_operation(copy, &operation);
  return result != 0 ? result : add_node(node, graph, deps, dep_count, operation);
}

int cuGraphAddMemsetNode(lw_cu_node *node, lw_cu_graph graph, const lw_cu_node *deps,
                         size_t dep_count, const lw_cu_fill_node *fill, lw_cu_context context) {
  CALL();
  NEEDS_CONTEXT("cuGraphAddMemsetNode");
  op operation;
  int result = context != &the_context ? INVALID_CONTEXT : fill_operation(fill, &operation);
  return result != 0 ? result : add_node(node, graph, deps, dep_count, operation);
}

/* Early edges order the look-alike's nodes like ordinary ones: a node does not begin before it may
 * finish. */
int cuGraphAddDependencies_v2(lw_cu_graph graph, const lw_cu_node *from, const lw_cu_node *to,
                              const lw_cu_edge *edges, size_t count) {
  CALL();
  NEEDS_CONTEXT("cuGraphAddDependencies");
  for (size_t i = 0; i < count; i++) {
    lw_cu_node node = to[i];
    bool good = edges != NULL && edges[i].type == LW_CU_EDGE_PROGRAMMATIC &&
                edges[i].to_port == 0 && edges[i].from_port == LW_CU_PORT_PROGRAMMATIC &&
                from[i]->operation.kind == OP_LAUNCH && node->operation.kind == OP_LAUNCH &&
                from[i]->graph == graph && node->graph == graph && node->dep_count < NODE_DEPS_MAX;
    if (!good) return INVALID_VALUE;
    node->deps[node->dep_count++] = from[i]->index;
    standin.early_edges++;
  }
  return 0;
}

int cuGraphInstantiateWithFlags(lw_cu_exec *exec, lw_cu_graph graph, unsigned long long flags) {
  CALL();
  NEEDS_CONTEXT("cuGraphInstantiate");
  NOT_IN_CAPTURE("cuGraphInstantiate");
  if (flags != 0) return INVALID_VALUE;
  lw_cu_exec e = make_object(sizeof *e + (size_t)graph->count * sizeof e->nodes[0]);
  e->count = graph->count;
  e->of = graph;
  for (int i = 0; i < graph->count; i++) {
    e->nodes[i] = *graph->nodes[i];
    op *o = &e->nodes[i].operation;
    if (o->kind != OP_LAUNCH) continue;
    size_t bytes = ((size_t)o->function->parameters + 1) * sizeof *o->parameters;
    o->parameters = memcpy(malloc(bytes), o->parameters, bytes);
  }
  standin.live_graphs++;
  *exec = e;
  return 0;
}

int cuGraphExecDestroy(lw_cu_exec exec) {
  CLEANUP();
  for (int i = 0; i < exec->count; i++) free(exec->nodes[i].operation.parameters);
  free_object(exec);
  standin.live_graphs--;
  CLEANED();
}

static int edit_node(lw_cu_exec exec, lw_cu_node node, op operation) {
  op *had = &exec->nodes[node->index].operation;
  bool same =
      node->graph == exec->of && had->kind == operation.kind && had->function == operation.function;
  if (!same) violation("edited a node into another kind of node");
  free(had->parameters);
  *had = operation;
  standin.graph_edits++;
  return 0;
}

int cuGraphExecKernelNodeSetParams_v2(lw_cu_exec exec, lw_cu_node node,
                                      const lw_cu_kernel_node *kernel) {
  CALL();
  NEEDS_CONTEXT("cuGraphExecKernelNodeSetParams");
  op operation;
  int result = kernel_operation(kernel, &operation);
  return result != 0 ? result : edit_node(exec, node, operation);
}

int cuGraphExecMemcpyNodeSetParams(lw_cu_exec exec, lw_cu_node node, const lw_cu_copy_node *copy,
                                   lw_cu_context context) {
  CALL();
  NEEDS_CONTEXT("cuGraphExecMemcpyNodeSetParams");
  op operation;
  int result = context != &the_context ? INVALID_CONTEXT : copy_operation(copy, &operation);
  return result != 0 ? result : edit_node(exec, node, operation);
}

int cuGraphExecMemsetNodeSetParams(lw_cu_exec exec, lw_cu_node node, const lw_cu_fill_node *fill,
                                   lw_cu_context context) {
  CALL();
  NEEDS_CONTEXT("cuGraphExecMemsetNodeSetParams");
  op operation;
  int result = context != &the_context ? INVALID_CONTEXT : fill_operation(fill, &operation);
  return result != 0 ? result : edit_node(exec, node, operation);
}

static void put_copy(const op *operation, lw_cu_stream stream) {
  op copy = *operation;
  copy.stream = stream;
  if (copy.kind == OP_LAUNCH) {
    size_t bytes = ((size_t)copy.function->parameters + 1) * sizeof *copy.parameters;
    copy.parameters = memcpy(malloc(bytes), operation->parameters, bytes);
    standin.launches++;
  }
  standin.copies += copy.kind == OP_COPY;
  standin.fills += copy.kind == OP_FILL;
  put(copy);
}

int cuGraphLaunch(lw_cu_exec exec, lw_cu_stream stream) {
  CALL();
  NEEDS_CONTEXT("cuGraphLaunch");
  if (!good_stream("cuGraphLaunch", stream)) return INVALID_HANDLE;
  static unsigned order;
  bool *done = calloc((size_t)exec->count + 1, sizeof *done);
  order++;
  for (int left = exec->count; left > 0; left--) {
    for (int i = 0; i < exec->count; i++) {
      int n = order % 2 == 0 ? i : exec->count - 1 - i; /* as early as possible, or as late */
      bool ready = !done[n];
      for (int d = 0; d < exec->nodes[n].dep_count && ready; d++)
        ready = done[exec->nodes[n].deps[d]];
      if (!ready) continue;
      done[n] = true;
      put_copy(&exec->nodes[n].operation, stream);
      break;
    }
  }
  free(done);
  standin.graph_launches++;
  return 0;
}

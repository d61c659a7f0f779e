/* cuda_standin.c: a look-alike of the CUDA driver library for tests without a GPU. Device memory is
 * host memory between guard zones (memory.c); work is done only when somebody waits for it, in
 * orders that the recorded dependencies allow (work.c); every promise that a caller must keep is
 * checked: a current context, valid handles, ranges inside allocations, nothing forbidden during a
 * capture. Any call can be made to fail. Graphs and captures are in cuda_graphs.c. */
#include <dlfcn.h>
#include <pthread.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "standin/memory.h"
#include "standin/objects.h"
#include "standin/host.h"
#include "standin/simt.h"
#include "standin/translate.h"

__attribute__((visibility("default"))) lw_standin_state *lw_standin(void);
__attribute__((visibility("default"))) void lw_standin_bury(void);

lw_standin_state standin = {
    .device_count = 1, .arch_major = 9, .arch_minor = 0, .driver_version = 12040};
struct lw_cu_context_object the_context;
static bool watched; /* by a test that looks at |standin| */

lw_standin_state *lw_standin(void) {
  watched = true;
  return &standin;
}

/* ---- bookkeeping ---- */

static pthread_mutex_t the_lock = PTHREAD_MUTEX_INITIALIZER;
static _Thread_local unsigned thread_depth; /* contexts pushed */

int standin_lock(void) { return pthread_mutex_lock(&the_lock); }
void standin_unlock(const int *locked) {
  (void)locked;
  (void)pthread_mutex_unlock(&the_lock);
}

void standin_violation(const char *fmt, ...) {
  char text[sizeof standin.violation];
  va_list args;
  va_start(args, fmt);
  vsnprintf(text, sizeof text, fmt, args);
  va_end(args);
  if (!watched) {
    fprintf(stderr, "stand-in: %s\n", text);
    abort();
  }
  if (standin.violations++ == 0) memcpy(standin.violation, text, sizeof text);
}

uint64_t *standin_seed(void) { return &standin.seed; }

bool standin_injected(const char *call, bool cleanup) {
  standin.calls++;
  if (standin.fail_at == 0 || --standin.fail_at != 0) return false;
  standin.failed_call = call;
  standin.failed_call_is_cleanup = cleanup;
  return true;
}

bool standin_has_context(const char *call) {
  if (thread_depth > 0) return true;
  standin_violation("%s without a context", call);
  return false;
}

bool standin_holds(const char *call, lw_cu_address address, size_t bytes) {
  if (memory_holds(standin_pointer(address), bytes)) return true;
  standin_violation("%s: %zu bytes at %#llx are no device memory", call, bytes, address);
  return false;
}

void *standin_pointer(lw_cu_address address) { return (void *)(uintptr_t)address; }

static void check_guards(const char *who) {
  char how[160];
  if (memory_guards_broken(how, sizeof how)) standin_violation("%s: %s", who, how);
}

/* ---- objects ---- */

/* Objects of a context that an error broke are never destroyed; here they stay reachable for leak
 * checkers. */
typedef struct object {
  struct object *next;
  void *memory;
} object;
static object *objects;

void *standin_object(size_t bytes) {
  object *o = malloc(sizeof *o);
  *o = (object){.next = objects, .memory = calloc(1, bytes)};
  objects = o;
  return o->memory;
}

void standin_free_object(void *memory) {
  for (object **at = &objects; *at != NULL; at = &(*at)->next) {
    object *o = *at;
    if (o->memory != memory) continue;
    *at = o->next;
    free(o->memory);
    free(o);
    return;
  }
  standin_violation("destroyed an object that does not exist");
}

static struct lw_cu_function_object functions[2] = {
    {.name = "lw_map_scale", .which = 0, .parameters = 4, .threads_max = 1024},
    {.name = "lw_map_add", .which = 1, .parameters = 3, .threads_max = 1024}};

/* The legacy default stream, and all others. */
static struct lw_cu_stream_object default_stream, *streams = &default_stream;
static lw_cu_event events;

static void __attribute__((constructor)) open_default_stream(void) {
  work_open(&default_stream.place);
}

struct lw_cu_stream_object *standin_stream(lw_cu_stream stream) {
  if (stream == NULL) return &default_stream;
  for (struct lw_cu_stream_object *s = streams; s != NULL; s = s->next) {
    if (s == stream) return s;
  }
  return NULL;
}

static bool good_event(lw_cu_event event) {
  for (const struct lw_cu_event_object *e = events; e != NULL; e = e->next) {
    if (e == event) return true;
  }
  standin_violation("no such event");
  return false;
}

void standin_leave_capture(const capture *c) {
  for (struct lw_cu_stream_object *s = streams; s != NULL; s = s->next) {
    if (s->capture == c) s->capture = NULL, s->tail_count = 0;
  }
  for (struct lw_cu_event_object *e = events; e != NULL; e = e->next) {
    if (e->capture == c) e->capture = NULL, e->recorded = 0;
  }
}

/* ---- doing ---- */

/* The last elements of a map's memory are as much in one block as the first. */
static bool good_map(const op *o, const struct standin_map *map) {
  if (map->magic != STANDIN_MAP_MAGIC) {
    standin_violation("kernel %s: an argument is no tensor map", o->function->name);
    return false;
  }
  size_t bytes = map->elem_bytes;
  for (unsigned d = 0; d < map->rank; d++) bytes += (map->dims[d] - 1) * map->strides[d];
  return standin_holds(o->function->name, map->address, bytes);
}

static void run_compiled(const op *o) {
  const uint64_t *maps = o->parameters + o->function->parameters - o->function->maps * MAP_WORDS;
  for (int i = 0; i < o->function->maps; i++)
    if (!good_map(o, (const struct standin_map *)(const void *)(maps + i * MAP_WORDS))) return;
  const simt_launch launch = {.call = o->function->call,
                              .parameters = o->parameters,
                              .grid = o->grid,
                              .block = o->block,
                              .shared_bytes = o->shared_bytes,
                              .meets = o->function->meets,
                              .order = (unsigned)(work_random() % 2)};
  const char *wrong = simt_run(&launch);
  if (wrong != NULL) standin_violation("kernel %s: %s", o->function->name, wrong);
  check_guards(o->function->name);
}

static void run_builtin(const op *o) {
  float *y = standin_pointer(o->parameters[0]);
  const float *a = standin_pointer(o->parameters[1]), *b = standin_pointer(o->parameters[2]);
  size_t bytes = o->grid * 16ul;
  bool adds = o->function->which == 1;
  if (!standin_holds("kernel", o->parameters[0], bytes) ||
      !standin_holds("kernel", o->parameters[1], bytes) ||
      (adds && !standin_holds("kernel", o->parameters[2], bytes)))
    return;
  for (size_t i = 0; i < o->grid * 4ul; i++) {
    y[i] = adds ? a[i] + b[i]
                : a[i] * (float)(int64_t)o->parameters[2] + (float)(int64_t)o->parameters[3];
  }
  memory_touch(y, bytes, true);
  memory_touch(a, bytes, false);
  if (adds) memory_touch(b, bytes, false);
}

void standin_execute(const op *o) {
  if (o->kind == OP_COPY) {
    memmove(o->to, o->from, o->bytes);
    memory_touch(o->from, o->bytes, false);
    memory_touch(o->to, o->bytes, true);
  } else if (o->kind == OP_FILL) {
    memset(o->to, o->value, o->bytes);
    memory_touch(o->to, o->bytes, true);
  } else {
    o->function->which < 0 ? run_compiled(o) : run_builtin(o);
  }
}

const char *standin_name(const op *o) {
  return o->kind == OP_LAUNCH ? o->function->name : o->kind == OP_COPY ? "a copy" : "a fill";
}

int standin_put(const char *call, lw_cu_stream stream, op operation) {
  struct lw_cu_stream_object *s = standin_stream(stream);
  if (s == NULL) {
    standin_violation("%s: no such stream", call);
    free(operation.parameters);
    return INVALID_HANDLE;
  }
  if (s->capture != NULL) return standin_capture_op(s, operation);
  work_put(&s->place, operation);
  return 0;
}

void lw_standin_bury(void) {
  ENTER;
  work_drop_all();
  memory_free_all();
  standin.live_memory = 0;
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
  if (standin.retains == 0) standin_violation("released more often than retained");
  standin.retains--;
  CLEANED();
}

int cuCtxPushCurrent_v2(lw_cu_context context) {
  ENTER;
  if (standin_injected(__func__, false)) return standin.fail_code;
  if (context != &the_context || standin.retains == 0) {
    standin_violation("pushed a context that is not retained");
    return INVALID_CONTEXT;
  }
  standin.context_depth++;
  thread_depth++;
  return 0;
}

int cuCtxPopCurrent_v2(lw_cu_context *context) {
  CLEANUP();
  if (thread_depth == 0) {
    standin_violation("popped without a push");
    return INVALID_CONTEXT;
  }
  standin.context_depth--;
  thread_depth--;
  *context = &the_context;
  CLEANED();
}

/* ---- modules and functions ---- */

/* Compiles |source| for the host; NULL when the C compiler does not take it. */
static void *compile(const char *source) {
  char dir[] = "/tmp/lawson-standin-XXXXXX", path[64], command[1024];
  if (mkdtemp(dir) == NULL) return NULL;
  lw_text text = {0};
  lw_standin_translate(source, &text);
  snprintf(path, sizeof path, "%s/k.c", dir);
  void *handle = NULL;
  if (text.status == LW_OK && lw__file_write(path, text.data, text.len, NULL) == LW_OK) {
    /* The thread sanitizer's compiler half calls a function at every access (shim.h has them). */
    snprintf(command, sizeof command,
             "cc -O1 -w -ffp-contract=off -std=gnu17 -fPIC %s -I%s -include standin/shim.h -c -o "
             "%s/k.o %s && cc -shared -o %s/k.so %s/k.o -lm",
             standin.no_access_log ? "" : "-fsanitize=thread", LW_STANDIN_TESTS, dir, path, dir,
             dir);
    if (system(command) == 0) {
      snprintf(path, sizeof path, "%s/k.so", dir);
      handle = dlopen(path, RTLD_NOW | RTLD_LOCAL);
      if (handle == NULL) fprintf(stderr, "%s\n", dlerror());
    }
  }
  lw__text_deinit(&text);
  snprintf(command, sizeof command, "rm -rf %s", dir);
  if (system(command) != 0) standin_violation("cannot remove %s", dir);
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
  NEEDS_CONTEXT();
  NOT_IN_CAPTURE();
  void *handle = NULL;
  if (strncmp(image, LW_STANDIN_SOURCE, strlen(LW_STANDIN_SOURCE)) == 0) {
    handle = compile_once((const char *)image + strlen(LW_STANDIN_SOURCE));
    if (handle == NULL) return 218;
  } else if (strcmp(image, LW_STANDIN_IMAGE) != 0) {
    return 200;
  }
  *module = standin_object(sizeof **module);
  (*module)->alive = 1;
  (*module)->handle = handle;
  standin.live_modules++;
  return 0;
}

static bool launches_from(const op *operation, const void *module) {
  return operation->kind == OP_LAUNCH && operation->function->module == module;
}

int cuModuleUnload(lw_cu_module module) {
  CLEANUP();
  NEEDS_CONTEXT();
  NOT_IN_CAPTURE();
  if (work_any(launches_from, module)) {
    standin_violation("unloaded a module whose kernels have not run yet");
    work_finish_all();
  }
  while (module->first != NULL) {
    struct lw_cu_function_object *next = module->first->next;
    standin_free_object(module->first);
    module->first = next;
  }
  standin_free_object(module);
  standin.live_modules--;
  CLEANED();
}

static int find_compiled(lw_cu_function *function, lw_cu_module module, const char *name) {
  char symbol_name[200];
  snprintf(symbol_name, sizeof symbol_name, "standin_call_%s", name);
  void *call = dlsym(module->handle, symbol_name);
  snprintf(symbol_name, sizeof symbol_name, "standin_facts_%s", name);
  const int *facts = dlsym(module->handle, symbol_name);
  snprintf(symbol_name, sizeof symbol_name, "standin_name_%s", name);
  const char *lasting_name = dlsym(module->handle, symbol_name);
  if (call == NULL || facts == NULL || lasting_name == NULL) return NOT_FOUND;
  struct lw_cu_function_object *f = standin_object(sizeof *f);
  *f = (struct lw_cu_function_object){.name = lasting_name,
                                      .which = -1,
                                      .shared_limit = 48 << 10,
                                      .parameters = facts[0] - facts[3] + facts[3] * MAP_WORDS,
                                      .maps = facts[3],
                                      .threads_max = facts[1],
                                      .meets = facts[2],
                                      .module = module,
                                      .next = module->first};
  memcpy(&f->call, &call, sizeof call);
  module->first = f;
  *function = f;
  return 0;
}

int cuModuleGetFunction(lw_cu_function *function, lw_cu_module module, const char *name) {
  CALL();
  NEEDS_CONTEXT();
  if (module->alive != 1) standin_violation("function of a dead module");
  if (module->handle != NULL) return find_compiled(function, module, name);
  for (int i = 0; i < 2; i++) {
    if (strcmp(name, functions[i].name) != 0) continue;
    functions[i].shared_limit = 48 << 10;
    *function = &functions[i];
    return 0;
  }
  return NOT_FOUND;
}

int cuFuncLoad(lw_cu_function function) {
  CALL();
  NEEDS_CONTEXT();
  NOT_IN_CAPTURE();
  (void)function;
  return 0;
}

int cuFuncGetAttribute(int *value, int attribute, lw_cu_function function) {
  CALL();
  NEEDS_CONTEXT();
  if (attribute != LW_CU_FUNCTION_MAX_THREADS) return INVALID_VALUE;
  *value = function->threads_max;
  return 0;
}

int cuFuncSetAttribute(lw_cu_function function, int attribute, int value) {
  CALL();
  NEEDS_CONTEXT();
  if (attribute != LW_CU_FUNCTION_MAX_DYNAMIC_SHARED || value > 232448) return INVALID_VALUE;
  function->shared_limit = value;
  return 0;
}

int cuOccupancyMaxActiveBlocksPerMultiprocessor(int *blocks, lw_cu_function function,
                                                int block_threads, size_t shared_bytes) {
  CALL();
  NEEDS_CONTEXT();
  bool fits = block_threads <= function->threads_max &&
              shared_bytes <= (size_t)function->shared_limit &&
              strcmp(function->name, standin.refuse) != 0;
  *blocks = fits ? 1 : 0;
  return 0;
}

/* ---- memory ---- */

int cuMemAlloc_v2(lw_cu_address *address, size_t bytes) {
  CALL();
  NEEDS_CONTEXT();
  NOT_IN_CAPTURE();
  if (bytes == 0) return INVALID_VALUE;
  void *memory = bytes > 1 << 30 ? NULL : memory_alloc(bytes);
  if (memory == NULL) return 2;
  standin.live_memory++;
  *address = (lw_cu_address)(uintptr_t)memory;
  return 0;
}

int cuMemHostAlloc(void **memory, size_t bytes, unsigned int flags) {
  CALL();
  NEEDS_CONTEXT();
  NOT_IN_CAPTURE();
  if (bytes == 0 || flags != 0) return INVALID_VALUE;
  *memory = malloc(bytes);
  if (*memory == NULL) return 2;
  standin.live_pinned++;
  return 0;
}

int cuMemFreeHost(void *memory) {
  CLEANUP();
  NEEDS_CONTEXT();
  work_finish_all();
  free(memory);
  standin.live_pinned--;
  CLEANED();
}

int cuMemFree_v2(lw_cu_address address) {
  CLEANUP();
  NEEDS_CONTEXT();
  NOT_IN_CAPTURE();
  work_finish_all();
  check_guards("guard zone");
  if (!memory_free(standin_pointer(address))) {
    standin_violation("freed what was not allocated");
    return INVALID_VALUE;
  }
  standin.live_memory--;
  CLEANED();
}

int cuMemcpyHtoDAsync_v2(lw_cu_address to, const void *from, size_t bytes, lw_cu_stream stream) {
  CALL();
  NEEDS_CONTEXT();
  NOT_IN_CAPTURE();
  if (!standin_holds(__func__, to, bytes)) return INVALID_VALUE;
  return standin_put(
      __func__, stream,
      (op){.kind = OP_COPY, .to = standin_pointer(to), .from = from, .bytes = bytes});
}

int cuMemcpyDtoHAsync_v2(void *to, lw_cu_address from, size_t bytes, lw_cu_stream stream) {
  CALL();
  NEEDS_CONTEXT();
  NOT_IN_CAPTURE();
  if (!standin_holds(__func__, from, bytes)) return INVALID_VALUE;
  return standin_put(
      __func__, stream,
      (op){.kind = OP_COPY, .to = to, .from = standin_pointer(from), .bytes = bytes});
}

int cuMemcpyDtoDAsync_v2(lw_cu_address to, lw_cu_address from, size_t bytes, lw_cu_stream stream) {
  CALL();
  NEEDS_CONTEXT();
  if (!standin_holds(__func__, to, bytes) || !standin_holds(__func__, from, bytes))
    return INVALID_VALUE;
  standin.copies++;
  const op operation = {
      .kind = OP_COPY, .to = standin_pointer(to), .from = standin_pointer(from), .bytes = bytes};
  return standin_put(__func__, stream, operation);
}

int cuMemsetD8Async(lw_cu_address to, unsigned char value, size_t count, lw_cu_stream stream) {
  CALL();
  NEEDS_CONTEXT();
  if (!standin_holds(__func__, to, count)) return INVALID_VALUE;
  standin.fills++;
  const op operation = {.kind = OP_FILL, .to = standin_pointer(to), .bytes = count, .value = value};
  return standin_put(__func__, stream, operation);
}

/* ---- streams and events ---- */

int cuCtxGetStreamPriorityRange(int *least, int *greatest) {
  CALL();
  NEEDS_CONTEXT();
  *least = 0;
  *greatest = -5;
  return 0;
}

static int make_stream(lw_cu_stream *stream, unsigned int flags) {
  if (flags != LW_CU_STREAM_NON_BLOCKING)
    standin_violation("a stream that waits for the default stream");
  *stream = standin_object(sizeof **stream);
  (*stream)->next = streams;
  streams = *stream;
  work_open(&streams->place);
  standin.live_streams++;
  return 0;
}

int cuStreamCreate(lw_cu_stream *stream, unsigned int flags) {
  CALL();
  NEEDS_CONTEXT();
  NOT_IN_CAPTURE();
  return make_stream(stream, flags);
}

int cuStreamCreateWithPriority(lw_cu_stream *stream, unsigned int flags, int priority) {
  CALL();
  NEEDS_CONTEXT();
  NOT_IN_CAPTURE();
  if (priority < -5 || priority > 0) standin_violation("stream priority %d", priority);
  standin.priorities++;
  return make_stream(stream, flags);
}

/* What the stream holds happens all the same. */
int cuStreamDestroy_v2(lw_cu_stream stream) {
  CLEANUP();
  NEEDS_CONTEXT();
  if (standin_stream(stream) == NULL || stream == NULL) {
    standin_violation("destroyed a stream that does not exist");
    return INVALID_HANDLE;
  }
  if (stream->capture != NULL) standin_violation("destroyed a stream that captures");
  work_close(&stream->place);
  for (struct lw_cu_stream_object **at = &streams; *at != NULL; at = &(*at)->next) {
    if (*at != stream) continue;
    *at = stream->next;
    break;
  }
  standin_free_object(stream);
  standin.live_streams--;
  CLEANED();
}

int cuStreamSynchronize(lw_cu_stream stream) {
  ENTER;
  standin.waits++;
  struct lw_cu_stream_object *s = standin_stream(stream);
  if (standin_injected(__func__, false)) {
    /* What was queued never happens. */
    if (s != NULL && s->capture == NULL) work_drop(&s->place);
    return standin.fail_code;
  }
  NEEDS_CONTEXT();
  if (s == NULL) {
    standin_violation("waited for a stream that does not exist");
    return INVALID_HANDLE;
  }
  if (s->capture != NULL) {
    standin_violation("waited for a stream that captures");
    s->capture->invalid = true;
    return CAPTURE_UNSUPPORTED;
  }
  NOT_IN_CAPTURE();
  work_finish(&s->place);
  check_guards("guard zone");
  return 0;
}

int cuEventCreate(lw_cu_event *event, unsigned int flags) {
  CALL();
  NEEDS_CONTEXT();
  (void)flags;
  *event = standin_object(sizeof **event);
  (*event)->next = events;
  events = *event;
  work_open(&events->place);
  standin.live_events++;
  return 0;
}

int cuEventDestroy_v2(lw_cu_event event) {
  CLEANUP();
  NEEDS_CONTEXT();
  if (!good_event(event)) return INVALID_HANDLE;
  work_close(&event->place);
  for (lw_cu_event *at = &events; *at != NULL; at = &(*at)->next) {
    if (*at != event) continue;
    *at = event->next;
    break;
  }
  standin_free_object(event);
  standin.live_events--;
  CLEANED();
}

int cuEventRecord(lw_cu_event event, lw_cu_stream stream) {
  CALL();
  NEEDS_CONTEXT();
  const struct lw_cu_stream_object *s = standin_stream(stream);
  if (s == NULL || !good_event(event)) return INVALID_HANDLE;
  event->recorded = 1;
  event->capture = s->capture;
  event->tail_count = s->tail_count;
  memcpy(event->tails, s->tails, sizeof event->tails);
  if (s->capture == NULL) event->place.last = s->place.last;
  return 0;
}

int cuStreamWaitEvent(lw_cu_stream stream, lw_cu_event event, unsigned int flags) {
  CALL();
  NEEDS_CONTEXT();
  struct lw_cu_stream_object *s = standin_stream(stream);
  if (s == NULL || !good_event(event) || !event->recorded || flags != 0) return INVALID_HANDLE;
  standin.event_waits++;
  return standin_wait_event(s, event);
}

int cuEventSynchronize(lw_cu_event event) {
  ENTER;
  standin.waits++;
  if (standin_injected(__func__, false)) {
    if (event->capture == NULL) work_drop(&event->place);
    return standin.fail_code;
  }
  NEEDS_CONTEXT();
  NOT_IN_CAPTURE();
  if (event->capture != NULL) return CAPTURE_UNSUPPORTED;
  work_finish(&event->place);
  check_guards("guard zone");
  return 0;
}

int cuEventElapsedTime(float *ms, lw_cu_event start, lw_cu_event end) {
  CALL();
  NEEDS_CONTEXT();
  if (!start->recorded || !end->recorded) return INVALID_HANDLE;
  if (work_is_pending(&start->place) || work_is_pending(&end->place)) return NOT_READY;
  *ms = 0.25f;
  return 0;
}

/* ---- launches ---- */

/* What the driver refuses in a map with 128-byte swizzle. */
int cuTensorMapEncodeTiled(lw_cu_map *map, lw_cu_map_type type, unsigned int rank, void *address,
                           const uint64_t *dims, const uint64_t *strides, const unsigned int *box,
                           const unsigned int *elem_strides, lw_cu_map_interleave interleave,
                           lw_cu_map_swizzle swizzle, lw_cu_map_promotion promotion,
                           lw_cu_map_fill fill) {
  CALL();
  bool wide = type == LW_CU_MAP_F32,
       known = wide || type == LW_CU_MAP_F16 || type == LW_CU_MAP_BF16;
  struct standin_map m = {.magic = STANDIN_MAP_MAGIC,
                          .address = (uintptr_t)address,
                          .type = type,
                          .rank = (unsigned short)rank,
                          .elem_bytes = wide ? 4 : 2};
  bool good = known && rank >= 1 && rank <= STANDIN_MAP_RANK && interleave == 0 &&
              swizzle == LW_CU_MAP_SWIZZLE_128B && promotion >= 0 && promotion <= 3 && fill == 0 &&
              m.address % 16 == 0 && (uintptr_t)map % 64 == 0;
  for (unsigned d = 0; good && d < rank; d++) {
    m.dims[d] = dims[d];
    m.strides[d] = d == 0 ? m.elem_bytes : strides[d - 1];
    good = dims[d] >= 1 && dims[d] <= 1ull << 32 && box[d] >= 1 && box[d] <= 256 &&
           elem_strides[d] == 1 &&
           (d == 0 || (m.strides[d] % 16 == 0 && m.strides[d] < 1ull << 40));
  }
  if (!good || box[0] * m.elem_bytes > 128) return INVALID_VALUE;
  memset(map, 0, sizeof *map);
  memcpy(map, &m, sizeof m);
  standin.maps++;
  return 0;
}

uint64_t *standin_parameters(lw_cu_function function, void **parameters) {
  uint64_t *copy = calloc((size_t)function->parameters + 1, sizeof *copy);
  int plain = function->parameters - function->maps * MAP_WORDS;
  for (int i = 0; i < plain; i++) memcpy(&copy[i], parameters[i], sizeof copy[i]);
  for (int i = 0; i < function->maps; i++)
    memcpy(&copy[plain + i * MAP_WORDS], parameters[plain + i], MAP_WORDS * sizeof copy[0]);
  return copy;
}

int cuLaunchKernel(lw_cu_function function, unsigned int grid_x, unsigned int grid_y,
                   unsigned int grid_z, unsigned int block_x, unsigned int block_y,
                   unsigned int block_z, unsigned int shared_bytes, lw_cu_stream stream,
                   void **parameters, void **extra) {
  CALL();
  NEEDS_CONTEXT();
  bool good = grid_x > 0 && grid_x <= INT32_MAX && grid_y == 1 && grid_z == 1 && block_x > 0 &&
              block_x <= (unsigned int)function->threads_max && block_y == 1 && block_z == 1 &&
              extra == NULL && shared_bytes <= (unsigned int)function->shared_limit;
  if (!good) return INVALID_VALUE;
  standin.launches++;
  const op operation = {.kind = OP_LAUNCH,
                        .function = function,
                        .grid = grid_x,
                        .block = block_x,
                        .shared_bytes = shared_bytes,
                        .parameters = standin_parameters(function, parameters)};
  return standin_put(__func__, stream, operation);
}

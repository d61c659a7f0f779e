/* cupti.c: collects the times of kernels from CUPTI. */
#include "runtime/cuda/cupti.h"

#include <dlfcn.h>
#include <pthread.h>
#include <stdatomic.h>
#include <string.h>

enum { BUFFER_BYTES = 1 << 20 };

static const char *const cupti_paths[] = {
    "libcupti.so.13",
    "libcupti.so.12",
    "libcupti.so",
    "/usr/local/cuda/lib64/libcupti.so",
    "/usr/local/cuda/lib/libcupti.so",
    "/usr/local/cuda/extras/CUPTI/lib64/libcupti.so",
};

/* Where records go while kernels are recorded. CUPTI's callbacks say neither who asked nor why, so
 * this is the process's, as CUPTI's own state is. */
typedef struct cupti_sink {
  pthread_mutex_t lock;
  const lw_cupti *cupti;
  lw_rt_spans spans;
  lw_status status;
} cupti_sink;
static _Atomic(cupti_sink *) cupti_current;

/* ---- the library ---- */

static lw_status cupti_check(const lw_cupti *cupti, int result, const char *call, lw_diag *diag) {
  const char *text = NULL;
  if (result == LW_CUPTI_SUCCESS) return LW_OK;
  if (cupti->error_text(result, &text) != LW_CUPTI_SUCCESS || text == NULL) text = "unknown error";
  return lw__fail(diag, LW_STATUS_UNSUPPORTED, "cupti", "%s: %s (%d)", call, text, result);
}

static const char *cupti_bind(lw_cupti *cupti) {
  const char *missing = NULL;
  void *symbol;
#define CUPTI_FIND(name, symbol_name, parameters)                \
  symbol = dlsym(cupti->handle, #symbol_name);                   \
  if (symbol == NULL && missing == NULL) missing = #symbol_name; \
  memcpy(&cupti->name, &symbol, sizeof symbol);
  LW_CUPTI_SYMBOLS(CUPTI_FIND)
#undef CUPTI_FIND
  return missing;
}

lw_status lw__cupti_open(const char *path, lw_diag *diag, lw_cupti *out) {
  *out = (lw_cupti){0};
  const char *const *paths = path != NULL ? &path : cupti_paths;
  size_t count = path != NULL ? 1 : LW_ARRAY_COUNT(cupti_paths);
  /* It has threads of its own and does not survive being unloaded. */
  for (size_t i = 0; i < count && out->handle == NULL; i++) {
    out->handle = dlopen(paths[i], RTLD_NOW | RTLD_LOCAL | RTLD_NODELETE);
  }
  if (out->handle == NULL) {
    return lw__fail(diag, LW_STATUS_UNSUPPORTED, "cupti", "no %s, which gives the times of kernels",
                    path != NULL ? path : "libcupti");
  }
  const char *missing = cupti_bind(out);
  if (missing == NULL) return LW_OK;
  (void)dlclose(out->handle);
  return lw__fail(diag, LW_STATUS_UNSUPPORTED, "cupti", "the library has no %s", missing);
}

/* ---- records ---- */

static void cupti_give_buffer(uint8_t **buffer, size_t *bytes, size_t *most_records) {
  void *memory = NULL;
  *most_records = 0;
  *bytes = lw__mem_resize(&memory, BUFFER_BYTES) == LW_OK ? BUFFER_BYTES : 0;
  *buffer = memory;
}

static lw_status cupti_read(cupti_sink *sink, uint8_t *buffer, size_t filled) {
  lw_cupti_activity *record = NULL;
  while (sink->cupti->next(buffer, filled, &record) == LW_CUPTI_SUCCESS) {
    if (record->kind != LW_CUPTI_KERNEL) continue;
    lw_rt_span span = {(int64_t)record->begin_ns, (int64_t)record->end_ns};
    LW_TRY(lw_vec_push(&sink->spans, span));
  }
  return LW_OK;
}

static void cupti_take_buffer(void *context, uint32_t stream, uint8_t *buffer, size_t bytes,
                              size_t filled) {
  (void)context, (void)stream, (void)bytes;
  cupti_sink *sink = atomic_load(&cupti_current);
  if (sink != NULL && filled != 0) {
    (void)pthread_mutex_lock(&sink->lock);
    lw_status status = cupti_read(sink, buffer, filled);
    if (sink->status == LW_OK) sink->status = status;
    (void)pthread_mutex_unlock(&sink->lock);
  }
  lw__mem_free(buffer);
}

/* ---- recording ---- */

static void cupti_free_sink(cupti_sink *sink) {
  lw_vec_free(&sink->spans);
  (void)pthread_mutex_destroy(&sink->lock);
  lw__mem_free(sink);
}

static lw_status cupti_make_sink(const lw_cupti *cupti, cupti_sink **out) {
  void *memory = NULL;
  LW_TRY(lw__mem_resize(&memory, sizeof(cupti_sink)));
  cupti_sink *sink = memory;
  *sink = (cupti_sink){.cupti = cupti, .status = LW_OK};
  if (pthread_mutex_init(&sink->lock, NULL) == 0) return *out = sink, LW_OK;
  lw__mem_free(sink);
  return LW_STATUS_OUT_OF_MEMORY;
}

lw_status lw__cupti_begin(const lw_cupti *cupti, lw_diag *diag) {
  cupti_sink *sink, *none = NULL;
  LW_TRY(cupti_make_sink(cupti, &sink));
  if (!atomic_compare_exchange_strong(&cupti_current, &none, sink)) {
    cupti_free_sink(sink);
    return lw__fail(diag, LW_STATUS_USAGE, "cupti", "kernels are being recorded already");
  }
  lw_status status = cupti_check(cupti, cupti->callbacks(cupti_give_buffer, cupti_take_buffer),
                                 "cuptiActivityRegisterCallbacks", diag);
  if (status == LW_OK) {
    status = cupti_check(cupti, cupti->enable(LW_CUPTI_KERNEL), "cuptiActivityEnable", diag);
  }
  if (status == LW_OK) return LW_OK;
  atomic_store(&cupti_current, NULL);
  cupti_free_sink(sink);
  return status;
}

lw_status lw__cupti_collect(const lw_cupti *cupti, lw_diag *diag, lw_rt_spans *spans) {
  LW_TRY(cupti_check(cupti, cupti->flush(LW_CUPTI_FLUSH_ALL), "cuptiActivityFlushAll", diag));
  cupti_sink *sink = atomic_load(&cupti_current);
  (void)pthread_mutex_lock(&sink->lock);
  lw_status status = sink->status;
  for (uint32_t i = 0; i < sink->spans.count && status == LW_OK; i++) {
    status = lw_vec_push(spans, sink->spans.data[i]);
  }
  sink->spans.count = 0;
  (void)pthread_mutex_unlock(&sink->lock);
  return status;
}

void lw__cupti_end(const lw_cupti *cupti) {
  (void)cupti->disable(LW_CUPTI_KERNEL);
  (void)cupti->flush(LW_CUPTI_FLUSH_ALL);
  cupti_sink *sink = atomic_exchange(&cupti_current, NULL);
  if (sink != NULL) cupti_free_sink(sink);
}

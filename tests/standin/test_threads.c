/* test_threads.c: several threads at once, for the thread sanitizer: contexts of one model, each
 * with a stream of the caller's, and models that are compiled, loaded and destroyed side by side
 * with one cache; on the look-alikes of a GPU and on the CPU. Usage: test_standin_threads [rounds].
 */
#include <pthread.h>
#include <stdatomic.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include <unistd.h>

#include "base/base.h"
#include "lib/small.h"

enum { THREADS = 4 };

static int rounds = 12;
static const char *device;
static char cache[64];
static lw_model *shared_model;
static atomic_int wrong;

static lw_cu_result (*push)(lw_cu_context), (*pop)(lw_cu_context *);
static lw_cu_result (*retain)(lw_cu_context *, lw_cu_device), (*release)(lw_cu_device);
static lw_cu_result (*stream_create)(lw_cu_stream *, unsigned int), (*stream_wait)(lw_cu_stream);
static lw_cu_result (*stream_destroy)(lw_cu_stream);

static void find_driver(void) {
#define FIND(function, name)                     \
  do {                                           \
    void *symbol = lw_small_driver_symbol(name); \
    memcpy(&function, &symbol, sizeof symbol);   \
  } while (0)
  FIND(push, "cuCtxPushCurrent_v2");
  FIND(pop, "cuCtxPopCurrent_v2");
  FIND(retain, "cuDevicePrimaryCtxRetain");
  FIND(release, "cuDevicePrimaryCtxRelease_v2");
  FIND(stream_create, "cuStreamCreate");
  FIND(stream_wait, "cuStreamSynchronize");
  FIND(stream_destroy, "cuStreamDestroy_v2");
}

static void *complain(const char *what, lw_status status) {
  printf("%s: %s: %s\n", device, what, lw_status_name(status));
  atomic_fetch_add(&wrong, 1);
  return NULL;
}

/* ---- contexts of one model ---- */

/* The outputs' bits must be those of the model's first run. */
static bool equal(const lw_small_io *a, const lw_small_io *b) {
  for (size_t i = 0; i < LW_SMALL_OUTPUTS; i++) {
    if (memcmp(a->out[i].data, b->out[i].data, a->out[i].bytes) != 0) return false;
  }
  return true;
}

static void *run_context(void *data) {
  uint64_t seed = 1 + (uint64_t) * (const int *)data;
  lw_small_io io, want;
  lw_context *context = NULL;
  lw_status status = lw_small_io_init(shared_model, seed, &io);
  if (status == LW_OK) status = lw_small_io_init(shared_model, seed, &want);
  if (status != LW_OK) return complain("arrays", status);
  status = lw_small_run(shared_model, &want, NULL);
  if (status == LW_OK) status = lw_context_create(shared_model, &context);
  if (status == LW_OK) status = lw_small_bind(context, &io);
  for (int i = 0; i < rounds && status == LW_OK; i++) {
    for (size_t k = 0; k < LW_SMALL_OUTPUTS; k++) memset(io.out[k].data, 0xff, io.out[k].bytes);
    status = lw_context_run(context);
    if (status == LW_OK && !equal(&io, &want)) status = LW_STATUS_CHECK_FAILED;
  }
  lw_context_destroy(context);
  lw_small_io_deinit(&io);
  lw_small_io_deinit(&want);
  return status == LW_OK ? NULL : complain("contexts", status);
}

/* Device memory for every array of |io|, bound to |context|; 16-byte aligned pieces of one block.
 */
static lw_status bind_on_device(lw_context *context, const lw_small_io *io, void **out_memory) {
  const lw_tools_array *arrays[1 + LW_SMALL_OUTPUTS] = {&io->in, &io->out[0], &io->out[1]};
  size_t bytes = 0;
  for (size_t i = 0; i <= LW_SMALL_OUTPUTS; i++) bytes += arrays[i]->bytes + 16;
  LW_TRY(lw_tools_alloc(shared_model, bytes, out_memory));
  char *at = *out_memory;
  LW_TRY(lw_tools_upload(shared_model, at, io->in.data, io->in.bytes));
  for (size_t i = 0; i <= LW_SMALL_OUTPUTS; i++) {
    const lw_tools_array *a = arrays[i];
    const lw_tensor tensor = {.data = at,
                              .dtype = a->dtype,
                              .rank = a->rank,
                              .dims = a->dims,
                              .memory = LW_MEMORY_DEVICE};
    LW_TRY(i == 0 ? lw_context_bind_input(context, 0, &tensor)
                  : lw_context_bind_output(context, i - 1, &tensor));
    at += (a->bytes + 15) / 16 * 16;
  }
  return LW_OK;
}

static lw_status download(const lw_small_io *io, const void *memory) {
  const char *at = (const char *)memory + (io->in.bytes + 15) / 16 * 16;
  for (size_t i = 0; i < LW_SMALL_OUTPUTS; i++) {
    LW_TRY(lw_tools_download(shared_model, io->out[i].data, at, io->out[i].bytes));
    at += (io->out[i].bytes + 15) / 16 * 16;
  }
  return LW_OK;
}

/* Two runs in flight in a stream of the thread's, again and again. */
static lw_status run_in_stream(const lw_small_io *io) {
  lw_context *context = NULL;
  lw_cu_stream stream = NULL;
  void *memory = NULL;
  if (stream_create(&stream, LW_CU_STREAM_NON_BLOCKING) != 0) return LW_STATUS_DEVICE_FAILED;
  lw_status status = lw_context_create(shared_model, &context);
  if (status == LW_OK) status = bind_on_device(context, io, &memory);
  for (int i = 0; i < rounds && status == LW_OK; i++) {
    status = lw_context_enqueue(context, stream);
    if (i % 2 == 1 && stream_wait(stream) != 0) status = LW_STATUS_DEVICE_FAILED;
  }
  lw_context_destroy(context);
  if (stream_wait(stream) != 0 || stream_destroy(stream) != 0) status = LW_STATUS_DEVICE_FAILED;
  if (status == LW_OK) status = download(io, memory);
  lw_tools_free(shared_model, memory);
  return status;
}

static void *run_stream(void *data) {
  uint64_t seed = 1 + (uint64_t) * (const int *)data;
  lw_small_io io, want;
  lw_cu_context primary, popped;
  lw_status status = lw_small_io_init(shared_model, seed, &io);
  if (status == LW_OK) status = lw_small_io_init(shared_model, seed, &want);
  if (status != LW_OK) return complain("arrays", status);
  status = lw_small_run(shared_model, &want, NULL);
  if (retain(&primary, 0) != 0 || push(primary) != 0) return complain("driver", LW_OK);
  if (status == LW_OK) status = run_in_stream(&io);
  if (pop(&popped) != 0 || release(0) != 0) status = LW_STATUS_DEVICE_FAILED;
  if (status == LW_OK && !equal(&io, &want)) status = LW_STATUS_CHECK_FAILED;
  lw_small_io_deinit(&io);
  lw_small_io_deinit(&want);
  return status == LW_OK ? NULL : complain("streams", status);
}

/* ---- models ---- */

static void *run_model(void *data) {
  int which = *(const int *)data % LW_SMALL_GRAPHS;
  for (int i = 0; i < 1 + rounds / 4; i++) {
    lw_model *model;
    lw_small_io io = {0};
    lw_status status = lw_small_load(which, device, cache, "on", &model);
    if (status != LW_OK) printf("%s\n", lw_model_error(model));
    if (status == LW_OK) status = lw_small_io_init(model, 5, &io);
    if (status == LW_OK) status = lw_small_run(model, &io, NULL);
    if (status == LW_OK) status = lw_small_verify(model, &io);
    lw_small_io_deinit(&io);
    lw_model_destroy(model);
    if (status != LW_OK) return complain("models", status);
  }
  return NULL;
}

/* ---- all together ---- */

static void run_threads(void *(*run)(void *)) {
  pthread_t threads[THREADS];
  int numbers[THREADS], started = 0;
  for (int i = 0; i < THREADS; i++) {
    numbers[i] = i;
    if (pthread_create(&threads[started], NULL, run, &numbers[i]) == 0) started++;
  }
  if (started < THREADS) (void)complain("pthread_create", LW_STATUS_OUT_OF_MEMORY);
  for (int i = 0; i < started; i++) (void)pthread_join(threads[i], NULL);
}

static void run_device(const char *name) {
  bool gpu = strcmp(name, "cuda") == 0;
  device = name;
  for (int which = 0; which < LW_SMALL_GRAPHS; which++) {
    lw_status status = lw_small_load(which, device, cache, "on", &shared_model);
    if (status != LW_OK) {
      (void)complain(lw_model_error(shared_model), status);
    } else {
      run_threads(run_context);
      if (gpu) run_threads(run_stream);
    }
    lw_model_destroy(shared_model);
  }
  run_threads(run_model);
}

static void remove_cache(void) {
  char command[96];
  (void)snprintf(command, sizeof command, "rm -rf '%s'", cache);
  if (system(command) != 0) printf("cannot remove %s\n", cache);
}

int main(int argc, char **argv) {
  if (argc > 1) rounds = atoi(argv[1]);
  (void)snprintf(cache, sizeof cache, "/tmp/lawson-threads-XXXXXX");
  if (mkdtemp(cache) == NULL) return 1;
  lw_standin_state *driver = lw_small_driver();
  driver->no_access_log = true; /* its time is spent elsewhere here */
  find_driver();
  run_device("cuda");
  run_device("cpu");
  remove_cache();
  const char *left = lw_small_leftovers();
  if (left != NULL) printf("%s\n", left);
  printf("%llu launches, %d wrong\n", (unsigned long long)driver->launches, atomic_load(&wrong));
  return left != NULL || atomic_load(&wrong) != 0;
}

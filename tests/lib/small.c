/* small.c: small models through the public API. */
#include "lib/small.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include <dlfcn.h>

#include "base/base.h"

enum { ROWS = 6, COLUMNS = 40, WIDTH = 5 };

static const char driver_library[] = LW_BUILD_DIR "/libcuda_standin.so";
static const char nvrtc_library[] = LW_BUILD_DIR "/libnvrtc_standin.so";

static void *symbol_of(const char *library, const char *name) {
  void *handle = dlopen(library, RTLD_NOW);
  void *symbol = handle == NULL ? NULL : dlsym(handle, name);
  if (symbol != NULL) return symbol;
  fprintf(stderr, "%s\n", dlerror());
  abort();
}

static void *state_of(const char *library, const char *name) {
  void *(*function)(void);
  void *symbol = symbol_of(library, name);
  memcpy(&function, &symbol, sizeof symbol);
  return function();
}

lw_standin_state *lw_small_driver(void) { return state_of(driver_library, "lw_standin"); }

lw_nvrtc_standin_state *lw_small_nvrtc(void) { return state_of(nvrtc_library, "lw_nvrtc_standin"); }

void *lw_small_driver_symbol(const char *name) { return symbol_of(driver_library, name); }

void lw_small_bury(void) {
  lw_standin_bury_function *bury;
  void *symbol = symbol_of(driver_library, "lw_standin_bury");
  memcpy(&bury, &symbol, sizeof symbol);
  bury();
}

const char *lw_small_leftovers(void) {
  const lw_standin_state *d = lw_small_driver();
  if (d->violations != 0) return d->violation;
  if (d->context_depth != 0) return "a context that is still current";
  if (d->live_memory != 0) return "memory that was not freed";
  if (d->live_modules != 0) return "modules that were not unloaded";
  if (d->live_streams + d->live_events != 0) return "streams or events that were not destroyed";
  if (d->live_graphs != 0) return "graphs that were not destroyed";
  if (d->live_captures != 0) return "a stream that is still being captured";
  if (d->retains != 0) return "a primary context that was not released";
  return lw_small_nvrtc()->programs_live != 0 ? "NVRTC's programs that were not destroyed" : NULL;
}

/* ---- graphs ---- */

static lw_status softmax_and_product(lw_graph *g, uint32_t x) {
  const int64_t weight_dims[] = {COLUMNS, WIDTH};
  float weights[COLUMNS * WIDTH];
  for (int i = 0; i < COLUMNS * WIDTH; i++) weights[i] = (float)(i % 7 - 3) / 8;
  uint32_t square, a, bent, norm, wave, soft, w, product, out;
  LW_TRY(lw_graph_add_map(g, "mul", (const uint32_t[]){x, x}, 2, &square));
  LW_TRY(lw_graph_add_map(g, "sub", (const uint32_t[]){square, x}, 2, &a));
  LW_TRY(lw_graph_add_map(g, "tanh", &a, 1, &bent));
  LW_TRY(lw_graph_add_layer_norm(g, bent, 1, 1e-5, UINT32_MAX, UINT32_MAX, &norm));
  LW_TRY(lw_graph_add_map(g, "sin", &norm, 1, &wave));
  LW_TRY(lw_graph_add_softmax(g, wave, 1, &soft));
  LW_TRY(lw_graph_add_constant(g, LW_DTYPE_F32, 2, weight_dims, weights, &w));
  LW_TRY(lw_graph_add_matmul(g, soft, w, &product));
  LW_TRY(lw_graph_add_relu(g, product, &out));
  LW_TRY(lw_graph_add_output(g, soft, "soft"));
  return lw_graph_add_output(g, out, "product");
}

static lw_status map_and_transpose(lw_graph *g, uint32_t x) {
  uint32_t a, b, turned;
  LW_TRY(lw_graph_add_map(g, "sigmoid", &x, 1, &a));
  LW_TRY(lw_graph_add_map(g, "mul", (const uint32_t[]){a, x}, 2, &b));
  LW_TRY(lw_graph_add_transpose(g, x, NULL, &turned));
  LW_TRY(lw_graph_add_output(g, b, "silu"));
  return lw_graph_add_output(g, turned, "turned");
}

static lw_status make_graph(int which, lw_graph **out) {
  const int64_t dims[] = {ROWS, COLUMNS};
  uint32_t x;
  LW_TRY(lw_graph_create(out));
  LW_TRY(lw_graph_add_input(*out, "x", LW_DTYPE_F32, 2, dims, &x));
  return which == 0 ? softmax_and_product(*out, x) : map_and_transpose(*out, x);
}

/* ---- models ---- */

static lw_status make_options(const char *device, const char *cache, const char *fuse,
                              lw_options **out) {
  LW_TRY(lw_options_create(out));
  LW_TRY(lw_options_set(*out, "device", device));
  LW_TRY(lw_options_set(*out, "cuda", driver_library));
  LW_TRY(lw_options_set(*out, "nvrtc", nvrtc_library));
  LW_TRY(lw_options_set(*out, "cache", cache));
  LW_TRY(lw_options_set(*out, "threads", "1"));
  return lw_options_set(*out, "fuse", fuse);
}

lw_status lw_small_load(int which, const char *device, const char *cache, const char *fuse,
                        lw_model **out_model) {
  lw_options *options = NULL;
  lw_graph *graph = NULL;
  *out_model = NULL;
  lw_status status = make_options(device, cache, fuse, &options);
  if (status == LW_OK) status = make_graph(which, &graph);
  if (status == LW_OK) status = lw_model_compile(graph, options, out_model);
  lw_graph_destroy(graph);
  lw_options_destroy(options);
  return status;
}

/* ---- data ---- */

static lw_status array_for(const lw_tensor_info *info, lw_tools_array *out) {
  return lw_tools_array_create(info->dtype, info->rank, info->dims, out);
}

lw_status lw_small_io_init(const lw_model *model, uint64_t seed, lw_small_io *out) {
  *out = (lw_small_io){0};
  lw_status status = array_for(lw_model_input(model, 0), &out->in);
  for (size_t i = 0; i < LW_SMALL_OUTPUTS && status == LW_OK; i++) {
    status = array_for(lw_model_output(model, i), &out->out[i]);
  }
  if (status == LW_OK) {
    lw_tools_array_randomize(&out->in, seed, 0, 0);
  } else {
    lw_small_io_deinit(out);
  }
  return status;
}

void lw_small_io_deinit(lw_small_io *io) {
  lw_tools_array_deinit(&io->in);
  for (size_t i = 0; i < LW_SMALL_OUTPUTS; i++) lw_tools_array_deinit(&io->out[i]);
}

static lw_tensor tensor_of(const lw_tools_array *array) {
  return (lw_tensor){
      .data = array->data, .dtype = array->dtype, .rank = array->rank, .dims = array->dims};
}

lw_status lw_small_bind(lw_context *context, const lw_small_io *io) {
  lw_tensor tensor = tensor_of(&io->in);
  LW_TRY(lw_context_bind_input(context, 0, &tensor));
  for (size_t i = 0; i < LW_SMALL_OUTPUTS; i++) {
    tensor = tensor_of(&io->out[i]);
    LW_TRY(lw_context_bind_output(context, i, &tensor));
  }
  return LW_OK;
}

lw_status lw_small_run(lw_model *model, const lw_small_io *io, lw_stats *out_stats) {
  for (size_t i = 0; i < LW_SMALL_OUTPUTS; i++) memset(io->out[i].data, 0xff, io->out[i].bytes);
  lw_context *context = NULL;
  lw_status status = lw_context_create(model, &context);
  if (status == LW_OK) status = lw_small_bind(context, io);
  if (status == LW_OK) status = lw_context_run(context);
  if (status != LW_OK && context != NULL && lw_context_error(context)[0] == '\0') {
    status = LW_STATUS_INTERNAL; /* an error without words */
  }
  if (out_stats != NULL) lw_context_stats(context, out_stats);
  lw_context_destroy(context);
  return status;
}

lw_status lw_small_verify(lw_model *model, const lw_small_io *io) {
  lw_tools_difference differences[LW_SMALL_OUTPUTS];
  return lw_tools_model_verify(model, &io->in, io->out, differences, NULL);
}

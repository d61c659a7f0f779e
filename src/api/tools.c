/* tools.c: lawson/tools.h: the library's insides for its own command line and tests. */
#include <math.h>
#include <stdio.h>
#include <string.h>

#include "api/model.h"
#include "api/npy.h"
#include "api/shapes.h"
#include "graph/interp.h"

lw_status lw__tools_end(lw_diag *diag, lw_status status, lw_tools_reason *reason) {
  lw_text line = {0};
  lw__diag_line(diag, &line);
  if (reason != NULL) {
    const char *text = line.len > 0 ? lw__text_str(&line) : lw_status_name(status);
    snprintf(reason->text, sizeof reason->text, "%s", status == LW_OK ? "" : text);
  }
  lw__text_deinit(&line);
  lw__diag_deinit(diag);
  return status;
}

/* ---- arrays ----- */

lw_status lw_tools_array_create(lw_dtype dtype, int rank, const int64_t *dims,
                                lw_tools_array *out_array) {
  if (out_array == NULL) return LW_STATUS_USAGE;
  *out_array = (lw_tools_array){.dtype = dtype, .rank = rank};
  size_t bytes = lw_dtype_size_bytes(dtype);
  if (bytes == 0 || rank < 0 || rank > LW_MAX_RANK || (rank > 0 && dims == NULL)) {
    return LW_STATUS_USAGE;
  }
  bool empty = false;
  for (int d = 0; d < rank; d++) {
    out_array->dims[d] = dims[d];
    empty |= dims[d] == 0;
    if (dims[d] < 0) return LW_STATUS_USAGE;
    if (dims[d] > 0 && !lw__mul_size(bytes, (size_t)dims[d], &bytes)) return LW_STATUS_USAGE;
  }
  if (empty) return LW_OK;
  LW_TRY(lw__mem_resize(&out_array->data, bytes));
  memset(out_array->data, 0, bytes);
  out_array->bytes = bytes;
  return LW_OK;
}

void lw_tools_array_deinit(lw_tools_array *array) {
  if (array == NULL) return;
  lw__mem_free(array->data);
  *array = (lw_tools_array){0};
}

static int64_t array_count(const lw_tools_array *array) {
  size_t size = lw_dtype_size_bytes(array->dtype);
  return size == 0 ? 0 : (int64_t)(array->bytes / size);
}

void lw_tools_array_randomize(lw_tools_array *array, uint64_t seed, int64_t lo, int64_t hi) {
  lw_rng rng;
  lw__rng_seed(&rng, seed);
  int64_t count = array_count(array);
  for (int64_t i = 0; i < count; i++) {
    if (lw__dtype_is_float(array->dtype)) {
      lw__elem_set_f64(array->dtype, array->data, i, lw__rng_normal(&rng));
    } else if (array->dtype == LW_DTYPE_BOOL) {
      lw__elem_set_i64(array->dtype, array->data, i, lw__rng_range(&rng, 0, 2));
    } else {
      lw__elem_set_i64(array->dtype, array->data, i,
                       lw__rng_range(&rng, lo, hi > lo ? hi : lo + 1));
    }
  }
}

double lw_tools_array_get(const lw_tools_array *array, int64_t index) {
  if (index < 0 || index >= array_count(array)) return 0;
  if (lw__dtype_is_float(array->dtype)) return lw__elem_get_f64(array->dtype, array->data, index);
  int64_t value = lw__elem_get_i64(array->dtype, array->data, index);
  return array->dtype == LW_DTYPE_U64 ? (double)(uint64_t)value : (double)value;
}

lw_status lw_tools_npy_read(const char *path, lw_tools_array *out_array, lw_tools_reason *reason) {
  if (path == NULL || out_array == NULL) return LW_STATUS_USAGE;
  *out_array = (lw_tools_array){0};
  lw_diag diag = {0};
  lw_npy npy;
  lw_status status = lw__npy_read(path, &diag, &npy);
  if (status == LW_OK) {
    *out_array = (lw_tools_array){
        .dtype = npy.dtype, .rank = npy.rank, .data = npy.data, .bytes = npy.bytes};
    memcpy(out_array->dims, npy.dims, sizeof npy.dims);
  }
  return lw__tools_end(&diag, status, reason);
}

lw_status lw_tools_npy_write(const char *path, const lw_tools_array *array,
                             lw_tools_reason *reason) {
  if (path == NULL || array == NULL) return LW_STATUS_USAGE;
  lw_diag diag = {0};
  lw_status status =
      lw__npy_write(path, array->dtype, array->rank, array->dims, array->data, &diag);
  return lw__tools_end(&diag, status, reason);
}

/* ---- comparing ----- */

typedef struct element_error {
  bool bad;
  double got, want, error, allowed;
} element_error;

static element_error compare_floats(double got, double want, const lw_tools_tolerance *t) {
  element_error e = {.got = got, .want = want};
  if (__builtin_isnan(want)) {
    e.bad = !t->nan_any && !__builtin_isnan(got);
    return e;
  }
  if (__builtin_isnan(got) || __builtin_isinf(want) || __builtin_isinf(got)) {
    e.bad = !(got == want);
    return e;
  }
  e.error = __builtin_fabs(got - want);
  e.allowed = t->atol + t->rtol * __builtin_fabs(want);
  e.bad = !(e.error <= e.allowed);
  return e;
}

static element_error compare_element(const lw_tools_array *got, const lw_tools_array *want,
                                     int64_t index, const lw_tools_tolerance *t) {
  double g = lw_tools_array_get(got, index), w = lw_tools_array_get(want, index);
  if (lw__dtype_is_float(got->dtype)) return compare_floats(g, w, t);
  bool equal = lw__elem_get_i64(got->dtype, got->data, index) ==
               lw__elem_get_i64(want->dtype, want->data, index);
  return (element_error){.bad = !equal, .got = g, .want = w, .error = __builtin_fabs(g - w)};
}

/* How far |e| is outside what is allowed; infinite for NaN against a number and the like. */
static double element_ratio(const element_error *e) {
  if (e->allowed > 0) return e->error / e->allowed;
  return e->bad ? __builtin_inf() : 0;
}

void lw_tools_compare(const lw_tools_array *got, const lw_tools_array *want,
                      const lw_tools_tolerance *tolerance, lw_tools_difference *out_difference) {
  lw_tools_difference d = {.count = array_count(got), .worst_index = -1, .worst_ratio = -1};
  if (got->dtype != want->dtype || got->bytes != want->bytes) {
    d.bad = d.count > 0 ? d.count : 1;
    *out_difference = d;
    return;
  }
  for (int64_t i = 0; i < d.count; i++) {
    element_error e = compare_element(got, want, i, tolerance);
    double ratio = element_ratio(&e);
    d.bad += e.bad;
    if (e.error > d.max_abs_error) d.max_abs_error = e.error;
    if (ratio <= d.worst_ratio) continue;
    d.worst_ratio = ratio;
    d.worst_index = i;
    d.worst_got = e.got;
    d.worst_want = e.want;
    d.worst_allowed = e.allowed;
  }
  *out_difference = d;
}

/* ---- the oracle ----- */

static bool array_fits(const lw_tools_array *array, const lw_graph *graph, lw_value_id value) {
  const lw_value *v = lw__value(graph, value);
  if (array->dtype != v->dtype || array->rank != (int)v->shape.rank) return false;
  return memcmp(array->dims, v->shape.dim, sizeof *array->dims * v->shape.rank) == 0;
}

static lw_status verify_fits(const lw_model *model, const lw_graph *g, const lw_tools_array *inputs,
                             const lw_tools_array *outputs, lw_diag *diag) {
  for (uint32_t i = 0; i < model->input_count; i++) {
    if (array_fits(&inputs[i], g, g->inputs.data[i])) continue;
    return lw__fail(diag, LW_STATUS_USAGE, model->inputs[i].name, "type or shape is another one");
  }
  for (uint32_t i = 0; i < model->output_count; i++) {
    if (array_fits(&outputs[i], g, g->outputs.data[i])) continue;
    return lw__fail(diag, LW_STATUS_USAGE, model->outputs[i].name, "type or shape is another one");
  }
  return LW_OK;
}

/* The model's graph with the inputs' numbers for what is open in it; |*out_own| then needs
 * lw__graph_deinit. */
static lw_status verify_graph(const lw_model *model, const lw_tools_array *inputs, lw_arena *arena,
                              lw_diag *diag, bool *out_own, lw_graph *own) {
  *out_own = false;
  if (model->shapes == NULL) return LW_OK;
  const int64_t **dims;
  int64_t *numbers;
  LW_TRY(lw__arena_alloc(arena, model->input_count, sizeof *dims, &dims));
  LW_TRY(lw__arena_alloc(arena, model->shapes->symbol_count, sizeof *numbers, &numbers));
  for (uint32_t i = 0; i < model->input_count; i++) {
    if (inputs[i].rank != model->inputs[i].rank) {
      return lw__fail(diag, LW_STATUS_USAGE, model->inputs[i].name, "type or shape is another one");
    }
    dims[i] = inputs[i].dims;
  }
  LW_TRY(lw__shapes_solve(model, dims, diag, numbers));
  LW_TRY(lw__shapes_graph(model, numbers, diag, own));
  *out_own = true;
  return LW_OK;
}

static lw_status verify_run(const lw_graph *g, const lw_tools_array *inputs, lw_arena *arena,
                            lw_diag *diag, lw_oracle_tensor **out_results) {
  lw_host_tensor *hosts;
  LW_TRY(lw__arena_alloc(arena, g->inputs.count, sizeof *hosts, &hosts));
  LW_TRY(lw__arena_alloc(arena, g->outputs.count, sizeof **out_results, out_results));
  for (uint32_t i = 0; i < g->inputs.count; i++) {
    const lw_value *value = lw__value(g, g->inputs.data[i]);
    hosts[i] =
        (lw_host_tensor){.dtype = value->dtype, .shape = value->shape, .data = inputs[i].data};
  }
  return lw__interp_run(g, LW_INTERP_IDEAL, hosts, arena, 0, diag, *out_results);
}

/* An element is compared when its worst case or its expected deviation can be told. */
static bool verify_comparable(const lw_oracle_tensor *want, int64_t k) {
  return want->bound[k] != INFINITY || (want->deviation != NULL && isfinite(want->deviation[k]));
}

static double verify_wanted(const lw_oracle_tensor *want, int64_t k) {
  if (want->f != NULL) return want->f[k];
  return want->dtype == LW_DTYPE_U64 ? (double)(uint64_t)want->i[k] : (double)want->i[k];
}

/* What cannot be told is counted; the largest error is that of everything else. */
static void verify_sum_up(const lw_oracle_tensor *want, const lw_tools_array *got,
                          lw_tools_difference *out) {
  out->ambiguous = 0;
  out->max_abs_error = 0;
  for (int64_t k = 0; k < want->count; k++) {
    if (!verify_comparable(want, k)) {
      out->ambiguous++;
      continue;
    }
    double error = fabs(lw__elem_get_f64(want->dtype, got->data, k) - verify_wanted(want, k));
    if (isfinite(error)) out->max_abs_error = fmax(out->max_abs_error, error);
  }
}

static void verify_compare(const lw_oracle_tensor *want, const lw_tools_array *got,
                           lw_tools_difference *out) {
  lw_compare c = {0};
  lw__interp_compare(want, got->data, &c);
  *out = (lw_tools_difference){.count = c.count,
                               .bad = c.bad,
                               .worst_index = c.worst_index,
                               .worst_got = c.worst_got,
                               .worst_want = c.worst_want,
                               .worst_allowed = c.worst_bound,
                               .worst_ratio = c.worst_ratio};
  verify_sum_up(want, got, out);
  /* For whole networks the bound says little; what rounding is expected to do says more. */
  int64_t k = c.worst_deviations_index;
  if (c.bad > 0 || k < 0) return;
  out->bad = c.suspect;
  out->worst_index = k;
  out->worst_got = lw__elem_get_f64(want->dtype, got->data, k);
  out->worst_want = verify_wanted(want, k);
  out->worst_allowed = LW_INTERP_SUSPECT * want->deviation[k];
  out->worst_ratio = c.worst_deviations / LW_INTERP_SUSPECT;
}

lw_status lw_tools_model_verify(lw_model *model, const lw_tools_array *inputs,
                                const lw_tools_array *outputs, lw_tools_difference *out_differences,
                                lw_tools_reason *reason) {
  if (model == NULL || out_differences == NULL) return LW_STATUS_USAGE;
  lw_diag diag = {0};
  (void)pthread_mutex_lock(&model->lock);
  lw_status recalled = lw__model_recall(model, false, &diag);
  (void)pthread_mutex_unlock(&model->lock);
  if (recalled != LW_OK) return lw__tools_end(&diag, recalled, reason);
  lw_arena arena = {0};
  lw_oracle_tensor *want = NULL;
  lw_graph own;
  bool has_own;
  lw_status status = verify_graph(model, inputs, &arena, &diag, &has_own, &own);
  const lw_graph *g = has_own ? &own : &model->graph;
  if (status == LW_OK) status = verify_fits(model, g, inputs, outputs, &diag);
  if (status == LW_OK) status = verify_run(g, inputs, &arena, &diag, &want);
  uint32_t failed = 0;
  for (uint32_t i = 0; status == LW_OK && i < model->output_count; i++) {
    verify_compare(&want[i], &outputs[i], &out_differences[i]);
    failed += out_differences[i].bad > 0;
  }
  if (failed > 0) {
    status = lw__fail(&diag, LW_STATUS_CHECK_FAILED, "",
                      "%u of %u outputs are outside the bound of the interpreter", failed,
                      model->output_count);
  }
  if (has_own) lw__graph_deinit(&own);
  lw__arena_deinit(&arena);
  return lw__tools_end(&diag, status, reason);
}

/* ---- a model's insides ----- */

size_t lw_tools_model_kernel_count(const lw_model *model) {
  const lw_plan *plan = lw__model_plan(model);
  return plan == NULL ? 0 : plan->kernels.count;
}

void lw_tools_model_kernel(const lw_model *model, size_t index, lw_tools_kernel *out_kernel) {
  if (out_kernel == NULL) return;
  *out_kernel = (lw_tools_kernel){.name = "", .source = ""};
  if (index >= lw_tools_model_kernel_count(model)) return;
  const lw_plan_kernel *k = &lw__model_plan(model)->kernels.data[index];
  *out_kernel = (lw_tools_kernel){.name = k->name,
                                  .source = k->source == NULL ? "" : k->source,
                                  .block_threads = k->block_threads,
                                  .shared_bytes = k->shared_bytes,
                                  .registers = k->registers,
                                  .spill_bytes = k->spill_bytes};
}

lw_status lw_tools_model_plan(lw_model *model, const char **out_text) {
  if (out_text == NULL || lw__model_plan(model) == NULL) return LW_STATUS_USAGE;
  (void)pthread_mutex_lock(&model->lock);
  if (model->plan.len == 0) lw__plan_print(lw__model_plan(model), &model->plan);
  lw_status status = model->plan.status;
  *out_text = lw__text_str(&model->plan);
  (void)pthread_mutex_unlock(&model->lock);
  return status;
}

const char *lw_tools_model_target(const lw_model *model) {
  return model == NULL ? "none" : model->target;
}

const char *lw_tools_model_origin(const lw_model *model) {
  model = lw__model_shown(model);
  if (model == NULL || !model->from_plan) return "compiled";
  return model->options != NULL ? "cache" : "file";
}

void lw_tools_model_stats(const lw_model *model, lw_stats *out_stats) {
  if (out_stats == NULL) return;
  *out_stats = (lw_stats){0};
  const lw_model *shown = lw__model_shown(model);
  if (shown == NULL) return;
  lw__model_static_stats(shown, out_stats);
  if (lw__model_plan(shown) != NULL)
    out_stats->live_bytes = lw__plan_live_bytes(lw__model_plan(shown));
}

/* ---- measuring ----- */

lw_status lw_tools_trace_run(lw_context *context, lw_tools_trace *out_trace,
                             lw_tools_reason *reason) {
  if (context == NULL || out_trace == NULL) return LW_STATUS_USAGE;
  *out_trace = (lw_tools_trace){0};
  lw_diag diag = {0};
  lw_rt_trace trace = {0};
  lw_rt_context *rt = lw__context_runtime(context);
  lw_status status = rt == NULL ? lw__fail(&diag, LW_STATUS_USAGE, "trace", "nothing ran yet")
                                : lw__rt_trace_run(rt, &diag, &trace);
  *out_trace = (lw_tools_trace){.kernels = trace.kernels,
                                .busy_us = (double)trace.busy_ns * 1e-3,
                                .gap_us = (double)trace.gap_ns * 1e-3};
  return lw__tools_end(&diag, status, reason);
}

void lw_tools_allocations(const lw_model *model, uint64_t *out_host, uint64_t *out_device) {
  bool opened = model != NULL && model->rt_device != NULL;
  if (out_host != NULL) *out_host = lw__mem_count();
  if (out_device != NULL) *out_device = opened ? lw__rt_allocations(model->rt_device) : 0;
}

/* ---- the device ----- */

struct lw_tools_device {
  lw_rt_device *rt;
  lw_rt_device_info info;
  lw_device_profile profile;
  lw_arena arena;
};

static lw_status device_open(lw_tools_device *device, const lw_options *options, lw_diag *diag) {
  const char *spec = options != NULL ? options->device : "auto";
  lw_rt_device_options rt = {0};
  if (options != NULL) rt = lw__device_options(options);
  LW_TRY(lw__rt_device_open(spec, &rt, diag, &device->rt));
  lw__rt_device_info(device->rt, &device->info);
  const char *target;
  return lw__profile_of_device(&device->info, &device->arena, diag, &device->profile, &target);
}

lw_status lw_tools_device_open(const lw_options *options, lw_tools_device **out_device,
                               lw_tools_reason *reason) {
  if (out_device == NULL) return LW_STATUS_USAGE;
  *out_device = NULL;
  void *memory = NULL;
  LW_TRY(lw__mem_resize(&memory, sizeof(lw_tools_device)));
  lw_tools_device *device = memory;
  *device = (lw_tools_device){0};
  lw_diag diag = {0};
  lw_status status = device_open(device, options, &diag);
  if (status == LW_OK) {
    *out_device = device;
  } else {
    lw_tools_device_close(device);
  }
  return lw__tools_end(&diag, status, reason);
}

void lw_tools_device_close(lw_tools_device *device) {
  if (device == NULL) return;
  if (device->rt != NULL) lw__rt_device_release(device->rt);
  lw__arena_deinit(&device->arena);
  lw__mem_free(device);
}

void lw_tools_device_describe(const lw_tools_device *device, lw_tools_device_info *out_info) {
  *out_info = (lw_tools_device_info){.kind = device->info.kind,
                                     .name = device->info.name,
                                     .profile = device->profile.name,
                                     .sm_arch = device->info.sm_arch,
                                     .sm_count = device->info.sm_count,
                                     .memory_bytes = device->info.memory_bytes,
                                     .launch_us = device->profile.launch_us,
                                     .dram_gbps = device->profile.dram_gbps,
                                     .f32_gflops = device->profile.f32_gflops,
                                     .f16_gflops = device->profile.f16_gflops};
}

static lw_status tools_device_of(const lw_model *model, lw_rt_device **out) {
  *out = model == NULL ? NULL : model->rt_device;
  return *out == NULL ? LW_STATUS_USAGE : LW_OK;
}

lw_status lw_tools_alloc(lw_model *model, size_t bytes, void **out_memory) {
  lw_rt_device *device;
  if (out_memory == NULL) return LW_STATUS_USAGE;
  *out_memory = NULL;
  LW_TRY(tools_device_of(model, &device));
  return lw__rt_alloc(device, bytes, out_memory);
}

void lw_tools_free(lw_model *model, void *memory) {
  lw_rt_device *device;
  if (memory != NULL && tools_device_of(model, &device) == LW_OK) lw__rt_free(device, memory);
}

lw_status lw_tools_upload(lw_model *model, void *dst, const void *src, size_t bytes) {
  lw_rt_device *device;
  LW_TRY(tools_device_of(model, &device));
  return lw__rt_upload(device, dst, src, bytes);
}

lw_status lw_tools_download(lw_model *model, void *dst, const void *src, size_t bytes) {
  lw_rt_device *device;
  LW_TRY(tools_device_of(model, &device));
  return lw__rt_download(device, dst, src, bytes);
}

lw_status lw_tools_flush_cache(lw_model *model) {
  lw_rt_device *device;
  LW_TRY(tools_device_of(model, &device));
  return lw__rt_flush_cache(device);
}

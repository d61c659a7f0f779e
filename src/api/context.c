/* context.c: binding and running. Tensors with strides of the caller's own are copied through
 * packed host memory around the run; the runtime takes care of every other kind of memory. */
#include <math.h>
#include <string.h>

#include "api/context.h"
#include "api/states.h"
#include "api/strided.h"

typedef struct lw_binding {
  void *data;
  int64_t dims[LW_MAX_RANK], strides[LW_MAX_RANK];
  int64_t span_lo, span_hi; /* elements of the caller's memory that are touched, from |data| */
  bool on_device;
  bool through;  /* by way of |staging| */
  void *staging; /* packed, host */
  size_t staging_bytes;
} lw_binding;

struct lw_context {
  lw_model *model;
  lw_rt_context *rt;
  lw_dynamic *dynamic; /* of a model with open dimensions; else NULL and |rt| is there */
  lw_binding *inputs, *outputs;
  uint64_t live_bytes;
  lw_state_memory *states;
  lw_diag diag;
  lw_text error;
  lw_context *running; /* submitted: itself, or the one of the run's shape */
  atomic_int phase;    /* context_phase */
  atomic_int refused;  /* the phase that the last call should have met, plus 1; 0: it did */
};

/* Calls and runs exclude each other; a call that comes too early touches nothing else. */
typedef enum context_phase { CONTEXT_IDLE, CONTEXT_CALL, CONTEXT_SUBMITTED } context_phase;

static lw_status context_enter(lw_context *context, context_phase from) {
  int expected = (int)from;
  if (context == NULL) return LW_STATUS_USAGE;
  bool entered = atomic_compare_exchange_strong(&context->phase, &expected, (int)CONTEXT_CALL);
  atomic_store(&context->refused, entered ? 0 : (int)from + 1);
  return entered ? LW_OK : LW_STATUS_USAGE;
}

/* ---- life ----- */

static lw_status context_bindings(size_t count, lw_binding **out) {
  void *memory = NULL;
  size_t bytes;
  if (!lw__mul_size(count, sizeof(lw_binding), &bytes)) return LW_STATUS_OUT_OF_MEMORY;
  if (count == 0) return LW_OK;
  LW_TRY(lw__mem_resize(&memory, bytes));
  memset(memory, 0, bytes);
  *out = memory;
  return LW_OK;
}

static lw_status context_init(lw_context *context, const lw_rt_context_options *options) {
  lw_model *model = context->model;
  if (model->shapes != NULL && model->status == LW_OK && model->rt_device != NULL) {
    return lw__dynamic_create(model, options, &context->dynamic);
  }
  if (model->program == NULL) {
    return lw__fail(&context->diag, LW_STATUS_USAGE, "lw_context_create",
                    model->status != LW_OK ? "the model failed to load"
                                           : "the model was only compiled (option compile_only)");
  }
  LW_TRY(context_bindings(model->input_count, &context->inputs));
  LW_TRY(context_bindings(model->output_count, &context->outputs));
  context->live_bytes = lw__plan_live_bytes(lw__model_plan(model));
  LW_TRY(lw__states_open(model, &context->diag, &context->states));
  return lw__rt_context_create_with(model->program, options, &context->diag, &context->rt);
}

/* The end of every call: its first error becomes the context's, and messages do not pile up. */
static lw_status context_end(lw_context *context, lw_status status) {
  lw__diag_line(&context->diag, &context->error);
  if (status != LW_OK && context->error.len == 0) {
    lw__text_add(&context->error, "%s", lw_status_name(status));
  }
  lw__diag_deinit(&context->diag);
  atomic_store(&context->phase, context->running != NULL ? CONTEXT_SUBMITTED : CONTEXT_IDLE);
  return status;
}

lw_status lw_context_create(lw_model *model, lw_context **out_context) {
  return lw_context_create_with(model, NULL, out_context);
}

lw_status lw_context_create_with(lw_model *model, const lw_context_options *options,
                                 lw_context **out_context) {
  lw_rt_context_options rt = {.priority = options != NULL ? options->priority : 0};
  if (out_context == NULL) return LW_STATUS_USAGE;
  *out_context = NULL;
  if (model == NULL) return LW_STATUS_USAGE;
  return lw__context_create_in(model, &rt, out_context);
}

lw_status lw__context_create_in(lw_model *model, const lw_rt_context_options *options,
                                lw_context **out_context) {
  *out_context = NULL;
  void *memory = NULL;
  LW_TRY(lw__mem_resize(&memory, sizeof(lw_context)));
  lw_context *context = memory;
  *context = (lw_context){.model = model};
  lw__model_retain(model);
  *out_context = context;
  return context_end(context, context_init(context, options));
}

static void context_free_bindings(lw_binding *bindings, size_t count) {
  for (size_t i = 0; bindings != NULL && i < count; i++) lw__mem_free(bindings[i].staging);
  lw__mem_free(bindings);
}

void lw_context_destroy(lw_context *context) {
  if (context == NULL) return;
  if (context->rt != NULL) lw__rt_context_destroy(context->rt);
  lw__dynamic_destroy(context->dynamic);
  lw__states_close(context->model, context->states);
  context_free_bindings(context->inputs, context->model->input_count);
  context_free_bindings(context->outputs, context->model->output_count);
  lw__diag_deinit(&context->diag);
  lw__text_deinit(&context->error);
  lw__model_release(context->model);
  lw__mem_free(context);
}

const char *lw_context_error(const lw_context *context) {
  int refused = context == NULL ? 0 : atomic_load(&context->refused);
  if (refused == CONTEXT_IDLE + 1) {
    return "this context is running: one context has one run at a time, and lw_context_wait ends "
           "the "
           "one that lw_context_submit began";
  }
  if (refused == CONTEXT_SUBMITTED + 1) {
    return "no run of this context is in flight: lw_context_submit begins one";
  }
  return context == NULL ? "the context is NULL" : lw__text_str(&context->error);
}

/* ---- binding ----- */

typedef struct context_port { /* one input or output, for the functions below */
  const lw_tensor_info *info;
  lw_binding *binding;
  uint32_t index;
  bool is_input;
  uint32_t shorter; /* bit d: dim d of the tensor may be smaller than the model's */
} context_port;

static lw_status port_fail(lw_context *context, const context_port *port, const char *what) {
  lw_text where = {0};
  lw__text_add(&where, "%s %u '%s'", port->is_input ? "input" : "output", port->index,
               port->info->name);
  lw_status status = lw__fail(&context->diag, LW_STATUS_USAGE, lw__text_str(&where), "%s", what);
  lw__text_deinit(&where);
  return status;
}

void lw__text_add_type(lw_text *text, lw_dtype dtype, int rank, const int64_t *dims) {
  lw__text_add(text, "%s[", lw_dtype_name(dtype));
  for (int d = 0; d < rank; d++) {
    if (d > 0) lw__text_add(text, ", ");
    if (dims[d] == -1) {
      lw__text_add(text, "?");
    } else {
      lw__text_add(text, "%lld", (long long)dims[d]);
    }
  }
  lw__text_add(text, "]");
}

static bool tensor_fits(const lw_tensor *tensor, const context_port *port) {
  const lw_tensor_info *info = port->info;
  if (tensor->dtype != info->dtype || tensor->rank != info->rank) return false;
  for (int d = 0; d < info->rank; d++) {
    bool shorter = port->shorter >> d & 1 && tensor->dims[d] >= 0;
    if (shorter ? tensor->dims[d] > info->dims[d] : tensor->dims[d] != info->dims[d]) return false;
  }
  return true;
}

static lw_status port_check(lw_context *context, const context_port *port,
                            const lw_tensor *tensor) {
  const lw_tensor_info *info = port->info;
  if (tensor->rank < 0 || tensor->rank > LW_MAX_RANK) {
    return port_fail(context, port, "the tensor's rank is none that a tensor can have");
  }
  if (tensor->rank > 0 && tensor->dims == NULL) {
    return port_fail(context, port, "dims of the tensor are NULL");
  }
  if (!tensor_fits(tensor, port)) {
    lw_text text = {0};
    lw__text_add_type(&text, tensor->dtype, tensor->rank, tensor->dims);
    lw__text_add(&text, " was given, the model has ");
    lw__text_add_type(&text, info->dtype, info->rank, info->dims);
    lw_status status = port_fail(context, port, lw__text_str(&text));
    lw__text_deinit(&text);
    return status;
  }
  if (tensor->memory != LW_MEMORY_HOST && tensor->memory != LW_MEMORY_DEVICE) {
    return port_fail(context, port, "the tensor's memory is neither host nor device");
  }
  return LW_OK;
}

static size_t port_bytes(const lw_tensor_info *info) {
  size_t bytes = lw_dtype_size_bytes(info->dtype);
  for (int d = 0; d < info->rank; d++) bytes *= (size_t)info->dims[d];
  return bytes;
}

/* Where the caller's elements lie, and whether the runtime can take them there. */
static lw_status port_place(lw_context *context, const context_port *port,
                            const lw_tensor *tensor) {
  const lw_tensor_info *info = port->info;
  lw_binding *b = port->binding;
  const lw_model *model = context->model;
  size_t elem = lw_dtype_size_bytes(info->dtype);
  int64_t packed[LW_MAX_RANK], given[LW_MAX_RANK];
  lw__strided_packed(info->rank, info->dims, model->channels_last, packed);
  lw__strided_packed(info->rank, tensor->dims, model->channels_last, given);
  size_t bytes = sizeof *packed * (size_t)info->rank;
  if (bytes > 0) memcpy(b->dims, tensor->dims, bytes);
  memcpy(b->strides, tensor->strides != NULL ? tensor->strides : given, bytes);
  if (!lw__strided_span(info->rank, b->dims, b->strides, elem, &b->span_lo, &b->span_hi)) {
    return port_fail(context, port, "the strides reach beyond the address space");
  }
  if (!port->is_input && lw__strided_overlaps(info->rank, b->dims, b->strides)) {
    return port_fail(context, port, "elements of an output may not share memory");
  }
  if (tensor->data == NULL && b->span_hi > b->span_lo) {
    return port_fail(context, port, "the tensor's data are NULL");
  }
  b->data = tensor->data;
  b->on_device = tensor->memory == LW_MEMORY_DEVICE;
  b->through = !lw__strided_same(info->rank, b->dims, b->strides, packed);
  if (strncmp(model->device, "cuda", 4) != 0) b->on_device = false; /* all is host memory there */
  return LW_OK;
}

static lw_status port_staging(lw_binding *b, size_t bytes) {
  if (!b->through || bytes == 0 || b->staging_bytes == bytes) return LW_OK;
  LW_TRY(lw__mem_resize(&b->staging, bytes));
  memset(b->staging, 0, bytes); /* rows that are not bound are computed, too */
  b->staging_bytes = bytes;
  return LW_OK;
}

static lw_status context_bind(lw_context *context, const context_port *port,
                              const lw_tensor *tensor) {
  LW_TRY(port_check(context, port, tensor));
  LW_TRY(port_place(context, port, tensor));
  lw_binding *b = port->binding;
  size_t bytes = port_bytes(port->info);
  LW_TRY(port_staging(b, bytes));
  void *data = b->through ? b->staging : b->data;
  bool on_device = b->on_device && !b->through;
  /* What lies as the model has it and ends early, ends with the last element that is there. */
  if (!b->through) bytes = (size_t)b->span_hi * lw_dtype_size_bytes(port->info->dtype);
  return lw__rt_bind_rows(context->rt, port->is_input, port->index, data, bytes, on_device);
}

static lw_status context_bind_checked(lw_context *context, size_t index, const lw_tensor *tensor,
                                      bool is_input, uint32_t shorter) {
  const char *what = is_input ? "input" : "output";
  if (tensor == NULL || (context->rt == NULL && context->dynamic == NULL)) {
    return lw__fail(&context->diag, LW_STATUS_USAGE, what,
                    tensor == NULL ? "the tensor is NULL" : "the context failed to be created");
  }
  size_t count = is_input ? context->model->input_count : context->model->output_count;
  if (index >= count) {
    return lw__fail(&context->diag, LW_STATUS_USAGE, what, "there is no %s %zu, the model has %zu",
                    what, index, count);
  }
  if (context->dynamic != NULL) {
    return lw__dynamic_bind(context->dynamic, index, tensor, is_input, &context->diag);
  }
  if (lw__state_of_port(context->model, (uint32_t)index, is_input) != LW_NONE) {
    return lw__fail(&context->diag, LW_STATUS_USAGE, what,
                    "%s %zu belongs to a state, whose memory is the context's own; "
                    "lw_context_set_state and lw_context_get_state copy its value",
                    what, index);
  }
  const context_port port = {
      .info = is_input ? &context->model->inputs[index] : &context->model->outputs[index],
      .binding = is_input ? &context->inputs[index] : &context->outputs[index],
      .index = (uint32_t)index,
      .is_input = is_input,
      .shorter = shorter};
  return context_bind(context, &port, tensor);
}

lw_status lw__context_bind_rows(lw_context *context, size_t index, const lw_tensor *tensor,
                                bool is_input, uint32_t shorter) {
  LW_TRY(context_enter(context, CONTEXT_IDLE));
  return context_end(context, context_bind_checked(context, index, tensor, is_input, shorter));
}

lw_status lw_context_bind_input(lw_context *context, size_t index, const lw_tensor *tensor) {
  LW_TRY(context_enter(context, CONTEXT_IDLE));
  return context_end(context, context_bind_checked(context, index, tensor, true, 0));
}

lw_status lw_context_bind_output(lw_context *context, size_t index, const lw_tensor *tensor) {
  LW_TRY(context_enter(context, CONTEXT_IDLE));
  return context_end(context, context_bind_checked(context, index, tensor, false, 0));
}

/* ---- copies around a run ----- */

/* The span of |b|'s device memory on the host. */
static lw_status staging_download(lw_context *context, const lw_binding *b, size_t elem,
                                  void **out_span) {
  size_t bytes = (size_t)(b->span_hi - b->span_lo) * elem;
  *out_span = NULL;
  LW_TRY(lw__mem_resize(out_span, bytes));
  const char *first = (const char *)b->data + b->span_lo * (int64_t)elem;
  lw_status status = lw__rt_download(context->model->rt_device, *out_span, first, bytes);
  if (status == LW_OK) return LW_OK;
  lw__mem_free(*out_span);
  *out_span = NULL;
  return status;
}

/* One tensor between the caller's memory and its staging. */
static lw_status staging_move(lw_context *context, const lw_tensor_info *info, const lw_binding *b,
                              bool to_staging) {
  size_t elem = lw_dtype_size_bytes(info->dtype);
  int64_t packed[LW_MAX_RANK];
  if (b->span_hi == b->span_lo) return LW_OK;
  lw__strided_packed(info->rank, info->dims, context->model->channels_last, packed);
  void *span = NULL;
  char *data = b->data;
  if (b->on_device) {
    LW_TRY(staging_download(context, b, elem, &span));
    data = (char *)span - b->span_lo * (int64_t)elem;
  }
  lw_status status = LW_OK;
  if (to_staging) {
    lw__strided_copy(info->rank, b->dims, elem, b->staging, packed, data, b->strides);
  } else {
    lw__strided_copy(info->rank, b->dims, elem, data, b->strides, b->staging, packed);
  }
  if (b->on_device && !to_staging) {
    status = lw__rt_upload(context->model->rt_device, (char *)b->data + b->span_lo * (int64_t)elem,
                           span, (size_t)(b->span_hi - b->span_lo) * elem);
  }
  lw__mem_free(span);
  return status;
}

static lw_status staging_move_all(lw_context *context, bool inputs) {
  const lw_model *m = context->model;
  const lw_binding *bindings = inputs ? context->inputs : context->outputs;
  const lw_tensor_info *infos = inputs ? m->inputs : m->outputs;
  uint32_t count = inputs ? m->input_count : m->output_count;
  for (uint32_t i = 0; i < count; i++) {
    if (bindings[i].through) LW_TRY(staging_move(context, &infos[i], &bindings[i], inputs));
  }
  return LW_OK;
}

static uint64_t staging_count(const lw_context *context) {
  uint64_t count = 0;
  for (uint32_t i = 0; i < context->model->input_count; i++) count += context->inputs[i].through;
  for (uint32_t i = 0; i < context->model->output_count; i++) count += context->outputs[i].through;
  return count;
}

/* ---- running ----- */

static lw_status context_ready(lw_context *context) {
  if (context->rt != NULL) return LW_OK;
  return lw__fail(&context->diag, LW_STATUS_USAGE, "", "the context failed to be created");
}

/* The context that runs: |context| itself, or that of the shapes that are bound now. */
static lw_status context_runner(lw_context *context, lw_context **out) {
  *out = context;
  if (context->dynamic != NULL) {
    return lw__dynamic_prepare(context->dynamic, &context->diag, out);
  }
  return context_ready(context);
}

/* The error of the context that ran becomes the error of the one that was asked to. */
static lw_status context_take_error(lw_context *context, const lw_context *runner,
                                    lw_status status) {
  if (status == LW_OK || runner == context) return status;
  return lw__fail(&context->diag, status, "", "%s", lw_context_error(runner));
}

static lw_status context_submit(lw_context *context) {
  lw_context *runner;
  LW_TRY(context_runner(context, &runner));
  if (runner != context) {
    LW_TRY(context_take_error(context, runner, lw_context_submit(runner)));
  } else {
    LW_TRY(
        lw__states_bind(context->model, context->states, context->rt, NULL, false, &context->diag));
    LW_TRY(staging_move_all(context, true));
    LW_TRY(lw__rt_submit(context->rt, &context->diag));
    lw__states_step(context->model, context->states);
  }
  context->running = runner;
  return LW_OK;
}

static lw_status context_wait(lw_context *context) {
  lw_context *runner = context->running;
  context->running = NULL;
  if (runner != context) return context_take_error(context, runner, lw_context_wait(runner));
  LW_TRY(lw__rt_wait(context->rt, &context->diag));
  return staging_move_all(context, false);
}

static lw_status context_run(lw_context *context) {
  lw_context *runner;
  LW_TRY(context_runner(context, &runner));
  if (runner != context) return context_take_error(context, runner, lw_context_run(runner));
  LW_TRY(
      lw__states_bind(context->model, context->states, context->rt, NULL, false, &context->diag));
  LW_TRY(staging_move_all(context, true));
  LW_TRY(lw__rt_run(context->rt, &context->diag));
  lw__states_step(context->model, context->states);
  return staging_move_all(context, false);
}

lw_status lw_context_run(lw_context *context) {
  LW_TRY(context_enter(context, CONTEXT_IDLE));
  return context_end(context, context_run(context));
}

lw_status lw_context_submit(lw_context *context) {
  LW_TRY(context_enter(context, CONTEXT_IDLE));
  return context_end(context, context_submit(context));
}

lw_status lw_context_wait(lw_context *context) {
  LW_TRY(context_enter(context, CONTEXT_SUBMITTED));
  return context_end(context, context_wait(context));
}

static lw_status context_enqueue(lw_context *context, void *stream) {
  lw_context *runner;
  LW_TRY(context_runner(context, &runner));
  if (runner != context) {
    return context_take_error(context, runner, lw_context_enqueue(runner, stream));
  }
  if (strncmp(context->model->device, "cuda", 4) != 0) return context_run(context);
  if (staging_count(context) > 0) {
    return lw__fail(&context->diag, LW_STATUS_UNSUPPORTED, "lw_context_enqueue",
                    "a bound tensor is strided and has to be copied through the host; use "
                    "lw_context_run or packed tensors");
  }
  LW_TRY(
      lw__states_bind(context->model, context->states, context->rt, stream, true, &context->diag));
  LW_TRY(lw__rt_enqueue(context->rt, stream, &context->diag));
  lw__states_step(context->model, context->states);
  return LW_OK;
}

lw_status lw_context_enqueue(lw_context *context, void *cuda_stream) {
  LW_TRY(context_enter(context, CONTEXT_IDLE));
  return context_end(context, context_enqueue(context, cuda_stream));
}

/* ---- states ----- */

static lw_status context_state(lw_context *context, size_t input, const lw_tensor *tensor,
                               bool set) {
  LW_TRY(context_ready(context));
  if (input >= context->model->input_count || (!set && tensor == NULL)) {
    return lw__fail(&context->diag, LW_STATUS_USAGE, "state",
                    tensor == NULL ? "the tensor is NULL" : "there is no such input");
  }
  return set ? lw__states_set(context->model, context->states, (uint32_t)input, tensor,
                              &context->diag)
             : lw__states_get(context->model, context->states, (uint32_t)input, tensor,
                              &context->diag);
}

lw_status lw_context_set_state(lw_context *context, size_t input, const lw_tensor *tensor) {
  LW_TRY(context_enter(context, CONTEXT_IDLE));
  return context_end(context, context_state(context, input, tensor, true));
}

lw_status lw_context_get_state(lw_context *context, size_t input, const lw_tensor *tensor) {
  LW_TRY(context_enter(context, CONTEXT_IDLE));
  return context_end(context, context_state(context, input, tensor, false));
}

size_t lw_model_state_output(const lw_model *model, size_t input) {
  if (model == NULL || input >= model->input_count) return SIZE_MAX;
  uint32_t state = lw__state_of_port(model, (uint32_t)input, true);
  return state == LW_NONE ? SIZE_MAX : model->states.data[state].output;
}

/* ---- shapes ----- */

static lw_status context_output_dims(lw_context *context, size_t index, int *out_rank,
                                     int64_t *out_dims) {
  const lw_model *m = context->model;
  bool room = out_rank != NULL && out_dims != NULL;
  if (index >= m->output_count || !room) {
    return lw__fail(
        &context->diag, LW_STATUS_USAGE, "output",
        !room ? "there is no room for dims" : "there is no output %zu, the model has %u", index,
        m->output_count);
  }
  if (context->dynamic != NULL) {
    return lw__dynamic_output_dims(context->dynamic, index, &context->diag, out_rank, out_dims);
  }
  *out_rank = m->outputs[index].rank;
  memcpy(out_dims, m->outputs[index].dims, sizeof *out_dims * (size_t)m->outputs[index].rank);
  return LW_OK;
}

lw_status lw_context_output_dims(lw_context *context, size_t index, int *out_rank,
                                 int64_t *out_dims) {
  LW_TRY(context_enter(context, CONTEXT_IDLE));
  return context_end(context, context_output_dims(context, index, out_rank, out_dims));
}

void lw_context_shape_stats(const lw_context *context, lw_shape_stats *out_stats) {
  if (out_stats == NULL) return;
  *out_stats = (lw_shape_stats){0};
  if (context == NULL) return;
  if (context->dynamic != NULL) {
    lw__dynamic_stats(context->dynamic, out_stats);
  } else if (context->rt != NULL) {
    *out_stats = (lw_shape_stats){.compiled = 1, .kept = 1, .ready = 1, .made = 1};
  }
}

lw_rt_context *lw__context_runtime(const lw_context *context) {
  if (context->dynamic == NULL) return context->rt;
  const lw_context *last = lw__dynamic_last(context->dynamic);
  return last == NULL ? NULL : last->rt;
}

/* ---- statistics ----- */

void lw__model_static_stats(const lw_model *model, lw_stats *out) {
  *out = (lw_stats){.compile_s = model->compile_s};
  const lw_plan *plan = lw__model_plan(model);
  if (plan == NULL) return;
  double traffic = 0;
  for (uint32_t i = 0; i < plan->steps.count; i++) {
    const lw_plan_step *step = &plan->steps.data[i];
    out->kernels += step->kind == LW_STEP_LAUNCH;
    out->copies += step->kind == LW_STEP_COPY;
    out->fills += step->kind == LW_STEP_FILL;
    traffic += step->traffic_bytes;
  }
  out->traffic_bytes = traffic > 0 && traffic < 0x1p63 ? (uint64_t)llround(traffic) : 0;
  out->arena_bytes = plan->arena_bytes;
  out->weight_bytes = plan->weight_bytes;
  out->lanes = plan->lane_count == 0 ? 1 : plan->lane_count;
  for (uint32_t i = 0; i < plan->steps.count; i++) out->waits += plan->steps.data[i].wait_count;
  out->kernels_built = model->from_plan ? 0 : model->compiled.kernels_built;
  out->kernels_cached = model->from_plan ? plan->kernels.count : model->compiled.kernels_cached;
  out->groups_split = model->compiled.splits.count;
}

void lw_context_stats(const lw_context *context, lw_stats *out_stats) {
  if (out_stats == NULL) return;
  *out_stats = (lw_stats){0};
  if (context == NULL) return;
  if (context->dynamic != NULL) {
    const lw_context *last = lw__dynamic_last(context->dynamic);
    if (last != NULL) lw_context_stats(last, out_stats);
    out_stats->arena_bytes = lw__dynamic_arena_bytes(context->dynamic);
    return;
  }
  lw__model_static_stats(context->model, out_stats);
  if (context->rt == NULL) return;
  lw_rt_stats rt = {0};
  lw__rt_stats(context->rt, &rt);
  out_stats->kernels = rt.kernels;
  out_stats->library_calls = rt.library_calls;
  out_stats->copies = rt.copies;
  out_stats->fills = rt.fills;
  out_stats->staging_copies = rt.staging_copies + staging_count(context);
  out_stats->lanes = rt.lanes;
  out_stats->waits = rt.waits;
  out_stats->live_bytes = context->live_bytes;
  out_stats->arena_bytes = rt.arena_bytes;
  out_stats->weight_bytes = rt.weight_bytes;
  out_stats->last_launch_us = (double)rt.last_launch_ns * 1e-3;
  out_stats->last_device_us = (double)rt.last_device_ns * 1e-3;
}

/* States: outputs that are the next run's inputs, in memory of the context: on the CPU and on the
 * look-alike of the driver, held against runs that copy the outputs to the inputs themselves. */
#include <dlfcn.h>
#include <math.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include <cmocka.h>

#include "base/base.h"
#include "graph/graph.h"
#include "lawson/tools.h"
#include "standin/standin.h"

#define LLAMA LW_SOURCE_DIR "/../shared/models/llama_decode_tiny/model.onnx"

static lw_standin_state *standin;

/* A cache of two layers beside each other, [layer, batch, row, channel]; each row is weighed with
 * the newest one. */
static const char cache_text[] =
    "%x = input f32[2, 1, 4]\n"
    "%past_k = input f32[2, 2, 5, 4]\n"
    "%2 = slice f32[1, 2, 5, 4] %past_k\n"
    "%3 = reshape f32[2, 5, 4] %2\n"
    "%4 = slice f32[1, 2, 5, 4] %past_k start=[1, 0, 0, 0]\n"
    "%5 = reshape f32[2, 5, 4] %4\n"
    "%6 = concat f32[2, 6, 4] %3, %x axis=1\n"
    "%7 = map.neg f32[2, 1, 4] %x\n"
    "%8 = concat f32[2, 6, 4] %5, %7 axis=1\n"
    "%9 = map.mul f32[2, 6, 4] %6, %8\n"
    "%10 = reduce.sum f32[2, 4] %9 axes=[1]\n"
    "%11 = reshape f32[1, 2, 6, 4] %6\n"
    "%12 = reshape f32[1, 2, 6, 4] %8\n"
    "%13 = concat f32[2, 2, 6, 4] %11, %12 axis=0\n"
    "output y %10\n"
    "output present_k %13\n";

/* Statistics that forget: read and replaced by one kernel. */
static const char statistics_text[] =
    "%x = input f32[8]\n"
    "%mean = input f32[8]\n"
    "%2 = const f32[] {0.75}\n"
    "%3 = reshape f32[1] %2\n"
    "%4 = expand f32[8] %3\n"
    "%5 = map.mul f32[8] %mean, %4\n"
    "%6 = map.add f32[8] %5, %x\n"
    "%7 = map.sub f32[8] %x, %mean\n"
    "output y %7\n"
    "output new_mean %6\n";

static lw_options *options_for(const char *device, const char *state, const char *rows) {
  const char *const pairs[][2] = {{"device", device},
                                  {"threads", "1"},
                                  {"cuda", LW_BUILD_DIR "/libcuda_standin.so"},
                                  {"nvrtc", LW_BUILD_DIR "/libnvrtc_standin.so"},
                                  {"state", state},
                                  {"state_rows", rows}};
  lw_options *o;
  assert_int_equal(lw_options_create(&o), LW_OK);
  for (size_t i = 0; i < LW_ARRAY_COUNT(pairs); i++) {
    if (pairs[i][1] == NULL) continue;
    if (lw_options_set(o, pairs[i][0], pairs[i][1]) != LW_OK) fail_msg("%s", lw_options_error(o));
  }
  return o;
}

static lw_status try_compile(const char *text, lw_options *o, lw_model **out) {
  lw_graph graph;
  lw_diag diag = {0};
  if (lw__graph_parse(lw__str_of(text), &diag, &graph) != LW_OK)
    fail_msg("%s", lw__diag_first_error(&diag));
  lw_status status = lw_model_compile(&graph, o, out);
  lw_options_destroy(o);
  lw__graph_deinit(&graph);
  lw__diag_deinit(&diag);
  return status;
}

static lw_model *compile(const char *text, const char *device, const char *state,
                         const char *rows) {
  lw_model *m;
  if (try_compile(text, options_for(device, state, rows), &m) != LW_OK)
    fail_msg("%s", lw_model_error(m));
  return m;
}

static lw_context *context_of(lw_model *m) {
  lw_context *c;
  if (lw_context_create(m, &c) != LW_OK) fail_msg("%s", lw_context_error(c));
  return c;
}

#define OK(c, call) \
  if ((call) != LW_OK) fail_msg("%s: %s", #call, lw_context_error(c))

/* ---- one model with states, the same without, step by step ----- */

enum { PORTS = 4 };

typedef struct twin {
  lw_model *model;
  lw_context *context;
  lw_tools_array in[PORTS], out[PORTS];
  void *memory[2 * PORTS]; /* on the device, inputs then outputs: of those that are no state */
  size_t inputs, outputs;
  bool states;
} twin;

static lw_tensor tensor_of(const lw_tools_array *a, void *data, bool on_device) {
  return (lw_tensor){.data = data,
                     .dtype = a->dtype,
                     .rank = a->rank,
                     .dims = a->dims,
                     .memory = on_device ? LW_MEMORY_DEVICE : LW_MEMORY_HOST};
}

static bool is_state_output(const twin *t, size_t output) {
  for (size_t i = 0; i < t->inputs; i++) {
    if (lw_model_state_output(t->model, i) == output) return true;
  }
  return false;
}

static void twin_open(lw_model *model, bool states, twin *t) {
  *t = (twin){.model = model, .context = context_of(model), .states = states};
  t->inputs = lw_model_input_count(model);
  t->outputs = lw_model_output_count(model);
  for (size_t i = 0; i < t->inputs + t->outputs; i++) {
    bool input = i < t->inputs;
    size_t k = input ? i : i - t->inputs;
    const lw_tensor_info *info = input ? lw_model_input(model, k) : lw_model_output(model, k);
    lw_tools_array *a = input ? &t->in[k] : &t->out[k];
    assert_int_equal(lw_tools_array_create(info->dtype, info->rank, info->dims, a), LW_OK);
    bool state = input ? lw_model_state_output(model, k) != SIZE_MAX : is_state_output(t, k);
    if (state) continue;
    assert_int_equal(lw_tools_alloc(model, a->bytes, &t->memory[i]), LW_OK);
    const lw_tensor on_device = tensor_of(a, t->memory[i], true);
    OK(t->context, input ? lw_context_bind_input(t->context, k, &on_device)
                         : lw_context_bind_output(t->context, k, &on_device));
  }
}

static void twin_close(twin *t) {
  lw_context_destroy(t->context);
  for (size_t i = 0; i < 2 * PORTS; i++) lw_tools_free(t->model, t->memory[i]);
  for (size_t i = 0; i < PORTS; i++) {
    lw_tools_array_deinit(&t->in[i]);
    lw_tools_array_deinit(&t->out[i]);
  }
  lw_model_destroy(t->model);
}

static void twin_upload(const twin *t, size_t input) {
  assert_int_equal(
      lw_tools_upload(t->model, t->memory[input], t->in[input].data, t->in[input].bytes), LW_OK);
}

static void twin_outputs(const twin *t) {
  for (size_t k = 0; k < t->outputs; k++) {
    if (t->memory[t->inputs + k] == NULL) continue;
    assert_int_equal(
        lw_tools_download(t->model, t->out[k].data, t->memory[t->inputs + k], t->out[k].bytes),
        LW_OK);
  }
}

/* The last rows of |from| along the dim in which it is longer. */
static void last_rows(const lw_tools_array *from, lw_tools_array *to) {
  size_t elem = lw_dtype_size_bytes(from->dtype);
  int axis = 0;
  while (axis + 1 < to->rank && from->dims[axis] == to->dims[axis]) axis++;
  size_t inner = elem;
  for (int d = axis + 1; d < to->rank; d++) inner *= (size_t)to->dims[d];
  size_t have = inner * (size_t)from->dims[axis], keep = inner * (size_t)to->dims[axis];
  for (size_t o = 0; o * keep < to->bytes; o++) {
    memcpy((char *)to->data + o * keep, (char *)from->data + o * have + have - keep, keep);
  }
}

static void same(const lw_tools_array *a, const lw_tools_array *b, int step, size_t output) {
  static const lw_tools_tolerance tolerance = {.rtol = 2e-5, .atol = 2e-6};
  lw_tools_difference d;
  lw_tools_compare(a, b, &tolerance, &d);
  if (d.bad > 0)
    fail_msg("step %d, output %zu: element %lld is %g, not %g", step, output,
             (long long)d.worst_index, d.worst_got, d.worst_want);
}

/* One step of both on the same inputs; |plain|'s states are carried over by hand. */
static void step_both(twin *t, twin *plain, int step) {
  for (size_t i = 0; i < t->inputs; i++) {
    if (lw_model_state_output(t->model, i) != SIZE_MAX) continue;
    bool ints = t->in[i].dtype == LW_DTYPE_I64;
    lw_tools_array_randomize(&t->in[i], (uint64_t)step * 10 + i, step, step + 1);
    memcpy(plain->in[i].data, t->in[i].data, t->in[i].bytes);
    (void)ints;
    twin_upload(t, i);
  }
  for (size_t i = 0; i < plain->inputs; i++) twin_upload(plain, i);
  uint64_t copies = standin->copies, memory = standin->live_memory;
  lw__mem_fail_at(step > 1 ? 1 : 0); /* a step that is not the first allocates nothing */
  lw_status status = lw_context_run(t->context);
  lw__mem_fail_at(0);
  OK(t->context, status);
  lw_stats stats;
  lw_context_stats(t->context, &stats);
  assert_int_equal(stats.copies + stats.staging_copies, 0);
  if (step > 1) assert_int_equal(standin->live_memory, memory);
  assert_true(standin->copies - copies <= 2); /* a move, once in a while */
  OK(plain->context, lw_context_run(plain->context));
  twin_outputs(t);
  twin_outputs(plain);
  for (size_t k = 0; k < t->outputs; k++) {
    if (!is_state_output(t, k)) same(&t->out[k], &plain->out[k], step, k);
  }
  for (size_t i = 0; i < t->inputs; i++) {
    size_t k = lw_model_state_output(t->model, i);
    if (k == SIZE_MAX) continue;
    const lw_tensor whole = tensor_of(&t->out[k], t->out[k].data, false);
    OK(t->context, lw_context_get_state(t->context, i, &whole));
    same(&t->out[k], &plain->out[k], step, k);
    last_rows(&plain->out[k], &plain->in[i]);
    const lw_tensor next = tensor_of(&t->in[i], t->in[i].data, false);
    OK(t->context, lw_context_get_state(t->context, i, &next));
    same(&t->in[i], &plain->in[i], step, k);
  }
}

static void run_twins(twin *t, twin *plain, int steps) {
  for (size_t i = 0; i < t->inputs; i++) {
    if (lw_model_state_output(t->model, i) == SIZE_MAX) continue;
    lw_tools_array_randomize(&t->in[i], 77 + i, 0, 2);
    memcpy(plain->in[i].data, t->in[i].data, t->in[i].bytes);
    const lw_tensor value = tensor_of(&t->in[i], t->in[i].data, false);
    OK(t->context, lw_context_set_state(t->context, i, &value));
  }
  for (int step = 0; step < steps; step++) step_both(t, plain, step);
  twin_close(t);
  twin_close(plain);
  if (standin->violations != 0) fail_msg("%s", standin->violation);
}

static void run_text(const char *text, const char *device, const char *state, const char *rows) {
  twin t, plain;
  twin_open(compile(text, device, state, rows), true, &t);
  twin_open(compile(text, device, NULL, NULL), false, &plain);
  run_twins(&t, &plain, 20);
}

static void a_cache_is_appended_to(void **state) {
  (void)state;
  run_text(cache_text, "cpu", "past_k=present_k", "11");
  run_text(cache_text, "cuda", "auto", NULL);
  run_text(cache_text, "cuda", "past_k=present_k", "13");
  assert_int_equal(standin->live_memory, 0);
}

static void statistics_are_replaced(void **state) {
  (void)state;
  run_text(statistics_text, "cpu", "mean=new_mean", NULL);
  run_text(statistics_text, "cuda", "mean=new_mean", NULL);
}

static lw_model *load_llama(const char *device, bool states) {
  lw_options *o = options_for(device, states ? "k=stack" : NULL, states ? "24" : NULL);
  if (states) assert_int_equal(lw_options_set(o, "state", "v=stack_1"), LW_OK);
  lw_model *m;
  if (lw_model_load(LLAMA, o, &m) != LW_OK) fail_msg("%s", lw_model_error(m));
  lw_options_destroy(o);
  return m;
}

static void llama_decodes(void **state) {
  (void)state;
  if (access(LLAMA, R_OK) != 0) skip();
  for (int cuda = 0; cuda < 2; cuda++) {
    const char *device = cuda ? "cuda" : "cpu";
    twin t, plain;
    lw_stats with, without;
    twin_open(load_llama(device, true), true, &t);
    twin_open(load_llama(device, false), false, &plain);
    run_twins(&t, &plain, cuda ? 6 : 40);
    (void)with, (void)without;
  }
}

/* ---- mistakes ----- */

static void refused(const char *text, const char *state, lw_status status, const char *says) {
  lw_model *m = NULL;
  assert_int_equal(try_compile(text, options_for("cpu", state, NULL), &m), status);
  if (strstr(lw_model_error(m), says) == NULL) fail_msg("%s", lw_model_error(m));
  lw_model_destroy(m);
}

static void what_is_no_state_is_refused(void **state) {
  (void)state;
  refused(cache_text, "past=present_k", LW_STATUS_USAGE, "no such input");
  refused(cache_text, "past_k=present", LW_STATUS_USAGE, "no such output");
  refused(cache_text, "past_k=y", LW_STATUS_USAGE, "shapes");
  refused(
      "%a = input f32[2, 3]\n%b = input f32[2, 1]\n%2 = concat f32[2, 4] %b, %a axis=1\n"
      "output c %2\n",
      "a=c", LW_STATUS_UNSUPPORTED, "does not begin with it");
  refused(
      "%a = input f32[2, 3]\n%b = input f32[2, 1]\n%2 = map.neg f32[2, 3] %a\n"
      "%3 = concat f32[2, 4] %2, %b axis=1\noutput c %3\n",
      "a=c", LW_STATUS_UNSUPPORTED, "does not begin with it");
  refused("%a = input f32[n, 3]\n%1 = map.neg f32[n, 3] %a\noutput c %1\n", "a=c",
          LW_STATUS_UNSUPPORTED, "numbers for all dimensions");
}

static void ports_of_states_are_not_bound(void **state) {
  (void)state;
  lw_model *m = compile(statistics_text, "cpu", "mean=new_mean", NULL);
  lw_context *c = context_of(m);
  float x[8] = {1, 2, 3}, mean[8];
  const int64_t dims[1] = {8}, other[1] = {7};
  lw_tensor t = {.data = x, .dtype = LW_DTYPE_F32, .rank = 1, .dims = dims};
  assert_int_equal(lw_context_bind_input(c, 1, &t), LW_STATUS_USAGE);
  assert_non_null(strstr(lw_context_error(c), "lw_context_set_state"));
  assert_int_equal(lw_context_bind_output(c, 1, &t), LW_STATUS_USAGE);
  assert_int_equal(lw_context_set_state(c, 0, &t), LW_STATUS_USAGE);
  assert_int_equal(lw_context_set_state(c, 1, &t), LW_OK);
  t.dims = other;
  assert_int_equal(lw_context_set_state(c, 1, &t), LW_STATUS_USAGE);
  const lw_tensor out = {.data = mean, .dtype = LW_DTYPE_F32, .rank = 1, .dims = dims};
  assert_int_equal(lw_context_get_state(c, 1, &out), LW_OK);
  assert_memory_equal(mean, x, sizeof x);
  assert_int_equal(lw_context_set_state(c, 1, NULL), LW_OK);
  assert_int_equal(lw_context_get_state(c, 1, &out), LW_OK);
  assert_true(mean[0] == 0 && mean[2] == 0);
  lw_context_destroy(c);
  lw_model_destroy(m);
}

static void open_standin(void) {
  void *library = dlopen(LW_BUILD_DIR "/libcuda_standin.so", RTLD_NOW | RTLD_LOCAL);
  lw_standin_function *function = NULL;
  if (library != NULL) {
    void *symbol = dlsym(library, "lw_standin");
    memcpy(&function, &symbol, sizeof symbol);
  }
  if (function == NULL) {
    fprintf(stderr, "there is no stand-in of the driver\n");
    exit(1);
  }
  standin = function();
  standin->no_access_log = true;
}

int main(void) {
  open_standin();
  const struct CMUnitTest tests[] = {
      cmocka_unit_test(a_cache_is_appended_to),
      cmocka_unit_test(statistics_are_replaced),
      cmocka_unit_test(llama_decodes),
      cmocka_unit_test(what_is_no_state_is_refused),
      cmocka_unit_test(ports_of_states_are_not_bound),
  };
  return cmocka_run_group_tests(tests, NULL, NULL);
}

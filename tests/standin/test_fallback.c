/* test_fallback.c: kernels that the compiler rejects, that spill or that the device refuses: their
 * groups fall back to parts, the results stay right, and report and statistics say so. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include <cmocka.h>
#include <dlfcn.h>
#include <lawson/tools.h>

#include "standin/standin.h"

enum { ROWS = 6, COLUMNS = 40 };

static const char driver_library[] = LW_BUILD_DIR "/libcuda_standin.so";
static const char nvrtc_library[] = LW_BUILD_DIR "/libnvrtc_standin.so";
static lw_standin_state *driver;
static lw_nvrtc_standin_state *nvrtc;

static void *state_of(const char *library, const char *name) {
  void *handle = dlopen(library, RTLD_NOW);
  void *symbol = handle == NULL ? NULL : dlsym(handle, name);
  void *(*function)(void);
  if (symbol == NULL) fail_msg("%s: %s", library, dlerror());
  memcpy(&function, &symbol, sizeof symbol);
  return function();
}

static int reset(void **state) {
  (void)state;
  driver = state_of(driver_library, "lw_standin");
  nvrtc = state_of(nvrtc_library, "lw_nvrtc_standin");
  driver->violations = 0;
  driver->refuse[0] = nvrtc->reject[0] = nvrtc->spill[0] = '\0';
  return 0;
}

#define OK(call) assert_int_equal(call, LW_OK)

/* softmax(sin(layer_norm(tanh(x * x - x)))), and a product of it. */
static lw_graph *make_graph(void) {
  const int64_t dims[] = {ROWS, COLUMNS}, weight_dims[] = {COLUMNS, 5};
  float weights[COLUMNS * 5];
  for (int i = 0; i < COLUMNS * 5; i++) weights[i] = (float)(i % 7 - 3) / 8;
  lw_graph *g;
  uint32_t x, square, a, bent, norm, wave, soft, w, product, out;
  OK(lw_graph_create(&g));
  OK(lw_graph_add_input(g, "x", LW_DTYPE_F32, 2, dims, &x));
  OK(lw_graph_add_map(g, "mul", (const uint32_t[]){x, x}, 2, &square));
  OK(lw_graph_add_map(g, "sub", (const uint32_t[]){square, x}, 2, &a));
  OK(lw_graph_add_map(g, "tanh", &a, 1, &bent));
  OK(lw_graph_add_layer_norm(g, bent, 1, 1e-5, UINT32_MAX, UINT32_MAX, &norm));
  OK(lw_graph_add_map(g, "sin", &norm, 1, &wave));
  OK(lw_graph_add_softmax(g, wave, 1, &soft));
  OK(lw_graph_add_constant(g, LW_DTYPE_F32, 2, weight_dims, weights, &w));
  OK(lw_graph_add_matmul(g, soft, w, &product));
  OK(lw_graph_add_relu(g, product, &out));
  OK(lw_graph_add_output(g, soft, "soft"));
  OK(lw_graph_add_output(g, out, "product"));
  return g;
}

static lw_status load(const char *fuse, lw_model **out) {
  lw_options *options;
  OK(lw_options_create(&options));
  OK(lw_options_set(options, "device", "cuda"));
  OK(lw_options_set(options, "cuda", driver_library));
  OK(lw_options_set(options, "nvrtc", nvrtc_library));
  OK(lw_options_set(options, "cache", ""));
  OK(lw_options_set(options, "fuse", fuse));
  lw_graph *graph = make_graph();
  lw_status status = lw_model_compile(graph, options, out);
  lw_graph_destroy(graph);
  lw_options_destroy(options);
  return status;
}

static lw_tensor tensor_of(const lw_tools_array *array) {
  return (lw_tensor){
      .data = array->data, .dtype = array->dtype, .rank = array->rank, .dims = array->dims};
}

/* Runs the model and holds it against the oracle; gives the statistics. */
static lw_stats run(lw_model *model) {
  lw_tools_array in, out[2];
  OK(lw_tools_array_create(LW_DTYPE_F32, 2, (const int64_t[]){ROWS, COLUMNS}, &in));
  OK(lw_tools_array_create(LW_DTYPE_F32, 2, (const int64_t[]){ROWS, COLUMNS}, &out[0]));
  OK(lw_tools_array_create(LW_DTYPE_F32, 2, (const int64_t[]){ROWS, 5}, &out[1]));
  lw_tools_array_randomize(&in, 7, 0, 0);
  lw_context *context;
  OK(lw_context_create(model, &context));
  lw_tensor tensor = tensor_of(&in);
  OK(lw_context_bind_input(context, 0, &tensor));
  for (size_t i = 0; i < 2; i++) {
    tensor = tensor_of(&out[i]);
    OK(lw_context_bind_output(context, i, &tensor));
  }
  OK(lw_context_run(context));
  lw_tools_difference differences[2];
  OK(lw_tools_model_verify(model, &in, out, differences, NULL));
  lw_stats stats;
  lw_context_stats(context, &stats);
  lw_context_destroy(context);
  lw_tools_array_deinit(&in);
  lw_tools_array_deinit(&out[0]);
  lw_tools_array_deinit(&out[1]);
  if (driver->violations != 0) fail_msg("%s", driver->violation);
  return stats;
}

static void assert_has(const char *text, const char *part) {
  if (strstr(text, part) == NULL) fail_msg("no '%s' in:\n%s", part, text);
}

/* Every kernel of the model in turn is in trouble; those of single nodes cannot be split. */
static void split_each(char *victim, size_t room, const char *reason, uint64_t spills) {
  lw_model *plain;
  OK(load("on", &plain));
  lw_stats before = run(plain);
  assert_int_equal(before.groups_split, 0);
  size_t count = lw_tools_model_kernel_count(plain), split = 0;
  for (size_t k = 0; k < count; k++) {
    lw_tools_kernel kernel;
    lw_tools_model_kernel(plain, k, &kernel);
    (void)snprintf(victim, room, "%s", kernel.name);
    lw_model *model;
    lw_status status = load("on", &model);
    if (status != LW_OK) {
      assert_int_equal(status, LW_STATUS_DEVICE_FAILED);
      assert_has(lw_model_error(model), kernel.name);
      assert_has(lw_model_error(model), reason);
    } else {
      const char *json;
      lw_stats after = run(model);
      OK(lw_model_explain(model, &json));
      if (after.groups_split != 0) {
        split++;
        assert_has(json, kernel.name);
        assert_has(json, reason);
        assert_true(after.kernels > before.kernels);
      } else {
        assert_true(spills != 0); /* of a single node */
      }
    }
    lw_model_destroy(model);
    victim[0] = '\0';
  }
  assert_true(split > 0);
  lw_model_destroy(plain);
}

static void test_rejected(void **state) {
  (void)state;
  split_each(nvrtc->reject, sizeof nvrtc->reject, "does not build", 0);
}

static void test_refused(void **state) {
  (void)state;
  split_each(driver->refuse, sizeof driver->refuse, "is refused by the device", 0);
}

static void test_spilling(void **state) {
  (void)state;
  split_each(nvrtc->spill, sizeof nvrtc->spill, "spills registers", 1);
}

static void test_hopeless(void **state) {
  (void)state;
  lw_model *model;
  (void)snprintf(nvrtc->reject, sizeof nvrtc->reject, "__global__"); /* nothing compiles */
  assert_int_equal(load("on", &model), LW_STATUS_DEVICE_FAILED);
  assert_has(lw_model_error(model), "does not build");
  assert_has(lw_model_error(model), "'__global__' is not to be compiled");
  lw_model_destroy(model);
  assert_int_equal(load("off", &model), LW_STATUS_DEVICE_FAILED);
  assert_has(lw_model_error(model), "no fusion to take back");
  lw_model_destroy(model);
  nvrtc->reject[0] = '\0';
  OK(load("off", &model));
  assert_int_equal(run(model).groups_split, 0);
  lw_model_destroy(model);
}

#define CASE(test) cmocka_unit_test_setup(test, reset)

int main(void) {
  const struct CMUnitTest tests[] = {CASE(test_rejected), CASE(test_refused), CASE(test_spilling),
                                     CASE(test_hopeless)};
  return cmocka_run_group_tests(tests, NULL, NULL);
}

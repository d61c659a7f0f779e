/* add_relu_layernorm.c: builds y = layer_norm(relu(a + b)) by hand, compiles it into one kernel,
 * runs it, and compares the result with the same formula in plain C.
 *
 * usage: example_add_relu_layernorm [device]       device: auto (default), cpu, cuda, cuda:N */
#include <lawson/lawson.h>
#include <math.h>
#include <stdio.h>
#include <stdlib.h>

enum { ROWS = 64, WIDTH = 256 };
static const double EPSILON = 1e-5;

/* Ends the program with a message when a call failed. The reason is asked for after the call: in
 * one expression it could be evaluated before. */
static void must(lw_status status, const char *what, const char *why) {
  if (status == LW_OK) return;
  fprintf(stderr, "%s: %s (%s)\n", what, why, lw_status_name(status));
  exit((int)status);
}

static lw_graph *build(const float *scale, const float *bias) {
  const int64_t matrix[2] = {ROWS, WIDTH}, row[1] = {WIDTH};
  lw_graph *g = NULL;
  must(lw_graph_create(&g), "lw_graph_create", "no memory");
  uint32_t a, b, sum, positive, gamma, beta, y;
  lw_status s = lw_graph_add_input(g, "a", LW_DTYPE_F32, 2, matrix, &a);
  if (s == LW_OK) s = lw_graph_add_input(g, "b", LW_DTYPE_F32, 2, matrix, &b);
  if (s == LW_OK) s = lw_graph_add_constant(g, LW_DTYPE_F32, 1, row, scale, &gamma);
  if (s == LW_OK) s = lw_graph_add_constant(g, LW_DTYPE_F32, 1, row, bias, &beta);
  if (s == LW_OK) {
    const uint32_t operands[2] = {a, b};
    s = lw_graph_add_map(g, "add", operands, 2, &sum);
  }
  if (s == LW_OK) s = lw_graph_add_relu(g, sum, &positive);
  if (s == LW_OK) s = lw_graph_add_layer_norm(g, positive, 1, EPSILON, gamma, beta, &y);
  if (s == LW_OK) s = lw_graph_add_output(g, y, "y");
  must(s, "building the graph", lw_graph_error(g));
  return g;
}

static lw_model *compile(const lw_graph *graph, const char *device) {
  lw_options *options = NULL;
  lw_model *model = NULL;
  must(lw_options_create(&options), "lw_options_create", "no memory");
  lw_status s = lw_options_set(options, "device", device);
  const char *path = getenv("PATH"); /* where the library may look for a C compiler */
  if (s == LW_OK && path != NULL) s = lw_options_set(options, "path", path);
  must(s, "options", lw_options_error(options));
  s = lw_model_compile(graph, options, &model);
  must(s, "lw_model_compile", lw_model_error(model));
  lw_options_destroy(options);
  return model;
}

static void run(lw_context *context, float *a, float *b, float *y) {
  const int64_t dims[2] = {ROWS, WIDTH};
  lw_tensor tensor = {.dtype = LW_DTYPE_F32, .rank = 2, .dims = dims, .memory = LW_MEMORY_HOST};
  tensor.data = a;
  lw_status s = lw_context_bind_input(context, 0, &tensor);
  tensor.data = b;
  if (s == LW_OK) s = lw_context_bind_input(context, 1, &tensor);
  tensor.data = y;
  if (s == LW_OK) s = lw_context_bind_output(context, 0, &tensor);
  if (s == LW_OK) s = lw_context_run(context);
  must(s, "running", lw_context_error(context));
}

/* Largest difference between |y| and the formula, row by row, in double. */
static double check(const float *a, const float *b, const float *scale, const float *bias,
                    const float *y) {
  double worst = 0;
  for (int r = 0; r < ROWS; r++) {
    double x[WIDTH], mean = 0, variance = 0;
    for (int i = 0; i < WIDTH; i++) {
      double sum = (double)a[r * WIDTH + i] + (double)b[r * WIDTH + i];
      x[i] = sum > 0 ? sum : 0;
      mean += x[i] / WIDTH;
    }
    for (int i = 0; i < WIDTH; i++) variance += (x[i] - mean) * (x[i] - mean) / WIDTH;
    for (int i = 0; i < WIDTH; i++) {
      double want = (x[i] - mean) / sqrt(variance + EPSILON) * (double)scale[i] + (double)bias[i];
      double error = fabs((double)y[r * WIDTH + i] - want);
      if (!(error <= worst)) worst = error; /* NaN counts as an error */
    }
  }
  return worst;
}

int main(int argc, char **argv) {
  static float a[ROWS * WIDTH], b[ROWS * WIDTH], y[ROWS * WIDTH], scale[WIDTH], bias[WIDTH];
  for (int i = 0; i < ROWS * WIDTH; i++) {
    a[i] = (float)sin(i * 0.7);
    b[i] = (float)cos(i * 0.3);
  }
  for (int i = 0; i < WIDTH; i++) {
    scale[i] = 1 + (float)i / WIDTH;
    bias[i] = (float)i * 0.01f;
  }
  lw_graph *graph = build(scale, bias);
  lw_model *model = compile(graph, argc > 1 ? argv[1] : "auto");
  lw_graph_destroy(graph); /* the model has what it needs */
  lw_context *context = NULL;
  lw_status s = lw_context_create(model, &context);
  must(s, "lw_context_create", lw_context_error(context));
  run(context, a, b, y);
  lw_stats stats;
  lw_context_stats(context, &stats);
  double error = check(a, b, scale, bias, y);
  printf("add, relu, layer norm on %s: %llu kernel(s), %.1f us, compiled in %.2f s\n",
         lw_model_device(model), (unsigned long long)stats.kernels, stats.last_device_us,
         stats.compile_s);
  printf("largest difference to plain C: %.3g\n", error);
  lw_context_destroy(context);
  lw_model_destroy(model);
  return error <= 1e-4 ? 0 : 1;
}

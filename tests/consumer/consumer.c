/* consumer.c: the least a program does with lawson: y = relu(x), checked. */
#include <lawson/lawson.h>
#include <stdio.h>
#include <stdlib.h>

int main(void) {
  const int64_t dims[1] = {4};
  float x[4] = {-1, 2, -3, 4}, y[4] = {9, 9, 9, 9};
  const char *path = getenv("PATH");
  uint32_t in, out;
  lw_graph *graph;
  lw_options *options;
  lw_model *model;
  lw_context *context;
  if (lw_graph_create(&graph) != LW_OK || lw_options_create(&options) != LW_OK) return 1;
  if (lw_graph_add_input(graph, "x", LW_DTYPE_F32, 1, dims, &in) != LW_OK ||
      lw_graph_add_relu(graph, in, &out) != LW_OK ||
      lw_graph_add_output(graph, out, "y") != LW_OK) {
    printf("graph: %s\n", lw_graph_error(graph));
    return 1;
  }
  if (lw_options_set(options, "device", "cpu") != LW_OK ||
      lw_options_set(options, "path", path != NULL ? path : "/usr/bin") != LW_OK) {
    printf("options: %s\n", lw_options_error(options));
    return 1;
  }
  if (lw_model_compile(graph, options, &model) != LW_OK) {
    printf("model: %s\n", lw_model_error(model));
    return 1;
  }
  lw_tensor tensor = {.data = x, .dtype = LW_DTYPE_F32, .rank = 1, .dims = dims};
  if (lw_context_create(model, &context) != LW_OK ||
      lw_context_bind_input(context, 0, &tensor) != LW_OK) {
    printf("context: %s\n", lw_context_error(context));
    return 1;
  }
  tensor.data = y;
  if (lw_context_bind_output(context, 0, &tensor) != LW_OK || lw_context_run(context) != LW_OK) {
    printf("run: %s\n", lw_context_error(context));
    return 1;
  }
  lw_context_destroy(context);
  lw_model_destroy(model);
  lw_options_destroy(options);
  lw_graph_destroy(graph);
  printf("lawson %s: %g %g %g %g\n", lw_version(), (double)y[0], (double)y[1], (double)y[2],
         (double)y[3]);
  return y[0] == 0 && y[1] == 2 && y[2] == 0 && y[3] == 4 ? 0 : 1;
}

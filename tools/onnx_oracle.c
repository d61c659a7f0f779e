/* onnx_oracle.c: imports an ONNX model and runs it in the graph interpreter; for tools/onnx_suite.
 *   onnx_oracle MODEL OUT [--dim NAME=N].. [--shape NAME=2,3].. INPUT..
 * INPUT: files with the raw elements of the inputs, in order. OUT gets, for each output, a line
 * "TYPE RANK DIM.. COUNT", then COUNT values (f64, or i64 for integers and bools) and COUNT error
 * bounds (f64). The exit status is that of lw_status; messages go to stderr. */
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "compiler/onnx/import.h"
#include "graph/interp.h"

enum { LIST_MAX = 256 };

typedef struct oracle_args {
  const char *model, *out;
  const char *inputs[LIST_MAX];
  uint32_t input_count;
  const char *dim_names[LIST_MAX], *shape_names[LIST_MAX];
  int64_t dim_values[LIST_MAX];
  lw_shape shapes[LIST_MAX];
  lw_import_options options;
} oracle_args;

static char *oracle_split(char *text) {
  char *equals = strchr(text, '=');
  if (equals == NULL) exit(LW_STATUS_USAGE);
  *equals = '\0';
  return equals + 1;
}

static void oracle_parse(int argc, char **argv, oracle_args *a) {
  for (int i = 1; i < argc; i++) {
    if (strcmp(argv[i], "--dim") == 0 && i + 1 < argc) {
      char *value = oracle_split(argv[++i]);
      a->dim_names[a->options.dim_count] = argv[i];
      a->dim_values[a->options.dim_count++] = strtoll(value, NULL, 10);
    } else if (strcmp(argv[i], "--shape") == 0 && i + 1 < argc) {
      char *value = oracle_split(argv[++i]);
      lw_shape *shape = &a->shapes[a->options.shape_count];
      a->shape_names[a->options.shape_count++] = argv[i];
      while (*value != '\0' && shape->rank < LW_MAX_RANK) {
        shape->dim[shape->rank++] = strtoll(value, &value, 10);
        if (*value == ',') value++;
      }
    } else if (a->model == NULL) {
      a->model = argv[i];
    } else if (a->out == NULL) {
      a->out = argv[i];
    } else {
      a->inputs[a->input_count++] = argv[i];
    }
  }
  a->options.dim_names = a->dim_names;
  a->options.dim_values = a->dim_values;
  a->options.shape_names = a->shape_names;
  a->options.shapes = a->shapes;
}

static int oracle_report(const lw_diag *diag, lw_status status) {
  for (uint32_t i = 0; i < diag->messages.count; i++) {
    const lw_message *m = &diag->messages.data[i];
    fprintf(stderr, "%s: %s\n", m->where, m->text);
  }
  fprintf(stderr, "status: %s\n", lw_status_name(status));
  return (int)status;
}

static void oracle_write(FILE *file, const lw_oracle_tensor *t) {
  fprintf(file, "%s %u", lw_dtype_name(t->dtype), t->shape.rank);
  for (uint32_t d = 0; d < t->shape.rank; d++) fprintf(file, " %lld", (long long)t->shape.dim[d]);
  fprintf(file, " %lld\n", (long long)t->count);
  const void *data = lw__dtype_is_float(t->dtype) ? (const void *)t->f : (const void *)t->i;
  fwrite(data, 8, (size_t)t->count, file);
  fwrite(t->bound, 8, (size_t)t->count, file);
}

static lw_status oracle_run(const lw_graph *graph, const oracle_args *a, lw_diag *diag) {
  lw_host_tensor inputs[LIST_MAX];
  lw_oracle_tensor results[LIST_MAX] = {0};
  lw_arena arena = {0};
  if (graph->inputs.count != a->input_count || graph->outputs.count > LIST_MAX) {
    return lw__fail(diag, LW_STATUS_USAGE, "", "the model has %u inputs", graph->inputs.count);
  }
  for (uint32_t i = 0; i < a->input_count; i++) {
    lw_file_map map;
    const lw_value *v = lw__value(graph, graph->inputs.data[i]);
    LW_TRY(lw__file_map(a->inputs[i], diag, &map));
    size_t need = (size_t)lw__shape_numel(&v->shape) * lw_dtype_size_bytes(v->dtype);
    if (map.bytes != need) {
      return lw__fail(diag, LW_STATUS_USAGE, "", "input %u has %zu bytes, needs %zu", i, map.bytes,
                      need);
    }
    void *copy;
    LW_TRY(lw__arena_dup(&arena, map.data, map.bytes, &copy));
    inputs[i] = (lw_host_tensor){v->dtype, v->shape, copy};
    lw__file_unmap(&map);
  }
  LW_TRY(lw__interp_run(graph, LW_INTERP_IDEAL, inputs, &arena, (size_t)8 << 30, diag, results));
  FILE *file = fopen(a->out, "wb");
  if (file == NULL) return LW_STATUS_IO;
  for (uint32_t i = 0; i < graph->outputs.count; i++) oracle_write(file, &results[i]);
  fclose(file);
  lw__arena_deinit(&arena);
  return LW_OK;
}

int main(int argc, char **argv) {
  static oracle_args a;
  lw_diag diag = {0};
  lw_graph graph;
  oracle_parse(argc, argv, &a);
  if (a.out == NULL) return LW_STATUS_USAGE;
  lw_status status = lw__onnx_import(a.model, &a.options, &diag, &graph);
  if (status != LW_OK) return oracle_report(&diag, status);
  status = lw__graph_verify(&graph, &diag);
  if (status == LW_OK && strcmp(a.out, "-") == 0) {
    lw_text text = {0};
    lw__graph_print(&graph, false, &text);
    fputs(lw__text_str(&text), stdout);
    lw__text_deinit(&text);
  } else if (status == LW_OK) {
    status = oracle_run(&graph, &a, &diag);
  }
  int rc = status == LW_OK ? 0 : oracle_report(&diag, status);
  lw__graph_deinit(&graph);
  lw__diag_deinit(&diag);
  return rc;
}

/* shared.c: reads ../shared. */
#include "lib/shared.h"

#include <dirent.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "compiler/onnx/import.h"

enum { most_symbols = 16 };

lw_status lw_shared_folders(const char *source_dir, const char *kind, lw_shared_list *out) {
  char root[1024];
  struct dirent **entries = NULL;
  memset(out, 0, sizeof *out);
  snprintf(root, sizeof root, "%s/../shared/%s", source_dir, kind);
  int count = scandir(root, &entries, NULL, alphasort);
  void *paths = NULL;
  lw_status status = count > 0 ? lw__mem_resize(&paths, (size_t)count * sizeof(char *)) : LW_OK;
  out->paths = paths;
  for (int i = 0; i < count; i++) {
    char model[2048];
    void *path = NULL;
    int length = snprintf(model, sizeof model, "%s/%s/model.onnx", root, entries[i]->d_name);
    FILE *file = status == LW_OK && entries[i]->d_name[0] != '.' ? fopen(model, "rb") : NULL;
    if (file != NULL) {
      fclose(file);
      status = lw__mem_resize(&path, (size_t)length + 1);
      if (path)
        snprintf(path, (size_t)length + 1, "%s/%s", root, entries[i]->d_name),
            out->paths[out->count++] = path;
    }
    free(entries[i]);
  }
  free(entries);
  return status;
}

void lw_shared_list_deinit(lw_shared_list *list) {
  for (uint32_t i = 0; i < list->count; i++) lw__mem_free(list->paths[i]);
  lw__mem_free(list->paths);
  memset(list, 0, sizeof *list);
}

lw_status lw_shared_tensor(const char *folder, const char *stem, uint32_t index, lw_diag *diag,
                           lw_npy *out) {
  char path[2048];
  snprintf(path, sizeof path, "%s/%s_%u.npy", folder, stem, index);
  return lw__npy_read(path, diag, out);
}

/* The shapes that the input files have, by the names of the model's inputs. */
static lw_status shapes_of_files(const char *folder, const lw_onnx_summary *summary,
                                 const char **names, lw_shape *shapes, uint32_t *out_count) {
  *out_count = 0;
  for (uint32_t i = 0; i < summary->input_count; i++) {
    lw_npy npy;
    lw_diag ignored = {0};
    lw_status status = lw_shared_tensor(folder, "in", i, &ignored, &npy);
    lw__diag_deinit(&ignored);
    if (status == LW_STATUS_OUT_OF_MEMORY) return status;
    if (status != LW_OK) continue;
    names[*out_count] = summary->inputs[i].name;
    shapes[(*out_count)++] = lw__shape_of((uint32_t)npy.rank, npy.dims);
    lw__npy_deinit(&npy);
  }
  return LW_OK;
}

static lw_status bind_rest(lw_graph *g, int64_t value) {
  const char *names[most_symbols];
  int64_t values[most_symbols];
  uint32_t count = 0;
  for (uint32_t i = 0; i < g->extents.nodes.count && count < most_symbols; i++) {
    if (g->extents.nodes.data[i].op != LW_EXTENT_SYMBOL) continue;
    names[count] = g->extents.nodes.data[i].symbol;
    values[count++] = value;
  }
  return lw__graph_bind_symbols(g, names, values, count, true);
}

static lw_status import_with(const char *folder, const lw_onnx_summary *summary, const char *path,
                             bool ignore_inputs, lw_diag *diag, lw_graph *out) {
  lw_arena arena = {0};
  const char **names;
  lw_shape *shapes;
  lw_import_options options = {0};
  lw_status status = lw__arena_alloc(&arena, summary->input_count + 1u, sizeof *names, &names);
  if (status == LW_OK)
    status = lw__arena_alloc(&arena, summary->input_count + 1u, sizeof *shapes, &shapes);
  if (status == LW_OK && !ignore_inputs)
    status = shapes_of_files(folder, summary, names, shapes, &options.shape_count);
  if (status == LW_OK) {
    options.shape_names = names;
    options.shapes = shapes;
    status = lw__onnx_import(path, &options, diag, out);
  }
  lw__arena_deinit(&arena);
  return status;
}

lw_status lw_shared_import(const char *folder, bool ignore_inputs, int64_t dim_value, lw_diag *diag,
                           lw_graph *out) {
  char path[2048];
  lw_onnx_summary summary;
  memset(out, 0, sizeof *out);
  snprintf(path, sizeof path, "%s/model.onnx", folder);
  LW_TRY(lw__onnx_summary(path, NULL, diag, &summary));
  lw_status status = import_with(folder, &summary, path, ignore_inputs, diag, out);
  lw__onnx_summary_deinit(&summary);
  if (status == LW_OK && dim_value > 0) status = bind_rest(out, dim_value);
  return status;
}

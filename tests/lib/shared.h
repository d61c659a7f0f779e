/* shared.h: the models and cases that lie beside the checkout in ../shared (docs/testing.md):
 * folders with model.onnx, in_<i>.npy and out_<i>.npy. */
#ifndef LW_TEST_SHARED_H
#define LW_TEST_SHARED_H

#include "api/npy.h"
#include "graph/graph.h"

typedef struct lw_shared_list {
  char **paths;
  uint32_t count;
} lw_shared_list; /* folders, sorted */
/* |source_dir|: the checkout (LW_SOURCE_DIR); |kind|: "models" or "cases". Empty when there is no
 * such folder. */
lw_status lw_shared_folders(const char *source_dir, const char *kind,
                            lw_shared_list *out) LW_MUST_CHECK;
void lw_shared_list_deinit(lw_shared_list *list);

/* Imports <folder>/model.onnx with the shapes of its in_<i>.npy files where they are there. Symbols
 * that are left get |dim_value| (0: as the importer likes); with |ignore_inputs| the files are not
 * looked at. */
lw_status lw_shared_import(const char *folder, bool ignore_inputs, int64_t dim_value, lw_diag *diag,
                           lw_graph *out) LW_MUST_CHECK;

/* in_<index>.npy or out_<index>.npy. */
lw_status lw_shared_tensor(const char *folder, const char *stem, uint32_t index, lw_diag *diag,
                           lw_npy *out) LW_MUST_CHECK;

#endif

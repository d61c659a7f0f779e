/* fuzz_onnx.c: any bytes as an ONNX model. Whatever comes in, the importer must end soon, with
 * memory in proportion to the input, and what it accepts must be a valid graph. With LW_FUZZ a
 * libFuzzer program (-max_len=20000 -timeout=5 -rss_limit_mb=2048 finds most), else a replay of
 * tests/data/fuzz/onnx with changes. */
#include <stdlib.h>

#include "compiler/onnx/import.h"

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size);

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size) {
  lw_import_limits limits = {.nodes = 3000, .table_elements = 1 << 16};
  lw_diag diag = {0};
  lw_graph graph;
  if (lw__onnx_import_bytes(data, size, "fuzz", NULL, &limits, &diag, &graph) == LW_OK) {
    if (lw__graph_verify(&graph, &diag) != LW_OK) abort();
    lw__graph_deinit(&graph);
  } else if (diag.messages.count == 0) {
    abort(); /* every refusal says why */
  }
  lw__diag_deinit(&diag);
  return 0;
}

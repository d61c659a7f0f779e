/* fuzz_onnx.c: any bytes as an ONNX model. Whatever comes in, the importer must end soon, with
 * memory in proportion to the input, and what it accepts must be a valid graph. clang -g -O1
 * -fsanitize=fuzzer,address,undefined -D_GNU_SOURCE -Isrc -Iinclude tests/fuzz/fuzz_onnx.c
 *         src/base/<all>.c src/graph/<all>.c src/compiler/onnx/<all>.c -lm -o fuzz_onnx
 *   fuzz_onnx -max_len=20000 -timeout=5 -rss_limit_mb=2048 CORPUS   (small models; ../shared/cases
 * is a good start) */
#include <stdlib.h>

#include "compiler/onnx/import.h"

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size);

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size) {
  lw_import_limits limits = {.nodes = 3000, .table_elements = 4096};
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

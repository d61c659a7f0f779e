/* fuzz_graph.c: any bytes as a graph in text form. What the parser accepts is a valid graph, prints
 * and comes back as the same text. */
#include <stdlib.h>
#include <string.h>

#include "graph/graph.h"

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size);

/* The graph again from what it prints: the same text. */
static void round_trip(const lw_graph *graph) {
  lw_text first = {0}, second = {0};
  lw_diag diag = {0};
  lw_graph again;
  lw__graph_print(graph, true, &first);
  if (first.status != LW_OK) abort();
  lw_str text = lw__str(lw__text_str(&first), first.len);
  if (lw__graph_parse(text, &diag, &again) != LW_OK) abort();
  lw__graph_print(&again, true, &second);
  if (second.len != first.len || memcmp(text.ptr, lw__text_str(&second), text.len) != 0) abort();
  lw__graph_deinit(&again);
  lw__diag_deinit(&diag);
  lw__text_deinit(&first);
  lw__text_deinit(&second);
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size) {
  lw_diag diag = {0};
  lw_graph graph;
  if (lw__graph_parse(lw__str((const char *)data, size), &diag, &graph) == LW_OK) {
    if (lw__graph_verify(&graph, &diag) != LW_OK) abort();
    round_trip(&graph);
    lw__graph_deinit(&graph);
  } else if (diag.messages.count == 0) {
    abort(); /* every refusal says why */
  }
  lw__diag_deinit(&diag);
  return 0;
}

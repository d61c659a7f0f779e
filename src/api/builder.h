/* builder.h: what stands behind the public lw_graph: the compiler's own graph and the messages of
 * building it. */
#ifndef LW_API_BUILDER_H
#define LW_API_BUILDER_H

#include <lawson/lawson.h>

#include "graph/graph.h"

typedef struct lw_built_graph {
  lw_graph graph; /* first: a public lw_graph pointer is a pointer to this */
  lw_diag diag;
  lw_text error; /* what lw_graph_error gave last */
} lw_built_graph;

#endif

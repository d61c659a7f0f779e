/* standin.h: what a test can ask of the look-alike of the CUDA driver (cuda_standin.c), found with
 * dlsym in the same library. */
#ifndef LW_TESTS_STANDIN_H
#define LW_TESTS_STANDIN_H

#include <stdbool.h>
#include <stdint.h>

typedef struct lw_standin_state {
  /* set by the test */
  uint64_t fail_at; /* the n-th counted call from now fails with fail_code; 0: none */
  int fail_code;
  bool capturing; /* calls that a stream capture forbids are violations */
  int device_count, arch_major, arch_minor, driver_version;
  /* found out */
  uint64_t calls, launches, copies, fills, waits;
  uint64_t live_memory, live_modules, live_streams, live_events, live_graphs, retains,
      context_depth;
  uint64_t graph_launches, graph_edits, early_edges;
  uint64_t violations;
  char violation[256];     /* the first one */
  int failed_call_is_push; /* ... hit making the context current, without which nothing can be freed
                            */
  int failed_call_is_cleanup; /* the injected failure hit a destroy, free, unload, pop or release */
} lw_standin_state;

/* "lw_standin": gives the one state. */
typedef lw_standin_state *lw_standin_function(void);

/* Images that the stand-in takes. The first has the built-in functions lw_map_scale(y, x, s0, s1)
 * and lw_map_add(y, a, b) on floats, four elements per block; the second is followed by generated
 * CUDA C, which is compiled for the host. */
#define LW_STANDIN_IMAGE "standin image"
#define LW_STANDIN_SOURCE "standin source\n"

#endif

/* standin.h: what a test can ask of the look-alikes of the CUDA driver (cuda_standin.c) and of
 * NVRTC (nvrtc_standin.c), found with dlsym in the libraries. */
#ifndef LW_TESTS_STANDIN_H
#define LW_TESTS_STANDIN_H

#include <stdbool.h>
#include <stdint.h>

#include "runtime/cuda/driver.h"

typedef struct lw_standin_state {
  /* set by the test */
  uint64_t fail_at; /* the n-th counted call from now fails with fail_code; 0: none */
  int fail_code;
  int device_count, arch_major, arch_minor, driver_version;
  uint64_t seed;      /* of the orders in which work is done; goes on by itself */
  bool no_access_log; /* kernels that are compiled from now on do not say what they touch */
  char refuse[96];    /* a kernel of which no block fits on the device */
  /* found out */
  uint64_t calls, launches, copies, fills, waits;
  uint64_t live_pinned, live_memory, live_modules, live_streams, live_events, live_graphs, retains,
      context_depth, live_captures;
  uint64_t maps; /* tensor maps made */
  uint64_t graph_launches, graph_edits, early_edges;
  uint64_t event_waits, priorities; /* streams and nodes that were given one */
  uint64_t violations;
  char violation[256];      /* the first one */
  const char *failed_call;  /* the injected failure hit it; NULL: none */
  int failed_call_is_cleanup; /* the injected failure hit a destroy, free, unload, pop or release */
} lw_standin_state;

/* "lw_standin": gives the one state. A process that never calls it is ended by a violation. */
typedef lw_standin_state *lw_standin_function(void);

/* "lw_standin_bury": frees the memory of a context that an error lost, as the end of the process
 * would; nothing else is alive then. */
typedef void lw_standin_bury_function(void);

/* "lw_nvrtc_standin" the same for NVRTC. */
typedef struct lw_nvrtc_standin_state {
  uint64_t fail_at; /* the n-th call from now fails with fail_code; 0: none */
  int fail_code;
  char reject[96]; /* source with this text in it does not compile */
  char spill[96];     /* the kernel of this name spills */
  char serialize[96]; /* the matrix instructions of this one are serialized; "*product": of every
                         one */
  uint64_t calls, programs_live;
} lw_nvrtc_standin_state;
typedef lw_nvrtc_standin_state *lw_nvrtc_standin_function(void);

/* Functions of the driver that tests use and the runtime does not: X(name, symbol, parameters). */
#define LW_STANDIN_SYMBOLS(X)                                                            \
  X(capture_begin, cuStreamBeginCapture_v2, (lw_cu_stream stream, int mode))             \
  X(capture_end, cuStreamEndCapture, (lw_cu_stream stream, lw_cu_graph * graph))

/* Images that the stand-in takes. The first has the built-in functions lw_map_scale(y, x, s0, s1)
 * and lw_map_add(y, a, b) on floats, four elements per block; the second is followed by generated
 * CUDA C, which is compiled for the host. */
#define LW_STANDIN_IMAGE "standin image"
#define LW_STANDIN_SOURCE "standin source\n"

#endif

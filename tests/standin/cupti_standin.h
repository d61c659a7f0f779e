/* cupti_standin.h: what a test can ask of the look-alike of CUPTI (cupti_standin.c), found with
 * dlsym: "lw_cupti_standin" gives the one state. */
#ifndef LW_TESTS_CUPTI_STANDIN_H
#define LW_TESTS_CUPTI_STANDIN_H

#include <stdint.h>

#define LW_CUPTI_STANDIN_MOST 16

typedef struct lw_cupti_standin_state {
  /* set by the test: what every flush delivers while recording is on */
  struct {
    int kind;
    uint64_t begin_ns, end_ns;
  } records[LW_CUPTI_STANDIN_MOST];
  uint32_t count;
  uint64_t fail_at; /* the n-th call from now fails; 0: none */
  /* found out */
  int enabled, flushes;
  uint64_t calls, buffers_out; /* buffers that were not given back */
} lw_cupti_standin_state;
typedef lw_cupti_standin_state *lw_cupti_standin_function(void);

#endif

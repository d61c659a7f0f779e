/* simt.h: runs the blocks of a kernel on the host: threads of a block as coroutines that meet at
 * barriers and shuffles. */
#ifndef LW_TESTS_STANDIN_SIMT_H
#define LW_TESTS_STANDIN_SIMT_H

#include <stdbool.h>
#include <stdint.h>

#include "standin/host.h"

typedef struct simt_launch {
  void (*call)(const uint64_t *parameters); /* the kernel */
  const uint64_t *parameters;
  unsigned grid, block;
  unsigned shared_bytes;
  bool meets;     /* threads meet somewhere; else they simply run one after the other */
  unsigned order; /* even: blocks and threads forward; odd: backward */
} simt_launch;

/* NULL, or what the kernel did wrong: a thread missing at a barrier or in a shuffle. */
const char *simt_run(const simt_launch *launch);
const struct standin_host *simt_host(void);

#endif

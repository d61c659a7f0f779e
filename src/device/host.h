/* host.h: the processor that this program runs on, as far as compiled kernels care. */
#ifndef LW_DEVICE_HOST_H
#define LW_DEVICE_HOST_H

#include "base/base.h"

typedef struct lw_host_cpu {
  char name[128]; /* "AMD EPYC 9654 96-Core Processor"; "CPU" where nothing says */
  char isa[1024]; /* names of instruction sets, by the kernel's names, blanks between; "" unknown */
} lw_host_cpu;
/* Of the first core, from /proc/cpuinfo. */
void lw__host_cpu(lw_host_cpu *out);
/* The same from a file in that form (for tests). */
void lw__host_cpu_of(const char *path, lw_host_cpu *out);
/* The first word of |isa| that |cpu| lacks, or an empty one. */
lw_str lw__host_cpu_lacks(const lw_host_cpu *cpu, const char *isa);

#endif

/* trace.h: when the kernels of a run ran. */
#ifndef LW_RUNTIME_TRACE_H
#define LW_RUNTIME_TRACE_H

#include "runtime/runtime.h"

typedef struct lw_rt_span { /* of one kernel */
  int64_t begin_ns, end_ns;
} lw_rt_span;
typedef LW_VEC(lw_rt_span) lw_rt_spans;

/* Sorts |spans|. */
void lw__rt_trace_sum(lw_rt_span *spans, uint32_t count, lw_rt_trace *out);

#endif

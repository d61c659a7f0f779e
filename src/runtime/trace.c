/* trace.c: from the times of kernels to the time that some kernel ran and the time that none did.
 */
#include "runtime/trace.h"

#include <stdlib.h>

static int span_compare(const void *a, const void *b) {
  const lw_rt_span *x = a, *y = b;
  return (x->begin_ns > y->begin_ns) - (x->begin_ns < y->begin_ns);
}

void lw__rt_trace_sum(lw_rt_span *spans, uint32_t count, lw_rt_trace *out) {
  *out = (lw_rt_trace){.kernels = count};
  if (count == 0) return;
  qsort(spans, count, sizeof *spans, span_compare);
  int64_t end = spans[0].begin_ns;
  for (uint32_t i = 0; i < count; i++) {
    if (spans[i].begin_ns > end) out->gap_ns += spans[i].begin_ns - end;
    int64_t from = spans[i].begin_ns > end ? spans[i].begin_ns : end;
    if (spans[i].end_ns <= from) continue;
    out->busy_ns += spans[i].end_ns - from;
    end = spans[i].end_ns;
  }
}

/* Our declarations of CUPTI against NVIDIA's header, where that is installed: functions, values,
 * and where a kernel's times are in its record. All of it happens at compile time. */
#if defined(__has_include)
#if __has_include(<cupti.h>) && __has_include(<cuda.h>)
#define HAVE_CUPTI_H 1
#endif
#endif

#ifdef HAVE_CUPTI_H
#include <cuda.h>
#include <cupti.h>
#define LW_CUPTI_REAL_TYPES
#endif

#include <stdio.h>

#include "runtime/cuda/cupti.h"

#ifdef HAVE_CUPTI_H
#define SAME_FUNCTION(name, symbol, parameters)                                              \
  _Static_assert(                                                                            \
      __builtin_types_compatible_p(__typeof__(&symbol), CUptiResult(CUPTIAPI *) parameters), \
      #symbol);
LW_CUPTI_SYMBOLS(SAME_FUNCTION)
#define SAME_RECORD(type)                                                                   \
  _Static_assert(offsetof(type, kind) == offsetof(struct lw_cupti_record, kind) &&          \
                     offsetof(type, start) == offsetof(struct lw_cupti_record, begin_ns) && \
                     offsetof(type, end) == offsetof(struct lw_cupti_record, end_ns) &&     \
                     sizeof(((type *)0)->start) == sizeof(uint64_t),                        \
                 #type)
SAME_RECORD(CUpti_ActivityKernel4);
SAME_RECORD(CUpti_ActivityKernel5);
#if CUPTI_API_VERSION >= 18
SAME_RECORD(CUpti_ActivityKernel9);
#endif
#if CUPTI_API_VERSION >= 130000
SAME_RECORD(CUpti_ActivityKernel10);
#endif
_Static_assert(offsetof(CUpti_Activity, kind) == offsetof(struct lw_cupti_record, kind), "kind");
_Static_assert((int)LW_CUPTI_SUCCESS == (int)CUPTI_SUCCESS, "success");
_Static_assert((int)LW_CUPTI_KERNEL == (int)CUPTI_ACTIVITY_KIND_CONCURRENT_KERNEL, "kernels");
_Static_assert((int)LW_CUPTI_FLUSH_ALL == (int)CUPTI_ACTIVITY_FLAG_FLUSH_FORCED, "flush");

int main(void) {
  (void)printf("compared with cupti.h of version %d\n", CUPTI_API_VERSION);
  return 0;
}
#else
int main(void) {
  (void)printf("cupti.h is not installed: skipped\n");
  return 77;
}
#endif

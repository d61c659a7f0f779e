/* cupti.h: when kernels ran, by NVIDIA's CUPTI: the part of its activity interface that is needed,
 * declared by ourselves and found at run time. */
#ifndef LW_RUNTIME_CUDA_CUPTI_H
#define LW_RUNTIME_CUDA_CUPTI_H

#include "runtime/trace.h"

/* A test includes NVIDIA's own header and compares. */
#ifdef LW_CUPTI_REAL_TYPES
typedef CUptiResult lw_cupti_result;
typedef CUpti_ActivityKind lw_cupti_kind;
typedef CUpti_Activity lw_cupti_activity;
typedef CUpti_BuffersCallbackRequestFunc lw_cupti_request;
typedef CUpti_BuffersCallbackCompleteFunc lw_cupti_complete;
#else
typedef int lw_cupti_result;
typedef int lw_cupti_kind;
typedef struct lw_cupti_record lw_cupti_activity;
typedef void (*lw_cupti_request)(uint8_t **buffer, size_t *bytes, size_t *most_records);
typedef void (*lw_cupti_complete)(void *context, uint32_t stream, uint8_t *buffer, size_t bytes,
                                  size_t filled);
#endif

/* The beginning of a kernel's record, the same in all versions since CUDA 9. Records of other kinds
 * have but the kind in common. */
struct lw_cupti_record {
  int kind;
  uint32_t other[3];
  uint64_t begin_ns, end_ns;
};

enum {
  LW_CUPTI_SUCCESS = 0,
  LW_CUPTI_KERNEL = 10, /* kernels that may run beside each other */
  LW_CUPTI_FLUSH_ALL = 1,
};

/* X(name, symbol, parameters) */
#define LW_CUPTI_SYMBOLS(X)                                                             \
  X(enable, cuptiActivityEnable, (lw_cupti_kind kind))                                  \
  X(disable, cuptiActivityDisable, (lw_cupti_kind kind))                                \
  X(callbacks, cuptiActivityRegisterCallbacks,                                          \
    (lw_cupti_request request, lw_cupti_complete complete))                             \
  X(flush, cuptiActivityFlushAll, (uint32_t flag))                                      \
  X(next, cuptiActivityGetNextRecord,                                                   \
    (uint8_t * buffer, size_t filled, lw_cupti_activity * *record))                     \
  X(error_text, cuptiGetResultString, (lw_cupti_result result, const char **text))

typedef struct lw_cupti {
  void *handle;
#define LW_CUPTI_MEMBER(name, symbol, parameters) lw_cupti_result(*name) parameters;
  LW_CUPTI_SYMBOLS(LW_CUPTI_MEMBER)
#undef LW_CUPTI_MEMBER
} lw_cupti;

/* |path| NULL: libcupti of the loader's path and of /usr/local/cuda. LW_STATUS_UNSUPPORTED when
 * there is none. */
lw_status lw__cupti_open(const char *path, lw_diag *diag, lw_cupti *out) LW_MUST_CHECK;
/* From here to the end every kernel of the process is recorded. One at a time in a process. */
lw_status lw__cupti_begin(const lw_cupti *cupti, lw_diag *diag) LW_MUST_CHECK;
/* The kernels that have ended and were not collected yet go into |spans|. */
lw_status lw__cupti_collect(const lw_cupti *cupti, lw_diag *diag, lw_rt_spans *spans) LW_MUST_CHECK;
void lw__cupti_end(const lw_cupti *cupti);

#endif

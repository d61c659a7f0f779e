/* nvrtc.h: NVIDIA's run-time compiler, opened when it is needed. Prototypes are our own
 * declarations of its documented C interface (CUDA 12 and 13). */
#ifndef LW_COMPILER_BUILD_NVRTC_H
#define LW_COMPILER_BUILD_NVRTC_H

#include "compiler/build/internal.h"

typedef struct lw_nvrtc_program lw_nvrtc_program; /* the library's own */

enum {
  LW_NVRTC_SUCCESS = 0,
  LW_NVRTC_OUT_OF_MEMORY = 1,
  LW_NVRTC_INVALID_OPTION = 5,
  LW_NVRTC_COMPILATION = 6,
};

/* X(name without "nvrtc", result, parameters) */
#define LW_NVRTC_SYMBOLS(X)                                                               \
  X(Version, int, (int *major, int *minor))                                               \
  X(GetErrorString, const char *, (int result))                                           \
  X(CreateProgram, int,                                                                   \
    (lw_nvrtc_program * *program, const char *source, const char *name, int header_count, \
     const char *const *headers, const char *const *include_names))                       \
  X(DestroyProgram, int, (lw_nvrtc_program * *program))                                   \
  X(CompileProgram, int,                                                                  \
    (lw_nvrtc_program * program, int option_count, const char *const *options))           \
  X(GetCUBINSize, int, (lw_nvrtc_program * program, size_t * bytes))                      \
  X(GetCUBIN, int, (lw_nvrtc_program * program, char *cubin))                             \
  X(GetProgramLogSize, int, (lw_nvrtc_program * program, size_t * bytes))                 \
  X(GetProgramLog, int, (lw_nvrtc_program * program, char *log))

typedef struct lw_nvrtc {
  void *handle;
#define LW_NVRTC_MEMBER(name, result, parameters) result(*name) parameters;
  LW_NVRTC_SYMBOLS(LW_NVRTC_MEMBER)
#undef LW_NVRTC_MEMBER
} lw_nvrtc;

/* Tries |path| alone when it is given, else the sonames, /usr/local/cuda, /usr/local/cuda-*, and
 * the folders of |search| (separated by colons; may be NULL). The library stays in the process
 * after lw__nvrtc_close, so opening it again is cheap. */
lw_status lw__nvrtc_open(const char *path, const char *search, lw_diag *diag,
                         lw_nvrtc *out) LW_MUST_CHECK;
void lw__nvrtc_close(lw_nvrtc *nvrtc);
/* The file that the library came from. */
const char *lw__nvrtc_file(const lw_nvrtc *nvrtc);

/* What ptxas says about the kernel |entry| in the log of a compilation with -v; false when it says
 * nothing. */
bool lw__ptxas_report(lw_str log, const char *entry, lw_build_report *out);
/* The log without ptxas' routine information. */
void lw__ptxas_strip(lw_str log, lw_text *out);
/* The number of a warning that makes the kernel useless ("C7510": matrix instructions in sequence,
 * ...), or NULL. */
const char *lw__ptxas_fatal(lw_str log);

#endif

/* nvrtc_standin.c: a look-alike of NVRTC whose "cubin" is the source text, for the look-alike of
 * the driver, which compiles it for the host. Its log has the assembler's lines for every kernel.
 * Any call can be made to fail, sources to be rejected and kernels to spill. */
#include <pthread.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "compiler/build/nvrtc.h"
#include "standin/standin.h"

#define DECLARE(name, result, parameters) \
  __attribute__((visibility("default"))) result nvrtc##name parameters;
LW_NVRTC_SYMBOLS(DECLARE)
#undef DECLARE

__attribute__((visibility("default"))) lw_nvrtc_standin_state *lw_nvrtc_standin(void);

struct lw_nvrtc_program {
  lw_text image, log;
};

static pthread_mutex_t the_lock = PTHREAD_MUTEX_INITIALIZER;
static lw_nvrtc_standin_state state;

lw_nvrtc_standin_state *lw_nvrtc_standin(void) { return &state; }

/* 0, or the error that this call is to give. */
static int counted(int programs) {
  (void)pthread_mutex_lock(&the_lock);
  state.calls++;
  bool fails = state.fail_at != 0 && --state.fail_at == 0;
  int code = fails ? state.fail_code : 0;
  if (code == 0 || programs < 0) state.programs_live += (uint64_t)(int64_t)programs;
  (void)pthread_mutex_unlock(&the_lock);
  return code;
}

#define CALL(programs)                    \
  do {                                    \
    const int failed = counted(programs); \
    if (failed != 0) return failed;       \
  } while (0)

int nvrtcVersion(int *major, int *minor) {
  CALL(0);
  *major = 12;
  *minor = 4;
  return 0;
}

const char *nvrtcGetErrorString(int result) {
  return result == 0 ? "NVRTC_SUCCESS" : "NVRTC_ERROR";
}

int nvrtcCreateProgram(lw_nvrtc_program **program, const char *source, const char *name,
                       int header_count, const char *const *headers,
                       const char *const *include_names) {
  (void)name, (void)headers, (void)include_names;
  if (header_count != 0) return 3;
  CALL(1);
  *program = calloc(1, sizeof **program);
  lw__text_add(&(*program)->image, LW_STANDIN_SOURCE "%s", source);
  return (*program)->image.status == LW_OK ? 0 : LW_NVRTC_OUT_OF_MEMORY;
}

int nvrtcDestroyProgram(lw_nvrtc_program **program) {
  int failed = counted(-1);
  lw__text_deinit(&(*program)->image);
  lw__text_deinit(&(*program)->log);
  free(*program);
  *program = NULL;
  return failed;
}

int nvrtcCompileProgram(lw_nvrtc_program *program, int option_count, const char *const *options) {
  for (int i = 0; i < option_count; i++) {
    if (strcmp(options[i], "--no-cache") == 0)
      return LW_NVRTC_INVALID_OPTION; /* as version 12 does */
  }
  CALL(0);
  if (state.reject[0] != '\0' && strstr(program->image.data, state.reject) != NULL) {
    lw__text_add(&program->log, "kernels.cu(1): error: '%s' is not to be compiled\n", state.reject);
    return LW_NVRTC_COMPILATION;
  }
  static const char start[] = "__global__ void ";
  for (const char *at = program->image.data; (at = strstr(at, start)) != NULL;) {
    at += sizeof start - 1;
    if (strncmp(at, "__launch_bounds__(", 18) == 0) at = strchr(at, ')') + 2;
    lw__text_add(&program->log, "ptxas info    : Compiling entry function '%.*s' for 'sm_90a'\n",
                 (int)strcspn(at, "("), at);
    if (strncmp(at, state.spill, strcspn(at, "(")) == 0 && state.spill[0] != '\0') {
      lw__text_add(&program->log,
                   "    16 bytes stack frame, 40 bytes spill stores, 40 bytes spill loads\n");
    }
    bool product = strstr(program->image.data, "wgmma") != NULL;
    if ((strncmp(at, state.serialize, strcspn(at, "(")) == 0 && state.serialize[0] != '\0') ||
        (product && strcmp(state.serialize, "*product") == 0)) {
      lw__text_add(&program->log,
                   "ptxas info    : (C7510) Potential Performance Loss: wgmma.mma_async "
                   "instructions are serialized due to ... in function '%s'\n",
                   state.serialize);
    }
    lw__text_add(&program->log, "ptxas info    : Used 32 registers, used 0 barriers\n");
  }
  return program->log.status == LW_OK ? 0 : LW_NVRTC_OUT_OF_MEMORY;
}

int nvrtcGetCUBINSize(lw_nvrtc_program *program, size_t *bytes) {
  CALL(0);
  *bytes = program->image.len + 1;
  return 0;
}

int nvrtcGetCUBIN(lw_nvrtc_program *program, char *cubin) {
  CALL(0);
  memcpy(cubin, program->image.data, program->image.len + 1);
  return 0;
}

int nvrtcGetProgramLogSize(lw_nvrtc_program *program, size_t *bytes) {
  CALL(0);
  *bytes = program->log.len + 1;
  return 0;
}

int nvrtcGetProgramLog(lw_nvrtc_program *program, char *log) {
  CALL(0);
  strcpy(log, lw__text_str(&program->log));
  return 0;
}

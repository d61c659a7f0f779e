/* nvrtc_standin.c: a look-alike of NVRTC whose "cubin" is the source text, for the look-alike of
 * the driver, which compiles it for the host. Its log has the assembler's lines for every kernel.
 */
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "compiler/build/nvrtc.h"
#include "standin/standin.h"

#define DECLARE(name, result, parameters) \
  __attribute__((visibility("default"))) result nvrtc##name parameters;
LW_NVRTC_SYMBOLS(DECLARE)
#undef DECLARE

struct lw_nvrtc_program {
  lw_text image, log;
};

int nvrtcVersion(int *major, int *minor) {
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
  *program = calloc(1, sizeof **program);
  lw__text_add(&(*program)->image, LW_STANDIN_SOURCE "%s", source);
  return (*program)->image.status == LW_OK ? 0 : LW_NVRTC_OUT_OF_MEMORY;
}

int nvrtcDestroyProgram(lw_nvrtc_program **program) {
  lw__text_deinit(&(*program)->image);
  lw__text_deinit(&(*program)->log);
  free(*program);
  *program = NULL;
  return 0;
}

int nvrtcCompileProgram(lw_nvrtc_program *program, int option_count, const char *const *options) {
  for (int i = 0; i < option_count; i++) {
    if (strcmp(options[i], "--no-cache") == 0)
      return LW_NVRTC_INVALID_OPTION; /* as version 12 does */
  }
  static const char start[] = "__global__ void ";
  for (const char *at = program->image.data; (at = strstr(at, start)) != NULL;) {
    at += sizeof start - 1;
    if (strncmp(at, "__launch_bounds__(", 18) == 0) at = strchr(at, ')') + 2;
    lw__text_add(&program->log, "ptxas info    : Compiling entry function '%.*s' for 'sm_90a'\n",
                 (int)strcspn(at, "("), at);
    lw__text_add(&program->log, "ptxas info    : Used 32 registers, used 0 barriers\n");
  }
  return program->log.status == LW_OK ? 0 : LW_NVRTC_OUT_OF_MEMORY;
}

int nvrtcGetCUBINSize(lw_nvrtc_program *program, size_t *bytes) {
  *bytes = program->image.len + 1;
  return 0;
}

int nvrtcGetCUBIN(lw_nvrtc_program *program, char *cubin) {
  memcpy(cubin, program->image.data, program->image.len + 1);
  return 0;
}

int nvrtcGetProgramLogSize(lw_nvrtc_program *program, size_t *bytes) {
  *bytes = program->log.len + 1;
  return 0;
}

int nvrtcGetProgramLog(lw_nvrtc_program *program, char *log) {
  strcpy(log, lw__text_str(&program->log));
  return 0;
}

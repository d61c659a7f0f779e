/* case.h: a case folder: model.onnx, in_<i>.npy, out_<i>.npy, and case.json with what is expected.
 * The keys of case.json and what they mean are in docs/cli.md. */
#ifndef LW_CLI_CASE_H
#define LW_CLI_CASE_H

#include "session.h"

#define CASE_MAX_TYPES 64

typedef struct case_spec {
  char *id; /* the folder's name unless the file has another */
  bool has_json, expect_error, nan_any, or_error, gen, every_prefix;
  bool has_tolerance; /* rtol and atol are given */
  double rtol, atol;
  long long kernels_max; /* -1: any */
  double compile_s_max;  /* negative: any */
  char *bits_as;         /* NULL: none */
  json_t *root;          /* holds "types" */
} case_spec;

typedef enum case_result { CASE_PASSED, CASE_FAILED, CASE_SKIPPED } case_result;
typedef struct case_outcome {
  case_result result;
  char *reason; /* why it failed or was skipped, or a remark; never NULL */
  double seconds;
} case_outcome;

/* What holds for all cases of a run. */
typedef struct case_settings {
  const cli_args *args;
  bool fused;         /* kernels_max is not for --no-fuse */
  double time_factor; /* of compile_s_max; 0: no limits */
} case_settings;

/* Reads case.json of |folder|. False with *out_problem (free() it) when it is not as it should
 * be. */
bool case_read(const char *folder, case_spec *out_spec, char **out_problem);
void case_deinit(case_spec *spec);
/* The lw_dtype that case.json gives to "in_0", "out_1" ..., LW_DTYPE_NONE when it says nothing,
 * LW_DTYPE_COUNT when it is a type that lawson does not know. */
lw_dtype case_type(const case_spec *spec, const char *stem, size_t index);

/* Runs the case in this process. */
case_outcome case_run(const case_settings *settings, const char *folder);

#endif

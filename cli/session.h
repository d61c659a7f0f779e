/* session.h: a model on its way from the command line to a context: options, inputs, outputs. */
#ifndef LW_CLI_SESSION_H
#define LW_CLI_SESSION_H

#include "cli.h"

/* The options of everything that compiles a model, and of everything that feeds one. */
extern const cli_option cli_compile_options[];
extern const cli_option cli_input_options[];

typedef struct cli_session {
  const char *path;
  lw_options *options;
  lw_tools_summary *summary; /* of the file, as far as the options bind it */
  lw_model *model;
  lw_context *context;
  lw_tools_array *inputs, *outputs; /* in the model's order */
  bool *given;                      /* per input: it came from a file */
  size_t input_count, output_count;
  uint64_t seed; /* of the inputs that were not given; 0: still to be chosen */
  bool random;   /* at least one was not */
} cli_session;

/* Options from the command line and the environment. Gives an exit code, 0 for fine. */
int cli_options_make(const cli_args *args, lw_options **out_options);
/* Looks into the file and reads the given inputs, whose shapes bind symbolic dimensions. */
int cli_session_open(const cli_args *args, const char *path, cli_session *out_session);
/* Compiles (or compiles again after cli_session_set), prints warnings. */
int cli_session_load(cli_session *session);
int cli_session_set(cli_session *session, const char *name, const char *value);
/* Fills inputs that were not given and makes room for the outputs. */
int cli_session_fill(const cli_args *args, cli_session *session);
/* A context with everything bound to the arrays. */
int cli_session_bind(cli_session *session);
void cli_session_close(cli_session *session);

/* An array as the API wants it. The strides say row-major whatever the options say. */
typedef struct cli_tensor {
  lw_tensor tensor;
  int64_t strides[LW_MAX_RANK];
} cli_tensor;
void cli_tensor_of(lw_tools_array *array, cli_tensor *out);
/* Raw bits in unsigned integers become the type that the model says they are. */
void cli_array_retype(lw_tools_array *array, lw_dtype dtype);
const char *cli_type_text(lw_dtype dtype, int rank, const int64_t *dims); /* "f32[2, 3]" */

#endif

/* session.h: a model on its way from the command line to a context: options, inputs, outputs. */
#ifndef LW_CLI_SESSION_H
#define LW_CLI_SESSION_H

#include "cli.h"

/* The options of everything that compiles a model, and of everything that feeds one. */
extern const cli_option cli_compile_options[];
extern const cli_option cli_input_options[];

/* An input as it is told to people. */
typedef struct cli_port {
  char *name, *type, *shape; /* "x", "f32", "[batch, 3]" */
} cli_port;

typedef struct cli_session {
  const cli_args *args;
  const char *path;
  lw_options *options;
  lw_tools_summary *summary; /* of the file, as far as the options bind it; NULL: not needed yet */
  cli_port *ports;           /* the inputs, from the summary or from the model */
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
/* Whether there is a folder for the cache. */
bool cli_keeps(const cli_args *args);
/* Reads the inputs that are given for a model that is still to be compiled: their shapes bind
 * symbolic dimensions. Those for a plan file are read when it was loaded. */
int cli_session_open(const cli_args *args, const char *path, cli_session *out_session);
/* Compiles (or compiles again after cli_session_set), prints warnings. */
int cli_session_load(const cli_args *args, cli_session *session);
int cli_session_set(cli_session *session, const char *name, const char *value);
/* Fills inputs that were not given and makes room for the outputs whose shapes are known. */
int cli_session_fill(const cli_args *args, cli_session *session);
/* A context with everything bound to the arrays; those of outputs with open dimensions are made
 * here. */
int cli_session_bind(cli_session *session);
/* Whether an input or output is a state's: it is not bound. */
bool cli_session_is_state(const cli_session *session, size_t index, bool is_input);
/* After a run: the outputs of states into their arrays. */
int cli_session_take_states(cli_session *session);
void cli_session_close(cli_session *session);

/* "compiled in 0.42 s (3 built, 1 from the cache)" and the end of the line. */
void cli_print_origin(const cli_session *session);
/* For commands that need the graph: 0, or the exit code after a message when |path| is a compiled
 * plan. */
int cli_refuse_plan(const char *path, const char *command);

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

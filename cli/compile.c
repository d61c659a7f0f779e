/* compile.c: lawson compile: a model into a plan file that needs no compiling any more. */
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>

#include "session.h"

static const cli_option compile_options[] = {
    {"output", "FILE", "MODEL's name with .lwp", "the plan file to write", NULL, 'o'},
    {"json", NULL, NULL, "print one JSON object instead of text", NULL, 0},
    {NULL, NULL, NULL, NULL, NULL, 0}};

/* "dir/net.onnx" -> "dir/net.lwp"; free() it. */
static char *default_output(const char *model) {
  size_t length = strlen(model);
  if (length > 5 && strcmp(model + length - 5, ".onnx") == 0) length -= 5;
  return cli_format("%.*s.lwp", (int)length, model);
}

static double bytes_of(const char *path) {
  struct stat info;
  return stat(path, &info) == 0 ? (double)info.st_size : 0;
}

static void print_text(const cli_session *s, const char *output, const lw_stats *stats) {
  printf("%s for %s: %llu kernel%s, ", s->path, lw_tools_model_target(s->model),
         (unsigned long long)stats->kernels, stats->kernels == 1 ? "" : "s");
  cli_print_origin(s);
  printf("%llu lane%s, %llu wait%s between them; arena %s, %s live at once\n",
         (unsigned long long)stats->lanes, stats->lanes == 1 ? "" : "s",
         (unsigned long long)stats->waits, stats->waits == 1 ? "" : "s",
         cli_bytes_text((double)stats->arena_bytes), cli_bytes_text((double)stats->live_bytes));
  printf("%s: %s, weights included; 'lawson run %s' runs it\n", output,
         cli_bytes_text(bytes_of(output)), output);
}

static json_t *report_json(const cli_session *s, const char *output, const lw_stats *stats) {
  return json_pack("{s:s, s:o, s:o, s:s, s:o, s:o}", "schema", "lawson-compile-1", "model",
                   cli_json_text(s->path), "file", cli_json_text(output), "target",
                   lw_tools_model_target(s->model), "bytes", cli_json_real(bytes_of(output)),
                   "stats", cli_json_stats(stats));
}

static int compile(const cli_args *args, cli_session *s, const char *output) {
  if (lw_tools_is_plan(args->operands[0])) {
    return cli_fail(LW_STATUS_USAGE, "%s is a compiled plan already; 'lawson run' runs it",
                    args->operands[0]);
  }
  int code = cli_session_open(args, args->operands[0], s);
  if (code == 0) code = cli_session_set(s, "compile_only", "on");
  if (code == 0) code = cli_session_load(args, s);
  if (code != 0) return code;
  lw_status status = lw_model_save(s->model, output);
  if (status != LW_OK) return cli_fail(status, "%s", lw_model_error(s->model));
  lw_stats stats;
  lw_tools_model_stats(s->model, &stats);
  if (!cli_has(args, "json")) {
    print_text(s, output, &stats);
    return 0;
  }
  return cli_json_write(report_json(s, output, &stats), "-") ? 0 : LW_STATUS_USAGE;
}

static int run(const cli_args *args) {
  cli_session session = {0};
  const char *given = cli_text(args, "output", NULL);
  char *output = given != NULL ? cli_format("%s", given) : default_output(args->operands[0]);
  int code = compile(args, &session, output);
  cli_session_close(&session);
  free(output);
  return code;
}

const cli_command cli_command_compile = {
    .name = "compile",
    .operands = "MODEL",
    .summary = "compile a model into a plan file, which runs without compiling",
    .about =
        "Writes everything that a run needs into one file: built kernels, the plan of a run,\n"
        "and the weights. 'lawson run FILE' and 'lawson bench FILE' take it in place of a\n"
        "model; no compiler is needed then. It is good for the target it was compiled for:\n"
        "another kind of device, or a processor without the same instructions, is refused, and\n"
        "so is another format of plan files. With --target no device is needed to compile.\n"
        "A plan file holds code: run only those that you would run as a program.",
    .examples =
        "  lawson compile net.onnx --dim batch=1 -o net.lwp     for this machine\n"
        "  lawson run net.lwp -i x.npy                          no compiler, no model needed\n"
        "  lawson compile net.onnx --target cuda:sm_90a         for a GPU that is elsewhere\n",
    .tables = {compile_options, cli_compile_options},
    .operands_min = 1,
    .operands_max = 1,
    .run = run,
};

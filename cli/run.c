/* run.c: lawson run: one inference, its outputs, and if asked the comparison with the oracle. */
#include <errno.h>
#include <limits.h>
#include <math.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>

#include "session.h"

static const cli_option run_options[] = {
    {"output-dir", "DIR", NULL, "write DIR/out_0.npy, out_1.npy ... in the model's order", NULL,
     'o'},
    {"check", NULL, NULL,
     "compare every output with the interpreter, which computes in f64\n"
     "one element at a time (slow for large models)",
     NULL, 'c'},
    {"json", NULL, NULL, "print one JSON object instead of text", NULL, 0},
    {"compile-only", NULL, NULL,
     "stop after the kernels are built; with --target no device is needed", NULL, 0},
    {NULL, NULL, NULL, NULL, NULL, 0}};

/* ---- what came out ----- */

typedef struct array_facts {
  double min, max, mean;
  int64_t count, nans;
} array_facts;

static array_facts facts_of(const lw_tools_array *array) {
  array_facts f = {.min = INFINITY, .max = -INFINITY};
  size_t size = lw_dtype_size_bytes(array->dtype);
  f.count = (int64_t)(array->bytes / size);
  double sum = 0;
  for (int64_t i = 0; i < f.count; i++) {
    double x = lw_tools_array_get(array, i);
    f.nans += isnan(x) != 0;
    if (x < f.min) f.min = x;
    if (x > f.max) f.max = x;
    sum += x;
  }
  f.mean = f.count > 0 ? sum / (double)f.count : NAN;
  return f;
}

static int write_outputs(const cli_args *args, cli_session *s) {
  const char *dir = cli_text(args, "output-dir", NULL);
  if (dir == NULL) return 0;
  if (mkdir(dir, 0777) != 0 && errno != EEXIST) {
    return cli_fail(LW_STATUS_IO, "cannot make the folder '%s': %s", dir, strerror(errno));
  }
  for (size_t i = 0; i < s->output_count; i++) {
    char *path = cli_format("%s/out_%zu.npy", dir, i);
    lw_tools_reason reason;
    lw_status status = lw_tools_npy_write(path, &s->outputs[i], &reason);
    free(path);
    if (status != LW_OK) return cli_fail(status, "%s", reason.text);
  }
  return 0;
}

static void print_output_row(cli_table *table, const cli_session *s, size_t i) {
  const lw_tensor_info *info = lw_model_output(s->model, i);
  array_facts f = facts_of(&s->outputs[i]);
  cli_table_cell(table, "%zu", i);
  cli_table_cell(table, "%s", info->name);
  cli_table_cell(table, "%s", cli_type_text(info->dtype, info->rank, s->outputs[i].dims));
  cli_table_cell(table, f.count > 0 ? "%.6g" : "-", f.min);
  cli_table_cell(table, f.count > 0 ? "%.6g" : "-", f.mean);
  cli_table_cell(table, f.count > 0 ? "%.6g" : "-", f.max);
  if (f.nans > 0) {
    cli_table_cell(table, "%lld NaN", (long long)f.nans);
  } else {
    cli_table_cell(table, "%s", "");
  }
}

static void print_outputs(const cli_session *s) {
  static const char *const heads[] = {">output", "<name", "<type", ">min", ">mean", ">max", "<"};
  cli_table *table = cli_table_create(CLI_COUNT(heads), heads);
  for (size_t i = 0; i < s->output_count; i++) print_output_row(table, s, i);
  cli_table_print(table, stdout, "");
  cli_table_destroy(table);
}

static void print_head(const cli_session *s) {
  lw_stats stats;
  lw_tools_model_stats(s->model, &stats);
  printf("%s on %s: %llu kernel%s, ", s->path, lw_model_device(s->model),
         (unsigned long long)stats.kernels, stats.kernels == 1 ? "" : "s");
  cli_print_origin(s);
  if (s->random) {
    printf("inputs: random, seed %llu (--seed %llu gives the same)\n", (unsigned long long)s->seed,
           (unsigned long long)s->seed);
  }
}

static json_t *outputs_json(const cli_args *args, const cli_session *s) {
  json_t *array = json_array();
  const char *dir = cli_text(args, "output-dir", NULL);
  for (size_t i = 0; i < s->output_count; i++) {
    const lw_tensor_info *info = lw_model_output(s->model, i);
    array_facts f = facts_of(&s->outputs[i]);
    json_t *o =
        json_pack("{s:o, s:s, s:o, s:I}", "name", cli_json_text(info->name), "type",
                  lw_dtype_name(info->dtype), "shape",
                  cli_json_dims(info->rank, s->outputs[i].dims), "nans", (json_int_t)f.nans);
    json_object_set_new(o, "min", cli_json_real(f.min));
    json_object_set_new(o, "mean", cli_json_real(f.mean));
    json_object_set_new(o, "max", cli_json_real(f.max));
    char *path = dir != NULL ? cli_format("%s/out_%zu.npy", dir, i) : NULL;
    json_object_set_new(o, "file", path != NULL ? json_string(path) : json_null());
    free(path);
    json_array_append_new(array, o);
  }
  return array;
}

/* ---- the check ----- */

typedef struct check_verdict {
  const char *word, *style;
} check_verdict;

static check_verdict verdict_of(const lw_tools_difference *d) {
  if (d->bad > 0) return (check_verdict){"WRONG", "red"};
  bool nothing_told = d->count > 0 && d->ambiguous == d->count;
  return nothing_told ? (check_verdict){"cannot tell", "bold"} : (check_verdict){"ok", "green"};
}

/* The worst element, when one could be compared. */
static void worst_cells(cli_table *table, const lw_tools_difference *d) {
  if (d->worst_index < 0) {
    for (int i = 0; i < 6; i++) cli_table_cell(table, "-");
    return;
  }
  bool finite = isfinite(d->worst_got) && isfinite(d->worst_want);
  cli_table_cell(table, finite ? "%.3g" : "-", d->max_abs_error);
  cli_table_cell(table, "%.3g", d->worst_ratio);
  cli_table_cell(table, "%.7g", d->worst_got);
  cli_table_cell(table, "%.7g", d->worst_want);
  cli_table_cell(table, "%.3g", d->worst_allowed);
  cli_table_cell(table, "%lld", (long long)d->worst_index);
}

static void print_check(const cli_session *s, const lw_tools_difference *d) {
  static const char *const heads[] = {"<check", ">max error", ">error/bound", ">got",       ">want",
                                      ">bound", ">at",        ">outside",     ">ambiguous", "<"};
  cli_table *table = cli_table_create(CLI_COUNT(heads), heads);
  for (size_t i = 0; i < s->output_count; i++) {
    check_verdict verdict = verdict_of(&d[i]);
    cli_table_cell(table, "%s", lw_model_output(s->model, i)->name);
    worst_cells(table, &d[i]);
    cli_table_cell(table, "%lld of %lld", (long long)d[i].bad, (long long)d[i].count);
    cli_table_cell(table, d[i].ambiguous > 0 ? "%lld" : "-", (long long)d[i].ambiguous);
    cli_table_cell(table, "%s%s%s", cli_style(stdout, verdict.style), verdict.word,
                   cli_style(stdout, ""));
  }
  cli_table_print(table, stdout, "");
  cli_table_destroy(table);
}

static bool has_integer_input(const cli_session *s) {
  for (size_t i = 0; i < s->input_count; i++) {
    lw_dtype dtype = lw_model_input(s->model, i)->dtype;
    if (dtype >= LW_DTYPE_I8 && dtype <= LW_DTYPE_U64) return true;
  }
  return false;
}

/* The model was found valid when it was compiled: what is invalid now came with the inputs. */
static int check_failed(const cli_session *s, lw_status status, const char *reason) {
  if (status != LW_STATUS_MODEL_INVALID || !has_integer_input(s)) {
    return cli_fail(status, "check: %s", reason);
  }
  return cli_fail(LW_STATUS_USAGE,
                  "check: %s: the inputs hold it. Integers that index a table must stay inside; "
                  "for random ones --input-range [NAME=]LO:HI says LO <= x < HI",
                  reason);
}

static int check_outputs(cli_session *s, bool quiet, json_t *report) {
  lw_tools_difference *d = cli_alloc(s->output_count, sizeof *d);
  lw_tools_reason reason;
  cli_progress("interpreting %s", s->path);
  lw_status status = lw_tools_model_verify(s->model, s->inputs, s->outputs, d, &reason);
  cli_progress("%s", "");
  bool compared = status == LW_OK || status == LW_STATUS_CHECK_FAILED;
  if (compared && !quiet) print_check(s, d);
  json_t *array = json_array();
  for (size_t i = 0; compared && i < s->output_count; i++) {
    json_array_append_new(array, cli_json_difference(&d[i]));
  }
  json_object_set_new(report, "check", array);
  free(d);
  return status == LW_OK ? 0 : check_failed(s, status, reason.text);
}

/* ---- the command ----- */

static json_t *head_json(const cli_session *s) {
  lw_stats stats;
  lw_tools_model_stats(s->model, &stats);
  json_t *root = json_pack(
      "{s:s, s:s, s:s, s:s, s:s, s:b, s:o}", "schema", "lawson-run-1", "model", s->path, "device",
      lw_model_device(s->model), "target", lw_tools_model_target(s->model), "origin",
      lw_tools_model_origin(s->model), "random", s->random, "stats", cli_json_stats(&stats));
  if (s->random) json_object_set_new(root, "seed", json_integer((json_int_t)s->seed));
  return root;
}

static int run_once(const cli_args *args, cli_session *s, bool quiet, json_t *report) {
  int code = cli_session_bind(s);
  if (code != 0) return code;
  lw_status status = lw_context_run(s->context);
  if (status != LW_OK) return cli_fail(status, "%s", lw_context_error(s->context));
  code = cli_session_take_states(s);
  if (code != 0) return code;
  lw_stats stats;
  lw_context_stats(s->context, &stats);
  if (!quiet) {
    print_head(s);
    printf("time: %s on the device\n", cli_us_text(stats.last_device_us));
  }
  json_object_set_new(report, "device_us", cli_json_real(stats.last_device_us));
  json_object_set_new(report, "outputs", outputs_json(args, s));
  if (!quiet) print_outputs(s);
  code = write_outputs(args, s);
  if (code == 0 && cli_has(args, "check")) code = check_outputs(s, quiet, report);
  return code;
}

static int run_session(const cli_args *args, const char *path, cli_session *s) {
  bool quiet = cli_has(args, "json");
  int code = cli_session_open(args, path, s);
  if (code == 0) code = cli_session_load(args, s);
  if (code != 0) return code;
  bool only = cli_has(args, "compile-only");
  if (!only) code = cli_session_fill(args, s);
  if (code != 0) return code;
  json_t *report = head_json(s);
  if (only && !quiet) print_head(s);
  if (!only) code = run_once(args, s, quiet, report);
  json_object_set_new(report, "exit_code", json_integer(code));
  if (!quiet) {
    json_decref(report);
  } else if (!cli_json_write(report, "-")) {
    code = LW_STATUS_USAGE;
  }
  return code;
}

static int run(const cli_args *args) {
  if (cli_has(args, "check") && strcmp(cli_text(args, "device", ""), "null") == 0) {
    return cli_fail(LW_STATUS_USAGE, "the null device computes nothing: there is nothing to check");
  }
  cli_session session;
  int code = run_session(args, args->operands[0], &session);
  cli_session_close(&session);
  return code;
}

const cli_command cli_command_run = {
    .name = "run",
    .operands = "MODEL",
    .summary = "run a model once, write its outputs, compare them with the interpreter",
    .about =
        "Compiles MODEL (an ONNX file; a plan file of 'lawson compile' is compiled already),\n"
        "runs it on the given inputs or on random ones, and says what came out. With --check\n"
        "every output must lie inside the interpreter's error bound, which is what rounding of\n"
        "the declared types explains; the exit code is 1 otherwise.",
    .examples =
        "  lawson run net.onnx                                  random inputs\n"
        "  lawson run net.onnx --check --device cpu             and compare with the interpreter\n"
        "  lawson run net.onnx -i x.npy -i mask.npy -o results  inputs in order, outputs to files\n"
        "  lawson run net.onnx --input tokens=t.npy --dim batch=2\n"
        "  lawson run net.onnx --compile-only --target cuda:sm_90a\n",
    .tables = {run_options, cli_input_options, cli_compile_options},
    .operands_min = 1,
    .operands_max = 1,
    .run = run,
};

/* explain.c: lawson explain: what was fused, what was not, and why. The table is made of the JSON
 * that the library gives (docs/explain.md) and of nothing else. */
#include <stdlib.h>
#include <string.h>

#include "session.h"

static const cli_option explain_options[] = {
    {"json", NULL, NULL, "print the report as JSON (docs/explain.md)", NULL, 0},
    {"fused", NULL, NULL, "list the pairs that did fuse as well", NULL, 0},
    {"limit", "N", "40", "pairs to list, those that cost most first; 0: all", NULL, 0},
    {"plan", NULL, NULL, "print the plan: steps, dependences, buffers", NULL, 0},
    {"source", NULL, NULL, "print the generated kernels as one source file", NULL, 0},
    {"dump", "after:STEP", NULL,
     "print the state after a step: import, bind, passes,\n"
     "passes.NAME, fuse, lower, emit, sched; may be repeated",
     NULL, 0},
    {"run-device", NULL, NULL, "open the device as well (by default it only compiles)", NULL, 0},
    {NULL, NULL, NULL, NULL, NULL, 0}};

/* ---- reading the report ----- */

static const char *text_of(const json_t *object, const char *key) {
  const char *text = json_string_value(json_object_get(object, key));
  return text != NULL ? text : "";
}

static double number_of(const json_t *object, const char *key) {
  return json_number_value(json_object_get(object, key));
}

static bool flag_of(const json_t *object, const char *key) {
  return json_is_true(json_object_get(object, key));
}

/* "a, b, c (+4)"; free() it. */
static char *names_text(const json_t *array, size_t most) {
  char *text = cli_format("%s", "");
  size_t count = json_array_size(array);
  for (size_t i = 0; i < count && i < most; i++) {
    const char *name = json_string_value(json_array_get(array, i));
    char *more = cli_format("%s%s%s", text, i > 0 ? ", " : "", name != NULL ? name : "?");
    free(text);
    text = more;
  }
  if (count > most) {
    char *more = cli_format("%s (+%zu)", text, count - most);
    free(text);
    text = more;
  }
  return text;
}

/* ---- groups ----- */

static void print_groups(const json_t *groups) {
  static const char *const heads[] = {">group", "<class",     ">launches",
                                      ">bytes", ">predicted", "<nodes"};
  cli_table *table = cli_table_create(CLI_COUNT(heads), heads);
  for (size_t i = 0; i < json_array_size(groups); i++) {
    const json_t *g = json_array_get(groups, i);
    char *nodes = names_text(json_object_get(g, "nodes"), 6);
    cli_table_cell(table, "%.0f", number_of(g, "group"));
    cli_table_cell(table, "%s", text_of(g, "class"));
    if (number_of(g, "launch_of") == number_of(g, "group"))
      cli_table_cell(table, "%.0f", number_of(g, "launches"));
    else
      cli_table_cell(table, "in %.0f's", number_of(g, "launch_of"));
    cli_table_cell(table, "%s", cli_bytes_text(number_of(g, "bytes")));
    cli_table_cell(table, "%s", cli_us_text(number_of(g, "predicted_us")));
    cli_table_cell(table, "%s", nodes);
    free(nodes);
  }
  cli_table_print(table, stdout, "");
  cli_table_destroy(table);
}

static void print_totals(const json_t *root) {
  const json_t *t = json_object_get(root, "totals");
  printf(
      "total: %.0f groups, %.0f launches, %s of global memory traffic, predicted %s; arena %s, "
      "weights %s\n",
      number_of(t, "groups"), number_of(t, "launches"), cli_bytes_text(number_of(t, "bytes")),
      cli_us_text(number_of(t, "predicted_us")), cli_bytes_text(number_of(t, "arena_bytes")),
      cli_bytes_text(number_of(t, "weight_bytes")));
}

/* "2 lanes, 3 waits, predicted 40 us: they save 31 % ..." */
static void print_schedule(const json_t *schedule) {
  double lanes = number_of(schedule, "lanes"), live = number_of(schedule, "live_bytes");
  if (lanes == 0) {
    printf("schedule: no lanes");
  } else {
    printf("schedule: %.0f lane%s", lanes, lanes == 1 ? "" : "s");
  }
  if (lanes > 1) printf(", %.0f waits between them", number_of(schedule, "waits"));
  printf(", predicted %s (%s)", cli_us_text(number_of(schedule, "predicted_us")),
         text_of(schedule, "why"));
  printf("; of the arena at most %s are live at once\n", cli_bytes_text(live));
}

/* ---- decisions ----- */

/* What keeping the pair apart costs, for sorting; illegal pairs come last. */
static double decision_weight(const json_t *d) {
  return number_of(d, "us_together") > 0 ? number_of(d, "us_apart") : -1;
}

static int compare_decisions(const void *a, const void *b) {
  double x = decision_weight(*(json_t *const *)a), y = decision_weight(*(json_t *const *)b);
  return (x < y) - (x > y);
}

static void decision_cells(cli_table *table, const json_t *d) {
  double together = number_of(d, "us_together");
  cli_table_cell(table, "%s", text_of(d, "id"));
  cli_table_cell(table, "%s.%s -> %s.%s", text_of(d, "producer"), text_of(d, "producer_op"),
                 text_of(d, "consumer"), text_of(d, "consumer_op"));
  if (together > 0) {
    cli_table_cell(table, "%s", cli_us_text(number_of(d, "us_apart")));
    cli_table_cell(table, "%s", cli_us_text(together));
    cli_table_cell(table, "%s", cli_bytes_text(number_of(d, "bytes_apart")));
    cli_table_cell(table, "%s", cli_bytes_text(number_of(d, "bytes_together")));
  } else {
    for (int i = 0; i < 4; i++) cli_table_cell(table, "-");
  }
  cli_table_cell(table, "%s%s%s", flag_of(d, "fused") ? "fused: " : "",
                 flag_of(d, "forced") ? "by request: " : "", text_of(d, "reason"));
}

static void print_decisions(const json_t *decisions, bool fused_too, size_t limit) {
  static const char *const heads[] = {"<id",          "<pair",           ">apart", ">together",
                                      ">bytes apart", ">bytes together", "<why"};
  size_t total = json_array_size(decisions), count = 0;
  json_t **list = cli_alloc(total, sizeof *list);
  for (size_t i = 0; i < total; i++) {
    json_t *d = json_array_get(decisions, i);
    if (fused_too || !flag_of(d, "fused")) list[count++] = d;
  }
  qsort(list, count, sizeof *list, compare_decisions);
  size_t shown = limit > 0 && limit < count ? limit : count;
  cli_table *table = cli_table_create(CLI_COUNT(heads), heads);
  for (size_t i = 0; i < shown; i++) decision_cells(table, list[i]);
  printf("\n%s\n", fused_too    ? "pairs that met"
                   : count == 0 ? "every pair that met was fused"
                                : "pairs that were not fused");
  if (shown > 0) cli_table_print(table, stdout, "");
  if (shown < count) printf("... and %zu more (--limit 0 lists all)\n", count - shown);
  cli_table_destroy(table);
  free(list);
}

static void print_notes(const json_t *notes) {
  if (json_array_size(notes) > 0) printf("\nnotes\n");
  for (size_t i = 0; i < json_array_size(notes); i++) {
    const json_t *note = json_array_get(notes, i);
    printf("  %s: %s\n", text_of(note, "where"), text_of(note, "text"));
  }
}

static void print_tables(const cli_args *args, const cli_session *s, const json_t *root,
                         size_t limit) {
  printf("%s%s%s for %s, profile %s%s\n\n", cli_style(stdout, "bold"), s->path,
         cli_style(stdout, ""), lw_tools_model_target(s->model), text_of(root, "profile"),
         flag_of(root, "fuse") ? "" : ", fusion off");
  print_groups(json_object_get(root, "groups"));
  print_totals(root);
  print_schedule(json_object_get(root, "schedule"));
  print_decisions(json_object_get(root, "decisions"), cli_has(args, "fused"), limit);
  print_notes(json_object_get(root, "notes"));
}

/* ---- states, plan, sources ----- */

static int print_dumps(const cli_args *args, cli_session *s) {
  const char *list;
  for (size_t n = 0; (list = cli_nth(args, "dump", n)) != NULL; n++) {
    for (const char *at = list; *at != '\0'; at += strcspn(at, ","), at += *at == ',') {
      char *step = cli_format("%.*s", (int)strcspn(at, ",") - 6, at + 6); /* "after:" */
      const char *text;
      lw_status status = lw_model_dump(s->model, step, &text);
      if (status == LW_OK) printf("# after %s\n%s\n", step, text);
      free(step);
      if (status != LW_OK) return cli_fail(status, "there is no state '%s'", at);
    }
  }
  return 0;
}

static int print_plan(cli_session *s) {
  const char *text;
  lw_status status = lw_tools_model_plan(s->model, &text);
  if (status != LW_OK) return cli_fail(status, "there is no plan");
  printf("# plan\n%s\n", text);
  return 0;
}

/* All kernels as one unit that a compiler takes, behind a line of comment on each. */
static int print_sources(cli_session *s) {
  const char *text;
  lw_status status = lw_model_dump(s->model, "emit", &text);
  if (status != LW_OK) return cli_fail(status, "there is no source");
  for (size_t i = 0; i < lw_tools_model_kernel_count(s->model); i++) {
    lw_tools_kernel k;
    lw_tools_model_kernel(s->model, i, &k);
    printf("/* %s: %u threads, %u registers, %u bytes spilled, %u bytes of shared memory */\n",
           k.name, k.block_threads, k.registers, k.spill_bytes, k.shared_bytes);
  }
  printf("%s\n", text);
  return 0;
}

/* ---- the command ----- */

static int print_report(const cli_args *args, cli_session *s, size_t limit) {
  const char *json;
  lw_status status = lw_model_explain(s->model, &json);
  if (status != LW_OK) return cli_fail(status, "there is no report");
  if (cli_has(args, "json")) {
    printf("%s\n", json);
    return 0;
  }
  json_error_t error;
  json_t *root = json_loads(json, 0, &error);
  if (root == NULL) {
    return cli_fail(LW_STATUS_INTERNAL, "the report is no JSON (line %d: %s)", error.line,
                    error.text);
  }
  print_tables(args, s, root, limit);
  json_decref(root);
  return 0;
}

static int explain(const cli_args *args, cli_session *s) {
  long long limit;
  if (!cli_number(args, "limit", 40, 0, 1000000, &limit)) return LW_STATUS_USAGE;
  if (cli_has(args, "json") && cli_has(args, "source")) {
    return cli_fail(LW_STATUS_USAGE, "--json prints the report, --source the code: leave one out");
  }
  bool source = cli_has(args, "source"), plan = cli_has(args, "plan");
  int code = cli_refuse_plan(args->operands[0], "explain");
  if (code == 0) code = cli_session_open(args, args->operands[0], s);
  if (code == 0 && !cli_has(args, "run-device")) code = cli_session_set(s, "compile_only", "on");
  if (code == 0 && source) code = cli_session_set(s, "dump", "after:emit");
  if (code == 0) code = cli_session_load(args, s);
  if (code != 0) return code;
  bool other = source || plan || cli_has(args, "dump");
  if (!other || cli_has(args, "json")) code = print_report(args, s, (size_t)limit);
  if (code == 0) code = print_dumps(args, s);
  if (code == 0 && plan) code = print_plan(s);
  if (code == 0 && source) code = print_sources(s);
  return code;
}

static int run(const cli_args *args) {
  cli_session session = {0};
  int code = explain(args, &session);
  cli_session_close(&session);
  return code;
}

const cli_command cli_command_explain = {
    .name = "explain",
    .operands = "MODEL",
    .summary = "what was fused, what was not, and why, with the numbers",
    .about =
        "Compiles MODEL and prints its groups with predicted time and memory traffic, and\n"
        "for every neighbouring pair that did not fuse the reason and both sides of the\n"
        "criterion. The id of a pair goes into --force and --forbid. With --target no\n"
        "device is needed.",
    .examples =
        "  lawson explain net.onnx --target cuda:sm_90a\n"
        "  lawson explain net.onnx --force f1234567890ab    what if this pair were fused\n"
        "  lawson explain net.onnx --dump after:passes      the graph after the passes\n"
        "  lawson explain net.onnx --source > kernels.cu    the generated code\n",
    .tables = {explain_options, cli_input_options, cli_compile_options},
    .operands_min = 1,
    .operands_max = 1,
    .run = run,
};

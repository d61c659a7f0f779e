/* inspect.c: lawson inspect: what is in a model, and exactly what lawson cannot do of it. Needs no
 * device and no compiler. */
#include <stdlib.h>
#include <string.h>

#include "session.h"

static const cli_option inspect_options[] = {
    {"json", NULL, NULL, "print one JSON object instead of text", NULL, 0},
    {"dim", "NAME=N", NULL, "extent of a symbolic dimension; may be repeated", NULL, 0},
    {"shape", "NAME=2x3x64x64", NULL, "shape of an input; may be repeated", "shapes", 0},
    {"value", "NAME=2,3,-1", NULL,
     "makes an input a constant: one that decides shapes or branches; may be repeated", NULL, 0},
    {NULL, NULL, NULL, NULL, NULL, 0}};

/* ---- text ----- */

static void print_ports(const char *what, const lw_tools_port *ports, size_t count) {
  static const char *const heads[] = {"<", "<name", "<type", "<shape"};
  cli_table *table = cli_table_create(CLI_COUNT(heads), heads);
  for (size_t i = 0; i < count; i++) {
    cli_table_cell(table, "%zu", i);
    cli_table_cell(table, "%s", ports[i].name);
    cli_table_cell(table, "%s", ports[i].type);
    cli_table_cell(table, "%s", ports[i].shape);
  }
  printf("\n%s\n", what);
  cli_table_print(table, stdout, "  ");
  cli_table_destroy(table);
}

static bool is_default_domain(const char *domain) {
  return domain[0] == '\0' || strcmp(domain, "ai.onnx") == 0;
}

static void print_operators(const lw_tools_summary *s) {
  printf("\noperators\n ");
  size_t column = 2;
  for (uint32_t i = 0; i < s->operator_count; i++) {
    const lw_tools_operator *o = &s->operators[i];
    bool plain = is_default_domain(o->domain);
    char *text =
        cli_format(" %s%s%s x%u", plain ? "" : o->domain, plain ? "" : ".", o->name, o->count);
    if (column + strlen(text) > 78) {
      printf("\n ");
      column = 2;
    }
    column += strlen(text);
    fputs(text, stdout);
    free(text);
  }
  printf("\n");
}

static void print_unsupported(const lw_tools_summary *s) {
  static const char *const heads[] = {"<operator", "<opset", ">nodes", "<first node", "<reason"};
  if (s->unsupported_count == 0) return;
  cli_table *table = cli_table_create(CLI_COUNT(heads), heads);
  for (uint32_t i = 0; i < s->unsupported_count; i++) {
    const lw_tools_unsupported *u = &s->unsupported[i];
    cli_table_cell(table, "%s", u->name);
    cli_table_cell(table, "%s %lld", is_default_domain(u->domain) ? "ai.onnx" : u->domain,
                   (long long)u->opset);
    cli_table_cell(table, "%u", u->count);
    cli_table_cell(table, "%s", u->node);
    cli_table_cell(table, "%s", u->reason);
  }
  printf("\nnot supported\n");
  cli_table_print(table, stdout, "  ");
  cli_table_destroy(table);
}

static void print_verdict(const lw_tools_summary *s) {
  if (s->status == LW_OK) {
    printf("\nlawson can compile this model.\n");
  } else if (s->status == LW_STATUS_USAGE) {
    printf("\nto compile it: %s\n", s->problem);
  } else if (s->unsupported_count > 0) {
    printf("\nlawson cannot compile this model: what is listed above is not supported.\n");
  } /* else: a message of its own */
}

/* Nothing could be made of the file: there is nothing to list. */
static bool is_unreadable(const lw_tools_summary *s) {
  return s->status != LW_OK && s->node_count == 0 && s->input_count == 0 && s->output_count == 0;
}

static void print_summary(const char *path, const lw_tools_summary *s) {
  printf("%s%s%s: %u nodes, %u initializers (%s)", cli_style(stdout, "bold"), path,
         cli_style(stdout, ""), s->node_count, s->initializer_count,
         cli_bytes_text((double)s->initializer_bytes));
  if (s->function_count > 0) printf(", %u functions", s->function_count);
  printf("\nmade by %s%s%s, IR version %lld, opsets:", s->producer[0] ? s->producer : "(unknown)",
         s->producer_version[0] ? " " : "", s->producer_version, (long long)s->ir_version);
  for (uint32_t i = 0; i < s->opset_count; i++) {
    const char *domain = s->opsets[i].domain;
    printf(" %s %lld", is_default_domain(domain) ? "ai.onnx" : domain,
           (long long)s->opsets[i].version);
  }
  printf("\n");
  print_ports("inputs", s->inputs, s->input_count);
  print_ports("outputs", s->outputs, s->output_count);
  if (s->operator_count > 0) print_operators(s);
  print_unsupported(s);
  print_verdict(s);
}

/* ---- JSON ----- */

static json_t *ports_json(const lw_tools_port *ports, size_t count) {
  json_t *array = json_array();
  for (size_t i = 0; i < count; i++) {
    json_array_append_new(
        array, json_pack("{s:o, s:o, s:o}", "name", cli_json_text(ports[i].name), "type",
                         cli_json_text(ports[i].type), "shape", cli_json_text(ports[i].shape)));
  }
  return array;
}

static json_t *operators_json(const lw_tools_summary *s) {
  json_t *array = json_array();
  for (uint32_t i = 0; i < s->operator_count; i++) {
    const lw_tools_operator *o = &s->operators[i];
    json_array_append_new(array,
                          json_pack("{s:o, s:o, s:I}", "domain", cli_json_text(o->domain), "name",
                                    cli_json_text(o->name), "count", (json_int_t)o->count));
  }
  return array;
}

static json_t *unsupported_json(const lw_tools_summary *s) {
  json_t *array = json_array();
  for (uint32_t i = 0; i < s->unsupported_count; i++) {
    const lw_tools_unsupported *u = &s->unsupported[i];
    json_array_append_new(
        array, json_pack("{s:o, s:o, s:I, s:o, s:o, s:I}", "name", cli_json_text(u->name), "domain",
                         cli_json_text(u->domain), "opset", (json_int_t)u->opset, "node",
                         cli_json_text(u->node), "reason", cli_json_text(u->reason), "count",
                         (json_int_t)u->count));
  }
  return array;
}

static json_t *summary_json(const char *path, const lw_tools_summary *s) {
  json_t *root =
      json_pack("{s:s, s:o, s:o, s:o, s:I, s:I, s:I, s:I, s:I}", "schema", "lawson-inspect-1",
                "model", cli_json_text(path), "producer", cli_json_text(s->producer), "graph",
                cli_json_text(s->graph_name), "ir_version", (json_int_t)s->ir_version, "nodes",
                (json_int_t)s->node_count, "initializers", (json_int_t)s->initializer_count,
                "initializer_bytes", (json_int_t)s->initializer_bytes, "functions",
                (json_int_t)s->function_count);
  json_t *opsets = json_array();
  for (uint32_t i = 0; i < s->opset_count; i++) {
    json_array_append_new(
        opsets, json_pack("{s:o, s:I}", "domain", cli_json_text(s->opsets[i].domain), "version",
                          (json_int_t)s->opsets[i].version));
  }
  json_object_set_new(root, "opsets", opsets);
  json_object_set_new(root, "inputs", ports_json(s->inputs, s->input_count));
  json_object_set_new(root, "outputs", ports_json(s->outputs, s->output_count));
  json_object_set_new(root, "operators", operators_json(s));
  json_object_set_new(root, "unsupported", unsupported_json(s));
  json_object_set_new(root, "status", json_string(lw_status_name(s->status)));
  json_object_set_new(root, "problem", cli_json_text(s->problem));
  return root;
}

/* ---- the command ----- */

static int inspect_file(const cli_args *args, const lw_options *options) {
  const char *path = args->operands[0];
  lw_tools_summary *summary;
  lw_tools_reason reason;
  lw_status status = lw_tools_inspect(path, options, &summary, &reason);
  if (status != LW_OK) return cli_fail(status, "%s", reason.text);
  bool written = true;
  if (cli_has(args, "json")) {
    written = cli_json_write(summary_json(path, summary), "-");
  } else if (!is_unreadable(summary)) {
    print_summary(path, summary);
  }
  /* A dimension that is still open is no fault of the model. */
  status = summary->status == LW_STATUS_USAGE ? LW_OK : summary->status;
  int code = cli_exit_code(status);
  if (status != LW_OK && summary->unsupported_count == 0) {
    code = cli_fail(status, "%s: %s: %s", path, lw_status_name(status), summary->problem);
  }
  lw_tools_summary_destroy(summary);
  return written ? code : LW_STATUS_USAGE;
}

static int run(const cli_args *args) {
  lw_options *options;
  int code = cli_options_make(args, &options);
  if (code == 0) code = cli_refuse_plan(args->operands[0], "inspect");
  if (code == 0) code = inspect_file(args, options);
  lw_options_destroy(options);
  return code;
}

const cli_command cli_command_inspect = {
    .name = "inspect",
    .operands = "MODEL",
    .summary = "inputs, outputs, operators of a model, and what of it is not supported",
    .about =
        "Reads the structure of MODEL without its weights. Lists every operator that lawson\n"
        "cannot do, with the reason and the first node; the exit code is 4 then, 3 for a\n"
        "broken model.",
    .examples =
        "  lawson inspect net.onnx\n"
        "  lawson inspect --json net.onnx | jq .unsupported\n"
        "  lawson inspect --dim batch=8 net.onnx    shapes with the dimension bound\n",
    .tables = {inspect_options},
    .operands_min = 1,
    .operands_max = 1,
    .run = run,
};

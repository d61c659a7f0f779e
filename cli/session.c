/* session.c: from arguments to a bound context. The environment is read here and nowhere below. */
#include "session.h"

#include <stdlib.h>
#include <string.h>
#include <sys/random.h>
#include <unistd.h>

const cli_option cli_compile_options[] = {
    {"device", "D", "auto",
     "where to run: auto, cpu, cuda, cuda:N, or null (counts launches, computes nothing)", NULL,
     'd'},
    {"dim", "NAME=N", NULL,
     "extent of a symbolic dimension; may be repeated. Inputs that are "
     "given bind their dimensions by themselves. NAME=1,2,8:64 or NAME=auto: sizes it is compiled "
     "for (8:64: 8 and its doubles), of which a run takes the smallest that is large enough",
     NULL, 0},
    {"state", "IN=OUT", NULL,
     "the output of a run is this input of the next (a cache of keys, statistics); may be "
     "repeated. auto: all pairs named past... and present...",
     NULL, 0},
    {"state-rows", "N", "chosen", "room of a state that grows, in rows", NULL, 0},
    {"max-shapes", "N", "16", "most shapes of open dimensions that stay compiled", NULL, 0},
    {"shape", "NAME=2x3x64x64", NULL, "shape of an input; may be repeated", "shapes", 0},
    {"value", "NAME=2,3,-1", NULL,
     "makes an input a constant: one that decides shapes or branches; may be repeated", NULL, 0},
    {"no-fuse", NULL, NULL, "every node gets a kernel of its own (all other passes stay on)", NULL,
     0},
    {"force", "ID", NULL, "fuse this pair though it does not pay; ids: lawson explain", NULL, 0},
    {"forbid", "ID", NULL, "never fuse this pair", NULL, 0},
    {"policy", "P", "opt-in", "resource limits of kernels: conservative, classic, opt-in", NULL, 0},
    {"threads", "N", "all cores", "threads of the CPU device", NULL, 't'},
    {"streams", "K", "0",
     "lanes of a run, 1 to 8; 0 chooses; dag: none, steps are ordered by their dependences alone",
     NULL, 0},
    {"graphs", "on|off", "on", "on a GPU a run is one CUDA graph; off: streams and events", NULL,
     0},
    {"early", "on|off", "off",
     "launch kernels of a graph while those before them still run (sm_90 on)", NULL, 0},
    {"target", "T", "the device", "compile for cpu, cuda:sm_80, cuda:sm_90a ...", NULL, 0},
    {"cache", "DIR", "$LAWSON_CACHE, else ~/.cache/lawson",
     "folder where kernels are kept; 'off' keeps none", NULL, 0},
    {"no-plans", NULL, NULL,
     "take no whole plan from the cache and keep none: kernels alone are kept", NULL, 0},
    {"cache-limit", "SIZE", "2G",
     "beyond this size the least recently used entries of the cache go: 500M, 10G", NULL, 0},
    {"cc", "CC", "cc on PATH",
     "C compiler for the CPU device, with arguments if need be; quotes hold blanks together", NULL,
     0},
    {NULL, NULL, NULL, NULL, NULL, 0}};

const cli_option cli_input_options[] = {
    {"input", "[NAME=]FILE.npy", NULL,
     "an input; without NAME they are taken in the model's order. "
     "bf16 and f8 travel as raw bits in uint16 and uint8",
     "loadInputs", 'i'},
    {"seed", "N", "a new one", "seed of the inputs that are not given", NULL, 's'},
    {"input-range", "[NAME=]LO:HI", "0:10",
     "integers that are not given: LO <= x < HI (floats are "
     "standard normal). Ids must stay inside the tables they index",
     NULL, 0},
    {NULL, NULL, NULL, NULL, NULL, 0}};

/* ---- options and environment ----- */

static int set_option(lw_options *options, const char *name, const char *value) {
  lw_status status = lw_options_set(options, name, value);
  if (status == LW_OK) return 0;
  return cli_fail(status, "%s", lw_options_error(options));
}

static const char *environment(const char *name) {
  const char *value = getenv(name);
  return value != NULL && value[0] != '\0' ? value : NULL;
}

static bool compiles(const cli_args *args) {
  for (size_t t = 0; t < CLI_COUNT(args->command->tables); t++) {
    if (args->command->tables[t] == cli_compile_options) return true;
  }
  return false;
}

/* Once: some commands make options several times. */
static void note_no_cache(const cli_args *args) {
  static bool said;
  if (said || !compiles(args)) return;
  said = true;
  fprintf(stderr,
          "lawson: note: kernels are not kept, since neither HOME nor XDG_CACHE_HOME nor "
          "LAWSON_CACHE is set; --cache DIR names a folder\n");
}

static char *cache_folder(const cli_args *args) {
  const char *given = cli_text(args, "cache", NULL);
  if (given == NULL) given = getenv("LAWSON_CACHE");
  if (given != NULL) return cli_format("%s", strcmp(given, "off") == 0 ? "" : given);
  if (environment("XDG_CACHE_HOME") != NULL) {
    return cli_format("%s/lawson", environment("XDG_CACHE_HOME"));
  }
  if (environment("HOME") != NULL) return cli_format("%s/.cache/lawson", environment("HOME"));
  note_no_cache(args);
  return cli_format("%s", "");
}

bool cli_keeps(const cli_args *args) {
  char *folder = cache_folder(args);
  bool keeps = folder[0] != '\0';
  free(folder);
  return keeps;
}

static int set_cache(const cli_args *args, lw_options *options) {
  char *folder = cache_folder(args);
  int code = set_option(options, "cache", folder);
  free(folder);
  return code;
}

static int set_environment(lw_options *options) {
  static const struct {
    const char *variable, *option;
  } rows[] = {{"CC", "cc"},
              {"LW_CC", "cc"},
              {"LAWSON_NVRTC", "nvrtc"},
              {"LAWSON_CUDA", "cuda"},
              {"LAWSON_CUPTI", "cupti"}};
  const char *path = getenv("PATH");
  int code = set_option(options, "path", path != NULL ? path : "");
  for (size_t i = 0; code == 0 && i < CLI_COUNT(rows); i++) {
    const char *value = environment(rows[i].variable);
    if (value != NULL) code = set_option(options, rows[i].option, value);
  }
  return code;
}

/* "NAME=N" given twice, with two meanings: the second would win silently. */
static int check_twice(const cli_args *args, const char *option) {
  const char *first, *second;
  for (size_t i = 0; (first = cli_nth(args, option, i)) != NULL; i++) {
    const char *equal = strrchr(first, '=');
    size_t name = equal == NULL ? strlen(first) : (size_t)(equal - first) + 1;
    for (size_t k = i + 1; (second = cli_nth(args, option, k)) != NULL; k++) {
      const char *other = strrchr(second, '=');
      if (other == NULL || (size_t)(other - second) + 1 != name) continue;
      if (strncmp(first, second, name) != 0 || strcmp(first, second) == 0) continue;
      return cli_fail(LW_STATUS_USAGE, "--%s %s and --%s %s contradict each other", option, first,
                      option, second);
    }
  }
  return 0;
}

static int set_given(const cli_args *args, lw_options *options) {
  static const char *const direct[] = {"device",  "dim",    "shape",   "value",  "force",
                                       "forbid",  "policy", "threads", "target", "cc",
                                       "streams", "graphs", "early",   "state"};
  int code = 0;
  for (size_t i = 0; i < args->value_count && code == 0; i++) {
    const cli_value *v = &args->values[i];
    for (size_t k = 0; k < CLI_COUNT(direct); k++) {
      if (strcmp(v->option->name, direct[k]) == 0) code = set_option(options, direct[k], v->text);
    }
    if (strcmp(v->option->name, "state-rows") == 0) {
      code = set_option(options, "state_rows", v->text);
    }
    if (strcmp(v->option->name, "max-shapes") == 0) {
      code = set_option(options, "max_shapes", v->text);
    }
    if (strcmp(v->option->name, "no-fuse") == 0) code = set_option(options, "fuse", "off");
    if (strcmp(v->option->name, "compile-only") == 0) {
      code = set_option(options, "compile_only", "on");
    }
    if (strcmp(v->option->name, "no-plans") == 0) code = set_option(options, "plans", "off");
    if (strcmp(v->option->name, "cache-limit") == 0) {
      code = set_option(options, "cache_limit", v->text);
    }
    if (strcmp(v->option->name, "dump") == 0) code = set_option(options, "dump", v->text);
  }
  return code;
}

int cli_options_make(const cli_args *args, lw_options **out_options) {
  lw_status status = lw_options_create(out_options);
  if (status != LW_OK) return cli_fail(status, "out of memory");
  int code = set_environment(*out_options);
  if (code == 0) code = set_cache(args, *out_options);
  if (code == 0) code = check_twice(args, "dim");
  if (code == 0) code = check_twice(args, "shape");
  if (code == 0) code = check_twice(args, "value");
  if (code == 0) code = set_given(args, *out_options);
  if (code == 0) return 0;
  lw_options_destroy(*out_options);
  *out_options = NULL;
  return code;
}

/* ---- dimensions ----- */

static bool is_open(const lw_tensor_info *info) {
  for (int d = 0; d < info->rank; d++) {
    if (info->dims[d] < 0) return true;
  }
  return false;
}

/* Whether shapes, and with them those of outputs, are decided when inputs are bound. */
static bool is_open_model(const cli_session *s) {
  for (size_t i = 0; i < s->input_count; i++) {
    if (is_open(lw_model_input(s->model, i))) return true;
  }
  return false;
}

/* The name or number of dimension |d| of input |index|, "batch" in "[batch, 3]"; *out_length 0:
 * there is none. */
static const char *dim_name(const cli_session *s, size_t index, int d, size_t *out_length) {
  const char *at = s->ports[index].shape;
  *out_length = 0;
  if (*at++ != '[') return at; /* unknown */
  for (; d > 0; d--) {
    at += strcspn(at, ",]");
    if (*at++ != ',') return at;
    at += strspn(at, " ");
  }
  *out_length = strcspn(at, ",]");
  return at;
}

/* What --dim says of the name: a number or the end of a ladder; NULL when nothing. */
static const char *dim_given(const cli_session *s, const char *name, size_t length) {
  const char *text, *found = NULL;
  for (size_t n = 0; (text = cli_nth(s->args, "dim", n)) != NULL; n++) {
    if (strncmp(text, name, length) == 0 && text[length] == '=') found = text + length + 1;
  }
  return found;
}

static bool is_ladder(const char *given) {
  return given != NULL && given[strspn(given, "0123456789")] != '\0';
}

/* Whether a run may bring any extent: then given inputs must not fix it. */
static bool in_ladder(const cli_session *s, size_t index) {
  for (int d = 0; d < s->inputs[index].rank; d++) {
    size_t length;
    const char *name = dim_name(s, index, d, &length);
    if (length > 0 && is_ladder(dim_given(s, name, length))) return true;
  }
  return false;
}

/* The last number in "1,2,8:64". */
static long long ladder_end(const char *given) {
  const char *last = given;
  for (const char *at = given; *at != '\0'; at++) {
    if (*at == ',' || *at == ':') last = at + 1;
  }
  return *last >= '0' && *last <= '9' ? strtoll(last, NULL, 10) : -1;
}

/* The extent for an input that is not given: that of a given one with the same name, or the end of
 * its ladder; -1: nothing says. */
static long long dim_extent(const cli_session *s, size_t index, int d) {
  size_t length, other;
  const char *name = dim_name(s, index, d, &length);
  for (size_t i = 0; i < s->input_count; i++) {
    for (int k = 0; s->given[i] && k < s->inputs[i].rank; k++) {
      const char *there = dim_name(s, i, k, &other);
      if (length > 0 && other == length && strncmp(there, name, length) == 0) {
        return (long long)s->inputs[i].dims[k];
      }
    }
  }
  const char *given = length > 0 ? dim_given(s, name, length) : NULL;
  return given != NULL ? ladder_end(given) : -1;
}

/* ---- inputs from files ----- */

/* The index of the input that "NAME=..." names, or -1; *out_rest is what follows the '='. */
static int input_named(const cli_session *s, const char *text, const char **out_rest) {
  for (size_t i = 0; i < s->input_count; i++) {
    size_t n = strlen(s->ports[i].name);
    if (strncmp(text, s->ports[i].name, n) != 0 || text[n] != '=') continue;
    *out_rest = text + n + 1;
    return (int)i;
  }
  return -1;
}

static int next_free_input(const cli_session *s) {
  for (size_t i = 0; i < s->input_count; i++) {
    if (!s->given[i]) return (int)i;
  }
  return -1;
}

static int no_such_input(const cli_session *s, const char *text) {
  const char *equal = strchr(text, '=');
  if (equal == NULL || access(text, F_OK) == 0) {
    return cli_fail(LW_STATUS_USAGE, "--input %s: the model has only %zu inputs", text,
                    s->input_count);
  }
  char *names = cli_format("%s", "");
  for (size_t i = 0; i < s->input_count; i++) {
    char *more = cli_format("%s%s%s", names, i > 0 ? ", " : "", s->ports[i].name);
    free(names);
    names = more;
  }
  int code = cli_fail(LW_STATUS_USAGE, "the model has no input '%.*s'; it has %s",
                      (int)(equal - text), text, names);
  free(names);
  return code;
}

/* Binds what is symbolic in the shape of input |index|. */
static int shape_from_input(cli_session *s, size_t index) {
  const lw_tools_array *a = &s->inputs[index];
  char *text = cli_format("%s=", s->ports[index].name);
  for (int d = 0; d < a->rank; d++) {
    char *more = cli_format("%s%s%lld", text, d > 0 ? "x" : "", (long long)a->dims[d]);
    free(text);
    text = more;
  }
  int code = set_option(s->options, "shape", text);
  free(text);
  return code;
}

/* Whether the shape of input |index| is the model's, "[batch, 3]", where that is a number. */
static bool shape_fits(const cli_session *s, size_t index) {
  const lw_tools_array *a = &s->inputs[index];
  const char *at = s->ports[index].shape;
  if (*at != '[') return true; /* unknown */
  for (int d = 0; d < a->rank; d++) {
    at += strspn(at, "[, ");
    size_t length = strcspn(at, ",]");
    if (length == 0) return false; /* fewer dimensions */
    bool number = strspn(at, "0123456789") == length;
    if (number && strtoll(at, NULL, 10) != (long long)a->dims[d]) return false;
    at += length;
  }
  return at[strspn(at, "[, ")] == ']';
}

/* Whether something in the shape of input |index| is still to be bound. */
static bool shape_is_open(const cli_session *s, size_t index) {
  const char *shape = s->ports[index].shape;
  return shape[strspn(shape, "[]0123456789, ")] != '\0';
}

static int wrong_shape(const cli_session *s, size_t index, const char *file) {
  const lw_tools_array *a = &s->inputs[index];
  return cli_fail(LW_STATUS_USAGE, "--input %s: its shape is %s, but input '%s' of the model is %s",
                  file, cli_shape_text(a->rank, a->dims), s->ports[index].name,
                  s->ports[index].shape);
}

static int read_input(cli_session *s, const char *text) {
  const char *file = text;
  int index = input_named(s, text, &file);
  if (index < 0) {
    const char *equal = strrchr(text, '=');
    bool names_another = equal != NULL && access(text, F_OK) != 0;
    index = names_another ? -1 : next_free_input(s);
    file = text;
  }
  if (index < 0) return no_such_input(s, text);
  if (s->given[index]) {
    return cli_fail(LW_STATUS_USAGE, "input '%s' is given twice", s->ports[index].name);
  }
  lw_tools_reason reason;
  lw_status status = lw_tools_npy_read(file, &s->inputs[index], &reason);
  if (status != LW_OK) return cli_fail(status, "%s", reason.text);
  s->given[index] = true;
  for (int t = LW_DTYPE_BF16; t < LW_DTYPE_COUNT; t++) {
    if (strcmp(s->ports[index].type, lw_dtype_name((lw_dtype)t)) == 0) {
      cli_array_retype(&s->inputs[index], (lw_dtype)t);
    }
  }
  if (!shape_fits(s, (size_t)index)) return wrong_shape(s, (size_t)index, file);
  if (in_ladder(s, (size_t)index) || !shape_is_open(s, (size_t)index)) return 0;
  return shape_from_input(s, (size_t)index);
}

static int read_inputs(const cli_args *args, cli_session *s) {
  const char *text;
  int code = 0;
  for (size_t n = 0; code == 0 && (text = cli_nth(args, "input", n)) != NULL; n++) {
    code = read_input(s, text);
  }
  return code;
}

/* Room for what a model with so many inputs and outputs needs. */
static void make_room(cli_session *s, size_t inputs, size_t outputs) {
  s->input_count = inputs;
  s->output_count = outputs;
  s->ports = cli_alloc(inputs, sizeof *s->ports);
  s->inputs = cli_alloc(inputs, sizeof *s->inputs);
  s->outputs = cli_alloc(outputs, sizeof *s->outputs);
  s->given = cli_alloc(inputs, sizeof *s->given);
}

static void ports_of_summary(cli_session *s) {
  make_room(s, s->summary->input_count, s->summary->output_count);
  for (size_t i = 0; i < s->input_count; i++) {
    const lw_tools_port *port = &s->summary->inputs[i];
    s->ports[i] = (cli_port){cli_format("%s", port->name), cli_format("%s", port->type),
                             cli_format("%s", port->shape)};
  }
}

static int look_into(cli_session *s) {
  lw_tools_reason reason;
  if (s->summary != NULL) return 0;
  lw_status status = lw_tools_inspect(s->path, s->options, &s->summary, &reason);
  return status == LW_OK ? 0 : cli_fail(status, "%s", reason.text);
}

/* Open dimensions have names in the file alone. */
static int ports_of_model(cli_session *s) {
  for (size_t i = 0; i < lw_model_input_count(s->model); i++) {
    if (!is_open(lw_model_input(s->model, i))) continue;
    int code = look_into(s);
    if (code == 0) ports_of_summary(s);
    return code;
  }
  make_room(s, lw_model_input_count(s->model), lw_model_output_count(s->model));
  for (size_t i = 0; i < s->input_count; i++) {
    const lw_tensor_info *info = lw_model_input(s->model, i);
    s->ports[i] =
        (cli_port){cli_format("%s", info->name), cli_format("%s", lw_dtype_name(info->dtype)),
                   cli_format("%s", cli_shape_text(info->rank, info->dims))};
  }
  return 0;
}

void cli_array_retype(lw_tools_array *array, lw_dtype dtype) {
  bool raw16 = array->dtype == LW_DTYPE_U16 && dtype == LW_DTYPE_BF16;
  bool raw8 = array->dtype == LW_DTYPE_U8 && (dtype == LW_DTYPE_F8E4M3 || dtype == LW_DTYPE_F8E5M2);
  if (raw16 || raw8) array->dtype = dtype;
}

int cli_session_open(const cli_args *args, const char *path, cli_session *out_session) {
  cli_session *s = out_session;
  *s = (cli_session){.args = args, .path = path};
  int code = cli_options_make(args, &s->options);
  if (code != 0 || !cli_has(args, "input") || lw_tools_is_plan(path)) return code;
  code = look_into(s);
  if (code != 0) return code;
  ports_of_summary(s);
  return read_inputs(args, s);
}

/* ---- compiling ----- */

static void print_warnings(const lw_model *model) {
  for (size_t i = 0; i < lw_model_message_count(model); i++) {
    const lw_message *m = lw_model_message(model, i);
    if (m->severity != LW_SEVERITY_WARNING) continue;
    cli_warn("%s%s%s", m->where, m->where[0] != '\0' ? ": " : "", m->text);
  }
}

int cli_session_set(cli_session *session, const char *name, const char *value) {
  return set_option(session->options, name, value);
}

/* A model with open dimensions was refused: how to close them. */
static void print_dimension_hint(cli_session *s) {
  lw_tools_reason reason;
  if (lw_tools_is_plan(s->path)) return;
  if (s->summary == NULL && lw_tools_inspect(s->path, s->options, &s->summary, &reason) != LW_OK) {
    return;
  }
  for (size_t i = 0; i < s->summary->input_count; i++) {
    const char *shape = s->summary->inputs[i].shape;
    if (strpbrk(shape, "abcdefghijklmnopqrstuvwxyzABCDEFGHIJKLMNOPQRSTUVWXYZ_?") == NULL) continue;
    fprintf(stderr,
            "input '%s' is %s: give it with --input, or its shape with --shape %s=..., or the "
            "dimensions with --dim NAME=N\n",
            s->summary->inputs[i].name, shape, s->summary->inputs[i].name);
    return;
  }
}

/* Open dimensions of inputs that are not given need an extent from somewhere. */
static int check_open(cli_session *s) {
  for (size_t i = 0; i < s->input_count; i++) {
    const lw_tensor_info *info = lw_model_input(s->model, i);
    for (int d = 0; !s->given[i] && d < info->rank; d++) {
      size_t length;
      const char *name = dim_name(s, i, d, &length);
      if (info->dims[d] >= 0 || dim_extent(s, i, d) >= 0) continue;
      int code = cli_fail(LW_STATUS_USAGE,
                          "a number is needed for dimension %d ('%.*s') of input "
                          "'%s'",
                          d, (int)length, name, info->name);
      print_dimension_hint(s);
      return code;
    }
  }
  return 0;
}

int cli_session_load(const cli_args *args, cli_session *s) {
  lw_context_destroy(s->context);
  lw_model_destroy(s->model);
  s->context = NULL;
  s->model = NULL;
  cli_progress("compiling %s", s->path);
  lw_status status = lw_model_load(s->path, s->options, &s->model);
  cli_progress("%s", "");
  if (s->model != NULL) print_warnings(s->model);
  if (status != LW_OK) {
    int code = cli_fail(status, "%s", lw_model_error(s->model));
    if (status == LW_STATUS_USAGE) print_dimension_hint(s);
    return code;
  }
  if (s->ports == NULL) {
    int code = ports_of_model(s);
    if (code == 0) code = read_inputs(args, s);
    return code != 0 ? code : check_open(s);
  }
  size_t outputs = lw_model_output_count(s->model);
  if (lw_model_input_count(s->model) == s->input_count && outputs >= s->output_count) {
    free(s->outputs); /* behind the file's there may be counts of others */
    s->outputs = cli_alloc(outputs, sizeof *s->outputs);
    s->output_count = outputs;
    return check_open(s);
  }
  return cli_fail(LW_STATUS_INTERNAL, "the model has not the inputs that its summary promised");
}

void cli_print_origin(const cli_session *s) {
  lw_stats stats;
  lw_tools_model_stats(s->model, &stats);
  const char *origin = lw_tools_model_origin(s->model);
  if (strcmp(origin, "compiled") == 0) {
    printf("compiled in %.2f s (%llu built, %llu from the cache)\n", stats.compile_s,
           (unsigned long long)stats.kernels_built, (unsigned long long)stats.kernels_cached);
  } else {
    printf("the plan from %s, loaded in %.1f ms\n",
           strcmp(origin, "cache") == 0 ? "the cache" : "the file", stats.compile_s * 1e3);
  }
}

int cli_refuse_plan(const char *path, const char *command) {
  if (!lw_tools_is_plan(path)) return 0;
  return cli_fail(
      LW_STATUS_USAGE,
      "%s is a compiled plan, which holds no graph: 'lawson %s' takes the model that it "
      "was compiled from; run and bench take plans",
      path, command);
}

/* ---- inputs that were not given ----- */

/* The --input-range that holds for input |index|. */
static int input_range(const cli_args *args, const cli_session *s, size_t index, long long *lo,
                       long long *hi) {
  *lo = 0;
  *hi = 10;
  const char *text;
  for (size_t n = 0; (text = cli_nth(args, "input-range", n)) != NULL; n++) {
    const char *range = text;
    int named = input_named(s, text, &range);
    if (named >= 0 && (size_t)named != index) continue;
    char *end;
    *lo = strtoll(range, &end, 10);
    bool fits = end != range && *end == ':';
    const char *second = fits ? end + 1 : end;
    *hi = strtoll(second, &end, 10);
    if (!fits || end == second || *end != '\0' || *hi <= *lo) {
      return cli_fail(LW_STATUS_USAGE, "--input-range takes [NAME=]LO:HI with LO < HI, not '%s'",
                      text);
    }
  }
  return 0;
}

static int make_seed(const cli_args *args, cli_session *s) {
  long long seed;
  if (!cli_number(args, "seed", -1, 0, (1LL << 53), &seed)) return LW_STATUS_USAGE;
  if (seed >= 0) {
    s->seed = (uint64_t)seed;
  } else if (s->seed == 0) {
    uint32_t word = 1;
    if (getrandom(&word, sizeof word, GRND_NONBLOCK) != sizeof word) word = 1;
    s->seed = 1 + word % 999999;
  }
  return 0;
}

static int make_output(cli_session *s, size_t i, int rank, const int64_t *dims) {
  const lw_tensor_info *info = lw_model_output(s->model, i);
  lw_tools_array_deinit(&s->outputs[i]);
  lw_status status = lw_tools_array_create(info->dtype, rank, dims, &s->outputs[i]);
  return status == LW_OK ? 0 : cli_fail(status, "no room for output '%s'", info->name);
}

int cli_session_fill(const cli_args *args, cli_session *s) {
  int code = make_seed(args, s);
  for (size_t i = 0; code == 0 && i < s->input_count; i++) {
    const lw_tensor_info *info = lw_model_input(s->model, i);
    long long lo, hi;
    if (s->given[i]) continue;
    code = input_range(args, s, i, &lo, &hi);
    if (code != 0) break;
    s->random = true;
    lw_tools_array_deinit(&s->inputs[i]);
    int64_t dims[LW_MAX_RANK];
    for (int d = 0; d < info->rank; d++) {
      dims[d] = info->dims[d] >= 0 ? info->dims[d] : dim_extent(s, i, d);
    }
    lw_status status = lw_tools_array_create(info->dtype, info->rank, dims, &s->inputs[i]);
    if (status != LW_OK) return cli_fail(status, "no room for input '%s'", info->name);
    lw_tools_array_randomize(&s->inputs[i], s->seed + i, lo, hi);
  }
  for (size_t i = 0; code == 0 && i < s->output_count; i++) {
    const lw_tensor_info *info = lw_model_output(s->model, i);
    if (!is_open_model(s)) code = make_output(s, i, info->rank, info->dims);
  }
  return code;
}

/* ---- binding ----- */

void cli_tensor_of(lw_tools_array *array, cli_tensor *out) {
  int64_t step = 1;
  for (int d = array->rank - 1; d >= 0; d--) {
    out->strides[d] = step;
    step *= array->dims[d] > 0 ? array->dims[d] : 1;
  }
  out->tensor = (lw_tensor){.data = array->data,
                            .dtype = array->dtype,
                            .rank = array->rank,
                            .dims = array->dims,
                            .strides = out->strides,
                            .memory = LW_MEMORY_HOST};
}

bool cli_session_is_state(const cli_session *s, size_t index, bool is_input) {
  if (is_input) return lw_model_state_output(s->model, index) != SIZE_MAX;
  for (size_t i = 0; i < s->input_count; i++) {
    if (lw_model_state_output(s->model, i) == index) return true;
  }
  return false;
}

int cli_session_take_states(cli_session *s) {
  lw_status status = LW_OK;
  for (size_t i = 0; status == LW_OK && i < s->input_count; i++) {
    cli_tensor t;
    if (!cli_session_is_state(s, i, true)) continue;
    cli_tensor_of(&s->outputs[lw_model_state_output(s->model, i)], &t);
    status = lw_context_get_state(s->context, i, &t.tensor);
  }
  return status == LW_OK ? 0 : cli_fail(status, "%s", lw_context_error(s->context));
}

static int bind_output(cli_session *s, size_t i) {
  if (cli_session_is_state(s, i, false)) return 0;
  int64_t dims[LW_MAX_RANK];
  cli_tensor t;
  lw_status status = LW_OK;
  if (is_open_model(s)) {
    int rank;
    status = lw_context_output_dims(s->context, i, &rank, dims);
    int code = status == LW_OK ? make_output(s, i, rank, dims) : 0;
    if (code != 0) return code;
  }
  if (status == LW_OK) {
    cli_tensor_of(&s->outputs[i], &t);
    status = lw_context_bind_output(s->context, i, &t.tensor);
  }
  return status == LW_OK ? 0 : cli_fail(status, "%s", lw_context_error(s->context));
}

int cli_session_bind(cli_session *s) {
  lw_status status = lw_context_create(s->model, &s->context);
  for (size_t i = 0; status == LW_OK && i < s->input_count; i++) {
    cli_tensor t;
    cli_tensor_of(&s->inputs[i], &t);
    status = cli_session_is_state(s, i, true) ? lw_context_set_state(s->context, i, &t.tensor)
                                              : lw_context_bind_input(s->context, i, &t.tensor);
  }
  if (status != LW_OK) return cli_fail(status, "%s", lw_context_error(s->context));
  int code = 0;
  for (size_t i = 0; code == 0 && i < s->output_count; i++) code = bind_output(s, i);
  return code;
}

void cli_session_close(cli_session *s) {
  lw_context_destroy(s->context);
  lw_model_destroy(s->model);
  lw_tools_summary_destroy(s->summary);
  lw_options_destroy(s->options);
  for (size_t i = 0; i < s->input_count; i++) {
    lw_tools_array_deinit(&s->inputs[i]);
    free(s->ports[i].name);
    free(s->ports[i].type);
    free(s->ports[i].shape);
  }
  for (size_t i = 0; i < s->output_count; i++) lw_tools_array_deinit(&s->outputs[i]);
  free(s->ports);
  free(s->inputs);
  free(s->outputs);
  free(s->given);
  *s = (cli_session){0};
}

const char *cli_type_text(lw_dtype dtype, int rank, const int64_t *dims) {
  static char text[256];
  snprintf(text, sizeof text, "%s%s", lw_dtype_name(dtype), cli_shape_text(rank, dims));
  return text;
}

/* options.c: the one mechanism of options: tables are data; getopt_long, help and hints are made of
 * them. */
#include <errno.h>
#include <getopt.h>
#include <limits.h>
#include <math.h>
#include <stdlib.h>
#include <string.h>

#include "cli.h"

#define OPTION_BASE 1000 /* getopt values of long options without a letter: index + this */
#define HELP_COLUMN 28
#define HELP_WIDTH 96
#define NEAR_LIMIT 3

static const cli_option help_option = {"help", NULL, NULL, "this text", NULL, 'h'};

/* The |n|-th option of a command over all its tables, the last being --help; NULL beyond. */
static const cli_option *option_at(const cli_command *command, size_t n) {
  for (size_t t = 0; t < CLI_COUNT(command->tables); t++) {
    for (const cli_option *o = command->tables[t]; o != NULL && o->name != NULL; o++) {
      if (n-- == 0) return o;
    }
  }
  return n == 0 ? &help_option : NULL;
}

/* ---- help ----- */

/* Words of |text| from column |*column| on, further lines under HELP_COLUMN. */
static void help_words(const char *text, size_t *column, FILE *out) {
  while (*text != '\0') {
    size_t n = strcspn(text, " \n");
    if (*column > HELP_COLUMN && *column + 1 + n > HELP_WIDTH) {
      fprintf(out, "\n%-*s", HELP_COLUMN, "");
      *column = HELP_COLUMN;
    }
    if (*column > HELP_COLUMN) fputc(' ', out);
    *column += n + (*column > HELP_COLUMN);
    fprintf(out, "%.*s", (int)n, text);
    text += n;
    text += strspn(text, " \n");
  }
}

static void help_option_lines(const cli_option *o, FILE *out) {
  char left[128], otherwise[128];
  int n = o->letter != 0 ? snprintf(left, sizeof left, "  -%c, --%s", o->letter, o->name)
                         : snprintf(left, sizeof left, "      --%s", o->name);
  if (o->arg != NULL) snprintf(left + n, sizeof left - (size_t)n, " %s", o->arg);
  fprintf(out, "%-*s", HELP_COLUMN, left);
  if (strlen(left) >= HELP_COLUMN) fprintf(out, "\n%-*s", HELP_COLUMN, "");
  size_t column = HELP_COLUMN;
  help_words(o->help, &column, out);
  if (o->otherwise != NULL) {
    snprintf(otherwise, sizeof otherwise, "(default: %s)", o->otherwise);
    help_words(otherwise, &column, out);
  }
  fputc('\n', out);
}

void cli_print_help(const cli_command *command, FILE *out) {
  fprintf(out, "usage: lawson %s [options] %s\n\n%s\n\n%s\n", command->name, command->operands,
          command->summary, command->about);
  fprintf(out, "\noptions:\n");
  const cli_option *o;
  for (size_t n = 0; (o = option_at(command, n)) != NULL; n++) help_option_lines(o, out);
  fprintf(out, "\nexamples:\n%s", command->examples);
  fprintf(out,
          "\nexit codes: 0 ok, 1 a check failed, 2 wrong usage or a file that cannot be read, "
          "3 the model is\ninvalid, 4 the model is not supported, 5 device or compiler, "
          "6 out of memory\n");
}

/* ---- hints ----- */

/* Edit distance with a limit on the lengths it looks at. */
static size_t distance(const char *a, const char *b) {
  enum { MAX = 40 };
  size_t n = strlen(a), m = strlen(b), row[MAX + 1];
  if (n > MAX || m > MAX) return MAX;
  for (size_t j = 0; j <= m; j++) row[j] = j;
  for (size_t i = 1; i <= n; i++) {
    size_t diagonal = row[0];
    row[0] = i;
    for (size_t j = 1; j <= m; j++) {
      size_t change = diagonal + (a[i - 1] != b[j - 1]);
      size_t step = (row[j] < row[j - 1] ? row[j] : row[j - 1]) + 1;
      diagonal = row[j];
      row[j] = change < step ? change : step;
    }
  }
  return row[m];
}

const char *cli_nearest(const char *word, const char *const *names, size_t count) {
  const char *best = NULL;
  size_t best_distance = NEAR_LIMIT + 1;
  for (size_t i = 0; i < count; i++) {
    size_t d = distance(word, names[i]);
    if (d >= best_distance || d >= strlen(word)) continue;
    best = names[i];
    best_distance = d;
  }
  return best;
}

static const char *nearest_option(const cli_command *command, const char *word) {
  const char *names[128];
  size_t count = 0;
  const cli_option *o;
  for (size_t n = 0; count < CLI_COUNT(names) && (o = option_at(command, n)) != NULL; n++) {
    names[count++] = o->name;
  }
  return cli_nearest(word, names, count);
}

static int unknown_option(const cli_command *command, const char *word) {
  char name[64];
  snprintf(name, sizeof name, "%.*s",
           (int)strcspn(word + 2, "=") < 63 ? (int)strcspn(word + 2, "=") : 63, word + 2);
  const char *near = nearest_option(command, name);
  if (near != NULL) {
    return cli_fail(LW_STATUS_USAGE, "%s has no option '--%s'; did you mean '--%s'?", command->name,
                    name, near);
  }
  return cli_fail(LW_STATUS_USAGE, "%s has no option '--%s'; 'lawson %s --help' lists them",
                  command->name, name, command->name);
}

/* ---- parsing ----- */

typedef struct getopt_tables {
  struct option *longs;
  char *shorts;
} getopt_tables;

static void add_short(char **at, const cli_option *o) {
  if (o->letter == 0) return;
  *(*at)++ = o->letter;
  if (o->arg != NULL) *(*at)++ = ':';
}

static getopt_tables make_tables(const cli_command *command) {
  size_t count = 0;
  while (option_at(command, count) != NULL) count++;
  getopt_tables t = {.longs = cli_alloc(2 * count + 1, sizeof *t.longs),
                     .shorts = cli_alloc(2 * count + 2, 1)};
  struct option *at = t.longs;
  char *letters = t.shorts;
  *letters++ = ':'; /* getopt gives ':' for a missing value */
  for (size_t n = 0; n < count; n++) {
    const cli_option *o = option_at(command, n);
    int has_arg = o->arg != NULL ? required_argument : no_argument;
    *at++ = (struct option){o->name, has_arg, NULL, OPTION_BASE + (int)n};
    if (o->alias != NULL) *at++ = (struct option){o->alias, has_arg, NULL, OPTION_BASE + (int)n};
    add_short(&letters, o);
  }
  return t;
}

static const cli_option *option_of_code(const cli_command *command, int code) {
  if (code >= OPTION_BASE) return option_at(command, (size_t)(code - OPTION_BASE));
  const cli_option *o;
  for (size_t n = 0; (o = option_at(command, n)) != NULL; n++) {
    if (o->letter == code) return o;
  }
  return NULL;
}

static int parse_error(const cli_command *command, int code, char **argv) {
  const char *word = argv[optind - 1];
  if (code == ':') {
    return cli_fail(LW_STATUS_USAGE, "%s: option '%s' needs a value", command->name, word);
  }
  if (strncmp(word, "--", 2) != 0) {
    return cli_fail(LW_STATUS_USAGE, "%s has no option '-%c'; 'lawson %s --help' lists them",
                    command->name, optopt, command->name);
  }
  const cli_option *known = optopt >= OPTION_BASE ? option_of_code(command, optopt) : NULL;
  if (known != NULL) {
    return cli_fail(LW_STATUS_USAGE, "%s: option '--%s' takes no value", command->name,
                    known->name);
  }
  return unknown_option(command, word);
}

/* An empty word is a variable that a script forgot; what may be empty has a word for that. */
static bool check_empty(const cli_command *command, const cli_args *args, int *out_exit) {
  for (size_t i = 0; i < args->value_count; i++) {
    const cli_option *o = args->values[i].option;
    if (o->arg == NULL || args->values[i].text[0] != '\0') continue;
    *out_exit = cli_fail(LW_STATUS_USAGE, "%s: the value of --%s is empty", command->name, o->name);
    return false;
  }
  for (size_t i = 0; i < args->operand_count; i++) {
    if (args->operands[i][0] != '\0') continue;
    *out_exit = cli_fail(LW_STATUS_USAGE, "%s: %s is empty", command->name, command->operands);
    return false;
  }
  return true;
}

static bool check_operands(const cli_command *command, const cli_args *args, int *out_exit) {
  if (args->operand_count < command->operands_min) {
    *out_exit = cli_fail(LW_STATUS_USAGE, "%s needs %s; see 'lawson %s --help'", command->name,
                         command->operands, command->name);
    return false;
  }
  if (args->operand_count > command->operands_max) {
    *out_exit = cli_fail(LW_STATUS_USAGE, "%s takes %s, '%s' is one too many", command->name,
                         command->operands[0] != '\0' ? command->operands : "no operands",
                         args->operands[command->operands_max]);
    return false;
  }
  return true;
}

static bool parse_all(const cli_command *command, const getopt_tables *tables, int argc,
                      char **argv, cli_args *args, int *out_exit) {
  opterr = 0;
  optind = 1;
  int code;
  while ((code = getopt_long(argc, argv, tables->shorts, tables->longs, NULL)) != -1) {
    if (code == '?' || code == ':') {
      *out_exit = parse_error(command, code, argv);
      return false;
    }
    const cli_option *o = option_of_code(command, code);
    if (o == &help_option) {
      cli_print_help(command, stdout);
      *out_exit = 0;
      return false;
    }
    args->values[args->value_count++] = (cli_value){o, optarg != NULL ? optarg : ""};
  }
  args->operands = argv + optind;
  args->operand_count = (size_t)(argc - optind);
  return check_operands(command, args, out_exit) && check_empty(command, args, out_exit);
}

bool cli_parse(const cli_command *command, int argc, char **argv, cli_args *out_args,
               int *out_exit) {
  *out_args = (cli_args){.command = command,
                         .values = cli_alloc((size_t)argc + 1, sizeof *out_args->values)};
  getopt_tables tables = make_tables(command);
  bool go_on = parse_all(command, &tables, argc, argv, out_args, out_exit);
  free(tables.longs);
  free(tables.shorts);
  return go_on;
}

void cli_args_deinit(cli_args *args) {
  free(args->values);
  *args = (cli_args){0};
}

/* ---- values ----- */

const char *cli_nth(const cli_args *args, const char *name, size_t n) {
  for (size_t i = 0; i < args->value_count; i++) {
    if (strcmp(args->values[i].option->name, name) != 0) continue;
    if (n-- == 0) return args->values[i].text;
  }
  return NULL;
}

bool cli_has(const cli_args *args, const char *name) { return cli_nth(args, name, 0) != NULL; }

const char *cli_text(const cli_args *args, const char *name, const char *otherwise) {
  for (size_t i = args->value_count; i-- > 0;) {
    if (strcmp(args->values[i].option->name, name) == 0) return args->values[i].text;
  }
  return otherwise;
}

bool cli_number(const cli_args *args, const char *name, long long otherwise, long long lo,
                long long hi, long long *out) {
  const char *text = cli_text(args, name, NULL);
  *out = otherwise;
  if (text == NULL) return true;
  char *end;
  errno = 0;
  *out = strtoll(text, &end, 10);
  if (errno == 0 && end != text && *end == '\0' && *out >= lo && *out <= hi) return true;
  if (hi == LLONG_MAX) {
    cli_fail(LW_STATUS_USAGE, "--%s takes a whole number of at least %lld, not '%s'", name, lo,
             text);
  } else {
    cli_fail(LW_STATUS_USAGE, "--%s takes a whole number from %lld to %lld, not '%s'", name, lo, hi,
             text);
  }
  return false;
}

bool cli_real(const cli_args *args, const char *name, double otherwise, double lo, double hi,
              double *out) {
  const char *text = cli_text(args, name, NULL);
  *out = otherwise;
  if (text == NULL) return true;
  char *end;
  *out = strtod(text, &end);
  if (end != text && *end == '\0' && isfinite(*out) && *out >= lo && *out <= hi) return true;
  cli_fail(LW_STATUS_USAGE, "--%s takes a number from %g to %g, not '%s'", name, lo, hi, text);
  return false;
}

/* cli.h: what the sub-commands share: the option table, messages, exit codes, tables of text. */
#ifndef LW_CLI_H
#define LW_CLI_H

#include <jansson.h>
#include <lawson/tools.h>
#include <stdbool.h>
#include <stdio.h>

#define CLI_COUNT(a) (sizeof(a) / sizeof((a)[0]))

/* ---- sub-commands and their options ----- */

/* One option. Tables end with a row whose name is NULL. */
typedef struct cli_option {
  const char *name;      /* long name, without the dashes */
  const char *arg;       /* what stands for the value in help; NULL: a switch */
  const char *otherwise; /* the default in words, for help; may be NULL */
  const char *help;      /* is wrapped */
  const char *alias;     /* another long name people know from elsewhere; may be NULL */
  char letter;           /* short name, 0: none */
} cli_option;

typedef struct cli_value {
  const cli_option *option;
  const char *text; /* "" for switches */
} cli_value;

typedef struct cli_args {
  const struct cli_command *command;
  cli_value *values; /* in the order given */
  size_t value_count;
  char **operands;
  size_t operand_count;
} cli_args;

typedef struct cli_command {
  const char *name;
  const char *operands; /* "MODEL", for the usage line */
  const char *summary;  /* one line */
  const char *about;    /* paragraphs of help */
  const char *examples; /* one a line: "lawson run net.onnx --check    what it does" */
  const cli_option *tables[3]; /* NULL: none */
  size_t operands_min, operands_max;
  int (*run)(const cli_args *args); /* gives the exit code */
} cli_command;

extern const cli_command cli_command_run, cli_command_bench, cli_command_check,
    cli_command_inspect, cli_command_explain, cli_command_compile, cli_command_cache,
    cli_command_device;

/* Reads argv after the command's name. 0: go on. Otherwise *out_exit is what to end with (help was
 * printed, or a usage error). */
bool cli_parse(const cli_command *command, int argc, char **argv, cli_args *out_args,
               int *out_exit);
void cli_args_deinit(cli_args *args);
void cli_print_help(const cli_command *command, FILE *out);
/* The nearest of |count| names to |word|, or NULL when none is near. */
const char *cli_nearest(const char *word, const char *const *names, size_t count);

bool cli_has(const cli_args *args, const char *name);
/* The last value given, or |otherwise|. */
const char *cli_text(const cli_args *args, const char *name, const char *otherwise);
/* The n-th value of a repeated option, NULL when there are fewer. */
const char *cli_nth(const cli_args *args, const char *name, size_t n);
/* A whole number in [lo, hi]; a usage error is printed and false given otherwise. */
bool cli_number(const cli_args *args, const char *name, long long otherwise, long long lo,
                long long hi, long long *out);
bool cli_real(const cli_args *args, const char *name, double otherwise, double lo, double hi,
              double *out);

/* ---- messages and exit codes ----- */

/* 0 to 6 as they are; a file that is missing or cannot be read is 2, a broken promise 5. */
int cli_exit_code(lw_status status);
/* Prints "lawson: ..." to stderr and gives the exit code. */
int cli_fail(lw_status status, const char *fmt, ...) LW_PRINTF(2, 3);
void cli_warn(const char *fmt, ...) LW_PRINTF(1, 2);
/* Ends the program with code 6 when there is no memory. Zeroed. */
void *cli_alloc(size_t count, size_t size);
void *cli_grow(void *memory, size_t count, size_t size);
char *cli_format(const char *fmt, ...) LW_PRINTF(1, 2); /* free() it */
double cli_now_s(void);

/* ---- text ----- */

/* "" unless |stream| is a terminal that takes colour; |style|: "bold", "red", "green", "dim",
 * "". */
const char *cli_style(FILE *stream, const char *style);
/* A short line that is overwritten by the next one; only on a terminal. "" clears it. */
void cli_progress(const char *fmt, ...) LW_PRINTF(1, 2);
/* Into one of a few static buffers: good for one printf. */
const char *cli_bytes_text(double bytes);     /* "3.1 MiB" */
const char *cli_us_text(double microseconds); /* "12.3 us", "4.56 ms" */
const char *cli_shape_text(int rank, const int64_t *dims); /* "[2, 3]" */

typedef struct cli_table cli_table;
/* |heads|: one letter for the alignment ('<' or '>') and the column's title, each. */
cli_table *cli_table_create(size_t columns, const char *const *heads);
void cli_table_cell(cli_table *table, const char *fmt, ...) LW_PRINTF(2, 3); /* row by row */
void cli_table_print(const cli_table *table, FILE *out, const char *indent);
void cli_table_destroy(cli_table *table);

/* ---- JSON ----- */

/* NaN and infinity, which JSON lacks, become null. */
json_t *cli_json_real(double value);
/* Text of strangers: what is not UTF-8 becomes '?'. */
json_t *cli_json_text(const char *text);
json_t *cli_json_dims(int rank, const int64_t *dims);
json_t *cli_json_stats(const lw_stats *stats);
json_t *cli_json_difference(const lw_tools_difference *difference);
/* Prints |root| (which it consumes) to |path|, "-" being stdout; false after a message. */
bool cli_json_write(json_t *root, const char *path);

#endif

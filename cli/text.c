/* text.c: messages, exit codes, units, tables of text, JSON pieces. */
#include <math.h>
#include <stdarg.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>
#include <unistd.h>

#include "cli.h"

/* ---- messages ----- */

int cli_exit_code(lw_status status) {
  switch (status) {
    case LW_STATUS_NOT_FOUND:
    case LW_STATUS_IO: return LW_STATUS_USAGE;
    case LW_STATUS_INTERNAL:
    case LW_STATUS_DEVICE_LOST: return LW_STATUS_DEVICE_FAILED;
    default: return (int)status;
  }
}

int cli_fail(lw_status status, const char *fmt, ...) {
  cli_progress("%s", "");
  fflush(stdout);
  fprintf(stderr, "%slawson:%s ", cli_style(stderr, "red"), cli_style(stderr, ""));
  va_list args;
  va_start(args, fmt);
  vfprintf(stderr, fmt, args);
  va_end(args);
  fputc('\n', stderr);
  if (status == LW_STATUS_INTERNAL) {
    fprintf(stderr, "This is a mistake in lawson itself; please report it with the model.\n");
  }
  return cli_exit_code(status);
}

void cli_warn(const char *fmt, ...) {
  cli_progress("%s", "");
  fprintf(stderr, "lawson: warning: ");
  va_list args;
  va_start(args, fmt);
  vfprintf(stderr, fmt, args);
  va_end(args);
  fputc('\n', stderr);
}

void *cli_alloc(size_t count, size_t size) {
  void *memory = calloc(count > 0 ? count : 1, size > 0 ? size : 1);
  if (memory == NULL) exit(cli_fail(LW_STATUS_OUT_OF_MEMORY, "out of memory"));
  return memory;
}

void *cli_grow(void *memory, size_t count, size_t size) {
  size_t bytes;
  void *grown = __builtin_mul_overflow(count, size, &bytes) ? NULL : realloc(memory, bytes);
  if (grown == NULL) exit(cli_fail(LW_STATUS_OUT_OF_MEMORY, "out of memory"));
  return grown;
}

char *cli_format(const char *fmt, ...) {
  char *text = NULL;
  va_list args;
  va_start(args, fmt);
  int n = vasprintf(&text, fmt, args);
  va_end(args);
  if (n < 0) exit(cli_fail(LW_STATUS_OUT_OF_MEMORY, "out of memory"));
  return text;
}

double cli_now_s(void) {
  struct timespec now = {0};
  (void)clock_gettime(CLOCK_MONOTONIC, &now);
  return (double)now.tv_sec + (double)now.tv_nsec * 1e-9;
}

/* ---- terminal ----- */

static bool is_fancy(FILE *stream) {
  const char *term = getenv("TERM"), *no_color = getenv("NO_COLOR");
  if (no_color != NULL && no_color[0] != '\0') return false;
  return isatty(fileno(stream)) == 1 && term != NULL && strcmp(term, "dumb") != 0;
}

const char *cli_style(FILE *stream, const char *style) {
  static const char *const codes[][2] = {{"", "\033[0m"},
                                         {"bold", "\033[1m"},
                                         {"dim", "\033[2m"},
                                         {"red", "\033[1;31m"},
                                         {"green", "\033[1;32m"}};
  if (!is_fancy(stream)) return "";
  for (size_t i = 0; i < CLI_COUNT(codes); i++) {
    if (strcmp(codes[i][0], style) == 0) return codes[i][1];
  }
  return "";
}

void cli_progress(const char *fmt, ...) {
  if (isatty(STDERR_FILENO) != 1) return;
  char text[80];
  va_list args;
  va_start(args, fmt);
  vsnprintf(text, sizeof text, fmt, args);
  va_end(args);
  fprintf(stderr, "\r\033[K%s", text);
  fflush(stderr);
}

/* ---- units ----- */

#define TEXT_BUFFERS 8
#define TEXT_BYTES 192

static char *next_buffer(void) {
  static char buffers[TEXT_BUFFERS][TEXT_BYTES];
  static unsigned turn;
  return buffers[turn++ % TEXT_BUFFERS];
}

const char *cli_bytes_text(double bytes) {
  static const char *const units[] = {"B", "KiB", "MiB", "GiB", "TiB"};
  char *out = next_buffer();
  size_t u = 0;
  for (; bytes >= 1024 && u + 1 < CLI_COUNT(units); u++) bytes /= 1024;
  snprintf(out, TEXT_BYTES, u == 0 ? "%.0f %s" : "%.1f %s", bytes, units[u]);
  return out;
}

const char *cli_us_text(double us) {
  char *out = next_buffer();
  if (us < 1e3) {
    snprintf(out, TEXT_BYTES, us < 10 ? "%.2f us" : "%.1f us", us);
  } else if (us < 1e6) {
    snprintf(out, TEXT_BYTES, us < 1e4 ? "%.2f ms" : "%.1f ms", us / 1e3);
  } else {
    snprintf(out, TEXT_BYTES, "%.2f s", us / 1e6);
  }
  return out;
}

const char *cli_shape_text(int rank, const int64_t *dims) {
  char *out = next_buffer();
  size_t at = 0;
  out[at++] = '[';
  for (int d = 0; d < rank && at < TEXT_BYTES - 32; d++) {
    int n = snprintf(out + at, TEXT_BYTES - at, d == 0 ? "%lld" : ", %lld", (long long)dims[d]);
    at += (size_t)n;
  }
  snprintf(out + at, TEXT_BYTES - at, "]");
  return out;
}

/* ---- tables ----- */

struct cli_table {
  size_t columns, cells;
  char **text; /* the heads are the first row */
  const char *const *heads;
};

static void table_add(cli_table *table, char *text) {
  table->text = cli_grow(table->text, table->cells + 1, sizeof *table->text);
  table->text[table->cells++] = text;
}

cli_table *cli_table_create(size_t columns, const char *const *heads) {
  cli_table *table = cli_alloc(1, sizeof *table);
  table->columns = columns;
  table->heads = heads;
  for (size_t c = 0; c < columns; c++) table_add(table, cli_format("%s", heads[c] + 1));
  return table;
}

void cli_table_cell(cli_table *table, const char *fmt, ...) {
  char *text = NULL;
  va_list args;
  va_start(args, fmt);
  int n = vasprintf(&text, fmt, args);
  va_end(args);
  if (n < 0) exit(cli_fail(LW_STATUS_OUT_OF_MEMORY, "out of memory"));
  table_add(table, text);
}

/* Columns on a terminal: bytes that do not continue a UTF-8 sequence. */
static size_t text_width(const char *text) {
  size_t width = 0;
  for (; *text != '\0'; text++) width += ((unsigned char)*text & 0xc0) != 0x80;
  return width;
}

static size_t column_width(const cli_table *table, size_t column) {
  size_t width = 0;
  for (size_t i = column; i < table->cells; i += table->columns) {
    size_t w = text_width(table->text[i]);
    if (w > width) width = w;
  }
  return width;
}

void cli_table_print(const cli_table *table, FILE *out, const char *indent) {
  size_t *widths = cli_alloc(table->columns, sizeof *widths);
  for (size_t c = 0; c < table->columns; c++) widths[c] = column_width(table, c);
  for (size_t i = 0; i < table->cells; i++) {
    size_t c = i % table->columns;
    int pad = (int)(widths[c] - text_width(table->text[i]));
    bool last = c + 1 == table->columns, right = table->heads[c][0] == '>';
    if (c == 0) fprintf(out, "%s%s", indent, i == 0 ? cli_style(out, "dim") : "");
    if (right) fprintf(out, "%*s", pad, "");
    fputs(table->text[i], out);
    if (!right && !last) fprintf(out, "%*s", pad, "");
    if (!last) fputs("  ", out);
    if (last) fprintf(out, "%s\n", i < table->columns ? cli_style(out, "") : "");
  }
  free(widths);
}

void cli_table_destroy(cli_table *table) {
  for (size_t i = 0; i < table->cells; i++) free(table->text[i]);
  free(table->text);
  free(table);
}

/* ---- JSON ----- */

json_t *cli_json_real(double value) { return isfinite(value) ? json_real(value) : json_null(); }

json_t *cli_json_text(const char *text) {
  json_t *value = json_string(text);
  if (value != NULL) return value;
  char *clean = cli_format("%s", text);
  for (char *p = clean; *p != '\0'; p++) {
    if ((*p & 0x80) != 0) *p = '?';
  }
  value = json_string(clean);
  free(clean);
  return value;
}

json_t *cli_json_dims(int rank, const int64_t *dims) {
  json_t *array = json_array();
  for (int d = 0; d < rank; d++) json_array_append_new(array, json_integer(dims[d]));
  return array;
}

json_t *cli_json_stats(const lw_stats *s) {
  return json_pack(
      "{s:I, s:I, s:I, s:I, s:I, s:I, s:I, s:I, s:I, s:I, s:I, s:I, s:I, s:f, s:I}", "kernels",
      (json_int_t)s->kernels, "lanes", (json_int_t)s->lanes, "waits", (json_int_t)s->waits,
      "live_bytes", (json_int_t)s->live_bytes, "library_calls", (json_int_t)s->library_calls,
      "copies", (json_int_t)s->copies, "fills", (json_int_t)s->fills, "staging_copies",
      (json_int_t)s->staging_copies, "arena_bytes", (json_int_t)s->arena_bytes, "weight_bytes",
      (json_int_t)s->weight_bytes, "traffic_bytes", (json_int_t)s->traffic_bytes, "kernels_built",
      (json_int_t)s->kernels_built, "kernels_cached", (json_int_t)s->kernels_cached, "compile_s",
      s->compile_s, "groups_split", (json_int_t)s->groups_split);
}

json_t *cli_json_difference(const lw_tools_difference *d) {
  json_t *root =
      json_pack("{s:I, s:I, s:I, s:I}", "count", (json_int_t)d->count, "bad", (json_int_t)d->bad,
                "ambiguous", (json_int_t)d->ambiguous, "worst_index", (json_int_t)d->worst_index);
  json_object_set_new(root, "worst_got", cli_json_real(d->worst_got));
  json_object_set_new(root, "worst_want", cli_json_real(d->worst_want));
  json_object_set_new(root, "worst_allowed", cli_json_real(d->worst_allowed));
  json_object_set_new(root, "worst_ratio", cli_json_real(d->worst_ratio));
  json_object_set_new(root, "max_abs_error", cli_json_real(d->max_abs_error));
  return root;
}

bool cli_json_write(json_t *root, const char *path) {
  bool to_stdout = strcmp(path, "-") == 0;
  FILE *out = to_stdout ? stdout : fopen(path, "w");
  int failed = root == NULL || out == NULL;
  if (!failed) {
    failed = json_dumpf(root, out, JSON_INDENT(2) | JSON_REAL_PRECISION(9)) != 0;
    failed |= fputc('\n', out) == EOF;
    failed |= to_stdout ? fflush(out) != 0 : fclose(out) != 0;
  }
  json_decref(root);
  if (failed) cli_fail(LW_STATUS_USAGE, "cannot write '%s'", path);
  return !failed;
}

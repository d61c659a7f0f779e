/* test_golden.c: tests/golden/pass/<pass>_<case>.txt: a graph, a line of four dashes, the graph
 * after the pass and the notes that it left. <pass> "all" is the whole pipeline. A first line `;
 * options: key=value ..` sets options. `--bless` as the only argument writes what comes out. */
#include <dirent.h>
#include <errno.h>

#include "pass_kit.h"

static bool bless;

static void read_file(const char *path, lw_text *out) {
  char buffer[4096];
  size_t n;
  FILE *file = fopen(path, "rb");
  assert_non_null(file);
  while ((n = fread(buffer, 1, sizeof buffer, file)) > 0) lw__text_add_n(out, buffer, n);
  fclose(file);
  assert_int_equal(out->status, LW_OK);
}

static void read_options(const char *text, lw_pass_options *options) {
  lw__pass_options_init(options);
  if (strncmp(text, "; options:", 10) != 0) return;
  const char *gain = strstr(text, "layout_gain="), *narrow = strstr(text, "batchnorm_narrow=1");
  const char *end = strchr(text, '\n');
  if (gain != NULL && gain < end) options->layout_gain = atof(gain + 12);
  options->batchnorm_narrow = narrow != NULL && narrow < end;
}

static void add_notes(const lw_diag *diag, lw_text *out) {
  for (uint32_t m = 0; m < diag->messages.count; m++) {
    const lw_message *message = &diag->messages.data[m];
    if (message->severity != LW_SEVERITY_NOTE) continue;
    lw__text_add(out, "; note: %s: %s\n", message->where, message->text);
  }
}

static void check_text(const char *path, const lw_text *file, const char *input_end,
                       const lw_text *result) {
  static const char dashes[] = "----\n";
  const char *expected = strncmp(input_end, dashes, 5) == 0 ? input_end + 5 : input_end;
  if (strcmp(expected, lw__text_str(result)) == 0) return;
  if (!bless) fail_msg("%s: expected\n%s\nbut it is\n%s", path, expected, lw__text_str(result));
  FILE *out = fopen(path, "wb");
  assert_non_null(out);
  fwrite(file->data, 1, (size_t)(input_end - file->data), out);
  fputs(dashes, out);
  fputs(lw__text_str(result), out);
  assert_int_equal(fclose(out), 0);
}

static void run_pass(lw_graph *g, const char *pass, const lw_pass_options *options, lw_diag *diag) {
  bool changed = false;
  lw_status status = strcmp(pass, "all") == 0 ? lw__pass_run(g, options, diag)
                                              : lw__pass_run_one(g, pass, options, diag, &changed);
  if (status != LW_OK) fail_msg("%s: %s", pass, lw__diag_first_error(diag));
  assert_ok(lw__graph_verify(g, diag));
}

static void check_case(const char *folder, const char *name) {
  char path[1024], pass[32] = "", what[300];
  lw_text file = {0}, input = {0}, result = {0};
  lw_diag diag = {0};
  lw_graph before, after;
  lw_pass_options options;
  snprintf(path, sizeof path, "%s/%s", folder, name);
  snprintf(what, sizeof what, "%.250s", name);
  size_t pass_length = strcspn(name, "_");
  assert_true(pass_length < sizeof pass);
  memcpy(pass, name, pass_length);
  read_file(path, &file);
  read_options(file.data, &options);
  const char *end = strstr(file.data, "\n----\n");
  end = end != NULL ? end + 1 : file.data + file.len;
  lw__text_add_n(&input, file.data, (size_t)(end - file.data));
  kit_parse(lw__text_str(&input), &diag, &before);
  assert_ok(lw__graph_clone(&before, &after));
  run_pass(&after, pass, &options, &diag);
  kit_print(&after, &result);
  add_notes(&diag, &result);
  check_text(path, &file, end, &result);
  bool narrow_weights =
      options.batchnorm_narrow; /* rounds weights again: outside of the bound by design */
  for (uint64_t seed = 1; seed <= 3 && !narrow_weights; seed++)
    kit_compare(&before, &after, seed, what);
  lw__graph_deinit(&after);
  lw__graph_deinit(&before);
  lw__diag_deinit(&diag);
  lw__text_deinit(&file);
  lw__text_deinit(&input);
  lw__text_deinit(&result);
}

static void golden_cases(void **state) {
  (void)state;
  static const char folder[] = LW_SOURCE_DIR "/tests/golden/pass";
  struct dirent **entries = NULL;
  int count = scandir(folder, &entries, NULL, alphasort), cases = 0;
  assert_true(count > 0);
  for (int i = 0; i < count; i++) {
    size_t length = strlen(entries[i]->d_name);
    if (length > 4 && strcmp(entries[i]->d_name + length - 4, ".txt") == 0) {
      check_case(folder, entries[i]->d_name);
      cases++;
    }
    free(entries[i]);
  }
  free(entries);
  assert_true(cases >= 20);
}

int main(int argc, char **argv) {
  bless = argc > 1 && strcmp(argv[1], "--bless") == 0;
  const struct CMUnitTest tests[] = {cmocka_unit_test(golden_cases)};
  return cmocka_run_group_tests(tests, NULL, NULL);
}

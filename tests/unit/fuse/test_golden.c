/* test_golden.c: tests/golden/fuse/<case>.txt: a graph, a line of four dashes, the groups that
 * passes and fusion make of it, with what each reads and writes. A line `; profile: cpu` chooses
 * the device (else sm_90a). `--bless` as the only argument writes what comes out; look at the
 * difference before committing it. */
#include <dirent.h>

#include "fuse_kit.h"

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

static void write_file(const char *path, const char *input, size_t input_length,
                       const lw_text *result) {
  FILE *out = fopen(path, "wb");
  assert_non_null(out);
  fwrite(input, 1, input_length, out);
  fputs("----\n", out);
  fputs(lw__text_str(result), out);
  assert_int_equal(fclose(out), 0);
}

static void check_case(const char *folder, const char *name) {
  char path[1024];
  lw_text file = {0}, input = {0}, result = {0};
  fused f;
  snprintf(path, sizeof path, "%s/%s", folder, name);
  read_file(path, &file);
  const char *end = strstr(file.data, "\n----\n");
  size_t length = end ? (size_t)(end - file.data) + 1 : file.len;
  lw__text_add_n(&input, file.data, length);
  kit_fuse(lw__text_str(&input), strstr(lw__text_str(&input), "; profile: cpu\n") ? "cpu" : NULL,
           NULL, &f);
  kit_check(&f);
  for (uint32_t i = 0; i < f.fusion.groups.count; i++) kit_describe(&f, i, &result);
  assert_int_equal(result.status, LW_OK);
  const char *expected = end ? end + 6 : "";
  if (strcmp(expected, lw__text_str(&result)) != 0) {
    if (!bless) fail_msg("%s: expected\n%sbut it is\n%s", name, expected, lw__text_str(&result));
    write_file(path, file.data, length, &result);
  }
  fused_deinit(&f);
  lw__text_deinit(&file);
  lw__text_deinit(&input);
  lw__text_deinit(&result);
}

static void golden_cases(void **state) {
  (void)state;
  static const char folder[] = LW_SOURCE_DIR "/tests/golden/fuse";
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
  assert_true(cases >= 25);
}

int main(int argc, char **argv) {
  bless = argc > 1 && strcmp(argv[1], "--bless") == 0;
  const struct CMUnitTest tests[] = {cmocka_unit_test(golden_cases)};
  return cmocka_run_group_tests(tests, NULL, NULL);
}

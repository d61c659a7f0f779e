/* test_models.c: the passes on small real networks: what comes out computes the same within the
 * bound, with fewer nodes, and a second run changes nothing. Skipped where the shared models are
 * absent. */
#include <dirent.h>

#include "compiler/onnx/import.h"
#include "pass_kit.h"

static const char models_folder[] = LW_SOURCE_DIR "/../shared/models";

/* Every symbol becomes 2. */
static void bind_all(lw_graph *g) {
  enum { MOST = 16 };
  const char *names[MOST];
  int64_t values[MOST];
  uint32_t count = 0;
  for (uint32_t i = 0; i < g->extents.nodes.count && count < MOST; i++) {
    if (g->extents.nodes.data[i].op != LW_EXTENT_SYMBOL) continue;
    names[count] = g->extents.nodes.data[i].symbol;
    values[count++] = 2;
  }
  assert_ok(lw__graph_bind_symbols(g, names, values, count, true));
}

static void check_model(const char *name) {
  char path[1024];
  lw_diag diag = {0};
  lw_graph before, after;
  lw_pass_options options;
  lw_text first = {0}, second = {0};
  snprintf(path, sizeof path, "%s/%s/model.onnx", models_folder, name);
  lw_status status = lw__onnx_import(path, NULL, &diag, &before);
  if (status == LW_STATUS_UNSUPPORTED || status == LW_STATUS_USAGE) {
    print_message("%s: not imported: %s\n", name, lw__diag_first_error(&diag));
    lw__diag_deinit(&diag);
    return;
  }
  assert_ok(status);
  bind_all(&before);
  lw__pass_options_init(&options);
  assert_ok(lw__graph_clone(&before, &after));
  int64_t begin = lw__now_ns();
  if (lw__pass_run(&after, &options, &diag) != LW_OK)
    fail_msg("%s: %s", name, lw__diag_first_error(&diag));
  int64_t passed = lw__now_ns();
  assert_true(after.nodes.count <= before.nodes.count);
  double deviations = kit_compare(&before, &after, 1, name);
  int64_t compared = lw__now_ns();
  print_message(
      "%s: %u nodes, then %u; passes %.1f ms, interpreter %.1f ms, error %.2g deviations\n", name,
      before.nodes.count, after.nodes.count, (double)(passed - begin) * 1e-6,
      (double)(compared - passed) * 1e-6, deviations);
  kit_print(&after, &first);
  assert_ok(lw__pass_run(&after, &options, &diag));
  kit_print(&after, &second);
  assert_string_equal(lw__text_str(&first), lw__text_str(&second));
  lw__text_deinit(&first);
  lw__text_deinit(&second);
  lw__graph_deinit(&after);
  lw__graph_deinit(&before);
  lw__diag_deinit(&diag);
}

static void models_keep_their_meaning(void **state) {
  (void)state;
  struct dirent **entries = NULL;
  int count = scandir(models_folder, &entries, NULL, alphasort);
  for (int i = 0; i < count; i++) {
    if (entries[i]->d_name[0] != '.') check_model(entries[i]->d_name);
    free(entries[i]);
  }
  free(entries);
}

int main(void) {
  DIR *folder = opendir(models_folder);
  if (folder == NULL) {
    print_message("skipped: there is no %s\n", models_folder);
    return 77;
  }
  closedir(folder);
  const struct CMUnitTest tests[] = {cmocka_unit_test(models_keep_their_meaning)};
  return cmocka_run_group_tests(tests, NULL, NULL);
}

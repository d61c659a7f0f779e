/* Building C kernels with the system's compiler: results, cache, failures, and nothing left behind.
 */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include <cmocka.h>
#include <dirent.h>
#include <dlfcn.h>
#include <sys/stat.h>
#include <unistd.h>

#include "compiler/build/internal.h"

static char folder[64];

static int make_folder(void **state) {
  (void)state;
  strcpy(folder, "/tmp/lawson-test-XXXXXX");
  return mkdtemp(folder) == NULL;
}

static int remove_folder(void **state) {
  (void)state;
  char command[128];
  snprintf(command, sizeof command, "rm -rf %s", folder);
  return system(command);
}

static uint32_t folder_entries(void) {
  uint32_t count = 0;
  DIR *dir = opendir(folder);
  assert_non_null(dir);
  for (struct dirent *e; (e = readdir(dir)) != NULL;) count += e->d_name[0] != '.';
  closedir(dir);
  return count;
}

static lw_build_options options_here(void) {
  return (lw_build_options){.path = getenv("PATH"), .tmp_dir = folder};
}

static void write_script(const char *name, const char *text, char *out_path) {
  sprintf(out_path, "%s/%s", folder, name);
  FILE *file = fopen(out_path, "w");
  assert_non_null(file);
  fputs(text, file);
  fclose(file);
  assert_int_equal(chmod(out_path, 0755), 0);
}

static float call_kernel(const void *image, size_t bytes, const char *name, float x) {
  char path[128];
  snprintf(path, sizeof path, "%s/loaded.so", folder);
  assert_int_equal(lw__file_write(path, image, bytes, NULL), LW_OK);
  void *handle = dlopen(path, RTLD_NOW);
  assert_non_null(handle);
  float (*kernel)(float);
  void *symbol = dlsym(handle, name);
  assert_non_null(symbol);
  memcpy(&kernel, &symbol, sizeof symbol);
  float y = kernel(x);
  dlclose(handle);
  unlink(path);
  return y;
}

static void test_builds_and_caches(void **state) {
  (void)state;
  lw_build_options options = options_here();
  lw_cache *cache;
  assert_int_equal(lw__cache_open(NULL, NULL, &cache), LW_OK);
  const char *names[5];
  char name_text[5][32], sources[5][128];
  lw_build_job jobs[5] = {0};
  for (int i = 0; i < 5; i++) {
    snprintf(name_text[i], sizeof name_text[i], "lw_map_%d", i);
    names[i] = name_text[i];
    snprintf(sources[i], sizeof sources[i], "float lw_map_%d(float x) { return x * %d; }\n", i,
             i + 1);
  }
  for (int round = 0; round < 2; round++) {
    lw_arena arena = {0};
    lw_diag diag = {0};
    for (int i = 0; i < 5; i++) {
      jobs[i] = (lw_build_job){.source = sources[i], .entries = &names[i], .entry_count = 1};
    }
    assert_int_equal(lw__build_cpu(jobs, 5, &options, cache, &arena, &diag), LW_OK);
    for (int i = 0; i < 5; i++) {
      assert_int_equal(jobs[i].from_cache, round == 1);
      assert_string_equal(jobs[i].log, "");
      assert_int_equal(jobs[i].report[0].registers, 0);
      assert_true(call_kernel(jobs[i].image, jobs[i].image_bytes, names[i], 3) ==
                  (float)(3 * (i + 1)));
    }
    assert_int_equal(diag.messages.count, 0);
    lw__diag_deinit(&diag);
    lw__arena_deinit(&arena);
  }
  /* Other flags are other images. */
  lw_arena arena = {0};
  options.cflags_extra = " -DX=1  -O1 ";
  assert_int_equal(lw__build_cpu(jobs, 1, &options, cache, &arena, NULL), LW_OK);
  assert_false(jobs[0].from_cache);
  lw__arena_deinit(&arena);
  lw__cache_close(cache);
  assert_int_equal(folder_entries(), 0);
}

/* One bad source among good ones: the log reaches the user and the good ones are cached. */
static void test_rejected_source(void **state) {
  (void)state;
  lw_build_options options = options_here();
  lw_arena arena = {0};
  lw_diag diag = {0};
  lw_cache *cache;
  assert_int_equal(lw__cache_open(NULL, NULL, &cache), LW_OK);
  const char *entry = "lw_map_bad", *good = "lw_map_good";
  lw_build_job jobs[2] = {
      {.source = "int lw_map_bad(void) { return undeclared_thing; }",
       .entries = &entry,
       .entry_count = 1},
      {.source = "int lw_map_good(void) { return 1; }", .entries = &good, .entry_count = 1}};
  assert_int_equal(lw__build_cpu(jobs, 2, &options, cache, &arena, &diag), LW_STATUS_DEVICE_FAILED);
  assert_non_null(strstr(lw__diag_first_error(&diag), "undeclared_thing"));
  assert_non_null(strstr(jobs[0].log, "undeclared_thing"));
  assert_null(jobs[0].image);
  assert_int_equal(lw__build_cpu(&jobs[1], 1, &options, cache, &arena, &diag), LW_OK);
  assert_true(jobs[1].from_cache);
  lw__cache_close(cache);
  lw__diag_deinit(&diag);
  lw__arena_deinit(&arena);
  assert_int_equal(folder_entries(), 0);
}

static lw_status build_with(lw_build_options options, const char *want_text) {
  lw_arena arena = {0};
  lw_diag diag = {0};
  const char *entry = "lw_map_one";
  lw_build_job job = {
      .source = "int lw_map_one(void) { return 1; }", .entries = &entry, .entry_count = 1};
  lw_status status = lw__build_cpu(&job, 1, &options, NULL, &arena, &diag);
  if (want_text != NULL && strstr(lw__diag_first_error(&diag), want_text) == NULL) {
    fail_msg("'%s' is not in '%s'", want_text, lw__diag_first_error(&diag));
  }
  lw__diag_deinit(&diag);
  lw__arena_deinit(&arena);
  return status;
}

static void test_finding_the_compiler(void **state) {
  (void)state;
  lw_build_options options = options_here();
  options.cc = "no-such-compiler";
  assert_int_equal(build_with(options, "'no-such-compiler' was not found"),
                   LW_STATUS_DEVICE_FAILED);
  options.cc = "/no/such/compiler";
  assert_int_equal(build_with(options, "was not found"), LW_STATUS_DEVICE_FAILED);
  options.cc = NULL;
  options.path = "/nowhere:.::relative";
  assert_int_equal(build_with(options, "no C compiler"), LW_STATUS_DEVICE_FAILED);
  options.path = NULL; /* the usual folders */
  assert_int_equal(build_with(options, NULL), LW_OK);
  options.path = getenv("PATH");
  options.cc = "cc -DSOME=1";
  assert_int_equal(build_with(options, NULL), LW_OK);
  options.cc = "gcc";
  assert_int_equal(build_with(options, NULL), LW_OK);
}

static void test_bad_compilers(void **state) {
  (void)state;
  char script[128];
  lw_build_options options = options_here();
  options.cc = script;
  write_script("silent", "#!/bin/sh\nexit 0\n", script);
  assert_int_equal(build_with(options, "wrote nothing"), LW_STATUS_DEVICE_FAILED);
  unlink(script);
  write_script("killed", "#!/bin/sh\n[ \"$1\" = --version ] || kill -9 $$\n", script);
  assert_int_equal(build_with(options, "fails (265)"), LW_STATUS_DEVICE_FAILED);
  unlink(script);
  write_script("refuses", "#!/bin/sh\necho no way >&2; exit 3\n", script);
  assert_int_equal(build_with(options, "--version fails (3): no way"), LW_STATUS_DEVICE_FAILED);
  unlink(script);
  write_script("chatty",
               "#!/bin/sh\n[ \"$1\" = --version ] || { yes | head -c 1000000; exit 1; }\n", script);
  assert_int_equal(build_with(options, "y\ny\n"), LW_STATUS_DEVICE_FAILED);
  unlink(script);
  /* It hangs, and so does the child that it started. */
  write_script("hangs", "#!/bin/sh\n[ \"$1\" = --version ] || { sleep 77.5 & sleep 77.5; }\n",
               script);
  options.limit_s = 1;
  int64_t start = lw__now_ns();
  assert_int_equal(build_with(options, "stopped after 1 s"), LW_STATUS_DEVICE_FAILED);
  assert_true(lw__now_ns() - start < INT64_C(20000000000));
  assert_int_not_equal(system("pgrep -f '^sleep 77.5' > /dev/null"), 0);
  unlink(script);
  assert_int_equal(folder_entries(), 0);
}

static void test_no_working_folder(void **state) {
  (void)state;
  lw_build_options options = options_here();
  options.tmp_dir = "/no/such/folder";
  assert_int_equal(build_with(options, "cannot make a working folder"), LW_STATUS_DEVICE_FAILED);
}

static void test_without_memory(void **state) {
  (void)state;
  lw_build_options options = options_here();
  options.threads = 1;
  const char *entry = "lw_map_one";
  uint64_t n = 1;
  for (;; n++) {
    lw_arena arena = {0};
    lw_diag diag = {0};
    lw_build_job job = {
        .source = "int lw_map_one(void) { return 1; }", .entries = &entry, .entry_count = 1};
    lw__mem_fail_at(n);
    lw_status status = lw__build_cpu(&job, 1, &options, NULL, &arena, &diag);
    lw__mem_fail_at(0);
    lw__diag_deinit(&diag);
    lw__arena_deinit(&arena);
    assert_int_equal(folder_entries(), 0);
    if (status == LW_OK) break;
    assert_int_equal(status, LW_STATUS_OUT_OF_MEMORY);
  }
  assert_true(n > 8);
}

int main(void) {
  const struct CMUnitTest tests[] = {
      cmocka_unit_test(test_builds_and_caches),    cmocka_unit_test(test_rejected_source),
      cmocka_unit_test(test_finding_the_compiler), cmocka_unit_test(test_bad_compilers),
      cmocka_unit_test(test_no_working_folder),    cmocka_unit_test(test_without_memory),
  };
  return cmocka_run_group_tests(tests, make_folder, remove_folder);
}

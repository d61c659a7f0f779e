/* Working folders of compilers: they go away with their owner, at the latest when the next one
 * comes. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include <cmocka.h>
#include <fcntl.h>
#include <signal.h>
#include <sys/stat.h>
#include <sys/wait.h>
#include <unistd.h>

#include "compiler/build/internal.h"

static char parent[64];

static int make_parent(void **state) {
  (void)state;
  strcpy(parent, "/tmp/lawson-test-XXXXXX");
  return mkdtemp(parent) == NULL;
}

static int remove_parent(void **state) {
  (void)state;
  char command[128];
  snprintf(command, sizeof command, "rm -rf %s", parent);
  return system(command);
}

static bool exists(const char *path) { return access(path, F_OK) == 0; }

static void put_file(const char *folder, const char *name) {
  char path[256];
  snprintf(path, sizeof path, "%s/%s", folder, name);
  int fd = open(path, O_WRONLY | O_CREAT, 0600);
  assert_true(fd >= 0);
  close(fd);
}

static void test_create_and_remove(void **state) {
  (void)state;
  lw_folder a, b;
  struct stat info;
  assert_int_equal(lw__folder_create(parent, NULL, &a), LW_OK);
  assert_int_equal(lw__folder_create(parent, NULL, &b), LW_OK);
  assert_string_not_equal(a.path.data, b.path.data);
  assert_int_equal(stat(a.path.data, &info), 0);
  assert_int_equal(info.st_mode & 0777, 0700);
  put_file(a.path.data, "kernels.c");
  put_file(a.path.data, "kernels.so");
  lw__folder_sweep(parent); /* ours are in use */
  char kept[128];
  snprintf(kept, sizeof kept, "%s", a.path.data);
  assert_true(exists(kept) && exists(b.path.data));
  lw__folder_remove(&a);
  assert_false(exists(kept));
  lw__folder_remove(&b);
}

static void test_no_parent(void **state) {
  (void)state;
  lw_diag diag = {0};
  lw_folder folder;
  assert_int_equal(lw__folder_create("/proc/nowhere", &diag, &folder), LW_STATUS_DEVICE_FAILED);
  assert_non_null(strstr(lw__diag_first_error(&diag), "cannot make a working folder"));
  lw__folder_remove(&folder);
  lw__folder_sweep("/proc/nowhere");
  lw__diag_deinit(&diag);
}

/* A process that is killed with a folder in use; |path| gets the folder's name. */
static pid_t start_child(char *path, size_t bytes) {
  int ends[2];
  assert_int_equal(pipe(ends), 0);
  pid_t child = fork();
  if (child == 0) {
    lw_folder folder;
    if (lw__folder_create(parent, NULL, &folder) != LW_OK) _exit(1);
    put_file(folder.path.data, "kernels.c");
    if (write(ends[1], folder.path.data, folder.path.len + 1) < 0) _exit(1);
    for (;;) pause();
  }
  assert_true(read(ends[0], path, bytes) > 0);
  close(ends[0]);
  close(ends[1]);
  return child;
}

static void test_killed(void **state) {
  (void)state;
  char path[256];
  pid_t child = start_child(path, sizeof path);
  lw__folder_sweep(parent);
  assert_true(exists(path));
  kill(child, SIGKILL);
  assert_int_equal(waitpid(child, NULL, 0), child);
  assert_true(exists(path));
  lw__folder_sweep(parent);
  assert_false(exists(path));
}

/* Nothing else is touched: other names, other kinds, other modes. */
static void test_others(void **state) {
  (void)state;
  static const char *const names[] = {"lawson-build-", "lawson-build-1234567",
                                      "lawson-builx-123456", "xlawson-build-123456"};
  char path[256];
  for (size_t i = 0; i < LW_ARRAY_COUNT(names); i++) {
    snprintf(path, sizeof path, "%s/%s", parent, names[i]);
    assert_int_equal(mkdir(path, 0700), 0);
  }
  snprintf(path, sizeof path, "%s/lawson-build-public", parent);
  assert_int_equal(mkdir(path, 0755), 0);
  put_file(parent, "lawson-build-a_file");
  snprintf(path, sizeof path, "%s/lawson-build-a_link", parent);
  assert_int_equal(symlink(parent, path), 0);
  lw__folder_sweep(parent);
  snprintf(path, sizeof path, "test $(ls %s | wc -l) = 7", parent);
  assert_int_equal(system(path), 0);
}

/* Many at once, sweeping all the time: nobody loses a folder that is in use. */
static int busy_child(void) {
  for (int i = 0; i < 60; i++) {
    lw_folder folder;
    char path[256];
    lw__folder_sweep(parent);
    if (lw__folder_create(parent, NULL, &folder) != LW_OK) return 1;
    snprintf(path, sizeof path, "%s/kernels.c", folder.path.data);
    int fd = open(path, O_WRONLY | O_CREAT, 0600);
    if (fd < 0) return 2;
    close(fd);
    lw__folder_sweep(parent);
    if (!exists(path)) return 3;
    lw__folder_remove(&folder);
  }
  return 0;
}

static void test_at_once(void **state) {
  (void)state;
  pid_t children[6];
  for (int i = 0; i < 6; i++) {
    children[i] = fork();
    if (children[i] == 0) _exit(busy_child());
  }
  for (int i = 0; i < 6; i++) {
    int result;
    assert_int_equal(waitpid(children[i], &result, 0), children[i]);
    assert_true(WIFEXITED(result));
    assert_int_equal(WEXITSTATUS(result), 0);
  }
}

#define CASE(test) cmocka_unit_test_setup_teardown(test, make_parent, remove_parent)

int main(void) {
  const struct CMUnitTest tests[] = {CASE(test_create_and_remove), CASE(test_no_parent),
                                     CASE(test_killed), CASE(test_others), CASE(test_at_once)};
  return cmocka_run_group_tests(tests, NULL, NULL);
}

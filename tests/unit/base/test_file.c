/* test_file.c: mappings, what may be opened below a folder, and writing in one step. */
#include <errno.h>
#include <fcntl.h>
#include <stdio.h>
#include <stdlib.h>
#include <sys/stat.h>
#include <unistd.h>

#include "unit.h"

#include "base/internal.h"

/* A folder of its own for each test; every name below is relative to it. */
typedef struct file_fixture {
  char dir[64];
  lw_diag diag;
} file_fixture;

static int setup(void **state) {
  file_fixture *fixture = calloc(1, sizeof *fixture);
  if (fixture == NULL) return -1;
  *state = fixture;
  (void)snprintf(fixture->dir, sizeof fixture->dir, "/tmp/lawson-test-XXXXXX");
  return mkdtemp(fixture->dir) == NULL ? -1 : 0;
}

static int teardown(void **state) {
  file_fixture *fixture = *state;
  char command[128];
  (void)snprintf(command, sizeof command, "rm -rf %s", fixture->dir);
  int status = system(command);
  lw__diag_deinit(&fixture->diag);
  free(fixture);
  return status;
}

static const char *path_in(const file_fixture *fixture, const char *name, char out[256]) {
  (void)snprintf(out, 256, "%s/%s", fixture->dir, name);
  return out;
}

static void put(file_fixture *fixture, const char *name, const char *text) {
  char path[256];
  assert_ok(lw__file_write(path_in(fixture, name, path), text, strlen(text), &fixture->diag));
}

static void make_folder(const file_fixture *fixture, const char *name) {
  char path[256];
  assert_int_equal(mkdir(path_in(fixture, name, path), 0755), 0);
}

static void make_link(const file_fixture *fixture, const char *target, const char *name) {
  char path[256];
  assert_int_equal(symlink(target, path_in(fixture, name, path)), 0);
}

static void test_map(void **state) {
  file_fixture *fixture = *state;
  char path[256];
  lw_file_map map;
  put(fixture, "a", "hello");
  assert_ok(lw__file_map(path_in(fixture, "a", path), &fixture->diag, &map));
  assert_int_equal(map.bytes, 5);
  assert_memory_equal(map.data, "hello", 5);
  lw__file_unmap(&map);
  assert_null(map.data);
  lw__file_unmap(&map);
  put(fixture, "empty", "");
  assert_ok(lw__file_map(path_in(fixture, "empty", path), &fixture->diag, &map));
  assert_null(map.data);
  assert_int_equal(map.bytes, 0);
  assert_int_equal(fixture->diag.messages.count, 0);

  assert_int_equal(lw__file_map(path_in(fixture, "none", path), &fixture->diag, &map),
                   LW_STATUS_NOT_FOUND);
  assert_string_equal(fixture->diag.messages.data[0].where, path);
  assert_int_equal(lw__file_map(fixture->dir, &fixture->diag, &map), LW_STATUS_IO);
  assert_int_equal(lw__file_map("/dev/zero", NULL, &map), LW_STATUS_IO);
  assert_int_equal(mkfifo(path_in(fixture, "pipe", path), 0644), 0);
  assert_int_equal(lw__file_map(path, NULL, &map), LW_STATUS_IO); /* and does not wait */
}

static lw_status beneath(file_fixture *fixture, lw_str name, size_t *out_bytes) {
  lw_file_map map;
  lw_status status = lw__file_map_beneath(fixture->dir, name, &fixture->diag, &map);
  if (out_bytes != NULL) *out_bytes = map.bytes;
  lw__file_unmap(&map);
  return status;
}

static void test_beneath_accepts(void **state) {
  file_fixture *fixture = *state;
  make_folder(fixture, "sub");
  put(fixture, "weights", "12345");
  put(fixture, "sub/..b", "123");
  static const char *const names[] = {"weights", "./weights", "sub/..b", "sub//..b", "./sub/./..b"};
  for (size_t i = 0; i < LW_ARRAY_COUNT(names); i++) {
    size_t bytes = 0;
    assert_ok(beneath(fixture, lw__str_of(names[i]), &bytes));
    assert_int_equal(bytes, strstr(names[i], "weights") != NULL ? 5 : 3);
  }
  assert_int_equal(beneath(fixture, lw__str("weights.bin", 7), NULL), LW_OK); /* not NUL-ended */
  assert_int_equal(beneath(fixture, lw__str_of("sub/none"), NULL), LW_STATUS_NOT_FOUND);
  lw_file_map map;
  assert_int_equal(lw__file_map_beneath("/nonexistent", lw__str_of("a"), NULL, &map),
                   LW_STATUS_NOT_FOUND);
}

static void test_beneath_refuses(void **state) {
  file_fixture *fixture = *state;
  char path[256], other[256];
  make_folder(fixture, "sub");
  make_folder(fixture, "sub/deep");
  put(fixture, "secret", "x");
  put(fixture, "sub/own", "x");
  put(fixture, "sub/twin", "x");
  assert_int_equal(link(path_in(fixture, "sub/twin", path), path_in(fixture, "twin", other)), 0);
  make_link(fixture, "../secret", "sub/out");
  make_link(fixture, "own", "sub/in");
  make_link(fixture, "deep", "sub/folder");
  make_link(fixture, "loop", "sub/loop");
  put(fixture, "sub/deep/file", "x");
  assert_int_equal(mkfifo(path_in(fixture, "sub/pipe", path), 0644), 0);
  (void)snprintf(fixture->dir + strlen(fixture->dir), 8, "/sub");
  char absolute[256];
  path_in(fixture, "own", absolute);
  char longest[5000];
  memset(longest, 'a', sizeof longest);
  const lw_str names[] = {
      lw__str_of(""),          lw__str_of("/"),        lw__str_of(absolute),
      lw__str_of("../secret"), lw__str_of(".."),       lw__str_of("deep/../own"),
      lw__str_of("deep/.."),   lw__str("own\0x", 5),   lw__str("\0", 1),
      lw__str_of("own/"),      lw__str_of("out"),      lw__str_of("in"),
      lw__str_of("loop"),      lw__str_of("twin"),     lw__str_of("folder/file"),
      lw__str_of("own/file"),  lw__str_of("."),        lw__str_of("deep"),
      lw__str_of("pipe"),      lw__str(longest, 5000),
  };
  for (size_t i = 0; i < LW_ARRAY_COUNT(names); i++) {
    assert_int_equal(beneath(fixture, names[i], NULL), LW_STATUS_MODEL_INVALID);
  }
  assert_int_equal(fixture->diag.messages.count, LW_ARRAY_COUNT(names));
  assert_ok(beneath(fixture, lw__str_of("own"), NULL));
  assert_ok(beneath(fixture, lw__str_of("deep/file"), NULL));
  fixture->dir[strlen(fixture->dir) - 4] = '\0';
}

/* The kernel's way and the walk open and refuse the same names. */
static void test_walk_agrees(void **state) {
  file_fixture *fixture = *state;
  make_folder(fixture, "sub");
  put(fixture, "sub/own", "x");
  make_link(fixture, "own", "sub/in");
  make_link(fixture, "sub", "folder");
  make_link(fixture, "/etc", "etc");
  int dir = open(fixture->dir, O_PATH | O_DIRECTORY | O_CLOEXEC);
  assert_true(dir >= 0);
  static const char *const names[] = {"sub/own",    "./sub//own", "sub/in",      "folder/own",
                                      "etc/passwd", "sub",        "sub/own/own", "sub/absent",
                                      "absent/own", "."};
  static const bool opens[] = {true, true, false, false, false, true, false, false, false, true};
  bool kernel_has_it = true;
  for (size_t i = 0; i < LW_ARRAY_COUNT(names); i++) {
    int fd = lw__file_open_walk(dir, names[i]);
    assert_int_equal(fd >= 0, opens[i]);
    if (fd >= 0) close(fd);
    fd = lw__file_open_kernel(dir, names[i]);
    if (fd < 0 && (errno == ENOSYS || errno == EPERM)) kernel_has_it = false;
    if (kernel_has_it) assert_int_equal(fd >= 0, opens[i]);
    if (fd >= 0) close(fd);
  }
  char part[400];
  memset(part, 'a', sizeof part);
  part[sizeof part - 1] = '\0';
  assert_int_equal(lw__file_open_walk(dir, part), -1);
  assert_int_equal(errno, ENAMETOOLONG);
  close(dir);
}

static int open_files(void) {
  int count = 0;
  for (int fd = 0; fd < 256; fd++) count += fcntl(fd, F_GETFD) != -1;
  return count;
}

static void test_nothing_stays_open(void **state) {
  file_fixture *fixture = *state;
  int before = open_files();
  for (int i = 0; i < 3; i++) {
    put(fixture, "a", "x");
    assert_ok(beneath(fixture, lw__str_of("a"), NULL));
    assert_int_equal(beneath(fixture, lw__str_of("b"), NULL), LW_STATUS_NOT_FOUND);
    assert_int_equal(beneath(fixture, lw__str_of("."), NULL), LW_STATUS_MODEL_INVALID);
    int dir = open(fixture->dir, O_PATH | O_DIRECTORY | O_CLOEXEC);
    assert_int_equal(lw__file_open_walk(dir, "b/c/d"), -1);
    close(dir);
  }
  assert_int_equal(open_files(), before);
}

static void test_write(void **state) {
  file_fixture *fixture = *state;
  char path[256], other[256];
  lw_file_map old, map;
  put(fixture, "a", "first");
  path_in(fixture, "a", path);
  assert_ok(lw__file_map(path, &fixture->diag, &old));
  put(fixture, "a", "second");
  assert_memory_equal(old.data, "first", 5); /* replaced, not changed */
  lw__file_unmap(&old);
  assert_ok(lw__file_map(path, &fixture->diag, &map));
  assert_memory_equal(map.data, "second", 6);
  lw__file_unmap(&map);
  make_link(fixture, "a", "link");
  put(fixture, "link", "through");
  struct stat info;
  assert_int_equal(lstat(path_in(fixture, "link", other), &info), 0);
  assert_true(S_ISLNK(info.st_mode));
  assert_ok(lw__file_map(path, &fixture->diag, &map));
  assert_memory_equal(map.data, "through", 7);
  lw__file_unmap(&map);
}

static void test_write_fails(void **state) {
  file_fixture *fixture = *state;
  char path[256];
  make_folder(fixture, "folder");
  assert_int_equal(lw__file_write(path_in(fixture, "folder", path), "x", 1, NULL), LW_STATUS_IO);
  assert_int_equal(lw__file_write(path_in(fixture, "none/a", path), "x", 1, &fixture->diag),
                   LW_STATUS_NOT_FOUND);
  assert_int_equal(lw__file_write("/dev/full", "x", 1, NULL), LW_STATUS_IO);
  assert_ok(lw__file_write("/dev/null", "x", 1, NULL));
  struct stat info;
  assert_int_equal(stat("/dev/null", &info), 0);
  assert_true(S_ISCHR(info.st_mode)); /* still the device */
  assert_int_equal(rmdir(path_in(fixture, "folder", path)), 0);
  assert_int_equal(rmdir(fixture->dir), 0); /* nothing was left behind */
  assert_int_equal(mkdir(fixture->dir, 0755), 0);
}

static void test_clock(void **state) {
  (void)state;
  int64_t before = lw__now_ns();
  assert_true(before > 0);
  usleep(2000);
  assert_true(lw__now_ns() - before >= 2000000);
}

#define with_folder(test) cmocka_unit_test_setup_teardown(test, setup, teardown)

int main(void) {
  const struct CMUnitTest tests[] = {
      with_folder(test_map),
      with_folder(test_beneath_accepts),
      with_folder(test_beneath_refuses),
      with_folder(test_walk_agrees),
      with_folder(test_nothing_stays_open),
      with_folder(test_write),
      with_folder(test_write_fails),
      cmocka_unit_test(test_clock),
  };
  return cmocka_run_group_tests(tests, NULL, NULL);
}

/* The kernel cache: entries come back as they were put, damage of any kind is survived, strangers
 * are not trusted, and several processes share one file. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include <cmocka.h>
#include <fcntl.h>
#include <pthread.h>
#include <sched.h>
#include <sqlite3.h>
#include <sys/mount.h>
#include <sys/stat.h>
#include <sys/wait.h>
#include <unistd.h>

#include "compiler/build/build_kernels.h"

static char folder[64], file[80];

static void run_shell(const char *fmt, ...) {
  char command[512];
  va_list args;
  va_start(args, fmt);
  vsnprintf(command, sizeof command, fmt, args);
  va_end(args);
  assert_int_equal(system(command), 0);
}

static int make_folder(void **state) {
  (void)state;
  strcpy(folder, "/tmp/lawson-test-XXXXXX");
  if (mkdtemp(folder) == NULL) return 1;
  strcat(folder, "/a/b");
  snprintf(file, sizeof file, "%s/kernels.db", folder);
  return 0;
}

static int remove_folder(void **state) {
  (void)state;
  run_shell("rm -rf %.*s", 23, folder);
  return 0;
}

static lw_hash key_of(uint64_t n) { return (lw_hash){n, n * 77 + 5}; }

static size_t fill(uint8_t *data, uint64_t n) {
  size_t bytes = (size_t)(n * 7919 % 60000);
  lw_rng rng;
  lw__rng_seed(&rng, n);
  for (size_t i = 0; i < bytes; i++) data[i] = (uint8_t)lw__rng_u64(&rng);
  return bytes;
}

static lw_status put(lw_cache *cache, uint64_t n) {
  static _Thread_local uint8_t data[60000];
  size_t bytes = fill(data, n);
  return lw__cache_put(cache, "so", key_of(n), "name", data, bytes);
}

/* True when the entry is there; it must be right then. */
static bool get(lw_cache *cache, uint64_t n) {
  static _Thread_local uint8_t want[60000];
  lw_arena arena = {0};
  const void *data;
  size_t bytes;
  lw_status status = lw__cache_get(cache, "so", key_of(n), &arena, &data, &bytes);
  if (status == LW_OK) {
    assert_int_equal(bytes, fill(want, n));
    assert_memory_equal(data, want, bytes);
  } else {
    assert_int_equal(status, LW_STATUS_NOT_FOUND);
  }
  lw__arena_deinit(&arena);
  return status == LW_OK;
}

static lw_cache *open_cache(const char *where, const char *mode) {
  lw_cache *cache;
  lw_diag diag = {0};
  assert_int_equal(lw__cache_open(where, &diag, &cache), LW_OK);
  if (strcmp(lw__cache_mode(cache), mode) != 0) {
    fail_msg("cache is %s, not %s: %s", lw__cache_mode(cache), mode,
             diag.messages.count == 0 ? "" : diag.messages.data[0].text);
  }
  if (strcmp(mode, "memory") == 0 && where != NULL) assert_int_not_equal(diag.messages.count, 0);
  for (uint32_t i = 0; i < diag.messages.count; i++) {
    assert_int_equal(diag.messages.data[i].severity, LW_SEVERITY_WARNING);
  }
  lw__diag_deinit(&diag);
  return cache;
}

static void test_entries(void **state) {
  (void)state;
  for (int in_memory = 0; in_memory < 2; in_memory++) {
    lw_cache *cache = open_cache(in_memory ? NULL : folder, in_memory ? "memory" : "file");
    for (uint64_t n = 0; n < 20; n++) {
      assert_false(get(cache, n));
      assert_int_equal(put(cache, n), LW_OK);
      assert_true(get(cache, n));
      assert_int_equal(put(cache, n), LW_OK);
    }
    lw_arena arena = {0};
    const void *data;
    size_t bytes;
    assert_int_equal(lw__cache_get(cache, "cubin", key_of(3), &arena, &data, &bytes),
                     LW_STATUS_NOT_FOUND);
    assert_int_equal(lw__cache_put(cache, "so", key_of(99), "", NULL, 0), LW_OK);
    assert_int_equal(lw__cache_get(cache, "so", key_of(99), &arena, &data, &bytes), LW_OK);
    assert_int_equal(bytes, 0);
    lw__arena_deinit(&arena);
    lw__cache_close(cache);
  }
  lw_cache *cache = open_cache(folder, "file");
  for (uint64_t n = 0; n < 20; n++) assert_true(get(cache, n));
  lw__cache_close(cache);
  struct stat info;
  assert_int_equal(stat(folder, &info), 0);
  assert_int_equal(info.st_mode & 0777, 0700);
  assert_int_equal(stat(file, &info), 0);
  assert_int_equal(info.st_mode & 0777, 0600);
}

static void sql(const char *text) {
  sqlite3 *db;
  assert_int_equal(sqlite3_open(file, &db), SQLITE_OK);
  char *message = NULL;
  if (sqlite3_exec(db, text, NULL, NULL, &message) != SQLITE_OK) fail_msg("%s", message);
  assert_int_equal(sqlite3_close(db), SQLITE_OK);
}

static void test_damaged_entry(void **state) {
  (void)state;
  lw_cache *cache = open_cache(folder, "file");
  for (uint64_t n = 1; n < 4; n++) assert_int_equal(put(cache, n), LW_OK);
  lw__cache_close(cache);
  sql("UPDATE entry SET image = zeroblob(length(image)) WHERE id = 1;"
      "UPDATE entry SET checksum = x'00' WHERE id = 2");
  cache = open_cache(folder, "file");
  assert_false(get(cache, 1));
  assert_false(get(cache, 2));
  assert_true(get(cache, 3));
  assert_int_equal(put(cache, 1), LW_OK);
  assert_true(get(cache, 1));
  lw__cache_close(cache);
}

/* The file is overwritten here and there, cut off, or replaced by something else: opening and using
 * it works all the same. */
static void test_damaged_file(void **state) {
  (void)state;
  for (uint64_t seed = 0; seed < 120; seed++) {
    lw_rng rng;
    lw__rng_seed(&rng, seed);
    run_shell("rm -rf %s", folder);
    lw_cache *cache = open_cache(folder, "file");
    for (uint64_t n = 1; n < 6; n++) assert_int_equal(put(cache, n), LW_OK);
    lw__cache_close(cache);
    struct stat info;
    assert_int_equal(stat(file, &info), 0);
    int fd = open(file, O_RDWR);
    if (seed % 4 == 0) {
      assert_int_equal(ftruncate(fd, lw__rng_range(&rng, 0, info.st_size)), 0);
    } else {
      int64_t writes = seed % 4 == 1 ? 1 : 60;
      for (int64_t i = 0; i < writes; i++) {
        uint64_t noise = lw__rng_u64(&rng);
        int64_t limit = seed % 4 == 3 ? 200 : info.st_size; /* the header, or anywhere */
        assert_int_equal(pwrite(fd, &noise, 8, lw__rng_range(&rng, 0, limit)), 8);
      }
    }
    close(fd);
    lw_diag diag = {0};
    assert_int_equal(lw__cache_open(folder, &diag, &cache), LW_OK);
    for (uint64_t n = 1; n < 6; n++) (void)get(cache, n);
    for (uint64_t n = 1; n < 6; n++) {
      (void)!put(cache, n);
      (void)get(cache, n);
    }
    lw__cache_close(cache);
    lw__diag_deinit(&diag);
  }
  run_shell("rm -rf %s && mkdir -p -m 700 %s && echo no database at all, really not > %s", folder,
            folder, file);
  lw_cache *cache = open_cache(folder, "file");
  assert_int_equal(put(cache, 1), LW_OK);
  assert_true(get(cache, 1));
  lw__cache_close(cache);
  run_shell("test -f %s.bad", file);
}

/* Corruption that shows only while the file is in use. Whatever is hit, wrong bytes never come out,
 * and when everything was put again twice at most, everything is there: a damaged file is replaced
 * when it is noticed. */
static void test_damage_while_open(void **state) {
  (void)state;
  for (uint64_t seed = 0; seed < 25; seed++) {
    run_shell("rm -rf %s", folder);
    lw_cache *cache = open_cache(folder, "file");
    for (uint64_t n = 1; n < 40; n++) assert_int_equal(put(cache, n), LW_OK);
    lw__cache_close(cache);
    cache = open_cache(folder, "file");
    lw_rng rng;
    lw__rng_seed(&rng, seed);
    int fd = open(file, O_RDWR);
    for (int64_t at = 4096; at < 200 * 4096; at += 8) {
      uint64_t noise = lw__rng_u64(&rng);
      if (seed == 0 || lw__rng_uniform(&rng) < 0.01) assert_int_equal(pwrite(fd, &noise, 8, at), 8);
    }
    close(fd);
    uint32_t there = 0;
    for (uint64_t n = 1; n < 40; n++) there += get(cache, n);
    assert_true(there < 39);
    for (int round = 0; round < 3 && there < 39; round++) {
      there = 0;
      for (uint64_t n = 1; n < 40; n++) (void)!put(cache, n);
      for (uint64_t n = 1; n < 40; n++) there += get(cache, n);
    }
    assert_int_equal(there, 39);
    lw__cache_close(cache);
  }
}

static void test_strangers(void **state) {
  (void)state;
  lw__cache_close(open_cache(folder, "file"));
  run_shell("chmod 0770 %s", folder);
  lw__cache_close(open_cache(folder, "memory"));
  run_shell("chmod 0755 %s", folder);
  lw__cache_close(open_cache(folder, "file"));
  /* A link to a folder of ours will do (~/.cache is one on many machines). */
  run_shell("mv %s %s.real && ln -s %s.real %s", folder, folder, folder, folder);
  lw__cache_close(open_cache(folder, "file"));
  run_shell("rm %s && mv %s.real %s", folder, folder, folder);
  run_shell("chmod 0666 %s", file);
  lw__cache_close(open_cache(folder, "memory"));
  run_shell("mv %s %s.x && ln -s kernels.db.x %s", file, file, file);
  lw__cache_close(open_cache(folder, "memory"));
  run_shell("rm %s && mkfifo %s", file, file);
  lw__cache_close(open_cache(folder, "memory"));
  run_shell("rm %s && mkdir %s", file, file);
  lw__cache_close(open_cache(folder, "memory"));
  lw__cache_close(open_cache("/proc/nowhere", "memory"));
  lw__cache_close(open_cache("", "memory"));
  if (geteuid() == 0) {
    run_shell("rm -rf %s && mkdir -m 700 %s && chown 12345 %s", folder, folder, folder);
    lw__cache_close(open_cache(folder, "memory"));
  }
}

/* A database of some other program, and one of a later version of ours, are left alone. */
static void test_others_files(void **state) {
  (void)state;
  run_shell("mkdir -p -m 700 %s", folder);
  sql("CREATE TABLE precious(x); INSERT INTO precious VALUES(1)");
  lw__cache_close(open_cache(folder, "memory"));
  sql("SELECT x FROM precious");
  run_shell("rm -rf %s", folder);
  lw__cache_close(open_cache(folder, "file"));
  sql("PRAGMA user_version = 1000");
  lw__cache_close(open_cache(folder, "memory"));
  sql("SELECT id FROM entry");
}

static void test_older_version(void **state) {
  (void)state;
  lw_cache *cache = open_cache(folder, "file");
  assert_int_equal(put(cache, 1), LW_OK);
  lw__cache_close(cache);
  sql("PRAGMA user_version = 0; DROP TABLE entry; CREATE TABLE entry(other)");
  cache = open_cache(folder, "file");
  assert_false(get(cache, 1));
  assert_int_equal(put(cache, 1), LW_OK);
  assert_true(get(cache, 1));
  lw__cache_close(cache);
}

/* As another user (root may write everywhere). */
static int read_only_child(void) {
  if (setgid(65534) != 0 || setuid(65534) != 0) return 77;
  lw_cache *cache;
  if (lw__cache_open(folder, NULL, &cache) != LW_OK) return 1;
  if (strcmp(lw__cache_mode(cache), "read-only") != 0) return 2;
  if (!get(cache, 1) || get(cache, 2)) return 3;
  if (put(cache, 2) != LW_STATUS_IO) return 4;
  lw__cache_close(cache);
  return 0;
}

static void test_read_only(void **state) {
  (void)state;
  if (geteuid() != 0) {
    print_message("needs root to become another user: skipped\n");
    return;
  }
  lw_cache *cache = open_cache(folder, "file");
  assert_int_equal(put(cache, 1), LW_OK);
  lw__cache_close(cache);
  run_shell("chmod 755 %.*s %.*s/a && chown -R 65534:65534 %s && chmod 0400 %s && chmod 0500 %s",
            23, folder, 23, folder, folder, file, folder);
  pid_t child = fork();
  if (child == 0) _exit(read_only_child());
  int result;
  assert_int_equal(waitpid(child, &result, 0), child);
  assert_true(WIFEXITED(result));
  if (WEXITSTATUS(result) != 77) assert_int_equal(WEXITSTATUS(result), 0);
}

/* ---- what is said ---- */

/* The one message there is holds |says|; "": there is none. */
static void assert_says(lw_diag *diag, const char *says) {
  assert_int_equal(diag->messages.count, says[0] == '\0' ? 0 : 1);
  if (says[0] == '\0') return;
  assert_int_equal(diag->messages.data[0].severity, LW_SEVERITY_WARNING);
  if (strstr(diag->messages.data[0].text, says) == NULL) {
    fail_msg("%s", diag->messages.data[0].text);
  }
  lw__diag_deinit(diag);
}

static void test_says_damage_once(void **state) {
  (void)state;
  lw_diag diag = {0};
  lw_cache *cache = open_cache(folder, "file");
  for (uint64_t n = 1; n < 4; n++) assert_int_equal(put(cache, n), LW_OK);
  lw__cache_report(cache, &diag);
  assert_says(&diag, "");
  sql("UPDATE entry SET image = zeroblob(length(image)) WHERE id < 3");
  for (uint64_t n = 1; n < 4; n++) (void)get(cache, n);
  lw__cache_report(cache, &diag);
  assert_says(&diag, "2 damaged entries were removed");
  lw__cache_report(cache, &diag);
  assert_says(&diag, "");
  lw__cache_close(cache);
}

/* On a file system of its own, which this process alone sees. 77: not allowed to make one. */
static int small_disk_child(void) {
  char text[200];
  if (unshare(CLONE_NEWNS) != 0 || mount("none", "/", NULL, MS_REC | MS_PRIVATE, NULL) != 0) {
    return 77;
  }
  snprintf(text, sizeof text, "mkdir -p -m 700 %s", folder);
  if (system(text) != 0) return 1;
  if (mount("none", folder, "tmpfs", 0, "size=512k,mode=700") != 0) return 77;
  lw_cache *cache = open_cache(folder, "file");
  lw_diag diag = {0};
  uint64_t kept = 0;
  while (kept < 100 && put(cache, 1000 + kept) == LW_OK) kept++;
  if (kept < 2 || kept == 100) return 2;
  lw__cache_report(cache, &diag);
  assert_says(&diag, "what was built is not kept in the cache: the disk is full");
  if (!get(cache, 1000) || get(cache, 1000 + kept)) return 3;
  lw__cache_close(cache);
  if (umount(folder) != 0 || mount("none", folder, "tmpfs", 0, "size=1m,mode=700") != 0) return 7;
  cache = open_cache(folder, "file");
  if (put(cache, 1000) != LW_OK) return 8;
  lw__cache_close(cache);
  if (mount(NULL, folder, NULL, MS_REMOUNT | MS_RDONLY, NULL) != 0) return 77;
  cache = open_cache(folder, "read-only");
  if (!get(cache, 1000) || put(cache, 1) != LW_STATUS_IO) return 4;
  lw__cache_report(cache, &diag);
  assert_says(&diag, "not kept in the cache: it may only be read");
  lw__cache_close(cache);
  umount(folder);
  if (mount("none", folder, "tmpfs", MS_RDONLY, "mode=700") != 0) return 5;
  if (lw__cache_open(folder, &diag, &cache) != LW_OK) return 6;
  assert_says(&diag, "it may only be read, and there is no kernels.db in it");
  lw__cache_close(cache);
  return 0;
}

static void test_small_disk(void **state) {
  (void)state;
  pid_t child = fork();
  if (child == 0) _exit(small_disk_child());
  int result;
  assert_int_equal(waitpid(child, &result, 0), child);
  assert_true(WIFEXITED(result));
  if (WEXITSTATUS(result) == 77) {
    print_message("needs a file system of its own: skipped\n");
    return;
  }
  assert_int_equal(WEXITSTATUS(result), 0);
}

/* ---- what goes first ---- */

/* n entries of 10,000 bytes, numbered 1 .. count; the first was used longest ago. */
static void put_in_order(lw_cache *cache, uint64_t count) {
  static const char zeros[10000];
  for (uint64_t n = 1; n <= count; n++) {
    assert_int_equal(lw__cache_put(cache, "plan", (lw_hash){n, n}, "a model", zeros, sizeof zeros),
                     LW_OK);
  }
}

static bool has_plan(lw_cache *cache, uint64_t n) {
  lw_arena arena = {0};
  const void *data;
  size_t bytes;
  bool has = lw__cache_get(cache, "plan", (lw_hash){n, n}, &arena, &data, &bytes) == LW_OK;
  lw__arena_deinit(&arena);
  return has;
}

static void test_prune(void **state) {
  (void)state;
  lw_cache *cache = open_cache(folder, "file");
  lw_cache_pruned pruned;
  lw_cache_entry *list;
  lw_arena arena = {0};
  uint32_t count;
  put_in_order(cache, 10);
  sql("UPDATE entry SET used = 1000 + id; UPDATE entry SET used = 5000 WHERE id = 2");
  assert_int_equal(lw__cache_list(cache, &arena, &list, &count), LW_OK);
  assert_int_equal(count, 10);
  assert_int_equal(list[0].key.lo, 2); /* most recently used first */
  assert_int_equal(list[0].used_s, 5000);
  assert_int_equal(list[1].key.lo, 10);
  assert_string_equal(list[1].name, "a model");
  assert_string_equal(list[1].kind, "plan");
  assert_int_equal(list[1].bytes, 10000);
  lw__arena_deinit(&arena);
  assert_int_equal(lw__cache_prune(cache, UINT64_MAX, 1004, &pruned), LW_OK);
  assert_int_equal(pruned.removed, 2); /* 1 and 3 */
  assert_int_equal(pruned.left, 8);
  assert_int_equal(pruned.removed_bytes, 20000);
  assert_int_equal(lw__cache_prune(cache, 45000, INT64_MIN, &pruned), LW_OK);
  assert_int_equal(pruned.left, 4); /* 2, 10, 9, 8 */
  for (uint64_t n = 1; n <= 10; n++) assert_int_equal(has_plan(cache, n), n == 2 || n >= 8);
  assert_int_equal(lw__cache_prune(cache, 0, INT64_MIN, &pruned), LW_OK);
  assert_int_equal(pruned.left, 0);
  struct stat info;
  assert_int_equal(stat(file, &info), 0);
  assert_true(info.st_size < 100000);
  lw__cache_remove(cache, "plan", (lw_hash){1, 1}); /* nothing there */
  put_in_order(cache, 2);
  lw__cache_remove(cache, "plan", (lw_hash){1, 1});
  assert_false(has_plan(cache, 1));
  assert_true(has_plan(cache, 2));
  lw__cache_close(cache);
}

static void test_limit(void **state) {
  (void)state;
  lw_cache *cache = open_cache(folder, "file");
  lw__cache_limit(cache, 200000);
  put_in_order(cache, 100);
  assert_true(has_plan(cache, 100));
  assert_false(has_plan(cache, 1));
  uint32_t there = 0;
  for (uint64_t n = 1; n <= 100; n++) there += has_plan(cache, n);
  assert_in_range(there, 8, 20);
  for (uint64_t n = 101 - there; n <= 100; n++) assert_true(has_plan(cache, n));
  lw__cache_close(cache);
  struct stat info;
  assert_int_equal(stat(file, &info), 0);
  assert_true(info.st_size < 400000);
}

#define PROCESSES 8
#define PER_PROCESS 25

/* Puts its own entries, and meanwhile puts and reads some that all processes share. */
static int share_child(uint64_t which) {
  lw_cache *cache;
  if (lw__cache_open(folder, NULL, &cache) != LW_OK) return 1;
  if (strcmp(lw__cache_mode(cache), "file") != 0) return 2;
  for (uint64_t i = 0; i < PER_PROCESS; i++) {
    if (put(cache, 1000 + which * PER_PROCESS + i) != LW_OK) return 3;
    if (put(cache, i) != LW_OK) return 4;
    if (!get(cache, i)) return 5;
  }
  lw__cache_close(cache);
  return 0;
}

static void test_processes(void **state) {
  (void)state;
  for (int damaged = 0; damaged < 2; damaged++) {
    run_shell("rm -rf %s", folder);
    if (damaged) run_shell("mkdir -m 700 %s && echo damaged beyond any hope > %s", folder, file);
    pid_t children[PROCESSES];
    for (uint64_t i = 0; i < PROCESSES; i++) {
      children[i] = fork();
      if (children[i] == 0) _exit(share_child(i));
    }
    for (int i = 0; i < PROCESSES; i++) {
      int result;
      assert_int_equal(waitpid(children[i], &result, 0), children[i]);
      assert_true(WIFEXITED(result));
      assert_int_equal(WEXITSTATUS(result), 0);
    }
    lw_cache *cache = open_cache(folder, "file");
    for (uint64_t n = 0; n < PER_PROCESS; n++) assert_true(get(cache, n));
    for (uint64_t n = 0; n < PROCESSES * PER_PROCESS; n++) assert_true(get(cache, 1000 + n));
    lw__cache_close(cache);
  }
}

static void *thread_main(void *data) {
  for (uint64_t n = 0; n < 30; n++) {
    (void)!put(data, n);
    assert_true(get(data, n));
  }
  return NULL;
}

static void test_threads(void **state) {
  (void)state;
  lw_cache *cache = open_cache(folder, "file");
  pthread_t threads[4];
  for (int i = 0; i < 4; i++)
    assert_int_equal(pthread_create(&threads[i], NULL, thread_main, cache), 0);
  for (int i = 0; i < 4; i++) pthread_join(threads[i], NULL);
  lw__cache_close(cache);
}

static void test_without_memory(void **state) {
  (void)state;
  for (uint64_t n = 1;; n++) {
    lw_cache *cache;
    lw__mem_fail_at(n);
    lw_status status = lw__cache_open(folder, NULL, &cache);
    lw__mem_fail_at(0);
    if (status == LW_OK && n > 5) {
      lw__cache_close(cache);
      break;
    }
    if (status == LW_OK) {
      lw__cache_close(cache);
    } else {
      assert_int_equal(status, LW_STATUS_OUT_OF_MEMORY);
    }
  }
}

#define CASE(test) cmocka_unit_test_setup_teardown(test, make_folder, remove_folder)

int main(void) {
  const struct CMUnitTest tests[] = {
      CASE(test_entries),           CASE(test_damaged_entry),  CASE(test_damaged_file),
      CASE(test_damage_while_open), CASE(test_strangers),      CASE(test_others_files),
      CASE(test_older_version),     CASE(test_read_only),      CASE(test_processes),
      CASE(test_threads),           CASE(test_without_memory), CASE(test_says_damage_once),
      CASE(test_small_disk),        CASE(test_prune),          CASE(test_limit),
  };
  return cmocka_run_group_tests(tests, NULL, NULL);
}

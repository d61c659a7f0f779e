/* cache.c: compiled kernels in one SQLite file.
 *
 * Whoever can write the file can make us run code, so the folder and the file must be ours and
 * nobody else's to write. The checksum is against damage, not against attackers. Several processes
 * use one file at once; a file that SQLite calls corrupt is renamed, under a lock and only if it is
 * still the one that was opened, and a new one begun. */
#include <errno.h>
#include <fcntl.h>
#include <pthread.h>
#include <sqlite3.h>
#include <stdio.h>
#include <string.h>
#include <sys/file.h>
#include <sys/stat.h>
#include <time.h>
#include <unistd.h>

#include "compiler/build/internal.h"

#define CACHE_FILE "kernels.db"
#define CACHE_APPLICATION_ID 0x6c77736e /* "lwsn" */
#define CACHE_VERSION 1
#define CACHE_BUSY_MS 5000
#define CACHE_LIMIT_BYTES (INT64_C(2) << 30)
/* |used| is refreshed at most this often, so that reading rarely writes. */
#define CACHE_USED_S 3600

typedef enum cache_mode { CACHE_MEMORY, CACHE_READ_ONLY, CACHE_FILE_MODE } cache_mode;

struct lw_cache {
  pthread_mutex_t lock;
  sqlite3 *db;
  cache_mode mode;
  char *folder; /* NULL: in memory */
  char *file;
  ino_t inode; /* of the file that |db| has open */
};

/* ---- messages ---- */

static void cache_warn(lw_diag *diag, const lw_cache *cache, const char *what, const char *why) {
  lw__note(diag, LW_SEVERITY_WARNING, cache->folder == NULL ? "cache" : cache->folder,
           "%s%s%s; working without the kernel cache", what, why[0] == '\0' ? "" : ": ", why);
}

static const char *cache_error(const lw_cache *cache) {
  return cache->db == NULL ? "cannot open" : sqlite3_errmsg(cache->db);
}

/* ---- opening ---- */

static bool cache_exec(sqlite3 *db, const char *sql) {
  return sqlite3_exec(db, sql, NULL, NULL, NULL) == SQLITE_OK;
}

static int64_t cache_number(sqlite3 *db, const char *sql) {
  sqlite3_stmt *statement;
  int64_t value = -1;
  if (sqlite3_prepare_v2(db, sql, -1, &statement, NULL) != SQLITE_OK) return -1;
  if (sqlite3_step(statement) == SQLITE_ROW) value = sqlite3_column_int64(statement, 0);
  /* The step's error is what the caller asks for next. */
  return sqlite3_finalize(statement) == SQLITE_OK ? value : -1;
}

/* Switching a new file to WAL needs it alone for a moment, and SQLite does not wait for that by
 * itself. */
static bool cache_enter_wal(sqlite3 *db) {
  int64_t deadline = lw__now_ns() + CACHE_BUSY_MS * INT64_C(1000000);
  for (;;) {
    int result = sqlite3_exec(db, "PRAGMA journal_mode=WAL", NULL, NULL, NULL);
    if (result != SQLITE_BUSY && result != SQLITE_LOCKED) {
      /* Network file systems cannot do WAL and stay in their mode, which works, too. */
      return result == SQLITE_OK;
    }
    if (lw__now_ns() > deadline) return false;
    struct timespec pause = {.tv_nsec = 2000000};
    (void)nanosleep(&pause, NULL);
  }
}

static const char cache_schema[] =
    "CREATE TABLE IF NOT EXISTS entry(id INTEGER PRIMARY KEY, kind TEXT NOT NULL, key BLOB NOT "
    "NULL,"
    " checksum BLOB NOT NULL, created INTEGER NOT NULL, used INTEGER NOT NULL, image BLOB NOT NULL,"
    " UNIQUE(kind, key));";

/* What is in an open file: ours, empty, an older version of ours, or something that must not be
 * touched. */
static bool cache_setup(sqlite3 *db) {
  (void)sqlite3_busy_timeout(db, CACHE_BUSY_MS);
  if (!cache_exec(
          db, "PRAGMA trusted_schema=OFF; PRAGMA cell_size_check=ON; PRAGMA temp_store=MEMORY")) {
    return false;
  }
  if (!cache_enter_wal(db) || !cache_exec(db, "PRAGMA synchronous=NORMAL; BEGIN IMMEDIATE"))
    return false;
  int64_t id = cache_number(db, "PRAGMA application_id");
  int64_t version = cache_number(db, "PRAGMA user_version");
  int64_t tables = cache_number(db, "SELECT count(*) FROM sqlite_master");
  bool fresh = id == 0 && version == 0 && tables == 0;
  bool good = fresh || id == CACHE_APPLICATION_ID;
  if (good && !fresh && version != CACHE_VERSION) {
    good = version < CACHE_VERSION && cache_exec(db, "DROP TABLE IF EXISTS entry");
  }
  if (good && (fresh || version != CACHE_VERSION)) {
    char pragmas[96];
    (void)snprintf(pragmas, sizeof pragmas, "PRAGMA application_id=%d; PRAGMA user_version=%d",
                   CACHE_APPLICATION_ID, CACHE_VERSION);
    good = cache_exec(db, pragmas) && cache_exec(db, cache_schema);
  }
  if (good && cache_exec(db, "COMMIT")) return true;
  int code = sqlite3_errcode(db);
  if (code != SQLITE_CORRUPT && code != SQLITE_NOTADB) (void)cache_exec(db, "ROLLBACK");
  return false;
}

static bool cache_open_memory(lw_cache *cache) {
  cache->mode = CACHE_MEMORY;
  int flags = SQLITE_OPEN_READWRITE | SQLITE_OPEN_CREATE | SQLITE_OPEN_NOMUTEX;
  return sqlite3_open_v2(":memory:", &cache->db, flags, NULL) == SQLITE_OK &&
         cache_setup(cache->db);
}

static void cache_close_db(lw_cache *cache) {
  (void)sqlite3_close(cache->db);
  cache->db = NULL;
}

/* A file that cannot be written is read as it lies, without locks and without the log beside it. */
static bool cache_open_read_only(lw_cache *cache) {
  lw_text uri = {0};
  lw__text_add(&uri, "file:");
  for (const char *p = cache->file; *p != '\0'; p++) {
    bool plain = strchr("?#%", *p) == NULL;
    lw__text_add(&uri, plain ? "%c" : "%%%02x", (unsigned char)*p);
  }
  lw__text_add(&uri, "?immutable=1");
  int flags = SQLITE_OPEN_READONLY | SQLITE_OPEN_NOMUTEX | SQLITE_OPEN_URI;
  bool good = uri.status == LW_OK &&
              sqlite3_open_v2(uri.data, &cache->db, flags, NULL) == SQLITE_OK &&
              cache_number(cache->db, "PRAGMA application_id") == CACHE_APPLICATION_ID &&
              cache_number(cache->db, "PRAGMA user_version") == CACHE_VERSION;
  lw__text_deinit(&uri);
  if (good) cache->mode = CACHE_READ_ONLY;
  return good;
}

static bool cache_exists(const char *path) {
  struct stat info;
  return stat(path, &info) == 0;
}

/* Makes the folder and its missing parents. Gives 0, or why the first that is missing cannot be
 * made. */
static int cache_make_folder(const char *folder) {
  char path[4096];
  size_t length = strlen(folder);
  if (length == 0 || length >= sizeof path) return ENAMETOOLONG;
  memcpy(path, folder, length + 1);
  for (size_t i = 1; i <= length; i++) {
    if (path[i] != '/' && path[i] != '\0') continue;
    char kept = path[i];
    path[i] = '\0';
    int error = mkdir(path, 0700) != 0 ? errno : 0;
    if (error != 0 && error != EEXIST && !cache_exists(path)) return error;
    path[i] = kept;
  }
  return 0;
}

/* Why we must not trust what is in the folder, or NULL. */
static const char *cache_distrust(const lw_cache *cache) {
  struct stat info;
  if (stat(cache->folder, &info) != 0 || !S_ISDIR(info.st_mode)) return "not a folder";
  if (info.st_uid != geteuid()) return "the folder belongs to another user";
  if ((info.st_mode & (S_IWGRP | S_IWOTH)) != 0) return "the folder can be written by others";
  if (lstat(cache->file, &info) != 0) return NULL;
  if (!S_ISREG(info.st_mode) || info.st_uid != geteuid() ||
      (info.st_mode & (S_IWGRP | S_IWOTH)) != 0) {
    return "the file in it belongs to another user or can be written by others";
  }
  return NULL;
}

static ino_t cache_inode(const char *file) {
  struct stat info;
  return stat(file, &info) == 0 ? info.st_ino : 0;
}

/* 1: open. 0: not possible. -1: the file is no good database. */
static int cache_open_file(lw_cache *cache) {
  /* Made by us first, so that its mode does not depend on the umask; the log files take it over. */
  int fd = open(cache->file, O_RDWR | O_CREAT | O_CLOEXEC | O_NOFOLLOW, 0600);
  if (fd < 0) {
    bool read_only = errno == EACCES || errno == EROFS || errno == EPERM;
    return read_only && cache_open_read_only(cache);
  }
  (void)close(fd);
  cache->inode = cache_inode(cache->file);
  int flags = SQLITE_OPEN_READWRITE | SQLITE_OPEN_NOMUTEX;
  if (sqlite3_open_v2(cache->file, &cache->db, flags, NULL) == SQLITE_OK &&
      cache_setup(cache->db)) {
    cache->mode = CACHE_FILE_MODE;
    return 1;
  }
  int code = cache->db == NULL ? SQLITE_NOMEM : sqlite3_errcode(cache->db);
  if (code == SQLITE_CORRUPT || code == SQLITE_NOTADB) return -1;
  if (code != SQLITE_READONLY && code != SQLITE_CANTOPEN) return 0;
  cache_close_db(cache);
  return cache_open_read_only(cache);
}

/* Renames the corrupt file and its log. Another process may have done so already: then the name
 * stands for another file. */
static void cache_set_aside(lw_cache *cache) {
  lw_text lock_path = {0}, from = {0}, to = {0};
  lw__text_add(&lock_path, "%s/lock", cache->folder);
  int lock = lock_path.status != LW_OK
                 ? -1
                 : open(lock_path.data, O_RDWR | O_CREAT | O_CLOEXEC | O_NOFOLLOW, 0600);
  if (lock >= 0 && flock(lock, LOCK_EX) == 0 && cache_inode(cache->file) == cache->inode) {
    static const char *const parts[] = {"", "-wal", "-shm"};
    for (size_t i = 0; i < LW_ARRAY_COUNT(parts); i++) {
      lw__text_clear(&from);
      lw__text_clear(&to);
      lw__text_add(&from, "%s%s", cache->file, parts[i]);
      lw__text_add(&to, "%s.bad%s", cache->file, parts[i]);
      if (from.status == LW_OK && to.status == LW_OK) (void)rename(from.data, to.data);
    }
  }
  if (lock >= 0) (void)close(lock);
  lw__text_deinit(&lock_path);
  lw__text_deinit(&from);
  lw__text_deinit(&to);
}

static bool cache_open_folder(lw_cache *cache, lw_diag *diag) {
  char reason[128];
  int error = cache_make_folder(cache->folder);
  if (error != 0) {
    cache_warn(diag, cache, "the folder cannot be created",
               strerror_r(error, reason, sizeof reason));
    return false;
  }
  const char *distrust = cache_distrust(cache);
  if (distrust != NULL) {
    cache_warn(diag, cache, distrust, "");
    return false;
  }
  int opened = cache_open_file(cache);
  if (opened < 0) {
    lw__note(diag, LW_SEVERITY_WARNING, cache->folder,
             "the kernel cache is damaged (%s); it is set aside as " CACHE_FILE ".bad",
             cache_error(cache));
    cache_close_db(cache);
    cache_set_aside(cache);
    opened = cache_open_file(cache);
  }
  if (opened == 1) return true;
  cache_warn(diag, cache, "cannot use " CACHE_FILE, cache_error(cache));
  cache_close_db(cache);
  return false;
}

static lw_status cache_dup(const char *text, const char *suffix, char **out) {
  lw_text joined = {0};
  lw__text_add(&joined, "%s%s", text, suffix);
  if (joined.status != LW_OK) {
    lw_status status = joined.status;
    lw__text_deinit(&joined);
    return status;
  }
  *out = joined.data;
  return LW_OK;
}

lw_status lw__cache_open(const char *folder, lw_diag *diag, lw_cache **out) {
  *out = NULL;
  void *memory = NULL;
  LW_TRY(lw__mem_resize(&memory, sizeof(lw_cache)));
  lw_cache *cache = memory;
  memset(cache, 0, sizeof *cache);
  (void)pthread_mutex_init(&cache->lock, NULL);
  lw_status status = LW_OK;
  if (folder != NULL) {
    status = cache_dup(folder, "", &cache->folder);
    if (status == LW_OK) status = cache_dup(folder, "/" CACHE_FILE, &cache->file);
  }
  bool opened = status == LW_OK && folder != NULL && cache_open_folder(cache, diag);
  if (status == LW_OK && !opened && !cache_open_memory(cache)) status = LW_STATUS_OUT_OF_MEMORY;
  if (status == LW_OK) {
    *out = cache;
  } else {
    lw__cache_close(cache);
  }
  return status;
}

void lw__cache_close(lw_cache *cache) {
  if (cache == NULL) return;
  cache_close_db(cache);
  (void)pthread_mutex_destroy(&cache->lock);
  lw__mem_free(cache->folder);
  lw__mem_free(cache->file);
  lw__mem_free(cache);
}

const char *lw__cache_mode(const lw_cache *cache) {
  static const char *const names[] = {
      [CACHE_MEMORY] = "memory", [CACHE_READ_ONLY] = "read-only", [CACHE_FILE_MODE] = "file"};
  return names[cache->mode];
}

/* ---- entries ---- */

static lw_hash cache_checksum(lw_hash key, const void *data, size_t bytes) {
  return lw__hash_bytes(data, bytes, key);
}

static int64_t cache_clock_s(void) { return (int64_t)time(NULL); }

static bool cache_find(lw_cache *cache, const char *sql, const char *kind, const lw_hash *key,
                       sqlite3_stmt **out) {
  if (cache->db == NULL || sqlite3_prepare_v2(cache->db, sql, -1, out, NULL) != SQLITE_OK)
    return false;
  return sqlite3_bind_text(*out, 1, kind, -1, SQLITE_STATIC) == SQLITE_OK &&
         sqlite3_bind_blob(*out, 2, key, sizeof *key, SQLITE_STATIC) == SQLITE_OK;
}

static void cache_run(lw_cache *cache, const char *sql, int64_t a, int64_t b) {
  sqlite3_stmt *statement;
  if (sqlite3_prepare_v2(cache->db, sql, -1, &statement, NULL) != SQLITE_OK) return;
  (void)sqlite3_bind_int64(statement, 1, a);
  if (sqlite3_bind_parameter_count(statement) > 1) (void)sqlite3_bind_int64(statement, 2, b);
  (void)sqlite3_step(statement);
  (void)sqlite3_finalize(statement);
}

/* The entry in |row|, checked against its checksum. */
static lw_status cache_take(sqlite3_stmt *row, lw_hash key, lw_arena *arena, const void **out_data,
                            size_t *out_bytes) {
  lw_hash stored;
  const void *checksum = sqlite3_column_blob(row, 1);
  if (sqlite3_column_bytes(row, 1) != (int)sizeof stored || checksum == NULL)
    return LW_STATUS_NOT_FOUND;
  memcpy(&stored, checksum, sizeof stored);
  const void *data = sqlite3_column_blob(row, 3);
  size_t bytes = (size_t)sqlite3_column_bytes(row, 3);
  if (data == NULL) bytes = 0;
  if (!lw__hash_eq(stored, cache_checksum(key, data, bytes))) return LW_STATUS_NOT_FOUND;
  LW_TRY(lw__arena_dup(arena, data, bytes, out_data));
  *out_bytes = bytes;
  return LW_OK;
}

static lw_status cache_get(lw_cache *cache, const char *kind, lw_hash key, lw_arena *arena,
                           const void **out_data, size_t *out_bytes, int *out_code) {
  sqlite3_stmt *row = NULL;
  lw_status status = LW_STATUS_NOT_FOUND;
  int64_t id = 0, used = 0;
  bool present = false;
  *out_code = SQLITE_OK;
  if (cache_find(cache, "SELECT id, checksum, used, image FROM entry WHERE kind=?1 AND key=?2",
                 kind, &key, &row)) {
    *out_code = sqlite3_step(row);
    present = *out_code == SQLITE_ROW;
    if (present) {
      id = sqlite3_column_int64(row, 0);
      used = sqlite3_column_int64(row, 2);
      status = cache_take(row, key, arena, out_data, out_bytes);
    }
  } else if (cache->db != NULL) {
    *out_code = sqlite3_errcode(cache->db);
  }
  (void)sqlite3_finalize(row);
  if (!present || cache->mode == CACHE_READ_ONLY) return status;
  int64_t now = cache_clock_s();
  if (status == LW_STATUS_NOT_FOUND) {
    cache_run(cache, "DELETE FROM entry WHERE id=?1", id, 0);
  } else if (status == LW_OK && (now - used > CACHE_USED_S || now < used)) {
    cache_run(cache, "UPDATE entry SET used=?2 WHERE id=?1", id, now);
  }
  return status;
}

/* A quarter of the entries goes, those that were not used for the longest time. */
static void cache_shrink(lw_cache *cache) {
  int64_t pages = cache_number(cache->db, "PRAGMA page_count");
  int64_t unused = cache_number(cache->db, "PRAGMA freelist_count");
  int64_t page_bytes = cache_number(cache->db, "PRAGMA page_size");
  if (pages < 0 || unused < 0 || page_bytes < 0 ||
      (pages - unused) * page_bytes < CACHE_LIMIT_BYTES) {
    return;
  }
  int64_t count = cache_number(cache->db, "SELECT count(*) FROM entry");
  cache_run(cache,
            "DELETE FROM entry WHERE id IN (SELECT id FROM entry ORDER BY used, id LIMIT ?1)",
            count / 4 + 1, 0);
}

static int cache_put(lw_cache *cache, const char *kind, lw_hash key, const void *data,
                     size_t bytes) {
  sqlite3_stmt *row = NULL;
  lw_hash checksum = cache_checksum(key, data, bytes);
  int64_t now = cache_clock_s();
  bool bound = cache_find(cache,
                          "INSERT OR REPLACE INTO entry(kind, key, checksum, created, used, image) "
                          "VALUES(?1, ?2, ?3, ?4, ?4, ?5)",
                          kind, &key, &row) &&
               sqlite3_bind_blob(row, 3, &checksum, sizeof checksum, SQLITE_STATIC) == SQLITE_OK &&
               sqlite3_bind_int64(row, 4, now) == SQLITE_OK &&
               (bytes == 0 ? sqlite3_bind_zeroblob(row, 5, 0)
                           : sqlite3_bind_blob64(row, 5, data, bytes, SQLITE_STATIC)) == SQLITE_OK;
  int code = bound ? sqlite3_step(row) : sqlite3_errcode(cache->db);
  (void)sqlite3_finalize(row);
  if (code == SQLITE_DONE) cache_shrink(cache);
  return code;
}

/* After SQLite found the open file corrupt: begin a new one, or go on in memory. */
static bool cache_recover(lw_cache *cache, int code) {
  if (code != SQLITE_CORRUPT && code != SQLITE_NOTADB) return false;
  if (cache->mode == CACHE_MEMORY) return false;
  bool writable = cache->mode == CACHE_FILE_MODE;
  cache_close_db(cache);
  if (writable) {
    cache_set_aside(cache);
    if (cache_open_file(cache) == 1) return true;
    cache_close_db(cache);
  }
  if (cache_open_memory(cache)) return true;
  cache_close_db(cache); /* every later call finds nothing */
  return false;
}

lw_status lw__cache_get(lw_cache *cache, const char *kind, lw_hash key, lw_arena *arena,
                        const void **out_data, size_t *out_bytes) {
  int code;
  (void)pthread_mutex_lock(&cache->lock);
  lw_status status = cache_get(cache, kind, key, arena, out_data, out_bytes, &code);
  (void)cache_recover(cache, code);
  (void)pthread_mutex_unlock(&cache->lock);
  return status;
}

lw_status lw__cache_put(lw_cache *cache, const char *kind, lw_hash key, const void *data,
                        size_t bytes) {
  (void)pthread_mutex_lock(&cache->lock);
  int code = SQLITE_READONLY;
  if (cache->db != NULL && cache->mode != CACHE_READ_ONLY) {
    code = cache_put(cache, kind, key, data, bytes);
    if (cache_recover(cache, code)) code = cache_put(cache, kind, key, data, bytes);
  }
  (void)pthread_mutex_unlock(&cache->lock);
  if (code == SQLITE_DONE) return LW_OK;
  return code == SQLITE_NOMEM ? LW_STATUS_OUT_OF_MEMORY : LW_STATUS_IO;
}

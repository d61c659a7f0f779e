/* cache.c: the file behind the cache of kernels and plans: one SQLite file.
 *
 * Whoever can write the file can make us run code, so the folder and the file must be ours and
 * nobody else's to write. The checksum is against damage, not against attackers. Several processes
 * use one file at once; a file that SQLite calls corrupt is renamed, under a lock and only if it is
 * still the one that was opened, and a new one begun. */
#include <errno.h>
#include <fcntl.h>
#include <stdarg.h>
#include <stdio.h>
#include <string.h>
#include <sys/file.h>
#include <sys/stat.h>
#include <time.h>
#include <unistd.h>

#include "compiler/build/cache_internal.h"

#define CACHE_APPLICATION_ID 0x6c77736e /* "lwsn" */
#define CACHE_VERSION 2
#define CACHE_BUSY_MS 5000

/* ---- why the file cannot be used ---- */

static void LW_PRINTF(2, 3) cache_because(lw_cache *cache, const char *fmt, ...) {
  va_list args;
  va_start(args, fmt);
  (void)vsnprintf(cache->why, sizeof cache->why, fmt, args);
  va_end(args);
}

void lw__cache_explain(sqlite3 *db, int code, char *out, size_t out_bytes) {
  const char *text = db == NULL ? sqlite3_errstr(code) : sqlite3_errmsg(db);
  switch (code & 0xff) {
    case SQLITE_FULL: text = "the disk is full"; break;
    case SQLITE_BUSY: text = "another process keeps " CACHE_FILE " locked"; break;
    case SQLITE_READONLY: text = "it may only be read"; break;
    case SQLITE_TOOBIG: text = "it is too large for one entry"; break;
    default: break;
  }
  (void)snprintf(out, out_bytes, "%s", text);
}

/* Unless something more telling was said before. */
static void cache_because_of(lw_cache *cache, int code) {
  if (cache->why[0] == '\0') {
    lw__cache_explain(cache->db, code, cache->why, sizeof cache->why);
  }
}

static void cache_because_errno(lw_cache *cache, const char *what, int error) {
  char text[128];
  const char *reason = error == ENOSPC || error == EDQUOT ? "the disk is full"
                                                          : strerror_r(error, text, sizeof text);
  cache_because(cache, "%s: %s", what, reason);
}

/* ---- opening ---- */

bool lw__cache_exec(sqlite3 *db, const char *sql) {
  return sqlite3_exec(db, sql, NULL, NULL, NULL) == SQLITE_OK;
}

int64_t lw__cache_number(sqlite3 *db, const char *sql) {
  sqlite3_stmt *statement;
  int64_t value = -1;
  if (sqlite3_prepare_v2(db, sql, -1, &statement, NULL) != SQLITE_OK) return -1;
  if (sqlite3_step(statement) == SQLITE_ROW) value = sqlite3_column_int64(statement, 0);
  /* The step's error is what the caller asks for next. */
  return sqlite3_finalize(statement) == SQLITE_OK ? value : -1;
}

/* What preparing |sql| comes to. */
static int cache_prepare_code(sqlite3 *db, const char *sql) {
  sqlite3_stmt *statement = NULL;
  int code = sqlite3_prepare_v2(db, sql, -1, &statement, NULL);
  (void)sqlite3_finalize(statement);
  return code;
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
    "NULL, name TEXT NOT NULL, checksum BLOB NOT NULL, created INTEGER NOT NULL, used INTEGER NOT "
    "NULL, bytes INTEGER NOT NULL, image BLOB NOT NULL, UNIQUE(kind, key));";
static const char cache_columns[] =
    "SELECT id, kind, key, name, checksum, created, used, bytes, image FROM entry LIMIT 0";

/* In a transaction: makes the table in a new file, or in one of an older version. MISUSE: the file
 * is not ours to use. */
static int cache_make_table(lw_cache *cache) {
  sqlite3 *db = cache->db;
  int64_t id = lw__cache_number(db, "PRAGMA application_id");
  int64_t version = lw__cache_number(db, "PRAGMA user_version");
  int64_t tables = lw__cache_number(db, "SELECT count(*) FROM sqlite_master");
  if (id < 0 || version < 0 || tables < 0) return sqlite3_errcode(db);
  bool fresh = id == 0 && version == 0 && tables == 0;
  if (!fresh && id != CACHE_APPLICATION_ID) {
    bool ours = cache_prepare_code(db, cache_columns) == SQLITE_OK;
    cache_because(cache, ours ? "its header is not what it should be"
                              : CACHE_FILE " in it is the database of another program");
    return ours ? SQLITE_CORRUPT : SQLITE_MISUSE;
  }
  if (version > CACHE_VERSION) {
    cache_because(cache,
                  CACHE_FILE " in it was made by a newer lawson; remove it if none is in use");
    return SQLITE_MISUSE;
  }
  if (version == CACHE_VERSION) return SQLITE_OK;
  char pragmas[96];
  (void)snprintf(pragmas, sizeof pragmas, "PRAGMA application_id=%d; PRAGMA user_version=%d",
                 CACHE_APPLICATION_ID, CACHE_VERSION);
  bool good = lw__cache_exec(db, "DROP TABLE IF EXISTS entry") && lw__cache_exec(db, pragmas) &&
              lw__cache_exec(db, cache_schema);
  return good ? SQLITE_OK : sqlite3_errcode(db);
}

/* Without the columns that it should have the file is as good as corrupt. */
static int cache_check_columns(lw_cache *cache) {
  if (cache_prepare_code(cache->db, cache_columns) != SQLITE_ERROR) return SQLITE_OK;
  cache_because(cache, "its table is not what it should be");
  return SQLITE_CORRUPT;
}

/* Makes an open file ready for use; gives SQLite's code, with the reason in |why| where that says
 * more. */
static int cache_setup(lw_cache *cache) {
  sqlite3 *db = cache->db;
  (void)sqlite3_busy_timeout(db, CACHE_BUSY_MS);
  bool good = lw__cache_exec(db,
                             "PRAGMA trusted_schema=OFF; PRAGMA cell_size_check=ON; PRAGMA "
                             "temp_store=MEMORY") &&
              cache_enter_wal(db) &&
              lw__cache_exec(db, "PRAGMA synchronous=NORMAL; BEGIN IMMEDIATE");
  if (!good) return sqlite3_errcode(db);
  int code = cache_make_table(cache);
  if (code == SQLITE_OK) {
    if (lw__cache_exec(db, "COMMIT")) return cache_check_columns(cache);
    code = sqlite3_errcode(db);
  }
  if (code != SQLITE_CORRUPT && code != SQLITE_NOTADB) (void)lw__cache_exec(db, "ROLLBACK");
  return code;
}

static bool cache_open_memory(lw_cache *cache) {
  cache->mode = CACHE_MEMORY;
  int flags = SQLITE_OPEN_READWRITE | SQLITE_OPEN_CREATE | SQLITE_OPEN_NOMUTEX;
  return sqlite3_open_v2(":memory:", &cache->db, flags, NULL) == SQLITE_OK &&
         cache_setup(cache) == SQLITE_OK;
}

static void cache_close_db(lw_cache *cache) {
  (void)sqlite3_close(cache->db);
  cache->db = NULL;
}

static bool cache_exists(const char *path) {
  struct stat info;
  return stat(path, &info) == 0;
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
              lw__cache_number(cache->db, "PRAGMA application_id") == CACHE_APPLICATION_ID &&
              lw__cache_number(cache->db, "PRAGMA user_version") == CACHE_VERSION &&
              cache_prepare_code(cache->db, cache_columns) == SQLITE_OK;
  lw__text_deinit(&uri);
  if (good) {
    cache->mode = CACHE_READ_ONLY;
  } else if (cache_exists(cache->file)) {
    cache_because(cache,
                  "it may only be read, and " CACHE_FILE " in it is no cache of this lawson");
  } else {
    cache_because(cache, "it may only be read, and there is no " CACHE_FILE " in it");
  }
  return good;
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

/* Whether to trust what is in the folder; the reason in |why| otherwise. */
static bool cache_trusted(lw_cache *cache) {
  struct stat info;
  const char *why = NULL;
  if (stat(cache->folder, &info) != 0 || !S_ISDIR(info.st_mode)) {
    why = "not a folder";
  } else if (info.st_uid != geteuid()) {
    why = "the folder belongs to another user";
  } else if ((info.st_mode & (S_IWGRP | S_IWOTH)) != 0) {
    why = "the folder can be written by others";
  } else if (lstat(cache->file, &info) != 0) {
    return true;
  } else if (S_ISDIR(info.st_mode)) {
    why = CACHE_FILE " in it is a folder, not a file; remove it";
  } else if (!S_ISREG(info.st_mode)) {
    why = CACHE_FILE " in it is not a regular file; remove it";
  } else if (info.st_uid != geteuid() || (info.st_mode & (S_IWGRP | S_IWOTH)) != 0) {
    why = CACHE_FILE " in it belongs to another user or can be written by others";
  }
  if (why != NULL) cache_because(cache, "%s", why);
  return why == NULL;
}

static ino_t cache_inode(const char *file) {
  struct stat info;
  return stat(file, &info) == 0 ? info.st_ino : 0;
}

/* Large pages for large entries, and space that is given back piece by piece. Only an empty file
 * can be told so (saying it again would write), and another process may do it just now. */
static void cache_form_pages(sqlite3 *db) {
  (void)lw__cache_exec(db, "PRAGMA page_size=16384; PRAGMA auto_vacuum=INCREMENTAL");
}

/* 1: open. 0: not possible. -1: the file is no good database. */
static int cache_open_file(lw_cache *cache) {
  cache->why[0] = '\0';
  /* Made by us first, so that its mode does not depend on the umask; the log files take it over. */
  int fd = open(cache->file, O_RDWR | O_CREAT | O_CLOEXEC | O_NOFOLLOW, 0600);
  if (fd < 0) {
    bool read_only = errno == EACCES || errno == EROFS || errno == EPERM;
    if (read_only) return cache_open_read_only(cache);
    cache_because_errno(cache, CACHE_FILE " in it cannot be opened", errno);
    return 0;
  }
  struct stat info;
  bool empty = fstat(fd, &info) == 0 && info.st_size == 0;
  (void)close(fd);
  cache->inode = cache_inode(cache->file);
  int flags = SQLITE_OPEN_READWRITE | SQLITE_OPEN_NOMUTEX;
  int code = sqlite3_open_v2(cache->file, &cache->db, flags, NULL);
  if (code == SQLITE_OK && empty) cache_form_pages(cache->db);
  if (code == SQLITE_OK) code = cache_setup(cache);
  if (code == SQLITE_OK) {
    cache->mode = CACHE_FILE_MODE;
    return 1;
  }
  cache_because_of(cache, code);
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
  int error = cache_make_folder(cache->folder);
  int opened = 0;
  if (error != 0) {
    cache_because_errno(cache, "the folder cannot be created", error);
  } else if (cache_trusted(cache)) {
    opened = cache_open_file(cache);
  }
  if (opened < 0) {
    lw__note(diag, LW_SEVERITY_WARNING, cache->folder,
             "the cache is damaged (%s); it is set aside as " CACHE_FILE
             ".bad, and a new one is begun",
             cache->why);
    cache_close_db(cache);
    cache_set_aside(cache);
    opened = cache_open_file(cache);
  }
  if (opened == 1) return true;
  cache_close_db(cache);
  lw__note(diag, LW_SEVERITY_WARNING, cache->folder,
           "the cache cannot be used: %s. Nothing is kept; option cache (--cache) names another "
           "folder",
           cache->why[0] == '\0' ? "unknown reason" : cache->why);
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
  cache->limit_bytes = CACHE_LIMIT_BYTES;
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

void lw__cache_limit(lw_cache *cache, uint64_t bytes) { cache->limit_bytes = bytes; }

/* ---- while it is in use ---- */

bool lw__cache_recover(lw_cache *cache, int code) {
  if (code != SQLITE_CORRUPT && code != SQLITE_NOTADB) return false;
  if (cache->mode == CACHE_MEMORY) return false;
  bool writable = cache->mode == CACHE_FILE_MODE;
  cache_close_db(cache);
  if (writable) {
    cache_set_aside(cache);
    cache->set_aside = true;
    if (cache_open_file(cache) == 1) return true;
    cache_close_db(cache);
  }
  if (cache_open_memory(cache)) return true;
  cache_close_db(cache); /* every later call finds nothing */
  return false;
}

void lw__cache_report(lw_cache *cache, lw_diag *diag) {
  const char *where = cache->folder == NULL ? "cache" : cache->folder;
  (void)pthread_mutex_lock(&cache->lock);
  if (cache->set_aside) {
    lw__note(diag, LW_SEVERITY_WARNING, where,
             "the cache turned out to be damaged; it is set aside as " CACHE_FILE
             ".bad, and what it held is built again");
  }
  if (cache->damaged > 0) {
    lw__note(diag, LW_SEVERITY_WARNING, where,
             "%u damaged %s removed from the cache and built again", cache->damaged,
             cache->damaged == 1 ? "entry was" : "entries were");
  }
  if (cache->not_kept[0] != '\0') {
    lw__note(diag, LW_SEVERITY_WARNING, where,
             "what was built is not kept in the cache: %s; the next start builds it again",
             cache->not_kept);
  }
  cache->set_aside = false;
  cache->damaged = 0;
  cache->not_kept[0] = '\0';
  (void)pthread_mutex_unlock(&cache->lock);
}

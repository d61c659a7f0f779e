/* cache_entries.c: what is in the cache: getting, putting, listing, pruning. */
#include <stdio.h>
#include <string.h>
#include <time.h>

#include "compiler/build/cache_internal.h"

/* |used| is refreshed at most this often, so that reading rarely writes. */
#define CACHE_USED_S 3600
/* What an entry takes beside its image, about. */
#define CACHE_ENTRY_BYTES 256

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

static int cache_run(lw_cache *cache, const char *sql, int64_t a, int64_t b) {
  sqlite3_stmt *statement;
  int code = sqlite3_prepare_v2(cache->db, sql, -1, &statement, NULL);
  if (code != SQLITE_OK) return code;
  (void)sqlite3_bind_int64(statement, 1, a);
  if (sqlite3_bind_parameter_count(statement) > 1) (void)sqlite3_bind_int64(statement, 2, b);
  code = sqlite3_step(statement);
  (void)sqlite3_finalize(statement);
  return code;
}

/* ---- get ---- */

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
  cache->damaged += present && status == LW_STATUS_NOT_FOUND;
  if (!present || cache->mode == CACHE_READ_ONLY) return status;
  int64_t now = cache_clock_s();
  if (status == LW_STATUS_NOT_FOUND) {
    (void)cache_run(cache, "DELETE FROM entry WHERE id=?1", id, 0);
  } else if (status == LW_OK && (now - used > CACHE_USED_S || now < used)) {
    (void)cache_run(cache, "UPDATE entry SET used=?2 WHERE id=?1", id, now);
  }
  return status;
}

lw_status lw__cache_get(lw_cache *cache, const char *kind, lw_hash key, lw_arena *arena,
                        const void **out_data, size_t *out_bytes) {
  int code;
  (void)pthread_mutex_lock(&cache->lock);
  lw_status status = cache_get(cache, kind, key, arena, out_data, out_bytes, &code);
  (void)lw__cache_recover(cache, code);
  (void)pthread_mutex_unlock(&cache->lock);
  return status;
}

/* ---- put ---- */

/* Of the entries in order of their last use, those beyond |keep_bytes|. */
static int cache_keep(lw_cache *cache, uint64_t keep_bytes) {
  int64_t keep = keep_bytes > INT64_MAX ? INT64_MAX : (int64_t)keep_bytes;
  return cache_run(cache,
                   "DELETE FROM entry WHERE id IN (SELECT id FROM (SELECT id, SUM(bytes + ?2) OVER "
                   "(ORDER BY used DESC, id DESC) AS total FROM entry) WHERE total > ?1)",
                   keep, CACHE_ENTRY_BYTES);
}

/* Down to three quarters of the limit, so that not every put has to. */
static void cache_shrink(lw_cache *cache) {
  int64_t pages = lw__cache_number(cache->db, "PRAGMA page_count");
  int64_t unused = lw__cache_number(cache->db, "PRAGMA freelist_count");
  int64_t page_bytes = lw__cache_number(cache->db, "PRAGMA page_size");
  if (pages < 0 || unused < 0 || page_bytes < 0) return;
  if ((uint64_t)(pages - unused) * (uint64_t)page_bytes < cache->limit_bytes) return;
  (void)cache_keep(cache, cache->limit_bytes / 4 * 3);
  (void)lw__cache_exec(cache->db, "PRAGMA incremental_vacuum");
}

static int cache_put(lw_cache *cache, const char *kind, lw_hash key, const char *name,
                     const void *data, size_t bytes) {
  sqlite3_stmt *row = NULL;
  lw_hash checksum = cache_checksum(key, data, bytes);
  int64_t now = cache_clock_s();
  bool bound =
      cache_find(cache,
                 "INSERT OR REPLACE INTO entry(kind, key, checksum, created, used, image, "
                 "name, bytes) VALUES(?1, ?2, ?3, ?4, ?4, ?5, ?6, ?7)",
                 kind, &key, &row) &&
      sqlite3_bind_blob(row, 3, &checksum, sizeof checksum, SQLITE_STATIC) == SQLITE_OK &&
      sqlite3_bind_int64(row, 4, now) == SQLITE_OK &&
      (bytes == 0 ? sqlite3_bind_zeroblob(row, 5, 0)
                  : sqlite3_bind_blob64(row, 5, data, bytes, SQLITE_STATIC)) == SQLITE_OK &&
      sqlite3_bind_text(row, 6, name, -1, SQLITE_STATIC) == SQLITE_OK &&
      sqlite3_bind_int64(row, 7, (int64_t)bytes) == SQLITE_OK;
  int code = bound ? sqlite3_step(row) : sqlite3_errcode(cache->db);
  (void)sqlite3_finalize(row);
  if (code == SQLITE_DONE) cache_shrink(cache);
  return code;
}

lw_status lw__cache_put(lw_cache *cache, const char *kind, lw_hash key, const char *name,
                        const void *data, size_t bytes) {
  (void)pthread_mutex_lock(&cache->lock);
  int code = SQLITE_READONLY;
  if (cache->db != NULL && cache->mode != CACHE_READ_ONLY) {
    code = cache_put(cache, kind, key, name, data, bytes);
    if (lw__cache_recover(cache, code)) code = cache_put(cache, kind, key, name, data, bytes);
  }
  if (code != SQLITE_DONE && cache->not_kept[0] == '\0') {
    bool refused = cache->db == NULL || cache->mode == CACHE_READ_ONLY;
    lw__cache_explain(refused ? NULL : cache->db, code, cache->not_kept, sizeof cache->not_kept);
  }
  (void)pthread_mutex_unlock(&cache->lock);
  if (code == SQLITE_DONE) return LW_OK;
  return code == SQLITE_NOMEM ? LW_STATUS_OUT_OF_MEMORY : LW_STATUS_IO;
}

void lw__cache_remove(lw_cache *cache, const char *kind, lw_hash key) {
  sqlite3_stmt *row = NULL;
  (void)pthread_mutex_lock(&cache->lock);
  if (cache->mode != CACHE_READ_ONLY &&
      cache_find(cache, "DELETE FROM entry WHERE kind=?1 AND key=?2", kind, &key, &row)) {
    (void)sqlite3_step(row);
  }
  (void)sqlite3_finalize(row);
  (void)pthread_mutex_unlock(&cache->lock);
}

/* ---- list, prune ---- */

static lw_status cache_text(sqlite3_stmt *row, int column, lw_arena *arena, const char **out) {
  const char *text = (const char *)sqlite3_column_text(row, column);
  if (text == NULL) text = "";
  return lw__arena_strndup(arena, text, strlen(text), out);
}

static lw_status cache_read_row(sqlite3_stmt *row, lw_arena *arena, lw_cache_entry *out) {
  const void *key = sqlite3_column_blob(row, 2);
  if (key != NULL && sqlite3_column_bytes(row, 2) == (int)sizeof out->key) {
    memcpy(&out->key, key, sizeof out->key);
  }
  out->bytes = (uint64_t)sqlite3_column_int64(row, 3);
  out->created_s = sqlite3_column_int64(row, 4);
  out->used_s = sqlite3_column_int64(row, 5);
  LW_TRY(cache_text(row, 0, arena, &out->kind));
  return cache_text(row, 1, arena, &out->name);
}

static lw_status cache_list(lw_cache *cache, lw_arena *arena, lw_cache_entry **out,
                            uint32_t *out_count) {
  sqlite3_stmt *row = NULL;
  int64_t count = cache->db == NULL ? 0 : lw__cache_number(cache->db, "SELECT count(*) FROM entry");
  if (count < 0 || count > INT32_MAX) return LW_STATUS_IO;
  LW_TRY(lw__arena_alloc(arena, (size_t)count, sizeof **out, out));
  if (count == 0) return LW_OK;
  int code = sqlite3_prepare_v2(cache->db,
                                "SELECT kind, name, key, bytes, created, used FROM entry "
                                "ORDER BY used DESC, id DESC",
                                -1, &row, NULL);
  lw_status status = code == SQLITE_OK ? LW_OK : LW_STATUS_IO;
  while (status == LW_OK && *out_count < count && (code = sqlite3_step(row)) == SQLITE_ROW) {
    status = cache_read_row(row, arena, &(*out)[(*out_count)++]);
  }
  (void)sqlite3_finalize(row);
  if (status == LW_OK && code != SQLITE_ROW && code != SQLITE_DONE) status = LW_STATUS_IO;
  return status;
}

lw_status lw__cache_list(lw_cache *cache, lw_arena *arena, lw_cache_entry **out_entries,
                         uint32_t *out_count) {
  *out_entries = NULL;
  *out_count = 0;
  (void)pthread_mutex_lock(&cache->lock);
  lw_status status = cache_list(cache, arena, out_entries, out_count);
  (void)pthread_mutex_unlock(&cache->lock);
  return status;
}

static bool cache_measure(lw_cache *cache, uint64_t *out_count, uint64_t *out_bytes) {
  int64_t count = lw__cache_number(cache->db, "SELECT count(*) FROM entry");
  int64_t bytes = lw__cache_number(cache->db, "SELECT ifnull(sum(bytes), 0) FROM entry");
  *out_count = count < 0 ? 0 : (uint64_t)count;
  *out_bytes = bytes < 0 ? 0 : (uint64_t)bytes;
  return count >= 0 && bytes >= 0;
}

static lw_status cache_prune(lw_cache *cache, uint64_t keep_bytes, int64_t unused_since_s,
                             lw_cache_pruned *out) {
  uint64_t count, bytes;
  if (!cache_measure(cache, &count, &bytes)) return LW_STATUS_IO;
  if (cache_run(cache, "DELETE FROM entry WHERE used < ?1", unused_since_s, 0) != SQLITE_DONE ||
      cache_keep(cache, keep_bytes) != SQLITE_DONE ||
      !cache_measure(cache, &out->left, &out->left_bytes)) {
    return LW_STATUS_IO;
  }
  out->removed = count - out->left;
  out->removed_bytes = bytes - out->left_bytes;
  /* Another process may be in the way of either; then the space is given back another time. */
  (void)lw__cache_exec(cache->db, "VACUUM");
  (void)lw__cache_exec(cache->db, "PRAGMA wal_checkpoint(TRUNCATE)");
  return LW_OK;
}

lw_status lw__cache_prune(lw_cache *cache, uint64_t keep_bytes, int64_t unused_since_s,
                          lw_cache_pruned *out) {
  *out = (lw_cache_pruned){0};
  (void)pthread_mutex_lock(&cache->lock);
  bool writable = cache->db != NULL && cache->mode != CACHE_READ_ONLY;
  lw_status status = writable ? cache_prune(cache, keep_bytes, unused_since_s, out) : LW_STATUS_IO;
  (void)pthread_mutex_unlock(&cache->lock);
  return status;
}

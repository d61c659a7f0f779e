/* cache.h: what is kept from one start to the next: built kernels, whole plans, facts about
 * compilers. One SQLite file (WAL) in a folder of mode 0700 owned by the user. */
#ifndef LW_COMPILER_BUILD_CACHE_H
#define LW_COMPILER_BUILD_CACHE_H

#include "base/base.h"

/* Every trouble with the file (cannot be written, foreign owner, corrupt) is a warning in |diag|
 * and means working without it. Thread-safe, and several processes may use one file. */
typedef struct lw_cache lw_cache;
/* |folder| NULL: $XDG_CACHE_HOME or ~/.cache is the CLI's business, not ours: NULL gives an
 * in-memory cache. */
lw_status lw__cache_open(const char *folder, lw_diag *diag, lw_cache **out) LW_MUST_CHECK;
/* What the cache writes to, for reports: "memory", "read-only" or "file". */
const char *lw__cache_mode(const lw_cache *cache);
/* Beyond so many bytes (2 GiB unless said) a put removes what was not used for the longest time. */
void lw__cache_limit(lw_cache *cache, uint64_t bytes);
/* Warnings about what went wrong since the last call: damage, and puts that failed. */
void lw__cache_report(lw_cache *cache, lw_diag *diag);
void lw__cache_close(lw_cache *cache);

/* ---- entries ----------------------------------------------------------------------------------
 * |kind|: "cubin", "so", "plan", "tool". The checksum of an entry is looked at before it is given
 * out; a damaged one is removed and counted. */

/* Copied into |arena|; LW_STATUS_NOT_FOUND when absent or damaged. */
lw_status lw__cache_get(lw_cache *cache, const char *kind, lw_hash key, lw_arena *arena,
                        const void **out_data, size_t *out_bytes) LW_MUST_CHECK;
/* |name| is for people. Replaces what was there. */
lw_status lw__cache_put(lw_cache *cache, const char *kind, lw_hash key, const char *name,
                        const void *data, size_t bytes) LW_MUST_CHECK;
void lw__cache_remove(lw_cache *cache, const char *kind, lw_hash key);

typedef struct lw_cache_entry {
  const char *kind, *name;
  lw_hash key;
  uint64_t bytes;
  int64_t created_s, used_s; /* since 1970; |used_s| is brought up to date once an hour */
} lw_cache_entry;
/* Most recently used first, in |arena|. */
lw_status lw__cache_list(lw_cache *cache, lw_arena *arena, lw_cache_entry **out_entries,
                         uint32_t *out_count) LW_MUST_CHECK;

typedef struct lw_cache_pruned {
  uint64_t removed, removed_bytes, left, left_bytes;
} lw_cache_pruned;
/* Removes entries last used before |unused_since_s|, then the least recently used ones until at
 * most |keep_bytes| are left, and gives the file's free space back. LW_STATUS_IO when the file
 * cannot be written. */
lw_status lw__cache_prune(lw_cache *cache, uint64_t keep_bytes, int64_t unused_since_s,
                          lw_cache_pruned *out) LW_MUST_CHECK;

#endif

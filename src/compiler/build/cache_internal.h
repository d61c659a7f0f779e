/* cache_internal.h: the opened cache, shared by cache.c (the file) and cache_entries.c (what is in
 * it). */
#ifndef LW_COMPILER_BUILD_CACHE_INTERNAL_H
#define LW_COMPILER_BUILD_CACHE_INTERNAL_H

#include <pthread.h>
#include <sqlite3.h>
#include <sys/types.h>

#include "compiler/build/internal.h"

#define CACHE_FILE "kernels.db"
#define CACHE_LIMIT_BYTES (UINT64_C(2) << 30)

typedef enum cache_mode { CACHE_MEMORY, CACHE_READ_ONLY, CACHE_FILE_MODE } cache_mode;

struct lw_cache {
  pthread_mutex_t lock;
  sqlite3 *db; /* NULL: every get finds nothing, every put fails */
  cache_mode mode;
  uint64_t limit_bytes;
  char *folder; /* NULL: in memory */
  char *file;
  ino_t inode;        /* of the file that |db| has open */
  char why[256];      /* opening failed */
  /* For lw__cache_report: */
  uint32_t damaged;   /* entries whose checksum was wrong; they are gone */
  bool set_aside;     /* the file turned out to be damaged while it was open */
  char not_kept[256]; /* why a put failed, "" when none did */
};

/* Why a call on |db| (may be NULL) came to |code|, in words. */
void lw__cache_explain(sqlite3 *db, int code, char *out, size_t out_bytes);
bool lw__cache_exec(sqlite3 *db, const char *sql);
/* The first column of the first row; -1 when there is none. */
int64_t lw__cache_number(sqlite3 *db, const char *sql);
/* After a call on |db| came to |code|: a corrupt file is set aside and a new one begun, or the
 * cache goes on in memory. True when the call may be made again. */
bool lw__cache_recover(lw_cache *cache, int code);

#endif

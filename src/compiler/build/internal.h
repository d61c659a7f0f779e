/* internal.h: what the builders share: running jobs in parallel around the cache, child processes,
 * private folders. */
#ifndef LW_COMPILER_BUILD_INTERNAL_H
#define LW_COMPILER_BUILD_INTERNAL_H

#include "compiler/build/build_kernels.h"

/* ---- threads ---- */

typedef void (*lw_build_task)(void *arg, uint32_t index);
/* Calls |task| for 0 .. count-1 from up to |threads| threads (0: one per core), this one among
 * them. */
void lw__build_parallel(uint32_t count, uint32_t threads, lw_build_task task, void *arg);

/* ---- child processes and their folders (process.c) ---- */

/* The program |name| as a path: as it is when it holds a slash, else looked up in the
 * colon-separated |path|. */
bool lw__process_find(const char *name, const char *path, lw_text *out_path);
/* Runs argv[0] (a path) with standard input empty and both outputs captured in |output| (at most 64
 * KiB are kept). Gives the exit code, or 256 + signal. A child that runs longer than |limit_ns| is
 * killed with its whole process group: LW_STATUS_DEVICE_FAILED. */
lw_status lw__process_run(char *const argv[], char *const envp[], int64_t limit_ns, lw_text *output,
                          int *out_code, lw_diag *diag) LW_MUST_CHECK;
/* A new folder of mode 0700 below |parent|, locked (flock) as long as |fd| is open. */
typedef struct lw_folder {
  lw_text path;
  int fd;
} lw_folder;
lw_status lw__folder_create(const char *parent, lw_diag *diag, lw_folder *out) LW_MUST_CHECK;
/* Removes it with all files in it. */
void lw__folder_remove(lw_folder *folder);
/* Removes the folders that processes left behind which ended before they could: ours, of that form,
 * and locked by nobody. */
void lw__folder_sweep(const char *parent);

/* ---- jobs around the cache (jobs.c) ---- */

typedef struct lw_build_report {
  uint32_t registers, spill_bytes, shared_bytes, serialized;
} lw_build_report;

/* What one compilation came to. The compile function fills it; memory is from lw__mem. */
typedef struct lw_build_result {
  lw_status status;
  void *image;
  size_t image_bytes;
  lw_build_report *reports; /* one per entry, zeroed beforehand */
  lw_text log;
  lw_diag diag;
} lw_build_result;

typedef struct lw_builder {
  const char *kind; /* of cache entries */
  lw_hash identity; /* everything but the source that decides the result */
  /* Called once, before the first compilation; not at all when the cache holds everything. May be
   * NULL. */
  lw_status (*prepare)(void *state, lw_diag *diag);
  /* Called from any thread, several at once. Messages go to out->diag. */
  void (*compile)(void *state, const lw_build_job *job, lw_build_result *out);
  void *state;
} lw_builder;

/* The identity of the compiler that was used last for |request| (everything about it but the
 * compiler): what a start without that compiler goes by, so that kernels it has built stay usable.
 * |cache| may be NULL. */
bool lw__build_recall_tool(lw_cache *cache, lw_hash request, lw_hash *out_identity);
void lw__build_remember_tool(lw_cache *cache, lw_hash request, lw_hash identity);

lw_status lw__build_jobs(const lw_builder *builder, lw_build_job *jobs, uint32_t count,
                         uint32_t threads, lw_cache *cache, lw_arena *arena,
                         lw_diag *diag) LW_MUST_CHECK;

/* Hashes a string into |seed|, its end included. NULL is "". */
lw_hash lw__build_hash_text(const char *text, lw_hash seed);
/* Path, size and modification time of a file: a cheap stand-in for its content. */
lw_hash lw__build_hash_file(const char *path, lw_hash seed);

#endif

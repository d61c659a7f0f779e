/* build_kernels.h: turns kernel source into images: NVRTC for CUDA, the system compiler for the
 * CPU, with a cache. */
#ifndef LW_COMPILER_BUILD_KERNELS_H
#define LW_COMPILER_BUILD_KERNELS_H

#include "base/base.h"

/* The persistent cache: one SQLite file (WAL) in a folder of mode 0700 owned by the user. Every
 * trouble with it (unwritable, foreign owner, corrupt) is a warning in |diag| and means working
 * without it. Images carry a checksum that is verified before they are used. Thread-safe. */
typedef struct lw_cache lw_cache;
/* |folder| NULL: $XDG_CACHE_HOME or ~/.cache is the CLI's business, not ours: NULL gives an
 * in-memory cache. */
lw_status lw__cache_open(const char *folder, lw_diag *diag, lw_cache **out) LW_MUST_CHECK;
/* What the cache writes to, for reports: "memory", "read-only" or "file". */
const char *lw__cache_mode(const lw_cache *cache);
void lw__cache_close(lw_cache *cache);
/* Entry copied into |arena|; LW_STATUS_NOT_FOUND when absent or damaged. |kind|: "cubin", "so". */
lw_status lw__cache_get(lw_cache *cache, const char *kind, lw_hash key, lw_arena *arena,
                        const void **out_data, size_t *out_bytes) LW_MUST_CHECK;
lw_status lw__cache_put(lw_cache *cache, const char *kind, lw_hash key, const void *data,
                        size_t bytes) LW_MUST_CHECK;

typedef struct lw_build_job { /* one translation unit */
  const char *source;         /* complete */
  const char *const *entries; /* entry point names */
  uint32_t entry_count;
  /* results, in the arena given to the build call */
  const void *image;
  size_t image_bytes;
  bool from_cache;
  const char *log; /* the compiler's words, "" when silent */
  struct {
    uint32_t registers, spill_bytes, shared_bytes;
  } * report; /* per entry; zeros for the CPU */
} lw_build_job;

typedef struct lw_build_options {
  uint32_t threads; /* 0: one per core */
  uint32_t limit_s; /* time for one run of the CPU compiler; 0: 120 */
  /* CUDA */
  uint32_t sm_arch;
  bool arch_specific;
  const char *nvrtc_path;   /* NULL: searched (soname, /usr/local/cuda, nvrtc_search) */
  const char *nvrtc_search; /* further folders with libnvrtc.so.*, separated by colons (Python
                               wheels); may be NULL */
  /* CPU */
  const char *cc;           /* NULL: cc, gcc, clang on |path| */
  const char *path;         /* the PATH to search, from the caller's environment */
  const char *tmp_dir;      /* NULL: /tmp */
  const char *cflags_extra; /* appended, may be NULL */
} lw_build_options;

/* Builds every job that the cache (may be NULL) does not hold, in parallel. LW_STATUS_DEVICE_FAILED
 * when no compiler is there or it rejects the source (the log goes to |diag|). The cache key covers
 * source, options, compiler identity and CPU features. */
lw_status lw__build_cuda(lw_build_job *jobs, uint32_t count, const lw_build_options *options,
                         lw_cache *cache, lw_arena *arena, lw_diag *diag) LW_MUST_CHECK;
lw_status lw__build_cpu(lw_build_job *jobs, uint32_t count, const lw_build_options *options,
                        lw_cache *cache, lw_arena *arena, lw_diag *diag) LW_MUST_CHECK;

#endif

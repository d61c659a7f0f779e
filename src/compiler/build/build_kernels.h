/* build_kernels.h: turns kernel source into images: NVRTC for CUDA, the system compiler for the
 * CPU, with a cache. */
#ifndef LW_COMPILER_BUILD_KERNELS_H
#define LW_COMPILER_BUILD_KERNELS_H

#include "base/base.h"
#include "compiler/build/cache.h"

typedef struct lw_build_job { /* one translation unit */
  const char *source;         /* complete */
  const char *const *entries; /* entry point names */
  uint32_t entry_count;
  /* There are other kernels for the same work: that the assembler had to serialize matrix
   * instructions is reported, where else it fails the build. */
  bool replaceable;
  /* results, in the arena given to the build call */
  const void *image;
  size_t image_bytes;
  bool from_cache;
  bool rejected;   /* the compiler ran and does not take this source: there is no image */
  const char *log; /* the compiler's words, "" when silent */
  struct {
    uint32_t registers, spill_bytes, shared_bytes;
    uint32_t serialized; /* replaceable jobs: 1 when matrix instructions wait for each other */
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
 * when no compiler is there or it rejects a source (the log goes to |diag|; the other jobs are done
 * all the same). The cache key covers
 * source, options, compiler identity and CPU features. */
lw_status lw__build_cuda(lw_build_job *jobs, uint32_t count, const lw_build_options *options,
                         lw_cache *cache, lw_arena *arena, lw_diag *diag) LW_MUST_CHECK;
/* What the cache keys of a build with these options begin with: compiler, flags, CPU features.
 * Opens and starts no compiler: false when |cache| has not seen it yet, and so holds nothing that
 * it built. */
bool lw__build_known_cuda(const lw_build_options *options, lw_cache *cache, lw_hash *out_identity);
bool lw__build_known_cpu(const lw_build_options *options, lw_cache *cache, lw_hash *out_identity);
lw_status lw__build_cpu(lw_build_job *jobs, uint32_t count, const lw_build_options *options,
                        lw_cache *cache, lw_arena *arena, lw_diag *diag) LW_MUST_CHECK;

#endif

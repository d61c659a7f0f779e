/* internal.h: what the sources of base share among themselves and with their tests. */
#ifndef LW_BASE_INTERNAL_H
#define LW_BASE_INTERNAL_H

#include "base/base.h"

lw_status lw__arena_vprintf(lw_arena *arena, const char **out, const char *fmt, va_list args)
    LW_MUST_CHECK LW_PRINTF(3, 0);

/* SipHash-1-3 (Aumasson, Bernstein: "SipHash: a fast short-input PRF", 2012) with 64 bits out. */
uint64_t lw__siphash13(const void *data, size_t bytes, const uint64_t key[2]);

/* The two ways to open |relative| below the folder |dir_fd| without following a link; each gives a
 * descriptor or -1 with errno. The kernel's own needs Linux 5.6 (ENOSYS before, EPERM or ENOSYS in
 * some containers); the walk works everywhere. |relative| has passed the lexical checks of
 * lw__file_map_beneath. */
int lw__file_open_kernel(int dir_fd, const char *relative);
int lw__file_open_walk(int dir_fd, const char *relative);

#endif

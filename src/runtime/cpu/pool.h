/* pool.h: threads that share out a range of numbers. One range at a time; the calling thread works,
 * too. */
#ifndef LW_RUNTIME_CPU_POOL_H
#define LW_RUNTIME_CPU_POOL_H

#include "base/base.h"

typedef struct lw_rt_pool lw_rt_pool;
/* Does the numbers begin .. end-1. */
typedef void (*lw_rt_range)(void *arg, int64_t begin, int64_t end);

/* Cores that this process may use: by its affinity and by its container's quota. */
uint32_t lw__rt_pool_cores(void);
/* |threads| >= 1 counts the caller: a pool of 1 has no threads of its own. */
lw_status lw__rt_pool_create(uint32_t threads, lw_rt_pool **out) LW_MUST_CHECK;
void lw__rt_pool_destroy(lw_rt_pool *pool);
uint32_t lw__rt_pool_threads(const lw_rt_pool *pool);
/* Calls |work| for disjoint pieces of at most |chunk| numbers that make up 0 .. total-1, and
 * returns when all are done. When another thread is using the pool, the caller does everything
 * alone. total + threads * chunk must not overflow. */
void lw__rt_pool_run(lw_rt_pool *pool, int64_t total, int64_t chunk, lw_rt_range work, void *arg);

#endif

/* pool.c: fork and join in a fraction of a microsecond while threads are awake: they spin for a
 * short while after each job before they sleep in the kernel.
 *
 * A job is open while |state| has the open bit. A worker takes part by counting itself into |state|
 * in the same atomic step that sees the bit, so once the caller has closed the job and the count is
 * zero, nobody reads the job any more. A worker that wakes late finds the job closed and was not
 * waited for. */
#include "runtime/cpu/pool.h"

#include <errno.h>
#include <limits.h>
#include <linux/futex.h>
#include <pthread.h>
#include <sched.h>
#include <signal.h>
#include <stdatomic.h>
#include <stdio.h>
#include <string.h>
#include <sys/syscall.h>
#include <unistd.h>

#define POOL_SPIN_NS 30000
#define POOL_LINE_BYTES 64

#define STATE_OPEN (UINT64_C(1) << 31)
#define STATE_ACTIVE (STATE_OPEN - 1)
#define STATE_EPOCH_SHIFT 32

struct lw_rt_pool {
  pthread_mutex_t owner; /* held by the thread whose job it is */
  /* The job; changes only while it is closed and no worker is active. */
  lw_rt_range work;
  void *arg;
  int64_t total, chunk;
  uint32_t thread_count;
  int64_t spin_ns;
  char pad_a[POOL_LINE_BYTES];
  _Atomic int64_t next;
  char pad_b[POOL_LINE_BYTES];
  _Atomic uint64_t state; /* epoch, open bit, active workers */
  char pad_c[POOL_LINE_BYTES];
  _Atomic uint32_t wake; /* counts published jobs; workers sleep on it */
  _Atomic uint32_t sleepers;
  _Atomic uint32_t done; /* the caller sleeps on it */
  _Atomic uint32_t waiting;
  _Atomic bool stop;
  pthread_t threads[];
};

static void futex_wait(_Atomic uint32_t *word, uint32_t value) {
  (void)syscall(SYS_futex, word, FUTEX_WAIT_PRIVATE, value, NULL, NULL, 0);
}

static void futex_wake(_Atomic uint32_t *word, int count) {
  (void)syscall(SYS_futex, word, FUTEX_WAKE_PRIVATE, count, NULL, NULL, 0);
}

static inline void cpu_pause(void) {
#if defined(__x86_64__)
  __builtin_ia32_pause();
#elif defined(__aarch64__)
  __asm__ volatile("yield");
#endif
}

static void pool_work(lw_rt_pool *pool) {
  for (;;) {
    int64_t begin = atomic_fetch_add_explicit(&pool->next, pool->chunk, memory_order_relaxed);
    if (begin >= pool->total) return;
    int64_t end = pool->total - begin < pool->chunk ? pool->total : begin + pool->chunk;
    pool->work(pool->arg, begin, end);
  }
}

/* True as soon as the wake word differs from |seen|. */
static bool pool_spin(lw_rt_pool *pool, uint32_t seen) {
  if (pool->spin_ns == 0) return false;
  int64_t start = lw__now_ns();
  do {
    for (int i = 0; i < 32; i++) {
      if (atomic_load_explicit(&pool->wake, memory_order_acquire) != seen) return true;
      cpu_pause();
    }
  } while (lw__now_ns() - start < pool->spin_ns);
  return false;
}

static void pool_leave(lw_rt_pool *pool) {
  uint64_t before = atomic_fetch_sub(&pool->state, 1);
  if ((before & (STATE_OPEN | STATE_ACTIVE)) != 1) return; /* still open, or not the last one */
  atomic_fetch_add(&pool->done, 1);
  if (atomic_load(&pool->waiting) != 0) futex_wake(&pool->done, 1);
}

static void *pool_main(void *data) {
  lw_rt_pool *pool = data;
  uint32_t joined = 0; /* epoch of the last job that this worker took part in */
  for (;;) {
    uint32_t seen = atomic_load(&pool->wake);
    if (atomic_load(&pool->stop)) return NULL;
    uint64_t state = atomic_load(&pool->state);
    uint32_t epoch = (uint32_t)(state >> STATE_EPOCH_SHIFT);
    if ((state & STATE_OPEN) != 0 && epoch != joined) {
      if (!atomic_compare_exchange_strong(&pool->state, &state, state + 1)) continue;
      joined = epoch;
      pool_work(pool);
      pool_leave(pool);
      continue;
    }
    if (pool_spin(pool, seen)) continue;
    atomic_fetch_add(&pool->sleepers, 1);
    futex_wait(&pool->wake, seen);
    atomic_fetch_sub(&pool->sleepers, 1);
  }
}

static void pool_publish(lw_rt_pool *pool) {
  uint64_t epoch =
      (atomic_load_explicit(&pool->state, memory_order_relaxed) >> STATE_EPOCH_SHIFT) + 1;
  if ((uint32_t)epoch == 0) epoch = 1; /* 0 means "none yet" to workers */
  atomic_store(&pool->state, epoch << STATE_EPOCH_SHIFT | STATE_OPEN);
  atomic_fetch_add(&pool->wake, 1);
  if (atomic_load(&pool->sleepers) == 0) return;
  int64_t pieces = (pool->total + pool->chunk - 1) / pool->chunk - 1;
  futex_wake(&pool->wake, pieces < INT_MAX ? (int)pieces : INT_MAX);
}

static bool pool_is_idle(lw_rt_pool *pool) {
  return (atomic_load(&pool->state) & STATE_ACTIVE) == 0;
}

static void pool_close(lw_rt_pool *pool) {
  atomic_fetch_and(&pool->state, ~STATE_OPEN);
  for (int i = 0; i < 2000; i++) {
    if (pool_is_idle(pool)) return;
    cpu_pause();
  }
  atomic_store(&pool->waiting, 1);
  for (;;) {
    uint32_t seen = atomic_load(&pool->done);
    if (pool_is_idle(pool)) break;
    futex_wait(&pool->done, seen);
  }
  atomic_store(&pool->waiting, 0);
}

void lw__rt_pool_run(lw_rt_pool *pool, int64_t total, int64_t chunk, lw_rt_range work, void *arg) {
  if (total <= 0) return;
  if (pool->thread_count == 0 || total <= chunk || pthread_mutex_trylock(&pool->owner) != 0) {
    work(arg, 0, total);
    return;
  }
  pool->work = work;
  pool->arg = arg;
  pool->total = total;
  pool->chunk = chunk;
  atomic_store_explicit(&pool->next, 0, memory_order_relaxed);
  pool_publish(pool);
  pool_work(pool);
  pool_close(pool);
  (void)pthread_mutex_unlock(&pool->owner);
}

uint32_t lw__rt_pool_threads(const lw_rt_pool *pool) { return pool->thread_count + 1; }

/* "max 100000" or "200000 100000": time that a container may use per period. 0: no limit. */
static uint32_t pool_quota(void) {
  FILE *file = fopen("/sys/fs/cgroup/cpu.max", "re");
  if (file == NULL) return 0;
  unsigned long quota = 0, period = 0;
  int found = fscanf(file, "%lu %lu", &quota, &period);
  (void)fclose(file);
  if (found != 2 || period == 0 || quota == 0) return 0;
  unsigned long cores = (quota + period - 1) / period;
  return cores > UINT32_MAX ? 0 : (uint32_t)cores;
}

uint32_t lw__rt_pool_cores(void) {
  long online = sysconf(_SC_NPROCESSORS_ONLN);
  uint32_t cores = online > 0 ? (uint32_t)online : 1;
  cpu_set_t set;
  CPU_ZERO(&set);
  if (sched_getaffinity(0, sizeof set, &set) == 0 && CPU_COUNT(&set) > 0) {
    cores = (uint32_t)CPU_COUNT(&set);
  }
  uint32_t quota = pool_quota();
  return quota != 0 && quota < cores ? quota : cores;
}

lw_status lw__rt_pool_create(uint32_t threads, lw_rt_pool **out) {
  *out = NULL;
  if (threads == 0 || threads > 4096) return LW_STATUS_USAGE;
  void *memory = NULL;
  LW_TRY(lw__mem_resize(&memory, sizeof(lw_rt_pool) + threads * sizeof(pthread_t)));
  lw_rt_pool *pool = memory;
  memset(pool, 0, sizeof *pool);
  /* With more threads than cores a spinning one keeps a working one from its core. */
  pool->spin_ns = threads <= lw__rt_pool_cores() ? POOL_SPIN_NS : 0;
  (void)pthread_mutex_init(&pool->owner, NULL);
  /* Signals belong to the program's own threads. */
  sigset_t all, old;
  (void)sigfillset(&all);
  (void)pthread_sigmask(SIG_SETMASK, &all, &old);
  int error = 0;
  while (pool->thread_count + 1 < threads && error == 0) {
    error = pthread_create(&pool->threads[pool->thread_count], NULL, pool_main, pool);
    if (error == 0) pool->thread_count++;
  }
  (void)pthread_sigmask(SIG_SETMASK, &old, NULL);
  if (error != 0) {
    lw__rt_pool_destroy(pool);
    return error == ENOMEM ? LW_STATUS_OUT_OF_MEMORY : LW_STATUS_DEVICE_FAILED;
  }
  *out = pool;
  return LW_OK;
}

void lw__rt_pool_destroy(lw_rt_pool *pool) {
  if (pool == NULL) return;
  atomic_store(&pool->stop, true);
  atomic_fetch_add(&pool->wake, 1);
  futex_wake(&pool->wake, INT_MAX);
  for (uint32_t i = 0; i < pool->thread_count; i++) (void)pthread_join(pool->threads[i], NULL);
  (void)pthread_mutex_destroy(&pool->owner);
  lw__mem_free(pool);
}

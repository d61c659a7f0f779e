/* The thread pool: every number is done exactly once, whoever calls, however often. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdlib.h>
#include <string.h>

#include <cmocka.h>
#include <pthread.h>
#include <stdatomic.h>
#include <unistd.h>

#include "runtime/cpu/pool.h"

typedef struct tally {
  uint8_t *seen; /* plain bytes: a number done twice at once is a race that a sanitizer sees */
  _Atomic int64_t pieces;
  int64_t largest;
} tally;

static void mark(void *arg, int64_t begin, int64_t end) {
  tally *t = arg;
  for (int64_t i = begin; i < end; i++) t->seen[i]++;
  atomic_fetch_add(&t->pieces, 1);
}

static void check_range(lw_rt_pool *pool, int64_t total, int64_t chunk) {
  tally t = {.seen = calloc((size_t)total + 1, 1)};
  assert_non_null(t.seen);
  lw__rt_pool_run(pool, total, chunk, mark, &t);
  for (int64_t i = 0; i < total; i++) assert_int_equal(t.seen[i], 1);
  assert_int_equal(t.seen[total], 0);
  if (total == 0) assert_int_equal(t.pieces, 0);
  free(t.seen);
}

static void test_ranges(void **state) {
  (void)state;
  for (uint32_t threads = 1; threads <= 5; threads++) {
    lw_rt_pool *pool;
    assert_int_equal(lw__rt_pool_create(threads, &pool), LW_OK);
    assert_int_equal(lw__rt_pool_threads(pool), threads);
    const int64_t totals[] = {0, 1, 2, 3, 7, 64, 1000, 65537};
    for (size_t i = 0; i < LW_ARRAY_COUNT(totals); i++) {
      check_range(pool, totals[i], 1);
      check_range(pool, totals[i], 7);
      check_range(pool, totals[i], 1 << 20);
    }
    lw__rt_pool_destroy(pool);
  }
}

/* Jobs in quick succession, with pauses long enough for the workers to fall asleep. */
static void test_many_jobs(void **state) {
  (void)state;
  lw_rt_pool *pool;
  assert_int_equal(lw__rt_pool_create(3, &pool), LW_OK);
  for (int i = 0; i < 4000; i++) {
    check_range(pool, 1 + i % 50, 1 + i % 3);
    if (i % 400 == 0) usleep(300);
  }
  lw__rt_pool_destroy(pool);
}

static void *run_some(void *data) {
  for (int i = 0; i < 1500; i++) check_range(data, 40, 2);
  return NULL;
}

static void test_callers_side_by_side(void **state) {
  (void)state;
  lw_rt_pool *pool;
  assert_int_equal(lw__rt_pool_create(3, &pool), LW_OK);
  pthread_t threads[3];
  for (int i = 0; i < 3; i++)
    assert_int_equal(pthread_create(&threads[i], NULL, run_some, pool), 0);
  for (int i = 0; i < 3; i++) pthread_join(threads[i], NULL);
  lw__rt_pool_destroy(pool);
}

typedef struct nested {
  lw_rt_pool *pool;
  _Atomic int64_t sum;
} nested;

static void add_inner(void *arg, int64_t begin, int64_t end) {
  nested *n = arg;
  for (int64_t i = begin; i < end; i++) atomic_fetch_add(&n->sum, i);
}

static void run_inner(void *arg, int64_t begin, int64_t end) {
  nested *n = arg;
  for (int64_t i = begin; i < end; i++) lw__rt_pool_run(n->pool, 10, 1, add_inner, n);
}

static void test_nested(void **state) {
  (void)state;
  nested n = {0};
  assert_int_equal(lw__rt_pool_create(4, &n.pool), LW_OK);
  lw__rt_pool_run(n.pool, 100, 1, run_inner, &n);
  assert_int_equal(n.sum, 4500);
  lw__rt_pool_destroy(n.pool);
}

static void nothing(void *arg, int64_t begin, int64_t end) { (void)arg, (void)begin, (void)end; }

static void test_latency(void **state) {
  (void)state;
  lw_rt_pool *pool;
  assert_int_equal(lw__rt_pool_create(2, &pool), LW_OK);
  int64_t best = INT64_MAX;
  for (int round = 0; round < 20; round++) {
    int64_t start = lw__now_ns();
    for (int i = 0; i < 1000; i++) lw__rt_pool_run(pool, 8, 1, nothing, NULL);
    int64_t ns = (lw__now_ns() - start) / 1000;
    if (ns < best) best = ns;
  }
  print_message("fork and join on 2 threads: %ld ns\n", (long)best);
  lw__rt_pool_destroy(pool);
}

static void test_refusals(void **state) {
  (void)state;
  lw_rt_pool *pool;
  assert_int_equal(lw__rt_pool_create(0, &pool), LW_STATUS_USAGE);
  assert_null(pool);
  lw__mem_fail_at(1);
  assert_int_equal(lw__rt_pool_create(2, &pool), LW_STATUS_OUT_OF_MEMORY);
  lw__mem_fail_at(0);
  lw__rt_pool_destroy(NULL);
}

int main(void) {
  const struct CMUnitTest tests[] = {
      cmocka_unit_test(test_ranges),  cmocka_unit_test(test_many_jobs),
      cmocka_unit_test(test_nested),  cmocka_unit_test(test_callers_side_by_side),
      cmocka_unit_test(test_latency), cmocka_unit_test(test_refusals),
  };
  return cmocka_run_group_tests(tests, NULL, NULL);
}

/* mem.c: the one door to the host allocator, and the vectors that grow through it. */
#include <stdatomic.h>
#include <stdlib.h>
#include <string.h>

#include "base/base.h"

/* Larger requests are refused before the allocator sees them: nothing honest asks for this much in
 * one piece, and overcommitting kernels (and sanitizers) do not answer such a request with NULL. */
#define MEM_LIMIT_BYTES ((size_t)1 << 40)

static _Atomic uint64_t mem_fail_countdown;
static _Atomic uint64_t mem_requests;

uint64_t lw__mem_count(void) { return atomic_load(&mem_requests); }

uint64_t lw__mem_fail_at(uint64_t n) { return atomic_exchange(&mem_fail_countdown, n); }

/* True for the one allocation that the test hook chose. */
static bool mem_must_fail(void) {
  uint64_t left = atomic_load_explicit(&mem_fail_countdown, memory_order_relaxed);
  while (left != 0) {
    if (atomic_compare_exchange_weak(&mem_fail_countdown, &left, left - 1)) return left == 1;
  }
  return false;
}

lw_status lw__mem_resize(void **ptr, size_t bytes) {
  if (bytes == 0) {
    free(*ptr);
    *ptr = NULL;
    return LW_OK;
  }
  atomic_fetch_add_explicit(&mem_requests, 1, memory_order_relaxed);
  if (bytes > MEM_LIMIT_BYTES || mem_must_fail()) return LW_STATUS_OUT_OF_MEMORY;
  void *moved = realloc(*ptr, bytes);
  if (moved == NULL) return LW_STATUS_OUT_OF_MEMORY;
  *ptr = moved;
  return LW_OK;
}

void lw__mem_free(void *ptr) { free(ptr); }

/* The layout of every LW_VEC(T). It is copied in and out by memcpy because T* and void* may not
 * alias. */
typedef struct vec_header {
  void *data;
  uint32_t count;
  uint32_t capacity;
} vec_header;

lw_status lw__vec_grow(void *vec, size_t elem_bytes, uint32_t more) {
  vec_header head;
  memcpy(&head, vec, sizeof head);
  if (more <= head.capacity - head.count) return LW_OK;
  if (more > UINT32_MAX - head.count) return LW_STATUS_OUT_OF_MEMORY;
  uint32_t need = head.count + more;
  uint32_t grown = head.capacity > UINT32_MAX / 2 ? UINT32_MAX : head.capacity * 2;
  uint32_t capacity = grown > need ? grown : need;
  if (capacity < 8) capacity = 8;
  size_t bytes;
  if (!lw__mul_size(capacity, elem_bytes, &bytes)) return LW_STATUS_OUT_OF_MEMORY;
  LW_TRY(lw__mem_resize(&head.data, bytes));
  head.capacity = capacity;
  memcpy(vec, &head, sizeof head);
  return LW_OK;
}

/* arena.c: bump allocation in blocks of doubling size. Under AddressSanitizer everything that was
 * not handed out is poisoned, with a gap behind each piece, so that overruns are seen as with
 * malloc. */
#include <stdio.h>
#include <string.h>

#include "base/internal.h"

#if defined(__SANITIZE_ADDRESS__)
#define ARENA_ASAN 1
#elif defined(__has_feature)
#if __has_feature(address_sanitizer)
#define ARENA_ASAN 1
#endif
#endif

#ifdef ARENA_ASAN
#include <sanitizer/asan_interface.h>
#define ARENA_GAP_BYTES 16
#define arena_hide(p, n) ASAN_POISON_MEMORY_REGION((p), (n))
#define arena_show(p, n) ASAN_UNPOISON_MEMORY_REGION((p), (n))
#else
#define ARENA_GAP_BYTES 0
#define arena_hide(p, n) ((void)(p), (void)(n))
#define arena_show(p, n) ((void)(p), (void)(n))
#endif

#define ARENA_ALIGN 16
#define ARENA_FIRST_BYTES ((size_t)4096)
#define ARENA_LARGEST_BYTES ((size_t)1 << 20) /* blocks stop doubling here */

struct lw_arena_block {
  _Alignas(ARENA_ALIGN) lw_arena_block *next;
  size_t used_bytes, size_bytes; /* of |data| */
  _Alignas(ARENA_ALIGN) unsigned char data[];
};

static void arena_free_block(lw_arena_block *block) {
  arena_show(block->data, block->size_bytes);
  lw__mem_free(block);
}

void lw__arena_deinit(lw_arena *arena) {
  for (lw_arena_block *block = arena->head, *next; block != NULL; block = next) {
    next = block->next;
    arena_free_block(block);
  }
  *arena = (lw_arena){0};
}

void lw__arena_reset(lw_arena *arena) {
  lw_arena_block *largest = arena->head;
  for (lw_arena_block *block = arena->head; block != NULL; block = block->next) {
    if (block->size_bytes > largest->size_bytes) largest = block;
  }
  for (lw_arena_block *block = arena->head, *next; block != NULL; block = next) {
    next = block->next;
    if (block != largest) arena_free_block(block);
  }
  arena->head = largest;
  arena->used_bytes = 0;
  if (largest == NULL) return;
  largest->next = NULL;
  largest->used_bytes = 0;
  arena_hide(largest->data, largest->size_bytes);
}

/* Adds a block with room for |need| bytes. A piece that would fill most of a block gets one of its
 * own behind the head, so that the room left in the head stays usable. */
static lw_status arena_add_block(lw_arena *arena, size_t need, lw_arena_block **out) {
  size_t size = arena->head == NULL ? ARENA_FIRST_BYTES : arena->head->size_bytes * 2;
  if (size > ARENA_LARGEST_BYTES) size = ARENA_LARGEST_BYTES;
  bool alone = need > size / 2;
  if (alone) size = need;
  void *memory = NULL;
  LW_TRY(lw__mem_resize(&memory, sizeof(lw_arena_block) + size));
  lw_arena_block *block = memory;
  block->used_bytes = 0;
  block->size_bytes = size;
  arena_hide(block->data, size);
  if (alone && arena->head != NULL) {
    block->next = arena->head->next;
    arena->head->next = block;
  } else {
    block->next = arena->head;
    arena->head = block;
  }
  *out = block;
  return LW_OK;
}

static lw_status arena_take(lw_arena *arena, size_t bytes, void **out) {
  if (bytes > SIZE_MAX / 4) return LW_STATUS_OUT_OF_MEMORY;
  /* At least one unit, so that empty pieces have distinct, valid addresses. */
  size_t room = (bytes + ARENA_ALIGN - 1 + (bytes == 0)) / ARENA_ALIGN * ARENA_ALIGN;
  size_t need = room + ARENA_GAP_BYTES;
  lw_arena_block *block = arena->head;
  if (block == NULL || block->size_bytes - block->used_bytes < need) {
    LW_TRY(arena_add_block(arena, need, &block));
  }
  void *piece = block->data + block->used_bytes;
  block->used_bytes += need;
  arena->used_bytes += room;
  arena_show(piece, bytes);
  *out = piece;
  return LW_OK;
}

lw_status lw__arena_alloc(lw_arena *arena, size_t count, size_t size, void *out_ptr) {
  size_t bytes;
  if (!lw__mul_size(count, size, &bytes)) return LW_STATUS_OUT_OF_MEMORY;
  void *piece;
  LW_TRY(arena_take(arena, bytes, &piece));
  memset(piece, 0, bytes);
  memcpy(out_ptr, &piece, sizeof piece); /* |out_ptr| points at a T*, which void* may not alias */
  return LW_OK;
}

lw_status lw__arena_dup(lw_arena *arena, const void *data, size_t bytes, void *out_ptr) {
  void *piece;
  LW_TRY(arena_take(arena, bytes, &piece));
  if (bytes != 0) memcpy(piece, data, bytes);
  memcpy(out_ptr, &piece, sizeof piece);
  return LW_OK;
}

lw_status lw__arena_strndup(lw_arena *arena, const char *s, size_t n, const char **out) {
  if (n == SIZE_MAX) return LW_STATUS_OUT_OF_MEMORY;
  void *piece;
  LW_TRY(arena_take(arena, n + 1, &piece));
  char *copy = piece;
  if (n != 0) memcpy(copy, s, n);
  copy[n] = '\0';
  *out = copy;
  return LW_OK;
}

lw_status lw__arena_vprintf(lw_arena *arena, const char **out, const char *fmt, va_list args) {
  va_list again;
  va_copy(again, args);
  int length = vsnprintf(NULL, 0, fmt, again);
  va_end(again);
  if (length < 0) return LW_STATUS_INTERNAL;
  void *piece;
  LW_TRY(arena_take(arena, (size_t)length + 1, &piece));
  (void)vsnprintf(piece, (size_t)length + 1, fmt, args);
  *out = piece;
  return LW_OK;
}

lw_status lw__arena_printf(lw_arena *arena, const char **out, const char *fmt, ...) {
  va_list args;
  va_start(args, fmt);
  lw_status status = lw__arena_vprintf(arena, out, fmt, args);
  va_end(args);
  return status;
}

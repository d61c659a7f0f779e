/* arena.c: working memory that contexts of several programs share. */
#include <string.h>

#include "runtime/internal.h"

lw_status lw__rt_arena_create(lw_rt_device *device, lw_rt_arena **out) {
  void *memory = NULL;
  *out = NULL;
  LW_TRY(lw__mem_resize(&memory, sizeof(lw_rt_arena)));
  lw_rt_arena *arena = memory;
  memset(arena, 0, sizeof *arena);
  atomic_init(&arena->references, 1);
  arena->device = device;
  atomic_fetch_add(&device->references, 1);
  *out = arena;
  return LW_OK;
}

static void free_retired(lw_rt_arena *arena) {
  for (uint32_t i = 0; i < arena->retired.count; i++) {
    arena->device->backend->free(arena->device, arena->retired.data[i]);
  }
  lw_vec_free(&arena->retired);
}

void lw__rt_arena_release(lw_rt_arena *arena) {
  if (arena == NULL || atomic_fetch_sub(&arena->references, 1) != 1) return;
  lw_rt_device *device = arena->device;
  free_retired(arena);
  if (arena->base != NULL) device->backend->free(device, arena->base);
  lw__mem_free(arena);
  lw__rt_device_release(device);
}

uint64_t lw__rt_arena_bytes(const lw_rt_arena *arena) { return arena->bytes; }

lw_status lw__rt_arena_reserve(lw_rt_arena *arena, uint64_t bytes, lw_diag *diag) {
  if (bytes <= arena->bytes) return LW_OK;
  const lw_rt_backend *backend = arena->device->backend;
  void *base;
  LW_TRY(backend->alloc(arena->device, (size_t)bytes, "working memory", diag, &base));
  if (arena->base != NULL && arena->in_streams) {
    lw_status status = lw_vec_push(&arena->retired, arena->base);
    if (status != LW_OK) {
      backend->free(arena->device, base);
      return status;
    }
  } else if (arena->base != NULL) {
    backend->free(arena->device, arena->base);
  }
  arena->base = base;
  arena->bytes = bytes;
  return LW_OK;
}

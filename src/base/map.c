/* map.c: open addressing with linear probing. Keys come from strangers' files, so the hash is keyed
 * with random bits: nobody can prepare names that all collide. Nothing visible depends on the order
 * of slots. */
#include <string.h>
#include <unistd.h>

#include "base/internal.h"

#define MAP_FIRST_CAPACITY 16u
#define MAP_LARGEST_CAPACITY (1u << 31)

/* |hash| 0 marks a free slot. The slot behind the last one holds the key of the hash. */
struct lw_map_slot {
  union {
    struct {
      const char *ptr;
      size_t len;
    };
    uint64_t secret[2];
  };
  uint32_t value, hash;
};

void lw__map_deinit(lw_map *map) {
  lw__mem_free(map->slots);
  *map = (lw_map){0};
}

static uint32_t map_hash(const lw_map *map, lw_str key) {
  uint64_t hash = lw__siphash13(key.ptr, key.len, map->slots[map->capacity].secret);
  uint32_t folded = (uint32_t)(hash ^ (hash >> 32));
  return folded == 0 ? 1 : folded;
}

/* The slot that holds |key|, else the free slot where it belongs. */
static struct lw_map_slot *map_find(const lw_map *map, lw_str key, uint32_t hash) {
  uint32_t mask = map->capacity - 1;
  for (uint32_t i = hash & mask;; i = (i + 1) & mask) {
    struct lw_map_slot *slot = &map->slots[i];
    if (slot->hash == 0) return slot;
    if (slot->hash == hash && lw__str_eq(lw__str(slot->ptr, slot->len), key)) return slot;
  }
}

static void map_choose_secret(struct lw_map_slot *slots, uint64_t secret[2]) {
  if (getentropy(secret, 2 * sizeof *secret) == 0) return;
  secret[0] = (uint64_t)lw__now_ns();
  secret[1] = (uint64_t)(uintptr_t)slots;
}

static lw_status map_grow(lw_map *map) {
  if (map->capacity >= MAP_LARGEST_CAPACITY) return LW_STATUS_OUT_OF_MEMORY;
  lw_map bigger = {.capacity = map->capacity == 0 ? MAP_FIRST_CAPACITY : map->capacity * 2};
  size_t bytes;
  if (!lw__mul_size((size_t)bigger.capacity + 1, sizeof *map->slots, &bytes)) {
    return LW_STATUS_OUT_OF_MEMORY;
  }
  void *memory = NULL;
  LW_TRY(lw__mem_resize(&memory, bytes));
  bigger.slots = memset(memory, 0, bytes);
  if (map->slots == NULL) {
    map_choose_secret(bigger.slots, bigger.slots[bigger.capacity].secret);
  } else {
    bigger.slots[bigger.capacity] = map->slots[map->capacity];
  }
  for (uint32_t i = 0; i < map->capacity; i++) {
    const struct lw_map_slot *slot = &map->slots[i];
    if (slot->hash == 0) continue;
    *map_find(&bigger, lw__str(slot->ptr, slot->len), slot->hash) = *slot;
    bigger.count++;
  }
  lw__mem_free(map->slots);
  *map = bigger;
  return LW_OK;
}

lw_status lw__map_put(lw_map *map, lw_str key, uint32_t value, bool *out_added,
                      uint32_t *out_value) {
  if (map->capacity == 0 || map->count >= map->capacity / 4 * 3) LW_TRY(map_grow(map));
  uint32_t hash = map_hash(map, key);
  struct lw_map_slot *slot = map_find(map, key, hash);
  bool added = slot->hash == 0;
  if (added) {
    slot->ptr = key.ptr;
    slot->len = key.len;
    slot->value = value;
    slot->hash = hash;
    map->count++;
  }
  if (out_added != NULL) *out_added = added;
  if (out_value != NULL) *out_value = slot->value;
  return LW_OK;
}

uint32_t lw__map_get(const lw_map *map, lw_str key) {
  if (map->count == 0) return LW_NONE;
  const struct lw_map_slot *slot = map_find(map, key, map_hash(map, key));
  return slot->hash == 0 ? LW_NONE : slot->value;
}

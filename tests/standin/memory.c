/* memory.c: device memory of the look-alike. A block has two bits for each of its bytes, read and
 * written by the operation that runs now; they are moved into a log when it ends. */
#include "standin/memory.h"

#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

enum { GUARD_BYTES = 512, GUARD_VALUE = 0xa5, WORD = 64 };

typedef struct block {
  struct block *next;
  char *whole, *start;
  size_t bytes, padded; /* as asked for; up to the second guard zone's end, from |start| */
  uint64_t number;      /* addresses come back, numbers do not */
  uint64_t *read, *written;
  size_t first_word, end_word; /* of the touched ones; none: first >= end */
} block;

typedef struct log_part {
  struct log_part *next;
  uint64_t number;
  const char *start; /* of the block */
  size_t first_word, end_word;
  uint64_t *read, *written; /* from |first_word| on */
} log_part;

struct memory_log {
  log_part *parts;
};

static block *blocks;
static const block *last_hit;
static uint64_t block_number;
static const char *lowest = (const char *)UINTPTR_MAX, *highest; /* of all blocks ever */
static char guard_hit[160]; /* of the first access inside a guard zone */

/* ---- blocks ---- */

void *memory_alloc(size_t bytes) {
  block *b = calloc(1, sizeof *b);
  size_t padded = (bytes + 255) / 256 * 256 + GUARD_BYTES;
  size_t words = padded / WORD + 1;
  b->whole = aligned_alloc(256, GUARD_BYTES + padded);
  b->read = calloc(words, sizeof *b->read);
  b->written = calloc(words, sizeof *b->written);
  if (b->whole == NULL || b->read == NULL || b->written == NULL) {
    free(b->whole), free(b->read), free(b->written), free(b);
    return NULL;
  }
  b->start = b->whole + GUARD_BYTES;
  b->bytes = bytes;
  b->padded = padded;
  b->number = ++block_number;
  b->first_word = SIZE_MAX;
  memset(b->whole, GUARD_VALUE, GUARD_BYTES);
  memset(b->start, 0xff, bytes);
  memset(b->start + bytes, GUARD_VALUE, padded - bytes);
  b->next = blocks;
  blocks = b;
  if (b->whole < lowest) lowest = b->whole;
  if (b->start + padded > highest) highest = b->start + padded;
  return b->start;
}

/* Whether the bytes are as they were; they are afterwards. */
static bool check_zone(char *at, size_t bytes) {
  static char untouched[GUARD_BYTES + 256];
  if (untouched[0] == 0) memset(untouched, GUARD_VALUE, sizeof untouched);
  bool good = memcmp(at, untouched, bytes) == 0;
  if (!good) memset(at, GUARD_VALUE, bytes);
  return good;
}

static void check_guards(const block *b) {
  bool before = check_zone(b->whole, GUARD_BYTES);
  bool behind = check_zone(b->start + b->bytes, b->padded - b->bytes);
  if ((before && behind) || guard_hit[0] != '\0') return;
  snprintf(guard_hit, sizeof guard_hit, "somebody wrote %s a block of %zu bytes",
           before ? "behind" : "in front of", b->bytes);
}

bool memory_guards_broken(char *out_text, size_t bytes) {
  for (const block *b = blocks; b != NULL; b = b->next) check_guards(b);
  bool broken = guard_hit[0] != '\0';
  snprintf(out_text, bytes, "%s", guard_hit);
  guard_hit[0] = '\0';
  return broken;
}

bool memory_free(void *memory) {
  for (block **at = &blocks; *at != NULL; at = &(*at)->next) {
    block *b = *at;
    if (b->start != memory) continue;
    check_guards(b);
    *at = b->next;
    last_hit = NULL;
    free(b->whole), free(b->read), free(b->written), free(b);
    return true;
  }
  return false;
}

void memory_free_all(void) {
  while (blocks != NULL) (void)memory_free(blocks->start);
}

/* The block that has |at| in it or in its guard zones. */
static const block *find(const char *at) {
  if (at < lowest || at >= highest) return NULL;
  if (last_hit != NULL && at >= last_hit->whole && at < last_hit->start + last_hit->padded)
    return last_hit;
  for (const block *b = blocks; b != NULL; b = b->next) {
    if (at < b->whole || at >= b->start + b->padded) continue;
    last_hit = b;
    return b;
  }
  return NULL;
}

bool memory_holds(const void *at, size_t bytes) {
  const char *from = at;
  for (const block *b = blocks; b != NULL; b = b->next) {
    if (from < b->start || from > b->start + b->bytes) continue;
    if (bytes <= b->bytes - (size_t)(from - b->start)) return true;
  }
  return false;
}

/* ---- the log ---- */

static void set_bits(uint64_t *bits, size_t from, size_t end) {
  while (from < end) {
    size_t bit = from % WORD, count = WORD - bit < end - from ? WORD - bit : end - from;
    uint64_t mask = count == WORD ? UINT64_MAX : ((UINT64_C(1) << count) - 1) << bit;
    bits[from / WORD] |= mask;
    from += count;
  }
}

void memory_touch(const void *at, size_t bytes, bool write) {
  const char *from = at;
  const block *found = find(from);
  if (found == NULL || bytes == 0) return;
  block *b = (block *)found;
  if (from < b->start || from + bytes > b->start + b->bytes) {
    if (guard_hit[0] == '\0') {
      snprintf(guard_hit, sizeof guard_hit, "%s %zu bytes at %td of a block of %zu",
               write ? "writes" : "reads", bytes, from - b->start, b->bytes);
    }
    return;
  }
  size_t offset = (size_t)(from - b->start), first = offset / WORD,
         end = (offset + bytes - 1) / WORD + 1;
  set_bits(write ? b->written : b->read, offset, offset + bytes);
  if (b->first_word == SIZE_MAX) b->end_word = 0;
  if (first < b->first_word) b->first_word = first;
  if (end > b->end_word) b->end_word = end;
}

static uint64_t *move_bits(uint64_t *bits, size_t first, size_t end) {
  size_t bytes = (end - first) * sizeof *bits;
  uint64_t *moved = memcpy(malloc(bytes), bits + first, bytes);
  memset(bits + first, 0, bytes);
  return moved;
}

memory_log *memory_take_log(void) {
  memory_log *log = NULL;
  for (block *b = blocks; b != NULL; b = b->next) {
    if (b->first_word == SIZE_MAX) continue;
    if (log == NULL) log = calloc(1, sizeof *log);
    log_part *part = malloc(sizeof *part);
    *part = (log_part){.next = log->parts,
                       .number = b->number,
                       .start = b->start,
                       .first_word = b->first_word,
                       .end_word = b->end_word,
                       .read = move_bits(b->read, b->first_word, b->end_word),
                       .written = move_bits(b->written, b->first_word, b->end_word)};
    log->parts = part;
    b->first_word = SIZE_MAX;
  }
  return log;
}

void memory_free_log(memory_log *log) {
  if (log == NULL) return;
  for (log_part *part = log->parts, *next; part != NULL; part = next) {
    next = part->next;
    free(part->read), free(part->written), free(part);
  }
  free(log);
}

static const void *part_conflict(const log_part *a, const log_part *b) {
  size_t first = a->first_word > b->first_word ? a->first_word : b->first_word;
  size_t end = a->end_word < b->end_word ? a->end_word : b->end_word;
  for (size_t w = first; w < end; w++) {
    uint64_t wa = a->written[w - a->first_word], wb = b->written[w - b->first_word];
    uint64_t both = (wa & (wb | b->read[w - b->first_word])) | (wb & a->read[w - a->first_word]);
    if (both != 0) return a->start + w * WORD + (size_t)__builtin_ctzll(both);
  }
  return NULL;
}

const void *memory_conflict(const memory_log *a, const memory_log *b) {
  if (a == NULL || b == NULL) return NULL;
  for (const log_part *p = a->parts; p != NULL; p = p->next) {
    for (const log_part *q = b->parts; q != NULL; q = q->next) {
      const void *at = p->number == q->number ? part_conflict(p, q) : NULL;
      if (at != NULL) return at;
    }
  }
  return NULL;
}

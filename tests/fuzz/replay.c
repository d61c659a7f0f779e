/* replay.c: the main program of a fuzz target where libFuzzer is not at hand. Feeds the target
 * every file of the named files and folders, each as it is and then changed a little in many ways;
 * the changes come from a fixed seed, so that a failure comes again. usage: fuzz_<x> [--rounds N]
 * FILE_OR_FOLDER... (without any: starts from the empty input) */
#include <dirent.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>

#include "base/base.h"

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size);

enum { replay_max_bytes = 1 << 20 };

typedef struct replay {
  lw_rng rng;
  long rounds;
  unsigned long inputs;
} replay;

/* One change: a bit, a byte, a run of bytes copied, removed or inserted, or a cut. The buffer has
 * room for |capacity| bytes. */
static size_t mutate(lw_rng *rng, uint8_t *data, size_t size, size_t capacity) {
  static const uint8_t edges[] = {0x00, 0x01, 0x7f, 0x80, 0xff, 0x08, 0x12, 0x20};
  if (size == 0) {
    data[0] = (uint8_t)lw__rng_u64(rng);
    return 1;
  }
  size_t at = (size_t)lw__rng_range(rng, 0, (int64_t)size);
  size_t run = (size_t)lw__rng_range(rng, 1, 17);
  if (run > size - at) run = size - at;
  switch (lw__rng_range(rng, 0, 6)) {
    case 0: data[at] ^= (uint8_t)(1 << lw__rng_range(rng, 0, 8)); return size;
    case 1: data[at] = (uint8_t)lw__rng_u64(rng); return size;
    case 2: data[at] = edges[lw__rng_range(rng, 0, LW_ARRAY_COUNT(edges))]; return size;
    case 3: {
      size_t from = (size_t)lw__rng_range(rng, 0, (int64_t)(size - run + 1));
      memmove(data + at, data + from, run);
      return size;
    }
    case 4: memmove(data + at, data + at + run, size - at - run); return size - run;
    default:
      if (lw__rng_range(rng, 0, 4) == 0) return at; /* a cut */
      if (run > capacity - size) return size;
      memmove(data + at + run, data + at, size - at);
      return size + run;
  }
}

/* The target gets an exact copy, so that a sanitizer sees a read behind the end. */
static int feed(replay *r, const uint8_t *data, size_t size) {
  uint8_t *copy = malloc(size + (size == 0));
  if (copy == NULL) return 1;
  if (size != 0) memcpy(copy, data, size);
  (void)LLVMFuzzerTestOneInput(copy, size);
  free(copy);
  r->inputs++;
  return 0;
}

static int feed_around(replay *r, const uint8_t *data, size_t size) {
  if (feed(r, data, size) != 0) return 1;
  size_t capacity = size + 256;
  uint8_t *changed = malloc(capacity);
  if (changed == NULL) return 1;
  int failed = 0;
  for (long round = 0; round < r->rounds && failed == 0; round++) {
    if (size != 0) memcpy(changed, data, size);
    size_t now = size;
    for (int64_t n = lw__rng_range(&r->rng, 1, 5); n > 0; n--) {
      now = mutate(&r->rng, changed, now, capacity);
    }
    failed = feed(r, changed, now);
  }
  free(changed);
  return failed;
}

static int feed_file(replay *r, const char *path) {
  lw_file_map map;
  lw_diag diag = {0};
  if (lw__file_map(path, &diag, &map) != LW_OK) {
    fprintf(stderr, "%s: %s\n", path, lw__diag_first_error(&diag));
    lw__diag_deinit(&diag);
    return 1;
  }
  int failed = map.bytes <= replay_max_bytes ? feed_around(r, map.data, map.bytes) : 0;
  lw__file_unmap(&map);
  return failed;
}

static int feed_path(replay *r, const char *path) {
  struct dirent **entries;
  int count = scandir(path, &entries, NULL, alphasort);
  if (count < 0) return feed_file(r, path);
  int failed = 0;
  for (int i = 0; i < count; i++) {
    char inner[4096];
    int length = snprintf(inner, sizeof inner, "%s/%s", path, entries[i]->d_name);
    struct stat info;
    if (length > 0 && (size_t)length < sizeof inner && stat(inner, &info) == 0 &&
        S_ISREG(info.st_mode)) {
      failed |= feed_file(r, inner);
    }
    free(entries[i]);
  }
  free(entries);
  return failed;
}

int main(int argc, char **argv) {
  replay r = {.rounds = 300};
  lw__rng_seed(&r.rng, 1);
  int first = 1, failed = 0;
  if (argc > 2 && strcmp(argv[1], "--rounds") == 0) {
    r.rounds = strtol(argv[2], NULL, 10);
    first = 3;
  }
  if (first == argc) failed = feed_around(&r, NULL, 0);
  for (int i = first; i < argc; i++) failed |= feed_path(&r, argv[i]);
  printf("%lu inputs\n", r.inputs);
  return failed;
}

/* tools_cache.c: the cache for lawson's own command line. */
#include <string.h>
#include <sys/stat.h>

#include "api/model.h"
#include "api/plans.h"

int lw_tools_is_plan(const char *path) { return path != NULL && lw__plans_is_file(path); }

int lw_tools_parse_size(const char *text, uint64_t *out_bytes) {
  return text != NULL && lw__options_parse_size(text, out_bytes);
}

typedef struct cache_holder { /* what a lw_tools_cache pointer really points to */
  lw_tools_cache cache;
  lw_arena arena;
} cache_holder;

static uint64_t file_bytes(const char *folder) {
  static const char *const parts[] = {"kernels.db", "kernels.db-wal", "kernels.db-shm"};
  uint64_t bytes = 0;
  for (size_t i = 0; i < LW_ARRAY_COUNT(parts); i++) {
    lw_text path = {0};
    struct stat info;
    lw__text_add(&path, "%s/%s", folder, parts[i]);
    if (path.status == LW_OK && stat(path.data, &info) == 0) bytes += (uint64_t)info.st_size;
    lw__text_deinit(&path);
  }
  return bytes;
}

static lw_status read_entries(cache_holder *h, lw_cache *cache) {
  lw_cache_entry *list;
  lw_tools_cache_entry *entries;
  uint32_t count;
  LW_TRY(lw__cache_list(cache, &h->arena, &list, &count));
  LW_TRY(lw__arena_alloc(&h->arena, count, sizeof *entries, &entries));
  for (uint32_t i = 0; i < count; i++) {
    entries[i] = (lw_tools_cache_entry){.kind = list[i].kind,
                                        .name = list[i].name,
                                        .bytes = list[i].bytes,
                                        .created_s = list[i].created_s,
                                        .used_s = list[i].used_s};
    lw__hash_hex(list[i].key, entries[i].key);
    h->cache.entry_bytes += list[i].bytes;
  }
  h->cache.entries = entries;
  h->cache.entry_count = count;
  return LW_OK;
}

/* The folder's cache; nothing is made where there is none yet. */
static lw_status open_folder(const lw_options *options, lw_diag *diag, lw_cache **out) {
  struct stat info;
  const char *folder = options->cache_folder;
  bool there = folder != NULL && stat(folder, &info) == 0;
  return lw__cache_open(there ? folder : NULL, diag, out);
}

/* The first message, whatever its severity. */
static void say_why(lw_diag *diag, lw_tools_reason *reason) {
  if (reason == NULL) return;
  const lw_message *m = diag->messages.count > 0 ? &diag->messages.data[0] : NULL;
  lw_text line = {0};
  if (m != NULL) lw__text_add(&line, "%s%s%s", m->where, m->where[0] ? ": " : "", m->text);
  size_t n = line.len < sizeof reason->text ? line.len : sizeof reason->text - 1;
  memcpy(reason->text, lw__text_str(&line), n);
  reason->text[n] = '\0';
  lw__text_deinit(&line);
}

static lw_status cache_read(cache_holder *h, const lw_options *options, lw_diag *diag) {
  lw_cache *cache = NULL;
  const char *folder = options->cache_folder == NULL ? "" : options->cache_folder;
  LW_TRY(lw__arena_strndup(&h->arena, folder, strlen(folder), &h->cache.folder));
  LW_TRY(open_folder(options, diag, &cache));
  h->cache.mode = lw__cache_mode(cache);
  lw_status status = read_entries(h, cache);
  if (status == LW_STATUS_IO) status = lw__fail(diag, status, folder, "the cache cannot be read");
  lw__cache_close(cache);
  if (folder[0] != '\0') h->cache.file_bytes = file_bytes(folder);
  return status;
}

lw_status lw_tools_cache_read(const lw_options *options, lw_tools_cache **out_cache,
                              lw_tools_reason *reason) {
  if (options == NULL || out_cache == NULL) return LW_STATUS_USAGE;
  *out_cache = NULL;
  void *memory = NULL;
  LW_TRY(lw__mem_resize(&memory, sizeof(cache_holder)));
  cache_holder *h = memory;
  memset(h, 0, sizeof *h);
  lw_diag diag = {0};
  lw_status status = cache_read(h, options, &diag);
  say_why(&diag, reason);
  lw__diag_deinit(&diag);
  if (status == LW_OK) {
    *out_cache = &h->cache;
  } else {
    lw_tools_cache_destroy(&h->cache);
  }
  return status;
}

void lw_tools_cache_destroy(lw_tools_cache *cache) {
  if (cache == NULL) return;
  cache_holder *h = (cache_holder *)cache;
  lw__arena_deinit(&h->arena);
  lw__mem_free(h);
}

lw_status lw_tools_cache_prune(const lw_options *options, uint64_t keep_bytes,
                               int64_t unused_since_s, lw_tools_pruned *out_pruned,
                               lw_tools_reason *reason) {
  if (options == NULL || out_pruned == NULL) return LW_STATUS_USAGE;
  *out_pruned = (lw_tools_pruned){0};
  lw_diag diag = {0};
  lw_cache *cache = NULL;
  lw_cache_pruned pruned;
  lw_status status = open_folder(options, &diag, &cache);
  if (status == LW_OK && diag.messages.count > 0) {
    status = LW_STATUS_IO; /* it is not the folder's cache that was opened */
  } else if (status == LW_OK) {
    status = lw__cache_prune(cache, keep_bytes, unused_since_s, &pruned);
    if (status == LW_STATUS_IO) {
      lw__note(&diag, LW_SEVERITY_WARNING, options->cache_folder, "the cache cannot be written");
    } else if (status == LW_OK) {
      *out_pruned =
          (lw_tools_pruned){pruned.removed, pruned.removed_bytes, pruned.left, pruned.left_bytes};
    }
  }
  lw__cache_close(cache);
  say_why(&diag, reason);
  lw__diag_deinit(&diag);
  return status;
}

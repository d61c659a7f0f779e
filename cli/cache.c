/* cache.c: lawson cache: what is kept from one start to the next, and how to get rid of it. */
#include <stdlib.h>
#include <string.h>
#include <time.h>

#include "session.h"

static const cli_option cache_options[] = {
    {"cache", "DIR", "$LAWSON_CACHE, else ~/.cache/lawson", "the folder", NULL, 0},
    {"kind", "K", NULL, "list: only plan, so (kernels for CPUs), cubin (for GPUs) or tool", NULL,
     0},
    {"limit", "N", "40", "list: as many entries, most recently used first; 0: all", NULL, 0},
    {"max-size", "SIZE", NULL,
     "prune: remove the least recently used entries until at most so much is left: 500M, 2G", NULL,
     0},
    {"unused-for", "DAYS", NULL, "prune: remove what was not used for so many days", NULL, 0},
    {"json", NULL, NULL, "print one JSON object instead of text", NULL, 0},
    {NULL, NULL, NULL, NULL, NULL, 0}};

/* ---- list ----- */

/* "3 hours ago" */
static const char *ago_text(int64_t then_s) {
  static char text[48];
  static const struct {
    int64_t seconds;
    const char *unit;
  } units[] = {{86400, "day"}, {3600, "hour"}, {60, "minute"}};
  int64_t age = (int64_t)time(NULL) - then_s;
  for (size_t i = 0; i < CLI_COUNT(units); i++) {
    long long n = age / units[i].seconds;
    if (n < 1) continue;
    snprintf(text, sizeof text, "%lld %s%s ago", n, units[i].unit, n == 1 ? "" : "s");
    return text;
  }
  return "just now";
}

static bool wanted(const lw_tools_cache_entry *e, const char *kind) {
  return kind == NULL || strcmp(e->kind, kind) == 0;
}

static void print_sums(const lw_tools_cache *cache) {
  static const char *const kinds[][2] = {{"plan", "plans"},
                                         {"so", "units of kernels for CPUs"},
                                         {"cubin", "units of kernels for GPUs"},
                                         {"tool", "notes about compilers"}};
  for (size_t k = 0; k < CLI_COUNT(kinds); k++) {
    size_t count = 0;
    double bytes = 0;
    for (size_t i = 0; i < cache->entry_count; i++) {
      if (!wanted(&cache->entries[i], kinds[k][0])) continue;
      count++;
      bytes += (double)cache->entries[i].bytes;
    }
    if (count > 0) printf("  %zu %s, %s\n", count, kinds[k][1], cli_bytes_text(bytes));
  }
}

static void print_list(const lw_tools_cache *cache, const char *kind, size_t limit) {
  static const char *const heads[] = {"<kind", ">size", "<used", "<key", "<name"};
  cli_table *table = cli_table_create(CLI_COUNT(heads), heads);
  size_t shown = 0, total = 0;
  for (size_t i = 0; i < cache->entry_count; i++) {
    const lw_tools_cache_entry *e = &cache->entries[i];
    if (!wanted(e, kind)) continue;
    if (total++ >= limit && limit > 0) continue;
    shown++;
    cli_table_cell(table, "%s", e->kind);
    cli_table_cell(table, "%s", cli_bytes_text((double)e->bytes));
    cli_table_cell(table, "%s", ago_text(e->used_s));
    cli_table_cell(table, "%.12s", e->key);
    cli_table_cell(table, "%s", e->name);
  }
  printf("%s: %zu entries, %s; %s on the disk%s\n", cache->folder, cache->entry_count,
         cli_bytes_text((double)cache->entry_bytes), cli_bytes_text((double)cache->file_bytes),
         strcmp(cache->mode, "read-only") == 0 ? ", may only be read" : "");
  print_sums(cache);
  if (shown > 0) {
    printf("\n");
    cli_table_print(table, stdout, "");
  }
  if (shown < total) printf("... and %zu more (--limit 0 lists all)\n", total - shown);
  cli_table_destroy(table);
}

static json_t *list_json(const lw_tools_cache *cache, const char *kind) {
  json_t *root =
      json_pack("{s:s, s:o, s:s, s:I, s:I}", "schema", "lawson-cache-1", "folder",
                cli_json_text(cache->folder), "mode", cache->mode, "entry_bytes",
                (json_int_t)cache->entry_bytes, "file_bytes", (json_int_t)cache->file_bytes);
  json_t *array = json_array();
  for (size_t i = 0; i < cache->entry_count; i++) {
    const lw_tools_cache_entry *e = &cache->entries[i];
    if (!wanted(e, kind)) continue;
    json_array_append_new(
        array, json_pack("{s:o, s:o, s:s, s:I, s:I, s:I}", "kind", cli_json_text(e->kind), "name",
                         cli_json_text(e->name), "key", e->key, "bytes", (json_int_t)e->bytes,
                         "created_s", (json_int_t)e->created_s, "used_s", (json_int_t)e->used_s));
  }
  json_object_set_new(root, "entries", array);
  return root;
}

static int list(const cli_args *args, const lw_options *options) {
  static const char *const kinds[] = {"plan", "so", "cubin", "tool"};
  const char *kind = cli_text(args, "kind", NULL);
  bool known = kind == NULL;
  for (size_t i = 0; i < CLI_COUNT(kinds) && !known; i++) known = strcmp(kind, kinds[i]) == 0;
  if (!known) {
    return cli_fail(LW_STATUS_USAGE, "--kind takes plan, so, cubin or tool, not '%s'", kind);
  }
  long long limit;
  if (!cli_number(args, "limit", 40, 0, 1000000000, &limit)) return LW_STATUS_USAGE;
  lw_tools_cache *cache;
  lw_tools_reason reason;
  lw_status status = lw_tools_cache_read(options, &cache, &reason);
  if (status != LW_OK) return cli_fail(status, "%s", reason.text);
  if (reason.text[0] != '\0') cli_warn("%s", reason.text);
  int code = 0;
  if (cli_has(args, "json")) {
    if (!cli_json_write(list_json(cache, kind), "-")) code = LW_STATUS_USAGE;
  } else {
    print_list(cache, kind, (size_t)limit);
  }
  lw_tools_cache_destroy(cache);
  return code;
}

/* ---- clear, prune ----- */

static int report_pruned(const cli_args *args, const lw_tools_pruned *p) {
  if (cli_has(args, "json")) {
    json_t *root =
        json_pack("{s:s, s:I, s:I, s:I, s:I}", "schema", "lawson-cache-prune-1", "removed",
                  (json_int_t)p->removed, "removed_bytes", (json_int_t)p->removed_bytes, "left",
                  (json_int_t)p->left, "left_bytes", (json_int_t)p->left_bytes);
    return cli_json_write(root, "-") ? 0 : LW_STATUS_USAGE;
  }
  printf("removed %llu entr%s, %s; ", (unsigned long long)p->removed, p->removed == 1 ? "y" : "ies",
         cli_bytes_text((double)p->removed_bytes));
  printf("left %llu, %s\n", (unsigned long long)p->left, cli_bytes_text((double)p->left_bytes));
  return 0;
}

static int prune_to(const cli_args *args, const lw_options *options, uint64_t keep_bytes,
                    int64_t unused_since_s) {
  lw_tools_pruned pruned;
  lw_tools_reason reason;
  lw_status status = lw_tools_cache_prune(options, keep_bytes, unused_since_s, &pruned, &reason);
  return status == LW_OK ? report_pruned(args, &pruned) : cli_fail(status, "%s", reason.text);
}

static int prune(const cli_args *args, lw_options *options) {
  const char *size = cli_text(args, "max-size", NULL);
  long long days;
  if (size == NULL && !cli_has(args, "unused-for")) {
    return cli_fail(LW_STATUS_USAGE,
                    "cache prune needs --max-size SIZE or --unused-for DAYS; 'lawson cache clear' "
                    "removes everything");
  }
  if (!cli_number(args, "unused-for", 0, 0, 36500, &days)) return LW_STATUS_USAGE;
  uint64_t keep_bytes = UINT64_MAX;
  if (size != NULL && !lw_tools_parse_size(size, &keep_bytes)) {
    return cli_fail(LW_STATUS_USAGE, "--max-size takes a size like 500M or 2G, not '%s'", size);
  }
  bool by_age = cli_has(args, "unused-for");
  return prune_to(args, options, keep_bytes,
                  by_age ? (int64_t)time(NULL) - days * 86400 : INT64_MIN);
}

/* ---- the command ----- */

/* An option that the word has no use for is a misunderstanding. */
static int check_word(const cli_args *args, const char *word) {
  static const struct {
    const char *option, *word;
  } uses[] = {{"kind", "list"}, {"limit", "list"}, {"max-size", "prune"}, {"unused-for", "prune"}};
  static const char *const words[] = {"list", "clear", "prune"};
  bool known = false;
  for (size_t i = 0; i < CLI_COUNT(words); i++) known |= strcmp(word, words[i]) == 0;
  if (!known) {
    const char *near = cli_nearest(word, words, CLI_COUNT(words));
    return cli_fail(LW_STATUS_USAGE, "cache takes list, clear or prune, not '%s'%s%s%s", word,
                    near != NULL ? "; did you mean '" : "", near != NULL ? near : "",
                    near != NULL ? "'?" : "");
  }
  for (size_t i = 0; i < CLI_COUNT(uses); i++) {
    if (!cli_has(args, uses[i].option) || strcmp(word, uses[i].word) == 0) continue;
    return cli_fail(LW_STATUS_USAGE, "--%s is for 'lawson cache %s'", uses[i].option, uses[i].word);
  }
  return 0;
}

static int run(const cli_args *args) {
  const char *word = args->operands[0];
  int code = check_word(args, word);
  lw_options *options = NULL;
  if (code == 0) code = cli_options_make(args, &options);
  if (code != 0) return code;
  if (!cli_keeps(args)) {
    code = cli_fail(LW_STATUS_USAGE,
                    "there is no cache: it is switched off or has no folder; --cache "
                    "DIR names one");
  } else if (strcmp(word, "list") == 0) {
    code = list(args, options);
  } else if (strcmp(word, "clear") == 0) {
    code = prune_to(args, options, 0, INT64_MIN);
  } else {
    code = prune(args, options);
  }
  lw_options_destroy(options);
  return code;
}

const cli_command cli_command_cache = {
    .name = "cache",
    .operands = "list|clear|prune",
    .summary = "what is kept from one start to the next, and how to get rid of it",
    .about =
        "The first start of a model compiles it; what comes out is kept in one file, kernels.db\n"
        "in the cache's folder: whole plans (a second start with the same file, options and\n"
        "device only loads them), built kernels (they serve every model that has equal ones),\n"
        "and notes about compilers. Beyond 2 GiB the least recently used entries go by\n"
        "themselves. Nothing in it is precious: clearing it costs compile time alone.\n"
        "\n"
        "  list    what there is, most recently used first\n"
        "  clear   remove everything\n"
        "  prune   remove what --max-size or --unused-for say",
    .examples =
        "  lawson cache list --kind plan           models that start without compiling\n"
        "  lawson cache prune --unused-for 30      what was not used for a month\n"
        "  lawson cache prune --max-size 500M      down to 500 MiB\n"
        "  lawson cache clear --cache /tmp/cache   another folder than the default\n",
    .tables = {cache_options},
    .operands_min = 1,
    .operands_max = 1,
    .run = run,
};

/* cpu.c: C source to shared objects by the system's compiler. */
#include <errno.h>
#include <stdio.h>
#include <string.h>

#include "compiler/build/internal.h"

#define CPU_LIMIT_S 120
#define CPU_WORDS_MAX 48
#define CPU_DEFAULT_PATH "/usr/local/bin:/usr/bin:/bin"

/* Kernels may contract products and sums and ignore errno and traps, but NaN, infinity and the
 * order of additions keep their meaning. */
static const char *const cpu_flags[] = {
    "-x",
    "c",
    "-std=gnu17",
    "-O3",
    "-march=native",
    "-fPIC",
    "-shared",
    "-fno-math-errno",
    "-fno-trapping-math",
    "-ffp-contract=fast",
    "-fno-semantic-interposition",
    "-w",
};

typedef struct cpu_builder {
  const lw_build_options *options;
  lw_arena arena;
  const char *words[CPU_WORDS_MAX]; /* compiler with its own arguments, then flags */
  uint32_t word_count;
  const char *extra[CPU_WORDS_MAX]; /* appended after everything else */
  uint32_t extra_count;
  const char *path, *tmp_dir;
} cpu_builder;

/* ---- what the compiler and the CPU are ---- */

static bool cpu_line_matters(const char *line) {
  static const char *const fields[] = {"vendor_id",       "cpu family", "model\t",     "flags",
                                       "CPU implementer", "CPU part",   "CPU variant", "Features"};
  for (size_t i = 0; i < LW_ARRAY_COUNT(fields); i++) {
    if (strncmp(line, fields[i], strlen(fields[i])) == 0) return true;
  }
  return false;
}

/* Code made for this CPU must not be found by another one, hence kind and feature flags of the
 * first core. */
static lw_hash cpu_features(lw_hash seed) {
  FILE *file = fopen("/proc/cpuinfo", "re");
  if (file == NULL) return lw__build_hash_text("unknown CPU", seed);
  char line[8192];
  while (fgets(line, sizeof line, file) != NULL && line[0] != '\n') {
    if (cpu_line_matters(line)) seed = lw__build_hash_text(line, seed);
  }
  (void)fclose(file);
  return seed;
}

/* Words as a shell would split them: quotes hold blanks together, a backslash holds the next
 * character. MODEL_INVALID: a quote is not closed. */
static lw_status cpu_split(cpu_builder *b, const char *text, const char **words, uint32_t *count) {
  if (text == NULL) return LW_OK;
  char *at;
  LW_TRY(lw__arena_alloc(&b->arena, strlen(text) + 1, 1, &at));
  for (text += strspn(text, " \t"); *text != '\0'; text += strspn(text, " \t")) {
    if (*count >= CPU_WORDS_MAX) return LW_STATUS_USAGE;
    words[(*count)++] = at;
    char quote = '\0';
    for (; *text != '\0' && (quote != '\0' || (*text != ' ' && *text != '\t')); text++) {
      bool escape = *text == '\\' && quote != '\'' && text[1] != '\0';
      if (!escape && (*text == quote || (quote == '\0' && (*text == '"' || *text == '\'')))) {
        quote = quote == '\0' ? *text : '\0';
      } else {
        text += escape;
        *at++ = *text;
      }
    }
    if (quote != '\0') return LW_STATUS_MODEL_INVALID;
    *at++ = '\0';
  }
  return LW_OK;
}

/* Replaces the first word by the path of the program it names. */
static bool cpu_resolve(cpu_builder *b, const char *name, lw_status *out_status) {
  lw_text path = {0};
  bool found = lw__process_find(name, b->path, &path);
  if (found) {
    *out_status = lw__arena_strndup(&b->arena, path.data, path.len, &b->words[0]);
    if (b->word_count == 0) b->word_count = 1;
  } else if (path.status != LW_OK) {
    *out_status = path.status;
  }
  lw__text_deinit(&path);
  return found;
}

static lw_status cpu_find_compiler(cpu_builder *b, lw_diag *diag) {
  static const char *const names[] = {"cc", "gcc", "clang"};
  lw_status status = LW_OK;
  if (b->options->cc != NULL && b->options->cc[0] != '\0') {
    status = cpu_split(b, b->options->cc, b->words, &b->word_count);
    if (status == LW_STATUS_USAGE || status == LW_STATUS_MODEL_INVALID) {
      return lw__fail(diag, LW_STATUS_USAGE, "option cc", "%s: %s",
                      status == LW_STATUS_USAGE ? "too many words" : "a quote is not closed",
                      b->options->cc);
    }
    LW_TRY(status);
    if (b->word_count != 0 && cpu_resolve(b, b->words[0], &status)) return status;
    LW_TRY(status);
    return lw__fail(diag, LW_STATUS_DEVICE_FAILED, "cpu", "the C compiler '%s' was not found",
                    b->options->cc);
  }
  for (size_t i = 0; i < LW_ARRAY_COUNT(names); i++) {
    if (cpu_resolve(b, names[i], &status)) return status;
    LW_TRY(status);
  }
  return lw__fail(
      diag, LW_STATUS_DEVICE_FAILED, "cpu",
      "no C compiler: neither cc nor gcc nor clang is in %s; option cc (--cc) names one",
      b->path[0] != '\0' ? b->path : "PATH, which is empty");
}

static lw_status cpu_run(const cpu_builder *b, char *const argv[], const char *tmp_dir,
                         lw_text *output, int *out_code, lw_diag *diag) {
  lw_text path = {0}, tmp = {0};
  lw__text_add(&path, "PATH=%s", b->path);
  lw__text_add(&tmp, "TMPDIR=%s", tmp_dir);
  lw_status status = path.status != LW_OK ? path.status : tmp.status;
  if (status == LW_OK) {
    char locale[] = "LC_ALL=C";
    char *const envp[] = {path.data, tmp.data, locale, NULL};
    uint32_t limit_s = b->options->limit_s == 0 ? CPU_LIMIT_S : b->options->limit_s;
    status = lw__process_run(argv, envp, (int64_t)limit_s * 1000000000, output, out_code, diag);
  }
  lw__text_deinit(&path);
  lw__text_deinit(&tmp);
  return status;
}

/* The compiler's file and its own arguments. */
static lw_hash cpu_tool(const cpu_builder *b) {
  lw_hash file = lw__build_hash_file(b->words[0], (lw_hash){1, 1});
  for (uint32_t i = 1; i < b->word_count; i++) file = lw__build_hash_text(b->words[i], file);
  return file;
}

/* Adds the words of "cc --version" that the cache remembers for this very file. */
static bool cpu_known_version(cpu_builder *b, lw_cache *cache, lw_hash *inout) {
  const void *known;
  size_t bytes;
  if (cache == NULL ||
      lw__cache_get(cache, "tool", cpu_tool(b), &b->arena, &known, &bytes) != LW_OK) {
    return false;
  }
  *inout = lw__hash_bytes(known, bytes, *inout);
  return true;
}

static lw_status cpu_version(cpu_builder *b, lw_cache *cache, lw_diag *diag, lw_hash *inout) {
  if (cpu_known_version(b, cache, inout)) return LW_OK;
  lw_hash file = cpu_tool(b);
  char *argv[CPU_WORDS_MAX + 2] = {0};
  uint32_t count = 0;
  for (uint32_t i = 0; i < b->word_count; i++) argv[count++] = (char *)(uintptr_t)b->words[i];
  char option[] = "--version";
  argv[count] = option;
  lw_text output = {0};
  int code;
  lw_status status = cpu_run(b, argv, b->tmp_dir, &output, &code, diag);
  if (status == LW_OK && code != 0) {
    status = lw__fail(diag, LW_STATUS_DEVICE_FAILED, b->words[0], "--version fails (%d): %.500s",
                      code, lw__text_str(&output));
  }
  if (status == LW_OK) {
    *inout = lw__hash_bytes(lw__text_str(&output), output.len, *inout);
    if (cache != NULL) {
      (void)!lw__cache_put(cache, "tool", file, b->words[0], lw__text_str(&output), output.len);
    }
  }
  lw__text_deinit(&output);
  return status;
}

/* ---- compiling ---- */

static lw_status cpu_read(const char *path, lw_build_result *out) {
  lw_file_map map;
  lw_status status = lw__file_map(path, NULL, &map);
  if (status != LW_OK || map.bytes == 0) {
    lw__file_unmap(&map);
    return LW_STATUS_DEVICE_FAILED;
  }
  status = lw__mem_resize(&out->image, map.bytes);
  if (status == LW_OK) {
    memcpy(out->image, map.data, map.bytes);
    out->image_bytes = map.bytes;
  }
  lw__file_unmap(&map);
  return status;
}

static const char *cpu_first_entry(const lw_build_job *job) {
  return job->entry_count == 0 ? "kernels" : job->entries[0];
}

/* Optimising time grows with more than the length of a function: a concat of 500 parts, 130 KB of
 * text, takes gcc minutes. Such a kernel had better run slowly than never. */
static bool cpu_is_vast(const lw_build_job *job) {
  enum { VAST_BYTES = 64 * 1024 };
  size_t entries = job->entry_count == 0 ? 1 : job->entry_count;
  return strlen(job->source) / entries > VAST_BYTES;
}

static lw_status cpu_compile_in(const cpu_builder *b, const lw_build_job *job, const char *folder,
                                const char *source, const char *object, lw_build_result *out) {
  LW_TRY(lw__file_write(source, job->source, strlen(job->source), &out->diag));
  const char *argv[3 * CPU_WORDS_MAX];
  uint32_t count = 0;
  for (uint32_t i = 0; i < b->word_count; i++) argv[count++] = b->words[i];
  for (size_t i = 0; i < LW_ARRAY_COUNT(cpu_flags); i++) argv[count++] = cpu_flags[i];
  for (uint32_t i = 0; i < b->extra_count; i++) argv[count++] = b->extra[i];
  if (cpu_is_vast(job)) argv[count++] = "-O0";
  argv[count++] = "-o";
  argv[count++] = object;
  argv[count++] = source;
  argv[count++] = "-lm";
  argv[count] = NULL;
  int code;
  LW_TRY(cpu_run(b, (char *const *)(uintptr_t)argv, folder, &out->log, &code, &out->diag));
  if (code != 0) {
    return lw__fail(&out->diag, LW_STATUS_DEVICE_FAILED, cpu_first_entry(job),
                    "the C compiler fails (%d):\n%.4000s", code, lw__text_str(&out->log));
  }
  lw_status status = cpu_read(object, out);
  if (status != LW_STATUS_DEVICE_FAILED) return status;
  return lw__fail(&out->diag, status, cpu_first_entry(job),
                  "the C compiler wrote nothing:\n%.4000s", lw__text_str(&out->log));
}

static void cpu_compile(void *state, const lw_build_job *job, lw_build_result *out) {
  const cpu_builder *b = state;
  lw_folder folder;
  lw_text source = {0}, object = {0};
  out->status = lw__folder_create(b->tmp_dir, &out->diag, &folder);
  if (out->status == LW_OK) {
    lw__text_add(&source, "%s/kernels.c", folder.path.data);
    lw__text_add(&object, "%s/kernels.so", folder.path.data);
    out->status = source.status != LW_OK ? source.status : object.status;
    if (out->status == LW_OK) {
      out->status = cpu_compile_in(b, job, folder.path.data, source.data, object.data, out);
    }
  }
  lw__folder_remove(&folder);
  lw__text_deinit(&source);
  lw__text_deinit(&object);
}

/* What decides the result beside the source and the compiler. */
static lw_hash cpu_request(const cpu_builder *b) {
  lw_hash request = lw__build_hash_text("cpu 1", (lw_hash){0, 0});
  request = lw__build_hash_text(b->options->cc, request);
  for (size_t i = 0; i < LW_ARRAY_COUNT(cpu_flags); i++) {
    request = lw__build_hash_text(cpu_flags[i], request);
  }
  for (uint32_t i = 0; i < b->extra_count; i++) request = lw__build_hash_text(b->extra[i], request);
  return cpu_features(request);
}

/* The compiler without a word about one that is missing: then |*b| has none. */
static lw_status cpu_look(cpu_builder *b) {
  lw_diag unheard = {0};
  lw_status found = cpu_find_compiler(b, &unheard);
  lw__diag_deinit(&unheard);
  if (found != LW_OK) b->word_count = 0;
  return found;
}

static lw_hash cpu_identity(const cpu_builder *b, lw_hash request) {
  for (uint32_t i = 0; i < b->word_count; i++) request = lw__build_hash_text(b->words[i], request);
  return request;
}

/* Without a compiler, what was built last is still good; if something has to be built after all,
 * cpu_prepare fails and says why. */
static lw_status cpu_setup(cpu_builder *b, lw_builder *builder, lw_cache *cache, lw_diag *diag) {
  if (cpu_split(b, b->options->cflags_extra, b->extra, &b->extra_count) != LW_OK) {
    return lw__fail(diag, LW_STATUS_USAGE, "cpu", "too many compiler flags: %s",
                    b->options->cflags_extra);
  }
  const lw_hash request = cpu_request(b);
  lw_status found = cpu_look(b);
  if (found != LW_OK) {
    if (found == LW_STATUS_OUT_OF_MEMORY) return found;
    if (lw__build_recall_tool(cache, request, &builder->identity)) return LW_OK;
    return cpu_find_compiler(b, diag);
  }
  lw_hash identity = cpu_identity(b, request);
  LW_TRY(cpu_version(b, cache, diag, &identity));
  builder->identity = identity;
  lw__build_remember_tool(cache, request, identity);
  return LW_OK;
}

static lw_status cpu_prepare(void *state, lw_diag *diag) {
  cpu_builder *b = state;
  lw__folder_sweep(b->tmp_dir);
  return b->word_count != 0 ? LW_OK : cpu_find_compiler(b, diag);
}

static cpu_builder cpu_begin(const lw_build_options *options) {
  return (cpu_builder){.options = options,
                       .path = options->path == NULL ? CPU_DEFAULT_PATH : options->path,
                       .tmp_dir = options->tmp_dir == NULL ? "/tmp" : options->tmp_dir};
}

bool lw__build_known_cpu(const lw_build_options *options, lw_cache *cache, lw_hash *out_identity) {
  cpu_builder b = cpu_begin(options);
  bool known = cpu_split(&b, options->cflags_extra, b.extra, &b.extra_count) == LW_OK;
  if (known) {
    const lw_hash request = cpu_request(&b);
    if (cpu_look(&b) == LW_OK) {
      *out_identity = cpu_identity(&b, request);
      known = cpu_known_version(&b, cache, out_identity);
    } else {
      known = lw__build_recall_tool(cache, request, out_identity);
    }
  }
  lw__arena_deinit(&b.arena);
  return known;
}

lw_status lw__build_cpu(lw_build_job *jobs, uint32_t count, const lw_build_options *options,
                        lw_cache *cache, lw_arena *arena, lw_diag *diag) {
  if (count == 0) return LW_OK;
  cpu_builder b = cpu_begin(options);
  lw_builder builder = {.kind = "so", .prepare = cpu_prepare, .compile = cpu_compile, .state = &b};
  lw_status status = cpu_setup(&b, &builder, cache, diag);
  if (status == LW_OK) {
    status = lw__build_jobs(&builder, jobs, count, options->threads, cache, arena, diag);
  }
  lw__arena_deinit(&b.arena);
  return status;
}

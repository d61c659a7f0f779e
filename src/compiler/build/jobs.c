/* jobs.c: what both builders do around their compiler: look into the cache, compile the rest in
 * parallel, store it.
 *
 * A cache entry is a record: header, one report per entry point, the log, the image. */
#include <errno.h>
#include <pthread.h>
#include <sched.h>
#include <stdatomic.h>
#include <string.h>
#include <sys/stat.h>

#include "compiler/build/internal.h"

#define JOBS_RECORD_MAGIC UINT32_C(0x6b32776c) /* "lw2k" */
#define JOBS_LOG_LIMIT 4000

/* ---- threads ---- */

typedef struct parallel {
  _Atomic uint32_t next;
  uint32_t count;
  lw_build_task task;
  void *arg;
} parallel;

static void *parallel_main(void *data) {
  parallel *p = data;
  for (;;) {
    uint32_t index = atomic_fetch_add(&p->next, 1);
    if (index >= p->count) return NULL;
    p->task(p->arg, index);
  }
}

void lw__build_parallel(uint32_t count, uint32_t threads, lw_build_task task, void *arg) {
  enum { THREADS_MAX = 64 };
  if (threads == 0) {
    cpu_set_t set;
    CPU_ZERO(&set);
    threads = sched_getaffinity(0, sizeof set, &set) == 0 ? (uint32_t)CPU_COUNT(&set) : 1;
  }
  if (threads > count) threads = count;
  if (threads > THREADS_MAX) threads = THREADS_MAX;
  parallel p = {.count = count, .task = task, .arg = arg};
  pthread_t helpers[THREADS_MAX];
  uint32_t started = 0;
  /* Fewer threads than wanted do the same work. */
  while (started + 1 < threads && pthread_create(&helpers[started], NULL, parallel_main, &p) == 0) {
    started++;
  }
  (void)parallel_main(&p);
  for (uint32_t i = 0; i < started; i++) (void)pthread_join(helpers[i], NULL);
}

/* ---- identities ---- */

lw_hash lw__build_hash_text(const char *text, lw_hash seed) {
  if (text == NULL) text = "";
  return lw__hash_bytes(text, strlen(text) + 1, seed);
}

lw_hash lw__build_hash_file(const char *path, lw_hash seed) {
  struct stat info = {0};
  if (stat(path, &info) != 0) memset(&info, 0, sizeof info);
  const int64_t facts[] = {(int64_t)info.st_size, (int64_t)info.st_mtim.tv_sec,
                           (int64_t)info.st_mtim.tv_nsec};
  return lw__hash_bytes(facts, sizeof facts, lw__build_hash_text(path, seed));
}

static lw_hash tool_key(lw_hash request) { return lw__hash_bytes("last", 4, request); }

bool lw__build_recall_tool(lw_cache *cache, lw_hash request, lw_hash *out_identity) {
  lw_arena scratch = {0};
  const void *data;
  size_t bytes = 0;
  bool found = cache != NULL &&
               lw__cache_get(cache, "tool", tool_key(request), &scratch, &data, &bytes) == LW_OK &&
               bytes == sizeof *out_identity;
  if (found) memcpy(out_identity, data, bytes);
  lw__arena_deinit(&scratch);
  return found;
}

void lw__build_remember_tool(lw_cache *cache, lw_hash request, lw_hash identity) {
  lw_hash known;
  if (cache == NULL) return;
  if (lw__build_recall_tool(cache, request, &known) && lw__hash_eq(known, identity)) return;
  (void)!lw__cache_put(cache, "tool", tool_key(request), "last used", &identity, sizeof identity);
}

static lw_hash jobs_key(const lw_builder *builder, const lw_build_job *job) {
  lw_hash key = lw__build_hash_text(job->source, builder->identity);
  for (uint32_t i = 0; i < job->entry_count; i++) key = lw__build_hash_text(job->entries[i], key);
  return key;
}

/* ---- records ---- */

typedef struct record_header {
  uint32_t magic, entry_count;
  uint64_t log_bytes, image_bytes;
} record_header;

static lw_status record_pack(const lw_build_job *job, const lw_build_result *result, void **out,
                             size_t *out_bytes) {
  record_header header = {.magic = JOBS_RECORD_MAGIC,
                          .entry_count = job->entry_count,
                          .log_bytes = result->log.len,
                          .image_bytes = result->image_bytes};
  size_t report_bytes = job->entry_count * sizeof *result->reports;
  size_t bytes = sizeof header + report_bytes + result->log.len + result->image_bytes;
  void *record = NULL;
  LW_TRY(lw__mem_resize(&record, bytes));
  char *at = record;
  memcpy(at, &header, sizeof header);
  at += sizeof header;
  if (report_bytes != 0) memcpy(at, result->reports, report_bytes);
  at += report_bytes;
  if (result->log.len != 0) memcpy(at, result->log.data, result->log.len);
  at += result->log.len;
  memcpy(at, result->image, result->image_bytes);
  *out = record;
  *out_bytes = bytes;
  return LW_OK;
}

static lw_status jobs_store(lw_build_job *job, const lw_build_report *reports, lw_str log,
                            const void *image, size_t image_bytes, lw_arena *arena) {
  LW_TRY(lw__arena_alloc(arena, job->entry_count, sizeof *job->report, &job->report));
  for (uint32_t i = 0; i < job->entry_count; i++) {
    job->report[i].registers = reports[i].registers;
    job->report[i].spill_bytes = reports[i].spill_bytes;
    job->report[i].shared_bytes = reports[i].shared_bytes;
    job->report[i].serialized = reports[i].serialized;
  }
  LW_TRY(lw__arena_strndup(arena, log.ptr, log.len, &job->log));
  LW_TRY(lw__arena_dup(arena, image, image_bytes, &job->image));
  job->image_bytes = image_bytes;
  return LW_OK;
}

/* False when the record is not of this job's form. */
static bool record_check(const lw_build_job *job, const void *record, size_t bytes,
                         record_header *out) {
  if (bytes < sizeof *out) return false;
  memcpy(out, record, sizeof *out);
  size_t left = bytes - sizeof *out;
  if (out->magic != JOBS_RECORD_MAGIC || out->entry_count != job->entry_count) return false;
  if (left / sizeof(lw_build_report) < out->entry_count) return false;
  left -= out->entry_count * sizeof(lw_build_report);
  return out->log_bytes <= left && out->image_bytes == left - out->log_bytes &&
         out->image_bytes != 0;
}

static lw_status jobs_load(const lw_builder *builder, lw_build_job *job, lw_cache *cache,
                           lw_arena *arena) {
  if (cache == NULL) return LW_STATUS_NOT_FOUND;
  lw_arena scratch = {0};
  const void *record;
  size_t bytes;
  record_header header;
  lw_status status =
      lw__cache_get(cache, builder->kind, jobs_key(builder, job), &scratch, &record, &bytes);
  if (status == LW_OK && !record_check(job, record, bytes, &header)) status = LW_STATUS_NOT_FOUND;
  if (status == LW_OK) {
    const char *reports = (const char *)record + sizeof header;
    const char *log = reports + job->entry_count * sizeof(lw_build_report);
    /* The arena gives 16-byte alignment and the header has 24 bytes: enough for the reports' u32.
     */
    status = jobs_store(job, (const lw_build_report *)(const void *)reports,
                        lw__str(log, (size_t)header.log_bytes), log + header.log_bytes,
                        (size_t)header.image_bytes, arena);
    job->from_cache = status == LW_OK;
  }
  lw__arena_deinit(&scratch);
  return status;
}

/* ---- the jobs ---- */

typedef struct jobs_run {
  const lw_builder *builder;
  lw_build_job *jobs;
  lw_build_result *results;
  uint32_t *missing; /* indices of the jobs to compile */
} jobs_run;

static void jobs_compile(void *arg, uint32_t index) {
  jobs_run *run = arg;
  const lw_build_job *job = &run->jobs[run->missing[index]];
  lw_build_result *result = &run->results[index];
  void *reports = NULL;
  size_t bytes = job->entry_count * sizeof *result->reports;
  if (bytes != 0) {
    result->status = lw__mem_resize(&reports, bytes);
    if (result->status != LW_OK) return;
    memset(reports, 0, bytes);
  }
  result->reports = reports;
  run->builder->compile(run->builder->state, job, result);
  if (result->status == LW_OK) result->status = result->log.status;
}

static lw_status jobs_finish(jobs_run *run, uint32_t index, lw_cache *cache, lw_arena *arena,
                             lw_diag *diag) {
  lw_build_job *job = &run->jobs[run->missing[index]];
  lw_build_result *result = &run->results[index];
  for (uint32_t i = 0; i < result->diag.messages.count; i++) {
    const lw_message *message = &result->diag.messages.data[i];
    if (message->severity == LW_SEVERITY_ERROR) {
      (void)lw__fail(diag, message->status, message->where, "%s", message->text);
    } else {
      lw__note(diag, message->severity, message->where, "%s", message->text);
    }
  }
  lw_str log = lw__str(lw__text_str(&result->log), result->log.len);
  if (result->status != LW_OK) {
    (void)!lw__arena_strndup(arena, log.ptr, log.len, &job->log);
    job->rejected = result->status == LW_STATUS_DEVICE_FAILED;
    return result->status;
  }
  LW_TRY(jobs_store(job, result->reports, log, result->image, result->image_bytes, arena));
  if (cache == NULL) return LW_OK;
  void *record = NULL;
  size_t bytes;
  LW_TRY(record_pack(job, result, &record, &bytes));
  /* A cache that cannot take it only costs time at the next start. */
  lw_text name = {0};
  if (job->entry_count > 0) lw__text_add(&name, "%s", job->entries[0]);
  if (job->entry_count > 1) lw__text_add(&name, " (+%u)", job->entry_count - 1);
  (void)!lw__cache_put(cache, run->builder->kind, jobs_key(run->builder, job), lw__text_str(&name),
                       record, bytes);
  lw__text_deinit(&name);
  lw__mem_free(record);
  return LW_OK;
}

static void jobs_free_results(lw_build_result *results, uint32_t count) {
  for (uint32_t i = 0; results != NULL && i < count; i++) {
    lw__mem_free(results[i].image);
    lw__mem_free(results[i].reports);
    lw__text_deinit(&results[i].log);
    lw__diag_deinit(&results[i].diag);
  }
}

static lw_status jobs_build_missing(jobs_run *run, uint32_t count, uint32_t threads,
                                    lw_cache *cache, lw_arena *arena, lw_diag *diag) {
  if (count == 0) return LW_OK;
  const lw_builder *builder = run->builder;
  if (builder->prepare != NULL) LW_TRY(builder->prepare(builder->state, diag));
  lw__build_parallel(count, threads, jobs_compile, run);
  lw_status status = LW_OK;
  for (uint32_t i = 0; i < count; i++) {
    lw_status one = jobs_finish(run, i, cache, arena, diag);
    if (status == LW_OK) status = one;
  }
  return status;
}

lw_status lw__build_jobs(const lw_builder *builder, lw_build_job *jobs, uint32_t count,
                         uint32_t threads, lw_cache *cache, lw_arena *arena, lw_diag *diag) {
  lw_arena scratch = {0};
  jobs_run run = {.builder = builder, .jobs = jobs};
  uint32_t missing = 0;
  lw_status status = lw__arena_alloc(&scratch, count, sizeof *run.results, &run.results);
  if (status == LW_OK) {
    status = lw__arena_alloc(&scratch, count, sizeof *run.missing, &run.missing);
  }
  for (uint32_t i = 0; i < count && status == LW_OK; i++) {
    jobs[i].from_cache = false;
    jobs[i].rejected = false;
    jobs[i].image = NULL;
    jobs[i].image_bytes = 0;
    jobs[i].log = "";
    status = jobs_load(builder, &jobs[i], cache, arena);
    if (status == LW_STATUS_NOT_FOUND) {
      run.missing[missing++] = i;
      status = LW_OK;
    }
  }
  if (status == LW_OK) status = jobs_build_missing(&run, missing, threads, cache, arena, diag);
  jobs_free_results(run.results, missing);
  lw__arena_deinit(&scratch);
  return status;
}

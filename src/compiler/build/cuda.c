/* cuda.c: CUDA C to cubins by NVRTC. */
#include <stdio.h>
#include <string.h>

#include "compiler/build/nvrtc.h"

#define CUDA_OPTIONS_MAX 8

typedef struct cuda_builder {
  const lw_build_options *options;
  char arch[40];
  const char *flags[CUDA_OPTIONS_MAX];
  int flag_count; /* the last one is optional: old versions do not know it */
  lw_nvrtc nvrtc;
} cuda_builder;

/* ---- identity ---- */

static lw_status cuda_prepare(void *state, lw_diag *diag) {
  cuda_builder *b = state;
  if (b->nvrtc.handle != NULL) return LW_OK;
  return lw__nvrtc_open(b->options->nvrtc_path, b->options->nvrtc_search, diag, &b->nvrtc);
}

/* What NVRTC is, remembered as "<hash of file facts> <version> <path>" so that a start that finds
 * every kernel in the cache does not load it: that alone takes a tenth of a second. */
static bool cuda_recall(lw_cache *cache, lw_hash where, lw_hash *out_identity) {
  lw_arena scratch = {0};
  const void *known;
  size_t bytes;
  bool good = false;
  if (lw__cache_get(cache, "tool", where, &scratch, &known, &bytes) == LW_OK) {
    char text[4200], facts[33];
    if (bytes > 33 && bytes < sizeof text) {
      memcpy(text, known, bytes);
      text[bytes] = '\0';
      const char *path = strrchr(text, ' ');
      lw__hash_hex(lw__build_hash_file(path == NULL ? "" : path + 1, (lw_hash){2, 2}), facts);
      good = path != NULL && strncmp(text, facts, 32) == 0;
      if (good) *out_identity = lw__hash_bytes(known, bytes, (lw_hash){3, 3});
    }
  }
  lw__arena_deinit(&scratch);
  return good;
}

/* What the cache knows NVRTC's identity by: where it is looked for, and that it was used at all. */
static lw_hash cuda_where(const cuda_builder *b) {
  lw_hash where = lw__build_hash_text(b->options->nvrtc_path, (lw_hash){4, 4});
  return lw__build_hash_text(b->options->nvrtc_search, where);
}

static lw_hash cuda_request(void) { return lw__build_hash_text("cuda", (lw_hash){5, 5}); }

static lw_status cuda_identify(cuda_builder *b, lw_cache *cache, lw_diag *diag, lw_hash *inout) {
  lw_hash where = cuda_where(b);
  const lw_hash request = cuda_request();
  lw_hash identity;
  if (cache == NULL || !cuda_recall(cache, where, &identity)) {
    /* Without the compiler, what it built last is still good; if something has to be built after
     * all, preparing fails again and says why. */
    lw_diag unheard = {0};
    lw_status found = cuda_prepare(b, &unheard);
    lw__diag_deinit(&unheard);
    if (found == LW_STATUS_DEVICE_FAILED && lw__build_recall_tool(cache, request, &identity)) {
      *inout = lw__hash_bytes(&identity, sizeof identity, *inout);
      return LW_OK;
    }
    if (found == LW_STATUS_OUT_OF_MEMORY) return found;
    if (found != LW_OK) return cuda_prepare(b, diag);
    int major = 0, minor = 0;
    (void)b->nvrtc.Version(&major, &minor);
    const char *file = lw__nvrtc_file(&b->nvrtc);
    char facts[33];
    lw__hash_hex(lw__build_hash_file(file, (lw_hash){2, 2}), facts);
    lw_text text = {0};
    lw__text_add(&text, "%s %d.%d %s", facts, major, minor, file);
    if (text.status != LW_OK) {
      lw__text_deinit(&text);
      return LW_STATUS_OUT_OF_MEMORY;
    }
    identity = lw__hash_bytes(text.data, text.len, (lw_hash){3, 3});
    if (cache != NULL && strchr(file, ' ') == NULL) {
      (void)!lw__cache_put(cache, "tool", where, "NVRTC", text.data, text.len);
    }
    lw__text_deinit(&text);
  }
  lw__build_remember_tool(cache, request, identity);
  *inout = lw__hash_bytes(&identity, sizeof identity, *inout);
  return LW_OK;
}

/* ---- compiling ---- */

static const char *cuda_first_entry(const lw_build_job *job) {
  return job->entry_count == 0 ? "kernels" : job->entries[0];
}

static lw_status cuda_fail(const cuda_builder *b, const lw_build_job *job, int result,
                           const char *log, lw_build_result *out) {
  lw_status status =
      result == LW_NVRTC_OUT_OF_MEMORY ? LW_STATUS_OUT_OF_MEMORY : LW_STATUS_DEVICE_FAILED;
  const char *name = b->nvrtc.GetErrorString(result);
  return lw__fail(&out->diag, status, cuda_first_entry(job), "NVRTC fails (%s):\n%.4000s",
                  name == NULL ? "unknown error" : name, log);
}

static int cuda_run_compiler(const cuda_builder *b, const lw_build_job *job, bool all_registers,
                             lw_nvrtc_program **program) {
  const char *flags[CUDA_OPTIONS_MAX + 1];
  int count = 0;
  if (all_registers) flags[count++] = "--define-macro=LW_MIN_BLOCKS=,1";
  for (int i = 0; i < b->flag_count; i++) flags[count++] = b->flags[i];
  int result = b->nvrtc.CreateProgram(program, job->source, "kernels.cu", 0, NULL, NULL);
  if (result != LW_NVRTC_SUCCESS) return result;
  result = b->nvrtc.CompileProgram(*program, count, flags);
  if (result != LW_NVRTC_INVALID_OPTION) return result;
  /* A program is good for one attempt. */
  (void)b->nvrtc.DestroyProgram(program);
  *program = NULL;
  result = b->nvrtc.CreateProgram(program, job->source, "kernels.cu", 0, NULL, NULL);
  if (result != LW_NVRTC_SUCCESS) return result;
  return b->nvrtc.CompileProgram(*program, count - 1, flags);
}

static lw_status cuda_read_log(const cuda_builder *b, lw_nvrtc_program *program, void **out_log) {
  size_t bytes = 0;
  if (b->nvrtc.GetProgramLogSize(program, &bytes) != LW_NVRTC_SUCCESS) bytes = 0;
  LW_TRY(lw__mem_resize(out_log, bytes + 1));
  char *log = *out_log;
  if (bytes == 0 || b->nvrtc.GetProgramLog(program, log) != LW_NVRTC_SUCCESS) bytes = 0;
  log[bytes] = '\0';
  return LW_OK;
}

static lw_status cuda_read_image(const cuda_builder *b, const lw_build_job *job,
                                 lw_nvrtc_program *program, lw_build_result *out) {
  size_t bytes = 0;
  int result = b->nvrtc.GetCUBINSize(program, &bytes);
  if (result != LW_NVRTC_SUCCESS || bytes == 0) return cuda_fail(b, job, result, "no cubin", out);
  LW_TRY(lw__mem_resize(&out->image, bytes));
  out->image_bytes = bytes;
  result = b->nvrtc.GetCUBIN(program, out->image);
  return result == LW_NVRTC_SUCCESS ? LW_OK : cuda_fail(b, job, result, "no cubin", out);
}

static lw_status cuda_read_reports(const lw_build_job *job, lw_str log, lw_build_result *out) {
  const char *fatal = lw__ptxas_fatal(log);
  lw__ptxas_strip(log, &out->log);
  if (fatal != NULL && !job->replaceable) {
    return lw__fail(&out->diag, LW_STATUS_DEVICE_FAILED, cuda_first_entry(job),
                    "the assembler had to serialize matrix instructions (%s):\n%.4000s", fatal,
                    lw__text_str(&out->log));
  }
  for (uint32_t i = 0; i < job->entry_count; i++) {
    bool found = lw__ptxas_report(log, job->entries[i], &out->reports[i]);
    out->reports[i].serialized = fatal != NULL;
    if (found) continue;
    lw__note(&out->diag, LW_SEVERITY_WARNING, job->entries[i],
             "the assembler does not report on this kernel");
  }
  return LW_OK;
}

static lw_status cuda_compile_with(const cuda_builder *b, const lw_build_job *job,
                                   bool all_registers, lw_nvrtc_program **program,
                                   lw_build_result *out) {
  int result = cuda_run_compiler(b, job, all_registers, program);
  if (*program == NULL) return cuda_fail(b, job, result, "cannot create a program", out);
  void *log = NULL;
  LW_TRY(cuda_read_log(b, *program, &log));
  lw_str text = lw__str_of(log);
  lw_status status;
  if (result != LW_NVRTC_SUCCESS) {
    lw__ptxas_strip(text, &out->log);
    status = cuda_fail(b, job, result, lw__text_str(&out->log), out);
  } else {
    status = cuda_read_reports(job, text, out);
    if (status == LW_OK) status = cuda_read_image(b, job, *program, out);
  }
  lw__mem_free(log);
  return status;
}

static void cuda_attempt(const cuda_builder *b, const lw_build_job *job, bool all_registers,
                         lw_build_result *out) {
  lw_nvrtc_program *program = NULL;
  out->status = cuda_compile_with(b, job, all_registers, &program, out);
  if (program != NULL) (void)b->nvrtc.DestroyProgram(&program);
}

static uint64_t cuda_spilled(const lw_build_job *job, const lw_build_result *result) {
  uint64_t bytes = 0;
  for (uint32_t i = 0; i < job->entry_count; i++) bytes += result->reports[i].spill_bytes;
  return bytes;
}

/* Left alone, the assembler aims at an occupancy and spills a few bytes far below the hardware's
 * limit; told that it may have all registers it does not. */
static void cuda_compile_again(const cuda_builder *b, const lw_build_job *job,
                               lw_build_result *inout) {
  lw_build_result second = {0};
  void *reports = NULL;
  size_t bytes = job->entry_count * sizeof *second.reports;
  if (lw__mem_resize(&reports, bytes) != LW_OK) return;
  memset(reports, 0, bytes);
  second.reports = reports;
  cuda_attempt(b, job, true, &second);
  if (second.status == LW_OK && cuda_spilled(job, &second) < cuda_spilled(job, inout)) {
    lw_build_result first = *inout;
    *inout = second;
    second = first;
  }
  lw__mem_free(second.image);
  lw__mem_free(second.reports);
  lw__text_deinit(&second.log);
  lw__diag_deinit(&second.diag);
}

static void cuda_compile(void *state, const lw_build_job *job, lw_build_result *out) {
  const cuda_builder *b = state;
  cuda_attempt(b, job, false, out);
  if (out->status == LW_OK && cuda_spilled(job, out) != 0) cuda_compile_again(b, job, out);
}

/* Sets the flags; gives what identifies them. */
static lw_hash cuda_setup(cuda_builder *b, const lw_build_options *options) {
  *b = (cuda_builder){.options = options};
  (void)snprintf(b->arch, sizeof b->arch, "--gpu-architecture=sm_%u%s", options->sm_arch,
                 options->arch_specific ? "a" : "");
  b->flags[b->flag_count++] = b->arch;
  b->flags[b->flag_count++] = "--std=c++17";
  b->flags[b->flag_count++] = "--ptxas-options=-v";
  /* NVRTC's own cache would keep the assembler, and with it the report, from running. Old versions
   * have none. */
  b->flags[b->flag_count++] = "--no-cache";
  lw_hash identity = lw__build_hash_text("cuda 3", (lw_hash){0, 0});
  for (int i = 0; i < b->flag_count; i++) identity = lw__build_hash_text(b->flags[i], identity);
  return identity;
}

bool lw__build_known_cuda(const lw_build_options *options, lw_cache *cache, lw_hash *out_identity) {
  cuda_builder b;
  lw_hash setup = cuda_setup(&b, options), nvrtc;
  if (!cuda_recall(cache, cuda_where(&b), &nvrtc) &&
      !lw__build_recall_tool(cache, cuda_request(), &nvrtc)) {
    return false;
  }
  *out_identity = lw__hash_bytes(&nvrtc, sizeof nvrtc, setup);
  return true;
}

lw_status lw__build_cuda(lw_build_job *jobs, uint32_t count, const lw_build_options *options,
                         lw_cache *cache, lw_arena *arena, lw_diag *diag) {
  if (count == 0) return LW_OK;
  cuda_builder b;
  lw_builder builder = {
      .kind = "cubin", .prepare = cuda_prepare, .compile = cuda_compile, .state = &b};
  builder.identity = cuda_setup(&b, options);
  lw_status status = cuda_identify(&b, cache, diag, &builder.identity);
  if (status == LW_OK) {
    status = lw__build_jobs(&builder, jobs, count, options->threads, cache, arena, diag);
  }
  lw__nvrtc_close(&b.nvrtc);
  return status;
}

/* test_nvrtc.c: what the GPU back end prints goes through the real compiler: the kernels of random
 * graphs and of every model and case of ../shared that can be imported, for sm_80 and sm_90a, each
 * distinct kernel once per architecture, several to a unit. Everything must compile, and no kernel
 * may spill registers - or the pipeline must have split its group. Usage: test_random_nvrtc [first
 * seed] [count]. Without NVRTC it fails, unless LAWSON_ALLOW_NO_NVRTC is 1. */
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "api/pipeline.h"
#include "compiler/build/nvrtc.h"
#include "compiler/emit/emit.h"
#include "lib/sample.h"
#include "lib/shared.h"

#ifdef __SANITIZE_ADDRESS__
enum { default_count = 50, kernels_per_unit = 12 };
#else
enum { default_count = 300, kernels_per_unit = 12 };
#endif

typedef struct origin { /* where a kernel came from, so that its graph can be compiled again */
  const char *folder;   /* NULL: random */
  uint64_t seed;
} origin;

typedef struct suite {
  const lw_device_profile *profile;
  lw_arena arena;
  lw_map known;
  LW_VEC(lw_compiled *) compiled;
  LW_VEC(lw_graph *) graphs;
  LW_VEC(const lw_kernel *) kernels;
  LW_VEC(const char *) names;
  LW_VEC(origin) origins; /* of each kernel */
  LW_VEC(lw_build_job) jobs;
  uint32_t plans, refused, failed;
} suite;

static void print_origin(const origin *from) {
  if (from->folder)
    printf("%s", strrchr(from->folder, '/') + 1);
  else
    printf("seed %llu", (unsigned long long)from->seed);
}

static void complain(suite *s, const origin *from, const char *what, const lw_diag *diag) {
  print_origin(from);
  printf(" %s: %s\n", s->profile->name, what);
  lw_sample_print_messages(diag);
  s->failed++;
}

/* ---- collecting -------------------------------------------------------------------------------*/

static lw_status add_kernels(suite *s, const lw_compiled *c, const origin *from) {
  for (uint32_t k = 0; k < c->kernels.count; k++) {
    const char *name = c->plan.kernels.data[k].name;
    bool added;
    LW_TRY(lw__map_put(&s->known, lw__str_of(name), s->kernels.count, &added, NULL));
    if (!added) continue;
    LW_TRY(lw_vec_push(&s->kernels, c->kernels.data[k]));
    LW_TRY(lw_vec_push(&s->names, name));
    LW_TRY(lw_vec_push(&s->origins, *from));
  }
  return LW_OK;
}

static lw_compile_options options_for(const suite *s) {
  lw_compile_options options = {.profile = s->profile,
                                .policy = lw__resource_policy_find("opt-in")};
  options.sm90_always = true; /* sm_80 takes the others */
  options.build.nvrtc_path = NULL;
  options.build.nvrtc_search = getenv("LAWSON_NVRTC_DIR");
  return options;
}

/* Takes |graph| over. */
static void add_graph(suite *s, lw_graph *graph, const origin *from, bool fuse) {
  lw_compile_options options = options_for(s);
  lw_diag diag = {0};
  lw_compiled *compiled;
  options.fuse.off = !fuse;
  options.early_start = !fuse;
  graph->diag = NULL;
  if (lw__arena_alloc(&s->arena, 1, sizeof *compiled, &compiled) != LW_OK) abort();
  lw_status status = lw__compile(graph, &options, false, &diag, compiled);
  if (status == LW_OK) status = add_kernels(s, compiled, from);
  if (status != LW_OK) complain(s, from, lw_status_name(status), &diag);
  lw__diag_deinit(&diag);
  if (lw_vec_push(&s->compiled, compiled) != LW_OK || lw_vec_push(&s->graphs, graph) != LW_OK)
    abort();
  s->plans++;
}

static lw_status make_graph(const origin *from, lw_diag *diag, lw_graph *out) {
  if (from->folder) return lw_shared_import(from->folder, false, 2, diag, out);
  lw_rgraph_options options = lw_sample_options(from->seed);
  LW_TRY(lw__graph_init(out, diag));
  return lw_rgraph_make(from->seed, &options, out);
}

/* What cannot be imported is somebody else's business. */
static void add_origin(suite *s, const origin *from, bool fuse) {
  lw_graph *graph;
  lw_diag diag = {0};
  if (lw__arena_alloc(&s->arena, 1, sizeof *graph, &graph) != LW_OK) abort();
  lw_status status = make_graph(from, &diag, graph);
  if (status == LW_OK) {
    add_graph(s, graph, from, fuse);
  } else {
    if (!from->folder) complain(s, from, "no graph", &diag);
    s->refused++;
    lw__graph_deinit(graph);
  }
  lw__diag_deinit(&diag);
}

static void add_folders(suite *s, const lw_shared_list *list) {
  for (uint32_t i = 0; i < list->count; i++) {
    uint32_t before = s->kernels.count;
    int64_t start = lw__now_ns();
    origin from = {.folder = list->paths[i]};
    add_origin(s, &from, true);
    double seconds = (double)(lw__now_ns() - start) * 1e-9;
    if (seconds > 2)
      printf("%s: %.1f s to compile, %u new kernels\n", from.folder, seconds,
             s->kernels.count - before);
  }
}

/* ---- building ---------------------------------------------------------------------------------*/

static lw_status emit_units(suite *s) {
  for (uint32_t i = 0; i < s->kernels.count; i += kernels_per_unit) {
    uint32_t count =
        s->kernels.count - i < kernels_per_unit ? s->kernels.count - i : kernels_per_unit;
    lw_build_job job = {.entries = &s->names.data[i], .entry_count = count};
    lw_text text = {0};
    lw_status status = lw__emit_cuda(&s->kernels.data[i], &s->names.data[i], count, &text);
    if (status == LW_OK) status = text.status;
    if (status == LW_OK)
      status = lw__arena_strndup(&s->arena, lw__text_str(&text), text.len, &job.source);
    lw__text_deinit(&text);
    LW_TRY(status);
    LW_TRY(lw_vec_push(&s->jobs, job));
  }
  return LW_OK;
}

/* A kernel that spills: its graph, built by the pipeline, must come out without it. */
static void check_split(suite *s, uint32_t kernel, uint32_t spill_bytes, uint32_t registers) {
  const origin *from = &s->origins.data[kernel];
  lw_compile_options options = options_for(s);
  lw_diag diag = {0};
  lw_graph graph;
  lw_compiled compiled = {0};
  lw_status status = make_graph(from, &diag, &graph);
  if (status == LW_OK) status = lw__compile(&graph, &options, true, &diag, &compiled);
  if (status != LW_OK) complain(s, from, lw_status_name(status), &diag);
  uint32_t left = 0;
  for (uint32_t k = 0; k < compiled.plan.kernels.count; k++)
    left += compiled.plan.kernels.data[k].spill_bytes > 0;
  printf("%s: %s spills %u bytes with %u registers, %u threads, in ", s->profile->name,
         s->names.data[kernel], spill_bytes, registers, s->kernels.data[kernel]->block_threads);
  print_origin(from);
  printf("; after splitting %u kernels spill\n", left);
  s->failed += left > 0;
  lw__compiled_deinit(&compiled);
  lw__graph_deinit(&graph);
  lw__diag_deinit(&diag);
}

static void build(suite *s) {
  lw_build_options options = options_for(s).build;
  lw_diag diag = {0};
  options.sm_arch = s->profile->sm_arch;
  options.arch_specific = s->profile->arch_specific;
  lw_status status = emit_units(s);
  if (status == LW_OK)
    status = lw__build_cuda(s->jobs.data, s->jobs.count, &options, NULL, &s->arena, &diag);
  if (status != LW_OK) {
    printf("%s: %s\n", s->profile->name, lw_status_name(status));
    lw_sample_print_messages(&diag);
    s->failed++;
  }
  lw__diag_deinit(&diag);
  for (uint32_t k = 0; k < s->kernels.count; k++) {
    const lw_build_job *job = &s->jobs.data[k / kernels_per_unit];
    if (!job->report) continue;
    uint32_t spill_bytes = job->report[k % kernels_per_unit].spill_bytes;
    uint32_t registers = job->report[k % kernels_per_unit].registers;
    if (registers == 0) printf("%s: no report\n", s->names.data[k]), s->failed++;
    if (spill_bytes) check_split(s, k, spill_bytes, registers);
  }
}

static void suite_deinit(suite *s) {
  for (uint32_t i = 0; i < s->compiled.count; i++) {
    lw__compiled_deinit(s->compiled.data[i]);
    lw__graph_deinit(s->graphs.data[i]);
  }
  lw_vec_free(&s->compiled);
  lw_vec_free(&s->graphs);
  lw_vec_free(&s->kernels);
  lw_vec_free(&s->names);
  lw_vec_free(&s->origins);
  lw_vec_free(&s->jobs);
  lw__map_deinit(&s->known);
  lw__arena_deinit(&s->arena);
}

/* Random graphs fused; every eighth one unfused as well. */
static uint32_t run_suite(const char *profile, uint64_t first, uint64_t count,
                          const lw_shared_list *models, const lw_shared_list *cases) {
  suite s = {.profile = lw__device_profile_find(profile)};
  int64_t start = lw__now_ns();
  for (uint64_t seed = first; seed < first + count; seed++) {
    origin from = {.seed = seed};
    add_origin(&s, &from, true);
    if (seed % 8 == 0) add_origin(&s, &from, false);
  }
  add_folders(&s, models);
  add_folders(&s, cases);
  int64_t collected = lw__now_ns();
  build(&s);
  printf(
      "%s: %u plans, %u files not imported, %u kernels, %u failures; %.1f s to compile, %.1f s in "
      "NVRTC\n",
      profile, s.plans, s.refused, s.kernels.count, s.failed, (double)(collected - start) * 1e-9,
      (double)(lw__now_ns() - collected) * 1e-9);
  uint32_t failed = s.failed;
  suite_deinit(&s);
  return failed;
}

/* 0: NVRTC is there; else the exit status without it. */
static int look_for_nvrtc(void) {
  lw_nvrtc nvrtc;
  lw_diag diag = {0};
  lw_status status = lw__nvrtc_open(NULL, getenv("LAWSON_NVRTC_DIR"), &diag, &nvrtc);
  if (status == LW_OK) {
    lw__nvrtc_close(&nvrtc);
    return 0;
  }
  const char *allowed = getenv("LAWSON_ALLOW_NO_NVRTC");
  bool skip = allowed != NULL && !strcmp(allowed, "1");
  printf("%s: %s\n", skip ? "skipped" : "no NVRTC (LAWSON_ALLOW_NO_NVRTC=1 skips this test)",
         lw__diag_first_error(&diag));
  lw__diag_deinit(&diag);
  return skip ? 77 : 1;
}

int main(int argc, char **argv) {
  uint64_t first = argc > 1 ? strtoull(argv[1], NULL, 10) : 1;
  uint64_t count = argc > 2 ? strtoull(argv[2], NULL, 10) : argc > 1 ? 1 : default_count;
  int missing = look_for_nvrtc();
  if (missing) return missing;
  lw_shared_list models = {0}, cases = {0};
  if (argc == 1 && (lw_shared_folders(LW_SOURCE_DIR, "models", &models) != LW_OK ||
                    lw_shared_folders(LW_SOURCE_DIR, "cases", &cases) != LW_OK))
    return 1;
  uint32_t failed = run_suite("sm_80", first, count, &models, &cases);
  failed += run_suite("sm_90a", first, count, &models, &cases);
  lw_shared_list_deinit(&models);
  lw_shared_list_deinit(&cases);
  return failed != 0;
}

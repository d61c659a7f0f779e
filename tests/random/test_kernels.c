/* test_kernels.c: random graphs, fused and unfused, lowered for GPU and CPU, run by the kernel-IR interpreter and held against
 * the oracle's bounds. Usage: test_kernels [first seed] [count]; a failing seed is printed and can be given alone. */
#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "api/pipeline.h"
#include "graph/interp.h"
#include "lib/kexec.h"
#include "lib/rgraph.h"

enum { default_count = 400 };

typedef struct sample {
  lw_graph graph;
  lw_arena arena;
  lw_diag diag;
  lw_host_tensor *inputs;
  void **input_data, **output_data;
  lw_oracle_tensor *want;
} sample;

static void *take(lw_arena *arena, size_t bytes) {
  void *p = NULL;
  if (lw__arena_alloc(arena, bytes ? bytes : 1, 1, &p) != LW_OK) abort();
  return p;
}

static size_t bytes_of(const lw_graph *g, lw_value_id v) {
  return (size_t)lw__shape_numel(&lw__value(g, v)->shape) * lw_dtype_size_bytes(lw__value(g, v)->dtype);
}

static lw_status sample_make(sample *s, uint64_t seed) {
  lw_rgraph_options options = {.nodes = 3 + (uint32_t)(seed % 12), .contractions = seed % 3 != 0, .narrow = seed % 2};
  memset(s, 0, sizeof *s);
  LW_TRY(lw__graph_init(&s->graph, &s->diag));
  LW_TRY(lw_rgraph_make(seed, &options, &s->graph));
  LW_TRY(lw__graph_verify(&s->graph, &s->diag));
  lw_rng rng;
  lw__rng_seed(&rng, seed * 77 + 5);
  s->inputs = take(&s->arena, s->graph.inputs.count * sizeof *s->inputs);
  s->input_data = take(&s->arena, s->graph.inputs.count * sizeof(void *));
  s->output_data = take(&s->arena, s->graph.outputs.count * sizeof(void *));
  s->want = take(&s->arena, s->graph.outputs.count * sizeof *s->want);
  for (uint32_t i = 0; i < s->graph.inputs.count; i++) {
    const lw_value *v = lw__value(&s->graph, s->graph.inputs.data[i]);
    s->input_data[i] = take(&s->arena, bytes_of(&s->graph, s->graph.inputs.data[i]));
    lw_random_fill(&rng, v->dtype, s->input_data[i], lw__shape_numel(&v->shape));
    s->inputs[i] = (lw_host_tensor){v->dtype, v->shape, s->input_data[i]};
  }
  for (uint32_t i = 0; i < s->graph.outputs.count; i++)
    s->output_data[i] = take(&s->arena, bytes_of(&s->graph, s->graph.outputs.data[i]));
  return lw__interp_run(&s->graph, LW_INTERP_IDEAL, s->inputs, &s->arena, 0, &s->diag, s->want);
}

static void sample_free(sample *s) {
  lw__graph_deinit(&s->graph);
  lw__arena_deinit(&s->arena);
  lw__diag_deinit(&s->diag);
}

static void print_messages(const lw_diag *diag) {
  for (uint32_t i = 0; i < diag->messages.count; i++)
    printf("    %s: %s\n", diag->messages.data[i].where, diag->messages.data[i].text);
}

/* 0: inside all bounds. */
static int compare_outputs(const sample *s, const char *mode, uint64_t seed) {
  int bad = 0;
  for (uint32_t i = 0; i < s->graph.outputs.count; i++) {
    lw_compare c;
    lw__interp_compare(&s->want[i], s->output_data[i], &c);
    if (!c.bad) continue;
    printf("seed %llu %s: output %u: %lld of %lld outside; element %lld is %.9g, should be %.9g +- %.3g\n",
           (unsigned long long)seed, mode, i, (long long)c.bad, (long long)c.count, (long long)c.worst_index, c.worst_got,
           c.worst_want, c.worst_bound);
    bad = 1;
  }
  return bad;
}

static int run_mode(sample *s, uint64_t seed, const char *profile, bool fuse, uint64_t *kernels) {
  char mode[64];
  snprintf(mode, sizeof mode, "%s %s", profile, fuse ? "fused" : "unfused");
  lw_compile_options options = {.profile = lw__device_profile_find(profile), .policy = lw__resource_policy_find("opt-in")};
  options.fuse.off = !fuse;
  options.skip_passes = getenv("LW_SKIP_PASSES") != NULL;
  lw_compiled compiled;
  lw_kexec_result result;
  lw_diag diag = {0};
  lw_status status = lw__compile(&s->graph, &options, false, &diag, &compiled);
  if (status == LW_OK) status = lw_kexec_run(&compiled, s->input_data, s->output_data, &diag, &result);
  if (status == LW_OK) *kernels += result.launches;
  lw__compiled_deinit(&compiled);
  if (status == LW_OK) {
    lw__diag_deinit(&diag);
    return compare_outputs(s, mode, seed);
  }
  printf("seed %llu %s: %s\n", (unsigned long long)seed, mode, lw_status_name(status));
  print_messages(&diag);
  lw__diag_deinit(&diag);
  return 1;
}

static int run_seed(uint64_t seed, uint64_t *fused, uint64_t *unfused) {
  sample s;
  lw_status status = sample_make(&s, seed);
  int bad = 0;
  if (status != LW_OK) {
    printf("seed %llu: no sample: %s\n", (unsigned long long)seed, lw_status_name(status));
    print_messages(&s.diag);
    bad = 1;
  } else {
    static const char *const profiles[] = {"sm_90a", "cpu"};
    for (int p = 0; p < 2; p++) {
      bad |= run_mode(&s, seed, profiles[p], true, fused);
      bad |= run_mode(&s, seed, profiles[p], false, unfused);
    }
  }
  sample_free(&s);
  return bad;
}

int main(int argc, char **argv) {
  uint64_t first = argc > 1 ? strtoull(argv[1], NULL, 10) : 1;
  uint64_t count = argc > 2 ? strtoull(argv[2], NULL, 10) : argc > 1 ? 1 : default_count;
  uint64_t fused = 0, unfused = 0, failed = 0;
  for (uint64_t seed = first; seed < first + count; seed++) failed += (uint64_t)run_seed(seed, &fused, &unfused);
  printf("%llu graphs, %llu failed; %llu kernels fused, %llu unfused\n", (unsigned long long)count, (unsigned long long)failed,
         (unsigned long long)fused, (unsigned long long)unfused);
  return failed != 0;
}

/* test_products.c (gpu): products with everything that networks put behind them, on the GPU of this
 * machine: odd and even shapes, both layouts, f16 and bf16, against the oracle's bounds, every
 * result twice with equal bits, one kernel each. Skipped (77) where there is no GPU. Usage:
 * test_gpu_products [first case] [count] checks (all: without arguments); test_gpu_products --list
 * prints the cases; test_gpu_products --time [M,N,K] prints times of large products, first of the
 * kernel that is predicted to be the fastest, then of sm_90a's own. LAWSON_CUDA
 * and LAWSON_NVRTC name other libraries, such as the stand-ins. */
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "api/pipeline.h"
#include "lib/pgraph.h"
#include "lib/sample.h"
#include "runtime/runtime.h"

enum { skipped = 77, repeats = 30 };

/* Every extent in every place, aligned and not; sums of a size that the oracle can do. */
static const int64_t shapes[][3] = {
    {1, 1, 1},       {1, 768, 768},    {7, 1000, 255},  {16, 16, 16},    {16, 768, 1000},
    {33, 100, 64},   {64, 64, 64},     {64, 768, 768},  {100, 33, 768},  {127, 127, 127},
    {127, 768, 64},  {255, 255, 100},  {255, 64, 1000}, {768, 16, 768},  {768, 100, 33},
    {1000, 7, 768},  {1000, 64, 16},   {1000, 1000, 7}, {1, 50257, 768}, {7, 50257, 64},
    {50257, 7, 64},  {50257, 16, 33},  {33, 64, 50257}, {16, 7, 50257},  {33, 1000, 768},
    {100, 1, 768},   {64, 255, 768},   {7, 16, 64},     {1, 1024, 4096}, {64, 64, 4096},
    {33, 104, 2048}, {100, 256, 1536},
};
enum { SHAPES = LW_ARRAY_COUNT(shapes) };

/* Each shape meets three of the ends; over all shapes each end meets every kind of shape. */
/* (The second time as predicted, else on sm_90a's own kernel wherever it can be.) */
static uint32_t case_count(void) { return SHAPES * 3; }

static lw_pgraph case_at(uint32_t i) {
  uint32_t s = i % SHAPES, round = i / SHAPES;
  return (lw_pgraph){.m = shapes[s][0],
                     .n = shapes[s][1],
                     .k = shapes[s][2],
                     .dtype = (s + round) % 2 ? LW_DTYPE_BF16 : LW_DTYPE_F16,
                     .weights_nk = (s / 2 + round) % 2 != 0,
                     .fixed = round == 1,
                     .end = (lw_pgraph_end)((s * 5 + round * 4) % LW_PEND_COUNT)};
}

/* ---- running ----------------------------------------------------------------------------------*/

static lw_status run_once(lw_rt_context *context, const lw_sample *s, lw_diag *diag) {
  lw_sample_poison_outputs(s);
  for (uint32_t i = 0; i < s->graph.inputs.count; i++)
    LW_TRY(lw__rt_bind_input(context, i, s->input_data[i], s->input_bytes[i], false));
  for (uint32_t i = 0; i < s->graph.outputs.count; i++)
    LW_TRY(lw__rt_bind_output(context, i, s->output_data[i], s->output_bytes[i], false));
  return lw__rt_run(context, diag);
}

static lw_hash hash_outputs(const lw_sample *s) {
  lw_hash hash = {0, 0};
  for (uint32_t i = 0; i < s->graph.outputs.count; i++)
    hash = lw__hash_bytes(s->output_data[i], s->output_bytes[i], hash);
  return hash;
}

static const lw_device_profile *profile_of(const lw_rt_device *device) {
  lw_rt_device_info info;
  char name[16];
  lw__rt_device_info(device, &info);
  (void)snprintf(name, sizeof name, "sm_%u", info.sm_arch);
  if (!lw__device_profile_find(name)) (void)snprintf(name, sizeof name, "sm_%ua", info.sm_arch);
  return lw__device_profile_find(name);
}

static const char *kernel_of(const lw_compiled *c, char text[80]) {
  const lw_kproduct *product = &c->kernels.data[0]->product;
  if (product->present)
    snprintf(text, 80, "%s %ux%u split %u %s",
             product->form.sched == LW_PRODUCT_PINGPONG ? "ping" : "coop", product->form.tile_m,
             product->form.tile_n, product->form.split,
             product->form.store == LW_PRODUCT_STORE_TMA ? "tma" : "direct");
  else
    snprintf(text, 80, "%s", c->lowered[0].schedule);
  return text;
}

typedef struct trial {
  lw_sample sample;
  lw_compiled compiled;
  lw_rt_program *program;
  lw_rt_context *context;
  lw_diag diag;
} trial;

static lw_status trial_open(lw_rt_device *device, lw_graph *graph, const lw_device_profile *profile,
                            bool sm90_always, trial *t) {
  lw_compile_options options = {
      .profile = profile, .policy = lw__resource_policy_find("opt-in"), .sm90_always = sm90_always};
  options.build.nvrtc_path = getenv("LAWSON_NVRTC");
  LW_TRY(lw__compile(graph, &options, true, &t->diag, &t->compiled));
  LW_TRY(lw__rt_program_load(device, &t->compiled.plan, &t->diag, &t->program));
  return lw__rt_context_create(t->program, &t->diag, &t->context);
}

static void trial_close(trial *t) {
  if (t->context) lw__rt_context_destroy(t->context);
  if (t->program) lw__rt_program_release(t->program);
  lw__compiled_deinit(&t->compiled);
  lw_sample_deinit(&t->sample);
  lw__diag_deinit(&t->diag);
}

/* How much is wrong. */
static uint32_t check(lw_rt_device *device, const lw_device_profile *profile, uint32_t number) {
  const lw_pgraph p = case_at(number);
  lw_graph graph;
  trial t = {0};
  char name[80], kernel[80];
  lw_pgraph_describe(&p, name);
  if (lw_pgraph_make(&p, &graph) != LW_OK) return 1;
  lw_status status = lw_sample_graph(&graph, number + 1, &t.sample);
  if (status == LW_OK)
    status = trial_open(device, &t.sample.graph, profile, number / SHAPES != 1, &t);
  if (status == LW_OK) status = run_once(t.context, &t.sample, &t.diag);
  lw_hash first = hash_outputs(&t.sample);
  if (status == LW_OK) status = run_once(t.context, &t.sample, &t.diag);
  uint32_t bad = 0;
  if (status != LW_OK) {
    printf("case %u, %s: %s\n", number, name, lw_status_name(status));
    lw_sample_print_messages(&t.sample.diag);
    lw_sample_print_messages(&t.diag);
    bad = 1;
  } else {
    bad = lw_sample_compare(&t.sample, NULL, name);
    if (!lw__hash_eq(first, hash_outputs(&t.sample))) bad++, printf("%s: two runs differ\n", name);
    if (t.compiled.plan.steps.count != 1) bad++, printf("%s: several steps\n", name);
    printf("%s case %u, %s: %s\n", bad ? "not ok" : "ok", number, name,
           kernel_of(&t.compiled, kernel));
  }
  fflush(stdout);
  trial_close(&t);
  return bad != 0;
}

/* ---- timing -----------------------------------------------------------------------------------*/

static int compare_ns(const void *x, const void *y) {
  int64_t a = *(const int64_t *)x, b = *(const int64_t *)y;
  return a < b ? -1 : a > b;
}

/* Everything on the device; the cache is emptied before each run. */
static lw_status measure(lw_rt_device *device, trial *t, const lw_graph *g, int64_t *out_ns) {
  int64_t ns[repeats];
  lw_rt_stats stats;
  for (uint32_t i = 0; i < g->inputs.count + g->outputs.count; i++) {
    bool input = i < g->inputs.count;
    const lw_value *v =
        lw__value(g, input ? g->inputs.data[i] : g->outputs.data[i - g->inputs.count]);
    size_t bytes = (size_t)lw__shape_numel(&v->shape) * lw_dtype_size_bytes(v->dtype);
    void *memory = NULL, *host = NULL;
    LW_TRY(lw__rt_alloc(device, bytes, &memory)); /* lives as long as the process */
    LW_TRY(lw__mem_resize(&host, bytes));
    lw_rng rng;
    lw__rng_seed(&rng, i + 1);
    lw_random_fill(&rng, v->dtype, host, lw__shape_numel(&v->shape));
    LW_TRY(lw__rt_upload(device, memory, host, bytes));
    lw__mem_free(host);
    LW_TRY(input ? lw__rt_bind_input(t->context, i, memory, bytes, true)
                 : lw__rt_bind_output(t->context, i - g->inputs.count, memory, bytes, true));
  }
  for (int r = 0; r < repeats; r++) {
    LW_TRY(lw__rt_flush_cache(device));
    LW_TRY(lw__rt_run(t->context, &t->diag));
    lw__rt_stats(t->context, &stats);
    ns[r] = stats.last_device_ns;
  }
  qsort(ns, repeats, sizeof ns[0], compare_ns);
  *out_ns = ns[repeats / 2];
  return LW_OK;
}

static void time_one(lw_rt_device *device, const lw_device_profile *profile, const lw_pgraph *p,
                     bool sm90_always) {
  lw_graph graph;
  trial t = {0};
  char name[80], kernel[80];
  int64_t ns = 0;
  lw_pgraph_describe(p, name);
  if (lw_pgraph_make(p, &graph) != LW_OK) return;
  lw_status status = trial_open(device, &graph, profile, sm90_always, &t);
  if (status == LW_OK) status = measure(device, &t, &graph, &ns);
  if (status == LW_OK)
    printf("%-36s %9.1f us %7.1f TFLOP/s  %s\n", name, (double)ns * 1e-3,
           2e-3 * (double)p->m * (double)p->n * (double)p->k / (double)ns,
           kernel_of(&t.compiled, kernel));
  else
    lw_sample_print_messages(&t.diag);
  fflush(stdout);
  trial_close(&t);
  lw__graph_deinit(&graph);
}

static void time_all(lw_rt_device *device, const lw_device_profile *profile, const char *shape) {
  static const int64_t large[][3] = {{2048, 2048, 2048},  {4096, 4096, 4096}, {8192, 8192, 8192},
                                     {16384, 4096, 1024}, {4096, 768, 768},   {4096, 3072, 768},
                                     {4096, 768, 3072},   {512, 4096, 4096},  {16, 4096, 4096},
                                     {1, 4096, 4096}};
  long long m = 0, n = 0, k = 0;
  bool one = shape && sscanf(shape, "%lld,%lld,%lld", &m, &n, &k) == 3;
  for (size_t i = 0; i < (one ? 1 : LW_ARRAY_COUNT(large)); i++)
    for (int e = 0; e < LW_PEND_COUNT; e++) {
      lw_pgraph p = {.m = one ? m : large[i][0],
                     .n = one ? n : large[i][1],
                     .k = one ? k : large[i][2],
                     .dtype = LW_DTYPE_F16,
                     .end = (lw_pgraph_end)e};
      for (int nk = 0; nk < (e == 0 ? 2 : 1); nk++) {
        p.weights_nk = nk != 0;
        time_one(device, profile, &p, false);
        time_one(device, profile, &p, true);
      }
    }
}

int main(int argc, char **argv) {
  bool timed = argc > 1 && strcmp(argv[1], "--time") == 0;
  if (argc > 1 && strcmp(argv[1], "--list") == 0) {
    for (uint32_t i = 0; i < case_count(); i++) {
      char name[80];
      lw_pgraph p = case_at(i);
      lw_pgraph_describe(&p, name);
      printf("%u %s\n", i, name);
    }
    return 0;
  }
  lw_rt_device *device = NULL;
  lw_rt_device_options options = {.threads = 1, .cuda_path = getenv("LAWSON_CUDA")};
  lw_diag diag = {0};
  if (lw__rt_device_open("cuda", &options, &diag, &device) != LW_OK) {
    printf("# SKIP no GPU: %s\n", lw__diag_first_error(&diag));
    lw__diag_deinit(&diag);
    return skipped;
  }
  const lw_device_profile *profile = profile_of(device);
  uint32_t failed = 0, first = 0, count = case_count();
  if (!timed && argc > 1) first = (uint32_t)atoi(argv[1]), count = 1;
  if (!timed && argc > 2) count = (uint32_t)atoi(argv[2]);
  if (timed) time_all(device, profile, argc > 2 ? argv[2] : NULL);
  for (uint32_t i = first; !timed && i < first + count && i < case_count(); i++)
    failed += check(device, profile, i);
  if (!timed) printf("%u passed, %u failed\n", count - failed, failed);
  lw__rt_device_release(device);
  lw__diag_deinit(&diag);
  return failed != 0;
}

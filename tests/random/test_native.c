/* test_native.c: random graphs on the CPU through real C: compiled fused and unfused, with and
 * without the passes, all kernels of a batch of graphs in a few C files, then run through the
 * runtime, twice, and held against the oracle's bounds. Usage: test_random_native [first seed]
 * [count] [flags of the C compiler]; a failing seed is printed and can be given alone.
 *
 * Nearly all of the time is the C compiler's, which is why kernels are built at -O1; every eighth
 * batch is built like a user's, and under the address sanitizer kernels are built with it, too. */
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "api/pipeline.h"
#include "compiler/emit/emit.h"
#include "lib/sample.h"
#include "runtime/runtime.h"

#if defined __SANITIZE_ADDRESS__ && !defined __clang__
enum { default_count = 96, batch_size = 24, kernels_per_unit = 40 };
static const char quick_flags[] = "-O1 -fsanitize=address,undefined -fno-sanitize-recover=all";
#else
enum { default_count = 1024, batch_size = 64, kernels_per_unit = 100 };
static const char quick_flags[] = "-O1";
#endif

typedef enum native_mode {
  MODE_FUSED,
  MODE_UNFUSED,
  MODE_FUSED_RAW,
  MODE_UNFUSED_RAW,
  MODE_COUNT
} native_mode;
static const char *const mode_names[MODE_COUNT] = {
    "native fused", "native unfused", "native fused, no passes", "native unfused, no passes"};

typedef struct native_item { /* one graph of a batch */
  lw_sample sample;
  lw_compiled compiled[MODE_COUNT];
  bool runs[MODE_COUNT];
} native_item;

typedef struct native_batch {
  native_item *items;
  uint32_t count;
  lw_arena arena;
  lw_map known; /* kernel name -> index below */
  LW_VEC(const lw_kernel *) kernels;
  LW_VEC(const char *) names;
  LW_VEC(lw_build_job) jobs;
} native_batch;

typedef struct native_totals {
  uint64_t graphs, plans, kernels, launches, failed;
  int64_t compile_ns, build_ns, run_ns;
} native_totals;

static lw_status report(const lw_sample *s, const char *mode, lw_status status, lw_diag *diag) {
  if (status != LW_OK) {
    printf("seed %llu %s: %s\n", (unsigned long long)s->seed, mode, lw_status_name(status));
    lw_sample_print_messages(diag);
  }
  lw__diag_deinit(diag);
  return status;
}

/* ---- compiling --------------------------------------------------------------------------------*/

static lw_status add_kernels(native_batch *b, const lw_compiled *c) {
  for (uint32_t k = 0; k < c->kernels.count; k++) {
    const char *name = c->plan.kernels.data[k].name;
    bool added;
    LW_TRY(lw__map_put(&b->known, lw__str_of(name), b->kernels.count, &added, NULL));
    if (!added) continue;
    LW_TRY(lw_vec_push(&b->kernels, c->kernels.data[k]));
    LW_TRY(lw_vec_push(&b->names, name));
  }
  return LW_OK;
}

static lw_status compile_mode(native_batch *b, native_item *item, native_mode mode) {
  lw_compile_options options = {.profile = lw_sample_profile("cpu", item->sample.seed),
                                .policy = lw_sample_policy(item->sample.seed)};
  options.fuse.off = mode == MODE_UNFUSED || mode == MODE_UNFUSED_RAW;
  options.skip_passes = mode >= MODE_FUSED_RAW;
  lw_diag diag = {0};
  item->runs[mode] = true;
  lw_status status =
      lw__compile(&item->sample.graph, &options, false, &diag, &item->compiled[mode]);
  if (status == LW_OK) status = add_kernels(b, &item->compiled[mode]);
  return report(&item->sample, mode_names[mode], status, &diag);
}

/* One graph in four also without the passes. */
static uint64_t compile_item(native_batch *b, native_item *item, uint64_t seed, bool show) {
  lw_status status = lw_sample_random(seed, &item->sample);
  if (status != LW_OK) {
    printf("seed %llu: no sample: %s\n", (unsigned long long)seed, lw_status_name(status));
    lw_sample_print_messages(&item->sample.diag);
    return 1;
  }
  if (show) lw_sample_print_graph(&item->sample);
  uint64_t failed = 0;
  for (native_mode m = 0; m < (seed % 4 ? MODE_FUSED_RAW : MODE_COUNT); m++) {
    if (compile_mode(b, item, m) == LW_OK) continue;
    item->runs[m] = false;
    failed++;
  }
  return failed;
}

/* ---- building ---------------------------------------------------------------------------------*/

static lw_status emit_units(native_batch *b) {
  for (uint32_t i = 0; i < b->kernels.count; i += kernels_per_unit) {
    uint32_t count =
        b->kernels.count - i < kernels_per_unit ? b->kernels.count - i : kernels_per_unit;
    lw_build_job job = {.entries = &b->names.data[i], .entry_count = count};
    lw_text text = {0};
    lw_status status = lw__emit_c(&b->kernels.data[i], &b->names.data[i], count, &text);
    if (status == LW_OK) status = text.status;
    if (status == LW_OK)
      status = lw__arena_strndup(&b->arena, lw__text_str(&text), text.len, &job.source);
    lw__text_deinit(&text);
    LW_TRY(status);
    LW_TRY(lw_vec_push(&b->jobs, job));
  }
  return LW_OK;
}

static void give_images(const native_batch *b, lw_compiled *c) {
  for (uint32_t k = 0; k < c->plan.kernels.count; k++) {
    lw_plan_kernel *kernel = &c->plan.kernels.data[k];
    const lw_build_job *job =
        &b->jobs.data[lw__map_get(&b->known, lw__str_of(kernel->name)) / kernels_per_unit];
    kernel->image = job->image;
    kernel->image_bytes = job->image_bytes;
  }
}

static lw_status build_batch(native_batch *b, const char *flags) {
  lw_build_options options = {.path = getenv("PATH"), .cflags_extra = flags};
  lw_diag diag = {0};
  lw_status status = emit_units(b);
  if (status == LW_OK)
    status = lw__build_cpu(b->jobs.data, b->jobs.count, &options, NULL, &b->arena, &diag);
  if (status != LW_OK) {
    printf("seeds %llu to %llu: kernels were not built: %s\n",
           (unsigned long long)b->items[0].sample.seed,
           (unsigned long long)b->items[b->count - 1].sample.seed, lw_status_name(status));
    lw_sample_print_messages(&diag);
  }
  lw__diag_deinit(&diag);
  for (uint32_t i = 0; i < b->count && status == LW_OK; i++)
    for (native_mode m = 0; m < MODE_COUNT; m++)
      if (b->items[i].runs[m]) give_images(b, &b->items[i].compiled[m]);
  return status;
}

/* ---- running ----------------------------------------------------------------------------------*/

static lw_status bind_and_run(lw_rt_context *context, const lw_sample *s, lw_diag *diag) {
  for (uint32_t i = 0; i < s->graph.inputs.count; i++)
    LW_TRY(lw__rt_bind_input(context, i, s->input_data[i], s->input_bytes[i], false));
  for (uint32_t i = 0; i < s->graph.outputs.count; i++)
    LW_TRY(lw__rt_bind_output(context, i, s->output_data[i], s->output_bytes[i], false));
  return lw__rt_run(context, diag);
}

static lw_status run_once(lw_rt_program *program, const lw_sample *s, lw_diag *diag) {
  lw_rt_context *context = NULL;
  LW_TRY(lw__rt_context_create(program, diag, &context));
  lw_sample_poison_outputs(s);
  lw_status status = bind_and_run(context, s, diag);
  lw__rt_context_destroy(context);
  return status;
}

static lw_status keep_outputs(lw_sample *s, void ***out) {
  LW_TRY(lw__arena_alloc(&s->arena, s->graph.outputs.count + 1u, sizeof(void *), out));
  for (uint32_t i = 0; i < s->graph.outputs.count; i++)
    if (s->output_bytes[i])
      LW_TRY(lw__arena_dup(&s->arena, s->output_data[i], s->output_bytes[i], &(*out)[i]));
  return LW_OK;
}

/* The second run must give the same bits, in another context. */
static lw_status run_twice(lw_rt_program *program, lw_sample *s, lw_diag *diag) {
  void **first;
  LW_TRY(run_once(program, s, diag));
  LW_TRY(keep_outputs(s, &first));
  LW_TRY(run_once(program, s, diag));
  for (uint32_t i = 0; i < s->graph.outputs.count; i++)
    if (s->output_bytes[i] && memcmp(first[i], s->output_data[i], s->output_bytes[i]))
      return lw__fail(diag, LW_STATUS_CHECK_FAILED, "output", "output %u differs between two runs",
                      i);
  return LW_OK;
}

/* Small launches stay on the calling thread; half of the graphs pretend theirs are worth all
 * threads. */
static void spread_launches(lw_plan *plan) {
  for (uint32_t i = 0; i < plan->steps.count; i++) plan->steps.data[i].predicted_us = 1000;
}

static uint64_t run_item(lw_rt_device *device, native_item *item, native_mode mode,
                         native_totals *totals) {
  lw_sample *s = &item->sample;
  lw_plan *plan = &item->compiled[mode].plan;
  lw_diag diag = {0};
  lw_rt_program *program = NULL;
  if (s->seed % 2) spread_launches(plan);
  lw_status status = lw__rt_program_load(device, plan, &diag, &program);
  if (status == LW_OK) status = run_twice(program, s, &diag);
  if (program) lw__rt_program_release(program);
  totals->plans++;
  totals->launches += plan->steps.count;
  if (report(s, mode_names[mode], status, &diag) != LW_OK) return 1;
  return lw_sample_compare(s, NULL, mode_names[mode]);
}

/* ---- batches ----------------------------------------------------------------------------------*/

static void batch_deinit(native_batch *b) {
  for (uint32_t i = 0; i < b->count; i++) {
    for (native_mode m = 0; m < MODE_COUNT; m++) lw__compiled_deinit(&b->items[i].compiled[m]);
    lw_sample_deinit(&b->items[i].sample);
  }
  lw__map_deinit(&b->known);
  lw_vec_free(&b->kernels);
  lw_vec_free(&b->names);
  lw_vec_free(&b->jobs);
  lw__arena_deinit(&b->arena);
}

static void run_batch(lw_rt_device *device, uint64_t first, uint32_t count, const char *flags,
                      native_totals *totals) {
  native_batch b = {.count = count};
  if (lw__arena_alloc(&b.arena, count, sizeof *b.items, &b.items) != LW_OK) abort();
  int64_t start = lw__now_ns();
  for (uint32_t i = 0; i < count; i++)
    totals->failed += compile_item(&b, &b.items[i], first + i, count == 1);
  int64_t compiled = lw__now_ns();
  lw_status status = build_batch(&b, flags);
  int64_t built = lw__now_ns();
  for (uint32_t i = 0; i < count && status == LW_OK; i++)
    for (native_mode m = 0; m < MODE_COUNT; m++)
      if (b.items[i].runs[m]) totals->failed += run_item(device, &b.items[i], m, totals);
  totals->failed += status != LW_OK;
  totals->graphs += count;
  totals->kernels += b.kernels.count;
  totals->compile_ns += compiled - start;
  totals->build_ns += built - compiled;
  totals->run_ns += lw__now_ns() - built;
  batch_deinit(&b);
}

int main(int argc, char **argv) {
  uint64_t first = argc > 1 ? strtoull(argv[1], NULL, 10) : 1;
  uint64_t count = argc > 2 ? strtoull(argv[2], NULL, 10) : argc > 1 ? 1 : default_count;
  lw_rt_device *device = NULL;
  lw_rt_device_options options = {.threads = 2};
  lw_diag diag = {0};
  native_totals totals = {0};
  if (lw__rt_device_open("cpu", &options, &diag, &device) != LW_OK) {
    lw_sample_print_messages(&diag);
    return 1;
  }
  for (uint64_t done = 0; done < count; done += batch_size) {
    uint32_t batch = count - done < batch_size ? (uint32_t)(count - done) : batch_size;
    const char *flags = argc > 3 ? argv[3] : done / batch_size % 8 == 7 ? NULL : quick_flags;
    run_batch(device, first + done, batch, flags, &totals);
  }
  lw__rt_device_release(device);
  printf(
      "seeds %llu to %llu: %llu graphs, %llu plans, %llu launches, %llu kernels built, %llu "
      "failed\n",
      (unsigned long long)first, (unsigned long long)(first + count - 1),
      (unsigned long long)totals.graphs, (unsigned long long)totals.plans,
      (unsigned long long)totals.launches, (unsigned long long)totals.kernels,
      (unsigned long long)totals.failed);
  printf("seconds: compiling %.1f, C compiler %.1f, running %.1f\n",
         (double)totals.compile_ns * 1e-9, (double)totals.build_ns * 1e-9,
         (double)totals.run_ns * 1e-9);
  return totals.failed != 0;
}

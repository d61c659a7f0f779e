/* test_random.c: random graphs through the CUDA path without a GPU: generated CUDA C, the builder,
 * the CUDA runtime, all on look-alikes of NVRTC and the driver that run the kernels on the host.
 * Results are held against the oracle's bounds, twice: the look-alike runs blocks and threads
 * forward and backward by turns, and every bit must stay. It must too when the steps are spread
 * over two to eight lanes, as a graph and in streams. Usage: test_standin_random [first seed]
 * [count]; a failing seed is printed and can be given alone. */
#include <dlfcn.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "api/pipeline.h"
#include "compiler/emit/emit.h"
#include "lib/sample.h"
#include "runtime/runtime.h"
#include "standin/standin.h"

enum { default_count = 300, batch_size = 48, kernels_per_unit = 100 };
/* How a graph is compiled and run. The last two have the kernels of the one before. */
enum { fused, unfused, lanes_graph, lanes_streams, modes };

static const char driver_library[] = LW_BUILD_DIR "/libcuda_standin.so";
static const char nvrtc_library[] = LW_BUILD_DIR "/libnvrtc_standin.so";
static lw_standin_state *standin;

typedef struct item {
  lw_sample sample;
  lw_compiled compiled[modes];
  bool runs[modes];
  void **first; /* the outputs of the run before */
} item;
static const char *const mode_names[modes] = {"stand-in fused", "stand-in unfused",
                                              "stand-in lanes, graph", "stand-in lanes, streams"};

typedef struct batch {
  item *items;
  uint32_t count;
  lw_arena arena;
  lw_map known; /* kernel name -> index below */
  LW_VEC(const lw_kernel *) kernels;
  LW_VEC(const char *) names;
  LW_VEC(lw_build_job) jobs;
} batch;

static uint64_t plans, launches, waits, failed;

static bool report(const lw_sample *s, const char *mode, lw_status status, lw_diag *diag) {
  if (status != LW_OK) {
    printf("seed %llu %s: %s\n", (unsigned long long)s->seed, mode, lw_status_name(status));
    lw_sample_print_messages(diag);
    failed++;
  }
  lw__diag_deinit(diag);
  return status == LW_OK;
}

static lw_status add_kernels(batch *b, const lw_compiled *c) {
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

static void compile_item(batch *b, item *it, uint64_t seed) {
  lw_status status = lw_sample_random(seed, &it->sample);
  if (status != LW_OK) {
    printf("seed %llu: no sample: %s\n", (unsigned long long)seed, lw_status_name(status));
    failed++;
    return;
  }
  for (int mode = 0; mode < modes; mode++) {
    lw_compile_options options = {.profile = lw__device_profile_find("sm_90a"),
                                  .policy = lw__resource_policy_find("opt-in")};
    options.fuse.off = mode != fused;
    options.sm90_always = seed / 2 % 2 == 0;
    options.early_start = mode == fused && seed % 2 == 0;
    if (mode == lanes_graph) options.streams = 2 + (uint32_t)(seed % 7);
    if (mode == lanes_streams) options.streams = 8 - (uint32_t)(seed % 7);
    lw_diag diag = {0};
    status = lw__compile(&it->sample.graph, &options, false, &diag, &it->compiled[mode]);
    if (status == LW_OK) status = add_kernels(b, &it->compiled[mode]);
    it->runs[mode] = report(&it->sample, mode_names[mode], status, &diag);
  }
}

static lw_status emit_units(batch *b) {
  for (uint32_t i = 0; i < b->kernels.count; i += kernels_per_unit) {
    uint32_t count =
        b->kernels.count - i < kernels_per_unit ? b->kernels.count - i : kernels_per_unit;
    lw_build_job job = {.entries = &b->names.data[i], .entry_count = count};
    lw_text text = {0};
    lw_status status = lw__emit_cuda(&b->kernels.data[i], &b->names.data[i], count, &text);
    if (status == LW_OK) status = text.status;
    if (status == LW_OK)
      status = lw__arena_strndup(&b->arena, lw__text_str(&text), text.len, &job.source);
    lw__text_deinit(&text);
    LW_TRY(status);
    LW_TRY(lw_vec_push(&b->jobs, job));
  }
  return LW_OK;
}

static lw_status build(batch *b) {
  lw_build_options options = {.sm_arch = 90, .arch_specific = true, .nvrtc_path = nvrtc_library};
  lw_diag diag = {0};
  lw_status status = emit_units(b);
  if (status == LW_OK)
    status = lw__build_cuda(b->jobs.data, b->jobs.count, &options, NULL, &b->arena, &diag);
  if (status != LW_OK) {
    printf("kernels were not built: %s\n", lw_status_name(status));
    lw_sample_print_messages(&diag);
  }
  lw__diag_deinit(&diag);
  return status;
}

static void give_images(const batch *b, lw_plan *plan) {
  for (uint32_t k = 0; k < plan->kernels.count; k++) {
    lw_plan_kernel *kernel = &plan->kernels.data[k];
    const lw_build_job *job =
        &b->jobs.data[lw__map_get(&b->known, lw__str_of(kernel->name)) / kernels_per_unit];
    kernel->image = job->image;
    kernel->image_bytes = job->image_bytes;
  }
}

static lw_status run_once(lw_rt_program *program, const lw_sample *s, lw_diag *diag) {
  lw_rt_context *context = NULL;
  LW_TRY(lw__rt_context_create(program, diag, &context));
  lw_sample_poison_outputs(s);
  lw_status status = LW_OK;
  for (uint32_t i = 0; i < s->graph.inputs.count && status == LW_OK; i++) {
    status = lw__rt_bind_input(context, i, s->input_data[i], s->input_bytes[i], false);
  }
  for (uint32_t i = 0; i < s->graph.outputs.count && status == LW_OK; i++) {
    status = lw__rt_bind_output(context, i, s->output_data[i], s->output_bytes[i], false);
  }
  if (status == LW_OK) status = lw__rt_run(context, diag);
  lw__rt_context_destroy(context);
  if (status == LW_OK && standin->violations != 0) {
    status = lw__fail(diag, LW_STATUS_CHECK_FAILED, "driver", "%s", standin->violation);
    standin->violations = 0;
  }
  return status;
}

static lw_status keep_outputs(item *it) {
  lw_sample *s = &it->sample;
  LW_TRY(lw__arena_alloc(&s->arena, s->graph.outputs.count + 1u, sizeof *it->first, &it->first));
  for (uint32_t i = 0; i < s->graph.outputs.count; i++) {
    if (s->output_bytes[i] != 0)
      LW_TRY(lw__arena_dup(&s->arena, s->output_data[i], s->output_bytes[i], &it->first[i]));
  }
  return LW_OK;
}

static lw_status compare_outputs(const item *it, lw_diag *diag) {
  const lw_sample *s = &it->sample;
  for (uint32_t i = 0; i < s->graph.outputs.count; i++) {
    size_t bytes = s->output_bytes[i];
    if (bytes != 0 && memcmp(it->first[i], s->output_data[i], bytes) != 0) {
      return lw__fail(diag, LW_STATUS_CHECK_FAILED, "output", "output %u differs between two runs",
                      i);
    }
  }
  return LW_OK;
}

static lw_status run_twice(lw_rt_program *program, item *it, int mode, lw_diag *diag) {
  LW_TRY(run_once(program, &it->sample, diag));
  LW_TRY(mode <= unfused ? keep_outputs(it) : compare_outputs(it, diag));
  LW_TRY(run_once(program, &it->sample, diag));
  return compare_outputs(it, diag);
}

static void run_item(lw_rt_device *const *devices, const batch *b, item *it, int mode) {
  lw_plan *plan = &it->compiled[mode].plan;
  lw_diag diag = {0};
  lw_rt_program *program = NULL;
  give_images(b, plan);
  lw_status status = lw__rt_program_load(devices[mode == lanes_streams], plan, &diag, &program);
  if (status == LW_OK) status = run_twice(program, it, mode, &diag);
  lw__rt_program_release(program);
  plans++;
  launches += plan->steps.count;
  for (uint32_t i = 0; i < plan->steps.count; i++) waits += plan->steps.data[i].wait_count;
  if (report(&it->sample, mode_names[mode], status, &diag)) {
    failed += lw_sample_compare(&it->sample, NULL, mode_names[mode]);
  }
}

static void run_batch(lw_rt_device *const *devices, uint64_t first, uint32_t count) {
  batch b = {.count = count};
  if (lw__arena_alloc(&b.arena, count, sizeof *b.items, &b.items) != LW_OK) abort();
  for (uint32_t i = 0; i < count; i++) compile_item(&b, &b.items[i], first + i);
  if (build(&b) == LW_OK) {
    for (uint32_t i = 0; i < count; i++) {
      for (int mode = 0; mode < modes; mode++) {
        if (b.items[i].runs[mode]) run_item(devices, &b, &b.items[i], mode);
      }
    }
  } else {
    failed++;
  }
  for (uint32_t i = 0; i < count; i++) {
    for (int mode = 0; mode < modes; mode++) lw__compiled_deinit(&b.items[i].compiled[mode]);
    lw_sample_deinit(&b.items[i].sample);
  }
  lw__map_deinit(&b.known);
  lw_vec_free(&b.kernels);
  lw_vec_free(&b.names);
  lw_vec_free(&b.jobs);
  lw__arena_deinit(&b.arena);
}

int main(int argc, char **argv) {
  uint64_t first = argc > 1 ? strtoull(argv[1], NULL, 10) : 1;
  uint64_t count = argc > 2 ? strtoull(argv[2], NULL, 10) : argc > 1 ? 1 : default_count;
  lw_rt_device_options options = {.cuda_path = driver_library};
  lw_rt_device *devices[2]; /* runs are graphs; or go into streams */
  lw_diag diag = {0};
  for (int i = 0; i < 2; i++) {
    options.graph_min_steps = i == 0 ? 0 : UINT32_MAX;
    if (lw__rt_device_open("cuda", &options, &diag, &devices[i]) == LW_OK) continue;
    lw_sample_print_messages(&diag);
    lw__diag_deinit(&diag);
    return 1;
  }
  void *handle = dlopen(driver_library, RTLD_NOW);
  lw_standin_function *function;
  void *symbol = dlsym(handle, "lw_standin");
  memcpy(&function, &symbol, sizeof symbol);
  standin = function();
  int64_t start = lw__now_ns();
  for (uint64_t done = 0; done < count; done += batch_size) {
    run_batch(devices, first + done,
              count - done < batch_size ? (uint32_t)(count - done) : batch_size);
  }
  for (int i = 0; i < 2; i++) lw__rt_device_release(devices[i]);
  if (count >= batch_size && standin->early_edges == 0) {
    printf("no kernel was started early\n");
    failed++;
  }
  if (standin->live_memory + standin->live_modules + standin->live_streams + standin->live_events !=
      0) {
    printf("something on the device was not freed\n");
    failed++;
  }
  printf("seeds %llu to %llu: %llu plans, %llu launches, %llu waits, %llu failed; %.1f s\n",
         (unsigned long long)first, (unsigned long long)(first + count - 1),
         (unsigned long long)plans, (unsigned long long)launches, (unsigned long long)waits,
         (unsigned long long)failed, (double)(lw__now_ns() - start) * 1e-9);
  return failed != 0;
}

/* replay.c: random graphs on a GPU, with two sets of memory. */
#include "lib/replay.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

/* ---- the device ---- */

void lw_replay_arguments(int argc, char **argv, lw_replay_device *out) {
  *out = (lw_replay_device){0};
  if (argc > 1) out->cuda = argv[1];
  if (argc > 2) out->nvrtc = argv[2];
}

static lw_status build_delay(lw_replay_device *d, uint32_t sm_arch, bool arch_specific,
                             lw_diag *diag) {
  static const char source[] =
      "extern \"C\" __global__ void lw_delay(long long us) {\n"
      "  for (long long i = 0; i < us; i++) __nanosleep(1000u);\n"
      "}\n";
  static const char *const entries[] = {"lw_delay"};
  const lw_build_options options = {
      .sm_arch = sm_arch, .arch_specific = arch_specific, .nvrtc_path = d->nvrtc};
  d->delay = (lw_build_job){.source = source, .entries = entries, .entry_count = 1};
  return lw__build_cuda(&d->delay, 1, &options, NULL, &d->arena, diag);
}

lw_status lw_replay_open(lw_replay_device *d, lw_diag *diag) {
  const lw_rt_device_options options = {.threads = 1, .cuda_path = d->cuda};
  LW_TRY(lw__rt_device_open("cuda", &options, diag, &d->device));
  lw_rt_device_info info;
  char name[16];
  lw__rt_device_info(d->device, &info);
  (void)snprintf(name, sizeof name, "sm_%ua", info.sm_arch);
  if (!lw__device_profile_find(name)) (void)snprintf(name, sizeof name, "sm_%u", info.sm_arch);
  d->profile = lw__device_profile_find(name);
  if (d->profile == NULL) return lw__fail(diag, LW_STATUS_UNSUPPORTED, name, "has no profile");
  return build_delay(d, info.sm_arch, d->profile->arch_specific, diag);
}

void lw_replay_close(lw_replay_device *d) {
  lw__rt_device_release(d->device);
  lw__arena_deinit(&d->arena);
}

lw_status lw_replay_compile(const lw_replay_device *d, const lw_graph *graph, bool fuse,
                            lw_diag *diag, lw_compiled *out) {
  const lw_compile_options options = {.profile = d->profile,
                                      .policy = lw__resource_policy_find("opt-in"),
                                      .fuse = {.off = !fuse},
                                      .build = {.nvrtc_path = d->nvrtc}};
  return lw__compile(graph, &options, true, diag, out);
}

/* ---- delays ---- */

static lw_status renumber(lw_plan *plan, const uint32_t *ids, const uint32_t *from, uint32_t count,
                          uint32_t **out) {
  LW_TRY(lw__arena_alloc(&plan->arena, count + 1u, sizeof **out, out));
  for (uint32_t i = 0; i < count; i++) (*out)[i] = ids[from[i]];
  return LW_OK;
}

/* The delay takes the step's place in the order: it waits for what the step waited for, and the
 * step for it. */
static lw_status add_delay(lw_plan *plan, lw_plan_step *step, uint32_t kernel, int64_t us) {
  lw_plan_step delay = *step;
  const lw_plan_arg argument = {.kind = LW_ARG_SCALAR, .scalar = us};
  LW_TRY(lw__arena_dup(&plan->arena, &argument, sizeof argument, &delay.args));
  delay.kind = LW_STEP_LAUNCH;
  delay.kernel = kernel;
  delay.grid = 1;
  delay.arg_count = 1;
  delay.bytes = 0;
  delay.label = "delay";
  LW_TRY(lw__arena_alloc(&plan->arena, 1, sizeof *step->deps, &step->deps));
  step->deps[0] = plan->steps.count;
  step->dep_count = 1;
  step->wait_count = 0; /* it is in the delay's lane */
  return lw_vec_push(&plan->steps, delay);
}

static lw_status add_steps(lw_plan *out, const lw_plan *plan, uint32_t kernel, uint64_t seed,
                           uint32_t us_max) {
  uint32_t *ids;
  lw_rng rng;
  lw__rng_seed(&rng, seed);
  LW_TRY(lw__arena_alloc(&out->arena, plan->steps.count + 1u, sizeof *ids, &ids));
  for (uint32_t i = 0; i < plan->steps.count; i++) {
    lw_plan_step step = plan->steps.data[i];
    uint64_t random = lw__rng_u64(&rng);
    LW_TRY(renumber(out, ids, step.deps, step.dep_count, &step.deps));
    LW_TRY(renumber(out, ids, step.waits, step.wait_count, &step.waits));
    if (random % 2 == 0) LW_TRY(add_delay(out, &step, kernel, 1 + (int64_t)(random / 2 % us_max)));
    ids[i] = out->steps.count;
    LW_TRY(lw_vec_push(&out->steps, step));
  }
  return LW_OK;
}

lw_status lw_replay_delayed(lw_replay_device *d, const lw_plan *plan, uint64_t seed,
                            uint32_t us_max, lw_diag *diag, lw_plan *out) {
  lw__plan_init(out, plan->target);
  out->sm_arch = plan->sm_arch;
  out->arch_specific = plan->arch_specific;
  out->arena_bytes = plan->arena_bytes;
  out->weight_bytes = plan->weight_bytes;
  out->lane_count = plan->lane_count;
  for (uint32_t i = 0; i < plan->kernels.count; i++)
    LW_TRY(lw_vec_push(&out->kernels, plan->kernels.data[i]));
  for (uint32_t i = 0; i < plan->buffers.count; i++)
    LW_TRY(lw_vec_push(&out->buffers, plan->buffers.data[i]));
  for (uint32_t i = 0; i < plan->init.count; i++)
    LW_TRY(lw_vec_push(&out->init, plan->init.data[i]));
  for (uint32_t i = 0; i < plan->inputs.count; i++)
    LW_TRY(lw_vec_push(&out->inputs, plan->inputs.data[i]));
  for (uint32_t i = 0; i < plan->outputs.count; i++)
    LW_TRY(lw_vec_push(&out->outputs, plan->outputs.data[i]));
  const lw_plan_kernel delay = {.name = "lw_delay",
                                .block_threads = 32,
                                .image = d->delay.image,
                                .image_bytes = d->delay.image_bytes};
  LW_TRY(lw_vec_push(&out->kernels, delay));
  LW_TRY(add_steps(out, plan, out->kernels.count - 1, seed, us_max));
  return lw__plan_verify(out, diag);
}

/* ---- memory ---- */

static size_t align_up(size_t bytes) { return (bytes + 255) / 256 * 256; }

static size_t inputs_bytes(const lw_sample *s) {
  size_t bytes = 0;
  for (uint32_t i = 0; i < s->graph.inputs.count; i++) bytes += align_up(s->input_bytes[i]);
  return bytes;
}

static size_t outputs_bytes(const lw_sample *s) {
  size_t bytes = 0;
  for (uint32_t i = 0; i < s->graph.outputs.count; i++) bytes += align_up(s->output_bytes[i]);
  return bytes;
}

lw_status lw_replay_bind(lw_replay *r, uint32_t set) {
  const lw_sample *s = r->sample;
  char *at = r->memory + set * r->set_bytes;
  for (uint32_t i = 0; i < s->graph.inputs.count; at += align_up(s->input_bytes[i++]))
    LW_TRY(lw__rt_bind_input(r->context, i, at, s->input_bytes[i], true));
  for (uint32_t i = 0; i < s->graph.outputs.count; at += align_up(s->output_bytes[i++]))
    LW_TRY(lw__rt_bind_output(r->context, i, at, s->output_bytes[i], true));
  return LW_OK;
}

static lw_status upload_inputs(lw_replay *r, uint32_t set) {
  const lw_sample *s = r->sample;
  char *at = r->memory + set * r->set_bytes;
  for (uint32_t i = 0; i < s->graph.inputs.count; at += align_up(s->input_bytes[i++]))
    LW_TRY(lw__rt_upload(r->device, at, s->input_data[i], s->input_bytes[i]));
  return lw_replay_fill(r, set, 0xff);
}

lw_status lw_replay_begin(lw_rt_device *device, const lw_plan *plan, const lw_sample *sample,
                          lw_diag *diag, lw_replay *out) {
  void *memory;
  *out = (lw_replay){.device = device, .sample = sample};
  out->set_bytes = inputs_bytes(sample) + outputs_bytes(sample);
  LW_TRY(lw__rt_program_load(device, plan, diag, &out->program));
  LW_TRY(lw__rt_context_create(out->program, diag, &out->context));
  LW_TRY(lw__rt_alloc(device, LW_REPLAY_SETS * out->set_bytes, &memory));
  out->memory = memory;
  for (uint32_t set = 0; set < LW_REPLAY_SETS; set++) LW_TRY(upload_inputs(out, set));
  return lw_replay_bind(out, 0);
}

void lw_replay_end(lw_replay *r) {
  lw__rt_context_destroy(r->context);
  lw__rt_program_release(r->program);
  if (r->memory != NULL) lw__rt_free(r->device, r->memory);
  *r = (lw_replay){0};
}

lw_status lw_replay_bits(lw_replay *r, uint32_t set, lw_hash *out) {
  const lw_sample *s = r->sample;
  const char *at = r->memory + set * r->set_bytes + inputs_bytes(s);
  *out = (lw_hash){0, 0};
  for (uint32_t i = 0; i < s->graph.outputs.count; at += align_up(s->output_bytes[i++])) {
    LW_TRY(lw__rt_download(r->device, s->output_data[i], at, s->output_bytes[i]));
    *out = lw__hash_bytes(s->output_data[i], s->output_bytes[i], *out);
  }
  return LW_OK;
}

lw_status lw_replay_fill(lw_replay *r, uint32_t set, int byte) {
  void *bytes = NULL;
  size_t count = outputs_bytes(r->sample);
  if (count == 0) return LW_OK;
  LW_TRY(lw__mem_resize(&bytes, count));
  memset(bytes, byte, count);
  char *at = r->memory + set * r->set_bytes + inputs_bytes(r->sample);
  lw_status status = lw__rt_upload(r->device, at, bytes, count);
  lw__mem_free(bytes);
  return status;
}

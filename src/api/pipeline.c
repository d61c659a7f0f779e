/* pipeline.c: the compiler, step by step. */
#include "api/pipeline.h"

#include <string.h>

#include "compiler/emit/emit.h"
#include "compiler/lower/lower.h"
#include "compiler/lower/side.h"
#include "compiler/pass/pass.h"
#include "compiler/pass/widen.h"
#include "compiler/sched/assemble.h"

enum {
  kernels_per_unit_gpu = 4,
  kernels_per_unit_cpu = 8,
  reject_text = 1000,             /* bytes of a compiler's complaint that are kept */
  widen_elements_gpu = 16 * 1024, /* 64 KiB in f32: read and written within the noise of a launch */
};

/* Channels-last images are read in whole lines along the channels of a tap, row-major ones along
 * the positions: about even for the generic kernels, better for what has its channels last anyway.
 */
static const double layout_gain_gpu = 1;

/* State between the steps. */
typedef struct pipeline {
  const lw_compile_options *options;
  lw_compiled *out;
  lw_diag *diag;
  lw_region_context regions;
  lw_lowered *lowered;            /* per group */
  uint32_t *first_kernel;         /* per group */
  LW_VEC(uint32_t) launch_kernel; /* per launch: index into kernels */
  LW_VEC(const lw_kernel *) kernels;
  LW_VEC(lw_hash) hashes;
  LW_VEC(const char *) names;
  LW_VEC(lw_build_job) jobs;
  LW_VEC(lw_hash) rejected; /* products that did not build well: the next configuration is taken */
  bool apart;               /* a launch of several groups did not build well: no more of them */
  lw_kernel_fate *fates;    /* per kernel, in |out|'s arena */
} pipeline;

static bool is_gpu(const pipeline *p) { return p->options->profile->kind == LW_DEVICE_CUDA; }

static void dump(const pipeline *p, const char *step, const lw_text *text) {
  if (p->options->dump) p->options->dump(p->options->dump_user, step, lw__text_str(text));
}

static void dump_graph(const pipeline *p, const char *step) {
  if (!p->options->dump) return;
  lw_text text = {0};
  lw__graph_print(&p->out->graph, false, &text);
  dump(p, step, &text);
  lw__text_deinit(&text);
}

/* ---- passes -----------------------------------------------------------------------------------*/

static void use_channels_last(lw_graph *g, lw_value_id v) {
  static const uint8_t nhwc[4] = {0, 2, 3, 1};
  lw_value *value = lw__value(g, v);
  if (value->shape.rank == 4) memcpy(value->storage.order, nhwc, sizeof nhwc);
}

static lw_status step_graph(pipeline *p, const lw_graph *graph) {
  int64_t most = is_gpu(p) ? widen_elements_gpu : INT64_MAX;
  LW_TRY(p->options->skip_passes ? lw__graph_clone(graph, &p->out->graph)
                                 : lw__pass_widen(graph, most, is_gpu(p), p->diag, &p->out->graph));
  p->out->graph.diag = p->diag;
  for (uint32_t i = 0; i < p->options->state_count; i++) {
    LW_TRY(lw__state_apply(&p->out->graph, &p->options->states[i]));
  }
  dump_graph(p, "import");
  return LW_OK;
}

/* Whether packed elements lie the same in both orders: dims of extent 1 do not count. */
static bool same_order(const lw_shape *shape, const uint8_t *a, const uint8_t *b) {
  for (uint32_t i = 0, k = 0;; i++, k++) {
    while (i < shape->rank && shape->dim[a[i]] == 1) i++;
    while (k < shape->rank && shape->dim[b[k]] == 1) k++;
    if (i == shape->rank || k == shape->rank) return i == shape->rank && k == shape->rank;
    if (a[i] != b[k]) return false;
  }
}

/* Rows of an appended state lie behind each other: the growing dim is the outermost. New rows that
 * are something else, too, are copied as they lie. */
static lw_status store_state(pipeline *p, const lw_state *state) {
  lw_graph *g = &p->out->graph;
  lw_value *in = lw__value(g, g->inputs.data[state->input]);
  lw_value_id rows = g->outputs.data[state->output];
  lw_value *out = lw__value(g, rows);
  uint32_t uses = 0;
  uint8_t order[LW_MAX_RANK] = {0};
  bool echoed = false;
  for (uint32_t i = 0; i < g->outputs.count; i++) {
    uses += g->outputs.data[i] == rows;
    echoed |= g->outputs.data[i] == g->inputs.data[state->input];
  }
  lw_op op = lw__producer(g, rows)->op;
  lw__state_order(state, in->shape.rank, order);
  if (echoed && !same_order(&in->shape, in->storage.order, order)) {
    return lw__fail(p->diag, LW_STATUS_UNSUPPORTED, in->name,
                    "this state is an output as it is, too; leave out option state for it");
  }
  memcpy(in->storage.order, order, sizeof order);
  if (uses == 1 && op != LW_OP_INPUT && op != LW_OP_CONST) {
    memcpy(out->storage.order, order, sizeof order);
    return LW_OK;
  }
  if (same_order(&out->shape, out->storage.order, order)) return LW_OK;
  return lw__fail(p->diag, LW_STATUS_UNSUPPORTED, g->output_names.data[state->output],
                  "the rows that are appended to this state are %s, which lies in another order; "
                  "leave out option state for it",
                  uses > 1 ? "another output, too" : "an input or a constant");
}

static lw_status dump_pass(void *context, const char *pass, uint32_t round, const lw_graph *graph) {
  const pipeline *p = context;
  lw_text name = {0}, text = {0};
  (void)round;
  lw__text_add(&name, "passes.%s", pass);
  lw__graph_print(graph, false, &text);
  dump(p, lw__text_str(&name), &text);
  lw_status status = name.status != LW_OK ? name.status : text.status;
  lw__text_deinit(&name);
  lw__text_deinit(&text);
  return status;
}

static lw_status step_passes(pipeline *p) {
  lw_graph *g = &p->out->graph;
  lw_pass_options options;
  lw__pass_options_init(&options);
  if (is_gpu(p)) options.layout_gain = layout_gain_gpu;
  options.narrow_factors = is_gpu(p);
  options.after = p->options->dump ? dump_pass : NULL;
  options.context = p;
  if (!p->options->skip_passes) LW_TRY(lw__pass_run(g, &options, p->diag));
  for (uint32_t i = 0; i < g->inputs.count && p->options->channels_last_io; i++)
    use_channels_last(g, g->inputs.data[i]);
  for (uint32_t i = 0; i < g->outputs.count && p->options->channels_last_io; i++)
    if (lw__producer(g, g->outputs.data[i])->op != LW_OP_CONST)
      use_channels_last(g, g->outputs.data[i]);
  for (uint32_t i = 0; i < p->options->state_count; i++) {
    if (p->options->states[i].axis != LW_NONE) LW_TRY(store_state(p, &p->options->states[i]));
  }
  dump_graph(p, "passes");
  return lw__graph_verify(g, p->diag);
}

/* ---- fuse, lower ------------------------------------------------------------------------------*/

/* What the user named must exist, and what was to be fused must be. */
static lw_status check_ids(pipeline *p, const char *const *ids, uint32_t count, bool force) {
  for (uint32_t i = 0; i < count; i++) {
    const lw_decision *found = NULL;
    for (uint32_t d = 0; d < p->out->fusion.decisions.count; d++)
      if (!strcmp(p->out->fusion.decisions.data[d].id, ids[i]))
        found = &p->out->fusion.decisions.data[d];
    if (!found)
      return lw__fail(p->diag, LW_STATUS_USAGE, ids[i],
                      "there is no such fusion in this model; `lawson explain` lists the ids");
    if (force && !found->fused)
      return lw__fail(p->diag, LW_STATUS_USAGE, ids[i], "this pair cannot be fused: %s",
                      found->reason);
  }
  return LW_OK;
}

static lw_status step_fuse(pipeline *p, const lw_fuse_options *options, bool first) {
  LW_TRY(lw__fuse(&p->out->graph, p->options->profile, p->options->policy, options, p->diag,
                  &p->out->fusion));
  if (first) {
    LW_TRY(check_ids(p, options->force, options->force_count, true));
    LW_TRY(check_ids(p, options->forbid, options->forbid_count, false));
  }
  if (!p->options->dump) return LW_OK;
  lw_text text = {0};
  lw__fusion_print(&p->out->fusion, &p->out->graph, &text);
  dump(p, "fuse", &text);
  lw__text_deinit(&text);
  return LW_OK;
}

/* Equal kernels are one kernel. */
static lw_status intern_kernel(pipeline *p, const lw_kernel *kernel) {
  lw_hash hash;
  LW_TRY(lw__kernel_hash(kernel, &hash));
  for (uint32_t i = 0; i < p->hashes.count; i++)
    if (lw__hash_eq(p->hashes.data[i], hash)) return lw_vec_push(&p->launch_kernel, i);
  char name[48];
  const char *copy;
  lw__kernel_name(kernel, hash, name);
  LW_TRY(lw__arena_strndup(&p->out->arena, name, strlen(name), &copy));
  LW_TRY(lw_vec_push(&p->launch_kernel, p->kernels.count));
  LW_TRY(lw_vec_push(&p->kernels, kernel));
  LW_TRY(lw_vec_push(&p->names, copy));
  return lw_vec_push(&p->hashes, hash);
}

/* Products have a prologue of their own. */
static lw_status add_kernel(pipeline *p, lw_kernel *kernel) {
  bool can = is_gpu(p) && p->options->profile->sm_arch >= 90 && !kernel->product.present;
  kernel->early_start = p->options->early_start && can;
  return intern_kernel(p, kernel);
}

static lw_status step_lower(pipeline *p) {
  lw_lower_options options = {.target = is_gpu(p) ? LW_KTARGET_GPU : LW_KTARGET_CPU,
                              .profile = p->options->profile,
                              .policy = p->options->policy,
                              .rejected = p->rejected.data,
                              .rejected_count = p->rejected.count,
                              .sm90_always = p->options->sm90_always};
  lw_fusion *fusion = &p->out->fusion;
  LW_TRY(lw__region_context_init(&p->regions, &p->out->graph));
  LW_TRY(
      lw__arena_alloc(&p->out->arena, fusion->groups.count + 1u, sizeof *p->lowered, &p->lowered));
  LW_TRY(lw__arena_alloc(&p->out->arena, fusion->groups.count + 1u, sizeof *p->first_kernel,
                         &p->first_kernel));
  p->out->lowered = p->lowered;
  for (uint32_t i = 0; i < fusion->groups.count; i++) {
    const lw_group *group = &fusion->groups.data[i];
    LW_TRY(lw__lower_group(&p->regions, group->nodes.data, group->nodes.count, &options, p->diag,
                           &p->lowered[i]));
  }
  if (!p->options->fuse.off && !p->apart)
    LW_TRY(lw__join_side_by_side(&p->regions, &options, fusion, p->lowered, p->diag));
  for (uint32_t i = 0; i < fusion->groups.count; i++) {
    p->first_kernel[i] = p->launch_kernel.count;
    for (uint32_t l = 0; l < p->lowered[i].launches.count; l++)
      LW_TRY(add_kernel(p, &p->lowered[i].launches.data[l].kernel));
  }
  if (!p->options->dump) return LW_OK;
  lw_text text = {0};
  for (uint32_t i = 0; i < p->kernels.count; i++) {
    lw__text_add(&text, "%s\n", p->names.data[i]);
    lw__kernel_print(p->kernels.data[i], &text);
  }
  dump(p, "lower", &text);
  lw__text_deinit(&text);
  return LW_OK;
}

/* ---- emit, build ------------------------------------------------------------------------------*/

static lw_status emit_source(pipeline *p, uint32_t first, uint32_t count, const char **out) {
  lw_text text = {0};
  lw_status status =
      is_gpu(p) ? lw__emit_cuda(&p->kernels.data[first], &p->names.data[first], count, &text)
                : lw__emit_c(&p->kernels.data[first], &p->names.data[first], count, &text);
  if (status == LW_OK) status = text.status;
  if (status == LW_OK)
    status = lw__arena_strndup(&p->out->arena, lw__text_str(&text), text.len, out);
  lw__text_deinit(&text);
  return status;
}

static lw_status add_plan_kernel(pipeline *p, uint32_t i) {
  const lw_kernel *kernel = p->kernels.data[i];
  lw_plan_kernel k = {
      .name = p->names.data[i], .key = p->hashes.data[i], .block_threads = kernel->block_threads};
  size_t shared = lw__kernel_shared_bytes(kernel);
  k.early_start = kernel->early_start;
  /* Below, the emitter declares the arrays statically. */
  k.shared_bytes = shared > 48 * 1024 || kernel->product.present ? (uint32_t)shared : 0;
  LW_TRY(emit_source(p, i, 1, &k.source));
  return lw_vec_push(&p->out->plan.kernels, k);
}

/* How many kernels from |first| on share a unit. Products take long to compile and may be replaced:
 * each has its own. */
static uint32_t unit_size(const pipeline *p, uint32_t first, uint32_t most, bool *out_product) {
  uint32_t count = 0;
  *out_product = p->kernels.data[first]->product.present;
  if (*out_product) return 1;
  while (count < most && first + count < p->kernels.count &&
         !p->kernels.data[first + count]->product.present)
    count++;
  return count;
}

static lw_status step_emit(pipeline *p) {
  uint32_t per_unit = is_gpu(p) ? kernels_per_unit_gpu : kernels_per_unit_cpu;
  lw_plan *plan = &p->out->plan;
  lw__plan_init(plan, is_gpu(p) ? LW_PLAN_CUDA : LW_PLAN_CPU);
  plan->sm_arch = p->options->profile->sm_arch;
  plan->arch_specific = p->options->profile->arch_specific;
  for (uint32_t i = 0; i < p->kernels.count; i++) LW_TRY(add_plan_kernel(p, i));
  for (uint32_t i = 0; i < p->kernels.count;) {
    lw_build_job job = {.entries = &p->names.data[i]};
    job.entry_count = unit_size(p, i, per_unit, &job.replaceable);
    LW_TRY(emit_source(p, i, job.entry_count, &job.source));
    LW_TRY(lw_vec_push(&p->jobs, job));
    i += job.entry_count;
  }
  if (!p->options->dump) return LW_OK;
  /* One unit that a compiler takes as it is. */
  const char *all;
  lw_text text = {0};
  LW_TRY(emit_source(p, 0, p->kernels.count, &all));
  lw__text_add(&text, "%s", all);
  dump(p, "emit", &text);
  lw__text_deinit(&text);
  return LW_OK;
}

static lw_status build_all(pipeline *p, lw_build_job *jobs, uint32_t count, lw_diag *diag) {
  lw_build_options options = p->options->build;
  options.sm_arch = p->options->profile->sm_arch;
  options.arch_specific = p->options->profile->arch_specific;
  return is_gpu(p) ? lw__build_cuda(jobs, count, &options, p->options->cache, &p->out->arena, diag)
                   : lw__build_cpu(jobs, count, &options, p->options->cache, &p->out->arena, diag);
}

static bool only_rejected(const lw_build_job *jobs, uint32_t count) {
  for (uint32_t j = 0; j < count; j++)
    if (!jobs[j].image && !jobs[j].rejected) return false;
  return true;
}

static lw_status reject_kernel(pipeline *p, uint32_t kernel, const lw_build_job *job,
                               const lw_diag *diag) {
  const char *text = job->log;
  for (uint32_t i = 0; i < diag->messages.count; i++)
    if (!strcmp(diag->messages.data[i].where, job->entries[0])) text = diag->messages.data[i].text;
  size_t length = strlen(text);
  p->fates[kernel].trouble = LW_TROUBLE_BUILD;
  return lw__arena_strndup(&p->out->arena, text, length < reject_text ? length : reject_text,
                           &p->fates[kernel].text);
}

/* A rejected unit becomes one per kernel, so that it is known which of them is rejected. */
static lw_status build_apart(pipeline *p, lw_diag *diag) {
  uint32_t count = p->jobs.count;
  for (uint32_t j = 0, k = 0; j < count; j++) {
    lw_build_job unit = p->jobs.data[j];
    for (uint32_t e = 0; e < unit.entry_count; e++, k++) {
      lw_build_job job = {.entries = &unit.entries[e], .entry_count = 1};
      if (!unit.rejected) break;
      if (unit.entry_count == 1) {
        job = unit;
      } else {
        LW_TRY(emit_source(p, k, 1, &job.source));
        lw_status status = build_all(p, &job, 1, diag);
        if (status != LW_OK && !job.rejected) return status;
      }
      if (job.rejected) LW_TRY(reject_kernel(p, k, &job, diag));
      LW_TRY(lw_vec_push(&p->jobs, job));
    }
    if (unit.rejected) continue;
    k += unit.entry_count;
    LW_TRY(lw_vec_push(&p->jobs, unit));
  }
  p->jobs.count -= count; /* the new ones are in the order of the kernels, too */
  memmove(p->jobs.data, p->jobs.data + count, p->jobs.count * sizeof *p->jobs.data);
  return LW_OK;
}

static void give_images(pipeline *p) {
  for (uint32_t j = 0, k = 0; j < p->jobs.count; j++) {
    const lw_build_job *job = &p->jobs.data[j];
    *(job->from_cache ? &p->out->kernels_cached : &p->out->kernels_built) += job->entry_count;
    for (uint32_t e = 0; e < job->entry_count; e++, k++) {
      lw_plan_kernel *kernel = &p->out->plan.kernels.data[k];
      kernel->image = job->image;
      kernel->image_bytes = job->image_bytes;
      if (!job->image || !job->report) continue;
      kernel->registers = job->report[e].registers;
      kernel->spill_bytes = job->report[e].spill_bytes;
      if (kernel->spill_bytes > 0) p->fates[k].trouble = LW_TROUBLE_SPILLS;
    }
  }
}

/* Kernels that the compiler rejects are no error yet: their groups are taken apart. */
static lw_status step_build(pipeline *p) {
  lw_diag attempt = {0};
  LW_TRY(lw__arena_alloc(&p->out->arena, p->kernels.count + 1u, sizeof *p->fates, &p->fates));
  for (uint32_t k = 0; k < p->kernels.count; k++) p->fates[k].text = "";
  lw_status status = build_all(p, p->jobs.data, p->jobs.count, &attempt);
  if (status == LW_STATUS_DEVICE_FAILED && only_rejected(p->jobs.data, p->jobs.count))
    status = build_apart(p, &attempt);
  lw__diag_move(&attempt, status != LW_OK, p->diag);
  if (status == LW_OK) give_images(p);
  return status;
}

/* ---- trying the kernels -----------------------------------------------------------------------*/

static lw_status try_kernels(pipeline *p, bool *refused, lw_diag *diag) {
  lw_status status = p->options->try_kernels(p->options->try_user, &p->out->plan, refused, diag);
  bool any = false;
  for (uint32_t k = 0; k < p->kernels.count && status != LW_OK; k++) {
    if (!refused[k]) continue;
    const char *text = lw__diag_first_error(diag);
    any = true;
    p->fates[k].trouble = LW_TROUBLE_LOAD;
    LW_TRY(lw__arena_strndup(&p->out->arena, text, strlen(text), &p->fates[k].text));
  }
  return any ? LW_OK : status;
}

static lw_status step_try(pipeline *p) {
  bool *refused;
  if (!p->options->try_kernels) return LW_OK;
  for (uint32_t k = 0; k < p->kernels.count; k++)
    if (p->fates[k].trouble == LW_TROUBLE_BUILD) return LW_OK; /* others come first */
  LW_TRY(lw__arena_alloc(&p->out->arena, p->kernels.count + 1u, sizeof *refused, &refused));
  lw_diag attempt = {0};
  lw_status status = try_kernels(p, refused, &attempt);
  lw__diag_move(&attempt, status != LW_OK, p->diag);
  return status;
}

/* ---- schedule ---------------------------------------------------------------------------------*/

static lw_status step_schedule(pipeline *p) {
  lw_assemble_input in = {.graph = &p->out->graph,
                          .fusion = &p->out->fusion,
                          .lowered = p->lowered,
                          .first_kernel = p->first_kernel,
                          .launch_kernel = p->launch_kernel.data,
                          .sched = {p->options->profile, p->options->streams}};
  LW_TRY(lw__assemble_plan(&in, p->diag, &p->out->plan));
  if (!p->options->dump) return LW_OK;
  lw_text text = {0};
  lw__plan_print(&p->out->plan, &text);
  dump(p, "sched", &text);
  lw__text_deinit(&text);
  return LW_OK;
}

/* ---- a product that did not build well has others in its place --------------------------------*/

static lw_status reject_products(pipeline *p, bool *out_again) {
  *out_again = false;
  for (uint32_t j = 0, k = 0; j < p->jobs.count; k += p->jobs.data[j++].entry_count) {
    const lw_build_job *job = &p->jobs.data[j];
    bool serialized = job->report && job->report[0].serialized;
    if (!job->replaceable || (!serialized && p->fates[k].trouble == LW_TROUBLE_NONE)) continue;
    lw__note(
        p->diag, LW_SEVERITY_NOTE, p->names.data[k],
        "this kernel %s: the next configuration of the product is taken",
        serialized ? "has serialized matrix instructions" : lw__trouble_name(p->fates[k].trouble));
    LW_TRY(lw_vec_push(&p->rejected, p->hashes.data[k]));
    *out_again = true;
  }
  return LW_OK;
}

/* ---- again ------------------------------------------------------------------------------------*/

/* A kernel of several groups that is of no use: the groups get launches of their own again. */
static bool take_apart(pipeline *p) {
  for (uint32_t g = 0; g < p->out->fusion.groups.count && !p->apart; g++)
    if (p->lowered[g].joined != 0 &&
        p->fates[p->launch_kernel.data[p->first_kernel[g]]].trouble != LW_TROUBLE_NONE)
      return p->apart = true;
  return false;
}

static lw_status step_split(pipeline *p, lw_fuse_options *fuse, uint32_t round, bool *out_again) {
  const lw_split_input in = {.graph = &p->out->graph,
                             .fusion = &p->out->fusion,
                             .lowered = p->lowered,
                             .first_kernel = p->first_kernel,
                             .launch_kernel = p->launch_kernel.data,
                             .fates = p->fates,
                             .names = p->names.data,
                             .round = round,
                             .arena = &p->out->arena,
                             .diag = p->diag};
  return lw__split_groups(&in, fuse, &p->out->splits, out_again);
}

static void free_lists(pipeline *p) {
  lw__region_context_deinit(&p->regions);
  lw_vec_free(&p->launch_kernel);
  lw_vec_free(&p->kernels);
  lw_vec_free(&p->hashes);
  lw_vec_free(&p->names);
  lw_vec_free(&p->jobs);
}

static void forget_kernels(pipeline *p) {
  for (uint32_t i = 0; i < p->out->fusion.groups.count && p->lowered; i++)
    lw__lowered_deinit(&p->lowered[i]);
  p->lowered = p->out->lowered = NULL;
  free_lists(p);
}

/* fuse .. build, again while there are kernels in trouble whose groups can be taken apart. */
static lw_status fuse_and_build(pipeline *p, bool build_images) {
  lw_fuse_options fuse = p->options->fuse;
  bool again = false, first = true;
  for (uint32_t round = 0;; first = false) {
    LW_TRY(step_fuse(p, &fuse, first));
    LW_TRY(step_lower(p));
    LW_TRY(step_emit(p));
    if (!build_images) return LW_OK;
    LW_TRY(step_build(p));
    LW_TRY(step_try(p));
    LW_TRY(reject_products(p, &again)); /* each kernel at most once: it ends */
    if (!again) again = take_apart(p);
    if (!again) LW_TRY(step_split(p, &fuse, round++, &again));
    if (!again) return LW_OK;
    forget_kernels(p);
    lw__fusion_deinit(&p->out->fusion);
    lw__plan_deinit(&p->out->plan);
  }
}

static lw_status keep_kernels(pipeline *p) {
  for (uint32_t i = 0; i < p->kernels.count; i++)
    LW_TRY(lw_vec_push(&p->out->kernels, p->kernels.data[i]));
  return LW_OK;
}

lw_status lw__compile(const lw_graph *graph, const lw_compile_options *options, bool build_images,
                      lw_diag *diag, lw_compiled *out) {
  memset(out, 0, sizeof *out);
  out->profile = options->profile;
  out->fuse_off = options->fuse.off;
  pipeline p = {.options = options, .out = out, .diag = diag};
  lw_status status = step_graph(&p, graph);
  if (status == LW_OK) status = step_passes(&p);
  if (status == LW_OK) status = fuse_and_build(&p, build_images);
  if (status == LW_OK) status = step_schedule(&p);
  if (status == LW_OK) status = keep_kernels(&p);
  free_lists(&p); /* the lowered groups stay with |out| */
  lw_vec_free(&p.rejected);
  return status;
}

void lw__compiled_deinit(lw_compiled *compiled) {
  for (uint32_t i = 0; i < compiled->fusion.groups.count && compiled->lowered; i++)
    lw__lowered_deinit(&compiled->lowered[i]);
  lw_vec_free(&compiled->kernels);
  lw_vec_free(&compiled->splits);
  lw__fusion_deinit(&compiled->fusion);
  lw__plan_deinit(&compiled->plan);
  lw__graph_deinit(&compiled->graph);
  lw__arena_deinit(&compiled->arena);
  memset(compiled, 0, sizeof *compiled);
}

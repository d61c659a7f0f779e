/* schedule.c: how many lanes, in which order, and which steps are critical. */
#include "compiler/sched/schedule.h"

#include <math.h>
#include <stdlib.h>
#include <string.h>

/* More lanes must save at least this part of a run: predictions are no better, and every lane costs
 * the host something. */
#define LANES_MIN_GAIN 0.05
/* Of several numbers of lanes the smallest that is this near to the best. */
#define LANES_NEAR 1.02
/* A step is critical when nothing would be later if it ended this part of the run later. */
#define CRITICAL_SLACK 0.01
/* Another order must save at least this part of the memory. */
#define ORDER_MIN_GAIN 0.05
/* The search for an order takes time with the square of the steps that could come next. */
#define ORDER_MAX_STEPS 4096u
/* See FULL_SHARE in device.c: with this part of the threads that a device holds its units are busy.
 */
#define BUSY_THREADS 0.25
#define MOVE_BYTES_PER_THREAD 16.0

/* ---- what a step asks of the device -----------------------------------------------------------*/

static double device_threads(const lw_device_profile *profile) {
  return fmax(BUSY_THREADS * profile->sm_count * profile->max_threads_per_sm, profile->sm_count);
}

static double share_of(double part) { return part > 1 ? 1 : part > 1e-3 ? part : 1e-3; }

lw_sched_work lw__sched_launch(const lw_device_profile *profile, const lw_plan_kernel *kernel,
                               uint32_t shared_bytes, int64_t grid, const lw_work *work,
                               double predicted_us) {
  double busy = fmax(predicted_us - profile->launch_us, 0);
  if (profile->kind == LW_DEVICE_CPU) return (lw_sched_work){busy, 1};
  uint32_t resident =
      lw__occupancy_blocks(profile, kernel->block_threads, kernel->registers, shared_bytes);
  double slots = (double)grid / ((double)profile->sm_count * (resident == 0 ? 1 : resident));
  double threads = (double)grid * kernel->block_threads / device_threads(profile);
  double share = share_of(fmax(slots, threads));
  double assumed =
      work->parallel_threads > 0 ? work->parallel_threads / device_threads(profile) : 1;
  return (lw_sched_work){busy * fmax(share_of(assumed) / share, 1), share};
}

lw_sched_work lw__sched_move(const lw_device_profile *profile, double bytes) {
  double busy = profile->dram_gbps > 0 ? 2 * bytes / profile->dram_gbps * 1e-3 : 0;
  if (profile->kind == LW_DEVICE_CPU) return (lw_sched_work){busy, 1};
  double share = share_of(bytes / MOVE_BYTES_PER_THREAD / device_threads(profile));
  return (lw_sched_work){busy / share, share};
}

/* ---- one lane: an order that needs little memory ----------------------------------------------*/

typedef struct orderer {
  const lw_plan *plan;
  const lw_sched_dag *dag;
  uint32_t *uses;    /* per buffer: accesses that are still to come */
  bool *made;        /* per buffer: some step that has come touches it */
  uint32_t *missing; /* per step */
  LW_VEC(uint32_t) ready;
} orderer;

static const lw_plan_buffer *arena_buffer(const orderer *o, const lw_plan_step *step, uint32_t k) {
  const lw_plan_arg *arg = &step->args[k];
  if (arg->kind != LW_ARG_BUFFER) return NULL;
  const lw_plan_buffer *buffer = &o->plan->buffers.data[arg->buffer];
  return buffer->kind == LW_BUFFER_ARENA ? buffer : NULL;
}

/* How many bytes more are live after the step than before it. */
static double order_growth(const orderer *o, const lw_plan_step *step) {
  double growth = 0;
  for (uint32_t k = 0; k < step->arg_count; k++) {
    const lw_plan_buffer *buffer = arena_buffer(o, step, k);
    if (buffer == NULL) continue;
    uint32_t id = step->args[k].buffer, uses = 0;
    bool first = true;
    for (uint32_t other = 0; other < step->arg_count; other++) {
      if (step->args[other].kind != LW_ARG_BUFFER || step->args[other].buffer != id) continue;
      uses++;
      if (other < k) first = false;
    }
    if (!first) continue;
    if (!o->made[id]) growth += (double)buffer->bytes;
    if (o->uses[id] == uses) growth -= (double)buffer->bytes;
  }
  return growth;
}

static void order_take(orderer *o, uint32_t id) {
  const lw_plan_step *step = &o->plan->steps.data[id];
  for (uint32_t k = 0; k < step->arg_count; k++) {
    if (arena_buffer(o, step, k) == NULL) continue;
    o->uses[step->args[k].buffer]--;
    o->made[step->args[k].buffer] = true;
  }
}

/* The ready step that adds least; of equal ones the first in the order there was. */
static uint32_t order_best(const orderer *o) {
  uint32_t best = 0;
  double best_growth = INFINITY;
  for (uint32_t i = 0; i < o->ready.count; i++) {
    uint32_t step = o->ready.data[i];
    double growth = order_growth(o, &o->plan->steps.data[step]);
    if (growth > best_growth) continue;
    if (growth == best_growth && step > o->ready.data[best]) continue;
    best = i;
    best_growth = growth;
  }
  return best;
}

static lw_status order_fill(orderer *o, uint32_t *sequence) {
  const lw_sched_dag *dag = o->dag;
  for (uint32_t i = 0; i < dag->count; i++) {
    o->missing[i] = dag->steps[i].dep_count;
    if (o->missing[i] == 0) LW_TRY(lw_vec_push(&o->ready, i));
    for (uint32_t k = 0; k < dag->steps[i].arg_count; k++)
      if (arena_buffer(o, &dag->steps[i], k) != NULL) o->uses[dag->steps[i].args[k].buffer]++;
  }
  for (uint32_t at = 0; at < dag->count; at++) {
    if (o->ready.count == 0) return LW_STATUS_INTERNAL;
    uint32_t best = order_best(o), step = o->ready.data[best];
    o->ready.data[best] = o->ready.data[--o->ready.count];
    sequence[at] = step;
    order_take(o, step);
    for (uint32_t s = dag->first[step]; s < dag->first[step + 1]; s++)
      if (--o->missing[dag->next[s]] == 0) LW_TRY(lw_vec_push(&o->ready, dag->next[s]));
  }
  return LW_OK;
}

static lw_status order_for_memory(const lw_plan *plan, const lw_sched_dag *dag, lw_arena *arena,
                                  uint32_t *sequence) {
  orderer o = {.plan = plan, .dag = dag};
  LW_TRY(lw__arena_alloc(arena, plan->buffers.count + 1u, sizeof *o.uses, &o.uses));
  LW_TRY(lw__arena_alloc(arena, plan->buffers.count + 1u, sizeof *o.made, &o.made));
  LW_TRY(lw__arena_alloc(arena, dag->count + 1u, sizeof *o.missing, &o.missing));
  lw_status status = order_fill(&o, sequence);
  lw_vec_free(&o.ready);
  return status;
}

/* ---- putting a schedule into the plan ---------------------------------------------------------*/

static int compare_ids(const void *a, const void *b) {
  uint32_t x = *(const uint32_t *)a, y = *(const uint32_t *)b;
  return (x > y) - (x < y);
}

/* Step number i becomes what was step |sequence[i]|. */
static lw_status permute(lw_plan *plan, const uint32_t *sequence, lw_arena *arena) {
  uint32_t count = plan->steps.count, *place;
  lw_plan_step *copy;
  if (count == 0) return LW_OK;
  LW_TRY(lw__arena_alloc(arena, count, sizeof *place, &place));
  LW_TRY(lw__arena_dup(arena, plan->steps.data, count * sizeof *copy, &copy));
  for (uint32_t i = 0; i < count; i++) place[sequence[i]] = i;
  for (uint32_t i = 0; i < count; i++) {
    lw_plan_step *step = &plan->steps.data[i];
    *step = copy[sequence[i]];
    for (uint32_t d = 0; d < step->dep_count; d++) step->deps[d] = place[step->deps[d]];
    if (step->dep_count != 0) qsort(step->deps, step->dep_count, sizeof *step->deps, compare_ids);
  }
  return LW_OK;
}

/* Keeps |sequence| when memory is smaller for it. */
static lw_status reorder(lw_plan *plan, const lw_sched_dag *dag, lw_arena *arena) {
  uint32_t *sequence, *back;
  if (dag->count < 3 || dag->count > ORDER_MAX_STEPS) return LW_OK;
  LW_TRY(lw__arena_alloc(arena, dag->count, sizeof *sequence, &sequence));
  LW_TRY(lw__arena_alloc(arena, dag->count, sizeof *back, &back));
  LW_TRY(order_for_memory(plan, dag, arena, sequence));
  double had = (double)lw__plan_live_bytes(plan);
  LW_TRY(permute(plan, sequence, arena));
  if ((double)lw__plan_live_bytes(plan) <= (1 - ORDER_MIN_GAIN) * had) return LW_OK;
  for (uint32_t i = 0; i < dag->count; i++) back[sequence[i]] = i;
  return permute(plan, back, arena);
}

/* Marks the steps that end so late that the run would end later if they did. Of a lane, and of what
 * waits for a step, the next one bounds it. */
static lw_status mark_critical(lw_plan *plan, const lw_sched_dag *dag, const lw_sched_list *list,
                               lw_arena *arena) {
  uint32_t next_of_lane[LW_PLAN_MAX_LANES];
  double *latest; /* when the step may begin at the latest */
  LW_TRY(lw__arena_alloc(arena, dag->count + 1u, sizeof *latest, &latest));
  for (uint32_t lane = 0; lane < LW_PLAN_MAX_LANES; lane++) next_of_lane[lane] = LW_NONE;
  for (uint32_t at = dag->count; at-- > 0;) {
    uint32_t step = list->sequence[at];
    double end = list->us;
    for (uint32_t s = dag->first[step]; s < dag->first[step + 1]; s++)
      end = fmin(end, latest[dag->next[s]]);
    uint32_t *next = &next_of_lane[list->lane[step]];
    if (list->lane_count != 0 && *next != LW_NONE) end = fmin(end, latest[*next]);
    *next = step;
    latest[step] = end - (list->end[step] - list->begin[step]);
    plan->steps.data[step].critical = end - list->end[step] <= CRITICAL_SLACK * list->us;
  }
  return LW_OK;
}

/* ---- how many lanes ---------------------------------------------------------------------------*/

static lw_status note(lw_plan *plan, const char *fmt, ...) LW_PRINTF(2, 3);
static lw_status note(lw_plan *plan, const char *fmt, ...) {
  lw_text text = {0};
  va_list args;
  va_start(args, fmt);
  lw__text_vadd(&text, fmt, args);
  va_end(args);
  lw_status status = text.status;
  if (status == LW_OK)
    status = lw__arena_strndup(&plan->arena, lw__text_str(&text), text.len, &plan->lane_note);
  lw__text_deinit(&text);
  return status;
}

static bool is_chain(const lw_sched_dag *dag) {
  for (uint32_t i = 1; i < dag->count; i++)
    if (dag->steps[i].dep_count != 1 || dag->steps[i].deps[0] != i - 1) return false;
  return true;
}

/* The better of the two ways to fill |lanes| lanes. */
static lw_status best_list(const lw_sched_dag *dag, uint32_t lanes, lw_arena *arena,
                           lw_sched_list *out) {
  lw_sched_list eager;
  LW_TRY(lw__sched_list(dag, lanes, false, arena, out));
  LW_TRY(lw__sched_list(dag, lanes, true, arena, &eager));
  if (eager.us < 0.999 * out->us) *out = eager;
  return LW_OK;
}

/* The schedule with the fewest lanes that is about as fast as any. */
static lw_status choose_list(const lw_sched_dag *dag, lw_arena *arena, lw_sched_list *out) {
  lw_sched_list lists[LW_PLAN_MAX_LANES + 1];
  double best = INFINITY;
  for (uint32_t lanes = 2; lanes <= LW_PLAN_MAX_LANES; lanes++) {
    LW_TRY(best_list(dag, lanes, arena, &lists[lanes]));
    best = fmin(best, lists[lanes].us);
  }
  for (uint32_t lanes = LW_PLAN_MAX_LANES; lanes >= 2; lanes--)
    if (lists[lanes].us <= LANES_NEAR * best) *out = lists[lanes];
  return LW_OK;
}

static lw_status use_one_lane(lw_plan *plan, const lw_sched_dag *dag, lw_arena *arena) {
  plan->lane_count = 1;
  plan->predicted_us = plan->one_lane_us;
  return reorder(plan, dag, arena);
}

static lw_status use_lanes(lw_plan *plan, const lw_sched_dag *dag, const lw_sched_list *list,
                           lw_arena *arena) {
  plan->lane_count = list->lane_count;
  plan->predicted_us = list->us;
  for (uint32_t i = 0; i < dag->count; i++) plan->steps.data[i].lane = list->lane[i];
  LW_TRY(mark_critical(plan, dag, list, arena));
  return permute(plan, list->sequence, arena);
}

static lw_status schedule_asked(lw_plan *plan, const lw_sched_dag *dag, uint32_t lanes,
                                lw_arena *arena) {
  lw_sched_list list;
  if (lanes == 1 || dag->count < 2) {
    LW_TRY(note(plan, lanes == 1 ? "as asked for" : "there is no second step"));
    return use_one_lane(plan, dag, arena);
  }
  LW_TRY(best_list(dag, lanes, arena, &list));
  if (list.lane_count < lanes)
    LW_TRY(note(plan, "%u were asked for, more have nothing to do", lanes));
  else
    LW_TRY(note(plan, "as asked for"));
  return use_lanes(plan, dag, &list, arena);
}

static lw_status schedule_automatic(lw_plan *plan, const lw_sched_dag *dag, bool cpu,
                                    lw_arena *arena) {
  lw_sched_list list;
  if (cpu) {
    LW_TRY(note(plan, "a CPU runs one step at a time, on all its threads"));
    return use_one_lane(plan, dag, arena);
  }
  if (is_chain(dag)) {
    LW_TRY(note(plan,
                dag->count < 2 ? "there is no second step" : "every step needs the one before it"));
    return use_one_lane(plan, dag, arena);
  }
  LW_TRY(choose_list(dag, arena, &list));
  double saved = 1 - list.us / plan->one_lane_us;
  if (list.lane_count > 1 && saved >= LANES_MIN_GAIN) {
    LW_TRY(note(plan, "they save %.0f %% of the %.1f us predicted for one lane", saved * 100,
                plan->one_lane_us));
    return use_lanes(plan, dag, &list, arena);
  }
  LW_TRY(note(plan, "%u lanes would save %.1f %% of the %.1f us predicted for one: not worth it",
              list.lane_count, fmax(saved, 0) * 100, plan->one_lane_us));
  return use_one_lane(plan, dag, arena);
}

static lw_status schedule_free(lw_plan *plan, const lw_sched_dag *dag, lw_arena *arena) {
  lw_sched_list list;
  LW_TRY(lw__sched_free(dag, arena, &list));
  plan->lane_count = 0;
  plan->predicted_us = list.us;
  LW_TRY(note(plan, "as asked for: steps are ordered by their dependences alone"));
  return mark_critical(plan, dag, &list, arena);
}

static lw_status schedule(lw_plan *plan, const lw_sched_work *work, const lw_sched_options *options,
                          lw_arena *arena) {
  lw_sched_dag dag;
  LW_TRY(lw__sched_dag_init(plan, work, options->profile, arena, &dag));
  plan->one_lane_us = 0;
  for (uint32_t i = 0; i < dag.count; i++) {
    plan->steps.data[i].lane = 0;
    plan->steps.data[i].critical = false;
    plan->one_lane_us += dag.launch_us + work[i].busy_us;
  }
  if (options->streams == LW_SCHED_DAG) {
    LW_TRY(schedule_free(plan, &dag, arena));
  } else if (options->streams != 0) {
    LW_TRY(schedule_asked(plan, &dag, options->streams, arena));
  } else {
    bool cpu = options->profile->kind == LW_DEVICE_CPU;
    LW_TRY(schedule_automatic(plan, &dag, cpu, arena));
  }
  return lw__plan_wait(plan);
}

lw_status lw__schedule(lw_plan *plan, const lw_sched_work *work, const lw_sched_options *options) {
  lw_arena arena = {0};
  lw_status status = schedule(plan, work, options, &arena);
  lw__arena_deinit(&arena);
  return status;
}

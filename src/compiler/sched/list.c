/* list.c: the list schedule over lanes and shares of the device. */
#include <math.h>
#include <stdlib.h>
#include <string.h>

#include "compiler/sched/schedule.h"

/* ---- the graph --------------------------------------------------------------------------------*/

static lw_status dag_successors(lw_sched_dag *dag, lw_arena *arena) {
  uint32_t *fill;
  size_t edges = 0;
  for (uint32_t i = 0; i < dag->count; i++) edges += dag->steps[i].dep_count;
  if (edges >= LW_NONE) return LW_STATUS_OUT_OF_MEMORY;
  LW_TRY(lw__arena_alloc(arena, dag->count + 2u, sizeof *dag->first, &dag->first));
  LW_TRY(lw__arena_alloc(arena, dag->count + 1u, sizeof *fill, &fill));
  LW_TRY(lw__arena_alloc(arena, edges, sizeof *dag->next, &dag->next));
  for (uint32_t i = 0; i < dag->count; i++)
    for (uint32_t d = 0; d < dag->steps[i].dep_count; d++) dag->first[dag->steps[i].deps[d] + 1]++;
  for (uint32_t i = 0; i < dag->count; i++) {
    dag->first[i + 1] += dag->first[i];
    fill[i] = dag->first[i];
  }
  for (uint32_t i = 0; i < dag->count; i++)
    for (uint32_t d = 0; d < dag->steps[i].dep_count; d++)
      dag->next[fill[dag->steps[i].deps[d]]++] = i;
  return LW_OK;
}

static void dag_ranks(lw_sched_dag *dag) {
  for (uint32_t i = dag->count; i-- > 0;) {
    double behind = 0;
    for (uint32_t s = dag->first[i]; s < dag->first[i + 1]; s++)
      behind = fmax(behind, dag->rank[dag->next[s]]);
    dag->rank[i] = behind + dag->launch_us + dag->work[i].busy_us;
  }
}

typedef struct ranked {
  double rank;
  uint32_t step;
} ranked;

static bool ranked_before(ranked a, ranked b) {
  return a.rank != b.rank ? a.rank > b.rank : a.step < b.step;
}

static int ranked_compare(const void *x, const void *y) {
  const ranked *a = x, *b = y;
  return ranked_before(*a, *b) ? -1 : ranked_before(*b, *a);
}

/* The step with the most behind it among those after |step| that are in no path yet. */
static uint32_t dag_follow(const lw_sched_dag *dag, uint32_t step) {
  uint32_t best = LW_NONE;
  for (uint32_t s = dag->first[step]; s < dag->first[step + 1]; s++) {
    uint32_t next = dag->next[s];
    if (dag->chain[next] != LW_NONE) continue;
    if (best == LW_NONE || dag->rank[next] > dag->rank[best]) best = next;
  }
  return best;
}

/* Paths, the longest first: the critical path is path 0. */
static lw_status dag_chains(lw_sched_dag *dag, lw_arena *arena) {
  ranked *order;
  LW_TRY(lw__arena_alloc(arena, dag->count + 1u, sizeof *order, &order));
  for (uint32_t i = 0; i < dag->count; i++) {
    order[i] = (ranked){dag->rank[i], i};
    dag->chain[i] = LW_NONE;
  }
  qsort(order, dag->count, sizeof *order, ranked_compare);
  for (uint32_t i = 0; i < dag->count; i++) {
    uint32_t step = order[i].step;
    if (dag->chain[step] != LW_NONE) continue;
    for (; step != LW_NONE; step = dag_follow(dag, step)) dag->chain[step] = dag->chain_count;
    dag->chain_count++;
  }
  return LW_OK;
}

lw_status lw__sched_dag_init(const lw_plan *plan, const lw_sched_work *work,
                             const lw_device_profile *profile, lw_arena *arena, lw_sched_dag *out) {
  *out = (lw_sched_dag){.count = plan->steps.count,
                        .steps = plan->steps.data,
                        .work = work,
                        .launch_us = profile->launch_us,
                        .wait_us = profile->launch_us};
  LW_TRY(dag_successors(out, arena));
  LW_TRY(lw__arena_alloc(arena, out->count + 1u, sizeof *out->rank, &out->rank));
  LW_TRY(lw__arena_alloc(arena, out->count + 1u, sizeof *out->chain, &out->chain));
  dag_ranks(out);
  return dag_chains(out, arena);
}

/* ---- steps that could begin: the one with the most behind it on top ---------------------------*/

typedef LW_VEC(ranked) ready_heap;

static lw_status heap_push(ready_heap *heap, ranked entry) {
  LW_TRY(lw_vec_push(heap, entry));
  uint32_t at = heap->count - 1;
  for (; at > 0 && ranked_before(entry, heap->data[(at - 1) / 2]); at = (at - 1) / 2)
    heap->data[at] = heap->data[(at - 1) / 2];
  heap->data[at] = entry;
  return LW_OK;
}

static uint32_t heap_pop(ready_heap *heap) {
  uint32_t top = heap->data[0].step, at = 0;
  ranked last = heap->data[--heap->count];
  for (;;) {
    uint32_t child = 2 * at + 1;
    if (child >= heap->count) break;
    if (child + 1 < heap->count && ranked_before(heap->data[child + 1], heap->data[child])) child++;
    if (!ranked_before(heap->data[child], last)) break;
    heap->data[at] = heap->data[child];
    at = child;
  }
  if (heap->count != 0) heap->data[at] = last;
  return top;
}

/* ---- running the lanes ------------------------------------------------------------------------*/

typedef struct lister {
  const lw_sched_dag *dag;
  lw_sched_list *out;
  uint32_t lanes;
  bool eager;
  uint32_t *missing; /* per step: what it needs and has not ended */
  uint32_t *home;    /* per path: the lane that has begun it, or LW_NONE */
  ready_heap fresh;  /* of paths that no lane has begun */
  ready_heap own[LW_PLAN_MAX_LANES];
  uint32_t running[LW_PLAN_MAX_LANES]; /* the lane's step, or LW_NONE */
  uint32_t before[LW_PLAN_MAX_LANES];  /* the lane's last one */
  double launch_left[LW_PLAN_MAX_LANES], work_left[LW_PLAN_MAX_LANES];
  double now;
  uint32_t begun;
} lister;

static lw_status lister_ready(lister *l, uint32_t step) {
  uint32_t home = l->home[l->dag->chain[step]];
  ranked entry = {l->dag->rank[step], step};
  return heap_push(home == LW_NONE ? &l->fresh : &l->own[home], entry);
}

static bool lister_depends(const lister *l, uint32_t step, uint32_t on) {
  const lw_plan_step *s = &l->dag->steps[step];
  for (uint32_t d = 0; d < s->dep_count; d++)
    if (s->deps[d] == on) return true;
  return false;
}

static bool lister_waits(const lister *l, uint32_t step, uint32_t lane) {
  const lw_plan_step *s = &l->dag->steps[step];
  for (uint32_t d = 0; d < s->dep_count; d++)
    if (l->out->lane[s->deps[d]] != lane) return true;
  return false;
}

static void lister_begin(lister *l, uint32_t step, uint32_t lane) {
  l->home[l->dag->chain[step]] = lane;
  l->running[lane] = step;
  l->launch_left[lane] = l->dag->launch_us + (lister_waits(l, step, lane) ? l->dag->wait_us : 0);
  l->work_left[lane] = l->dag->work[step].busy_us;
  l->out->lane[step] = lane;
  l->out->begin[step] = l->now;
  l->out->sequence[l->begun++] = step;
}

/* The idle lane for a step of a new path: one that has just done what the step needs, else the
 * first.
 */
static uint32_t lister_lane_for(const lister *l, uint32_t step) {
  uint32_t found = LW_NONE;
  for (uint32_t lane = 0; lane < l->lanes; lane++) {
    if (l->running[lane] != LW_NONE) continue;
    if (l->before[lane] != LW_NONE && lister_depends(l, step, l->before[lane])) return lane;
    if (found == LW_NONE) found = lane;
  }
  return found;
}

/* The idle lane whose own step has the most behind it, or LW_NONE. */
static uint32_t lister_own(const lister *l) {
  uint32_t best = LW_NONE;
  for (uint32_t lane = 0; lane < l->lanes; lane++) {
    if (l->running[lane] != LW_NONE || l->own[lane].count == 0) continue;
    if (best == LW_NONE || ranked_before(l->own[lane].data[0], l->own[best].data[0])) best = lane;
  }
  return best;
}

/* Gives idle lanes something to do, as long as there is any. */
static void lister_dispatch(lister *l) {
  for (;;) {
    uint32_t own = lister_own(l);
    uint32_t fresh = LW_NONE;
    if (l->fresh.count != 0) fresh = lister_lane_for(l, l->fresh.data[0].step);
    if (own == LW_NONE && fresh == LW_NONE) return;
    bool first = fresh != LW_NONE;
    if (own != LW_NONE && fresh != LW_NONE)
      first = l->eager && ranked_before(l->fresh.data[0], l->own[own].data[0]);
    if (first)
      lister_begin(l, heap_pop(&l->fresh), fresh);
    else
      lister_begin(l, heap_pop(&l->own[own]), own);
  }
}

/* How fast steps work: together they cannot have more than the device. */
static double lister_rate(const lister *l) {
  double wanted = 0;
  for (uint32_t lane = 0; lane < l->lanes; lane++)
    if (l->running[lane] != LW_NONE && l->launch_left[lane] <= 0)
      wanted += l->dag->work[l->running[lane]].share;
  return wanted > 1 ? 1 / wanted : 1;
}

static lw_status lister_end(lister *l, uint32_t lane) {
  uint32_t step = l->running[lane];
  l->out->end[step] = l->now;
  l->running[lane] = LW_NONE;
  l->before[lane] = step;
  for (uint32_t s = l->dag->first[step]; s < l->dag->first[step + 1]; s++)
    if (--l->missing[l->dag->next[s]] == 0) LW_TRY(lister_ready(l, l->dag->next[s]));
  return LW_OK;
}

/* On to the next moment at which a launch is through or a step ends. */
static lw_status lister_advance(lister *l) {
  double rate = lister_rate(l), step_us = INFINITY;
  for (uint32_t lane = 0; lane < l->lanes; lane++) {
    if (l->running[lane] == LW_NONE) continue;
    bool launching = l->launch_left[lane] > 0;
    step_us = fmin(step_us, launching ? l->launch_left[lane] : l->work_left[lane] / rate);
  }
  if (step_us == INFINITY) return LW_STATUS_INTERNAL; /* a cycle: nothing runs, nothing can begin */
  l->now += step_us;
  for (uint32_t lane = 0; lane < l->lanes; lane++) {
    if (l->running[lane] == LW_NONE) continue;
    double *left = l->launch_left[lane] > 0 ? &l->launch_left[lane] : &l->work_left[lane];
    bool working = left == &l->work_left[lane];
    *left -= working ? step_us * rate : step_us;
    if (*left > 1e-9) continue;
    *left = 0;
    if (l->launch_left[lane] <= 0 && l->work_left[lane] <= 0) LW_TRY(lister_end(l, lane));
  }
  return LW_OK;
}

static lw_status list_alloc(const lw_sched_dag *dag, lw_arena *arena, lw_sched_list *out) {
  *out = (lw_sched_list){0};
  LW_TRY(lw__arena_alloc(arena, dag->count + 1u, sizeof *out->sequence, &out->sequence));
  LW_TRY(lw__arena_alloc(arena, dag->count + 1u, sizeof *out->lane, &out->lane));
  LW_TRY(lw__arena_alloc(arena, dag->count + 1u, sizeof *out->begin, &out->begin));
  return lw__arena_alloc(arena, dag->count + 1u, sizeof *out->end, &out->end);
}

static lw_status lister_run(lister *l, lw_arena *arena) {
  const lw_sched_dag *dag = l->dag;
  LW_TRY(lw__arena_alloc(arena, dag->count + 1u, sizeof *l->missing, &l->missing));
  LW_TRY(lw__arena_alloc(arena, dag->chain_count + 1u, sizeof *l->home, &l->home));
  for (uint32_t c = 0; c < dag->chain_count; c++) l->home[c] = LW_NONE;
  for (uint32_t lane = 0; lane < LW_PLAN_MAX_LANES; lane++)
    l->running[lane] = l->before[lane] = LW_NONE;
  for (uint32_t i = 0; i < dag->count; i++) {
    l->missing[i] = dag->steps[i].dep_count;
    if (l->missing[i] == 0) LW_TRY(lister_ready(l, i));
  }
  for (;;) {
    lister_dispatch(l);
    bool idle = true;
    for (uint32_t lane = 0; lane < l->lanes; lane++) idle &= l->running[lane] == LW_NONE;
    if (idle) break;
    LW_TRY(lister_advance(l));
  }
  if (l->begun != dag->count) return LW_STATUS_INTERNAL;
  l->out->us = l->now;
  for (uint32_t i = 0; i < dag->count; i++)
    if (l->out->lane[i] + 1 > l->out->lane_count) l->out->lane_count = l->out->lane[i] + 1;
  return LW_OK;
}

lw_status lw__sched_list(const lw_sched_dag *dag, uint32_t lanes, bool eager, lw_arena *arena,
                         lw_sched_list *out) {
  LW_TRY(list_alloc(dag, arena, out));
  lister l = {.dag = dag, .out = out, .lanes = lanes, .eager = eager};
  lw_status status = lister_run(&l, arena);
  lw_vec_free(&l.fresh);
  for (uint32_t lane = 0; lane < LW_PLAN_MAX_LANES; lane++) lw_vec_free(&l.own[lane]);
  return status;
}

lw_status lw__sched_free(const lw_sched_dag *dag, lw_arena *arena, lw_sched_list *out) {
  LW_TRY(list_alloc(dag, arena, out));
  for (uint32_t i = 0; i < dag->count; i++) {
    const lw_plan_step *step = &dag->steps[i];
    for (uint32_t d = 0; d < step->dep_count; d++)
      out->begin[i] = fmax(out->begin[i], out->end[step->deps[d]]);
    out->end[i] = out->begin[i] + dag->launch_us + dag->work[i].busy_us;
    out->us = fmax(out->us, out->end[i]);
    out->sequence[i] = i;
  }
  return LW_OK;
}

/* lanes.c: the fewest waits between lanes that keep every dependence. */
#include "plan/plan.h"

/* How far each lane has come when a step begins, in positions from 1 on: the step happens after
 * exactly those. */
typedef struct lane_clock {
  uint32_t reached[LW_PLAN_MAX_LANES];
} lane_clock;

typedef struct lane_waiter {
  lw_plan *plan;
  lw_arena scratch;
  lane_clock *clock;  /* per step, itself included */
  uint32_t *position; /* per step, in its lane */
  uint32_t length[LW_PLAN_MAX_LANES];
  uint32_t last[LW_PLAN_MAX_LANES]; /* the latest step of each lane so far, or LW_NONE */
} lane_waiter;

static bool lane_reached(const lane_waiter *w, const lane_clock *clock, uint32_t step) {
  return clock->reached[w->plan->steps.data[step].lane] >= w->position[step];
}

static void lane_follow(lane_clock *clock, const lane_clock *before) {
  for (uint32_t lane = 0; lane < LW_PLAN_MAX_LANES; lane++) {
    if (before->reached[lane] > clock->reached[lane]) clock->reached[lane] = before->reached[lane];
  }
}

/* The latest step of every other lane that |step| depends on, or LW_NONE. */
static void lane_candidates(const lane_waiter *w, const lw_plan_step *step, uint32_t *latest) {
  for (uint32_t lane = 0; lane < LW_PLAN_MAX_LANES; lane++) latest[lane] = LW_NONE;
  for (uint32_t i = 0; i < step->dep_count; i++) {
    uint32_t dep = step->deps[i], lane = w->plan->steps.data[dep].lane;
    if (lane == step->lane) continue;
    if (latest[lane] == LW_NONE || w->position[dep] > w->position[latest[lane]]) latest[lane] = dep;
  }
}

/* Whether the order of the lane, or another candidate, implies candidate |latest[lane]|. */
static bool lane_implied(const lane_waiter *w, const lane_clock *before, const uint32_t *latest,
                         uint32_t lane) {
  if (lane_reached(w, before, latest[lane])) return true;
  for (uint32_t other = 0; other < LW_PLAN_MAX_LANES; other++) {
    if (other == lane || latest[other] == LW_NONE) continue;
    if (lane_reached(w, &w->clock[latest[other]], latest[lane])) return true;
  }
  return false;
}

static lw_status lane_wait(lane_waiter *w, uint32_t id) {
  lw_plan_step *step = &w->plan->steps.data[id];
  uint32_t latest[LW_PLAN_MAX_LANES], waits[LW_PLAN_MAX_LANES], count = 0;
  lane_clock *clock = &w->clock[id];
  if (w->last[step->lane] != LW_NONE) *clock = w->clock[w->last[step->lane]];
  const lane_clock before = *clock;
  lane_candidates(w, step, latest);
  for (uint32_t lane = 0; lane < LW_PLAN_MAX_LANES; lane++) {
    if (latest[lane] == LW_NONE || lane_implied(w, &before, latest, lane)) continue;
    waits[count++] = latest[lane];
    lane_follow(clock, &w->clock[latest[lane]]);
  }
  if (count != 0) {
    LW_TRY(lw__arena_dup(&w->plan->arena, waits, count * sizeof *waits, &step->waits));
    step->wait_count = count;
  }
  w->position[id] = ++w->length[step->lane];
  clock->reached[step->lane] = w->position[id];
  w->last[step->lane] = id;
  return LW_OK;
}

static lw_status lane_wait_all(lane_waiter *w) {
  lw_plan *plan = w->plan;
  LW_TRY(lw__arena_alloc(&w->scratch, plan->steps.count, sizeof *w->clock, &w->clock));
  LW_TRY(lw__arena_alloc(&w->scratch, plan->steps.count, sizeof *w->position, &w->position));
  for (uint32_t lane = 0; lane < LW_PLAN_MAX_LANES; lane++) w->last[lane] = LW_NONE;
  for (uint32_t i = 0; i < plan->steps.count; i++) {
    if (plan->steps.data[i].lane >= plan->lane_count) return LW_STATUS_INTERNAL;
    LW_TRY(lane_wait(w, i));
  }
  return LW_OK;
}

lw_status lw__plan_wait(lw_plan *plan) {
  lane_waiter w = {.plan = plan};
  for (uint32_t i = 0; i < plan->steps.count; i++) {
    plan->steps.data[i].waits = NULL;
    plan->steps.data[i].wait_count = 0;
  }
  if (plan->lane_count == 0) return LW_OK;
  if (plan->lane_count > LW_PLAN_MAX_LANES) return LW_STATUS_INTERNAL;
  lw_status status = lane_wait_all(&w);
  lw__arena_deinit(&w.scratch);
  return status;
}

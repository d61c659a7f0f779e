/* order.c: what orders the steps of a segment: edges, waits, events. */
#include "runtime/internal.h"

static void order_add_edge(lw_rt_segment *segment, lw_rt_step *step, uint32_t from) {
  segment->deps[segment->dep_count++] = from;
  step->dep_count++;
}

static void order_add_wait(lw_rt_segment *segment, lw_rt_step *step, uint32_t from) {
  lw_rt_step *waited = &segment->steps[from];
  segment->waits[segment->wait_count++] = from;
  step->wait_count++;
  if (waited->event == LW_NONE) waited->event = segment->event_count++;
}

/* How far each lane has come when a step ends: positions in the lane from 1 on. */
typedef struct order_clock {
  uint32_t reached[LW_PLAN_MAX_LANES];
} order_clock;

/* The edges of one step: its waits and the step before it in its lane, unless a wait implies that
 * one. */
static void order_lane_edges(lw_rt_segment *segment, const lw_plan_step *from, uint32_t id,
                             order_clock *clocks, uint32_t *last) {
  lw_rt_step *step = &segment->steps[id];
  order_clock *clock = &clocks[id];
  uint32_t previous = last[from->lane], lane = from->lane, position = 0;
  if (previous != LW_NONE) position = clocks[previous].reached[lane];
  for (uint32_t i = 0; i < from->wait_count; i++) {
    const order_clock *other = &clocks[from->waits[i]];
    for (uint32_t l = 0; l < LW_PLAN_MAX_LANES; l++) {
      if (other->reached[l] > clock->reached[l]) clock->reached[l] = other->reached[l];
    }
    order_add_wait(segment, step, from->waits[i]);
    order_add_edge(segment, step, from->waits[i]);
  }
  if (previous != LW_NONE && clock->reached[lane] < position) {
    order_add_edge(segment, step, previous);
  }
  for (uint32_t l = 0; previous != LW_NONE && l < LW_PLAN_MAX_LANES; l++) {
    uint32_t before = clocks[previous].reached[l];
    if (before > clock->reached[l]) clock->reached[l] = before;
  }
  clock->reached[lane] = position + 1;
  last[lane] = id;
}

static lw_status order_lanes(lw_rt_segment *segment, const lw_plan_step *steps, uint32_t count) {
  lw_arena scratch = {0};
  order_clock *clocks;
  uint32_t last[LW_PLAN_MAX_LANES], critical[LW_PLAN_MAX_LANES] = {0};
  lw_status status = lw__arena_alloc(&scratch, count, sizeof *clocks, &clocks);
  for (uint32_t lane = 0; lane < LW_PLAN_MAX_LANES; lane++) last[lane] = LW_NONE;
  for (uint32_t i = 0; i < count && status == LW_OK; i++) {
    lw_rt_step *step = &segment->steps[i];
    step->lane = steps[i].lane;
    step->first_dep = segment->dep_count;
    step->first_wait = segment->wait_count;
    order_lane_edges(segment, &steps[i], i, clocks, last);
    critical[step->lane] += steps[i].critical;
  }
  for (uint32_t lane = 0; segment->lane_count > 1 && lane < segment->lane_count; lane++) {
    uint32_t best = segment->critical_lane;
    if (critical[lane] > (best == LW_NONE ? 0 : critical[best])) segment->critical_lane = lane;
  }
  lw__arena_deinit(&scratch);
  return status;
}

lw_status lw__rt_order(lw_arena *arena, lw_rt_segment *segment, const lw_plan_step *steps,
                       uint32_t count, uint32_t lanes) {
  uint64_t edges = 0, waits = 0;
  for (uint32_t i = 0; i < count; i++) {
    edges += lanes == 0 ? steps[i].dep_count : steps[i].wait_count + 1;
    waits += lanes == 0 ? 0 : steps[i].wait_count;
  }
  if (edges > UINT32_MAX) return LW_STATUS_OUT_OF_MEMORY;
  LW_TRY(lw__arena_alloc(arena, (size_t)edges, sizeof *segment->deps, &segment->deps));
  LW_TRY(lw__arena_alloc(arena, (size_t)waits, sizeof *segment->waits, &segment->waits));
  segment->lane_count = lanes == 0 ? 1 : lanes;
  segment->critical_lane = LW_NONE;
  for (uint32_t i = 0; i < count; i++) segment->has_critical |= steps[i].critical;
  if (lanes != 0) return order_lanes(segment, steps, count);
  for (uint32_t i = 0; i < count; i++) {
    segment->steps[i].first_dep = segment->dep_count;
    for (uint32_t d = 0; d < steps[i].dep_count; d++) {
      order_add_edge(segment, &segment->steps[i], steps[i].deps[d]);
    }
  }
  return LW_OK;
}

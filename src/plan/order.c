/* order.c: what a step touches, and which step happens before which. */
#include <string.h>

#include "plan/internal.h"

bool lw__plan_access_of(const lw_plan *plan, const lw_plan_step *step, uint32_t arg,
                        lw_plan_access *out_access) {
  const lw_plan_arg *a = &step->args[arg];
  if (a->kind != LW_ARG_BUFFER || a->buffer >= plan->buffers.count) return false;
  uint64_t end = plan->buffers.data[a->buffer].bytes;
  if (a->offset_bytes >= end) return false;
  if (step->kind != LW_STEP_LAUNCH && step->bytes < end - a->offset_bytes) {
    end = a->offset_bytes + step->bytes;
  }
  bool write = step->kind == LW_STEP_LAUNCH ? a->written : arg == 0;
  *out_access =
      (lw_plan_access){.buffer = a->buffer, .begin = a->offset_bytes, .end = end, .write = write};
  return a->offset_bytes < end;
}

lw_status lw__plan_order_init(lw_plan_order *order, uint32_t capacity) {
  *order = (lw_plan_order){.capacity = capacity};
  LW_TRY(lw__arena_alloc(&order->arena, capacity, sizeof *order->chain, &order->chain));
  LW_TRY(lw__arena_alloc(&order->arena, capacity, sizeof *order->position, &order->position));
  LW_TRY(lw__arena_alloc(&order->arena, capacity, sizeof *order->width, &order->width));
  return lw__arena_alloc(&order->arena, capacity, sizeof *order->clock, &order->clock);
}

void lw__plan_order_deinit(lw_plan_order *order) {
  lw_vec_free(&order->tail);
  lw__arena_deinit(&order->arena);
  *order = (lw_plan_order){0};
}

/* The chain whose last step is an ancestor of the step that owns |clock|, or LW_NONE. */
static uint32_t order_open_chain(const lw_plan_order *order, const uint32_t *clock,
                                 uint32_t width) {
  for (uint32_t c = 0; c < width; c++) {
    if (clock[c] != 0 && clock[c] == order->tail.data[c]) return c;
  }
  return LW_NONE;
}

lw_status lw__plan_order_add(lw_plan_order *order, const uint32_t *deps, uint32_t dep_count) {
  if (order->count >= order->capacity) return LW_STATUS_INTERNAL;
  uint32_t id = order->count;
  uint32_t width = 0;
  for (uint32_t i = 0; i < dep_count; i++) {
    if (deps[i] >= id) return LW_STATUS_INTERNAL;
    if (order->width[deps[i]] > width) width = order->width[deps[i]];
  }
  order->count++;
  order->chain[id] = LW_NONE;
  if (order->clock_entries + order->chain_count + 1 > LW_PLAN_CLOCK_LIMIT) return LW_OK;
  uint32_t *clock;
  LW_TRY(lw__arena_alloc(&order->arena, order->chain_count + 1, sizeof *clock, &clock));
  order->clock_entries += order->chain_count + 1;
  for (uint32_t i = 0; i < dep_count; i++) {
    const uint32_t *other = order->clock[deps[i]];
    for (uint32_t c = 0; c < order->width[deps[i]]; c++) {
      if (other[c] > clock[c]) clock[c] = other[c];
    }
  }
  uint32_t chain = order_open_chain(order, clock, width);
  if (chain == LW_NONE) {
    LW_TRY(lw_vec_push(&order->tail, 0));
    chain = order->chain_count++;
  }
  clock[chain] = ++order->tail.data[chain];
  order->chain[id] = chain;
  order->position[id] = clock[chain];
  order->clock[id] = clock;
  order->width[id] = chain + 1 > width ? chain + 1 : width;
  return LW_OK;
}

bool lw__plan_order_before(const lw_plan_order *order, uint32_t a, uint32_t b) {
  if (a >= b) return false; /* steps stand in a valid order */
  uint32_t chain = order->chain[a];
  return chain != LW_NONE && chain < order->width[b] &&
         order->clock[b][chain] >= order->position[a];
}

/* internal.h: what linking and placing share: which bytes a step touches and which step happens
 * before which. The verifier uses none of it on purpose: it must not repeat their mistakes. */
#ifndef LW_PLAN_INTERNAL_H
#define LW_PLAN_INTERNAL_H

#include "plan/plan.h"

/* Bytes [begin, end) of |buffer| touched by one argument. A launch may touch everything from its
 * argument's offset to the buffer's end; copies and fills touch exactly their bytes. */
typedef struct lw_plan_access {
  uint32_t step, buffer;
  uint64_t begin, end;
  bool write;
} lw_plan_access;

/* False for scalars, unknown buffers and empty ranges: they touch nothing. */
bool lw__plan_access_of(const lw_plan *plan, const lw_plan_step *step, uint32_t arg,
                        lw_plan_access *out_access);

/* Happens-before over the steps of one program, as vector clocks over greedy chains: step a is
 * before b when b's clock of a's chain has reached a. A plan is as wide as its parallelism, so
 * clocks stay short. Beyond LW_PLAN_CLOCK_LIMIT entries steps are left out: "before" then answers
 * false where the truth may be true, which only costs memory and edges. */
#define LW_PLAN_CLOCK_LIMIT ((size_t)16 << 20)
typedef struct lw_plan_order {
  lw_arena arena;
  uint32_t capacity, count, chain_count;
  uint32_t *chain, *position; /* of each step; chain LW_NONE: left out */
  uint32_t *width;            /* entries in the step's clock */
  uint32_t **clock;
  LW_VEC(uint32_t) tail; /* position of the last step of each chain; positions start at 1 */
  size_t clock_entries;
} lw_plan_order;

lw_status lw__plan_order_init(lw_plan_order *order, uint32_t capacity) LW_MUST_CHECK;
void lw__plan_order_deinit(lw_plan_order *order);
/* Adds step number order->count, which follows |deps| (all already added). */
lw_status lw__plan_order_add(lw_plan_order *order, const uint32_t *deps,
                             uint32_t dep_count) LW_MUST_CHECK;
bool lw__plan_order_before(const lw_plan_order *order, uint32_t a, uint32_t b);

/* The alignment of every arena and weight buffer. */
#define LW_PLAN_ALIGN_BYTES 256

#endif

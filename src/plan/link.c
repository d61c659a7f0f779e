/* link.c: dependences of steps from the bytes they touch, transitively reduced. */
#include <stdlib.h>

#include "plan/internal.h"

/* Accesses of one storage that a later access may still have to wait for. */
typedef LW_VEC(lw_plan_access) link_history;

typedef struct linker {
  lw_plan *plan;
  lw_plan_order order;
  lw_arena scratch;
  uint32_t *storage;     /* buffer -> the first buffer that stands for the same bytes */
  bool *written;         /* per storage: some step of this program writes it */
  link_history *history; /* per storage */
  LW_VEC(uint32_t) found;
} linker;

/* Buffers of one input or output share its bytes; every other buffer has bytes of its own here
 * (placing later makes sure that shared arena bytes are ordered). */
static lw_status link_find_storage(linker *l) {
  const lw_plan *plan = l->plan;
  uint32_t *first_input, *first_output;
  LW_TRY(lw__arena_alloc(&l->scratch, plan->inputs.count + 1, sizeof *first_input, &first_input));
  LW_TRY(
      lw__arena_alloc(&l->scratch, plan->outputs.count + 1, sizeof *first_output, &first_output));
  for (uint32_t i = 0; i < plan->inputs.count; i++) first_input[i] = LW_NONE;
  for (uint32_t i = 0; i < plan->outputs.count; i++) first_output[i] = LW_NONE;
  for (uint32_t b = 0; b < plan->buffers.count; b++) {
    const lw_plan_buffer *buffer = &plan->buffers.data[b];
    uint32_t *first = NULL;
    if (buffer->kind == LW_BUFFER_INPUT && buffer->index < plan->inputs.count) {
      first = &first_input[buffer->index];
    } else if (buffer->kind == LW_BUFFER_OUTPUT && buffer->index < plan->outputs.count) {
      first = &first_output[buffer->index];
    }
    if (first != NULL && *first == LW_NONE) *first = b;
    l->storage[b] = first == NULL ? b : *first;
  }
  return LW_OK;
}

static bool link_conflict(const lw_plan_access *a, const lw_plan_access *b) {
  return (a->write || b->write) && a->begin < b->end && b->begin < a->end;
}

static lw_status link_collect(linker *l, const lw_plan_access *access) {
  const link_history *history = &l->history[l->storage[access->buffer]];
  for (uint32_t i = 0; i < history->count; i++) {
    if (link_conflict(&history->data[i], access)) {
      LW_TRY(lw_vec_push(&l->found, history->data[i].step));
    }
  }
  return LW_OK;
}

/* A write makes the accesses that it covers unreachable for later steps: whoever conflicts with
 * them conflicts with it. */
static lw_status link_record(linker *l, const lw_plan_access *access) {
  link_history *history = &l->history[l->storage[access->buffer]];
  if (access->write) {
    uint32_t kept = 0;
    for (uint32_t i = 0; i < history->count; i++) {
      const lw_plan_access *old = &history->data[i];
      if (old->begin >= access->begin && old->end <= access->end) continue;
      history->data[kept++] = *old;
    }
    history->count = kept;
  }
  return lw_vec_push(history, *access);
}

static int link_later_first(const void *a, const void *b) {
  uint32_t x = *(const uint32_t *)a, y = *(const uint32_t *)b;
  return x < y ? 1 : x > y ? -1 : 0;
}

/* Keeps those of |found| that no other of them implies. Later steps come first, so an implying step
 * is seen before. */
static void link_reduce(linker *l) {
  if (l->found.count == 0) return;
  uint32_t *found = l->found.data;
  qsort(found, l->found.count, sizeof *found, link_later_first);
  uint32_t kept = 0;
  for (uint32_t i = 0; i < l->found.count; i++) {
    uint32_t candidate = found[i];
    bool implied = kept != 0 && found[kept - 1] == candidate;
    for (uint32_t k = 0; k < kept && !implied; k++) {
      implied = lw__plan_order_before(&l->order, candidate, found[k]);
    }
    if (!implied) found[kept++] = candidate;
  }
  l->found.count = kept;
}

static lw_status link_step(linker *l, lw_plan_step *step, uint32_t id) {
  lw_plan_access access;
  l->found.count = 0;
  for (uint32_t i = 0; i < step->arg_count; i++) {
    if (!lw__plan_access_of(l->plan, step, i, &access)) continue;
    if (l->written[l->storage[access.buffer]]) LW_TRY(link_collect(l, &access));
  }
  for (uint32_t i = 0; i < step->arg_count; i++) {
    if (!lw__plan_access_of(l->plan, step, i, &access)) continue;
    access.step = id;
    if (l->written[l->storage[access.buffer]]) LW_TRY(link_record(l, &access));
  }
  link_reduce(l);
  uint32_t count = l->found.count;
  step->deps = NULL;
  if (count != 0) {
    LW_TRY(lw__arena_alloc(&l->plan->arena, count, sizeof *step->deps, &step->deps));
    for (uint32_t i = 0; i < count; i++) step->deps[i] = l->found.data[count - 1 - i];
  }
  step->dep_count = count;
  return lw__plan_order_add(&l->order, step->deps, count);
}

static lw_status link_steps(linker *l, lw_plan_step *steps, uint32_t count) {
  uint32_t buffers = l->plan->buffers.count;
  LW_TRY(lw__plan_order_init(&l->order, count));
  LW_TRY(lw__arena_alloc(&l->scratch, buffers, sizeof *l->storage, &l->storage));
  LW_TRY(lw__arena_alloc(&l->scratch, buffers, sizeof *l->written, &l->written));
  LW_TRY(lw__arena_alloc(&l->scratch, buffers, sizeof *l->history, &l->history));
  LW_TRY(link_find_storage(l));
  for (uint32_t i = 0; i < count; i++) {
    for (uint32_t k = 0; k < steps[i].arg_count; k++) {
      lw_plan_access access;
      if (lw__plan_access_of(l->plan, &steps[i], k, &access) && access.write) {
        l->written[l->storage[access.buffer]] = true;
      }
    }
  }
  for (uint32_t i = 0; i < count; i++) LW_TRY(link_step(l, &steps[i], i));
  return LW_OK;
}

static lw_status link_program(lw_plan *plan, lw_plan_step *steps, uint32_t count) {
  if (count == 0) return LW_OK;
  linker l = {.plan = plan};
  lw_status status = link_steps(&l, steps, count);
  for (uint32_t b = 0; l.history != NULL && b < plan->buffers.count; b++)
    lw_vec_free(&l.history[b]);
  lw_vec_free(&l.found);
  lw__plan_order_deinit(&l.order);
  lw__arena_deinit(&l.scratch);
  return status;
}

lw_status lw__plan_link(lw_plan *plan) {
  LW_TRY(link_program(plan, plan->init.data, plan->init.count));
  return link_program(plan, plan->steps.data, plan->steps.count);
}

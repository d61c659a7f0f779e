/* place.c: offsets of arena buffers: first fit, largest first, over happens-before conflicts. */
#include <stdlib.h>
#include <string.h>

#include "plan/internal.h"

/* Nodes number the init program's steps, then the steps of every run. */
typedef struct place_span {
  uint32_t buffer;
  uint64_t bytes; /* rounded up to the alignment */
  uint64_t offset;
  uint32_t first, last;           /* smallest and largest node that touches it */
  uint32_t *entries, entry_count; /* nodes that no other access of it precedes */
  uint32_t *exits, exit_count;    /* nodes that precede no other access of it */
} place_span;

/* A placed span as the scan for conflicts wants it. |exit_chain|, |exit_position|: of its only
 * exit, if that is a step of every run (else LW_NONE): the happens-before question is then one
 * comparison with the other's clock. */
typedef struct place_entry {
  uint32_t first, last, exit_chain, exit_position;
  const place_span *span;
} place_entry;

/* The spans at one offset. They come in the order of placing, so their sizes never grow. */
typedef struct place_group {
  uint64_t offset, end;
  LW_VEC(place_entry) entries;
} place_group;

typedef struct placer {
  lw_plan *plan;
  lw_arena scratch;
  lw_plan_order init, steps;
  uint32_t init_count;
  place_span *spans;
  uint32_t span_count;
  LW_VEC(place_group) groups; /* ordered by offset */
} placer;

static bool place_before(const placer *p, uint32_t a, uint32_t b) {
  if (b < p->init_count) return lw__plan_order_before(&p->init, a, b);
  if (a < p->init_count) return true;
  return lw__plan_order_before(&p->steps, a - p->init_count, b - p->init_count);
}

static lw_status place_order(lw_plan_order *order, const lw_plan_step *steps, uint32_t count) {
  LW_TRY(lw__plan_order_init(order, count));
  for (uint32_t i = 0; i < count; i++) {
    LW_TRY(lw__plan_order_add(order, steps[i].deps, steps[i].dep_count));
  }
  return LW_OK;
}

/* Of a run with lanes: a step follows the one before it in its lane, and its waits. */
static lw_status place_lane_order(placer *p, lw_plan_order *order) {
  const lw_plan *plan = p->plan;
  uint32_t last[LW_PLAN_MAX_LANES], *preds;
  for (uint32_t lane = 0; lane < LW_PLAN_MAX_LANES; lane++) last[lane] = LW_NONE;
  LW_TRY(lw__plan_order_init(order, plan->steps.count));
  LW_TRY(lw__arena_alloc(&p->scratch, (size_t)plan->steps.count + 1, sizeof *preds, &preds));
  for (uint32_t i = 0; i < plan->steps.count; i++) {
    const lw_plan_step *step = &plan->steps.data[i];
    if (step->lane >= LW_PLAN_MAX_LANES || step->wait_count > i) return LW_STATUS_INTERNAL;
    uint32_t count = step->wait_count;
    if (count != 0) memcpy(preds, step->waits, count * sizeof *preds);
    if (last[step->lane] != LW_NONE) preds[count++] = last[step->lane];
    LW_TRY(lw__plan_order_add(order, preds, count));
    last[step->lane] = i;
  }
  return LW_OK;
}

static const lw_plan_step *place_step(const placer *p, uint32_t node) {
  return node < p->init_count ? &p->plan->init.data[node]
                              : &p->plan->steps.data[node - p->init_count];
}

/* The arena buffer with bytes that argument |arg| touches, or LW_NONE. */
static uint32_t place_touched(const placer *p, const lw_plan_step *step, uint32_t arg) {
  const lw_plan_arg *a = &step->args[arg];
  if (a->kind != LW_ARG_BUFFER || a->buffer >= p->plan->buffers.count) return LW_NONE;
  const lw_plan_buffer *buffer = &p->plan->buffers.data[a->buffer];
  return buffer->kind == LW_BUFFER_ARENA && buffer->bytes != 0 ? a->buffer : LW_NONE;
}

/* Of |nodes| (ascending) the ones that come first and the ones that come last. */
static lw_status place_ends(placer *p, place_span *span, const uint32_t *nodes, uint32_t count) {
  LW_TRY(lw__arena_alloc(&p->scratch, count, sizeof *span->entries, &span->entries));
  LW_TRY(lw__arena_alloc(&p->scratch, count, sizeof *span->exits, &span->exits));
  for (uint32_t i = 0; i < count; i++) {
    bool entry = true;
    for (uint32_t k = 0; k < span->entry_count && entry; k++) {
      entry = !place_before(p, span->entries[k], nodes[i]);
    }
    if (entry) span->entries[span->entry_count++] = nodes[i];
  }
  for (uint32_t i = count; i-- > 0;) {
    bool is_exit = true;
    for (uint32_t k = 0; k < span->exit_count && is_exit; k++) {
      is_exit = !place_before(p, nodes[i], span->exits[k]);
    }
    if (is_exit) span->exits[span->exit_count++] = nodes[i];
  }
  return LW_OK;
}

/* Lists every buffer's accessing nodes in one array, buffer after buffer. */
static lw_status place_collect(placer *p, uint32_t node_count) {
  uint32_t buffers = p->plan->buffers.count;
  uint32_t *start, *last, *nodes;
  LW_TRY(lw__arena_alloc(&p->scratch, buffers + 1, sizeof *start, &start));
  LW_TRY(lw__arena_alloc(&p->scratch, buffers, sizeof *last, &last));
  size_t total = 0;
  for (uint32_t n = 0; n < node_count; n++) {
    const lw_plan_step *step = place_step(p, n);
    for (uint32_t k = 0; k < step->arg_count; k++) {
      uint32_t b = place_touched(p, step, k);
      if (b == LW_NONE) continue;
      start[b + 1]++;
      total++;
    }
  }
  if (total >= LW_NONE) return LW_STATUS_OUT_OF_MEMORY;
  for (uint32_t b = 0; b < buffers; b++) {
    start[b + 1] += start[b];
    last[b] = start[b];
  }
  LW_TRY(lw__arena_alloc(&p->scratch, total, sizeof *nodes, &nodes));
  for (uint32_t n = 0; n < node_count; n++) {
    const lw_plan_step *step = place_step(p, n);
    for (uint32_t k = 0; k < step->arg_count; k++) {
      uint32_t b = place_touched(p, step, k);
      if (b == LW_NONE || (last[b] > start[b] && nodes[last[b] - 1] == n)) continue;
      nodes[last[b]++] = n;
    }
  }
  LW_TRY(lw__arena_alloc(&p->scratch, buffers, sizeof *p->spans, &p->spans));
  for (uint32_t b = 0; b < buffers; b++) {
    if (last[b] == start[b]) continue;
    place_span *span = &p->spans[p->span_count++];
    *span = (place_span){.buffer = b,
                         .bytes = p->plan->buffers.data[b].bytes,
                         .first = nodes[start[b]],
                         .last = nodes[last[b] - 1]};
    LW_TRY(place_ends(p, span, &nodes[start[b]], last[b] - start[b]));
  }
  return LW_OK;
}

static bool place_ends_before(const placer *p, const place_span *a, const place_span *b) {
  if (a->last >= b->first) return false;
  for (uint32_t i = 0; i < a->exit_count; i++) {
    for (uint32_t k = 0; k < b->entry_count; k++) {
      if (!place_before(p, a->exits[i], b->entries[k])) return false;
    }
  }
  return true;
}

/* The clock of the only entry of |span|, if that is a step of every run. */
static const uint32_t *place_clock(const placer *p, const place_span *span, uint32_t *out_width) {
  *out_width = 0;
  if (span->entry_count != 1 || span->entries[0] < p->init_count) return NULL;
  uint32_t step = span->entries[0] - p->init_count;
  *out_width = p->steps.width[step];
  return p->steps.clock[step];
}

/* The first of the group's spans that must not share bytes with |span|. It is the largest one, too.
 */
static const place_span *place_conflict(const placer *p, const place_group *group,
                                        const place_span *span) {
  uint32_t width;
  const uint32_t *clock = place_clock(p, span, &width);
  for (uint32_t i = 0; i < group->entries.count; i++) {
    const place_entry *e = &group->entries.data[i];
    if (e->last < span->first) {
      bool before = e->exit_chain < width && clock != NULL
                        ? clock[e->exit_chain] >= e->exit_position
                        : place_ends_before(p, e->span, span);
      if (before) continue;
    } else if (span->last < e->first && place_ends_before(p, span, e->span)) {
      continue;
    }
    return e->span;
  }
  return NULL;
}

/* Larger first; then the one needed first; then by id, so that equal plans are placed alike. */
static int place_compare(const void *x, const void *y) {
  const place_span *a = x, *b = y;
  if (a->bytes != b->bytes) return a->bytes < b->bytes ? 1 : -1;
  if (a->first != b->first) return a->first < b->first ? -1 : 1;
  return a->buffer < b->buffer ? -1 : a->buffer > b->buffer;
}

static lw_status place_insert(placer *p, place_span *span) {
  uint32_t at = 0;
  while (at < p->groups.count && p->groups.data[at].offset < span->offset) at++;
  if (at == p->groups.count || p->groups.data[at].offset != span->offset) {
    LW_TRY(lw_vec_reserve(&p->groups, 1));
    memmove(&p->groups.data[at + 1], &p->groups.data[at],
            (p->groups.count - at) * sizeof *p->groups.data);
    p->groups.data[at] = (place_group){.offset = span->offset};
    p->groups.count++;
  }
  place_group *group = &p->groups.data[at];
  place_entry entry = {
      .first = span->first, .last = span->last, .exit_chain = LW_NONE, .span = span};
  if (span->exit_count == 1 && span->exits[0] >= p->init_count) {
    uint32_t step = span->exits[0] - p->init_count;
    entry.exit_chain = p->steps.chain[step];
    entry.exit_position = p->steps.position[step];
  }
  if (span->offset + span->bytes > group->end) group->end = span->offset + span->bytes;
  return lw_vec_push(&group->entries, entry);
}

static lw_status place_fit(placer *p, place_span *span) {
  uint64_t offset = 0;
  for (uint32_t i = 0; i < p->groups.count; i++) {
    const place_group *group = &p->groups.data[i];
    if (group->end <= offset) continue;
    if (group->offset >= offset + span->bytes) break;
    const place_span *other = place_conflict(p, group, span);
    if (other != NULL && other->offset + other->bytes > offset) {
      offset = other->offset + other->bytes;
    }
  }
  if (offset > (uint64_t)INT64_MAX - span->bytes) return LW_STATUS_OUT_OF_MEMORY;
  span->offset = offset;
  p->plan->buffers.data[span->buffer].offset = offset;
  if (offset + span->bytes > p->plan->arena_bytes) p->plan->arena_bytes = offset + span->bytes;
  return place_insert(p, span);
}

static lw_status place_all(placer *p) {
  lw_plan *plan = p->plan;
  if (plan->init.count > LW_NONE - plan->steps.count) return LW_STATUS_OUT_OF_MEMORY;
  p->init_count = plan->init.count;
  LW_TRY(place_order(&p->init, plan->init.data, plan->init.count));
  LW_TRY(plan->lane_count == 0 ? place_order(&p->steps, plan->steps.data, plan->steps.count)
                               : place_lane_order(p, &p->steps));
  LW_TRY(place_collect(p, plan->init.count + plan->steps.count));
  for (uint32_t i = 0; i < p->span_count; i++) {
    uint64_t bytes = p->spans[i].bytes;
    if (bytes > (uint64_t)INT64_MAX) return LW_STATUS_OUT_OF_MEMORY;
    p->spans[i].bytes =
        (bytes + LW_PLAN_ALIGN_BYTES - 1) / LW_PLAN_ALIGN_BYTES * LW_PLAN_ALIGN_BYTES;
  }
  if (p->span_count != 0) qsort(p->spans, p->span_count, sizeof *p->spans, place_compare);
  for (uint32_t i = 0; i < p->span_count; i++) LW_TRY(place_fit(p, &p->spans[i]));
  return LW_OK;
}

lw_status lw__plan_place(lw_plan *plan) {
  placer p = {.plan = plan};
  plan->arena_bytes = 0;
  for (uint32_t b = 0; b < plan->buffers.count; b++) {
    if (plan->buffers.data[b].kind == LW_BUFFER_ARENA) plan->buffers.data[b].offset = 0;
  }
  lw_status status = place_all(&p);
  for (uint32_t i = 0; i < p.groups.count; i++) lw_vec_free(&p.groups.data[i].entries);
  lw_vec_free(&p.groups);
  lw__plan_order_deinit(&p.init);
  lw__plan_order_deinit(&p.steps);
  lw__arena_deinit(&p.scratch);
  return status;
}

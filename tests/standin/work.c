/* work.c: pending work and its orders. */
#include "standin/work.h"

#include <stdlib.h>
#include <string.h>

#include "standin/memory.h"

struct work {
  struct work *next; /* in the order of arrival */
  uint64_t number;   /* of its arrival */
  uint64_t known;    /* work from this number on arrived after the host knew that this is done */
  op operation;
  work **deps;
  int dep_count;
  bool done, marked;
  memory_log *log;
};

static work *first_work, **work_end = &first_work;
static work_place *places;
static uint64_t next_number;

uint64_t work_random(void) {
  uint64_t *state = standin_seed();
  *state += UINT64_C(0x9e3779b97f4a7c15); /* splitmix64 */
  uint64_t x = *state;
  x = (x ^ x >> 30) * UINT64_C(0xbf58476d1ce4e5b9);
  x = (x ^ x >> 27) * UINT64_C(0x94d049bb133111eb);
  return x ^ x >> 31;
}

void work_open(work_place *place) {
  *place = (work_place){.next = places};
  places = place;
}

void work_close(work_place *place) {
  for (work_place **at = &places; *at != NULL; at = &(*at)->next) {
    if (*at != place) continue;
    *at = place->next;
    return;
  }
}

/* ---- arrival ---- */

static work *add(op operation, int deps_max) {
  work *w = calloc(1, sizeof *w);
  w->number = next_number++;
  w->known = UINT64_MAX;
  w->operation = operation;
  w->deps = calloc((size_t)deps_max + 1, sizeof(work *));
  *work_end = w;
  work_end = &w->next;
  return w;
}

static void depend(work *w, work *on) {
  if (on != NULL) w->deps[w->dep_count++] = on;
}

void work_put(work_place *stream, op operation) {
  work *w = add(operation, 1);
  depend(w, stream->last);
  stream->last = w;
}

void work_wait(work_place *stream, const work_place *event) {
  if (event->last == NULL) return;
  work *w = add((op){.kind = OP_NOTHING}, 2);
  depend(w, stream->last);
  depend(w, event->last);
  stream->last = w;
}

void work_put_graph(work_place *stream, const work_node *nodes, int count) {
  work **made = calloc((size_t)count + 1, sizeof(work *));
  for (int i = 0; i < count; i++) {
    made[i] = add(nodes[i].operation, nodes[i].dep_count + 1);
    for (int d = 0; d < nodes[i].dep_count; d++) depend(made[i], made[nodes[i].deps[d]]);
    if (nodes[i].dep_count == 0) depend(made[i], stream->last);
  }
  work *end = add((op){.kind = OP_NOTHING}, count + 1);
  for (int i = 0; i < count; i++) depend(end, made[i]);
  depend(end, stream->last);
  stream->last = end;
  free(made);
}

/* ---- orders ---- */

/* Everything has smaller numbers than what depends on it: one pass from the end marks all that must
 * come before |of|, itself included. */
static void mark_before(work *of) {
  size_t count = 0;
  for (work *w = first_work; w != NULL; w = w->next) {
    w->marked = false;
    count++;
  }
  if (of == NULL) return;
  work **stack = malloc((count + 1) * sizeof(work *));
  size_t top = 0;
  of->marked = true;
  stack[top++] = of;
  while (top > 0) {
    const work *w = stack[--top];
    for (int d = 0; d < w->dep_count; d++) {
      if (w->deps[d]->marked) continue;
      w->deps[d]->marked = true;
      stack[top++] = w->deps[d];
    }
  }
  free(stack);
}

static bool is_ready(const work *w) {
  if (w->done) return false;
  for (int d = 0; d < w->dep_count; d++) {
    if (!w->deps[d]->done) return false;
  }
  return true;
}

/* Compares |w|, just done, with everything done before that nothing orders before it. */
static void find_conflicts(work *w) {
  if (w->log == NULL) return;
  mark_before(w);
  for (const work *o = first_work; o != NULL; o = o->next) {
    if (!o->done || o->marked || o->known <= w->number) continue;
    const void *at = memory_conflict(o->log, w->log);
    if (at == NULL) continue;
    standin_violation("race: nothing orders %s and %s, which touch %p", standin_name(&o->operation),
                      standin_name(&w->operation), at);
  }
}

static void execute(work *w) {
  if (w->operation.kind != OP_NOTHING) {
    standin_execute(&w->operation);
    w->log = memory_take_log();
  }
  w->done = true;
  find_conflicts(w);
}

typedef enum order { OLDEST, NEWEST, ANY, ORDER_COUNT } order;

static work *choose(order how, bool beyond, const bool *wanted, uint64_t base) {
  work *chosen = NULL;
  uint64_t seen = 0;
  for (work *w = first_work; w != NULL; w = w->next) {
    if ((!beyond && !wanted[w->number - base]) || !is_ready(w)) continue;
    seen++;
    if (how == OLDEST) return w;
    if (how == NEWEST || work_random() % seen == 0) chosen = w;
  }
  return chosen;
}

static void forget(work *w) {
  memory_free_log(w->log);
  free(w->operation.parameters);
  free(w->deps);
  free(w);
}

/* Work that is known to be done, with nothing left that arrived before the host knew it, can
 * conflict with nothing any more. */
static void sweep(void) {
  uint64_t first_pending = UINT64_MAX;
  for (const work *w = first_work; w != NULL && first_pending == UINT64_MAX; w = w->next) {
    if (!w->done) first_pending = w->number;
  }
  for (work *w = first_work; w != NULL; w = w->next)
    w->marked = w->done && w->known != UINT64_MAX && first_pending >= w->known;
  for (work_place *p = places; p != NULL; p = p->next) {
    if (p->last != NULL && p->last->marked) p->last = NULL;
  }
  for (work *w = first_work; w != NULL; w = w->next) {
    int kept = 0;
    for (int d = 0; d < w->dep_count; d++) {
      if (!w->deps[d]->marked) w->deps[kept++] = w->deps[d];
    }
    w->dep_count = kept;
  }
  work_end = &first_work;
  while (*work_end != NULL) {
    work *w = *work_end;
    if (w->marked) {
      *work_end = w->next;
      forget(w);
    } else {
      work_end = &w->next;
    }
  }
}

/* |target| NULL: everything. */
static void finish(work *target, bool drop) {
  if (first_work == NULL) return;
  uint64_t base = first_work->number, pending = 0;
  bool *wanted = calloc(next_number - base, sizeof *wanted);
  mark_before(target);
  for (work *w = first_work; w != NULL; w = w->next) {
    wanted[w->number - base] = target == NULL || w->marked;
    pending += wanted[w->number - base] && !w->done;
  }
  order how = (order)(work_random() % ORDER_COUNT);
  bool beyond = work_random() % 2 == 0 && !drop;
  while (pending > 0) {
    work *w = choose(how, beyond, wanted, base);
    pending -= wanted[w->number - base];
    if (drop) {
      w->done = true;
    } else {
      execute(w);
    }
  }
  for (work *w = first_work; w != NULL; w = w->next) {
    if (wanted[w->number - base] && w->known == UINT64_MAX) w->known = next_number;
  }
  free(wanted);
  sweep();
}

void work_finish(work_place *place) {
  if (place->last != NULL) finish(place->last, false);
}

void work_finish_all(void) { finish(NULL, false); }

bool work_is_pending(const work_place *place) { return place->last != NULL && !place->last->done; }

void work_drop(work_place *place) {
  if (place->last != NULL) finish(place->last, true);
}

void work_drop_all(void) { finish(NULL, true); }

bool work_any(bool (*matches)(const op *operation, const void *data), const void *data) {
  for (const work *w = first_work; w != NULL; w = w->next) {
    if (!w->done && matches(&w->operation, data)) return true;
  }
  return false;
}

/* test_access.c: access maps against arrays: random graphs of movements over small tensors whose elements are their own
 * numbers, moved once by plain loops and once by following the maps. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <string.h>

#include <cmocka.h>

#include "graph/access.h"

#define assert_ok(expr) assert_int_equal((expr), LW_OK)
enum { ROUNDS = 3000, MAX_VALUES = 24, MAX_NUMEL = 600, FILL = -7 };

typedef struct tensor { /* row-major */
  lw_value_id id;
  lw_shape shape;
  int64_t numel;
  int64_t data[MAX_NUMEL];
} tensor;

typedef struct world {
  lw_graph graph;
  lw_rng rng;
  tensor value[MAX_VALUES]; /* value[0] is the input */
  uint32_t count;
  uint64_t seed;
} world;

static int64_t pick(world *w, int64_t lo, int64_t hi) { return lw__rng_range(&w->rng, lo, hi + 1); }

/* ---- arrays --------------------------------------------------------------------------------------------------*/

static int64_t position(const lw_shape *shape, const int64_t *at) {
  int64_t p = 0;
  for (uint32_t d = 0; d < shape->rank; d++) p = p * shape->dim[d] + at[d];
  return p;
}

static void coordinates(const lw_shape *shape, int64_t p, int64_t *at) {
  for (uint32_t d = shape->rank; d-- > 0;) {
    at[d] = p % shape->dim[d];
    p /= shape->dim[d];
  }
}

static int64_t numel(const lw_shape *shape) {
  int64_t n = 1;
  for (uint32_t d = 0; d < shape->rank; d++) n *= shape->dim[d];
  return n;
}

/* ---- random movements: each makes the node and the array it must give -----------------------------------------*/

static const tensor *any(world *w) {
  /* Mostly the newest: chains are what composition is about. */
  return &w->value[pick(w, 0, 2) ? w->count - 1 : (uint32_t)pick(w, 0, w->count - 1)];
}

static tensor *begin(world *w, lw_shape shape) {
  tensor *t = &w->value[w->count];
  t->shape = shape;
  t->numel = numel(&shape);
  return t->numel <= MAX_NUMEL ? t : NULL;
}

/* The node may be an operand itself where the movement does nothing. */
static void commit(world *w, tensor *t, lw_value_id id) {
  t->id = id;
  assert_true(lw__shape_eq(&w->graph, &t->shape, &lw__value(&w->graph, id)->shape));
  w->count++;
}

static void random_factors(world *w, int64_t n, lw_shape *out) {
  out->rank = 0;
  while (out->rank < 6 && (n > 1 || pick(w, 0, 4) == 0)) {
    int64_t f = pick(w, 1, 12);
    if (out->rank == 5) f = n;
    while (n % f != 0) f--;
    out->dim[out->rank++] = f;
    n /= f;
  }
  for (uint32_t i = 0; i < out->rank; i++) { /* shuffled */
    uint32_t j = (uint32_t)pick(w, 0, out->rank - 1);
    int64_t swap = out->dim[i];
    out->dim[i] = out->dim[j];
    out->dim[j] = swap;
  }
  if (n > 1) out->dim[0] *= n;
  if (n == 0) out->dim[out->rank++] = 0;
}

static void add_reshape(world *w) {
  const tensor *x = any(w);
  lw_shape shape;
  random_factors(w, x->numel, &shape);
  tensor *t = begin(w, shape);
  if (t == NULL) return;
  memcpy(t->data, x->data, sizeof t->data);
  lw_value_id id;
  assert_ok(lw__graph_reshape(&w->graph, x->id, &shape, &id));
  commit(w, t, id);
}

static void add_permute(world *w) {
  const tensor *x = any(w);
  uint8_t perm[LW_MAX_RANK];
  lw_shape shape = x->shape;
  for (uint32_t d = 0; d < shape.rank; d++) {
    uint32_t at = (uint32_t)pick(w, 0, d);
    perm[d] = perm[at];
    perm[at] = (uint8_t)d;
  }
  for (uint32_t d = 0; d < shape.rank; d++) shape.dim[d] = x->shape.dim[perm[d]];
  tensor *t = begin(w, shape);
  if (t == NULL) return;
  for (int64_t p = 0; p < t->numel; p++) {
    int64_t at[LW_MAX_RANK], from[LW_MAX_RANK];
    coordinates(&shape, p, at);
    for (uint32_t d = 0; d < shape.rank; d++) from[perm[d]] = at[d];
    t->data[p] = x->data[position(&x->shape, from)];
  }
  lw_value_id id;
  assert_ok(lw__graph_permute(&w->graph, x->id, perm, &id));
  commit(w, t, id);
}

static void add_expand(world *w) {
  const tensor *x = any(w);
  lw_shape shape = x->shape;
  for (uint32_t d = 0; d < shape.rank; d++) {
    if (shape.dim[d] == 1) shape.dim[d] = pick(w, 1, 4);
  }
  tensor *t = begin(w, shape);
  if (t == NULL) return;
  for (int64_t p = 0; p < t->numel; p++) {
    int64_t at[LW_MAX_RANK];
    coordinates(&shape, p, at);
    for (uint32_t d = 0; d < shape.rank; d++) at[d] = x->shape.dim[d] == 1 ? 0 : at[d];
    t->data[p] = x->data[position(&x->shape, at)];
  }
  lw_value_id id;
  assert_ok(lw__graph_expand(&w->graph, x->id, &shape, &id));
  commit(w, t, id);
}

static void add_slice(world *w) {
  const tensor *x = any(w);
  lw_shape shape = x->shape;
  int64_t start[LW_MAX_RANK], step[LW_MAX_RANK];
  for (uint32_t d = 0; d < shape.rank; d++) {
    int64_t extent = x->shape.dim[d];
    start[d] = 0;
    step[d] = 1;
    if (extent == 0 || pick(w, 0, 1)) continue;
    start[d] = pick(w, 0, extent - 1);
    step[d] = pick(w, 0, 2) ? 1 : pick(w, 0, 1) ? -1 : pick(w, 2, 3);
    int64_t most = step[d] > 0 ? (extent - 1 - start[d]) / step[d] + 1 : start[d] + 1;
    shape.dim[d] = pick(w, 0, 1) ? most : pick(w, 1, most);
  }
  tensor *t = begin(w, shape);
  if (t == NULL) return;
  for (int64_t p = 0; p < t->numel; p++) {
    int64_t at[LW_MAX_RANK];
    coordinates(&shape, p, at);
    for (uint32_t d = 0; d < shape.rank; d++) at[d] = start[d] + at[d] * step[d];
    t->data[p] = x->data[position(&x->shape, at)];
  }
  lw_value_id id;
  assert_ok(lw__graph_slice(&w->graph, x->id, start, step, shape.dim, &id));
  commit(w, t, id);
}

static void add_pad(world *w) {
  const tensor *x = any(w);
  lw_shape shape = x->shape;
  int64_t lo[LW_MAX_RANK], hi[LW_MAX_RANK];
  for (uint32_t d = 0; d < shape.rank; d++) {
    lo[d] = pick(w, 0, 2) ? 0 : pick(w, 1, 2);
    hi[d] = pick(w, 0, 2) ? 0 : pick(w, 1, 2);
    shape.dim[d] += lo[d] + hi[d];
  }
  tensor *t = begin(w, shape);
  if (t == NULL) return;
  for (int64_t p = 0; p < t->numel; p++) {
    int64_t at[LW_MAX_RANK];
    coordinates(&shape, p, at);
    bool inside = true;
    for (uint32_t d = 0; d < shape.rank; d++) {
      at[d] -= lo[d];
      inside = inside && at[d] >= 0 && at[d] < x->shape.dim[d];
    }
    t->data[p] = inside ? x->data[position(&x->shape, at)] : FILL;
  }
  lw_value_id id;
  assert_ok(lw__graph_pad(&w->graph, x->id, lo, hi, (lw_scalar){.i = FILL}, &id));
  commit(w, t, id);
}

static void add_window(world *w) {
  const tensor *x = any(w);
  lw_shape shape = x->shape;
  uint8_t axis[4];
  int64_t size[4], stride[4], dilation[4];
  uint32_t count = 0;
  for (uint32_t d = 0; d < x->shape.rank && count < 2 && shape.rank < 7; d++) {
    if (x->shape.dim[d] < 2 || pick(w, 0, 1)) continue;
    axis[count] = (uint8_t)d;
    stride[count] = pick(w, 1, 2);
    dilation[count] = pick(w, 1, 2);
    size[count] = pick(w, 1, (x->shape.dim[d] - 1) / dilation[count] + 1);
    shape.dim[d] = (x->shape.dim[d] - (size[count] - 1) * dilation[count] - 1) / stride[count] + 1;
    shape.dim[shape.rank++] = size[count++];
  }
  if (count == 0) return;
  tensor *t = begin(w, shape);
  if (t == NULL) return;
  for (int64_t p = 0; p < t->numel; p++) {
    int64_t at[LW_MAX_RANK];
    coordinates(&shape, p, at);
    for (uint32_t k = 0; k < count; k++) {
      at[axis[k]] = at[axis[k]] * stride[k] + at[x->shape.rank + k] * dilation[k];
    }
    t->data[p] = x->data[position(&x->shape, at)];
  }
  lw_value_id id;
  assert_ok(lw__graph_window(&w->graph, x->id, count, axis, size, stride, dilation, &id));
  commit(w, t, id);
}

static void add_concat(world *w) {
  const tensor *x = any(w);
  if (x->shape.rank == 0) return;
  uint32_t axis = (uint32_t)pick(w, 0, x->shape.rank - 1), count = 0;
  const tensor *in[3];
  lw_value_id ids[3];
  lw_shape shape = x->shape;
  shape.dim[axis] = 0;
  for (int k = 0; k < 3; k++) {
    const tensor *y = k == 0 ? x : &w->value[pick(w, 0, w->count - 1)];
    bool fits = y->shape.rank == shape.rank;
    for (uint32_t d = 0; d < shape.rank && fits; d++) fits = d == axis || y->shape.dim[d] == shape.dim[d];
    if (!fits) y = x;
    in[count] = y;
    ids[count++] = y->id;
    shape.dim[axis] += y->shape.dim[axis];
  }
  tensor *t = begin(w, shape);
  if (t == NULL) return;
  for (int64_t p = 0; p < t->numel; p++) {
    int64_t at[LW_MAX_RANK];
    coordinates(&shape, p, at);
    uint32_t k = 0;
    for (; at[axis] >= in[k]->shape.dim[axis]; k++) at[axis] -= in[k]->shape.dim[axis];
    t->data[p] = in[k]->data[position(&in[k]->shape, at)];
  }
  lw_value_id id;
  assert_ok(lw__graph_concat(&w->graph, ids, count, axis, &id));
  commit(w, t, id);
}

static void world_init(world *w, uint64_t seed) {
  memset(w, 0, sizeof *w);
  w->seed = seed;
  lw__rng_seed(&w->rng, seed);
  assert_ok(lw__graph_init(&w->graph, NULL));
  lw_shape shape = {.rank = (uint32_t)pick(w, 0, 4)};
  for (uint32_t d = 0; d < shape.rank; d++) shape.dim[d] = pick(w, 0, 60) ? pick(w, 1, 6) : 0;
  tensor *t = begin(w, shape);
  while (t == NULL) {
    shape.rank--;
    t = begin(w, shape);
  }
  for (int64_t p = 0; p < t->numel; p++) t->data[p] = p;
  lw_value_id id;
  assert_ok(lw__graph_input(&w->graph, LW_DTYPE_I64, &shape, "x", &id));
  lw_storage *storage = &lw__value(&w->graph, id)->storage;
  for (uint32_t d = 0; d < shape.rank; d++) { /* any order of dims in memory */
    uint32_t at = (uint32_t)pick(w, 0, d);
    storage->order[d] = storage->order[at];
    storage->order[at] = (uint8_t)d;
  }
  commit(w, t, id);
  static void (*const add[])(world *) = {add_reshape, add_permute, add_expand, add_slice,
                                         add_pad,     add_window,  add_concat, add_reshape};
  int64_t steps = pick(w, 1, 7);
  for (int64_t i = 0; i < steps; i++) add[pick(w, 0, 7)](w);
}

/* ---- maps, followed to the input -----------------------------------------------------------------------------*/

typedef struct route {
  lw_pieces pieces;
  struct route *next[3];
  lw_ix offset; /* at the input */
  bool at_input;
} route;

static route *follow(world *w, lw_ix_pool *pool, lw_arena *arena, lw_value_id id, const lw_ix *index) {
  route *r;
  assert_ok(lw__arena_alloc(arena, 1, sizeof *r, &r));
  if (id == w->value[0].id) {
    r->at_input = true;
    r->offset = lw__access_offset(&w->graph, pool, id, index);
    return r;
  }
  assert_ok(lw__access_step(&w->graph, pool, lw__value(&w->graph, id)->producer, index, arena, &r->pieces));
  assert_true(r->pieces.count <= LW_ARRAY_COUNT(r->next));
  for (uint32_t i = 0; i < r->pieces.count; i++) {
    r->next[i] = follow(w, pool, arena, r->pieces.piece[i].source, r->pieces.piece[i].index);
  }
  return r;
}

static bool holds(const lw_ix_pool *pool, const lw_piece *piece, const int64_t *vars) {
  for (uint32_t i = 0; i < piece->guard_count; i++) {
    int64_t x = lw__ix_eval(pool, piece->guard[i].e, vars);
    if (x < piece->guard[i].lo || x >= piece->guard[i].hi) return false;
  }
  return true;
}

static int64_t read_by(const lw_ix_pool *pool, const route *r, const int64_t *memory, const int64_t *vars) {
  if (r->at_input) return memory[lw__ix_eval(pool, r->offset, vars)];
  const route *taken = NULL;
  for (uint32_t i = 0; i < r->pieces.count; i++) {
    if (!holds(pool, &r->pieces.piece[i], vars)) continue;
    assert_null(taken);
    taken = r->next[i];
  }
  if (taken != NULL) return read_by(pool, taken, memory, vars);
  assert_true(r->pieces.has_fill);
  return r->pieces.fill.i;
}

static void input_memory(const world *w, int64_t *memory) {
  const tensor *x = &w->value[0];
  const uint8_t *order = lw__value(&w->graph, x->id)->storage.order;
  for (int64_t p = 0; p < x->numel; p++) {
    int64_t at[LW_MAX_RANK], offset = 0;
    coordinates(&x->shape, p, at);
    for (uint32_t i = 0; i < x->shape.rank; i++) offset = offset * x->shape.dim[order[i]] + at[order[i]];
    memory[offset] = x->data[p];
  }
}

static void check_value(world *w, const tensor *t) {
  lw_ix_pool pool;
  lw_arena arena = {0};
  assert_ok(lw__ix_pool_init(&pool));
  lw_ix index[LW_MAX_RANK];
  int64_t memory[MAX_NUMEL], vars[64] = {0};
  for (uint32_t d = 0; d < t->shape.rank; d++) {
    index[d] = lw__ix_new_var(&pool, t->shape.dim[d] > 0 ? t->shape.dim[d] : 1);
  }
  input_memory(w, memory);
  route *r = follow(w, &pool, &arena, t->id, index);
  assert_ok(pool.status);
  for (int64_t p = 0; p < t->numel; p++) {
    coordinates(&t->shape, p, vars);
    int64_t got = read_by(&pool, r, memory, vars);
    if (got != t->data[p]) {
      print_error("seed %llu: element %lld is %lld not %lld\n", (unsigned long long)w->seed, (long long)p,
                  (long long)got, (long long)t->data[p]);
      fail();
    }
  }
  lw__arena_deinit(&arena);
  lw__ix_pool_deinit(&pool);
}

static void test_random(void **state) {
  (void)state;
  static world w;
  for (uint64_t seed = 0; seed < ROUNDS; seed++) {
    world_init(&w, seed);
    for (uint32_t i = 0; i < w.count; i++) check_value(&w, &w.value[i]);
    lw__graph_deinit(&w.graph);
  }
}

int main(void) {
  const struct CMUnitTest tests[] = {cmocka_unit_test(test_random)};
  return cmocka_run_group_tests(tests, NULL, NULL);
}

/* test_access.c: access maps against arrays: random graphs of movements over small tensors whose
 * elements are their own numbers, moved once by plain loops and once by following the maps. */
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

/* ---- arrays -----------------------------------------------------------------------------------*/

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

/* ---- random movements: each makes the node and the array it must give -------------------------*/

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
    for (uint32_t d = 0; d < shape.rank && fits; d++)
      fits = d == axis || y->shape.dim[d] == shape.dim[d];
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

/* ---- maps, followed to the input --------------------------------------------------------------*/

typedef struct route {
  lw_pieces pieces;
  struct route *next[3];
  lw_ix offset; /* at the input */
  bool at_input;
} route;

static route *follow(world *w, lw_ix_pool *pool, lw_arena *arena, lw_value_id id,
                     const lw_ix *index) {
  route *r;
  assert_ok(lw__arena_alloc(arena, 1, sizeof *r, &r));
  if (id == w->value[0].id) {
    r->at_input = true;
    r->offset = lw__access_offset(&w->graph, pool, id, index);
    return r;
  }
  assert_ok(lw__access_step(&w->graph, pool, lw__value(&w->graph, id)->producer, index, arena,
                            &r->pieces));
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

static int64_t read_by(const lw_ix_pool *pool, const route *r, const int64_t *memory,
                       const int64_t *vars) {
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
    for (uint32_t i = 0; i < x->shape.rank; i++)
      offset = offset * x->shape.dim[order[i]] + at[order[i]];
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
      print_error("seed %llu: element %lld is %lld not %lld\n", (unsigned long long)w->seed,
                  (long long)p, (long long)got, (long long)t->data[p]);
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

/* ---- single maps ------------------------------------------------------------------------------*/

typedef struct map {
  lw_graph graph;
  lw_ix_pool pool;
  lw_arena arena;
  lw_ix index[LW_MAX_RANK];
} map;

static void map_init(map *m) {
  memset(m, 0, sizeof *m);
  assert_ok(lw__graph_init(&m->graph, NULL));
  assert_ok(lw__ix_pool_init(&m->pool));
}

static void map_deinit(map *m) {
  assert_ok(m->pool.status);
  lw__arena_deinit(&m->arena);
  lw__ix_pool_deinit(&m->pool);
  lw__graph_deinit(&m->graph);
}

static lw_value_id input(map *m, uint32_t rank, const int64_t *dims) {
  lw_value_id id;
  lw_shape shape = lw__shape_of(rank, dims);
  assert_ok(lw__graph_input(&m->graph, LW_DTYPE_F32, &shape, NULL, &id));
  return id;
}

static lw_value_id reshaped(map *m, lw_value_id in, uint32_t rank, const int64_t *dims) {
  lw_value_id id;
  lw_shape shape = lw__shape_of(rank, dims);
  assert_ok(lw__graph_reshape(&m->graph, in, &shape, &id));
  return id;
}

static lw_value_id permuted(map *m, lw_value_id in, const uint8_t *perm) {
  lw_value_id id;
  assert_ok(lw__graph_permute(&m->graph, in, perm, &id));
  return id;
}

static lw_value_id padded(map *m, lw_value_id in, const int64_t *lo, const int64_t *hi) {
  lw_value_id id;
  assert_ok(lw__graph_pad(&m->graph, in, lo, hi, (lw_scalar){.f = 0}, &id));
  return id;
}

/* Variables for the dims of |value|, or one for all its elements. */
static void new_index(map *m, lw_value_id value, bool linear) {
  const lw_shape *shape = &lw__value(&m->graph, value)->shape;
  if (linear) {
    lw__access_unflatten(&m->pool, shape, lw__ix_new_var(&m->pool, lw__shape_numel(shape)),
                         m->index);
    return;
  }
  for (uint32_t d = 0; d < shape->rank; d++) m->index[d] = lw__ix_new_var(&m->pool, shape->dim[d]);
}

/* Follows the first piece of each step; the guards met, and the offset at the end, as text. */
static void check_map(map *m, lw_value_id value, const char *expected) {
  lw_text text = {0};
  lw_ix index[LW_MAX_RANK];
  memcpy(index, m->index, sizeof index);
  for (;;) {
    lw_node_id producer = lw__value(&m->graph, value)->producer;
    if (lw__op_info[lw__node(&m->graph, producer)->op].kind != LW_KIND_MOVE) break;
    lw_pieces pieces;
    assert_ok(lw__access_step(&m->graph, &m->pool, producer, index, &m->arena, &pieces));
    assert_true(pieces.count > 0);
    const lw_piece *piece = &pieces.piece[0];
    for (uint32_t i = 0; i < piece->guard_count; i++) {
      lw__text_add(&text, "%lld <= ", (long long)piece->guard[i].lo);
      lw__ix_print(&m->pool, piece->guard[i].e, &text);
      lw__text_add(&text, " < %lld; ", (long long)piece->guard[i].hi);
    }
    value = piece->source;
    memcpy(index, piece->index, sizeof index);
  }
  lw__ix_print(&m->pool, lw__access_offset(&m->graph, &m->pool, value, index), &text);
  assert_string_equal(lw__text_str(&text), expected);
  lw__text_deinit(&text);
}

static void test_im2col(void **state) {
  (void)state;
  map m;
  map_init(&m);
  lw_value_id x = padded(&m, input(&m, 4, (int64_t[]){8, 64, 56, 56}), (int64_t[]){0, 0, 1, 1},
                         (int64_t[]){0, 0, 1, 1});
  assert_ok(lw__graph_window(&m.graph, x, 2, (uint8_t[]){2, 3}, (int64_t[]){3, 3},
                             (int64_t[]){2, 2}, (int64_t[]){1, 1}, &x));
  x = permuted(&m, x, (uint8_t[]){0, 2, 3, 1, 4, 5});
  x = reshaped(&m, x, 2, (int64_t[]){8 * 28 * 28, 64 * 9});
  new_index(&m, x, false);
  check_map(&m, x,
            "0 <= ((i0//28)%28)*2 + (i1//3)%3 - 1 < 56; 0 <= (i0%28)*2 + i1%3 - 1 < 56; "
            "(i0%28)*2 + (i0//784)*200704 + ((i0//28)%28)*112 + i1%3 + (i1//9)*3136 + "
            "((i1//3)%3)*56 - 57");
  map_deinit(&m);
}

static void test_heads(void **state) {
  (void)state;
  map m;
  map_init(&m);
  lw_value_id x = input(&m, 3, (int64_t[]){2, 128, 12 * 64});
  x = permuted(&m, reshaped(&m, x, 4, (int64_t[]){2, 128, 12, 64}), (uint8_t[]){0, 2, 1, 3});
  new_index(&m, x, false);
  check_map(&m, x, "i0*98304 + i1*64 + i2*768 + i3");
  lw_value_id y = reshaped(&m, permuted(&m, x, (uint8_t[]){0, 2, 1, 3}), 2, (int64_t[]){256, 768});
  new_index(&m, y, true); /* there and back */
  check_map(&m, y, "i4");
  map_deinit(&m);
}

/* A coordinate that a guard keeps inside is known to be inside by the reshapes behind it. */
static void test_guarded_reshape(void **state) {
  (void)state;
  map m;
  map_init(&m);
  lw_value_id x = reshaped(&m, input(&m, 3, (int64_t[]){4, 6, 10}), 2, (int64_t[]){24, 10});
  x = padded(&m, reshaped(&m, x, 2, (int64_t[]){4, 60}), (int64_t[]){1, 3}, (int64_t[]){0, 3});
  new_index(&m, x, false);
  check_map(&m, x, "0 <= i0 - 1 < 4; 0 <= i1 - 3 < 60; i0*60 + i1 - 63");
  map_deinit(&m);
}

static void test_guards(void **state) {
  (void)state;
  map m;
  map_init(&m);
  lw_value_id a = input(&m, 2, (int64_t[]){5, 8}), b = input(&m, 2, (int64_t[]){5, 8}), c;
  assert_ok(lw__graph_concat(&m.graph, (lw_value_id[]){a, b, a}, 3, 1, &c));
  new_index(&m, c, false);
  lw_pieces pieces;
  lw_node_id node = lw__value(&m.graph, c)->producer;
  assert_ok(lw__access_step(&m.graph, &m.pool, node, m.index, &m.arena, &pieces));
  assert_int_equal(pieces.count, 3);
  for (int i = 0; i < 3; i++) {
    assert_int_equal(pieces.piece[i].source, i == 1 ? b : a);
    assert_int_equal(pieces.piece[i].guard_count, 1);
    assert_int_equal(pieces.piece[i].guard[0].lo, 8 * i);
    assert_int_equal(pieces.piece[i].guard[0].hi, 8 * i + 8);
    assert_int_equal(pieces.piece[i].index[1], lw__ix_affine(&m.pool, m.index[1], 1, -8 * i));
  }
  assert_false(pieces.has_fill);
  /* an index of which the range says where it is: one piece, no guard */
  lw_ix inside[2] = {m.index[0], lw__ix_affine(&m.pool, lw__ix_new_var(&m.pool, 4), 2, 8)};
  assert_ok(lw__access_step(&m.graph, &m.pool, node, inside, &m.arena, &pieces));
  assert_int_equal(pieces.count, 1);
  assert_int_equal(pieces.piece[0].source, b);
  assert_int_equal(pieces.piece[0].guard_count, 0);
  /* padding that is never, always, or sometimes met */
  lw_value_id p = padded(&m, a, (int64_t[]){2, 0}, (int64_t[]){0, 3});
  node = lw__value(&m.graph, p)->producer;
  lw_ix outside[2] = {lw__ix_const(&m.pool, 1), m.index[1]};
  assert_ok(lw__access_step(&m.graph, &m.pool, node, outside, &m.arena, &pieces));
  assert_int_equal(pieces.count, 0);
  assert_true(pieces.has_fill);
  inside[0] = lw__ix_affine(&m.pool, lw__ix_new_var(&m.pool, 5), 1, 2);
  inside[1] = lw__ix_new_var(&m.pool, 8);
  assert_ok(lw__access_step(&m.graph, &m.pool, node, inside, &m.arena, &pieces));
  assert_int_equal(pieces.piece[0].guard_count, 0);
  lw_ix edge[2] = {lw__ix_new_var(&m.pool, 7), lw__ix_new_var(&m.pool, 11)};
  assert_ok(lw__access_step(&m.graph, &m.pool, node, edge, &m.arena, &pieces));
  assert_int_equal(pieces.piece[0].guard_count, 2);
  assert_int_equal(pieces.piece[0].guard[0].lo, 0);
  assert_int_equal(pieces.piece[0].guard[0].hi, 5);
  assert_int_equal(pieces.piece[0].guard[1].lo, 0);
  assert_int_equal(pieces.piece[0].guard[1].hi, 8);
  map_deinit(&m);
}

static void test_chase(void **state) {
  (void)state;
  map m;
  map_init(&m);
  lw_value_id x = input(&m, 3, (int64_t[]){4, 6, 10}), source, p;
  lw_value_id y = permuted(&m, reshaped(&m, x, 2, (int64_t[]){24, 10}), (uint8_t[]){1, 0});
  new_index(&m, y, false);
  lw_ix at[LW_MAX_RANK];
  assert_ok(lw__access_chase(&m.graph, &m.pool, y, m.index, &source, at));
  assert_int_equal(source, x);
  assert_int_equal(at[0], lw__ix_div(&m.pool, m.index[1], 6));
  assert_int_equal(at[1], lw__ix_mod(&m.pool, m.index[1], 6));
  assert_int_equal(at[2], m.index[0]);
  p = padded(&m, y, (int64_t[]){0, 1}, (int64_t[]){0, 0});
  lw_value_id q = permuted(&m, p, (uint8_t[]){1, 0});
  new_index(&m, q, false);
  assert_ok(lw__access_chase(&m.graph, &m.pool, q, m.index, &source, at));
  assert_int_equal(source, p); /* no further: a guard */
  assert_int_equal(at[0], m.index[1]);
  map_deinit(&m);
}

static void test_bijection(void **state) {
  (void)state;
  map m;
  map_init(&m);
  lw_ix a = lw__ix_new_var(&m.pool, 4), b = lw__ix_new_var(&m.pool, 6),
        one = lw__ix_new_var(&m.pool, 1);
  lw_ix ab = lw__ix_add(&m.pool, lw__ix_affine(&m.pool, a, 6, 0), b),
        ba = lw__ix_add(&m.pool, lw__ix_affine(&m.pool, b, 4, 0), a);
  const lw_ix vars[3] = {a, b, one};
  assert_true(lw__access_is_bijection(&m.pool, ab, vars, 3, 24));
  assert_true(lw__access_is_bijection(&m.pool, ba, vars, 2, 24));
  assert_false(lw__access_is_bijection(&m.pool, ab, vars, 3, 25));
  assert_false(lw__access_is_bijection(&m.pool, ab, vars, 1, 24)); /* b is not among them */
  assert_false(lw__access_is_bijection(&m.pool, a, vars, 3, 4));   /* the same for all b */
  assert_true(lw__access_is_bijection(&m.pool, a, vars, 1, 4));
  assert_true(lw__access_is_bijection(&m.pool, a, (lw_ix[]){one, a}, 2, 4));
  assert_true(lw__access_is_bijection(&m.pool, one, &one, 1, 1));
  assert_true(lw__access_is_bijection(&m.pool, 0, NULL, 0, 1));
  assert_false(lw__access_is_bijection(&m.pool, lw__ix_affine(&m.pool, ab, 1, 1), vars, 2, 24));
  assert_false(lw__access_is_bijection(&m.pool, lw__ix_affine(&m.pool, ab, 2, 0), vars, 2, 48));
  assert_false(lw__access_is_bijection(
      &m.pool, lw__ix_add(&m.pool, lw__ix_affine(&m.pool, a, 5, 0), b), vars, 2, 24));
  assert_false(lw__access_is_bijection(&m.pool, lw__ix_div(&m.pool, ab, 2), vars, 2, 12));
  map_deinit(&m);
}

static void test_refusals(void **state) {
  (void)state;
  map m;
  map_init(&m);
  lw_value_id x = input(&m, 2, (int64_t[]){3, 4}), y;
  lw_pieces pieces;
  new_index(&m, x, false);
  assert_int_equal(lw__access_step(&m.graph, &m.pool, lw__value(&m.graph, x)->producer, m.index,
                                   &m.arena, &pieces),
                   LW_STATUS_INTERNAL);
  lw_shape shape = lw__shape_of(2, (int64_t[]){3, 4});
  assert_ok(lw__extent_symbol(&m.graph, "batch", &shape.dim[0]));
  assert_ok(lw__graph_input(&m.graph, LW_DTYPE_F32, &shape, NULL, &x));
  y = permuted(&m, x, (uint8_t[]){1, 0});
  assert_int_equal(lw__access_step(&m.graph, &m.pool, lw__value(&m.graph, y)->producer, m.index,
                                   &m.arena, &pieces),
                   LW_STATUS_INTERNAL);
  lw__access_flatten(&m.pool, &shape, m.index);
  assert_int_equal(m.pool.status, LW_STATUS_INTERNAL);
  m.pool.status = LW_OK;
  map_deinit(&m);
}

int main(void) {
  const struct CMUnitTest tests[] = {
      cmocka_unit_test(test_random),    cmocka_unit_test(test_im2col),
      cmocka_unit_test(test_heads),     cmocka_unit_test(test_guarded_reshape),
      cmocka_unit_test(test_guards),    cmocka_unit_test(test_chase),
      cmocka_unit_test(test_bijection), cmocka_unit_test(test_refusals)};
  return cmocka_run_group_tests(tests, NULL, NULL);
}

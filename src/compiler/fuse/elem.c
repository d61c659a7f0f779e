/* elem.c: builds element expressions by walking a group's nodes backwards. */
#include "compiler/fuse/elem.h"

#include <string.h>

enum { max_walk_depth = 6000 }; /* frames are ~400 bytes: stays below 4 MiB of stack */

struct lw_elem_memo {
  lw_value_id value;
  lw_elem pred, elem;
  uint32_t rank;
  const lw_ix *index;
};

lw_status lw__elem_init(lw_elem_pool *pool, const lw_graph *graph, const uint32_t *member,
                        uint32_t stamp) {
  memset(pool, 0, sizeof *pool);
  pool->graph = graph;
  pool->member = member;
  pool->stamp = stamp;
  return lw__ix_pool_init(&pool->ix);
}

void lw__elem_deinit(lw_elem_pool *pool) {
  lw__ix_pool_deinit(&pool->ix);
  lw__arena_deinit(&pool->arena);
  lw_vec_free(&pool->nodes);
  lw_vec_free(&pool->coords);
  lw_vec_free(&pool->memo);
  lw__mem_free(pool->table);
  lw__mem_free(pool->memo_table);
  memset(pool, 0, sizeof *pool);
}

/* ---- hash-consing -----------------------------------------------------------------------------*/

static uint64_t hash_words(uint64_t h, uint64_t word) {
  h ^= word + 0x9e3779b97f4a7c15u + (h << 6) + (h >> 2);
  h *= 0xff51afd7ed558ccdu;
  return h ^ (h >> 32);
}

static uint64_t hash_elem(const lw_elem_node *n) {
  uint64_t h = hash_words((uint64_t)n->kind * 64 + (uint64_t)n->dtype, (uint64_t)n->fn);
  for (int i = 0; i < 3; i++) h = hash_words(h, n->arg[i]);
  h = hash_words(h, ((uint64_t)n->value << 32) | n->ix);
  h = hash_words(hash_words(h, (uint64_t)n->lo), (uint64_t)n->hi);
  return hash_words(h, (uint64_t)n->scalar.i);
}

static bool same_elem(const lw_elem_node *a, const lw_elem_node *b) {
  return a->kind == b->kind && a->dtype == b->dtype && a->fn == b->fn && a->arg[0] == b->arg[0] &&
         a->arg[1] == b->arg[1] && a->arg[2] == b->arg[2] && a->value == b->value &&
         a->ix == b->ix && a->lo == b->lo && a->hi == b->hi && a->scalar.i == b->scalar.i;
}

/* Doubles an open-addressing table of ids when it is half full. */
static lw_status grow_table(uint32_t **table, uint32_t *size, uint32_t count) {
  if (*size > 2 * count) return LW_OK;
  uint32_t bigger = *size ? *size * 2 : 128;
  void *fresh = NULL;
  LW_TRY(lw__mem_resize(&fresh, bigger * sizeof(uint32_t)));
  memset(fresh, 0xff, bigger * sizeof(uint32_t));
  lw__mem_free(*table);
  *table = fresh;
  *size = bigger;
  return LW_OK;
}

static void table_put(uint32_t *table, uint32_t size, uint64_t hash, uint32_t id) {
  uint32_t at = (uint32_t)hash & (size - 1);
  while (table[at] != LW_NONE) at = (at + 1) & (size - 1);
  table[at] = id;
}

static lw_status intern(lw_elem_pool *pool, const lw_elem_node *n, lw_elem *out) {
  uint32_t old_size = pool->table_size;
  LW_TRY(grow_table(&pool->table, &pool->table_size, pool->nodes.count + 1));
  if (pool->table_size != old_size)
    for (uint32_t i = 0; i < pool->nodes.count; i++)
      if (pool->nodes.data[i].kind != LW_ELEM_GATHER)
        table_put(pool->table, pool->table_size, hash_elem(&pool->nodes.data[i]), i);
  uint64_t hash = hash_elem(n);
  /* Gathers refer to ranges of coords and are told apart by the (value, index) memo instead. */
  if (n->kind != LW_ELEM_GATHER) {
    uint32_t at = (uint32_t)hash & (pool->table_size - 1);
    for (; pool->table[at] != LW_NONE; at = (at + 1) & (pool->table_size - 1))
      if (same_elem(&pool->nodes.data[pool->table[at]], n)) return *out = pool->table[at], LW_OK;
    pool->table[at] = pool->nodes.count;
  }
  *out = pool->nodes.count;
  return lw_vec_push(&pool->nodes, *n);
}

static lw_elem_node blank(lw_elem_kind kind, lw_dtype dtype) {
  lw_elem_node n;
  memset(&n, 0, sizeof n);
  n.kind = kind;
  n.dtype = dtype;
  n.arg[0] = n.arg[1] = n.arg[2] = LW_NONE;
  n.value = LW_NONE;
  n.ix = LW_NONE;
  return n;
}

lw_status lw__elem_const(lw_elem_pool *pool, lw_dtype dtype, lw_scalar x, lw_elem *out) {
  lw_elem_node n = blank(LW_ELEM_CONST, dtype);
  n.scalar = x;
  return intern(pool, &n, out);
}

lw_status lw__elem_guard(lw_elem_pool *pool, lw_ix ix, int64_t lo, int64_t hi, lw_elem *out) {
  lw_elem_node n = blank(LW_ELEM_GUARD, LW_DTYPE_BOOL);
  n.ix = ix;
  n.lo = lo;
  n.hi = hi;
  return intern(pool, &n, out);
}

lw_status lw__elem_map(lw_elem_pool *pool, lw_fn fn, lw_dtype dtype, lw_elem a, lw_elem b,
                       lw_elem c, lw_elem *out) {
  if (fn == LW_FN_AND && a == LW_NONE) return *out = b, LW_OK;
  if (fn == LW_FN_AND && (b == LW_NONE || a == b)) return *out = a, LW_OK;
  lw_elem_node n = blank(LW_ELEM_MAP, dtype);
  n.fn = fn;
  n.arg[0] = a;
  n.arg[1] = b;
  n.arg[2] = c;
  return intern(pool, &n, out);
}

/* ---- memo: (value, index, predicate) ----------------------------------------------------------*/

static uint64_t hash_key(lw_value_id value, const lw_ix *index, uint32_t rank, lw_elem pred) {
  uint64_t h = hash_words(value, pred);
  for (uint32_t d = 0; d < rank; d++) h = hash_words(h, index[d]);
  return h;
}

static lw_elem memo_find(const lw_elem_pool *pool, lw_value_id value, const lw_ix *index,
                         uint32_t rank, lw_elem pred) {
  if (!pool->memo_size) return LW_NONE;
  uint32_t at = (uint32_t)hash_key(value, index, rank, pred) & (pool->memo_size - 1);
  for (; pool->memo_table[at] != LW_NONE; at = (at + 1) & (pool->memo_size - 1)) {
    const lw_elem_memo *m = &pool->memo.data[pool->memo_table[at]];
    if (m->value == value && m->pred == pred && !memcmp(m->index, index, rank * sizeof *index))
      return m->elem;
  }
  return LW_NONE;
}

static lw_status memo_put(lw_elem_pool *pool, lw_value_id value, const lw_ix *index, uint32_t rank,
                          lw_elem pred, lw_elem elem) {
  uint32_t old_size = pool->memo_size;
  LW_TRY(grow_table(&pool->memo_table, &pool->memo_size, pool->memo.count + 1));
  if (pool->memo_size != old_size)
    for (uint32_t i = 0; i < pool->memo.count; i++) {
      const lw_elem_memo *m = &pool->memo.data[i];
      table_put(pool->memo_table, pool->memo_size, hash_key(m->value, m->index, m->rank, m->pred),
                i);
    }
  lw_elem_memo m = {value, pred, elem, rank, NULL};
  LW_TRY(lw__arena_dup(&pool->arena, index, rank * sizeof *index, &m.index));
  table_put(pool->memo_table, pool->memo_size, hash_key(value, index, rank, pred),
            pool->memo.count);
  return lw_vec_push(&pool->memo, m);
}

/* ---- the walk ---------------------------------------------------------------------------------*/

static lw_status walk(lw_elem_pool *pool, lw_value_id value, const lw_ix *index, lw_elem pred,
                      int depth, lw_elem *out);

static lw_status load_elem(lw_elem_pool *pool, lw_value_id value, const lw_ix *index, lw_elem pred,
                           lw_elem *out) {
  lw_elem_node n = blank(LW_ELEM_LOAD, lw__value(pool->graph, value)->dtype);
  n.value = value;
  n.ix = lw__access_offset(pool->graph, &pool->ix, value, index);
  n.arg[0] = pred;
  return intern(pool, &n, out);
}

static lw_scalar scalar_of_const(const lw_graph *g, lw_value_id value) {
  const lw_value *v = lw__value(g, value);
  const void *data = lw__producer(g, value)->attr.constant.data;
  lw_scalar s;
  if (lw__dtype_is_float(v->dtype))
    s.f = lw__elem_get_f64(v->dtype, data, 0);
  else
    s.i = lw__elem_get_i64(v->dtype, data, 0);
  return s;
}

static lw_status walk_map(lw_elem_pool *pool, const lw_node *node, const lw_ix *index, lw_elem pred,
                          int depth, lw_elem *out) {
  lw_elem arg[3] = {LW_NONE, LW_NONE, LW_NONE};
  for (uint32_t i = 0; i < node->operand_count; i++)
    LW_TRY(walk(pool, lw__operand(pool->graph, node, i), index, pred, depth, &arg[i]));
  return lw__elem_map(pool, node->attr.fn, lw__value(pool->graph, node->result)->dtype, arg[0],
                      arg[1], arg[2], out);
}

static lw_status piece_guard(lw_elem_pool *pool, const lw_piece *piece, lw_elem *out) {
  *out = LW_NONE;
  for (uint32_t i = 0; i < piece->guard_count; i++) {
    lw_elem g;
    LW_TRY(lw__elem_guard(pool, piece->guard[i].e, piece->guard[i].lo, piece->guard[i].hi, &g));
    LW_TRY(lw__elem_map(pool, LW_FN_AND, LW_DTYPE_BOOL, *out, g, LW_NONE, out));
  }
  return LW_OK;
}

/* Pieces exclude each other and cover everything (or leave |fill|): a chain of selects, the last
 * piece unconditional when there is no fill. */
static lw_status walk_move(lw_elem_pool *pool, const lw_node *node, const lw_ix *index,
                           lw_elem pred, int depth, lw_elem *out) {
  lw_dtype dtype = lw__value(pool->graph, node->result)->dtype;
  lw_pieces pieces;
  LW_TRY(lw__access_step(pool->graph, &pool->ix, (lw_node_id)(node - pool->graph->nodes.data),
                         index, &pool->arena, &pieces));
  lw_elem result = LW_NONE;
  if (pieces.has_fill) LW_TRY(lw__elem_const(pool, dtype, pieces.fill, &result));
  for (uint32_t i = 0; i < pieces.count; i++) {
    const lw_piece *piece = &pieces.piece[i];
    lw_elem guard, both, elem;
    LW_TRY(piece_guard(pool, piece, &guard));
    LW_TRY(lw__elem_map(pool, LW_FN_AND, LW_DTYPE_BOOL, pred, guard, LW_NONE, &both));
    LW_TRY(walk(pool, piece->source, piece->index, both, depth, &elem));
    if (guard == LW_NONE || result == LW_NONE)
      result = elem;
    else
      LW_TRY(lw__elem_map(pool, LW_FN_SELECT, dtype, guard, elem, result, &result));
  }
  if (result == LW_NONE) { /* an empty operand: no element exists, any value will do */
    lw_scalar zero = {.i = 0};
    LW_TRY(lw__elem_const(pool, dtype, zero, &result));
  }
  *out = result;
  return LW_OK;
}

/* Reshapes keep the row-major position, so a gather may look through them when the source is stored
 * row-major. */
static lw_value_id peel_reshapes(const lw_graph *g, lw_value_id value) {
  while (lw__producer(g, value)->op == LW_OP_RESHAPE)
    value = lw__operand(g, lw__producer(g, value), 0);
  return value;
}

static lw_status walk_gather(lw_elem_pool *pool, const lw_node *node, const lw_ix *index,
                             lw_elem pred, int depth, lw_elem *out) {
  const lw_graph *g = pool->graph;
  const lw_value *data = lw__value(g, lw__operand(g, node, 0));
  lw_elem coords[LW_MAX_RANK];
  for (uint32_t d = 0; d < data->shape.rank; d++) {
    int8_t select = node->attr.gather.select[d];
    coords[d] = LW_NONE;
    if (select >= 0)
      LW_TRY(
          walk(pool, lw__operand(g, node, 1 + (uint32_t)select), index, pred, depth, &coords[d]));
  }
  lw_elem_node n = blank(LW_ELEM_GATHER, data->dtype);
  n.value = peel_reshapes(g, lw__operand(g, node, 0));
  n.arg[0] = pred;
  n.coord_begin = pool->coords.count;
  n.coord_count = data->shape.rank;
  int64_t stride[LW_MAX_RANK], step = 1;
  for (uint32_t d = data->shape.rank; d-- > 0;) stride[d] = step, step *= data->shape.dim[d];
  if (n.value == lw__operand(g, node, 0)) { /* directly stored: its own order of dims */
    step = 1;
    for (uint32_t d = data->shape.rank; d-- > 0;) {
      uint32_t at = data->storage.order[d];
      stride[at] = step;
      step *= data->shape.dim[at];
    }
  }
  for (uint32_t d = 0; d < data->shape.rank; d++) {
    int8_t select = node->attr.gather.select[d];
    lw_elem_coord c = {coords[d], select >= 0 ? LW_NONE : index[-1 - select], data->shape.dim[d],
                       stride[d]};
    LW_TRY(lw_vec_push(&pool->coords, c));
  }
  return intern(pool, &n, out);
}

static lw_status walk_uncached(lw_elem_pool *pool, lw_value_id value, const lw_ix *index,
                               lw_elem pred, int depth, lw_elem *out) {
  const lw_graph *g = pool->graph;
  lw_node_id id = lw__value(g, value)->producer;
  const lw_node *node = lw__node(g, id);
  if (lw__op_info[node->op].kind == LW_KIND_MOVE)
    return walk_move(pool, node, index, pred, depth, out);
  if (node->op == LW_OP_CONST && lw__shape_numel(&lw__value(g, value)->shape) == 1)
    return lw__elem_const(pool, lw__value(g, value)->dtype, scalar_of_const(g, value), out);
  if (node->op == LW_OP_IOTA) {
    lw_elem_node n = blank(LW_ELEM_INDEX, lw__value(g, value)->dtype);
    n.ix = index[node->attr.axis];
    return intern(pool, &n, out);
  }
  if (lw__is_widening(g, id)) return walk_map(pool, node, index, pred, depth, out);
  if (pool->member[id] != pool->stamp) return load_elem(pool, value, index, pred, out);
  if (node->op == LW_OP_MAP) return walk_map(pool, node, index, pred, depth, out);
  if (node->op == LW_OP_GATHER) return walk_gather(pool, node, index, pred, depth, out);
  lw_elem_node n = blank(LW_ELEM_LEAF, lw__value(g, value)->dtype);
  n.value = value;
  n.ix = lw__access_flatten(&pool->ix, &lw__value(g, value)->shape, index);
  return intern(pool, &n, out);
}

static lw_status walk(lw_elem_pool *pool, lw_value_id value, const lw_ix *index, lw_elem pred,
                      int depth, lw_elem *out) {
  if (depth > max_walk_depth)
    return lw__fail(pool->graph->diag, LW_STATUS_UNSUPPORTED, pool->graph->where,
                    "a chain of movements and casts is too deep");
  uint32_t rank = lw__value(pool->graph, value)->shape.rank;
  lw_elem found = memo_find(pool, value, index, rank, pred);
  if (found != LW_NONE) return *out = found, LW_OK;
  LW_TRY(walk_uncached(pool, value, index, pred, depth + 1, out));
  LW_TRY(pool->ix.status);
  return memo_put(pool, value, index, rank, pred, *out);
}

lw_status lw__elem_of(lw_elem_pool *pool, lw_value_id value, const lw_ix *index, lw_elem pred,
                      lw_elem *out) {
  return walk(pool, value, index, pred, 0, out);
}

bool lw__elem_depends(const lw_elem_pool *pool, lw_elem e, uint32_t var, uint8_t *seen) {
  if (e == LW_NONE || seen[e]) return false;
  seen[e] = 1;
  const lw_elem_node *n = lw__elem_node(pool, e);
  if (n->ix != LW_NONE && lw__ix_depends(&pool->ix, n->ix, var)) return true;
  for (uint32_t i = 0; i < n->coord_count; i++) {
    const lw_elem_coord *c = &pool->coords.data[n->coord_begin + i];
    if (c->ix != LW_NONE && lw__ix_depends(&pool->ix, c->ix, var)) return true;
    if (lw__elem_depends(pool, c->elem, var, seen)) return true;
  }
  for (int i = 0; i < 3; i++)
    if (lw__elem_depends(pool, n->arg[i], var, seen)) return true;
  return false;
}

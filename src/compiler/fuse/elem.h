/* elem.h: element expressions: how one element of a value is computed from memory, as a hash-consed
 * DAG over index expressions. Built by walking from a value through the map and movement nodes of a
 * group; the cost model counts it, the lowerings print it into kernel IR. Nothing in it depends on
 * a target. */
#ifndef LW_COMPILER_ELEM_H
#define LW_COMPILER_ELEM_H

#include "graph/access.h"
#include "graph/graph.h"
#include "graph/index.h"

typedef uint32_t lw_elem; /* id; LW_NONE: absent */

typedef enum lw_elem_kind {
  LW_ELEM_CONST, /* scalar */
  LW_ELEM_INDEX, /* ix as a number of |dtype| */
  LW_ELEM_GUARD, /* bool: lo <= ix < hi */
  LW_ELEM_MAP,   /* fn of arg[] */
  LW_ELEM_LOAD, /* element |ix| (position in the storage) of |value|; 0 where arg[0] (bool, or NONE)
                   is false */
  LW_ELEM_GATHER, /* element of |value| whose position is sum of stride * coordinate; arg[0] as for
                     LOAD; coordinates in lw_elem_pool.coords */
  LW_ELEM_LEAF,   /* the result of reduction or contraction |value| of the same group, at row-major
                     position |ix| */
} lw_elem_kind;

typedef struct lw_elem_coord { /* one data dim of a gather */
  lw_elem elem;                /* dynamic coordinate (integer), or NONE: then |ix| is it */
  lw_ix ix;
  int64_t extent, stride;
} lw_elem_coord;

typedef struct lw_elem_node {
  lw_elem_kind kind;
  lw_dtype dtype;       /* declared type of the element */
  lw_fn fn;             /* MAP */
  lw_elem arg[3];
  lw_value_id value;    /* LOAD, GATHER, LEAF */
  lw_ix ix;
  int64_t lo, hi;       /* GUARD */
  uint32_t coord_begin, coord_count;
  lw_scalar scalar;     /* CONST */
} lw_elem_node;

typedef struct lw_elem_memo lw_elem_memo;
typedef struct lw_elem_pool {
  const lw_graph *graph;
  lw_ix_pool ix;
  lw_arena arena;
  LW_VEC(lw_elem_node) nodes;
  LW_VEC(lw_elem_coord) coords;
  LW_VEC(lw_elem_memo) memo;      /* (value, index, predicate) -> elem */
  uint32_t *table, table_size;    /* hash-consing of nodes */
  uint32_t *memo_table, memo_size;
  /* Which compute nodes belong to the group being built: those with member[node] == stamp. */
  const uint32_t *member;
  uint32_t stamp;
} lw_elem_pool;

lw_status lw__elem_init(lw_elem_pool *pool, const lw_graph *graph, const uint32_t *member,
                        uint32_t stamp) LW_MUST_CHECK;
void lw__elem_deinit(lw_elem_pool *pool);

/* The element of |value| at |index| (one expression per dim), read only where |pred| holds (NONE:
 * always). Map nodes outside the group, inputs and constants become loads; reductions and
 * contractions of the group become leaves. */
lw_status lw__elem_of(lw_elem_pool *pool, lw_value_id value, const lw_ix *index, lw_elem pred,
                      lw_elem *out) LW_MUST_CHECK;
lw_status lw__elem_map(lw_elem_pool *pool, lw_fn fn, lw_dtype dtype, lw_elem a, lw_elem b,
                       lw_elem c, lw_elem *out) LW_MUST_CHECK;
lw_status lw__elem_guard(lw_elem_pool *pool, lw_ix ix, int64_t lo, int64_t hi,
                         lw_elem *out) LW_MUST_CHECK;
lw_status lw__elem_const(lw_elem_pool *pool, lw_dtype dtype, lw_scalar x,
                         lw_elem *out) LW_MUST_CHECK;

static inline const lw_elem_node *lw__elem_node(const lw_elem_pool *p, lw_elem e) {
  return &p->nodes.data[e];
}
/* Does |e| change when variable number |var| changes? (Not cached: linear in the DAG below |e|;
 * |seen| is scratch of nodes.count bytes, zeroed by the caller.) */
bool lw__elem_depends(const lw_elem_pool *pool, lw_elem e, uint32_t var, uint8_t *seen);

/* A view computes nothing worth a kernel: a movement, or a cast that widens a narrow float (which
 * is part of reading it: narrow floats are carried in f32). Readers look through views to what is
 * stored. */
static inline bool lw__is_move(const lw_graph *g, lw_node_id n) {
  return lw__op_info[lw__node(g, n)->op].kind == LW_KIND_MOVE;
}
static inline bool lw__is_widening(const lw_graph *g, lw_node_id n) {
  const lw_node *node = lw__node(g, n);
  if (node->op != LW_OP_MAP || node->attr.fn != LW_FN_CAST ||
      lw__value(g, node->result)->dtype != LW_DTYPE_F32)
    return false;
  lw_dtype from = lw__value(g, lw__operand(g, node, 0))->dtype;
  return lw__dtype_is_float(from) && from != LW_DTYPE_F64;
}
/* A cast to the type it has: stores a value in the order of its result (pass/pack.c). */
static inline bool lw__is_copy(const lw_graph *g, lw_node_id n) {
  const lw_node *node = lw__node(g, n);
  return node->op == LW_OP_MAP && node->attr.fn == LW_FN_CAST &&
         lw__value(g, node->result)->dtype == lw__value(g, lw__operand(g, node, 0))->dtype;
}
static inline bool lw__is_view(const lw_graph *g, lw_node_id n) {
  return lw__is_move(g, n) || lw__is_widening(g, n);
}

#endif

/* bind.c: numbers for symbols. All new shapes are worked out and checked before any is kept. */
#include <string.h>

#include "graph/infer.h"

typedef struct binding {
  lw_graph *g;
  uint32_t count;  /* extent table entries before the substitution */
  int64_t *number; /* per entry: the symbol's number, or -1 */
  lw_xval *result; /* per entry */
  lw_shape *old;   /* per value */
} binding;

static uint32_t find_symbol(const binding *b, const char *name) {
  for (uint32_t i = 0; i < b->count; i++) {
    const lw_extent_node *n = &b->g->extents.nodes.data[i];
    if (n->op == LW_EXTENT_SYMBOL && strcmp(n->symbol, name) == 0) return i;
  }
  return LW_NONE;
}

/* Names that no extent uses are ignored: one set of numbers may serve several models. */
static lw_status set_numbers(binding *b, const char *const *names, const int64_t *values,
                             uint32_t count) {
  for (uint32_t i = 0; i < b->count; i++) b->number[i] = -1;
  for (uint32_t i = 0; i < count; i++) {
    uint32_t id = find_symbol(b, names[i]);
    if (id == LW_NONE) continue;
    const lw_extent_node *n = &b->g->extents.nodes.data[id];
    if (values[i] < n->lo || values[i] > n->hi || values[i] % n->divisor != 0) {
      return lw__fail(b->g->diag, LW_STATUS_USAGE, lw__graph_where(b->g),
                      "'%s' cannot be %lld: it must be a multiple of %lld from %lld to %lld",
                      names[i], (long long)values[i], (long long)n->divisor, (long long)n->lo,
                      (long long)n->hi);
    }
    if (b->number[id] >= 0 && b->number[id] != values[i]) {
      return lw__fail(b->g->diag, LW_STATUS_USAGE, lw__graph_where(b->g), "two numbers for '%s'",
                      names[i]);
    }
    b->number[id] = values[i];
  }
  return LW_OK;
}

static lw_status refuse_dim(const binding *b, lw_value_id v, uint32_t d, lw_extent was) {
  lw_text text = {0};
  const lw_value *value = lw__value(b->g, v);
  lw__extent_print(b->g, was, &text);
  lw_status status = lw__fail(b->g->diag, LW_STATUS_USAGE, lw__graph_where(b->g),
                              "with these numbers dimension %u (%s) of value %u '%s' is impossible",
                              d, lw__text_str(&text), v, value->name != NULL ? value->name : "");
  lw__text_deinit(&text);
  return status;
}

static lw_status substitute_shapes(binding *b) {
  lw_graph *g = b->g;
  for (lw_value_id v = 0; v < g->values.count; v++) {
    lw_shape *shape = &lw__value(g, v)->shape;
    for (uint32_t d = 0; d < shape->rank; d++) {
      if (lw__extent_is_number(shape->dim[d])) continue;
      lw_xval x = b->result[~shape->dim[d]];
      if (x.impossible || (x.literal && x.v < 0)) return refuse_dim(b, v, d, shape->dim[d]);
      shape->dim[d] = x.v;
    }
  }
  return LW_OK;
}

/* What could not be decided about symbols is decided now: every node must still infer to the shape
 * it has. */
static lw_status check_nodes(const binding *b) {
  lw_graph *g = b->g;
  lw_diag why = {0}, *diag = g->diag;
  lw_status status = LW_OK;
  for (uint32_t n = 0; n < g->nodes.count && status == LW_OK; n++) {
    const lw_node *node = lw__node(g, n);
    const lw_value *v = lw__value(g, node->result);
    lw_shape shape = v->shape;
    lw_dtype dtype = v->dtype;
    if (node->dead) continue;
    g->diag = &why;
    status = lw__infer(g, node->op, &node->attr,
                       node->operand_count ? g->operands.data + node->operand_begin : NULL,
                       node->operand_count, &dtype, &shape);
    g->diag = diag;
    bool same = status == LW_OK && lw__shape_eq(g, &shape, &v->shape);
    if (status == LW_STATUS_OUT_OF_MEMORY || same) continue;
    status = lw__fail(
        diag, LW_STATUS_USAGE, lw__graph_where(g),
        "with these numbers node %u '%s' is impossible: %s", n,
        node->name != NULL ? node->name : "",
        status != LW_OK ? lw__diag_first_error(&why) : "its result would have another shape");
  }
  lw__diag_deinit(&why);
  return status;
}

static lw_status check_all_bound(const binding *b) {
  lw_graph *g = b->g;
  uint8_t *seen = NULL;
  void *memory = NULL;
  lw_text symbols = {0};
  LW_TRY(lw__mem_resize(&memory, (size_t)g->extents.nodes.count + 1));
  seen = memory;
  memset(seen, 0, (size_t)g->extents.nodes.count + 1);
  for (lw_value_id v = 0; v < g->values.count; v++) {
    const lw_shape *shape = &lw__value(g, v)->shape;
    for (uint32_t d = 0; d < shape->rank; d++)
      lw__extent_list_symbols(g, shape->dim[d], seen, &symbols);
  }
  lw_status status = symbols.status;
  if (status == LW_OK && symbols.len > 0) {
    status = lw__fail(g->diag, LW_STATUS_USAGE, lw__graph_where(g), "numbers are needed for %s",
                      lw__text_str(&symbols));
  }
  lw__text_deinit(&symbols);
  lw__mem_free(memory);
  return status;
}

static lw_status bind_all(binding *b, const char *const *names, const int64_t *values,
                          uint32_t count, bool require_all) {
  lw_graph *g = b->g;
  LW_TRY(set_numbers(b, names, values, count));
  LW_TRY(lw__extent_substitute(g, b->number, b->count, b->result));
  for (lw_value_id v = 0; v < g->values.count; v++) b->old[v] = lw__value(g, v)->shape;
  lw_status status = substitute_shapes(b);
  if (status == LW_OK && require_all) status = check_all_bound(b);
  if (status == LW_OK) status = check_nodes(b);
  for (lw_value_id v = 0; v < g->values.count && status != LW_OK; v++)
    lw__value(g, v)->shape = b->old[v];
  return status;
}

lw_status lw__graph_bind_symbols(lw_graph *graph, const char *const *names, const int64_t *values,
                                 uint32_t count, bool require_all) {
  binding b = {.g = graph, .count = graph->extents.nodes.count};
  lw_arena arena = {0};
  lw_status status = lw__arena_alloc(&arena, b.count, sizeof *b.number, &b.number);
  if (status == LW_OK) status = lw__arena_alloc(&arena, b.count, sizeof *b.result, &b.result);
  if (status == LW_OK) status = lw__arena_alloc(&arena, graph->values.count, sizeof *b.old, &b.old);
  if (status == LW_OK) status = bind_all(&b, names, values, count, require_all);
  lw__arena_deinit(&arena);
  return status;
}

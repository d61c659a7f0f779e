/* layout.c: stores values between convolutions channels last (N, spatial dims, C), where more
 * convolutions gain by it than conversions at the borders cost. Inputs and outputs of the graph
 * keep row-major storage; a conversion is no node, it is a kernel that reads one order and writes
 * another. */
#include <string.h>

#include "compiler/pass/rewriter.h"

/* A value that must stay row-major; one that a row-major reader reads. */
enum { LAYOUT_STAYS = 1, LAYOUT_BORDER = 2 };

typedef struct layout_state {
  lw_graph *graph;
  double gain;
  uint32_t *group; /* per value: union-find parent; values of one group share their order */
  double *benefit; /* per group root: bytes saved less bytes that conversions cost */
  uint8_t *fixed;  /* per value: STAYS, BORDER */
} layout_state;

static uint32_t find_group(layout_state *s, uint32_t v) {
  while (s->group[v] != v) v = s->group[v] = s->group[s->group[v]];
  return v;
}

static void join_groups(layout_state *s, uint32_t a, uint32_t b) {
  s->group[find_group(s, a)] = find_group(s, b);
}

/* Images: [N, C, spatial ..] with more than one channel; for all others the orders are the same or
 * mean nothing. */
static bool is_image(const lw_graph *g, lw_value_id v) {
  const lw_shape *shape = &lw__value(g, v)->shape;
  return shape->rank >= 3 && shape->rank <= 5;
}

static bool is_constant(const lw_graph *g, lw_value_id v) {
  const lw_node *node = lw__producer(g, v);
  if (node->op == LW_OP_EXPAND || node->op == LW_OP_RESHAPE)
    node = lw__producer(g, lw__operand(g, node, 0));
  if (node->op == LW_OP_RESHAPE) node = lw__producer(g, lw__operand(g, node, 0));
  return node->op == LW_OP_CONST;
}

static double value_bytes(const lw_graph *g, lw_value_id v) {
  const lw_value *value = lw__value(g, v);
  int64_t numel = lw__shape_numel(&value->shape);
  return numel < 0 ? 0 : (double)numel * (double)lw_dtype_size_bytes(value->dtype);
}

/* Windows of pools: the taps come behind the image's dims, and a reduction takes them away
 * again. */
static bool passes_through(const lw_graph *g, const lw_node *node) {
  if (node->op == LW_OP_MAP || node->op == LW_OP_PAD || node->op == LW_OP_CONCAT ||
      node->op == LW_OP_SLICE)
    return true;
  if (node->op != LW_OP_REDUCE) return false;
  const lw_node *window = lw__producer(g, lw__operand(g, node, 0));
  if (window->op != LW_OP_WINDOW) return false;
  uint32_t image_rank = lw__value(g, node->result)->shape.rank;
  return (node->attr.reduce.axes & ((1u << image_rank) - 1)) == 0;
}

/* The image that operand |k| of |node| comes from: through the window of a pool. */
static lw_value_id image_operand(const lw_graph *g, const lw_node *node, uint32_t k) {
  lw_value_id v = lw__operand(g, node, k);
  return node->op == LW_OP_REDUCE ? lw__operand(g, lw__producer(g, v), 0) : v;
}

static void join_through(layout_state *s, const lw_node *node) {
  const lw_graph *g = s->graph;
  uint32_t rank = lw__value(g, node->result)->shape.rank;
  for (uint32_t k = 0; k < node->operand_count; k++) {
    lw_value_id v = image_operand(g, node, k);
    bool stored = lw__producer(g, v)->op != LW_OP_EXPAND && !is_constant(g, v);
    if (lw__value(g, v)->shape.rank == rank && stored) join_groups(s, v, node->result);
  }
}

/* What other nodes write stays row-major, and what they read had better be. Convolutions, windows
 * and reductions read both orders equally well. */
static void fix_neighbours(layout_state *s, const lw_node *node) {
  const lw_graph *g = s->graph;
  if (node->op == LW_OP_CONV || passes_through(g, node)) return;
  s->fixed[node->result] |= LAYOUT_STAYS;
  if (node->op == LW_OP_WINDOW || node->op == LW_OP_REDUCE) return;
  for (uint32_t k = 0; k < node->operand_count; k++)
    s->fixed[lw__operand(g, node, k)] |= LAYOUT_BORDER;
}

static lw_status layout_alloc(layout_state *s) {
  size_t count = (size_t)s->graph->values.count + 1;
  LW_TRY(lw__mem_resize((void **)&s->group, count * sizeof *s->group));
  LW_TRY(lw__mem_resize((void **)&s->benefit, count * sizeof *s->benefit));
  LW_TRY(lw__mem_resize((void **)&s->fixed, count));
  for (uint32_t v = 0; v < count; v++) s->group[v] = v;
  memset(s->benefit, 0, count * sizeof *s->benefit);
  memset(s->fixed, 0, count);
  return LW_OK;
}

/* What it would bring to store |v| channels last, seen from the convolution that reads or writes
 * it. */
static void add_benefit(layout_state *s, lw_value_id v) {
  s->benefit[find_group(s, v)] += s->gain * value_bytes(s->graph, v);
}

/* A border: the value itself stays row-major, or a row-major reader reads it: one conversion moves
 * it twice. */
static void add_costs(layout_state *s) {
  const lw_graph *g = s->graph;
  for (lw_value_id v = 0; v < g->values.count; v++) {
    if (s->fixed[v] != 0) s->benefit[find_group(s, v)] -= 2 * value_bytes(g, v);
  }
}

static void weigh(layout_state *s) {
  lw_graph *g = s->graph;
  for (lw_node_id n = 0; n < g->nodes.count; n++) {
    const lw_node *node = lw__node(g, n);
    if (passes_through(g, node) && is_image(g, node->result)) join_through(s, node);
    fix_neighbours(s, node);
  }
  for (uint32_t o = 0; o < g->outputs.count; o++) s->fixed[g->outputs.data[o]] |= LAYOUT_STAYS;
  for (lw_node_id n = 0; n < g->nodes.count; n++) {
    const lw_node *node = lw__node(g, n);
    if (node->op != LW_OP_CONV) continue;
    lw_value_id x = lw__operand(g, node, 0);
    /* Only chains gain: at a convolution's own border the caller's order is read and written
     * directly. */
    if ((s->fixed[x] & LAYOUT_STAYS) == 0) add_benefit(s, x);
    if ((s->fixed[node->result] & LAYOUT_STAYS) == 0) add_benefit(s, node->result);
  }
  add_costs(s);
}

static bool store_channels_last(lw_value *value) {
  uint32_t rank = value->shape.rank;
  uint8_t order[LW_MAX_RANK];
  memcpy(order, value->storage.order, sizeof order);
  for (uint32_t d = 1; d + 1 < rank; d++) order[d] = (uint8_t)(d + 1);
  order[rank - 1] = 1;
  bool changed = memcmp(order, value->storage.order, rank) != 0;
  memcpy(value->storage.order, order, rank);
  return changed;
}

lw_status lw__pass_layout(lw_graph *graph, const lw_pass_options *options, lw_diag *diag,
                          bool *out_changed) {
  (void)diag;
  layout_state s = {.graph = graph, .gain = options->layout_gain};
  *out_changed = false;
  if (options->layout_gain <= 0) return LW_OK;
  lw_status status = layout_alloc(&s);
  if (status == LW_OK) weigh(&s);
  for (lw_value_id v = 0; status == LW_OK && v < graph->values.count; v++) {
    bool wanted =
        is_image(graph, v) && (s.fixed[v] & LAYOUT_STAYS) == 0 && s.benefit[find_group(&s, v)] > 0;
    if (wanted && !is_constant(graph, v) && store_channels_last(lw__value(graph, v)))
      *out_changed = true;
  }
  lw__mem_free(s.group);
  lw__mem_free(s.benefit);
  lw__mem_free(s.fixed);
  return status;
}

/* layout.c: the order in which values are stored. Between convolutions channels last (N, spatial
 * dims, C), where more convolutions gain by it than conversions at the borders cost. Values that
 * are read through one permutation alone (heads that become rows again) in the order in which they
 * are read, so that readers find rows where matrix units want them. Inputs and outputs of the graph
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

/* ---- values that are read through one permutation ---------------------------------------------*/

enum { TURN_NONE = UINT32_MAX, TURN_MANY = UINT32_MAX - 1 };

/* reader[v]: the node that alone reads v; TURN_NONE: nothing reads it; TURN_MANY: several do. */
static void find_only_readers(const lw_graph *g, uint32_t *reader) {
  memset(reader, 0xff, g->values.count * sizeof *reader);
  for (lw_node_id n = 0; n < g->nodes.count; n++) {
    const lw_node *node = lw__node(g, n);
    for (uint32_t k = 0; k < node->operand_count; k++) {
      uint32_t *who = &reader[lw__operand(g, node, k)];
      *who = *who == TURN_NONE ? n : TURN_MANY;
    }
  }
  for (uint32_t i = 0; i < g->outputs.count; i++) reader[g->outputs.data[i]] = TURN_MANY;
}

/* The permutation that alone reads |v|, perhaps through a cast that widens, which is part of
 * reading; NULL: there is none. */
static const uint8_t *only_permutation(const lw_graph *g, lw_value_id v, const uint32_t *reader) {
  for (int casts = 0; casts < 2; casts++) {
    if (reader[v] == TURN_NONE || reader[v] == TURN_MANY) return NULL;
    const lw_node *node = lw__node(g, reader[v]);
    if (node->op == LW_OP_PERMUTE) return node->attr.perm;
    lw_dtype from = lw__value(g, v)->dtype;
    bool widens = node->op == LW_OP_MAP && node->attr.fn == LW_FN_CAST &&
                  (from == LW_DTYPE_F16 || from == LW_DTYPE_BF16) &&
                  lw__value(g, node->result)->dtype == LW_DTYPE_F32;
    if (!widens) return NULL;
    v = node->result;
  }
  return NULL;
}

/* Results of products and maps whose innermost dim stays innermost: whoever writes them writes the
 * same runs of elements in another order. */
static bool store_as_read(lw_graph *g, lw_value_id v, const uint32_t *reader) {
  const uint8_t *perm = only_permutation(g, v, reader);
  if (perm == NULL) return false;
  lw_op op = lw__producer(g, v)->op;
  lw_value *value = lw__value(g, v);
  uint32_t rank = value->shape.rank;
  if ((op != LW_OP_DOT && op != LW_OP_MAP) || rank < 3 || perm[rank - 1] != rank - 1) return false;
  for (uint32_t d = 0; d < rank; d++)
    if (value->storage.order[d] != d) return false;
  bool changed = memcmp(value->storage.order, perm, rank) != 0;
  memcpy(value->storage.order, perm, rank);
  return changed;
}

static lw_status store_turned(lw_graph *g, bool *out_changed) {
  uint32_t *reader = NULL;
  LW_TRY(lw__mem_resize((void **)&reader, (g->values.count + 1u) * sizeof *reader));
  find_only_readers(g, reader);
  for (lw_value_id v = 0; v < g->values.count; v++)
    if (store_as_read(g, v, reader)) *out_changed = true;
  lw__mem_free(reader);
  return LW_OK;
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
  return status == LW_OK ? store_turned(graph, out_changed) : status;
}

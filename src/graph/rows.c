/* rows.c: the proof of rows.h: one rule per kind of node, places handed on from operands to
 * results. */
#include "graph/rows.h"

#include <string.h>

/* Extents that hold the symbol behind a larger factor are not looked into. */
#define ROWS_MAX_OUTER 65536

/* A place, and whether the value is known to be the same all along its dim, so that any other
 * division of the extent is as good. */
typedef struct rows_state {
  lw_rows_place place;
  bool any;
} rows_state;

typedef struct rows_prover {
  lw_graph *open;
  const lw_graph *bound;
  const char *symbol;
  lw_extent extent;  /* of the symbol, in |open| */
  int64_t size;      /* B */
  rows_state *state; /* per value */
  lw_arena scratch;
  lw_text *refusal;
} rows_prover;

static const rows_state rows_none = {.place = {.dim = LW_NONE, .outer = 1, .inner = 1}};

static bool place_same(const lw_rows_place *a, const lw_rows_place *b) {
  return a->dim == b->dim && a->outer == b->outer && a->inner == b->inner;
}

/* The proof ends here; |what| is said of node |n|. */
static void LW_PRINTF(3, 4) rows_refuse(rows_prover *p, const lw_node *n, const char *fmt, ...) {
  va_list args;
  if (p->refusal->len > 0) return;
  const char *name = n->name != NULL ? n->name : lw__value(p->bound, n->result)->name;
  if (name != NULL) {
    lw__text_add(p->refusal, "node '%s' (%s) ", name, lw__op_info[n->op].name);
  } else {
    lw__text_add(p->refusal, "%s %%%u ", lw__op_info[n->op].name, n->result);
  }
  va_start(args, fmt);
  lw__text_vadd(p->refusal, fmt, args);
  va_end(args);
}

static const rows_state *operand_state(const rows_prover *p, const lw_node *n, uint32_t i) {
  return &p->state[lw__operand(p->bound, n, i)];
}

/* ---- where the symbol is in a shape -----------------------------------------------------------*/

/* The dim of |n|'s result that holds the symbol and the factor beside it; LW_NONE when none does.
 * False: refused. */
static bool find_dim(rows_prover *p, const lw_node *n, uint32_t *out_dim, int64_t *out_factor) {
  const lw_shape *open = &lw__value(p->open, n->result)->shape;
  const lw_shape *bound = &lw__value(p->bound, n->result)->shape;
  *out_dim = LW_NONE;
  *out_factor = 1;
  for (uint32_t d = 0; d < open->rank; d++) {
    if (lw__extent_is_number(open->dim[d])) continue;
    lw_extent whole;
    int64_t factor = bound->dim[d] / p->size;
    bool fits = lw__extent_make(p->open, LW_EXTENT_MUL, p->extent, factor, &whole) == LW_OK &&
                factor > 0 && lw__extent_provably_equal(p->open, whole, open->dim[d]);
    if (!fits) {
      lw_text text = {0};
      lw__extent_print(p->open, open->dim[d], &text);
      rows_refuse(p, n, "has an extent of %s, which is no multiple of '%s'", lw__text_str(&text),
                  p->symbol);
      lw__text_deinit(&text);
      return false;
    }
    if (*out_dim != LW_NONE) {
      rows_refuse(p, n, "has '%s' in two dimensions", p->symbol);
      return false;
    }
    *out_dim = d;
    *out_factor = factor;
  }
  return true;
}

/* ---- movements: access maps -------------------------------------------------------------------*/

typedef struct rows_step { /* one movement node under one supposed place of its result */
  const rows_prover *p;
  const lw_node *node;
  lw_ix_pool pool;
  bool has_rows;
  lw_ix outer, row, inner; /* the variables o, s, t */
  lw_ix index[LW_MAX_RANK];
  bool constant; /* no index of the operands depends on o, s or t */
} rows_step;

static lw_ix step_var(rows_step *s, int64_t extent) {
  return lw__ix_new_var(&s->pool, extent > 0 ? extent : 1);
}

static lw_ix step_scaled_sum(rows_step *s, lw_ix a, int64_t scale, lw_ix b) {
  return lw__ix_add(&s->pool, lw__ix_affine(&s->pool, a, scale, 0), b);
}

/* Index variables of the result, that of the place in its digits. */
static void step_index(rows_step *s, const lw_rows_place *place) {
  const lw_shape *shape = &lw__value(s->p->bound, s->node->result)->shape;
  s->has_rows = place->dim != LW_NONE;
  s->outer = step_var(s, place->outer);
  s->row = step_var(s, s->p->size);
  s->inner = step_var(s, place->inner);
  lw_ix digits = step_scaled_sum(s, s->outer, s->p->size, s->row);
  for (uint32_t d = 0; d < shape->rank; d++) {
    s->index[d] = d != place->dim ? step_var(s, shape->dim[d])
                                  : step_scaled_sum(s, digits, place->inner, s->inner);
  }
}

static bool step_depends(const rows_step *s, lw_ix e, lw_ix var) {
  return lw__ix_node(&s->pool, var)->kind == LW_IX_VAR &&
         lw__ix_depends(&s->pool, e, lw__ix_var_number(&s->pool, var));
}

/* Notes what |e| says about the operand's being the same along the place. */
static bool step_free(rows_step *s, lw_ix e) {
  bool row = step_depends(s, e, s->row);
  s->constant &= !row && !step_depends(s, e, s->outer) && !step_depends(s, e, s->inner);
  return !row;
}

/* Whether index |e| along the place of an operand has the result's row and nothing else of it. */
static bool step_keeps_row(rows_step *s, const lw_rows_place *from, lw_ix e) {
  if (!s->has_rows) return false;
  s->constant = false;
  lw_ix above = lw__ix_div(&s->pool, e, from->inner);
  lw_ix row = from->outer == 1 ? above : lw__ix_mod(&s->pool, above, s->p->size);
  lw_ix outer =
      from->outer == 1 ? lw__ix_const(&s->pool, 0) : lw__ix_div(&s->pool, above, s->p->size);
  return row == s->row && step_free(s, outer) && step_free(s, lw__ix_mod(&s->pool, e, from->inner));
}

static bool step_piece_holds(rows_step *s, const lw_piece *piece) {
  const rows_state *from = &s->p->state[piece->source];
  uint32_t rank = lw__value(s->p->bound, piece->source)->shape.rank;
  for (uint32_t g = 0; g < piece->guard_count; g++) {
    if (!step_free(s, piece->guard[g].e)) return false;
  }
  for (uint32_t d = 0; d < rank; d++) {
    bool row = d == from->place.dim;
    if (row && from->any) continue;
    if (row ? !step_keeps_row(s, &from->place, piece->index[d]) : !step_free(s, piece->index[d])) {
      return false;
    }
  }
  return true;
}

/* Whether |node| keeps rows apart when its result's are at out->place. */
static lw_status step_holds(rows_prover *p, const lw_node *node, rows_state *state, bool *out) {
  rows_step s = {.p = p, .node = node, .constant = true};
  lw_pieces pieces;
  *out = false;
  lw_status status = lw__ix_pool_init(&s.pool);
  if (status == LW_OK) {
    step_index(&s, &state->place);
    lw_node_id id = (lw_node_id)(node - p->bound->nodes.data);
    status = lw__access_step(p->bound, &s.pool, id, s.index, &p->scratch, &pieces);
    *out = status == LW_OK;
    for (uint32_t i = 0; *out && i < pieces.count; i++)
      *out = step_piece_holds(&s, &pieces.piece[i]);
    if (s.pool.status != LW_OK) *out = false;
    state->any = s.has_rows && s.constant;
  }
  if (status == LW_STATUS_UNSUPPORTED) status = LW_OK; /* too large an expression: not proved */
  lw__ix_pool_deinit(&s.pool);
  return status;
}

/* The first division of the extent under which the rows stay apart, innermost factors first. */
static lw_status rule_move(rows_prover *p, const lw_node *n, int64_t factor, rows_state *out) {
  uint32_t dim = out->place.dim;
  int64_t most = lw__min_i64(factor, ROWS_MAX_OUTER);
  bool holds = false;
  for (int64_t outer = 1; outer <= most && !holds; outer++) {
    if (factor % outer != 0) continue;
    out->place = (lw_rows_place){dim, outer, factor / outer};
    LW_TRY(step_holds(p, n, out, &holds));
  }
  if (!holds) {
    rows_refuse(p, n, "moves rows of '%s' to other places, or takes single rows out", p->symbol);
  }
  return LW_OK;
}

/* ---- everything else --------------------------------------------------------------------------*/

/* Operands of the result's shape: their rows must be at one place. */
static void agree(rows_prover *p, const lw_node *n, uint32_t first, rows_state *out) {
  out->any = out->place.dim != LW_NONE;
  for (uint32_t i = first; i < n->operand_count; i++) {
    const rows_state *s = operand_state(p, n, i);
    if (s->any || s->place.dim == LW_NONE) continue;
    if (out->any) {
      *out = *s;
    } else if (!place_same(&out->place, &s->place)) {
      rows_refuse(p, n, "meets rows of '%s' in two different orders", p->symbol);
    }
  }
}

static void rule_reduce(rows_prover *p, const lw_node *n, rows_state *out) {
  const rows_state *from = operand_state(p, n, 0);
  if (from->place.dim == LW_NONE) return;
  uint32_t kept = 0;
  if (n->attr.reduce.axes >> from->place.dim & 1) {
    rows_refuse(p, n, "reduces over '%s' (dimension %u of its operand)", p->symbol,
                from->place.dim);
    return;
  }
  for (uint32_t d = 0; d < from->place.dim; d++) kept += !(n->attr.reduce.axes >> d & 1);
  *out = *from;
  out->place.dim = kept;
}

/* The place that an operand of a product gives its result; LW_NONE: none. |k|: the summed dim,
 * |free|: the dim that only this operand has. */
static bool dot_operand(rows_prover *p, const lw_node *n, uint32_t i, uint32_t k, rows_state *out) {
  const rows_state *from = operand_state(p, n, i);
  *out = *from;
  if (from->place.dim != k || from->place.dim == LW_NONE) return true;
  rows_refuse(p, n, "sums over '%s' (dimension %u of operand %u)", p->symbol, k, i);
  return false;
}

static void rule_dot(rows_prover *p, const lw_node *n, rows_state *out) {
  uint32_t rank = lw__value(p->bound, n->result)->shape.rank;
  rows_state a, b;
  if (!dot_operand(p, n, 0, rank - 1, &a) || !dot_operand(p, n, 1, rank - 2, &b)) return;
  /* a [B.., M, K] and b [B.., K, N]: M and N stand where the result has them. */
  if (a.place.dim == LW_NONE) a = b;
  if (b.place.dim == LW_NONE) b = a;
  if (a.any) a = b;
  if (b.any) b = a;
  if (!place_same(&a.place, &b.place)) {
    rows_refuse(p, n, "meets rows of '%s' in two different orders", p->symbol);
  }
  *out = a;
}

static void rule_conv(rows_prover *p, const lw_node *n, rows_state *out) {
  const rows_state *x = operand_state(p, n, 0), *w = operand_state(p, n, 1);
  if (w->place.dim != LW_NONE || (x->place.dim != LW_NONE && x->place.dim != 0)) {
    rows_refuse(p, n, "sums over '%s'", p->symbol);
    return;
  }
  *out = *x;
}

/* The dim of |n|'s data that its result's coordinate |dim| selects; LW_NONE: none. */
static uint32_t gather_selected(const rows_prover *p, const lw_node *n, uint32_t dim) {
  uint32_t rank = lw__value(p->bound, lw__operand(p->bound, n, 0))->shape.rank;
  for (uint32_t d = 0; d < rank && dim != LW_NONE; d++) {
    if (n->attr.gather.select[d] == -1 - (int)dim) return d;
  }
  return LW_NONE;
}

static void rule_gather(rows_prover *p, const lw_node *n, rows_state *out) {
  const rows_state *data = operand_state(p, n, 0);
  agree(p, n, 1, out);
  uint32_t selected = gather_selected(p, n, out->place.dim);
  bool rows = data->place.dim != LW_NONE && !data->any;
  if (rows && out->any && selected == data->place.dim) {
    out->place.outer = data->place.outer;
    out->place.inner = data->place.inner;
  }
  bool same = selected == data->place.dim && out->place.outer == data->place.outer &&
              out->place.inner == data->place.inner;
  if (rows && !same) {
    rows_refuse(p, n, "picks rows of '%s' by numbers that the run computes", p->symbol);
  }
  /* Coordinates of rows that select something else are numbers: the same ones for every size. */
  if (selected != LW_NONE && !same && out->place.outer != 1) {
    rows_refuse(p, n, "selects by the position of interleaved rows of '%s'", p->symbol);
  }
  if (selected != LW_NONE) out->any = false;
}

static lw_status prove_node(rows_prover *p, const lw_node *n) {
  uint32_t dim;
  int64_t factor;
  rows_state *out = &p->state[n->result];
  *out = rows_none;
  if (!find_dim(p, n, &dim, &factor)) return LW_OK;
  out->place = (lw_rows_place){dim, 1, factor};
  switch (n->op) {
    case LW_OP_INPUT:
      if (factor != 1) rows_refuse(p, n, "has several values of '%s' in one dimension", p->symbol);
      break;
    case LW_OP_CONST: break;
    case LW_OP_IOTA: out->any = dim != LW_NONE && n->attr.axis != dim; break;
    case LW_OP_MAP: agree(p, n, 0, out); break;
    case LW_OP_REDUCE: rule_reduce(p, n, out); break;
    case LW_OP_DOT: rule_dot(p, n, out); break;
    case LW_OP_CONV: rule_conv(p, n, out); break;
    case LW_OP_GATHER: rule_gather(p, n, out); break;
    default:
      if (lw__op_info[n->op].kind == LW_KIND_MOVE) return rule_move(p, n, factor, out);
      rows_refuse(p, n, "is no operator that keeps rows apart");
  }
  if (p->refusal->len == 0 && out->place.dim != dim) {
    rows_refuse(p, n, "changes the dimension that holds '%s'", p->symbol);
  }
  return LW_OK;
}

/* ---- the graph --------------------------------------------------------------------------------*/

static void find_symbol(rows_prover *p) {
  for (uint32_t i = 0; i < p->open->extents.nodes.count; i++) {
    const lw_extent_node *n = &p->open->extents.nodes.data[i];
    if (n->op == LW_EXTENT_SYMBOL && strcmp(n->symbol, p->symbol) == 0) p->extent = ~(lw_extent)i;
  }
}

/* B: what the symbol became in an input. */
static int64_t find_size(const rows_prover *p) {
  for (uint32_t i = 0; i < p->open->inputs.count; i++) {
    const lw_shape *open = &lw__value(p->open, p->open->inputs.data[i])->shape;
    const lw_shape *bound = &lw__value(p->bound, p->bound->inputs.data[i])->shape;
    for (uint32_t d = 0; d < open->rank; d++) {
      if (open->dim[d] == p->extent) return bound->dim[d];
    }
  }
  return 0;
}

static lw_status prove_all(rows_prover *p) {
  const lw_graph *g = p->bound;
  for (uint32_t n = 0; n < g->nodes.count && p->refusal->len == 0; n++) {
    if (lw__node(g, n)->dead) continue;
    lw__arena_reset(&p->scratch);
    LW_TRY(prove_node(p, lw__node(g, n)));
    if (p->refusal->status != LW_OK) return p->refusal->status;
  }
  for (uint32_t i = 0; i < g->outputs.count && p->refusal->len == 0; i++) {
    const lw_node *n = lw__producer(g, g->outputs.data[i]);
    rows_state *s = &p->state[g->outputs.data[i]];
    if (s->any) s->place.inner *= s->place.outer, s->place.outer = 1;
    if (s->place.outer == 1) continue;
    rows_refuse(p, n, "is output %u and has its rows of '%s' interleaved", i, p->symbol);
  }
  return LW_OK;
}

static lw_status take_places(const rows_prover *p, const lw_value_id *values, uint32_t count,
                             lw_arena *arena, lw_rows_place **out) {
  LW_TRY(lw__arena_alloc(arena, count, sizeof **out, out));
  for (uint32_t i = 0; i < count; i++) (*out)[i] = p->state[values[i]].place;
  return LW_OK;
}

lw_status lw__rows_prove(lw_graph *open, const lw_graph *bound, const char *symbol, lw_arena *arena,
                         lw_rows_proof *out) {
  *out = (lw_rows_proof){.holds = false};
  rows_prover p = {.open = open, .bound = bound, .symbol = symbol, .refusal = &out->refusal};
  lw_arena states = {0};
  lw_status status = lw__arena_alloc(&states, bound->values.count, sizeof *p.state, &p.state);
  find_symbol(&p);
  p.size = find_size(&p);
  if (status == LW_OK && p.size < 1) {
    lw__text_add(&out->refusal, "no input has a dimension '%s'", symbol);
  }
  if (status == LW_OK && out->refusal.len == 0) status = prove_all(&p);
  const lw_graph *g = bound;
  if (status == LW_OK && out->refusal.len == 0) {
    out->holds = true;
    status = take_places(&p, g->inputs.data, g->inputs.count, arena, &out->inputs);
    if (status == LW_OK)
      status = take_places(&p, g->outputs.data, g->outputs.count, arena, &out->outputs);
  }
  lw__arena_deinit(&p.scratch);
  lw__arena_deinit(&states);
  return status;
}

void lw__rows_proof_deinit(lw_rows_proof *proof) { lw__text_deinit(&proof->refusal); }

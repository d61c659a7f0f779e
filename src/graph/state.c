/* state.c: see state.h. */
#include "graph/state.h"

#include <string.h>

#include "graph/access.h"

enum { STATE_DEPTH = 64 }; /* movements between an output and its input */

/* ---- finding ----------------------------------------------------------------------------------*/

static uint32_t find_input(const lw_graph *g, const char *name) {
  for (uint32_t i = 0; i < g->inputs.count; i++) {
    const char *has = lw__value(g, g->inputs.data[i])->name;
    if (has != NULL && strcmp(has, name) == 0) return i;
  }
  return LW_NONE;
}

static uint32_t find_output(const lw_graph *g, const char *name) {
  for (uint32_t i = 0; i < g->outputs.count; i++) {
    const char *has = g->output_names.data[i];
    if (has != NULL && strcmp(has, name) == 0) return i;
  }
  return LW_NONE;
}

static lw_status state_fail(lw_diag *diag, lw_status status, const char *input, const char *output,
                            const char *what) {
  lw_text where = {0};
  lw__text_add(&where, "state %s=%s", input, output);
  (void)lw__fail(diag, status, lw__text_str(&where), "%s", what);
  lw__text_deinit(&where);
  return status;
}

/* Sets axis, rows and added. False: the shapes are no state's. */
static bool find_axis(const lw_graph *g, lw_state *state) {
  const lw_value *in = lw__value(g, g->inputs.data[state->input]);
  const lw_value *out = lw__value(g, g->outputs.data[state->output]);
  state->axis = LW_NONE;
  state->rows = state->added = 0;
  if (in->dtype != out->dtype || in->shape.rank != out->shape.rank) return false;
  for (uint32_t d = 0; d < in->shape.rank; d++) {
    if (in->shape.dim[d] == out->shape.dim[d]) continue;
    if (state->axis != LW_NONE || in->shape.dim[d] > out->shape.dim[d]) return false;
    state->axis = d;
    state->rows = in->shape.dim[d];
    state->added = out->shape.dim[d] - in->shape.dim[d];
  }
  return true;
}

/* ---- the proof that the output begins with the input ------------------------------------------*/

/* On the way to here |e| can only be |value|: a guard says so. */
typedef struct prefix_pin {
  lw_ix e;
  int64_t value;
} prefix_pin;

typedef struct prefix_proof {
  const lw_graph *g;
  lw_ix_pool pool;
  lw_arena arena;
  lw_value_id input;
  const lw_ix *want;
  LW_VEC(prefix_pin) pins;
} prefix_proof;

static bool same_index(const prefix_proof *p, lw_ix got, lw_ix want) {
  int64_t number;
  if (got == want) return true;
  if (!lw__ix_is_const(&p->pool, got, &number)) return false;
  for (uint32_t i = 0; i < p->pins.count; i++) {
    if (p->pins.data[i].e == want && p->pins.data[i].value == number) return true;
  }
  return false;
}

static lw_status pin_guards(prefix_proof *p, const lw_piece *piece) {
  for (uint32_t i = 0; i < piece->guard_count; i++) {
    const lw_guard *guard = &piece->guard[i];
    const lw_ix_node *node = lw__ix_node(&p->pool, guard->e);
    int64_t lo = lw__max_i64(guard->lo, node->lo), hi = lw__min_i64(guard->hi - 1, node->hi);
    if (lo == hi) LW_TRY(lw_vec_push(&p->pins, (prefix_pin){guard->e, lo}));
  }
  return LW_OK;
}

/* Whether element |index| of |value| is element |want| of the input wherever it is asked for. */
static lw_status prove_same(prefix_proof *p, lw_value_id value, const lw_ix *index, uint32_t depth,
                            bool *out) {
  *out = false;
  if (value == p->input) {
    *out = true;
    for (uint32_t d = 0; d < lw__value(p->g, value)->shape.rank; d++) {
      *out &= same_index(p, index[d], p->want[d]);
    }
    return LW_OK;
  }
  lw_node_id producer = lw__value(p->g, value)->producer;
  bool moves = lw__op_info[lw__node(p->g, producer)->op].kind == LW_KIND_MOVE;
  if (!moves || depth == STATE_DEPTH) return LW_OK;
  lw_pieces pieces;
  LW_TRY(lw__access_step(p->g, &p->pool, producer, index, &p->arena, &pieces));
  bool fills = pieces.has_fill && (pieces.count == 0 || pieces.piece[0].guard_count > 0);
  *out = !fills && pieces.count > 0;
  for (uint32_t i = 0; i < pieces.count && *out; i++) {
    uint32_t pins = p->pins.count;
    LW_TRY(pin_guards(p, &pieces.piece[i]));
    LW_TRY(prove_same(p, pieces.piece[i].source, pieces.piece[i].index, depth + 1, out));
    p->pins.count = pins;
  }
  return LW_OK;
}

static lw_status prove_prefix(const lw_graph *g, const lw_state *state, bool *out) {
  prefix_proof p = {.g = g, .input = g->inputs.data[state->input]};
  const lw_shape *shape = &lw__value(g, p.input)->shape;
  lw_ix index[LW_MAX_RANK];
  *out = true;
  if (lw__shape_numel(shape) == 0) return LW_OK;
  lw_status status = lw__ix_pool_init(&p.pool);
  for (uint32_t d = 0; d < shape->rank && status == LW_OK; d++) {
    index[d] = lw__ix_new_var(&p.pool, shape->dim[d]);
  }
  p.want = index;
  if (status == LW_OK) status = prove_same(&p, g->outputs.data[state->output], index, 0, out);
  if (p.pool.status != LW_OK) *out = false;
  if (status == LW_STATUS_UNSUPPORTED) status = LW_OK; /* too large an expression: not proved */
  lw_vec_free(&p.pins);
  lw__arena_deinit(&p.arena);
  lw__ix_pool_deinit(&p.pool);
  return status;
}

lw_status lw__state_find(const lw_graph *g, const char *input, const char *output, lw_diag *diag,
                         lw_state *out) {
  *out = (lw_state){.input = find_input(g, input), .output = find_output(g, output)};
  if (out->input == LW_NONE) {
    return state_fail(diag, LW_STATUS_USAGE, input, output, "the model has no such input");
  }
  if (out->output == LW_NONE) {
    return state_fail(diag, LW_STATUS_USAGE, input, output, "the model has no such output");
  }
  if (!find_axis(g, out)) {
    return state_fail(diag, LW_STATUS_USAGE, input, output,
                      "types must be equal, and shapes, too, but for one dimension in which the "
                      "output may be longer");
  }
  if (out->axis == LW_NONE) return LW_OK;
  bool same;
  LW_TRY(prove_prefix(g, out, &same));
  if (same) return LW_OK;
  return state_fail(diag, LW_STATUS_UNSUPPORTED, input, output,
                    "the output is longer than the input but does not begin with it");
}

/* ---- applying ---------------------------------------------------------------------------------*/

lw_status lw__state_apply(lw_graph *g, const lw_state *state) {
  if (state->axis == LW_NONE) return LW_OK;
  lw_value_id whole = g->outputs.data[state->output], rows;
  lw_shape shape = lw__value(g, whole)->shape;
  int64_t start[LW_MAX_RANK] = {0}, step[LW_MAX_RANK];
  for (uint32_t d = 0; d < LW_MAX_RANK; d++) step[d] = 1;
  start[state->axis] = state->rows;
  shape.dim[state->axis] = state->added;
  LW_TRY(lw__graph_slice(g, whole, start, step, shape.dim, &rows));
  g->outputs.data[state->output] = rows;
  return lw__graph_compact(g);
}

void lw__state_order(const lw_state *state, uint32_t rank, uint8_t *out_order) {
  uint32_t count = 0;
  if (state->axis != LW_NONE) out_order[count++] = (uint8_t)state->axis;
  for (uint32_t d = 0; d < rank; d++) {
    if (d != state->axis) out_order[count++] = (uint8_t)d;
  }
}

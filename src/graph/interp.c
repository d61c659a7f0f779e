/* interp.c: the interpreter's driver: which nodes are needed, when their values die, tensors in and
 * out. */
#include "graph/interp_internal.h"

static const lw__interp_fn interp_op[LW_OP_COUNT] = {
    [LW_OP_IOTA] = lw__interp_iota,       [LW_OP_MAP] = lw__interp_map,
    [LW_OP_RESHAPE] = lw__interp_reshape, [LW_OP_PERMUTE] = lw__interp_permute,
    [LW_OP_EXPAND] = lw__interp_expand,   [LW_OP_SLICE] = lw__interp_slice,
    [LW_OP_PAD] = lw__interp_pad,         [LW_OP_WINDOW] = lw__interp_window,
    [LW_OP_CONCAT] = lw__interp_concat,   [LW_OP_REDUCE] = lw__interp_reduce,
    [LW_OP_DOT] = lw__interp_dot,         [LW_OP_CONV] = lw__interp_conv,
    [LW_OP_GATHER] = lw__interp_gather,
};

/* ---- tensors ---------------------------------------------------------------------------------*/

static lw_status interp_array(interp_run *run, int64_t count, size_t size, interp_tensor *t,
                              void *out_array) {
  size_t bytes;
  *(void **)out_array = NULL;
  if (!lw__mul_size((size_t)lw__max_i64(count, 1), size, &bytes)) return LW_STATUS_OUT_OF_MEMORY;
  if (run->max_bytes != 0 && bytes > run->max_bytes - run->used_bytes) {
    return lw__fail(run->diag, LW_STATUS_OUT_OF_MEMORY, "",
                    "the interpreter needs more than %zu bytes", run->max_bytes);
  }
  LW_TRY(lw__mem_resize(out_array, bytes));
  run->used_bytes += bytes;
  t->bytes += bytes;
  return LW_OK;
}

static lw_status interp_arrays(interp_run *run, bool bounds, interp_tensor *t) {
  if (!lw__dtype_is_float(t->dtype)) {
    LW_TRY(interp_array(run, t->count, sizeof(int64_t), t, &t->i));
    if (!bounds) return LW_OK;
    LW_TRY(interp_array(run, t->count, 1, t, &t->unknown));
    for (int64_t k = 0; k < t->count; k++) t->unknown[k] = 0;
    return LW_OK;
  }
  LW_TRY(interp_array(run, t->count, sizeof(double), t, &t->f));
  if (!bounds) return LW_OK;
  LW_TRY(interp_array(run, t->count, sizeof(double), t, &t->lo));
  LW_TRY(interp_array(run, t->count, sizeof(double), t, &t->hi));
  return interp_array(run, t->count, sizeof(double), t, &t->dev);
}

static lw_status interp_make(interp_run *run, lw_dtype dtype, const lw_shape *shape, bool bounds,
                             interp_tensor *out) {
  *out = (interp_tensor){.dtype = dtype, .rank = shape->rank};
  out->count = lw__shape_numel(shape);
  if (out->count < 0)
    return lw__fail(run->diag, LW_STATUS_USAGE, "", "the interpreter needs shapes of numbers");
  for (uint32_t d = 0; d < shape->rank; d++) out->dim[d] = shape->dim[d];
  lw_status status = interp_arrays(run, bounds, out);
  if (status != LW_OK) lw__interp_free(run, out);
  return status;
}

lw_status lw__interp_alloc(interp_run *run, lw_dtype dtype, const lw_shape *shape,
                           interp_tensor *out) {
  return interp_make(run, dtype, shape, run->ideal, out);
}

void lw__interp_free(interp_run *run, interp_tensor *t) {
  lw__mem_free(t->f);
  lw__mem_free(t->lo);
  lw__mem_free(t->hi);
  lw__mem_free(t->dev);
  lw__mem_free(t->i);
  lw__mem_free(t->unknown);
  run->used_bytes -= t->bytes;
  *t = (interp_tensor){0};
}

int64_t lw__interp_span(const interp_tensor *t, uint32_t begin, uint32_t end) {
  int64_t n = 1;
  for (uint32_t d = begin; d < end; d++) n *= t->dim[d];
  return n;
}

void lw__interp_copy(interp_tensor *dst, int64_t d, const interp_tensor *src, int64_t s) {
  if (src->f != NULL) {
    lw__interp_put(dst, d, lw__interp_get(src, s));
    return;
  }
  dst->i[d] = src->i[s];
  if (dst->unknown != NULL) dst->unknown[d] = lw__interp_unknown(src, s);
}

void lw__interp_mark(interp_tensor *t, int64_t k, uint8_t unknown) {
  if (t->unknown != NULL) t->unknown[k] |= unknown;
  if (t->lo == NULL) return;
  if ((unknown & INTERP_AMBIGUOUS) != 0) {
    t->lo[k] = -INFINITY;
    t->hi[k] = INFINITY;
  }
  if ((unknown & INTERP_DOUBTFUL) != 0) t->dev[k] = NAN;
}

/* Exact values from memory: no bounds are kept. */
static lw_status interp_load(interp_run *run, lw_dtype dtype, const lw_shape *shape,
                             const void *data, interp_tensor *out) {
  LW_TRY(interp_make(run, dtype, shape, false, out));
  for (int64_t k = 0; k < out->count; k++) {
    if (out->f != NULL) {
      out->f[k] = lw__elem_get_f64(dtype, data, k);
    } else {
      out->i[k] = lw__elem_get_i64(dtype, data, k);
    }
  }
  return LW_OK;
}

/* ---- one node --------------------------------------------------------------------------------*/

static lw_status interp_node(interp_run *run, const lw_node *node, const interp_tensor *const *in,
                             interp_tensor *out) {
  const lw_value *value = lw__value(run->graph, node->result);
  if (node->op == LW_OP_CONST)
    return interp_load(run, value->dtype, &value->shape, node->attr.constant.data, out);
  if (node->op >= LW_OP_COUNT || interp_op[node->op] == NULL) {
    return lw__fail(run->diag, LW_STATUS_UNSUPPORTED, node->name,
                    "the interpreter cannot run this operator");
  }
  LW_TRY(lw__interp_alloc(run, value->dtype, &value->shape, out));
  lw_status status = interp_op[node->op](run, node, in, out);
  if (status != LW_OK) lw__interp_free(run, out);
  return status;
}

/* ---- a graph ---------------------------------------------------------------------------------*/

typedef struct interp_state {
  interp_run run;
  interp_tensor *tensors; /* per value */
  uint32_t *uses;         /* per value: reads still to come by needed nodes, and outputs */
  const interp_tensor **in;
} interp_state;

static uint32_t most_operands(const lw_graph *g) {
  uint32_t most = 1;
  for (uint32_t n = 0; n < g->nodes.count; n++) {
    if (g->nodes.data[n].operand_count > most) most = g->nodes.data[n].operand_count;
  }
  return most;
}

/* Counts the uses of values by nodes that some output needs: nodes whose result has none are not
 * run. */
static void count_uses(const lw_graph *g, uint32_t *uses) {
  for (uint32_t o = 0; o < g->outputs.count; o++) uses[g->outputs.data[o]]++;
  for (uint32_t n = g->nodes.count; n-- > 0;) {
    const lw_node *node = lw__node(g, n);
    if (node->dead || uses[node->result] == 0) continue;
    for (uint32_t k = 0; k < node->operand_count; k++) uses[lw__operand(g, node, k)]++;
  }
}

static lw_status state_init(interp_state *s, lw_arena *scratch) {
  const lw_graph *g = s->run.graph;
  LW_TRY(lw__arena_alloc(scratch, g->values.count, sizeof(interp_tensor), &s->tensors));
  LW_TRY(lw__arena_alloc(scratch, g->values.count, sizeof(uint32_t), &s->uses));
  LW_TRY(lw__arena_alloc(scratch, most_operands(g), sizeof(interp_tensor *), (void *)&s->in));
  count_uses(g, s->uses);
  return LW_OK;
}

static void state_deinit(interp_state *s) {
  if (s->tensors == NULL) return;
  for (uint32_t v = 0; v < s->run.graph->values.count; v++)
    lw__interp_free(&s->run, &s->tensors[v]);
}

static lw_status load_inputs(interp_state *s, const lw_host_tensor *inputs) {
  const lw_graph *g = s->run.graph;
  for (uint32_t k = 0; k < g->inputs.count; k++) {
    lw_value_id v = g->inputs.data[k];
    const lw_value *value = lw__value(g, v);
    if (inputs[k].dtype != value->dtype || !lw__shape_eq(g, &inputs[k].shape, &value->shape)) {
      return lw__fail(s->run.diag, LW_STATUS_USAGE, value->name,
                      "input %u has another type or shape", k);
    }
    if (s->uses[v] == 0) continue;
    LW_TRY(interp_load(&s->run, value->dtype, &value->shape, inputs[k].data, &s->tensors[v]));
  }
  return LW_OK;
}

/* What the oracle says about one stored float: a value that overflows its type for certain is an
 * infinity. */
static void result_element(const interp_tensor *t, int64_t k, lw_oracle_tensor *out) {
  interp_iv v = lw__interp_get(t, k);
  if (t->lo != NULL && t->dtype != LW_DTYPE_F8E4M3 && !lw__iv_is_top(v)) {
    double overflow = lw__interp_rounding(t->dtype, 0).overflow;
    if (v.lo >= overflow) v = lw__iv_exact(INFINITY);
    if (v.hi <= -overflow) v = lw__iv_exact(-INFINITY);
  }
  out->f[k] = v.f;
  double reach = v.dev > 0 && isfinite(v.f) ? fabs(v.f) + INTERP_CLEAR * v.dev : 0;
  out->deviation[k] = isnan(v.dev) || reach >= lw__dtype_largest(t->dtype) ? INFINITY : v.dev;
  double spread = fmax(v.hi - v.f, v.f - v.lo);
  if (isnan(v.lo) || v.lo == v.hi) spread = 0;
  out->bound[k] = lw__iv_is_top(v) || isnan(spread) ? INFINITY : spread;
}

static lw_status copy_result(const interp_tensor *t, const lw_shape *shape, lw_arena *arena,
                             lw_oracle_tensor *out) {
  *out = (lw_oracle_tensor){.dtype = t->dtype, .shape = *shape, .count = t->count};
  size_t count = (size_t)lw__max_i64(t->count, 1);
  LW_TRY(lw__arena_alloc(arena, count, sizeof(double), &out->bound));
  LW_TRY(lw__arena_alloc(arena, count, sizeof(double), &out->deviation));
  if (t->f != NULL) {
    LW_TRY(lw__arena_alloc(arena, count, sizeof(double), &out->f));
    for (int64_t k = 0; k < t->count; k++) result_element(t, k, out);
    return LW_OK;
  }
  LW_TRY(lw__arena_alloc(arena, count, sizeof(int64_t), &out->i));
  for (int64_t k = 0; k < t->count; k++) {
    out->i[k] = t->i[k];
    uint8_t unknown = lw__interp_unknown(t, k);
    out->bound[k] = (unknown & INTERP_AMBIGUOUS) != 0 ? INFINITY : 0;
    out->deviation[k] = (unknown & INTERP_DOUBTFUL) != 0 ? INFINITY : 0;
  }
  return LW_OK;
}

static void release_use(interp_state *s, lw_value_id v) {
  if (--s->uses[v] == 0) lw__interp_free(&s->run, &s->tensors[v]);
}

static lw_status run_nodes(interp_state *s) {
  const lw_graph *g = s->run.graph;
  for (uint32_t n = 0; n < g->nodes.count; n++) {
    const lw_node *node = lw__node(g, n);
    if (node->dead || node->op == LW_OP_INPUT || s->uses[node->result] == 0) continue;
    for (uint32_t k = 0; k < node->operand_count; k++)
      s->in[k] = &s->tensors[lw__operand(g, node, k)];
    LW_TRY(interp_node(&s->run, node, s->in, &s->tensors[node->result]));
    for (uint32_t k = 0; k < node->operand_count; k++) release_use(s, lw__operand(g, node, k));
  }
  return LW_OK;
}

static lw_status run_state(interp_state *s, lw_arena *scratch, const lw_host_tensor *inputs,
                           lw_arena *arena, lw_oracle_tensor *out_results) {
  const lw_graph *g = s->run.graph;
  LW_TRY(state_init(s, scratch));
  LW_TRY(load_inputs(s, inputs));
  LW_TRY(run_nodes(s));
  for (uint32_t o = 0; o < g->outputs.count; o++) {
    lw_value_id v = g->outputs.data[o];
    LW_TRY(copy_result(&s->tensors[v], &lw__value(g, v)->shape, arena, &out_results[o]));
  }
  return LW_OK;
}

lw_status lw__interp_run(const lw_graph *graph, lw_interp_mode mode, const lw_host_tensor *inputs,
                         lw_arena *arena, size_t max_bytes, lw_diag *diag,
                         lw_oracle_tensor *out_results) {
  interp_state s = {.run = {graph, diag, mode == LW_INTERP_IDEAL, 0, max_bytes}};
  lw_arena scratch = {0};
  lw_status status = run_state(&s, &scratch, inputs, arena, out_results);
  state_deinit(&s);
  lw__arena_deinit(&scratch);
  return status;
}

/* ---- constant folding ------------------------------------------------------------------------*/

static lw_status store_host(const interp_tensor *t, const lw_shape *shape, lw_arena *arena,
                            lw_host_tensor *out) {
  *out = (lw_host_tensor){.dtype = t->dtype, .shape = *shape};
  size_t size = lw_dtype_size_bytes(t->dtype);
  LW_TRY(lw__arena_alloc(arena, (size_t)lw__max_i64(t->count, 1), size, &out->data));
  for (int64_t k = 0; k < t->count; k++) {
    if (t->f != NULL) {
      lw__elem_set_f64(t->dtype, out->data, k, t->f[k]);
    } else {
      lw__elem_set_i64(t->dtype, out->data, k, t->i[k]);
    }
  }
  return LW_OK;
}

static lw_status fold_loaded(interp_run *run, const lw_node *node, const lw_host_tensor *operands,
                             interp_tensor *in, const interp_tensor **in_ptr, lw_arena *arena,
                             lw_host_tensor *out) {
  for (uint32_t k = 0; k < node->operand_count; k++) {
    LW_TRY(interp_load(run, operands[k].dtype, &operands[k].shape, operands[k].data, &in[k]));
    in_ptr[k] = &in[k];
  }
  interp_tensor result = {0};
  LW_TRY(interp_node(run, node, in_ptr, &result));
  lw_status status = store_host(&result, &lw__value(run->graph, node->result)->shape, arena, out);
  lw__interp_free(run, &result);
  return status;
}

lw_status lw__interp_fold_node(const lw_graph *graph, lw_node_id node_id,
                               const lw_host_tensor *operands, lw_arena *arena,
                               lw_host_tensor *out) {
  const lw_node *node = lw__node(graph, node_id);
  interp_run run = {.graph = graph, .diag = graph->diag};
  lw_arena scratch = {0};
  interp_tensor *in = NULL;
  const interp_tensor **in_ptr = NULL;
  uint32_t loaded = 0;
  lw_status status = lw__arena_alloc(&scratch, node->operand_count + 1, sizeof *in, &in);
  if (status == LW_OK) {
    loaded = node->operand_count;
    status = lw__arena_alloc(&scratch, node->operand_count + 1, sizeof *in_ptr, (void *)&in_ptr);
  }
  if (status == LW_OK) status = fold_loaded(&run, node, operands, in, in_ptr, arena, out);
  for (uint32_t k = 0; k < loaded; k++) lw__interp_free(&run, &in[k]);
  lw__arena_deinit(&scratch);
  return status;
}

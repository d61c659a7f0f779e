/* widen.c: rebuilds a graph with narrow floats kept in f32. On the CPU that saves conversions
 * everywhere; on a GPU small values cost a launch and no bandwidth, so their rounding would be lost
 * accuracy for nothing. */
#include "compiler/pass/widen.h"

#include <string.h>

typedef struct widener {
  const lw_graph *from;
  lw_graph *to;
  lw_value_id *now;  /* per old value: its new value, maybe wider */
  lw_value_id *wide; /* per old value: its f32 form, LW_NONE: not made yet */
  int64_t most_elements;
  bool narrow_factors;
} widener;

static lw_dtype type_now(const widener *w, lw_value_id old) {
  return lw__value(w->to, w->now[old])->dtype;
}

static lw_status as_wide(widener *w, lw_value_id old, lw_value_id *out) {
  if (!lw__dtype_is_half(type_now(w, old))) return *out = w->now[old], LW_OK;
  if (w->wide[old] == LW_NONE)
    LW_TRY(lw__graph_cast(w->to, w->now[old], LW_DTYPE_F32, &w->wide[old]));
  return *out = w->wide[old], LW_OK;
}

/* In the type the old graph declared. */
static lw_status as_declared(widener *w, lw_value_id old, lw_value_id *out) {
  return lw__graph_cast(w->to, w->now[old], lw__value(w->from, old)->dtype, out);
}

/* Results that are worth keeping wide: narrow, made by arithmetic, and few. */
static bool should_widen(const widener *w, const lw_node *node) {
  const lw_value *v = lw__value(w->from, node->result);
  return lw__dtype_is_half(v->dtype) && lw__shape_numel(&v->shape) <= w->most_elements;
}

/* Movements and gathers follow what they move; operands that must agree become wide together,
 * unless most of what is joined is large and narrow: then the small parts are rounded. */
static lw_status follow(widener *w, const lw_node *node, lw_value_id *in) {
  bool wide = false, narrow = false;
  uint32_t moved = node->op == LW_OP_GATHER ? 1 : node->operand_count;
  for (uint32_t i = 0; i < moved; i++) {
    lw_value_id old = lw__operand(w->from, node, i);
    bool now_narrow = lw__dtype_is_half(type_now(w, old));
    wide |= lw__dtype_is_half(lw__value(w->from, old)->dtype) && !now_narrow;
    narrow |= now_narrow;
  }
  bool round = wide && narrow && !should_widen(w, node);
  for (uint32_t i = 0; i < node->operand_count; i++) {
    lw_value_id old = lw__operand(w->from, node, i);
    in[i] = w->now[old];
    if (wide && i < moved) LW_TRY(round ? as_declared(w, old, &in[i]) : as_wide(w, old, &in[i]));
  }
  return LW_OK;
}

/* The f32 form of a value that has its declared type in memory. */
static lw_status as_factor(widener *w, lw_value_id old, lw_value_id *out) {
  if (!lw__dtype_is_half(lw__value(w->from, old)->dtype) || lw__dtype_is_half(type_now(w, old)))
    return as_wide(w, old, out);
  LW_TRY(as_declared(w, old, out));
  return lw__graph_cast(w->to, *out, LW_DTYPE_F32, out);
}

static lw_status compute_operands(widener *w, const lw_node *node, lw_value_id *in) {
  bool wide = should_widen(w, node);
  bool factors = w->narrow_factors && (node->op == LW_OP_DOT || node->op == LW_OP_CONV);
  for (uint32_t i = 0; i < node->operand_count; i++) {
    lw_value_id old = lw__operand(w->from, node, i);
    LW_TRY(!wide     ? as_declared(w, old, &in[i])
           : factors ? as_factor(w, old, &in[i])
                     : as_wide(w, old, &in[i]));
  }
  return LW_OK;
}

static lw_status rebuild_slice(widener *w, const lw_node *node, lw_value_id in, lw_value_id *out) {
  const lw_shape *shape = &lw__value(w->from, node->result)->shape;
  return lw__graph_slice(w->to, in, node->attr.slice.start, node->attr.slice.step, shape->dim, out);
}

static lw_status rebuild_pad(widener *w, const lw_node *node, lw_value_id in, lw_value_id *out) {
  const lw_shape *before = &lw__value(w->from, lw__operand(w->from, node, 0))->shape;
  const lw_shape *after = &lw__value(w->from, node->result)->shape;
  int64_t hi[LW_MAX_RANK];
  for (uint32_t d = 0; d < after->rank; d++)
    hi[d] = after->dim[d] - before->dim[d] - node->attr.pad.lo[d];
  return lw__graph_pad(w->to, in, node->attr.pad.lo, hi, node->attr.pad.value, out);
}

static lw_status rebuild_window(widener *w, const lw_node *node, lw_value_id in, lw_value_id *out) {
  const lw_shape *after = &lw__value(w->from, node->result)->shape;
  uint32_t count = node->attr.window.count;
  int64_t size[4];
  for (uint32_t i = 0; i < count; i++) size[i] = after->dim[after->rank - count + i];
  return lw__graph_window(w->to, in, count, node->attr.window.axis, size, node->attr.window.stride,
                          node->attr.window.dilation, out);
}

static lw_status rebuild_cast(widener *w, const lw_node *node, lw_value_id *out) {
  lw_value_id old = lw__operand(w->from, node, 0);
  lw_dtype to = lw__value(w->from, node->result)->dtype;
  lw_dtype from = type_now(w, old);
  if (should_widen(w, node) && (lw__dtype_is_half(from) || from == LW_DTYPE_F32))
    return as_wide(w, old, out);
  return lw__graph_cast(w->to, w->now[old], should_widen(w, node) ? LW_DTYPE_F32 : to, out);
}

static lw_status rebuild(widener *w, const lw_node *node, const lw_value_id *in, lw_value_id *out) {
  lw_graph *g = w->to;
  const lw_value *v = lw__value(w->from, node->result);
  switch (node->op) {
    case LW_OP_INPUT: return lw__graph_input(g, v->dtype, &v->shape, v->name, out);
    case LW_OP_CONST: return lw__graph_const(g, v->dtype, &v->shape, node->attr.constant.data, out);
    case LW_OP_IOTA: return lw__graph_iota(g, v->dtype, &v->shape, node->attr.axis, out);
    case LW_OP_MAP: return lw__graph_map(g, node->attr.fn, in, out);
    case LW_OP_RESHAPE: return lw__graph_reshape(g, in[0], &v->shape, out);
    case LW_OP_PERMUTE: return lw__graph_permute(g, in[0], node->attr.perm, out);
    case LW_OP_EXPAND: return lw__graph_expand(g, in[0], &v->shape, out);
    case LW_OP_SLICE: return rebuild_slice(w, node, in[0], out);
    case LW_OP_PAD: return rebuild_pad(w, node, in[0], out);
    case LW_OP_WINDOW: return rebuild_window(w, node, in[0], out);
    case LW_OP_CONCAT: return lw__graph_concat(g, in, node->operand_count, node->attr.axis, out);
    case LW_OP_REDUCE:
      return lw__graph_reduce(g, node->attr.reduce.fn, in[0], node->attr.reduce.axes, out);
    case LW_OP_DOT: return lw__graph_dot(g, in[0], in[1], out);
    case LW_OP_CONV: return lw__graph_conv(g, in[0], in[1], &node->attr.conv, out);
    case LW_OP_GATHER:
      return lw__graph_gather(g, in[0], in + 1, node->operand_count - 1, node->attr.gather.select,
                              &v->shape, out);
    default: return LW_STATUS_INTERNAL;
  }
}

static lw_status widen_node(widener *w, lw_node_id id) {
  const lw_node *node = lw__node(w->from, id);
  lw_op_kind kind = lw__op_info[node->op].kind;
  lw_value_id few[16], *in = few;
  if (node->operand_count > LW_ARRAY_COUNT(few))
    LW_TRY(lw__arena_alloc(&w->to->arena, node->operand_count, sizeof *in, &in));
  w->to->where = node->name;
  if (node->op == LW_OP_MAP && node->attr.fn == LW_FN_CAST)
    return rebuild_cast(w, node, &w->now[node->result]);
  if (kind == LW_KIND_MOVE || node->op == LW_OP_GATHER)
    LW_TRY(follow(w, node, in));
  else
    LW_TRY(compute_operands(w, node, in));
  LW_TRY(rebuild(w, node, in, &w->now[node->result]));
  lw_value *made = lw__value(w->to, w->now[node->result]);
  const lw_value *old = lw__value(w->from, node->result);
  if (!made->name && old->name)
    LW_TRY(lw__arena_strndup(&w->to->arena, old->name, strlen(old->name), &made->name));
  return LW_OK;
}

static lw_status widen_all(widener *w) {
  for (uint32_t n = 0; n < w->from->nodes.count; n++)
    if (!lw__node(w->from, n)->dead) LW_TRY(widen_node(w, n));
  w->to->where = NULL;
  for (uint32_t i = 0; i < w->from->outputs.count; i++) {
    lw_value_id out;
    LW_TRY(as_declared(w, w->from->outputs.data[i], &out));
    LW_TRY(lw__graph_output(w->to, out, w->from->output_names.data[i]));
  }
  return lw__graph_compact(w->to);
}

lw_status lw__pass_widen(const lw_graph *graph, int64_t most_elements, bool narrow_factors,
                         lw_diag *diag, lw_graph *out) {
  widener w = {
      .from = graph, .to = out, .most_elements = most_elements, .narrow_factors = narrow_factors};
  LW_TRY(lw__graph_init(out, diag));
  size_t values = graph->values.count + 1u;
  LW_TRY(lw__arena_alloc(&out->arena, values, sizeof *w.now, &w.now));
  LW_TRY(lw__arena_alloc(&out->arena, values, sizeof *w.wide, &w.wide));
  memset(w.wide, 0xff, values * sizeof *w.wide);
  return widen_all(&w);
}

/* batchnorm.c: scales per channel that follow a convolution go into its constant weights: conv(x,
 * W) * s = conv(x, W * s). Shifts stay as additions behind the convolution; between a convolution
 * and a scale they are scaled themselves. */
#include <string.h>

#include "compiler/pass/rewriter.h"

/* One number per channel (dim 1) of a value: where it lies, or a single number for all. */
typedef struct channel_vector {
  lw_dtype dtype;
  const void *data;
  bool single;
  int64_t count; /* channels */
} channel_vector;

static double channel_at(const channel_vector *v, int64_t channel) {
  return lw__elem_get_f64(v->dtype, v->data, v->single ? 0 : channel);
}

/* |v| is constant and varies along dim 1 alone: a constant behind expands and reshapes that only
 * place its dim. */
static bool find_channel_vector(const lw_graph *g, lw_value_id v, channel_vector *out) {
  const lw_shape *shape = &lw__value(g, v)->shape;
  if (shape->rank < 2 || shape->dim[1] < 0) return false;
  out->count = shape->dim[1];
  const lw_node *node = lw__producer(g, v);
  lw_value_id root;
  if (lw__is_splat(g, v, &root)) {
    out->single = true;
  } else {
    out->single = false;
    root = node->op == LW_OP_EXPAND ? lw__operand(g, node, 0) : v;
    const lw_shape *narrow = &lw__value(g, root)->shape;
    for (uint32_t d = 0; d < narrow->rank; d++) {
      if (narrow->dim[d] != (d == 1 ? out->count : 1)) return false;
    }
    if (lw__producer(g, root)->op == LW_OP_RESHAPE) {
      root = lw__operand(g, lw__producer(g, root), 0);
    }
  }
  const lw_node *source = lw__producer(g, root);
  if (source->op != LW_OP_CONST) return false;
  out->dtype = lw__value(g, root)->dtype;
  out->data = source->attr.constant.data;
  return true;
}

/* map(x, c) with a channel vector c on either side (for commutative |fn|). */
static bool split_channels(const lw_graph *g, const lw_node *node, lw_value_id *out_x,
                           channel_vector *out_c, lw_value_id *out_constant) {
  for (uint32_t k = 0; k < 2; k++) {
    *out_constant = lw__operand(g, node, 1 - k);
    *out_x = lw__operand(g, node, k);
    if (find_channel_vector(g, *out_constant, out_c)) return true;
  }
  return false;
}

static bool read_once(const lw_rewriter *rw, lw_value_id v) { return rw->uses.data[v] == 1; }

/* The convolution below |v| and a cast to a wider type; NULL when there is none. */
static const lw_node *conv_below(const lw_graph *g, lw_value_id v, lw_value_id *out_conv) {
  if (lw__is_map(g, v, LW_FN_CAST)) v = lw__operand(g, lw__producer(g, v), 0);
  *out_conv = v;
  const lw_node *node = lw__producer(g, v);
  return node->op == LW_OP_CONV ? node : NULL;
}

/* Once per scale, however many rounds look at it. */
static bool already_said(const lw_diag *diag, const char *where, const char *text) {
  for (uint32_t m = 0; diag != NULL && m < diag->messages.count; m++) {
    const lw_message *message = &diag->messages.data[m];
    if (strcmp(message->where, where) == 0 && strcmp(message->text, text) == 0) return true;
  }
  return false;
}

static void explain(const lw_rewriter *rw, lw_node_id scale, const lw_node *conv, const char *why) {
  lw_text text = {0};
  const char *where = lw__node_label(rw->graph, scale);
  lw__text_add(&text, "the scale per channel stays behind convolution '%s': %s",
               lw__node_label(rw->graph, lw__value(rw->graph, conv->result)->producer), why);
  if (!already_said(rw->diag, where, lw__text_str(&text))) {
    lw__note(rw->diag, LW_SEVERITY_NOTE, where, "%s", lw__text_str(&text));
  }
  lw__text_deinit(&text);
}

static const char *reason_to_keep(const lw_rewriter *rw, const lw_node *conv, lw_value_id scaled) {
  const lw_graph *g = rw->graph;
  lw_value_id w = lw__operand(g, conv, 1);
  lw_dtype dtype = lw__value(g, w)->dtype;
  bool narrow = dtype != LW_DTYPE_F32 && dtype != LW_DTYPE_F64;
  if (!read_once(rw, conv->result)) return "its result is read by others too, or is an output";
  if (scaled != conv->result && !read_once(rw, scaled))
    return "its result is read by others too, or is an output";
  if (lw__producer(g, w)->op != LW_OP_CONST) return "its weights are not constant";
  if (narrow && !rw->options->batchnorm_narrow) return "narrow weights would be rounded once more";
  return NULL;
}

/* W * s in f64, rounded once. Result channel of weight element: its first dim, or for transposed
 * convolutions the second within the group of the first. */
static lw_status scale_weights(lw_rewriter *rw, const lw_node *conv, const channel_vector *s,
                               lw_value_id *out) {
  lw_graph *g = rw->graph;
  lw_value_id w = lw__operand(g, conv, 1);
  lw_value value = *lw__value(g, w);
  const void *from = lw__producer(g, w)->attr.constant.data;
  int64_t count = lw__shape_numel(&value.shape), inner = 1;
  void *to = NULL;
  LW_TRY(lw__arena_alloc(&g->arena, (size_t)lw__max_i64(count, 1), lw_dtype_size_bytes(value.dtype),
                         &to));
  for (uint32_t d = 2; d < value.shape.rank; d++) inner *= value.shape.dim[d];
  int64_t second = value.shape.dim[1], per_group = value.shape.dim[0] / conv->attr.conv.group;
  for (int64_t k = 0; k < count; k++) {
    int64_t first = k / inner / second;
    int64_t channel =
        conv->attr.conv.transposed ? first / per_group * second + k / inner % second : first;
    lw__elem_set_f64(value.dtype, to, k,
                     lw__elem_get_f64(value.dtype, from, k) * channel_at(s, channel));
  }
  return lw__graph_const(g, value.dtype, &value.shape, to, out);
}

/* mul(cast?(conv(x, W)), s) -> cast?(conv(x, W * s)) */
static lw_status fold_scale(lw_rewriter *rw, lw_node_id n, lw_value_id x, const channel_vector *s,
                            lw_value_id *out) {
  lw_graph *g = rw->graph;
  lw_value_id conv_value;
  const lw_node *found = conv_below(g, x, &conv_value);
  if (found == NULL) return LW_OK;
  const char *why = reason_to_keep(rw, found, x);
  if (why != NULL) {
    explain(rw, n, found, why);
    return LW_OK;
  }
  lw_node conv = *found;
  lw_dtype dtype = lw__value(g, lw__node(g, n)->result)->dtype;
  lw_value_id w = LW_NONE;
  g->where = conv.name;
  LW_TRY(scale_weights(rw, &conv, s, &w));
  LW_TRY(lw__graph_conv(g, lw__operand(g, &conv, 0), w, &conv.attr.conv, out));
  return lw__graph_cast(g, *out, dtype, out);
}

/* One value per channel, as |fn| of two vectors in f64, rounded to |like|'s type and broadcast to
 * its shape. */
static lw_status combine_vectors(lw_rewriter *rw, lw_fn fn, const channel_vector *a,
                                 const channel_vector *b, lw_value_id like, lw_value_id *out) {
  lw_graph *g = rw->graph;
  lw_value value = *lw__value(g, like);
  lw_shape narrow = {.rank = value.shape.rank};
  void *data = NULL;
  LW_TRY(lw__arena_alloc(&g->arena, (size_t)lw__max_i64(a->count, 1),
                         lw_dtype_size_bytes(value.dtype), &data));
  for (int64_t c = 0; c < a->count; c++) {
    lw__elem_set_f64(value.dtype, data, c,
                     lw__fn_eval_f64(fn, channel_at(a, c), channel_at(b, c), 0));
  }
  for (uint32_t d = 0; d < narrow.rank; d++) narrow.dim[d] = d == 1 ? a->count : 1;
  LW_TRY(lw__graph_const(g, value.dtype, &narrow, data, out));
  return lw__graph_expand(g, *out, &value.shape, out);
}

/* Behind a convolution: (y + b) * s -> y * s + b * s, and (y + b) + c -> y + (b + c). */
static lw_status merge_shift(lw_rewriter *rw, const lw_node *node, lw_value_id x,
                             const channel_vector *c, lw_value_id constant, lw_value_id *out) {
  lw_graph *g = rw->graph;
  lw_value_id y, shift_constant, conv_value, in[2];
  channel_vector shift;
  if (!lw__is_map(g, x, LW_FN_ADD) || !read_once(rw, x)) return LW_OK;
  if (!split_channels(g, lw__producer(g, x), &y, &shift, &shift_constant)) return LW_OK;
  const lw_node *conv = conv_below(g, y, &conv_value);
  if (conv == NULL || reason_to_keep(rw, conv, y) != NULL) return LW_OK;
  LW_TRY(combine_vectors(rw, node->attr.fn, &shift, c, x, &in[1]));
  if (node->attr.fn == LW_FN_ADD) {
    in[0] = y;
    return lw__graph_map(g, LW_FN_ADD, in, out);
  }
  LW_TRY(lw__graph_map(g, LW_FN_MUL, (lw_value_id[2]){y, constant}, &in[0]));
  return lw__graph_map(g, LW_FN_ADD, in, out);
}

static lw_status batchnorm_node(lw_rewriter *rw, lw_node_id n, lw_value_id *out) {
  lw_graph *g = rw->graph;
  lw_node node = *lw__node(g, n);
  channel_vector c;
  lw_value_id x, constant;
  if (n >= rw->original_nodes) return LW_OK; /* the next round counts their reads */
  if (node.op != LW_OP_MAP || (node.attr.fn != LW_FN_MUL && node.attr.fn != LW_FN_ADD))
    return LW_OK;
  if (!lw__dtype_is_float(lw__value(g, node.result)->dtype)) return LW_OK;
  if (!split_channels(g, &node, &x, &c, &constant)) return LW_OK;
  if (node.attr.fn == LW_FN_MUL) {
    LW_TRY(fold_scale(rw, n, x, &c, out));
    if (*out != node.result) return LW_OK;
  }
  return merge_shift(rw, &node, x, &c, constant, out);
}

lw_status lw__pass_batchnorm(lw_graph *graph, const lw_pass_options *options, lw_diag *diag,
                             bool *out_changed) {
  return lw__rewrite(graph, options, diag, batchnorm_node, NULL, out_changed);
}

/* op_rnn.c: RNN, GRU and LSTM, unrolled over time. The products with the inputs of all steps are
 * one product; each step then adds the product with the state. Gate order is ONNX's: RNN i; GRU z r
 * h; LSTM i o f c. Quantized layers (com.microsoft) have their 8-bit weights turned over: [D, K,
 * 4H]. */
#include <string.h>

#include "compiler/onnx/import_internal.h"
#include "compiler/onnx/op.h"

enum { RNN_GATES_MAX = 4, RNN_STEPS_MAX = 4096 };

typedef struct lw_rnn_activation {
  lw_activation kind;
  double alpha, beta;
} lw_rnn_activation;

typedef struct lw_rnn {
  lw_rnn_kind kind;
  uint32_t gates, directions;
  bool reverse, batch_first, reset_after, couple, quantized;
  double clip; /* 0: none */
  int64_t steps, hidden;
  lw_extent batch;
  lw_dtype dtype, compute;
  lw_value_id x;       /* [T, B, I] in the compute type */
  lw_value_id lengths; /* [B, 1] i64; LW_NONE: all steps count for all samples */
  lw_rnn_activation act[2][3];
} lw_rnn;

static const struct {
  const char *name;
  lw_activation kind;
  double alpha, beta;
} rnn_activations[] = {
    {"Relu", LW_ACT_RELU, 0, 0},
    {"Tanh", LW_ACT_TANH, 0, 0},
    {"Sigmoid", LW_ACT_SIGMOID, 0, 0},
    {"Affine", LW_ACT_AFFINE, 1, 0},
    {"LeakyRelu", LW_ACT_LEAKY_RELU, 0.01, 0},
    {"ThresholdedRelu", LW_ACT_THRESHOLDED_RELU, 1, 0},
    {"ScaledTanh", LW_ACT_SCALED_TANH, 1, 1},
    {"HardSigmoid", LW_ACT_HARD_SIGMOID, 0.2, 0.5},
    {"Elu", LW_ACT_ELU, 1, 0},
    {"Softsign", LW_ACT_SOFTSIGN, 0, 0},
    {"Softplus", LW_ACT_SOFTPLUS, 0, 0},
};

static bool rnn_name_is(lw_str a, const char *b) {
  if (a.len != strlen(b)) return false;
  for (size_t i = 0; i < a.len; i++) {
    if ((a.ptr[i] | 0x20) != (b[i] | 0x20)) return false;
  }
  return true;
}

static bool rnn_takes_alpha(lw_activation kind) {
  return kind != LW_ACT_RELU && kind != LW_ACT_TANH && kind != LW_ACT_SIGMOID &&
         kind != LW_ACT_SOFTSIGN && kind != LW_ACT_SOFTPLUS;
}
static bool rnn_takes_beta(lw_activation kind) {
  return kind == LW_ACT_AFFINE || kind == LW_ACT_SCALED_TANH || kind == LW_ACT_HARD_SIGMOID;
}

static void rnn_read_activations(lw_call *c, lw_rnn *r) {
  static const lw_activation usual[3][3] = {{LW_ACT_TANH, 0, 0},
                                            {LW_ACT_SIGMOID, LW_ACT_TANH, 0},
                                            {LW_ACT_SIGMOID, LW_ACT_TANH, LW_ACT_TANH}};
  uint32_t per = r->kind == LW_RNN_RNN ? 1 : r->kind == LW_RNN_GRU ? 2 : 3, alphas = 0, betas = 0;
  const lw_proto_attr *names = lw__call_attr(c, "activations"),
                      *alpha = lw__call_attr(c, "activation_alpha"),
                      *beta = lw__call_attr(c, "activation_beta");
  if (names != NULL && names->strings.count != per * r->directions)
    lw__call_invalid(c, "%u activations", names->strings.count);
  for (uint32_t k = 0; k < per * r->directions && lw__call_ok(c); k++) {
    lw_rnn_activation *act = &r->act[k / per][k % per];
    act->kind = usual[r->kind][k % per];
    if (names == NULL) continue;
    bool known = false;
    for (size_t i = 0; i < LW_ARRAY_COUNT(rnn_activations) && !known; i++) {
      known = rnn_name_is(names->strings.data[k], rnn_activations[i].name);
      if (!known) continue;
      *act = (lw_rnn_activation){rnn_activations[i].kind, rnn_activations[i].alpha,
                                 rnn_activations[i].beta};
      if (rnn_takes_alpha(act->kind) && alpha != NULL && alphas < alpha->floats.count)
        act->alpha = (double)alpha->floats.data[alphas++];
      if (rnn_takes_beta(act->kind) && beta != NULL && betas < beta->floats.count)
        act->beta = (double)beta->floats.data[betas++];
    }
    if (!known) lw__call_unsupported(c, "an activation function");
  }
}

static lw_value_id rnn_activate(lw_call *c, const lw_rnn *r, uint32_t direction, uint32_t which,
                                lw_value_id x) {
  if (r->clip > 0) {
    x = lw__b_map2s(c, LW_FN_MAX, lw__b_map2s(c, LW_FN_MIN, x, r->clip), -r->clip);
  }
  const lw_rnn_activation *act = &r->act[direction][which];
  return lw__op_apply_activation(c, act->kind, x, act->alpha, act->beta);
}

/* Input |i| with its direction taken out of dim |axis|; LW_NONE when left out. */
static lw_value_id rnn_raw(lw_call *c, const lw_rnn *r, uint32_t i, uint32_t rank, uint32_t axis,
                           uint32_t direction) {
  lw_value_id v = lw__call_in(c, i);
  if (v == LW_NONE) return LW_NONE;
  if (lw__b_rank(c, v) != rank || lw__b_dim(c, v, axis) != r->directions) {
    lw__call_invalid(c, "input %u has another shape than the layer", i);
    return LW_NONE;
  }
  return lw__b_squeeze(c, lw__b_slice(c, v, axis, direction, 1, 1), axis);
}

/* The same in the compute type. */
static lw_value_id rnn_operand(lw_call *c, const lw_rnn *r, uint32_t i, uint32_t rank,
                               uint32_t axis, uint32_t direction) {
  lw_value_id v = rnn_raw(c, r, i, rank, axis, direction);
  return v == LW_NONE ? v : lw__b_cast(c, v, r->compute);
}

/* The matrix [K, G*H] of input |i| with the scale and zero point of inputs |params| and after. */
static lw_quantized rnn_matrix(lw_call *c, const lw_rnn *r, uint32_t i, uint32_t params,
                               uint32_t direction) {
  lw_quantized m = {rnn_raw(c, r, i, 3, 0, direction), LW_NONE, LW_NONE};
  if (!r->quantized) {
    if (m.matrix != LW_NONE) m.matrix = lw__b_swap(c, lw__b_cast(c, m.matrix, r->compute), 0, 1);
    return m;
  }
  if (lw__call_in(c, params) == LW_NONE || lw__call_in(c, params + 1) == LW_NONE) {
    lw__call_invalid(c, "input %u has no scale or no zero point", i);
    return m;
  }
  m.scale = rnn_operand(c, r, params, lw__b_rank(c, lw__call_in(c, params)), 0, direction);
  m.zero = rnn_raw(c, r, params + 1, lw__b_rank(c, lw__call_in(c, params + 1)), 0, direction);
  return m;
}

static lw_value_id rnn_product(lw_call *c, const lw_rnn *r, lw_value_id x, const lw_quantized *w) {
  return r->quantized ? lw__op_dynamic_product(c, x, w) : lw__b_matmul(c, x, w->matrix);
}

static lw_value_id rnn_gate(lw_call *c, const lw_rnn *r, lw_value_id x, uint32_t gate) {
  return lw__b_slice(c, x, lw__b_rank(c, x) - 1, (int64_t)gate * r->hidden, 1, r->hidden);
}

/* What one direction needs in every step. */
typedef struct lw_rnn_weights {
  uint32_t direction;
  lw_value_id xw;          /* [T, B, G*H]: input products with their biases */
  lw_quantized recurrent;  /* [H, G*H] */
  lw_value_id reset_bias;  /* GRU with linear_before_reset: [H] */
  lw_value_id peephole[3]; /* LSTM: i, o, f; or LW_NONE */
} lw_rnn_weights;

static void rnn_prepare(lw_call *c, const lw_rnn *r, uint32_t direction, lw_rnn_weights *w) {
  *w = (lw_rnn_weights){.direction = direction,
                        .xw = LW_NONE,
                        .reset_bias = LW_NONE,
                        .peephole = {LW_NONE, LW_NONE, LW_NONE}};
  lw_quantized in = rnn_matrix(c, r, 1, 8, direction);
  w->recurrent = rnn_matrix(c, r, 2, 10, direction);
  lw_value_id bias = rnn_operand(c, r, 3, 2, 0, direction);
  lw_extent width = r->hidden * (int64_t)r->gates;
  if (in.matrix == LW_NONE || w->recurrent.matrix == LW_NONE) return;
  if (lw__b_dim(c, in.matrix, 1) != width || lw__b_dim(c, w->recurrent.matrix, 1) != width ||
      lw__b_dim(c, w->recurrent.matrix, 0) != r->hidden) {
    lw__call_invalid(c, "its weights do not fit hidden_size %lld", (long long)r->hidden);
    return;
  }
  w->xw = rnn_product(c, r, r->x, &in);
  if (bias != LW_NONE) {
    if (lw__b_dim(c, bias, 0) != 2 * width) lw__call_invalid(c, "its bias has another size");
    lw_value_id wb = lw__b_slice(c, bias, 0, 0, 1, width),
                rb = lw__b_slice(c, bias, 0, width, 1, width);
    if (r->reset_after) { /* the bias of the reset product stays apart */
      w->reset_bias = lw__b_slice(c, rb, 0, 2 * r->hidden, 1, r->hidden);
      lw_shape zeros = {1, {r->hidden}};
      lw_value_id none = lw__b_broadcast(c, lw__b_scalar(c, r->compute, 0), &zeros);
      lw_value_id kept = lw__b_slice(c, rb, 0, 0, 1, 2 * r->hidden);
      rb = lw__b_concat(c, (lw_value_id[]){kept, none}, 2, 0);
    }
    w->xw = lw__b_add(c, w->xw, lw__b_add(c, wb, rb));
  }
  lw_value_id p = r->kind == LW_RNN_LSTM ? rnn_operand(c, r, 7, 2, 0, direction) : LW_NONE;
  for (uint32_t k = 0; k < 3 && p != LW_NONE; k++) w->peephole[k] = rnn_gate(c, r, p, k);
}

static lw_value_id rnn_peep(lw_call *c, const lw_rnn_weights *w, uint32_t which, lw_value_id gate,
                            lw_value_id cell) {
  if (w->peephole[which] == LW_NONE) return gate;
  return lw__b_add(c, gate, lw__b_mul(c, w->peephole[which], cell));
}

static void rnn_step_lstm(lw_call *c, const lw_rnn *r, const lw_rnn_weights *w, lw_value_id xt,
                          lw_value_id *h, lw_value_id *cell) {
  lw_value_id all = lw__b_add(c, xt, rnn_product(c, r, *h, &w->recurrent));
  lw_value_id i =
      rnn_activate(c, r, w->direction, 0, rnn_peep(c, w, 0, rnn_gate(c, r, all, 0), *cell));
  lw_value_id f = r->couple ? lw__b_sub(c, lw__b_scalar(c, r->compute, 1), i)
                            : rnn_activate(c, r, w->direction, 0,
                                           rnn_peep(c, w, 2, rnn_gate(c, r, all, 2), *cell));
  lw_value_id g = rnn_activate(c, r, w->direction, 1, rnn_gate(c, r, all, 3));
  *cell = lw__b_add(c, lw__b_mul(c, f, *cell), lw__b_mul(c, i, g));
  lw_value_id o =
      rnn_activate(c, r, w->direction, 0, rnn_peep(c, w, 1, rnn_gate(c, r, all, 1), *cell));
  lw_rnn unclipped = *r;
  unclipped.clip = 0;
  *h = lw__b_mul(c, o, rnn_activate(c, &unclipped, w->direction, 2, *cell));
}

static void rnn_step_gru(lw_call *c, const lw_rnn *r, const lw_rnn_weights *w, lw_value_id xt,
                         lw_value_id *h) {
  int64_t n = r->hidden;
  lw_value_id zr = lw__b_matmul(c, *h, lw__b_slice(c, w->recurrent.matrix, 1, 0, 1, 2 * n));
  lw_value_id rh = lw__b_slice(c, w->recurrent.matrix, 1, 2 * n, 1, n);
  lw_value_id z = rnn_activate(c, r, w->direction, 0,
                               lw__b_add(c, rnn_gate(c, r, xt, 0), rnn_gate(c, r, zr, 0)));
  lw_value_id reset = rnn_activate(c, r, w->direction, 0,
                                   lw__b_add(c, rnn_gate(c, r, xt, 1), rnn_gate(c, r, zr, 1)));
  lw_value_id inner;
  if (r->reset_after) {
    inner = lw__b_matmul(c, *h, rh);
    if (w->reset_bias != LW_NONE) inner = lw__b_add(c, inner, w->reset_bias);
    inner = lw__b_mul(c, reset, inner);
  } else {
    inner = lw__b_matmul(c, lw__b_mul(c, reset, *h), rh);
  }
  lw_value_id g = rnn_activate(c, r, w->direction, 1, lw__b_add(c, rnn_gate(c, r, xt, 2), inner));
  lw_value_id rest = lw__b_sub(c, lw__b_scalar(c, r->compute, 1), z);
  *h = lw__b_add(c, lw__b_mul(c, rest, g), lw__b_mul(c, z, *h));
}

/* States of one direction: |steps[t]| is the state after input t. */
static void rnn_run(lw_call *c, const lw_rnn *r, uint32_t direction, lw_value_id *steps,
                    lw_value_id *h, lw_value_id *cell) {
  lw_rnn_weights w;
  lw_shape state = {2, {r->batch, r->hidden}};
  bool backward = r->reverse || direction == 1;
  uint32_t axis = r->batch_first ? 1 : 0;
  rnn_prepare(c, r, direction, &w);
  *h = rnn_operand(c, r, 5, 3, axis, direction);
  *cell = r->kind == LW_RNN_LSTM ? rnn_operand(c, r, 6, 3, axis, direction) : LW_NONE;
  lw_value_id zero = lw__b_broadcast(c, lw__b_scalar(c, r->compute, 0), &state);
  if (*h == LW_NONE) *h = zero;
  if (*cell == LW_NONE) *cell = zero;
  for (int64_t n = 0; n < r->steps && lw__call_ok(c); n++) {
    int64_t t = backward ? r->steps - 1 - n : n;
    lw_value_id xt = lw__b_squeeze(c, lw__b_slice(c, w.xw, 0, t, 1, 1), 0);
    lw_value_id old_h = *h, old_cell = *cell;
    if (r->kind == LW_RNN_LSTM)
      rnn_step_lstm(c, r, &w, xt, h, cell);
    else if (r->kind == LW_RNN_GRU)
      rnn_step_gru(c, r, &w, xt, h);
    else
      *h = rnn_activate(c, r, direction, 0, lw__b_add(c, xt, rnn_product(c, r, *h, &w.recurrent)));
    steps[t] = *h;
    if (r->lengths != LW_NONE) { /* behind its end a sample keeps its state and gives zeros */
      lw_value_id counts = lw__b_map2s(c, LW_FN_GT, r->lengths, (double)t);
      steps[t] = lw__b_select(c, counts, *h, zero);
      *h = lw__b_select(c, counts, *h, old_h);
      if (r->kind == LW_RNN_LSTM) *cell = lw__b_select(c, counts, *cell, old_cell);
    }
    if (c->graph->nodes.count > c->im->limits.nodes)
      lw__call_unsupported(c, "more operations than the limit");
  }
}

/* Parts of each direction [.., ] become one tensor with the direction at |axis|. */
static lw_value_id rnn_join(lw_call *c, const lw_rnn *r, const lw_value_id *parts, uint32_t axis) {
  lw_value_id both[2] = {LW_NONE, LW_NONE};
  for (uint32_t d = 0; d < r->directions; d++) both[d] = lw__b_unsqueeze(c, parts[d], axis);
  return lw__b_cast(c, lw__b_concat(c, both, r->directions, axis), r->dtype);
}

/* Lengths that are all the whole length need no care. */
static void rnn_read_lengths(lw_call *c, lw_rnn *r) {
  lw_value_id lengths = lw__call_in(c, 4);
  lw_shape shape = lw__b_shape(c, lengths);
  bool whole = lengths == LW_NONE || lw__contents_has(&c->im->contents, lengths);
  for (int64_t i = 0, n = lw__shape_numel(&shape); lengths != LW_NONE && whole && i < n; i++) {
    lw_content_elem e;
    (void)lw__contents_get(&c->im->contents, lengths, i, &e);
    whole = e.kind == LW_CONTENT_NUMBER && e.value.i == r->steps;
  }
  r->lengths = LW_NONE;
  if (whole || !lw__call_ok(c)) return;
  if (shape.rank != 1) lw__call_invalid(c, "sequence_lens must be a vector");
  r->lengths = lw__b_unsqueeze(c, lw__b_cast(c, lengths, LW_DTYPE_I64), 1);
}

static bool rnn_read(lw_call *c, lw_rnn *r) {
  static const char *const directions[] = {"forward", "reverse", "bidirectional", NULL};
  lw_value_id x = lw__call_in(c, 0);
  uint32_t direction = lw__call_choice(c, "direction", directions);
  r->quantized = c->op->arg == LW_RNN_QUANTIZED_LSTM;
  r->kind = r->quantized ? LW_RNN_LSTM : (lw_rnn_kind)c->op->arg;
  r->gates = r->kind == LW_RNN_RNN ? 1 : r->kind == LW_RNN_GRU ? 3 : 4;
  r->directions = direction == 2 ? 2 : 1;
  r->reverse = direction == 1;
  r->batch_first = lw__call_int(c, "layout", 0) != 0;
  r->reset_after = r->kind == LW_RNN_GRU && lw__call_int(c, "linear_before_reset", 0) != 0;
  r->couple = r->kind == LW_RNN_LSTM && lw__call_int(c, "input_forget", 0) != 0;
  r->clip = lw__call_float(c, "clip", 0);
  lw__call_ignore(c, "output_sequence");
  if (lw__b_rank(c, x) != 3 || lw__b_rank(c, lw__call_in(c, 2)) != 3)
    lw__call_invalid(c, "its input must have 3 dimensions");
  r->dtype = lw__b_dtype(c, x);
  x = lw__b_up(c, x);
  r->x = r->batch_first ? lw__b_swap(c, x, 0, 1) : x;
  r->compute = lw__b_dtype(c, x);
  r->steps = lw__call_static(c, lw__b_dim(c, r->x, 0));
  r->batch = lw__b_dim(c, r->x, 1);
  r->hidden = lw__call_static(c, lw__b_dim(c, lw__call_in(c, 2), r->quantized ? 1 : 2));
  if (lw__call_int(c, "hidden_size", r->hidden) != r->hidden)
    lw__call_invalid(c, "hidden_size does not fit the weights");
  if (r->steps > RNN_STEPS_MAX)
    lw__call_unsupported(c, "%lld steps, more than %d", (long long)r->steps, RNN_STEPS_MAX);
  if (r->hidden < 1 || r->hidden > INT32_MAX)
    lw__call_invalid(c, "hidden_size %lld", (long long)r->hidden);
  rnn_read_activations(c, r);
  rnn_read_lengths(c, r);
  return lw__call_ok(c);
}

/* All states of one direction: [T, B, H] (layout 0) or [B, T, H]. */
static lw_value_id rnn_stack(lw_call *c, const lw_rnn *r, lw_value_id *steps) {
  uint32_t axis = r->batch_first ? 1 : 0;
  if (r->steps == 0) {
    lw_shape none = {3, {0, r->batch, r->hidden}};
    if (r->batch_first) none = (lw_shape){3, {r->batch, 0, r->hidden}};
    return lw__b_broadcast(c, lw__b_scalar(c, r->compute, 0), &none);
  }
  for (int64_t t = 0; t < r->steps; t++) steps[t] = lw__b_unsqueeze(c, steps[t], axis);
  return lw__b_concat(c, steps, (uint32_t)r->steps, axis);
}

void lw__op_rnn(lw_call *c) {
  lw_rnn r = {0};
  lw_value_id all[2] = {LW_NONE, LW_NONE}, h[2] = {LW_NONE, LW_NONE}, cell[2] = {LW_NONE, LW_NONE};
  if (!rnn_read(c, &r)) return;
  lw_value_id *steps = lw__b_alloc(c, r.steps, sizeof *steps);
  if (steps == NULL) return;
  for (uint32_t d = 0; d < r.directions && lw__call_ok(c); d++) {
    rnn_run(c, &r, d, steps, &h[d], &cell[d]);
    if (lw__call_wants(c, 0) && lw__call_ok(c)) all[d] = rnn_stack(c, &r, steps);
  }
  if (lw__call_wants(c, 0)) lw__call_out(c, 0, rnn_join(c, &r, all, r.batch_first ? 2 : 1));
  if (lw__call_wants(c, 1)) lw__call_out(c, 1, rnn_join(c, &r, h, r.batch_first ? 1 : 0));
  if (lw__call_wants(c, 2)) lw__call_out(c, 2, rnn_join(c, &r, cell, r.batch_first ? 1 : 0));
}

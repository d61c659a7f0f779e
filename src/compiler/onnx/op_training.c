/* op_training.c: optimizers of ai.onnx.preview.training: one step for each tensor. */
#include "compiler/onnx/op.h"

typedef struct lw_step {
  lw_value_id rate, count; /* learning rate, training step, scalars */
  lw_value_id x, gradient; /* with the regularization in it */
  uint32_t tensors;
} lw_step;

/* Tensor |i| of |tensors|, in states of kind |k|: inputs are grouped by kind. */
static lw_value_id step_in(lw_call *c, const lw_step *s, uint32_t k, uint32_t i) {
  return lw__call_in(c, 2 + k * s->tensors + i);
}

/* |kinds|: tensors, gradients and states. */
static bool step_begin(lw_call *c, lw_step *s, uint32_t kinds) {
  lw_shape scalar = {0};
  s->tensors = c->in_count < 2 ? 0 : (c->in_count - 2) / kinds;
  if (s->tensors == 0 || c->in_count != 2 + kinds * s->tensors)
    lw__call_invalid(c, "its %u inputs do not fit", c->in_count);
  if (!lw__call_ok(c)) return false;
  s->rate = lw__b_reshape(c, lw__call_in(c, 0), &scalar);
  s->count = lw__b_cast(c, lw__b_reshape(c, lw__call_in(c, 1), &scalar), lw__b_dtype(c, s->rate));
  return lw__call_ok(c);
}

static void step_tensor(lw_call *c, lw_step *s, uint32_t i, double norm) {
  s->x = step_in(c, s, 0, i);
  s->gradient = lw__b_add(c, lw__b_muls(c, s->x, norm), step_in(c, s, 1, i));
}

/* |later| after the first step, |first| at it. */
static lw_value_id step_choose(lw_call *c, const lw_step *s, lw_value_id later, double first) {
  lw_value_id one = lw__b_scalar(c, lw__b_dtype(c, s->count), first);
  return lw__b_select(c, lw__b_map2s(c, LW_FN_GT, s->count, 0), later, one);
}

void lw__op_momentum(lw_call *c) {
  static const char *const modes[] = {"standard", "nesterov", NULL};
  double alpha = lw__call_float(c, "alpha", 0), beta = lw__call_float(c, "beta", 0);
  double norm = lw__call_float(c, "norm_coefficient", 0);
  bool nesterov = lw__call_choice(c, "mode", modes) == 1;
  lw_step s;
  if (!step_begin(c, &s, 3)) return;
  lw_value_id factor = step_choose(c, &s, lw__b_scalar(c, lw__b_dtype(c, s.count), beta), 1);
  for (uint32_t i = 0; i < s.tensors; i++) {
    step_tensor(c, &s, i, norm);
    lw_value_id kept = lw__b_muls(c, step_in(c, &s, 2, i), alpha);
    lw_value_id v = lw__b_add(c, kept, lw__b_mul(c, factor, s.gradient));
    lw_value_id move = nesterov ? lw__b_add(c, s.gradient, lw__b_muls(c, v, alpha)) : v;
    lw__call_out(c, i, lw__b_sub(c, s.x, lw__b_mul(c, s.rate, move)));
    lw__call_out(c, s.tensors + i, v);
  }
}

void lw__op_adagrad(lw_call *c) {
  double decay = lw__call_float(c, "decay_factor", 0), epsilon = lw__call_float(c, "epsilon", 0);
  double norm = lw__call_float(c, "norm_coefficient", 0);
  lw_step s;
  if (!step_begin(c, &s, 3)) return;
  lw_value_id rate = lw__b_div(c, s.rate, lw__b_adds(c, lw__b_muls(c, s.count, decay), 1));
  for (uint32_t i = 0; i < s.tensors; i++) {
    step_tensor(c, &s, i, norm);
    lw_value_id square = lw__b_mul(c, s.gradient, s.gradient);
    lw_value_id h = lw__b_add(c, step_in(c, &s, 2, i), square);
    lw_value_id root = lw__b_adds(c, lw__b_map1(c, LW_FN_SQRT, h), epsilon);
    lw_value_id move = lw__b_div(c, lw__b_mul(c, rate, s.gradient), root);
    lw__call_out(c, i, lw__b_sub(c, s.x, move));
    lw__call_out(c, s.tensors + i, h);
  }
}

/* rate * sqrt(1 - beta^count) / (1 - alpha^count) */
static lw_value_id adam_rate(lw_call *c, const lw_step *s, double alpha, double beta) {
  lw_dtype dtype = lw__b_dtype(c, s->count);
  lw_value_id one = lw__b_scalar(c, dtype, 1);
  lw_value_id a = lw__b_map2(c, LW_FN_POW, lw__b_scalar(c, dtype, alpha), s->count);
  lw_value_id b = lw__b_map2(c, LW_FN_POW, lw__b_scalar(c, dtype, beta), s->count);
  lw_value_id root = lw__b_map1(c, LW_FN_SQRT, lw__b_sub(c, one, b));
  return lw__b_mul(c, s->rate, step_choose(c, s, lw__b_div(c, root, lw__b_sub(c, one, a)), 1));
}

void lw__op_adam(lw_call *c) {
  double alpha = lw__call_float(c, "alpha", 0.9), beta = lw__call_float(c, "beta", 0.999);
  double epsilon = lw__call_float(c, "epsilon", 0), norm = lw__call_float(c, "norm_coefficient", 0);
  double post = lw__call_float(c, "norm_coefficient_post", 0);
  lw_step s;
  if (!step_begin(c, &s, 4)) return;
  lw_value_id rate = adam_rate(c, &s, alpha, beta);
  for (uint32_t i = 0; i < s.tensors; i++) {
    step_tensor(c, &s, i, norm);
    lw_value_id square = lw__b_mul(c, s.gradient, s.gradient);
    lw_value_id v = lw__b_add(c, lw__b_muls(c, step_in(c, &s, 2, i), alpha),
                              lw__b_muls(c, s.gradient, 1 - alpha));
    lw_value_id h =
        lw__b_add(c, lw__b_muls(c, step_in(c, &s, 3, i), beta), lw__b_muls(c, square, 1 - beta));
    lw_value_id root = lw__b_adds(c, lw__b_map1(c, LW_FN_SQRT, h), epsilon);
    lw_value_id x = lw__b_sub(c, s.x, lw__b_mul(c, rate, lw__b_div(c, v, root)));
    lw__call_out(c, i, lw__b_muls(c, x, 1 - post));
    lw__call_out(c, s.tensors + i, v);
    lw__call_out(c, 2 * s.tensors + i, h);
  }
}

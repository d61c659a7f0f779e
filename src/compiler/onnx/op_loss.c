/* op_loss.c: cross entropies. The class of each position is met by comparing class numbers, so that
 * nothing is gathered and the loss fuses with the softmax before it. */
#include "compiler/onnx/op.h"

typedef enum lw_loss_reduction { LOSS_MEAN, LOSS_SUM, LOSS_NONE } lw_loss_reduction;
static const char *const loss_reductions[] = {"mean", "sum", "none", NULL};

/* |log_p| [N, C, ..] in f32 or wider, |target| [N, ..]. */
static lw_value_id loss_of(lw_call *c, lw_value_id log_p, lw_value_id target, lw_value_id weight) {
  lw_loss_reduction reduction = (lw_loss_reduction)lw__call_choice(c, "reduction", loss_reductions);
  bool ignores = lw__call_attr(c, "ignore_index") != NULL;
  int64_t ignored = lw__call_int(c, "ignore_index", 0);
  uint32_t rank = lw__b_rank(c, log_p);
  if (rank < 2 || lw__b_rank(c, target) != rank - 1)
    lw__call_invalid(c, "the target does not fit the scores");
  if (!lw__call_ok(c)) return LW_NONE;
  lw_dtype dtype = lw__b_dtype(c, log_p);
  lw_value_id zero = lw__b_scalar(c, dtype, 0);
  lw_shape classes = {1, {lw__b_dim(c, log_p, 1)}};
  target = lw__b_cast(c, target, LW_DTYPE_I64);
  lw_value_id number = lw__b_along(c, lw__b_iota(c, LW_DTYPE_I64, &classes, 0), 1, rank);
  lw_value_id hit = lw__b_map2(c, LW_FN_EQ, lw__b_unsqueeze(c, target, 1), number);
  lw_value_id loss = lw__b_map1(
      c, LW_FN_NEG, lw__b_reduce(c, LW_RED_SUM, lw__b_select(c, hit, log_p, zero), 2, false));
  lw_value_id w = LW_NONE;
  if (weight != LW_NONE) {
    lw_value_id per_class = lw__b_along(c, lw__b_cast(c, weight, dtype), 1, rank);
    w = lw__b_reduce(c, LW_RED_SUM, lw__b_select(c, hit, per_class, zero), 2, false);
  }
  if (ignores) {
    lw_value_id skip =
        lw__b_map2(c, LW_FN_EQ, target, lw__b_const(c, LW_DTYPE_I64, &(lw_shape){0}, &ignored));
    loss = lw__b_select(c, skip, zero, loss);
    w = lw__b_select(c, skip, zero, w == LW_NONE ? lw__b_scalar(c, dtype, 1) : w);
  }
  if (weight != LW_NONE) loss = lw__b_mul(c, loss, w);
  uint32_t all = lw__all_axes(rank - 1);
  if (reduction == LOSS_NONE) return loss;
  if (reduction == LOSS_SUM) return lw__b_reduce(c, LW_RED_SUM, loss, all, false);
  if (w == LW_NONE) return lw__b_mean(c, loss, all, false);
  return lw__b_div(c, lw__b_reduce(c, LW_RED_SUM, loss, all, false),
                   lw__b_reduce(c, LW_RED_SUM, w, all, false));
}

void lw__op_softmax_cross_entropy_loss(lw_call *c) {
  lw_value_id x = lw__call_in(c, 0);
  lw_dtype dtype = lw__b_dtype(c, x);
  if (lw__b_rank(c, x) < 2) lw__call_invalid(c, "the scores have no classes");
  lw_value_id log_p = lw__b_softmax(c, lw__b_up(c, x), 2, true);
  lw__call_out(c, 0, lw__b_cast(c, loss_of(c, log_p, lw__call_in(c, 1), lw__call_in(c, 2)), dtype));
  if (lw__call_wants(c, 1)) lw__call_out(c, 1, lw__b_cast(c, log_p, dtype));
}

void lw__op_negative_log_likelihood_loss(lw_call *c) {
  lw_value_id x = lw__call_in(c, 0);
  lw_value_id y = loss_of(c, lw__b_up(c, x), lw__call_in(c, 1), lw__call_in(c, 2));
  lw__call_out(c, 0, lw__b_cast(c, y, lw__b_dtype(c, x)));
}

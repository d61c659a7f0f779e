/* test_names.c: one network, however it is written, gives the same kernels by name: other names,
 * another order of nodes, operands swapped, composites spelled by hand, movements that cancel. And
 * networks that differ give other kernels. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include <cmocka.h>

#include "lib/spell.h"
#include "lib/trial.h"

static const char *const profiles[] = {"sm_90a", "cpu"};
static const int64_t whole[2] = {24, 96}, line[1] = {96}, square[2] = {96, 96};

typedef void (*writer)(lw_speller *s);

/* The kernels of what |write| writes for |profile|, sorted: the order of independent kernels is
 * nobody's promise. */
static void kernels_of(writer write, bool swap, const char *prefix, const char *profile,
                       lw_text *out) {
  lw_speller s;
  lw_graph g;
  lw_trial t;
  lw_spell_init(&s);
  s.swap = swap;
  s.prefix = prefix;
  write(&s);
  assert_int_equal(lw_spell_finish(&s, &g), LW_OK);
  assert_int_equal(lw_trial_init(&g, profile, true, &t), LW_OK);
  const lw_plan *plan = &t.compiled.plan;
  const char *names[64];
  uint32_t count = 0;
  for (uint32_t i = 0; i < plan->steps.count && count < 64; i++)
    if (plan->steps.data[i].kind == LW_STEP_LAUNCH)
      names[count++] = plan->kernels.data[plan->steps.data[i].kernel].name;
  for (uint32_t i = 1; i < count; i++)
    for (uint32_t j = i; j > 0 && strcmp(names[j], names[j - 1]) < 0; j--) {
      const char *higher = names[j - 1];
      names[j - 1] = names[j];
      names[j] = higher;
    }
  for (uint32_t i = 0; i < count; i++) lw__text_add(out, "%s\n", names[i]);
  assert_true(count > 0);
  lw_trial_deinit(&t);
}

static void assert_same(writer a, writer b) {
  for (size_t p = 0; p < LW_ARRAY_COUNT(profiles); p++)
    for (int swap = 0; swap < 2; swap++) {
      lw_text first = {0}, second = {0};
      kernels_of(a, false, NULL, profiles[p], &first);
      kernels_of(b, swap != 0, swap ? "other_" : NULL, profiles[p], &second);
      assert_string_equal(lw__text_str(&first), lw__text_str(&second));
      lw__text_deinit(&first);
      lw__text_deinit(&second);
    }
}

static void assert_different(writer a, writer b) {
  lw_text first = {0}, second = {0};
  kernels_of(a, false, NULL, "sm_90a", &first);
  kernels_of(b, false, NULL, "sm_90a", &second);
  assert_string_not_equal(lw__text_str(&first), lw__text_str(&second));
  lw__text_deinit(&first);
  lw__text_deinit(&second);
}

/* ---- composites -------------------------------------------------------------------------------*/

static void softmax_by_hand(lw_speller *s) {
  lw_spell_output(s, lw_spell_softmax(s, lw_spell_input(s, "x", LW_DTYPE_F32, 2, whole)), "y");
}

static void softmax_composite(lw_speller *s) {
  lw_value_id v, x = lw_spell_input(s, "x", LW_DTYPE_F32, 2, whole);
  s->status = lw__graph_softmax(&s->g, x, 2, false, &v);
  lw_spell_output(s, v, "y");
}

/* With products and quotients that do nothing. (x + 0 is not one of them: it turns -0 into 0.) */
static void softmax_oddly(lw_speller *s) {
  lw_value_id x = lw_spell_n(s, LW_FN_MUL, lw_spell_input(s, "x", LW_DTYPE_F32, 2, whole), 1);
  lw_value_id m = lw_spell_reduce(s, LW_RED_MAX, x, 2);
  lw_value_id e =
      lw_spell_1(s, LW_FN_EXP, lw_spell_2(s, LW_FN_SUB, lw_spell_n(s, LW_FN_DIV, x, 1), m));
  lw_spell_output(s, lw_spell_2(s, LW_FN_DIV, e, lw_spell_reduce(s, LW_RED_SUM, e, 2)), "y");
}

static void norm_by_hand(lw_speller *s) {
  lw_value_id x = lw_spell_input(s, "x", LW_DTYPE_F32, 2, whole);
  lw_value_id scale = lw_spell_const(s, 1, LW_DTYPE_F32, 1, line),
              bias = lw_spell_const(s, 2, LW_DTYPE_F32, 1, line);
  lw_spell_output(s, lw_spell_layer_norm(s, x, scale, bias), "y");
}

static void norm_composite(lw_speller *s) {
  lw_value_id x = lw_spell_input(s, "x", LW_DTYPE_F32, 2, whole), y, mean, rstd;
  lw_value_id scale = lw_spell_const(s, 1, LW_DTYPE_F32, 1, line),
              bias = lw_spell_const(s, 2, LW_DTYPE_F32, 1, line);
  s->status = lw__graph_layer_norm(&s->g, x, 2, 1e-5, scale, bias, &y, &mean, &rstd);
  lw_spell_output(s, y, "y");
}

static void gelu_by_hand(lw_speller *s) {
  lw_spell_output(s, lw_spell_gelu(s, lw_spell_input(s, "x", LW_DTYPE_F32, 2, whole)), "y");
}

static void gelu_composite(lw_speller *s) {
  lw_value_id v, x = lw_spell_input(s, "x", LW_DTYPE_F32, 2, whole);
  s->status = lw__graph_gelu(&s->g, x, false, &v);
  lw_spell_output(s, v, "y");
}

/* 0.5 * x * (1 + erf(x * sqrt(1/2))) */
static void gelu_otherwise(lw_speller *s) {
  lw_value_id x = lw_spell_input(s, "x", LW_DTYPE_F32, 2, whole);
  lw_value_id erf = lw_spell_1(s, LW_FN_ERF, lw_spell_n(s, LW_FN_MUL, x, 0.70710678118654752));
  lw_spell_output(
      s,
      lw_spell_2(s, LW_FN_MUL, lw_spell_n(s, LW_FN_MUL, x, 0.5), lw_spell_n(s, LW_FN_ADD, erf, 1)),
      "y");
}

static void composites(void **state) {
  (void)state;
  assert_same(softmax_composite, softmax_by_hand);
  assert_same(softmax_composite, softmax_oddly);
  assert_same(norm_composite, norm_by_hand);
  assert_same(gelu_composite, gelu_by_hand);
  assert_same(gelu_composite, gelu_otherwise);
}

/* ---- a block: product, bias, GELU, product, residual, norm ------------------------------------*/

static void block(lw_speller *s) {
  lw_value_id x = lw_spell_input(s, "x", LW_DTYPE_F32, 2, whole);
  lw_value_id w1 = lw_spell_const(s, 1, LW_DTYPE_F32, 2, square),
              b1 = lw_spell_const(s, 2, LW_DTYPE_F32, 1, line);
  lw_value_id w2 = lw_spell_const(s, 3, LW_DTYPE_F32, 2, square),
              b2 = lw_spell_const(s, 4, LW_DTYPE_F32, 1, line);
  lw_value_id h = lw_spell_gelu(s, lw_spell_2(s, LW_FN_ADD, lw_spell_dot(s, x, w1), b1));
  lw_value_id r = lw_spell_2(s, LW_FN_ADD, lw_spell_2(s, LW_FN_ADD, lw_spell_dot(s, h, w2), b2), x);
  lw_spell_output(s, lw_spell_layer_norm(s, r, LW_NONE, LW_NONE), "y");
}

/* Constants late and in another order, an input that is not used in between, movements that cancel,
 * dead nodes. */
static void block_reordered(lw_speller *s) {
  lw_value_id w2 = lw_spell_const(s, 3, LW_DTYPE_F32, 2, square);
  lw_value_id x = lw_spell_input(s, "x", LW_DTYPE_F32, 2, whole);
  lw_value_id turned = lw_spell_permute(s, lw_spell_permute(s, x, 1, 0), 1, 0);
  lw_value_id b1 = lw_spell_const(s, 2, LW_DTYPE_F32, 1, line),
              w1 = lw_spell_const(s, 1, LW_DTYPE_F32, 2, square);
  lw_spell_1(s, LW_FN_TANH, x);
  lw_value_id h = lw_spell_gelu(s, lw_spell_2(s, LW_FN_ADD, b1, lw_spell_dot(s, turned, w1)));
  lw_value_id b2 = lw_spell_const(s, 4, LW_DTYPE_F32, 1, line);
  lw_value_id r = lw_spell_2(s, LW_FN_ADD, x, lw_spell_2(s, LW_FN_ADD, b2, lw_spell_dot(s, h, w2)));
  lw_spell_output(s, lw_spell_layer_norm(s, r, LW_NONE, LW_NONE), "result");
}

/* Other weights of the same shapes are other data, not other kernels. */
static void block_other_weights(lw_speller *s) {
  lw_value_id x = lw_spell_input(s, "x", LW_DTYPE_F32, 2, whole);
  lw_value_id w1 = lw_spell_const(s, 11, LW_DTYPE_F32, 2, square),
              b1 = lw_spell_const(s, 12, LW_DTYPE_F32, 1, line);
  lw_value_id w2 = lw_spell_const(s, 13, LW_DTYPE_F32, 2, square),
              b2 = lw_spell_const(s, 14, LW_DTYPE_F32, 1, line);
  lw_value_id h = lw_spell_gelu(s, lw_spell_2(s, LW_FN_ADD, lw_spell_dot(s, x, w1), b1));
  lw_value_id r = lw_spell_2(s, LW_FN_ADD, lw_spell_2(s, LW_FN_ADD, lw_spell_dot(s, h, w2), b2), x);
  lw_spell_output(s, lw_spell_layer_norm(s, r, LW_NONE, LW_NONE), "y");
}

static void whole_networks(void **state) {
  (void)state;
  assert_same(block, block);
  assert_same(block, block_reordered);
  assert_same(block, block_other_weights);
}

/* Equal layers share their kernels: six blocks in a row have as many kernels as three (the first
 * and the last may differ). */
static void equal_layers_share(void **state) {
  (void)state;
  for (size_t p = 0; p < LW_ARRAY_COUNT(profiles); p++) {
    uint32_t kernels[2];
    for (uint32_t layers = 3, k = 0; k < 2; layers = 6, k++) {
      lw_speller s;
      lw_graph g;
      lw_trial t;
      lw_spell_init(&s);
      lw_value_id x = lw_spell_input(&s, "x", LW_DTYPE_F32, 2, whole);
      for (uint32_t i = 0; i < layers; i++) {
        lw_value_id w = lw_spell_const(&s, 10 + i, LW_DTYPE_F32, 2, square);
        x = lw_spell_layer_norm(
            &s, lw_spell_2(&s, LW_FN_ADD, lw_spell_gelu(&s, lw_spell_dot(&s, x, w)), x), LW_NONE,
            LW_NONE);
      }
      lw_spell_output(&s, x, "y");
      assert_int_equal(lw_spell_finish(&s, &g), LW_OK);
      assert_int_equal(lw_trial_init(&g, profiles[p], true, &t), LW_OK);
      kernels[k] = t.compiled.plan.kernels.count;
      assert_true(t.result.launches >= layers && kernels[k] < t.result.launches);
      lw_trial_deinit(&t);
    }
    assert_int_equal(kernels[0], kernels[1]);
  }
}

/* ---- what differs -----------------------------------------------------------------------------*/

static void relu_of(lw_speller *s) {
  lw_spell_output(s, lw_spell_relu(s, lw_spell_input(s, "x", LW_DTYPE_F32, 2, whole)), "y");
}
static void relu_of_f16(lw_speller *s) {
  lw_spell_output(s, lw_spell_relu(s, lw_spell_input(s, "x", LW_DTYPE_F16, 2, whole)), "y");
}
static void relu_of_negative(lw_speller *s) {
  lw_spell_output(
      s, lw_spell_relu(s, lw_spell_1(s, LW_FN_NEG, lw_spell_input(s, "x", LW_DTYPE_F32, 2, whole))),
      "y");
}
static void clamp_at_one(lw_speller *s) {
  lw_spell_output(s, lw_spell_n(s, LW_FN_MAX, lw_spell_input(s, "x", LW_DTYPE_F32, 2, whole), 1),
                  "y");
}
static void softmax_of_f16(lw_speller *s) {
  lw_spell_output(s, lw_spell_softmax(s, lw_spell_input(s, "x", LW_DTYPE_F16, 2, whole)), "y");
}

static void differences(void **state) {
  (void)state;
  assert_different(relu_of, relu_of_f16);
  assert_different(relu_of, relu_of_negative);
  assert_different(relu_of, clamp_at_one);
  assert_different(softmax_by_hand, softmax_of_f16);
  assert_different(gelu_by_hand, softmax_by_hand);
}

int main(void) {
  const struct CMUnitTest tests[] = {
      cmocka_unit_test(composites),
      cmocka_unit_test(whole_networks),
      cmocka_unit_test(equal_layers_share),
      cmocka_unit_test(differences),
  };
  return cmocka_run_group_tests(tests, NULL, NULL);
}

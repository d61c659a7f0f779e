/* test_traffic.c: what fusion is for: one launch that reads every input once and writes every
 * output once, counted by the kernel-IR interpreter over all threads, on both targets.
 *
 * Large operands must move once: all bytes at most 1.1 times those of inputs and outputs. Rows that
 * are broadcast over other rows (a bias of 1024 elements under 64 x 1024) are read by every row
 * that needs them; caches serve that, so they are counted once for each row, and nothing beyond. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>

#include <cmocka.h>

#include "lib/spell.h"
#include "lib/trial.h"

enum { rows = 64, cols = 1024 };
static const int64_t whole[2] = {rows, cols}, line[1] = {cols};

typedef lw_value_id (*network)(lw_speller *s, lw_dtype t);

static lw_value_id in(lw_speller *s, const char *name, lw_dtype t) {
  return lw_spell_input(s, name, t, 2, whole);
}
static lw_value_id in_line(lw_speller *s, const char *name, lw_dtype t) {
  return lw_spell_input(s, name, t, 1, line);
}

/* gelu(x * a + b) * c + r with operands as large as x, then with rows, then with numbers. */
static lw_value_id affine(lw_speller *s, lw_value_id x, lw_value_id a, lw_value_id b, lw_value_id c,
                          lw_value_id r) {
  lw_value_id h = lw_spell_gelu(s, lw_spell_2(s, LW_FN_ADD, lw_spell_2(s, LW_FN_MUL, x, a), b));
  return lw_spell_2(s, LW_FN_ADD, lw_spell_2(s, LW_FN_MUL, h, c), r);
}

static lw_value_id gelu_large(lw_speller *s, lw_dtype t) {
  lw_value_id x = in(s, "x", t), a = in(s, "a", t), b = in(s, "b", t), c = in(s, "c", t),
              r = in(s, "r", t);
  return affine(s, x, a, b, c, r);
}

static lw_value_id gelu_rows(lw_speller *s, lw_dtype t) {
  lw_value_id x = in(s, "x", t), a = in_line(s, "a", t), b = in_line(s, "b", t),
              c = in_line(s, "c", t), r = in(s, "r", t);
  return affine(s, x, a, b, c, r);
}

static lw_value_id gelu_numbers(lw_speller *s, lw_dtype t) {
  lw_value_id x = in(s, "x", t), r = in(s, "r", t);
  return affine(s, x, lw_spell_number(s, t, 0.5), lw_spell_number(s, t, 0.25),
                lw_spell_number(s, t, 2), r);
}

static lw_value_id softmax(lw_speller *s, lw_dtype t) { return lw_spell_softmax(s, in(s, "x", t)); }
static lw_value_id layer_norm(lw_speller *s, lw_dtype t) {
  return lw_spell_layer_norm(s, in(s, "x", t), LW_NONE, LW_NONE);
}

static lw_value_id layer_norm_rows(lw_speller *s, lw_dtype t) {
  lw_value_id x = in(s, "x", t), scale = in_line(s, "scale", t), bias = in_line(s, "bias", t);
  return lw_spell_layer_norm(s, x, scale, bias);
}

static lw_value_id add_relu_layer_norm(lw_speller *s, lw_dtype t) {
  lw_value_id x = in(s, "x", t), r = in(s, "r", t);
  return lw_spell_layer_norm(s, lw_spell_relu(s, lw_spell_2(s, LW_FN_ADD, x, r)), LW_NONE, LW_NONE);
}

static lw_value_id add_relu_layer_norm_rows(lw_speller *s, lw_dtype t) {
  lw_value_id x = in(s, "x", t), r = in(s, "r", t), scale = in_line(s, "scale", t),
              bias = in_line(s, "bias", t);
  return lw_spell_layer_norm(s, lw_spell_relu(s, lw_spell_2(s, LW_FN_ADD, x, r)), scale, bias);
}

/* Turned on the way: y[j, i] = relu(x[i, j]) + z[j, i], both sides contiguous. */
static lw_value_id turned(lw_speller *s, lw_dtype t) {
  lw_value_id x = in(s, "x", t), z = lw_spell_input(s, "z", t, 2, (const int64_t[]){cols, rows});
  return lw_spell_2(s, LW_FN_ADD, lw_spell_permute(s, lw_spell_relu(s, x), 1, 0), z);
}

static uint64_t bytes_of(const lw_graph *g, lw_value_id v) {
  return (uint64_t)lw__shape_numel(&lw__value(g, v)->shape) *
         lw_dtype_size_bytes(lw__value(g, v)->dtype);
}

/* Bytes that must move: operands of one row once for each row. */
static uint64_t needed_bytes(const lw_graph *g) {
  uint64_t bytes = 0;
  for (uint32_t i = 0; i < g->inputs.count; i++)
    bytes += bytes_of(g, g->inputs.data[i]) *
             (lw__value(g, g->inputs.data[i])->shape.rank == 1 ? rows : 1);
  for (uint32_t i = 0; i < g->outputs.count; i++) bytes += bytes_of(g, g->outputs.data[i]);
  return bytes;
}

static void check(const char *name, network make, lw_dtype dtype, const char *profile) {
  lw_speller s;
  lw_graph g;
  lw_trial t;
  lw_spell_init(&s);
  lw_spell_output(&s, make(&s, dtype), "y");
  assert_int_equal(lw_spell_finish(&s, &g), LW_OK);
  assert_int_equal(lw_trial_init(&g, profile, true, &t), LW_OK);
  double needed = (double)needed_bytes(&t.sample.graph);
  double ratio = (double)(t.result.load_bytes + t.result.store_bytes) / needed;
  print_message("%-28s %-5s %-7s %llu launches, %.3f of the bytes needed\n", name,
                lw_dtype_name(dtype), profile, (unsigned long long)t.result.launches, ratio);
  assert_int_equal(t.result.launches, 1);
  assert_int_equal(t.result.copies, 0);
  assert_true(ratio <= 1.1);
  assert_true(ratio >
              0.3); /* rows may be kept on chip one day; the large operands must still move */
  lw_trial_deinit(&t);
}

static void check_all(const char *name, network make) {
  static const lw_dtype types[] = {LW_DTYPE_F32, LW_DTYPE_F16};
  static const char *const profiles[] = {"sm_90a", "sm_80", "cpu"};
  for (size_t d = 0; d < LW_ARRAY_COUNT(types); d++)
    for (size_t p = 0; p < LW_ARRAY_COUNT(profiles); p++) check(name, make, types[d], profiles[p]);
}

#define CASE(name)                        \
  static void once_##name(void **state) { \
    (void)state;                          \
    check_all(#name, name);               \
  }
CASE(gelu_large)
CASE(gelu_rows)
CASE(gelu_numbers)
CASE(softmax)
CASE(layer_norm)
CASE(layer_norm_rows)
CASE(add_relu_layer_norm)
CASE(add_relu_layer_norm_rows)
CASE(turned)

int main(void) {
  const struct CMUnitTest tests[] = {
      cmocka_unit_test(once_gelu_large),
      cmocka_unit_test(once_gelu_rows),
      cmocka_unit_test(once_gelu_numbers),
      cmocka_unit_test(once_softmax),
      cmocka_unit_test(once_layer_norm),
      cmocka_unit_test(once_layer_norm_rows),
      cmocka_unit_test(once_add_relu_layer_norm),
      cmocka_unit_test(once_add_relu_layer_norm_rows),
      cmocka_unit_test(once_turned),
  };
  return cmocka_run_group_tests(tests, NULL, NULL);
}

/* test_mutants.c: the checks must be able to find mistakes. Kernels that the lowerings make are
 * changed in one place - a barrier taken out, a predicate dropped, an index moved by one, a
 * reduction narrowed - and run by the kernel-IR interpreter: it must report, or the results must
 * leave their bounds. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>
#include <string.h>

#include <cmocka.h>

#include "lib/spell.h"
#include "lib/trial.h"

typedef void (*writer)(lw_speller *s);

/* One change in one kernel; undone by copying instructions and regions back. */
typedef struct mutation {
  lw_kernel *kernel;
  uint32_t region, at, instr; /* where the instruction stands */
} mutation;

/* Makes the change; false: this instruction has no such change. */
typedef bool (*mutator)(const mutation *m);

typedef struct tally {
  uint32_t made, reported, wrong, missed;
} tally;

/* ---- mutators ---------------------------------------------------------------------------------*/

static void drop_from_region(const mutation *m) {
  lw_kregion *r = &m->kernel->regions.data[m->region];
  memmove(&r->data[m->at], &r->data[m->at + 1], (r->count - m->at - 1) * sizeof r->data[0]);
  r->count--;
}

static bool drop_barrier(const mutation *m) {
  if (m->kernel->instrs.data[m->instr].op != LW_K_BARRIER) return false;
  drop_from_region(m);
  return true;
}

static bool is_access(const lw_kinstr *in) {
  return in->op == LW_K_LOAD || in->op == LW_K_STORE || in->op == LW_K_LOADV ||
         in->op == LW_K_STOREV || in->op == LW_K_COPY;
}

static bool drop_predicate(const mutation *m) {
  lw_kinstr *in = &m->kernel->instrs.data[m->instr];
  if ((!is_access(in) && in->op != LW_K_SSET) || in->c == LW_NONE) return false;
  in->c = LW_NONE;
  return true;
}

/* A condition becomes always true. */
static bool drop_condition(const mutation *m) {
  lw_kernel *k = m->kernel;
  if (k->instrs.data[m->instr].op != LW_K_IF) return false;
  lw_kinstr yes = {.op = LW_K_CONST,
                   .dtype = LW_DTYPE_BOOL,
                   .a = LW_NONE,
                   .b = LW_NONE,
                   .c = LW_NONE,
                   .d = LW_NONE,
                   .imm.i = 1};
  if (lw_vec_push(&k->instrs, yes) != LW_OK) return false;
  lw_kregion *r = &k->regions.data[m->region];
  if (lw_vec_push(r, 0) != LW_OK) return false;
  memmove(&r->data[m->at + 1], &r->data[m->at], (r->count - m->at - 1) * sizeof r->data[0]);
  r->data[m->at] = k->instrs.count - 1;
  k->instrs.data[m->instr].a = k->instrs.count - 1;
  return true;
}

/* index + |step| for an access of any memory. */
static bool shift_index(const mutation *m, int64_t step) {
  lw_kernel *k = m->kernel;
  lw_kinstr *in = &k->instrs.data[m->instr];
  bool fits = is_access(in) || in->op == LW_K_SGET || in->op == LW_K_SSET;
  if (!fits || in->b == LW_NONE) return false;
  lw_dtype type = k->instrs.data[in->b].dtype;
  lw_kinstr one = {.op = LW_K_CONST,
                   .dtype = (uint8_t)type,
                   .a = LW_NONE,
                   .b = LW_NONE,
                   .c = LW_NONE,
                   .d = LW_NONE,
                   .imm.i = step};
  lw_kinstr sum = one;
  sum.op = LW_K_FN;
  sum.fn = LW_FN_ADD;
  sum.a = in->b;
  sum.b = k->instrs.count;
  lw_kregion *r = &k->regions.data[m->region];
  if (lw_vec_push(&k->instrs, one) != LW_OK || lw_vec_push(&k->instrs, sum) != LW_OK) return false;
  if (lw_vec_push(r, 0) != LW_OK || lw_vec_push(r, 0) != LW_OK) return false;
  memmove(&r->data[m->at + 2], &r->data[m->at], (r->count - m->at - 2) * sizeof r->data[0]);
  r->data[m->at] = k->instrs.count - 2;
  r->data[m->at + 1] = k->instrs.count - 1;
  k->instrs.data[m->instr].b = k->instrs.count - 1;
  return true;
}

static bool shift_up(const mutation *m) { return shift_index(m, 1); }
static bool shift_down(const mutation *m) { return shift_index(m, -1); }

/* A reduction over half as many threads, or over a warp instead of a block. */
static bool narrow_reduction(const mutation *m) {
  lw_kinstr *in = &m->kernel->instrs.data[m->instr];
  if (in->op != LW_K_REDUCE || in->width < 2) return false;
  in->width = in->width > 32 ? 32 : in->width / 2;
  return true;
}

/* A loop that ends one step early. */
static bool shorten_loop(const mutation *m) {
  lw_kernel *k = m->kernel;
  lw_kinstr *in = &k->instrs.data[m->instr];
  if (in->op != LW_K_FOR || k->instrs.data[in->b].op != LW_K_CONST ||
      k->instrs.data[in->c].op != LW_K_CONST)
    return false;
  lw_kinstr end = k->instrs.data[in->b];
  end.imm.i -= k->instrs.data[in->c].imm.i;
  if (lw_vec_push(&k->instrs, end) != LW_OK) return false;
  lw_kregion *r = &k->regions.data[m->region];
  if (lw_vec_push(r, 0) != LW_OK) return false;
  memmove(&r->data[m->at + 1], &r->data[m->at], (r->count - m->at - 1) * sizeof r->data[0]);
  r->data[m->at] = k->instrs.count - 1;
  k->instrs.data[m->instr].b = k->instrs.count - 1;
  return true;
}

/* ---- running mutants --------------------------------------------------------------------------*/

static bool inside_bounds(lw_trial *t) {
  for (uint32_t i = 0; i < t->sample.graph.outputs.count; i++) {
    lw_compare c;
    lw__interp_compare(&t->sample.want[i], t->sample.output_data[i], &c);
    if (c.bad) return false;
  }
  return true;
}

static void run_mutant(lw_trial *t, const mutation *m, mutator change, tally *count) {
  lw_kernel *k = m->kernel;
  lw_kinstr saved = k->instrs.data[m->instr];
  uint32_t instrs = k->instrs.count;
  lw_kregion region = {0}, *live = &k->regions.data[m->region];
  assert_int_equal(lw_vec_reserve(&region, live->count), LW_OK);
  memcpy(region.data, live->data, live->count * sizeof live->data[0]);
  region.count = live->count;
  if (change(m)) {
    count->made++;
    lw_status status = lw_trial_run(t);
    if (status != LW_OK)
      count->reported++;
    else if (!inside_bounds(t))
      count->wrong++;
    else
      count->missed++;
  }
  k->instrs.count = instrs;
  k->instrs.data[m->instr] = saved;
  live = &k->regions.data[m->region];
  lw_vec_free(live);
  *live = region;
}

static void mutate_kernel(lw_trial *t, lw_kernel *kernel, mutator change, tally *count) {
  for (uint32_t r = 0; r < kernel->regions.count; r++)
    for (uint32_t i = 0; i < kernel->regions.data[r].count; i++) {
      mutation m = {kernel, r, i, kernel->regions.data[r].data[i]};
      run_mutant(t, &m, change, count);
    }
}

static tally mutate(const char *name, writer write, const char *profile, mutator change,
                    const char *what) {
  lw_speller s;
  lw_graph g;
  lw_trial t;
  tally count = {0};
  lw_spell_init(&s);
  write(&s);
  assert_int_equal(lw_spell_finish(&s, &g), LW_OK);
  assert_int_equal(lw_trial_init(&g, profile, true, &t), LW_OK);
  for (uint32_t i = 0; i < t.compiled.kernels.count; i++)
    mutate_kernel(&t, (lw_kernel *)(uintptr_t)t.compiled.kernels.data[i], change,
                  &count);                   /* owned by compiled.lowered */
  assert_int_equal(lw_trial_run(&t), LW_OK); /* everything was put back */
  assert_true(inside_bounds(&t));
  print_message("%-22s %-7s %-10s %3u mutants: %3u reported, %3u wrong results, %u missed\n", name,
                profile, what, count.made, count.reported, count.wrong, count.missed);
  lw_trial_deinit(&t);
  return count;
}

/* ---- networks ---------------------------------------------------------------------------------*/

static lw_value_id in2(lw_speller *s, const char *name, int64_t a, int64_t b) {
  return lw_spell_input(s, name, LW_DTYPE_F32, 2, (const int64_t[]){a, b});
}

/* Whole slices and columns: where they are ragged, what lies beyond meets zeros or is not stored,
 * and a condition that leaves it out can be left out. */
static void product(lw_speller *s) {
  lw_value_id d = lw_spell_dot(s, in2(s, "x", 61, 128), in2(s, "w", 128, 64));
  lw_spell_output(s, lw_spell_relu(s, d), "y");
}

static void turned(lw_speller *s) {
  lw_value_id x = lw_spell_1(s, LW_FN_TANH, in2(s, "x", 70, 100));
  lw_spell_output(s, lw_spell_2(s, LW_FN_ADD, lw_spell_permute(s, x, 1, 0), in2(s, "z", 100, 70)),
                  "y");
}

static void norm_of_long_rows(lw_speller *s) {
  lw_spell_output(s, lw_spell_layer_norm(s, in2(s, "x", 3, 3001), LW_NONE, LW_NONE), "y");
}

/* Softmax is the same whatever is taken for the maximum, so that is an output, too; and below zero,
 * so that zeros from beyond the end matter. */
static void softmax_of_short_rows(lw_speller *s) {
  lw_value_id x = lw_spell_1(s, LW_FN_NEG, lw_spell_1(s, LW_FN_ABS, in2(s, "x", 13, 40)));
  lw_spell_output(s, lw_spell_softmax(s, x), "y");
  lw_spell_output(s, lw_spell_reduce(s, LW_RED_MAX, x, 2), "m");
}

static void column_sums(lw_speller *s) {
  lw_value_id x = in2(s, "x", 300, 40);
  lw_spell_output(s, lw_spell_reduce(s, LW_RED_SUM, lw_spell_1(s, LW_FN_TANH, x), 1), "y");
}

/* Two dependent sums in integers: the bounds of sums over so many floats would hide an element that
 * is missing. */
static void one_long_row(lw_speller *s) {
  lw_value_id x = lw_spell_input(s, "x", LW_DTYPE_I32, 2, (const int64_t[]){1, 50257});
  lw_value_id d = lw_spell_2(s, LW_FN_SUB, x, lw_spell_reduce(s, LW_RED_SUM, x, 2));
  lw_spell_output(s,
                  lw_spell_2(s, LW_FN_ADD, d,
                             lw_spell_reduce(s, LW_RED_SUM, lw_spell_2(s, LW_FN_MUL, d, d), 2)),
                  "y");
}

static void chain(lw_speller *s) {
  lw_value_id x = in2(s, "x", 7, 61);
  lw_spell_output(s, lw_spell_2(s, LW_FN_MUL, lw_spell_gelu(s, x), in2(s, "z", 1, 61)), "y");
}

typedef struct network {
  const char *name;
  writer write;
  bool barriers;
} network;
static const network networks[] = {
    {"product", product, true},
    {"turned tile", turned, true},
    {"norm of long rows", norm_of_long_rows, false},
    {"softmax of short rows", softmax_of_short_rows, false},
    {"column sums", column_sums, false},
    {"one long row", one_long_row, false},
    {"chain", chain, false},
};

static tally over_networks(const char *profile, mutator change, const char *what) {
  tally sum = {0};
  for (size_t i = 0; i < LW_ARRAY_COUNT(networks); i++) {
    tally one = mutate(networks[i].name, networks[i].write, profile, change, what);
    sum.made += one.made;
    sum.missed += one.missed;
    sum.reported += one.reported;
    sum.wrong += one.wrong;
  }
  return sum;
}

/* ---- tests ------------------------------------------------------------------------------------*/

/* Every single barrier is needed, and the interpreter says so. */
static void barriers(void **state) {
  (void)state;
  for (size_t i = 0; i < LW_ARRAY_COUNT(networks); i++) {
    tally t = mutate(networks[i].name, networks[i].write, "sm_90a", drop_barrier, "barrier");
    if (networks[i].barriers) assert_true(t.made > 0);
    assert_int_equal(t.reported, t.made);
  }
}

static void predicates(void **state) {
  (void)state;
  tally t = over_networks("sm_90a", drop_predicate, "predicate");
  assert_true(t.made > 0);
  assert_int_equal(t.missed, 0);
}

static void conditions(void **state) {
  (void)state;
  tally t = over_networks("sm_90a", drop_condition, "condition");
  assert_true(t.made > 0);
  assert_int_equal(t.missed, 0);
}

static void indices(void **state) {
  (void)state;
  static const char *const profiles[] = {"sm_90a", "cpu"};
  for (int p = 0; p < 2; p++) {
    tally up = over_networks(profiles[p], shift_up, "index + 1"),
          down = over_networks(profiles[p], shift_down, "index - 1");
    assert_true(up.made > 20 && down.made > 20);
    assert_int_equal(up.missed, 0);
    assert_int_equal(down.missed, 0);
  }
}

static void reductions(void **state) {
  (void)state;
  tally t = over_networks("sm_90a", narrow_reduction, "reduction");
  assert_true(t.made > 0);
  assert_int_equal(t.missed, 0);
}

static void loops(void **state) {
  (void)state;
  static const char *const profiles[] = {"sm_90a", "cpu"};
  for (int p = 0; p < 2; p++) {
    tally t = over_networks(profiles[p], shorten_loop, "loop");
    assert_true(t.made > 10);
    assert_int_equal(t.missed, 0);
  }
}

int main(void) {
  const struct CMUnitTest tests[] = {
      cmocka_unit_test(barriers), cmocka_unit_test(predicates), cmocka_unit_test(conditions),
      cmocka_unit_test(indices),  cmocka_unit_test(reductions), cmocka_unit_test(loops),
  };
  return cmocka_run_group_tests(tests, NULL, NULL);
}

/* test_batch.c: rows do not see each other: what a network makes of a row is the same, bit for bit,
 * whatever other rows it is in a batch with, and one kernel serves all numbers of rows. On the
 * kernel-IR interpreter, for both targets; the shared models natively on the CPU (skipped where
 * ../shared is absent). */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include <cmocka.h>

#include "lib/shared.h"
#include "lib/spell.h"
#include "lib/trial.h"
#include "runtime/runtime.h"

enum { most_rows = 7 };

typedef lw_value_id (*network)(lw_speller *s, lw_value_id x); /* x: [rows, 96] */

/* ---- networks ---------------------------------------------------------------------------------*/

static lw_value_id chain(lw_speller *s, lw_value_id x) {
  return lw_spell_2(s, LW_FN_MUL, lw_spell_gelu(s, x),
                    lw_spell_const(s, 1, LW_DTYPE_F32, 1, (const int64_t[]){96}));
}

static lw_value_id norm(lw_speller *s, lw_value_id x) {
  lw_value_id scale = lw_spell_const(s, 1, LW_DTYPE_F32, 1, (const int64_t[]){96});
  return lw_spell_layer_norm(s, lw_spell_relu(s, x), scale, LW_NONE);
}

static lw_value_id softmax(lw_speller *s, lw_value_id x) { return lw_spell_softmax(s, x); }

static lw_value_id layer(lw_speller *s, lw_value_id x) {
  lw_value_id w = lw_spell_const(s, 1, LW_DTYPE_F32, 2, (const int64_t[]){96, 64});
  return lw_spell_gelu(s, lw_spell_2(s, LW_FN_ADD, lw_spell_dot(s, x, w),
                                     lw_spell_const(s, 2, LW_DTYPE_F32, 1, (const int64_t[]){64})));
}

static lw_value_id perceptron(lw_speller *s, lw_value_id x) {
  lw_value_id w = lw_spell_const(s, 3, LW_DTYPE_F32, 2, (const int64_t[]){64, 96});
  return lw_spell_softmax(s, norm(s, lw_spell_2(s, LW_FN_ADD, lw_spell_dot(s, layer(s, x), w), x)));
}

/* ---- rows -------------------------------------------------------------------------------------*/

static void make_trial(network make, int64_t rows, const char *profile, bool fuse, lw_trial *t) {
  lw_speller s;
  lw_graph g;
  lw_spell_init(&s);
  lw_spell_output(
      &s, make(&s, lw_spell_input(&s, "x", LW_DTYPE_F32, 2, (const int64_t[]){rows, 96})), "y");
  assert_int_equal(lw_spell_finish(&s, &g), LW_OK);
  assert_int_equal(lw_trial_init(&g, profile, fuse, t), LW_OK);
}

/* Row |from| of |all| alone gives the same bits as in the batch. */
static void check_row(lw_trial *all, lw_trial *one, int64_t rows, int64_t from) {
  size_t in = one->sample.input_bytes[0], out = one->sample.output_bytes[0];
  assert_int_equal(in * (size_t)rows, all->sample.input_bytes[0]);
  memcpy(one->sample.input_data[0], (char *)all->sample.input_data[0] + (size_t)from * in, in);
  assert_int_equal(lw_trial_run(one), LW_OK);
  assert_memory_equal(one->sample.output_data[0],
                      (char *)all->sample.output_data[0] + (size_t)from * out, out);
}

static void check_rows(const char *name, network make, const char *profile, bool fuse) {
  lw_trial one, two, all;
  lw_text names[3] = {{0}};
  make_trial(make, 1, profile, fuse, &one);
  make_trial(make, 2, profile, fuse, &two);
  make_trial(make, most_rows, profile, fuse, &all);
  lw_trial_kernel_names(&one, &names[0]);
  lw_trial_kernel_names(&two, &names[1]);
  lw_trial_kernel_names(&all, &names[2]);
  print_message("%-10s %-7s %-7s one row: %s kernels; two rows: %s kernels\n", name, profile,
                fuse ? "fused" : "unfused",
                strcmp(lw__text_str(&names[0]), lw__text_str(&names[2])) ? "other" : "the same",
                strcmp(lw__text_str(&names[1]), lw__text_str(&names[2])) ? "other" : "the same");
  for (int64_t r = 0; r < most_rows; r++) check_row(&all, &one, most_rows, r);
  for (int64_t r = 0; r < 2; r++) check_row(&two, &one, 2, r);
  for (int i = 0; i < 3; i++) lw__text_deinit(&names[i]);
  lw_trial_deinit(&one);
  lw_trial_deinit(&two);
  lw_trial_deinit(&all);
}

/* The kernels of |rows| rows, without running them. */
static void names_of(network make, int64_t rows, const char *profile, lw_text *out) {
  lw_speller s;
  lw_graph g;
  lw_trial t = {.profile = profile};
  lw_compile_options options = {.profile = lw__device_profile_find(profile)};
  lw_spell_init(&s);
  lw_spell_output(
      &s, make(&s, lw_spell_input(&s, "x", LW_DTYPE_F32, 2, (const int64_t[]){rows, 96})), "y");
  assert_int_equal(lw_spell_finish(&s, &g), LW_OK);
  assert_int_equal(lw__compile(&g, &options, false, NULL, &t.compiled), LW_OK);
  lw_trial_kernel_names(&t, out);
  lw__compiled_deinit(&t.compiled);
  lw__graph_deinit(&g);
}

/* As long as a device is not full, schedules depend on the number of rows (narrower accesses,
 * smaller blocks: more threads). From there on the number of rows is an argument. (Rows that fill
 * all blocks exactly have kernels of their own, without the guard.) */
static void check_names(const char *name, network make, const char *profile) {
  static const int64_t rows[] = {65537, 50021, 77777, 99999};
  lw_text first = {0};
  names_of(make, rows[0], profile, &first);
  for (size_t i = 1; i < LW_ARRAY_COUNT(rows); i++) {
    lw_text names = {0};
    names_of(make, rows[i], profile, &names);
    if (strcmp(lw__text_str(&names), lw__text_str(&first)) != 0)
      fail_msg("%s %s: %lld rows have other kernels than %lld:\n%sinstead of\n%s", name, profile,
               (long long)rows[i], (long long)rows[0], lw__text_str(&names), lw__text_str(&first));
    lw__text_deinit(&names);
  }
  lw__text_deinit(&first);
}

/* Where several groupings cost the same, which is taken may depend on the size: |one_group| is for
 * networks of one kernel. */
static void check_all(const char *name, network make, bool one_group) {
  static const char *const profiles[] = {"sm_90a", "cpu"};
  for (int p = 0; p < 2; p++) {
    for (int fuse = 0; fuse < 2; fuse++) check_rows(name, make, profiles[p], fuse != 0);
    if (one_group) check_names(name, make, profiles[p]);
  }
}

#define CASE(name, one_group)                \
  static void rows_of_##name(void **state) { \
    (void)state;                             \
    check_all(#name, name, one_group);       \
  }
CASE(chain, true)
CASE(norm, true)
CASE(softmax, true)
CASE(layer, true)
CASE(perceptron, false)

/* ---- the shared models, natively --------------------------------------------------------------*/

static bool import_batch(const char *name, int64_t batch, lw_graph *g) {
  char folder[1024];
  lw_diag diag = {0};
  snprintf(folder, sizeof folder, "%s/../shared/models/%s", LW_SOURCE_DIR, name);
  lw_status status = lw_shared_import(folder, true, batch, &diag, g);
  if (status == LW_STATUS_NOT_FOUND) {
    lw__diag_deinit(&diag);
    return false;
  }
  if (status != LW_OK) fail_msg("%s: %s", name, lw__diag_first_error(&diag));
  lw__diag_deinit(&diag);
  g->diag = NULL;
  return true;
}

static size_t bytes_of(const lw_graph *g, lw_value_id v) {
  return (size_t)lw__shape_numel(&lw__value(g, v)->shape) *
         lw_dtype_size_bytes(lw__value(g, v)->dtype);
}

typedef struct native { /* a model of one input and one output, ready to run on the CPU */
  lw_graph graph;
  lw_compiled compiled;
  lw_rt_device *device;
  lw_rt_program *program;
  lw_rt_context *context;
  size_t in_bytes, out_bytes;
} native;

/* Built like a user's, vectorised, but for one thing: which products and sums the C compiler
 * contracts differs between kernels for different numbers of rows, and moves last bits. */
static void native_init(native *n, lw_cache *cache) {
  lw_compile_options options = {
      .profile = lw__device_profile_find("cpu"),
      .build = {.path = getenv("PATH"), .cflags_extra = "-O2 -ffp-contract=off"},
      .cache = cache};
  lw_diag diag = {0};
  lw_status status = lw__compile(&n->graph, &options, true, &diag, &n->compiled);
  if (status != LW_OK) fail_msg("%s", lw__diag_first_error(&diag));
  assert_int_equal(
      lw__rt_device_open("cpu", &(lw_rt_device_options){.threads = 2}, &diag, &n->device), LW_OK);
  assert_int_equal(lw__rt_program_load(n->device, &n->compiled.plan, &diag, &n->program), LW_OK);
  assert_int_equal(lw__rt_context_create(n->program, &diag, &n->context), LW_OK);
  assert_int_equal(n->graph.inputs.count, 1);
  assert_int_equal(n->graph.outputs.count, 1);
  n->in_bytes = bytes_of(&n->graph, n->graph.inputs.data[0]);
  n->out_bytes = bytes_of(&n->graph, n->graph.outputs.data[0]);
  lw__diag_deinit(&diag);
}

static void native_run(native *n, const void *input, void *output) {
  assert_int_equal(lw__rt_bind_input(n->context, 0, input, n->in_bytes, false), LW_OK);
  assert_int_equal(lw__rt_bind_output(n->context, 0, output, n->out_bytes, false), LW_OK);
  assert_int_equal(lw__rt_run(n->context, NULL), LW_OK);
}

static void native_deinit(native *n) {
  lw__rt_context_destroy(n->context);
  lw__rt_program_release(n->program);
  lw__rt_device_release(n->device);
  lw__compiled_deinit(&n->compiled);
  lw__graph_deinit(&n->graph);
}

/* All rows at once, then two by two and one by one. */
static void check_model(const char *name) {
  native all = {0};
  lw_cache *cache = NULL;
  if (!import_batch(name, most_rows, &all.graph)) {
    print_message("%s: skipped, ../shared is not there\n", name);
    return;
  }
  assert_int_equal(lw__cache_open(NULL, NULL, &cache), LW_OK);
  native_init(&all, cache);
  const lw_value *x = lw__value(&all.graph, all.graph.inputs.data[0]);
  assert_int_equal(x->shape.dim[0], most_rows);
  size_t in = all.in_bytes / most_rows, out = all.out_bytes / most_rows;
  char *input = test_malloc(all.in_bytes), *whole = test_malloc(all.out_bytes),
       *part = test_malloc(all.out_bytes);
  lw_rng rng;
  lw__rng_seed(&rng, 5);
  lw_random_fill(&rng, x->dtype, input, lw__shape_numel(&x->shape));
  native_run(&all, input, whole);
  for (size_t rows = 1; rows <= 2; rows++) {
    native some = {0};
    assert_true(import_batch(name, (int64_t)rows, &some.graph));
    native_init(&some, cache);
    for (size_t from = 0; from + rows <= most_rows; from++) {
      native_run(&some, input + from * in, part);
      if (memcmp(part, whole + from * out, rows * out) != 0)
        fail_msg("%s: row %zu in a batch of %zu differs from the same in a batch of %d", name, from,
                 rows, most_rows);
    }
    native_deinit(&some);
  }
  print_message("%s: %u kernels for %d rows\n", name, all.compiled.plan.kernels.count, most_rows);
  native_deinit(&all);
  lw__cache_close(cache);
  test_free(input);
  test_free(whole);
  test_free(part);
}

static void rows_of_models(void **state) {
  (void)state;
  check_model("resnet_tiny");
  check_model("resnet_tiny_script13");
}

int main(void) {
  const struct CMUnitTest tests[] = {
      cmocka_unit_test(rows_of_chain),      cmocka_unit_test(rows_of_norm),
      cmocka_unit_test(rows_of_softmax),    cmocka_unit_test(rows_of_layer),
      cmocka_unit_test(rows_of_perceptron), cmocka_unit_test(rows_of_models),
  };
  return cmocka_run_group_tests(tests, NULL, NULL);
}

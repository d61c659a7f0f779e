/* What may run with more rows than are wanted, and what may not and why; what may is run with NaNs
 * in the rows too many and compared with the graph of the smaller size. */
#include <math.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>
#include <string.h>

#include <cmocka.h>

#include "graph/interp.h"
#include "graph/rows.h"

enum { BUCKET = 6 };

typedef struct rows_case {
  const char *name, *text, *refusal; /* NULL: it holds */
} rows_case;

static const rows_case cases[] = {
    {"map of a row",
     "%x = input f32[b, 3]\n%w = const f32[3] fill(1)\n%2 = reshape f32[1, 3] %w\n"
     "%3 = expand f32[b, 3] %2\n%4 = map.mul f32[b, 3] %x, %3\noutput y %4\n",
     NULL},
    {"softmax of each row",
     "%x = input f32[b, 5]\n%1 = reduce.max f32[b] %x axes=[1]\n%2 = reshape f32[b, 1] %1\n"
     "%3 = expand f32[b, 5] %2\n%4 = map.sub f32[b, 5] %x, %3\n%5 = map.exp f32[b, 5] %4\n"
     "%6 = reduce.sum f32[b] %5 axes=[1]\n%7 = reshape f32[b, 1] %6\n%8 = expand f32[b, 5] %7\n"
     "%9 = map.div f32[b, 5] %5, %8\noutput y %9\n",
     NULL},
    {"heads taken out of the rows and put back",
     "%x = input f32[b, 4, 6]\n%1 = reshape f32[b, 4, 2, 3] %x\n"
     "%2 = permute f32[b, 2, 4, 3] %1 perm=[0, 2, 1, 3]\n%3 = reshape f32[2*b, 4, 3] %2\n"
     "%4 = permute f32[2*b, 3, 4] %3 perm=[0, 2, 1]\n%5 = dot f32[2*b, 4, 4] %3, %4\n"
     "%6 = reshape f32[b, 2, 4, 4] %5\n%7 = reduce.sum f32[b, 4, 4] %6 axes=[1]\noutput y %7\n",
     NULL},
    {"rows flattened with what is inside them",
     "%x = input f32[b, 3, 4]\n%w = const f32[4, 2] fill(1)\n%2 = reshape f32[3*b, 4] %x\n"
     "%3 = dot f32[3*b, 2] %2, %w\n%4 = reshape f32[b, 3, 2] %3\noutput y %4\noutput z %3\n",
     NULL},
    {"rows flattened with what is outside them",
     "%x = input f32[3, b, 4]\n%w = const f32[4, 2] fill(1)\n%2 = reshape f32[3*b, 4] %x\n"
     "%3 = dot f32[3*b, 2] %2, %w\n%4 = reshape f32[3, b, 2] %3\noutput y %4\n",
     NULL},
    {"an output with interleaved rows",
     "%x = input f32[3, b, 4]\n%2 = reshape f32[3*b, 4] %x\n%3 = map.neg f32[3*b, 4] %2\n"
     "output y %3\n",
     "interleaved"},
    {"regrouped across the rows", "%x = input f32[b, 4]\n%1 = reshape f32[4, b] %x\noutput y %1\n",
     "to other places"},
    {"turned", "%x = input f32[b, 4]\n%1 = permute f32[4, b] %x perm=[1, 0]\noutput y %1\n", NULL},
    {"attention of each row",
     "%q = input f32[b, 4, 3]\n%k = input f32[b, 4, 3]\n%2 = permute f32[b, 3, 4] %k perm=[0, 2, "
     "1]\n"
     "%3 = dot f32[b, 4, 4] %q, %2\n%4 = dot f32[b, 4, 3] %3, %q\noutput y %4\n",
     NULL},
    {"rows against rows",
     "%x = input f32[b, 3]\n%1 = permute f32[3, b] %x perm=[1, 0]\n%2 = dot f32[b, b] %x, %1\n"
     "output y %2\n",
     "in two dimensions"},
    {"a product over the rows",
     "%x = input f32[b, 3]\n%1 = permute f32[3, b] %x perm=[1, 0]\n%2 = dot f32[3, 3] %1, %x\n"
     "output y %2\n",
     "sums over 'b'"},
    {"a mean over the rows",
     "%x = input f32[b, 3]\n%1 = reduce.sum f32[3] %x axes=[0] ; pool\noutput y %1\n",
     "node 'pool' (reduce) reduces over 'b'"},
    {"ones summed over the rows",
     "%x = input f32[b, 3]\n%1 = const f32[1, 3] fill(2)\n%2 = expand f32[b, 3] %1\n"
     "%3 = reduce.sum f32[3] %2 axes=[0]\noutput y %3\n",
     "reduces over 'b'"},
    {"reversed rows are not to be written down with a symbol, but rows shifted by one are",
     "%x = input f32[b, 3]\n%1 = slice f32[b - 1, 3] %x start=[1, 0]\noutput y %1\n",
     "no multiple of 'b'"},
    {"the first row", "%x = input f32[b, 3]\n%1 = slice f32[1, 3] %x\noutput y %1\n",
     "single rows"},
    {"a slice inside the rows",
     "%x = input f32[b, 6]\n%1 = slice f32[b, 3] %x start=[0, 5] step=[1, -2]\noutput y %1\n",
     NULL},
    {"joined beside each other",
     "%x = input f32[b, 2]\n%y = input f32[b, 3]\n%2 = concat f32[b, 5] %x, %y axis=1\n"
     "output y %2\n",
     NULL},
    {"joined behind each other",
     "%x = input f32[b, 2]\n%y = input f32[b, 2]\n%2 = concat f32[2*b, 2] %x, %y axis=0\n"
     "output y %2\n",
     "to other places"},
    {"padded inside", "%x = input f32[b, 2]\n%1 = pad f32[b, 4] %x lo=[0, 1]\noutput y %1\n", NULL},
    {"numbers of the rows",
     "%x = input f32[b, 2]\n%1 = iota i64[b, 2] axis=0\n%2 = map.cast f32[b, 2] %1\n"
     "%3 = map.add f32[b, 2] %x, %2\noutput y %3\n",
     NULL},
    {"numbers through a larger dimension",
     "%x = input f32[b, 2]\n%1 = iota i64[2*b] axis=0\n%2 = reshape i64[b, 2] %1\n"
     "%3 = map.cast f32[b, 2] %2\n%4 = map.add f32[b, 2] %x, %3\noutput y %4\n",
     NULL},
    {"numbers that run across the rows",
     "%x = input f32[2, b]\n%1 = iota i64[2*b] axis=0\n%2 = reshape i64[2, b] %1\n"
     "%3 = map.cast f32[2, b] %2\n%4 = map.add f32[2, b] %x, %3\noutput y %4\n",
     "to other places"},
    {"a constant all along the rows in two orders",
     "%x = input f32[3, b]\n%1 = const f32[1, 1] fill(3)\n%2 = expand f32[3, b] %1\n"
     "%3 = reshape f32[3*b] %2\n%4 = reshape f32[3*b] %x\n%5 = map.add f32[3*b] %3, %4\n"
     "%6 = reshape f32[3, b] %5\noutput y %6\n",
     NULL},
    {"a column all along the rows is not constant beside them",
     "%x = input f32[b, 3]\n%1 = const f32[3, 1] fill(3)\n%2 = expand f32[3, b] %1\n"
     "%3 = reshape f32[3*b] %2\n%4 = reshape f32[3*b] %x\n%5 = map.add f32[3*b] %3, %4\n"
     "output y %5\n",
     "two different orders"},
    {"a table looked up",
     "%i = input i64[b, 2]\n%t = const f32[10, 3] fill(4)\n"
     "%2 = reshape i64[b, 2, 1] %i\n%3 = expand i64[b, 2, 3] %2\n"
     "%4 = gather f32[b, 2, 3] %t, %3 select=[0, -3]\noutput y %4\n",
     NULL},
    {"each row looks itself up",
     "%x = input f32[b, 10]\n%i = input i64[b, 2]\n"
     "%2 = gather f32[b, 2] %x, %i select=[-1, 0]\noutput y %2\n",
     NULL},
    {"rows look up rows",
     "%x = input f32[b, 3]\n%i = input i64[b, 3]\n"
     "%2 = gather f32[b, 3] %x, %i select=[0, -2]\noutput y %2\n",
     "by numbers that the run computes"},
    {"images",
     "%x = input f32[b, 2, 4, 4]\n%w = const f32[3, 2, 3, 3] fill(5)\n"
     "%2 = conv f32[b, 3, 4, 4] %x, %w pad_lo=[1, 1] pad_hi=[1, 1]\noutput y %2\n",
     NULL},
    {"windows inside the rows",
     "%x = input f32[b, 6]\n%1 = window f32[b, 2, 3] %x axis=[1] stride=[3]\n"
     "%2 = reduce.max f32[b, 2] %1 axes=[2]\noutput y %2\n",
     NULL},
    {"windows over the rows",
     "%x = input f32[b, 6]\n%1 = window f32[b - 1, 6, 2] %x axis=[0]\noutput y %1\n",
     "no multiple of 'b'"},
    {"two inputs whose rows lie differently",
     "%x = input f32[b, 6]\n%y = input f32[6, b]\n%2 = reshape f32[6*b] %x\n"
     "%3 = reshape f32[6*b] %y\n%4 = map.add f32[6*b] %2, %3\noutput y %4\n",
     "map %4 meets rows"},
};

typedef struct bound_graph {
  lw_graph g;
  lw_diag diag;
} bound_graph;

static void parse(const char *text, lw_diag *diag, lw_graph *out) {
  lw_status status = lw__graph_parse(lw__str_of(text), diag, out);
  if (status != LW_OK) fail_msg("%s\n%s", lw__diag_first_error(diag), text);
  out->diag = diag;
}

static void bind(const char *text, int64_t b, bound_graph *out) {
  static const char *const name = "b";
  *out = (bound_graph){0};
  parse(text, &out->diag, &out->g);
  lw_status status = lw__graph_bind_symbols(&out->g, &name, &b, 1, true);
  if (status != LW_OK) fail_msg("%s", lw__diag_first_error(&out->diag));
}

static void unbind(bound_graph *b) {
  lw__graph_deinit(&b->g);
  lw__diag_deinit(&b->diag);
}

/* ---- running with both sizes ----- */

/* Element |i| of a value of size |small| stands where in the value of size |large|. */
static int64_t place_of(const lw_shape *small, const lw_shape *large, int64_t i) {
  int64_t at = 0, weight = 1;
  for (uint32_t d = small->rank; d-- > 0;) {
    at += i % small->dim[d] * weight;
    i /= small->dim[d];
    weight *= large->dim[d];
  }
  return at;
}

static void fill_inputs(const lw_graph *small, const lw_graph *large, lw_arena *arena,
                        lw_host_tensor *a, lw_host_tensor *b) {
  lw_rng rng;
  lw__rng_seed(&rng, 5);
  for (uint32_t k = 0; k < small->inputs.count; k++) {
    const lw_value *v = lw__value(small, small->inputs.data[k]);
    const lw_value *w = lw__value(large, large->inputs.data[k]);
    int64_t n = lw__shape_numel(&v->shape), m = lw__shape_numel(&w->shape);
    size_t size = lw_dtype_size_bytes(v->dtype);
    a[k] = (lw_host_tensor){.dtype = v->dtype, .shape = v->shape};
    b[k] = (lw_host_tensor){.dtype = v->dtype, .shape = w->shape};
    assert_int_equal(lw__arena_alloc(arena, (size_t)n, size, &a[k].data), LW_OK);
    assert_int_equal(lw__arena_alloc(arena, (size_t)m, size, &b[k].data), LW_OK);
    bool floats = lw__dtype_is_float(v->dtype);
    for (int64_t i = 0; i < m && floats; i++) lw__elem_set_f64(v->dtype, b[k].data, i, (double)NAN);
    for (int64_t i = 0; i < n; i++) {
      int64_t at = place_of(&v->shape, &w->shape, i);
      double x = floats ? lw__rng_normal(&rng) : (double)lw__rng_range(&rng, 0, 6);
      for (int side = 0; side < 2; side++) {
        void *data = side == 0 ? a[k].data : b[k].data;
        int64_t where = side == 0 ? i : at;
        if (floats) lw__elem_set_f64(v->dtype, data, where, x);
        if (!floats) lw__elem_set_i64(v->dtype, data, where, (int64_t)x);
      }
    }
  }
}

static void run_both(const rows_case *c, int64_t size) {
  bound_graph small, large;
  lw_arena arena = {0};
  lw_host_tensor a[4], b[4];
  lw_oracle_tensor x[4], y[4];
  bind(c->text, size, &small);
  bind(c->text, BUCKET, &large);
  fill_inputs(&small.g, &large.g, &arena, a, b);
  assert_int_equal(lw__interp_run(&small.g, LW_INTERP_STRICT, a, &arena, 0, &small.diag, x), LW_OK);
  assert_int_equal(lw__interp_run(&large.g, LW_INTERP_STRICT, b, &arena, 0, &large.diag, y), LW_OK);
  for (uint32_t k = 0; k < small.g.outputs.count; k++) {
    for (int64_t i = 0; i < x[k].count; i++) {
      int64_t at = place_of(&x[k].shape, &y[k].shape, i);
      if (x[k].f[i] == y[k].f[at]) continue;
      fail_msg("%s: b = %lld: output %u, element %lld: %g, in the bucket %g", c->name,
               (long long)size, k, (long long)i, x[k].f[i], y[k].f[at]);
    }
  }
  lw__arena_deinit(&arena);
  unbind(&small);
  unbind(&large);
}

/* ---- the cases ----- */

static void rows_stay_apart_or_are_refused(void **state) {
  (void)state;
  for (size_t i = 0; i < LW_ARRAY_COUNT(cases); i++) {
    const rows_case *c = &cases[i];
    lw_diag diag = {0};
    lw_graph open;
    lw_arena arena = {0};
    lw_rows_proof proof;
    bound_graph bound;
    parse(c->text, &diag, &open);
    bind(c->text, BUCKET, &bound);
    assert_int_equal(lw__rows_prove(&open, &bound.g, "b", &arena, &proof), LW_OK);
    const char *said = lw__text_str(&proof.refusal);
    if (proof.holds != (c->refusal == NULL)) fail_msg("%s: '%s'", c->name, said);
    if (c->refusal != NULL && strstr(said, c->refusal) == NULL) fail_msg("%s: '%s'", c->name, said);
    for (int64_t size = 1; proof.holds && size <= BUCKET; size++) run_both(c, size);
    lw__rows_proof_deinit(&proof);
    unbind(&bound);
    lw__arena_deinit(&arena);
    lw__graph_deinit(&open);
    lw__diag_deinit(&diag);
  }
}

static void places_tell_where_rows_are(void **state) {
  (void)state;
  static const char text[] =
      "%x = input f32[3, b, 4]\n%w = const f32[2] fill(1)\n%2 = permute f32[b, 3, 4] %x perm=[1, "
      "0, 2]\n"
      "%3 = reshape f32[12*b] %2\n%4 = map.neg f32[12*b] %3\n%5 = map.neg f32[2] %w\noutput y %4\n"
      "output z %5\n";
  lw_diag diag = {0};
  lw_graph open;
  lw_arena arena = {0};
  lw_rows_proof proof;
  bound_graph bound;
  parse(text, &diag, &open);
  bind(text, BUCKET, &bound);
  assert_int_equal(lw__rows_prove(&open, &bound.g, "b", &arena, &proof), LW_OK);
  assert_true(proof.holds);
  assert_int_equal(proof.inputs[0].dim, 1);
  assert_int_equal(proof.inputs[0].inner, 1);
  assert_int_equal(proof.outputs[0].dim, 0);
  assert_int_equal(proof.outputs[0].inner, 12);
  assert_int_equal(proof.outputs[1].dim, LW_NONE);
  lw__rows_proof_deinit(&proof);
  assert_int_equal(lw__rows_prove(&open, &bound.g, "other", &arena, &proof), LW_OK);
  assert_false(proof.holds);
  assert_non_null(strstr(lw__text_str(&proof.refusal), "no input has a dimension 'other'"));
  lw__rows_proof_deinit(&proof);
  unbind(&bound);
  lw__arena_deinit(&arena);
  lw__graph_deinit(&open);
  lw__diag_deinit(&diag);
}

int main(void) {
  const struct CMUnitTest tests[] = {
      cmocka_unit_test(rows_stay_apart_or_are_refused),
      cmocka_unit_test(places_tell_where_rows_are),
  };
  return cmocka_run_group_tests(tests, NULL, NULL);
}

/* interp_kit.h: what the tests of the interpreter share: a graph under construction and runs of
 * it. */
#ifndef LW_TESTS_INTERP_KIT_H
#define LW_TESTS_INTERP_KIT_H

#include <math.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include <cmocka.h>

#include "graph/interp.h"

#define assert_ok(expr) assert_int_equal((expr), LW_OK)
#define KIT_SHAPE(...)                      \
  kit_shape((const int64_t[]){__VA_ARGS__}, \
            sizeof((const int64_t[]){__VA_ARGS__}) / sizeof(int64_t))

enum { KIT_MOST_INPUTS = 4 };

typedef struct kit {
  lw_graph g;
  lw_diag diag;
  lw_arena arena;
  lw_host_tensor in[KIT_MOST_INPUTS];
  lw_oracle_tensor ideal, strict;
} kit;

static inline lw_shape kit_shape(const int64_t *dims, size_t rank) {
  return lw__shape_of((uint32_t)rank, dims);
}

static inline void kit_init(kit *k) {
  memset(k, 0, sizeof *k);
  assert_ok(lw__graph_init(&k->g, &k->diag));
}

static inline void kit_deinit(kit *k) {
  lw__graph_deinit(&k->g);
  lw__arena_deinit(&k->arena);
  lw__diag_deinit(&k->diag);
}

static inline void kit_set(kit *k, lw_host_tensor *t, lw_dtype dtype, lw_shape shape) {
  *t = (lw_host_tensor){.dtype = dtype, .shape = shape};
  size_t count = (size_t)lw__shape_numel(&shape);
  assert_ok(
      lw__arena_alloc(&k->arena, count > 0 ? count : 1, lw_dtype_size_bytes(dtype), &t->data));
}

static inline lw_value_id kit_input(kit *k, lw_dtype dtype, lw_shape shape) {
  lw_value_id v;
  uint32_t n = k->g.inputs.count;
  assert_true(n < KIT_MOST_INPUTS);
  assert_ok(lw__graph_input(&k->g, dtype, &shape, NULL, &v));
  kit_set(k, &k->in[n], dtype, shape);
  return v;
}

static inline lw_value_id kit_floats(kit *k, lw_dtype dtype, lw_shape shape, const double *data) {
  lw_value_id v = kit_input(k, dtype, shape);
  lw_host_tensor *t = &k->in[k->g.inputs.count - 1];
  for (int64_t i = 0; i < lw__shape_numel(&shape); i++)
    lw__elem_set_f64(dtype, t->data, i, data[i]);
  return v;
}

static inline lw_value_id kit_ints(kit *k, lw_dtype dtype, lw_shape shape, const int64_t *data) {
  lw_value_id v = kit_input(k, dtype, shape);
  lw_host_tensor *t = &k->in[k->g.inputs.count - 1];
  for (int64_t i = 0; i < lw__shape_numel(&shape); i++)
    lw__elem_set_i64(dtype, t->data, i, data[i]);
  return v;
}

static inline lw_value_id kit_map(kit *k, lw_fn fn, lw_value_id a, lw_value_id b) {
  lw_value_id v, in[2] = {a, b};
  assert_ok(lw__graph_map(&k->g, fn, in, &v));
  return v;
}

static inline lw_value_id kit_cast(kit *k, lw_value_id a, lw_dtype to) {
  lw_value_id v;
  assert_ok(lw__graph_cast(&k->g, a, to, &v));
  return v;
}

/* A value of |like|'s type and shape, everywhere |x|. */
static inline lw_value_id kit_splat(kit *k, lw_value_id like, double x) {
  lw_value_id v;
  assert_ok(lw__graph_scalar(&k->g, lw__value(&k->g, like)->dtype, x, &v));
  assert_ok(lw__graph_broadcast(&k->g, v, &lw__value(&k->g, like)->shape, &v));
  return v;
}

/* Makes |v| the one output and runs both modes. */
static inline void kit_run(kit *k, lw_value_id v) {
  assert_ok(lw__graph_output(&k->g, v, "y"));
  assert_ok(lw__interp_run(&k->g, LW_INTERP_IDEAL, k->in, &k->arena, 0, &k->diag, &k->ideal));
  assert_ok(lw__interp_run(&k->g, LW_INTERP_STRICT, k->in, &k->arena, 0, &k->diag, &k->strict));
}

static inline bool kit_near(double got, double want, double relative) {
  if (isnan(want)) return isnan(got);
  return got == want || fabs(got - want) <= relative * fabs(want);
}

#endif

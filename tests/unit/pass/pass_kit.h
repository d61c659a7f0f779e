/* pass_kit.h: what the tests of the passes share: graphs from text, and graphs before and after
 * compared in the interpreter. */
#ifndef LW_TESTS_PASS_KIT_H
#define LW_TESTS_PASS_KIT_H

#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include <cmocka.h>

#include "compiler/pass/pass.h"
#include "graph/interp.h"
#include "lib/rgraph.h"

#define assert_ok(expr) assert_int_equal((expr), LW_OK)

static inline void kit_parse(const char *text, lw_diag *diag, lw_graph *out) {
  if (lw__graph_parse(lw__str_of(text), diag, out) != LW_OK) {
    fail_msg("%s in\n%s", lw__diag_first_error(diag), text);
  }
}

static inline void kit_print(const lw_graph *g, lw_text *out) {
  lw__graph_print(g, false, out);
  assert_int_equal(out->status, LW_OK);
}

/* Random inputs of |g|, in |arena|. */
static inline lw_host_tensor *kit_inputs(const lw_graph *g, uint64_t seed, lw_arena *arena) {
  lw_host_tensor *in;
  lw_rng rng;
  lw__rng_seed(&rng, seed);
  assert_ok(lw__arena_alloc(arena, g->inputs.count + 1, sizeof *in, &in));
  for (uint32_t i = 0; i < g->inputs.count; i++) {
    const lw_value *value = lw__value(g, g->inputs.data[i]);
    int64_t count = lw__shape_numel(&value->shape);
    assert_true(count >= 0);
    in[i] = (lw_host_tensor){value->dtype, value->shape, NULL};
    assert_ok(
        lw__arena_alloc(arena, (size_t)count + 1, lw_dtype_size_bytes(value->dtype), &in[i].data));
    lw_random_fill(&rng, value->dtype, in[i].data, count);
  }
  return in;
}

/* The outputs of |after|, computed strictly, must lie inside the bounds around those of
 * |before|. */
static inline double kit_compare(const lw_graph *before, const lw_graph *after, uint64_t seed,
                                 const char *what) {
  lw_arena arena = {0};
  lw_host_tensor *in = kit_inputs(before, seed, &arena);
  uint32_t outputs = before->outputs.count;
  lw_oracle_tensor *want, *got;
  lw_diag diag = {0};
  double deviations = 0;
  assert_ok(lw__arena_alloc(&arena, outputs, sizeof *want, &want));
  assert_ok(lw__arena_alloc(&arena, outputs, sizeof *got, &got));
  assert_int_equal(after->outputs.count, outputs);
  if (lw__interp_run(before, LW_INTERP_IDEAL, in, &arena, 0, &diag, want) ==
      LW_OK) { /* indices may be out of range */
    if (lw__interp_run(after, LW_INTERP_STRICT, in, &arena, 0, &diag, got) != LW_OK) {
      fail_msg("%s: %s", what, lw__diag_first_error(&diag));
    }
    for (uint32_t o = 0; o < outputs; o++) {
      void *data;
      lw_compare c;
      assert_int_equal(want[o].dtype, got[o].dtype);
      assert_int_equal(want[o].count, got[o].count);
      assert_ok(lw__arena_alloc(&arena, (size_t)want[o].count + 1, 8, &data));
      for (int64_t k = 0; k < want[o].count; k++) {
        if (got[o].f != NULL) {
          lw__elem_set_f64(got[o].dtype, data, k, got[o].f[k]);
        } else {
          lw__elem_set_i64(got[o].dtype, data, k, got[o].i[k]);
        }
      }
      lw__interp_compare(&want[o], data, &c);
      if (c.bad > 0) {
        fail_msg("%s: output %u element %lld: %.9g instead of %.9g +- %.9g", what, o,
                 (long long)c.worst_index, c.worst_got, c.worst_want, c.worst_bound);
      }
      if (c.suspect > 0) {
        fail_msg("%s: output %u element %lld is %.3g deviations off", what, o,
                 (long long)c.worst_deviations_index, c.worst_deviations);
      }
      if (c.worst_deviations > deviations) deviations = c.worst_deviations;
    }
  }
  lw__diag_deinit(&diag);
  lw__arena_deinit(&arena);
  return deviations;
}

#endif

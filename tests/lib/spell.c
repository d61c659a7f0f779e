/* spell.c: graphs for tests, node by node. */
#include "lib/spell.h"

#include <stdio.h>
#include <string.h>

#include "lib/rgraph.h"

static bool keep(lw_speller *s, lw_status status) {
  if (s->status == LW_OK) s->status = status;
  return s->status == LW_OK;
}

void lw_spell_init(lw_speller *s) {
  memset(s, 0, sizeof *s);
  s->status = lw__graph_init(&s->g, NULL);
}

lw_status lw_spell_finish(lw_speller *s, lw_graph *out) {
  lw_status status = s->status == LW_OK ? lw__graph_compact(&s->g) : s->status;
  if (status == LW_OK)
    *out = s->g;
  else
    lw__graph_deinit(&s->g);
  memset(&s->g, 0, sizeof s->g);
  return status;
}

lw_value_id lw_spell_input(lw_speller *s, const char *name, lw_dtype dtype, uint32_t rank,
                           const int64_t *dims) {
  lw_shape shape = lw__shape_of(rank, dims);
  lw_value_id v = 0;
  char full[64];
  snprintf(full, sizeof full, "%s%s", s->prefix ? s->prefix : "", name);
  if (s->status == LW_OK) keep(s, lw__graph_input(&s->g, dtype, &shape, full, &v));
  return v;
}

lw_value_id lw_spell_const(lw_speller *s, uint64_t seed, lw_dtype dtype, uint32_t rank,
                           const int64_t *dims) {
  lw_shape shape = lw__shape_of(rank, dims);
  lw_value_id v = 0;
  void *data = NULL;
  lw_rng rng;
  lw__rng_seed(&rng, seed);
  if (!keep(s, lw__mem_resize(&data, (size_t)lw__shape_numel(&shape) * 8 + 1))) return 0;
  lw_random_fill(&rng, dtype, data, lw__shape_numel(&shape));
  keep(s, lw__graph_const_copy(&s->g, dtype, &shape, data, &v));
  lw__mem_free(data);
  return v;
}

lw_value_id lw_spell_number(lw_speller *s, lw_dtype dtype, double x) {
  lw_value_id v = 0;
  if (s->status == LW_OK) keep(s, lw__graph_scalar(&s->g, dtype, x, &v));
  return v;
}

lw_value_id lw_spell_1(lw_speller *s, lw_fn fn, lw_value_id a) {
  lw_value_id v = 0;
  if (s->status == LW_OK) keep(s, lw__graph_map(&s->g, fn, &a, &v));
  return v;
}

lw_value_id lw_spell_2(lw_speller *s, lw_fn fn, lw_value_id a, lw_value_id b) {
  bool commutes = fn == LW_FN_ADD || fn == LW_FN_MUL || fn == LW_FN_MAX || fn == LW_FN_MIN;
  lw_value_id v = 0, in[2] = {a, b};
  if (s->swap && commutes) in[0] = b, in[1] = a;
  if (s->status == LW_OK) keep(s, lw__graph_map_bc(&s->g, fn, in, &v));
  return v;
}

lw_value_id lw_spell_n(lw_speller *s, lw_fn fn, lw_value_id a, double b) {
  if (s->status != LW_OK) return 0;
  return lw_spell_2(s, fn, a, lw_spell_number(s, lw__value(&s->g, a)->dtype, b));
}

lw_value_id lw_spell_reduce(lw_speller *s, lw_red red, lw_value_id a, uint32_t axes) {
  lw_value_id v = 0;
  if (s->status != LW_OK || !keep(s, lw__graph_reduce(&s->g, red, a, axes, &v))) return 0;
  lw_shape shape = lw__value(&s->g, a)->shape;
  for (uint32_t d = 0; d < shape.rank; d++)
    if (axes >> d & 1) shape.dim[d] = 1;
  keep(s, lw__graph_reshape(&s->g, v, &shape, &v));
  return v;
}

lw_value_id lw_spell_mean(lw_speller *s, lw_value_id a, uint32_t axes) {
  if (s->status != LW_OK) return 0;
  const lw_shape shape = lw__value(&s->g, a)->shape;
  int64_t count = 1;
  for (uint32_t d = 0; d < shape.rank; d++)
    if (axes >> d & 1) count *= shape.dim[d];
  return lw_spell_n(s, LW_FN_DIV, lw_spell_reduce(s, LW_RED_SUM, a, axes), (double)count);
}

lw_value_id lw_spell_permute(lw_speller *s, lw_value_id a, uint32_t p0, uint32_t p1) {
  lw_value_id v = 0;
  if (s->status != LW_OK) return 0;
  uint32_t rank = lw__value(&s->g, a)->shape.rank;
  uint8_t perm[LW_MAX_RANK];
  for (uint32_t d = 0; d < rank; d++) perm[d] = (uint8_t)d;
  perm[rank - 2] = (uint8_t)(rank - 2 + p0);
  perm[rank - 1] = (uint8_t)(rank - 2 + p1);
  keep(s, lw__graph_permute(&s->g, a, perm, &v));
  return v;
}

lw_value_id lw_spell_dot(lw_speller *s, lw_value_id a, lw_value_id b) {
  lw_value_id v = 0;
  if (s->status == LW_OK) keep(s, lw__graph_dot(&s->g, a, b, &v));
  return v;
}

static uint32_t last_axis(const lw_speller *s, lw_value_id x) {
  return s->status == LW_OK ? 1u << (lw__value(&s->g, x)->shape.rank - 1) : 1;
}

lw_value_id lw_spell_softmax(lw_speller *s, lw_value_id x) {
  uint32_t axes = last_axis(s, x);
  lw_value_id e = lw_spell_1(s, LW_FN_EXP,
                             lw_spell_2(s, LW_FN_SUB, x, lw_spell_reduce(s, LW_RED_MAX, x, axes)));
  return lw_spell_2(s, LW_FN_DIV, e, lw_spell_reduce(s, LW_RED_SUM, e, axes));
}

lw_value_id lw_spell_layer_norm(lw_speller *s, lw_value_id x, lw_value_id scale, lw_value_id bias) {
  uint32_t axes = last_axis(s, x);
  lw_value_id d = lw_spell_2(s, LW_FN_SUB, x, lw_spell_mean(s, x, axes));
  lw_value_id variance = lw_spell_mean(s, lw_spell_2(s, LW_FN_MUL, d, d), axes);
  lw_value_id y = lw_spell_2(s, LW_FN_DIV, d,
                             lw_spell_1(s, LW_FN_SQRT, lw_spell_n(s, LW_FN_ADD, variance, 1e-5)));
  if (scale != LW_NONE) y = lw_spell_2(s, LW_FN_MUL, y, scale);
  return bias == LW_NONE ? y : lw_spell_2(s, LW_FN_ADD, y, bias);
}

lw_value_id lw_spell_gelu(lw_speller *s, lw_value_id x) {
  lw_value_id erf = lw_spell_1(s, LW_FN_ERF, lw_spell_n(s, LW_FN_DIV, x, 1.4142135623730951));
  return lw_spell_n(s, LW_FN_MUL, lw_spell_2(s, LW_FN_MUL, x, lw_spell_n(s, LW_FN_ADD, erf, 1)),
                    0.5);
}

lw_value_id lw_spell_relu(lw_speller *s, lw_value_id x) { return lw_spell_n(s, LW_FN_MAX, x, 0); }

void lw_spell_output(lw_speller *s, lw_value_id v, const char *name) {
  if (s->status == LW_OK) keep(s, lw__graph_output(&s->g, v, name));
}

/* pgraph.c: see pgraph.h. */
#include "lib/pgraph.h"

#include <math.h>
#include <stdio.h>

#include "lib/spell.h"

const char *const lw_pgraph_end_name[LW_PEND_COUNT] = {
    "plain",    "bias",    "gelu",     "gelu_tanh", "silu", "relu",
    "residual", "dropout", "quantise", "turned",    "two",  "wide"};

static lw_value_id cast(lw_speller *s, lw_value_id v, lw_dtype to) {
  lw_value_id out = 0;
  if (s->status == LW_OK) s->status = lw__graph_cast(&s->g, v, to, &out);
  return out;
}

static lw_value_id gelu_tanh(lw_speller *s, lw_value_id x) {
  lw_value_id cube = lw_spell_2(s, LW_FN_MUL, lw_spell_2(s, LW_FN_MUL, x, x), x);
  lw_value_id inner = lw_spell_2(s, LW_FN_ADD, x, lw_spell_n(s, LW_FN_MUL, cube, 0.044715));
  lw_value_id t = lw_spell_1(s, LW_FN_TANH, lw_spell_n(s, LW_FN_MUL, inner, 0.7978845608028654));
  return lw_spell_n(s, LW_FN_MUL, lw_spell_2(s, LW_FN_MUL, x, lw_spell_n(s, LW_FN_ADD, t, 1)), 0.5);
}

static lw_value_id quantise(lw_speller *s, lw_value_id x) {
  lw_value_id q =
      lw_spell_1(s, LW_FN_ROUND, lw_spell_n(s, LW_FN_MUL, cast(s, x, LW_DTYPE_F32), 16));
  q = lw_spell_n(s, LW_FN_MIN, lw_spell_n(s, LW_FN_MAX, q, -128), 127);
  return cast(s, q, LW_DTYPE_I8);
}

static lw_value_id dropout(lw_speller *s, const lw_pgraph *p, lw_value_id x) {
  const int64_t dims[2] = {p->m, p->n};
  lw_value_id keep = lw_spell_input(s, "mask", LW_DTYPE_BOOL, 2, dims);
  lw_value_id more = lw_spell_input(s, "residual", p->dtype, 2, dims);
  x = lw_spell_2(s, LW_FN_MUL, lw_spell_n(s, LW_FN_MUL, x, 1.25), cast(s, keep, p->dtype));
  return lw_spell_2(s, LW_FN_ADD, x, more);
}

static lw_value_id finish(lw_speller *s, const lw_pgraph *p, lw_value_id x, lw_value_id sum) {
  const int64_t dims[2] = {p->m, p->n};
  switch (p->end) {
    case LW_PEND_GELU: return lw_spell_gelu(s, x);
    case LW_PEND_GELU_TANH: return gelu_tanh(s, x);
    case LW_PEND_SILU: return lw_spell_2(s, LW_FN_MUL, x, lw_spell_1(s, LW_FN_SIGMOID, x));
    case LW_PEND_RELU: return lw_spell_relu(s, x);
    case LW_PEND_RESIDUAL:
      return lw_spell_2(s, LW_FN_ADD, x, lw_spell_input(s, "residual", p->dtype, 2, dims));
    case LW_PEND_DROPOUT: return dropout(s, p, x);
    case LW_PEND_QUANTISE: return quantise(s, x);
    case LW_PEND_TURNED: return lw_spell_permute(s, x, 1, 0);
    case LW_PEND_TWO: lw_spell_output(s, sum, "sum"); return lw_spell_relu(s, x);
    case LW_PEND_WIDE: return cast(s, x, LW_DTYPE_F32);
    default: return x;
  }
}

static lw_value_id weights(lw_speller *s, const lw_pgraph *p) {
  const int64_t nk[2] = {p->n, p->k}, kn[2] = {p->k, p->n};
  const int64_t *dims = p->weights_nk ? nk : kn;
  lw_value_id w = p->fixed ? lw_spell_const(s, 5, p->dtype, 2, dims)
                           : lw_spell_input(s, "w", p->dtype, 2, dims);
  return p->weights_nk ? lw_spell_permute(s, w, 1, 0) : w;
}

lw_status lw_pgraph_make(const lw_pgraph *p, lw_graph *out) {
  lw_speller s;
  lw_spell_init(&s);
  lw_value_id x = lw_spell_input(&s, "x", p->dtype, 2, (const int64_t[]){p->m, p->k});
  lw_value_id sum = lw_spell_dot(&s, x, weights(&s, p));
  sum = lw_spell_n(&s, LW_FN_MUL, sum, exp2(round(-0.5 * log2((double)p->k))));
  lw_value_id y = sum;
  if (p->end != LW_PEND_PLAIN)
    y = lw_spell_2(&s, LW_FN_ADD, y,
                   lw_spell_input(&s, "bias", p->dtype, 1, (const int64_t[]){p->n}));
  lw_spell_output(&s, finish(&s, p, y, sum), "y");
  return lw_spell_finish(&s, out);
}

void lw_pgraph_describe(const lw_pgraph *p, char out[80]) {
  snprintf(out, 80, "%lldx%lldx%lld %s %s %s", (long long)p->m, (long long)p->n, (long long)p->k,
           lw_dtype_name(p->dtype), p->weights_nk ? "nk" : "kn", lw_pgraph_end_name[p->end]);
}

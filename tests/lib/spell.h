/* spell.h: builds graphs in tests, with numpy broadcasting and composites spelled by hand. Errors
 * are sticky: build freely, look at |status| once. */
#ifndef LW_TEST_SPELL_H
#define LW_TEST_SPELL_H

#include "graph/graph.h"

typedef struct lw_speller {
  lw_graph g;
  lw_status status;
  const char *prefix; /* of the names of inputs; NULL: none */
  bool swap;          /* operands of commutative functions change sides */
} lw_speller;

void lw_spell_init(lw_speller *s);
/* The graph, or LW_OK's opposite; the speller is empty afterwards. */
lw_status lw_spell_finish(lw_speller *s, lw_graph *out) LW_MUST_CHECK;

lw_value_id lw_spell_input(lw_speller *s, const char *name, lw_dtype dtype, uint32_t rank,
                           const int64_t *dims);
lw_value_id lw_spell_const(lw_speller *s, uint64_t seed, lw_dtype dtype, uint32_t rank,
                           const int64_t *dims); /* normal numbers */
lw_value_id lw_spell_number(lw_speller *s, lw_dtype dtype, double x);
lw_value_id lw_spell_1(lw_speller *s, lw_fn fn, lw_value_id a);
lw_value_id lw_spell_2(lw_speller *s, lw_fn fn, lw_value_id a, lw_value_id b);
lw_value_id lw_spell_n(lw_speller *s, lw_fn fn, lw_value_id a, double b); /* with a number */
lw_value_id lw_spell_reduce(lw_speller *s, lw_red red, lw_value_id a,
                            uint32_t axes); /* extents 1 stay */
lw_value_id lw_spell_mean(lw_speller *s, lw_value_id a, uint32_t axes);
lw_value_id lw_spell_permute(lw_speller *s, lw_value_id a, uint32_t p0,
                             uint32_t p1); /* rank 2, or the last two dims */
lw_value_id lw_spell_dot(lw_speller *s, lw_value_id a, lw_value_id b);

/* Over the last axis, node by node. */
lw_value_id lw_spell_softmax(lw_speller *s, lw_value_id x);
lw_value_id lw_spell_layer_norm(lw_speller *s, lw_value_id x, lw_value_id scale, lw_value_id bias);
lw_value_id lw_spell_gelu(lw_speller *s, lw_value_id x);
lw_value_id lw_spell_relu(lw_speller *s, lw_value_id x);
void lw_spell_output(lw_speller *s, lw_value_id v, const char *name);

#endif

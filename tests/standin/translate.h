/* translate.h: generated CUDA C to host C, and its kernels as functions. */
#ifndef LW_TESTS_STANDIN_TRANSLATE_H
#define LW_TESTS_STANDIN_TRANSLATE_H

#include "base/base.h"

/* Rewrites |source| so that a C compiler takes it with shim.h in front. For every kernel NAME three
 * symbols are added: void standin_call_NAME(const uint64_t *parameters); const int
 * standin_facts_NAME[4]: number of parameters, most threads (launch bounds; 1024 without), 1 when
 * its threads meet, how many parameters are tensor maps (the last ones, 128 bytes each). */
void lw_standin_translate(const char *source, lw_text *out);

/* The first step: |source| with ordinary kernels in place of those with a product. */
void lw_standin_put_products(const char *source, lw_text *out);

#endif

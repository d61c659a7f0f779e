/* product_sm90_helpers.h: the helper functions that matrix products for sm_90a may use besides
 * those of other CUDA sources. */
#ifndef LW_COMPILER_EMIT_PRODUCT_SM90_HELPERS_H
#define LW_COMPILER_EMIT_PRODUCT_SM90_HELPERS_H

#include "compiler/emit/prelude.h"

extern const lw_helper_table lw__emit_helpers_product_sm90;

#endif

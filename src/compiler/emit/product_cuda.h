/* product_cuda.h: kernels with a product as CUDA C. Internal to emit/. */
#ifndef LW_COMPILER_EMIT_PRODUCT_CUDA_H
#define LW_COMPILER_EMIT_PRODUCT_CUDA_H

#include "compiler/emit/printer.h"
#include "compiler/emit/product_sm90.h"
#include "compiler/emit/product_sm90_helpers.h"

extern const char *const lw__cuda_memory_types[LW_DTYPE_COUNT];

lw_status lw__cuda_product(lw_printer *p, const char *name) LW_MUST_CHECK;

#endif

/* product.h: a small kernel with a product, for tests of kernel IR, emitters and runtime: out[row,
 * column] = max(sum + bias[column], 0) + more[row, column]. */
#ifndef LW_TEST_PRODUCT_H
#define LW_TEST_PRODUCT_H

#include "compiler/kernel/build.h"

typedef struct lw_test_product {
  lw_dtype dtype, out_dtype;
  lw_product_b b_layout;
  lw_product_store store;
  bool turned; /* out[column, row], stored by the body */
  int64_t columns, depth;
  uint32_t split; /* 0: 1 */
} lw_test_product;

/* Buffers: a, b, bias (columns), more (rows x columns, as out), out; a, b without padding. The
 * scalar is the number of rows, which a store of |turned| needs as a constant: |rows|. */
lw_status lw_test_product_make(const lw_test_product *t, int64_t rows,
                               lw_kernel *out) LW_MUST_CHECK;

#endif

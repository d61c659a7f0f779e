/* product_sm90.h: prints the inner kernel of a matrix product for Hopper's tensor cores (sm_90a):
 * out[M,N] = epilogue(A[M,K] B), A row-major, sums in f32. One warpgroup copies tiles of A and B to
 * shared memory (TMA) in a ring of stages; two warpgroups multiply (wgmma) and store. The grid is
 * persistent: every block takes one tile after the other. Kernels with a product
 * (kernel/product.h) are printed with it, and it prints products that stand alone. */
#ifndef LW_COMPILER_EMIT_PRODUCT_SM90_H
#define LW_COMPILER_EMIT_PRODUCT_SM90_H

#include "compiler/kernel/product.h"

/* What happens to a sum before it is stored, as statements. In their scope are the ints |row| and
 * |column|, always inside the result, so that loads need no guards; the float |sum|; and the bool
 * |inside|: what is computed for places outside must not be stored. Each element is computed once.
 */
typedef struct lw_product_hook {
  /* Further parameters of the kernel, each with a comma behind it: "const unsigned short *bias, ".
   * May be NULL. */
  const char *parameters;
  const char *helpers; /* functions, printed before the kernel; may be NULL */
  bool uses_row, uses_column, uses_inside;
  bool packs; /* |element| sets the float |value|, which is stored as one of a pair or through a
                 tensor map; else it stores by itself (STORE_DIRECT) */
  /* Statements that run once for a column and all its rows in a thread; may be NULL. */
  void (*column)(lw_text *out, const void *user);
  /* Once per element; NULL: the sum is stored as it is. */
  void (*element)(lw_text *out, const void *user);
  const void *user;
} lw_product_hook;

/* A source for NVRTC (sm_90a, no headers) with one entry point:
 *   NAME([unsigned short *out, long long pitch,] int rows, int columns, int depth,
 *        further parameters of the hook, map of A, map of B [, map of the result])
 * The result is given in the one way or the other, as |store| says; |pitch| in elements. rows,
 * columns, depth >= 1, tiles < 2^31. Grid: any multiple of |cluster| in x; as many blocks as there
 * are multiprocessors is best (|split|: |split| for each tile). The hook packs. */
lw_status lw__emit_product_sm90(const lw_product_sm90 *p, const lw_product_hook *hook,
                                const char *name, lw_text *out) LW_MUST_CHECK;

/* The same as part of a source, without the helpers it uses. |parameters| and |setup| are the
 * kernel's: |setup| defines the ints rows, columns and depth and, for direct stores of a hook that
 * packs, unsigned short *out and long long pitch. The text stands between two lines with the marks
 * below and the name; what the hook prints stands between the marks inside. */
lw_status lw__product_sm90_print(const lw_product_sm90 *p, const lw_product_hook *hook,
                                 const char *name, const char *parameters, const char *setup,
                                 lw_text *out) LW_MUST_CHECK;
#define LW_PRODUCT_MARK_BEGIN "/* tensor cores: "
#define LW_PRODUCT_MARK_END "/* end of "
#define LW_PRODUCT_MARK_SETUP "/* setup */\n"
#define LW_PRODUCT_MARK_COLUMN "/* a column */\n"
#define LW_PRODUCT_MARK_ELEMENT "/* an element */\n"
#define LW_PRODUCT_MARK_DONE "/* done */\n"

#endif

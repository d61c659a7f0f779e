/* printer.h: what printing CUDA C and GNU C have in common: names, literals, expressions, the walk
 * over regions. What differs is in a table of functions per target. */
#ifndef LW_COMPILER_EMIT_PRINTER_H
#define LW_COMPILER_EMIT_PRINTER_H

#include "compiler/emit/prelude.h"
#include "compiler/kernel/kernel.h"

typedef struct lw_printer lw_printer;

typedef struct lw_printer_target {
  const char *const *value_types;  /* per lw_dtype: types of values */
  const char *const *memory_types; /* per lw_dtype: types of elements of buffers */
  bool unsigned_quotients;         /* of indices that are never below zero */
  bool wide_index;                 /* index arithmetic in i64 throughout, without casts */
  const char *top;                 /* first lines of a source: macros that helpers rely on */
  lw_prelude prelude;
  void (*begin)(lw_printer *p, const char *name); /* up to and with the declarations of arrays */
  void (*end)(lw_printer *p);
  void (*loop_hint)(lw_printer *p, const lw_kinstr *in); /* line before a loop, or nothing */
  /* The element as it is in memory (LGET), a statement (LSET, LOADV, STOREV), an expression
   * (REDUCE). */
  void (*local_get)(lw_printer *p, const lw_kinstr *in);
  void (*local_set)(lw_printer *p, const lw_kinstr *in);
  void (*load_vector)(lw_printer *p, const lw_kinstr *in);
  void (*store_vector)(lw_printer *p, const lw_kinstr *in);
  void (*local_vector)(lw_printer *p, const lw_kinstr *in); /* MOVEV, MULADDV, SPILL */
  void (*reduce)(lw_printer *p, const lw_kinstr *in, bool leads);
  /* A whole kernel with a product, and the helpers of its skeleton. Absent: there are none. */
  lw_status (*product)(lw_printer *p, const char *name);
  const lw_helper_table *product_helpers;
  const char *product_begin, *product_end; /* lines around these helpers */
  void (*gpu)(lw_printer *p, const lw_kinstr *in); /* a statement: SGETV, SSETV, COPY .. MMA */
} lw_printer_target;

struct lw_printer {
  const lw_printer_target *target;
  const lw_kernel *kernel;
  lw_text *out;
  uint8_t *live, *plain, *positive, *leads; /* see kernel/walk.h */
  uint8_t *uses;                 /* per instruction: LW_USE_* */
  uint8_t *uniform;              /* per instruction: all threads of the block have the same value */
  uint32_t *number;              /* per instruction: its id in the text */
  uint32_t count;
  unsigned indent;
  unsigned divergent; /* how many of the regions around are not run by all threads alike */
};

/* How the value of an instruction is used. Of narrow floats that are stored in the type they were
 * read in only the bits are. */
enum { LW_USE_VALUE = 1, LW_USE_BITS = 2 };
void lw__printer_find_uses(const lw_kernel *kernel, const uint8_t *live, uint8_t *uses);
/* Element type of what LOAD, SGET and LGET read; LW_DTYPE_NONE for other instructions. */
lw_dtype lw__printer_read_type(const lw_kernel *kernel, const lw_kinstr *in);

lw_status lw__printer_run(const lw_printer_target *target, const lw_kernel *const *kernels,
                          const char *const *names, uint32_t count, lw_text *out) LW_MUST_CHECK;

/* One instruction as its lines. Its operands were printed before. */
void lw__printer_instruction(lw_printer *p, uint32_t id);
void lw__printer_line(lw_printer *p); /* starts a line: indentation */
void lw__printer_value(lw_printer *p, lw_kval v);
void lw__printer_pred(lw_printer *p, lw_kval pred,
                      const char *none); /* |none| stands for an absent one */
/* Index of an access to a buffer, |more| elements further. */
void lw__printer_place(lw_printer *p, const lw_kinstr *in, uint32_t more);
/* at + k, where |at| may be absent. */
void lw__printer_element(lw_printer *p, lw_kval at, uint32_t k);
/* |value| as an element of |dtype| in memory. */
void lw__printer_to_memory(lw_printer *p, lw_dtype dtype, lw_kval value);
const lw_kinstr *lw__printer_instr(const lw_printer *p, lw_kval v);
/* True when the integer |v| is known to be a multiple of |m| (a power of two). Absent: 0. */
bool lw__printer_is_multiple(const lw_printer *p, lw_kval v, uint32_t m);
bool lw__printer_uses_buffer(const lw_printer *p, uint32_t buffer);

#endif

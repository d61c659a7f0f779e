/* prelude.h: the helper functions of generated sources, as rows of text, and the mechanism that
 * prints those that a source uses: every identifier lw_* in the source is looked up, and so on
 * through what the helpers use.
 *
 * A row stands for one function per type. In its text $t is the type's suffix (i32, f64 ..), $T its
 * name in the target's language, $U the unsigned type of at least 32 bits to compute in, $B its
 * width in bits, $L and $H the least and largest value as integer literals, $l and $h the floats
 * -2^(B-1) or 0 and 2^(B-1) or 2^B that a float is compared with before it becomes an integer. Rows
 * for casts have a source type too: $f its suffix, $F its name. */
#ifndef LW_COMPILER_EMIT_PRELUDE_H
#define LW_COMPILER_EMIT_PRELUDE_H

#include "base/base.h"

#define LW_HELPER_BIT(e) (1u << LW_DTYPE_##e)
#define LW_HELPER_SINT \
  (LW_HELPER_BIT(I8) | LW_HELPER_BIT(I16) | LW_HELPER_BIT(I32) | LW_HELPER_BIT(I64))
#define LW_HELPER_UINT \
  (LW_HELPER_BIT(U8) | LW_HELPER_BIT(U16) | LW_HELPER_BIT(U32) | LW_HELPER_BIT(U64))
#define LW_HELPER_INT (LW_HELPER_SINT | LW_HELPER_UINT)
#define LW_HELPER_FLT (LW_HELPER_BIT(F32) | LW_HELPER_BIT(F64))
#define LW_HELPER_BOOL LW_HELPER_BIT(BOOL)
#define LW_HELPER_ANY (LW_HELPER_INT | LW_HELPER_FLT | LW_HELPER_BOOL)

typedef struct lw_helper {
  const char *name;     /* "lw_add_$t", "lw_cast_$f_$t", or a plain name */
  uint32_t types, from; /* sets of LW_HELPER_BIT for $t and $f; 0: no such parameter */
  const char *source;
} lw_helper;

typedef struct lw_helper_table {
  const lw_helper *rows;
  uint32_t count;
} lw_helper_table;

extern const lw_helper_table lw__emit_helpers_common, lw__emit_helpers_c, lw__emit_helpers_cuda;

typedef struct lw_prelude {
  const lw_helper_table *tables[2]; /* looked through in this order; the second may be NULL */
  const char *const *type_names;    /* per lw_dtype */
} lw_prelude;

/* Prints the helpers that |body| uses, those that are used by others first. */
lw_status lw__prelude_print(const lw_prelude *prelude, const lw_text *body,
                            lw_text *out) LW_MUST_CHECK;
/* True when the prelude has a helper of this name. */
bool lw__prelude_has(const lw_prelude *prelude, const char *name);

#endif

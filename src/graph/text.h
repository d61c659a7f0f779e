/* text.h: the attributes in the text form, one row each; printer and parser both go by these rows.
 */
#ifndef LW_GRAPH_TEXT_H
#define LW_GRAPH_TEXT_H

#include "graph/infer.h"

typedef enum lw_field_kind {
  LW_FIELD_U8_LIST,
  LW_FIELD_I8_LIST,
  LW_FIELD_I64_LIST, /* key=[1, 2] */
  LW_FIELD_U32,
  LW_FIELD_I64,    /* key=1 */
  LW_FIELD_MASK,   /* key=[0, 2]: bits of a uint32_t */
  LW_FIELD_SCALAR, /* key=0.5: lw_scalar of the result's type */
  LW_FIELD_FLAG,   /* key, when true */
} lw_field_kind;

typedef struct lw_field {
  lw_op op;
  const char *key;
  lw_field_kind kind;
  size_t offset; /* in lw_attr */
  bool required; /* in the text; otherwise it is |value|, in lists throughout */
  int64_t value;
} lw_field;
extern const lw_field lw__text_fields[];
extern const size_t lw__text_field_count;

/* Number of entries of |op|'s lists, given the rank of its first operand. */
uint32_t lw__text_list_length(lw_op op, const lw_attr *attr, uint32_t rank);

/* Constants with more elements are printed without their data unless asked for. */
enum { LW_TEXT_INLINE_ELEMENTS = 16 };

/* One number of |dtype| so that the parser reads exactly it; NaNs with their bits where they are
 * not the usual one. */
void lw__text_add_element(lw_text *out, lw_dtype dtype, const void *data, int64_t index);
/* Decimal points are points, whatever the program's locale is: call before and after printing or
 * parsing numbers. Per thread. */
typedef struct lw_text_locale { void *ours, *before; } lw_text_locale;
lw_text_locale lw__text_locale_enter(void);
void lw__text_locale_leave(lw_text_locale locale);

#endif

/* ops.h: the enums and fact tables expanded from ops.def. */
#ifndef LW_GRAPH_OPS_H
#define LW_GRAPH_OPS_H

#include "base/base.h"

typedef enum lw_op {
#define LW_OP(e, name, lo, hi, kind) LW_OP_##e,
#include "graph/ops.def"
  LW_OP_COUNT
} lw_op;

typedef enum lw_fn {
#define LW_FN(e, name, arity, domain, flt, integer, slots, special, ulp) LW_FN_##e,
#include "graph/ops.def"
  LW_FN_COUNT
} lw_fn;

typedef enum lw_red {
#define LW_RED(e, name, fn, domain) LW_RED_##e,
#include "graph/ops.def"
  LW_RED_COUNT
} lw_red;

typedef enum lw_op_kind { LW_KIND_SOURCE, LW_KIND_MAP, LW_KIND_MOVE, LW_KIND_COMPUTE } lw_op_kind;
typedef enum lw_domain {
  LW_DOMAIN_ARITH, LW_DOMAIN_FLOAT, LW_DOMAIN_COMPARE, LW_DOMAIN_LOGIC, LW_DOMAIN_BITS,
  LW_DOMAIN_SELECT, LW_DOMAIN_CAST, LW_DOMAIN_TEST
} lw_domain;

typedef struct lw_op_info {
  const char *name;
  uint16_t min_operands, max_operands;
  lw_op_kind kind;
} lw_op_info;
typedef struct lw_fn_info {
  const char *name;
  uint8_t arity;
  lw_domain domain;
  const char *float_spelling, *int_spelling;
  uint16_t issue_slots, special; /* per element, f32, on a GPU lane */
  double ulp;                    /* error bound of the implementations, see ops.def */
} lw_fn_info;
typedef struct lw_red_info { const char *name; lw_fn combine; lw_domain domain; } lw_red_info;

extern const lw_op_info lw__op_info[LW_OP_COUNT];
extern const lw_fn_info lw__fn_info[LW_FN_COUNT];
extern const lw_red_info lw__red_info[LW_RED_COUNT];

/* Result type of |fn| on operands of |operand| type (for SELECT: the type of operands 1 and 2);
 * LW_DTYPE_NONE when the domain excludes it. CAST: NONE, its result type is the node's own. */
lw_dtype lw__fn_result_type(lw_fn fn, lw_dtype operand);
/* The identity element of |red| for |dtype|, as a double or as i64 bits (0, 1, +-inf or the type's
 * limits). */
double lw__red_identity_f64(lw_red red, lw_dtype dtype);
int64_t lw__red_identity_i64(lw_red red, lw_dtype dtype);
/* |fn| on doubles, the f64 meaning that oracle and constant folding share (COMPARE, TEST: 0 or 1).
 * Operands that are unused are ignored. Not for CAST. */
double lw__fn_eval_f64(lw_fn fn, double a, double b, double c);
/* |fn| on integers of |dtype| (values kept in i64, u64 as the same bits), wrapping at the type's
 * width. */
int64_t lw__fn_eval_i64(lw_fn fn, lw_dtype dtype, int64_t a, int64_t b, int64_t c);
/* Cast of one scalar between any two types by ONNX rules: float -> int truncates toward zero and
 * saturates (NaN gives 0), int -> int wraps, anything -> bool is != 0. Floats travel in |f|,
 * integers and bool in |i|. */
typedef union lw_scalar { double f; int64_t i; } lw_scalar;
lw_scalar lw__cast(lw_scalar x, lw_dtype from, lw_dtype to);

#endif

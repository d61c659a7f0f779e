/* infer.h: what the files of graph/ share and nobody else needs: signed extent arithmetic,
 * relations of extents that need not be numbers, and the one inference function per operator that
 * constructors, verifier, parser and binding all use. */
#ifndef LW_GRAPH_INFER_H
#define LW_GRAPH_INFER_H

#include "graph/graph.h"

/* ---- extents ------------------------------------------------------------------------------------
 * An operand of extent arithmetic: a number of any sign, or an expression id. */
typedef struct lw_xval {
  bool literal;
  bool impossible; /* after a substitution: a division by zero, or an overflow; the other fields
                      mean nothing then */
  int64_t v;       /* the number, or ~id */
} lw_xval;
static inline lw_xval lw__xval_literal(int64_t v) { return (lw_xval){true, false, v}; }
static inline lw_xval lw__xval_of(lw_extent e) {
  return (lw_xval){lw__extent_is_number(e), false, e};
}
/* lw__extent_make on operands of any sign. */
lw_status lw__extent_combine(lw_graph *graph, lw_extent_op op, lw_xval a, lw_xval b,
                             lw_xval *out) LW_MUST_CHECK;
/* An extent; negative numbers are LW_STATUS_MODEL_INVALID. */
lw_status lw__extent_from_xval(lw_graph *graph, lw_xval x, lw_extent *out) LW_MUST_CHECK;
/* |by[i]| >= 0: the number for symbol i of the table, else the symbol stays; |count| = number of
 * table entries, as many results in |out|, in order. Entries that have no value become
 * |impossible|; only memory can fail. */
lw_status lw__extent_substitute(lw_graph *graph, const int64_t *by, uint32_t count,
                                lw_xval *out) LW_MUST_CHECK;

typedef enum lw_relation { LW_EXTENTS_EQUAL, LW_EXTENTS_DIFFER, LW_EXTENTS_UNKNOWN } lw_relation;
lw_relation lw__extent_relation(const lw_graph *graph, lw_extent a, lw_extent b);
/* The same for the numbers of elements of two shapes. */
lw_relation lw__shape_numel_relation(const lw_graph *graph, const lw_shape *a, const lw_shape *b);
/* Range of a - b. Both ends equal: the difference is that number. Ends beyond +-2^61 stand for
 * "unbounded". */
void lw__extent_difference(const lw_graph *graph, lw_extent a, lw_extent b, int64_t *out_lo,
                           int64_t *out_hi);
bool lw__extent_is_valid(const lw_graph *graph, lw_extent e); /* a number or the id of an entry */
/* Adds each symbol in |e| to |out|, which was empty at first, as "'a', 'b'". |seen|: one byte per
 * table entry; symbols marked there are left out, others get marked. May be NULL. */
void lw__extent_list_symbols(const lw_graph *graph, lw_extent e, uint8_t *seen, lw_text *out);
void lw__extent_table_deinit(lw_extent_table *table);
/* An identifier as it is, everything else escaped and in double quotes: names in the text form. */
void lw__text_add_name(lw_text *out, const char *name);
/* |s| with \" \\ for these characters and \xNN for control characters. */
void lw__text_add_escaped(lw_text *out, const char *s);

/* graph->where for messages; never NULL. */
static inline const char *lw__graph_where(const lw_graph *g) {
  return g->where != NULL ? g->where : "";
}
/* LW_STATUS_INTERNAL when |v| is no value's id. */
lw_status lw__graph_require_value(const lw_graph *graph, lw_value_id v) LW_MUST_CHECK;

/* ---- nodes --------------------------------------------------------------------------------------
 * Type and shape of the result of a node. On entry |*dtype| and |*shape| hold what operands and
 * attributes leave open: input, const, iota: both        cast: the type       reshape, expand,
 * slice, pad, gather: the shape window: the taps, in the dims behind the operand's (rank = operand
 * rank + window count) Everything else is overwritten. MODEL_INVALID: a rule is broken;
 * UNSUPPORTED: numbers for the named symbols are needed to decide, or a limit of lawson is passed.
 * Only graph->extents and graph->diag are written. */
lw_status lw__infer(lw_graph *graph, lw_op op, const lw_attr *attr, const lw_value_id *in,
                    uint32_t count, lw_dtype *dtype, lw_shape *shape) LW_MUST_CHECK;
/* Infers and adds the node as it is, with none of the constructors' simplifications. */
lw_status lw__graph_append(lw_graph *graph, lw_op op, const lw_attr *attr, const lw_value_id *in,
                           uint32_t count, lw_dtype dtype, const lw_shape *shape,
                           lw_value_id *out) LW_MUST_CHECK;
/* "dot", "map.add", "reduce.sum" */
void lw__text_add_op(lw_text *out, lw_op op, const lw_attr *attr);

#endif

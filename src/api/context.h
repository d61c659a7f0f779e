/* context.h: what the two kinds of contexts share: those of a model with numbers everywhere
 * (context.c), and those that look for a variant with every run (dynamic.c), which have one of the
 * first kind for each shape they have met. */
#ifndef LW_API_CONTEXT_H
#define LW_API_CONTEXT_H

#include "api/model.h"
#include "api/shapes.h"

/* A context of a variant, with the working memory of the context it belongs to. On failure
 * |*out| is set as lw_context_create says. */
lw_status lw__context_create_in(lw_model *model, const lw_rt_context_options *options,
                                lw_context **out) LW_MUST_CHECK;
/* Binds; dims whose bit is set in |shorter| may be smaller than the model's. */
lw_status lw__context_bind_rows(lw_context *context, size_t index, const lw_tensor *tensor,
                                bool is_input, uint32_t shorter) LW_MUST_CHECK;
/* "f32[2, 3]"; -1 is printed as '?'. */
void lw__text_add_type(lw_text *text, lw_dtype dtype, int rank, const int64_t *dims);

/* ---- dynamic.c ----- */

typedef struct lw_dynamic lw_dynamic;
lw_status lw__dynamic_create(lw_model *model, const lw_rt_context_options *options,
                             lw_dynamic **out) LW_MUST_CHECK;
void lw__dynamic_destroy(lw_dynamic *dynamic);
lw_status lw__dynamic_bind(lw_dynamic *dynamic, size_t index, const lw_tensor *tensor,
                           bool is_input, lw_diag *diag) LW_MUST_CHECK;
/* Everything bound to the context of the run's shape, which is |*out|. */
lw_status lw__dynamic_prepare(lw_dynamic *dynamic, lw_diag *diag, lw_context **out) LW_MUST_CHECK;
lw_status lw__dynamic_output_dims(lw_dynamic *dynamic, size_t index, lw_diag *diag, int *out_rank,
                                  int64_t *out_dims) LW_MUST_CHECK;
/* The context of the last run; NULL before. */
const lw_context *lw__dynamic_last(const lw_dynamic *dynamic);
uint64_t lw__dynamic_arena_bytes(const lw_dynamic *dynamic);
void lw__dynamic_stats(const lw_dynamic *dynamic, lw_shape_stats *out);

#endif

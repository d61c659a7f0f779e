/* stages.h: which elements of a reduction group are needed by more than one pass over a row, and so
 * are worth keeping on chip. Pass s < stage_count computes the reductions of stage s, pass
 * stage_count the outputs. */
#ifndef LW_COMPILER_STAGES_H
#define LW_COMPILER_STAGES_H

#include "compiler/lower/nest.h"

typedef struct lw_stages {
  uint8_t *column;   /* per element: does it change along the row? */
  uint8_t *first;    /* per element: first pass that computes it, UINT8_MAX: none */
  uint8_t *keep;     /* per element: computed in pass |first|, read again later */
  uint8_t *last;     /* per kept element: the last pass that reads it */
  uint32_t
      *slot; /* per kept element (index in |kept|): those whose lives do not overlap share one */
  uint32_t slot_count;
  lw_vec_elem kept;  /* those with keep set */
} lw_stages;

/* |v0|, |v1|: the index variables that run along a row (may be constants). At most 250 stages. */
lw_status lw__stages_init(lw_stages *stages, lw_region *region, lw_ix v0, lw_ix v1) LW_MUST_CHECK;
void lw__stages_deinit(lw_stages *stages);
/* Type to keep element |e| in: a load stays in its memory type, everything else in its carry type.
 */
lw_dtype lw__stages_kept_type(const lw_region *region, lw_elem e);

#endif

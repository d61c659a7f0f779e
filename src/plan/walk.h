/* walk.h: the structure of a plan as a stream (stream.h), one function for both directions. */
#ifndef LW_PLAN_WALK_H
#define LW_PLAN_WALK_H

#include "plan/file.h"
#include "plan/stream.h"

/* Some bytes of a section; several kernels share an image. */
typedef struct lw_plan_piece {
  const void *data;
  uint64_t offset, bytes;
} lw_plan_piece;

typedef struct lw_plan_walk {
  lw_stream stream;
  lw_plan_file *file; /* writing: what is written; it is not changed */
  lw_plan_piece *images;
  uint32_t image_count;
  uint32_t *image_of;     /* per kernel, LW_NONE: none */
  lw_str weights;         /* reading: the section */
  uint64_t *weight_place; /* writing: offset of each buffer's bytes in the section */
} lw_plan_walk;

void lw__plan_walk_about(lw_plan_walk *w);
/* What the others refer to: target, sizes, images (numbered), sources. */
void lw__plan_walk_head(lw_plan_walk *w);
/* Kernels, buffers, steps, inputs and outputs. Reading: the images' data are set by now. */
void lw__plan_walk_body(lw_plan_walk *w);

#endif

/* assemble.h: puts lowered groups together into a plan: buffers for every stored value, launches in
 * order, copies for outputs that are inputs, constants or repeated, and the init program for groups
 * that depend on weights alone, and for launches that make scratch from them. */
#ifndef LW_COMPILER_ASSEMBLE_H
#define LW_COMPILER_ASSEMBLE_H

#include "compiler/fuse/fuse.h"
#include "compiler/lower/lower.h"
#include "compiler/sched/schedule.h"
#include "plan/plan.h"

typedef struct lw_assemble_input {
  const lw_graph *graph;
  const lw_fusion *fusion;
  const lw_lowered *lowered;       /* per group */
  const uint32_t *first_kernel;    /* per group: index into launch_kernel of its first launch */
  const uint32_t *launch_kernel;   /* per launch over all groups: index into plan->kernels */
  lw_sched_options sched;
} lw_assemble_input;

/* |plan| holds its kernels already. Links, schedules, places and verifies the result. */
lw_status lw__assemble_plan(const lw_assemble_input *in, lw_diag *diag,
                            lw_plan *plan) LW_MUST_CHECK;

#endif

/* schedule.h: the order of a run, its lanes and the waits between them. A lane is what a stream is:
 * its steps run one after the other. Lanes are chosen by a list schedule over shares of the device:
 * a step holds its lane from its launch to its end, and the part of the device that it can keep
 * busy for as long as it works; steps that want more than there is together slow each other down.
 */
#ifndef LW_COMPILER_SCHEDULE_H
#define LW_COMPILER_SCHEDULE_H

#include "compiler/kernel/kernel.h"
#include "device/device.h"
#include "plan/plan.h"

/* What a step asks of the device. */
typedef struct lw_sched_work {
  double busy_us; /* on the device by itself, without the launch */
  double share;   /* of the device that it keeps busy, 0 .. 1 */
} lw_sched_work;

/* Of |grid| blocks that do |work| in |predicted_us|, the launch included. The prediction took the
 * work to be as parallel as it can be; a kernel with fewer threads than that takes longer. */
lw_sched_work lw__sched_launch(const lw_device_profile *profile, const lw_plan_kernel *kernel,
                               uint32_t shared_bytes, int64_t grid, const lw_work *work,
                               double predicted_us);
/* Of a copy or fill that moves |bytes|. */
lw_sched_work lw__sched_move(const lw_device_profile *profile, double bytes);

#define LW_SCHED_DAG UINT32_MAX /* no lanes: the steps are ordered by their dependences alone */
typedef struct lw_sched_options {
  const lw_device_profile *profile;
  uint32_t streams; /* 0: automatic; 1 .. LW_PLAN_MAX_LANES: so many lanes; LW_SCHED_DAG */
} lw_sched_options;

/* Puts the steps of a run (linked) into order and onto lanes; sets lane_count, waits, critical and
 * the predictions. |work|: per step, in the order before. */
lw_status lw__schedule(lw_plan *plan, const lw_sched_work *work,
                       const lw_sched_options *options) LW_MUST_CHECK;

/* ---- parts, for schedule.c, list.c and tests ---- */

typedef struct lw_sched_dag {
  uint32_t count;
  const lw_plan_step *steps;
  const lw_sched_work *work;
  double launch_us, wait_us; /* of a step; more, when it waits for another lane */
  uint32_t *first, *next;    /* successors of step i: next[first[i]] .. next[first[i + 1] - 1] */
  double *rank; /* microseconds from the start of a step to the end of all that needs it */
  uint32_t *chain;           /* a path that the step belongs to; paths share no step */
  uint32_t chain_count;
} lw_sched_dag;
lw_status lw__sched_dag_init(const lw_plan *plan, const lw_sched_work *work,
                             const lw_device_profile *profile, lw_arena *arena,
                             lw_sched_dag *out) LW_MUST_CHECK;

typedef struct lw_sched_list {
  double us;           /* of the whole run */
  uint32_t lane_count; /* that have steps */
  uint32_t *sequence;  /* steps in the order in which they begin */
  uint32_t *lane;      /* per step */
  double *begin, *end; /* per step */
} lw_sched_list;
/* The list schedule over at most |lanes| lanes. |eager|: a lane takes the step with the most behind
 * it; else it goes on with a path that it has begun while it can. */
lw_status lw__sched_list(const lw_sched_dag *dag, uint32_t lanes, bool eager, lw_arena *arena,
                         lw_sched_list *out) LW_MUST_CHECK;
/* Without lanes: everything begins when what it needs has ended. */
lw_status lw__sched_free(const lw_sched_dag *dag, lw_arena *arena,
                         lw_sched_list *out) LW_MUST_CHECK;

#endif

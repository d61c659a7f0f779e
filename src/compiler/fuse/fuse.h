/* fuse.h: which nodes share a kernel. A group is a set of compute and map nodes that become one
 * kernel (a split reduction: several launches); movement nodes, constants and iotas belong to
 * whoever reads through them. Legality is one function per class; the search merges neighbouring
 * groups by predicted gain. Every decision is recorded for `lawson explain`. */
#ifndef LW_COMPILER_FUSE_H
#define LW_COMPILER_FUSE_H

#include "compiler/kernel/kernel.h"
#include "device/device.h"
#include "graph/graph.h"

typedef struct lw_fuse_options {
  bool off;                       /* every node a kernel of its own */
  const char *const *force;       /* fusion ids */
  uint32_t force_count;
  const char *const *forbid;
  uint32_t forbid_count;
} lw_fuse_options;

typedef struct lw_group {
  lw_kclass cls;
  LW_VEC(lw_node_id) nodes;       /* topological order */
  LW_VEC(lw_value_id) inputs;     /* values read from memory */
  LW_VEC(lw_value_id) outputs;    /* values written to memory */
  lw_cost cost;                   /* predicted, this group alone */
  lw_work work;
} lw_group;

typedef struct lw_decision {      /* one neighbouring pair that was looked at last, fused or not */
  lw_node_id producer, consumer;  /* the two nodes whose groups met */
  bool fused, forced;
  double us_apart, us_together;   /* predicted; 0 when illegal */
  double bytes_apart, bytes_together;
  const char *reason;             /* static or in the arena */
  char id[20];                    /* fusion id: stable over runs: "f" + 12 hex digits */
} lw_decision;

typedef struct lw_fusion {
  lw_arena arena;
  LW_VEC(lw_group) groups;        /* in an order in which they can run */
  LW_VEC(lw_decision) decisions;
} lw_fusion;

lw_status lw__fuse(const lw_graph *graph, const lw_device_profile *profile,
                   const lw_resource_policy *policy, const lw_fuse_options *options, lw_diag *diag,
                   lw_fusion *out) LW_MUST_CHECK;
void lw__fusion_deinit(lw_fusion *fusion);
void lw__fusion_print(const lw_fusion *fusion, const lw_graph *graph, lw_text *out);

#endif

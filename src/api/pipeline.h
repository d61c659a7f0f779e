/* pipeline.h: the way of a graph through the compiler, as one readable list of steps. */
#ifndef LW_API_PIPELINE_H
#define LW_API_PIPELINE_H

#include "api/split.h"
#include "base/base.h"
#include "compiler/build/build_kernels.h"
#include "compiler/fuse/fuse.h"
#include "compiler/lower/lower.h"
#include "device/device.h"
#include "graph/graph.h"
#include "graph/state.h"
#include "plan/plan.h"

/* Steps, in order; --dump=after:NAME knows these names:
 *   import, bind, passes (and passes.NAME), fuse, lower, emit, build, sched */
typedef void (*lw_dump_fn)(void *user, const char *step, const char *text);

typedef struct lw_compile_options {
  const lw_device_profile *profile;     /* what to compile for */
  const lw_resource_policy *policy;     /* NULL: opt-in */
  lw_fuse_options fuse;
  lw_build_options build;
  lw_cache *cache;
  uint32_t streams;                     /* lw_sched_options */
  bool early_start;                     /* kernels start while those before them still run */
  bool channels_last_io;                /* 4-D graph inputs and outputs are stored NHWC */
  const lw_state *states;               /* of the graph; outputs of appended ones become new rows */
  uint32_t state_count;
  bool skip_passes;                     /* compile the graph as it is (tests) */
  bool sm90_always;                     /* lw_lower_options (tests) */
  lw_dump_fn dump;
  void *dump_user;
  /* Loads the plan's kernels on the device and tells which it does not take; the plan has no steps
   * yet. NULL: nobody can tell, all are taken. */
  lw_status (*try_kernels)(void *user, const lw_plan *plan, bool *out_refused, lw_diag *diag);
  void *try_user;
} lw_compile_options;

typedef struct lw_compiled {
  lw_graph graph;                       /* after the passes */
  lw_fusion fusion;                     /* groups, decisions, for explain */
  lw_plan plan;                         /* images built */
  lw_arena arena;                       /* owns images, sources, labels */
  lw_lowered *lowered; /* per group: launches with their kernel IR, schedule in words */
  LW_VEC(const lw_kernel *) kernels;    /* kernel IR of plan.kernels[i]; owned by |lowered| */
  uint64_t kernels_built, kernels_cached;
  lw_splits splits;                     /* groups taken apart, in the order it happened */
  const lw_device_profile *profile;
  bool fuse_off;
} lw_compiled;

/* Compiles |graph| (symbols bound; unchanged, and must outlive the result because constants are
 * borrowed). |build_images| false stops after emission: the plan then has sources but no images. */
lw_status lw__compile(const lw_graph *graph, const lw_compile_options *options, bool build_images,
                      lw_diag *diag, lw_compiled *out) LW_MUST_CHECK;
void lw__compiled_deinit(lw_compiled *compiled);

#endif

/* model.h: a compiled model and what belongs to it. Immutable once loaded, except the reports that
 * are made when they are first asked for. */
#ifndef LW_API_MODEL_H
#define LW_API_MODEL_H

#include <lawson/tools.h>
#include <pthread.h>
#include <stdatomic.h>

#include "api/options.h"
#include "api/pipeline.h"
#include "compiler/onnx/import.h"
#include "plan/file.h"
#include "runtime/runtime.h"

typedef struct lw_dump_entry {
  const char *step, *text;
} lw_dump_entry;

struct lw_model {
  atomic_uint refs; /* the caller's one, and one per context */
  lw_arena arena;   /* tensor infos, dumps, names */
  lw_diag diag;
  lw_text error; /* the first error as a line; filled before the caller sees the model */
  lw_status status;

  lw_device_profile profile; /* its strings live in the table of profiles or in the arena */
  const char *device;        /* "cpu", "cuda:0", "null"; "none" when nothing was opened */
  const char *target;        /* "cpu", "cuda:sm_90a" */
  lw_graph graph;            /* as imported, symbols bound; |compiled| borrows its constants */
  lw_compiled compiled;
  bool has_graph;
  bool compiling;    /* |compiled| holds something, complete or not */
  bool has_compiled; /* it is complete */
  lw_plan_file plan_file;    /* instead of |compiled|: a plan from the cache or from a file */
  bool from_plan;
  LW_VEC(lw_file_map) plan_maps; /* what it points into */
  const char *path;    /* of the model's file; NULL for graphs and for plan files */
  lw_options *options; /* a copy, for reports of a plan from the cache; NULL otherwise */
  lw_rt_device *rt_device; /* NULL when compiled only */
  lw_rt_program *program;
  bool channels_last, fuse;  /* the options' */

  struct lw_shapes *shapes; /* NULL: all dimensions are numbers; else |compiled| and |program| are
                               those of its variants */
  LW_VEC(lw_state) states; /* contexts keep their memory */
  uint32_t state_rows;     /* the option's */
  lw_tensor_info *inputs, *outputs;
  uint32_t input_count, output_count;
  double compile_s;
  LW_VEC(lw_dump_entry) dumps;

  pthread_mutex_t lock; /* guards the reports below */
  lw_text explain, plan;
};

/* The plan, wherever it is from; NULL while there is none. */
const lw_plan *lw__model_plan(const lw_model *model);
/* Makes |graph| and, with |report|, |compiled| of a model whose plan came from the cache, once:
 * they are there for reports alone. USAGE when it came from a plan file, which holds neither. The
 * caller holds |lock|. */
lw_status lw__model_recall(lw_model *model, bool report, lw_diag *diag) LW_MUST_CHECK;
/* What the options and the model's profile say to the builders of kernels. */
lw_build_options lw__model_build_options(const lw_model *model, const lw_options *options);
/* Whether compiling asks the device to take the kernels, and takes apart what it refuses. */
bool lw__model_tries(const lw_model *model, const lw_options *options);
lw_status lw__model_create(lw_model **out) LW_MUST_CHECK;
/* Compiles |variant|, whose graph is there, for the device of |parent|; weights that it has in
 * common with |base| (may be NULL) are shared. */
lw_status lw__model_build_variant(lw_model *variant, const lw_model *parent,
                                  const lw_options *options, lw_rt_program *base) LW_MUST_CHECK;
/* The model that reports speak of: |model| itself, or the first variant that was compiled; NULL
 * when none was. */
const lw_model *lw__model_shown(const lw_model *model);
void lw__model_retain(lw_model *model);
void lw__model_release(lw_model *model);
/* The first error of |diag| as "where: text" in |out|, which is "" when there is none. */
void lw__diag_line(const lw_diag *diag, lw_text *out);
/* The report of docs/explain.md into |out|. */
lw_status lw__model_explain(const lw_model *model, lw_text *out) LW_MUST_CHECK;
/* Ends a function of tools.h: that error into |reason| (may be NULL), |diag| emptied. */
lw_status lw__tools_end(lw_diag *diag, lw_status status, lw_tools_reason *reason);
/* The options' dims and shapes as the importer wants them, in |arena|. */
lw_status lw__import_options(const lw_options *options, lw_arena *arena,
                             lw_import_options *out) LW_MUST_CHECK;
/* The part of lw_stats that is known without a run. */
void lw__model_static_stats(const lw_model *model, lw_stats *out);

/* Of the context, or of the shape that it ran last; NULL: none yet. */
lw_rt_context *lw__context_runtime(const lw_context *context);

/* ---- which device, which profile (choose.c) ----- */

/* Opens the options' device unless only compilation for a named target is asked for, and sets the
 * model's rt_device, device, target and profile. */
lw_status lw__model_choose_device(lw_model *model, const lw_options *options) LW_MUST_CHECK;
lw_rt_device_options lw__device_options(const lw_options *options);
/* The profile that fits an opened device: the measured one of its kind, or the nearest with the
 * device's own attributes. |*out_target| in |arena|. */
lw_status lw__profile_of_device(const lw_rt_device_info *info, lw_arena *arena, lw_diag *diag,
                                lw_device_profile *out_profile,
                                const char **out_target) LW_MUST_CHECK;

#endif

/* options.h: the options object behind lw_options_*: parsed values, and what the pipeline needs of
 * them. The table of names stands in options.c. */
#ifndef LW_API_OPTIONS_H
#define LW_API_OPTIONS_H

#include <lawson/lawson.h>

#include "base/base.h"
#include "compiler/sched/schedule.h"
#include "device/device.h"

typedef struct lw_named_dim {
  const char *name;
  int64_t value;
} lw_named_dim;

typedef struct lw_named_shape {
  const char *name; /* of an input */
  int rank;
  int64_t dims[LW_MAX_RANK];
} lw_named_shape;

typedef struct lw_named_value { /* an input that is a constant */
  const char *name;
  const int64_t *integers;
  const double *floats; /* the same numbers */
  uint32_t count;
} lw_named_value;

/* Sizes that a dimension is compiled for, ascending; a run takes the smallest that is large
 * enough. */
typedef struct lw_ladder {
  const char *name;
  const int64_t *sizes;
  uint32_t count;
  bool automatic; /* powers of two without an end; |sizes| is empty */
} lw_ladder;

typedef struct lw_named_state {
  const char *input, *output;
} lw_named_state;

typedef LW_VEC(const char *) lw_name_list;

/* One successful lw_options_set. |aside|: it says where to run, build or look, not what is
 * compiled. */
typedef struct lw_option_set {
  const char *name, *value;
  bool aside;
} lw_option_set;

struct lw_options {
  lw_arena arena; /* every string below */
  lw_text error;
  const char *device; /* "auto" by default */
  const char *target; /* NULL: the device; else "cpu" or a profile's name ("sm_90a") */
  const lw_resource_policy *policy; /* NULL: opt-in */
  bool fuse, channels_last, compile_only;
  uint32_t threads; /* 0: all cores */
  uint32_t streams; /* 0: automatic; LW_SCHED_DAG: no lanes */
  bool graphs;      /* runs on a GPU are CUDA graphs */
  bool early_start; /* option early */
  lw_name_list force, forbid;
  LW_VEC(lw_named_dim) dims;
  LW_VEC(lw_ladder) ladders;
  uint32_t max_shapes; /* most shapes of a model that stay compiled */
  LW_VEC(lw_named_shape) shapes;
  LW_VEC(lw_named_state) states;
  bool find_states;    /* by names: past... and present... */
  uint32_t state_rows; /* room of an appended state; 0: chosen */
  LW_VEC(lw_named_value) values;
  lw_name_list dump_steps;  /* without "after:" */
  const char *cache_folder; /* NULL: nothing on disk */
  const char *cc, *path, *nvrtc, *cuda, *cupti; /* NULL: not given */
  bool plans;           /* whole plans are taken from the cache and kept there */
  uint64_t cache_limit; /* bytes; 0: the cache's own */
  LW_VEC(lw_option_set) history;
};

/* Options that the same calls were made on. */
lw_status lw__options_clone(const lw_options *options, lw_options **out) LW_MUST_CHECK;
/* Of all that was set and decides what is compiled. */
lw_hash lw__options_hash(const lw_options *options, lw_hash seed);
/* The first option of that kind, or NULL. */
const char *lw__options_first(const lw_options *options);
bool lw__options_parse_size(const char *text, uint64_t *out_bytes);

/* Reads "2x3x64x64", "2,3,64,64" or "[2, 3, 64, 64]"; "" and "[]" are a scalar. False: no shape. */
bool lw__options_parse_shape(const char *text, int *out_rank, int64_t *out_dims);

#endif

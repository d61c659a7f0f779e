/* internal.h: what the core of the runtime and its back ends share. A back end is one table of
 * functions; the core owns reference counts, the flattened program, bindings and statistics, and
 * never asks which back end it has. */
#ifndef LW_RUNTIME_INTERNAL_H
#define LW_RUNTIME_INTERNAL_H

#include <stdatomic.h>

#include "runtime/runtime.h"
#include "runtime/trace.h"

/* Kernels may rely on this alignment of every buffer's first byte. */
#define LW_RT_IO_ALIGN_BYTES 16
/* ... and the arena, the weights block and every staging buffer have this one. */
#define LW_RT_ALIGN_BYTES 256

/* ---- the flattened program ---- */

typedef struct lw_rt_kernel {
  const char *name;
  uint32_t block_threads, shared_bytes;
  bool early_start;
} lw_rt_kernel;

typedef struct lw_rt_buffer {
  lw_buffer_kind kind;
  uint32_t index;
  uint64_t offset, bytes;
  lw_hash identity; /* WEIGHT, DERIVED: what is in it (weights.c) */
  void *home;       /* WEIGHT, DERIVED: on the device */
} lw_rt_buffer;

/* A slot is the address of one buffer argument; a context holds the addresses, the program says
 * what they are. */
typedef struct lw_rt_slot {
  uint32_t buffer;
  uint64_t offset_bytes;
} lw_rt_slot;

typedef struct lw_rt_step {
  lw_step_kind kind;
  uint8_t fill;
  uint32_t kernel;
  int64_t grid;
  uint32_t first_slot, slot_count; /* COPY: destination, source. FILL: destination */
  uint32_t first_scalar, scalar_count;
  uint32_t first_map, map_count;
  uint32_t first_dep, dep_count; /* edges: earlier steps of the segment that must have finished */
  uint32_t lane;
  uint32_t first_wait, wait_count; /* those of them in other lanes */
  uint32_t event;                  /* its end is waited for by another lane, or LW_NONE */
  bool critical;
  uint64_t bytes;
  double predicted_us;
  const char *label;
} lw_rt_step;

/* Where the addresses of a launch's arguments begin in a list over all steps of a segment: each
 * step has its slots, its scalars, its maps. */
static inline size_t lw__rt_first_parameter(const lw_rt_step *step) {
  return (size_t)step->first_slot + step->first_scalar + step->first_map;
}

/* A tensor map among a launch's arguments, of the memory at a slot. */
typedef struct lw_rt_map {
  uint32_t slot;
  lw_plan_map form;
} lw_rt_map;

typedef struct lw_rt_segment { /* a list of steps: the init program or a run */
  lw_rt_step *steps;
  uint32_t step_count;
  lw_rt_slot *slots;
  uint32_t slot_count;
  int64_t *scalars;
  uint32_t scalar_count;
  lw_rt_map *maps;
  uint32_t map_count;
  /* The edges that hold however steps are run: with lanes the order of each and the waits between
   * them, without lanes the plan's dependences. Transitively reduced. */
  uint32_t *deps;
  uint32_t dep_count;
  uint32_t *waits;
  uint32_t wait_count;
  uint32_t lane_count;    /* at least 1 */
  uint32_t event_count;   /* steps with an event */
  bool has_critical;
  uint32_t critical_lane; /* of several, the one with most critical steps; LW_NONE: none */
} lw_rt_segment;

static inline size_t lw__rt_parameter_count(const lw_rt_segment *segment) {
  return (size_t)segment->slot_count + segment->scalar_count + segment->map_count;
}

typedef struct lw_rt_io {
  const char *name;
  uint64_t bytes;
} lw_rt_io;

/* ---- the objects ---- */

typedef struct lw_rt_backend lw_rt_backend;

struct lw_rt_device {
  const lw_rt_backend *backend;
  void *state; /* the back end's */
  atomic_uint references;
  atomic_uint_fast64_t allocations; /* counted by the back end */
  lw_rt_device_info info;
  char name[128];
};

struct lw_rt_arena {
  lw_rt_device *device;
  atomic_uint references;
  void *base; /* on the device; NULL: empty */
  uint64_t bytes;
  bool in_streams;        /* somebody else's streams may still use it: outgrown blocks are kept */
  LW_VEC(void *) retired;
  lw_rt_context
      *flying; /* what this one has in a caller's stream may still use it; NULL: nobody's */
};

struct lw_rt_program {
  lw_rt_device *device;
  lw_rt_program *base; /* whose weights it may use; NULL: none */
  void *state;
  atomic_uint references;
  lw_arena arena;
  lw_rt_kernel *kernels;
  uint32_t kernel_count;
  lw_rt_buffer *buffers;
  uint32_t buffer_count;
  lw_rt_io *inputs, *outputs;
  uint32_t input_count, output_count;
  lw_rt_segment init, run;
  uint64_t arena_bytes, weight_bytes;
  uint64_t own_weight_bytes; /* without those of |base| */
  bool *refused;             /* per kernel, the caller's; NULL: nobody asks. Set while loading */
  void *weights;             /* on the device: the own ones */
  lw_rt_stats counts; /* what one run does */
};

typedef struct lw_rt_binding {
  void *data;    /* the caller's */
  void *address; /* what kernels see: |data| or |staging| */
  void *staging; /* device memory of the context, made when a run first needs it */
  void *pinned;  /* host memory between |data| and |staging|, made when first needed */
  size_t bytes;  /* of |data|: fewer than the whole when rows are missing at the end */
  bool bound, on_device, stage;
} lw_rt_binding;

struct lw_rt_context {
  lw_rt_program *program;
  void *state;
  lw_arena memory; /* host memory of this struct's arrays */
  atomic_bool busy;
  atomic_bool submitted; /* busy until somebody waits */
  bool stale; /* a binding changed since |slots| were computed */
  lw_rt_binding *inputs, *outputs;
  void **slots;
  lw_rt_arena *arena;
  void *arena_base; /* that |slots| were computed with */
  int priority;
  int64_t launched_ns; /* when the last run was all handed to the driver; 0: not told */
  lw_rt_stats stats;
};

static inline bool lw__rt_binding_staged(const lw_rt_binding *binding) {
  return binding->bound && binding->bytes != 0 && binding->stage;
}

/* All addresses are device addresses. Functions that fail explain themselves in |diag| and leave
 * nothing behind. */
struct lw_rt_backend {
  const char *kind;
  bool host_memory; /* device memory is host memory */
  lw_status (*device_open)(lw_rt_device *device, uint32_t ordinal,
                           const lw_rt_device_options *options, lw_diag *diag);
  void (*device_close)(lw_rt_device *device);
  /* LW_STATUS_USAGE when the device cannot run plans of this kind. */
  lw_status (*plan_check)(lw_rt_device *device, const lw_plan *plan, lw_diag *diag);
  lw_status (*program_open)(lw_rt_program *program, const lw_plan *plan, lw_diag *diag);
  void (*program_close)(lw_rt_program *program);
  /* Runs the init program and waits. */
  lw_status (*program_init)(lw_rt_program *program, void **slots, lw_diag *diag);
  lw_status (*context_open)(lw_rt_context *context, lw_diag *diag);
  void (*context_close)(lw_rt_context *context);
  lw_status (*context_run)(lw_rt_context *context, lw_diag *diag);
  /* Runs and waits, and puts the times of its kernels into |spans|. */
  lw_status (*context_trace)(lw_rt_context *context, lw_rt_spans *spans, lw_diag *diag);
  /* Begins a run with copies of host memory in between; wait ends it. A run that failed to begin
   * has nothing in flight. */
  lw_status (*context_submit)(lw_rt_context *context, lw_diag *diag);
  lw_status (*context_wait)(lw_rt_context *context, lw_diag *diag);
  lw_status (*context_enqueue)(lw_rt_context *context, void *stream, lw_diag *diag);
  /* bytes >= 1. |what|: the memory's purpose, for messages. */
  lw_status (*alloc)(lw_rt_device *device, size_t bytes, const char *what, lw_diag *diag,
                     void **out);
  void (*free)(lw_rt_device *device, void *ptr);
  lw_status (*upload)(lw_rt_device *device, void *dst, const void *src, size_t bytes,
                      lw_diag *diag);
  lw_status (*download)(lw_rt_device *device, void *dst, const void *src, size_t bytes,
                        lw_diag *diag);
  /* On the device. |in_stream|: into |stream| without waiting. */
  lw_status (*copy)(lw_rt_device *device, void *stream, bool in_stream, void *dst, const void *src,
                    size_t bytes, lw_diag *diag);
  lw_status (*flush_cache)(lw_rt_device *device);
};

extern const lw_rt_backend lw__rt_backend_cpu;
extern const lw_rt_backend lw__rt_backend_null;
extern const lw_rt_backend lw__rt_backend_cuda;

/* ---- helpers of the core for back ends ---- */

/* Host memory aligned to LW_RT_ALIGN_BYTES. */
lw_status lw__rt_host_alloc(size_t bytes, void **out) LW_MUST_CHECK;
void lw__rt_host_free(void *ptr);
/* "step 3 (conv1): " and the kernel's name, for messages about one step. */
void lw__rt_describe_step(const lw_rt_program *program, const lw_rt_segment *segment, uint32_t step,
                          lw_text *out);
/* The same for all steps at once, the first few of them by name: for errors that come when nobody
 * knows any more from which. */
void lw__rt_describe_steps(const lw_rt_program *program, const lw_rt_segment *segment,
                           lw_text *out);

/* arena.c: at least |bytes|; a new base when it has to grow. No run that uses it may be in flight.
 */
lw_status lw__rt_arena_reserve(lw_rt_arena *arena, uint64_t bytes, lw_diag *diag) LW_MUST_CHECK;
/* weights.c: gives every weight and derived buffer its home and uploads the weights. Steps of the
 * init program that the base has done already are dropped. */
lw_status lw__rt_weights_load(lw_rt_program *program, const lw_plan *plan,
                              lw_diag *diag) LW_MUST_CHECK;

/* flatten.c: copies what running needs out of |plan| into |program|, checking every id and range on
 * the way. */
lw_status lw__rt_flatten(lw_rt_program *program, const lw_plan *plan, lw_diag *diag) LW_MUST_CHECK;
/* order.c: edges, waits and events of a segment that has its steps. |lanes| 0: by the dependences.
 */
lw_status lw__rt_order(lw_arena *arena, lw_rt_segment *segment, const lw_plan_step *steps,
                       uint32_t count, uint32_t lanes) LW_MUST_CHECK;

#endif

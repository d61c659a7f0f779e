/* plan.h: the compiled artefact: kernels, buffers, a DAG of steps, relocations, and an init program
 * that runs once. The only thing that compiler and runtime share. The truth is the DAG (deps);
 * |steps| stand in one valid order. Everything lives in the plan's arena; ids are indices. */
#ifndef LW_PLAN_PLAN_H
#define LW_PLAN_PLAN_H

#include "base/base.h"

#define LW_PLAN_MAX_LANES 8u

typedef enum lw_plan_target { LW_PLAN_CPU, LW_PLAN_CUDA } lw_plan_target;

typedef struct lw_plan_kernel {
  const char *name;   /* entry point: lw_<class>_<hash> */
  lw_hash key;        /* hash of the canonical kernel IR */
  const char *source; /* CUDA C or C of this kernel alone, for reports; may be NULL in a plan read
                         from a file */
  const void *image;  /* CUDA: cubin. CPU: shared object. Several kernels may share one image. NULL
                         until built */
  size_t image_bytes;
  uint32_t block_threads;
  uint32_t shared_bytes; /* dynamic shared memory to launch with (0 when the kernel's arrays are
                            static) */
  /* CUDA, sm_90 on: every thread begins with griddepcontrol.launch_dependents and then waits with
   * griddepcontrol.wait before it touches any buffer. Such a kernel may be launched while the
   * kernels that it depends on still run, which hides its launch behind them. */
  bool early_start;
  uint32_t registers, spill_bytes; /* from the compiler's report; 0 on the CPU */
} lw_plan_kernel;

typedef enum lw_buffer_kind {
  LW_BUFFER_INPUT,   /* caller's, index = position in inputs */
  LW_BUFFER_OUTPUT,  /* caller's, index = position in outputs; never aliases another buffer */
  LW_BUFFER_WEIGHT,  /* constant bytes, uploaded once at |offset| of the weights block */
  LW_BUFFER_DERIVED, /* made once by the init program from weights, at |offset| of the weights block
                      */
  LW_BUFFER_ARENA,   /* intermediate at |offset| of the arena */
} lw_buffer_kind;

typedef struct lw_plan_buffer {
  lw_buffer_kind kind;
  uint32_t index;
  uint64_t offset, bytes; /* bytes may be 0 (empty tensors) */
  const void *data;       /* WEIGHT: the bytes; borrowed from the model's mapping or in the arena */
  const char *name;       /* value's name, or NULL */
} lw_plan_buffer;

/* How the hardware is to see a buffer argument of the same step: a matrix of up to 5 dims, inner
 * first, copied in boxes with 128-byte swizzle; what lies outside is read as 0 and not written. The
 * runtime makes a CUtensorMap of it, anew whenever the argument's address changes. */
#define LW_PLAN_MAP_RANK 5
typedef struct lw_plan_map {
  uint32_t arg; /* which argument of the step; a buffer */
  lw_dtype dtype;
  uint32_t rank;
  uint64_t offset_bytes;                    /* from the argument's address; multiple of 16 */
  uint64_t dims[LW_PLAN_MAP_RANK];          /* elements */
  uint64_t strides_bytes[LW_PLAN_MAP_RANK]; /* of dim 0: the element's size; others: multiples of
                                               16 */
  uint32_t box[LW_PLAN_MAP_RANK];           /* elements, 1 .. 256; of dim 0 128 bytes */
} lw_plan_map;
/* NULL, or why there can be no such map of memory of |bytes| bytes. */
const char *lw__plan_map_refusal(const lw_plan_map *map, uint64_t bytes);

typedef enum lw_arg_kind { LW_ARG_BUFFER, LW_ARG_SCALAR, LW_ARG_TENSOR_MAP } lw_arg_kind;
typedef struct lw_plan_arg {
  lw_arg_kind kind;
  uint32_t buffer; /* BUFFER: id; (step, argument) is the relocation that rebinding edits */
  uint64_t offset_bytes;
  int64_t scalar;         /* SCALAR */
  const lw_plan_map *map; /* TENSOR_MAP */
  bool written;
} lw_plan_arg;

typedef enum lw_step_kind { LW_STEP_LAUNCH, LW_STEP_COPY, LW_STEP_FILL } lw_step_kind;
typedef struct lw_plan_step {
  lw_step_kind kind;
  uint32_t kernel;   /* LAUNCH */
  int64_t grid;      /* LAUNCH: blocks, >= 1 */
  lw_plan_arg *args; /* LAUNCH: kernel arguments in order, buffers, scalars, tensor maps. COPY:
                        destination, source. FILL: destination */
  uint32_t arg_count;
  uint64_t bytes; /* COPY, FILL */
  uint8_t fill;   /* FILL: byte value */
  uint32_t *deps; /* steps that must have finished: every true, anti and output dependence,
                     transitively reduced */
  uint32_t dep_count;
  uint32_t lane;   /* steps of a lane run one after the other, in the order of |steps| */
  uint32_t *waits; /* steps of other lanes that must have finished; with the order of the lanes they
                      imply |deps|, and none of them is implied by the rest */
  uint32_t wait_count;
  bool critical; /* has no slack in the predicted schedule: a higher priority is worth it */
  const char *label;    /* provenance: node names this step does the work of, "a, b (+3)" */
  const char *cls;      /* fusion class, for reports */
  uint32_t group;       /* fusion group id, for explain */
  double traffic_bytes; /* predicted global memory bytes */
  double predicted_us;
} lw_plan_step;

typedef struct lw_plan_io {
  const char *name;
  lw_dtype dtype;
  uint32_t rank;
  int64_t dims[LW_MAX_RANK];
  uint32_t buffer;
} lw_plan_io;

typedef struct lw_plan {
  lw_arena arena;
  lw_plan_target target;
  uint32_t sm_arch; /* CUDA */
  bool arch_specific;
  LW_VEC(lw_plan_kernel) kernels;
  LW_VEC(lw_plan_buffer) buffers;
  LW_VEC(lw_plan_step) steps; /* run for every inference */
  LW_VEC(lw_plan_step) init;  /* run once after the weights were uploaded */
  LW_VEC(lw_plan_io) inputs, outputs;
  uint64_t arena_bytes, weight_bytes;
  /* What orders the steps of a run while it runs, and with it which buffers may share bytes. 0:
   * |deps| alone, and a device may run whatever they leave open at the same time. 1 to
   * LW_PLAN_MAX_LANES: the lanes and their waits, in every executor. The init program has no
   * lanes. */
  uint32_t lane_count;
  const char *lane_note;             /* why so many lanes; may be NULL */
  double predicted_us, one_lane_us; /* of a run as it is, and on one lane; 0: unknown */
} lw_plan;

void lw__plan_init(lw_plan *plan, lw_plan_target target);
void lw__plan_deinit(lw_plan *plan);

/* Computes |deps| of all steps from their arguments (order of |steps| is the program order),
 * transitively reduced. */
lw_status lw__plan_link(lw_plan *plan) LW_MUST_CHECK;
/* Computes |waits| of the steps of a run from their |deps| and lanes: the transitively reduced
 * minimum. Without lanes there are none. */
lw_status lw__plan_wait(lw_plan *plan) LW_MUST_CHECK;
/* Gives every WEIGHT and DERIVED buffer an offset (aligned to 256 bytes) of its own in the weights
 * block, in order of ids, and sets weight_bytes. */
lw_status lw__plan_place_weights(lw_plan *plan) LW_MUST_CHECK;
/* Gives every ARENA buffer an offset (aligned to 256 bytes) by happens-before over the order of a
 * run (lane_count): two buffers may share bytes only if every access of one happens before the
 * first access of the other. Sets arena_bytes. */
lw_status lw__plan_place(lw_plan *plan) LW_MUST_CHECK;
/* The independent checker: recomputes reachability and reports any pair of conflicting accesses
 * (overlapping bytes, one a write) that no path orders, reads of arena bytes that no earlier step
 * wrote, arguments outside their buffers, bad ids. With lanes it asks twice: |deps| must order
 * accesses of the same buffer, lanes and waits must imply |deps| and order accesses of the same
 * bytes. */
lw_status lw__plan_verify(const lw_plan *plan, lw_diag *diag) LW_MUST_CHECK;
/* Largest set of arena bytes live at once in step order: a lower bound for arena_bytes on one lane.
 */
uint64_t lw__plan_live_bytes(const lw_plan *plan);
void lw__plan_print(const lw_plan *plan, lw_text *out);

#endif

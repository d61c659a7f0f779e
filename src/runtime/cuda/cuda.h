/* cuda.h: state of the CUDA back end and what its files share.
 *
 * The primary context of the GPU is used, as the CUDA runtime, PyTorch and others do, so memory and
 * streams can be exchanged with them. It is current only inside our calls: every entry point pushes
 * it and pops it again. */
#ifndef LW_RUNTIME_CUDA_CUDA_H
#define LW_RUNTIME_CUDA_CUDA_H

#include "runtime/cuda/driver.h"
#include "runtime/internal.h"

typedef struct lw_cu_gpu { /* lw_rt_device.state */
  lw_cu_driver driver;
  lw_cu_device device;
  lw_cu_context context; /* retained */
  lw_cu_stream stream;   /* uploads and downloads */
  size_t l2_bytes;
  uint32_t graph_min_steps;
  char *cupti_path;  /* own copy; NULL: where it is usually */
  int greatest_priority; /* of a stream: the most negative number; 0 where all are equal */
  int high_priority; /* of critical steps: one above the usual 0; 0 where there is only one */
  atomic_int lost;  /* an error broke the context: nothing works any more until the process ends */
  char lost_how[200]; /* that error; complete once |lost| is LW_CU_LOST */
} lw_cu_gpu;

enum { LW_CU_ALIVE, LW_CU_LOSING, LW_CU_LOST };

/* What a thread had when it came in. */
typedef struct lw_cu_scope {
  lw_cu_capture_mode mode;
  bool changed;
} lw_cu_scope;
/* Makes the context current and says that what this thread does is no part of captures that are
 * going on: all of it happens in streams of ours, or is meant to be captured. Each success needs
 * one lw__cu_leave. LW_STATUS_DEVICE_LOST when the GPU is. */
lw_status lw__cu_enter(lw_cu_gpu *gpu, lw_diag *diag, lw_cu_scope *out_scope) LW_MUST_CHECK;
/* The same for those who free things: false when that cannot be done, after a second attempt. */
bool lw__cu_enter_to_free(lw_cu_gpu *gpu, lw_cu_scope *out_scope) LW_MUST_CHECK;
void lw__cu_leave(lw_cu_gpu *gpu, lw_cu_scope scope);
/* Translates the result of a driver call and notes when the GPU is lost. |what| names the call,
 * |where| the place (may be NULL). LW_OK for success. */
lw_status lw__cu_check(lw_cu_gpu *gpu, int result, const char *what, const char *where,
                       lw_diag *diag) LW_MUST_CHECK;

/* maps.c: the tensor maps of a segment's launches. */
typedef struct lw_cu_maps {
  lw_cu_map *maps;
  void **addresses; /* that each is of; NULL: not made yet */
} lw_cu_maps;
lw_status lw__cu_maps_init(const lw_rt_segment *segment, lw_arena *memory,
                           lw_cu_maps *out) LW_MUST_CHECK;
/* Makes those whose address has changed. Needs no current context. */
lw_status lw__cu_maps_update(lw_rt_program *program, const lw_rt_segment *segment, void **slots,
                             lw_cu_maps *maps, lw_diag *diag) LW_MUST_CHECK;

/* A stream that does not wait for the default stream. */
lw_status lw__cu_stream_create(lw_cu_gpu *gpu, int priority, lw_cu_stream *out,
                               lw_diag *diag) LW_MUST_CHECK;

/* program.c */
lw_cu_function lw__cu_program_function(const lw_rt_program *program, uint32_t kernel);
lw_status lw__cu_program_open(lw_rt_program *program, const lw_plan *plan, lw_diag *diag);
void lw__cu_program_close(lw_rt_program *program);
lw_status lw__cu_program_init(lw_rt_program *program, void **slots, lw_diag *diag);
/* graph.c: the run as one graph, built when it is first wanted. */
typedef struct lw_cu_replay {
  bool usable; /* the plan is long enough and nothing in it is beyond graphs */
  lw_cu_exec exec;
  lw_cu_graph graph; /* owns |nodes|; NULL until built */
  lw_cu_node *nodes; /* per step */
  lw_cu_node *deps;  /* room for one step's */
  void **slots;      /* the addresses that |exec| has */
} lw_cu_replay;
/* Takes the memory that building and launching will need. */
lw_status lw__cu_replay_init(lw_rt_context *context, lw_cu_replay *replay) LW_MUST_CHECK;
void lw__cu_replay_deinit(lw_rt_context *context, lw_cu_replay *replay);
/* Builds the graph or brings it up to date with the context's slots, and launches it. */
lw_status lw__cu_replay_launch(lw_rt_context *context, lw_cu_replay *replay, void **parameters,
                               lw_cu_stream stream, lw_diag *diag) LW_MUST_CHECK;

/* lw__cu_check about all steps: an error of a call that stands for them together. */
lw_status lw__cu_check_steps(lw_rt_program *program, const lw_rt_segment *segment, int result,
                             const char *call, lw_diag *diag) LW_MUST_CHECK;

/* lanes.c: the run in several streams, for plans with more than one lane. */
typedef struct lw_cu_lanes {
  uint32_t count;                          /* 0: the plan has one lane */
  lw_cu_stream streams[LW_PLAN_MAX_LANES]; /* of lanes 1 on */
  lw_cu_event *events;                     /* the fork, the ends of lanes 1 on, then |ends| */
  lw_cu_event *ends;                       /* of steps that other lanes wait for */
  uint32_t event_count;
} lw_cu_lanes;
/* Whatever it comes to, close follows. */
lw_status lw__cu_lanes_open(lw_rt_context *context, lw_cu_lanes *lanes,
                            lw_diag *diag) LW_MUST_CHECK;
/* Of the lane's stream: the context's, or, where that has none, more for the critical lane. */
int lw__cu_lane_priority(const lw_rt_context *context, uint32_t lane);
void lw__cu_lanes_close(lw_cu_gpu *gpu, lw_cu_lanes *lanes);
void lw__cu_lanes_wait(lw_cu_gpu *gpu, const lw_cu_lanes *lanes);
/* Puts the run into |stream| and the lanes' own, which begin after what |stream| holds and which it
 * waits for: also when an error came between. */
lw_status lw__cu_lanes_put(lw_rt_program *program, const lw_cu_lanes *lanes, void **slots,
                           void **parameters, lw_cu_stream stream, lw_diag *diag) LW_MUST_CHECK;

/* run.c */
lw_status lw__cu_context_open(lw_rt_context *context, lw_diag *diag);
void lw__cu_context_close(lw_rt_context *context);
lw_status lw__cu_run(lw_rt_context *context, lw_diag *diag);
lw_status lw__cu_submit(lw_rt_context *context, lw_diag *diag);
lw_status lw__cu_wait(lw_rt_context *context, lw_diag *diag);
lw_status lw__cu_enqueue(lw_rt_context *context, void *stream, lw_diag *diag);
/* The next run builds its graph anew. */
void lw__cu_context_forget_graph(lw_rt_context *context);
/* trace.c */
lw_status lw__cu_trace(lw_rt_context *context, lw_rt_spans *spans, lw_diag *diag);
/* One step; the driver's result, and the call that gave it. */
int lw__cu_put_step(lw_rt_program *program, const lw_rt_step *step, void **slots, void **parameters,
                    lw_cu_stream stream, const char **out_call);
/* lw__cu_check about one step. */
lw_status lw__cu_check_step(lw_rt_program *program, const lw_rt_segment *segment, uint32_t step,
                            int result, const char *call, lw_diag *diag) LW_MUST_CHECK;
/* Puts the steps of a segment into |stream|. |parameters| holds, for each launch from
 * lw__rt_first_parameter on, the addresses of its arguments. The context is current. */
lw_status lw__cu_put_steps(lw_rt_program *program, const lw_rt_segment *segment, void **slots,
                           void **parameters, lw_cu_stream stream, lw_diag *diag) LW_MUST_CHECK;
/* Fills |parameters| (slot_count + scalar_count + map_count entries) for lw__cu_put_steps. They
 * point into |maps|,
 * |slots| and the segment. */
void lw__cu_make_parameters(const lw_rt_segment *segment, void **slots, const lw_cu_maps *maps,
                            void **parameters);

#endif

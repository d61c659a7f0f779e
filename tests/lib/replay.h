/* replay.h: random graphs compiled for the GPU of this machine, or for its look-alikes, with two
 * sets of device memory to run them on. */
#ifndef LW_TESTS_LIB_REPLAY_H
#define LW_TESTS_LIB_REPLAY_H

#include "api/pipeline.h"
#include "lib/sample.h"
#include "runtime/internal.h"

typedef struct lw_replay_device {
  lw_rt_device *device;
  const lw_device_profile *profile;
  const char *cuda, *nvrtc; /* libraries; NULL: the real ones */
  lw_arena arena;           /* of the kernel below */
  lw_build_job delay;       /* lw_delay(us): sleeps */
} lw_replay_device;

/* The two arguments of the test programs: the driver's library and NVRTC's. */
void lw_replay_arguments(int argc, char **argv, lw_replay_device *out);
lw_status lw_replay_open(lw_replay_device *device, lw_diag *diag);
void lw_replay_close(lw_replay_device *device);
lw_status lw_replay_compile(const lw_replay_device *device, const lw_graph *graph, bool fuse,
                            lw_diag *diag, lw_compiled *out);
/* A plan (deinit) like |plan| with steps that sleep up to |us_max| before some of its steps, chosen
 * by |seed|. It borrows from |plan|. */
lw_status lw_replay_delayed(lw_replay_device *device, const lw_plan *plan, uint64_t seed,
                            uint32_t us_max, lw_diag *diag, lw_plan *out);

enum { LW_REPLAY_SETS = 2 };
typedef struct lw_replay {
  lw_rt_device *device;
  const lw_sample *sample;
  lw_rt_program *program;
  lw_rt_context *context;
  char *memory;
  size_t set_bytes;
} lw_replay;
/* Loads the plan; the inputs lie in both sets, the first is bound. End in every case. */
lw_status lw_replay_begin(lw_rt_device *device, const lw_plan *plan, const lw_sample *sample,
                          lw_diag *diag, lw_replay *out);
void lw_replay_end(lw_replay *replay);
lw_status lw_replay_bind(lw_replay *replay, uint32_t set);
/* Downloads the outputs of a set into the sample's, and gives a hash of them. */
lw_status lw_replay_bits(lw_replay *replay, uint32_t set, lw_hash *out);
/* Fills the outputs of a set with bytes. */
lw_status lw_replay_fill(lw_replay *replay, uint32_t set, int byte);

#endif

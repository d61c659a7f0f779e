/* sample.h: a graph with inputs and what the oracle says about them: the unit of differential
 * testing. */
#ifndef LW_TEST_SAMPLE_H
#define LW_TEST_SAMPLE_H

#include "device/device.h"
#include "graph/graph.h"
#include "graph/interp.h"
#include "lib/rgraph.h"

typedef struct lw_sample {
  uint64_t seed;
  lw_graph graph;
  lw_arena arena;
  lw_diag diag;
  lw_host_tensor *inputs;
  void **input_data,
      **output_data; /* each a heap block of its own, so that sanitizers guard its ends */
  size_t *input_bytes, *output_bytes;
  lw_oracle_tensor *want;           /* IDEAL, with bounds */
  uint64_t elements,
      tight; /* of all outputs; with a bound below 2 % of 1 + |value| (integers: exact) */
} lw_sample;

/* The graphs that the random tests agree on: size, contractions and types follow from the seed.
 * From a million on they are all large and wide, for long searches by hand. */
lw_rgraph_options lw_sample_options(uint64_t seed);
/* Limits of kernels: mostly those of the device. */
const lw_resource_policy *lw_sample_policy(uint64_t seed);
/* The profile |name|; a CPU's with vector registers that depend on the seed: 16 of 32 bytes, 32 of
 * 64 or 32 of 16. */
const lw_device_profile *lw_sample_profile(const char *name, uint64_t seed);

/* deinit in every case; on failure |diag| says why. */
lw_status lw_sample_random(uint64_t seed, lw_sample *out) LW_MUST_CHECK;
/* From a graph in text form (docs/graph-text.md); inputs are random. */
lw_status lw_sample_text(const char *text, uint64_t seed, lw_sample *out) LW_MUST_CHECK;
/* The same from a file. */
lw_status lw_sample_file(const char *path, uint64_t seed, lw_sample *out) LW_MUST_CHECK;
/* Takes |graph| over (also on failure). */
lw_status lw_sample_graph(lw_graph *graph, uint64_t seed, lw_sample *out) LW_MUST_CHECK;
void lw_sample_deinit(lw_sample *sample);

/* Output bytes that nothing writes are NaNs. */
void lw_sample_poison_outputs(const lw_sample *sample);
/* Compares |outputs| (NULL: output_data) with the oracle. Prints every output that is outside of
 * its bounds, after "seed N |mode|:", and returns how many there are. */
uint32_t lw_sample_compare(const lw_sample *sample, void *const *outputs, const char *mode);
/* The graph in text form, as it came from the seed. */
void lw_sample_print_graph(const lw_sample *sample);
/* All messages of |diag|, indented. */
void lw_sample_print_messages(const lw_diag *diag);

#endif

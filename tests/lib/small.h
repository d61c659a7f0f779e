/* small.h: small models through the public API, on the look-alikes of the driver and of NVRTC or on
 * the CPU, with inputs and what comes out. */
#ifndef LW_TESTS_LIB_SMALL_H
#define LW_TESTS_LIB_SMALL_H

#include <lawson/tools.h>

#include "standin/standin.h"

/* Their states; the process ends when the libraries are not there. */
lw_standin_state *lw_small_driver(void);
lw_nvrtc_standin_state *lw_small_nvrtc(void);
/* After an error that lost the device. */
void lw_small_bury(void);
/* A function of the look-alike of the driver. */
void *lw_small_driver_symbol(const char *name);
/* Something on the device that is not freed, or a broken rule, as words; NULL: nothing. */
const char *lw_small_leftovers(void);

/* 0: softmax(sin(layer_norm(tanh(x * x - x)))), and a product of it; 1: an element-wise function of
 * x and its transpose beside it. */
enum { LW_SMALL_GRAPHS = 2, LW_SMALL_OUTPUTS = 2 };
/* |device|: "cuda" (the look-alike) or "cpu"; |cache|, |fuse|: the options'. One thread builds. */
lw_status lw_small_load(int which, const char *device, const char *cache, const char *fuse,
                        lw_model **out_model);

typedef struct lw_small_io {
  lw_tools_array in, out[LW_SMALL_OUTPUTS];
} lw_small_io;
/* Arrays for the model's input, random after |seed|, and outputs. */
lw_status lw_small_io_init(const lw_model *model, uint64_t seed, lw_small_io *out);
void lw_small_io_deinit(lw_small_io *io);
/* Binds the arrays to |context| as they are, in host memory. */
lw_status lw_small_bind(lw_context *context, const lw_small_io *io);
/* A new context, one run; outputs are poisoned before. */
lw_status lw_small_run(lw_model *model, const lw_small_io *io, lw_stats *out_stats);
/* Whether the outputs are those of the oracle, inside its bounds. */
lw_status lw_small_verify(lw_model *model, const lw_small_io *io);

#endif

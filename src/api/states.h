/* states.h: the memory of a context's states (graph/state.h) and where in it the next run reads and
 * writes.
 *
 * An appended state is one block of rows. A run reads |rows| of them and writes the |added| behind
 * them; the next one begins |added| rows further on, so that nothing is copied. Where the block
 * ends the rows that are still read move to its front, once in many runs. A replaced state is two
 * blocks that change places. */
#ifndef LW_API_STATES_H
#define LW_API_STATES_H

#include "api/model.h"

typedef struct lw_state_memory {
  void *block[2]; /* on the device; of an appended state only the first */
  uint64_t row_bytes;
  int64_t room;     /* rows; an appended state's */
  int64_t next, at; /* the row or the block that the next run reads, and the last one read */
} lw_state_memory;

/* Zeros. One entry per state of the model. */
lw_status lw__states_open(const lw_model *model, lw_diag *diag,
                          lw_state_memory **out) LW_MUST_CHECK;
void lw__states_close(const lw_model *model, lw_state_memory *states);
/* Binds the inputs and outputs of the next run. |in_stream|: rows that have to move do so in
 * |stream|. */
lw_status lw__states_bind(const lw_model *model, lw_state_memory *states, lw_rt_context *rt,
                          void *stream, bool in_stream, lw_diag *diag) LW_MUST_CHECK;
/* A run was begun. */
void lw__states_step(const lw_model *model, lw_state_memory *states);
/* What the next run reads becomes |tensor|, of the input's shape; NULL: zeros. */
lw_status lw__states_set(const lw_model *model, lw_state_memory *states, uint32_t input,
                         const lw_tensor *tensor, lw_diag *diag) LW_MUST_CHECK;
/* What the next run reads, or, of the output's shape, what the last one left. */
lw_status lw__states_get(const lw_model *model, const lw_state_memory *states, uint32_t input,
                         const lw_tensor *tensor, lw_diag *diag) LW_MUST_CHECK;
/* The state that an input or output belongs to; LW_NONE. */
uint32_t lw__state_of_port(const lw_model *model, uint32_t index, bool is_input);
/* The states that the options ask for, of a graph with numbers everywhere. */
lw_status lw__model_find_states(lw_model *model, const lw_options *options) LW_MUST_CHECK;

#endif

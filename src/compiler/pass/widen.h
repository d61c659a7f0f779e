/* widen.h: keeps narrow floats wide between kernels where that costs nothing. */
#ifndef LW_COMPILER_WIDEN_H
#define LW_COMPILER_WIDEN_H

#include "graph/graph.h"

/* Writes into |out| the meaning of |graph| with every f16 or bf16 result of at most |most_elements|
 * elements computed and kept in f32; casts stand where a wide value meets a narrow one, and at the
 * graph's outputs, whose types do not change. Inputs and constants stay as they are. With
 * |narrow_factors| what products and convolutions multiply is rounded to its declared type all the
 * same, as matrix units take it. Shapes must be numbers. |graph| must outlive |out| (constants are
 * borrowed). */
lw_status lw__pass_widen(const lw_graph *graph, int64_t most_elements, bool narrow_factors,
                         lw_diag *diag, lw_graph *out) LW_MUST_CHECK;

#endif

/* emit.h: prints a verified kernel as source text: CUDA C (header-free, for NVRTC) or GNU C (for
 * the system compiler). No choices are made here. Preludes (helper functions lw_*) hold every PTX
 * instruction and every mathematical function; only helpers that are used are printed. */
#ifndef LW_COMPILER_EMIT_H
#define LW_COMPILER_EMIT_H

#include "compiler/kernel/kernel.h"

/* One translation unit for |count| kernels, entry points named |names[i]|:
 *   CUDA: extern "C" __global__ void NAME(T0 *b0, .., long long s0, ..)
 *         buffers, then scalars, in order
 *   C:    void NAME(void *const *buffers, const int64_t *scalars, int64_t begin, int64_t end)
 *         runs blocks begin .. end-1
 * Same kernels, same bytes. */
lw_status lw__emit_cuda(const lw_kernel *const *kernels, const char *const *names, uint32_t count,
                        lw_text *out) LW_MUST_CHECK;
lw_status lw__emit_c(const lw_kernel *const *kernels, const char *const *names, uint32_t count,
                     lw_text *out) LW_MUST_CHECK;

#endif

/* kexec.h: runs a compiled plan with the kernel-IR interpreter: every access checked, every byte
 * counted. */
#ifndef LW_TEST_KEXEC_H
#define LW_TEST_KEXEC_H

#include "api/pipeline.h"
#include "compiler/kernel/interp.h"

typedef struct lw_kexec_result {
  uint64_t launches, copies;          /* of the steps, init not counted */
  uint64_t load_bytes, store_bytes;   /* of the launches among the steps */
} lw_kexec_result;

/* |inputs| in order, |outputs| with room for their bytes. Memory that nothing wrote is poisoned
 * with NaNs first. */
lw_status lw_kexec_run(const lw_compiled *compiled, void *const *inputs, void *const *outputs,
                       lw_diag *diag, lw_kexec_result *out) LW_MUST_CHECK;
/* The same with the steps in one of the orders that the plan allows: |seed| chooses it. What the
 * plan promises about order is its lanes and waits, or its dependences when it has no lanes. */
lw_status lw_kexec_run_shuffled(const lw_compiled *compiled, uint64_t seed, void *const *inputs,
                                void *const *outputs, lw_diag *diag,
                                lw_kexec_result *out) LW_MUST_CHECK;

#endif

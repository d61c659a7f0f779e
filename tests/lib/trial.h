/* trial.h: one graph compiled for one device and run by the kernel-IR interpreter. */
#ifndef LW_TEST_TRIAL_H
#define LW_TEST_TRIAL_H

#include "lib/kexec.h"
#include "lib/sample.h"

typedef struct lw_trial {
  lw_sample sample;
  lw_compiled compiled;
  lw_kexec_result result;
  lw_diag diag;
  const char *profile;
} lw_trial;

/* Takes |graph| over. Compiles (passes on), runs, compares: LW_STATUS_CHECK_FAILED when a result is
 * outside of its bounds. Prints what goes wrong. deinit in every case. */
lw_status lw_trial_init(lw_graph *graph, const char *profile, bool fuse,
                        lw_trial *out) LW_MUST_CHECK;
void lw_trial_deinit(lw_trial *trial);

/* Runs it again; outputs are those of the sample. Nothing is printed or compared. */
lw_status lw_trial_run(lw_trial *trial) LW_MUST_CHECK;

/* The names of the kernels in the order of the launches, one a line. */
void lw_trial_kernel_names(const lw_trial *trial, lw_text *out);

#endif

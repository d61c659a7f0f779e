/* pipeline.h: how many runs a second there are when several contexts keep the device busy. */
#ifndef LW_CLI_PIPELINE_H
#define LW_CLI_PIPELINE_H

#include "session.h"

typedef struct cli_pipeline {
  long long contexts, runs;
  double alone_us, together_us; /* wall time of a run: one after the other, and in turns */
} cli_pipeline;

/* Inputs and outputs in host memory; the session's own context stays as it is. */
int cli_pipeline_measure(cli_session *session, long long contexts, long long runs,
                         cli_pipeline *out);
void cli_pipeline_print(const cli_pipeline *pipeline);
json_t *cli_pipeline_json(const cli_pipeline *pipeline);

#endif

/* pipeline.c: see pipeline.h. */
#include "pipeline.h"

#include <stdlib.h>

/* One context with outputs of its own. */
typedef struct pipeline_lane {
  lw_context *context;
  lw_tools_array *outputs;
  bool running;
} pipeline_lane;

static int lane_failed(const pipeline_lane *lane, lw_status status) {
  return cli_fail(status, "%s", lw_context_error(lane->context));
}

static int lane_open(const cli_session *s, pipeline_lane *lane) {
  lane->outputs = cli_alloc(s->output_count, sizeof *lane->outputs);
  lw_status status = lw_context_create(s->model, &lane->context);
  for (size_t i = 0; status == LW_OK && i < s->input_count; i++) {
    cli_tensor t;
    cli_tensor_of(&s->inputs[i], &t);
    status = cli_session_is_state(s, i, true) ? lw_context_set_state(lane->context, i, &t.tensor)
                                              : lw_context_bind_input(lane->context, i, &t.tensor);
  }
  for (size_t i = 0; status == LW_OK && i < s->output_count; i++) {
    const lw_tools_array *like = &s->outputs[i];
    cli_tensor t;
    if (cli_session_is_state(s, i, false)) continue;
    status = lw_tools_array_create(like->dtype, like->rank, like->dims, &lane->outputs[i]);
    cli_tensor_of(&lane->outputs[i], &t);
    if (status == LW_OK) status = lw_context_bind_output(lane->context, i, &t.tensor);
  }
  return status == LW_OK ? 0 : lane_failed(lane, status);
}

static void lane_close(const cli_session *s, pipeline_lane *lane) {
  lw_context_destroy(lane->context);
  for (size_t i = 0; lane->outputs != NULL && i < s->output_count; i++) {
    lw_tools_array_deinit(&lane->outputs[i]);
  }
  free(lane->outputs);
}

static int lane_wait(pipeline_lane *lane) {
  if (!lane->running) return 0;
  lane->running = false;
  lw_status status = lw_context_wait(lane->context);
  return status == LW_OK ? 0 : lane_failed(lane, status);
}

/* |runs| runs, each lane's next one begun when its last one has ended. Gives the time of one. */
static int in_turns(pipeline_lane *lanes, long long count, long long runs, double *out_us) {
  double start = cli_now_s();
  int code = 0;
  for (long long i = 0; code == 0 && i < runs; i++) {
    pipeline_lane *lane = &lanes[i % count];
    code = lane_wait(lane);
    if (code != 0) break;
    lw_status status = lw_context_submit(lane->context);
    if (status != LW_OK) return lane_failed(lane, status);
    lane->running = true;
  }
  for (long long i = 0; code == 0 && i < count; i++) code = lane_wait(&lanes[i]);
  *out_us = (cli_now_s() - start) * 1e6 / (double)runs;
  return code;
}

int cli_pipeline_measure(cli_session *s, long long contexts, long long runs, cli_pipeline *out) {
  *out = (cli_pipeline){.contexts = contexts, .runs = runs};
  pipeline_lane *lanes = cli_alloc((size_t)contexts, sizeof *lanes);
  int code = 0;
  double unused;
  for (long long i = 0; code == 0 && i < contexts; i++) code = lane_open(s, &lanes[i]);
  if (code == 0) code = in_turns(lanes, contexts, 2 * contexts, &unused); /* to warm up */
  if (code == 0) code = in_turns(lanes, 1, runs, &out->alone_us);
  if (code == 0) code = in_turns(lanes, contexts, runs, &out->together_us);
  for (long long i = 0; i < contexts; i++) lane_close(s, &lanes[i]);
  free(lanes);
  return code;
}

void cli_pipeline_print(const cli_pipeline *p) {
  printf("\n%lld contexts in turns: %s a run with its copies, %.0f runs a second; ", p->contexts,
         cli_us_text(p->together_us), 1e6 / p->together_us);
  printf("one at a time %s, %.2fx the time (%lld runs each)\n", cli_us_text(p->alone_us),
         p->alone_us / p->together_us, p->runs);
}

json_t *cli_pipeline_json(const cli_pipeline *p) {
  return json_pack("{s:I, s:I, s:o, s:o}", "contexts", (json_int_t)p->contexts, "runs",
                   (json_int_t)p->runs, "us", cli_json_real(p->together_us), "alone_us",
                   cli_json_real(p->alone_us));
}

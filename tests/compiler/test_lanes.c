/* test_lanes.c: random graphs over one to eight lanes, and without lanes: every bit of every output
 * is the same, whichever of the orders that the plan allows its steps run in. And the checker
 * refuses each of these plans when a wait or a dependence is taken out. Usage: test_compiler_lanes
 * [first seed] [count]. */
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "compiler/sched/schedule.h"
#include "lib/kexec.h"
#include "lib/sample.h"

#ifdef __SANITIZE_ADDRESS__
enum { default_count = 40 };
#else
enum { default_count = 300 };
#endif

static uint64_t failed, plans, spread, waits, cut, runs;

static bool expect(bool good, const lw_sample *s, uint32_t streams, const char *what) {
  if (good) return true;
  printf("seed %llu, streams %d: %s\n", (unsigned long long)s->seed, (int)streams, what);
  failed++;
  return false;
}

static bool keep_outputs(lw_sample *s, void **kept) {
  for (uint32_t i = 0; i < s->graph.outputs.count; i++) {
    if (s->output_bytes[i] == 0) continue;
    if (lw__arena_dup(&s->arena, s->output_data[i], s->output_bytes[i], &kept[i]) != LW_OK)
      return false;
  }
  return true;
}

static bool same_outputs(const lw_sample *s, void *const *kept) {
  for (uint32_t i = 0; i < s->graph.outputs.count; i++) {
    if (s->output_bytes[i] != 0 && memcmp(kept[i], s->output_data[i], s->output_bytes[i]) != 0)
      return false;
  }
  return true;
}

static bool refused_without(lw_plan *plan, uint32_t *list, uint32_t *count, uint32_t at) {
  uint32_t had = list[at], last = list[--*count];
  list[at] = last;
  bool refused = lw__plan_verify(plan, NULL) == LW_STATUS_INTERNAL;
  list[(*count)++] = last;
  list[at] = had;
  cut++;
  return refused;
}

/* Every single edge and wait is needed, and missed. */
static bool all_needed(lw_plan *plan) {
  for (uint32_t i = 0; i < plan->steps.count; i++) {
    lw_plan_step *step = &plan->steps.data[i];
    for (uint32_t d = 0; d < step->dep_count; d++)
      if (!refused_without(plan, step->deps, &step->dep_count, d)) return false;
    for (uint32_t w = 0; w < step->wait_count; w++)
      if (!refused_without(plan, step->waits, &step->wait_count, w)) return false;
    waits += step->wait_count;
  }
  return true;
}

static void run_plan(lw_sample *s, lw_compiled *c, uint32_t streams, void **kept, bool first) {
  /* As they stand first; then one lane far ahead of the others, or at random. */
  uint64_t seed = first ? 0 : streams % 2 == 0 ? 4 * s->seed : 4 * s->seed + 1 + streams % 3;
  lw_kexec_result result;
  lw_diag diag = {0};
  lw_sample_poison_outputs(s);
  lw_status status = lw_kexec_run_shuffled(c, seed, s->input_data, s->output_data, &diag, &result);
  lw__diag_deinit(&diag);
  if (!expect(status == LW_OK, s, streams, "does not run")) return;
  if (first) expect(keep_outputs(s, kept), s, streams, "no memory");
  expect(same_outputs(s, kept), s, streams, "other bits");
  runs++;
}

static void check_streams(lw_sample *s, uint32_t streams, void **kept) {
  lw_compile_options options = {.profile = lw__device_profile_find("sm_90a"),
                                .policy = lw_sample_policy(s->seed),
                                .streams = streams};
  lw_compiled c;
  lw_diag diag = {0};
  options.fuse.off = s->seed % 8 != 0; /* many steps */
  lw_status status = lw__compile(&s->graph, &options, false, &diag, &c);
  if (expect(status == LW_OK, s, streams, lw__diag_first_error(&diag))) {
    bool asked = streams == LW_SCHED_DAG ? c.plan.lane_count == 0
                                         : c.plan.lane_count <= (streams == 0 ? 8 : streams);
    expect(asked, s, streams, "other lanes than asked for");
    expect(c.plan.lane_note != NULL, s, streams, "does not say why so many lanes");
    expect(all_needed(&c.plan), s, streams,
           "the checker takes a plan that lacks an edge or a wait");
    run_plan(s, &c, streams, kept, streams == 1);
    plans++;
    spread += c.plan.lane_count > 1;
  }
  lw__compiled_deinit(&c);
  lw__diag_deinit(&diag);
}

/* Many steps that are quickly interpreted. */
static lw_status make_sample(uint64_t seed, lw_sample *out) {
  lw_rgraph_options shape = {
      .nodes = 12 + (uint32_t)(seed % 24), .contractions = seed % 3 == 0, .narrow = seed % 2 == 0};
  lw_graph graph;
  memset(out, 0, sizeof *out);
  LW_TRY(lw__graph_init(&graph, NULL));
  lw_status status = lw_rgraph_make(seed, &shape, &graph);
  if (status == LW_OK) return lw_sample_graph(&graph, seed, out);
  lw__graph_deinit(&graph);
  return status;
}

int main(int argc, char **argv) {
  uint64_t first = argc > 1 ? strtoull(argv[1], NULL, 10) : 1;
  uint64_t count = argc > 2 ? strtoull(argv[2], NULL, 10) : argc > 1 ? 1 : default_count;
  for (uint64_t seed = first; seed < first + count; seed++) {
    lw_sample s;
    void **kept;
    lw_status status = make_sample(seed, &s);
    if (status == LW_OK)
      status = lw__arena_alloc(&s.arena, s.graph.outputs.count + 1u, sizeof *kept, &kept);
    if (expect(status == LW_OK, &s, 0, "no sample")) {
      for (uint32_t streams = 1; streams <= LW_PLAN_MAX_LANES; streams++)
        check_streams(&s, streams, kept);
      check_streams(&s, 0, kept);
      check_streams(&s, LW_SCHED_DAG, kept);
    }
    lw_sample_deinit(&s);
  }
  printf(
      "%llu plans, %llu with several lanes, %llu waits, %llu edges and waits cut, %llu runs, %llu "
      "failed\n",
      (unsigned long long)plans, (unsigned long long)spread, (unsigned long long)waits,
      (unsigned long long)cut, (unsigned long long)runs, (unsigned long long)failed);
  if (count >= 100 && (spread < count || waits < count)) {
    printf("too few plans have several lanes\n");
    failed++;
  }
  return failed != 0;
}

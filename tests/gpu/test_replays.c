/* test_replays.c: replays of one plan on a GPU: the first call ever inside a caller's capture,
 * delays at random steps, a poisoned arena, other bindings, and what binding and a second context
 * cost. One line of JSON per test. Usage: test_gpu_replays [driver library [NVRTC]]: with the
 * look-alikes all but the times is judged. Skipped (77) where there is no GPU. */
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include <dlfcn.h>

#include "lib/replay.h"
#include "runtime/cuda/driver.h"

enum { SEEDS = 5, RUNS_PER_SEED = 20, DELAY_US = 200, REBINDS = 1000, skipped = 77 };
/* What the random tests have; every other one is compiled without fusion, which makes many steps.
 */
static const uint64_t seeds[SEEDS] = {71, 96, 107, 14, 128};

static lw_replay_device gpu;
static uint32_t failed;
static bool real; /* a device whose times mean something */

/* The caller's side of the driver. */
static struct {
#define MEMBER(name, symbol, parameters) lw_cu_result(*name) parameters;
  LW_CU_SYMBOLS(MEMBER)
#undef MEMBER
  lw_cu_result (*capture_begin)(lw_cu_stream, int), (*capture_end)(lw_cu_stream, lw_cu_graph *);
} cu;

static bool find_driver(void) {
  void *handle = dlopen(gpu.cuda == NULL ? "libcuda.so.1" : gpu.cuda, RTLD_NOW);
  if (handle == NULL) return false;
  void *symbol;
#define FIND(name, symbol_name, parameters) \
  symbol = dlsym(handle, #symbol_name);     \
  memcpy(&cu.name, &symbol, sizeof symbol);
  LW_CU_SYMBOLS(FIND)
  FIND(capture_begin, cuStreamBeginCapture_v2, )
  FIND(capture_end, cuStreamEndCapture, )
  return cu.capture_begin != NULL && cu.capture_end != NULL;
}

/* |facts|: JSON members, or "". */
static void report(const char *test, bool passed, const char *facts, const lw_diag *diag) {
  printf("{\"test\": \"%s\", \"passed\": %s%s%s}\n", test, passed ? "true" : "false",
         facts[0] == '\0' ? "" : ", ", facts);
  if (!passed && diag != NULL) lw_sample_print_messages(diag);
  (void)fflush(stdout);
  failed += !passed;
}

/* A compiled sample, and the bits of its plain run, which lie in the oracle's bounds. */
typedef struct subject {
  lw_sample sample;
  lw_compiled compiled;
  lw_hash want;
} subject;

static lw_status plain_run(subject *s, lw_diag *diag) {
  lw_replay r;
  lw_status status = lw_replay_begin(gpu.device, &s->compiled.plan, &s->sample, diag, &r);
  if (status == LW_OK) status = lw__rt_run(r.context, diag);
  if (status == LW_OK) status = lw_replay_bits(&r, 0, &s->want);
  if (status == LW_OK && lw_sample_compare(&s->sample, NULL, "plain run") != 0)
    status = LW_STATUS_CHECK_FAILED;
  lw_replay_end(&r);
  return status;
}

static lw_status open_subject(uint64_t seed, bool fuse, subject *out, lw_diag *diag) {
  memset(out, 0, sizeof *out);
  LW_TRY(lw_sample_random(seed, &out->sample));
  LW_TRY(lw_replay_compile(&gpu, &out->sample.graph, fuse, diag, &out->compiled));
  return plain_run(out, diag);
}

static void close_subject(subject *s) {
  lw__compiled_deinit(&s->compiled);
  lw_sample_deinit(&s->sample);
}

/* ---- the first call ever ---- */

/* Opens, compiles, loads and enqueues while |stream| is being captured; runs the capture twice. */
static lw_status run_captured(lw_cu_stream stream, subject *s, lw_replay *r, lw_hash bits[2],
                              lw_diag *diag) {
  lw_cu_graph graph;
  lw_cu_exec exec;
  if (cu.capture_begin(stream, 0) != 0) return LW_STATUS_DEVICE_FAILED;
  lw_status status = lw_replay_open(&gpu, diag);
  if (status == LW_OK) status = lw_sample_random(seeds[0], &s->sample);
  if (status == LW_OK) status = lw_replay_compile(&gpu, &s->sample.graph, true, diag, &s->compiled);
  if (status == LW_OK) status = lw_replay_begin(gpu.device, &s->compiled.plan, &s->sample, diag, r);
  if (status == LW_OK) status = lw__rt_enqueue(r->context, stream, diag);
  if (cu.capture_end(stream, &graph) != 0)
    return status != LW_OK ? status : lw__fail(diag, LW_STATUS_CHECK_FAILED, "capture", "broken");
  if (status == LW_OK && cu.graph_instantiate(&exec, graph, 0) != 0)
    status = LW_STATUS_DEVICE_FAILED;
  for (int i = 0; i < 2 && status == LW_OK; i++) {
    status = lw_replay_fill(r, 0, 0xff);
    if (status != LW_OK || cu.exec_launch(exec, stream) != 0 || cu.stream_wait(stream) != 0)
      return LW_STATUS_DEVICE_FAILED;
    status = lw_replay_bits(r, 0, &bits[i]);
  }
  if (status == LW_OK && (cu.exec_destroy(exec) != 0 || cu.graph_destroy(graph) != 0))
    status = LW_STATUS_DEVICE_FAILED;
  return status;
}

static void test_first_call_captured(lw_cu_stream stream) {
  subject s = {0};
  lw_replay r = {0};
  lw_hash bits[2];
  lw_diag diag = {0};
  lw_status status = run_captured(stream, &s, &r, bits, &diag);
  if (gpu.device == NULL || gpu.delay.image == NULL) {
    printf("# SKIP %s\n", lw__diag_first_error(&diag));
    exit(skipped);
  }
  bool good = status == LW_OK && lw_sample_compare(&s.sample, NULL, "captured") == 0 &&
              lw__hash_eq(bits[0], bits[1]);
  if (good) {
    good = plain_run(&s, &diag) == LW_OK && lw__hash_eq(bits[0], s.want);
  }
  if (r.context != NULL) lw_replay_end(&r);
  close_subject(&s);
  report("first call inside a capture", good, "", &diag);
  lw__diag_deinit(&diag);
}

/* ---- delays ---- */

static lw_status run_delayed(subject *s, uint64_t seed, bool *out_same, lw_diag *diag) {
  lw_plan plan;
  lw_replay r = {0};
  lw_hash bits;
  *out_same = true;
  lw_status status =
      lw_replay_delayed(&gpu, &s->compiled.plan, seed, real ? DELAY_US : 1, diag, &plan);
  if (status == LW_OK) status = lw_replay_begin(gpu.device, &plan, &s->sample, diag, &r);
  for (int i = 0; i < 2 && status == LW_OK; i++) {
    status = lw_replay_fill(&r, 0, 0xff);
    if (status == LW_OK) status = lw__rt_run(r.context, diag);
    if (status == LW_OK) status = lw_replay_bits(&r, 0, &bits);
    if (status == LW_OK) *out_same = *out_same && lw__hash_eq(bits, s->want);
  }
  if (r.program != NULL) lw_replay_end(&r);
  lw__plan_deinit(&plan);
  return status;
}

static void test_delays(subject *subjects) {
  uint32_t replays = 0, different = 0, steps = 0;
  lw_diag diag = {0};
  for (int i = 0; i < SEEDS; i++) {
    steps += subjects[i].compiled.plan.steps.count;
    for (uint64_t k = 0; k < RUNS_PER_SEED / 2; k++) {
      bool same;
      replays += 2;
      if (run_delayed(&subjects[i], 1 + k, &same, &diag) != LW_OK || !same) different++;
    }
  }
  char facts[120];
  (void)snprintf(facts, sizeof facts, "\"steps\": %u, \"replays\": %u, \"different\": %u", steps,
                 replays, different);
  report("delays at random steps", different == 0, facts, &diag);
  lw__diag_deinit(&diag);
}

/* ---- a poisoned arena ---- */

static lw_status poison(lw_replay *r, uint32_t pattern) {
  size_t bytes = (size_t)lw__rt_arena_bytes(r->context->arena);
  void *words = NULL;
  if (bytes == 0) return LW_OK;
  LW_TRY(lw__mem_resize(&words, bytes + 4));
  for (size_t i = 0; i < bytes; i += 4) memcpy((char *)words + i, &pattern, 4);
  lw_status status = lw__rt_upload(r->device, r->context->arena->base, words, bytes);
  lw__mem_free(words);
  return status;
}

static void test_poison(subject *subjects) {
  /* Not a number in f32, and as two halves in f16 and bf16. */
  static const uint32_t patterns[2] = {0xffffffff, 0x7fc17fc1};
  uint64_t bytes = 0;
  bool good = true;
  lw_diag diag = {0};
  for (int i = 0; i < SEEDS && good; i++) {
    lw_replay r;
    lw_status status =
        lw_replay_begin(gpu.device, &subjects[i].compiled.plan, &subjects[i].sample, &diag, &r);
    for (int p = 0; p < 2 && status == LW_OK; p++) {
      lw_hash bits;
      status = poison(&r, patterns[p]);
      if (status == LW_OK) status = lw__rt_run(r.context, &diag);
      if (status == LW_OK) status = lw_replay_bits(&r, 0, &bits);
      good = good && status == LW_OK && lw__hash_eq(bits, subjects[i].want);
    }
    if (status == LW_OK) bytes += lw__rt_arena_bytes(r.context->arena);
    good = good && status == LW_OK;
    lw_replay_end(&r);
  }
  char facts[64];
  (void)snprintf(facts, sizeof facts, "\"arena_bytes\": %llu", (unsigned long long)bytes);
  report("poisoned arena", good, facts, &diag);
  lw__diag_deinit(&diag);
}

/* ---- other bindings ---- */

/* Built with A, replayed with B: B gets the results, and A keeps what was put there since. */
static lw_status follow(subject *s, bool *out_good, lw_diag *diag) {
  lw_replay r;
  lw_hash bits, marked, after;
  lw_status status = lw_replay_begin(gpu.device, &s->compiled.plan, &s->sample, diag, &r);
  if (status == LW_OK) status = lw__rt_run(r.context, diag);
  if (status == LW_OK) status = lw_replay_fill(&r, 0, 0x5a);
  if (status == LW_OK) status = lw_replay_bits(&r, 0, &marked);
  if (status == LW_OK) status = lw_replay_bind(&r, 1);
  if (status == LW_OK) status = lw__rt_run(r.context, diag);
  if (status == LW_OK) status = lw_replay_bits(&r, 1, &bits);
  if (status == LW_OK) status = lw_replay_bits(&r, 0, &after);
  *out_good = status == LW_OK && lw__hash_eq(bits, s->want) && lw__hash_eq(after, marked);
  lw_replay_end(&r);
  return status;
}

static void test_follow(subject *subjects) {
  bool good = true;
  lw_diag diag = {0};
  for (int i = 0; i < SEEDS && good; i++) {
    if (follow(&subjects[i], &good, &diag) != LW_OK) good = false;
  }
  report("built with A, replayed with B", good, "", &diag);
  lw__diag_deinit(&diag);
}

/* ---- times ---- */

/* Arguments of kernels and copies that an input's or output's address is. */
static uint32_t bound_arguments(const lw_rt_program *program) {
  uint32_t count = 0;
  for (uint32_t i = 0; i < program->run.slot_count; i++) {
    lw_buffer_kind kind = program->buffers[program->run.slots[i].buffer].kind;
    count += kind == LW_BUFFER_INPUT || kind == LW_BUFFER_OUTPUT;
  }
  return count;
}

/* Host time of REBINDS runs put into the default stream, each with a new binding or not. */
static lw_status time_runs(lw_replay *r, bool rebind, int64_t *out_ns, lw_diag *diag) {
  *out_ns = 0;
  for (int i = 0; i < REBINDS; i++) {
    int64_t start = lw__now_ns();
    if (rebind) LW_TRY(lw_replay_bind(r, (uint32_t)(i + 1) % LW_REPLAY_SETS));
    LW_TRY(lw__rt_enqueue(r->context, NULL, diag));
    *out_ns += lw__now_ns() - start;
    if (i % 20 == 19) LW_TRY(lw__rt_run(r->context, diag)); /* no queue runs full */
  }
  return LW_OK;
}

static void test_rebinding(subject *subjects) {
  lw_replay r;
  lw_hash bits;
  int64_t plain = 0, bound = 0;
  lw_diag diag = {0};
  subject *s = &subjects[0];
  lw_status status = lw_replay_begin(gpu.device, &s->compiled.plan, &s->sample, &diag, &r);
  if (status == LW_OK) status = time_runs(&r, false, &plain, &diag); /* the first is to warm up */
  if (status == LW_OK) status = time_runs(&r, false, &plain, &diag);
  if (status == LW_OK) status = time_runs(&r, true, &bound, &diag);
  if (status == LW_OK) status = lw__rt_run(r.context, &diag);
  if (status == LW_OK) status = lw_replay_bits(&r, REBINDS % LW_REPLAY_SETS, &bits);
  uint32_t arguments = status == LW_OK ? bound_arguments(r.program) : 1;
  double each = (double)(bound - plain) * 1e-3 / REBINDS / (arguments == 0 ? 1 : arguments);
  bool good = status == LW_OK && lw__hash_eq(bits, s->want) && (!real || each <= 1);
  char facts[200];
  (void)snprintf(facts, sizeof facts,
                 "\"rebinds\": %d, \"arguments\": %u, \"us_per_argument\": %.3f, "
                 "\"us_per_launch\": %.3f, \"judged\": %s",
                 REBINDS, arguments, each, (double)plain * 1e-3 / REBINDS, real ? "true" : "false");
  report("rebinding", good, facts, &diag);
  lw_replay_end(&r);
  lw__diag_deinit(&diag);
}

/* A chain of small sums: no kernel fills a tenth of the device. */
static lw_status open_small(subject *s, lw_diag *diag) {
  lw_text text = {0};
  memset(s, 0, sizeof *s);
  lw__text_add(&text, "%%1 = input f32[8, 1024]\n");
  uint32_t last = 1;
  for (int i = 0; i < 12; i++) { /* sums over columns and over rows by turns */
    lw__text_add(&text, "%%%u = reduce.sum f32[%s] %%%u axes=[%d]\n", last + 1,
                 i % 2 == 0 ? "1024" : "8", last, i % 2);
    lw__text_add(&text, "%%%u = reshape f32[%s] %%%u\n", last + 2, i % 2 == 0 ? "1, 1024" : "8, 1",
                 last + 1);
    lw__text_add(&text, "%%%u = expand f32[8, 1024] %%%u\n", last + 3, last + 2);
    lw__text_add(&text, "%%%u = map.add f32[8, 1024] %%%u, %%1\n", last + 4, last + 3);
    lw__text_add(&text, "%%%u = map.sin f32[8, 1024] %%%u\n", last + 5, last + 4);
    last += 5;
  }
  lw__text_add(&text, "output y %%%u\n", last);
  lw_status status = text.status;
  if (status == LW_OK) status = lw_sample_text(lw__text_str(&text), 1, &s->sample);
  lw__text_deinit(&text);
  if (status != LW_OK) {
    lw_sample_print_messages(&s->sample.diag);
    return lw__fail(diag, status, "small graph", "no sample");
  }
  LW_TRY(lw_replay_compile(&gpu, &s->sample.graph, true, diag, &s->compiled));
  return plain_run(s, diag);
}

/* Time for 2 * |pairs| runs by turns on the two contexts and streams. */
static lw_status time_two(lw_replay *a, lw_replay *b, lw_cu_stream first, lw_cu_stream second,
                          int pairs, int64_t *out_ns, lw_diag *diag) {
  int64_t start = lw__now_ns();
  for (int i = 0; i < pairs; i++) {
    LW_TRY(lw__rt_enqueue(a->context, first, diag));
    LW_TRY(lw__rt_enqueue(b->context, second, diag));
  }
  if (cu.stream_wait(first) != 0 || cu.stream_wait(second) != 0) return LW_STATUS_DEVICE_FAILED;
  *out_ns = lw__now_ns() - start;
  return LW_OK;
}

static void test_overlap(lw_cu_stream first, lw_cu_stream second) {
  const int pairs = real ? 300 : 2;
  subject s;
  lw_replay a = {0}, b = {0};
  lw_hash bits[2];
  lw_diag diag = {0};
  int64_t alone = 0, together = 0;
  lw_status status = open_small(&s, &diag);
  if (status == LW_OK) status = lw_replay_begin(gpu.device, &s.compiled.plan, &s.sample, &diag, &a);
  if (status == LW_OK) status = lw_replay_begin(gpu.device, &s.compiled.plan, &s.sample, &diag, &b);
  for (int i = 0; i < 3 && status == LW_OK; i++) { /* the last counts */
    status = time_two(&a, &a, first, first, pairs, &alone, &diag);
    if (status == LW_OK) status = time_two(&a, &b, first, second, pairs, &together, &diag);
  }
  if (status == LW_OK) status = lw_replay_bits(&a, 0, &bits[0]);
  if (status == LW_OK) status = lw_replay_bits(&b, 0, &bits[1]);
  double gain = together > 0 ? (double)alone / (double)together : 0;
  bool good = status == LW_OK && lw__hash_eq(bits[0], s.want) && lw__hash_eq(bits[1], s.want) &&
              (!real || gain >= 1.6);
  char facts[200];
  (void)snprintf(facts, sizeof facts,
                 "\"steps\": %u, \"us_one_context\": %.2f, \"us_two_contexts\": %.2f, "
                 "\"throughput\": %.2f, \"judged\": %s",
                 s.compiled.plan.steps.count, (double)alone * 1e-3 / pairs / 2,
                 (double)together * 1e-3 / pairs / 2, gain, real ? "true" : "false");
  report("two contexts on two streams", good, facts, &diag);
  if (a.program != NULL) lw_replay_end(&a);
  if (b.program != NULL) lw_replay_end(&b);
  close_subject(&s);
  lw__diag_deinit(&diag);
}

/* ---- all of them ---- */

static void run_all(lw_cu_stream first, lw_cu_stream second) {
  static subject subjects[SEEDS];
  bool good = true;
  for (int i = 0; i < SEEDS; i++) {
    lw_diag diag = {0};
    if (open_subject(seeds[i], i % 2 == 0, &subjects[i], &diag) != LW_OK) {
      report("plain run", false, "", &diag);
      good = false;
    }
    lw__diag_deinit(&diag);
  }
  if (good) {
    test_delays(subjects);
    test_poison(subjects);
    test_follow(subjects);
    test_rebinding(subjects);
    test_overlap(first, second);
  }
  for (int i = 0; i < SEEDS; i++) close_subject(&subjects[i]);
}

int main(int argc, char **argv) {
  lw_cu_device device;
  lw_cu_context primary;
  lw_cu_stream streams[2];
  lw_replay_arguments(argc, argv, &gpu);
  real = gpu.cuda == NULL;
  if (!find_driver() || cu.init(0) != 0 || cu.device_get(&device, 0) != 0 ||
      cu.primary_retain(&primary, device) != 0 || cu.context_push(primary) != 0) {
    printf("# SKIP no GPU\n");
    return skipped;
  }
  for (int i = 0; i < 2; i++) {
    if (cu.stream_create(&streams[i], LW_CU_STREAM_NON_BLOCKING) != 0) return 1;
  }
  test_first_call_captured(streams[0]);
  run_all(streams[0], streams[1]);
  lw_replay_close(&gpu);
  for (int i = 0; i < 2; i++) (void)cu.stream_destroy(streams[i]);
  (void)cu.context_pop(&primary);
  (void)cu.primary_release(device);
  return failed != 0;
}

/* test_orders.c: the look-alike of the driver itself: work in different orders that the recorded
 * dependencies allow, races between streams and between nodes of a graph, guard zones, captures. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include <cmocka.h>
#include <dlfcn.h>

#include "standin/standin.h"

enum { BYTES = 256 };

static lw_standin_state *standin;
#define MEMBER(name, symbol, parameters) static lw_cu_result(*cu_##name) parameters;
LW_CU_SYMBOLS(MEMBER)
LW_STANDIN_SYMBOLS(MEMBER)
#undef MEMBER
static lw_cu_context primary;
static lw_cu_stream streams[3];
static lw_cu_event events[3];
static lw_cu_address memory[4];

#define COPY(name, to)                                                  \
  "extern \"C\" __global__ void " name                                  \
  "(float *y, const float *x, long long n) {\n"                         \
  "  long long i = blockIdx.x * (long long)blockDim.x + threadIdx.x;\n" \
  "  if (i < n) y[" to                                                  \
  "] = x[i];\n"                                                         \
  "}\n"
static const char source[] =
    LW_STANDIN_SOURCE COPY("copy_odd", "2 * i + 1") COPY("copy_even", "2 * i");
static const char silent_source[] = LW_STANDIN_SOURCE COPY("copy_odd", "2 * i + 1");

#define OK(call) assert_int_equal(call, 0)

static int load(void **state) {
  (void)state;
  void *handle = dlopen(LW_BUILD_DIR "/libcuda_standin.so", RTLD_NOW);
  if (handle == NULL) {
    print_error("%s\n", dlerror());
    return 1;
  }
  void *symbol;
#define FIND(name, symbol_name, parameters) \
  symbol = dlsym(handle, #symbol_name);     \
  memcpy(&cu_##name, &symbol, sizeof symbol);
  LW_CU_SYMBOLS(FIND)
  LW_STANDIN_SYMBOLS(FIND)
#undef FIND
  lw_standin_function *function;
  symbol = dlsym(handle, "lw_standin");
  memcpy(&function, &symbol, sizeof symbol);
  standin = function();
  return 0;
}

static int open_all(void **state) {
  (void)state;
  *standin = (lw_standin_state){
      .device_count = 1, .arch_major = 9, .driver_version = 12040, .fail_code = 1};
  OK(cu_primary_retain(&primary, 0));
  OK(cu_context_push(primary));
  for (int i = 0; i < 3; i++) {
    OK(cu_stream_create(&streams[i], LW_CU_STREAM_NON_BLOCKING));
    OK(cu_event_create(&events[i], LW_CU_EVENT_NO_TIMING));
  }
  for (int i = 0; i < 4; i++) OK(cu_memory_alloc(&memory[i], BYTES));
  return 0;
}

static int close_all(void **state) {
  (void)state;
  for (int i = 0; i < 4; i++) OK(cu_memory_free(memory[i]));
  for (int i = 0; i < 3; i++) {
    OK(cu_stream_destroy(streams[i]));
    OK(cu_event_destroy(events[i]));
  }
  OK(cu_context_pop(&primary));
  OK(cu_primary_release(0));
  assert_int_equal(standin->live_memory + standin->live_streams + standin->live_events +
                       standin->live_graphs + standin->live_modules + standin->live_captures,
                   0);
  return 0;
}

static void assert_violation(const char *words) {
  if (standin->violations == 0) fail_msg("no violation; expected '%s'", words);
  if (strstr(standin->violation, words) == NULL)
    fail_msg("'%s' is not '%s'", standin->violation, words);
  standin->violations = 0;
}

static void assert_fine(void) {
  if (standin->violations != 0) fail_msg("%s", standin->violation);
}

static void finish(void) {
  for (int i = 0; i < 3; i++) OK(cu_stream_wait(streams[i]));
}

/* Three copies to one place on the host that nothing orders: each of them is the last one for some
 * seed; in one stream it is always the third. */
static void test_orders_differ(void **state) {
  (void)state;
  for (int same = 0; same < 2; same++) {
    int last[3] = {0};
    for (uint64_t seed = 0; seed < 60; seed++) {
      standin->seed = seed;
      char host = 0;
      for (int i = 0; i < 3; i++) OK(cu_fill(memory[i], (unsigned char)(i + 1), BYTES, streams[0]));
      OK(cu_stream_wait(streams[0]));
      for (int i = 0; i < 3; i++) OK(cu_copy_out(&host, memory[i], 1, streams[same ? 0 : i]));
      finish();
      assert_true(host >= 1 && host <= 3);
      last[host - 1]++;
    }
    if (same) assert_int_equal(last[2], 60);
    for (int i = 0; i < 3 && !same; i++) assert_true(last[i] > 3);
  }
  assert_fine();
}

static void test_races_between_streams(void **state) {
  (void)state;
  for (uint64_t seed = 0; seed < 20; seed++) {
    standin->seed = seed;
    /* two reads */
    OK(cu_copy(memory[1], memory[0], 64, streams[0]));
    OK(cu_copy(memory[2], memory[0], 64, streams[1]));
    finish();
    assert_fine();
    /* neighbours */
    OK(cu_fill(memory[0], 1, 100, streams[0]));
    OK(cu_fill(memory[0] + 100, 2, 100, streams[1]));
    finish();
    assert_fine();
    /* one byte in common; found when the later of the two is waited for alone, too */
    OK(cu_fill(memory[0], 1, 101, streams[0]));
    OK(cu_fill(memory[0] + 100, 2, 100, streams[1]));
    OK(cu_stream_wait(streams[1]));
    OK(cu_stream_wait(streams[0]));
    assert_violation("race");
    /* an order through an event, and through the host */
    OK(cu_fill(memory[0], 1, 101, streams[0]));
    OK(cu_event_record(events[0], streams[0]));
    OK(cu_stream_wait_event(streams[1], events[0], 0));
    OK(cu_fill(memory[0] + 100, 2, 100, streams[1]));
    finish();
    OK(cu_fill(memory[0], 1, 101, streams[0]));
    OK(cu_event_wait(events[0]));
    OK(cu_stream_wait(streams[0]));
    OK(cu_copy(memory[1], memory[0], 101, streams[2]));
    finish();
    assert_fine();
    /* an event that was recorded too early */
    OK(cu_event_record(events[1], streams[0]));
    OK(cu_fill(memory[3], 1, 8, streams[0]));
    OK(cu_stream_wait_event(streams[1], events[1], 0));
    OK(cu_copy(memory[2], memory[3], 8, streams[1]));
    finish();
    assert_violation("race");
  }
}

/* Kernels say which bytes they touch: two that fill one row by turns do not meet. */
static void test_what_kernels_touch(void **state) {
  (void)state;
  lw_cu_module module;
  lw_cu_function odd, even;
  OK(cu_module_load(&module, source));
  OK(cu_module_function(&odd, module, "copy_odd"));
  OK(cu_module_function(&even, module, "copy_even"));
  long long n = 32;
  for (int i = 0; i < 2; i++) OK(cu_fill(memory[i + 1], (unsigned char)(i + 1), BYTES, streams[0]));
  finish();
  void *first[] = {&memory[0], &memory[1], &n}, *second[] = {&memory[0], &memory[2], &n};
  OK(cu_launch(odd, 4, 1, 1, 8, 1, 1, 0, streams[0], first, NULL));
  OK(cu_launch(even, 4, 1, 1, 8, 1, 1, 0, streams[1], second, NULL));
  finish();
  assert_fine();
  unsigned char host[BYTES];
  OK(cu_copy_out(host, memory[0], BYTES, streams[0]));
  finish();
  for (int i = 0; i < BYTES; i++) assert_int_equal(host[i], i / 4 % 2 == 1 ? 1 : 2);
  OK(cu_launch(odd, 4, 1, 1, 8, 1, 1, 0, streams[0], first, NULL));
  OK(cu_launch(odd, 4, 1, 1, 8, 1, 1, 0, streams[1], second, NULL));
  finish();
  assert_violation("copy_odd and copy_odd");
  /* one element too many: element 65 of 64 */
  n = 33;
  OK(cu_launch(odd, 5, 1, 1, 8, 1, 1, 0, streams[0], first, NULL));
  finish();
  assert_violation("copy_odd: writes 4 bytes at 260 of a block of 256");
  OK(cu_module_unload(module));
  /* The zone itself is looked at as well. */
  standin->no_access_log = true;
  OK(cu_module_load(&module, silent_source));
  OK(cu_module_function(&odd, module, "copy_odd"));
  OK(cu_launch(odd, 5, 1, 1, 8, 1, 1, 0, streams[0], first, NULL));
  finish();
  assert_violation("copy_odd: somebody wrote behind a block of 256");
  OK(cu_module_unload(module));
}

/* fill -> copy, copy: a diamond without its last edge. */
static void test_races_in_graphs(void **state) {
  (void)state;
  for (int missing = 0; missing < 2; missing++) {
    lw_cu_graph graph;
    lw_cu_node nodes[3];
    lw_cu_exec exec;
    const lw_cu_fill_node fill = {
        .to = memory[0], .value = 7, .elem_bytes = 1, .width = BYTES, .height = 1};
    lw_cu_fill_node other = fill;
    lw_cu_copy_node copy = {
        .from = {.memory = LW_CU_MEMORY_DEVICE, .device = memory[0], .pitch = BYTES, .height = 1},
        .to = {.memory = LW_CU_MEMORY_DEVICE, .device = memory[1], .pitch = BYTES, .height = 1},
        .width_bytes = BYTES,
        .height = 1,
        .depth = 1};
    OK(cu_graph_create(&graph, 0));
    OK(cu_graph_fill(&nodes[0], graph, NULL, 0, &fill, primary));
    OK(cu_graph_copy(&nodes[1], graph, nodes, 1, &copy, primary));
    other.to = memory[1];
    OK(cu_graph_fill(&nodes[2], graph, missing ? nodes : nodes + 1, 1, &other, primary));
    OK(cu_graph_instantiate(&exec, graph, 0));
    for (int i = 0; i < 10; i++) OK(cu_exec_launch(exec, streams[0])); /* one after the other */
    finish();
    if (missing) {
      assert_violation("race: nothing orders a");
    } else {
      assert_fine();
      OK(cu_exec_launch(exec, streams[0]));
      OK(cu_exec_launch(exec, streams[1]));
      finish();
      assert_violation("race");
    }
    OK(cu_exec_destroy(exec));
    OK(cu_graph_destroy(graph));
  }
}

static void test_captures(void **state) {
  (void)state;
  lw_cu_graph graph;
  lw_cu_exec exec;
  lw_cu_capture status;
  /* Two streams, forked and joined; replayed later, nothing happens before. */
  OK(cu_capture_begin(streams[0], 0));
  OK(cu_stream_capture(streams[0], &status));
  assert_int_equal(status, 1);
  OK(cu_fill(memory[0], 1, BYTES, streams[0]));
  OK(cu_event_record(events[0], streams[0]));
  OK(cu_stream_wait_event(streams[1], events[0], 0));
  OK(cu_copy(memory[1], memory[0], BYTES, streams[1]));
  OK(cu_copy(memory[2], memory[0], BYTES, streams[0]));
  OK(cu_event_record(events[1], streams[1]));
  OK(cu_stream_wait_event(streams[0], events[1], 0));
  OK(cu_capture_end(streams[0], &graph));
  OK(cu_stream_capture(streams[1], &status));
  assert_int_equal(status, 0);
  OK(cu_graph_instantiate(&exec, graph, 0));
  OK(cu_fill(memory[1], 9, BYTES, streams[0]));
  OK(cu_fill(memory[2], 9, BYTES, streams[0]));
  OK(cu_exec_launch(exec, streams[0]));
  unsigned char host[2] = {0};
  OK(cu_copy_out(&host[0], memory[1], 1, streams[0]));
  OK(cu_copy_out(&host[1], memory[2] + BYTES - 1, 1, streams[0]));
  finish();
  assert_fine();
  assert_int_equal(host[0], 1);
  assert_int_equal(host[1], 1);
  /* A graph inside a capture becomes part of it. */
  lw_cu_graph outer;
  lw_cu_exec outer_exec;
  OK(cu_capture_begin(streams[2], 0));
  OK(cu_exec_launch(exec, streams[2]));
  OK(cu_fill(memory[1], 5, BYTES, streams[2]));
  OK(cu_capture_end(streams[2], &outer));
  OK(cu_graph_instantiate(&outer_exec, outer, 0));
  OK(cu_exec_launch(outer_exec, streams[0]));
  OK(cu_copy_out(&host[0], memory[1], 1, streams[0]));
  finish();
  assert_fine();
  assert_int_equal(host[0], 5);
  OK(cu_exec_destroy(outer_exec));
  OK(cu_graph_destroy(outer));
  OK(cu_exec_destroy(exec));
  OK(cu_graph_destroy(graph));
  /* A stream that was not joined. */
  OK(cu_capture_begin(streams[0], 0));
  OK(cu_event_record(events[0], streams[0]));
  OK(cu_stream_wait_event(streams[1], events[0], 0));
  OK(cu_fill(memory[0], 1, BYTES, streams[1]));
  assert_int_equal(cu_capture_end(streams[0], &graph), 904);
  assert_null(graph);
  assert_fine();
}

/* What a capture forbids breaks it, unless the thread says that it knows what it does. */
static void test_unsafe_calls(void **state) {
  (void)state;
  lw_cu_graph graph;
  lw_cu_address more;
  OK(cu_capture_begin(streams[0], 0));
  assert_int_equal(cu_memory_alloc(&more, 8), 900);
  assert_violation("cuMemAlloc_v2 during a capture");
  assert_int_equal(cu_fill(memory[0], 1, 8, streams[0]), 901);
  assert_int_equal(cu_capture_end(streams[0], &graph), 901);
  OK(cu_capture_begin(streams[0], 0));
  lw_cu_capture_mode mode = LW_CU_CAPTURE_RELAXED;
  OK(cu_capture_mode(&mode));
  OK(cu_memory_alloc(&more, 8));
  OK(cu_fill(more, 1, 8, streams[1]));
  OK(cu_stream_wait(streams[1]));
  assert_fine();
  assert_int_equal(cu_stream_wait(streams[0]), 900);
  assert_violation("captures");
  OK(cu_capture_mode(&mode));
  assert_int_equal(mode, LW_CU_CAPTURE_RELAXED);
  assert_int_equal(cu_capture_end(streams[0], &graph), 901);
  OK(cu_memory_free(more));
}

/* A wait that fails leaves nothing to do. */
static void test_failing_wait(void **state) {
  (void)state;
  char host = 0;
  OK(cu_fill(memory[0], 1, 8, streams[0]));
  OK(cu_copy_out(&host, memory[0], 1, streams[0]));
  standin->fail_at = 1;
  standin->fail_code = 719;
  assert_int_equal(cu_stream_wait(streams[0]), 719);
  assert_string_equal(standin->failed_call, "cuStreamSynchronize");
  finish();
  assert_int_equal(host, 0);
}

#define CASE(test) cmocka_unit_test_setup_teardown(test, open_all, close_all)

int main(void) {
  const struct CMUnitTest tests[] = {
      CASE(test_orders_differ),      CASE(test_races_between_streams),
      CASE(test_what_kernels_touch), CASE(test_races_in_graphs),
      CASE(test_captures),           CASE(test_unsafe_calls),
      CASE(test_failing_wait),
  };
  return cmocka_run_group_tests(tests, load, NULL);
}

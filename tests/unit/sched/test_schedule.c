/* Schedules of made-up plans: how many lanes pay, what shares of the device do to a prediction,
 * which steps are critical, which order needs little memory; and list schedules of random plans
 * against their bounds. */
#include <math.h>

#include "compiler/sched/schedule.h"
#include "unit/plan/plan_kit.h"

#define STEPS_MAX 128

static const lw_device_profile *gpu(void) { return lw__device_profile_find("sm_90a"); }

static lw_status run_schedule(lw_plan *plan, lw_sched_work each, uint32_t streams) {
  lw_sched_work work[STEPS_MAX];
  lw_sched_options options = {.profile = gpu(), .streams = streams};
  for (uint32_t i = 0; i < plan->steps.count; i++) work[i] = each;
  assert_true(plan->steps.count <= STEPS_MAX);
  assert_int_equal(lw__plan_place_weights(plan), LW_OK);
  assert_int_equal(lw__plan_link(plan), LW_OK);
  LW_TRY(lw__schedule(plan, work, &options));
  assert_int_equal(lw__plan_place(plan), LW_OK);
  assert_valid(plan);
  return LW_OK;
}

/* |branches| chains of |length| from one input, joined two by two into one output. */
static void make_branches(lw_plan *plan, uint32_t branches, uint32_t length) {
  lw__plan_init(plan, LW_PLAN_CUDA);
  add_kernel(plan);
  uint32_t in = add_buffer(plan, LW_BUFFER_INPUT, 0, 256), sum = LW_NONE;
  for (uint32_t b = 0; b < branches; b++) {
    uint32_t last = in;
    for (uint32_t i = 0; i < length; i++) {
      uint32_t next = add_buffer(plan, LW_BUFFER_ARENA, 0, 256);
      add_launch(plan, false, next, last, LW_NONE);
      last = next;
    }
    uint32_t both = add_buffer(plan, LW_BUFFER_ARENA, 0, 256);
    if (sum != LW_NONE) add_launch(plan, false, both, sum, last);
    sum = sum == LW_NONE ? last : both;
  }
  uint32_t out = add_buffer(plan, LW_BUFFER_OUTPUT, 0, 256);
  add_launch(plan, false, out, sum, LW_NONE);
}

static void test_small_branches(void **state) {
  (void)state;
  lw_plan plan;
  make_branches(&plan, 2, 20);
  assert_int_equal(run_schedule(&plan, (lw_sched_work){4, 0.1}, 0), LW_OK);
  assert_int_equal(plan.lane_count, 2);
  assert_true(plan.one_lane_us > 1.8 * plan.predicted_us);
  assert_non_null(strstr(plan.lane_note, "they save 4"));
  uint32_t waits = 0;
  for (uint32_t i = 0; i < plan.steps.count; i++) waits += plan.steps.data[i].wait_count;
  assert_int_equal(waits, 1);
  lw__plan_deinit(&plan);
}

/* Steps that fill the device gain nothing but their launches. */
static void test_full_branches(void **state) {
  (void)state;
  lw_plan plan;
  make_branches(&plan, 2, 20);
  assert_int_equal(run_schedule(&plan, (lw_sched_work){100, 1}, 0), LW_OK);
  assert_int_equal(plan.lane_count, 1);
  assert_non_null(strstr(plan.lane_note, "not worth it"));
  assert_true(plan.predicted_us == plan.one_lane_us);
  lw__plan_deinit(&plan);
  /* Half of it each: together they just fit. */
  make_branches(&plan, 2, 20);
  assert_int_equal(run_schedule(&plan, (lw_sched_work){100, 0.5}, 0), LW_OK);
  assert_int_equal(plan.lane_count, 2);
  lw__plan_deinit(&plan);
  /* Three quarters: two take 1.5 times as long side by side, which saves a quarter. */
  make_branches(&plan, 2, 20);
  assert_int_equal(run_schedule(&plan, (lw_sched_work){100, 0.75}, 0), LW_OK);
  assert_int_equal(plan.lane_count, 2);
  assert_true(fabs(plan.predicted_us / plan.one_lane_us - 0.75) < 0.03);
  lw__plan_deinit(&plan);
}

static void test_chain(void **state) {
  (void)state;
  lw_plan plan;
  make_branches(&plan, 1, 10);
  assert_int_equal(run_schedule(&plan, (lw_sched_work){4, 0.1}, 0), LW_OK);
  assert_int_equal(plan.lane_count, 1);
  assert_string_equal(plan.lane_note, "every step needs the one before it");
  for (uint32_t i = 0; i < plan.steps.count; i++) assert_false(plan.steps.data[i].critical);
  lw__plan_deinit(&plan);
}

static void test_asked_for(void **state) {
  (void)state;
  for (uint32_t streams = 1; streams <= 8; streams++) {
    lw_plan plan;
    make_branches(&plan, 8, 4);
    assert_int_equal(run_schedule(&plan, (lw_sched_work){4, 0.01}, streams), LW_OK);
    assert_int_equal(plan.lane_count, streams);
    assert_non_null(strstr(plan.lane_note, "as asked for"));
    lw__plan_deinit(&plan);
  }
  lw_plan plan;
  make_branches(&plan, 2, 4);
  assert_int_equal(run_schedule(&plan, (lw_sched_work){4, 0.01}, 8), LW_OK);
  assert_int_equal(plan.lane_count, 2);
  assert_non_null(strstr(plan.lane_note, "8 were asked for"));
  lw__plan_deinit(&plan);
  make_branches(&plan, 3, 4);
  assert_int_equal(run_schedule(&plan, (lw_sched_work){4, 0.01}, LW_SCHED_DAG), LW_OK);
  assert_int_equal(plan.lane_count, 0);
  for (uint32_t i = 0; i < plan.steps.count; i++)
    assert_int_equal(plan.steps.data[i].wait_count, 0);
  lw__plan_deinit(&plan);
}

/* A long branch beside short ones: it is critical, they are not. */
static void test_critical(void **state) {
  (void)state;
  lw_plan plan;
  lw_sched_work work[STEPS_MAX];
  for (uint32_t streams = 2; streams <= 3; streams++) {
    lw_sched_options options = {.profile = gpu(), .streams = streams == 3 ? LW_SCHED_DAG : streams};
    make_branches(&plan, 2, 5);
    assert_int_equal(lw__plan_link(&plan), LW_OK);
    for (uint32_t i = 0; i < plan.steps.count; i++)
      work[i] = (lw_sched_work){i < 5 ? 50 : 1, 0.01}; /* the first branch takes long */
    for (uint32_t i = 0; i < 5; i++) plan.steps.data[i].label = "long";
    assert_int_equal(lw__schedule(&plan, work, &options), LW_OK);
    uint32_t critical = 0;
    for (uint32_t i = 0; i < plan.steps.count; i++) {
      const lw_plan_step *step = &plan.steps.data[i];
      if (strcmp(step->label, "long") == 0) assert_true(step->critical);
      if (streams == 2 && step->critical) assert_int_equal(step->lane, 0);
      critical += step->critical;
    }
    assert_int_equal(critical, 7); /* the join and the last step, too */
    lw__plan_deinit(&plan);
  }
}

/* Both large values first and then what shrinks them needs twice the memory. */
static void test_order_for_memory(void **state) {
  (void)state;
  lw_plan plan;
  lw__plan_init(&plan, LW_PLAN_CUDA);
  add_kernel(&plan);
  uint32_t in = add_buffer(&plan, LW_BUFFER_INPUT, 0, 256), large[8], small[8];
  for (uint32_t i = 0; i < 8; i++) large[i] = add_buffer(&plan, LW_BUFFER_ARENA, 0, 1 << 16);
  for (uint32_t i = 0; i < 8; i++) small[i] = add_buffer(&plan, LW_BUFFER_ARENA, 0, 256);
  for (uint32_t i = 0; i < 8; i++) add_launch(&plan, false, large[i], in, LW_NONE);
  for (uint32_t i = 0; i < 8; i++) add_launch(&plan, false, small[i], large[i], LW_NONE);
  uint32_t sum = small[0];
  for (uint32_t i = 1; i < 8; i++) {
    uint32_t next = add_buffer(&plan, LW_BUFFER_ARENA, 0, 256);
    add_launch(&plan, false, next, sum, small[i]);
    sum = next;
  }
  uint32_t out = add_buffer(&plan, LW_BUFFER_OUTPUT, 0, 256);
  add_launch(&plan, false, out, sum, LW_NONE);
  assert_int_equal(run_schedule(&plan, (lw_sched_work){100, 1}, 1), LW_OK);
  assert_true(plan.arena_bytes < (1 << 16) + 8 * 256);
  lw__plan_deinit(&plan);
}

/* Within what no schedule can beat and what one lane takes with a wait at every step; lanes and
 * sequence respect the dependences. */
static void test_random_lists(void **state) {
  (void)state;
  for (uint64_t seed = 1; seed <= 200; seed++) {
    lw_rng rng;
    lw__rng_seed(&rng, seed);
    lw_plan plan;
    lw_arena arena = {0};
    lw_sched_work work[STEPS_MAX];
    lw_sched_dag dag;
    lw_sched_list list;
    random_plan(&plan, &rng, (uint32_t)lw__rng_range(&rng, 1, 60));
    assert_int_equal(lw__plan_link(&plan), LW_OK);
    double serial = 0, area = 0, longest = 0;
    for (uint32_t i = 0; i < plan.steps.count; i++) {
      work[i] = (lw_sched_work){50 * lw__rng_uniform(&rng), 0.05 + 0.95 * lw__rng_uniform(&rng)};
      serial += gpu()->launch_us + work[i].busy_us;
      area += work[i].busy_us * work[i].share;
    }
    assert_int_equal(lw__sched_dag_init(&plan, work, gpu(), &arena, &dag), LW_OK);
    for (uint32_t i = 0; i < dag.count; i++) longest = fmax(longest, dag.rank[i]);
    assert_int_equal(lw__sched_list(&dag, 1, seed % 2, &arena, &list), LW_OK);
    assert_true(fabs(list.us - serial) < 1e-6 * serial);
    for (uint32_t lanes = 2; lanes <= LW_PLAN_MAX_LANES; lanes++) {
      assert_int_equal(lw__sched_list(&dag, lanes, seed % 2, &arena, &list), LW_OK);
      assert_true(list.us > fmax(longest, area) - 1e-6 * serial);
      assert_true(list.us < serial + dag.count * dag.wait_us + 1e-6);
      assert_true(list.lane_count >= 1 && list.lane_count <= lanes);
      bool seen[STEPS_MAX] = {0};
      for (uint32_t at = 0; at < dag.count; at++) {
        uint32_t step = list.sequence[at];
        assert_false(seen[step]);
        seen[step] = true;
        for (uint32_t d = 0; d < plan.steps.data[step].dep_count; d++) {
          uint32_t dep = plan.steps.data[step].deps[d];
          assert_true(seen[dep] && list.end[dep] <= list.begin[step] + 1e-9);
        }
      }
    }
    lw__arena_deinit(&arena);
    lw__plan_deinit(&plan);
  }
}

/* What a launch asks of the device follows from its blocks, whatever the prediction assumed. */
static void test_shares(void **state) {
  (void)state;
  lw_plan_kernel kernel = {.block_threads = 256, .registers = 64};
  lw_work work = {.parallel_threads = 65536};
  lw_sched_work small = lw__sched_launch(gpu(), &kernel, 0, 16, &work, 2.6);
  assert_true(small.share > 0.05 && small.share < 0.07); /* 4096 of 67584 threads */
  assert_true(small.busy_us > 15 && small.busy_us < 17); /* 1 us of the whole device */
  lw_sched_work large = lw__sched_launch(gpu(), &kernel, 0, 100000, &work, 2.6);
  assert_true(large.share == 1 && fabs(large.busy_us - 1) < 0.05);
  /* One block a multiprocessor for its shared memory. */
  lw_sched_work tight = lw__sched_launch(gpu(), &kernel, 200 << 10, 66, &work, 2.6);
  assert_true(fabs(tight.share - 0.5) < 0.01);
  lw_sched_work cpu = lw__sched_launch(lw__device_profile_find("cpu"), &kernel, 0, 1, &work, 2.3);
  assert_true(cpu.share == 1 && fabs(cpu.busy_us - 2) < 0.01);
}

static void test_without_memory(void **state) {
  (void)state;
  lw_sched_work work[STEPS_MAX];
  for (uint32_t i = 0; i < STEPS_MAX; i++) work[i] = (lw_sched_work){4, 0.1};
  static const uint32_t streams[] = {0, 1, 3, LW_SCHED_DAG};
  for (size_t s = 0; s < LW_ARRAY_COUNT(streams); s++) {
    for (uint64_t n = 1;; n++) {
      lw_plan plan;
      make_branches(&plan, 3, 5);
      assert_int_equal(lw__plan_link(&plan), LW_OK);
      lw_sched_options options = {.profile = gpu(), .streams = streams[s]};
      lw__mem_fail_at(n);
      lw_status status = lw__schedule(&plan, work, &options);
      lw__mem_fail_at(0);
      lw__plan_deinit(&plan);
      if (status == LW_OK) break;
      assert_int_equal(status, LW_STATUS_OUT_OF_MEMORY);
    }
  }
}

int main(void) {
  const struct CMUnitTest tests[] = {
      cmocka_unit_test(test_small_branches), cmocka_unit_test(test_full_branches),
      cmocka_unit_test(test_chain),          cmocka_unit_test(test_asked_for),
      cmocka_unit_test(test_critical),       cmocka_unit_test(test_order_for_memory),
      cmocka_unit_test(test_random_lists),   cmocka_unit_test(test_shares),
      cmocka_unit_test(test_without_memory),
  };
  return cmocka_run_group_tests(tests, NULL, NULL);
}

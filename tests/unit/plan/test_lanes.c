/* Lanes: waits that are few, placing by the order that they make, and the checker: random plans
 * over random lanes against brute force, every wait and every dependence taken out. */
#include "plan_kit.h"

/* Two chains of |length| that end in one step. */
static void two_chains(lw_plan *plan, uint32_t length) {
  lw__plan_init(plan, LW_PLAN_CUDA);
  add_kernel(plan);
  uint32_t in = add_buffer(plan, LW_BUFFER_INPUT, 0, 256), end[2] = {in, in};
  for (uint32_t i = 0; i < length; i++) {
    for (uint32_t chain = 0; chain < 2; chain++) {
      uint32_t next = add_buffer(plan, LW_BUFFER_ARENA, 0, 256);
      add_launch(plan, false, next, end[chain], LW_NONE);
      plan->steps.data[plan->steps.count - 1].lane = chain;
      end[chain] = next;
    }
  }
  uint32_t out = add_buffer(plan, LW_BUFFER_OUTPUT, 0, 256);
  add_launch(plan, false, out, end[0], end[1]);
}

static void test_two_chains(void **state) {
  (void)state;
  lw_plan plan;
  two_chains(&plan, 5);
  plan.lane_count = 2;
  finish(&plan);
  assert_valid(&plan);
  for (uint32_t i = 0; i < 10; i++) assert_int_equal(plan.steps.data[i].wait_count, 0);
  assert_int_equal(plan.steps.data[10].wait_count, 1);
  assert_int_equal(plan.steps.data[10].waits[0], 9);
  assert_int_equal(plan.arena_bytes, 4 * 256); /* two for each chain */
  lw__plan_deinit(&plan);
}

/* One lane is the order of the steps: what is dead before may share bytes with what comes later,
 * though nothing depends on it. */
static void test_one_lane(void **state) {
  (void)state;
  lw_plan plan;
  two_chains(&plan, 5);
  for (uint32_t i = 0; i < plan.steps.count; i++) plan.steps.data[i].lane = 0;
  plan.lane_count = 1;
  finish(&plan);
  assert_valid(&plan);
  assert_int_equal(plan.arena_bytes, 3 * 256);
  assert_int_equal(plan.arena_bytes, lw__plan_live_bytes(&plan));
  /* The same bytes on two lanes, or without lanes, are a race. */
  plan.lane_count = 0;
  assert_int_equal(verify(&plan), LW_STATUS_INTERNAL);
  plan.lane_count = 2;
  for (uint32_t i = 0; i < 10; i++) plan.steps.data[i].lane = i % 2;
  assert_int_equal(lw__plan_wait(&plan), LW_OK);
  assert_int_equal(verify(&plan), LW_STATUS_INTERNAL);
  assert_int_equal(lw__plan_place(&plan), LW_OK);
  assert_valid(&plan);
  lw__plan_deinit(&plan);
}

static void test_refuses(void **state) {
  (void)state;
  lw_plan plan;
  two_chains(&plan, 3);
  plan.lane_count = 2;
  finish(&plan);
  assert_valid(&plan);
  lw_plan_step *last = &plan.steps.data[6];
  plan.lane_count = 9;
  assert_int_equal(verify(&plan), LW_STATUS_INTERNAL);
  assert_int_equal(lw__plan_wait(&plan), LW_STATUS_INTERNAL);
  plan.lane_count = 1; /* and a step of lane 1 */
  assert_int_equal(verify(&plan), LW_STATUS_INTERNAL);
  assert_int_equal(lw__plan_wait(&plan), LW_STATUS_INTERNAL);
  plan.lane_count = 2;
  assert_int_equal(lw__plan_wait(&plan), LW_OK);
  assert_valid(&plan);
  last->waits[0] = 6;
  assert_int_equal(verify(&plan), LW_STATUS_INTERNAL);
  last->waits[0] = 4; /* of its own lane */
  assert_int_equal(verify(&plan), LW_STATUS_INTERNAL);
  last->waits[0] = 3; /* too early */
  assert_int_equal(verify(&plan), LW_STATUS_INTERNAL);
  last->waits[0] = 5;
  assert_valid(&plan);
  plan.steps.data[2].lane = 1; /* its lane no longer orders it */
  assert_int_equal(verify(&plan), LW_STATUS_INTERNAL);
  lw__plan_deinit(&plan);
}

static uint32_t drop_waits(lw_plan *plan) {
  uint32_t dropped = 0;
  for (uint32_t i = 0; i < plan->steps.count; i++) {
    lw_plan_step *step = &plan->steps.data[i];
    for (uint32_t w = 0; w < step->wait_count; w++, dropped++) {
      uint32_t wait = step->waits[w];
      step->waits[w] = step->waits[--step->wait_count];
      assert_int_equal(verify(plan), LW_STATUS_INTERNAL);
      step->waits[step->wait_count++] = step->waits[w];
      step->waits[w] = wait;
    }
  }
  return dropped;
}

/* Lanes and waits imply every dependence. */
static void assert_implied(const lw_plan *plan) {
  brute lanes;
  brute_init(&lanes, plan->steps.data, plan->steps.count, true);
  for (uint32_t i = 0; i < plan->steps.count; i++) {
    const lw_plan_step *step = &plan->steps.data[i];
    for (uint32_t d = 0; d < step->dep_count; d++) {
      assert_true(lanes.reach[(size_t)step->deps[d] * plan->steps.count + i]);
    }
  }
  free(lanes.reach);
}

static void test_random_lanes(void **state) {
  (void)state;
  uint32_t dropped = 0, refused = 0;
  for (uint64_t seed = 1; seed <= 150; seed++) {
    lw_rng rng;
    lw__rng_seed(&rng, seed);
    lw_plan plan;
    random_plan(&plan, &rng, (uint32_t)lw__rng_range(&rng, 1, 40));
    plan.lane_count = 1 + (uint32_t)(seed % LW_PLAN_MAX_LANES);
    for (uint32_t i = 0; i < plan.steps.count; i++) {
      plan.steps.data[i].lane = (uint32_t)lw__rng_range(&rng, 0, plan.lane_count);
    }
    finish(&plan);
    assert_valid(&plan);
    assert_implied(&plan);
    assert_false(brute_conflict(&plan, plan.steps.data, plan.steps.count));
    assert_true(lw__plan_live_bytes(&plan) <= plan.arena_bytes);
    drop_edges(&plan);
    dropped += drop_waits(&plan);
    bool used[256] = {0};
    assert_true(plan.buffers.count <= 256);
    for (uint32_t b = 0; b < plan.buffers.count; b++) {
      used[b] = plan.buffers.data[b].kind == LW_BUFFER_ARENA && plan.buffers.data[b].bytes != 0;
    }
    if (seed <= 40) refused += overlap_buffers(&plan, used);
    lw__plan_deinit(&plan);
  }
  print_message("%u waits taken out, %u overlaps\n", dropped, refused);
  assert_true(dropped > 500 && refused > 100);
}

static void test_without_memory(void **state) {
  (void)state;
  lw_rng rng;
  lw__rng_seed(&rng, 7);
  lw_plan plan;
  random_plan(&plan, &rng, 30);
  plan.lane_count = 3;
  for (uint32_t i = 0; i < plan.steps.count; i++) plan.steps.data[i].lane = i % 3;
  assert_int_equal(lw__plan_place_weights(&plan), LW_OK);
  assert_int_equal(lw__plan_link(&plan), LW_OK);
  lw_status (*const parts[])(lw_plan *) = {lw__plan_wait, lw__plan_place};
  for (size_t part = 0; part < LW_ARRAY_COUNT(parts); part++) {
    uint32_t failures = 0;
    for (uint64_t n = 1;; n++) {
      lw__mem_fail_at(n);
      lw_status status = parts[part](&plan);
      lw__mem_fail_at(0);
      if (status == LW_OK) break;
      assert_int_equal(status, LW_STATUS_OUT_OF_MEMORY);
      failures++;
    }
    assert_true(failures > 0);
  }
  assert_valid(&plan);
  lw__plan_deinit(&plan);
}

static void test_print(void **state) {
  (void)state;
  lw_plan plan;
  two_chains(&plan, 1);
  plan.lane_count = 2;
  finish(&plan);
  plan.steps.data[1].critical = true;
  lw_text text = {0};
  lw__plan_print(&plan, &text);
  const char *steps = strstr(lw__text_str(&text), "steps");
  assert_non_null(steps);
  assert_string_equal(
      steps,
      "steps 3, lanes 2\n"
      "  s0    launch lw_map_0<1>(=b1, b0, 7) lane 0  # node\n"
      "  s1    launch lw_map_0<1>(=b2, b0, 7) lane 1 critical  # node\n"
      "  s2    launch lw_map_0<1>(=b3, b1, b2, 7) after s0 s1 lane 0 waits s1  # node\n");
  lw__text_deinit(&text);
  lw__plan_deinit(&plan);
}

int main(void) {
  const struct CMUnitTest tests[] = {
      cmocka_unit_test(test_two_chains),     cmocka_unit_test(test_one_lane),
      cmocka_unit_test(test_refuses),        cmocka_unit_test(test_random_lanes),
      cmocka_unit_test(test_without_memory), cmocka_unit_test(test_print),
  };
  return cmocka_run_group_tests(tests, NULL, NULL);
}

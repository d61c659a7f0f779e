/* Linking, placing and verifying plans: hand-made plans with known answers, random plans against a
 * brute-force check, and mutants of good plans that the verifier must refuse. */
#include "plan_kit.h"

/* ---- hand-made plans ---- */

static void test_chain(void **state) {
  (void)state;
  lw_plan plan;
  lw__plan_init(&plan, LW_PLAN_CPU);
  add_kernel(&plan);
  uint32_t in = add_buffer(&plan, LW_BUFFER_INPUT, 0, 1000);
  uint32_t t[4];
  for (int i = 0; i < 4; i++) t[i] = add_buffer(&plan, LW_BUFFER_ARENA, 0, 1000);
  uint32_t out = add_buffer(&plan, LW_BUFFER_OUTPUT, 0, 1000);
  add_launch(&plan, false, t[0], in, LW_NONE);
  for (int i = 1; i < 4; i++) add_launch(&plan, false, t[i], t[i - 1], LW_NONE);
  add_launch(&plan, false, out, t[3], LW_NONE);
  finish(&plan);
  assert_valid(&plan);
  for (uint32_t i = 1; i < 5; i++) {
    assert_int_equal(plan.steps.data[i].dep_count, 1);
    assert_int_equal(plan.steps.data[i].deps[0], i - 1);
  }
  /* A chain needs two buffers, whatever its length. */
  assert_int_equal(plan.arena_bytes, 2048);
  assert_int_equal(lw__plan_live_bytes(&plan), 2000);
  lw__plan_deinit(&plan);
}

static void test_diamond_shares_nothing(void **state) {
  (void)state;
  lw_plan plan;
  lw__plan_init(&plan, LW_PLAN_CUDA);
  add_kernel(&plan);
  uint32_t in = add_buffer(&plan, LW_BUFFER_INPUT, 0, 256);
  uint32_t a = add_buffer(&plan, LW_BUFFER_ARENA, 0, 256),
           a2 = add_buffer(&plan, LW_BUFFER_ARENA, 0, 256);
  uint32_t b = add_buffer(&plan, LW_BUFFER_ARENA, 0, 256),
           b2 = add_buffer(&plan, LW_BUFFER_ARENA, 0, 256);
  uint32_t out = add_buffer(&plan, LW_BUFFER_OUTPUT, 0, 256);
  add_launch(&plan, false, a, in, LW_NONE);
  add_launch(&plan, false, a2, a, LW_NONE);
  add_launch(&plan, false, b, in, LW_NONE);
  add_launch(&plan, false, b2, b, LW_NONE);
  add_launch(&plan, false, out, a2, b2);
  finish(&plan);
  assert_valid(&plan);
  assert_int_equal(plan.steps.data[2].dep_count, 0);
  assert_int_equal(plan.steps.data[4].dep_count, 2);
  /* In step order b could take a's bytes, but the two branches may run at the same time. */
  assert_int_equal(plan.arena_bytes, 1024);
  assert_int_equal(lw__plan_live_bytes(&plan), 768);
  plan.buffers.data[b].offset = plan.buffers.data[a].offset;
  assert_int_equal(verify(&plan), LW_STATUS_INTERNAL);
  lw__plan_deinit(&plan);
}

static void test_disjoint_pieces_are_independent(void **state) {
  (void)state;
  lw_plan plan;
  lw__plan_init(&plan, LW_PLAN_CPU);
  uint32_t in = add_buffer(&plan, LW_BUFFER_INPUT, 0, 64);
  uint32_t out = add_buffer(&plan, LW_BUFFER_OUTPUT, 0, 128);
  add_copy(&plan, out, 0, in, 64);
  add_copy(&plan, out, 64, in, 64);
  add_copy(&plan, out, 32, in, 64);
  finish(&plan);
  assert_valid(&plan);
  assert_int_equal(plan.steps.data[1].dep_count, 0);
  assert_int_equal(plan.steps.data[2].dep_count, 2);
  lw__plan_deinit(&plan);
}

static void test_empty_buffers(void **state) {
  (void)state;
  lw_plan plan;
  lw__plan_init(&plan, LW_PLAN_CPU);
  add_kernel(&plan);
  uint32_t in = add_buffer(&plan, LW_BUFFER_INPUT, 0, 0);
  uint32_t weight = add_buffer(&plan, LW_BUFFER_WEIGHT, 0, 0);
  uint32_t a = add_buffer(&plan, LW_BUFFER_ARENA, 0, 0);
  uint32_t out = add_buffer(&plan, LW_BUFFER_OUTPUT, 0, 0);
  add_launch(&plan, false, a, in, weight);
  add_copy(&plan, out, 0, a, 0);
  finish(&plan);
  assert_valid(&plan);
  assert_int_equal(plan.arena_bytes, 0);
  assert_int_equal(plan.weight_bytes, 0);
  lw__plan_deinit(&plan);

  lw__plan_init(&plan, LW_PLAN_CPU);
  finish(&plan);
  assert_valid(&plan);
  assert_int_equal(lw__plan_live_bytes(&plan), 0);
  lw__plan_deinit(&plan);
}

static void test_init_program(void **state) {
  (void)state;
  lw_plan plan;
  lw__plan_init(&plan, LW_PLAN_CPU);
  add_kernel(&plan);
  uint32_t weight = add_buffer(&plan, LW_BUFFER_WEIGHT, 0, 300);
  uint32_t scratch = add_buffer(&plan, LW_BUFFER_ARENA, 0, 512);
  uint32_t derived = add_buffer(&plan, LW_BUFFER_DERIVED, 0, 300);
  uint32_t temp = add_buffer(&plan, LW_BUFFER_ARENA, 0, 512);
  uint32_t out = add_buffer(&plan, LW_BUFFER_OUTPUT, 0, 300);
  add_launch(&plan, true, scratch, weight, LW_NONE);
  add_launch(&plan, true, derived, scratch, LW_NONE);
  add_launch(&plan, false, temp, derived, LW_NONE);
  add_launch(&plan, false, out, temp, LW_NONE);
  finish(&plan);
  assert_valid(&plan);
  assert_int_equal(plan.arena_bytes, 512); /* scratch and temp share */
  assert_int_equal(plan.weight_bytes, 1024);
  assert_int_equal(plan.buffers.data[derived].offset, 512);
  /* Without the init step nobody makes the derived weight. */
  plan.init.count = 1;
  assert_int_equal(verify(&plan), LW_STATUS_INTERNAL);
  plan.init.count = 2;
  plan.buffers.data[derived].offset = 256; /* on the weight's tail */
  assert_int_equal(verify(&plan), LW_STATUS_INTERNAL);
  lw__plan_deinit(&plan);
}

static lw_plan single_copy(void) {
  lw_plan plan;
  lw__plan_init(&plan, LW_PLAN_CPU);
  add_kernel(&plan);
  uint32_t in = add_buffer(&plan, LW_BUFFER_INPUT, 0, 64);
  uint32_t temp = add_buffer(&plan, LW_BUFFER_ARENA, 0, 64);
  uint32_t out = add_buffer(&plan, LW_BUFFER_OUTPUT, 0, 64);
  add_launch(&plan, false, temp, in, LW_NONE);
  add_copy(&plan, out, 0, temp, 64);
  finish(&plan);
  assert_valid(&plan);
  return plan;
}

#define BROKEN(change)                                   \
  do {                                                   \
    lw_plan plan = single_copy();                        \
    lw_plan_step *step = plan.steps.data;                \
    lw_plan_buffer *buffer = plan.buffers.data;          \
    (void)step, (void)buffer;                            \
    change;                                              \
    assert_int_equal(verify(&plan), LW_STATUS_INTERNAL); \
    lw__plan_deinit(&plan);                              \
  } while (0)

static void test_verify_refuses(void **state) {
  (void)state;
  BROKEN(step[0].kernel = 1);
  BROKEN(step[0].grid = 0);
  BROKEN(step[0].args[0].buffer = 3);
  BROKEN(step[0].args[0].buffer = LW_NONE);
  BROKEN(step[0].args[0].buffer = 0); /* writes the input */
  BROKEN(step[0].args[1].offset_bytes = 65);
  BROKEN(step[0].args[0].kind = LW_ARG_SCALAR); /* a buffer after a scalar */
  BROKEN(step[0].args[0].written = false);      /* then the copy reads what nobody wrote */
  BROKEN(step[1].bytes = 65);
  BROKEN(step[1].bytes = 63); /* the output's last byte */
  BROKEN(step[1].arg_count = 1);
  BROKEN(step[1].args[0].written = false);
  BROKEN(step[1].dep_count = 0);
  BROKEN(step[1].deps[0] = 1);
  BROKEN(step[1].kind = (lw_step_kind)9);
  BROKEN(buffer[0].index = 1);
  BROKEN(buffer[2].index = 1);
  BROKEN(buffer[1].offset = 1);
  BROKEN(buffer[1].offset = 256);
  BROKEN(plan.arena_bytes = 0);
  BROKEN(plan.inputs.data[0].dims[0] = 63);
  BROKEN(plan.inputs.data[0].dims[0] = -1);
  BROKEN(plan.outputs.data[0].buffer = 0);
  BROKEN(plan.outputs.data[0].dtype = (lw_dtype)77);
  BROKEN(plan.steps.count = 1); /* the output is never written */
}

/* ---- random plans ---- */

/* No edge may be implied by the others. */
static bool brute_reduced(const lw_plan_step *steps, uint32_t count) {
  brute b;
  brute_init(&b, steps, count, false);
  bool reduced = true;
  for (uint32_t i = 0; i < count; i++) {
    for (uint32_t x = 0; x < steps[i].dep_count; x++) {
      for (uint32_t y = 0; y < steps[i].dep_count; y++) {
        uint32_t p = steps[i].deps[x], q = steps[i].deps[y];
        if (x != y && (p == q || b.reach[(size_t)p * count + q])) reduced = false;
      }
    }
  }
  free(b.reach);
  return reduced;
}

static void test_random_plans(void **state) {
  (void)state;
  uint32_t refused = 0;
  for (uint64_t seed = 1; seed <= 150; seed++) {
    lw_rng rng;
    lw__rng_seed(&rng, seed);
    lw_plan plan;
    random_plan(&plan, &rng, (uint32_t)lw__rng_range(&rng, 1, 40));
    finish(&plan);
    assert_valid(&plan);
    assert_false(brute_conflict(&plan, plan.steps.data, plan.steps.count));
    assert_true(brute_reduced(plan.steps.data, plan.steps.count));
    assert_true(lw__plan_live_bytes(&plan) <= plan.arena_bytes);
    drop_edges(&plan);
    bool used[256] = {0};
    assert_true(plan.buffers.count <= 256);
    for (uint32_t b = 0; b < plan.buffers.count; b++) {
      used[b] = plan.buffers.data[b].kind == LW_BUFFER_ARENA && plan.buffers.data[b].bytes != 0;
    }
    if (seed <= 40) refused += overlap_buffers(&plan, used);
    lw__plan_deinit(&plan);
  }
  assert_true(refused > 100);
}

/* Every allocation fails once; nothing leaks and the failure is reported. */
static void test_without_memory(void **state) {
  (void)state;
  lw_rng rng;
  lw__rng_seed(&rng, 7);
  lw_plan plan;
  random_plan(&plan, &rng, 30);
  assert_int_equal(lw__plan_place_weights(&plan), LW_OK);
  lw_status (*const parts[])(lw_plan *) = {lw__plan_link, lw__plan_place};
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
  for (uint64_t n = 1;; n++) {
    lw__mem_fail_at(n);
    lw_status status = verify(&plan);
    lw__mem_fail_at(0);
    if (status == LW_OK) break;
    assert_int_equal(status, LW_STATUS_OUT_OF_MEMORY);
  }
  lw__plan_deinit(&plan);
}

/* Tens of thousands of steps, in a chain and side by side, take moments and not minutes. */
static void test_large(void **state) {
  (void)state;
  for (int wide = 0; wide < 2; wide++) {
    lw_plan plan;
    lw__plan_init(&plan, LW_PLAN_CPU);
    add_kernel(&plan);
    uint32_t last = add_buffer(&plan, LW_BUFFER_INPUT, 0, 256);
    for (uint32_t i = 0; i < 20000; i++) {
      uint32_t next = add_buffer(&plan, LW_BUFFER_ARENA, 0, 256);
      add_launch(&plan, false, next, wide ? 0 : last, LW_NONE);
      last = next;
    }
    uint32_t out = add_buffer(&plan, LW_BUFFER_OUTPUT, 0, 256);
    add_launch(&plan, false, out, last, LW_NONE);
    int64_t start = lw__now_ns();
    finish(&plan);
    assert_valid(&plan);
    print_message("20001 steps %s: %.2f s\n", wide ? "side by side" : "in a chain",
                  (double)(lw__now_ns() - start) * 1e-9);
    if (!wide) assert_int_equal(plan.arena_bytes, 512);
    lw__plan_deinit(&plan);
  }
}

static void test_print(void **state) {
  (void)state;
  lw_plan plan = single_copy();
  lw_text text = {0};
  lw__plan_print(&plan, &text);
  assert_string_equal(lw__text_str(&text),
                      "plan for cpu\n"
                      "input 0: t u8[64] b0\n"
                      "output 0: t u8[64] b2\n"
                      "arena 256 bytes, weights 0 bytes\n"
                      "kernels 1\n"
                      "  k0    lw_map_0: 1 threads\n"
                      "buffers 3\n"
                      "  b0    input   #0                 64 bytes\n"
                      "  b1    arena   @0                 64 bytes\n"
                      "  b2    output  #0                 64 bytes\n"
                      "steps 2\n"
                      "  s0    launch lw_map_0<1>(=b1, b0, 7)  # node\n"
                      "  s1    copy 64 bytes (=b2, b1) after s0\n");
  lw__text_deinit(&text);
  lw__plan_deinit(&plan);
}

int main(void) {
  const struct CMUnitTest tests[] = {
      cmocka_unit_test(test_chain),
      cmocka_unit_test(test_diamond_shares_nothing),
      cmocka_unit_test(test_disjoint_pieces_are_independent),
      cmocka_unit_test(test_empty_buffers),
      cmocka_unit_test(test_init_program),
      cmocka_unit_test(test_verify_refuses),
      cmocka_unit_test(test_random_plans),
      cmocka_unit_test(test_without_memory),
      cmocka_unit_test(test_large),
      cmocka_unit_test(test_print),
  };
  return cmocka_run_group_tests(tests, NULL, NULL);
}

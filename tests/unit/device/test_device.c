/* Profiles, occupancy against values of NVIDIA's occupancy calculator, and what the cost model must
 * never get wrong. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>

#include <cmocka.h>

#include "device/device.h"

static const char *const names[] = {"cpu", "sm_80", "sm_86", "sm_89", "sm_90a", "sm_100"};

static void test_profiles(void **state) {
  (void)state;
  for (size_t i = 0; i < LW_ARRAY_COUNT(names); i++) {
    const lw_device_profile *p = lw__device_profile_find(names[i]);
    assert_non_null(p);
    assert_ptr_equal(lw__device_profile_find(p->name), p);
    assert_true(p->sm_count > 0 && p->launch_us > 0 && p->dram_gbps > 0 &&
                p->l2_gbps > p->dram_gbps);
    assert_true(p->f32_gflops > 0 && p->issue_gslots > 0 && p->special_gslots > 0);
    assert_true(p->shared_bytes_per_block_optin <= p->shared_bytes_per_sm);
    assert_int_equal(p->kind, i == 0 ? LW_DEVICE_CPU : LW_DEVICE_CUDA);
  }
  const char *const unknown[] = {"",         "sm_9", "sm_90", "sm_8", "sm_80 ",
                                 "sm_80 (A", "H200", "gpu",   NULL};
  for (size_t i = 0; i < LW_ARRAY_COUNT(unknown); i++)
    assert_null(lw__device_profile_find(unknown[i]));
  const lw_device_profile *h200 = lw__device_profile_find("sm_90a (H200)");
  assert_non_null(h200);
  assert_true(h200->arch_specific && h200->sm_arch == 90 && h200->sm_count == 132);
}

static void test_policies(void **state) {
  (void)state;
  assert_int_equal(lw__resource_policy_find("conservative")->max_registers, 64);
  assert_int_equal(lw__resource_policy_find("conservative")->max_shared_bytes, 32768);
  assert_int_equal(lw__resource_policy_find("classic")->max_registers, 128);
  assert_int_equal(lw__resource_policy_find("classic")->max_shared_bytes, 49152);
  assert_true(lw__resource_policy_find("opt-in")->max_registers >= 255);
  assert_null(lw__resource_policy_find("none"));
  assert_null(lw__resource_policy_find(NULL));
}

static void test_occupancy(void **state) {
  (void)state;
  static const struct {
    const char *device;
    uint32_t threads, registers, shared, blocks;
  } cases[] = {
      /* threads alone */
      {"sm_80", 256, 32, 0, 8},
      {"sm_80", 1024, 32, 0, 2},
      {"sm_80", 32, 16, 0, 32},
      {"sm_80", 96, 20, 0, 21},
      {"sm_86", 1024, 32, 0, 1},
      {"sm_86", 256, 32, 0, 6},
      {"sm_86", 32, 32, 0, 16},
      {"sm_89", 32, 32, 0, 24},
      {"sm_90a", 1, 16, 0, 32},
      /* registers */
      {"sm_80", 256, 40, 0, 6},
      {"sm_80", 256, 64, 0, 4},
      {"sm_80", 256, 65, 0, 3},
      {"sm_80", 1024, 64, 0, 1},
      {"sm_80", 1024, 65, 0, 0},
      {"sm_80", 128, 255, 0, 2},
      {"sm_80", 256, 255, 0, 1},
      {"sm_80", 288, 255, 0, 0},
      {"sm_80", 128, 256, 0, 0},
      {"sm_90a", 384, 168, 0, 1},
      {"sm_90a", 128, 168, 0, 3},
      /* shared memory */
      {"sm_80", 256, 32, 49152, 3},
      {"sm_80", 128, 32, 1, 16},
      {"sm_80", 32, 32, 4096, 32},
      {"sm_80", 32, 32, 4300, 31},
      {"sm_80", 128, 32, 166912, 1},
      {"sm_80", 128, 32, 166913, 0},
      {"sm_86", 128, 32, 49152, 2},
      {"sm_86", 128, 32, 101376, 1},
      {"sm_86", 128, 32, 101377, 0},
      {"sm_90a", 128, 32, 232448, 1},
      {"sm_90a", 128, 32, 115712, 2},
      {"sm_90a", 128, 32, 115713, 1},
      /* nonsense */
      {"sm_90a", 0, 32, 0, 0},
      {"sm_90a", 1025, 32, 0, 0},
      {"sm_90a", 128, 32, UINT32_MAX, 0},
      {"sm_90a", 128, UINT32_MAX, 0, 0},
      {"cpu", 1, 0, 0, 1},
      {"cpu", 2, 0, 0, 0},
  };
  for (size_t i = 0; i < LW_ARRAY_COUNT(cases); i++) {
    uint32_t blocks = lw__occupancy_blocks(lw__device_profile_find(cases[i].device),
                                           cases[i].threads, cases[i].registers, cases[i].shared);
    if (blocks != cases[i].blocks) {
      fail_msg("%s, %u threads, %u registers, %u bytes: %u blocks, not %u", cases[i].device,
               cases[i].threads, cases[i].registers, cases[i].shared, blocks, cases[i].blocks);
    }
  }
}

static double cost(const char *device, lw_work work) {
  return lw__cost_launch(lw__device_profile_find(device), &work).us;
}

static bool near(double a, double b) { return a > b * 0.999 && a < b * 1.001; }

static void test_cost(void **state) {
  (void)state;
  assert_true(near(cost("sm_90a", (lw_work){0}), 1.6));
  /* 8192 x 8192 f16, read and written: the copy floor of the design's table is 63 us; here plus the
   * launch. */
  assert_true(
      near(cost("sm_90a", (lw_work){.dram_bytes = 4.0 * 8192 * 8192, .parallel_threads = 1e7}),
           1.6 + 4.0 * 8192 * 8192 / 4256e3));
  assert_true(near(cost("sm_90a", (lw_work){.matrix_flops = 790e9, .dram_bytes = 1}), 1.6 + 1000));
  /* One thread is not the whole device, and a device full of threads is not faster than full. */
  lw_work work = {.dram_bytes = 1e6, .f32_flops = 1e6, .issue_slots = 1e6, .special_slots = 1e5};
  double last = 1e300;
  for (double threads = 1; threads < 1e9; threads *= 10) {
    work.parallel_threads = threads;
    double us = cost("sm_80", work);
    assert_true(us <= last && us >= 1.9);
    last = us;
  }
  work.parallel_threads = 0; /* unknown: full */
  assert_true(cost("sm_80", work) == last);
  /* More of anything never costs less. */
  lw_work more = work;
  more.special_slots *= 1e4;
  assert_true(cost("sm_80", more) > cost("sm_80", work));
  /* No matrix units: never chosen. */
  assert_true(cost("cpu", (lw_work){.matrix_flops = 1}) > 1e9);
}

int main(void) {
  const struct CMUnitTest tests[] = {
      cmocka_unit_test(test_profiles),
      cmocka_unit_test(test_policies),
      cmocka_unit_test(test_occupancy),
      cmocka_unit_test(test_cost),
  };
  return cmocka_run_group_tests(tests, NULL, NULL);
}

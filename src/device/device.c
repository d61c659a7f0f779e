/* device.c: profiles, resource limits, occupancy and the cost of a launch. */
#include "device/device.h"

#include <string.h>

static const lw_device_profile device_profiles[] = {
#define LW_PROFILE(...) {__VA_ARGS__},
#include "device/profiles.def"
#undef LW_PROFILE
};

static const lw_resource_policy device_policies[] = {
    {.name = "conservative", .max_registers = 64, .max_shared_bytes = 32 << 10},
    {.name = "classic", .max_registers = 128, .max_shared_bytes = 48 << 10},
    {.name = "opt-in", .max_registers = UINT32_MAX, .max_shared_bytes = UINT32_MAX},
};

/* |name| is the whole of |full| or all of it before the model in parentheses. */
static bool device_is_named(const char *full, const char *name) {
  size_t length = strlen(name);
  return strncmp(full, name, length) == 0 &&
         (full[length] == '\0' || strncmp(full + length, " (", 2) == 0);
}

const lw_device_profile *lw__device_profile_find(const char *name) {
  if (name == NULL || name[0] == '\0') return NULL;
  for (size_t i = 0; i < LW_ARRAY_COUNT(device_profiles); i++) {
    if (device_is_named(device_profiles[i].name, name)) return &device_profiles[i];
  }
  return NULL;
}

void lw__device_profile_adapt(lw_device_profile *profile) {
  if (profile->kind != LW_DEVICE_CPU) return;
#if defined(__x86_64__)
  __builtin_cpu_init();
  bool wide = __builtin_cpu_supports("avx512f") && __builtin_cpu_supports("avx512vl");
  profile->vector_bytes = wide ? 64 : __builtin_cpu_supports("avx") ? 32 : 16;
  profile->vector_registers = wide ? 32 : 16;
#elif defined(__aarch64__)
  profile->vector_bytes = 16;
  profile->vector_registers = 32;
#endif
}

const lw_resource_policy *lw__resource_policy_find(const char *name) {
  for (size_t i = 0; name != NULL && i < LW_ARRAY_COUNT(device_policies); i++) {
    if (strcmp(device_policies[i].name, name) == 0) return &device_policies[i];
  }
  return NULL;
}

/* ---- occupancy ---- */

#define REGISTER_UNIT 256u /* registers are given out per warp in this many */
#define PARTITIONS                                                                          \
  4u /* a multiprocessor's warps are split over four schedulers, each with a quarter of the \
        registers */
#define SHARED_UNIT 128u
#define SHARED_RESERVED 1024u /* per block, kept by the system from sm_80 on */

static uint32_t round_up_u32(uint32_t value, uint32_t unit) {
  return (value + unit - 1) / unit * unit;
}

static uint32_t min_u32(uint32_t a, uint32_t b) { return a < b ? a : b; }

uint32_t lw__occupancy_blocks(const lw_device_profile *profile, uint32_t block_threads,
                              uint32_t registers, uint32_t shared_bytes) {
  if (block_threads == 0 || block_threads > profile->max_threads_per_block) return 0;
  if (profile->kind == LW_DEVICE_CPU) return 1;
  if (registers > profile->max_registers_per_thread) return 0;
  if (shared_bytes > profile->shared_bytes_per_block_optin) return 0;
  uint32_t warps = (block_threads + profile->warp_size - 1) / profile->warp_size;
  uint32_t blocks = profile->max_blocks_per_sm;
  blocks = min_u32(blocks, profile->max_threads_per_sm / profile->warp_size / warps);
  if (registers != 0) {
    uint32_t per_warp = round_up_u32(registers * profile->warp_size, REGISTER_UNIT);
    uint32_t resident = profile->registers_per_sm / PARTITIONS / per_warp * PARTITIONS;
    /* A block's warps go round over the partitions, and the fullest partition decides whether one
     * block fits at all. */
    if (round_up_u32(warps, PARTITIONS) > resident) return 0;
    blocks = min_u32(blocks, resident / warps);
  }
  uint32_t shared = round_up_u32(shared_bytes, SHARED_UNIT) + SHARED_RESERVED;
  return min_u32(blocks, profile->shared_bytes_per_sm / shared);
}

/* ---- cost ---- */

/* The share of the threads that a device can hold at which its units are busy: with enough
 * independent work in each thread (vector loads, several elements) a quarter is enough. */
#define FULL_SHARE 0.25

/* Microseconds for |amount| at |rate| per nanosecond. */
static double cost_term(double amount, double rate, double fill) {
  if (amount <= 0) return 0;
  /* A device without such units does it as if it took forever: such a plan is never chosen. */
  if (rate <= 0) return 1e12;
  return amount / (rate * fill) * 1e-3;
}

static double max_f64(double a, double b) { return a > b ? a : b; }

lw_cost lw__cost_launch(const lw_device_profile *profile, const lw_work *work) {
  double full = FULL_SHARE * (double)profile->sm_count * (double)profile->max_threads_per_sm;
  if (full < (double)profile->sm_count) full = (double)profile->sm_count;
  double fill = 1;
  if (work->parallel_threads > 0 && work->parallel_threads < full)
    fill = work->parallel_threads / full;
  double us = cost_term(work->dram_bytes, profile->dram_gbps, fill);
  us = max_f64(us, cost_term(work->l2_bytes, profile->l2_gbps, fill));
  us = max_f64(us, cost_term(work->f32_flops, profile->f32_gflops, fill));
  us = max_f64(us, cost_term(work->matrix_flops, profile->f16_gflops, fill));
  us = max_f64(us, cost_term(work->issue_slots, profile->issue_gslots, fill));
  us = max_f64(us, cost_term(work->special_slots, profile->special_gslots, fill));
  return (lw_cost){.us = profile->launch_us + us};
}

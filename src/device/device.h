/* device.h: what a device can do: hardware limits, occupancy, and a measured profile of its
 * ceilings. Profiles are data (src/device/profiles.def and JSON files that `lawson device
 * --measure` may write later); nothing here touches a device. */
#ifndef LW_DEVICE_DEVICE_H
#define LW_DEVICE_DEVICE_H

#include "base/base.h"

typedef enum lw_device_kind { LW_DEVICE_CPU, LW_DEVICE_CUDA } lw_device_kind;

/* Hardware facts and measured ceilings. Estimates made from them are lw_cost, never called times.
 */
typedef struct lw_device_profile {
  const char *name; /* "cpu", "sm_80 (A100)", "sm_90a (H200)" */
  lw_device_kind kind;
  uint32_t sm_arch;   /* 80, 90 ...; 0 for a CPU */
  bool arch_specific; /* the 'a' in sm_90a */
  uint32_t sm_count;  /* streaming multiprocessors; CPU: hardware threads */
  uint32_t max_threads_per_sm, max_blocks_per_sm, max_threads_per_block, warp_size;
  uint32_t registers_per_sm, max_registers_per_thread;
  uint32_t shared_bytes_per_sm, shared_bytes_per_block_optin;
  uint64_t l2_bytes;
  uint32_t vector_bytes, vector_registers; /* CPU: of a vector register, and how many there are */
  /* measured */
  double launch_us;      /* fixed cost of one more kernel in a stream or graph */
  double dram_gbps;      /* copy bandwidth, bytes read + written, large arrays */
  double l2_gbps;        /* the same for data that stays in L2 */
  double f32_gflops;     /* FMA units */
  double f16_gflops;     /* matrix units (0: none) */
  double issue_gslots;   /* instruction slots per ns over the device (lanes * clock) */
  double special_gslots; /* special function unit results per ns */
} lw_device_profile;

/* Built-in profiles: "cpu", "sm_80", "sm_86", "sm_89", "sm_90a", "sm_100". NULL when unknown. */
const lw_device_profile *lw__device_profile_find(const char *name);

/* What a CPU's profile says of vectors, from the machine this runs on. */
void lw__device_profile_adapt(lw_device_profile *profile);

/* Limits a kernel must keep, chosen by policy. */
typedef struct lw_resource_policy {
  const char *name;
  uint32_t max_registers;    /* per thread */
  uint32_t max_shared_bytes; /* per block */
} lw_resource_policy;
/* "conservative" (64 registers, 32 KiB), "classic" (128, 48 KiB), "opt-in" (the device's own
 * limits; the default). */
const lw_resource_policy *lw__resource_policy_find(const char *name);

/* Blocks of a kernel that fit on one multiprocessor at once (CUDA occupancy rules: register
 * allocation granularity 256 per warp, shared memory granularity 128 bytes + 1 KiB reserved per
 * block on sm_80+). 0: does not fit at all. */
uint32_t lw__occupancy_blocks(const lw_device_profile *profile, uint32_t block_threads,
                              uint32_t registers, uint32_t shared_bytes);

/* Predicted cost in microseconds: a distinct type, so that an estimate never passes for a
 * measurement. */
typedef struct lw_cost {
  double us;
} lw_cost;
typedef struct lw_work { /* what one launch does */
  double dram_bytes;     /* read + written, each distinct byte once */
  double l2_bytes;       /* further traffic that L2 serves */
  double f32_flops, matrix_flops;
  double issue_slots, special_slots;
  double parallel_threads; /* independent threads of work: fewer than the device holds lowers every
                              rate */
} lw_work;
/* launch_us + the largest of the roofline terms, each rate scaled by how much of the device the
 * launch can fill. */
lw_cost lw__cost_launch(const lw_device_profile *profile, const lw_work *work);

#endif

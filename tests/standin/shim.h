/* shim.h: what CUDA C finds in its compiler, for generated kernels that are compiled as host C
 * (translate.c rewrites the few things that are no C). One thread at a time runs; where threads
 * meet, |standin| is asked. */
#ifndef LW_TESTS_STANDIN_SHIM_H
#define LW_TESTS_STANDIN_SHIM_H

#include <math.h>
#include <stdbool.h>
#include <string.h>

#include "standin/host.h"

static const struct standin_host *standin;
__attribute__((visibility("default"))) void standin_bind(const struct standin_host *host);
__attribute__((no_sanitize("thread"))) void standin_bind(const struct standin_host *host) {
  standin = host;
}

/* What the thread sanitizer's half in the compiler calls at every access to memory that others may
 * see: here it goes into the log of the kernel's accesses. Unused without it. */
#define SHIM_QUIET __attribute__((no_sanitize("thread"), visibility("hidden"), used))
#define SHIM_ACCESS(bytes)                                                                   \
  SHIM_QUIET void __tsan_read##bytes(void *at) { standin->touch(at, bytes, 0); }             \
  SHIM_QUIET void __tsan_write##bytes(void *at) { standin->touch(at, bytes, 1); }            \
  SHIM_QUIET void __tsan_unaligned_read##bytes(void *at) { standin->touch(at, bytes, 0); }   \
  SHIM_QUIET void __tsan_unaligned_write##bytes(void *at) { standin->touch(at, bytes, 1); }  \
  SHIM_QUIET void __tsan_read##bytes##_pc(void *at, void *pc) { standin->touch(at, bytes, 0); } \
  SHIM_QUIET void __tsan_write##bytes##_pc(void *at, void *pc) { standin->touch(at, bytes, 1); }
SHIM_ACCESS(1)
SHIM_ACCESS(2)
SHIM_ACCESS(4)
SHIM_ACCESS(8)
SHIM_ACCESS(16)
SHIM_QUIET void __tsan_read_range(void *at, unsigned long bytes) { standin->touch(at, bytes, 0); }
SHIM_QUIET void __tsan_write_range(void *at, unsigned long bytes) { standin->touch(at, bytes, 1); }
SHIM_QUIET void __tsan_init(void) {}
SHIM_QUIET void __tsan_func_entry(void *pc) {}
SHIM_QUIET void __tsan_func_exit(void) {}

#define __global__
#define __device__
#define __forceinline__ inline
#define __launch_bounds__(...)
#define __grid_constant__
#define __cluster_dims__(...)
#define __align__(n) __attribute__((aligned(n)))
#define __shared__ static /* blocks run one after the other */
#define threadIdx (standin->thread)
#define blockIdx (standin->block)
#define blockDim (standin->block_dim)
#define gridDim (standin->grid_dim)

#define __syncthreads() standin->barrier()
#define __syncwarp() standin->warp_barrier()
#define __shfl_xor_sync(mask, value, apart)                          \
  ({                                                                 \
    __typeof__(value) standin_v = (value);                           \
    standin->shuffle_xor(mask, &standin_v, sizeof standin_v, apart); \
    standin_v;                                                       \
  })

typedef struct __attribute__((aligned(8))) {
  unsigned x, y;
} uint2;
typedef struct __attribute__((aligned(16))) {
  unsigned x, y, z, w;
} uint4;
static inline uint2 make_uint2(unsigned x, unsigned y) { return (uint2){x, y}; }
static inline uint4 make_uint4(unsigned x, unsigned y, unsigned z, unsigned w) {
  return (uint4){x, y, z, w};
}
#define __ldg(p) (*(p))
#define __nanosleep(ns) ((void)(ns))

#define SHIM_BITS(name, to, from) \
  static inline to name(from x) { \
    to r;                         \
    memcpy(&r, &x, sizeof r);     \
    return r;                     \
  }
SHIM_BITS(__float_as_uint, unsigned, float)
SHIM_BITS(__float_as_int, int, float)
SHIM_BITS(__uint_as_float, float, unsigned)
SHIM_BITS(__int_as_float, float, int)
SHIM_BITS(__double_as_longlong, long long, double)
SHIM_BITS(__longlong_as_double, double, long long)
static inline double __hiloint2double(int hi, int lo) {
  return __longlong_as_double((long long)((unsigned long long)(unsigned)hi << 32 | (unsigned)lo));
}
static inline int __double2hiint(double x) {
  return (int)((unsigned long long)__double_as_longlong(x) >> 32);
}
static inline int __double2loint(double x) { return (int)(unsigned)__double_as_longlong(x); }

static inline float __fadd_rn(float a, float b) { return a + b; }
static inline float __fsub_rn(float a, float b) { return a - b; }
static inline float __fmul_rn(float a, float b) { return a * b; }
static inline float __fmaf_rn(float a, float b, float c) { return fmaf(a, b, c); }
static inline double __dadd_rn(double a, double b) { return a + b; }
static inline double __dsub_rn(double a, double b) { return a - b; }
static inline double __dmul_rn(double a, double b) { return a * b; }
static inline double __fma_rn(double a, double b, double c) { return fma(a, b, c); }
static inline float __fdiv_rn(float a, float b) { return a / b; }
static inline double __ddiv_rn(double a, double b) { return a / b; }
static inline float __fsqrt_rn(float x) { return sqrtf(x); }
static inline double __dsqrt_rn(double x) { return sqrt(x); }
static inline float rsqrtf(float x) { return (float)(1 / sqrt((double)x)); }
static inline double rsqrt(double x) { return 1 / sqrt(x); }

/* PTX instructions, named like them with _ for '.'. */
static inline float ptx_cvt_f32_f16(unsigned short x) { return standin->f16_to_f32(x); }
static inline unsigned short ptx_cvt_rn_f16_f32(float x) { return standin->f32_to_f16(x); }
static inline unsigned short ptx_cvt_rn_bf16_f32(float x) { return standin->f32_to_bf16(x); }
static inline float ptx_min_NaN_f32(float a, float b) {
  return a != a || b != b ? __int_as_float(0x7fffffff) : a < b || (a == b && signbit(a)) ? a : b;
}
static inline float ptx_max_NaN_f32(float a, float b) {
  return a != a || b != b ? __int_as_float(0x7fffffff) : a > b || (a == b && signbit(b)) ? a : b;
}
static inline float ptx_ex2_approx_ftz_f32(float x) {
  float r = exp2f(x);
  return r < 0x1p-126f ? 0 : r;
}
static inline float ptx_rcp_approx_ftz_f32(float x) {
  float r = 1 / x;
  return fabsf(r) < 0x1p-126f ? copysignf(0, r) : r;
}

/* ---- products on tensor cores: the skeleton is not run, what it means is ---- */

typedef struct standin_map lw_tensor_map;
enum { SHIM_MAP_F16 = 6, SHIM_MAP_F32 = 7 };

static inline float shim_half(int type, unsigned short x) {
  return type == SHIM_MAP_F16 ? standin->f16_to_f32(x) : __uint_as_float((unsigned)x << 16);
}

/* What a copy brings of element (x, y): 0 outside. */
static inline float shim_map_get(const lw_tensor_map *map, unsigned long long x,
                                 unsigned long long y) {
  if (x >= map->dims[0] || y >= map->dims[1]) return 0;
  const unsigned short *at = (const unsigned short *)(map->address + x * map->strides[0] +
                                                      y * map->strides[1]);
  return shim_half(map->type, *at);
}

static inline void shim_map_put(const lw_tensor_map *map, unsigned long long x,
                                unsigned long long y, float value) {
  if (x >= map->dims[0] || y >= map->dims[1]) return;
  unsigned short *at =
      (unsigned short *)(map->address + x * map->strides[0] + y * map->strides[1]);
  *at = map->type == SHIM_MAP_F16 ? standin->f32_to_f16(value) : standin->f32_to_bf16(value);
}

static inline float shim_product(const lw_tensor_map *a, const lw_tensor_map *b, int kn, int row,
                                 int column, int depth) {
  float sum = 0;
  for (int k = 0; k < depth; k++)
    sum += shim_map_get(a, (unsigned)k, (unsigned)row) *
           (kn ? shim_map_get(b, (unsigned)column, (unsigned)k)
               : shim_map_get(b, (unsigned)k, (unsigned)column));
  return sum;
}
/* Asynchronous copies and tensor cores (kernel IR: COPY, FRAG, MMA). */
static inline void standin_copy(void *to, const void *from, bool there, unsigned long bytes) {
  if (there)
    memcpy(to, from, bytes);
  else
    memset(to, 0, bytes);
}
#define lw_tc_copy_4(to, from, there) standin_copy(to, from, there, 4)
#define lw_tc_copy_8(to, from, there) standin_copy(to, from, there, 8)
#define lw_tc_copy_16(to, from, there) standin_copy(to, from, there, 16)
#define lw_tc_copy_end() ((void)0)
#define lw_tc_copy_wait_0() ((void)0)
#define lw_tc_copy_wait_1() ((void)0)
#define lw_tc_copy_wait_2() ((void)0)
#define lw_tc_copy_wait_3() ((void)0)
#define lw_tc_copy_wait_4() ((void)0)
#define lw_tc_copy_wait_5() ((void)0)
#define lw_tc_copy_wait_6() ((void)0)

static inline void standin_frag(unsigned *r, const void *own, int matrices, bool turned) {
  const unsigned short *rows[32];
  standin->gather(&own, sizeof own, rows);
  int lane = (int)(threadIdx.x % 32);
  for (int i = 0; i < matrices; i++) {
    unsigned half[2];
    for (int h = 0; h < 2; h++) {
      int row = lane / 4, column = 2 * (lane % 4) + h;
      half[h] = turned ? rows[8 * i + column][row] : rows[8 * i + row][column];
    }
    r[i] = half[0] | half[1] << 16;
  }
}
#define lw_tc_frag_1(r, row) standin_frag(r, row, 1, false)
#define lw_tc_frag_2(r, row) standin_frag(r, row, 2, false)
#define lw_tc_frag_4(r, row) standin_frag(r, row, 4, false)
#define lw_tc_frag_1t(r, row) standin_frag(r, row, 1, true)
#define lw_tc_frag_2t(r, row) standin_frag(r, row, 2, true)
#define lw_tc_frag_4t(r, row) standin_frag(r, row, 4, true)

static inline float standin_half(unsigned word, int high, bool bf16) {
  unsigned bits = high ? word >> 16 : word & 0xffffu;
  return bf16 ? __uint_as_float(bits << 16) : standin->f16_to_f32((unsigned short)bits);
}
static inline void standin_mma(float *d, const unsigned *a, const unsigned *b, bool bf16) {
  unsigned all_a[32][4], all_b[32][2];
  standin->gather(a, 16, all_a);
  standin->gather(b, 8, all_b);
  int lane = (int)(threadIdx.x % 32);
  for (int e = 0; e < 4; e++) {
    int row = lane / 4 + e / 2 * 8, column = 2 * (lane % 4) + e % 2;
    for (int k = 0; k < 16; k++) {
      const unsigned *from_a = all_a[row % 8 * 4 + k % 8 / 2],
                     *from_b = all_b[column * 4 + k % 8 / 2];
      d[e] += standin_half(from_a[row / 8 + k / 8 * 2], k % 2, bf16) *
              standin_half(from_b[k / 8], k % 2, bf16);
    }
  }
}
#define lw_tc_mma_f16(d, a, b) standin_mma(d, a, b, false)
#define lw_tc_mma_bf16(d, a, b) standin_mma(d, a, b, true)

#endif

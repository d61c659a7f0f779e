#include <stdbool.h>
#include <stdint.h>
#define LW_PRAGMA(x) _Pragma(#x)
#if defined(__clang__)
#pragma clang diagnostic ignored "-Wpass-failed"
#define LW_UNROLL(n) LW_PRAGMA(clang loop unroll(full))
#define LW_VECTOR LW_PRAGMA(clang loop vectorize(assume_safety))
#else
#pragma GCC optimize("no-math-errno", "no-trapping-math", "no-tree-loop-distribute-patterns")
#pragma GCC diagnostic ignored "-Wmaybe-uninitialized"
#pragma GCC diagnostic ignored "-Wbool-compare"
#define LW_UNROLL(n) LW_PRAGMA(GCC unroll n)
#define LW_VECTOR LW_PRAGMA(GCC ivdep)
#endif
#define LW_UNUSED __attribute__((unused))
#define LW_HELPER static inline __attribute__((always_inline))
#define LW_INF __builtin_inff()
#define LW_NAN __builtin_nanf("")
LW_HELPER float lw_f32_of_bits(unsigned u) { float x; __builtin_memcpy(&x, &u, 4); return x; }
LW_HELPER float lw_bf16_to_f32(unsigned short x) { return lw_f32_of_bits((unsigned)x << 16); }
LW_HELPER unsigned lw_bits_of_f32(float x) { unsigned u; __builtin_memcpy(&u, &x, 4); return u; }
LW_HELPER float lw_copysign_f32(float x, float s) {
  return lw_f32_of_bits((lw_bits_of_f32(x) & 0x7fffffffu) | (lw_bits_of_f32(s) & 0x80000000u));
}
LW_HELPER float lw_scale_f32(float x, int n) {
  unsigned half = (unsigned)(n >> 1), rest = (unsigned)n - half;
  return x * lw_f32_of_bits((half + 127u) << 23) * lw_f32_of_bits((rest + 127u) << 23);
}
LW_HELPER float lw_exp_f32(float x) {
  float c = x < -104.0f ? -104.0f : x;
  c = c > 89.0f ? 89.0f : c;
  float shifted = c * 0x1.715476p+0f + 0x1.8p+23f, n = shifted - 0x1.8p+23f;
  float r = c - n * 0x1.62e4p-1f - n * 0x1.7f7d1cp-20f;
  float p = 0x1.6a540ep-10f;
  p = p * r + 0x1.123b0cp-7f;
  p = p * r + 0x1.5558acp-5f;
  p = p * r + 0x1.55549p-3f;
  p = p * r + 0x1.fffffcp-2f;
  p = p * (r * r) + r + 1.0f;
  return lw_scale_f32(p, (int)(lw_bits_of_f32(shifted) - 0x4b400000u));
}
LW_HELPER float lw_erf_f32(float x) {
  float a = __builtin_fabsf(x), z = x * x, p = 0x1.4771fcp-14f;
  p = p * z - 0x1.a3515ep-11f;
  p = p * z + 0x1.53f224p-8f;
  p = p * z - 0x1.b7f71ap-6f;
  p = p * z + 0x1.ce2ce6p-4f;
  p = p * z - 0x1.81273ep-2f;
  p = p * z + 0x1.06eba8p-3f;
  float small = x + x * p, t = a > 4.0f ? 4.0f : a, q = 0x1.67b1eep-16f;
  q = q * t - 0x1.cbc67ep-12f;
  q = q * t + 0x1.12a3acp-8f;
  q = q * t - 0x1.9c68cp-6f;
  q = q * t + 0x1.bbd8f6p-4f;
  q = q * t + 0x1.443c4ep-1f;
  q = q * t + 0x1.212a52p+0f;
  q = q * t - 0x1.7ea5bcp-13f;
  float large = lw_copysign_f32(1.0f - lw_exp_f32(-q), x);
  return a < 1.0f ? small : large;
}
LW_HELPER unsigned short lw_f32_to_bf16(float x) {
  unsigned u = lw_bits_of_f32(x);
  unsigned rounded = (u + 0x7fffu + (u >> 16 & 1u)) >> 16, nan = u >> 16 | 0x7fc0u;
  return (unsigned short)(x != x ? nan : rounded);
}

void gelu_cpu(void *const *buffers, const int64_t *scalars, int64_t begin, int64_t end);
void gelu_cpu(void *const *buffers LW_UNUSED, const int64_t *scalars LW_UNUSED, int64_t begin, int64_t end) {
  const unsigned short *const restrict b0 = (const unsigned short *)buffers[0];
  unsigned short *const b1 = (unsigned short *)buffers[1];
  const long long s0 LW_UNUSED = scalars[0];
  for (long long block = begin; block < end; block++) {
    const int thread LW_UNUSED = 0;
    unsigned short l0[16] LW_UNUSED __attribute__((aligned(64)));
    const long long v0 = block * 16ll;
    const long long v1 = v0 + 16ll;
    const bool v2 = v1 <= s0;
    if (v2) {
      LW_VECTOR for (int i = 0; i < 16; i++) l0[0 + i] = b0[v0 + i];
      LW_VECTOR
      for (long long v3 = 0; v3 < 16; v3 += 1) {
        const float v4 = lw_bf16_to_f32(l0[v3]);
        const float v5 = v4 * 0x1.6a09e6p-1f;
        const float v6 = lw_erf_f32(v5);
        const float v7 = v6 + 0x1p+0f;
        const float v8 = v4 * 0x1p-1f;
        const float v9 = v8 * v7;
        l0[v3] = lw_f32_to_bf16(v9);
      }
      LW_VECTOR for (int i = 0; i < 16; i++) b1[v0 + i] = l0[0 + i];
    }
    const bool v10 = !v2;
    if (v10) {
      for (long long v11 = v0; v11 < s0; v11 += 1ll) {
        const float v12 = lw_bf16_to_f32(b0[v11]);
        const float v13 = v12 * 0x1.6a09e6p-1f;
        const float v14 = lw_erf_f32(v13);
        const float v15 = v14 + 0x1p+0f;
        const float v16 = v12 * 0x1p-1f;
        const float v17 = v16 * v15;
        b1[v11] = lw_f32_to_bf16(v17);
      }
    }
  }
}

#define LW_HELPER static __device__ __forceinline__
#define LW_UNUSED
#ifndef LW_MIN_BLOCKS
#define LW_MIN_BLOCKS
#endif
#define LW_INF __int_as_float(0x7f800000)
#define LW_NAN __int_as_float(0x7fffffff)
LW_HELPER uint4 lw_get_x4_ro(const void *p, bool there) {
  return there ? __ldg((const uint4 *)p) : make_uint4(0, 0, 0, 0);
}
LW_HELPER float lw_of_word_f32(unsigned w) { return __uint_as_float(w); }
LW_HELPER float lw_max_f32(float a, float b) { float r; asm("max.NaN.f32 %0, %1, %2;" : "=f"(r) : "f"(a), "f"(b)); return r; }
LW_HELPER float lw_combine_max_f32(float a, float b) { return lw_max_f32(a, b); }
LW_HELPER float lw_shuffle_xor_f32(unsigned mask, float v, int apart) { return __shfl_xor_sync(mask, v, apart); }
LW_HELPER float lw_warp_max_f32(float v, int width, unsigned mask) {
#pragma unroll
  for (int apart = width / 2; apart > 0; apart /= 2)
    v = lw_combine_max_f32(v, lw_shuffle_xor_f32(mask, v, apart));
  return v;
}
LW_HELPER float lw_block_max_f32(float v, int warps, float *scratch, bool leads) {
  v = lw_warp_max_f32(v, 32, 0xffffffffu);
  int warp = (int)threadIdx.x >> 5;
  if (leads) __syncthreads();
  if ((threadIdx.x & 31) == 0) scratch[warp] = v;
  __syncthreads();
  const float *group = scratch + warp / warps * warps;
  v = group[0];
#pragma unroll
  for (int i = 1; i < warps; i++) v = lw_combine_max_f32(v, group[i]);
  return v;
}
LW_HELPER float lw_exp_f32(float x) { return expf(x); }
LW_HELPER float lw_combine_sum_f32(float a, float b) { return a + b; }
LW_HELPER float lw_warp_sum_f32(float v, int width, unsigned mask) {
#pragma unroll
  for (int apart = width / 2; apart > 0; apart /= 2)
    v = lw_combine_sum_f32(v, lw_shuffle_xor_f32(mask, v, apart));
  return v;
}
LW_HELPER float lw_block_sum_f32(float v, int warps, float *scratch, bool leads) {
  v = lw_warp_sum_f32(v, 32, 0xffffffffu);
  int warp = (int)threadIdx.x >> 5;
  if (leads) __syncthreads();
  if ((threadIdx.x & 31) == 0) scratch[warp] = v;
  __syncthreads();
  const float *group = scratch + warp / warps * warps;
  v = group[0];
#pragma unroll
  for (int i = 1; i < warps; i++) v = lw_combine_sum_f32(v, group[i]);
  return v;
}
LW_HELPER float lw_div_f32(float a, float b) { return __fdiv_rn(a, b); }
LW_HELPER void lw_put_x4(void *p, unsigned a, unsigned b, unsigned c, unsigned d) {
  *(uint4 *)p = make_uint4(a, b, c, d);
}
LW_HELPER unsigned lw_word_f32(float x) { return __float_as_uint(x); }

extern "C" __global__ void __launch_bounds__(256 LW_MIN_BLOCKS) softmax_gpu(const float *__restrict__ b0, float *b1) {
  const long long block = (long long)blockIdx.x;
  const int thread = (int)threadIdx.x;
  __shared__ __align__(16) float h0[8];
  float l0[4];
  float l1[1];
  const long long v0 = block * 1024ll;
  const int v1 = thread * 4;
  { const uint4 t = lw_get_x4_ro(b0 + (v0 + v1), true); l0[0] = lw_of_word_f32(t.x); l0[1] = lw_of_word_f32(t.y); l0[2] = lw_of_word_f32(t.z); l0[3] = lw_of_word_f32(t.w); }
  l1[0] = (-LW_INF);
#pragma unroll
  for (int v2 = 0; v2 < 4; v2 += 1) {
    const float v3 = l0[v2];
    const float v4 = l1[0];
    const float v5 = lw_max_f32(v4, v3);
    l1[0] = v5;
  }
  const float v6 = l1[0];
  const float v7 LW_UNUSED = lw_block_max_f32(v6, 8, h0, false);
  l1[0] = 0x0p+0f;
#pragma unroll
  for (int v8 = 0; v8 < 4; v8 += 1) {
    const float v9 = l0[v8];
    const float v10 = v9 - v7;
    const float v11 = lw_exp_f32(v10);
    l0[v8] = v11;
    const float v12 = l1[0];
    const float v13 = v12 + v11;
    l1[0] = v13;
  }
  const float v14 = l1[0];
  const float v15 LW_UNUSED = lw_block_sum_f32(v14, 8, h0, true);
#pragma unroll
  for (int v16 = 0; v16 < 4; v16 += 1) {
    const float v17 = l0[v16];
    const float v18 = lw_div_f32(v17, v15);
    l0[v16] = v18;
  }
  lw_put_x4(b1 + (v0 + v1), lw_word_f32(l0[0]), lw_word_f32(l0[1]), lw_word_f32(l0[2]), lw_word_f32(l0[3]));
}

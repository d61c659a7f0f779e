/* map.c: what a tensor map may be. The rules are the hardware's: cuTensorMapEncodeTiled refuses
 * everything else. */
#include "plan/plan.h"

enum { MAP_UNIT_BYTES = 16, MAP_SWIZZLE_BYTES = 128, MAP_BOX_MAX = 256 };
#define MAP_DIM_MAX (UINT64_C(1) << 32)
#define MAP_STRIDE_MAX (UINT64_C(1) << 40)

static bool map_dim_fits(const lw_plan_map *map, uint32_t d) {
  return map->dims[d] >= 1 && map->dims[d] <= MAP_DIM_MAX && map->box[d] >= 1 &&
         map->box[d] <= MAP_BOX_MAX;
}

const char *lw__plan_map_refusal(const lw_plan_map *map, uint64_t bytes) {
  if (map->dtype != LW_DTYPE_F16 && map->dtype != LW_DTYPE_BF16 && map->dtype != LW_DTYPE_F32)
    return "a tensor map is of f16, bf16 or f32";
  uint64_t size = lw_dtype_size_bytes(map->dtype), end = map->offset_bytes;
  if (map->rank < 1 || map->rank > LW_PLAN_MAP_RANK) return "a tensor map has 1 to 5 dims";
  if (map->offset_bytes % MAP_UNIT_BYTES != 0)
    return "a tensor map starts at a multiple of 16 bytes";
  if (map->box[0] * size != MAP_SWIZZLE_BYTES)
    return "the boxes of a tensor map are 128 bytes wide";
  for (uint32_t d = 0; d < map->rank; d++) {
    uint64_t stride = map->strides_bytes[d];
    if (!map_dim_fits(map, d)) return "a tensor map has extents that no hardware takes";
    if (d == 0 ? stride != size : stride % MAP_UNIT_BYTES != 0 || stride >= MAP_STRIDE_MAX)
      return "the strides of a tensor map are multiples of 16 bytes";
    uint64_t last;
    if (__builtin_mul_overflow(map->dims[d] - 1, stride, &last) ||
        __builtin_add_overflow(end, last, &end))
      return "a tensor map reaches beyond its buffer";
  }
  return end <= bytes && size <= bytes - end ? NULL : "a tensor map reaches beyond its buffer";
}

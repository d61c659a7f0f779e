/* maps.c: tensor maps: the hardware's description of a matrix, which kernels take by value. One is
 * made when it is first needed and again whenever the address it is of has changed. */
#include <string.h>

#include "runtime/cuda/cuda.h"

lw_status lw__cu_maps_init(const lw_rt_segment *segment, lw_arena *memory, lw_cu_maps *out) {
  enum { ALIGN_BYTES = _Alignof(struct lw_cu_tensor_map) };
  char *bytes;
  *out = (lw_cu_maps){0};
  if (segment->map_count == 0) return LW_OK;
  size_t count = segment->map_count;
  LW_TRY(lw__arena_alloc(memory, count * sizeof *out->maps + ALIGN_BYTES, 1, &bytes));
  LW_TRY(lw__arena_alloc(memory, count, sizeof *out->addresses, &out->addresses));
  size_t skip = (ALIGN_BYTES - (uintptr_t)bytes % ALIGN_BYTES) % ALIGN_BYTES;
  out->maps = (lw_cu_map *)(void *)(bytes + skip);
  return LW_OK;
}

static lw_cu_map_type map_type(lw_dtype dtype) {
  return dtype == LW_DTYPE_F16    ? LW_CU_MAP_F16
         : dtype == LW_DTYPE_BF16 ? LW_CU_MAP_BF16
                                  : LW_CU_MAP_F32;
}

static int map_encode(const lw_cu_driver *driver, const lw_plan_map *form, void *address,
                      lw_cu_map *out) {
  static const unsigned int ones[LW_PLAN_MAP_RANK] = {1, 1, 1, 1, 1};
  void *start = (void *)((uintptr_t)address + (uintptr_t)form->offset_bytes);
  return driver->map_encode(out, map_type(form->dtype), form->rank, start, form->dims,
                            &form->strides_bytes[1], form->box, ones, LW_CU_MAP_INTERLEAVE_NONE,
                            LW_CU_MAP_SWIZZLE_128B, LW_CU_MAP_PROMOTION_256B, LW_CU_MAP_FILL_ZEROS);
}

static lw_status map_fail(lw_rt_program *program, const lw_rt_segment *segment, uint32_t map,
                          int result, lw_diag *diag) {
  uint32_t step = 0;
  while (step + 1 < segment->step_count && segment->steps[step + 1].first_map <= map) step++;
  lw_text where = {0};
  lw__rt_describe_step(program, segment, step, &where);
  lw_status status = lw__cu_check(program->device->state, result, "cuTensorMapEncodeTiled",
                                  lw__text_str(&where), diag);
  lw__text_deinit(&where);
  return status;
}

lw_status lw__cu_maps_update(lw_rt_program *program, const lw_rt_segment *segment, void **slots,
                             lw_cu_maps *maps, lw_diag *diag) {
  const lw_cu_gpu *gpu = program->device->state;
  for (uint32_t i = 0; i < segment->map_count; i++) {
    const lw_rt_map *map = &segment->maps[i];
    void *address = slots[map->slot];
    if (maps->addresses[i] == address) continue;
    maps->addresses[i] = NULL;
    int result = map_encode(&gpu->driver, &map->form, address, &maps->maps[i]);
    if (result != LW_CU_SUCCESS) return map_fail(program, segment, i, result, diag);
    maps->addresses[i] = address;
  }
  return LW_OK;
}

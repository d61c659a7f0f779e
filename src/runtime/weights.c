/* weights.c: weights on the device: their upload, and programs that use another's.
 *
 * Two weights are the same when their bytes are the same object in memory; two derived buffers are
 * when equal kernels made them from equal buffers. An identity is a hash of that. What the base
 * program has is used in place, and the steps of the init program that only make such buffers are
 * left out. */
#include <string.h>

#include "runtime/internal.h"

typedef struct weights_maker { /* of a derived buffer */
  uint32_t step, writes;
} weights_maker;

static bool is_weight(const lw_rt_buffer *buffer) {
  return buffer->kind == LW_BUFFER_WEIGHT || buffer->kind == LW_BUFFER_DERIVED;
}

/* ---- identities ---- */

static lw_hash hash_u64(uint64_t value, lw_hash seed) {
  return lw__hash_bytes(&value, sizeof value, seed);
}

static lw_hash weight_identity(const lw_plan_buffer *buffer) {
  lw_hash hash = hash_u64((uint64_t)(uintptr_t)buffer->data, (lw_hash){1, 0});
  return hash_u64(buffer->bytes, hash);
}

/* Of the step with everything that it reads. */
static lw_hash step_identity(const lw_rt_program *program, const lw_plan *plan,
                             const lw_rt_step *step) {
  lw_hash hash = hash_u64((uint64_t)step->kind, (lw_hash){2, 0});
  if (step->kind == LW_STEP_LAUNCH) {
    const char *name = program->kernels[step->kernel].name;
    lw_hash key = plan->kernels.data[step->kernel].key;
    hash = lw__hash_bytes(name, strlen(name), hash);
    hash = hash_u64(key.hi, hash_u64(key.lo, hash));
  }
  hash = hash_u64(step->bytes, hash_u64(step->fill, hash_u64((uint64_t)step->grid, hash)));
  for (uint32_t i = 0; i < step->scalar_count; i++) {
    hash = hash_u64((uint64_t)program->init.scalars[step->first_scalar + i], hash);
  }
  for (uint32_t i = 0; i < step->slot_count; i++) {
    const lw_rt_slot *slot = &program->init.slots[step->first_slot + i];
    const lw_rt_buffer *buffer = &program->buffers[slot->buffer];
    hash = hash_u64(buffer->bytes, hash_u64(slot->offset_bytes, hash));
    hash = hash_u64(buffer->identity.hi, hash_u64(buffer->identity.lo, hash));
  }
  return hash;
}

/* Derived buffers that several steps write are nobody else's. */
static void name_buffers(lw_rt_program *program, const lw_plan *plan, weights_maker *makers) {
  for (uint32_t b = 0; b < program->buffer_count; b++) {
    makers[b] = (weights_maker){LW_NONE, 0};
    if (program->buffers[b].kind == LW_BUFFER_WEIGHT) {
      program->buffers[b].identity = weight_identity(&plan->buffers.data[b]);
    }
  }
  for (uint32_t s = 0; s < program->init.step_count; s++) {
    const lw_rt_step *step = &program->init.steps[s];
    lw_hash hash = step_identity(program, plan, step);
    for (uint32_t i = 0; i < step->slot_count; i++) {
      uint32_t b = program->init.slots[step->first_slot + i].buffer;
      if (!plan->init.data[s].args[i].written) continue;
      program->buffers[b].identity = hash_u64(i, hash);
      makers[b] = (weights_maker){s, makers[b].writes + 1};
    }
  }
  for (uint32_t b = 0; b < program->buffer_count; b++) {
    if (makers[b].writes > 1) program->buffers[b].identity = (lw_hash){0};
  }
}

/* ---- sharing ---- */

static const lw_rt_buffer *find_in_base(const lw_rt_program *base, const lw_map *names,
                                        const lw_rt_buffer *buffer) {
  static const lw_hash none;
  if (base == NULL || buffer->bytes == 0 || lw__hash_eq(buffer->identity, none)) return NULL;
  uint32_t b = lw__map_get(names, lw__str((const char *)&buffer->identity, sizeof(lw_hash)));
  if (b == LW_NONE || base->buffers[b].bytes != buffer->bytes) return NULL;
  return &base->buffers[b];
}

static lw_status name_base(const lw_rt_program *base, lw_map *names) {
  for (uint32_t b = 0; base != NULL && b < base->buffer_count; b++) {
    const lw_rt_buffer *buffer = &base->buffers[b];
    if (!is_weight(buffer) || buffer->bytes == 0) continue;
    lw_str key = lw__str((const char *)&buffer->identity, sizeof(lw_hash));
    LW_TRY(lw__map_put(names, key, b, NULL, NULL));
  }
  return LW_OK;
}

/* A step whose results are all there need not run. */
static bool step_is_done(const lw_rt_program *program, const lw_plan *plan, const lw_map *names,
                         uint32_t s) {
  const lw_rt_step *step = &program->init.steps[s];
  bool writes = false;
  for (uint32_t i = 0; i < step->slot_count; i++) {
    if (!plan->init.data[s].args[i].written) continue;
    const lw_rt_buffer *buffer =
        &program->buffers[program->init.slots[step->first_slot + i].buffer];
    if (buffer->bytes == 0) continue;
    writes = true;
    if (find_in_base(program->base, names, buffer) == NULL) return false;
  }
  return writes;
}

/* Gives every weight of the base that is wanted here its place, and drops init steps. */
static void take_from_base(lw_rt_program *program, const lw_plan *plan, const lw_map *names,
                           const weights_maker *makers) {
  lw_rt_segment *init = &program->init;
  for (uint32_t b = 0; b < program->buffer_count; b++) {
    lw_rt_buffer *buffer = &program->buffers[b];
    const lw_rt_buffer *other =
        is_weight(buffer) ? find_in_base(program->base, names, buffer) : NULL;
    if (other == NULL) continue;
    if (makers[b].step != LW_NONE && !step_is_done(program, plan, names, makers[b].step)) continue;
    buffer->home = other->home;
  }
  uint32_t kept = 0;
  for (uint32_t s = 0; s < init->step_count; s++) {
    if (step_is_done(program, plan, names, s)) continue;
    init->steps[kept] = init->steps[s];
    init->steps[kept++].dep_count = 0; /* they run in order */
  }
  init->step_count = kept;
}

/* ---- upload ---- */

static uint64_t align_up(uint64_t bytes) {
  return (bytes + LW_RT_ALIGN_BYTES - 1) / LW_RT_ALIGN_BYTES * LW_RT_ALIGN_BYTES;
}

/* Where the program has no base the plan's own offsets hold. */
static uint64_t place_own(const lw_rt_program *program, uint64_t *offsets) {
  uint64_t end = 0;
  for (uint32_t b = 0; b < program->buffer_count; b++) {
    const lw_rt_buffer *buffer = &program->buffers[b];
    if (!is_weight(buffer) || buffer->home != NULL) continue;
    offsets[b] = program->base == NULL ? buffer->offset : end;
    end = program->base == NULL ? program->weight_bytes : end + align_up(buffer->bytes);
  }
  return end;
}

static lw_status upload_own(lw_rt_program *program, const lw_plan *plan, const uint64_t *offsets,
                            lw_diag *diag) {
  lw_rt_device *device = program->device;
  for (uint32_t b = 0; b < program->buffer_count; b++) {
    lw_rt_buffer *buffer = &program->buffers[b];
    if (!is_weight(buffer) || buffer->home != NULL) continue;
    buffer->home = (void *)((uintptr_t)program->weights + (uintptr_t)offsets[b]);
    if (buffer->kind != LW_BUFFER_WEIGHT || buffer->bytes == 0) continue;
    LW_TRY(device->backend->upload(device, buffer->home, plan->buffers.data[b].data,
                                   (size_t)buffer->bytes, diag));
  }
  return LW_OK;
}

static lw_status weights_load(lw_rt_program *program, const lw_plan *plan, lw_arena *scratch,
                              lw_map *names, lw_diag *diag) {
  lw_rt_device *device = program->device;
  weights_maker *makers;
  uint64_t *offsets;
  LW_TRY(lw__arena_alloc(scratch, program->buffer_count, sizeof *makers, &makers));
  LW_TRY(lw__arena_alloc(scratch, program->buffer_count, sizeof *offsets, &offsets));
  name_buffers(program, plan, makers);
  LW_TRY(name_base(program->base, names));
  take_from_base(program, plan, names, makers);
  program->own_weight_bytes = place_own(program, offsets);
  if (program->own_weight_bytes > 0) {
    LW_TRY(device->backend->alloc(device, (size_t)program->own_weight_bytes, "weights", diag,
                                  &program->weights));
  }
  return upload_own(program, plan, offsets, diag);
}

lw_status lw__rt_weights_load(lw_rt_program *program, const lw_plan *plan, lw_diag *diag) {
  lw_arena scratch = {0};
  lw_map names = {0};
  lw_status status = weights_load(program, plan, &scratch, &names, diag);
  lw__map_deinit(&names);
  lw__arena_deinit(&scratch);
  return status;
}

/* interp_memory.c: memory of the kernel interpreter: buffers, shared and local arrays, and who may
 * touch what when. */
#include <stdio.h>
#include <string.h>

#include "compiler/kernel/interp_state.h"

lw_status ki_fail(const ki *k, uint32_t thread, const char *fmt, ...) {
  char text[256];
  va_list args;
  va_start(args, fmt);
  vsnprintf(text, sizeof text, fmt, args);
  va_end(args);
  uint8_t op = k->kernel->instrs.data[k->instr].op;
  return lw__fail(k->diag, LW_STATUS_INTERNAL, "kernel interpreter",
                  "instruction %u (%s), block %lld, thread %u: %s", k->instr, lw__kop_name[op],
                  (long long)k->block, thread, text);
}

/* ---- set-up -----------------------------------------------------------------------------------*/

/* Memory that one argument writes may not be another argument's. */
static lw_status ki_check_overlap(const ki *k) {
  uint32_t count = k->kernel->buffers.count;
  for (uint32_t i = 0; i < count; i++) {
    for (uint32_t j = 0; j < count; j++) {
      if (i == j || !k->kernel->buffers.data[i].written) continue;
      uintptr_t a = (uintptr_t)k->buffers[i].data, b = (uintptr_t)k->buffers[j].data;
      if (a < b + k->buffers[j].bytes && b < a + k->buffers[i].bytes)
        return lw__fail(k->diag, LW_STATUS_INTERNAL, "kernel interpreter",
                        "buffers %u and %u overlap", i, j);
    }
  }
  return LW_OK;
}

static lw_status ki_buffers_init(ki *k) {
  uint32_t count = k->kernel->buffers.count;
  LW_TRY(lw__arena_alloc(&k->arena, count + 1, sizeof *k->cells, &k->cells));
  LW_TRY(lw__arena_alloc(&k->arena, count + 1, sizeof *k->lengths, &k->lengths));
  for (uint32_t i = 0; i < count; i++) {
    const lw_kbuffer *buffer = &k->kernel->buffers.data[i];
    size_t length = k->buffers[i].bytes / lw_dtype_size_bytes(buffer->dtype);
    k->lengths[i] = (int64_t)length;
    if (buffer->written)
      LW_TRY(lw__arena_alloc(&k->arena, length + 1, sizeof(ki_cell), &k->cells[i]));
  }
  return ki_check_overlap(k);
}

lw_status ki_memory_init(ki *k) {
  const lw_kernel *kernel = k->kernel;
  LW_TRY(ki_buffers_init(k));
  LW_TRY(lw__arena_alloc(&k->arena, kernel->shared.count + 1, sizeof *k->shared, &k->shared));
  LW_TRY(lw__arena_alloc(&k->arena, kernel->shared.count + 1, sizeof *k->shared_cells,
                         &k->shared_cells));
  LW_TRY(lw__arena_alloc(&k->arena, kernel->locals.count + 1, sizeof *k->locals, &k->locals));
  LW_TRY(lw__arena_alloc(&k->arena, k->threads, sizeof *k->groups, &k->groups));
  for (uint32_t i = 0; i < kernel->shared.count; i++) {
    uint32_t count = kernel->shared.data[i].count;
    LW_TRY(lw__arena_alloc(&k->arena, count, sizeof(lw_scalar), &k->shared[i]));
    LW_TRY(lw__arena_alloc(&k->arena, count, sizeof(ki_cell), &k->shared_cells[i]));
  }
  for (uint32_t i = 0; i < kernel->locals.count; i++) {
    size_t count = (size_t)kernel->locals.data[i].count * k->threads;
    LW_TRY(lw__arena_alloc(&k->arena, count, sizeof(ki_slot), &k->locals[i]));
  }
  return LW_OK;
}

/* ---- who touches what -------------------------------------------------------------------------*/

static lw_status ki_mark_read(ki *k, ki_cell *cell, uint32_t thread, const char *what,
                              uint32_t object, int64_t index) {
  if (cell->write_epoch == k->epoch && cell->writer != thread)
    return ki_fail(k, thread, "race: %s %u[%lld] is written by thread %u without a barrier between",
                   what, object, (long long)index, cell->writer);
  bool again = cell->read_epoch == k->epoch && cell->reader != thread;
  cell->reader = again ? KI_MANY_THREADS : (uint16_t)thread;
  cell->read_epoch = k->epoch;
  return LW_OK;
}

static lw_status ki_mark_write(ki *k, ki_cell *cell, uint32_t thread, const char *what,
                               uint32_t object, int64_t index) {
  bool written = cell->write_epoch == k->epoch && cell->writer != thread;
  bool read = cell->read_epoch == k->epoch && cell->reader != thread;
  if (written || read)
    return ki_fail(k, thread, "race: %s %u[%lld] is %s by another thread without a barrier between",
                   what, object, (long long)index, written ? "written" : "read");
  cell->writer = (uint16_t)thread;
  cell->write_epoch = k->epoch;
  return LW_OK;
}

static lw_status ki_mark_block(ki *k, ki_cell *cell, bool write, uint32_t thread, uint32_t buffer,
                               int64_t index) {
  uint32_t self = (uint32_t)k->block + 1;
  bool others_wrote = cell->write_block != 0 && cell->write_block != self;
  bool others_read = cell->read_block != 0 && cell->read_block != self;
  if (others_wrote || (write && others_read))
    return ki_fail(k, thread, "race: buffer %u[%lld] is %s by another block", buffer,
                   (long long)index, others_wrote ? "written" : "read");
  if (write)
    cell->write_block = self;
  else
    cell->read_block = others_read ? KI_MANY : self;
  return LW_OK;
}

/* ---- accesses ---------------------------------------------------------------------------------*/

lw_status ki_place(const ki *k, const lw_kinstr *in, uint32_t thread, uint32_t width,
                   int64_t *out) {
  int64_t base = in->a == LW_NONE ? 0 : k->values[in->a][thread].i;
  int64_t index = k->values[in->b][thread].i, length = k->lengths[in->object];
  if (!lw__add_i64(base, index, &index) || index < 0 || index > length - (int64_t)width)
    return ki_fail(k, thread, "element %lld + %lld (x%u) is outside buffer %u of %lld elements",
                   (long long)base, (long long)k->values[in->b][thread].i, width, in->object,
                   (long long)length);
  *out = index;
  return LW_OK;
}

lw_status ki_buffer_get(ki *k, uint32_t buffer, int64_t index, uint32_t thread, lw_scalar *out) {
  lw_dtype dtype = k->kernel->buffers.data[buffer].dtype;
  ki_cell *cells = k->cells[buffer];
  if (cells != NULL) {
    LW_TRY(ki_mark_read(k, &cells[index], thread, "buffer", buffer, index));
    LW_TRY(ki_mark_block(k, &cells[index], false, thread, buffer, index));
  }
  if (lw__dtype_is_float(dtype))
    out->f = lw__elem_get_f64(dtype, k->buffers[buffer].data, index);
  else
    out->i = lw__elem_get_i64(dtype, k->buffers[buffer].data, index);
  k->counts.loads++;
  k->counts.load_bytes += lw_dtype_size_bytes(dtype);
  return LW_OK;
}

lw_status ki_buffer_set(ki *k, uint32_t buffer, int64_t index, uint32_t thread, lw_scalar x) {
  lw_dtype dtype = k->kernel->buffers.data[buffer].dtype;
  ki_cell *cell = &k->cells[buffer][index];
  LW_TRY(ki_mark_write(k, cell, thread, "buffer", buffer, index));
  LW_TRY(ki_mark_block(k, cell, true, thread, buffer, index));
  if (lw__dtype_is_float(dtype))
    lw__elem_set_f64(dtype, k->buffers[buffer].data, index, x.f);
  else
    lw__elem_set_i64(dtype, k->buffers[buffer].data, index, x.i);
  k->counts.stores++;
  k->counts.store_bytes += lw_dtype_size_bytes(dtype);
  return LW_OK;
}

/* What memory of |dtype| makes of a value. */
static lw_scalar ki_to_memory(lw_dtype dtype, lw_scalar x) {
  if (lw__kdtype_is_narrow(dtype)) x.f = lw__round_to(dtype, x.f);
  return x;
}

static lw_status ki_check_index(const ki *k, int64_t index, uint32_t count, uint32_t thread,
                                const char *what, uint32_t array) {
  if (index >= 0 && index < count) return LW_OK;
  return ki_fail(k, thread, "element %lld is outside %s array %u of %u elements", (long long)index,
                 what, array, count);
}

lw_status ki_shared_get(ki *k, uint32_t array, int64_t index, uint32_t thread, lw_scalar *out) {
  LW_TRY(ki_check_index(k, index, k->kernel->shared.data[array].count, thread, "shared", array));
  ki_cell *cell = &k->shared_cells[array][index];
  if (cell->under_way)
    return ki_fail(k, thread, "shared %u[%lld] is read before its copy has arrived", array,
                   (long long)index);
  if (cell->write_epoch < k->block_epoch)
    return ki_fail(k, thread, "shared %u[%lld] is read before it is written", array,
                   (long long)index);
  *out = k->shared[array][index];
  return ki_mark_read(k, cell, thread, "shared", array, index);
}

lw_status ki_shared_set(ki *k, uint32_t array, int64_t index, uint32_t thread, lw_scalar x) {
  const lw_karray *info = &k->kernel->shared.data[array];
  LW_TRY(ki_check_index(k, index, info->count, thread, "shared", array));
  if (k->shared_cells[array][index].under_way)
    return ki_fail(k, thread, "shared %u[%lld] is written while a copy to it is under way", array,
                   (long long)index);
  k->shared[array][index] = ki_to_memory(info->dtype, x);
  return ki_mark_write(k, &k->shared_cells[array][index], thread, "shared", array, index);
}

lw_status ki_shared_send(ki *k, uint32_t array, int64_t index, uint32_t thread, lw_scalar x) {
  LW_TRY(ki_shared_set(k, array, index, thread, x));
  k->shared_cells[array][index].under_way = true;
  ki_copy copy = {array, thread, k->groups[thread], index, x};
  return lw_vec_push(&k->copies, copy);
}

lw_status ki_shared_arrive(ki *k, const uint8_t *mask, uint32_t keep) {
  uint32_t kept = 0;
  for (uint32_t i = 0; i < k->copies.count; i++) {
    ki_copy copy = k->copies.data[i];
    if (mask[copy.thread] == 0 || copy.group + keep >= k->groups[copy.thread]) {
      k->copies.data[kept++] = copy;
      continue;
    }
    k->shared_cells[copy.array][copy.index].under_way = false;
    LW_TRY(ki_shared_set(k, copy.array, copy.index, copy.thread, copy.value));
  }
  k->copies.count = kept;
  return LW_OK;
}

/* Iterations of a VECTOR loop may not meet in an element that one of them writes. */
static lw_status ki_check_vector(ki *k, ki_slot *slot, bool write, uint32_t thread, uint32_t array,
                                 int64_t index) {
  if (k->loop == 0) return LW_OK;
  if (slot->loop != k->loop) {
    slot->loop = k->loop;
    slot->writer = slot->reader = 0;
  }
  uint32_t self = k->iteration + 1;
  bool met = (slot->writer != 0 && slot->writer != self) ||
             (write && slot->reader != 0 && slot->reader != self);
  if (met)
    return ki_fail(k, thread, "iterations of a vector loop meet in local %u[%lld]", array,
                   (long long)index);
  if (write)
    slot->writer = self;
  else
    slot->reader = slot->reader == 0 || slot->reader == self ? self : KI_MANY;
  return LW_OK;
}

lw_status ki_local_get(ki *k, uint32_t array, int64_t index, uint32_t thread, lw_scalar *out) {
  LW_TRY(ki_check_index(k, index, k->kernel->locals.data[array].count, thread, "local", array));
  ki_slot *slot = &k->locals[array][index * k->threads + thread];
  if (slot->block_epoch != k->block_epoch)
    return ki_fail(k, thread, "local %u[%lld] is read before it is written", array,
                   (long long)index);
  *out = slot->value;
  return ki_check_vector(k, slot, false, thread, array, index);
}

lw_status ki_local_set(ki *k, uint32_t array, int64_t index, uint32_t thread, lw_scalar x) {
  const lw_karray *info = &k->kernel->locals.data[array];
  LW_TRY(ki_check_index(k, index, info->count, thread, "local", array));
  ki_slot *slot = &k->locals[array][index * k->threads + thread];
  slot->value = ki_to_memory(info->dtype, x);
  slot->block_epoch = k->block_epoch;
  return ki_check_vector(k, slot, true, thread, array, index);
}

/* walk.c: the structure of a plan, value by value. A field that is added to plan.h is added here,
 * and LW_PLAN_FORMAT counted up. */
#include "plan/walk.h"

#include <string.h>

/* A struct that grew has a field that is not written yet. */
#if UINTPTR_MAX == UINT64_MAX
_Static_assert(sizeof(lw_plan_kernel) == 72, "walk_kernel has to know the new field");
_Static_assert(sizeof(lw_plan_buffer) == 40, "walk_buffer has to know the new field");
_Static_assert(sizeof(lw_plan_arg) == 40, "walk_arg has to know the new field");
_Static_assert(sizeof(lw_plan_map) == 128, "walk_map has to know the new field");
_Static_assert(sizeof(lw_plan_step) == 120, "walk_step has to know the new field");
_Static_assert(sizeof(lw_plan_io) == 120, "walk_io has to know the new field");
_Static_assert(sizeof(lw_plan) == 176, "the walk of the plan has to know the new field");
#endif

/* Least bytes of one element, for counts. */
enum {
  MESSAGE_BYTES = 12,
  SOURCE_BYTES = 28,
  IMAGE_BYTES = 16,
  KERNEL_BYTES = 40,
  BUFFER_BYTES = 28,
  ARG_BYTES = 8,
  STEP_BYTES = 40,
  IO_BYTES = 16,
};

/* Writing, the walk sees copies of the elements, and what it is given is not touched: others may be
 * reading it. */
#define WALK_EACH(s, type, array, count, walk)                 \
  do {                                                         \
    for (uint32_t walk_i_ = 0; walk_i_ < (count); walk_i_++) { \
      type walk_one_ = (array)[walk_i_];                       \
      walk((s), &walk_one_);                                   \
      if (lw__stream_reads(s)) (array)[walk_i_] = walk_one_;   \
    }                                                          \
  } while (0)

static void walk_id(lw_stream *s, uint32_t *id) { *id = lw__stream_u32(s, *id); }

/* ---- ABOUT ---- */

static void walk_text(lw_stream *s, const char **text) {
  *text = lw__stream_str(s, *text);
  if (*text == NULL) *text = "";
}

static void walk_message(lw_stream *s, lw_message *m) {
  m->severity = (lw_severity)lw__stream_enum(s, (uint32_t)m->severity, LW_SEVERITY_ERROR);
  walk_text(s, &m->where);
  walk_text(s, &m->text);
}

void lw__plan_walk_about(lw_plan_walk *w) {
  lw_stream *s = &w->stream;
  lw_plan_about *about = &w->file->about;
  const char **texts[] = {&about->version, &about->build, &about->model, &about->target,
                          &about->profile, &about->cpu,   &about->isa};
  for (size_t i = 0; i < LW_ARRAY_COUNT(texts); i++) walk_text(s, texts[i]);
  about->fuse = lw__stream_bool(s, about->fuse);
  about->channels_last = lw__stream_bool(s, about->channels_last);
  about->messages = lw__stream_array(s, about->messages, &about->message_count,
                                     sizeof *about->messages, MESSAGE_BYTES);
  WALK_EACH(s, lw_message, about->messages, about->message_count, walk_message);
}

/* ---- images and sources ---- */

static void walk_image(lw_stream *s, lw_plan_piece *image) {
  image->offset = lw__stream_u64(s, image->offset);
  image->bytes = lw__stream_u64(s, image->bytes);
}

static void walk_source(lw_stream *s, lw_plan_source *source) {
  walk_text(s, &source->name);
  source->bytes = lw__stream_u64(s, source->bytes);
  source->hash = lw__stream_hash(s, source->hash);
}

static void walk_images(lw_plan_walk *w) {
  lw_stream *s = &w->stream;
  w->images = lw__stream_array(s, w->images, &w->image_count, sizeof *w->images, IMAGE_BYTES);
  WALK_EACH(s, lw_plan_piece, w->images, w->image_count, walk_image);
}

static void walk_sources(lw_plan_walk *w) {
  lw_stream *s = &w->stream;
  lw_plan_file *file = w->file;
  file->sources =
      lw__stream_array(s, file->sources, &file->source_count, sizeof *file->sources, SOURCE_BYTES);
  WALK_EACH(s, lw_plan_source, file->sources, file->source_count, walk_source);
}

/* ---- the plan ---- */

/* Reading: zeroed elements in a vector that has none yet. */
#define WALK_VEC(s, vec, least_bytes)                                          \
  do {                                                                         \
    uint32_t walk_count_ = lw__stream_count((s), (vec)->count, (least_bytes)); \
    if (lw__stream_reads(s) && (s)->status == LW_OK && walk_count_ != 0) {     \
      (s)->status = lw_vec_reserve((vec), walk_count_);                        \
      if ((s)->status == LW_OK) {                                              \
        memset((vec)->data, 0, walk_count_ * sizeof *(vec)->data);             \
        (vec)->count = walk_count_;                                            \
      }                                                                        \
    }                                                                          \
  } while (0)

static void walk_kernel(lw_plan_walk *w, uint32_t id, lw_plan_kernel *kernel) {
  lw_stream *s = &w->stream;
  kernel->name = lw__stream_str(s, kernel->name);
  kernel->key = lw__stream_hash(s, kernel->key);
  kernel->block_threads = lw__stream_u32(s, kernel->block_threads);
  kernel->shared_bytes = lw__stream_u32(s, kernel->shared_bytes);
  kernel->early_start = lw__stream_bool(s, kernel->early_start);
  kernel->registers = lw__stream_u32(s, kernel->registers);
  kernel->spill_bytes = lw__stream_u32(s, kernel->spill_bytes);
  uint32_t image = lw__stream_u32(s, lw__stream_reads(s) ? 0 : w->image_of[id]);
  if (!lw__stream_reads(s) || image == LW_NONE || s->status != LW_OK) return;
  if (image >= w->image_count) {
    lw__stream_fail(s, "a kernel has an image that there is not");
    return;
  }
  kernel->image = w->images[image].data;
  kernel->image_bytes = (size_t)w->images[image].bytes;
}

/* Where a weight's bytes are: in a source, or in this file. */
static void walk_place(lw_plan_walk *w, uint32_t id, lw_plan_buffer *buffer) {
  lw_stream *s = &w->stream;
  lw_plan_place *place = &w->file->places[id];
  place->source = lw__stream_u32(s, place->source);
  bool inside = place->source == LW_NONE;
  uint64_t offset = inside && !lw__stream_reads(s) ? w->weight_place[id] : place->offset;
  offset = lw__stream_u64(s, offset);
  if (!lw__stream_reads(s) || s->status != LW_OK) return;
  if (!inside && place->source >= w->file->source_count) {
    lw__stream_fail(s, "a weight lies in a file that is not named");
    return;
  }
  place->offset = offset;
  uint64_t whole = inside ? w->weights.len : w->file->sources[place->source].bytes;
  if (offset > whole || buffer->bytes > whole - offset) {
    lw__stream_fail(s, "a weight lies outside its file");
  } else if (inside) {
    buffer->data = w->weights.ptr + offset;
  }
}

static void walk_buffer(lw_plan_walk *w, uint32_t id, lw_plan_buffer *buffer) {
  lw_stream *s = &w->stream;
  buffer->kind = (lw_buffer_kind)lw__stream_enum(s, (uint32_t)buffer->kind, LW_BUFFER_ARENA);
  buffer->index = lw__stream_u32(s, buffer->index);
  buffer->offset = lw__stream_u64(s, buffer->offset);
  buffer->bytes = lw__stream_u64(s, buffer->bytes);
  buffer->name = lw__stream_str(s, buffer->name);
  if (buffer->kind == LW_BUFFER_WEIGHT) walk_place(w, id, buffer);
}

static void walk_map(lw_stream *s, lw_plan_map *map) {
  map->arg = lw__stream_u32(s, map->arg);
  map->dtype = (lw_dtype)lw__stream_enum(s, (uint32_t)map->dtype, LW_DTYPE_COUNT - 1);
  map->rank = lw__stream_enum(s, map->rank, LW_PLAN_MAP_RANK);
  map->offset_bytes = lw__stream_u64(s, map->offset_bytes);
  for (uint32_t d = 0; d < map->rank; d++) {
    map->dims[d] = lw__stream_u64(s, map->dims[d]);
    map->strides_bytes[d] = lw__stream_u64(s, map->strides_bytes[d]);
    map->box[d] = lw__stream_u32(s, map->box[d]);
  }
}

static void walk_map_of(lw_stream *s, lw_plan_arg *arg) {
  lw_plan_map map = {0};
  if (!lw__stream_reads(s) && arg->map != NULL) map = *arg->map;
  walk_map(s, &map);
  if (!lw__stream_reads(s) || s->status != LW_OK) return;
  s->status = lw__arena_dup(s->arena, &map, sizeof map, &arg->map);
}

static void walk_arg(lw_stream *s, lw_plan_arg *arg) {
  arg->kind = (lw_arg_kind)lw__stream_enum(s, (uint32_t)arg->kind, LW_ARG_TENSOR_MAP);
  if (arg->kind == LW_ARG_TENSOR_MAP) {
    walk_map_of(s, arg);
    return;
  }
  if (arg->kind == LW_ARG_SCALAR) {
    arg->scalar = lw__stream_i64(s, arg->scalar);
    return;
  }
  arg->buffer = lw__stream_u32(s, arg->buffer);
  arg->offset_bytes = lw__stream_u64(s, arg->offset_bytes);
  arg->written = lw__stream_bool(s, arg->written);
}

static void walk_step(lw_stream *s, lw_plan_step *step) {
  step->kind = (lw_step_kind)lw__stream_enum(s, (uint32_t)step->kind, LW_STEP_FILL);
  step->kernel = lw__stream_u32(s, step->kernel);
  step->grid = lw__stream_i64(s, step->grid);
  step->bytes = lw__stream_u64(s, step->bytes);
  step->fill = (uint8_t)lw__stream_enum(s, step->fill, UINT8_MAX);
  step->label = lw__stream_str(s, step->label);
  step->cls = lw__stream_str(s, step->cls);
  step->group = lw__stream_u32(s, step->group);
  step->traffic_bytes = lw__stream_cost(s, step->traffic_bytes);
  step->predicted_us = lw__stream_cost(s, step->predicted_us);
  step->args = lw__stream_array(s, step->args, &step->arg_count, sizeof *step->args, ARG_BYTES);
  WALK_EACH(s, lw_plan_arg, step->args, step->arg_count, walk_arg);
  step->deps =
      lw__stream_array(s, step->deps, &step->dep_count, sizeof *step->deps, sizeof *step->deps);
  WALK_EACH(s, uint32_t, step->deps, step->dep_count, walk_id);
  step->lane = lw__stream_u32(s, step->lane);
  step->waits =
      lw__stream_array(s, step->waits, &step->wait_count, sizeof *step->waits, sizeof *step->waits);
  WALK_EACH(s, uint32_t, step->waits, step->wait_count, walk_id);
  step->critical = lw__stream_bool(s, step->critical);
}

static void walk_io(lw_stream *s, lw_plan_io *io) {
  io->name = lw__stream_str(s, io->name);
  io->dtype = (lw_dtype)lw__stream_enum(s, (uint32_t)io->dtype, LW_DTYPE_COUNT - 1);
  io->rank = lw__stream_enum(s, io->rank, LW_MAX_RANK);
  for (uint32_t d = 0; d < io->rank; d++) io->dims[d] = lw__stream_i64(s, io->dims[d]);
  io->buffer = lw__stream_u32(s, io->buffer);
}

static void walk_target(lw_stream *s, lw_plan *plan) {
  plan->target = (lw_plan_target)lw__stream_enum(s, (uint32_t)plan->target, LW_PLAN_CUDA);
  plan->sm_arch = lw__stream_u32(s, plan->sm_arch);
  plan->arch_specific = lw__stream_bool(s, plan->arch_specific);
  plan->arena_bytes = lw__stream_u64(s, plan->arena_bytes);
  plan->weight_bytes = lw__stream_u64(s, plan->weight_bytes);
  plan->lane_count = lw__stream_enum(s, plan->lane_count, LW_PLAN_MAX_LANES);
  plan->lane_note = lw__stream_str(s, plan->lane_note);
  plan->predicted_us = lw__stream_cost(s, plan->predicted_us);
  plan->one_lane_us = lw__stream_cost(s, plan->one_lane_us);
}

static void walk_buffers(lw_plan_walk *w) {
  lw_stream *s = &w->stream;
  lw_plan *plan = &w->file->plan;
  WALK_VEC(s, &plan->buffers, BUFFER_BYTES);
  if (lw__stream_reads(s) && s->status == LW_OK) {
    s->status =
        lw__arena_alloc(s->arena, plan->buffers.count, sizeof *w->file->places, &w->file->places);
  }
  if (s->status != LW_OK) return;
  for (uint32_t i = 0; i < plan->buffers.count; i++) {
    lw_plan_buffer buffer = plan->buffers.data[i];
    if (lw__stream_reads(s)) w->file->places[i].source = LW_NONE;
    walk_buffer(w, i, &buffer);
    if (lw__stream_reads(s)) plan->buffers.data[i] = buffer;
  }
}

void lw__plan_walk_head(lw_plan_walk *w) {
  lw_stream *s = &w->stream;
  lw_plan *plan = &w->file->plan;
  walk_target(s, plan);
  walk_images(w);
  walk_sources(w);
}

void lw__plan_walk_body(lw_plan_walk *w) {
  lw_stream *s = &w->stream;
  lw_plan *plan = &w->file->plan;
  WALK_VEC(s, &plan->kernels, KERNEL_BYTES);
  for (uint32_t i = 0; i < plan->kernels.count; i++) {
    lw_plan_kernel kernel = plan->kernels.data[i];
    walk_kernel(w, i, &kernel);
    if (lw__stream_reads(s)) plan->kernels.data[i] = kernel;
  }
  walk_buffers(w);
  WALK_VEC(s, &plan->steps, STEP_BYTES);
  WALK_EACH(s, lw_plan_step, plan->steps.data, plan->steps.count, walk_step);
  WALK_VEC(s, &plan->init, STEP_BYTES);
  WALK_EACH(s, lw_plan_step, plan->init.data, plan->init.count, walk_step);
  WALK_VEC(s, &plan->inputs, IO_BYTES);
  WALK_EACH(s, lw_plan_io, plan->inputs.data, plan->inputs.count, walk_io);
  WALK_VEC(s, &plan->outputs, IO_BYTES);
  WALK_EACH(s, lw_plan_io, plan->outputs.data, plan->outputs.count, walk_io);
}

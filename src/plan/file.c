/* file.c: plan files: sections and checksums around the stream of walk.c. */
#include "plan/file.h"

#include <endian.h>
#include <inttypes.h>
#include <string.h>

#include "plan/walk.h"

#define FILE_HEADER_BYTES 64u
#define FILE_ALIGN_BYTES 64u
#define FILE_SECTION_BYTES 40u
#define FILE_VERSION_BYTES 24u

enum { SECTION_ABOUT, SECTION_PLAN, SECTION_IMAGES, SECTION_WEIGHTS, SECTION_COUNT };
#define FILE_TABLE_END (FILE_HEADER_BYTES + SECTION_COUNT * FILE_SECTION_BYTES)
/* The first section begins here: the end of the table, rounded up. */
#define FILE_DATA_OFFSET \
  ((FILE_TABLE_END + FILE_ALIGN_BYTES - 1) / FILE_ALIGN_BYTES * FILE_ALIGN_BYTES)

/* Offsets in the header. */
enum { AT_FORMAT = 8, AT_COUNT = 12, AT_BYTES = 16, AT_VERSION = 24, AT_CHECKSUM = 48 };

static const lw_hash file_header_seed = {1, LW_PLAN_FORMAT},
                     file_section_seed = {2, LW_PLAN_FORMAT};

/* ---- numbers in place ---- */

static uint64_t get_u64(const uint8_t *at) {
  uint64_t word;
  memcpy(&word, at, sizeof word);
  return le64toh(word);
}

static uint32_t get_u32(const uint8_t *at) {
  uint32_t word;
  memcpy(&word, at, sizeof word);
  return le32toh(word);
}

static void put_u64(uint8_t *at, uint64_t value) {
  value = htole64(value);
  memcpy(at, &value, sizeof value);
}

static void put_u32(uint8_t *at, uint32_t value) {
  value = htole32(value);
  memcpy(at, &value, sizeof value);
}

static void put_hash(uint8_t *at, lw_hash hash) {
  put_u64(at, hash.lo);
  put_u64(at + 8, hash.hi);
}

static bool has_hash(const uint8_t *at, lw_hash hash) {
  return get_u64(at) == hash.lo && get_u64(at + 8) == hash.hi;
}

/* ---- sections ---- */

typedef struct file_section {
  uint64_t offset, bytes;
} file_section;

/* An entry of the table: kind, zero, offset, bytes, checksum. */
static uint8_t *section_entry(uint8_t *file, uint32_t index) {
  return file + FILE_HEADER_BYTES + index * FILE_SECTION_BYTES;
}

/* Header and table, without the header's own checksum. */
static lw_hash header_hash(const uint8_t *file) {
  lw_hash hash = lw__hash_bytes(file, AT_CHECKSUM, file_header_seed);
  return lw__hash_bytes(file + FILE_HEADER_BYTES, FILE_DATA_OFFSET - FILE_HEADER_BYTES, hash);
}

static lw_hash section_hash(const uint8_t *file, const file_section *section) {
  return lw__hash_wide(file + section->offset, (size_t)section->bytes, file_section_seed);
}

/* The sections as the table says; false when they are not the contiguous four that fill the file.
 */
static bool sections_read(const uint8_t *file, size_t bytes, file_section *out) {
  uint64_t at = FILE_DATA_OFFSET;
  if (bytes < at || get_u32(file + AT_COUNT) != SECTION_COUNT) return false;
  for (uint32_t i = 0; i < SECTION_COUNT; i++) {
    const uint8_t *entry = file + FILE_HEADER_BYTES + i * FILE_SECTION_BYTES;
    out[i] = (file_section){.offset = get_u64(entry + 8), .bytes = get_u64(entry + 16)};
    if (get_u32(entry) != i + 1 || get_u32(entry + 4) != 0 || out[i].offset != at) return false;
    if (out[i].bytes > bytes - at || out[i].bytes % FILE_ALIGN_BYTES != 0) return false;
    at += out[i].bytes;
  }
  return at == bytes;
}

void lw__plan_file_seal(void *data, size_t bytes) {
  uint8_t *file = data;
  file_section sections[SECTION_COUNT];
  if (!sections_read(file, bytes, sections)) return;
  put_u64(file + AT_BYTES, bytes);
  for (uint32_t i = 0; i < SECTION_COUNT; i++) {
    put_hash(section_entry(file, i) + 24, section_hash(file, &sections[i]));
  }
  put_hash(file + AT_CHECKSUM, header_hash(file));
}

bool lw__plan_file_is(const void *data, size_t bytes) {
  return bytes >= sizeof LW_PLAN_MAGIC - 1 &&
         memcmp(data, LW_PLAN_MAGIC, sizeof LW_PLAN_MAGIC - 1) == 0;
}

lw_hash lw__plan_source_hash(const void *data, size_t bytes) {
  return lw__hash_wide(data, bytes, (lw_hash){3, 3});
}

/* ---- writing ---- */

static void pad(lw_text *out) {
  static const char zeros[FILE_ALIGN_BYTES];
  lw__text_add_n(out, zeros, (FILE_ALIGN_BYTES - out->len % FILE_ALIGN_BYTES) % FILE_ALIGN_BYTES);
}

static uint64_t padded(uint64_t bytes) {
  return bytes + (FILE_ALIGN_BYTES - bytes % FILE_ALIGN_BYTES) % FILE_ALIGN_BYTES;
}

/* Kernels built together share an image; they stand side by side. */
static uint32_t find_image(const lw_plan_walk *w, const void *data) {
  for (uint32_t i = w->image_count; i-- > 0;) {
    if (w->images[i].data == data) return i;
  }
  return LW_NONE;
}

static lw_status gather_images(lw_plan_walk *w, const lw_plan *plan, lw_arena *arena) {
  uint32_t count = plan->kernels.count;
  uint64_t end = 0;
  LW_TRY(lw__arena_alloc(arena, count, sizeof *w->images, &w->images));
  LW_TRY(lw__arena_alloc(arena, count, sizeof *w->image_of, &w->image_of));
  for (uint32_t k = 0; k < count; k++) {
    const lw_plan_kernel *kernel = &plan->kernels.data[k];
    w->image_of[k] = LW_NONE;
    if (kernel->image == NULL) continue;
    w->image_of[k] = find_image(w, kernel->image);
    if (w->image_of[k] != LW_NONE) continue;
    w->images[w->image_count] =
        (lw_plan_piece){.data = kernel->image, .offset = end, .bytes = kernel->image_bytes};
    w->image_of[k] = w->image_count++;
    end += padded(kernel->image_bytes);
  }
  return LW_OK;
}

static lw_plan_place find_place(const lw_plan_file *file, const lw_plan_buffer *buffer) {
  const uint8_t *data = buffer->data;
  for (uint32_t i = 0; i < file->source_count; i++) {
    const lw_plan_source *source = &file->sources[i];
    if (data < source->data || (uint64_t)(data - source->data) > source->bytes) continue;
    uint64_t offset = (uint64_t)(data - source->data);
    if (buffer->bytes <= source->bytes - offset) return (lw_plan_place){i, offset};
  }
  return (lw_plan_place){.source = LW_NONE};
}

static lw_status gather_weights(lw_plan_walk *w, lw_arena *arena) {
  lw_plan_file *file = w->file;
  uint32_t count = file->plan.buffers.count;
  uint64_t end = 0;
  LW_TRY(lw__arena_alloc(arena, count, sizeof *file->places, &file->places));
  LW_TRY(lw__arena_alloc(arena, count, sizeof *w->weight_place, &w->weight_place));
  for (uint32_t b = 0; b < count; b++) {
    const lw_plan_buffer *buffer = &file->plan.buffers.data[b];
    file->places[b].source = LW_NONE;
    if (buffer->kind != LW_BUFFER_WEIGHT || buffer->bytes == 0) continue;
    file->places[b] = find_place(file, buffer);
    if (file->places[b].source != LW_NONE) continue;
    w->weight_place[b] = end;
    end += padded(buffer->bytes);
  }
  return LW_OK;
}

static void write_header(lw_text *out, const char *version, const size_t *ends) {
  uint8_t *file = (uint8_t *)out->data;
  memcpy(file, LW_PLAN_MAGIC, sizeof LW_PLAN_MAGIC - 1);
  put_u32(file + AT_FORMAT, LW_PLAN_FORMAT);
  put_u32(file + AT_COUNT, SECTION_COUNT);
  size_t length = strlen(version);
  memcpy(file + AT_VERSION, version, length < FILE_VERSION_BYTES ? length : FILE_VERSION_BYTES - 1);
  size_t at = FILE_DATA_OFFSET;
  for (uint32_t i = 0; i < SECTION_COUNT; i++) {
    uint8_t *entry = section_entry(file, i);
    put_u32(entry, i + 1);
    put_u64(entry + 8, at);
    put_u64(entry + 16, ends[i] - at);
    at = ends[i];
  }
  lw__plan_file_seal(file, out->len);
}

static lw_status write_sections(lw_plan_walk *w, lw_text *out) {
  const lw_plan *plan = &w->file->plan;
  size_t ends[SECTION_COUNT];
  while (out->status == LW_OK && out->len < FILE_DATA_OFFSET) lw__text_add_n(out, "", 1);
  lw__plan_walk_about(w);
  pad(out);
  ends[SECTION_ABOUT] = out->len;
  lw__plan_walk_head(w);
  lw__plan_walk_body(w);
  pad(out);
  ends[SECTION_PLAN] = out->len;
  for (uint32_t i = 0; i < w->image_count; i++) {
    lw__text_add_n(out, w->images[i].data, (size_t)w->images[i].bytes);
    pad(out);
  }
  ends[SECTION_IMAGES] = out->len;
  for (uint32_t b = 0; b < plan->buffers.count; b++) {
    const lw_plan_buffer *buffer = &plan->buffers.data[b];
    bool here = buffer->kind == LW_BUFFER_WEIGHT && w->file->places[b].source == LW_NONE;
    if (!here || buffer->bytes == 0) continue;
    lw__text_add_n(out, buffer->data, (size_t)buffer->bytes);
    pad(out);
  }
  ends[SECTION_WEIGHTS] = out->len;
  LW_TRY(w->stream.status);
  LW_TRY(out->status);
  write_header(out, w->file->about.version, ends);
  return LW_OK;
}

lw_status lw__plan_file_write(const lw_plan *plan, const lw_plan_about *about,
                              const lw_plan_source *sources, uint32_t source_count, lw_text *out) {
  lw_arena arena = {0};
  /* The walk goes through what it would fill when reading, and changes nothing. */
  lw_plan_file file = {.plan = *plan,
                       .about = *about,
                       .sources = (lw_plan_source *)(uintptr_t)sources,
                       .source_count = source_count};
  lw_plan_walk w = {.stream = {.out = out}, .file = &file};
  lw_status status = gather_images(&w, plan, &arena);
  if (status == LW_OK) status = gather_weights(&w, &arena);
  if (status == LW_OK) status = write_sections(&w, out);
  lw__arena_deinit(&arena);
  return status;
}

/* ---- reading ---- */

static lw_status file_damaged(const char *where, lw_diag *diag, const char *what) {
  return lw__fail(diag, LW_STATUS_MODEL_INVALID, where, "the plan file is damaged: %s", what);
}

/* Before anything else is believed: format, size, checksums. */
static lw_status file_check(const uint8_t *file, size_t bytes, const char *where, lw_diag *diag,
                            file_section *sections) {
  if (!lw__plan_file_is(file, bytes)) {
    return lw__fail(diag, LW_STATUS_MODEL_INVALID, where, "not a plan file");
  }
  if (bytes < FILE_DATA_OFFSET) return file_damaged(where, diag, "it is cut short");
  if (get_u32(file + AT_FORMAT) != LW_PLAN_FORMAT) {
    char version[FILE_VERSION_BYTES];
    memcpy(version, file + AT_VERSION, sizeof version);
    version[sizeof version - 1] = '\0';
    for (char *c = version; *c != '\0'; c++) {
      if (*c < ' ' || *c > '~') *c = '?';
    }
    return lw__fail(diag, LW_STATUS_UNSUPPORTED, where,
                    "a plan of format %u, written by lawson %s; this one reads format %u: compile "
                    "the model again",
                    get_u32(file + AT_FORMAT), version, LW_PLAN_FORMAT);
  }
  if (get_u64(file + AT_BYTES) != bytes) {
    lw_text text = {0};
    lw__text_add(&text, "it should have %" PRIu64 " bytes and has %zu", get_u64(file + AT_BYTES),
                 bytes);
    lw_status status = file_damaged(where, diag, lw__text_str(&text));
    lw__text_deinit(&text);
    return status;
  }
  if (!has_hash(file + AT_CHECKSUM, header_hash(file))) {
    return file_damaged(where, diag, "the checksum of its header is wrong");
  }
  if (!sections_read(file, bytes, sections)) {
    return file_damaged(where, diag, "its table of sections is none");
  }
  static const char *const names[] = {"about", "plan", "images", "weights"};
  for (uint32_t i = 0; i < SECTION_COUNT; i++) {
    const uint8_t *entry = file + FILE_HEADER_BYTES + i * FILE_SECTION_BYTES;
    if (has_hash(entry + 24, section_hash(file, &sections[i]))) continue;
    return lw__fail(diag, LW_STATUS_MODEL_INVALID, where,
                    "the plan file is damaged: the checksum of section '%s' is wrong", names[i]);
  }
  return LW_OK;
}

static void begin_section(lw_plan_walk *w, const uint8_t *file, const file_section *section) {
  w->stream.at = file + section->offset;
  w->stream.end = w->stream.at + section->bytes;
}

static void place_images(lw_plan_walk *w, const uint8_t *file, const file_section *section) {
  for (uint32_t i = 0; i < w->image_count && w->stream.status == LW_OK; i++) {
    lw_plan_piece *image = &w->images[i];
    bool inside = image->offset <= section->bytes && image->bytes <= section->bytes - image->offset;
    if (!inside || image->bytes == 0) {
      lw__stream_fail(&w->stream, "a kernel's image lies outside it");
    } else {
      image->data = file + section->offset + image->offset;
    }
  }
}

static lw_status file_read(const uint8_t *file, size_t bytes, const char *where, lw_diag *diag,
                           lw_plan_file *out) {
  file_section sections[SECTION_COUNT];
  LW_TRY(file_check(file, bytes, where, diag, sections));
  const file_section *weights = &sections[SECTION_WEIGHTS];
  lw_plan_walk w = {
      .stream = {.arena = &out->arena},
      .file = out,
      .weights = lw__str((const char *)file + weights->offset, (size_t)weights->bytes)};
  begin_section(&w, file, &sections[SECTION_ABOUT]);
  lw__plan_walk_about(&w);
  lw__stream_end(&w.stream);
  begin_section(&w, file, &sections[SECTION_PLAN]);
  lw__plan_walk_head(&w);
  place_images(&w, file, &sections[SECTION_IMAGES]);
  lw__plan_walk_body(&w);
  lw__stream_end(&w.stream);
  if (w.stream.status != LW_STATUS_MODEL_INVALID) return w.stream.status;
  return file_damaged(where, diag, w.stream.problem);
}

lw_status lw__plan_file_read(const void *data, size_t bytes, const char *where, lw_diag *diag,
                             lw_plan_file *out) {
  *out = (lw_plan_file){0};
  lw_status status = file_read(data, bytes, where, diag, out);
  if (status != LW_OK) lw__plan_file_deinit(out);
  return status;
}

lw_status lw__plan_file_attach(lw_plan_file *file, uint32_t index, const void *data, size_t bytes,
                               const lw_hash *known, const char *where, lw_diag *diag) {
  lw_plan_source *source = &file->sources[index];
  bool same = bytes == source->bytes;
  if (same) {
    same = lw__hash_eq(known != NULL ? *known : lw__plan_source_hash(data, bytes), source->hash);
  }
  if (!same) {
    return lw__fail(diag, LW_STATUS_MODEL_INVALID, where,
                    "its weights are in '%s', which is not the file that it was compiled from; "
                    "compile the model again",
                    source->name);
  }
  source->data = bytes == 0 ? (const uint8_t *)"" : data;
  return LW_OK;
}

lw_status lw__plan_file_finish(lw_plan_file *file, const char *where, lw_diag *diag) {
  lw_plan *plan = &file->plan;
  for (uint32_t b = 0; b < plan->buffers.count; b++) {
    const lw_plan_place *place = &file->places[b];
    if (place->source == LW_NONE) continue;
    if (file->sources[place->source].data == NULL) return LW_STATUS_USAGE;
    plan->buffers.data[b].data = file->sources[place->source].data + place->offset;
  }
  lw_diag problems = {0};
  lw_status status = lw__plan_verify(plan, &problems);
  if (status == LW_STATUS_INTERNAL) {
    status = file_damaged(where, diag, lw__diag_first_error(&problems));
  }
  lw__diag_deinit(&problems);
  return status;
}

void lw__plan_file_deinit(lw_plan_file *file) {
  lw__plan_deinit(&file->plan);
  lw__arena_deinit(&file->arena);
  *file = (lw_plan_file){0};
}

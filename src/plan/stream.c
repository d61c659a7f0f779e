/* stream.c: values to bytes and back. */
#include "plan/stream.h"

#include <endian.h>
#include <math.h>
#include <string.h>

void lw__stream_fail(lw_stream *s, const char *problem) {
  if (s->status != LW_OK) return;
  s->status = LW_STATUS_MODEL_INVALID;
  s->problem = problem;
}

static void stream_write(lw_stream *s, const void *data, size_t bytes) {
  if (s->status != LW_OK) return;
  lw__text_add_n(s->out, data, bytes);
  s->status = s->out->status;
}

/* The next |bytes| bytes, or NULL. */
static const uint8_t *stream_take(lw_stream *s, size_t bytes) {
  if (s->status != LW_OK) return NULL;
  if ((size_t)(s->end - s->at) < bytes) {
    lw__stream_fail(s, "it ends too early");
    return NULL;
  }
  const uint8_t *data = s->at;
  s->at += bytes;
  return data;
}

uint32_t lw__stream_u32(lw_stream *s, uint32_t value) {
  uint32_t word = htole32(value);
  if (!lw__stream_reads(s)) {
    stream_write(s, &word, sizeof word);
    return value;
  }
  const uint8_t *data = stream_take(s, sizeof word);
  if (data == NULL) return 0;
  memcpy(&word, data, sizeof word);
  return le32toh(word);
}

uint64_t lw__stream_u64(lw_stream *s, uint64_t value) {
  uint64_t word = htole64(value);
  if (!lw__stream_reads(s)) {
    stream_write(s, &word, sizeof word);
    return value;
  }
  const uint8_t *data = stream_take(s, sizeof word);
  if (data == NULL) return 0;
  memcpy(&word, data, sizeof word);
  return le64toh(word);
}

int64_t lw__stream_i64(lw_stream *s, int64_t value) {
  return (int64_t)lw__stream_u64(s, (uint64_t)value);
}

double lw__stream_cost(lw_stream *s, double value) {
  uint64_t bits;
  memcpy(&bits, &value, sizeof bits);
  bits = lw__stream_u64(s, bits);
  memcpy(&value, &bits, sizeof bits);
  if (!lw__stream_reads(s) || (isfinite(value) && value >= 0)) return value;
  lw__stream_fail(s, "a predicted cost is no number");
  return 0;
}

uint32_t lw__stream_enum(lw_stream *s, uint32_t value, uint32_t last) {
  value = lw__stream_u32(s, value);
  if (!lw__stream_reads(s) || value <= last) return value;
  lw__stream_fail(s, "a kind is none that there is");
  return 0;
}

bool lw__stream_bool(lw_stream *s, bool value) { return lw__stream_enum(s, value, 1) != 0; }

lw_hash lw__stream_hash(lw_stream *s, lw_hash value) {
  value.lo = lw__stream_u64(s, value.lo);
  value.hi = lw__stream_u64(s, value.hi);
  return value;
}

static const char *stream_read_str(lw_stream *s, uint32_t length) {
  const uint8_t *data = stream_take(s, length);
  const char *copy = NULL;
  if (data == NULL) return NULL;
  if (memchr(data, '\0', length) != NULL) {
    lw__stream_fail(s, "a name holds a NUL byte");
    return NULL;
  }
  s->status = lw__arena_strndup(s->arena, (const char *)data, length, &copy);
  return copy;
}

const char *lw__stream_str(lw_stream *s, const char *value) {
  size_t length = value == NULL ? LW_NONE : strlen(value);
  if (length > LW_NONE) s->status = LW_STATUS_UNSUPPORTED;
  uint32_t written = lw__stream_u32(s, (uint32_t)length);
  if (lw__stream_reads(s)) return written == LW_NONE ? NULL : stream_read_str(s, written);
  if (value != NULL) stream_write(s, value, length);
  return value;
}

uint32_t lw__stream_count(lw_stream *s, uint32_t value, size_t least_bytes) {
  value = lw__stream_u32(s, value);
  if (!lw__stream_reads(s) || value <= (size_t)(s->end - s->at) / least_bytes) return value;
  lw__stream_fail(s, "a count is larger than the file");
  return 0;
}

void *lw__stream_array(lw_stream *s, void *array, uint32_t *count, size_t size,
                       size_t least_bytes) {
  *count = lw__stream_count(s, *count, least_bytes);
  if (!lw__stream_reads(s) || s->status != LW_OK) return array;
  void *memory = NULL;
  s->status = lw__arena_alloc(s->arena, *count, size, &memory);
  if (s->status != LW_OK) *count = 0;
  return memory;
}

void lw__stream_end(lw_stream *s) {
  for (; s->status == LW_OK && s->at < s->end; s->at++) {
    if (*s->at != 0) lw__stream_fail(s, "there is more behind its end");
  }
}

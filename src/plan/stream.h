/* stream.h: values to bytes and back. One description of a structure serves both directions:
 *   v->grid = lw__stream_i64(s, v->grid);
 * writes the value, or reads a new one. The first problem ends a stream: later calls change
 * nothing and give 0. */
#ifndef LW_PLAN_STREAM_H
#define LW_PLAN_STREAM_H

#include "base/base.h"

typedef struct lw_stream {
  lw_text *out; /* writing when not NULL */
  const uint8_t *at, *end;
  lw_arena *arena; /* reading: strings and arrays */
  lw_status status;
  const char *problem; /* MODEL_INVALID: what is wrong */
} lw_stream;

static inline bool lw__stream_reads(const lw_stream *s) { return s->out == NULL; }
void lw__stream_fail(lw_stream *s, const char *problem);

uint32_t lw__stream_u32(lw_stream *s, uint32_t value);
uint64_t lw__stream_u64(lw_stream *s, uint64_t value);
int64_t lw__stream_i64(lw_stream *s, int64_t value);
double lw__stream_cost(lw_stream *s, double value); /* finite and not negative */
bool lw__stream_bool(lw_stream *s, bool value);
uint32_t lw__stream_enum(lw_stream *s, uint32_t value, uint32_t last); /* 0 .. last */
lw_hash lw__stream_hash(lw_stream *s, lw_hash value);
const char *lw__stream_str(lw_stream *s, const char *value); /* may be NULL */
/* A number of elements that take at least |least_bytes| each. */
uint32_t lw__stream_count(lw_stream *s, uint32_t value, size_t least_bytes);
/* |*count| elements of |size| bytes: reading makes a zeroed array in the arena, writing gives
 * |array|. */
void *lw__stream_array(lw_stream *s, void *array, uint32_t *count, size_t size,
                       size_t least_bytes);
/* Nothing but zeros may be left. */
void lw__stream_end(lw_stream *s);

#endif

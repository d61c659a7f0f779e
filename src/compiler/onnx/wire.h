/* wire.h: the protobuf wire format, read in place. A reader walks the fields of one message; what
 * it hands out points into the bytes that it was given. Knows nothing of ONNX. */
#ifndef LW_COMPILER_ONNX_WIRE_H
#define LW_COMPILER_ONNX_WIRE_H

#include "base/base.h"

typedef enum lw_wire_type {
  LW_WIRE_VARINT = 0,
  LW_WIRE_FIXED64 = 1,
  LW_WIRE_BYTES = 2,
  LW_WIRE_FIXED32 = 5,
} lw_wire_type;

typedef struct lw_wire_field {
  uint32_t number;
  lw_wire_type type;
  uint64_t value; /* VARINT, FIXED64, FIXED32: the bits */
  lw_str bytes;   /* BYTES: the payload */
} lw_wire_field;

typedef struct lw_wire {
  const uint8_t *at, *end;
  const char *error; /* why reading stopped before the end, or NULL */
} lw_wire;

static inline lw_wire lw__wire_of(lw_str message) {
  const uint8_t *begin = (const uint8_t *)message.ptr;
  return (lw_wire){.at = begin, .end = message.len == 0 ? begin : begin + message.len};
}

/* The next field. False at the end, and on malformed bytes; |wire->error| tells which. */
bool lw__wire_next(lw_wire *wire, lw_wire_field *out);

/* One varint of at most ten bytes. False on malformed bytes (|wire->error|) and at the end. */
bool lw__wire_varint(lw_wire *wire, uint64_t *out);

/* The scalars of one repeated field occurrence, packed or not: a source of values, one call each.
 * |type| is how one scalar is encoded (VARINT, FIXED32 or FIXED64). */
typedef struct lw_wire_scalars {
  lw_wire packed;
  lw_wire_type type;
  uint64_t single;
  uint32_t singles_left;
} lw_wire_scalars;
/* False when the field is encoded in a way that such a repeated field cannot have (readers skip
 * it). */
bool lw__wire_scalars_begin(const lw_wire_field *field, lw_wire_type type, lw_wire_scalars *out);
/* False at the end, and on malformed bytes; |scalars->packed.error| tells which. */
bool lw__wire_scalars_next(lw_wire_scalars *scalars, uint64_t *out);
/* Number of scalars without decoding them; malformed packed varints may make it too large, never
 * too small. */
size_t lw__wire_scalars_count(const lw_wire_scalars *scalars);

#endif

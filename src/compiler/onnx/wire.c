/* wire.c: decoding of tags, varints, fixed words and lengths. Every length is checked against what
 * is left before it is used, so no input can make a reader look outside its bytes. */
#include "compiler/onnx/wire.h"

#include <string.h>

#define WIRE_VARINT_BYTES 10

static bool wire_stop(lw_wire *wire, const char *error) {
  wire->error = error;
  wire->end = wire->at;
  return false;
}

bool lw__wire_varint(lw_wire *wire, uint64_t *out) {
  uint64_t value = 0;
  size_t left = (size_t)(wire->end - wire->at);
  if (left == 0) return false;
  for (size_t i = 0; i < WIRE_VARINT_BYTES; i++) {
    if (i == left) return wire_stop(wire, "the bytes end inside a number");
    uint8_t byte = wire->at[i];
    if (i == WIRE_VARINT_BYTES - 1 && byte > 1) break;
    value |= (uint64_t)(byte & 0x7f) << (7 * i);
    if (byte >= 0x80) continue;
    wire->at += i + 1;
    *out = value;
    return true;
  }
  return wire_stop(wire, "a number has more than 64 bits");
}

static bool wire_fixed(lw_wire *wire, size_t bytes, uint64_t *out) {
  if ((size_t)(wire->end - wire->at) < bytes) {
    return wire_stop(wire, "the bytes end inside a fixed-size number");
  }
  uint64_t value = 0;
  for (size_t i = 0; i < bytes; i++) value |= (uint64_t)wire->at[i] << (8 * i);
  wire->at += bytes;
  *out = value;
  return true;
}

static bool wire_payload(lw_wire *wire, lw_str *out) {
  uint64_t length = 0;
  if (!lw__wire_varint(wire, &length)) {
    return wire->error != NULL ? false : wire_stop(wire, "the bytes end before a length");
  }
  if (length > (uint64_t)(wire->end - wire->at)) {
    return wire_stop(wire, "a length runs past the end of its message");
  }
  *out = lw__str((const char *)wire->at, (size_t)length);
  wire->at += length;
  return true;
}

bool lw__wire_next(lw_wire *wire, lw_wire_field *out) {
  *out = (lw_wire_field){0};
  uint64_t tag;
  if (!lw__wire_varint(wire, &tag)) return false;
  if (tag > UINT32_MAX || tag >> 3 == 0) return wire_stop(wire, "a field number is out of range");
  out->number = (uint32_t)(tag >> 3);
  out->type = (lw_wire_type)(tag & 7);
  switch (tag & 7) {
    case LW_WIRE_VARINT:
      if (lw__wire_varint(wire, &out->value)) return true;
      return wire->error != NULL ? false : wire_stop(wire, "the bytes end before a number");
    case LW_WIRE_FIXED64: return wire_fixed(wire, 8, &out->value);
    case LW_WIRE_BYTES: return wire_payload(wire, &out->bytes);
    case LW_WIRE_FIXED32: return wire_fixed(wire, 4, &out->value);
    case 3:
    case 4: return wire_stop(wire, "a group, which ONNX does not use");
    default: return wire_stop(wire, "an unknown wire type");
  }
}

bool lw__wire_scalars_begin(const lw_wire_field *field, lw_wire_type type, lw_wire_scalars *out) {
  *out = (lw_wire_scalars){.type = type};
  if (field->type == LW_WIRE_BYTES) {
    out->packed = lw__wire_of(field->bytes);
    return true;
  }
  if (field->type != type) return false;
  out->single = field->value;
  out->singles_left = 1;
  return true;
}

bool lw__wire_scalars_next(lw_wire_scalars *scalars, uint64_t *out) {
  if (scalars->singles_left != 0) {
    scalars->singles_left = 0;
    *out = scalars->single;
    return true;
  }
  lw_wire *packed = &scalars->packed;
  if (packed->at == packed->end) return false;
  if (scalars->type == LW_WIRE_VARINT) return lw__wire_varint(packed, out);
  return wire_fixed(packed, scalars->type == LW_WIRE_FIXED32 ? 4 : 8, out);
}

size_t lw__wire_scalars_count(const lw_wire_scalars *scalars) {
  if (scalars->singles_left != 0) return 1;
  size_t bytes = (size_t)(scalars->packed.end - scalars->packed.at);
  if (scalars->type == LW_WIRE_FIXED32) return bytes / 4 + (bytes % 4 != 0);
  if (scalars->type == LW_WIRE_FIXED64) return bytes / 8 + (bytes % 8 != 0);
  size_t count = 0;
  for (size_t i = 0; i < bytes; i++) count += scalars->packed.at[i] < 0x80;
  return count + (bytes != 0 && scalars->packed.at[bytes - 1] >= 0x80);
}

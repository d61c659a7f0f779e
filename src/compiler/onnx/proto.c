/* proto.c: from wire fields to the structs of proto.h. One function per message; each adds to a
 * struct that may already hold fields, because a singular message that occurs twice is merged.
 * Fields that lawson has no use for, unknown ones, and known ones with another wire type than
 * theirs are skipped. */
#include "compiler/onnx/proto.h"

#include <string.h>

#include "compiler/onnx/wire.h"

typedef struct lw_proto_reader {
  lw_arena *arena;
  lw_diag *diag;
  const char *where;
  const uint8_t *begin; /* of the file, to name offsets */
} lw_proto_reader;

static lw_status proto_fail(const lw_proto_reader *r, const lw_wire *wire) {
  return lw__fail(r->diag, LW_STATUS_MODEL_INVALID, r->where,
                  "not a valid ONNX file: at byte %zu: %s", (size_t)(wire->at - r->begin),
                  wire->error);
}

static lw_status proto_done(const lw_proto_reader *r, const lw_wire *wire) {
  return wire->error == NULL ? LW_OK : proto_fail(r, wire);
}

/* Room for one more element of |elem_bytes|; new elements are zero. */
static lw_status proto_grow(lw_arena *arena, void *list, size_t elem_bytes) {
  LW_PROTO_LIST(void) *l = list;
  if (l->count < l->capacity) return LW_OK;
  if (l->capacity > UINT32_MAX / 2) return LW_STATUS_OUT_OF_MEMORY;
  uint32_t capacity = l->capacity == 0 ? 1 : l->capacity * 2;
  void *data;
  LW_TRY(lw__arena_alloc(arena, capacity, elem_bytes, &data));
  if (l->count != 0) memcpy(data, l->data, l->count * elem_bytes);
  l->data = data;
  l->capacity = capacity;
  return LW_OK;
}
#define proto_more(r, list) proto_grow((r)->arena, (list), sizeof *(list)->data)
#define proto_new(list) (&(list)->data[(list)->count++])

static bool proto_is(const lw_wire_field *f, uint32_t number, lw_wire_type type) {
  return f->number == number && f->type == type;
}
static bool proto_str(const lw_wire_field *f, uint32_t number, lw_str *out) {
  if (!proto_is(f, number, LW_WIRE_BYTES)) return false;
  *out = f->bytes;
  return true;
}
static bool proto_i64(const lw_wire_field *f, uint32_t number, int64_t *out) {
  if (!proto_is(f, number, LW_WIRE_VARINT)) return false;
  *out = (int64_t)f->value;
  return true;
}
static bool proto_i32(const lw_wire_field *f, uint32_t number, int32_t *out) {
  if (!proto_is(f, number, LW_WIRE_VARINT)) return false;
  *out = (int32_t)(uint32_t)f->value;
  return true;
}

static lw_status proto_add_str(lw_proto_reader *r, const lw_wire_field *f, lw_proto_strings *list) {
  if (f->type != LW_WIRE_BYTES) return LW_OK;
  LW_TRY(proto_more(r, list));
  *proto_new(list) = f->bytes;
  return LW_OK;
}

static lw_status proto_deeper(const lw_proto_reader *r, uint32_t depth) {
  if (depth < LW_PROTO_DEPTH_MAX) return LW_OK;
  return lw__fail(r->diag, LW_STATUS_UNSUPPORTED, r->where,
                  "graphs inside graphs nest deeper than %d messages", LW_PROTO_DEPTH_MAX);
}

static lw_status proto_short(const lw_proto_reader *r, uint32_t count, const char *what) {
  if (count < LW_PROTO_LIST_MAX) return LW_OK;
  return lw__fail(r->diag, LW_STATUS_UNSUPPORTED, r->where, "more than %d %s", LW_PROTO_LIST_MAX,
                  what);
}

/* StringStringEntryProto */
static lw_status proto_read_entry(lw_proto_reader *r, lw_str bytes, lw_proto_entry *out) {
  lw_wire wire = lw__wire_of(bytes);
  for (lw_wire_field f; lw__wire_next(&wire, &f);) {
    (void)(proto_str(&f, 1, &out->key) || proto_str(&f, 2, &out->value));
  }
  return proto_done(r, &wire);
}

static lw_status proto_read_dims(lw_proto_reader *r, const lw_wire_field *f, lw_proto_tensor *out) {
  lw_wire_scalars scalars;
  if (!lw__wire_scalars_begin(f, LW_WIRE_VARINT, &scalars)) return LW_OK;
  for (uint64_t value; lw__wire_scalars_next(&scalars, &value); out->rank++) {
    if (out->rank < LW_MAX_RANK) out->dims[out->rank] = (int64_t)value;
  }
  return proto_done(r, &scalars.packed);
}

static lw_status proto_read_tensor(lw_proto_reader *r, lw_str bytes, lw_proto_tensor *out) {
  LW_TRY(proto_more(r, &out->parts));
  *proto_new(&out->parts) = bytes;
  lw_wire wire = lw__wire_of(bytes);
  for (lw_wire_field f; lw__wire_next(&wire, &f);) {
    int64_t location;
    if (f.number == 1) {
      LW_TRY(proto_read_dims(r, &f, out));
    } else if (proto_i32(&f, 2, &out->data_type) || proto_str(&f, 8, &out->name)) {
      continue;
    } else if (proto_str(&f, 9, &out->raw)) {
      out->has_raw = true;
    } else if (proto_i64(&f, 14, &location)) {
      out->is_external = location == 1;
    } else if (proto_is(&f, 13, LW_WIRE_BYTES)) {
      LW_TRY(proto_more(r, &out->external));
      LW_TRY(proto_read_entry(r, f.bytes, proto_new(&out->external)));
    }
  }
  return proto_done(r, &wire);
}

static lw_status proto_read_graph(lw_proto_reader *r, lw_str bytes, uint32_t depth,
                                  lw_proto_graph *out);

static lw_status proto_read_floats(lw_proto_reader *r, const lw_wire_field *f, lw_proto_attr *out) {
  lw_wire_scalars scalars;
  if (!lw__wire_scalars_begin(f, LW_WIRE_FIXED32, &scalars)) return LW_OK;
  for (uint64_t bits; lw__wire_scalars_next(&scalars, &bits);) {
    LW_TRY(proto_more(r, &out->floats));
    uint32_t low = (uint32_t)bits;
    memcpy(proto_new(&out->floats), &low, sizeof low);
  }
  return proto_done(r, &scalars.packed);
}

static lw_status proto_read_ints(lw_proto_reader *r, const lw_wire_field *f, lw_proto_attr *out) {
  lw_wire_scalars scalars;
  if (!lw__wire_scalars_begin(f, LW_WIRE_VARINT, &scalars)) return LW_OK;
  for (uint64_t value; lw__wire_scalars_next(&scalars, &value);) {
    LW_TRY(proto_more(r, &out->ints));
    *proto_new(&out->ints) = (int64_t)value;
  }
  return proto_done(r, &scalars.packed);
}

/* The payload's kind, for files that leave AttributeProto.type out (before IR version 2). */
static lw_status proto_attr_field(lw_proto_reader *r, const lw_wire_field *f, uint32_t depth,
                                  lw_proto_attr *out, int32_t *kind) {
  switch (f->number) {
    case 2: {
      if (f->type != LW_WIRE_FIXED32) return LW_OK;
      uint32_t bits = (uint32_t)f->value;
      memcpy(&out->f, &bits, sizeof bits);
      *kind = LW_ATTR_FLOAT;
      return LW_OK;
    }
    case 3: *kind = proto_i64(f, 3, &out->i) ? LW_ATTR_INT : *kind; return LW_OK;
    case 4: *kind = proto_str(f, 4, &out->s) ? LW_ATTR_STRING : *kind; return LW_OK;
    case 5:
      if (f->type != LW_WIRE_BYTES) return LW_OK;
      *kind = LW_ATTR_TENSOR;
      if (out->t == NULL) LW_TRY(lw__arena_alloc(r->arena, 1, sizeof *out->t, &out->t));
      return proto_read_tensor(r, f->bytes, out->t);
    case 6:
      if (f->type != LW_WIRE_BYTES) return LW_OK;
      *kind = LW_ATTR_GRAPH;
      if (out->g == NULL) LW_TRY(lw__arena_alloc(r->arena, 1, sizeof *out->g, &out->g));
      return proto_read_graph(r, f->bytes, depth + 1, out->g);
    case 7: *kind = LW_ATTR_FLOATS; return proto_read_floats(r, f, out);
    case 8: *kind = LW_ATTR_INTS; return proto_read_ints(r, f, out);
    case 9: *kind = LW_ATTR_STRINGS; return proto_add_str(r, f, &out->strings);
    case 10: *kind = LW_ATTR_TENSORS; return LW_OK;
    case 11: *kind = LW_ATTR_GRAPHS; return LW_OK;
    case 14: *kind = LW_ATTR_TYPE_PROTO; return LW_OK;
    case 22: *kind = LW_ATTR_SPARSE_TENSOR; return LW_OK;
    default: return LW_OK;
  }
}

static lw_status proto_read_attr(lw_proto_reader *r, lw_str bytes, uint32_t depth,
                                 lw_proto_attr *out) {
  lw_wire wire = lw__wire_of(bytes);
  int32_t kind = LW_ATTR_UNDEFINED;
  for (lw_wire_field f; lw__wire_next(&wire, &f);) {
    if (proto_str(&f, 1, &out->name) || proto_i32(&f, 20, &out->type) ||
        proto_str(&f, 21, &out->ref_name)) {
      continue;
    }
    LW_TRY(proto_attr_field(r, &f, depth, out, &kind));
  }
  if (out->type == LW_ATTR_UNDEFINED) out->type = kind;
  return proto_done(r, &wire);
}

static lw_status proto_read_node(lw_proto_reader *r, lw_str bytes, uint32_t depth,
                                 lw_proto_node *out) {
  lw_wire wire = lw__wire_of(bytes);
  for (lw_wire_field f; lw__wire_next(&wire, &f);) {
    if (f.number == 1) {
      LW_TRY(proto_add_str(r, &f, &out->inputs));
    } else if (f.number == 2) {
      LW_TRY(proto_add_str(r, &f, &out->outputs));
    } else if (proto_is(&f, 5, LW_WIRE_BYTES)) {
      LW_TRY(proto_short(r, out->attrs.count, "attributes of one node"));
      LW_TRY(proto_more(r, &out->attrs));
      LW_TRY(proto_read_attr(r, f.bytes, depth, proto_new(&out->attrs)));
    } else {
      (void)(proto_str(&f, 3, &out->name) || proto_str(&f, 4, &out->op_type) ||
             proto_str(&f, 7, &out->domain) || proto_str(&f, 8, &out->overload));
    }
  }
  return proto_done(r, &wire);
}

/* TensorShapeProto.Dimension */
static lw_status proto_read_dim(lw_proto_reader *r, lw_str bytes, lw_proto_dim *out) {
  lw_wire wire = lw__wire_of(bytes);
  for (lw_wire_field f; lw__wire_next(&wire, &f);) {
    if (proto_i64(&f, 1, &out->value)) { /* value and param are a oneof: the later one counts */
      out->has_value = true;
      out->param = (lw_str){0};
    } else if (proto_str(&f, 2, &out->param)) {
      out->has_value = false;
    }
  }
  return proto_done(r, &wire);
}

/* TensorShapeProto */
static lw_status proto_read_shape(lw_proto_reader *r, lw_str bytes, lw_proto_value_info *out) {
  out->has_shape = true;
  lw_wire wire = lw__wire_of(bytes);
  for (lw_wire_field f; lw__wire_next(&wire, &f);) {
    if (!proto_is(&f, 1, LW_WIRE_BYTES)) continue;
    LW_TRY(proto_more(r, &out->dims));
    LW_TRY(proto_read_dim(r, f.bytes, proto_new(&out->dims)));
  }
  return proto_done(r, &wire);
}

/* TypeProto.Tensor */
static lw_status proto_read_tensor_type(lw_proto_reader *r, lw_str bytes,
                                        lw_proto_value_info *out) {
  lw_wire wire = lw__wire_of(bytes);
  for (lw_wire_field f; lw__wire_next(&wire, &f);) {
    if (proto_i32(&f, 1, &out->elem_type)) continue;
    if (proto_is(&f, 2, LW_WIRE_BYTES)) LW_TRY(proto_read_shape(r, f.bytes, out));
  }
  return proto_done(r, &wire);
}

static lw_status proto_read_type(lw_proto_reader *r, lw_str bytes, uint32_t depth,
                                 lw_proto_value_info *out);

/* TypeProto.Sequence, TypeProto.Optional: their only field is the type inside. */
static lw_status proto_read_container(lw_proto_reader *r, lw_str bytes, uint32_t depth,
                                      lw_proto_value_info *out) {
  lw_wire wire = lw__wire_of(bytes);
  for (lw_wire_field f; lw__wire_next(&wire, &f);) {
    if (proto_is(&f, 1, LW_WIRE_BYTES)) LW_TRY(proto_read_type(r, f.bytes, depth + 1, out));
  }
  return proto_done(r, &wire);
}

/* TypeProto. A sequence, an optional or an optional sequence of tensors is understood; what is
 * nested otherwise has a type that is none of them. */
static lw_status proto_read_type(lw_proto_reader *r, lw_str bytes, uint32_t depth,
                                 lw_proto_value_info *out) {
  enum { OPTIONAL_OF_SEQUENCE = 2 };
  lw_wire wire = lw__wire_of(bytes);
  for (lw_wire_field f; lw__wire_next(&wire, &f);) {
    if (f.type != LW_WIRE_BYTES) continue;
    if (f.number == 1) {
      out->has_type = true;
      out->is_tensor = depth == 0;
      LW_TRY(proto_read_tensor_type(r, f.bytes, out));
    } else if (f.number == 4 || f.number == 5 || f.number == 7 || f.number == 8 || f.number == 9) {
      out->has_type = true; /* sequence, map, opaque, sparse tensor, optional */
      out->is_tensor = false;
      bool sequence = f.number == 4 && !out->is_sequence, optional = f.number == 9 && depth == 0;
      out->is_sequence |= sequence;
      out->is_optional |= optional;
      if ((sequence || optional) && depth < OPTIONAL_OF_SEQUENCE) {
        LW_TRY(proto_read_container(r, f.bytes, depth, out));
      } else {
        out->is_sequence = out->is_optional = false;
      }
    }
  }
  return proto_done(r, &wire);
}

static lw_status proto_read_value_info(lw_proto_reader *r, lw_str bytes, lw_proto_value_info *out) {
  lw_wire wire = lw__wire_of(bytes);
  for (lw_wire_field f; lw__wire_next(&wire, &f);) {
    if (proto_str(&f, 1, &out->name)) continue;
    if (proto_is(&f, 2, LW_WIRE_BYTES)) LW_TRY(proto_read_type(r, f.bytes, 0, out));
  }
  return proto_done(r, &wire);
}

static lw_status proto_graph_field(lw_proto_reader *r, const lw_wire_field *f, uint32_t depth,
                                   lw_proto_graph *out) {
  if (f->type != LW_WIRE_BYTES) return LW_OK;
  switch (f->number) {
    case 1:
      LW_TRY(proto_more(r, &out->nodes));
      return proto_read_node(r, f->bytes, depth, proto_new(&out->nodes));
    case 2: out->name = f->bytes; return LW_OK;
    case 5:
      LW_TRY(proto_more(r, &out->initializers));
      return proto_read_tensor(r, f->bytes, proto_new(&out->initializers));
    case 11:
      LW_TRY(proto_more(r, &out->inputs));
      return proto_read_value_info(r, f->bytes, proto_new(&out->inputs));
    case 12:
      LW_TRY(proto_more(r, &out->outputs));
      return proto_read_value_info(r, f->bytes, proto_new(&out->outputs));
    case 15: out->sparse_initializer_count++; return LW_OK;
    default: return LW_OK; /* value_info among them: shapes are inferred, never believed */
  }
}

static lw_status proto_read_graph(lw_proto_reader *r, lw_str bytes, uint32_t depth,
                                  lw_proto_graph *out) {
  LW_TRY(proto_deeper(r, depth));
  lw_wire wire = lw__wire_of(bytes);
  for (lw_wire_field f; lw__wire_next(&wire, &f);) LW_TRY(proto_graph_field(r, &f, depth, out));
  return proto_done(r, &wire);
}

static lw_status proto_add_opset(lw_proto_reader *r, lw_str bytes, lw_proto_opsets *list) {
  LW_TRY(proto_short(r, list->count, "imported operator sets"));
  LW_TRY(proto_more(r, list));
  lw_proto_opset *out = proto_new(list);
  lw_wire wire = lw__wire_of(bytes);
  for (lw_wire_field f; lw__wire_next(&wire, &f);) {
    (void)(proto_str(&f, 1, &out->domain) || proto_i64(&f, 2, &out->version));
  }
  return proto_done(r, &wire);
}

static lw_status proto_function_field(lw_proto_reader *r, const lw_wire_field *f,
                                      lw_proto_function *out) {
  if (f->type != LW_WIRE_BYTES) return LW_OK;
  switch (f->number) {
    case 1: out->name = f->bytes; return LW_OK;
    case 4: return proto_add_str(r, f, &out->inputs);
    case 5: return proto_add_str(r, f, &out->outputs);
    case 6: return proto_add_str(r, f, &out->attr_names);
    case 7:
      LW_TRY(proto_more(r, &out->nodes));
      return proto_read_node(r, f->bytes, 1, proto_new(&out->nodes));
    case 9: return proto_add_opset(r, f->bytes, &out->opsets);
    case 10: out->domain = f->bytes; return LW_OK;
    case 11:
      LW_TRY(proto_short(r, out->attr_defaults.count, "attributes of one function"));
      LW_TRY(proto_more(r, &out->attr_defaults));
      return proto_read_attr(r, f->bytes, 1, proto_new(&out->attr_defaults));
    case 13: out->overload = f->bytes; return LW_OK;
    default: return LW_OK;
  }
}

static lw_status proto_read_function(lw_proto_reader *r, lw_str bytes, lw_proto_function *out) {
  lw_wire wire = lw__wire_of(bytes);
  for (lw_wire_field f; lw__wire_next(&wire, &f);) LW_TRY(proto_function_field(r, &f, out));
  return proto_done(r, &wire);
}

static lw_status proto_model_field(lw_proto_reader *r, const lw_wire_field *f,
                                   lw_proto_model *out) {
  if (proto_i64(f, 1, &out->ir_version) || proto_i64(f, 5, &out->model_version) ||
      proto_str(f, 2, &out->producer_name) || proto_str(f, 3, &out->producer_version) ||
      proto_str(f, 4, &out->domain) || f->type != LW_WIRE_BYTES) {
    return LW_OK;
  }
  switch (f->number) {
    case 7: out->has_graph = true; return proto_read_graph(r, f->bytes, 0, &out->graph);
    case 8: return proto_add_opset(r, f->bytes, &out->opsets);
    case 25:
      LW_TRY(proto_more(r, &out->functions));
      return proto_read_function(r, f->bytes, proto_new(&out->functions));
    default: return LW_OK;
  }
}

lw_status lw__proto_read_model(lw_str bytes, const char *where, lw_arena *arena, lw_diag *diag,
                               lw_proto_model *out) {
  *out = (lw_proto_model){0};
  lw_proto_reader r = {arena, diag, where, (const uint8_t *)bytes.ptr};
  lw_wire wire = lw__wire_of(bytes);
  for (lw_wire_field f; lw__wire_next(&wire, &f);) LW_TRY(proto_model_field(&r, &f, out));
  return proto_done(&r, &wire);
}

lw_status lw__proto_read_tensor(lw_str bytes, const char *where, lw_arena *arena, lw_diag *diag,
                                lw_proto_tensor *out) {
  *out = (lw_proto_tensor){0};
  lw_proto_reader r = {arena, diag, where, (const uint8_t *)bytes.ptr};
  return proto_read_tensor(&r, bytes, out);
}

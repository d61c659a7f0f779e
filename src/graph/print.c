/* print.c: the text form of a graph (docs/graph-text.md). */
#include <locale.h>
#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "graph/text.h"

#define FIELD(op, key, kind, member, required, value) \
  { LW_OP_##op, key, LW_FIELD_##kind, offsetof(lw_attr, member), required, value }
const lw_field lw__text_fields[] = {
    FIELD(IOTA, "axis", U32, axis, true, 0),
    FIELD(CONCAT, "axis", U32, axis, true, 0),
    FIELD(PERMUTE, "perm", U8_LIST, perm, true, 0),
    FIELD(SLICE, "start", I64_LIST, slice.start, false, 0),
    FIELD(SLICE, "step", I64_LIST, slice.step, false, 1),
    FIELD(PAD, "lo", I64_LIST, pad.lo, false, 0),
    FIELD(PAD, "value", SCALAR, pad.value, false, 0),
    FIELD(WINDOW, "axis", U8_LIST, window.axis, true, 0),
    FIELD(WINDOW, "stride", I64_LIST, window.stride, false, 1),
    FIELD(WINDOW, "dilation", I64_LIST, window.dilation, false, 1),
    FIELD(REDUCE, "axes", MASK, reduce.axes, true, 0),
    FIELD(CONV, "stride", I64_LIST, conv.stride, false, 1),
    FIELD(CONV, "dilation", I64_LIST, conv.dilation, false, 1),
    FIELD(CONV, "pad_lo", I64_LIST, conv.pad_lo, false, 0),
    FIELD(CONV, "pad_hi", I64_LIST, conv.pad_hi, false, 0),
    FIELD(CONV, "group", I64, conv.group, false, 1),
    FIELD(CONV, "transposed", FLAG, conv.transposed, false, 0),
    FIELD(GATHER, "select", I8_LIST, gather.select, true, 0),
};
const size_t lw__text_field_count = LW_ARRAY_COUNT(lw__text_fields);

uint32_t lw__text_list_length(lw_op op, const lw_attr *attr, uint32_t rank) {
  uint32_t length = op == LW_OP_WINDOW ? attr->window.count
                    : op == LW_OP_CONV ? attr->conv.spatial
                                       : rank;
  return length < LW_MAX_RANK ? length : LW_MAX_RANK;
}

lw_text_locale lw__text_locale_enter(void) {
  lw_text_locale locale = {0};
  locale.ours = newlocale(LC_ALL_MASK, "C", (locale_t)0);
  if (locale.ours != NULL) locale.before = uselocale(locale.ours);
  return locale;
}

void lw__text_locale_leave(lw_text_locale locale) {
  if (locale.ours == NULL) return;
  uselocale(locale.before);
  freelocale(locale.ours);
}

/* ---- numbers ----------------------------------------------------------------------------------*/

static void add_nan(lw_text *out, lw_dtype dtype, const void *data, int64_t index) {
  uint64_t bits = 0, usual = 0;
  size_t size = lw_dtype_size_bytes(dtype);
  memcpy(&bits, (const char *)data + (size_t)index * size, size);
  lw__elem_set_f64(dtype, &usual, 0, NAN);
  if (bits == usual) {
    lw__text_add(out, "nan");
  } else {
    lw__text_add(out, "nan(0x%llx)", (unsigned long long)bits);
  }
}

void lw__text_add_element(lw_text *out, lw_dtype dtype, const void *data, int64_t index) {
  if (!lw__dtype_is_float(dtype)) {
    int64_t i = lw__elem_get_i64(dtype, data, index);
    lw__text_add(out, dtype == LW_DTYPE_U64 ? "%llu" : "%lld", (unsigned long long)i);
    return;
  }
  static const int precisions[] = {6, 9, 15, 17};
  char text[40];
  double x = lw__elem_get_f64(dtype, data, index);
  if (isnan(x)) {
    add_nan(out, dtype, data, index);
    return;
  }
  for (size_t i = 0; i < LW_ARRAY_COUNT(precisions); i++) {
    snprintf(text, sizeof text, "%.*g", precisions[i], x);
    if (lw__round_to(dtype, strtod(text, NULL)) == x) break;
  }
  lw__text_add(out, "%s", text);
}

static void add_scalar(lw_text *out, lw_dtype dtype, lw_scalar value) {
  uint64_t element = 0;
  if (lw__dtype_is_float(dtype)) {
    lw__elem_set_f64(dtype, &element, 0, value.f);
  } else {
    lw__elem_set_i64(dtype, &element, 0, value.i);
  }
  lw__text_add_element(out, dtype, &element, 0);
}

/* ---- attributes -------------------------------------------------------------------------------*/

static int64_t list_entry(const lw_field *field, const void *data, uint32_t i) {
  switch (field->kind) {
    case LW_FIELD_U8_LIST: return ((const uint8_t *)data)[i];
    case LW_FIELD_I8_LIST: return ((const int8_t *)data)[i];
    default: return ((const int64_t *)data)[i];
  }
}

static void add_list(lw_text *out, const lw_field *field, const void *data, uint32_t length) {
  lw__text_add(out, " %s=[", field->key);
  for (uint32_t i = 0; i < length; i++) {
    lw__text_add(out, "%s%lld", i > 0 ? ", " : "", (long long)list_entry(field, data, i));
  }
  lw__text_add(out, "]");
}

static void add_mask(lw_text *out, const char *key, uint32_t mask) {
  const char *separator = "";
  lw__text_add(out, " %s=[", key);
  for (uint32_t d = 0; d < 32; d++) {
    if ((mask >> d & 1) == 0) continue;
    lw__text_add(out, "%s%u", separator, d);
    separator = ", ";
  }
  lw__text_add(out, "]");
}

static void add_field(lw_text *out, const lw_field *field, const lw_attr *attr, lw_dtype dtype,
                      uint32_t length) {
  const void *data = (const char *)attr + field->offset;
  switch (field->kind) {
    case LW_FIELD_U8_LIST:
    case LW_FIELD_I8_LIST:
    case LW_FIELD_I64_LIST: add_list(out, field, data, length); return;
    case LW_FIELD_U32: lw__text_add(out, " %s=%u", field->key, *(const uint32_t *)data); return;
    case LW_FIELD_I64:
      lw__text_add(out, " %s=%lld", field->key, (long long)*(const int64_t *)data);
      return;
    case LW_FIELD_MASK: add_mask(out, field->key, *(const uint32_t *)data); return;
    case LW_FIELD_SCALAR:
      lw__text_add(out, " %s=", field->key);
      add_scalar(out, dtype, *(const lw_scalar *)data);
      return;
    case LW_FIELD_FLAG:
      if (*(const bool *)data) lw__text_add(out, " %s", field->key);
      return;
  }
}

static void add_storage(lw_text *out, const lw_value *v) {
  bool usual = true;
  for (uint32_t d = 0; d < v->shape.rank; d++) usual &= v->storage.order[d] == d;
  if (usual) return;
  lw__text_add(out, " order=[");
  for (uint32_t d = 0; d < v->shape.rank; d++)
    lw__text_add(out, "%s%u", d > 0 ? ", " : "", v->storage.order[d]);
  lw__text_add(out, "]");
}

static void add_data(lw_text *out, const lw_node *node, lw_dtype dtype, bool full) {
  size_t size = lw_dtype_size_bytes(dtype), count = size > 0 ? node->attr.constant.bytes / size : 0;
  if (count > LW_TEXT_INLINE_ELEMENTS && !full) {
    char hex[33];
    lw__hash_hex(
        lw__hash_bytes(node->attr.constant.data, node->attr.constant.bytes, (lw_hash){0, 0}), hex);
    lw__text_add(out, " {...} hash=%s", hex);
    return;
  }
  lw__text_add(out, " {");
  for (size_t i = 0; i < count; i++) {
    if (i > 0) lw__text_add(out, ", ");
    lw__text_add_element(out, dtype, node->attr.constant.data, (int64_t)i);
  }
  lw__text_add(out, "}");
}

/* ---- lines ------------------------------------------------------------------------------------*/

typedef struct printer {
  const lw_graph *g;
  lw_text *out;
  bool full;
  uint32_t *number; /* per value: its line; LW_NONE: not printed yet */
  uint32_t lines;
  lw_map names; /* name -> the value that has it in the text: the first one */
} printer;

/* Numbers count the lines, so that they are the same again after parsing. */
static void add_label(printer *p, lw_value_id v) {
  const char *name = v < p->g->values.count ? lw__value(p->g, v)->name : NULL;
  if (name != NULL && lw__map_get(&p->names, lw__str_of(name)) == v) {
    lw__text_add(p->out, "%%");
    lw__text_add_name(p->out, name);
  } else if (v < p->g->values.count && p->number[v] != LW_NONE) {
    lw__text_add(p->out, "%%%u", p->number[v]);
  } else {
    lw__text_add(p->out, "%%?"); /* dead, or later in the text: a graph in the middle of a pass */
  }
}

static void print_node(printer *p, const lw_node *node) {
  const lw_value *v = lw__value(p->g, node->result);
  p->number[node->result] = p->lines++;
  add_label(p, node->result);
  lw__text_add(p->out, " = ");
  lw__text_add_op(p->out, node->op, &node->attr);
  lw__text_add(p->out, " %s", lw_dtype_name(v->dtype));
  lw__shape_print(p->g, &v->shape, p->out);
  for (uint32_t i = 0; i < node->operand_count; i++) {
    lw__text_add(p->out, i > 0 ? ", " : " ");
    add_label(p, lw__operand(p->g, node, i));
  }
  uint32_t rank =
      node->operand_count > 0 ? lw__value(p->g, lw__operand(p->g, node, 0))->shape.rank : 0;
  for (size_t i = 0; i < lw__text_field_count; i++) {
    const lw_field *field = &lw__text_fields[i];
    if (field->op != node->op) continue;
    add_field(p->out, field, &node->attr, v->dtype,
              lw__text_list_length(node->op, &node->attr, rank));
  }
  if (node->op == LW_OP_CONST) add_data(p->out, node, v->dtype, p->full);
  add_storage(p->out, v);
  if (node->name != NULL && node->name[0] != '\0') {
    lw__text_add(p->out, "  ; ");
    lw__text_add_escaped(p->out, node->name);
  }
  lw__text_add(p->out, "\n");
}

static lw_status claim_name(printer *p, lw_value_id v) {
  const char *name = lw__value(p->g, v)->name;
  if (name == NULL || name[0] == '\0') return LW_OK;
  bool added = false;
  uint32_t holder = LW_NONE;
  return lw__map_put(&p->names, lw__str_of(name), v, &added, &holder);
}

/* Inputs come first and in the caller's order, which the parser takes over. */
static lw_status print_all(printer *p) {
  const lw_graph *g = p->g;
  for (uint32_t i = 0; i < g->inputs.count; i++) LW_TRY(claim_name(p, g->inputs.data[i]));
  for (uint32_t n = 0; n < g->nodes.count; n++) {
    if (!lw__node(g, n)->dead) LW_TRY(claim_name(p, lw__node(g, n)->result));
  }
  for (uint32_t i = 0; i < g->inputs.count; i++) print_node(p, lw__producer(g, g->inputs.data[i]));
  for (uint32_t n = 0; n < g->nodes.count; n++) {
    const lw_node *node = lw__node(g, n);
    if (!node->dead && p->number[node->result] == LW_NONE) print_node(p, node);
  }
  for (uint32_t i = 0; i < g->outputs.count; i++) {
    lw__text_add(p->out, "output ");
    lw__text_add_name(p->out, g->output_names.data[i]);
    lw__text_add(p->out, " ");
    add_label(p, g->outputs.data[i]);
    lw__text_add(p->out, "\n");
  }
  return LW_OK;
}

void lw__graph_print(const lw_graph *graph, bool full, lw_text *out) {
  printer p = {.g = graph, .out = out, .full = full};
  void *number = NULL;
  lw_status status = lw__mem_resize(&number, ((size_t)graph->values.count + 1) * sizeof *p.number);
  if (status == LW_OK) {
    lw_text_locale locale = lw__text_locale_enter();
    memset(number, 0xff, ((size_t)graph->values.count + 1) * sizeof *p.number);
    p.number = number;
    status = print_all(&p);
    lw__text_locale_leave(locale);
  }
  if (status != LW_OK) out->status = status;
  lw__map_deinit(&p.names);
  lw__mem_free(number);
}

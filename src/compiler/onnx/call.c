/* call.c: what operator functions see of their node: inputs, attributes, known contents, errors. */
#include "compiler/onnx/call.h"

#include <stdio.h>
#include <string.h>

#include "compiler/onnx/import_internal.h"

/* ---- failing --------------------------------------------------------------------------------*/

static void LW_PRINTF(3, 0) call_fail(lw_call *c, lw_status status, const char *fmt, va_list args) {
  if (c->status != LW_OK) return;
  lw_text text = {0};
  lw__text_vadd(&text, fmt, args);
  c->status = status;
  if (status == LW_STATUS_UNSUPPORTED) {
    const char *reason = "";
    lw_status kept = lw__arena_strndup(&c->im->arena, lw__text_str(&text), text.len, &reason);
    if (kept == LW_OK) {
      kept = lw__import_finding(c->im, c->proto->op_type, c->proto->domain, c->opset,
                                c->proto->name, reason);
    }
    if (kept != LW_OK) c->status = kept;
  } else {
    (void)lw__fail(c->im->diag, status, c->graph->where, "%s", lw__text_str(&text));
  }
  lw__text_deinit(&text);
}

#define CALL_FAIL(c, status, fmt)        \
  va_list args;                          \
  va_start(args, fmt);                   \
  call_fail((c), (status), (fmt), args); \
  va_end(args)

void lw__call_invalid(lw_call *c, const char *fmt, ...) {
  CALL_FAIL(c, LW_STATUS_MODEL_INVALID, fmt);
}
void lw__call_usage(lw_call *c, const char *fmt, ...) { CALL_FAIL(c, LW_STATUS_USAGE, fmt); }
void lw__call_unsupported(lw_call *c, const char *fmt, ...) {
  CALL_FAIL(c, LW_STATUS_UNSUPPORTED, fmt);
}

bool lw__call_keep(lw_call *c, lw_status status) {
  if (c->status == LW_OK) c->status = status;
  return c->status == LW_OK;
}

static bool call_is_symbolic(const lw_call *c) {
  for (uint32_t i = 0; i < c->in_count; i++) {
    if (c->in[i] == LW_NONE) continue;
    if (!lw__shape_is_static(&lw__value(c->graph, c->in[i])->shape)) return true;
  }
  return false;
}

void lw__import_list_symbols(const lw_graph *graph, lw_text *out) {
  for (uint32_t s = 0; s < graph->extents.nodes.count; s++) {
    const lw_extent_node *node = &graph->extents.nodes.data[s];
    if (node->op != LW_EXTENT_SYMBOL) continue;
    lw__text_add(out, "%s--dim %s=N", out->len == 0 ? "" : " ", node->symbol);
  }
}

bool lw__call_graph(lw_call *c, lw_status status) {
  if (c->status != LW_OK || status != LW_STATUS_UNSUPPORTED) return lw__call_keep(c, status);
  const char *text = "the graph cannot express it";
  if (c->im->diag != NULL && c->im->diag->messages.count != 0) {
    text = c->im->diag->messages.data[--c->im->diag->messages.count].text;
  }
  if (call_is_symbolic(c)) {
    lw_text symbols = {0};
    lw__import_list_symbols(c->graph, &symbols);
    lw__call_usage(c, "%s; give numbers with %s", text, lw__text_str(&symbols));
    lw__text_deinit(&symbols);
  } else {
    lw__call_unsupported(c, "%s", text);
  }
  return false;
}

/* ---- inputs, outputs ------------------------------------------------------------------------*/

bool lw__call_has(const lw_call *c, uint32_t i) { return i < c->in_count && c->in[i] != LW_NONE; }

lw_value_id lw__call_in(lw_call *c, uint32_t i) {
  if (c->status != LW_OK) return LW_NONE;
  return i < c->in_count ? c->in[i] : LW_NONE;
}

bool lw__call_wants(const lw_call *c, uint32_t i) {
  return i < c->out_count && c->proto->outputs.data[i].len != 0;
}

void lw__call_out(lw_call *c, uint32_t i, lw_value_id value) {
  if (c->status == LW_OK && i < c->out_count) c->out[i] = value;
}

/* ---- attributes -----------------------------------------------------------------------------*/

static const lw_proto_attr *call_find_attr(const lw_proto_attr *attrs, uint32_t count, lw_str name,
                                           uint32_t *out_index) {
  for (uint32_t i = 0; i < count; i++) {
    if (!lw__str_eq(attrs[i].name, name)) continue;
    *out_index = i;
    return &attrs[i];
  }
  return NULL;
}

/* Follows references to attributes of the enclosing functions' calls. */
static const lw_proto_attr *call_resolve(const lw_proto_attr *attr, const lw_frame *frame) {
  uint32_t index;
  while (attr != NULL && attr->ref_name.len != 0) {
    if (frame == NULL) return NULL;
    lw_str name = attr->ref_name;
    attr = call_find_attr(frame->call->attrs.data, frame->call->attrs.count, name, &index);
    if (attr == NULL) {
      const lw_proto_function *f = frame->function;
      return call_find_attr(f->attr_defaults.data, f->attr_defaults.count, name, &index);
    }
    frame = frame->outer;
  }
  return attr;
}

const lw_proto_attr *lw__call_attr(lw_call *c, const char *name) {
  if (c->status != LW_OK) return NULL;
  uint32_t index = 0;
  const lw_proto_attr *attr =
      call_find_attr(c->proto->attrs.data, c->proto->attrs.count, lw__str_of(name), &index);
  if (attr == NULL) return NULL;
  if (index < 64) c->attrs_read |= UINT64_C(1) << index;
  return call_resolve(attr, c->im->frame);
}

void lw__call_ignore(lw_call *c, const char *name) { (void)lw__call_attr(c, name); }

static void call_wrong_attr(lw_call *c, const char *name, const char *want) {
  lw__call_invalid(c, "attribute '%s' must be %s", name, want);
}

int64_t lw__call_int(lw_call *c, const char *name, int64_t otherwise) {
  const lw_proto_attr *attr = lw__call_attr(c, name);
  if (attr == NULL) return otherwise;
  if (attr->type == LW_ATTR_INT) return attr->i;
  call_wrong_attr(c, name, "an integer");
  return otherwise;
}

double lw__call_float(lw_call *c, const char *name, double otherwise) {
  const lw_proto_attr *attr = lw__call_attr(c, name);
  if (attr == NULL) return otherwise;
  if (attr->type == LW_ATTR_FLOAT) return (double)attr->f;
  if (attr->type == LW_ATTR_INT) return (double)attr->i;
  call_wrong_attr(c, name, "a float");
  return otherwise;
}

lw_str lw__call_str(lw_call *c, const char *name, const char *otherwise) {
  const lw_proto_attr *attr = lw__call_attr(c, name);
  if (attr == NULL) return lw__str_of(otherwise);
  if (attr->type == LW_ATTR_STRING) return attr->s;
  call_wrong_attr(c, name, "a string");
  return lw__str_of(otherwise);
}

const int64_t *lw__call_ints(lw_call *c, const char *name, uint32_t *out_count) {
  *out_count = 0;
  const lw_proto_attr *attr = lw__call_attr(c, name);
  if (attr == NULL) return NULL;
  if (attr->type == LW_ATTR_INT) {
    *out_count = 1;
    return &attr->i;
  }
  if (attr->type != LW_ATTR_INTS) {
    call_wrong_attr(c, name, "a list of integers");
    return NULL;
  }
  *out_count = attr->ints.count;
  return attr->ints.data;
}

bool lw__call_ints_of(lw_call *c, const char *name, uint32_t want, int64_t otherwise,
                      int64_t *out) {
  uint32_t count;
  const int64_t *given = lw__call_ints(c, name, &count);
  if (count != 0 && count != want) {
    lw__call_invalid(c, "attribute '%s' has %u entries, it needs %u", name, count, want);
  }
  for (uint32_t i = 0; i < want; i++) out[i] = count == want ? given[i] : otherwise;
  return c->status == LW_OK;
}

uint32_t lw__call_choice(lw_call *c, const char *name, const char *const *names) {
  lw_str s = lw__call_str(c, name, names[0]);
  for (uint32_t i = 0; names[i] != NULL; i++) {
    if (lw__str_is(s, names[i])) return i;
  }
  lw__call_unsupported(c, "%s '%.*s'", name, (int)lw__min_i64((int64_t)s.len, 60), s.ptr);
  return 0;
}

/* ---- known contents -------------------------------------------------------------------------*/

/* Why an input's elements are not known: a symbol without a number, or data. */
static void call_unknown(lw_call *c, uint32_t i, bool symbolic) {
  lw_str name = c->proto->inputs.data[i];
  int length = (int)lw__min_i64((int64_t)name.len, 200);
  if (!symbolic) {
    lw__call_unsupported(
        c,
        "input %u ('%.*s') is computed from data, and shapes must be known when the model is read",
        i, length, name.ptr);
    return;
  }
  lw_text symbols = {0};
  lw__import_list_symbols(c->graph, &symbols);
  lw__call_usage(
      c,
      "input %u ('%.*s') depends on symbolic dimensions and must be known when the model is read: "
      "give them numbers with %s",
      i, length, name.ptr, lw__text_str(&symbols));
  lw__text_deinit(&symbols);
}

void *lw__b_alloc(lw_call *c, int64_t count, size_t size) {
  void *data = NULL;
  if (c->status != LW_OK) return NULL;
  if (count < 0 || count > c->im->limits.table_elements - c->im->table_elements) {
    lw__call_unsupported(c, "a table of %lld elements", (long long)count);
    return NULL;
  }
  c->im->table_elements += count;
  return lw__call_keep(c, lw__arena_alloc(&c->im->arena, (size_t)count, size, &data)) ? data : NULL;
}

const lw_content_elem *lw__call_elems(lw_call *c, uint32_t i, uint32_t *out_count) {
  *out_count = 0;
  lw_value_id v = lw__call_in(c, i);
  if (v == LW_NONE) return NULL;
  lw_shape shape = lw__b_shape(c, v);
  const lw_contents *contents = &c->im->contents;
  if (!lw__contents_has(contents, v)) {
    call_unknown(c, i, !lw__shape_is_static(&shape));
    return NULL;
  }
  int64_t count = lw__shape_numel(&shape);
  lw_content_elem *elems = lw__b_alloc(c, count, sizeof *elems);
  if (elems == NULL) return NULL;
  for (int64_t k = 0; k < count; k++) {
    (void)lw__contents_get(contents, v, k, &elems[k]);
    if (elems[k].kind == LW_CONTENT_UNKNOWN) {
      call_unknown(c, i, true);
      return NULL;
    }
  }
  *out_count = (uint32_t)count;
  return elems;
}

const int64_t *lw__call_numbers(lw_call *c, uint32_t i, uint32_t *out_count) {
  const lw_content_elem *elems = lw__call_elems(c, i, out_count);
  if (elems == NULL) return NULL;
  if (lw__dtype_is_float(lw__b_dtype(c, c->in[i]))) {
    lw__call_invalid(c, "input %u must be of an integer type", i);
    return NULL;
  }
  int64_t *numbers = lw__b_alloc(c, *out_count, sizeof *numbers);
  for (uint32_t k = 0; numbers != NULL && k < *out_count; k++) {
    if (elems[k].kind == LW_CONTENT_EXTENT) {
      numbers[k] = lw__call_static(c, elems[k].extent);
      if (c->status != LW_OK) return NULL;
    } else {
      numbers[k] = elems[k].value.i;
    }
  }
  return numbers;
}

const double *lw__call_floats(lw_call *c, uint32_t i, uint32_t *out_count) {
  const lw_content_elem *elems = lw__call_elems(c, i, out_count);
  if (elems == NULL) return NULL;
  bool is_float = lw__dtype_is_float(lw__b_dtype(c, c->in[i]));
  double *numbers = lw__b_alloc(c, *out_count, sizeof *numbers);
  for (uint32_t k = 0; numbers != NULL && k < *out_count; k++) {
    if (elems[k].kind == LW_CONTENT_EXTENT) {
      numbers[k] = (double)lw__call_static(c, elems[k].extent);
      if (c->status != LW_OK) return NULL;
    } else {
      numbers[k] = is_float ? elems[k].value.f : (double)elems[k].value.i;
    }
  }
  return numbers;
}

int64_t lw__call_number(lw_call *c, uint32_t i, int64_t otherwise) {
  if (c->status != LW_OK || !lw__call_has(c, i)) return otherwise;
  uint32_t count;
  const int64_t *numbers = lw__call_numbers(c, i, &count);
  if (numbers == NULL) return otherwise;
  if (count == 1) return numbers[0];
  lw__call_invalid(c, "input %u must be a single number", i);
  return otherwise;
}

bool lw__call_known_scalar(const lw_call *c, lw_value_id value, double *out) {
  if (value == LW_NONE || !lw__contents_has(&c->im->contents, value)) return false;
  const lw_value *v = lw__value(c->graph, value);
  lw_content_elem e;
  if (lw__shape_numel(&v->shape) != 1) return false;
  (void)lw__contents_get(&c->im->contents, value, 0, &e);
  *out = lw__dtype_is_float(v->dtype) ? e.value.f : (double)e.value.i;
  return e.kind == LW_CONTENT_NUMBER;
}

bool lw__call_shape_input(lw_call *c, uint32_t i, lw_content_elem *out, uint32_t *out_rank) {
  const lw_content_elem *elems = lw__call_elems(c, i, out_rank);
  if (elems == NULL) return false;
  if (lw__b_rank(c, c->in[i]) > 1 || lw__dtype_is_float(lw__b_dtype(c, c->in[i]))) {
    lw__call_invalid(c, "input %u must be a 1-D integer tensor", i);
    return false;
  }
  if (*out_rank > LW_MAX_RANK) {
    lw__call_unsupported(c, "a shape of %u dimensions (the most are %d)", *out_rank, LW_MAX_RANK);
    return false;
  }
  for (uint32_t d = 0; d < *out_rank; d++) out[d] = elems[d];
  return true;
}

/* ---- axes and extents -----------------------------------------------------------------------*/

uint32_t lw__call_axis(lw_call *c, int64_t axis, uint32_t rank) {
  if (axis >= -(int64_t)rank && axis < (int64_t)rank)
    return (uint32_t)(axis < 0 ? axis + rank : axis);
  lw__call_invalid(c, "axis %lld is outside a tensor of %u dimensions", (long long)axis, rank);
  return 0;
}

uint32_t lw__call_axis_attr(lw_call *c, const char *name, int64_t otherwise, uint32_t rank) {
  return lw__call_axis(c, lw__call_int(c, name, otherwise), rank);
}

uint32_t lw__call_axes(lw_call *c, int64_t input_since, uint32_t rank, bool *out_given) {
  uint32_t count = 0, mask = 0;
  const int64_t *axes = NULL;
  *out_given = false;
  if (c->opset < input_since)
    axes = lw__call_ints(c, "axes", &count);
  else if (lw__call_has(c, 1))
    axes = lw__call_numbers(c, 1, &count);
  for (uint32_t i = 0; i < count; i++) {
    uint32_t axis = lw__call_axis(c, axes[i], rank);
    if (mask >> axis & 1) lw__call_invalid(c, "axis %u is named twice", axis);
    if (c->status != LW_OK) return 0;
    mask |= 1u << axis;
  }
  *out_given = count != 0;
  return mask;
}

/* Whether the expression |id| contains symbol |symbol|; expressions are small (graph/extent.c
 * bounds their size). */
static bool call_extent_uses(const lw_graph *graph, uint32_t id, uint32_t symbol) {
  const lw_extent_node *node = &graph->extents.nodes.data[id];
  if (id == symbol || node->op == LW_EXTENT_SYMBOL) return id == symbol;
  return (!node->a_is_literal && call_extent_uses(graph, (uint32_t)~node->a, symbol)) ||
         (!node->b_is_literal && call_extent_uses(graph, (uint32_t)~node->b, symbol));
}

int64_t lw__call_static(lw_call *c, lw_extent extent) {
  if (c->status != LW_OK) return 0;
  if (lw__extent_is_number(extent)) return extent;
  lw_text text = {0};
  lw__extent_print(c->graph, extent, &text);
  lw__text_add(&text, "' must be a number here: give ");
  bool several = false;
  for (uint32_t s = 0; s < c->graph->extents.nodes.count; s++) {
    const lw_extent_node *node = &c->graph->extents.nodes.data[s];
    if (node->op != LW_EXTENT_SYMBOL || !call_extent_uses(c->graph, (uint32_t)~extent, s)) continue;
    lw__text_add(&text, "%s--dim %s=N", several ? " " : "", node->symbol);
    several = true;
  }
  lw__call_usage(c, "the dimension '%s", lw__text_str(&text));
  lw__text_deinit(&text);
  return 0;
}

lw_extent lw__call_extent(lw_call *c, lw_extent_op op, lw_extent a, lw_extent b) {
  lw_extent out = 0;
  if (c->status == LW_OK) (void)lw__call_graph(c, lw__extent_make(c->graph, op, a, b, &out));
  return out;
}

lw_extent lw__call_affine(lw_call *c, lw_extent a, int64_t mul, int64_t add) {
  lw_extent out = 0;
  if (c->status == LW_OK) (void)lw__call_graph(c, lw__extent_affine(c->graph, a, mul, add, &out));
  return out;
}

bool lw__call_same_extent(const lw_call *c, lw_extent a, lw_extent b) {
  return lw__extent_provably_equal(c->graph, a, b);
}

lw_shape lw__call_broadcast_shape(lw_call *c, const lw_shape *a, const lw_shape *b) {
  lw_shape out = {.rank = a->rank > b->rank ? a->rank : b->rank};
  for (uint32_t d = 0; d < out.rank && c->status == LW_OK; d++) {
    lw_extent x = d + a->rank >= out.rank ? a->dim[d + a->rank - out.rank] : 1;
    lw_extent y = d + b->rank >= out.rank ? b->dim[d + b->rank - out.rank] : 1;
    if (x == 1 || y == 1)
      out.dim[d] = x == 1 ? y : x;
    else if (lw__call_same_extent(c, x, y))
      out.dim[d] = lw__extent_is_number(y) ? y : x;
    else if (!lw__extent_is_number(x))
      (void)lw__call_static(c, x);
    else if (!lw__extent_is_number(y))
      (void)lw__call_static(c, y);
    else
      lw__call_invalid(c, "dimensions %lld and %lld do not broadcast", (long long)x, (long long)y);
  }
  return out;
}

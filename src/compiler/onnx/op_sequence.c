/* op_sequence.c: sequences of tensors. They exist on import only: a list of values behind a
 * stand-in value; positions and lengths must be known. */
#include <string.h>

#include "compiler/onnx/import_internal.h"
#include "compiler/onnx/op.h"

/* ---- lists ----------------------------------------------------------------------------------*/

const lw_import_sequence *lw__import_sequence(const lw_import *im, lw_value_id value) {
  uint32_t lo = 0, hi = im->sequences.count; /* in order of ids: they only grow */
  while (lo < hi) {
    uint32_t mid = (lo + hi) / 2;
    const lw_import_sequence *s = &im->sequences.data[mid];
    if (s->stand_in == value) return s;
    if (s->stand_in < value)
      lo = mid + 1;
    else
      hi = mid;
  }
  return NULL;
}

static lw_import_sequence sequence_in(lw_call *c, uint32_t i) {
  lw_value_id v = lw__call_in(c, i);
  const lw_import_sequence *s = v == LW_NONE ? NULL : lw__import_sequence(c->im, v);
  if (s != NULL) return *s;
  lw__call_invalid(c, "input %u must be a sequence", i);
  return (lw_import_sequence){0};
}

lw_status lw__import_add_sequence(lw_import *im, lw_value_id *items, uint32_t count,
                                  lw_value_id *out) {
  LW_TRY(lw__graph_scalar(im->graph, LW_DTYPE_BOOL, 0, out));
  return lw_vec_push(&im->sequences, (lw_import_sequence){*out, items, count});
}

/* A new sequence as output 0. |items| live as long as the import. */
static void sequence_out(lw_call *c, lw_value_id *items, uint32_t count) {
  lw_value_id stand_in;
  if (!lw__call_ok(c)) return;
  if (lw__call_keep(c, lw__import_add_sequence(c->im, items, count, &stand_in)))
    lw__call_out(c, 0, stand_in);
}

/* Position given by input |i|, counted from the end when negative; |otherwise| when left out. */
static uint32_t sequence_position(lw_call *c, uint32_t i, uint32_t length, uint32_t count,
                                  int64_t otherwise) {
  int64_t at = lw__call_number(c, i, otherwise);
  if (at < 0) at += length;
  if (at >= 0 && at < count) return (uint32_t)at;
  lw__call_invalid(c, "position %lld of a sequence of %u", (long long)at, length);
  return 0;
}

/* ---- operators ------------------------------------------------------------------------------*/

void lw__op_sequence_construct(lw_call *c) { /* SequenceEmpty too */
  lw__call_ignore(c, "dtype");
  lw_value_id *items = lw__b_alloc(c, c->in_count, sizeof *items);
  for (uint32_t i = 0; items != NULL && i < c->in_count; i++) {
    items[i] = lw__call_in(c, i);
    if (items[i] == LW_NONE) lw__call_invalid(c, "its input %u is missing", i);
  }
  sequence_out(c, items, c->in_count);
}

void lw__op_sequence_at(lw_call *c) {
  lw_import_sequence s = sequence_in(c, 0);
  uint32_t at = sequence_position(c, 1, s.count, s.count, 0);
  if (lw__call_ok(c)) lw__call_out(c, 0, s.items[at]);
}

void lw__op_sequence_length(lw_call *c) {
  int64_t count = sequence_in(c, 0).count;
  lw__call_out(c, 0, lw__b_const(c, LW_DTYPE_I64, &(lw_shape){0}, &count));
}

void lw__op_sequence_insert(lw_call *c) {
  lw_import_sequence s = sequence_in(c, 0);
  lw_value_id *items = lw__b_alloc(c, (int64_t)s.count + 1, sizeof *items);
  uint32_t at = sequence_position(c, 2, s.count, s.count + 1, s.count);
  if (items == NULL || !lw__call_ok(c)) return;
  for (uint32_t i = 0; i <= s.count; i++) {
    items[i] = i < at ? s.items[i] : i == at ? lw__call_in(c, 1) : s.items[i - 1];
  }
  sequence_out(c, items, s.count + 1);
}

void lw__op_sequence_erase(lw_call *c) {
  lw_import_sequence s = sequence_in(c, 0);
  lw_value_id *items = lw__b_alloc(c, s.count, sizeof *items);
  uint32_t at = sequence_position(c, 1, s.count, s.count, (int64_t)s.count - 1);
  if (items == NULL || !lw__call_ok(c)) return;
  for (uint32_t i = 0, k = 0; i < s.count; i++) {
    if (i != at) items[k++] = s.items[i];
  }
  sequence_out(c, items, s.count - 1);
}

/* The body for every element of the first sequence; other sequences go along, tensors stay. */
void lw__op_sequence_map(lw_call *c) {
  const lw_proto_attr *attr = lw__call_attr(c, "body");
  lw_import_sequence s = sequence_in(c, 0);
  lw_value_id *in = lw__b_alloc(c, c->in_count, sizeof *in);
  lw_value_id *out = lw__b_alloc(c, (int64_t)s.count * c->out_count, sizeof *out);
  if (lw__call_ok(c) && (attr == NULL || attr->g == NULL)) lw__call_invalid(c, "it has no body");
  if (in == NULL || out == NULL || !lw__call_ok(c)) return;
  lw_value_id *results = lw__b_alloc(c, c->out_count, sizeof *results);
  for (uint32_t k = 0; results != NULL && k < s.count && lw__call_ok(c); k++) {
    for (uint32_t i = 0; i < c->in_count; i++) {
      const lw_import_sequence *other = lw__import_sequence(c->im, c->in[i]);
      if (other != NULL && other->count != s.count)
        lw__call_invalid(c, "sequences of different lengths");
      if (!lw__call_ok(c)) return;
      in[i] = other == NULL ? c->in[i] : other->items[k];
    }
    lw__call_inline(c, attr->g, in, c->in_count, results, c->out_count);
    for (uint32_t i = 0; i < c->out_count; i++) out[i * s.count + k] = results[i];
  }
  for (uint32_t i = 0; i < c->out_count && lw__call_ok(c); i++) {
    lw_value_id stand_in;
    lw_value_id *items = out + (size_t)i * s.count;
    if (lw__call_keep(c, lw__import_add_sequence(c->im, items, s.count, &stand_in)))
      lw__call_out(c, i, stand_in);
  }
}

/* ---- optionals: the value itself, or nothing --------------------------------------------------*/

void lw__op_optional(lw_call *c) {
  lw__call_ignore(c, "type");
  lw__call_out(c, 0, lw__call_has(c, 0) ? c->in[0] : LW_IMPORT_ABSENT);
}

void lw__op_optional_has_element(lw_call *c) {
  lw__call_out(c, 0, lw__b_scalar(c, LW_DTYPE_BOOL, lw__call_has(c, 0)));
}

void lw__op_optional_get_element(lw_call *c) {
  if (!lw__call_has(c, 0)) lw__call_invalid(c, "the optional is empty");
  lw__call_out(c, 0, lw__call_in(c, 0));
}

void lw__op_concat_from_sequence(lw_call *c) {
  lw_import_sequence s = sequence_in(c, 0);
  bool new_axis = lw__call_int(c, "new_axis", 0) != 0;
  lw_value_id *parts = lw__b_alloc(c, s.count, sizeof *parts);
  if (lw__call_ok(c) && s.count == 0) lw__call_invalid(c, "an empty sequence");
  if (parts == NULL || !lw__call_ok(c)) return;
  uint32_t axis = lw__call_axis_attr(c, "axis", 0, lw__b_rank(c, s.items[0]) + new_axis);
  for (uint32_t i = 0; i < s.count; i++)
    parts[i] = new_axis ? lw__b_unsqueeze(c, s.items[i], axis) : s.items[i];
  lw__call_out(c, 0, lw__b_concat(c, parts, s.count, axis));
}

/* Parts of |sizes|, or of one size with a shorter last part; without sizes single elements. */
void lw__op_split_to_sequence(lw_call *c) {
  lw_value_id x = lw__call_in(c, 0);
  uint32_t axis = lw__call_axis_attr(c, "axis", 0, lw__b_rank(c, x)), count = 0, parts = 0;
  bool keep = lw__call_int(c, "keepdims", 1) != 0, given = lw__call_has(c, 1);
  int64_t length = lw__call_static(c, lw__b_dim(c, x, axis)), start = 0;
  const int64_t *sizes = given ? lw__call_numbers(c, 1, &count) : NULL;
  bool each = !given || (lw__call_ok(c) && lw__b_rank(c, c->in[1]) == 0);
  int64_t size = given && each && lw__call_ok(c) ? sizes[0] : 1;
  if (size < 1) lw__call_invalid(c, "parts of %lld elements", (long long)size);
  if (!lw__call_ok(c)) return;
  int64_t total = each ? lw__ceil_div(length, size) : count;
  lw_value_id *items = lw__b_alloc(c, total, sizeof *items);
  for (; items != NULL && parts < total && lw__call_ok(c); parts++) {
    int64_t part = each ? lw__min_i64(size, length - start) : sizes[parts];
    if (part < 0 || part > length - start) lw__call_invalid(c, "the parts do not fit");
    items[parts] = lw__b_slice(c, x, axis, start, 1, part);
    if (!given && !keep) items[parts] = lw__b_squeeze(c, items[parts], axis);
    start += part;
  }
  if (lw__call_ok(c) && start != length) lw__call_invalid(c, "the parts do not fit");
  sequence_out(c, items, parts);
}

/* given.c: values of graph inputs that the caller told. The model's own constants come first: a
 * given value is used only where the import would fail without it. */
#include "compiler/onnx/import_internal.h"

static const lw_import_value *given_find(const lw_import *im, lw_value_id input,
                                         uint32_t *out_index) {
  const lw_value *v = lw__value(im->graph, input);
  for (uint32_t i = 0; im->options != NULL && i < im->options->value_count; i++) {
    const lw_import_value *given = &im->options->values[i];
    if (v->name == NULL || !lw__str_is(lw__str_of(v->name), given->name)) continue;
    *out_index = i;
    int64_t count = lw__shape_numel(&v->shape);
    bool fits = count >= 0 && given->bytes == (size_t)count * lw_dtype_size_bytes(v->dtype);
    return fits ? given : NULL;
  }
  return NULL;
}

static lw_status given_define(lw_import *im, lw_value_id input) {
  uint32_t index;
  const lw_import_value *given = given_find(im, input, &index);
  if (given == NULL) return LW_OK;
  const lw_value *v = lw__value(im->graph, input);
  int64_t count = lw__shape_numel(&v->shape);
  lw_content_elem *elems;
  LW_TRY(lw__arena_alloc(&im->arena, (size_t)count, sizeof *elems, &elems));
  for (int64_t i = 0; i < count; i++) {
    elems[i].kind = LW_CONTENT_NUMBER;
    if (lw__dtype_is_float(v->dtype)) {
      elems[i].value.f = lw__elem_get_f64(v->dtype, given->data, i);
    } else {
      elems[i].value.i = lw__elem_get_i64(v->dtype, given->data, i);
    }
  }
  return lw__contents_define(&im->given, input, elems, (uint32_t)count);
}

static lw_status given_begin(lw_import *im) {
  if (im->given.graph != NULL) return LW_OK;
  im->given.graph = im->graph;
  im->given.arena = &im->arena;
  for (uint32_t i = 0; i < im->graph->inputs.count; i++)
    LW_TRY(given_define(im, im->graph->inputs.data[i]));
  return LW_OK;
}

/* Notes the inputs that |value| is computed from. */
static lw_status given_note(lw_import *im, lw_value_id value) {
  if (im->options->out_value_used == NULL) return LW_OK;
  uint8_t *reached;
  LW_TRY(lw__arena_alloc(&im->arena, im->graph->values.count, 1, &reached));
  reached[value] = 1;
  for (uint32_t n = lw__value(im->graph, value)->producer + 1; n-- > 0;) {
    const lw_node *node = lw__node(im->graph, n);
    uint32_t index;
    if (!reached[node->result]) continue;
    for (uint32_t k = 0; k < node->operand_count; k++) reached[lw__operand(im->graph, node, k)] = 1;
    if (node->op == LW_OP_INPUT && given_find(im, node->result, &index) != NULL)
      im->options->out_value_used[index] = 1;
  }
  return LW_OK;
}

lw_status lw__import_contents(lw_import *im, lw_value_id value, const lw_contents **out) {
  *out = &im->contents;
  if (lw__contents_has(&im->contents, value)) return LW_OK;
  *out = NULL;
  if (im->options == NULL || im->options->value_count == 0) return LW_OK;
  LW_TRY(given_begin(im));
  LW_TRY(lw__contents_update(&im->given));
  if (!lw__contents_has(&im->given, value)) return LW_OK;
  *out = &im->given;
  return given_note(im, value);
}

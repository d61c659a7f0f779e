/* ports.c: inputs and outputs of the main graph. A sequence of tensors has one input or output per
 * element, x[0], x[1] ..: as many inputs as the options give shapes; an optional input is there
 * when the options give its shape. An input that the options fix is a constant. */
#include "compiler/onnx/import_internal.h"

static lw_status port_name(lw_import *im, lw_str name, const char **out) {
  return lw__arena_strndup(&im->graph->arena, name.ptr, name.len, out);
}

/* "name[k]" */
static lw_status port_element(lw_import *im, lw_str name, uint32_t k, lw_str *out) {
  const char *text;
  LW_TRY(lw__arena_printf(&im->arena, &text, "%.*s[%u]", lw__import_len(name), name.ptr, k));
  *out = lw__str_of(text);
  return LW_OK;
}

const lw_import_fixed *lw__import_fixed(const lw_import *im, lw_str name) {
  for (uint32_t i = 0; im->options != NULL && i < im->options->fixed_count; i++) {
    if (lw__str_is(name, im->options->fixed[i].name)) return &im->options->fixed[i];
  }
  return NULL;
}

static lw_status port_constant(lw_import *im, const lw_import_fixed *fixed, lw_dtype dtype,
                               lw_shape *shape, lw_value_id *out) {
  if (shape->rank == 1 && !lw__extent_is_number(shape->dim[0])) shape->dim[0] = fixed->count;
  int64_t count = lw__shape_numel(shape); /* negative: symbols */
  if (count != (int64_t)fixed->count) {
    lw_text text = {0};
    lw__shape_print(im->graph, shape, &text);
    lw_status status = lw__fail(im->diag, LW_STATUS_USAGE, im->file,
                                "--value %s: %u numbers were given, its shape is %s", fixed->name,
                                fixed->count, lw__text_str(&text));
    lw__text_deinit(&text);
    return status;
  }
  char *data;
  LW_TRY(lw__arena_alloc(&im->arena, fixed->count, lw_dtype_size_bytes(dtype), &data));
  for (uint32_t i = 0; i < fixed->count; i++) {
    if (lw__dtype_is_float(dtype)) {
      lw__elem_set_f64(dtype, data, i, fixed->floats[i]);
    } else {
      lw__elem_set_i64(dtype, data, i, fixed->integers[i]);
    }
  }
  return lw__graph_const_copy(im->graph, dtype, shape, data, out);
}

static lw_status port_tensor_input(lw_import *im, const lw_proto_value_info *info,
                                   lw_value_id *out) {
  lw_shape shape;
  const char *name;
  lw_dtype dtype = lw__tensor_dtype(info->elem_type);
  const lw_import_fixed *fixed = lw__import_fixed(im, info->name);
  LW_TRY(lw__import_input_shape(im, info, &shape));
  LW_TRY(port_name(im, info->name, &name));
  if (fixed != NULL) {
    LW_TRY(port_constant(im, fixed, dtype, &shape, out));
  } else {
    LW_TRY(lw__graph_input(im->graph, dtype, &shape, name, out));
  }
  lw__producer(im->graph, *out)->name = name;
  if (!lw__tensor_is_carried(info->elem_type)) return LW_OK;
  return lw__import_carry(im, *out, info->elem_type);
}

static lw_status port_sequence_input(lw_import *im, const lw_proto_value_info *info,
                                     lw_value_id *out) {
  lw_value_id items[LW_IMPORT_SEQUENCE_MAX], *copy;
  uint32_t count = 0;
  lw_proto_value_info element = *info;
  for (; count < LW_IMPORT_SEQUENCE_MAX; count++) {
    LW_TRY(port_element(im, info->name, count, &element.name));
    if (!lw__import_has_shape(im, element.name)) break;
    LW_TRY(port_tensor_input(im, &element, &items[count]));
  }
  if (count == LW_IMPORT_SEQUENCE_MAX) {
    return lw__fail(im->diag, LW_STATUS_UNSUPPORTED, im->graph->where,
                    "a sequence of more than %d tensors", LW_IMPORT_SEQUENCE_MAX - 1);
  }
  LW_TRY(lw__arena_dup(&im->arena, items, count * sizeof *items, &copy));
  return lw__import_add_sequence(im, copy, count, out);
}

lw_status lw__import_input(lw_import *im, const lw_proto_value_info *info) {
  LW_TRY(lw__import_set_where(im, "input", info->name, (lw_str){0}));
  uint32_t index = lw__map_get(&im->scope->names, info->name);
  if (index != LW_NONE && im->bindings.data[index].kind == LW_BINDING_TENSOR) return LW_OK;
  lw_binding binding = {.kind = LW_BINDING_POISON};
  bool known = info->is_tensor || info->is_sequence || info->is_optional;
  if (!info->has_type || (known && lw__tensor_type_name(info->elem_type) == NULL)) {
    return lw__fail(im->diag, LW_STATUS_MODEL_INVALID, im->graph->where, "it has no valid type");
  }
  if (!known || lw__tensor_dtype(info->elem_type) == LW_DTYPE_NONE) {
    const char *reason = "a type that is no tensor";
    if (known) {
      LW_TRY(lw__arena_printf(&im->arena, &reason, "tensor of type %s",
                              lw__tensor_type_name(info->elem_type)));
    }
    LW_TRY(lw__import_finding(im, lw__str_of("(input)"), (lw_str){0}, 0, info->name, reason));
    return lw__import_define(im, info->name, binding);
  }
  lw_str first = info->name;
  if (info->is_sequence) LW_TRY(port_element(im, info->name, 0, &first));
  if (info->is_optional && !lw__import_has_shape(im, first)) {
    return lw__import_define(im, info->name, (lw_binding){.kind = LW_BINDING_ABSENT});
  }
  if (info->is_sequence) {
    LW_TRY(port_sequence_input(im, info, &binding.value));
  } else {
    LW_TRY(port_tensor_input(im, info, &binding.value));
  }
  binding.kind = LW_BINDING_VALUE;
  return lw__import_define(im, info->name, binding);
}

static lw_status port_tensor_output(lw_import *im, const lw_proto_value_info *info, lw_str label,
                                    lw_value_id id) {
  const lw_value *value = lw__value(im->graph, id);
  lw_dtype declared = lw__tensor_dtype(info->elem_type);
  if (info->has_type && declared != LW_DTYPE_NONE && declared != value->dtype) {
    return lw__fail(im->diag, LW_STATUS_MODEL_INVALID, im->graph->where,
                    "its declared type is %s, but it is %s", lw_dtype_name(declared),
                    lw_dtype_name(value->dtype));
  }
  const char *name;
  LW_TRY(port_name(im, label, &name));
  LW_TRY(lw__graph_output(im->graph, id, name));
  const lw_bound *bound = lw__import_bound(im, id);
  return bound == NULL ? LW_OK : lw_vec_push(&im->counts, (lw_import_count){name, *bound});
}

/* Behind all outputs of the model: how much of some of them counts. */
lw_status lw__import_count_outputs(lw_import *im) {
  for (uint32_t i = 0; i < im->counts.count; i++) {
    const lw_import_count *count = &im->counts.data[i];
    const char *name;
    LW_TRY(lw__arena_printf(&im->graph->arena, &name, "%s#%u", count->output, count->bound.axis));
    LW_TRY(lw__graph_output(im->graph, count->bound.count, name));
  }
  return LW_OK;
}

lw_status lw__import_output(lw_import *im, const lw_proto_value_info *info) {
  LW_TRY(lw__import_set_where(im, "output", info->name, (lw_str){0}));
  lw_binding *binding = lw__import_lookup(im, info->name);
  if (binding == NULL) {
    return lw__fail(im->diag, LW_STATUS_MODEL_INVALID, im->graph->where, "nothing computes it");
  }
  LW_TRY(lw__import_force(im, binding));
  /* Reported as unsupported, or an optional that is empty. */
  if (binding->kind != LW_BINDING_VALUE) return LW_OK;
  const lw_import_sequence *sequence = lw__import_sequence(im, binding->value);
  if (sequence == NULL) return port_tensor_output(im, info, info->name, binding->value);
  for (uint32_t k = 0; k < sequence->count; k++) {
    lw_str label;
    LW_TRY(port_element(im, info->name, k, &label));
    LW_TRY(port_tensor_output(im, info, label, sequence->items[k]));
  }
  return LW_OK;
}

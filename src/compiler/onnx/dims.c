/* dims.c: symbolic dimensions of graph inputs: expressions in the file ("2*s0"), numbers given by
 * the caller. */
#include <string.h>

#include "compiler/onnx/import_internal.h"

/* ---- numbers given by the caller ------------------------------------------------------------*/

static lw_import_symbol *dims_find(lw_import *im, lw_str name) {
  for (uint32_t i = 0; i < im->symbols.count; i++) {
    if (lw__str_eq(im->symbols.data[i].name, name)) return &im->symbols.data[i];
  }
  return NULL;
}

static lw_status dims_bind(lw_import *im, lw_str name, int64_t value, const char *source,
                           bool used) {
  lw_import_symbol *known = dims_find(im, name);
  if (known == NULL) {
    return lw_vec_push(&im->symbols, (lw_import_symbol){name, value, source, used});
  }
  known->used |= used;
  if (known->value == value) return LW_OK;
  return lw__fail(im->diag, LW_STATUS_USAGE, im->file,
                  "the dimension '%.*s' cannot be both %lld (%s) and %lld (%s)", (int)name.len,
                  name.ptr, (long long)known->value, known->source, (long long)value, source);
}

static bool dims_is_identifier(lw_str s) {
  for (size_t i = 0; i < s.len; i++) {
    char ch = s.ptr[i];
    bool letter = (ch >= 'a' && ch <= 'z') || (ch >= 'A' && ch <= 'Z') || ch == '_' || (ch & 0x80);
    if (!letter && !(i > 0 && ((ch >= '0' && ch <= '9') || ch == '.' || ch == ':'))) return false;
  }
  return s.len != 0;
}

static lw_status dims_source(lw_import *im, const char *name, const lw_shape *shape,
                             const char **out) {
  lw_text text = {0};
  lw__text_add(&text, "--shape %s=", name);
  lw__shape_print(im->graph, shape, &text);
  lw_status status = text.status;
  if (status == LW_OK) status = lw__arena_strndup(&im->arena, text.data, text.len, out);
  lw__text_deinit(&text);
  return status;
}

static const lw_shape *dims_option_shape(const lw_import *im, lw_str input, uint32_t *out_index) {
  if (im->options == NULL) return NULL;
  for (uint32_t i = 0; i < im->options->shape_count; i++) {
    if (!lw__str_is(input, im->options->shape_names[i])) continue;
    *out_index = i;
    return &im->options->shapes[i];
  }
  return NULL;
}

bool lw__import_has_shape(const lw_import *im, lw_str input) {
  uint32_t index;
  return dims_option_shape(im, input, &index) != NULL;
}

static lw_status dims_check_shape_option(lw_import *im, const lw_proto_value_info *info,
                                         const lw_shape *shape, const char *source) {
  if (!lw__shape_is_static(shape)) {
    return lw__fail(im->diag, LW_STATUS_USAGE, im->file, "%s: every dimension must be a number",
                    source);
  }
  if (info->has_shape && info->dims.count != shape->rank) {
    return lw__fail(im->diag, LW_STATUS_USAGE, im->file, "%s: the model says %u dimensions", source,
                    info->dims.count);
  }
  for (uint32_t d = 0; d < info->dims.count; d++) {
    const lw_proto_dim *dim = &info->dims.data[d];
    if (dim->has_value && dim->value >= 0 && dim->value != shape->dim[d]) {
      return lw__fail(im->diag, LW_STATUS_USAGE, im->file, "%s: in the model dimension %u is %lld",
                      source, d, (long long)dim->value);
    }
    if (!dim->has_value && dims_is_identifier(dim->param)) {
      LW_TRY(dims_bind(im, dim->param, shape->dim[d], source, true));
    }
  }
  return LW_OK;
}

/* The numbers of a vector tell its length. */
static lw_status dims_bind_vector(lw_import *im, const lw_proto_value_info *info) {
  const lw_import_fixed *fixed = lw__import_fixed(im, info->name);
  if (fixed == NULL || info->dims.count != 1 || info->dims.data[0].has_value) return LW_OK;
  lw_str symbol = info->dims.data[0].param;
  const char *source;
  LW_TRY(lw__arena_printf(&im->arena, &source, "--value %s", fixed->name));
  return dims_is_identifier(symbol) ? dims_bind(im, symbol, fixed->count, source, true) : LW_OK;
}

static bool dims_is_initializer(const lw_import *im, lw_str name) {
  uint32_t index = lw__map_get(&im->scope->names, name);
  return index != LW_NONE && im->bindings.data[index].kind == LW_BINDING_TENSOR;
}

lw_status lw__import_bind_options(lw_import *im) {
  if (im->options == NULL) return LW_OK;
  for (uint32_t i = 0; i < im->options->dim_count; i++) {
    lw_str name = lw__str_of(im->options->dim_names[i]);
    const char *source;
    LW_TRY(lw__arena_printf(&im->arena, &source, "--dim %s=%lld", im->options->dim_names[i],
                            (long long)im->options->dim_values[i]));
    if (im->options->dim_values[i] < 0) {
      return lw__fail(im->diag, LW_STATUS_USAGE, im->file, "%s: a dimension cannot be negative",
                      source);
    }
    LW_TRY(dims_bind(im, name, im->options->dim_values[i], source, false));
  }
  for (uint32_t i = 0; i < im->model.graph.inputs.count; i++) {
    const lw_proto_value_info *info = &im->model.graph.inputs.data[i];
    uint32_t option;
    LW_TRY(dims_bind_vector(im, info));
    const lw_shape *shape = dims_option_shape(im, info->name, &option);
    if (shape == NULL || dims_is_initializer(im, info->name)) continue;
    const char *source;
    LW_TRY(dims_source(im, im->options->shape_names[option], shape, &source));
    LW_TRY(dims_check_shape_option(im, info, shape, source));
  }
  return LW_OK;
}

/* Whether an option's |name| means the input, or an element of it when it is a sequence. */
static bool dims_names(const lw_proto_value_info *info, const char *name) {
  if (!info->is_sequence) return lw__str_is(info->name, name);
  size_t length = strlen(name), base = info->name.len;
  return length > base + 2 && name[base] == '[' && name[length - 1] == ']' &&
         memcmp(name, info->name.ptr, base) == 0;
}

/* |option|, which names an input, must have found one. */
static lw_status dims_check_input(lw_import *im, const char *option, const char *name) {
  for (uint32_t i = 0; i < im->model.graph.inputs.count; i++) {
    const lw_proto_value_info *info = &im->model.graph.inputs.data[i];
    if (dims_names(info, name) && !dims_is_initializer(im, info->name)) return LW_OK;
  }
  return lw__fail(im->diag, LW_STATUS_USAGE, im->file, "%s %s: the model has no input of that name",
                  option, name);
}

lw_status lw__import_check_options(lw_import *im) {
  for (uint32_t i = 0; i < im->symbols.count; i++) {
    const lw_import_symbol *symbol = &im->symbols.data[i];
    if (symbol->used) continue;
    return lw__fail(im->diag, LW_STATUS_USAGE, im->file,
                    "%s: the model has no dimension of that name", symbol->source);
  }
  if (im->options == NULL) return LW_OK;
  for (uint32_t k = 0; k < im->options->shape_count; k++)
    LW_TRY(dims_check_input(im, "--shape", im->options->shape_names[k]));
  for (uint32_t k = 0; k < im->options->fixed_count; k++)
    LW_TRY(dims_check_input(im, "--value", im->options->fixed[k].name));
  return LW_OK;
}

/* ---- expressions ----------------------------------------------------------------------------*/
/* clang-format off
 * sum     := product (('+' | '-') product)*
 * product := atom (('*' | '//' | '/' | '%') atom)*
 * atom    := number | symbol | '(' sum ')' | ('Max' | 'Min') '(' sum ',' sum ')' | '-' atom
 * clang-format on */

typedef struct lw_dim_parser {
  lw_import *im;
  const char *at, *end;
  uint32_t depth;
  bool bad; /* not an expression */
  lw_status status;
} lw_dim_parser;

static lw_content_elem dims_sum(lw_dim_parser *p);

static bool dims_take(lw_dim_parser *p, const char *token) {
  while (p->at < p->end && *p->at == ' ') p->at++;
  size_t n = strlen(token);
  if ((size_t)(p->end - p->at) < n || memcmp(p->at, token, n) != 0) return false;
  p->at += n;
  return true;
}

static lw_content_elem dims_apply(lw_dim_parser *p, lw_fn fn, lw_content_elem a,
                                  lw_content_elem b) {
  lw_content_elem in[3] = {a, b}, out = lw__content_i64(0);
  if (p->status == LW_OK && !p->bad) {
    p->status = lw__content_apply(p->im->graph, fn, LW_DTYPE_I64, in, &out);
  }
  p->bad |= out.kind == LW_CONTENT_UNKNOWN;
  return out;
}

static lw_content_elem dims_symbol(lw_dim_parser *p, lw_str name) {
  lw_import_symbol *known = dims_find(p->im, name);
  if (known != NULL) {
    known->used = true;
    return lw__content_i64(known->value);
  }
  const char *text;
  lw_extent e = 0;
  if (p->status == LW_OK) p->status = lw__arena_strndup(&p->im->arena, name.ptr, name.len, &text);
  if (p->status == LW_OK) p->status = lw__extent_symbol(p->im->graph, text, &e);
  return lw__content_extent(e);
}

static lw_content_elem dims_number(lw_dim_parser *p) {
  int64_t value = 0;
  while (p->at < p->end && *p->at >= '0' && *p->at <= '9') {
    p->bad |= !lw__mul_i64(value, 10, &value) || !lw__add_i64(value, *p->at - '0', &value);
    p->at++;
  }
  return lw__content_i64(value);
}

static lw_content_elem dims_atom(lw_dim_parser *p) {
  lw_content_elem x = lw__content_i64(0);
  if (p->bad || p->status != LW_OK || ++p->depth > 32) {
    p->bad = true;
    return x;
  }
  bool max = dims_take(p, "Max("), min = !max && dims_take(p, "Min(");
  if (max || min) {
    x = dims_sum(p);
    p->bad |= !dims_take(p, ",");
    x = dims_apply(p, max ? LW_FN_MAX : LW_FN_MIN, x, dims_sum(p));
    p->bad |= !dims_take(p, ")");
  } else if (dims_take(p, "(")) {
    x = dims_sum(p);
    p->bad |= !dims_take(p, ")");
  } else if (dims_take(p, "-")) {
    x = dims_apply(p, LW_FN_SUB, lw__content_i64(0), dims_atom(p));
  } else if (p->at < p->end && *p->at >= '0' && *p->at <= '9') {
    x = dims_number(p);
  } else {
    const char *begin = p->at;
    while (p->at < p->end && dims_is_identifier(lw__str(begin, (size_t)(p->at - begin) + 1)))
      p->at++;
    p->bad |= p->at == begin;
    if (!p->bad) x = dims_symbol(p, lw__str(begin, (size_t)(p->at - begin)));
  }
  p->depth--;
  return x;
}

static lw_content_elem dims_product(lw_dim_parser *p) {
  lw_content_elem x = dims_atom(p);
  while (!p->bad && p->status == LW_OK) {
    if (dims_take(p, "*"))
      x = dims_apply(p, LW_FN_MUL, x, dims_atom(p));
    else if (dims_take(p, "//") || dims_take(p, "/"))
      x = dims_apply(p, LW_FN_DIV, x, dims_atom(p));
    else if (dims_take(p, "%"))
      x = dims_apply(p, LW_FN_MOD, x, dims_atom(p));
    else
      break;
  }
  return x;
}

static lw_content_elem dims_sum(lw_dim_parser *p) {
  lw_content_elem x = dims_product(p);
  while (!p->bad && p->status == LW_OK) {
    if (dims_take(p, "+"))
      x = dims_apply(p, LW_FN_ADD, x, dims_product(p));
    else if (dims_take(p, "-"))
      x = dims_apply(p, LW_FN_SUB, x, dims_product(p));
    else
      break;
  }
  return x;
}

/* Text that is no expression is a symbol as it stands. */
static lw_status dims_expression(lw_import *im, lw_str text, lw_extent *out) {
  lw_dim_parser p = {.im = im, .at = text.ptr, .end = text.ptr + text.len};
  lw_content_elem x = dims_sum(&p);
  (void)dims_take(&p, "");
  p.bad |= p.at != p.end || (x.kind == LW_CONTENT_NUMBER && x.value.i < 0);
  if (p.status == LW_OK && p.bad) x = dims_symbol(&p, text);
  *out = x.kind == LW_CONTENT_EXTENT ? x.extent : x.value.i;
  return p.status;
}

/* ---- shapes of inputs -----------------------------------------------------------------------*/

static bool dims_is_anonymous(const lw_proto_dim *dim) {
  if (dim->has_value) return dim->value < 0;
  return dim->param.len == 0 || lw__str_is(dim->param, "?") || lw__str_is(dim->param, "-1") ||
         memchr(dim->param.ptr, '\0', dim->param.len) != NULL;
}

static lw_status dims_input_dim(lw_import *im, const lw_proto_value_info *info, uint32_t d,
                                const lw_shape *option, lw_extent *out) {
  const lw_proto_dim *dim = &info->dims.data[d];
  if (option != NULL) {
    *out = option->dim[d];
    if (!dim->has_value && !dims_is_anonymous(dim) && !dims_is_identifier(dim->param)) {
      lw_extent said;
      LW_TRY(dims_expression(im, dim->param, &said));
      if (lw__extent_is_number(said) && said != *out) {
        return lw__fail(im->diag, LW_STATUS_USAGE, im->file,
                        "--shape %.*s: dimension %u is %lld, but '%.*s' is %lld",
                        (int)info->name.len, info->name.ptr, d, (long long)*out,
                        (int)dim->param.len, dim->param.ptr, (long long)said);
      }
    }
    return LW_OK;
  }
  if (dim->has_value && dim->value >= 0) {
    *out = dim->value;
    return LW_OK;
  }
  if (!dims_is_anonymous(dim)) return dims_expression(im, dim->param, out);
  const char *name;
  LW_TRY(lw__arena_printf(&im->arena, &name, "%.*s_dim%u", (int)info->name.len, info->name.ptr, d));
  return dims_expression(im, lw__str_of(name), out);
}

lw_status lw__import_input_shape(lw_import *im, const lw_proto_value_info *info, lw_shape *out) {
  uint32_t index;
  const lw_shape *option = dims_option_shape(im, info->name, &index);
  *out = (lw_shape){.rank = info->dims.count};
  if (!info->has_shape) {
    if (option != NULL) {
      *out = *option;
      return LW_OK;
    }
    return lw__fail(im->diag, LW_STATUS_USAGE, im->file,
                    "the input '%.*s' has no shape in the model: give it one with --shape",
                    (int)info->name.len, info->name.ptr);
  }
  if (out->rank > LW_MAX_RANK) {
    return lw__fail(im->diag, LW_STATUS_UNSUPPORTED, im->file,
                    "the input '%.*s' has %u dimensions (the most are %d)", (int)info->name.len,
                    info->name.ptr, out->rank, LW_MAX_RANK);
  }
  for (uint32_t d = 0; d < out->rank; d++)
    LW_TRY(dims_input_dim(im, info, d, option, &out->dim[d]));
  return LW_OK;
}

/* parse.c: reads the text form of a graph (docs/graph-text.md). The text may come from a stranger:
 * every number is checked, nothing recurses without a limit, and memory grows only with the text
 * (and with fill, up to a limit). */
#include <ctype.h>
#include <errno.h>
#include <math.h>
#include <stdlib.h>
#include <string.h>

#include "graph/text.h"

enum { EXPR_DEPTH = 40, NUMBER_CHARS = 64 };
#define FILL_BYTES (INT64_C(1) << 30) /* most that one fill(seed) may make */

typedef struct parser {
  const char *at, *end; /* of the whole text */
  const char *line_start;
  uint32_t line;
  lw_diag *diag;
  lw_graph *g;
  lw_diag why;   /* what the graph's own functions said */
  lw_map labels; /* "#3" or "=name" -> value */
  lw_text name;  /* the last name that was read */
  int depth;     /* of the extent expression */
} parser;

/* ---- characters -------------------------------------------------------------------------------*/

static lw_status syntax(const parser *p, const char *fmt, ...) LW_PRINTF(2, 3);
static lw_status syntax(const parser *p, const char *fmt, ...) {
  lw_text text = {0}, where = {0};
  va_list args;
  va_start(args, fmt);
  lw__text_vadd(&text, fmt, args);
  va_end(args);
  lw__text_add(&where, "line %u, column %u", p->line, (unsigned)(p->at - p->line_start) + 1);
  lw__fail(p->diag, LW_STATUS_MODEL_INVALID, lw__text_str(&where), "%s", lw__text_str(&text));
  lw__text_deinit(&text);
  lw__text_deinit(&where);
  return LW_STATUS_MODEL_INVALID;
}

/* A refusal of the graph's own functions, with the place in the text. */
static lw_status relay(parser *p, lw_status status) {
  if (status == LW_OK || status == LW_STATUS_OUT_OF_MEMORY) return status;
  lw_text where = {0};
  lw__text_add(&where, "line %u", p->line);
  lw__fail(p->diag, status, lw__text_str(&where), "%s", lw__diag_first_error(&p->why));
  lw__text_deinit(&where);
  return status;
}

static int peek(const parser *p) { return p->at < p->end ? (unsigned char)*p->at : -1; }

static void skip_blanks(parser *p) {
  while (p->at < p->end && (*p->at == ' ' || *p->at == '\t' || *p->at == '\r')) p->at++;
}

static bool accept(parser *p, char c) {
  skip_blanks(p);
  if (peek(p) != (unsigned char)c) return false;
  p->at++;
  return true;
}

static lw_status expect(parser *p, char c) {
  return accept(p, c) ? LW_OK : syntax(p, "expected '%c'", c);
}

static bool at_line_end(parser *p) {
  skip_blanks(p);
  return peek(p) == -1 || peek(p) == '\n' || peek(p) == ';';
}

static bool is_word_start(int c) { return c == '_' || (c < 0x80 && c >= 0 && isalpha(c)); }
static bool is_word(int c) {
  return is_word_start(c) || c == '.' || (c < 0x80 && c >= 0 && isdigit(c));
}

/* A word, or the empty string. */
static lw_str read_word(parser *p) {
  skip_blanks(p);
  const char *start = p->at;
  if (is_word_start(peek(p))) {
    while (is_word(peek(p))) p->at++;
  }
  return lw__str(start, (size_t)(p->at - start));
}

static int hex_digit(int c) {
  if (c >= '0' && c <= '9') return c - '0';
  if (c >= 'a' && c <= 'f') return c - 'a' + 10;
  return c >= 'A' && c <= 'F' ? c - 'A' + 10 : -1;
}

/* The escape behind a backslash, added to p->name. */
static lw_status read_escape(parser *p) {
  int c = peek(p);
  p->at++;
  if (c == '"' || c == '\\') {
    char plain = (char)c;
    lw__text_add_n(&p->name, &plain, 1);
    return LW_OK;
  }
  if (c != 'x' || p->end - p->at < 2) return syntax(p, "bad escape");
  int high = hex_digit((unsigned char)p->at[0]), low = hex_digit((unsigned char)p->at[1]);
  if (high < 0 || low < 0 || high * 16 + low == 0) return syntax(p, "bad escape");
  char byte = (char)(high * 16 + low);
  p->at += 2;
  lw__text_add_n(&p->name, &byte, 1);
  return LW_OK;
}

/* Characters up to |close| (-1: the end of the line) with escapes resolved, into p->name. */
static lw_status read_escaped(parser *p, int close) {
  lw__text_clear(&p->name);
  while (peek(p) != close) {
    int c = peek(p);
    if (c == -1 || c == '\n') {
      if (close == -1) break;
      return syntax(p, "name without an end");
    }
    if (c == 0) return syntax(p, "NUL character");
    p->at++;
    if (c == '\\') {
      if (peek(p) == -1) return syntax(p, "bad escape");
      LW_TRY(read_escape(p));
    } else {
      lw__text_add_n(&p->name, p->at - 1, 1);
    }
  }
  return p->name.status;
}

/* A word or a quoted name, into p->name. */
static lw_status read_name(parser *p) {
  if (accept(p, '"')) {
    LW_TRY(read_escaped(p, '"'));
    p->at++;
    return LW_OK;
  }
  lw_str word = read_word(p);
  if (word.len == 0) return syntax(p, "expected a name");
  lw__text_clear(&p->name);
  lw__text_add_n(&p->name, word.ptr, word.len);
  return p->name.status;
}

/* Sign, digits, letters, points: what a number may consist of, as a string. */
static lw_status read_number_text(parser *p, char out[NUMBER_CHARS]) {
  size_t n = 0;
  skip_blanks(p);
  while (n + 1 < NUMBER_CHARS) {
    int c = peek(p);
    bool sign = (c == '-' || c == '+') && (n == 0 || out[n - 1] == 'e' || out[n - 1] == 'E');
    if (!is_word(c) && !sign) break;
    out[n++] = (char)c;
    p->at++;
  }
  out[n] = '\0';
  return n > 0 ? LW_OK : syntax(p, "expected a number");
}

static lw_status read_i64(parser *p, int64_t lo, int64_t hi, int64_t *out) {
  char text[NUMBER_CHARS], *rest = NULL;
  LW_TRY(read_number_text(p, text));
  errno = 0;
  long long x = strtoll(text, &rest, 10);
  if (rest == text || *rest != '\0' || errno != 0 || x < lo || x > hi) {
    return syntax(p, "'%s' is no number between %lld and %lld", text, (long long)lo, (long long)hi);
  }
  *out = x;
  return LW_OK;
}

/* ---- extents ----------------------------------------------------------------------------------*/

static lw_status read_sum(parser *p, lw_xval *out);

static lw_status combine_at(parser *p, lw_extent_op op, lw_xval a, lw_xval b, lw_xval *out) {
  return relay(p, lw__extent_combine(p->g, op, a, b, out));
}

static lw_status read_min_max(parser *p, lw_extent_op op, lw_xval *out) {
  lw_xval a, b;
  LW_TRY(expect(p, '('));
  LW_TRY(read_sum(p, &a));
  LW_TRY(expect(p, ','));
  LW_TRY(read_sum(p, &b));
  LW_TRY(expect(p, ')'));
  return combine_at(p, op, a, b, out);
}

static lw_status read_primary(parser *p, lw_xval *out) {
  skip_blanks(p);
  if (isdigit(peek(p))) {
    int64_t number = 0;
    LW_TRY(read_i64(p, 0, INT64_MAX, &number));
    *out = lw__xval_literal(number);
    return LW_OK;
  }
  if (accept(p, '(')) {
    LW_TRY(read_sum(p, out));
    return expect(p, ')');
  }
  bool quoted = peek(p) == '"';
  LW_TRY(read_name(p));
  if (!quoted && strcmp(p->name.data, "min") == 0) return read_min_max(p, LW_EXTENT_MIN, out);
  if (!quoted && strcmp(p->name.data, "max") == 0) return read_min_max(p, LW_EXTENT_MAX, out);
  lw_extent symbol = 0;
  LW_TRY(lw__extent_symbol(p->g, lw__text_str(&p->name), &symbol));
  *out = lw__xval_of(symbol);
  return LW_OK;
}

static lw_status read_product(parser *p, lw_xval *out) {
  bool negative = accept(p, '-');
  LW_TRY(read_primary(p, out));
  if (negative) LW_TRY(combine_at(p, LW_EXTENT_MUL, *out, lw__xval_literal(-1), out));
  for (;;) {
    lw_extent_op op = LW_EXTENT_MUL;
    lw_xval factor;
    if (accept(p, '%')) {
      op = LW_EXTENT_MOD;
    } else if (accept(p, '/')) {
      op = LW_EXTENT_FLOORDIV;
      LW_TRY(expect(p, '/'));
    } else if (!accept(p, '*')) {
      return LW_OK;
    }
    LW_TRY(read_primary(p, &factor));
    LW_TRY(combine_at(p, op, *out, factor, out));
  }
}

static lw_status read_sum(parser *p, lw_xval *out) {
  if (++p->depth > EXPR_DEPTH) return syntax(p, "expression too deep");
  LW_TRY(read_product(p, out));
  for (;;) {
    bool minus = accept(p, '-');
    lw_xval term;
    if (!minus && !accept(p, '+')) break;
    LW_TRY(read_product(p, &term));
    if (minus) LW_TRY(combine_at(p, LW_EXTENT_MUL, term, lw__xval_literal(-1), &term));
    LW_TRY(combine_at(p, LW_EXTENT_ADD, *out, term, out));
  }
  p->depth--;
  return LW_OK;
}

static lw_status read_dims(parser *p, lw_shape *out) {
  LW_TRY(expect(p, '['));
  out->rank = 0;
  if (accept(p, ']')) return LW_OK;
  do {
    lw_xval x;
    p->depth = 0;
    if (out->rank == LW_MAX_RANK) return syntax(p, "more than %d dimensions", LW_MAX_RANK);
    LW_TRY(read_sum(p, &x));
    LW_TRY(relay(p, lw__extent_from_xval(p->g, x, &out->dim[out->rank++])));
  } while (accept(p, ','));
  return expect(p, ']');
}

static lw_status read_type(parser *p, lw_dtype *out) {
  lw_str word = read_word(p);
  for (int t = LW_DTYPE_NONE + 1; t < LW_DTYPE_COUNT; t++) {
    *out = (lw_dtype)t;
    if (lw__str_is(word, lw_dtype_name(*out))) return LW_OK;
  }
  return syntax(p, "expected an element type");
}

/* ---- constants --------------------------------------------------------------------------------*/

static lw_status read_nan_bits(parser *p, lw_dtype dtype, void *out) {
  char text[NUMBER_CHARS], *rest = NULL;
  LW_TRY(read_number_text(p, text));
  errno = 0;
  unsigned long long bits = strtoull(text, &rest, 16);
  size_t size = lw_dtype_size_bytes(dtype);
  if (*rest != '\0' || errno != 0 || (size < 8 && bits >> (8 * size) != 0))
    return syntax(p, "bad bits of a NaN");
  memcpy(out, &bits, size);
  if (!isnan(lw__elem_get_f64(dtype, out, 0))) return syntax(p, "these bits are no NaN");
  return expect(p, ')');
}

static bool int_in_range(lw_dtype dtype, long long x) {
  if (dtype == LW_DTYPE_I64) return true;
  if (dtype == LW_DTYPE_BOOL) return x == 0 || x == 1;
  return (double)x >= lw__dtype_lowest(dtype) && (double)x <= lw__dtype_largest(dtype);
}

/* One number of |dtype| into the 8 bytes at |out|. */
static lw_status read_element(parser *p, lw_dtype dtype, void *out) {
  char text[NUMBER_CHARS], *rest = NULL;
  LW_TRY(read_number_text(p, text));
  if (lw__dtype_is_float(dtype)) {
    if (strcmp(text, "nan") == 0 && accept(p, '(')) return read_nan_bits(p, dtype, out);
    double x = strtod(text, &rest);
    if (rest == text || *rest != '\0') return syntax(p, "'%s' is no number", text);
    lw__elem_set_f64(dtype, out, 0, x);
    return LW_OK;
  }
  errno = 0;
  bool is_u64 = dtype == LW_DTYPE_U64;
  long long x = is_u64 ? (long long)strtoull(text, &rest, 10) : strtoll(text, &rest, 10);
  bool fits = is_u64 ? text[0] != '-' : int_in_range(dtype, x);
  if (rest == text || *rest != '\0' || errno != 0 || !fits) {
    return syntax(p, "'%s' is no %s", text, lw_dtype_name(dtype));
  }
  lw__elem_set_i64(dtype, out, 0, x);
  return LW_OK;
}

typedef LW_VEC(uint8_t) lw_text_bytes;

static lw_status read_braces(parser *p, lw_dtype dtype, lw_text_bytes *bytes) {
  uint32_t size = (uint32_t)lw_dtype_size_bytes(dtype);
  if (accept(p, '}')) return LW_OK;
  if (accept(p, '.'))
    return syntax(p, "the data of this constant was left out when it was printed");
  do {
    uint64_t element = 0;
    LW_TRY(read_element(p, dtype, &element));
    LW_TRY(lw_vec_reserve(bytes, size));
    memcpy(bytes->data + bytes->count, &element, size);
    bytes->count += size;
  } while (accept(p, ','));
  return expect(p, '}');
}

static lw_status fill(parser *p, uint64_t seed, lw_dtype dtype, const lw_shape *shape,
                      lw_attr *attr) {
  int64_t numel = lw__shape_numel(shape), size = (int64_t)lw_dtype_size_bytes(dtype);
  void *data = NULL;
  if (numel < 0 || numel > FILL_BYTES / size) return syntax(p, "too many elements to fill");
  LW_TRY(lw__arena_alloc(&p->g->arena, (size_t)numel, (size_t)size, &data));
  lw_rng rng;
  lw__rng_seed(&rng, seed);
  for (int64_t i = 0; i < numel; i++) {
    if (lw__dtype_is_float(dtype)) {
      lw__elem_set_f64(dtype, data, i, lw__rng_normal(&rng));
    } else {
      lw__elem_set_i64(dtype, data, i, lw__rng_range(&rng, 0, dtype == LW_DTYPE_BOOL ? 2 : 10));
    }
  }
  attr->constant.data = data;
  attr->constant.bytes = (size_t)(numel * size);
  return LW_OK;
}

static lw_status read_constant(parser *p, lw_dtype dtype, const lw_shape *shape, lw_attr *attr) {
  if (!accept(p, '{')) {
    int64_t seed = 0;
    if (!lw__str_is(read_word(p), "fill")) return syntax(p, "expected '{' or fill(seed)");
    LW_TRY(expect(p, '('));
    LW_TRY(read_i64(p, 0, INT64_MAX, &seed));
    LW_TRY(expect(p, ')'));
    return fill(p, (uint64_t)seed, dtype, shape, attr);
  }
  lw_text_bytes bytes = {0};
  void *copy = NULL;
  lw_status status = read_braces(p, dtype, &bytes);
  if (status == LW_OK && bytes.count > 0)
    status = lw__arena_dup(&p->g->arena, bytes.data, bytes.count, &copy);
  attr->constant.data = copy;
  attr->constant.bytes = bytes.count;
  lw_vec_free(&bytes);
  return status;
}

/* ---- attributes -------------------------------------------------------------------------------*/

static lw_status read_number_list(parser *p, int64_t lo, int64_t hi, int64_t out[LW_MAX_RANK],
                                  uint32_t *out_count) {
  *out_count = 0;
  LW_TRY(expect(p, '['));
  if (accept(p, ']')) return LW_OK;
  do {
    if (*out_count == LW_MAX_RANK) return syntax(p, "more than %d numbers", LW_MAX_RANK);
    LW_TRY(read_i64(p, lo, hi, &out[(*out_count)++]));
  } while (accept(p, ','));
  return expect(p, ']');
}

static void set_list_entry(const lw_field *field, void *data, uint32_t i, int64_t x) {
  switch (field->kind) {
    case LW_FIELD_U8_LIST: ((uint8_t *)data)[i] = (uint8_t)x; break;
    case LW_FIELD_I8_LIST: ((int8_t *)data)[i] = (int8_t)x; break;
    default: ((int64_t *)data)[i] = x;
  }
}

/* Numbers of entries that the array behind |field| has. */
static uint32_t list_capacity(lw_op op) {
  return op == LW_OP_WINDOW ? 4 : op == LW_OP_CONV ? 3 : LW_MAX_RANK;
}

static lw_status read_list_field(parser *p, const lw_field *field, void *data,
                                 uint32_t *out_count) {
  int64_t list[LW_MAX_RANK], lo = INT64_MIN, hi = INT64_MAX;
  if (field->kind == LW_FIELD_U8_LIST) lo = 0, hi = UINT8_MAX;
  if (field->kind == LW_FIELD_I8_LIST) lo = INT8_MIN, hi = INT8_MAX;
  LW_TRY(read_number_list(p, lo, hi, list, out_count));
  if (*out_count > list_capacity(field->op)) return syntax(p, "too many numbers");
  for (uint32_t i = 0; i < *out_count; i++) set_list_entry(field, data, i, list[i]);
  return LW_OK;
}

/* Reads the value of |field| into |attr|; |*out_count|: entries of a list, LW_NONE for other kinds.
 */
static lw_status read_field(parser *p, const lw_field *field, lw_dtype dtype, lw_attr *attr,
                            uint32_t *out_count) {
  void *data = (char *)attr + field->offset;
  int64_t list[LW_MAX_RANK], number = 0;
  uint64_t element = 0;
  uint32_t count = 0;
  *out_count = LW_NONE;
  if (field->kind == LW_FIELD_FLAG) {
    *(bool *)data = true;
    return LW_OK;
  }
  LW_TRY(expect(p, '='));
  switch (field->kind) {
    case LW_FIELD_U32:
      LW_TRY(read_i64(p, 0, UINT32_MAX, &number));
      *(uint32_t *)data = (uint32_t)number;
      return LW_OK;
    case LW_FIELD_I64: return read_i64(p, INT64_MIN, INT64_MAX, data);
    case LW_FIELD_MASK:
      LW_TRY(read_number_list(p, 0, 31, list, &count));
      for (uint32_t i = 0; i < count; i++) *(uint32_t *)data |= 1u << list[i];
      return LW_OK;
    case LW_FIELD_SCALAR:
      LW_TRY(read_element(p, dtype, &element));
      if (lw__dtype_is_float(dtype)) {
        ((lw_scalar *)data)->f = lw__elem_get_f64(dtype, &element, 0);
      } else {
        ((lw_scalar *)data)->i = lw__elem_get_i64(dtype, &element, 0);
      }
      return LW_OK;
    default: return read_list_field(p, field, data, out_count);
  }
}

static void set_default(const lw_field *field, lw_attr *attr) {
  void *data = (char *)attr + field->offset;
  switch (field->kind) {
    case LW_FIELD_U8_LIST:
    case LW_FIELD_I8_LIST:
    case LW_FIELD_I64_LIST:
      for (uint32_t i = 0; i < list_capacity(field->op); i++)
        set_list_entry(field, data, i, field->value);
      return;
    case LW_FIELD_I64: *(int64_t *)data = field->value; return;
    default: return; /* all zeros already */
  }
}

static const lw_field *find_field(lw_op op, lw_str key) {
  for (size_t i = 0; i < lw__text_field_count; i++) {
    if (lw__text_fields[i].op == op && lw__str_is(key, lw__text_fields[i].key))
      return &lw__text_fields[i];
  }
  return NULL;
}

/* One statement `%label = op type[shape] operands attributes  ; node name`. */
typedef struct statement {
  lw_op op;
  lw_attr attr;
  lw_dtype dtype;
  lw_shape shape;
  LW_VEC(lw_value_id) in;
  uint32_t list_length; /* of the attribute lists so far; LW_NONE: none yet */
  uint32_t fields_seen; /* bits, by position in lw__text_fields */
  int64_t order[LW_MAX_RANK];
  uint32_t order_count; /* 0: the usual order */
} statement;

static lw_status read_attribute(parser *p, statement *s) {
  lw_str key = read_word(p);
  if (key.len == 0) return syntax(p, "expected an attribute or the end of the line");
  if (lw__str_is(key, "order")) {
    LW_TRY(expect(p, '='));
    return read_number_list(p, 0, LW_MAX_RANK - 1, s->order, &s->order_count);
  }
  const lw_field *field = find_field(s->op, key);
  if (field == NULL)
    return syntax(p, "%s has no attribute '%.*s'", lw__op_info[s->op].name, (int)key.len, key.ptr);
  uint32_t bit = 1u << (field - lw__text_fields), count = 0;
  if ((s->fields_seen & bit) != 0) return syntax(p, "'%s' stands here twice", field->key);
  s->fields_seen |= bit;
  LW_TRY(read_field(p, field, s->dtype, &s->attr, &count));
  if (count == LW_NONE) return LW_OK;
  if (s->list_length != LW_NONE && s->list_length != count)
    return syntax(p, "lists of different lengths");
  s->list_length = count;
  return LW_OK;
}

static lw_status read_attributes(parser *p, statement *s) {
  for (size_t i = 0; i < lw__text_field_count; i++) {
    if (lw__text_fields[i].op == s->op) set_default(&lw__text_fields[i], &s->attr);
  }
  while (!at_line_end(p)) LW_TRY(read_attribute(p, s));
  for (size_t i = 0; i < lw__text_field_count; i++) {
    const lw_field *field = &lw__text_fields[i];
    if (field->op == s->op && field->required && (s->fields_seen >> i & 1) == 0) {
      return syntax(p, "%s needs '%s'", lw__op_info[s->op].name, field->key);
    }
  }
  uint32_t rank = s->in.count > 0 ? lw__value(p->g, s->in.data[0])->shape.rank : 0;
  if (s->op == LW_OP_WINDOW) s->attr.window.count = s->list_length;
  if (s->op == LW_OP_CONV)
    s->attr.conv.spatial = s->list_length != LW_NONE ? s->list_length : rank >= 2 ? rank - 2 : 0;
  if (s->list_length == LW_NONE || s->list_length == lw__text_list_length(s->op, &s->attr, rank))
    return LW_OK;
  return syntax(p, "lists of %u numbers for %u dimensions", s->list_length, rank);
}

/* ---- statements -------------------------------------------------------------------------------*/

/* "%3" or "%name"; the key in p->labels goes to |out|. |*out_named|: p->name holds a name. */
static lw_status read_label(parser *p, lw_text *out, bool *out_named) {
  LW_TRY(expect(p, '%'));
  lw__text_clear(out);
  *out_named = !(peek(p) >= 0 && isdigit(peek(p)));
  if (*out_named) {
    LW_TRY(read_name(p));
    lw__text_add(out, "=%s", lw__text_str(&p->name));
  } else {
    int64_t number = 0;
    LW_TRY(read_i64(p, 0, UINT32_MAX, &number));
    lw__text_add(out, "#%lld", (long long)number);
  }
  return out->status;
}

static lw_status read_operand(parser *p, lw_value_id *out) {
  lw_text key = {0};
  bool named = false;
  lw_status status = read_label(p, &key, &named);
  if (status == LW_OK) {
    *out = lw__map_get(&p->labels, lw__str(lw__text_str(&key), key.len));
    if (*out == LW_NONE) status = syntax(p, "no such value before this line");
  }
  lw__text_deinit(&key);
  return status;
}

static lw_status read_operands(parser *p, statement *s) {
  skip_blanks(p);
  if (peek(p) != '%') return LW_OK;
  do {
    lw_value_id v = LW_NONE;
    if (s->in.count == UINT16_MAX) return syntax(p, "too many operands");
    LW_TRY(read_operand(p, &v));
    LW_TRY(lw_vec_push(&s->in, v));
  } while (accept(p, ','));
  return LW_OK;
}

static bool word_starts(lw_str word, const char *prefix, lw_str *out_rest) {
  size_t n = strlen(prefix);
  if (word.len < n || memcmp(word.ptr, prefix, n) != 0) return false;
  *out_rest = lw__str(word.ptr + n, word.len - n);
  return true;
}

static lw_status read_op(parser *p, statement *s) {
  lw_str word = read_word(p), rest;
  if (word_starts(word, "map.", &rest)) {
    s->op = LW_OP_MAP;
    for (int f = 0; f < LW_FN_COUNT; f++) {
      s->attr.fn = (lw_fn)f;
      if (lw__str_is(rest, lw__fn_info[f].name)) return LW_OK;
    }
  } else if (word_starts(word, "reduce.", &rest)) {
    s->op = LW_OP_REDUCE;
    for (int r = 0; r < LW_RED_COUNT; r++) {
      s->attr.reduce.fn = (lw_red)r;
      if (lw__str_is(rest, lw__red_info[r].name)) return LW_OK;
    }
  } else {
    for (int op = 0; op < LW_OP_COUNT; op++) {
      s->op = (lw_op)op;
      bool bare = s->op != LW_OP_MAP && s->op != LW_OP_REDUCE;
      if (bare && lw__str_is(word, lw__op_info[op].name)) return LW_OK;
    }
  }
  return syntax(p, "unknown operator '%.*s'", (int)word.len, word.ptr);
}

static lw_status read_node_name(parser *p, const char **out) {
  *out = NULL;
  if (!accept(p, ';')) return LW_OK;
  if (peek(p) == ' ') p->at++;
  const char *start = p->at;
  LW_TRY(read_escaped(p, -1));
  bool carriage_return = p->at > start && p->at[-1] == '\r';
  if (carriage_return) p->name.data[--p->name.len] = '\0';
  *out = lw__text_str(&p->name);
  return LW_OK;
}

static lw_status set_order(parser *p, const statement *s, lw_value *v) {
  uint32_t seen = 0;
  if (s->order_count == 0) return LW_OK;
  for (uint32_t d = 0; d < s->order_count; d++) {
    v->storage.order[d] = (uint8_t)s->order[d];
    seen |= 1u << s->order[d];
  }
  if (s->order_count == v->shape.rank && seen == (1u << v->shape.rank) - 1) return LW_OK;
  return syntax(p, "order is no permutation of the dimensions");
}

static lw_status add_node(parser *p, const statement *s, lw_value_id *out) {
  lw_shape shape = s->shape;
  if (s->op == LW_OP_INPUT) LW_TRY(lw_vec_reserve(&p->g->inputs, 1));
  LW_TRY(relay(
      p, lw__graph_append(p->g, s->op, &s->attr, s->in.data, s->in.count, s->dtype, &shape, out)));
  if (s->op == LW_OP_INPUT) p->g->inputs.data[p->g->inputs.count++] = *out;
  lw_value *v = lw__value(p->g, *out);
  if (v->dtype == s->dtype && lw__shape_eq(p->g, &v->shape, &s->shape)) return set_order(p, s, v);
  lw_text text = {0};
  lw__shape_print(p->g, &v->shape, &text);
  lw_status status = syntax(p, "the result is %s%s", lw_dtype_name(v->dtype), lw__text_str(&text));
  lw__text_deinit(&text);
  return status;
}

/* What follows the label. */
static lw_status read_statement(parser *p, statement *s, lw_value_id *out) {
  LW_TRY(expect(p, '='));
  LW_TRY(read_op(p, s));
  LW_TRY(read_type(p, &s->dtype));
  LW_TRY(read_dims(p, &s->shape));
  LW_TRY(read_operands(p, s));
  if (s->op == LW_OP_CONST) LW_TRY(read_constant(p, s->dtype, &s->shape, &s->attr));
  LW_TRY(read_attributes(p, s));
  LW_TRY(read_node_name(p, &p->g->where));
  return add_node(p, s, out);
}

static lw_status define(parser *p, const char *key, size_t length, bool named, lw_value_id v) {
  bool added = false;
  LW_TRY(lw__map_put(&p->labels, lw__str(key, length), v, &added, NULL));
  if (!added) return syntax(p, "a second value with this name");
  if (named) lw__value(p->g, v)->name = key + 1;
  return LW_OK;
}

static lw_status read_node(parser *p) {
  statement s = {.list_length = LW_NONE};
  lw_text key = {0};
  const char *kept = NULL;
  bool named = false;
  lw_value_id v = LW_NONE;
  lw_status status = read_label(p, &key, &named);
  size_t length = key.len;
  if (status == LW_OK) status = lw__arena_strndup(&p->g->arena, lw__text_str(&key), length, &kept);
  if (status == LW_OK) status = read_statement(p, &s, &v);
  if (status == LW_OK) status = define(p, kept, length, named, v);
  p->g->where = NULL;
  lw_vec_free(&s.in);
  lw__text_deinit(&key);
  return status;
}

static lw_status read_output(parser *p) {
  lw_value_id v = LW_NONE;
  const char *name = NULL;
  LW_TRY(read_name(p));
  LW_TRY(lw__arena_strndup(&p->g->arena, lw__text_str(&p->name), p->name.len, &name));
  LW_TRY(read_operand(p, &v));
  return relay(p, lw__graph_output(p->g, v, name));
}

static lw_status read_line(parser *p) {
  if (!at_line_end(p)) {
    if (peek(p) == '%') {
      LW_TRY(read_node(p));
    } else if (lw__str_is(read_word(p), "output")) {
      LW_TRY(read_output(p));
    } else {
      return syntax(p, "expected a value or an output");
    }
    if (!at_line_end(p)) return syntax(p, "expected the end of the line");
  }
  while (p->at < p->end && *p->at != '\n') p->at++; /* a comment */
  if (p->at < p->end) p->at++;
  p->line++;
  p->line_start = p->at;
  return LW_OK;
}

lw_status lw__graph_parse(lw_str text, lw_diag *diag, lw_graph *out) {
  parser p = {.at = text.ptr,
              .end = text.ptr + text.len,
              .line_start = text.ptr,
              .line = 1,
              .diag = diag,
              .g = out};
  LW_TRY(lw__graph_init(out, &p.why));
  lw_text_locale locale = lw__text_locale_enter();
  lw_status status = LW_OK;
  while (status == LW_OK && p.at < p.end) status = read_line(&p);
  lw__text_locale_leave(locale);
  out->diag = diag;
  if (status != LW_OK) lw__graph_deinit(out);
  lw__map_deinit(&p.labels);
  lw__text_deinit(&p.name);
  lw__diag_deinit(&p.why);
  return status;
}

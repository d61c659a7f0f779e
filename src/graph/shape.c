/* shape.c: questions to shapes, and how shapes and names are written. */
#include <ctype.h>
#include <string.h>

#include "graph/infer.h"

lw_shape lw__shape_of(uint32_t rank, const int64_t *dims) {
  lw_shape shape = {.rank = rank};
  for (uint32_t d = 0; d < rank && d < LW_MAX_RANK; d++) shape.dim[d] = dims[d];
  return shape; /* a rank beyond the limit stays, for the constructors to refuse */
}

bool lw__shape_is_static(const lw_shape *shape) {
  for (uint32_t d = 0; d < shape->rank && d < LW_MAX_RANK; d++) {
    if (!lw__extent_is_number(shape->dim[d])) return false;
  }
  return true;
}

int64_t lw__shape_numel(const lw_shape *shape) {
  int64_t product = 1;
  bool too_large = false, empty = false;
  if (!lw__shape_is_static(shape)) return -1;
  for (uint32_t d = 0; d < shape->rank && d < LW_MAX_RANK; d++) {
    empty |= shape->dim[d] == 0;
    too_large |= !lw__mul_i64(product, shape->dim[d], &product);
    too_large |= product > INT64_MAX / 16;
  }
  return empty ? 0 : too_large ? -1 : product;
}

bool lw__shape_eq(const lw_graph *graph, const lw_shape *a, const lw_shape *b) {
  if (a->rank != b->rank) return false;
  for (uint32_t d = 0; d < a->rank && d < LW_MAX_RANK; d++) {
    if (a->dim[d] == b->dim[d]) continue;
    if (!lw__extent_is_valid(graph, a->dim[d]) || !lw__extent_is_valid(graph, b->dim[d]))
      return false;
    if (!lw__extent_provably_equal(graph, a->dim[d], b->dim[d])) return false;
  }
  return true;
}

void lw__shape_print(const lw_graph *graph, const lw_shape *shape, lw_text *out) {
  lw__text_add(out, "[");
  for (uint32_t d = 0; d < shape->rank && d < LW_MAX_RANK; d++) {
    if (d > 0) lw__text_add(out, ", ");
    lw__extent_print(graph, shape->dim[d], out);
  }
  lw__text_add(out, "]");
}

static bool is_identifier(const char *name) {
  if (!isalpha((unsigned char)name[0]) && name[0] != '_') return false;
  if (strcmp(name, "min") == 0 || strcmp(name, "max") == 0) return false;
  for (const char *c = name; *c != '\0'; c++) {
    if ((unsigned char)*c >= 0x80) return false;
    if (!isalnum((unsigned char)*c) && *c != '_' && *c != '.') return false;
  }
  return true;
}

void lw__text_add_name(lw_text *out, const char *name) {
  if (is_identifier(name)) {
    lw__text_add(out, "%s", name);
    return;
  }
  lw__text_add(out, "\"");
  lw__text_add_escaped(out, name);
  lw__text_add(out, "\"");
}

void lw__text_add_escaped(lw_text *out, const char *s) {
  for (; *s != '\0'; s++) {
    unsigned char c = (unsigned char)*s;
    if (c == '"' || c == '\\') {
      lw__text_add(out, "\\%c", c);
    } else if (c < 0x20 || c == 0x7f) {
      lw__text_add(out, "\\x%02x", c);
    } else {
      lw__text_add_n(out, s, 1);
    }
  }
}

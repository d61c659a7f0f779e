/* operators.c: the table of operators, and looking it up. */
#include "compiler/onnx/operators.h"

#include <stdlib.h>
#include <string.h>

#include "compiler/onnx/op.h"

const lw_operator lw__operators[] = {
#define LW_OPERATOR(name, domain, since, min_in, max_in, max_out, function, arg) \
  {name, domain, since, min_in, max_in, max_out, function, (int32_t)(arg)},
#include "compiler/onnx/operators.def"
};
const uint32_t lw__operator_count = LW_ARRAY_COUNT(lw__operators);

/* Rows are in order of name, then domain (a test checks it). */
static int operator_compare(lw_str domain, lw_str name, const lw_operator *op) {
  size_t length = strlen(op->name), shorter = name.len < length ? name.len : length;
  int order = shorter == 0 ? 0 : memcmp(name.ptr, op->name, shorter);
  if (order != 0 || name.len != length) return order != 0 ? order : name.len < length ? -1 : 1;
  length = strlen(op->domain);
  shorter = domain.len < length ? domain.len : length;
  order = shorter == 0 ? 0 : memcmp(domain.ptr, op->domain, shorter);
  return order != 0 ? order : domain.len < length ? -1 : domain.len > length;
}

const lw_operator *lw__operator_find(lw_str domain, lw_str name) {
  if (lw__str_is(domain, "ai.onnx")) domain = (lw_str){0};
  uint32_t lo = 0, hi = lw__operator_count;
  while (lo < hi) {
    uint32_t mid = (lo + hi) / 2;
    int order = operator_compare(domain, name, &lw__operators[mid]);
    if (order == 0) return &lw__operators[mid];
    if (order < 0)
      hi = mid;
    else
      lo = mid + 1;
  }
  return NULL;
}

int64_t lw__operator_first(const lw_operator *op) { return strtol(op->since, NULL, 10); }

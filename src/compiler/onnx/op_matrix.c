/* op_matrix.c: matrix products and Einstein sums. */
#include <math.h>
#include <string.h>

#include "compiler/onnx/op.h"

void lw__op_matmul(lw_call *c) {
  lw__call_out(c, 0, lw__b_matmul(c, lw__call_in(c, 0), lw__call_in(c, 1)));
}

static lw_value_id matrix_transpose(lw_call *c, lw_value_id x) {
  uint32_t rank = lw__b_rank(c, x);
  return rank < 2 ? x : lw__b_swap(c, x, rank - 2, rank - 1);
}

/* y * factor; integers only by 1. */
static lw_value_id matrix_scale(lw_call *c, lw_value_id y, double factor) {
  if (factor == 1) return y;
  bool whole = factor == trunc(factor) && fabs(factor) < 9e15;
  if (whole || lw__dtype_is_float(lw__b_dtype(c, y))) return lw__b_muls(c, y, factor);
  lw__call_unsupported(c, "a factor of %g for integers", factor);
  return y;
}

/* alpha * a * b + beta * bias. Factors other than 1 keep narrow types wide until the end. */
void lw__op_gemm(lw_call *c) {
  lw_value_id a = lw__call_in(c, 0), b = lw__call_in(c, 1), bias = lw__call_in(c, 2);
  double alpha = lw__call_float(c, "alpha", 1), beta = lw__call_float(c, "beta", 1);
  bool ta = lw__call_int(c, "transA", 0) != 0, tb = lw__call_int(c, "transB", 0) != 0;
  lw_dtype dtype = lw__b_dtype(c, a);
  lw__call_ignore(c, "broadcast"); /* before opset 7 */
  if (lw__b_rank(c, a) != 2 || lw__b_rank(c, b) != 2)
    lw__call_invalid(c, "its operands must be matrices");
  lw_value_id y = lw__b_matmul(c, ta ? matrix_transpose(c, a) : a, tb ? matrix_transpose(c, b) : b);
  if (alpha != 1) y = matrix_scale(c, lw__b_up(c, y), alpha);
  if (bias != LW_NONE && beta != 0) {
    lw_shape shape = lw__b_shape(c, y);
    if (lw__b_dtype(c, y) != dtype || beta != 1) {
      y = lw__b_up(c, y);
      bias = lw__b_up(c, bias);
    }
    bias = matrix_scale(c, bias, beta);
    y = lw__b_add(c, y, lw__b_broadcast(c, bias, &shape));
  }
  lw__call_out(c, 0, lw__b_cast(c, y, dtype));
}

/* com.microsoft */
void lw__op_fused_matmul(lw_call *c) {
  lw_value_id a = lw__call_in(c, 0), b = lw__call_in(c, 1);
  double alpha = lw__call_float(c, "alpha", 1);
  if (lw__call_int(c, "transBatchA", 0) != 0 || lw__call_int(c, "transBatchB", 0) != 0) {
    lw__call_unsupported(c, "transBatchA, transBatchB");
  }
  if (lw__call_int(c, "transA", 0) != 0) a = matrix_transpose(c, a);
  if (lw__call_int(c, "transB", 0) != 0) b = matrix_transpose(c, b);
  lw_value_id y = lw__b_matmul(c, a, b);
  if (alpha != 1) y = matrix_scale(c, lw__b_up(c, y), alpha);
  lw__call_out(c, 0, lw__b_cast(c, y, lw__b_dtype(c, a)));
}

/* ---- Einsum ---------------------------------------------------------------------------------*/
/* Every index of an operand gets a letter; the dims that an ellipsis stands for get codes behind
 * the letters. Operands are brought to distinct letters (diagonals), then multiplied from left to
 * right: letters that no later operand and not the result needs are summed. */

enum { EINSUM_LETTERS = 52, EINSUM_CODES = EINSUM_LETTERS + LW_MAX_RANK };

typedef struct lw_einsum_term {
  uint32_t rank;
  uint8_t code[LW_MAX_RANK];
  lw_value_id value;
} lw_einsum_term;

static int einsum_letter(char ch) {
  if (ch >= 'A' && ch <= 'Z') return ch - 'A';
  if (ch >= 'a' && ch <= 'z') return ch - 'a' + 26;
  return -1;
}

/* Letters of one comma-separated part; |dots| dims stand for an ellipsis. False on a bad character
 * or too many. */
static bool einsum_parse(lw_str text, uint32_t rank, bool is_result, uint32_t dots_known,
                         lw_einsum_term *out, uint32_t *out_dots) {
  uint32_t letters = 0;
  bool ellipsis = false;
  for (size_t i = 0; i < text.len; i++) {
    if (text.ptr[i] == ' ') continue;
    if (text.ptr[i] == '.') {
      if (ellipsis || i + 2 >= text.len || text.ptr[i + 1] != '.' || text.ptr[i + 2] != '.')
        return false;
      ellipsis = true;
      i += 2;
    } else if (einsum_letter(text.ptr[i]) < 0 || ++letters > LW_MAX_RANK) {
      return false;
    }
  }
  if (!is_result && (letters > rank || (!ellipsis && letters != rank))) return false;
  uint32_t dots = !ellipsis ? 0 : is_result ? dots_known : rank - letters;
  *out_dots = dots;
  out->rank = 0;
  if (letters + dots > LW_MAX_RANK) return false;
  for (size_t i = 0; i < text.len; i++) {
    int letter = einsum_letter(text.ptr[i]);
    if (letter >= 0) out->code[out->rank++] = (uint8_t)letter;
    if (text.ptr[i] != '.') continue;
    /* Ellipses are aligned at their last dim. */
    for (uint32_t k = 0; k < dots; k++)
      out->code[out->rank++] = (uint8_t)(EINSUM_LETTERS + LW_MAX_RANK - dots + k);
    i += 2;
  }
  return true;
}

static int einsum_find(const lw_einsum_term *t, uint8_t code) {
  for (uint32_t d = 0; d < t->rank; d++) {
    if (t->code[d] == code) return (int)d;
  }
  return -1;
}

static void einsum_drop(lw_einsum_term *t, uint32_t d) {
  memmove(&t->code[d], &t->code[d + 1], t->rank - d - 1);
  t->rank--;
}

/* Dims |d| and |e| carry one letter: only equal coordinates count. */
static void einsum_diagonal(lw_call *c, lw_einsum_term *t, uint32_t d, uint32_t e) {
  int64_t n = lw__call_static(c, lw__b_dim(c, t->value, d));
  if (n != lw__call_static(c, lw__b_dim(c, t->value, e)))
    lw__call_invalid(c, "a letter has two sizes");
  uint8_t perm[LW_MAX_RANK];
  uint32_t at = 0;
  for (uint32_t k = 0; k < t->rank; k++) {
    if (k != d && k != e) perm[at++] = (uint8_t)k;
  }
  perm[at] = (uint8_t)d;
  perm[at + 1] = (uint8_t)e;
  lw_value_id x = lw__b_merge(c, lw__b_permute(c, t->value, perm), t->rank - 2, t->rank);
  t->value = lw__b_slice(c, x, t->rank - 2, 0, n + 1, n);
  uint8_t code = t->code[d];
  einsum_drop(t, e);
  einsum_drop(t, d);
  t->code[t->rank++] = code;
}

static void einsum_make_distinct(lw_call *c, lw_einsum_term *t) {
  for (uint32_t d = 0; d < t->rank && lw__call_ok(c); d++) {
    for (uint32_t e = d + 1; e < t->rank && lw__call_ok(c); e++) {
      if (t->code[d] != t->code[e]) continue;
      einsum_diagonal(c, t, d, e);
      d = 0;
      e = 0;
    }
  }
}

/* Sums over the letters of |t| that |needed| does not have. */
static void einsum_sum_out(lw_call *c, lw_einsum_term *t, const uint8_t *needed) {
  uint32_t axes = 0, rank = 0;
  for (uint32_t d = 0; d < t->rank; d++) {
    if (!needed[t->code[d]])
      axes |= 1u << d;
    else
      t->code[rank++] = t->code[d];
  }
  t->value = lw__b_reduce(c, LW_RED_SUM, t->value, axes, false);
  t->rank = rank;
}

/* |t| permuted to the letters |order| (all of t's), and reshaped to groups of dims that are one
 * each: |sizes| per group. */
static lw_value_id einsum_arrange(lw_call *c, const lw_einsum_term *t, const uint8_t *order,
                                  const uint32_t *sizes, uint32_t groups) {
  uint8_t perm[LW_MAX_RANK];
  lw_shape shape = {.rank = groups};
  for (uint32_t d = 0; d < t->rank; d++) perm[d] = (uint8_t)einsum_find(t, order[d]);
  lw_value_id x = lw__b_permute(c, t->value, perm);
  for (uint32_t g = 0, d = 0; g < groups; g++) {
    shape.dim[g] = 1;
    for (uint32_t k = 0; k < sizes[g]; k++) {
      shape.dim[g] = lw__call_extent(c, LW_EXTENT_MUL, shape.dim[g], lw__b_dim(c, x, d++));
    }
  }
  return lw__b_reshape(c, x, &shape);
}

/* Letters of size 1 on one side, and not on the other, stretch. */
static void einsum_stretch(lw_call *c, lw_einsum_term *t, const lw_einsum_term *other) {
  lw_shape shape = lw__b_shape(c, t->value);
  for (uint32_t d = 0; d < t->rank; d++) {
    int at = einsum_find(other, t->code[d]);
    if (at >= 0 && shape.dim[d] == 1) shape.dim[d] = lw__b_dim(c, other->value, (uint32_t)at);
  }
  t->value = lw__b_broadcast(c, t->value, &shape);
}

/* |a| times |b|: shared letters that are needed are batch, shared ones that are not are summed. */
static void einsum_multiply(lw_call *c, lw_einsum_term *a, lw_einsum_term *b,
                            const uint8_t *needed) {
  uint8_t left[LW_MAX_RANK], right[LW_MAX_RANK], letters[2 * LW_MAX_RANK];
  uint32_t batch = 0, sum = 0, rows = 0, columns = 0, na = 0, nb = 0, n = 0;
  lw_shape shape = {0};
  einsum_stretch(c, a, b);
  einsum_stretch(c, b, a);
  for (uint32_t d = 0; d < a->rank; d++) {
    if (einsum_find(b, a->code[d]) < 0 || !needed[a->code[d]]) continue;
    letters[n++] = left[na++] = right[nb++] = a->code[d];
    shape.dim[shape.rank++] = lw__b_dim(c, a->value, d);
    batch++;
  }
  for (uint32_t d = 0; d < a->rank; d++) {
    if (einsum_find(b, a->code[d]) >= 0) continue;
    letters[n++] = left[na++] = a->code[d];
    shape.dim[shape.rank++] = lw__b_dim(c, a->value, d);
    rows++;
  }
  for (uint32_t d = 0; d < a->rank; d++) {
    if (einsum_find(b, a->code[d]) < 0 || needed[a->code[d]]) continue;
    left[na++] = right[nb++] = a->code[d];
    sum++;
  }
  for (uint32_t d = 0; d < b->rank; d++) {
    if (einsum_find(a, b->code[d]) >= 0) continue;
    letters[n++] = right[nb++] = b->code[d];
    if (shape.rank == LW_MAX_RANK) {
      lw__call_unsupported(c, "more than %d letters", LW_MAX_RANK);
      return;
    }
    shape.dim[shape.rank++] = lw__b_dim(c, b->value, d);
    columns++;
  }
  lw_value_id x = einsum_arrange(c, a, left, (uint32_t[]){batch, rows, sum}, 3);
  lw_value_id y = einsum_arrange(c, b, right, (uint32_t[]){batch, sum, columns}, 3);
  a->value = lw__b_reshape(c, lw__b_matmul(c, x, y), &shape);
  a->rank = n;
  memcpy(a->code, letters, n);
}

/* The letters that occur once, in alphabetic order, behind the ellipsis. */
static void einsum_implicit_result(const lw_einsum_term *terms, uint32_t count,
                                   lw_einsum_term *out) {
  uint32_t seen[EINSUM_CODES] = {0};
  for (uint32_t i = 0; i < count; i++) {
    for (uint32_t d = 0; d < terms[i].rank; d++) seen[terms[i].code[d]]++;
  }
  out->rank = 0;
  for (uint32_t code = EINSUM_LETTERS; code < EINSUM_CODES && out->rank < LW_MAX_RANK; code++) {
    if (seen[code] != 0) out->code[out->rank++] = (uint8_t)code;
  }
  for (uint32_t code = 0; code < EINSUM_LETTERS && out->rank < LW_MAX_RANK; code++) {
    if (seen[code] == 1) out->code[out->rank++] = (uint8_t)code;
  }
}

/* Splits the equation into terms and the result; false when it is malformed. */
static bool einsum_read(lw_call *c, lw_str equation, lw_einsum_term *terms,
                        lw_einsum_term *result) {
  lw_str right = {0};
  bool explicit_result = false;
  for (size_t i = 0; i + 1 < equation.len && !explicit_result; i++) {
    if (equation.ptr[i] != '-' || equation.ptr[i + 1] != '>') continue;
    right = lw__str(equation.ptr + i + 2, equation.len - i - 2);
    equation.len = i;
    explicit_result = true;
  }
  uint32_t count = 0, dots = 0, dots_max = 0;
  for (size_t begin = 0, i = 0; i <= equation.len; i++) {
    if (i < equation.len && equation.ptr[i] != ',') continue;
    if (count >= c->in_count || c->in[count] == LW_NONE) return false;
    lw_str part = lw__str(equation.ptr + begin, i - begin);
    if (!einsum_parse(part, lw__b_rank(c, c->in[count]), false, 0, &terms[count], &dots))
      return false;
    if (dots > dots_max) dots_max = dots;
    terms[count].value = c->in[count];
    count++;
    begin = i + 1;
  }
  if (count != c->in_count) return false;
  if (!explicit_result)
    einsum_implicit_result(terms, count, result);
  else if (!einsum_parse(right, 0, true, dots_max, result, &dots))
    return false;
  for (uint32_t d = 0; d < result->rank; d++) {
    bool there = false;
    for (uint32_t i = 0; i < count; i++) there |= einsum_find(&terms[i], result->code[d]) >= 0;
    if (!there || einsum_find(result, result->code[d]) != (int)d) return false;
  }
  return true;
}

void lw__op_einsum(lw_call *c) {
  lw_einsum_term *terms = lw__b_alloc(c, c->in_count, sizeof *terms), result = {0};
  lw_str equation = lw__call_str(c, "equation", "");
  if (terms == NULL || !lw__call_ok(c)) return;
  if (!einsum_read(c, equation, terms, &result)) {
    lw__call_invalid(c, "the equation '%.*s' does not fit",
                     (int)lw__min_i64((int64_t)equation.len, 200), equation.ptr);
    return;
  }
  for (uint32_t i = 0; i < c->in_count; i++) {
    einsum_make_distinct(c, &terms[i]);
    uint8_t needed[EINSUM_CODES] = {0}; /* by what is still to come */
    for (uint32_t d = 0; d < result.rank; d++) needed[result.code[d]] = 1;
    for (uint32_t k = i + 1; k < c->in_count; k++) {
      for (uint32_t d = 0; d < terms[k].rank; d++) needed[terms[k].code[d]] = 1;
    }
    if (i == 0) {
      einsum_sum_out(c, &terms[0], needed);
      continue;
    }
    uint8_t with_left[EINSUM_CODES];
    memcpy(with_left, needed, sizeof with_left);
    for (uint32_t d = 0; d < terms[0].rank; d++) with_left[terms[0].code[d]] = 1;
    einsum_sum_out(c, &terms[i], with_left);
    einsum_multiply(c, &terms[0], &terms[i], needed);
  }
  uint8_t perm[LW_MAX_RANK];
  if (!lw__call_ok(c)) return;
  for (uint32_t d = 0; d < result.rank; d++)
    perm[d] = (uint8_t)einsum_find(&terms[0], result.code[d]);
  lw__call_out(c, 0, lw__b_permute(c, terms[0].value, perm));
}

/* graph_kit.h: a graph with its diagnostics for a test, assertions on status and message, and
 * random graphs. */
#ifndef GRAPH_KIT_H
#define GRAPH_KIT_H

#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>
#include <string.h>

#include <cmocka.h>

#include "graph/infer.h"

typedef struct kit {
  lw_graph g;
  lw_diag diag;
  lw_text text;
} kit;

static inline void kit_open(kit *k) {
  memset(k, 0, sizeof *k);
  assert_int_equal(lw__graph_init(&k->g, &k->diag), LW_OK);
}

static inline void kit_close(kit *k) {
  lw__graph_deinit(&k->g);
  lw__diag_deinit(&k->diag);
  lw__text_deinit(&k->text);
}

static inline void kit_forget(kit *k) { /* the messages so far */
  lw__diag_deinit(&k->diag);
  memset(&k->diag, 0, sizeof k->diag);
}

#define OK(k, call)                                                                                \
  do {                                                                                             \
    lw_status ok_status_ = (call);                                                                 \
    if (ok_status_ != LW_OK) {                                                                     \
      fail_msg("%s: %s: %s", #call, lw_status_name(ok_status_), lw__diag_first_error(&(k)->diag)); \
    }                                                                                              \
  } while (0)

/* |call| fails with |expected| and a message that contains |part|. */
#define FAILS(k, expected, part, call)                                               \
  do {                                                                               \
    kit_forget(k);                                                                   \
    lw_status fails_status_ = (call);                                                \
    const char *fails_text_ = lw__diag_first_error(&(k)->diag);                      \
    if (fails_status_ != (expected) || strstr(fails_text_, (part)) == NULL) {        \
      fail_msg("%s: %s: \"%s\"", #call, lw_status_name(fails_status_), fails_text_); \
    }                                                                                \
    kit_forget(k);                                                                   \
  } while (0)

#define SHAPE(...)                                                             \
  lw__shape_of((uint32_t)(sizeof((int64_t[]){__VA_ARGS__}) / sizeof(int64_t)), \
               (int64_t[]){__VA_ARGS__})

static inline lw_extent kit_symbol(kit *k, const char *name) {
  lw_extent e = 0;
  OK(k, lw__extent_symbol(&k->g, name, &e));
  return e;
}

static inline lw_value_id kit_input_of(kit *k, lw_dtype dtype, lw_shape shape) {
  lw_value_id v = LW_NONE;
  char name[24];
  snprintf(name, sizeof name, "in%u", k->g.inputs.count);
  OK(k, lw__graph_input(&k->g, dtype, &shape, name, &v));
  return v;
}
#define INPUT(k, dtype, ...) kit_input_of(k, LW_DTYPE_##dtype, SHAPE(__VA_ARGS__))

/* "f32[2, 3]" of a value. */
static inline const char *kit_type(kit *k, lw_value_id v) {
  lw__text_clear(&k->text);
  lw__text_add(&k->text, "%s", lw_dtype_name(lw__value(&k->g, v)->dtype));
  lw__shape_print(&k->g, &lw__value(&k->g, v)->shape, &k->text);
  return lw__text_str(&k->text);
}
#define TYPE(k, v, expected) assert_string_equal(kit_type(k, v), expected)

static inline const char *kit_extent(kit *k, lw_extent e) {
  lw__text_clear(&k->text);
  lw__extent_print(&k->g, e, &k->text);
  return lw__text_str(&k->text);
}

static inline const char *kit_print(kit *k, bool full) {
  lw__text_clear(&k->text);
  lw__graph_print(&k->g, full, &k->text);
  assert_int_equal(k->text.status, LW_OK);
  return lw__text_str(&k->text);
}

/* ---- random graphs ----------------------------------------------------------------------------*/

static inline lw_value_id random_value(lw_graph *g, lw_rng *rng) {
  return (lw_value_id)lw__rng_range(rng, 0, g->values.count);
}

static inline lw_status random_source(lw_graph *g, lw_rng *rng, lw_value_id *out) {
  static const char *const names[] = {"x", "odd name", "1", "a\"b\\c", "x", "new\nline", NULL};
  static const lw_dtype types[] = {LW_DTYPE_F32, LW_DTYPE_F32,  LW_DTYPE_F16, LW_DTYPE_I64,
                                   LW_DTYPE_I32, LW_DTYPE_BOOL, LW_DTYPE_F64, LW_DTYPE_U8};
  lw_dtype dtype = types[lw__rng_range(rng, 0, LW_ARRAY_COUNT(types))];
  lw_shape shape = {.rank = (uint32_t)lw__rng_range(rng, 0, 4)};
  for (uint32_t d = 0; d < shape.rank; d++) shape.dim[d] = lw__rng_range(rng, 0, 4);
  int64_t kind = lw__rng_range(rng, 0, 4);
  if (kind == 0) {
    uint64_t data[27];
    for (size_t i = 0; i < LW_ARRAY_COUNT(data); i++) data[i] = lw__rng_u64(rng);
    for (size_t i = 0; i < sizeof data && dtype == LW_DTYPE_BOOL; i++) ((uint8_t *)data)[i] &= 1;
    return lw__graph_const_copy(g, dtype, &shape, data, out);
  }
  if (kind == 1) return lw__graph_iota(g, dtype, &shape, (uint32_t)lw__rng_range(rng, 0, 3), out);
  for (uint32_t d = 0; d < shape.rank; d++) {
    const char *const symbols[] = {"batch", "s 0", "min"};
    if (lw__rng_range(rng, 0, 3) != 0) continue;
    LW_TRY(lw__extent_symbol(g, symbols[lw__rng_range(rng, 0, 3)], &shape.dim[d]));
  }
  return lw__graph_input(g, dtype, &shape, names[lw__rng_range(rng, 0, LW_ARRAY_COUNT(names))],
                         out);
}

static inline lw_status random_movement(lw_graph *g, lw_rng *rng, lw_value_id v, lw_value_id *out) {
  lw_shape shape = lw__value(g, v)->shape;
  int64_t a[LW_MAX_RANK], b[LW_MAX_RANK];
  uint8_t perm[LW_MAX_RANK], axis[2] = {0, 1};
  for (uint32_t d = 0; d < LW_MAX_RANK; d++) {
    a[d] = lw__rng_range(rng, 0, 3);
    b[d] = lw__rng_range(rng, 1, 3);
    perm[d] = (uint8_t)((d + 1) % (shape.rank > 0 ? shape.rank : 1));
  }
  switch (lw__rng_range(rng, 0, 7)) {
    case 0: return lw__graph_permute(g, v, perm, out);
    case 1: return lw__graph_pad(g, v, a, b, (lw_scalar){.i = 1}, out);
    case 2:
      return lw__graph_window(g, v, shape.rank < 2 ? shape.rank : 2, axis, b, b + 2, b + 4, out);
    case 3:
      for (uint32_t d = 0; d < shape.rank; d++)
        LW_TRY(lw__extent_make(g, LW_EXTENT_FLOORDIV, shape.dim[d], 2, &shape.dim[d]));
      return lw__graph_slice(g, v, a, b, shape.dim, out);
    case 4:
      return lw__graph_concat(g, (lw_value_id[3]){v, v, random_value(g, rng)}, 3, (uint32_t)a[0],
                              out);
    case 5:
      for (uint32_t d = 0; d < shape.rank; d++) {
        if (shape.dim[d] == 1) LW_TRY(lw__extent_symbol(g, "t", &shape.dim[d]));
      }
      return lw__graph_expand(g, v, &shape, out);
    default:
      if (shape.rank < 2) return LW_STATUS_USAGE;
      LW_TRY(lw__extent_make(g, LW_EXTENT_MUL, shape.dim[0], shape.dim[1], &shape.dim[1]));
      shape.dim[0] = 1;
      return lw__graph_reshape(g, v, &shape, out);
  }
}

static inline lw_status random_computation(lw_graph *g, lw_rng *rng, lw_value_id v,
                                           lw_value_id *out) {
  lw_value_id w = random_value(g, rng);
  lw_conv_attr conv = {
      .spatial = 1, .stride = {2}, .dilation = {1}, .pad_lo = {1}, .pad_hi = {0}, .group = 1};
  int8_t select[LW_MAX_RANK] = {0, -2, -3, -4};
  switch (lw__rng_range(rng, 0, 8)) {
    case 0: return lw__graph_reduce(g, (lw_red)lw__rng_range(rng, 0, LW_RED_COUNT), v, 1, out);
    case 1: return lw__graph_dot(g, v, w, out);
    case 2:
      conv.transposed = lw__rng_range(rng, 0, 2) == 1;
      return lw__graph_conv(g, v, w, &conv, out);
    case 3: return lw__graph_gather(g, v, &w, 1, select, &lw__value(g, w)->shape, out);
    case 4: return lw__graph_softmax(g, v, 1, false, out);
    case 5: return lw__graph_cast(g, v, (lw_dtype)lw__rng_range(rng, 1, LW_DTYPE_COUNT), out);
    default: {
      lw_value_id in[3] = {v, w, random_value(g, rng)};
      lw_fn fn = (lw_fn)lw__rng_range(rng, 0, LW_FN_COUNT);
      return lw__graph_map_bc(g, fn == LW_FN_CAST ? LW_FN_ADD : fn, in, out);
    }
  }
}

/* About |steps| nodes; what is refused is left out. Only memory may fail otherwise. */
static inline lw_status random_graph(lw_graph *g, lw_rng *rng, int steps) {
  char where[32];
  for (int i = 0; i < steps; i++) {
    lw_value_id v = LW_NONE, out = LW_NONE;
    snprintf(where, sizeof where, "node;%d \t\"", i / 3);
    g->where = i % 4 == 0 ? NULL : where;
    int64_t kind = g->values.count == 0 ? 0 : lw__rng_range(rng, 0, 6);
    if (kind != 0) v = random_value(g, rng);
    lw_status status = kind == 0   ? random_source(g, rng, &out)
                       : kind <= 3 ? random_movement(g, rng, v, &out)
                                   : random_computation(g, rng, v, &out);
    g->where = NULL;
    if (status == LW_STATUS_OUT_OF_MEMORY || status == LW_STATUS_INTERNAL) return status;
    if (status == LW_OK && lw__rng_range(rng, 0, 4) == 0) LW_TRY(lw__graph_output(g, out, "y"));
  }
  return LW_OK;
}

#endif

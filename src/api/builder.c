/* builder.c: lw_graph_*: building a graph by hand. Checks what a caller can get wrong and hands
 * over to the graph's own construction, which infers shapes and explains violations. */
#include "api/builder.h"

#include "api/model.h"

#include <string.h>

#define BUILDER_ALL_AXES ((1u << LW_MAX_RANK) - 1)

static lw_built_graph *built(const lw_graph *graph) { return (lw_built_graph *)(uintptr_t)graph; }

lw_status lw_graph_create(lw_graph **out_graph) {
  if (out_graph == NULL) return LW_STATUS_USAGE;
  *out_graph = NULL;
  void *memory = NULL;
  LW_TRY(lw__mem_resize(&memory, sizeof(lw_built_graph)));
  lw_built_graph *b = memory;
  *b = (lw_built_graph){0};
  lw_status status = lw__graph_init(&b->graph, &b->diag);
  if (status != LW_OK) {
    lw_graph_destroy(&b->graph);
    return status;
  }
  *out_graph = &b->graph;
  return LW_OK;
}

void lw_graph_destroy(lw_graph *graph) {
  if (graph == NULL) return;
  lw_built_graph *b = built(graph);
  lw__graph_deinit(&b->graph);
  lw__diag_deinit(&b->diag);
  lw__text_deinit(&b->error);
  lw__mem_free(b);
}

const char *lw_graph_error(const lw_graph *graph) {
  if (graph == NULL) return "the graph is NULL";
  lw_built_graph *b = built(graph);
  lw__diag_line(&b->diag, &b->error);
  return lw__text_str(&b->error);
}

/* ---- checks of arguments ----- */

/* Starts a call: messages of the last one are gone, |what| is what this one builds. */
static lw_status builder_begin(lw_graph *graph, const char *what, uint32_t *out_value) {
  if (graph == NULL || out_value == NULL) return LW_STATUS_USAGE;
  *out_value = LW_NONE;
  lw__diag_deinit(graph->diag);
  graph->where = what;
  return LW_OK;
}

static lw_status builder_value(lw_graph *graph, uint32_t value) {
  if (value < graph->values.count) return LW_OK;
  return lw__fail(graph->diag, LW_STATUS_USAGE, graph->where, "there is no value %u", value);
}

static lw_status builder_shape(lw_graph *graph, int rank, const int64_t *dims, lw_shape *out) {
  if (rank < 0 || rank > LW_MAX_RANK) {
    return lw__fail(graph->diag, LW_STATUS_USAGE, graph->where, "rank %d is not in 0 to %d", rank,
                    LW_MAX_RANK);
  }
  if (rank > 0 && dims == NULL) {
    return lw__fail(graph->diag, LW_STATUS_USAGE, graph->where, "dims are NULL");
  }
  for (int d = 0; d < rank; d++) {
    if (dims[d] < 0) {
      return lw__fail(graph->diag, LW_STATUS_USAGE, graph->where, "dimension %d is negative", d);
    }
  }
  *out = lw__shape_of((uint32_t)rank, dims);
  if (lw__shape_numel(out) >= 0) return LW_OK;
  return lw__fail(graph->diag, LW_STATUS_USAGE, graph->where, "the shape has too many elements");
}

static lw_status builder_dtype(lw_graph *graph, lw_dtype dtype) {
  if (dtype > LW_DTYPE_NONE && dtype < LW_DTYPE_COUNT) return LW_OK;
  return lw__fail(graph->diag, LW_STATUS_USAGE, graph->where, "%d is no element type", (int)dtype);
}

static uint32_t builder_rank(const lw_graph *graph, uint32_t value) {
  return lw__value(graph, value)->shape.rank;
}

/* Negative axes count from the end. */
static lw_status builder_axis(lw_graph *graph, uint32_t operand, int axis, uint32_t *out_axis) {
  int rank = (int)builder_rank(graph, operand);
  if (axis < -rank || axis >= rank) {
    return lw__fail(graph->diag, LW_STATUS_USAGE, graph->where, "there is no axis %d in rank %d",
                    axis, rank);
  }
  *out_axis = (uint32_t)(axis < 0 ? axis + rank : axis);
  return LW_OK;
}

static lw_status builder_name(lw_graph *graph, const char *name) {
  if (name != NULL) return LW_OK;
  return lw__fail(graph->diag, LW_STATUS_USAGE, graph->where, "the name is NULL");
}

static lw_status builder_name_taken(lw_graph *graph, const char *name) {
  return lw__fail(graph->diag, LW_STATUS_USAGE, graph->where, "the name '%s' is taken", name);
}

/* ---- sources and outputs ----- */

lw_status lw_graph_add_input(lw_graph *graph, const char *name, lw_dtype dtype, int rank,
                             const int64_t *dims, uint32_t *out_value) {
  lw_shape shape;
  LW_TRY(builder_begin(graph, "input", out_value));
  LW_TRY(builder_name(graph, name));
  for (uint32_t i = 0; i < graph->inputs.count; i++) {
    const char *taken = lw__value(graph, graph->inputs.data[i])->name;
    if (strcmp(taken, name) == 0) return builder_name_taken(graph, name);
  }
  LW_TRY(builder_dtype(graph, dtype));
  LW_TRY(builder_shape(graph, rank, dims, &shape));
  return lw__graph_input(graph, dtype, &shape, name, out_value);
}

lw_status lw_graph_add_constant(lw_graph *graph, lw_dtype dtype, int rank, const int64_t *dims,
                                const void *data, uint32_t *out_value) {
  lw_shape shape;
  LW_TRY(builder_begin(graph, "constant", out_value));
  LW_TRY(builder_dtype(graph, dtype));
  LW_TRY(builder_shape(graph, rank, dims, &shape));
  if (data == NULL && lw__shape_numel(&shape) > 0) {
    return lw__fail(graph->diag, LW_STATUS_USAGE, graph->where, "data is NULL");
  }
  return lw__graph_const_copy(graph, dtype, &shape, data, out_value);
}

lw_status lw_graph_add_output(lw_graph *graph, uint32_t value, const char *name) {
  uint32_t unused;
  LW_TRY(builder_begin(graph, "output", &unused));
  LW_TRY(builder_name(graph, name));
  for (uint32_t i = 0; i < graph->output_names.count; i++) {
    if (strcmp(graph->output_names.data[i], name) == 0) return builder_name_taken(graph, name);
  }
  LW_TRY(builder_value(graph, value));
  return lw__graph_output(graph, value, name);
}

/* ---- operators ----- */

static lw_status builder_unknown(lw_graph *graph, const char *kind, const char *name,
                                 const lw_text *names) {
  if (names->status != LW_OK) return names->status;
  return lw__fail(graph->diag, LW_STATUS_USAGE, graph->where, "there is no %s '%s'; there are %s",
                  kind, name == NULL ? "(NULL)" : name, lw__text_str(names));
}

/* The function that is |index|-th among those of lw_graph_add_map, or LW_FN_COUNT. */
static int builder_map_function(size_t index) {
  for (int fn = 0; fn < LW_FN_COUNT; fn++) {
    if (fn == LW_FN_CAST) continue; /* has a call of its own */
    if (index-- == 0) return fn;
  }
  return LW_FN_COUNT;
}

const char *lw_map_function_name(size_t index) {
  int fn = builder_map_function(index);
  return fn < LW_FN_COUNT ? lw__fn_info[fn].name : NULL;
}

static lw_status builder_no_fn(lw_graph *graph, const char *name) {
  lw_text names = {0};
  const char *one;
  for (size_t i = 0; (one = lw_map_function_name(i)) != NULL; i++) {
    lw__text_add(&names, i == 0 ? "%s" : ", %s", one);
  }
  lw_status status = builder_unknown(graph, "function", name, &names);
  lw__text_deinit(&names);
  return status;
}

static lw_status builder_fn(lw_graph *graph, const char *name, size_t count, lw_fn *out) {
  int fn;
  for (size_t i = 0; name != NULL && (fn = builder_map_function(i)) < LW_FN_COUNT; i++) {
    if (strcmp(lw__fn_info[fn].name, name) != 0) continue;
    *out = (lw_fn)fn;
    if (lw__fn_info[fn].arity == count) return LW_OK;
    return lw__fail(graph->diag, LW_STATUS_USAGE, graph->where, "'%s' takes %u operands, not %zu",
                    name, (unsigned)lw__fn_info[fn].arity, count);
  }
  return builder_no_fn(graph, name);
}

/* Two shapes that do not broadcast are shown whole. */
static lw_status builder_broadcasts(lw_graph *graph, uint32_t a, uint32_t b) {
  const lw_shape *sa = &lw__value(graph, a)->shape, *sb = &lw__value(graph, b)->shape;
  uint32_t shared = sa->rank < sb->rank ? sa->rank : sb->rank;
  bool fits = true;
  for (uint32_t d = 1; d <= shared; d++) {
    lw_extent x = sa->dim[sa->rank - d], y = sb->dim[sb->rank - d];
    fits = fits && (x == y || x == 1 || y == 1);
  }
  if (fits) return LW_OK;
  lw_text left = {0}, right = {0};
  lw__shape_print(graph, sa, &left);
  lw__shape_print(graph, sb, &right);
  lw_status status = lw__fail(graph->diag, LW_STATUS_USAGE, graph->where,
                              "shapes %s (value %u) and %s (value %u) do not broadcast",
                              lw__text_str(&left), a, lw__text_str(&right), b);
  lw__text_deinit(&left);
  lw__text_deinit(&right);
  return status;
}

lw_status lw_graph_add_map(lw_graph *graph, const char *name, const uint32_t *operands,
                           size_t count, uint32_t *out_value) {
  lw_fn fn;
  LW_TRY(builder_begin(graph, "map", out_value));
  LW_TRY(builder_fn(graph, name, count, &fn));
  if (operands == NULL) {
    return lw__fail(graph->diag, LW_STATUS_USAGE, graph->where, "operands are NULL");
  }
  for (size_t i = 0; i < count; i++) LW_TRY(builder_value(graph, operands[i]));
  for (size_t i = 0; i < count; i++) {
    for (size_t k = 0; k < i; k++) LW_TRY(builder_broadcasts(graph, operands[k], operands[i]));
  }
  return lw__graph_map_bc(graph, fn, operands, out_value);
}

lw_status lw_graph_add_cast(lw_graph *graph, uint32_t operand, lw_dtype to, uint32_t *out_value) {
  LW_TRY(builder_begin(graph, "cast", out_value));
  LW_TRY(builder_value(graph, operand));
  LW_TRY(builder_dtype(graph, to));
  return lw__graph_cast(graph, operand, to, out_value);
}

lw_status lw_graph_add_reshape(lw_graph *graph, uint32_t operand, int rank, const int64_t *dims,
                               uint32_t *out_value) {
  lw_shape shape;
  LW_TRY(builder_begin(graph, "reshape", out_value));
  LW_TRY(builder_value(graph, operand));
  LW_TRY(builder_shape(graph, rank, dims, &shape));
  return lw__graph_reshape(graph, operand, &shape, out_value);
}

lw_status lw_graph_add_transpose(lw_graph *graph, uint32_t operand, const int *perm,
                                 uint32_t *out_value) {
  uint8_t order[LW_MAX_RANK] = {0};
  uint32_t seen = 0;
  LW_TRY(builder_begin(graph, "transpose", out_value));
  LW_TRY(builder_value(graph, operand));
  uint32_t rank = builder_rank(graph, operand);
  for (uint32_t d = 0; d < rank; d++) {
    int p = perm == NULL ? (int)(rank - 1 - d) : perm[d]; /* ONNX's default: all reversed */
    if (p < 0 || p >= (int)rank || (seen >> p & 1) != 0) {
      return lw__fail(graph->diag, LW_STATUS_USAGE, graph->where,
                      "perm is no permutation of 0 to %u", rank - 1);
    }
    seen |= 1u << p;
    order[d] = (uint8_t)p;
  }
  return lw__graph_permute(graph, operand, order, out_value);
}

static lw_status builder_red(lw_graph *graph, const char *name, lw_red *out) {
  for (int red = 0; name != NULL && red < LW_RED_COUNT; red++) {
    if (strcmp(lw__red_info[red].name, name) != 0) continue;
    *out = (lw_red)red;
    return LW_OK;
  }
  lw_text names = {0};
  for (int red = 0; red < LW_RED_COUNT; red++) {
    lw__text_add(&names, red == 0 ? "%s" : ", %s", lw__red_info[red].name);
  }
  lw_status status = builder_unknown(graph, "reduction", name, &names);
  lw__text_deinit(&names);
  return status;
}

/* No axes at all means every axis, as in ONNX. */
static lw_status builder_axes(lw_graph *graph, uint32_t operand, const int *axes, size_t count,
                              uint32_t *out_mask) {
  uint32_t rank = builder_rank(graph, operand);
  *out_mask = count == 0 ? (1u << rank) - 1 : 0;
  if (count > 0 && axes == NULL) {
    return lw__fail(graph->diag, LW_STATUS_USAGE, graph->where, "axes are NULL");
  }
  for (size_t i = 0; i < count; i++) {
    uint32_t axis;
    LW_TRY(builder_axis(graph, operand, axes[i], &axis));
    if ((*out_mask >> axis & 1) != 0) {
      return lw__fail(graph->diag, LW_STATUS_USAGE, graph->where, "axis %d is given twice",
                      axes[i]);
    }
    *out_mask |= 1u << axis;
  }
  return LW_OK;
}

lw_status lw_graph_add_reduce(lw_graph *graph, const char *name, uint32_t operand, const int *axes,
                              size_t axis_count, int keep_dims, uint32_t *out_value) {
  lw_red red;
  uint32_t mask;
  LW_TRY(builder_begin(graph, "reduce", out_value));
  LW_TRY(builder_red(graph, name, &red));
  LW_TRY(builder_value(graph, operand));
  LW_TRY(builder_axes(graph, operand, axes, axis_count, &mask));
  lw_shape kept = lw__value(graph, operand)->shape;
  for (uint32_t d = 0; d < kept.rank; d++) {
    if ((mask >> d & 1) != 0) kept.dim[d] = 1;
  }
  uint32_t reduced;
  LW_TRY(lw__graph_reduce(graph, red, operand, mask, &reduced));
  if (keep_dims != 0) return lw__graph_reshape(graph, reduced, &kept, out_value);
  *out_value = reduced;
  return LW_OK;
}

/* numpy.matmul: a vector gets a row or a column of extent 1 that the result loses again; batch
 * dimensions broadcast. */
static lw_status builder_matmul_side(lw_graph *graph, uint32_t value, bool left,
                                     uint32_t *out_value) {
  lw_shape shape = lw__value(graph, value)->shape;
  if (shape.rank == 0) {
    return lw__fail(graph->diag, LW_STATUS_USAGE, graph->where, "an operand is a scalar");
  }
  *out_value = value;
  if (shape.rank > 1) return LW_OK;
  shape.rank = 2;
  shape.dim[1] = left ? shape.dim[0] : 1;
  if (left) shape.dim[0] = 1;
  return lw__graph_reshape(graph, value, &shape, out_value);
}

static lw_status builder_broadcast_batch(lw_graph *graph, uint32_t *a, uint32_t *b) {
  lw_shape sa = lw__value(graph, *a)->shape, sb = lw__value(graph, *b)->shape;
  uint32_t rank = sa.rank > sb.rank ? sa.rank : sb.rank;
  lw_shape ta = {.rank = rank}, tb = {.rank = rank};
  for (uint32_t d = 0; d < rank - 2; d++) {
    lw_extent ea = d + sa.rank >= rank ? sa.dim[d + sa.rank - rank] : 1;
    lw_extent eb = d + sb.rank >= rank ? sb.dim[d + sb.rank - rank] : 1;
    ta.dim[d] = tb.dim[d] = ea == 1 ? eb : ea;
  }
  for (uint32_t d = 0; d < 2; d++) {
    ta.dim[rank - 2 + d] = sa.dim[sa.rank - 2 + d];
    tb.dim[rank - 2 + d] = sb.dim[sb.rank - 2 + d];
  }
  LW_TRY(lw__graph_broadcast(graph, *a, &ta, a));
  return lw__graph_broadcast(graph, *b, &tb, b);
}

lw_status lw_graph_add_matmul(lw_graph *graph, uint32_t a, uint32_t b, uint32_t *out_value) {
  LW_TRY(builder_begin(graph, "matmul", out_value));
  LW_TRY(builder_value(graph, a));
  LW_TRY(builder_value(graph, b));
  bool row = builder_rank(graph, a) == 1, column = builder_rank(graph, b) == 1;
  uint32_t left, right, product;
  LW_TRY(builder_matmul_side(graph, a, true, &left));
  LW_TRY(builder_matmul_side(graph, b, false, &right));
  LW_TRY(builder_broadcast_batch(graph, &left, &right));
  LW_TRY(lw__graph_dot(graph, left, right, &product));
  *out_value = product;
  if (!row && !column) return LW_OK;
  lw_shape shape = lw__value(graph, product)->shape, kept = {0};
  for (uint32_t d = 0; d < shape.rank; d++) {
    bool drop = (row && d + 2 == shape.rank) || (column && d + 1 == shape.rank);
    if (!drop) kept.dim[kept.rank++] = shape.dim[d];
  }
  return lw__graph_reshape(graph, product, &kept, out_value);
}

lw_status lw_graph_add_relu(lw_graph *graph, uint32_t operand, uint32_t *out_value) {
  LW_TRY(builder_begin(graph, "relu", out_value));
  LW_TRY(builder_value(graph, operand));
  return lw__graph_relu(graph, operand, out_value);
}

lw_status lw_graph_add_gelu(lw_graph *graph, uint32_t operand, int tanh_form, uint32_t *out_value) {
  LW_TRY(builder_begin(graph, "gelu", out_value));
  LW_TRY(builder_value(graph, operand));
  return lw__graph_gelu(graph, operand, tanh_form != 0, out_value);
}

lw_status lw_graph_add_softmax(lw_graph *graph, uint32_t operand, int axis, uint32_t *out_value) {
  uint32_t index;
  LW_TRY(builder_begin(graph, "softmax", out_value));
  LW_TRY(builder_value(graph, operand));
  LW_TRY(builder_axis(graph, operand, axis, &index));
  return lw__graph_softmax(graph, operand, 1u << index, false, out_value);
}

lw_status lw_graph_add_layer_norm(lw_graph *graph, uint32_t operand, int axis_count, double epsilon,
                                  uint32_t scale, uint32_t bias, uint32_t *out_value) {
  LW_TRY(builder_begin(graph, "layer_norm", out_value));
  LW_TRY(builder_value(graph, operand));
  if (scale != LW_NONE) LW_TRY(builder_value(graph, scale));
  if (bias != LW_NONE) LW_TRY(builder_value(graph, bias));
  uint32_t rank = builder_rank(graph, operand);
  if (axis_count < 1 || (uint32_t)axis_count > rank) {
    return lw__fail(graph->diag, LW_STATUS_USAGE, graph->where,
                    "%d axes do not fit an operand of rank %u", axis_count, rank);
  }
  uint32_t first = rank - (uint32_t)axis_count;
  uint32_t axes = BUILDER_ALL_AXES & ((1u << rank) - 1) & ~((1u << first) - 1);
  uint32_t mean, rstd;
  return lw__graph_layer_norm(graph, operand, axes, epsilon, scale, bias, out_value, &mean, &rstd);
}

/* content.c: element-wise evaluation of small values, with symbols. Numbers follow the declared
 * types strictly; what symbols do to a function is decided by the ranges of the extents. */
#include "compiler/onnx/content.h"

#include <math.h>
#include <string.h>

void lw__contents_deinit(lw_contents *contents) { lw_vec_free(&contents->of_value); }

lw_content_elem lw__content_extent(lw_extent extent) {
  if (lw__extent_is_number(extent)) return lw__content_i64(extent);
  return (lw_content_elem){.kind = LW_CONTENT_EXTENT, .extent = extent};
}

static const lw_content_elem content_unknown = {.kind = LW_CONTENT_UNKNOWN};

/* ---- one element ----------------------------------------------------------------------------*/

static void content_range(const lw_graph *graph, const lw_content_elem *e, int64_t *lo,
                          int64_t *hi) {
  *lo = *hi = e->value.i;
  if (e->kind != LW_CONTENT_EXTENT) return;
  const lw_extent_node *node = &graph->extents.nodes.data[~e->extent];
  *lo = node->lo;
  *hi = node->hi;
}

static lw_content_elem content_bool(bool b) { return lw__content_i64(b); }

static lw_content_elem content_compare(const lw_graph *graph, lw_fn fn, const lw_content_elem *in) {
  int64_t alo, ahi, blo, bhi;
  content_range(graph, &in[0], &alo, &ahi);
  content_range(graph, &in[1], &blo, &bhi);
  bool same = in[0].kind == LW_CONTENT_EXTENT && in[1].kind == LW_CONTENT_EXTENT &&
              lw__extent_provably_equal(graph, in[0].extent, in[1].extent);
  bool apart = ahi < blo || bhi < alo;
  switch (fn) {
    case LW_FN_EQ: return same || apart ? content_bool(same) : content_unknown;
    case LW_FN_NE: return same || apart ? content_bool(!same) : content_unknown;
    case LW_FN_LT:
      if (ahi < blo) return content_bool(true);
      return same || alo >= bhi ? content_bool(false) : content_unknown;
    case LW_FN_LE:
      if (same || ahi <= blo) return content_bool(true);
      return alo > bhi ? content_bool(false) : content_unknown;
    case LW_FN_GT:
      if (alo > bhi) return content_bool(true);
      return same || ahi <= blo ? content_bool(false) : content_unknown;
    case LW_FN_GE:
      if (same || alo >= bhi) return content_bool(true);
      return ahi < blo ? content_bool(false) : content_unknown;
    default: return content_unknown;
  }
}

/* a*mul + add on an element that is an extent or a number. */
static lw_status content_affine(lw_graph *graph, const lw_content_elem *a, int64_t mul, int64_t add,
                                lw_content_elem *out) {
  lw_extent e;
  LW_TRY(lw__extent_affine(graph, a->extent, mul, add, &e));
  *out = lw__content_extent(e);
  return LW_OK;
}

static lw_status content_make(lw_graph *graph, lw_extent_op op, lw_extent a, lw_extent b,
                              lw_content_elem *out) {
  lw_extent e;
  LW_TRY(lw__extent_make(graph, op, a, b, &e));
  *out = lw__content_extent(e);
  return LW_OK;
}

static lw_status content_subtract(lw_graph *graph, const lw_content_elem *in,
                                  lw_content_elem *out) {
  bool a = in[0].kind == LW_CONTENT_EXTENT, b = in[1].kind == LW_CONTENT_EXTENT;
  if (!b) return content_affine(graph, &in[0], 1, -in[1].value.i, out);
  if (!a) return content_affine(graph, &in[1], -1, in[0].value.i, out);
  if (lw__extent_provably_equal(graph, in[0].extent, in[1].extent)) {
    *out = lw__content_i64(0);
    return LW_OK;
  }
  lw_content_elem minus;
  LW_TRY(content_affine(graph, &in[1], -1, 0, &minus));
  if (minus.kind != LW_CONTENT_EXTENT) return LW_OK;
  return content_make(graph, LW_EXTENT_ADD, in[0].extent, minus.extent, out);
}

/* Division of extents that are known not to be negative: truncation and floor agree there. */
static lw_status content_divide(lw_graph *graph, bool modulus, bool is_float,
                                const lw_content_elem *in, lw_content_elem *out) {
  int64_t lo[2], hi[2];
  for (int k = 0; k < 2; k++) content_range(graph, &in[k], &lo[k], &hi[k]);
  if (lo[0] < 0 || lo[1] < 1) return LW_OK;
  if (is_float) {
    int64_t divisor = in[0].kind == LW_CONTENT_EXTENT
                          ? graph->extents.nodes.data[~in[0].extent].divisor
                          : in[0].value.i;
    bool whole = in[1].kind == LW_CONTENT_NUMBER && divisor % in[1].value.i == 0;
    if (modulus || !whole) return LW_OK;
  }
  lw_extent a = in[0].kind == LW_CONTENT_EXTENT ? in[0].extent : in[0].value.i;
  lw_extent b = in[1].kind == LW_CONTENT_EXTENT ? in[1].extent : in[1].value.i;
  return content_make(graph, modulus ? LW_EXTENT_MOD : LW_EXTENT_FLOORDIV, a, b, out);
}

static lw_status content_extremum(lw_graph *graph, bool max, const lw_content_elem *in,
                                  lw_content_elem *out) {
  int64_t lo[2], hi[2];
  for (int k = 0; k < 2; k++) content_range(graph, &in[k], &lo[k], &hi[k]);
  if (lo[0] >= hi[1])
    *out = in[max ? 0 : 1];
  else if (lo[1] >= hi[0])
    *out = in[max ? 1 : 0];
  else if (lo[0] >= 0 && lo[1] >= 0) {
    lw_extent a = in[0].kind == LW_CONTENT_EXTENT ? in[0].extent : in[0].value.i;
    lw_extent b = in[1].kind == LW_CONTENT_EXTENT ? in[1].extent : in[1].value.i;
    return content_make(graph, max ? LW_EXTENT_MAX : LW_EXTENT_MIN, a, b, out);
  }
  return LW_OK;
}

/* Operands are whole numbers here, in .i even for float types. */
static lw_status content_symbolic(lw_graph *graph, lw_fn fn, bool is_float,
                                  const lw_content_elem *in, lw_content_elem *out) {
  bool both = in[0].kind == LW_CONTENT_EXTENT && in[1].kind == LW_CONTENT_EXTENT;
  const lw_content_elem *sym = in[0].kind == LW_CONTENT_EXTENT ? &in[0] : &in[1];
  const lw_content_elem *num = sym == in ? &in[1] : &in[0];
  int64_t lo, hi;
  switch (fn) {
    case LW_FN_ADD:
      if (both) return content_make(graph, LW_EXTENT_ADD, in[0].extent, in[1].extent, out);
      return content_affine(graph, sym, 1, num->value.i, out);
    case LW_FN_MUL:
      if (both) return content_make(graph, LW_EXTENT_MUL, in[0].extent, in[1].extent, out);
      return content_affine(graph, sym, num->value.i, 0, out);
    case LW_FN_SUB: return content_subtract(graph, in, out);
    case LW_FN_DIV: return content_divide(graph, false, is_float, in, out);
    case LW_FN_MOD:
    case LW_FN_REM: return content_divide(graph, true, is_float, in, out);
    case LW_FN_MIN:
    case LW_FN_MAX: return content_extremum(graph, fn == LW_FN_MAX, in, out);
    case LW_FN_NEG: return content_affine(graph, &in[0], -1, 0, out);
    case LW_FN_ABS:
      content_range(graph, &in[0], &lo, &hi);
      if (lo >= 0) *out = in[0];
      return LW_OK;
    case LW_FN_FLOOR:
    case LW_FN_CEIL:
    case LW_FN_ROUND:
    case LW_FN_TRUNC: *out = in[0]; return LW_OK;
    default: *out = content_compare(graph, fn, in); return LW_OK;
  }
}

static void content_numbers(lw_fn fn, lw_dtype dtype, const lw_content_elem *in,
                            lw_content_elem *out) {
  const lw_fn_info *info = &lw__fn_info[fn];
  out->kind = LW_CONTENT_NUMBER;
  if (!lw__dtype_is_float(dtype)) {
    out->value.i = lw__fn_eval_i64(fn, dtype, in[0].value.i, in[1].value.i, in[2].value.i);
    return;
  }
  double y = lw__fn_eval_f64(fn, in[0].value.f, in[1].value.f, in[2].value.f);
  if (info->domain == LW_DOMAIN_COMPARE || info->domain == LW_DOMAIN_TEST) {
    out->value.i = y != 0;
  } else {
    out->value.f = lw__round_to(dtype, y);
  }
}

static lw_status content_select(const lw_content_elem *in, lw_content_elem *out) {
  if (in[0].kind == LW_CONTENT_NUMBER) *out = in[0].value.i != 0 ? in[1] : in[2];
  return LW_OK;
}

lw_status lw__content_apply(lw_graph *graph, lw_fn fn, lw_dtype dtype, const lw_content_elem *in,
                            lw_content_elem *out) {
  *out = content_unknown;
  if (fn == LW_FN_SELECT) return content_select(in, out);
  uint32_t arity = lw__fn_info[fn].arity;
  bool symbolic = false, is_float = lw__dtype_is_float(dtype);
  lw_content_elem whole[3] = {lw__content_i64(0), lw__content_i64(0), lw__content_i64(0)};
  for (uint32_t k = 0; k < arity; k++) {
    if (in[k].kind == LW_CONTENT_UNKNOWN) return LW_OK;
    symbolic |= in[k].kind == LW_CONTENT_EXTENT;
    whole[k] = in[k];
  }
  if (!symbolic) {
    content_numbers(fn, dtype, whole, out);
    return LW_OK;
  }
  for (uint32_t k = 0; k < arity && is_float; k++) {
    if (in[k].kind != LW_CONTENT_NUMBER) continue;
    double x = in[k].value.f;
    if (!(fabs(x) < 9e15) || x != floor(x)) return LW_OK;
    whole[k].value.i = (int64_t)x;
  }
  /* What the symbols do not allow is no error of the model: no message. */
  lw_diag *diag = graph->diag;
  graph->diag = NULL;
  lw_status status = content_symbolic(graph, fn, is_float, whole, out);
  graph->diag = diag;
  if (status != LW_OK && status != LW_STATUS_OUT_OF_MEMORY) {
    *out = content_unknown;
    status = LW_OK;
  }
  if (is_float && out->kind == LW_CONTENT_NUMBER && lw__fn_info[fn].domain != LW_DOMAIN_COMPARE) {
    out->value.f = (double)out->value.i;
  }
  return status;
}

static lw_content_elem content_cast(const lw_graph *graph, const lw_content_elem *in, lw_dtype from,
                                    lw_dtype to) {
  if (in->kind == LW_CONTENT_NUMBER) {
    return (lw_content_elem){.kind = LW_CONTENT_NUMBER, .value = lw__cast(in->value, from, to)};
  }
  if (in->kind == LW_CONTENT_UNKNOWN || to == LW_DTYPE_BOOL) {
    int64_t lo = 0, hi = 0;
    if (in->kind == LW_CONTENT_EXTENT) content_range(graph, in, &lo, &hi);
    return lo > 0 ? content_bool(true) : content_unknown;
  }
  return *in;
}

/* ---- whole values ---------------------------------------------------------------------------*/

bool lw__contents_has(const lw_contents *contents, lw_value_id value) {
  if (value < contents->of_value.count && contents->of_value.data[value] != NULL) return true;
  return lw__producer(contents->graph, value)->op == LW_OP_CONST;
}

bool lw__contents_get(const lw_contents *contents, lw_value_id value, int64_t index,
                      lw_content_elem *out) {
  *out = content_unknown;
  if (value < contents->of_value.count && contents->of_value.data[value] != NULL) {
    *out = contents->of_value.data[value][index];
    return true;
  }
  const lw_node *node = lw__producer(contents->graph, value);
  if (node->op != LW_OP_CONST) return false;
  lw_dtype dtype = lw__value(contents->graph, value)->dtype;
  out->kind = LW_CONTENT_NUMBER;
  if (lw__dtype_is_float(dtype)) {
    out->value.f = lw__elem_get_f64(dtype, node->attr.constant.data, index);
  } else {
    out->value.i = lw__elem_get_i64(dtype, node->attr.constant.data, index);
  }
  return true;
}

static lw_status contents_room(lw_contents *contents, uint32_t values) {
  if (contents->of_value.count >= values) return LW_OK;
  uint32_t more = values - contents->of_value.count;
  LW_TRY(lw_vec_reserve(&contents->of_value, more));
  memset(contents->of_value.data + contents->of_value.count, 0, more * sizeof(lw_content_elem *));
  contents->of_value.count = values;
  return LW_OK;
}

lw_status lw__contents_define(lw_contents *contents, lw_value_id value,
                              const lw_content_elem *elems, uint32_t count) {
  LW_TRY(contents_room(contents, value + 1));
  return lw__arena_dup(contents->arena, elems, count * sizeof *elems,
                       &contents->of_value.data[value]);
}

typedef struct lw_content_job {
  lw_contents *contents;
  const lw_node *node;
  const lw_value *result;
  lw_content_elem *out;
  int64_t count;
} lw_content_job;

static void content_unravel(const lw_shape *shape, int64_t linear, int64_t *index) {
  for (uint32_t d = shape->rank; d-- > 0;) {
    index[d] = linear % shape->dim[d];
    linear /= shape->dim[d];
  }
}
static int64_t content_ravel(const lw_shape *shape, const int64_t *index) {
  int64_t linear = 0;
  for (uint32_t d = 0; d < shape->rank; d++) linear = linear * shape->dim[d] + index[d];
  return linear;
}

static lw_status content_map(const lw_content_job *job, int64_t r) {
  lw_graph *graph = job->contents->graph;
  lw_content_elem in[3] = {{0}};
  for (uint32_t k = 0; k < job->node->operand_count; k++) {
    (void)lw__contents_get(job->contents, lw__operand(graph, job->node, k), r, &in[k]);
  }
  lw_fn fn = job->node->attr.fn;
  lw_dtype type = lw__value(graph, lw__operand(graph, job->node, fn == LW_FN_SELECT))->dtype;
  if (fn == LW_FN_CAST) {
    job->out[r] = content_cast(graph, &in[0], type, job->result->dtype);
    return LW_OK;
  }
  return lw__content_apply(graph, fn, type, in, &job->out[r]);
}

/* Coordinate of a gathered dim; LW_OK with |*out| -1 when it cannot be told. */
static int64_t content_gather_index(const lw_content_job *job, uint32_t operand, int64_t r,
                                    int64_t extent) {
  lw_content_elem e;
  (void)lw__contents_get(job->contents, lw__operand(job->contents->graph, job->node, operand), r,
                         &e);
  if (e.kind != LW_CONTENT_NUMBER) return -1;
  int64_t i = e.value.i < 0 ? e.value.i + extent : e.value.i;
  return i >= 0 && i < extent ? i : -1;
}

/* Position in operand |*operand| that result element |r| at |index| is read from; -1: unknown; -2:
 * padding. */
static int64_t content_source(const lw_content_job *job, int64_t r, const int64_t *index,
                              uint32_t *operand) {
  const lw_graph *graph = job->contents->graph;
  const lw_node *node = job->node;
  const lw_shape *shape = &lw__value(graph, lw__operand(graph, node, 0))->shape;
  int64_t from[LW_MAX_RANK] = {0};
  *operand = 0;
  for (uint32_t d = 0; d < shape->rank; d++) {
    switch (node->op) {
      case LW_OP_EXPAND: from[d] = shape->dim[d] == 1 ? 0 : index[d]; break;
      case LW_OP_SLICE:
        from[d] = node->attr.slice.start[d] + index[d] * node->attr.slice.step[d];
        break;
      case LW_OP_PAD:
        from[d] = index[d] - node->attr.pad.lo[d];
        if (from[d] < 0 || from[d] >= shape->dim[d]) return -2;
        break;
      case LW_OP_GATHER: {
        int8_t select = node->attr.gather.select[d];
        from[d] = select < 0 ? index[-1 - select]
                             : content_gather_index(job, 1u + (uint32_t)select, r, shape->dim[d]);
        if (from[d] < 0) return -1;
        break;
      }
      default: from[d] = index[d]; break; /* PERMUTE, CONCAT: below */
    }
  }
  if (node->op == LW_OP_RESHAPE) return r;
  if (node->op == LW_OP_PERMUTE) {
    for (uint32_t d = 0; d < shape->rank; d++) from[node->attr.perm[d]] = index[d];
  }
  if (node->op == LW_OP_CONCAT) {
    uint32_t axis = node->attr.axis;
    while (from[axis] >= shape->dim[axis] && *operand + 1 < node->operand_count) {
      from[axis] -= shape->dim[axis];
      shape = &lw__value(graph, lw__operand(graph, node, ++*operand))->shape;
    }
  }
  return content_ravel(shape, from);
}

static void content_move(const lw_content_job *job, int64_t r, const int64_t *index) {
  uint32_t operand;
  int64_t source = content_source(job, r, index, &operand);
  if (source == -2) {
    job->out[r] = (lw_content_elem){.kind = LW_CONTENT_NUMBER, .value = job->node->attr.pad.value};
  } else if (source >= 0) {
    (void)lw__contents_get(job->contents, lw__operand(job->contents->graph, job->node, operand),
                           source, &job->out[r]);
  } else {
    job->out[r] = content_unknown;
  }
}

static lw_status content_reduce(const lw_content_job *job) {
  lw_graph *graph = job->contents->graph;
  lw_value_id operand = lw__operand(graph, job->node, 0);
  lw_shape shape = lw__value(graph, operand)->shape;
  lw_dtype dtype = job->result->dtype;
  lw_red red = job->node->attr.reduce.fn;
  for (int64_t r = 0; r < job->count; r++) {
    job->out[r] = (lw_content_elem){.kind = LW_CONTENT_NUMBER};
    if (lw__dtype_is_float(dtype))
      job->out[r].value.f = lw__red_identity_f64(red, dtype);
    else
      job->out[r].value.i = lw__red_identity_i64(red, dtype);
  }
  for (int64_t i = 0, n = lw__shape_numel(&shape); i < n; i++) {
    int64_t index[LW_MAX_RANK], kept[LW_MAX_RANK];
    content_unravel(&shape, i, index);
    uint32_t rank = 0;
    for (uint32_t d = 0; d < shape.rank; d++) {
      if (!(job->node->attr.reduce.axes >> d & 1)) kept[rank++] = index[d];
    }
    lw_content_elem in[3] = {job->out[content_ravel(&job->result->shape, kept)]};
    (void)lw__contents_get(job->contents, operand, i, &in[1]);
    LW_TRY(lw__content_apply(graph, lw__red_info[red].combine, dtype, in,
                             &job->out[content_ravel(&job->result->shape, kept)]));
  }
  return LW_OK;
}

static lw_status content_evaluate(const lw_content_job *job) {
  if (job->node->op == LW_OP_REDUCE) return content_reduce(job);
  for (int64_t r = 0; r < job->count; r++) {
    int64_t index[LW_MAX_RANK];
    content_unravel(&job->result->shape, r, index);
    if (job->node->op == LW_OP_IOTA)
      job->out[r] = lw__content_i64(index[job->node->attr.axis]);
    else if (job->node->op == LW_OP_MAP)
      LW_TRY(content_map(job, r));
    else
      content_move(job, r, index);
  }
  return LW_OK;
}

/* Whether the operands tell enough, and the work stays small. */
static bool content_possible(const lw_contents *contents, const lw_node *node,
                             const lw_shape *shape) {
  const lw_graph *graph = contents->graph;
  int64_t count = lw__shape_numel(shape);
  if (count < 0 || count > LW_CONTENT_MAX) return false;
  if (count > LW_CONTENT_TOTAL_MAX - contents->total) return false;
  switch (node->op) {
    case LW_OP_IOTA:
    case LW_OP_MAP:
    case LW_OP_RESHAPE:
    case LW_OP_PERMUTE:
    case LW_OP_EXPAND:
    case LW_OP_SLICE:
    case LW_OP_PAD:
    case LW_OP_CONCAT:
    case LW_OP_GATHER: break;
    case LW_OP_REDUCE:
      count = lw__shape_numel(&lw__value(graph, lw__operand(graph, node, 0))->shape);
      if (count < 0 || count > LW_CONTENT_MAX) return false;
      break;
    default: return false;
  }
  for (uint32_t k = 0; k < node->operand_count; k++) {
    lw_value_id operand = lw__operand(graph, node, k);
    if (!lw__contents_has(contents, operand)) return false;
    if (!lw__shape_is_static(&lw__value(graph, operand)->shape)) return false;
  }
  return true;
}

lw_status lw__contents_update(lw_contents *contents) {
  const lw_graph *graph = contents->graph;
  LW_TRY(contents_room(contents, graph->values.count));
  for (; contents->nodes_done < graph->nodes.count; contents->nodes_done++) {
    const lw_node *node = lw__node(graph, contents->nodes_done);
    const lw_value *result = lw__value(graph, node->result);
    if (!content_possible(contents, node, &result->shape)) continue;
    lw_content_job job = {contents, node, result, NULL, lw__shape_numel(&result->shape)};
    contents->total += job.count;
    LW_TRY(lw__arena_alloc(contents->arena, (size_t)job.count, sizeof *job.out, &job.out));
    LW_TRY(content_evaluate(&job));
    contents->of_value.data[node->result] = job.out;
  }
  return LW_OK;
}

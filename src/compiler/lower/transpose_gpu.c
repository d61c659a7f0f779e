/* transpose_gpu.c: element-wise groups that read something along another dim than they write: tiles
 * go through shared memory, so that both sides touch memory in whole lines. */
#include "compiler/lower/transpose.h"

#include <string.h>

enum { threads = 256, least_extent = 16, least_elements = 4096 };

/* The linear index as mixed-radix digits: i = sum of digit * weight, fastest digit first. */
typedef struct digits {
  uint32_t count;
  int64_t weight[LW_MAX_RANK + 1], extent[LW_MAX_RANK + 1];
} digits;

typedef struct transpose_nest {
  lw_nest nest;
  digits d;
  lw_ix var[LW_MAX_RANK + 1];
  uint32_t y; /* digit along which the turned loads are contiguous */
  int64_t tile;
  lw_vec_elem turned;     /* loads that go through shared memory */
  lw_kval x0, y0, tx, ty; /* tile origin (i64), thread's place in the tile (i32) */
} transpose_nest;

/* Sorted distinct divisors of the linear index that chain (each divides the next) give the digits.
 */
static bool make_digits(lw_vec_i64 *divisors, int64_t elements, digits *out) {
  memset(out, 0, sizeof *out);
  int64_t weight = 1;
  for (;;) {
    int64_t next = elements;
    for (uint32_t i = 0; i < divisors->count; i++)
      if (divisors->data[i] > weight && divisors->data[i] < next) next = divisors->data[i];
    if (out->count > LW_MAX_RANK || next % weight) return false;
    out->weight[out->count] = weight;
    out->extent[out->count++] = next / weight;
    if (next == elements) return true;
    weight = next;
  }
}

static lw_status place_digits(lw_region *region, lw_region_context *ctx, const lw_node_id *nodes,
                              uint32_t count, const digits *d, lw_ix *var) {
  LW_TRY(lw__region_init(region, ctx, nodes, count));
  lw_ix_pool *ix = &region->pool.ix;
  lw_ix i = lw__ix_const(ix, 0);
  for (uint32_t k = 0; k < d->count; k++) {
    var[k] = lw__region_var(region, d->extent[k]);
    i = lw__ix_add(ix, i, lw__ix_affine(ix, var[k], d->weight[k], 0));
  }
  return lw__region_place(region, &i);
}

static bool unit_along(lw_ix_pool *ix, lw_ix e, lw_ix var) {
  int64_t coef;
  lw_ix rest;
  if (lw__ix_node(ix, var)->kind != LW_IX_VAR) return false;
  return lw__ix_split(ix, e, lw__ix_var_number(ix, var), &coef, &rest) && coef == 1;
}

/* The slow digit along which |load| is contiguous, 0 when it is contiguous along the fast one,
 * broadcast, or irregular. */
static uint32_t turned_digit(lw_region *region, lw_elem load, const digits *d, const lw_ix *var) {
  lw_ix_pool *ix = &region->pool.ix;
  lw_ix offset = lw__elem_node(&region->pool, load)->ix;
  if (lw__ix_node(ix, var[0])->kind != LW_IX_VAR ||
      !lw__ix_depends(ix, offset, lw__ix_var_number(ix, var[0])))
    return 0;
  if (unit_along(ix, offset, var[0]) || lw__elem_node(&region->pool, load)->arg[0] != LW_NONE)
    return 0;
  for (uint32_t k = 1; k < d->count; k++)
    if (d->extent[k] >= least_extent && unit_along(ix, offset, var[k])) return k;
  return 0;
}

static lw_status collect_loads(lw_region *region, lw_vec_elem *out) {
  uint8_t *seen;
  LW_TRY(lw__arena_alloc(&region->pool.arena, region->pool.nodes.count + 1u, 1, &seen));
  for (uint32_t i = 0; i < region->outputs.count; i++)
    LW_TRY(lw__nest_loads(&region->pool, region->outputs.data[i].elem, seen, out));
  return LW_OK;
}

/* All turned loads must agree on the digit; the first decides, others that disagree stay as they
 * are. */
static lw_status find_turned(transpose_nest *t, lw_region *region) {
  lw_vec_elem loads = {0};
  lw_status status = collect_loads(region, &loads);
  for (uint32_t i = 0; i < loads.count && status == LW_OK; i++) {
    uint32_t k = turned_digit(region, loads.data[i], &t->d, t->var);
    if (!k || (t->y && t->y != k)) continue;
    t->y = k;
    status = lw_vec_push(&t->turned, loads.data[i]);
  }
  lw_vec_free(&loads);
  return status;
}

/* ---- the kernel -------------------------------------------------------------------------------*/

static lw_kval c32(transpose_nest *t, int64_t x) {
  return lw__kb_const_i(&t->nest.kb, LW_DTYPE_I32, x);
}
static lw_kval c64(transpose_nest *t, int64_t x) {
  return lw__kb_const_i(&t->nest.kb, LW_DTYPE_I64, x);
}
static lw_kval f2(transpose_nest *t, lw_fn f, lw_kval a, lw_kval b) {
  return lw__kb_fn(&t->nest.kb, f, a, b, LW_NONE);
}
static lw_kval wide(transpose_nest *t, lw_kval a) {
  return lw__kb_cast(&t->nest.kb, a, LW_DTYPE_I64);
}

/* Blocks count tiles along x fastest, then along y, then the other digits. */
static lw_status open_tile(transpose_nest *t, int64_t *out_grid) {
  lw_kval rest = lw__kb_block(&t->nest.kb);
  *out_grid = 1;
  for (uint32_t k = 0; k < t->d.count; k++) {
    bool tiled = k == 0 || k == t->y;
    int64_t steps = tiled ? lw__ceil_div(t->d.extent[k], t->tile) : t->d.extent[k];
    lw_kval at = k + 1 < t->d.count ? f2(t, LW_FN_REM, rest, c64(t, steps)) : rest;
    rest = f2(t, LW_FN_DIV, rest, c64(t, steps));
    if (!lw__mul_i64(*out_grid, steps, out_grid)) return LW_STATUS_UNSUPPORTED;
    if (!tiled)
      LW_TRY(lw__nest_bind(&t->nest, t->var[k], at));
    else
      *(k == 0 ? &t->x0 : &t->y0) = f2(t, LW_FN_MUL, at, c64(t, t->tile));
  }
  lw_kval thread = lw__kb_thread(&t->nest.kb);
  t->tx = f2(t, LW_FN_REM, thread, c32(t, t->tile));
  t->ty = f2(t, LW_FN_DIV, thread, c32(t, t->tile));
  return LW_OK;
}

/* One of this thread's elements: |fast| runs along the warp, |slow| is u * rows + ty. Opens the
 * loop and the test whether the element exists; leaves the cell of the tile it stands in (rows of
 * tile + 1, so that columns hit all banks). */
static lw_status open_elements(transpose_nest *t, bool along_y, lw_kval *out_cell) {
  lw_kbuilder *kb = &t->nest.kb;
  int64_t rows = threads / t->tile;
  lw_kval u = lw__kb_for_n(kb, t->tile / rows, LW_KLOOP_UNROLL);
  lw_kval slow = f2(t, LW_FN_ADD, f2(t, LW_FN_MUL, u, c32(t, rows)), t->ty);
  lw_kval lx = along_y ? slow : t->tx, ly = along_y ? t->tx : slow;
  lw_kval x = f2(t, LW_FN_ADD, t->x0, wide(t, lx)), y = f2(t, LW_FN_ADD, t->y0, wide(t, ly));
  *out_cell = f2(t, LW_FN_ADD, f2(t, LW_FN_MUL, lx, c32(t, t->tile + 1)), ly);
  lw__kb_if(kb, f2(t, LW_FN_AND, f2(t, LW_FN_LT, x, c64(t, t->d.extent[0])),
                   f2(t, LW_FN_LT, y, c64(t, t->d.extent[t->y]))));
  LW_TRY(lw__nest_bind(&t->nest, t->var[0], x));
  return lw__nest_bind(&t->nest, t->var[t->y], y);
}

static void close_elements(transpose_nest *t) {
  lw__kb_end(&t->nest.kb);
  lw__kb_end(&t->nest.kb);
  lw__nest_forget(&t->nest);
}

static lw_status kernel_body(transpose_nest *t, int64_t *out_grid) {
  lw_region *region = t->nest.region;
  lw_kbuilder *kb = &t->nest.kb;
  lw_kval cell;
  uint32_t *shared;
  LW_TRY(lw__arena_alloc(&region->pool.arena, t->turned.count, sizeof *shared, &shared));
  LW_TRY(open_tile(t, out_grid));
  for (uint32_t i = 0; i < t->turned.count; i++)
    shared[i] = lw__kb_shared(kb, lw__elem_node(&region->pool, t->turned.data[i])->dtype,
                              (uint32_t)(t->tile * (t->tile + 1)));
  LW_TRY(open_elements(t, true, &cell));
  for (uint32_t i = 0; i < t->turned.count; i++)
    lw__kb_sset(kb, shared[i], cell, LW_NONE, lw__nest_elem(&t->nest, t->turned.data[i]));
  close_elements(t);
  lw__kb_barrier(kb);
  for (uint32_t i = 0; i < t->turned.count; i++)
    LW_TRY(lw__nest_keep(&t->nest, t->turned.data[i], shared[i], LW_HOME_SHARED));
  LW_TRY(open_elements(t, false, &cell));
  t->nest.shared_at = cell;
  for (uint32_t i = 0; i < region->outputs.count; i++)
    lw__nest_store(&t->nest, &region->outputs.data[i], LW_NONE);
  close_elements(t);
  return LW_OK;
}

static lw_status transposed(transpose_nest *t, lw_region *region, const lw_lower_options *options,
                            lw_diag *diag, lw_lowered *out) {
  int64_t grid;
  size_t narrowest = 8;
  for (uint32_t i = 0; i < t->turned.count; i++) {
    size_t size = lw_dtype_size_bytes(lw__elem_node(&region->pool, t->turned.data[i])->dtype);
    if (size < narrowest) narrowest = size;
  }
  t->tile = narrowest >= 4 ? 32 : 64; /* a line of memory on both sides */
  LW_TRY(lw__nest_init(&t->nest, region, options, out, LW_KCLASS_TRANSPOSE, threads));
  LW_TRY(kernel_body(t, &grid));
  LW_TRY(lw__nest_finish(&t->nest, grid, NULL, 0, diag));
  return lw__arena_printf(&out->arena, &out->schedule, "tiles of %lld x %lld through shared memory",
                          (long long)t->tile, (long long)t->tile);
}

lw_status lw__lower_transpose_gpu(lw_region_context *ctx, const lw_node_id *nodes, uint32_t count,
                                  const lw_region *plain, lw_ix i, const lw_lower_options *options,
                                  lw_diag *diag, lw_lowered *out, bool *out_done) {
  *out_done = false;
  lw_vec_i64 divisors = {0};
  transpose_nest t = {0};
  lw_status status = lw__nest_divisors(plain, i, &divisors);
  bool fits = status == LW_OK && plain->elements >= least_elements &&
              make_digits(&divisors, plain->elements, &t.d) && t.d.count > 1 &&
              t.d.extent[0] >= least_extent;
  lw_vec_free(&divisors);
  if (!fits) return status;
  lw_region region;
  status = place_digits(&region, ctx, nodes, count, &t.d, t.var);
  if (status == LW_OK) status = find_turned(&t, &region);
  if (status == LW_OK && t.turned.count) {
    status = transposed(&t, &region, options, diag, out);
    *out_done = status == LW_OK;
    lw__nest_deinit(&t.nest);
  }
  lw_vec_free(&t.turned);
  lw__region_deinit(&region);
  return status;
}

/* transpose_gpu.c: element-wise groups that read something along another dim than they write: tiles
 * go through shared memory, so that both sides touch memory in whole lines and wide accesses. */
#include <string.h>

#include "compiler/lower/transpose.h"

enum { threads = 256, least_extent = 16, least_elements = 4096 };

/* The linear index as mixed-radix digits: i = sum of digit * weight, fastest digit first. */
typedef struct digits {
  uint32_t count;
  int64_t weight[LW_MAX_RANK + 1], extent[LW_MAX_RANK + 1];
} digits;

/* Digits 0 (x) and y are cut into vectors: digit = part * lanes + lane. */
typedef struct transpose_nest {
  lw_nest nest;
  digits d;
  lw_ix var[LW_MAX_RANK + 1]; /* of the digits; x and y: of their vectors */
  lw_ix lane_x, lane_y;
  uint32_t y; /* digit along which the turned loads are contiguous; 0: none found yet */
  int64_t tile, lanes;
  lw_vec_elem turned; /* loads that go through shared memory */
  lw_kval x0, y0;     /* tile origin, i64 */
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

/* |lanes| 1: plain digits. */
static lw_status place_digits(transpose_nest *t, lw_region *region, lw_region_context *ctx,
                              const lw_node_id *nodes, uint32_t count) {
  LW_TRY(lw__region_init(region, ctx, nodes, count));
  lw_ix_pool *ix = &region->pool.ix;
  lw_ix i = lw__ix_const(ix, 0);
  t->lane_x = t->lane_y = i;
  for (uint32_t k = 0; k < t->d.count; k++) {
    bool cut = t->lanes > 1 && (k == 0 || k == t->y);
    int64_t lanes = cut ? t->lanes : 1;
    lw_ix lane = lw__region_var(region, lanes);
    t->var[k] = lw__region_var(region, t->d.extent[k] / lanes);
    if (cut && k == 0) t->lane_x = lane;
    if (cut && k == t->y) t->lane_y = lane;
    lw_ix digit = lw__ix_add(ix, lw__ix_affine(ix, t->var[k], lanes, 0), lane);
    i = lw__ix_add(ix, i, lw__ix_affine(ix, digit, t->d.weight[k], 0));
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
 * broadcast, or irregular. Plain digits. */
static uint32_t turned_digit(const transpose_nest *t, lw_region *region, lw_elem load) {
  lw_ix_pool *ix = &region->pool.ix;
  const lw_elem_node n = *lw__elem_node(&region->pool, load);
  if (lw__ix_node(ix, t->var[0])->kind != LW_IX_VAR || n.arg[0] != LW_NONE) return 0;
  if (!lw__ix_depends(ix, n.ix, lw__ix_var_number(ix, t->var[0]))) return 0;
  if (unit_along(ix, n.ix, t->var[0])) return 0;
  for (uint32_t k = 1; k < t->d.count; k++)
    if (t->d.extent[k] >= least_extent && unit_along(ix, n.ix, t->var[k])) return k;
  return 0;
}

static lw_status collect_loads(lw_region *region, lw_vec_elem *out) {
  uint8_t *seen;
  LW_TRY(lw__arena_alloc(&region->pool.arena, region->pool.nodes.count + 1u, 1, &seen));
  for (uint32_t i = 0; i < region->outputs.count; i++)
    LW_TRY(lw__nest_loads(&region->pool, region->outputs.data[i].elem, seen, out));
  return LW_OK;
}

/* The first turned load decides the digit; the tile is a line of memory on both sides. */
static lw_status choose_digit(transpose_nest *t, lw_region *region) {
  lw_vec_elem loads = {0};
  size_t narrowest = 8;
  lw_status status = collect_loads(region, &loads);
  for (uint32_t i = 0; i < loads.count && status == LW_OK; i++) {
    uint32_t k = turned_digit(t, region, loads.data[i]);
    if (!k || (t->y && t->y != k)) continue;
    t->y = k;
    size_t size = lw_dtype_size_bytes(lw__elem_node(&region->pool, loads.data[i])->dtype);
    if (size < narrowest) narrowest = size;
  }
  lw_vec_free(&loads);
  t->tile = narrowest >= 4 ? 32 : 64;
  t->lanes = lw__nest_widest(region);
  /* Every thread has a vector of the tile. */
  while (t->lanes > t->tile * t->tile / threads) t->lanes /= 2;
  while (t->lanes > 1 && (t->d.extent[0] % t->lanes || (t->y && t->d.extent[t->y] % t->lanes)))
    t->lanes /= 2;
  return status;
}

/* Once digits are cut: the loads that run along y, as vectors where lanes are. Others stay as they
 * are. */
static lw_status find_turned(transpose_nest *t, lw_region *region) {
  lw_vec_elem loads = {0};
  lw_status status = collect_loads(region, &loads);
  for (uint32_t i = 0; i < loads.count && status == LW_OK; i++) {
    bool turned = t->lanes > 1
                      ? lw__nest_is_vector(&region->pool, loads.data[i], t->lane_y, t->lanes)
                      : turned_digit(t, region, loads.data[i]) == t->y;
    if (turned) status = lw_vec_push(&t->turned, loads.data[i]);
  }
  lw_vec_free(&loads);
  return status;
}

/* Many turned operands may be more than a block has room for: they are read as they lie then. */
static bool tiles_fit(const transpose_nest *t, const lw_region *region,
                      const lw_lower_options *options) {
  uint64_t most = options->profile->shared_bytes_per_block_optin, bytes = 0;
  if (options->policy && options->policy->max_shared_bytes < most)
    most = options->policy->max_shared_bytes;
  for (uint32_t i = 0; i < t->turned.count; i++) {
    size_t size = lw_dtype_size_bytes(lw__elem_node(&region->pool, t->turned.data[i])->dtype);
    bytes += (uint64_t)lw__round_up(t->tile * (t->tile + 1) * (int64_t)size, 16);
  }
  return bytes <= most;
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
  return LW_OK;
}

/* Binds a digit to |at|; cut digits as vector and lane. */
static lw_status bind_digit(transpose_nest *t, lw_ix part, lw_ix lane, lw_kval at) {
  LW_TRY(lw__nest_bind(&t->nest, part, f2(t, LW_FN_DIV, at, c64(t, t->lanes))));
  return lw__nest_bind(&t->nest, lane, f2(t, LW_FN_REM, at, c64(t, t->lanes)));
}

/* One of this thread's vectors: |fast| digit in vectors along the warp, |slow| digit one by one.
 * Opens the loop and the test whether it exists (lanes divide the extents, so a vector is inside or
 * outside as a whole). */
static lw_status open_vectors(transpose_nest *t, bool along_y, lw_kval *out_fast,
                              lw_kval *out_slow) {
  lw_kbuilder *kb = &t->nest.kb;
  int64_t per_line = t->tile / t->lanes;
  lw_kval u = lw__kb_for_n(kb, t->tile * per_line / threads, LW_KLOOP_UNROLL);
  lw_kval at = f2(t, LW_FN_ADD, f2(t, LW_FN_MUL, u, c32(t, threads)), lw__kb_thread(kb));
  *out_fast = f2(t, LW_FN_MUL, f2(t, LW_FN_REM, at, c32(t, per_line)), c32(t, t->lanes));
  *out_slow = f2(t, LW_FN_DIV, at, c32(t, per_line));
  lw_kval x = f2(t, LW_FN_ADD, t->x0, wide(t, along_y ? *out_slow : *out_fast));
  lw_kval y = f2(t, LW_FN_ADD, t->y0, wide(t, along_y ? *out_fast : *out_slow));
  lw__kb_if(kb, f2(t, LW_FN_AND, f2(t, LW_FN_LT, x, c64(t, t->d.extent[0])),
                   f2(t, LW_FN_LT, y, c64(t, t->d.extent[t->y]))));
  LW_TRY(bind_digit(t, t->var[0], t->lane_x, x));
  return bind_digit(t, t->var[t->y], t->lane_y, y);
}

static void close_vectors(transpose_nest *t) {
  lw__kb_end(&t->nest.kb);
  lw__kb_end(&t->nest.kb);
  lw__nest_forget(&t->nest);
}

/* Rows of the tile are x, one element longer than needed so that columns hit all banks. */
static lw_kval cell(transpose_nest *t, lw_kval lx, lw_kval ly) {
  return f2(t, LW_FN_ADD, f2(t, LW_FN_MUL, lx, c32(t, t->tile + 1)), ly);
}

static lw_status fill_tiles(transpose_nest *t, const uint32_t *shared) {
  lw_kbuilder *kb = &t->nest.kb;
  lw_kval fast, slow;
  LW_TRY(open_vectors(t, true, &fast, &slow));
  for (uint32_t i = 0; i < t->turned.count; i++) {
    if (t->lanes == 1) {
      lw__kb_sset(kb, shared[i], cell(t, slow, fast), LW_NONE,
                  lw__nest_elem(&t->nest, t->turned.data[i]));
      continue;
    }
    lw_dtype dtype = lw__elem_node(t->nest.pool, t->turned.data[i])->dtype;
    uint32_t local = lw__kb_local(kb, dtype, (uint32_t)t->lanes);
    lw__nest_loadv(&t->nest, t->turned.data[i], local, LW_NONE, LW_NONE, t->lanes);
    lw_kval lane = lw__kb_for_n(kb, t->lanes, LW_KLOOP_UNROLL);
    lw__kb_sset(kb, shared[i], f2(t, LW_FN_ADD, cell(t, slow, fast), lane), LW_NONE,
                lw__kb_lget(kb, local, lane));
    lw__kb_end(kb);
    lw__nest_forget(&t->nest);
  }
  close_vectors(t);
  return LW_OK;
}

static lw_status use_tiles(transpose_nest *t) {
  lw_kval fast, slow;
  LW_TRY(open_vectors(t, false, &fast, &slow));
  t->nest.shared_at = cell(t, fast, slow);
  if (t->lanes > 1) {
    t->nest.shared_step = c32(t, t->tile + 1);
    LW_TRY(lw__nest_vector_body(&t->nest, t->lane_x, t->lanes));
  } else {
    for (uint32_t i = 0; i < t->nest.region->outputs.count; i++)
      lw__nest_store(&t->nest, &t->nest.region->outputs.data[i], LW_NONE);
  }
  close_vectors(t);
  return LW_OK;
}

static lw_status transposed(transpose_nest *t, lw_region *region, const lw_lower_options *options,
                            lw_diag *diag, lw_lowered *out) {
  int64_t grid;
  uint32_t *shared;
  LW_TRY(lw__arena_alloc(&region->pool.arena, t->turned.count, sizeof *shared, &shared));
  LW_TRY(lw__nest_init(&t->nest, region, options, out, LW_KCLASS_TRANSPOSE, threads));
  LW_TRY(open_tile(t, &grid));
  for (uint32_t i = 0; i < t->turned.count; i++)
    shared[i] = lw__kb_shared(&t->nest.kb, lw__elem_node(&region->pool, t->turned.data[i])->dtype,
                              (uint32_t)(t->tile * (t->tile + 1)));
  LW_TRY(fill_tiles(t, shared));
  lw__kb_barrier(&t->nest.kb);
  for (uint32_t i = 0; i < t->turned.count; i++)
    LW_TRY(lw__nest_keep(&t->nest, t->turned.data[i], shared[i], LW_HOME_SHARED));
  LW_TRY(use_tiles(t));
  LW_TRY(lw__nest_finish(&t->nest, grid, NULL, 0, diag));
  return lw__arena_printf(&out->arena, &out->schedule,
                          "tiles of %lld x %lld through shared memory, %lld wide",
                          (long long)t->tile, (long long)t->tile, (long long)t->lanes);
}

/* Looks with plain digits, then places again with the digits cut into vectors. */
static lw_status look(transpose_nest *t, lw_region_context *ctx, const lw_node_id *nodes,
                      uint32_t count) {
  lw_region region;
  t->lanes = 1;
  lw_status status = place_digits(t, &region, ctx, nodes, count);
  if (status == LW_OK) status = choose_digit(t, &region);
  lw__region_deinit(&region);
  return status;
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
  LW_TRY(look(&t, ctx, nodes, count));
  if (!t.y) return LW_OK;
  lw_region region;
  status = place_digits(&t, &region, ctx, nodes, count);
  if (status == LW_OK) status = find_turned(&t, &region);
  if (status == LW_OK && t.turned.count && tiles_fit(&t, &region, options)) {
    status = transposed(&t, &region, options, diag, out);
    *out_done = status == LW_OK;
    lw__nest_deinit(&t.nest);
  }
  lw_vec_free(&t.turned);
  lw__region_deinit(&region);
  return status;
}

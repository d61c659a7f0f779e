/* map.c: lowers element-wise groups. GPU: one thread per vector of V neighbouring elements, shapes
 * folded into the index arithmetic. CPU: rows times an inner extent chosen so that the inner loop
 * needs no division and vectorises. */
#include <string.h>

#include "compiler/lower/nest.h"
#include "compiler/lower/transpose.h"

enum { gpu_threads = 256, cpu_block_elements = 8192, cpu_inner_min = 8 };

static lw_status place_linear_space(lw_region *region, lw_region_context *ctx,
                                    const lw_node_id *nodes, uint32_t count, lw_ix *out_i) {
  LW_TRY(lw__region_init(region, ctx, nodes, count));
  lw__region_plain_space(region, out_i);
  return lw__region_place(region, out_i);
}

/* ---- GPU --------------------------------------------------------------------------------------*/

static lw_status choose_lanes(const lw_region *plain, lw_ix i, const lw_lower_options *options,
                              int64_t *out_lanes) {
  LW_TRY(lw__nest_lane_limit(plain, i, plain->elements, lw__nest_widest(plain), out_lanes));
  /* Few elements: spread them over more threads rather than over wider vectors. */
  int64_t wanted = (int64_t)options->profile->sm_count * gpu_threads;
  while (*out_lanes > 1 && plain->elements / *out_lanes < wanted) *out_lanes /= 2;
  return LW_OK;
}

/* Vector loads of everything that is contiguous along the lanes; each lands in a local array that
 * element printing reads. */
static lw_status load_vectors(lw_nest *nest, const lw_elem *elems, uint32_t count, lw_ix j,
                              int64_t lanes) {
  lw_region *region = nest->region;
  lw_vec_elem loads = {0};
  uint8_t *seen;
  LW_TRY(lw__arena_alloc(&region->pool.arena, region->pool.nodes.count + 1u, 1, &seen));
  lw_status status = LW_OK;
  for (uint32_t i = 0; i < count && status == LW_OK; i++)
    status = lw__nest_loads(&region->pool, elems[i], seen, &loads);
  for (uint32_t i = 0; i < loads.count && status == LW_OK; i++) {
    if (!lw__nest_is_vector(&region->pool, loads.data[i], j, lanes)) continue;
    uint32_t local = lw__kb_local(&nest->kb, lw__elem_node(&region->pool, loads.data[i])->dtype,
                                  (uint32_t)lanes);
    lw__nest_loadv(nest, loads.data[i], local, LW_NONE, LW_NONE, lanes);
    status = lw__nest_keep(nest, loads.data[i], local, LW_HOME_LANE);
  }
  lw_vec_free(&loads);
  return status;
}

lw_status lw__nest_vector_elem(lw_nest *nest, lw_elem e, lw_ix j, int64_t lanes, uint32_t local) {
  lw_kbuilder *kb = &nest->kb;
  uint32_t kept = nest->kept.count;
  LW_TRY(lw__nest_bind(nest, j, lw__kb_const_i(kb, LW_DTYPE_I32, 0)));
  LW_TRY(load_vectors(nest, &e, 1, j, lanes));
  lw_kval lane = lw__kb_for_n(kb, lanes, LW_KLOOP_UNROLL);
  LW_TRY(lw__nest_bind(nest, j, lane));
  nest->lane_at = lane;
  lw__kb_lset(kb, local, lane, lw__nest_elem(nest, e));
  lw__kb_end(kb);
  nest->kept.count = kept; /* the arrays hold other elements next time */
  lw__nest_forget(nest);
  return LW_OK;
}

lw_status lw__nest_vector_body(lw_nest *nest, lw_ix j, int64_t lanes) {
  lw_region *region = nest->region;
  lw_kbuilder *kb = &nest->kb;
  uint32_t *local;
  lw_elem *elems;
  LW_TRY(lw__arena_alloc(&region->pool.arena, region->outputs.count + 1u, sizeof *local, &local));
  LW_TRY(lw__arena_alloc(&region->pool.arena, region->outputs.count + 1u, sizeof *elems, &elems));
  for (uint32_t i = 0; i < region->outputs.count; i++) elems[i] = region->outputs.data[i].elem;
  LW_TRY(lw__nest_bind(nest, j, lw__kb_const_i(kb, LW_DTYPE_I32, 0)));
  LW_TRY(load_vectors(nest, elems, region->outputs.count, j, lanes));
  for (uint32_t i = 0; i < region->outputs.count; i++) {
    const lw_region_output *out = &region->outputs.data[i];
    local[i] =
        lw__nest_is_contiguous(&nest->pool->ix, out->offset, j, lanes)
            ? lw__kb_local(kb, lw__value(nest->pool->graph, out->value)->dtype, (uint32_t)lanes)
            : LW_NONE;
  }
  lw_kval lane = lw__kb_for_n(kb, lanes, LW_KLOOP_UNROLL);
  LW_TRY(lw__nest_bind(nest, j, lane));
  nest->lane_at = lane;
  for (uint32_t i = 0; i < region->outputs.count; i++) {
    if (local[i] == LW_NONE)
      lw__nest_store(nest, &region->outputs.data[i], LW_NONE);
    else
      lw__kb_lset(kb, local[i], lane, lw__nest_elem(nest, region->outputs.data[i].elem));
  }
  lw__kb_end(kb);
  LW_TRY(lw__nest_bind(nest, j, lw__kb_const_i(kb, LW_DTYPE_I32, 0)));
  for (uint32_t i = 0; i < region->outputs.count; i++) {
    if (local[i] == LW_NONE) continue;
    const lw_region_output *out = &region->outputs.data[i];
    lw__kb_storev(kb, lw__nest_buffer(nest, out->value, true), LW_NONE,
                  lw__nest_ix(nest, out->offset), LW_NONE, local[i], LW_NONE, (uint32_t)lanes);
  }
  return LW_OK;
}

static lw_status scalar_body(lw_nest *nest) {
  for (uint32_t i = 0; i < nest->region->outputs.count; i++)
    lw__nest_store(nest, &nest->region->outputs.data[i], LW_NONE);
  return LW_OK;
}

static lw_status gpu_kernel(lw_region *region, lw_ix q, lw_ix j, int64_t lanes, int64_t vectors,
                            const lw_lower_options *options, lw_diag *diag, lw_lowered *out) {
  lw_nest nest;
  uint32_t threads = vectors < gpu_threads ? (uint32_t)lw__round_up(vectors, 32) : gpu_threads;
  lw_status status = lw__nest_init(&nest, region, options, out, LW_KCLASS_MAP, threads);
  if (status == LW_OK) {
    lw_kbuilder *kb = &nest.kb;
    lw_dtype type = lw__round_up(vectors, threads) <= INT32_MAX ? LW_DTYPE_I32 : LW_DTYPE_I64;
    lw_kval block = lw__kb_cast(kb, lw__kb_block(kb), type);
    lw_kval at = lw__kb_fn(
        kb, LW_FN_ADD, lw__kb_fn(kb, LW_FN_MUL, block, lw__kb_const_i(kb, type, threads), LW_NONE),
        lw__kb_cast(kb, lw__kb_thread(kb), type), LW_NONE);
    lw_kval limit = lw__kb_cast(kb, lw__kb_scalar(kb, lw__kb_scalar_arg(kb)), type);
    status = lw__nest_bind(&nest, q, at);
    lw__kb_if(kb, lw__kb_fn(kb, LW_FN_LT, at, limit, LW_NONE));
    if (status == LW_OK)
      status = lanes > 1 ? lw__nest_vector_body(&nest, j, lanes) : scalar_body(&nest);
    lw__kb_end(kb);
  }
  if (status == LW_OK)
    status = lw__nest_finish(&nest, lw__ceil_div(vectors, threads), &vectors, 1, diag);
  lw__nest_deinit(&nest);
  return status;
}

static lw_status lower_vectors(lw_region_context *ctx, const lw_node_id *nodes, uint32_t count,
                               int64_t lanes, const lw_lower_options *options, lw_diag *diag,
                               lw_lowered *out) {
  lw_region region;
  lw_status status = lw__region_init(&region, ctx, nodes, count);
  if (status == LW_OK) {
    int64_t vectors = region.elements / lanes;
    lw_ix q = lw__region_var(&region, vectors), j = lw__region_var(&region, lanes);
    lw_ix i = lw__ix_add(&region.pool.ix, lw__ix_affine(&region.pool.ix, q, lanes, 0), j);
    status = lw__region_place(&region, &i);
    if (status == LW_OK) status = gpu_kernel(&region, q, j, lanes, vectors, options, diag, out);
  }
  lw__region_deinit(&region);
  if (status != LW_OK) return status;
  return lw__arena_printf(&out->arena, &out->schedule, "one thread per %lld neighbouring elements",
                          (long long)lanes);
}

static lw_status lower_gpu(lw_region_context *ctx, const lw_node_id *nodes, uint32_t count,
                           const lw_lower_options *options, lw_diag *diag, lw_lowered *out) {
  lw_region plain;
  lw_ix i;
  int64_t lanes = 1;
  bool done = false;
  lw_status status = place_linear_space(&plain, ctx, nodes, count, &i);
  if (status == LW_OK && plain.elements == 0) done = true;
  if (status == LW_OK && !done)
    status = lw__lower_transpose_gpu(ctx, nodes, count, &plain, i, options, diag, out, &done);
  if (status == LW_OK && !done) status = choose_lanes(&plain, i, options, &lanes);
  lw__region_deinit(&plain);
  if (status != LW_OK || done) return status;
  status = lower_vectors(ctx, nodes, count, lanes, options, diag, out);
  return status == LW_STATUS_UNSUPPORTED && lanes > 1
             ? lower_vectors(ctx, nodes, count, 1, options, diag, out)
             : status;
}

/* ---- CPU --------------------------------------------------------------------------------------*/

/* The inner extent: the smallest divisor that applies, if it divides all others and the whole. */
static lw_status choose_inner(lw_region_context *ctx, const lw_node_id *nodes, uint32_t count,
                              int64_t *out_inner) {
  lw_region plain;
  lw_ix i;
  lw_vec_i64 divisors = {0};
  lw_status status = place_linear_space(&plain, ctx, nodes, count, &i);
  if (status == LW_OK && plain.elements > 0) status = lw__nest_divisors(&plain, i, &divisors);
  int64_t inner = plain.elements;
  for (uint32_t d = 0; d < divisors.count; d++)
    if (divisors.data[d] < inner) inner = divisors.data[d];
  bool fits = inner >= cpu_inner_min && plain.elements % inner == 0;
  for (uint32_t d = 0; d < divisors.count && fits; d++) fits = divisors.data[d] % inner == 0;
  *out_inner = fits ? inner : plain.elements;
  lw_vec_free(&divisors);
  lw__region_deinit(&plain);
  return status;
}

static lw_status cpu_kernel(lw_region *region, lw_ix r, lw_ix c, int64_t rows, int64_t inner,
                            const lw_lower_options *options, lw_diag *diag, lw_lowered *out) {
  lw_nest nest;
  int64_t chunks = lw__ceil_div(inner, cpu_block_elements);
  int64_t rows_per_block = chunks > 1 ? 1 : lw__max_i64(1, cpu_block_elements / inner);
  lw_status status = lw__nest_init(&nest, region, options, out, LW_KCLASS_MAP, 1);
  if (status == LW_OK) {
    lw_kbuilder *kb = &nest.kb;
    lw_dtype i64 = LW_DTYPE_I64;
    lw_kval block = lw__kb_block(kb), limit = lw__kb_scalar(kb, lw__kb_scalar_arg(kb));
    lw_kval chunks_v = lw__kb_const_i(kb, i64, chunks), step = lw__kb_const_i(kb, i64, 1);
    lw_kval first = lw__kb_fn(kb, LW_FN_MUL, lw__kb_fn(kb, LW_FN_DIV, block, chunks_v, LW_NONE),
                              lw__kb_const_i(kb, i64, rows_per_block), LW_NONE);
    lw_kval last =
        lw__kb_fn(kb, LW_FN_MIN,
                  lw__kb_fn(kb, LW_FN_ADD, first, lw__kb_const_i(kb, i64, rows_per_block), LW_NONE),
                  limit, LW_NONE);
    lw_kval lo = lw__kb_const_i(kb, i64, 0), hi = lw__kb_const_i(kb, i64, inner);
    if (chunks > 1) {
      lo = lw__kb_fn(kb, LW_FN_MUL, lw__kb_fn(kb, LW_FN_REM, block, chunks_v, LW_NONE),
                     lw__kb_const_i(kb, i64, cpu_block_elements), LW_NONE);
      hi = lw__kb_fn(
          kb, LW_FN_MIN,
          lw__kb_fn(kb, LW_FN_ADD, lo, lw__kb_const_i(kb, i64, cpu_block_elements), LW_NONE), hi,
          LW_NONE);
    }
    lw_kval row = lw__kb_for(kb, i64, first, last, step, LW_KLOOP_SERIAL);
    status = lw__nest_bind(&nest, r, row);
    lw_kval column = lw__kb_for(kb, i64, lo, hi, step, LW_KLOOP_VECTOR);
    if (status == LW_OK) status = lw__nest_bind(&nest, c, column);
    if (status == LW_OK) status = scalar_body(&nest);
    lw__kb_end(kb);
    lw__kb_end(kb);
  }
  if (status == LW_OK)
    status = lw__nest_finish(&nest, lw__ceil_div(rows, rows_per_block) * chunks, &rows, 1, diag);
  lw__nest_deinit(&nest);
  return status;
}

static lw_status lower_cpu(lw_region_context *ctx, const lw_node_id *nodes, uint32_t count,
                           const lw_lower_options *options, lw_diag *diag, lw_lowered *out) {
  int64_t inner;
  LW_TRY(choose_inner(ctx, nodes, count, &inner));
  lw_region region;
  lw_status status = lw__region_init(&region, ctx, nodes, count);
  if (status == LW_OK && region.elements > 0) {
    int64_t rows = region.elements / inner;
    lw_ix r = lw__region_var(&region, rows), c = lw__region_var(&region, inner);
    lw_ix i = lw__ix_add(&region.pool.ix, lw__ix_affine(&region.pool.ix, r, inner, 0), c);
    status = lw__region_place(&region, &i);
    if (status == LW_OK) status = cpu_kernel(&region, r, c, rows, inner, options, diag, out);
  }
  lw__region_deinit(&region);
  if (status == LW_OK)
    status =
        lw__arena_printf(&out->arena, &out->schedule, "rows of %lld elements", (long long)inner);
  return status;
}

lw_status lw__lower_map(lw_region_context *ctx, const lw_node_id *nodes, uint32_t count,
                        const lw_lower_options *options, lw_diag *diag, lw_lowered *out) {
  return options->target == LW_KTARGET_GPU ? lower_gpu(ctx, nodes, count, options, diag, out)
                                           : lower_cpu(ctx, nodes, count, options, diag, out);
}

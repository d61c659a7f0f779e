/* nest.c: one launch under construction; element and index expressions become kernel IR. */
#include "compiler/lower/nest.h"

#include <string.h>

/* ---- life cycle -------------------------------------------------------------------------------*/

lw_status lw__nest_init(lw_nest *nest, lw_region *region, const lw_lower_options *options,
                        lw_lowered *out, lw_kclass cls, uint32_t block_threads) {
  memset(nest, 0, sizeof *nest);
  nest->region = region;
  nest->pool = &region->pool;
  nest->options = options;
  nest->lane_at = nest->whole_at = nest->shared_at = nest->shared_step = LW_NONE;
  lw_launch launch;
  memset(&launch, 0, sizeof launch);
  LW_TRY(lw_vec_push(&out->launches, launch));
  nest->launch = &out->launches.data[out->launches.count - 1];
  lw__kernel_init(&nest->launch->kernel, options->target, cls, block_threads);
  return lw__kb_init(&nest->kb, &nest->launch->kernel);
}

static lw_status push_arg(lw_nest *nest, lw_larg arg) {
  return lw_vec_push(&nest->launch->args, arg);
}

/* The policy's register limit as blocks that must fit on a multiprocessor at once, which is how
 * CUDA compilers take it. */
static uint32_t blocks_for_policy(const lw_lower_options *options, uint32_t threads) {
  if (!options->policy ||
      options->policy->max_registers >= options->profile->max_registers_per_thread)
    return 0;
  uint32_t blocks = options->profile->registers_per_sm / (threads * options->policy->max_registers);
  uint32_t most = options->profile->max_threads_per_sm / threads;
  return blocks < most ? blocks : most;
}

lw_status lw__nest_finish(lw_nest *nest, int64_t grid, const int64_t *scalars,
                          uint32_t scalar_count, lw_diag *diag) {
  lw_kernel *kernel = &nest->launch->kernel;
  LW_TRY(nest->kb.status);
  LW_TRY(nest->pool->ix.status);
  nest->launch->grid = grid;
  for (uint32_t i = 0; i < scalar_count; i++)
    LW_TRY(push_arg(nest, (lw_larg){.kind = LW_LARG_SCALAR, .scalar = scalars[i]}));
  if (kernel->target == LW_KTARGET_GPU)
    kernel->min_blocks_per_sm = kernel->min_blocks_per_sm
                                    ? kernel->min_blocks_per_sm
                                    : blocks_for_policy(nest->options, kernel->block_threads);
  /* Left alone the compiler saves registers for more blocks and spills tiles of products. */
  bool tiled = kernel->cls == LW_KCLASS_DOT || kernel->cls == LW_KCLASS_CONV;
  if (kernel->target == LW_KTARGET_GPU && tiled && !kernel->min_blocks_per_sm)
    kernel->min_blocks_per_sm = 1;
  if (nest->options->policy &&
      lw__kernel_shared_bytes(kernel) > nest->options->policy->max_shared_bytes)
    return lw__fail(diag, LW_STATUS_UNSUPPORTED, NULL,
                    "a kernel needs %zu bytes of shared memory, the policy allows %u",
                    lw__kernel_shared_bytes(kernel), nest->options->policy->max_shared_bytes);
  return lw__kernel_verify(kernel, diag);
}

void lw__nest_deinit(lw_nest *nest) {
  lw__kb_deinit(&nest->kb);
  lw_vec_free(&nest->var);
  lw_vec_free(&nest->memo);
  lw_vec_free(&nest->buffers);
  lw_vec_free(&nest->leaves);
  lw_vec_free(&nest->kept);
}

static void fail(lw_nest *nest, lw_status status) {
  if (nest->kb.status == LW_OK) nest->kb.status = status;
}

/* ---- variables, buffers, leaves ---------------------------------------------------------------*/

lw_status lw__nest_bind(lw_nest *nest, lw_ix var, lw_kval value) {
  if (lw__ix_node(&nest->pool->ix, var)->kind != LW_IX_VAR)
    return LW_OK; /* extent 1: the constant 0 */
  uint32_t number = lw__ix_var_number(&nest->pool->ix, var);
  while (nest->var.count <= number) LW_TRY(lw_vec_push(&nest->var, LW_NONE));
  nest->var.data[number] = value;
  lw__nest_forget(nest);
  return LW_OK;
}

void lw__nest_forget(lw_nest *nest) {
  for (uint32_t i = 0; i < nest->memo.count; i++) nest->memo.data[i] = LW_NONE;
}

uint32_t lw__nest_buffer(lw_nest *nest, lw_value_id value, bool written) {
  for (uint32_t i = 0; i < nest->buffers.count; i++)
    if (nest->buffers.data[i] == value) return i;
  uint32_t id = lw__kb_buffer(&nest->kb, lw__value(nest->pool->graph, value)->dtype, written);
  lw_status status = lw_vec_push(&nest->buffers, value);
  if (status == LW_OK)
    status = push_arg(nest, (lw_larg){.kind = LW_LARG_VALUE, .value = value, .written = written});
  if (status != LW_OK) fail(nest, status);
  return id;
}

uint32_t lw__nest_scratch(lw_nest *nest, lw_lowered *out, uint32_t scratch, lw_dtype dtype,
                          bool written) {
  (void)out;
  uint32_t id = lw__kb_buffer(&nest->kb, dtype, written);
  lw_status status = lw_vec_push(&nest->buffers, LW_NONE);
  if (status == LW_OK)
    status =
        push_arg(nest, (lw_larg){.kind = LW_LARG_SCRATCH, .scratch = scratch, .written = written});
  if (status != LW_OK) fail(nest, status);
  return id;
}

lw_status lw__nest_leaf(lw_nest *nest, lw_value_id value, lw_kval kval, uint32_t local) {
  lw_nest_leaf leaf = {value, kval, local};
  lw__nest_forget(nest);
  for (uint32_t i = 0; i < nest->leaves.count; i++)
    if (nest->leaves.data[i].value == value) return nest->leaves.data[i] = leaf, LW_OK;
  return lw_vec_push(&nest->leaves, leaf);
}

lw_status lw__nest_keep(lw_nest *nest, lw_elem elem, uint32_t array, lw_nest_home home) {
  lw__nest_forget(nest);
  return lw_vec_push(&nest->kept, (lw_nest_kept){elem, array, home});
}

lw_dtype lw__carry_type(lw_dtype dtype) {
  switch (dtype) {
    case LW_DTYPE_F16:
    case LW_DTYPE_BF16:
    case LW_DTYPE_F8E4M3:
    case LW_DTYPE_F8E5M2: return LW_DTYPE_F32;
    default: return dtype;
  }
}

lw_kval lw__nest_identity(lw_nest *nest, lw_red red, lw_dtype dtype) {
  lw_dtype carry = lw__carry_type(dtype);
  return lw__dtype_is_float(carry)
             ? lw__kb_const_f(&nest->kb, carry, lw__red_identity_f64(red, carry))
             : lw__kb_const_i(&nest->kb, carry, lw__red_identity_i64(red, carry));
}

/* ---- index expressions ------------------------------------------------------------------------*/

static bool fits_i32(const lw_ix_node *n) { return n->lo >= INT32_MIN && n->hi <= INT32_MAX; }

static lw_kval ix_sum(lw_nest *nest, lw_ix e, lw_dtype type) {
  lw_kbuilder *kb = &nest->kb;
  lw_kval sum = LW_NONE;
  uint32_t begin = lw__ix_node(&nest->pool->ix, e)->term_begin,
           count = lw__ix_node(&nest->pool->ix, e)->term_count;
  for (uint32_t i = 0; i < count; i++) {
    lw_ix_term term = nest->pool->ix.terms.data[begin + i];
    lw_kval atom = lw__kb_cast(kb, lw__nest_ix(nest, term.atom), type);
    lw_kval scaled = lw__kb_fn(kb, LW_FN_MUL, atom, lw__kb_const_i(kb, type, term.coef), LW_NONE);
    sum = sum == LW_NONE ? scaled : lw__kb_fn(kb, LW_FN_ADD, sum, scaled, LW_NONE);
  }
  int64_t constant = lw__ix_node(&nest->pool->ix, e)->constant;
  lw_kval c = lw__kb_const_i(kb, type, constant);
  return sum == LW_NONE ? c : constant ? lw__kb_fn(kb, LW_FN_ADD, sum, c, LW_NONE) : sum;
}

/* Kernel IR divides toward zero; index expressions round down. For dividends that may be negative:
 * floor(a / c) = (a - mod(a, c)) / c, exact. */
static lw_kval ix_quotient(lw_nest *nest, lw_ix e) {
  lw_kbuilder *kb = &nest->kb;
  const lw_ix_node n = *lw__ix_node(&nest->pool->ix, e);
  lw_kval arg = lw__nest_ix(nest, n.arg);
  lw_kval c = lw__kb_const_i(kb, lw__kb_type(kb, arg), n.constant);
  bool negative = lw__ix_node(&nest->pool->ix, n.arg)->lo < 0;
  if (n.kind == LW_IX_MOD) return lw__kb_fn(kb, negative ? LW_FN_MOD : LW_FN_REM, arg, c, LW_NONE);
  if (negative)
    arg = lw__kb_fn(kb, LW_FN_SUB, arg, lw__kb_fn(kb, LW_FN_MOD, arg, c, LW_NONE), LW_NONE);
  return lw__kb_fn(kb, LW_FN_DIV, arg, c, LW_NONE);
}

lw_kval lw__nest_ix(lw_nest *nest, lw_ix e) {
  const lw_ix_node *n = lw__ix_node(&nest->pool->ix, e);
  lw_dtype type = fits_i32(n) ? LW_DTYPE_I32 : LW_DTYPE_I64;
  if (n->kind == LW_IX_VAR) {
    if (n->var >= nest->var.count || nest->var.data[n->var] == LW_NONE)
      return fail(nest, LW_STATUS_INTERNAL), LW_NONE;
    return lw__kb_cast(&nest->kb, nest->var.data[n->var], type);
  }
  if (n->kind == LW_IX_SUM) return ix_sum(nest, e, type);
  return lw__kb_cast(&nest->kb, ix_quotient(nest, e), type);
}

/* ---- element expressions ----------------------------------------------------------------------*/

static lw_kval elem_guard(lw_nest *nest, const lw_elem_node *n) {
  lw_kbuilder *kb = &nest->kb;
  const lw_ix_node range = *lw__ix_node(&nest->pool->ix, n->ix);
  lw_kval x = lw__nest_ix(nest, n->ix), ok = LW_NONE;
  lw_dtype type = lw__kb_type(kb, x);
  if (range.lo < n->lo) ok = lw__kb_fn(kb, LW_FN_GE, x, lw__kb_const_i(kb, type, n->lo), LW_NONE);
  if (range.hi >= n->hi) {
    lw_kval below = lw__kb_fn(kb, LW_FN_LT, x, lw__kb_const_i(kb, type, n->hi), LW_NONE);
    ok = ok == LW_NONE ? below : lw__kb_fn(kb, LW_FN_AND, ok, below, LW_NONE);
  }
  return ok == LW_NONE ? lw__kb_const_i(kb, LW_DTYPE_BOOL, 1) : ok;
}

static lw_kval elem_cast(lw_nest *nest, lw_kval a, lw_dtype to) {
  lw_kbuilder *kb = &nest->kb;
  lw_kval wide = lw__kb_cast(kb, a, lw__carry_type(to));
  /* f16 and bf16 stay in f32 (numerics contract); f8 is a quantisation and rounds for real. */
  return to == LW_DTYPE_F8E4M3 || to == LW_DTYPE_F8E5M2 ? lw__kb_round(kb, wide, to) : wide;
}

static lw_kval elem_map(lw_nest *nest, const lw_elem_node *n) {
  lw_kval arg[3] = {LW_NONE, LW_NONE, LW_NONE};
  for (int i = 0; i < 3; i++)
    if (n->arg[i] != LW_NONE) arg[i] = lw__nest_elem(nest, n->arg[i]);
  if (n->fn == LW_FN_CAST) return elem_cast(nest, arg[0], n->dtype);
  return lw__kb_fn(&nest->kb, n->fn, arg[0], arg[1], arg[2]);
}

static lw_kval elem_load(lw_nest *nest, const lw_elem_node *n) {
  lw_kval pred = n->arg[0] == LW_NONE ? LW_NONE : lw__nest_elem(nest, n->arg[0]);
  lw_kval at = lw__nest_ix(nest, n->ix);
  return lw__kb_load(&nest->kb, lw__nest_buffer(nest, n->value, false), LW_NONE, at, pred);
}

/* Coordinates from memory: negative ones count from the end, then clamped into the data (a wrong
 * index may give a wrong element, never a wrong address). */
static lw_kval gather_coordinate(lw_nest *nest, const lw_elem_coord *c) {
  lw_kbuilder *kb = &nest->kb;
  if (c->elem == LW_NONE) return lw__kb_cast(kb, lw__nest_ix(nest, c->ix), LW_DTYPE_I64);
  lw_kval x = lw__kb_cast(kb, lw__nest_elem(nest, c->elem), LW_DTYPE_I64);
  lw_kval zero = lw__kb_const_i(kb, LW_DTYPE_I64, 0);
  lw_kval wrapped =
      lw__kb_fn(kb, LW_FN_ADD, x, lw__kb_const_i(kb, LW_DTYPE_I64, c->extent), LW_NONE);
  x = lw__kb_fn(kb, LW_FN_SELECT, lw__kb_fn(kb, LW_FN_LT, x, zero, LW_NONE), wrapped, x);
  x = lw__kb_fn(kb, LW_FN_MAX, x, zero, LW_NONE);
  return lw__kb_fn(kb, LW_FN_MIN, x, lw__kb_const_i(kb, LW_DTYPE_I64, c->extent - 1), LW_NONE);
}

static lw_kval elem_gather(lw_nest *nest, const lw_elem_node *n) {
  lw_kbuilder *kb = &nest->kb;
  lw_kval at = lw__kb_const_i(kb, LW_DTYPE_I64, 0);
  for (uint32_t i = 0; i < n->coord_count; i++) {
    const lw_elem_coord c = nest->pool->coords.data[n->coord_begin + i];
    lw_kval scaled = lw__kb_fn(kb, LW_FN_MUL, gather_coordinate(nest, &c),
                               lw__kb_const_i(kb, LW_DTYPE_I64, c.stride), LW_NONE);
    at = lw__kb_fn(kb, LW_FN_ADD, at, scaled, LW_NONE);
  }
  lw_kval pred = n->arg[0] == LW_NONE ? LW_NONE : lw__nest_elem(nest, n->arg[0]);
  return lw__kb_load(kb, lw__nest_buffer(nest, n->value, false), LW_NONE, at, pred);
}

static lw_kval elem_leaf(lw_nest *nest, const lw_elem_node *n) {
  for (uint32_t i = 0; i < nest->leaves.count; i++)
    if (nest->leaves.data[i].value == n->value) {
      const lw_nest_leaf *leaf = &nest->leaves.data[i];
      return leaf->local == LW_NONE ? leaf->kval
                                    : lw__kb_lget(&nest->kb, leaf->local, nest->lane_at);
    }
  return fail(nest, LW_STATUS_INTERNAL), LW_NONE;
}

static lw_kval elem_const(lw_nest *nest, const lw_elem_node *n) {
  lw_dtype carry = lw__carry_type(n->dtype);
  return lw__dtype_is_float(carry) ? lw__kb_const_f(&nest->kb, carry, n->scalar.f)
                                   : lw__kb_const_i(&nest->kb, carry, n->scalar.i);
}

static lw_kval elem_value(lw_nest *nest, lw_elem e) {
  for (uint32_t i = 0; i < nest->kept.count; i++) {
    const lw_nest_kept *kept = &nest->kept.data[i];
    if (kept->elem != e) continue;
    if (kept->home == LW_HOME_SHARED) {
      lw_kval at = nest->shared_at;
      if (nest->shared_step != LW_NONE)
        at = lw__kb_fn(&nest->kb, LW_FN_ADD, at,
                       lw__kb_fn(&nest->kb, LW_FN_MUL, nest->lane_at, nest->shared_step, LW_NONE),
                       LW_NONE);
      return lw__kb_sget(&nest->kb, kept->array, at);
    }
    return lw__kb_lget(&nest->kb, kept->array,
                       kept->home == LW_HOME_WHOLE ? nest->whole_at : nest->lane_at);
  }
  const lw_elem_node n = *lw__elem_node(nest->pool, e);
  switch (n.kind) {
    case LW_ELEM_CONST: return elem_const(nest, &n);
    case LW_ELEM_INDEX: return lw__kb_cast(&nest->kb, lw__nest_ix(nest, n.ix), n.dtype);
    case LW_ELEM_GUARD: return elem_guard(nest, &n);
    case LW_ELEM_MAP: return elem_map(nest, &n);
    case LW_ELEM_LOAD: return elem_load(nest, &n);
    case LW_ELEM_GATHER: return elem_gather(nest, &n);
    default: return elem_leaf(nest, &n);
  }
}

lw_kval lw__nest_elem(lw_nest *nest, lw_elem e) {
  while (nest->memo.count < nest->pool->nodes.count) {
    lw_status status = lw_vec_push(&nest->memo, LW_NONE);
    if (status != LW_OK) return fail(nest, status), LW_NONE;
  }
  if (nest->memo.data[e] != LW_NONE) return nest->memo.data[e];
  return nest->memo.data[e] = elem_value(nest, e);
}

void lw__nest_store(lw_nest *nest, const lw_region_output *output, lw_kval pred) {
  lw_kval value = lw__nest_elem(nest, output->elem);
  lw_kval at = lw__nest_ix(nest, output->offset);
  lw__kb_store(&nest->kb, lw__nest_buffer(nest, output->value, true), LW_NONE, at, pred, value);
}

/* ---- questions about loads --------------------------------------------------------------------*/

lw_status lw__nest_loads(const lw_elem_pool *pool, lw_elem e, uint8_t *seen, lw_vec_elem *out) {
  if (e == LW_NONE || seen[e]) return LW_OK;
  seen[e] = 1;
  const lw_elem_node *n = lw__elem_node(pool, e);
  for (int i = 0; i < 3; i++) LW_TRY(lw__nest_loads(pool, n->arg[i], seen, out));
  for (uint32_t i = 0; i < n->coord_count; i++)
    LW_TRY(lw__nest_loads(pool, pool->coords.data[n->coord_begin + i].elem, seen, out));
  return n->kind == LW_ELEM_LOAD ? lw_vec_push(out, e) : LW_OK;
}

lw_status lw__nest_divisors(const lw_region *region, lw_ix var, lw_vec_i64 *out) {
  const lw_elem_pool *pool = &region->pool;
  if (lw__ix_node(&pool->ix, var)->kind != LW_IX_VAR) return LW_OK;
  uint32_t number = lw__ix_var_number(&pool->ix, var);
  for (uint32_t i = 0; i < pool->nodes.count; i++)
    if (pool->nodes.data[i].ix != LW_NONE)
      LW_TRY(lw__ix_borders_of(&pool->ix, pool->nodes.data[i].ix, number, out));
  for (uint32_t i = 0; i < pool->coords.count; i++)
    if (pool->coords.data[i].ix != LW_NONE)
      LW_TRY(lw__ix_borders_of(&pool->ix, pool->coords.data[i].ix, number, out));
  for (uint32_t i = 0; i < region->outputs.count; i++)
    if (region->outputs.data[i].offset != LW_NONE)
      LW_TRY(lw__ix_borders_of(&pool->ix, region->outputs.data[i].offset, number, out));
  return LW_OK;
}

/* Largest power of two <= |limit| that divides |count| and all of |divisors|. */
static int64_t common_lanes(const lw_vec_i64 *divisors, int64_t count, int64_t limit) {
  int64_t lanes = 1;
  while (lanes * 2 <= limit && count % (lanes * 2) == 0) {
    for (uint32_t i = 0; i < divisors->count; i++)
      if (divisors->data[i] % (lanes * 2) != 0) return lanes;
    lanes *= 2;
  }
  return lanes;
}

lw_status lw__nest_lane_limit(const lw_region *region, lw_ix var, int64_t count, int64_t limit,
                              int64_t *out) {
  lw_vec_i64 divisors = {0};
  lw_status status = lw__nest_divisors(region, var, &divisors);
  *out = common_lanes(&divisors, count, limit);
  lw_vec_free(&divisors);
  return status;
}

static lw_status divisors_below(const lw_elem_pool *pool, lw_elem e, uint32_t var, uint8_t *seen,
                                lw_vec_i64 *out) {
  if (e == LW_NONE || seen[e]) return LW_OK;
  seen[e] = 1;
  const lw_elem_node *n = lw__elem_node(pool, e);
  if (n->ix != LW_NONE) LW_TRY(lw__ix_borders_of(&pool->ix, n->ix, var, out));
  for (uint32_t i = 0; i < n->coord_count; i++) {
    const lw_elem_coord *c = &pool->coords.data[n->coord_begin + i];
    if (c->ix != LW_NONE) LW_TRY(lw__ix_borders_of(&pool->ix, c->ix, var, out));
    LW_TRY(divisors_below(pool, c->elem, var, seen, out));
  }
  for (int i = 0; i < 3; i++) LW_TRY(divisors_below(pool, n->arg[i], var, seen, out));
  return LW_OK;
}

lw_status lw__nest_elem_lane_limit(const lw_region *region, const lw_elem *elems,
                                   uint32_t elem_count, bool outputs, lw_ix var, int64_t count,
                                   int64_t limit, int64_t *out) {
  const lw_elem_pool *pool = &region->pool;
  lw_vec_i64 divisors = {0};
  void *seen = NULL;
  *out = 1;
  if (lw__ix_node(&pool->ix, var)->kind != LW_IX_VAR) return LW_OK;
  uint32_t number = lw__ix_var_number(&pool->ix, var);
  LW_TRY(lw__mem_resize(&seen, pool->nodes.count + 1u));
  memset(seen, 0, pool->nodes.count + 1u);
  lw_status status = LW_OK;
  for (uint32_t i = 0; i < elem_count && status == LW_OK; i++)
    status = divisors_below(pool, elems[i], number, seen, &divisors);
  for (uint32_t i = 0; outputs && i < region->outputs.count && status == LW_OK; i++) {
    const lw_region_output *o = &region->outputs.data[i];
    status = divisors_below(pool, o->elem, number, seen, &divisors);
    if (status == LW_OK && o->offset != LW_NONE)
      status = lw__ix_borders_of(&pool->ix, o->offset, number, &divisors);
  }
  if (status == LW_OK) *out = common_lanes(&divisors, count, limit);
  lw_vec_free(&divisors);
  lw__mem_free(seen);
  return status;
}

/* A guard whose truth is the same for all lanes of one vector. */
static bool guard_is_uniform(const lw_elem_pool *pool, lw_elem pred, uint32_t j) {
  if (pred == LW_NONE) return true;
  const lw_elem_node *n = lw__elem_node(pool, pred);
  if (n->kind == LW_ELEM_MAP && n->fn == LW_FN_AND)
    return guard_is_uniform(pool, n->arg[0], j) && guard_is_uniform(pool, n->arg[1], j);
  return n->kind == LW_ELEM_GUARD && !lw__ix_depends(&pool->ix, n->ix, j);
}

bool lw__nest_is_contiguous(lw_ix_pool *pool, lw_ix offset, lw_ix j, int64_t lanes) {
  int64_t coef;
  lw_ix rest;
  if (lanes == 1 || lw__ix_node(pool, j)->kind != LW_IX_VAR) return false;
  if (!lw__ix_split(pool, offset, lw__ix_var_number(pool, j), &coef, &rest) || coef != 1)
    return false;
  int64_t divisor = lw__ix_divisor(pool, rest);
  return divisor == 0 || divisor % lanes == 0;
}

bool lw__nest_is_vector(lw_elem_pool *pool, lw_elem load, lw_ix j, int64_t lanes) {
  const lw_elem_node n = *lw__elem_node(pool, load);
  return n.kind == LW_ELEM_LOAD && lw__nest_is_contiguous(&pool->ix, n.ix, j, lanes) &&
         guard_is_uniform(pool, n.arg[0], lw__ix_var_number(&pool->ix, j));
}

/* |pred| and the load's own predicate. */
static lw_kval load_pred(lw_nest *nest, const lw_elem_node *load, lw_kval pred) {
  if (load->arg[0] == LW_NONE) return pred;
  lw_kval own = lw__nest_elem(nest, load->arg[0]);
  return pred == LW_NONE ? own : lw__kb_fn(&nest->kb, LW_FN_AND, pred, own, LW_NONE);
}

static bool is_zero(const lw_elem_node *n) {
  return n->kind == LW_ELEM_CONST &&
         (lw__dtype_is_float(n->dtype) ? n->scalar.f == 0 : !n->scalar.i);
}

static bool is_choice(const lw_elem_node *n) {
  return n->kind == LW_ELEM_MAP && n->fn == LW_FN_SELECT;
}

bool lw__nest_is_copyable(lw_elem_pool *pool, lw_elem e, lw_ix j, int64_t lanes) {
  e = lw__elem_unwidened(pool, e);
  const lw_elem_node n = *lw__elem_node(pool, e);
  if (is_zero(&n)) return true;
  if (!is_choice(&n)) return lw__nest_is_vector(pool, e, j, lanes);
  return lw__ix_node(&pool->ix, j)->kind == LW_IX_VAR &&
         guard_is_uniform(pool, n.arg[0], lw__ix_var_number(&pool->ix, j)) &&
         lw__nest_is_copyable(pool, n.arg[1], j, lanes) &&
         lw__nest_is_copyable(pool, n.arg[2], j, lanes);
}

/* The first load below a copyable element: zeros are copied from there, under a false predicate. */
static lw_elem any_load(const lw_elem_pool *pool, lw_elem e) {
  const lw_elem_node *n = lw__elem_node(pool, lw__elem_unwidened(pool, e));
  if (n->kind == LW_ELEM_LOAD) return lw__elem_unwidened(pool, e);
  if (!is_choice(n)) return LW_NONE;
  lw_elem first = any_load(pool, n->arg[1]);
  return first != LW_NONE ? first : any_load(pool, n->arg[2]);
}

typedef struct copying {
  uint32_t shared;
  lw_kval at;
  int64_t lanes;
  lw_elem some_load;
} copying;

static void copy_elem(lw_nest *nest, const copying *c, lw_elem e, lw_kval pred) {
  lw_kbuilder *kb = &nest->kb;
  e = lw__elem_unwidened(nest->pool, e);
  lw_elem_node n = *lw__elem_node(nest->pool, e);
  if (is_choice(&n)) {
    lw_kval first = lw__nest_elem(nest, n.arg[0]);
    lw__kb_if(kb, first);
    copy_elem(nest, c, n.arg[1], pred);
    lw__kb_end(kb);
    lw__nest_forget(nest);
    lw__kb_if(kb, lw__kb_fn(kb, LW_FN_NOT, first, LW_NONE, LW_NONE));
    copy_elem(nest, c, n.arg[2], pred);
    lw__kb_end(kb);
    lw__nest_forget(nest);
    return;
  }
  if (is_zero(&n)) {
    pred = lw__kb_const_i(kb, LW_DTYPE_BOOL, 0);
    n = *lw__elem_node(nest->pool, c->some_load);
  }
  pred = load_pred(nest, &n, pred);
  lw__kb_copy(kb, lw__nest_buffer(nest, n.value, false), LW_NONE, lw__nest_ix(nest, n.ix), pred,
              c->shared, c->at, (uint32_t)c->lanes);
}

void lw__nest_copy(lw_nest *nest, lw_elem e, uint32_t shared, lw_kval at, lw_kval pred,
                   int64_t lanes) {
  copying c = {shared, at, lanes, any_load(nest->pool, e)};
  copy_elem(nest, &c, e, pred);
}

void lw__nest_loadv(lw_nest *nest, lw_elem load, uint32_t local, lw_kval at, lw_kval pred,
                    int64_t lanes) {
  const lw_elem_node n = *lw__elem_node(nest->pool, load);
  pred = load_pred(nest, &n, pred);
  lw__kb_loadv(&nest->kb, lw__nest_buffer(nest, n.value, false), LW_NONE, lw__nest_ix(nest, n.ix),
               pred, local, at, (uint32_t)lanes);
}

int64_t lw__nest_widest(const lw_region *region) {
  size_t narrowest = 8;
  for (uint32_t i = 0; i < region->outputs.count; i++) {
    size_t size =
        lw_dtype_size_bytes(lw__value(region->ctx->graph, region->outputs.data[i].value)->dtype);
    if (size < narrowest) narrowest = size;
  }
  for (uint32_t i = 0; i < region->pool.nodes.count; i++) {
    const lw_elem_node *n = &region->pool.nodes.data[i];
    if (n->kind == LW_ELEM_LOAD && lw_dtype_size_bytes(n->dtype) < narrowest)
      narrowest = lw_dtype_size_bytes(n->dtype);
  }
  int64_t lanes = 16 / (int64_t)narrowest;
  return lanes > 8 ? 8 : lanes;
}

/* random_kernel.h: random kernels that keep every rule of the IR, with their inputs: what the
 * interpreter makes of them must be what compiled sources make of them, bit for bit where products
 * and sums are not fused. */
#ifndef LW_TEST_RANDOM_KERNEL_H
#define LW_TEST_RANDOM_KERNEL_H

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "compiler/kernel/build.h"
#include "compiler/kernel/interp.h"

enum { RK_GRID = 3, RK_GPU_THREADS = 64, RK_PER_THREAD = 16, RK_POOL = 40, RK_OUT_SLOTS = 8 };
enum { RK_INPUTS = LW_DTYPE_COUNT - 1 }; /* one of every type */

typedef struct rk {
  lw_kernel kernel;
  lw_kbuilder kb;
  lw_rng rng;
  uint32_t threads;
  lw_kval pool[RK_POOL]; /* values that can be used at this point */
  uint32_t pool_count;
  lw_kval thread, base; /* base: first element of this block, i64 */
  uint32_t input[LW_DTYPE_COUNT], output[LW_DTYPE_COUNT], local[LW_DTYPE_COUNT],
      shared[LW_DTYPE_COUNT];
  uint32_t scratch[LW_DTYPE_COUNT];
} rk;

static int64_t rk_pick(rk *r, int64_t n) { return lw__rng_range(&r->rng, 0, n); }

static lw_kval rk_i32(rk *r, int64_t x) { return lw__kb_const_i(&r->kb, LW_DTYPE_I32, x); }

static lw_kval rk_fn2(rk *r, lw_fn fn, lw_kval a, lw_kval b) {
  return lw__kb_fn(&r->kb, fn, a, b, LW_NONE);
}

static lw_dtype rk_value_type(lw_dtype dtype) {
  bool narrow = lw__dtype_is_float(dtype) && dtype != LW_DTYPE_F32 && dtype != LW_DTYPE_F64;
  return narrow ? LW_DTYPE_F32 : dtype;
}

static void rk_keep(rk *r, lw_kval v) {
  if (v == LW_NONE) return;
  if (r->pool_count < RK_POOL)
    r->pool[r->pool_count++] = v;
  else
    r->pool[rk_pick(r, RK_POOL)] = v;
}

/* A value of |dtype|: one from the pool, cast when it has another type, or a constant. */
static lw_kval rk_value(rk *r, lw_dtype dtype) {
  if (rk_pick(r, 8) == 0) {
    double x = (double)rk_pick(r, 200) - 100;
    return lw__kb_const_f(&r->kb, dtype, lw__dtype_is_float(dtype) ? x / 8 : x);
  }
  for (int tries = 0; tries < 6; tries++) {
    lw_kval v = r->pool[rk_pick(r, r->pool_count)];
    if (lw__kb_type(&r->kb, v) == dtype) return v;
  }
  return lw__kb_cast(&r->kb, r->pool[rk_pick(r, r->pool_count)], dtype);
}

static lw_dtype rk_type(rk *r) {
  return rk_value_type((lw_dtype)(1 + rk_pick(r, LW_DTYPE_COUNT - 1)));
}

/* Functions whose results do not depend on the sign of zero and are exact or correctly rounded. */
static bool rk_good_fn(lw_fn fn, lw_dtype dtype) {
  if (fn == LW_FN_CAST || lw__fn_result_type(fn, dtype) == LW_DTYPE_NONE) return false;
  if (!lw__dtype_is_float(dtype)) return fn != LW_FN_POW;
  switch (fn) {
    case LW_FN_ADD:
    case LW_FN_SUB:
    case LW_FN_MUL:
    case LW_FN_MIN:
    case LW_FN_MAX:
    case LW_FN_NEG:
    case LW_FN_ABS:
    case LW_FN_SIGN:
    case LW_FN_FLOOR:
    case LW_FN_CEIL:
    case LW_FN_ROUND:
    case LW_FN_TRUNC:
    case LW_FN_EQ:
    case LW_FN_NE:
    case LW_FN_LT:
    case LW_FN_LE:
    case LW_FN_GT:
    case LW_FN_GE:
    case LW_FN_ISNAN:
    case LW_FN_ISINF:
    case LW_FN_SELECT: return true;
    default: return false;
  }
}

static lw_kval rk_function(rk *r) {
  for (;;) {
    lw_fn fn = (lw_fn)rk_pick(r, LW_FN_COUNT);
    lw_dtype dtype = rk_type(r);
    if (!rk_good_fn(fn, dtype)) continue;
    lw_kval x[3] = {LW_NONE, LW_NONE, LW_NONE};
    for (int k = 0; k < lw__fn_info[fn].arity; k++)
      x[k] = rk_value(r, fn == LW_FN_SELECT && k == 0 ? LW_DTYPE_BOOL : dtype);
    return lw__kb_fn(&r->kb, fn, x[0], x[1], x[2]);
  }
}

/* An index 0 .. n-1 that depends on data. */
static lw_kval rk_index(rk *r, int64_t n) {
  return rk_fn2(r, LW_FN_MOD, rk_value(r, LW_DTYPE_I32), rk_i32(r, n));
}

static lw_kval rk_load(rk *r) {
  uint32_t buffer = r->input[1 + rk_pick(r, LW_DTYPE_COUNT - 1)];
  int64_t count = (int64_t)r->threads * RK_PER_THREAD;
  if (rk_pick(r, 2) == 0) return lw__kb_load(&r->kb, buffer, r->base, rk_index(r, count), LW_NONE);
  /* from the last block's end on: only the predicate keeps it inside */
  lw_kval at =
      rk_fn2(r, LW_FN_ADD, r->thread,
             rk_i32(r, (RK_GRID * RK_PER_THREAD - 1) * (int64_t)r->threads + rk_pick(r, 50)));
  lw_kval inside = rk_fn2(r, LW_FN_LT, at, rk_i32(r, RK_GRID * count));
  if (rk_pick(r, 2) == 0) inside = rk_fn2(r, LW_FN_AND, inside, rk_value(r, LW_DTYPE_BOOL));
  return lw__kb_load(&r->kb, buffer, LW_NONE, at, inside);
}

/* Fills part of a local array with elements of the input of its type. */
static void rk_load_vector(rk *r) {
  lw_dtype dtype = (lw_dtype)(1 + rk_pick(r, LW_DTYPE_COUNT - 1));
  uint32_t width = 1u << rk_pick(r, 5);
  lw_kval slot = rk_index(r, RK_PER_THREAD / width);
  lw_kval at = rk_fn2(r, LW_FN_ADD, rk_fn2(r, LW_FN_MUL, r->thread, rk_i32(r, RK_PER_THREAD)),
                      rk_fn2(r, LW_FN_MUL, slot, rk_i32(r, width)));
  lw_kval pred = rk_pick(r, 2) == 0 ? rk_value(r, LW_DTYPE_BOOL) : LW_NONE;
  lw_kval to = rk_i32(r, rk_pick(r, RK_PER_THREAD - width + 1));
  lw__kb_loadv(&r->kb, r->input[dtype], r->base, at, pred, r->local[dtype], to, width);
}

static void rk_local_set(rk *r) {
  lw_dtype dtype = (lw_dtype)(1 + rk_pick(r, LW_DTYPE_COUNT - 1));
  lw_kval at =
      rk_pick(r, 2) == 0 ? rk_i32(r, rk_pick(r, RK_PER_THREAD)) : rk_index(r, RK_PER_THREAD);
  lw__kb_lset(&r->kb, r->local[dtype], at, rk_value(r, rk_value_type(dtype)));
}

static lw_kval rk_local_get(rk *r) {
  lw_dtype dtype = (lw_dtype)(1 + rk_pick(r, LW_DTYPE_COUNT - 1));
  lw_kval at =
      rk_pick(r, 2) == 0 ? rk_i32(r, rk_pick(r, RK_PER_THREAD)) : rk_index(r, RK_PER_THREAD);
  return lw__kb_lget(&r->kb, r->local[dtype], at);
}

/* A value of another thread, through shared memory. */
static lw_kval rk_exchange(rk *r) {
  lw_dtype dtype = (lw_dtype)(1 + rk_pick(r, LW_DTYPE_COUNT - 1));
  lw__kb_barrier(&r->kb);
  lw__kb_sset(&r->kb, r->shared[dtype], r->thread, LW_NONE, rk_value(r, rk_value_type(dtype)));
  lw__kb_barrier(&r->kb);
  return lw__kb_sget(&r->kb, r->shared[dtype], rk_index(r, r->threads));
}

static lw_kval rk_reduce(rk *r) {
  static const uint32_t widths[] = {2, 4, 8, 16, 32, 64};
  for (;;) {
    lw_red red = (lw_red)rk_pick(r, LW_RED_COUNT);
    lw_dtype dtype = rk_type(r);
    if (lw__fn_result_type(lw__red_info[red].combine, dtype) != dtype) continue;
    return lw__kb_reduce(&r->kb, red, rk_value(r, dtype), widths[rk_pick(r, 6)], r->scratch[dtype]);
  }
}

static void rk_statement(rk *r, unsigned depth, bool alike);

/* A region; what it defines is forgotten behind it. */
static void rk_inside(rk *r, unsigned depth, lw_kval variable, bool alike) {
  lw_kval saved[RK_POOL];
  uint32_t count = r->pool_count;
  memcpy(saved, r->pool, sizeof saved);
  if (variable != LW_NONE) rk_keep(r, variable);
  for (int64_t n = 1 + rk_pick(r, 6); n > 0; n--) rk_statement(r, depth + 1, alike);
  lw__kb_end(&r->kb);
  memcpy(r->pool, saved, sizeof saved);
  r->pool_count = count;
}

static void rk_loop(rk *r, unsigned depth, bool alike) {
  lw_kloop loop = rk_pick(r, 2) == 0 ? LW_KLOOP_UNROLL : LW_KLOOP_SERIAL;
  if (rk_pick(r, 2) == 0) {
    lw_kval v = lw__kb_for_n(&r->kb, rk_pick(r, 4), loop);
    rk_inside(r, depth, v, alike);
    return;
  }
  lw_kval hi = rk_index(r, 5); /* threads run for different times */
  lw_kval v = lw__kb_for(&r->kb, LW_DTYPE_I32, rk_i32(r, 0), hi, rk_i32(r, 1 + rk_pick(r, 2)),
                         LW_KLOOP_SERIAL);
  rk_inside(r, depth, v, false);
}

/* |alike|: all threads are here. */
static void rk_statement(rk *r, unsigned depth, bool alike) {
  switch (rk_pick(r, depth < 3 ? 14 : 11)) {
    case 0: rk_load_vector(r); break;
    case 1:
    case 2: rk_local_set(r); break;
    case 3: rk_keep(r, rk_local_get(r)); break;
    case 4: rk_keep(r, rk_load(r)); break;
    case 5:
      rk_keep(r, lw__kb_round(&r->kb, rk_value(r, LW_DTYPE_F32),
                              (lw_dtype[]){LW_DTYPE_F16, LW_DTYPE_BF16, LW_DTYPE_F8E4M3,
                                           LW_DTYPE_F8E5M2}[rk_pick(r, 4)]));
      break;
    case 11:
      if (!alike || r->threads == 1) break;
      rk_keep(r, rk_pick(r, 2) == 0 ? rk_exchange(r) : rk_reduce(r));
      break;
    case 12: rk_loop(r, depth, alike); break;
    case 13:
      lw__kb_if(&r->kb, rk_value(r, LW_DTYPE_BOOL));
      rk_inside(r, depth, LW_NONE, false);
      break;
    default: rk_keep(r, rk_function(r)); break;
  }
}

static void rk_declare(rk *r) {
  for (int t = 1; t < LW_DTYPE_COUNT; t++) r->input[t] = lw__kb_buffer(&r->kb, (lw_dtype)t, false);
  for (int t = 1; t < LW_DTYPE_COUNT; t++) {
    lw_dtype dtype = (lw_dtype)t;
    r->output[t] = lw__kb_buffer(&r->kb, dtype, true);
    r->local[t] = lw__kb_local(&r->kb, dtype, RK_PER_THREAD);
    if (r->threads == 1) continue;
    r->shared[t] = lw__kb_shared(&r->kb, dtype, r->threads);
    if (rk_value_type(dtype) == dtype)
      r->scratch[t] = lw__kb_shared(&r->kb, dtype, r->threads / 32);
  }
}

static void rk_build(rk *r, lw_ktarget target, uint64_t seed) {
  memset(r, 0, sizeof *r);
  lw__rng_seed(&r->rng, seed);
  r->threads = target == LW_KTARGET_GPU ? RK_GPU_THREADS : 1;
  lw__kernel_init(&r->kernel, target, LW_KCLASS_MAP, r->threads);
  if (lw__kb_init(&r->kb, &r->kernel) != LW_OK) abort();
  rk_declare(r);
  r->thread = lw__kb_thread(&r->kb);
  r->base = rk_fn2(r, LW_FN_MUL, lw__kb_block(&r->kb),
                   lw__kb_const_i(&r->kb, LW_DTYPE_I64, (int64_t)r->threads * RK_PER_THREAD));
  lw_kval mine = rk_fn2(r, LW_FN_MUL, r->thread, rk_i32(r, RK_PER_THREAD));
  for (int t = 1; t < LW_DTYPE_COUNT; t++) {
    lw__kb_loadv(&r->kb, r->input[t], r->base, mine, LW_NONE, r->local[t], LW_NONE, RK_PER_THREAD);
    rk_keep(r,
            lw__kb_load(&r->kb, r->input[t], r->base,
                        rk_fn2(r, LW_FN_ADD, mine, rk_i32(r, rk_pick(r, RK_PER_THREAD))), LW_NONE));
  }
  for (int64_t n = 20 + rk_pick(r, 40); n > 0; n--) rk_statement(r, 0, true);
  for (uint32_t i = 0; i < RK_PER_THREAD;
       i++) { /* what is in the pool goes out by way of the local arrays */
    lw_kval v = r->pool[rk_pick(r, r->pool_count)];
    lw__kb_lset(&r->kb, r->local[lw__kb_type(&r->kb, v)], rk_i32(r, i), v);
  }
  for (int t = 1; t < LW_DTYPE_COUNT; t++)
    lw__kb_storev(&r->kb, r->output[t], r->base, mine, LW_NONE, r->local[t], LW_NONE,
                  RK_PER_THREAD);
  if (r->kb.status != LW_OK) {
    fprintf(stderr, "random kernel %llu: %s\n", (unsigned long long)seed, r->kb.error);
    abort();
  }
}

static void rk_free(rk *r) {
  lw__kb_deinit(&r->kb);
  lw__kernel_deinit(&r->kernel);
}

static size_t rk_count(uint32_t threads) { return (size_t)RK_GRID * threads * RK_PER_THREAD; }

/* Inputs of every type, the same for every kernel. */
static void rk_fill(lw_dtype dtype, void *data, size_t count) {
  lw_rng rng;
  lw__rng_seed(&rng, (uint64_t)dtype);
  for (size_t i = 0; i < count; i++) {
    if (!lw__dtype_is_float(dtype))
      lw__elem_set_i64(dtype, data, (int64_t)i,
                       (int64_t)(lw__rng_u64(&rng) >> lw__rng_range(&rng, 0, 64)));
    else
      lw__elem_set_f64(dtype, data, (int64_t)i,
                       i % 97 == 0 ? 1.0 / 0.0 : lw__rng_normal(&rng) * 10);
  }
}

/* Elements that differ; NaNs and zeros are all alike. */
static int64_t rk_first_difference(lw_dtype dtype, const void *a, const void *b, size_t count) {
  for (int64_t i = 0; i < (int64_t)count; i++) {
    if (!lw__dtype_is_float(dtype)) {
      if (lw__elem_get_i64(dtype, a, i) != lw__elem_get_i64(dtype, b, i)) return i;
      continue;
    }
    double x = lw__elem_get_f64(dtype, a, i), y = lw__elem_get_f64(dtype, b, i);
    if (x != y && (x == x || y == y)) return i;
  }
  return -1;
}

#endif

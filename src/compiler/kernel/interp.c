/* interp.c (kernel): executes kernel IR on the host: all threads of a block go through the program
 * together, each region with the set of threads that are in it. */
#include "compiler/kernel/interp.h"

#include <string.h>

#include "compiler/kernel/interp_state.h"

/* ---- values -----------------------------------------------------------------------------------*/

/* Results of |fn| in the operands' type; f32 through double and back, which for + - * / and square
 * roots is the same. */
static lw_scalar ki_apply(lw_fn fn, lw_dtype dtype, lw_scalar a, lw_scalar b, lw_scalar c) {
  lw_scalar out = {.i = 0};
  if (!lw__dtype_is_float(dtype)) {
    out.i = lw__fn_eval_i64(fn, dtype, a.i, b.i, c.i);
    return out;
  }
  double x = lw__fn_eval_f64(fn, a.f, b.f, c.f);
  if (lw__fn_result_type(fn, dtype) == LW_DTYPE_BOOL)
    out.i = x != 0;
  else
    out.f = dtype == LW_DTYPE_F32 ? (double)(float)x : x;
  return out;
}

/* The arithmetic of almost all kernels, without a call per thread. False when |fn| is not among it.
 */
static bool ki_fast_float(lw_fn fn, lw_dtype dtype, uint32_t threads, const lw_scalar *a,
                          const lw_scalar *b, lw_scalar *out) {
  if (dtype != LW_DTYPE_F32) return false;
  switch (fn) {
    case LW_FN_ADD:
      for (uint32_t t = 0; t < threads; t++) out[t].f = (double)((float)a[t].f + (float)b[t].f);
      return true;
    case LW_FN_SUB:
      for (uint32_t t = 0; t < threads; t++) out[t].f = (double)((float)a[t].f - (float)b[t].f);
      return true;
    case LW_FN_MUL:
      for (uint32_t t = 0; t < threads; t++) out[t].f = (double)((float)a[t].f * (float)b[t].f);
      return true;
    default: return false;
  }
}

static lw_status ki_fn_plain(ki *k, const lw_kinstr *in, uint32_t t, int64_t a, int64_t b,
                             int64_t *out) {
  bool over = in->fn == LW_FN_ADD   ? __builtin_add_overflow(a, b, out)
              : in->fn == LW_FN_SUB ? __builtin_sub_overflow(a, b, out)
                                    : __builtin_mul_overflow(a, b, out);
  if (in->dtype == LW_DTYPE_I32 && (*out > INT32_MAX || *out < INT32_MIN)) over = true;
  if (!over) return LW_OK;
  return ki_fail(k, t, "index arithmetic on %lld and %lld overflows %s", (long long)a, (long long)b,
                 lw_dtype_name((lw_dtype)in->dtype));
}

static lw_status ki_fn(ki *k, uint32_t id, const lw_kinstr *in, const uint8_t *mask) {
  static const lw_scalar zero = {.i = 0};
  lw_fn fn = (lw_fn)in->fn;
  const lw_scalar *a = k->values[in->a], *b = in->b == LW_NONE ? NULL : k->values[in->b];
  const lw_scalar *c = in->c == LW_NONE ? NULL : k->values[in->c];
  lw_scalar *out = k->values[id];
  lw_dtype dtype = (lw_dtype)k->kernel->instrs.data[fn == LW_FN_SELECT ? in->b : in->a].dtype;
  if (fn == LW_FN_SELECT) {
    for (uint32_t t = 0; t < k->threads; t++) out[t] = a[t].i != 0 ? b[t] : c[t];
    return LW_OK;
  }
  bool wraps = fn == LW_FN_ADD || fn == LW_FN_SUB || fn == LW_FN_MUL;
  if (wraps && k->plain[id] != 0) {
    for (uint32_t t = 0; t < k->threads; t++)
      if (mask[t] != 0) LW_TRY(ki_fn_plain(k, in, t, a[t].i, b[t].i, &out[t].i));
    return LW_OK;
  }
  if (b != NULL && ki_fast_float(fn, dtype, k->threads, a, b, out)) return LW_OK;
  for (uint32_t t = 0; t < k->threads; t++)
    if (mask[t] != 0)
      out[t] = ki_apply(fn, dtype, a[t], b == NULL ? zero : b[t], c == NULL ? zero : c[t]);
  return LW_OK;
}

static lw_status ki_unary(ki *k, uint32_t id, const lw_kinstr *in, const uint8_t *mask) {
  const lw_scalar *a = k->values[in->a];
  lw_scalar *out = k->values[id];
  lw_dtype from = (lw_dtype)k->kernel->instrs.data[in->a].dtype;
  for (uint32_t t = 0; t < k->threads; t++) {
    if (mask[t] == 0) continue;
    if (in->op == LW_K_CAST)
      out[t] = lw__cast(a[t], from, (lw_dtype)in->dtype);
    else
      out[t].f = lw__round_to((lw_dtype)in->mem_dtype, a[t].f);
    if (k->plain[id] != 0 && out[t].i != a[t].i)
      return ki_fail(k, t, "index %lld overflows i32", (long long)a[t].i);
  }
  return LW_OK;
}

static void ki_leaf(ki *k, uint32_t id, const lw_kinstr *in) {
  lw_scalar *out = k->values[id];
  for (uint32_t t = 0; t < k->threads; t++) {
    switch ((lw_kop)in->op) {
      case LW_K_SCALAR: out[t].i = k->scalars[in->object]; break;
      case LW_K_BLOCK: out[t].i = k->block; break;
      case LW_K_THREAD: out[t].i = t; break;
      default: out[t] = in->imm; break;
    }
  }
}

/* ---- memory -----------------------------------------------------------------------------------*/

static bool ki_allowed(const ki *k, const lw_kinstr *in, uint32_t t) {
  return in->c == LW_NONE || k->values[in->c][t].i != 0;
}

static int64_t ki_index(const ki *k, lw_kval v, uint32_t t) {
  return v == LW_NONE ? 0 : k->values[v][t].i;
}

static lw_status ki_load_store(ki *k, uint32_t id, const lw_kinstr *in, uint32_t t) {
  int64_t at;
  bool load = in->op == LW_K_LOAD;
  if (!ki_allowed(k, in, t)) {
    if (load) k->values[id][t].i = 0; /* 0.0 as well */
    return LW_OK;
  }
  LW_TRY(ki_place(k, in, t, 1, &at));
  if (!load) LW_TRY(ki_product_check_store(k, in, t, at));
  if (load) return ki_buffer_get(k, in->object, at, t, &k->values[id][t]);
  return ki_buffer_set(k, in->object, at, t, k->values[in->d][t]);
}

static lw_status ki_load_store_vector(ki *k, const lw_kinstr *in, uint32_t t) {
  int64_t at = 0, first = ki_index(k, in->d, t);
  bool load = in->op == LW_K_LOADV, allowed = ki_allowed(k, in, t);
  if (!allowed && !load) return LW_OK;
  if (allowed) LW_TRY(ki_place(k, in, t, in->width, &at));
  if (k->kernel->target == LW_KTARGET_GPU && at % in->width != 0)
    return ki_fail(k, t, "element %lld is not a multiple of the width %u", (long long)at,
                   in->width);
  for (uint32_t i = 0; i < in->width; i++) {
    lw_scalar x = {.i = 0};
    if (load) {
      if (allowed) LW_TRY(ki_buffer_get(k, in->object, at + i, t, &x));
      LW_TRY(ki_local_set(k, in->local, first + i, t, x));
    } else {
      LW_TRY(ki_local_get(k, in->local, first + i, t, &x));
      LW_TRY(ki_buffer_set(k, in->object, at + i, t, x));
    }
  }
  return LW_OK;
}

static lw_status ki_array(ki *k, uint32_t id, const lw_kinstr *in, uint32_t t) {
  int64_t index = ki_index(k, in->b, t);
  switch ((lw_kop)in->op) {
    case LW_K_SGET: return ki_shared_get(k, in->object, index, t, &k->values[id][t]);
    case LW_K_LGET: return ki_local_get(k, in->object, index, t, &k->values[id][t]);
    case LW_K_LSET: return ki_local_set(k, in->object, index, t, k->values[in->d][t]);
    default:
      return ki_allowed(k, in, t) ? ki_shared_set(k, in->object, index, t, k->values[in->d][t])
                                  : LW_OK;
  }
}

static lw_status ki_shared_vector(ki *k, const lw_kinstr *in, uint32_t t) {
  int64_t at = ki_index(k, in->b, t), first = ki_index(k, in->d, t);
  if (!ki_allowed(k, in, t)) return LW_OK;
  if (at % in->width != 0)
    return ki_fail(k, t, "element %lld is not a multiple of the width %u", (long long)at,
                   in->width);
  for (uint32_t i = 0; i < in->width; i++) {
    lw_scalar x;
    if (in->op == LW_K_SGETV) {
      LW_TRY(ki_shared_get(k, in->object, at + i, t, &x));
      LW_TRY(ki_local_set(k, in->local, first + i, t, x));
    } else {
      LW_TRY(ki_local_get(k, in->local, first + i, t, &x));
      LW_TRY(ki_shared_set(k, in->object, at + i, t, x));
    }
  }
  return LW_OK;
}

static lw_status ki_copy_begin(ki *k, const lw_kinstr *in, uint32_t t) {
  int64_t at = 0, to = ki_index(k, in->d, t);
  bool allowed = ki_allowed(k, in, t);
  if (allowed) LW_TRY(ki_place(k, in, t, in->width, &at));
  if (at % in->width != 0 || to % in->width != 0)
    return ki_fail(k, t, "a copy from element %lld to %lld: not multiples of the width %u",
                   (long long)at, (long long)to, in->width);
  for (uint32_t i = 0; i < in->width; i++) {
    lw_scalar x = {.i = 0};
    if (allowed) LW_TRY(ki_buffer_get(k, in->object, at + i, t, &x));
    LW_TRY(ki_shared_send(k, in->local, to + i, t, x));
  }
  return LW_OK;
}

static lw_status ki_vector(ki *k, const lw_kinstr *in, uint32_t t) {
  static const lw_scalar zero = {.i = 0};
  lw_dtype dtype = lw__kvalue_type(k->kernel->locals.data[in->object].dtype);
  int64_t to = ki_index(k, in->b, t), from = ki_index(k, in->d, t);
  for (uint32_t i = 0; i < in->width; i++) {
    lw_scalar x, sum;
    LW_TRY(ki_local_get(k, in->local, from + i, t, &x));
    if (in->op == LW_K_MULADDV) {
      LW_TRY(ki_local_get(k, in->object, to + i, t, &sum));
      x = ki_apply(LW_FN_MUL, dtype, k->values[in->a][t], x, zero);
      x = ki_apply(LW_FN_ADD, dtype, sum, x, zero);
    }
    LW_TRY(ki_local_set(k, in->object, to + i, t, x));
  }
  return LW_OK;
}

static lw_status ki_access(ki *k, uint32_t id, const lw_kinstr *in, const uint8_t *mask) {
  for (uint32_t t = 0; t < k->threads; t++) {
    if (mask[t] == 0) continue;
    switch ((lw_kop)in->op) {
      case LW_K_LOAD:
      case LW_K_STORE: LW_TRY(ki_load_store(k, id, in, t)); break;
      case LW_K_LOADV:
      case LW_K_STOREV: LW_TRY(ki_load_store_vector(k, in, t)); break;
      case LW_K_SGETV:
      case LW_K_SSETV: LW_TRY(ki_shared_vector(k, in, t)); break;
      case LW_K_COPY: LW_TRY(ki_copy_begin(k, in, t)); break;
      case LW_K_COPY_END: k->groups[t]++; break;
      case LW_K_MOVEV:
      case LW_K_MULADDV: LW_TRY(ki_vector(k, in, t)); break;
      default: LW_TRY(ki_array(k, id, in, t)); break;
    }
  }
  return LW_OK;
}

/* ---- threads together -------------------------------------------------------------------------*/

static lw_status ki_barrier(ki *k, const uint8_t *mask) {
  for (uint32_t t = 0; t < k->threads; t++)
    if (mask[t] == 0)
      return ki_fail(k, t, "this thread does not reach a barrier that others reach");
  k->epoch++;
  return LW_OK;
}

/* Butterfly over groups of |width| <= 32 threads of which all or none are active. */
static lw_status ki_butterfly(ki *k, const lw_kinstr *in, uint32_t width, const uint8_t *mask,
                              lw_scalar *v) {
  static const lw_scalar none = {.i = 0};
  lw_fn fn = lw__red_info[in->fn].combine;
  for (uint32_t t = 0; t < k->threads; t++)
    if (mask[t] != mask[t / width * width])
      return ki_fail(k, t, "a group of %u threads does not arrive whole", width);
  for (uint32_t apart = width / 2; apart > 0; apart /= 2) {
    for (uint32_t t = 0; t < k->threads; t++) {
      if ((t & apart) != 0 || mask[t] == 0) continue;
      lw_scalar both = ki_apply(fn, (lw_dtype)in->dtype, v[t], v[t ^ apart], none);
      v[t] = v[t ^ apart] = both;
    }
  }
  return LW_OK;
}

/* Beyond a warp: the warps' results through the scratch, with a barrier after they are written, and
 * one before where the scratch may be in use. */
static lw_status ki_reduce_block(ki *k, uint32_t id, const lw_kinstr *in, const uint8_t *mask) {
  static const lw_scalar none = {.i = 0};
  lw_scalar *v = k->values[id];
  uint32_t epoch = k->epoch;
  LW_TRY(ki_barrier(k, mask));
  if (k->leads[id] == 0) k->epoch = epoch;
  LW_TRY(ki_butterfly(k, in, 32, mask, v));
  for (uint32_t t = 0; t < k->threads; t += 32)
    LW_TRY(ki_shared_set(k, in->object, t / 32, t, v[t]));
  k->epoch++;
  uint32_t warps = in->width / 32;
  for (uint32_t t = 0; t < k->threads; t++) {
    uint32_t first = t / 32 / warps * warps;
    LW_TRY(ki_shared_get(k, in->object, first, t, &v[t]));
    for (uint32_t w = 1; w < warps; w++) {
      lw_scalar next;
      LW_TRY(ki_shared_get(k, in->object, first + w, t, &next));
      v[t] = ki_apply(lw__red_info[in->fn].combine, (lw_dtype)in->dtype, v[t], next, none);
    }
  }
  return LW_OK;
}

static lw_status ki_reduce(ki *k, uint32_t id, const lw_kinstr *in, const uint8_t *mask) {
  memcpy(k->values[id], k->values[in->a], k->threads * sizeof(lw_scalar));
  if (in->width > 32) return ki_reduce_block(k, id, in, mask);
  return ki_butterfly(k, in, in->width, mask, k->values[id]);
}

/* ---- tensor cores -----------------------------------------------------------------------------*/

/* Warps of which all threads or none are active. */
static lw_status ki_whole_warps(const ki *k, const uint8_t *mask) {
  for (uint32_t t = 0; t < k->threads; t++)
    if (mask[t] != mask[t / 32 * 32]) return ki_fail(k, t, "a warp does not arrive whole");
  return LW_OK;
}

static lw_status ki_frag(ki *k, const lw_kinstr *in, const uint8_t *mask) {
  LW_TRY(ki_whole_warps(k, mask));
  for (uint32_t t = 0; t < k->threads; t++) {
    uint32_t lane = t % 32, warp = t - lane;
    if (mask[t] == 0) continue;
    for (uint32_t e = 0; e < 2 * in->width; e++) {
      uint32_t row = lane / 4, column = 2 * (lane % 4) + e % 2;
      uint32_t from = warp + e / 2 * 8 + (in->fn ? column : row);
      int64_t at = k->values[in->b][from].i;
      if (at % 8 != 0) return ki_fail(k, from, "row at %lld: not a multiple of 8", (long long)at);
      lw_scalar x;
      LW_TRY(ki_shared_get(k, in->object, at + (in->fn ? row : column), t, &x));
      LW_TRY(ki_local_set(k, in->local, ki_index(k, in->d, t) + e, t, x));
    }
  }
  return LW_OK;
}

/* Element |e| of the fragments of a warp's lanes, from |array| at |at|. */
static lw_status ki_fragment(ki *k, uint32_t array, lw_kval at, uint32_t t, uint32_t e,
                             float *out) {
  lw_scalar x;
  LW_TRY(ki_local_get(k, array, ki_index(k, at, t) + e, t, &x));
  *out = (float)x.f;
  return LW_OK;
}

static lw_status ki_mma_warp(ki *k, const lw_kinstr *in, uint32_t warp) {
  float a[16][16], b[16][8];
  for (uint32_t lane = 0; lane < 32; lane++) {
    uint32_t g = lane / 4, c = 2 * (lane % 4);
    for (uint32_t e = 0; e < 8; e++)
      LW_TRY(ki_fragment(k, in->local, in->b, warp + lane, e,
                         &a[g + e / 2 % 2 * 8][c + e % 2 + e / 4 * 8]));
    for (uint32_t e = 0; e < 4; e++)
      LW_TRY(ki_fragment(k, in->other, in->c, warp + lane, e, &b[c + e % 2 + e / 2 * 8][g]));
  }
  for (uint32_t lane = 0; lane < 32; lane++) {
    for (uint32_t e = 0; e < 4; e++) {
      uint32_t row = lane / 4 + e / 2 * 8, column = 2 * (lane % 4) + e % 2;
      float sum;
      LW_TRY(ki_fragment(k, in->object, in->a, warp + lane, e, &sum));
      for (uint32_t i = 0; i < 16; i++) sum += a[row][i] * b[i][column];
      LW_TRY(ki_local_set(k, in->object, ki_index(k, in->a, warp + lane) + e, warp + lane,
                          (lw_scalar){.f = (double)sum}));
    }
  }
  return LW_OK;
}

static lw_status ki_mma(ki *k, const lw_kinstr *in, const uint8_t *mask) {
  LW_TRY(ki_whole_warps(k, mask));
  for (uint32_t warp = 0; warp < k->threads; warp += 32)
    if (mask[warp] != 0) LW_TRY(ki_mma_warp(k, in, warp));
  return LW_OK;
}

/* ---- regions ----------------------------------------------------------------------------------*/

static lw_status ki_if(ki *k, const lw_kinstr *in, unsigned depth, const uint8_t *mask) {
  uint8_t *inner = k->masks + (size_t)(depth + 1) * k->threads;
  bool any = false;
  for (uint32_t t = 0; t < k->threads; t++) {
    inner[t] = mask[t] != 0 && k->values[in->a][t].i != 0;
    any |= inner[t] != 0;
  }
  return any ? ki_region(k, in->region, depth + 1) : LW_OK;
}

static lw_status ki_advance(ki *k, uint32_t id, const lw_kinstr *in, const uint8_t *inner) {
  int64_t most = in->dtype == LW_DTYPE_I32 ? INT32_MAX : INT64_MAX;
  for (uint32_t t = 0; t < k->threads; t++) {
    if (inner[t] == 0) continue;
    int64_t *x = &k->values[id][t].i, step = k->values[in->c][t].i;
    if (step <= 0) return ki_fail(k, t, "a loop with step %lld", (long long)step);
    if (*x > most - step) return ki_fail(k, t, "the variable of a loop overflows");
    *x += step;
  }
  return LW_OK;
}

static lw_status ki_for(ki *k, uint32_t id, const lw_kinstr *in, unsigned depth,
                        const uint8_t *mask) {
  bool vector = in->loop == LW_KLOOP_VECTOR; /* these do not nest */
  if (vector) {
    k->loop = ++k->loop_serial;
    k->iteration = 0;
  }
  uint8_t *inner = k->masks + (size_t)(depth + 1) * k->threads;
  memcpy(k->values[id], k->values[in->a], k->threads * sizeof(lw_scalar));
  memcpy(inner, mask, k->threads);
  for (;;) {
    bool any = false;
    for (uint32_t t = 0; t < k->threads; t++) {
      inner[t] = inner[t] != 0 && k->values[id][t].i < k->values[in->b][t].i;
      any |= inner[t] != 0;
    }
    if (!any) break;
    LW_TRY(ki_region(k, in->region, depth + 1));
    k->instr = id;
    LW_TRY(ki_advance(k, id, in, inner));
    if (vector) k->iteration++;
  }
  if (vector) k->loop = 0;
  return LW_OK;
}

static lw_status ki_run_instr(ki *k, uint32_t id, unsigned depth, const uint8_t *mask) {
  const lw_kinstr *in = &k->kernel->instrs.data[id];
  k->instr = id;
  switch ((lw_kop)in->op) {
    case LW_K_FN: return ki_fn(k, id, in, mask);
    case LW_K_CAST:
    case LW_K_ROUND: return ki_unary(k, id, in, mask);
    case LW_K_REDUCE: return ki_reduce(k, id, in, mask);
    case LW_K_BARRIER: return ki_barrier(k, mask);
    case LW_K_COPY_WAIT: return ki_shared_arrive(k, mask, in->width);
    case LW_K_SPILL: return LW_OK;
    case LW_K_FRAG: return ki_frag(k, in, mask);
    case LW_K_MMA: return ki_mma(k, in, mask);
    case LW_K_FOR: return ki_for(k, id, in, depth, mask);
    case LW_K_IF: return ki_if(k, in, depth, mask);
    case LW_K_CONST:
    case LW_K_SCALAR:
    case LW_K_BLOCK:
    case LW_K_THREAD: ki_leaf(k, id, in); return LW_OK;
    case LW_K_SUM:
    case LW_K_ROW:
    case LW_K_COLUMN: ki_product_leaf(k, in, k->values[id]); return LW_OK;
    default: return ki_access(k, id, in, mask);
  }
}

lw_status ki_region(ki *k, uint32_t region, unsigned depth) {
  const lw_kregion *list = &k->kernel->regions.data[region];
  const uint8_t *mask = k->masks + (size_t)depth * k->threads;
  uint64_t active = 0;
  for (uint32_t t = 0; t < k->threads; t++) active += mask[t];
  for (uint32_t i = 0; i < list->count; i++) {
    if (k->live[list->data[i]] == 0) continue;
    k->counts.instructions += active;
    LW_TRY(ki_run_instr(k, list->data[i], depth, mask));
  }
  return LW_OK;
}

/* ---- launch -----------------------------------------------------------------------------------*/

static lw_status ki_init(ki *k) {
  uint32_t count = k->kernel->instrs.count;
  k->threads = k->kernel->block_threads;
  LW_TRY(lw__arena_alloc(&k->arena, count + 1, 1, &k->live));
  LW_TRY(lw__arena_alloc(&k->arena, count + 1, 1, &k->plain));
  LW_TRY(lw__arena_alloc(&k->arena, count + 1, 1, &k->leads));
  LW_TRY(lw__arena_alloc(&k->arena, count + 1, sizeof *k->values, &k->values));
  LW_TRY(lw__arena_alloc(&k->arena, (size_t)(LW_KMAX_DEPTH + 2) * k->threads, 1, &k->masks));
  lw__kernel_live(k->kernel, k->live);
  lw__kernel_plain(k->kernel, k->live, k->plain);
  lw__kernel_leads(k->kernel, k->leads);
  for (uint32_t id = 0; id < count; id++) {
    if (k->live[id] == 0 || k->kernel->instrs.data[id].dtype == LW_DTYPE_NONE) continue;
    LW_TRY(lw__arena_alloc(&k->arena, k->threads, sizeof(lw_scalar), &k->values[id]));
  }
  return ki_memory_init(k);
}

static lw_status ki_launch(ki *k, int64_t grid) {
  if (k->kernel->product.present) return ki_product_run(k);
  memset(k->masks, 1, k->threads);
  for (k->block = 0; k->block < grid; k->block++) {
    k->block_epoch = ++k->epoch;
    LW_TRY(ki_region(k, 0, 0));
    if (k->copies.count > 0)
      return ki_fail(k, k->copies.data[0].thread, "the block ends while a copy is under way");
  }
  return LW_OK;
}

lw_status lw__kinterp_run(const lw_kernel *kernel, int64_t grid, const lw_kinterp_buffer *buffers,
                          const int64_t *scalars, lw_diag *diag, lw_kinterp_counts *out_counts) {
  LW_TRY(lw__kernel_verify(kernel, diag));
  if (grid < 0 || grid > INT32_MAX)
    return lw__fail(diag, LW_STATUS_INTERNAL, "kernel interpreter", "a grid of %lld blocks",
                    (long long)grid);
  ki k = {.kernel = kernel, .buffers = buffers, .scalars = scalars, .diag = diag};
  lw_status status = ki_init(&k);
  if (status == LW_OK) status = ki_launch(&k, grid);
  if (out_counts != NULL) *out_counts = k.counts;
  lw_vec_free(&k.copies);
  lw__arena_deinit(&k.arena);
  return status;
}

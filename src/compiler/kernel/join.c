/* join.c: copies the bodies of kernels into one, each under a condition on the block's number, with
 * everything that they name renumbered. */
#include "compiler/kernel/join.h"

#include <string.h>

#include "compiler/kernel/walk.h"

typedef struct kjoin {
  lw_kernel *out;
  const lw_kernel *part;
  uint32_t *value;           /* per instruction of the part: its new id */
  uint32_t *shared, *locals; /* per array of the part */
  uint32_t first_buffer, first_scalar;
  uint32_t block; /* instruction: this block's number within the part */
} kjoin;

static lw_status join_push(kjoin *j, uint32_t region, const lw_kinstr *in, uint32_t *out_id) {
  *out_id = j->out->instrs.count;
  LW_TRY(lw_vec_push(&j->out->instrs, *in));
  return lw_vec_push(&j->out->regions.data[region], *out_id);
}

static lw_status join_region(kjoin *j, uint32_t *out) {
  lw_kregion empty;
  memset(&empty, 0, sizeof empty);
  *out = j->out->regions.count;
  return lw_vec_push(&j->out->regions, empty);
}

/* ---- renumbering ------------------------------------------------------------------------------*/

static uint32_t renumber(const uint32_t *map, uint32_t id) { return id == LW_NONE ? id : map[id]; }

static void join_objects(const kjoin *j, lw_kinstr *in) {
  lw_kop op = (lw_kop)in->op;
  if (lw__kop_is_access(op)) in->object += j->first_buffer;
  if (op == LW_K_SCALAR) in->object += j->first_scalar;
  if (op == LW_K_SGET || op == LW_K_SSET || op == LW_K_SGETV || op == LW_K_SSETV ||
      op == LW_K_FRAG || op == LW_K_REDUCE)
    in->object = renumber(j->shared, in->object);
  if (op == LW_K_COPY) in->local = renumber(j->shared, in->local);
  if (op == LW_K_LGET || op == LW_K_LSET || op == LW_K_MMA)
    in->object = renumber(j->locals, in->object);
  if (op == LW_K_LOADV || op == LW_K_STOREV || op == LW_K_SGETV || op == LW_K_SSETV ||
      op == LW_K_FRAG || op == LW_K_MMA)
    in->local = renumber(j->locals, in->local);
  if (op == LW_K_MMA) in->other = renumber(j->locals, in->other);
}

static lw_status join_body(kjoin *j, uint32_t from, uint32_t to, unsigned depth) {
  const lw_kregion *list = &j->part->regions.data[from];
  if (depth > LW_KMAX_DEPTH) return LW_STATUS_UNSUPPORTED;
  for (uint32_t i = 0; i < list->count; i++) {
    uint32_t id = list->data[i], inner = LW_NONE;
    lw_kinstr in = j->part->instrs.data[id];
    if (in.op == LW_K_BLOCK) {
      j->value[id] = j->block;
      continue;
    }
    in.a = renumber(j->value, in.a);
    in.b = renumber(j->value, in.b);
    in.c = renumber(j->value, in.c);
    in.d = renumber(j->value, in.d);
    join_objects(j, &in);
    bool owns = in.op == LW_K_FOR || in.op == LW_K_IF;
    if (owns) LW_TRY(join_region(j, &inner));
    if (owns) in.region = inner;
    LW_TRY(join_push(j, to, &in, &j->value[id]));
    if (owns) LW_TRY(join_body(j, j->part->instrs.data[id].region, inner, depth + 1));
  }
  return LW_OK;
}

/* ---- arrays -----------------------------------------------------------------------------------*/

/* Gives each array of a part one of |pool| that the part does not use yet, or a new one. */
static lw_status join_arrays(const lw_karray *arrays, uint32_t count, void *pool_vec,
                             uint32_t *out) {
  LW_VEC(lw_karray) *pool = pool_vec;
  for (uint32_t i = 0; i < count; i++) {
    uint32_t at = 0;
    for (; at < pool->count; at++) {
      bool taken = pool->data[at].dtype != arrays[i].dtype;
      for (uint32_t k = 0; k < i && !taken; k++) taken = out[k] == at;
      if (!taken) break;
    }
    if (at == pool->count) LW_TRY(lw_vec_push(pool, arrays[i]));
    if (pool->data[at].count < arrays[i].count) pool->data[at].count = arrays[i].count;
    out[i] = at;
  }
  return LW_OK;
}

/* ---- parts ------------------------------------------------------------------------------------*/

static lw_kinstr join_blank(lw_kop op, lw_dtype dtype) {
  lw_kinstr in;
  memset(&in, 0, sizeof in);
  in.op = (uint8_t)op;
  in.dtype = (uint8_t)dtype;
  in.a = in.b = in.c = in.d = in.object = in.local = in.other = in.region = LW_NONE;
  return in;
}

static lw_status join_const(kjoin *j, uint32_t region, int64_t x, uint32_t *out) {
  lw_kinstr in = join_blank(LW_K_CONST, LW_DTYPE_I64);
  in.imm.i = x;
  return join_push(j, region, &in, out);
}

static lw_status join_fn(kjoin *j, uint32_t region, lw_fn fn, lw_dtype dtype, uint32_t a,
                         uint32_t b, uint32_t *out) {
  lw_kinstr in = join_blank(LW_K_FN, dtype);
  in.fn = (uint8_t)fn;
  in.a = a;
  in.b = b;
  return join_push(j, region, &in, out);
}

/* if (first <= block < end) { the part, for block - first } */
static lw_status join_part(kjoin *j, uint32_t all_blocks, int64_t first, int64_t end) {
  uint32_t lo, hi, zero, above, below, both, offset, body, unused;
  LW_TRY(join_const(j, 0, first, &lo));
  LW_TRY(join_const(j, 0, end, &hi));
  LW_TRY(join_fn(j, 0, LW_FN_GE, LW_DTYPE_BOOL, all_blocks, lo, &above));
  LW_TRY(join_fn(j, 0, LW_FN_LT, LW_DTYPE_BOOL, all_blocks, hi, &below));
  LW_TRY(join_fn(j, 0, LW_FN_AND, LW_DTYPE_BOOL, above, below, &both));
  LW_TRY(join_region(j, &body));
  lw_kinstr condition = join_blank(LW_K_IF, LW_DTYPE_NONE);
  condition.a = both;
  condition.region = body;
  LW_TRY(join_push(j, 0, &condition, &unused));
  /* The maximum says that the number is not negative, whatever the block. */
  LW_TRY(join_const(j, body, 0, &zero));
  LW_TRY(join_fn(j, body, LW_FN_SUB, LW_DTYPE_I64, all_blocks, lo, &offset));
  LW_TRY(join_fn(j, body, LW_FN_MAX, LW_DTYPE_I64, offset, zero, &j->block));
  return join_body(j, 0, body, 1);
}

static lw_status join_one(lw_kernel *out, const lw_kjoin_part *part, uint32_t all_blocks,
                          int64_t first) {
  const lw_kernel *k = part->kernel;
  kjoin j = {
      .out = out, .part = k, .first_buffer = out->buffers.count, .first_scalar = out->scalar_count};
  void *memory = NULL;
  size_t count = (size_t)k->instrs.count + k->shared.count + k->locals.count + 1;
  LW_TRY(lw__mem_resize(&memory, count * sizeof *j.value));
  memset(memory, 0xff, count * sizeof *j.value);
  j.value = memory;
  j.shared = j.value + k->instrs.count;
  j.locals = j.shared + k->shared.count;
  lw_status status = join_arrays(k->shared.data, k->shared.count, &out->shared, j.shared);
  if (status == LW_OK)
    status = join_arrays(k->locals.data, k->locals.count, &out->locals, j.locals);
  for (uint32_t i = 0; i < k->buffers.count && status == LW_OK; i++)
    status = lw_vec_push(&out->buffers, k->buffers.data[i]);
  out->scalar_count += k->scalar_count;
  if (status == LW_OK) status = join_part(&j, all_blocks, first, first + part->grid);
  lw__mem_free(memory);
  return status;
}

lw_status lw__kernel_join(const lw_kjoin_part *parts, uint32_t count, lw_kernel *out) {
  uint32_t threads = parts[0].kernel->block_threads, block, body;
  lw__kernel_init(out, LW_KTARGET_GPU, LW_KCLASS_SIDE, threads);
  kjoin j = {.out = out};
  LW_TRY(join_region(&j, &body));
  lw_kinstr number = join_blank(LW_K_BLOCK, LW_DTYPE_I64);
  LW_TRY(join_push(&j, 0, &number, &block));
  int64_t first = 0;
  for (uint32_t i = 0; i < count; i++) {
    const lw_kernel *k = parts[i].kernel;
    if (k->block_threads != threads || k->product.present || k->target != LW_KTARGET_GPU)
      return LW_STATUS_INTERNAL;
    if (i == 0 || k->min_blocks_per_sm < out->min_blocks_per_sm)
      out->min_blocks_per_sm = k->min_blocks_per_sm;
    LW_TRY(join_one(out, &parts[i], block, first));
    first += parts[i].grid;
  }
  return LW_OK;
}

/* build.c: the builder of kernel IR: scopes, constant folding, and the placing of pure
 * instructions. */
#include "compiler/kernel/build.h"

#include <string.h>

#include "compiler/kernel/walk.h"

/* ---- life -------------------------------------------------------------------------------------*/

static void kb_fail(lw_kbuilder *kb, lw_status status, const char *error) {
  if (kb->status != LW_OK) return;
  kb->status = status;
  kb->error = error;
}

static bool kb_check(lw_kbuilder *kb, bool ok, const char *error) {
  if (!ok) kb_fail(kb, LW_STATUS_INTERNAL, error);
  return kb->status == LW_OK;
}

/* Opens a new region that |owner| will own. Returns its id. */
static uint32_t kb_open(lw_kbuilder *kb, uint32_t owner) {
  uint32_t region = kb->kernel->regions.count;
  lw_kregion empty = {0};
  lw_status status = lw_vec_push(&kb->kernel->regions, empty);
  if (status == LW_OK) status = lw_vec_push(&kb->open, region);
  if (status == LW_OK) status = lw_vec_push(&kb->open_instr, owner);
  if (status != LW_OK) kb_fail(kb, status, "out of memory");
  return region;
}

lw_status lw__kb_init(lw_kbuilder *kb, lw_kernel *kernel) {
  memset(kb, 0, sizeof *kb);
  kb->kernel = kernel;
  kb_open(kb, LW_NONE);
  return kb->status;
}

void lw__kb_deinit(lw_kbuilder *kb) {
  lw_vec_free(&kb->open);
  lw_vec_free(&kb->open_instr);
  lw_vec_free(&kb->depth);
  lw__mem_free(kb->table);
  memset(kb, 0, sizeof *kb);
}

uint32_t lw__kb_buffer(lw_kbuilder *kb, lw_dtype dtype, bool written) {
  if (kb->status != LW_OK) return LW_NONE;
  lw_kbuffer buffer = {dtype, written};
  if (lw_vec_push(&kb->kernel->buffers, buffer) == LW_OK) return kb->kernel->buffers.count - 1;
  kb_fail(kb, LW_STATUS_OUT_OF_MEMORY, "out of memory");
  return LW_NONE;
}

uint32_t lw__kb_scalar_arg(lw_kbuilder *kb) {
  return kb->status == LW_OK ? kb->kernel->scalar_count++ : LW_NONE;
}

uint32_t lw__kb_shared(lw_kbuilder *kb, lw_dtype dtype, uint32_t count) {
  if (kb->status != LW_OK) return LW_NONE;
  lw_karray array = {dtype, count, 0};
  if (lw_vec_push(&kb->kernel->shared, array) == LW_OK) return kb->kernel->shared.count - 1;
  kb_fail(kb, LW_STATUS_OUT_OF_MEMORY, "out of memory");
  return LW_NONE;
}

uint32_t lw__kb_local(lw_kbuilder *kb, lw_dtype dtype, uint32_t count) {
  return lw__kb_registers(kb, dtype, count, 0);
}

uint32_t lw__kb_registers(lw_kbuilder *kb, lw_dtype dtype, uint32_t count, uint32_t lanes) {
  if (kb->status != LW_OK) return LW_NONE;
  lw_karray array = {dtype, count, lanes};
  if (lw_vec_push(&kb->kernel->locals, array) == LW_OK) return kb->kernel->locals.count - 1;
  kb_fail(kb, LW_STATUS_OUT_OF_MEMORY, "out of memory");
  return LW_NONE;
}

/* ---- placing ----------------------------------------------------------------------------------*/

static const lw_kinstr *kb_instr(const lw_kbuilder *kb, lw_kval v) {
  return &kb->kernel->instrs.data[v];
}

static lw_kinstr kb_blank(lw_kop op, lw_dtype dtype) {
  lw_kinstr in;
  memset(&in, 0, sizeof in);
  in.op = (uint8_t)op;
  in.dtype = (uint8_t)dtype;
  in.a = in.b = in.c = in.d = in.object = in.local = in.other = in.region = LW_NONE;
  return in;
}

/* Depth of the deepest operand; false when one is not to be seen from here. */
static bool kb_operand_depth(lw_kbuilder *kb, const lw_kinstr *in, uint32_t *out) {
  const lw_kval operands[4] = {in->a, in->b, in->c, in->d};
  uint32_t deepest = 0;
  for (int k = 0; k < 4; k++) {
    if (operands[k] == LW_NONE) continue;
    bool seen = operands[k] < kb->depth.count && kb->depth.data[operands[k]] != LW_NONE;
    if (!kb_check(kb, seen, "an operand that is not defined in an open region")) return false;
    if (kb->depth.data[operands[k]] > deepest) deepest = kb->depth.data[operands[k]];
  }
  *out = deepest;
  return true;
}

/* Adds |in| to the kernel without putting it into a region. */
static lw_kval kb_create(lw_kbuilder *kb, const lw_kinstr *in, uint32_t depth) {
  if (kb->status != LW_OK) return LW_NONE;
  lw_status status = lw_vec_push(&kb->kernel->instrs, *in);
  if (status == LW_OK) status = lw_vec_push(&kb->depth, depth);
  if (status == LW_OK) return kb->kernel->instrs.count - 1;
  kb_fail(kb, status, "out of memory");
  return LW_NONE;
}

static void kb_append(lw_kbuilder *kb, uint32_t depth, lw_kval v) {
  if (kb->status != LW_OK) return;
  lw_kregion *region = &kb->kernel->regions.data[kb->open.data[depth]];
  lw_status status = lw_vec_push(region, v);
  if (status != LW_OK) kb_fail(kb, status, "out of memory");
}

/* An instruction with effects, or one whose value depends on when it runs: it stays where it is. */
static lw_kval kb_here(lw_kbuilder *kb, const lw_kinstr *in) {
  uint32_t deepest;
  if (kb->status != LW_OK || !kb_operand_depth(kb, in, &deepest)) return LW_NONE;
  lw_kval v = kb_create(kb, in, kb->open.count - 1);
  kb_append(kb, kb->open.count - 1, v);
  return v;
}

static uint64_t kb_hash(const lw_kinstr *in) {
  const uint64_t words[5] = {(uint64_t)in->op | (uint64_t)in->dtype << 8 | (uint64_t)in->fn << 16 |
                                 (uint64_t)in->mem_dtype << 24,
                             (uint64_t)in->a << 32 | in->b, (uint64_t)in->c << 32 | in->d,
                             in->object, (uint64_t)in->imm.i};
  uint64_t h = UINT64_C(0x9e3779b97f4a7c15);
  for (int k = 0; k < 5; k++) {
    h = (h ^ words[k]) * UINT64_C(0xff51afd7ed558ccd);
    h ^= h >> 32;
  }
  return h;
}

static bool kb_same(const lw_kinstr *x, const lw_kinstr *y) {
  return x->op == y->op && x->dtype == y->dtype && x->fn == y->fn && x->mem_dtype == y->mem_dtype &&
         x->a == y->a && x->b == y->b && x->c == y->c && x->d == y->d && x->object == y->object &&
         x->imm.i == y->imm.i;
}

/* The slots hold ids. Ids of closed regions stay as tombstones (their depth is LW_NONE) until the
 * table grows. */
static lw_kval kb_find(const lw_kbuilder *kb, const lw_kinstr *in) {
  if (kb->table_size == 0) return LW_NONE;
  uint32_t mask = kb->table_size - 1;
  for (uint32_t slot = (uint32_t)kb_hash(in) & mask;; slot = (slot + 1) & mask) {
    uint32_t id = kb->table[slot];
    if (id == LW_NONE) return LW_NONE;
    if (kb->depth.data[id] != LW_NONE && kb_same(kb_instr(kb, id), in)) return id;
  }
}

static void kb_put(lw_kbuilder *kb, uint32_t id) {
  uint32_t mask = kb->table_size - 1;
  uint32_t slot = (uint32_t)kb_hash(kb_instr(kb, id)) & mask;
  while (kb->table[slot] != LW_NONE) slot = (slot + 1) & mask;
  kb->table[slot] = id;
  kb->table_count++;
}

static void kb_table_room(lw_kbuilder *kb) {
  if (kb->table_size != 0 && (kb->table_count + 1) * 2 <= kb->table_size) return;
  uint32_t living = 0;
  for (uint32_t i = 0; i < kb->table_size; i++) {
    uint32_t id = kb->table[i];
    if (id != LW_NONE && kb->depth.data[id] != LW_NONE) living++;
  }
  uint32_t old_size = kb->table_size, size = 64;
  while (size < 4 * (living + 1)) size *= 2;
  uint32_t *old = kb->table;
  void *fresh = NULL;
  if (lw__mem_resize(&fresh, size * sizeof(uint32_t)) != LW_OK) {
    kb_fail(kb, LW_STATUS_OUT_OF_MEMORY, "out of memory");
    return;
  }
  memset(fresh, 0xff, size * sizeof(uint32_t));
  kb->table = fresh;
  kb->table_size = size;
  kb->table_count = 0;
  for (uint32_t i = 0; i < old_size; i++)
    if (old[i] != LW_NONE && kb->depth.data[old[i]] != LW_NONE) kb_put(kb, old[i]);
  lw__mem_free(old);
}

/* A pure instruction: found again, or put into the outermost region not outside |least| that sees
 * its operands. */
static lw_kval kb_pure(lw_kbuilder *kb, const lw_kinstr *in, uint32_t least) {
  uint32_t depth;
  if (kb->status != LW_OK || !kb_operand_depth(kb, in, &depth)) return LW_NONE;
  lw_kval v = kb_find(kb, in);
  if (v != LW_NONE) return v;
  if (depth < least) depth = least;
  v = kb_create(kb, in, depth);
  kb_append(kb, depth, v);
  if (kb->status == LW_OK) kb_table_room(kb);
  if (kb->status != LW_OK) return LW_NONE;
  kb_put(kb, v);
  return v;
}

/* ---- constants --------------------------------------------------------------------------------*/

static lw_kval kb_const(lw_kbuilder *kb, lw_dtype dtype, lw_scalar x) {
  lw_kinstr in = kb_blank(LW_K_CONST, dtype);
  if (!kb_check(kb, dtype != LW_DTYPE_NONE && !lw__kdtype_is_narrow(dtype),
                "a constant of a narrow type"))
    return LW_NONE;
  in.imm = x;
  return kb_pure(kb, &in, 0);
}

lw_kval lw__kb_const_f(lw_kbuilder *kb, lw_dtype dtype, double x) {
  if (!lw__dtype_is_float(dtype))
    return lw__kb_const_i(kb, dtype, lw__cast((lw_scalar){.f = x}, LW_DTYPE_F64, dtype).i);
  return kb_const(kb, dtype, (lw_scalar){.f = lw__round_to(dtype, x)});
}

lw_kval lw__kb_const_i(lw_kbuilder *kb, lw_dtype dtype, int64_t x) {
  return kb_const(kb, dtype, lw__cast((lw_scalar){.i = x}, LW_DTYPE_I64, dtype));
}

bool lw__kb_is_const(const lw_kbuilder *kb, lw_kval v, lw_scalar *out) {
  if (v >= kb->kernel->instrs.count || kb_instr(kb, v)->op != LW_K_CONST) return false;
  if (out != NULL) *out = kb_instr(kb, v)->imm;
  return true;
}

static bool kb_is_int(const lw_kbuilder *kb, lw_kval v, int64_t x) {
  lw_scalar imm;
  return lw__kb_is_const(kb, v, &imm) && !lw__dtype_is_float(lw__kb_type(kb, v)) && imm.i == x;
}

lw_dtype lw__kb_type(const lw_kbuilder *kb, lw_kval v) {
  return v < kb->kernel->instrs.count ? (lw_dtype)kb_instr(kb, v)->dtype : LW_DTYPE_NONE;
}

lw_kval lw__kb_scalar(lw_kbuilder *kb, uint32_t index) {
  lw_kinstr in = kb_blank(LW_K_SCALAR, LW_DTYPE_I64);
  in.object = index;
  return kb_check(kb, index < kb->kernel->scalar_count, "no such scalar argument")
             ? kb_pure(kb, &in, 0)
             : LW_NONE;
}

lw_kval lw__kb_block(lw_kbuilder *kb) {
  lw_kinstr in = kb_blank(LW_K_BLOCK, LW_DTYPE_I64);
  return kb_pure(kb, &in, 0);
}

lw_kval lw__kb_thread(lw_kbuilder *kb) {
  lw_kinstr in = kb_blank(LW_K_THREAD, LW_DTYPE_I32);
  return kb_pure(kb, &in, 0);
}

lw_kval lw__kb_element(lw_kbuilder *kb, lw_kop op) {
  lw_kinstr in = kb_blank(op, op == LW_K_SUM ? LW_DTYPE_F32 : LW_DTYPE_I32);
  return kb_pure(kb, &in, 0);
}

/* ---- functions --------------------------------------------------------------------------------*/

static bool kb_commutes(lw_fn fn) {
  switch (fn) {
    case LW_FN_ADD:
    case LW_FN_MUL:
    case LW_FN_MIN:
    case LW_FN_MAX:
    case LW_FN_EQ:
    case LW_FN_NE:
    case LW_FN_AND:
    case LW_FN_OR:
    case LW_FN_XOR:
    case LW_FN_BITAND:
    case LW_FN_BITOR:
    case LW_FN_BITXOR: return true;
    default: return false;
  }
}

/* All operands constant: computed in the operands' type. */
static lw_kval kb_fold_constants(lw_kbuilder *kb, lw_fn fn, lw_dtype result,
                                 const lw_kval *operands) {
  lw_scalar x[3] = {{.i = 0}, {.i = 0}, {.i = 0}};
  for (int k = 0; k < lw__fn_info[fn].arity; k++)
    if (!lw__kb_is_const(kb, operands[k], &x[k])) return LW_NONE;
  lw_dtype dtype = lw__kb_type(kb, operands[0]);
  if (!lw__dtype_is_float(dtype))
    return lw__kb_const_i(kb, result, lw__fn_eval_i64(fn, dtype, x[0].i, x[1].i, x[2].i));
  return lw__kb_const_f(kb, result, lw__fn_eval_f64(fn, x[0].f, x[1].f, x[2].f));
}

/* Integers: the rules that make index arithmetic short. |b| is the constant when there is one. */
static lw_kval kb_fold_int(lw_kbuilder *kb, lw_fn fn, lw_dtype dtype, lw_kval a, lw_kval b) {
  bool zero = kb_is_int(kb, b, 0), one = kb_is_int(kb, b, 1);
  switch (fn) {
    case LW_FN_ADD: {
      if (zero) return a;
      const lw_kinstr *in = kb_instr(kb, a); /* (x + c1) + c2 */
      lw_scalar c1, c2;
      if (in->op == LW_K_FN && in->fn == LW_FN_ADD && lw__kb_is_const(kb, b, &c2) &&
          lw__kb_is_const(kb, in->b, &c1)) {
        int64_t sum = lw__fn_eval_i64(LW_FN_ADD, dtype, c1.i, c2.i, 0);
        return lw__kb_fn(kb, LW_FN_ADD, in->a, lw__kb_const_i(kb, dtype, sum), LW_NONE);
      }
      return LW_NONE;
    }
    case LW_FN_SUB: return zero ? a : a == b ? lw__kb_const_i(kb, dtype, 0) : LW_NONE;
    case LW_FN_MUL: return one ? a : zero ? b : LW_NONE;
    case LW_FN_DIV: return one ? a : LW_NONE;
    case LW_FN_MOD:
    case LW_FN_REM: return one ? lw__kb_const_i(kb, dtype, 0) : LW_NONE;
    case LW_FN_MIN:
    case LW_FN_MAX: return a == b ? a : LW_NONE;
    default: return LW_NONE;
  }
}

static lw_kval kb_fold_bool(lw_kbuilder *kb, lw_fn fn, lw_kval a, lw_kval b) {
  bool is_true = kb_is_int(kb, b, 1), is_false = kb_is_int(kb, b, 0);
  switch (fn) {
    case LW_FN_AND: return is_true || a == b ? a : is_false ? b : LW_NONE;
    case LW_FN_OR: return is_false || a == b ? a : is_true ? b : LW_NONE;
    case LW_FN_XOR: return is_false ? a : LW_NONE;
    case LW_FN_NOT:
      return kb_instr(kb, a)->op == LW_K_FN && kb_instr(kb, a)->fn == LW_FN_NOT ? kb_instr(kb, a)->a
                                                                                : LW_NONE;
    default: return LW_NONE;
  }
}

static lw_kval kb_fold(lw_kbuilder *kb, lw_fn fn, lw_dtype dtype, lw_dtype result,
                       const lw_kval *operands) {
  if (fn == LW_FN_SELECT) {
    lw_scalar cond;
    if (lw__kb_is_const(kb, operands[0], &cond)) return cond.i != 0 ? operands[1] : operands[2];
    return operands[1] == operands[2] ? operands[1] : LW_NONE;
  }
  lw_kval v = kb_fold_constants(kb, fn, result, operands);
  if (v != LW_NONE || kb->status != LW_OK) return v;
  if (dtype == LW_DTYPE_BOOL) return kb_fold_bool(kb, fn, operands[0], operands[1]);
  return lw__dtype_is_float(dtype) ? LW_NONE : kb_fold_int(kb, fn, dtype, operands[0], operands[1]);
}

/* The operands' type when they are what |fn| wants, LW_DTYPE_NONE otherwise. */
static lw_dtype kb_fn_operand_type(lw_kbuilder *kb, lw_fn fn, const lw_kval *operands) {
  const lw_fn_info *info = &lw__fn_info[fn];
  for (int k = 0; k < 3; k++)
    if ((operands[k] != LW_NONE) != (k < info->arity)) return LW_DTYPE_NONE;
  int first = fn == LW_FN_SELECT ? 1 : 0;
  lw_dtype dtype = lw__kb_type(kb, operands[first]);
  for (int k = first + 1; k < info->arity; k++)
    if (lw__kb_type(kb, operands[k]) != dtype) return LW_DTYPE_NONE;
  if (fn == LW_FN_SELECT && lw__kb_type(kb, operands[0]) != LW_DTYPE_BOOL) return LW_DTYPE_NONE;
  return dtype;
}

lw_kval lw__kb_fn(lw_kbuilder *kb, lw_fn fn, lw_kval a, lw_kval b, lw_kval c) {
  if (!kb_check(kb, (unsigned)fn < LW_FN_COUNT && fn != LW_FN_CAST, "not a function of kernel IR"))
    return LW_NONE;
  lw_kval operands[3] = {a, b, c};
  if (kb_commutes(fn) && lw__kb_is_const(kb, a, NULL)) {
    operands[0] = b;
    operands[1] = a;
  }
  lw_dtype dtype = kb_fn_operand_type(kb, fn, operands);
  lw_dtype result = lw__fn_result_type(fn, dtype);
  if (!kb_check(kb, result != LW_DTYPE_NONE, "a function of operands that it does not take"))
    return LW_NONE;
  lw_kval v = kb_fold(kb, fn, dtype, result, operands);
  if (v != LW_NONE || kb->status != LW_OK) return v;
  lw_kinstr in = kb_blank(LW_K_FN, result);
  in.fn = (uint8_t)fn;
  in.a = operands[0];
  in.b = operands[1];
  in.c = operands[2];
  if (kb_commutes(fn)) { /* the other order, when it is there already */
    lw_kinstr swapped = in;
    swapped.a = in.b;
    swapped.b = in.a;
    v = kb_find(kb, &swapped);
    if (v != LW_NONE) return v;
  }
  return kb_pure(kb, &in, 0);
}

lw_kval lw__kb_cast(lw_kbuilder *kb, lw_kval a, lw_dtype to) {
  lw_dtype from = lw__kb_type(kb, a);
  if (!kb_check(kb, from != LW_DTYPE_NONE, "a cast of nothing") || from == to) return a;
  if (!kb_check(kb, to != LW_DTYPE_NONE && !lw__kdtype_is_narrow(to), "a cast to a narrow type"))
    return LW_NONE;
  lw_scalar x;
  if (lw__kb_is_const(kb, a, &x)) return kb_const(kb, to, lw__cast(x, from, to));
  lw_kinstr in = kb_blank(LW_K_CAST, to);
  in.a = a;
  return kb_pure(kb, &in, 0);
}

/* Whether the value of |in| is one of |narrow| already. */
static bool kb_is_rounded(const lw_kbuilder *kb, const lw_kinstr *in, lw_dtype narrow) {
  switch ((lw_kop)in->op) {
    case LW_K_ROUND: return in->mem_dtype == narrow;
    case LW_K_LOAD: return kb->kernel->buffers.data[in->object].dtype == narrow;
    case LW_K_SGET: return kb->kernel->shared.data[in->object].dtype == narrow;
    case LW_K_LGET: return kb->kernel->locals.data[in->object].dtype == narrow;
    default: return false;
  }
}

lw_kval lw__kb_round(lw_kbuilder *kb, lw_kval a, lw_dtype narrow) {
  if (!kb_check(kb, lw__kb_type(kb, a) == LW_DTYPE_F32, "rounding of what is not f32"))
    return LW_NONE;
  if (narrow == LW_DTYPE_F32) return a;
  if (!kb_check(kb, lw__kdtype_is_narrow(narrow), "rounding to a type that is not narrow"))
    return LW_NONE;
  lw_scalar x;
  if (lw__kb_is_const(kb, a, &x))
    return lw__kb_const_f(kb, LW_DTYPE_F32, lw__round_to(narrow, x.f));
  const lw_kinstr *operand = kb_instr(kb, a);
  if (kb_is_rounded(kb, operand, narrow)) return a;
  lw_kinstr in = kb_blank(LW_K_ROUND, LW_DTYPE_F32);
  in.a = a;
  in.mem_dtype = (uint8_t)narrow;
  return kb_pure(kb, &in, 0);
}

/* ---- memory -----------------------------------------------------------------------------------*/

/* Loads may not leave the innermost IF: what guards them stands there. */
static uint32_t kb_innermost_if(const lw_kbuilder *kb) {
  for (uint32_t d = kb->open.count; d-- > 1;)
    if (kb_instr(kb, kb->open_instr.data[d])->op == LW_K_IF) return d;
  return 0;
}

/* Fills in place and predicate; false when the access never happens or the builder has failed. */
static bool kb_access(lw_kbuilder *kb, lw_kinstr *in, uint32_t buffer, lw_kval base, lw_kval index,
                      lw_kval pred) {
  if (!kb_check(kb, buffer < kb->kernel->buffers.count, "no such buffer")) return false;
  if (!kb_check(kb, index < kb->kernel->instrs.count, "an access without an index")) return false;
  in->object = buffer;
  in->a = kb_is_int(kb, base, 0) ? LW_NONE : base;
  in->b = index;
  in->c = kb_is_int(kb, pred, 1) ? LW_NONE : pred;
  return !kb_is_int(kb, pred, 0);
}

lw_kval lw__kb_load(lw_kbuilder *kb, uint32_t buffer, lw_kval base, lw_kval index, lw_kval pred) {
  lw_kinstr in = kb_blank(LW_K_LOAD, LW_DTYPE_NONE);
  bool happens = kb_access(kb, &in, buffer, base, index, pred);
  if (kb->status != LW_OK) return LW_NONE;
  const lw_kbuffer *b = &kb->kernel->buffers.data[buffer];
  in.dtype = (uint8_t)lw__kvalue_type(b->dtype);
  if (!happens)
    return kb_const(kb, (lw_dtype)in.dtype, (lw_scalar){.i = 0}); /* all bits zero: 0.0 too */
  return b->written ? kb_here(kb, &in) : kb_pure(kb, &in, kb_innermost_if(kb));
}

void lw__kb_store(lw_kbuilder *kb, uint32_t buffer, lw_kval base, lw_kval index, lw_kval pred,
                  lw_kval value) {
  lw_kinstr in = kb_blank(LW_K_STORE, LW_DTYPE_NONE);
  if (!kb_access(kb, &in, buffer, base, index, pred)) return;
  in.d = value;
  kb_here(kb, &in);
}

static lw_kval kb_at(const lw_kbuilder *kb, lw_kval at) {
  return kb_is_int(kb, at, 0) ? LW_NONE : at;
}

void lw__kb_loadv(lw_kbuilder *kb, uint32_t buffer, lw_kval base, lw_kval index, lw_kval pred,
                  uint32_t local, lw_kval at, uint32_t width) {
  lw_kinstr in = kb_blank(LW_K_LOADV, LW_DTYPE_NONE);
  kb_access(kb, &in, buffer, base, index, pred); /* where it never happens it still gives zeros */
  in.local = local;
  in.d = kb_at(kb, at);
  in.width = width;
  kb_here(kb, &in);
}

void lw__kb_storev(lw_kbuilder *kb, uint32_t buffer, lw_kval base, lw_kval index, lw_kval pred,
                   uint32_t local, lw_kval at, uint32_t width) {
  lw_kinstr in = kb_blank(LW_K_STOREV, LW_DTYPE_NONE);
  if (!kb_access(kb, &in, buffer, base, index, pred)) return;
  in.local = local;
  in.d = kb_at(kb, at);
  in.width = width;
  kb_here(kb, &in);
}

lw_kval lw__kb_sget(lw_kbuilder *kb, uint32_t array, lw_kval index) {
  if (!kb_check(kb, array < kb->kernel->shared.count, "no such shared array")) return LW_NONE;
  lw_kinstr in = kb_blank(LW_K_SGET, lw__kvalue_type(kb->kernel->shared.data[array].dtype));
  in.object = array;
  in.b = index;
  return kb_here(kb, &in);
}

void lw__kb_sset(lw_kbuilder *kb, uint32_t array, lw_kval index, lw_kval pred, lw_kval value) {
  if (!kb_check(kb, array < kb->kernel->shared.count, "no such shared array")) return;
  if (kb_is_int(kb, pred, 0)) return;
  lw_kinstr in = kb_blank(LW_K_SSET, LW_DTYPE_NONE);
  in.object = array;
  in.b = index;
  in.c = kb_is_int(kb, pred, 1) ? LW_NONE : pred;
  in.d = value;
  kb_here(kb, &in);
}

void lw__kb_sgetv(lw_kbuilder *kb, uint32_t array, lw_kval index, uint32_t local, lw_kval at,
                  uint32_t width) {
  lw_kinstr in = kb_blank(LW_K_SGETV, LW_DTYPE_NONE);
  in.object = array;
  in.b = index;
  in.local = local;
  in.d = kb_at(kb, at);
  in.width = width;
  kb_here(kb, &in);
}

void lw__kb_ssetv(lw_kbuilder *kb, uint32_t array, lw_kval index, lw_kval pred, uint32_t local,
                  lw_kval at, uint32_t width) {
  if (kb_is_int(kb, pred, 0)) return;
  lw_kinstr in = kb_blank(LW_K_SSETV, LW_DTYPE_NONE);
  in.object = array;
  in.b = index;
  in.c = kb_is_int(kb, pred, 1) ? LW_NONE : pred;
  in.local = local;
  in.d = kb_at(kb, at);
  in.width = width;
  kb_here(kb, &in);
}

lw_kval lw__kb_lget(lw_kbuilder *kb, uint32_t array, lw_kval index) {
  if (!kb_check(kb, array < kb->kernel->locals.count, "no such local array")) return LW_NONE;
  lw_kinstr in = kb_blank(LW_K_LGET, lw__kvalue_type(kb->kernel->locals.data[array].dtype));
  in.object = array;
  in.b = kb_at(kb, index);
  return kb_here(kb, &in);
}

void lw__kb_lset(lw_kbuilder *kb, uint32_t array, lw_kval index, lw_kval value) {
  if (!kb_check(kb, array < kb->kernel->locals.count, "no such local array")) return;
  lw_kinstr in = kb_blank(LW_K_LSET, LW_DTYPE_NONE);
  in.object = array;
  in.b = kb_at(kb, index);
  in.d = value;
  kb_here(kb, &in);
}

void lw__kb_movev(lw_kbuilder *kb, uint32_t to, lw_kval to_at, uint32_t from, lw_kval from_at,
                  uint32_t width) {
  lw_kinstr in = kb_blank(LW_K_MOVEV, LW_DTYPE_NONE);
  in.object = to;
  in.b = kb_at(kb, to_at);
  in.local = from;
  in.d = kb_at(kb, from_at);
  in.width = width;
  kb_here(kb, &in);
}

void lw__kb_spill(lw_kbuilder *kb) {
  lw_kinstr in = kb_blank(LW_K_SPILL, LW_DTYPE_NONE);
  kb_here(kb, &in);
}

void lw__kb_muladdv(lw_kbuilder *kb, uint32_t to, lw_kval to_at, lw_kval a, uint32_t from,
                    lw_kval from_at, uint32_t width) {
  lw_kinstr in = kb_blank(LW_K_MULADDV, LW_DTYPE_NONE);
  in.object = to;
  in.b = kb_at(kb, to_at);
  in.a = a;
  in.local = from;
  in.d = kb_at(kb, from_at);
  in.width = width;
  kb_here(kb, &in);
}

/* ---- threads ----------------------------------------------------------------------------------*/

lw_kval lw__kb_reduce(lw_kbuilder *kb, lw_red red, lw_kval a, uint32_t width, uint32_t scratch) {
  if (!kb_check(kb, a < kb->kernel->instrs.count, "a reduction of nothing")) return LW_NONE;
  if (width == 1) return a;
  lw_kinstr in = kb_blank(LW_K_REDUCE, lw__kb_type(kb, a));
  in.fn = (uint8_t)red;
  in.a = a;
  in.width = width;
  in.object = width > 32 ? scratch : LW_NONE;
  return kb_here(kb, &in);
}

void lw__kb_barrier(lw_kbuilder *kb) {
  lw_kinstr in = kb_blank(LW_K_BARRIER, LW_DTYPE_NONE);
  kb_here(kb, &in);
}

/* ---- tensor cores -----------------------------------------------------------------------------*/

void lw__kb_copy(lw_kbuilder *kb, uint32_t buffer, lw_kval base, lw_kval index, lw_kval pred,
                 uint32_t shared, lw_kval at, uint32_t width) {
  lw_kinstr in = kb_blank(LW_K_COPY, LW_DTYPE_NONE);
  kb_access(kb, &in, buffer, base, index, pred); /* where it never happens it still gives zeros */
  in.local = shared;
  in.d = at;
  in.width = width;
  kb_here(kb, &in);
}

void lw__kb_copy_end(lw_kbuilder *kb) {
  lw_kinstr in = kb_blank(LW_K_COPY_END, LW_DTYPE_NONE);
  kb_here(kb, &in);
}

void lw__kb_copy_wait(lw_kbuilder *kb, uint32_t groups_under_way) {
  lw_kinstr in = kb_blank(LW_K_COPY_WAIT, LW_DTYPE_NONE);
  in.width = groups_under_way;
  kb_here(kb, &in);
}

void lw__kb_frag(lw_kbuilder *kb, uint32_t shared, lw_kval index, bool transposed, uint32_t local,
                 lw_kval at, uint32_t matrices) {
  lw_kinstr in = kb_blank(LW_K_FRAG, LW_DTYPE_NONE);
  in.object = shared;
  in.b = index;
  in.fn = transposed;
  in.local = local;
  in.d = kb_at(kb, at);
  in.width = matrices;
  kb_here(kb, &in);
}

void lw__kb_mma(lw_kbuilder *kb, uint32_t acc, lw_kval acc_at, uint32_t a, lw_kval a_at, uint32_t b,
                lw_kval b_at) {
  lw_kinstr in = kb_blank(LW_K_MMA, LW_DTYPE_NONE);
  in.object = acc;
  in.a = kb_at(kb, acc_at);
  in.local = a;
  in.b = kb_at(kb, a_at);
  in.other = b;
  in.c = kb_at(kb, b_at);
  kb_here(kb, &in);
}

/* ---- regions ----------------------------------------------------------------------------------*/

lw_kval lw__kb_for(lw_kbuilder *kb, lw_dtype index_type, lw_kval lo, lw_kval hi, lw_kval step,
                   lw_kloop loop) {
  if (!kb_check(kb, kb->open.count <= LW_KMAX_DEPTH, "regions nest too deep")) return LW_NONE;
  lw_kinstr in = kb_blank(LW_K_FOR, index_type);
  in.loop = (uint8_t)loop;
  in.a = lo;
  in.b = hi;
  in.c = step;
  uint32_t deepest;
  if (!kb_operand_depth(kb, &in, &deepest)) return LW_NONE;
  lw_kval v = kb_create(kb, &in, kb->open.count);
  uint32_t region = kb_open(kb, v);
  if (kb->status != LW_OK) return LW_NONE;
  kb->kernel->instrs.data[v].region = region;
  return v;
}

lw_kval lw__kb_for_n(lw_kbuilder *kb, int64_t count, lw_kloop loop) {
  if (!kb_check(kb, count <= INT32_MAX, "a loop count beyond i32")) return LW_NONE;
  lw_kval lo = lw__kb_const_i(kb, LW_DTYPE_I32, 0), hi = lw__kb_const_i(kb, LW_DTYPE_I32, count);
  return lw__kb_for(kb, LW_DTYPE_I32, lo, hi, lw__kb_const_i(kb, LW_DTYPE_I32, 1), loop);
}

void lw__kb_if(lw_kbuilder *kb, lw_kval pred) {
  if (!kb_check(kb, kb->open.count <= LW_KMAX_DEPTH, "regions nest too deep")) return;
  lw_kinstr in = kb_blank(LW_K_IF, LW_DTYPE_NONE);
  in.a = pred;
  uint32_t deepest;
  if (!kb_operand_depth(kb, &in, &deepest)) return;
  lw_kval v = kb_create(kb, &in, kb->open.count);
  uint32_t region = kb_open(kb, v);
  if (kb->status == LW_OK) kb->kernel->instrs.data[v].region = region;
}

void lw__kb_end(lw_kbuilder *kb) {
  if (!kb_check(kb, kb->open.count > 1, "an end without a beginning")) return;
  uint32_t owner = kb->open_instr.data[kb->open_instr.count - 1];
  const lw_kregion *region = &kb->kernel->regions.data[kb->open.data[kb->open.count - 1]];
  for (uint32_t i = 0; i < region->count; i++) kb->depth.data[region->data[i]] = LW_NONE;
  kb->depth.data[owner] = LW_NONE;
  kb->open.count--;
  kb->open_instr.count--;
  kb_append(kb, kb->open.count - 1, owner);
}

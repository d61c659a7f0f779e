/* verify.c: every rule of kernel.h that can be seen without running a kernel. */
#include <string.h>

#include "compiler/kernel/walk.h"

enum { SCOPE_UNSEEN, SCOPE_OPEN, SCOPE_CLOSED };

typedef struct kverify {
  const lw_kernel *kernel;
  lw_diag *diag;
  uint8_t *scope;       /* per instruction */
  uint8_t *region_seen; /* per region */
  lw_kval vector_var;   /* variable of the innermost VECTOR loop around, or LW_NONE */
} kverify;

static const lw_kinstr *kv_instr(const kverify *v, lw_kval id) {
  return id < v->kernel->instrs.count ? &v->kernel->instrs.data[id] : NULL;
}

/* True when |id| can be used here and has type |dtype|. */
static bool kv_has(const kverify *v, lw_kval id, lw_dtype dtype) {
  const lw_kinstr *in = kv_instr(v, id);
  return in != NULL && v->scope[id] == SCOPE_OPEN && in->dtype == dtype && dtype != LW_DTYPE_NONE;
}

static bool kv_seen(const kverify *v, lw_kval id) {
  const lw_kinstr *in = kv_instr(v, id);
  return in != NULL && v->scope[id] == SCOPE_OPEN && in->dtype != LW_DTYPE_NONE;
}

static bool kv_is_const(const kverify *v, lw_kval id, int64_t *out) {
  const lw_kinstr *in = kv_instr(v, id);
  if (in == NULL || in->op != LW_K_CONST || lw__dtype_is_float((lw_dtype)in->dtype)) return false;
  *out = in->imm.i;
  return true;
}

static bool kv_memory_type(lw_dtype dtype) {
  return dtype > LW_DTYPE_NONE && dtype < LW_DTYPE_COUNT;
}

static bool kv_value_type(lw_dtype dtype) {
  return kv_memory_type(dtype) && !lw__kdtype_is_narrow(dtype);
}

/* ---- rules of one instruction: NULL, or what is wrong -----------------------------------------*/

static const char *rule_const(const lw_kinstr *in) {
  lw_dtype dtype = (lw_dtype)in->dtype;
  if (!kv_value_type(dtype)) return "a constant has a value type";
  if (lw__dtype_is_float(dtype)) {
    double x = in->imm.f;
    return x == lw__round_to(dtype, x) || x != x ? NULL
                                                 : "a float constant must be a value of its type";
  }
  lw_scalar wrapped = lw__cast(in->imm, LW_DTYPE_I64, dtype);
  return wrapped.i == in->imm.i ? NULL : "an integer constant must be a value of its type";
}

static const char *rule_fn(const kverify *v, const lw_kinstr *in) {
  if (in->fn >= LW_FN_COUNT || in->fn == LW_FN_CAST) return "no such function";
  const lw_fn_info *info = &lw__fn_info[in->fn];
  const lw_kval operands[3] = {in->a, in->b, in->c};
  for (int k = 0; k < 3; k++) {
    if (k < info->arity ? !kv_seen(v, operands[k]) : operands[k] != LW_NONE)
      return "a function takes as many operands as its arity says";
  }
  int first = in->fn == LW_FN_SELECT ? 1 : 0;
  lw_dtype dtype = (lw_dtype)kv_instr(v, operands[first])->dtype;
  for (int k = first; k < info->arity; k++)
    if (!kv_has(v, operands[k], dtype)) return "the operands of a function have one type";
  if (first == 1 && !kv_has(v, in->a, LW_DTYPE_BOOL)) return "select chooses by a bool";
  lw_dtype result = lw__fn_result_type((lw_fn)in->fn, dtype);
  if (result == LW_DTYPE_NONE) return "the function does not take this type";
  return result == in->dtype ? NULL : "the result type is not the function's";
}

static const char *rule_cast(const kverify *v, const lw_kinstr *in) {
  if (!kv_seen(v, in->a)) return "a cast has an operand";
  return kv_value_type((lw_dtype)in->dtype)
             ? NULL
             : "a cast gives a value type (round is for narrow floats)";
}

static const char *rule_round(const kverify *v, const lw_kinstr *in) {
  if (!kv_has(v, in->a, LW_DTYPE_F32) || in->dtype != LW_DTYPE_F32)
    return "round takes and gives f32";
  return lw__kdtype_is_narrow((lw_dtype)in->mem_dtype) ? NULL : "round goes through a narrow float";
}

/* Place and predicate of an access to a buffer. */
static const char *rule_place(const kverify *v, const lw_kinstr *in) {
  if (in->object >= v->kernel->buffers.count) return "no such buffer";
  if (in->a != LW_NONE && !kv_has(v, in->a, LW_DTYPE_I64)) return "the base of an access is i64";
  if (!kv_has(v, in->b, LW_DTYPE_I32) && !kv_has(v, in->b, LW_DTYPE_I64))
    return "the index of an access is i32 or i64";
  if (in->c != LW_NONE && !kv_has(v, in->c, LW_DTYPE_BOOL)) return "a predicate is a bool";
  return NULL;
}

static const char *rule_index(const kverify *v, const lw_karray *array, lw_kval index,
                              bool required) {
  int64_t x;
  if (index == LW_NONE) return required ? "an access to a shared array has an index" : NULL;
  if (!kv_has(v, index, LW_DTYPE_I32)) return "the index of an array is i32";
  if (kv_is_const(v, index, &x) && (x < 0 || x >= array->count))
    return "the index is outside the array";
  return NULL;
}

/* What is said of arrays in registers: |count| and |width| whole registers, the first element known
 * and the first of a register. */
static const char *rule_registers(const kverify *v, const lw_karray *array, lw_kval index,
                                  uint32_t width) {
  int64_t at = 0;
  if (array->lanes == 0) return NULL;
  if (index != LW_NONE && !kv_is_const(v, index, &at))
    return "elements in registers have constant indices";
  return at % array->lanes == 0 && width % array->lanes == 0 ? NULL
                                                             : "registers are touched as wholes";
}

/* Elements of a local array: |width| from |index| on. */
static const char *rule_elements(const kverify *v, uint32_t local, lw_kval index, uint32_t width) {
  if (local >= v->kernel->locals.count) return "no such local array";
  const lw_karray *array = &v->kernel->locals.data[local];
  if (width == 0 || width > array->count)
    return "the width is 0 or more than the local array holds";
  const char *error = rule_index(v, array, index, false);
  int64_t at = 0;
  if (error == NULL && index != LW_NONE && kv_is_const(v, index, &at) && at + width > array->count)
    return "the elements end outside the local array";
  return error == NULL ? rule_registers(v, array, index, width) : error;
}

static const char *rule_load(const kverify *v, const lw_kinstr *in) {
  const char *error = rule_place(v, in);
  if (error != NULL) return error;
  const lw_kbuffer *buffer = &v->kernel->buffers.data[in->object];
  if (in->op == LW_K_LOAD)
    return in->dtype == lw__kvalue_type(buffer->dtype) ? NULL
                                                       : "a load gives the buffer's value type";
  if (!buffer->written) return "a store to a buffer that is not written";
  return kv_has(v, in->d, lw__kvalue_type(buffer->dtype)) ? NULL
                                                          : "the value is not of the buffer's type";
}

static const char *rule_vector(const kverify *v, const lw_kinstr *in) {
  const char *error = rule_place(v, in);
  if (error != NULL) return error;
  const lw_kbuffer *buffer = &v->kernel->buffers.data[in->object];
  if (in->op == LW_K_STOREV && !buffer->written) return "a store to a buffer that is not written";
  error = rule_elements(v, in->local, in->d, in->width);
  if (error != NULL) return error;
  return v->kernel->locals.data[in->local].dtype == buffer->dtype
             ? NULL
             : "buffer and local array have different types";
}

static const char *rule_locals(const kverify *v, const lw_kinstr *in) {
  if (v->kernel->target != LW_KTARGET_CPU) return "vectors of local arrays are for CPUs";
  const char *error = rule_elements(v, in->object, in->b, in->width);
  if (error == NULL) error = rule_elements(v, in->local, in->d, in->width);
  if (error != NULL) return error;
  lw_dtype dtype = v->kernel->locals.data[in->object].dtype;
  if (in->object == in->local || v->kernel->locals.data[in->local].dtype != dtype)
    return "the local arrays are two, of one type";
  uint32_t to = v->kernel->locals.data[in->object].lanes,
           from = v->kernel->locals.data[in->local].lanes;
  if (to != 0 && from != 0 && to != from) return "registers that meet are of one size";
  if (in->op == LW_K_MOVEV)
    return to != 0 || from != 0 ? NULL : "one of the arrays is in registers";
  if (to == 0) return "sums stand in registers";
  if (!kv_value_type(dtype) || dtype == LW_DTYPE_BOOL) return "the type has no products";
  return kv_has(v, in->a, dtype) ? NULL : "the factor is of the arrays' type";
}

static const char *rule_array(const kverify *v, const lw_kinstr *in) {
  bool shared = in->op == LW_K_SGET || in->op == LW_K_SSET;
  uint32_t count = shared ? v->kernel->shared.count : v->kernel->locals.count;
  if (in->object >= count) return shared ? "no such shared array" : "no such local array";
  const lw_karray *array = (shared ? v->kernel->shared.data : v->kernel->locals.data) + in->object;
  const char *error = rule_index(v, array, in->b, shared);
  if (error != NULL) return error;
  if (!shared && array->lanes != 0) return "registers are touched as wholes";
  if (in->op == LW_K_SSET && in->c != LW_NONE && !kv_has(v, in->c, LW_DTYPE_BOOL))
    return "a predicate is a bool";
  lw_dtype dtype = lw__kvalue_type(array->dtype);
  if (in->op == LW_K_SGET || in->op == LW_K_LGET)
    return in->dtype == dtype ? NULL : "the result is not of the array's value type";
  return kv_has(v, in->d, dtype) ? NULL : "the value is not of the array's type";
}

static const char *rule_shared_vector(const kverify *v, const lw_kinstr *in) {
  if (in->object >= v->kernel->shared.count) return "no such shared array";
  if (in->local >= v->kernel->locals.count) return "no such local array";
  const lw_karray *shared = &v->kernel->shared.data[in->object];
  const lw_karray *local = &v->kernel->locals.data[in->local];
  if (shared->dtype != local->dtype) return "shared and local array have different types";
  if (in->width == 0 || in->width > local->count || in->width > shared->count)
    return "the width is 0 or more than the arrays hold";
  if (in->c != LW_NONE && !kv_has(v, in->c, LW_DTYPE_BOOL)) return "a predicate is a bool";
  const char *error = rule_index(v, shared, in->b, true);
  return error != NULL ? error : rule_index(v, local, in->d, false);
}

static const char *rule_copy(const kverify *v, const lw_kinstr *in) {
  const char *error = rule_place(v, in);
  if (error != NULL) return error;
  const lw_kbuffer *buffer = &v->kernel->buffers.data[in->object];
  if (buffer->written) return "an asynchronous copy reads what nobody writes";
  if (in->local >= v->kernel->shared.count) return "no such shared array";
  const lw_karray *shared = &v->kernel->shared.data[in->local];
  if (shared->dtype != buffer->dtype) return "buffer and shared array have different types";
  size_t bytes = in->width * lw_dtype_size_bytes(buffer->dtype);
  if (bytes != 4 && bytes != 8 && bytes != 16) return "a copy moves 4, 8 or 16 bytes";
  return rule_index(v, shared, in->d, true);
}

static const char *rule_frag(const kverify *v, const lw_kinstr *in) {
  if (in->object >= v->kernel->shared.count) return "no such shared array";
  if (in->local >= v->kernel->locals.count) return "no such local array";
  const lw_karray *shared = &v->kernel->shared.data[in->object];
  const lw_karray *local = &v->kernel->locals.data[in->local];
  if (!lw__dtype_is_half(shared->dtype) || shared->dtype != local->dtype)
    return "fragments are of f16 or bf16, in shared memory as in registers";
  if (in->width != 1 && in->width != 2 && in->width != 4) return "1, 2 or 4 matrices";
  if (local->count < 2 * in->width) return "the local array does not hold the matrices";
  if (v->kernel->block_threads % 32 != 0) return "warps are whole";
  const char *error = rule_index(v, shared, in->b, true);
  return error != NULL ? error : rule_index(v, local, in->d, false);
}

static const char *rule_mma(const kverify *v, const lw_kinstr *in) {
  const uint32_t arrays[3] = {in->object, in->local, in->other};
  const lw_kval at[3] = {in->a, in->b, in->c};
  const uint32_t elements[3] = {4, 8, 4};
  for (int k = 0; k < 3; k++) {
    if (arrays[k] >= v->kernel->locals.count) return "no such local array";
    const lw_karray *array = &v->kernel->locals.data[arrays[k]];
    if (array->count < elements[k]) return "a local array does not hold the fragment";
    const char *error = rule_index(v, array, at[k], false);
    if (error != NULL) return error;
  }
  lw_dtype factor = v->kernel->locals.data[in->local].dtype;
  if (v->kernel->locals.data[in->object].dtype != LW_DTYPE_F32) return "products are summed in f32";
  if (!lw__dtype_is_half(factor) || v->kernel->locals.data[in->other].dtype != factor)
    return "both factors are of f16, or of bf16";
  return v->kernel->block_threads % 32 == 0 ? NULL : "warps are whole";
}

static const char *rule_reduce(const kverify *v, const lw_kinstr *in) {
  if (in->fn >= LW_RED_COUNT) return "no such reduction";
  lw_dtype dtype = (lw_dtype)in->dtype;
  if (!kv_has(v, in->a, dtype)) return "a reduction gives its operand's type";
  if (lw__fn_result_type(lw__red_info[in->fn].combine, dtype) != dtype)
    return "the reduction does not take this type";
  uint32_t width = in->width, threads = v->kernel->block_threads;
  if (width == 0 || threads % width != 0)
    return "the width of a reduction divides the threads of a block";
  if (width <= 32)
    return (width & (width - 1)) == 0 ? NULL : "inside a warp the width is a power of two";
  if (width % 32 != 0) return "beyond a warp the width is a multiple of 32";
  if (in->object >= v->kernel->shared.count) return "a reduction beyond a warp has a shared array";
  const lw_karray *scratch = &v->kernel->shared.data[in->object];
  if (scratch->dtype != dtype || scratch->count < threads / 32)
    return "the scratch of a reduction holds one element of its type per warp";
  return NULL;
}

static const char *rule_for(const kverify *v, const lw_kinstr *in) {
  lw_dtype dtype = (lw_dtype)in->dtype;
  if (dtype != LW_DTYPE_I32 && dtype != LW_DTYPE_I64) return "the variable of a loop is i32 or i64";
  if (!kv_has(v, in->a, dtype) || !kv_has(v, in->b, dtype) || !kv_has(v, in->c, dtype))
    return "the bounds and step of a loop have its variable's type";
  int64_t lo, hi, step = 1;
  if (kv_is_const(v, in->c, &step) && step <= 0) return "the step of a loop is positive";
  if (in->loop > LW_KLOOP_VECTOR) return "no such kind of loop";
  bool fixed =
      kv_is_const(v, in->a, &lo) && kv_is_const(v, in->b, &hi) && kv_is_const(v, in->c, &step);
  if (in->loop == LW_KLOOP_UNROLL && !fixed) return "an unrolled loop has constant bounds";
  if (in->loop == LW_KLOOP_VECTOR && v->kernel->target != LW_KTARGET_CPU)
    return "vector loops are for CPUs";
  return NULL;
}

static const char *rule_instr(const kverify *v, const lw_kinstr *in) {
  bool gpu_only = in->op == LW_K_COPY || in->op == LW_K_COPY_END || in->op == LW_K_COPY_WAIT ||
                  in->op == LW_K_FRAG || in->op == LW_K_MMA || in->op == LW_K_SGETV ||
                  in->op == LW_K_SSETV;
  if (gpu_only && v->kernel->target != LW_KTARGET_GPU) return "this instruction is for GPUs";
  switch ((lw_kop)in->op) {
    case LW_K_CONST: return rule_const(in);
    case LW_K_SCALAR:
      if (in->object >= v->kernel->scalar_count) return "no such scalar argument";
      return in->dtype == LW_DTYPE_I64 ? NULL : "a scalar argument is i64";
    case LW_K_BLOCK: return in->dtype == LW_DTYPE_I64 ? NULL : "the block's number is i64";
    case LW_K_THREAD: return in->dtype == LW_DTYPE_I32 ? NULL : "the thread's number is i32";
    case LW_K_FN: return rule_fn(v, in);
    case LW_K_CAST: return rule_cast(v, in);
    case LW_K_ROUND: return rule_round(v, in);
    case LW_K_LOAD:
    case LW_K_STORE: return rule_load(v, in);
    case LW_K_LOADV:
    case LW_K_STOREV: return rule_vector(v, in);
    case LW_K_SGET:
    case LW_K_SSET:
    case LW_K_LGET:
    case LW_K_LSET: return rule_array(v, in);
    case LW_K_SGETV:
    case LW_K_SSETV: return rule_shared_vector(v, in);
    case LW_K_COPY: return rule_copy(v, in);
    case LW_K_COPY_END: return NULL;
    case LW_K_COPY_WAIT: return in->width <= 6 ? NULL : "at most 6 groups stay under way";
    case LW_K_FRAG: return rule_frag(v, in);
    case LW_K_MMA: return rule_mma(v, in);
    case LW_K_MOVEV:
    case LW_K_MULADDV: return rule_locals(v, in);
    case LW_K_SPILL:
      return v->kernel->target == LW_KTARGET_CPU ? NULL : "registers are spilled on CPUs";
    case LW_K_REDUCE: return rule_reduce(v, in);
    case LW_K_BARRIER: return v->kernel->target == LW_KTARGET_GPU ? NULL : "barriers are for GPUs";
    case LW_K_FOR: return rule_for(v, in);
    case LW_K_IF: return kv_has(v, in->a, LW_DTYPE_BOOL) ? NULL : "if takes a bool";
    case LW_K_SUM: return in->dtype == LW_DTYPE_F32 ? NULL : "a sum is f32";
    case LW_K_ROW:
    case LW_K_COLUMN: return in->dtype == LW_DTYPE_I32 ? NULL : "rows and columns are i32";
    case LW_K_OP_COUNT: break;
  }
  return "no such instruction";
}

/* What the body of a product may be, and what only it may be. */
static const char *rule_in_product(const kverify *v, const lw_kinstr *in) {
  bool element = in->op == LW_K_SUM || in->op == LW_K_ROW || in->op == LW_K_COLUMN;
  if (!v->kernel->product.present) return element ? "only products have elements" : NULL;
  switch ((lw_kop)in->op) {
    case LW_K_LOAD:
      return v->kernel->buffers.data[in->object].written
                 ? "the body of a product reads only what the launch does not write"
                 : NULL;
    case LW_K_CONST:
    case LW_K_SCALAR:
    case LW_K_FN:
    case LW_K_CAST:
    case LW_K_ROUND:
    case LW_K_STORE: return NULL;
    default: return element ? NULL : "the body of a product computes one element, no more";
  }
}

static bool kv_gives_value(lw_kop op) {
  switch (op) {
    case LW_K_STORE:
    case LW_K_LOADV:
    case LW_K_STOREV:
    case LW_K_SSET:
    case LW_K_LSET:
    case LW_K_SGETV:
    case LW_K_SSETV:
    case LW_K_COPY:
    case LW_K_COPY_END:
    case LW_K_COPY_WAIT:
    case LW_K_FRAG:
    case LW_K_MMA:
    case LW_K_MOVEV:
    case LW_K_MULADDV:
    case LW_K_SPILL:
    case LW_K_BARRIER:
    case LW_K_IF: return false;
    default: return true;
  }
}

/* ---- the tree ---------------------------------------------------------------------------------*/

static lw_status kv_fail(const kverify *v, uint32_t id, const char *error) {
  const lw_kinstr *in = kv_instr(v, id);
  const char *name = in != NULL && in->op < LW_K_OP_COUNT ? lw__kop_name[in->op] : "?";
  return lw__fail(v->diag, LW_STATUS_INTERNAL, "kernel verifier", "instruction %u (%s): %s", id,
                  name, error);
}

static lw_status kv_region(kverify *v, uint32_t region, unsigned depth);

static lw_status kv_owned(kverify *v, uint32_t id, unsigned depth) {
  const lw_kinstr *in = kv_instr(v, id);
  if (in->region >= v->kernel->regions.count) return kv_fail(v, id, "no such region");
  if (v->region_seen[in->region] != 0)
    return kv_fail(v, id, "the region belongs to another instruction");
  if (depth >= LW_KMAX_DEPTH) return kv_fail(v, id, "regions nest too deep");
  lw_kval outer = v->vector_var;
  if (in->op == LW_K_FOR) v->scope[id] = SCOPE_OPEN;
  if (in->op == LW_K_FOR && in->loop == LW_KLOOP_VECTOR) v->vector_var = id;
  lw_status status = kv_region(v, in->region, depth + 1);
  v->scope[id] = SCOPE_CLOSED;
  v->vector_var = outer;
  return status;
}

/* What iterations of a VECTOR loop may not do because they run side by side. */
static const char *rule_in_vector(const kverify *v, const lw_kinstr *in) {
  if (v->vector_var == LW_NONE) return NULL;
  if (in->op == LW_K_LSET && (in->b == LW_NONE || kv_instr(v, in->b)->op == LW_K_CONST))
    return "the iterations of a vector loop write distinct elements";
  if (in->op == LW_K_FOR && in->loop == LW_KLOOP_VECTOR) return "vector loops do not nest";
  if (in->op == LW_K_MOVEV || in->op == LW_K_MULADDV) return "vectors in a vector loop";
  return NULL;
}

static lw_status kv_placed(kverify *v, uint32_t id, unsigned depth) {
  const lw_kinstr *in = kv_instr(v, id);
  if (in == NULL) return kv_fail(v, id, "no such instruction");
  if (v->scope[id] != SCOPE_UNSEEN) return kv_fail(v, id, "an instruction stands in one place");
  if (kv_gives_value((lw_kop)in->op) != (in->dtype != LW_DTYPE_NONE))
    return kv_fail(v, id, "a type where there is no value, or none where there is one");
  const char *error = rule_instr(v, in);
  if (error == NULL) error = rule_in_vector(v, in);
  if (error == NULL) error = rule_in_product(v, in);
  if (error != NULL) return kv_fail(v, id, error);
  if (in->op == LW_K_FOR || in->op == LW_K_IF) return kv_owned(v, id, depth);
  v->scope[id] = SCOPE_OPEN;
  return LW_OK;
}

static lw_status kv_region(kverify *v, uint32_t region, unsigned depth) {
  const lw_kregion *list = &v->kernel->regions.data[region];
  v->region_seen[region] = 1;
  for (uint32_t i = 0; i < list->count; i++) LW_TRY(kv_placed(v, list->data[i], depth));
  for (uint32_t i = 0; i < list->count; i++) v->scope[list->data[i]] = SCOPE_CLOSED;
  return LW_OK;
}

static const char *rule_arrays(const lw_karray *arrays, uint32_t count) {
  for (uint32_t i = 0; i < count; i++) {
    if (!kv_memory_type(arrays[i].dtype)) return "an array has an element type";
    if (arrays[i].count == 0 || arrays[i].count > INT32_MAX / 16)
      return "an array has 1 to 2^27 elements";
    uint32_t lanes = arrays[i].lanes;
    if (lanes != 0 && ((lanes & (lanes - 1)) != 0 || arrays[i].count % lanes != 0))
      return "an array in registers fills them, and they hold a power of two of elements";
  }
  return NULL;
}

static const char *rule_matrix(const lw_kernel *kernel, const lw_kmatrix *m, lw_dtype dtype,
                               int64_t inner, bool written) {
  if (m->buffer >= kernel->buffers.count) return "a matrix of a product has a buffer";
  const lw_kbuffer *buffer = &kernel->buffers.data[m->buffer];
  if (buffer->dtype != dtype || buffer->written != written)
    return "a matrix of a product has its buffer's type and direction";
  if (m->offset < 0 || m->pitch < inner) return "the rows of a matrix do not overlap";
  return NULL;
}

static const char *rule_product(const lw_kernel *kernel) {
  const lw_kproduct *product = &kernel->product;
  const lw_product_sm90 *p = &product->form;
  lw_product_sm90_shape shape;
  if (kernel->target != LW_KTARGET_GPU) return "products are for GPUs";
  if (lw__product_sm90_shape(p, &shape) != LW_OK) return "a product of this form cannot be";
  if (kernel->block_threads != shape.threads) return "a product has the threads of its form";
  if (kernel->scalar_count == 0) return "scalar argument 0 of a product is its number of rows";
  int64_t n = product->columns, k = product->depth;
  if (n < 1 || n > INT32_MAX || k < 1 || k > INT32_MAX)
    return "a product has 1 to 2^31 - 1 columns and the same depth";
  if (p->split > 1 && k < 128 * (int64_t)p->split)
    return "a product is split into parts of at least 128 of its depth";
  const char *error = rule_matrix(kernel, &product->a, p->dtype, k, false);
  int64_t inner = p->b_layout == LW_PRODUCT_B_KN ? n : k;
  if (error == NULL) error = rule_matrix(kernel, &product->b, p->dtype, inner, false);
  if (product->out.buffer != LW_NONE) {
    if (error == NULL) error = rule_matrix(kernel, &product->out, p->out_dtype, n, true);
  } else if (p->store == LW_PRODUCT_STORE_TMA) {
    return "a store through a tensor map has a result to store to";
  }
  bool tma = p->store == LW_PRODUCT_STORE_TMA;
  int64_t units = product->a.offset | product->a.pitch | product->b.offset | product->b.pitch |
                  (tma ? product->out.offset | product->out.pitch | n : 0);
  if (error == NULL && units % 8 != 0)
    error = "offsets and pitches of tensor maps are multiples of 16 bytes";
  return error;
}

static const char *rule_kernel(const lw_kernel *kernel) {
  if (kernel->target != LW_KTARGET_GPU && kernel->target != LW_KTARGET_CPU) return "no such target";
  if ((unsigned)kernel->cls >= LW_KCLASS_COUNT) return "no such class";
  uint32_t most = kernel->target == LW_KTARGET_GPU ? 1024 : 1;
  if (kernel->block_threads == 0 || kernel->block_threads > most)
    return "a block has 1 to 1024 threads on a GPU and 1 on a CPU";
  for (uint32_t i = 0; i < kernel->buffers.count; i++)
    if (!kv_memory_type(kernel->buffers.data[i].dtype)) return "a buffer has an element type";
  const char *error = rule_arrays(kernel->shared.data, kernel->shared.count);
  if (error == NULL) error = rule_arrays(kernel->locals.data, kernel->locals.count);
  for (uint32_t i = 0; i < kernel->shared.count && error == NULL; i++)
    if (kernel->shared.data[i].lanes != 0) error = "a shared array is not in registers";
  for (uint32_t i = 0; i < kernel->locals.count && error == NULL; i++)
    if (kernel->locals.data[i].lanes != 0 && kernel->target != LW_KTARGET_CPU)
      error = "arrays in vector registers are for CPUs";
  if (error == NULL && kernel->regions.count == 0) error = "a kernel has a body";
  if (error == NULL && kernel->product.present) error = rule_product(kernel);
  return error;
}

lw_status lw__kernel_verify(const lw_kernel *kernel, lw_diag *diag) {
  const char *error = rule_kernel(kernel);
  if (error != NULL) return lw__fail(diag, LW_STATUS_INTERNAL, "kernel verifier", "%s", error);
  void *memory = NULL;
  size_t bytes = (size_t)kernel->instrs.count + kernel->regions.count;
  LW_TRY(lw__mem_resize(&memory, bytes));
  memset(memory, 0, bytes);
  kverify v = {.kernel = kernel, .diag = diag, .scope = memory, .vector_var = LW_NONE};
  v.region_seen = v.scope + kernel->instrs.count;
  lw_status status = kv_region(&v, 0, 0);
  for (uint32_t r = 0; r < kernel->regions.count && status == LW_OK; r++) {
    if (v.region_seen[r] == 0)
      status = lw__fail(diag, LW_STATUS_INTERNAL, "kernel verifier",
                        "region %u belongs to no instruction", r);
  }
  lw__mem_free(memory);
  return status;
}

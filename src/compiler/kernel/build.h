/* build.h: builds kernel IR. Pure instructions (constants, functions, casts, loads from buffers
 * that are never written) are put into the outermost open region where their operands are known,
 * and equal ones are built once: loop-invariant code motion and common subexpressions come with
 * construction. A load with a predicate is as pure as one without. Errors are sticky in |status|:
 * build freely, look once (ids are then LW_NONE). */
#ifndef LW_COMPILER_KERNEL_BUILD_H
#define LW_COMPILER_KERNEL_BUILD_H

#include "compiler/kernel/kernel.h"

typedef struct lw_kbuilder {
  lw_kernel *kernel;
  lw_status status;
  LW_VEC(uint32_t) open;      /* region ids, outermost first */
  LW_VEC(uint32_t) open_instr;/* the FOR or IF that owns each open region (LW_NONE for the body) */
  LW_VEC(uint32_t) depth;     /* per instruction: index in |open| of the region it was put into */
  uint32_t *table;            /* hash table of pure instructions in open regions */
  uint32_t table_size, table_count;
  const char *error; /* what went wrong first, a constant string; NULL while status is LW_OK */
} lw_kbuilder;

lw_status lw__kb_init(lw_kbuilder *kb, lw_kernel *kernel) LW_MUST_CHECK; /* opens region 0 */
void lw__kb_deinit(lw_kbuilder *kb);

uint32_t lw__kb_buffer(lw_kbuilder *kb, lw_dtype dtype, bool written); /* adds an argument */
uint32_t lw__kb_scalar_arg(lw_kbuilder *kb);                           /* adds a scalar argument */
uint32_t lw__kb_shared(lw_kbuilder *kb, lw_dtype dtype, uint32_t count);
uint32_t lw__kb_local(lw_kbuilder *kb, lw_dtype dtype, uint32_t count);
/* A local array in vector registers of |lanes| elements. */
uint32_t lw__kb_registers(lw_kbuilder *kb, lw_dtype dtype, uint32_t count, uint32_t lanes);

lw_kval lw__kb_const_f(lw_kbuilder *kb, lw_dtype dtype, double x);
lw_kval lw__kb_const_i(lw_kbuilder *kb, lw_dtype dtype, int64_t x);
lw_kval lw__kb_scalar(lw_kbuilder *kb, uint32_t index);
lw_kval lw__kb_block(lw_kbuilder *kb);
lw_kval lw__kb_thread(lw_kbuilder *kb);
lw_kval lw__kb_element(lw_kbuilder *kb, lw_kop op); /* LW_K_SUM, LW_K_ROW or LW_K_COLUMN */
/* Folds constants and x+0, x*1, x*0 (integers only), select with constant condition, and with true,
 * or with false. */
lw_kval lw__kb_fn(lw_kbuilder *kb, lw_fn fn, lw_kval a, lw_kval b, lw_kval c);
lw_kval lw__kb_cast(lw_kbuilder *kb, lw_kval a, lw_dtype to); /* same type: a itself */
lw_kval lw__kb_round(lw_kbuilder *kb, lw_kval a, lw_dtype narrow);
/* |pred| LW_NONE or constant true: none. |base| LW_NONE: none. */
lw_kval lw__kb_load(lw_kbuilder *kb, uint32_t buffer, lw_kval base, lw_kval index, lw_kval pred);
void lw__kb_store(lw_kbuilder *kb, uint32_t buffer, lw_kval base, lw_kval index, lw_kval pred,
                  lw_kval value);
void lw__kb_loadv(lw_kbuilder *kb, uint32_t buffer, lw_kval base, lw_kval index, lw_kval pred,
                  uint32_t local, lw_kval at, uint32_t width);
void lw__kb_storev(lw_kbuilder *kb, uint32_t buffer, lw_kval base, lw_kval index, lw_kval pred,
                   uint32_t local, lw_kval at, uint32_t width);
lw_kval lw__kb_sget(lw_kbuilder *kb, uint32_t array, lw_kval index);
void lw__kb_sset(lw_kbuilder *kb, uint32_t array, lw_kval index, lw_kval pred, lw_kval value);
void lw__kb_sgetv(lw_kbuilder *kb, uint32_t array, lw_kval index, uint32_t local, lw_kval at,
                  uint32_t width);
void lw__kb_ssetv(lw_kbuilder *kb, uint32_t array, lw_kval index, lw_kval pred, uint32_t local,
                  lw_kval at, uint32_t width);
lw_kval lw__kb_lget(lw_kbuilder *kb, uint32_t array, lw_kval index);
void lw__kb_lset(lw_kbuilder *kb, uint32_t array, lw_kval index, lw_kval value);
void lw__kb_movev(lw_kbuilder *kb, uint32_t to, lw_kval to_at, uint32_t from, lw_kval from_at,
                  uint32_t width);
void lw__kb_spill(lw_kbuilder *kb);
void lw__kb_muladdv(lw_kbuilder *kb, uint32_t to, lw_kval to_at, lw_kval a, uint32_t from,
                    lw_kval from_at, uint32_t width);
lw_kval lw__kb_reduce(lw_kbuilder *kb, lw_red red, lw_kval a, uint32_t width, uint32_t scratch);
void lw__kb_barrier(lw_kbuilder *kb);
/* |shared|[at ..] = |width| elements of |buffer|, asynchronously. */
void lw__kb_copy(lw_kbuilder *kb, uint32_t buffer, lw_kval base, lw_kval index, lw_kval pred,
                 uint32_t shared, lw_kval at, uint32_t width);
void lw__kb_copy_end(lw_kbuilder *kb);
void lw__kb_copy_wait(lw_kbuilder *kb, uint32_t groups_under_way);
void lw__kb_frag(lw_kbuilder *kb, uint32_t shared, lw_kval index, bool transposed, uint32_t local,
                 lw_kval at, uint32_t matrices);
void lw__kb_mma(lw_kbuilder *kb, uint32_t acc, lw_kval acc_at, uint32_t a, lw_kval a_at, uint32_t b,
                lw_kval b_at);
/* Opens a loop: returns its variable. Close in reverse order with lw__kb_end. */
lw_kval lw__kb_for(lw_kbuilder *kb, lw_dtype index_type, lw_kval lo, lw_kval hi, lw_kval step,
                   lw_kloop loop);
lw_kval lw__kb_for_n(lw_kbuilder *kb, int64_t count, lw_kloop loop); /* i32, 0 .. count-1 */
void lw__kb_if(lw_kbuilder *kb, lw_kval pred);
void lw__kb_end(lw_kbuilder *kb);
lw_dtype lw__kb_type(const lw_kbuilder *kb, lw_kval v);
bool lw__kb_is_const(const lw_kbuilder *kb, lw_kval v, lw_scalar *out);

#endif

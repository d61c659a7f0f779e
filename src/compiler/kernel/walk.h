/* walk.h: what printing, verifying, interpreting and emitting kernel IR have in common: which
 * instructions matter, and what each kind of instruction is called and uses. */
#ifndef LW_COMPILER_KERNEL_WALK_H
#define LW_COMPILER_KERNEL_WALK_H

#include "compiler/kernel/kernel.h"

#define LW_KMAX_DEPTH 64 /* regions inside regions */

/* True for instructions that have an effect beside their value: stores, barriers, block-wide
 * reductions. */
bool lw__kinstr_is_root(const lw_kinstr *instr);
/* Does the instruction name a buffer in |object|? */
static inline bool lw__kop_is_access(lw_kop op) {
  return op == LW_K_LOAD || op == LW_K_STORE || op == LW_K_LOADV || op == LW_K_STOREV ||
         op == LW_K_COPY;
}
/* live[id] = 1 for every instruction in the program that has an effect or that one with an effect
 * needs; an IF or FOR is live when something in its region is. |live| has instrs.count elements. */
void lw__kernel_live(const lw_kernel *kernel, uint8_t *live);

/* plain[id] = 1 for index arithmetic: i32 and i64 values of functions, casts and loops that only
 * compute where memory is accessed, how far loops run and which accesses are masked, from nothing
 * but loop variables, block, thread, scalar arguments and constants. Lowering promises that + - *
 * and casts among them do not overflow, so emitters may print them as C's own operators on wider
 * types (which lets compilers see strides); the interpreter holds lowering to it. |live| as above.
 */
void lw__kernel_plain(const lw_kernel *kernel, const uint8_t *live, uint8_t *plain);

/* positive[id] = 1 for plain values that are never below zero as far as their makings show:
 * constants, block, thread, scalar arguments (extents), loops upward from there, and + * / % min of
 * such. Their quotients may be printed as unsigned ones, which are cheaper. |plain| as above. */
void lw__kernel_positive(const lw_kernel *kernel, const uint8_t *live, const uint8_t *plain,
                         uint8_t *positive);

/* leads[id] = 1 for block-wide reductions whose scratch may still be in use when they come, so that
 * a barrier must stand before they write it. |leads| has instrs.count elements. */
void lw__kernel_leads(const lw_kernel *kernel, uint8_t *leads);

/* Type of a value read from an element of |dtype|: narrow floats become f32. */
static inline lw_dtype lw__kvalue_type(lw_dtype dtype) {
  return lw__dtype_is_float(dtype) && dtype != LW_DTYPE_F64 ? LW_DTYPE_F32 : dtype;
}
static inline bool lw__kdtype_is_narrow(lw_dtype dtype) {
  return lw__dtype_is_float(dtype) && dtype != LW_DTYPE_F64 && dtype != LW_DTYPE_F32;
}

extern const char *const lw__kop_name[LW_K_OP_COUNT];
extern const char *const lw__kloop_name[LW_KLOOP_VECTOR + 1];

#endif

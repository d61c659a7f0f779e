/* kernel.h: kernel IR: structured loops over scalar values, one function per kernel, for GPU and
 * CPU alike. Lowering builds it, the verifier and the interpreter check it, the emitters print it.
 * The emitters make no choices.
 *
 * Execution: a launch runs |grid| blocks in any order; a block has |block_threads| threads (CPU
 * kernels: exactly 1). Every value is one scalar per thread. Values are in SSA form; what changes
 * in a loop lives in a local array (registers or stack of one thread; also of length 1). Narrow
 * floats (f16, bf16, f8) exist only in memory (buffers, shared and local arrays): loads give f32,
 * stores round to nearest even. bool is one byte in memory.
 *
 * A kernel with a product (product.h) is another thing: its body runs once for every element of the
 * product's result, with the element's sum at hand; blocks and threads are the skeleton's.
 *
 * Regions: a kernel is a tree of regions (lists of instructions); FOR and IF own one. An operand
 * must be defined earlier in the same region or in an enclosing one. */
#ifndef LW_COMPILER_KERNEL_H
#define LW_COMPILER_KERNEL_H

#include "base/base.h"
#include "compiler/kernel/product.h"
#include "graph/ops.h"

typedef uint32_t lw_kval; /* id of the instruction that gives the value; LW_NONE: absent */

typedef enum lw_kop {
  LW_K_CONST,  /* imm, of |dtype| */
  LW_K_SCALAR, /* scalar argument |object| (i64) */
  LW_K_BLOCK,  /* number of this block, i64, 0 .. grid-1 */
  LW_K_THREAD, /* number of this thread in its block, i32 */
  LW_K_FN,     /* scalar function |fn| of a, b, c; |dtype| is the RESULT type; not CAST */
  LW_K_CAST,   /* a as |dtype|; i32 <-> i64 for indices too. Rules: lw__cast. */
  LW_K_ROUND,  /* f32 a rounded through the narrow float type |mem_dtype| and back to f32 */
  LW_K_LOAD, /* buffer |object| at element a (i64 base, or NONE) + b (i32 or i64); where c (bool, or
                NONE) is false: 0, and memory is not touched */
  LW_K_STORE, /* buffer |object| at a + b, where c: value d */
  LW_K_LOADV, /* |width| consecutive elements of buffer |object| at a + b (where c; else zeros) into
                 local array |local| from element d (NONE: 0) on; same element types. On a GPU a + b
                 is a multiple of |width| elements. */
  LW_K_STOREV, /* the reverse */
  LW_K_SGET,   /* shared array |object| at element b (i32) */
  LW_K_SSET,   /* shared array |object| at b, where c: value d */
  LW_K_SGETV,  /* GPU: |width| consecutive elements of shared array |object| at b (a multiple of
                  |width|)  into local array |local| from element d (NONE: 0) on; same element types
                */
  LW_K_SSETV,  /* the reverse, where c */
  LW_K_LGET,   /* local array |object| at element b (NONE: 0) */
  LW_K_LSET,   /* local array |object| at element b (NONE: 0): value d */
  LW_K_MOVEV,  /* CPU: |width| elements of local array |object| from b (NONE: 0) on = those of
                  another local array |local| from d (NONE: 0) on; same element types, at least one
                  of the arrays in registers */
  LW_K_MULADDV, /* CPU: |width| elements of local array |object| (in registers) from b on += a
                   times those of another local array |local| from d on; all of one type, which is a
                   value type but bool */
  LW_K_SPILL,  /* CPU: no effect; what follows needs all vector registers, and what is in them here
                  had better wait in memory */
  LW_K_REDUCE, /* |red| of a over groups of |width| neighbouring threads (a power of two <= 32, or a
                  multiple of 32 that divides block_threads; then |object| is a shared array of
                  block_threads / 32 elements of a's type and the whole block must arrive). Every
                  thread of the group gets the result. Order: butterfly inside a warp, then warps in
                  order, so results do not depend on timing. */
  LW_K_BARRIER, /* all threads of the block arrive; orders shared memory, and buffers within the
                   block */
  LW_K_SUM, /* products: the sum of this element, f32 */
  LW_K_ROW, /* products: its row and column, i32 */
  LW_K_COLUMN,
  /* Tensor cores and what feeds them (GPU, sm_80 on). Warps arrive whole. */
  LW_K_COPY, /* asynchronous: |width| elements (4, 8 or 16 bytes) of buffer |object| (which nobody
                writes) at a + b, where c (else zeros), to shared array |local| from element d on.
                Both places are multiples of |width|. The elements are there after a COPY_WAIT of
                this thread, for other threads after a BARRIER behind that */
  LW_K_COPY_END,  /* the COPYs of this thread since the last COPY_END are one group */
  LW_K_COPY_WAIT, /* until at most the |width| (0 .. 6) latest groups of this thread are under way
                   */
  LW_K_FRAG, /* |width| (1, 2 or 4) matrices of 8 x 8 elements of 2 bytes from shared array |object|
                to registers: row r of matrix i are the 8 elements at b of lane 8i + r (a multiple
                of 8). Elements d + 2i and d + 2i + 1 of local array |local| become, in lane l,
                those of row l/4, columns 2(l%4) and 2(l%4) + 1; |fn| = 1: of the transposed matrix.
                (PTX ISA, ldmatrix) */
  LW_K_MMA,  /* acc += A B in f32 per warp, A 16 x 16, B 16 x 8: local arrays |object| (4 elements
                from a on), |local| (8 from b on), |other| (4 from c on). Lane l, g = l/4, t =
                2(l%4): acc has (g, t), (g, t+1), (g+8, t), (g+8, t+1); A has (g, t), (g, t+1),
                (g+8, t) .., (g, t+8) .., (g+8, t+8) ..; B has (t, g), (t+1, g), (t+8, g), (t+9, g).
                a, b, c are multiples of 2. (PTX ISA, mma.m16n8k16) */
  LW_K_FOR,  /* region |region| with this instruction's value (|dtype| i32 or i64) = a, a+c, .. < b;
                c > 0. |loop| says how */
  LW_K_IF,   /* region |region| when a */
  LW_K_OP_COUNT
} lw_kop;

typedef enum lw_kloop {
  LW_KLOOP_SERIAL,
  LW_KLOOP_ROLLED, /* serial, and the compiler must not unroll it: the body is large as it is */
  LW_KLOOP_UNROLL, /* constant bounds; unrolled, so local arrays indexed by it stay in registers */
  LW_KLOOP_VECTOR, /* CPU: iterations are independent but for distinct elements of local arrays; the
                      C compiler vectorises */
} lw_kloop;

typedef struct lw_kinstr {
  uint8_t op;        /* lw_kop */
  uint8_t dtype;     /* lw_dtype of the value, LW_DTYPE_NONE for instructions without one */
  uint8_t fn;        /* FN: lw_fn; REDUCE: lw_red; FRAG: transposed */
  uint8_t loop;      /* FOR: lw_kloop */
  uint8_t mem_dtype; /* ROUND */
  uint32_t a, b, c, d;
  uint32_t object, local, other, region, width;
  lw_scalar imm;
} lw_kinstr;

typedef LW_VEC(uint32_t) lw_kregion; /* instruction ids in order */

typedef enum lw_ktarget { LW_KTARGET_GPU, LW_KTARGET_CPU } lw_ktarget;
typedef enum lw_kclass {
  LW_KCLASS_MAP,
  LW_KCLASS_REDUCE,
  LW_KCLASS_SPLIT,
  LW_KCLASS_TRANSPOSE,
  LW_KCLASS_DOT,
  LW_KCLASS_CONV,
  LW_KCLASS_SIDE, /* several kernels side by side (join.h) */
  LW_KCLASS_COUNT
} lw_kclass;
extern const char *const lw__kclass_name[LW_KCLASS_COUNT]; /* "map", "reduce", ... */

typedef struct lw_kbuffer {
  lw_dtype dtype;
  bool written;
} lw_kbuffer; /* not written: read-only for the whole launch */
/* |lanes| not 0 (local arrays of CPU kernels): the array stands in vector registers of so many
 * elements each, and is touched by LOADV, STOREV, MOVEV and MULADDV alone, at constant elements;
 * those, |width| and |count| are multiples of |lanes|. Arrays that meet have registers of one size.
 */
typedef struct lw_karray { lw_dtype dtype; uint32_t count, lanes; } lw_karray;

typedef struct lw_kernel {
  lw_ktarget target;
  lw_kclass cls;
  uint32_t block_threads;
  uint32_t min_blocks_per_sm; /* register budget hint for the compiler; 0: none */
  bool early_start;           /* GPU, sm_90 on: lw_plan_kernel */
  uint32_t scalar_count;      /* i64 arguments */
  LW_VEC(lw_kbuffer) buffers; /* arguments */
  LW_VEC(lw_karray) shared;
  LW_VEC(lw_karray) locals;
  LW_VEC(lw_kinstr) instrs;
  LW_VEC(lw_kregion) regions; /* region 0 is the body */
  lw_kproduct product;        /* GPU */
} lw_kernel;

void lw__kernel_init(lw_kernel *kernel, lw_ktarget target, lw_kclass cls, uint32_t block_threads);
void lw__kernel_deinit(lw_kernel *kernel);
/* Each array aligned to 16 bytes; of a product what its skeleton needs. */
size_t lw__kernel_shared_bytes(const lw_kernel *kernel);
/* Every rule of this header; LW_STATUS_INTERNAL with the instruction. */
lw_status lw__kernel_verify(const lw_kernel *kernel, lw_diag *diag) LW_MUST_CHECK;
/* Canonical text: ids renumbered in program order, dead instructions left out. Equal kernels print
 * equal. */
void lw__kernel_print(const lw_kernel *kernel, lw_text *out);
/* Hash of the canonical text. The kernel's name is lw_<class>_<first 16 hex digits>. */
lw_status lw__kernel_hash(const lw_kernel *kernel, lw_hash *out) LW_MUST_CHECK;
void lw__kernel_name(const lw_kernel *kernel, lw_hash hash, char out[48]);

#endif

/* nest.h: what all lowerings share: one launch under construction, and the printing of element and
 * index expressions into its kernel IR. Internal to lower/. */
#ifndef LW_COMPILER_NEST_H
#define LW_COMPILER_NEST_H

#include "compiler/kernel/build.h"
#include "compiler/lower/lower.h"

/* The value of a reduction or product: one per thread, or (local given) one per lane in a local
 * array. */
typedef struct lw_nest_leaf { lw_value_id value; lw_kval kval; uint32_t local; } lw_nest_leaf;

/* An element that waits on chip, and where it is read: one vector in a local array (at
 * nest.lane_at), all columns of this thread in a local array (nest.whole_at), a tile in shared
 * memory (nest.shared_at). */
typedef enum lw_nest_home { LW_HOME_LANE, LW_HOME_WHOLE, LW_HOME_SHARED } lw_nest_home;
typedef struct lw_nest_kept { lw_elem elem; uint32_t array; lw_nest_home home; } lw_nest_kept;

typedef struct lw_nest {
  lw_region *region;
  lw_elem_pool *pool;
  const lw_lower_options *options;
  lw_launch *launch;
  lw_kbuilder kb;
  LW_VEC(lw_kval) var; /* per variable of the index pool: its value, LW_NONE: not defined yet */
  LW_VEC(lw_kval) memo;           /* per element: value in the current body */
  LW_VEC(lw_value_id) buffers;    /* value of kernel buffer i; LW_NONE for scratch */
  LW_VEC(lw_nest_leaf) leaves;
  LW_VEC(lw_nest_kept) kept;
  lw_kval lane_at, whole_at, shared_at;
  lw_kval shared_step; /* LW_NONE, or how far apart neighbouring lanes stand in shared arrays */
} lw_nest;

/* Starts a new launch in |out|. */
lw_status lw__nest_init(lw_nest *nest, lw_region *region, const lw_lower_options *options,
                        lw_lowered *out, lw_kclass cls, uint32_t block_threads) LW_MUST_CHECK;
/* Takes the finished kernel over into the launch (|grid| blocks) and verifies it. |scalars| are the
 * scalar arguments. */
lw_status lw__nest_finish(lw_nest *nest, int64_t grid, const int64_t *scalars,
                          uint32_t scalar_count, lw_diag *diag) LW_MUST_CHECK;
void lw__nest_deinit(lw_nest *nest);

/* Binds an index variable to its value in the kernel. Forgets remembered elements. */
lw_status lw__nest_bind(lw_nest *nest, lw_ix var, lw_kval value) LW_MUST_CHECK;
/* A loop body ends: remembered elements are no longer in scope. */
void lw__nest_forget(lw_nest *nest);
uint32_t lw__nest_buffer(lw_nest *nest, lw_value_id value, bool written); /* finds or adds */
uint32_t lw__nest_scratch(lw_nest *nest, lw_lowered *out, uint32_t scratch, lw_dtype dtype,
                          bool written);
lw_kval lw__nest_ix(lw_nest *nest, lw_ix e);               /* i32 when the range fits, else i64 */
lw_kval lw__nest_elem(lw_nest *nest, lw_elem e);           /* in the carry type */
/* Sets or replaces. |local| LW_NONE: |kval| is the value; else it is read from the array at
 * nest.lane_at. */
lw_status lw__nest_leaf(lw_nest *nest, lw_value_id value, lw_kval kval,
                        uint32_t local) LW_MUST_CHECK;
lw_status lw__nest_keep(lw_nest *nest, lw_elem elem, uint32_t array,
                        lw_nest_home home) LW_MUST_CHECK;
/* LOADV of |load| into |local| at |at|, where |pred| and the load's own predicate hold. */
void lw__nest_loadv(lw_nest *nest, lw_elem load, uint32_t local, lw_kval at, lw_kval pred,
                    int64_t lanes);
/* Can |lanes| consecutive values of variable |j| of the element be copied as they lie: a vector
 * load (below casts that widen), zero, or one of two such by guards that are the same for all lanes
 * (concatenated and padded values)? */
bool lw__nest_is_copyable(lw_elem_pool *pool, lw_elem e, lw_ix j, int64_t lanes);
/* COPYs of such an element, |lanes| elements, to shared array |shared| from |at| on; zeros where
 * |pred| or a load's own predicate do not hold. */
void lw__nest_copy(lw_nest *nest, lw_elem e, uint32_t shared, lw_kval at, lw_kval pred,
                   int64_t lanes);
/* |lanes| neighbouring values of |e|, |j| running over the lanes, into local array |local|: vector
 * loads of what is contiguous along |j|, the rest lane by lane. Binds |j|. */
lw_status lw__nest_vector_elem(lw_nest *nest, lw_elem e, lw_ix j, int64_t lanes,
                               uint32_t local) LW_MUST_CHECK;
void lw__nest_store(lw_nest *nest, const lw_region_output *output,
                    lw_kval pred); /* computes and stores one element */

/* Narrow floats are carried in f32; everything else in its own type. */
lw_dtype lw__carry_type(lw_dtype dtype);
/* The type sums over |dtype| run in: f32 for narrow floats and f32, f64, integers their own. */
lw_kval lw__nest_identity(lw_nest *nest, lw_red red, lw_dtype dtype);

/* V neighbouring elements of every output, |j| running over the lanes: vector loads of what is
 * contiguous along |j|, the outputs lane by lane, vector stores. */
lw_status lw__nest_vector_body(lw_nest *nest, lw_ix j, int64_t lanes) LW_MUST_CHECK;

/* All distinct loads below |e|, in evaluation order. |seen|: zeroed scratch of pool->nodes.count
 * bytes. */
typedef LW_VEC(lw_elem) lw_vec_elem;
lw_status lw__nest_loads(const lw_elem_pool *pool, lw_elem e, uint8_t *seen,
                         lw_vec_elem *out) LW_MUST_CHECK;
/* Largest power of two <= limit that divides |count|, and every divisor of variable |var| in the
 * addresses, guards and index values below the region's outputs, terms and factors: with V = that,
 * i = V*q + j keeps j out of every division. */
lw_status lw__nest_lane_limit(const lw_region *region, lw_ix var, int64_t count, int64_t limit,
                              int64_t *out) LW_MUST_CHECK;
/* The same, by what stands below the |count| elements and, with |outputs|, in the places of the
 * region's outputs. */
lw_status lw__nest_elem_lane_limit(const lw_region *region, const lw_elem *elems,
                                   uint32_t elem_count, bool outputs, lw_ix var, int64_t count,
                                   int64_t limit, int64_t *out) LW_MUST_CHECK;
/* Where digits of |var| begin in the addresses, guards and index values of the region
 * (lw__ix_borders_of). */
lw_status lw__nest_divisors(const lw_region *region, lw_ix var, lw_vec_i64 *out) LW_MUST_CHECK;

/* A load that |lanes| consecutive values of variable |j| can do as one: coefficient 1, the rest
 * divisible by |lanes|, its predicate free of j (or aligned to lanes). Coefficient 0 loads are not
 * vectors but scalars. */
bool lw__nest_is_vector(lw_elem_pool *pool, lw_elem load, lw_ix j, int64_t lanes);
/* The same for a store at |offset|. */
bool lw__nest_is_contiguous(lw_ix_pool *pool, lw_ix offset, lw_ix j, int64_t lanes);
/* Lanes of 16 bytes of the narrowest type that moves in bulk, at most 8. */
int64_t lw__nest_widest(const lw_region *region);

lw_status lw__lower_map(lw_region_context *ctx, const lw_node_id *nodes, uint32_t count,
                        const lw_lower_options *options, lw_diag *diag,
                        lw_lowered *out) LW_MUST_CHECK;
lw_status lw__lower_reduce(lw_region_context *ctx, const lw_node_id *nodes, uint32_t count,
                           const lw_lower_options *options, lw_diag *diag,
                           lw_lowered *out) LW_MUST_CHECK;
lw_status lw__lower_contraction(lw_region_context *ctx, const lw_node_id *nodes, uint32_t count,
                                const lw_lower_options *options, lw_diag *diag,
                                lw_lowered *out) LW_MUST_CHECK;

#endif

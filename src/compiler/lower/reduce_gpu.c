/* reduce_gpu.c: lowers reduction groups for GPUs. Row layout: a team of threads shares a row; every
 * pass walks it in vectors, what later passes need again stays in registers when the row fits.
 * Column layout (and short rows): one thread owns a row and neighbouring threads own neighbouring
 * rows. */
#include <string.h>

#include "compiler/lower/reduce.h"
#include "compiler/lower/stages.h"

enum {
  column_threads = 128,
  batch_words = 4, /* registers for vectors in flight when rows do not stay in registers */
  most_batch = 4,
  most_strided = 32,      /* threads that share a row in column layout */
  vectors_per_thread = 8, /* aim: enough loads in flight, few enough registers */
  register_budget = 64 * 1024,
  reserved_shared = 1024, /* bytes the driver takes per block */
  spare_shared = 1024,    /* bytes for the teams of several warps */
  spare_registers = 40,   /* what a kernel needs besides kept rows */
  max_unrolled = 64,
  least_split = 8192, /* columns: shorter rows are not cut */
  least_serial = 64,  /* column layout: columns per piece */
  most_pieces = 256,
};

typedef enum keep_home { KEEP_NOTHING, KEEP_REGISTERS, KEEP_SHARED } keep_home;

typedef struct rows_plan {
  int64_t lanes, vectors; /* a row is |vectors| vectors of |lanes| elements */
  uint32_t team;          /* threads per row */
  uint32_t rows_per_block, threads;
  int64_t chunks; /* vectors per thread, rounded up */
  bool exact_columns, exact_rows;
  bool across;    /* column layout: neighbouring threads own neighbouring rows, a team is strided */
  keep_home keep; /* where a row stays between passes */
  int64_t pieces; /* blocks that share a row (or, in column layout, a set of rows); 1: no split */
  int64_t piece_vectors; /* vectors per piece */
} rows_plan;

typedef struct rows_nest {
  lw_nest nest;
  const rows_plan *plan;
  lw_stages stages;
  lw_ix cv, j;      /* column = cv * lanes + j */
  lw_kval lane;     /* thread's number in its team */
  lw_kval row_ok;   /* LW_NONE: always */
  lw_kval store_at; /* lane within the vectors that are stored */
  bool ragged;      /* the last batch of vectors goes past the row */
  lw_kval row;      /* i64 */
  lw_kval piece;    /* i64, LW_NONE when rows are whole */
} rows_nest;

/* ---- choosing ---------------------------------------------------------------------------------*/

static uint32_t pow2_at_least(int64_t x) {
  uint32_t p = 1;
  while (p < x && p < 1024) p *= 2;
  return p;
}

static void choose_team(rows_plan *plan, const lw_region *region) {
  int64_t wanted = lw__ceil_div(plan->vectors, vectors_per_thread);
  uint32_t narrowest = plan->vectors >= 32 ? 32 : pow2_at_least(plan->vectors);
  plan->team = pow2_at_least(wanted);
  if (plan->team < narrowest) plan->team = narrowest;
  plan->rows_per_block = plan->team < 128 ? 128 / plan->team : 1;
  while (plan->rows_per_block > 1 && plan->rows_per_block / 2 >= region->rows)
    plan->rows_per_block /= 2;
  plan->threads = plan->team * plan->rows_per_block;
  if (plan->threads < 32) { /* whole warps, always */
    plan->rows_per_block = 32 / plan->team;
    plan->threads = 32;
  }
  plan->chunks = lw__ceil_div(plan->vectors, plan->team);
  plan->exact_columns = plan->vectors % plan->team == 0;
  plan->exact_rows = region->rows % plan->rows_per_block == 0;
}

/* Kept rows must fit beside everything else; loads of one pass count too because they are in flight
 * together. */
static bool fits_registers(const rows_plan *plan, const lw_region *region, const lw_stages *stages,
                           const lw_lower_options *options) {
  double words = 0, most = options->policy ? options->policy->max_registers : 255;
  for (uint32_t i = 0; i < stages->kept.count; i++)
    words += (double)(plan->chunks * plan->lanes) *
             (double)lw_dtype_size_bytes(lw__stages_kept_type(region, stages->kept.data[i])) / 4;
  double limit = (double)register_budget / plan->threads - spare_registers;
  if (most > 255) most = 255;
  if (limit > most - spare_registers) limit = most - spare_registers;
  return plan->chunks * plan->lanes <= max_unrolled * 4 && words <= limit;
}

static lw_dtype slot_type(const lw_region *region, const lw_stages *stages, uint32_t slot) {
  uint32_t i = 0;
  while (stages->slot[i] != slot) i++;
  return lw__stages_kept_type(region, stages->kept.data[i]);
}

static double kept_bytes(const rows_plan *plan, const lw_region *region, const lw_stages *stages) {
  double bytes = spare_shared;
  for (uint32_t s = 0; s < stages->slot_count; s++)
    bytes += (double)(plan->chunks * plan->lanes * plan->threads) *
             (double)lw_dtype_size_bytes(slot_type(region, stages, s));
  return bytes;
}

static bool fits_shared(const rows_plan *plan, const lw_region *region, const lw_stages *stages,
                        const lw_lower_options *options) {
  /* Elements of less than a bank's width take as many accesses as wide ones: reading the row again
   * is faster. */
  for (uint32_t i = 0; i < stages->kept.count; i++)
    if (lw_dtype_size_bytes(lw__stages_kept_type(region, stages->kept.data[i])) < 4) return false;
  double most = options->profile->shared_bytes_per_block_optin;
  if (options->policy && options->policy->max_shared_bytes < most)
    most = options->policy->max_shared_bytes;
  return kept_bytes(plan, region, stages) <= most;
}

/* One block alone on a multiprocessor idles while it waits: with fewer threads two of them may fit.
 */
static void make_room_for_two(rows_plan *plan, const lw_region *region, const lw_stages *stages,
                              const lw_lower_options *options) {
  rows_plan smaller = *plan;
  while (smaller.team > 256) {
    smaller.team /= 2;
    smaller.threads = smaller.team * smaller.rows_per_block;
    smaller.chunks = lw__ceil_div(smaller.vectors, smaller.team);
    smaller.exact_columns = smaller.vectors % smaller.team == 0;
    if (2 * (kept_bytes(&smaller, region, stages) + reserved_shared) >
        options->profile->shared_bytes_per_sm)
      continue;
    *plan = smaller;
    return;
  }
}

/* Column layout keeps nothing in shared memory: its blocks are many and its rows narrow. */
static keep_home choose_home(const rows_plan *plan, const lw_region *region,
                             const lw_stages *stages, const lw_lower_options *options) {
  if (plan->chunks == 0) return KEEP_NOTHING;
  if (fits_registers(plan, region, stages, options)) return KEEP_REGISTERS;
  bool shared =
      stages->kept.count > 0 && !plan->across && fits_shared(plan, region, stages, options);
  return shared ? KEEP_SHARED : KEEP_NOTHING;
}

/* ---- passes over the row ----------------------------------------------------------------------*/

static lw_kval both(lw_kbuilder *kb, lw_kval a, lw_kval b) {
  if (a == LW_NONE) return b;
  return b == LW_NONE ? a : lw__kb_fn(kb, LW_FN_AND, a, b, LW_NONE);
}

/* Binds cv to chunk k's vector of this thread; returns the predicate under which it exists. */
static lw_status bind_chunk(rows_nest *rn, lw_kval k, lw_kval *out_pred) {
  lw_kbuilder *kb = &rn->nest.kb;
  lw_kval cv = rn->lane;
  if (k != LW_NONE)
    cv = lw__kb_fn(
        kb, LW_FN_ADD,
        lw__kb_fn(kb, LW_FN_MUL, k, lw__kb_const_i(kb, LW_DTYPE_I32, rn->plan->team), LW_NONE),
        rn->lane, LW_NONE);
  *out_pred = rn->row_ok;
  lw_kval end = lw__kb_const_i(kb, LW_DTYPE_I32, rn->plan->vectors);
  if (rn->piece != LW_NONE) {
    lw_kval length = lw__kb_const_i(kb, LW_DTYPE_I32, rn->plan->piece_vectors);
    lw_kval begin =
        lw__kb_fn(kb, LW_FN_MUL, lw__kb_cast(kb, rn->piece, LW_DTYPE_I32), length, LW_NONE);
    cv = lw__kb_fn(kb, LW_FN_ADD, cv, begin, LW_NONE);
    end = lw__kb_fn(kb, LW_FN_MIN, end, lw__kb_fn(kb, LW_FN_ADD, begin, length, LW_NONE), LW_NONE);
  }
  if (!rn->plan->exact_columns || rn->ragged)
    *out_pred = both(kb, rn->row_ok, lw__kb_fn(kb, LW_FN_LT, cv, end, LW_NONE));
  LW_TRY(lw__nest_bind(&rn->nest, rn->cv, cv));
  return lw__nest_bind(&rn->nest, rn->j, lw__kb_const_i(kb, LW_DTYPE_I32, 0));
}

static lw_status roots_of_pass(const lw_region *region, uint32_t pass, lw_vec_elem *out) {
  for (uint32_t i = 0; i < region->reductions.count; i++)
    if (region->reductions.data[i].stage == pass)
      LW_TRY(lw_vec_push(out, region->reductions.data[i].term));
  for (uint32_t i = 0; pass == region->stage_count && i < region->outputs.count; i++)
    if (region->outputs.data[i].kind == LW_PLACE_FULL)
      LW_TRY(lw_vec_push(out, region->outputs.data[i].elem));
  return LW_OK;
}

/* Vector loads that this pass needs and no earlier pass left behind. */
static lw_status vector_loads(rows_nest *rn, uint32_t pass, lw_vec_elem *out) {
  lw_region *region = rn->nest.region;
  lw_vec_elem roots = {0}, loads = {0};
  uint8_t *seen;
  LW_TRY(lw__arena_alloc(&region->pool.arena, region->pool.nodes.count + 1u, 1, &seen));
  for (uint32_t i = 0; i < rn->nest.kept.count; i++)
    seen[rn->nest.kept.data[i].elem] = 1; /* below a kept element nothing is read */
  lw_status status = roots_of_pass(region, pass, &roots);
  for (uint32_t i = 0; i < roots.count && status == LW_OK; i++)
    status = lw__nest_loads(&region->pool, roots.data[i], seen, &loads);
  for (uint32_t i = 0; i < loads.count && status == LW_OK; i++)
    if (lw__nest_is_vector(&region->pool, loads.data[i], rn->j, rn->plan->lanes))
      status = lw_vec_push(out, loads.data[i]);
  lw_vec_free(&roots);
  lw_vec_free(&loads);
  return status;
}

/* All vectors of the row are asked for before the first is used. */
static lw_status load_row(rows_nest *rn, const lw_vec_elem *loads) {
  lw_kbuilder *kb = &rn->nest.kb;
  if (!loads->count) return LW_OK;
  uint32_t first = rn->nest.kept.count;
  for (uint32_t i = 0; i < loads->count; i++) {
    lw_dtype dtype = lw__elem_node(rn->nest.pool, loads->data[i])->dtype;
    uint32_t local = lw__kb_local(kb, dtype, (uint32_t)(rn->plan->chunks * rn->plan->lanes));
    LW_TRY(lw__nest_keep(&rn->nest, loads->data[i], local, LW_HOME_WHOLE));
  }
  lw_kval k = lw__kb_for_n(kb, rn->plan->chunks, LW_KLOOP_UNROLL), pred;
  LW_TRY(bind_chunk(rn, k, &pred));
  lw_kval at =
      lw__kb_fn(kb, LW_FN_MUL, k, lw__kb_const_i(kb, LW_DTYPE_I32, rn->plan->lanes), LW_NONE);
  for (uint32_t i = 0; i < loads->count; i++)
    lw__nest_loadv(&rn->nest, loads->data[i], rn->nest.kept.data[first + i].array, at, pred,
                   rn->plan->lanes);
  lw__kb_end(kb);
  lw__nest_forget(&rn->nest);
  return LW_OK;
}

static lw_status accumulate(rows_nest *rn, uint32_t pass, const uint32_t *acc) {
  lw_kbuilder *kb = &rn->nest.kb;
  const lw_region *region = rn->nest.region;
  for (uint32_t i = 0; i < region->reductions.count; i++) {
    const lw_region_reduction *red = &region->reductions.data[i];
    if (red->stage != pass) continue;
    lw_red fn = lw__node(region->ctx->graph, red->node)->attr.reduce.fn;
    lw_kval term = lw__nest_elem(&rn->nest, red->term);
    lw__kb_lset(
        kb, acc[i], LW_NONE,
        lw__kb_fn(kb, lw__red_info[fn].combine, lw__kb_lget(kb, acc[i], LW_NONE), term, LW_NONE));
  }
  return LW_OK;
}

/* Elements that a later pass reads again and this pass computes go into their arrays. */
static lw_status keep_computed(rows_nest *rn, uint32_t pass, const uint32_t *locals) {
  lw_kval
      *value; /* all before the first is stored: a cell may be taken over by what was made of it */
  LW_TRY(lw__arena_alloc(&rn->nest.region->pool.arena, rn->stages.kept.count + 1u, sizeof *value,
                         &value));
  for (uint32_t i = 0; i < rn->stages.kept.count; i++)
    if (rn->stages.first[rn->stages.kept.data[i]] == pass && locals[i] != LW_NONE)
      value[i] = lw__nest_elem(&rn->nest, rn->stages.kept.data[i]);
  for (uint32_t i = 0; i < rn->stages.kept.count; i++) {
    if (rn->stages.first[rn->stages.kept.data[i]] != pass || locals[i] == LW_NONE) continue;
    if (rn->plan->keep == KEEP_SHARED)
      lw__kb_sset(&rn->nest.kb, locals[i], rn->nest.shared_at, LW_NONE, value[i]);
    else
      lw__kb_lset(&rn->nest.kb, locals[i], rn->nest.whole_at, value[i]);
  }
  return LW_OK;
}

static lw_status store_lanes(rows_nest *rn, const uint32_t *vectors) {
  const lw_region *region = rn->nest.region;
  for (uint32_t i = 0; i < region->outputs.count; i++) {
    if (region->outputs.data[i].kind != LW_PLACE_FULL) continue;
    if (vectors[i] == LW_NONE)
      lw__nest_store(&rn->nest, &region->outputs.data[i], LW_NONE);
    else
      lw__kb_lset(&rn->nest.kb, vectors[i], rn->store_at,
                  lw__nest_elem(&rn->nest, region->outputs.data[i].elem));
  }
  return LW_OK;
}

static void store_vectors(rows_nest *rn, const uint32_t *vectors) {
  const lw_region *region = rn->nest.region;
  for (uint32_t i = 0; i < region->outputs.count; i++) {
    if (vectors[i] == LW_NONE) continue;
    const lw_region_output *out = &region->outputs.data[i];
    lw__kb_storev(&rn->nest.kb, lw__nest_buffer(&rn->nest, out->value, true), LW_NONE,
                  lw__nest_ix(&rn->nest, out->offset), LW_NONE, vectors[i], LW_NONE,
                  (uint32_t)rn->plan->lanes);
  }
}

/* What happens to the elements of one vector. |at|: where the vector begins in the lane arrays. */
static lw_status walk_vector(rows_nest *rn, uint32_t pass, lw_kval k, lw_kval at,
                             const uint32_t *acc, const uint32_t *kept, const uint32_t *vectors) {
  lw_kbuilder *kb = &rn->nest.kb;
  const rows_plan *plan = rn->plan;
  lw_kval lanes = lw__kb_const_i(kb, LW_DTYPE_I32, plan->lanes);
  lw_kval lane = lw__kb_for_n(kb, plan->lanes, LW_KLOOP_UNROLL);
  LW_TRY(lw__nest_bind(&rn->nest, rn->j, lane));
  rn->store_at = lane;
  rn->nest.lane_at = at == LW_NONE ? lane : lw__kb_fn(kb, LW_FN_ADD, at, lane, LW_NONE);
  rn->nest.whole_at =
      lw__kb_fn(kb, LW_FN_ADD, lw__kb_fn(kb, LW_FN_MUL, k, lanes, LW_NONE), lane, LW_NONE);
  if (plan->keep == KEEP_SHARED) /* a thread's own cells, neighbours in neighbouring banks */
    rn->nest.shared_at =
        lw__kb_fn(kb, LW_FN_ADD,
                  lw__kb_fn(kb, LW_FN_MUL, rn->nest.whole_at,
                            lw__kb_const_i(kb, LW_DTYPE_I32, plan->threads), LW_NONE),
                  lw__kb_thread(kb), LW_NONE);
  if (acc) LW_TRY(accumulate(rn, pass, acc));
  if (kept) LW_TRY(keep_computed(rn, pass, kept));
  if (vectors) LW_TRY(store_lanes(rn, vectors));
  lw__kb_end(kb);
  LW_TRY(lw__nest_bind(&rn->nest, rn->j, lw__kb_const_i(kb, LW_DTYPE_I32, 0)));
  if (vectors) store_vectors(rn, vectors);
  return LW_OK;
}

/* The row is in registers: every vector by itself. */
static lw_status walk_whole(rows_nest *rn, uint32_t pass, const uint32_t *acc, const uint32_t *kept,
                            const uint32_t *vectors) {
  lw_kbuilder *kb = &rn->nest.kb;
  lw_kval k = lw__kb_for_n(kb, rn->plan->chunks, LW_KLOOP_UNROLL), pred;
  LW_TRY(bind_chunk(rn, k, &pred));
  if (pred != LW_NONE) lw__kb_if(kb, pred);
  LW_TRY(walk_vector(rn, pass, k, LW_NONE, acc, kept, vectors));
  if (pred != LW_NONE) lw__kb_end(kb);
  lw__kb_end(kb);
  return LW_OK;
}

/* Vectors that are asked for before the first of them is used: as many as fit a few registers. */
static int64_t choose_batch(const rows_nest *rn, const lw_vec_elem *loads) {
  double words = 0;
  for (uint32_t i = 0; i < loads->count; i++)
    words += (double)rn->plan->lanes *
             (double)lw_dtype_size_bytes(lw__elem_node(rn->nest.pool, loads->data[i])->dtype) / 4;
  int64_t batch = words > 0 ? (int64_t)(batch_words / words) : most_batch;
  return lw__max_i64(1, lw__min_i64(lw__min_i64(batch, most_batch), rn->plan->chunks));
}

/* The row comes from memory in batches of vectors. */
static lw_status walk_batches(rows_nest *rn, uint32_t pass, const lw_vec_elem *loads,
                              const uint32_t *acc, const uint32_t *kept, const uint32_t *vectors) {
  lw_kbuilder *kb = &rn->nest.kb;
  const rows_plan *plan = rn->plan;
  int64_t batch = choose_batch(rn, loads);
  uint32_t *locals;
  LW_TRY(lw__arena_alloc(&rn->nest.region->pool.arena, loads->count + 1u, sizeof *locals, &locals));
  for (uint32_t i = 0; i < loads->count; i++) {
    lw_dtype dtype = lw__elem_node(rn->nest.pool, loads->data[i])->dtype;
    locals[i] = lw__kb_local(kb, dtype, (uint32_t)(plan->lanes * batch));
  }
  rn->ragged = plan->chunks % batch != 0;
  lw_kval lanes = lw__kb_const_i(kb, LW_DTYPE_I32, plan->lanes), pred;
  lw_kval outer = lw__kb_for_n(kb, lw__ceil_div(plan->chunks, batch), LW_KLOOP_SERIAL);
  lw_kval first = lw__kb_fn(kb, LW_FN_MUL, outer, lw__kb_const_i(kb, LW_DTYPE_I32, batch), LW_NONE);
  if (loads->count) {
    lw_kval u = lw__kb_for_n(kb, batch, LW_KLOOP_UNROLL);
    LW_TRY(bind_chunk(rn, lw__kb_fn(kb, LW_FN_ADD, first, u, LW_NONE), &pred));
    for (uint32_t i = 0; i < loads->count; i++)
      lw__nest_loadv(&rn->nest, loads->data[i], locals[i],
                     lw__kb_fn(kb, LW_FN_MUL, u, lanes, LW_NONE), pred, plan->lanes);
    lw__kb_end(kb);
  }
  for (uint32_t i = 0; i < loads->count; i++)
    LW_TRY(lw__nest_keep(&rn->nest, loads->data[i], locals[i], LW_HOME_LANE));
  lw_kval u = lw__kb_for_n(kb, batch, LW_KLOOP_UNROLL),
          k = lw__kb_fn(kb, LW_FN_ADD, first, u, LW_NONE);
  LW_TRY(bind_chunk(rn, k, &pred));
  if (pred != LW_NONE) lw__kb_if(kb, pred);
  LW_TRY(walk_vector(rn, pass, k, lw__kb_fn(kb, LW_FN_MUL, u, lanes, LW_NONE), acc, kept, vectors));
  if (pred != LW_NONE) lw__kb_end(kb);
  lw__kb_end(kb);
  lw__kb_end(kb);
  rn->ragged = false;
  return LW_OK;
}

/* One pass: this thread's vectors of the row, and what happens to each element. */
static lw_status walk_row(rows_nest *rn, uint32_t pass, const uint32_t *acc, const uint32_t *kept,
                          const uint32_t *vectors) {
  if (rn->plan->chunks == 0) return LW_OK; /* a load would be moved out of a loop that never runs */
  lw_vec_elem loads = {0};
  uint32_t mark = rn->nest.kept.count;
  lw_status status = vector_loads(rn, pass, &loads);
  if (rn->plan->keep == KEEP_REGISTERS) {
    if (status == LW_OK) status = load_row(rn, &loads);
    if (status == LW_OK) status = walk_whole(rn, pass, acc, kept, vectors);
  } else {
    if (status == LW_OK) status = walk_batches(rn, pass, &loads, acc, kept, vectors);
    rn->nest.kept.count = mark;
  }
  lw__nest_forget(&rn->nest);
  lw_vec_free(&loads);
  return status;
}

/* ---- the kernel -------------------------------------------------------------------------------*/

static const lw_node *reduce_node(const rows_nest *rn, uint32_t i) {
  return lw__node(rn->nest.region->ctx->graph, rn->nest.region->reductions.data[i].node);
}

static uint32_t make_accumulator(rows_nest *rn, const lw_node *node) {
  lw_dtype carry = lw__carry_type(lw__value(rn->nest.pool->graph, node->result)->dtype);
  uint32_t acc = lw__kb_local(&rn->nest.kb, carry, 1);
  lw__kb_lset(&rn->nest.kb, acc, LW_NONE,
              lw__nest_identity(&rn->nest, node->attr.reduce.fn, carry));
  return acc;
}

/* Column layout: the team's members stand |rows_per_block| threads apart and meet in shared memory,
 * always in the same order. */
static lw_kval strided_total(rows_nest *rn, const lw_node *node, uint32_t acc) {
  lw_kbuilder *kb = &rn->nest.kb;
  lw_kval thread = lw__kb_thread(kb),
          rows = lw__kb_const_i(kb, LW_DTYPE_I32, rn->plan->rows_per_block);
  lw_kval mine = lw__kb_lget(kb, acc, LW_NONE);
  uint32_t shared = lw__kb_shared(kb, lw__kb_type(kb, mine), rn->plan->threads);
  uint32_t total = make_accumulator(rn, node);
  lw__kb_sset(kb, shared, thread, LW_NONE, mine);
  lw__kb_barrier(kb);
  lw_kval y = lw__kb_for_n(kb, rn->plan->team, LW_KLOOP_SERIAL);
  lw_kval at = lw__kb_fn(kb, LW_FN_ADD, lw__kb_fn(kb, LW_FN_MUL, y, rows, LW_NONE),
                         lw__kb_fn(kb, LW_FN_REM, thread, rows, LW_NONE), LW_NONE);
  lw__kb_lset(kb, total, LW_NONE,
              lw__kb_fn(kb, lw__red_info[node->attr.reduce.fn].combine,
                        lw__kb_lget(kb, total, LW_NONE), lw__kb_sget(kb, shared, at), LW_NONE));
  lw__kb_end(kb);
  return lw__kb_lget(kb, total, LW_NONE);
}

/* The team's total of what every thread has accumulated. */
static lw_kval team_total(rows_nest *rn, const lw_node *node, uint32_t acc) {
  lw_kbuilder *kb = &rn->nest.kb;
  lw_kval total = lw__kb_lget(kb, acc, LW_NONE);
  if (rn->plan->team == 1) return total;
  if (rn->plan->across) return strided_total(rn, node, acc);
  uint32_t scratch = LW_NONE;
  if (rn->plan->team > 32)
    scratch = lw__kb_shared(kb, lw__kb_type(kb, total), rn->plan->threads / 32);
  return lw__kb_reduce(kb, node->attr.reduce.fn, total, rn->plan->team, scratch);
}

/* Every reduction of a stage over this thread's part of the row; results in |out_total| per
 * reduction. */
static lw_status accumulate_stage(rows_nest *rn, uint32_t pass, const uint32_t *kept,
                                  lw_kval *out_total) {
  const lw_region *region = rn->nest.region;
  uint32_t *acc;
  LW_TRY(
      lw__arena_alloc(&rn->nest.region->pool.arena, region->reductions.count, sizeof *acc, &acc));
  for (uint32_t i = 0; i < region->reductions.count; i++)
    if (region->reductions.data[i].stage == pass) acc[i] = make_accumulator(rn, reduce_node(rn, i));
  LW_TRY(walk_row(rn, pass, acc, kept, NULL));
  for (uint32_t i = 0; i < region->reductions.count; i++)
    if (region->reductions.data[i].stage == pass)
      out_total[i] = team_total(rn, reduce_node(rn, i), acc[i]);
  return LW_OK;
}

static lw_status reduce_pass(rows_nest *rn, uint32_t pass, const uint32_t *kept) {
  const lw_region *region = rn->nest.region;
  lw_kval *total;
  LW_TRY(lw__arena_alloc(&rn->nest.region->pool.arena, region->reductions.count, sizeof *total,
                         &total));
  LW_TRY(accumulate_stage(rn, pass, kept, total));
  for (uint32_t i = 0; i < region->reductions.count; i++)
    if (region->reductions.data[i].stage == pass)
      LW_TRY(lw__nest_leaf(&rn->nest, reduce_node(rn, i)->result, total[i], LW_NONE));
  return LW_OK;
}

/* Arrays for elements that are computed (not loaded as vectors) and needed again. */
static lw_status make_kept(rows_nest *rn, uint32_t **out) {
  lw_region *region = rn->nest.region;
  uint32_t each = (uint32_t)(rn->plan->chunks * rn->plan->lanes), *shared;
  LW_TRY(lw__arena_alloc(&region->pool.arena, rn->stages.kept.count + 1u, sizeof **out, out));
  LW_TRY(lw__arena_alloc(&region->pool.arena, rn->stages.slot_count + 1u, sizeof *shared, &shared));
  for (uint32_t s = 0; s < rn->stages.slot_count && rn->plan->keep == KEEP_SHARED; s++)
    shared[s] =
        lw__kb_shared(&rn->nest.kb, slot_type(region, &rn->stages, s), each * rn->plan->threads);
  for (uint32_t i = 0; i < rn->stages.kept.count; i++) {
    lw_elem e = rn->stages.kept.data[i];
    bool vector = lw__nest_is_vector(rn->nest.pool, e, rn->j, rn->plan->lanes);
    if (rn->plan->keep == KEEP_SHARED)
      (*out)[i] = shared[rn->stages.slot[i]];
    else
      (*out)[i] =
          vector ? LW_NONE : lw__kb_local(&rn->nest.kb, lw__stages_kept_type(region, e), each);
  }
  return LW_OK;
}

/* What this pass has made is there for the later ones; what it took the place of is gone. */
static lw_status publish_kept(rows_nest *rn, uint32_t pass, const uint32_t *kept) {
  for (uint32_t i = 0; i < rn->stages.kept.count; i++) {
    if (rn->stages.first[rn->stages.kept.data[i]] != pass || kept[i] == LW_NONE) continue;
    bool shared = rn->plan->keep == KEEP_SHARED;
    for (uint32_t k = 0; k < rn->nest.kept.count && shared; k++)
      if (rn->nest.kept.data[k].home == LW_HOME_SHARED && rn->nest.kept.data[k].array == kept[i])
        rn->nest.kept.data[k--] = rn->nest.kept.data[--rn->nest.kept.count];
    LW_TRY(lw__nest_keep(&rn->nest, rn->stages.kept.data[i], kept[i],
                         shared ? LW_HOME_SHARED : LW_HOME_WHOLE));
  }
  lw__nest_forget(&rn->nest);
  return LW_OK;
}

static lw_status store_rows(rows_nest *rn) {
  lw_kbuilder *kb = &rn->nest.kb;
  const lw_region *region = rn->nest.region;
  bool any = false;
  for (uint32_t i = 0; i < region->outputs.count; i++)
    any |= region->outputs.data[i].kind == LW_PLACE_ROW;
  if (!any) return LW_OK;
  lw_kval first = rn->plan->team == 1 ? LW_NONE
                                      : lw__kb_fn(kb, LW_FN_EQ, rn->lane,
                                                  lw__kb_const_i(kb, LW_DTYPE_I32, 0), LW_NONE);
  lw_kval pred = both(kb, first, rn->row_ok);
  if (rn->piece != LW_NONE)
    pred = both(kb, pred,
                lw__kb_fn(kb, LW_FN_EQ, rn->piece, lw__kb_const_i(kb, LW_DTYPE_I64, 0), LW_NONE));
  if (pred != LW_NONE) lw__kb_if(kb, pred);
  for (uint32_t i = 0; i < region->outputs.count; i++)
    if (region->outputs.data[i].kind == LW_PLACE_ROW)
      lw__nest_store(&rn->nest, &region->outputs.data[i], LW_NONE);
  if (pred != LW_NONE) lw__kb_end(kb);
  lw__nest_forget(&rn->nest);
  return LW_OK;
}

static lw_status store_full(rows_nest *rn) {
  const lw_region *region = rn->nest.region;
  uint32_t *vectors;
  bool any = false;
  LW_TRY(lw__arena_alloc(&rn->nest.region->pool.arena, region->outputs.count + 1u, sizeof *vectors,
                         &vectors));
  for (uint32_t i = 0; i < region->outputs.count; i++) {
    const lw_region_output *out = &region->outputs.data[i];
    vectors[i] = LW_NONE;
    if (out->kind != LW_PLACE_FULL) continue;
    any = true;
    if (lw__nest_is_contiguous(&rn->nest.pool->ix, out->offset, rn->j, rn->plan->lanes))
      vectors[i] = lw__kb_local(&rn->nest.kb, lw__value(region->ctx->graph, out->value)->dtype,
                                (uint32_t)rn->plan->lanes);
  }
  return any ? walk_row(rn, region->stage_count, NULL, NULL, vectors) : LW_OK;
}

/* Row, piece and lane of this thread. What rows past the end do hangs on a predicate that is false.
 */
static lw_status open_rows(rows_nest *rn, lw_ix r) {
  lw_kbuilder *kb = &rn->nest.kb;
  const rows_plan *plan = rn->plan;
  lw_kval thread = lw__kb_thread(kb), team = lw__kb_const_i(kb, LW_DTYPE_I32, plan->team);
  lw_kval limit = lw__kb_scalar(kb, lw__kb_scalar_arg(kb));
  lw_kval row = lw__kb_block(kb);
  rn->piece = LW_NONE;
  if (plan->pieces > 1) {
    lw_kval pieces = lw__kb_const_i(kb, LW_DTYPE_I64, plan->pieces);
    rn->piece = lw__kb_fn(kb, LW_FN_REM, row, pieces, LW_NONE);
    row = lw__kb_fn(kb, LW_FN_DIV, row, pieces, LW_NONE);
  }
  lw_kval rows = lw__kb_const_i(kb, LW_DTYPE_I32, plan->rows_per_block), in_block = LW_NONE;
  rn->lane = thread;
  rn->row_ok = LW_NONE;
  if (plan->across) {
    rn->lane = lw__kb_fn(kb, LW_FN_DIV, thread, rows, LW_NONE);
    in_block = lw__kb_fn(kb, LW_FN_REM, thread, rows, LW_NONE);
  } else if (plan->rows_per_block > 1) {
    rn->lane = lw__kb_fn(kb, LW_FN_REM, thread, team, LW_NONE);
    in_block = lw__kb_fn(kb, LW_FN_DIV, thread, team, LW_NONE);
  }
  if (plan->rows_per_block > 1) {
    row = lw__kb_fn(kb, LW_FN_MUL, row, lw__kb_const_i(kb, LW_DTYPE_I64, plan->rows_per_block),
                    LW_NONE);
    row = lw__kb_fn(kb, LW_FN_ADD, row, lw__kb_cast(kb, in_block, LW_DTYPE_I64), LW_NONE);
  }
  if (!plan->exact_rows) rn->row_ok = lw__kb_fn(kb, LW_FN_LT, row, limit, LW_NONE);
  rn->row = row;
  return lw__nest_bind(&rn->nest, r, row);
}

static lw_status rows_kernel(lw_region *region, lw_ix r, lw_ix cv, lw_ix j, rows_plan *plan,
                             const lw_lower_options *options, lw_diag *diag, lw_lowered *out) {
  rows_nest rn = {.plan = plan, .cv = cv, .j = j};
  uint32_t *kept = NULL;
  lw_status status = lw__stages_init(&rn.stages, region, cv, j);
  if (status == LW_OK) plan->keep = choose_home(plan, region, &rn.stages, options);
  if (plan->keep == KEEP_SHARED) make_room_for_two(plan, region, &rn.stages, options);
  if (status == LW_OK)
    status = lw__nest_init(&rn.nest, region, options, out, LW_KCLASS_REDUCE, plan->threads);
  if (status == LW_OK) status = open_rows(&rn, r);
  if (status == LW_OK && plan->keep != KEEP_NOTHING) status = make_kept(&rn, &kept);
  for (uint32_t s = 0; s < region->stage_count && status == LW_OK; s++) {
    status = reduce_pass(&rn, s, kept);
    if (status == LW_OK && kept) status = publish_kept(&rn, s, kept);
  }
  if (status == LW_OK) status = store_full(&rn);
  if (status == LW_OK) status = store_rows(&rn);
  if (status == LW_OK)
    status = lw__nest_finish(&rn.nest, lw__ceil_div(region->rows, plan->rows_per_block),
                             &region->rows, 1, diag);
  lw__nest_deinit(&rn.nest);
  lw__stages_deinit(&rn.stages);
  return status;
}

/* ---- split ------------------------------------------------------------------------------------*/

/* Partial result of reduction |i| of this row's piece |piece|: column layout keeps neighbouring
 * rows together. */
static lw_kval partial_at(rows_nest *rn, lw_kval piece) {
  lw_kbuilder *kb = &rn->nest.kb;
  lw_kval stride = rn->plan->across ? lw__kb_const_i(kb, LW_DTYPE_I64, rn->nest.region->rows)
                                    : lw__kb_const_i(kb, LW_DTYPE_I64, rn->plan->pieces);
  lw_kval major = rn->plan->across ? piece : rn->row, minor = rn->plan->across ? rn->row : piece;
  return lw__kb_fn(kb, LW_FN_ADD, lw__kb_fn(kb, LW_FN_MUL, major, stride, LW_NONE), minor, LW_NONE);
}

/* The whole row's value of an earlier stage's reduction, from the pieces' partial results: always
 * in the same order. */
static lw_status combine_partials(rows_nest *rn, uint32_t i, uint32_t buffer) {
  lw_kbuilder *kb = &rn->nest.kb;
  const lw_node *node = reduce_node(rn, i);
  uint32_t acc = make_accumulator(rn, node);
  if (rn->row_ok != LW_NONE) lw__kb_if(kb, rn->row_ok);
  lw_kval p = lw__kb_for(kb, LW_DTYPE_I64, lw__kb_cast(kb, rn->lane, LW_DTYPE_I64),
                         lw__kb_const_i(kb, LW_DTYPE_I64, rn->plan->pieces),
                         lw__kb_const_i(kb, LW_DTYPE_I64, rn->plan->team), LW_KLOOP_SERIAL);
  lw_kval partial = lw__kb_load(kb, buffer, LW_NONE, partial_at(rn, p), LW_NONE);
  lw__kb_lset(kb, acc, LW_NONE,
              lw__kb_fn(kb, lw__red_info[node->attr.reduce.fn].combine,
                        lw__kb_lget(kb, acc, LW_NONE), partial, LW_NONE));
  lw__kb_end(kb);
  if (rn->row_ok != LW_NONE) lw__kb_end(kb);
  return lw__nest_leaf(&rn->nest, node->result, team_total(rn, node, acc), LW_NONE);
}

static lw_status store_partials(rows_nest *rn, uint32_t stage, lw_lowered *out) {
  lw_kbuilder *kb = &rn->nest.kb;
  const lw_region *region = rn->nest.region;
  lw_kval *total;
  LW_TRY(lw__arena_alloc(&rn->nest.region->pool.arena, region->reductions.count, sizeof *total,
                         &total));
  LW_TRY(accumulate_stage(rn, stage, NULL, total));
  lw_kval first = rn->plan->team == 1 ? LW_NONE
                                      : lw__kb_fn(kb, LW_FN_EQ, rn->lane,
                                                  lw__kb_const_i(kb, LW_DTYPE_I32, 0), LW_NONE);
  lw_kval pred = both(kb, first, rn->row_ok);
  for (uint32_t i = 0; i < region->reductions.count; i++) {
    if (region->reductions.data[i].stage != stage) continue;
    uint32_t buffer = lw__nest_scratch(&rn->nest, out, i, lw__kb_type(kb, total[i]), true);
    lw__kb_store(kb, buffer, LW_NONE, partial_at(rn, rn->piece), pred, total[i]);
  }
  return LW_OK;
}

/* Launch |stage|: finish the earlier stages' reductions, then reduce this stage's, or (the last
 * launch) store the outputs. */
static lw_status split_launch(lw_region *region, const lw_ix *vars, const rows_plan *plan,
                              uint32_t stage, const lw_lower_options *options, lw_diag *diag,
                              lw_lowered *out) {
  rows_nest rn = {.plan = plan, .cv = vars[1], .j = vars[2]};
  lw_status status = lw__nest_init(&rn.nest, region, options, out, LW_KCLASS_SPLIT, plan->threads);
  if (status == LW_OK) status = open_rows(&rn, vars[0]);
  for (uint32_t i = 0; i < region->reductions.count && status == LW_OK; i++) {
    if (region->reductions.data[i].stage >= stage) continue;
    lw_dtype carry =
        lw__carry_type(lw__value(region->ctx->graph, reduce_node(&rn, i)->result)->dtype);
    status = combine_partials(&rn, i, lw__nest_scratch(&rn.nest, out, i, carry, false));
  }
  if (status == LW_OK && stage < region->stage_count) status = store_partials(&rn, stage, out);
  if (status == LW_OK && stage == region->stage_count) status = store_full(&rn);
  if (status == LW_OK && stage == region->stage_count) status = store_rows(&rn);
  if (status == LW_OK)
    status =
        lw__nest_finish(&rn.nest, lw__ceil_div(region->rows, plan->rows_per_block) * plan->pieces,
                        &region->rows, 1, diag);
  lw__nest_deinit(&rn.nest);
  return status;
}

static lw_status split_kernels(lw_region *region, const lw_ix *vars, const rows_plan *plan,
                               const lw_lower_options *options, lw_diag *diag, lw_lowered *out) {
  for (uint32_t i = 0; i < region->reductions.count; i++) {
    const lw_node *node = lw__node(region->ctx->graph, region->reductions.data[i].node);
    size_t size =
        lw_dtype_size_bytes(lw__carry_type(lw__value(region->ctx->graph, node->result)->dtype));
    LW_TRY(lw_vec_push(&out->scratch_bytes, (uint64_t)(region->rows * plan->pieces) * size));
  }
  for (uint32_t stage = 0; stage <= region->stage_count; stage++)
    LW_TRY(split_launch(region, vars, plan, stage, options, diag, out));
  return LW_OK;
}

/* ---- entry ------------------------------------------------------------------------------------*/

/* Too few blocks for the device, and rows long enough to be worth cutting. */
static void choose_pieces(rows_plan *plan, const lw_reduce_shape *shape,
                          const lw_lower_options *options) {
  int64_t blocks = lw__ceil_div(shape->rows, plan->rows_per_block),
          wanted = 2 * (int64_t)options->profile->sm_count;
  int64_t most =
      plan->vectors / (plan->across ? least_serial * (int64_t)plan->team : (int64_t)plan->team);
  plan->pieces = 1;
  if (shape->cols < least_split || blocks * 2 > options->profile->sm_count || most < 2) return;
  plan->pieces = lw__min_i64(lw__min_i64(lw__ceil_div(wanted, blocks), most), most_pieces);
  plan->piece_vectors = lw__ceil_div(plan->vectors, plan->pieces);
  plan->pieces = lw__ceil_div(plan->vectors, plan->piece_vectors);
  plan->chunks = lw__ceil_div(plan->piece_vectors, plan->team);
  plan->exact_columns = false;
}

static const char *const home_words[] = {[KEEP_NOTHING] = "read again by every pass",
                                         [KEEP_REGISTERS] = "kept in registers",
                                         [KEEP_SHARED] = "kept in shared memory"};

static lw_status lower_rows(lw_region_context *ctx, const lw_node_id *nodes, uint32_t count,
                            rows_plan *plan, const lw_lower_options *options, lw_diag *diag,
                            lw_lowered *out) {
  lw_region region;
  lw_status status = lw__region_init(&region, ctx, nodes, count);
  if (status == LW_OK) {
    lw_ix_pool *ix = &region.pool.ix;
    lw_ix r = lw__region_var(&region, region.rows), cv = lw__region_var(&region, plan->vectors);
    lw_ix j = lw__region_var(&region, plan->lanes), vars[3] = {r, cv, j};
    lw_ix space[2] = {r, lw__ix_add(ix, lw__ix_affine(ix, cv, plan->lanes, 0), j)};
    status = lw__region_place(&region, space);
    if (status == LW_OK && plan->pieces > 1)
      status = split_kernels(&region, vars, plan, options, diag, out);
    else if (status == LW_OK)
      status = rows_kernel(&region, r, cv, j, plan, options, diag, out);
  }
  lw__region_deinit(&region);
  if (status != LW_OK) return status;
  if (plan->pieces > 1)
    return lw__arena_printf(&out->arena, &out->schedule,
                            "rows cut into %lld pieces, one launch per dependent reduction",
                            (long long)plan->pieces);
  return lw__arena_printf(&out->arena, &out->schedule, "rows of %u threads, %lld wide, %s",
                          plan->team, (long long)plan->lanes, home_words[plan->keep]);
}

/* Column layout: one thread a row while that fills the device, else a team of threads walks the
 * columns in turn. */
static void choose_columns(rows_plan *plan, const lw_reduce_shape *shape,
                           const lw_lower_options *options) {
  int64_t wanted = (int64_t)options->profile->sm_count * options->profile->max_threads_per_sm;
  plan->across = true;
  plan->team = 1;
  plan->rows_per_block =
      shape->rows < column_threads ? (uint32_t)lw__round_up(shape->rows, 32) : column_threads;
  while (plan->team < most_strided && shape->rows * plan->team < wanted &&
         plan->vectors / (plan->team * 2) >= 8) {
    plan->team *= 2;
    plan->rows_per_block = 32;
  }
  plan->threads = plan->team * plan->rows_per_block;
  plan->chunks = lw__ceil_div(plan->vectors, plan->team);
  plan->exact_columns = plan->vectors % plan->team == 0;
  plan->exact_rows = shape->rows % plan->rows_per_block == 0;
}

static lw_status lower_lanes(lw_region_context *ctx, const lw_node_id *nodes, uint32_t count,
                             const lw_reduce_shape *shape, int64_t lanes,
                             const lw_lower_options *options, lw_diag *diag, lw_lowered *out) {
  rows_plan plan = {.lanes = lanes, .vectors = shape->cols / lanes};
  lw_region sizes = {.rows = shape->rows, .cols = shape->cols};
  if (!shape->columns_strided) {
    choose_team(&plan, &sizes);
  } else {
    choose_columns(&plan, shape, options);
  }
  choose_pieces(&plan, shape, options);
  return lower_rows(ctx, nodes, count, &plan, options, diag, out);
}

lw_status lw__lower_reduce_gpu(lw_region_context *ctx, const lw_node_id *nodes, uint32_t count,
                               const lw_reduce_shape *shape, const lw_lower_options *options,
                               lw_diag *diag, lw_lowered *out) {
  if (!shape->columns_strided && shape->lanes > 1) {
    /* Columns cut into lanes can make index arithmetic that no longer shows that rows are rows. */
    lw_status status = lower_lanes(ctx, nodes, count, shape, shape->lanes, options, diag, out);
    if (status != LW_STATUS_UNSUPPORTED) return status;
  }
  return lower_lanes(ctx, nodes, count, shape, 1, options, diag, out);
}

/* cost.c: counts bytes and instruction slots of a region. */
#include "compiler/fuse/cost.h"

#include <math.h>
#include <string.h>

#include "compiler/fuse/matrix.h"

enum {
  product_tile = 64,
}; /* a factor computed on the fly is computed once per tile of the other side */

/* Of the threads that a multiprocessor holds, what a tile on matrix units is worth. */
static const double tile_fill = 0.25;

/* What mma.sync reaches of the rate of the matrix units, and what an element costs that is computed
 * on its way to them (four times its instructions: nothing overlaps) or copied (eight at once).
 * Seen in BERT's products of probabilities: 86 us with exponentials in the factor, 17 us without,
 * on an H200. */
static const double mma_share = 0.45, computed_factor = 4, copied_factor = 0.125;

typedef struct slot_count {
  double slots, special;
} slot_count;

/* Slots of all distinct elements below |e| that |seen| does not know yet. */
static slot_count count_slots(const lw_elem_pool *pool, lw_elem e, uint8_t *seen) {
  slot_count sum = {0, 0};
  if (e == LW_NONE || seen[e]) return sum;
  seen[e] = 1;
  const lw_elem_node *n = lw__elem_node(pool, e);
  if (n->kind == LW_ELEM_MAP) {
    sum.slots = lw__fn_info[n->fn].issue_slots;
    sum.special = lw__fn_info[n->fn].special;
  } else if (n->kind == LW_ELEM_LOAD || n->kind == LW_ELEM_GATHER || n->kind == LW_ELEM_GUARD) {
    sum.slots = 2;
  }
  for (int i = 0; i < 3; i++) {
    slot_count below = count_slots(pool, n->arg[i], seen);
    sum.slots += below.slots;
    sum.special += below.special;
  }
  for (uint32_t i = 0; i < n->coord_count; i++) {
    slot_count below = count_slots(pool, pool->coords.data[n->coord_begin + i].elem, seen);
    sum.slots += below.slots;
    sum.special += below.special;
  }
  return sum;
}

static void add_slots(lw_work *work, slot_count per_element, double elements) {
  work->issue_slots += per_element.slots * elements;
  work->special_slots += per_element.special * elements;
}

/* Bytes of each value that is loaded, once; gathered values by the elements touched. */
static lw_status count_loads(const lw_region *region, lw_work *work) {
  const lw_elem_pool *pool = &region->pool;
  const lw_graph *g = pool->graph;
  LW_VEC(lw_value_id) seen = {0};
  lw_status status = LW_OK;
  for (uint32_t i = 0; i < pool->nodes.count && status == LW_OK; i++) {
    const lw_elem_node *n = &pool->nodes.data[i];
    if (n->kind != LW_ELEM_LOAD && n->kind != LW_ELEM_GATHER) continue;
    const lw_value *v = lw__value(g, n->value);
    double size = (double)lw_dtype_size_bytes(v->dtype);
    double whole = size * (double)lw__shape_numel(&v->shape);
    if (n->kind == LW_ELEM_GATHER) {
      double touched = size * (double)region->elements;
      work->dram_bytes += touched < whole ? touched : whole;
      continue;
    }
    bool known = false;
    for (uint32_t s = 0; s < seen.count && !known; s++) known = seen.data[s] == n->value;
    if (known) continue;
    /* A slice reads less than the whole: no more elements than the space has, times the reuse along
     * k. */
    double reach = size * (double)region->elements * (region->k > 0 ? (double)region->k : 1);
    work->dram_bytes += reach < whole ? reach : whole;
    status = lw_vec_push(&seen, n->value);
  }
  lw_vec_free(&seen);
  return status;
}

/* How often a factor that is computed on the fly is computed: once per |rows| results of the other
 * side; on the CPU the left one by itself, the right one in vector lanes (lower/contraction_*.c).
 */
typedef struct factor_reuse {
  double lhs, rhs, lhs_lanes;
} factor_reuse;

static factor_reuse reuse_of(const lw_device_profile *profile) {
  return profile->kind == LW_DEVICE_CPU ? (factor_reuse){32, 4, 16}
                                        : (factor_reuse){product_tile, product_tile, 1};
}

/* Copied from memory piece by piece: loads, and choices between them by where they are. */
static bool is_as_stored(const lw_elem_pool *pool, lw_elem e) {
  const lw_elem_node *n = lw__elem_node(pool, lw__elem_unwidened(pool, e));
  if (n->kind == LW_ELEM_MAP && n->fn == LW_FN_SELECT)
    return is_as_stored(pool, n->arg[1]) && is_as_stored(pool, n->arg[2]);
  return n->kind == LW_ELEM_LOAD || n->kind == LW_ELEM_CONST;
}

static double factor_cost(const lw_elem_pool *pool, lw_elem factor) {
  return is_as_stored(pool, factor) ? copied_factor : computed_factor;
}

static void count_contraction(const lw_region *region, const lw_device_profile *profile,
                              uint8_t *seen, lw_work *work) {
  factor_reuse reuse = reuse_of(profile);
  double b = (double)region->b, m = (double)region->m, n = (double)region->n, k = (double)region->k;
  double lhs_cost = 1, rhs_cost = 1;
  lw_matrix lhs, rhs;
  if (lw__region_suits_sm90(region, profile, &lhs, &rhs)) {
    /* A tile keeps a multiprocessor as busy as the threads that fill it. */
    double tiles = ceil(m / product_tile) * ceil(n / product_tile);
    lhs_cost = rhs_cost = copied_factor;
    work->matrix_flops = 2 * b * m * n * k;
    work->parallel_threads = tiles * profile->max_threads_per_sm * tile_fill;
  } else if (lw__region_suits_mma(region, profile) != LW_DTYPE_NONE) {
    double tiles = b * ceil(m / product_tile) * ceil(n / product_tile);
    work->matrix_flops = 2 * b * m * n * k / mma_share;
    work->parallel_threads = tiles * profile->max_threads_per_sm * tile_fill;
    lhs_cost = factor_cost(&region->pool, region->lhs);
    rhs_cost = factor_cost(&region->pool, region->rhs);
  } else {
    work->f32_flops = 2 * b * m * n * k;
  }
  double lhs_times = b * m * k * ceil(n / reuse.lhs) * reuse.lhs_lanes * lhs_cost;
  double rhs_times = b * n * k * ceil(m / reuse.rhs) * rhs_cost;
  add_slots(work, count_slots(&region->pool, region->lhs, seen), lhs_times);
  add_slots(work, count_slots(&region->pool, region->rhs, seen), rhs_times);
}

lw_status lw__cost_region(const lw_region *region, const lw_device_profile *profile, lw_work *out) {
  const lw_graph *g = region->pool.graph;
  void *seen = NULL;
  memset(out, 0, sizeof *out);
  LW_TRY(lw__mem_resize(&seen, region->pool.nodes.count + 1u));
  memset(seen, 0, region->pool.nodes.count + 1u);
  if (region->lhs != LW_NONE) count_contraction(region, profile, seen, out);
  for (uint32_t i = 0; i < region->reductions.count; i++) {
    slot_count c = count_slots(&region->pool, region->reductions.data[i].term, seen);
    c.slots += 1;
    add_slots(out, c, (double)region->elements);
  }
  for (uint32_t i = 0; i < region->outputs.count; i++) {
    const lw_region_output *o = &region->outputs.data[i];
    const lw_value *v = lw__value(g, o->value);
    double count = (double)lw__shape_numel(&v->shape);
    out->dram_bytes += count * (double)lw_dtype_size_bytes(v->dtype);
    slot_count c = count_slots(&region->pool, o->elem, seen);
    c.slots += 2;
    add_slots(out, c, count);
  }
  if (out->parallel_threads < (double)region->elements)
    out->parallel_threads = (double)region->elements;
  lw__mem_free(seen);
  return count_loads(region, out);
}

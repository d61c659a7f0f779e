/* stages.c: passes over a row and what survives between them. */
#include "compiler/lower/stages.h"

#include <string.h>

static bool uses_var(const lw_ix_pool *pool, lw_ix e, lw_ix var) {
  const lw_ix_node *v = lw__ix_node(pool, var);
  return e != LW_NONE && v->kind == LW_IX_VAR && lw__ix_depends(pool, e, v->var);
}

/* Arguments are interned before what uses them, so one pass in id order suffices. */
static void mark_columns(lw_stages *stages, const lw_elem_pool *pool, lw_ix v0, lw_ix v1) {
  for (uint32_t e = 0; e < pool->nodes.count; e++) {
    const lw_elem_node *n = &pool->nodes.data[e];
    bool column = uses_var(&pool->ix, n->ix, v0) || uses_var(&pool->ix, n->ix, v1);
    for (int i = 0; i < 3; i++) column |= n->arg[i] != LW_NONE && stages->column[n->arg[i]];
    for (uint32_t i = 0; i < n->coord_count; i++) {
      const lw_elem_coord *c = &pool->coords.data[n->coord_begin + i];
      column |= uses_var(&pool->ix, c->ix, v0) || uses_var(&pool->ix, c->ix, v1);
      column |= c->elem != LW_NONE && stages->column[c->elem];
    }
    stages->column[e] = column;
  }
}

static lw_status keep(lw_stages *stages, const lw_elem_pool *pool, lw_elem e, uint32_t pass) {
  const lw_elem_node *n = lw__elem_node(pool, e);
  if (n->kind == LW_ELEM_CONST || n->kind == LW_ELEM_INDEX || n->kind == LW_ELEM_GUARD)
    return LW_OK;
  /* A cast is free to repeat, and what it casts from is narrower as a rule. */
  if (n->kind == LW_ELEM_MAP && n->fn == LW_FN_CAST && stages->column[n->arg[0]])
    return keep(stages, pool, n->arg[0], pass);
  if (pass > stages->last[e]) stages->last[e] = (uint8_t)pass;
  if (stages->keep[e]) return LW_OK;
  stages->keep[e] = 1;
  return lw_vec_push(&stages->kept, e);
}

static lw_status visit(lw_stages *stages, const lw_elem_pool *pool, lw_elem e, uint32_t pass) {
  if (e == LW_NONE || !stages->column[e]) return LW_OK;
  if (stages->first[e] < pass) return keep(stages, pool, e, pass);
  if (stages->first[e] == pass) return LW_OK;
  stages->first[e] = (uint8_t)pass;
  const lw_elem_node *n = lw__elem_node(pool, e);
  for (int i = 0; i < 3; i++) LW_TRY(visit(stages, pool, n->arg[i], pass));
  for (uint32_t i = 0; i < n->coord_count; i++)
    LW_TRY(visit(stages, pool, pool->coords.data[n->coord_begin + i].elem, pass));
  return LW_OK;
}

/* An element may take the place of one that is read for the last time in the pass that makes it:
 * each cell is read before it is written. */
static lw_status share_slots(lw_stages *stages, lw_region *region) {
  uint32_t count = stages->kept.count;
  lw_elem *holder;
  LW_TRY(lw__arena_alloc(&region->pool.arena, count + 1u, sizeof *stages->slot, &stages->slot));
  LW_TRY(lw__arena_alloc(&region->pool.arena, count + 1u, sizeof *holder, &holder));
  for (uint32_t pass = 0; pass <= region->stage_count; pass++)
    for (uint32_t i = 0; i < count; i++) {
      lw_elem e = stages->kept.data[i];
      if (stages->first[e] != pass) continue;
      uint32_t s = 0;
      while (s < stages->slot_count &&
             (stages->last[holder[s]] > pass ||
              lw__stages_kept_type(region, holder[s]) != lw__stages_kept_type(region, e)))
        s++;
      if (s == stages->slot_count) stages->slot_count++;
      holder[s] = e;
      stages->slot[i] = s;
    }
  return LW_OK;
}

lw_status lw__stages_init(lw_stages *stages, lw_region *region, lw_ix v0, lw_ix v1) {
  const lw_elem_pool *pool = &region->pool;
  size_t count = pool->nodes.count + 1u;
  memset(stages, 0, sizeof *stages);
  if (region->stage_count > 250) return LW_STATUS_UNSUPPORTED;
  LW_TRY(lw__arena_alloc(&region->pool.arena, count, 1, &stages->column));
  LW_TRY(lw__arena_alloc(&region->pool.arena, count, 1, &stages->first));
  LW_TRY(lw__arena_alloc(&region->pool.arena, count, 1, &stages->keep));
  LW_TRY(lw__arena_alloc(&region->pool.arena, count, 1, &stages->last));
  memset(stages->first, 0xff, count);
  mark_columns(stages, pool, v0, v1);
  for (uint32_t s = 0; s < region->stage_count; s++)
    for (uint32_t i = 0; i < region->reductions.count; i++)
      if (region->reductions.data[i].stage == s)
        LW_TRY(visit(stages, pool, region->reductions.data[i].term, s));
  for (uint32_t i = 0; i < region->outputs.count; i++)
    LW_TRY(visit(stages, pool, region->outputs.data[i].elem, region->stage_count));
  return share_slots(stages, region);
}

void lw__stages_deinit(lw_stages *stages) { lw_vec_free(&stages->kept); }

lw_dtype lw__stages_kept_type(const lw_region *region, lw_elem e) {
  const lw_elem_node *n = lw__elem_node(&region->pool, e);
  return n->kind == LW_ELEM_LOAD || n->kind == LW_ELEM_GATHER ? n->dtype : lw__carry_type(n->dtype);
}

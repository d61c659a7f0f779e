/* side.c: which groups run side by side in one launch. */
#include "compiler/lower/side.h"

#include <string.h>

#include "compiler/kernel/join.h"

enum { most_parts = 16, most_instructions = 12000, most_buffers = 96 };

typedef struct side_group {
  uint32_t level;  /* 1 + the highest of those that it reads from */
  uint32_t bundle; /* number of its bundle, LW_NONE: alone */
  bool constant;   /* all that it reads comes from weights: it runs once */
} side_group;

typedef struct side_search {
  lw_region_context *ctx;
  const lw_lower_options *options;
  lw_fusion *fusion;
  lw_lowered *lowered;
  lw_diag *diag;
  lw_arena arena;
  side_group *groups;
  uint32_t *maker; /* per value: the group that stores it, LW_NONE */
  uint32_t bundles;
} side_search;

/* ---- levels -----------------------------------------------------------------------------------*/

static lw_status find_levels(side_search *s) {
  const lw_graph *g = s->ctx->graph;
  uint32_t count = s->fusion->groups.count;
  LW_TRY(lw__arena_alloc(&s->arena, count + 1u, sizeof *s->groups, &s->groups));
  LW_TRY(lw__arena_alloc(&s->arena, g->values.count + 1u, sizeof *s->maker, &s->maker));
  memset(s->maker, 0xff, (g->values.count + 1u) * sizeof *s->maker);
  for (uint32_t i = 0; i < count; i++) {
    const lw_group *group = &s->fusion->groups.data[i];
    side_group *side = &s->groups[i];
    *side = (side_group){.bundle = LW_NONE, .constant = true};
    for (uint32_t k = 0; k < group->inputs.count; k++) {
      lw_value_id v = group->inputs.data[k];
      if (s->maker[v] == LW_NONE) {
        if (lw__producer(g, v)->op != LW_OP_CONST) side->constant = false;
        continue;
      }
      const side_group *from = &s->groups[s->maker[v]];
      if (!from->constant) side->constant = false;
      if (from->level + 1 > side->level) side->level = from->level + 1;
    }
    for (uint32_t k = 0; k < group->outputs.count; k++) s->maker[group->outputs.data[k]] = i;
  }
  return LW_OK;
}

/* ---- bundles ----------------------------------------------------------------------------------*/

/* One launch that a device has room for beside others. */
static bool is_small(const side_search *s, uint32_t i) {
  const lw_lowered *l = &s->lowered[i];
  if (s->groups[i].constant || l->launches.count != 1 || l->scratch_bytes.count != 0) return false;
  const lw_launch *launch = &l->launches.data[0];
  return !launch->kernel.product.present && launch->grid > 0 &&
         launch->grid <= (int64_t)s->options->profile->sm_count &&
         launch->kernel.instrs.count <= most_instructions / 2;
}

typedef struct side_bundle {
  uint32_t parts, threads, instructions, buffers;
  int64_t blocks;
} side_bundle;

static side_bundle bundle_with(side_bundle b, const lw_launch *launch) {
  b.parts++;
  b.blocks += launch->grid;
  b.threads = launch->kernel.block_threads;
  b.instructions += launch->kernel.instrs.count;
  b.buffers += launch->kernel.buffers.count;
  return b;
}

/* All blocks at once: as many as the device surely holds of any kernel of ours. */
static bool bundle_fits(const side_search *s, const side_bundle *b) {
  uint32_t per_sm = b->threads == 0 ? 1 : 512 / b->threads;
  int64_t room = (int64_t)s->options->profile->sm_count * (per_sm < 1   ? 1
                                                           : per_sm > 2 ? 2
                                                                        : per_sm);
  return b->parts <= most_parts && b->blocks <= room && b->instructions <= most_instructions &&
         b->buffers <= most_buffers;
}

/* Lowers a product again with as many threads as the others have. */
static lw_status agree_on_threads(side_search *s, uint32_t i, uint32_t threads, bool *out_agrees) {
  const lw_group *group = &s->fusion->groups.data[i];
  lw_kernel *kernel = &s->lowered[i].launches.data[0].kernel;
  *out_agrees = kernel->block_threads == threads;
  if (*out_agrees || group->cls != LW_KCLASS_DOT) return LW_OK;
  lw_lower_options options = *s->options;
  options.threads = threads;
  lw_lowered again;
  LW_TRY(lw__lower_group(s->ctx, group->nodes.data, group->nodes.count, &options, s->diag, &again));
  *out_agrees = again.launches.count == 1 && again.scratch_bytes.count == 0 &&
                !again.launches.data[0].kernel.product.present &&
                again.launches.data[0].kernel.block_threads == threads;
  lw_lowered drop = *out_agrees ? s->lowered[i] : again;
  if (*out_agrees) s->lowered[i] = again;
  lw__lowered_deinit(&drop);
  return LW_OK;
}

/* Bundles that begin with group |i|: every later small one of its level that still fits. */
static lw_status bundle_from(side_search *s, uint32_t i) {
  side_bundle bundle = bundle_with((side_bundle){0}, &s->lowered[i].launches.data[0]);
  for (uint32_t k = i + 1; k < s->fusion->groups.count; k++) {
    if (s->groups[k].level != s->groups[i].level || s->groups[k].bundle != LW_NONE) continue;
    bool agrees;
    if (!is_small(s, k)) continue;
    LW_TRY(agree_on_threads(s, k, bundle.threads, &agrees));
    if (!agrees || !is_small(s, k)) continue;
    side_bundle more = bundle_with(bundle, &s->lowered[k].launches.data[0]);
    if (!bundle_fits(s, &more)) continue;
    if (s->groups[i].bundle == LW_NONE) s->groups[i].bundle = s->bundles++;
    s->groups[k].bundle = s->groups[i].bundle;
    bundle = more;
  }
  return LW_OK;
}

/* ---- order ------------------------------------------------------------------------------------*/

/* Everything that group |i|, or its bundle, reads has been made. */
static bool can_come(const side_search *s, uint32_t i, const uint8_t *done) {
  for (uint32_t k = 0; k < s->fusion->groups.count; k++) {
    if (k != i && (s->groups[i].bundle == LW_NONE || s->groups[k].bundle != s->groups[i].bundle))
      continue;
    const lw_group *group = &s->fusion->groups.data[k];
    for (uint32_t v = 0; v < group->inputs.count; v++) {
      uint32_t from = s->maker[group->inputs.data[v]];
      if (from != LW_NONE && from != k && !done[from]) return false;
    }
    if (s->groups[i].bundle == LW_NONE) break;
  }
  return true;
}

/* The old order, but for bundles: they come when their last member can, together. */
static lw_status reorder(side_search *s) {
  uint32_t count = s->fusion->groups.count, placed = 0;
  uint32_t *order;
  uint8_t *done;
  lw_group *groups;
  lw_lowered *lowered;
  side_group *sides;
  LW_TRY(lw__arena_alloc(&s->arena, count + 1u, sizeof *order, &order));
  LW_TRY(lw__arena_alloc(&s->arena, count + 1u, 1, &done));
  LW_TRY(lw__arena_alloc(&s->arena, count + 1u, sizeof *groups, &groups));
  LW_TRY(lw__arena_alloc(&s->arena, count + 1u, sizeof *lowered, &lowered));
  LW_TRY(lw__arena_alloc(&s->arena, count + 1u, sizeof *sides, &sides));
  while (placed < count) {
    uint32_t i = 0;
    while (i < count && (done[i] || !can_come(s, i, done))) i++;
    if (i == count) return LW_STATUS_INTERNAL;
    for (uint32_t k = i; k < count; k++) {
      bool mate = s->groups[i].bundle != LW_NONE && s->groups[k].bundle == s->groups[i].bundle;
      if (k != i && !mate) continue;
      order[placed++] = k;
      done[k] = 1;
    }
  }
  for (uint32_t i = 0; i < count; i++) {
    groups[i] = s->fusion->groups.data[order[i]];
    lowered[i] = s->lowered[order[i]];
    sides[i] = s->groups[order[i]];
  }
  memcpy(s->fusion->groups.data, groups, count * sizeof *groups);
  memcpy(s->lowered, lowered, count * sizeof *lowered);
  memcpy(s->groups, sides, count * sizeof *sides);
  return LW_OK;
}

/* ---- joining ----------------------------------------------------------------------------------*/

static lw_status join_args(lw_lowered *first, uint32_t count, lw_launch *out) {
  for (int kind = 0; kind < 2; kind++)
    for (uint32_t p = 0; p < count; p++) {
      const lw_launch *part = &first[p].launches.data[0];
      for (uint32_t a = 0; a < part->args.count; a++)
        if ((part->args.data[a].kind == LW_LARG_SCALAR) == (kind == 1))
          LW_TRY(lw_vec_push(&out->args, part->args.data[a]));
    }
  return LW_OK;
}

static void drop_launches(lw_lowered *l) {
  for (uint32_t i = 0; i < l->launches.count; i++) lw__launch_deinit(&l->launches.data[i]);
  l->launches.count = 0;
}

static lw_status join_bundle(side_search *s, uint32_t at, uint32_t count) {
  lw_kjoin_part parts[most_parts];
  lw_launch joined;
  memset(&joined, 0, sizeof joined);
  for (uint32_t p = 0; p < count; p++) {
    const lw_launch *launch = &s->lowered[at + p].launches.data[0];
    parts[p] = (lw_kjoin_part){&launch->kernel, launch->grid};
    joined.grid += launch->grid;
  }
  lw_status status = lw__kernel_join(parts, count, &joined.kernel);
  if (status == LW_OK) status = join_args(&s->lowered[at], count, &joined);
  if (status == LW_OK) status = lw__kernel_verify(&joined.kernel, s->diag);
  if (status != LW_OK) {
    lw__launch_deinit(&joined);
    return status;
  }
  for (uint32_t p = 0; p < count; p++) drop_launches(&s->lowered[at + p]);
  LW_TRY(lw_vec_push(&s->lowered[at].launches, joined));
  s->lowered[at].joined = count - 1;
  return LW_OK;
}

static lw_status join_all(side_search *s) {
  for (uint32_t i = 0; i < s->fusion->groups.count;) {
    uint32_t count = 1;
    if (s->groups[i].bundle != LW_NONE)
      while (i + count < s->fusion->groups.count &&
             s->groups[i + count].bundle == s->groups[i].bundle)
        count++;
    if (count > 1) LW_TRY(join_bundle(s, i, count));
    i += count;
  }
  return LW_OK;
}

static lw_status search_all(side_search *s) {
  LW_TRY(find_levels(s));
  for (uint32_t i = 0; i < s->fusion->groups.count; i++)
    if (s->groups[i].bundle == LW_NONE && is_small(s, i)) LW_TRY(bundle_from(s, i));
  if (s->bundles == 0) return LW_OK;
  LW_TRY(reorder(s));
  return join_all(s);
}

lw_status lw__join_side_by_side(lw_region_context *ctx, const lw_lower_options *options,
                                lw_fusion *fusion, lw_lowered *lowered, lw_diag *diag) {
  side_search s = {
      .ctx = ctx, .options = options, .fusion = fusion, .lowered = lowered, .diag = diag};
  lw_status status = options->target == LW_KTARGET_GPU ? search_all(&s) : LW_OK;
  lw__arena_deinit(&s.arena);
  return status;
}

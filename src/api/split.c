/* split.c: takes groups apart whose kernels are of no use. */
#include "api/split.h"

#include <string.h>

enum {
  rounds_spilling = 8, /* then kernels may spill */
  rounds_gently = 2,   /* then all fusions of an unusable group are taken back at once */
  rounds_most = 64,
  nodes_named = 3,
};

const char *lw__trouble_name(lw_trouble trouble) {
  switch (trouble) {
    case LW_TROUBLE_NONE: return "is fine";
    case LW_TROUBLE_SPILLS: return "spills registers";
    case LW_TROUBLE_BUILD: return "does not build";
    case LW_TROUBLE_LOAD: return "is refused by the device";
  }
  return "";
}

/* The group's kernel that is in the worst trouble. */
static uint32_t worst_kernel(const lw_split_input *in, uint32_t group) {
  uint32_t worst = in->launch_kernel[in->first_kernel[group]];
  for (uint32_t l = 1; l < in->lowered[group].launches.count; l++) {
    uint32_t kernel = in->launch_kernel[in->first_kernel[group] + l];
    if (in->fates[kernel].trouble > in->fates[worst].trouble) worst = kernel;
  }
  return worst;
}

static bool in_group(const lw_group *group, lw_node_id node) {
  for (uint32_t n = 0; n < group->nodes.count; n++) {
    if (group->nodes.data[n] == node) return true;
  }
  return false;
}

/* A fusion inside the group that can be taken back. */
static bool can_undo(const lw_group *group, const lw_decision *decision) {
  return decision->fused && !decision->forced && in_group(group, decision->consumer);
}

static const lw_decision *dearest_fusion(const lw_split_input *in, const lw_group *group) {
  const lw_decision *found = NULL;
  for (uint32_t d = 0; d < in->fusion->decisions.count; d++) {
    const lw_decision *decision = &in->fusion->decisions.data[d];
    if (!can_undo(group, decision)) continue;
    if (found == NULL || decision->us_together > found->us_together) found = decision;
  }
  return found;
}

static lw_status forbid(const lw_split_input *in, lw_fuse_options *fuse, const char *id) {
  const char **more, *copy;
  LW_TRY(lw__arena_alloc(in->arena, fuse->forbid_count + 1u, sizeof *more, &more));
  if (fuse->forbid_count != 0) memcpy(more, fuse->forbid, fuse->forbid_count * sizeof *more);
  LW_TRY(lw__arena_strndup(in->arena, id, strlen(id), &copy));
  more[fuse->forbid_count++] = copy;
  fuse->forbid = more;
  return LW_OK;
}

static lw_status forbid_all(const lw_split_input *in, const lw_group *group,
                            lw_fuse_options *fuse) {
  for (uint32_t d = 0; d < in->fusion->decisions.count; d++) {
    const lw_decision *decision = &in->fusion->decisions.data[d];
    if (can_undo(group, decision)) LW_TRY(forbid(in, fuse, decision->id));
  }
  return LW_OK;
}

static lw_status name_nodes(const lw_split_input *in, const lw_group *group, const char **out) {
  lw_text text = {0};
  const char *last = "";
  uint32_t named = 0, distinct = 0;
  for (uint32_t n = 0; n < group->nodes.count; n++) {
    const char *name = lw__node(in->graph, group->nodes.data[n])->name;
    if (name == NULL || name[0] == '\0' || strcmp(name, last) == 0) continue;
    last = name;
    distinct++;
    if (named < nodes_named) lw__text_add(&text, named++ == 0 ? "%s" : ", %s", name);
  }
  if (distinct > named) lw__text_add(&text, " (+%u)", distinct - named);
  lw_status status = text.status;
  if (status == LW_OK) status = lw__arena_strndup(in->arena, lw__text_str(&text), text.len, out);
  lw__text_deinit(&text);
  return status;
}

/* Without |dearest| nothing can be taken apart. */
static lw_status split_group(const lw_split_input *in, const lw_group *group, uint32_t kernel,
                             const lw_decision *dearest, lw_fuse_options *fuse, lw_split *out) {
  const lw_kernel_fate *fate = &in->fates[kernel];
  bool unusable = fate->trouble != LW_TROUBLE_SPILLS;
  *out = (lw_split){
      .trouble = fate->trouble, .kernel = in->names[kernel], .fusion = "", .text = fate->text};
  LW_TRY(name_nodes(in, group, &out->nodes));
  if (dearest == NULL) {
    return lw__fail(in->diag, LW_STATUS_DEVICE_FAILED, out->nodes,
                    "kernel %s %s, and its group has no fusion to take back: %s", out->kernel,
                    lw__trouble_name(fate->trouble), fate->text);
  }
  if (unusable && in->round >= rounds_gently) return forbid_all(in, group, fuse);
  LW_TRY(forbid(in, fuse, dearest->id));
  out->fusion = fuse->forbid[fuse->forbid_count - 1];
  return LW_OK;
}

lw_status lw__split_groups(const lw_split_input *in, lw_fuse_options *fuse, lw_splits *splits,
                           bool *out_again) {
  *out_again = false;
  for (uint32_t g = 0; g < in->fusion->groups.count; g++) {
    const lw_group *group = &in->fusion->groups.data[g];
    if (in->lowered[g].launches.count == 0) continue;
    uint32_t kernel = worst_kernel(in, g);
    lw_trouble trouble = in->fates[kernel].trouble;
    if (trouble == LW_TROUBLE_NONE) continue;
    const lw_decision *dearest = in->round < rounds_most ? dearest_fusion(in, group) : NULL;
    bool bearable = trouble == LW_TROUBLE_SPILLS;
    if (bearable && (dearest == NULL || in->round >= rounds_spilling)) continue;
    lw_split split;
    LW_TRY(split_group(in, group, kernel, dearest, fuse, &split));
    LW_TRY(lw_vec_push(splits, split));
    lw__note(in->diag, LW_SEVERITY_NOTE, split.nodes, "kernel %s %s: its group is split at %s%s",
             split.kernel, lw__trouble_name(trouble),
             split.fusion[0] == '\0' ? "all of its fusions" : "fusion ", split.fusion);
    *out_again = true;
  }
  return LW_OK;
}

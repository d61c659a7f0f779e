/* lower.c: picks the lowering of a group by its class. */
#include "compiler/lower/lower.h"

#include <string.h>

#include "compiler/lower/nest.h"

typedef lw_status (*lower_fn)(lw_region_context *, const lw_node_id *, uint32_t,
                              const lw_lower_options *, lw_diag *, lw_lowered *);

lw_status lw__lower_group(lw_region_context *ctx, const lw_node_id *nodes, uint32_t count,
                          const lw_lower_options *options, lw_diag *diag, lw_lowered *out) {
  static const lower_fn by_class[LW_KCLASS_COUNT] = {
      [LW_KCLASS_MAP] = lw__lower_map,
      [LW_KCLASS_REDUCE] = lw__lower_reduce,
      [LW_KCLASS_DOT] = lw__lower_contraction,
      [LW_KCLASS_CONV] = lw__lower_contraction,
  };
  memset(out, 0, sizeof *out);
  lw_region region;
  lw_status status = lw__region_init(&region, ctx, nodes, count);
  lw_kclass cls = region.cls;
  const char *why = region.why;
  lw__region_deinit(&region);
  if (status == LW_OK) status = by_class[cls](ctx, nodes, count, options, diag, out);
  if (status != LW_STATUS_UNSUPPORTED) return status;
  const lw_node *first = lw__node(ctx->graph, nodes[0]);
  return lw__fail(diag, status, first->name, "the group that begins here cannot be lowered: %s",
                  why ? why : "no schedule fits");
}

void lw__launch_deinit(lw_launch *launch) {
  lw__kernel_deinit(&launch->kernel);
  lw_vec_free(&launch->args);
}

void lw__lowered_deinit(lw_lowered *lowered) {
  for (uint32_t i = 0; i < lowered->launches.count; i++)
    lw__launch_deinit(&lowered->launches.data[i]);
  lw_vec_free(&lowered->launches);
  lw_vec_free(&lowered->scratch_bytes);
  lw__arena_deinit(&lowered->arena);
  memset(lowered, 0, sizeof *lowered);
}

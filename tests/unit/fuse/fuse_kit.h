/* fuse_kit.h: what the tests of fusion share: graphs from text, fused, and groups in words. */
#ifndef LW_TESTS_FUSE_KIT_H
#define LW_TESTS_FUSE_KIT_H

#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include <cmocka.h>

#include "compiler/fuse/fuse.h"
#include "compiler/fuse/region.h"
#include "compiler/pass/pass.h"
#include "device/device.h"

#define assert_ok(expr) assert_int_equal((expr), LW_OK)

typedef struct fused {
  lw_graph graph;
  lw_fusion fusion;
  lw_diag diag;
} fused;

static inline void kit_parse(const char *text, fused *f) {
  memset(f, 0, sizeof *f);
  if (lw__graph_parse(lw__str_of(text), &f->diag, &f->graph) != LW_OK)
    fail_msg("%s in\n%s", lw__diag_first_error(&f->diag), text);
}

/* Passes, then fusion, for |profile| (NULL: sm_90a). */
static inline void kit_fuse(const char *text, const char *profile, const lw_fuse_options *options,
                            fused *f) {
  static const lw_fuse_options plain = {0};
  lw_pass_options passes;
  kit_parse(text, f);
  lw__pass_options_init(&passes);
  if (lw__pass_run(&f->graph, &passes, &f->diag) != LW_OK)
    fail_msg("%s", lw__diag_first_error(&f->diag));
  const lw_device_profile *device = lw__device_profile_find(profile ? profile : "sm_90a");
  assert_non_null(device);
  if (lw__fuse(&f->graph, device, lw__resource_policy_find("opt-in"), options ? options : &plain,
               &f->diag, &f->fusion) != LW_OK)
    fail_msg("%s in\n%s", lw__diag_first_error(&f->diag), text);
}

static inline void fused_deinit(fused *f) {
  lw__fusion_deinit(&f->fusion);
  lw__graph_deinit(&f->graph);
  lw__diag_deinit(&f->diag);
}

static inline const char *kit_op_name(const lw_graph *g, lw_node_id n) {
  const lw_node *node = lw__node(g, n);
  if (node->op == LW_OP_MAP) return lw__fn_info[node->attr.fn].name;
  return node->op == LW_OP_REDUCE ? lw__red_info[node->attr.reduce.fn].name
                                  : lw__op_info[node->op].name;
}

static inline void kit_add_values(const lw_graph *g, const char *what, const lw_value_id *values,
                                  uint32_t count, lw_text *out) {
  lw__text_add(out, "  %s", what);
  for (uint32_t i = 0; i < count; i++) {
    const lw_value *v = lw__value(g, values[i]);
    const char *output = NULL;
    for (uint32_t o = 0; o < g->outputs.count && !output; o++)
      if (g->outputs.data[o] == values[i]) output = g->output_names.data[o];
    if (output || v->name) lw__text_add(out, " %s", output ? output : v->name);
    else lw__text_add(out, " %s", lw__producer(g, values[i])->op == LW_OP_CONST ? "const" : "%");
    lw__text_add(out, ":%s", lw_dtype_name(v->dtype));
    lw__shape_print(g, &v->shape, out);
  }
  lw__text_add(out, "\n");
}

/* One group: class, operators in order, what it reads and writes. Values without a name of their
 * own are %. */
static inline void kit_describe(const fused *f, uint32_t group, lw_text *out) {
  const lw_group *g = &f->fusion.groups.data[group];
  lw__text_add(out, "%s:", lw__kclass_name[g->cls]);
  for (uint32_t n = 0; n < g->nodes.count; n++)
    lw__text_add(out, " %s", kit_op_name(&f->graph, g->nodes.data[n]));
  lw__text_add(out, "\n");
  kit_add_values(&f->graph, "reads", g->inputs.data, g->inputs.count, out);
  kit_add_values(&f->graph, "writes", g->outputs.data, g->outputs.count, out);
}

/* "class: op op | class: op": the groups in order. */
static inline void kit_groups(const fused *f, lw_text *out) {
  for (uint32_t i = 0; i < f->fusion.groups.count; i++) {
    const lw_group *g = &f->fusion.groups.data[i];
    lw__text_add(out, "%s%s:", i ? " | " : "", lw__kclass_name[g->cls]);
    for (uint32_t n = 0; n < g->nodes.count; n++)
      lw__text_add(out, " %s", kit_op_name(&f->graph, g->nodes.data[n]));
  }
}

static inline void assert_groups(const fused *f, const char *expected) {
  lw_text text = {0};
  kit_groups(f, &text);
  assert_string_equal(lw__text_str(&text), expected);
  lw__text_deinit(&text);
}

/* What must hold of every fusion: each node that computes in exactly one group, groups in an order
 * in which they can run, inputs made before. */
static inline void kit_check(const fused *f) {
  const lw_graph *g = &f->graph;
  uint32_t *group_of = calloc(g->nodes.count + 1u, sizeof *group_of);
  for (uint32_t i = 0; i < f->fusion.groups.count; i++) {
    const lw_group *group = &f->fusion.groups.data[i];
    assert_true(group->nodes.count > 0);
    for (uint32_t n = 0; n < group->nodes.count; n++) {
      if (n) assert_true(group->nodes.data[n] > group->nodes.data[n - 1]);
      assert_int_equal(group_of[group->nodes.data[n]], 0);
      group_of[group->nodes.data[n]] = i + 1;
    }
    for (uint32_t v = 0; v < group->inputs.count; v++) {
      const lw_node *made = lw__producer(g, group->inputs.data[v]);
      if (made->op == LW_OP_INPUT || made->op == LW_OP_CONST) continue;
      uint32_t by = group_of[lw__value(g, group->inputs.data[v])->producer];
      assert_true(by != 0 && by <= i);
      bool written = false;
      for (uint32_t o = 0; o < f->fusion.groups.data[by - 1].outputs.count; o++)
        written |= f->fusion.groups.data[by - 1].outputs.data[o] == group->inputs.data[v];
      assert_true(written);
    }
  }
  lw_region_context ctx;
  assert_ok(lw__region_context_init(&ctx, g));
  for (uint32_t n = 0; n < g->nodes.count; n++)
    assert_int_equal(ctx.seed[n] != 0, group_of[n] != 0);
  lw__region_context_deinit(&ctx);
  free(group_of);
}

#endif

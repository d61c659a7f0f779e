/* test_plans.c: what the scheduler makes of random graphs: launches that fit their kernels, and
 * plans in which every edge is needed and the checker says so. (Placement against brute force on
 * made-up plans: tests/unit/plan.) */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>

#include <cmocka.h>

#include "api/pipeline.h"
#include "lib/rgraph.h"

static void check_launch(const lw_compiled *c, const lw_plan_step *step) {
  assert_true(step->kernel < c->kernels.count);
  const lw_kernel *kernel = c->kernels.data[step->kernel];
  assert_true(step->grid >= 1);
  uint32_t plain = kernel->buffers.count + kernel->scalar_count;
  bool product = kernel->product.present;
  assert_in_range(step->arg_count, plain + (product ? 2 : 0), plain + (product ? 3 : 0));
  for (uint32_t i = 0; i < step->arg_count; i++) {
    const lw_plan_arg *arg = &step->args[i];
    assert_int_equal(arg->kind, i < kernel->buffers.count ? LW_ARG_BUFFER
                                : i < plain               ? LW_ARG_SCALAR
                                                          : LW_ARG_TENSOR_MAP);
    if (arg->kind == LW_ARG_BUFFER) assert_int_equal(arg->written, kernel->buffers.data[i].written);
  }
  assert_non_null(step->cls);
  assert_non_null(step->label);
}

/* Edges are transitively reduced: without any one of them two steps that touch the same bytes are
 * not ordered. */
static uint32_t check_edges(lw_plan *plan) {
  uint32_t edges = 0;
  for (uint32_t i = 0; i < plan->steps.count; i++) {
    lw_plan_step *step = &plan->steps.data[i];
    for (uint32_t d = 0; d < step->dep_count; d++, edges++) {
      uint32_t dep = step->deps[d], last = step->deps[--step->dep_count];
      step->deps[d] = last;
      assert_int_equal(lw__plan_verify(plan, NULL), LW_STATUS_INTERNAL);
      step->deps[step->dep_count++] = last;
      step->deps[d] = dep;
    }
  }
  return edges;
}

/* Two arena buffers that one step reads and writes never share bytes. */
static uint32_t check_overlaps(lw_plan *plan) {
  uint32_t made = 0;
  for (uint32_t i = 0; i < plan->steps.count; i++) {
    const lw_plan_step *step = &plan->steps.data[i];
    for (uint32_t a = 0; a < step->arg_count; a++)
      for (uint32_t b = 0; b < step->arg_count; b++) {
        const lw_plan_arg *x = &step->args[a], *y = &step->args[b];
        if (x->kind != LW_ARG_BUFFER || y->kind != LW_ARG_BUFFER || !x->written ||
            x->buffer == y->buffer)
          continue;
        lw_plan_buffer *to = &plan->buffers.data[x->buffer], *from = &plan->buffers.data[y->buffer];
        if (to->kind != LW_BUFFER_ARENA || from->kind != LW_BUFFER_ARENA || !to->bytes ||
            !from->bytes)
          continue;
        uint64_t offset = to->offset;
        to->offset = from->offset;
        assert_int_equal(lw__plan_verify(plan, NULL), LW_STATUS_INTERNAL);
        to->offset = offset;
        made++;
      }
  }
  return made;
}

static void random_plans(void **state) {
  (void)state;
  uint32_t launches = 0, edges = 0, overlaps = 0;
  for (uint64_t seed = 1; seed <= 200; seed++) {
    lw_rgraph_options shape = {.nodes = 6 + (uint32_t)(seed % 20),
                               .contractions = seed % 2,
                               .narrow = seed % 3 == 0,
                               .wide = seed % 4 > 1};
    lw_compile_options options = {.profile = lw__device_profile_find(seed % 2 ? "sm_90a" : "cpu"),
                                  .skip_passes = seed % 5 == 0};
    lw_graph g;
    lw_compiled c;
    lw_diag diag = {0};
    options.fuse.off = seed % 3 == 0;
    assert_int_equal(lw__graph_init(&g, NULL), LW_OK);
    assert_int_equal(lw_rgraph_make(seed, &shape, &g), LW_OK);
    if (lw__compile(&g, &options, false, &diag, &c) != LW_OK)
      fail_msg("seed %llu: %s", (unsigned long long)seed, lw__diag_first_error(&diag));
    assert_int_equal(lw__plan_verify(&c.plan, &diag), LW_OK);
    assert_int_equal(c.plan.inputs.count, g.inputs.count);
    assert_int_equal(c.plan.outputs.count, g.outputs.count);
    assert_int_equal(c.kernels.count, c.plan.kernels.count);
    assert_true(lw__plan_live_bytes(&c.plan) <= c.plan.arena_bytes);
    for (uint32_t i = 0; i < c.plan.steps.count; i++)
      if (c.plan.steps.data[i].kind == LW_STEP_LAUNCH)
        check_launch(&c, &c.plan.steps.data[i]), launches++;
    for (uint32_t i = 0; i < c.plan.init.count; i++)
      if (c.plan.init.data[i].kind == LW_STEP_LAUNCH) check_launch(&c, &c.plan.init.data[i]);
    edges += check_edges(&c.plan);
    overlaps += check_overlaps(&c.plan);
    assert_int_equal(lw__plan_verify(&c.plan, &diag), LW_OK);
    lw__compiled_deinit(&c);
    lw__graph_deinit(&g);
    lw__diag_deinit(&diag);
  }
  print_message("%u launches, %u edges, %u overlaps\n", launches, edges, overlaps);
  assert_true(launches > 500 && edges > 300 && overlaps > 100);
}

int main(void) {
  const struct CMUnitTest tests[] = {cmocka_unit_test(random_plans)};
  return cmocka_run_group_tests(tests, NULL, NULL);
}

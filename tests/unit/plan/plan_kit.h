/* plan_kit.h: plans by hand and at random, and the brute-force check that placing and the verifier
 * are held to. */
#ifndef LW_TEST_PLAN_KIT_H
#define LW_TEST_PLAN_KIT_H

#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdlib.h>
#include <string.h>

#include <cmocka.h>

#include "plan/plan.h"

#pragma GCC diagnostic ignored "-Wunused-function" /* no program uses all of it */

/* ---- making plans ---- */

static uint32_t add_buffer(lw_plan *plan, lw_buffer_kind kind, uint32_t index, uint64_t bytes) {
  static const char some_bytes[1 << 16];
  lw_plan_buffer buffer = {.kind = kind, .index = index, .bytes = bytes};
  if (kind == LW_BUFFER_WEIGHT) buffer.data = some_bytes;
  assert_int_equal(lw_vec_push(&plan->buffers, buffer), LW_OK);
  uint32_t id = plan->buffers.count - 1;
  lw_plan_io io = {
      .name = "t", .dtype = LW_DTYPE_U8, .rank = 1, .dims = {(int64_t)bytes}, .buffer = id};
  if (kind == LW_BUFFER_INPUT) assert_int_equal(lw_vec_push(&plan->inputs, io), LW_OK);
  if (kind == LW_BUFFER_OUTPUT) assert_int_equal(lw_vec_push(&plan->outputs, io), LW_OK);
  return id;
}

static lw_plan_step *add_step(lw_plan *plan, bool init, lw_plan_step step, const lw_plan_arg *args,
                              uint32_t count) {
  assert_int_equal(lw__arena_dup(&plan->arena, args, count * sizeof *args, &step.args), LW_OK);
  step.arg_count = count;
  if (init) {
    assert_int_equal(lw_vec_push(&plan->init, step), LW_OK);
    return &plan->init.data[plan->init.count - 1];
  }
  assert_int_equal(lw_vec_push(&plan->steps, step), LW_OK);
  return &plan->steps.data[plan->steps.count - 1];
}

/* A launch that writes |out| and reads |a| and |b| (LW_NONE: none). */
static void add_launch(lw_plan *plan, bool init, uint32_t out, uint32_t a, uint32_t b) {
  lw_plan_arg args[4] = {{.buffer = out, .written = true}};
  uint32_t count = 1;
  if (a != LW_NONE) args[count++] = (lw_plan_arg){.buffer = a};
  if (b != LW_NONE) args[count++] = (lw_plan_arg){.buffer = b};
  args[count++] = (lw_plan_arg){.kind = LW_ARG_SCALAR, .scalar = 7};
  add_step(plan, init, (lw_plan_step){.kind = LW_STEP_LAUNCH, .grid = 1, .label = "node"}, args,
           count);
}

static void add_copy(lw_plan *plan, uint32_t out, uint64_t offset, uint32_t in, uint64_t bytes) {
  lw_plan_arg args[2] = {{.buffer = out, .written = true, .offset_bytes = offset}, {.buffer = in}};
  add_step(plan, false, (lw_plan_step){.kind = LW_STEP_COPY, .bytes = bytes}, args, 2);
}

static void add_kernel(lw_plan *plan) {
  assert_int_equal(
      lw_vec_push(&plan->kernels, (lw_plan_kernel){.name = "lw_map_0", .block_threads = 1}), LW_OK);
}

static inline void finish(lw_plan *plan) {
  assert_int_equal(lw__plan_place_weights(plan), LW_OK);
  assert_int_equal(lw__plan_link(plan), LW_OK);
  assert_int_equal(lw__plan_wait(plan), LW_OK);
  assert_int_equal(lw__plan_place(plan), LW_OK);
}

static lw_status verify(const lw_plan *plan) { return lw__plan_verify(plan, NULL); }

static void assert_valid(const lw_plan *plan) {
  lw_diag diag = {0};
  lw_status status = lw__plan_verify(plan, &diag);
  if (status != LW_OK) {
    for (uint32_t i = 0; i < diag.messages.count; i++) {
      print_error("%s: %s\n", diag.messages.data[i].where, diag.messages.data[i].text);
    }
    lw_text text = {0};
    lw__plan_print(plan, &text);
    print_error("%s", lw__text_str(&text));
    lw__text_deinit(&text);
  }
  lw__diag_deinit(&diag);
  assert_int_equal(status, LW_OK);
}

/* ---- the brute-force check ---- */

typedef struct brute {
  uint32_t count;
  bool *reach; /* reach[a * count + b]: a before b */
} brute;

static void brute_edge(brute *b, uint32_t from, uint32_t to) {
  b->reach[(size_t)from * b->count + to] = true;
  for (uint32_t a = 0; a < from; a++) {
    if (b->reach[(size_t)a * b->count + from]) b->reach[(size_t)a * b->count + to] = true;
  }
}

/* |lanes|: by the order of the lanes and the waits; else by the dependences. */
static void brute_init(brute *b, const lw_plan_step *steps, uint32_t count, bool lanes) {
  b->count = count;
  b->reach = calloc((size_t)count * count + 1, 1);
  assert_non_null(b->reach);
  for (uint32_t i = 0; i < count; i++) {
    for (uint32_t d = 0; d < steps[i].dep_count && !lanes; d++) brute_edge(b, steps[i].deps[d], i);
    for (uint32_t d = 0; d < steps[i].wait_count && lanes; d++) brute_edge(b, steps[i].waits[d], i);
    for (uint32_t a = 0; a < i && lanes; a++) {
      if (steps[a].lane == steps[i].lane) brute_edge(b, a, i);
    }
  }
}

static bool bytes_of(const lw_plan *plan, const lw_plan_step *step, uint32_t k, uint64_t *out_begin,
                     uint64_t *out_end) {
  const lw_plan_arg *arg = &step->args[k];
  if (arg->kind != LW_ARG_BUFFER) return false;
  const lw_plan_buffer *buffer = &plan->buffers.data[arg->buffer];
  uint64_t space = UINT64_C(1) << 40;
  uint64_t base = buffer->offset;
  if (buffer->kind == LW_BUFFER_WEIGHT || buffer->kind == LW_BUFFER_DERIVED) base += space;
  if (buffer->kind == LW_BUFFER_INPUT) base = space * (2 + buffer->index);
  if (buffer->kind == LW_BUFFER_OUTPUT) base = space * (2 + plan->inputs.count + buffer->index);
  uint64_t bytes = step->kind == LW_STEP_LAUNCH ? buffer->bytes - arg->offset_bytes : step->bytes;
  *out_begin = base + arg->offset_bytes;
  *out_end = *out_begin + bytes;
  return bytes != 0;
}

/* True when some two conflicting accesses are not ordered. */
static bool brute_conflict(const lw_plan *plan, const lw_plan_step *steps, uint32_t count) {
  brute b;
  brute_init(&b, steps, count, plan->lane_count != 0 && steps == plan->steps.data);
  bool found = false;
  for (uint32_t i = 0; i < count && !found; i++) {
    for (uint32_t j = 0; j <= i && !found; j++) {
      if (j != i && b.reach[(size_t)j * count + i]) continue;
      for (uint32_t x = 0; x < steps[i].arg_count && !found; x++) {
        for (uint32_t y = 0; y < steps[j].arg_count && !found; y++) {
          uint64_t xb, xe, yb, ye;
          if (!bytes_of(plan, &steps[i], x, &xb, &xe) || !bytes_of(plan, &steps[j], y, &yb, &ye))
            continue;
          if (!steps[i].args[x].written && !steps[j].args[y].written) continue;
          if (i == j && steps[i].args[x].buffer == steps[j].args[y].buffer) continue;
          found = xb < ye && yb < xe;
        }
      }
    }
  }
  free(b.reach);
  return found;
}

/* ---- random plans ---- */

typedef LW_VEC(uint32_t) id_list;

static void random_plan(lw_plan *plan, lw_rng *rng, uint32_t steps) {
  lw__plan_init(plan, LW_PLAN_CPU);
  add_kernel(plan);
  id_list readable = {0}, arena = {0};
  assert_int_equal(lw_vec_push(&readable, add_buffer(plan, LW_BUFFER_INPUT, 0, 512)), LW_OK);
  assert_int_equal(lw_vec_push(&readable, add_buffer(plan, LW_BUFFER_INPUT, 1, 0)), LW_OK);
  uint32_t weight = add_buffer(plan, LW_BUFFER_WEIGHT, 0, 700);
  assert_int_equal(lw_vec_push(&readable, weight), LW_OK);
  uint32_t derived = add_buffer(plan, LW_BUFFER_DERIVED, 0, 700);
  add_launch(plan, true, derived, weight, LW_NONE);
  assert_int_equal(lw_vec_push(&readable, derived), LW_OK);
  for (uint32_t i = 0; i < steps; i++) {
    int64_t recent = readable.count > 6 && lw__rng_uniform(rng) < 0.7 ? readable.count - 4 : 0;
    uint32_t a = readable.data[lw__rng_range(rng, recent, readable.count)];
    uint32_t b = readable.data[lw__rng_range(rng, 0, readable.count)];
    double dice = lw__rng_uniform(rng);
    if (dice < 0.15 && arena.count != 0) { /* in place */
      uint32_t place = arena.data[lw__rng_range(rng, 0, arena.count)];
      add_launch(plan, false, place, place, b == place ? LW_NONE : b);
    } else if (dice < 0.25 && arena.count != 0) { /* part of a buffer */
      uint32_t to = arena.data[lw__rng_range(rng, 0, arena.count)];
      uint64_t to_bytes = plan->buffers.data[to].bytes, from_bytes = plan->buffers.data[a].bytes;
      if (to != a && to_bytes > 2 && from_bytes >= to_bytes / 2) {
        add_copy(plan, to, to_bytes / 2, a, to_bytes / 2);
      }
    } else {
      uint64_t bytes = (uint64_t)lw__rng_range(rng, 0, 9) * 100;
      uint32_t to = add_buffer(plan, LW_BUFFER_ARENA, 0, bytes);
      add_launch(plan, false, to, a, b == a ? LW_NONE : b);
      assert_int_equal(lw_vec_push(&readable, to), LW_OK);
      assert_int_equal(lw_vec_push(&arena, to), LW_OK);
    }
  }
  uint32_t out = add_buffer(plan, LW_BUFFER_OUTPUT, 0, 100);
  add_launch(plan, false, out, readable.data[readable.count - 1], LW_NONE);
  lw_vec_free(&readable);
  lw_vec_free(&arena);
}

static inline void drop_edges(lw_plan *plan) {
  for (uint32_t i = 0; i < plan->steps.count; i++) {
    lw_plan_step *step = &plan->steps.data[i];
    for (uint32_t d = 0; d < step->dep_count; d++) {
      uint32_t dep = step->deps[d];
      step->deps[d] = step->deps[--step->dep_count];
      assert_int_equal(verify(plan), LW_STATUS_INTERNAL);
      step->deps[step->dep_count++] = step->deps[d];
      step->deps[d] = dep;
    }
  }
}

static inline uint32_t overlap_buffers(lw_plan *plan, bool *used) {
  uint32_t refused = 0;
  uint64_t arena_bytes = plan->arena_bytes;
  plan->arena_bytes = 1 << 20;
  for (uint32_t a = 0; a < plan->buffers.count; a++) {
    for (uint32_t b = 0; b < plan->buffers.count; b++) {
      lw_plan_buffer *x = &plan->buffers.data[a], *y = &plan->buffers.data[b];
      if (a == b || !used[a] || !used[b]) continue;
      uint64_t old = x->offset;
      x->offset = y->offset;
      bool bad = brute_conflict(plan, plan->steps.data, plan->steps.count);
      assert_int_equal(verify(plan), bad ? LW_STATUS_INTERNAL : LW_OK);
      refused += bad;
      x->offset = old;
    }
  }
  plan->arena_bytes = arena_bytes;
  return refused;
}

#endif

/* op_control.c: control flow that is decided on import: the branch that is taken, loops unrolled.
 */
#include "compiler/onnx/import_internal.h"
#include "compiler/onnx/op.h"

enum { CONTROL_STEPS_MAX = 10000 };

static const lw_proto_graph *control_graph(lw_call *c, const char *name) {
  const lw_proto_attr *attr = lw__call_attr(c, name);
  if (attr != NULL && attr->g != NULL) return attr->g;
  lw__call_invalid(c, "it has no graph '%s'", name);
  return NULL;
}

/* Output |i| when no graph can hold both results. */
static void control_choose(lw_call *c, lw_value_id condition, uint32_t i, lw_value_id yes,
                           lw_value_id no) {
  double decided;
  if (lw__call_known_scalar(c, condition, &decided)) {
    lw__call_out(c, i, decided != 0 ? yes : no);
  } else {
    lw__call_unsupported(
        c, "a condition that is computed from data, with branches of different shapes");
  }
}

/* Both branches, and a choice for each output: nothing that a graph computes has effects. */
static void control_both(lw_call *c, const lw_proto_graph *yes, const lw_proto_graph *no) {
  lw_value_id *a = lw__b_alloc(c, c->out_count, sizeof *a),
              *b = lw__b_alloc(c, c->out_count, sizeof *b);
  lw_shape scalar = {0}, shape = lw__b_shape(c, lw__call_in(c, 0));
  if (lw__call_ok(c) && lw__shape_numel(&shape) != 1)
    lw__call_invalid(c, "its condition must be one value");
  if (a == NULL || b == NULL) return;
  lw_value_id condition = lw__b_reshape(c, lw__call_in(c, 0), &scalar);
  lw__call_inline(c, yes, NULL, 0, a, c->out_count);
  lw__call_inline(c, no, NULL, 0, b, c->out_count);
  for (uint32_t i = 0; i < c->out_count && lw__call_ok(c); i++) {
    if (a[i] == LW_IMPORT_ABSENT || b[i] == LW_IMPORT_ABSENT) {
      control_choose(c, condition, i, a[i], b[i]);
      continue;
    }
    lw_shape sa = lw__b_shape(c, a[i]), sb = lw__b_shape(c, b[i]);
    if (lw__b_dtype(c, a[i]) != lw__b_dtype(c, b[i]) || !lw__shape_eq(c->graph, &sa, &sb) ||
        lw__import_sequence(c->im, a[i]) != NULL) {
      control_choose(c, condition, i, a[i], b[i]);
      continue;
    }
    lw__call_out(c, i, a[i] == b[i] ? a[i] : lw__b_select(c, condition, a[i], b[i]));
  }
}

void lw__op_if(lw_call *c) {
  const lw_proto_graph *yes = control_graph(c, "then_branch"),
                       *no = control_graph(c, "else_branch");
  double condition;
  if (!lw__call_ok(c)) return;
  if (lw__call_known_scalar(c, c->in[0], &condition)) {
    lw__call_inline(c, condition != 0 ? yes : no, NULL, 0, c->out, c->out_count);
  } else {
    control_both(c, yes, no);
  }
}

/* ---- loops ----------------------------------------------------------------------------------*/

/* What loops keep while they are unrolled. */
typedef struct lw_control_loop {
  const lw_proto_graph *body;
  uint32_t in_count, out_count;    /* of the body */
  uint32_t scan_first, scan_count; /* outputs of the body that are collected */
  lw_value_id *in, *out;
  lw_value_id *collected; /* [step][scan output] */
  int64_t steps;
} lw_control_loop;

static bool control_begin(lw_call *c, lw_control_loop *loop, int64_t steps_max) {
  if (!lw__call_ok(c)) return false;
  if (steps_max > CONTROL_STEPS_MAX) {
    lw__call_unsupported(c, "%lld steps, more than %d", (long long)steps_max, CONTROL_STEPS_MAX);
    return false;
  }
  loop->in_count = loop->body->inputs.count;
  loop->out_count = loop->body->outputs.count;
  loop->in = lw__b_alloc(c, loop->in_count, sizeof *loop->in);
  loop->out = lw__b_alloc(c, loop->out_count, sizeof *loop->out);
  loop->scan_count = loop->out_count - loop->scan_first;
  loop->collected = lw__b_alloc(c, steps_max * loop->scan_count, sizeof *loop->collected);
  return loop->collected != NULL && loop->in != NULL && loop->out != NULL;
}

static void control_step(lw_call *c, lw_control_loop *loop) {
  lw__call_inline(c, loop->body, loop->in, loop->in_count, loop->out, loop->out_count);
  for (uint32_t k = 0; k < loop->scan_count && lw__call_ok(c); k++) {
    loop->collected[loop->steps * loop->scan_count + k] = loop->out[loop->scan_first + k];
    if (loop->out[loop->scan_first + k] == LW_IMPORT_ABSENT)
      lw__call_invalid(c, "an empty optional among the collected outputs");
  }
  loop->steps++;
}

/* Scan output |k| of all steps, side by side along a new |axis|. */
static lw_value_id control_stack(lw_call *c, const lw_control_loop *loop, uint32_t k,
                                 int64_t axis_given, bool backward) {
  lw_value_id *parts = lw__b_alloc(c, loop->steps, sizeof *parts);
  if (parts == NULL) return LW_NONE;
  if (loop->steps == 0) {
    lw__call_unsupported(c, "a loop of no steps with collected outputs");
    return LW_NONE;
  }
  uint32_t rank = lw__b_rank(c, loop->collected[k]);
  uint32_t axis = lw__call_axis(c, axis_given, rank + 1);
  for (int64_t t = 0; t < loop->steps; t++) {
    int64_t step = backward ? loop->steps - 1 - t : t;
    parts[t] = lw__b_unsqueeze(c, loop->collected[step * loop->scan_count + k], axis);
  }
  return lw__b_concat(c, parts, (uint32_t)loop->steps, axis);
}

/* True or false; anything else cannot be unrolled. */
static bool control_goes_on(lw_call *c, lw_value_id condition) {
  double known = 1;
  if (condition != LW_NONE && lw__call_ok(c) && !lw__call_known_scalar(c, condition, &known)) {
    lw__call_unsupported(c, "a loop whose end is computed from data");
  }
  return lw__call_ok(c) && known != 0;
}

void lw__op_loop(lw_call *c) {
  lw_control_loop loop = {.body = control_graph(c, "body")};
  int64_t most = lw__call_number(c, 0, INT64_MAX);
  lw_value_id condition = lw__call_in(c, 1);
  if (!lw__call_ok(c)) return;
  uint32_t carried = loop.body->inputs.count < 2 ? 0 : loop.body->inputs.count - 2;
  if (loop.body->inputs.count < 2 || carried + 2 < c->in_count ||
      loop.body->outputs.count < carried + 1 || c->out_count > loop.body->outputs.count - 1) {
    lw__call_invalid(c, "its body does not fit");
    return;
  }
  loop.scan_first = carried + 1;
  bool endless = most > CONTROL_STEPS_MAX && condition != LW_NONE;
  if (!control_begin(c, &loop, endless ? CONTROL_STEPS_MAX : most)) return;
  for (uint32_t k = 0; k < carried; k++) {
    loop.in[2 + k] = lw__call_in(c, 2 + k);
  }
  while (loop.steps < most && control_goes_on(c, condition)) {
    if (loop.steps == CONTROL_STEPS_MAX)
      lw__call_unsupported(c, "a loop of more than %d steps", CONTROL_STEPS_MAX);
    loop.in[0] = lw__b_const(c, LW_DTYPE_I64, &(lw_shape){0}, &loop.steps);
    loop.in[1] = condition != LW_NONE ? condition : lw__b_scalar(c, LW_DTYPE_BOOL, 1);
    control_step(c, &loop);
    if (!lw__call_ok(c)) return;
    condition = loop.out[0];
    for (uint32_t k = 0; k < carried; k++)
      loop.in[2 + k] = loop.out[1 + k] == LW_IMPORT_ABSENT ? LW_NONE : loop.out[1 + k];
  }
  for (uint32_t i = 0; i < c->out_count; i++) {
    if (!lw__call_wants(c, i)) continue;
    lw__call_out(c, i,
                 i < carried ? loop.in[2 + i] : control_stack(c, &loop, i - carried, 0, false));
  }
}

/* Entry |i| of an attribute that may be left out. */
static int64_t control_entry(lw_call *c, const char *name, uint32_t i, uint32_t count) {
  uint32_t given;
  const int64_t *values = lw__call_ints(c, name, &given);
  if (given != 0 && given != count)
    lw__call_invalid(c, "%s has %u entries for %u", name, given, count);
  return given == count && lw__call_ok(c) ? values[i] : 0;
}

void lw__op_scan(lw_call *c) {
  lw_control_loop loop = {.body = control_graph(c, "body")};
  int64_t scans = lw__call_int(c, "num_scan_inputs", 0), steps = -1;
  if (!lw__call_ok(c)) return;
  if (scans < 1 || scans > c->in_count || loop.body->inputs.count != c->in_count) {
    lw__call_invalid(c, "num_scan_inputs=%lld of %u inputs", (long long)scans, c->in_count);
    return;
  }
  uint32_t inputs = (uint32_t)scans, states = c->in_count - inputs;
  if (loop.body->outputs.count < states || c->out_count > loop.body->outputs.count) {
    lw__call_invalid(c, "its body does not fit");
    return;
  }
  loop.scan_first = states;
  for (uint32_t k = 0; k < inputs && lw__call_ok(c); k++) {
    lw_value_id x = lw__call_in(c, states + k);
    uint32_t axis =
        lw__call_axis(c, control_entry(c, "scan_input_axes", k, inputs), lw__b_rank(c, x));
    int64_t length = lw__call_static(c, lw__b_dim(c, x, axis));
    if (steps >= 0 && steps != length) lw__call_invalid(c, "its inputs have different lengths");
    steps = length;
  }
  if (!control_begin(c, &loop, steps)) return;
  for (uint32_t k = 0; k < states; k++) loop.in[k] = lw__call_in(c, k);
  for (int64_t t = 0; t < steps && lw__call_ok(c); t++) {
    for (uint32_t k = 0; k < inputs; k++) {
      lw_value_id x = lw__call_in(c, states + k);
      uint32_t axis =
          lw__call_axis(c, control_entry(c, "scan_input_axes", k, inputs), lw__b_rank(c, x));
      int64_t at = control_entry(c, "scan_input_directions", k, inputs) != 0 ? steps - 1 - t : t;
      loop.in[states + k] = lw__b_squeeze(c, lw__b_slice(c, x, axis, at, 1, 1), axis);
    }
    control_step(c, &loop);
    for (uint32_t k = 0; k < states && lw__call_ok(c); k++) loop.in[k] = loop.out[k];
  }
  for (uint32_t i = 0; i < c->out_count && lw__call_ok(c); i++) {
    if (!lw__call_wants(c, i)) continue;
    uint32_t k = i - states;
    if (i < states)
      lw__call_out(c, i, loop.in[i]);
    else
      lw__call_out(
          c, i,
          control_stack(c, &loop, k, control_entry(c, "scan_output_axes", k, loop.scan_count),
                        control_entry(c, "scan_output_directions", k, loop.scan_count) != 0));
  }
}

/* suite.c: the conformance suite through the whole compiler on the CPU: every case is imported,
 * interpreted, compiled fused and unfused to C, and run; all kernels of a batch of cases go into
 * few C files, since nearly all of the time is the C compiler's. usage: onnx_suite FOLDER FLAGS N
 * [PATTERN ...] FOLDER: what tools/onnx_dump made; FLAGS: of the C compiler; one case of N is
 * taken. One line per case: "pass NAME", "skip NAME reason" or "fail NAME reason"; tools/onnx_suite
 * judges them. */
#include <fnmatch.h>
#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "api/npy.h"
#include "api/pipeline.h"
#include "compiler/emit/emit.h"
#include "compiler/onnx/import.h"
#include "graph/interp.h"
#include "runtime/runtime.h"

enum {
  batch_max = 96,
  kernels_per_unit = 100,
  ports_max = 64,
  fixed_floats_max = 8,
  fixed_integers_max = 64
};

typedef enum suite_mode { MODE_UNFUSED, MODE_FUSED, MODE_COUNT } suite_mode;
static const char *const mode_names[MODE_COUNT] = {"unfused", "fused"};

typedef struct suite_case {
  char name[200];
  double rtol, atol;
  char skip[300], failed[600]; /* "" while neither */
  char in_names[ports_max][128];
  uint32_t in_count, out_count;
  uint32_t in_of[ports_max];                           /* input of the graph -> array */
  uint32_t count_of[ports_max], count_axis[ports_max]; /* output -> the one with its count */
  lw_npy in[ports_max], want[ports_max];
  lw_graph graph;
  bool has_graph, network;
  lw_compiled compiled[MODE_COUNT];
} suite_case;

typedef struct suite {
  const char *folder, *flags;
  uint32_t every, seen;
  lw_rt_device *device;
  suite_case *cases; /* of the batch */
  uint32_t count;
  lw_arena arena; /* the batch's */
  lw_map known;   /* kernel name -> index below */
  LW_VEC(const lw_kernel *) kernels;
  LW_VEC(const char *) names;
  LW_VEC(lw_build_job) jobs;
  uint64_t kernels_built;
  int64_t compile_ns, build_ns, run_ns;
} suite;

static void fail(suite_case *s, const char *mode, const char *fmt, ...) LW_PRINTF(3, 4);
static void fail(suite_case *s, const char *mode, const char *fmt, ...) {
  va_list args;
  if (s->failed[0] != '\0') return;
  int n = snprintf(s->failed, sizeof s->failed, "%s: ", mode);
  va_start(args, fmt);
  (void)vsnprintf(s->failed + n, sizeof s->failed - (size_t)n, fmt, args);
  va_end(args);
}

static void fail_status(suite_case *s, const char *mode, lw_status status, lw_diag *diag) {
  const char *text = diag->messages.count == 0 ? "" : diag->messages.data[0].text;
  if (status != LW_OK) fail(s, mode, "%s: %s", lw_status_name(status), text);
  lw__diag_deinit(diag);
}

/* Networks compute for long: built like a user's, fused, without the oracle. */
static suite_mode first_mode(const suite_case *s) { return s->network ? MODE_FUSED : MODE_UNFUSED; }

/* ---- one case ---------------------------------------------------------------------------------*/

static bool case_read(const suite *t, suite_case *s) {
  lw_diag diag = {0};
  lw_status status = LW_OK;
  for (uint32_t i = 0; i < s->in_count + s->out_count && status == LW_OK; i++) {
    char path[1024];
    bool in = i < s->in_count;
    (void)snprintf(path, sizeof path, "%s/%s/%s_%u.npy", t->folder, s->name, in ? "in" : "out",
                   in ? i : i - s->in_count);
    status = lw__npy_read(path, &diag, in ? &s->in[i] : &s->want[i - s->in_count]);
  }
  fail_status(s, "data", status, &diag);
  return s->failed[0] == '\0';
}

/* "op (domain opset N), node 'x': reason" -> "op: reason" */
static void take_reason(suite_case *s, const char *text) {
  const char *op = strstr(text, "\n  "), *end = op == NULL ? NULL : strchr(op + 3, ' ');
  const char *reason = op == NULL ? NULL : strstr(op, ": ");
  if (end == NULL || reason == NULL) {
    (void)snprintf(s->skip, sizeof s->skip, "%s", text);
  } else {
    (void)snprintf(s->skip, sizeof s->skip, "%.*s%.*s", (int)(end - op - 3), op + 3,
                   (int)strcspn(reason, "\n"), reason);
  }
}

/* Outputs behind those that the case knows say how much of another one counts: "name#axis". */
static bool case_take_counts(suite_case *s) {
  const lw_graph *g = &s->graph;
  for (uint32_t i = 0; i < ports_max; i++) s->count_of[i] = LW_NONE;
  for (uint32_t k = s->out_count; k < g->outputs.count && k < ports_max; k++) {
    const char *mark = strrchr(g->output_names.data[k], '#');
    size_t length = mark == NULL ? 0 : (size_t)(mark - g->output_names.data[k]);
    for (uint32_t i = 0; i < s->out_count && mark != NULL; i++) {
      const char *name = g->output_names.data[i];
      if (strlen(name) != length || memcmp(name, g->output_names.data[k], length) != 0) continue;
      s->count_of[i] = k;
      s->count_axis[i] = (uint32_t)strtoul(mark + 1, NULL, 10);
      mark = NULL;
    }
    if (mark != NULL || length == 0) return false;
  }
  return g->outputs.count >= s->out_count && g->outputs.count <= ports_max;
}

/* A small input that may decide shapes, as numbers. */
static bool small_input(const lw_npy *npy, lw_arena *arena, lw_import_fixed *out) {
  lw_shape shape = lw__shape_of((uint32_t)npy->rank, npy->dims);
  int64_t count = lw__shape_numel(&shape), *integers;
  double *floats;
  bool is_float = lw__dtype_is_float(npy->dtype);
  if (count > (is_float ? fixed_floats_max : fixed_integers_max)) return false;
  if (lw__arena_alloc(arena, (size_t)count, sizeof *integers, &integers) != LW_OK) return false;
  if (lw__arena_alloc(arena, (size_t)count, sizeof *floats, &floats) != LW_OK) return false;
  lw_dtype bits = npy->dtype == LW_DTYPE_U16 ? LW_DTYPE_BF16 : npy->dtype; /* for floats */
  for (int64_t i = 0; i < count; i++) {
    floats[i] = lw__elem_get_f64(bits, npy->data, i);
    integers[i] = is_float ? 0 : lw__elem_get_i64(npy->dtype, npy->data, i);
  }
  *out = (lw_import_fixed){out->name, integers, floats, (uint32_t)count};
  return true;
}

/* Shapes are the arrays'. |fix|: small inputs are constants. */
static lw_status import_model(const suite *t, suite_case *s, bool fix, lw_diag *diag) {
  const char *shape_names[ports_max];
  lw_shape shapes[ports_max];
  lw_import_fixed fixed[ports_max];
  lw_import_options options = {.shape_names = shape_names, .shapes = shapes, .fixed = fixed};
  lw_arena arena = {0};
  for (uint32_t i = 0; i < s->in_count; i++) {
    lw_import_fixed *f = &fixed[options.fixed_count];
    f->name = s->in_names[i];
    bool element =
        strchr(f->name, '[') != NULL; /* of a sequence: its shape says that it is there */
    if (fix && !element && small_input(&s->in[i], &arena, f)) {
      options.fixed_count++;
      continue;
    }
    shape_names[options.shape_count] = s->in_names[i];
    shapes[options.shape_count++] = lw__shape_of((uint32_t)s->in[i].rank, s->in[i].dims);
  }
  char path[1024];
  (void)snprintf(path, sizeof path, "%s/%s/model.onnx", t->folder, s->name);
  lw_status status = lw__onnx_import(path, &options, diag, &s->graph);
  lw__arena_deinit(&arena);
  return status;
}

/* Which array each input of the graph takes. */
static bool case_take_inputs(suite_case *s) {
  bool found = s->graph.inputs.count <= s->in_count;
  for (uint32_t k = 0; k < s->graph.inputs.count && found; k++) {
    const char *name = lw__value(&s->graph, s->graph.inputs.data[k])->name;
    uint32_t i = 0;
    while (i < s->in_count && strcmp(s->in_names[i], name) != 0) i++;
    s->in_of[k] = i;
    found = i < s->in_count;
  }
  return found;
}

/* With constants only where it cannot be imported without. */
static void case_import(const suite *t, suite_case *s) {
  lw_diag diag = {0}, again = {0};
  lw_status status = import_model(t, s, false, &diag);
  if (status == LW_STATUS_UNSUPPORTED) {
    lw_status fixed = import_model(t, s, true, &again);
    if (fixed == LW_OK || fixed == LW_STATUS_UNSUPPORTED) status = fixed;
    lw__diag_deinit(&again);
    if (fixed == LW_OK) lw__diag_deinit(&diag);
  }
  s->has_graph = status == LW_OK;
  if (status == LW_STATUS_UNSUPPORTED && diag.messages.count != 0) {
    take_reason(s, diag.messages.data[diag.messages.count - 1].text);
    lw__diag_deinit(&diag);
    return;
  }
  if (status == LW_OK) status = lw__graph_verify(&s->graph, &diag);
  if (status == LW_OK) {
    s->graph.diag = NULL;
    if (!case_take_inputs(s) || !case_take_counts(s))
      fail(s, "import", "%u inputs and %u outputs, want %u and %u", s->graph.inputs.count,
           s->graph.outputs.count, s->in_count, s->out_count);
  }
  fail_status(s, "import", status, &diag);
}

/* bf16 and f8 travel as bits. */
static bool same_type(lw_dtype have, lw_dtype npy) {
  if (have == npy) return true;
  if (have == LW_DTYPE_BF16) return npy == LW_DTYPE_U16;
  return (have == LW_DTYPE_F8E4M3 || have == LW_DTYPE_F8E5M2) && npy == LW_DTYPE_U8;
}

/* Only some entries of output |k| along |d| count. */
static bool is_counted(const suite_case *s, bool in, uint32_t k, uint32_t d) {
  return !in && s->count_of[k] != LW_NONE && s->count_axis[k] == d;
}

static bool case_check_ports(suite_case *s) {
  uint32_t inputs = s->graph.inputs.count;
  for (uint32_t i = 0; i < inputs + s->out_count; i++) {
    bool in = i < inputs;
    uint32_t k = in ? i : i - inputs;
    const lw_npy *npy = in ? &s->in[s->in_of[k]] : &s->want[k];
    const lw_value *v =
        lw__value(&s->graph, in ? s->graph.inputs.data[k] : s->graph.outputs.data[k]);
    bool fits = same_type(v->dtype, npy->dtype) && v->shape.rank == (uint32_t)npy->rank;
    for (uint32_t d = 0; fits && d < v->shape.rank; d++)
      fits = v->shape.dim[d] == npy->dims[d] ||
             (is_counted(s, in, k, d) && v->shape.dim[d] > npy->dims[d]);
    if (fits) continue;
    lw_shape want = lw__shape_of((uint32_t)npy->rank, npy->dims);
    lw_text a = {0}, b = {0};
    lw__shape_print(&s->graph, &v->shape, &a);
    lw__shape_print(&s->graph, &want, &b);
    fail(s, "import", "%s %u is %s%s, want %s%s", in ? "input" : "output", k,
         lw_dtype_name(v->dtype), lw__text_str(&a), lw_dtype_name(npy->dtype), lw__text_str(&b));
    lw__text_deinit(&a);
    lw__text_deinit(&b);
  }
  return s->failed[0] == '\0';
}

/* ---- comparing --------------------------------------------------------------------------------*/

static bool close_enough(const suite_case *s, double got, double want) {
  if (got == want || (isnan(got) && isnan(want))) return true;
  return fabs(got - want) <= s->atol + s->rtol * fabs(want);
}

/* Where element |k| of what is expected stands in output |i|. */
static int64_t place_of(const suite_case *s, uint32_t i, const lw_shape *shape, int64_t k) {
  if (s->count_of[i] == LW_NONE) return k;
  int64_t below = 1, own = s->want[i].dims[s->count_axis[i]];
  for (uint32_t d = s->count_axis[i] + 1; d < shape->rank; d++) below *= shape->dim[d];
  return k / (own * below) * shape->dim[s->count_axis[i]] * below + k % (own * below);
}

/* The count that another output gives must be the expected size. */
static bool count_fits(suite_case *s, const char *mode, uint32_t i, void *const *outputs,
                       const lw_oracle_tensor *ideal) {
  uint32_t k = s->count_of[i];
  if (k == LW_NONE) return true;
  int64_t want = s->want[i].dims[s->count_axis[i]], got;
  got = ideal != NULL ? ideal[k].i[0] : lw__elem_get_i64(LW_DTYPE_I64, outputs[k], 0);
  if (got != want)
    fail(s, mode, "output %u: %lld entries count, want %lld", i, (long long)got, (long long)want);
  return got == want;
}

/* |got| NULL: the oracle's |ideal|, rounded, where it can tell. */
static void compare_output(suite_case *s, const char *mode, uint32_t i, const void *got,
                           const lw_oracle_tensor *ideal) {
  const lw_value *v = lw__value(&s->graph, s->graph.outputs.data[i]);
  int64_t bad = 0, first = 0, count = 1;
  for (int d = 0; d < s->want[i].rank; d++) count *= s->want[i].dims[d];
  double first_got = 0, first_want = 0;
  for (int64_t k = 0; k < count; k++) {
    double g, w;
    bool same;
    int64_t at = place_of(s, i, &v->shape, k);
    if (ideal != NULL && isinf(ideal->bound[at])) continue;
    if (lw__dtype_is_float(v->dtype)) {
      w = lw__elem_get_f64(v->dtype, s->want[i].data, k);
      g = got != NULL ? lw__elem_get_f64(v->dtype, got, at) : lw__round_to(v->dtype, ideal->f[at]);
      same = close_enough(s, g, w);
    } else {
      int64_t gi = got != NULL ? lw__elem_get_i64(v->dtype, got, at) : ideal->i[at];
      int64_t wi = lw__elem_get_i64(v->dtype, s->want[i].data, k);
      same = gi == wi;
      g = (double)gi;
      w = (double)wi;
    }
    if (same) continue;
    if (bad++ != 0) continue;
    first = k;
    first_got = g;
    first_want = w;
  }
  if (bad != 0)
    fail(s, mode, "output %u: %lld of %lld differ, element %lld is %.9g, want %.9g", i,
         (long long)bad, (long long)count, (long long)first, first_got, first_want);
}

static void case_interpret(suite_case *s) {
  lw_host_tensor inputs[ports_max];
  lw_oracle_tensor results[ports_max] = {0};
  lw_arena arena = {0};
  lw_diag diag = {0};
  for (uint32_t i = 0; i < s->graph.inputs.count; i++) {
    const lw_value *v = lw__value(&s->graph, s->graph.inputs.data[i]);
    inputs[i] = (lw_host_tensor){v->dtype, v->shape, s->in[s->in_of[i]].data};
  }
  lw_status status =
      lw__interp_run(&s->graph, LW_INTERP_IDEAL, inputs, &arena, (size_t)4 << 30, &diag, results);
  fail_status(s, "oracle", status, &diag);
  for (uint32_t i = 0; i < s->out_count && status == LW_OK; i++)
    if (count_fits(s, "oracle", i, NULL, results))
      compare_output(s, "oracle", i, NULL, &results[i]);
  lw__arena_deinit(&arena);
}

/* ---- compiling, building, running -------------------------------------------------------------*/

static lw_status add_kernels(suite *t, const lw_compiled *c) {
  for (uint32_t k = 0; k < c->kernels.count; k++) {
    const char *name = c->plan.kernels.data[k].name;
    bool added;
    LW_TRY(lw__map_put(&t->known, lw__str_of(name), t->kernels.count, &added, NULL));
    if (!added) continue;
    LW_TRY(lw_vec_push(&t->kernels, c->kernels.data[k]));
    LW_TRY(lw_vec_push(&t->names, name));
  }
  return LW_OK;
}

static void case_compile(suite *t, suite_case *s) {
  for (suite_mode m = first_mode(s); m < MODE_COUNT && s->failed[0] == '\0'; m++) {
    lw_compile_options options = {.profile = lw__device_profile_find("cpu")};
    options.policy = lw__resource_policy_find("opt-in");
    options.fuse.off = m == MODE_UNFUSED;
    lw_diag diag = {0};
    lw_status status = lw__compile(&s->graph, &options, false, &diag, &s->compiled[m]);
    if (status == LW_OK) status = add_kernels(t, &s->compiled[m]);
    fail_status(s, mode_names[m], status, &diag);
  }
}

static lw_status emit_units(suite *t) {
  for (uint32_t i = 0; i < t->kernels.count; i += kernels_per_unit) {
    uint32_t left = t->kernels.count - i, count = left < kernels_per_unit ? left : kernels_per_unit;
    lw_build_job job = {.entries = &t->names.data[i], .entry_count = count};
    lw_text text = {0};
    lw_status status = lw__emit_c(&t->kernels.data[i], &t->names.data[i], count, &text);
    if (status == LW_OK) status = text.status;
    if (status == LW_OK)
      status = lw__arena_strndup(&t->arena, lw__text_str(&text), text.len, &job.source);
    lw__text_deinit(&text);
    LW_TRY(status);
    LW_TRY(lw_vec_push(&t->jobs, job));
  }
  return LW_OK;
}

static bool build_batch(suite *t) {
  lw_build_options options = {.path = getenv("PATH"), .limit_s = 600};
  options.cflags_extra = t->cases[0].network ? NULL : t->flags;
  lw_diag diag = {0};
  lw_status status = emit_units(t);
  if (status == LW_OK)
    status = lw__build_cpu(t->jobs.data, t->jobs.count, &options, NULL, &t->arena, &diag);
  for (uint32_t i = 0; i < diag.messages.count; i++)
    fprintf(stderr, "%s: %s\n", diag.messages.data[i].where, diag.messages.data[i].text);
  lw__diag_deinit(&diag);
  t->kernels_built += t->kernels.count;
  return status == LW_OK;
}

static void give_images(const suite *t, lw_plan *plan) {
  for (uint32_t k = 0; k < plan->kernels.count; k++) {
    lw_plan_kernel *kernel = &plan->kernels.data[k];
    uint32_t index = lw__map_get(&t->known, lw__str_of(kernel->name));
    kernel->image = t->jobs.data[index / kernels_per_unit].image;
    kernel->image_bytes = t->jobs.data[index / kernels_per_unit].image_bytes;
  }
}

static size_t output_bytes(const suite_case *s, uint32_t i) {
  const lw_value *v = lw__value(&s->graph, s->graph.outputs.data[i]);
  return (size_t)lw__shape_numel(&v->shape) * lw_dtype_size_bytes(v->dtype);
}

static lw_status run_plan(suite *t, suite_case *s, const lw_plan *plan, void **outputs,
                          lw_diag *diag) {
  lw_rt_program *program = NULL;
  lw_rt_context *context = NULL;
  lw_status status = lw__rt_program_load(t->device, plan, diag, &program);
  if (status == LW_OK) status = lw__rt_context_create(program, diag, &context);
  for (uint32_t i = 0; i < s->graph.inputs.count && status == LW_OK; i++) {
    const lw_npy *npy = &s->in[s->in_of[i]];
    status = lw__rt_bind_input(context, i, npy->data, npy->bytes, false);
  }
  for (uint32_t i = 0; i < s->graph.outputs.count && status == LW_OK; i++)
    status = lw__rt_bind_output(context, i, outputs[i], output_bytes(s, i), false);
  if (status == LW_OK) status = lw__rt_run(context, diag);
  if (context != NULL) lw__rt_context_destroy(context);
  if (program != NULL) lw__rt_program_release(program);
  return status;
}

static void case_run(suite *t, suite_case *s, suite_mode m) {
  void *outputs[ports_max] = {0};
  lw_arena arena = {0};
  lw_diag diag = {0};
  lw_status status = LW_OK;
  give_images(t, &s->compiled[m].plan);
  for (uint32_t i = 0; i < s->graph.outputs.count && status == LW_OK; i++) {
    status = lw__arena_alloc(&arena, output_bytes(s, i) + 1, 1, &outputs[i]);
    if (status == LW_OK) memset(outputs[i], 0xff, output_bytes(s, i) + 1);
  }
  if (status == LW_OK) status = run_plan(t, s, &s->compiled[m].plan, outputs, &diag);
  fail_status(s, mode_names[m], status, &diag);
  for (uint32_t i = 0; i < s->out_count && status == LW_OK; i++)
    if (count_fits(s, mode_names[m], i, outputs, NULL))
      compare_output(s, mode_names[m], i, outputs[i], NULL);
  lw__arena_deinit(&arena);
}

/* ---- batches ----------------------------------------------------------------------------------*/

static void case_deinit(suite_case *s) {
  for (suite_mode m = 0; m < MODE_COUNT; m++) lw__compiled_deinit(&s->compiled[m]);
  if (s->has_graph) lw__graph_deinit(&s->graph);
  for (uint32_t i = 0; i < s->in_count; i++) lw__npy_deinit(&s->in[i]);
  for (uint32_t i = 0; i < s->out_count; i++) lw__npy_deinit(&s->want[i]);
}

static void case_prepare(suite *t, suite_case *s) {
  if (s->skip[0] != '\0' || !case_read(t, s)) return;
  case_import(t, s);
  if (s->skip[0] != '\0' || s->failed[0] != '\0' || !case_check_ports(s)) return;
  if (!s->network) case_interpret(s);
  case_compile(t, s);
}

static void report(const suite_case *s) {
  const char *word = s->failed[0] != '\0' ? "fail" : s->skip[0] != '\0' ? "skip" : "pass";
  printf("%s %s %s\n", word, s->name, s->failed[0] != '\0' ? s->failed : s->skip);
}

static void batch_end(suite *t) {
  for (uint32_t i = 0; i < t->count; i++) {
    report(&t->cases[i]);
    case_deinit(&t->cases[i]);
    memset(&t->cases[i], 0, sizeof t->cases[i]);
  }
  fflush(stdout);
  t->count = t->kernels.count = t->names.count = t->jobs.count = 0;
  lw__map_deinit(&t->known);
  t->known = (lw_map){0};
  lw__arena_deinit(&t->arena);
  t->arena = (lw_arena){0};
}

static void run_batch(suite *t) {
  if (t->count == 0) return;
  int64_t start = lw__now_ns();
  for (uint32_t i = 0; i < t->count; i++) case_prepare(t, &t->cases[i]);
  int64_t compiled = lw__now_ns();
  bool built = build_batch(t);
  int64_t done = lw__now_ns();
  for (uint32_t i = 0; i < t->count; i++) {
    suite_case *s = &t->cases[i];
    if (!built) fail(s, "build", "the batch was not built");
    for (suite_mode m = first_mode(s); m < MODE_COUNT; m++)
      if (s->skip[0] == '\0' && s->failed[0] == '\0') case_run(t, s, m);
  }
  t->compile_ns += compiled - start;
  t->build_ns += done - compiled;
  t->run_ns += lw__now_ns() - done;
  batch_end(t);
}

static bool wanted(const char *name, char **patterns, int count) {
  const char *base = strrchr(name, '/');
  for (int i = 0; i < count; i++)
    if (fnmatch(patterns[i], base == NULL ? name : base + 1, 0) == 0) return true;
  return count == 0;
}

/* A line of index.txt that says more about case |s|. */
static void index_line(suite_case *s, const char *line) {
  if (strncmp(line, "in ", 3) == 0 && s->in_count < ports_max)
    (void)snprintf(s->in_names[s->in_count++], sizeof s->in_names[0], "%.120s", line + 3);
  if (strncmp(line, "out ", 4) == 0 && s->out_count < ports_max) s->out_count++;
  if (strncmp(line, "skip ", 5) == 0) (void)snprintf(s->skip, sizeof s->skip, "%.200s", line + 5);
}

static int run_index(suite *t, FILE *index, char **patterns, int pattern_count) {
  char line[4096];
  suite_case *s = NULL;
  while (fgets(line, sizeof line, index) != NULL) {
    line[strcspn(line, "\n")] = '\0';
    char name[200];
    double rtol, atol;
    if (sscanf(line, "case %199s %lf %lf", name, &rtol, &atol) != 3) {
      if (s != NULL) index_line(s, line);
      continue;
    }
    s = NULL;
    if (!wanted(name, patterns, pattern_count) || t->seen++ % t->every != 0) continue;
    bool network = strncmp(name, "real/", 5) == 0; /* alone: its weights take much memory */
    if (t->count == batch_max || network) run_batch(t);
    s = &t->cases[t->count++];
    s->network = network;
    s->rtol = rtol;
    s->atol = atol;
    (void)snprintf(s->name, sizeof s->name, "%s", name);
  }
  run_batch(t);
  fprintf(stderr, "seconds: compiling %.1f, C compiler %.1f, running %.1f; %llu kernels\n",
          (double)t->compile_ns * 1e-9, (double)t->build_ns * 1e-9, (double)t->run_ns * 1e-9,
          (unsigned long long)t->kernels_built);
  return 0;
}

int main(int argc, char **argv) {
  static suite t;
  char path[1024];
  lw_rt_device_options options = {.threads = 2};
  lw_diag diag = {0};
  if (argc < 4 || atoi(argv[3]) < 1) return 2;
  t.folder = argv[1];
  t.flags = argv[2];
  t.every = (uint32_t)atoi(argv[3]);
  t.cases = calloc(batch_max, sizeof *t.cases);
  (void)snprintf(path, sizeof path, "%s/index.txt", t.folder);
  FILE *index = fopen(path, "r");
  if (index == NULL || t.cases == NULL ||
      lw__rt_device_open("cpu", &options, &diag, &t.device) != LW_OK) {
    fprintf(stderr, "%s: no suite there, or no device\n", path);
    return 2;
  }
  int code = run_index(&t, index, &argv[4], argc - 4);
  fclose(index);
  lw__rt_device_release(t.device);
  lw_vec_free(&t.kernels);
  lw_vec_free(&t.names);
  lw_vec_free(&t.jobs);
  free(t.cases);
  return code;
}

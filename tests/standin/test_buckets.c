/* Models with an open batch, run in buckets: on the CPU, and on the look-alikes of the driver and
 * of NVRTC. 200 calls with batches from {10, 13, 16, 19, 22} and then from 1 to 64 make at most 7
 * graphs; what was met once is not compiled again; device memory stays flat; results are those of
 * models that were compiled for the very size. */
#include <dlfcn.h>
#include <math.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include <cmocka.h>

#include "api/shapes.h"
#include "base/base.h"
#include "graph/graph.h"
#include "lawson/tools.h"
#include "runtime/internal.h"
#include "standin/standin.h"

enum { WIDE = 24, HIDDEN = 40, TOKENS = 3, MOST = 64, OUTPUTS = 2 };

/* A network of the usual parts; the second output has the batch inside, the third input is turned.
 */
static const char network[] =
    "%x = input f32[batch, 3, 24]\n"
    "%z = input f32[24, batch]\n"
    "%w = const f32[24, 40] fill(1)\n"
    "%3 = reshape f32[3*batch, 24] %x ; flat\n"
    "%4 = dot f32[3*batch, 40] %3, %w ; fc1\n"
    "%5 = map.tanh f32[3*batch, 40] %4 ; act\n"
    "%6 = reduce.max f32[3*batch] %5 axes=[1] ; softmax\n"
    "%7 = reshape f32[3*batch, 1] %6 ; softmax\n"
    "%8 = expand f32[3*batch, 40] %7 ; softmax\n"
    "%9 = map.sub f32[3*batch, 40] %5, %8 ; softmax\n"
    "%10 = map.exp f32[3*batch, 40] %9 ; softmax\n"
    "%11 = reduce.sum f32[3*batch] %10 axes=[1] ; softmax\n"
    "%12 = reshape f32[3*batch, 1] %11 ; softmax\n"
    "%13 = expand f32[3*batch, 40] %12 ; softmax\n"
    "%14 = map.div f32[3*batch, 40] %10, %13 ; softmax\n"
    "%15 = const f32[40, 24] fill(2)\n"
    "%16 = dot f32[3*batch, 24] %14, %15 ; fc2\n"
    "%17 = reshape f32[batch, 3, 24] %16 ; unflat\n"
    "%18 = permute f32[batch, 24] %z perm=[1, 0] ; turn\n"
    "%19 = reshape f32[batch, 1, 24] %18 ; turn\n"
    "%20 = expand f32[batch, 3, 24] %19 ; turn\n"
    "%21 = map.add f32[batch, 3, 24] %17, %20 ; add\n"
    "%22 = permute f32[3, batch, 24] %21 perm=[1, 0, 2] ; heads\n"
    "%23 = reduce.sum f32[batch, 3] %21 axes=[2] ; rows\n"
    "output y %22\n"
    "output s %23\n";

#define MEMBER(name, symbol, parameters) static lw_cu_result(*cu_##name) parameters;
LW_CU_SYMBOLS(MEMBER)
#undef MEMBER
static lw_standin_state *standin;

typedef struct tensors { /* of one run with |batch| rows */
  int64_t batch;
  float x[MOST * TOKENS * WIDE], z[WIDE * MOST], y[TOKENS * MOST * WIDE], s[MOST * TOKENS];
} tensors;

/* Rows are the same in every batch, so larger runs know the results of smaller ones. */
static float element(int64_t row, int64_t k) { return sinf((float)(row * 977 + k * 31)); }

static void fill(tensors *t, int64_t batch) {
  t->batch = batch;
  for (int64_t r = 0; r < batch; r++) {
    for (int64_t k = 0; k < TOKENS * WIDE; k++) t->x[r * TOKENS * WIDE + k] = element(r, k);
    for (int64_t k = 0; k < WIDE; k++) t->z[k * batch + r] = element(r, 1000 + k);
  }
  memset(t->y, 0xff, sizeof t->y);
  memset(t->s, 0xff, sizeof t->s);
}

static lw_status bind(lw_context *c, tensors *t) {
  const int64_t b = t->batch;
  const int64_t x[3] = {b, TOKENS, WIDE}, z[2] = {WIDE, b}, y[3] = {TOKENS, b, WIDE};
  const int64_t s[2] = {b, TOKENS};
  const lw_tensor in[2] = {{.data = t->x, .dtype = LW_DTYPE_F32, .rank = 3, .dims = x},
                           {.data = t->z, .dtype = LW_DTYPE_F32, .rank = 2, .dims = z}};
  const lw_tensor out[2] = {{.data = t->y, .dtype = LW_DTYPE_F32, .rank = 3, .dims = y},
                            {.data = t->s, .dtype = LW_DTYPE_F32, .rank = 2, .dims = s}};
  for (size_t i = 0; i < 2; i++) LW_TRY(lw_context_bind_input(c, i, &in[i]));
  for (size_t i = 0; i < 2; i++) LW_TRY(lw_context_bind_output(c, i, &out[i]));
  return LW_OK;
}

static void run(lw_context *c, tensors *t, int64_t batch) {
  fill(t, batch);
  lw_status status = bind(c, t);
  if (status == LW_OK) status = lw_context_run(c);
  if (status != LW_OK) fail_msg("batch %lld: %s", (long long)batch, lw_context_error(c));
}

static void same_rows(const tensors *got, const tensors *want) {
  for (int64_t t = 0; t < TOKENS; t++) {
    for (int64_t r = 0; r < got->batch; r++) {
      for (int64_t k = 0; k < WIDE; k++) {
        float a = got->y[(t * got->batch + r) * WIDE + k];
        float b = want->y[(t * want->batch + r) * WIDE + k];
        if (!(fabsf(a - b) <= 2e-6f * (1 + fabsf(b))))
          fail_msg("batch %lld row %lld: %g, not %g", (long long)got->batch, (long long)r,
                   (double)a, (double)b);
      }
      float a = got->s[r * TOKENS + t], b = want->s[r * TOKENS + t];
      if (!(fabsf(a - b) <= 4e-5f * (1 + fabsf(b))))
        fail_msg("batch %lld row %lld: sum %g, not %g", (long long)got->batch, (long long)r,
                 (double)a, (double)b);
    }
  }
}

static void options_set(lw_options *o, const char *name, const char *value) {
  if (lw_options_set(o, name, value) != LW_OK) fail_msg("%s", lw_options_error(o));
}

static lw_options *options_for(const char *device, const char *dim, const char *max_shapes) {
  lw_options *o;
  assert_int_equal(lw_options_create(&o), LW_OK);
  options_set(o, "device", device);
  options_set(o, "threads", "2");
  options_set(o, "cuda", LW_BUILD_DIR "/libcuda_standin.so");
  options_set(o, "nvrtc", LW_BUILD_DIR "/libnvrtc_standin.so");
  if (dim != NULL) options_set(o, "dim", dim);
  if (max_shapes != NULL) options_set(o, "max_shapes", max_shapes);
  return o;
}

static lw_model *load(const char *text, const char *device, const char *dim,
                      const char *max_shapes) {
  lw_graph graph;
  lw_diag diag = {0};
  if (lw__graph_parse(lw__str_of(text), &diag, &graph) != LW_OK)
    fail_msg("%s", lw__diag_first_error(&diag));
  lw_options *o = options_for(device, dim, max_shapes);
  lw_model *m;
  if (lw_model_compile(&graph, o, &m) != LW_OK) fail_msg("%s", lw_model_error(m));
  lw_options_destroy(o);
  lw__graph_deinit(&graph);
  lw__diag_deinit(&diag);
  return m;
}

static lw_context *context_of(lw_model *m) {
  lw_context *c;
  if (lw_context_create(m, &c) != LW_OK) fail_msg("%s", lw_context_error(c));
  return c;
}

/* ---- 200 calls ----- */

static int64_t batch_at(lw_rng *rng, int call) {
  static const int64_t first[] = {10, 13, 16, 19, 22};
  return call < 50 ? first[lw__rng_range(rng, 0, 5)] : lw__rng_range(rng, 1, 65);
}

static void many_batches(const char *device) {
  static tensors got, want;
  lw_model *whole = load(network, device, "batch=64", NULL);
  lw_context *reference = context_of(whole);
  run(reference, &want, MOST);
  lw_context_destroy(reference);
  lw_model_destroy(whole);
  lw_model *m = load(network, device, "batch=1,2,4,8:64", NULL);
  assert_int_equal(lw_model_message_count(m), 0);
  assert_int_equal(lw_model_input(m, 0)->dims[0], -1);
  lw_context *c = context_of(m);
  lw_rng rng;
  lw__rng_seed(&rng, 7);
  for (int call = 0; call < 200; call++) {
    run(c, &got, batch_at(&rng, call));
    same_rows(&got, &want);
  }
  lw_shape_stats first, after;
  lw_stats stats, later;
  lw_context_shape_stats(c, &first);
  lw_context_stats(c, &stats);
  assert_in_range(first.compiled, 1, 7);
  assert_in_range(first.ready, 1, 7);
  uint64_t memory = standin->live_memory, graphs = standin->live_graphs;
  if (strcmp(device, "cuda") == 0) assert_in_range(graphs, 1, 14); /* and what they were made of */
  for (int call = 0; call < 200; call++) {
    run(c, &got, batch_at(&rng, call));
    same_rows(&got, &want);
  }
  lw_context_shape_stats(c, &after);
  lw_context_stats(c, &later);
  assert_memory_equal(&first, &after, sizeof first);
  assert_int_equal(stats.arena_bytes, later.arena_bytes);
  assert_int_equal(standin->live_memory, memory);
  assert_int_equal(standin->live_graphs, graphs);
  lw_context_destroy(c);
  lw_model_destroy(m);
  if (standin->violations != 0) fail_msg("%s", standin->violation);
}

static void many_batches_on_the_cpu(void **state) {
  (void)state;
  many_batches("cpu");
}

static void many_batches_on_cuda(void **state) {
  (void)state;
  many_batches("cuda");
  assert_int_equal(standin->live_memory, 0);
  assert_int_equal(standin->live_graphs, 0);
}

static void equal_to_models_of_the_very_size(void **state) {
  (void)state;
  static tensors got, want;
  static const char *const sizes[] = {"batch=10", "batch=13", "batch=22"};
  lw_model *m = load(network, "cuda", "batch=auto", NULL);
  lw_context *c = context_of(m);
  for (size_t i = 0; i < LW_ARRAY_COUNT(sizes); i++) {
    lw_model *exact = load(network, "cuda", sizes[i], NULL);
    lw_context *reference = context_of(exact);
    run(reference, &want, strtoll(sizes[i] + 6, NULL, 10));
    run(c, &got, want.batch);
    same_rows(&got, &want);
    lw_context_destroy(reference);
    lw_model_destroy(exact);
  }
  lw_shape_stats stats;
  lw_context_shape_stats(c, &stats);
  assert_int_equal(stats.compiled, 2); /* 16 and 32 */
  lw_context_destroy(c);
  lw_model_destroy(m);
}

/* NaNs of a full bucket stay in the rows that nobody asked for. */
static void rows_of_an_earlier_run_reach_nobody(void **state) {
  (void)state;
  static tensors got, want, poison;
  lw_model *m = load(network, "cpu", "batch=8:8", NULL);
  lw_context *c = context_of(m);
  run(c, &want, 8);
  fill(&poison, 8);
  for (size_t i = 0; i < LW_ARRAY_COUNT(poison.x); i++) poison.x[i] = NAN;
  for (size_t i = 0; i < LW_ARRAY_COUNT(poison.z); i++) poison.z[i] = NAN;
  assert_int_equal(bind(c, &poison), LW_OK);
  assert_int_equal(lw_context_run(c), LW_OK);
  for (int64_t batch = 7; batch >= 1; batch--) {
    run(c, &got, batch);
    same_rows(&got, &want);
  }
  lw_context_destroy(c);
  lw_model_destroy(m);
}

/* ---- weights ----- */

static void run_image(lw_context *c, int64_t batch, float *y) {
  static float x[4 * 8 * 16 * 16];
  const int64_t in_dims[4] = {batch, 8, 16, 16}, out_dims[4] = {batch, 24, 16, 16};
  for (int64_t i = 0; i < batch * 8 * 256; i++) x[i] = element(i / 2048, i % 2048);
  const lw_tensor in = {.data = x, .dtype = LW_DTYPE_F32, .rank = 4, .dims = in_dims};
  const lw_tensor out = {.data = y, .dtype = LW_DTYPE_F32, .rank = 4, .dims = out_dims};
  assert_int_equal(lw_context_bind_input(c, 0, &in), LW_OK);
  assert_int_equal(lw_context_bind_output(c, 0, &out), LW_OK);
  if (lw_context_run(c) != LW_OK) fail_msg("%s", lw_context_error(c));
}

/* What the first shape has on the device, the init program's work as well, others use. */
static void weights_are_on_the_device_once(void **state) {
  (void)state;
  static const char text[] =
      "%x = input f32[batch, 8, 16, 16]\n%w = const f32[24, 8, 3, 3] fill(6)\n"
      "%2 = conv f32[batch, 24, 16, 16] %x, %w pad_lo=[1, 1] pad_hi=[1, 1]\noutput y %2\n";
  static float whole[4 * 24 * 256], part[4 * 24 * 256];
  static const char *const devices[] = {"cpu", "cuda"};
  for (size_t k = 0; k < LW_ARRAY_COUNT(devices); k++) {
    lw_model *m = load(text, devices[k], "batch=1,2,4", NULL);
    lw_context *c = context_of(m);
    run_image(c, 4, whole);
    for (int64_t batch = 1; batch <= 2; batch++) {
      run_image(c, batch, part);
      for (int64_t i = 0; i < batch * 24 * 256; i++) {
        if (!(fabsf(part[i] - whole[i]) <= 1e-4f)) fail_msg("batch %d", (int)batch);
      }
    }
    assert_int_equal(m->shapes->variants.count, 3);
    for (uint32_t v = 0; v < 3; v++) {
      const lw_variant *variant = m->shapes->variants.data[v];
      uint64_t own = variant->model->program->own_weight_bytes;
      if (variant == m->shapes->base) assert_true(own > 0);
      if (variant != m->shapes->base) assert_int_equal(own, 0);
    }
    lw_context_destroy(c);
    lw_model_destroy(m);
  }
}

/* ---- the least recently used goes ----- */

static void the_oldest_shape_goes(void **state) {
  (void)state;
  static tensors t;
  static const int64_t order[] = {1, 2, 3, 2, 4, 2, 1, 2};
  static const uint64_t made[] = {1, 2, 3, 3, 4, 4, 5, 5};
  lw_model *m = load(network, "cuda", NULL, "3"); /* no ladder: exact sizes */
  lw_context *c = context_of(m);
  lw_shape_stats stats;
  for (size_t i = 0; i < LW_ARRAY_COUNT(order); i++) {
    run(c, &t, order[i]);
    lw_context_shape_stats(c, &stats);
    assert_int_equal(stats.made, made[i]);
    assert_true(stats.ready <= 3 && stats.kept <= 3);
  }
  assert_int_equal(stats.compiled, 4); /* the first one stays with the model for its weights */
  lw_context_destroy(c);
  lw_model_destroy(m);
  assert_int_equal(standin->live_memory, 0);
}

/* ---- streams of the caller ----- */

/* Two stages and something in between, which lies in the arena that both shapes share. */
static const char staged[] =
    "%x = input f32[batch, 4096]\n%1 = reduce.sum f32[batch] %x axes=[1]\n"
    "%2 = reshape f32[batch, 1] %1\n%3 = expand f32[batch, 4096] %2\n"
    "%4 = map.mul f32[batch, 4096] %3, %x\n%5 = reduce.sum f32[4096] %4 axes=[0]\n"
    "%6 = reduce.max f32[batch] %x axes=[1]\noutput y %6\noutput s %5\n";

static void enqueue_staged(lw_context *c, int64_t batch, void *const *memory, lw_cu_stream stream) {
  const int64_t in[2] = {batch, 4096}, rows[1] = {batch}, columns[1] = {4096};
  lw_tensor t = {.data = memory[0], .dtype = LW_DTYPE_F32, .rank = 2, .dims = in};
  t.memory = LW_MEMORY_DEVICE;
  assert_int_equal(lw_context_bind_input(c, 0, &t), LW_OK);
  t.rank = 1;
  t.data = memory[1];
  t.dims = rows;
  assert_int_equal(lw_context_bind_output(c, 0, &t), LW_OK);
  t.data = memory[2];
  t.dims = columns;
  assert_int_equal(lw_context_bind_output(c, 1, &t), LW_OK);
  if (lw_context_enqueue(c, stream) != LW_OK) fail_msg("%s", lw_context_error(c));
}

static void shapes_in_several_streams_come_one_after_the_other(void **state) {
  (void)state;
  lw_model *m = load(staged, "cuda", NULL, NULL);
  lw_context *c = context_of(m);
  lw_cu_context primary;
  lw_cu_stream streams[2];
  void *memory[2][3];
  static float x[8 * 4096];
  standin->no_access_log = false; /* races are looked for */
  assert_int_equal(cu_primary_retain(&primary, 0), 0);
  assert_int_equal(cu_context_push(primary), 0);
  for (int k = 0; k < 2; k++) {
    assert_int_equal(cu_stream_create(&streams[k], LW_CU_STREAM_NON_BLOCKING), 0);
    for (int i = 0; i < 3; i++) assert_int_equal(lw_tools_alloc(m, sizeof x, &memory[k][i]), LW_OK);
    assert_int_equal(lw_tools_upload(m, memory[k][0], x, sizeof x), LW_OK);
  }
  for (int round = 0; round < 3; round++) {
    enqueue_staged(c, 8, memory[0], streams[0]);
    enqueue_staged(c, 5, memory[1], streams[1]);
  }
  lw_stats stats;
  lw_context_stats(c, &stats);
  assert_true(stats.arena_bytes > 0);
  for (int k = 0; k < 2; k++) assert_int_equal(cu_stream_wait(streams[k]), 0);
  if (standin->violations != 0) fail_msg("%s", standin->violation);
  lw_context_destroy(c);
  for (int k = 0; k < 2; k++) {
    for (int i = 0; i < 3; i++) lw_tools_free(m, memory[k][i]);
    assert_int_equal(cu_stream_destroy(streams[k]), 0);
  }
  lw_model_destroy(m);
  assert_int_equal(cu_context_pop(&primary), 0);
  assert_int_equal(cu_primary_release(0), 0);
  standin->no_access_log = true;
}

/* ---- what cannot be padded ----- */

static void a_mean_over_the_batch_is_refused(void **state) {
  (void)state;
  static const char text[] =
      "%x = input f32[batch, 4]\n%1 = reduce.sum f32[4] %x axes=[0] ; pool\n"
      "%2 = reshape f32[1, 4] %1\n%3 = expand f32[batch, 4] %2\n%4 = map.sub f32[batch, 4] %x, %3\n"
      "output y %4\n";
  lw_model *m = load(text, "cpu", "batch=1,2,4:16", NULL);
  assert_int_equal(lw_model_message_count(m), 1);
  const lw_message *said = lw_model_message(m, 0);
  assert_int_equal(said->severity, LW_SEVERITY_WARNING);
  assert_non_null(strstr(said->text, "node 'pool' (reduce) reduces over 'batch'"));
  lw_context *c = context_of(m);
  for (int64_t b = 3; b < 6; b++) {
    float x[20], y[20];
    const int64_t dims[2] = {b, 4};
    for (int64_t i = 0; i < 4 * b; i++) x[i] = (float)i;
    const lw_tensor in = {.data = x, .dtype = LW_DTYPE_F32, .rank = 2, .dims = dims};
    const lw_tensor out = {.data = y, .dtype = LW_DTYPE_F32, .rank = 2, .dims = dims};
    assert_int_equal(lw_context_bind_input(c, 0, &in), LW_OK);
    assert_int_equal(lw_context_bind_output(c, 0, &out), LW_OK);
    assert_int_equal(lw_context_run(c), LW_OK);
    float sum = 0;
    for (int64_t r = 0; r < b; r++) sum += x[4 * r + 1];
    assert_true(y[1] == x[1] - sum);
  }
  lw_shape_stats stats;
  lw_context_shape_stats(c, &stats);
  assert_int_equal(stats.compiled, 3);
  lw_context_destroy(c);
  lw_model_destroy(m);
}

static void wrong_shapes_are_told(void **state) {
  (void)state;
  static tensors t;
  lw_model *m = load(network, "cpu", "batch=1:8", NULL);
  lw_context *c = context_of(m);
  fill(&t, 4);
  assert_int_equal(lw_context_run(c), LW_STATUS_USAGE);
  assert_non_null(strstr(lw_context_error(c), "'x': is not bound"));
  assert_int_equal(bind(c, &t), LW_OK);
  int64_t dims[LW_MAX_RANK] = {0};
  int rank = 0;
  assert_int_equal(lw_context_output_dims(c, 0, &rank, dims), LW_OK);
  assert_int_equal(rank, 3);
  assert_int_equal(dims[0], TOKENS);
  assert_int_equal(dims[1], 4);
  assert_int_equal(dims[2], WIDE);
  assert_int_equal(lw_context_output_dims(c, 2, &rank, dims), LW_STATUS_USAGE);
  const int64_t other[2] = {WIDE, 5}, none[2] = {WIDE + 1, 4}, sums[2] = {5, TOKENS};
  lw_tensor z = {.data = t.z, .dtype = LW_DTYPE_F32, .rank = 2, .dims = none};
  assert_int_equal(lw_context_bind_input(c, 1, &z), LW_STATUS_USAGE);
  assert_non_null(strstr(lw_context_error(c), "the model has f32[24, ?]"));
  z.dims = other;
  assert_int_equal(lw_context_bind_input(c, 1, &z), LW_OK);
  assert_int_equal(lw_context_run(c), LW_STATUS_USAGE);
  assert_non_null(strstr(lw_context_error(c), "input 1 'z': dimension 1 is 5, but 'batch' is 4"));
  assert_int_equal(bind(c, &t), LW_OK);
  lw_tensor s = {.data = t.s, .dtype = LW_DTYPE_F32, .rank = 2, .dims = sums};
  assert_int_equal(lw_context_bind_output(c, 1, &s), LW_OK);
  assert_int_equal(lw_context_run(c), LW_STATUS_USAGE);
  assert_non_null(strstr(lw_context_error(c), "f32[5, 3] was given, this run has f32[4, 3]"));
  assert_int_equal(bind(c, &t), LW_OK);
  assert_int_equal(lw_context_run(c), LW_OK);
  lw_context_destroy(c);
  lw_model_destroy(m);
}

static void open_standin(void) {
  void *library = dlopen(LW_BUILD_DIR "/libcuda_standin.so", RTLD_NOW | RTLD_LOCAL);
  lw_standin_function *function = NULL;
  if (library != NULL) {
    void *symbol = dlsym(library, "lw_standin");
    memcpy(&function, &symbol, sizeof symbol);
  }
  if (function == NULL) {
    fprintf(stderr, "there is no stand-in of the driver\n");
    exit(1);
  }
  standin = function();
  standin->no_access_log = true;
#define FIND(name, symbol_name, parameters)     \
  {                                             \
    void *found = dlsym(library, #symbol_name); \
    memcpy(&cu_##name, &found, sizeof found);   \
  }
  LW_CU_SYMBOLS(FIND)
#undef FIND
}

int main(void) {
  open_standin();
  const struct CMUnitTest tests[] = {
      cmocka_unit_test(many_batches_on_the_cpu),
      cmocka_unit_test(many_batches_on_cuda),
      cmocka_unit_test(equal_to_models_of_the_very_size),
      cmocka_unit_test(rows_of_an_earlier_run_reach_nobody),
      cmocka_unit_test(weights_are_on_the_device_once),
      cmocka_unit_test(the_oldest_shape_goes),
      cmocka_unit_test(shapes_in_several_streams_come_one_after_the_other),
      cmocka_unit_test(a_mean_over_the_batch_is_refused),
      cmocka_unit_test(wrong_shapes_are_told),
  };
  return cmocka_run_group_tests(tests, NULL, NULL);
}

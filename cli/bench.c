/* bench.c: lawson bench: what a run takes, fused and, with --compare, unfused in the same run. */
#include <math.h>
#include <stdlib.h>
#include <string.h>

#include "pipeline.h"

#define BENCH_MIN_ITERATIONS 5 /* before a time limit may end a measurement */
#define BENCH_TRACES 5         /* runs with the times of kernels; the median counts */

static const cli_option bench_options[] = {
    {"iterations", "N", "100", "timed runs", "iters", 'n'},
    {"warmup", "N", "10", "runs before them that are not timed", "warmUp", 'w'},
    {"time-limit", "S", "30", "stop after so many seconds, but not before 5 runs", NULL, 0},
    {"cold-l2", NULL, NULL, "empty the device's caches before every run (not timed)", NULL, 0},
    {"transfers", NULL, NULL,
     "inputs and outputs in host memory: times include the copies to\n"
     "and from the device",
     NULL, 0},
    {"pipeline", "N", NULL,
     "runs a second with N contexts in turns, inputs and outputs in host memory: the uploads of "
     "the "
     "next run and the downloads of the last overlap this one's",
     NULL, 0},
    {"compare", NULL, NULL, "measure --no-fuse as well, in turn, in the same run", NULL, 'c'},
    {"json", "FILE", NULL, "write the result as JSON, '-' for the standard output", NULL, 0},
    {NULL, NULL, NULL, NULL, NULL, 0}};

typedef struct bench_settings {
  long long iterations, warmup, pipeline; /* 0: none */
  double time_limit_s;
  bool cold, transfers, compare;
} bench_settings;

typedef struct bench_samples {
  double *us; /* sorted once the measurement is over */
  size_t count;
} bench_samples;

/* One way to run the model: a session with its memory, and what was measured. */
typedef struct bench_side {
  const char *name;
  cli_session session;
  void **memory; /* on the device, inputs then outputs; NULL with transfers */
  bench_samples host, device, launch;
  uint64_t host_allocations, device_allocations; /* of all timed runs */
  lw_tools_trace trace;
  double gap_ratio;             /* NaN: not measured */
  lw_tools_reason not_measured; /* why */
  lw_stats stats;
  cli_pipeline pipeline;
} bench_side;

/* ---- statistics ----- */

static int compare_doubles(const void *a, const void *b) {
  double x = *(const double *)a, y = *(const double *)b;
  return (x > y) - (x < y);
}

/* Nearest rank; |us| sorted. */
static double percentile(const bench_samples *s, double p) {
  if (s->count == 0) return NAN;
  size_t rank = (size_t)ceil(p / 100 * (double)s->count);
  return s->us[rank == 0 ? 0 : rank - 1];
}

static json_t *samples_json(const bench_samples *s) {
  static const struct {
    const char *key;
    double p;
  } rows[] = {{"min_us", 0}, {"median_us", 50}, {"p90_us", 90}, {"p99_us", 99}};
  json_t *root = json_object();
  for (size_t i = 0; i < CLI_COUNT(rows); i++) {
    json_object_set_new(root, rows[i].key, cli_json_real(percentile(s, rows[i].p)));
  }
  return root;
}

/* ---- memory on the device ----- */

static int bind_array(bench_side *side, size_t index, bool is_input) {
  cli_session *s = &side->session;
  if (cli_session_is_state(s, index, is_input)) return 0;
  lw_tools_array *array = is_input ? &s->inputs[index] : &s->outputs[index];
  void **slot = &side->memory[is_input ? index : s->input_count + index];
  lw_status status = lw_tools_alloc(s->model, array->bytes, slot);
  if (status == LW_OK && is_input && array->bytes > 0) {
    status = lw_tools_upload(s->model, *slot, array->data, array->bytes);
  }
  if (status != LW_OK) return cli_fail(status, "no room on the device for a tensor");
  const lw_tensor tensor = {.data = *slot,
                            .dtype = array->dtype,
                            .rank = array->rank,
                            .dims = array->dims,
                            .memory = LW_MEMORY_DEVICE};
  status = is_input ? lw_context_bind_input(s->context, index, &tensor)
                    : lw_context_bind_output(s->context, index, &tensor);
  return status == LW_OK ? 0 : cli_fail(status, "%s", lw_context_error(s->context));
}

static int bind_on_device(bench_side *side) {
  cli_session *s = &side->session;
  side->memory = cli_alloc(s->input_count + s->output_count, sizeof *side->memory);
  int code = 0;
  for (size_t i = 0; code == 0 && i < s->input_count; i++) code = bind_array(side, i, true);
  for (size_t i = 0; code == 0 && i < s->output_count; i++) code = bind_array(side, i, false);
  return code;
}

static void side_close(bench_side *side) {
  cli_session *s = &side->session;
  lw_context_destroy(s->context);
  s->context = NULL;
  for (size_t i = 0; side->memory != NULL && i < s->input_count + s->output_count; i++) {
    lw_tools_free(s->model, side->memory[i]);
  }
  free(side->memory);
  free(side->host.us);
  free(side->device.us);
  free(side->launch.us);
  cli_session_close(s);
}

/* ---- measuring ----- */

static int side_open(const cli_args *args, const bench_settings *b, const char *name, bool fuse,
                     uint64_t seed, bench_side *out) {
  *out = (bench_side){.name = name};
  cli_session *s = &out->session;
  int code = cli_session_open(args, args->operands[0], s);
  if (code == 0 && !fuse) code = cli_session_set(s, "fuse", "off");
  if (code == 0) code = cli_session_load(args, s);
  s->seed = seed; /* the same inputs for both sides */
  if (code == 0) code = cli_session_fill(args, s);
  if (code == 0) code = cli_session_bind(s);
  if (code == 0 && !b->transfers) code = bind_on_device(out);
  out->host.us = cli_alloc((size_t)b->iterations, sizeof(double));
  out->device.us = cli_alloc((size_t)b->iterations, sizeof(double));
  out->launch.us = cli_alloc((size_t)b->iterations, sizeof(double));
  return code;
}

/* One run; its times in the samples when |timed|. */
static int measure_run(bench_side *side, const bench_settings *b, bool timed) {
  cli_session *s = &side->session;
  lw_status status = b->cold ? lw_tools_flush_cache(s->model) : LW_OK;
  if (status != LW_OK) return cli_fail(status, "the device's caches cannot be emptied");
  uint64_t host[2], device[2];
  lw_tools_allocations(s->model, &host[0], &device[0]);
  double start = cli_now_s();
  status = lw_context_run(s->context);
  double end = cli_now_s();
  lw_tools_allocations(s->model, &host[1], &device[1]);
  if (status != LW_OK) return cli_fail(status, "%s", lw_context_error(s->context));
  if (!timed) return 0;
  lw_context_stats(s->context, &side->stats);
  side->host.us[side->host.count++] = (end - start) * 1e6;
  side->device.us[side->device.count++] = side->stats.last_device_us;
  side->host_allocations += host[1] - host[0];
  side->device_allocations += device[1] - device[0];
  if (side->stats.last_launch_us > 0)
    side->launch.us[side->launch.count++] = side->stats.last_launch_us;
  return 0;
}

static double trace_ratio(const lw_tools_trace *t) {
  return t->busy_us > 0 ? t->gap_us / t->busy_us : NAN;
}

static int compare_traces(const void *a, const void *b) {
  double x = trace_ratio(a), y = trace_ratio(b);
  return (x > y) - (x < y);
}

/* After everything else: recording the times of kernels may leave a driver slower. */
static void trace(bench_side *side) {
  lw_tools_trace traces[BENCH_TRACES];
  side->gap_ratio = NAN;
  for (size_t i = 0; i < BENCH_TRACES; i++) {
    lw_status status = lw_tools_trace_run(side->session.context, &traces[i], &side->not_measured);
    if (status != LW_OK) return;
  }
  qsort(traces, BENCH_TRACES, sizeof *traces, compare_traces);
  side->trace = traces[BENCH_TRACES / 2];
  side->gap_ratio = trace_ratio(&side->trace);
}

/* Both sides in turn, so that a machine that slows down slows both. */
static int measure(bench_side *sides, size_t side_count, const bench_settings *b) {
  double start = cli_now_s();
  long long total = b->warmup + b->iterations;
  for (long long i = 0; i < total; i++) {
    bool timed = i >= b->warmup;
    for (size_t k = 0; k < side_count; k++) {
      int code = measure_run(&sides[k], b, timed);
      if (code != 0) return code;
    }
    if (i % 16 == 0) cli_progress("run %lld of %lld", i + 1, total);
    bool late = cli_now_s() - start > b->time_limit_s;
    if (late && i < b->warmup) i = b->warmup - 1;
    if (late && i + 1 >= b->warmup + BENCH_MIN_ITERATIONS) break;
  }
  cli_progress("%s", "");
  for (size_t k = 0; k < side_count; k++) {
    qsort(sides[k].host.us, sides[k].host.count, sizeof(double), compare_doubles);
    qsort(sides[k].device.us, sides[k].device.count, sizeof(double), compare_doubles);
    qsort(sides[k].launch.us, sides[k].launch.count, sizeof(double), compare_doubles);
    trace(&sides[k]);
  }
  return 0;
}

/* ---- reports ----- */

static void print_times(const bench_side *sides, size_t count) {
  static const char *const heads[] = {"<", "<time", ">min", ">median", ">p90", ">p99"};
  cli_table *table = cli_table_create(CLI_COUNT(heads), heads);
  for (size_t k = 0; k < 2 * count; k++) {
    const bench_side *side = &sides[k / 2];
    const bench_samples *s = k % 2 == 0 ? &side->device : &side->host;
    cli_table_cell(table, "%s", k % 2 == 0 ? side->name : "");
    cli_table_cell(table, "%s", k % 2 == 0 ? "device" : "host");
    cli_table_cell(table, "%s", cli_us_text(percentile(s, 0)));
    cli_table_cell(table, "%s", cli_us_text(percentile(s, 50)));
    cli_table_cell(table, "%s", cli_us_text(percentile(s, 90)));
    cli_table_cell(table, "%s", cli_us_text(percentile(s, 99)));
  }
  cli_table_print(table, stdout, "");
  cli_table_destroy(table);
}

static void print_counts(const bench_side *sides, size_t count) {
  static const char *const heads[] = {"<",      ">kernels", ">library calls", ">copies", ">traffic",
                                      ">arena", ">weights", ">compile",       ">built"};
  cli_table *table = cli_table_create(CLI_COUNT(heads), heads);
  for (size_t k = 0; k < count; k++) {
    const lw_stats *s = &sides[k].stats;
    unsigned long long copies = s->copies + s->fills + s->staging_copies;
    cli_table_cell(table, "%s", sides[k].name);
    cli_table_cell(table, "%llu", (unsigned long long)s->kernels);
    cli_table_cell(table, "%llu", (unsigned long long)s->library_calls);
    cli_table_cell(table, "%llu", copies);
    cli_table_cell(table, "%s", cli_bytes_text((double)s->traffic_bytes));
    cli_table_cell(table, "%s", cli_bytes_text((double)s->arena_bytes));
    cli_table_cell(table, "%s", cli_bytes_text((double)s->weight_bytes));
    cli_table_cell(table, "%.2f s", s->compile_s);
    cli_table_cell(table, "%llu", (unsigned long long)s->kernels_built);
  }
  cli_table_print(table, stdout, "");
  cli_table_destroy(table);
}

/* How close a run is to what cannot be avoided. */
static void print_overheads(const bench_side *sides, size_t count) {
  static const char *const heads[] = {"<",      ">gap ratio",   ">gaps",  ">kernels ran", ">launch",
                                      ">lanes", ">allocations", ">arena", ">at least"};
  cli_table *table = cli_table_create(CLI_COUNT(heads), heads);
  for (size_t k = 0; k < count; k++) {
    const bench_side *side = &sides[k];
    bool traced = !isnan(side->gap_ratio), launched = side->launch.count > 0;
    cli_table_cell(table, "%s", side->name);
    if (traced) {
      cli_table_cell(table, "%.1f %%", side->gap_ratio * 100);
      cli_table_cell(table, "%s", cli_us_text(side->trace.gap_us));
      cli_table_cell(table, "%s", cli_us_text(side->trace.busy_us));
    } else {
      for (int i = 0; i < 3; i++) cli_table_cell(table, i == 0 ? "not measured" : "-");
    }
    cli_table_cell(table, "%s", launched ? cli_us_text(percentile(&side->launch, 50)) : "-");
    cli_table_cell(table, "%llu", (unsigned long long)side->stats.lanes);
    cli_table_cell(table, "%llu",
                   (unsigned long long)(side->host_allocations + side->device_allocations));
    cli_table_cell(table, "%s", cli_bytes_text((double)side->stats.arena_bytes));
    cli_table_cell(table, "%s", cli_bytes_text((double)side->stats.live_bytes));
  }
  cli_table_print(table, stdout, "");
  cli_table_destroy(table);
  if (isnan(sides[0].gap_ratio)) {
    const char *why = sides[0].not_measured.text;
    printf("gap ratio not measured: %s\n", why[0] != '\0' ? why : "no kernel took any time");
  }
}

static void print_speedup(const bench_side *sides) {
  double fused = percentile(&sides[0].device, 50), apart = percentile(&sides[1].device, 50);
  const char *how = "median device time, both measured in this run";
  if (fused > apart) {
    printf("\nfused is slower: it takes %.2fx the time of unfused (%s)\n", fused / apart, how);
  } else {
    printf("\nfused is %.2fx as fast as unfused (%s)\n", apart / fused, how);
  }
}

static void print_report(const bench_side *sides, size_t count, const bench_settings *b) {
  const cli_session *s = &sides[0].session;
  printf("%s%s%s on %s (%s), %zu runs each after %lld to warm up%s, %s\n",
         cli_style(stdout, "bold"), s->path, cli_style(stdout, ""), lw_model_device(s->model),
         lw_tools_model_target(s->model), sides[0].host.count, b->warmup,
         b->cold ? ", caches emptied before each" : "",
         b->transfers ? "copies to and from the host included" : "without copies to the host");
  if (s->random) printf("inputs: random, seed %llu\n", (unsigned long long)s->seed);
  printf("\n");
  print_times(sides, count);
  printf("\n");
  print_counts(sides, count);
  printf("\n");
  print_overheads(sides, count);
  if (count == 2) print_speedup(sides);
  if (b->pipeline > 0) cli_pipeline_print(&sides[0].pipeline);
}

static json_t *side_json(const bench_side *side) {
  json_t *root = cli_json_stats(&side->stats);
  json_object_set_new(root, "name", json_string(side->name));
  json_object_set_new(root, "iterations", json_integer((json_int_t)side->host.count));
  json_object_set_new(root, "host", samples_json(&side->host));
  json_object_set_new(root, "device", samples_json(&side->device));
  bool launched = side->launch.count > 0;
  json_object_set_new(root, "launch", launched ? samples_json(&side->launch) : json_null());
  json_object_set_new(root, "host_allocations", json_integer((json_int_t)side->host_allocations));
  json_object_set_new(root, "device_allocations",
                      json_integer((json_int_t)side->device_allocations));
  bool traced = !isnan(side->gap_ratio);
  json_object_set_new(root, "gap_ratio", cli_json_real(side->gap_ratio));
  json_object_set_new(root, "gap_us", cli_json_real(traced ? side->trace.gap_us : NAN));
  json_object_set_new(root, "kernel_us", cli_json_real(traced ? side->trace.busy_us : NAN));
  if (!traced) {
    json_object_set_new(root, "gap_not_measured", cli_json_text(side->not_measured.text));
  }
  return root;
}

static json_t *report_json(const bench_side *sides, size_t count, const bench_settings *b) {
  const cli_session *s = &sides[0].session;
  json_t *root =
      json_pack("{s:s, s:s, s:o, s:s, s:s, s:b, s:b, s:I}", "schema", "lawson-bench-1", "lawson",
                lw_version(), "model", cli_json_text(s->path), "device", lw_model_device(s->model),
                "target", lw_tools_model_target(s->model), "cold_l2", b->cold, "transfers",
                b->transfers, "warmup", (json_int_t)b->warmup);
  if (s->random) json_object_set_new(root, "seed", json_integer((json_int_t)s->seed));
  json_t *array = json_array();
  for (size_t k = 0; k < count; k++) json_array_append_new(array, side_json(&sides[k]));
  json_object_set_new(root, "results", array);
  if (count == 2) {
    double ratio = percentile(&sides[1].device, 50) / percentile(&sides[0].device, 50);
    json_object_set_new(root, "speedup_of_fusion", cli_json_real(ratio));
  }
  if (b->pipeline > 0) {
    json_object_set_new(root, "pipeline", cli_pipeline_json(&sides[0].pipeline));
  }
  return root;
}

/* ---- the command ----- */

static int read_settings(const cli_args *args, bench_settings *b) {
  *b = (bench_settings){.cold = cli_has(args, "cold-l2"),
                        .transfers = cli_has(args, "transfers"),
                        .compare = cli_has(args, "compare")};
  bool ok = cli_number(args, "iterations", 100, 1, 10000000, &b->iterations) &&
            cli_number(args, "pipeline", 0, 1, 64, &b->pipeline) &&
            cli_number(args, "warmup", 10, 0, 1000000, &b->warmup) &&
            cli_real(args, "time-limit", 30, 0.001, 1e6, &b->time_limit_s);
  if (!ok) return LW_STATUS_USAGE;
  if (strcmp(cli_text(args, "device", ""), "null") == 0) {
    return cli_fail(LW_STATUS_USAGE, "the null device computes nothing: there is nothing to time");
  }
  if (b->compare && cli_has(args, "no-fuse")) {
    return cli_fail(LW_STATUS_USAGE, "--compare measures --no-fuse by itself: leave one out");
  }
  return 0;
}

static int bench_sides(const cli_args *args, const bench_settings *b, bench_side *sides) {
  size_t count = b->compare ? 2 : 1;
  bool fuse = !cli_has(args, "no-fuse");
  int code = side_open(args, b, fuse ? "fused" : "unfused", fuse, 0, &sides[0]);
  if (code == 0 && b->compare) {
    code = side_open(args, b, "unfused", false, sides[0].session.seed, &sides[1]);
  }
  if (code == 0) code = measure(sides, count, b);
  if (code == 0 && b->pipeline > 0) {
    code = cli_pipeline_measure(&sides[0].session, b->pipeline, b->iterations, &sides[0].pipeline);
  }
  if (code != 0) return code;
  const char *json = cli_text(args, "json", NULL);
  if (json == NULL || strcmp(json, "-") != 0) print_report(sides, count, b);
  if (json != NULL && !cli_json_write(report_json(sides, count, b), json)) return LW_STATUS_USAGE;
  return 0;
}

static int run(const cli_args *args) {
  bench_settings settings;
  int code = read_settings(args, &settings);
  if (code != 0) return code;
  bench_side sides[2] = {0};
  code = bench_sides(args, &settings, sides);
  for (size_t k = 0; k < CLI_COUNT(sides); k++) side_close(&sides[k]);
  return code;
}

const cli_command cli_command_bench = {
    .name = "bench",
    .operands = "MODEL",
    .summary = "time a model: latency on host and device, kernels, copies, memory",
    .about =
        "Device time is the time between two events around one run (on the CPU the wall\n"
        "time of the plan); host time is from the call to its return. Inputs lie on the\n"
        "device already unless --transfers is given. A speed-up is printed only when both\n"
        "sides were measured.",
    .examples =
        "  lawson bench net.onnx --compare              fused against unfused\n"
        "  lawson bench net.onnx --cold-l2 -n 500        every run from memory\n"
        "  lawson bench net.onnx --dim batch=8 --json -  for a script\n",
    .tables = {bench_options, cli_input_options, cli_compile_options},
    .operands_min = 1,
    .operands_max = 1,
    .run = run,
};

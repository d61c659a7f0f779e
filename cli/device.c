/* device.c: lawson device: what there is to run and to compile on. */
#include <stdlib.h>
#include <string.h>

#include "session.h"

#define DEVICE_MAX_GPUS 64

static const cli_option device_options[] = {
    {"json", NULL, NULL, "print JSON instead of text", NULL, 0},
    {"cc", "CC", "cc on PATH", "C compiler to try", NULL, 0},
    {NULL, NULL, NULL, NULL, NULL, 0}};

/* ---- devices ----- */

static json_t *device_json(const char *spec, const lw_tools_device_info *info) {
  json_t *root =
      json_pack("{s:s, s:s, s:o, s:o, s:I, s:I, s:I}", "device", spec, "kind", info->kind, "name",
                cli_json_text(info->name), "profile", cli_json_text(info->profile), "sm_arch",
                (json_int_t)info->sm_arch, "processors", (json_int_t)info->sm_count, "memory_bytes",
                (json_int_t)info->memory_bytes);
  json_object_set_new(root, "launch_us", cli_json_real(info->launch_us));
  json_object_set_new(root, "dram_gbps", cli_json_real(info->dram_gbps));
  json_object_set_new(root, "f32_gflops", cli_json_real(info->f32_gflops));
  json_object_set_new(root, "f16_gflops", cli_json_real(info->f16_gflops));
  return root;
}

/* Opens |spec|; NULL with the reason when it is not there. */
static json_t *look_at(lw_options *options, const char *spec, lw_tools_reason *reason) {
  lw_tools_device *device = NULL;
  lw_status status = lw_options_set(options, "device", spec);
  if (status == LW_OK) status = lw_tools_device_open(options, &device, reason);
  if (status != LW_OK) return NULL;
  lw_tools_device_info info;
  lw_tools_device_describe(device, &info);
  json_t *found = device_json(spec, &info);
  lw_tools_device_close(device);
  return found;
}

/* The CPU and all GPUs; *out_reason says why there are no (more) GPUs. */
static json_t *find_devices(lw_options *options, lw_tools_reason *out_reason) {
  json_t *array = json_array();
  json_t *found = look_at(options, "cpu", out_reason);
  if (found != NULL) json_array_append_new(array, found);
  for (int n = 0; n < DEVICE_MAX_GPUS; n++) {
    char spec[32];
    snprintf(spec, sizeof spec, "cuda:%d", n);
    found = look_at(options, spec, out_reason);
    if (found == NULL) break;
    json_array_append_new(array, found);
  }
  return array;
}

/* ---- compilers: the proof is a kernel ----- */

static lw_status small_graph(lw_graph **out_graph) {
  uint32_t x, y;
  const int64_t dims[1] = {64};
  lw_status status = lw_graph_create(out_graph);
  if (status == LW_OK) status = lw_graph_add_input(*out_graph, "x", LW_DTYPE_F32, 1, dims, &x);
  if (status == LW_OK) status = lw_graph_add_relu(*out_graph, x, &y);
  if (status == LW_OK) status = lw_graph_add_output(*out_graph, y, "y");
  return status;
}

static json_t *try_compiler(lw_options *options, const char *target) {
  lw_graph *graph = NULL;
  lw_model *model = NULL;
  lw_status status = lw_options_set(options, "target", target);
  if (status == LW_OK) status = lw_options_set(options, "compile_only", "on");
  if (status == LW_OK) status = lw_options_set(options, "cache", "");
  if (status == LW_OK) status = small_graph(&graph);
  if (status == LW_OK) status = lw_model_compile(graph, options, &model);
  json_t *root = json_pack("{s:s, s:b, s:o}", "target", target, "works", status == LW_OK, "problem",
                           cli_json_text(status == LW_OK ? "" : lw_model_error(model)));
  lw_model_destroy(model);
  lw_graph_destroy(graph);
  return root;
}

/* ---- reports ----- */

static void print_device(const json_t *d) {
  const char *kind = json_string_value(json_object_get(d, "kind"));
  bool gpu = kind != NULL && strcmp(kind, "cuda") == 0;
  printf("%-8s %s\n", json_string_value(json_object_get(d, "device")),
         json_string_value(json_object_get(d, "name")));
  printf("         %.0f %s", json_number_value(json_object_get(d, "processors")),
         gpu ? "multiprocessors" : "threads");
  double memory = json_number_value(json_object_get(d, "memory_bytes"));
  if (memory > 0) printf(", %s", cli_bytes_text(memory));
  if (gpu) printf(", sm_%.0f", json_number_value(json_object_get(d, "sm_arch")));
  printf("\n         predictions from profile %s: %.2f us a launch, %.0f GB/s\n",
         json_string_value(json_object_get(d, "profile")),
         json_number_value(json_object_get(d, "launch_us")),
         json_number_value(json_object_get(d, "dram_gbps")));
}

static void print_report(const json_t *root) {
  const json_t *devices = json_object_get(root, "devices");
  for (size_t i = 0; i < json_array_size(devices); i++) print_device(json_array_get(devices, i));
  const char *no_gpu = json_string_value(json_object_get(root, "no_gpu"));
  if (no_gpu != NULL) printf("no GPU: %s\n", no_gpu);
  const json_t *compilers = json_object_get(root, "compilers");
  for (size_t i = 0; i < json_array_size(compilers); i++) {
    const json_t *c = json_array_get(compilers, i);
    bool works = json_is_true(json_object_get(c, "works"));
    printf("kernels for %s: %s%s\n", json_string_value(json_object_get(c, "target")),
           works ? "can be compiled" : "cannot be compiled: ",
           works ? "" : json_string_value(json_object_get(c, "problem")));
  }
}

static int run(const cli_args *args) {
  lw_options *options;
  int code = cli_options_make(args, &options);
  if (code != 0) return code;
  lw_tools_reason reason = {{0}};
  json_t *root = json_pack("{s:s, s:s}", "schema", "lawson-device-1", "lawson", lw_version());
  json_t *devices = find_devices(options, &reason);
  json_object_set(root, "devices", devices);
  if (json_array_size(devices) < 2) {
    json_object_set_new(root, "no_gpu", cli_json_text(reason.text));
  }
  json_t *compilers = json_array();
  json_array_append_new(compilers, try_compiler(options, "cpu"));
  json_array_append_new(compilers, try_compiler(options, "cuda:sm_90a"));
  json_object_set_new(root, "compilers", compilers);
  json_decref(devices);
  lw_options_destroy(options);
  if (cli_has(args, "json")) return cli_json_write(root, "-") ? 0 : LW_STATUS_USAGE;
  print_report(root);
  json_decref(root);
  return 0;
}

const cli_command cli_command_device = {
    .name = "device",
    .operands = "",
    .summary = "the devices and compilers that lawson finds on this machine",
    .about = "Opens every device and builds one small kernel for each kind of target.",
    .examples = "  lawson device\n  lawson device --json\n",
    .tables = {device_options},
    .operands_min = 0,
    .operands_max = 0,
    .run = run,
};

/* Plans in the cache and in files, through the API: what a second load gives is what the first one
 * gave, files for other machines are refused, and a lack of memory leaves nothing behind. */
#include <pthread.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include <cmocka.h>
#include <lawson/tools.h>
#include <unistd.h>

#include "device/host.h"
#include "plan/file.h"

static const char model_path[] = LW_SOURCE_DIR "/tests/data/fuzz/onnx/softmax.onnx";
static char folder[64], plan_path[128];

static int make_folder(void **state) {
  (void)state;
  strcpy(folder, "/tmp/lawson-test-XXXXXX");
  if (mkdtemp(folder) == NULL) return 1;
  snprintf(plan_path, sizeof plan_path, "%s/net.lwp", folder);
  return 0;
}

static int remove_folder(void **state) {
  (void)state;
  char command[128];
  snprintf(command, sizeof command, "rm -rf %s", folder);
  return system(command);
}

static lw_options *options_of(const char *device) {
  lw_options *o = NULL;
  const char *path = getenv("PATH");
  assert_int_equal(lw_options_create(&o), LW_OK);
  assert_int_equal(lw_options_set(o, "device", device), LW_OK);
  assert_int_equal(lw_options_set(o, "path", path != NULL ? path : ""), LW_OK);
  assert_int_equal(lw_options_set(o, "cache", folder), LW_OK);
  return o;
}

static lw_model *load(const char *path, const char *device, lw_status want) {
  lw_options *o = options_of(device);
  lw_model *m = NULL;
  lw_status status = lw_model_load(path, o, &m);
  if (status != want) print_error("%s\n", lw_model_error(m));
  assert_int_equal(status, want);
  lw_options_destroy(o);
  return m;
}

static void assert_same_ports(const lw_model *a, const lw_model *b) {
  assert_int_equal(lw_model_input_count(a), lw_model_input_count(b));
  assert_int_equal(lw_model_output_count(a), lw_model_output_count(b));
  for (size_t i = 0; i < lw_model_input_count(a); i++) {
    const lw_tensor_info *x = lw_model_input(a, i), *y = lw_model_input(b, i);
    assert_string_equal(x->name, y->name);
    assert_int_equal(x->dtype, y->dtype);
    assert_int_equal(x->rank, y->rank);
    assert_memory_equal(x->dims, y->dims, (size_t)x->rank * sizeof *x->dims);
  }
}

/* The outputs on inputs that a seed makes; free() them. */
static void *outputs_of(lw_model *m, size_t *out_bytes) {
  lw_context *c = NULL;
  lw_tools_array in[4] = {0}, out = {0};
  assert_int_equal(lw_context_create(m, &c), LW_OK);
  for (size_t i = 0; i < lw_model_input_count(m); i++) {
    const lw_tensor_info *info = lw_model_input(m, i);
    assert_int_equal(lw_tools_array_create(info->dtype, info->rank, info->dims, &in[i]), LW_OK);
    lw_tools_array_randomize(&in[i], 5 + i, 0, 2);
    lw_tensor t = {
        .data = in[i].data, .dtype = info->dtype, .rank = info->rank, .dims = info->dims};
    assert_int_equal(lw_context_bind_input(c, i, &t), LW_OK);
  }
  const lw_tensor_info *info = lw_model_output(m, 0);
  assert_int_equal(lw_model_output_count(m), 1);
  assert_int_equal(lw_tools_array_create(info->dtype, info->rank, info->dims, &out), LW_OK);
  lw_tensor t = {.data = out.data, .dtype = info->dtype, .rank = info->rank, .dims = info->dims};
  assert_int_equal(lw_context_bind_output(c, 0, &t), LW_OK);
  assert_int_equal(lw_context_run(c), LW_OK);
  lw_context_destroy(c);
  void *copy = malloc(out.bytes);
  memcpy(copy, out.data, out.bytes);
  *out_bytes = out.bytes;
  for (size_t i = 0; i < 4; i++) lw_tools_array_deinit(&in[i]);
  lw_tools_array_deinit(&out);
  return copy;
}

static void assert_same_outputs(lw_model *a, lw_model *b) {
  size_t x_bytes, y_bytes;
  void *x = outputs_of(a, &x_bytes), *y = outputs_of(b, &y_bytes);
  assert_int_equal(x_bytes, y_bytes);
  assert_memory_equal(x, y, x_bytes);
  free(x);
  free(y);
}

static void test_second_load(void **state) {
  (void)state;
  lw_model *first = load(model_path, "cpu", LW_OK);
  lw_model *second = load(model_path, "cpu", LW_OK);
  assert_string_equal(lw_tools_model_origin(first), "compiled");
  assert_string_equal(lw_tools_model_origin(second), "cache");
  assert_same_ports(first, second);
  assert_same_outputs(first, second);
  lw_stats a, b;
  lw_tools_model_stats(first, &a);
  lw_tools_model_stats(second, &b);
  assert_int_equal(a.kernels, b.kernels);
  assert_int_equal(a.traffic_bytes, b.traffic_bytes);
  assert_int_equal(a.arena_bytes, b.arena_bytes);
  assert_int_equal(a.weight_bytes, b.weight_bytes);
  assert_int_equal(b.kernels_built, 0);
  assert_int_equal(b.kernels_cached, lw_tools_model_kernel_count(first));
  const char *x, *y;
  assert_int_equal(lw_tools_model_plan(first, &x), LW_OK);
  assert_int_equal(lw_tools_model_plan(second, &y), LW_OK);
  assert_string_equal(x, y);
  lw_model_destroy(first);
  lw_model_destroy(second);
}

static void *ask_for_report(void *data) {
  const char *json = NULL;
  return lw_model_explain(data, &json) == LW_OK && json[0] == '{' ? NULL : data;
}

/* The report of a plan from the cache is made of the model's file, whoever asks first. */
static void test_reports(void **state) {
  (void)state;
  lw_model_destroy(load(model_path, "cpu", LW_OK));
  lw_model *m = load(model_path, "cpu", LW_OK);
  pthread_t threads[4];
  for (int i = 0; i < 4; i++) {
    assert_int_equal(pthread_create(&threads[i], NULL, ask_for_report, m), 0);
  }
  for (int i = 0; i < 4; i++) {
    void *failed;
    pthread_join(threads[i], &failed);
    assert_null(failed);
  }
  assert_string_equal(lw_tools_model_origin(m), "cache");
  lw_model_destroy(m);
}

static void test_save_and_load(void **state) {
  (void)state;
  lw_model *first = load(model_path, "cpu", LW_OK);
  assert_int_equal(lw_model_save(first, plan_path), LW_OK);
  assert_true(lw_tools_is_plan(plan_path));
  assert_false(lw_tools_is_plan(model_path));
  lw_model *second = load(plan_path, "auto", LW_OK);
  assert_string_equal(lw_tools_model_origin(second), "file");
  assert_string_equal(lw_tools_model_target(second), "cpu");
  assert_string_equal(lw_model_device(second), "cpu");
  assert_same_ports(first, second);
  assert_same_outputs(first, second);
  const char *json;
  assert_int_equal(lw_model_explain(second, &json), LW_STATUS_USAGE); /* it holds no graph */
  char again[128];
  snprintf(again, sizeof again, "%s/again.lwp", folder);
  assert_int_equal(lw_model_save(second, again), LW_OK);
  lw_model *third = load(again, "cpu", LW_OK);
  assert_same_outputs(first, third);
  assert_int_not_equal(lw_model_save(first, "/proc/nowhere/x"), LW_OK);
  assert_non_null(strstr(lw_model_error(first), "/proc/nowhere/x"));
  assert_int_equal(lw_model_save(first, NULL), LW_STATUS_USAGE);
  assert_int_equal(lw_model_save(NULL, again), LW_STATUS_USAGE);
  lw_model_destroy(first);
  lw_model_destroy(second);
  lw_model_destroy(third);
}

/* Writes the plan at |plan_path| again, changed. */
static void change(void (*how)(lw_plan_file *file)) {
  lw_file_map map;
  lw_plan_file file;
  lw_text text = {0};
  assert_int_equal(lw__file_map(plan_path, NULL, &map), LW_OK);
  assert_int_equal(lw__plan_file_read(map.data, map.bytes, "f", NULL, &file), LW_OK);
  how(&file);
  assert_int_equal(
      lw__plan_file_write(&file.plan, &file.about, file.sources, file.source_count, &text), LW_OK);
  assert_int_equal(lw__file_write(plan_path, text.data, text.len, NULL), LW_OK);
  lw__text_deinit(&text);
  lw__plan_file_deinit(&file);
  lw__file_unmap(&map);
}

static void other_processor(lw_plan_file *file) {
  file->about.isa = "abacus";
  file->about.cpu = "a wooden frame";
}

static void other_device(lw_plan_file *file) {
  file->plan.target = LW_PLAN_CUDA;
  file->plan.sm_arch = 80;
  file->about.target = "cuda:sm_80";
}

static void elsewhere(lw_plan_file *file) {
  static lw_plan_source source = {.name = "x", .bytes = 5, .data = (const uint8_t *)"12345"};
  file->sources = &source;
  file->source_count = 1;
}

static void refused(void (*how)(lw_plan_file *file), const char *device, lw_status status,
                    const char *says) {
  lw_model *m = load(model_path, "cpu", LW_OK);
  assert_int_equal(lw_model_save(m, plan_path), LW_OK);
  lw_model_destroy(m);
  change(how);
  m = load(plan_path, device, status);
  if (strstr(lw_model_error(m), says) == NULL) fail_msg("%s", lw_model_error(m));
  lw_model_destroy(m);
}

static void test_refusals(void **state) {
  (void)state;
  refused(other_processor, "cpu", LW_STATUS_UNSUPPORTED, "another processor, a wooden frame");
  refused(other_processor, "auto", LW_STATUS_UNSUPPORTED, "has no abacus");
  refused(other_device, "cpu", LW_STATUS_UNSUPPORTED, "does not run on device cpu");
  refused(elsewhere, "cpu", LW_STATUS_MODEL_INVALID, "its weights are not in it");
  lw_model *null = load(plan_path, "null", LW_STATUS_MODEL_INVALID);
  lw_model_destroy(null);
}

/* Every allocation of a load fails in turn: clean statuses (what the cache lacks costs time alone),
 * and the load after that succeeds. */
static void starve(const char *path) {
  lw_options *o = options_of("cpu");
  uint32_t failed = 0;
  for (uint64_t n = 1; n < 600; n++) {
    lw_model *m = NULL;
    lw__mem_fail_at(n);
    lw_status status = lw_model_load(path, o, &m);
    lw__mem_fail_at(0);
    lw_model_destroy(m);
    failed += status != LW_OK;
    if (status != LW_OK) assert_int_equal(status, LW_STATUS_OUT_OF_MEMORY);
  }
  assert_in_range(failed, 10, 590);
  lw_options_destroy(o);
  lw_model_destroy(load(path, "cpu", LW_OK));
}

static void test_without_memory(void **state) {
  (void)state;
  lw_model *m = load(model_path, "cpu", LW_OK);
  assert_int_equal(lw_model_save(m, plan_path), LW_OK);
  starve(plan_path);
  starve(model_path);
  lw_model_destroy(m);
}

static void test_host(void **state) {
  (void)state;
  char path[128];
  static const char text[] =
      "processor\t: 0\nmodel name\t: A Processor\nflags\t\t: fpu sse2 avx avx512f tsc bugs\n\n"
      "processor\t: 1\nmodel name\t: Another\n";
  snprintf(path, sizeof path, "%s/cpuinfo", folder);
  assert_int_equal(lw__file_write(path, text, sizeof text - 1, NULL), LW_OK);
  lw_host_cpu cpu;
  lw__host_cpu_of(path, &cpu);
  assert_string_equal(cpu.name, "A Processor");
  assert_non_null(strstr(cpu.isa, "sse2 avx avx512f"));
  assert_null(strstr(cpu.isa, "tsc"));
  assert_int_equal(lw__host_cpu_lacks(&cpu, "avx sse2").len, 0);
  assert_int_equal(lw__host_cpu_lacks(&cpu, "").len, 0);
  assert_true(lw__str_is(lw__host_cpu_lacks(&cpu, "avx avx5 sse"), "avx5"));
  lw__host_cpu_of("/proc/nowhere", &cpu);
  assert_string_equal(cpu.name, "CPU");
  assert_string_equal(cpu.isa, "");
  lw__host_cpu(&cpu);
  assert_int_equal(lw__host_cpu_lacks(&cpu, cpu.isa).len, 0);
}

#define CASE(test) cmocka_unit_test_setup_teardown(test, make_folder, remove_folder)

int main(void) {
  const struct CMUnitTest tests[] = {CASE(test_second_load),    CASE(test_reports),
                                     CASE(test_save_and_load),  CASE(test_refusals),
                                     CASE(test_without_memory), CASE(test_host)};
  return cmocka_run_group_tests(tests, NULL, NULL);
}

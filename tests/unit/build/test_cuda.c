/* Building CUDA C with NVRTC (skipped where it is not installed), and reading ptxas' words
 * (everywhere). */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include <cmocka.h>

#include "compiler/build/nvrtc.h"

static const char log_text[] =
    "ptxas info    : 0 bytes gmem\n"
    "ptxas info    : Compiling entry function 'lw_red_b' for 'sm_90a'\n"
    "ptxas info    : Function properties for lw_red_b\n"
    "ptxas         .     832 bytes stack frame, 1136 bytes spill stores, 1260 bytes spill loads\n"
    "ptxas info    : Used 32 registers, used 1 barriers, 832 bytes cumulative stack size, 4096 "
    "bytes smem\n"
    "ptxas info    : Compile time = 47.531 ms\n"
    "ptxas warning : Something is odd\n"
    "ptxas info    : Compiling entry function 'lw_red' for 'sm_90a'\n"
    "ptxas info    : Function properties for lw_red\n"
    "ptxas         .     0 bytes stack frame, 0 bytes spill stores, 0 bytes spill loads\n"
    "ptxas info    : Used 10 registers, used 0 barriers\n";

static void test_reports(void **state) {
  (void)state;
  lw_str log = lw__str_of(log_text);
  lw_build_report report;
  assert_true(lw__ptxas_report(log, "lw_red_b", &report));
  assert_int_equal(report.registers, 32);
  assert_int_equal(report.spill_bytes, 1136);
  assert_int_equal(report.shared_bytes, 4096);
  assert_true(lw__ptxas_report(log, "lw_red", &report));
  assert_int_equal(report.registers, 10);
  assert_int_equal(report.spill_bytes, 0);
  assert_int_equal(report.shared_bytes, 0);
  assert_false(lw__ptxas_report(log, "lw_red_", &report));
  assert_false(lw__ptxas_report(lw__str_of(""), "lw_red", &report));
  lw_text rest = {0};
  lw__ptxas_strip(log, &rest);
  assert_string_equal(lw__text_str(&rest), "ptxas warning : Something is odd\n");
  lw__text_deinit(&rest);
  assert_null(lw__ptxas_fatal(log));
  assert_string_equal(lw__ptxas_fatal(lw__str_of("ptxas warning (C7510) : Potential")), "C7510");
}

/* Cut off anywhere, the log is still read without harm. */
static void test_broken_logs(void **state) {
  (void)state;
  for (size_t length = 0; length < sizeof log_text; length++) {
    char *copy = malloc(length + 1); /* so that a sanitizer sees reads beyond the end */
    memcpy(copy, log_text, length);
    lw_build_report report;
    (void)lw__ptxas_report(lw__str(copy, length), "lw_red", &report);
    lw_text rest = {0};
    lw__ptxas_strip(lw__str(copy, length), &rest);
    lw__text_deinit(&rest);
    free(copy);
  }
}

static bool have_nvrtc(void) {
  lw_nvrtc nvrtc;
  bool have = lw__nvrtc_open(NULL, NULL, NULL, &nvrtc) == LW_OK;
  lw__nvrtc_close(&nvrtc);
  if (!have) print_message("NVRTC is not installed: skipped\n");
  return have;
}

static const char source_text[] =
    "extern \"C\" __global__ void lw_map_a(float *y, const float *x, long long n) {\n"
    "  long long i = blockIdx.x * 256ll + threadIdx.x;\n"
    "  if (i < n) y[i] = x[i] * 2;\n"
    "}\n"
    "extern \"C\" __global__ void lw_red_b(float *y) {\n"
    "  __shared__ float s[300];\n"
    "  s[threadIdx.x] = y[threadIdx.x];\n"
    "  __syncthreads();\n"
    "  y[threadIdx.x] = s[299 - threadIdx.x];\n"
    "}\n";

static void check_cubin(const lw_build_job *job) {
  assert_true(job->image_bytes > 64);
  const uint8_t *elf = job->image;
  assert_memory_equal(elf, "\177ELF", 4);
  assert_int_equal(elf[18] | elf[19] << 8, 190); /* e_machine: CUDA */
  assert_true(job->report[0].registers > 0 && job->report[0].registers < 40);
  assert_int_equal(job->report[0].spill_bytes, 0);
  assert_int_equal(job->report[0].shared_bytes, 0);
  assert_int_equal(job->report[1].shared_bytes, 1200);
  assert_string_equal(job->log, "");
}

static void test_builds_and_caches(void **state) {
  (void)state;
  if (!have_nvrtc()) return;
  const char *entries[] = {"lw_map_a", "lw_red_b"};
  lw_cache *cache;
  assert_int_equal(lw__cache_open(NULL, NULL, &cache), LW_OK);
  const struct {
    uint32_t sm;
    bool a;
  } targets[] = {{80, false}, {90, true}, {90, false}};
  for (int round = 0; round < 2; round++) {
    for (size_t t = 0; t < LW_ARRAY_COUNT(targets); t++) {
      lw_build_options options = {.sm_arch = targets[t].sm, .arch_specific = targets[t].a};
      lw_arena arena = {0};
      lw_diag diag = {0};
      lw_build_job jobs[3];
      char other[2][1024];
      for (int i = 0; i < 3; i++) {
        jobs[i] = (lw_build_job){.source = source_text, .entries = entries, .entry_count = 2};
        if (i == 0) continue;
        snprintf(other[i - 1], sizeof other[0], "#define OTHER %d\n%s", i, source_text);
        jobs[i].source = other[i - 1];
      }
      int64_t start = lw__now_ns();
      lw_status status = lw__build_cuda(jobs, 3, &options, cache, &arena, &diag);
      print_message("sm_%u%s: %.1f ms\n", targets[t].sm, targets[t].a ? "a" : "",
                    (double)(lw__now_ns() - start) * 1e-6);
      if (status != LW_OK) fail_msg("%s", lw__diag_first_error(&diag));
      for (int i = 0; i < 3; i++) {
        assert_int_equal(jobs[i].from_cache, round == 1);
        check_cubin(&jobs[i]);
      }
      lw__diag_deinit(&diag);
      lw__arena_deinit(&arena);
    }
  }
  lw__cache_close(cache);
}

static void test_rejected_source(void **state) {
  (void)state;
  if (!have_nvrtc()) return;
  const char *entry = "lw_map_bad";
  lw_build_options options = {.sm_arch = 80};
  lw_build_job job = {.source = "extern \"C\" __global__ void lw_map_bad() { undeclared_thing(); }",
                      .entries = &entry,
                      .entry_count = 1};
  lw_arena arena = {0};
  lw_diag diag = {0};
  assert_int_equal(lw__build_cuda(&job, 1, &options, NULL, &arena, &diag), LW_STATUS_DEVICE_FAILED);
  assert_non_null(strstr(lw__diag_first_error(&diag), "undeclared_thing"));
  lw__diag_deinit(&diag);
  options.sm_arch = 1;
  job.source = "extern \"C\" __global__ void lw_map_bad() {}";
  assert_int_equal(lw__build_cuda(&job, 1, &options, NULL, &arena, &diag), LW_STATUS_DEVICE_FAILED);
  assert_non_null(strstr(lw__diag_first_error(&diag), "NVRTC fails"));
  lw__diag_deinit(&diag);
  lw__arena_deinit(&arena);
}

static void test_no_library(void **state) {
  (void)state;
  const char *entry = "lw_map_a";
  lw_build_job job = {.source = source_text, .entries = &entry, .entry_count = 1};
  const char *const paths[] = {"/no/such/libnvrtc.so.13", "libm.so.6"};
  for (size_t i = 0; i < LW_ARRAY_COUNT(paths); i++) {
    lw_build_options options = {.sm_arch = 80, .nvrtc_path = paths[i]};
    lw_arena arena = {0};
    lw_diag diag = {0};
    assert_int_equal(lw__build_cuda(&job, 1, &options, NULL, &arena, &diag),
                     LW_STATUS_DEVICE_FAILED);
    assert_non_null(strstr(lw__diag_first_error(&diag), "NVRTC was not found"));
    lw__diag_deinit(&diag);
    lw__arena_deinit(&arena);
  }
}

static void test_without_memory(void **state) {
  (void)state;
  if (!have_nvrtc()) return;
  const char *entries[] = {"lw_map_a", "lw_red_b"};
  lw_build_options options = {.sm_arch = 80, .threads = 1};
  uint64_t n = 1;
  for (;; n++) {
    lw_arena arena = {0};
    lw_build_job job = {.source = source_text, .entries = entries, .entry_count = 2};
    lw__mem_fail_at(n);
    lw_status status = lw__build_cuda(&job, 1, &options, NULL, &arena, NULL);
    lw__mem_fail_at(0);
    lw__arena_deinit(&arena);
    if (status == LW_OK) break;
    assert_true(status == LW_STATUS_OUT_OF_MEMORY || status == LW_STATUS_DEVICE_FAILED);
  }
  assert_true(n > 6);
}

int main(void) {
  const struct CMUnitTest tests[] = {
      cmocka_unit_test(test_reports),           cmocka_unit_test(test_broken_logs),
      cmocka_unit_test(test_builds_and_caches), cmocka_unit_test(test_rejected_source),
      cmocka_unit_test(test_no_library),        cmocka_unit_test(test_without_memory),
  };
  return cmocka_run_group_tests(tests, NULL, NULL);
}

/* Plan files: what is written comes back, every changed byte is noticed, and no file can do more
 * than be refused. "--corpus FOLDER" writes the files that fuzzing starts from. */
#include <stdio.h>

#include "plan/file.h"
#include "plan_kit.h"

static char image_a[300], image_b[17];

static const lw_message messages[] = {{LW_SEVERITY_WARNING, LW_OK, "net.onnx", "a warning"},
                                      {LW_SEVERITY_NOTE, LW_OK, "", "a note"}};

static lw_plan_about about_this(void) {
  return (lw_plan_about){.version = "0.1.0",
                         .build = "0123",
                         .model = "net.onnx",
                         .target = "cpu",
                         .profile = "cpu",
                         .cpu = "a processor",
                         .isa = "sse2 avx",
                         .fuse = true,
                         .messages = (lw_message *)(uintptr_t)messages,
                         .message_count = LW_ARRAY_COUNT(messages)};
}

/* A plan that uses every field. */
static void full_plan(lw_plan *plan, uint64_t seed) {
  lw_rng rng;
  lw__rng_seed(&rng, seed);
  random_plan(plan, &rng, (uint32_t)(seed % 13) + 1);
  if (seed % 3 == 1) {
    plan->lane_count = 2;
    plan->lane_note = "two, because";
    for (uint32_t i = 0; i < plan->steps.count; i++) plan->steps.data[i].lane = i % 2;
  }
  static const lw_plan_map map = {.arg = 1,
                                  .dtype = LW_DTYPE_F16,
                                  .rank = 2,
                                  .dims = {64, 4},
                                  .strides_bytes = {2, 128},
                                  .box = {64, 2}};
  const lw_plan_arg args[] = {
      {.buffer = add_buffer(plan, LW_BUFFER_ARENA, 0, 300), .written = true},
      {.buffer = 0},
      {.kind = LW_ARG_SCALAR, .scalar = -5},
      {.kind = LW_ARG_TENSOR_MAP, .map = &map}};
  add_step(plan, false, (lw_plan_step){.kind = LW_STEP_LAUNCH, .grid = 3}, args, 4);
  finish(plan);
  plan->kernels.data[0].image = image_a;
  plan->kernels.data[0].image_bytes = sizeof image_a;
  plan->kernels.data[0].key = (lw_hash){7, seed};
  add_kernel(plan);
  add_kernel(plan);
  for (uint32_t k = 1; k < 3; k++) {
    plan->kernels.data[k].image = image_b;
    plan->kernels.data[k].image_bytes = sizeof image_b;
    plan->kernels.data[k].registers = 30 + k;
    plan->kernels.data[k].early_start = true;
  }
  plan->target = seed % 2 ? LW_PLAN_CUDA : LW_PLAN_CPU;
  plan->sm_arch = 90;
  plan->arch_specific = true;
  plan->predicted_us = 1.5;
  plan->one_lane_us = 2;
  for (uint32_t i = 0; i < plan->steps.count; i++) {
    lw_plan_step *step = &plan->steps.data[i];
    step->cls = i % 2 ? "map" : NULL;
    step->group = i;
    step->critical = i % 2;
    step->traffic_bytes = 100.5 * i;
    step->predicted_us = 0.25 * i;
  }
}

static void write_plan(const lw_plan *plan, const lw_plan_source *sources, uint32_t count,
                       lw_text *out) {
  lw_plan_about about = about_this();
  assert_int_equal(lw__plan_file_write(plan, &about, sources, count, out), LW_OK);
}

/* Copies with the alignment that readers may count on. */
static void *aligned(const lw_text *bytes) {
  void *copy = NULL;
  assert_int_equal(lw__mem_resize(&copy, bytes->len + 1), LW_OK);
  memcpy(copy, bytes->data, bytes->len);
  return copy;
}

static void assert_same_plan(const lw_plan *a, const lw_plan *b) {
  lw_text x = {0}, y = {0};
  lw__plan_print(a, &x);
  lw__plan_print(b, &y);
  assert_string_equal(lw__text_str(&x), lw__text_str(&y));
  lw__text_deinit(&x);
  lw__text_deinit(&y);
  for (uint32_t i = 0; i < a->buffers.count; i++) {
    if (a->buffers.data[i].kind != LW_BUFFER_WEIGHT) continue;
    assert_memory_equal(a->buffers.data[i].data, b->buffers.data[i].data, a->buffers.data[i].bytes);
  }
  for (uint32_t i = 0; i < a->kernels.count; i++) {
    assert_int_equal(a->kernels.data[i].image_bytes, b->kernels.data[i].image_bytes);
    assert_memory_equal(a->kernels.data[i].image, b->kernels.data[i].image,
                        a->kernels.data[i].image_bytes);
  }
  assert_ptr_equal(b->kernels.data[1].image, b->kernels.data[2].image);
}

static void assert_same_about(const lw_plan_about *about) {
  lw_plan_about want = about_this();
  assert_string_equal(about->version, want.version);
  assert_string_equal(about->build, want.build);
  assert_string_equal(about->model, want.model);
  assert_string_equal(about->target, want.target);
  assert_string_equal(about->cpu, want.cpu);
  assert_string_equal(about->isa, want.isa);
  assert_true(about->fuse);
  assert_false(about->channels_last);
  assert_int_equal(about->message_count, 2);
  assert_int_equal(about->messages[0].severity, LW_SEVERITY_WARNING);
  assert_string_equal(about->messages[0].where, "net.onnx");
  assert_string_equal(about->messages[1].text, "a note");
}

/* Read back and written again, every byte is the same: no field is lost on the way. */
static void test_round_trip(void **state) {
  (void)state;
  for (uint64_t seed = 0; seed < 60; seed++) {
    lw_plan plan;
    lw_text first = {0}, second = {0};
    lw_plan_file file;
    lw_diag diag = {0};
    full_plan(&plan, seed);
    write_plan(&plan, NULL, 0, &first);
    void *bytes = aligned(&first);
    assert_true(lw__plan_file_is(bytes, first.len));
    assert_int_equal(lw__plan_file_read(bytes, first.len, "f", &diag, &file), LW_OK);
    assert_int_equal(lw__plan_file_finish(&file, "f", &diag), LW_OK);
    assert_same_plan(&plan, &file.plan);
    assert_same_about(&file.about);
    assert_int_equal(lw__plan_file_write(&file.plan, &file.about, NULL, 0, &second), LW_OK);
    assert_int_equal(second.len, first.len);
    assert_memory_equal(second.data, first.data, first.len);
    lw__plan_file_deinit(&file);
    lw__mem_free(bytes);
    lw__text_deinit(&first);
    lw__text_deinit(&second);
    lw__plan_deinit(&plan);
  }
}

/* Reads what must be refused, with one message. */
static void refuse(const void *bytes, size_t count, lw_status status, const char *says) {
  lw_plan_file file;
  lw_diag diag = {0};
  assert_int_equal(lw__plan_file_read(bytes, count, "the file", &diag, &file), status);
  assert_int_equal(diag.messages.count, 1);
  assert_string_equal(diag.messages.data[0].where, "the file");
  if (strstr(diag.messages.data[0].text, says) == NULL) fail_msg("%s", diag.messages.data[0].text);
  assert_int_equal(file.plan.steps.count, 0);
  lw__diag_deinit(&diag);
}

static void test_damage(void **state) {
  (void)state;
  lw_plan plan;
  lw_text text = {0};
  full_plan(&plan, 7);
  write_plan(&plan, NULL, 0, &text);
  uint8_t *bytes = aligned(&text);
  for (size_t i = 0; i < text.len; i++) {
    uint8_t kept = bytes[i];
    bytes[i] ^= (uint8_t)(1 << i % 8);
    bool format = i >= 8 && i < 12;
    refuse(bytes, text.len, format ? LW_STATUS_UNSUPPORTED : LW_STATUS_MODEL_INVALID,
           i < 8    ? "not a plan file"
           : format ? "compile the model again"
                    : "damaged");
    bytes[i] = kept;
  }
  for (size_t length = 0; length < text.len; length++) {
    refuse(bytes, length, LW_STATUS_MODEL_INVALID, length < 8 ? "not a plan file" : "damaged");
  }
  lw__mem_free(bytes);
  lw__text_deinit(&text);
  lw__plan_deinit(&plan);
}

static void test_other_format(void **state) {
  (void)state;
  lw_plan plan;
  lw_text text = {0};
  full_plan(&plan, 3);
  write_plan(&plan, NULL, 0, &text);
  uint8_t *bytes = aligned(&text);
  bytes[8] = 99;
  memcpy(bytes + 24, "9.9.9\n\x1b", 8);
  refuse(bytes, text.len, LW_STATUS_UNSUPPORTED, "format 99, written by lawson 9.9.9??;");
  lw__mem_free(bytes);
  lw__text_deinit(&text);
  lw__plan_deinit(&plan);
}

/* Behind the checksums: any word of the file is another one. It is refused, or a plan that the
 * verifier accepts. */
static void test_hostile(void **state) {
  (void)state;
  static const uint64_t words[] = {0, 1, 2, 3, 0x7fffffff, 0x80000000u, 0xfffffffe, 0xffffffff};
  uint32_t refused = 0, accepted = 0;
  for (uint64_t seed = 0; seed < 4; seed++) {
    lw_plan plan;
    lw_text text = {0};
    full_plan(&plan, seed);
    write_plan(&plan, NULL, 0, &text);
    uint8_t *bytes = aligned(&text);
    for (size_t at = 8; at + 8 <= text.len; at++) {
      for (size_t w = 0; w < LW_ARRAY_COUNT(words); w++) {
        if ((at + w) % 3 != 0) continue; /* a third of all */
        lw_plan_file file;
        lw_diag diag = {0};
        memcpy(bytes, text.data, text.len);
        memcpy(bytes + at, &words[w], w % 2 == 0 ? 4 : 8);
        lw__plan_file_seal(bytes, text.len);
        lw_status status = lw__plan_file_read(bytes, text.len, "f", &diag, &file);
        if (status == LW_OK) {
          status = lw__plan_file_finish(&file, "f", &diag);
          lw__plan_file_deinit(&file);
        }
        if (status != LW_OK) assert_int_equal(diag.messages.count, 1);
        refused += status != LW_OK;
        accepted += status == LW_OK;
        lw__diag_deinit(&diag);
      }
    }
    lw__mem_free(bytes);
    lw__text_deinit(&text);
    lw__plan_deinit(&plan);
  }
  assert_true(refused > 1000);
  assert_true(accepted > 100); /* names, predictions, images, weights */
}

static void test_sources(void **state) {
  (void)state;
  static uint8_t model[4096], other[4096];
  lw_plan plan;
  lw_text text = {0};
  lw_diag diag = {0};
  lw_plan_file file;
  for (size_t i = 0; i < sizeof model; i++) model[i] = other[i] = (uint8_t)(i * 7);
  full_plan(&plan, 4);
  uint32_t weight = 2;
  assert_int_equal(plan.buffers.data[weight].kind, LW_BUFFER_WEIGHT);
  plan.buffers.data[weight].data = model + 123;
  lw_plan_source source = {.name = "net.onnx",
                           .bytes = sizeof model,
                           .hash = lw__plan_source_hash(model, sizeof model),
                           .data = model};
  write_plan(&plan, &source, 1, &text);
  void *bytes = aligned(&text);
  assert_int_equal(lw__plan_file_read(bytes, text.len, "f", &diag, &file), LW_OK);
  assert_int_equal(file.source_count, 1);
  assert_string_equal(file.sources[0].name, "net.onnx");
  assert_int_equal(file.places[weight].offset, 123);
  assert_int_equal(lw__plan_file_finish(&file, "f", &diag), LW_STATUS_USAGE); /* not attached */
  assert_int_equal(lw__plan_file_attach(&file, 0, other, sizeof other - 1, NULL, "f", &diag),
                   LW_STATUS_MODEL_INVALID);
  other[4000] ^= 1;
  assert_int_equal(lw__plan_file_attach(&file, 0, other, sizeof other, NULL, "f", &diag),
                   LW_STATUS_MODEL_INVALID);
  other[4000] ^= 1;
  assert_int_equal(lw__plan_file_attach(&file, 0, other, sizeof other, NULL, "f", &diag), LW_OK);
  assert_int_equal(lw__plan_file_finish(&file, "f", &diag), LW_OK);
  assert_ptr_equal(file.plan.buffers.data[weight].data, other + 123);
  lw__plan_file_deinit(&file);
  lw__diag_deinit(&diag);
  lw__mem_free(bytes);
  lw__text_deinit(&text);
  lw__plan_deinit(&plan);
}

static void test_without_memory(void **state) {
  (void)state;
  lw_plan plan;
  lw_text text = {0};
  full_plan(&plan, 9);
  lw_plan_about about = about_this();
  lw_status status = LW_STATUS_OUT_OF_MEMORY;
  for (uint64_t n = 1; status != LW_OK; n++) {
    lw__text_deinit(&text);
    lw__mem_fail_at(n);
    status = lw__plan_file_write(&plan, &about, NULL, 0, &text);
    lw__mem_fail_at(0);
    if (status != LW_OK) assert_int_equal(status, LW_STATUS_OUT_OF_MEMORY);
  }
  void *bytes = aligned(&text);
  status = LW_STATUS_OUT_OF_MEMORY;
  for (uint64_t n = 1; status != LW_OK; n++) {
    lw_plan_file file;
    lw__mem_fail_at(n);
    status = lw__plan_file_read(bytes, text.len, "f", NULL, &file);
    lw__mem_fail_at(0);
    if (status == LW_OK) lw__plan_file_deinit(&file);
    if (status != LW_OK) assert_int_equal(status, LW_STATUS_OUT_OF_MEMORY);
  }
  lw__mem_free(bytes);
  lw__text_deinit(&text);
  lw__plan_deinit(&plan);
}

/* ---- the corpus ---- */

enum { CORPUS_FILES = 6 };

static void corpus_path(char *out, size_t bytes, const char *folder, uint64_t seed) {
  snprintf(out, bytes, "%s/%u.lwp", folder, (unsigned)seed);
}

/* The files that fuzzing starts from are what this build writes: otherwise what the bytes mean has
 * changed, LW_PLAN_FORMAT has to be counted up, and they are written again (--corpus). */
static void test_corpus(void **state) {
  (void)state;
  for (uint64_t seed = 0; seed < CORPUS_FILES; seed++) {
    char path[512];
    lw_plan plan;
    lw_text text = {0};
    lw_file_map map;
    corpus_path(path, sizeof path, LW_SOURCE_DIR "/tests/data/fuzz/plan", seed);
    full_plan(&plan, seed);
    write_plan(&plan, NULL, 0, &text);
    assert_int_equal(lw__file_map(path, NULL, &map), LW_OK);
    assert_int_equal(map.bytes, text.len);
    assert_memory_equal(map.data, text.data, text.len);
    lw__file_unmap(&map);
    lw__text_deinit(&text);
    lw__plan_deinit(&plan);
  }
}

static int write_corpus(const char *folder) {
  for (uint64_t seed = 0; seed < CORPUS_FILES; seed++) {
    char path[512];
    lw_plan plan;
    lw_text text = {0};
    corpus_path(path, sizeof path, folder, seed);
    full_plan(&plan, seed);
    write_plan(&plan, NULL, 0, &text);
    if (lw__file_write(path, text.data, text.len, NULL) != LW_OK) return 1;
    lw__text_deinit(&text);
    lw__plan_deinit(&plan);
  }
  return 0;
}

int main(int argc, char **argv) {
  for (size_t i = 0; i < sizeof image_a; i++) image_a[i] = (char)(i * 13);
  if (argc == 3 && strcmp(argv[1], "--corpus") == 0) return write_corpus(argv[2]);
  const struct CMUnitTest tests[] = {
      cmocka_unit_test(test_round_trip),   cmocka_unit_test(test_damage),
      cmocka_unit_test(test_other_format), cmocka_unit_test(test_hostile),
      cmocka_unit_test(test_sources),      cmocka_unit_test(test_without_memory),
      cmocka_unit_test(test_corpus),
  };
  return cmocka_run_group_tests(tests, NULL, NULL);
}

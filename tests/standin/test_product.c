/* test_product.c: a kernel with a product on the look-alike of the driver: generated CUDA C with
 * its skeleton replaced by what it means, tensor maps made by the runtime and read by the kernel.
 * The results are the interpreter's, also after bindings changed; a map is made anew exactly when
 * its address is another; what no hardware takes is refused. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdio.h>
#include <string.h>

#include <cmocka.h>
#include <dlfcn.h>

#include "compiler/emit/emit.h"
#include "compiler/kernel/interp.h"
#include "lib/product.h"
#include "runtime/runtime.h"
#include "standin/standin.h"

enum { ROWS = 19, COLUMNS = 40, DEPTH = 24, INPUTS = 4, MOVED_BYTES = 64 };

static const char library[] = LW_BUILD_DIR "/libcuda_standin.so";
static lw_standin_state *standin;

static int load_standin(void **state) {
  (void)state;
  void *handle = dlopen(library, RTLD_NOW);
  if (handle == NULL) return 1;
  lw_standin_function *function;
  void *symbol = dlsym(handle, "lw_standin");
  memcpy(&function, &symbol, sizeof symbol);
  standin = function();
  return 0;
}

typedef struct fixture {
  lw_test_product form;
  lw_kernel kernel;
  lw_plan plan;
  size_t bytes[INPUTS + 1];
  lw_rt_device *device;
  lw_rt_program *program;
  lw_rt_context *context;
  char *memory; /* on the device, which is host memory here */
} fixture;

static void add_buffers(fixture *f) {
  size_t size = lw_dtype_size_bytes(f->form.dtype), out = lw_dtype_size_bytes(f->form.out_dtype);
  const size_t bytes[INPUTS + 1] = {ROWS * DEPTH * size, DEPTH * COLUMNS * size, COLUMNS * size,
                                    ROWS * COLUMNS * out, ROWS * COLUMNS * out};
  memcpy(f->bytes, bytes, sizeof bytes);
  for (uint32_t i = 0; i <= INPUTS + 1; i++) { /* the last two: out, and its copy */
    bool input = i < INPUTS;
    size_t b = bytes[i > INPUTS ? INPUTS : i];
    lw_plan_buffer buffer = {.kind = input ? LW_BUFFER_INPUT : LW_BUFFER_OUTPUT,
                             .index = input ? i : i - INPUTS,
                             .bytes = b};
    lw_plan_io io = {
        .name = "t", .dtype = LW_DTYPE_U8, .rank = 1, .dims = {(int64_t)b}, .buffer = i};
    assert_int_equal(lw_vec_push(&f->plan.buffers, buffer), LW_OK);
    if (input)
      assert_int_equal(lw_vec_push(&f->plan.inputs, io), LW_OK);
    else
      assert_int_equal(lw_vec_push(&f->plan.outputs, io), LW_OK);
  }
}

static void add_kernel(fixture *f) {
  const lw_kernel *kernels[1] = {&f->kernel};
  static const char *const names[1] = {"lw_dot_test"};
  lw_text text = {0};
  lw__text_add(&text, "%s", LW_STANDIN_SOURCE);
  assert_int_equal(lw__emit_cuda(kernels, names, 1, &text), LW_OK);
  lw_plan_kernel kernel = {.name = names[0],
                           .block_threads = f->kernel.block_threads,
                           .shared_bytes = (uint32_t)lw__kernel_shared_bytes(&f->kernel),
                           .image_bytes = text.len + 1};
  assert_int_equal(lw__arena_dup(&f->plan.arena, lw__text_str(&text), text.len + 1, &kernel.image),
                   LW_OK);
  assert_int_equal(lw_vec_push(&f->plan.kernels, kernel), LW_OK);
  lw__text_deinit(&text);
}

/* out = the product, another output = a copy of it: two steps, which make a graph. */
static void add_steps(fixture *f) {
  lw_plan_map *maps;
  lw_plan_step step = {.kind = LW_STEP_LAUNCH, .grid = 2, .label = "product"};
  assert_int_equal(lw__arena_alloc(&f->plan.arena, LW_KPRODUCT_MAPS, sizeof *maps, &maps), LW_OK);
  assert_int_equal(lw__arena_alloc(&f->plan.arena, 12, sizeof *step.args, &step.args), LW_OK);
  for (uint32_t i = 0; i <= INPUTS; i++)
    step.args[step.arg_count++] = (lw_plan_arg){.buffer = i, .written = i == INPUTS};
  step.args[step.arg_count++] = (lw_plan_arg){.kind = LW_ARG_SCALAR, .scalar = ROWS};
  uint32_t count = lw__kproduct_maps(&f->kernel.product, ROWS, maps);
  for (uint32_t i = 0; i < count; i++)
    step.args[step.arg_count++] = (lw_plan_arg){.kind = LW_ARG_TENSOR_MAP, .map = &maps[i]};
  assert_int_equal(lw_vec_push(&f->plan.steps, step), LW_OK);
  lw_plan_step copy = {.kind = LW_STEP_COPY, .bytes = f->bytes[INPUTS], .arg_count = 2};
  assert_int_equal(lw__arena_alloc(&f->plan.arena, 2, sizeof *copy.args, &copy.args), LW_OK);
  copy.args[0] = (lw_plan_arg){.buffer = INPUTS + 1, .written = true};
  copy.args[1] = (lw_plan_arg){.buffer = INPUTS};
  assert_int_equal(lw_vec_push(&f->plan.steps, copy), LW_OK);
}

static void open_fixture(fixture *f, const lw_test_product *form, bool graphs) {
  *f = (fixture){.form = *form};
  lw_rt_device_options options = {.cuda_path = library, .graph_min_steps = graphs ? 0 : UINT32_MAX};
  lw__plan_init(&f->plan, LW_PLAN_CUDA);
  f->plan.sm_arch = 90;
  f->plan.arch_specific = true;
  assert_int_equal(lw_test_product_make(form, ROWS, &f->kernel), LW_OK);
  add_buffers(f);
  add_kernel(f);
  add_steps(f);
  assert_int_equal(lw__plan_link(&f->plan), LW_OK);
  assert_int_equal(lw__plan_place(&f->plan), LW_OK);
  lw_diag diag = {0};
  if (lw__plan_verify(&f->plan, &diag) != LW_OK) fail_msg("%s", lw__diag_first_error(&diag));
  assert_int_equal(lw__rt_device_open("cuda:0", &options, &diag, &f->device), LW_OK);
  if (lw__rt_program_load(f->device, &f->plan, &diag, &f->program) != LW_OK)
    fail_msg("%s", lw__diag_first_error(&diag));
  assert_int_equal(lw__rt_context_create(f->program, NULL, &f->context), LW_OK);
  lw__diag_deinit(&diag);
}

static void close_fixture(fixture *f) {
  lw__rt_context_destroy(f->context);
  lw__rt_program_release(f->program);
  lw__rt_device_release(f->device);
  lw__plan_deinit(&f->plan);
  lw__kernel_deinit(&f->kernel);
  if (standin->violations != 0) fail_msg("%s", standin->violation);
}

/* Memory for all buffers, each from a multiple of 64 bytes on, filled with small numbers. */
static char *make_memory(fixture *f, char *at[INPUTS + 2]) {
  void *memory;
  size_t total = 0;
  for (int i = 0; i < INPUTS + 2; i++) total += f->bytes[i > INPUTS ? INPUTS : i] + 64;
  assert_int_equal(lw__rt_alloc(f->device, total, &memory), LW_OK);
  char *next = memory;
  for (int i = 0; i < INPUTS + 2; i++) {
    size_t bytes = f->bytes[i > INPUTS ? INPUTS : i];
    lw_dtype dtype = i < 3 ? f->form.dtype : f->form.out_dtype;
    at[i] = next;
    next += (bytes + 63) / 64 * 64;
    for (size_t e = 0; e < bytes / lw_dtype_size_bytes(dtype); e++)
      lw__elem_set_f64(dtype, at[i], (int64_t)e,
                       (double)((int)((e * 29 + (size_t)i) % 33) - 16) / 8);
  }
  return memory;
}

static void bind(fixture *f, char *const at[INPUTS + 2]) {
  for (uint32_t i = 0; i < INPUTS; i++)
    assert_int_equal(lw__rt_bind_input(f->context, i, at[i], f->bytes[i], true), LW_OK);
  for (uint32_t i = 0; i < 2; i++)
    assert_int_equal(lw__rt_bind_output(f->context, i, at[INPUTS + i], f->bytes[INPUTS], true),
                     LW_OK);
}

/* Runs, and compares with the interpreter bit for bit. */
static void run_and_compare(fixture *f, char *const at[INPUTS + 2]) {
  static const int64_t rows[1] = {ROWS};
  static float want[ROWS * COLUMNS];
  lw_kinterp_buffer buffers[INPUTS + 1];
  lw_diag diag = {0};
  bind(f, at);
  if (lw__rt_run(f->context, &diag) != LW_OK) fail_msg("%s", lw__diag_first_error(&diag));
  lw__diag_deinit(&diag);
  for (int i = 0; i <= INPUTS; i++)
    buffers[i] = (lw_kinterp_buffer){i == INPUTS ? (void *)want : (void *)at[i], f->bytes[i]};
  assert_int_equal(lw__kinterp_run(&f->kernel, 1, buffers, rows, NULL, NULL), LW_OK);
  assert_memory_equal(at[INPUTS], want, f->bytes[INPUTS]);
  assert_memory_equal(at[INPUTS + 1], want, f->bytes[INPUTS]);
}

static void check_form(const lw_test_product *form, bool graphs) {
  fixture f;
  char *one[INPUTS + 2], *two[INPUTS + 2];
  open_fixture(&f, form, graphs);
  char *first = make_memory(&f, one), *second = make_memory(&f, two);
  uint64_t maps = form->store == LW_PRODUCT_STORE_TMA ? 3 : 2, before = standin->maps;
  run_and_compare(&f, one);
  assert_int_equal(standin->maps - before, maps);
  run_and_compare(&f, one); /* nothing new */
  assert_int_equal(standin->maps - before, maps);
  two[1] = one[1];
  run_and_compare(&f, two); /* B stayed where it was */
  assert_int_equal(standin->maps - before, 2 * maps - 1);
  run_and_compare(&f, one);
  assert_int_equal(standin->maps - before, 3 * maps - 2);
  lw__rt_free(f.device, first);
  lw__rt_free(f.device, second);
  close_fixture(&f);
}

static void test_results(void **state) {
  (void)state;
  for (int i = 0; i < 16; i++) {
    lw_test_product form = {.dtype = i % 2 ? LW_DTYPE_BF16 : LW_DTYPE_F16,
                            .b_layout = i / 2 % 2 ? LW_PRODUCT_B_NK : LW_PRODUCT_B_KN,
                            .store = i < 8 ? LW_PRODUCT_STORE_TMA : LW_PRODUCT_STORE_DIRECT,
                            .turned = i >= 12,
                            .columns = COLUMNS,
                            .depth = DEPTH};
    form.out_dtype = form.turned ? LW_DTYPE_F32 : i / 4 % 2 ? LW_DTYPE_F16 : LW_DTYPE_BF16;
    check_form(&form, i / 4 % 2 == 0);
  }
}

static const lw_test_product plain = {.dtype = LW_DTYPE_F16,
                                      .out_dtype = LW_DTYPE_F16,
                                      .b_layout = LW_PRODUCT_B_KN,
                                      .store = LW_PRODUCT_STORE_TMA,
                                      .columns = COLUMNS,
                                      .depth = DEPTH};

/* Whatever is changed in a map: neither the verifier nor the runtime takes the plan. */
static void refuse(fixture *f) {
  lw_rt_program *program;
  assert_int_equal(lw__plan_verify(&f->plan, NULL), LW_STATUS_INTERNAL);
  assert_int_equal(lw__rt_program_load(f->device, &f->plan, NULL, &program), LW_STATUS_INTERNAL);
}

#define REFUSED(change)                                      \
  do {                                                       \
    lw_plan_map saved = *map;                                \
    change;                                                  \
    refuse(&f);                                              \
    *map = saved;                                            \
    assert_int_equal(lw__plan_verify(&f.plan, NULL), LW_OK); \
  } while (0)

static void test_refused(void **state) {
  (void)state;
  fixture f;
  open_fixture(&f, &plain, true);
  lw_plan_arg *args = f.plan.steps.data[0].args;
  lw_plan_map *map = (lw_plan_map *)(uintptr_t)args[INPUTS + 2].map;
  REFUSED(map->rank = 0);
  REFUSED(map->rank = 6);
  REFUSED(map->dtype = LW_DTYPE_I64);
  REFUSED(map->arg = 5);
  REFUSED(map->arg = 100);
  REFUSED(map->offset_bytes = 8);
  REFUSED(map->offset_bytes = 16);
  REFUSED(map->strides_bytes[1] += 8);
  REFUSED(map->strides_bytes[1] += 16);
  REFUSED(map->strides_bytes[0] = 4);
  REFUSED(map->dims[1] = ROWS + 1);
  REFUSED(map->dims[0] = 0);
  REFUSED(map->dims[1] = UINT64_MAX);
  REFUSED(map->box[0] = 32);
  REFUSED(map->box[1] = 0);
  REFUSED(map->box[1] = 257);
  lw_plan_arg scalar = args[INPUTS + 1];
  args[INPUTS + 1] = args[INPUTS + 4]; /* a map, a map, a map, a scalar */
  args[INPUTS + 4] = scalar;
  refuse(&f);
  args[INPUTS + 4] = args[INPUTS + 1];
  args[INPUTS + 1] = scalar;
  args[INPUTS + 2].map = NULL;
  refuse(&f);
  close_fixture(&f);
}

/* Every call to the driver fails once: the run after it is right. */
static void test_failing_calls(void **state) {
  (void)state;
  fixture f;
  char *at[INPUTS + 2], *moved[INPUTS + 2];
  open_fixture(&f, &plain, true);
  char *memory = make_memory(&f, at), *more = make_memory(&f, moved);
  bool done = false;
  for (uint64_t n = 1; !done; n++) {
    bind(&f, n % 2 ? at : moved);
    standin->fail_at = n;
    standin->fail_code = 1;
    standin->failed_call_is_cleanup = 0;
    lw_status status = lw__rt_run(f.context, NULL);
    done = standin->fail_at != 0; /* there were fewer calls */
    standin->fail_at = 0;
    bool unharmed = done || standin->failed_call_is_cleanup;
    assert_true(unharmed ? status == LW_OK : status == LW_STATUS_DEVICE_FAILED);
    run_and_compare(&f, n % 2 ? at : moved);
    assert_true(n < 100);
  }
  lw__rt_free(f.device, memory);
  lw__rt_free(f.device, more);
  close_fixture(&f);
}

int main(void) {
  const struct CMUnitTest tests[] = {
      cmocka_unit_test(test_results),
      cmocka_unit_test(test_refused),
      cmocka_unit_test(test_failing_calls),
  };
  return cmocka_run_group_tests(tests, load_standin, NULL);
}

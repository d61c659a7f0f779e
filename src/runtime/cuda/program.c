/* program.c: kernels on the GPU, and putting steps into a stream. */
#include <inttypes.h>
#include <limits.h>

#include "runtime/cuda/cuda.h"

/* Dynamic shared memory beyond this must be asked for per function. */
#define SHARED_FREE_BYTES (48u << 10)

typedef struct cu_program { /* lw_rt_program.state */
  lw_cu_module *modules;
  uint32_t module_count;
  lw_cu_function *functions; /* per kernel */
} cu_program;

/* ---- loading ---- */

static lw_status program_load_module(lw_rt_program *program, const lw_plan *plan, uint32_t k,
                                     uint32_t *module_of, lw_diag *diag) {
  cu_program *state = program->state;
  lw_cu_gpu *gpu = program->device->state;
  const lw_plan_kernel *kernel = &plan->kernels.data[k];
  if (kernel->image == NULL || kernel->image_bytes == 0) {
    return lw__fail(diag, LW_STATUS_INTERNAL, program->kernels[k].name,
                    "this kernel was not built");
  }
  for (uint32_t other = 0; other < k; other++) {
    if (plan->kernels.data[other].image != kernel->image) continue;
    module_of[k] = module_of[other];
    return LW_OK;
  }
  int result = gpu->driver.module_load(&state->modules[state->module_count], kernel->image);
  LW_TRY(lw__cu_check(gpu, result, "cuModuleLoadData", program->kernels[k].name, diag));
  module_of[k] = state->module_count++;
  return LW_OK;
}

/* Blocks that need more registers, threads or shared memory than there are fail here and not at the
 * first launch. */
static lw_status program_check_launch(lw_cu_gpu *gpu, const lw_rt_kernel *kernel,
                                      lw_cu_function function, lw_diag *diag) {
  int most = 0, blocks = 0;
  int result = gpu->driver.function_get(&most, LW_CU_FUNCTION_MAX_THREADS, function);
  LW_TRY(lw__cu_check(gpu, result, "cuFuncGetAttribute", kernel->name, diag));
  if (kernel->block_threads > (uint32_t)(most > 0 ? most : 0)) {
    return lw__fail(diag, LW_STATUS_DEVICE_FAILED, kernel->name,
                    "needs blocks of %u threads and may have %d", kernel->block_threads, most);
  }
  result =
      gpu->driver.occupancy(&blocks, function, (int)kernel->block_threads, kernel->shared_bytes);
  LW_TRY(
      lw__cu_check(gpu, result, "cuOccupancyMaxActiveBlocksPerMultiprocessor", kernel->name, diag));
  if (blocks > 0) return LW_OK;
  return lw__fail(diag, LW_STATUS_DEVICE_FAILED, kernel->name,
                  "no block of %u threads with %u bytes of shared memory fits on the GPU",
                  kernel->block_threads, kernel->shared_bytes);
}

static lw_status program_find_function(lw_rt_program *program, uint32_t k, lw_cu_module module,
                                       lw_diag *diag) {
  cu_program *state = program->state;
  lw_cu_gpu *gpu = program->device->state;
  const lw_rt_kernel *kernel = &program->kernels[k];
  lw_cu_function *function = &state->functions[k];
  int result = gpu->driver.module_function(function, module, kernel->name);
  LW_TRY(lw__cu_check(gpu, result, "cuModuleGetFunction", kernel->name, diag));
  /* Without this the driver loads the code at the first launch, which costs time then and cannot be
   * captured. */
  if (gpu->driver.function_load != NULL) {
    LW_TRY(
        lw__cu_check(gpu, gpu->driver.function_load(*function), "cuFuncLoad", kernel->name, diag));
  }
  if (kernel->shared_bytes > SHARED_FREE_BYTES) {
    int bytes = kernel->shared_bytes > INT_MAX ? INT_MAX : (int)kernel->shared_bytes;
    result = gpu->driver.function_set(*function, LW_CU_FUNCTION_MAX_DYNAMIC_SHARED, bytes);
    LW_TRY(lw__cu_check(gpu, result, "cuFuncSetAttribute", kernel->name, diag));
  }
  return program_check_launch(gpu, kernel, *function, diag);
}

static lw_status program_load_kernel(lw_rt_program *program, const lw_plan *plan, uint32_t k,
                                     uint32_t *module_of, lw_diag *diag) {
  module_of[k] = LW_NONE;
  LW_TRY(program_load_module(program, plan, k, module_of, diag));
  if (module_of[k] == LW_NONE) return LW_STATUS_DEVICE_FAILED; /* said for another kernel of it */
  const cu_program *state = program->state;
  return program_find_function(program, k, state->modules[module_of[k]], diag);
}

/* A kernel that the device does not take is no reason to stop: the caller wants to know all of
 * them.
 */
static lw_status program_load_kernels(lw_rt_program *program, const lw_plan *plan,
                                      uint32_t *module_of, lw_diag *diag) {
  lw_status status = LW_OK;
  for (uint32_t k = 0; k < program->kernel_count; k++) {
    lw_status one = program_load_kernel(program, plan, k, module_of, status == LW_OK ? diag : NULL);
    if (one == LW_OK) continue;
    status = one;
    if (one != LW_STATUS_DEVICE_FAILED || program->refused == NULL) return status;
    program->refused[k] = true;
  }
  return status;
}

static lw_status program_check_grids(const lw_rt_program *program, const lw_rt_segment *segment,
                                     lw_diag *diag) {
  for (uint32_t i = 0; i < segment->step_count; i++) {
    if (segment->steps[i].kind != LW_STEP_LAUNCH || segment->steps[i].grid <= INT32_MAX) continue;
    lw_text where = {0};
    lw__rt_describe_step(program, segment, i, &where);
    lw_status status =
        lw__fail(diag, LW_STATUS_UNSUPPORTED, lw__text_str(&where),
                 "%" PRId64 " blocks are more than a launch can have", segment->steps[i].grid);
    lw__text_deinit(&where);
    return status;
  }
  return LW_OK;
}

lw_status lw__cu_program_open(lw_rt_program *program, const lw_plan *plan, lw_diag *diag) {
  lw_cu_gpu *gpu = program->device->state;
  uint32_t count = program->kernel_count;
  LW_TRY(program_check_grids(program, &program->init, diag));
  LW_TRY(program_check_grids(program, &program->run, diag));
  cu_program *state;
  uint32_t *module_of;
  LW_TRY(lw__arena_alloc(&program->arena, 1, sizeof *state, &state));
  LW_TRY(lw__arena_alloc(&program->arena, count, sizeof *state->modules, &state->modules));
  LW_TRY(lw__arena_alloc(&program->arena, count, sizeof *state->functions, &state->functions));
  LW_TRY(lw__arena_alloc(&program->arena, count, sizeof *module_of, &module_of));
  program->state = state;
  lw_cu_scope scope;
  LW_TRY(lw__cu_enter(gpu, diag, &scope));
  lw_status status = program_load_kernels(program, plan, module_of, diag);
  lw__cu_leave(gpu, scope);
  return status;
}

void lw__cu_program_close(lw_rt_program *program) {
  cu_program *state = program->state;
  lw_cu_gpu *gpu = program->device->state;
  lw_cu_scope scope;
  if (state == NULL || !lw__cu_enter_to_free(gpu, &scope)) return;
  for (uint32_t i = 0; i < state->module_count; i++)
    (void)gpu->driver.module_unload(state->modules[i]);
  lw__cu_leave(gpu, scope);
}

lw_cu_function lw__cu_program_function(const lw_rt_program *program, uint32_t kernel) {
  return ((const cu_program *)program->state)->functions[kernel];
}

/* ---- steps ---- */

void lw__cu_make_parameters(const lw_rt_segment *segment, void **slots, const lw_cu_maps *maps,
                            void **parameters) {
  for (uint32_t i = 0; i < segment->step_count; i++) {
    const lw_rt_step *step = &segment->steps[i];
    void **to = &parameters[lw__rt_first_parameter(step)];
    for (uint32_t k = 0; k < step->slot_count; k++) *to++ = &slots[step->first_slot + k];
    for (uint32_t k = 0; k < step->scalar_count; k++)
      *to++ = &segment->scalars[step->first_scalar + k];
    for (uint32_t k = 0; k < step->map_count; k++) *to++ = &maps->maps[step->first_map + k];
  }
}

static lw_cu_address slot_address(void *slot) { return (lw_cu_address)(uintptr_t)slot; }

int lw__cu_put_step(lw_rt_program *program, const lw_rt_step *step, void **slots, void **parameters,
                    lw_cu_stream stream, const char **out_call) {
  const lw_cu_driver *driver = &((const lw_cu_gpu *)program->device->state)->driver;
  const cu_program *state = program->state;
  void **args = &slots[step->first_slot];
  if (step->kind == LW_STEP_LAUNCH) {
    const lw_rt_kernel *kernel = &program->kernels[step->kernel];
    *out_call = "cuLaunchKernel";
    return driver->launch(state->functions[step->kernel], (unsigned int)step->grid, 1, 1,
                          kernel->block_threads, 1, 1, kernel->shared_bytes, stream,
                          &parameters[lw__rt_first_parameter(step)], NULL);
  }
  if (step->bytes == 0) return LW_CU_SUCCESS;
  if (step->kind == LW_STEP_COPY) {
    *out_call = "cuMemcpyDtoDAsync";
    return driver->copy(slot_address(args[0]), slot_address(args[1]), (size_t)step->bytes, stream);
  }
  *out_call = "cuMemsetD8Async";
  return driver->fill(slot_address(args[0]), step->fill, (size_t)step->bytes, stream);
}

lw_status lw__cu_check_steps(lw_rt_program *program, const lw_rt_segment *segment, int result,
                             const char *call, lw_diag *diag) {
  if (result == LW_CU_SUCCESS) return LW_OK;
  lw_text where = {0};
  lw__rt_describe_steps(program, segment, &where);
  lw_status status = lw__cu_check(program->device->state, result, call, lw__text_str(&where), diag);
  lw__text_deinit(&where);
  return status;
}

lw_status lw__cu_check_step(lw_rt_program *program, const lw_rt_segment *segment, uint32_t step,
                            int result, const char *call, lw_diag *diag) {
  if (result == LW_CU_SUCCESS) return LW_OK;
  lw_text where = {0};
  lw__rt_describe_step(program, segment, step, &where);
  lw_status status = lw__cu_check(program->device->state, result, call, lw__text_str(&where), diag);
  lw__text_deinit(&where);
  return status;
}

lw_status lw__cu_put_steps(lw_rt_program *program, const lw_rt_segment *segment, void **slots,
                           void **parameters, lw_cu_stream stream, lw_diag *diag) {
  for (uint32_t i = 0; i < segment->step_count; i++) {
    const char *call = "";
    int result = lw__cu_put_step(program, &segment->steps[i], slots, parameters, stream, &call);
    LW_TRY(lw__cu_check_step(program, segment, i, result, call, diag));
  }
  return LW_OK;
}

static lw_status init_put(lw_rt_program *program, void **slots, lw_cu_maps *maps, void **parameters,
                          lw_diag *diag) {
  lw_cu_gpu *gpu = program->device->state;
  const lw_rt_segment *segment = &program->init;
  lw_cu_scope scope;
  LW_TRY(lw__cu_enter(gpu, diag, &scope));
  lw__cu_make_parameters(segment, slots, maps, parameters);
  lw_status status = lw__cu_put_steps(program, segment, slots, parameters, gpu->stream, diag);
  lw_status waited = lw__cu_check_steps(program, segment, gpu->driver.stream_wait(gpu->stream),
                                        "cuStreamSynchronize", status == LW_OK ? diag : NULL);
  lw__cu_leave(gpu, scope);
  return status != LW_OK ? status : waited;
}

lw_status lw__cu_program_init(lw_rt_program *program, void **slots, lw_diag *diag) {
  lw_arena scratch = {0};
  void **parameters;
  lw_cu_maps maps;
  const lw_rt_segment *segment = &program->init;
  lw_status status =
      lw__arena_alloc(&scratch, lw__rt_parameter_count(segment), sizeof *parameters, &parameters);
  if (status == LW_OK) status = lw__cu_maps_init(segment, &scratch, &maps);
  if (status == LW_OK) status = lw__cu_maps_update(program, segment, slots, &maps, diag);
  if (status == LW_OK) status = init_put(program, slots, &maps, parameters, diag);
  lw__arena_deinit(&scratch);
  return status;
}

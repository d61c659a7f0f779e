/* fn_kernels.h: kernels that apply one scalar function, cast or narrow load and store to arrays:
 * one for every row and type that the emitters must be able to print. */
#ifndef LW_TEST_FN_KERNELS_H
#define LW_TEST_FN_KERNELS_H

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "compiler/emit/emit.h"
#include "compiler/kernel/build.h"

#define FN_BLOCK 256 /* elements per block */

static const lw_dtype fn_value_types[] = {LW_DTYPE_BOOL, LW_DTYPE_I8,  LW_DTYPE_I16, LW_DTYPE_I32,
                                          LW_DTYPE_I64,  LW_DTYPE_U8,  LW_DTYPE_U16, LW_DTYPE_U32,
                                          LW_DTYPE_U64,  LW_DTYPE_F32, LW_DTYPE_F64};
static const lw_dtype fn_narrow_types[] = {LW_DTYPE_F16, LW_DTYPE_BF16, LW_DTYPE_F8E4M3,
                                           LW_DTYPE_F8E5M2};

typedef struct fn_set { /* kernels of one source */
  LW_VEC(lw_kernel *) kernels;
  LW_VEC(char *) names;
} fn_set;

typedef struct fn_build {
  lw_kernel *kernel;
  lw_kbuilder kb;
  lw_kval base, index;
} fn_build;

static void fn_check(bool ok, const char *what) {
  if (ok) return;
  fprintf(stderr, "fn_kernels: %s\n", what);
  abort();
}

/* Opens the loop over the elements of a block. */
static void fn_begin(fn_build *b, lw_ktarget target) {
  void *memory = NULL;
  fn_check(lw__mem_resize(&memory, sizeof(lw_kernel)) == LW_OK, "memory");
  b->kernel = memory;
  lw__kernel_init(b->kernel, target, LW_KCLASS_MAP, target == LW_KTARGET_GPU ? FN_BLOCK : 1);
  fn_check(lw__kb_init(&b->kb, b->kernel) == LW_OK, "builder");
  lw_kval size = lw__kb_const_i(&b->kb, LW_DTYPE_I64, FN_BLOCK);
  b->base = lw__kb_fn(&b->kb, LW_FN_MUL, lw__kb_block(&b->kb), size, LW_NONE);
  if (target == LW_KTARGET_GPU)
    b->index = lw__kb_thread(&b->kb);
  else
    b->index = lw__kb_for_n(&b->kb, FN_BLOCK, LW_KLOOP_VECTOR);
}

static lw_kval fn_load(fn_build *b, lw_dtype dtype) {
  return lw__kb_load(&b->kb, lw__kb_buffer(&b->kb, dtype, false), b->base, b->index, LW_NONE);
}

static void fn_end(fn_build *b, fn_set *set, lw_dtype out, lw_kval value, const char *name) {
  uint32_t buffer = lw__kb_buffer(&b->kb, out, true);
  lw__kb_store(&b->kb, buffer, b->base, b->index, LW_NONE, value);
  if (b->kernel->target == LW_KTARGET_CPU) lw__kb_end(&b->kb);
  fn_check(b->kb.status == LW_OK, b->kb.error);
  lw_diag diag = {0};
  lw_status status = lw__kernel_verify(b->kernel, &diag);
  fn_check(status == LW_OK, lw__diag_first_error(&diag));
  lw__diag_deinit(&diag);
  lw__kb_deinit(&b->kb);
  fn_check(lw_vec_push(&set->kernels, b->kernel) == LW_OK, "memory");
  fn_check(lw_vec_push(&set->names, strdup(name)) == LW_OK, "memory");
}

static bool fn_takes(lw_fn fn, lw_dtype dtype) {
  return fn != LW_FN_CAST && lw__fn_result_type(fn, dtype) != LW_DTYPE_NONE;
}

/* k_<fn>_<type>: operands, then the result. */
static void fn_add_function(fn_set *set, lw_ktarget target, lw_fn fn, lw_dtype dtype) {
  char name[64];
  snprintf(name, sizeof name, "k_%s_%s", lw__fn_info[fn].name, lw_dtype_name(dtype));
  fn_build b;
  fn_begin(&b, target);
  lw_kval x[3] = {LW_NONE, LW_NONE, LW_NONE};
  for (int k = 0; k < lw__fn_info[fn].arity; k++)
    x[k] = fn_load(&b, fn == LW_FN_SELECT && k == 0 ? LW_DTYPE_BOOL : dtype);
  fn_end(&b, set, lw__fn_result_type(fn, dtype), lw__kb_fn(&b.kb, fn, x[0], x[1], x[2]), name);
}

/* k_<from>_<to>: loads |from|, casts to the value type of |to|, stores |to|. */
static void fn_add_cast(fn_set *set, lw_ktarget target, lw_dtype from, lw_dtype to) {
  char name[64];
  snprintf(name, sizeof name, "k_%s_%s", lw_dtype_name(from), lw_dtype_name(to));
  fn_build b;
  fn_begin(&b, target);
  bool narrow =
      to == LW_DTYPE_F16 || to == LW_DTYPE_BF16 || to == LW_DTYPE_F8E4M3 || to == LW_DTYPE_F8E5M2;
  lw_kval x = lw__kb_cast(&b.kb, fn_load(&b, from), narrow ? LW_DTYPE_F32 : to);
  fn_end(&b, set, to, x, name);
}

static void fn_add_round(fn_set *set, lw_ktarget target, lw_dtype narrow) {
  char name[64];
  snprintf(name, sizeof name, "k_round_%s", lw_dtype_name(narrow));
  fn_build b;
  fn_begin(&b, target);
  fn_end(&b, set, LW_DTYPE_F32, lw__kb_round(&b.kb, fn_load(&b, LW_DTYPE_F32), narrow), name);
}

/* k_root_<type>: to the power of a constant 0.5. */
static void fn_add_root(fn_set *set, lw_ktarget target, lw_dtype dtype) {
  char name[64];
  snprintf(name, sizeof name, "k_root_%s", lw_dtype_name(dtype));
  fn_build b;
  fn_begin(&b, target);
  lw_kval half = lw__kb_const_f(&b.kb, dtype, 0.5);
  lw_kval y = lw__kb_fn(&b.kb, LW_FN_POW, fn_load(&b, dtype), half, LW_NONE);
  fn_end(&b, set, dtype, y, name);
}

static void fn_add_everything(fn_set *set, lw_ktarget target) {
  for (int fn = 0; fn < LW_FN_COUNT; fn++)
    for (size_t t = 0; t < LW_ARRAY_COUNT(fn_value_types); t++)
      if (fn_takes((lw_fn)fn, fn_value_types[t]))
        fn_add_function(set, target, (lw_fn)fn, fn_value_types[t]);
  for (size_t f = 0; f < LW_ARRAY_COUNT(fn_value_types); f++)
    for (size_t t = 0; t < LW_ARRAY_COUNT(fn_value_types); t++)
      if (f != t) fn_add_cast(set, target, fn_value_types[f], fn_value_types[t]);
  for (size_t n = 0; n < LW_ARRAY_COUNT(fn_narrow_types); n++) {
    fn_add_cast(set, target, fn_narrow_types[n], LW_DTYPE_F32);
    fn_add_cast(set, target, LW_DTYPE_F32, fn_narrow_types[n]);
    fn_add_round(set, target, fn_narrow_types[n]);
  }
  fn_add_root(set, target, LW_DTYPE_F32);
  fn_add_root(set, target, LW_DTYPE_F64);
}

static void fn_free(fn_set *set) {
  for (uint32_t i = 0; i < set->kernels.count; i++) {
    lw__kernel_deinit(set->kernels.data[i]);
    lw__mem_free(set->kernels.data[i]);
    free(set->names.data[i]);
  }
  lw_vec_free(&set->kernels);
  lw_vec_free(&set->names);
}

#endif

/* product.c: see product.h. */
#include "lib/product.h"

static lw_kval fn(lw_kbuilder *kb, lw_fn f, lw_kval a, lw_kval b) {
  return lw__kb_fn(kb, f, a, b, LW_NONE);
}

static lw_kproduct describe(const lw_test_product *t) {
  bool kn = t->b_layout == LW_PRODUCT_B_KN;
  return (lw_kproduct){
      .present = true,
      .form = {.dtype = t->dtype,
               .out_dtype = t->turned ? t->dtype : t->out_dtype,
               .b_layout = t->b_layout,
               .sched = LW_PRODUCT_PINGPONG,
               .store = t->store,
               .tile_m = 128,
               .tile_n = 128,
               .tile_k = 64,
               .stages = 5,
               .group = 16,
               .cluster = 1,
               .split = t->split > 1 ? t->split : 1},
      .a = {.buffer = 0, .pitch = t->depth},
      .b = {.buffer = 1, .pitch = kn ? t->columns : t->depth},
      .out = {.buffer = t->turned ? LW_NONE : 4, .pitch = t->columns},
      .columns = t->columns,
      .depth = t->depth,
  };
}

lw_status lw_test_product_make(const lw_test_product *t, int64_t rows, lw_kernel *out) {
  lw_kbuilder kb;
  lw__kernel_init(out, LW_KTARGET_GPU, LW_KCLASS_DOT, 384);
  LW_TRY(lw__kb_init(&kb, out));
  out->product = describe(t);
  const lw_dtype types[5] = {t->dtype, t->dtype, t->dtype, t->out_dtype, t->out_dtype};
  for (int i = 0; i < 5; i++) (void)lw__kb_buffer(&kb, types[i], i == 4);
  (void)lw__kb_scalar_arg(&kb);
  lw_kval row = lw__kb_element(&kb, LW_K_ROW), column = lw__kb_element(&kb, LW_K_COLUMN);
  lw_kval bias = lw__kb_load(&kb, 2, LW_NONE, column, LW_NONE);
  lw_kval at =
      t->turned
          ? fn(&kb, LW_FN_ADD, fn(&kb, LW_FN_MUL, column, lw__kb_const_i(&kb, LW_DTYPE_I32, rows)),
               row)
          : fn(&kb, LW_FN_ADD,
               fn(&kb, LW_FN_MUL, row, lw__kb_const_i(&kb, LW_DTYPE_I32, t->columns)), column);
  lw_kval more = lw__kb_load(&kb, 3, LW_NONE, at, LW_NONE);
  lw_kval sum = fn(&kb, LW_FN_ADD, lw__kb_element(&kb, LW_K_SUM), bias);
  sum = fn(&kb, LW_FN_MAX, sum, lw__kb_const_f(&kb, LW_DTYPE_F32, 0));
  lw__kb_store(&kb, 4, LW_NONE, at, LW_NONE, fn(&kb, LW_FN_ADD, sum, more));
  lw_status status = kb.status;
  lw__kb_deinit(&kb);
  return status;
}

/* test_build.c: constructors: shape and type of results, refusals, what they leave out. */
#include "graph_kit.h"

#define NODES(k) ((k)->g.nodes.count)
static const int64_t zeros[LW_MAX_RANK] = {0};
static const int64_t ones[LW_MAX_RANK] = {1, 1, 1, 1, 1, 1, 1, 1, 1, 1, 1, 1};
static const int64_t huge = INT64_C(1) << 40;

static void test_sources(void **state) {
  (void)state;
  kit k;
  kit_open(&k);
  lw_value_id v = LW_NONE;
  float data[] = {1, 2, 3};
  lw_shape three = SHAPE(3), none = {0}, empty = SHAPE(0, huge, huge), large = SHAPE(huge, huge),
           bad = SHAPE(-7);
  lw_shape symbolic = SHAPE(kit_symbol(&k, "n"));
  OK(&k, lw__graph_input(&k.g, LW_DTYPE_F32, &empty, "x", &v));
  assert_string_equal(lw__value(&k.g, v)->name, "x");
  assert_int_equal(k.g.inputs.count, 1);
  OK(&k, lw__graph_const(&k.g, LW_DTYPE_F32, &three, data, &v));
  assert_ptr_equal(lw__producer(&k.g, v)->attr.constant.data, data);
  assert_int_equal(lw__producer(&k.g, v)->attr.constant.bytes, 12);
  OK(&k, lw__graph_const_copy(&k.g, LW_DTYPE_F32, &three, data, &v));
  assert_ptr_not_equal(lw__producer(&k.g, v)->attr.constant.data, data);
  assert_memory_equal(lw__producer(&k.g, v)->attr.constant.data, data, sizeof data);
  OK(&k, lw__graph_const(&k.g, LW_DTYPE_F32, &empty, NULL, &v));
  OK(&k, lw__graph_scalar(&k.g, LW_DTYPE_F16, 0.5, &v));
  TYPE(&k, v, "f16[]");
  assert_true(lw__elem_get_f64(LW_DTYPE_F16, lw__producer(&k.g, v)->attr.constant.data, 0) == 0.5);
  OK(&k, lw__graph_iota(&k.g, LW_DTYPE_I64, &three, 0, &v));
  TYPE(&k, v, "i64[3]");
  uint32_t nodes = NODES(&k);
  FAILS(&k, LW_STATUS_MODEL_INVALID, "0 bytes of data, the shape needs 12",
        lw__graph_append(&k.g, LW_OP_CONST, &(lw_attr){0}, NULL, 0, LW_DTYPE_F32, &three, &v));
  FAILS(&k, LW_STATUS_MODEL_INVALID, "12 bytes",
        lw__graph_const(&k.g, LW_DTYPE_F32, &three, NULL, &v));
  FAILS(&k, LW_STATUS_UNSUPPORTED, "'n'", lw__graph_const(&k.g, LW_DTYPE_F32, &symbolic, data, &v));
  FAILS(&k, LW_STATUS_UNSUPPORTED, "too many elements",
        lw__graph_const(&k.g, LW_DTYPE_F32, &large, data, &v));
  FAILS(&k, LW_STATUS_UNSUPPORTED, "too many elements",
        lw__graph_input(&k.g, LW_DTYPE_F32, &large, "y", &v));
  FAILS(&k, LW_STATUS_MODEL_INVALID, "no size", lw__graph_input(&k.g, LW_DTYPE_F32, &bad, "y", &v));
  FAILS(&k, LW_STATUS_MODEL_INVALID, "element type",
        lw__graph_input(&k.g, LW_DTYPE_NONE, &three, "y", &v));
  FAILS(&k, LW_STATUS_MODEL_INVALID, "element type",
        lw__graph_input(&k.g, LW_DTYPE_COUNT, &three, "y", &v));
  FAILS(&k, LW_STATUS_MODEL_INVALID, "f32", lw__graph_iota(&k.g, LW_DTYPE_F32, &three, 0, &v));
  FAILS(&k, LW_STATUS_MODEL_INVALID, "axis 0", lw__graph_iota(&k.g, LW_DTYPE_I32, &none, 0, &v));
  assert_int_equal(NODES(&k), nodes); /* refusals leave nothing behind */
  OK(&k, lw__graph_verify(&k.g, &k.diag));
  kit_close(&k);
}

static void test_map(void **state) {
  (void)state;
  kit k;
  kit_open(&k);
  lw_extent n = kit_symbol(&k, "n"), m = kit_symbol(&k, "m");
  lw_value_id f = INPUT(&k, F32, 2, 3), h = INPUT(&k, F16, 2, 3), b = INPUT(&k, BOOL, 2, 3),
              g = INPUT(&k, F32, 3, 2);
  lw_value_id s = INPUT(&k, F32, n), t = INPUT(&k, F32, m), u = INPUT(&k, F32, 6), v = LW_NONE;
  OK(&k, lw__graph_map(&k.g, LW_FN_ADD, (lw_value_id[]){f, f}, &v));
  TYPE(&k, v, "f32[2, 3]");
  OK(&k, lw__graph_map(&k.g, LW_FN_LT, (lw_value_id[]){f, f}, &v));
  TYPE(&k, v, "bool[2, 3]");
  OK(&k, lw__graph_map(&k.g, LW_FN_SELECT, (lw_value_id[]){b, h, h}, &v));
  TYPE(&k, v, "f16[2, 3]");
  OK(&k, lw__graph_map(&k.g, LW_FN_MUL, (lw_value_id[]){s, s}, &v));
  TYPE(&k, v, "f32[n]");
  OK(&k, lw__graph_cast(&k.g, f, LW_DTYPE_I8, &v));
  TYPE(&k, v, "i8[2, 3]");
  OK(&k, lw__graph_cast(&k.g, f, LW_DTYPE_F32, &v));
  assert_int_equal(v, f);
  k.g.where = "here";
  FAILS(&k, LW_STATUS_MODEL_INVALID,
        "map.add: operands of different types; operands f32[2, 3], f16[2, 3]",
        lw__graph_map(&k.g, LW_FN_ADD, (lw_value_id[]){f, h}, &v));
  FAILS(&k, LW_STATUS_MODEL_INVALID, "2 and 3 differ",
        lw__graph_map(&k.g, LW_FN_ADD, (lw_value_id[]){f, g}, &v));
  FAILS(&k, LW_STATUS_MODEL_INVALID, "different rank",
        lw__graph_map(&k.g, LW_FN_ADD, (lw_value_id[]){f, u}, &v));
  FAILS(&k, LW_STATUS_MODEL_INVALID, "not defined for bool",
        lw__graph_map(&k.g, LW_FN_EXP, &b, &v));
  FAILS(&k, LW_STATUS_MODEL_INVALID, "must be bool",
        lw__graph_map(&k.g, LW_FN_SELECT, (lw_value_id[]){f, f, f}, &v));
  FAILS(&k, LW_STATUS_UNSUPPORTED, "numbers for 'n', 'm'",
        lw__graph_map(&k.g, LW_FN_ADD, (lw_value_id[]){s, t}, &v));
  FAILS(&k, LW_STATUS_INTERNAL, "no value",
        lw__graph_map(&k.g, LW_FN_EXP, (lw_value_id[]){LW_NONE}, &v));
  FAILS(&k, LW_STATUS_INTERNAL, "own constructor", lw__graph_map(&k.g, LW_FN_CAST, &f, &v));
  FAILS(&k, LW_STATUS_INTERNAL, "no value", lw__graph_cast(&k.g, 9999, LW_DTYPE_F32, &v));
  kit_close(&k);
}

static void test_broadcasting(void **state) {
  (void)state;
  kit k;
  kit_open(&k);
  lw_extent n = kit_symbol(&k, "n");
  lw_value_id a = INPUT(&k, F32, n, 1, 4), b = INPUT(&k, F32, 3, 1), v = LW_NONE,
              c = INPUT(&k, F32, 5);
  lw_value_id z = INPUT(&k, F32, 0), one = INPUT(&k, F32, 1);
  OK(&k, lw__graph_map_bc(&k.g, LW_FN_ADD, (lw_value_id[]){a, b}, &v));
  TYPE(&k, v, "f32[n, 3, 4]");
  OK(&k, lw__graph_map_bc(&k.g, LW_FN_ADD, (lw_value_id[]){z, one}, &v));
  TYPE(&k, v, "f32[0]");
  uint32_t nodes = NODES(&k);
  OK(&k, lw__graph_map_bc(&k.g, LW_FN_ADD, (lw_value_id[]){a, a}, &v));
  assert_int_equal(NODES(&k), nodes + 1); /* nothing but the map */
  FAILS(&k, LW_STATUS_MODEL_INVALID, "4 and 5 do not broadcast",
        lw__graph_map_bc(&k.g, LW_FN_ADD, (lw_value_id[]){a, c}, &v));
  lw_shape target = SHAPE(2, 5), narrow = SHAPE(5), other = SHAPE(7, 6), with_n = SHAPE(n);
  OK(&k, lw__graph_broadcast(&k.g, c, &target, &v));
  TYPE(&k, v, "f32[2, 5]");
  FAILS(&k, LW_STATUS_MODEL_INVALID, "5 and 6 differ", lw__graph_broadcast(&k.g, c, &other, &v));
  FAILS(&k, LW_STATUS_MODEL_INVALID, "3 dimensions to 1",
        lw__graph_broadcast(&k.g, a, &narrow, &v));
  FAILS(&k, LW_STATUS_UNSUPPORTED, "numbers for 'n'", lw__graph_broadcast(&k.g, c, &with_n, &v));
  FAILS(&k, LW_STATUS_UNSUPPORTED, "numbers for 'n'",
        lw__graph_map_bc(&k.g, LW_FN_ADD, (lw_value_id[]){INPUT(&k, F32, n), c}, &v));
  /* Operands straight from the graph's own array, which grows under them. */
  OK(&k, lw__graph_map_bc(&k.g, LW_FN_ADD, (lw_value_id[]){a, b}, &v));
  for (int i = 0; i < 200; i++) {
    const lw_node *node = lw__producer(&k.g, v);
    OK(&k, lw__graph_map(&k.g, LW_FN_MUL, &k.g.operands.data[node->operand_begin], &v));
    OK(&k, lw__graph_expand(&k.g, v, &lw__value(&k.g, v)->shape, &v));
  }
  OK(&k, lw__graph_verify(&k.g, &k.diag));
  kit_close(&k);
}

static void test_reshape(void **state) {
  (void)state;
  kit k;
  kit_open(&k);
  lw_extent n = kit_symbol(&k, "n"), n4 = 0, m = kit_symbol(&k, "m");
  OK(&k, lw__extent_affine(&k.g, n, 4, 0, &n4));
  lw_value_id x = INPUT(&k, F32, 2, 6), y = LW_NONE, z = LW_NONE, s = INPUT(&k, F32, n, 4),
              e = INPUT(&k, F32, 0, 5);
  lw_shape a = SHAPE(12), b = SHAPE(2, 6), c = SHAPE(3, 4), d = SHAPE(13), flat = SHAPE(n4),
           open = SHAPE(m, 3);
  lw_shape odd = SHAPE(5, 0, huge, huge), none = {0}, five = SHAPE(1, 5);
  OK(&k, lw__graph_reshape(&k.g, x, &a, &y));
  OK(&k, lw__graph_reshape(&k.g, y, &c, &z));
  assert_int_equal(lw__operand(&k.g, lw__producer(&k.g, z), 0), x); /* folded */
  OK(&k, lw__graph_reshape(&k.g, y, &b, &z));
  assert_int_equal(z, x);
  OK(&k, lw__graph_reshape(&k.g, x, &b, &z));
  assert_int_equal(z, x);
  OK(&k, lw__graph_reshape(&k.g, s, &flat, &z));
  TYPE(&k, z, "f32[4*n]");
  OK(&k, lw__graph_reshape(&k.g, s, &open, &z)); /* could be */
  TYPE(&k, z, "f32[m, 3]");
  OK(&k, lw__graph_reshape(&k.g, e, &odd, &z));
  OK(&k, lw__graph_reshape(&k.g, INPUT(&k, F32, 1, 1), &none, &z));
  TYPE(&k, z, "f32[]");
  FAILS(&k, LW_STATUS_MODEL_INVALID, "[13] has another number of elements; operand f32[2, 6]",
        lw__graph_reshape(&k.g, x, &d, &z));
  FAILS(&k, LW_STATUS_MODEL_INVALID, "number of elements",
        lw__graph_reshape(&k.g, s, &five, &z)); /* 4*n is not 5 */
  FAILS(&k, LW_STATUS_UNSUPPORTED, "13 dimensions",
        lw__graph_reshape(&k.g, x, &(lw_shape){.rank = 13}, &z));
  kit_close(&k);
}

static void test_permute(void **state) {
  (void)state;
  kit k;
  kit_open(&k);
  lw_value_id x = INPUT(&k, F32, 2, 3, 4), y = LW_NONE, z = LW_NONE;
  OK(&k, lw__graph_permute(&k.g, x, (uint8_t[]){2, 0, 1}, &y));
  TYPE(&k, y, "f32[4, 2, 3]");
  OK(&k, lw__graph_permute(&k.g, y, (uint8_t[]){2, 0, 1}, &z));
  TYPE(&k, z, "f32[3, 4, 2]");
  assert_int_equal(lw__operand(&k.g, lw__producer(&k.g, z), 0), x);
  assert_memory_equal(lw__producer(&k.g, z)->attr.perm, ((uint8_t[]){1, 2, 0}), 3);
  OK(&k, lw__graph_permute(&k.g, y, (uint8_t[]){1, 2, 0}, &z));
  assert_int_equal(z, x);
  OK(&k, lw__graph_permute(&k.g, x, (uint8_t[]){0, 1, 2}, &z));
  assert_int_equal(z, x);
  FAILS(&k, LW_STATUS_MODEL_INVALID, "not a permutation",
        lw__graph_permute(&k.g, x, (uint8_t[]){0, 1, 1}, &z));
  FAILS(&k, LW_STATUS_MODEL_INVALID, "not a permutation",
        lw__graph_permute(&k.g, y, (uint8_t[]){0, 1, 200}, &z));
  kit_close(&k);
}

static void test_expand(void **state) {
  (void)state;
  kit k;
  kit_open(&k);
  lw_extent n = kit_symbol(&k, "n");
  lw_value_id x = INPUT(&k, F32, 1, 3), y = LW_NONE;
  lw_shape a = SHAPE(5, 3), b = SHAPE(5, 4), c = SHAPE(5, 1, 3), same = SHAPE(1, 3),
           zero = SHAPE(0, 3), sym = SHAPE(n, 3);
  OK(&k, lw__graph_expand(&k.g, x, &a, &y));
  TYPE(&k, y, "f32[5, 3]");
  OK(&k, lw__graph_expand(&k.g, x, &zero, &y));
  OK(&k, lw__graph_expand(&k.g, x, &sym, &y));
  TYPE(&k, y, "f32[n, 3]");
  OK(&k, lw__graph_expand(&k.g, x, &same, &y));
  assert_int_equal(y, x);
  FAILS(&k, LW_STATUS_MODEL_INVALID, "3 and 4 differ", lw__graph_expand(&k.g, x, &b, &y));
  FAILS(&k, LW_STATUS_MODEL_INVALID, "to 3 dimensions from 2", lw__graph_expand(&k.g, x, &c, &y));
  lw_shape large = SHAPE(huge, huge);
  FAILS(&k, LW_STATUS_UNSUPPORTED, "too many elements",
        lw__graph_expand(&k.g, INPUT(&k, F32, 1, 1), &large, &y));
  kit_close(&k);
}

static lw_status slice1(kit *k, lw_value_id x, int64_t start, int64_t step, lw_extent count,
                        lw_value_id *out) {
  return lw__graph_slice(&k->g, x, &start, &step, &count, out);
}

static void test_slice(void **state) {
  (void)state;
  kit k;
  kit_open(&k);
  lw_extent n = kit_symbol(&k, "n"), less = 0;
  lw_value_id x = INPUT(&k, F32, 10), s = INPUT(&k, F32, n), y = LW_NONE, e = INPUT(&k, F32, 0);
  OK(&k, lw__extent_affine(&k.g, n, 1, -2, &less));
  OK(&k, slice1(&k, x, 1, 3, 3, &y));
  TYPE(&k, y, "f32[3]");
  OK(&k, slice1(&k, x, 9, -3, 4, &y));
  OK(&k, slice1(&k, x, 500, 3, 0, &y)); /* nothing is read */
  TYPE(&k, y, "f32[0]");
  OK(&k, slice1(&k, x, 0, 1, 10, &y));
  assert_int_equal(y, x);
  OK(&k, slice1(&k, s, 0, 1, n, &y));
  assert_int_equal(y, s);
  OK(&k, slice1(&k, e, 0, 1, 0, &y));
  assert_int_equal(y, e);
  OK(&k, slice1(&k, s, 2, 1, less, &y));
  TYPE(&k, y, "f32[n - 2]");
  OK(&k, slice1(&k, s, 0, 1, 4, &y)); /* could be */
  FAILS(&k, LW_STATUS_MODEL_INVALID, "outside of dimension 0", slice1(&k, x, 1, 3, 4, &y));
  FAILS(&k, LW_STATUS_MODEL_INVALID, "outside", slice1(&k, x, 2, -1, 4, &y));
  FAILS(&k, LW_STATUS_MODEL_INVALID, "outside", slice1(&k, x, -1, 1, 2, &y));
  FAILS(&k, LW_STATUS_MODEL_INVALID, "outside", slice1(&k, x, 10, 1, 1, &y));
  FAILS(&k, LW_STATUS_MODEL_INVALID, "outside", slice1(&k, e, 0, 1, 1, &y));
  FAILS(&k, LW_STATUS_MODEL_INVALID, "outside",
        slice1(&k, s, INT32_MAX, 1, 1, &y)); /* no symbol is that large */
  FAILS(&k, LW_STATUS_MODEL_INVALID, "step 0", slice1(&k, x, 0, 0, 5, &y));
  FAILS(&k, LW_STATUS_MODEL_INVALID, "overflow", slice1(&k, x, 5, INT64_MAX, 5, &y));
  FAILS(&k, LW_STATUS_MODEL_INVALID, "overflow", slice1(&k, x, INT64_MAX, 5, 2, &y));
  FAILS(&k, LW_STATUS_MODEL_INVALID, "no size", slice1(&k, x, 0, 1, -99, &y));
  OK(&k, lw__graph_verify(&k.g, &k.diag));
  kit_close(&k);
}

static void test_pad(void **state) {
  (void)state;
  kit k;
  kit_open(&k);
  lw_extent n = kit_symbol(&k, "n");
  lw_value_id x = INPUT(&k, F32, 2, n), y = LW_NONE;
  lw_scalar zero = {.f = 0};
  OK(&k, lw__graph_pad(&k.g, x, (int64_t[]){1, 2}, (int64_t[]){0, 3}, zero, &y));
  TYPE(&k, y, "f32[3, n + 5]");
  OK(&k, lw__graph_pad(&k.g, x, zeros, zeros, zero, &y));
  assert_int_equal(y, x);
  OK(&k, lw__graph_pad(&k.g, INPUT(&k, I8, 0), ones, zeros, (lw_scalar){.i = -3}, &y));
  TYPE(&k, y, "i8[1]");
  FAILS(&k, LW_STATUS_MODEL_INVALID, "-1 and 1 elements in dimension 0",
        lw__graph_pad(&k.g, x, (int64_t[]){-1, 0}, (int64_t[]){1, 0}, zero, &y));
  FAILS(&k, LW_STATUS_MODEL_INVALID, "elements in dimension 0",
        lw__graph_pad(&k.g, x, (int64_t[]){INT64_MAX, 0}, (int64_t[]){1, 0}, zero, &y));
  FAILS(&k, LW_STATUS_MODEL_INVALID, "overflows",
        lw__graph_pad(&k.g, x, (int64_t[]){INT64_MAX, 0}, zeros, zero, &y));
  FAILS(&k, LW_STATUS_UNSUPPORTED, "too many",
        lw__graph_pad(&k.g, INPUT(&k, F32, 1), (int64_t[]){INT64_C(1) << 60}, zeros, zero, &y));
  kit_close(&k);
}

static void test_window(void **state) {
  (void)state;
  kit k;
  kit_open(&k);
  lw_extent n = kit_symbol(&k, "n");
  lw_value_id x = INPUT(&k, F32, 2, 10, n), y = LW_NONE;
  OK(&k, lw__graph_window(&k.g, x, 2, (uint8_t[]){1, 2}, (int64_t[]){3, 2}, (int64_t[]){2, 3},
                          (int64_t[]){2, 1}, &y));
  TYPE(&k, y, "f32[2, 3, (n + 1)//3, 3, 2]");
  lw_value_id small = INPUT(&k, F32, 3);
  uint8_t first = 0;
  OK(&k,
     lw__graph_window(&k.g, small, 1, &first, (int64_t[]){4}, ones, ones, &y)); /* does not fit */
  TYPE(&k, y, "f32[0, 4]");
  OK(&k, lw__graph_window(&k.g, small, 1, &first, (int64_t[]){3}, ones, ones, &y));
  TYPE(&k, y, "f32[1, 3]");
  OK(&k, lw__graph_window(&k.g, small, 1, &first, zeros, ones, ones, &y));
  TYPE(&k, y, "f32[4, 0]");
  OK(&k, lw__graph_window(&k.g, INPUT(&k, F32, 0), 1, &first, ones, ones, ones, &y));
  TYPE(&k, y, "f32[0, 1]");
  OK(&k, lw__graph_window(&k.g, small, 0, NULL, NULL, NULL, NULL, &y));
  assert_int_equal(y, small);
  FAILS(&k, LW_STATUS_MODEL_INVALID, "bad axis 1",
        lw__graph_window(&k.g, small, 1, (uint8_t[]){1}, ones, ones, ones, &y));
  FAILS(&k, LW_STATUS_MODEL_INVALID, "bad axis 1",
        lw__graph_window(&k.g, x, 2, (uint8_t[]){1, 1}, ones, ones, ones, &y));
  FAILS(&k, LW_STATUS_MODEL_INVALID, "stride 0",
        lw__graph_window(&k.g, small, 1, &first, ones, zeros, ones, &y));
  FAILS(&k, LW_STATUS_MODEL_INVALID, "dilation 0",
        lw__graph_window(&k.g, small, 1, &first, ones, ones, zeros, &y));
  FAILS(&k, LW_STATUS_MODEL_INVALID, "-1 taps",
        lw__graph_window(&k.g, small, 1, &first, (int64_t[]){-1}, ones, ones, &y));
  FAILS(&k, LW_STATUS_UNSUPPORTED, "too many",
        lw__graph_window(&k.g, small, 1, &first, (int64_t[]){INT64_MAX}, ones, ones, &y));
  FAILS(&k, LW_STATUS_MODEL_INVALID, "taps",
        lw__graph_window(&k.g, small, 1, &first, &huge, ones, ones, &y));
  FAILS(&k, LW_STATUS_UNSUPPORTED, "over 5 axes",
        lw__graph_window(&k.g, x, 5, (uint8_t[5]){0}, ones, ones, ones, &y));
  lw_value_id deep = INPUT(&k, F32, 1, 1, 1, 1, 1, 1, 1, 1, 1, 1, 1, 1);
  FAILS(&k, LW_STATUS_UNSUPPORTED, "13 dimensions",
        lw__graph_window(&k.g, deep, 1, &first, ones, ones, ones, &y));
  kit_close(&k);
}

static void test_concat(void **state) {
  (void)state;
  kit k;
  kit_open(&k);
  lw_extent n = kit_symbol(&k, "n"), m = kit_symbol(&k, "m");
  lw_value_id a = INPUT(&k, F32, 2, n), b = INPUT(&k, F32, 2, m), c = INPUT(&k, F32, 2, 3),
              h = INPUT(&k, F16, 2, 3), y = LW_NONE;
  OK(&k, lw__graph_concat(&k.g, (lw_value_id[]){a, b, c, a}, 4, 1, &y));
  TYPE(&k, y, "f32[2, m + 2*n + 3]");
  OK(&k, lw__graph_concat(&k.g, &a, 1, 1, &y));
  assert_int_equal(y, a);
  OK(&k, lw__graph_concat(&k.g, (lw_value_id[]){c, INPUT(&k, F32, 2, 0)}, 2, 1, &y));
  TYPE(&k, y, "f32[2, 3]");
  FAILS(&k, LW_STATUS_MODEL_INVALID, "axis 2",
        lw__graph_concat(&k.g, (lw_value_id[]){a, b}, 2, 2, &y));
  FAILS(&k, LW_STATUS_MODEL_INVALID, "axis 2", lw__graph_concat(&k.g, &a, 1, 2, &y));
  FAILS(&k, LW_STATUS_MODEL_INVALID, "0 operands", lw__graph_concat(&k.g, NULL, 0, 0, &y));
  FAILS(&k, LW_STATUS_MODEL_INVALID, "different types",
        lw__graph_concat(&k.g, (lw_value_id[]){c, h}, 2, 1, &y));
  FAILS(&k, LW_STATUS_UNSUPPORTED, "'n', 'm'",
        lw__graph_concat(&k.g, (lw_value_id[]){a, b}, 2, 0, &y));
  FAILS(&k, LW_STATUS_MODEL_INVALID, "different rank",
        lw__graph_concat(&k.g, (lw_value_id[]){c, INPUT(&k, F32, 2)}, 2, 0, &y));
  FAILS(&k, LW_STATUS_MODEL_INVALID, "2 and 4 differ",
        lw__graph_concat(&k.g, (lw_value_id[]){c, INPUT(&k, F32, 4, 3)}, 2, 1, &y));
  lw_value_id big = INPUT(&k, F32, INT64_C(1) << 58);
  FAILS(&k, LW_STATUS_UNSUPPORTED, "too many",
        lw__graph_concat(&k.g, (lw_value_id[]){big, big, big}, 3, 0, &y));
  static lw_value_id many[65536];
  for (size_t i = 0; i < LW_ARRAY_COUNT(many); i++) many[i] = c;
  OK(&k, lw__graph_concat(&k.g, many, 65535, 1, &y));
  TYPE(&k, y, "f32[2, 196605]");
  FAILS(&k, LW_STATUS_MODEL_INVALID, "65536 operands", lw__graph_concat(&k.g, many, 65536, 1, &y));
  kit_close(&k);
}

static void test_reduce(void **state) {
  (void)state;
  kit k;
  kit_open(&k);
  lw_extent n = kit_symbol(&k, "n");
  lw_value_id x = INPUT(&k, F32, 2, n, 4), b = INPUT(&k, BOOL, 3), y = LW_NONE;
  OK(&k, lw__graph_reduce(&k.g, LW_RED_MAX, x, 5, &y));
  TYPE(&k, y, "f32[n]");
  OK(&k, lw__graph_reduce(&k.g, LW_RED_SUM, x, 7, &y));
  TYPE(&k, y, "f32[]");
  OK(&k, lw__graph_reduce(&k.g, LW_RED_SUM, x, 0, &y));
  assert_int_equal(y, x);
  OK(&k, lw__graph_reduce(&k.g, LW_RED_ALL, b, 1, &y));
  TYPE(&k, y, "bool[]");
  OK(&k, lw__graph_reduce(&k.g, LW_RED_SUM, INPUT(&k, I32, 0, 3), 1, &y));
  TYPE(&k, y, "i32[3]");
  FAILS(&k, LW_STATUS_MODEL_INVALID, "reduce.sum: not defined for bool",
        lw__graph_reduce(&k.g, LW_RED_SUM, b, 1, &y));
  FAILS(&k, LW_STATUS_MODEL_INVALID, "not defined for bool",
        lw__graph_reduce(&k.g, LW_RED_SUM, b, 0, &y));
  FAILS(&k, LW_STATUS_MODEL_INVALID, "not defined for f32",
        lw__graph_reduce(&k.g, LW_RED_ANY, x, 1, &y));
  FAILS(&k, LW_STATUS_MODEL_INVALID, "beyond the rank",
        lw__graph_reduce(&k.g, LW_RED_SUM, x, 8, &y));
  FAILS(&k, LW_STATUS_MODEL_INVALID, "beyond the rank",
        lw__graph_reduce(&k.g, LW_RED_SUM, x, 1u << 31, &y));
  kit_close(&k);
}

static void test_dot(void **state) {
  (void)state;
  kit k;
  kit_open(&k);
  lw_extent n = kit_symbol(&k, "n"), m = kit_symbol(&k, "m");
  lw_value_id a = INPUT(&k, F16, n, 3, 4), b = INPUT(&k, F16, n, 4, 5), y = LW_NONE;
  OK(&k, lw__graph_dot(&k.g, a, b, &y));
  TYPE(&k, y, "f16[n, 3, 5]");
  OK(&k, lw__graph_dot(&k.g, INPUT(&k, I32, 3, 0), INPUT(&k, I32, 0, 5), &y));
  TYPE(&k, y, "i32[3, 5]");
  FAILS(&k, LW_STATUS_MODEL_INVALID, "inner dimensions: 4 and 3 differ",
        lw__graph_dot(&k.g, a, a, &y));
  FAILS(&k, LW_STATUS_MODEL_INVALID, "batch dimensions: 2 and 3",
        lw__graph_dot(&k.g, INPUT(&k, F32, 2, 3, 4), INPUT(&k, F32, 3, 4, 5), &y));
  FAILS(&k, LW_STATUS_UNSUPPORTED, "'n', 'm'", lw__graph_dot(&k.g, a, INPUT(&k, F16, m, 4, 5), &y));
  FAILS(&k, LW_STATUS_MODEL_INVALID, "one rank",
        lw__graph_dot(&k.g, INPUT(&k, F32, 3), INPUT(&k, F32, 3), &y));
  FAILS(&k, LW_STATUS_MODEL_INVALID, "one rank", lw__graph_dot(&k.g, a, INPUT(&k, F16, 4, 5), &y));
  FAILS(&k, LW_STATUS_MODEL_INVALID, "different types",
        lw__graph_dot(&k.g, a, INPUT(&k, F32, n, 4, 5), &y));
  FAILS(&k, LW_STATUS_MODEL_INVALID, "bool",
        lw__graph_dot(&k.g, INPUT(&k, BOOL, 3, 4), INPUT(&k, BOOL, 4, 5), &y));
  kit_close(&k);
}

static void test_conv(void **state) {
  (void)state;
  kit k;
  kit_open(&k);
  lw_extent n = kit_symbol(&k, "n"), s = kit_symbol(&k, "s");
  lw_value_id x = INPUT(&k, F32, n, 6, 15, s), w = INPUT(&k, F32, 8, 3, 3, 2), y = LW_NONE;
  lw_conv_attr attr = {.spatial = 2,
                       .stride = {2, 2},
                       .dilation = {2, 1},
                       .pad_lo = {1, 1},
                       .pad_hi = {0, 1},
                       .group = 2};
  OK(&k, lw__graph_conv(&k.g, x, w, &attr, &y));
  TYPE(&k, y, "f32[n, 8, 6, s//2 + 1]");
  lw_conv_attr bad = attr;
  bad.group = 3;
  FAILS(&k, LW_STATUS_MODEL_INVALID, "groups: 2 and 0 differ",
        lw__graph_conv(&k.g, x, w, &bad, &y));
  bad.group = 1;
  FAILS(&k, LW_STATUS_MODEL_INVALID, "channels: 6 and 3 differ",
        lw__graph_conv(&k.g, x, w, &bad, &y));
  bad.group = 0;
  FAILS(&k, LW_STATUS_MODEL_INVALID, "group 0", lw__graph_conv(&k.g, x, w, &bad, &y));
  bad = attr;
  bad.stride[1] = 0;
  FAILS(&k, LW_STATUS_MODEL_INVALID, "stride 0", lw__graph_conv(&k.g, x, w, &bad, &y));
  bad = attr;
  bad.pad_lo[0] = -1;
  FAILS(&k, LW_STATUS_MODEL_INVALID, "pad -1", lw__graph_conv(&k.g, x, w, &bad, &y));
  bad = attr;
  bad.dilation[0] = INT64_MAX;
  FAILS(&k, LW_STATUS_MODEL_INVALID, "dilation", lw__graph_conv(&k.g, x, w, &bad, &y));
  bad = attr;
  bad.spatial = 1;
  FAILS(&k, LW_STATUS_MODEL_INVALID, "must have 3 dimensions",
        lw__graph_conv(&k.g, x, w, &bad, &y));
  bad.spatial = 4;
  FAILS(&k, LW_STATUS_UNSUPPORTED, "4 spatial", lw__graph_conv(&k.g, x, w, &bad, &y));
  FAILS(&k, LW_STATUS_UNSUPPORTED, "numbers for 's'",
        lw__graph_conv(&k.g, x, INPUT(&k, F32, 8, 3, s, 2), &attr, &y));
  FAILS(&k, LW_STATUS_MODEL_INVALID, "different types",
        lw__graph_conv(&k.g, x, INPUT(&k, F16, 8, 3, 3, 2), &attr, &y));
  lw_conv_attr plain = {.spatial = 1, .stride = {1}, .dilation = {1}, .group = 1};
  OK(&k, lw__graph_conv(&k.g, INPUT(&k, F32, 0, 2, 2), INPUT(&k, F32, 4, 2, 5), &plain, &y));
  TYPE(&k, y, "f32[0, 4, 0]");
  OK(&k, lw__graph_conv(&k.g, INPUT(&k, F32, 1, 0, 8), INPUT(&k, F32, 4, 0, 3), &plain,
                        &y)); /* sums of nothing */
  TYPE(&k, y, "f32[1, 4, 6]");
  OK(&k, lw__graph_verify(&k.g, &k.diag));
  kit_close(&k);
}

static void test_conv_transposed(void **state) {
  (void)state;
  kit k;
  kit_open(&k);
  lw_extent s = kit_symbol(&k, "s");
  lw_value_id w = INPUT(&k, F32, 4, 3, 3), y = LW_NONE;
  lw_conv_attr attr = {.spatial = 1,
                       .stride = {2},
                       .dilation = {1},
                       .pad_lo = {1},
                       .pad_hi = {0},
                       .group = 2,
                       .transposed = true};
  OK(&k, lw__graph_conv(&k.g, INPUT(&k, F32, 1, 4, 5), w, &attr, &y));
  TYPE(&k, y, "f32[1, 6, 10]"); /* (5-1)*2 + 3 - 1 */
  OK(&k, lw__graph_conv(&k.g, INPUT(&k, F32, 1, 4, s), w, &attr, &y));
  TYPE(&k, y, "f32[1, 6, 2*s]");
  attr.pad_hi[0] = -1; /* one more at the end: output padding */
  OK(&k, lw__graph_conv(&k.g, INPUT(&k, F32, 1, 4, 5), w, &attr, &y));
  TYPE(&k, y, "f32[1, 6, 11]");
  attr.pad_hi[0] = 100;
  OK(&k, lw__graph_conv(&k.g, INPUT(&k, F32, 1, 4, 5), w, &attr, &y));
  TYPE(&k, y, "f32[1, 6, 0]");
  attr.group = 3;
  FAILS(&k, LW_STATUS_MODEL_INVALID, "groups",
        lw__graph_conv(&k.g, INPUT(&k, F32, 1, 4, 5), w, &attr, &y));
  kit_close(&k);
}

static void test_gather(void **state) {
  (void)state;
  kit k;
  kit_open(&k);
  lw_extent n = kit_symbol(&k, "n");
  lw_value_id data = INPUT(&k, F32, 50, 7), rows = INPUT(&k, I64, n, 7), y = LW_NONE,
              narrow = INPUT(&k, I32, n, 8);
  lw_shape result = SHAPE(n, 7), wide = SHAPE(n, 8), flat = SHAPE(7), none = SHAPE(0, 8);
  OK(&k,
     lw__graph_gather(&k.g, data, &rows, 1, (int8_t[]){0, -2}, &result, &y)); /* rows of a table */
  TYPE(&k, y, "f32[n, 7]");
  OK(&k,
     lw__graph_gather(&k.g, data, (lw_value_id[]){narrow, narrow}, 2, (int8_t[]){0, 1}, &wide, &y));
  TYPE(&k, y, "f32[n, 8]");
  OK(&k, lw__graph_gather(&k.g, INPUT(&k, F32, 0, 7), (lw_value_id[]){INPUT(&k, I64, 0, 8)}, 1,
                          (int8_t[]){0, -2}, &none, &y));
  FAILS(&k, LW_STATUS_UNSUPPORTED, "'n'",
        lw__graph_gather(&k.g, data, (lw_value_id[]){INPUT(&k, I64, 3, 7)}, 1, (int8_t[]){0, -2},
                         &result, &y));
  FAILS(&k, LW_STATUS_MODEL_INVALID, "another shape",
        lw__graph_gather(&k.g, data, &rows, 1, (int8_t[]){0, -1}, &flat, &y));
  FAILS(&k, LW_STATUS_MODEL_INVALID, "selects nothing",
        lw__graph_gather(&k.g, data, &rows, 1, (int8_t[]){1, -2}, &result, &y));
  FAILS(&k, LW_STATUS_MODEL_INVALID, "selects nothing",
        lw__graph_gather(&k.g, data, &rows, 1, (int8_t[]){0, -3}, &result, &y));
  lw_value_id one_row = INPUT(&k, I64, 1, 8);
  lw_shape one = SHAPE(1, 8), whole = SHAPE(50, 7);
  FAILS(&k, LW_STATUS_MODEL_INVALID, "outside of dimension 1",
        lw__graph_gather(&k.g, data, &one_row, 1, (int8_t[]){0, -2}, &one, &y));
  FAILS(&k, LW_STATUS_MODEL_INVALID, "not defined for f32",
        lw__graph_gather(&k.g, data, &data, 1, (int8_t[]){0, -2}, &whole, &y));
  FAILS(&k, LW_STATUS_MODEL_INVALID, "1 operands",
        lw__graph_gather(&k.g, data, NULL, 0, (int8_t[]){-1, -2}, &whole, &y));
  lw_value_id many[16] = {0};
  FAILS(&k, LW_STATUS_UNSUPPORTED, "16 index",
        lw__graph_gather(&k.g, data, many, 16, (int8_t[]){0, -2}, &result, &y));
  kit_close(&k);
}

static void test_names_of_nodes(void **state) {
  (void)state;
  kit k;
  kit_open(&k);
  lw_value_id x = INPUT(&k, F32, 2), y = LW_NONE;
  char where[] = "conv1";
  k.g.where = where;
  OK(&k, lw__graph_relu(&k.g, x, &y));
  where[0] = 'C'; /* a copy was taken */
  const lw_node *last = lw__producer(&k.g, y);
  assert_string_equal(last->name, "conv1");
  assert_ptr_equal(last->name, (last - 1)->name);
  FAILS(&k, LW_STATUS_MODEL_INVALID, "", lw__graph_reduce(&k.g, LW_RED_ANY, x, 1, &y));
  assert_null(lw__producer(&k.g, x)->name);
  kit_close(&k);
}

static void test_outputs(void **state) {
  (void)state;
  kit k;
  kit_open(&k);
  lw_value_id x = INPUT(&k, F32, 2);
  OK(&k, lw__graph_output(&k.g, x, "a"));
  OK(&k, lw__graph_output(&k.g, x, NULL));
  assert_string_equal(k.g.output_names.data[1], "");
  FAILS(&k, LW_STATUS_INTERNAL, "no value", lw__graph_output(&k.g, 17, "b"));
  OK(&k, lw__graph_verify(&k.g, &k.diag));
  kit_close(&k);
}

/* However early memory ends, the graph stays one that verifies. */
static void test_no_memory(void **state) {
  (void)state;
  int failures = 0;
  for (uint64_t n = 1; n < 200; n++) {
    kit k;
    lw_rng rng;
    kit_open(&k);
    lw__rng_seed(&rng, 3);
    lw__mem_fail_at(n);
    lw_status status = random_graph(&k.g, &rng, 40);
    lw__mem_fail_at(0);
    assert_true(status == LW_OK || status == LW_STATUS_OUT_OF_MEMORY);
    failures += status != LW_OK; /* messages take memory too, and do without */
    kit_forget(&k);
    OK(&k, lw__graph_verify(&k.g, &k.diag));
    kit_close(&k);
  }
  assert_true(failures > 5);
}

int main(void) {
  const struct CMUnitTest tests[] = {
      cmocka_unit_test(test_sources),      cmocka_unit_test(test_map),
      cmocka_unit_test(test_broadcasting), cmocka_unit_test(test_reshape),
      cmocka_unit_test(test_permute),      cmocka_unit_test(test_expand),
      cmocka_unit_test(test_slice),        cmocka_unit_test(test_pad),
      cmocka_unit_test(test_window),       cmocka_unit_test(test_concat),
      cmocka_unit_test(test_reduce),       cmocka_unit_test(test_dot),
      cmocka_unit_test(test_conv),         cmocka_unit_test(test_conv_transposed),
      cmocka_unit_test(test_gather),       cmocka_unit_test(test_names_of_nodes),
      cmocka_unit_test(test_outputs),      cmocka_unit_test(test_no_memory),
  };
  return cmocka_run_group_tests(tests, NULL, NULL);
}

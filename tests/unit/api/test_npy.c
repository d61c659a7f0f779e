/* The .npy reader and writer: what NumPy writes, what strangers write, and back. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include <cmocka.h>

#include "api/npy.h"

/* A file of version 1.0 with |dict| as its header. */
static size_t make_file(uint8_t *out, const char *dict, const void *data, size_t bytes) {
  size_t length = strlen(dict);
  memcpy(out, "\x93NUMPY\x01\x00", 8);
  out[8] = (uint8_t)(length & 0xff);
  out[9] = (uint8_t)(length >> 8);
  memcpy(out + 10, dict, length);
  if (bytes > 0) memcpy(out + 10 + length, data, bytes);
  return 10 + length + bytes;
}

static lw_status parse(const char *dict, const void *data, size_t bytes, lw_diag *diag,
                       lw_npy *out) {
  uint8_t file[512];
  size_t length = make_file(file, dict, data, bytes);
  uint8_t *exact = malloc(length); /* the sanitizer sees a read beyond its end */
  memcpy(exact, file, length);
  lw_status status = lw__npy_parse(exact, length, "x.npy", diag, out);
  free(exact);
  return status;
}

static void reads_plain_arrays(void **state) {
  (void)state;
  const float data[6] = {1, 2, 3, 4, 5, 6};
  lw_npy npy;
  assert_int_equal(parse("{'descr': '<f4', 'fortran_order': False, 'shape': (2, 3), }  \n", data,
                         sizeof data, NULL, &npy),
                   LW_OK);
  assert_int_equal(npy.dtype, LW_DTYPE_F32);
  assert_int_equal(npy.rank, 2);
  assert_int_equal(npy.dims[0], 2);
  assert_int_equal(npy.dims[1], 3);
  assert_memory_equal(npy.data, data, sizeof data);
  lw__npy_deinit(&npy);
}

static void reads_rank_0_and_empty(void **state) {
  (void)state;
  const int64_t seven = 7;
  lw_npy npy;
  assert_int_equal(
      parse("{\"shape\": (), 'fortran_order': False, 'descr': '<i8'}", &seven, 8, NULL, &npy),
      LW_OK);
  assert_int_equal(npy.rank, 0);
  assert_int_equal(*(int64_t *)npy.data, 7);
  lw__npy_deinit(&npy);
  assert_int_equal(
      parse("{'descr': '<f8', 'fortran_order': False, 'shape': (4, 0, 9)}", NULL, 0, NULL, &npy),
      LW_OK);
  assert_int_equal(npy.bytes, 0);
  assert_int_equal(npy.rank, 3);
  lw__npy_deinit(&npy);
}

static void turns_fortran_order(void **state) {
  (void)state;
  const int16_t data[6] = {1, 4, 2, 5, 3, 6}, want[6] = {1, 2, 3, 4, 5, 6};
  lw_npy npy;
  assert_int_equal(parse("{'descr': '<i2', 'fortran_order': True, 'shape': (2, 3)}", data,
                         sizeof data, NULL, &npy),
                   LW_OK);
  assert_memory_equal(npy.data, want, sizeof want);
  lw__npy_deinit(&npy);
}

static void turns_byte_order(void **state) {
  (void)state;
  const uint8_t data[8] = {0, 0, 1, 2, 0xff, 0xff, 0xff, 0xfe};
  lw_npy npy;
  assert_int_equal(
      parse("{'descr': '>i4', 'fortran_order': False, 'shape': (2,)}", data, 8, NULL, &npy), LW_OK);
  assert_int_equal(((int32_t *)npy.data)[0], 258);
  assert_int_equal(((int32_t *)npy.data)[1], -2);
  lw__npy_deinit(&npy);
}

static void booleans_become_0_and_1(void **state) {
  (void)state;
  const uint8_t data[3] = {0, 1, 255};
  lw_npy npy;
  assert_int_equal(
      parse("{'descr': '|b1', 'fortran_order': False, 'shape': (3,)}", data, 3, NULL, &npy), LW_OK);
  assert_int_equal(((uint8_t *)npy.data)[2], 1);
  lw__npy_deinit(&npy);
}

static void refuses_what_it_cannot_read(void **state) {
  (void)state;
  static const char *const headers[] = {
      "",
      "{",
      "{}",
      "{'descr': '<f4', 'fortran_order': False}",
      "{'descr': '<f4', 'fortran_order': Maybe, 'shape': (1,)}",
      "{'descr': '<f4', 'fortran_order': False, 'shape': (1}",
      "{'descr': '<f4', 'fortran_order': False, 'shape': (-1,)}",
      "{'descr': '<f4', 'fortran_order': False, 'shape': (1, }",
      "{'descr': '<f4', 'fortran_order': False, 'shape': (99999999999999999999,)}",
      "{'descr': '<f4', 'fortran_order': False, 'shape': (4294967296, 4294967296, 4294967296)}",
      "{'descr': '<f4', 'fortran_order': False, 'shape': (1,1,1,1,1,1,1,1,1,1,1,1,1)}",
      "{'descr': '<f4', 'fortran_order': False, 'shape': (2,)}",
      "{'descr': '<c8', 'fortran_order': False, 'shape': (1,)}",
      "{'descr': '|O', 'fortran_order': False, 'shape': (1,)}",
      "{'descr': [('a', '<f4')], 'fortran_order': False, 'shape': (1,)}",
      "{'descr': '<f4', 'fortran_order': False, 'shape': (1,), 'extra': 3}",
      "{'descr': '<f4"};
  const uint8_t data[4] = {0};
  for (size_t i = 0; i < LW_ARRAY_COUNT(headers); i++) {
    lw_diag diag = {0};
    lw_npy npy;
    lw_status status = parse(headers[i], data, sizeof data, &diag, &npy);
    if (status != LW_STATUS_USAGE) print_error("accepted: %s\n", headers[i]);
    assert_int_equal(status, LW_STATUS_USAGE);
    assert_true(strlen(lw__diag_first_error(&diag)) > 0);
    lw__diag_deinit(&diag);
  }
}

static void refuses_every_prefix(void **state) {
  (void)state;
  uint8_t file[512];
  const float data[3] = {1, 2, 3};
  size_t length =
      make_file(file, "{'descr': '<f4', 'fortran_order': False, 'shape': (3,)}", data, sizeof data);
  for (size_t n = 0; n < length; n++) {
    uint8_t *exact = malloc(n + 1);
    memcpy(exact, file, n);
    lw_npy npy;
    assert_int_equal(lw__npy_parse(exact, n, "x.npy", NULL, &npy), LW_STATUS_USAGE);
    free(exact);
  }
}

static void survives_random_bytes(void **state) {
  (void)state;
  lw_rng rng;
  lw__rng_seed(&rng, 5);
  const float data[6] = {0};
  for (int round = 0; round < 20000; round++) {
    uint8_t file[512];
    size_t length = make_file(file, "{'descr': '<f4', 'fortran_order': True, 'shape': (2, 3)}",
                              data, sizeof data);
    for (int k = 0; k < 3; k++) {
      file[lw__rng_range(&rng, 6, (int64_t)length)] = (uint8_t)lw__rng_u64(&rng);
    }
    lw_npy npy;
    if (lw__npy_parse(file, length, "x.npy", NULL, &npy) == LW_OK) lw__npy_deinit(&npy);
  }
}

static void writes_what_it_reads(void **state) {
  (void)state;
  char path[] = "/tmp/lw_npy_XXXXXX";
  int fd = mkstemp(path);
  assert_true(fd >= 0);
  close(fd);
  static const struct {
    lw_dtype dtype, read_as;
    int rank;
    int64_t dims[3];
  } cases[] = {{LW_DTYPE_F32, LW_DTYPE_F32, 2, {2, 3}},    {LW_DTYPE_I64, LW_DTYPE_I64, 0, {0}},
               {LW_DTYPE_BF16, LW_DTYPE_U16, 1, {6}},      {LW_DTYPE_F8E4M3, LW_DTYPE_U8, 1, {6}},
               {LW_DTYPE_F16, LW_DTYPE_F16, 3, {1, 0, 5}}, {LW_DTYPE_BOOL, LW_DTYPE_BOOL, 1, {1}}};
  uint8_t data[64] = {1, 0, 1, 1};
  for (size_t i = 0; i < LW_ARRAY_COUNT(cases); i++) {
    assert_int_equal(lw__npy_write(path, cases[i].dtype, cases[i].rank, cases[i].dims, data, NULL),
                     LW_OK);
    lw_npy npy;
    assert_int_equal(lw__npy_read(path, NULL, &npy), LW_OK);
    assert_int_equal(npy.dtype, cases[i].read_as);
    assert_int_equal(npy.rank, cases[i].rank);
    assert_memory_equal(npy.dims, cases[i].dims, sizeof(int64_t) * (size_t)npy.rank);
    if (npy.bytes > 0) assert_memory_equal(npy.data, data, npy.bytes);
    lw__npy_deinit(&npy);
  }
  unlink(path);
  lw_npy npy;
  assert_int_equal(lw__npy_read(path, NULL, &npy), LW_STATUS_NOT_FOUND);
}

int main(void) {
  const struct CMUnitTest tests[] = {
      cmocka_unit_test(reads_plain_arrays),      cmocka_unit_test(reads_rank_0_and_empty),
      cmocka_unit_test(turns_fortran_order),     cmocka_unit_test(turns_byte_order),
      cmocka_unit_test(booleans_become_0_and_1), cmocka_unit_test(refuses_what_it_cannot_read),
      cmocka_unit_test(refuses_every_prefix),    cmocka_unit_test(survives_random_bytes),
      cmocka_unit_test(writes_what_it_reads),
  };
  return cmocka_run_group_tests(tests, NULL, NULL);
}

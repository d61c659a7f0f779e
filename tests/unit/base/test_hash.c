/* test_hash.c: the hashes: fixed vectors, so that identities never change unnoticed, and their
 * mixing. */
#include <stdlib.h>

#include "unit.h"

#include "base/internal.h"

static const lw_hash hash_seed = {.lo = 0x0123456789abcdef, .hi = 0xfedcba9876543210};

/* Made by an independent implementation of the definitions in hash.c; bytes are 0, 1, 2 ... mod
 * 251.
 */
typedef struct hash_vector {
  size_t bytes;
  uint64_t lo, hi;
} hash_vector;

static const hash_vector hash_vectors[] = {
    {0, 0x3991a0e194a6abe3, 0xef87d2fc70de2f15},    {1, 0x8c7764274c6335bc, 0xa911293c5c57af69},
    {7, 0x630d9c611db5ef0c, 0x99a72ab2367d1ea7},    {8, 0x2b033325817352dd, 0xa3424a0a6f581b6a},
    {9, 0x4cdc1fe2ceb09acc, 0xabac344cd91a45be},    {15, 0x33e096ef3c5fba72, 0x32cc727a071338de},
    {16, 0x67999791a02e4a67, 0x21d57ff8ec521a72},   {17, 0xfb1e2063e1cd09de, 0x608e0938198cfabc},
    {31, 0xcb95daf4503b5e8e, 0x50b958c06c4f7f39},   {32, 0x0ae02bdbad4d6427, 0x03f77122a6c954cb},
    {33, 0x54b1a63b80568c51, 0xa419b53690151fa5},   {100, 0xdf63c47952b57d81, 0xd1bd312cf62bd2be},
    {1000, 0x420eecd44fce8247, 0x6778528707c89546},
};

static void test_vectors(void **state) {
  (void)state;
  unsigned char data[1024];
  for (size_t i = 0; i < sizeof data; i++) data[i] = (unsigned char)(i % 251);
  for (size_t i = 0; i < LW_ARRAY_COUNT(hash_vectors); i++) {
    lw_hash hash = lw__hash_bytes(data, hash_vectors[i].bytes, hash_seed);
    assert_true(hash.lo == hash_vectors[i].lo);
    assert_true(hash.hi == hash_vectors[i].hi);
  }
}

static const hash_vector hash_wide_vectors[] = {
    {0, 0xcfb9913fd02d5b0f, 0x3b1539794a6c40e5},    {1, 0xfdcfd997ecde452f, 0xd08354874b7dd919},
    {63, 0x19005044bd1e2dc1, 0x1c486f92aa5877c6},   {64, 0xe4609597937f4cbb, 0xaadc15cea3a6db9a},
    {65, 0x3a46902dede85a95, 0xf894e48ffff8c528},   {128, 0xbcee00757a678770, 0x10febc95827fdc93},
    {1000, 0x8f90d0e5bd761163, 0xe1768a5689c001cb},
};

static void test_wide(void **state) {
  (void)state;
  unsigned char data[1024], moved[1024];
  for (size_t i = 0; i < sizeof data; i++) data[i] = (unsigned char)(i % 251);
  for (size_t i = 0; i < LW_ARRAY_COUNT(hash_wide_vectors); i++) {
    lw_hash hash = lw__hash_wide(data, hash_wide_vectors[i].bytes, hash_seed);
    assert_true(hash.lo == hash_wide_vectors[i].lo);
    assert_true(hash.hi == hash_wide_vectors[i].hi);
  }
  const lw_hash whole = lw__hash_wide(data, 300, hash_seed);
  for (size_t bit = 0; bit < 300 * 8; bit++) {
    data[bit / 8] ^= (unsigned char)(1 << bit % 8);
    assert_false(lw__hash_eq(lw__hash_wide(data, 300, hash_seed), whole));
    data[bit / 8] ^= (unsigned char)(1 << bit % 8);
  }
  memcpy(moved + 1, data, 300);
  assert_true(lw__hash_eq(lw__hash_wide(moved + 1, 300, hash_seed), whole));
  memcpy(moved, data, 300); /* parts that change places, within a stripe and between two */
  memcpy(moved, data + 16, 16);
  memcpy(moved + 16, data, 16);
  assert_false(lw__hash_eq(lw__hash_wide(moved, 300, hash_seed), whole));
  memcpy(moved, data + 64, 64);
  memcpy(moved + 64, data, 64);
  assert_false(lw__hash_eq(lw__hash_wide(moved, 300, hash_seed), whole));
  memset(data, 0, sizeof data);
  for (size_t n = 1; n < 400; n++) {
    assert_false(
        lw__hash_eq(lw__hash_wide(data, n, hash_seed), lw__hash_wide(data, n - 1, hash_seed)));
  }
}

static void test_unaligned_and_hex(void **state) {
  (void)state;
  unsigned char data[200];
  for (size_t i = 0; i < sizeof data; i++) data[i] = (unsigned char)(i * 7);
  lw_hash hash = lw__hash_bytes(data, 100, (lw_hash){0});
  for (size_t shift = 1; shift < 16; shift++) {
    unsigned char moved[200];
    memcpy(moved + shift, data, 100);
    assert_true(lw__hash_eq(hash, lw__hash_bytes(moved + shift, 100, (lw_hash){0})));
  }
  char hex[33];
  lw__hash_hex((lw_hash){.lo = 0x0123456789abcdef, .hi = 0xfedcba9876543210}, hex);
  assert_string_equal(hex, "fedcba98765432100123456789abcdef");
  assert_false(lw__hash_eq((lw_hash){1, 2}, (lw_hash){1, 3}));
  assert_false(lw__hash_eq((lw_hash){1, 2}, (lw_hash){0, 2}));
  assert_true(lw__hash_eq(lw__hash_bytes(NULL, 0, hash_seed), lw__hash_bytes("", 0, hash_seed)));
}

enum { avalanche_trials = 400 };

/* Flips every input bit (|bytes| of data, then 128 of the seed) and counts how often each output
 * bit follows. 400 fair coins stay within 120 .. 280 (eight standard deviations). */
static void check_avalanche(size_t bytes) {
  lw_rng rng;
  lw__rng_seed(&rng, 100 + bytes);
  for (size_t bit = 0; bit < bytes * 8 + 128; bit++) {
    int flips[128] = {0};
    for (int trial = 0; trial < avalanche_trials; trial++) {
      unsigned char data[64];
      for (size_t i = 0; i < bytes; i++) data[i] = (unsigned char)lw__rng_u64(&rng);
      lw_hash seed = {lw__rng_u64(&rng), lw__rng_u64(&rng)};
      lw_hash a = lw__hash_bytes(data, bytes, seed);
      if (bit < bytes * 8) {
        data[bit / 8] ^= (unsigned char)(1 << bit % 8);
      } else if (bit < bytes * 8 + 64) {
        seed.lo ^= UINT64_C(1) << (bit - bytes * 8);
      } else {
        seed.hi ^= UINT64_C(1) << (bit - bytes * 8 - 64);
      }
      lw_hash b = lw__hash_bytes(data, bytes, seed);
      for (int i = 0; i < 64; i++) {
        flips[i] += (int)((a.lo ^ b.lo) >> i & 1);
        flips[64 + i] += (int)((a.hi ^ b.hi) >> i & 1);
      }
    }
    for (int i = 0; i < 128; i++) assert_in_range(flips[i], 120, 280);
  }
}

static void test_avalanche(void **state) {
  (void)state;
  static const size_t lengths[] = {0, 1, 3, 8, 15, 16, 17, 32, 33};
  for (size_t i = 0; i < LW_ARRAY_COUNT(lengths); i++) check_avalanche(lengths[i]);
}

static int compare_u64(const void *a, const void *b) {
  uint64_t x = *(const uint64_t *)a, y = *(const uint64_t *)b;
  return (x > y) - (x < y);
}

static void assert_all_distinct(uint64_t *values, size_t count) {
  qsort(values, count, sizeof *values, compare_u64);
  for (size_t i = 1; i < count; i++) assert_true(values[i - 1] != values[i]);
}

/* Inputs that are alike: few bits set, runs of zeros, exchanged blocks. Each half of the hash alone
 * tells them apart. */
static void test_similar_inputs(void **state) {
  (void)state;
  enum { bits = 48 * 8, zeros = 4096, blocks = 6 };
  size_t capacity = 1 + bits + bits * (bits - 1) / 2 + zeros + 2000;
  uint64_t *lo = calloc(capacity, sizeof *lo), *hi = calloc(capacity, sizeof *hi);
  size_t count = 0;
  unsigned char data[zeros] = {0};
  for (int i = 0; i < bits; i++) {
    for (int k = i; k < bits; k++) {
      data[i / 8] |= (unsigned char)(1 << i % 8);
      data[k / 8] |= (unsigned char)(1 << k % 8);
      lw_hash hash = lw__hash_bytes(data, 48, (lw_hash){0});
      data[i / 8] = data[k / 8] = 0;
      lo[count] = hash.lo;
      hi[count++] = hash.hi;
    }
  }
  for (size_t length = 0; length < zeros; length++) {
    lw_hash hash = lw__hash_bytes(data, length, (lw_hash){0});
    lo[count] = hash.lo;
    hi[count++] = hash.hi;
  }
  for (int order = 0; order < 720; order++) { /* all permutations of six 8-byte words */
    uint64_t words[blocks] = {1, 2, 3, 4, 5, 6};
    for (int i = 0, rest = order; i < blocks; rest /= blocks - i, i++) {
      int pick = i + rest % (blocks - i);
      uint64_t word = words[i];
      words[i] = words[pick];
      words[pick] = word;
    }
    lw_hash hash = lw__hash_bytes(words, sizeof words, (lw_hash){0});
    lo[count] = hash.lo;
    hi[count++] = hash.hi;
  }
  assert_true(count <= capacity);
  assert_all_distinct(lo, count);
  assert_all_distinct(hi, count);
  free(lo);
  free(hi);
}

/* From another implementation of SipHash-1-3 with key 0, 0; bytes are 0, 1, 2 ... */
static void test_siphash(void **state) {
  (void)state;
  static const uint64_t expected[] = {
      0x68a914128e01e473, 0x010bac45c41e3669, 0x4d4c9a4a8ef6e0ad, 0x7cc43f98813e4dbd,
      0x5abe2169dff36275, 0xe3c25f87624f1cdb, 0x2f098ab0c751325a, 0xead411e67ebe2eea,
      0x75927f9d95124362, 0xaf9f77a65ab51a1d, 0xfe64ce8b6617fcff, 0xa6baf4fb0f9fe1c2,
      0xa0cf3211850f8e0d, 0x7f86049379fbfe67, 0xf30eb725bb91c9ea, 0x8972188433a5c5b7,
      0x4883c49a2c009c1d, 0xadc2c0b63044067d, 0x091f4a3329f87d19, 0x639e355ae68c0100};
  unsigned char data[64];
  for (size_t i = 0; i < sizeof data; i++) data[i] = (unsigned char)i;
  const uint64_t key[2] = {0, 0};
  for (size_t i = 0; i < LW_ARRAY_COUNT(expected); i++) {
    assert_true(lw__siphash13(data, i + 1, key) == expected[i]);
  }
  const uint64_t other[2] = {0, 1};
  assert_true(lw__siphash13(data, 5, key) != lw__siphash13(data, 5, other));
}

int main(void) {
  const struct CMUnitTest tests[] = {
      cmocka_unit_test(test_vectors),           cmocka_unit_test(test_wide),
      cmocka_unit_test(test_unaligned_and_hex), cmocka_unit_test(test_avalanche),
      cmocka_unit_test(test_similar_inputs),    cmocka_unit_test(test_siphash),
  };
  return cmocka_run_group_tests(tests, NULL, NULL);
}

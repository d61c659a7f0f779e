/* hash.c: the 128-bit hash of identities, and the keyed hash of string maps. */
#include <endian.h>
#include <string.h>

#include "base/internal.h"

/* Odd numbers without structure: fractional digits of sqrt(2), sqrt(3), sqrt(5), sqrt(7) in binary,
 * low bit set. They are part of the hash's definition. */
#define HASH_K1 UINT64_C(0x6a09e667f3bcc909)
#define HASH_K2 UINT64_C(0xbb67ae8584caa73b)
#define HASH_K3 UINT64_C(0x3c6ef372fe94f82b)
#define HASH_K4 UINT64_C(0xa54ff53a5f1d36f1)

static inline uint64_t hash_read_u64(const unsigned char *p) {
  uint64_t word;
  memcpy(&word, p, sizeof word);
  return le64toh(word);
}

static inline uint64_t hash_rotate(uint64_t x, int bits) {
  return (x << bits) | (x >> (64 - bits));
}

/* Both halves of the 128-bit product, so that high bits of |x| reach low bits of the result. */
static inline uint64_t hash_fold(uint64_t x, uint64_t k) {
  unsigned __int128 product = (unsigned __int128)x * k;
  return (uint64_t)product ^ (uint64_t)(product >> 64);
}

/* Finaliser of splitmix64 (Steele, Lea, Flood: "Fast splittable pseudorandom number generators",
 * 2014; the variant 13 of Stafford). */
static inline uint64_t hash_finish(uint64_t x) {
  x = (x ^ (x >> 30)) * UINT64_C(0xbf58476d1ce4e5b9);
  x = (x ^ (x >> 27)) * UINT64_C(0x94d049bb133111eb);
  return x ^ (x >> 31);
}

/* One step over 16 bytes. */
static inline void hash_step(uint64_t *a, uint64_t *b, const unsigned char *p) {
  uint64_t w0 = hash_read_u64(p), w1 = hash_read_u64(p + 8);
  *a = hash_fold(*a ^ w0, HASH_K1) + w1;
  *b = hash_fold(*b ^ w1, HASH_K2) + hash_rotate(w0, 32);
}

lw_hash lw__hash_wide(const void *data, size_t bytes, lw_hash seed) {
  enum { LANES = 4 };
  const unsigned char *p = data;
  uint64_t a[LANES], b[LANES];
  for (uint64_t i = 0; i < LANES; i++) {
    a[i] = seed.lo + HASH_K3 + i;
    b[i] = seed.hi ^ (HASH_K4 + i);
  }
  size_t left = bytes;
  for (; left >= 16 * LANES; left -= 16 * LANES, p += 16 * LANES) {
#pragma GCC unroll 4 /* so that the parts stay in registers */
    for (size_t i = 0; i < LANES; i++) hash_step(&a[i], &b[i], p + 16 * i);
  }
  lw_hash hash = lw__hash_bytes(p, left, (lw_hash){(uint64_t)bytes, 1});
  for (size_t i = 0; i < LANES; i++) {
    a[i] = htole64(a[i]);
    b[i] = htole64(b[i]);
  }
  hash = lw__hash_bytes(a, sizeof a, hash);
  return lw__hash_bytes(b, sizeof b, hash);
}

lw_hash lw__hash_bytes(const void *data, size_t bytes, lw_hash seed) {
  const unsigned char *p = data;
  uint64_t a = seed.lo + HASH_K3, b = seed.hi ^ HASH_K4;
  size_t left = bytes;
  for (; left >= 16; left -= 16, p += 16) hash_step(&a, &b, p);
  if (left != 0) { /* zeros behind the end are told apart by the length below */
    unsigned char last[16] = {0};
    memcpy(last, p, left);
    hash_step(&a, &b, last);
  }
  a ^= (uint64_t)bytes;
  b += hash_rotate((uint64_t)bytes, 32);
  a = hash_finish(a + b);
  b = hash_finish(b + a * HASH_K3);
  a = hash_finish(a + hash_rotate(b, 23));
  return (lw_hash){.lo = a, .hi = b};
}

bool lw__hash_eq(lw_hash a, lw_hash b) { return a.lo == b.lo && a.hi == b.hi; }

void lw__hash_hex(lw_hash hash, char out[33]) {
  static const char digits[] = "0123456789abcdef";
  for (int i = 0; i < 16; i++) {
    out[i] = digits[(hash.hi >> (60 - 4 * i)) & 15];
    out[i + 16] = digits[(hash.lo >> (60 - 4 * i)) & 15];
  }
  out[32] = '\0';
}

static inline void sip_round(uint64_t v[4]) {
  v[0] += v[1];
  v[2] += v[3];
  v[1] = hash_rotate(v[1], 13) ^ v[0];
  v[3] = hash_rotate(v[3], 16) ^ v[2];
  v[0] = hash_rotate(v[0], 32);
  v[2] += v[1];
  v[0] += v[3];
  v[1] = hash_rotate(v[1], 17) ^ v[2];
  v[3] = hash_rotate(v[3], 21) ^ v[0];
  v[2] = hash_rotate(v[2], 32);
}

uint64_t lw__siphash13(const void *data, size_t bytes, const uint64_t key[2]) {
  /* The start values are the ASCII text that the paper gives. */
  uint64_t v[4] = {key[0] ^ UINT64_C(0x736f6d6570736575), key[1] ^ UINT64_C(0x646f72616e646f6d),
                   key[0] ^ UINT64_C(0x6c7967656e657261), key[1] ^ UINT64_C(0x7465646279746573)};
  const unsigned char *p = data;
  size_t left = bytes;
  for (; left >= 8; left -= 8, p += 8) {
    uint64_t word = hash_read_u64(p);
    v[3] ^= word;
    sip_round(v);
    v[0] ^= word;
  }
  unsigned char last[8] = {0};
  if (left != 0) memcpy(last, p, left);
  last[7] = (unsigned char)bytes;
  uint64_t word = hash_read_u64(last);
  v[3] ^= word;
  sip_round(v);
  v[0] ^= word;
  v[2] ^= 0xff;
  for (int i = 0; i < 3; i++) sip_round(v);
  return v[0] ^ v[1] ^ v[2] ^ v[3];
}

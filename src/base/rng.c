/* rng.c: random numbers that are the same on every machine. Generators: xoshiro256** (Blackman,
 * Vigna: "Scrambled linear pseudorandom number generators", 2018) and splitmix64 (Steele, Lea,
 * Flood, 2014). */
#include <math.h>

#include "base/base.h"

static uint64_t rng_splitmix(uint64_t *state) {
  *state += UINT64_C(0x9e3779b97f4a7c15);
  uint64_t z = *state;
  z = (z ^ (z >> 30)) * UINT64_C(0xbf58476d1ce4e5b9);
  z = (z ^ (z >> 27)) * UINT64_C(0x94d049bb133111eb);
  return z ^ (z >> 31);
}

void lw__rng_seed(lw_rng *rng, uint64_t seed) {
  for (int i = 0; i < 4; i++) rng->s[i] = rng_splitmix(&seed);
}

static inline uint64_t rng_rotate(uint64_t x, int bits) { return (x << bits) | (x >> (64 - bits)); }

uint64_t lw__rng_u64(lw_rng *rng) {
  uint64_t *s = rng->s;
  uint64_t result = rng_rotate(s[1] * 5, 7) * 9;
  uint64_t shifted = s[1] << 17;
  s[2] ^= s[0];
  s[3] ^= s[1];
  s[1] ^= s[2];
  s[0] ^= s[3];
  s[2] ^= shifted;
  s[3] = rng_rotate(s[3], 45);
  return result;
}

int64_t lw__rng_range(lw_rng *rng, int64_t lo, int64_t hi) {
  if (hi <= lo) return lo;
  uint64_t width = (uint64_t)hi - (uint64_t)lo;
  uint64_t surplus = (0 - width) % width; /* 2^64 mod width: so many draws would bias the result */
  uint64_t draw;
  do {
    draw = lw__rng_u64(rng);
  } while (draw < surplus);
  return (int64_t)((uint64_t)lo + draw % width);
}

double lw__rng_uniform(lw_rng *rng) { return (double)(lw__rng_u64(rng) >> 11) * 0x1p-53; }

double lw__rng_normal(lw_rng *rng) {
  /* Box and Muller, 1958; 1 - u lies in (0, 1], where the logarithm is finite. */
  double radius = sqrt(-2.0 * log(1.0 - lw__rng_uniform(rng)));
  return radius * cos(6.283185307179586477 * lw__rng_uniform(rng));
}

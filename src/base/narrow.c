/* narrow.c: the bits of f16, bf16, f8 E4M3 and f8 E5M2. All four are one layout with other widths:
 * sign, exponent, mantissa, gradual underflow below the smallest normal number. */
#include <string.h>

#include "base/base.h"

/* IEEE 754-2019 (f16), OCP 8-bit floating point specification 1.0 (f8). */
typedef struct narrow_format {
  int mantissa_bits;
  int least_exponent; /* of the smallest normal number: 2^least_exponent */
  uint32_t largest;   /* code of the largest finite value */
  uint32_t overflow;  /* what is beyond it: infinity, or NaN where there is no infinity */
  uint32_t quiet_nan; /* bits that make a NaN */
  uint32_t sign;
} narrow_format;

static const narrow_format narrow_f16 = {10, -14, 0x7bff, 0x7c00, 0x7e00, 0x8000};
static const narrow_format narrow_bf16 = {7, -126, 0x7f7f, 0x7f80, 0x7fc0, 0x8000};
static const narrow_format narrow_e4m3 = {3, -6, 0x7e, 0x7f, 0x7f, 0x80};
static const narrow_format narrow_e5m2 = {2, -14, 0x7b, 0x7c, 0x7e, 0x80};

static double narrow_bits_to_f64(uint64_t bits) {
  double x;
  memcpy(&x, &bits, sizeof x);
  return x;
}

static double narrow_decode(const narrow_format *f, uint32_t code) {
  uint64_t sign = (code & f->sign) != 0 ? UINT64_C(1) << 63 : 0;
  uint64_t magnitude = code & ~f->sign;
  int widen = 52 - f->mantissa_bits;
  if (magnitude > f->largest) {
    bool infinite = magnitude == f->overflow && f->overflow != f->quiet_nan;
    uint64_t payload = magnitude << widen & ((UINT64_C(1) << 52) - 1);
    return narrow_bits_to_f64(sign | UINT64_C(0x7ff) << 52 | (infinite ? 0 : payload));
  }
  uint64_t exponent = magnitude >> f->mantissa_bits;
  if (exponent == 0) { /* zero or subnormal: an exact multiple of the smallest step */
    int step_exponent = f->least_exponent - f->mantissa_bits;
    double step = narrow_bits_to_f64((uint64_t)(step_exponent + 1023) << 52);
    double x = (double)magnitude * step;
    return sign != 0 ? -x : x;
  }
  uint64_t rebias = (uint64_t)(f->least_exponent - 1 + 1023) << 52;
  return narrow_bits_to_f64(sign | ((magnitude << widen) + rebias));
}

/* |value| / 2^shift to the nearest integer, ties to even; 0 <= shift < 64. */
static uint64_t narrow_shift_round(uint64_t value, int shift) {
  if (shift == 0) return value;
  uint64_t quotient = value >> shift;
  uint64_t rest = value & ((UINT64_C(1) << shift) - 1);
  uint64_t half = UINT64_C(1) << (shift - 1);
  return quotient + (rest > half || (rest == half && (quotient & 1) != 0));
}

static uint32_t narrow_encode(const narrow_format *f, double x) {
  uint64_t bits;
  memcpy(&bits, &x, sizeof bits);
  uint32_t sign = bits >> 63 != 0 ? f->sign : 0;
  int exponent = (int)(bits >> 52 & 0x7ff) - 1023;
  uint64_t fraction = bits & ((UINT64_C(1) << 52) - 1);
  int drop = 52 - f->mantissa_bits;
  if (exponent == 1024 && fraction != 0) {
    uint32_t payload = (uint32_t)(fraction >> drop);
    return sign | f->quiet_nan | payload;
  }
  if (exponent > 127) return sign | f->overflow; /* beyond each of the formats */
  int below = f->least_exponent - exponent;      /* > 0: the result is subnormal */
  if (below > f->mantissa_bits + 1) return sign; /* less than half of the smallest step */
  uint64_t significand = fraction | UINT64_C(1) << 52;
  uint64_t code;
  if (below > 0) {
    code = narrow_shift_round(significand, drop + below);
  } else {
    /* The hidden bit carries into the exponent field, and so does rounding up. */
    code = ((uint64_t)-below << f->mantissa_bits) + narrow_shift_round(significand, drop);
  }
  return sign | (code > f->largest ? f->overflow : (uint32_t)code);
}

double lw__f16_to_f64(uint16_t bits) { return narrow_decode(&narrow_f16, bits); }

uint16_t lw__f64_to_f16(double x) { return (uint16_t)narrow_encode(&narrow_f16, x); }

double lw__bf16_to_f64(uint16_t bits) { return narrow_decode(&narrow_bf16, bits); }

uint16_t lw__f64_to_bf16(double x) { return (uint16_t)narrow_encode(&narrow_bf16, x); }

double lw__f8e4m3_to_f64(uint8_t bits) { return narrow_decode(&narrow_e4m3, bits); }

uint8_t lw__f64_to_f8e4m3(double x) { return (uint8_t)narrow_encode(&narrow_e4m3, x); }

double lw__f8e5m2_to_f64(uint8_t bits) { return narrow_decode(&narrow_e5m2, bits); }

uint8_t lw__f64_to_f8e5m2(double x) { return (uint8_t)narrow_encode(&narrow_e5m2, x); }

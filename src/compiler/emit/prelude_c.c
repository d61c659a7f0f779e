/* prelude_c.c: floating-point helpers for GNU C. The f32 functions that networks use most are
 * polynomials without branches or calls, so that loops over them vectorise; rare ones and f64 call
 * libm.
 *
 * Coefficients: near-minimax fits of the stated function and range, rounded to f32 one after
 * another from the lowest term up. The largest errors over all arguments are checked by
 * tests/unit/emit/test_prelude.c. Signs and specials of every function are those of C's Annex F. */
#include "compiler/emit/prelude.h"

#define F32(name, body) \
  { "lw_" name "_f32", 0, 0, "LW_HELPER float lw_" name "_f32(float x) {" body "}" }
#define F64(name, expression)                                                   \
  {                                                                             \
    "lw_" name "_f64", 0, 0,                                                    \
        "LW_HELPER double lw_" name "_f64(double x) { return " expression "; }" \
  }
#define LIBM(name) F64(name, "__builtin_" name "(x)")
#define RARE(name) F32(name, " return __builtin_" name "f(x); "), LIBM(name)

static const lw_helper rows[] = {
    {"lw_bits_of_f32", 0, 0,
     "LW_HELPER unsigned lw_bits_of_f32(float x) { unsigned u; __builtin_memcpy(&u, &x, 4); return "
     "u; }"},
    {"lw_f32_of_bits", 0, 0,
     "LW_HELPER float lw_f32_of_bits(unsigned u) { float x; __builtin_memcpy(&x, &u, 4); return x; "
     "}"},
    {"lw_copysign_f32", 0, 0,
     "LW_HELPER float lw_copysign_f32(float x, float s) {\n"
     "  return lw_f32_of_bits((lw_bits_of_f32(x) & 0x7fffffffu) | (lw_bits_of_f32(s) & "
     "0x80000000u));\n"
     "}"},
    /* Nothing stays in vector registers: compilers keep constants of other loops in them where a
     * tile of sums needs all. */
    {"lw_spill", 0, 0,
     "LW_HELPER void lw_spill(void) {\n"
     "#if defined(__AVX512F__)\n"
     "  __asm__ volatile(\"\" ::: "
     "\"xmm0\", \"xmm1\", \"xmm2\", \"xmm3\", \"xmm4\", \"xmm5\", \"xmm6\", \"xmm7\", "
     "\"xmm8\", \"xmm9\", \"xmm10\", \"xmm11\", \"xmm12\", \"xmm13\", \"xmm14\", "
     "\"xmm15\", \"xmm16\", \"xmm17\", \"xmm18\", \"xmm19\", \"xmm20\", \"xmm21\", "
     "\"xmm22\", \"xmm23\", \"xmm24\", \"xmm25\", \"xmm26\", \"xmm27\", \"xmm28\", "
     "\"xmm29\", \"xmm30\", \"xmm31\""
     ");\n"
     "#elif defined(__AVX__)\n"
     "  __asm__ volatile(\"\" ::: "
     "\"xmm0\", \"xmm1\", \"xmm2\", \"xmm3\", \"xmm4\", \"xmm5\", \"xmm6\", \"xmm7\", "
     "\"xmm8\", \"xmm9\", \"xmm10\", \"xmm11\", \"xmm12\", \"xmm13\", \"xmm14\", \"xmm15\""
     ");\n"
     "#elif defined(__aarch64__)\n"
     "  __asm__ volatile(\"\" ::: "
     "\"v0\", \"v1\", \"v2\", \"v3\", \"v4\", \"v5\", \"v6\", \"v7\", \"v8\", \"v9\", "
     "\"v10\", \"v11\", \"v12\", \"v13\", \"v14\", \"v15\", \"v16\", \"v17\", \"v18\", "
     "\"v19\", \"v20\", \"v21\", \"v22\", \"v23\", \"v24\", \"v25\", \"v26\", \"v27\", "
     "\"v28\", \"v29\", \"v30\", \"v31\""
     ");\n"
     "#endif\n"
     "}"},
    {"lw_div_$t", LW_HELPER_FLT, 0, "LW_HELPER $T lw_div_$t($T a, $T b) { return a / b; }"},
    {"lw_min_$t", LW_HELPER_FLT, 0,
     "LW_HELPER $T lw_min_$t($T a, $T b) { return ((a < b) | (a != a)) ? a : b; }"},
    {"lw_max_$t", LW_HELPER_FLT, 0,
     "LW_HELPER $T lw_max_$t($T a, $T b) { return ((a > b) | (a != a)) ? a : b; }"},
    F32("abs", " return __builtin_fabsf(x); "),
    F64("abs", "__builtin_fabs(x)"),
    F32("floor", " return __builtin_floorf(x); "),
    F64("floor", "__builtin_floor(x)"),
    F32("ceil", " return __builtin_ceilf(x); "),
    F64("ceil", "__builtin_ceil(x)"),
    F32("trunc", " return __builtin_truncf(x); "),
    F64("trunc", "__builtin_trunc(x)"),
    F32("round", " return __builtin_rintf(x); "),
    F64("round", "__builtin_rint(x)"),
    F32("sqrt", " return __builtin_sqrtf(x); "),
    F64("sqrt", "__builtin_sqrt(x)"),
    F32("rsqrt", " return 1.0f / __builtin_sqrtf(x); "),
    F64("rsqrt", "1.0 / __builtin_sqrt(x)"),
    {"lw_rem_f32", 0, 0,
     "LW_HELPER float lw_rem_f32(float a, float b) { return __builtin_fmodf(a, b); }"},
    {"lw_rem_f64", 0, 0,
     "LW_HELPER double lw_rem_f64(double a, double b) { return __builtin_fmod(a, b); }"},
    /* gcc's vectoriser makes pow(x, 0.5) a root without regard to -inf and -0 */
    {"lw_pow_f32", 0, 0,
     "LW_HELPER float lw_pow_f32(float a, float b) {\n"
     "  if (b == 0.5f) return a == -LW_INF ? LW_INF : __builtin_sqrtf(a + 0.0f);\n"
     "  return __builtin_powf(a, b);\n"
     "}"},
    {"lw_pow_f64", 0, 0,
     "LW_HELPER double lw_pow_f64(double a, double b) {\n"
     "  if (b == 0.5) return a == -LW_INF ? LW_INF : __builtin_sqrt(a + 0.0);\n"
     "  return __builtin_pow(a, b);\n"
     "}"},
    {"lw_atan2_f32", 0, 0,
     "LW_HELPER float lw_atan2_f32(float a, float b) { return __builtin_atan2f(a, b); }"},
    {"lw_atan2_f64", 0, 0,
     "LW_HELPER double lw_atan2_f64(double a, double b) { return __builtin_atan2(a, b); }"},

    /* 2^n for -252 <= n <= 254, in two factors so that results may be subnormal or as large as can
     * be. |n| is the low part of the sum of an integer and 1.5 * 2^23. */
    {"lw_scale_f32", 0, 0,
     "LW_HELPER float lw_scale_f32(float x, int n) {\n"
     "  unsigned half = (unsigned)(n >> 1), rest = (unsigned)n - half;\n"
     "  return x * lw_f32_of_bits((half + 127u) << 23) * lw_f32_of_bits((rest + 127u) << 23);\n"
     "}"},
    /* x = n * ln 2 + r, |r| <= 0.3466. ln 2 in two parts, the first of 15 bits, so that n times it
     * is exact. exp(r) = 1 + r + r^2 P(r): relative error 3.2e-9. */
    F32("exp",
        "\n"
        "  float c = x < -104.0f ? -104.0f : x;\n"
        "  c = c > 89.0f ? 89.0f : c;\n"
        "  float shifted = c * 0x1.715476p+0f + 0x1.8p+23f, n = shifted - 0x1.8p+23f;\n"
        "  float r = c - n * 0x1.62e4p-1f - n * 0x1.7f7d1cp-20f;\n"
        "  float p = 0x1.6a540ep-10f;\n"
        "  p = p * r + 0x1.123b0cp-7f;\n"
        "  p = p * r + 0x1.5558acp-5f;\n"
        "  p = p * r + 0x1.55549p-3f;\n"
        "  p = p * r + 0x1.fffffcp-2f;\n"
        "  p = p * (r * r) + r + 1.0f;\n"
        "  return lw_scale_f32(p, (int)(lw_bits_of_f32(shifted) - 0x4b400000u));\n"),
    /* As exp, with exp(r) - 1 = r + r^2 P(r) to 4.5e-10, and 2^n (exp(r) - 1) + (2^n - 1) computed
     * at half size so that 2^128 does not overflow. Below -27 the result is -1. */
    F32("expm1",
        "\n"
        "  float c = x < -27.0f ? -27.0f : x;\n"
        "  c = c > 89.0f ? 89.0f : c;\n"
        "  float shifted = c * 0x1.715476p+0f + 0x1.8p+23f, n = shifted - 0x1.8p+23f;\n"
        "  float r = c - n * 0x1.62e4p-1f - n * 0x1.7f7d1cp-20f;\n"
        "  float p = 0x1.9e7d76p-13f;\n"
        "  p = p * r + 0x1.6d3aa8p-10f;\n"
        "  p = p * r + 0x1.1112d4p-7f;\n"
        "  p = p * r + 0x1.5554f8p-5f;\n"
        "  p = p * r + 0x1.555554p-3f;\n"
        "  p = p * r + 0.5f;\n"
        "  float q = p * (r * r) + r;\n"
        "  float half = lw_f32_of_bits((lw_bits_of_f32(shifted) - 0x4b400000u + 126u) << 23);\n"
        "  float y = 2.0f * (half * q + (half - 0.5f));\n"
        "  return x == 0.0f ? x : y;\n"),
    /* log(1 + f) + n ln 2 for sqrt(1/2) - 1 <= f <= sqrt(2) - 1: f - f^2/2 + f^3 P(f), relative
       error 5.9e-9. */
    {"lw_log_core_f32", 0, 0,
     "LW_HELPER float lw_log_core_f32(float f, float n) {\n"
     "  float s = f * f, p = -0x1.38c968p-4f;\n"
     "  p = p * f + 0x1.055eacp-3f;\n"
     "  p = p * f - 0x1.0d8246p-3f;\n"
     "  p = p * f + 0x1.22d93p-3f;\n"
     "  p = p * f - 0x1.54728ap-3f;\n"
     "  p = p * f + 0x1.99a01cp-3f;\n"
     "  p = p * f - 0x1.000226p-2f;\n"
     "  p = p * f + 0x1.555554p-2f;\n"
     "  float tail = p * (f * s) + (n * 0x1.7f7d1cp-20f - 0.5f * s);\n"
     "  return n * 0x1.62e4p-1f + (f + tail);\n"
     "}"},
    /* x = 2^n (1 + f); subnormal x are scaled up first. */
    F32("log",
        "\n"
        "  float tiny = x < 0x1p-126f ? 0x1p23f : 1.0f, extra = x < 0x1p-126f ? -23.0f : 0.0f;\n"
        "  unsigned u = lw_bits_of_f32(x * tiny);\n"
        "  int n = (int)(u - 0x3f3504f4u) >> 23;\n"
        "  float f = lw_f32_of_bits(u - ((unsigned)n << 23)) - 1.0f;\n"
        "  float y = lw_log_core_f32(f, (float)n + extra);\n"
        "  y = x > 0.0f ? y : x == 0.0f ? -LW_INF : LW_NAN;\n"
        "  return x == LW_INF ? x : y;\n"),
    /* n from 1 + x, but f from x itself, so that what 1 + x rounds away is not lost. */
    F32("log1p",
        "\n"
        "  unsigned u = lw_bits_of_f32(1.0f + x);\n"
        "  int n = (int)(u - 0x3f3504f4u) >> 23, half = n >> 1;\n"
        "  float a = lw_f32_of_bits((unsigned)(127 - half) << 23);\n"
        "  float b = lw_f32_of_bits((unsigned)(127 - (n - half)) << 23);\n"
        "  float f = x * a * b + (a * b - 1.0f);\n"
        "  float y = lw_log_core_f32(f, (float)n);\n"
        "  y = x > -1.0f ? y : x == -1.0f ? -LW_INF : LW_NAN;\n"
        "  return x == LW_INF || x == 0.0f ? x : y;\n"),
    /* |x| < 0.625: x + x^3 P(x^2), relative error 4.6e-9; else 1 - 2 / (exp(2|x|) + 1). */
    F32("tanh",
        "\n"
        "  float a = __builtin_fabsf(x), z = x * x, p = -0x1.75619ap-8f;\n"
        "  p = p * z + 0x1.5207b8p-6f;\n"
        "  p = p * z - 0x1.b83738p-5f;\n"
        "  p = p * z + 0x1.1106fcp-3f;\n"
        "  p = p * z - 0x1.555532p-2f;\n"
        "  float small = a + a * (z * p), large = 1.0f - 2.0f / (lw_exp_f32(2.0f * a) + 1.0f);\n"
        "  return lw_copysign_f32(a < 0.625f ? small : large, x);\n"),
    /* exp of a negative number only, so that no side loses its small values. */
    F32("sigmoid",
        "\n"
        "  float e = lw_exp_f32(-__builtin_fabsf(x));\n"
        "  return (x < 0.0f ? e : 1.0f) / (1.0f + e);\n"),
    /* |x| < 1: x + x P(x^2), relative error 1.5e-9; else 1 - exp(-Q(|x|)), where Q approximates
       -log(erfc). */
    F32("erf",
        "\n"
        "  float a = __builtin_fabsf(x), z = x * x, p = 0x1.4771fcp-14f;\n"
        "  p = p * z - 0x1.a3515ep-11f;\n"
        "  p = p * z + 0x1.53f224p-8f;\n"
        "  p = p * z - 0x1.b7f71ap-6f;\n"
        "  p = p * z + 0x1.ce2ce6p-4f;\n"
        "  p = p * z - 0x1.81273ep-2f;\n"
        "  p = p * z + 0x1.06eba8p-3f;\n"
        "  float small = x + x * p, t = a > 4.0f ? 4.0f : a, q = 0x1.67b1eep-16f;\n"
        "  q = q * t - 0x1.cbc67ep-12f;\n"
        "  q = q * t + 0x1.12a3acp-8f;\n"
        "  q = q * t - 0x1.9c68cp-6f;\n"
        "  q = q * t + 0x1.bbd8f6p-4f;\n"
        "  q = q * t + 0x1.443c4ep-1f;\n"
        "  q = q * t + 0x1.212a52p+0f;\n"
        "  q = q * t - 0x1.7ea5bcp-13f;\n"
        "  float large = lw_copysign_f32(1.0f - lw_exp_f32(-q), x);\n"
        "  return a < 1.0f ? small : large;\n"),
    /* 2/pi for arguments whose exponent field is 16 g .. 16 g + 15, less the bits that only add
     * multiples of 4 to the product, in three parts: products of a float with the first two (29
     * bits each) are exact. */
    {"lw_two_over_pi", 0, 0,
     "static const double lw_two_over_pi[3][16] = {\n"
     "  {0x1.45f306dp-1, 0x1.45f306dp-1, 0x1.45f306dp-1, 0x1.45f306dp-1,\n"
     "   0x1.45f306dp-1, 0x1.45f306dp-1, 0x1.45f306dp-1, 0x1.45f306dp-1,\n"
     "   0x1.45f306dp-1, 0x1.45f306dp-1, 0x1.f306dc9p-9, 0x1.b939104p-26,\n"
     "   0x1.1054a7ep-42, 0x1.4fe13a8p-59, 0x1.3abe8f8p-75, 0x1.a3ea69bp-89},\n"
     "  {0x1.9391054p-30, 0x1.9391054p-30, 0x1.9391054p-30, 0x1.9391054p-30,\n"
     "   0x1.9391054p-30, 0x1.9391054p-30, 0x1.9391054p-30, 0x1.9391054p-30,\n"
     "   0x1.9391054p-30, 0x1.9391054p-30, 0x1.91054a7p-38, 0x1.4a7f09dp-54,\n"
     "   0x1.09d5f47p-70, 0x1.f47d4d3p-86, 0x1.4d37703p-102, 0x1.7036d8ap-118},\n"
     "  {0x1.4fe13abe8fa9ap-59, 0x1.4fe13abe8fa9ap-59, 0x1.4fe13abe8fa9ap-59, "
     "0x1.4fe13abe8fa9ap-59,\n"
     "   0x1.4fe13abe8fa9ap-59, 0x1.4fe13abe8fa9ap-59, 0x1.4fe13abe8fa9ap-59, "
     "0x1.4fe13abe8fa9ap-59,\n"
     "   0x1.4fe13abe8fa9ap-59, 0x1.4fe13abe8fa9ap-59, 0x1.e13abe8fa9a6fp-67, "
     "0x1.7d1f534ddc0dbp-84,\n"
     "   0x1.a9a6ee06db14bp-99, 0x1.dc0db6295993cp-116, 0x1.b6295993c439p-132, "
     "0x1.5993c439041fep-148},\n"
     "};"},
    /* |x| = (4 m + k + r) quarter turns, |r| <= 1/2; gives sin (odd = 0) or cos (odd = 1) of |x|.
     * Both polynomials in y = r pi/2: sin = y + y^3 P(y^2) to 1.6e-10, cos = 1 - y^2/2 + y^4 Q(y^2)
     * to 1.6e-10. */
    {"lw_circle_f32", 0, 0,
     "LW_HELPER float lw_circle_f32(float x, int odd) {\n"
     "  int g = (int)(lw_bits_of_f32(x) >> 27 & 15u);\n"
     "  double d = __builtin_fabsf(x), a = d * lw_two_over_pi[0][g], b = d * "
     "lw_two_over_pi[1][g];\n"
     "  double c = d * lw_two_over_pi[2][g];\n"
     "  a -= 4.0 * __builtin_rint(a * 0.25);\n"
     "  b -= 4.0 * __builtin_rint(b * 0.25);\n"
     "  double s = a + b, k = __builtin_rint(s + c), r = (s - k) + c;\n"
     "  int turn = (int)(k == k ? k : 0.0) + odd;\n"
     "  float y = (float)(r * 0x1.921fb54442d18p+0), z = y * y;\n"
     "  float p = 0x1.7cd428p-19f;\n"
     "  p = p * z - 0x1.a05bb2p-13f;\n"
     "  p = p * z + 0x1.111176p-7f;\n"
     "  p = p * z - 0x1.555556p-3f;\n"
     "  p = y + y * (z * p);\n"
     "  float q = 0x1.99e0ecp-16f;\n"
     "  q = q * z - 0x1.6c0c1ap-10f;\n"
     "  q = q * z + 0x1.55554ap-5f;\n"
     "  q = 1.0f + (q * (z * z) - 0.5f * z);\n"
     "  float v = (turn & 1) != 0 ? q : p;\n"
     "  return lw_f32_of_bits(lw_bits_of_f32(v) ^ (unsigned)(turn & 2) << 30);\n"
     "}"},
    F32("sin",
        " return lw_f32_of_bits(lw_bits_of_f32(lw_circle_f32(x, 0)) ^ (lw_bits_of_f32(x) & "
        "0x80000000u)); "),
    F32("cos", " return lw_circle_f32(x, 1); "),
    LIBM("sin"),
    LIBM("cos"),
    LIBM("exp"),
    LIBM("expm1"),
    LIBM("log"),
    LIBM("log1p"),
    LIBM("tanh"),
    LIBM("erf"),
    F64("sigmoid",
        "x < 0 ? __builtin_exp(x) / (1 + __builtin_exp(x)) : 1 / (1 + __builtin_exp(-x))"),
    RARE("tan"),
    RARE("asin"),
    RARE("acos"),
    RARE("atan"),
    RARE("sinh"),
    RARE("cosh"),
    RARE("asinh"),
    RARE("acosh"),
    RARE("atanh"),
};

const lw_helper_table lw__emit_helpers_c = {rows, LW_ARRAY_COUNT(rows)};

/* prelude_cuda.c: helpers for CUDA C: floating point on the GPU's own functions, conversions, wide
 * accesses, shuffles. Every PTX instruction of generated sources stands here. sm_80 and up. */
#include "compiler/emit/prelude.h"

#define F32(name, body) \
  { "lw_" name "_f32", 0, 0, "LW_HELPER float lw_" name "_f32(float x) {" body "}" }
#define F64(name, expression)                                                   \
  {                                                                             \
    "lw_" name "_f64", 0, 0,                                                    \
        "LW_HELPER double lw_" name "_f64(double x) { return " expression "; }" \
  }
#define BOTH(name, f32, f64) F32(name, " return " f32 "(x); "), F64(name, f64 "(x)")
#define TWO32(name, body) \
  { "lw_" name "_f32", 0, 0, "LW_HELPER float lw_" name "_f32(float a, float b) {" body "}" }
#define TWO64(name, body) \
  { "lw_" name "_f64", 0, 0, "LW_HELPER double lw_" name "_f64(double a, double b) {" body "}" }

#define WARP(red, types)                                         \
  {                                                              \
    "lw_warp_" red "_$t", types, 0,                              \
        "LW_HELPER $T lw_warp_" red                              \
        "_$t($T v, int width, unsigned mask) {\n"                \
        "#pragma unroll\n"                                       \
        "  for (int apart = width / 2; apart > 0; apart /= 2)\n" \
        "    v = lw_combine_" red                                \
        "_$t(v, lw_shuffle_xor_$t(mask, v, apart));\n"           \
        "  return v;\n"                                          \
        "}"                                                      \
  }
/* |leads|: the scratch may be in use until now. */
#define BLOCK(red, types)                                       \
  {                                                             \
    "lw_block_" red "_$t", types, 0,                            \
        "LW_HELPER $T lw_block_" red                            \
        "_$t($T v, int warps, $T *scratch, bool leads) {\n"     \
        "  v = lw_warp_" red                                    \
        "_$t(v, 32, 0xffffffffu);\n"                            \
        "  int warp = (int)threadIdx.x >> 5;\n"                 \
        "  if (leads) __syncthreads();\n"                       \
        "  if ((threadIdx.x & 31) == 0) scratch[warp] = v;\n"   \
        "  __syncthreads();\n"                                  \
        "  const $T *group = scratch + warp / warps * warps;\n" \
        "  v = group[0];\n"                                     \
        "#pragma unroll\n"                                      \
        "  for (int i = 1; i < warps; i++) v = lw_combine_" red \
        "_$t(v, group[i]);\n"                                   \
        "  return v;\n"                                         \
        "}"                                                     \
  }
#define REDUCTION(red, types) WARP(red, types), BLOCK(red, types)
#define NUMBERS (LW_HELPER_INT | LW_HELPER_FLT)
#define SMALL_TYPES \
  (LW_HELPER_BOOL | LW_HELPER_BIT(I8) | LW_HELPER_BIT(I16) | LW_HELPER_BIT(U8) | LW_HELPER_BIT(U16))

#define COPY(bytes, cache)                                                               \
  {                                                                                      \
    "lw_tc_copy_" bytes, 0, 0,                                                           \
        "LW_HELPER void lw_tc_copy_" bytes                                               \
        "(void *to, const void *from, bool there) {\n"                                   \
        "  asm volatile(\"cp.async." cache ".shared.global [%0], [%1], " bytes           \
        ", %2;\"\n"                                                                      \
        "               :: \"r\"((unsigned)__cvta_generic_to_shared(to)), \"l\"(from), " \
        "\"r\"(there ? " bytes                                                           \
        " : 0) : \"memory\");\n"                                                         \
        "}"                                                                              \
  }
#define WAIT(groups)                                                                               \
  {                                                                                                \
    "lw_tc_copy_wait_" groups, 0, 0,                                                               \
        "LW_HELPER void lw_tc_copy_wait_" groups "() { asm volatile(\"cp.async.wait_group " groups \
        ";\" ::: \"memory\"); }"                                                                   \
  }
#define FRAG(count, suffix, trans, registers, row, outputs)                                   \
  {                                                                                           \
    "lw_tc_frag_" count suffix, 0, 0,                                                         \
        "LW_HELPER void lw_tc_frag_" count suffix                                             \
        "(unsigned *r, const void *row) {\n"                                                  \
        "  asm volatile(\"ldmatrix.sync.aligned.m8n8.x" count trans ".shared.b16 {" registers \
        "}, [" row                                                                            \
        "];\"\n"                                                                              \
        "               : " outputs                                                           \
        " : \"r\"((unsigned)__cvta_generic_to_shared(row)));\n"                               \
        "}"                                                                                   \
  }
#define FRAG1(suffix, trans) FRAG("1", suffix, trans, "%0", "%1", "\"=r\"(r[0])")
#define FRAG2(suffix, trans) FRAG("2", suffix, trans, "%0, %1", "%2", "\"=r\"(r[0]), \"=r\"(r[1])")
#define FRAG4(suffix, trans)                       \
  FRAG("4", suffix, trans, "%0, %1, %2, %3", "%4", \
       "\"=r\"(r[0]), \"=r\"(r[1]), \"=r\"(r[2]), \"=r\"(r[3])")
#define MMA(type)                                                                            \
  {                                                                                          \
    "lw_tc_mma_" type, 0, 0,                                                                 \
        "LW_HELPER void lw_tc_mma_" type                                                     \
        "(float *d, const unsigned *a, const unsigned *b) {\n"                               \
        "  asm volatile(\"mma.sync.aligned.m16n8k16.row.col.f32." type "." type              \
        ".f32 {%0, %1, %2, %3}, {%4, %5, %6, %7}, {%8, %9}, {%0, %1, %2, %3};\"\n"           \
        "               : \"+f\"(d[0]), \"+f\"(d[1]), \"+f\"(d[2]), \"+f\"(d[3])\n"          \
        "               : \"r\"(a[0]), \"r\"(a[1]), \"r\"(a[2]), \"r\"(a[3]), \"r\"(b[0]), " \
        "\"r\"(b[1]));\n"                                                                    \
        "}"                                                                                  \
  }

static const lw_helper rows[] = {
    /* A kernel that may start while those before it still run: lets the ones after it start, and
     * waits until those before it have ended. Gives a zero that the compiler does not know to be
     * one: pointers that it was added to are pointers that nothing can be read through before. */
    {"lw_early_start", 0, 0,
     "LW_HELPER long long lw_early_start() {\n"
     "  long long zero = 0;\n"
     "#if defined(__CUDA_ARCH__) && __CUDA_ARCH__ >= 900\n"
     "  asm volatile(\"griddepcontrol.launch_dependents;\" ::: \"memory\");\n"
     "  asm volatile(\"griddepcontrol.wait;\" ::: \"memory\");\n"
     "  asm volatile(\"mov.b64 %0, 0;\" : \"=l\"(zero) :: \"memory\");\n"
     "#endif\n"
     "  return zero;\n"
     "}"},
    {"lw_bits_of_f32", 0, 0,
     "LW_HELPER unsigned lw_bits_of_f32(float x) { return __float_as_uint(x); }"},
    {"lw_f32_of_bits", 0, 0,
     "LW_HELPER float lw_f32_of_bits(unsigned u) { return __uint_as_float(u); }"},
    {"lw_bits_of_f64", 0, 0,
     "LW_HELPER unsigned long long lw_bits_of_f64(double x) { return (unsigned long "
     "long)__double_as_longlong(x); }"},
    {"lw_f64_of_bits", 0, 0,
     "LW_HELPER double lw_f64_of_bits(unsigned long long u) { return __longlong_as_double((long "
     "long)u); }"},
    /* narrow floats */
    {"lw_f16_to_f32", 0, 0,
     "LW_HELPER float lw_f16_to_f32(unsigned short x) {\n"
     "  float r;\n"
     "  asm(\"cvt.f32.f16 %0, %1;\" : \"=f\"(r) : \"h\"(x));\n"
     "  return r;\n"
     "}"},
    {"lw_f32_to_f16", 0, 0,
     "LW_HELPER unsigned short lw_f32_to_f16(float x) {\n"
     "  unsigned short r;\n"
     "  asm(\"cvt.rn.f16.f32 %0, %1;\" : \"=h\"(r) : \"f\"(x));\n"
     "  return r;\n"
     "}"},
    {"lw_f32_to_bf16", 0, 0,
     "LW_HELPER unsigned short lw_f32_to_bf16(float x) {\n"
     "  unsigned short r;\n"
     "  asm(\"cvt.rn.bf16.f32 %0, %1;\" : \"=h\"(r) : \"f\"(x));\n"
     "  return r;\n"
     "}"},
    /* elements of 1 and 2 bytes packed into words */
    {"lw_get8", 0, 0,
     "LW_HELPER unsigned char lw_get8(const unsigned *w, int i) {\n"
     "  return (unsigned char)(w[i >> 2] >> ((i & 3) * 8));\n"
     "}"},
    {"lw_get16", 0, 0,
     "LW_HELPER unsigned short lw_get16(const unsigned *w, int i) {\n"
     "  return (unsigned short)(w[i >> 1] >> ((i & 1) * 16));\n"
     "}"},
    {"lw_set8", 0, 0,
     "LW_HELPER void lw_set8(unsigned *w, int i, unsigned char x) {\n"
     "  int s = (i & 3) * 8;\n"
     "  w[i >> 2] = (w[i >> 2] & ~(0xffu << s)) | (unsigned)x << s;\n"
     "}"},
    {"lw_set16", 0, 0,
     "LW_HELPER void lw_set16(unsigned *w, int i, unsigned short x) {\n"
     "  int s = (i & 1) * 16;\n"
     "  w[i >> 1] = (w[i >> 1] & ~(0xffffu << s)) | (unsigned)x << s;\n"
     "}"},
    /* wide accesses; _ro: memory that nobody writes during the launch */
    {"lw_get_x4", 0, 0,
     "LW_HELPER uint4 lw_get_x4(const void *p, bool there) {\n"
     "  return there ? *(const uint4 *)p : make_uint4(0, 0, 0, 0);\n"
     "}"},
    {"lw_get_x2", 0, 0,
     "LW_HELPER uint2 lw_get_x2(const void *p, bool there) {\n"
     "  return there ? *(const uint2 *)p : make_uint2(0, 0);\n"
     "}"},
    {"lw_get_x1", 0, 0,
     "LW_HELPER unsigned lw_get_x1(const void *p, bool there) { return there ? *(const unsigned "
     "*)p : 0; }"},
    {"lw_get_x4_ro", 0, 0,
     "LW_HELPER uint4 lw_get_x4_ro(const void *p, bool there) {\n"
     "  return there ? __ldg((const uint4 *)p) : make_uint4(0, 0, 0, 0);\n"
     "}"},
    {"lw_get_x2_ro", 0, 0,
     "LW_HELPER uint2 lw_get_x2_ro(const void *p, bool there) {\n"
     "  return there ? __ldg((const uint2 *)p) : make_uint2(0, 0);\n"
     "}"},
    {"lw_get_x1_ro", 0, 0,
     "LW_HELPER unsigned lw_get_x1_ro(const void *p, bool there) {\n"
     "  return there ? __ldg((const unsigned *)p) : 0;\n"
     "}"},
    {"lw_put_x4", 0, 0,
     "LW_HELPER void lw_put_x4(void *p, unsigned a, unsigned b, unsigned c, unsigned d) {\n"
     "  *(uint4 *)p = make_uint4(a, b, c, d);\n"
     "}"},
    {"lw_put_x2", 0, 0,
     "LW_HELPER void lw_put_x2(void *p, unsigned a, unsigned b) { *(uint2 *)p = make_uint2(a, b); "
     "}"},
    {"lw_put_x1", 0, 0, "LW_HELPER void lw_put_x1(void *p, unsigned a) { *(unsigned *)p = a; }"},
    /* the two halves of 8-byte values as words */
    {"lw_join_i64", 0, 0,
     "LW_HELPER long long lw_join_i64(unsigned lo, unsigned hi) {\n"
     "  return (long long)((unsigned long long)hi << 32 | lo);\n"
     "}"},
    {"lw_join_u64", 0, 0,
     "LW_HELPER unsigned long long lw_join_u64(unsigned lo, unsigned hi) { return (unsigned long "
     "long)hi << 32 | lo; }"},
    {"lw_join_f64", 0, 0,
     "LW_HELPER double lw_join_f64(unsigned lo, unsigned hi) { return __hiloint2double((int)hi, "
     "(int)lo); }"},
    {"lw_word_$t", LW_HELPER_BIT(I64) | LW_HELPER_BIT(U64), 0,
     "LW_HELPER unsigned lw_word_$t($T x, int i) { return (unsigned)((unsigned long long)x >> (32 "
     "* i)); }"},
    {"lw_word_f64", 0, 0,
     "LW_HELPER unsigned lw_word_f64(double x, int i) {\n"
     "  return (unsigned)(i == 0 ? __double2loint(x) : __double2hiint(x));\n"
     "}"},
    {"lw_word_f32", 0, 0, "LW_HELPER unsigned lw_word_f32(float x) { return __float_as_uint(x); }"},
    {"lw_word_$t", LW_HELPER_BIT(I32) | LW_HELPER_BIT(U32), 0,
     "LW_HELPER unsigned lw_word_$t($T x) { return (unsigned)x; }"},
    {"lw_of_word_f32", 0, 0,
     "LW_HELPER float lw_of_word_f32(unsigned w) { return __uint_as_float(w); }"},
    {"lw_of_word_$t", LW_HELPER_BIT(I32) | LW_HELPER_BIT(U32), 0,
     "LW_HELPER $T lw_of_word_$t(unsigned w) { return ($T)w; }"},
    /* Asynchronous copies to shared memory and tensor cores. A source of 0 bytes gives zeros. Names
     * with lw_tc_ are what a host has to bring itself. */
    COPY("4", "ca"),
    COPY("8", "ca"),
    COPY("16", "cg"),
    {"lw_tc_copy_end", 0, 0,
     "LW_HELPER void lw_tc_copy_end() { asm volatile(\"cp.async.commit_group;\" ::: \"memory\"); "
     "}"},
    WAIT("0"),
    WAIT("1"),
    WAIT("2"),
    WAIT("3"),
    WAIT("4"),
    WAIT("5"),
    WAIT("6"),
    FRAG1("", ""),
    FRAG1("t", ".trans"),
    FRAG2("", ""),
    FRAG2("t", ".trans"),
    FRAG4("", ""),
    FRAG4("t", ".trans"),
    MMA("f16"),
    MMA("bf16"),
    /* threads */
    {"lw_shuffle_xor_$t", NUMBERS & ~SMALL_TYPES, 0,
     "LW_HELPER $T lw_shuffle_xor_$t(unsigned mask, $T v, int apart) { return "
     "__shfl_xor_sync(mask, v, apart); }"},
    {"lw_shuffle_xor_$t", SMALL_TYPES, 0,
     "LW_HELPER $T lw_shuffle_xor_$t(unsigned mask, $T v, int apart) {\n"
     "  return ($T)__shfl_xor_sync(mask, (int)v, apart);\n"
     "}"},
    {"lw_group_mask", 0, 0,
     "LW_HELPER unsigned lw_group_mask(int width) {\n"
     "  return (0xffffffffu >> (32 - width)) << (threadIdx.x & 31 & ~(width - 1));\n"
     "}"},
    REDUCTION("sum", NUMBERS),
    REDUCTION("prod", NUMBERS),
    REDUCTION("max", NUMBERS),
    REDUCTION("min", NUMBERS),
    REDUCTION("any", LW_HELPER_BOOL),
    REDUCTION("all", LW_HELPER_BOOL),
    /* functions that are exact or correctly rounded */
    TWO32("div", " return __fdiv_rn(a, b); "),
    TWO64("div", " return __ddiv_rn(a, b); "),
    TWO32(
        "min",
        " float r; asm(\"min.NaN.f32 %0, %1, %2;\" : \"=f\"(r) : \"f\"(a), \"f\"(b)); return r; "),
    TWO32(
        "max",
        " float r; asm(\"max.NaN.f32 %0, %1, %2;\" : \"=f\"(r) : \"f\"(a), \"f\"(b)); return r; "),
    TWO64("min", " return a < b || a != a ? a : b; "),
    TWO64("max", " return a > b || a != a ? a : b; "),
    TWO32("rem", " return fmodf(a, b); "),
    TWO64("rem", " return fmod(a, b); "),
    BOTH("abs", "fabsf", "fabs"),
    BOTH("floor", "floorf", "floor"),
    BOTH("ceil", "ceilf", "ceil"),
    BOTH("trunc", "truncf", "trunc"),
    BOTH("round", "rintf", "rint"),
    BOTH("sqrt", "__fsqrt_rn", "__dsqrt_rn"),
    BOTH("rsqrt", "rsqrtf", "rsqrt"),
    /* 1/x to one unit in the last place; subnormal results become 0 */
    {"lw_recip_approx", 0, 0,
     "LW_HELPER float lw_recip_approx(float x) {\n"
     "  float r;\n"
     "  asm(\"rcp.approx.ftz.f32 %0, %1;\" : \"=f\"(r) : \"f\"(x));\n"
     "  return r;\n"
     "}"},
    BOTH("exp", "expf", "exp"),
    BOTH("expm1", "expm1f", "expm1"),
    BOTH("log", "logf", "log"),
    BOTH("log1p", "log1pf", "log1p"),
    /* 2^x to two units; subnormal results become 0 */
    {"lw_exp2_approx", 0, 0,
     "LW_HELPER float lw_exp2_approx(float x) {\n"
     "  float r;\n"
     "  asm(\"ex2.approx.ftz.f32 %0, %1;\" : \"=f\"(r) : \"f\"(x));\n"
     "  return r;\n"
     "}"},
    /* |x| < 0.95: x + x P(x^2), relative error 2.8e-8; else 1 - 2^Q(|x|), where Q approximates the
     * logarithm of erfc, so well that erf is right to 2.2e-8. Two thirds of the instructions of
     * erff: GELU in f16 then keeps up with memory. */
    F32("erf",
        "\n"
        "  float a = fabsf(x), z = x * x;\n"
        "  float p = __fmaf_rn(z, -0x1.308246p-11f, 0x1.44c0d4p-8f);\n"
        "  p = __fmaf_rn(p, z, -0x1.b618b6p-6f);\n"
        "  p = __fmaf_rn(p, z, 0x1.ce12p-4f);\n"
        "  p = __fmaf_rn(p, z, -0x1.8126aep-2f);\n"
        "  p = __fmaf_rn(p, z, 0x1.06eba4p-3f);\n"
        "  float small = __fmaf_rn(x, p, x);\n"
        "  float q = __fmaf_rn(a, -0x1.c918b2p-10f, 0x1.6848d4p-6f);\n"
        "  q = __fmaf_rn(q, a, -0x1.0a2704p-3f);\n"
        "  q = __fmaf_rn(q, a, -0x1.e1d234p-1f);\n"
        "  q = __fmaf_rn(q, a, -0x1.9d4eap+0f);\n"
        "  q = __fmaf_rn(q, a, -0x1.9f3666p-9f);\n"
        "  float large = copysignf(1.0f - lw_exp2_approx(q), x);\n"
        "  return a < 0.95f ? small : large;\n"),
    F64("erf", "erf(x)"),
    BOTH("tanh", "tanhf", "tanh"),
    F32("sigmoid", " return lw_recip_approx(1.0f + lw_exp_f32(-x)); "),
    F64("sigmoid", "x < 0 ? exp(x) / (1 + exp(x)) : 1 / (1 + exp(-x))"),
    BOTH("sin", "sinf", "sin"),
    BOTH("cos", "cosf", "cos"),
    BOTH("tan", "tanf", "tan"),
    BOTH("asin", "asinf", "asin"),
    BOTH("acos", "acosf", "acos"),
    BOTH("atan", "atanf", "atan"),
    BOTH("sinh", "sinhf", "sinh"),
    BOTH("cosh", "coshf", "cosh"),
    BOTH("asinh", "asinhf", "asinh"),
    BOTH("acosh", "acoshf", "acosh"),
    BOTH("atanh", "atanhf", "atanh"),
    TWO32("pow", " return powf(a, b); "),
    TWO64("pow", " return pow(a, b); "),
    TWO32("atan2", " return atan2f(a, b); "),
    TWO64("atan2", " return atan2(a, b); "),
};

const lw_helper_table lw__emit_helpers_cuda = {rows, LW_ARRAY_COUNT(rows)};

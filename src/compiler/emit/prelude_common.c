/* prelude_common.c: helpers with the same text for C and CUDA C: integers that wrap, casts, 8-bit
 * floats, combining. The macro LW_HELPER that starts each of them is defined by the target. */
#include "compiler/emit/prelude.h"

#define INT(name, args, body) \
  { "lw_" name "_$t", LW_HELPER_INT, 0, "LW_HELPER $T lw_" name "_$t" args " { " body " }" }
#define SINT(name, args, body) \
  { "lw_" name "_$t", LW_HELPER_SINT, 0, "LW_HELPER $T lw_" name "_$t" args " { " body " }" }
#define UINT(name, args, body) \
  { "lw_" name "_$t", LW_HELPER_UINT, 0, "LW_HELPER $T lw_" name "_$t" args " { " body " }" }
#define FLT(name, args, body) \
  { "lw_" name "_$t", LW_HELPER_FLT, 0, "LW_HELPER $T lw_" name "_$t" args " { " body " }" }
#define CAST(from, to, body) \
  { "lw_cast_$f_$t", to, from, "LW_HELPER $T lw_cast_$f_$t($F a) { " body " }" }
#define ONE "($T a)"
#define TWO "($T a, $T b)"

/* The bits of f8 and f16 from f32: numbers below the smallest normal one are rounded by adding a
 * float whose last place is the format's smallest step; others by adding half of what is cut off,
 * less a bit when the last bit kept is even. */
#define NARROW_FROM_F32(name, type, magic, magic_bits, least, bias, shift, half, largest, over, \
                        nan, sign)                                                              \
  {                                                                                             \
    "lw_f32_to_" name, 0, 0,                                                                    \
        "LW_HELPER " type " lw_f32_to_" name                                                    \
        "(float x) {\n"                                                                         \
        "  unsigned u = lw_bits_of_f32(x), m = u & 0x7fffffffu;\n"                              \
        "  unsigned small = lw_bits_of_f32(lw_f32_of_bits(m) + " magic ") - " magic_bits        \
        ";\n"                                                                                   \
        "  unsigned normal = (m - " bias " + " half " + (m >> " shift " & 1u)) >> " shift       \
        ";\n"                                                                                   \
        "  unsigned r = m < " least                                                             \
        " ? small : normal;\n"                                                                  \
        "  r = m >= 0x7f800000u || r > " largest " ? " over                                     \
        " : r;\n"                                                                               \
        "  r = m > 0x7f800000u ? " nan                                                          \
        " : r;\n"                                                                               \
        "  return (" type ")(r | (u >> " sign                                                   \
        "));\n"                                                                                 \
        "}"                                                                                     \
  }

static const lw_helper rows[] = {
    /* integers */
    INT("add", TWO, "return ($T)(($U)a + ($U)b);"),
    INT("sub", TWO, "return ($T)(($U)a - ($U)b);"),
    INT("mul", TWO, "return ($T)(($U)a * ($U)b);"),
    INT("neg", ONE, "return ($T)(0 - ($U)a);"),
    SINT("div", TWO, "return b == 0 ? 0 : b == -1 ? ($T)(0 - ($U)a) : ($T)(a / b);"),
    UINT("div", TWO, "return b == 0 ? 0 : ($T)(a / b);"),
    SINT("rem", TWO, "return b == 0 || b == -1 ? 0 : ($T)(a % b);"),
    UINT("rem", TWO, "return b == 0 ? 0 : ($T)(a % b);"),
    SINT("mod", TWO, "$T r = lw_rem_$t(a, b); return ($T)(r != 0 && (r ^ b) < 0 ? r + b : r);"),
    UINT("mod", TWO, "return b == 0 ? 0 : ($T)(a % b);"),
    INT("min", TWO, "return a < b ? a : b;"),
    INT("max", TWO, "return a > b ? a : b;"),
    SINT("abs", ONE, "return a < 0 ? ($T)(0 - ($U)a) : a;"),
    UINT("abs", ONE, "return a;"),
    SINT("sign", ONE, "return ($T)((a > 0) - (a < 0));"),
    UINT("sign", ONE, "return ($T)(a != 0);"),
    SINT("pow", TWO,
         "\n  if (b < 0) return ($T)(a == 1 ? 1 : a != -1 ? 0 : (b & 1) != 0 ? -1 : 1);\n"
         "  $U r = 1, x = ($U)a;\n"
         "  for (; b != 0; b = ($T)(b >> 1), x *= x)\n"
         "    if ((b & 1) != 0) r *= x;\n"
         "  return ($T)r;\n"),
    UINT("pow", TWO,
         "\n  $U r = 1, x = ($U)a;\n"
         "  for (; b != 0; b = ($T)(b >> 1), x *= x)\n"
         "    if ((b & 1) != 0) r *= x;\n"
         "  return ($T)r;\n"),
    INT("bitnot", ONE, "return ($T)~($U)a;"),
    INT("bitand", TWO, "return ($T)(a & b);"),
    INT("bitor", TWO, "return ($T)(a | b);"),
    INT("bitxor", TWO, "return ($T)(a ^ b);"),
    INT("shl", TWO, "return ($U)b >= $B ? 0 : ($T)(($U)a << ($U)b);"),
    SINT("shr", TWO, "return ($T)(a >> (($U)b >= $B ? $B - 1 : ($U)b));"),
    UINT("shr", TWO, "return ($U)b >= $B ? 0 : ($T)(($U)a >> ($U)b);"),
    /* casts */
    CAST(LW_HELPER_ANY, LW_HELPER_BOOL, "return a != 0;"),
    CAST(LW_HELPER_BOOL, LW_HELPER_INT | LW_HELPER_FLT, "return a ? ($T)1 : ($T)0;"),
    CAST(LW_HELPER_INT, LW_HELPER_INT | LW_HELPER_FLT, "return ($T)a;"),
    CAST(LW_HELPER_FLT, LW_HELPER_FLT, "return ($T)a;"),
    CAST(LW_HELPER_FLT, LW_HELPER_INT, "return a != a ? 0 : a <= $l ? $L : a >= $h ? $H : ($T)a;"),
    /* floats */
    {"lw_isnan_$t", LW_HELPER_FLT, 0, "LW_HELPER bool lw_isnan_$t($T a) { return a != a; }"},
    {"lw_isinf_$t", LW_HELPER_FLT, 0,
     "LW_HELPER bool lw_isinf_$t($T a) { return lw_abs_$t(a) == ($T)LW_INF; }"},
    FLT("sign", ONE, "return a > 0 ? ($T)1 : a < 0 ? ($T)-1 : a;"),
    FLT("mod", TWO,
        "\n  $T r = lw_rem_$t(a, b);\n"
        "  $T moved = (r < 0) != (b < 0) ? r + b : r;\n"
        "  $T zero = b < 0 ? -($T)0 : ($T)0;\n"
        "  return r == 0 ? zero : r != r ? r : moved;\n"),
    /* memory forms of f8; 448 = 0x7e in E4M3, 57344 = 0x7b in E5M2 */
    {"lw_f8e4m3_to_f32", 0, 0,
     "LW_HELPER float lw_f8e4m3_to_f32(unsigned char x) {\n"
     "  unsigned m = x & 0x7fu;\n"
     "  float small = (float)(int)m * 0x1p-9f, normal = lw_f32_of_bits((m << 20) + 0x3c000000u);\n"
     "  float r = m < 8u ? small : m == 0x7fu ? lw_f32_of_bits(0x7fc00000u) : normal;\n"
     "  return lw_f32_of_bits(lw_bits_of_f32(r) | (unsigned)(x & 0x80u) << 24);\n"
     "}"},
    {"lw_f8e5m2_to_f32", 0, 0,
     "LW_HELPER float lw_f8e5m2_to_f32(unsigned char x) {\n"
     "  unsigned m = x & 0x7fu;\n"
     "  float small = (float)(int)m * 0x1p-16f, normal = lw_f32_of_bits((m << 21) + 0x38000000u);\n"
     "  float special = lw_f32_of_bits((m << 21) + 0x70000000u);\n"
     "  float r = m < 4u ? small : m >= 0x7cu ? special : normal;\n"
     "  return lw_f32_of_bits(lw_bits_of_f32(r) | (unsigned)(x & 0x80u) << 24);\n"
     "}"},
    NARROW_FROM_F32("f8e4m3", "unsigned char", "0x1p14f", "0x46800000u", "0x3c800000u",
                    "0x3c000000u", "20", "0x7ffffu", "0x7eu", "0x7fu", "0x7fu", "24 & 0x80u"),
    NARROW_FROM_F32("f8e5m2", "unsigned char", "0x1p7f", "0x43000000u", "0x38800000u",
                    "0x38000000u", "21", "0xfffffu", "0x7bu", "0x7cu", "0x7eu", "24 & 0x80u"),
    NARROW_FROM_F32("f16", "unsigned short", "0.5f", "0x3f000000u", "0x38800000u", "0x38000000u",
                    "13", "0xfffu", "0x7bffu", "0x7c00u", "0x7e00u", "16 & 0x8000u"),
    {"lw_f16_to_f32", 0, 0,
     "LW_HELPER float lw_f16_to_f32(unsigned short x) {\n"
     "  unsigned m = x & 0x7fffu;\n"
     "  float small = (float)(int)m * 0x1p-24f, normal = lw_f32_of_bits((m << 13) + 0x38000000u);\n"
     "  float special = lw_f32_of_bits((m << 13) + 0x70000000u);\n"
     "  float r = m < 0x400u ? small : m >= 0x7c00u ? special : normal;\n"
     "  return lw_f32_of_bits(lw_bits_of_f32(r) | (unsigned)(x & 0x8000u) << 16);\n"
     "}"},
    {"lw_bf16_to_f32", 0, 0,
     "LW_HELPER float lw_bf16_to_f32(unsigned short x) { return lw_f32_of_bits((unsigned)x << 16); "
     "}"},
    {"lw_f32_to_bf16", 0, 0,
     "LW_HELPER unsigned short lw_f32_to_bf16(float x) {\n"
     "  unsigned u = lw_bits_of_f32(x);\n"
     "  unsigned rounded = (u + 0x7fffu + (u >> 16 & 1u)) >> 16, nan = u >> 16 | 0x7fc0u;\n"
     "  return (unsigned short)(x != x ? nan : rounded);\n"
     "}"},
    /* combining of reductions */
    FLT("combine_sum", TWO, "return a + b;"),
    INT("combine_sum", TWO, "return lw_add_$t(a, b);"),
    FLT("combine_prod", TWO, "return a * b;"),
    INT("combine_prod", TWO, "return lw_mul_$t(a, b);"),
    {"lw_combine_max_$t", LW_HELPER_INT | LW_HELPER_FLT, 0,
     "LW_HELPER $T lw_combine_max_$t($T a, $T b) { return lw_max_$t(a, b); }"},
    {"lw_combine_min_$t", LW_HELPER_INT | LW_HELPER_FLT, 0,
     "LW_HELPER $T lw_combine_min_$t($T a, $T b) { return lw_min_$t(a, b); }"},
    {"lw_combine_any_$t", LW_HELPER_BOOL, 0,
     "LW_HELPER $T lw_combine_any_$t($T a, $T b) { return a || b; }"},
    {"lw_combine_all_$t", LW_HELPER_BOOL, 0,
     "LW_HELPER $T lw_combine_all_$t($T a, $T b) { return a && b; }"},
};

const lw_helper_table lw__emit_helpers_common = {rows, LW_ARRAY_COUNT(rows)};

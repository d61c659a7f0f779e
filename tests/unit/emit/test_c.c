/* Generated C, compiled by the system compiler and run: every scalar function, cast and narrow type
 * against double precision and integer references, over dense samples and special values. */
#include <dlfcn.h>
#include <math.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <unistd.h>

#include <cmocka.h>

#include "fn_kernels.h"

typedef void (*c_kernel)(void *const *buffers, const int64_t *scalars, int64_t begin, int64_t end);

#define FAST_FLAGS "-O3 -march=native -fno-math-errno -fno-trapping-math -ffp-contract=fast"

static void *library;

static void *compile(const lw_text *source, const char *flags) {
  char dir[] = "/tmp/lawson_test_c_XXXXXX", command[512], path[64];
  assert_non_null(mkdtemp(dir));
  snprintf(path, sizeof path, "%s/k.c", dir);
  lw_diag diag = {0};
  assert_int_equal(lw__file_write(path, source->data, source->len, &diag), LW_OK);
  snprintf(command, sizeof command,
           "cc -std=gnu17 -Wall -Werror -shared -fPIC %s -o %s/k.so %s/k.c -lm", flags, dir, dir);
  int rc = system(command);
  if (rc != 0) fail_msg("%s", command);
  snprintf(path, sizeof path, "%s/k.so", dir);
  void *handle = dlopen(path, RTLD_NOW | RTLD_LOCAL);
  if (handle == NULL) fail_msg("%s", dlerror());
  snprintf(command, sizeof command, "rm -r %s", dir);
  assert_int_equal(system(command), 0);
  return handle;
}

static c_kernel find(const char *name) {
  c_kernel kernel;
  *(void **)&kernel = dlsym(library, name);
  if (kernel == NULL) fail_msg("no kernel %s", name);
  return kernel;
}

static void load_all(const char *flags) {
  fn_set set = {0};
  lw_text text = {0};
  fn_add_everything(&set, LW_KTARGET_CPU);
  assert_int_equal(lw__emit_c((const lw_kernel *const *)set.kernels.data,
                              (const char *const *)set.names.data, set.kernels.count, &text),
                   LW_OK);
  library = compile(&text, flags);
  lw__text_deinit(&text);
  fn_free(&set);
}

/* ---- floats -----------------------------------------------------------------------------------*/

static double ulp_f32(double x) {
  int e;
  x = fabs(x);
  if (x < 0x1p-126) return 0x1p-149;
  frexp(x, &e);
  return ldexp(1, e - 24);
}

static double ulp_f64(double x) {
  int e;
  x = fabs(x);
  if (x < 0x1p-1022) return 0x1p-1074;
  frexp(x, &e);
  return ldexp(1, e - 53);
}

/* Error of |got| in units in the last place of |want|; 0 for equal specials, infinity for different
 * ones. */
static double error_in_ulp(lw_dtype dtype, double got, double want) {
  double largest = lw__dtype_largest(dtype);
  if (isnan(want) || isnan(got)) return isnan(want) && isnan(got) ? 0 : INFINITY;
  if (got == want) return 0;
  double ulp = dtype == LW_DTYPE_F32 ? ulp_f32(want) : ulp_f64(want);
  if (isinf(got))
    return fabs(want) > largest && (got > 0) == (want > 0)
               ? 0
               : (fabs(want) >= largest - 4 * ulp ? 1 : INFINITY);
  if (isinf(want)) return INFINITY;
  return fabs(got - want) / ulp;
}

static const double specials[] = {0.0,
                                  -0.0,
                                  1.0,
                                  -1.0,
                                  2.0,
                                  -2.0,
                                  0.5,
                                  -0.5,
                                  1.5,
                                  -1.5,
                                  2.5,
                                  -2.5,
                                  3.5,
                                  INFINITY,
                                  -INFINITY,
                                  NAN,
                                  0x1p-149,
                                  -0x1p-149,
                                  0x1p-140,
                                  0x1p-126,
                                  -0x1p-126,
                                  0x1p-127,
                                  0x1.fffffep127,
                                  -0x1.fffffep127,
                                  88.72,
                                  88.73,
                                  88.8,
                                  -87.3,
                                  -88.0,
                                  -103.9,
                                  -104.5,
                                  127.0,
                                  -150.0,
                                  1e5,
                                  -1e5,
                                  1e10,
                                  1e30,
                                  0x1.fffffep-1,
                                  0x1.000002p0,
                                  3.14159274,
                                  1.57079637,
                                  0.693147182,
                                  0x1p23,
                                  0x1.8p23,
                                  0x1p24,
                                  4.0,
                                  0.625,
                                  1e-5,
                                  -1e-5,
                                  7.0,
                                  -7.0,
                                  0x1.fffffcp22,
                                  -0x1.fffffcp22,
                                  100.0,
                                  0.1,
                                  -0.1,
                                  3.0,
                                  -3.0};
#define SPECIALS ((int)LW_ARRAY_COUNT(specials))

static void report(const char *name, double worst, double bound, const double *x, double got,
                   double want) {
  if (worst <= bound) return;
  fail_msg("%s(%a, %a) = %a, not %a: %g ulp, bound %g", name, x[0], x[1], got, want, worst, bound);
}

/* One more than the stated bound's rounding of the reference itself. */
static void check_unary_f32(lw_fn fn) {
  const lw_fn_info *info = &lw__fn_info[fn];
  if (!fn_takes(fn, LW_DTYPE_F32) || info->arity != 1) return;
  char name[64];
  snprintf(name, sizeof name, "k_%s_f32", info->name);
  c_kernel kernel = find(name);
  bool to_bool = lw__fn_result_type(fn, LW_DTYPE_F32) == LW_DTYPE_BOOL;
  enum { N = FN_BLOCK * 16 };
  static float x[N];
  static float y[N];
  static uint8_t yb[N];
  double worst = 0, worst_x[2] = {0, 0}, worst_got = 0, worst_want = 0;
  uint32_t bits = 0;
  uint64_t done = 0;
  for (bool first = true; done <= UINT32_MAX; first = false) {
    for (int i = 0; i < N; i++) {
      memcpy(&x[i], &bits, 4);
      bits += 1021;
      done += 1021;
      if (first && i < SPECIALS) x[i] = (float)specials[i];
    }
    void *const buffers[2] = {x, to_bool ? (void *)yb : (void *)y};
    kernel(buffers, NULL, 0, N / FN_BLOCK);
    for (int i = 0; i < N; i++) {
      double want = lw__fn_eval_f64(fn, (double)x[i], 0, 0), got = to_bool ? yb[i] : (double)y[i];
      double error = to_bool ? (got == want ? 0 : INFINITY) : error_in_ulp(LW_DTYPE_F32, got, want);
      if (error <= worst) continue;
      worst = error;
      worst_x[0] = (double)x[i];
      worst_got = got;
      worst_want = want;
    }
  }
  printf("  %-10s f32 %.3f ulp at %a\n", info->name, worst, worst_x[0]);
  report(name, worst, info->ulp + 1e-6, worst_x, worst_got, worst_want);
}

static void test_unary_f32(void **state) {
  (void)state;
  for (int fn = 0; fn < LW_FN_COUNT; fn++) check_unary_f32((lw_fn)fn);
}

/* Operands for functions of several: special values against each other, then random ones of many
 * magnitudes. */
static double operand(lw_rng *rng, int64_t n, int which) {
  if (n < (int64_t)SPECIALS * SPECIALS) return specials[which == 0 ? n % SPECIALS : n / SPECIALS];
  if (lw__rng_range(rng, 0, 2) == 0) return lw__rng_normal(rng) * 3;
  return ldexp(lw__rng_uniform(rng) - 0.5, (int)lw__rng_range(rng, -20, 20));
}

static void check_floats(lw_fn fn, lw_dtype dtype) {
  const lw_fn_info *info = &lw__fn_info[fn];
  lw_dtype result = lw__fn_result_type(fn, dtype);
  if (!fn_takes(fn, dtype) || (info->arity == 1 && dtype == LW_DTYPE_F32)) return;
  char name[64];
  snprintf(name, sizeof name, "k_%s_%s", info->name, lw_dtype_name(dtype));
  enum { N = FN_BLOCK * 200 };
  static double x[3][N], y[N];
  lw_rng rng;
  lw__rng_seed(&rng, 7);
  void *buffers[4];
  for (int k = 0; k < info->arity; k++) {
    lw_dtype type = fn == LW_FN_SELECT && k == 0 ? LW_DTYPE_BOOL : dtype;
    for (int64_t i = 0; i < N; i++) lw__elem_set_f64(type, x[k], i, operand(&rng, i, k));
    buffers[k] = x[k];
  }
  buffers[info->arity] = y;
  find(name)(buffers, NULL, 0, N / FN_BLOCK);
  double worst = 0, worst_x[2] = {0, 0}, worst_got = 0, worst_want = 0;
  for (int64_t i = 0; i < N; i++) {
    double a[3] = {0, 0, 0};
    for (int k = 0; k < info->arity; k++)
      a[k] = lw__elem_get_f64(fn == LW_FN_SELECT && k == 0 ? LW_DTYPE_BOOL : dtype, x[k], i);
    double want = lw__fn_eval_f64(fn, a[0], a[1], a[2]), got = lw__elem_get_f64(result, y, i);
    double error =
        result == LW_DTYPE_BOOL ? (got == want ? 0 : INFINITY) : error_in_ulp(result, got, want);
    if (error <= worst) continue;
    worst = error;
    worst_x[0] = a[0];
    worst_x[1] = a[1];
    worst_got = got;
    worst_want = want;
  }
  /* The f64 reference is no better than one unit itself. */
  double bound = info->ulp + (dtype == LW_DTYPE_F64 && info->ulp > 0.5 ? 1 : 1e-6);
  report(name, worst, bound, worst_x, worst_got, worst_want);
}

static void test_floats(void **state) {
  (void)state;
  for (int fn = 0; fn < LW_FN_COUNT; fn++) {
    check_floats((lw_fn)fn, LW_DTYPE_F32);
    check_floats((lw_fn)fn, LW_DTYPE_F64);
  }
}

/* min, max, sign and mod also get the sign of zero and NaN right. */
static void test_signs_of_zero(void **state) {
  (void)state;
  static float a[FN_BLOCK] = {6, -6, 0.0f, -0.0f}, b[FN_BLOCK] = {-3, 3, 2, -2}, y[FN_BLOCK];
  void *buffers[3] = {a, b, y};
  find("k_mod_f32")(buffers, NULL, 0, 1);
  for (int i = 0; i < 4; i++)
    assert_int_equal(signbit(y[i]) != 0,
                     signbit(lw__fn_eval_f64(LW_FN_MOD, (double)a[i], (double)b[i], 0)) != 0);
  static const lw_fn odd[] = {LW_FN_SIN,   LW_FN_TANH,  LW_FN_ERF,  LW_FN_EXPM1, LW_FN_LOG1P,
                              LW_FN_TRUNC, LW_FN_ROUND, LW_FN_SQRT, LW_FN_NEG,   LW_FN_SIGN};
  for (size_t f = 0; f < LW_ARRAY_COUNT(odd); f++) {
    char name[64];
    snprintf(name, sizeof name, "k_%s_f32", lw__fn_info[odd[f]].name);
    a[0] = -0.0f;
    a[1] = 0.0f;
    void *unary[2] = {a, y};
    find(name)(unary, NULL, 0, 1);
    for (int i = 0; i < 2; i++) {
      bool want = signbit(lw__fn_eval_f64(odd[f], (double)a[i], 0, 0)) != 0;
      if ((signbit(y[i]) != 0) != want) fail_msg("%s: sign of zero", name);
    }
  }
}

/* pow(-inf, 0.5) is infinite and pow(-0, 0.5) is 0; the roots are NaN and -0. */
static void test_power_of_half(void **state) {
  (void)state;
  static float a[FN_BLOCK], y[FN_BLOCK];
  static double wide_a[FN_BLOCK], wide_y[FN_BLOCK];
  for (int i = 0; i < SPECIALS; i++) wide_a[i] = a[i] = (float)specials[i];
  find("k_root_f32")((void *[]){a, y}, NULL, 0, 1);
  find("k_root_f64")((void *[]){wide_a, wide_y}, NULL, 0, 1);
  for (int i = 0; i < SPECIALS; i++) {
    double want = pow(wide_a[i], 0.5);
    if (isnan(want)
            ? !isnan(y[i]) || !isnan(wide_y[i])
            : signbit(y[i]) || signbit(wide_y[i]) || fabs((double)y[i] - want) > want * 0x1p-22 ||
                  fabs(wide_y[i] - want) > want * 0x1p-51)
      fail_msg("pow(%a, 0.5): %a and %a", wide_a[i], (double)y[i], wide_y[i]);
  }
}

/* ---- integers ---------------------------------------------------------------------------------*/

static const int64_t int_specials[] = {
    0,      1,     -1,        2,         -2,         3,         7,         8,   15,         16,
    31,     32,    63,        64,        100,        127,       -128,      128, 255,        32767,
    -32768, 65535, INT32_MAX, INT32_MIN, UINT32_MAX, INT64_MAX, INT64_MIN, -7,  12345678901};

static int64_t int_operand(lw_rng *rng, int64_t n, int which) {
  int64_t count = (int64_t)LW_ARRAY_COUNT(int_specials);
  if (n < count * count) return int_specials[which == 0 ? n % count : n / count];
  return (int64_t)(lw__rng_u64(rng) >> lw__rng_range(rng, 0, 64)) *
         (lw__rng_range(rng, 0, 2) == 0 ? 1 : -1);
}

static void check_ints(lw_fn fn, lw_dtype dtype) {
  const lw_fn_info *info = &lw__fn_info[fn];
  if (!fn_takes(fn, dtype)) return;
  char name[64];
  snprintf(name, sizeof name, "k_%s_%s", info->name, lw_dtype_name(dtype));
  enum { N = FN_BLOCK * 40 };
  static int64_t x[3][N], y[N];
  lw_rng rng;
  lw__rng_seed(&rng, 11);
  void *buffers[4];
  for (int k = 0; k < info->arity; k++) {
    lw_dtype type = fn == LW_FN_SELECT && k == 0 ? LW_DTYPE_BOOL : dtype;
    for (int64_t i = 0; i < N; i++) lw__elem_set_i64(type, x[k], i, int_operand(&rng, i, k));
    buffers[k] = x[k];
  }
  buffers[info->arity] = y;
  find(name)(buffers, NULL, 0, N / FN_BLOCK);
  for (int64_t i = 0; i < N; i++) {
    int64_t a[3] = {0, 0, 0};
    for (int k = 0; k < info->arity; k++)
      a[k] = lw__elem_get_i64(fn == LW_FN_SELECT && k == 0 ? LW_DTYPE_BOOL : dtype, x[k], i);
    int64_t want = lw__fn_eval_i64(fn, dtype, a[0], a[1], a[2]);
    int64_t got = lw__elem_get_i64(lw__fn_result_type(fn, dtype), y, i);
    if (got != want)
      fail_msg("%s(%lld, %lld) = %lld, not %lld", name, (long long)a[0], (long long)a[1],
               (long long)got, (long long)want);
  }
}

static void test_integers(void **state) {
  (void)state;
  for (int fn = 0; fn < LW_FN_COUNT; fn++)
    for (int t = LW_DTYPE_BOOL; t <= LW_DTYPE_U64; t++) check_ints((lw_fn)fn, (lw_dtype)t);
}

/* ---- casts and narrow types -------------------------------------------------------------------*/

static lw_scalar get_scalar(lw_dtype dtype, const void *data, int64_t i) {
  if (lw__dtype_is_float(dtype)) return (lw_scalar){.f = lw__elem_get_f64(dtype, data, i)};
  return (lw_scalar){.i = lw__elem_get_i64(dtype, data, i)};
}

static void check_cast(lw_dtype from, lw_dtype to) {
  char name[64];
  snprintf(name, sizeof name, "k_%s_%s", lw_dtype_name(from), lw_dtype_name(to));
  enum { N = FN_BLOCK * 40 };
  static int64_t x[N], y[N];
  lw_rng rng;
  lw__rng_seed(&rng, 13);
  for (int64_t i = 0; i < N; i++) {
    if (!lw__dtype_is_float(from))
      lw__elem_set_i64(from, x, i, int_operand(&rng, i, 0));
    else if (i < SPECIALS)
      lw__elem_set_f64(from, x, i, specials[i]);
    else if (i < 2000)
      lw__elem_set_f64(from, x, i, (double)int_operand(&rng, i - SPECIALS, 0) + (i % 3 - 1) * 0.5);
    else
      lw__elem_set_f64(from, x, i,
                       ldexp(lw__rng_uniform(&rng) - 0.5, (int)lw__rng_range(&rng, -30, 70)));
  }
  void *buffers[2] = {x, y};
  find(name)(buffers, NULL, 0, N / FN_BLOCK);
  for (int64_t i = 0; i < N; i++) {
    lw_scalar want = lw__cast(get_scalar(from, x, i), from, to), got = get_scalar(to, y, i);
    bool same = want.i == got.i || (lw__dtype_is_float(to) && isnan(want.f) && isnan(got.f));
    if (!same)
      fail_msg("%s: element %lld: %a or %lld, not %a or %lld", name, (long long)i, got.f,
               (long long)got.i, want.f, (long long)want.i);
  }
}

static void test_casts(void **state) {
  (void)state;
  for (size_t f = 0; f < LW_ARRAY_COUNT(fn_value_types); f++)
    for (size_t t = 0; t < LW_ARRAY_COUNT(fn_value_types); t++)
      if (f != t) check_cast(fn_value_types[f], fn_value_types[t]);
}

/* Every code of a narrow type, and every 1021st float. */
static void check_narrow(lw_dtype narrow) {
  char name[64];
  enum { N = 1 << 16 };
  static uint16_t codes[N];
  static float x[N], y[N];
  bool byte = lw_dtype_size_bytes(narrow) == 1;
  for (int i = 0; i < N; i++) {
    if (byte)
      ((uint8_t *)codes)[i] = (uint8_t)i;
    else
      codes[i] = (uint16_t)i;
  }
  snprintf(name, sizeof name, "k_%s_f32", lw_dtype_name(narrow));
  void *widen[2] = {codes, x};
  find(name)(widen, NULL, 0, N / FN_BLOCK);
  for (int i = 0; i < N; i++) {
    double want = lw__elem_get_f64(narrow, codes, i);
    if (!(isnan(want) ? isnan(x[i])
                      : want == (double)x[i] && (signbit(want) != 0) == (signbit(x[i]) != 0)))
      fail_msg("%s: code %d is %a, not %a", name, i, (double)x[i], want);
  }
  snprintf(name, sizeof name, "k_f32_%s", lw_dtype_name(narrow));
  c_kernel to_narrow = find(name);
  snprintf(name, sizeof name, "k_round_%s", lw_dtype_name(narrow));
  c_kernel round_trip = find(name);
  uint32_t bits = 0;
  for (int pass = 0; pass < 65; pass++) {
    for (int i = 0; i < N; i++, bits += 1021) {
      memcpy(&x[i], &bits, 4);
      /* around ties: a code's value and its neighbours */
      if (pass == 64)
        x[i] = (float)lw__elem_get_f64(narrow, &(uint16_t){(uint16_t)(i / 2)}, 0) *
               (1 + (float)(i % 2) * 0x1p-4f);
    }
    void *store[2] = {x, codes}, *rounded[2] = {x, y};
    to_narrow(store, NULL, 0, N / FN_BLOCK);
    round_trip(rounded, NULL, 0, N / FN_BLOCK);
    for (int i = 0; i < N; i++) {
      double want = lw__round_to(narrow, (double)x[i]), got = lw__elem_get_f64(narrow, codes, i),
             back = (double)y[i];
      if (isnan(want) ? !isnan(got) || !isnan(back)
                      : got != want || back != want || (signbit(got) != 0) != (signbit(want) != 0))
        fail_msg("%s: %a becomes %a and %a, not %a", name, (double)x[i], got, back, want);
    }
  }
}

static void test_narrow_types(void **state) {
  (void)state;
  for (size_t n = 0; n < LW_ARRAY_COUNT(fn_narrow_types); n++) check_narrow(fn_narrow_types[n]);
}

/* ---- vectors ----------------------------------------------------------------------------------*/

/* Sums of 16 columns: the accumulators must stay in vector registers. */
static void add_sum16(fn_set *set) {
  fn_build c;
  fn_begin(&c, LW_KTARGET_CPU);
  lw_kbuilder *kb = &c.kb;
  uint32_t acc = lw__kb_local(kb, LW_DTYPE_F32, FN_BLOCK),
           in = lw__kb_buffer(kb, LW_DTYPE_F32, false);
  lw__kb_lset(kb, acc, c.index, lw__kb_const_f(kb, LW_DTYPE_F32, 0));
  lw__kb_end(kb);
  lw_kval row = lw__kb_for_n(kb, 100, LW_KLOOP_SERIAL);
  lw_kval at = lw__kb_fn(kb, LW_FN_MUL, row, lw__kb_const_i(kb, LW_DTYPE_I32, 16), LW_NONE);
  lw_kval lane = lw__kb_for_n(kb, 16, LW_KLOOP_VECTOR);
  lw_kval value = lw__kb_load(kb, in, c.base, lw__kb_fn(kb, LW_FN_ADD, at, lane, LW_NONE), LW_NONE);
  lw__kb_lset(kb, acc, lane, lw__kb_fn(kb, LW_FN_ADD, lw__kb_lget(kb, acc, lane), value, LW_NONE));
  lw__kb_end(kb);
  lw__kb_end(kb);
  c.index = lw__kb_for_n(kb, 16, LW_KLOOP_SERIAL);
  fn_end(&c, set, LW_DTYPE_F32, lw__kb_lget(kb, acc, c.index), "k_sum16_f32");
}

/* The name of the kernel that line |line| of |source| belongs to. */
static void kernel_at(const char *source, int line, char out[64]) {
  out[0] = 0;
  for (int n = 1; n <= line && source != NULL; n++) {
    sscanf(source, "void %63[a-z0-9_](", out);
    source = strchr(source, '\n');
    if (source != NULL) source++;
  }
}

static bool can_vectorise(void) {
#if defined(__x86_64__) && defined(__GNUC__)
  return __builtin_cpu_supports("avx2") && system("cc --version | grep -q 'Free Software'") == 0;
#else
  return false;
#endif
}

static void test_loops_vectorise(void **state) {
  (void)state;
  static const char *const names[] = {
      "k_add_f32",    "k_div_f32",     "k_min_f32",   "k_max_f32", "k_abs_f32",   "k_floor_f32",
      "k_round_f32",  "k_sqrt_f32",    "k_rsqrt_f32", "k_exp_f32", "k_expm1_f32", "k_log_f32",
      "k_log1p_f32",  "k_erf_f32",     "k_tanh_f32",  "k_sin_f32", "k_cos_f32",   "k_lt_f32",
      "k_select_f32", "k_sigmoid_f32", "k_f16_f32",   "k_f32_f16", "k_bf16_f32",  "k_f32_bf16",
      "k_f32_i32",    "k_i32_f32",     "k_add_i32",   "k_mul_i16", "k_bool_f32",  "k_sum16_f32"};
  if (!can_vectorise()) skip();
  fn_set set = {0};
  lw_text text = {0};
  fn_add_everything(&set, LW_KTARGET_CPU);
  add_sum16(&set);
  assert_int_equal(lw__emit_c((const lw_kernel *const *)set.kernels.data,
                              (const char *const *)set.names.data, set.kernels.count, &text),
                   LW_OK);
  char dir[] = "/tmp/lawson_test_c_XXXXXX", command[512], path[64], line[512];
  assert_non_null(mkdtemp(dir));
  snprintf(path, sizeof path, "%s/k.c", dir);
  assert_int_equal(lw__file_write(path, text.data, text.len, NULL), LW_OK);
  snprintf(command, sizeof command, "cc -std=gnu17 %s -fopt-info-vec -c -o %s/k.o %s/k.c 2>&1",
           FAST_FLAGS, dir, dir);
  FILE *log = popen(command, "r");
  bool vectorised[LW_ARRAY_COUNT(names)] = {false};
  while (fgets(line, sizeof line, log) != NULL) {
    const char *place = strstr(line, "k.c:");
    if (place == NULL || strstr(line, "loop vectorized") == NULL) continue;
    char kernel[64];
    kernel_at(text.data, atoi(place + 4), kernel);
    for (size_t i = 0; i < LW_ARRAY_COUNT(names); i++)
      vectorised[i] |= strcmp(kernel, names[i]) == 0;
  }
  assert_int_equal(pclose(log), 0);
  snprintf(command, sizeof command, "rm -r %s", dir);
  assert_int_equal(system(command), 0);
  for (size_t i = 0; i < LW_ARRAY_COUNT(names); i++)
    if (!vectorised[i]) fail_msg("%s is not vectorised", names[i]);
  lw__text_deinit(&text);
  fn_free(&set);
}

/* ---- the same without fused products and vectors ----------------------------------------------*/

static int open_fast(void **state) {
  (void)state;
  load_all(FAST_FLAGS);
  return 0;
}

static int open_plain(void **state) {
  (void)state;
  load_all("-O1 -ffp-contract=off");
  return 0;
}

static int close_library(void **state) {
  (void)state;
  dlclose(library);
  return 0;
}

int main(void) {
  const struct CMUnitTest tests[] = {
      cmocka_unit_test(test_unary_f32),     cmocka_unit_test(test_floats),
      cmocka_unit_test(test_signs_of_zero), cmocka_unit_test(test_power_of_half),
      cmocka_unit_test(test_integers),      cmocka_unit_test(test_casts),
      cmocka_unit_test(test_narrow_types),
  };
  const struct CMUnitTest vectors[] = {cmocka_unit_test(test_loops_vectorise)};
  int failed = cmocka_run_group_tests_name("emit_c vectors", vectors, NULL, NULL);
  failed += cmocka_run_group_tests_name("emit_c -O3", tests, open_fast, close_library);
  return failed + cmocka_run_group_tests_name("emit_c -O1", tests, open_plain, close_library);
}

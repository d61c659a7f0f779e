/* product_sm90.c: matrix products on Hopper's tensor cores: every configuration of the table is
 * built, checked element by element against sums in double (ragged sizes, results poisoned with
 * NaN, padding of operands NaN too), then timed beside cuBLASLt in the same run.
 * Usage: bench_product_sm90 [--nvrtc FILE] [--cublaslt FILE] [--build] [--check] [--time] [--forms
 * ,N,N,] */
#include <dlfcn.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "compiler/build/build_kernels.h"
#include "compiler/emit/product_sm90.h"
#include "runtime/cuda/driver.h"

enum { REPEATS = 25, SETS_MAX = 8, ALGOS = 8, GUARD_ROWS = 64, SKIPPED = 77 };

/* ---- what is built ----------------------------------------------------------------------------*/

typedef struct form {
  const char *name;
  lw_product_sched sched;
  lw_product_store store;
  uint32_t tile_m, tile_n, stages, group, cluster;
} form;
#define COOP LW_PRODUCT_COOPERATIVE
#define PING LW_PRODUCT_PINGPONG
#define DIRECT LW_PRODUCT_STORE_DIRECT
#define TMA LW_PRODUCT_STORE_TMA
static const form forms[] = {
    {"coop 128x256 s4 direct", COOP, DIRECT, 128, 256, 4, 16, 1},
    {"coop 128x256 s4 g8", COOP, TMA, 128, 256, 4, 8, 1},
    {"coop 128x256 s4 g8 c2", COOP, TMA, 128, 256, 4, 8, 2},
    {"coop 128x256 s3 g8", COOP, TMA, 128, 256, 3, 8, 1},
    {"coop 128x256 s3 g8 c2", COOP, TMA, 128, 256, 3, 8, 2},
    {"coop 128x256 s4 g4 c2", COOP, TMA, 128, 256, 4, 4, 2},
    {"coop 128x192 s5 g16", COOP, TMA, 128, 192, 5, 16, 1},
    {"coop 128x192 s5 g8 c2", COOP, TMA, 128, 192, 5, 8, 2},
    {"coop 256x128 s4 g8", COOP, TMA, 256, 128, 4, 8, 1},
    {"coop 256x128 s4 g4 c2", COOP, TMA, 256, 128, 4, 4, 2},
    {"coop 256x192 s3 g8", COOP, TMA, 256, 192, 3, 8, 1},
    {"coop 256x192 s3 g4 c2", COOP, TMA, 256, 192, 3, 4, 2},
    {"coop 64x256 s4 g16", COOP, TMA, 64, 256, 4, 16, 1},
    {"ping 64x256 s4 g16", PING, TMA, 64, 256, 4, 16, 1},
    {"ping 64x256 s4 g16 c2", PING, TMA, 64, 256, 4, 16, 2},
    {"ping 128x128 s6 direct", PING, DIRECT, 128, 128, 6, 16, 1},
    {"ping 128x128 s5 g16", PING, TMA, 128, 128, 5, 16, 1},
    {"ping 128x128 s5 g8 c2", PING, TMA, 128, 128, 5, 8, 2},
    {"ping 128x192 s4 g16", PING, TMA, 128, 192, 4, 16, 1},
    {"ping 128x192 s4 g8 c2", PING, TMA, 128, 192, 4, 8, 2},
    {"ping 128x64 s6 g16", PING, TMA, 128, 64, 6, 16, 1},
};
#define FORMS LW_ARRAY_COUNT(forms)

static const char *const bias_parameters = "const unsigned short *__restrict__ bias, ";

static void bias_column(lw_text *out, const void *user) {
  lw__text_add(out, "const float bias_here = lw_%s_to_f32(bias[column]);\n", (const char *)user);
}

static void bias_element(lw_text *out, const void *user) {
  (void)user;
  lw__text_add(out, "value = fmaxf(sum + bias_here, 0.0f);\n");
}

static const char bf16_reader[] =
    "static __device__ __forceinline__ float lw_bf16_to_f32(unsigned short x) {\n"
    "  return __uint_as_float((unsigned)x << 16);\n"
    "}\n";

/* One compiled kernel. */
typedef struct variant {
  const form *form;
  lw_product_sm90 params;
  bool bias;
  char entry[16];
  lw_text source;
  lw_product_sm90_shape shape;
  lw_cu_function function;
} variant;

static lw_status variant_init(variant *v, uint32_t number) {
  const form *f = v->form;
  v->params.sched = f->sched, v->params.store = f->store;
  v->params.tile_m = f->tile_m, v->params.tile_n = f->tile_n, v->params.tile_k = 64;
  v->params.stages = f->stages, v->params.group = f->group, v->params.cluster = f->cluster;
  v->params.split = 1;
  v->params.out_dtype = v->params.dtype;
  lw_product_hook hook = {.packs = true};
  if (v->bias) {
    bool half = v->params.dtype == LW_DTYPE_F16;
    hook = (lw_product_hook){.parameters = bias_parameters,
                             .helpers = half ? NULL : bf16_reader,
                             .uses_column = true,
                             .packs = true,
                             .column = bias_column,
                             .element = bias_element,
                             .user = half ? "f16" : "bf16"};
  }
  snprintf(v->entry, sizeof v->entry, "product%u", number);
  LW_TRY(lw__product_sm90_shape(&v->params, &v->shape));
  return lw__emit_product_sm90(&v->params, &hook, v->entry, &v->source);
}

/* Numbers from N(0,1) by a hash of their place; and the judge: each element against its sum in
 * double, what lies around the result against the poison. worst = error / allowed. */
static const char judge_source[] =
    "__device__ float widen(unsigned short x, int half) {\n"
    "  if (!half) return __uint_as_float((unsigned)x << 16);\n"
    "  float r;\n"
    "  asm(\"cvt.f32.f16 %0, %1;\" : \"=f\"(r) : \"h\"(x));\n"
    "  return r;\n"
    "}\n"
    "__device__ unsigned mix(unsigned x) {\n"
    "  x ^= x >> 16; x *= 0x7feb352du; x ^= x >> 15; x *= 0x846ca68bu; return x ^ x >> 16;\n"
    "}\n"
    "extern \"C\" __global__ void make(unsigned short *to, int rows, int columns, long long "
    "pitch,\n"
    "                                unsigned seed, int half) {\n"
    "  for (long long i = blockIdx.x * 256ll + threadIdx.x; i < (long long)rows * columns;\n"
    "       i += gridDim.x * 256ll) {\n"
    "    unsigned h = mix((unsigned)i * 2 + seed), g = mix(h + 0x9e3779b9u + (unsigned)i);\n"
    "    float u = (h + 0.5f) * 0x1p-32f, x = sqrtf(-2 * logf(fminf(u, 0.9999999f))) *\n"
    "                                         cospif(g * 0x1p-31f);\n"
    "    unsigned short r;\n"
    "    if (half) asm(\"cvt.rn.f16.f32 %0, %1;\" : \"=h\"(r) : \"f\"(x));\n"
    "    else asm(\"cvt.rn.bf16.f32 %0, %1;\" : \"=h\"(r) : \"f\"(x));\n"
    "    to[i / columns * pitch + i % columns] = r;\n"
    "  }\n"
    "}\n"
    "extern \"C\" __global__ void judge(const unsigned short *a, const unsigned short *b,\n"
    "    const unsigned short *bias, const unsigned short *out, int rows, int columns, int depth,\n"
    "    long long a_pitch, long long b_row, long long b_column, long long pitch, int row_step,\n"
    "    int half, int loose, unsigned *worst) {\n"
    "  int column = blockIdx.x * 128 + threadIdx.x, row = blockIdx.y * row_step;\n"
    "  if (column >= pitch) return;\n"
    "  unsigned short got = out[row * pitch + column];\n"
    "  float bad = 0;\n"
    "  if (row >= rows || column >= columns) {\n"
    "    bad = got == 0xffff ? 0.0f : row >= rows ? 3e30f : 2e30f;\n"
    "    if (bad > 0 && loose && row < rows && column < (columns + 7) / 8 * 8) {\n"
    "      atomicMax(worst + 1, 1u);\n"
    "      bad = 0;\n"
    "    }\n"
    "  } else {\n"
    "    double sum = 0, size = 0;\n"
    "    for (int k = 0; k < depth; k++) {\n"
    "      double x = (double)widen(a[row * a_pitch + k], half) *\n"
    "                 widen(b[k * b_row + column * b_column], half);\n"
    "      sum += x; size += fabs(x);\n"
    "    }\n"
    "    if (bias) sum = fmax(sum + widen(bias[column], half), 0.0);\n"
    "    double allowed = fabs(sum) * (half ? 0x1.01p-11 : 0x1.01p-8) + size * 0x1p-20 + 1e-7;\n"
    "    bad = (float)(fabs(widen(got, half) - sum) / allowed);\n"
    "    if (!(bad < 1e30f)) bad = 1e30f;\n"
    "  }\n"
    "  if (bad > 0) atomicMax(worst, __float_as_uint(bad));\n"
    "}\n";

/* ---- the machine ------------------------------------------------------------------------------*/

typedef int encode_tiled(void *map, int type, uint32_t rank, lw_cu_address address,
                         const uint64_t *dims, const uint64_t *strides, const uint32_t *box,
                         const uint32_t *elem_strides, int interleave, int swizzle, int promotion,
                         int fill);

typedef struct bench {
  lw_cu_driver cu;
  lw_cu_context context;
  encode_tiled *encode;
  int sm_count;
  lw_cu_function make, judge;
  lw_cu_address worst;
  bool padding_written;  /* beyond the last column, up to a multiple of 16 bytes */
  const char *form_list; /* numbers of forms with commas around each, or NULL: all */
  variant *variants;
  uint32_t variant_count;
  lw_build_options build;
  lw_arena arena;
  lw_diag diag;
} bench;

static int stop(bench *b, const char *what, int code) {
  const char *why = lw__diag_first_error(&b->diag);
  fprintf(stderr, "%s: error %d %s\n", what, code, why);
  exit(1);
}
#define CU(b, call)                                \
  do {                                             \
    int cu_code_ = (int)(b)->cu.call;              \
    if (cu_code_ != 0) stop((b), #call, cu_code_); \
  } while (0)

typedef struct tensor_map {
  _Alignas(64) uint64_t words[16];
} tensor_map;

/* Rows of |inner| 16-bit elements, |pitch| elements apart. */
static tensor_map map_of(bench *b, lw_dtype dtype, lw_cu_address address, int64_t inner,
                         int64_t outer, int64_t pitch, const uint32_t box[2]) {
  enum { F16 = 6, BF16 = 9, SWIZZLE_128B = 3, L2_256B = 3 };
  tensor_map map;
  const uint64_t dims[2] = {(uint64_t)inner, (uint64_t)outer};
  const uint64_t strides[1] = {(uint64_t)pitch * 2};
  const uint32_t ones[2] = {1, 1};
  int code = b->encode(&map, dtype == LW_DTYPE_F16 ? F16 : BF16, 2, address, dims, strides, box,
                       ones, 0, SWIZZLE_128B, L2_256B, 0);
  if (code != 0) stop(b, "cuTensorMapEncodeTiled", code);
  return map;
}

static lw_cu_address allocate(bench *b, int64_t bytes) {
  lw_cu_address at;
  CU(b, memory_alloc(&at, (size_t)bytes));
  CU(b, fill(at, 0xff, (size_t)bytes, NULL));
  return at;
}

/* Operands and result of one product. */
typedef struct operands {
  lw_dtype dtype;
  lw_product_b layout;
  int rows, columns, depth;
  int64_t a_pitch, b_pitch, pitch;
  lw_cu_address a, b, bias, out;
} operands;

static int64_t out_bytes(const operands *o) { return (o->rows + GUARD_ROWS) * o->pitch * 2; }

static void fill_random(bench *b, lw_cu_address to, int rows, int columns, int64_t pitch,
                        unsigned seed, lw_dtype dtype) {
  int half = dtype == LW_DTYPE_F16;
  long long wide_pitch = pitch;
  void *args[] = {&to, &rows, &columns, &wide_pitch, &seed, &half};
  CU(b, launch(b->make, 1024, 1, 1, 256, 1, 1, 0, NULL, args, NULL));
}

static void operands_make(bench *b, operands *o, int64_t pitch) {
  bool kn = o->layout == LW_PRODUCT_B_KN;
  int b_rows = kn ? o->depth : o->columns, b_columns = kn ? o->columns : o->depth;
  o->a_pitch = lw__round_up(o->depth, 8);
  o->b_pitch = lw__round_up(b_columns, 8);
  o->pitch = pitch;
  o->a = allocate(b, o->rows * o->a_pitch * 2);
  o->b = allocate(b, b_rows * o->b_pitch * 2);
  o->bias = allocate(b, o->columns * 2);
  o->out = allocate(b, out_bytes(o));
  fill_random(b, o->a, o->rows, o->depth, o->a_pitch, 1, o->dtype);
  fill_random(b, o->b, b_rows, b_columns, o->b_pitch, 77777, o->dtype);
  fill_random(b, o->bias, 1, o->columns, o->columns, 99, o->dtype);
}

static void operands_free(bench *b, operands *o) {
  CU(b, memory_free(o->a));
  CU(b, memory_free(o->b));
  CU(b, memory_free(o->bias));
  CU(b, memory_free(o->out));
}

static void run_product(bench *b, const variant *v, operands *o) {
  bool kn = o->layout == LW_PRODUCT_B_KN;
  tensor_map maps[3];
  maps[0] = map_of(b, o->dtype, o->a, o->depth, o->rows, o->a_pitch, v->shape.a_box);
  maps[1] = map_of(b, o->dtype, o->b, kn ? o->columns : o->depth, kn ? o->depth : o->columns,
                   o->b_pitch, v->shape.b_box);
  void *args[9];
  int count = 0;
  if (v->params.store == DIRECT) args[count++] = &o->out, args[count++] = &o->pitch;
  args[count++] = &o->rows, args[count++] = &o->columns, args[count++] = &o->depth;
  if (v->bias) args[count++] = &o->bias;
  args[count++] = &maps[0], args[count++] = &maps[1];
  if (v->params.store == TMA) {
    maps[2] = map_of(b, o->dtype, o->out, o->columns, o->rows, o->pitch, v->shape.out_box);
    args[count++] = &maps[2];
  }
  uint32_t grid = lw__product_sm90_grid(&v->params, o->rows, o->columns, (uint32_t)b->sm_count);
  CU(b, launch(v->function, grid, 1, 1, v->shape.threads, 1, 1, v->shape.shared_bytes, NULL, args,
               NULL));
}

/* ---- checking ---------------------------------------------------------------------------------*/

/* Error over what is allowed, the worst of all elements of every |row_step|-th row. */
static double judge(bench *b, const operands *o, const variant *v, int row_step) {
  bool kn = o->layout == LW_PRODUCT_B_KN;
  long long b_row = kn ? o->b_pitch : 1, b_column = kn ? 1 : o->b_pitch;
  int half = o->dtype == LW_DTYPE_F16;
  operands p = *o;
  if (!v->bias) p.bias = 0;
  int loose = v->params.store == TMA;
  void *args[] = {&p.a,   &p.b,      &p.bias,  &p.out,    &p.rows, &p.columns, &p.depth, &p.a_pitch,
                  &b_row, &b_column, &p.pitch, &row_step, &half,   &loose,     &b->worst};
  CU(b, fill(b->worst, 0, 8, NULL));
  unsigned high = (unsigned)((o->rows + GUARD_ROWS - 1) / row_step + 1);
  if ((int64_t)(high - 1) * row_step >= o->rows + GUARD_ROWS) high--;
  CU(b, launch(b->judge, (unsigned)lw__ceil_div(o->pitch, 128), high, 1, 128, 1, 1, 0, NULL, args,
               NULL));
  struct {
    float worst;
    unsigned padding;
  } got;
  CU(b, copy_out(&got, b->worst, sizeof got, NULL));
  CU(b, stream_wait(NULL));
  if (got.padding != 0) b->padding_written = true;
  return (double)got.worst;
}

static double check_variant(bench *b, const variant *v) {
  static const int sizes[][3] = {{1000, 777, 520},  {5000, 3001, 200}, {1, 8, 8},
                                 {130, 520, 4104},  {2304, 2560, 72},  {300, 264, 203},
                                 {1024, 1536, 1024}};
  double worst = 0;
  for (size_t i = 0; i < LW_ARRAY_COUNT(sizes); i++) {
    operands o = {.dtype = v->params.dtype,
                  .layout = v->params.b_layout,
                  .rows = sizes[i][0],
                  .columns = sizes[i][1],
                  .depth = sizes[i][2]};
    operands_make(b, &o, v->params.store == TMA ? lw__round_up(o.columns, 8) : o.columns);
    run_product(b, v, &o);
    int code = (int)b->cu.stream_wait(NULL);
    if (code != 0) {
      printf("%s %s: %dx%dx%d fails\n", v->form->name, lw_dtype_name(v->params.dtype), o.rows,
             o.columns, o.depth);
      fflush(stdout);
      stop(b, v->form->name, code);
    }
    double bad = judge(b, &o, v, 1);
    if (bad > 1)
      printf("  WRONG %s %s %s%s %dx%dx%d: %.3g\n", v->form->name, lw_dtype_name(v->params.dtype),
             v->params.b_layout == LW_PRODUCT_B_KN ? "kn" : "nk", v->bias ? " bias" : "", o.rows,
             o.columns, o.depth, bad);
    worst = bad > worst ? bad : worst;
    operands_free(b, &o);
  }
  return worst;
}

/* ---- cuBLASLt ---------------------------------------------------------------------------------*/

typedef struct lt_choice {
  uint64_t algo[8];
  size_t workspace_bytes;
  int state;
  float waves;
  int reserved[4];
} lt_choice;

static struct lt {
  void *library, *handle, *desc, *a, *b, *out, *preference;
  int (*create)(void **);
  int (*desc_create)(void **, int compute, int scale);
  int (*desc_set)(void *, int, const void *, size_t);
  int (*layout_create)(void **, int type, uint64_t rows, uint64_t columns, int64_t ld);
  int (*preference_create)(void **);
  int (*preference_set)(void *, int, const void *, size_t);
  int (*choose)(void *, void *, void *, void *, void *, void *, void *, int, lt_choice *, int *);
  int (*run)(void *, void *, const void *, const void *, void *, const void *, void *, const void *,
             const void *, void *, void *, void *, const void *, void *, size_t, void *);
  lt_choice choices[ALGOS];
  int count, best;
  lw_cu_address workspace;
} lt;
enum { LT_WORKSPACE_BYTES = 64 << 20 };

static bool lt_open(bench *b, const char *path) {
  static const struct {
    const char *name;
    void *to;
  } symbols[] = {{"cublasLtCreate", &lt.create},
                 {"cublasLtMatmulDescCreate", &lt.desc_create},
                 {"cublasLtMatmulDescSetAttribute", &lt.desc_set},
                 {"cublasLtMatrixLayoutCreate", &lt.layout_create},
                 {"cublasLtMatmulPreferenceCreate", &lt.preference_create},
                 {"cublasLtMatmulPreferenceSetAttribute", &lt.preference_set},
                 {"cublasLtMatmulAlgoGetHeuristic", &lt.choose},
                 {"cublasLtMatmul", &lt.run}};
  lt.library = dlopen(path != NULL ? path : "libcublasLt.so.13", RTLD_NOW);
  if (lt.library == NULL) lt.library = dlopen("libcublasLt.so", RTLD_NOW);
  if (lt.library == NULL) return false;
  for (size_t i = 0; i < LW_ARRAY_COUNT(symbols); i++) {
    void *at = dlsym(lt.library, symbols[i].name);
    if (at == NULL) return false;
    memcpy(symbols[i].to, &at, sizeof at);
  }
  lt.workspace = allocate(b, LT_WORKSPACE_BYTES);
  return lt.create(&lt.handle) == 0;
}

/* Its view is column-major: out^T [columns, rows] = B^T A^T. */
static void lt_plan(bench *b, const operands *o) {
  enum { TRANS_A = 3, COMPUTE_32F = 68, R_32F = 0, R_16F = 2, R_16BF = 14, MAX_WORKSPACE = 1 };
  bool kn = o->layout == LW_PRODUCT_B_KN;
  int type = o->dtype == LW_DTYPE_F16 ? R_16F : R_16BF;
  int transposed = 1;
  size_t room = LT_WORKSPACE_BYTES;
  uint64_t m = (uint64_t)o->columns, n = (uint64_t)o->rows, k = (uint64_t)o->depth;
  int code = lt.desc_create(&lt.desc, COMPUTE_32F, R_32F);
  if (!kn) code |= lt.desc_set(lt.desc, TRANS_A, &transposed, sizeof transposed);
  code |= lt.layout_create(&lt.a, type, kn ? m : k, kn ? k : m, o->b_pitch);
  code |= lt.layout_create(&lt.b, type, k, n, o->a_pitch);
  code |= lt.layout_create(&lt.out, type, m, n, o->pitch);
  code |= lt.preference_create(&lt.preference);
  code |= lt.preference_set(lt.preference, MAX_WORKSPACE, &room, sizeof room);
  code |= lt.choose(lt.handle, lt.desc, lt.a, lt.b, lt.out, lt.out, lt.preference, ALGOS,
                    lt.choices, &lt.count);
  if (code != 0 || lt.count == 0) stop(b, "cuBLASLt", code);
}

static void lt_run(bench *b, const operands *o, int choice) {
  const float one = 1, zero = 0;
  int code =
      lt.run(lt.handle, lt.desc, &one, (void *)(uintptr_t)o->b, lt.a, (void *)(uintptr_t)o->a, lt.b,
             &zero, (void *)(uintptr_t)o->out, lt.out, (void *)(uintptr_t)o->out, lt.out,
             lt.choices[choice].algo, (void *)(uintptr_t)lt.workspace, LT_WORKSPACE_BYTES, NULL);
  if (code != 0) stop(b, "cublasLtMatmul", code);
}

/* ---- timing -----------------------------------------------------------------------------------*/

static int compare_floats(const void *x, const void *y) {
  float a = *(const float *)x, b = *(const float *)y;
  return a < b ? -1 : a > b;
}

typedef struct timing {
  operands sets[SETS_MAX];
  int set_count;
  lw_cu_event start[REPEATS][FORMS + ALGOS], end[REPEATS][FORMS + ALGOS];
} timing;

/* Contestants are the variants, then cuBLASLt's choices; they take turns, each time on operands
 * that have left the cache. Milliseconds, medians. */
static void time_all(bench *b, timing *t, const variant **variants, int count, float *out_ms) {
  int all = count + lt.count;
  for (int r = -2; r < REPEATS; r++)
    for (int i = 0; i < all; i++) {
      operands *o = &t->sets[(r + 2 + i) % t->set_count];
      if (r >= 0) CU(b, event_record(t->start[r][i], NULL));
      if (i < count)
        run_product(b, variants[i], o);
      else
        lt_run(b, o, i - count);
      if (r >= 0) CU(b, event_record(t->end[r][i], NULL));
    }
  CU(b, stream_wait(NULL));
  for (int i = 0; i < all; i++) {
    float ms[REPEATS];
    for (int r = 0; r < REPEATS; r++) CU(b, event_elapsed(&ms[r], t->start[r][i], t->end[r][i]));
    qsort(ms, REPEATS, sizeof ms[0], compare_floats);
    out_ms[i] = ms[REPEATS / 2];
  }
}

static void time_size(bench *b, timing *t, lw_product_b layout, const int size[3]) {
  operands like = {.dtype = LW_DTYPE_F16,
                   .layout = layout,
                   .rows = size[0],
                   .columns = size[1],
                   .depth = size[2]};
  double bytes =
      2.0 * (1.0 * size[0] * size[2] + 1.0 * size[1] * size[2] + 1.0 * size[0] * size[1]);
  t->set_count = (int)lw__min_i64(SETS_MAX, lw__max_i64(2, (int64_t)(2.5e8 / bytes) + 1));
  for (int s = 0; s < t->set_count; s++) {
    t->sets[s] = like;
    operands_make(b, &t->sets[s], size[1]);
  }
  const variant *chosen[FORMS];
  int count = 0;
  for (uint32_t i = 0; i < b->variant_count; i++) {
    const variant *v = &b->variants[i];
    if (!v->params.watchdog && v->params.b_layout == layout) chosen[count++] = v;
  }
  lt_plan(b, &t->sets[0]);
  float ms[FORMS + ALGOS];
  time_all(b, t, chosen, count, ms);
  double best = 1e30;
  for (int i = count; i < count + lt.count; i++)
    if ((double)ms[i] < best) best = (double)ms[i];
  double flop = 2.0 * size[0] * size[1] * size[2];
  printf("%dx%dx%d %s: cuBLASLt %.1f us %.0f TFLOP/s (its first choice %.0f)\n", size[0], size[1],
         size[2], layout == LW_PRODUCT_B_KN ? "kn" : "nk", best * 1e3, flop / best * 1e-9,
         flop / (double)ms[count] * 1e-9);
  lw_product_sm90 first[LW_PRODUCT_SM90_CANDIDATES];
  const lw_product_sm90 similar = {.dtype = LW_DTYPE_F16, .b_layout = layout, .store = TMA};
  if (lw__product_sm90_candidates(&similar, size[0], size[1], size[2], (uint32_t)b->sm_count,
                                  first) > 0)
    printf("  the model says %s %ux%u\n", first[0].sched == COOP ? "coop" : "ping", first[0].tile_m,
           first[0].tile_n);
  for (int i = 0; i < count; i++) {
    run_product(b, chosen[i], &t->sets[0]);
    double bad = judge(b, &t->sets[0], chosen[i], 251);
    printf("  %-24s %9.1f us %6.0f TFLOP/s %6.3f%s\n", chosen[i]->form->name, (double)ms[i] * 1e3,
           flop / (double)ms[i] * 1e-9, best / (double)ms[i], bad > 1 ? " WRONG" : "");
  }
  fflush(stdout);
  for (int s = 0; s < t->set_count; s++) operands_free(b, &t->sets[s]);
}

static void time_sizes(bench *b) {
  static const int sizes[][3] = {
      {2048, 2048, 2048}, {4096, 4096, 4096}, {8192, 8192, 8192}, {16384, 4096, 1024}};
  static timing t;
  for (int r = 0; r < REPEATS; r++)
    for (size_t i = 0; i < FORMS + ALGOS; i++) {
      CU(b, event_create(&t.start[r][i], 0));
      CU(b, event_create(&t.end[r][i], 0));
    }
  for (size_t i = 0; i < LW_ARRAY_COUNT(sizes); i++) {
    time_size(b, &t, LW_PRODUCT_B_KN, sizes[i]);
    time_size(b, &t, LW_PRODUCT_B_NK, sizes[i]);
  }
}

/* ---- the whole --------------------------------------------------------------------------------*/

/* Per form: with a watchdog, to be checked, both layouts and types, the bias where it is f16 and kn
 * or bf16 and nk; without one, to be timed, both layouts in f16. */
static bool form_wanted(const bench *b, size_t number) {
  char text[24];
  snprintf(text, sizeof text, ",%zu,", number);
  return b->form_list == NULL || strstr(b->form_list, text) != NULL;
}

static void list_variants(bench *b, bool check, bool timed_too) {
  b->variants = calloc(FORMS * 8, sizeof *b->variants);
  if (b->variants == NULL) exit(1);
  for (size_t f = 0; f < FORMS; f++)
    for (int i = 0; i < 8 && form_wanted(b, f); i++) {
      bool nk = i & 1, bf = (i & 2) != 0, timed = (i & 4) != 0;
      if (timed ? bf || !timed_too : !check) continue;
      variant *v = &b->variants[b->variant_count++];
      v->form = &forms[f];
      v->params.b_layout = nk ? LW_PRODUCT_B_NK : LW_PRODUCT_B_KN;
      v->params.dtype = bf ? LW_DTYPE_BF16 : LW_DTYPE_F16;
      v->params.watchdog = !timed;
      v->bias = !timed && nk == bf;
      lw_status status = variant_init(v, b->variant_count);
      if (status != LW_OK) stop(b, v->form->name, (int)status);
    }
}

static lw_build_job *build_all(bench *b) {
  uint32_t count = b->variant_count + 1;
  lw_build_job *jobs = calloc(count, sizeof *jobs);
  const char **entries = calloc(count, sizeof *entries);
  static const char *const judge_entries[] = {"make", "judge"};
  if (jobs == NULL || entries == NULL) exit(1);
  for (uint32_t i = 0; i + 1 < count; i++) {
    entries[i] = b->variants[i].entry;
    jobs[i] = (lw_build_job){
        .source = lw__text_str(&b->variants[i].source), .entries = &entries[i], .entry_count = 1};
  }
  jobs[count - 1] =
      (lw_build_job){.source = judge_source, .entries = judge_entries, .entry_count = 2};
  int64_t start = lw__now_ns();
  if (lw__build_cuda(jobs, count, &b->build, NULL, &b->arena, &b->diag) != LW_OK)
    stop(b, "NVRTC", 0);
  for (uint32_t i = 0; i < count; i++)
    for (uint32_t e = 0; e < jobs[i].entry_count; e++)
      if (jobs[i].report[e].spill_bytes != 0)
        printf("%s: spills %u bytes\n", jobs[i].entries[e], jobs[i].report[e].spill_bytes);
  printf("%u kernels built in %.1f s\n", count, (double)(lw__now_ns() - start) * 1e-9);
  return jobs;
}

static lw_cu_function load(bench *b, const lw_build_job *job, const char *entry) {
  lw_cu_module module;
  lw_cu_function function;
  CU(b, module_load(&module, job->image));
  CU(b, module_function(&function, module, entry));
  return function;
}

static bool open_gpu(bench *b) {
  int major = 0;
  lw_cu_device device;
  if (lw__cu_open(NULL, &b->diag, &b->cu) != LW_OK) return false;
  if (b->cu.device_get(&device, 0) != 0) return false;
  if (b->cu.device_attribute(&major, LW_CU_DEVICE_MAJOR, device) != 0 || major != 9) return false;
  CU(b, device_attribute(&b->sm_count, LW_CU_DEVICE_SM_COUNT, device));
  CU(b, primary_retain(&b->context, device));
  CU(b, context_push(b->context));
  void *at = dlsym(b->cu.handle, "cuTensorMapEncodeTiled");
  memcpy(&b->encode, &at, sizeof at);
  char name[100] = "";
  CU(b, device_name(name, sizeof name, device));
  printf("%s, %d multiprocessors\n", name, b->sm_count);
  return at != NULL;
}

static void load_all(bench *b, const lw_build_job *jobs) {
  b->make = load(b, &jobs[b->variant_count], "make");
  b->judge = load(b, &jobs[b->variant_count], "judge");
  for (uint32_t i = 0; i < b->variant_count; i++) {
    variant *v = &b->variants[i];
    v->function = load(b, &jobs[i], v->entry);
    CU(b, function_set(v->function, LW_CU_FUNCTION_MAX_DYNAMIC_SHARED, (int)v->shape.shared_bytes));
  }
}

/* How many variants are wrong. */
static int check_all(bench *b) {
  int wrong = 0;
  double worst_of_all = 0;
  for (uint32_t i = 0; i < b->variant_count; i++) {
    if (!b->variants[i].params.watchdog) continue;
    double worst = check_variant(b, &b->variants[i]);
    wrong += worst > 1;
    worst_of_all = worst > worst_of_all ? worst : worst_of_all;
  }
  printf("checked: %d wrong, worst error %.3f of what is allowed; padding %s\n", wrong,
         worst_of_all, b->padding_written ? "written" : "untouched");
  fflush(stdout);
  return wrong;
}

int main(int argc, char **argv) {
  static bench b;
  const char *lt_path = NULL;
  bool build_only = false, check = true, measure = true;
  b.build = (lw_build_options){.sm_arch = 90, .arch_specific = true};
  for (int i = 1; i < argc; i++) {
    if (strcmp(argv[i], "--nvrtc") == 0 && i + 1 < argc)
      b.build.nvrtc_path = argv[++i];
    else if (strcmp(argv[i], "--cublaslt") == 0 && i + 1 < argc)
      lt_path = argv[++i];
    else if (strcmp(argv[i], "--build") == 0)
      build_only = true;
    else if (strcmp(argv[i], "--check") == 0)
      measure = false;
    else if (strcmp(argv[i], "--time") == 0)
      check = false;
    else if (strcmp(argv[i], "--forms") == 0 && i + 1 < argc)
      b.form_list = argv[++i];
    else
      return fprintf(stderr, "see the head of bench/product_sm90.c\n"), 2;
  }
  if (!build_only && !open_gpu(&b)) return printf("no GPU of the sm_90 family\n"), SKIPPED;
  list_variants(&b, check, measure);
  lw_build_job *jobs = build_all(&b);
  if (build_only) return 0;
  b.worst = allocate(&b, 256);
  load_all(&b, jobs);
  int wrong = check ? check_all(&b) : 0;
  if (!measure) return wrong != 0;
  if (!lt_open(&b, lt_path)) return printf("no cuBLASLt\n"), 1;
  time_sizes(&b);
  return wrong != 0;
}

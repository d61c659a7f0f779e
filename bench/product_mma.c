/* product_mma.c: which tile is the fastest for a product on tensor cores by mma.sync, or (--f32) of
 * f32 on FMA units: the tiles that the model ranks first, and some of the others, all measured on
 * operands out of the cache. One line of JSON a tile; the model in src/compiler/lower/mma_tile.c is
 * fitted to them. Usage: bench_product_mma [--nvrtc FILE] [--build] [--tiles N] [--f32] */
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "compiler/build/build_kernels.h"
#include "compiler/emit/emit.h"
#include "compiler/lower/lower.h"
#include "compiler/lower/mma_tile.h"
#include "runtime/cuda/driver.h"

enum { REPEATS = 15, TILES_MAX = 256, SETS_MAX = 8, SKIPPED = 77 };

typedef struct shape {
  int64_t b, m, k, n;
  bool turned; /* w lies [n, k] */
} shape;
static const shape shapes[] = {
    {1, 8192, 8192, 8192, true},  {1, 4096, 4096, 4096, false}, {1, 2048, 2048, 2048, true},
    {1, 2048, 2048, 2048, false}, {1, 1024, 768, 50257, true},  {1, 128, 768, 768, true},
    {1, 128, 768, 768, false},    {1, 128, 768, 3072, true},    {1, 128, 3072, 768, true},
    {1, 3072, 768, 3072, true},   {1, 3072, 3072, 768, true},   {1, 1, 4096, 14336, true},
    {1, 1, 14336, 4096, true},    {1, 16, 4096, 14336, true},   {1, 16, 14336, 4096, true},
    {96, 384, 64, 384, true},     {96, 384, 384, 64, false},    {1, 3136, 576, 64, true},
    {1, 196, 2304, 256, true},    {1, 49, 4608, 512, true},     {1, 12544, 147, 64, true},
};

typedef struct contestant {
  lw_mma_tile tile;
  double cycles;
  char name[48];
  lw_lowered lowered;
  lw_text source;
  const char *entry;
  lw_cu_function function;
  uint32_t shared;
} contestant;

typedef struct bench {
  lw_cu_driver cu;
  lw_cu_context context;
  lw_build_options build;
  lw_arena arena;
  lw_diag diag;
  uint32_t tiles;
  lw_dtype dtype;
} bench;

static void stop(bench *b, const char *what, int code) {
  fprintf(stderr, "%s: error %d %s\n", what, code, lw__diag_first_error(&b->diag));
  exit(1);
}
#define CU(b, call)                                \
  do {                                             \
    int cu_code_ = (int)(b)->cu.call;              \
    if (cu_code_ != 0) stop((b), #call, cu_code_); \
  } while (0)
#define OK(b, call)                             \
  do {                                          \
    lw_status s_ = (call);                      \
    if (s_ != LW_OK) stop((b), #call, (int)s_); \
  } while (0)

static void make_graph(bench *b, const shape *s, lw_graph *g, lw_node_id *out_dot) {
  static const uint8_t swap[3] = {0, 2, 1};
  lw_value_id x, w, y;
  OK(b, lw__graph_init(g, &b->diag));
  lw_shape left = lw__shape_of(3, (const int64_t[]){s->b, s->m, s->k});
  lw_shape right =
      lw__shape_of(3, (const int64_t[]){s->b, s->turned ? s->n : s->k, s->turned ? s->k : s->n});
  OK(b, lw__graph_input(g, b->dtype, &left, "x", &x));
  OK(b, lw__graph_input(g, b->dtype, &right, "w", &w));
  if (s->turned) OK(b, lw__graph_permute(g, w, swap, &w));
  OK(b, lw__graph_dot(g, x, w, &y));
  OK(b, lw__graph_output(g, y, "y"));
  *out_dot = lw__value(g, y)->producer;
}

/* The first half by the model, the others spread over all that the model knows. */
static uint32_t choose_tiles(const bench *b, const shape *s, contestant *c) {
  static lw_mma_tile all[4096];
  lw_mma_problem p = {.batches = s->b,
                      .rows = s->m,
                      .cols = s->n,
                      .depth = s->k,
                      .a_along_k = true,
                      .b_along_k = s->turned,
                      .fma = b->dtype == LW_DTYPE_F32,
                      .copied = s->k % 8 == 0 && (s->turned || s->n % 8 == 0),
                      .profile = lw__device_profile_find("sm_90a")};
  uint32_t known = lw__mma_tile_rank(&p, all, (uint32_t)LW_ARRAY_COUNT(all)), count = 0;
  uint32_t first = b->tiles / 2, others = b->tiles - first;
  for (uint32_t i = 0; i < known && count < b->tiles; i++) {
    uint32_t step = (known - first) / others + 1;
    if (i >= first && (i - first) % step != 0) continue;
    c[count].tile = all[i];
    c[count++].cycles = lw__mma_tile_cycles(&all[i], &p);
  }
  return count;
}

static void lower_all(bench *b, const shape *s, contestant *c, uint32_t count) {
  lw_graph g;
  lw_node_id dot;
  make_graph(b, s, &g, &dot);
  lw_region_context ctx;
  OK(b, lw__region_context_init(&ctx, &g));
  for (uint32_t i = 0; i < count; i++) {
    lw_lower_options options = {.target = LW_KTARGET_GPU,
                                .profile = lw__device_profile_find("sm_90a"),
                                .mma_tile = &c[i].tile};
    lw_hash hash;
    OK(b, lw__lower_group(&ctx, &dot, 1, &options, &b->diag, &c[i].lowered));
    const lw_kernel *kernel = &c[i].lowered.launches.data[0].kernel;
    OK(b, lw__kernel_hash(kernel, &hash));
    lw__kernel_name(kernel, hash, c[i].name);
    c[i].entry = c[i].name;
    OK(b, lw__emit_cuda(&kernel, &c[i].entry, 1, &c[i].source));
    size_t shared = lw__kernel_shared_bytes(kernel);
    c[i].shared = shared > 49152 ? (uint32_t)shared : 0;
  }
  lw__region_context_deinit(&ctx);
}

static void build_all(bench *b, contestant *c, uint32_t count, bool load) {
  lw_build_job *jobs = calloc(count, sizeof *jobs);
  if (jobs == NULL) exit(1);
  for (uint32_t i = 0; i < count; i++)
    jobs[i] = (lw_build_job){
        .source = lw__text_str(&c[i].source), .entries = &c[i].entry, .entry_count = 1};
  OK(b, lw__build_cuda(jobs, count, &b->build, NULL, &b->arena, &b->diag));
  for (uint32_t i = 0; i < count; i++) {
    if (jobs[i].report[0].spill_bytes != 0)
      printf("{\"spill\": %u, \"entry\": \"%s\"}\n", jobs[i].report[0].spill_bytes, c[i].entry);
    if (!load) continue;
    lw_cu_module module;
    CU(b, module_load(&module, jobs[i].image));
    CU(b, module_function(&c[i].function, module, c[i].entry));
    if (c[i].shared != 0)
      CU(b, function_set(c[i].function, LW_CU_FUNCTION_MAX_DYNAMIC_SHARED, (int)c[i].shared));
  }
  free(jobs);
}

/* Numbers between 1/16 and 1, either sign. */
static lw_cu_address random_array(bench *b, int64_t elements) {
  static union {
    uint16_t half[1 << 20];
    float whole[1 << 20];
  } block;
  const int64_t most = 1 << 20, size = (int64_t)lw_dtype_size_bytes(b->dtype);
  uint32_t state = 12345;
  lw_cu_address at;
  for (int64_t i = 0; i < most; i++) {
    state = state * 1664525u + 1013904223u;
    if (b->dtype == LW_DTYPE_F16)
      block.half[i] = (uint16_t)((state >> 16 & 0x83ff) | (0x30u + (state >> 28 & 3) * 4) << 8);
    else
      block.whole[i] = (float)((int32_t)state >> 8 | 1 << 19) * 0x1p-23f;
  }
  CU(b, memory_alloc(&at, (size_t)(elements * size)));
  for (int64_t done = 0; done < elements; done += most) {
    int64_t part = lw__min_i64(elements - done, most);
    CU(b, copy_in(at + (lw_cu_address)(done * size), &block, (size_t)(part * size), NULL));
  }
  CU(b, stream_wait(NULL));
  return at;
}

typedef struct operands {
  lw_cu_address x, w, y;
} operands;

static void launch(bench *b, const contestant *c, operands *o) {
  const lw_launch *l = &c->lowered.launches.data[0];
  void *args[8];
  int64_t scalar = 0;
  for (uint32_t i = 0; i < l->args.count; i++) {
    const lw_larg *arg = &l->args.data[i];
    if (arg->kind == LW_LARG_SCALAR) scalar = arg->scalar;
    args[i] = arg->kind == LW_LARG_SCALAR ? (void *)&scalar
              : arg->written              ? (void *)&o->y
              : arg->value == 0           ? (void *)&o->x
                                          : (void *)&o->w;
  }
  CU(b, launch(c->function, (unsigned)l->grid, 1, 1, l->kernel.block_threads, 1, 1, c->shared, NULL,
               args, NULL));
}

static int compare_floats(const void *x, const void *y) {
  float a = *(const float *)x, b = *(const float *)y;
  return a < b ? -1 : a > b;
}

static void time_all(bench *b, const shape *s, contestant *c, uint32_t count) {
  operands sets[SETS_MAX];
  int64_t xs = s->b * s->m * s->k, ws = s->b * s->k * s->n, ys = s->b * s->m * s->n;
  int set_count = (int)lw__min_i64(
      SETS_MAX, 250000000 / ((int64_t)lw_dtype_size_bytes(b->dtype) * (xs + ws + ys)) + 2);
  for (int i = 0; i < set_count; i++)
    sets[i] = (operands){random_array(b, xs), random_array(b, ws), random_array(b, ys)};
  lw_cu_event start[REPEATS], end[REPEATS];
  for (int r = 0; r < REPEATS; r++) {
    CU(b, event_create(&start[r], 0));
    CU(b, event_create(&end[r], 0));
  }
  for (uint32_t i = 0; i < count; i++) {
    float ms[REPEATS];
    for (int r = -2; r < REPEATS; r++) {
      if (r >= 0) CU(b, event_record(start[r], NULL));
      launch(b, &c[i], &sets[(r + 2) % set_count]);
      if (r >= 0) CU(b, event_record(end[r], NULL));
    }
    CU(b, stream_wait(NULL));
    for (int r = 0; r < REPEATS; r++) CU(b, event_elapsed(&ms[r], start[r], end[r]));
    qsort(ms, REPEATS, sizeof ms[0], compare_floats);
    const lw_mma_tile *t = &c[i].tile;
    printf(
        "{\"b\": %lld, \"m\": %lld, \"k\": %lld, \"n\": %lld, \"turned\": %d, \"tile\": [%lld, "
        "%lld, %lld], \"warps\": [%lld, %lld, %lld], \"stages\": %u, \"blocks\": %u, \"us\": "
        "%.2f, \"cycles\": %.0f}\n",
        (long long)s->b, (long long)s->m, (long long)s->k, (long long)s->n, s->turned,
        (long long)t->rows, (long long)t->cols, (long long)t->depth, (long long)t->warps_m,
        (long long)t->warps_n, (long long)t->warps_k, t->stages, t->blocks,
        (double)ms[REPEATS / 2] * 1e3, c[i].cycles);
  }
  fflush(stdout);
  for (int i = 0; i < set_count; i++) {
    CU(b, memory_free(sets[i].x));
    CU(b, memory_free(sets[i].w));
    CU(b, memory_free(sets[i].y));
  }
}

static bool open_gpu(bench *b) {
  lw_cu_device device;
  if (lw__cu_open(NULL, &b->diag, &b->cu) != LW_OK) return false;
  if (b->cu.device_get(&device, 0) != 0) return false;
  CU(b, primary_retain(&b->context, device));
  CU(b, context_push(b->context));
  return true;
}

int main(int argc, char **argv) {
  static bench b;
  static contestant contestants[TILES_MAX];
  bool build_only = false;
  b.build = (lw_build_options){.sm_arch = 90, .arch_specific = true};
  b.tiles = 40;
  b.dtype = LW_DTYPE_F16;
  for (int i = 1; i < argc; i++) {
    if (strcmp(argv[i], "--nvrtc") == 0 && i + 1 < argc)
      b.build.nvrtc_path = argv[++i];
    else if (strcmp(argv[i], "--tiles") == 0 && i + 1 < argc)
      b.tiles = (uint32_t)lw__min_i64(atoi(argv[++i]), TILES_MAX);
    else if (strcmp(argv[i], "--f32") == 0)
      b.dtype = LW_DTYPE_F32;
    else if (strcmp(argv[i], "--build") == 0)
      build_only = true;
    else
      return fprintf(stderr, "see the head of bench/product_mma.c\n"), 2;
  }
  if (!build_only && !open_gpu(&b)) return printf("no GPU\n"), SKIPPED;
  for (size_t i = 0; i < LW_ARRAY_COUNT(shapes); i++) {
    memset(contestants, 0, sizeof contestants);
    uint32_t count = choose_tiles(&b, &shapes[i], contestants);
    lower_all(&b, &shapes[i], contestants, count);
    build_all(&b, contestants, count, !build_only);
    if (!build_only) time_all(&b, &shapes[i], contestants, count);
  }
  return 0;
}

/* product_sm90.c: prints matrix products for sm_90a. The text of the kernel stands here in pieces,
 * in the order in which they are printed; what differs between parameters is chosen while printing.
 *
 * Barriers: full[s] (bytes of stage s have landed) and empty[s] (every warp that reads stage s is
 * done with it). Stage and phase go on from tile to tile. With a cluster of 2 each block loads half
 * of the tile of B into both blocks, so a stage is empty when the warps of both are done. turn[c]
 * (ping-pong): the other consumer has seen all its stages of the tile before. Without it a consumer
 * could be two phases ahead of a barrier, which tells only odd from even ones. */
#include "compiler/emit/product_sm90.h"

#include <stdio.h>

#include "compiler/emit/product_sm90_helpers.h"

enum {
  CONSUMERS = LW_PRODUCT_CONSUMERS,
  ROW_BYTES = 128, /* of a tile in shared memory: one atom of the swizzle */
  BOX_BYTES = 64 * ROW_BYTES,
};

/* ---- the instruction --------------------------------------------------------------------------*/

static const char *product_type(const lw_product_sm90 *p) {
  return p->dtype == LW_DTYPE_F16 ? "f16" : "bf16";
}

/* sums = a b + (keep ? sums : 0), one 64 x |width| x 16 step. The function has the kernel's name,
 * so that several kernels can stand in one source. */
static void product_print_mma(const lw_product_sm90 *p, const lw_product_sm90_shape *f,
                              const char *name, lw_text *out) {
  uint32_t sums = f->width / 2;
  const char *type = product_type(p);
  lw__text_add(out,
               "LW_HELPER void %s_mma(float (&d)[%u], unsigned long long a, unsigned long long b,\n"
               "                      int keep) {\n"
               "  asm volatile(\n"
               "      \"{\\n.reg .pred p;\\nsetp.ne.b32 p, %%%u, 0;\\n\"\n"
               "      \"wgmma.mma_async.sync.aligned.m64n%uk16.f32.%s.%s {\"",
               name, sums, sums + 2, f->width, type, type);
  for (uint32_t i = 0; i < sums; i++)
    lw__text_add(out, "%s%%%u%s", i % 16 == 0 ? "\n      \"" : "", i,
                 i + 1 == sums  ? ""
                 : i % 16 == 15 ? ", \""
                                : ", ");
  lw__text_add(out, "}, %%%u, %%%u, p, 1, 1, 0, %d;\\n}\"\n      :", sums, sums + 1,
               p->b_layout == LW_PRODUCT_B_KN);
  for (uint32_t i = 0; i < sums; i++)
    lw__text_add(out, "%s\"+f\"(d[%u])%s", i % 8 == 0 && i != 0 ? "        " : " ", i,
                 i + 1 == sums ? "\n"
                 : i % 8 == 7  ? ",\n"
                               : ",");
  lw__text_add(out, "      : \"l\"(a), \"l\"(b), \"r\"(keep));\n}\n");
}

/* ---- the kernel -------------------------------------------------------------------------------*/

static void product_print_start(const lw_product_sm90 *p, const char *name, const char *parameters,
                                lw_text *out) {
  uint32_t together = p->cluster * p->split;
  lw__text_add(out, "extern \"C\" ");
  if (together > 1) lw__text_add(out, "__cluster_dims__(%u, 1, 1) ", together);
  lw__text_add(out,
               "__global__ void __launch_bounds__(384, 1) %s(%s\n"
               "    const __grid_constant__ lw_tensor_map a_map,\n"
               "    const __grid_constant__ lw_tensor_map b_map%s) {\n",
               name, parameters,
               p->store == LW_PRODUCT_STORE_TMA
                   ? ",\n    const __grid_constant__ lw_tensor_map out_map"
                   : "");
}

static void product_print_setup(const lw_product_sm90 *p, const lw_product_sm90_shape *f,
                                lw_text *out) {
  uint32_t readers = (p->sched == LW_PRODUCT_PINGPONG ? 1u : CONSUMERS) * 4 * p->cluster;
  lw__text_add(out,
               "  constexpr int stages = %u, a_bytes = %u, stage_bytes = %u;\n"
               "  extern __shared__ unsigned char shared[];\n"
               "  const unsigned tiles_at = (lw_shared_address(shared) + 1023u) & ~1023u;\n"
               "  const unsigned full = tiles_at + %uu, empty = full + 8 * stages;\n"
               "  const unsigned turn = empty + 8 * stages;\n"
               "  const int group = __shfl_sync(0xffffffffu, (int)threadIdx.x / 128, 0);\n",
               p->stages, f->a_bytes, f->stage_bytes,
               p->stages * f->stage_bytes + CONSUMERS * (f->ring * BOX_BYTES + f->partial_bytes));
  lw__text_add(out,
               "  if (threadIdx.x == 0) {\n"
               "    for (int s = 0; s < stages; s++) {\n"
               "      lw_barrier_init(full + 8 * s, 1);\n"
               "      lw_barrier_init(empty + 8 * s, %u);\n"
               "    }\n"
               "    lw_barrier_init(turn, 4);\n"
               "    lw_barrier_init(turn + 8, 4);\n"
               "    lw_barrier_init_done();\n"
               "    lw_tensor_prefetch(&a_map);\n"
               "    lw_tensor_prefetch(&b_map);\n"
               "  }\n"
               "  %s;\n",
               readers, p->cluster == 2 ? "lw_cluster_sync()" : "__syncthreads()");
  if (p->cluster == 2)
    lw__text_add(out,
                 "  const int rank = (int)lw_cluster_rank(), first = (int)blockIdx.x / 2;\n"
                 "  const int step = (int)gridDim.x / 2;\n"
                 "  const int tiles_m = (rows + %u) / %u;\n",
                 2 * p->tile_m - 1, 2 * p->tile_m);
  else if (p->split == 1)
    lw__text_add(out,
                 "  const int first = (int)blockIdx.x, step = (int)gridDim.x;\n"
                 "  const int tiles_m = (rows + %u) / %u;\n",
                 p->tile_m - 1, p->tile_m);
  else
    lw__text_add(out,
                 "  const int rank = (int)lw_cluster_rank(), first = (int)blockIdx.x / %u;\n"
                 "  const int tiles_m = (rows + %u) / %u;\n",
                 p->split, p->tile_m - 1, p->tile_m);
  lw__text_add(out,
               "  const int tiles_n = (columns + %u) / %u, tiles = tiles_m * tiles_n;\n"
               "  const int steps = (depth + 63) / 64;\n",
               p->tile_n - 1, p->tile_n);
  if (p->split > 1)
    lw__text_add(out,
                 "  const int step = tiles;\n"
                 "  const int k_first = steps * rank / %u, k_last = steps * (rank + 1) / %u;\n"
                 "  const int k_middle = (k_first + k_last) / 2;\n",
                 p->split, p->split);
}

/* Names tile_row and tile_column: where the tile of this block starts. */
static void product_print_tile(const lw_product_sm90 *p, lw_text *out) {
  lw__text_add(out,
               "      int m, n;\n"
               "      lw_raster(tile, tiles_m, tiles_n, %u, &m, &n);\n"
               "      const int tile_row = %s * %u, tile_column = n * %u;\n",
               p->group, p->cluster == 2 ? "(2 * m + rank)" : "m", p->tile_m, p->tile_n);
}

/* With a cluster each block loads every other box of columns, or half of the rows, of B. */
static void product_print_loads(const lw_product_sm90 *p, lw_text *out) {
  bool both = p->cluster == 2;
  char part[32] = "0";
  if (both) snprintf(part, sizeof part, "rank * %u", p->tile_n / 2);
  lw__text_add(out, "        lw_tensor_load(a, &a_map, 64 * k, tile_row, full + 8 * stage);\n");
  if (p->b_layout == LW_PRODUCT_B_NK) {
    lw__text_add(
        out,
        "        const int part = %s;\n"
        "        lw_tensor_load%s(a + a_bytes + part * 128, &b_map, 64 * k, tile_column + part,\n"
        "          full + 8 * stage);\n",
        part, both ? "_both" : "");
    return;
  }
  lw__text_add(
      out,
      "#pragma unroll\n"
      "        for (int i = 0; i < %u; i += %d) {\n"
      "          const int part = i%s;\n"
      "          if (part < %u)\n"
      "            lw_tensor_load%s(a + a_bytes + part * 128, &b_map, tile_column + part, 64 * k,\n"
      "              full + 8 * stage);\n"
      "        }\n",
      p->tile_n, both ? 128 : 64, both ? " + 64 * rank" : "", p->tile_n, both ? "_both" : "");
}

static void product_print_producer(const lw_product_sm90 *p, lw_text *out) {
  lw__text_add(out,
               "  if (group == 0) {\n"
               "    lw_registers_fewer<24>();\n"
               "    const int warp = __shfl_sync(0xffffffffu, (int)threadIdx.x / 32, 0);\n"
               "    if (warp == 0 && lw_one_thread()) {\n"
               "    unsigned stage = 0, phase = 0;\n"
               "#pragma unroll 1\n"
               "    for (int tile = first; tile < tiles; tile += step) {\n");
  product_print_tile(p, out);
  lw__text_add(out,
               "#pragma unroll 1\n"
               "      for (int k = %s; k < %s; k++) {\n"
               "        const unsigned a = tiles_at + stage * stage_bytes;\n"
               "        lw_barrier_wait(empty + 8 * stage, phase ^ 1);\n"
               "        lw_barrier_expect(full + 8 * stage, stage_bytes);\n",
               p->split > 1 ? "k_first" : "0", p->split > 1 ? "k_last" : "steps");
  product_print_loads(p, out);
  lw__text_add(out,
               "        if (++stage == stages) stage = 0, phase ^= 1;\n"
               "      }\n"
               "    }\n"
               "    }\n");
}

/* Descriptors: address / 16 (the bits above say which block of the cluster it is, and are not for
 * the descriptor), distances / 16, 128-byte swizzle in the two top bits. K in rows: 8 rows of 128
 * bytes are 1024 apart; 16 further along k are 32 bytes. Columns in rows (B as [K,N]): 64 columns
 * and 64 k are a box of 8192 bytes, the leading distance; 8 k are 1024 apart; 16 further along k
 * are 2048 bytes. */
static void product_print_loop(const lw_product_sm90 *p, const lw_product_sm90_shape *f,
                               const char *name, lw_text *out) {
  bool kn = p->b_layout == LW_PRODUCT_B_KN;
  bool rows_split = p->sched == LW_PRODUCT_COOPERATIVE && !lw__product_sm90_splits_columns(p);
  uint32_t a_part = rows_split ? f->blocks * BOX_BYTES : 0;
  uint32_t b_part = lw__product_sm90_splits_columns(p) ? f->width * ROW_BYTES : 0;
  lw__text_add(
      out,
      "      const unsigned a_at = tiles_at + (group - 1) * %u;\n"
      "      const unsigned b_at = tiles_at + a_bytes + (group - 1) * %u;\n"
      "      unsigned last = 0;\n"
      "#pragma unroll 1\n"
      "      for (int k = 0; k < mine; k++) {\n"
      "        lw_barrier_wait(full + 8 * stage, phase);\n"
      "        const unsigned long long a =\n"
      "            0x4000004000010000ull | (((a_at + stage * stage_bytes) & 0x3ffffu) >> 4);\n"
      "        const unsigned long long b =\n"
      "            %s | (((b_at + stage * stage_bytes) & 0x3ffffu) >> 4);\n",
      a_part, b_part, kn ? "0x4000004002000000ull" : "0x4000004000010000ull");
  lw__text_add(out,
               "        lw_mma_fence();\n"
               "#pragma unroll\n"
               "        for (int s = 0; s < 4; s++)\n"
               "#pragma unroll\n"
               "          for (int i = 0; i < %u; i++)\n"
               "            %s_mma(sums[i], a + (i * 512 + s * 2), b + s * %d, (k | s) != 0);\n"
               "        lw_mma_commit();\n"
               "        lw_mma_wait<1>();\n",
               f->blocks, name, kn ? 128 : 2);
  const char *release = p->cluster == 2
                            ? "if (lane < 2) lw_barrier_arrive_at(empty + 8 * last, lane)"
                            : "if (lane == 0) lw_barrier_arrive(empty + 8 * last)";
  lw__text_add(out,
               "        if (k > 0) {\n"
               "          %s;\n"
               "        }\n"
               "        last = stage;\n"
               "        if (++stage == stages) stage = 0, phase ^= 1;\n"
               "      }\n"
               "%s"
               "      lw_mma_wait<0>();\n"
               "#pragma unroll\n"
               "      for (int i = 0; i < %u; i++) lw_mma_pin(sums[i]);\n"
               "      %s;\n",
               release,
               p->sched == LW_PRODUCT_PINGPONG
                   ? "      if (lane == 0) lw_barrier_arrive(turn + 8 * (2 - group));\n"
                   : "",
               f->blocks, release);
}

/* ---- the result -------------------------------------------------------------------------------
 * The sums of a thread: sums[i][4 j + 2 h + c] is row 64 i + 16 warp + lane / 4 + 8 h, column 8 j +
 * 2 (lane % 4) + c. */

/* lw_here: the loads of hooks stay with their columns; all at once they would need too many
 * registers. */
static const char product_row_at[] =
    "        const int row_at = group_row + 16 * warp + (lane >> 2) + 64 * i;\n";
static const char product_column_at[] =
    "        const int column_at = lw_here(group_column + 2 * (lane & 3) + 8 * j);\n";

static void product_print_places(const lw_product_hook *hook, lw_text *out) {
  if (hook->uses_row || hook->uses_inside) lw__text_add(out, "%s", product_row_at);
  if (hook->uses_column || hook->uses_inside) lw__text_add(out, "%s", product_column_at);
}

/* Four elements from i and j: rows |row_at| + 8 h, columns |column_at| + c. */
static void product_print_elements(const lw_product_hook *hook, lw_text *out) {
  if (hook->packs) lw__text_add(out, "        float values[2][2];\n");
  lw__text_add(out,
               "#pragma unroll\n"
               "        for (int c = 0; c < 2; c++) {\n");
  if (hook->uses_column)
    lw__text_add(out, "        const int column = min(column_at + c, columns - 1);\n");
  lw__text_add(out, LW_PRODUCT_MARK_COLUMN);
  if (hook->column != NULL) hook->column(out, hook->user);
  lw__text_add(out, LW_PRODUCT_MARK_DONE
               "#pragma unroll\n"
               "        for (int h = 0; h < 2; h++) {\n"
               "        const float sum = sums[i][4 * j + 2 * h + c];\n");
  if (hook->uses_row) lw__text_add(out, "        const int row = min(row_at + 8 * h, rows - 1);\n");
  if (hook->uses_inside)
    lw__text_add(out,
                 "        const bool inside = row_at + 8 * h < rows && column_at + c < columns;\n");
  if (hook->packs) lw__text_add(out, "        float value = sum;\n");
  lw__text_add(out, LW_PRODUCT_MARK_ELEMENT);
  if (hook->element != NULL) hook->element(out, hook->user);
  lw__text_add(out, LW_PRODUCT_MARK_DONE);
  if (hook->packs) lw__text_add(out, "        values[h][c] = value;\n");
  lw__text_add(out, "        }\n        }\n");
}

/* For every h one word of two packed elements: |word| and what follows it. */
static void product_print_words(const lw_product_sm90 *p, const lw_product_hook *hook,
                                const char *word, lw_text *out) {
  product_print_elements(hook, out);
  lw__text_add(out,
               "#pragma unroll\n"
               "        for (int h = 0; h < 2; h++) {\n"
               "        %s = lw_pack_%s(values[h][0], values[h][1]);\n",
               word, p->out_dtype == LW_DTYPE_F16 ? "f16" : "bf16");
}

static void product_print_direct(const lw_product_sm90 *p, const lw_product_sm90_shape *f,
                                 const lw_product_hook *hook, lw_text *out) {
  if (hook->packs)
    lw__text_add(
        out, "      const bool paired = (pitch & 1) == 0 && ((unsigned long long)out & 3) == 0;\n");
  lw__text_add(out,
               "#pragma unroll\n"
               "      for (int j = 0; j < %u; j++)\n"
               "#pragma unroll\n"
               "      for (int i = 0; i < %u; i++) {\n",
               f->width / 8, f->blocks);
  lw_product_hook places = *hook;
  places.uses_inside |= hook->packs; /* stores need both */
  product_print_places(&places, out);
  if (!hook->packs) {
    product_print_elements(hook, out);
    lw__text_add(out, "      }\n");
    return;
  }
  product_print_words(p, hook, "const unsigned word", out);
  lw__text_add(out,
               "        if (row_at + 8 * h < rows) {\n"
               "          unsigned short *to = out + (row_at + 8 * h) * pitch + column_at;\n"
               "          if (paired && column_at + 1 < columns) {\n"
               "            *(unsigned *)to = word;\n"
               "          } else {\n"
               "            if (column_at < columns) to[0] = (unsigned short)word;\n"
               "            if (column_at + 1 < columns) to[1] = (unsigned short)(word >> 16);\n"
               "          }\n"
               "        }\n"
               "        }\n"
               "      }\n");
}

/* One box from the sums to shared memory at |to|. */
static void product_print_box(const lw_product_sm90 *p, const lw_product_hook *hook, lw_text *out) {
  lw__text_add(out,
               "#pragma unroll\n"
               "        for (int q = 0; q < 4; q++) {\n"
               "        unsigned words[4];\n"
               "#pragma unroll\n"
               "        for (int e = 0; e < 2; e++) {\n"
               "        const int j = chunk * 8 + 2 * q + e;\n");
  product_print_places(hook, out);
  product_print_words(p, hook, "words[2 * e + h]", out);
  lw__text_add(
      out,
      "        }\n"
      "        }\n"
      "        const int r = lane & 15, c = 2 * q + (lane >> 4);\n"
      "        lw_matrix_store(to + (16 * warp + r) * 128 + ((c ^ (lane & 7)) << 4), words);\n"
      "        }\n");
}

/* Boxes of 64 x 64 go through a ring in shared memory, which stays in use while the next tile is
 * multiplied: all at once when the ring has room for them, else one after the other. One thread
 * does all the copies of its group, since it alone can wait for them. */
static void product_print_boxes(const lw_product_sm90 *p, const lw_product_sm90_shape *f,
                                const lw_product_hook *hook, lw_text *out) {
  uint32_t boxes = f->blocks * f->width / 64;
  bool at_once = f->ring == boxes;
  char box[120];
  snprintf(box, sizeof box, "        const int i = box %% %u, chunk = box / %u;\n", f->blocks,
           f->blocks);
  lw__text_add(out, "      const bool leads = (threadIdx.x & 127) == 0;\n");
  if (at_once)
    lw__text_add(out,
                 "      if (leads) lw_tensor_stores_read<0>();\n"
                 "      lw_group_sync<128>(group);\n");
  lw__text_add(out,
               "#pragma unroll\n"
               "      for (int box = 0; box < %u; box++) {\n%s",
               boxes, box);
  if (at_once)
    lw__text_add(out, "        const unsigned to = ring_at + box * 8192;\n");
  else
    lw__text_add(out,
                 "        const unsigned to = ring_at + slot * 8192;\n"
                 "        if (++slot == %u) slot = 0;\n"
                 "        if (leads) lw_tensor_stores_read<%u>();\n"
                 "        lw_group_sync<128>(group);\n",
                 f->ring, f->ring - 1);
  product_print_box(p, hook, out);
  /* A barrier keeps the hook's loads from all being started before the first box. */
  if (at_once)
    lw__text_add(out, "%s      }\n",
                 hook->element == NULL ? "" : "        lw_group_sync<128>(group);\n");
  lw__text_add(out,
               "        lw_async_fence();\n"
               "        lw_group_sync<128>(group);\n");
  if (at_once)
    lw__text_add(out,
                 "      if (leads)\n"
                 "#pragma unroll\n"
                 "        for (int box = 0; box < %u; box++) {\n%s"
                 "        const unsigned to = ring_at + box * 8192;\n",
                 boxes, box);
  lw__text_add(
      out,
      "        %slw_tensor_store(&out_map, group_column + 64 * chunk, group_row + 64 * i, to);\n"
      "      }\n",
      at_once ? "" : "if (leads) ");
}

/* A consumer's sums to shared memory. */
static void product_print_partial(const lw_product_sm90 *p, const lw_product_sm90_shape *f,
                                  lw_text *out) {
  lw__text_add(out,
               "      const unsigned to = tiles_at + %uu + (group - 1) * %u +\n"
               "        ((16 * warp + (lane >> 2)) * %u + 2 * (lane & 3)) * 4;\n"
               "#pragma unroll\n"
               "      for (int i = 0; i < %u; i++)\n"
               "#pragma unroll\n"
               "      for (int j = 0; j < %u; j++)\n"
               "#pragma unroll\n"
               "      for (int h = 0; h < 2; h++)\n"
               "        lw_shared_put_two(to + ((64 * i + 8 * h) * %u + 8 * j) * 4,\n"
               "          sums[i][4 * j + 2 * h], sums[i][4 * j + 2 * h + 1]);\n",
               p->stages * f->stage_bytes, f->partial_bytes, p->tile_n + LW_PRODUCT_PARTIAL_PAD,
               f->blocks, f->width / 8, p->tile_n + LW_PRODUCT_PARTIAL_PAD);
}

/* Each block of the cluster finishes its share of the tile's rows: adds up what all consumers have,
 * in the order of the depth. */
static void product_print_combine(const lw_product_sm90 *p, const lw_product_sm90_shape *f,
                                  const lw_product_hook *hook, lw_text *out) {
  lw__text_add(out,
               "  lw_cluster_sync();\n"
               "  if (group > 0) {\n"
               "    const int tile = first;\n");
  product_print_tile(p, out);
  lw__text_add(out,
               "#pragma unroll 1\n"
               "    for (int e = (int)threadIdx.x - 128; e < %u; e += 256) {\n"
               "      const int y = rank * %u + e / %u, x = e %% %u;\n"
               "      const int row = tile_row + y, column = tile_column + x;\n"
               "      if (row >= rows || column >= columns) continue;\n"
               "      const unsigned at = tiles_at + %uu + (y * %u + x) * 4;\n"
               "      float sum = 0;\n"
               "#pragma unroll\n"
               "      for (int q = 0; q < %u; q++)\n"
               "        sum += lw_cluster_get(at + q %% 2 * %u, q / 2);\n",
               p->tile_m / p->split * p->tile_n, p->tile_m / p->split, p->tile_n, p->tile_n,
               p->stages * f->stage_bytes, p->tile_n + LW_PRODUCT_PARTIAL_PAD, p->split * CONSUMERS,
               f->partial_bytes);
  if (hook->uses_inside) lw__text_add(out, "      const bool inside = true;\n");
  if (hook->packs) lw__text_add(out, "      float value = sum;\n");
  lw__text_add(out, LW_PRODUCT_MARK_COLUMN);
  if (hook->column != NULL) hook->column(out, hook->user);
  lw__text_add(out, LW_PRODUCT_MARK_DONE LW_PRODUCT_MARK_ELEMENT);
  if (hook->element != NULL) hook->element(out, hook->user);
  lw__text_add(out, LW_PRODUCT_MARK_DONE);
  if (hook->packs)
    lw__text_add(out,
                 "      out[row * pitch + column] = (unsigned short)lw_pack_%s(value, 0.0f);\n",
                 p->out_dtype == LW_DTYPE_F16 ? "f16" : "bf16");
  lw__text_add(out, "    }\n  }\n");
}

static void product_print_result(const lw_product_sm90 *p, const lw_product_sm90_shape *f,
                                 const lw_product_hook *hook, lw_text *out) {
  bool rows_split = p->sched == LW_PRODUCT_COOPERATIVE && !lw__product_sm90_splits_columns(p);
  lw__text_add(out,
               "      const int group_row = tile_row + (group - 1) * %u;\n"
               "      const int group_column = tile_column + (group - 1) * %u;\n",
               rows_split ? 64 * f->blocks : 0, lw__product_sm90_splits_columns(p) ? f->width : 0);
  if (p->store == LW_PRODUCT_STORE_TMA)
    product_print_boxes(p, f, hook, out);
  else
    product_print_direct(p, f, hook, out);
}

static void product_print_consumer(const lw_product_sm90 *p, const lw_product_sm90_shape *f,
                                   const lw_product_hook *hook, const char *name, lw_text *out) {
  bool pingpong = p->sched == LW_PRODUCT_PINGPONG;
  lw__text_add(out,
               "  } else {\n"
               "    lw_registers_more<240>();\n"
               "    const int lane = threadIdx.x & 31;\n"
               "    const int warp = __shfl_sync(0xffffffffu, (int)(threadIdx.x & 127) / 32, 0);\n"
               "    float sums[%u][%u];\n",
               f->blocks, f->width / 2);
  if (p->store == LW_PRODUCT_STORE_TMA)
    lw__text_add(out, "    const unsigned ring_at = tiles_at + %uu + (group - 1) * %u;\n%s",
                 p->stages * f->stage_bytes, f->ring * BOX_BYTES,
                 f->ring == f->blocks * f->width / 64 ? "" : "    unsigned slot = 0;\n");
  if (pingpong)
    lw__text_add(out,
                 "    const int mine = %s;\n"
                 "    unsigned place = (unsigned)((group - 1) * %s);\n"
                 "    unsigned stage = place %% stages, phase = place / stages & 1;\n"
                 "    unsigned round = group & 1;\n"
                 "#pragma unroll 1\n"
                 "    for (int tile = first%s; tile < tiles; tile += %sstep) {\n",
                 p->split > 1 ? "group == 1 ? k_middle - k_first : k_last - k_middle" : "steps",
                 p->split > 1 ? "(k_middle - k_first)" : "steps",
                 p->split > 1 ? "" : " + (group - 1) * step", p->split > 1 ? "" : "2 * ");
  else
    lw__text_add(out,
                 "    const int mine = steps;\n"
                 "    unsigned stage = 0, phase = 0;\n"
                 "#pragma unroll 1\n"
                 "    for (int tile = first; tile < tiles; tile += step) {\n");
  if (p->split == 1) product_print_tile(p, out);
  if (pingpong)
    lw__text_add(out,
                 "      lw_barrier_wait(turn + 8 * (group - 1), round);\n"
                 "      round ^= 1;\n");
  product_print_loop(p, f, name, out);
  if (pingpong && p->split == 1)
    lw__text_add(out,
                 "      place += 2u * (unsigned)steps;\n"
                 "      stage = place %% stages;\n"
                 "      phase = place / stages & 1;\n");
  if (p->split == 1)
    product_print_result(p, f, hook, out);
  else
    product_print_partial(p, f, out);
  lw__text_add(out, "    }\n");
  if (p->store == LW_PRODUCT_STORE_TMA)
    lw__text_add(out, "    if ((threadIdx.x & 127) == 0) lw_tensor_stores_done();\n");
  lw__text_add(out, "  }\n");
}

lw_status lw__product_sm90_print(const lw_product_sm90 *p, const lw_product_hook *hook,
                                 const char *name, const char *parameters, const char *setup,
                                 lw_text *out) {
  lw_product_sm90_shape f;
  LW_TRY(lw__product_sm90_shape(p, &f));
  if (p->store == LW_PRODUCT_STORE_TMA && !hook->packs) return LW_STATUS_INTERNAL;
  lw__text_add(out, LW_PRODUCT_MARK_BEGIN "%s, %s %s */\n", name, product_type(p),
               p->b_layout == LW_PRODUCT_B_KN ? "kn" : "nk");
  if (hook->helpers != NULL) lw__text_add(out, "%s", hook->helpers);
  product_print_mma(p, &f, name, out);
  product_print_start(p, name, parameters, out);
  lw__text_add(out, LW_PRODUCT_MARK_SETUP "%s" LW_PRODUCT_MARK_DONE, setup);
  product_print_setup(p, &f, out);
  product_print_producer(p, out);
  product_print_consumer(p, &f, hook, name, out);
  if (p->split > 1) product_print_combine(p, &f, hook, out);
  /* A block must be there as long as others signal to it or read from it. */
  lw__text_add(out, "%s}\n" LW_PRODUCT_MARK_END "%s */\n",
               f.cluster > 1 ? "  lw_cluster_sync();\n" : "", name);
  return out->status;
}

lw_status lw__emit_product_sm90(const lw_product_sm90 *p, const lw_product_hook *hook,
                                const char *name, lw_text *out) {
  static const char *const type_names[LW_DTYPE_COUNT] = {
      [LW_DTYPE_I32] = "int", [LW_DTYPE_U32] = "unsigned", [LW_DTYPE_F32] = "float"};
  const lw_prelude prelude = {.tables = {&lw__emit_helpers_product_sm90, &lw__emit_helpers_cuda},
                              .type_names = type_names};
  lw_text body = {0}, parameters = {0};
  lw__text_add(&parameters, "%s\n    int rows, int columns, int depth, %s",
               p->store == LW_PRODUCT_STORE_DIRECT
                   ? "\n    unsigned short *__restrict__ out, long long pitch,"
                   : "",
               hook->parameters == NULL ? "" : hook->parameters);
  lw_status status = parameters.status;
  if (status == LW_OK)
    status = lw__product_sm90_print(p, hook, name, lw__text_str(&parameters), "", &body);
  if (status == LW_OK)
    lw__text_add(out, "#define LW_HELPER static __device__ __forceinline__\n%s",
                 p->watchdog ? "#define LW_WATCHDOG_CYCLES 2000000000ll\n" : "");
  if (status == LW_OK) status = lw__prelude_print(&prelude, &body, out);
  if (status == LW_OK) lw__text_add_n(out, body.data, body.len);
  lw__text_deinit(&body);
  lw__text_deinit(&parameters);
  return status == LW_OK ? out->status : status;
}

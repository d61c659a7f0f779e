/* contraction_cpu.c: products and convolutions for CPUs. A block computes tiles x panels register
 * tiles, slice by slice along k:
 *
 *   for each slice of k
 *     panels of the lanes' operand into a local array, [k][lane]  (or they lie packed in a buffer)
 *     for each tile of rows
 *       its rows of the other operand into a local array
 *       for each panel: sums into registers, += row[k] * panel[k][lanes] for all k, and back
 *   the epilogue, row by row, vectors along the lanes
 *
 * Every sum takes its products in the order of k, slice by slice (so that rounding errors grow with
 * the length of a slice plus the number of slices), and slices depend on k alone: a result depends
 * neither on the number of rows nor on how they are shared out. */
#include "compiler/lower/contraction_cpu.h"

/* An operand that a launch of its own has put into scratch memory. */
typedef struct packed_operand {
  uint32_t buffer, scratch;
  int64_t batch; /* 1: all batches share it */
  int64_t parts; /* panels or tiles of a batch */
  int64_t width; /* lanes or rows of a part */
} packed_operand;

typedef struct tiles_nest {
  lw_nest nest;
  lw_cpu_tile tile;
  lw_dtype type;
  int64_t batch, k;
  lw_ix b, row, panel, lane; /* panel LW_NONE: lane is the whole index of a lane */
  lw_ix digit[LW_CPU_DIGITS];
  lw_elem row_factor, lane_factor;
  int64_t row_extent, lane_extent;    /* at the time of compiling */
  lw_kval row_total, lane_total;      /* i64, at run time */
  lw_kval first_row, first_panel;     /* i64, of the block */
  lw_kval tile_count, panel_count;    /* i32, of the block */
  lw_kval slice, slice_k;             /* first k (i64) and number (i32) of the slice */
  uint32_t sums, zeros, panels, rows; /* local arrays */
  packed_operand packed_panels, packed_rows;
  bool along_k; /* the row operand lies along k in memory */
} tiles_nest;

static lw_kval c64(tiles_nest *t, int64_t x) {
  return lw__kb_const_i(&t->nest.kb, LW_DTYPE_I64, x);
}
static lw_kval c32(tiles_nest *t, int64_t x) {
  return lw__kb_const_i(&t->nest.kb, LW_DTYPE_I32, x);
}
static lw_kval wide(tiles_nest *t, lw_kval a) { return lw__kb_cast(&t->nest.kb, a, LW_DTYPE_I64); }
static lw_kval narrow(tiles_nest *t, lw_kval a) {
  return lw__kb_cast(&t->nest.kb, a, LW_DTYPE_I32);
}
static lw_kval f2(tiles_nest *t, lw_fn f, lw_kval a, lw_kval b) {
  return lw__kb_fn(&t->nest.kb, f, a, b, LW_NONE);
}
/* a * scale + b, i32. */
static lw_kval scaled(tiles_nest *t, lw_kval a, int64_t scale, lw_kval b) {
  return f2(t, LW_FN_ADD, f2(t, LW_FN_MUL, a, c32(t, scale)), b);
}

static lw_kval zero_of(tiles_nest *t) {
  return lw__dtype_is_float(t->type) ? lw__kb_const_f(&t->nest.kb, t->type, 0)
                                     : lw__kb_const_i(&t->nest.kb, t->type, 0);
}

static lw_kval one_of(tiles_nest *t) {
  return lw__dtype_is_float(t->type) ? lw__kb_const_f(&t->nest.kb, t->type, 1)
                                     : lw__kb_const_i(&t->nest.kb, t->type, 1);
}

/* A loop over i32 0 .. count-1; none when the count is known to be 1. */
static lw_kval open_loop(tiles_nest *t, lw_kval count, lw_kloop loop, bool *out_open) {
  lw_scalar known;
  *out_open = !lw__kb_is_const(&t->nest.kb, count, &known) || known.i != 1;
  return *out_open ? lw__kb_for(&t->nest.kb, LW_DTYPE_I32, c32(t, 0), count, c32(t, 1), loop)
                   : c32(t, 0);
}

static void close_loop(tiles_nest *t, bool open) {
  if (open) lw__kb_end(&t->nest.kb);
  lw__nest_forget(&t->nest);
}

static lw_kval open_vector(tiles_nest *t, lw_kval from, lw_kval to) {
  return lw__kb_for(&t->nest.kb, LW_DTYPE_I32, from, to, c32(t, 1), LW_KLOOP_VECTOR);
}

/* min(most, total - first) as i32, |most| itself where it always fits. */
static lw_kval clipped(tiles_nest *t, int64_t most, lw_kval total, lw_kval first, bool fits) {
  if (fits) return c32(t, most);
  return narrow(t, f2(t, LW_FN_MIN, c64(t, most), f2(t, LW_FN_SUB, total, first)));
}

/* ---- lanes ------------------------------------------------------------------------------------*/

static lw_kval panel_number(tiles_nest *t, lw_kval p) {
  return f2(t, LW_FN_ADD, t->first_panel, wide(t, p));
}

/* Lanes in use of panel |number|. A number of rows that only the run knows may end anywhere. */
static lw_kval lanes_in_use(tiles_nest *t, lw_kval number) {
  bool fits = !t->tile.swap && t->lane_extent % t->tile.used == 0;
  return clipped(t, t->tile.used, t->lane_total, f2(t, LW_FN_MUL, number, c64(t, t->tile.used)),
                 fits);
}

static lw_status bind_lane(tiles_nest *t, lw_kval number, lw_kval lane) {
  if (t->panel == LW_NONE)
    return lw__nest_bind(
        &t->nest, t->lane,
        f2(t, LW_FN_ADD, f2(t, LW_FN_MUL, number, c64(t, t->tile.used)), wide(t, lane)));
  LW_TRY(lw__nest_bind(&t->nest, t->panel, number));
  return lw__nest_bind(&t->nest, t->lane, lane);
}

/* ---- packing ----------------------------------------------------------------------------------*/

/* Loops over the digits of k, the last digit outermost. Returns k in the slice. */
typedef struct k_loops {
  bool open[LW_CPU_DIGITS];
} k_loops;

static lw_status open_k(tiles_nest *t, lw_kloop innermost, k_loops *loops, lw_kval *out_k) {
  const lw_cpu_tile *s = &t->tile;
  lw_kval k = c32(t, 0);
  for (uint32_t i = s->digits; i-- > 0;) {
    bool last = i + 1 == s->digits;
    lw_kval count = last ? f2(t, LW_FN_DIV, t->slice_k, c32(t, s->scales[i]))
                         : c32(t, s->scales[i + 1] / s->scales[i]);
    lw_kloop loop = i == 0 ? innermost : LW_KLOOP_SERIAL;
    lw_kval digit = open_loop(t, count, loop, &loops->open[i]);
    k = f2(t, LW_FN_ADD, k, f2(t, LW_FN_MUL, digit, c32(t, s->scales[i])));
    digit = wide(t, digit);
    if (last) digit = f2(t, LW_FN_ADD, f2(t, LW_FN_DIV, t->slice, c64(t, s->scales[i])), digit);
    LW_TRY(lw__nest_bind(&t->nest, t->digit[i], digit));
  }
  *out_k = k;
  return LW_OK;
}

static void close_k(tiles_nest *t, const k_loops *loops) {
  for (uint32_t i = 0; i < t->tile.digits; i++) close_loop(t, loops->open[i]);
}

/* To |at| of a local array, or |base| + |at| of the buffer of |packed|. */
static void put(tiles_nest *t, const packed_operand *packed, uint32_t local, lw_kval base,
                lw_kval at, lw_kval value) {
  if (packed != NULL)
    lw__kb_store(&t->nest.kb, packed->buffer, base, at, LW_NONE, value);
  else
    lw__kb_lset(&t->nest.kb, local, at, value);
}

/* Where part |number| at the beginning of the slice stands in the buffer, i64. */
static lw_kval packed_base(tiles_nest *t, const packed_operand *packed, lw_kval batch,
                           lw_kval number) {
  if (packed->batch > 1)
    number = f2(t, LW_FN_ADD, f2(t, LW_FN_MUL, batch, c64(t, packed->parts)), number);
  lw_kval k = f2(t, LW_FN_ADD, f2(t, LW_FN_MUL, number, c64(t, t->k)), t->slice);
  return f2(t, LW_FN_MUL, k, c64(t, packed->width));
}

/* The slice of panel |number| to |at| on; lanes that are not in use become zeros. The loop inside
 * runs along what is contiguous in memory. */
static lw_status pack_panel(tiles_nest *t, const packed_operand *packed, lw_kval number,
                            lw_kval base, lw_kval at) {
  lw_region *region = t->nest.region;
  bool turned = lw__contraction_runs_along(region, t->lane_factor, t->digit[0]) &&
                !lw__contraction_runs_along(region, t->lane_factor, t->lane);
  lw_kval used = lanes_in_use(t, number), lanes = c32(t, t->tile.lanes), k, lane;
  k_loops loops;
  bool outer = false;
  if (turned) lane = open_loop(t, used, LW_KLOOP_SERIAL, &outer);
  LW_TRY(open_k(t, turned ? LW_KLOOP_VECTOR : LW_KLOOP_SERIAL, &loops, &k));
  if (!turned) lane = open_vector(t, c32(t, 0), used);
  LW_TRY(bind_lane(t, number, lane));
  put(t, packed, t->panels, base, f2(t, LW_FN_ADD, at, scaled(t, k, t->tile.lanes, lane)),
      lw__contraction_factor(&t->nest, t->lane_factor, t->type));
  if (!turned) close_loop(t, true);
  close_k(t, &loops);
  close_loop(t, outer);
  if (used == lanes) return LW_OK;
  LW_TRY(open_k(t, LW_KLOOP_SERIAL, &loops, &k));
  lane = open_vector(t, used, lanes);
  put(t, packed, t->panels, base, f2(t, LW_FN_ADD, at, scaled(t, k, t->tile.lanes, lane)),
      zero_of(t));
  close_loop(t, true);
  close_k(t, &loops);
  return LW_OK;
}

static lw_status pack_panels(tiles_nest *t) {
  bool open;
  lw_kval p = open_loop(t, t->panel_count, LW_KLOOP_SERIAL, &open);
  LW_TRY(pack_panel(t, NULL, panel_number(t, p), LW_NONE,
                    f2(t, LW_FN_MUL, p, c32(t, t->tile.depth * t->tile.lanes))));
  close_loop(t, open);
  return LW_OK;
}

/* The rows of the tile that begins at |first| (i64). Rows past the end repeat the last one. */
static lw_status pack_rows(tiles_nest *t, const packed_operand *packed, lw_kval first,
                           lw_kval base) {
  bool outer = true;
  k_loops loops;
  lw_kval r, k;
  if (t->along_k) r = open_loop(t, c32(t, t->tile.rows), LW_KLOOP_SERIAL, &outer);
  LW_TRY(open_k(t, t->along_k ? LW_KLOOP_VECTOR : LW_KLOOP_SERIAL, &loops, &k));
  if (!t->along_k) r = open_vector(t, c32(t, 0), c32(t, t->tile.rows));
  lw_kval row = f2(t, LW_FN_ADD, first, wide(t, r));
  if (t->tile.rows > 1 || t->tile.tiles > 1)
    row = f2(t, LW_FN_MIN, row, f2(t, LW_FN_SUB, t->row_total, c64(t, 1)));
  LW_TRY(lw__nest_bind(&t->nest, t->row, row));
  lw_kval at = t->along_k ? scaled(t, r, t->tile.depth, k) : scaled(t, k, t->tile.rows, r);
  put(t, packed, t->rows, base, at, lw__contraction_factor(&t->nest, t->row_factor, t->type));
  if (!t->along_k) close_loop(t, true);
  close_k(t, &loops);
  if (t->along_k) close_loop(t, outer);
  return LW_OK;
}

/* ---- products ---------------------------------------------------------------------------------*/

typedef enum sums_move { SUMS_LOAD, SUMS_CLEAR, SUMS_ADD, SUMS_STORE } sums_move;

/* Sums of one register tile: from the local array into registers or back, cleared, or with the
 * local array's added to them. */
static void move_sums(tiles_nest *t, uint32_t registers, lw_kval at, sums_move move) {
  lw_kbuilder *kb = &t->nest.kb;
  int64_t step = t->tile.panels * t->tile.lanes;
  uint32_t width = (uint32_t)t->tile.lanes;
  for (int64_t r = 0; r < t->tile.rows; r++) {
    lw_kval place = f2(t, LW_FN_ADD, at, c32(t, r * step)), in = c32(t, r * t->tile.lanes);
    if (move == SUMS_LOAD)
      lw__kb_movev(kb, registers, in, t->sums, place, width);
    else if (move == SUMS_CLEAR)
      lw__kb_movev(kb, registers, in, t->zeros, LW_NONE, width);
    else if (move == SUMS_ADD)
      lw__kb_muladdv(kb, registers, in, one_of(t), t->sums, place, width);
    else
      lw__kb_movev(kb, t->sums, place, registers, in, width);
  }
}

static lw_kval tile_number(tiles_nest *t, lw_kval tile) {
  return f2(t, LW_FN_ADD, f2(t, LW_FN_DIV, t->first_row, c64(t, t->tile.rows)), wide(t, tile));
}

static void multiply(tiles_nest *t, lw_kval batch, lw_kval tile, lw_kval p, uint32_t sums,
                     uint32_t right) {
  lw_kbuilder *kb = &t->nest.kb;
  const lw_cpu_tile *s = &t->tile;
  uint32_t width = (uint32_t)s->lanes;
  lw_kval at =
      scaled(t, tile, s->rows * s->panels * s->lanes, f2(t, LW_FN_MUL, p, c32(t, s->lanes)));
  lw_kval base = LW_NONE, row_base = LW_NONE;
  if (s->packed) base = packed_base(t, &t->packed_panels, batch, panel_number(t, p));
  if (s->rows_packed) row_base = packed_base(t, &t->packed_rows, batch, tile_number(t, tile));
  lw_kval first = f2(t, LW_FN_MUL, p, c32(t, s->depth * s->lanes));
  lw__kb_spill(kb);
  bool sliced = t->k > s->depth;
  move_sums(t, sums, at, sliced ? SUMS_CLEAR : SUMS_LOAD);
  lw_kval k = lw__kb_for(kb, LW_DTYPE_I32, c32(t, 0), t->slice_k, c32(t, 1), LW_KLOOP_SERIAL);
  lw_kval place = f2(t, LW_FN_MUL, k, c32(t, s->lanes));
  if (s->packed)
    lw__kb_loadv(kb, t->packed_panels.buffer, base, place, LW_NONE, right, LW_NONE, width);
  else
    lw__kb_movev(kb, right, LW_NONE, t->panels, f2(t, LW_FN_ADD, first, place), width);
  for (int64_t r = 0; r < s->rows; r++) {
    lw_kval from =
        t->along_k ? f2(t, LW_FN_ADD, k, c32(t, r * s->depth)) : scaled(t, k, s->rows, c32(t, r));
    lw_kval a = s->rows_packed ? lw__kb_load(kb, t->packed_rows.buffer, row_base, from, LW_NONE)
                               : lw__kb_lget(kb, t->rows, from);
    lw__kb_muladdv(kb, sums, c32(t, r * s->lanes), a, right, LW_NONE, width);
  }
  lw__kb_end(kb);
  if (sliced) move_sums(t, sums, at, SUMS_ADD);
  move_sums(t, sums, at, SUMS_STORE);
}

static lw_status multiply_slice(tiles_nest *t, lw_kval batch, uint32_t sums, uint32_t right) {
  bool tiles_open, panels_open;
  if (!t->tile.packed) LW_TRY(pack_panels(t));
  lw_kval tile = open_loop(t, t->tile_count, LW_KLOOP_SERIAL, &tiles_open);
  lw_kval first =
      f2(t, LW_FN_ADD, t->first_row, wide(t, f2(t, LW_FN_MUL, tile, c32(t, t->tile.rows))));
  if (!t->tile.rows_packed) LW_TRY(pack_rows(t, NULL, first, LW_NONE));
  lw_kval p = open_loop(t, t->panel_count, LW_KLOOP_SERIAL, &panels_open);
  multiply(t, batch, tile, p, sums, right);
  close_loop(t, panels_open);
  close_loop(t, tiles_open);
  return LW_OK;
}

static lw_status multiply_all(tiles_nest *t, lw_kval batch) {
  lw_kbuilder *kb = &t->nest.kb;
  const lw_cpu_tile *s = &t->tile;
  uint32_t lanes = (uint32_t)s->vector;
  uint32_t sums = lw__kb_registers(kb, t->type, (uint32_t)(s->rows * s->lanes), lanes);
  uint32_t right = lw__kb_registers(kb, t->type, (uint32_t)s->lanes, lanes);
  if (!s->rows_packed) t->rows = lw__kb_local(kb, t->type, (uint32_t)(s->rows * s->depth));
  if (!s->packed)
    t->panels = lw__kb_local(kb, t->type, (uint32_t)(s->panels * s->depth * s->lanes));
  bool sliced = t->k > s->depth;
  t->slice = c64(t, 0);
  if (sliced)
    t->slice =
        lw__kb_for(kb, LW_DTYPE_I64, c64(t, 0), c64(t, t->k), c64(t, s->depth), LW_KLOOP_SERIAL);
  t->slice_k = clipped(t, s->depth, c64(t, t->k), t->slice, t->k % s->depth == 0);
  LW_TRY(multiply_slice(t, batch, sums, right));
  close_loop(t, sliced);
  return LW_OK;
}

/* ---- results ----------------------------------------------------------------------------------*/

static void clear_sums(tiles_nest *t) {
  lw_kval count =
      f2(t, LW_FN_MUL, t->tile_count, c32(t, t->tile.rows * t->tile.panels * t->tile.lanes));
  lw_kval i = open_vector(t, c32(t, 0), count);
  lw__kb_lset(&t->nest.kb, t->sums, i, zero_of(t));
  close_loop(t, true);
  if (t->k <= t->tile.depth) return;
  t->zeros = lw__kb_local(&t->nest.kb, t->type, (uint32_t)t->tile.lanes);
  i = open_vector(t, c32(t, 0), c32(t, t->tile.lanes));
  lw__kb_lset(&t->nest.kb, t->zeros, i, zero_of(t));
  close_loop(t, true);
}

static lw_status store_sums(tiles_nest *t) {
  lw_region *region = t->nest.region;
  const lw_cpu_tile *s = &t->tile;
  bool rows_open, panels_open;
  lw_kval rows = clipped(t, s->rows * s->tiles, t->row_total, t->first_row,
                         s->swap && t->row_extent % (s->rows * s->tiles) == 0);
  lw_kval r = open_loop(t, rows, LW_KLOOP_SERIAL, &rows_open);
  LW_TRY(lw__nest_bind(&t->nest, t->row, f2(t, LW_FN_ADD, t->first_row, wide(t, r))));
  lw_kval p = open_loop(t, t->panel_count, LW_KLOOP_SERIAL, &panels_open);
  lw_kval number = panel_number(t, p);
  lw_kval lane = open_vector(t, c32(t, 0), lanes_in_use(t, number));
  LW_TRY(bind_lane(t, number, lane));
  lw_kval at = scaled(t, scaled(t, r, s->panels, p), s->lanes, lane);
  LW_TRY(lw__nest_leaf(&t->nest, lw__node(region->ctx->graph, region->anchor)->result,
                       lw__kb_lget(&t->nest.kb, t->sums, at), LW_NONE));
  for (uint32_t o = 0; o < region->outputs.count; o++)
    lw__nest_store(&t->nest, &region->outputs.data[o], LW_NONE);
  close_loop(t, true);
  close_loop(t, panels_open);
  close_loop(t, rows_open);
  return LW_OK;
}

/* ---- kernels ----------------------------------------------------------------------------------*/

/* Blocks count along n fastest, then m, then the batch. */
static lw_status block_body(tiles_nest *t, int64_t *out_grid) {
  const lw_cpu_tile *s = &t->tile;
  lw_kbuilder *kb = &t->nest.kb;
  int64_t row_blocks = lw__ceil_div(t->row_extent, s->rows * s->tiles);
  int64_t all_panels = lw__ceil_div(t->lane_extent, s->used);
  int64_t lane_blocks = lw__ceil_div(all_panels, s->panels);
  if (!lw__mul_i64(row_blocks, lane_blocks, out_grid) ||
      !lw__mul_i64(*out_grid, t->batch, out_grid))
    return LW_STATUS_UNSUPPORTED;
  lw_kval m_total = lw__kb_scalar(kb, lw__kb_scalar_arg(kb)), block = lw__kb_block(kb);
  t->row_total = s->swap ? c64(t, t->row_extent) : m_total;
  t->lane_total = s->swap ? m_total : c64(t, t->lane_extent);
  int64_t n_blocks = s->swap ? row_blocks : lane_blocks,
          m_blocks = s->swap ? lane_blocks : row_blocks;
  lw_kval n_block = f2(t, LW_FN_REM, block, c64(t, n_blocks)),
          m_block = f2(t, LW_FN_DIV, block, c64(t, n_blocks)), batch = c64(t, 0);
  if (t->batch > 1) {
    batch = f2(t, LW_FN_DIV, m_block, c64(t, m_blocks));
    m_block = f2(t, LW_FN_REM, m_block, c64(t, m_blocks));
  }
  LW_TRY(lw__nest_bind(&t->nest, t->b, batch));
  t->first_row = f2(t, LW_FN_MUL, s->swap ? n_block : m_block, c64(t, s->rows * s->tiles));
  t->first_panel = f2(t, LW_FN_MUL, s->swap ? m_block : n_block, c64(t, s->panels));
  lw_kval left = f2(t, LW_FN_SUB, t->row_total, t->first_row),
          up = f2(t, LW_FN_ADD, left, c64(t, s->rows - 1));
  t->tile_count =
      clipped(t, s->tiles, f2(t, LW_FN_DIV, up, c64(t, s->rows)), c64(t, 0), s->tiles == 1);
  lw_kval panels = c64(t, all_panels);
  if (s->swap)
    panels =
        f2(t, LW_FN_DIV, f2(t, LW_FN_ADD, t->lane_total, c64(t, s->used - 1)), c64(t, s->used));
  t->panel_count = clipped(t, s->panels, panels, t->first_panel,
                           s->panels == 1 || (!s->swap && all_panels % s->panels == 0));
  t->sums = lw__kb_local(kb, t->type, (uint32_t)(s->tiles * s->rows * s->panels * s->lanes));
  clear_sums(t);
  if (t->k > 0) LW_TRY(multiply_all(t, batch));
  return store_sums(t);
}

static lw_status build_products(tiles_nest *t, lw_region *region, const lw_lower_options *options,
                                lw_diag *diag, lw_lowered *out) {
  int64_t grid;
  LW_TRY(lw__nest_init(&t->nest, region, options, out, region->cls, 1));
  packed_operand *packed[] = {t->tile.packed ? &t->packed_panels : NULL,
                              t->tile.rows_packed ? &t->packed_rows : NULL};
  for (size_t i = 0; i < LW_ARRAY_COUNT(packed); i++)
    if (packed[i] != NULL)
      packed[i]->buffer = lw__nest_scratch(&t->nest, out, packed[i]->scratch, t->type, false);
  LW_TRY(block_body(t, &grid));
  return lw__nest_finish(&t->nest, grid, &region->m, 1, diag);
}

/* One block a panel or tile. */
static lw_status build_packing(tiles_nest *t, packed_operand *packed, lw_region *region,
                               const lw_lower_options *options, lw_diag *diag, lw_lowered *out) {
  lw_kbuilder *kb = &t->nest.kb;
  LW_TRY(lw__nest_init(&t->nest, region, options, out, LW_KCLASS_MAP, 1));
  packed->buffer = lw__nest_scratch(&t->nest, out, packed->scratch, t->type, true);
  lw_kval part = lw__kb_block(kb), batch = c64(t, 0);
  if (packed->batch > 1) {
    batch = f2(t, LW_FN_DIV, part, c64(t, packed->parts));
    part = f2(t, LW_FN_REM, part, c64(t, packed->parts));
  }
  t->lane_total = c64(t, t->lane_extent);
  t->row_total = c64(t, t->row_extent);
  t->slice = c64(t, 0);
  t->slice_k = c32(t, t->k);
  LW_TRY(lw__nest_bind(&t->nest, t->b, batch));
  lw_kval base = packed_base(t, packed, batch, part);
  if (packed == &t->packed_panels)
    LW_TRY(pack_panel(t, packed, part, base, c32(t, 0)));
  else
    LW_TRY(pack_rows(t, packed, f2(t, LW_FN_MUL, part, c64(t, t->tile.rows)), base));
  LW_TRY(lw__nest_finish(&t->nest, packed->batch * packed->parts, NULL, 0, diag));
  lw__nest_deinit(&t->nest);
  return LW_OK;
}

/* ---- choices ----------------------------------------------------------------------------------*/

/* Is everything that |e| reads known once the weights are? */
static bool is_constant(const lw_region *region, lw_elem e) {
  if (e == LW_NONE) return true;
  const lw_elem_node *n = lw__elem_node(&region->pool, e);
  bool reads = n->kind == LW_ELEM_LOAD || n->kind == LW_ELEM_GATHER;
  if (n->kind == LW_ELEM_LEAF || (reads && region->ctx->constant[n->value] == 0)) return false;
  for (int i = 0; i < 3; i++)
    if (!is_constant(region, n->arg[i])) return false;
  for (uint32_t i = 0; i < n->coord_count; i++)
    if (!is_constant(region, region->pool.coords.data[n->coord_begin + i].elem)) return false;
  return true;
}

static bool depends_on(const lw_region *region, lw_elem e, lw_ix var) {
  const lw_ix_pool *ix = &region->pool.ix;
  if (e == LW_NONE || lw__ix_node(ix, var)->kind != LW_IX_VAR) return false;
  uint32_t number = lw__ix_var_number(ix, var);
  const lw_elem_node *n = lw__elem_node(&region->pool, e);
  if (n->ix != LW_NONE && lw__ix_depends(ix, n->ix, number)) return true;
  for (int i = 0; i < 3; i++)
    if (depends_on(region, n->arg[i], var)) return true;
  for (uint32_t i = 0; i < n->coord_count; i++) {
    const lw_elem_coord *c = &region->pool.coords.data[n->coord_begin + i];
    if (depends_on(region, c->elem, var) || (c->ix != LW_NONE && lw__ix_depends(ix, c->ix, number)))
      return true;
  }
  return false;
}

/* Few columns are rows of the turned product. */
static bool should_swap(const lw_region *region, int64_t vector) {
  return region->n * 2 <= vector && region->m >= 2 * region->n;
}

static double pack_cost(lw_region *region, lw_elem factor, lw_ix lane, lw_ix k) {
  if (lw__elem_node(&region->pool, factor)->kind != LW_ELEM_LOAD) return 4;
  if (lw__contraction_runs_along(region, factor, lane)) return 0.4;
  return lw__contraction_runs_along(region, factor, k) ? 1.5 : 3;
}

/* Looks at the region in its plain space. */
static lw_status choose(lw_region_context *ctx, const lw_node_id *nodes, uint32_t count,
                        const lw_lower_options *options, lw_cpu_tile *tile) {
  lw_region plain;
  lw_ix space[4];
  lw_vec_i64 divisors = {0}, k_divisors = {0};
  lw_status status = lw__region_init(&plain, ctx, nodes, count);
  if (status == LW_OK) {
    lw__region_plain_space(&plain, space);
    status = lw__region_place(&plain, space);
  }
  if (status == LW_OK && plain.elements > 0) {
    lw_cpu_extents x = {
        .batch = plain.b, .k = plain.k, .divisors = &divisors, .k_divisors = &k_divisors};
    x.bytes = (int64_t)lw_dtype_size_bytes(lw__contraction_type(&plain));
    tile->swap = should_swap(&plain, options->profile->vector_bytes / x.bytes);
    lw_ix lane = tile->swap ? space[1] : space[2];
    lw_elem factor = tile->swap ? plain.lhs : plain.rhs;
    lw_elem other = tile->swap ? plain.rhs : plain.lhs;
    x.guarded = plain.cls == LW_KCLASS_CONV && !tile->swap;
    x.rows = tile->swap ? plain.n : plain.m;
    x.lanes = tile->swap ? plain.m : plain.n;
    x.packed = x.k > 0 && is_constant(&plain, factor);
    x.rows_packed = x.k > 0 && is_constant(&plain, other);
    x.pack_cost = x.k > 0 ? pack_cost(&plain, factor, lane, space[3]) : 0;
    status = lw__nest_divisors(&plain, lane, &divisors);
    if (status == LW_OK) status = lw__nest_divisors(&plain, space[3], &k_divisors);
    if (status == LW_OK) lw__cpu_tile_choose(options->profile, &x, tile);
  }
  lw_vec_free(&divisors);
  lw_vec_free(&k_divisors);
  lw__region_deinit(&plain);
  return status;
}

static lw_ix digits_of_k(tiles_nest *t, lw_region *region) {
  lw_ix_pool *ix = &region->pool.ix;
  const lw_cpu_tile *s = &t->tile;
  lw_ix k = lw__ix_const(ix, 0);
  for (uint32_t i = 0; i < s->digits; i++) {
    int64_t end = i + 1 < s->digits ? s->scales[i + 1] : t->k;
    t->digit[i] = lw__region_var(region, end / s->scales[i]);
    k = lw__ix_add(ix, k, lw__ix_affine(ix, t->digit[i], s->scales[i], 0));
  }
  return k;
}

/* The region in its space: b, rows, lanes and k, lanes as panel * lanes + lane where |split|. */
static lw_status place(tiles_nest *t, lw_region *region, bool split) {
  lw_ix_pool *ix = &region->pool.ix;
  lw_ix space[4];
  bool swap = t->tile.swap;
  lw__region_plain_space(region, space);
  t->b = space[0];
  t->row = space[swap ? 2 : 1];
  t->lane = space[swap ? 1 : 2];
  t->panel = LW_NONE;
  t->row_extent = swap ? region->n : region->m;
  t->lane_extent = swap ? region->m : region->n;
  t->batch = region->b;
  t->k = region->k;
  t->type = lw__contraction_type(region);
  if (split) {
    t->panel = lw__region_var(region, lw__ceil_div(t->lane_extent, t->tile.used));
    t->lane = lw__region_var(region, t->tile.used);
    space[swap ? 1 : 2] = lw__ix_add(ix, lw__ix_affine(ix, t->panel, t->tile.used, 0), t->lane);
  }
  if (t->k > 0) space[3] = digits_of_k(t, region);
  LW_TRY(lw__region_place(region, space));
  t->row_factor = swap ? region->rhs : region->lhs;
  t->lane_factor = swap ? region->lhs : region->rhs;
  t->along_k = t->k > 0 && !t->tile.rows_packed &&
               lw__contraction_runs_along(region, t->row_factor, t->digit[0]);
  return LW_OK;
}

/* Packs one operand by a launch of its own. */
static lw_status pack_once(tiles_nest *t, packed_operand *packed, lw_elem factor, int64_t parts,
                           int64_t width, lw_region *region, const lw_lower_options *options,
                           lw_diag *diag, lw_lowered *out) {
  int64_t elements;
  packed->batch = depends_on(region, factor, t->b) ? t->batch : 1;
  packed->parts = parts;
  packed->width = width;
  packed->scratch = out->scratch_bytes.count;
  if (!lw__mul_i64(packed->parts * width, t->k, &elements) ||
      !lw__mul_i64(elements, packed->batch * (int64_t)lw_dtype_size_bytes(t->type), &elements))
    return LW_STATUS_UNSUPPORTED;
  LW_TRY(lw_vec_push(&out->scratch_bytes, (uint64_t)elements));
  return build_packing(t, packed, region, options, diag, out);
}

static lw_status build(tiles_nest *t, lw_region *region, bool split,
                       const lw_lower_options *options, lw_diag *diag, lw_lowered *out) {
  const lw_cpu_tile *s = &t->tile;
  LW_TRY(place(t, region, split));
  if (s->packed)
    LW_TRY(pack_once(t, &t->packed_panels, t->lane_factor, lw__ceil_div(t->lane_extent, s->used),
                     s->lanes, region, options, diag, out));
  if (s->rows_packed)
    LW_TRY(pack_once(t, &t->packed_rows, t->row_factor, lw__ceil_div(t->row_extent, s->rows),
                     s->rows, region, options, diag, out));
  LW_TRY(build_products(t, region, options, diag, out));
  return lw__arena_printf(
      &out->arena, &out->schedule, "tiles of %lld x %lld in registers%s, %lld x %lld a block%s",
      (long long)s->rows, (long long)s->lanes, s->swap ? " (turned)" : "", (long long)s->tiles,
      (long long)s->panels, s->packed || s->rows_packed ? ", weights packed once" : "");
}

static lw_status lower_tiles(lw_region_context *ctx, const lw_node_id *nodes, uint32_t count,
                             const lw_cpu_tile *tile, bool split, const lw_lower_options *options,
                             lw_diag *diag, lw_lowered *out) {
  tiles_nest t = {.tile = *tile};
  lw_region region;
  lw_status status = lw__region_init(&region, ctx, nodes, count);
  if (status == LW_OK && region.elements > 0)
    status = build(&t, &region, split, options, diag, out);
  lw__nest_deinit(&t.nest);
  lw__region_deinit(&region);
  return status;
}

lw_status lw__lower_contraction_cpu(lw_region_context *ctx, const lw_node_id *nodes, uint32_t count,
                                    const lw_lower_options *options, lw_diag *diag,
                                    lw_lowered *out) {
  lw_cpu_tile tile = {0};
  LW_TRY(choose(ctx, nodes, count, options, &tile));
  /* A split index can make arithmetic that no longer shows that the product is read where it is
   * made. */
  lw_status status = lower_tiles(ctx, nodes, count, &tile, true, options, diag, out);
  return status == LW_STATUS_UNSUPPORTED && out->launches.count == 0
             ? lower_tiles(ctx, nodes, count, &tile, false, options, diag, out)
             : status;
}

/* contraction_cpu.h: the shape of a product or convolution on a CPU. One operand runs along vector
 * lanes, the other along rows. A register tile is |rows| x |lanes| sums; per k it takes the lanes
 * of one operand from a panel and multiplies them with |rows| scalars of the other. Panels are
 * packed, [k][lane], once for all runs when the operand is made from constants, by each block
 * otherwise. Internal to lower/. */
#ifndef LW_COMPILER_CONTRACTION_CPU_H
#define LW_COMPILER_CONTRACTION_CPU_H

#include "compiler/lower/contraction.h"

enum { LW_CPU_DIGITS = 5 };

typedef struct lw_cpu_tile {
  bool swap;             /* lanes along m, rows along n; else lanes along n */
  bool packed;           /* panels come from a buffer that the init program fills */
  bool rows_packed;      /* rows do, [tile][k][row] */
  int64_t vector, lanes; /* elements of a register; of a panel, a few registers */
  int64_t used; /* lanes of a panel that hold something, at most |lanes|: a row of an image */
  int64_t rows;          /* of a register tile */
  int64_t tiles, panels; /* of a block: tiles x rows by panels x lanes results */
  int64_t depth; /* k of one slice, at most k (and 1 when k is 0), a multiple of the last scale */
  /* k is counted by digits: k = sum of digit i times scale i, scale 0 = 1. Addresses with divisions
   * of k in them (taps of convolutions) then need none. */
  int64_t scales[LW_CPU_DIGITS];
  uint32_t digits;
} lw_cpu_tile;

/* What the choice depends on. */
typedef struct lw_cpu_extents {
  int64_t batch, rows, lanes, k;
  int64_t bytes;              /* of an element of the sums */
  const lw_vec_i64 *divisors; /* where digits of the lanes' variable begin */
  const lw_vec_i64 *k_divisors;
  bool packed, rows_packed;
  bool guarded; /* addresses of lanes past the end have guards with divisions in them: images */
  double pack_cost;           /* cycles an element of the lanes' operand takes to pack */
} lw_cpu_extents;

/* Lanes, rows, blocks and depth by predicted cycles. Up from 1024 rows the choice does not depend
 * on their number, so that one kernel serves all. */
void lw__cpu_tile_choose(const lw_device_profile *profile, const lw_cpu_extents *extents,
                         lw_cpu_tile *tile);

#endif

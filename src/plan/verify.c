/* verify.c: the independent checker of plans. It shares no code with linking and placing: it works
 * on the bytes of the finished layout, not on buffers.
 *
 * Method. Each block of memory (arena, weights, one input, one output) is cut into cells at every
 * boundary of an access. Per cell the accesses are followed in step order: a read must come after
 * the last write, a write after the last write and all reads since. If every such pair is ordered
 * by a path of |deps|, every conflicting pair is, since order is transitive. The pairs are gathered
 * first and then answered together, by spreading bit sets of a few thousand source steps at a time
 * along |deps|.
 *
 * A run with lanes is looked at twice. First every buffer of the arena gets bytes of its own, and
 * |deps| must order what conflicts: they say what the steps mean, wherever buffers lie. Then the
 * finished layout is asked about the order of the lanes and their waits, which must imply |deps|,
 * too. */
#include <inttypes.h>
#include <stdlib.h>

#include "plan/plan.h"

#define VERIFY_REPORT_LIMIT 16
#define VERIFY_ALIGN_BYTES 256
#define VERIFY_WEIGHT_ALIGN_BYTES 16

typedef struct verify_touch { /* an access to bytes [begin, end) of its block */
  uint32_t step, buffer;
  uint64_t begin, end;
  bool write;
} verify_touch;

typedef struct verify_pair { /* |first| must happen before |second| */
  uint32_t first, second, buffer;
} verify_pair;

typedef struct verify_mark {
  uint32_t step, buffer;
} verify_mark;

typedef struct verify_cell {
  verify_mark writer;          /* step LW_NONE: nobody wrote it yet */
  LW_VEC(verify_mark) readers; /* since the last write */
} verify_cell;

typedef LW_VEC(verify_touch) verify_touches;

typedef struct verifier {
  const lw_plan *plan;
  lw_diag *diag;
  const char *program; /* "step" or "init step" */
  const lw_plan_step *steps;
  uint32_t count;
  uint32_t problems;
  lw_arena scratch;
  verify_touches *blocks; /* arena, weights, inputs, outputs */
  uint32_t block_count;
  LW_VEC(verify_pair) pairs;
  const uint64_t *apart;    /* per buffer: where it would lie if no two shared bytes, or NULL */
  const uint32_t *previous; /* per step: the one before it in its lane, or LW_NONE; NULL: |deps| */
} verifier;

#define BLOCK_ARENA 0u
#define BLOCK_WEIGHTS 1u
#define BLOCK_IO 2u

static void LW_PRINTF(3, 4) verify_report(verifier *v, uint32_t step, const char *fmt, ...) {
  if (v->problems++ >= VERIFY_REPORT_LIMIT) return;
  lw_text text = {0}, where = {0};
  va_list args;
  va_start(args, fmt);
  lw__text_vadd(&text, fmt, args);
  va_end(args);
  if (step != LW_NONE) {
    const char *label = v->steps[step].label;
    lw__text_add(&where, "plan: %s %u", v->program, step);
    if (label != NULL) lw__text_add(&where, " (%s)", label);
  } else {
    lw__text_add(&where, "plan");
  }
  (void)lw__fail(v->diag, LW_STATUS_INTERNAL, lw__text_str(&where), "%s", lw__text_str(&text));
  lw__text_deinit(&text);
  lw__text_deinit(&where);
}

/* ---- single facts ---- */

static void verify_buffer(verifier *v, uint32_t id) {
  const lw_plan_buffer *buffer = &v->plan->buffers.data[id];
  uint64_t block_bytes = UINT64_MAX, align = 1;
  switch (buffer->kind) {
    case LW_BUFFER_INPUT:
      if (buffer->index >= v->plan->inputs.count) {
        verify_report(v, LW_NONE, "buffer %u: there is no input %u", id, buffer->index);
      }
      return;
    case LW_BUFFER_OUTPUT:
      if (buffer->index >= v->plan->outputs.count) {
        verify_report(v, LW_NONE, "buffer %u: there is no output %u", id, buffer->index);
      }
      return;
    case LW_BUFFER_WEIGHT:
    case LW_BUFFER_DERIVED:
      block_bytes = v->plan->weight_bytes;
      align = VERIFY_WEIGHT_ALIGN_BYTES;
      break;
    case LW_BUFFER_ARENA:
      block_bytes = v->plan->arena_bytes;
      align = VERIFY_ALIGN_BYTES;
      break;
    default: verify_report(v, LW_NONE, "buffer %u: unknown kind %d", id, (int)buffer->kind); return;
  }
  if (buffer->bytes == 0) return;
  if (buffer->kind == LW_BUFFER_WEIGHT && buffer->data == NULL) {
    verify_report(v, LW_NONE, "buffer %u: a weight without data", id);
  }
  /* An arena buffer that no step touches has no place; its accesses are checked one by one. */
  if (buffer->kind == LW_BUFFER_ARENA) return;
  if (buffer->offset % align != 0) {
    verify_report(v, LW_NONE, "buffer %u: offset %" PRIu64 " is not aligned", id, buffer->offset);
  }
  if (buffer->offset > block_bytes || buffer->bytes > block_bytes - buffer->offset) {
    verify_report(v, LW_NONE, "buffer %u: reaches beyond the weights block", id);
  }
}

/* Bytes of a tensor, or UINT64_MAX when its type or extents are invalid. */
static uint64_t verify_io_bytes(const lw_plan_io *io) {
  uint64_t bytes = lw_dtype_size_bytes(io->dtype);
  if (bytes == 0 || io->rank > LW_MAX_RANK) return UINT64_MAX;
  bool empty = false;
  for (uint32_t d = 0; d < io->rank; d++) {
    if (io->dims[d] < 0) return UINT64_MAX;
    if (io->dims[d] == 0) empty = true;
  }
  for (uint32_t d = 0; d < io->rank && !empty; d++) {
    if (__builtin_mul_overflow(bytes, (uint64_t)io->dims[d], &bytes)) return UINT64_MAX;
  }
  return empty ? 0 : bytes;
}

static void verify_ios(verifier *v, const lw_plan_io *ios, uint32_t count, lw_buffer_kind kind) {
  const char *what = kind == LW_BUFFER_INPUT ? "input" : "output";
  for (uint32_t i = 0; i < count; i++) {
    if (ios[i].buffer >= v->plan->buffers.count) {
      verify_report(v, LW_NONE, "%s %u: there is no buffer %u", what, i, ios[i].buffer);
      continue;
    }
    const lw_plan_buffer *buffer = &v->plan->buffers.data[ios[i].buffer];
    if (buffer->kind != kind || buffer->index != i) {
      verify_report(v, LW_NONE, "%s %u: buffer %u is not of this %s", what, i, ios[i].buffer, what);
    }
    if (verify_io_bytes(&ios[i]) != buffer->bytes) {
      verify_report(v, LW_NONE, "%s %u: %" PRIu64 " bytes do not match its type and extents", what,
                    i, buffer->bytes);
    }
  }
}

/* The maps of a launch come last, each of one of its buffers. */
static void verify_map(verifier *v, uint32_t id, uint32_t k) {
  const lw_plan_step *step = &v->steps[id];
  const lw_plan_map *map = step->args[k].map;
  if (step->kind != LW_STEP_LAUNCH || map == NULL || map->arg >= step->arg_count ||
      step->args[map->arg].kind != LW_ARG_BUFFER ||
      step->args[map->arg].buffer >= v->plan->buffers.count) {
    verify_report(v, id, "argument %u: a tensor map of no buffer", k);
    return;
  }
  const lw_plan_arg *of = &step->args[map->arg];
  uint64_t bytes = v->plan->buffers.data[of->buffer].bytes;
  const char *refusal = of->offset_bytes > bytes
                            ? "its buffer ends before it"
                            : lw__plan_map_refusal(map, bytes - of->offset_bytes);
  if (refusal != NULL) verify_report(v, id, "argument %u: %s", k, refusal);
}

static void verify_arg(verifier *v, uint32_t id, uint32_t k) {
  const lw_plan_step *step = &v->steps[id];
  const lw_plan_arg *arg = &step->args[k];
  if (arg->kind == LW_ARG_TENSOR_MAP) {
    verify_map(v, id, k);
    return;
  }
  if (arg->kind == LW_ARG_SCALAR) {
    if (step->kind != LW_STEP_LAUNCH) verify_report(v, id, "argument %u: a scalar", k);
    if (k > 0 && step->args[k - 1].kind == LW_ARG_TENSOR_MAP)
      verify_report(v, id, "argument %u: a scalar after a tensor map", k);
    return;
  }
  if (arg->kind != LW_ARG_BUFFER || arg->buffer >= v->plan->buffers.count) {
    verify_report(v, id, "argument %u: no such buffer", k);
    return;
  }
  if (k > 0 && step->args[k - 1].kind != LW_ARG_BUFFER) {
    verify_report(v, id, "argument %u: a buffer after a scalar or a tensor map", k);
  }
  const lw_plan_buffer *buffer = &v->plan->buffers.data[arg->buffer];
  uint64_t need = step->kind == LW_STEP_LAUNCH ? 0 : step->bytes;
  if (arg->offset_bytes > buffer->bytes || need > buffer->bytes - arg->offset_bytes) {
    verify_report(v, id, "argument %u: reaches beyond buffer %u", k, arg->buffer);
  }
  bool write = step->kind == LW_STEP_LAUNCH ? arg->written : k == 0;
  bool init = v->steps == v->plan->init.data;
  if (arg->written != write) verify_report(v, id, "argument %u: wrong direction", k);
  if (write && (buffer->kind == LW_BUFFER_INPUT || buffer->kind == LW_BUFFER_WEIGHT ||
                (buffer->kind == LW_BUFFER_DERIVED && !init))) {
    verify_report(v, id, "argument %u: writes buffer %u, which is read-only", k, arg->buffer);
  }
  if (init && (buffer->kind == LW_BUFFER_INPUT || buffer->kind == LW_BUFFER_OUTPUT)) {
    verify_report(v, id, "argument %u: the init program touches an input or output", k);
  }
  if (buffer->kind != LW_BUFFER_ARENA || buffer->bytes == 0) return;
  if (buffer->offset % VERIFY_ALIGN_BYTES != 0) {
    verify_report(v, id, "buffer %u: offset %" PRIu64 " is not aligned", arg->buffer,
                  buffer->offset);
  }
  if (buffer->offset > v->plan->arena_bytes ||
      buffer->bytes > v->plan->arena_bytes - buffer->offset) {
    verify_report(v, id, "buffer %u: reaches beyond the arena", arg->buffer);
  }
}

static void verify_step(verifier *v, uint32_t id) {
  const lw_plan_step *step = &v->steps[id];
  if (step->kind == LW_STEP_LAUNCH) {
    if (step->kernel >= v->plan->kernels.count) {
      verify_report(v, id, "there is no kernel %u", step->kernel);
    }
    if (step->grid < 1) verify_report(v, id, "the grid is %" PRId64, step->grid);
  } else if (step->kind == LW_STEP_COPY || step->kind == LW_STEP_FILL) {
    uint32_t want = step->kind == LW_STEP_COPY ? 2 : 1;
    if (step->arg_count != want)
      verify_report(v, id, "%u arguments, not %u", step->arg_count, want);
  } else {
    verify_report(v, id, "unknown kind %d", (int)step->kind);
  }
  for (uint32_t k = 0; k < step->arg_count; k++) verify_arg(v, id, k);
  for (uint32_t d = 0; d < step->dep_count; d++) {
    if (step->deps[d] >= id)
      verify_report(v, id, "waits for step %u, which is not earlier", step->deps[d]);
  }
}

/* ---- order of accesses ---- */

static lw_status verify_push_touch(verifier *v, uint32_t id, uint32_t k) {
  const lw_plan_step *step = &v->steps[id];
  const lw_plan_arg *arg = &step->args[k];
  if (arg->kind != LW_ARG_BUFFER) return LW_OK;
  const lw_plan_buffer *buffer = &v->plan->buffers.data[arg->buffer];
  uint64_t bytes = step->kind == LW_STEP_LAUNCH ? buffer->bytes - arg->offset_bytes : step->bytes;
  if (bytes == 0) return LW_OK;
  uint32_t block = BLOCK_ARENA;
  uint64_t base = v->apart != NULL ? v->apart[arg->buffer] : buffer->offset;
  if (buffer->kind == LW_BUFFER_INPUT) {
    block = BLOCK_IO + buffer->index;
    base = 0;
  } else if (buffer->kind == LW_BUFFER_OUTPUT) {
    block = BLOCK_IO + v->plan->inputs.count + buffer->index;
    base = 0;
  } else if (buffer->kind != LW_BUFFER_ARENA) {
    block = BLOCK_WEIGHTS;
    base = buffer->offset;
  }
  verify_touch touch = {.step = id,
                        .buffer = arg->buffer,
                        .begin = base + arg->offset_bytes,
                        .end = base + arg->offset_bytes + bytes,
                        .write = arg->written};
  return lw_vec_push(&v->blocks[block], touch);
}

static int verify_compare_u64(const void *a, const void *b) {
  uint64_t x = *(const uint64_t *)a, y = *(const uint64_t *)b;
  return x < y ? -1 : x > y;
}

static uint32_t verify_cell_at(const uint64_t *cuts, uint32_t count, uint64_t offset) {
  uint32_t low = 0, high = count;
  while (low < high) {
    uint32_t middle = low + (high - low) / 2;
    if (cuts[middle] < offset) {
      low = middle + 1;
    } else {
      high = middle;
    }
  }
  return low;
}

/* Two buffers may not share bytes within one step; one buffer may be read and written, which is
 * work in place. */
static lw_status verify_need(verifier *v, verify_mark before, const verify_touch *touch) {
  if (before.step == touch->step) {
    if (before.buffer != touch->buffer) {
      verify_report(v, touch->step, "touches buffers %u and %u, which share bytes, and writes one",
                    before.buffer, touch->buffer);
    }
    return LW_OK;
  }
  /* The same pair comes up for every cell of a buffer. */
  if (v->pairs.count != 0) {
    const verify_pair *last = &v->pairs.data[v->pairs.count - 1];
    if (last->first == before.step && last->second == touch->step) return LW_OK;
  }
  return lw_vec_push(&v->pairs, (verify_pair){before.step, touch->step, touch->buffer});
}

static lw_status verify_follow(verifier *v, verify_cell *cell, const verify_touch *touch) {
  verify_mark mark = {touch->step, touch->buffer};
  if (!touch->write) {
    lw_buffer_kind kind = v->plan->buffers.data[touch->buffer].kind;
    if (cell->writer.step != LW_NONE) {
      LW_TRY(verify_need(v, cell->writer, touch));
    } else if (kind != LW_BUFFER_INPUT && kind != LW_BUFFER_WEIGHT) {
      verify_report(v, touch->step, "reads bytes of buffer %u that no earlier step wrote",
                    touch->buffer);
    }
    return lw_vec_push(&cell->readers, mark);
  }
  for (uint32_t i = 0; i < cell->readers.count; i++) {
    LW_TRY(verify_need(v, cell->readers.data[i], touch));
  }
  if (cell->writer.step != LW_NONE) LW_TRY(verify_need(v, cell->writer, touch));
  cell->writer = mark;
  cell->readers.count = 0;
  return LW_OK;
}

/* Within one step reads are followed before writes, since the kernel reads what was there. */
static lw_status verify_follow_all(verifier *v, const verify_touches *touches, const uint64_t *cuts,
                                   uint32_t cut_count, verify_cell *cells) {
  uint32_t begin = 0;
  while (begin < touches->count) {
    uint32_t end = begin;
    while (end < touches->count && touches->data[end].step == touches->data[begin].step) end++;
    for (int pass = 0; pass < 2; pass++) {
      for (uint32_t i = begin; i < end; i++) {
        const verify_touch *touch = &touches->data[i];
        if (touch->write != (pass == 1)) continue;
        uint32_t c = verify_cell_at(cuts, cut_count, touch->begin);
        for (; cuts[c] < touch->end; c++) LW_TRY(verify_follow(v, &cells[c], touch));
      }
    }
    begin = end;
  }
  return LW_OK;
}

static lw_status verify_block(verifier *v, uint32_t block) {
  const verify_touches *touches = &v->blocks[block];
  /* Nobody writes inputs, and a run only reads what the init program derived. */
  if (touches->count == 0) return LW_OK;
  if (block >= BLOCK_IO && block < BLOCK_IO + v->plan->inputs.count) return LW_OK;
  if (block == BLOCK_WEIGHTS && v->steps != v->plan->init.data) return LW_OK;
  uint64_t *cuts;
  uint32_t cut_count = 0;
  LW_TRY(lw__arena_alloc(&v->scratch, (size_t)touches->count * 2, sizeof *cuts, &cuts));
  for (uint32_t i = 0; i < touches->count; i++) {
    cuts[2 * i] = touches->data[i].begin;
    cuts[2 * i + 1] = touches->data[i].end;
  }
  qsort(cuts, (size_t)touches->count * 2, sizeof *cuts, verify_compare_u64);
  for (uint32_t i = 0; i < touches->count * 2; i++) {
    if (cut_count == 0 || cuts[cut_count - 1] != cuts[i]) cuts[cut_count++] = cuts[i];
  }
  verify_cell *cells;
  LW_TRY(lw__arena_alloc(&v->scratch, cut_count, sizeof *cells, &cells));
  for (uint32_t i = 0; i < cut_count; i++) cells[i].writer.step = LW_NONE;
  lw_status status = verify_follow_all(v, touches, cuts, cut_count, cells);
  for (uint32_t i = 0; i < cut_count; i++) lw_vec_free(&cells[i].readers);
  return status;
}

/* Bits of |sources| consecutive steps from |base| on: spread[i] has bit k when step base + k
 * reaches step i. */
#define SPREAD_WORDS 64u
#define SPREAD_SOURCES (SPREAD_WORDS * 64u)

/* Whoever reaches step |from| reaches the step that owns |row|. */
static void verify_join(const uint64_t *spread, uint32_t base, uint32_t from, uint64_t *row) {
  if (from < base) return;
  const uint64_t *before = &spread[(size_t)(from - base) * SPREAD_WORDS];
  for (uint32_t w = 0; w < SPREAD_WORDS; w++) row[w] |= before[w];
}

static void verify_spread(const verifier *v, uint32_t base, uint64_t *spread) {
  for (uint32_t i = base; i < v->count; i++) {
    uint64_t *row = &spread[(size_t)(i - base) * SPREAD_WORDS];
    for (uint32_t w = 0; w < SPREAD_WORDS; w++) row[w] = 0;
    bool lanes = v->previous != NULL;
    const lw_plan_step *step = &v->steps[i];
    for (uint32_t d = 0; d < (lanes ? step->wait_count : step->dep_count); d++) {
      verify_join(spread, base, lanes ? step->waits[d] : step->deps[d], row);
    }
    if (lanes && v->previous[i] != LW_NONE) verify_join(spread, base, v->previous[i], row);
    if (i - base < SPREAD_SOURCES) row[(i - base) / 64] |= UINT64_C(1) << (i - base) % 64;
  }
}

static int verify_compare_pair(const void *a, const void *b) {
  const verify_pair *x = a, *y = b;
  if (x->first != y->first) return x->first < y->first ? -1 : 1;
  return x->second < y->second ? -1 : x->second > y->second;
}

static lw_status verify_pairs(verifier *v) {
  if (v->pairs.count == 0) return LW_OK;
  qsort(v->pairs.data, v->pairs.count, sizeof *v->pairs.data, verify_compare_pair);
  uint64_t *spread;
  LW_TRY(lw__arena_alloc(&v->scratch, v->count, SPREAD_WORDS * sizeof *spread, &spread));
  uint32_t base = 0;
  bool ready = false;
  for (uint32_t i = 0; i < v->pairs.count; i++) {
    const verify_pair *pair = &v->pairs.data[i];
    if (i != 0 && verify_compare_pair(pair, pair - 1) == 0) continue;
    if (!ready || pair->first - base >= SPREAD_SOURCES) {
      base = pair->first;
      verify_spread(v, base, spread);
      ready = true;
    }
    uint64_t word =
        spread[(size_t)(pair->second - base) * SPREAD_WORDS + (pair->first - base) / 64];
    if ((word >> (pair->first - base) % 64 & 1) != 0) continue;
    if (pair->buffer == LW_NONE) {
      verify_report(v, pair->second, "lanes and waits do not imply that step %u comes first",
                    pair->first);
    } else {
      verify_report(v, pair->second, "touches buffer %u without waiting for step %u", pair->buffer,
                    pair->first);
    }
  }
  return LW_OK;
}

/* Every conflict of the program's steps is ordered by what |previous| says orders them. */
static lw_status verify_order(verifier *v) {
  for (uint32_t b = 0; b < v->block_count; b++) v->blocks[b].count = 0;
  for (uint32_t i = 0; i < v->count; i++) {
    for (uint32_t k = 0; k < v->steps[i].arg_count; k++) LW_TRY(verify_push_touch(v, i, k));
  }
  for (uint32_t b = 0; b < v->block_count; b++) LW_TRY(verify_block(v, b));
  LW_TRY(verify_pairs(v));
  v->pairs.count = 0;
  return LW_OK;
}

/* ---- lanes ---- */

static void verify_step_lanes(verifier *v, uint32_t id) {
  const lw_plan_step *step = &v->steps[id];
  if (step->lane >= v->plan->lane_count) {
    verify_report(v, id, "lane %u, and there are %u", step->lane, v->plan->lane_count);
  }
  for (uint32_t i = 0; i < step->wait_count; i++) {
    uint32_t wait = step->waits[i];
    if (wait >= id) {
      verify_report(v, id, "waits for step %u, which is not earlier", wait);
    } else if (v->steps[wait].lane == step->lane) {
      verify_report(v, id, "waits for step %u of its own lane", wait);
    }
  }
}

static lw_status verify_apart(verifier *v) {
  uint64_t *apart, end = 0;
  LW_TRY(lw__arena_alloc(&v->scratch, v->plan->buffers.count, sizeof *apart, &apart));
  for (uint32_t b = 0; b < v->plan->buffers.count; b++) {
    apart[b] = end;
    if (v->plan->buffers.data[b].kind != LW_BUFFER_ARENA) continue;
    if (__builtin_add_overflow(end, v->plan->buffers.data[b].bytes, &end)) {
      return LW_STATUS_OUT_OF_MEMORY;
    }
  }
  v->apart = apart;
  lw_status status = verify_order(v);
  v->apart = NULL;
  return status;
}

static lw_status verify_lanes(verifier *v) {
  uint32_t last[LW_PLAN_MAX_LANES], *previous;
  if (v->plan->lane_count > LW_PLAN_MAX_LANES) {
    verify_report(v, LW_NONE, "%u lanes are more than %u", v->plan->lane_count, LW_PLAN_MAX_LANES);
    return LW_OK;
  }
  for (uint32_t i = 0; i < v->count; i++) verify_step_lanes(v, i);
  if (v->problems != 0) return LW_OK;
  LW_TRY(verify_apart(v));
  LW_TRY(lw__arena_alloc(&v->scratch, v->count, sizeof *previous, &previous));
  for (uint32_t lane = 0; lane < LW_PLAN_MAX_LANES; lane++) last[lane] = LW_NONE;
  for (uint32_t i = 0; i < v->count; i++) {
    const lw_plan_step *step = &v->steps[i];
    previous[i] = last[step->lane];
    last[step->lane] = i;
    for (uint32_t d = 0; d < step->dep_count; d++) {
      verify_pair pair = {step->deps[d], i, LW_NONE};
      LW_TRY(lw_vec_push(&v->pairs, pair));
    }
  }
  v->previous = previous;
  lw_status status = verify_order(v);
  v->previous = NULL;
  return status;
}

static lw_status verify_program(verifier *v, const lw_plan_step *steps, uint32_t count,
                                const char *name) {
  v->steps = steps;
  v->count = count;
  v->program = name;
  v->pairs.count = 0;
  for (uint32_t i = 0; i < count; i++) verify_step(v, i);
  if (v->problems != 0) return LW_OK;
  bool run = steps == v->plan->steps.data;
  return run && v->plan->lane_count != 0 ? verify_lanes(v) : verify_order(v);
}

/* ---- whole blocks ---- */

static int verify_compare_touch(const void *a, const void *b) {
  const verify_touch *x = a, *y = b;
  if (x->begin != y->begin) return x->begin < y->begin ? -1 : 1;
  return x->end < y->end ? -1 : x->end > y->end;
}

/* Weights are there forever: none may lie on another, unless it is the same bytes twice. */
static lw_status verify_weights(verifier *v) {
  verify_touches *list = &v->blocks[BLOCK_WEIGHTS];
  list->count = 0;
  for (uint32_t b = 0; b < v->plan->buffers.count; b++) {
    const lw_plan_buffer *buffer = &v->plan->buffers.data[b];
    bool here = buffer->kind == LW_BUFFER_WEIGHT || buffer->kind == LW_BUFFER_DERIVED;
    if (!here || buffer->bytes == 0) continue;
    verify_touch touch = {
        .buffer = b, .begin = buffer->offset, .end = buffer->offset + buffer->bytes};
    LW_TRY(lw_vec_push(list, touch));
  }
  if (list->count == 0) return LW_OK;
  qsort(list->data, list->count, sizeof *list->data, verify_compare_touch);
  for (uint32_t i = 1; i < list->count; i++) {
    const lw_plan_buffer *a = &v->plan->buffers.data[list->data[i - 1].buffer];
    const lw_plan_buffer *b = &v->plan->buffers.data[list->data[i].buffer];
    if (a->offset + a->bytes <= b->offset) continue;
    bool same = a->kind == LW_BUFFER_WEIGHT && b->kind == LW_BUFFER_WEIGHT && a->data == b->data &&
                a->offset == b->offset && a->bytes == b->bytes;
    if (!same) {
      verify_report(v, LW_NONE, "buffers %u and %u overlap in the weights block",
                    list->data[i - 1].buffer, list->data[i].buffer);
    }
  }
  return LW_OK;
}

/* Every byte that somebody is going to read must be written: outputs by a run, derived buffers by
 * the init program. */
static lw_status verify_filled(verifier *v, const lw_plan_step *steps, uint32_t count,
                               lw_buffer_kind kind) {
  lw_arena scratch = {0};
  uint64_t *filled; /* how far from its start each buffer is written without a hole, steps seen as a
                       set */
  lw_status status = lw__arena_alloc(&scratch, v->plan->buffers.count, sizeof *filled, &filled);
  bool more = status == LW_OK;
  while (more) {
    more = false;
    for (uint32_t i = 0; i < count; i++) {
      for (uint32_t k = 0; k < steps[i].arg_count; k++) {
        const lw_plan_arg *arg = &steps[i].args[k];
        if (arg->kind != LW_ARG_BUFFER || !arg->written) continue;
        uint64_t bytes = v->plan->buffers.data[arg->buffer].bytes;
        uint64_t end = steps[i].kind == LW_STEP_LAUNCH ? bytes : arg->offset_bytes + steps[i].bytes;
        if (arg->offset_bytes > filled[arg->buffer] || end <= filled[arg->buffer]) continue;
        filled[arg->buffer] = end;
        more = true;
      }
    }
  }
  for (uint32_t b = 0; b < v->plan->buffers.count && status == LW_OK; b++) {
    const lw_plan_buffer *buffer = &v->plan->buffers.data[b];
    if (buffer->kind != kind || filled[b] >= buffer->bytes) continue;
    verify_report(v, LW_NONE, "buffer %u (%s) is never wholly written", b,
                  kind == LW_BUFFER_OUTPUT ? "output" : "derived");
  }
  lw__arena_deinit(&scratch);
  return status;
}

static lw_status verify_all(verifier *v) {
  const lw_plan *plan = v->plan;
  if (plan->inputs.count > UINT32_MAX / 4 || plan->outputs.count > UINT32_MAX / 4) {
    return LW_STATUS_OUT_OF_MEMORY;
  }
  v->block_count = BLOCK_IO + plan->inputs.count + plan->outputs.count;
  LW_TRY(lw__arena_alloc(&v->scratch, v->block_count, sizeof *v->blocks, &v->blocks));
  for (uint32_t b = 0; b < plan->buffers.count; b++) verify_buffer(v, b);
  verify_ios(v, plan->inputs.data, plan->inputs.count, LW_BUFFER_INPUT);
  verify_ios(v, plan->outputs.data, plan->outputs.count, LW_BUFFER_OUTPUT);
  if (v->problems != 0) return LW_OK;
  LW_TRY(verify_weights(v));
  LW_TRY(verify_program(v, plan->init.data, plan->init.count, "init step"));
  if (v->problems != 0) return LW_OK;
  LW_TRY(verify_program(v, plan->steps.data, plan->steps.count, "step"));
  if (v->problems != 0) return LW_OK;
  LW_TRY(verify_filled(v, plan->init.data, plan->init.count, LW_BUFFER_DERIVED));
  return verify_filled(v, plan->steps.data, plan->steps.count, LW_BUFFER_OUTPUT);
}

lw_status lw__plan_verify(const lw_plan *plan, lw_diag *diag) {
  verifier v = {.plan = plan, .diag = diag};
  lw_status status = verify_all(&v);
  for (uint32_t b = 0; v.blocks != NULL && b < v.block_count; b++) lw_vec_free(&v.blocks[b]);
  lw_vec_free(&v.pairs);
  lw__arena_deinit(&v.scratch);
  if (status != LW_OK) return status;
  return v.problems == 0 ? LW_OK : LW_STATUS_INTERNAL;
}

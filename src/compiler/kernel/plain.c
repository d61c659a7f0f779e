/* plain.c: finds index arithmetic. Values of index arithmetic come from the launch and go into
 * addresses; a value that data takes part in, or that becomes data, must wrap as its type says. */
#include <string.h>

#include "compiler/kernel/walk.h"

enum { USE_INDEX = 1, FROM_LAUNCH = 2 };

typedef struct plain_walk {
  const lw_kernel *kernel;
  const uint8_t *live;
  uint8_t *flags; /* USE_INDEX: no use so far but for addressing; FROM_LAUNCH: no data in it */
} plain_walk;

static bool plain_is_int(const lw_kinstr *in) {
  return in->dtype == LW_DTYPE_I32 || in->dtype == LW_DTYPE_I64;
}

/* Functions through which an index stays an index. */
static bool plain_is_chain(const lw_kinstr *in) {
  if (in->op == LW_K_CAST) return plain_is_int(in);
  if (in->op != LW_K_FN) return false;
  switch ((lw_fn)in->fn) {
    case LW_FN_ADD:
    case LW_FN_SUB:
    case LW_FN_MUL:
    case LW_FN_DIV:
    case LW_FN_MOD:
    case LW_FN_REM:
    case LW_FN_MIN:
    case LW_FN_MAX:
    case LW_FN_SELECT: return plain_is_int(in);
    case LW_FN_EQ:
    case LW_FN_NE:
    case LW_FN_LT:
    case LW_FN_LE:
    case LW_FN_GT:
    case LW_FN_GE:
    case LW_FN_NOT:
    case LW_FN_AND:
    case LW_FN_OR: return true; /* predicates */
    default: return false;
  }
}

static void plain_mark_uses(plain_walk *w, const lw_kinstr *in, bool index_a, bool index_b,
                            bool index_c, bool index_d) {
  const lw_kval operands[4] = {in->a, in->b, in->c, in->d};
  const bool index[4] = {index_a, index_b, index_c, index_d};
  for (int k = 0; k < 4; k++)
    if (operands[k] != LW_NONE && !index[k]) w->flags[operands[k]] &= (uint8_t)~USE_INDEX;
}

static void plain_uses(plain_walk *w, uint32_t id, const lw_kinstr *in) {
  switch ((lw_kop)in->op) {
    case LW_K_FOR: plain_mark_uses(w, in, true, true, true, true); break;
    case LW_K_IF: plain_mark_uses(w, in, true, true, true, true); break;
    case LW_K_SGETV:
    case LW_K_SSETV:
    case LW_K_COPY:
    case LW_K_FRAG:
    case LW_K_MMA:
    case LW_K_LOADV:
    case LW_K_STOREV:
    case LW_K_MOVEV: plain_mark_uses(w, in, true, true, true, true); break;
    case LW_K_LOAD:
    case LW_K_STORE:
    case LW_K_SGET:
    case LW_K_SSET:
    case LW_K_LGET:
    case LW_K_LSET: plain_mark_uses(w, in, true, true, true, false); break;
    case LW_K_MULADDV: plain_mark_uses(w, in, false, true, true, true); break;
    default: {
      bool chain = plain_is_chain(in) && (w->flags[id] & USE_INDEX) != 0;
      plain_mark_uses(w, in, chain, chain, chain, chain);
    }
  }
}

static void plain_region(plain_walk *w, uint32_t region, unsigned depth, bool backward) {
  if (region >= w->kernel->regions.count || depth > LW_KMAX_DEPTH) return;
  const lw_kregion *list = &w->kernel->regions.data[region];
  for (uint32_t i = 0; i < list->count; i++) {
    uint32_t id = list->data[backward ? list->count - 1 - i : i];
    const lw_kinstr *in = &w->kernel->instrs.data[id];
    if (w->live[id] == 0) continue;
    bool owns = in->op == LW_K_FOR || in->op == LW_K_IF;
    if (backward) {
      if (owns) plain_region(w, in->region, depth + 1, true);
      plain_uses(w, id, in);
      continue;
    }
    bool launch = in->op == LW_K_SCALAR || in->op == LW_K_BLOCK || in->op == LW_K_THREAD ||
                  in->op == LW_K_CONST || in->op == LW_K_FOR || in->op == LW_K_ROW ||
                  in->op == LW_K_COLUMN;
    if (in->op == LW_K_FN || in->op == LW_K_CAST) {
      const lw_kval operands[3] = {in->a, in->b, in->c};
      launch = plain_is_chain(in);
      for (int k = 0; k < 3; k++)
        if (operands[k] != LW_NONE && (w->flags[operands[k]] & FROM_LAUNCH) == 0) launch = false;
    }
    if (launch) w->flags[id] |= FROM_LAUNCH;
    if (owns) plain_region(w, in->region, depth + 1, false);
  }
}

void lw__kernel_plain(const lw_kernel *kernel, const uint8_t *live, uint8_t *plain) {
  uint32_t count = kernel->instrs.count;
  if (count == 0) return;
  memset(plain, USE_INDEX, count);
  plain_walk w = {.kernel = kernel, .live = live, .flags = plain};
  plain_region(&w, 0, 0, true);
  plain_region(&w, 0, 0, false);
  for (uint32_t id = 0; id < count; id++) {
    const lw_kinstr *in = &kernel->instrs.data[id];
    bool named = in->op == LW_K_FN || in->op == LW_K_CAST || in->op == LW_K_FOR;
    plain[id] = named && plain_is_int(in) && plain[id] == (USE_INDEX | FROM_LAUNCH);
  }
}

static bool positive_instr(const lw_kernel *kernel, const uint8_t *plain, const uint8_t *positive,
                           uint32_t id) {
  const lw_kinstr *in = &kernel->instrs.data[id];
  switch ((lw_kop)in->op) {
    case LW_K_CONST: return plain_is_int(in) && in->imm.i >= 0;
    case LW_K_SCALAR:
    case LW_K_BLOCK:
    case LW_K_THREAD: return true;
    case LW_K_FOR: return plain[id] && positive[in->a];
    case LW_K_CAST: return plain[id] && positive[in->a];
    case LW_K_FN: break;
    default: return false;
  }
  if (!plain[id]) return false;
  switch ((lw_fn)in->fn) {
    case LW_FN_ADD:
    case LW_FN_MUL:
    case LW_FN_DIV:
    case LW_FN_REM:
    case LW_FN_MIN: return positive[in->a] && positive[in->b];
    case LW_FN_MAX: return positive[in->a] || positive[in->b];
    case LW_FN_SELECT: return positive[in->b] && positive[in->c];
    default: return false;
  }
}

static void positive_region(const lw_kernel *kernel, uint32_t region, unsigned depth,
                            const uint8_t *live, const uint8_t *plain, uint8_t *positive) {
  if (region >= kernel->regions.count || depth > LW_KMAX_DEPTH) return;
  const lw_kregion *list = &kernel->regions.data[region];
  for (uint32_t i = 0; i < list->count; i++) {
    uint32_t id = list->data[i];
    const lw_kinstr *in = &kernel->instrs.data[id];
    if (live[id] == 0) continue;
    positive[id] = positive_instr(kernel, plain, positive, id);
    if (in->op == LW_K_FOR || in->op == LW_K_IF)
      positive_region(kernel, in->region, depth + 1, live, plain, positive);
  }
}

void lw__kernel_positive(const lw_kernel *kernel, const uint8_t *live, const uint8_t *plain,
                         uint8_t *positive) {
  if (kernel->instrs.count == 0) return;
  memset(positive, 0, kernel->instrs.count);
  positive_region(kernel, 0, 0, live, plain, positive);
}

/* barriers.c: which block-wide reductions need a barrier before they write their scratch. Usually
 * none: a barrier already lies between the last use of the array and the reduction, be it one
 * inside another reduction. */
#include <string.h>

#include "compiler/kernel/walk.h"

/* Sets of shared arrays as bits. What a region does to the set of arrays in use since the last
 * barrier. */
typedef struct barrier_effect {
  uint64_t adds;
  bool clears;
} barrier_effect;

static uint64_t barrier_bit(uint32_t array) { return array < 64 ? UINT64_C(1) << array : 0; }

static void barrier_then(barrier_effect *effect, barrier_effect next) {
  if (next.clears) *effect = (barrier_effect){0, true};
  effect->adds |= next.adds;
}

static barrier_effect barrier_region(const lw_kernel *kernel, uint32_t region, unsigned depth);

static barrier_effect barrier_instr(const lw_kernel *kernel, const lw_kinstr *in, unsigned depth) {
  switch ((lw_kop)in->op) {
    case LW_K_BARRIER: return (barrier_effect){0, true};
    case LW_K_SGET:
    case LW_K_SSET:
    case LW_K_SGETV:
    case LW_K_SSETV:
    case LW_K_FRAG: return (barrier_effect){barrier_bit(in->object), false};
    case LW_K_COPY: return (barrier_effect){barrier_bit(in->local), false};
    case LW_K_REDUCE:
      if (in->width <= 32) return (barrier_effect){0, false};
      return (barrier_effect){barrier_bit(in->object), true};
    case LW_K_FOR:
    case LW_K_IF: { /* perhaps not at all, so it clears nothing for sure */
      barrier_effect inside = barrier_region(kernel, in->region, depth + 1);
      return (barrier_effect){inside.adds, false};
    }
    default: return (barrier_effect){0, false};
  }
}

static barrier_effect barrier_region(const lw_kernel *kernel, uint32_t region, unsigned depth) {
  barrier_effect effect = {0, false};
  if (region >= kernel->regions.count || depth > LW_KMAX_DEPTH) return effect;
  const lw_kregion *list = &kernel->regions.data[region];
  for (uint32_t i = 0; i < list->count; i++)
    barrier_then(&effect, barrier_instr(kernel, &kernel->instrs.data[list->data[i]], depth));
  return effect;
}

/* |used|: arrays in use when the region begins, in any of its rounds. */
static void barrier_mark(const lw_kernel *kernel, uint32_t region, unsigned depth, uint64_t used,
                         uint8_t *leads) {
  if (region >= kernel->regions.count || depth > LW_KMAX_DEPTH) return;
  const lw_kregion *list = &kernel->regions.data[region];
  for (uint32_t i = 0; i < list->count; i++) {
    const lw_kinstr *in = &kernel->instrs.data[list->data[i]];
    barrier_effect effect = barrier_instr(kernel, in, depth);
    if (in->op == LW_K_REDUCE && in->width > 32)
      leads[list->data[i]] = in->object >= 64 || (used & barrier_bit(in->object)) != 0;
    if (in->op == LW_K_FOR) barrier_mark(kernel, in->region, depth + 1, used | effect.adds, leads);
    if (in->op == LW_K_IF) barrier_mark(kernel, in->region, depth + 1, used, leads);
    used = (effect.clears ? 0 : used) | effect.adds;
  }
}

void lw__kernel_leads(const lw_kernel *kernel, uint8_t *leads) {
  if (kernel->instrs.count == 0) return;
  memset(leads, 0, kernel->instrs.count);
  barrier_mark(kernel, 0, 0, 0, leads);
}

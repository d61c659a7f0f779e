/* kernel.c: the kernel itself: life, sizes, which instructions matter, its hash and its name. */
#include "compiler/kernel/kernel.h"

#include <stdio.h>
#include <string.h>

#include "compiler/kernel/walk.h"

const char *const lw__kclass_name[LW_KCLASS_COUNT] = {
    [LW_KCLASS_MAP] = "map",     [LW_KCLASS_REDUCE] = "reduce",
    [LW_KCLASS_SPLIT] = "split", [LW_KCLASS_TRANSPOSE] = "transpose",
    [LW_KCLASS_DOT] = "dot",     [LW_KCLASS_CONV] = "conv",
    [LW_KCLASS_SIDE] = "side",
};

void lw__kernel_init(lw_kernel *kernel, lw_ktarget target, lw_kclass cls, uint32_t block_threads) {
  memset(kernel, 0, sizeof *kernel);
  kernel->target = target;
  kernel->cls = cls;
  kernel->block_threads = block_threads;
}

void lw__kernel_deinit(lw_kernel *kernel) {
  for (uint32_t i = 0; i < kernel->regions.count; i++) lw_vec_free(&kernel->regions.data[i]);
  lw_vec_free(&kernel->regions);
  lw_vec_free(&kernel->buffers);
  lw_vec_free(&kernel->shared);
  lw_vec_free(&kernel->locals);
  lw_vec_free(&kernel->instrs);
}

size_t lw__kernel_shared_bytes(const lw_kernel *kernel) {
  size_t bytes = 0;
  lw_product_sm90_shape shape;
  if (kernel->product.present)
    return lw__product_sm90_shape(&kernel->product.form, &shape) == LW_OK ? shape.shared_bytes : 0;
  for (uint32_t i = 0; i < kernel->shared.count; i++) {
    const lw_karray *array = &kernel->shared.data[i];
    bytes += (array->count * lw_dtype_size_bytes(array->dtype) + 15) & ~(size_t)15;
  }
  return bytes;
}

bool lw__kinstr_is_root(const lw_kinstr *in) {
  switch ((lw_kop)in->op) {
    case LW_K_STORE:
    case LW_K_LOADV:
    case LW_K_STOREV:
    case LW_K_SSET:
    case LW_K_SGETV:
    case LW_K_SSETV:
    case LW_K_LSET:
    case LW_K_COPY:
    case LW_K_COPY_END:
    case LW_K_COPY_WAIT:
    case LW_K_FRAG:
    case LW_K_MMA:
    case LW_K_MOVEV:
    case LW_K_MULADDV:
    case LW_K_SPILL:
    case LW_K_BARRIER: return true;
    case LW_K_REDUCE: return in->width > 32;
    default: return false;
  }
}

static bool live_region(const lw_kernel *kernel, uint32_t region, unsigned depth, uint8_t *live) {
  if (region >= kernel->regions.count || depth > LW_KMAX_DEPTH) return false;
  const lw_kregion *list = &kernel->regions.data[region];
  bool any = false;
  for (uint32_t i = list->count; i-- > 0;) {
    uint32_t id = list->data[i];
    const lw_kinstr *in = &kernel->instrs.data[id];
    bool owns = in->op == LW_K_FOR || in->op == LW_K_IF;
    if (owns ? live_region(kernel, in->region, depth + 1, live) : lw__kinstr_is_root(in))
      live[id] = 1;
    else if (owns)
      live[id] = 0; /* its variable is of no use outside an empty loop */
    if (live[id] == 0) continue;
    any = true;
    const uint32_t operands[4] = {in->a, in->b, in->c, in->d};
    for (int k = 0; k < 4; k++)
      if (operands[k] < kernel->instrs.count) live[operands[k]] = 1;
  }
  return any;
}

void lw__kernel_live(const lw_kernel *kernel, uint8_t *live) {
  if (kernel->instrs.count == 0) return;
  memset(live, 0, kernel->instrs.count);
  live_region(kernel, 0, 0, live);
}

lw_status lw__kernel_hash(const lw_kernel *kernel, lw_hash *out) {
  lw_text text = {0};
  lw__kernel_print(kernel, &text);
  if (text.status == LW_OK) *out = lw__hash_bytes(text.data, text.len, (lw_hash){0, 0});
  lw_status status = text.status;
  lw__text_deinit(&text);
  return status;
}

void lw__kernel_name(const lw_kernel *kernel, lw_hash hash, char out[48]) {
  char hex[33];
  lw__hash_hex(hash, hex);
  hex[16] = 0;
  snprintf(out, 48, "lw_%s_%s", lw__kclass_name[kernel->cls], hex);
}

/* copies.c: finds narrow floats that are only carried from memory to memory: they need not become
 * f32 on the way. */
#include <string.h>

#include "compiler/emit/printer.h"
#include "compiler/kernel/walk.h"

lw_dtype lw__printer_read_type(const lw_kernel *kernel, const lw_kinstr *in) {
  switch ((lw_kop)in->op) {
    case LW_K_LOAD: return kernel->buffers.data[in->object].dtype;
    case LW_K_SGET: return kernel->shared.data[in->object].dtype;
    case LW_K_LGET: return kernel->locals.data[in->object].dtype;
    default: return LW_DTYPE_NONE;
  }
}

static lw_dtype copies_write_type(const lw_kernel *kernel, const lw_kinstr *in) {
  switch ((lw_kop)in->op) {
    case LW_K_STORE: return kernel->buffers.data[in->object].dtype;
    case LW_K_SSET: return kernel->shared.data[in->object].dtype;
    case LW_K_LSET: return kernel->locals.data[in->object].dtype;
    default: return LW_DTYPE_NONE;
  }
}

void lw__printer_find_uses(const lw_kernel *kernel, const uint8_t *live, uint8_t *uses) {
  memset(uses, 0, kernel->instrs.count);
  for (uint32_t id = 0; id < kernel->instrs.count; id++) {
    const lw_kinstr *in = &kernel->instrs.data[id];
    if (live[id] == 0) continue;
    const lw_kval operands[4] = {in->a, in->b, in->c, in->d};
    for (int k = 0; k < 4; k++) {
      if (operands[k] == LW_NONE) continue;
      lw_dtype written = k == 3 ? copies_write_type(kernel, in) : LW_DTYPE_NONE;
      bool same = lw__kdtype_is_narrow(written) &&
                  lw__printer_read_type(kernel, &kernel->instrs.data[operands[k]]) == written;
      uses[operands[k]] |= same ? LW_USE_BITS : LW_USE_VALUE;
    }
  }
}

/* print.c: canonical text of kernel IR. It is what kernels are hashed by, so it shows everything
 * that has a meaning and nothing else: constants stand where they are used, ids count up in program
 * order. */
#include <math.h>
#include <string.h>

#include "compiler/kernel/walk.h"

const char *const lw__kop_name[LW_K_OP_COUNT] = {
    [LW_K_CONST] = "const",
    [LW_K_SCALAR] = "scalar",
    [LW_K_BLOCK] = "block",
    [LW_K_THREAD] = "thread",
    [LW_K_FN] = "fn",
    [LW_K_CAST] = "cast",
    [LW_K_ROUND] = "round",
    [LW_K_LOAD] = "load",
    [LW_K_STORE] = "store",
    [LW_K_LOADV] = "loadv",
    [LW_K_STOREV] = "storev",
    [LW_K_SGET] = "sget",
    [LW_K_SSET] = "sset",
    [LW_K_LGET] = "lget",
    [LW_K_LSET] = "lset",
    [LW_K_SGETV] = "sgetv",
    [LW_K_SSETV] = "ssetv",
    [LW_K_MOVEV] = "movev",
    [LW_K_MULADDV] = "muladdv",
    [LW_K_SPILL] = "spill",
    [LW_K_COPY] = "copy",
    [LW_K_COPY_END] = "copy_end",
    [LW_K_COPY_WAIT] = "copy_wait",
    [LW_K_FRAG] = "frag",
    [LW_K_MMA] = "mma",
    [LW_K_REDUCE] = "reduce",
    [LW_K_BARRIER] = "barrier",
    [LW_K_FOR] = "for",
    [LW_K_IF] = "if",
    [LW_K_SUM] = "sum",
    [LW_K_ROW] = "row",
    [LW_K_COLUMN] = "column",
};
const char *const lw__kloop_name[LW_KLOOP_VECTOR + 1] = {[LW_KLOOP_SERIAL] = "serial",
                                                         [LW_KLOOP_ROLLED] = "rolled",
                                                         [LW_KLOOP_UNROLL] = "unroll",
                                                         [LW_KLOOP_VECTOR] = "vector"};

typedef struct kprint {
  const lw_kernel *kernel;
  const uint8_t *live;
  uint32_t *number; /* per instruction: its id in the text */
  uint32_t count;
  lw_text *out;
} kprint;

static void kprint_const(kprint *p, const lw_kinstr *in) {
  lw_dtype dtype = (lw_dtype)in->dtype;
  if (dtype == LW_DTYPE_BOOL) {
    lw__text_add(p->out, "%s", in->imm.i != 0 ? "true" : "false");
  } else if (!lw__dtype_is_float(dtype)) {
    lw__text_add(p->out, dtype == LW_DTYPE_U64 ? "%llu" : "%lld", (long long)in->imm.i);
    if (dtype != LW_DTYPE_I32) lw__text_add(p->out, ":%s", lw_dtype_name(dtype));
  } else if (isnan(in->imm.f)) {
    lw__text_add(p->out, "nan:%s", lw_dtype_name(dtype));
  } else {
    lw__text_add(p->out, "%a:%s", in->imm.f, lw_dtype_name(dtype));
  }
}

static void kprint_value(kprint *p, lw_kval v) {
  if (v >= p->kernel->instrs.count) {
    lw__text_add(p->out, "none");
    return;
  }
  const lw_kinstr *in = &p->kernel->instrs.data[v];
  if (in->op == LW_K_CONST)
    kprint_const(p, in);
  else if (p->number[v] == LW_NONE)
    lw__text_add(p->out, "undefined"); /* only in kernels that do not verify */
  else
    lw__text_add(p->out, "v%u", p->number[v]);
}

/* prefixNUMBER[base + index] */
static void kprint_place(kprint *p, char prefix, uint32_t object, lw_kval base, lw_kval index) {
  lw__text_add(p->out, " %c%u[", prefix, object);
  if (base != LW_NONE) {
    kprint_value(p, base);
    lw__text_add(p->out, " + ");
  }
  if (index == LW_NONE)
    lw__text_add(p->out, "0");
  else
    kprint_value(p, index);
  lw__text_add(p->out, "]");
}

static void kprint_pred(kprint *p, lw_kval pred) {
  if (pred == LW_NONE) return;
  lw__text_add(p->out, " if ");
  kprint_value(p, pred);
}

static void kprint_assign(kprint *p, lw_kval v) {
  lw__text_add(p->out, " = ");
  kprint_value(p, v);
}

static void kprint_for(kprint *p, const lw_kinstr *in) {
  lw__text_add(p->out, " = ");
  kprint_value(p, in->a);
  lw__text_add(p->out, " .. ");
  kprint_value(p, in->b);
  lw__text_add(p->out, " step ");
  kprint_value(p, in->c);
  lw__text_add(p->out, " %s", in->loop <= LW_KLOOP_VECTOR ? lw__kloop_name[in->loop] : "?");
}

static void kprint_reduce(kprint *p, const lw_kinstr *in) {
  lw__text_add(p->out, " %s ", in->fn < LW_RED_COUNT ? lw__red_info[in->fn].name : "?");
  kprint_value(p, in->a);
  lw__text_add(p->out, " width %u", in->width);
  if (in->object != LW_NONE) lw__text_add(p->out, " h%u", in->object);
}

static void kprint_fn(kprint *p, const lw_kinstr *in) {
  const lw_kval operands[3] = {in->a, in->b, in->c};
  if (in->fn >= LW_FN_COUNT) return;
  lw__text_add(p->out, " %s", lw__fn_info[in->fn].name);
  for (int k = 0; k < lw__fn_info[in->fn].arity && k < 3; k++) {
    lw__text_add(p->out, " ");
    kprint_value(p, operands[k]);
  }
}

static void kprint_operands(kprint *p, const lw_kinstr *in) {
  switch ((lw_kop)in->op) {
    case LW_K_SCALAR: lw__text_add(p->out, " %u", in->object); break;
    case LW_K_FN: kprint_fn(p, in); break;
    case LW_K_ROUND:
      lw__text_add(p->out, " %s", lw_dtype_name((lw_dtype)in->mem_dtype));
      __attribute__((fallthrough));
    case LW_K_CAST:
    case LW_K_IF:
      lw__text_add(p->out, " ");
      kprint_value(p, in->a);
      break;
    case LW_K_LOAD:
    case LW_K_STORE:
      kprint_place(p, 'b', in->object, in->a, in->b);
      if (in->op == LW_K_STORE) kprint_assign(p, in->d);
      kprint_pred(p, in->c);
      break;
    case LW_K_LOADV:
    case LW_K_STOREV:
      lw__text_add(p->out, " x%u", in->width);
      kprint_place(p, 'b', in->object, in->a, in->b);
      lw__text_add(p->out, in->op == LW_K_LOADV ? " ->" : " <-");
      kprint_place(p, 'l', in->local, LW_NONE, in->d);
      kprint_pred(p, in->c);
      break;
    case LW_K_SGET:
    case LW_K_SSET:
      kprint_place(p, 'h', in->object, LW_NONE, in->b);
      if (in->op == LW_K_SSET) kprint_assign(p, in->d);
      if (in->op == LW_K_SSET) kprint_pred(p, in->c);
      break;
    case LW_K_SGETV:
    case LW_K_SSETV:
      lw__text_add(p->out, " x%u", in->width);
      kprint_place(p, 'h', in->object, LW_NONE, in->b);
      lw__text_add(p->out, in->op == LW_K_SGETV ? " ->" : " <-");
      kprint_place(p, 'l', in->local, LW_NONE, in->d);
      kprint_pred(p, in->c);
      break;
    case LW_K_COPY:
      lw__text_add(p->out, " x%u", in->width);
      kprint_place(p, 'b', in->object, in->a, in->b);
      lw__text_add(p->out, " ->");
      kprint_place(p, 'h', in->local, LW_NONE, in->d);
      kprint_pred(p, in->c);
      break;
    case LW_K_COPY_WAIT: lw__text_add(p->out, " %u", in->width); break;
    case LW_K_FRAG:
      lw__text_add(p->out, " x%u%s", in->width, in->fn ? " transposed" : "");
      kprint_place(p, 'h', in->object, LW_NONE, in->b);
      lw__text_add(p->out, " ->");
      kprint_place(p, 'l', in->local, LW_NONE, in->d);
      break;
    case LW_K_MMA:
      kprint_place(p, 'l', in->object, LW_NONE, in->a);
      lw__text_add(p->out, " +=");
      kprint_place(p, 'l', in->local, LW_NONE, in->b);
      lw__text_add(p->out, " *");
      kprint_place(p, 'l', in->other, LW_NONE, in->c);
      break;
    case LW_K_LGET:
    case LW_K_LSET:
      kprint_place(p, 'l', in->object, LW_NONE, in->b);
      if (in->op == LW_K_LSET) kprint_assign(p, in->d);
      break;
    case LW_K_MOVEV:
    case LW_K_MULADDV:
      lw__text_add(p->out, " x%u", in->width);
      kprint_place(p, 'l', in->object, LW_NONE, in->b);
      if (in->op == LW_K_MOVEV) {
        lw__text_add(p->out, " <-");
      } else {
        lw__text_add(p->out, " += ");
        kprint_value(p, in->a);
        lw__text_add(p->out, " *");
      }
      kprint_place(p, 'l', in->local, LW_NONE, in->d);
      break;
    case LW_K_REDUCE: kprint_reduce(p, in); break;
    case LW_K_FOR: kprint_for(p, in); break;
    default: break;
  }
}

static void kprint_region(kprint *p, uint32_t region, unsigned depth) {
  if (region >= p->kernel->regions.count || depth > LW_KMAX_DEPTH) return;
  const lw_kregion *list = &p->kernel->regions.data[region];
  for (uint32_t i = 0; i < list->count; i++) {
    uint32_t id = list->data[i];
    const lw_kinstr *in = &p->kernel->instrs.data[id];
    if (p->live[id] == 0 || in->op == LW_K_CONST) continue;
    lw__text_add(p->out, "%*s", (int)(2 * depth + 2), "");
    if (in->dtype != LW_DTYPE_NONE) {
      p->number[id] = p->count++;
      lw__text_add(p->out, "v%u:%s = ", p->number[id], lw_dtype_name((lw_dtype)in->dtype));
    }
    lw__text_add(p->out, "%s", in->op < LW_K_OP_COUNT ? lw__kop_name[in->op] : "?");
    kprint_operands(p, in);
    lw__text_add(p->out, "\n");
    if (in->op == LW_K_FOR || in->op == LW_K_IF) {
      kprint_region(p, in->region, depth + 1);
      lw__text_add(p->out, "%*send\n", (int)(2 * depth + 2), "");
    }
  }
}

static void kprint_header(const lw_kernel *kernel, lw_text *out) {
  lw__text_add(out, "kernel %s %s threads=%u min_blocks=%u scalars=%u%s\n",
               kernel->target == LW_KTARGET_GPU ? "gpu" : "cpu",
               kernel->cls < LW_KCLASS_COUNT ? lw__kclass_name[kernel->cls] : "?",
               kernel->block_threads, kernel->min_blocks_per_sm, kernel->scalar_count,
               kernel->early_start ? " early" : "");
  for (uint32_t i = 0; i < kernel->buffers.count; i++) {
    lw__text_add(out, "buffer b%u %s%s\n", i, lw_dtype_name(kernel->buffers.data[i].dtype),
                 kernel->buffers.data[i].written ? " written" : "");
  }
  for (uint32_t i = 0; i < kernel->shared.count; i++) {
    lw__text_add(out, "shared h%u %s[%u]\n", i, lw_dtype_name(kernel->shared.data[i].dtype),
                 kernel->shared.data[i].count);
  }
  for (uint32_t i = 0; i < kernel->locals.count; i++) {
    lw__text_add(out, "local l%u %s[%u]", i, lw_dtype_name(kernel->locals.data[i].dtype),
                 kernel->locals.data[i].count);
    if (kernel->locals.data[i].lanes != 0)
      lw__text_add(out, " in registers of %u", kernel->locals.data[i].lanes);
    lw__text_add(out, "\n");
  }
}

static void kprint_matrix(const char *name, const lw_kmatrix *m, lw_text *out) {
  lw__text_add(out, " %s=b%u", name, m->buffer);
  if (m->offset != 0) lw__text_add(out, "+%lld", (long long)m->offset);
  lw__text_add(out, " pitch %lld", (long long)m->pitch);
}

static void kprint_product(const lw_kproduct *product, lw_text *out) {
  const lw_product_sm90 *p = &product->form;
  lw__text_add(out, "product sm90 %s columns=%lld depth=%lld", lw_dtype_name(p->dtype),
               (long long)product->columns, (long long)product->depth);
  kprint_matrix("a", &product->a, out);
  kprint_matrix(p->b_layout == LW_PRODUCT_B_KN ? "b(kn)" : "b(nk)", &product->b, out);
  if (product->out.buffer != LW_NONE) {
    kprint_matrix(p->store == LW_PRODUCT_STORE_TMA ? "out(tma)" : "out(pairs)", &product->out, out);
    lw__text_add(out, " %s", lw_dtype_name(p->out_dtype));
  }
  lw__text_add(out, " %s %ux%ux%u stages=%u group=%u cluster=%u split=%u%s\n",
               p->sched == LW_PRODUCT_PINGPONG ? "pingpong" : "cooperative", p->tile_m, p->tile_n,
               p->tile_k, p->stages, p->group, p->cluster, p->split,
               p->watchdog ? " watchdog" : "");
}

void lw__kernel_print(const lw_kernel *kernel, lw_text *out) {
  kprint_header(kernel, out);
  if (kernel->product.present) kprint_product(&kernel->product, out);
  uint32_t count = kernel->instrs.count;
  if (count == 0) return;
  void *memory = NULL;
  if (lw__mem_resize(&memory, count * (sizeof(uint32_t) + 1)) != LW_OK) {
    out->status = LW_STATUS_OUT_OF_MEMORY;
    return;
  }
  uint32_t *number = memory;
  uint8_t *live = (uint8_t *)(number + count);
  lw__kernel_live(kernel, live);
  memset(number, 0xff, count * sizeof *number);
  kprint p = {.kernel = kernel, .live = live, .number = number, .out = out};
  kprint_region(&p, 0, 0);
  lw__mem_free(memory);
}

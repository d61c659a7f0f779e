/* printer.c: prints kernels as C-like text, common to both targets. */
#include "compiler/emit/printer.h"

#include <math.h>
#include <string.h>

#include "compiler/kernel/walk.h"

const lw_kinstr *lw__printer_instr(const lw_printer *p, lw_kval v) {
  return &p->kernel->instrs.data[v];
}

void lw__printer_line(lw_printer *p) { lw__text_add(p->out, "%*s", (int)(2 * p->indent), ""); }

/* ---- values -----------------------------------------------------------------------------------*/

static void print_int(lw_text *out, lw_dtype dtype, int64_t x) {
  switch (dtype) {
    case LW_DTYPE_U32: lw__text_add(out, "%lluu", (unsigned long long)x); break;
    case LW_DTYPE_U64: lw__text_add(out, "%lluull", (unsigned long long)x); break;
    case LW_DTYPE_I64:
      if (x == INT64_MIN)
        lw__text_add(out, "(-9223372036854775807ll - 1)");
      else
        lw__text_add(out, x < 0 ? "(%lldll)" : "%lldll", (long long)x);
      break;
    default:
      if (x == INT32_MIN)
        lw__text_add(out, "(-2147483647 - 1)");
      else
        lw__text_add(out, x < 0 ? "(%lld)" : "%lld", (long long)x);
  }
}

static void print_float(lw_text *out, lw_dtype dtype, double x) {
  const char *type = dtype == LW_DTYPE_F64 ? "(double)" : "";
  if (isnan(x))
    lw__text_add(out, "(%sLW_NAN)", type);
  else if (isinf(x))
    lw__text_add(out, x < 0 ? "(-%sLW_INF)" : "(%sLW_INF)", type);
  else
    lw__text_add(out, signbit(x) ? "(%a%s)" : "%a%s", x, dtype == LW_DTYPE_F64 ? "" : "f");
}

void lw__printer_value(lw_printer *p, lw_kval v) {
  const lw_kinstr *in = lw__printer_instr(p, v);
  lw_dtype dtype = (lw_dtype)in->dtype;
  switch ((lw_kop)in->op) {
    case LW_K_CONST:
      if (lw__dtype_is_float(dtype))
        print_float(p->out, dtype, in->imm.f);
      else
        print_int(p->out, dtype, in->imm.i);
      break;
    case LW_K_SCALAR: lw__text_add(p->out, "s%u", in->object); break;
    case LW_K_BLOCK: lw__text_add(p->out, "block"); break;
    case LW_K_THREAD: lw__text_add(p->out, "thread"); break;
    case LW_K_SUM: lw__text_add(p->out, "sum"); break;
    case LW_K_ROW: lw__text_add(p->out, "row"); break;
    case LW_K_COLUMN: lw__text_add(p->out, "column"); break;
    default: lw__text_add(p->out, "v%u", p->number[v]);
  }
}

void lw__printer_pred(lw_printer *p, lw_kval pred, const char *none) {
  if (pred == LW_NONE)
    lw__text_add(p->out, "%s", none);
  else
    lw__printer_value(p, pred);
}

void lw__printer_element(lw_printer *p, lw_kval at, uint32_t k) {
  if (at == LW_NONE) {
    lw__text_add(p->out, "%u", k);
  } else if (lw__printer_instr(p, at)->op == LW_K_CONST) {
    lw__text_add(p->out, "%lld", (long long)(lw__printer_instr(p, at)->imm.i + k));
  } else {
    lw__printer_value(p, at);
    if (k != 0) lw__text_add(p->out, " + %u", k);
  }
}

void lw__printer_place(lw_printer *p, const lw_kinstr *in, uint32_t more) {
  if (in->a != LW_NONE) {
    lw__printer_value(p, in->a);
    lw__text_add(p->out, " + ");
  }
  lw__printer_value(p, in->b);
  if (more != 0) lw__text_add(p->out, " + %u", more);
}

void lw__printer_to_memory(lw_printer *p, lw_dtype dtype, lw_kval value) {
  bool narrow = lw__kdtype_is_narrow(dtype);
  if (narrow && lw__printer_read_type(p->kernel, lw__printer_instr(p, value)) == dtype &&
      (p->uses[value] & LW_USE_BITS) != 0) {
    lw__text_add(p->out, "r%u", p->number[value]);
    return;
  }
  if (narrow) lw__text_add(p->out, "lw_f32_to_%s(", lw_dtype_name(dtype));
  lw__printer_value(p, value);
  if (narrow) lw__text_add(p->out, ")");
}

bool lw__printer_is_multiple(const lw_printer *p, lw_kval v, uint32_t m) {
  lw_kval pending[16]; /* operands still to be looked at: all must be multiples */
  unsigned count = 0, steps = 0;
  if (v != LW_NONE) pending[count++] = v;
  while (count > 0 && steps++ < 64) {
    const lw_kinstr *in = lw__printer_instr(p, pending[--count]);
    if (in->op == LW_K_CONST) {
      if (in->imm.i % (int64_t)m != 0) return false;
    } else if (in->op == LW_K_FN && in->fn == LW_FN_MUL &&
               lw__printer_instr(p, in->b)->op == LW_K_CONST &&
               lw__printer_instr(p, in->b)->imm.i % (int64_t)m == 0) {
      continue;
    } else if (count + 2 <= 16 && in->op == LW_K_FN &&
               (in->fn == LW_FN_ADD || in->fn == LW_FN_SUB)) {
      pending[count++] = in->a;
      pending[count++] = in->b;
    } else if (count + 2 <= 16 && in->op == LW_K_FOR) {
      pending[count++] = in->a;
      pending[count++] = in->c;
    } else {
      return false;
    }
  }
  return count == 0;
}

bool lw__printer_uses_buffer(const lw_printer *p, uint32_t buffer) {
  for (uint32_t id = 0; id < p->kernel->instrs.count; id++) {
    const lw_kinstr *in = lw__printer_instr(p, id);
    if (lw__kop_is_access((lw_kop)in->op) && p->live[id] != 0 && in->object == buffer) return true;
  }
  return false;
}

/* ---- instructions -----------------------------------------------------------------------------*/

static bool print_is_wide(const lw_printer *p, uint32_t id) {
  return p->target->wide_index && p->plain[id] != 0;
}

static const char *print_type(const lw_printer *p, uint32_t id, const lw_kinstr *in) {
  return p->target->value_types[print_is_wide(p, id) ? LW_DTYPE_I64 : (lw_dtype)in->dtype];
}

/* a / c or a % c of an index that is never below zero and a constant: as unsigned numbers. */
static bool print_quotient(lw_printer *p, uint32_t id, const lw_kinstr *in) {
  if (!p->target->unsigned_quotients || p->plain[id] == 0) return false;
  if (in->fn != LW_FN_DIV && in->fn != LW_FN_REM) return false;
  const lw_kinstr *divisor = lw__printer_instr(p, in->b);
  if (divisor->op != LW_K_CONST || divisor->imm.i <= 0 || p->positive[in->a] == 0) return false;
  bool wide = in->dtype == LW_DTYPE_I64;
  lw__text_add(p->out, wide ? "(long long)((unsigned long long)" : "(int)((unsigned)");
  lw__printer_value(p, in->a);
  lw__text_add(p->out, wide ? " %c %lluull)" : " %c %lluu)", in->fn == LW_FN_DIV ? '/' : '%',
               (unsigned long long)divisor->imm.i);
  return true;
}

static void print_fn(lw_printer *p, uint32_t id, const lw_kinstr *in) {
  if (print_quotient(p, id, in)) return;
  const lw_fn_info *info = &lw__fn_info[in->fn];
  const lw_kval operands[3] = {in->a, in->b, in->c};
  lw_dtype dtype = (lw_dtype)lw__printer_instr(p, operands[in->fn == LW_FN_SELECT ? 1 : 0])->dtype;
  const char *spelling = lw__dtype_is_float(dtype) ? info->float_spelling : info->int_spelling;
  if (p->plain[id] != 0 && in->fn == LW_FN_ADD) spelling = "$0 + $1";
  if (p->plain[id] != 0 && in->fn == LW_FN_SUB) spelling = "$0 - $1";
  if (p->plain[id] != 0 && in->fn == LW_FN_MUL) spelling = "$0 * $1";
  for (; *spelling != 0; spelling++) {
    if (*spelling != '$') {
      lw__text_add_n(p->out, spelling, 1);
    } else if (*++spelling == 't') {
      lw__text_add(p->out, "%s", lw_dtype_name(dtype));
    } else {
      lw__printer_value(p, operands[*spelling - '0']);
    }
  }
}

/* The element as it is in memory. */
static void print_element(lw_printer *p, const lw_kinstr *in) {
  if (in->op == LW_K_LGET) {
    p->target->local_get(p, in);
    return;
  }
  lw__text_add(p->out, "%c%u[", in->op == LW_K_LOAD ? 'b' : 'h', in->object);
  if (in->op == LW_K_LOAD)
    lw__printer_place(p, in, 0);
  else
    lw__printer_value(p, in->b);
  lw__text_add(p->out, "]");
}

static void print_read(lw_printer *p, uint32_t id, const lw_kinstr *in, bool as_value) {
  lw_dtype dtype = lw__printer_read_type(p->kernel, in);
  bool convert = as_value && lw__kdtype_is_narrow(dtype),
       have_bits = as_value && (p->uses[id] & LW_USE_BITS) != 0;
  bool guarded = in->op == LW_K_LOAD && in->c != LW_NONE && !have_bits;
  if (guarded) {
    lw__printer_value(p, in->c);
    lw__text_add(p->out, " ? ");
  }
  if (convert) lw__text_add(p->out, "lw_%s_to_f32(", lw_dtype_name(dtype));
  if (have_bits)
    lw__text_add(p->out, "r%u", p->number[id]);
  else
    print_element(p, in);
  lw__text_add(p->out, "%s%s%s", convert ? ")" : "", dtype == LW_DTYPE_BOOL ? " != 0" : "",
               guarded ? " : 0" : "");
}

/* The right side of the definition of a value. */
static void print_expression(lw_printer *p, uint32_t id, const lw_kinstr *in) {
  switch ((lw_kop)in->op) {
    case LW_K_FN: print_fn(p, id, in); break;
    case LW_K_CAST:
      if (print_is_wide(p, id)) {
        lw__printer_value(p, in->a);
        break;
      }
      lw__text_add(p->out, "lw_cast_%s_%s(",
                   lw_dtype_name((lw_dtype)lw__printer_instr(p, in->a)->dtype),
                   lw_dtype_name((lw_dtype)in->dtype));
      lw__printer_value(p, in->a);
      lw__text_add(p->out, ")");
      break;
    case LW_K_ROUND:
      lw__text_add(p->out, "lw_%s_to_f32(", lw_dtype_name((lw_dtype)in->mem_dtype));
      lw__printer_to_memory(p, (lw_dtype)in->mem_dtype, in->a);
      lw__text_add(p->out, ")");
      break;
    case LW_K_LOAD:
    case LW_K_SGET:
    case LW_K_LGET: print_read(p, id, in, true); break;
    case LW_K_REDUCE: p->target->reduce(p, in, p->leads[id] != 0); break;
    default: break;
  }
}

static void print_guard(lw_printer *p, lw_kval pred) {
  if (pred == LW_NONE) return;
  lw__text_add(p->out, "if (");
  lw__printer_value(p, pred);
  lw__text_add(p->out, ") ");
}

static void print_statement(lw_printer *p, const lw_kinstr *in) {
  switch ((lw_kop)in->op) {
    case LW_K_STORE:
      lw__printer_line(p);
      print_guard(p, in->c);
      lw__text_add(p->out, "b%u[", in->object);
      lw__printer_place(p, in, 0);
      lw__text_add(p->out, "] = ");
      lw__printer_to_memory(p, p->kernel->buffers.data[in->object].dtype, in->d);
      lw__text_add(p->out, ";\n");
      break;
    case LW_K_SSET:
      lw__printer_line(p);
      print_guard(p, in->c);
      lw__text_add(p->out, "h%u[", in->object);
      lw__printer_value(p, in->b);
      lw__text_add(p->out, "] = ");
      lw__printer_to_memory(p, p->kernel->shared.data[in->object].dtype, in->d);
      lw__text_add(p->out, ";\n");
      break;
    case LW_K_LSET: p->target->local_set(p, in); break;
    case LW_K_LOADV: p->target->load_vector(p, in); break;
    case LW_K_STOREV: p->target->store_vector(p, in); break;
    case LW_K_SGETV:
    case LW_K_SSETV:
    case LW_K_COPY:
    case LW_K_COPY_END:
    case LW_K_COPY_WAIT:
    case LW_K_FRAG:
    case LW_K_MMA: p->target->gpu(p, in); break;
    case LW_K_MOVEV:
    case LW_K_MULADDV:
    case LW_K_SPILL: p->target->local_vector(p, in); break;
    case LW_K_BARRIER:
      lw__printer_line(p);
      lw__text_add(p->out, "__syncthreads();\n");
      break;
    default: break;
  }
}

/* ---- regions ----------------------------------------------------------------------------------*/

/* Whether all threads of a block agree on the value, for the purpose of who arrives where. */
static bool print_is_uniform(const lw_printer *p, const lw_kinstr *in) {
  if (in->op == LW_K_THREAD || in->op == LW_K_LGET) return false;
  if (in->op == LW_K_REDUCE) return in->width == p->kernel->block_threads;
  if (in->op == LW_K_LOAD && p->kernel->buffers.data[in->object].written) return false;
  const lw_kval operands[4] = {in->a, in->b, in->c, in->d};
  for (int k = 0; k < 4; k++)
    if (operands[k] != LW_NONE && p->uniform[operands[k]] == 0) return false;
  return true;
}

static void print_region(lw_printer *p, uint32_t region);

static void print_loop(lw_printer *p, uint32_t id, const lw_kinstr *in) {
  p->number[id] = p->count++;
  uint32_t v = p->number[id];
  p->target->loop_hint(p, in);
  lw__printer_line(p);
  lw__text_add(p->out, "for (%s v%u = ", print_type(p, id, in), v);
  lw__printer_value(p, in->a);
  lw__text_add(p->out, "; v%u < ", v);
  lw__printer_value(p, in->b);
  lw__text_add(p->out, "; v%u += ", v);
  lw__printer_value(p, in->c);
  lw__text_add(p->out, ") {\n");
}

static void print_owner(lw_printer *p, uint32_t id, const lw_kinstr *in) {
  bool alike = print_is_uniform(p, in);
  p->uniform[id] = alike;
  if (in->op == LW_K_FOR) {
    print_loop(p, id, in);
  } else {
    lw__printer_line(p);
    lw__text_add(p->out, "if (");
    lw__printer_value(p, in->a);
    lw__text_add(p->out, ") {\n");
  }
  p->indent++;
  p->divergent += !alike;
  print_region(p, in->region);
  p->divergent -= !alike;
  p->indent--;
  lw__printer_line(p);
  lw__text_add(p->out, "}\n");
}

static bool print_has_own_name(const lw_kinstr *in) {
  return in->op == LW_K_CONST || in->op == LW_K_SCALAR || in->op == LW_K_BLOCK ||
         in->op == LW_K_THREAD || in->op == LW_K_SUM || in->op == LW_K_ROW || in->op == LW_K_COLUMN;
}

static void print_instr(lw_printer *p, uint32_t id, const lw_kinstr *in) {
  if (in->op == LW_K_FOR || in->op == LW_K_IF) {
    print_owner(p, id, in);
    return;
  }
  if (in->dtype == LW_DTYPE_NONE) {
    print_statement(p, in);
    return;
  }
  p->uniform[id] = print_is_uniform(p, in);
  if (print_has_own_name(in)) return;
  p->number[id] = p->count++;
  if ((p->uses[id] & LW_USE_BITS) != 0) {
    const char *type = p->target->memory_types[lw__printer_read_type(p->kernel, in)];
    lw__printer_line(p);
    lw__text_add(p->out, "const %s r%u = ", type, p->number[id]);
    print_read(p, id, in, false);
    lw__text_add(p->out, ";\n");
    if ((p->uses[id] & LW_USE_VALUE) == 0) return;
  }
  lw__printer_line(p);
  bool unused = in->op == LW_K_REDUCE; /* it may stand for its barrier alone */
  lw__text_add(p->out, "const %s v%u%s = ", print_type(p, id, in), p->number[id],
               unused ? " LW_UNUSED" : "");
  print_expression(p, id, in);
  lw__text_add(p->out, ";\n");
}

void lw__printer_instruction(lw_printer *p, uint32_t id) {
  print_instr(p, id, lw__printer_instr(p, id));
}

static void print_region(lw_printer *p, uint32_t region) {
  const lw_kregion *list = &p->kernel->regions.data[region];
  for (uint32_t i = 0; i < list->count; i++)
    if (p->live[list->data[i]] != 0)
      print_instr(p, list->data[i], lw__printer_instr(p, list->data[i]));
}

static lw_status print_kernel(const lw_printer_target *target, const lw_kernel *kernel,
                              const char *name, lw_text *out) {
  lw_printer p = {.target = target, .kernel = kernel, .out = out, .indent = 1};
  size_t count = (size_t)kernel->instrs.count + 1;
  void *memory = NULL;
  LW_TRY(lw__mem_resize(&memory, count * (sizeof *p.number + 6)));
  memset(memory, 0, count * (sizeof *p.number + 6));
  p.number = memory;
  p.live = (uint8_t *)(p.number + count);
  p.plain = p.live + count;
  p.uniform = p.plain + count;
  p.leads = p.uniform + count;
  p.uses = p.leads + count;
  p.positive = p.uses + count;
  lw__kernel_live(kernel, p.live);
  lw__kernel_plain(kernel, p.live, p.plain);
  lw__kernel_positive(kernel, p.live, p.plain, p.positive);
  lw__kernel_leads(kernel, p.leads);
  lw__printer_find_uses(kernel, p.live, p.uses);
  lw_status status = LW_OK;
  if (kernel->product.present) {
    status = target->product == NULL ? LW_STATUS_INTERNAL : target->product(&p, name);
  } else {
    target->begin(&p, name);
    print_region(&p, 0);
    target->end(&p);
  }
  lw__mem_free(memory);
  return status == LW_OK ? out->status : status;
}

lw_status lw__printer_run(const lw_printer_target *target, const lw_kernel *const *kernels,
                          const char *const *names, uint32_t count, lw_text *out) {
  lw_text body = {0};
  lw_status status = LW_OK;
  bool products = false;
  for (uint32_t i = 0; i < count && status == LW_OK; i++) {
    status = print_kernel(target, kernels[i], names[i], &body);
    products |= kernels[i]->product.present;
  }
  lw__text_add(out, "%s", target->top);
  if (status == LW_OK) status = lw__prelude_print(&target->prelude, &body, out);
  if (status == LW_OK && products) {
    const lw_prelude more = {{target->product_helpers}, target->prelude.type_names};
    lw__text_add(out, "%s", target->product_begin);
    status = lw__prelude_print(&more, &body, out);
    lw__text_add(out, "%s", target->product_end);
  }
  if (status == LW_OK) lw__text_add_n(out, lw__text_str(&body), body.len);
  lw__text_deinit(&body);
  return status == LW_OK ? out->status : status;
}

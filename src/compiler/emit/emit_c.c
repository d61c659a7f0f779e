/* emit_c.c: kernels as GNU C for the system compiler: a loop over blocks around the body of one. */
#include "compiler/emit/emit.h"
#include "compiler/emit/printer.h"

static const char *const c_value_types[LW_DTYPE_COUNT] = {
    [LW_DTYPE_BOOL] = "bool",
    [LW_DTYPE_I8] = "signed char",
    [LW_DTYPE_I16] = "short",
    [LW_DTYPE_I32] = "int",
    [LW_DTYPE_I64] = "long long",
    [LW_DTYPE_U8] = "unsigned char",
    [LW_DTYPE_U16] = "unsigned short",
    [LW_DTYPE_U32] = "unsigned",
    [LW_DTYPE_U64] = "unsigned long long",
    [LW_DTYPE_F32] = "float",
    [LW_DTYPE_F64] = "double",
};
static const char *const c_memory_types[LW_DTYPE_COUNT] = {
    [LW_DTYPE_BOOL] = "unsigned char",
    [LW_DTYPE_I8] = "signed char",
    [LW_DTYPE_I16] = "short",
    [LW_DTYPE_I32] = "int",
    [LW_DTYPE_I64] = "long long",
    [LW_DTYPE_U8] = "unsigned char",
    [LW_DTYPE_U16] = "unsigned short",
    [LW_DTYPE_U32] = "unsigned",
    [LW_DTYPE_U64] = "unsigned long long",
    [LW_DTYPE_F16] = "unsigned short",
    [LW_DTYPE_BF16] = "unsigned short",
    [LW_DTYPE_F32] = "float",
    [LW_DTYPE_F64] = "double",
    [LW_DTYPE_F8E4M3] = "unsigned char",
    [LW_DTYPE_F8E5M2] = "unsigned char",
};

/* Math functions set no errno and operations trap nobody: without saying so gcc does not vectorise
 * square roots, selections and conversions. No rule of arithmetic is relaxed. */
static const char c_top[] =
    "#include <stdbool.h>\n"
    "#include <stdint.h>\n"
    "#define LW_PRAGMA(x) _Pragma(#x)\n"
    "#if defined(__clang__)\n"
    "#pragma clang diagnostic ignored \"-Wpass-failed\"\n"
    "#define LW_UNROLL(n) LW_PRAGMA(clang loop unroll(full))\n"
    "#define LW_VECTOR LW_PRAGMA(clang loop vectorize(assume_safety))\n"
    "#else\n"
    "#pragma GCC optimize(\"no-math-errno\", \"no-trapping-math\", "
    "\"no-tree-loop-distribute-patterns\")\n"
    "#pragma GCC diagnostic ignored \"-Wmaybe-uninitialized\"\n"
    "#pragma GCC diagnostic ignored \"-Wbool-compare\"\n"
    "#define LW_UNROLL(n) LW_PRAGMA(GCC unroll n)\n"
    "#define LW_VECTOR LW_PRAGMA(GCC ivdep)\n"
    "#endif\n"
    "#define LW_UNUSED __attribute__((unused))\n"
    "#define LW_HELPER static inline __attribute__((always_inline))\n"
    "#define LW_INF __builtin_inff()\n"
    "#define LW_NAN __builtin_nanf(\"\")\n";

/* Arithmetic of whole vectors must not overflow, so integers are unsigned there. */
static const char *c_lane_type(lw_dtype dtype) {
  static const char *const by_size[9] = {
      [1] = "unsigned char", [2] = "unsigned short", [4] = "unsigned", [8] = "unsigned long long"};
  if (dtype == LW_DTYPE_F32 || dtype == LW_DTYPE_F64) return c_value_types[dtype];
  return by_size[lw_dtype_size_bytes(dtype)];
}

/* Types x16_f32 of registers, and m16_f32 of what they are loaded from and stored to, which is
 * aligned and typed as its elements are. */
static void c_vector_types(lw_printer *p) {
  const lw_kernel *kernel = p->kernel;
  for (uint32_t i = 0; i < kernel->locals.count; i++) {
    const lw_karray *array = &kernel->locals.data[i];
    bool again = array->lanes == 0;
    for (uint32_t j = 0; j < i && !again; j++)
      again = kernel->locals.data[j].lanes == array->lanes &&
              kernel->locals.data[j].dtype == array->dtype;
    if (again) continue;
    unsigned bytes = (unsigned)lw_dtype_size_bytes(array->dtype), lanes = array->lanes;
    const char *type = c_lane_type(array->dtype), *name = lw_dtype_name(array->dtype);
    lw__text_add(p->out,
                 "  typedef %s x%u_%s __attribute__((vector_size(%u)));\n"
                 "  typedef %s m%u_%s __attribute__((vector_size(%u), aligned(%u), may_alias));\n",
                 type, lanes, name, lanes * bytes, type, lanes, name, lanes * bytes, bytes);
  }
}

static void c_registers(lw_printer *p, uint32_t local) {
  const lw_karray *array = &p->kernel->locals.data[local];
  for (uint32_t i = 0; i < array->count / array->lanes; i++)
    lw__text_add(p->out, "%s l%u_%u", i == 0 ? "" : ",", local, i);
}

static void c_arrays(lw_printer *p, char prefix, const lw_karray *arrays, uint32_t count) {
  for (uint32_t i = 0; i < count; i++) {
    lw__printer_line(p);
    if (arrays[i].lanes != 0) {
      lw__text_add(p->out, "x%u_%s", arrays[i].lanes, lw_dtype_name(arrays[i].dtype));
      c_registers(p, i);
      lw__text_add(p->out, ";\n");
      continue;
    }
    lw__text_add(p->out, "%s %c%u[%u] LW_UNUSED __attribute__((aligned(64)));\n",
                 c_memory_types[arrays[i].dtype], prefix, i, arrays[i].count);
  }
}

static void c_begin(lw_printer *p, const char *name) {
  const lw_kernel *kernel = p->kernel;
  lw__text_add(
      p->out,
      "\nvoid %s(void *const *buffers, const int64_t *scalars, int64_t begin, int64_t end);\n"
      "void %s(void *const *buffers LW_UNUSED, const int64_t *scalars LW_UNUSED, int64_t begin, "
      "int64_t end) {\n",
      name, name);
  for (uint32_t i = 0; i < kernel->buffers.count; i++) {
    if (!lw__printer_uses_buffer(p, i)) continue;
    const char *type = c_memory_types[kernel->buffers.data[i].dtype];
    if (kernel->buffers.data[i].written)
      lw__text_add(p->out, "  %s *const b%u = (%s *)buffers[%u];\n", type, i, type, i);
    else
      lw__text_add(p->out, "  const %s *const restrict b%u = (const %s *)buffers[%u];\n", type, i,
                   type, i);
  }
  for (uint32_t i = 0; i < kernel->scalar_count; i++)
    lw__text_add(p->out, "  const long long s%u LW_UNUSED = scalars[%u];\n", i, i);
  c_vector_types(p);
  lw__text_add(p->out, "  for (long long block = begin; block < end; block++) {\n");
  p->indent = 2;
  lw__printer_line(p);
  lw__text_add(p->out, "const int thread LW_UNUSED = 0;\n");
  c_arrays(p, 'h', kernel->shared.data, kernel->shared.count);
  c_arrays(p, 'l', kernel->locals.data, kernel->locals.count);
}

static void c_end(lw_printer *p) { lw__text_add(p->out, "  }\n}\n"); }

static void c_loop_hint(lw_printer *p, const lw_kinstr *in) {
  if (in->loop == LW_KLOOP_SERIAL || in->loop == LW_KLOOP_ROLLED)
    return; /* gcc unrolls no such loops by itself */
  lw__printer_line(p);
  if (in->loop == LW_KLOOP_VECTOR) {
    lw__text_add(p->out, "LW_VECTOR\n");
    return;
  }
  int64_t lo = lw__printer_instr(p, in->a)->imm.i, hi = lw__printer_instr(p, in->b)->imm.i;
  int64_t trips = hi > lo ? lw__ceil_div(hi - lo, lw__printer_instr(p, in->c)->imm.i) : 1;
  lw__text_add(p->out, "LW_UNROLL(%d)\n", (int)lw__min_i64(trips, 1024));
}

static void c_local_get(lw_printer *p, const lw_kinstr *in) {
  lw__text_add(p->out, "l%u[", in->object);
  lw__printer_element(p, in->b, 0);
  lw__text_add(p->out, "]");
}

static void c_local_set(lw_printer *p, const lw_kinstr *in) {
  lw__printer_line(p);
  lw__text_add(p->out, "l%u[", in->object);
  lw__printer_element(p, in->b, 0);
  lw__text_add(p->out, "] = ");
  lw__printer_to_memory(p, p->kernel->locals.data[in->object].dtype, in->d);
  lw__text_add(p->out, ";\n");
}

/* Copies of vectors are loops, not calls of memcpy: a call would keep gcc from holding local arrays
 * in registers across the loop around it. */
static void c_copy_loop(lw_printer *p, const lw_kinstr *in) {
  lw__text_add(p->out, "LW_VECTOR for (int i = 0; i < %u; i++) ", in->width);
}

static void c_local_element(lw_printer *p, const lw_kinstr *in) {
  lw__text_add(p->out, "l%u[", in->local);
  lw__printer_element(p, in->d, 0);
  lw__text_add(p->out, " + i]");
}

static void c_buffer_element(lw_printer *p, const lw_kinstr *in) {
  lw__text_add(p->out, "b%u[", in->object);
  lw__printer_place(p, in, 0);
  lw__text_add(p->out, " + i]");
}

/* ---- vectors in registers ---------------------------------------------------------------------*/

/* |lanes| elements of a local array, |k| elements after |at|. */
static void c_local_vector(lw_printer *p, uint32_t local, lw_kval at, uint32_t k, uint32_t lanes) {
  const lw_karray *array = &p->kernel->locals.data[local];
  if (array->lanes != 0) {
    int64_t first = at == LW_NONE ? 0 : lw__printer_instr(p, at)->imm.i;
    lw__text_add(p->out, "l%u_%lld", local, (long long)(first + k) / lanes);
    return;
  }
  lw__text_add(p->out, "*(m%u_%s *)&l%u[", lanes, lw_dtype_name(array->dtype), local);
  lw__printer_element(p, at, k);
  lw__text_add(p->out, "]");
}

static void c_buffer_vector(lw_printer *p, const lw_kinstr *in, uint32_t k, uint32_t lanes) {
  const lw_kbuffer *buffer = &p->kernel->buffers.data[in->object];
  lw__text_add(p->out, "*(%sm%u_%s *)&b%u[", buffer->written ? "" : "const ", lanes,
               lw_dtype_name(buffer->dtype), in->object);
  lw__printer_place(p, in, k);
  lw__text_add(p->out, "]");
}

static void c_load_registers(lw_printer *p, const lw_kinstr *in, uint32_t lanes) {
  for (uint32_t k = 0; k < in->width; k += lanes) {
    lw__printer_line(p);
    c_local_vector(p, in->local, in->d, k, lanes);
    lw__text_add(p->out, " = ");
    if (in->c != LW_NONE) {
      lw__printer_value(p, in->c);
      lw__text_add(p->out, " ? ");
    }
    c_buffer_vector(p, in, k, lanes);
    if (in->c != LW_NONE)
      lw__text_add(p->out, " : (x%u_%s){0}", lanes,
                   lw_dtype_name(p->kernel->locals.data[in->local].dtype));
    lw__text_add(p->out, ";\n");
  }
}

static void c_store_registers(lw_printer *p, const lw_kinstr *in, uint32_t lanes) {
  for (uint32_t k = 0; k < in->width; k += lanes) {
    lw__printer_line(p);
    if (in->c != LW_NONE) {
      lw__text_add(p->out, "if (");
      lw__printer_value(p, in->c);
      lw__text_add(p->out, ") ");
    }
    c_buffer_vector(p, in, k, lanes);
    lw__text_add(p->out, " = ");
    c_local_vector(p, in->local, in->d, k, lanes);
    lw__text_add(p->out, ";\n");
  }
}

static void c_move_vector(lw_printer *p, const lw_kinstr *in) {
  if (in->op == LW_K_SPILL) {
    lw__printer_line(p);
    lw__text_add(p->out, "lw_spill();\n");
    return;
  }
  const lw_karray *to = &p->kernel->locals.data[in->object];
  uint32_t lanes = to->lanes != 0 ? to->lanes : p->kernel->locals.data[in->local].lanes;
  for (uint32_t k = 0; k < in->width; k += lanes) {
    lw__printer_line(p);
    c_local_vector(p, in->object, in->b, k, lanes);
    if (in->op == LW_K_MULADDV) {
      lw__text_add(p->out, " += (%s)", c_lane_type(to->dtype));
      lw__printer_value(p, in->a);
      lw__text_add(p->out, " * ");
    } else {
      lw__text_add(p->out, " = ");
    }
    c_local_vector(p, in->local, in->d, k, lanes);
    lw__text_add(p->out, ";\n");
  }
}

/* ---- vectors in memory ------------------------------------------------------------------------*/

static void c_load_vector(lw_printer *p, const lw_kinstr *in) {
  uint32_t lanes = p->kernel->locals.data[in->local].lanes;
  if (lanes != 0) {
    c_load_registers(p, in, lanes);
    return;
  }
  lw__printer_line(p);
  if (in->c != LW_NONE) {
    lw__text_add(p->out, "if (!");
    lw__printer_value(p, in->c);
    lw__text_add(p->out, ") { ");
    c_copy_loop(p, in);
    c_local_element(p, in);
    lw__text_add(p->out, " = 0; }\n");
    lw__printer_line(p);
    lw__text_add(p->out, "else { ");
  }
  c_copy_loop(p, in);
  c_local_element(p, in);
  lw__text_add(p->out, " = ");
  c_buffer_element(p, in);
  lw__text_add(p->out, in->c != LW_NONE ? "; }\n" : ";\n");
}

static void c_store_vector(lw_printer *p, const lw_kinstr *in) {
  uint32_t lanes = p->kernel->locals.data[in->local].lanes;
  if (lanes != 0) {
    c_store_registers(p, in, lanes);
    return;
  }
  lw__printer_line(p);
  if (in->c != LW_NONE) {
    lw__text_add(p->out, "if (");
    lw__printer_value(p, in->c);
    lw__text_add(p->out, ") { ");
  }
  c_copy_loop(p, in);
  c_buffer_element(p, in);
  lw__text_add(p->out, " = ");
  c_local_element(p, in);
  lw__text_add(p->out, in->c != LW_NONE ? "; }\n" : ";\n");
}

/* A block has one thread, so a group has one. */
static void c_reduce(lw_printer *p, const lw_kinstr *in, bool leads) {
  (void)leads;
  lw__printer_value(p, in->a);
}

static const lw_printer_target c_target = {
    .value_types = c_value_types,
    .memory_types = c_memory_types,
    .wide_index = true,
    .top = c_top,
    .prelude = {{&lw__emit_helpers_c, &lw__emit_helpers_common}, c_value_types},
    .begin = c_begin,
    .end = c_end,
    .loop_hint = c_loop_hint,
    .local_get = c_local_get,
    .local_set = c_local_set,
    .load_vector = c_load_vector,
    .store_vector = c_store_vector,
    .local_vector = c_move_vector,
    .reduce = c_reduce,
};

lw_status lw__emit_c(const lw_kernel *const *kernels, const char *const *names, uint32_t count,
                     lw_text *out) {
  for (uint32_t i = 0; i < count; i++)
    if (kernels[i]->target != LW_KTARGET_CPU) return LW_STATUS_INTERNAL;
  return lw__printer_run(&c_target, kernels, names, count, out);
}

/* emit_cuda.c: kernels as CUDA C without headers, for NVRTC. */
#include "compiler/emit/emit.h"
#include "compiler/emit/product_cuda.h"
#include "compiler/emit/printer.h"

#define CUDA_STATIC_SHARED_BYTES 49152 /* more needs dynamic shared memory */

static const char *const cuda_value_types[LW_DTYPE_COUNT] = {
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
const char *const lw__cuda_memory_types[LW_DTYPE_COUNT] = {
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

static const char cuda_top[] =
    "#define LW_HELPER static __device__ __forceinline__\n"
    "#define LW_UNUSED\n"
    "#ifndef LW_MIN_BLOCKS\n"
    "#define LW_MIN_BLOCKS\n" /* builders may define it as ", 1": all registers are there then */
    "#endif\n"
    "#define LW_INF __int_as_float(0x7f800000)\n"
    "#define LW_NAN __int_as_float(0x7fffffff)\n";

static uint32_t cuda_elem_bytes(lw_dtype dtype) { return (uint32_t)lw_dtype_size_bytes(dtype); }

/* ---- declarations -----------------------------------------------------------------------------*/

static void cuda_shared(lw_printer *p) {
  const lw_kernel *kernel = p->kernel;
  bool dynamic = lw__kernel_shared_bytes(kernel) > CUDA_STATIC_SHARED_BYTES;
  size_t offset = 0;
  if (dynamic) lw__text_add(p->out, "  extern __shared__ __align__(16) unsigned char dynamic[];\n");
  for (uint32_t i = 0; i < kernel->shared.count; i++) {
    const lw_karray *array = &kernel->shared.data[i];
    /* bool itself here: reductions over bools keep one per warp. Nobody else writes this memory. */
    const char *type = array->dtype == LW_DTYPE_BOOL ? "bool" : lw__cuda_memory_types[array->dtype];
    if (dynamic)
      lw__text_add(p->out, "  %s *const h%u = (%s *)(dynamic + %zu);\n", type, i, type, offset);
    else
      lw__text_add(p->out, "  __shared__ __align__(16) %s h%u[%u];\n", type, i, array->count);
    offset += (array->count * lw_dtype_size_bytes(array->dtype) + 15) & ~(size_t)15;
  }
}

static void cuda_begin(lw_printer *p, const char *name) {
  const lw_kernel *kernel = p->kernel;
  lw__text_add(p->out, "\nextern \"C\" __global__ void __launch_bounds__(%u",
               kernel->block_threads);
  if (kernel->min_blocks_per_sm != 0)
    lw__text_add(p->out, ", %u) %s(", kernel->min_blocks_per_sm, name);
  else
    lw__text_add(p->out, " LW_MIN_BLOCKS) %s(", name);
  for (uint32_t i = 0; i < kernel->buffers.count; i++) {
    const char *type = lw__cuda_memory_types[kernel->buffers.data[i].dtype];
    bool written = kernel->buffers.data[i].written;
    lw__text_add(p->out, written ? "%s%s *b%u" : "%sconst %s *__restrict__ b%u", i == 0 ? "" : ", ",
                 type, i);
  }
  for (uint32_t i = 0; i < kernel->scalar_count; i++)
    lw__text_add(p->out, "%slong long s%u", i + kernel->buffers.count == 0 ? "" : ", ", i);
  lw__text_add(p->out,
               ") {\n"
               "  const long long block = (long long)blockIdx.x;\n"
               "  const int thread = (int)threadIdx.x;\n");
  if (kernel->early_start) {
    lw__text_add(p->out, "  const long long begun = lw_early_start();\n");
    for (uint32_t i = 0; i < kernel->buffers.count; i++)
      lw__text_add(p->out, "  b%u += begun;\n", i);
  }
  cuda_shared(p);
  for (uint32_t i = 0; i < kernel->locals.count; i++) {
    const lw_karray *array = &kernel->locals.data[i];
    uint32_t bytes = cuda_elem_bytes(array->dtype);
    if (bytes < 4)
      lw__text_add(p->out, "  unsigned l%u[%u];\n", i, (array->count * bytes + 3) / 4);
    else
      lw__text_add(p->out, "  %s l%u[%u];\n", lw__cuda_memory_types[array->dtype], i, array->count);
  }
}

static void cuda_end(lw_printer *p) { lw__text_add(p->out, "}\n"); }

static void cuda_loop_hint(lw_printer *p, const lw_kinstr *in) {
  if (in->loop == LW_KLOOP_UNROLL) lw__text_add(p->out, "#pragma unroll\n");
  if (in->loop == LW_KLOOP_ROLLED) lw__text_add(p->out, "#pragma unroll 1\n");
}

/* ---- local arrays -----------------------------------------------------------------------------*/

static void cuda_local_get(lw_printer *p, const lw_kinstr *in) {
  uint32_t bytes = cuda_elem_bytes(p->kernel->locals.data[in->object].dtype);
  if (bytes < 4)
    lw__text_add(p->out, "lw_get%u(l%u, ", 8 * bytes, in->object);
  else
    lw__text_add(p->out, "l%u[", in->object);
  lw__printer_element(p, in->b, 0);
  lw__text_add(p->out, bytes < 4 ? ")" : "]");
}

static void cuda_local_set(lw_printer *p, const lw_kinstr *in) {
  lw_dtype dtype = p->kernel->locals.data[in->object].dtype;
  uint32_t bytes = cuda_elem_bytes(dtype);
  lw__printer_line(p);
  if (bytes < 4)
    lw__text_add(p->out, "lw_set%u(l%u, ", 8 * bytes, in->object);
  else
    lw__text_add(p->out, "l%u[", in->object);
  lw__printer_element(p, in->b, 0);
  lw__text_add(p->out, bytes < 4 ? ", (unsigned %s)" : "] = ", bytes == 1 ? "char" : "short");
  lw__printer_to_memory(p, dtype, in->d);
  lw__text_add(p->out, bytes < 4 ? ");\n" : ";\n");
}

/* ---- wide accesses ----------------------------------------------------------------------------*/

/* A LOADV or STOREV as accesses of |words| 32-bit words each; 0: element by element. */
typedef struct cuda_wide {
  lw_dtype dtype;
  uint32_t elem_bytes, words;
} cuda_wide;

/* a + b is a multiple of the width and buffers start aligned to 16 bytes, so the largest power of
 * two in the bytes of the whole access divides its address. */
static cuda_wide cuda_wide_of(const lw_printer *p, const lw_kinstr *in) {
  cuda_wide w = {.dtype = p->kernel->locals.data[in->local].dtype};
  w.elem_bytes = cuda_elem_bytes(w.dtype);
  uint32_t bytes = in->width * w.elem_bytes, chunk = bytes & (0u - bytes);
  w.words = (chunk > 16 ? 16 : chunk) / 4;
  bool whole_words = w.elem_bytes >= 4 || lw__printer_is_multiple(p, in->d, 4 / w.elem_bytes);
  if (!whole_words) w.words = 0;
  return w;
}

static const char *const cuda_word_name[4][4] = {
    {"", "", "", ""}, {".x", ".y", "", ""}, {"", "", "", ""}, {".x", ".y", ".z", ".w"}};

/* Index of word |k| of a packed local array from element |at| on. */
static void cuda_packed_index(lw_printer *p, lw_kval at, uint32_t per_word, uint32_t k) {
  if (at == LW_NONE || lw__printer_instr(p, at)->op == LW_K_CONST) {
    int64_t first = at == LW_NONE ? 0 : lw__printer_instr(p, at)->imm.i;
    lw__text_add(p->out, "%lld", (long long)(first / per_word + k));
    return;
  }
  lw__printer_value(p, at);
  lw__text_add(p->out, " / %u", per_word);
  if (k != 0) lw__text_add(p->out, " + %u", k);
}

/* Statements that move the words of variable |t| into the local array, from word |first| of the
 * access on. */
static void cuda_take_words(lw_printer *p, const lw_kinstr *in, cuda_wide w, uint32_t first) {
  const char *const *part = cuda_word_name[w.words - 1];
  const char *type = lw_dtype_name(w.dtype);
  uint32_t step = w.elem_bytes == 8 ? 2 : 1;
  for (uint32_t k = 0; k < w.words; k += step) {
    lw__text_add(p->out, " l%u[", in->local);
    if (w.elem_bytes < 4)
      cuda_packed_index(p, in->d, 4 / w.elem_bytes, first + k);
    else
      lw__printer_element(p, in->d, (first + k) / step);
    if (step == 2)
      lw__text_add(p->out, "] = lw_join_%s(t%s, t%s);", type, part[k], part[k + 1]);
    else if (w.elem_bytes == 4)
      lw__text_add(p->out, "] = lw_of_word_%s(t%s);", type, part[k]);
    else
      lw__text_add(p->out, "] = t%s;", part[k]);
  }
}

static void cuda_load_elements(lw_printer *p, const lw_kinstr *in, cuda_wide w) {
  for (uint32_t k = 0; k < in->width; k++) {
    lw__printer_line(p);
    bool packed = w.elem_bytes < 4;
    if (packed)
      lw__text_add(p->out, "lw_set%u(l%u, ", 8 * w.elem_bytes, in->local);
    else
      lw__text_add(p->out, "l%u[", in->local);
    lw__printer_element(p, in->d, k);
    lw__text_add(p->out, packed ? ", (unsigned %s)(" : "] = (",
                 w.elem_bytes == 1 ? "char" : "short");
    lw__printer_pred(p, in->c, "true");
    lw__text_add(p->out, " ? b%u[", in->object);
    lw__printer_place(p, in, k);
    lw__text_add(p->out, packed ? "] : 0));\n" : "] : 0);\n");
  }
}

static void cuda_load_vector(lw_printer *p, const lw_kinstr *in) {
  static const char *const types[4] = {"unsigned", "uint2", "", "uint4"};
  cuda_wide w = cuda_wide_of(p, in);
  if (w.words == 0) {
    cuda_load_elements(p, in, w);
    return;
  }
  bool written = p->kernel->buffers.data[in->object].written;
  uint32_t total = in->width * w.elem_bytes / 4;
  for (uint32_t first = 0; first < total; first += w.words) {
    lw__printer_line(p);
    lw__text_add(p->out, "{ const %s t = lw_get_x%u%s(b%u + (", types[w.words - 1], w.words,
                 written ? "" : "_ro", in->object);
    lw__printer_place(p, in, first * 4 / w.elem_bytes);
    lw__text_add(p->out, "), ");
    lw__printer_pred(p, in->c, "true");
    lw__text_add(p->out, ");");
    cuda_take_words(p, in, w, first);
    lw__text_add(p->out, " }\n");
  }
}

static void cuda_store_elements(lw_printer *p, const lw_kinstr *in, cuda_wide w) {
  bool packed = w.elem_bytes < 4;
  for (uint32_t k = 0; k < in->width; k++) {
    lw__printer_line(p);
    lw__text_add(p->out, "if (");
    lw__printer_pred(p, in->c, "true");
    lw__text_add(p->out, ") b%u[", in->object);
    lw__printer_place(p, in, k);
    if (packed)
      lw__text_add(p->out, "] = (%s)lw_get%u(l%u, ", lw__cuda_memory_types[w.dtype],
                   8 * w.elem_bytes, in->local);
    else
      lw__text_add(p->out, "] = l%u[", in->local);
    lw__printer_element(p, in->d, k);
    lw__text_add(p->out, packed ? ");\n" : "];\n");
  }
}

/* Word |k| of what is stored. */
static void cuda_give_word(lw_printer *p, const lw_kinstr *in, cuda_wide w, uint32_t k) {
  const char *type = lw_dtype_name(w.dtype);
  if (w.elem_bytes >= 4) lw__text_add(p->out, "lw_word_%s(", type);
  lw__text_add(p->out, "l%u[", in->local);
  if (w.elem_bytes < 4)
    cuda_packed_index(p, in->d, 4 / w.elem_bytes, k);
  else
    lw__printer_element(p, in->d, w.elem_bytes == 8 ? k / 2 : k);
  lw__text_add(p->out, "]");
  if (w.elem_bytes == 8) lw__text_add(p->out, ", %u", k % 2);
  if (w.elem_bytes >= 4) lw__text_add(p->out, ")");
}

static void cuda_store_vector(lw_printer *p, const lw_kinstr *in) {
  cuda_wide w = cuda_wide_of(p, in);
  if (w.words == 0) {
    cuda_store_elements(p, in, w);
    return;
  }
  uint32_t total = in->width * w.elem_bytes / 4;
  for (uint32_t first = 0; first < total; first += w.words) {
    lw__printer_line(p);
    if (in->c != LW_NONE) {
      lw__text_add(p->out, "if (");
      lw__printer_value(p, in->c);
      lw__text_add(p->out, ") ");
    }
    lw__text_add(p->out, "lw_put_x%u(b%u + (", w.words, in->object);
    lw__printer_place(p, in, first * 4 / w.elem_bytes);
    lw__text_add(p->out, ")");
    for (uint32_t k = 0; k < w.words; k++) {
      lw__text_add(p->out, ", ");
      cuda_give_word(p, in, w, first + k);
    }
    lw__text_add(p->out, ");\n");
  }
}

/* ---- shared memory and tensor cores -----------------------------------------------------------*/

static void cuda_shared_element(lw_printer *p, uint32_t array, lw_kval index, uint32_t more) {
  lw__text_add(p->out, "h%u + ", array);
  lw__printer_value(p, index);
  if (more != 0) lw__text_add(p->out, " + %u", more);
}

/* Word or element |at| of a local array, as an address. */
static void cuda_local_place(lw_printer *p, uint32_t array, lw_kval at) {
  uint32_t bytes = cuda_elem_bytes(p->kernel->locals.data[array].dtype);
  lw__text_add(p->out, "l%u + ", array);
  if (bytes < 4)
    cuda_packed_index(p, at, 4 / bytes, 0);
  else
    lw__printer_element(p, at, 0);
}

static void cuda_shared_vector(lw_printer *p, const lw_kinstr *in) {
  static const char *const types[4] = {"unsigned", "uint2", "", "uint4"};
  cuda_wide w = cuda_wide_of(p, in);
  uint32_t words = w.words == 0 ? 1 : w.words, total = in->width * w.elem_bytes / 4;
  for (uint32_t first = 0; first < total; first += words) {
    lw__printer_line(p);
    if (in->op == LW_K_SGETV) {
      lw__text_add(p->out, "{ const %s t = lw_get_x%u(", types[words - 1], words);
      cuda_shared_element(p, in->object, in->b, first * 4 / w.elem_bytes);
      lw__text_add(p->out, ", true);");
      cuda_take_words(p, in, w, first);
      lw__text_add(p->out, " }\n");
      continue;
    }
    if (in->c != LW_NONE) {
      lw__text_add(p->out, "if (");
      lw__printer_value(p, in->c);
      lw__text_add(p->out, ") ");
    }
    lw__text_add(p->out, "lw_put_x%u(", words);
    cuda_shared_element(p, in->object, in->b, first * 4 / w.elem_bytes);
    for (uint32_t k = 0; k < words; k++) {
      lw__text_add(p->out, ", ");
      cuda_give_word(p, in, w, first + k);
    }
    lw__text_add(p->out, ");\n");
  }
}

static void cuda_copy(lw_printer *p, const lw_kinstr *in) {
  uint32_t bytes = in->width * cuda_elem_bytes(p->kernel->buffers.data[in->object].dtype);
  lw__text_add(p->out, "lw_tc_copy_%u(", bytes);
  cuda_shared_element(p, in->local, in->d, 0);
  lw__text_add(p->out, ", b%u + (", in->object);
  lw__printer_place(p, in, 0);
  lw__text_add(p->out, "), ");
  lw__printer_pred(p, in->c, "true");
  lw__text_add(p->out, ");\n");
}

static void cuda_gpu(lw_printer *p, const lw_kinstr *in) {
  if (in->op == LW_K_SGETV || in->op == LW_K_SSETV) {
    cuda_shared_vector(p, in);
    return;
  }
  lw__printer_line(p);
  switch ((lw_kop)in->op) {
    case LW_K_COPY: cuda_copy(p, in); break;
    case LW_K_COPY_END: lw__text_add(p->out, "lw_tc_copy_end();\n"); break;
    case LW_K_COPY_WAIT: lw__text_add(p->out, "lw_tc_copy_wait_%u();\n", in->width); break;
    case LW_K_FRAG:
      lw__text_add(p->out, "lw_tc_frag_%u%s(", in->width, in->fn ? "t" : "");
      cuda_local_place(p, in->local, in->d);
      lw__text_add(p->out, ", ");
      cuda_shared_element(p, in->object, in->b, 0);
      lw__text_add(p->out, ");\n");
      break;
    default:
      lw__text_add(p->out, "lw_tc_mma_%s(", lw_dtype_name(p->kernel->locals.data[in->local].dtype));
      cuda_local_place(p, in->object, in->a);
      lw__text_add(p->out, ", ");
      cuda_local_place(p, in->local, in->b);
      lw__text_add(p->out, ", ");
      cuda_local_place(p, in->other, in->c);
      lw__text_add(p->out, ");\n");
  }
}

/* ---- threads ----------------------------------------------------------------------------------*/

static void cuda_reduce(lw_printer *p, const lw_kinstr *in, bool leads) {
  const char *red = lw__red_info[in->fn].name, *type = lw_dtype_name((lw_dtype)in->dtype);
  if (in->width == 1) {
    lw__printer_value(p, in->a);
    return;
  }
  lw__text_add(p->out, "lw_%s_%s_%s(", in->width > 32 ? "block" : "warp", red, type);
  lw__printer_value(p, in->a);
  if (in->width > 32)
    lw__text_add(p->out, ", %u, h%u, %s)", in->width / 32, in->object, leads ? "true" : "false");
  else if (p->divergent == 0)
    lw__text_add(p->out, ", %u, 0xffffffffu)", in->width);
  else /* only the group is known to arrive together */
    lw__text_add(p->out, ", %u, lw_group_mask(%u))", in->width, in->width);
}

static const lw_printer_target cuda_target = {
    .value_types = cuda_value_types,
    .memory_types = lw__cuda_memory_types,
    .unsigned_quotients = true,
    .top = cuda_top,
    .prelude = {{&lw__emit_helpers_cuda, &lw__emit_helpers_common}, cuda_value_types},
    .begin = cuda_begin,
    .end = cuda_end,
    .loop_hint = cuda_loop_hint,
    .local_get = cuda_local_get,
    .local_set = cuda_local_set,
    .load_vector = cuda_load_vector,
    .store_vector = cuda_store_vector,
    .reduce = cuda_reduce,
    .product = lw__cuda_product,
    .product_helpers = &lw__emit_helpers_product_sm90,
    .product_begin = LW_PRODUCT_MARK_BEGIN "helpers */\n",
    .product_end = LW_PRODUCT_MARK_END "helpers */\n",
    .gpu = cuda_gpu,
};

lw_status lw__emit_cuda(const lw_kernel *const *kernels, const char *const *names, uint32_t count,
                        lw_text *out) {
  for (uint32_t i = 0; i < count; i++)
    if (kernels[i]->target != LW_KTARGET_GPU) return LW_STATUS_INTERNAL;
  return lw__printer_run(&cuda_target, kernels, names, count, out);
}

/* product_cuda.c: a kernel with a product: the skeleton's text around the kernel's body. What does
 * not change along a column (loads of a bias, its conversion) is printed once per column, the rest
 * once per element. */
#include "compiler/emit/product_cuda.h"

#include <string.h>

typedef struct product_body {
  lw_printer *p;
  uint8_t *of_element; /* per instruction: depends on the row or the sum, or has an effect */

} product_body;

static bool body_stores_result(const lw_printer *p, const lw_kinstr *in) {
  return in->op == LW_K_STORE && in->object == p->kernel->product.out.buffer;
}

static void body_split(product_body *b) {
  const lw_kregion *list = &b->p->kernel->regions.data[0];
  for (uint32_t i = 0; i < list->count; i++) {
    uint32_t id = list->data[i];
    const lw_kinstr *in = lw__printer_instr(b->p, id);
    const lw_kval operands[4] = {in->a, in->b, in->c, in->d};
    bool element = in->op == LW_K_ROW || in->op == LW_K_SUM || in->dtype == LW_DTYPE_NONE;
    for (int k = 0; k < 4; k++)
      if (operands[k] != LW_NONE && b->of_element[operands[k]] != 0) element = true;
    b->of_element[id] = element;
    if (b->p->live[id] != 0 && body_stores_result(b->p, in)) b->p->uses[in->d] |= LW_USE_VALUE;
  }
}

static void body_store(lw_printer *p, uint32_t id, const lw_kinstr *in) {
  lw__printer_line(p);
  if (body_stores_result(p, in)) {
    lw__text_add(p->out, "value = ");
    lw__printer_value(p, in->d);
    lw__text_add(p->out, ";\n");
    return;
  }
  lw__text_add(p->out, "if (inside)\n");
  lw__printer_instruction(p, id);
}

static void body_print(const product_body *b, bool of_element, lw_text *out) {
  lw_printer *p = b->p;
  lw_text *whole = p->out;
  const lw_kregion *list = &p->kernel->regions.data[0];
  p->out = out;
  for (uint32_t i = 0; i < list->count; i++) {
    uint32_t id = list->data[i];
    const lw_kinstr *in = lw__printer_instr(p, id);
    if (p->live[id] == 0 || (b->of_element[id] != 0) != of_element) continue;
    if (in->op == LW_K_STORE)
      body_store(p, id, in);
    else
      lw__printer_instruction(p, id);
  }
  p->out = whole;
}

static void body_column(lw_text *out, const void *user) { body_print(user, false, out); }
static void body_element(lw_text *out, const void *user) { body_print(user, true, out); }

static bool body_has(const lw_printer *p, lw_kop op) {
  for (uint32_t id = 0; id < p->kernel->instrs.count; id++)
    if (p->live[id] != 0 && lw__printer_instr(p, id)->op == op) return true;
  return false;
}

/* A store whose place the skeleton does not see to. */
static bool body_stores_by_itself(const lw_printer *p) {
  for (uint32_t id = 0; id < p->kernel->instrs.count; id++) {
    const lw_kinstr *in = lw__printer_instr(p, id);
    if (p->live[id] != 0 && in->op == LW_K_STORE && !body_stores_result(p, in)) return true;
  }
  return false;
}

/* Buffers, then scalars, each with a comma behind it; the maps follow. What is read is not
 * __restrict__: the assembler would load it for all elements at once and run out of registers. */
static void product_parameters(const lw_kernel *kernel, lw_text *out) {
  for (uint32_t i = 0; i < kernel->buffers.count; i++)
    lw__text_add(out, "%s%s *b%u, ", kernel->buffers.data[i].written ? "" : "const ",
                 lw__cuda_memory_types[kernel->buffers.data[i].dtype], i);
  for (uint32_t i = 0; i < kernel->scalar_count; i++) lw__text_add(out, "long long s%u, ", i);
}

static void product_setup(const lw_kernel *kernel, lw_text *out) {
  const lw_kproduct *product = &kernel->product;
  lw__text_add(out, "  const int rows = (int)s0, columns = %lld, depth = %lld;\n",
               (long long)product->columns, (long long)product->depth);
  if (product->out.buffer == LW_NONE || product->form.store == LW_PRODUCT_STORE_TMA) return;
  lw__text_add(out,
               "  unsigned short *const out = b%u + %lldll;\n"
               "  const long long pitch = %lldll;\n",
               product->out.buffer, (long long)product->out.offset, (long long)product->out.pitch);
}

lw_status lw__cuda_product(lw_printer *p, const char *name) {
  product_body body = {.p = p};
  lw_arena scratch = {0};
  lw_text parameters = {0}, setup = {0};
  lw_status status = lw__arena_alloc(&scratch, p->kernel->instrs.count + 1u, 1, &body.of_element);
  if (status == LW_OK) {
    body_split(&body);
    p->indent = 4;
    product_parameters(p->kernel, &parameters);
    product_setup(p->kernel, &setup);
    status = parameters.status == LW_OK ? setup.status : parameters.status;
  }
  const lw_product_hook hook = {.uses_row = body_has(p, LW_K_ROW),
                                .uses_column = body_has(p, LW_K_COLUMN),
                                .uses_inside = body_stores_by_itself(p),
                                .packs = p->kernel->product.out.buffer != LW_NONE,
                                .column = body_column,
                                .element = body_element,
                                .user = &body};
  if (status == LW_OK)
    status = lw__product_sm90_print(&p->kernel->product.form, &hook, name,
                                    lw__text_str(&parameters), lw__text_str(&setup), p->out);
  lw__text_deinit(&parameters);
  lw__text_deinit(&setup);
  lw__arena_deinit(&scratch);
  return status;
}

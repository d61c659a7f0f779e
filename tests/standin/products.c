/* products.c: kernels with a product, for the look-alike: the tensor-core skeleton is taken out and
 * what it means put in its place; the kernel's own text (parameters, set-up, what happens to a
 * column and to an element) stays as it was printed. */
#include <string.h>

#include "compiler/emit/product_sm90.h"
#include "standin/translate.h"

/* |text| from the first |mark| after |from| to the next end mark. */
static lw_str between(const char *from, const char *mark) {
  const char *start = strstr(from, mark) + strlen(mark);
  return lw__str(start, (size_t)(strstr(start, LW_PRODUCT_MARK_DONE) - start));
}

static bool within(lw_str text, const char *what) {
  return memmem(text.ptr, text.len, what, strlen(what)) != NULL;
}

static void put_store(lw_str block, lw_text *out) {
  if (!within(block, "float value = sum;")) return;
  if (within(block, "out_map"))
    lw__text_add(out, "    shim_map_put(&out_map, column, row, value);\n");
  else
    lw__text_add(out, "    out[row * pitch + column] = standin->f32_to_%s(value);\n",
                 within(block, "lw_pack_bf16(") ? "bf16" : "f16");
}

/* The kernel runs in the first thread of the first block. */
static void put_product(lw_str block, lw_text *out) {
  const char *head = strstr(block.ptr, "extern \"C\""), *body = strstr(head, ") {\n") + 4;
  lw_str setup = between(body, LW_PRODUCT_MARK_SETUP);
  lw_str column = between(body, LW_PRODUCT_MARK_COLUMN);
  lw_str element = between(body, LW_PRODUCT_MARK_ELEMENT);
  bool kn = memmem(block.ptr, (size_t)(head - block.ptr), " kn */", 6) != NULL;
  lw__text_add(out,
               "%.*s"
               "  if (blockIdx.x != 0 || threadIdx.x != 0) return;\n%.*s"
               "  for (int row = 0; row < rows; row++)\n"
               "  for (int column = 0; column < columns; column++) {\n"
               "    const bool inside = true;\n"
               "    const float sum = shim_product(&a_map, &b_map, %d, row, column, depth);\n"
               "    float value = sum;\n%.*s%.*s",
               (int)(body - head), head, (int)setup.len, setup.ptr, kn, (int)column.len, column.ptr,
               (int)element.len, element.ptr);
  put_store(block, out);
  lw__text_add(out, "  }\n}\n");
}

void lw_standin_put_products(const char *source, lw_text *out) {
  for (const char *at; (at = strstr(source, LW_PRODUCT_MARK_BEGIN)) != NULL;) {
    lw__text_add_n(out, source, (size_t)(at - source));
    const char *end = strstr(at, LW_PRODUCT_MARK_END);
    bool helpers = strncmp(at + strlen(LW_PRODUCT_MARK_BEGIN), "helpers ", 8) == 0;
    if (!helpers) put_product(lw__str(at, (size_t)(end - at)), out);
    source = strchr(end, '\n') + 1;
  }
  lw__text_add(out, "%s", source);
}

/* interp_product.c: kernels with a product, by their meaning: the sum of every element over k in
 * order, in f32, then the body. As many elements as the skeleton has threads go through the body
 * together; such a batch counts as a block, so that two elements that store to one place are found.
 */
#include "compiler/kernel/interp_state.h"

static lw_status product_fail(const ki *k, const char *text) {
  return lw__fail(k->diag, LW_STATUS_INTERNAL, "kernel interpreter", "%s", text);
}

/* |outer| rows of |inner| elements as floats, [outer][inner] or, |turned|, [inner][outer]. */
static lw_status product_matrix(ki *k, const lw_kmatrix *m, int64_t outer, int64_t inner,
                                bool turned, float **out) {
  lw_dtype dtype = k->kernel->buffers.data[m->buffer].dtype;
  int64_t rows_end, end;
  if (!lw__mul_i64(outer - 1, m->pitch, &rows_end) || !lw__add_i64(rows_end, m->offset, &end) ||
      !lw__add_i64(end, inner, &end) || end > k->lengths[m->buffer])
    return product_fail(k, "a matrix of a product reaches beyond its buffer");
  LW_TRY(lw__arena_alloc(&k->arena, (size_t)(outer * inner), sizeof **out, out));
  for (int64_t i = 0; i < outer; i++)
    for (int64_t j = 0; j < inner; j++)
      (*out)[turned ? j * outer + i : i * inner + j] =
          (float)lw__elem_get_f64(dtype, k->buffers[m->buffer].data, m->offset + i * m->pitch + j);
  k->counts.loads += (uint64_t)(outer * inner);
  k->counts.load_bytes += (uint64_t)(outer * inner) * lw_dtype_size_bytes(dtype);
  return LW_OK;
}

static lw_status product_init(ki *k, ki_product *p) {
  const lw_kproduct *product = &k->kernel->product;
  bool kn = product->form.b_layout == LW_PRODUCT_B_KN;
  p->rows = k->scalars[0];
  if (p->rows < 1 || p->rows > INT32_MAX) return product_fail(k, "a product without rows");
  int64_t n = product->columns, depth = product->depth;
  LW_TRY(product_matrix(k, &product->a, p->rows, depth, false, &p->a));
  LW_TRY(product_matrix(k, &product->b, kn ? depth : n, kn ? n : depth, kn, &p->b));
  return lw__arena_alloc(&k->arena, k->threads, sizeof *p->sums, &p->sums);
}

lw_status ki_product_check_store(const ki *k, const lw_kinstr *in, uint32_t thread, int64_t at) {
  const lw_kproduct *product = &k->kernel->product;
  if (!product->present || in->object != product->out.buffer) return LW_OK;
  int64_t element = k->product->first + thread;
  int64_t row = element / product->columns, column = element % product->columns;
  if (at == product->out.offset + row * product->out.pitch + column) return LW_OK;
  return ki_fail(k, thread, "element %lld of the result is stored for row %lld, column %lld",
                 (long long)at, (long long)row, (long long)column);
}

void ki_product_leaf(const ki *k, const lw_kinstr *in, lw_scalar *out) {
  int64_t columns = k->kernel->product.columns;
  for (uint32_t t = 0; t < k->threads; t++) {
    int64_t element = k->product->first + t;
    if (in->op == LW_K_SUM)
      out[t].f = (double)k->product->sums[t];
    else
      out[t].i = in->op == LW_K_ROW ? element / columns : element % columns;
  }
}

static void product_sums(ki *k, int64_t count) {
  ki_product *p = k->product;
  int64_t columns = k->kernel->product.columns, depth = k->kernel->product.depth;
  for (uint32_t t = 0; t < k->threads; t++) {
    int64_t element = p->first + t;
    k->masks[t] = element < count;
    if (element >= count) continue;
    const float *a = p->a + element / columns * depth, *b = p->b + element % columns * depth;
    float sum = 0;
    for (int64_t i = 0; i < depth; i++) sum += a[i] * b[i];
    p->sums[t] = sum;
  }
}

lw_status ki_product_run(ki *k) {
  ki_product product = {0};
  k->product = &product;
  LW_TRY(product_init(k, &product));
  int64_t count = product.rows * k->kernel->product.columns;
  for (; product.first < count; product.first += k->threads, k->block++) {
    k->block_epoch = ++k->epoch;
    product_sums(k, count);
    LW_TRY(ki_region(k, 0, 0));
  }
  return LW_OK;
}

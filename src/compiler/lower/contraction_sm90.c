/* contraction_sm90.c: products on Hopper's tensor cores. The kernel is the skeleton of
 * kernel/product.h; what this file makes is its description - operands, result, configuration - and
 * its body, the region's epilogue at one element. */
#include "compiler/fuse/matrix.h"
#include "compiler/lower/contraction.h"
#include "compiler/lower/mma_tile.h"

enum { least_rows = 16, THREADS = 384, REGISTERS = 240, UNIT = 8 };

/* Until the first tile is on its way: barriers, maps, the first copies. 128 x 768 x 768 took 3.7 us
 * where the model of its slices says 2.4. */
static const double start_cycles = 1000;

typedef struct product_nest {
  lw_region *region;
  const lw_lower_options *options;
  lw_matrix lhs, rhs;
  lw_region_output *packed; /* the result that is stored in rows; NULL: none is */
  lw_matrix result;
  lw_product_sm90 like;
} product_nest;

static bool policy_allows(const lw_resource_policy *policy, const lw_product_sm90 *form) {
  lw_product_sm90_shape shape;
  return lw__product_sm90_shape(form, &shape) == LW_OK &&
         (policy == NULL ||
          (policy->max_registers >= REGISTERS && policy->max_shared_bytes >= shape.shared_bytes));
}

/* The first result of 16-bit floats with its columns next to each other. */
static void find_packed(product_nest *p) {
  const lw_graph *g = p->region->ctx->graph;
  int64_t n = p->region->n;
  for (uint32_t i = 0; i < p->region->outputs.count && p->packed == NULL; i++) {
    lw_region_output *output = &p->region->outputs.data[i];
    lw_dtype dtype = lw__value(g, output->value)->dtype;
    if (dtype != LW_DTYPE_F16 && dtype != LW_DTYPE_BF16) continue;
    if (!lw__region_result(p->region, output, &p->result) || p->result.k_stride != 1) continue;
    if (p->region->m == 1) p->result.outer_stride = n;
    if (p->result.offset < 0 || p->result.outer_stride < n) continue;
    p->packed = output;
    p->like.out_dtype = dtype;
    bool units = (n | p->result.outer_stride | p->result.offset) % UNIT == 0;
    p->like.store = units ? LW_PRODUCT_STORE_TMA : LW_PRODUCT_STORE_DIRECT;
  }
}

static void describe(product_nest *p) {
  const lw_graph *g = p->region->ctx->graph;
  bool nk = p->rhs.k_stride == 1;
  p->like = (lw_product_sm90){.dtype = lw__value(g, p->lhs.value)->dtype,
                              .b_layout = nk ? LW_PRODUCT_B_NK : LW_PRODUCT_B_KN,
                              .store = LW_PRODUCT_STORE_DIRECT};
  p->like.out_dtype = p->like.dtype;
  find_packed(p);
}

static void describe_kernel(const product_nest *p, lw_nest *nest, const lw_product_sm90 *form) {
  bool nk = form->b_layout == LW_PRODUCT_B_NK;
  lw_kproduct *product = &nest->launch->kernel.product;
  *product = (lw_kproduct){
      .present = true,
      .form = *form,
      .a = {lw__nest_buffer(nest, p->lhs.value, false), p->lhs.offset, p->lhs.outer_stride},
      .b = {lw__nest_buffer(nest, p->rhs.value, false), p->rhs.offset,
            nk ? p->rhs.outer_stride : p->rhs.k_stride},
      .out = {.buffer = LW_NONE},
      .columns = p->region->n,
      .depth = p->region->k,
  };
  if (p->packed == NULL) return;
  product->out = (lw_kmatrix){lw__nest_buffer(nest, p->packed->value, true), p->result.offset,
                              p->result.outer_stride};
}

static lw_status body(const product_nest *p, lw_nest *nest) {
  lw_region *region = p->region;
  lw_kbuilder *kb = &nest->kb;
  (void)lw__kb_scalar_arg(kb);
  LW_TRY(lw__nest_bind(nest, region->space[1], lw__kb_element(kb, LW_K_ROW)));
  LW_TRY(lw__nest_bind(nest, region->space[2], lw__kb_element(kb, LW_K_COLUMN)));
  LW_TRY(lw__nest_leaf(nest, lw__node(region->ctx->graph, region->anchor)->result,
                       lw__kb_element(kb, LW_K_SUM), LW_NONE));
  for (uint32_t o = 0; o < region->outputs.count; o++)
    lw__nest_store(nest, &region->outputs.data[o], LW_NONE);
  return LW_OK;
}

static lw_status build(const product_nest *p, const lw_product_sm90 *form, lw_diag *diag,
                       lw_lowered *out) {
  lw_nest nest;
  int64_t rows = p->region->m;
  uint32_t grid = lw__product_sm90_grid(form, rows, p->region->n, p->options->profile->sm_count);
  lw_status status = lw__nest_init(&nest, p->region, p->options, out, p->region->cls, THREADS);
  if (status == LW_OK) {
    describe_kernel(p, &nest, form);
    status = body(p, &nest);
  }
  if (status == LW_OK) status = lw__nest_finish(&nest, grid, &rows, 1, diag);
  lw__nest_deinit(&nest);
  return status;
}

static void drop_last_launch(lw_lowered *out) {
  lw__launch_deinit(&out->launches.data[--out->launches.count]);
}

static lw_status is_rejected(const lw_lower_options *options, const lw_kernel *kernel, bool *out) {
  lw_hash hash;
  *out = false;
  if (options->rejected_count == 0) return LW_OK;
  LW_TRY(lw__kernel_hash(kernel, &hash));
  for (uint32_t i = 0; i < options->rejected_count; i++)
    if (lw__hash_eq(options->rejected[i], hash)) *out = true;
  return LW_OK;
}

/* Few rows, and rows of results that start anywhere, are the other kernel's (contraction_mma.c). */
static bool is_slower_than_mma(const product_nest *p, const lw_product_sm90 *form) {
  const lw_region *r = p->region;
  lw_mma_problem problem = {.batches = 1,
                            .rows = r->m,
                            .cols = r->n,
                            .depth = r->k,
                            .a_along_k = true,
                            .b_along_k = form->b_layout == LW_PRODUCT_B_NK,
                            .copied = true,
                            .profile = p->options->profile,
                            .policy = p->options->policy};
  uint32_t sms = p->options->profile->sm_count;
  if (r->m < least_rows) return true; /* the other one does not copy rows that are not there */
  double mine = start_cycles + lw__product_sm90_cycles(form, r->m, r->n, r->k, sms);
  /* With few tiles the other's smaller ones fill more of the device, alone or side by side. */
  if (lw__product_sm90_grid(form, r->m, r->n, sms) * 2 <= sms) mine *= 1.3;
  lw_mma_tile tile;
  return lw__mma_tile_rank(&problem, &tile, 1) > 0 && lw__mma_tile_cycles(&tile, &problem) < mine;
}

static lw_status say_schedule(const lw_product_sm90 *f, lw_lowered *out) {
  if (f->split > 1)
    return lw__arena_printf(&out->arena, &out->schedule,
                            "tiles of %u x %u on tensor cores, the depth shared by %u blocks",
                            f->tile_m, f->tile_n, f->split);
  return lw__arena_printf(&out->arena, &out->schedule, "tiles of %u x %u on tensor cores, %s",
                          f->tile_m, f->tile_n,
                          f->sched == LW_PRODUCT_PINGPONG ? "in turns" : "together");
}

/* The best configuration that was not rejected. */
static lw_status choose(product_nest *p, lw_diag *diag, lw_lowered *out) {
  lw_product_sm90 forms[LW_PRODUCT_SM90_CANDIDATES];
  uint32_t count = lw__product_sm90_candidates(&p->like, p->region->m, p->region->n, p->region->k,
                                               p->options->profile->sm_count, forms);
  for (uint32_t i = 0; i < count; i++) {
    const lw_product_sm90 *f = &forms[i];
    bool rejected;
    if (!p->options->sm90_always && is_slower_than_mma(p, f)) break;
    if (!policy_allows(p->options->policy, f)) continue;
    LW_TRY(build(p, f, diag, out));
    LW_TRY(is_rejected(p->options, &out->launches.data[out->launches.count - 1].kernel, &rejected));
    if (!rejected) return say_schedule(f, out);
    drop_last_launch(out);
  }
  return LW_STATUS_UNSUPPORTED;
}

lw_status lw__lower_contraction_sm90(lw_region_context *ctx, const lw_node_id *nodes,
                                     uint32_t count, const lw_lower_options *options, lw_diag *diag,
                                     lw_lowered *out) {
  lw_region region;
  lw_ix space[4];
  product_nest p = {.region = &region, .options = options};
  lw_status status = lw__region_init(&region, ctx, nodes, count);
  bool suits = false;
  if (status == LW_OK && region.elements > 0 && region.cls == LW_KCLASS_DOT) {
    lw__region_plain_space(&region, space);
    status = lw__region_place(&region, space);
    suits = status == LW_OK && lw__region_suits_sm90(&region, options->profile, &p.lhs, &p.rhs);
  }
  if (suits) {
    describe(&p);
    status = choose(&p, diag, out);
  } else if (status == LW_OK) {
    status = LW_STATUS_UNSUPPORTED;
  }
  lw__region_deinit(&region);
  return status;
}

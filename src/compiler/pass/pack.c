/* pack.c: weights of products and convolutions for matrix units, stored once more in an order that
 * can be copied in wide pieces: where the pitch of a matrix is odd, the other way round; under
 * channels-last images, with the channels of a tap next to each other. The copies are made from
 * weights alone, so a plan makes them once. Last of the passes: to the others a copy computes
 * nothing. */
#include <string.h>

#include "compiler/pass/rewriter.h"
#include "graph/infer.h"

enum { PACK_UNIT = 8 }; /* elements of 16 bits in 16 bytes */

typedef struct pack_made {
  lw_value_id from, copy;
  lw_storage storage;
} pack_made;

typedef struct pack_context {
  LW_VEC(pack_made) made;
} pack_context;

/* |v| through a cast that only widens it. */
static lw_value_id unwidened(const lw_graph *g, lw_value_id v) {
  const lw_node *node = lw__producer(g, v);
  if (node->op != LW_OP_MAP || node->attr.fn != LW_FN_CAST) return v;
  return lw__value(g, v)->dtype == LW_DTYPE_F32 ? lw__operand(g, node, 0) : v;
}

static bool extents_are(const lw_shape *shape, uint32_t d, int64_t unit, bool multiple) {
  return shape->dim[d] > 0 && (shape->dim[d] % unit == 0) == multiple;
}

/* A matrix constant [.., k, n], or one that is stored [.., n, k] and read through a permutation:
 * the order it should have. False: as it is. */
static bool matrix_order(const lw_graph *g, lw_value_id w, lw_storage *out) {
  const lw_node *node = lw__producer(g, w);
  const lw_shape *shape = &lw__value(g, w)->shape;
  uint32_t rank = shape->rank;
  for (uint32_t d = 0; d < LW_MAX_RANK; d++) out->order[d] = (uint8_t)d;
  bool turned = false;
  if (node->op == LW_OP_PERMUTE) {
    for (uint32_t d = 0; d + 2 < rank; d++)
      if (node->attr.perm[d] != d) return false;
    turned = node->attr.perm[rank - 1] == rank - 2;
    node = lw__producer(g, lw__operand(g, node, 0));
  }
  if (node->op != LW_OP_CONST || rank < 2 || !lw__shape_is_static(shape)) return false;
  uint32_t inner = turned ? rank - 2 : rank - 1, other = turned ? rank - 1 : rank - 2;
  if (!extents_are(shape, inner, PACK_UNIT, false) || !extents_are(shape, other, PACK_UNIT, true))
    return false;
  if (!turned)
    out->order[rank - 2] = (uint8_t)(rank - 1), out->order[rank - 1] = (uint8_t)(rank - 2);
  return true;
}

/* [channels out, channels in, taps ..] under an image that has its channels last. */
static bool kernel_order(const lw_graph *g, const lw_node *conv, lw_value_id w, lw_storage *out) {
  const lw_value *image = lw__value(g, lw__operand(g, conv, 0));
  const lw_shape *shape = &lw__value(g, w)->shape;
  uint32_t rank = shape->rank;
  if (lw__producer(g, w)->op != LW_OP_CONST || conv->attr.conv.transposed) return false;
  if (image->storage.order[image->shape.rank - 1] != 1) return false;
  if (!extents_are(shape, 1, PACK_UNIT, true) || shape->dim[0] < PACK_UNIT) return false;
  int64_t taps = 1;
  for (uint32_t d = 2; d < rank; d++) taps *= shape->dim[d];
  for (uint32_t d = 0; d < LW_MAX_RANK; d++) out->order[d] = (uint8_t)d;
  for (uint32_t d = 1; d + 1 < rank; d++) out->order[d] = (uint8_t)(d + 1);
  out->order[rank - 1] = 1;
  return taps > 1;
}

static lw_status copy_of(lw_rewriter *rw, lw_value_id w, const lw_storage *storage,
                         lw_value_id *out) {
  pack_context *c = rw->context;
  for (uint32_t i = 0; i < c->made.count; i++) {
    const pack_made *made = &c->made.data[i];
    if (made->from == w && memcmp(&made->storage, storage, sizeof *storage) == 0)
      return *out = made->copy, LW_OK;
  }
  lw_value value = *lw__value(rw->graph, w);
  lw_attr attr = {.fn = LW_FN_CAST};
  LW_TRY(lw__graph_append(rw->graph, LW_OP_MAP, &attr, &w, 1, value.dtype, &value.shape, out));
  lw__value(rw->graph, *out)->storage = *storage;
  return lw_vec_push(&c->made, ((pack_made){w, *out, *storage}));
}

static lw_status pack_node(lw_rewriter *rw, lw_node_id n, lw_value_id *out) {
  lw_graph *g = rw->graph;
  const lw_node node = *lw__node(g, n);
  if (n >= rw->original_nodes || (node.op != LW_OP_DOT && node.op != LW_OP_CONV)) return LW_OK;
  lw_value_id x = lw__operand(g, &node, 0), wide = lw__operand(g, &node, 1);
  lw_value_id w = unwidened(g, wide);
  lw_storage storage;
  bool wanted =
      lw__dtype_is_half(lw__value(g, w)->dtype) &&
      lw__dtype_is_half(lw__value(g, unwidened(g, x))->dtype) &&
      (node.op == LW_OP_DOT ? matrix_order(g, w, &storage) : kernel_order(g, &node, w, &storage));
  if (!wanted) return LW_OK;
  lw_value_id copy;
  LW_TRY(copy_of(rw, w, &storage, &copy));
  if (wide != w) LW_TRY(lw__graph_cast(g, copy, LW_DTYPE_F32, &copy));
  LW_TRY(node.op == LW_OP_DOT ? lw__graph_dot(g, x, copy, out)
                              : lw__graph_conv(g, x, copy, &node.attr.conv, out));
  lw__value(g, *out)->storage = lw__value(g, node.result)->storage;
  return LW_OK;
}

lw_status lw__pass_pack(lw_graph *graph, const lw_pass_options *options, lw_diag *diag,
                        bool *out_changed) {
  pack_context context = {0};
  *out_changed = false;
  if (!options->narrow_factors) return LW_OK;
  lw_status status = lw__rewrite(graph, options, diag, pack_node, &context, out_changed);
  lw_vec_free(&context.made);
  return status;
}

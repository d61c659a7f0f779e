/* op.h: operator functions, one per family, and the few helpers that families share. Each function
 * is named by a row of operators.def; what it does is ONNX's specification of these rows. */
#ifndef LW_COMPILER_ONNX_OP_H
#define LW_COMPILER_ONNX_OP_H

#include "compiler/onnx/operators.h"

/* |arg| of rows. */
typedef enum lw_reduce {
  LW_REDUCE_SUM,
  LW_REDUCE_MEAN,
  LW_REDUCE_MAX,
  LW_REDUCE_MIN,
  LW_REDUCE_PROD,
  LW_REDUCE_L1,
  LW_REDUCE_L2,
  LW_REDUCE_LOG_SUM,
  LW_REDUCE_LOG_SUM_EXP,
  LW_REDUCE_SUM_SQUARE
} lw_reduce;
typedef enum lw_global_pool { LW_GLOBAL_AVERAGE, LW_GLOBAL_MAX, LW_GLOBAL_LP } lw_global_pool;
typedef enum lw_window_kind {
  LW_WINDOW_HANN,
  LW_WINDOW_HAMMING,
  LW_WINDOW_BLACKMAN
} lw_window_kind;
typedef enum lw_rnn_kind {
  LW_RNN_RNN,
  LW_RNN_GRU,
  LW_RNN_LSTM,
  LW_RNN_QUANTIZED_LSTM
} lw_rnn_kind;

/* Every function that a row names (some are named by several). */
#define LW_OPERATOR(name, domain, since, min_in, max_in, max_out, function, arg) \
  void function(lw_call *c);
#include "compiler/onnx/operators.def"

/* Activation functions, as operators and inside recurrent layers. */
typedef enum lw_activation {
  LW_ACT_RELU,
  LW_ACT_TANH,
  LW_ACT_SIGMOID,
  LW_ACT_AFFINE,
  LW_ACT_LEAKY_RELU,
  LW_ACT_THRESHOLDED_RELU,
  LW_ACT_SCALED_TANH,
  LW_ACT_HARD_SIGMOID,
  LW_ACT_HARD_SWISH,
  LW_ACT_ELU,
  LW_ACT_SELU,
  LW_ACT_CELU,
  LW_ACT_SOFTSIGN,
  LW_ACT_SOFTPLUS,
  LW_ACT_MISH,
  LW_ACT_SWISH,
  LW_ACT_SHRINK
} lw_activation;
lw_value_id lw__op_apply_activation(lw_call *c, lw_activation kind, lw_value_id x, double alpha,
                                    double beta);

/* Constants and placeholders for elements that may be symbolic; a vector, or a scalar when
 * |scalar|. */
lw_value_id lw__op_elements(lw_call *c, const lw_content_elem *elems, uint32_t count, bool scalar);
/* Extents of a shape made of elements that must not be negative. */
bool lw__op_shape_of_elems(lw_call *c, const lw_content_elem *elems, uint32_t rank, lw_shape *out);

/* |x| as ONNX type |type| (lw_proto_type), carried where lawson has it not. |saturate|: beyond the
 * largest number comes that number; floats else become NaN or infinity, integers wrap. */
lw_value_id lw__op_to_type(lw_call *c, lw_value_id x, int32_t type, bool saturate);

/* Windows of convolutions and poolings. Per spatial axis. */
typedef struct lw_windows {
  uint32_t spatial;
  int64_t kernel[3], stride[3], dilation[3], pad_lo[3], pad_hi[3];
} lw_windows;
/* Reads strides, dilations, pads and auto_pad for input |x| [N, C, ..]; |kernel| is given. */
bool lw__op_windows(lw_call *c, lw_value_id x, lw_windows *w);

/* The convolution that the node's attributes describe, without a bias. */
lw_value_id lw__op_convolve(lw_call *c, lw_value_id x, lw_value_id w);

/* An 8-bit matrix [K, N]; scale and zero point (LW_NONE: 0) are scalars or vectors [N]. */
typedef struct lw_quantized {
  lw_value_id matrix, scale, zero;
} lw_quantized;
/* x @ w with x [.., K] in f32 quantized by its own range, as DynamicQuantizeLinear does, and an
 * integer product. */
lw_value_id lw__op_dynamic_product(lw_call *c, lw_value_id x, const lw_quantized *w);

/* x normalized to mean 0 and variance 1 over |axes|, then scaled and shifted where given. */
lw_value_id lw__op_layer_norm(lw_call *c, lw_value_id x, uint32_t axes, double epsilon,
                              lw_value_id scale, lw_value_id bias, lw_value_id *out_mean,
                              lw_value_id *out_rstd);

#endif

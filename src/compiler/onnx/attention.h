/* attention.h: the parts of scaled dot product attention that its many operators share. Operands
 * are [B, heads, S, D]; scores [B, heads, S, T] in f32 or wider. */
#ifndef LW_COMPILER_ONNX_ATTENTION_H
#define LW_COMPILER_ONNX_ATTENTION_H

#include "compiler/onnx/op.h"

/* [B, S, H*D] -> [B, H, S, D]; 4-D operands are that already. Join is the way back. */
lw_value_id lw__attention_split_heads(lw_call *c, lw_value_id x, int64_t heads);
lw_value_id lw__attention_join_heads(lw_call *c, lw_value_id x);
/* q k^T * scale; 0: 1 / sqrt(D). Each key head serves an equal number of query heads. */
lw_value_id lw__attention_scores(lw_call *c, lw_value_id q, lw_value_id k, double scale);
/* softcap * tanh(scores / softcap); 0: as they are. */
lw_value_id lw__attention_cap(lw_call *c, lw_value_id scores, double softcap);
/* |scores| where |keep| holds, -inf elsewhere. */
lw_value_id lw__attention_keep(lw_call *c, lw_value_id keep, lw_value_id scores);
/* Query i may see the keys up to |past| + i. */
lw_value_id lw__attention_causal(lw_call *c, lw_value_id scores, lw_extent past);
/* Only the first |lengths|[b] keys of each sample count. */
lw_value_id lw__attention_lengths(lw_call *c, lw_value_id scores, lw_value_id lengths);
/* softmax(scores) v, the weights rounded to |dtype|; |out_weights| may be NULL. */
lw_value_id lw__attention_values(lw_call *c, lw_value_id scores, lw_value_id v, lw_dtype dtype,
                                 lw_value_id *out_weights);
/* Rotary embedding of the first |dim| (0: all) of D. Tables [P, dim/2] with |positions| [B, S], or
 * [B, S, dim/2] without. */
lw_value_id lw__attention_rotate(lw_call *c, lw_value_id x, lw_value_id cosine, lw_value_id sine,
                                 lw_value_id positions, int64_t dim, bool interleaved);

#endif

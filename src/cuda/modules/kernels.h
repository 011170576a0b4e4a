// SPDX-License-Identifier: MIT
// The kernels of modules. Each takes the one struct of params.h that its name says; `vectors`: all
// its tensors lie so that 16 bytes can be read at once.
#pragma once

#include "cuda/device/kernel.h"
#include "cuda/modules/params.h"
#include "fla/tensor.h"

namespace fla::cuda::modules {

Kernel map_kernel(MapOp op, DType dtype, bool vectors);         // Map
Kernel column_sum_kernel(SumOp op, DType dtype, bool vectors);  // ColumnSum
Kernel finish_kernel(DType dtype);                              // Finish: finish_blocks
Kernel convert_kernel(DType dtype);                             // Convert: convert_blocks
/// `items`: vectors of a thread that stay in its registers, 1 or 4; 0: any number, read again.
Kernel norm_kernel(NormKind kind, DType dtype, int items);           // Norm
Kernel norm_backward_kernel(NormKind kind, DType dtype, int items);  // Norm
/// `taps`: 4, or 0 for any number.
Kernel short_conv_kernel(DType dtype, bool vectors, int taps);                  // ShortConv
Kernel short_conv_backward_kernel(DType dtype, bool vectors, int taps);         // ShortConv
Kernel short_conv_state_kernel(DType dtype);                                    // ShortConv
Kernel embedding_kernel(DType dtype, bool vectors);                             // Embedding
Kernel embedding_pairs_kernel();                                                // Embedding
Kernel embedding_pieces_kernel(DType dtype);                                    // Embedding
Kernel embedding_runs_kernel(DType dtype);                                      // Embedding
Kernel sort_tile_kernel();                                                      // SortStep
Kernel sort_merge_kernel();                                                     // SortStep
Kernel count_targets_kernel();                                                  // CrossEntropy
Kernel cross_entropy_kernel(DType dtype);                                       // CrossEntropy
Kernel mean_loss_kernel();                                                      // CrossEntropy
Kernel adamw_kernel(DType param, bool wide_states, bool master, bool vectors);  // AdamW
Kernel grad_norm_kernel(DType dtype, bool vectors);                             // GradNorm
Kernel grad_norm_root_kernel();                                                 // GradNorm
Kernel rotary_kernel(DType dtype, bool vectors);                                // Rotary
Kernel lower_bounds_kernel(DType dtype);                                        // LowerBounds
Kernel lower_bounds_backward_kernel(DType dtype);                               // LowerBounds
Kernel token_shift_kernel(DType dtype, bool vectors);                           // TokenShift
Kernel token_shift_backward_kernel(DType dtype, bool vectors);                  // TokenShift: d_x
Kernel token_shift_mix_kernel(DType dtype, bool vectors);                       // TokenShift: d_mix
Kernel token_shift_state_kernel(DType dtype, bool vectors);                     // TokenShift
Kernel rwkv7_key_kernel(DType dtype, bool vectors);                             // Rwkv7
Kernel rwkv7_key_backward_kernel(DType dtype, bool vectors);                    // Rwkv7
Kernel rwkv7_output_kernel(DType dtype, bool vectors);                          // Rwkv7
Kernel rwkv7_output_backward_kernel(DType dtype, bool vectors);                 // Rwkv7
Kernel attention_kernel(DType dtype, int64_t channels);       // Attention; channels of a head
Kernel attention_append_kernel(DType dtype);                  // Attention
Kernel attention_cached_kernel(DType dtype);                  // Attention
Kernel attention_dot_kernel(DType dtype);                     // Attention
Kernel attention_d_q_kernel(DType dtype, int64_t channels);   // Attention
Kernel attention_d_kv_kernel(DType dtype, int64_t channels);  // Attention

}  // namespace fla::cuda::modules

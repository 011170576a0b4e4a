// SPDX-License-Identifier: MIT
// What the kernels around the chunk engine are told, and the kernels. Scratch is fp32 and
// contiguous; T counts the rows of a batch row.
#pragma once

#include <cstdint>

#include "cuda/device/kernel.h"
#include "cuda/device/segments.h"
#include "cuda/device/tensors.h"

namespace fla::cuda::fold {

inline constexpr int kThreads = 256;
inline constexpr int32_t kRowsPerPart = 32;

/// A [B, T, columns] matrix cut for a grid: a thread owns a column and walks a part of a batch row.
/// The cut follows from the sizes alone, so that sums over it are the same on every machine.
struct Tiling {
  int32_t T = 0;
  int32_t columns = 0;
  int32_t width = 32;           // columns a block
  int32_t lanes = 8;            // parts a block
  int32_t parts_per_batch = 0;  // of kRowsPerPart tokens
  int64_t num_parts = 0;

  Tiling() = default;
  Tiling(int64_t B, int64_t num_tokens, int64_t num_columns)
      : T(static_cast<int32_t>(num_tokens)), columns(static_cast<int32_t>(num_columns)) {
    while (width < kThreads && width < columns)
      width *= 2;
    lanes = kThreads / width;
    parts_per_batch = static_cast<int32_t>((num_tokens + kRowsPerPart - 1) / kRowsPerPart);
    num_parts = B * parts_per_batch;
  }
  int32_t column_blocks() const { return (columns + width - 1) / width; }
  int64_t blocks() const { return (num_parts + lanes - 1) / lanes * column_blocks(); }
  /// Floats of a sum over the rows of each part.
  int64_t sum_floats() const { return num_parts * columns; }
};

/// What turns a raw number x into what the recurrence reads (math.md 5.4, 5.5, 6.4).
enum class Activation : int32_t {
  kSigmoid,   // factor sigmoid(x)
  kSoftplus,  // -exp(A_log) softplus(x + dt_bias)
  kBounded,   // factor sigmoid(exp(A_log) (x + dt_bias))
  kStepSize,  // dt = softplus(x + dt_bias) and -exp(A_log) dt
};

/// Gates and betas, and backwards. Tiling [B, T, heads n].
struct Activate {
  Activation kind = Activation::kSigmoid;
  Tiling tiling;
  Rows raw;           // [B, T, heads, n]
  Parameter a_log;    // [heads], null: 0
  Parameter dt_bias;  // [heads n], null: 0
  int32_t n = 1;
  float factor = 1.0F;
  float* out = nullptr;   // [B, T, heads, n]
  float* step = nullptr;  // kStepSize: dt
  // Backward.
  const float* d_out = nullptr;
  const float* d_step = nullptr;
  Rows d_raw;                    // null: not wanted
  float* bias_parts = nullptr;   // [parts, heads n] of the gradient of dt_bias, null: not wanted
  float* a_log_parts = nullptr;  // [parts, heads n] of that of A_log
};

/// parts <- sums of `in` [B, T, columns] over the rows of each part.
struct ColumnParts {
  Tiling tiling;
  const float* in = nullptr;
  float* parts = nullptr;  // [parts, columns]
};

/// out[i, j] <- sum over parts and x of parts[part, i first + j second + x step].
struct ColumnSums {
  const float* parts = nullptr;
  int64_t num_parts = 0;
  int64_t columns = 0;
  int64_t num_i = 0;
  int32_t num_j = 1;
  int64_t first = 0;
  int64_t second = 0;
  int32_t inner = 1;  // x < inner
  int64_t step = 0;
  float factor = 1.0F;
  char* out = nullptr;
  int64_t stride_i = 0;  // bytes
  int64_t stride_j = 0;
  int32_t dtype = 0;
};

/// out <- the sum of `in` [B, T, heads group, n] over the value heads of a key head. Tiling
/// [B, T, heads n].
struct GroupSum {
  Tiling tiling;
  const float* in = nullptr;
  Rows out;  // [B, T, heads, n]
  int32_t heads = 0;
  int32_t group = 1;
  int32_t n = 0;
};

inline constexpr int kRowsPerBlock = kThreads / 32;  // of kernels with a warp a row

/// gdn2's gates a channel (math.md 5.3): e = b k, v <- w v; a warp a token and head.
struct ChannelGates {
  uint32_t num_rows = 0;  // B T value heads; backward: B T key heads
  int32_t T = 0;
  int32_t heads = 0;  // key heads
  int32_t group = 1;
  int32_t keys = 0;
  int32_t values = 0;
  bool norm = false;  // k is divided by its norm
  Rows k, v, erase_gate, write_gate;
  float* erase_key = nullptr;  // [B,T,HV,K]
  float* value = nullptr;      // [B,T,HV,V]
  // Backward, from the engine's gradients a value head.
  const float* d_erase_key = nullptr;
  const float* d_value = nullptr;
  const float* d_write_key = nullptr;  // of k as given
  Rows d_k, d_v, d_erase_gate, d_write_gate;
};

/// The preconditioner (math.md 5.8). Of a token and key head, with k normalised:
///   A <- e^g A + beta k^2,  write key = k exp(-ln 1.5 l / (1 + |l|)),  l = ln(A + 1e-6) - c
struct Precondition {
  Segments segments;      // columns are H K
  uint32_t num_rows = 0;  // B T H
  int32_t T = 0;
  int32_t heads = 0;
  int32_t group = 1;
  int32_t keys = 0;
  bool norm = false;  // k is divided by its norm
  Rows k, g_atk, beta_atk;
  Parameter log_atk_scale;
  KeyState initial, final;
  float* key_factor = nullptr;  // [B,T,H] 1 / |k|, null without norm
  float* decayed = nullptr;     // [B,T,H,K] e^g A before the token, for a backward pass
  float* write_key = nullptr;   // [B,T,H,K]
  // Backward, from the engine's gradients a value head.
  const float* d_write_key = nullptr;
  const float* d_erase_key = nullptr;  // of k as given
  float* carry = nullptr;              // [B,T,H,K] the gradient of A after the token
  float* d_scale = nullptr;            // [B,T,H]
  Rows d_k, d_g_atk, d_beta_atk;
  KeyState d_initial, d_final;
};

/// The normaliser of linear_attn (math.md 5.6): the engine runs with a column of ones behind the
/// values, whose state is z and whose output is the denominator. A warp a token and head.
struct Normalize {
  Sequences sequences;
  int64_t num_sequences = 0;
  uint32_t num_rows = 0;  // B T HV
  int32_t T = 0;
  int32_t heads = 0;
  int32_t values = 0;
  int32_t stride = 0;  // floats from head to head in scratch
  Rows v, o, d_o, d_v;
  float* value = nullptr;   // [B,T,HV,stride]
  float* output = nullptr;  // [B,T,HV,stride]; backward: replaced by its gradient
  const float* d_value = nullptr;
};

/// Between states (S, z) and [N,HV,K,stride] with z behind the values; a block a sequence and head.
struct JoinedState {
  Sequences sequences;
  State matrix;
  KeyState key;
  float* joined = nullptr;
  int32_t heads = 0;
  int32_t keys = 0;
  int32_t values = 0;
  int32_t stride = 0;
};

/// gsa's softmax over the slots of a token and head, a warp each (math.md 6.8).
struct SlotSoftmax {
  uint32_t num_rows = 0;  // B T HV
  int32_t slots = 0;
  float* scores = nullptr;    // [B,T,HV,M]; forward: replaced by the probabilities
  float* gradient = nullptr;  // backward: of the probabilities, replaced by that of the scores
};

/// out <- a + b, [B,T,heads,n]. Tiling [B, T, heads n].
struct AddRows {
  Tiling tiling;
  const float* a = nullptr;
  const float* b = nullptr;
  Rows out;
  int32_t n = 0;
};

Kernel activate_kernel();
Kernel activate_backward_kernel();
Kernel column_parts_kernel();
Kernel column_sums_kernel();
Kernel group_sum_kernel();
Kernel channel_gates_kernel();
Kernel channel_gates_backward_kernel();

// In the order of their launches.
Kernel key_factor_kernel();
Kernel precondition_sums_kernel();
Kernel precondition_kernel();
Kernel precondition_local_kernel();
Kernel precondition_sums_back_kernel();
Kernel precondition_back_kernel();
Kernel precondition_gradient_kernel();

Kernel slot_softmax_kernel();
Kernel slot_softmax_backward_kernel();
Kernel add_rows_kernel();

Kernel append_ones_kernel();
Kernel join_state_kernel();
Kernel split_state_kernel();
Kernel normalize_kernel();
Kernel normalize_backward_kernel();
Kernel drop_ones_kernel();

}  // namespace fla::cuda::fold

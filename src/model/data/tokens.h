// SPDX-License-Identifier: MIT
// The inputs of a training step: random tokens, packed sequences, labels.
#pragma once

#include <cstdint>
#include <span>
#include <vector>

#include "fla/status.h"

namespace fla::model {

/// The label of a token that has no target.
inline constexpr int32_t kNoTarget = -100;

/// ids ~ U{0, ..., vocab_size - 1}: the same for the same seed and step. Errors: kInvalidArgument
/// for a vocabulary outside 1..2^31-1.
Status random_tokens(uint64_t seed, uint64_t step, int64_t vocab_size, std::span<int32_t> ids);

/// cu_seqlens of one packed row: n ~ U{8, ..., 63} distinct cuts out of {16, ..., num_tokens - 1},
/// so 9 to 64 sequences, each cut further into pieces of at most `context_len` (0: not). Errors:
/// kInvalidArgument for fewer tokens than 63 cuts need, or more than 2^31-1.
Result<std::vector<int32_t>> random_sequences(uint64_t seed, uint64_t step, int64_t num_tokens,
                                              int64_t context_len);

/// What no draw of random_sequences exceeds.
int64_t max_sequences(int64_t num_tokens, int64_t context_len);

/// The label of a token is the token after it in its row; a row's last has no target. A packed row
/// is one row: its sequences predict each other's first token unless mask_borders follows. Errors:
/// kInvalidArgument unless both have the same whole number of rows of `row_tokens`.
Status next_token_labels(std::span<const int32_t> ids, int64_t row_tokens,
                         std::span<int32_t> labels);

/// Takes the target from the last token of each sequence. Errors: kInvalidArgument unless
/// `cu_seqlens` rises from 0 to the number of labels.
Status mask_borders(std::span<const int32_t> cu_seqlens, std::span<int32_t> labels);

int64_t num_targets(std::span<const int32_t> labels);

}  // namespace fla::model

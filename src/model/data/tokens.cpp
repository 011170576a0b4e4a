// SPDX-License-Identifier: MIT
// The inputs of a training step: random tokens, packed sequences, labels.
#include "model/data/tokens.h"

#include <algorithm>
#include <limits>
#include <set>

#include <fmt/format.h>

#include "model/data/draws.h"

namespace fla::model {
namespace {

constexpr int64_t kMinCuts = 8;
constexpr int64_t kMaxCuts = 63;
constexpr int64_t kFirstCut = 16;
constexpr int64_t kMinPackedTokens = kFirstCut + kMaxCuts;
constexpr int64_t kMaxInt32 = std::numeric_limits<int32_t>::max();

}  // namespace

Status random_tokens(uint64_t seed, uint64_t step, int64_t vocab_size, std::span<int32_t> ids) {
  if (vocab_size < 1 || vocab_size > kMaxInt32)
    return {Code::kInvalidArgument,
            fmt::format("vocab_size is {}, expected 1 to {}", vocab_size, kMaxInt32)};
  const Philox philox = generator(seed, Draw::kTokens, step);
  for (size_t i = 0; i < ids.size(); ++i)
    ids[i] = static_cast<int32_t>(draw_below(philox, i, vocab_size));
  return {};
}

Result<std::vector<int32_t>> random_sequences(uint64_t seed, uint64_t step, int64_t num_tokens,
                                              int64_t context_len) {
  if (num_tokens < kMinPackedTokens || num_tokens > kMaxInt32)
    return Status(
        Code::kInvalidArgument,
        fmt::format("varlen: a row of {} tokens, expected {} to {} (batch_size x seq_len)",
                    num_tokens, kMinPackedTokens, kMaxInt32));
  if (context_len < 0)
    return Status(Code::kInvalidArgument,
                  fmt::format("context_len is {}, expected at least 0", context_len));
  const Philox philox = generator(seed, Draw::kCuts, step);
  uint64_t draw = 0;
  const auto num_cuts =
      static_cast<size_t>(kMinCuts + draw_below(philox, draw++, kMaxCuts - kMinCuts + 1));
  std::set<int64_t> ends;
  while (ends.size() < num_cuts)
    ends.insert(kFirstCut + draw_below(philox, draw++, num_tokens - kFirstCut));
  ends.insert(num_tokens);
  std::vector<int32_t> cu_seqlens = {0};
  for (const int64_t end : ends) {
    if (context_len > 0) {
      while (end - cu_seqlens.back() > context_len)
        cu_seqlens.push_back(static_cast<int32_t>(cu_seqlens.back() + context_len));
    }
    cu_seqlens.push_back(static_cast<int32_t>(end));
  }
  return cu_seqlens;
}

int64_t max_sequences(int64_t num_tokens, int64_t context_len) {
  const int64_t pieces = context_len > 0 ? num_tokens / context_len : 0;
  return std::min(num_tokens, kMaxCuts + 1 + pieces);
}

Status next_token_labels(std::span<const int32_t> ids, int64_t row_tokens,
                         std::span<int32_t> labels) {
  if (row_tokens < 1 || ids.size() % static_cast<size_t>(row_tokens) != 0 ||
      labels.size() != ids.size())
    return {Code::kInvalidArgument, fmt::format("{} ids and {} labels, expected rows of {} of both",
                                                ids.size(), labels.size(), row_tokens)};
  for (size_t i = 0; i < ids.size(); ++i) {
    const bool last = (i + 1) % static_cast<size_t>(row_tokens) == 0;
    labels[i] = last ? kNoTarget : ids[i + 1];
  }
  return {};
}

Status mask_borders(std::span<const int32_t> cu_seqlens, std::span<int32_t> labels) {
  if (cu_seqlens.size() < 2 || cu_seqlens.front() != 0 ||
      static_cast<size_t>(cu_seqlens.back()) != labels.size() ||
      !std::is_sorted(cu_seqlens.begin(), cu_seqlens.end()))
    return {Code::kInvalidArgument,
            fmt::format("cu_seqlens does not rise from 0 to {} tokens", labels.size())};
  for (const int32_t end : cu_seqlens.subspan(1)) {
    if (end > 0)
      labels[static_cast<size_t>(end) - 1] = kNoTarget;
  }
  return {};
}

int64_t num_targets(std::span<const int32_t> labels) {
  return std::count_if(labels.begin(), labels.end(), [](int32_t label) { return label >= 0; });
}

}  // namespace fla::model

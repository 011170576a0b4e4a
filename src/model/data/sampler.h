// SPDX-License-Identifier: MIT
// Sampler: from the logits of a position to the next token.
#pragma once

#include <cstddef>
#include <cstdint>
#include <span>
#include <vector>

#include "core/philox.h"
#include "fla/status.h"

namespace fla::model {

struct SamplerOptions {
  bool greedy = false;              // the largest logit after the penalty, of equals the lowest id
  float temperature = 1.0F;         // above 0
  int64_t top_k = 0;                // the k largest logits and what equals the k-th; 0: all
  float top_p = 1.0F;               // the fewest largest whose probabilities reach this; 0 to 1
  float repetition_penalty = 1.0F;  // above 0; of ids seen: l p for l < 0, else l / p
};

/// The choice of one sequence's tokens. Steps in the order of the options: penalty, temperature,
/// top-k, top-p, draw; the same draws for the same seed and sequence.
class Sampler {
 public:
  /// Errors: kInvalidArgument, naming the option.
  static Result<Sampler> create(const SamplerOptions& options, int64_t vocab_size, uint64_t seed,
                                uint64_t sequence);

  /// Ids of the prompt, for the penalty. Errors: kInvalidArgument for one outside the vocabulary.
  Status see(std::span<const int32_t> ids);

  /// The next token, which counts as seen from then on. Errors: kInvalidArgument for another number
  /// of logits than the vocabulary has, for NaN or +infinity, and where all are -infinity.
  Result<int32_t> next(std::span<const float> logits);

 private:
  Sampler(const SamplerOptions& options, int64_t vocab_size, const Philox& philox);
  void mark(int32_t id);
  Result<int32_t> find_largest(std::span<const float> logits);
  float find_threshold();
  double collect(float largest, float threshold);
  double keep_top_p(double total);
  int32_t draw(double total);

  SamplerOptions options_;
  Philox philox_;
  uint64_t num_draws_ = 0;
  std::vector<bool> is_seen_;
  std::vector<int32_t> seen_;
  std::vector<float> scores_;  // logits after the penalty
  std::vector<float> largest_scores_;
  size_t num_candidates_ = 0;  // of them, in the order of ids:
  std::vector<int32_t> ids_;
  std::vector<float> distances_;  // from the largest score, divided by the temperature
  std::vector<float> weights_;    // exp(-distance)
  std::vector<size_t> border_;
};

}  // namespace fla::model

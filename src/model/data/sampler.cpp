// SPDX-License-Identifier: MIT
// The next token of a sequence. Nothing is sorted whole: top-k keeps a few candidates while it
// reads, top-p sums probabilities by buckets and sorts the one bucket in which the sum ends.
#include "model/data/sampler.h"

#include <algorithm>
#include <array>
#include <cmath>
#include <functional>
#include <limits>
#include <string_view>

#include <fmt/format.h>

#include "model/data/draws.h"

namespace fla::model {
namespace {

constexpr float kInfinity = std::numeric_limits<float>::infinity();
constexpr int32_t kNumBuckets = 1024;
constexpr float kBucketsPerNat = 64.0F;

int32_t bucket_of(float distance) {
  return static_cast<int32_t>(std::min(distance * kBucketsPerNat, float{kNumBuckets - 1}));
}

/// NaN where one is NaN or +infinity. Independent lanes, as each comparison waits for the one
/// before.
float largest_of(std::span<const float> scores) {
  std::array<float, 8> lanes;
  lanes.fill(-kInfinity);
  bool sound = true;
  const auto add = [&](size_t lane, float score) {
    sound &= score < kInfinity;
    lanes[lane] = score > lanes[lane] ? score : lanes[lane];
  };
  size_t i = 0;
  for (; i + lanes.size() <= scores.size(); i += lanes.size()) {
    for (size_t lane = 0; lane < lanes.size(); ++lane)
      add(lane, scores[i + lane]);
  }
  for (; i < scores.size(); ++i)
    add(0, scores[i]);
  return sound ? *std::max_element(lanes.begin(), lanes.end())
               : std::numeric_limits<float>::quiet_NaN();
}

Status check_options(const SamplerOptions& options, int64_t vocab_size) {
  const auto refused = [](std::string_view name, auto value, std::string_view expected) {
    return Status(Code::kInvalidArgument,
                  fmt::format("{} is {}, expected {}", name, value, expected));
  };
  if (vocab_size < 1 || vocab_size > std::numeric_limits<int32_t>::max())
    return refused("vocab_size", vocab_size, "1 to 2147483647");
  if (!(options.temperature > 0.0F && options.temperature < kInfinity))
    return refused("temperature", options.temperature, "above 0 (greedy takes the largest logit)");
  if (options.top_k < 0)
    return refused("top_k", options.top_k, "at least 0 (0: all)");
  if (!(options.top_p >= 0.0F && options.top_p <= 1.0F))
    return refused("top_p", options.top_p, "0 to 1");
  if (!(options.repetition_penalty > 0.0F && options.repetition_penalty < kInfinity))
    return refused("repetition_penalty", options.repetition_penalty, "above 0");
  return {};
}

}  // namespace

Sampler::Sampler(const SamplerOptions& options, int64_t vocab_size, const Philox& philox)
    : options_(options),
      philox_(philox),
      is_seen_(static_cast<size_t>(vocab_size)),
      scores_(static_cast<size_t>(vocab_size)),
      ids_(scores_.size()),
      distances_(scores_.size()),
      weights_(scores_.size()) {}

Result<Sampler> Sampler::create(const SamplerOptions& options, int64_t vocab_size, uint64_t seed,
                                uint64_t sequence) {
  const Status status = check_options(options, vocab_size);
  if (!status.ok())
    return status;
  return Sampler(options, vocab_size, generator(seed, Draw::kSampling, sequence));
}

void Sampler::mark(int32_t id) {
  const auto index = static_cast<size_t>(id);
  if (!is_seen_[index]) {
    is_seen_[index] = true;
    seen_.push_back(id);
  }
}

Status Sampler::see(std::span<const int32_t> ids) {
  for (const int32_t id : ids) {
    if (id < 0 || static_cast<size_t>(id) >= scores_.size())
      return {Code::kInvalidArgument,
              fmt::format("token {} of the prompt is outside the vocabulary of {}", id,
                          scores_.size())};
  }
  for (const int32_t id : ids)
    mark(id);
  return {};
}

/// Fills scores_; the id of the largest.
Result<int32_t> Sampler::find_largest(std::span<const float> logits) {
  if (logits.size() != scores_.size())
    return Status(Code::kInvalidArgument,
                  fmt::format("{} logits, expected {}", logits.size(), scores_.size()));
  std::copy(logits.begin(), logits.end(), scores_.begin());
  for (const int32_t id : seen_) {
    float& score = scores_[static_cast<size_t>(id)];
    score =
        score < 0.0F ? score * options_.repetition_penalty : score / options_.repetition_penalty;
  }
  const float largest = largest_of(scores_);
  if (std::isnan(largest)) {
    const auto bad = std::find_if(scores_.begin(), scores_.end(),
                                  [](float score) { return !(score < kInfinity); });
    const auto id = static_cast<size_t>(bad - scores_.begin());
    return Status(Code::kInvalidArgument,
                  fmt::format("the logit of token {} is {}", id, logits[id]));
  }
  if (largest == -kInfinity)
    return Status(Code::kInvalidArgument, "every logit is -inf");
  return static_cast<int32_t>(std::find(scores_.begin(), scores_.end(), largest) - scores_.begin());
}

/// The top_k-th largest score; below all where top-k keeps everything.
float Sampler::find_threshold() {
  const auto k = static_cast<size_t>(options_.top_k);
  if (k == 0 || k >= scores_.size())
    return std::numeric_limits<float>::lowest();
  const size_t capacity = std::max<size_t>(4 * k, 1024);
  float floor = -kInfinity;  // k scores so far are at least this
  const auto cut = [&] {
    const auto kth = largest_scores_.begin() + static_cast<std::ptrdiff_t>(k - 1);
    std::nth_element(largest_scores_.begin(), kth, largest_scores_.end(), std::greater<>());
    floor = *kth;
    largest_scores_.resize(k);
  };
  largest_scores_.clear();
  for (const float score : scores_) {
    if (score > floor) {
      largest_scores_.push_back(score);
      if (largest_scores_.size() == capacity)
        cut();
    }
  }
  if (largest_scores_.size() >= k)
    cut();
  return std::max(floor, std::numeric_limits<float>::lowest());
}

/// The candidates of at least `threshold`, with their weights; the sum of these.
double Sampler::collect(float largest, float threshold) {
  num_candidates_ = 0;
  double total = 0.0;
  for (size_t i = 0; i < scores_.size(); ++i) {
    if (scores_[i] < threshold)
      continue;
    const float distance = (largest - scores_[i]) / options_.temperature;
    const float weight = std::exp(-distance);
    total += double{weight};
    ids_[num_candidates_] = static_cast<int32_t>(i);
    distances_[num_candidates_] = distance;
    weights_[num_candidates_++] = weight;
  }
  return total;
}

/// Leaves the fewest largest candidates that have top_p of the weight, at least one; their sum.
double Sampler::keep_top_p(double total) {
  if (options_.top_p == 1.0F)
    return total;
  std::array<double, kNumBuckets> sums{};
  for (size_t i = 0; i < num_candidates_; ++i)
    sums[static_cast<size_t>(bucket_of(distances_[i]))] += double{weights_[i]};
  const double wanted = double{options_.top_p} * total;
  double reached = 0.0;
  int32_t bucket = 0;
  while (bucket < kNumBuckets - 1 && reached + sums[static_cast<size_t>(bucket)] < wanted)
    reached += sums[static_cast<size_t>(bucket++)];
  border_.clear();
  for (size_t i = 0; i < num_candidates_; ++i) {
    if (bucket_of(distances_[i]) == bucket)
      border_.push_back(i);
  }
  // Larger first, of equals the lower id.
  const auto before = [this](size_t a, size_t b) {
    return distances_[a] != distances_[b] ? distances_[a] < distances_[b] : a < b;
  };
  std::sort(border_.begin(), border_.end(), before);
  size_t taken = 0;
  while (taken < border_.size() && (taken == 0 || reached < wanted))
    reached += double{weights_[border_[taken++]]};
  const size_t last = border_[taken - 1];  // top_p < 1: this bucket has some of the weight
  const float last_distance = distances_[last];
  size_t kept = 0;
  for (size_t i = 0; i < num_candidates_; ++i) {  // no branch: which ones stay cannot be foreseen
    ids_[kept] = ids_[i];
    weights_[kept] = weights_[i];
    kept += static_cast<size_t>(distances_[i] < last_distance) |
            static_cast<size_t>(distances_[i] == last_distance && i <= last);
  }
  num_candidates_ = kept;
  return reached;
}

/// A candidate with the probability of its weight.
int32_t Sampler::draw(double total) {
  const double wanted = philox_.uniform(num_draws_++) * total;
  double reached = 0.0;
  int32_t id = ids_[0];
  for (size_t i = 0; i < num_candidates_ && reached <= wanted; ++i) {
    reached += double{weights_[i]};
    if (weights_[i] > 0.0F)
      id = ids_[i];
  }
  return id;
}

Result<int32_t> Sampler::next(std::span<const float> logits) {
  const Result<int32_t> largest = find_largest(logits);
  if (!largest.ok())
    return largest.status();
  int32_t id = largest.value();
  if (!options_.greedy) {
    const double total = collect(scores_[static_cast<size_t>(id)], find_threshold());
    id = draw(keep_top_p(total));
  }
  mark(id);
  return id;
}

}  // namespace fla::model

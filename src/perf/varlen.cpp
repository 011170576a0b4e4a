// SPDX-License-Identifier: MIT
// Packed batches of the benchmark.
#include "perf/varlen.h"

#include <algorithm>
#include <cmath>
#include <set>

#include <fmt/format.h>

#include "core/philox.h"
#include "perf/nearest.h"

namespace fla::perf {
namespace {

constexpr int64_t kSequences = 16;
constexpr int64_t kChunk = 64;
constexpr int64_t kShortest = 16;       // of "upstream"
constexpr uint64_t kStream = 0x6c656e;  // apart from the streams that draw tensors

/// Uniform integers in [low, high], one after another.
class Draw {
 public:
  explicit Draw(uint64_t seed) : philox_(seed, kStream) {}
  int64_t operator()(int64_t low, int64_t high) {
    const double span = static_cast<double>(high - low + 1);
    return std::min(high, low + static_cast<int64_t>(philox_.uniform(next_++) * span));
  }

 private:
  Philox philox_;
  uint64_t next_ = 0;
};

std::vector<int64_t> from_lengths(const std::vector<int64_t>& lengths) {
  std::vector<int64_t> offsets = {0};
  for (int64_t length : lengths) {
    offsets.push_back(offsets.back() + length);
  }
  return offsets;
}

/// Lengths near `total * weights`, each at least 1, summing to total.
std::vector<int64_t> share(int64_t total, const std::vector<double>& weights) {
  double sum = 0;
  for (double weight : weights) {
    sum += weight;
  }
  std::vector<int64_t> offsets = {0};
  double reached = 0;
  for (size_t i = 0; i < weights.size(); ++i) {
    reached += weights[i];
    const int64_t left = static_cast<int64_t>(weights.size() - 1 - i);
    const int64_t end =
        static_cast<int64_t>(std::llround(static_cast<double>(total) * reached / sum));
    offsets.push_back(std::clamp(end, offsets.back() + 1, total - left));
  }
  return offsets;
}

std::vector<int64_t> random_cuts(int64_t total, int64_t count, Draw* draw) {
  std::set<int64_t> cuts = {0, total};
  while (static_cast<int64_t>(cuts.size()) < count + 1) {
    cuts.insert((*draw)(1, total - 1));
  }
  return {cuts.begin(), cuts.end()};
}

std::vector<int64_t> one_long(int64_t total, Draw* draw) {
  const int64_t first = std::max<int64_t>(1, total * 3 / 4);
  std::vector<int64_t> lengths = {first};
  for (int64_t left = total - first; left > 0; left -= lengths.back()) {
    lengths.push_back(std::min(left, (*draw)(1, std::max<int64_t>(1, total / 64))));
  }
  return from_lengths(lengths);
}

std::vector<int64_t> tiny(int64_t total, Draw* draw) {
  std::vector<int64_t> lengths = {1};
  for (int64_t left = total - 1; left > 0; left -= lengths.back()) {
    lengths.push_back(std::min(left, (*draw)(1, kChunk - 1)));
  }
  return from_lengths(lengths);
}

/// Cuts of a shorter line, stretched by the minimum length of each sequence.
std::vector<int64_t> upstream(int64_t total, int64_t count, Draw* draw) {
  count = std::max<int64_t>(1, std::min(count, total / (kShortest + 1)));
  if (count == 1) {
    return {0, total};
  }
  std::vector<int64_t> offsets = random_cuts(total - count * kShortest, count, draw);
  for (size_t i = 0; i < offsets.size(); ++i) {
    offsets[i] += static_cast<int64_t>(i) * kShortest;
  }
  return offsets;
}

}  // namespace

const std::vector<std::string>& varlen_sets() {
  static const std::vector<std::string> names = {"uniform",  "ragged", "zipf",
                                                 "one_long", "tiny",   "upstream"};
  return names;
}

Result<std::vector<int64_t>> varlen_offsets(std::string_view set, int64_t total, uint64_t seed) {
  const std::vector<std::string>& names = varlen_sets();
  if (std::find(names.begin(), names.end(), set) == names.end()) {
    return Status(Code::kInvalidArgument, unknown_name("varlen set", set, names));
  }
  if (total <= 0) {
    return std::vector<int64_t>{0, 0};
  }
  Draw draw(seed);
  const int64_t count = std::min(kSequences, total);
  if (set == "uniform") {
    return share(total, std::vector<double>(static_cast<size_t>(count), 1.0));
  }
  if (set == "zipf") {
    std::vector<double> weights;
    for (int64_t i = 1; i <= count; ++i) {
      weights.push_back(std::pow(static_cast<double>(i), -1.1));
    }
    return share(total, weights);
  }
  if (set == "ragged") {
    return random_cuts(total, count, &draw);
  }
  if (set == "upstream") {
    return upstream(total, kSequences, &draw);
  }
  return set == "one_long" ? one_long(total, &draw) : tiny(total, &draw);
}

std::string offsets_digest(const std::vector<int64_t>& offsets) {
  uint64_t hash = 0xcbf29ce484222325U;
  for (int64_t offset : offsets) {
    for (int byte = 0; byte < 8; ++byte) {
      hash ^= static_cast<uint64_t>(offset) >> (8 * byte) & 0xffU;
      hash *= 0x100000001b3U;
    }
  }
  return fmt::format("fnv1a64:{:016x}", hash);
}

}  // namespace fla::perf

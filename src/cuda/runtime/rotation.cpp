// SPDX-License-Identifier: MIT
// How many input sets take turns under a GPU timer; the same in a build without CUDA.
#include <algorithm>

#include "cuda/runtime/timer.h"

namespace fla::cuda {
namespace {

constexpr int64_t kReplayBytes = int64_t{512} << 20;
constexpr int64_t kMostReplayed = 256;
constexpr int64_t kMostFlushed = 16;

}  // namespace

int64_t rotation_count(int64_t bytes_a_set, int64_t l2_bytes, int64_t free_bytes, bool replayed) {
  const int64_t bytes = std::max<int64_t>(1, bytes_a_set);
  const int64_t wanted_bytes = replayed ? kReplayBytes : 4 * l2_bytes;
  const int64_t wanted = std::clamp<int64_t>((wanted_bytes + bytes - 1) / bytes, replayed ? 2 : 1,
                                             replayed ? kMostReplayed : kMostFlushed);
  return std::max<int64_t>(1, std::min(wanted, free_bytes / 3 / bytes));
}

}  // namespace fla::cuda

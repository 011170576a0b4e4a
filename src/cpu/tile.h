// SPDX-License-Identifier: MIT
// Tile: a padded fp32 matrix in scratch, and Arena: how a workspace is cut into tiles.
#pragma once

#include <cstddef>
#include <cstdint>
#include <new>
#include <utility>

#include "cpu/kernels.h"

namespace fla::cpu {

/// Rows per chunk (math.md 3.2).
inline constexpr int64_t kChunk = 64;

/// A row length in floats: padded, and an odd number of 64-byte lines so that columns do not share
/// cache sets.
constexpr int64_t tile_ld(int64_t n) {
  const int64_t lines = round_up(n, kPad) / kPad;
  return (lines % 2 == 0 ? lines + 1 : lines) * kPad;
}

struct Tile {
  float* data = nullptr;
  int64_t ld = 0;

  float* row(int64_t i) const { return data + i * ld; }
};

/// Cuts memory into 64-byte aligned pieces. With a null base it only counts, so that one function
/// both sizes and places.
class Arena {
 public:
  explicit Arena(void* base) : base_(static_cast<std::byte*>(base)) {}

  template <class T>
  T* take(int64_t count) {
    std::byte* place = base_ == nullptr ? nullptr : base_ + used_;
    used_ += static_cast<size_t>(round_up(count * static_cast<int64_t>(sizeof(T)), 64));
    return reinterpret_cast<T*>(place);
  }

  Tile tile(int64_t rows, int64_t n) {
    const int64_t ld = tile_ld(n);
    return {take<float>(rows * ld), ld};
  }

  /// Places an object that owns nothing (its destructor is never run). When only counting: counts
  /// and returns null.
  template <class T, class... Args>
  T* make(Args&&... args) {
    void* place = take<std::byte>(static_cast<int64_t>(sizeof(T)));
    if (place != nullptr)
      return new (place) T(std::forward<Args>(args)...);
    T counted(std::forward<Args>(args)...);
    return nullptr;
  }

  size_t used() const { return used_; }

 private:
  std::byte* base_;
  size_t used_ = 0;
};

}  // namespace fla::cpu

// SPDX-License-Identifier: MIT
// GuardedBuffer and PlacedTensor: memory with poisoned surroundings. A read outside a tensor meets
// NaN, a write outside it is seen afterwards.
#pragma once

#include <cstddef>
#include <cstdint>
#include <memory>
#include <string>
#include <vector>

#include "fla/tensor.h"
#include "support/host_tensor.h"

namespace fla::test {

/// Repeated bytes that memory is filled with.
enum class Poison : uint8_t {
  kNan = 0xff,      // a NaN in every floating dtype, -1 in the integers
  kHuge = 0x7f,     // about 3e38 in bf16 and fp32
  kPattern = 0xa5,  // what must still be there after a run
};

/// `bytes` bytes, 256-byte aligned, between two bands of kBandBytes.
class GuardedBuffer {
 public:
  static constexpr size_t kBandBytes = size_t{1} << 16;

  GuardedBuffer(size_t bytes, Poison body, Poison band);

  std::byte* data() { return data_; }
  const std::byte* data() const { return data_; }
  size_t bytes() const { return bytes_; }
  /// The bands and what lies between them, for a copy of it all in another memory.
  std::byte* memory() { return data_ - kBandBytes; }
  size_t memory_bytes() const { return bytes_ + 2 * kBandBytes; }
  /// Whether both bands still hold their poison.
  bool bands_intact() const;

 private:
  struct Free {
    void operator()(std::byte* memory) const;
  };
  std::unique_ptr<std::byte, Free> memory_;
  std::byte* data_ = nullptr;
  size_t bytes_ = 0;
  Poison band_;
};

/// How a tensor lies in its buffer. The last axis always has stride 1.
enum class Layout {
  kContiguous,
  kOffset,       // contiguous, three elements into the buffer
  kPaddedRows,   // every leading axis has a gap behind its rows
  kSwappedAxes,  // the leading axes in reverse order: [H,T,B,K] in memory for [B,T,H,K]
  kFusedSlice,   // the middle third of rows three times as long, as a slice of a fused projection
};
inline constexpr Layout kAllLayouts[] = {Layout::kContiguous, Layout::kOffset, Layout::kPaddedRows,
                                         Layout::kSwappedAxes, Layout::kFusedSlice};

/// A tensor in guarded memory. Inputs: everything around the elements is `poison`, and not one byte
/// may change. Outputs: the elements are NaN before the run, everything around them is a pattern
/// that must survive.
class PlacedTensor {
 public:
  static PlacedTensor input(const HostTensor& tensor, Layout layout, Poison poison = Poison::kNan);
  static PlacedTensor output(DType dtype, const std::vector<int64_t>& shape, Layout layout);

  const TensorView& view() const { return view_; }
  GuardedBuffer& buffer() { return buffer_; }
  HostTensor read() const;
  /// Lets a run write the elements of an input (a state updated in place); the surroundings stay
  /// guarded.
  void allow_writes() { writable_ = true; }
  /// What a run has damaged ("" when nothing).
  std::string damage() const;

 private:
  PlacedTensor(DType dtype, const std::vector<int64_t>& shape, Layout layout, Poison around,
               bool writable);
  template <class Visit>
  void for_each_element(Visit visit) const;

  TensorView view_;
  size_t first_byte_ = 0;  // of element 0, from the buffer's start
  Poison around_;
  bool writable_;
  GuardedBuffer buffer_;
  std::vector<std::byte> before_;  // an input's bytes as placed
};

}  // namespace fla::test

// SPDX-License-Identifier: MIT
// Tiles from memory by asynchronous copies.
#pragma once

#include <cstdint>

#include "cuda/chunk/rows.cuh"
#include "cuda/device/load.cuh"
#include "cuda/device/mma.cuh"

namespace fla::cuda::chunk {

__device__ __forceinline__ void copy_commit() {
  asm volatile("cp.async.commit_group;\n" ::: "memory");
}
template <int kPending>
__device__ __forceinline__ void copy_wait_group() {
  asm volatile("cp.async.wait_group %0;\n" ::"n"(kPending) : "memory");
}

/// Waits, in shared memory, for bulk copies to arrive.
class CopyBarrier {
 public:
  /// By one thread; a __syncthreads is to follow.
  __device__ void create() {
    asm volatile(
        "mbarrier.init.shared::cta.b64 [%0], 1;\n"
        "fence.mbarrier_init.release.cluster;\n" ::"r"(address())
        : "memory");
  }
  /// Starts a copy of neighbouring bytes, a multiple of 16, by one thread.
  __device__ void copy(void* to, const char* from, uint32_t bytes) {
    asm volatile(
        "mbarrier.arrive.expect_tx.shared::cta.b64 _, [%0], %1;\n"
        "cp.async.bulk.shared::cluster.global.mbarrier::complete_tx::bytes [%2], [%3], %1, "
        "[%0];\n" ::"r"(address()),
        "r"(bytes), "r"(static_cast<uint32_t>(__cvta_generic_to_shared(to))), "l"(from)
        : "memory");
  }
  /// For copy number `index`, which is the last that was started.
  __device__ void wait(int32_t index) const {
    uint32_t done = 0;
    while (done == 0) {
      asm volatile(
          "{\n"
          "  .reg .pred arrived;\n"
          "  mbarrier.try_wait.parity.shared::cta.b64 arrived, [%1], %2;\n"
          "  selp.u32 %0, 1, 0, arrived;\n"
          "}\n"
          : "=r"(done)
          : "r"(address()), "r"(index % 2)
          : "memory");
    }
  }

 private:
  __device__ uint32_t address() const {
    return static_cast<uint32_t>(__cvta_generic_to_shared(&bits_));
  }
  uint64_t bits_;
};

/// How a block's threads share a tile: 16 bytes each, kStep rows at a time.
template <int kThreads, int kCols>
struct OctetShare {
  static constexpr int kOctets = kCols / 8;
  static constexpr int kStep = kThreads / kOctets;
  static_assert(kThreads % kOctets == 0);
  static __device__ int first_row() { return static_cast<int>(threadIdx.x) / kOctets; }
  static __device__ int col() { return static_cast<int>(threadIdx.x) % kOctets * 8; }
};

/// A tile from scratch: rows `row_stride` elements apart, planes `plane_bytes`.
template <int kThreads, int kRows, int kCols, int kPlanes>
__device__ __forceinline__ void copy_tile(Tile<kRows, kCols, kPlanes>* to, const char* from,
                                          int row_stride, int64_t plane_bytes) {
  using Share = OctetShare<kThreads, kCols>;
  const int first = Share::first_row();
  const char* source = from + (first * row_stride + Share::col()) * 2;
#pragma unroll
  for (int plane = 0; plane < kPlanes; ++plane) {
#pragma unroll
    for (int row = 0; row < kRows; row += Share::kStep) {
      if (kRows % Share::kStep == 0 || first + row < kRows)
        copy_16(to->at(plane, first + row, Share::col()), source + row * row_stride * 2, true);
    }
    source += plane_bytes;
  }
}

/// Columns [column, column + kCols) of the chunk's rows; what does not exist becomes 0.
template <int kThreads, int kRows, int kCols, int kPlanes>
__device__ __forceinline__ void load_columns(const Rows& rows, const Where& where, int column,
                                             int values, Tile<kRows, kCols, kPlanes>* to) {
  const ChunkRows from(rows, where, values);
  if (kPlanes == 1 && from.octets()) {
    using Share = OctetShare<kThreads, kCols>;
    const int first = Share::first_row();
    const int col = Share::col();
    const char* source = from.row(first).at + (column + col) * 2;
    const int64_t step = from.stride() * Share::kStep;
    const int count = column + col < values ? where.rows : 0;
#pragma unroll 4
    for (int row = first; row < kRows; row += Share::kStep, source += step)
      copy_16(to->at(0, row, col), row < count ? source : rows.data, row < count);
    return;
  }
#pragma unroll 1
  for (int i = static_cast<int>(threadIdx.x); i < kRows * kCols / 2; i += kThreads) {
    const int row = i / (kCols / 2);
    const int col = i % (kCols / 2) * 2;
    const float2 x = from.get2(row, column + col);
    to->set2(row, col, x.x, x.y);
  }
}

/// A thread's share of the rows of a sequence in one tensor, kRows at a time. What does not change
/// from chunk to chunk is worked out once.
template <int kThreads, int kRows, int kCols>
class RowFeed {
 public:
  /// `where` is the sequence's first chunk.
  __device__ RowFeed(const Rows& rows, const Where& where, int column, int values)
      : column_(column), values_(values) {
    const ChunkRows from(rows, where, values);
    octets_ = from.octets();
    if (octets_)
      at_ = from.row(Share::first_row()).at + (column + Share::col()) * 2;
  }

  /// Starts to copy chunk `index`, which is `where`.
  template <int kPlanes>
  __device__ void copy(const Rows& rows, const Where& where, int32_t index,
                       Tile<kRows, kCols, kPlanes>* to) const {
    if (kPlanes == 2 || !octets_) {
      load_columns<kThreads>(rows, where, column_, values_, to);
      return;
    }
    const char* from = at_ + int64_t{index} * kRows * rows.token;
    const int count = column_ + Share::col() < values_ ? where.rows - Share::first_row() : 0;
#pragma unroll
    for (int row = 0; row < kRows; row += Share::kStep) {
      if (kRows % Share::kStep == 0 || Share::first_row() + row < kRows)
        copy_16(to->at(0, Share::first_row() + row, Share::col()),
                row < count ? from + row * rows.token : at_, row < count);
    }
  }

 private:
  using Share = OctetShare<kThreads, kCols>;
  const char* at_ = nullptr;
  int column_;
  int values_;
  bool octets_;
};

}  // namespace fla::cuda::chunk

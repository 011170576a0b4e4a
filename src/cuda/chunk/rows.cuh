// SPDX-License-Identifier: MIT
// Which rows a block of threads works on, and pairs of neighbouring elements of them.
#pragma once

#include <cstdint>

#include "cuda/chunk/params.h"
#include "cuda/device/load.cuh"
#include "cuda/device/math.cuh"
#include "cuda/device/reduce.cuh"
#include "cuda/device/sequence.cuh"

namespace fla::cuda::chunk {

inline constexpr float kLog2E = 1.44269504F;

/// e^x by the hardware's base-2 exponential; 0 where it underflows.
__device__ __forceinline__ float exp2_fast(float x) {
  float y;
  asm("ex2.approx.ftz.f32 %0, %1;" : "=f"(y) : "f"(x));
  return y;
}
/// 1 / x to one unit in the last place.
__device__ __forceinline__ float reciprocal_fast(float x) {
  float y;
  asm("rcp.approx.ftz.f32 %0, %1;" : "=f"(y) : "f"(x));
  return y;
}
__device__ __forceinline__ float exp_fast(float x) {
  return exp2_fast(x * kLog2E);
}

/// A chunk of a sequence for one head.
struct Where {
  Sequence sequence;
  int32_t chunk = 0;  // index in scratch
  int32_t row = 0;    // first row, counted from the batch row's first
  int32_t rows = 0;   // rows of the chunk that exist
  int32_t head = 0;
  int32_t key_head = 0;
};

/// Finds chunk `index` of a call; false when the call has no such chunk.
template <int kRows>
__device__ __forceinline__ bool find_chunk(const Params& p, int32_t index, int32_t head,
                                           Where* where) {
  int32_t within = 0;
  if (p.sequences.packed) {
    if (index >= p.first_chunk[p.num_sequences])
      return false;
    int64_t low = 0;
    int64_t high = p.num_sequences;  // first_chunk[low] <= index < first_chunk[high]
    while (high - low > 1) {
      const int64_t middle = (low + high) / 2;
      if (p.first_chunk[middle] <= index)
        low = middle;
      else
        high = middle;
    }
    where->sequence = sequence_of(p.sequences, low);
    within = index - p.first_chunk[low];
  } else {
    where->sequence = sequence_of(p.sequences, index / p.chunks_per_sequence);
    within = index % p.chunks_per_sequence;
  }
  where->chunk = index;
  where->row = where->sequence.first * p.steps + within * kRows;
  const int32_t left = where->sequence.tokens * p.steps - within * kRows;
  where->rows = left < kRows ? left : kRows;
  where->head = head;
  where->key_head = head / p.group;
  return where->rows > 0;
}

/// Where a row starts, and whether it exists.
struct RowAddress {
  char* at = nullptr;
  bool valid = false;
};

/// The rows of a chunk in one tensor; what addresses have in common is computed once.
class ChunkRows {
 public:
  /// `n` elements a row.
  __device__ ChunkRows(const Rows& rows, const Where& where, int n)
      : n_(n),
        rows_(rows.data == nullptr ? 0 : where.rows),
        dtype_(rows.dtype),
        element_(rows.element),
        every_(rows.every),
        phase_(rows.phase),
        row_(where.row),
        stride_(rows.token) {
    const int head = rows.key_side ? where.key_head : where.head;
    base_ = rows.data + where.sequence.batch * rows.batch + head * rows.head;
    if (every_ == 1)
      base_ += row_ * stride_;
    const int64_t unit = 2 * rows.element;
    const auto bits = static_cast<int64_t>(reinterpret_cast<uintptr_t>(rows.data)) | rows.batch |
                      rows.token | rows.head;
    paired_ = (bits & (unit - 1)) == 0 && n % 2 == 0;
    octets_ = (bits & 15) == 0 && n % 8 == 0 && dtype_ == kBf16 && every_ == 1;
  }

  __device__ bool given() const { return rows_ > 0; }
  /// Whether rows are bf16 and eight of their elements are aligned to 16 bytes.
  __device__ bool octets() const { return octets_; }
  /// Whether rows are neighbours in memory, pairs of bf16 or of fp32 aligned to their size.
  __device__ bool bf16_pairs() const { return paired_ && every_ == 1 && dtype_ == kBf16; }
  __device__ bool fp32_pairs() const { return paired_ && every_ == 1 && dtype_ == kFp32; }

  __device__ RowAddress row(int i) const {
    if (every_ == 1)
      return {base_ + i * stride_, i < rows_};
    const int32_t token = (row_ + i) / every_;
    return {base_ + token * stride_, i < rows_ && row_ + i - token * every_ == phase_};
  }
  __device__ bool exists(int i) const { return i < rows_; }
  /// Bytes from row to row, where rows are neighbours.
  __device__ int64_t stride() const { return stride_; }

  __device__ uint32_t bits(int i, int x) const {
    const RowAddress at = row(i);
    return load_bits(at.at + x * element_, element_, at.valid && x < n_);
  }
  __device__ float value(uint32_t bits) const { return to_float(bits, dtype_); }
  __device__ float get(int i, int x) const { return value(bits(i, x)); }

  /// Elements x and x + 1, x even.
  __device__ float2 get2(int i, int x) const {
    const RowAddress at = row(i);
    const char* from = at.at + x * element_;
    if (paired_ && dtype_ != kFp16) {
      if (!at.valid || x >= n_)
        return make_float2(0.0F, 0.0F);
      return dtype_ == kFp32 ? __ldg(reinterpret_cast<const float2*>(from))
                             : from_bf16(load32(from));
    }
    return make_float2(value(load_bits(from, element_, at.valid && x < n_)),
                       value(load_bits(from + element_, element_, at.valid && x + 1 < n_)));
  }

  /// sink(i, pair) for rows first to first + kCount - 1, in order. All loads start before the first
  /// value is used where the rows are plain.
  template <int kCount, class Sink>
  __device__ void for_pairs(int first, int x, Sink sink) const {
    const char* from = base_ + first * stride_ + x * element_;
    const int count = x < n_ ? rows_ - first : 0;
    if (bf16_pairs()) {
      uint32_t bits[kCount];
#pragma unroll
      for (int i = 0; i < kCount; ++i)
        bits[i] = i < count ? load32(from + i * stride_) : 0U;
#pragma unroll
      for (int i = 0; i < kCount; ++i)
        sink(i, from_bf16(bits[i]));
    } else if (fp32_pairs()) {
      float2 pairs[kCount];
#pragma unroll
      for (int i = 0; i < kCount; ++i) {
        pairs[i] = i < count ? __ldg(reinterpret_cast<const float2*>(from + i * stride_))
                             : make_float2(0.0F, 0.0F);
      }
#pragma unroll
      for (int i = 0; i < kCount; ++i)
        sink(i, pairs[i]);
    } else {
#pragma unroll 1
      for (int i = 0; i < kCount; ++i)
        sink(i, get2(first + i, x));
    }
  }

  __device__ void set2(int i, int x, float2 value) const {
    const RowAddress at = row(i);
    if (!at.valid || x >= n_)
      return;
    char* to = at.at + x * element_;
    if (paired_ && dtype_ == kBf16) {
      *reinterpret_cast<__nv_bfloat162*>(to) = __floats2bfloat162_rn(value.x, value.y);
    } else if (paired_ && dtype_ == kFp32) {
      *reinterpret_cast<float2*>(to) = value;
    } else {
      store_float(to, dtype_, value.x);
      if (x + 1 < n_)
        store_float(to + element_, dtype_, value.y);
    }
  }
  __device__ void set(int i, int x, float value) const {
    const RowAddress at = row(i);
    if (at.valid && x < n_)
      store_float(at.at + x * element_, dtype_, value);
  }

 private:
  static __device__ uint32_t load32(const char* from) {
    return __ldg(reinterpret_cast<const unsigned*>(from));
  }
  static __device__ float2 from_bf16(uint32_t bits) {
    return make_float2(__uint_as_float(bits << 16), __uint_as_float(bits & 0xffff0000U));
  }

  char* base_;
  int n_;
  int32_t rows_;
  int32_t dtype_;
  int32_t element_;
  int32_t every_;
  int32_t phase_;
  int32_t row_;
  int64_t stride_;
  bool paired_;
  bool octets_;
};

/// Whether the scans of a scalar gate read q and k from the call's tensors; from scratch otherwise.
template <class S>
__device__ __forceinline__ bool takes_rows(const Params& p, const Where& where) {
  return !S::kVector && S::kPlanes == 1 && ChunkRows(p.slots.q, where, p.keys).octets() &&
         ChunkRows(p.slots.k, where, p.keys).octets();
}

/// The constant log decay of a head (Decay::kHead).
__device__ __forceinline__ float head_decay(const Params& p, int head) {
  return p.has_head_table ? p.head_table[head - p.first_head] : parameter_at(p.slots.g_gamma, head);
}

}  // namespace fla::cuda::chunk

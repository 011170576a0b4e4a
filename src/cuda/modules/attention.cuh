// SPDX-License-Identifier: MIT
// Tiles of the softmax attention, a plain baseline: fp32 in shared memory, multiply-adds without
// tensor cores. A query sees the keys of its sequence up to itself, `window` of them at most.
#pragma once

#include <cstdint>

#include "cuda/modules/elements.cuh"
#include "cuda/modules/span.cuh"

namespace fla::cuda::modules {

// Below every score, and finite: the difference of two stays a number.
inline constexpr float kLowestScore = -3e38F;

/// Sizes of a kernel whose heads have up to kChannels channels.
template <int kChannels>
struct TileShape {
  static constexpr int kTile = attention_tile(kChannels);
  static constexpr int kStride = kChannels + 1;  // odd: rows begin in different banks
  static constexpr int kFloats = kTile * kStride;
  static constexpr int kSquareStride = kTile + 1;
  static constexpr int kSquareFloats = kTile * kSquareStride;
  static constexpr int kEach = kTile / kTileEdge;         // rows, and columns of a square, a thread
  static constexpr int kColumns = kChannels / kTileEdge;  // channels a thread
};

/// A thread's place: rows y kEach + i of its tile, columns x + kTileEdge j.
struct TilePlace {
  int x = static_cast<int>(threadIdx.x) % kTileEdge;
  int y = static_cast<int>(threadIdx.x) / kTileEdge;
};

/// Rows [first, first + kTile) of a head into shared memory; zeros outside.
template <class T, int kChannels>
__device__ __forceinline__ void load_tile(const Attention& p, const Matrix& m, int32_t first,
                                          int64_t column, float* tile) {
  using Shape = TileShape<kChannels>;
  for (int i = static_cast<int>(threadIdx.x); i < Shape::kTile * kChannels; i += kThreads) {
    const int row = i / kChannels;
    const int channel = i % kChannels;
    float x[1] = {0.0F};
    if (first + row < p.packing.rows && channel < p.channels)
      load<1>(element_at<const T>(m, first + row, column + channel), x);
    tile[row * Shape::kStride + channel] = x[0];
  }
}

/// out[i][j] = row y kEach + i of a times row x + kTileEdge j of b.
template <int kChannels, int kEach>
__device__ __forceinline__ void multiply_rows(const TilePlace& place, const float* a,
                                              const float* b, float (&out)[kEach][kEach]) {
  using Shape = TileShape<kChannels>;
  static_assert(kEach == Shape::kEach);
#pragma unroll
  for (int i = 0; i < kEach; ++i) {
#pragma unroll
    for (int j = 0; j < kEach; ++j)
      out[i][j] = 0.0F;
  }
#pragma unroll 4
  for (int c = 0; c < kChannels; ++c) {
    float left[kEach];
    float right[kEach];
#pragma unroll
    for (int i = 0; i < kEach; ++i) {
      left[i] = a[(place.y * kEach + i) * Shape::kStride + c];
      right[i] = b[(place.x + kTileEdge * i) * Shape::kStride + c];
    }
#pragma unroll
    for (int i = 0; i < kEach; ++i) {
#pragma unroll
      for (int j = 0; j < kEach; ++j)
        out[i][j] += left[i] * right[j];
    }
  }
}

/// Writes a thread's part of a square.
template <int kChannels, int kEach>
__device__ __forceinline__ void store_square(const TilePlace& place,
                                             const float (&part)[kEach][kEach], float* square) {
  using Shape = TileShape<kChannels>;
#pragma unroll
  for (int i = 0; i < kEach; ++i) {
#pragma unroll
    for (int j = 0; j < kEach; ++j)
      square[(place.y * kEach + i) * Shape::kSquareStride + place.x + kTileEdge * j] = part[i][j];
  }
}

/// sum[i][c] += row y kEach + i of a square times column x + kTileEdge c of a tile.
template <int kChannels, int kEach, int kColumns>
__device__ __forceinline__ void multiply_square(const TilePlace& place, const float* square,
                                                const float* tile, float (&sum)[kEach][kColumns]) {
  using Shape = TileShape<kChannels>;
#pragma unroll 2
  for (int k = 0; k < Shape::kTile; ++k) {
    float left[kEach];
#pragma unroll
    for (int i = 0; i < kEach; ++i)
      left[i] = square[(place.y * kEach + i) * Shape::kSquareStride + k];
#pragma unroll
    for (int c = 0; c < kColumns; ++c) {
      const float right = tile[k * Shape::kStride + place.x + kTileEdge * c];
#pragma unroll
      for (int i = 0; i < kEach; ++i)
        sum[i][c] += left[i] * right;
    }
  }
}

/// Writes a thread's rows of a head, times `factor` of each row.
template <class T, int kChannels, int kEach, int kColumns>
__device__ __forceinline__ void store_rows(const Attention& p, const TilePlace& place,
                                           const Matrix& m, int32_t first, int64_t column,
                                           const float (&sum)[kEach][kColumns],
                                           const float (&factor)[kEach], bool add) {
#pragma unroll
  for (int i = 0; i < kEach; ++i) {
    const int32_t row = first + place.y * kEach + i;
    if (row >= p.packing.rows)
      continue;
#pragma unroll
    for (int c = 0; c < kColumns; ++c) {
      const int channel = place.x + kTileEdge * c;
      const float x[1] = {sum[i][c] * factor[i]};
      if (channel < p.channels)
        store_or_add<1>(element_at<T>(m, row, column + channel), x, add);
    }
  }
}

/// The first key that a query sees.
__device__ __forceinline__ int32_t first_key(const Attention& p, int32_t query) {
  const int32_t first = span_of_row(p.packing, query).first;
  return p.window == 0 ? first : max(first, query - p.window + 1);
}

/// The end of the queries that see a key.
__device__ __forceinline__ int32_t end_query(const Attention& p, int32_t key) {
  const int32_t end = span_of_row(p.packing, key).end;
  return p.window == 0 ? end : min(end, key + p.window);
}

__device__ __forceinline__ float lse_at(const Attention& p, int32_t query, int32_t head) {
  return query < p.packing.rows ? *element_at<float>(p.lse, query, head) : 0.0F;
}

__device__ __forceinline__ float dot_at(const Attention& p, int32_t query, int32_t head) {
  return query < p.packing.rows ? p.dot[static_cast<int64_t>(query) * p.heads + head] : 0.0F;
}

/// Where a block works: a tile of rows of one head.
struct HeadTile {
  int32_t first = 0;
  int32_t head = 0;
};

template <int kChannels>
__device__ __forceinline__ HeadTile head_tile(int32_t heads) {
  const auto count = static_cast<uint32_t>(heads);
  HeadTile tile;
  tile.first = static_cast<int32_t>(blockIdx.x / count) * TileShape<kChannels>::kTile;
  tile.head = static_cast<int32_t>(blockIdx.x % count);
  return tile;
}

/// The instances of a kernel template by dtype and channels of a head.
#define FLA_ATTENTION_ENTRY(kernel, dtype, channels)                                           \
  (dtype == DType::kBf16 ? (attention_channels(channels) == 64    ? entry(&kernel<Bf16, 64>)   \
                            : attention_channels(channels) == 128 ? entry(&kernel<Bf16, 128>)  \
                                                                  : entry(&kernel<Bf16, 256>)) \
                         : (attention_channels(channels) == 64    ? entry(&kernel<float, 64>)  \
                            : attention_channels(channels) == 128 ? entry(&kernel<float, 128>) \
                                                                  : entry(&kernel<float, 256>)))

/// Bytes of `tiles` tiles and `squares` squares, and of kTile numbers `lists` times.
inline int attention_bytes(int64_t channels, int tiles, int squares, int lists) {
  const int wide = attention_channels(channels);
  const int tile = attention_tile(wide);
  const int floats = tiles * tile * (wide + 1) + squares * tile * (tile + 1) + lists * tile;
  return floats * static_cast<int>(sizeof(float));
}

}  // namespace fla::cuda::modules

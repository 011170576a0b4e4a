// SPDX-License-Identifier: MIT
// Softmax attention, backward, queries: p = e^(scale q k - lse), d_q = scale p (d_y v - d_y y) k.
// A plain baseline.
// Grid      x = (tiles of queries, heads)
// Cost      arithmetic: 6 multiply-adds a query, key and channel without tensor cores
#include "cuda/device/reduce.cuh"
#include "cuda/modules/attention.cuh"
#include "cuda/modules/kernels.h"

namespace fla::cuda::modules {
namespace {

constexpr int kWarps = kThreads / kWarpSize;

/// dot [rows, heads] = sum of d_y y, a warp each.
template <class T>
__global__ void __launch_bounds__(kThreads)
    fla_modules_attention_dot(const __grid_constant__ Attention p) {
  const uint32_t index = blockIdx.x * kWarps + threadIdx.x / kWarpSize;
  const int64_t row = index / static_cast<uint32_t>(p.heads);
  const int64_t column = static_cast<int64_t>(index % static_cast<uint32_t>(p.heads)) * p.channels;
  if (row >= p.packing.rows)
    return;
  float sum = 0.0F;
  for (int32_t c = static_cast<int32_t>(threadIdx.x % kWarpSize); c < p.channels; c += kWarpSize) {
    float y[1];
    float d_y[1];
    load<1>(element_at<const T>(p.y, row, column + c), y);
    load<1>(element_at<const T>(p.d_y, row, column + c), d_y);
    sum += y[0] * d_y[0];
  }
  sum = warp_sum(sum);
  if (threadIdx.x % kWarpSize == 0)
    p.dot[index] = sum;
}

template <class T, int kChannels>
__global__ void __launch_bounds__(kThreads, 1)
    fla_modules_attention_d_q(const __grid_constant__ Attention p) {
  using Shape = TileShape<kChannels>;
  constexpr int kEach = Shape::kEach;
  extern __shared__ float shared[];
  float* q = shared;
  float* d_y = q + Shape::kFloats;
  float* k = d_y + Shape::kFloats;
  float* v = k + Shape::kFloats;
  float* square = v + Shape::kFloats;
  auto* first_keys = reinterpret_cast<int32_t*>(square + Shape::kSquareFloats);
  const TilePlace place;
  const HeadTile tile = head_tile<kChannels>(p.heads);
  const int64_t column = static_cast<int64_t>(tile.head) * p.channels;
  const int64_t key_column = static_cast<int64_t>(tile.head / p.group) * p.channels;
  if (threadIdx.x < Shape::kTile) {
    const int32_t query = min(tile.first + static_cast<int32_t>(threadIdx.x), p.packing.rows - 1);
    first_keys[threadIdx.x] = first_key(p, query);
  }
  load_tile<T, kChannels>(p, p.q, tile.first, column, q);
  load_tile<T, kChannels>(p, p.d_y, tile.first, column, d_y);
  __syncthreads();

  float lse[kEach];
  float dot[kEach];
  float sum[kEach][Shape::kColumns] = {};
  float factor[kEach];
#pragma unroll
  for (int i = 0; i < kEach; ++i) {
    lse[i] = lse_at(p, tile.first + place.y * kEach + i, tile.head);
    dot[i] = dot_at(p, tile.first + place.y * kEach + i, tile.head);
    factor[i] = p.scale;
  }
  const int32_t end = min(tile.first + Shape::kTile, p.packing.rows);
  for (int32_t first = first_keys[0]; first < end; first += Shape::kTile) {
    load_tile<T, kChannels>(p, p.k, first, key_column, k);
    load_tile<T, kChannels>(p, p.v, first, key_column, v);
    __syncthreads();
    float score[kEach][kEach];
    float d_p[kEach][kEach];
    multiply_rows<kChannels>(place, q, k, score);
    multiply_rows<kChannels>(place, d_y, v, d_p);
#pragma unroll
    for (int i = 0; i < kEach; ++i) {
      const int row = place.y * kEach + i;
#pragma unroll
      for (int j = 0; j < kEach; ++j) {
        const int32_t key = first + place.x + kTileEdge * j;
        const bool seen = key >= first_keys[row] && key <= tile.first + row;
        score[i][j] = seen ? __expf(score[i][j] * p.scale - lse[i]) * (d_p[i][j] - dot[i]) : 0.0F;
      }
    }
    store_square<kChannels>(place, score, square);
    __syncthreads();
    multiply_square<kChannels>(place, square, k, sum);
    __syncthreads();
  }
  store_rows<T, kChannels>(p, place, p.d_q, tile.first, column, sum, factor, p.add_q);
}

}  // namespace

Kernel attention_dot_kernel(DType dtype) {
  return {dtype == DType::kBf16 ? entry(&fla_modules_attention_dot<Bf16>)
                                : entry(&fla_modules_attention_dot<float>),
          kThreads, "modules.attention_dot"};
}
Kernel attention_d_q_kernel(DType dtype, int64_t channels) {
  return {FLA_ATTENTION_ENTRY(fla_modules_attention_d_q, dtype, channels), kThreads,
          "modules.attention_d_q", attention_bytes(channels, 4, 1, 1)};
}

}  // namespace fla::cuda::modules

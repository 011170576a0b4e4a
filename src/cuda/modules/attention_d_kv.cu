// SPDX-License-Identifier: MIT
// Softmax attention, backward, keys: p = e^(scale q k - lse), d_v = p d_y,
// d_k = scale p (d_y v - d_y y) q. A plain baseline.
// Grid      x = (tiles of keys, heads of k)
// Cost      arithmetic: 8 multiply-adds a query, key and channel without tensor cores
#include "cuda/modules/attention.cuh"
#include "cuda/modules/kernels.h"

namespace fla::cuda::modules {
namespace {

/// The tiles of a block of d_kv.
template <int kChannels>
struct KeyTiles {
  float* k;
  float* v;
  float* q;
  float* d_y;
  float* square;
  int32_t* end_queries;
};

template <int kChannels>
struct KeySums {
  using Shape = TileShape<kChannels>;
  float d_k[Shape::kEach][Shape::kColumns] = {};
  float d_v[Shape::kEach][Shape::kColumns] = {};
};

/// What a tile of queries of one head adds; rows of the squares are keys.
template <class T, int kChannels>
__device__ __forceinline__ void add_queries(const Attention& p, const TilePlace& place,
                                            const KeyTiles<kChannels>& tiles, int32_t key_first,
                                            int32_t query_first, int32_t head,
                                            KeySums<kChannels>* sums) {
  using Shape = TileShape<kChannels>;
  constexpr int kEach = Shape::kEach;
  const int64_t column = static_cast<int64_t>(head) * p.channels;
  load_tile<T, kChannels>(p, p.q, query_first, column, tiles.q);
  load_tile<T, kChannels>(p, p.d_y, query_first, column, tiles.d_y);
  __syncthreads();
  float probability[kEach][kEach];
  float d_s[kEach][kEach];
  multiply_rows<kChannels>(place, tiles.k, tiles.q, probability);
  multiply_rows<kChannels>(place, tiles.v, tiles.d_y, d_s);
#pragma unroll
  for (int j = 0; j < kEach; ++j) {
    const int32_t query = query_first + place.x + kTileEdge * j;
    const float lse = lse_at(p, query, head);
    const float dot = dot_at(p, query, head);
#pragma unroll
    for (int i = 0; i < kEach; ++i) {
      const int row = place.y * kEach + i;
      const bool seen = query >= key_first + row && query < tiles.end_queries[row];
      probability[i][j] = seen ? __expf(probability[i][j] * p.scale - lse) : 0.0F;
      d_s[i][j] = probability[i][j] * (d_s[i][j] - dot);
    }
  }
  store_square<kChannels>(place, probability, tiles.square);
  __syncthreads();
  multiply_square<kChannels>(place, tiles.square, tiles.d_y, sums->d_v);
  __syncthreads();
  store_square<kChannels>(place, d_s, tiles.square);
  __syncthreads();
  multiply_square<kChannels>(place, tiles.square, tiles.q, sums->d_k);
  __syncthreads();
}

template <class T, int kChannels>
__global__ void __launch_bounds__(kThreads, 1)
    fla_modules_attention_d_kv(const __grid_constant__ Attention p) {
  using Shape = TileShape<kChannels>;
  extern __shared__ float shared[];
  const KeyTiles<kChannels> tiles = {
      shared,
      shared + Shape::kFloats,
      shared + 2 * Shape::kFloats,
      shared + 3 * Shape::kFloats,
      shared + 4 * Shape::kFloats,
      reinterpret_cast<int32_t*>(shared + 4 * Shape::kFloats + Shape::kSquareFloats)};
  const TilePlace place;
  const HeadTile tile = head_tile<kChannels>(p.heads / p.group);
  const int64_t column = static_cast<int64_t>(tile.head) * p.channels;
  const int32_t rows = min(p.packing.rows - tile.first, Shape::kTile);
  if (threadIdx.x < Shape::kTile) {
    const auto row = static_cast<int32_t>(threadIdx.x);
    tiles.end_queries[row] = row < rows ? end_query(p, tile.first + row) : 0;
  }
  load_tile<T, kChannels>(p, p.k, tile.first, column, tiles.k);
  load_tile<T, kChannels>(p, p.v, tile.first, column, tiles.v);
  __syncthreads();
  KeySums<kChannels> sums;
  const int32_t end = min(tiles.end_queries[rows - 1], p.packing.rows);
  for (int32_t head = tile.head * p.group; head < (tile.head + 1) * p.group; ++head) {
    for (int32_t query = tile.first; query < end; query += Shape::kTile)
      add_queries<T, kChannels>(p, place, tiles, tile.first, query, head, &sums);
  }
  float scale[Shape::kEach];
  float one[Shape::kEach];
#pragma unroll
  for (int i = 0; i < Shape::kEach; ++i) {
    scale[i] = p.scale;
    one[i] = 1.0F;
  }
  if (p.d_k.data != nullptr)
    store_rows<T, kChannels>(p, place, p.d_k, tile.first, column, sums.d_k, scale, p.add_k);
  if (p.d_v.data != nullptr)
    store_rows<T, kChannels>(p, place, p.d_v, tile.first, column, sums.d_v, one, p.add_v);
}

}  // namespace

Kernel attention_d_kv_kernel(DType dtype, int64_t channels) {
  return {FLA_ATTENTION_ENTRY(fla_modules_attention_d_kv, dtype, channels), kThreads,
          "modules.attention_d_kv", attention_bytes(channels, 4, 1, 1)};
}

}  // namespace fla::cuda::modules

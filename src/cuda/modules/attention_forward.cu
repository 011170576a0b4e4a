// SPDX-License-Identifier: MIT
// Softmax attention, forward: tiles with the online softmax (Milakov and Gimelshein 2018), and a
// row at a time over caches. A plain baseline.
// Grid      tiles: x = (tiles of queries, heads); cached: x = (rows, heads); append: x = (rows,
//           channels of k)
// Cost      arithmetic: 4 multiply-adds a query, key and channel without tensor cores
#include <math_constants.h>

#include "cuda/device/reduce.cuh"
#include "cuda/modules/attention.cuh"
#include "cuda/modules/kernels.h"

namespace fla::cuda::modules {
namespace {

/// The largest score of each of a thread's rows, and the sum of e^(score - it).
template <int kEach>
struct RowSoftmax {
  float most[kEach];
  float sum[kEach];
};

/// The sum or maximum over the kTileEdge threads of a row.
template <class Join>
__device__ __forceinline__ float over_row(float x, Join join) {
#pragma unroll
  for (int offset = kTileEdge / 2; offset > 0; offset /= 2)
    x = join(x, __shfl_xor_sync(~0U, x, offset));
  return x;
}

/// Turns scores into e^(score - largest) and rescales what came before.
template <int kEach, int kColumns>
__device__ __forceinline__ void soften(RowSoftmax<kEach>* rows, float (&score)[kEach][kEach],
                                       float (&sum)[kEach][kColumns]) {
#pragma unroll
  for (int i = 0; i < kEach; ++i) {
    float most = rows->most[i];
#pragma unroll
    for (int j = 0; j < kEach; ++j)
      most = fmaxf(most, score[i][j]);
    most = over_row(most, [](float a, float b) { return fmaxf(a, b); });
    float total = 0.0F;
#pragma unroll
    for (int j = 0; j < kEach; ++j) {
      score[i][j] = __expf(score[i][j] - most);
      total += score[i][j];
    }
    const float before = __expf(rows->most[i] - most);
    rows->sum[i] = rows->sum[i] * before + over_row(total, [](float a, float b) { return a + b; });
    rows->most[i] = most;
#pragma unroll
    for (int c = 0; c < kColumns; ++c)
      sum[i][c] *= before;
  }
}

/// Scales scores; -infinity where a query does not see a key.
template <int kChannels, int kEach>
__device__ __forceinline__ void mask_scores(const Attention& p, const TilePlace& place,
                                            int32_t query_first, int32_t key_first,
                                            const int32_t* first_keys,
                                            float (&score)[kEach][kEach]) {
#pragma unroll
  for (int i = 0; i < kEach; ++i) {
    const int row = place.y * kEach + i;
#pragma unroll
    for (int j = 0; j < kEach; ++j) {
      const int32_t key = key_first + place.x + kTileEdge * j;
      const bool seen = key >= first_keys[row] && key <= query_first + row;
      score[i][j] = seen ? score[i][j] * p.scale : -CUDART_INF_F;
    }
  }
}

template <class T, int kChannels>
__global__ void __launch_bounds__(kThreads)
    fla_modules_attention(const __grid_constant__ Attention p) {
  using Shape = TileShape<kChannels>;
  extern __shared__ float shared[];
  float* q = shared;
  float* kv = q + Shape::kFloats;
  float* square = kv + Shape::kFloats;
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
  __syncthreads();

  RowSoftmax<Shape::kEach> rows;
  float sum[Shape::kEach][Shape::kColumns] = {};
#pragma unroll
  for (int i = 0; i < Shape::kEach; ++i) {
    rows.most[i] = kLowestScore;
    rows.sum[i] = 0.0F;
  }
  const int32_t end = min(tile.first + Shape::kTile, p.packing.rows);
  for (int32_t key = first_keys[0]; key < end; key += Shape::kTile) {
    load_tile<T, kChannels>(p, p.k, key, key_column, kv);
    __syncthreads();
    float score[Shape::kEach][Shape::kEach];
    multiply_rows<kChannels>(place, q, kv, score);
    mask_scores<kChannels>(p, place, tile.first, key, first_keys, score);
    soften(&rows, score, sum);
    store_square<kChannels>(place, score, square);
    __syncthreads();
    load_tile<T, kChannels>(p, p.v, key, key_column, kv);
    __syncthreads();
    multiply_square<kChannels>(place, square, kv, sum);
    __syncthreads();
  }
  float factor[Shape::kEach];
#pragma unroll
  for (int i = 0; i < Shape::kEach; ++i) {
    factor[i] = 1.0F / rows.sum[i];
    const int32_t row = tile.first + place.y * Shape::kEach + i;
    if (place.x == 0 && row < p.packing.rows)
      *element_at<float>(p.lse, row, tile.head) = rows.most[i] + logf(rows.sum[i]);
  }
  store_rows<T, kChannels>(p, place, p.y, tile.first, column, sum, factor, false);
}

/// Where a row's key enters its sequence's cache; -1: nowhere.
struct CachePlace {
  int32_t sequence = 0;
  int32_t token = -1;
};

__device__ __forceinline__ CachePlace cache_place(const Attention& p, int32_t row) {
  const Span span = span_of_row(p.packing, row);
  CachePlace place;
  if (span.sequence < 0)
    return place;
  place.sequence = span.sequence;
  const int64_t token =
      static_cast<int64_t>(p.positions == nullptr ? 0 : p.positions[span.sequence]) + row -
      span.first;
  place.token = token >= 0 && token < p.cache_length ? static_cast<int32_t>(token) : -1;
  return place;
}

template <class T>
__device__ __forceinline__ T* cached_row(const Attention& p, const Matrix& cache, int32_t sequence,
                                         int64_t token) {
  const int64_t width = static_cast<int64_t>(p.heads / p.group) * p.channels;
  return element_at<T>(cache, sequence, token * width);
}

template <class T>
__global__ void __launch_bounds__(kThreads)
    fla_modules_attention_append(const __grid_constant__ Attention p) {
  const auto width = static_cast<uint32_t>(p.heads / p.group * p.channels);
  const uint32_t column_blocks = (width + kThreads - 1) / kThreads;
  const auto row = static_cast<int32_t>(blockIdx.x / column_blocks);
  const uint32_t column = blockIdx.x % column_blocks * kThreads + threadIdx.x;
  const CachePlace place = cache_place(p, row);
  if (column >= width || place.token < 0)
    return;
  cached_row<T>(p, p.k_cache, place.sequence, place.token)[column] =
      *element_at<const T>(p.k, row, column);
  cached_row<T>(p, p.v_cache, place.sequence, place.token)[column] =
      *element_at<const T>(p.v, row, column);
}

constexpr int kWarps = kThreads / kWarpSize;
constexpr int kLaneChannels = kMostHeadChannels / kWarpSize;

/// What one warp has of a row's softmax: channels lane + 32 c.
struct WarpSoftmax {
  float most = kLowestScore;
  float sum = 0.0F;
  float y[kLaneChannels] = {};
};

template <class T>
__device__ __forceinline__ void load_head(const Attention& p, const T* head,
                                          float (&x)[kLaneChannels]) {
#pragma unroll
  for (int c = 0; c < kLaneChannels; ++c) {
    const int channel = static_cast<int>(threadIdx.x) % kWarpSize + kWarpSize * c;
    float one[1] = {0.0F};
    if (channel < p.channels)
      load<1>(head + channel, one);
    x[c] = one[0];
  }
}

/// The warp's keys: every kWarps-th one of [first, end).
template <class T>
__device__ __forceinline__ WarpSoftmax attend(const Attention& p, int32_t sequence, int32_t first,
                                              int32_t end, int64_t key_column,
                                              const float (&q)[kLaneChannels]) {
  WarpSoftmax s;
  for (int32_t key = first + static_cast<int32_t>(threadIdx.x) / kWarpSize; key < end;
       key += kWarps) {
    float k[kLaneChannels];
    float v[kLaneChannels];
    load_head(p, cached_row<const T>(p, p.k_cache, sequence, key) + key_column, k);
    load_head(p, cached_row<const T>(p, p.v_cache, sequence, key) + key_column, v);
    float score = 0.0F;
#pragma unroll
    for (int c = 0; c < kLaneChannels; ++c)
      score += q[c] * k[c];
    score = warp_sum(score) * p.scale;
    const float most = fmaxf(s.most, score);
    const float before = __expf(s.most - most);
    const float now = __expf(score - most);
    s.most = most;
    s.sum = s.sum * before + now;
#pragma unroll
    for (int c = 0; c < kLaneChannels; ++c)
      s.y[c] = s.y[c] * before + now * v[c];
  }
  return s;
}

template <class T>
__global__ void __launch_bounds__(kThreads)
    fla_modules_attention_cached(const __grid_constant__ Attention p) {
  __shared__ float most[kWarps];
  __shared__ float sums[kWarps];
  __shared__ float ys[kWarps][kMostHeadChannels];
  const auto row = static_cast<int32_t>(blockIdx.x / static_cast<uint32_t>(p.heads));
  const auto head = static_cast<int32_t>(blockIdx.x % static_cast<uint32_t>(p.heads));
  const int64_t column = static_cast<int64_t>(head) * p.channels;
  const CachePlace place = cache_place(p, row);
  if (place.token < 0)
    return;
  const int32_t end = place.token + 1;
  const int32_t first = p.window == 0 ? 0 : max(0, end - p.window);
  float q[kLaneChannels];
  load_head(p, element_at<const T>(p.q, row, column), q);
  const WarpSoftmax s = attend<T>(p, place.sequence, first, end,
                                  static_cast<int64_t>(head / p.group) * p.channels, q);
  const int warp = static_cast<int>(threadIdx.x) / kWarpSize;
  const int lane = static_cast<int>(threadIdx.x) % kWarpSize;
  most[warp] = s.most;
  sums[warp] = s.sum;
#pragma unroll
  for (int c = 0; c < kLaneChannels; ++c)
    ys[warp][lane + kWarpSize * c] = s.y[c];
  __syncthreads();
  float largest = kLowestScore;
  for (int w = 0; w < kWarps; ++w)
    largest = fmaxf(largest, most[w]);
  float sum = 0.0F;
  float y[1] = {0.0F};
  for (int w = 0; w < kWarps; ++w) {
    const float factor = __expf(most[w] - largest);
    sum += sums[w] * factor;
    y[0] += ys[w][threadIdx.x] * factor;
  }
  y[0] /= sum;
  if (static_cast<int>(threadIdx.x) < p.channels)
    store<1>(element_at<T>(p.y, row, column + threadIdx.x), y);
  if (threadIdx.x == 0)
    *element_at<float>(p.lse, row, head) = largest + logf(sum);
}

}  // namespace

Kernel attention_kernel(DType dtype, int64_t channels) {
  return {FLA_ATTENTION_ENTRY(fla_modules_attention, dtype, channels), kThreads,
          "modules.attention", attention_bytes(channels, 2, 1, 1)};
}
Kernel attention_append_kernel(DType dtype) {
  return {dtype == DType::kBf16 ? entry(&fla_modules_attention_append<Bf16>)
                                : entry(&fla_modules_attention_append<float>),
          kThreads, "modules.attention_append"};
}
Kernel attention_cached_kernel(DType dtype) {
  return {dtype == DType::kBf16 ? entry(&fla_modules_attention_cached<Bf16>)
                                : entry(&fla_modules_attention_cached<float>),
          kThreads, "modules.attention_cached"};
}

}  // namespace fla::cuda::modules

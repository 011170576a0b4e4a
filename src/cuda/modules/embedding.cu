// SPDX-License-Identifier: MIT
// embedding: rows of a table, and their gradient without atomics: (id, row) pairs are sorted by a
// bitonic network, runs of one id are summed in pieces, runs over several pieces in a second step.
// Grid      forward: x = (rows, vectors of channels); pieces, runs: x = (pieces, channels)
// Cost      memory: the rows once; the sort is short beside them
#include "cuda/modules/elements.cuh"
#include "cuda/modules/kernels.h"

namespace fla::cuda::modules {
namespace {

constexpr uint64_t kNoPair = ~uint64_t{0};
constexpr uint32_t kNoId = ~0U;

template <class T, int kVec>
__global__ void __launch_bounds__(kThreads)
    fla_modules_embedding(const __grid_constant__ Embedding p) {
  const Place place = place_of(p.tiling);
  if (!place.valid)
    return;
  const int64_t column = static_cast<int64_t>(place.vector) * kVec;
  const int32_t id = p.ids[place.row];
  float x[kVec] = {};
  if (id >= 0 && id < p.vocabulary)
    load<kVec>(static_cast<const T*>(p.table) + id * p.table_row + column, x);
  store<kVec>(element_at<T>(p.y, place.row, column), x);
}

__global__ void __launch_bounds__(kThreads)
    fla_modules_embedding_pairs(const __grid_constant__ Embedding p) {
  const uint32_t i = blockIdx.x * kThreads + threadIdx.x;
  if (i >= static_cast<uint32_t>(p.padded))
    return;
  const int32_t id = i < static_cast<uint32_t>(p.rows) ? p.ids[i] : -1;
  p.pairs[i] = id >= 0 && id < p.vocabulary
                   ? static_cast<uint64_t>(static_cast<uint32_t>(id)) << 32 | i
                   : kNoPair;
}

__device__ __forceinline__ void order(uint64_t* low, uint64_t* high, bool ascending) {
  const uint64_t a = *low;
  const uint64_t b = *high;
  if ((a > b) == ascending) {
    *low = b;
    *high = a;
  }
}

/// All steps within a tile: of every run up to the tile, or the last ones of a longer run.
__global__ void __launch_bounds__(kSortThreads)
    fla_modules_sort_tile(const __grid_constant__ SortStep p) {
  __shared__ uint64_t tile[kSortTile];
  const uint32_t first = blockIdx.x * kSortTile;
  for (int i = static_cast<int>(threadIdx.x); i < kSortTile; i += kSortThreads)
    tile[i] = p.pairs[first + i];
  for (uint32_t run = p.run > kSortTile ? static_cast<uint32_t>(p.run) : 2;; run *= 2) {
    for (uint32_t stride = min(run, static_cast<uint32_t>(kSortTile)) / 2; stride > 0;
         stride /= 2) {
      __syncthreads();
      for (uint32_t pair = threadIdx.x; pair < kSortTile / 2; pair += kSortThreads) {
        const uint32_t low = pair / stride * 2 * stride + pair % stride;
        order(&tile[low], &tile[low + stride], ((first + low) & run) == 0);
      }
    }
    if (run >= kSortTile)
      break;
  }
  __syncthreads();
  for (int i = static_cast<int>(threadIdx.x); i < kSortTile; i += kSortThreads)
    p.pairs[first + i] = tile[i];
}

/// One step over distances of a tile or more.
__global__ void __launch_bounds__(kSortThreads)
    fla_modules_sort_merge(const __grid_constant__ SortStep p) {
  const uint32_t pair = blockIdx.x * kSortThreads + threadIdx.x;
  const auto stride = static_cast<uint32_t>(p.stride);
  if (pair >= static_cast<uint32_t>(p.padded) / 2)
    return;
  const uint32_t low = pair / stride * 2 * stride + pair % stride;
  order(&p.pairs[low], &p.pairs[low + stride], (low & static_cast<uint32_t>(p.run)) == 0);
}

/// The id of sorted pair i; kNoId behind the last one.
__device__ __forceinline__ uint32_t id_at(const Embedding& p, int64_t i) {
  return i < p.padded ? static_cast<uint32_t>(p.pairs[i] >> 32) : kNoId;
}

struct PiecePlace {
  int64_t piece = 0;
  int64_t first = 0;  // pair
  int64_t channel = 0;
};

__device__ __forceinline__ PiecePlace piece_place(const Embedding& p) {
  const auto column_blocks = static_cast<uint32_t>(p.column_blocks);
  PiecePlace place;
  place.piece = blockIdx.x / column_blocks;
  place.first = place.piece * kEmbeddingPiece;
  place.channel = static_cast<int64_t>(blockIdx.x % column_blocks) * kThreads + threadIdx.x;
  return place;
}

__device__ __forceinline__ float* partial_at(const Embedding& p, int64_t piece, int side,
                                             int64_t channel) {
  return p.partial + (piece * 2 + side) * p.width + channel;
}

template <class T>
__device__ __forceinline__ void write_row(const Embedding& p, uint32_t id, int64_t channel,
                                          float sum) {
  const float total[1] = {sum};
  store_or_add<1>(static_cast<T*>(p.d_table) + id * p.table_row + channel, total, p.accumulate);
}

template <class T>
__global__ void __launch_bounds__(kThreads)
    fla_modules_embedding_pieces(const __grid_constant__ Embedding p) {
  const PiecePlace place = piece_place(p);
  if (place.channel >= p.width)
    return;
  uint32_t id = id_at(p, place.first);
  if (id == kNoId)
    return;
  bool from_before = place.piece > 0 && id_at(p, place.first - 1) == id;
  float sum = 0.0F;
  for (int k = 0; k < kEmbeddingPiece; ++k) {
    const auto row = static_cast<uint32_t>(p.pairs[place.first + k]);
    float x[1];
    load<1>(element_at<const T>(p.y, row, place.channel), x);
    sum += x[0];
    const uint32_t next = id_at(p, place.first + k + 1);
    if (next == id && k + 1 < kEmbeddingPiece)
      continue;
    if (from_before) {
      *partial_at(p, place.piece, 0, place.channel) = sum;
    } else if (next == id) {
      *partial_at(p, place.piece, 1, place.channel) = sum;
    } else {
      write_row<T>(p, id, place.channel, sum);
    }
    if (next == kNoId)
      return;
    id = next;
    sum = 0.0F;
    from_before = false;
  }
}

/// The runs that begin in a piece and go on behind it.
template <class T>
__global__ void __launch_bounds__(kThreads)
    fla_modules_embedding_runs(const __grid_constant__ Embedding p) {
  const PiecePlace place = piece_place(p);
  const int64_t end = place.first + kEmbeddingPiece;
  const uint32_t id = id_at(p, end - 1);
  if (place.channel >= p.width || id == kNoId || id_at(p, end) != id)
    return;
  if (place.piece > 0 && id_at(p, place.first - 1) == id)
    return;
  float sum = *partial_at(p, place.piece, 1, place.channel);
  for (int64_t piece = place.piece + 1; id_at(p, piece * kEmbeddingPiece) == id; ++piece)
    sum += *partial_at(p, piece, 0, place.channel);
  write_row<T>(p, id, place.channel, sum);
}

}  // namespace

Kernel embedding_kernel(DType dtype, bool vectors) {
  return pick({entry(&fla_modules_embedding<Bf16, 8>), entry(&fla_modules_embedding<Bf16, 1>),
               entry(&fla_modules_embedding<float, 4>), entry(&fla_modules_embedding<float, 1>)},
              dtype, vectors, kThreads, "modules.embedding");
}
Kernel embedding_pairs_kernel() {
  return {entry(&fla_modules_embedding_pairs), kThreads, "modules.embedding_pairs"};
}
Kernel sort_tile_kernel() {
  return {entry(&fla_modules_sort_tile), kSortThreads, "modules.sort_tile"};
}
Kernel sort_merge_kernel() {
  return {entry(&fla_modules_sort_merge), kSortThreads, "modules.sort_merge"};
}
Kernel embedding_pieces_kernel(DType dtype) {
  return {dtype == DType::kBf16 ? entry(&fla_modules_embedding_pieces<Bf16>)
                                : entry(&fla_modules_embedding_pieces<float>),
          kThreads, "modules.embedding_pieces"};
}
Kernel embedding_runs_kernel(DType dtype) {
  return {dtype == DType::kBf16 ? entry(&fla_modules_embedding_runs<Bf16>)
                                : entry(&fla_modules_embedding_runs<float>),
          kThreads, "modules.embedding_runs"};
}

}  // namespace fla::cuda::modules

// SPDX-License-Identifier: MIT
// Gradients of a chunk and head from the states before it and the gradients of those behind it
// (math.md 3.3 to 3.6); all chunks at once. The scans left S0, dS1, Y and dY; dV is theirs too.
// Grid    heads * chunks
// Roles   warps in a grid of 16 rows by 32 key channels each
// Smem    GatedRows as in prep; beside them the value slabs, later the gradients in fp32
// Steps   over value slabs: dX = T^T dY, the products with S0 and dS1, the [rows, rows] gradients;
//         then PAIR's adjoints as products of gated rows, or, where those do not reach (prep.cuh),
//         blocks on the diagonal row by row in fp32; at last the gate, and rows out.
#pragma once

#include <cstdint>

#include "cuda/chunk/gradient_diagonal.cuh"
#include "cuda/chunk/gradient_rows.cuh"
#include "cuda/chunk/gradient_shared.cuh"
#include "cuda/chunk/gradient_slabs.cuh"

namespace fla::cuda::chunk {

template <bool kExclusiveQ, class S>
__device__ __forceinline__ void finish_channel(const Params& p, const Where& where,
                                               GradientShared<S>* shared) {
  Channel<S, kExclusiveQ> channel(p, where, static_cast<int>(threadIdx.x) / S::kKeys,
                                  static_cast<int>(threadIdx.x) % S::kKeys, shared);
  channel.add_rows(p, where);
  channel.add_columns(p, where);
  channel.sum_gate();
}

template <class S>
__global__ void __launch_bounds__(GradientShape<S>::kThreads, 1)
    fla_chunk_gradient(const __grid_constant__ Params p) {
  using G = GradientShape<S>;
  extern __shared__ __align__(16) char memory[];
  auto* shared = reinterpret_cast<GradientShared<S>*>(memory);
  const auto heads = static_cast<unsigned>(p.heads);
  const auto head = static_cast<int32_t>(blockIdx.x % heads);
  Where where;
  if (!find_chunk<S::kRows>(p, static_cast<int32_t>(blockIdx.x / heads), p.first_head + head,
                            &where))
    return;
  const int64_t block = static_cast<int64_t>(where.chunk) * p.heads + head;
  const StateLayout& layout = p.layout;
  // Kept there over the products, which have no registers to spare.
  if (threadIdx.x == 0)
    shared->where = where;
  load_rows<S, G::kThreads>(p, where, &shared->rows);
  if constexpr (S::kVector)
    gate_rows<S, G::kThreads>(p, &shared->rows);
  Accumulators<S> acc;
  add_slabs<S>(p, where, p.tiles + block * S::kTiles.bytes, p.states + block * layout.bytes, shared,
               &acc);
  store_pairs<S>(p, shared, &acc);
  __syncthreads();
  add_pairs<S>(p, shared, &acc);
  __syncthreads();
  store_wide<S>(shared, acc);
  __syncthreads();
  where = shared->where;
  if constexpr (S::kVector) {
    if (reaches_all(*shared, static_cast<int>(threadIdx.x) / S::kKeys)) {
      GatedChannel<S>(shared).finish(p);
    } else if constexpr (S::kUpdate == Update::kAdd) {
      if (p.slots.u.data != nullptr)
        finish_channel<true, S>(p, where, shared);
      else
        finish_channel<false, S>(p, where, shared);
    } else {
      finish_channel<false, S>(p, where, shared);
    }
    __syncthreads();
  }
  finish_rows<S>(p, where, shared);
}

template <class S>
constexpr int gradient_bytes() {
  return static_cast<int>(sizeof(GradientShared<S>));
}

template <class S>
Kernel gradient_kernel() {
  return {reinterpret_cast<const void*>(&fla_chunk_gradient<S>), GradientShape<S>::kThreads,
          "chunk.gradient", gradient_bytes<S>()};
}

}  // namespace fla::cuda::chunk

// SPDX-License-Identifier: MIT
// The chunk engine's door for canonical calls: forward and backward of one ADD, DELTA or DPLR
// recurrence, whatever operator it came from.
#pragma once

#include <cstddef>
#include <cstdint>
#include <string>
#include <string_view>
#include <vector>

#include "cuda/chunk/instances.h"
#include "cuda/chunk/params.h"
#include "fla/plan.h"
#include "fla/status.h"

namespace fla::cuda::chunk {

/// What a canonical call is, before it has tensors.
struct Problem {
  Update update = Update::kAdd;
  bool vector_gate = false;
  bool split = false;  // operands are pairs of bf16: fp32 and fp16 calls
  bool backward = false;
  int64_t B = 1;
  int64_t rows = 0;  // T * steps
  int64_t N = 0;     // packed sequences, 0: dense
  int64_t keys = 0;
  int64_t values = 0;
  int64_t value_heads = 0;
};

class Engine {
 public:
  /// `device` is the current one. Errors: kUnsupported (names each unmet condition), kCuda.
  static Result<Engine> create(std::string_view call, const Problem& problem, int device);

  size_t workspace_bytes() const;
  const std::string& name() const { return name_; }  // "cuda.chunk_delta_fwd.vector_k128_bf16"
  /// How many chunks Gradients::u has room for.
  int64_t num_chunks() const { return num_chunks_; }

  /// Launch on `stream`; no sync, no allocation, capturable. `params` has slots, gradients,
  /// sequences, steps, keys, values, group, decay, flags and scale set; the rest is filled here.
  /// `head_log_decay` is empty or [HV].
  /// Writes   o and the final state where given; backward: every gradient that is not null
  Status forward(const Params& params, const std::vector<float>& head_log_decay, void* workspace,
                 Stream stream) const;
  Status backward(const Params& params, const std::vector<float>& head_log_decay, void* workspace,
                  Stream stream) const;

 private:
  Engine() = default;
  Status start(Params* params, void* workspace, Stream stream) const;
  template <class Stages>
  Status for_heads(Params params, const std::vector<float>& head_log_decay, Stages stages) const;

  std::string call_;
  std::string name_;
  Problem problem_;
  Kernel table_, prep_, scan_, reverse_, gradient_;
  TileLayout tiles_;
  StateLayout states_;
  int64_t num_sequences_ = 0;
  int64_t num_chunks_ = 0;
  int64_t slabs_ = 0;
  int64_t heads_a_launch_ = 0;
  int32_t chunk_rows_ = 0;
};

}  // namespace fla::cuda::chunk

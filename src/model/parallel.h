// SPDX-License-Identifier: MIT
// Parallel: a training program whose gradients and loss become the mean over the ranks of a
// data-parallel run.
#pragma once

#include <cstddef>
#include <cstdint>
#include <optional>
#include <vector>

#include "cuda/runtime/stream.h"
#include "fla/plan.h"
#include "fla/status.h"
#include "fla/tensor.h"
#include "model/comm/comm.h"
#include "model/program.h"

namespace fla::model {

/// Buckets of gradients are averaged as the backward pass completes them: on a GPU on a stream of
/// their own, beside the launches of the layers before; on the host in between.
class ParallelProgram {
 public:
  /// `program` is bound to `layout` and `arena`; all of these and `comm` outlive the result. A
  /// bucket has at least `bucket_bytes` where there are so many. Errors: kCuda.
  static Result<ParallelProgram> plan(const Program& program, const Layout& layout,
                                      const Arena& arena, int64_t bucket_bytes, Comm* comm);

  Status run(Stream stream) const;
  size_t num_buckets() const { return means_.size() - 1; }

 private:
  /// Numbers that are complete when the program's first `after` launches have run.
  struct Mean {
    std::byte* data = nullptr;
    int64_t count = 0;
    DType dtype = DType::kFp32;
    size_t after = 0;
  };

  ParallelProgram(const Program& program, Comm* comm) : program_(&program), comm_(comm) {}

  const Program* program_;
  Comm* comm_;
  std::vector<Mean> means_;                      // by `after`; the last one is the loss
  std::optional<cuda::OwnedStream> own_stream_;  // where the gradients are on a GPU
};

}  // namespace fla::model

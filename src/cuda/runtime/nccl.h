// SPDX-License-Identifier: MIT
// Nccl: a communicator of NCCL, which is found at run time. Plain C++: no CUDA and no NCCL header.
#pragma once

#include <array>
#include <chrono>
#include <cstddef>
#include <cstdint>
#include <memory>
#include <string>

#include "fla/plan.h"
#include "fla/status.h"
#include "fla/tensor.h"

namespace fla::cuda {

/// ncclUniqueId.
using NcclId = std::array<std::byte, 128>;

/// One rank's end, on the device that was current at create(). Move-only; for one thread at a time.
/// A rank that dies or is stuck makes calls of the others fail; the communicator is given up then
/// and every later call fails. Errors: kIo without libnccl.so.2 (2.14 or later) or libcuda.so.1 (by
/// the loader, in /usr/local/cuda/lib64, in `lib_dir`); kCuda with NCCL's text.
class Nccl {
 public:
  /// The id that the ranks of a communicator share; rank 0 makes it.
  static Result<NcclId> make_id(const std::string& lib_dir);
  /// Returns when all ranks are there. `timeout`: how long any call waits for the other ranks.
  static Result<Nccl> create(const NcclId& id, int rank, int world,
                             std::chrono::milliseconds timeout, const std::string& lib_dir);
  ~Nccl();
  Nccl(Nccl&&) noexcept;
  Nccl& operator=(Nccl&&) noexcept;

  int rank() const;
  int world() const;

  /// Puts the mean over the ranks on the stream: bf16, fp32 or fp64 in device memory, in place.
  Status all_reduce_mean(void* buffer, int64_t count, DType dtype, Stream stream);
  /// Puts a copy from rank `root` on the stream.
  Status broadcast(void* buffer, int64_t bytes, int root, Stream stream);
  /// Waits until all that is on the stream is done.
  Status finish(Stream stream);

 private:
  struct State;
  explicit Nccl(std::unique_ptr<State> state);
  std::unique_ptr<State> state_;
};

}  // namespace fla::cuda

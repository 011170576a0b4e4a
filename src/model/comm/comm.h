// SPDX-License-Identifier: MIT
// Comm: what the ranks of a data-parallel run say to each other.
#pragma once

#include <chrono>
#include <cstdint>
#include <memory>
#include <vector>

#include "fla/plan.h"
#include "fla/status.h"
#include "fla/tensor.h"

namespace fla::model {

/// One rank's end. Every rank makes the same calls in the same order. A rank that is dead or stuck
/// makes the others' calls fail after a while; after a failure every call fails.
class Comm {
 public:
  Comm() = default;
  Comm(const Comm&) = delete;
  Comm& operator=(const Comm&) = delete;
  virtual ~Comm() = default;

  virtual int rank() const = 0;
  virtual int world() const = 0;

  /// Replaces the buffer by the mean over all ranks, which is the same bits on all of them. fp32 or
  /// bf16, summed in fp32 on the host; fp64 too. Over NCCL it is only put on the stream.
  virtual Status all_reduce_mean(void* buffer, int64_t count, DType dtype, Stream stream) = 0;
  /// Replaces the buffer by that of rank `root`. Over NCCL it is only put on the stream.
  virtual Status broadcast(void* buffer, int64_t bytes, int root, Stream stream) = 0;
  /// Waits until every rank is here.
  virtual Status barrier(Stream stream) = 0;
  /// Waits until what this rank put on the stream is done: in place of a plain synchronisation,
  /// which a dead rank would make last for ever.
  virtual Status finish(Stream stream) = 0;
};

/// A run of one rank: every call is done at once, and finish() waits for nothing.
std::unique_ptr<Comm> make_single_comm();

/// The ranks of one process, a thread each, over host memory; sums in the order of ranks. A call
/// fails when a rank is `timeout` late or its Comm is gone.
std::vector<std::unique_ptr<Comm>> make_thread_comms(int world, std::chrono::milliseconds timeout);

}  // namespace fla::model

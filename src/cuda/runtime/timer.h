// SPDX-License-Identifier: MIT
// GpuTimer: device time of launches with a cold L2. Plain C++: no CUDA header.
#pragma once

#include <cstdint>
#include <functional>

#include "cuda/runtime/buffer.h"
#include "cuda/runtime/stream.h"
#include "fla/plan.h"
#include "fla/status.h"

namespace fla::cuda {

/// Times work on a stream of its own with an event pair. Move-only.
class GpuTimer {
 public:
  /// For the current device, whose L2 has `l2_bytes`.
  static Result<GpuTimer> create(int64_t l2_bytes);

  Stream stream() const { return stream_.get(); }
  Status synchronize() const { return stream_.synchronize(); }

  /// Seconds of what `work` puts on stream(), once, after twice the L2 and at least 256 MiB were
  /// written. That write also keeps the device busy while the host launches.
  Result<double> flushed(const std::function<Status()>& work);
  /// Seconds of one launch of `graph` right behind another one, so that the cost of launching it
  /// does not count. The nodes must walk over more memory than the L2 holds.
  Result<double> replayed(const GraphExec& graph) const;

 private:
  GpuTimer(OwnedStream stream, EventTimer events, DeviceBuffer flush);
  Result<double> timed(const std::function<Status()>& work) const;

  OwnedStream stream_;
  EventTimer events_;
  DeviceBuffer flush_;
  int pattern_ = 1;
};

/// How many input sets take turns so that a call does not find its inputs in the L2 from the one
/// before: 4 L2 of sets behind a flush, 512 MiB and at least two sets in a graph that is replayed;
/// at most a third of free memory.
int64_t rotation_count(int64_t bytes_a_set, int64_t l2_bytes, int64_t free_bytes, bool replayed);

}  // namespace fla::cuda

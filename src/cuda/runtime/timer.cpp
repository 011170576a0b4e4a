// SPDX-License-Identifier: MIT
// GpuTimer: device time of launches with a cold L2.
#include "cuda/runtime/timer.h"

#include <algorithm>
#include <utility>

namespace fla::cuda {
namespace {

constexpr int64_t kLeastFlushBytes = int64_t{256} << 20;

}  // namespace

GpuTimer::GpuTimer(OwnedStream stream, EventTimer events, DeviceBuffer flush)
    : stream_(std::move(stream)), events_(std::move(events)), flush_(std::move(flush)) {}

Result<GpuTimer> GpuTimer::create(int64_t l2_bytes) {
  Result<OwnedStream> stream = OwnedStream::create();
  if (!stream.ok())
    return stream.status();
  Result<EventTimer> events = EventTimer::create();
  if (!events.ok())
    return events.status();
  Result<DeviceBuffer> flush =
      DeviceBuffer::create(static_cast<size_t>(std::max(2 * l2_bytes, kLeastFlushBytes)));
  if (!flush.ok())
    return flush.status();
  return GpuTimer(std::move(stream.value()), std::move(events.value()), std::move(flush.value()));
}

Result<double> GpuTimer::flushed(const std::function<Status()>& work) {
  pattern_ = pattern_ % 251 + 1;  // never zero, never twice the same
  const Status status = flush_.fill(pattern_, stream());
  return status.ok() ? timed(work) : Result<double>(status);
}

Result<double> GpuTimer::replayed(const GraphExec& graph) const {
  const Status status = graph.launch(stream());
  return status.ok() ? timed([&] { return graph.launch(stream()); }) : Result<double>(status);
}

Result<double> GpuTimer::timed(const std::function<Status()>& work) const {
  Status status = events_.start(stream());
  if (status.ok())
    status = work();
  if (status.ok())
    status = events_.stop(stream());
  if (!status.ok())
    return status;
  const Result<double> milliseconds = events_.milliseconds();
  return milliseconds.ok() ? Result<double>(milliseconds.value() * 1e-3) : milliseconds;
}

}  // namespace fla::cuda

// SPDX-License-Identifier: MIT
// Streams, events and graphs through the CUDA runtime.
#include "cuda/runtime/stream.h"

#include <utility>

#include <cuda_runtime_api.h>

#include "cuda/runtime/error.h"

namespace fla::cuda {
namespace {

cudaStream_t raw(Stream stream) {
  return static_cast<cudaStream_t>(stream.handle());
}

cudaEvent_t event(void* handle) {
  return static_cast<cudaEvent_t>(handle);
}

}  // namespace

Result<OwnedStream> OwnedStream::create() {
  OwnedStream stream;
  cudaStream_t handle = nullptr;
  Status status = cuda_status(cudaStreamCreateWithFlags(&handle, cudaStreamNonBlocking), "stream");
  stream.handle_ = handle;
  return status.ok() ? Result<OwnedStream>(std::move(stream)) : Result<OwnedStream>(status);
}

OwnedStream::~OwnedStream() {
  if (handle_ != nullptr)
    cudaStreamDestroy(static_cast<cudaStream_t>(handle_));
}

OwnedStream::OwnedStream(OwnedStream&& other) noexcept
    : handle_(std::exchange(other.handle_, nullptr)) {}

OwnedStream& OwnedStream::operator=(OwnedStream&& other) noexcept {
  std::swap(handle_, other.handle_);
  return *this;
}

Status OwnedStream::synchronize() const {
  return cuda_status(cudaStreamSynchronize(static_cast<cudaStream_t>(handle_)), "synchronize");
}

Status order_after(Stream later, Stream earlier) {
  cudaEvent_t point = nullptr;
  Status status = cuda_status(cudaEventCreateWithFlags(&point, cudaEventDisableTiming), "event");
  if (!status.ok())
    return status;
  status = cuda_status(cudaEventRecord(point, raw(earlier)), "event");
  if (status.ok())
    status = cuda_status(cudaStreamWaitEvent(raw(later), point, 0), "event");
  cudaEventDestroy(point);  // the wait stays
  return status;
}

Result<EventTimer> EventTimer::create() {
  EventTimer timer;
  for (void** handle : {&timer.start_, &timer.stop_}) {
    cudaEvent_t made = nullptr;
    Status status = cuda_status(cudaEventCreate(&made), "event");
    if (!status.ok())
      return status;
    *handle = made;
  }
  return timer;
}

EventTimer::~EventTimer() {
  for (void* handle : {start_, stop_}) {
    if (handle != nullptr)
      cudaEventDestroy(event(handle));
  }
}

EventTimer::EventTimer(EventTimer&& other) noexcept
    : start_(std::exchange(other.start_, nullptr)), stop_(std::exchange(other.stop_, nullptr)) {}

EventTimer& EventTimer::operator=(EventTimer&& other) noexcept {
  std::swap(start_, other.start_);
  std::swap(stop_, other.stop_);
  return *this;
}

Status EventTimer::start(Stream stream) const {
  return cuda_status(cudaEventRecord(event(start_), raw(stream)), "event");
}

Status EventTimer::stop(Stream stream) const {
  return cuda_status(cudaEventRecord(event(stop_), raw(stream)), "event");
}

Result<double> EventTimer::milliseconds() const {
  float milliseconds = 0;
  Status status = cuda_status(cudaEventSynchronize(event(stop_)), "event");
  if (status.ok()) {
    status = cuda_status(cudaEventElapsedTime(&milliseconds, event(start_), event(stop_)), "event");
  }
  return status.ok() ? Result<double>(milliseconds) : Result<double>(status);
}

Result<GraphExec> GraphExec::capture(Stream stream, const std::function<Status()>& work) {
  GraphExec exec;
  Status status = cuda_status(cudaStreamBeginCapture(raw(stream), cudaStreamCaptureModeThreadLocal),
                              "graph capture");
  if (!status.ok())
    return status;
  const Status worked = work();
  cudaGraph_t graph = nullptr;
  status = cuda_status(cudaStreamEndCapture(raw(stream), &graph), "graph capture");
  if (!worked.ok())
    status = worked;
  if (status.ok()) {
    cudaGraphExec_t handle = nullptr;
    status = cuda_status(cudaGraphInstantiate(&handle, graph, 0), "graph instantiation");
    exec.handle_ = handle;
  }
  if (graph != nullptr)
    cudaGraphDestroy(graph);
  return status.ok() ? Result<GraphExec>(std::move(exec)) : Result<GraphExec>(status);
}

GraphExec::~GraphExec() {
  if (handle_ != nullptr)
    cudaGraphExecDestroy(static_cast<cudaGraphExec_t>(handle_));
}

GraphExec::GraphExec(GraphExec&& other) noexcept : handle_(std::exchange(other.handle_, nullptr)) {}

GraphExec& GraphExec::operator=(GraphExec&& other) noexcept {
  std::swap(handle_, other.handle_);
  return *this;
}

Status GraphExec::launch(Stream stream) const {
  return cuda_status(cudaGraphLaunch(static_cast<cudaGraphExec_t>(handle_), raw(stream)),
                     "graph launch");
}

}  // namespace fla::cuda

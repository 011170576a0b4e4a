// SPDX-License-Identifier: MIT
// What cuda/runtime answers in a build without CUDA.
#include <string>
#include <utility>

#include "cuda/runtime/buffer.h"
#include "cuda/runtime/checksum.h"
#include "cuda/runtime/copy.h"
#include "cuda/runtime/copy_peak.h"
#include "cuda/runtime/device.h"
#include "cuda/runtime/matmul_peak.h"
#include "cuda/runtime/profile.h"
#include "cuda/runtime/stream.h"
#include "cuda/runtime/timer.h"

namespace fla::cuda {
namespace {

Status no_cuda() {
  return {Code::kNoDevice, "this build of fla has no CUDA backend (configure with FLA_CUDA=ON)"};
}

}  // namespace

bool is_built() {
  return false;
}
std::vector<DeviceInfo> devices() {
  return {};
}
Result<DeviceInfo> find_device(int /*index*/) {
  return no_cuda();
}
Result<int64_t> free_device_bytes() {
  return no_cuda();
}
DeviceGuard::DeviceGuard(int /*index*/) : status_(no_cuda()) {}
DeviceGuard::~DeviceGuard() {
  former_ = -1;
}

Result<DeviceBuffer> DeviceBuffer::create(size_t /*bytes*/) {
  return no_cuda();
}
DeviceBuffer::~DeviceBuffer() {
  data_ = nullptr;  // nothing was ever allocated
}
DeviceBuffer::DeviceBuffer(DeviceBuffer&& other) noexcept = default;
DeviceBuffer& DeviceBuffer::operator=(DeviceBuffer&& other) noexcept = default;
Status DeviceBuffer::upload(const void* /*host*/, size_t /*bytes*/) const {
  return no_cuda();
}
Status DeviceBuffer::download(void* /*host*/, size_t /*bytes*/) const {
  return no_cuda();
}
Status DeviceBuffer::copy_from(const DeviceBuffer& /*source*/, Stream /*stream*/) const {
  return no_cuda();
}
Status DeviceBuffer::fill(int /*byte*/, Stream /*stream*/) const {
  return no_cuda();
}

Status copy_to_device(void* /*device*/, const void* /*host*/, size_t /*bytes*/, Stream /*stream*/) {
  return no_cuda();
}
Status copy_to_host(void* /*host*/, const void* /*device*/, size_t /*bytes*/, Stream /*stream*/) {
  return no_cuda();
}
Status clear_rows(void* /*device*/, size_t /*stride*/, size_t /*bytes*/, size_t /*rows*/,
                  Stream /*stream*/) {
  return no_cuda();
}

Result<OwnedStream> OwnedStream::create() {
  return no_cuda();
}
OwnedStream::~OwnedStream() {
  handle_ = nullptr;
}
OwnedStream::OwnedStream(OwnedStream&& other) noexcept = default;
OwnedStream& OwnedStream::operator=(OwnedStream&& other) noexcept = default;
Status OwnedStream::synchronize() const {
  return no_cuda();
}

Status order_after(Stream /*later*/, Stream /*earlier*/) {
  return no_cuda();
}

Result<EventTimer> EventTimer::create() {
  return no_cuda();
}
Status EventTimer::start(Stream /*stream*/) const {
  return no_cuda();
}
Status EventTimer::stop(Stream /*stream*/) const {
  return no_cuda();
}
Result<double> EventTimer::milliseconds() const {
  return no_cuda();
}
EventTimer::~EventTimer() {
  start_ = stop_ = nullptr;
}
EventTimer::EventTimer(EventTimer&& other) noexcept = default;
EventTimer& EventTimer::operator=(EventTimer&& other) noexcept = default;

Result<GraphExec> GraphExec::capture(Stream /*stream*/, const std::function<Status()>& /*work*/) {
  return no_cuda();
}
Status GraphExec::launch(Stream /*stream*/) const {
  return no_cuda();
}
GraphExec::~GraphExec() {
  handle_ = nullptr;
}
GraphExec::GraphExec(GraphExec&& other) noexcept = default;
GraphExec& GraphExec::operator=(GraphExec&& other) noexcept = default;

GpuTimer::GpuTimer(OwnedStream stream, EventTimer events, DeviceBuffer flush)
    : stream_(std::move(stream)), events_(std::move(events)), flush_(std::move(flush)) {}
Result<GpuTimer> GpuTimer::create(int64_t /*l2_bytes*/) {
  return no_cuda();
}
Result<double> GpuTimer::flushed(const std::function<Status()>& /*work*/) {
  return no_cuda();
}
Result<double> GpuTimer::replayed(const GraphExec& /*graph*/) const {
  return no_cuda();
}

Result<uint64_t> checksum(const void* /*data*/, int64_t /*bytes*/, Stream /*stream*/) {
  return no_cuda();
}
Status profiled(Stream /*stream*/, const std::function<Status()>& /*work*/) {
  return no_cuda();
}
Result<MatmulPeak> measure_matmul_peak(GpuTimer* /*timer*/, const std::string& /*lib_dir*/) {
  return no_cuda();
}
Status launch_copy_peak(const void* /*source*/, void* /*target*/, int64_t /*bytes*/,
                        Stream /*stream*/) {
  return no_cuda();
}

}  // namespace fla::cuda

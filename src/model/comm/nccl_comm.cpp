// SPDX-License-Identifier: MIT
// A Comm over NCCL: one process a GPU.
#include "model/comm/nccl_comm.h"

#include <utility>

#include "cuda/runtime/buffer.h"
#include "cuda/runtime/nccl.h"

namespace fla::model {
namespace {

class NcclComm final : public Comm {
 public:
  NcclComm(cuda::Nccl nccl, cuda::DeviceBuffer token)
      : nccl_(std::move(nccl)), token_(std::move(token)) {}

  int rank() const override { return nccl_.rank(); }
  int world() const override { return nccl_.world(); }
  Status all_reduce_mean(void* buffer, int64_t count, DType dtype, Stream stream) override {
    return nccl_.all_reduce_mean(buffer, count, dtype, stream);
  }
  Status broadcast(void* buffer, int64_t bytes, int root, Stream stream) override {
    return nccl_.broadcast(buffer, bytes, root, stream);
  }
  Status barrier(Stream stream) override {
    const Status status = nccl_.all_reduce_mean(token_.data(), 1, DType::kFp32, stream);
    return status.ok() ? nccl_.finish(stream) : status;
  }
  Status finish(Stream stream) override { return nccl_.finish(stream); }

 private:
  cuda::Nccl nccl_;
  cuda::DeviceBuffer token_;  // what a barrier reduces; its value is never read
};

/// The id, made by rank 0 and known to all.
Result<UniqueId> agree_on_id(const Launch& launch, std::chrono::milliseconds timeout,
                             const std::string& lib_dir) {
  if (launch.rank != 0)
    return fetch_id(launch, timeout);
  const Result<cuda::NcclId> id = cuda::Nccl::make_id(lib_dir);
  if (!id.ok())
    return id.status();
  const Status status = serve_id(launch, id.value(), timeout);
  return status.ok() ? Result<UniqueId>(id.value()) : Result<UniqueId>(status);
}

}  // namespace

Result<std::unique_ptr<Comm>> make_nccl_comm(const Launch& launch,
                                             std::chrono::milliseconds timeout,
                                             const std::string& lib_dir) {
  Result<cuda::DeviceBuffer> token = cuda::DeviceBuffer::create(sizeof(float));
  if (!token.ok())
    return token.status();
  const Result<UniqueId> id = agree_on_id(launch, timeout, lib_dir);
  if (!id.ok())
    return id.status();
  Result<cuda::Nccl> nccl =
      cuda::Nccl::create(id.value(), launch.rank, launch.world, timeout, lib_dir);
  if (!nccl.ok())
    return nccl.status();
  return std::unique_ptr<Comm>(
      std::make_unique<NcclComm>(std::move(nccl.value()), std::move(token.value())));
}

}  // namespace fla::model

// SPDX-License-Identifier: MIT
// NCCL through the few functions of its stable ABI that are used. The communicator is non-blocking,
// so that waiting for a dead rank can end.
#include "cuda/runtime/nccl.h"

#include <thread>
#include <utility>

#include "cuda/runtime/library.h"

namespace fla::cuda {
namespace {

using Clock = std::chrono::steady_clock;
using NcclComm = struct NcclCommState*;  // ncclComm_t

// ncclResult_t, ncclDataType_t, ncclRedOp_t, CUresult
constexpr int kSuccess = 0;
constexpr int kInProgress = 7;
constexpr int kUint8 = 1;
constexpr int kFloat32 = 7;
constexpr int kFloat64 = 8;
constexpr int kBfloat16 = 9;
constexpr int kAverage = 4;
constexpr int kStreamNotReady = 600;

/// ncclConfig_t as of NCCL 2.14; later versions take the rest from their defaults.
struct NcclConfig {
  size_t size = sizeof(NcclConfig);
  unsigned magic = 0xcafebeef;
  unsigned version = 21400;
  int blocking = 0;
};

/// The functions that are called. The libraries stay open until the process ends: NCCL's threads
/// outlive its last call.
struct Api {
  static Result<Api> open(const std::string& lib_dir);

  int (*get_unique_id)(NcclId*) = nullptr;
  int (*init)(NcclComm*, int world, NcclId, int rank, NcclConfig*) = nullptr;
  int (*comm_destroy)(NcclComm) = nullptr;
  int (*comm_abort)(NcclComm) = nullptr;
  int (*async_error)(NcclComm, int*) = nullptr;
  const char* (*error_string)(int) = nullptr;
  int (*all_reduce)(const void*, void*, size_t, int type, int op, NcclComm, void* stream) = nullptr;
  int (*broadcast)(const void*, void*, size_t, int type, int root, NcclComm,
                   void* stream) = nullptr;
  int (*stream_query)(void* stream) = nullptr;
};

Result<Api> Api::open(const std::string& lib_dir) {
  Result<Library> nccl = Library::open({"libnccl.so.2"}, lib_dir);
  if (!nccl.ok())
    return nccl.status();
  Result<Library> cuda = Library::open({"libcuda.so.1"}, lib_dir);
  if (!cuda.ok())
    return cuda.status();
  Api api;
  std::string missing;
  const auto load = [&missing]<class Function>(const Library& library, const char* name,
                                               Function** function) {
    *function = library.function<Function>(name);
    if (*function == nullptr)
      missing += std::string(missing.empty() ? "" : ", ") + name;
  };
  load(nccl.value(), "ncclGetUniqueId", &api.get_unique_id);
  load(nccl.value(), "ncclCommInitRankConfig", &api.init);
  load(nccl.value(), "ncclCommDestroy", &api.comm_destroy);
  load(nccl.value(), "ncclCommAbort", &api.comm_abort);
  load(nccl.value(), "ncclCommGetAsyncError", &api.async_error);
  load(nccl.value(), "ncclGetErrorString", &api.error_string);
  load(nccl.value(), "ncclAllReduce", &api.all_reduce);
  load(nccl.value(), "ncclBroadcast", &api.broadcast);
  load(cuda.value(), "cuStreamQuery", &api.stream_query);
  nccl.value().leave_open();
  cuda.value().leave_open();
  if (!missing.empty())
    return Status(Code::kIo, "the libnccl.so.2 or libcuda.so.1 that was found lacks " + missing);
  return api;
}

int nccl_type(DType dtype) {
  switch (dtype) {
    case DType::kBf16:
      return kBfloat16;
    case DType::kFp32:
      return kFloat32;
    case DType::kFp64:
      return kFloat64;
    default:
      return -1;
  }
}

}  // namespace

struct Nccl::State {
  ~State() {
    if (comm != nullptr)
      api.comm_destroy(comm);
  }

  /// Gives the communicator up: operations that are under way end, also where a rank is dead.
  Status fail(const std::string& what, const std::string& why) {
    if (comm != nullptr)
      api.comm_abort(std::exchange(comm, nullptr));
    failure =
        "rank " + std::to_string(rank) + " of " + std::to_string(world) + ": " + what + ": " + why;
    return {Code::kCuda, failure};
  }

  Status late(const std::string& what) {
    return fail(what, "nothing for " + std::to_string(timeout.count()) +
                          " ms: another rank is dead or stuck");
  }

  /// kSuccess, kInProgress or an error of the communicator.
  int progress() const {
    int result = kSuccess;
    const int asked = api.async_error(comm, &result);
    return asked == kSuccess ? result : asked;
  }

  /// Waits until a call that answered `result` is accepted.
  Status settle(const std::string& what, int result) {
    const Clock::time_point deadline = Clock::now() + timeout;
    while (result == kInProgress && Clock::now() < deadline) {
      std::this_thread::yield();
      result = progress();
    }
    if (result == kInProgress)
      return late(what);
    return result == kSuccess ? Status() : fail(what, api.error_string(result));
  }

  Status check_open() const {
    return comm != nullptr ? Status() : Status(Code::kCuda, "given up earlier: " + failure);
  }

  Api api;
  NcclComm comm = nullptr;
  int rank = 0;
  int world = 1;
  std::chrono::milliseconds timeout{};
  std::string failure;
};

Nccl::Nccl(std::unique_ptr<State> state) : state_(std::move(state)) {}
Nccl::~Nccl() = default;
Nccl::Nccl(Nccl&&) noexcept = default;
Nccl& Nccl::operator=(Nccl&&) noexcept = default;

int Nccl::rank() const {
  return state_->rank;
}
int Nccl::world() const {
  return state_->world;
}

Result<NcclId> Nccl::make_id(const std::string& lib_dir) {
  const Result<Api> api = Api::open(lib_dir);
  if (!api.ok())
    return api.status();
  NcclId id{};
  const int result = api.value().get_unique_id(&id);
  if (result != kSuccess)
    return Status(Code::kCuda, std::string("ncclGetUniqueId: ") + api.value().error_string(result));
  return id;
}

Result<Nccl> Nccl::create(const NcclId& id, int rank, int world, std::chrono::milliseconds timeout,
                          const std::string& lib_dir) {
  const Result<Api> api = Api::open(lib_dir);
  if (!api.ok())
    return api.status();
  auto state = std::make_unique<State>();
  state->api = api.value();
  state->rank = rank;
  state->world = world;
  state->timeout = timeout;
  NcclConfig config;
  const int result = state->api.init(&state->comm, world, id, rank, &config);
  const Status status = state->settle("joining the other ranks", result);
  if (!status.ok())
    return status;
  return Nccl(std::move(state));
}

Status Nccl::all_reduce_mean(void* buffer, int64_t count, DType dtype, Stream stream) {
  if (Status status = state_->check_open(); !status.ok())
    return status;
  const int type = nccl_type(dtype);
  if (type < 0)
    return {Code::kInvalidArgument, "all_reduce_mean: dtype is " + std::string(dtype_name(dtype)) +
                                        ", expected bf16, fp32 or fp64"};
  return state_->settle("ncclAllReduce",
                        state_->api.all_reduce(buffer, buffer, static_cast<size_t>(count), type,
                                               kAverage, state_->comm, stream.handle()));
}

Status Nccl::broadcast(void* buffer, int64_t bytes, int root, Stream stream) {
  if (Status status = state_->check_open(); !status.ok())
    return status;
  if (root < 0 || root >= state_->world)
    return {Code::kInvalidArgument, "broadcast: root is " + std::to_string(root) +
                                        ", expected 0 to " + std::to_string(state_->world - 1)};
  return state_->settle("ncclBroadcast",
                        state_->api.broadcast(buffer, buffer, static_cast<size_t>(bytes), kUint8,
                                              root, state_->comm, stream.handle()));
}

Status Nccl::finish(Stream stream) {
  if (Status status = state_->check_open(); !status.ok())
    return status;
  const Clock::time_point deadline = Clock::now() + state_->timeout;
  for (;;) {
    const int query = state_->api.stream_query(stream.handle());
    if (query != kSuccess && query != kStreamNotReady)
      return state_->fail("the stream", "CUDA error " + std::to_string(query));
    const int result = state_->progress();
    if (result != kSuccess && result != kInProgress)
      return state_->fail("a collective", state_->api.error_string(result));
    if (query == kSuccess)
      return {};
    if (Clock::now() >= deadline)
      return state_->late("the stream");
    std::this_thread::yield();
  }
}

}  // namespace fla::cuda

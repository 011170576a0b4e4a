// SPDX-License-Identifier: MIT
// Ranks as threads of one process. A call is two meetings: between them each rank computes its part
// of the elements and writes it into everybody's buffer.
#include <algorithm>
#include <condition_variable>
#include <cstring>
#include <mutex>
#include <string>
#include <string_view>
#include <utility>

#include <fmt/format.h>

#include "core/half.h"
#include "model/comm/comm.h"

namespace fla::model {
namespace {

struct Call {
  std::string_view name;
  void* buffer = nullptr;
  int64_t count = 0;
  DType dtype = DType::kUint8;
  int root = 0;

  bool is_same(const Call& other) const {
    return name == other.name && count == other.count && dtype == other.dtype && root == other.root;
  }
  std::string text() const {
    return fmt::format("{}(count {}, {}, root {})", name, count, dtype_name(dtype), root);
  }
};

/// Where the threads wait for each other.
class Meeting {
 public:
  Meeting(int world, std::chrono::milliseconds timeout)
      : timeout_(timeout),
        calls_(static_cast<size_t>(world)),
        here_(static_cast<size_t>(world)),
        gone_(static_cast<size_t>(world)) {}

  int world() const { return static_cast<int>(calls_.size()); }

  /// Waits until every rank has brought its call; they are all the same then.
  Status begin(int rank, const Call& call) {
    std::unique_lock lock(mutex_);
    const auto left = std::find(gone_.begin(), gone_.end(), true);
    if (failure_.empty() && left != gone_.end())
      fail(fmt::format("rank {} waits in {} for rank {}, which has left", rank, call.text(),
                       left - gone_.begin()));
    if (!failure_.empty())
      return failure();
    calls_[static_cast<size_t>(rank)] = call;
    here_[static_cast<size_t>(rank)] = true;
    const uint64_t round = round_;
    if (std::find(here_.begin(), here_.end(), false) == here_.end()) {
      open_round();
    } else if (!changed_.wait_for(lock, timeout_,
                                  [&] { return round_ != round || !failure_.empty(); })) {
      const auto missing = std::find(here_.begin(), here_.end(), false);
      fail(fmt::format("rank {} waited {} ms in {} for rank {}", rank, timeout_.count(),
                       call.text(), missing - here_.begin()));
    }
    return round_ != round ? Status() : failure();
  }

  /// The calls of the ranks, from begin() to end().
  const std::vector<Call>& calls() const { return calls_; }

  /// Waits until every rank is done with the buffers of the others. Each of them comes: between
  /// begin() and here it only computes.
  void end() {
    std::unique_lock lock(mutex_);
    const uint64_t round = ended_round_;
    if (++num_ended_ == world()) {
      num_ended_ = 0;
      ++ended_round_;
      changed_.notify_all();
    } else {
      changed_.wait(lock, [&] { return ended_round_ != round; });
    }
  }

  void leave(int rank) {
    const std::lock_guard lock(mutex_);
    gone_[static_cast<size_t>(rank)] = true;
    const auto waiting = std::find(here_.begin(), here_.end(), true);
    if (failure_.empty() && waiting != here_.end())
      fail(fmt::format("rank {} left while rank {} waits for it in {}", rank,
                       waiting - here_.begin(),
                       calls_[static_cast<size_t>(waiting - here_.begin())].text()));
  }

 private:
  void open_round() {
    for (size_t rank = 1; rank < calls_.size(); ++rank) {
      if (!calls_[rank].is_same(calls_[0])) {
        fail(fmt::format("rank 0 calls {}, rank {} calls {}", calls_[0].text(), rank,
                         calls_[rank].text()));
        return;
      }
    }
    std::fill(here_.begin(), here_.end(), false);
    ++round_;
    changed_.notify_all();
  }

  void fail(std::string why) {
    failure_ = std::move(why);
    changed_.notify_all();
  }
  Status failure() const { return {Code::kIo, failure_}; }

  std::chrono::milliseconds timeout_;
  std::mutex mutex_;
  std::condition_variable changed_;
  std::vector<Call> calls_;
  std::vector<bool> here_;  // between its begin() and the round's opening
  std::vector<bool> gone_;
  uint64_t round_ = 0;
  int num_ended_ = 0;
  uint64_t ended_round_ = 0;
  std::string failure_;  // the first one stays
};

struct Bf16 {
  uint16_t bits;
};
float load(Bf16 value) {
  return bf16_to_float(value.bits);
}
float load(float value) {
  return value;
}
double load(double value) {
  return value;
}
void store(float value, Bf16* out) {
  out->bits = float_to_bf16(value);
}
void store(float value, float* out) {
  *out = value;
}
void store(double value, double* out) {
  *out = value;
}

/// The mean of the elements [begin, end) into every buffer.
template <class T>
void mean_part(const std::vector<Call>& calls, int64_t begin, int64_t end) {
  using Sum = decltype(load(T{}));
  const auto world = static_cast<Sum>(calls.size());
  for (int64_t i = begin; i < end; ++i) {
    Sum sum = 0;
    for (const Call& call : calls)
      sum += load(static_cast<const T*>(call.buffer)[i]);
    for (const Call& call : calls)
      store(sum / world, static_cast<T*>(call.buffer) + i);
  }
}

class ThreadComm final : public Comm {
 public:
  ThreadComm(int rank, std::shared_ptr<Meeting> meeting)
      : rank_(rank), meeting_(std::move(meeting)) {}
  ~ThreadComm() override { meeting_->leave(rank_); }

  int rank() const override { return rank_; }
  int world() const override { return meeting_->world(); }

  Status all_reduce_mean(void* buffer, int64_t count, DType dtype, Stream /*stream*/) override {
    if (dtype != DType::kBf16 && dtype != DType::kFp32 && dtype != DType::kFp64)
      return {Code::kInvalidArgument,
              fmt::format("all_reduce_mean: dtype is {}, expected bf16, fp32 or fp64",
                          dtype_name(dtype))};
    const Call call = {.name = "all_reduce_mean", .buffer = buffer, .count = count, .dtype = dtype};
    if (Status status = meeting_->begin(rank_, call); !status.ok())
      return status;
    const int64_t begin = count * rank_ / world();
    const int64_t end = count * (rank_ + 1) / world();
    if (dtype == DType::kBf16)
      mean_part<Bf16>(meeting_->calls(), begin, end);
    else if (dtype == DType::kFp32)
      mean_part<float>(meeting_->calls(), begin, end);
    else
      mean_part<double>(meeting_->calls(), begin, end);
    meeting_->end();
    return {};
  }

  Status broadcast(void* buffer, int64_t bytes, int root, Stream /*stream*/) override {
    if (root < 0 || root >= world())
      return {Code::kInvalidArgument,
              fmt::format("broadcast: root is {}, expected 0 to {}", root, world() - 1)};
    const Call call = {.name = "broadcast", .buffer = buffer, .count = bytes, .root = root};
    if (Status status = meeting_->begin(rank_, call); !status.ok())
      return status;
    if (rank_ != root && bytes > 0)
      std::memcpy(buffer, meeting_->calls()[static_cast<size_t>(root)].buffer,
                  static_cast<size_t>(bytes));
    meeting_->end();
    return {};
  }

  Status barrier(Stream /*stream*/) override {
    if (Status status = meeting_->begin(rank_, {.name = "barrier"}); !status.ok())
      return status;
    meeting_->end();
    return {};
  }

  Status finish(Stream /*stream*/) override { return {}; }

 private:
  int rank_;
  std::shared_ptr<Meeting> meeting_;
};

}  // namespace

std::vector<std::unique_ptr<Comm>> make_thread_comms(int world, std::chrono::milliseconds timeout) {
  const auto meeting = std::make_shared<Meeting>(world, timeout);
  std::vector<std::unique_ptr<Comm>> comms;
  comms.reserve(static_cast<size_t>(world));
  for (int rank = 0; rank < world; ++rank)
    comms.push_back(std::make_unique<ThreadComm>(rank, meeting));
  return comms;
}

}  // namespace fla::model

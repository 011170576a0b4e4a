// SPDX-License-Identifier: MIT
// A run of one rank.
#include "model/comm/comm.h"

namespace fla::model {
namespace {

class SingleComm final : public Comm {
 public:
  int rank() const override { return 0; }
  int world() const override { return 1; }
  Status all_reduce_mean(void* /*buffer*/, int64_t /*count*/, DType /*dtype*/,
                         Stream /*stream*/) override {
    return {};
  }
  Status broadcast(void* /*buffer*/, int64_t /*bytes*/, int /*root*/, Stream /*stream*/) override {
    return {};
  }
  Status barrier(Stream /*stream*/) override { return {}; }
  Status finish(Stream /*stream*/) override { return {}; }
};

}  // namespace

std::unique_ptr<Comm> make_single_comm() {
  return std::make_unique<SingleComm>();
}

}  // namespace fla::model

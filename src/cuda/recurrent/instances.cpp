// SPDX-License-Identifier: MIT
// What recurrent forward kernels there are.
#include "cuda/recurrent/instances.h"

namespace fla::cuda::recurrent {

const std::vector<Instance>& instances() {
  static const std::vector<Instance> table = {
      {"recurrent_fwd.add_k32", Update::kAdd, 32, 4, 128, fwd_add_k32},
      {"recurrent_fwd.add_k64", Update::kAdd, 64, 4, 128, fwd_add_k64},
      {"recurrent_fwd.add_k128", Update::kAdd, 128, 2, 128, fwd_add_k128},
      {"recurrent_fwd.add_k256", Update::kAdd, 256, 1, 128, fwd_add_k256},
      {"recurrent_fwd.add_k512", Update::kAdd, 512, 1, 256, fwd_add_k512},
      {"recurrent_fwd.delta_k32", Update::kDelta, 32, 4, 128, fwd_delta_k32},
      {"recurrent_fwd.delta_k64", Update::kDelta, 64, 4, 128, fwd_delta_k64},
      {"recurrent_fwd.delta_k128", Update::kDelta, 128, 2, 128, fwd_delta_k128},
      {"recurrent_fwd.delta_k256", Update::kDelta, 256, 1, 128, fwd_delta_k256},
      {"recurrent_fwd.delta_k512", Update::kDelta, 512, 1, 256, fwd_delta_k512},
      {"recurrent_fwd.dplr_k32", Update::kDplr, 32, 4, 128, fwd_dplr_k32},
      {"recurrent_fwd.dplr_k64", Update::kDplr, 64, 4, 128, fwd_dplr_k64},
      {"recurrent_fwd.dplr_k128", Update::kDplr, 128, 2, 128, fwd_dplr_k128},
      {"recurrent_fwd.dplr_k256", Update::kDplr, 256, 1, 128, fwd_dplr_k256},
      {"recurrent_fwd.dplr_k512", Update::kDplr, 512, 1, 256, fwd_dplr_k512},
  };
  return table;
}

const Instance* find(Update update, int64_t keys) {
  for (const Instance& row : instances()) {
    if (row.update == update && keys <= row.keys)
      return &row;
  }
  return nullptr;
}

}  // namespace fla::cuda::recurrent

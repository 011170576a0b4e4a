// SPDX-License-Identifier: MIT
// What recurrent forward kernels there are.
#include "cuda/recurrent/instances.h"

namespace fla::cuda::recurrent {

const std::vector<Instance>& instances() {
#define FLA_ROW(id, update, keys, max_vec, threads) \
  {"recurrent_fwd." #id, update, keys, max_vec, threads, fwd_##id},
  static const std::vector<Instance> table = {FLA_RECURRENT_INSTANCES(FLA_ROW)};
#undef FLA_ROW
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

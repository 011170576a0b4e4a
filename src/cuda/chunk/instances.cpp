// SPDX-License-Identifier: MIT
// What chunk kernels there are.
#include "cuda/chunk/instances.h"

#include "cuda/chunk/inst/entries.h"
#include "cuda/chunk/instance_table.h"

namespace fla::cuda::chunk {

const std::vector<Instance>& instances() {
#define FLA_ROW(rule, update, gate, vector_gate, keys) \
  {"chunk_" #rule "." #gate "_k" #keys,                \
   update,                                             \
   vector_gate,                                        \
   keys,                                               \
   prep_##rule##_##gate##_k##keys,                     \
   scan_##rule##_##gate##_k##keys,                     \
   reverse_##rule##_##gate##_k##keys,                  \
   gradient_##rule##_##gate##_k##keys},
  static const std::vector<Instance> table = {FLA_CHUNK_INSTANCES(FLA_ROW)};
#undef FLA_ROW
  return table;
}

const Instance* find(Update update, bool vector_gate, int64_t keys) {
  for (const Instance& row : instances()) {
    // A vector gate serves scalar ones too: DPLR has no other.
    const bool gate = row.vector_gate == vector_gate || update == Update::kDplr;
    if (row.update == update && gate && keys <= row.keys)
      return &row;
  }
  return nullptr;
}

}  // namespace fla::cuda::chunk

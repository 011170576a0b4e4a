// SPDX-License-Identifier: MIT
// Graph: what can be asked of one.
#include "model/graph.h"

namespace fla::model {

Tensor Graph::root(Tensor tensor) const {
  while (info(tensor).parent.given())
    tensor = info(tensor).parent;
  return tensor;
}

int64_t Graph::num_parameters() const {
  int64_t count = 0;
  for (const ParameterInfo& parameter : parameters)
    count += parameter.rows * info(parameter.tensor).columns;
  return count;
}

}  // namespace fla::model

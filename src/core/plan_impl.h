// SPDX-License-Identifier: MIT
// PlanImpl: what a backend hands back for a planned call. ops validates the tensors before run() is
// reached.
#pragma once

#include <cstddef>
#include <string>

#include "fla/op.h"
#include "fla/plan.h"
#include "fla/status.h"

namespace fla {

class PlanImpl {
 public:
  PlanImpl() = default;
  PlanImpl(const PlanImpl&) = delete;
  PlanImpl& operator=(const PlanImpl&) = delete;
  virtual ~PlanImpl() = default;

  virtual const std::string& name() const = 0;
  virtual size_t workspace_bytes() const = 0;
  virtual Status run(const TensorSet& tensors, Workspace workspace, Stream stream) const = 0;
};

}  // namespace fla

// SPDX-License-Identifier: MIT
// Small calls of every operator for the tests of this folder.
#pragma once

#include <cstddef>
#include <cstdint>
#include <string>
#include <string_view>
#include <vector>

#include "fla/op.h"
#include "fla/plan.h"
#include "ops/call_tensors.h"
#include "ops/registry.h"

namespace fla::ops {

/// Every extent that can differ does, and every optional tensor that can be given is.
OpDesc small_desc(const OpRow& row, Pass pass);

/// A tensor of a call: a slot's value or its gradient.
struct Argument {
  const SlotSpec* spec;
  bool is_grad;

  std::string name() const;
  TensorView& view(TensorSet* tensors) const;
  bool is_written() const { return is_grad != is_output(spec->slot); }
};
std::vector<Argument> arguments(const OpRow& row, const OpDesc& desc);

/// True when every written tensor still holds the poison that make_call left.
bool outputs_untouched(const std::vector<Argument>& args, TensorSet tensors);

/// Scratch memory of a plan.
class Scratch {
 public:
  explicit Scratch(size_t bytes);
  Workspace workspace() { return {aligned_, bytes_}; }

 private:
  std::vector<std::byte> memory_;
  std::byte* aligned_;
  size_t bytes_;
};

Context ref_context();

}  // namespace fla::ops

// SPDX-License-Identifier: MIT
// ModuleCase: one call of a module that every backend must get right. Inputs are drawn in fp64 and
// rounded to the dtype under test; ref computes the same rounded values in fp64, and outputs and
// gradients are compared.
#pragma once

#include <compare>
#include <cstddef>
#include <cstdint>
#include <functional>
#include <map>
#include <string>
#include <vector>

#include "core/module.h"
#include "fla/plan.h"
#include "fla/status.h"
#include "fla/tensor.h"
#include "ops/modules.h"
#include "support/guarded_buffer.h"
#include "support/host_tensor.h"

namespace fla::test {

/// An output that lies in the memory of an input; backward, that input's gradient lies in the
/// output's.
struct InPlace {
  size_t out = 0;
  size_t in = 0;
};

struct ModuleCase {
  std::string name;
  ModuleDesc desc;                      // dtype and param_dtype come from the run
  std::vector<int64_t> cu_seqlens;      // where desc.sequences > 0
  std::vector<int64_t> positions;       // where the module is given them
  uint32_t accumulate = 0;              // gradients that are added to what is there
  uint32_t wanted = ~0U;                // gradients that are asked for
  Layout layout = Layout::kContiguous;  // of activations with one row a token
  std::vector<InPlace> in_place;
  bool backward = true;
  bool any_target = true;  // linear_cross_entropy: false ignores every label
  uint64_t seed = 1;

  const ops::ModuleRow& row() const { return ops::module_row(desc.module); }
};

/// Several cases of every module.
std::vector<ModuleCase> all_module_cases();
void PrintTo(const ModuleCase& test_case, std::ostream* out);

/// Which tensor of a call.
enum class Part : uint8_t { kIn, kOut, kDIn, kDOut };
struct ModuleKey {
  Part part = Part::kIn;
  size_t slot = 0;
  auto operator<=>(const ModuleKey&) const = default;
};
std::string module_key_name(const ModuleCase& test_case, ModuleKey key);  // "d_weight"
using ModuleValues = std::map<ModuleKey, HostTensor>;

/// Everything that both passes of a case read, rounded to `dtype`: inputs, the outputs that the
/// backward pass reads (from ref's forward pass), gradients of outputs, and what lies in the
/// gradients that are added to.
ModuleValues make_module_values(const ModuleCase& test_case, DType dtype);

/// A call in guarded host memory.
struct ModuleCall {
  ModuleDesc desc;
  Pass pass = Pass::kForward;
  uint32_t accumulate = 0;
  std::map<ModuleKey, PlacedTensor> tensors;
  std::vector<std::pair<ModuleKey, ModuleKey>> aliases;  // the first lies in the second

  /// The tensors of a call whose data are at `address(placed)`: the host address of its element 0,
  /// or that of a copy on a device.
  ModuleTensors views(const std::function<void*(PlacedTensor&)>& address);
};

/// Plans and runs a call, and leaves what it wrote in the call's host memory.
using ModuleBackend = std::function<Status(ModuleCall& call)>;
/// Runs on the CPU through ops: ref or cpu as `context` says.
ModuleBackend host_module_backend(const Context& context);

struct ModuleResult {
  Status status;
  std::string damage;    // "" or what was written that must not be
  ModuleValues written;  // outputs (forward) or gradients (backward); both where both passes ran
};

/// One pass, or both, of a case whose activations and parameters are stored as `storage`.
ModuleResult run_module_pass(const ModuleCase& test_case, Pass pass, const ModuleValues& values,
                             DType storage, const ModuleBackend& backend);
ModuleResult run_module(const ModuleCase& test_case, const ModuleValues& values, DType storage,
                        const ModuleBackend& backend);

/// "" or one line for each tensor of `got` that is outside the bounds of support/tolerance.h.
std::string compare_module(const ModuleCase& test_case, DType dtype, const ModuleValues& got,
                           const ModuleValues& want, bool on_gpu);

/// The whole of it: "" when `backend` agrees with ref on both passes of `test_case` in `dtype`.
std::string check_module(const ModuleCase& test_case, DType dtype, const ModuleBackend& backend,
                         bool on_gpu);

}  // namespace fla::test

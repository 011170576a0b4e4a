// SPDX-License-Identifier: MIT
// Arguments of FLA that no operator here takes, refused by name.
#include <string_view>

#include "ops/registry.h"

namespace fla::ops {

std::string_view unsupported_reason(std::string_view name) {
  static constexpr struct {
    std::string_view name, reason;
  } kRefused[] = {
      {"reverse", "flip the tensors along T instead"},
      {"gv", "the state decays along its key axis alone"},
      {"gk", "pass one gate, g"},
      {"beta_channel", "beta is one number a head, [B,T,HV]"},
      {"return_intermediate_states", "states inside a sequence are not kept"},
      {"cp_context", "one call runs on one device"},
      {"output_attentions", "the attention matrix is never formed"},
      {"disable_recompute", "backward always recomputes"},
      {"checkpoint_level", "backward always recomputes"},
  };
  for (const auto& entry : kRefused) {
    if (entry.name == name)
      return entry.reason;
  }
  return {};
}

}  // namespace fla::ops

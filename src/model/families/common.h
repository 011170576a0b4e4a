// SPDX-License-Identifier: MIT
// What the rows of families share: their keys, and the function of each.
#pragma once

#include <initializer_list>
#include <string_view>
#include <vector>

#include "model/family.h"

namespace fla::model {

/// The keys that all families but mamba2 have, with the defaults of models that FLA gives, then
/// `own`; an own key of the same name replaces the shared one.
std::vector<ConfigKey> with_common_keys(std::initializer_list<ConfigKey> own);

/// num_heads must divide `size`, the value of what `total` names.
Status check_heads(std::string_view total, int64_t size, int64_t num_heads);
/// Heads that the operators take.
Status check_head_dims(int64_t key_dim, int64_t value_dim);

Family kda_family();
Family gated_deltanet_family();
Family gla_family();
Family retnet_family();
Family delta_net_family();
Family mamba2_family();
Family rwkv7_family();
Family hgrn2_family();
Family simple_gla_family();
Family transformer_family();

}  // namespace fla::model

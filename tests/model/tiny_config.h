// SPDX-License-Identifier: MIT
// Small models of every family, for tests.
#pragma once

#include <string>
#include <vector>

#include "model/config.h"
#include "model/family.h"

namespace fla::model {

inline constexpr int64_t kTinyVocab = 61;

/// Two layers, small enough for the reference, with weights so large that gates and norms matter.
Config tiny_config(const std::string& family);
/// Writes a model to a folder that has left its initialisation, of which zeros and tiny numbers are
/// part, by a few steps.
void save_trained(const Config& config, const std::string& folder);
/// The names of all families.
std::vector<std::string> tiny_families();

/// |a - b| / |b| over all elements.
double distance(const std::vector<float>& a, const std::vector<float>& b);

}  // namespace fla::model

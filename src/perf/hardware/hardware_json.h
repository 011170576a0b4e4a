// SPDX-License-Identifier: MIT
// fla.hardware/1 as JSON values, for the documents that hold a card.
#pragma once

#include <nlohmann/json.hpp>

#include "perf/hardware/hardware.h"

namespace fla::perf {

nlohmann::ordered_json hardware_json(const Hardware& card);

/// Unknown keys are ignored. Errors: kIo for what is no fla.hardware/1, naming the field.
Result<Hardware> hardware_from_json(const nlohmann::json& json);

}  // namespace fla::perf

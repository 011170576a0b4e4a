// SPDX-License-Identifier: MIT
// The GPU of this process, its environment included.
#pragma once

#include <string>

#include "perf/hardware/hardware.h"

namespace fla::cli {

/// perf::read_hardware with what the environment says about MPS.
perf::Hardware this_hardware(const std::string& lib_dir);

}  // namespace fla::cli

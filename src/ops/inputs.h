// SPDX-License-Identifier: MIT
// Random inputs: the registry's distributions (math.md 10.2), the same values whatever the thread
// count.
#pragma once

#include <cstdint>

#include "fla/op.h"
#include "ops/registry.h"

namespace fla::ops {

/// The distribution of a slot in a call. `twin` asks for the one that stays finite (math.md 10.4).
/// A gate or beta that the kernel computes from raw values gets N(0,1); keys that the kernel
/// normalises need no unit twin.
Dist input_dist(const SlotSpec& spec, const OpDesc& desc, bool twin);

/// Fills `view` (any strides) with `dist`, rounded to the view's dtype. kMinusASigmoid reads slot
/// kA of `so_far`. Element i depends on the seed, the slot and i alone.
void fill_input(const SlotSpec& spec, Dist dist, uint64_t seed, const TensorView& view,
                const TensorSet& so_far);

/// N(0,1) for the gradient of an output.
void fill_output_grad(const SlotSpec& spec, uint64_t seed, const TensorView& view);

}  // namespace fla::ops

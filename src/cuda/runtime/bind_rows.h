// SPDX-License-Identifier: MIT
// From the views of a call to the tensors that kernels are told about.
#pragma once

#include <cstdint>

#include "cuda/device/tensors.h"
#include "fla/op.h"

namespace fla::cuda {

/// Rows of a tensor with H or with HV heads; null data where it is not given.
Rows key_rows(const TensorView& view);
Rows value_rows(const TensorView& view);
/// Rows of hgrn's [B, T, heads * n].
Rows flat_rows(const TensorView& view, int64_t n);

Parameter bind_parameter(const TensorView& view);
/// A key state [rows, heads, K].
KeyState bind_key_state(const TensorView& view);
Indices bind_indices(const TensorView& view);
Sequences bind_sequences(const OpDesc& desc, const TensorSet& tensors);

/// A matrix state; `vec` is how many value columns a lane reads at once, unit_qk that it is hgrn's
/// [rows, heads * values].
State bind_state(const TensorView& view, bool unit_qk, bool v_first, int64_t values, int64_t keys,
                 int vec);

}  // namespace fla::cuda

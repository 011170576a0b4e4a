// SPDX-License-Identifier: MIT
// Which memory two views share.
#pragma once

#include "fla/tensor.h"

namespace fla::ops {

/// True unless the views are shown to share no byte. Exact for views of one buffer whose strides
/// agree (slices of a fused tensor interleave legally); otherwise by byte extents. Strides must not
/// be negative.
bool may_overlap(const TensorView& a, const TensorView& b);

/// True when no two indices of the view reach the same element, shown by strides that nest.
bool is_injective(const TensorView& view);

}  // namespace fla::ops

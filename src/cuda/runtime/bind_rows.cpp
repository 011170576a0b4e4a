// SPDX-License-Identifier: MIT
// Views as kernel parameters.
#include "cuda/runtime/bind_rows.h"

#include <cstdint>

namespace fla::cuda {
namespace {

Rows rows_of(const TensorView& view, bool key_side) {
  if (view.data == nullptr)
    return {};
  const auto bytes = static_cast<int64_t>(dtype_bytes(view.dtype));
  return {static_cast<char*>(view.data),
          view.stride[0] * bytes,
          view.stride[1] * bytes,
          view.stride[2] * bytes,
          static_cast<int32_t>(view.dtype),
          static_cast<int32_t>(bytes),
          key_side};
}

bool divides(int64_t unit, const State& state) {
  const auto address = reinterpret_cast<uintptr_t>(state.data);
  return address % (static_cast<uintptr_t>(unit) * sizeof(float)) == 0 && state.row % unit == 0 &&
         state.head % unit == 0;
}

}  // namespace

Rows key_rows(const TensorView& view) {
  return rows_of(view, true);
}

Rows value_rows(const TensorView& view) {
  return rows_of(view, false);
}

Rows flat_rows(const TensorView& view, int64_t n) {
  Rows rows = rows_of(view, false);
  rows.head = n * rows.element;
  return rows;
}

Parameter bind_parameter(const TensorView& view) {
  if (view.data == nullptr)
    return {};
  const auto bytes = static_cast<int64_t>(dtype_bytes(view.dtype));
  return {static_cast<const char*>(view.data), view.stride[0] * bytes,
          view.rank > 1 ? view.stride[1] * bytes : 0, static_cast<int32_t>(view.dtype),
          static_cast<int32_t>(bytes)};
}

KeyState bind_key_state(const TensorView& view) {
  if (view.data == nullptr)
    return {};
  return {static_cast<float*>(view.data), view.stride[0], view.stride[1], view.stride[2]};
}

Indices bind_indices(const TensorView& view) {
  return {view.data, view.dtype == DType::kInt64};
}

State bind_state(const TensorView& view, bool unit_qk, bool v_first, int64_t values, int64_t keys,
                 int vec) {
  State state;
  if (view.data == nullptr)
    return state;
  state.data = static_cast<float*>(view.data);
  state.row = view.stride[0];
  if (unit_qk) {
    state.head = values;
    state.value = 1;
  } else {
    state.head = view.stride[1];
    state.key = view.stride[v_first ? 3 : 2];
    state.value = view.stride[v_first ? 2 : 3];
  }
  // Inside a matrix the kernels count in 32 bits.
  constexpr int64_t kWidest = int64_t{1} << 22;
  if (state.key >= kWidest || state.value >= kWidest)
    return state;
  if (state.value == 1 && values % vec == 0 && state.key % vec == 0 && divides(vec, state)) {
    state.access = StateAccess::kColumns;
  } else if (state.key == 1 && keys % 4 == 0 && state.value % 4 == 0 && divides(4, state)) {
    state.access = StateAccess::kKeys;
  }
  return state;
}

Sequences bind_sequences(const OpDesc& desc, const TensorSet& t) {
  Sequences s;
  s.cu_seqlens = bind_indices(t[Slot::kCuSeqlens]);
  s.state_indices = bind_indices(t[Slot::kStateIndices]);
  const TensorView& mask = t[Slot::kInitialStateMask];
  s.state_mask = static_cast<const uint8_t*>(mask.data);
  s.state_mask_stride = mask.stride[0];
  s.T = static_cast<int32_t>(desc.T);
  s.state_rows = desc.num_state_slots;
  s.packed = desc.N > 0;
  return s;
}

}  // namespace fla::cuda

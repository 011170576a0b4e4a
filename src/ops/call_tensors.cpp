// SPDX-License-Identifier: MIT
// CallTensors: the memory and the views of one whole call.
#include "ops/call_tensors.h"

#include <cstring>
#include <utility>

#include <fmt/format.h>

#include "ops/inputs.h"

namespace fla::ops {

TensorView CallTensors::allocate(DType dtype, const std::vector<int64_t>& shape) {
  constexpr size_t kAlignment = 64;
  TensorView view;
  view.dtype = dtype;
  view.rank = static_cast<int32_t>(shape.size());
  int64_t elements = 1;
  for (size_t d = shape.size(); d-- > 0;) {
    view.shape[d] = shape[d];
    view.stride[d] = elements;
    elements *= shape[d];
  }
  const size_t used = static_cast<size_t>(elements) * dtype_bytes(dtype);
  const size_t bytes = (used / kAlignment + 1) * kAlignment;  // never 0, so that data is not null
  view.data = std::aligned_alloc(kAlignment, bytes);
  if (view.data == nullptr)
    return view;
  std::memset(view.data, 0, bytes);
  buffers_.emplace_back(view.data);
  bytes_ += bytes;
  return view;
}

namespace {

template <class Int>
void fill_integers(const TensorView& view, int64_t (*value)(int64_t, const OpDesc&),
                   const OpDesc& desc) {
  for (int64_t i = 0; i < view.num_elements(); ++i) {
    static_cast<Int*>(view.data)[i] = static_cast<Int>(value(i, desc));
  }
}

void fill_indices(Slot slot, const OpDesc& desc, const TensorView& view) {
  switch (slot) {
    case Slot::kCuSeqlens:
      fill_integers<int32_t>(
          view, [](int64_t i, const OpDesc& d) { return i * d.T / d.num_sequences(); }, desc);
      break;
    case Slot::kStateIndices:
      fill_integers<int32_t>(
          view, [](int64_t i, const OpDesc& d) { return i < d.num_state_slots ? i : -1; }, desc);
      break;
    case Slot::kInitialStateMask:
      std::memset(view.data, 1, static_cast<size_t>(view.num_elements()));
      break;
    default:
      break;
  }
}

void poison(const TensorView& view) {
  // All bits set is a NaN in every floating-point dtype.
  std::memset(view.data, 0xff, static_cast<size_t>(view.num_elements()) * dtype_bytes(view.dtype));
}

class CallBuilder {
 public:
  CallBuilder(const OpRow& row, const OpDesc& desc, uint64_t seed, bool twin)
      : row_(row), desc_(desc), seed_(seed), twin_(twin) {}

  Result<CallTensors> build() {
    for (const SlotSpec& spec : row_.slots) {
      if (!slot_given(spec, desc_))
        continue;
      const bool is_backward = desc_.pass == Pass::kBackward;
      const bool wants_value = !is_backward || !is_output(spec.slot);
      const bool wants_grad = is_backward && (is_output(spec.slot) || spec.grad);
      if (wants_value && !add_value(spec))
        return out_of_memory(spec);
      if (wants_grad && !add_grad(spec))
        return out_of_memory(spec);
    }
    return std::move(call_);
  }

 private:
  bool add_value(const SlotSpec& spec) {
    TensorView& view = call_.tensors[spec.slot];
    view = call_.allocate(default_dtype(spec, desc_), slot_shape(spec, desc_));
    if (view.data == nullptr)
      return false;
    if (is_output(spec.slot)) {
      poison(view);
    } else if (spec.dtypes == Dtypes::kIndex || spec.dtypes == Dtypes::kMask) {
      fill_indices(spec.slot, desc_, view);
    } else {
      fill_input(spec, input_dist(spec, desc_, twin_), seed_, view, call_.tensors);
    }
    return true;
  }

  bool add_grad(const SlotSpec& spec) {
    TensorView& view = call_.tensors.grad(spec.slot);
    view = call_.allocate(default_dtype(spec, desc_), slot_shape(spec, desc_));
    if (view.data == nullptr)
      return false;
    if (is_output(spec.slot)) {
      fill_output_grad(spec, seed_, view);
    } else {
      poison(view);
    }
    return true;
  }

  Status out_of_memory(const SlotSpec& spec) const {
    return {Code::kUnsupported,
            fmt::format("{}: no memory for {} {}, after {} bytes", call_name(row_, desc_),
                        spec.name, slot_dims_text(spec, desc_), call_.bytes())};
  }

  const OpRow& row_;
  const OpDesc& desc_;
  uint64_t seed_;
  bool twin_;
  CallTensors call_;
};

}  // namespace

Result<CallTensors> make_call(const OpRow& row, const OpDesc& desc, uint64_t seed, bool twin) {
  return CallBuilder(row, desc, seed, twin).build();
}

}  // namespace fla::ops

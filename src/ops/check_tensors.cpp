// SPDX-License-Identifier: MIT
// Checks of the tensors of a call. The success path allocates nothing.
#include <array>
#include <cstddef>
#include <cstdint>
#include <span>
#include <string>
#include <string_view>
#include <vector>

#include <fmt/format.h>

#include "ops/messages.h"
#include "ops/overlap.h"
#include "ops/registry.h"

namespace fla::ops {
namespace {

/// A slot's value or its gradient.
struct Arg {
  const SlotSpec* spec;
  const TensorView* view;
  bool is_grad;
  bool is_written;
};

std::string arg_name(const Arg& arg) {
  return arg.is_grad ? grad_name(*arg.spec) : std::string(arg.spec->name);
}

std::string_view dtypes_text(Dtypes dtypes, DType activation) {
  switch (dtypes) {
    case Dtypes::kActivation:
      return dtype_name(activation);
    case Dtypes::kActivationOrFp32:
      switch (activation) {
        case DType::kBf16:
          return "bf16 or fp32";
        case DType::kFp16:
          return "fp16 or fp32";
        case DType::kFp64:
          return "fp64 or fp32";
        default:
          return "fp32";
      }
    case Dtypes::kParam:
      return activation == DType::kFp64 ? "fp64, bf16 or fp32" : "bf16 or fp32";
    case Dtypes::kFp32:
      return activation == DType::kFp64 ? "fp64 or fp32" : "fp32";
    case Dtypes::kIndex:
      return "int32 or int64";
    case Dtypes::kMask:
      return "uint8";
  }
  return "?";
}

bool accepts(Dtypes dtypes, DType activation, DType dtype) {
  switch (dtypes) {
    case Dtypes::kActivation:
      return dtype == activation;
    case Dtypes::kActivationOrFp32:
      return dtype == activation || dtype == DType::kFp32;
    case Dtypes::kParam:
      return dtype == DType::kBf16 || dtype == DType::kFp32 ||
             (activation == DType::kFp64 && dtype == DType::kFp64);
    case Dtypes::kFp32:
      return dtype == DType::kFp32 || (activation == DType::kFp64 && dtype == DType::kFp64);
    case Dtypes::kIndex:
      return dtype == DType::kInt32 || dtype == DType::kInt64;
    case Dtypes::kMask:
      return dtype == DType::kUint8;
  }
  return false;
}

std::string_view device_name(Device device) {
  return device.type == DeviceType::kCpu ? "cpu" : "cuda";
}

int64_t index_at(const TensorView& view, int64_t i) {
  return view.dtype == DType::kInt32 ? static_cast<const int32_t*>(view.data)[i]
                                     : static_cast<const int64_t*>(view.data)[i];
}

class TensorChecker {
 public:
  TensorChecker(const OpRow& row, const OpDesc& desc, const TensorSet& tensors, Device device)
      : row_(row), desc_(desc), tensors_(tensors), device_(device) {}

  Status check() {
    for (size_t i = 0; i < kNumSlots; ++i) {
      Status status = check_slot(static_cast<Slot>(i));
      if (!status.ok())
        return status;
    }
    Status status = check_overlaps();
    if (!status.ok() || device_.type != DeviceType::kCpu)
      return status;
    if (desc_.N > 0)
      status = check_cu_seqlens(tensors_[Slot::kCuSeqlens]);
    if (status.ok() && desc_.num_state_slots > 0) {
      status = check_state_indices(tensors_[Slot::kStateIndices]);
    }
    return status;
  }

 private:
  Status refuse(const Arg& arg, std::string_view verb, std::string_view got,
                std::string_view expected) const {
    return mismatch(row_, desc_, fmt::format("{} {}", arg_name(arg), verb), got, expected);
  }

  Status check_slot(Slot slot) {
    const bool forward = desc_.pass == Pass::kForward;
    const bool output = is_output(slot);
    const SlotSpec* spec = row_.find(slot);
    if (spec == nullptr) {
      const bool passed = (tensors_[slot].data != nullptr && (forward || !output)) ||
                          (tensors_.grad(slot).data != nullptr && !forward);
      if (!passed)
        return {};
      return mismatch(row_, desc_, generic_name(slot), "is passed",
                      fmt::format("slots of {} alone", row_.name));
    }
    if (forward || !output) {
      const bool given = slot_given(*spec, desc_);
      Status status = check_arg({spec, &tensors_[slot], false, output}, given, given);
      if (!status.ok())
        return status;
    }
    if (forward)
      return {};
    const bool allowed = slot_given(*spec, desc_) && (output || spec->grad);
    return check_arg({spec, &tensors_.grad(slot), true, !output}, allowed, slot == Slot::kO);
  }

  Status check_arg(const Arg& arg, bool allowed, bool required) {
    if (!allowed) {
      if (arg.view->data == nullptr)
        return {};
      return mismatch(row_, desc_, arg_name(arg), "is passed", not_allowed_reason(arg));
    }
    std::array<int64_t, kMaxRank> expected{};
    const size_t rank = slot_extents(*arg.spec, desc_, &expected);
    int64_t elements = 1;
    for (size_t d = 0; d < rank; ++d)
      elements *= expected[d];
    if (arg.view->data == nullptr && (!required || elements == 0))
      return {};
    Status status = check_view(arg, {expected.data(), rank});
    if (status.ok() && elements > 0)
      args_[num_args_++] = arg;
    return status;
  }

  std::string not_allowed_reason(const Arg& arg) const {
    if (arg.is_grad && !arg.spec->grad && !is_output(arg.spec->slot)) {
      return fmt::format("none: {} has no gradient", arg.spec->name);
    }
    return fmt::format("null: the descriptor does not give {}", arg.spec->name);
  }

  Status check_view(const Arg& arg, std::span<const int64_t> expected) const {
    const TensorView& view = *arg.view;
    if (view.data == nullptr) {
      return refuse(arg, "is", "null", fmt::format("a tensor {}", expected_text(arg, expected)));
    }
    if (view.device.type != device_.type || view.device.index != device_.index) {
      return refuse(arg, "is on device",
                    fmt::format("{}:{}", device_name(view.device), view.device.index),
                    fmt::format("{}:{}", device_name(device_), device_.index));
    }
    Status status = check_dtype(arg);
    if (!status.ok())
      return status;
    if (view.rank != static_cast<int32_t>(expected.size())) {
      return refuse(arg, "has rank", std::to_string(view.rank),
                    fmt::format("{}: {}", expected.size(), expected_text(arg, expected)));
    }
    const std::span<const int64_t> shape(view.shape.data(), expected.size());
    for (size_t d = 0; d < shape.size(); ++d) {
      if (shape[d] != expected[d]) {
        return refuse(arg, "has shape", shape_text(shape), expected_text(arg, expected));
      }
    }
    return check_layout(arg);
  }

  std::string expected_text(const Arg& arg, std::span<const int64_t> expected) const {
    return fmt::format("{} = {}", slot_dims_text(*arg.spec, desc_), shape_text(expected));
  }

  Status check_dtype(const Arg& arg) const {
    const DType got = arg.view->dtype;
    // A gradient of an input that is passed (not an empty null) has the input's own dtype.
    const TensorView& input = tensors_[arg.spec->slot];
    if (arg.is_grad && arg.is_written && input.data != nullptr) {
      if (got == input.dtype)
        return {};
      return refuse(arg, "has dtype", dtype_name(got),
                    fmt::format("{}, as {}", dtype_name(input.dtype), arg.spec->name));
    }
    if (accepts(arg.spec->dtypes, desc_.dtype, got))
      return {};
    return refuse(arg, "has dtype", dtype_name(got), dtypes_text(arg.spec->dtypes, desc_.dtype));
  }

  Status check_layout(const Arg& arg) const {
    const TensorView& view = *arg.view;
    const auto rank = static_cast<size_t>(view.rank);
    const int64_t last_extent = view.shape[rank - 1];
    if (view.num_elements() == 0)
      return {};
    if (last_extent > 1 && view.stride[rank - 1] != 1) {
      return refuse(arg, "has last stride", std::to_string(view.stride[rank - 1]), "1");
    }
    const int64_t lowest = arg.is_written ? 1 : 0;
    for (size_t d = 0; d < rank; ++d) {
      if (view.shape[d] > 1 && view.stride[d] < lowest) {
        return refuse(arg, fmt::format("has stride (axis {})", d), std::to_string(view.stride[d]),
                      fmt::format("at least {}", lowest));
      }
    }
    if (arg.is_written && !is_injective(view)) {
      return refuse(arg, "has strides", shape_text({view.stride.data(), rank}),
                    "strides that nest, so that no two elements share memory");
    }
    const size_t misaligned = reinterpret_cast<uintptr_t>(view.data) % dtype_bytes(view.dtype);
    if (misaligned != 0) {
      return refuse(arg, "has an address off by", fmt::format("{} bytes", misaligned),
                    fmt::format("a multiple of {}", dtype_bytes(view.dtype)));
    }
    return {};
  }

  /// Whether `out` may be the very same memory as `in`: the state updated in place.
  bool is_in_place_state(const Arg& out, const Arg& in) const {
    if (desc_.pass != Pass::kForward)
      return false;
    const Slot to = out.spec->slot;
    const Slot from = in.spec->slot;
    const bool paired = (to == Slot::kFinalState && from == Slot::kInitialState) ||
                        (to == Slot::kFinalState2 && from == Slot::kInitialState2);
    return paired && out.view->data == in.view->data && out.view->dtype == in.view->dtype &&
           same_strides(*out.view, *in.view);
  }

  static bool same_strides(const TensorView& a, const TensorView& b) {
    for (size_t d = 0; d < static_cast<size_t>(a.rank); ++d) {
      if (a.shape[d] > 1 && a.stride[d] != b.stride[d])
        return false;
    }
    return true;
  }

  Status check_overlaps() const {
    for (size_t i = 0; i < num_args_; ++i) {
      const Arg& out = args_[i];
      if (!out.is_written)
        continue;
      for (size_t j = 0; j < num_args_; ++j) {
        const Arg& other = args_[j];
        if (j == i || (other.is_written && j > i))
          continue;
        if (is_in_place_state(out, other) || !may_overlap(*out.view, *other.view))
          continue;
        return mismatch(row_, desc_, fmt::format("{} overlaps", arg_name(out)), arg_name(other),
                        "separate memory");
      }
    }
    return {};
  }

  Status refuse_index(std::string_view name, int64_t i, int64_t got,
                      std::string_view expected) const {
    return mismatch(row_, desc_, fmt::format("{}[{}] is", name, i), std::to_string(got), expected);
  }

  Status check_cu_seqlens(const TensorView& view) const {
    const std::string_view name = "cu_seqlens";
    int64_t previous = index_at(view, 0);
    if (previous != 0)
      return refuse_index(name, 0, previous, "0");
    for (int64_t i = 1; i <= desc_.N; ++i) {
      const int64_t value = index_at(view, i);
      if (value < previous) {
        return refuse_index(
            name, i, value,
            fmt::format("at least cu_seqlens[{}] = {} (never decreasing)", i - 1, previous));
      }
      previous = value;
    }
    if (previous == desc_.T)
      return {};
    return refuse_index(name, desc_.N, previous, fmt::format("T = {}", desc_.T));
  }

  Status check_state_indices(const TensorView& view) const {
    const int64_t count = desc_.num_sequences();
    const int64_t slots = desc_.num_state_slots;
    for (int64_t i = 0; i < count; ++i) {
      const int64_t slot = index_at(view, i);
      if (slot < -1 || slot >= slots) {
        return refuse_index("state_indices", i, slot,
                            fmt::format("-1 (skip) or 0 to {}", slots - 1));
      }
    }
    const int64_t repeat = first_repeat(view, count);
    if (repeat < 0)
      return {};
    return refuse_index("state_indices", repeat, index_at(view, repeat), "a slot used once");
  }

  /// The first position whose slot an earlier one holds, or -1.
  int64_t first_repeat(const TensorView& view, int64_t count) const {
    constexpr int64_t kPairwise = 64;
    if (count <= kPairwise) {
      for (int64_t i = 1; i < count; ++i) {
        for (int64_t j = 0; j < i; ++j) {
          if (index_at(view, i) >= 0 && index_at(view, i) == index_at(view, j))
            return i;
        }
      }
      return -1;
    }
    thread_local std::vector<bool>
        seen;  // all false between calls; grows, so that later calls allocate nothing
    if (seen.size() < static_cast<size_t>(desc_.num_state_slots)) {
      seen.resize(static_cast<size_t>(desc_.num_state_slots));
    }
    int64_t i = 0;
    for (; i < count; ++i) {
      const int64_t slot = index_at(view, i);
      if (slot < 0)
        continue;
      if (seen[static_cast<size_t>(slot)])
        break;
      seen[static_cast<size_t>(slot)] = true;
    }
    for (int64_t j = 0; j < i; ++j) {
      if (index_at(view, j) >= 0)
        seen[static_cast<size_t>(index_at(view, j))] = false;
    }
    return i < count ? i : -1;
  }

  const OpRow& row_;
  const OpDesc& desc_;
  const TensorSet& tensors_;
  Device device_;
  std::array<Arg, 2 * kNumSlots> args_{};
  size_t num_args_ = 0;
};

}  // namespace

Status check_tensors(const OpRow& row, const OpDesc& desc, const TensorSet& tensors,
                     Device device) {
  return TensorChecker(row, desc, tensors, device).check();
}

}  // namespace fla::ops

// SPDX-License-Identifier: MIT
// Checks of a descriptor: dimensions, switches, given slots.
#include <cmath>
#include <cstdint>
#include <string>
#include <string_view>
#include <vector>

#include <fmt/format.h>
#include <fmt/ranges.h>

#include "ops/messages.h"
#include "ops/registry.h"

namespace fla::ops {
namespace {

constexpr int64_t kMaxHeadDim = 512;
constexpr int64_t kMaxInnerSteps = 64;
constexpr int64_t kMaxExtent = int64_t{1} << 40;  // of B, T, H, HV, N and the state pool
constexpr double kMaxElements = 0x1p50;           // of one tensor

bool has(const OpRow& row, Flag flag) {
  return (row.flags & static_cast<uint32_t>(flag)) != 0;
}

class DescChecker {
 public:
  DescChecker(const OpRow& row, const OpDesc& desc) : row_(row), desc_(desc) {}

  Status check() const {
    for (auto step :
         {&DescChecker::check_enums, &DescChecker::check_counts, &DescChecker::check_head_dims,
          &DescChecker::check_sizes, &DescChecker::check_op_dims, &DescChecker::check_flags,
          &DescChecker::check_gate, &DescChecker::check_given, &DescChecker::check_states}) {
      Status status = (this->*step)();
      if (!status.ok())
        return status;
    }
    return row_.check == nullptr ? Status() : row_.check(desc_);
  }

 private:
  template <class T>
  Status refuse(std::string_view name, const T& got, std::string_view expected) const {
    return mismatch(row_, desc_, fmt::format("{} is", name), fmt::format("{}", got), expected);
  }

  Status check_enums() const {
    const auto is_one_of = [](auto value, int32_t count) {
      return static_cast<int32_t>(value) >= 0 && static_cast<int32_t>(value) < count;
    };
    if (!is_one_of(desc_.pass, 2)) {
      return refuse("pass", static_cast<int32_t>(desc_.pass), "0 (forward) or 1 (backward)");
    }
    if (!is_one_of(desc_.form, 2)) {
      return refuse("form", static_cast<int32_t>(desc_.form), "0 (chunk) or 1 (recurrent)");
    }
    if (!is_one_of(desc_.gate_input, 3)) {
      return refuse("gate_input", static_cast<int32_t>(desc_.gate_input),
                    "0 (log), 1 (softplus) or 2 (lower_bound)");
    }
    if (!is_one_of(desc_.dtype, 4)) {
      return refuse("dtype", dtype_name(desc_.dtype), "bf16, fp16, fp32 or fp64");
    }
    return {};
  }

  Status check_range(std::string_view name, int64_t value, int64_t low, int64_t high) const {
    if (value >= low && value <= high)
      return {};
    return refuse(name, value, fmt::format("{} to {}", low, high));
  }

  Status check_counts() const {
    const struct {
      std::string_view name;
      int64_t value, low;
    } counts[] = {{"B", desc_.B, 1}, {"T", desc_.T, 0},
                  {"H", desc_.H, 1}, {"HV", desc_.HV, 0},
                  {"N", desc_.N, 0}, {"num_state_slots", desc_.num_state_slots, 0}};
    for (const auto& count : counts) {
      Status status = check_range(count.name, count.value, count.low, kMaxExtent);
      if (!status.ok())
        return status;
    }
    if (desc_.value_heads() % desc_.H != 0) {
      return refuse("HV", desc_.HV, fmt::format("a multiple of H = {}", desc_.H));
    }
    if (!has(row_, Flag::kGva) && desc_.value_heads() != desc_.H) {
      return refuse("HV", desc_.HV,
                    fmt::format("H = {} ({} has no grouped heads)", desc_.H, row_.name));
    }
    if (desc_.N > 0 && desc_.B != 1)
      return refuse("B", desc_.B, "1 with packed sequences (N > 0)");
    return {};
  }

  bool uses(Dim dim) const {
    for (const SlotSpec& spec : row_.slots) {
      for (Dim used : spec.dims) {
        if (used == dim)
          return true;
      }
    }
    return false;
  }

  Status check_head_dims() const {
    const int64_t max_k = uses(Dim::kK) ? kMaxHeadDim : 1;
    if (max_k == 1 && desc_.K != 1) {
      return refuse("K", desc_.K, fmt::format("1 ({} has no key dimension)", row_.name));
    }
    Status status = check_range("K", desc_.K, 1, max_k);
    if (status.ok())
      status = check_range("V", desc_.V, 1, kMaxHeadDim);
    if (status.ok() && uses(Dim::kM))
      status = check_range("M", desc_.M, 1, kMaxHeadDim);
    if (!status.ok())
      return status;
    if (!uses(Dim::kM) && desc_.M != 0) {
      return refuse("M", desc_.M, fmt::format("0 ({} has no memory slots)", row_.name));
    }
    return {};
  }

  Status check_sizes() const {
    Status status = check_range("num_householder", desc_.num_householder, 1,
                                uses(Dim::kTInner) ? kMaxInnerSteps : 1);
    if (!status.ok())
      return status;
    for (const SlotSpec& spec : row_.slots) {
      const std::vector<int64_t> shape = slot_shape(spec, desc_);
      double elements = 1;
      for (int64_t extent : shape)
        elements *= static_cast<double>(extent);
      if (elements > kMaxElements) {
        return mismatch(row_, desc_, fmt::format("{} has shape", spec.name), shape_text(shape),
                        "at most 2^50 elements");
      }
    }
    return {};
  }

  Status check_op_dims() const {
    const bool has_layers = row_.name == "lightning_attn";
    Status status = check_range("num_layers", desc_.num_layers, 1, has_layers ? kMaxExtent : 1);
    if (!status.ok())
      return status;
    return check_range("layer_idx", desc_.layer_idx, 0, desc_.num_layers - 1);
  }

  Status check_flags() const {
    const struct {
      std::string_view name;
      bool set;
      Flag flag;
    } switches[] = {{"scale", desc_.scale.has_value(), Flag::kScale},
                    {"l2norm_qk", desc_.l2norm_qk, Flag::kL2Norm},
                    {"beta_sigmoid", desc_.beta_sigmoid, Flag::kBetaSigmoid},
                    {"allow_neg_eigval", desc_.allow_neg_eigval, Flag::kBetaSigmoid},
                    {"safe_gate", desc_.safe_gate, Flag::kSafeGate},
                    {"state_v_first", desc_.state_v_first, Flag::kStateVFirst},
                    {"normalize", desc_.normalize, Flag::kNormalize}};
    for (const auto& it : switches) {
      if (it.set && !has(row_, it.flag)) {
        return refuse(it.name, "set", fmt::format("it unset ({} does not take it)", row_.name));
      }
    }
    if (desc_.allow_neg_eigval && !desc_.beta_sigmoid) {
      return refuse("allow_neg_eigval", "set without beta_sigmoid", "both or neither");
    }
    if (desc_.scale && !std::isfinite(*desc_.scale)) {
      return refuse("scale", *desc_.scale, "a finite number");
    }
    return {};
  }

  Status check_gate() const {
    const bool is_softplus = desc_.gate_input == GateInput::kSoftplus;
    const bool is_bounded = desc_.gate_input == GateInput::kLowerBound;
    if ((is_softplus && !has(row_, Flag::kGateSoftplus)) ||
        (is_bounded && !has(row_, Flag::kGateLowerBound))) {
      return refuse("gate_input", is_softplus ? "softplus" : "lower_bound", accepted_gates());
    }
    if (is_bounded && !(desc_.lower_bound >= -5.0F && desc_.lower_bound < 0.0F)) {
      return refuse("lower_bound", desc_.lower_bound, "a number in [-5, 0)");
    }
    if (!is_bounded && desc_.lower_bound != 0.0F) {
      return refuse("lower_bound", desc_.lower_bound, "0 unless gate_input is lower_bound");
    }
    const SlotSpec* gate = row_.find(Slot::kG);
    if ((is_softplus || is_bounded) && !slot_given(*gate, desc_)) {
      return mismatch(row_, desc_, gate->name, "is not given", "it with a gate in the kernel");
    }
    const bool has_kernel_gate = has(row_, Flag::kGateSoftplus);
    for (Slot slot : {Slot::kALog, Slot::kDtBias}) {
      const SlotSpec* spec = row_.find(slot);
      if (has_kernel_gate && desc_.gate_input == GateInput::kLog && desc_.given.has(slot)) {
        return mismatch(row_, desc_, spec->name, "is given",
                        "it only with gate_input softplus or lower_bound");
      }
    }
    return {};
  }

  std::string accepted_gates() const {
    std::vector<std::string_view> names = {"log"};
    if (has(row_, Flag::kGateSoftplus))
      names.push_back("softplus");
    if (has(row_, Flag::kGateLowerBound))
      names.push_back("lower_bound");
    return fmt::format("{}", fmt::join(names, " or "));
  }

  Status check_given() const {
    for (size_t i = 0; i < kNumSlots; ++i) {
      const auto slot = static_cast<Slot>(i);
      if (desc_.given.has(slot) && row_.find(slot) == nullptr) {
        return mismatch(row_, desc_, "given holds", generic_name(slot),
                        fmt::format("slots of {} alone", row_.name));
      }
    }
    if (desc_.given.has(Slot::kCuSeqlens) && desc_.N == 0) {
      return mismatch(row_, desc_, "cu_seqlens", "is given with N = 0",
                      "N, the number of sequences");
    }
    if (desc_.given.has(Slot::kStateIndices) && desc_.num_state_slots == 0) {
      return mismatch(row_, desc_, "state_indices", "is given with num_state_slots = 0",
                      "num_state_slots, the rows of the state pool");
    }
    return {};
  }

  Status check_states() const {
    const bool has_initial =
        desc_.given.has(Slot::kInitialState) || desc_.given.has(Slot::kInitialState2);
    const bool has_final =
        desc_.given.has(Slot::kFinalState) || desc_.given.has(Slot::kFinalState2);
    if (desc_.given.has(Slot::kInitialStateMask) && !has_initial) {
      return mismatch(row_, desc_, "initial_state_mask", "is given without initial_state", "both");
    }
    if (desc_.num_state_slots == 0)
      return {};
    if (desc_.pass == Pass::kBackward) {
      return refuse("num_state_slots", desc_.num_state_slots, "0 in backward");
    }
    if (!has_initial && !has_final) {
      return mismatch(row_, desc_, "num_state_slots is", std::to_string(desc_.num_state_slots),
                      "initial_state or final_state with it");
    }
    return {};
  }

  const OpRow& row_;
  const OpDesc& desc_;
};

}  // namespace

Status check_desc(const OpRow& row, const OpDesc& desc) {
  return DescChecker(row, desc).check();
}

}  // namespace fla::ops

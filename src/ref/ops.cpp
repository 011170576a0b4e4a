// SPDX-License-Identifier: MIT
// The table of the reference's operators.
#include "ref/ops.h"

#include <array>
#include <cmath>

namespace fla::ref {

std::span<const Operator* const> operators() {
  static constexpr std::array kAll = {
      &kLinearAttn,    &kRetention,     &kLightningAttn, &kSimpleGla,
      &kSsd,           &kGla,           &kRwkv6,         &kHgrn,
      &kHgrn2,         &kGsa,           &kDeltaRule,     &kGdn,
      &kKda,           &kGdn2,          &kComba,         &kGatedDeltaProduct,
      &kDplrDeltaRule, &kIplrDeltaRule, &kRwkv7,         &kPrecondGdn,
      &kPrecondKda};
  return kAll;
}

const Operator* find_operator(std::string_view name) {
  for (const Operator* op : operators()) {
    if (op->name == name) {
      return op;
    }
  }
  return nullptr;
}

double scale_of(const Operator& op, const OpDesc& desc) {
  if (desc.scale.has_value()) {
    return static_cast<double>(*desc.scale);
  }
  return op.unit_scale ? 1.0 : 1.0 / std::sqrt(static_cast<double>(desc.K));
}

}  // namespace fla::ref

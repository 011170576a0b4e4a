// SPDX-License-Identifier: MIT
// make_inputs: every element a function of seed, slot and index alone, rounded to the slot's dtype.
#include <algorithm>
#include <cmath>

#include "core/canonical.h"
#include "core/philox.h"
#include "support/case.h"

namespace fla::test {
namespace {

constexpr double kNormFloor = 1e-12;

double sigmoid(double x) {
  return 1.0 / (1.0 + std::exp(-x));
}
double log_sigmoid(double x) {
  return -std::log1p(std::exp(-x));
}

/// Element i of a distribution that needs no other element.
double draw(ops::Dist dist, const Philox& random, uint64_t i) {
  switch (dist) {
    case ops::Dist::kNone:
    case ops::Dist::kRandn:
    case ops::Dist::kUnit:
    case ops::Dist::kMinusASigmoid:  // tie_b_to_a makes b of it
      return random.normal(i);
    case ops::Dist::kTenthRandn:
      return 0.1 * random.normal(i);
    case ops::Dist::kSigmoid:
      return sigmoid(random.normal(i));
    case ops::Dist::kLogSigmoid:
      return log_sigmoid(random.normal(i));
    case ops::Dist::kLogSigmoidClamp5:
      return std::max(log_sigmoid(random.normal(i)), -5.0);
    case ops::Dist::kLogSigmoidOver16:
      return log_sigmoid(random.normal(i)) / 16;
    case ops::Dist::kRwkv7Decay:
      return std::min(-0.6065306597 * sigmoid(random.normal(i)), -1e-6);
    case ops::Dist::kSmallNegative:
      return -0.01 * std::abs(random.normal(i));
    case ops::Dist::kGateLogA:
      return std::log(1.0 + 15.0 * random.uniform(i));
    case ops::Dist::kDtBias: {
      const double dt = std::exp(std::log(0.001) + std::log(100.0) * random.uniform(i));
      return dt + std::log(-std::expm1(-dt));
    }
    case ops::Dist::kOne:
      return 1.0;
    case ops::Dist::kPositive:
      return std::abs(random.normal(i)) + 0.1;
  }
  return 0.0;
}

double gate(Gates gates, ops::Dist dist, const Philox& random, const Philox& choice, uint64_t i) {
  const double plain = draw(dist, random, i);
  const double u = choice.uniform(i);
  switch (gates) {
    case Gates::kPlain:
      return plain;
    case Gates::kSlow:
      return plain / 100;
    case Gates::kMinusFive:
      return -5.0;
    case Gates::kMinusTwenty:
      return -0.01 - 19.99 * u;
    case Gates::kSpikes:
      return u < 0.03 ? -1000.0 : u < 0.06 ? -30.0 : plain;
    case Gates::kHalfZero:
      return u < 0.5 ? 0.0 : plain;
    case Gates::kZero:
      return 0.0;
  }
  return plain;
}

void normalise_rows(HostTensor* tensor) {
  const size_t row = static_cast<size_t>(tensor->shape.back());
  for (size_t begin = 0; row > 0 && begin < tensor->values.size(); begin += row) {
    double square = 0.0;
    for (size_t i = begin; i < begin + row; ++i)
      square += tensor->values[i] * tensor->values[i];
    const double norm = std::max(std::sqrt(square), kNormFloor);
    for (size_t i = begin; i < begin + row; ++i)
      tensor->values[i] /= norm;
  }
}

/// Whether an erase makes the state grow without bound unless keys have norm 1 (math.md 10.4).
bool needs_unit_rows(const Case& test_case, Slot slot) {
  if (slot == Slot::kA)
    return true;
  if (test_case.row().canonical(test_case.desc).update == Update::kAdd)
    return false;
  return !test_case.desc.l2norm_qk && (slot == Slot::kQ || slot == Slot::kK || slot == Slot::kP);
}

bool is_log_gate(const Case& test_case, Slot slot) {
  if (slot == Slot::kGAtk)
    return true;
  return slot == Slot::kG && test_case.desc.gate_input == GateInput::kLog && test_case.op != "ssd";
}

ops::Dist distribution(const Case& test_case, const ops::SlotSpec& spec) {
  const bool raw_gate = spec.slot == Slot::kG && test_case.desc.gate_input != GateInput::kLog;
  const bool logits = spec.slot == Slot::kBeta && test_case.desc.beta_sigmoid;
  if (raw_gate || logits)
    return ops::Dist::kRandn;
  return spec.twin_dist == ops::Dist::kNone ? spec.dist : spec.twin_dist;
}

HostTensor draw_tensor(const Case& test_case, const ops::SlotSpec& spec) {
  HostTensor tensor{slot_dtype(test_case, spec), ops::slot_shape(spec, test_case.desc), {}};
  const uint64_t stream = 4 * static_cast<uint64_t>(spec.slot);
  const Philox random(test_case.seed, stream);
  const Philox choice(test_case.seed, stream + 1);
  const ops::Dist dist = distribution(test_case, spec);
  const bool log_gate = is_log_gate(test_case, spec.slot);
  // A normaliser near zero is ill-conditioned, so that its q and k are drawn positive.
  const bool positive =
      test_case.desc.normalize && (spec.slot == Slot::kQ || spec.slot == Slot::kK);
  const uint64_t count = static_cast<uint64_t>(num_elements(tensor.shape));
  tensor.values.reserve(count);
  for (uint64_t i = 0; i < count; ++i) {
    const double x =
        log_gate ? gate(test_case.gates, dist, random, choice, i) : draw(dist, random, i);
    tensor.values.push_back(positive ? std::abs(x) : x);
  }
  if (dist == ops::Dist::kUnit || needs_unit_rows(test_case, spec.slot))
    normalise_rows(&tensor);
  return tensor;
}

HostTensor indices(DType dtype, const std::vector<int64_t>& values) {
  HostTensor tensor{dtype, {static_cast<int64_t>(values.size())}, {}};
  tensor.values.assign(values.begin(), values.end());
  return tensor;
}

HostTensor randn(const Case& test_case, SlotKey key) {
  const ops::SlotSpec& spec = *test_case.row().find(key.slot);
  HostTensor tensor{slot_dtype(test_case, spec), ops::slot_shape(spec, test_case.desc), {}};
  const Philox random(test_case.seed, 4 * static_cast<uint64_t>(key.slot) + 2);
  const uint64_t count = static_cast<uint64_t>(num_elements(tensor.shape));
  for (uint64_t i = 0; i < count; ++i)
    tensor.values.push_back(random.normal(i));
  return tensor;
}

/// b = -a * sigmoid: the erase of a DPLR update that keeps the state bounded.
void tie_b_to_a(TensorMap* inputs) {
  const auto a = inputs->find(value_of(Slot::kA));
  const auto b = inputs->find(value_of(Slot::kB));
  if (a == inputs->end() || b == inputs->end())
    return;
  for (size_t i = 0; i < b->second.values.size(); ++i) {
    b->second.values[i] = -a->second.values[i] * sigmoid(b->second.values[i]);
  }
}

}  // namespace

TensorMap make_inputs(const Case& test_case) {
  TensorMap inputs;
  for (const ops::SlotSpec& spec : test_case.row().slots) {
    const SlotKey key = value_of(spec.slot);
    if (!is_present(test_case, spec))
      continue;
    if (spec.slot == Slot::kCuSeqlens) {
      inputs[key] = indices(test_case.index_dtype, test_case.boundaries);
    } else if (spec.slot == Slot::kStateIndices) {
      inputs[key] = indices(test_case.index_dtype, test_case.pool_rows);
    } else if (spec.slot == Slot::kInitialStateMask) {
      inputs[key] = indices(DType::kUint8, test_case.state_mask);
    } else if (!is_output(spec.slot)) {
      inputs[key] = draw_tensor(test_case, spec);
    } else if (test_case.backward()) {
      inputs[grad_of(spec.slot)] = randn(test_case, grad_of(spec.slot));
    }
  }
  tie_b_to_a(&inputs);
  for (auto& [key, tensor] : inputs) {
    for (double& value : tensor.values)
      value = round_to(tensor.dtype, value);
  }
  return inputs;
}

}  // namespace fla::test

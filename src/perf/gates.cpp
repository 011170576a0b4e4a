// SPDX-License-Identifier: MIT
// The families of log decays that benchmarks feed.
#include "perf/gates.h"

#include "core/half.h"

namespace fla::perf {
namespace {

constexpr float kSlow = 0x1p-7F;
constexpr int64_t kZeroStep = 4;

void scale(const TensorView& view, int64_t i, float factor) {
  switch (view.dtype) {
    case DType::kBf16: {
      uint16_t& bits = static_cast<uint16_t*>(view.data)[i];
      bits = float_to_bf16(bf16_to_float(bits) * factor);
      break;
    }
    case DType::kFp16: {
      uint16_t& bits = static_cast<uint16_t*>(view.data)[i];
      bits = float_to_fp16(fp16_to_float(bits) * factor);
      break;
    }
    case DType::kFp32:
      static_cast<float*>(view.data)[i] *= factor;
      break;
    default:
      break;  // no backend takes other gates
  }
}

}  // namespace

std::string_view gates_name(Gates gates) {
  constexpr std::string_view kNames[] = {"registry", "slow", "zeros"};
  return kNames[static_cast<size_t>(gates)];
}

void set_gates(Gates gates, const TensorView& g) {
  if (gates == Gates::kRegistry) {
    return;
  }
  const int64_t heads = g.shape[2];
  const int64_t channels = g.rank > 3 ? g.shape[3] : 1;
  const int64_t count = g.num_elements();
#pragma omp parallel for schedule(static)
  for (int64_t i = 0; i < count; ++i) {
    if (gates == Gates::kSlow) {
      scale(g, i, kSlow);
    } else if (i / channels % heads % kZeroStep == 0) {
      scale(g, i, 0.0F);
    }
  }
}

}  // namespace fla::perf

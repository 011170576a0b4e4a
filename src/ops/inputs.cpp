// SPDX-License-Identifier: MIT
// Random inputs, filled in parallel a group of rows at a time.
#include "ops/inputs.h"

#include <algorithm>
#include <array>
#include <cmath>
#include <cstddef>
#include <span>
#include <vector>

#include "core/half.h"
#include "core/philox.h"

namespace fla::ops {

Dist input_dist(const SlotSpec& spec, const OpDesc& desc, bool twin) {
  const bool is_raw_gate = spec.slot == Slot::kG && desc.gate_input != GateInput::kLog;
  const bool is_logit = spec.slot == Slot::kBeta && desc.beta_sigmoid;
  if (is_raw_gate || is_logit)
    return Dist::kRandn;
  if (!twin || spec.twin_dist == Dist::kNone)
    return spec.dist;
  const bool is_normalised = spec.twin_dist == Dist::kUnit && desc.l2norm_qk;
  return is_normalised ? spec.dist : spec.twin_dist;
}

namespace {

constexpr int64_t kChunkElements = 4096;

/// Offset of the first element of row `row`, the rows being numbered over all dimensions but the
/// last.
int64_t row_offset(const TensorView& view, int64_t row) {
  int64_t offset = 0;
  for (int d = view.rank - 2; d >= 0; --d) {
    const auto i = static_cast<size_t>(d);
    offset += row % view.shape[i] * view.stride[i];
    row /= view.shape[i];
  }
  return offset;
}

int64_t last_extent(const TensorView& view) {
  return view.rank == 0 ? 1 : view.shape[static_cast<size_t>(view.rank - 1)];
}

void store_row(const TensorView& view, int64_t offset, std::span<const float> values) {
  const size_t size = values.size();
  switch (view.dtype) {
    case DType::kBf16: {
      auto* out = static_cast<uint16_t*>(view.data) + offset;
      for (size_t i = 0; i < size; ++i)
        out[i] = float_to_bf16(values[i]);
      break;
    }
    case DType::kFp16: {
      auto* out = static_cast<uint16_t*>(view.data) + offset;
      for (size_t i = 0; i < size; ++i)
        out[i] = float_to_fp16(values[i]);
      break;
    }
    case DType::kFp32:
      std::copy(values.begin(), values.end(), static_cast<float*>(view.data) + offset);
      break;
    case DType::kFp64:
      std::copy(values.begin(), values.end(), static_cast<double*>(view.data) + offset);
      break;
    default:
      break;  // index tensors are not random
  }
}

float load(const TensorView& view, int64_t offset) {
  switch (view.dtype) {
    case DType::kBf16:
      return bf16_to_float(static_cast<const uint16_t*>(view.data)[offset]);
    case DType::kFp16:
      return fp16_to_float(static_cast<const uint16_t*>(view.data)[offset]);
    case DType::kFp32:
      return static_cast<const float*>(view.data)[offset];
    case DType::kFp64:
      return static_cast<float>(static_cast<const double*>(view.data)[offset]);
    default:
      return 0.0F;
  }
}

/// Four uniforms in (0, 1] from one block.
std::array<float, 4> uniforms(const Philox& random, uint64_t block) {
  const std::array<uint32_t, 4> bits = random.block(block);
  std::array<float, 4> u{};
  for (size_t i = 0; i < 4; ++i)
    u[i] = (static_cast<float>(bits[i] >> 8) + 1.0F) * 0x1p-24F;
  return u;
}

/// Four N(0,1) from one block (Box-Muller).
std::array<float, 4> normals(const Philox& random, uint64_t block) {
  const std::array<float, 4> u = uniforms(random, block);
  std::array<float, 4> x{};
  for (size_t pair = 0; pair < 4; pair += 2) {
    const float radius = std::sqrt(-2.0F * std::log(u[pair]));
    const float angle = 6.2831853F * u[pair + 1];
    x[pair] = radius * std::cos(angle);
    x[pair + 1] = radius * std::sin(angle);
  }
  return x;
}

template <class FourValues>
void generate(int64_t first, std::span<float> out, FourValues&& four_values) {
  const auto begin = static_cast<uint64_t>(first);
  const uint64_t end = begin + out.size();
  for (uint64_t block = begin / 4; block * 4 < end; ++block) {
    const std::array<float, 4> values = four_values(block);
    const uint64_t from = std::max(begin, block * 4);
    const uint64_t to = std::min(end, block * 4 + 4);
    for (uint64_t i = from; i < to; ++i)
      out[i - begin] = values[i - block * 4];
  }
}

float sigmoid(float x) {
  return 1.0F / (1.0F + std::exp(-x));
}
/// log(1 + y) rather than log1p: y is at least 0.003 for every N(0,1) drawn, and it is twice as
/// fast.
float log_sigmoid(float x) {
  return std::min(x, 0.0F) - std::log(1.0F + std::exp(-std::abs(x)));
}

bool is_uniform(Dist dist) {
  return dist == Dist::kGateLogA || dist == Dist::kDtBias;
}

/// A uniform in (0, 1] made into `dist`.
float from_uniform(Dist dist, float u) {
  if (dist == Dist::kGateLogA)
    return std::log(1.0F + 15.0F * u);
  const float low = std::log(0.001F);
  const float dt = std::exp(low + u * (std::log(0.1F) - low));
  return std::log(std::expm1(dt));
}

/// An N(0,1) made into `dist`; kUnit and kMinusASigmoid are finished by the caller.
float from_normal(Dist dist, float x) {
  constexpr float kRwkv7Floor = -0.6065306597F;
  switch (dist) {
    case Dist::kTenthRandn:
      return 0.1F * x;
    case Dist::kSigmoid:
    case Dist::kMinusASigmoid:
      return sigmoid(x);
    case Dist::kLogSigmoid:
      return log_sigmoid(x);
    case Dist::kLogSigmoidClamp5:
      return std::max(log_sigmoid(x), -5.0F);
    case Dist::kLogSigmoidOver16:
      return log_sigmoid(x) / 16.0F;
    case Dist::kRwkv7Decay:
      return std::clamp(kRwkv7Floor * sigmoid(x), kRwkv7Floor, -1e-6F);
    case Dist::kSmallNegative:
      return -0.01F * std::abs(x);
    case Dist::kPositive:
      return std::abs(x) + 0.1F;
    case Dist::kOne:
      return 1.0F;
    default:
      return x;
  }
}

void normalise(std::span<float> row) {
  float sum = 0.0F;
  for (float x : row)
    sum += x * x;
  const float factor = sum > 0.0F ? 1.0F / std::sqrt(sum) : 0.0F;
  for (float& x : row)
    x *= factor;
}

/// Values of the logical elements from `first` on.
void generate_values(const Philox& random, Dist dist, int64_t first, std::span<float> out) {
  if (is_uniform(dist)) {
    generate(first, out, [&](uint64_t block) { return uniforms(random, block); });
    for (float& x : out)
      x = from_uniform(dist, x);
    return;
  }
  generate(first, out, [&](uint64_t block) { return normals(random, block); });
  if (dist == Dist::kRandn || dist == Dist::kUnit)
    return;
  for (float& x : out)
    x = from_normal(dist, x);
}

void fill(const TensorView& view, Dist dist, uint64_t seed, uint64_t stream, const TensorView& a) {
  const int64_t width = last_extent(view);
  if (view.num_elements() == 0)
    return;
  const Philox random(seed, stream);
  const int64_t num_rows = view.num_elements() / width;
  const int64_t chunk_rows = std::max<int64_t>(1, kChunkElements / width);
  const int64_t num_chunks = (num_rows + chunk_rows - 1) / chunk_rows;
#pragma omp parallel
  {
    std::vector<float> values;
#pragma omp for schedule(static)
    for (int64_t chunk = 0; chunk < num_chunks; ++chunk) {
      const int64_t begin = chunk * chunk_rows;
      const int64_t end = std::min(num_rows, begin + chunk_rows);
      values.resize(static_cast<size_t>((end - begin) * width));
      generate_values(random, dist, begin * width, values);
      for (int64_t row = begin; row < end; ++row) {
        const std::span<float> out(values.data() + (row - begin) * width,
                                   static_cast<size_t>(width));
        if (dist == Dist::kUnit)
          normalise(out);
        if (dist == Dist::kMinusASigmoid) {
          const int64_t a_offset = row_offset(a, row);
          for (int64_t i = 0; i < width; ++i)
            out[static_cast<size_t>(i)] *= -load(a, a_offset + i);
        }
        store_row(view, row_offset(view, row), out);
      }
    }
  }
}

}  // namespace

void fill_input(const SlotSpec& spec, Dist dist, uint64_t seed, const TensorView& view,
                const TensorSet& so_far) {
  if (dist == Dist::kNone)
    return;
  fill(view, dist, seed, static_cast<uint64_t>(spec.slot), so_far[Slot::kA]);
}

void fill_output_grad(const SlotSpec& spec, uint64_t seed, const TensorView& view) {
  fill(view, Dist::kRandn, seed, kNumSlots + static_cast<uint64_t>(spec.slot), TensorView());
}

}  // namespace fla::ops

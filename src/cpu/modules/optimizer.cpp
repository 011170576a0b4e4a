// SPDX-License-Identifier: MIT
// AdamW and the norm of a gradient, over flat arrays.
#include <array>
#include <cmath>
#include <string>

#include <omp.h>

#include "cpu/modules.h"
#include "cpu/modules/common.h"

namespace fla::cpu {
namespace {

constexpr int64_t kPieces = 64;  // of an array, at any number of threads

int threads_of(const Context& context) {
  return context.num_threads > 0 ? context.num_threads : omp_get_max_threads();
}

float* floats(const TensorView& view) {
  return static_cast<float*>(view.data);
}

Status require_fp32(std::string_view name, const TensorView& view) {
  if (view.dtype == DType::kFp32)
    return {};
  return {Code::kUnsupported, std::string(name) + " is " + std::string(dtype_name(view.dtype)) +
                                  ", cpu computes modules in fp32"};
}

}  // namespace

Status adamw(const AdamWStep& s, const Context& context) {
  if (Status status = require_fp32("param", s.param); !status.ok())
    return status;
  float* copy = floats(s.param);
  float* p = s.master.data == nullptr ? copy : floats(s.master);
  const float* grad = floats(s.grad);
  float* m = floats(s.m);
  float* v = floats(s.v);
  const float rate = floats(s.schedule)[0];
  const float first = floats(s.schedule)[1], second = floats(s.schedule)[2];
  float factor = 1;
  if (s.norm.data != nullptr)
    factor = std::fmin(1.0F, s.max_norm / floats(s.norm)[0]);
  parallel_for(threads_of(context), kPieces, [&](int64_t piece) {
    for (int64_t i = piece * s.count / kPieces; i < (piece + 1) * s.count / kPieces; ++i) {
      const float g = factor * grad[i];
      m[i] = s.beta1 * m[i] + (1 - s.beta1) * g;
      v[i] = s.beta2 * v[i] + (1 - s.beta2) * g * g;
      const float step = rate / first * m[i] / (std::sqrt(v[i] / second) + s.eps);
      p[i] = p[i] - rate * s.weight_decay * p[i] - step;
      copy[i] = p[i];
    }
  });
  return {};
}

Status grad_norm(const TensorView& grad, const TensorView& norm, const Context& context) {
  if (Status status = require_fp32("grad", grad); !status.ok())
    return status;
  const int64_t count = grad.num_elements();
  const float* g = floats(grad);
  std::array<double, kPieces> squares{};
  parallel_for(threads_of(context), kPieces, [&](int64_t piece) {
    double sum = 0;
    for (int64_t i = piece * count / kPieces; i < (piece + 1) * count / kPieces; ++i)
      sum += static_cast<double>(g[i]) * static_cast<double>(g[i]);
    squares[static_cast<size_t>(piece)] = sum;
  });
  double sum = 0;
  for (const double square : squares)
    sum += square;
  floats(norm)[0] = static_cast<float>(std::sqrt(sum));
  return {};
}

}  // namespace fla::cpu

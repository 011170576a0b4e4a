// SPDX-License-Identifier: MIT
// One training step of the gated delta rule through the C++ API: forward, loss, backward, and a
// step down the gradient of v that must lower the loss as the gradient predicts. Usage:
// gdn_training_step [ref|cpu]
#include <cmath>
#include <cstdint>
#include <cstdio>
#include <random>
#include <string_view>
#include <vector>

#include "fla/ops/gdn.h"

namespace {

constexpr int64_t kT = 70;
constexpr int64_t kHeads = 2;
constexpr int64_t kDim = 16;

struct Tensor {
  std::vector<float> values;
  fla::TensorView view;
};

Tensor make(std::initializer_list<int64_t> shape, float low = 0.0F, float high = 0.0F) {
  static std::mt19937 random(1);
  Tensor tensor;
  tensor.view = fla::contiguous_view(nullptr, fla::DType::kFp32, shape);
  tensor.values.resize(static_cast<size_t>(tensor.view.num_elements()));
  std::uniform_real_distribution<float> uniform(low, std::nextafter(high, high + 1.0F));
  for (float& value : tensor.values)
    value = uniform(random);
  tensor.view.data = tensor.values.data();
  return tensor;
}

/// Scratch memory of a plan: 256-byte aligned.
struct Scratch {
  explicit Scratch(size_t bytes) : memory(bytes + 256) {
    const size_t ahead = 256 - reinterpret_cast<uintptr_t>(memory.data()) % 256;
    workspace = {memory.data() + ahead, bytes};
  }
  std::vector<char> memory;
  fla::Workspace workspace;
};

int fail(const fla::Status& status) {
  std::fprintf(stderr, "%.*s\n", static_cast<int>(status.message().size()),
               status.message().data());
  return 1;
}

}  // namespace

int main(int argc, char** argv) {
  fla::Context context;
  if (argc > 1 && std::string_view(argv[1]) == "ref")
    context.backend = fla::Backend::kRef;

  const fla::GdnDesc desc = {
      .T = kT, .H = kHeads, .K = kDim, .V = kDim, .dtype = fla::DType::kFp32, .l2norm_qk = true};
  fla::Result<fla::GdnFwdPlan> forward = fla::plan_chunk_gdn_fwd(desc, context);
  if (!forward.ok())
    return fail(forward.status());
  fla::Result<fla::GdnBwdPlan> backward = fla::plan_chunk_gdn_bwd(desc, context);
  if (!backward.ok())
    return fail(backward.status());

  Tensor q = make({1, kT, kHeads, kDim}, -1.0F, 1.0F);
  Tensor k = make({1, kT, kHeads, kDim}, -1.0F, 1.0F);
  Tensor v = make({1, kT, kHeads, kDim}, -1.0F, 1.0F);
  Tensor g = make({1, kT, kHeads}, -1.0F, 0.0F);
  Tensor beta = make({1, kT, kHeads}, 0.0F, 1.0F);
  Tensor o = make({1, kT, kHeads, kDim});
  Tensor dv = make({1, kT, kHeads, kDim});

  Scratch forward_scratch(forward.value().workspace_bytes());
  const auto loss = [&](fla::Status* status) {
    const fla::GdnFwdTensors tensors = {
        .q = q.view, .k = k.view, .v = v.view, .g = g.view, .beta = beta.view, .o = o.view};
    *status = forward.value().run(tensors, forward_scratch.workspace, fla::Stream(nullptr));
    double sum = 0;
    for (float value : o.values)
      sum += 0.5 * value * value;
    return sum;
  };
  fla::Status status;
  const double before = loss(&status);
  if (!status.ok())
    return fail(status);

  // The loss is half the sum of o^2, so its gradient at o is o itself.
  Scratch backward_scratch(backward.value().workspace_bytes());
  const fla::GdnBwdTensors tensors = {.q = q.view,
                                      .k = k.view,
                                      .v = v.view,
                                      .g = g.view,
                                      .beta = beta.view,
                                      .d_o = o.view,
                                      .dv = dv.view};
  status = backward.value().run(tensors, backward_scratch.workspace, fla::Stream(nullptr));
  if (!status.ok())
    return fail(status);

  constexpr double kRate = 0.1;
  double predicted = 0;
  for (size_t i = 0; i < v.values.size(); ++i) {
    predicted += kRate * dv.values[i] * dv.values[i];
    v.values[i] -= static_cast<float>(kRate) * dv.values[i];
  }
  const double after = loss(&status);
  if (!status.ok())
    return fail(status);
  std::printf("loss %.6f -> %.6f, predicted drop %.6f, measured %.6f\n", before, after, predicted,
              before - after);
  return std::abs(before - after - predicted) < 0.05 * predicted ? 0 : 1;
}

// SPDX-License-Identifier: MIT
// The hand-written reverse of every operator against the complex step of its forward.
#include <string>
#include <vector>

#include <gtest/gtest.h>

#include "cases.h"

namespace fla::ref {
namespace {

using enum Slot;

constexpr double kStep = 1e-200;
constexpr double kTolerance = 1e-12;

/// Sum of output times its gradient, imaginary part over the step: the derivative along the
/// perturbed element.
double directional(const Arrays<Complex>& out, const Arrays<double>& dout) {
  double sum = 0;
  for (const Slot slot : {kO, kFinalState, kFinalState2}) {
    for (size_t i = 0; i < out[slot].size(); ++i) {
      sum += out[slot][i].imag() / kStep * dout[slot][i];
    }
  }
  return sum;
}

std::vector<double> complex_step_gradient(const Case& c, const Arrays<double>& in,
                                          const Arrays<double>& dout, Slot slot) {
  const Problem problem = make_problem(c);
  Arrays<Complex> base;
  for (size_t i = 0; i < kNumSlots; ++i) {
    const std::vector<double>& x = in[static_cast<Slot>(i)];
    base[static_cast<Slot>(i)].assign(x.begin(), x.end());
  }
  base[kO].resize(slot_elems(c, kO));
  std::vector<double> gradient;
  for (size_t i = 0; i < in[slot].size(); ++i) {
    Arrays<Complex> io = base;
    io[slot][i] += Complex(0, kStep);
    io[kFinalState] = io[kInitialState];
    io[kFinalState2] = io[kInitialState2];
    find_operator(c.op)->forward_complex(problem, io);
    gradient.push_back(directional(io, dout));
  }
  return gradient;
}

class Reverse : public testing::TestWithParam<Case> {};

TEST_P(Reverse, EqualsComplexStep) {
  const Case& c = GetParam();
  const Arrays<double> in = make_inputs(c);
  const Arrays<double> dout = make_output_gradients(c);
  const Arrays<double> grad = run_backward(c, in, dout);
  std::vector<Slot> slots = c.slots;
  slots.insert(slots.end(), {kInitialState, kInitialState2});
  for (const Slot slot : slots) {
    const std::vector<double> expected = complex_step_gradient(c, in, dout, slot);
    ASSERT_EQ(grad[slot].size(), expected.size());
    EXPECT_LE(relative_rms_error(expected, grad[slot]), kTolerance)
        << "slot " << static_cast<int>(slot);
  }
}

INSTANTIATE_TEST_SUITE_P(Ref, Reverse, testing::ValuesIn(all_cases()),
                         [](const auto& info) { return info.param.label; });

}  // namespace
}  // namespace fla::ref

// SPDX-License-Identifier: MIT
// What the GPU tests of every operator share.
#pragma once

#include <utility>

#include "cpu/operators.h"
#include "cuda/gpu_runner.h"
#include "support/compare.h"

namespace fla::test {

/// Runs the case and expects success without damage. Returns the outputs.
inline TensorMap run_gpu_ok(const Case& test_case, const TensorMap& inputs,
                            const GpuOptions& options = {}) {
  RunResult run = run_on_gpu(test_case, inputs, options);
  EXPECT_TRUE(run.status.ok()) << run.status.message();
  EXPECT_EQ(run.damage, "");
  return std::move(run.outputs);
}

/// Runs the case and expects what ref says.
inline void expect_gpu_reference(Case test_case, const TensorMap& inputs,
                                 const GpuOptions& options = {}) {
  test_case.on_gpu = true;
  EXPECT_EQ(compare_outputs(test_case, run_gpu_ok(test_case, inputs, options),
                            reference(test_case, inputs)),
            "");
}

inline void expect_gpu_reference(const Case& test_case, const GpuOptions& options = {}) {
  expect_gpu_reference(test_case, make_inputs(test_case), options);
}

/// The same with final states in the memory of the initial ones.
inline void expect_in_place_reference(const Case& test_case) {
  const TensorMap inputs = make_inputs(test_case);
  const TensorMap outputs = run_gpu_ok(test_case, inputs, {.state_in_place = true});
  const RunResult want =
      run_case(test_case, inputs, {.backend = Backend::kRef, .state_in_place = true});
  ASSERT_TRUE(want.status.ok()) << want.status.message();
  EXPECT_EQ(compare_outputs(test_case, outputs, want.outputs), "");
}

/// The tensors that belong to single tokens or sequences: not gradients of parameters, which are
/// sums over all.
inline TensorMap of_sequences(const Case& test_case, TensorMap tensors) {
  std::erase_if(tensors, [&](const auto& entry) {
    for (ops::Dim dim : {ops::Dim::kT, ops::Dim::kTInner, ops::Dim::kStates}) {
      if (axis_of(test_case.row(), entry.first, dim) >= 0)
        return false;
    }
    return true;
  });
  return tensors;
}

}  // namespace fla::test

// SPDX-License-Identifier: MIT
// What most tests say about a run, as GoogleTest expectations.
#pragma once

#include <string>

#include <gtest/gtest.h>

#include "support/case.h"
#include "support/compare.h"
#include "support/runner.h"

namespace fla::test {

/// Runs the case and expects success without damage. Returns the outputs (none when the run
/// failed).
TensorMap run_ok(const Case& test_case, const TensorMap& inputs, const Runner& runner = {});

/// Runs the case and expects what ref says, within the operator's limits.
void expect_reference(const Case& test_case, const TensorMap& inputs, const Runner& runner = {});
void expect_reference(const Case& test_case, const Runner& runner = {});

/// The outputs are bit by bit `want`'s.
void expect_bits(const Case& test_case, const TensorMap& got, const TensorMap& want);

/// Why the backend does not plan this case; "" when it does (or refuses it as wrong).
std::string unsupported_reason(const Case& test_case, Backend backend = Backend::kCpu);

/// The final states of `outputs` as the initial states of a next call.
TensorMap carried_states(const TensorMap& outputs);
/// `inputs` with the entries of `more` in place of theirs.
TensorMap with(TensorMap inputs, const TensorMap& more);

}  // namespace fla::test

/// Skips the running test when the backend has no kernel for the case.
#define FLA_SKIP_UNLESS_PLANNED(test_case)                                                    \
  if (const std::string reason = ::fla::test::unsupported_reason(test_case); !reason.empty()) \
  GTEST_SKIP() << reason

// SPDX-License-Identifier: MIT
// What the property tests of this folder share: one suite parameterised by operator, and its
// standard case.
#pragma once

#include <string>
#include <vector>

#include <gtest/gtest.h>

#include "support/checks.h"

namespace fla::test {

inline std::vector<std::string> operator_names() {
  std::vector<std::string> names;
  for (const ops::OpRow& row : ops::registry())
    names.emplace_back(row.name);
  return names;
}

/// Both states, grouped heads where there are any, K != V.
inline Case standard_case(const std::string& op, int64_t tokens, DType dtype = DType::kBf16) {
  Case test_case = basic_case(*ops::find_op(op).value().row);
  OpDesc& desc = test_case.desc;
  desc.T = tokens;
  desc.H = 2;
  desc.HV = 4;
  desc.K = 24;
  desc.V = 40;
  desc.M = 0;
  desc.dtype = dtype;
  fit_dimensions(&test_case);
  test_case.give_initial_state();
  test_case.give_final_state();
  return test_case;
}

inline Case as_backward(Case test_case) {
  test_case.desc.pass = Pass::kBackward;
  return test_case;
}

class PerOperator : public testing::TestWithParam<std::string> {
 protected:
  void SetUp() override {
    FLA_SKIP_UNLESS_PLANNED(standard_case(GetParam(), 17));
    FLA_SKIP_UNLESS_PLANNED(as_backward(standard_case(GetParam(), 17)));
  }
};

inline std::string operator_name(const testing::TestParamInfo<std::string>& info) {
  return info.param;
}

}  // namespace fla::test

// SPDX-License-Identifier: MIT
// Every operator of the CPU backend against ref: outputs and gradients over the covering set of
// cases.
#include <gtest/gtest.h>

#include "support/checks.h"
#include "support/coverage.h"

namespace fla::test {
namespace {

class AgainstRef : public testing::TestWithParam<Case> {
 protected:
  void SetUp() override { FLA_SKIP_UNLESS_PLANNED(GetParam()); }
};

class Forward : public AgainstRef {};
class Backward : public AgainstRef {};

TEST_P(Forward, BothFormsMatchReference) {
  Case test_case = GetParam();
  const TensorMap inputs = make_inputs(test_case);
  for (Form form : {Form::kChunk, Form::kRecurrent}) {
    test_case.desc.form = form;
    expect_reference(test_case, inputs, {.layout = layout_for(test_case)});
  }
}

TEST_P(Backward, GradientsMatchReference) {
  expect_reference(GetParam(), {.layout = layout_for(GetParam())});
}

std::string name_of(const testing::TestParamInfo<Case>& info) {
  return case_name(info.param);
}

INSTANTIATE_TEST_SUITE_P(Shapes, Forward, testing::ValuesIn(shape_cases()), name_of);
INSTANTIATE_TEST_SUITE_P(Flags, Forward, testing::ValuesIn(flag_cases()), name_of);
INSTANTIATE_TEST_SUITE_P(Shapes, Backward, testing::ValuesIn(backward_of(shape_cases())), name_of);
INSTANTIATE_TEST_SUITE_P(Flags, Backward, testing::ValuesIn(backward_of(flag_cases())), name_of);

}  // namespace
}  // namespace fla::test

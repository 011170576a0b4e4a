// SPDX-License-Identifier: MIT
// The reference modules: gradients against finite differences, closed forms, pieces against the
// whole.
#include <cmath>
#include <string>
#include <vector>

#include <gtest/gtest.h>

#include "core/philox.h"
#include "support/module_case.h"
#include "support/tolerance.h"

namespace fla::test {
namespace {

constexpr double kStep = 1e-5;
constexpr uint64_t kProbes = 12;  // elements of a tensor that are moved one at a time

Context ref_context() {
  Context context;
  context.backend = Backend::kRef;
  return context;
}

ModuleValues forward(const ModuleCase& c, const ModuleValues& values) {
  const ModuleResult result =
      run_module_pass(c, Pass::kForward, values, DType::kFp64, host_module_backend(ref_context()));
  EXPECT_EQ(result.status.message(), "");
  EXPECT_EQ(result.damage, "");
  return result.written;
}

/// The derivative of sum(out d_out), or of the loss, along `direction` of one input. Outputs are
/// subtracted one by one: the difference of two sums would lose their last digits.
double difference(const ModuleCase& c, ModuleValues values, ModuleKey key,
                  const std::vector<double>& direction) {
  const std::vector<double> at = values[key].values;
  ModuleValues sides[2];
  for (const int side : {0, 1}) {
    for (size_t i = 0; i < at.size(); ++i)
      values[key].values[i] = at[i] + (side == 0 ? -kStep : kStep) * direction[i];
    sides[side] = forward(c, values);
  }
  double sum = 0;
  for (const auto& [out, tensor] : sides[1]) {
    const auto weight = values.find({Part::kDOut, out.slot});
    const bool loss = c.desc.module == Module::kLinearCrossEntropy;
    if (out.part != Part::kOut || (weight == values.end() && !loss))
      continue;
    for (size_t i = 0; i < tensor.values.size(); ++i)
      sum +=
          (tensor.values[i] - sides[0].at(out).values[i]) * (loss ? 1.0 : weight->second.values[i]);
  }
  return sum / (2 * kStep);
}

void expect_near(double got, double want, const std::string& what) {
  EXPECT_NEAR(got, want, kModuleDifference * (1 + std::abs(want))) << what;
}

/// Single elements, and one direction in which every element moves.
void check_gradient(const ModuleCase& c, const ModuleValues& values, ModuleKey input,
                    const HostTensor& gradient) {
  const std::string name = "d_" + module_key_name(c, input);
  const uint64_t count = gradient.values.size();
  const Philox random(c.seed, 1000 + input.slot);
  for (uint64_t probe = 0; probe < kProbes; ++probe) {
    const size_t i = static_cast<size_t>(random.uniform(probe) * static_cast<double>(count));
    std::vector<double> unit(count);
    unit[i] = 1;
    expect_near(gradient.values[i], difference(c, values, input, unit),
                name + "[" + std::to_string(i) + "]");
  }
  std::vector<double> direction;
  double along = 0;
  for (uint64_t i = 0; i < count; ++i) {
    direction.push_back(random.normal(100 + i) / std::sqrt(static_cast<double>(count)));
    along += direction[i] * gradient.values[i];
  }
  expect_near(along, difference(c, values, input, direction), name);
}

class ModuleGradients : public testing::TestWithParam<ModuleCase> {};

TEST_P(ModuleGradients, EqualFiniteDifferences) {
  const ModuleCase& c = GetParam();
  if (!c.backward || c.row().grads == 0)
    return;
  const ModuleValues values = make_module_values(c, DType::kFp64);
  const ModuleResult result =
      run_module(c, values, DType::kFp64, host_module_backend(ref_context()));
  ASSERT_EQ(result.status.message(), "");
  EXPECT_EQ(result.damage, "");
  int checked = 0;
  for (const auto& [key, tensor] : result.written) {
    if (key.part != Part::kDIn)
      continue;
    HostTensor gradient = tensor;
    const auto before = values.find(key);
    for (size_t i = 0; i < gradient.values.size() && before != values.end(); ++i)
      gradient.values[i] -= before->second.values[i];
    check_gradient(c, values, {Part::kIn, key.slot}, gradient);
    ++checked;
  }
  EXPECT_GT(checked, 0);
}

std::string case_name(const testing::TestParamInfo<ModuleCase>& info) {
  return info.param.name;
}
INSTANTIATE_TEST_SUITE_P(All, ModuleGradients, testing::ValuesIn(all_module_cases()), case_name);

ModuleCase make_case(Module module, int64_t rows, int64_t width) {
  ModuleCase c;
  c.desc.module = module;
  c.desc.rows = rows;
  c.desc.width = width;
  return c;
}

HostTensor filled(const HostTensor& like, double value) {
  HostTensor tensor = like;
  tensor.values.assign(like.values.size(), value);
  return tensor;
}

std::vector<double> output(const ModuleCase& c, const ModuleValues& values, size_t slot = 0) {
  return forward(c, values).at({Part::kOut, slot}).values;
}

TEST(ModuleClosedForms, ConvolutionOfAnImpulseIsItsTapsFromTheLast) {
  using S = slot::ShortConv;
  ModuleCase c = make_case(Module::kShortConv, 7, 2);
  c.desc.taps = 3;
  ModuleValues values = make_module_values(c, DType::kFp64);
  HostTensor& x = values[{Part::kIn, S::x}];
  x = filled(x, 0);
  x.values[2 * 2] = 1;  // row 2, channel 0
  values[{Part::kIn, S::weight}].values = {3, 5, 7, 11, 13, 17};
  EXPECT_EQ(output(c, values), (std::vector<double>{0, 0, 0, 0, 7, 0, 5, 0, 3, 0, 0, 0, 0, 0}));
}

TEST(ModuleClosedForms, CrossEntropyOfUniformLogitsIsTheLogarithmOfTheVocabulary) {
  using S = slot::LinearCrossEntropy;
  ModuleCase c = make_case(Module::kLinearCrossEntropy, 9, 4);
  c.desc.out = 50;
  ModuleValues values = make_module_values(c, DType::kFp64);
  values[{Part::kIn, S::weight}] = filled(values[{Part::kIn, S::weight}], 0);
  EXPECT_NEAR(output(c, values)[0], std::log(50.0), 1e-14);
}

TEST(ModuleClosedForms, RotaryLeavesPositionZeroAndTurnsTheFirstPairByOneRadian) {
  ModuleCase c = make_case(Module::kRotary, 2, 4);
  ModuleValues values = make_module_values(c, DType::kFp64);
  values[{Part::kIn, 0}].values = {1, 2, 3, 4, 1, 0, 0, 0};
  const std::vector<double> y = output(c, values);
  EXPECT_EQ(std::vector<double>(y.begin(), y.begin() + 4), (std::vector<double>{1, 2, 3, 4}));
  EXPECT_NEAR(y[4], std::cos(1.0), 1e-15);
  EXPECT_NEAR(y[6], std::sin(1.0), 1e-15);
}

TEST(ModuleClosedForms, AttentionWithoutScoresAveragesWhatItSees) {
  using S = slot::Attention;
  ModuleCase c = make_case(Module::kAttention, 5, 1);
  c.desc.window = 3;
  ModuleValues values = make_module_values(c, DType::kFp64);
  values[{Part::kIn, S::q}] = filled(values[{Part::kIn, S::q}], 0);
  values[{Part::kIn, S::v}].values = {6, 12, 18, 24, 30};
  const std::vector<double> want = {6, 9, 12, 18, 24};
  const std::vector<double> y = output(c, values);
  const std::vector<double> lse = output(c, values, S::lse);
  for (size_t i = 0; i < want.size(); ++i) {
    EXPECT_NEAR(y[i], want[i], 1e-12);
    EXPECT_NEAR(lse[i], std::log(std::fmin(static_cast<double>(i + 1), 3.0)), 1e-15);
  }
}

TEST(ModuleClosedForms, NormsOfSimpleRows) {
  ModuleCase rms = make_case(Module::kRmsNorm, 1, 4);
  ModuleValues values = make_module_values(rms, DType::kFp64);
  values[{Part::kIn, 0}].values = {-3, 3, 3, -3};
  values[{Part::kIn, 1}].values = {1, 2, 3, 4};
  EXPECT_EQ(output(rms, values), (std::vector<double>{-1, 2, 3, -4}));
  ModuleCase layer = make_case(Module::kLayerNorm, 1, 4);
  values[{Part::kIn, 0}].values = {7, 13, 13, 7};
  values[{Part::kIn, 2}] = filled(values[{Part::kIn, 1}], 10);
  EXPECT_EQ(output(layer, values), (std::vector<double>{9, 12, 13, 6}));
}

TEST(ModuleClosedForms, EqualLayersGiveEvenLowerBounds) {
  ModuleCase c = make_case(Module::kHgrn2LowerBounds, 4, 1);
  ModuleValues values = make_module_values(c, DType::kFp64);
  values[{Part::kIn, 0}] = filled(values[{Part::kIn, 0}], 0.3);
  EXPECT_EQ(output(c, values), (std::vector<double>{0, 0.25, 0.5, 0.75}));
}

TEST(ModuleClosedForms, TokenShiftMixesWithTheTokenBefore) {
  using S = slot::TokenShift;
  ModuleCase c = make_case(Module::kTokenShift, 3, 1);
  c.desc.taps = 2;
  ModuleValues values = make_module_values(c, DType::kFp64);
  values[{Part::kIn, S::x}].values = {2, 4, 8};
  values[{Part::kIn, S::mix}].values = {0, 0.5};
  EXPECT_EQ(output(c, values), (std::vector<double>{2, 1, 4, 3, 8, 6}));
}

constexpr int64_t kPieceRows = 11;  // of a call that pieces of 1, 4 and 6 rows must equal

/// Rows [begin, end) of such a call as a call of its own.
ModuleValues piece(const ModuleValues& whole, int64_t begin, int64_t end) {
  ModuleValues values;
  for (const auto& [key, tensor] : whole) {
    const bool rows = key.part == Part::kIn && tensor.shape[0] == kPieceRows;
    values[key] = rows ? slice(tensor, 0, begin, end) : tensor;
  }
  return values;
}

/// The whole call against pieces whose states go from piece to piece.
void check_pieces(const ModuleCase& whole, size_t initial, size_t state, size_t weight) {
  ModuleValues all = make_module_values(whole, DType::kFp64);
  const std::vector<double> want = output(whole, all);
  ModuleCase part = whole;
  part.desc.given |= 1U << initial;
  part.desc.given_out = 1U << state;
  std::vector<double> got;
  HostTensor carried;
  int64_t begin = 0;
  for (const int64_t rows : {1, 4, 6}) {
    part.desc.rows = rows;
    ModuleValues values = piece(all, begin, begin + rows);
    values[{Part::kIn, weight}] = all[{Part::kIn, weight}];
    if (begin == 0)
      carried = filled(make_module_values(part, DType::kFp64)[{Part::kIn, initial}], 0);
    values[{Part::kIn, initial}] = carried;
    const ModuleValues out = forward(part, values);
    carried = out.at({Part::kOut, state});
    const std::vector<double>& y = out.at({Part::kOut, 0}).values;
    got.insert(got.end(), y.begin(), y.end());
    begin += rows;
  }
  EXPECT_EQ(got, want);
}

TEST(ModulePieces, ConvolutionAndShiftWithStatesEqualTheWhole) {
  ModuleCase conv = make_case(Module::kShortConv, kPieceRows, 3);
  conv.desc.taps = 4;
  conv.desc.function = Function::kSilu;
  check_pieces(conv, slot::ShortConv::initial_state, slot::ShortConv::final_state,
               slot::ShortConv::weight);
  ModuleCase shift = make_case(Module::kTokenShift, kPieceRows, 3);
  shift.desc.taps = 2;
  check_pieces(shift, slot::TokenShift::initial_state, slot::TokenShift::final_state,
               slot::TokenShift::mix);
}

TEST(ModulePieces, AttentionWithCachesAndRotaryWithPositionsEqualTheWhole) {
  using S = slot::Attention;
  ModuleCase whole = make_case(Module::kAttention, kPieceRows, 8);
  whole.desc.heads = 2;
  whole.desc.window = 5;
  const ModuleValues all = make_module_values(whole, DType::kFp64);
  const std::vector<double> want = output(whole, all);
  ModuleCase turn = make_case(Module::kRotary, kPieceRows, 8);
  const std::vector<double> turned = output(turn, all);
  turn.desc.given = 1U << slot::Rotary::positions;
  ModuleCase part = whole;
  part.desc.cache_length = 12;
  part.desc.given = 1U << S::positions | 1U << S::k_cache | 1U << S::v_cache;
  part.positions = {0};
  ModuleValues caches = make_module_values(part, DType::kFp64);
  size_t done = 0;
  for (const int64_t rows : {1, 4, 6}) {
    part.desc.rows = turn.desc.rows = rows;
    ModuleValues values = piece(all, part.positions[0], part.positions[0] + rows);
    for (const size_t cache : {S::k_cache, S::v_cache})
      values[{Part::kIn, cache}] = caches[{Part::kIn, cache}];
    values[{Part::kIn, S::positions}] = {
        DType::kInt32, {1, 1}, {static_cast<double>(part.positions[0])}};
    caches = forward(part, values);
    values[{Part::kIn, slot::Rotary::positions}] = values[{Part::kIn, S::positions}];
    const std::vector<double> rotated = output(turn, values);
    const std::vector<double>& y = caches.at({Part::kOut, S::y}).values;
    for (size_t i = 0; i < y.size(); ++i, ++done) {
      EXPECT_EQ(y[i], want[done]);
      EXPECT_EQ(rotated[i], turned[done]);
    }
    part.positions[0] += rows;
  }
}

}  // namespace
}  // namespace fla::test

// SPDX-License-Identifier: MIT
// Closed forms, and identities between operators, of forward and reverse.
#include <algorithm>
#include <cmath>
#include <cstdint>
#include <string>
#include <vector>

#include <gtest/gtest.h>

#include "cases.h"

namespace fla::ref {
namespace {

using enum Slot;

constexpr double kTolerance = 1e-13;

void expect_equal(const std::vector<double>& expected, const std::vector<double>& got) {
  ASSERT_EQ(expected.size(), got.size());
  EXPECT_LE(relative_rms_error(expected, got), kTolerance);
}

/// A plain case with `more` inputs given.
Case case_of(const std::string& op, std::vector<Slot> more = {}) {
  Case c = plain_case(op);
  c.slots.insert(c.slots.end(), more.begin(), more.end());
  return c;
}

/// One head, scale 1, with every input zero and the state zero.
Case single_head(const std::string& op, int64_t T, int64_t K, int64_t V) {
  Case c = plain_case(op);
  c.desc.T = T;
  c.desc.H = c.desc.HV = 1;
  c.desc.K = K;
  c.desc.V = V;
  c.desc.scale = 1.0F;
  return c;
}

/// Each element `times` times in a row: a value per head becomes one per channel.
std::vector<double> repeated(const std::vector<double>& x, int64_t times) {
  std::vector<double> y;
  for (const double element : x) {
    y.insert(y.end(), times, element);
  }
  return y;
}

/// Sums of `times` neighbours: the reverse of repeated().
std::vector<double> folded(const std::vector<double>& x, int64_t times) {
  std::vector<double> y(x.size() / times);
  for (size_t i = 0; i < x.size(); ++i) {
    y[i / times] += x[i];
  }
  return y;
}

/// Same inputs under both operators: same outputs, and same gradients of `slots`.
void expect_same(const Case& a, const Arrays<double>& in_a, const Case& b,
                 const Arrays<double>& in_b, const std::vector<Slot>& slots) {
  const Arrays<double> out_a = run_forward(a, in_a);
  const Arrays<double> out_b = run_forward(b, in_b);
  expect_equal(out_a[kO], out_b[kO]);
  expect_equal(out_a[kFinalState], out_b[kFinalState]);
  const Arrays<double> dout = make_output_gradients(a);
  const Arrays<double> grad_a = run_backward(a, in_a, dout);
  const Arrays<double> grad_b = run_backward(b, in_b, dout);
  for (const Slot slot : slots) {
    SCOPED_TRACE(static_cast<int>(slot));
    expect_equal(grad_a[slot], grad_b[slot]);
  }
}

/// faults.md V24: k = q = e0, v1 = 2 e0, v2 = 0, beta = 1, 1/2, decay of the second token 1/2.
std::vector<double> two_token_outputs(const std::string& op, int64_t V) {
  constexpr int64_t K = 16;
  Case c = single_head(op, 2, K, V);
  Arrays<double> in;
  in[kQ].resize(2 * K);
  in[kQ][0] = in[kQ][K] = 1.0;
  in[kK] = in[kQ];
  in[kV].resize(2 * V);
  in[kV][0] = 2.0;
  in[kBeta] = {1.0, 0.5};
  in[kG] = {0.0, std::log(0.5)};
  if (op == "kda") {
    in[kG] = repeated(in[kG], K);
  }
  in[kInitialState].resize(K * V);
  return run_forward(c, in)[kO];
}

TEST(ClosedForm, DecayComesBeforeTheErase) {
  for (const std::string op : {"gdn", "kda", "gated_delta_product"}) {
    for (const int64_t V : {16, 32}) {
      std::vector<double> expected(2 * V);
      expected[0] = 2.0;
      expected[V] = 0.5;
      EXPECT_EQ(two_token_outputs(op, V), expected) << op;
    }
  }
}

TEST(ClosedForm, CombaErasesBeforeTheDecay) {
  EXPECT_EQ(two_token_outputs("comba", 16)[0], 2.0);
  EXPECT_EQ(two_token_outputs("comba", 16)[16], 0.0);
}

Arrays<double> ones(const Case& c) {
  Arrays<double> in;
  for (const Slot slot : c.slots) {
    in[slot].assign(slot_elems(c, slot), 1.0);
  }
  in[kInitialState].assign(slot_elems(c, kInitialState), 0.0);
  in[kInitialState2].assign(slot_elems(c, kInitialState2), 0.0);
  return in;
}

TEST(ClosedForm, LinearAttnSumsAndAverages) {
  Case c = single_head("linear_attn", 4, 1, 1);
  Arrays<double> in = ones(c);
  in[kV] = {1.0, 2.0, 4.0, 8.0};
  in[kInitialState] = {100.0};
  EXPECT_EQ(run_forward(c, in)[kO], (std::vector<double>{101.0, 103.0, 107.0, 115.0}));
  c.desc.normalize = true;
  in[kInitialState] = {0.0};
  in[kInitialState2] = {0.0};
  const std::vector<double> means = run_forward(c, in)[kO];
  EXPECT_NEAR(means[3], 15.0 / 4.0, 1e-9);
  EXPECT_NEAR(means[1], 3.0 / 2.0, 1e-9);
}

TEST(ClosedForm, ConstantDecaysOfAHead) {
  Case c = single_head("retention", 3, 1, 1);
  c.desc.H = c.desc.HV = 2;
  Arrays<double> in = ones(c);
  in[kV].assign(6, 0.0);
  in[kInitialState] = {1.0, 1.0};
  const std::vector<double> state = run_forward(c, in)[kFinalState];
  EXPECT_DOUBLE_EQ(state[0], std::pow(1.0 - 1.0 / 32.0, 3));
  EXPECT_DOUBLE_EQ(state[1], std::pow(1.0 - 1.0 / 64.0, 3));
  c.op = "lightning_attn";
  c.desc.layer_idx = 1;
  c.desc.num_layers = 4;
  const std::vector<double> slopes = run_forward(c, in)[kFinalState];
  EXPECT_DOUBLE_EQ(slopes[0], 1.0);
  EXPECT_DOUBLE_EQ(slopes[1], std::exp(-3.0 * 8.0 / 2.0 * 0.75));
}

TEST(ClosedForm, HgrnIsAFirstOrderScan) {
  Case c = single_head("hgrn", 3, 1, 1);
  Arrays<double> in = ones(c);
  in[kG].assign(3, std::log(0.5));
  in[kV] = {1.0, 0.0, 2.0};
  in[kInitialState] = {4.0};
  const std::vector<double> o = run_forward(c, in)[kO];
  expect_equal({3.0, 1.5, 2.75}, o);
}

TEST(ClosedForm, GsaWithOneSlotIsHgrn) {
  Case gsa = single_head("gsa", 5, 3, 2);
  gsa.desc.M = 1;
  const Arrays<double> in = make_inputs(gsa);
  Case hgrn = single_head("hgrn", 5, 1, 2);
  Arrays<double> scan;
  scan[kG] = repeated(in[kG], 2);
  scan[kV] = in[kV];
  for (size_t i = 0; i < in[kV].size(); ++i) {
    scan[kV][i] *= in[kS][i / 2];
  }
  scan[kInitialState] = in[kInitialState2];
  expect_equal(run_forward(hgrn, scan)[kO], run_forward(gsa, in)[kO]);
}

TEST(ClosedForm, NoTokensKeepTheState) {
  for (const Operator* op : operators()) {
    Case c = plain_case(std::string(op->name));
    c.desc.T = 0;
    const Arrays<double> in = make_inputs(c);
    const Arrays<double> out = run_forward(c, in);
    EXPECT_TRUE(out[kO].empty());
    EXPECT_EQ(out[kFinalState], in[kInitialState]);
    EXPECT_EQ(out[kFinalState2], in[kInitialState2]);
    const Arrays<double> dout = make_output_gradients(c);
    EXPECT_EQ(run_backward(c, in, dout)[kInitialState], dout[kFinalState]);
  }
}

/// Mamba-2 as its paper writes it, one head at a time, state [V,K].
std::vector<double> mamba2(const OpDesc& d, const Arrays<double>& in) {
  std::vector<double> y(in[kV].size());
  for (int64_t hv = 0; hv < d.HV; ++hv) {
    const int64_t h = hv / (d.HV / d.H);
    std::vector<double> state(d.V * d.K);
    for (int64_t p = 0; p < d.V; ++p) {
      for (int64_t n = 0; n < d.K; ++n) {
        state[p * d.K + n] = in[kInitialState][(hv * d.K + n) * d.V + p];
      }
    }
    for (int64_t t = 0; t < d.T; ++t) {
      const double dt = std::log1p(std::exp(in[kG][t * d.HV + hv] + in[kDtBias][hv]));
      for (int64_t p = 0; p < d.V; ++p) {
        const int64_t i = (t * d.HV + hv) * d.V + p;
        y[i] = in[kDSkip][hv] * in[kV][i];
        for (int64_t n = 0; n < d.K; ++n) {
          double& s = state[p * d.K + n];
          s = std::exp(-std::exp(in[kALog][hv]) * dt) * s +
              dt * in[kV][i] * in[kK][(t * d.H + h) * d.K + n];
          y[i] += in[kQ][(t * d.H + h) * d.K + n] * s;
        }
      }
    }
  }
  return y;
}

TEST(ClosedForm, SsdIsMamba2) {
  Case c = case_of("ssd", {kDSkip, kDtBias});
  c.desc.H = 2;
  c.desc.HV = 4;
  const Arrays<double> in = make_inputs(c);
  expect_equal(mamba2(c.desc, in), run_forward(c, in)[kO]);
}

TEST(Identity, KdaWithEqualChannelsIsGdn) {
  const Case gdn = case_of("gdn", {kG});
  const Case kda = case_of("kda");
  const Arrays<double> in = make_inputs(gdn);
  Arrays<double> wide = in;
  wide[kG] = repeated(in[kG], kda.desc.K);
  expect_same(gdn, in, kda, wide, {kQ, kK, kV, kBeta, kInitialState});
  const Arrays<double> dout = make_output_gradients(gdn);
  expect_equal(run_backward(gdn, in, dout)[kG],
               folded(run_backward(kda, wide, dout)[kG], kda.desc.K));
}

TEST(Identity, PrecondKdaWithEqualChannelsIsPrecondGdn) {
  const Case gdn = case_of("precond_gdn", {kLogAtkScale});
  const Case kda = case_of("precond_kda", {kLogAtkScale});
  const Arrays<double> in = make_inputs(gdn);
  Arrays<double> wide = in;
  wide[kG] = repeated(in[kG], kda.desc.K);
  expect_same(gdn, in, kda, wide,
              {kQ, kK, kV, kBeta, kGAtk, kBetaAtk, kLogAtkScale, kInitialState, kInitialState2});
}

TEST(Identity, PrecondWithUnitMultiplierIsKda) {
  const Case precond = case_of("precond_kda", {kLogAtkScale});
  Arrays<double> in = make_inputs(precond);
  in[kGAtk].assign(in[kGAtk].size(), 0.0);
  in[kBetaAtk].assign(in[kBetaAtk].size(), 0.0);
  in[kInitialState2].assign(in[kInitialState2].size(), 0.7);
  in[kLogAtkScale].assign(in[kLogAtkScale].size(), std::log(0.7 + 1e-6));
  const Arrays<double> precond_out = run_forward(precond, in);
  const Arrays<double> kda_out = run_forward(case_of("kda"), in);
  expect_equal(kda_out[kO], precond_out[kO]);
  expect_equal(kda_out[kFinalState], precond_out[kFinalState]);
}

TEST(Identity, GdnWithoutDecayIsDeltaRule) {
  const Case delta = case_of("delta_rule");
  Arrays<double> in = make_inputs(delta);
  expect_same(delta, in, case_of("gdn"), in, {kQ, kK, kV, kBeta, kInitialState});
  Arrays<double> gated = in;
  gated[kG].assign(in[kBeta].size(), 0.0);
  expect_same(delta, in, case_of("gdn", {kG}), gated, {kQ, kK, kV, kBeta, kInitialState});
}

TEST(Identity, CombaDiffersFromGdnUnlessThereIsNoDecay) {
  const Case comba = case_of("comba", {kBeta});
  const Case gdn = case_of("gdn", {kG});
  Arrays<double> in = make_inputs(comba);
  EXPECT_GT(relative_rms_error(run_forward(gdn, in)[kO], run_forward(comba, in)[kO]), 1e-3);
  in[kG].assign(in[kG].size(), 0.0);
  expect_same(gdn, in, comba, in, {kQ, kK, kV, kBeta, kInitialState});
}

TEST(Identity, GatedDeltaProductWithOneStepIsGdn) {
  const Case gdn = case_of("gdn", {kG});
  const Arrays<double> in = make_inputs(gdn);
  expect_same(gdn, in, case_of("gated_delta_product", {kG}), in,
              {kQ, kK, kV, kG, kBeta, kInitialState});
}

TEST(Identity, GatedDeltaProductIsGdnOnInterleavedTokens) {
  Case product = case_of("gated_delta_product", {kG});
  product.desc.num_householder = 2;
  const Arrays<double> in = make_inputs(product);
  Case gdn = case_of("gdn", {kG});
  gdn.desc.T = 2 * product.desc.T;
  gdn.desc.scale = static_cast<float>(1.0);
  product.desc.scale = gdn.desc.scale;
  Arrays<double> inner = in;
  const int64_t HV = product.desc.HV;
  const int64_t key_elems = product.desc.H * product.desc.K;
  inner[kG].assign(2 * in[kG].size(), 0.0);
  inner[kQ].assign(2 * in[kQ].size(), 0.0);
  for (int64_t t = 0; t < product.desc.T; ++t) {
    std::copy_n(in[kG].begin() + t * HV, HV, inner[kG].begin() + 2 * t * HV);
    std::copy_n(in[kQ].begin() + t * key_elems, key_elems,
                inner[kQ].begin() + (2 * t + 1) * key_elems);
  }
  const std::vector<double> o = run_forward(gdn, inner)[kO];
  std::vector<double> last_steps;
  const int64_t row_elems = HV * product.desc.V;
  for (int64_t t = 0; t < product.desc.T; ++t) {
    const auto first = o.begin() + (2 * t + 1) * row_elems;
    last_steps.insert(last_steps.end(), first, first + row_elems);
  }
  expect_equal(last_steps, run_forward(product, in)[kO]);
}

TEST(Identity, Gdn2WithEqualGatesIsKda) {
  const Case kda = case_of("kda");
  const Case gdn2 = case_of("gdn2");
  const Arrays<double> in = make_inputs(kda);
  Arrays<double> wide = in;
  wide[kEraseGate] = repeated(in[kBeta], kda.desc.K);
  wide[kWriteGate] = repeated(in[kBeta], kda.desc.V);
  expect_same(kda, in, gdn2, wide, {kQ, kK, kV, kG, kInitialState});
}

TEST(Identity, KdaIsDplrWithItsOwnReadAndWriteVectors) {
  Case kda = case_of("kda");
  kda.desc.H = 2;
  const Arrays<double> in = make_inputs(kda);
  Case dplr = case_of("dplr_delta_rule");
  dplr.desc.H = 2;
  Arrays<double> vectors = in;
  vectors[kB] = in[kK];
  vectors[kA] = in[kK];
  for (size_t i = 0; i < in[kK].size(); ++i) {
    vectors[kA][i] *= -std::exp(in[kG][i]) * in[kBeta][i / 3];
  }
  for (size_t i = 0; i < in[kV].size(); ++i) {
    vectors[kV][i] *= in[kBeta][i / 2];
  }
  expect_same(kda, in, dplr, vectors, {kQ, kInitialState});
}

TEST(Identity, Rwkv7IsDplr) {
  Case dplr = case_of("dplr_delta_rule");
  Case rwkv7 = case_of("rwkv7");
  const Arrays<double> in = make_inputs(dplr);
  dplr.desc.scale = 1.0F;
  expect_same(dplr, in, rwkv7, in, {kQ, kK, kV, kA, kB, kG, kInitialState});
}

TEST(Identity, IplrIsDplrWithoutDecay) {
  const Case iplr = case_of("iplr_delta_rule");
  const Arrays<double> in = make_inputs(iplr);
  Arrays<double> gated = in;
  gated[kG].assign(slot_elems(case_of("dplr_delta_rule"), kG), 0.0);
  expect_same(iplr, in, case_of("dplr_delta_rule"), gated, {kQ, kK, kV, kA, kB, kInitialState});
}

TEST(Identity, GlaWithEqualChannelsIsSimpleGla) {
  const Case simple = case_of("simple_gla", {kG});
  const Arrays<double> in = make_inputs(simple);
  Arrays<double> wide = in;
  wide[kG] = repeated(in[kG], simple.desc.K);
  expect_same(simple, in, case_of("gla"), wide, {kQ, kK, kV, kInitialState});
}

TEST(Identity, SimpleGlaWithoutGateIsLinearAttn) {
  const Case linear = case_of("linear_attn");
  const Arrays<double> in = make_inputs(linear);
  expect_same(linear, in, case_of("simple_gla"), in, {kQ, kK, kV, kInitialState});
}

TEST(Identity, RetentionIsSimpleGlaWithItsConstants) {
  const Case retention = case_of("retention");
  Arrays<double> in = make_inputs(retention);
  Arrays<double> gamma = in;
  gamma[kGGamma] = {std::log1p(-1.0 / 32.0), std::log1p(-1.0 / 64.0)};
  expect_same(retention, in, case_of("simple_gla", {kGGamma}), gamma, {kQ, kK, kV, kInitialState});
}

TEST(Identity, Hgrn2IsGlaWithTheComplementAsKey) {
  Case hgrn2 = case_of("hgrn2");
  Case gla = case_of("gla");
  hgrn2.desc.H = gla.desc.H = 2;
  const Arrays<double> in = make_inputs(hgrn2);
  Arrays<double> keyed = in;
  keyed[kK] = in[kG];
  for (double& x : keyed[kK]) {
    x = 1.0 - std::exp(x);
  }
  expect_same(hgrn2, in, gla, keyed, {kQ, kV, kInitialState});
}

TEST(Identity, Rwkv6WithUnitBonusAndNoDecayIsLinearAttn) {
  const Case rwkv6 = case_of("rwkv6");
  Arrays<double> in = make_inputs(rwkv6);
  in[kG].assign(in[kG].size(), 0.0);
  in[kU].assign(in[kU].size(), 1.0);
  expect_same(rwkv6, in, case_of("linear_attn"), in, {kQ, kK, kV, kInitialState});
}

class EveryOperator : public testing::TestWithParam<std::string> {};
class EveryKeyedOperator : public testing::TestWithParam<std::string> {};

TEST_P(EveryKeyedOperator, GroupsEqualRepeatedKeyHeads) {
  Case grouped = case_of(GetParam());
  Case repeated_heads = grouped;
  repeated_heads.desc.H = grouped.desc.HV;
  const Arrays<double> in = make_inputs(grouped);
  Arrays<double> wide = in;
  const int64_t tokens = grouped.desc.T;
  for (const Slot slot : {kQ, kK, kA, kB, kP, kGAtk, kBetaAtk, kU, kInitialState2}) {
    const size_t expected = slot_elems(repeated_heads, slot);
    if (!in.has(slot) || in[slot].size() == expected) {
      continue;
    }
    const int64_t rows = slot == kU || slot == kInitialState2 ? 1 : tokens;
    const int64_t width = static_cast<int64_t>(in[slot].size()) / rows;
    wide[slot].clear();
    for (int64_t r = 0; r < rows; ++r) {
      for (int copy = 0; copy < 2; ++copy) {
        const auto first = in[slot].begin() + r * width;
        wide[slot].insert(wide[slot].end(), first, first + width);
      }
    }
  }
  expect_same(grouped, in, repeated_heads, wide, {kV, kG, kBeta, kInitialState});
}

TEST_P(EveryOperator, PackedSequencesAreIndependent) {
  Case packed = case_of(GetParam());
  packed.desc.N = 3;
  const Arrays<double> in = make_inputs(packed);
  const Arrays<double> out = run_forward(packed, in);
  const Problem problem = make_problem(packed);
  for (int64_t n = 0; n < 3; ++n) {
    const Sequence& sequence = problem.sequences[n];
    Case alone = packed;
    alone.desc.N = 0;
    alone.desc.T = sequence.end - sequence.begin;
    Arrays<double> part = in;
    for (const Slot slot : packed.slots) {
      if (slot_elems(packed, slot) == slot_elems(alone, slot)) {
        continue;
      }
      const int64_t width = slot_elems(packed, slot) / packed.desc.T;
      const auto first = in[slot].begin();
      part[slot].assign(first + sequence.begin * width, first + sequence.end * width);
    }
    for (const Slot slot : {kInitialState, kInitialState2}) {
      part[slot] = row(in[slot], n, slot_elems(alone, slot));
    }
    const Arrays<double> alone_out = run_forward(alone, part);
    EXPECT_EQ(row(out[kFinalState], n, slot_elems(alone, kFinalState)), alone_out[kFinalState]);
    EXPECT_EQ(row(out[kFinalState2], n, slot_elems(alone, kFinalState2)), alone_out[kFinalState2]);
    const int64_t width = slot_elems(packed, kO) / packed.desc.T;
    const auto first = out[kO].begin();
    EXPECT_EQ(std::vector<double>(first + sequence.begin * width, first + sequence.end * width),
              alone_out[kO]);
  }
}

std::vector<std::string> operator_names() {
  std::vector<std::string> names;
  for (const Operator* op : operators()) {
    names.emplace_back(op->name);
  }
  return names;
}

/// All but hgrn, which has no key heads.
std::vector<std::string> keyed_operator_names() {
  std::vector<std::string> names = operator_names();
  std::erase(names, "hgrn");
  return names;
}

std::string label(const testing::TestParamInfo<std::string>& info) {
  return info.param;
}

INSTANTIATE_TEST_SUITE_P(Ref, EveryOperator, testing::ValuesIn(operator_names()), label);
INSTANTIATE_TEST_SUITE_P(Ref, EveryKeyedOperator, testing::ValuesIn(keyed_operator_names()), label);

}  // namespace
}  // namespace fla::ref
